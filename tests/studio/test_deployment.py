"""A running session in words, from the statuses of its members."""

import asyncio
import threading

import pytest
from tests.doubles import known_session

from tacit.base.errors import InputError
from tacit.core.protocol.standing import Loss, Standing
from tacit.live.status.document import HubNumbers, StatusDocument, WindowLoss
from tacit.live.status.server import StatusServer
from tacit.live.status.status import Status
from tacit.studio.deployment import card_of, look, places_named, ports_named
from tacit.studio.page_status import feedback_chart


def session_of_alice(**given):
    loss = Loss(spent=0.123456789, planned=1.0, cap=2.0)
    late = [f"agent{i}" for i in range(11)]
    about = {"round": 3, "rounds": 10, "agents": 12, "present": 11, "quiet": ["bob"], "feedback": [20.25]}
    alarming = {"behind": 2, "equivocated": ["eve"], "lost_history": True}
    about |= {"loss": loss, "late": late, **alarming, "phase": "running"}
    return Standing(name="meters", **about | given)


def alice(**given):
    about = {"name": "alice", "role": "agent", "state": "running", "ready": True, "updated": 1000.0}
    about |= {"sessions": [session_of_alice()], "counts": {"refused": {"bad_signature": 2}}}
    return StatusDocument(kind="member", **about | given)


def test_a_member_in_words():
    one = card_of("9464", alice(), now=1042.0)
    facts = {row.name: row.value for row in one.facts}
    assert (one.title, one.headline, one.done) == ("alice of session meters", "Round 3 of 10", 0.3)
    assert facts["present"] == "11 of 12"
    assert facts["late"].endswith("and 6 more")
    assert facts["loss"] == "0.123457 spent, 1 planned, 2 cap"  # rounded up
    assert one.spent == pytest.approx(0.0617, abs=1e-4)
    assert facts["last event"] == "42 s ago"
    assert facts["refused"] == "bad_signature 2"
    assert len(one.alarms) == 3
    done = session_of_alice(phase="finished", loss=None, equivocated=[], feedback=None)
    quiet = card_of("1", alice(state="finished", sessions=[done], counts={}), 1e9)
    assert {row.name for row in quiet.facts} == {"present", "late", "quiet"}
    assert quiet.spent is None


def hub(**given):
    ended = {"round": 20, "rounds": 20, "agents": 2, "used": 1, "feedback": [3.25], "radius": 0.123456}
    sessions = [
        Standing(name="tea-6", phase="finished", ended=940.0, **ended),
        Standing(name="tea-7", phase="running"),
    ]
    about = {"name": "hub", "role": "hub", "hub": "wss://10.0.0.7:7447", "state": "serving", "ready": True}
    about |= {"connected": {"north": "keeper", "alice": "agent", "bob": "agent"}, "sessions": sessions}
    about |= {"counts": {"hub_refusals": {"cap": 2}}, "certificate_expires": 1000.0 + 5 * 86400}
    about |= {"numbers": HubNumbers(outcomes={"finished": 6}, open_invitations=1)}
    return StatusDocument(kind="hub", **about | given)


def test_a_hub_in_words():
    one = card_of("9464", hub(), now=1000.0)
    facts = {row.name: row.value for row in one.facts}
    assert one.headline == "2 agents, 1 keeper connected"
    assert facts["connected"] == "2 agents, 1 keeper: alice, bob, north"
    assert (facts["under way"], facts["sessions"]) == ("tea-7", "finished 6")
    assert (facts["refusals"], facts["certificate"]) == ("cap 2", "valid for 5.0 more days")
    newest, before = one.sessions.rows
    assert newest == ("tea-7", "running", "", "", "", "", "")
    assert before == ("tea-6", "finished", "20", "1 of 2", "3.25", "± 0.124", "60 s ago")
    assert card_of("9464", hub(), now=1e9).alarms == ("the certificate has expired",)


def test_a_hub_names_its_series():
    plan = {"series": True, "phase": "running", "rounds": 35_040, "loss": Loss(planned=1.0)}
    missing = "2 of 10 agents missing; agents missing in 2 earlier slots"
    mean = {"feedback": [4.25], "deviation": 0.0312, "absences": missing}
    series = [Standing(name="year", round=1200, lost=3, **mean, **plan), Standing(name="new", **plan)]
    facts = {row.name: row.value for row in card_of("9464", hub(sessions=series), now=1000.0).facts}
    assert facts["series year"] == (
        "1,200 of 35,040 slots over, 3 lost, last mean 4.25, noise 0.0312 "
        "(2 of 10 agents missing; agents missing in 2 earlier slots); loss 1 for all"
    )
    assert facts["series new"] == "0 of 35,040 slots over, 0 lost; loss 1 for all"


def test_a_follower_in_words():
    seen = StatusDocument(
        kind="follower",
        name="alice",
        role="agent",
        hub="wss://h",
        state="disconnected",
        ready=False,
        trouble="no route",
        counts={"agent_sessions": {"joined": 3, "finished": 2, "stopped": 1}, "agent_refusals": {"cap": 4}},
        loss=Loss(spent=1.5, cap=6.0),
        windows=[WindowLoss(86400 * 7, 2.0, 0.5)],
    )
    one = card_of("9465", seen, now=1000.0)
    facts = {row.name: row.value for row in one.facts}
    assert (one.headline, one.alarms, one.spent) == ("Disconnected", ("no route",), 0.25)
    assert facts["loss"] == "1.5 spent, 6 cap"
    assert facts["loss within 7 d"] == "0.5 spent, 2 cap"
    assert facts["sessions"] == "finished 2, joined 3, stopped 1"


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
    status.update(phase="running", round=2, feedback=[7.5], loss=Loss(spent=0.1, planned=0.5, cap=1.0))
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
