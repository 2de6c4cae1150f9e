"""Series of questions: a filter, a mask and a draw of noise for each component.

The distance of two streams is computed exactly, from the numbers inside the real machine's messages, as in
`test_series_account`. With Gaussian noise its Euclidean norm over all slots and components gives the loss.
"""

import math
from itertools import pairwise

import msgspec
import numpy as np
import pytest
from tests.attack.judges import second_verifier
from tests.doubles import Harness, ScriptedNoise, known_ephemeral, known_key, known_series

from tacit.base.errors import ParameterError
from tacit.core.noise.safe import SafeGaussian
from tacit.core.protocol.agent import AgentMachine
from tacit.core.protocol.answer import slot_answer
from tacit.core.protocol.codec import Codec
from tacit.core.protocol.effects import Heard, ReadingReady, Start, Tick
from tacit.core.protocol.keeper import KeeperMachine
from tacit.core.protocol.masks import centred, mask, total
from tacit.core.protocol.messages import COORDINATOR
from tacit.core.protocol.notices import MeanPublished
from tacit.core.protocol.private_state import Budget
from tacit.core.protocol.records import Closed, Sampled, Spoke
from tacit.core.protocol.session import Session
from tacit.core.question import (
    Count,
    GroupBy,
    Histogram,
    Mean,
    Quantile,
    Several,
    Sum,
    Variance,
    WeightedMean,
)
from tacit.core.series import Hides, epsilon_of, loss_with
from tacit.core.series.design import accepted_as
from tacit.core.series.vectors import Vectors
from tacit.live.runtime.noise import noise_of_series
from tacit.live.runtime.transcript import TranscriptWriter
from tacit.live.sessions.file import read_session, write_session
from tacit.live.verification.verdict import verify

BUCKETS = Histogram([0, 1, 2, 5])
HALF = Hides("step", 1.0)
ASKED = {  # two records that are as far apart as records can be
    BUCKETS: (0.5, 4.0),
    Histogram(["gas", "oil"]): ("gas", "wood"),
    Quantile([0, 1, 2]): (0.5, 1.5),
    Count(): (False, True),
    Sum(0, 3): (0, 3),
    Mean(0, 10, 3): ((0, 0, 0), (10, 10, 10)),
    Variance(0, 10): (0, 10),
    WeightedMean(0, 10): ((1, 0), (1, 10)),
    GroupBy(["a", "b"], Count()): (("a", True), ("b", True)),
    GroupBy(["a", "b"], Mean(0, 1)): (("a", 0), ("a", 1)),
    GroupBy(["a", "b"], Variance(0, 1)): (("a", 1), ("b", 1)),
    Several([Count(), BUCKETS]): ((False, 0.5), (True, 4.0)),
}
SALT = bytes(32)


def asked_id(case):
    return getattr(case, "kind", None)


def said(session, records):
    """Return the numbers of all slots and components, in grid steps; None is no reading."""
    machine = AgentMachine(
        session, 0, sign=known_key(0).sign, budget=Budget(50.0), private=known_ephemeral(0)
    )
    machine.handle(Start())
    for j in session.keeper_numbers:
        keeper = KeeperMachine(session, j, sign=known_key(j).sign, private=known_ephemeral(j))
        machine.handle(Heard(keeper.keyring.frames[j]))
    secrets = [machine.keyring.secret(j) for j in session.keeper_numbers]
    found = np.zeros((session.series.slots, session.components))
    for slot, record in enumerate(records):
        when = session.series.begin_of(slot)
        machine.handle(Tick(when, when))
        for one in machine.handle(ReadingReady(slot, record, SALT)).records:
            if isinstance(one, Spoke):
                body = Codec(session).open(one.frame).body
                masks = [mask(secret, slot, body.salt, session.masked_bytes) for secret in secrets]
                plain = total([body.numbers], session.mask_bytes, minus=masks)
                found[slot] = centred(plain, session.mask_bytes)
    return found


def with_series(session, **changed):
    given = ("name", "roster", "coordinator", "keepers", "deadlines", "expires", "asked")
    rest = {name: getattr(session, name) for name in given}
    return Session.of_series(msgspec.structs.replace(session.series, **changed), **rest)


def true_loss(session, one, other):
    moved = np.linalg.norm(said(session, one) - said(session, other))
    return epsilon_of(moved / session.series.steps, session.series.delta) if moved else 0.0


# ---- the account ------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", ASKED, ids=asked_id)
@pytest.mark.parametrize("hides", ["reading", "window:3", "step"])
def test_the_account_is_what_the_furthest_records_cost_and_no_more(asked, hides):
    session = known_series(3, 6, question=asked, hides=hides)
    low, high = ASKED[asked]
    changed = {"reading": [2], "window:3": [1, 2, 3], "step": range(6)}[hides]
    records = [high if slot in changed else low for slot in range(6)]
    found = true_loss(session, [low] * 6, records)
    assert 0.98 * session.series.loss < found <= session.series.loss <= 1.0


def test_a_sensitivity_that_is_too_small_by_the_root_of_two_is_caught():
    """The planted bug: one-hot vectors taken as if they moved by 1, as single numbers of the range do."""
    session = known_series(3, 6, question=BUCKETS, hides="step")
    far = session.series.distance
    assert far == pytest.approx(math.sqrt(2))
    wrong = msgspec.structs.replace(
        session.series, hides=Hides("step", far / math.sqrt(2)), steps=session.series.steps / math.sqrt(2)
    )
    claimed = loss_with(
        "square-root", 6, wrong.hides, grid=wrong.grid, steps=wrong.steps, delta=wrong.delta,
        vectors=Vectors(3, 1.0, 2.0),
    )  # fmt: skip
    moved = np.linalg.norm(said(session, [0.5] * 6) - said(session, [4.0] * 6))
    assert claimed <= 1.0 + 1e-9 < 1.4 < epsilon_of(moved / wrong.steps, wrong.delta)
    with pytest.raises(ParameterError, match=r"distance 1\.414"):
        with_series(session, distance=1.0, hides=HALF)
    with pytest.raises(ParameterError, match="no size"):  # a smaller step says nothing about records
        with_series(session, hides=HALF)


@pytest.mark.parametrize("failing", [{2}, {2, 3, 4}, {0, 1}, {5}])
@pytest.mark.parametrize("hides", ["reading", "step"])
def test_failed_readings_never_cost_more(failing, hides):
    session = known_series(3, 6, question=BUCKETS, hides=hides)
    for begins in range(6):
        one = [None if t in failing else 0.5 for t in range(6)]
        if hides == "step":
            other = [None if t in failing else (4.0 if t >= begins else 0.5) for t in range(6)]
        else:
            other = [4.0 if t == begins and t not in failing else x for t, x in enumerate(one)]
        assert true_loss(session, one, other) <= session.series.loss


def test_a_slot_without_a_reading_repeats_the_vector_or_says_nothing():
    held = known_series(3, 4, question=BUCKETS, hides="step")
    assert np.array_equal(said(held, [1.5, None, None, 4]), said(held, [1.5, 1.5, 1.5, 4]))
    silent = said(known_series(3, 4, question=BUCKETS, hides="reading"), [1.5, None, 4, None])
    assert not silent[[1, 3]].any()
    assert np.flatnonzero(silent[0]).tolist() == [1]


def test_an_agent_that_has_not_read_yet_counts_as_the_stand_in():
    """As the zero vector of a histogram, and as the middle of the range of a variance: not as its corner."""
    for asked, record in ((BUCKETS, 4), (Variance(0, 10), 9)):
        session = known_series(3, 3, question=asked, hides="step")
        numbers = said(session, [None, None, record])
        assert not numbers[:2].any()
        vector = np.array(asked.encode(record).vector, dtype=float) - np.array(asked.stand_in, dtype=float)
        assert numbers[2] * session.series.grid.step == pytest.approx(vector, abs=1e-8)


def test_a_total_variation_of_vectors_bounds_every_walk():
    """Section 9: a stream that jumps again and again moves the messages by at most the sum of its jumps."""
    session, rng = known_series(3, 8, question=BUCKETS, hides="step"), np.random.default_rng(3)
    step, energy = session.series.grid.step, sum(math.comb(2 * k, k) ** 2 / 16**k for k in range(8))
    for _ in range(5):
        streams = rng.uniform(0, 5, (2, 8))
        one, other = ([np.array(BUCKETS.encode(x).vector) for x in stream] for stream in streams)
        apart = [np.zeros(3), *(a - b for a, b in zip(one, other, strict=True))]
        variation = sum(float(np.linalg.norm(b - a)) for a, b in pairwise(apart))
        moved = np.linalg.norm(said(session, streams[0]) - said(session, streams[1])) * step
        assert moved <= variation * math.sqrt(energy) + 8 * step


# ---- noise: each component has its own ----------------------------------------------------------------


def drawn(session, source, slots):
    noise, found = noise_of_series(session, source), []
    for slot in range(slots):
        noise.refill()
        found.append(noise.take(slot))
    return np.array(found, dtype=float)


def alike(draws):
    """Whether two components have noise that is not independent; false alarms below 1e-6."""
    corner = np.corrcoef(draws.T)[np.triu_indices(draws.shape[1], 1)]
    return np.abs(corner).max() > 5.2 / math.sqrt(len(draws))


class Reused:
    """The planted bug: one draw for all components of a slot."""

    @staticmethod
    def draw(scale, size=None):
        return np.full(size, SafeGaussian().draw(scale, 1)[0])


def test_every_component_of_a_slot_has_a_draw_of_its_own():
    session = known_series(3, 400, question=BUCKETS, hides="reading", interval=1.0)
    honest = drawn(session, None, 400)
    assert honest.shape == (400, 3)
    assert not alike(honest)
    assert alike(drawn(session, Reused(), 400))


# ---- machines -----------------------------------------------------------------------------------------


def run(session, records, draws):
    values = [lambda slot, i=i: records[i][slot] for i in range(session.n)]
    harness = Harness(session, values, ScriptedNoise(draws))
    harness.start()
    assert harness.run(Harness.finished)
    closed = [r for r in harness.ledgers[COORDINATOR].records() if isinstance(r, Closed)]
    notices = [note for note in harness.notices[COORDINATOR] if isinstance(note, MeanPublished)]
    return harness, closed, {note.slot: note for note in notices}


@pytest.mark.parametrize("hides", ["step", "reading"])
def test_machines_publish_the_answer_of_every_slot(hides):
    session, slots = known_series(3, 8, question=BUCKETS, hides=hides, loss=30.0), 8
    rng = np.random.default_rng(1)
    records = rng.uniform(-1, 6, (3, slots)).tolist()
    draws = np.rint(rng.normal(scale=session.series.steps, size=(slots, 3, 3))).astype(np.int64)
    records[1][3] = records[2][4] = None
    harness, closed, found = run(session, records, draws.astype(object))
    codec, series = Codec(session), session.series
    decoder, members = series.decoder(2, session.question), set()
    for t, record in enumerate(closed):
        sums = codec.open(record.frame).numbers
        assert len(sums) == 3
        expected = np.zeros(3, dtype=object)
        for i in record.used:
            agent = series.agent(session.question)
            read = {r.slot for r in harness.ledgers[i].records() if isinstance(r, Sampled)}
            for slot in range(t + 1):
                numbers = agent.read(records[i][slot] if slot in read else None)
            expected = expected + np.array(numbers, dtype=object)
        if record.used:
            expected = expected - draws[t, [0, 1]].astype(object).sum(axis=0)
        assert list(sums) == list(expected)
        members.update(record.used)
        decoder.add(sums, len(record.used), len(members))
        if t in found and record.used:
            answer = slot_answer(session, found[t])
            assert found[t].mean == decoder.mean()
            assert answer.records == len(members)
            assert answer.mean == decoder.mean()
    used = [len(record.used) for record in closed]
    assert used == ([3] * 8 if hides == "step" else [3, 3, 3, 2, 2, 3, 3, 3])


def test_a_lost_slot_has_no_answer():
    session = known_series(3, 4, question=BUCKETS, hides="step", loss=30.0)
    decoder = session.series.decoder(2, session.question)
    decoder.add((0, 0, 0), 0, 0)
    lost = MeanPublished.of(decoder)
    assert slot_answer(session, lost) is None
    decoder.add((2**30, 2**31, 0), 3, 3)
    decoder.add((0, 0, 0), 0, 3)
    assert decoder.mean() is None
    with pytest.raises(ParameterError, match="3 numbers"):
        decoder.add((1, 2), 3, 3)


# ---- coverage: false alarms below 1e-6 ------------------------------------------------------------------

RUNS = 120


@pytest.mark.parametrize(
    ("asked", "population"),
    [
        (BUCKETS, [0.5] * 40),  # all alike, and two buckets that nobody is in
        (BUCKETS, [0.5, 1.5, 3.0, 4.0] * 10),
        (Histogram(["a"]), ["b"]),  # one record
        (Count(), [True] * 40),
        (Sum(-1, 1), [1] * 40),  # all at one end
        (Variance(0, 10), [0, 10] * 20),
        (WeightedMean(0, 10, 2), [(0, 3)] * 40),  # weights all 0: an answer would be wrong
        (WeightedMean(0, 10, 2), [(2, 9), (1, 1)] * 20),
        (Quantile([0, 1, 2, 5]), [0.5, 1.5, 3.0, 4.0] * 10),
        (GroupBy(["a", "b"], Mean(0, 10)), [("a", 1), ("b", 10)] * 20),
    ],
    ids=lambda case: asked_id(case) or len(case),
)
@pytest.mark.parametrize("joint", [False, True])
def test_intervals_of_slots_cover_the_truth(asked, population, joint):
    """Half of the slots are lost or short of members; intervals are those of what was used."""
    n, slots = len(population), 5
    session = known_series(max(n, 1), slots, question=asked, hides="step", loss=40.0)
    series, rng = session.series, np.random.default_rng(11)
    vectors = np.array([[float(x) for x in asked.encode(record).vector] for record in population])
    true = {part.name: part.estimate for part in asked.decode(vectors.mean(axis=0).tolist(), n).parts}
    missed = dict.fromkeys([*true, "any"], 0)
    said = np.array([said_by(series, asked, record, slots) for record in population], dtype=object)
    for _ in range(RUNS):
        decoder = series.decoder(2, asked)
        for t in range(slots):
            if t == 2:
                decoder.add((0,) * asked.components, 0, n)
                continue
            noise = rng.normal(scale=series.steps * math.sqrt(2), size=asked.components)
            sums = said[:, t].sum(axis=0) + [int(x) for x in np.rint(noise)]
            decoder.add(tuple(sums), n, n)
        answer = slot_answer(session, MeanPublished.of(decoder))
        parts = (answer.together if joint else answer.each).parts
        wrong = [part.name for part in parts if not covers(part, true.get(part.name))]
        for name in wrong:
            missed[name] = missed.get(name, 0) + 1
        missed["any"] += bool(wrong)
    allowed = RUNS * 0.05 + 5 * math.sqrt(RUNS * 0.05 * 0.95)  # 4.75 deviations are exceeded once in 1e6
    assert all(missed[name] <= allowed for name in missed if name != "any")
    assert not joint or missed["any"] <= allowed


def said_by(series, asked, record, slots):
    agent = series.agent(asked)
    return [np.array(agent.read(record), dtype=object) for _ in range(slots)]


def covers(part, true):
    """Whether an interval has the truth; an answer where there is none is wrong."""
    slack = 1e-9 * (1 + abs(part.high))
    return true is not None and part.low - slack <= true <= part.high + slack


# ---- files and ids ------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", ASKED, ids=asked_id)
def test_a_series_of_a_question_is_read_as_it_was_written(asked, tmp_path):
    session = known_series(3, 6, question=asked, hides="step")
    assert Session.decode(session.encode()) == session
    write_session(session, tmp_path / "s.toml")
    read = read_session(tmp_path / "s.toml")
    assert (read, read.id) == (session, session.id)
    assert (session.components, session.question) == (asked.components, asked)
    assert accepted_as(session.series.hides, asked) == session.hidden
    assert asked.moves == math.isfinite(session.hidden.size)


def test_whole_steps_of_questions_and_steps_of_numbers_are_accepted_each_for_itself():
    whole, some = Hides.parse("step"), Hides.parse("step:2")
    assert whole.covers(whole)
    assert not whole.covers(some)  # a reading that moves by 2 can change its bucket again and again
    assert not some.covers(whole)
    assert some.covers(Hides.parse("step:1"))


def test_a_series_of_the_mean_has_the_id_it_had():
    plain = known_series(3, 8)
    assert plain.series.distance is None
    assert with_series(plain, distance=10.0).id == plain.id
    assert b"distance" not in plain.canonical
    assert b"components" not in plain.canonical


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"components": 2}, "3 components"),
        ({"distance": 1.5}, "distance 1.41"),
        ({"high": 2.0}, "from 0 to 1"),
        ({"distance": math.nan}, "must be a finite number above 0"),
        ({"slots": 5_000_000}, "at most 10,000,000 numbers"),
    ],
)
def test_what_does_not_fit_the_question_is_refused(changed, words):
    session = known_series(3, 8, question=BUCKETS, hides="step")
    with pytest.raises(ParameterError, match=words):
        with_series(session, **changed)


# ---- both verifiers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("hides", ["step", "reading"])
@pytest.mark.parametrize("asked", ASKED, ids=asked_id)
def test_both_verifiers_recompute_the_answer_of_every_slot(tmp_path, asked, hides):
    session = known_series(3, 5, question=asked, hides=hides, loss=500.0)
    rng = np.random.default_rng(4)
    low, high = ASKED[asked]
    records = [[low, high, None, high, low], [high] * 5, [low, low, high, high, None]]
    size = (5, 3) if session.components == 1 else (5, 3, session.components)
    draws = np.rint(rng.normal(scale=session.series.steps, size=size)).astype(np.int64)
    harness, _, found = run(session, records, draws.astype(object))
    with TranscriptWriter(tmp_path / "t", session, COORDINATOR, durable=False) as writer:
        writer.take(harness.ledgers[COORDINATOR].records())
    verdict = verify(tmp_path / "t")
    assert verdict.sound
    assert verdict.series.means == tuple(found[t].mean for t in range(5))
    other = second_verifier().judged([(tmp_path / "t").read_bytes()], running=False)
    assert other["verdict"] == "sound"
    means = [list(mean) if isinstance(mean, tuple) else mean for mean in verdict.series.means]
    assert other["means"] == means  # to the last bit
    assert (verdict.series.answers == ()) == (session.asked is None)
    for t, answer in enumerate(verdict.series.answers):
        assert answer == slot_answer(session, found[t])
        if answer.each.parts and len(answer.each.parts) == len(other["answers"][t]):
            pairs = zip(other["answers"][t], answer.each.parts, strict=True)
            inside = [min(max(x, part.low), part.high) for x, part in pairs]
            assert inside == pytest.approx(answer.each.estimates, rel=1e-6, abs=1e-7)
    assert verdict.as_dict()["series"].get("answers", []) == [one.as_dict() for one in verdict.series.answers]


def test_a_sum_of_a_slot_that_was_changed_is_found(tmp_path):
    session = known_series(3, 3, question=BUCKETS, hides="step", loss=30.0)
    draws = np.zeros((3, 3, 3), dtype=np.int64).astype(object)
    harness, closed, _ = run(session, [[0.5] * 3] * 3, draws)
    codec = Codec(session)
    body = codec.open(closed[1].frame).body
    numbers = list(codec.open(closed[1].frame).numbers)
    numbers[2] += 1  # one more in the last bucket, by one grid step
    lie = msgspec.structs.replace(body, numbers=codec.pack(numbers))
    frame = codec.seal(COORDINATOR, lie, known_key(COORDINATOR).sign)
    records = [
        msgspec.structs.replace(one, frame=frame) if isinstance(one, Closed) and one.round == 1 else one
        for one in harness.ledgers[COORDINATOR].records()
    ]
    with TranscriptWriter(tmp_path / "t", session, COORDINATOR, durable=False) as writer:
        writer.take(records)
    verdict = verify(tmp_path / "t")
    assert verdict.word == "unsound"
    assert "wrong-mean" in {finding.name for finding in verdict.findings}
    other = second_verifier().judged([(tmp_path / "t").read_bytes()], running=False)
    assert "wrong-mean" in other["findings"]
