"""A running session in words, from the statuses of its members."""

import asyncio
import threading

import pytest
from tests.doubles import known_session

from tacit.errors import InputError
from tacit.runtime.status.server import StatusServer
from tacit.runtime.status.status import Status
from tacit.studio.deployment import card_of, look, places_named, ports_named
from tacit.studio.page_status import feedback_chart

SEEN = {
    "session": "meters", "member": "alice", "phase": "running", "round": 3, "rounds": 10, "agents": 12,
    "present": 11, "late": [f"agent{i}" for i in range(11)], "quiet": ["bob"], "feedback": [20.25],
    "updated": 1000.0,
    "loss": {"spent": 0.123456789, "planned": 1.0, "cap": 2.0}, "refused": {"signature": 2}, "behind": 2,
    "equivocations": [{"sender": "eve", "round": 1}], "lost_history": True,
}  # fmt: skip


def test_a_member_in_words():
    one = card_of("9464", SEEN, now=1042.0)
    facts = {row.name: row.value for row in one.facts}
    assert (one.title, one.headline, one.done) == ("alice of session meters", "Round 3 of 10", 0.3)
    assert facts["present"] == "11 of 12"
    assert facts["late"].endswith("and 3 more")
    assert facts["privacy loss"] == "0.123457 spent, 1 planned, 2 cap"  # rounded up
    assert one.spent == pytest.approx(0.0617, abs=1e-4)
    assert facts["nothing happened for"] == "42 s"
    assert len(one.alarms) == 4
    done = {**SEEN, "phase": "finished", "loss": None, "equivocations": [], "feedback": None}
    quiet = card_of("1", done, 1e9)
    assert {row.name for row in quiet.facts} == {"present", "late", "quiet"}
    assert quiet.spent is None


HUB = {
    "hub": "wss://10.0.0.7:7447", "state": "serving", "running": ["tea-7"], "refusals": {"cap": 2},
    "members": {"north": "keeper", "alice": "agent", "bob": "agent"}, "outcomes": {"finished": 6},
    "rounds": 120, "enrolled": 3, "open_invitations": 1, "certificate_expires": 1000.0 + 5 * 86400,
    "sessions": [
        {"name": "tea-6", "state": "finished", "ended": 940.0,
         "result": {"mean": 3.25, "rounds": 20, "agents": 2, "used": [2, 1], "radius": 0.123456}},
        {"name": "tea-7", "state": "running", "ended": None, "result": None},
    ],
}  # fmt: skip


def test_a_hub_in_words():
    one = card_of("9464", HUB, now=1000.0)
    facts = {row.name: row.value for row in one.facts}
    assert one.headline == "2 agents and 1 keeper connected"
    assert (facts["agents connected"], facts["keepers connected"]) == ("alice, bob", "north")
    assert (facts["sessions under way"], facts["sessions so far"]) == ("tea-7", "finished: 6")
    assert (facts["refusals of agents"], facts["certificate"]) == ("cap: 2", "valid for 5.0 more days")
    newest, before = one.sessions.rows
    assert newest == ("tea-7", "running", "", "", "", "", "")
    assert before == ("tea-6", "finished", "20", "1 of 2", "3.25", "± 0.124", "60 s ago")
    assert card_of("9464", HUB, now=1e9).alarms == ("the certificate has expired",)


def test_a_hub_names_its_series():
    plan = {"slots": 35_040, "loss": 1.0}
    series = {
        "year": {
            "over": 1200,
            "lost": 3,
            "mean": 4.25,
            "deviation": 0.0312,
            "used": [8],
            "agents": 10,
            "incomplete_before": 2,
            "series": plan,
        },
        "new": {"over": 0, "lost": 0, "series": plan},
    }
    facts = {row.name: row.value for row in card_of("9464", HUB | {"series": series}, now=1000.0).facts}
    assert facts["series year"] == (
        "1,200 of 35,040 slots over, 3 lost, last mean 4.25, noise deviation 0.0312 "
        "(2 of 10 agents missing; agents missing in 2 earlier slots); loss 1 for all"
    )
    assert facts["series new"] == "0 of 35,040 slots over, 0 lost; loss 1 for all"


def test_a_follower_in_words():
    seen = {
        "member": "alice", "role": "agent", "hub": "wss://h", "connected": False, "trouble": "no route",
        "sessions_running": 0, "joined": 3, "finished": 2, "stopped": 1, "refused": {"cap": 4},
        "certificate_expires": None, "loss": {"spent": 1.5, "cap": 6.0},
        "windows": [{"seconds": 86400 * 7, "cap": 2.0, "spent": 0.5}],
    }  # fmt: skip
    one = card_of("9465", seen, now=1000.0)
    facts = {row.name: row.value for row in one.facts}
    assert (one.headline, one.alarms, one.spent) == ("Not connected", ("no route",), 0.25)
    assert facts["privacy loss"] == "1.5 spent, 6 cap"
    assert facts["loss within 7 d"] == "0.5 spent, 2 cap"
    assert facts["since the start"] == "3 joined, 2 finished, 1 stopped"


@pytest.mark.parametrize(
    "changes", [{"members": 7}, {"sessions": [1]}, {"certificate_expires": "soon"}, {"outcomes": [1]}]
)
def test_a_status_that_cannot_be_read_is_refused_in_a_sentence(changes):
    with pytest.raises(InputError, match="that can be read"):
        card_of("9464", {**HUB, **changes}, now=1000.0)


def test_ports_of_this_machine_only():
    assert ports_named("9464, 9470-9472 9464") == ("9464", "9470", "9471", "9472")
    far = "https://10.0.0.7:9464"
    assert places_named(f"9464 {far} hub.local:9464", anywhere=True) == ("9464", far, "hub.local:9464")
    with pytest.raises(InputError, match="ftp"):
        places_named("ftp://x", anywhere=True)
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
    seen = look((str(served), "1"))
    assert [one.place for one in seen.cards] == [str(served)]
    assert list(seen.feedback.values()) == [(2, 7.5)]
    assert "does not answer" in seen.absent["1"]


def test_the_feedback_is_drawn_in_the_order_of_rounds():
    options = feedback_chart({"alice (1)": {2: 5.0, 1: 4.0}})
    assert options["series"][0]["data"] == [[1.0, 4.0], [2.0, 5.0]]
    assert options["legend"]["data"] == ["alice (1)"]
