"""A hub on several hosts for tests: processes, a database between proxies, and agents that compare notes."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

import msgspec
from tests.doubles.postgres import Server
from tests.doubles.processes import free_ports
from tests.doubles.proxy import ProxyProcess

from tacit.base.errors import InputError, StoreLost
from tacit.core.protocol.messages import Closing, Feedback, Message, Stop
from tacit.live.fleet.enrolment import enroll
from tacit.live.fleet.follower import FleetAgent
from tacit.live.fleet.hub_directory import move_hub, new_hub
from tacit.live.fleet.invitation import new_invitation, secret_digest
from tacit.live.fleet.policy import policy_text
from tacit.live.fleet.postgres import use
from tacit.live.fleet.store import HubStore

WAIT = 300
# Leases of a second or two, or a test would wait for them most of its time.
_SERVE = """
import tacit.live.fleet.lease as lease, tacit.live.fleet.postgres as postgres
lease.SECONDS, lease.RENEWED, postgres.PATIENCE = {lease}, {lease} / 8, {lease} / 2
{more}
from tacit.cli import main
main()
"""
_BY_FORCE = """
from functools import partial
lease.Lease.taken = partial(lease.Lease.taken, force=True)
"""


class Hosts:
    """Hosts of one hub in one folder, each a process with a directory of its own."""

    def __init__(self, folder: Path, names=("a", "b", "c"), lease: float = 2.0) -> None:
        self.folder, self.names, self.lease = folder, names, lease
        (port,) = free_ports(1)
        self.server = Server(f"listen_addresses = '127.0.0.1'\nport = {port}")
        self.proxies = {name: ProxyProcess(port) for name in names}
        ports = dict(zip(names, free_ports(len(names)), strict=True))
        self.addresses = {name: f"wss://localhost:{ports[name]}" for name in names}
        first, *others = names
        listen = {name: f"wss://127.0.0.1:{ports[name]}" for name in names}
        self.fingerprint = new_hub(folder / first, self.addresses[first], listen=listen[first])
        use(folder / first, self._database(first))
        for name in others:
            shutil.copytree(folder / first, folder / name)
            use(folder / name, self._database(name))
            move_hub(folder / name, self.addresses[name], listen=listen[name])
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.keys: dict[str, str] = {}
        self.agents: list[FleetAgent] = []
        self.told: list[str] = []
        self.heard = defaultdict(set)
        """What agents heard from the hub, by session, kind and round: the digests of all different bytes."""

    def _database(self, name: str) -> str:
        return f"postgresql://tacit@127.0.0.1:{self.proxies[name].port}/postgres"

    def store(self) -> HubStore:
        """Open the store past all proxies; the database may be away."""
        until = time.monotonic() + WAIT
        while True:
            try:
                return _at(self.folder / self.names[0], self.server.address_by_port())
            except StoreLost:
                assert time.monotonic() < until
                time.sleep(0.1)

    # ---- processes ------------------------------------------------------------------------------------

    def start(self, *names: str, force: bool = False) -> None:
        code = _SERVE.format(lease=self.lease, more=_BY_FORCE if force else "")
        for name in names or self.names:
            words = [sys.executable, "-c", code, "hub", "serve", name, "--log", f"{name}.jsonl"]
            with (self.folder / f"{name}.out").open("ab") as out:
                self.running[name] = subprocess.Popen(words, cwd=self.folder, stdout=out, stderr=out)

    def send(self, name: str, sign: int) -> None:
        os.kill(self.running[name].pid, sign)

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.kill()
        process.wait()

    def stop(self) -> None:
        for process in self.running.values():
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
        for proxy in self.proxies.values():
            proxy.close()
        self.server.drop()

    def leader(self) -> str | None:
        """Return which host leads, as the database says."""
        store = self.store()
        try:
            row = store.database.all("SELECT holder, until > clock_timestamp() AS led FROM lease")[0]
        finally:
            store.close()
        by = {address: name for name, address in self.addresses.items()}
        return by[row["holder"]] if row["led"] else None

    async def led(self, *but: str) -> str:
        """Wait until a host leads that is none of these."""
        found = None
        async with asyncio.timeout(WAIT):
            while found is None or found in but:
                found = await asyncio.to_thread(self.leader)
                await asyncio.sleep(0.05)
        return found

    # ---- agents ---------------------------------------------------------------------------------------

    async def enrol(self, count: int) -> None:
        """Enrol agents at the hub, some at a time, and write their policies."""
        store, names = self.store(), [f"agent-{i}" for i in range(count)]
        made = {}
        for name in names:
            one = made[name] = new_invitation(
                " ".join(self.addresses.values()), self.fingerprint, name, int(time.time() + 3600)
            )
            store.invite(one.number, secret_digest(one.secret), name, one.expires, 30.0)
        store.close()
        turn = asyncio.Semaphore(8)

        async def enrol(name):
            async with turn:
                async with asyncio.timeout(WAIT):
                    while True:  # who leads may not listen yet
                        with suppress(InputError):
                            await asyncio.to_thread(enroll, made[name], self.folder / name)
                            break
                        await asyncio.sleep(0.1)
            (self.folder / f"{name}.value").write_text("5.0")
            (self.folder / f"{name}.value").chmod(0o600)
            (self.folder / f"{name}.toml").write_text(
                policy_text(
                    hub=list(self.addresses.values()),
                    authority=self.fingerprint,
                    keys=name,
                    ledger=f"{name}.ledger",
                    value={"low": 0.0, "high": 10.0, "file": f"{name}.value"},
                    limits={"cap": 1000.0},
                )
            )

        await asyncio.gather(*map(enrol, names))

    async def follow(self, count: int) -> None:
        """Let agents follow the hub, and note what they hear."""
        turn = asyncio.Semaphore(16)

        async def follow(i):
            async with turn:
                agent = FleetAgent(self.folder / f"agent-{i}.toml", tell=self._tell)
                self._listen(agent.connection)
                self.agents.append(await agent.__aenter__())

        await asyncio.gather(*map(follow, range(count)))

    async def leave(self) -> None:
        for agent in self.agents:
            await agent.__aexit__(None, None, None)

    def _tell(self, notice, _count=0) -> None:
        if (said := notice.facts()["event"]) in ("failed", "disputed"):
            self.told.append(f"{said}: {notice.sentence(None)}")

    def _listen(self, connection) -> None:
        heard = connection.heard

        def noting(link, data):
            if data[:1] == b"\1" and (channel := connection._channels.get(data[1:33])) is not None:
                self.note(channel.session, data[33:])
            heard(link, data)

        connection.heard = noting

    def note(self, session, frame) -> None:
        found = _codec(session).open(frame)
        if isinstance(found, Message) and isinstance(found.body, Feedback | Closing | Stop):
            where = "end" if isinstance(found.body, Stop) else found.body.round
            self.heard[session.name, type(found.body).__name__, where].add(found.digest)

    # ---- sessions -------------------------------------------------------------------------------------

    def ask(self, name: str, order, every: float | None = None, times: int | None = None) -> None:
        store = self.store()
        store.add_task(name, msgspec.to_builtins(order), every, times)
        store.close()

    def sessions(self, task: str) -> list[tuple[str, dict]]:
        store = self.store()
        rows = store.sessions(task)
        store.close()
        return [(row["state"], json.loads(row["result"] or "{}")) for row in rows]

    async def until(self, ready) -> None:
        async with asyncio.timeout(WAIT):
            while not await asyncio.to_thread(ready):
                await asyncio.sleep(0.05)

    async def over(self, task: str, count: int = 1) -> list[tuple[str, dict]]:
        await self.until(lambda: sum(state != "running" for state, _ in self.sessions(task)) >= count)
        return self.sessions(task)

    async def heard_rounds(self, session: str, count: int) -> None:
        """Wait until agents have heard the feedback of so many rounds of a session."""
        async with asyncio.timeout(WAIT):
            while self.count(session) < count:
                await asyncio.sleep(0.005)

    def count(self, session: str) -> int:
        """Return of how many rounds of a session agents have heard the feedback."""
        return sum(key[:2] == (session, "Feedback") for key in self.heard)

    def require_one_voice(self) -> None:
        """Require that no two different feedbacks, closings or ends of one round ever left."""
        assert self.heard
        assert {key for key, digests in self.heard.items() if len(digests) > 1} == set()

    def spent(self) -> set[float]:
        return {agent.ledger.spent("value") for agent in self.agents}


_CODECS = {}


def _codec(session):
    from tacit.core.protocol.codec import Codec

    if session.id not in _CODECS:
        _CODECS[session.id] = Codec(session)
    return _CODECS[session.id]


def _at(home: Path, address: str) -> HubStore:
    """Open the store of a hub at another address than its directory has."""
    from tacit.live.fleet import store

    real, store.address_of = store.address_of, lambda _: address
    try:
        return HubStore(home)
    finally:
        store.address_of = real
