"""Sessions with keepers: what they compute, and everything that was thought of against them."""

import msgspec
import numpy as np
import pytest
from tests.doubles import Harness, Point, known_key, known_session
from tests.doubles.sessions import known_ephemeral

from tacit.base.errors import LedgerError, ParameterError
from tacit.core.mechanism.whole import cut, nearest, nearest_shift
from tacit.core.protocol.agent import AgentMachine
from tacit.core.protocol.codec import Codec, as_numbers, combined, digest
from tacit.core.protocol.effects import Halt, Heard, Send, Start, Step
from tacit.core.protocol.keeper import KeeperMachine
from tacit.core.protocol.masks import centred, mask, packed, total
from tacit.core.protocol.messages import (
    COORDINATOR,
    NOTHING_HEARD,
    Closing,
    Feedback,
    Key,
    Kind,
    Opening,
    Reason,
    Refusal,
)
from tacit.core.protocol.notices import Equivocated, Nonsense, Stopped, Waiting
from tacit.core.protocol.private_state import Budget
from tacit.core.protocol.records import (
    Closed,
    Disclosed,
    Ended,
    Erasing,
    Evidence,
    Keyed,
    Shut,
    Spoke,
    Unopened,
    encode_record,
)
from tacit.core.protocol.roster import Member
from tacit.core.protocol.session import Deadlines
from tacit.core.protocol.tables import CoordinatorPhase, KeeperPhase

KEEPERS_KEY = known_ephemeral(3)
DEADLINES = Deadlines(round=5, start=10, repeat=1)


def session(agents=3, rounds=3, **more):
    return known_session(agents, rounds, **{"keepers": 2, "quorum": 2, "deadlines": DEADLINES, **more})


def of(harness, number, kind):
    return [record for record in harness.ledgers[number].records() if isinstance(record, kind)]


def wholes(array):
    return tuple(int(v) for v in np.atleast_1d(array))


def reference(session, values, draws, used):
    """The mechanism with keepers, in the obvious way: states, and the feedback of every exchange."""
    lattice, agents = session.lattice, [session.lattice_agent(i) for i in range(session.n)]
    states = [lattice.start(v if np.ndim(v) else [v]) for v in values]
    feedback = []
    for u in range(session.rounds):
        if u < session.exchanges:
            shift = agents[0].message_exponent(u) - lattice.state_exponent
            found = sum(nearest_shift(states[i], shift) for i in used[u])
            found = found - sum(np.atleast_1d(draws[u, j]) for j in range(len(session.keepers)))
            feedback.append(cut(nearest(found << shift, len(used[u])), lattice.limit))
        states = [agent.update(state, feedback[-1]) for agent, state in zip(agents, states, strict=True)]
    return [wholes(state) for state in states], [wholes(y) for y in feedback]


CASES = [
    {},
    {"law": "one-shot"},
    {"law": "constant"},
    {"components": 2},
    {"components": 7},
    {"mixing": (0.5, 0.25, 0.75)},
    {"keepers": 1},
    {"keepers": 3, "law": "one-shot", "components": 6},
]


@pytest.mark.parametrize("more", CASES, ids=str)
def test_a_session_computes_what_the_mechanism_does(play, script, more):
    about = session(**more)
    draws, values = script(about, 1)
    if about.law == "constant":
        draws[1:] = draws[0]
    harness = play(about, seed=1)
    harness.noise._draws = draws
    harness.start()
    assert harness.run(Harness.finished)
    states, feedback = reference(about, values, draws, [range(about.n)] * about.exchanges)
    assert [as_numbers(harness.private_machine(i).private._state) for i in range(about.n)] == states
    closed = [harness.machine(COORDINATOR).codec.open(r.frame).numbers for r in of(harness, -1, Closed)]
    assert closed == feedback
    assert not harness.ephemeral  # all private keys are gone
    assert set(harness.noise.taken) == {
        (j, u) for j in range(len(about.keepers)) for u in range(about.exchanges)
    }


def test_an_agent_that_is_away_is_not_in_the_sum(play, script):
    about = session()
    draws, values = script(about, 1)
    harness = play(about, seed=1)
    harness.start(*(n for n in harness.numbers if n != 2))
    assert harness.run(lambda h: len(of(h, -1, Closed)) == 2)
    harness.start(2)
    assert harness.run(Harness.finished)
    used = [record.used for record in of(harness, -1, Closed)]
    assert used[:2] == [(0, 1), (0, 1)]
    assert 2 in used[2]
    states, _ = reference(about, values, draws, used)
    assert [as_numbers(harness.private_machine(i).private._state) for i in range(3)] == states


def test_an_agent_without_a_share_follows_a_one_shot_session(play, script):
    about = session(law="one-shot")
    draws, values = script(about, 1)
    harness = play(about, seed=1)
    harness.start(*(n for n in harness.numbers if n != 2))
    assert harness.run(lambda h: of(h, -1, Closed))
    harness.start(2)
    assert harness.run(Harness.finished)
    assert of(harness, 2, Spoke) == []
    states, _ = reference(about, values, draws, [(0, 1)])
    assert [as_numbers(harness.private_machine(i).private._state) for i in range(3)] == states


# ---- one answer for each update, ever -------------------------------------------------------------------


class Alone:
    """One keeper, whom a test tells what it likes."""

    def __init__(self, about, records=(), private=KEEPERS_KEY):
        self.about, self.codec = about, Codec(about)
        self.keeper = KeeperMachine.resume(
            about, about.n, records, sign=known_key(about.n).sign, private=private
        )
        self.step = self.keeper.handle(Start())
        self.records = [*records, *self.step.records]

    def say(self, sender, body):
        return self.hear(self.codec.seal(sender, body, known_key(sender).sign))

    def hear(self, frame):
        from tacit.core.protocol.effects import NoiseReady

        self.step = step = self.keeper.handle(Heard(frame))
        self.records += step.records
        sent = list(step.messages)
        while (u := self.keeper.wants_noise) is not None:
            self.step = step = self.keeper.handle(NoiseReady(u, [1000 + u] * self.about.components))
            self.records += step.records
            sent += step.messages
        return [self.codec.open(message.frame) for message in sent]

    def keys(self, *agents):
        for i in agents:
            self.say(i, Key(public(i)))

    def closing(self, used, t=0, heard=NOTHING_HEARD, reports=bytes(32), count=None):
        keys = combined(digest(self.key_frame(i)) for i in used)
        bits = self.codec.bitmap(used)
        count = len(used) if count is None else count
        return Closing(t, bits, count, reports, heard, keys, b"".join(bytes([i]) * 32 for i in range(count)))

    def key_frame(self, i):
        return self.codec.seal(i, Key(public(i)), known_key(i).sign)


def public(i):
    from tacit.core.protocol.masks import public_key

    return public_key(known_ephemeral(i))


@pytest.fixture
def alone():
    made = Alone(session())
    made.keys(0, 1, 2)
    return made


def openings(messages):
    return [message for message in messages if isinstance(message.body, Opening)]


def test_a_keeper_answers_with_its_masks_and_its_noise(alone):
    (opening,) = openings(alone.say(COORDINATOR, alone.closing((0, 2))))
    about, ring = alone.about, alone.keeper.keyring
    width = about.mask_bytes
    masks = [mask(ring.secret(i), 0, bytes([k]) * 32, width) for k, i in enumerate((0, 2))]  # by its salt
    assert opening.body.numbers == total([*masks, packed([1000], width)], width)


SECOND = {
    "another set": {"used": (0, 1)},
    "another history": {"used": (0, 1, 2), "heard": b"h" * 32},
    "other messages": {"used": (0, 1, 2), "reports": b"r" * 32},
}


@pytest.mark.parametrize("second", SECOND.values(), ids=SECOND)
def test_a_second_closing_of_an_update_is_not_answered(alone, second):
    """By the update alone: a second answer would open the difference of two sums, or one sum twice."""
    first = alone.closing((0, 1, 2))
    assert openings(alone.say(COORDINATOR, first))
    said = alone.say(COORDINATOR, alone.closing(**second))
    assert openings(said) == []
    assert [message.body for message in said] == [first]  # what its own key has signed
    assert any(isinstance(record, Evidence) for record in alone.step.records)
    again = Alone(alone.about, alone.records)
    assert openings(again.say(COORDINATOR, alone.closing(**second))) == []


def test_asked_again_it_says_the_same_bytes_after_any_number_of_restarts(alone):
    closing = alone.closing((0, 1, 2))
    (opening,) = openings(alone.say(COORDINATOR, closing))
    for _ in range(3):
        alone = Alone(alone.about, alone.records)
        assert [m.frame for m in openings(alone.say(COORDINATOR, closing))] == [opening.frame]
    assert sum(isinstance(record, Disclosed) for record in alone.records) == 1


def test_closings_come_in_order(alone):
    assert openings(alone.say(COORDINATOR, alone.closing((0, 1), t=1))) == []
    assert alone.keeper.refused[Refusal.AHEAD] == 1


def test_a_set_has_every_agent_once(alone):
    """A number of agents that is not the number of bits is refused: nobody can be counted twice."""
    assert openings(alone.say(COORDINATOR, alone.closing((0, 1), count=3))) == []
    assert alone.keeper.refused[Refusal.WRONG_COUNT] == 1


def test_one_shot_is_opened_once():
    alone = Alone(session(law="one-shot"))
    alone.keys(0, 1, 2)
    assert openings(alone.say(COORDINATOR, alone.closing((0, 1, 2))))
    assert alone.keeper.phase is KeeperPhase.SERVING
    assert openings(alone.say(COORDINATOR, alone.closing((0, 1), t=1, heard=b"h" * 32))) == []
    assert alone.keeper.refused[Refusal.WRONG_ROUND] == 1


def test_keys_that_are_missing_are_asked_for():
    alone = Alone(session())
    alone.keys(0)
    (asked,) = alone.say(COORDINATOR, alone.closing((0, 1)))
    assert asked.body.round == 0
    assert openings([asked]) == []
    alone.keys(1)
    assert openings(alone.say(COORDINATOR, alone.closing((0, 1))))


def test_a_closing_with_other_keys_is_not_answered(alone):
    closing = msgspec.structs.replace(alone.closing((0, 1)), keys=bytes(32))
    assert openings(alone.say(COORDINATOR, closing)) == []
    assert alone.keeper.refused[Refusal.OTHER_KEY] == 1
    assert openings(alone.say(COORDINATOR, alone.closing((0, 1))))  # refused is not answered


def test_the_first_key_of_an_agent_counts(alone):
    from tacit.core.protocol.masks import public_key

    alone.say(1, Key(public_key(known_ephemeral(77))))
    assert any(isinstance(record, Evidence) and record.sender == 1 for record in alone.step.records)
    assert Equivocated(1, 0) in alone.step.notices
    assert openings(alone.say(COORDINATOR, alone.closing((0, 1))))  # with the first one


def test_what_is_signed_for_another_session_is_refused(alone):
    other = Alone(session(rounds=4))
    other.keys(0, 1, 2)
    frame = other.codec.seal(COORDINATOR, other.closing((0, 1)), known_key(COORDINATOR).sign)
    (opening,) = openings(other.hear(frame))
    assert alone.hear(frame) == []
    assert alone.keeper.refused[Refusal.WRONG_SESSION] == 1
    refused = Codec(alone.about).open(opening.frame)
    assert refused.reason is Refusal.WRONG_SESSION


def test_only_the_coordinator_closes(alone):
    assert alone.say(1, alone.closing((0, 1))) == []
    assert alone.keeper.refused[Refusal.WRONG_ROLE] == 1


# ---- what is on the disk ---------------------------------------------------------------------------------


def test_the_noise_is_never_written_down(alone):
    alone.say(COORDINATOR, alone.closing((0, 1, 2)))
    width = alone.about.mask_bytes
    secrets = [packed([1000], width)[-3:], packed([-1000], width)[-3:], known_ephemeral(3)]
    secrets += [alone.keeper.keyring.secret(i) for i in range(3)]
    for record in alone.records:
        assert not any(secret in encode_record(record) for secret in secrets)


@pytest.mark.parametrize("kind", ["agent", "keeper"])
def test_a_key_that_is_gone_is_refused_and_never_made_anew(play, kind):
    harness = play(session())
    harness.start()
    assert harness.run(lambda h: len(of(h, -1, Closed)) == 1)
    number = 0 if kind == "agent" else 3
    harness.stop(number)
    del harness.ephemeral[number]
    with pytest.raises(LedgerError, match="is gone"):
        harness.start(number)
    harness.ephemeral[number] = known_ephemeral(99)
    with pytest.raises(LedgerError, match="does not fit"):
        harness.start(number)


@pytest.mark.parametrize("kind", ["fading", "one-shot"])
def test_keys_are_erased_after_the_end_and_the_session_stays_ended(play, kind):
    harness = play(session(law=kind))
    harness.start()
    assert harness.run(Harness.finished)
    for number in (*range(3), 3, 4):
        assert len(of(harness, number, Erasing)) == 1
        records = harness.ledgers[number].records()
        last = max(k for k, r in enumerate(records) if isinstance(r, Spoke | Disclosed))
        assert isinstance(records[last + 1], Erasing)  # at once after the last message
    harness.stop(3)
    harness.start(3)
    keeper = harness.machine(3)
    assert keeper.phase is KeeperPhase.FINISHED
    assert keeper.keyring.erased
    step = keeper.handle(Heard(of(harness, -1, Shut)[-1].frame))
    assert [message.frame for message in step.messages] == [of(harness, 3, Disclosed)[-1].frame]


def test_a_keepers_disk_after_the_end_opens_no_transcript(play):
    """Everything a keeper has left, with all messages: a sum with its noise, and no secret."""
    harness = play(session(keepers=1))
    harness.start()
    assert harness.run(Harness.finished)
    disk = b"".join(map(encode_record, harness.ledgers[3].records()))
    ring = Alone(harness.session, private=KEEPERS_KEY)
    ring.keys(0, 1, 2)
    for i in range(3):
        assert ring.keeper.keyring.secret(i) not in disk
    assert known_ephemeral(3) not in disk
    assert 3 not in harness.ephemeral
    with pytest.raises(Exception, match="erased"):
        harness.machine(3).keyring.secret(0)


# ---- lies and losses -------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", ["fading", "one-shot"])
def test_an_agent_put_back_masks_anew(play, law):
    """With the same mask, the difference of its two messages would be a difference of states.

    With one-shot noise it is fed the same history, and has a state for each value it may have had.
    """
    about = session(law=law)
    last = about.exchanges - 1
    harness = play(about)
    harness.start()
    assert harness.run(lambda h: len(of(h, 0, Spoke)) == min(about.exchanges, 2))
    records = harness.ledgers[0].records()
    before = next(k for k, r in enumerate(records) if isinstance(r, Spoke) and r.update == min(last, 1))
    codec, found = Codec(about), []
    for salt in (b"a" * 32, b"b" * 32):
        sign = known_key(0).sign
        agent = AgentMachine.resume(
            about, 0, records[:before], sign=sign, budget=Budget(1e9), private=known_ephemeral(0)
        )
        agent._cover.take_salt(salt)
        agent._speak(None)
        found.append(codec.open(agent.private.said).body.numbers)
    (difference,) = centred(total([found[0]], about.mask_bytes, minus=[found[1]]), about.mask_bytes)
    assert abs(difference) > about.sum_limits[0]


def test_nonsense_stops_the_session_and_is_kept(play):
    about = session()
    harness = play(about)
    harness.network.send = harness.watch._send  # keeper 4 lies, and keeps no ledger
    harness.start(*(n for n in harness.numbers if n != 4))
    harness.run(lambda h: h.machine(-1).phase is CoordinatorPhase.COLLECTING, most=500)
    codec, sign = Codec(about), known_key(4).sign
    key = codec.seal(4, Key(public(4)), sign)
    harness.network.inject(COORDINATOR, key)
    assert harness.run(lambda h: of(h, -1, Shut))
    shut = of(harness, -1, Shut)[0]
    lie = Opening(0, b"\x40" + bytes(about.masked_bytes - 1), digest(shut.frame), digest(key))
    harness.network.inject(COORDINATOR, codec.seal(4, lie, sign))
    assert harness.run(lambda h: h.machine(-1).phase is CoordinatorPhase.STOPPED)
    assert Nonsense(0) in harness.notices[COORDINATOR]
    assert len(of(harness, -1, Unopened)[0].openings) == 2
    assert of(harness, -1, Ended)[0].reason is Reason.NONSENSE
    assert harness.run(lambda h: all(of(h, n, Ended) for n in (0, 1, 2, 3)))
    assert not harness.ephemeral
    harness.stop(COORDINATOR)
    harness.start(COORDINATOR)
    assert harness.machine(COORDINATOR).phase is CoordinatorPhase.STOPPED


def test_a_keeper_that_is_away_stops_rounds_and_nothing_is_lost(play):
    harness = play(session())
    harness.start()
    assert harness.run(lambda h: len(of(h, -1, Closed)) == 1)
    harness.stop(3)
    for _ in range(20):
        harness.run(most=60)
        harness.tick(5.0)
    coordinator = harness.machine(COORDINATOR)
    assert coordinator.phase is CoordinatorPhase.OPENING
    assert len(of(harness, -1, Closed)) == 1
    assert Waiting(1, (3,), 1) in harness.notices[COORDINATOR]
    harness.stop(COORDINATOR)  # and the coordinator restarts, too
    harness.start(COORDINATOR)
    assert harness.machine(COORDINATOR).phase is CoordinatorPhase.OPENING
    harness.start(3)
    assert harness.run(Harness.finished)
    harness.watch.check()


def test_a_keeper_whose_opening_comes_after_the_stop_is_told(play):
    harness = play(session())
    harness.start()
    coordinator = harness.machine(COORDINATOR)
    assert harness.run(lambda h: of(h, 3, Disclosed) and coordinator.phase is CoordinatorPhase.OPENING)
    assert 3 not in coordinator.course.openings
    (stop,) = coordinator.handle(Halt()).messages
    step = coordinator.handle(Heard(of(harness, 3, Disclosed)[0].frame))
    assert step == Step(messages=(Send(3, stop.frame),))


def test_a_keeper_that_leaves_for_good_ends_the_session(play):
    harness = play(session())
    harness.start()
    assert harness.run(lambda h: len(of(h, -1, Closed)) == 1)
    harness.process(4, Halt())
    assert harness.run(lambda h: all(of(h, n, Ended) for n in h.numbers))
    assert of(harness, -1, Ended)[0].reason is Reason.KEEPER
    assert not harness.ephemeral
    assert any(isinstance(notice, Stopped) for notice in harness.notices[0])


@pytest.mark.parametrize("point", Point)
@pytest.mark.parametrize("who", [COORDINATOR, 0, 3])
def test_killed_between_hearing_recording_and_sending(play, point, who):
    about, seen = session(rounds=2), []

    def crash(number, where):
        if number == who and where is point:
            seen.append(number)
            return len(seen) in (2, 5, 9, 12)
        return False

    harness = play(about, crash=crash)
    harness.start()
    for _ in range(8):
        harness.run(lambda h: h.finished() or None in h.machines.values(), most=4000)
        harness.start(*(n for n in harness.numbers if harness.machines[n] is None))
    assert len(seen) > 5
    assert harness.finished()
    harness.watch.check()
    assert len({r.update for r in of(harness, 3, Disclosed)}) == about.rounds


def test_a_keeper_whose_ledger_was_put_back_hears_its_own_answer(play):
    harness = play(session())
    harness.start()
    assert harness.run(lambda h: len(of(h, -1, Closed)) == 2)
    harness.stop(3)
    records = harness.ledgers[3].records()
    old = [r for r in records if not (isinstance(r, Disclosed) and r.update > 0)]
    harness.ledgers[3] = type(harness.ledgers[3])(old)
    harness.start(3)
    with pytest.raises(LedgerError, match="has opened update 1"):
        harness.run(Harness.finished, most=3000)


# ---- the session ----------------------------------------------------------------------------------------


def test_keepers_are_part_of_the_sessions_identity():
    plain, with_keepers = session(keepers=0), session()
    assert b"keepers" not in plain.canonical
    assert type(plain).decode(with_keepers.encode()).keepers == with_keepers.keepers
    ids = {s.id for s in (plain, with_keepers, session(keepers=3), session(mask_bytes=20))}
    assert len(ids) == 4


WRONG = {
    "mask_bytes must be from": {"mask_bytes": 11},
    "noise must be one number": {"noise": (2.0, 2.0, 3.0)},
    "decay must be one number": {"decay": (0.75, 0.75, 0.8)},
    "keepers need a coordinator": {"graph": "ring:3", "quorum": 2},
    "left out of a session without keepers": {"keepers": 0, "mask_bytes": 12},
    "at most 16 keepers": {"keepers": 17},
}


@pytest.mark.parametrize("message", WRONG)
def test_what_does_not_go_with_keepers_is_refused(message):
    with pytest.raises(ParameterError, match=message):
        session(**WRONG[message])


@pytest.mark.parametrize("owner", [COORDINATOR, 0, 3])
def test_every_keeper_has_a_key_of_its_own(owner):
    about = session()
    copied = about.key(owner)
    with pytest.raises(ParameterError, match="its own key"):
        type(about)(**{**vars_of(about), "keepers": (*about.keepers[:1], Member("other", copied))})


def vars_of(about):
    return {name: getattr(about, name) for name in about.__dataclass_fields__}


def test_masked_numbers_have_room_for_every_honest_sum_and_40_bits_more():
    for about in (session(), session(law="one-shot"), session(agents=200, rounds=40, quorum=2)):
        most = max(about.sum_limits)
        assert 2 ** (8 * about.mask_bytes - 1) >= most * 2**40
        assert most >= about.n * (
            about.lattice.limit >> (about.exponent(0, about.exchanges - 1) - about.lattice.state_exponent)
        )


def test_what_agents_send_is_masked(play):
    """The same values and updates under other keys are other numbers; without keys they are nothing."""
    harness = play(session())
    harness.start()
    assert harness.run(Harness.finished)
    kinds = [Kind(msgspec.msgpack.decode(frame[:-64])[3]) for _, _, frame in harness.network.tap]
    assert Kind.REPORT not in kinds
    assert Kind.MASKED in kinds
    numbers = [Codec(harness.session).open(r.frame).body.numbers for r in of(harness, 0, Spoke)]
    assert all(abs(v) > max(harness.session.sum_limits) for n in numbers for v in centred(n, 12))
    assert of(harness, 0, Keyed)[0].member == 0


# ---- the end of a keeper ----------------------------------------------------------------------------------


@pytest.mark.parametrize("leaves", [False, True])
def test_a_keeper_that_missed_the_last_feedback_comes_to_its_end(leaves, play):
    """It asks for it; or, where the coordinator has left for good, it waits for as long as for a start."""
    harness = play(session(rounds=2))
    codec, send, lost = Codec(harness.session), harness.network.send, []

    def lossy(source, to, frame):
        body = codec.open(frame).body
        if to == 3 and isinstance(body, Feedback) and body.round == 1 and not lost:
            lost.append(frame)
        else:
            send(source, to, frame)

    harness.network.send = lossy
    harness.start()
    assert harness.run(lambda h: h.machine(COORDINATOR).phase is CoordinatorPhase.FINISHED)
    assert (len(lost), harness.machine(3).phase) == (1, KeeperPhase.SERVING)
    if leaves:
        harness.stop(COORDINATOR)
    assert harness.run(lambda h: h.machine(3).phase is KeeperPhase.FINISHED, most=2000)
    assert harness.clock.now <= (10 if leaves else 2)
