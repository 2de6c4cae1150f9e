"""Agents elsewhere: sends reports that were made before, to a coordinator that is to be measured.

``PLAN``: connects as every agent of the plan, one connection each, and sends nothing but ready-made frames.
So this process does next to nothing, and the coordinator can be seen by itself.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from benchmarks.network_turns import take_turns
from tacit.core.protocol.session import Session

_AT_ONCE = 32


async def _connect(plan: dict[str, Any], session: Session, who: int) -> ClientConnection:
    agent = plan["agents"][who]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(agent["authority"])
    context.load_cert_chain(agent["tls"])
    name = session.member_name(who)
    path = f"/tacit/1/{session.name}/{session.id.hex()}/{name}"
    [endpoint] = agent["connect"]
    while True:
        try:
            return await connect(
                endpoint + path, ssl=context, proxy=None, compression=None, ping_interval=None
            )
        except OSError:
            await asyncio.sleep(0.2)  # it does not listen yet


async def _main(plan: dict[str, Any]) -> None:
    session = Session.decode(bytes.fromhex(plan["session"]))
    made = json.loads(Path(plan["folder"], "frames.json").read_text())
    hello = [bytes.fromhex(frame) for frame in made["hello"]]
    reports = [[bytes.fromhex(frame) for frame in row] for row in made["reports"]]
    gate = asyncio.Semaphore(_AT_ONCE)

    async def enter(who: int) -> ClientConnection:
        async with gate:
            connection = await _connect(plan, session, who)
            await connection.send(hello[who])
            return connection

    agents = await asyncio.gather(*(enter(who) for who in range(session.n)))
    feedback = [bytes.fromhex(frame) for frame in made["feedback"]]
    done = 0

    async def turn(rounds: int) -> None:
        nonlocal done
        if not done:  # a report before the first round is open would be refused, and is not sent again here
            for agent in agents:
                await agent.recv()
        for t in range(done, done + rounds):
            for agent, frame in zip(agents, reports[t], strict=True):
                await agent.send(frame)
            for agent in agents:
                while await agent.recv() != feedback[t]:
                    pass  # that the round is open
        done += rounds

    await take_turns(turn)


if __name__ == "__main__":
    asyncio.run(_main(json.loads(Path(sys.argv[1]).read_text())))
