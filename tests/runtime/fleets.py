"""A hub and its members in one event loop, over real TLS, for tests."""

import asyncio
import json
import socket
import time
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import msgspec

from tacit.base.errors import DiskFull
from tacit.live.fleet.enrolment import enroll
from tacit.live.fleet.follower import FleetAgent
from tacit.live.fleet.hub import Hub
from tacit.live.fleet.hub_directory import AUTHORITY, new_hub
from tacit.live.fleet.invitation import new_invitation, secret_digest
from tacit.live.fleet.orders import SessionOrder
from tacit.live.fleet.policy import policy_text
from tacit.live.fleet.store import HubStore
from tacit.live.identity.identity import load_authority

WAIT = 300
ONE_SHOT = {"loss": 1.0, "low": 0.0, "high": 10.0, "law": "one-shot", "rounds": 2, "mixing": 0.99}


class Told(list):
    """All that was told, as (event, text, facts)."""

    def __call__(self, notice, _count=0):
        facts = notice.facts()
        self.append((facts.pop("event"), notice.sentence(), facts))

    def events(self, *names):
        return [one for one in self if one[0] in names]


def finished(member):
    """Return how many sessions a follower has finished."""
    return member.tell.counted("agent_sessions", "finished")


def refusals(hub):
    """Return how often agents refused a session of a hub, by reason."""
    return hub.tell.counts.get("hub_refusals", {})


class HandClock:
    """Time that a test moves; whoever sleeps wakes when it has passed."""

    def __init__(self, now):
        self.time, self._sleeping = now, []

    def now(self):
        return self.time

    def wall(self):
        return self.time

    async def sleep(self, seconds):
        waking = asyncio.get_running_loop().create_future()
        self._sleeping.append((self.time + seconds, waking))
        self.move_to(self.time)
        await waking

    def move_to(self, when):
        """Move forward; do nothing if that is past."""
        self.time = max(self.time, when)
        for due, waking in self._sleeping:
            if due <= self.time and not waking.done():
                waking.set_result(None)
        self._sleeping = [one for one in self._sleeping if not one[1].done()]

    @asynccontextmanager
    async def creeping(self):
        """Let time pass slowly while the block lasts: much less than a slot of a series."""

        async def creep():
            while True:
                await asyncio.sleep(0.002)
                self.move_to(self.time + 0.02)

        creeping = asyncio.ensure_future(creep())
        try:
            yield
        finally:
            creeping.cancel()


def ordered(question, **order):
    """An order, with options of its sessions among its fields."""
    options = {
        name: order.pop(name) for name in ("round_deadline", "start_deadline", "repeat") if name in order
    }
    return SessionOrder(question, settings=options, **order)


class Fleet:
    """A hub's directory with members beside it; what runs and what was told."""

    def __init__(self, folder, clock=None, transcripts=None):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.folder, self.home, self.address = folder, folder / "hub", f"wss://localhost:{port}"
        self.addresses = [self.address]
        """Where members try to reach the hub."""
        self.fingerprint = new_hub(folder / "hub", self.address, listen=f"wss://127.0.0.1:{port}")
        self.told, self.keys, self.hub = Told(), {}, None
        self.clock, self.transcripts = clock, transcripts

    def invite(self, pattern, *, expires=None, days=30.0, **changes):
        made = new_invitation(
            " ".join(self.addresses), self.fingerprint, pattern, expires or int(time.time() + 600)
        )
        store = HubStore(self.folder / "hub")
        store.invite(made.number, secret_digest(made.secret), made.pattern, made.expires, days)
        store.close()
        return msgspec.structs.replace(made, **changes)

    @asynccontextmanager
    async def serving(self):
        """Run the hub while the block lasts."""
        self.hub = Hub(self.home, tell=self.told, clock=self.clock, transcripts=self.transcripts)
        running = self._running = asyncio.ensure_future(self.hub.run())
        await self.until(lambda: self.told.events("listening") or running.done())
        try:
            yield self.hub
        finally:
            self.told[:] = [one for one in self.told if one[0] != "listening"]
            running.cancel()
            with suppress(asyncio.CancelledError, DiskFull):
                await running

    async def ended(self):
        """Wait until the hub ends, and raise its error."""
        async with asyncio.timeout(WAIT):
            await asyncio.shield(self._running)

    async def enrol(self, name, **invited):
        made = await asyncio.to_thread(enroll, self.invite(name, **invited), self.folder / name)
        self.keys[name] = made.key
        return made

    def policy(self, name, value=5.0, *, role="agent", trust=(), value_table=None, **limits):
        """Write a member's policy and return its path."""
        more = {"limits": limits} if limits else {}
        if role == "agent":
            file = self.folder / f"{name}.value"
            file.write_text(repr(value))
            file.chmod(0o600)
            source = {"file": file.name} if value_table is None else value_table
            more = {
                "value": {"low": 0.0, "high": 10.0, **source},
                "limits": {"cap": 100.0, **limits},
                "trust": {one: self.keys[one] for one in trust},
            }
        path = self.folder / f"{name}.toml"
        path.write_text(
            policy_text(
                hub=self.addresses,
                authority=self.fingerprint,
                keys=name,
                ledger=f"{name}.ledger",
                role=role,
                **more,
            )
        )
        return path

    def follow(self, name, **given):
        return FleetAgent(self.folder / f"{name}.toml", tell=self.told, **{"clock": self.clock, **given})

    async def run(self, name="run", *, every=None, times=None, question=ONE_SHOT, **order):
        """Ask for sessions, and return them when all are over."""
        asked = ordered(question, **order)
        self.hub.store.add_task(name, msgspec.to_builtins(asked), every, times)
        return await self.over(name, times or 1)

    async def over(self, name, count=1):
        def found():
            rows = self.hub.store.sessions(name)
            over = [row for row in rows if row["state"] != "running"]
            failed = self.hub.store.task(name)["state"] == "failed"
            return (over,) if len(over) >= count or failed else None

        await self.until(found)
        return [(row["state"], json.loads(row["result"])) for row in found()[0]]

    async def until(self, ready):
        async with asyncio.timeout(WAIT):
            while not ready():
                await asyncio.sleep(0.01)

    def authority(self):
        return load_authority(self.folder / "hub" / AUTHORITY)


@asynccontextmanager
async def following(fleet, *names, **given):
    """Let members follow the hub while the block lasts."""
    async with AsyncExitStack() as stack:
        made = [await stack.enter_async_context(fleet.follow(name, **given)) for name in names]
        await fleet.until(
            lambda: set(names) <= {m.name for m in fleet.hub.gateway.members.values() if m.role}
        )
        yield made if len(made) > 1 else made[0]
