"""tacit itself, held between turns: real members with signatures, exact noise and durable ledgers.

``PLAN FIRST STOP``, as for `benchmarks.network_bare`. What arrives at a member that has done its rounds waits
until the next turn; nothing else differs from a session of `tacit coordinate` and `tacit join`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, final

from benchmarks.network_turns import take_turns
from tacit.core.protocol.notices import Answered, Notice, RoundClosed, Updated
from tacit.core.protocol.session import Session
from tacit.live.identity.identity import TlsFiles
from tacit.live.runtime.agent import Agent
from tacit.live.runtime.coordinator import Coordinator
from tacit.live.runtime.keeper import Keeper
from tacit.live.runtime.participant import Participant
from tacit.live.transport.base import Arrival, Network
from tacit.live.transport.websocket import WebsocketTransport

_AT_ONCE = 64


@final
class Held:
    """A transport that hands out nothing once its member has done its rounds."""

    def __init__(self, inner: WebsocketTransport, *, holds: bool) -> None:
        self._inner, self._holds = inner, holds
        self._going, self._done = False, asyncio.Event()
        self._made = self._until = 0
        self.send, self.close = inner.send, inner.close
        self._arrived: Callable[[], None] = lambda: None

    @property
    def dropped(self) -> int:
        """As the transport within."""
        return self._inner.dropped

    @property
    def network(self) -> Network:
        """As the transport within."""
        return self._inner.network

    async def open(self, arrived: Callable[[], None]) -> None:
        """As the transport within."""
        self._arrived = arrived
        await self._inner.open(arrived)

    def take(self) -> list[Arrival]:
        """Return what arrived, during a turn."""
        held = self._holds and self._made and not self._going  # before the first round members must meet
        return [] if held else self._inner.take()

    def notice(self, notice: Notice) -> None:
        """Count rounds, and hold when they are done."""
        if isinstance(notice, RoundClosed | Updated | Answered):
            self._made = (notice.update if isinstance(notice, Answered) else notice.round) + 1
            if self._made >= self._until:
                self._going = False
                self._done.set()

    async def rounds(self, count: int) -> None:
        """Let the member go on for so many rounds."""
        self._until += count
        if self._made < self._until:
            self._done.clear()
            self._going = True
            self._arrived()
        await self._done.wait()


def _member(plan: dict[str, Any], session: Session, who: int) -> tuple[Participant, Held]:
    given = plan["agents"][who] if who >= 0 else plan["coordinator"]
    tls = TlsFiles(Path(given["tls"]), Path(given["tls"]), Path(given["authority"]))
    wire = WebsocketTransport(session, who, tls, listen=given["listen"], connect=given["connect"])
    held = Held(wire, holds=who < 0 or session.topology == "graph")
    common: dict[str, Any] = {
        "ledger": Path(plan["folder"]) / f"{who}.ledger",
        "identity": Path(given["tls"]).parent,
        "transport": held,
        "watch": held.notice,
    }
    if who < 0:
        return Coordinator(session, **common), held
    if who in session.keeper_numbers:
        return Keeper(session, **common), held
    trust = {keeper.name: keeper.key for keeper in session.keepers}
    return Agent(session, 0.5, cap=float("inf"), trust=trust, **common), held


def _give_up(watching: asyncio.Future[Any]) -> None:
    """End the process when a member fails: the others would wait for it."""
    if not watching.cancelled() and (error := watching.exception()) is not None:
        print(error, file=sys.stderr, flush=True)
        os._exit(1)


async def _main(plan: dict[str, Any], first: int, stop: int) -> None:
    session = Session.decode(bytes.fromhex(plan["session"]))
    gate, turns = asyncio.Semaphore(_AT_ONCE), []

    async def enter(who: int) -> Participant:
        async with gate:
            member, held = _member(plan, session, who)
            await member.__aenter__()
        turns.append(held)
        return member

    members = await asyncio.gather(*(enter(who) for who in range(first, stop)))
    watching = asyncio.gather(*(member.ended() for member in members))
    watching.add_done_callback(_give_up)

    async def turn(rounds: int) -> None:
        # Agents of a server need not be told: they do as many rounds as the coordinator.
        await asyncio.gather(*(held.rounds(rounds) for held in turns))

    await take_turns(turn)
    for member in members:
        await member.__aexit__(None, None, None)


if __name__ == "__main__":
    asyncio.run(_main(json.loads(Path(sys.argv[1]).read_text()), int(sys.argv[2]), int(sys.argv[3])))
