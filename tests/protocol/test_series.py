"""A series by its machines: what they compute, and everything that was thought of against them."""

import random
from collections import defaultdict
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from tests.doubles import (
    Faults,
    Harness,
    Point,
    ScriptedNoise,
    known_ephemeral,
    known_feedback,
    known_key,
    known_series,
)

from tacit.base.errors import FileError, LedgerError, ParameterError, StateError
from tacit.core.protocol.agent import AgentMachine
from tacit.core.protocol.codec import Codec, combined, digest
from tacit.core.protocol.coordinator import CoordinatorMachine
from tacit.core.protocol.effects import Expired, Halt, Heard, NoiseReady, ReadingReady, Start, Tick
from tacit.core.protocol.keeper import KeeperMachine
from tacit.core.protocol.masks import mask, packed, total
from tacit.core.protocol.messages import (
    COORDINATOR,
    NOTHING_HEARD,
    Ask,
    Closing,
    Kind,
    Masked,
    Reason,
    Refusal,
    Stop,
)
from tacit.core.protocol.notices import Finished, MeanPublished, Refused
from tacit.core.protocol.places import LastUsed
from tacit.core.protocol.private_state import Budget
from tacit.core.protocol.records import (
    Closed,
    Disclosed,
    Ended,
    Erasing,
    Evidence,
    Moved,
    Sampled,
    Shut,
    Spoke,
    encode_record,
)
from tacit.core.protocol.roster import Member
from tacit.core.protocol.session import Deadlines, Session
from tacit.core.protocol.tables import AgentPhase, KeeperPhase
from tacit.core.series import Hides, loss_with, published

SALT = bytes(range(32))


class Play:
    """A watched run: readings and draws are given, and nobody may sign two things for one slot."""

    def __init__(self, session, *, seed=1, readings=None, fresh=True, **more):
        rng = np.random.default_rng(seed)
        n, slots = session.n, session.series.slots
        self.session = session
        self.readings = rng.uniform(-1, 11, (n, slots)) if readings is None else readings
        draws = np.rint(rng.normal(scale=session.series.steps, size=(slots, max(n, len(session.keepers)))))
        self.draws = draws.astype(np.int64).astype(object)
        self.asked = defaultdict(list)
        values = [self._source(i) for i in range(n)]
        self.harness = Harness(session, values, ScriptedNoise(self.draws, fresh=fresh), seed=seed, **more)
        self.said, self._send = {}, self.harness.network.send
        self.harness.network.send = self.send

    def _source(self, i):
        def read(slot):
            self.asked[i].append(slot)
            value = self.readings[i, slot]
            return None if np.isnan(value) else float(value)

        return read

    def send(self, source, to, frame):
        _, _, sender, kind, body = msgspec.msgpack.decode(frame[:-64])
        if kind in (Kind.MASKED, Kind.OPENING, Kind.CLOSING, Kind.FEEDBACK):
            place = sender, kind, msgspec.msgpack.decode(body)[0]
            if place not in self.said:
                kinds, records = Spoke | Disclosed | Shut | Closed, self.harness.ledgers[sender].records()
                assert any(frame == r.frame for r in records[-50:] if isinstance(r, kinds)), "not saved"
            assert self.said.setdefault(place, frame) == frame, f"two things were said: {place}"
        self._send(source, to, frame)

    def of(self, number, kind):
        return [record for record in self.harness.ledgers[number].records() if isinstance(record, kind)]

    def used(self):
        return [record.used for record in self.of(COORDINATOR, Closed)]

    def sums(self):
        codec = Codec(self.session)
        return [codec.open(record.frame).numbers[0] for record in self.of(COORDINATOR, Closed)]

    def means(self, number=0):
        found = {n.slot: n.mean for n in self.harness.notices[number] if isinstance(n, MeanPublished)}
        return [found.get(t) for t in range(self.session.series.slots)]

    def expected(self):
        """The pure functions on the same readings and draws: sums, and means where nothing is lost."""
        series, n = self.session.series, self.session.n
        said = {}
        for i in range(n):
            agent = series.agent()
            recorded = {r.slot for r in self.of(i, Sampled)}
            for t in range(series.slots):
                reading = self.readings[i, t] if t in recorded else np.nan
                said[i, t] = agent.read(None if np.isnan(reading) else float(reading))[0]
        keepers = range(len(self.session.keepers))
        return [
            sum(said[i, t] for i in used) - sum(int(self.draws[t, (n + j) % n]) for j in keepers)
            if used
            else 0
            for t, used in enumerate(self.used())
        ]

    def check(self):
        """What must hold at the end of every run."""
        for number in range(self.session.n):
            spoke = [r.update for r in self.of(number, Spoke)]
            assert spoke == sorted(set(spoke))
            losses = [r.loss for r in self.of(number, Spoke)]
            assert losses[:1] in ([], [self.session.series.loss])
            assert not any(losses[1:])
        for number in self.session.keeper_numbers:
            opened = [r.update for r in self.of(number, Disclosed)]
            assert opened == sorted(set(opened))
        assert self.sums() == self.expected()
        series, decoder, everyone = self.session.series, self.session.series.decoder(2), set()
        for t, (found, used) in enumerate(zip(self.sums(), self.used(), strict=True)):
            everyone.update(used)
            decoder.add(found, len(used), len(everyone))
            assert t >= series.slots or self.means(COORDINATOR)[t] in (None, decoder.mean())


def full_means(play):
    series, n = play.session.series, play.session.n
    sums = np.array(play.sums(), dtype=np.float64) * series.grid.step
    return published(series.code(), series.grid, sums, n, n)


@pytest.mark.parametrize("hides", ["step:2", "reading", "window:3"])
@pytest.mark.parametrize("keepers", [1, 2])
def test_a_series_publishes_what_the_pure_functions_do(hides, keepers):
    play = Play(known_series(3, 12, hides=hides, keepers=keepers))
    play.harness.start()
    assert play.harness.run(Harness.finished)
    play.check()
    assert [len(used) for used in play.used()] == [3] * 12
    for number in (COORDINATOR, 0, 1, 2):
        assert play.means(number) == pytest.approx(full_means(play), abs=1e-9)
    assert not play.harness.ephemeral  # all private keys are gone
    assert all(count == 1 for count in play.harness.noise.taken.values())
    assert len(play.harness.noise.taken) == 12 * keepers


def test_two_hundred_slots_with_kills_of_everybody():
    """Agents, keepers and the coordinator are killed at every point; the sums are those of what was used."""
    chance, crashes = random.Random(7), []

    def crash(number, point):
        if chance.random() < 0.0015:
            crashes.append((number, point))
            return True
        return False

    session = known_series(3, 200, keepers=2, quorum=2)
    # A keeper that is killed before its opening is saved draws again: here the same number.
    play = Play(session, crash=crash, fresh=False)
    harness = play.harness
    harness.start()
    while not harness.finished():
        harness.run(lambda h: h.finished() or None in h.machines.values())
        back = harness.clock.now + chance.uniform(0, 25)
        harness.run(lambda h, when=back: h.clock.now >= when)
        harness.clock.advance_to(max(back, harness.clock.now))
        for number, machine in harness.machines.items():
            if machine is None:
                harness.start(number)
    assert {number for number, _ in crashes} == set(harness.numbers)
    assert {point for _, point in crashes} == set(Point)
    play.check()
    sizes = [len(used) for used in play.used()]
    assert 0 in sizes  # some slots are lost
    assert sizes.count(3) > 50
    lost = {t for t, size in enumerate(sizes) if size == 0}
    assert {t for t, mean in enumerate(play.means(COORDINATOR)) if mean is None} >= lost
    assert not harness.ephemeral


def test_a_lossy_network_loses_messages_and_nothing_else():
    play = Play(known_series(3, 20, keepers=2, quorum=1), faults=Faults(loss=0.1, duplication=0.1))
    play.harness.start()
    assert play.harness.run(Harness.finished)
    play.check()


# ---- the agent --------------------------------------------------------------------------------------------


def agent_of(session, number=0, **more):
    made = AgentMachine(
        session,
        number,
        sign=known_key(number).sign,
        budget=Budget(10.0),
        private=known_ephemeral(number),
        **more,
    )
    made.handle(Start())
    for j in session.keeper_numbers:
        keeper = KeeperMachine(session, j, sign=known_key(j).sign, private=known_ephemeral(j))
        made.handle(Heard(keeper.keyring.frames[j]))
    return made


def at(machine, slot, offset=0.0):
    when = machine.session.series.begin_of(slot) + offset
    return machine.handle(Tick(when, when))


def read(machine, value, salt=SALT):
    slot = machine.wants_reading
    return machine.handle(ReadingReady(slot, value, salt))


def plain(session, step, number=0):
    """Return the number inside an agent's message, without its masks."""
    (record,) = [r for r in step.records if isinstance(r, Spoke)]
    message = Codec(session).open(record.frame)
    body = message.body
    mine = AgentMachine(
        session, number, sign=known_key(number).sign, budget=Budget(10.0), private=known_ephemeral(number)
    )
    masks = []
    for j in session.keeper_numbers:
        keeper = KeeperMachine(session, j, sign=known_key(j).sign, private=known_ephemeral(j))
        keeper.handle(Start())
        keeper.handle(Heard(mine.keyring.frames[number]))
        masks.append(mask(keeper.keyring.secret(number), body.update, body.salt, session.masked_bytes))
    width = session.mask_bytes
    return int.from_bytes(total([body.numbers], width, minus=masks), "big", signed=True)


def test_one_message_for_each_slot_and_the_same_bytes_again():
    session = known_series(2, 5, keepers=2)
    agent = agent_of(session)
    at(agent, 0)
    assert agent.wants_reading == 0
    first = read(agent, 3.0)
    (spoke,) = [r for r in first.records if isinstance(r, Spoke)]
    assert agent.wants_reading is None
    refused = agent.handle(ReadingReady(0, 9.0, SALT))  # a second reading of the slot
    assert not refused.records
    assert not refused.messages
    assert agent.refused[Refusal.SECOND_DRAW] == 1
    ask = Codec(session).seal(COORDINATOR, Ask(0), known_key(COORDINATOR).sign)
    assert [send.frame for send in agent.handle(Heard(ask)).messages] == [spoke.frame]
    # The clock is set back: no slot comes back.
    agent.handle(Tick(500.0, session.series.begins - 50.0))
    assert agent.wants_reading is None


def test_a_restarted_agent_repeats_the_same_bytes_and_goes_on_with_its_filter():
    session = known_series(2, 6, keepers=1)
    records, said = [], {}
    agent = agent_of(session)
    records += _records_of_start(session)
    for t, value in enumerate([1.0, 7.0, 2.0]):
        at(agent, t)
        step = read(agent, value)
        records += step.records
        said[t] = plain(session, step)
    again = AgentMachine.resume(
        session, 0, records, sign=known_key(0).sign, budget=Budget(10.0), private=known_ephemeral(0)
    )
    step = again.handle(Start())
    at(again, 2, 1.0)
    assert again.wants_reading is None  # slot 2 was read before
    assert records[-1].frame in [send.frame for send in step.messages]
    at(again, 3)
    assert again.wants_reading is None  # its ledger may be an old copy
    hear_place(again, 2, digest(records[-1].frame))
    said[3] = plain(session, read(again, 4.0))
    reference = session.series.agent()
    assert list(said.values()) == [reference.read(v)[0] for v in (1.0, 7.0, 2.0, 4.0)]


def hear_place(machine, slot, used):
    """Let an agent hear feedback, and its place in it: its report of the slot with this digest."""
    codec, state = machine.codec, LastUsed(machine.session.n)
    state.use(slot, {machine.number: used})
    feedback = known_feedback(codec, slot, [0], state=state.root)
    for body in (feedback, state.place(slot, machine.number)):
        step = machine.handle(Heard(codec.seal(COORDINATOR, body, known_key(COORDINATOR).sign)))
    return step


def _records_of_start(session):
    made = AgentMachine(session, 0, sign=known_key(0).sign, budget=Budget(10.0), private=known_ephemeral(0))
    records = list(made.handle(Start()).records)
    for j in session.keeper_numbers:
        keeper = KeeperMachine(session, j, sign=known_key(j).sign, private=known_ephemeral(j))
        records += made.handle(Heard(keeper.keyring.frames[j])).records
    return records


def test_missed_slots_and_failed_readings_hold_and_a_late_agent_starts_from_the_low_end():
    session = known_series(2, 12, keepers=1)
    agent, reference = agent_of(session), session.series.agent()
    at(agent, 4)  # slots 0 to 3 were missed before its first reading
    assert agent.wants_reading is None  # not before it is known that its key was not used elsewhere
    vouch(agent, 3)
    assert agent.wants_reading == 4
    for _ in range(4):
        reference.read(None)
    assert plain(session, read(agent, 6.0)) == reference.read(6.0)[0]
    at(agent, 8)  # it was down for 5, 6 and 7
    vouch(agent, 7, uses={0: (4, agent.private.digests[4])})
    for _ in range(3):
        reference.read(None)
    assert plain(session, read(agent, 1.0)) == reference.read(1.0)[0]
    at(agent, 9)
    assert plain(session, read(agent, None)) == reference.read(None)[0]  # no reading: it holds
    assert list(agent.private.digests) == [4, 8, 9]


def test_readings_are_clamped_before_anything_else():
    session = known_series(2, 3, keepers=1)
    steps = []
    for value in (10.0, 1e9):
        agent = agent_of(session)
        at(agent, 0)
        step = read(agent, value)
        assert [r.reading for r in step.records if isinstance(r, Sampled)] == [10.0]
        steps.append(plain(session, step))
    assert steps[0] == steps[1]


def test_what_an_agent_says_does_not_depend_on_what_it_hears():
    """Not on feedback, not on who was used, not on whether its own message was."""
    session, values = known_series(2, 4, keepers=1, quorum=1), [1.0, 9.0, 3.0, 3.0]
    said = []
    for used in ((0, 1), (1,), ()):
        agent, before, found = agent_of(session), bytes(32), []
        for t, value in enumerate(values):
            at(agent, t)
            found.append(plain(session, read(agent, value)))
            frame = feedback(session, t, used, before, 12345 if used else 0)
            agent.handle(Heard(frame))
            assert agent.update == t + 1
            before = Codec(session).open(frame).digest
        said.append(found)
    assert said[0] == said[1] == said[2]


def feedback(session, t, used, before, found, *, state=None):
    codec, told = Codec(session), {} if state is None else {"state": state.root}
    body = known_feedback(codec, t, [found], count=len(used), basis=combined(()), before=before, **told)
    return codec.seal(COORDINATOR, body, known_key(COORDINATOR).sign)


def vouch(agent, t, **uses):
    """Feedback of a slot, and the agent's place in it; by default nobody was ever used."""
    session, state = agent.session, LastUsed(agent.session.n)
    state.take(uses.get("uses", {}))
    place = Codec(session).seal(COORDINATOR, state.place(t, agent.number), known_key(COORDINATOR).sign)
    first = agent.handle(Heard(feedback(session, t, (1,) * session.least_quorum, bytes(32), 7, state=state)))
    return first, agent.handle(Heard(place))


def test_a_message_that_was_not_used_is_lost():
    """Neither "not used" nor a question about an old slot makes an agent say anything new."""
    session = known_series(2, 4, keepers=1, quorum=1)
    agent = agent_of(session)
    at(agent, 0)
    read(agent, 5.0)
    agent.handle(Heard(feedback(session, 0, (1,), bytes(32), 7)))
    at(agent, 1)
    step = read(agent, 5.0)
    reference = session.series.agent()
    reference.read(5.0)
    assert plain(session, step) == reference.read(5.0)[0]  # not 5 + the one that was lost
    ask = Codec(session).seal(COORDINATOR, Ask(0), known_key(COORDINATOR).sign)
    assert not agent.handle(Heard(ask)).messages


def test_a_rolled_back_agent_uses_other_masks_for_another_reading():
    """The salt is in the mask: two messages for one slot do not give their difference away."""
    session, frames = known_series(2, 3, keepers=2), []
    for value, salt in ((1.0, SALT), (8.0, bytes(32))):
        agent = agent_of(session)
        at(agent, 0)
        (spoke,) = [r for r in read(agent, value, salt).records if isinstance(r, Spoke)]
        frames.append(Codec(session).open(spoke.frame).body.numbers)
    width = session.mask_bytes
    apart = int.from_bytes(total([frames[1]], width, minus=[frames[0]]), "big", signed=True)
    assert abs(apart) > session.sum_limits[0] << 16  # with the same masks it would be 7 in grid steps


def test_an_agent_named_without_having_spoken_stops():
    session = known_series(2, 4, keepers=1, quorum=1)
    agent = agent_of(session)
    at(agent, 0)
    _, step = vouch(agent, 0, uses={0: (0, SALT)})
    assert agent.phase is AgentPhase.STOPPED
    assert agent.disputed == 0
    assert [type(r) for r in step.records] == [Evidence, Erasing]


def test_feedback_that_contradicts_is_kept_as_evidence():
    session = known_series(2, 4, keepers=1, quorum=1)
    agent = agent_of(session)
    at(agent, 0)
    agent.handle(Heard(feedback(session, 0, (1,), bytes(32), 7)))
    step = agent.handle(Heard(feedback(session, 0, (1,), bytes(32), 8)))
    assert [type(r) for r in step.records] == [Evidence]
    forked = agent.handle(Heard(feedback(session, 1, (1,), b"x" * 32, 8)))
    assert [type(r) for r in forked.records] == [Evidence]
    assert agent.update == 1


def test_an_agent_without_the_budget_or_the_records_is_refused():
    session = known_series(2, 4, keepers=1)
    with pytest.raises(StateError, match="cap"):
        AgentMachine(session, 0, sign=known_key(0).sign, budget=Budget(0.5), private=known_ephemeral(0))
    with pytest.raises(StateError, match="how it began"):
        AgentMachine.resume(
            session, 0, [Sampled(0, 1.0)], sign=known_key(0).sign, budget=Budget(9.0), private=None
        )


def test_a_key_that_spoke_from_another_ledger_is_refused():
    session = known_series(2, 4, keepers=1)
    other, agent = agent_of(session), agent_of(session)
    at(other, 0)
    (spoke,) = [r for r in read(other, 1.0).records if isinstance(r, Spoke)]
    with pytest.raises(LedgerError, match="not from this ledger"):
        agent.handle(Heard(spoke.frame))


def test_nothing_private_is_in_a_repr():
    record = Sampled(3, 7.25)
    assert "7.25" not in repr(record)
    assert "7.25" not in repr(ReadingReady(3, 7.25, SALT))
    assert b"sampled" in encode_record(record)


# ---- the keeper -------------------------------------------------------------------------------------------


class Kept:
    """A keeper with an agent's key, and closings as a coordinator would sign them."""

    def __init__(self, session):
        self.session, self.codec = session, Codec(session)
        self.number = session.keeper_numbers[0]
        self.records = []
        self.keeper = KeeperMachine(
            session, self.number, sign=known_key(self.number).sign, private=known_ephemeral(self.number)
        )
        self.records += self.keeper.handle(Start()).records
        for i in range(session.n):
            agent = AgentMachine(
                session, i, sign=known_key(i).sign, budget=Budget(9.0), private=known_ephemeral(i)
            )
            self.records += self.keeper.handle(Heard(agent.keyring.frames[i])).records

    def closing(self, slot, used, salt=SALT):
        keys = self.keeper.keyring.named(used)
        bits, salts = self.codec.bitmap(used), salt * len(used)
        body = Closing(slot, bits, len(used), bytes(32), bytes(32), keys, salts)
        return self.codec.seal(COORDINATOR, body, known_key(COORDINATOR).sign)

    def hear(self, frame):
        step = self.keeper.handle(Heard(frame))
        self.records += step.records
        return step

    def open(self, slot, used, draw=5):
        self.hear(self.closing(slot, used))
        step = self.keeper.handle(NoiseReady(self.keeper.wants_noise, draw))
        self.records += step.records
        return [r for r in step.records if isinstance(r, Disclosed)]

    def resume(self):
        self.keeper = KeeperMachine.resume(
            self.session,
            self.number,
            self.records,
            sign=known_key(self.number).sign,
            private=known_ephemeral(self.number),
        )
        return self.keeper.handle(Start())


def test_a_keeper_opens_a_slot_once_and_repeats_the_same_bytes():
    kept = Kept(known_series(3, 8, keepers=1, quorum=1))
    (first,) = kept.open(0, (0, 1, 2))
    again = kept.hear(kept.closing(0, (0, 1, 2)))
    assert [send.frame for send in again.messages] == [first.frame]
    assert kept.keeper.wants_noise is None
    # Another set of agents, or other salts, for the same slot: evidence, and nothing opened.
    for frame in (kept.closing(0, (0, 1)), kept.closing(0, (0, 1, 2), bytes(32))):
        step = kept.hear(frame)
        assert kept.keeper.wants_noise is None
        assert not any(isinstance(r, Disclosed) for r in step.records)
        assert not step.messages  # its first closing is not kept, so there is nothing to show
    assert [type(r) for r in kept.records].count(Evidence) == 1  # once for each slot
    kept.resume()
    assert [send.frame for send in kept.hear(kept.closing(0, (0, 1, 2))).messages] == [first.frame]
    assert not any(isinstance(r, Disclosed) for r in kept.hear(kept.closing(0, (0, 1))).records)


def test_a_keeper_skips_slots_and_never_goes_back():
    kept = Kept(known_series(3, 8, keepers=1, quorum=1))
    assert [r.update for r in kept.open(2, (0, 1))] == [2]
    for _ in range(2):
        step = kept.hear(kept.closing(1, (0, 1)))
        assert kept.keeper.wants_noise is None
        assert not step.records
        kept.resume()
    assert [r.update for r in kept.open(5, (0, 1))] == [5]


def test_a_keeper_opens_no_slot_that_was_given_up():
    """One whose disk was put back does not know what it has opened, and a coordinator could ask for it."""
    session = known_series(3, 8, keepers=1, quorum=1)
    given_up = session.series.begin_of(1) + session.deadlines.round + 2 * session.series.interval
    kept = Kept(session)
    kept.keeper.handle(Tick(given_up, given_up))
    for t in (0, 1):
        assert kept.hear(kept.closing(t, (0, 1))).notices == (Refused(Refusal.LATE, COORDINATOR),)
        assert kept.keeper.wants_noise is None
    assert [r.update for r in kept.open(2, (0, 1))] == [2]


def test_the_noise_is_in_the_opening_and_nowhere_else():
    session = known_series(3, 8, keepers=1, quorum=1)
    openings = []
    for draw in (0, 123_456):
        kept = Kept(session)
        (record,) = kept.open(0, (0, 1), draw=draw)
        openings.append(kept.codec.open(record.frame).body.numbers)
        assert not any(b"123456" in encode_record(r) for r in kept.records)
    width = session.mask_bytes
    assert total([openings[1]], width, minus=[openings[0]]) == packed((123_456,), width)


def test_a_keeper_ends_with_the_series_though_the_last_slot_is_lost():
    session = known_series(3, 3, keepers=1, quorum=1)
    kept = Kept(session)
    kept.open(0, (0, 1))
    step = kept.hear(feedback(session, 2, (), b"x" * 32, 0))
    assert kept.keeper.phase is KeeperPhase.FINISHED
    assert any(isinstance(r, Erasing) for r in step.records)


def test_a_keeper_that_missed_the_end_ends_by_its_clock():
    session = known_series(3, 3, keepers=1, quorum=1)
    kept = Kept(session)
    kept.open(0, (0, 1))
    series = session.series
    soon = series.ends + series.interval + session.deadlines.start
    kept.keeper.handle(Tick(soon - 1, soon - 1))
    assert kept.keeper.phase is KeeperPhase.WAITING
    assert kept.keeper.wake <= soon
    step = kept.keeper.handle(Tick(soon, soon))
    assert kept.keeper.phase is KeeperPhase.FINISHED
    assert [type(r) for r in step.records] == [Ended, Erasing]


@pytest.mark.parametrize("drawing", [False, True])
@pytest.mark.parametrize("how", ["halt", "expiry", "stop", "last feedback"])
def test_however_a_keeper_ends_its_key_is_erased(how, drawing):
    session = known_series(3, 3, keepers=1, quorum=1)
    kept = Kept(session)
    if drawing:
        kept.hear(kept.closing(1, (0, 1)))
    assert not kept.keeper.keyring.erased
    stop = kept.codec.seal(COORDINATOR, Stop(0, Reason.OPERATOR), known_key(COORDINATOR).sign)
    ends = {"halt": Halt(), "expiry": Expired(), "stop": Heard(stop)}
    ends["last feedback"] = Heard(feedback(session, 2, (), b"x" * 32, 0))
    step = kept.keeper.handle(ends[how])
    assert [type(r) for r in step.records] == [Ended, Erasing]
    assert kept.keeper.keyring.erased
    kept.records += step.records
    kept.resume()  # without asking for the key
    assert kept.keeper.keyring.erased


# ---- the coordinator --------------------------------------------------------------------------------------


def test_slots_without_a_quorum_are_lost_and_their_means_are_held():
    session = known_series(3, 8, keepers=1, quorum=2)
    play = Play(session)
    play.harness.start(COORDINATOR, 0, *session.keeper_numbers)  # one agent alone
    series = session.series
    assert play.harness.run(lambda h: h.clock.now >= series.begin_of(3) + 1)
    play.harness.start(1, 2)
    assert play.harness.run(Harness.finished)
    play.check()
    sizes = [len(used) for used in play.used()]
    assert sizes[:3] == [0, 0, 0]
    assert sizes[4:] == [3, 3, 3, 3]
    assert play.means(1)[:3] == [None] * 3
    assert min(r.update for r in play.of(session.keeper_numbers[0], Disclosed)) >= 3


def test_a_keeper_that_does_not_answer_loses_the_slot_and_not_the_series():
    session = known_series(3, 8, keepers=2, quorum=2)
    play, keeper = Play(session), known_series(3, 8, keepers=2).keeper_numbers[1]
    play.harness.start()
    assert play.harness.run(lambda _: len(play.of(COORDINATOR, Closed)) == 2)
    play.harness.stop(keeper)
    assert play.harness.run(lambda _: len(play.of(COORDINATOR, Closed)) == 4)
    play.harness.start(keeper)
    assert play.harness.run(Harness.finished)
    play.check()
    sizes = [len(used) for used in play.used()]
    assert sizes[:2] == [3, 3]
    assert 0 in sizes[2:5]
    assert sizes[-1] == 3


def test_a_late_agent_is_a_member_from_its_first_message_on():
    session = known_series(3, 10, keepers=1, quorum=2)
    play = Play(session)
    play.harness.start(COORDINATOR, 0, 1, *session.keeper_numbers)
    assert play.harness.run(lambda _: len(play.of(COORDINATOR, Closed)) == 5)
    play.harness.start(2)
    assert play.harness.run(Harness.finished)
    play.check()
    members = [n.members for n in play.harness.notices[2] if isinstance(n, MeanPublished)]
    assert members[:5] == [2] * 5
    assert members[-1] == 3
    assert len(play.of(2, Moved)) == 10  # it has heard all sums, also those before it came


def test_a_sum_that_is_nonsense_loses_the_slot():
    """An agent that adds other masks than the keepers have: the series goes on."""
    session = known_series(2, 3, keepers=1, quorum=1)
    play = Play(session)
    play.harness.start(COORDINATOR, *session.keeper_numbers)
    liar = agent_of(session)
    play.harness.network.inject(COORDINATOR, liar.keyring.frames[0], 0)
    series = session.series
    assert play.harness.run(lambda h: h.clock.now >= series.begin_of(0) + 1)
    numbers, keys = b"\x40" + bytes(session.mask_bytes - 1), liar.keyring.named((0, 2))
    body = Masked(0, series.exponent, numbers, NOTHING_HEARD, keys, SALT)
    play.harness.network.inject(COORDINATOR, Codec(session).seal(0, body, known_key(0).sign), 0)
    assert play.harness.run(lambda _: len(play.of(COORDINATOR, Closed)) == 3)
    assert play.used() == [(), (), ()]
    assert len(play.of(session.keeper_numbers[0], Disclosed)) == 1


def test_a_restarted_coordinator_repeats_its_closing():
    session = known_series(3, 5, keepers=1)
    play = Play(session)
    keeper = session.keeper_numbers[0]
    play.harness.start(COORDINATOR, 0, 1, 2, keeper)
    assert play.harness.run(lambda _: len(play.of(COORDINATOR, Closed)) == 1)
    play.harness.stop(keeper)
    assert play.harness.run(lambda _: len(play.of(COORDINATOR, Shut)) == 2)
    play.harness.stop(COORDINATOR)
    play.harness.start(keeper)
    play.harness.start(COORDINATOR)
    assert play.harness.run(Harness.finished)
    play.check()
    assert len(play.used()[1]) == 3


def test_a_series_that_was_complete_is_finished_and_not_expired():
    play = Play(known_series(3, 5, keepers=1))
    play.harness.start()
    assert play.harness.run(Harness.finished)
    records = [r for r in play.harness.ledgers[COORDINATOR].records() if not isinstance(r, Ended)]
    again = CoordinatorMachine.resume(play.session, records, sign=known_key(COORDINATOR).sign)
    step = again.handle(Expired())
    assert (step.records, step.messages, step.notices) == ((Ended(5, None),), (), (Finished(5),))


def test_a_year_is_restored_in_time_that_grows_with_its_length():
    """35,040 slots: nothing is computed again but what lost slots need."""
    session = known_series(2, 35_040, keepers=1, interval=900.0)
    agent = session.series.agent()
    for t in range(35_040):
        agent.restore(t, 1.0)
    decoder = session.series.decoder(2)
    for _ in range(35_040):
        decoder.add(10**9, 2, 2)
    assert agent.slot == decoder.slot == 35_040
    assert decoder.mean() is not None


# ---- the session ------------------------------------------------------------------------------------------


def test_a_series_is_part_of_the_sessions_identity():
    one = known_series(3, 8)
    assert Session.decode(one.encode()) == one
    assert one.series.loss <= 1.0
    assert one.series.loss == loss_with(
        "square-root", 8, Hides.parse("step:2"), grid=one.series.grid, steps=one.series.steps, delta=1e-6
    )
    others = [known_series(3, 9), known_series(3, 8, begins=101), known_series(3, 8, delta=1e-7)]
    others += [known_series(3, 8, interval=11.0), known_series(3, 8, hides="window:2")]
    assert len({session.id for session in [one, *others]}) == 6
    with pytest.raises(FileError, match=r"canonical|not a session"):
        Session.decode(one.encode() + b"\0")


def test_what_a_series_cannot_be_is_refused():
    with pytest.raises(ParameterError, match="at least one keeper"):
        known_series(3, 8, keepers=0)
    one = known_series(3, 8)
    for change, why in (
        ({"mechanism": "tree"}, "square-root"),
        ({"hides": Hides.parse("step:99")}, "at most the range"),
        ({"steps": 1000.0}, "grid steps"),
        ({"high": 1e308}, r"at most 2\^1000 grid steps"),
        ({"low": -1e308, "high": 1e308}, r"at most 2\^1000 grid steps"),
        ({"delta": 0.0}, "delta"),
        ({"interval": 0.0}, "apart"),
    ):
        with pytest.raises(ParameterError, match=why):
            msgspec.structs.replace(one.series, **change)
    with pytest.raises(ParameterError, match="deadline"):
        known_series(3, 8, deadlines=Deadlines(round=99, start=1, repeat=1))
    with pytest.raises(ParameterError, match="expire"):
        known_series(3, 8, expires=120)
    with pytest.raises(ParameterError, match="is a series"):
        one.mechanism  # noqa: B018
    with pytest.raises(ParameterError, match="follows from it"):
        replace(one, rounds=9)


def test_masks_have_room_for_every_honest_sum():
    session = known_series(5, 8)
    series = session.series
    worst = 5 * (round((series.high - series.low) / series.grid.step) + 1)
    assert session.sum_limits[0] >= worst
    assert 8 * session.mask_bytes >= session.sum_limits[0].bit_length() + 41
    assert Member("agent-0", known_key(0).public_key().public_bytes_raw()) in session.roster
