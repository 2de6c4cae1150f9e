"""A running session in words, from the statuses of its members."""

import asyncio
import threading

import pytest

from tacit.errors import InputError
from tacit.runtime.status.server import StatusServer
from tacit.runtime.status.status import Status
from tacit.studio.deployment import look, member, ports_named
from tacit.studio.page_status import feedback_chart
from tacit.testing import known_session

SEEN = {
    "session": "meters", "member": "alice", "phase": "running", "round": 3, "rounds": 10, "agents": 12,
    "present": 11, "late": [f"agent{i}" for i in range(11)], "quiet": ["bob"], "feedback": [20.25],
    "updated": 1000.0,
    "loss": {"spent": 0.123456789, "planned": 1.0, "cap": 2.0}, "refused": {"signature": 2}, "behind": 2,
    "equivocations": [{"sender": "eve", "round": 1}], "lost_history": True,
}  # fmt: skip


def test_a_member_in_words():
    one = member(9464, SEEN, now=1042.0)
    assert (one.name, one.round, one.rounds, one.here) == ("alice", 3, 10, "11 of 12")
    assert one.late.endswith("and 3 more")
    assert one.loss == "0.123457 spent, 1 planned, 2 cap"  # rounded up
    assert one.share == pytest.approx(0.0617, abs=1e-4)
    assert one.silent_for == "42 s"
    assert len(one.alarms) == 4
    quiet = member(1, {**SEEN, "phase": "finished", "loss": None, "equivocations": [], "feedback": None}, 1e9)
    assert (quiet.silent_for, quiet.loss, quiet.share, quiet.feedback) == ("", "", None, "")


def test_ports_of_this_machine_only():
    assert ports_named("9464, 9470-9472 9464") == (9464, 9470, 9471, 9472)
    assert ports_named("") == ()
    for text, says in (
        ("0", "1 to 65535"),
        ("70000", "65535"),
        ("http://x", "not a port"),
        ("1-999", "at most"),
    ):
        with pytest.raises(InputError, match=says):
            ports_named(text)


@pytest.fixture
def served():
    """Show the status of one member, and return its port."""
    status, started, stop = Status(known_session(agents=3), who=0), threading.Event(), threading.Event()
    status.update(phase="running", round=2, feedback=[7.5], loss={"spent": 0.1, "planned": 0.5, "cap": 1.0})
    found = {}

    async def show():
        async with StatusServer(status) as server:
            found["port"] = server.port
            started.set()
            while not stop.is_set():
                await asyncio.sleep(0.02)

    thread = threading.Thread(target=lambda: asyncio.run(show()))
    thread.start()
    started.wait()
    yield found["port"]
    stop.set()
    thread.join()


def test_a_look_finds_who_is_there_and_says_who_is_not(served):
    seen = look((served, 1))
    assert [one.port for one in seen.members] == [served]
    assert seen.feedback == {served: (2, 7.5)}
    assert "does not answer" in seen.absent[1]


def test_the_feedback_is_drawn_in_the_order_of_rounds():
    options = feedback_chart({"alice (1)": {2: 5.0, 1: 4.0}})
    assert options["series"][0]["data"] == [[1.0, 4.0], [2.0, 5.0]]
    assert options["legend"]["data"] == ["alice (1)"]
