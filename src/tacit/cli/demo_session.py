"""A whole session on one machine, as a user of the library writes it.

Make keys and a session file, start every member with its own command, kill some, and read the end. The keys
and values of all are in one folder, which is right only because the values are made up: real members keep
these files on their own machines.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tacit.base.errors import TacitError
from tacit.core.protocol import Deadlines, Member, Session
from tacit.core.theory.plan import Plan
from tacit.live import Ledger, Roster, draft, provision, write_session
from tacit.live.identity.keys import key_text

LOW, HIGH = 15.0, 25.0  # °C
LOSS = 1.0  # for two temperatures 1 °C apart
PACE = 0.25  # minimum seconds of a round, so that people can follow
_DEAD, _TIMEOUT = 0.5, 600  # seconds that a killed member stays dead, and after which all give up
_FINE = (None, 0, 6)  # exit codes: still running, finished, the session was over before


def make_session(folder: Path, agents: int, keepers: int, rounds: int | None = None) -> Session:
    """Make everybody's keys, and the session file with the address."""
    names, helpers = [f"agent-{i}" for i in range(agents)], [f"keeper-{j}" for j in range(keepers)]
    keys = provision(folder / "keys", ["coordinator", *names, *helpers], listening=["coordinator"])
    members = tuple(Member(name, keys[name].public_key) for name in [*names, *helpers])
    session = draft(
        "demo",
        Roster(members, keys["coordinator"].public_key),
        Plan(low=LOW, high=HIGH, adjacency=1.0, loss=LOSS, mixing=0.5, rounds=rounds),
        keepers=helpers,
        deadlines=Deadlines(round=20.0, start=120.0),
        anyway=True,  # few agents cannot have an accurate result, and are shown all the same
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"wss://127.0.0.1:{free.getsockname()[1]}"
    write_session(session, folder / "session.toml", addresses={"coordinator": address})
    return session


def commands(session: Session, folder: Path, values: Sequence[float]) -> dict[str, list[str]]:
    """Return the command of every member, and write the agents' values."""
    verbs = {"coordinator": ["coordinate", f"--pace={PACE}"]}
    verbs |= {keeper.name: ["keep"] for keeper in session.keepers}
    trust = [f"--trust={keeper.name}={key_text(keeper.key)}" for keeper in session.keepers]
    for member, value in zip(session.roster, values, strict=True):
        own = folder / f"{member.name}.value"
        own.touch(mode=0o600)
        own.write_text(repr(value), encoding="ascii")
        limit = [f"--cap={LOSS}", f"--adjacency={session.adjacency}"]
        verbs[member.name] = ["join", *trust, *limit, f"--value-file={own}", f"--state-file={own}.state"]
    made = {}
    for name, words in verbs.items():
        files = [f"--ledger={folder / name}.ledger", f"--transcript={folder / name}.jsonl"]
        common = [str(folder / "session.toml"), f"--keys={folder / 'keys' / name}", f"--timeout={_TIMEOUT}"]
        made[name] = [sys.executable, "-m", "tacit", *words, *common, *files]
    return made


def play(session: Session, folder: Path, members: dict[str, list[str]]) -> Iterator[dict[str, Any] | str]:
    """Run all members to their end; yield rounds, and kills as text.

    A round is its line in the coordinator's transcript.
    """
    due = {session.rounds // 3: f"agent-{session.n // 2}", session.rounds // 2: "coordinator"}
    due |= {2 * session.rounds // 3: "keeper-0"} if session.keepers else {}
    running: dict[str, subprocess.Popen[bytes]] = {}

    def start(name: str) -> None:
        with (folder / f"{name}.said").open("ab") as said:
            # In a session of its own: Ctrl-C is for the demo, which then stops all members.
            running[name] = subprocess.Popen(
                members[name], stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
            )

    try:
        for name in members:
            start(name)
        shown = 0
        while shown < session.rounds or any(process.poll() is None for process in running.values()):
            for found in _rounds(folder / "coordinator.jsonl")[shown:]:
                shown += 1
                yield found
                if victim := due.pop(shown, None):
                    running[victim].kill()
                    if running[victim].wait() == -signal.SIGKILL:  # otherwise it had just finished
                        yield f"{victim} is killed (kill -9)"
                        time.sleep(_DEAD)
                        start(victim)
                        yield f"{victim} is restarted by the same command"
            for name, process in running.items():
                if process.poll() not in _FINE:
                    said = (folder / f"{name}.said").read_text(encoding="utf-8", errors="replace")
                    raise TacitError(f"{name} ended with exit code {process.returncode}: {said[-500:]}")
            time.sleep(0.05)
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _rounds(transcript: Path) -> list[dict[str, Any]]:
    """Return the lines of all finished rounds: their public means."""
    lines = transcript.read_bytes().split(b"\n")[:-1] if transcript.exists() else []  # the last is unfinished
    return [found for found in map(json.loads, lines) if "y" in found]


def endings(session: Session, folder: Path) -> tuple[list[float], float]:
    """Return all final states, and the loss in the fullest ledger.

    Both are for the owner of an agent. The demo may read them because all values are made up.
    """
    states, losses = [], []
    for member in session.roster:
        states.append(json.loads((folder / f"{member.name}.value.state").read_bytes())["value"])
        with Ledger(folder / f"{member.name}.ledger", create=False) as ledger:
            losses.append(ledger.spent("value"))
    return states, max(losses)
