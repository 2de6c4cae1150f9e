"""An agent alone with a coordinator that may do anything."""

import math
from fractions import Fraction

import numpy as np
import pytest
from tests.doubles import known_feedback, known_key, known_session

from tacit.base.errors import LedgerError, ParameterError, StateError
from tacit.core.noise.accounting import horizon
from tacit.core.protocol.agent import AgentMachine
from tacit.core.protocol.codec import Codec, digest
from tacit.core.protocol.effects import Halt, Heard, Joined, Left, NoiseReady, Start, Step, Tick
from tacit.core.protocol.machine import AHEAD, ANSWERS_PER_TICK, BATCH, MOST_EVIDENCE
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
    Behind,
    Cost,
    DisputeFound,
    Equivocated,
    FellSilent,
    Finished,
    Forgotten,
    NotUsed,
    OverCap,
    Refused,
    Spoken,
    Stopped,
    Updated,
    Waiting,
)
from tacit.core.protocol.places import LastUsed
from tacit.core.protocol.private_state import DRAWS_AHEAD, Budget
from tacit.core.protocol.records import Began, Ended, Evidence, Moved, Silenced, Spoke
from tacit.core.protocol.tables import AgentPhase as P
from tacit.live.runtime.telling import Throttled


class Alone:
    """One agent, and the keys of everyone else. Records and messages of all its lives are kept."""

    def __init__(self, session=None, value=0.25, budget=None, number=0):
        self.session = session or known_session(3, 6)
        self.codec = Codec(self.session)
        self.number, self.budget = number, budget or Budget(math.inf)
        self.sign = known_key(number).sign
        self.agent = AgentMachine(self.session, number, value, sign=self.sign, budget=self.budget)
        self.records, self.sent = [], []
        self.history, self.state = [NOTHING_HEARD], LastUsed(self.session.n)

    def __call__(self, event):
        step = self.agent.handle(event)
        self.records += step.records
        self.sent += [message.frame for message in step.messages]
        return step

    def says(self, step):
        return [self.codec.open(m.frame).body for m in step.messages]

    def hear(self, body, sender=COORDINATOR):
        return self(Heard(self.codec.seal(sender, body, known_key(sender).sign)))

    def feedback(self, t, y=None, before=None, used=(1, 2)):
        numbers = [3 * t + 1] * self.session.components if y is None else y
        told = {"before": self.history[t] if before is None else before, "count": len(used)}
        new = len(self.history) == t + 1
        if new and before is None:
            self.state.use(t, {i: bytes([i + 1]) * 32 for i in used})
        told |= {"members": max(self.state.members, len(used)), "state": self.state.root}
        body = known_feedback(self.codec, t, numbers, **told)
        frame = self.codec.seal(COORDINATOR, body, known_key(COORDINATOR).sign)
        if new:
            self.history.append(digest(frame))
        return frame

    def feed(self, t, **more):
        """Feedback, and the place in it of one who is not used."""
        first = self(Heard(self.feedback(t, **more)))
        if self.number in more.get("used", ()) or len(self.history) != t + 2:
            return first
        return Step(*(a + b for a, b in zip(first, self.place(t), strict=True)))

    def place(self, t):
        return self.hear(self.state.place(t, self.number))

    def noise(self, u, draw=7):
        return self(NoiseReady(u, [draw] * self.session.components))

    def reports(self):
        bodies = [(self.codec.open(f).body, f) for f in self.sent]
        return [(b.update, f) for b, f in bodies if isinstance(b, Report)]

    def asked(self):
        return [b for b in (self.codec.open(f).body for f in self.sent) if isinstance(b, Ask)]

    def again(self):
        """Crash, and resume from the records."""
        self.agent = AgentMachine.resume(
            self.session, self.number, self.records, sign=self.sign, budget=self.budget
        )
        return self


@pytest.fixture
def alone():
    return Alone()


def kinds(items):
    return [type(item) for item in items]


def test_it_begins_by_recording_and_saying_that_it_is_there(alone):
    step = alone(Start())
    assert kinds(step.records) == [Began]
    assert step.records[0].session == alone.session.id
    assert alone.says(step) == [Present(0)]
    assert [m.to for m in step.messages] == [COORDINATOR]
    planned = alone.session.account(0).total
    assert step.notices == (Cost(planned, 0.0, math.inf),)
    assert alone.agent.phase is P.WAITING
    assert alone.agent.wants_noise is None  # nothing is drawn before the round is open


def test_it_speaks_when_asked_and_has_noise_and_saves_first(alone):
    alone(Start())
    step = alone.hear(Ask(0))
    assert step == Step()
    assert alone.agent.wants_noise == 0
    step = alone.noise(0, 7)
    assert kinds(step.records) == [Spoke]
    assert [m.frame for m in step.messages] == [step.records[0].frame]
    (report,) = alone.says(step)
    agent = alone.session.lattice_agent(0)
    expected = agent.report(alone.session.lattice.start(0.25), 0, 7)
    assert alone.codec.unpack(report.numbers) == (expected,)
    assert (report.update, report.exponent, report.heard) == (0, agent.message_exponent(0), NOTHING_HEARD)
    assert step.records[0].loss == alone.session.account(0).per_message[0]
    assert step.notices == (Spoken(0, alone.session.account(0).spent[0]),)


def test_it_moves_by_feedback_and_commits_to_it(alone):
    alone(Start())
    alone.hear(Ask(0))
    alone.noise(0)
    step = alone.feed(0, y=[12345], used=(0, 1, 2))
    (moved,) = step.records
    agent = alone.session.lattice_agent(0)
    assert alone.codec.unpack(moved.state) == (agent.update(alone.session.lattice.start(0.25), 12345),)
    assert moved.heard == (alone.feedback(0, y=[12345], used=(0, 1, 2)),)
    assert moved.used == ()  # nobody tells it
    assert step.notices == (Updated(0, 3),)
    assert alone.agent.wants_noise == 1  # the feedback of a round opens the next
    step = alone.noise(1)
    assert alone.says(step)[0].heard == digest(moved.heard[0])


def test_asked_a_thousand_times_it_repeats_the_very_same_bytes(alone):
    alone(Start())
    alone.hear(Ask(0))
    first = alone.noise(0).messages[0].frame
    spent = alone.agent.private.spent
    for _ in range(1000):
        alone.hear(Ask(0))
        alone(NoiseReady(0, 99))
        alone(Joined(COORDINATOR))
    assert {f for _, f in alone.reports()} == {first}
    assert alone.agent.private.spent == spent
    assert alone.agent.refused[Refusal.SECOND_DRAW] == 1000
    assert alone.agent.refused[Refusal.TOO_OFTEN] == 1000 - ANSWERS_PER_TICK
    alone(Tick(0.0))
    assert alone.says(alone.hear(Ask(0)))[0].update == 0  # asked later it is answered again


def test_resumed_anywhere_it_stands_where_it_stood(state_of):
    """After every event of a run, a machine made from its records goes on as the first one does."""
    for kind in ("fading", "one-shot"):
        session = known_session(3, 3, law=kind, components=2)
        events = ["start", "ask 0", "noise 0", "feed 0", "noise 1", "feed 1", "noise 2", "feed 2"]
        for cut in range(1, len(events)):
            lives = [Alone(session, value=[0.25, 0.5]), Alone(session, value=[0.25, 0.5])]
            for k, event in enumerate(events):
                for life in lives:
                    name, _, t = event.partition(" ")
                    if k == cut and life is lives[1]:
                        life.again()(Start())
                        if 0 < life.agent.update < 3:
                            life.place(life.agent.update - 1)
                        life.hear(Ask(life.agent.update)) if life.agent.update < 3 else None
                    {
                        "start": lambda life, _: life(Start()),
                        "ask": lambda life, t: life.hear(Ask(t)),
                        "noise": lambda life, t: life.noise(t),
                        "feed": lambda life, t: life.feed(t),
                    }[name](life, int(t or 0))
            one, two = lives
            assert one.agent.phase is two.agent.phase is P.FINISHED
            assert dict(one.reports()) == dict(two.reports())
            assert one.records == two.records
            assert state_of(one.agent)["private"] == state_of(two.agent)["private"]


def test_resuming_repeats_the_current_message(alone):
    alone(Start())
    alone.hear(Ask(0))
    frame = alone.noise(0).messages[0].frame
    step = alone.again()(Start())
    assert [m.frame for m in step.messages][-1] == frame
    assert step.records == ()
    assert alone.agent.phase is P.SPOKEN
    assert alone.agent.wants_noise is None
    assert alone.noise(0, 1000).notices == (Refused(Refusal.SECOND_DRAW),)


def test_a_late_agent_follows_what_it_missed_without_speaking(alone):
    alone(Start())
    frames = [alone.feedback(t) for t in range(5)]
    step = alone(Heard(frames[4]))  # the newest tells how far the others are
    assert step.notices == (Behind(0, 5),)
    assert alone.says(step) == [Ask(0)]
    for frame in frames[:4]:
        alone(Heard(frame))
    assert alone.agent.update == 5
    assert alone.reports() == []
    assert alone.agent.private.spent_here == 0
    assert alone.agent.wants_noise is None  # not before it knows that its key was not used elsewhere
    alone.place(4)
    assert alone.agent.wants_noise == 5
    (report,) = alone.says(alone.noise(5))
    assert report.update == 5
    assert report.exponent == alone.session.exponent(0, 5)  # the noise of its sixth update, not of its first
    assert alone.agent.private.spent_here == alone.session.account(0).per_message[5]


def test_a_late_agent_with_one_shot_noise_draws_it_and_follows():
    alone = Alone(known_session(3, 6, law="one-shot"))
    alone(Start())
    frames = [alone.feedback(t) for t in range(3)]
    for frame in reversed(frames):
        alone(Heard(frame))
    assert alone.agent.update == 0  # it cannot move before its shadow is drawn
    assert alone.agent.wants_noise is None
    alone.place(2)
    assert alone.agent.wants_noise == 0
    alone.noise(0, 1000)
    assert alone.agent.update == 3
    shadow = alone.agent.private._shadow
    agent, lattice = alone.session.lattice_agent(0), alone.session.lattice
    expected = lattice.lifted(agent.report(lattice.start(0.25), 0, 1000), agent.message_exponent(0))
    for t in range(3):
        expected = agent.update(expected, 3 * t + 1)
    assert shadow == expected
    assert [u for u, _ in alone.reports()] == [0, 3]
    assert alone.agent.private.spent_here == alone.session.account(0).total


def test_asked_for_its_own_round_it_speaks_whatever_it_was_told_before(alone):
    """A coordinator that once claimed to be further cannot keep itself from being answered."""
    alone(Start())
    alone.hear(Ask(5))
    assert alone.agent.wants_noise is None
    alone.hear(Ask(0))
    assert alone.agent.wants_noise == 0


def test_it_asks_in_batches_and_not_for_every_frame(alone):
    session = known_session(3, 3 * BATCH)
    alone = Alone(session)
    alone(Start())
    frames = [alone.feedback(t) for t in range(3 * BATCH - 1)]
    alone(Heard(frames[-1]))
    assert alone.asked() == [Ask(0)]
    for t in range(2 * BATCH):
        alone(Heard(frames[t]))
    assert alone.asked() == [Ask(0), Ask(BATCH), Ask(2 * BATCH)]


def test_what_is_kept_is_bounded(alone):
    alone = Alone(known_session(3, 3000, mixing=0.001, decay=0.9999))
    alone(Start())
    frames = [alone.feedback(t) for t in range(100)]
    for frame in frames[1:]:
        alone(Heard(frame))
    assert len(alone.agent.chain.kept) == AHEAD - 1
    assert alone.agent.update == 0
    alone(Heard(frames[0]))
    assert alone.agent.update == AHEAD


# ---- the cap ----------------------------------------------------------------------------------------


def test_a_session_above_the_cap_is_refused_before_a_byte_leaves():
    session = known_session(3, 6)
    total = session.account(0).total
    for budget in (Budget(np.nextafter(total, 0)), Budget(1.0, spent=1.0 - total / 2), Budget(0.0)):
        alone = Alone(session, budget=budget)
        step = alone(Start())
        assert step.records == step.messages == ()
        assert step.notices == (OverCap(alone.agent.private.planned, budget.spent, budget.cap),)
        for event in (Tick(0.0), Tick(1e9), Joined(COORDINATOR), Left(COORDINATOR), Halt(), NoiseReady(0, 1)):
            assert alone(event).messages == ()
        for body in (Ask(0), Stop(0, Reason.OPERATOR)):
            assert alone.hear(body).messages == ()
        assert alone.feed(0).messages == ()
        assert alone.sent == alone.records == []
        assert alone.agent.phase is P.DECLINED
    assert Alone(session, budget=Budget(total)).__call__(Start()).messages != ()


def test_with_leave_to_it_speaks_as_long_as_the_cap_allows_and_then_listens():
    session = known_session(3, 6)
    per = [Fraction(v) for v in session.account(0).per_message]
    cap = float(sum(per[:3])) * (1 + 1e-15)
    alone = Alone(session, budget=Budget(cap, spent=0.0, partial=True))
    assert horizon(session.lattice_agent(0), cap) == 3
    alone(Start())
    alone.hear(Ask(0))
    for t in range(6):
        if alone.agent.wants_noise is not None:
            alone.noise(t)
        step = alone.feed(t)
        if t == 2:
            assert alone.says(step) == [Stop(3, Reason.CAP)]
            assert kinds(step.records) == [Moved, Silenced]
            assert FellSilent(3, alone.agent.private.spent, cap) in step.notices
    assert [u for u, _ in alone.reports()] == [0, 1, 2]
    assert alone.agent.phase is P.FINISHED
    assert alone.agent.update == 6
    assert alone.agent.private.spent <= cap


def test_silence_is_kept_after_a_restart_even_if_the_cap_is_raised():
    session = known_session(3, 6)
    alone = Alone(session, budget=Budget(session.account(0).spent[1], partial=True))
    alone(Start())
    alone.hear(Ask(0))
    for t in range(3):
        alone.noise(t) if alone.agent.wants_noise is not None else None
        alone.feed(t)
    assert alone.agent.phase is P.SILENT
    alone.budget = Budget(math.inf)
    step = alone.again()(Start())
    assert alone.agent.phase is P.SILENT
    assert Stop(3, Reason.CAP) in alone.says(step)
    alone.feed(3)
    assert alone.agent.update == 4
    assert alone.agent.wants_noise is None
    alone(Tick(0.0))
    assert alone.says(alone(Tick(1.0))) == [Stop(4, Reason.CAP)]  # a coordinator may have forgotten it


def test_a_lowered_cap_holds_from_the_next_message_on():
    session = known_session(3, 6)
    alone = Alone(session)
    alone(Start())
    alone.hear(Ask(0))
    alone.noise(0)
    alone.budget = Budget(session.account(0).spent[0])
    alone.again()(Start())
    assert alone.agent.phase is P.SPOKEN  # what is made may be repeated: it costs nothing
    alone.feed(0)
    assert alone.agent.phase is P.SILENT
    assert {u for u, _ in alone.reports()} == {0}


def test_budgets_are_numbers():
    for cap, spent in ((-1, 0), (math.nan, 0), (1, -1), (1, math.inf), (1, math.nan)):
        with pytest.raises(ParameterError, match="at least 0"):
            Budget(cap, spent)


# ---- noise ------------------------------------------------------------------------------------------


def test_draws_are_taken_once_and_for_the_right_update(alone):
    alone(Start())
    assert alone.noise(0, 5) == Step()  # ahead of time is fine
    assert alone.noise(0, 6).notices == (Refused(Refusal.SECOND_DRAW),)  # and cannot be taken back
    assert alone.noise(DRAWS_AHEAD).notices == (Refused(Refusal.SECOND_DRAW),)
    step = alone.hear(Ask(0))
    expected = alone.session.lattice_agent(0).report(alone.session.lattice.start(0.25), 0, 5)
    assert alone.codec.unpack(alone.says(step)[0].numbers) == (expected,)
    alone.feed(0)
    assert alone.noise(0).notices == (Refused(Refusal.SECOND_DRAW),)


def test_a_draw_for_a_round_that_was_missed_is_thrown_away(alone):
    alone(Start())
    alone.noise(0, 5)
    alone.noise(1, 6)
    alone.feed(0)
    assert [u for u, _ in alone.reports()] == [1]
    assert alone.agent.private.draws == {}


def test_noise_must_be_whole_numbers_for_every_component():
    alone = Alone(known_session(3, 6, components=2), value=[0, 1])
    alone(Start())
    for wrong in (1, [1], [1, 2, 3]):
        with pytest.raises(StateError, match="noise must have 2 components"):
            alone(NoiseReady(0, wrong))
    with pytest.raises(StateError, match="whole numbers"):
        alone(NoiseReady(0, [0.5, 1.0]))
    alone(NoiseReady(0, np.array([3, 4])))
    assert len(alone.says(alone.hear(Ask(0)))) == 1


def test_nothing_private_is_shown(alone):
    alone(Start())
    assert "0.25" not in repr(alone.agent) + repr(alone.agent.private) + repr(alone.records)
    assert repr(NoiseReady(3, 123456)) == "NoiseReady(update=3)"
    assert alone.agent.private.value() == 0.25
    two = Alone(known_session(2, 2, components=2), value=[0.25, 1]).agent
    assert two.private.value().tolist() == [0.25, 1.0]


# ---- a coordinator that lies --------------------------------------------------------------------------


def test_contradictions_are_kept_once_as_evidence_and_change_nothing(alone, state_of):
    alone(Start())
    alone.hear(Ask(0))
    alone.noise(0)
    alone.feed(0)
    before = state_of(alone.agent)
    lie = alone.feedback(0, y=[99])
    step = alone(Heard(lie))
    assert step.records == (Evidence(COORDINATOR, 0, alone.history[1], b"", lie),)
    assert step.notices == (Refused(Refusal.EQUIVOCATION, COORDINATOR), Equivocated(COORDINATOR, 0))
    assert step.messages == ()
    assert alone.feed(0, y=[98]).records == ()  # one is enough
    after = state_of(alone.agent)
    assert after.pop("_evidence") != before.pop("_evidence")
    assert after == before
    assert alone.agent.refused[Refusal.EQUIVOCATION] == 2
    alone.again()(Start())
    assert alone.feed(0, y=[97]).records == ()  # also after a restart


def test_contradictions_about_rounds_to_come_are_kept_with_both_frames(alone):
    alone(Start())
    first, second = alone.feedback(2, before=bytes(32)), alone.feedback(2, y=[5], before=bytes(32))
    alone(Heard(first))
    step = alone(Heard(second))
    assert step.records == (Evidence(COORDINATOR, 2, digest(first), first, second),)


def test_another_history_is_not_followed(alone):
    alone(Start())
    alone.feed(0)
    forked = alone.feedback(1, before=bytes(range(32)))
    step = alone(Heard(forked))
    assert step.records == (Evidence(COORDINATOR, 1, alone.history[1], b"", forked),)
    assert alone.agent.update == 1
    alone.feed(1)
    assert alone.agent.update == 2


def test_another_history_that_came_too_early_is_found_out_in_time(alone):
    alone(Start())
    forked = alone.feedback(1, before=bytes(range(32)))
    alone(Heard(forked))
    step = alone.feed(0)
    assert kinds(step.records) == [Moved, Evidence]
    assert alone.agent.update == 1
    alone.history[2:] = []
    alone.feed(1)
    assert alone.agent.update == 2


def test_evidence_is_bounded():
    alone = Alone(known_session(3, 60, mixing=0.1, decay=0.95))
    alone(Start())
    for t in range(40):
        alone.feed(t)
    for t in range(40):
        alone.feed(t, y=[99999])
    assert sum(isinstance(r, Evidence) for r in alone.records) == MOST_EVIDENCE
    assert alone.agent.refused[Refusal.EQUIVOCATION] == 40


@pytest.mark.parametrize(
    ("reason", "body"),
    [
        (Refusal.WRONG_ROUND, Ask(6)),
        (Refusal.NOT_FOR_ME, None),
    ],
)
def test_what_is_not_for_it_is_refused(alone, state_of, reason, body):
    alone(Start())
    alone.feed(0)
    before = state_of(alone.agent)
    step = alone.hear(Present(0), sender=1) if body is None else alone.hear(body)
    assert [n.reason for n in step.notices] == [reason]
    assert step.messages == step.records == ()
    assert state_of(alone.agent) == before


def test_a_coordinator_that_asks_for_a_past_round_is_shown_what_it_signed(alone):
    """Its ledger is lost, whether the agent is in the middle or at the end, or was started again."""
    alone(Start())
    alone.feed(0)
    alone.feed(1)
    newest = alone.records[-1].heard[0]
    for _ in range(2):
        step = alone.hear(Ask(0))
        assert step.notices == (Refused(Refusal.LATE, COORDINATOR), Forgotten(2, 0))
        assert [send.frame for send in step.messages] == [newest]
        assert step.records == ()
        alone.again()(Start())


def test_it_tells_when_its_message_was_not_used(alone):
    alone(Start())
    alone.hear(Ask(0))
    alone.noise(0)
    step = alone.feed(0, used=(1, 2))
    assert step.notices[-1] == NotUsed(0)
    assert "not in the feedback" in step.notices[-1].sentence(alone.session)
    assert not any(isinstance(notice, NotUsed) for notice in alone.feed(1).notices)  # it said nothing there


# ---- the end ----------------------------------------------------------------------------------------


def finish(alone):
    alone(Start())
    for t in range(alone.session.rounds):
        step = alone.feed(t)
    return step


def test_it_says_when_it_is_done_and_again_when_the_coordinator_has_not_heard(alone):
    step = finish(alone)
    done = Done(6, alone.history[-1])
    assert alone.says(step)[-1] == done
    assert step.records[-1] == Ended(6, None)
    assert step.notices[-1] == Finished(6)
    assert alone.agent.wake is None
    assert alone.says(alone.feed(5)) == [done]
    assert alone.says(alone(Joined(COORDINATOR))) == [done]
    assert alone.hear(Stop(6, Reason.OPERATOR)) == Step()
    assert alone(Halt()) == Step()
    step = alone.again()(Start())
    assert alone.says(step)[-1] == done
    assert step.records == ()


def test_stopped_by_the_coordinator_it_stays_stopped(alone):
    alone(Start())
    alone.hear(Ask(0))
    step = alone.hear(Stop(0, Reason.OPERATOR))
    assert step.records == (Ended(0, Reason.OPERATOR),)
    assert step.notices == (Stopped(0, Reason.OPERATOR),)
    assert alone.noise(0).messages == ()
    assert alone.hear(Ask(0)).messages == ()
    alone.again()(Start())
    assert alone.agent.phase is P.STOPPED
    assert alone.hear(Ask(0)).messages == ()


def test_who_leaves_says_so_and_says_it_again_when_asked(alone):
    alone(Start())
    step = alone(Halt())
    assert alone.says(step) == [Stop(0, Reason.OPERATOR)]
    assert step.records == (Ended(0, Reason.OPERATOR),)
    assert alone.says(alone.hear(Ask(0))) == [Stop(0, Reason.OPERATOR)]


def test_before_it_starts_everything_is_out_of_place(alone):
    assert alone.hear(Ask(0)).notices == (Refused(Refusal.OUT_OF_PLACE),)
    assert alone.noise(0).notices == (Refused(Refusal.OUT_OF_PLACE),)
    alone(Start())
    assert alone(Start()).notices == (Refused(Refusal.OUT_OF_PLACE),)
    assert alone(Joined(1)).notices == (Refused(Refusal.NOT_FOR_ME),)


# ---- time -------------------------------------------------------------------------------------------


def test_it_says_again_what_was_not_answered_ever_more_rarely(alone):
    alone(Start())
    assert alone.agent.wake == -math.inf
    times, now = [], 0.0
    alone(Tick(now))
    while len(times) < 6:
        now = alone.agent.wake
        step = alone(Tick(now))
        if not step.messages:
            assert step.notices == (Waiting(0, (COORDINATOR,), 1),)  # told to its owner, ever more rarely too
            alone(Tick(now))
            continue
        assert alone.says(step) == [Present(0)]
        times.append(now)
        assert alone.agent.wake == -math.inf  # set anew: runs from the next tick
        alone(Tick(now))
    assert np.diff([0.0, *times]).tolist() == [1, 2, 4, 8, 8, 8]
    alone.hear(Ask(0))
    alone.noise(0)
    alone(Tick(now))
    assert alone.agent.wake == now + 1
    assert alone.says(alone(Tick(now + 1)))[0].update == 0


def test_ticks_too_many_do_no_harm(alone):
    alone(Start())
    assert sum(len(alone(Tick(k / 100)).messages) for k in range(100)) == 0


# ---- records ----------------------------------------------------------------------------------------


def test_records_of_others_are_refused(alone):
    alone(Start())
    alone.hear(Ask(0))
    alone.noise(0)
    alone.feed(0)
    make = {"sign": alone.sign, "budget": alone.budget}
    with pytest.raises(StateError, match="another session or another agent"):
        AgentMachine.resume(alone.session, 1, alone.records, **make)
    with pytest.raises(StateError, match="another session or another agent"):
        AgentMachine.resume(known_session(3, 7), 0, alone.records, **make)
    with pytest.raises(StateError, match="must start with how it began"):
        AgentMachine.resume(alone.session, 0, alone.records[1:], **make)
    with pytest.raises(StateError, match="must follow one another"):
        AgentMachine.resume(
            alone.session, 0, [alone.records[0], *alone.records[2:], alone.records[1]], **make
        )
    with pytest.raises(StateError, match="must follow one another"):
        AgentMachine.resume(alone.session, 0, [*alone.records[:2], alone.records[1]], **make)


def test_an_agent_needs_a_coordinator_and_a_value_of_the_right_length():
    make = {"sign": known_key(0).sign, "budget": Budget(1)}
    with pytest.raises(ParameterError, match="has no coordinator"):
        AgentMachine(known_session(graph="ring:4"), 0, 0.5, **make)
    with pytest.raises(StateError, match="must have 1 components"):
        AgentMachine(known_session(3), 0, [0.5, 0.5], **make)
    with pytest.raises(StateError, match="must be finite"):
        AgentMachine(known_session(3), 0, math.nan, **make)


def test_a_value_off_the_range_counts_as_the_nearest_end_and_only_the_record_says_so():
    make = {"sign": known_key(0).sign, "budget": Budget(100)}
    off, end = AgentMachine(known_session(3), 0, 1.5, **make), AgentMachine(known_session(3), 0, 1.0, **make)
    steps = [off.handle(Start()), end.handle(Start())]
    assert steps[0].messages == steps[1].messages
    assert steps[0].notices == steps[1].notices
    assert [step.records[0].clamped for step in steps] == [True, False]
    assert steps[0].records[0].state == steps[1].records[0].state
    again = AgentMachine.resume(off.session, 0, steps[0].records, **make)
    assert again.private.clamped


def require_disputed(alone, step, t):
    """It has kept feedback and place as evidence, and says nothing more whatever it hears."""
    (evidence,) = step.records
    feedback, place = (alone.codec.open(frame).body for frame in (evidence.first, evidence.second))
    assert isinstance(feedback, Feedback)
    assert isinstance(place, Place)
    assert (evidence.sender, evidence.round) == (COORDINATOR, t)
    assert (feedback.round, place.round) == (t, t)
    assert step.notices[-1] == DisputeFound(t)
    said = len(alone.sent)
    for _ in range(2):
        assert alone.agent.disputed == t
        for event in (Joined(COORDINATOR), Tick(1e6)):
            alone(event)
        for u in range(alone.session.rounds):
            alone.hear(Ask(u))
            alone.feed(u)
            alone.noise(u)
        assert len(alone.sent) == said
        assert alone.again()(Start()) == Step()  # nor after a restart


@pytest.mark.parametrize("kind", ["fading", "one-shot"])
def test_one_that_is_said_to_have_spoken_and_has_not_goes_no_further(kind):
    """The coordinator may lie. Or another process has the key: what this one drew would be a second draw."""
    alone = Alone(known_session(law=kind, rounds=6))
    alone(Start())
    alone.feed(0, used=(0, 1))
    assert alone.agent.wants_noise is None  # nothing is drawn before it has a place
    require_disputed(alone, alone.place(0), 0)
    assert not alone.reports()


def test_one_that_catches_up_and_was_named_on_the_way_goes_no_further(alone):
    alone(Start())
    alone.feed(0)
    alone.feed(1, used=(0, 1))
    alone.feed(2, used=(1, 2))  # not used any more, but the place still has it
    assert alone.agent.disputed == 2


def test_one_shot_noise_is_not_drawn_where_a_later_round_names_it():
    """A shadow is drawn before feedback is applied in turn: so any that names this agent counts."""
    alone = Alone(known_session(law="one-shot", rounds=30))
    alone(Start())
    for t in range(20):
        alone.feedback(t)
    alone.feed(20, used=(0, 1))
    assert alone.agent.wants_noise is None
    require_disputed(alone, alone.place(20), 20)
    assert not alone.reports()


def test_feedback_of_another_history_that_names_it_is_dropped(alone):
    alone(Start())
    step = alone.feed(0, used=(0, 1), before=bytes(range(32)))
    assert alone.agent.disputed is None
    assert Equivocated(COORDINATOR, 0) in step.notices
    alone.feed(0)
    assert alone.agent.update == 1
    alone.again()(Start())
    assert alone.agent.disputed is None


@pytest.mark.parametrize("spoken", [False, True])
def test_its_own_message_that_it_never_made_stops_it(alone, spoken):
    alone(Start())
    alone.hear(Ask(0))
    if spoken:
        alone.noise(0)
        [(_, own)] = alone.reports()
        assert alone(Heard(own)).notices == (Refused(Refusal.NOT_FOR_ME, 0),)
    numbers = alone.codec.pack([12345])
    other = Report(0, alone.session.exponent(0, 0), numbers, NOTHING_HEARD)
    with pytest.raises(LedgerError, match="another process uses the same key"):
        alone.hear(other, sender=0)


def test_an_old_message_of_its_own_says_nothing(alone):
    alone(Start())
    alone.hear(Ask(0))
    alone.noise(0)
    alone.feed(0)
    assert alone(Heard(alone.reports()[0][1])).notices == (Refused(Refusal.NOT_FOR_ME, 0),)


def test_what_a_coordinator_can_cause_for_ever_is_logged_seldom():
    """It may ask for old rounds, or sign feedback far ahead, as often as it likes."""
    told = []
    log = Throttled(lambda notice, _: told.append(notice))
    alone = Alone(known_session(3, 60, mixing=0.1, decay=0.95))
    alone(Start())
    alone.feed(0)
    for k in range(300):
        alone(Tick(float(k)))
        for notice in alone.hear(Ask(0)).notices:
            log(notice)
    assert sum(isinstance(notice, Forgotten) for notice in told) == 100 + 2
    for t in range(300):
        log(Behind(0, t))
    assert sum(isinstance(notice, Behind) for notice in told) == 100 + 2
