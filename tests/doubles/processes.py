"""A session's members as processes on this machine, for tests with real faults.

Keys, values, ledgers, logs and results of all members are in one folder.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from tacit.base.errors import TacitError
from tacit.cli.failures import OVER
from tacit.core.protocol.session import Session
from tacit.live.identity.keys import key_text
from tacit.live.identity.roster import COORDINATOR

_LEAN = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
_PYTHON = (sys.executable, "-c", "from tacit.cli import main; main()")
_MANY = (sys.executable, str(Path(__file__).with_name("many_agents.py")))


def free_ports(count: int) -> list[int]:
    """Return free ports of the loopback address."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


def make_addresses(session: Session) -> dict[str, str]:
    """Return a loopback address for every member that listens."""
    names = [COORDINATOR] if session.topology == "server" else [member.name for member in session.roster]
    return {name: f"wss://127.0.0.1:{port}" for name, port in zip(names, free_ports(len(names)), strict=True)}


@final
@dataclass
class Processes:
    """The processes of one session.

    Parameters
    ----------
    folder : path
        With ``keys`` and ``session.toml`` in it.
    values : mapping
        Each agent's made-up value, by name.
    cap : float
        Each agent's cap, for values that differ by at most the session's adjacency.
    together : int
        How many agents share a process.
    pace : float
        Minimum seconds per round.
    """

    folder: Path
    session: Session
    values: Mapping[str, float]
    cap: float
    together: int = 1
    pace: float = 0.0
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in self.values.items():
            path = self.folder / f"{name}.value"
            path.touch(mode=0o600)
            path.write_text(repr(float(value)), encoding="ascii")

    @property
    def units(self) -> list[str]:
        """The processes: coordinator, keepers and agents.

        Agents that share a process are listed by the first of them.
        """
        names = [member.name for member in self.session.roster]
        first = [COORDINATOR] if self.session.topology == "server" else []
        return first + self.keepers + names[:: self.together]

    @property
    def keepers(self) -> list[str]:
        """The names of the session's keepers, each of which has a process."""
        return [keeper.name for keeper in self.session.keepers]

    def members(self, unit: str) -> list[str]:
        """Return the members that run in one process."""
        if unit == COORDINATOR or unit in self.keepers:
            return [unit]
        names = [member.name for member in self.session.roster]
        start = names.index(unit)
        return names[start : start + self.together]

    def path(self, name: str, kind: str) -> Path:
        """Return a member's file; `kind` is log, ledger, transcript and so on."""
        return self.folder / f"{name}.{kind}"

    def command(self, unit: str) -> list[str]:
        """Return the command that starts or restarts a process."""
        keeps = unit in self.keepers
        if unit != COORDINATOR and not keeps and self.together > 1:
            return [*_MANY, str(self.folder), repr(self.cap), *self.members(unit)]
        peers = self.session.topology == "graph"
        verb = "coordinate" if unit == COORDINATOR else "keep" if keeps else "join"
        words = [
            *_PYTHON,
            verb,
            str(self.folder / "session.toml"),
            "--keys",
            str(self.folder / "keys" / unit),
        ]
        words += ["--ledger", str(self.path(unit, "ledger")), "--log", str(self.path(unit, "log")), "--json"]
        if unit != COORDINATOR and not keeps:
            words += [f"--trust={keeper.name}={key_text(keeper.key)}" for keeper in self.session.keepers]
            words += ["--value-file", str(self.path(unit, "value")), "--cap", repr(self.cap)]
            words += ["--adjacency", repr(self.session.adjacency)]
            words += ["--state-file", str(self.path(unit, "state"))]
        if unit == COORDINATOR or peers:
            words += ["--transcript", str(self.path(unit, "transcript")), "--pace", repr(self.pace)]
        return words

    def start(self, unit: str) -> None:
        """Start a process, or start it again."""
        with self.path(unit, "result").open("wb") as out, self.path(unit, "errors").open("ab") as errors:
            self.processes[unit] = subprocess.Popen(
                self.command(unit),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                env=os.environ | _LEAN,
                start_new_session=True,  # Ctrl-C is for us; we stop them in order
            )

    def start_all(self) -> None:
        """Start everyone."""
        for unit in self.units:
            self.start(unit)

    def signal(self, unit: str, number: int) -> None:
        """Send a signal to a process."""
        with suppress(ProcessLookupError):
            self.processes[unit].send_signal(number)

    def kill(self, unit: str) -> None:
        """Kill a process as a power cut would, and wait until it is gone."""
        self.signal(unit, signal.SIGKILL)
        self.processes[unit].wait()

    def stop_all(self, seconds: float = 5.0) -> None:
        """Ask all processes to stop, and kill those that do not."""
        for unit, process in self.processes.items():
            if process.poll() is None:
                self.signal(unit, signal.SIGTERM)
                self.signal(unit, signal.SIGCONT)
        end = time.monotonic() + seconds
        for process in self.processes.values():
            try:
                process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    @property
    def running(self) -> list[str]:
        """The processes that have not ended."""
        return [unit for unit, process in self.processes.items() if process.poll() is None]

    def require_healthy(self) -> None:
        """Raise an error with the last line that a failed member printed."""
        for unit, process in self.processes.items():
            if process.poll() not in (None, 0, OVER, -signal.SIGKILL):
                said = self.path(unit, "errors").read_text(encoding="utf-8", errors="replace").strip()
                last = said.splitlines()[-1] if said else "nothing"
                raise TacitError(
                    f"{unit} ended with exit code {process.returncode}. Its last line was: {last}"
                )


@final
class Tail:
    """Reads the JSON lines that were added to a file since the last call."""

    def __init__(self, path: Path) -> None:
        self._path, self._place = path, 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._place)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._place += len(line)
                with suppress(ValueError):
                    yield json.loads(line)
