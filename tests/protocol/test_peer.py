"""A peer among neighbours that come late, leave, fall silent, or lie."""

import math

import pytest
from tests.doubles import Harness, known_key, known_session

from tacit.base.errors import LedgerError, ParameterError, StateError
from tacit.core.protocol.codec import Codec, digest, history
from tacit.core.protocol.effects import Halt, Heard, Joined, Left, NoiseReady, Send, Start, Step, Tick
from tacit.core.protocol.machine import AHEAD, ANSWERS_PER_TICK, BATCH
from tacit.core.protocol.messages import NOTHING_HEARD, Ask, Done, Present, Reason, Refusal, Report, Stop
from tacit.core.protocol.notices import (
    Behind,
    Equivocated,
    Finished,
    OverCap,
    Quiet,
    Refused,
    RoundClosed,
    Updated,
    Waiting,
)
from tacit.core.protocol.peer import PeerMachine
from tacit.core.protocol.private_state import Budget
from tacit.core.protocol.records import Began, Ended, Evidence, Moved, Silenced, Spoke
from tacit.core.protocol.session import Deadlines
from tacit.core.protocol.tables import PeerPhase as P


class Middle:
    """The middle one of three on a path, 0 – 1 – 2, and the keys of its neighbours."""

    def __init__(self, session=None, budget=None, number=1):
        self.session = session or known_session(graph="path:3", rounds=6)
        self.codec, self.number = Codec(self.session), number
        self.budget = budget or Budget(math.inf)
        self.sign = known_key(number).sign
        self.peer = PeerMachine(self.session, number, 0.25, sign=self.sign, budget=self.budget)
        self.records, self.sent, self.now = [], [], 0.0

    def __call__(self, event):
        step = self.peer.handle(event)
        self.records += step.records
        self.sent += step.messages
        return step

    def frame(self, sender, u, x=None):
        numbers = [100 * sender + u if x is None else x]
        body = Report(u, self.session.exponent(sender, u), self.codec.pack(numbers), bytes(32))
        return self.codec.seal(sender, body, known_key(sender).sign)

    def report(self, sender, u, x=None):
        return self(Heard(self.frame(sender, u, x)))

    def hear(self, sender, body):
        return self(Heard(self.codec.seal(sender, body, known_key(sender).sign)))

    def says(self, step):
        return [(m.to, self.codec.open(m.frame).body) for m in step.messages]

    def noise(self, u, draw=7):
        return self(NoiseReady(u, draw))

    def spoke(self):
        return [r.update for r in self.records if isinstance(r, Spoke)]

    def used(self):
        return [r.used for r in self.records if isinstance(r, Moved)]

    def tick(self, seconds):
        self(Tick(self.now))
        self.now += seconds
        return self(Tick(self.now))

    def begin(self):
        self(Start())
        self.hear(0, Present(0))
        self.hear(2, Present(0))
        self.noise(0)
        return self

    def again(self):
        self.peer = PeerMachine.resume(
            self.session, self.number, self.records, sign=self.sign, budget=self.budget
        )
        return self


@pytest.fixture
def middle():
    return Middle()


def test_it_begins_when_its_neighbours_are_there(middle):
    step = middle(Start())
    assert [type(r) for r in step.records] == [Began]
    assert middle.says(step) == [(None, Present(0))]
    middle.hear(0, Present(0))
    assert middle.peer.phase is P.GATHERING
    middle.hear(2, Present(0))
    assert middle.peer.wants_noise == 0
    step = middle.noise(0)
    assert [type(r) for r in step.records] == [Spoke]
    assert [m.to for m in step.messages] == [None]
    assert step.messages[0].frame == step.records[0].frame
    assert middle.says(step)[0][1].heard == NOTHING_HEARD


def test_it_does_not_begin_alone_and_says_who_is_missing():
    middle = Middle(known_session(graph="path:3", rounds=6, start=3))
    middle(Start())
    assert middle.tick(61).notices == (Waiting(0, (0, 2), needed=2),)
    middle.hear(0, Present(0))
    assert middle.peer.phase is P.GATHERING  # start asks for all three


def test_enough_neighbours_suffice_at_the_deadline():
    middle = Middle(known_session(graph="path:3", rounds=6, start=2))
    middle(Start())
    middle.hear(0, Present(0))
    assert middle.peer.phase is P.GATHERING
    middle.tick(61)
    assert middle.peer.phase is P.DRAWING


def test_it_moves_towards_the_mean_of_its_closed_neighbourhood(middle):
    middle.begin()
    middle.report(0, 0)
    step = middle.report(2, 0)
    (moved,) = step.records
    frames = [middle.codec.open(f) for f in moved.heard]
    assert moved.used == (0, 1, 2)
    assert [m.sender for m in frames] == [0, 1, 2]
    lattice = middle.session.lattice
    y = lattice.mean([(m.numbers[0], m.body.exponent) for m in frames])
    assert middle.codec.unpack(moved.y) == (y,)
    agent = middle.session.lattice_agent(1)
    assert middle.codec.unpack(moved.state) == (agent.update(lattice.start(0.25), y),)
    assert step.notices == (RoundClosed(0, (0, 1, 2), ()), Updated(0, 3))
    step = middle.noise(1)
    assert middle.says(step)[0][1].heard == history(NOTHING_HEARD, (m.digest for m in frames))


def test_after_a_restart_it_still_names_what_its_update_came_from(middle):
    middle.begin()
    middle.report(0, 0)
    moved = middle.report(2, 0).records[0]
    middle.again()(Start())
    step = middle.noise(1)
    assert middle.says(step)[0][1].heard == history(NOTHING_HEARD, map(digest, moved.heard))


def test_early_messages_wait_for_their_round_and_are_bounded():
    middle = Middle(known_session(graph="path:3", rounds=60, mixing=0.1, decay=0.95)).begin()
    for u in range(1, 60):
        middle.report(0, u)
    assert len(middle.peer._kept) == AHEAD - 1
    assert middle.peer._at[0] == 59  # what cannot be kept still tells how far it is
    assert middle.peer.update == 0


def test_at_the_deadline_the_quorum_suffices(middle):
    middle.begin()
    middle.report(0, 0)
    assert middle.tick(29).records == ()
    step = middle.tick(2)
    assert step.records[0].used == (0, 1)
    assert step.notices[0] == RoundClosed(0, (0, 1), (2,))
    assert middle.peer.live == {0}
    middle.noise(1)
    assert middle.report(0, 1).records[0].used == (0, 1)  # not waited for again
    middle.noise(2)
    middle.hear(2, Present(1))  # until it is heard again
    assert middle.report(0, 2).records == ()


def test_alone_it_waits_and_says_for_whom(middle):
    middle.begin()
    step = middle.tick(31)
    assert step.records == ()
    assert step.notices == (Waiting(0, (0, 2), needed=1),)
    assert middle.report(2, 0).records[0].used == (1, 2)


def test_a_round_waits_for_a_disconnected_member_until_the_deadline(middle):
    middle.begin()
    middle.report(2, 0)
    assert middle(Left(0)) == Step()
    assert middle.tick(29).records == ()
    step = middle.tick(2)
    assert step.records[0].used == (1, 2)
    assert RoundClosed(0, (1, 2), (0,)) in step.notices
    middle.noise(1)
    assert RoundClosed(1, (1, 2), (0,)) in middle.report(2, 1).notices  # not waited for again, but named


def test_what_is_missing_is_asked_for_again_and_again(middle):
    middle.begin()
    middle.report(0, 0)
    middle(Tick(0.0))
    step = middle(Tick(1.0))
    assert middle.says(step) == [(2, Ask(0))]
    middle(Tick(1.0))
    assert middle.says(middle(Tick(3.0))) == [(2, Ask(0))]


def test_it_answers_with_its_very_bytes(middle):
    middle.begin()
    for u in range(4):
        middle.report(0, u)
        middle.report(2, u)
        middle.noise(u + 1)
    frames = {r.update: r.frame for r in middle.records if isinstance(r, Spoke)}
    middle(Tick(0.0))
    step = middle.hear(0, Ask(1))
    assert [m.frame for m in step.messages] == [frames[u] for u in (1, 2, 3, 4)]
    middle.again()(Start())
    middle(Tick(0.0))
    step = middle.hear(0, Ask(0))
    assert [m.frame for m in step.messages] == [frames[u] for u in range(5)]
    for _ in range(50):
        middle.hear(0, Ask(0))
    assert middle.peer.refused[Refusal.TOO_OFTEN] == 51 - ANSWERS_PER_TICK


def test_the_answer_to_one_far_behind_tells_the_newest_first():
    middle = Middle(known_session(graph="path:3", rounds=60, mixing=0.1, decay=0.95)).begin()
    for u in range(40):
        middle.report(0, u)
        middle.report(2, u)
        middle.noise(u + 1)
    frames = {r.update: r.frame for r in middle.records if isinstance(r, Spoke)}
    middle(Tick(0.0))
    step = middle.hear(0, Ask(3))
    assert [m.frame for m in step.messages] == [frames[40], *(frames[u] for u in range(3, 3 + BATCH))]


def test_after_an_outage_it_follows_without_speaking_where_nobody_needs_it(middle):
    """All neighbours are beyond: their messages are read, none of its own is made, nothing is lost."""
    middle.begin()
    middle.again()(Start())
    for sender in (0, 2):
        middle.report(sender, 4)
    assert middle.peer.phase is P.COLLECTING
    spent = middle.peer.private.spent
    for u in range(4):
        middle.report(0, u)
        middle.report(2, u)
    assert middle.peer.update == 4
    assert middle.spoke() == [0]
    assert middle.used() == [(0, 1, 2), (0, 2), (0, 2), (0, 2)]
    assert middle.peer.private.spent == spent
    assert middle.peer.wants_noise == 4  # they are at 4 themselves, so here it speaks again
    step = middle.noise(4)
    assert middle.says(step)[0][1].exponent == middle.session.exponent(1, 4)
    assert middle.peer.private.spent_here == pytest.approx(
        sum(middle.session.account(1).per_message[[0, 4]]), rel=1e-12
    )


def test_it_asks_at_once_when_it_learns_that_it_is_behind(middle):
    middle.begin()
    step = middle.report(0, 3)
    assert step.notices == (Behind(0, 3),)
    assert middle.says(step) == [(0, Ask(0)), (2, Ask(0))]
    assert middle.report(0, 4).messages == ()  # once


def test_it_speaks_as_long_as_one_neighbour_may_need_it(middle):
    middle.begin()
    middle.report(0, 5)
    middle.report(0, 0)
    middle.report(2, 0)
    assert middle.peer.update == 1
    assert middle.peer.wants_noise == 1


def test_a_newcomer_hears_from_all_before_it_speaks(middle):
    middle(Start())
    middle.report(0, 3)
    assert middle.peer.phase is P.GATHERING
    middle.report(2, 3)
    assert middle.peer.phase is P.FOLLOWING
    assert middle.spoke() == []


def test_a_newcomer_does_not_wait_for_ever_for_a_dead_neighbour(middle):
    middle(Start())
    middle.report(0, 3)
    middle.tick(2.1)
    assert middle.peer.phase is P.DRAWING


def test_with_one_shot_noise_it_speaks_once_before_it_follows():
    middle = Middle(known_session(graph="path:3", rounds=6, law="one-shot"))
    middle(Start())
    for sender in (0, 2):
        middle.report(sender, 3)
    assert middle.peer.wants_noise == 0
    middle.noise(0)
    for u in range(3):
        middle.report(0, u)
        middle.report(2, u)
    assert middle.peer.update == 4  # later messages need no noise: round 3 is made at once
    assert middle.spoke() == [0, 3, 4]
    assert middle.peer.private.spent_here == middle.session.account(1).total


def test_two_messages_for_one_round_are_evidence_and_the_first_counts(middle):
    middle.begin()
    first, second = middle.frame(0, 0), middle.frame(0, 0, x=5)
    middle(Heard(first))
    step = middle(Heard(second))
    assert step.records == (Evidence(0, 0, digest(first), first, second),)
    assert step.notices == (Refused(Refusal.EQUIVOCATION, 0), Equivocated(0, 0))
    assert step.messages == (Send(0, first),)  # the process that made the second learns of the first
    moved = middle.report(2, 0).records[0]
    assert moved.heard[0] == first
    assert middle(Heard(second)).messages == (Send(0, first),)
    assert middle.report(2, 0, x=5).records == (
        Evidence(2, 0, digest(middle.frame(2, 0)), b"", middle.frame(2, 0, x=5)),
    )
    middle.again()(Start())
    assert middle.report(2, 0, x=6).records == ()


def test_replays_and_late_messages_change_nothing(middle, state_of):
    middle.begin()
    middle.report(0, 0)
    middle.tick(31)
    before = state_of(middle.peer)
    assert middle.report(0, 0).notices == (Refused(Refusal.REPLAY, 0),)
    assert middle.report(2, 0).notices == (Refused(Refusal.LATE, 2),)
    assert middle.hear(1, Present(0)).notices == (Refused(Refusal.NOT_FOR_ME, 1),)
    assert state_of(middle.peer) == before


def test_strangers_on_the_graph_are_not_for_it():
    middle = Middle(known_session(graph="path:4", rounds=6)).begin()
    assert middle.hear(3, Present(0)).notices == (Refused(Refusal.NOT_FOR_ME, 3),)
    assert middle.report(3, 0).notices == (Refused(Refusal.NOT_FOR_ME, 3),)


def test_above_the_cap_nothing_is_sent():
    middle = Middle(budget=Budget(0.1))
    step = middle(Start())
    assert step.messages == step.records == ()
    assert [type(n) for n in step.notices] == [OverCap]
    for event in (Tick(1e9), Joined(0), Halt()):
        assert middle(event).messages == ()
    assert middle.hear(0, Ask(0)).messages == ()
    assert middle.report(0, 0).messages == ()


def test_at_the_cap_it_falls_silent_and_follows():
    session = known_session(graph="path:3", rounds=6)
    middle = Middle(session, budget=Budget(session.account(1).spent[1], partial=True)).begin()
    middle.report(0, 0)
    middle.report(2, 0)
    middle.noise(1)
    middle.report(0, 1)
    step = middle.report(2, 1)
    assert (None, Stop(2, Reason.CAP)) in middle.says(step)
    assert Silenced(2, Reason.CAP) in step.records
    assert middle.peer.phase is P.FOLLOWING
    middle.report(0, 2)
    middle.report(2, 2)
    assert middle.used()[-1] == (0, 2)
    assert middle.peer.private.spent <= middle.budget.cap
    middle.again()(Start())
    assert middle.peer.phase is P.FOLLOWING
    assert middle.spoke() == [0, 1]
    middle(Tick(0.0))
    assert (0, Stop(3, Reason.CAP)) in middle.says(middle.hear(0, Ask(3)))


def test_a_silent_neighbour_is_not_waited_for_but_still_answered(middle):
    middle.begin()
    step = middle.hear(2, Stop(0, Reason.CAP))
    assert Quiet(2, 0) in step.notices
    assert middle.report(0, 0).records[0].used == (0, 1)
    middle(Tick(0.0))
    assert len(middle.hear(2, Ask(0)).messages) == 1


def test_a_silent_neighbour_that_is_behind_still_needs_our_messages(middle):
    middle.begin()
    middle.hear(2, Stop(0, Reason.CAP))
    middle.report(0, 3)
    middle.report(0, 0)
    assert middle.peer.update == 1
    assert middle.peer.wants_noise == 1  # 2 is at round 0 and will need what we say in round 1


def test_where_nobody_speaks_there_is_nobody_to_follow(middle):
    """Both neighbours are beyond but silent: without our own message there would be no mean at all."""
    middle.begin()
    for sender in (0, 2):
        middle.hear(sender, Stop(1, Reason.CAP))
        middle.hear(sender, Present(3))
        middle.report(sender, 0)
    assert middle.peer.update == 1
    assert middle.peer.wants_noise == 1


def test_it_asks_in_batches_and_not_for_every_frame():
    middle = Middle(known_session(graph="path:3", rounds=60, mixing=0.1, decay=0.95)).begin()
    for sender in (0, 2):
        middle.report(sender, 50)
    for u in range(40):
        middle.report(0, u)
        middle.report(2, u)
    assert middle.peer.update == 40
    said = [(m.to, middle.codec.open(m.frame).body) for m in middle.sent]
    asked = [(to, body.round) for to, body in said if isinstance(body, Ask)]
    assert sorted(asked) == [(j, u) for j in (0, 2) for u in (0, BATCH, 2 * BATCH)]


def all_rounds(middle):
    middle.begin()
    for u in range(6):
        middle.report(0, u)
        step = middle.report(2, u)
        if u < 5:
            middle.noise(u + 1)
    return step


def test_at_the_end_it_serves_until_its_neighbours_are_done(middle):
    step = all_rounds(middle)
    assert step.records[-1] == Ended(6, None)
    heard = NOTHING_HEARD
    for record in middle.records:
        if isinstance(record, Moved):
            heard = history(heard, map(digest, record.heard))
    assert middle.says(step)[-1] == (None, Done(6, heard))  # signed for all six means
    assert middle.peer.phase is P.SERVING
    middle.hear(0, Done(6, bytes(32)))
    middle(Tick(0.0))
    assert len(middle.hear(2, Ask(5)).messages) == 1
    assert middle.says(middle(Tick(1.0))) == [(2, Done(6, heard))]
    assert middle.hear(2, Done(6, bytes(32))).notices == (Finished(6),)
    assert middle.peer.wake is None
    assert middle.says(middle.hear(2, Done(6, bytes(32)))) == [(2, Present(6))]  # and no end of it
    assert middle.hear(2, Present(6)).messages == ()
    step = middle.again()(Start())
    assert middle.peer.phase is P.SERVING
    assert step.records == ()


def test_at_the_end_it_does_not_serve_for_ever(middle):
    all_rounds(middle)
    assert Finished(6) in middle.tick(61).notices


def test_a_finished_peer_answers_a_late_neighbour_as_often_as_it_asks(middle):
    """Its first answer may be lost, and the late one would wait for ever."""
    all_rounds(middle)
    middle.tick(61)
    assert middle.peer.phase is P.FINISHED
    for _ in range(3):
        ((to, body),) = middle.says(middle.hear(0, Present(0)))
        assert (to, type(body)) == (0, Done)


def test_who_leaves_for_good_says_so(middle):
    middle.begin()
    step = middle(Halt())
    assert middle.says(step) == [(None, Stop(1, Reason.OPERATOR))]  # message 0 was said
    assert step.records == (Ended(0, Reason.OPERATOR),)
    assert len(middle.hear(0, Ask(0)).messages) == 1  # what was said can still be read
    assert middle.says(middle.hear(0, Present(0))) == [(0, Stop(1, Reason.OPERATOR))]
    step = middle.again()(Start())
    assert middle.peer.phase is P.STOPPED
    assert middle.says(step) == [(None, Stop(1, Reason.OPERATOR))]


def test_a_neighbour_that_left_for_good_is_not_waited_for_at_the_end(middle):
    all_rounds(middle)
    middle.hear(0, Stop(6, Reason.OPERATOR))
    assert Finished(6) in middle.hear(2, Done(6, bytes(32))).notices


def test_a_neighbours_word_alone_does_not_stop_it(middle):
    """Only a message that its own key has signed shows that it spoke elsewhere."""
    middle.begin()
    numbers = middle.codec.pack([12345])
    claimed = Report(0, middle.session.exponent(1, 0), numbers, NOTHING_HEARD)
    forged = middle.codec.seal(1, claimed, known_key(0).sign)
    assert middle(Heard(forged)).notices == (Refused(Refusal.BAD_SIGNATURE),)
    step = middle.hear(0, Done(6, bytes(range(32))))  # says that it used messages of later rounds
    assert step.records == ()
    middle.report(0, 0)
    middle.report(2, 0)
    assert middle.peer.update == 1
    with pytest.raises(LedgerError, match="another process uses the same key"):
        middle(Heard(middle.codec.seal(1, claimed, middle.sign)))


def test_records_of_others_are_refused(middle):
    middle.begin()
    make = {"sign": middle.sign, "budget": middle.budget}
    with pytest.raises(StateError, match="another session or another agent"):
        PeerMachine.resume(middle.session, 0, middle.records, **make)
    with pytest.raises(ParameterError, match="are not peers"):
        PeerMachine(known_session(3), 0, 0.5, **make)


def test_greetings_do_not_echo(middle):
    middle(Start())
    first = middle.hear(0, Present(0))
    assert middle.says(first) == [(0, Present(0))]
    assert middle.hear(0, Present(0)).messages == ()
    assert Step() == middle.hear(0, Present(0))


@pytest.mark.parametrize("law", ["fading", "one-shot"])
def test_a_partition_heals(play, law):
    """Two halves of a ring cannot hear each other for a while; then everyone finishes, nobody pays twice."""
    deadlines = Deadlines(round=5, start=20, repeat=1)
    session = known_session(graph="ring:6", rounds=8, law=law, deadlines=deadlines)
    harness = play(session)
    harness.start()
    harness.run(lambda h: h.private_machine(0).update == 2)
    harness.network.partition({0, 1, 2}, {3, 4, 5})
    harness.run(lambda h: min(h.private_machine(i).update for i in range(6)) == 5)
    assert harness.clock.now >= 5
    harness.network.heal()
    assert harness.run(Harness.finished)
    harness.watch.check()


def test_a_peer_that_was_away_catches_up_and_the_others_go_on(play):
    deadlines = Deadlines(round=5, start=20, repeat=1)
    session = known_session(graph="ring:5", rounds=10, deadlines=deadlines)
    harness = play(session)
    harness.start()
    harness.run(lambda h: h.private_machine(0).update == 2)
    harness.stop(0)
    harness.run(lambda h: min(h.private_machine(i).update for i in range(1, 5)) >= 7)
    harness.start(0)
    assert harness.run(Harness.finished)
    harness.watch.check()
    spoke = [r.update for r in harness.ledgers[0].records() if isinstance(r, Spoke)]
    assert len(spoke) < 10  # it did not speak where nobody could hear it any more
    assert harness.private_machine(0).update == 10
