"""What `/readyz` says: an agent or a hub that cannot do its work says why."""

import asyncio
import errno
import os
import time

import msgspec
import pytest
from tests.runtime.fleets import ONE_SHOT, following
from tests.runtime.test_fleet import fleet_of, quick_designs  # noqa: F401 - a fixture

from tacit.errors import DiskFull
from tacit.files import require_room
from tacit.runtime.fleet import follower
from tacit.runtime.fleet import hub as hub_module
from tacit.runtime.fleet.fleet_status import AgentPages, HubPages
from tacit.runtime.fleet.orders import SessionOrder
from tacit.runtime.fleet.readiness import Readiness

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


def test_an_agent_whose_clock_is_ahead_is_not_ready_after_two_refusals(tmp_path):
    class Ahead(follower.SystemClock):
        def wall(self):
            return super().wall() + 7200.0

    async def main():
        fleet = await fleet_of(tmp_path, "alice", "bob")
        async with (
            fleet.serving(),
            following(fleet, "bob"),
            following(fleet, "alice", clock=Ahead()) as alice,
        ):
            pages = AgentPages(alice)
            await fleet.run("one", start_deadline=0.1)
            assert pages.not_ready() is None or "clock" in pages.not_ready()
            await fleet.run("two", start_deadline=0.1)
            assert alice.tally.refused["expired"] == 2
            assert "expired" in pages.not_ready() or "clock" in pages.not_ready()

    asyncio.run(main())


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
            await fleet.until(lambda: not connected(hub))

    asyncio.run(main())
