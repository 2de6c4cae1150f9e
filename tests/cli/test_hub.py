"""`tacit hub`, `invite`, `enroll`, `agent` and `keys sign DIRECTORY`, as far as nothing has to listen."""

import asyncio
import base64
import hashlib
import re
import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from tacit.core.protocol.standing import Loss, Standing
from tacit.core.question import Mean
from tacit.live.fleet.invitation import Invitation
from tacit.live.fleet.store import HubStore, SeenMember
from tacit.live.status.document import HubNumbers, StatusDocument, WindowLoss


@pytest.fixture
def hub(run):
    run("hub", "new", "hub", "--address", "wss://hub.example.org:7447")
    return "hub"


def test_a_hub_is_made_once(run, answer, hub):
    assert (
        "exists already" in run("hub", "new", "hub", "--address", "wss://hub.example.org:7447", code=2).output
    )
    found = answer("hub", "show", hub)
    assert (found["address"], found["state"]) == ("wss://hub.example.org:7447", "not running")
    assert len(found["authority"]) == 64
    assert answer("keys", "show", "hub/authority")["key_fingerprint"] == found["authority"]
    moved = answer("hub", "new", hub, "--moved", "--address", "wss://new.example.org:7447")
    assert moved["authority"] == found["authority"]
    assert answer("hub", "show", hub)["address"] == "wss://new.example.org:7447"
    assert answer("keys", "show", "hub/coordinator")["hosts"] == ["new.example.org"]


def test_invitations_are_lines_for_one_hub(run, answer, hub):
    line = run("invite", "alice", "--hub", hub).stdout
    assert line.count("\n") == 1
    made = Invitation.parse(line)
    assert (made.address, made.pattern) == ("wss://hub.example.org:7447", "alice")
    assert made.fingerprint == answer("hub", "show", hub)["authority"]
    lines = run("invite", "meter-*", "--count", 3, "--hub", hub).stdout.split()
    assert len({Invitation.parse(one).secret for one in lines}) == 3
    assert answer("hub", "show", hub)["open_invitations"] == 4
    assert "1 invitation withdrawn" in run("invite", "alice", "bob", "--hub", hub, "--withdraw").output
    run("invite", "alice", "--hub", hub)
    assert answer("invite", "meter-*", "--hub", hub, "--withdraw") == {"withdrawn": 3}
    assert "1 invitation withdrawn" in run("invite", "*", "--hub", hub, "--withdraw").output


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["alice", "--hours", "0"], "--hours"),
        (["alice", "--days", "-1"], "--days"),
        (["alice", "--count", "2"], "pattern"),
        (["coordinator"], "reserved"),
        (["a b"], "letters"),
        (["alice", "--address", "http://x"], "wss"),
    ],
)
def test_what_cannot_be_invited(run, answer, hub, words, why):
    assert why in run("invite", *words, "--hub", hub, code=2).output
    assert answer("hub", "show", hub)["open_invitations"] == 0


def written(path, text, mode=0o600):
    path.write_text(text)
    path.chmod(mode)


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o602])
def test_an_invitation_that_everyone_can_read_is_refused(run, hub, tmp_path, mode):
    written(tmp_path / "line", run("invite", "alice", "--hub", hub).stdout, mode)
    said = run("enroll", "line", code=2).output
    assert f"mode {mode:o}" in said
    assert not (tmp_path / "alice").exists()
    (tmp_path / "line").chmod(0o440)  # as Kubernetes mounts a secret: it is read, and nobody answers
    assert "mode" not in run("enroll", "line", code=2).output


@pytest.mark.parametrize("expires", [0, -1, 10**12, 2**63 - 1, -(2**63)])
def test_an_invitation_of_an_impossible_time_is_refused(run, hub, tmp_path, expires):
    made = Invitation.parse(run("invite", "alice", "--hub", hub).stdout)
    data = msgspec.msgpack.encode(msgspec.structs.replace(made, expires=expires))
    coded = base64.urlsafe_b64encode(hashlib.sha256(data).digest()[:4] + data).rstrip(b"=").decode()
    written(tmp_path / "line", f"tacit-invitation-1-{coded}")
    said = run("enroll", "line", code=2).output
    assert "not a whole one" in said
    assert "unexpected" not in said


@pytest.mark.parametrize(
    ("address", "listens"),
    [
        ("wss://localhost:7447", "wss://localhost:7447"),
        ("wss://127.0.0.1:7447", "wss://127.0.0.1:7447"),
        ("wss://[::1]:7447", "wss://[::1]:7447"),
        ("wss://hub.example.org:7447", "wss://0.0.0.0:7447"),
        ("wss://192.0.2.7:7447", "wss://0.0.0.0:7447"),
    ],
)
def test_a_hub_at_a_loopback_address_listens_there_alone(run, tmp_path, address, listens):
    run("hub", "new", "other", "--address", address)
    store = HubStore(tmp_path / "other")
    assert store.setting("listen") == listens
    store.close()


def test_an_invitation_that_is_not_whole_is_not_repeated(run, tmp_path):
    assert "copy all" in run("enroll", "tacit-invitation-1-AAAA", code=2).output
    written(tmp_path / "line", "tacit-invitation-1-c2VjcmV0")
    said = run("enroll", "line", code=2).output
    assert "c2VjcmV0" not in said


def test_orders_wait_for_the_hub(run, answer, hub):
    asked = ("--loss", 1, "--range", "0:10")
    assert answer("hub", "run", hub, *asked, "--name", "load", "--every", "1m") == {
        "name": "load",
        "every": 60.0,
    }
    assert "before" in run("hub", "run", hub, *asked, "--name", "load", "--detach", code=2).output
    for words, why in (
        (["--every", "soon"], "30s"),
        (["--every", "1ms"], "100ms"),
        (["--times", 3], "--every"),
        (["--name", "a b"], "letters"),
    ):
        assert why in run("hub", "run", hub, *asked, *words, code=2).output
    assert "--loss" in run("hub", "run", hub, "--range", "0:1", code=2).output
    [task] = answer("hub", "show", hub)["tasks"]
    assert (task["name"], task["state"], task["asked"]["question"]["loss"]) == ("load", "due", 1.0)
    assert "cancelled" in run("hub", "cancel", hub, "load").output
    assert answer("hub", "show", hub)["tasks"][0]["state"] == "stopped"
    assert "nothing called" in run("hub", "cancel", hub, "other", code=2).output


def test_a_useless_schedule_is_not_ordered(run, answer, hub):
    """As many agents as the hub has ever seen are too few; more, or --anyway, are not."""
    HubStore(Path(hub)).note({f"meter-{i}": SeenMember("key", "agent", 1.0) for i in range(3)}, {}, {})
    asked = ("--loss", 0.5, "--range", "0:60", "--every", "1m", "--name", "load")
    said = run("hub", "run", hub, *asked, code=2).output
    assert "half the range of 60" in said
    assert "--anyway" in said
    assert run("hub", "run", hub, *asked, "--agents", "meter-1*", "--least", 1, "--anyway").output
    run("hub", "run", hub, *asked[:-1], "more", "--least", 500)
    series = (*SERIES, "--keepers", "north,south", "--loss", 0.01, "--detach")
    assert "half the range of 10" in run("hub", "run", hub, *series, "--name", "day", code=2).output
    run("hub", "run", hub, *series, "--name", "day", "--anyway")
    orders = {task["name"]: task["asked"]["anyway"] for task in answer("hub", "show", hub)["tasks"]}
    assert orders == {"load": True, "more": False, "day": True}


def test_a_session_is_not_waited_for_where_no_hub_serves(run, answer, hub):
    asked = ("--loss", 1, "--range", "0:10")
    assert "no hub serves" in run("hub", "run", hub, *asked, code=2).output
    assert answer("hub", "show", hub)["tasks"] == []


def test_pause_and_resume_are_settings(run, hub, tmp_path):
    for verb, state in (("pause", "paused"), ("resume", "serving"), ("pause --stop", "draining")):
        run("hub", *verb.split(), hub)
        store = HubStore(tmp_path / hub)
        assert store.setting("state") == state
        store.close()


def test_no_hub_and_no_policy(run, tmp_path):
    (tmp_path / "empty").mkdir()
    assert "not a hub's" in run("hub", "show", "empty", code=2).output
    (tmp_path / "me.toml").write_text("format = 1\n")
    assert "hub" in run("agent", "me.toml", code=2).output


def test_many_requests_are_signed_at_once(run, answer, tmp_path):
    run("keys", "authority", "--out", "authority")
    (tmp_path / "requests").mkdir()
    for name in ("a", "b", "c"):
        run("keys", "new", name)
        (tmp_path / name / "request.pem").rename(tmp_path / "requests" / f"{name}.pem")
    found = answer("keys", "sign", "requests", "--out", "certificates")
    assert [one["name"] for one in found["certificates"]] == ["a", "b", "c"]
    for name in ("a", "b", "c"):
        run("keys", "install", f"certificates/{name}.crt", "--keys", name)
    assert "exists already" in run("keys", "sign", "requests", "--out", "certificates", code=2).output


def test_of_a_directory_all_or_none_are_signed(run, answer, tmp_path):
    run("keys", "authority", "--out", "authority")
    (tmp_path / "requests").mkdir()
    run("keys", "new", "a")
    run("keys", "new", "b", "--host", "192.0.2.1")
    for name in ("a", "b"):
        (tmp_path / name / "request.pem").rename(tmp_path / "requests" / f"{name}.pem")
    assert "listen" in run("keys", "sign", "requests", "--out", "certificates", code=2).output
    assert not (tmp_path / "certificates").exists()
    assert answer("keys", "show", "authority")["signed"] == []
    (tmp_path / "certificates").mkdir()
    assert "holds none" in run("keys", "sign", "certificates", code=2).output


# ---- tacit status of a hub and of those who follow it ------------------------------------------------

SHOWN = {
    "hub": StatusDocument(
        kind="hub",
        name="hub",
        role="hub",
        hub="wss://hub.example.org:7447",
        state="serving",
        ready=True,
        connected={"a": "agent", "n": "keeper"},
        certificate_expires=4e9,
        counts={"hub_refusals": {"cap": 2}, "hub_rounds": {"": 12}},
        numbers=HubNumbers(outcomes={"finished": 6, "stopped": 1}, open_invitations=3),
        sessions=[
            Standing(name="load-6", phase="finished", feedback=[4.25]),
            Standing(name="load-7", phase="running"),
        ],
    ),
    "follower": StatusDocument(
        kind="follower",
        name="a",
        role="agent",
        hub="wss://hub.example.org:7447",
        state="disconnected",
        ready=False,
        trouble="nobody answers",
        certificate_expires=1.0,
        counts={
            "agent_sessions": {"joined": 4, "finished": 3, "stopped": 1},
            "agent_refusals": {"range": 1},
        },
        loss=Loss(spent=1.25, cap=20.0),
        windows=[WindowLoss(86400.0, 3.0, 1.0)],
    ),
}


@pytest.fixture
def shown(monkeypatch):
    """Let an address answer with given bytes."""
    from tacit.live.status import reader

    def answer(data):
        monkeypatch.setattr(reader, "_fetched", lambda *_: (200, data))

    return answer


def test_status_of_a_hub(run, answer, shown):
    shown(msgspec.json.encode(SHOWN["hub"]))
    told = run("status", "9464").output
    for words in (
        "hub at wss://hub.example.org:7447", "serving", "1 agent, 1 keeper", "load-7",
        "finished 6, stopped 1", "cap 2", "4.25", "load-6, finished", "more days",
    ):  # fmt: skip
        assert words in told, words
    assert answer("status", "9464") == SHOWN["hub"].as_dict()


def test_status_of_an_agent_that_follows(run, answer, shown):
    shown(msgspec.json.encode(SHOWN["follower"]))
    told = run("status", "9464").output
    for words in (
        "a, agent of the hub at wss://hub.example.org:7447", "finished 3, joined 4, stopped 1", "range 1",
        "1.25 spent, 20 cap", "1 spent, 3 cap", "has expired", "nobody answers",
    ):  # fmt: skip
        assert words in told, words
    assert answer("status", "9464") == SHOWN["follower"].as_dict()


@pytest.mark.parametrize("data", [b"<html>", b"[]", b"{}", b'{"hub": "x"}', b"\xff"])
def test_status_of_something_else(run, shown, data):
    shown(data)
    said = run("status", "9464", code=2).output
    assert "did not answer with a status of tacit" in said
    assert said.count("\n") == 1


SERIES = ("--series", 96, "--every", "15m", "--hides", "step:2", "--range", "0:10")


def test_a_series_is_ordered_with_what_it_hides(run, answer, hub):
    words = (*SERIES, "--keepers", "north,south", "--loss", 2, "--name", "day", "--detach")
    assert answer("hub", "run", hub, *words) == {"name": "day", "every": None}
    [task] = answer("hub", "show", hub)["tasks"]
    asked = task["asked"]
    assert asked["question"] == {"loss": 2.0, "low": 0.0, "high": 10.0}
    assert asked["series"] == {
        "slots": 96, "interval": 900.0, "hides": "step:2", "delta": 1e-6, "begins": None, "at_once": False,
    }  # fmt: skip
    assert "no series called day" in run("hub", "show", hub, "--means", "day", code=2).output


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([*SERIES], "--keepers"),
        ([*SERIES[:4], *SERIES[6:], "--keepers", "north"], "--hides"),
        ([*SERIES[:2], *SERIES[4:], "--keepers", "north"], "--every"),
        ([*SERIES, "--keepers", "north", "--times", 2], "--times"),
        ([*SERIES, "--keepers", "north", "--rounds", 2], "rounds"),
        ([*SERIES, "--keepers", "north", "--begins", "2020-01-01T00:00:00Z"], "future"),
        ([*SERIES, "--keepers", "north", "--begins", "soon"], "--begins"),
        ([*SERIES, "--keepers", "north", "--hides", "all"], "step:2"),
        ([*SERIES, "--keepers", "north"], "no hub serves"),
        (["--loss", 1, "--range", "0:10", "--hides", "step:2"], "--series"),
    ],
)
def test_what_cannot_be_a_series_is_refused(run, answer, hub, words, why):
    assert why in run("hub", "run", hub, *words, code=2).output
    assert answer("hub", "show", hub)["tasks"] == []


SECRET = "7.654321"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--value-file", "open"], "mode 600"),
        (["--value-file", "two"], "one finite number"),
        (["--value-command", f"sh -c 'echo {SECRET} broken'"], "one finite number"),
        (["--value-command", "false"], "exit code 1"),
        (["--value-command", "'"], "--value-command"),
        (["--value-command", "true", "--value-file", "own"], "one place"),
    ],
)
def test_the_source_of_a_value_is_tried_before_the_invitation_is_used(run, hub, tmp_path, words, why):
    written(tmp_path / "line", run("invite", "alice", "--hub", hub).stdout)
    for name, text, mode in (("open", SECRET, 0o644), ("two", f"{SECRET} x", 0o600), ("own", SECRET, 0o600)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)
    said = run("enroll", "line", *words, code=2).output
    assert why in said
    assert SECRET not in said.replace(f"echo {SECRET}", "")
    assert not (tmp_path / "alice").exists()  # not even keys were made


def test_a_gateway_enrols_many_with_one_command(run, answer, hub, tmp_path, monkeypatch):
    """Run again, it enrols the rest."""
    from tacit.cli import enroll as verb
    from tacit.live.fleet import enrolment
    from tacit.live.fleet.policy import read_policy

    made = []

    def enrolled(invitation, keys, name):
        made.append((invitation.number, str(keys), name))
        return SimpleNamespace(name=name, key="key", expires=datetime.now(UTC))

    monkeypatch.setattr(enrolment, "enroll", enrolled)
    lines = (
        run("invite", "meter-*", "--count", 3, "--hub", hub).stdout
        + run("invite", "roof", "--hub", hub).stdout
    )
    written(tmp_path / "lines", lines)
    command = ("--value-command", "printf '%s' 4", "--range", "0:9", "--cap", 2)
    assert "--name" in run("enroll", "lines", "--name", "meter", *command, code=2).output
    told = run("enroll", "lines", "--name", "meter-*", *command).stdout.splitlines()
    assert told == [f"{name} is enrolled: {name}.toml" for name in ("meter-1", "meter-2", "meter-3", "roof")]
    assert [(keys, name) for _, keys, name in made][2:] == [("meter-3", "meter-3"), ("roof", None)]
    written(tmp_path / "more", run("invite", "door-*", "--count", 2, "--hub", hub).stdout)
    file = ("--value-file", "the-*.txt", "--range", "0:9", "--cap", 2)
    told = run("enroll", "more", "--name", "door-*", *file).stdout
    assert "the-door-2.txt does not exist yet" in told  # a wrong pattern shows before the agents run
    del made[4:]
    assert len({number for number, _, _ in made}) == 4
    assert asyncio.run(read_policy("meter-2.toml").source.read(Mean(0, 10))) == 4.0
    (tmp_path / "meter-2.toml").unlink()
    assert (
        run("enroll", "lines", "--name", "meter-*", *command).stdout == "meter-2 is enrolled: meter-2.toml\n"
    )
    assert verb._named("value_file", Path("in/*.txt"), "roof") == Path("in/roof.txt")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--hides", "step:2"], "together"),
        (["--hides", "all", "--delta", "1e-6"], "step:2"),
        (["--keeper", "--hides", "step:2", "--delta", "1e-6"], "keeper"),
        (["--longest", "ever"], "1d"),
        (["--keeper", "--cap", "1"], "--cap"),
        (["--trust", "north"], "north"),
        (["--trust", "north=key"], "north"),
        (["--range", "2:1"], "--range"),
        (["--cap", "-1"], "--cap"),
        (["--cap-per-day", "-1"], "--cap-per-day"),
    ],
)
def test_a_policy_that_could_not_be_read_is_not_written(run, hub, tmp_path, words, why):
    written(tmp_path / "line", run("invite", "alice", "--hub", hub).stdout)
    assert why in run("enroll", "line", *words, code=2).output
    assert not (tmp_path / "alice.toml").exists()
    assert not (tmp_path / "alice").exists()


def test_many_members_are_counted_and_some_are_listed(run, answer, hub):
    store, later = HubStore(Path(hub)), time.time() + 1e6
    seen = {f"meter-{i}": SeenMember("key", "agent", 1.0, later, "0.2.0") for i in range(5000)}
    seen["meter-7"] = SeenMember("key", "agent", 1.0, 2.0, "0.1.0")
    store.note(seen, {}, {}, ["meter-8"])
    told = run("hub", "show", hub).output
    assert len(told.splitlines()) < 20
    assert re.search(
        r"members\s+5,000\s+4,999\s+away,\s+1\s+expired", told
    )  # nobody is connected: no hub runs
    assert "0.1.0: 1" in told
    assert "meter-77" not in told
    assert "meter-77" in run("hub", "show", hub, "--member", "meter-7*").output
    assert [one["name"] for one in answer("hub", "show", hub, "--state", "expired")["members"]] == ["meter-7"]
    assert answer("hub", "show", hub, "--state", "connected")["members"] == []


@pytest.mark.parametrize(
    "store", ["postgresql://u:pw@h/d", "elsewhere", "postgresql://tacit@127.0.0.1:1/tacit"]
)
def test_a_database_that_cannot_be_used_leaves_no_half_of_a_hub(store, run, tmp_path):
    pytest.importorskip("psycopg")
    said = run("hub", "new", "hub", "--address", "wss://h:1", "--store", store, code=2).output
    assert "pw@" not in said
    assert list(tmp_path.iterdir()) == []
