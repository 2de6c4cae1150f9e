"""The coordinator: starts with enough, closes with the quorum, and never says two things."""

import math

import numpy as np
import pytest
from tests.doubles import known_key, known_session

from tacit.base.errors import LedgerError, ParameterError, StateError
from tacit.core.protocol.codec import Codec, combined, digest
from tacit.core.protocol.coordinator import CoordinatorMachine
from tacit.core.protocol.effects import Halt, Heard, Joined, Left, NoiseReady, Send, Start, Step, Tick
from tacit.core.protocol.machine import (
    ANSWERS_PER_TICK,
    BATCH,
    MOST_EVIDENCE,
    REMEMBERED,
    TELL_FIRST,
    TELL_IN_ROUND,
    TELL_RARELY,
)
from tacit.core.protocol.messages import (
    COORDINATOR,
    NOTHING_HEARD,
    Ask,
    Done,
    Feedback,
    Place,
    Present,
    Reason,
    Refusal,
    Report,
    Stop,
)
from tacit.core.protocol.notices import (
    Equivocated,
    Finished,
    LostHistory,
    Quiet,
    Refused,
    RoundClosed,
    RoundOpened,
    Stopped,
    Waiting,
)
from tacit.core.protocol.places import LastUsed
from tacit.core.protocol.records import Began, Closed, Ended, Evidence, Opened
from tacit.core.protocol.session import Deadlines
from tacit.core.protocol.tables import CoordinatorPhase as P


class Server:
    """A coordinator, and the keys of all its agents."""

    def __init__(self, session=None):
        self.session = session or known_session(4, 3, quorum=2, start=3)
        self.codec = Codec(self.session)
        self.machine = CoordinatorMachine(self.session, sign=known_key(COORDINATOR).sign)
        self.records, self.sent, self.now = [], [], 0.0

    def __call__(self, event):
        step = self.machine.handle(event)
        self.records += step.records
        self.sent += step.messages
        return step

    def hear(self, sender, body):
        return self(Heard(self.frame(sender, body)))

    def frame(self, sender, body):
        return self.codec.seal(sender, body, known_key(sender).sign)

    def report(self, sender, u=None, numbers=None, heard=None):
        u = self.machine.round if u is None else u
        heard = self.before(u) if heard is None else heard
        numbers = [10 * sender + u] * self.session.components if numbers is None else numbers
        body = Report(u, self.session.exponent(sender, u), self.codec.pack(numbers), heard)
        return self(Heard(self.frame(sender, body)))

    def before(self, u):
        closed = [r for r in self.records if isinstance(r, Closed)]
        return digest(closed[u - 1].frame) if u else NOTHING_HEARD

    def says(self, step):
        return [(m.to, self.codec.open(m.frame).body) for m in step.messages]

    def sends(self, step):
        """The messages, without places."""
        bodies = [self.codec.open(m.frame).body for m in step.messages]
        return tuple(m for m, body in zip(step.messages, bodies, strict=True) if not isinstance(body, Place))

    def tick(self, seconds):
        self(Tick(self.now))
        self.now += seconds
        return self(Tick(self.now))

    def begin(self, *agents):
        self(Start())
        for i in agents or range(self.session.n):
            step = self.hear(i, Present(0))
        return step

    def again(self):
        self.machine = CoordinatorMachine.resume(self.session, self.records, sign=known_key(COORDINATOR).sign)
        return self


@pytest.fixture
def server():
    return Server()


def test_it_opens_when_all_are_there(server):
    server(Start())
    for i in range(3):
        assert server.hear(i, Present(0)) == Step()
    step = server.hear(3, Present(0))
    assert step.records == (Opened(server.session.id, (0, 1, 2, 3)),)
    assert server.says(step) == [(None, Ask(0))]
    assert step.notices == (RoundOpened(0, 4),)


def test_it_does_not_open_with_too_few_ever(server):
    server.begin(0, 1)
    step = server.tick(1e6)
    assert step.notices == (Waiting(0, (2, 3), needed=1),)
    assert server.machine.phase is P.GATHERING
    step = server.hear(2, Present(0))  # now there are enough, and the deadline has passed
    assert server.machine.phase is P.COLLECTING
    assert step.records == (Opened(server.session.id, (0, 1, 2)),)


def test_it_waits_for_the_rest_until_the_deadline(server):
    server.begin(0, 1, 2)
    assert server.tick(59).records == ()
    assert server.tick(1.1).records == (Opened(server.session.id, (0, 1, 2)),)


def test_who_is_seen_by_the_network_is_not_present_before_it_has_signed(server):
    server(Start())
    for i in range(4):
        server(Joined(i))
    assert server.machine.present == set()


def test_a_round_closes_when_all_present_have_spoken(server):
    server.begin()
    for i in range(3):
        assert server.report(i) == Step()
    step = server.report(3)
    (closed,) = step.records
    feedback = server.codec.open(closed.frame).body
    frames = [server.codec.open(f) for f in closed.reports]
    expected = server.session.lattice.mean([(m.numbers[0], m.body.exponent) for m in frames])
    state, basis = LastUsed(4), combined(m.digest for m in frames)
    state.use(0, {m.sender: m.digest for m in frames})
    mean = server.codec.pack([expected])
    assert feedback == Feedback(0, mean, 4, 4, state.root, basis, NOTHING_HEARD)
    assert closed.used == (0, 1, 2, 3)
    assert step.messages == (Send(None, closed.frame),)
    assert step.notices == (RoundClosed(0, (0, 1, 2, 3), ()), RoundOpened(1, 4))
    for i in range(4):
        step = server.report(i)
    assert server.codec.open(step.records[0].frame).body.before == digest(closed.frame)


def test_at_the_deadline_the_quorum_suffices_and_who_was_late_is_not_waited_for_again(server):
    server.begin()
    server.report(0)
    server.report(1)
    assert server.tick(29.9).records == ()
    step = server.tick(0.2)
    assert step.records[0].used == (0, 1)
    assert step.notices[0] == RoundClosed(0, (0, 1), (2, 3))
    assert server.machine.present == {0, 1}
    server.report(0)
    assert server.report(1).records[0].used == (0, 1)  # at once: nobody else is waited for
    server.hear(3, Present(2))  # heard again, so waited for again
    server.report(0)
    assert server.report(1).records == ()
    assert server.report(3).records[0].used == (0, 1, 3)


def test_without_the_quorum_it_waits_and_says_for_whom(server):
    server.begin()
    server.report(2)
    step = server.tick(31)
    assert step.records == ()
    assert step.notices == (Waiting(0, (0, 1, 3), needed=1),)
    assert server.report(0).records[0].used == (0, 2)  # the deadline has passed: the quorum closes it


def test_a_round_waits_for_a_disconnected_member_until_the_deadline(server):
    server.begin()
    for i in range(3):
        server.report(i)
    assert server(Left(3)) == Step()
    assert server.tick(29).records == ()
    server(Joined(3))
    assert server.report(3).records[0].used == (0, 1, 2, 3)  # back in time


def test_a_round_names_whom_it_went_without_now_and_later(server):
    server.begin()
    for i in range(3):
        server.report(i)
    server(Left(3))
    (closed,) = (n for n in server.tick(31).notices if isinstance(n, RoundClosed))
    assert closed == RoundClosed(0, (0, 1, 2), (3,))
    assert server.machine.present == {0, 1, 2}
    for i in range(3):
        step = server.report(i)  # it is not waited for again, but still named
    assert RoundClosed(1, (0, 1, 2), (3,)) in step.notices


def test_before_round_0_a_disconnected_agent_is_not_present(server):
    server(Start())
    server.hear(0, Present(0))
    server(Left(0))
    for i in (1, 2, 3):
        server.hear(i, Present(0))
    assert server.machine.phase is P.GATHERING
    server.hear(0, Present(0))
    assert server.machine.phase is P.COLLECTING


def test_feedback_of_its_own_key_that_its_ledger_does_not_have_ends_it(server):
    """An agent shows it: the proof that this ledger is not the newest, which no agent could forge."""
    server.begin()
    for _ in range(2):
        for i in range(4):
            server.report(i)
    first, second = (r.frame for r in server.records if isinstance(r, Closed))
    assert server(Heard(first)).notices == (Refused(Refusal.REPLAY, COORDINATOR),)
    for known in ([], server.records[:1], server.records[:2]):
        old = CoordinatorMachine.resume(server.session, known, sign=known_key(COORDINATOR).sign)
        old.handle(Start())
        with pytest.raises(LedgerError, match=r"signed feedback of round 1 of session .* not the newest"):
            old.handle(Heard(second))


def test_leaving_below_the_quorum_does_not_close(server):
    server.begin()
    server.report(0)
    for i in (1, 2, 3):
        assert server(Left(i)).records == ()


def test_who_has_reached_its_cap_is_not_waited_for_but_answered(server):
    server.begin()
    step = server.hear(3, Stop(0, Reason.CAP))
    assert step.notices == (Quiet(3, 0),)
    for i in range(3):
        step = server.report(i)
    assert step.records[0].used == (0, 1, 2)
    assert [type(body) for _, body in server.says(server.hear(3, Ask(0)))] == [Feedback, Place]
    server.report(0)
    server.report(1)
    assert server.report(2).records[0].used == (0, 1, 2)


def test_a_late_report_is_not_used_but_answered_with_what_it_missed(server):
    server.begin()
    server.report(0)
    server.report(1)
    server.tick(31)
    first = server.records[-1].frame
    step = server.report(2, u=0)
    assert step.notices == (Refused(Refusal.LATE, 2),)
    assert server.sends(step) == (Send(2, first),)
    assert step.records == ()
    assert 2 in server.machine.present
    step = server.report(0, u=0)  # the feedback got lost on its way
    assert step.notices == (Refused(Refusal.REPLAY, 0),)
    assert step.messages == (Send(0, first),)


def test_one_far_behind_gets_the_newest_first_and_then_a_batch():
    server = Server(known_session(2, 40, quorum=1, start=1, mixing=0.1, decay=0.95))
    server.begin(0)
    server.tick(61)
    for _ in range(30):
        server.report(0)
    feedback = [r.frame for r in server.records if isinstance(r, Closed)]
    assert len(feedback) == 30
    step = server.hear(1, Present(0))
    assert [m.frame for m in server.sends(step)] == [feedback[29], *feedback[:BATCH]]
    assert {m.to for m in step.messages} == {1}
    step = server.hear(1, Ask(20))
    assert [m.frame for m in server.sends(step)] == feedback[20:]
    place = server.machine.course.state.place(29, 1)
    assert server.says(server.hear(1, Ask(30))) == [(1, place), (1, Ask(30))]


def test_asking_too_often_is_answered_later(server):
    server.begin()
    for k in range(100):
        step = server.hear(0, Ask(0))
        assert bool(step.messages) == (k < ANSWERS_PER_TICK)
    assert server.machine.refused[Refusal.TOO_OFTEN] == 100 - ANSWERS_PER_TICK
    assert server.hear(1, Ask(0)).messages != ()  # others are not disturbed
    server.tick(0)
    assert server.hear(0, Ask(0)).messages != ()


@pytest.mark.parametrize("rounds_made", [0, 1, 2, 3])
def test_after_a_restart_it_repeats_its_very_bytes(server, rounds_made):
    server.begin()
    for _ in range(rounds_made):
        for i in range(4):
            server.report(i)
    feedback = [r.frame for r in server.records if isinstance(r, Closed)]
    step = server.again()(Start())
    assert step.records == ()
    if rounds_made == 0:
        assert server.says(step) == [(None, Ask(0))]
    elif rounds_made < 3:
        assert step.messages == (Send(None, feedback[-1]),)
    else:
        assert server.machine.phase is P.SERVING
    for t in range(rounds_made):
        step = server.hear(1, Ask(t))
        assert step.messages[0].frame == feedback[t]


def test_after_a_restart_it_waits_for_those_it_had_used(server):
    """Otherwise the first few to come back would close the round among themselves."""
    server.begin()
    for i in range(4):
        server.report(i)
    server.again()(Start())
    for i in range(3):
        assert server.report(i).records == ()
    assert server.report(3).records[0].used == (0, 1, 2, 3)


def test_a_coordinator_with_an_old_ledger_is_found_out(server, state_of):
    server.begin()
    for _ in range(2):
        for i in range(4):
            server.report(i)
    old = server.records[:2]
    server.machine = CoordinatorMachine.resume(server.session, old, sign=known_key(COORDINATOR).sign)
    server(Start())
    before = state_of(server.machine)
    for body, update in ((Present(2), 2), (Ask(2), 2), (Done(3, bytes(32)), 3), (Stop(2, Reason.CAP), 2)):
        step = server.hear(1, body)
        assert server.says(step) == [(1, Ask(1))]  # it answers with what this key has signed, if it can
        assert step.notices == (Refused(Refusal.AHEAD, 1), LostHistory(1, update))
    assert server.report(1, u=2).notices == (Refused(Refusal.AHEAD, 1), LostHistory(1, 2))
    after = state_of(server.machine)
    assert after.pop("_answered").total() == before.pop("_answered").total() + 5
    assert after == before


def test_a_report_that_comes_from_another_history_is_refused(server, state_of):
    server.begin()
    for i in range(4):
        server.report(i)
    before = state_of(server.machine)
    step = server.report(0, heard=bytes(range(32)))
    assert step == Step(notices=(Refused(Refusal.OTHER_HISTORY, 0),))
    assert state_of(server.machine) == before


def test_an_agent_that_says_two_things_is_kept_as_evidence_and_the_first_counts(server):
    server.begin()
    server.report(0)
    first = server.machine.course.reports[0]
    step = server.report(0, numbers=[999])
    assert step.notices == (Refused(Refusal.EQUIVOCATION, 0), Equivocated(0, 0))
    (evidence,) = step.records
    assert (evidence.sender, evidence.round, evidence.first) == (0, 0, first.frame)
    assert server.machine.course.reports[0] is first
    assert step.messages == (Send(0, first.frame),)  # the process that made the second learns of the first
    for i in (1, 2, 3):
        server.report(i)
    step = server.report(1, u=0, numbers=[999])  # about a closed round: the first is in the record
    assert step.records[0].first == b""
    assert step.records[0].first_digest == digest(server.records[-2].reports[1])
    assert step.messages == (Send(1, server.records[-2].reports[1]),)


def test_a_liar_does_not_use_up_the_room_for_evidence_of_others():
    server = Server(known_session(3, MOST_EVIDENCE + 2, mixing=0.1, decay=0.95))
    server.begin()
    for u in range(MOST_EVIDENCE + 1):
        for i in range(3):
            server.report(i, u)
    for u in range(MOST_EVIDENCE + 1):
        server.report(0, u, numbers=[999])
    step = server.report(1, 0, numbers=[999])
    assert Equivocated(1, 0) in step.notices
    senders = [record.sender for record in server.records if isinstance(record, Evidence)]
    assert senders == [0] * MOST_EVIDENCE + [1]
    assert server.report(1, 1, numbers=[999]).records == ()  # one is proof enough


def test_one_that_comes_again_is_told_what_it_has_said_in_this_round(server):
    server.begin()
    server.report(0)
    assert server.hear(0, Present(0)).messages == (Send(0, server.machine.course.reports[0].frame),)
    assert server.says(server.hear(1, Present(0))) == [(1, Ask(0))]


def test_contradictions_are_noticed_for_a_while_back():
    server = Server(known_session(2, REMEMBERED + 10, mixing=0.05, decay=0.97))
    server.begin()
    for _ in range(REMEMBERED + 5):
        server.report(0)
        server.report(1)
    assert len(server.machine.course.past) == REMEMBERED
    assert isinstance(server.report(0, u=5, numbers=[999]).records[0], Evidence)
    assert server.report(0, u=4, numbers=[999]).records == ()


def test_a_replay_changes_nothing(server, state_of):
    server.begin()
    server.report(0)
    before = state_of(server.machine)
    assert server.report(0) == Step(notices=(Refused(Refusal.REPLAY, 0),))
    assert server(Heard(server.frame(COORDINATOR, Ask(0)))) == Step(
        notices=(Refused(Refusal.NOT_FOR_ME, COORDINATOR),)
    )
    assert state_of(server.machine) == before


def test_reports_before_the_start_make_present_but_are_not_used(server):
    server(Start())
    step = server.report(0)
    assert step.notices == (Refused(Refusal.OUT_OF_PLACE, 0),)
    assert server.machine.present == {0}
    assert server.machine.heard == 0


def make_all(server):
    server.begin()
    for _ in range(3):
        for i in range(4):
            step = server.report(i)
    return step


def test_at_the_end_it_stays_until_all_have_heard(server):
    step = make_all(server)
    last = step.records[-1].frame
    for i in (0, 1, 2):
        assert server.hear(i, Done(3, bytes(32))) == Step()
    step = server.tick(1)
    assert step.messages == (Send(3, last),)
    step = server.hear(3, Done(3, bytes(32)))
    assert step.records == (Ended(3, None),)
    assert step.notices == (Finished(3),)
    assert server.machine.phase is P.FINISHED
    assert server.machine.wake is None
    assert server.sends(server.hear(3, Ask(2))) == (Send(3, last),)  # still answers


def test_one_that_asked_too_often_is_answered_later_after_the_end_too(server):
    """A finished coordinator has no timers, so it must ask for the tick that allows answers again."""
    make_all(server)
    for i in range(4):
        server.hear(i, Done(3, bytes(32)))
    while server.hear(3, Ask(2)).messages:
        pass
    wake = server.machine.wake
    assert wake is not None
    server(Tick(wake))
    assert server.hear(3, Ask(2)).messages


def test_at_the_end_it_does_not_wait_for_ever(server):
    make_all(server)
    assert server.tick(61).notices == (Finished(3),)


def test_started_again_when_all_have_heard_it_is_over_at_once(server):
    make_all(server)
    for i in range(4):
        server.hear(i, Done(3, bytes(32)))
    step = server.again()(Start())
    assert step == Step(notices=(Finished(3),))
    assert server.machine.phase is P.FINISHED
    assert server.hear(3, Ask(2)).messages  # still answers


def test_started_again_at_the_end_it_stays_for_those_who_come_back_only(server):
    make_all(server)
    server.hear(0, Done(3, bytes(32)))
    server.again()(Start())
    soon = 10 * server.session.deadlines.repeat
    assert soon < server.session.deadlines.start
    assert server.tick(soon).notices == (Finished(3),)  # nobody came
    server.again()(Start())
    assert server.hear(2, Ask(2)).messages
    assert Finished(3) not in server.tick(soon).notices
    assert Finished(3) in server.tick(server.session.deadlines.start).notices


def test_present_at_the_end_means_done(server):
    make_all(server)
    for i in range(4):
        server.hear(i, Present(3))
    assert server.machine.phase is P.FINISHED


def test_halt_ends_the_session_for_all_and_for_good(server):
    server.begin()
    step = server(Halt())
    assert step.records == (Ended(0, Reason.OPERATOR),)
    assert step.notices == (Stopped(0, Reason.OPERATOR),)
    stop = server.frame(COORDINATOR, Stop(0, Reason.OPERATOR))
    assert step.messages == (Send(None, stop),)
    assert server.report(0).messages == (Send(0, stop),)
    assert server.again()(Start()).messages == (Send(None, stop),)
    assert server.hear(2, Present(0)).messages == (Send(2, stop),)


def test_a_joining_agent_is_told_where_the_session_is(server):
    server.begin()
    assert server.says(server(Joined(2))) == [(2, Ask(0))]
    for i in range(4):
        server.report(i)
    feedback, place = server(Joined(2)).messages
    assert feedback == Send(2, server.records[-1].frame)
    assert server.codec.open(place.frame).body == server.machine.course.state.place(0, 2)
    assert server(Joined(99)).notices == (Refused(Refusal.NOT_FOR_ME),)


def test_wake_says_when_something_is_due(server):
    assert server.machine.wake is None
    server(Start())
    assert server.machine.wake == -math.inf
    server(Tick(5.0))
    assert server.machine.wake == 5.0 + TELL_FIRST
    server(Tick(20.0))
    for _ in range(20):
        server(Tick(20.0))
    assert server.machine.wake < 65.0
    server(Tick(64.0))
    server(Tick(64.0))
    assert server.machine.wake == 65.0


def test_while_it_waits_it_says_who_is_missing_at_once_and_again(server):
    server.begin(0)
    told, now = [], 0.0
    server(Tick(now))
    while now < 300:
        now = server.machine.wake
        told += [(now, notice) for notice in server(Tick(now)).notices]
        server(Tick(now))
    assert told[0] == (TELL_FIRST, Waiting(0, (1, 2, 3), needed=2))
    assert {notice for _, notice in told} == {Waiting(0, (1, 2, 3), needed=2)}
    assert max(np.diff([time for time, _ in told])) <= TELL_RARELY
    assert len(told) < 15


def test_in_a_round_it_says_who_is_missing_before_the_deadline(server):
    server.begin()
    for i in (0, 1, 2):
        server.report(i)
    assert server.tick(TELL_IN_ROUND).notices == (Waiting(0, (3,), needed=0),)
    assert server.tick(30).records[0].used == (0, 1, 2)


def test_records_of_others_are_refused(server):
    server.begin()
    for i in range(4):
        server.report(i)
    sign = known_key(COORDINATOR).sign
    with pytest.raises(StateError, match="another session"):
        CoordinatorMachine.resume(known_session(4, 4), server.records, sign=sign)
    with pytest.raises(StateError, match="must follow one another"):
        CoordinatorMachine.resume(server.session, server.records[1:], sign=sign)
    with pytest.raises(StateError, match="must follow one another"):
        CoordinatorMachine.resume(server.session, [*server.records, server.records[-1]], sign=sign)
    with pytest.raises(StateError, match="not a coordinator's"):
        CoordinatorMachine.resume(server.session, [Began(b"", 0, b"", 0.0, 0.0, 0.0)], sign=sign)
    with pytest.raises(ParameterError, match="has no coordinator"):
        CoordinatorMachine(known_session(graph="ring:4"), sign=sign)
    with pytest.raises(ParameterError, match="adds no noise"):
        server(NoiseReady(0, 1))


def test_a_deadline_is_never_measured_from_a_time_that_is_past():
    """A round that opens between two ticks far apart still gets its whole time."""
    server = Server(known_session(2, 3, quorum=1, deadlines=Deadlines(round=10, start=10, repeat=1)))
    server(Start())
    server(Tick(0.0))
    server.hear(0, Present(0))
    server.hear(1, Present(0))
    server.report(0)
    assert server(Tick(1000.0)).records == ()
    assert server(Tick(1009.0)).records == ()
    assert server(Tick(1010.0)).records[0].used == (0,)
