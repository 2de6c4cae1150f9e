"""The honest limit of a round around a server: what its rules cost, and nothing else.

``PLAN FIRST STOP``, as for `benchmarks.network_bare`, which carries it: the same connections and messages of
the same size. Each message is signed and checked once, as tacit does it: a broadcast is checked once for a
process. What a process is about to send is in one file and on the disk first, by one flush a round. There is
no machine, no noise, no ledger with its rules, no mark, and nobody is ever late.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack
from functools import lru_cache
from pathlib import Path
from typing import Any

from nacl.bindings import crypto_sign, crypto_sign_open, crypto_sign_seed_keypair
from websockets.asyncio.connection import Connection
from websockets.asyncio.server import ServerConnection, broadcast
from websockets.exceptions import ConnectionClosed

from benchmarks.network_bare import Speaker
from benchmarks.network_turns import take_turns
from tacit.core.protocol.signatures import SIGNATURE_BYTES


@lru_cache
def _keys(who: int) -> tuple[bytes, bytes]:
    """Return the public and the private key of a member: a seed is as good as a file here."""
    public, secret = crypto_sign_seed_keypair((who + 1).to_bytes(32, "big"))
    return bytes(public), bytes(secret)


@lru_cache(maxsize=4)
def _checked(frame: bytes, who: int) -> bytes:
    return bytes(crypto_sign_open(frame, _keys(who)[0]))


class Signer(Speaker):
    """One member, which signs what it says and checks what it hears."""

    def message(self, t: int) -> bytes:
        """Return the signed message of a round, as long as tacit's."""
        said = t.to_bytes(8, "big").ljust(len(self._payload) - SIGNATURE_BYTES, b"\0")
        return bytes(crypto_sign(said, _keys(self._who)[1]))

    async def _hear(self, connection: Connection | ServerConnection) -> None:
        self._connections.append(connection)
        whom = len(self._connections) - 1 if self._answers else -1
        if len(self._connections) == self._each:
            self._met.set()
        try:
            if self._answers:  # a client says first who it is
                whom = int(await connection.recv())
            else:
                await connection.send(str(self._who))
            async for frame in connection:
                assert isinstance(frame, bytes)
                _checked(frame, whom)
                self._heard += 1
                if self._heard == self._each:
                    self._complete.set()
        except ConnectionClosed:
            return

    async def heard_all(self) -> None:
        """Wait for one message of everyone."""
        await self._complete.wait()
        self._heard -= self._each
        if self._heard < self._each:
            self._complete.clear()

    def say(self, frame: bytes) -> None:
        """Send to everyone."""
        broadcast(self._connections, frame)


async def _main(plan: dict[str, Any], first: int, stop: int) -> None:
    descriptor = os.open(Path(plan["folder"]) / f"{first}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    async with AsyncExitStack() as stack:
        members = [Signer(plan, who) for who in range(first, stop)]
        for member in members:
            await member.open(stack)
        await asyncio.gather(*(member.met() for member in members))
        done = 0

        async def hear() -> None:
            for member in members:
                await member.heard_all()

        async def turn(rounds: int) -> None:
            nonlocal done
            for t in range(done, done + rounds):
                if first < 0:
                    await hear()
                frames = [member.message(t) for member in members]
                os.write(descriptor, b"".join(frames))
                os.fdatasync(descriptor)
                for member, frame in zip(members, frames, strict=True):
                    member.say(frame)
                if first >= 0:
                    await hear()
            done += rounds

        await take_turns(turn)
    os.close(descriptor)


if __name__ == "__main__":
    asyncio.run(_main(json.loads(Path(sys.argv[1]).read_text()), int(sys.argv[2]), int(sys.argv[3])))
