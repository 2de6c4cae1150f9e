"""The answer of a session is that of the records that were used, and lies about them are found."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom
from tests.attack.judges import second_verifier
from tests.doubles import Harness, ScriptedNoise, known_key, known_session

from tacit.core.law import OneShot
from tacit.core.mechanism.lattice import Lattice
from tacit.core.protocol.answer import session_answer
from tacit.core.protocol.codec import Codec, combined, digest
from tacit.core.protocol.messages import COORDINATOR, NOTHING_HEARD, Feedback, Message, Refusal
from tacit.core.protocol.notices import Refused
from tacit.core.protocol.places import LastUsed
from tacit.core.protocol.records import Closed
from tacit.core.question import (
    Count,
    GroupBy,
    Histogram,
    Mean,
    Missing,
    Quantile,
    Several,
    Sum,
    Variance,
    WeightedMean,
)
from tacit.core.theory.mean_noise import ComponentNoise
from tacit.live.runtime.transcript import TranscriptWriter
from tacit.live.status.metrics import exposition
from tacit.live.status.report import StatusReport
from tacit.live.status.status import Status
from tacit.live.verification.verdict import verify

LOADS = Histogram([0, 1, 2, 5])
RECORDS = [0.5, 1.5, 1.7, 4.0]


def asking(question, agents=4, **more):
    grid = Lattice.fitting(OneShot(0.5, more.get("noise", 2.0)), 1, *question.box)
    about = {"lattice": grid, "components": question.components, "adjacency": question.adjacency}
    given = {"rounds": 1, "quorum": 2, **about, **more}
    return known_session(agents, law="one-shot", asked=question, **given)


def played(records, *, absent=(), **more):
    """Play a session without noise; those who are absent never come."""
    session = asking(LOADS, **more)
    noise = ScriptedNoise(np.zeros((1, len(records), LOADS.components), dtype=object))
    harness = Harness(session, records, noise)
    harness.start(*(number for number in harness.numbers if number not in absent))
    said = harness.ledgers[COORDINATOR]
    assert harness.run(lambda _: any(isinstance(one, Closed) for one in said.records()))
    return harness


def judged(path, harness, records=None):
    with TranscriptWriter(path, harness.session, COORDINATOR, durable=False) as writer:
        writer.take(harness.ledgers[COORDINATOR].records() if records is None else records)
    return verify(path)


@pytest.mark.parametrize("keepers", [0, 2])
def test_the_number_of_records_that_were_used_is_part_of_the_answer(tmp_path, keepers):
    verdict = judged(tmp_path / "t", played(RECORDS, absent=[1], keepers=keepers))
    assert (verdict.word, verdict.answer.records) == ("sound", 3)
    assert verdict.answer.each.estimates == pytest.approx((1, 1, 1), abs=1e-6)
    other = second_verifier().judged([(tmp_path / "t").read_bytes()], running=False)
    assert other["answer"] == pytest.approx(verdict.answer.each.estimates)
    rows = {row.name: row.meaning for row in verdict.answer.rows()}
    assert rows["question"].startswith("of 3 records")
    assert set(LOADS.names) < set(rows)


def test_a_record_that_is_missing_counts_as_its_stand_in(tmp_path):
    verdict = judged(tmp_path / "t", played([Missing.MISSING, *RECORDS[1:]]))
    assert verdict.answer.records == 4
    assert verdict.answer.each.estimates == pytest.approx((0, 2, 1), abs=1e-6)


def test_a_record_that_is_counted_twice_is_found(tmp_path):
    """The coordinator counts an agent's message a second time, for an agent that never came."""
    harness = played(RECORDS, absent=[3])
    session, codec = harness.session, Codec(harness.session)
    [truth] = [one for one in harness.ledgers[COORDINATOR].records() if isinstance(one, Closed)]
    frames = dict(truth.each())
    frames |= {3: frames[0]}
    many = list(frames.values())
    wholes = session.lattice.mean([codec.lifted(codec.open(frame)) for frame in many])
    state = LastUsed(session.n)
    state.use(0, {i: digest(frame) for i, frame in frames.items()})
    basis = combined(map(digest, many))
    lie = Feedback(0, codec.pack(wholes), 4, state.members, state.root, basis, NOTHING_HEARD)
    frame = codec.seal(COORDINATOR, lie, known_key(COORDINATOR).sign)
    assert isinstance(codec.open(frame), Message)
    verdict = judged(tmp_path / "t", harness, [Closed(0, frame, (0, 1, 2, 3), tuple(many))])
    assert not verdict.sound
    assert verdict.answer is None


def test_other_edges_are_another_session():
    """A bucket that was moved, by feedback or in somebody's file, changes the id in every message."""
    harness = played(RECORDS)
    moved = asking(Histogram([0, 1, 2, 6]))
    [closed] = [one for one in harness.ledgers[COORDINATOR].records() if isinstance(one, Closed)]
    found = Codec(moved).open(closed.frame)
    assert isinstance(found, Refused)
    assert found.reason is Refusal.WRONG_SESSION


def test_the_intervals_are_those_of_the_reference_for_any_number_of_records():
    """Two keepers, loss 1: ± 8.2260066 counts for one bucket, however many took part."""
    session = asking(LOADS, agents=40, keepers=2)
    for used in (40, 25):
        answer = session_answer(session, [0.5, 0.25, 0.25], used)
        part = answer.each.parts[1]
        assert (part.high - part.low) / 2 == pytest.approx(min(8.2260066, part.high / 2), abs=5e-7)
        assert answer.together.parts[1].high > part.high
    assert session_answer(known_session(3), [0.5], 3) is None


def test_what_an_agent_hears_last_on_a_graph_is_within_its_radius():
    """By simulation, with false-alarm rate 1e-6: noise drawn once, Metropolis weights, few rounds."""
    session = asking(Count(), graph="path:4", rounds=6, weights="metropolis")
    noise = ComponentNoise.heard(session.mechanism, session.rounds, 1.0)
    n, runs, b, rng = session.n, 20_000, 0.05, np.random.default_rng(3)
    weights = np.zeros((n, n))
    for i in range(n):
        shares = session.mechanism.topology.shares(i)
        weights[i, i] = shares.own
        weights[i, list(session.neighbours(i))] = shares.heard
    weights /= weights.sum(axis=1, keepdims=True)
    start = np.array([1.0, 1.0, 0.0, 0.0])  # as far apart as the graph allows
    shadow = start[:, None] + rng.laplace(scale=session.noise, size=(n, runs))
    for _ in range(session.rounds - 1):
        shadow = (shadow + weights @ shadow) / 2  # mixing 0.5
    wrong = np.abs(weights @ shadow - start.mean()).max(axis=0) > noise.radius(b)
    assert wrong.sum() <= binom.isf(1e-6, runs, b)
    assert session.mixing == 0.5


def test_every_agent_of_a_graph_has_an_answer_that_is_recomputed(tmp_path):
    session = asking(Count(), graph="path:4", rounds=4, weights="metropolis", quorum=1)
    draws = np.full((4, 4), 3, dtype=np.int64)
    harness = Harness(session, [True, True, False, False], ScriptedNoise(draws.astype(object)))
    harness.start()
    assert harness.run(lambda h: all(h.machines[i].update == 4 for i in range(4)))
    peers = []
    for i in range(4):
        path = tmp_path / f"{i}.jsonl"
        with TranscriptWriter(path, session, i, durable=False, sign=known_key(i).sign) as writer:
            writer.take(harness.ledgers[i].records())
        peers.append(path)
    none = verify(peers)
    assert (none.word, none.answer) == ("sound", None)
    assert "name one with --agent" in str(none.summary().notes).lower()
    for i in range(4):
        found, private = verify(peers, agent=f"agent-{i}"), harness.machines[i].private
        heard = [float(session.lattice.value(number)) for number in private.feedback]
        assert found.answer.each == session_answer(session, heard, 4).each
        assert found.as_dict()["answer"]["records"] == 4
        row = found.used[0][:-1]  # a message of round 0 that was not used
        fewer = replace(found, used=(row, *found.used[1:]))
        assert fewer.answer is None
        assert "not computed" in str(fewer.summary().notes)


def test_a_status_page_shows_an_answer_and_no_vector():
    harness = played(RECORDS, absent=[1])
    status = Status(harness.session, COORDINATOR)
    status.take(harness.ledgers[COORDINATOR].records())
    assert status.standing.feedback is None
    assert [part.name for part in status.standing.answer] == list(LOADS.names)
    assert [part.estimate for part in status.standing.answer] == pytest.approx([1, 1, 1], abs=1e-6)
    assert 'part="1 to 2"' in exposition(status.document()).decode()
    assert {row.name for row in StatusReport(status.document()).rows(0.0)} > set(LOADS.names)


@pytest.mark.parametrize("keepers", [0, 2])
@pytest.mark.parametrize(
    ("asked", "records"),
    [
        (Sum(-1, 3), [0, 1, 2, 3]),
        (Count(), [True, False, True, True]),
        (LOADS, RECORDS),
        (Quantile([0, 1, 2, 5], [0.2, 0.5, 0.9]), RECORDS),
        (Quantile([-np.inf, 1, np.inf]), RECORDS),
        (Variance(0, 10, 2), [0, 3, 10, 4]),
        (WeightedMean(0, 10, 2), [(1, 3), (2, 9), (0, 0), (1, 1)]),
        (GroupBy(["a", "b"], Count()), [("a", 1), ("b", 0), ("c", 1), ("a", 1)]),
        (GroupBy(["a"], Sum(1, 3)), [("a", 1), ("b", 2), ("a", 3), ("a", 1)]),
        (GroupBy(["a", "b"], Mean(0, 10)), [("a", 1), ("b", 2), ("a", 3), ("a", 1)]),
        (GroupBy(["a", "b"], Variance(0, 10)), [("a", 1), ("b", 2), ("b", 9), ("a", 1)]),
        (GroupBy(["a", "b"], Histogram([0, 1, 2])), [("a", 1), ("b", 2), ("b", 0), ("a", 1)]),
        (
            Several([Count(), Variance(0, 10), Quantile([0, 1, 2, 5]), Sum(-1, 3)], [1, 2, 3, 4]),
            [(1, 2, 3, 0), (0, 1, 1, 3), (1, 9, 4, 2), (1, 5, 0, 1)],
        ),
    ],
    ids=lambda case: getattr(case, "kind", ""),
)
def test_the_second_verifier_finds_the_same_answer(tmp_path, asked, records, keepers):
    """Its estimates are those of `verify`, wherever that has one; small noise, so that groups have."""
    session = asking(asked, noise=1e-4, keepers=keepers)
    draws = np.arange(4 * asked.components).reshape(1, 4, asked.components) % 7
    draws = draws if asked.components > 1 else draws[..., 0]
    harness = Harness(session, records, ScriptedNoise(draws.astype(object)))
    harness.start()
    said = harness.ledgers[COORDINATOR]
    assert harness.run(lambda _: any(isinstance(one, Closed) for one in said.records()))
    verdict = judged(tmp_path / "t", harness)
    assert verdict.sound
    assert verdict.answer.each.parts
    other = second_verifier().judged([(tmp_path / "t").read_bytes()], running=False)
    assert other["answer"] == pytest.approx(verdict.answer.each.estimates, rel=1e-7, abs=1e-9)
