"""Places: a key that has spoken elsewhere is found out before it draws again, whoever asks how often."""

import math

import numpy as np
import pytest
from tests.doubles import (
    Harness,
    ListLedger,
    ScriptedNoise,
    known_feedback,
    known_key,
    known_series,
    known_session,
)

from tacit.base.errors import LedgerError
from tacit.core.protocol.agent import AgentMachine
from tacit.core.protocol.codec import Codec, digest
from tacit.core.protocol.coordinator import CoordinatorMachine
from tacit.core.protocol.effects import Heard, Joined, Left, NoiseReady, Start, Tick
from tacit.core.protocol.machine import ANSWERS_EVERY, ANSWERS_PER_TICK
from tacit.core.protocol.messages import COORDINATOR, Ask, Feedback, Place, Present, Refusal, Report
from tacit.core.protocol.notices import DisputeFound, Equivocated, Refused
from tacit.core.protocol.places import LastUsed
from tacit.core.protocol.private_state import Budget
from tacit.core.protocol.records import Closed, Evidence, Moved, Spoke

OTHERS = bytes(range(32))
"""The digest of a message that this agent did not make."""


# ---- an old ledger, in whole sessions ---------------------------------------------------------------------


def spoken(harness, number):
    return [r.update for r in harness.ledgers[number].records() if isinstance(r, Spoke)]


def run_on(harness, rounds):
    ledger = harness.ledgers[COORDINATOR]
    assert harness.run(lambda _: sum(isinstance(r, Closed) for r in ledger.records()) >= rounds)


def played(session):
    size = max(session.n, len(session.keepers))
    draws = np.arange(session.rounds * size, dtype=object).reshape(session.rounds, size) + 1
    values = [(lambda slot, i=i: float(i + slot)) if session.series else 0.25 for i in range(session.n)]
    return Harness(session, values, ScriptedNoise(draws, fresh=False))


SESSIONS = {
    "fading": known_session(3, 12, quorum=2),
    "one-shot": known_session(3, 12, quorum=2, law="one-shot"),
    "keepers": known_session(3, 12, quorum=2, keepers=1),
    "series": known_series(3, 12, quorum=2),
}


@pytest.mark.parametrize("kind", SESSIONS)
@pytest.mark.parametrize("lost", [1, 3, None], ids=["the last message", "three messages", "all messages"])
def test_an_old_ledger_that_was_put_back_is_found_out_before_it_draws(kind, lost):
    session = SESSIONS[kind]
    harness = played(session)
    harness.start()
    run_on(harness, 5)
    records = harness.ledgers[0].records()
    made = spoken(harness, 0)
    first = made[0 if lost is None else -lost]
    keep = next(k for k, r in enumerate(records) if isinstance(r, Spoke) and r.update == first)
    harness.stop(0)
    run_on(harness, 7)  # without it
    harness.ledgers[0] = ListLedger(records[:keep])
    sent = len(spoken(harness, 0))
    harness.start(0)
    harness.run(lambda h: h.machine(0).disputed is not None, most=5000)
    assert harness.machine(0).disputed >= 6
    assert len(spoken(harness, 0)) == sent  # it has drawn nothing
    (evidence,) = [r for r in harness.ledgers[0].records() if isinstance(r, Evidence)]
    codec = Codec(session)
    feedback, place = codec.open(evidence.first).body, codec.open(evidence.second).body
    assert (feedback.round, place.last) == (place.round, made[-1])
    harness.stop(0)
    harness.start(0)
    assert harness.machine(0).disputed is not None  # nor after a restart
    assert any(isinstance(notice, DisputeFound) for notice in harness.notices[0])


@pytest.mark.parametrize("kind", ["fading", "one-shot", "keepers"])
@pytest.mark.parametrize("rounds", [0, 3])
def test_an_old_ledger_is_found_out_while_its_message_waits_in_an_open_round(kind, rounds):
    """The coordinator shows the message first, before anything that lets the agent draw."""
    harness = played(SESSIONS[kind])
    harness.start()
    run_on(harness, rounds)
    harness.stop(1)
    harness.stop(2)
    assert harness.run(lambda h: 0 in h.machine(COORDINATOR).course.reports)
    made, records = spoken(harness, 0)[-1], harness.ledgers[0].records()
    assert made == harness.machine(COORDINATOR).round  # it waits for the others
    harness.stop(0)
    keep = next(k for k, r in enumerate(records) if isinstance(r, Spoke) and r.update == made)
    if rounds:  # not even the last feedback is in it
        keep = next(k for k, r in enumerate(records) if isinstance(r, Moved) and r.update == made - 1)
    harness.ledgers[0] = ListLedger(records[:keep])
    sent = spoken(harness, 0)
    harness.start(0)
    with pytest.raises(LedgerError, match=f"sent message {made}, but not from this ledger"):
        harness.run(most=200)
    assert spoken(harness, 0) == sent


@pytest.mark.parametrize("kind", SESSIONS)
def test_one_that_was_away_or_comes_late_gets_its_place_and_goes_on(kind):
    session = SESSIONS[kind]
    harness = played(session)
    harness.start(*(number for number in harness.numbers if number != 2))
    run_on(harness, 3)
    harness.stop(0)
    harness.start(2)
    run_on(harness, 6)
    harness.start(0)
    assert harness.run(Harness.finished)
    for number in (0, 2):
        assert harness.machine(number).disputed is None
        assert session.rounds - 1 in spoken(harness, number)


def test_a_coordinator_that_comes_back_has_the_same_places():
    """The root of later feedback is that of all uses, also of those before the restart."""
    session = SESSIONS["fading"]
    harness = played(session)
    harness.start(COORDINATOR, 0, 1)
    run_on(harness, 3)
    harness.stop(1)
    harness.start(2)
    run_on(harness, 5)
    harness.stop(COORDINATOR)
    harness.start(COORDINATOR)
    harness.start(1)
    assert harness.run()
    state, codec = LastUsed(3), Codec(session)
    for closed in (r for r in harness.ledgers[COORDINATOR].records() if isinstance(r, Closed)):
        state.use(closed.round, {i: digest(frame) for i, frame in closed.each()})
        body = codec.open(closed.frame).body
        assert (body.state, body.members) == (state.root, state.members)


# ---- one agent, and a coordinator that may lie ----------------------------------------------------------


class Told:
    """Agent 0, and the coordinator's key."""

    def __init__(self, session=None):
        self.session = session or known_session(5, 6, quorum=1)
        self.codec = Codec(self.session)
        sign = known_key(0).sign
        self.agent = AgentMachine(self.session, 0, 0.5, sign=sign, budget=Budget(math.inf))
        self.agent.handle(Start())
        self.before = bytes(32)

    def sealed(self, body):
        return self.codec.seal(COORDINATOR, body, known_key(COORDINATOR).sign)

    def say(self, body):
        frame = self.sealed(body)
        return frame, self.agent.handle(Heard(frame))

    def feedback(self, t, state, **more):
        body = known_feedback(self.codec, t, [7], before=self.before, state=state.root, **more)
        frame, step = self.say(body)
        self.before = digest(frame)
        return step


@pytest.fixture
def told():
    return Told()


def used(n, *rounds):
    """The state after rounds in which only agent 1 was used."""
    state = LastUsed(n)
    for t in rounds:
        state.use(t, {1: OTHERS})
    return state


def wrong_places():
    right = used(5, 0).place(0, 0)
    swapped = right.path[32:64] + right.path[:32] + right.path[64:]
    return {
        "of another agent": (used(5, 0).place(0, 2), Refusal.WRONG_PLACE),
        "that was never in it": (LastUsed(5).place(0, 0), Refusal.WRONG_PLACE),
        "with another last round": (Place(0, 0, OTHERS, right.path), Refusal.WRONG_PLACE),
        "with a swapped path": (Place(0, -1, bytes(32), swapped), Refusal.WRONG_PLACE),
        "with a short path": (Place(0, -1, bytes(32), right.path[:-32]), Refusal.WRONG_PLACE),
        "of a round that has not been": (used(5, 0, 1).place(1, 0), Refusal.AHEAD),
    }


@pytest.mark.parametrize("which", wrong_places())
def test_a_wrong_place_is_refused_and_nothing_is_drawn(told, which):
    place, reason = wrong_places()[which]
    told.feedback(0, used(5, 0), count=1)
    assert told.agent.update == 1
    _, step = told.say(place)
    assert step.notices == (Refused(reason, COORDINATOR),)
    assert told.agent.wants_noise is None
    told.say(Ask(1))
    assert told.agent.wants_noise is None
    told.say(used(5, 0).place(0, 0))
    assert told.agent.wants_noise == 1


def test_an_old_place_is_refused(told):
    """It says nothing of what happened since."""
    told.feedback(0, used(5, 0), count=1)
    told.say(used(5, 0).place(0, 0))
    assert told.agent.wants_noise == 1
    told.feedback(1, used(5, 0, 1), count=1)
    assert told.agent.wants_noise is None
    _, step = told.say(used(5, 0).place(0, 0))
    assert step.notices == (Refused(Refusal.LATE, COORDINATOR),)
    assert told.agent.wants_noise is None
    told.say(used(5, 0, 1).place(1, 0))
    assert told.agent.wants_noise == 2


def test_one_that_spoke_needs_no_place(told):
    told.say(Ask(0))
    told.agent.handle(NoiseReady(0, 3))
    told.feedback(0, used(5, 0), count=1)
    assert told.agent.wants_noise == 1


class Restarted(Told):
    """Agent 0, started again from a ledger with its message of round 0."""

    def __init__(self):
        super().__init__()
        records, told = [], self.agent
        for event in (Heard(self.sealed(Ask(0))), NoiseReady(0, 3)):
            records += told.handle(event).records
        records[:0] = AgentMachine(
            self.session, 0, 0.5, sign=known_key(0).sign, budget=Budget(math.inf)
        )._unsaved
        self.agent = AgentMachine.resume(
            self.session, 0, records, sign=known_key(0).sign, budget=Budget(math.inf)
        )
        self.agent.handle(Start())
        self.state = LastUsed(5)

    def use(self, t, **more):
        """Feedback in which this agent's own message is used, if it has one for the round."""
        own = {0: self.agent.private.digests[t]} if t in self.agent.private.digests else {1: OTHERS}
        self.state.use(t, more.pop("digests", own))
        return self.feedback(t, self.state, count=1)


@pytest.fixture
def restarted():
    return Restarted()


def test_after_a_restart_nothing_is_drawn_before_a_place_names_the_own_message(restarted):
    """Its ledger may be an old copy: another message of the open round may have left."""
    restarted.use(0)
    restarted.say(Ask(1))
    assert restarted.agent.wants_noise is None
    restarted.say(restarted.state.place(0, 0))
    assert restarted.agent.wants_noise == 1
    restarted.agent.handle(NoiseReady(1, 3))
    # A message of the time before may have overtaken this one. From a place that names it on, none can.
    restarted.use(1)
    assert restarted.agent.wants_noise is None
    restarted.say(restarted.state.place(1, 0))
    assert restarted.agent.wants_noise == 2
    restarted.agent.handle(NoiseReady(2, 3))
    restarted.use(2)
    assert restarted.agent.wants_noise == 3


def test_after_a_restart_a_message_of_another_ledger_is_found_though_it_has_spoken(restarted):
    restarted.use(0)
    restarted.say(restarted.state.place(0, 0))
    restarted.agent.handle(NoiseReady(1, 3))
    restarted.use(1, digests={0: OTHERS})  # of a process before, whose message came first
    assert restarted.agent.wants_noise is None
    _, step = restarted.say(restarted.state.place(1, 0))
    assert DisputeFound(1) in step.notices


def test_after_a_restart_an_old_place_is_refused(restarted):
    restarted.use(0)
    old = restarted.state.place(0, 0)
    restarted.use(1)  # it was away
    _, step = restarted.say(old)
    assert step.notices == (Refused(Refusal.LATE, COORDINATOR),)
    restarted.say(Ask(2))
    assert restarted.agent.wants_noise is None


def test_one_that_lacks_its_place_asks_for_it(told):
    told.feedback(0, used(5, 0), count=1)
    told.agent.handle(Tick(0.0))
    step = told.agent.handle(Tick(told.session.deadlines.repeat))
    assert [told.codec.open(m.frame).body for m in step.messages] == [Present(1)]


@pytest.mark.parametrize("change", [{"members": 2}, {"state": LastUsed(5)}], ids=["members", "state"])
def test_two_stories_of_who_was_used_are_evidence(told, change):
    """One member more, or another state, in feedback that is otherwise the same."""
    told.feedback(0, used(5, 0), count=1)
    told.before, first = bytes(32), told.before
    step = told.feedback(0, change.pop("state", used(5, 0)), count=1 + bool(change), **change)
    assert Equivocated(COORDINATOR, 0) in step.notices
    (evidence,) = step.records
    assert evidence.first_digest == first


@pytest.mark.parametrize("members", [1, 5])
def test_members_that_do_not_follow_are_another_history(told, members):
    """Nobody stops being a member, and only those who are used now become members."""
    told.feedback(0, used(5, 0), count=2)
    step = told.feedback(1, used(5, 0, 1), count=1, members=members)
    assert Equivocated(COORDINATOR, 1) in step.notices
    assert told.agent.update == 1


# ---- the coordinator ------------------------------------------------------------------------------------


class Server:
    """A coordinator whose agents are all connected."""

    def __init__(self):
        self.session = known_session(4, 6, quorum=2)
        self.codec = Codec(self.session)
        self.machine = CoordinatorMachine(self.session, sign=known_key(COORDINATOR).sign)
        self.machine.handle(Start())
        self.now = 0.0
        for i in range(4):
            self.machine.handle(Joined(i))
            self.hear(i, Present(0))

    def hear(self, who, body):
        return self.machine.handle(Heard(self.codec.seal(who, body, known_key(who).sign)))

    def close(self, *who):
        """Close a round with these agents' messages."""
        for i in who:
            u = self.machine.round
            numbers = self.codec.pack([i])
            before = self.machine.course.before
            step = self.hear(i, Report(u, self.session.exponent(i, u), numbers, before))
        if len(who) == 4:
            return step
        self.machine.handle(Tick(self.now))
        self.now += 31.0
        return self.machine.handle(Tick(self.now))

    def places(self, step):
        said = [(m.to, self.codec.open(m.frame).body) for m in step.messages]
        return {to: body for to, body in said if isinstance(body, Place)}


def test_places_go_to_those_who_are_connected_and_not_used():
    server = Server()
    assert server.places(server.close(0, 1, 2, 3)) == {}
    server.machine.handle(Left(3))
    step = server.close(0, 1)
    kinds = [(m.to, type(server.codec.open(m.frame).body)) for m in step.messages]
    assert kinds == [(None, Feedback), (2, Place)]
    assert server.places(step)[2] == server.machine.course.state.place(1, 2)
    assert set(server.places(server.machine.handle(Joined(3)))) == {3}


def test_who_spoke_gets_its_place_when_it_asks():
    server = Server()
    server.close(0, 1, 2, 3)
    place = server.places(server.hear(0, Present(1)))[0]
    (past,) = server.machine.course.past
    assert (place.last, place.digest) == (0, past[0])


def test_one_that_came_back_gets_its_place_with_each_feedback_until_its_new_message_is_used():
    """So it waits for no answer beyond the first one."""
    server = Server()
    server.close(0, 1, 2, 3)
    server.hear(0, Present(1))
    assert set(server.places(server.close(1, 2, 3))) == {0}
    assert set(server.places(server.close(0, 1, 2, 3))) == {0}
    assert server.places(server.close(0, 1, 2, 3)) == {}


def test_a_message_that_came_too_late_is_shown_to_its_sender():
    """With one-shot noise the first message is made even then: a second one must not follow."""
    server = Server()
    exponent, before = server.session.exponent(3, 0), server.machine.course.before
    server.close(0, 1)
    late = Report(0, exponent, server.codec.pack([3]), before)
    server.hear(3, late)
    step = server.hear(3, Present(0))
    first = server.codec.open(step.messages[0].frame)
    assert (first.sender, first.body) == (3, late)
    server.close(0, 1, 2, 3)
    assert server.codec.open(server.hear(3, Present(0)).messages[0].frame).sender == COORDINATOR


def test_one_that_asks_ten_thousand_times_is_answered_a_few_times():
    server = Server()
    server.close(0, 1, 2, 3)
    signed = []
    seal = server.machine._sign
    server.machine._sign = lambda data: signed.append(data) or seal(data)
    frame = server.codec.seal(0, Present(1), known_key(0).sign)
    steps = [server.machine.handle(Heard(frame)) for _ in range(10_000)]
    places = [place for step in steps for place in server.places(step).values()]
    assert len(places) == ANSWERS_PER_TICK
    assert sum(len(step.messages) for step in steps) == 2 * ANSWERS_PER_TICK  # each with a request
    assert server.machine.refused[Refusal.TOO_OFTEN] == 10_000 - ANSWERS_PER_TICK
    assert len(signed) == 1 + ANSWERS_PER_TICK  # its place is signed once
    assert server.places(server.hear(1, Present(1)))  # others are answered all the same
    server.machine.handle(Tick(100.0 + ANSWERS_EVERY))
    assert server.places(server.hear(0, Present(1)))
