"""Sessions that stay open: agents come, say one thing, get a receipt, leave, and fetch the result later."""

import pytest
from tests.doubles import Faults, ListLedger, known_key, known_session

from tacit.base.errors import LedgerError, ParameterError
from tacit.core.protocol.codec import Codec
from tacit.core.protocol.coordinator import CoordinatorMachine
from tacit.core.protocol.effects import Heard, Joined, Start, Tick
from tacit.core.protocol.messages import COORDINATOR, Ask, Closing, Message, Receipt, Refusal, Report
from tacit.core.protocol.notices import ReceiptTaken, Refused
from tacit.core.protocol.records import Closed, Reported, Shut, Spoke
from tacit.core.protocol.session import Deadlines
from tacit.core.protocol.tables import AgentPhase, CoordinatorPhase

CLOSES = 3600
FAST = Deadlines(round=5.0, start=20.0, repeat=1.0)


def window(agents=3, *, keepers=2, closes=CLOSES, **more):
    given = {"quorum": 2, "deadlines": FAST, "law": "one-shot"} | more
    return known_session(agents, 1, keepers=keepers, closes=closes, **given)


both = pytest.mark.parametrize("keepers", [0, 2])


def said(harness, kind):
    """The messages of one kind that were sent, with receiver."""
    codec = Codec(harness.session)
    found = [(to, codec.read(frame, own=True)) for _, to, frame in harness.network.tap]
    return [(to, one) for to, one in found if isinstance(one.body, kind)]


def rests(number):
    return lambda harness: harness.machine(number).rests


def over(harness):
    return all(machine.phase is AgentPhase.FINISHED for machine in agents_of(harness))


def over_of(*numbers):
    return lambda h: all((m := h.machines[n]) is not None and m.phase is AgentPhase.FINISHED for n in numbers)


def agents_of(harness):
    return [m for n, m in harness.machines.items() if m is not None and 0 <= n < harness.session.n]


def used(harness):
    ledger = harness.ledgers[COORDINATOR].records()
    return [r.used for r in ledger if isinstance(r, Closed)]


def visit(harness, number):
    """An agent comes, says what it has to say, and leaves with its receipt."""
    harness.start(number)
    assert harness.run(rests(number), most=5000)
    harness.stop(number)


@both
def test_agents_come_one_after_another_and_fetch_the_result_hours_later(play, keepers):
    harness = play(window(keepers=keepers))
    harness.start(COORDINATOR, *harness.session.keeper_numbers)
    for number in range(2):
        visit(harness, number)
        harness.clock.advance(1200)  # it is offline for the rest of the hour
    assert harness.run(used, most=5000)
    assert harness.clock.now >= CLOSES
    assert used(harness) == [(0, 1)]
    harness.clock.advance(7 * 86_400)
    harness.start(0, 1)
    assert harness.run(over, most=5000)
    assert harness.machine(0).private.feedback == harness.machine(1).private.feedback
    assert [len([r for r in harness.ledgers[i].records() if isinstance(r, Spoke)]) for i in (0, 1)] == [1, 1]
    harness.watch.check()


@both
def test_it_closes_early_when_all_have_sent(play, keepers):
    harness = play(window(keepers=keepers))
    harness.start()
    assert harness.run(over, most=5000)
    assert harness.clock.now < 60
    assert used(harness) == [(0, 1, 2)]


def test_below_the_quorum_it_stays_open_until_enough_have_come(play):
    harness = play(window(keepers=0))
    harness.start(COORDINATOR)
    visit(harness, 1)
    harness.clock.advance_to(CLOSES + 1000)
    harness.process(COORDINATOR, Tick(harness.clock.now, harness.clock.now))
    assert used(harness) == []
    harness.start(0)
    assert harness.run(used, most=5000)
    assert used(harness) == [(0, 1)]


@both
def test_a_report_is_recorded_before_its_receipt_leaves(play, keepers):
    harness = play(window(keepers=keepers))
    harness.start(COORDINATOR, *harness.session.keeper_numbers, 0)
    assert harness.run(rests(0), most=5000)
    [(to, receipt)] = {(to, one.body) for to, one in said(harness, Receipt)}
    [report] = [r for r in harness.ledgers[COORDINATOR].records() if isinstance(r, Reported)]
    assert to == 0
    assert report.agent == 0
    assert Codec(harness.session).own(report.frame).digest == receipt.report
    assert [n for n in harness.notices[0] if isinstance(n, ReceiptTaken)] == [ReceiptTaken(0)]


@both
def test_with_its_receipt_an_agent_is_quiet_until_the_end(play, keepers):
    """Thousands of agents that repeat themselves for a day would be a load for nothing."""
    harness = play(window(keepers=keepers))
    harness.start(COORDINATOR, *harness.session.keeper_numbers, 0)
    assert harness.run(rests(0), most=5000)
    harness.run(lambda h: h.clock.now >= 60, most=5000)
    before = len(said(harness, Report))
    assert harness.run(lambda h: h.clock.now >= CLOSES - 1, most=5000)
    assert len(said(harness, Report)) == before
    assert harness.run(lambda h: h.clock.now >= CLOSES + 60, most=5000)
    assert len(said(harness, Report)) > before


@both
def test_without_a_receipt_the_same_bytes_are_repeated(play, keepers):
    harness = play(window(keepers=keepers))
    harness.start(COORDINATOR, *harness.session.keeper_numbers, 0)
    send = harness.network.send
    kept = []

    def lose_receipts(source, to, frame):
        if isinstance(Codec(harness.session).read(frame, own=True).body, Receipt) and len(kept) < 3:
            kept.append(frame)
        else:
            send(source, to, frame)

    harness.network.send = lose_receipts
    assert harness.run(rests(0), most=5000)
    assert len(kept) == 3
    assert len(set(kept)) == 1
    reports = {one.frame for _, one in said(harness, Report)}
    assert len(reports) == 1
    assert sum(isinstance(r, Reported) for r in harness.ledgers[COORDINATOR].records()) == 1


def test_a_receipt_of_another_message_is_refused(play):
    harness = play(window(keepers=0))
    harness.start(COORDINATOR, 0)
    assert harness.run(rests(0), most=5000)
    machine = harness.machine(0)
    machine.handle(Joined(COORDINATOR))
    assert not machine.rests
    frame = Codec(harness.session).seal(COORDINATOR, Receipt(0, b"x" * 32), known_key(COORDINATOR).sign)
    step = machine.handle(Heard(frame))
    assert step.notices == (Refused(Refusal.NOT_FOR_ME, COORDINATOR),)
    assert not machine.rests


@both
def test_who_comes_while_the_sum_is_opened_is_not_asked(play, keepers):
    """Its message would be in no sum, and cost its owner for nothing."""
    harness = play(window(keepers=keepers))
    if not keepers:
        return
    harness.start(COORDINATOR, *harness.session.keeper_numbers)
    visit(harness, 0)
    visit(harness, 1)
    last = harness.session.keeper_numbers[-1]
    harness.stop(last)
    assert harness.run(lambda h: h.clock.now >= CLOSES, most=5000)
    assert harness.run(lambda _: said(harness, Closing), most=5000)
    asked = len([to for to, _ in said(harness, Ask) if to == 2])  # when the window opened, and it was away
    harness.start(2)
    harness.run(lambda h: h.clock.now >= CLOSES + 60, most=5000)
    assert len([to for to, _ in said(harness, Ask) if to == 2]) == asked
    assert harness.ledgers[2].records() == () or not any(
        isinstance(r, Spoke) for r in harness.ledgers[2].records()
    )
    harness.start(last)
    assert harness.run(lambda h: used(h) == [(0, 1)], most=5000)
    assert harness.run(lambda h: h.machine(2).phase is AgentPhase.FINISHED, most=5000)


# ---- crashes and rollbacks ------------------------------------------------------------------------------


class CrashAt:
    def __init__(self, number, k):
        self.number, self.left, self.where = number, k, None

    def __call__(self, number, point):
        if number == self.number:
            self.left -= 1
            if self.left == -1:
                self.where = point
                return True
        return False


def receipts_are_kept(harness):
    """Every report that has a receipt is in the sum."""
    digests = {one.body.report for _, one in said(harness, Receipt)}
    records = harness.ledgers[COORDINATOR].records()
    summed = [r for r in records if isinstance(r, Shut | Closed) and r.reports]
    codec = Codec(harness.session)
    assert len(summed) == 1
    assert digests
    assert digests <= {codec.own(frame).digest for frame in summed[0].reports}


ROLES = [("coordinator", 0), ("coordinator", 2), ("agent", 0), ("agent", 2), ("keeper", 2)]


def played_with_a_crash(play, role, keepers, k):
    """Two agents come one after another, and once more for the result; one node crashes at its k-th point."""
    session = window(keepers=keepers, closes=60)
    who = {"coordinator": COORDINATOR, "agent": 0, "keeper": session.n}[role]
    stays = (COORDINATOR, *session.keeper_numbers)
    crash = CrashAt(who, k)
    harness = play(session, crash=crash)
    harness.start(*stays)

    def until(numbers, what):
        for _ in range(6):
            for number in (*stays, *numbers):
                if harness.machines[number] is None:
                    harness.start(number)
            if harness.run(lambda h: None not in map(h.machines.get, numbers) and what(h), most=250):
                return
        raise AssertionError(f"stuck after a crash at {k} ({crash.where})")

    for number in (0, 1):
        until((number,), lambda h, n=number: h.machine(n).rests or used(h))
        harness.stop(number)
        harness.clock.advance(10)
    until((), used)  # all agents are away
    until((0, 1), over_of(0, 1))
    return harness, crash.where


@pytest.mark.parametrize(("role", "keepers"), ROLES)
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.long)])
def test_a_crash_at_every_point_loses_no_receipt_and_draws_nothing_again(play, role, keepers, every):
    where, k = set(), 0
    while True:
        harness, at = played_with_a_crash(play, role, keepers, k)
        harness.watch.check()
        receipts_are_kept(harness)
        assert used(harness) == [(0, 1)]
        if at is None:
            break
        where.add(at)
        k += every
    assert len(where) >= 3
    assert k >= 15


@both
def test_a_coordinator_put_back_to_any_record_takes_the_report_again(play, keepers):
    """An agent that comes back says the same again. What is not said again is lost with the old disk."""
    session = window(keepers=keepers)
    for length in range(1, 30):
        harness = play(session)
        harness.start(COORDINATOR, *session.keeper_numbers, 0, 1)
        assert harness.run(lambda h: h.machine(0).rests and h.machine(1).rests, most=5000)
        ledger = harness.ledgers[COORDINATOR]
        if length >= len(ledger):
            break
        harness.stop(COORDINATOR)
        ledger._saved[length:] = []
        harness.start(COORDINATOR)
        assert harness.run(over_of(0, 1), most=5000)
        assert used(harness) == [(0, 1)]
        harness.watch.check()
    else:
        pytest.fail("there are more records than were tried")


def started(harness, number):
    harness.start(number)
    harness.run(lambda h: h.clock.now >= CLOSES, most=5000)


@both
def test_an_agent_put_back_before_its_message_learns_of_it_before_it_draws_again(play, keepers):
    session = window(keepers=keepers)
    harness = play(session)
    harness.start(COORDINATOR, *session.keeper_numbers, 0)
    assert harness.run(rests(0), most=5000)
    harness.stop(0)
    ledger = harness.ledgers[0]
    ledger._saved = ListLedger(r for r in ledger.records() if not isinstance(r, Spoke))._saved
    before = len({one.frame for _, one in said(harness, Report)})
    with pytest.raises(LedgerError, match=r"not from this ledger"):
        started(harness, 0)
    assert len({one.frame for _, one in said(harness, Report)}) == before == 1


def test_frames_that_are_lost_and_doubled_change_nothing(play):
    harness = play(window(), faults=Faults(loss=0.2, duplication=0.2), seed=3)
    harness.start()
    harness.stop(2)
    assert harness.run(over, most=20_000)
    assert used(harness) in ([(0, 1)], [(0, 1, 2)])
    receipts_are_kept(harness)
    harness.watch.check()


def test_a_restarted_coordinator_does_not_open_the_window_anew(play):
    """Its end is a time of the session, and not so many seconds from the start of a process."""
    harness = play(window(keepers=0))
    harness.start(COORDINATOR)
    visit(harness, 0)
    visit(harness, 1)
    harness.clock.advance_to(CLOSES - 10)
    harness.stop(COORDINATOR)
    harness.start(COORDINATOR)
    assert harness.machine(COORDINATOR).heard == 2
    assert harness.run(used, most=100)
    assert CLOSES <= harness.clock.now < CLOSES + 5
    assert harness.machine(COORDINATOR).phase is CoordinatorPhase.SERVING


# ---- the session ----------------------------------------------------------------------------------------


def test_only_sessions_with_one_report_can_stay_open():
    assert window(keepers=0).exchanges == window(keepers=2).exchanges == 1
    assert known_session(3, 4, keepers=1, law="one-shot", closes=9, quorum=2).exchanges == 1
    for wrong in (
        {"rounds": 2, "law": "fading"},
        {"rounds": 2, "law": "one-shot"},
        {"graph": "path:3", "rounds": 1, "law": "one-shot"},
    ):
        with pytest.raises(ParameterError, match="stays open must have a server"):
            known_session(3, closes=CLOSES, **wrong)
    for closes in (0, -1, 2.5, 1000):
        with pytest.raises(ParameterError, match="before the session expires"):
            window(closes=closes, expires=1000)


def test_a_window_changes_no_other_session():
    plain = known_session(3, 1, law="one-shot")
    assert b"closes" not in plain.canonical
    assert window().canonical.count(b"closes") == 1
    assert Codec(plain).open(
        Codec(plain).seal(COORDINATOR, Receipt(0, b"d" * 32), known_key(COORDINATOR).sign)
    ) == Refused(Refusal.WRONG_ROLE, COORDINATOR)
    frame = Codec(window()).seal(COORDINATOR, Receipt(0, b"d" * 32), known_key(COORDINATOR).sign)
    assert isinstance(Codec(window()).open(frame), Message)
    for sender, round_, why in ((1, 0, Refusal.WRONG_ROLE), (COORDINATOR, 1, Refusal.WRONG_ROUND)):
        frame = Codec(window()).seal(sender, Receipt(round_, b"d" * 32), known_key(sender).sign)
        assert Codec(window()).open(frame) == Refused(why, sender)


def test_reports_of_a_ledger_must_be_those_of_their_agents():
    session = window(keepers=0)
    machine = CoordinatorMachine(session, sign=known_key(COORDINATOR).sign)
    records = list(machine.handle(Start()).records)
    frame = Codec(session).seal(
        1, Report(0, session.exponent(1, 0), Codec(session).pack([1]), bytes(32)), known_key(1).sign
    )
    again = CoordinatorMachine.resume(
        session, [*records, Reported(1, frame)], sign=known_key(COORDINATOR).sign
    )
    assert again.heard == 1
    with pytest.raises(Exception, match="must follow one another"):
        CoordinatorMachine.resume(session, [*records, Reported(0, frame)], sign=known_key(COORDINATOR).sign)
