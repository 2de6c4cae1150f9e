"""Processes that do a number of rounds when told to, so that contestants can take turns.

A parent starts each process once, tells it ``go ROUNDS``, and hears when it is done and how much processor
time it has used. Between turns nobody speaks.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import final

ROOT = Path(__file__).resolve().parent.parent
_LEAN = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}


@final
class Troupe:
    """Some processes that go through rounds together; they end with the block."""

    def __init__(self, commands: Sequence[Sequence[str]], python: str = sys.executable) -> None:
        self._processes = [
            subprocess.Popen(
                [python, "-m", *command],
                cwd=ROOT,
                env=os.environ | _LEAN,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for command in commands
        ]
        self._used = self._hear()

    def go(self, rounds: int) -> None:
        """Let all do so many rounds, and wait for the last."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(f"{rounds}\n")
            process.stdin.flush()
        self._used = self._hear()

    def used(self) -> float:
        """Return the processor-seconds of all these processes until the end of the last turn."""
        return sum(self._used)

    def _hear(self) -> list[float]:
        used = []
        for process in self._processes:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise RuntimeError(f"a contestant ended with exit code {process.wait()}")
            used.append(float(json.loads(line)["used"]))
        return used

    def __enter__(self) -> Troupe:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()


async def take_turns(turn: Callable[[int], Awaitable[None]]) -> None:
    """In such a process: say that it is ready, then do a turn whenever told to."""
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while True:
        print(json.dumps({"used": time.process_time()}), flush=True)
        line = await lines.readline()
        if not line:
            return
        await turn(int(line))
