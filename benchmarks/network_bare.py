"""The bare transport: websockets with mutual TLS, the same messages, connections and processes, and no logic.

``PLAN FIRST STOP``: agents FIRST to STOP − 1 in one process; the coordinator is agent −1. What is received
is counted, round by round; what is sent is always the same bytes.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect
from websockets.asyncio.connection import Connection
from websockets.asyncio.server import ServerConnection, broadcast, serve
from websockets.exceptions import ConnectionClosed

from benchmarks.network_turns import take_turns
from tacit.live.transport.connection_diagnosis import require_endpoint

_SETTINGS: dict[str, Any] = {"compression": None, "ping_interval": None, "open_timeout": 300}


def _tls(agent: dict[str, Any], side: Any) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(agent["authority"])
    context.load_cert_chain(agent["tls"])
    return context


class Speaker:
    """One member: speaks once per round, and hears one message of each neighbour."""

    def __init__(self, plan: dict[str, Any], who: int) -> None:
        self._agent = plan["agents"][who] if who >= 0 else plan["coordinator"]
        self._who, self._each = who, len(self._agent["near"])
        self._payload = bytes(plan["report_bytes"] if who >= 0 else plan["feedback_bytes"])
        self._answers = who < 0  # who answers speaks after hearing, others before
        self._heard, self._complete, self._met = 0, asyncio.Event(), asyncio.Event()
        self._connections: list[Connection] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self, stack: AsyncExitStack) -> None:
        """Listen and connect."""
        for endpoint in self._agent["listen"]:
            host, port = require_endpoint(endpoint)
            tls = _tls(self._agent, ssl.PROTOCOL_TLS_SERVER)
            await stack.enter_async_context(serve(self._hear, host, port, ssl=tls, **_SETTINGS))
        for endpoint in self._agent["connect"]:
            self._tasks.append(asyncio.ensure_future(self._dial(endpoint)))

    async def _dial(self, endpoint: str) -> None:
        tls = _tls(self._agent, ssl.PROTOCOL_TLS_CLIENT)
        while True:
            try:
                made = await connect(endpoint, ssl=tls, proxy=None, **_SETTINGS)
            except OSError:
                await asyncio.sleep(0.2)  # it does not listen yet
            else:
                await self._hear(made)
                return

    async def _hear(self, connection: Connection | ServerConnection) -> None:
        self._connections.append(connection)
        if len(self._connections) == self._each:
            self._met.set()
        try:
            async for _ in connection:
                self._heard += 1
                if self._heard == self._each:
                    self._complete.set()
        except ConnectionClosed:
            return

    async def met(self) -> None:
        """Wait until everyone is connected."""
        await self._met.wait()

    async def rounds(self, count: int) -> None:
        """Do so many rounds."""
        for _ in range(count):
            if not self._answers:
                broadcast(self._connections, self._payload)
            await self._complete.wait()
            self._heard -= self._each
            if self._heard < self._each:
                self._complete.clear()
            if self._answers:
                broadcast(self._connections, self._payload)


async def _main(plan: dict[str, Any], first: int, stop: int) -> None:
    async with AsyncExitStack() as stack:
        speakers = [Speaker(plan, who) for who in range(first, stop)]
        for speaker in speakers:
            await speaker.open(stack)
        await asyncio.gather(*(speaker.met() for speaker in speakers))

        async def turn(rounds: int) -> None:
            await asyncio.gather(*(speaker.rounds(rounds) for speaker in speakers))

        await take_turns(turn)


if __name__ == "__main__":
    asyncio.run(_main(json.loads(Path(sys.argv[1]).read_text()), int(sys.argv[2]), int(sys.argv[3])))
