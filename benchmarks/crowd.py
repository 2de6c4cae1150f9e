"""What a hub's session costs by the number of agents: bytes, processor time, memory, and who took part.

Run from the repository: ``python -m benchmarks.crowd [--agents 10,100,1000] [--json FILE]``

A hub runs as a process of its own. The agents share a few processes: each has its own keys, connection over
mutual TLS, session and machine, and sends the marks of a ledger, but keeps its records in memory. So this
measures the hub and the wire; a ledger for each agent would measure their disk. Bytes are those that pass the
agents' sockets, both ways, with TLS and WebSocket. A session of one round and one of several give the bytes
of a round by their difference.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import hashlib
import itertools
import json
import math
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast, final

from rich.console import Console
from rich.table import Table

from tacit.core.protocol.agent import AgentMachine
from tacit.core.protocol.effects import Heard, Joined, Left, NoiseReady, Start, Step, Tick
from tacit.core.protocol.private_state import Budget
from tacit.live.fleet import hub_connection
from tacit.live.fleet.channel import SessionChannel
from tacit.live.fleet.hub_connection import HubConnection
from tacit.live.fleet.hub_directory import AUTHORITY, new_hub
from tacit.live.fleet.messages import AGENT, AnyMessage, OfferReply, SessionOffer, offered_session
from tacit.live.fleet.store import HubStore
from tacit.live.identity.certificates import Request
from tacit.live.identity.identity import Identity, bundle, install, load_authority, new_agent
from tacit.live.ledger.rollback_guard import Position
from tacit.live.runtime.limits import raise_files
from tacit.live.transport.base import Presence
from tacit.live.transport.tls import Channel

ROOT = Path(__file__).resolve().parent.parent
TACIT = str(Path(sys.executable).with_name("tacit"))
SIZES = (10, 100, 1000)
ROUNDS = 11
PER_PROCESS = 2500
_TICK, _CLOCK = 0.25, os.sysconf("SC_CLK_TCK")
SESSION_GOAL, PATH_GOAL, ROUND_GOAL = 2048, 32, 600
"""Bytes per agent and session, further ones for each doubling of the agents, and per agent and round."""


# ---- the agents' side -------------------------------------------------------------------------------


class _Counted(Channel):  # type: ignore[misc]
    """A TLS connection that counts what passes the socket, for all agents of the process."""

    passed = 0

    def receive(self, data: bytes) -> bytes:
        _Counted.passed += len(data)
        return super().receive(data)

    def to_send(self) -> bytes:
        data = super().to_send()
        _Counted.passed += len(data)
        return data


@final
class LightAgent:
    """An agent of a hub that keeps its records in memory."""

    def __init__(self, identity: Identity, endpoint: str) -> None:
        self._identity, self._count = identity, 0
        self._generation = hashlib.sha256(identity.public_key).digest()[:16]
        self._machines: dict[bytes, tuple[AgentMachine, SessionChannel]] = {}
        self.connection = HubConnection(
            [endpoint], identity, AGENT, said=self._hear, position=self._position, here=self._here
        )
        self.here, self.lost = False, 0

    def _here(self, here: bool) -> None:
        if self.here and not here:
            self.lost += 1
        self.here = here

    def _position(self) -> Position:
        return Position(self._generation, self._count, bytes(32), inode=0, born=True)

    def _hear(self, message: AnyMessage) -> None:
        if not isinstance(message, SessionOffer):
            return
        session = offered_session(message, self.connection.hub_key)
        if session.id in self._machines:
            return
        number = session.member_number(self._identity.name, self._identity.public_key)
        assert number is not None
        machine = AgentMachine(session, number, 0.5, sign=self._identity.sign, budget=Budget(math.inf))
        channel = SessionChannel(session, number, self.connection)
        self._machines[session.id] = machine, channel
        self._carry_out(session.id, machine.handle(Start()))
        self.connection.send(OfferReply(session.id, True))
        asyncio.ensure_future(channel.open(lambda: self._arrived(session.id)))  # noqa: RUF006

    def _arrived(self, session: bytes) -> None:
        machine, channel = self._machines[session]
        for one in channel.take():
            if isinstance(one, Presence):
                event: Any = Joined(one.who) if one.here else Left(one.who)
            else:
                event = Heard(one.data, one.hint)
            self._carry_out(session, machine.handle(event))

    def _carry_out(self, session: bytes, step: Step) -> None:
        machine, channel = self._machines[session]
        self._count += len(step.records)
        for message in step.messages:
            channel.send(message.to, message.frame)
        while (u := machine.wants_noise) is not None:  # what is drawn is measured elsewhere
            self._carry_out(session, machine.handle(NoiseReady(u, 1)))

    def tick(self, now: float) -> None:
        """Let machines repeat what was not answered."""
        for session, (machine, _) in tuple(self._machines.items()):
            if machine.wake is not None and machine.wake <= now:
                self._carry_out(session, machine.handle(Tick(now)))


async def _members(folder: Path, endpoint: str, first: int, stop: int) -> None:
    """Connect some agents, and say what they have done whenever asked."""
    raise_files()
    vars(hub_connection)["Channel"] = _Counted
    agents = [LightAgent(Identity.load(folder / f"a{i}"), endpoint) for i in range(first, stop)]
    gc.freeze()
    gate = asyncio.Semaphore(64)

    async def enter(agent: LightAgent) -> None:
        async with gate:
            running.append(asyncio.ensure_future(agent.connection.run()))
            while not agent.here:
                await asyncio.sleep(0.02)

    async def tick() -> None:
        while True:
            await asyncio.sleep(_TICK)
            for agent in agents:
                agent.tick(time.monotonic())

    running: list[asyncio.Future[None]] = [asyncio.ensure_future(tick())]
    await asyncio.gather(*map(enter, agents))
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while True:
        lost = sum(agent.lost for agent in agents)
        print(json.dumps({"bytes": _Counted.passed, "lost": lost}), flush=True)
        if not await lines.readline():
            return


# ---- the hub's side, and what is measured -------------------------------------------------------------


def make_members(home: Path, folder: Path, count: int) -> None:
    """Make keys and certificates of all agents, without an invitation for each."""
    authority = load_authority(home / AUTHORITY)
    for i in range(count):
        path = new_agent(f"a{i}", folder / f"a{i}", durable=False)
        signed = authority.sign(Request.parse(path.read_bytes(), str(path)), 7)
        install(bundle(signed, authority), folder / f"a{i}", durable=False)


@final
class Crowd:
    """A hub and processes of agents, until the block ends."""

    def __init__(self, folder: Path, agents: int) -> None:
        self.home, self.agents = folder / "hub", agents
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        address = f"wss://localhost:{port}"
        new_hub(self.home, address, listen=f"wss://127.0.0.1:{port}")
        (folder / "members").mkdir()
        make_members(self.home, folder / "members", agents)
        out = (folder / "hub.out").open("wb")
        self._hub = subprocess.Popen([TACIT, "hub", "serve", str(self.home)], stdout=out, stderr=out)
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
                break
            time.sleep(0.05)
        self._idle, began = self.processor(), time.monotonic()
        command = [sys.executable, "-m", "benchmarks.crowd", "--members", str(folder / "members"), address]
        parts = max(1, -(-agents // PER_PROCESS))
        bounds = [agents * k // parts for k in range(parts + 1)]
        self._members = [
            subprocess.Popen(
                [*command, str(first), str(stop)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            for first, stop in itertools.pairwise(bounds)
        ]
        try:
            self.connected_bytes, _ = self._hear()
        except BaseException:
            self.__exit__()
            raise
        self.seconds = time.monotonic() - began
        self.connecting = self.processor() - self._idle

    def _hear(self) -> tuple[int, int]:
        found = []
        for process in self._members:
            assert process.stdout is not None
            found.append(json.loads(process.stdout.readline()))
        return sum(one["bytes"] for one in found), sum(one["lost"] for one in found)

    def passed(self) -> tuple[int, int]:
        """Return all bytes of the agents so far, and how many connections were lost."""
        for process in self._members:
            assert process.stdin is not None
            process.stdin.write(b"\n")
            process.stdin.flush()
        return self._hear()

    def processor(self) -> float:
        """Return the processor-seconds of the hub so far."""
        words = Path(f"/proc/{self._hub.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / _CLOCK

    def memory(self) -> int:
        """Return the most bytes that the hub has had in memory."""
        lines = Path(f"/proc/{self._hub.pid}/status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

    def session(self, name: str, rounds: int) -> dict[str, Any]:
        """Run a session of all agents; return what it took."""
        before, lost = self.passed()
        processor, began = self.processor(), time.monotonic()
        asked = ["--loss", "1", "--range", "0:1", "--anyway", "--name", name]
        asked += ["--least", str(self.agents), "--wait", "600"]
        if rounds > 1:
            asked += ["--law", "fading", "--mixing", "0.5", "--rounds", str(rounds)]
        done = subprocess.run(
            [TACIT, "hub", "run", str(self.home), *asked, "--json"], stdout=subprocess.PIPE, check=False
        )
        seconds = time.monotonic() - began
        processor = self.processor() - processor
        after, gone = self.passed()
        with HubStoreOf(self.home) as store:
            rows = store.sessions(name)
        if not rows:
            raise RuntimeError(f"the hub did not begin {name}: {done.stdout.decode()}")
        row = rows[0]
        result = json.loads(row["result"]) if row["result"] else {}
        return {
            "rounds": rounds,
            "used": result.get("used", []),
            "bytes": (after - before) / self.agents,
            "processor": processor / self.agents,
            "seconds": seconds,
            "held": row["ended"] - row["made"],
            "lost": gone - lost,
            "exit": done.returncode,
        }

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *_: object) -> None:
        for process in (*self._members, self._hub):
            process.kill()
        for process in (*self._members, self._hub):
            process.wait()


class HubStoreOf:
    """A hub's store for the length of a block."""

    def __init__(self, home: Path) -> None:
        self._store = HubStore(home)

    def __enter__(self) -> HubStore:
        return self._store

    def __exit__(self, *_: object) -> None:
        self._store.close()


def measure(agents: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Return one row: what a hub with so many agents takes."""
    folder = Path(tempfile.mkdtemp(prefix="tacit-crowd-"))
    try:
        with Crowd(folder, agents) as crowd:
            say(f"{agents:,} agents are connected after {crowd.seconds:.1f} s")
            one = crowd.session("one", 1)
            say(f"one round: {one}")
            many = crowd.session("many", ROUNDS)
            say(f"{ROUNDS} rounds: {many}")
            return {
                "agents": agents,
                "connect": {
                    "seconds": crowd.seconds,
                    "processor": crowd.connecting / agents,
                    "bytes": crowd.connected_bytes / agents,
                },
                "one": one,
                "many": many,
                "round_bytes": (many["bytes"] - one["bytes"]) / (ROUNDS - 1),
                "round_processor": (many["processor"] - one["processor"]) / (ROUNDS - 1),
                "memory": crowd.memory(),
            }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def is_met(row: dict[str, Any]) -> bool:
    """Whether all agents took part, and the bytes are within the goals."""
    agents = row["agents"]
    used = [*row["one"]["used"], *row["many"]["used"]]
    most = SESSION_GOAL + PATH_GOAL * math.log2(agents) + ROUND_GOAL
    all_there = used == [agents] * (1 + ROUNDS)
    return all_there and row["one"]["bytes"] <= most and row["round_bytes"] <= ROUND_GOAL


def table(rows: list[dict[str, Any]]) -> Table:
    """Return what was measured, a row for each number of agents."""
    made = Table(title="A hub's session, per agent")
    for head in (
        "agents", "took part", "session bytes", "round bytes", "connect ms", "session ms", "round ms",
        "connected s", "session s", "hub MB", "",
    ):  # fmt: skip
        made.add_column(head, justify="right")
    for row in rows:
        used = min([*row["one"]["used"], *row["many"]["used"]], default=0)
        made.add_row(
            f"{row['agents']:,}",
            f"{used:,}",
            f"{row['one']['bytes']:,.0f}",
            f"{row['round_bytes']:,.0f}",
            f"{1e3 * row['connect']['processor']:.2f}",
            f"{1e3 * row['one']['processor']:.2f}",
            f"{1e3 * row['round_processor']:.2f}",
            f"{row['connect']['seconds']:.1f}",
            f"{row['one']['held']:.1f}",
            f"{row['memory'] / 1e6:.0f}",
            "yes" if is_met(row) else "no",
        )
    return made


def main() -> int:
    """Measure every size, and show the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--agents", default=",".join(map(str, SIZES)), help="numbers of agents, like 10,100")
    parser.add_argument("--json", type=Path, help="write what was measured")
    parser.add_argument("--members", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.members is not None:
        folder, endpoint, first, stop = cast("list[str]", options.members)
        asyncio.run(_members(Path(folder), endpoint, int(first), int(stop)))
        return 0
    console = Console(width=120)
    rows = [measure(int(size), console.log) for size in options.agents.split(",")]
    console.print(table(rows))
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1))
    return 0 if all(map(is_met, rows)) else 1


if __name__ == "__main__":
    sys.exit(main())
