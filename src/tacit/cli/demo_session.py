"""A whole session on one machine, as a user of the library writes it.

Make keys and a session file, start every member with its own command, kill some, and keep what is public. The
keys and values of all are in one folder, which is right only because the values are made up: real members
keep these files on their own machines.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tacit.base.arrays import FloatArray
from tacit.base.errors import TacitError
from tacit.core.graph import Graph
from tacit.core.history import History, Private
from tacit.core.protocol import Deadlines, Member, Session
from tacit.core.theory.answers import design
from tacit.core.theory.plan import Plan
from tacit.live import Ledger, Roster, draft, provision, write_session
from tacit.live.identity.keys import key_text
from tacit.live.runtime.transcript import merge

LOW, HIGH = 15.0, 25.0  # °C
_MOST_ROUNDS = 150  # a ring of 50 needs thousands to agree: too long for a demo
_PACE, _SHOW = 0.25, 5.0  # minimum seconds of one round and of the demo, so that people can follow
_DEAD, _TIMEOUT = 0.5, 600  # seconds that a killed member stays dead, and after which all give up
_FINE = (None, 0, 6, -signal.SIGKILL)  # exit codes: still running, finished, over before, killed by us


class DemoRound(NamedTuple):
    """A finished round: its public mean, and how many messages it used."""

    number: int
    mean: float
    used: str


def make_session(
    folder: Path, agents: int, *, topology: str, keepers: int, epsilon: float, rounds: int | None
) -> Session:
    """Make everybody's keys, and the session file with addresses."""
    asked: dict[str, Any] = {"agents": agents, "keepers": keepers, "epsilon": epsilon, "mixing": 0.5}
    asked |= {"low": LOW, "high": HIGH, "adjacency": 1.0}
    if topology != "server":
        asked |= {"agents": None, "graph": Graph.load(f"{topology}:{agents}")}
    needed = design(**asked).promise.rounds
    asked["rounds"] = rounds or min(needed, _MOST_ROUNDS)
    if asked["rounds"] < needed:
        asked["tolerance"] = 1000 * (HIGH - LOW)  # they need not agree

    names, helpers = [f"agent-{i}" for i in range(agents)], [f"keeper-{j}" for j in range(keepers)]
    listening = ["coordinator"] if topology == "server" else names
    keys = provision(folder / "keys", dict.fromkeys([*listening, *names, *helpers]), listening=listening)
    members = tuple(Member(name, keys[name].public_key) for name in [*names, *helpers])
    session = draft(
        "demo",
        Roster(members, keys["coordinator"].public_key if topology == "server" else None),
        Plan(**asked),
        keepers=helpers,
        deadlines=Deadlines(round=20.0, start=120.0),
        anyway=True,  # few agents cannot have an accurate result, and are shown all the same
    )
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in listening]
    places = [f"wss://127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    write_session(session, folder / "session.toml", addresses=dict(zip(listening, places, strict=True)))
    return session


def commands(session: Session, folder: Path, values: list[float], cap: float) -> dict[str, list[str]]:
    """Return the command of every member, and write the agents' values."""
    pace = f"--pace={min(_PACE, _SHOW / session.rounds)}"
    verbs = {"coordinator": ["coordinate", pace]} if session.topology == "server" else {}
    verbs |= {keeper.name: ["keep"] for keeper in session.keepers}
    trust = [f"--trust={keeper.name}={key_text(keeper.key)}" for keeper in session.keepers]
    for member, value in zip(session.roster, values, strict=True):
        own = folder / f"{member.name}.value"
        own.touch(mode=0o600)
        own.write_text(repr(value), encoding="ascii")
        verb = ["join", *trust] if session.topology == "server" else ["join", pace]
        state = f"--state-file={folder / member.name}.state"
        limit = [f"--cap={cap!r}", f"--adjacency={session.adjacency!r}"]
        verbs[member.name] = [*verb, f"--value-file={own}", state, *limit]
    made = {}
    for name, words in verbs.items():
        own_files = [f"--ledger={folder / name}.ledger", f"--transcript={folder / name}.jsonl"]
        common = [f"--keys={folder / 'keys' / name}", *own_files, f"--timeout={_TIMEOUT}"]
        made[name] = [sys.executable, "-m", "tacit", *words, str(folder / "session.toml"), *common]
    return made


def play(
    session: Session, folder: Path, started: dict[str, list[str]], *, faults: bool
) -> Iterator[DemoRound | str]:
    """Run all members to their end; yield rounds, and faults as text."""
    due = {session.roster[session.n // 2].name: 1 / 3, "coordinator": 1 / 2, "keeper-0": 2 / 3}
    due = {name: share * session.rounds for name, share in due.items() if faults and name in started}
    running: dict[str, subprocess.Popen[bytes]] = {}
    back, finished = dict[str, float](), _follow(session, transcripts(session, folder))

    def start(name: str) -> None:
        with (folder / f"{name}.said").open("ab") as said:
            # In a session of its own: Ctrl-C is for the demo, which then stops all members.
            running[name] = subprocess.Popen(
                started[name], stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
            )

    try:
        for name in started:
            start(name)
        while back or any(process.poll() is None for process in running.values()):
            for one in next(finished):
                yield one
                for name in [name for name, when in due.items() if one.number >= int(when)]:
                    del due[name]
                    running[name].kill()
                    if running[name].wait() == -signal.SIGKILL:  # otherwise it had just finished
                        back[name] = time.monotonic() + _DEAD
                        yield f"{name} is killed (kill -9)"
            for name in [name for name, when in back.items() if time.monotonic() >= when]:
                del back[name]
                start(name)
                yield f"{name} is restarted by the same command"
            for name, process in running.items():
                if process.poll() not in _FINE:
                    said = (folder / f"{name}.said").read_text(encoding="utf-8", errors="replace")
                    raise TacitError(f"{name} ended with exit code {process.returncode}: {said[-500:]}")
            time.sleep(0.02)
        yield from next(finished)
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def transcripts(session: Session, folder: Path) -> list[Path]:
    """Return the transcripts that have all means between them."""
    names = ["coordinator"] if session.edges is None else [member.name for member in session.roster]
    return [folder / f"{name}.jsonl" for name in names]


def _follow(session: Session, paths: list[Path]) -> Iterator[list[DemoRound]]:
    """Yield, again and again, the rounds finished since the last time."""
    places, shown = dict.fromkeys(paths, 0), 0
    means: dict[int, dict[Path, Any]] = defaultdict(dict)
    while True:
        for path in filter(Path.exists, paths):
            with path.open("rb") as file:
                file.seek(places[path])
                for text in file:
                    if not text.endswith(b"\n"):  # it is being written
                        break
                    places[path] += len(text)
                    line = json.loads(text)
                    if "y" in line:
                        means[line["round"]][path] = line
        found = []
        while len(means[shown]) == len(paths):
            lines, shown = means[shown].values(), shown + 1
            mean = np.mean([float(session.lattice.value(line["y"])) for line in lines])
            used = sum(len(line["used"]) if "used" in line else line["count"] for line in lines)
            found.append(DemoRound(shown, float(mean), f"{used}/{session.n + 2 * len(session.edges or ())}"))
        yield found


def endings(session: Session, folder: Path) -> tuple[FloatArray, float]:
    """Return all final states, and the loss in the fullest ledger.

    Both are for the owner of an agent. The demo may read them because all values are made up.
    """
    states, losses = [], []
    for member in session.roster:
        states.append(json.loads((folder / f"{member.name}.state").read_bytes())["value"])
        with Ledger(folder / f"{member.name}.ledger", create=False) as ledger:
            losses.append(ledger.spent("value"))
    return np.array(states), max(losses)


def keep(session: Session, folder: Path, out: Path) -> dict[str, Path]:
    """Write the session and its transcript over those of the last demo."""
    files, seen = (
        {"transcript": out / "demo.jsonl", "session": out / "demo.toml"},
        transcripts(session, folder),
    )
    files["session"].write_bytes((folder / "session.toml").read_bytes())
    files["transcript"].unlink(missing_ok=True)
    if len(seen) == 1:
        files["transcript"].write_bytes(seen[0].read_bytes())
    else:
        merge(seen, files["transcript"])
    return files


def draw(history: History, values: FloatArray, out: Path) -> dict[str, Path]:
    """Draw all states: they follow from made-up values and public means."""
    from tacit.lab.plots.fans import fan
    from tacit.lab.plots.style import save
    from tacit.lab.plots.trajectories import draw_trajectories

    states = [values]
    for y in history.y:
        states.append(history.mechanism.update(states[-1], y))
    history = replace(history, private=Private(np.array(states)))
    promised = fan(history.mechanism, history.rounds, [0.05])
    figure = draw_trajectories(history, promised, "temperature (°C)")
    files = {kind: out / f"demo.{kind}" for kind in ("png", "svg")}
    for file in files.values():
        save(figure, file)
    return files
