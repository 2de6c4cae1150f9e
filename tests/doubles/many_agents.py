"""Many agents in one process, where one process per agent is too many.

The arguments are ``FOLDER CAP NAME...``; `tests.doubles.processes` makes the folder.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import click

from tacit.base.errors import SessionOver
from tacit.base.report import jsonable
from tacit.cli import running
from tacit.cli.private_value import write_state
from tacit.core.protocol.session import Session
from tacit.live.runtime.agent import Agent
from tacit.live.runtime.agent_result import AgentResult
from tacit.live.runtime.limits import LEDGER_FILES, require_files
from tacit.live.runtime.workers import in_worker
from tacit.live.sessions.file import read_with_addresses
from tacit.live.transport.schemes import to_dial

_AT_ONCE = 64
"""How many ledgers and connections are opened at the same time."""


def main() -> None:
    """Run the agents named on the command line to their end."""
    folder, cap, *names = sys.argv[1:]
    try:
        with running.exits():
            session, addresses = read_with_addresses(Path(folder) / "session.toml")
            # A ledger, a listening socket, and possibly both ends of the connection to each neighbour.
            each = LEDGER_FILES + 1 + max(2 * len(session.neighbours(session.index(name))) for name in names)
            require_files(len(names) * each, f"{len(names):,} agents in one process")
            running.run(lambda: _all(session, addresses, Path(folder), float(cap), names))
    except click.exceptions.Exit as over:
        sys.exit(over.exit_code)


async def _all(
    session: Session, addresses: dict[str, str], folder: Path, cap: float, names: list[str]
) -> None:
    turn = asyncio.Semaphore(_AT_ONCE)

    async def one(name: str) -> None:
        member = Agent(
            session,
            float((folder / f"{name}.value").read_text(encoding="ascii")),
            ledger=folder / f"{name}.ledger",
            identity=folder / "keys" / name,
            cap=cap,
            adjacency=session.adjacency,
            trust={keeper.name: keeper.key for keeper in session.keepers},
            connect=to_dial(session, session.index(name), addresses),
            listen=[addresses[name]] if session.topology == "graph" else (),
        )
        async with turn:
            await member.__aenter__()
        try:
            result = await member.result()
        except SessionOver as over:  # the agent had finished before this process was killed
            result = over.result
        finally:
            await member.__aexit__(*sys.exc_info())
        assert isinstance(result, AgentResult)
        await in_worker(lambda: _write(folder, session, result))

    await asyncio.gather(*(one(name) for name in names))


def _write(folder: Path, session: Session, result: AgentResult) -> None:
    text = json.dumps(jsonable(result.as_dict()))
    (folder / f"{result.agent}.result").write_text(text, encoding="utf-8")
    write_state(folder / f"{result.agent}.state", session, result)


if __name__ == "__main__":
    main()
