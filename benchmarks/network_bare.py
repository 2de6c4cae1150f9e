"""The bare transport: zenoh with mutual TLS, the same messages, connections and processes, and no logic.

``PLAN FIRST STOP``: agents FIRST to STOP − 1 in one process; the coordinator is agent −1. What is received
is counted, round by round, on the event loop; what is sent is always the same bytes.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from threading import Lock
from typing import Any

import zenoh
from zenoh.handlers import Callback

from benchmarks.network_turns import take_turns


def _config(plan: dict[str, Any], who: int) -> zenoh.Config:
    """Return what `tacit.runtime.zenoh_transport` sets, as far as it matters for speed."""
    agent = plan["agents"][who] if who >= 0 else plan["coordinator"]
    graph = plan["coordinator"] is None
    files = {"certificate": agent["tls"], "private_key": agent["tls"]}
    tls = {f"{side}_{what}": path for side in ("listen", "connect") for what, path in files.items()}
    return zenoh.Config.from_json5(
        json.dumps(
            {
                "mode": "peer" if graph else "client" if who >= 0 else "router",
                "listen": {"endpoints": agent["listen"], "timeout_ms": 0},
                "connect": {"endpoints": agent["connect"], "timeout_ms": -1, "exit_on_failure": False},
                "scouting": {"delay": 0, "multicast": {"enabled": False}, "gossip": {"enabled": False}},
                "transport": {
                    "unicast": {"max_sessions": 8192, "accept_pending": 4096},
                    "shared_memory": {"enabled": False},
                    "link": {
                        "protocols": ["tls"],
                        "tls": tls | {"root_ca_certificate": agent["authority"], "enable_mtls": True},
                    },
                },
            }
        )
    )


class Speaker:
    """One connection: speaks once per round, and hears one message of each neighbour."""

    def __init__(self, plan: dict[str, Any], who: int, session: zenoh.Session) -> None:
        agent = plan["agents"][who] if who >= 0 else plan["coordinator"]
        self._session, self._key = session, f"bare/{who}"
        self._payload = bytes(plan["report_bytes"] if who >= 0 else plan["feedback_bytes"])
        self._answers = who < 0  # who answers speaks after hearing, others before
        self._loop, self._lock = asyncio.get_running_loop(), Lock()
        self._each, self._heard, self._complete = len(agent["near"]), 0, asyncio.Event()
        self.unknown: set[int] = set(agent["near"])  # of whom nothing was heard yet
        self._subscribers = [self._listen(j) for j in agent["near"]]

    def _listen(self, j: int) -> Any:
        def heard(sample: zenoh.Sample) -> None:
            sample.payload.to_bytes()
            with self._lock:
                self.unknown.discard(j)
                self._heard += 1
                complete = self._heard == self._each
            if complete:  # the event loop is woken once per round
                self._loop.call_soon_threadsafe(self._complete.set)

        return self._session.declare_subscriber(f"bare/{j}", Callback(heard, indirect=False))

    def speak(self) -> None:
        """Send the one message."""
        self._session.put(
            self._key, self._payload, congestion_control=zenoh.CongestionControl.BLOCK, express=True
        )

    async def introduce(self) -> None:
        """Speak again and again, so that all hear of each other."""
        while True:
            self.speak()
            await asyncio.sleep(0.3)

    async def met(self) -> None:
        """Wait until everyone was heard."""
        while self.unknown:
            await asyncio.sleep(0.05)

    def forget(self) -> None:
        """Count from now on."""
        with self._lock:
            self._heard = 0
            self._complete.clear()

    async def rounds(self, count: int) -> None:
        """Do so many rounds."""
        for _ in range(count):
            if not self._answers:
                self.speak()
            await self._complete.wait()
            with self._lock:
                self._heard -= self._each
                if self._heard < self._each:
                    self._complete.clear()
            if self._answers:
                self.speak()


async def _main(plan: dict[str, Any], first: int, stop: int) -> None:
    opening = [asyncio.to_thread(zenoh.open, _config(plan, who)) for who in range(first, stop)]
    sessions = await asyncio.gather(*opening)
    speakers = [Speaker(plan, who, s) for who, s in zip(range(first, stop), sessions, strict=True)]
    introducing = [asyncio.ensure_future(speaker.introduce()) for speaker in speakers]
    await asyncio.gather(*(speaker.met() for speaker in speakers))

    async def turn(rounds: int) -> None:
        if rounds == 0:  # all have met
            for task in introducing:
                task.cancel()
            await asyncio.sleep(1.0)  # what is under way arrives
            for speaker in speakers:
                speaker.forget()
        await asyncio.gather(*(speaker.rounds(rounds) for speaker in speakers))

    await take_turns(turn)


if __name__ == "__main__":
    asyncio.run(_main(json.loads(Path(sys.argv[1]).read_text()), int(sys.argv[2]), int(sys.argv[3])))
