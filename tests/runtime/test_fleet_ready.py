"""What `/readyz` says: an agent or a hub that cannot do its work says why."""

import asyncio
import errno
import json
import os
import re
import signal
import time
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from urllib.parse import urlsplit

import msgspec
import pytest
from tests.runtime.fleets import ONE_SHOT, Fleet, following
from tests.runtime.test_fleet import fleet_of, quick_designs  # noqa: F401 - a fixture

import tacit
from tacit.base.errors import DiskFull, InputError, NotCurrent
from tacit.base.files import require_room
from tacit.cli import agent as agent_verb
from tacit.cli import running
from tacit.cli.log_file import LogFile
from tacit.cli.notice_log import NoticeLog
from tacit.cli.status_place import StatusPlace
from tacit.live.fleet import fleet_status, follower
from tacit.live.fleet import hub as hub_module
from tacit.live.fleet.fleet_status import AgentPages, HubPages, LatePages, wait_and_run
from tacit.live.fleet.hub_directory import AUTHORITY, KEYS, new_hub
from tacit.live.fleet.hub_notices import Drained, Listening
from tacit.live.fleet.hub_report import HubOverview
from tacit.live.fleet.orders import SessionOrder
from tacit.live.fleet.policy import read_policy
from tacit.live.fleet.readiness import Readiness
from tacit.live.identity.certificates import Certificate
from tacit.live.identity.identity import Identity
from tacit.live.identity.register import opened
from tacit.live.runtime.clock import SystemClock
from tacit.live.status.document import StatusDocument

SECRET = "7.654321"


@pytest.mark.parametrize("wrong", ["missing", "open to others", "no number"])
def test_an_agent_whose_value_cannot_be_read_is_not_ready(tmp_path, monkeypatch, wrong):
    """It says so from its start, without the value, and is ready again when the file is right."""
    monkeypatch.setattr(follower, "_LOOK", 0.01)

    async def main():
        fleet = await fleet_of(tmp_path, "alice")
        file = tmp_path / "alice.value"
        file.write_text(SECRET if wrong != "no number" else f"{SECRET} x")
        file.chmod(0o644 if wrong == "open to others" else 0o600)
        if wrong == "missing":
            file.unlink()
        async with fleet.serving(), following(fleet, "alice") as alice:
            pages = AgentPages(alice)
            await fleet.until(lambda: pages.not_ready() is not None)
            assert ("alice.value" if wrong != "no number" else "one finite number") in pages.not_ready()
            assert SECRET not in pages.not_ready()
            assert "tacit_agent_ready 0.0" in pages.metrics().decode()
            assert len(fleet.told.events("trouble")) == 1
            file.write_text(SECRET)
            file.chmod(0o600)
            await fleet.until(lambda: pages.not_ready() is None)
            assert "tacit_agent_ready 1.0" in pages.metrics().decode()
            assert SECRET not in repr(fleet.told)

    asyncio.run(main())


class Wrong(SystemClock):
    """A clock that is some seconds ahead."""

    def __init__(self, ahead):
        self._ahead = ahead

    def wall(self):
        return super().wall() + self._ahead


@pytest.mark.parametrize(("ahead", "said"), [(7200.0, "2 h ahead of"), (-3600.0, "1 h behind")])
def test_clocks_are_compared_when_connecting(tmp_path, ahead, said):
    async def main():
        fleet = await fleet_of(tmp_path, "alice", "bob")
        sentence = f"this machine's clock is {said} the hub's"
        async with fleet.serving(), following(fleet, "alice", clock=Wrong(ahead)) as alice:
            pages = AgentPages(alice)
            assert pages.not_ready() == sentence
            assert any(sentence in text for _, text, _ in fleet.told.events("trouble"))
            [shown] = re.findall(r"^tacit_agent_clock_ahead_seconds (.*)$", pages.metrics().decode(), re.M)
            assert abs(float(shown) - ahead) < 60.0
            async with following(fleet, "bob") as bob:
                assert AgentPages(bob).not_ready() is None
                if ahead > 0:
                    await fleet.run("one", start_deadline=0.1)
                    await fleet.until(lambda: alice.tell.counted("agent_refusals", "expired"))
                    [text] = [t for e, t, f in fleet.told if e == "refused" and "one is not joined" in t]
                    assert "expired" in text
                    assert sentence in text

    asyncio.run(main())


def test_the_hubs_clock_decides_nothing(tmp_path, monkeypatch):
    """A hub that lies about the time causes a sentence, and no session more or less."""
    monkeypatch.setattr("email.utils.formatdate", lambda *_, **__: "Sat, 01 Jan 2000 00:00:00 GMT")

    async def main():
        fleet = await fleet_of(tmp_path, "alice", "bob")
        async with fleet.serving(), following(fleet, "alice", "bob") as (alice, _):
            assert "d ahead of" in AgentPages(alice).not_ready()
            [(state, _)] = await fleet.run()
            assert state == "finished"

    asyncio.run(main())


def test_a_hub_whose_certificate_expired_while_it_was_stopped_renews_it(tmp_path, monkeypatch):
    with monkeypatch.context() as late:
        late.setattr(Certificate, "require_current", lambda *_: None)
        late.setitem(new_hub.__kwdefaults__, "days", 1e-9)
        fleet = Fleet(tmp_path)
    assert Identity.load(fleet.home / KEYS).certificate.expires < datetime.now(UTC)

    async def main():
        async with fleet.serving():
            await fleet.enrol("alice")

    asyncio.run(main())


def test_a_hub_ends_when_its_ledger_cannot_be_written(tmp_path, monkeypatch):
    """It stayed \"ready\" with a ledger that takes nothing, and its sessions stayed \"running\"."""

    async def full(*_):
        raise DiskFull("the disk is full")

    async def main():
        fleet = await fleet_of(tmp_path, "alice", "bob")
        async with fleet.serving() as hub, following(fleet, "alice", "bob"):
            monkeypatch.setattr(hub, "_coordinate", full)
            asked = SessionOrder(ONE_SHOT)
            hub.store.add_task("run", msgspec.to_builtins(asked), None, None)
            with pytest.raises(DiskFull):
                await fleet.ended()

    asyncio.run(main())


def test_a_service_waits_for_a_disk_and_for_a_certificate(tmp_path, monkeypatch):
    errors = [NotCurrent("too early"), DiskFull("full"), DiskFull("full"), None, InputError("wrong")]
    room = iter([True, False, True, True, True])
    told = []

    def require(_):
        if not next(room):
            raise DiskFull("full")

    async def run():
        if (error := errors.pop(0)) is not None:
            raise error
        told.append("ran")

    monkeypatch.setattr(fleet_status, "require_room", require)

    async def main():
        await wait_and_run(run, told.append, tmp_path, seconds=0.0)
        assert told == ["too early", "full", "full", "ran"]
        with pytest.raises(InputError, match="wrong"):
            await wait_and_run(run, told.append, tmp_path, seconds=0.0)

    asyncio.run(main())


def test_an_agent_with_an_expired_certificate_waits_and_is_not_ready(tmp_path, monkeypatch):
    """The process ended with exit code 2, after which a supervisor does not start it again."""
    expired = [True]

    def require_current(_):
        if expired:
            raise NotCurrent("the certificate of alice expired.")

    async def page(told, path):
        [url] = [text.split()[2] for event, text, _ in told if event == "status"]
        where = urlsplit(url)
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        return answer.decode()

    async def main():
        fleet = await fleet_of(tmp_path, "alice")
        policy, told = read_policy(tmp_path / "alice.toml"), fleet.told
        told.trouble = lambda: None
        monkeypatch.setattr(Identity, "require_current", require_current)
        monkeypatch.setitem(wait_and_run.__kwdefaults__, "seconds", 0.01)
        place = StatusPlace.taken({"status": ("127.0.0.1", 0, False), "status_tls": None})
        following = asyncio.ensure_future(
            agent_verb._follow(policy, told, place, False, read=lambda: policy, again=asyncio.Event())
        )
        await fleet.until(lambda: told.events("waiting"))
        answer = await page(told, "/readyz")
        assert answer.startswith("HTTP/1.1 503")
        assert "the certificate of alice expired." in answer
        shown = json.loads((await page(told, "/status")).partition("\r\n\r\n")[2])
        assert (shown["kind"], shown["state"], shown["ready"]) == ("follower", "waiting", False)
        assert "tacit_agent_ready 0.0" in await page(told, "/metrics")
        expired.clear()
        async with fleet.serving() as hub:
            await fleet.until(lambda: "alice" in hub.gateway.members)
            following.cancel()
            await asyncio.wait([following])
        assert len(told.events("waiting")) == 1

    asyncio.run(main())


def test_a_policy_is_read_again_and_a_wrong_one_is_not_used(tmp_path):
    async def main():
        fleet = await fleet_of(tmp_path, "alice", "bob")
        path, told, again = tmp_path / "alice.toml", fleet.told, asyncio.Event()
        told.trouble = lambda: None
        good, place = path.read_text(), StatusPlace()
        read = partial(read_policy, path)
        verb = agent_verb._follow(read(), told, place, False, read=read, again=again)
        async with fleet.serving(), following(fleet, "bob"):
            task = asyncio.ensure_future(verb)
            await fleet.until(lambda: len(told.events("following")) == 1)
            [(state, _)] = await fleet.run("one")
            assert state == "finished"
            for text in ("format = 2", good.replace("cap = 100.0", "cap = 200.0")):  # the ledger says 100
                path.write_text(text)
                told.clear()
                again.set()
                await fleet.until(lambda: [t for _, t, _ in told if "stays as it was" in t])
            await fleet.until(lambda: told.events("following"))  # as before
            path.write_text(good.replace("cap = 100.0", "cap = 1.5"))
            told.clear()
            again.set()
            await fleet.until(lambda: told.events("following") and told.events("connected"))
            await fleet.run("two", start_deadline=0.1)
            await fleet.until(lambda: [t for _, t, _ in told if "two is not joined" in t and "1.5" in t])
            task.cancel()
            await asyncio.wait([task])

    asyncio.run(main())


def test_sighup_opens_the_log_anew(tmp_path):
    path = tmp_path / "hub.jsonl"
    with NoticeLog(path, {"member": "hub"}) as told:
        told(Listening("before"))

        async def main():
            path.rename(tmp_path / "old.jsonl")
            os.kill(os.getpid(), signal.SIGHUP)
            while not path.exists():  # the loop calls the handler
                await asyncio.sleep(0.001)
            told(Drained())

        running.run(main, told.reopen)
    assert "second" not in (tmp_path / "old.jsonl").read_text()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["event"] for line in lines] == ["log", "drained"]


def test_a_log_that_loses_lines_makes_a_hub_not_ready(tmp_path, monkeypatch):
    fine = {"kind": "hub", "name": "hub", "role": "hub", "state": "serving", "ready": True}
    with NoticeLog(tmp_path / "log", {}) as told:
        pages = LatePages("hub", "hub", "hub", "", told.trouble)
        assert pages.not_ready() == "it is starting"
        pages.pages = SimpleNamespace(document=lambda: StatusDocument(**fine))
        assert pages.not_ready() is None
        monkeypatch.setattr(LogFile, "_append", lambda *_: os.write(-1, b""))
        told(Drained())
        assert "1 lines are lost" in pages.not_ready()


def test_reasons_of_others_and_of_the_owner_do_not_count():
    found = Readiness()
    for why in ("range", "roster", "cap", "pause"):
        for _ in range(5):
            found.refused(why, "a sentence")
    assert found.why_not is None
    found.refused("ledger", "first")
    assert found.why_not is None
    found.refused("ledger", "second")
    assert found.why_not == "second"
    found.worked()
    assert found.why_not is None


def test_a_hub_that_cannot_write_is_not_ready_and_begins_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(hub_module, "_TEST_DISK", 0.01)
    full = []

    def room(folder):
        if full:
            raise DiskFull(f"nothing can be written into {folder}: No space left on device.")

    monkeypatch.setattr(hub_module, "require_room", room)

    async def main():
        fleet = await fleet_of(tmp_path, "alice", "bob")
        async with fleet.serving() as hub, following(fleet, "alice", "bob"):
            pages = HubPages(hub)
            assert pages.not_ready() is None
            full.append(True)
            await fleet.until(lambda: pages.not_ready() is not None)
            assert "No space left" in pages.not_ready()
            assert "tacit_hub_ready 0.0" in pages.metrics().decode()
            asked = asyncio.ensure_future(fleet.run())
            await asyncio.sleep(5 * hub_module._LOOK)
            assert not hub.running()
            full.clear()
            [(state, _)] = await asked
            assert state == "finished"
            assert pages.not_ready() is None

    asyncio.run(main())


def test_a_disk_without_room_is_told_by_writing(tmp_path, monkeypatch):
    require_room(tmp_path)
    assert not list(tmp_path.iterdir())

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskFull, match="No space left"):
        require_room(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_useless_session_is_refused_before_it_is_offered(tmp_path, monkeypatch):
    """Half the range or more: nobody is asked, and nothing is spent, unless the order says anyway."""
    monkeypatch.setattr(hub_module, "radius_for", lambda _, count: 12.0 / count)

    async def main():
        fleet = await fleet_of(tmp_path, "alice", "bob", "carol")
        async with fleet.serving() as hub, following(fleet, "alice", "bob") as agents:
            assert await fleet.run("one") == []
            task = hub.store.task("one")
            assert task["state"] == "failed"
            assert "half the range of 10" in task["note"]
            assert "--anyway" in task["note"]
            hub.store.add_task("often", msgspec.to_builtins(SessionOrder(ONE_SHOT)), 0.2, None)
            await fleet.until(lambda: "half the range" in (hub.store.task("often")["note"] or ""))
            assert not hub.store.sessions()
            assert all(agent.ledger.spent("value") == 0.0 for agent in agents)
            async with following(fleet, "carol"):
                await fleet.over("often")
                hub.store.set_task("often", state="stopped")
            await fleet.until(lambda: not hub.running() and len(hub.gateway.members) == 2)
            [(state, _)] = await fleet.run("three", anyway=True)
            assert state == "finished"

    asyncio.run(main())


def test_the_store_knows_who_is_connected(tmp_path):
    def connected(hub):
        return {row["name"] for row in hub.store.members() if row["connected"]}

    async def main():
        fleet = await fleet_of(tmp_path, "alice", "bob")
        async with fleet.serving() as hub:
            async with following(fleet, "alice", "bob"):
                await fleet.until(lambda: connected(hub) == {"alice", "bob"})
                assert all(row["expires"] > time.time() for row in hub.store.members())
                assert {row["version"] for row in hub.store.members()} == {tacit.__version__}
                assert [state for state, _ in await fleet.run()] == ["finished"]
                found = HubPages(hub).document().numbers
                assert (found.participation, found.queue, found.known) == (1.0, 0, 2)
                assert found.seconds > 0.0
                await fleet.until(lambda: hub.bytes > 0)
            await fleet.until(lambda: not connected(hub))
            shown = HubOverview.read(fleet.home, hub.store, 10)
            assert {one["state"] for one in shown.members} == {"away"}
            with opened(fleet.home / AUTHORITY, fleet.authority()) as register:
                register.revoke("bob")
                register.save()
            found = HubOverview.read(fleet.home, hub.store, 10).only("*", "revoked")
            assert [one["name"] for one in found.members] == ["bob"]

    asyncio.run(main())
