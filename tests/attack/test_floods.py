"""Whoever may connect may also shout: what is kept of it is bounded."""

import io
import json

from tacit.cli.notice_log import NoticeLog
from tacit.core.protocol.coordinator import CoordinatorMachine
from tacit.core.protocol.effects import Heard, Start, Tick
from tacit.core.protocol.machine import ANSWERS_EVERY, ANSWERS_PER_TICK
from tacit.core.protocol.messages import COORDINATOR, Ask, Refusal
from tacit.core.protocol.notices import LostHistory, Refused, RoundOpened
from tacit.core.protocol.records import Opened
from tacit.live.runtime.telling import Throttled
from tacit.live.transport.base import Frame, Inbox


def test_what_waits_is_bounded_in_bytes_and_not_only_in_number():
    inbox = Inbox(frame_bytes=1000, most_bytes=10_000)
    for _ in range(100):
        inbox.put(bytes(1000))
    assert inbox.dropped == 90
    assert len(inbox.take()) == 10
    inbox.put(bytes(1000))  # and there is room again
    assert [len(frame.data) for frame in inbox.take() if isinstance(frame, Frame)] == [1000]
    one = Inbox(frame_bytes=1000, most_bytes=10)
    one.put(bytes(1000))  # the largest frame must always come through
    assert one.dropped == 0


def test_a_log_is_not_filled_by_refusals(played, tmp_path):
    log = NoticeLog(tmp_path / "log", {}, played(rounds=4).session)
    tell = Throttled(log)
    for _ in range(10_000):
        tell(Refused(Refusal.BAD_SIGNATURE))
        tell(LostHistory(1, 3))
    tell(Refused(Refusal.REPLAY, 1))
    tell(RoundOpened(1, 4))
    log.close()
    lines = [json.loads(line) for line in io.StringIO((tmp_path / "log").read_text())]
    assert len(lines) < 300
    bad = [line for line in lines if line.get("reason") == "bad-signature"]
    assert [line["count"] for line in bad[:3]] == [1, 2, 3]
    assert bad[-1]["count"] == 8192  # it is told how many there were, each time they have doubled
    assert [line["event"] for line in lines[-2:]] == ["refused", "round-opened"]


def test_requests_are_answered_by_the_clock_and_not_by_their_number(played):
    """A tick follows every burst: it must not let one ask again at once, for answers are long."""
    game = played(rounds=4)
    records = [Opened(game.session.id, (0, 1, 2, 3)), *game.kept[COORDINATOR]]
    server = CoordinatorMachine.resume(game.session, records, sign=game.keys[-1].sign)
    server.handle(Start())
    ask = game.codec.seal(0, Ask(0), game.keys[0].sign)

    def answers(start):
        sent = 0
        for k in range(200):
            sent += sum(send.to == 0 for send in server.handle(Heard(ask)).messages)
            server.handle(Tick(start + 1e-6 * k))
        return sent

    first = answers(1.0)
    assert 0 < first <= 2 * ANSWERS_PER_TICK * game.session.rounds  # a tick may come in between, once
    assert answers(1.0 + ANSWERS_EVERY) > 0  # asked later it is answered
    assert server.refused[Refusal.TOO_OFTEN] >= 400 - 4 * ANSWERS_PER_TICK
