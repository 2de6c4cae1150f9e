"""A fleet under load: a hub, agents and keepers as processes, killed and restarted while sessions run.

Run from the repository: ``python -m benchmarks.fleet [--agents 50] [--sessions 100] [--every 1]``

Every agent is a `tacit agent` of its own with its own keys, ledger and value. While sessions begin at a
fixed rate, agents are killed (SIGKILL) and started again, and so are keepers and the hub. Then everything is
checked: each mean against the true mean of those who took part, each loss against its cap, each log for
private values.
Exits with 1 if anything is not as promised. This is no test of speed.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tacit.core.protocol.session import Session
from tacit.live.fleet.enrolment import enroll
from tacit.live.fleet.invitation import Invitation
from tacit.live.fleet.messages import AGENT, KEEPER
from tacit.live.fleet.orders import radius_for
from tacit.live.fleet.policy import policy_text
from tacit.live.fleet.store import HubStore
from tacit.live.ledger.ledger import Ledger

KEEPERS = ("north", "south")
LOW, HIGH, LOSS = 0.0, 10.0, 0.5
TACIT = str(Path(sys.executable).with_name("tacit"))
RARE = 1e-9
"""How often a mean may be further off than the radius it is held against."""


class FleetOfProcesses:
    """A hub's directory and members in one folder, each run as a process of its own."""

    def __init__(self, folder: Path, agents: int, sessions: int) -> None:
        self.folder, self.sessions = folder, sessions
        rng = random.SystemRandom()
        self.values = {f"meter-{i}": round(rng.uniform(LOW, HIGH), 9) for i in range(agents)}
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.kills: Counter[str] = Counter()
        self.seen: dict[bytes, Session] = {}  # the hub forgets who was in a session when it has expired
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.address = f"wss://localhost:{port}"
        self.tacit("hub", "new", "hub", "--address", self.address, "--listen", f"wss://127.0.0.1:{port}")

    def tacit(self, *words: str) -> str:
        """Run a command to its end."""
        return subprocess.run(
            [TACIT, *words], cwd=self.folder, check=True, stdout=subprocess.PIPE
        ).stdout.decode()

    def start(self, name: str) -> None:
        """Start the hub or a member."""
        log = ["--log", f"{name}.jsonl"]
        verb = ["hub", "serve", "hub", *log] if name == "hub" else ["agent", f"{name}.toml", *log]
        with (self.folder / f"{name}.out").open("ab") as out:
            self.running[name] = subprocess.Popen([TACIT, *verb], cwd=self.folder, stdout=out, stderr=out)

    def kill(self, name: str) -> None:
        """Kill one without warning."""
        self.running[name].kill()
        self.running[name].wait()
        self.kills["hub" if name == "hub" else "keeper" if name in KEEPERS else "agent"] += 1

    def enrol(self) -> None:
        """Invite and enrol everyone, and write the policies."""
        lines = self.tacit("invite", *KEEPERS, *self.values, "--hub", "hub").split()
        names = [*KEEPERS, *self.values]
        with ThreadPoolExecutor(4) as pool:
            found = pool.map(
                lambda line, name: enroll(Invitation.parse(line), self.folder / name), lines, names
            )
            keys = {identity.name: identity.key for identity in found}
        authority = Invitation.parse(lines[0]).fingerprint
        for name in names:
            more: dict[str, Any] = {}
            if name in self.values:
                (self.folder / f"{name}.value").write_text(repr(self.values[name]))
                (self.folder / f"{name}.value").chmod(0o600)
                cap = LOSS * self.sessions
                more = {
                    "value": {"file": f"{name}.value", "low": LOW, "high": HIGH},
                    "limits": {"cap": cap, "windows": [{"time": "1d", "cap": cap}]},
                    "trust": {KEEPERS[0]: keys[KEEPERS[0]]},
                }
            role = AGENT if name in self.values else KEEPER
            text = policy_text(
                hub=self.address,
                authority=authority,
                keys=Path(name),
                ledger=Path(f"{name}.ledger"),
                role=role,
                **more,
            )
            (self.folder / f"{name}.toml").write_text(text)

    def rows(self) -> list[Any]:
        """Return the sessions as the hub's store has them."""
        store = HubStore(self.folder / "hub")
        try:
            rows = store.sessions("load")
            for row in rows:
                if row["data"] and row["id"] not in self.seen:
                    self.seen[row["id"]] = Session.decode(row["data"])
            return rows
        finally:
            store.close()

    def stop(self) -> dict[str, int]:
        """Ask all to stop; return their exit codes."""
        for process in self.running.values():
            process.send_signal(signal.SIGTERM)
        return {name: process.wait(120) for name, process in self.running.items()}


def drive(fleet: FleetOfProcesses, every: float, say: Any) -> None:
    """Run the sessions, and kill agents, keepers and the hub meanwhile."""
    fleet.tacit(
        *["hub", "run", "hub", "--name", "load", "--every", f"{every}s", "--times", str(fleet.sessions)],
        *["--loss", str(LOSS), "--range", f"{LOW}:{HIGH}", "--law", "one-shot"],
        *["--keepers", ",".join(KEEPERS), "--least", str(len(fleet.values) // 2), "--anyway"],
    )
    rng, down = random.Random(1), list[tuple[float, str]]()
    # After so many sessions; a keeper between the restarts of the hub, and each of them more than once.
    kills = [(fleet.sessions * i // 9, "hub" if i in (3, 6) else KEEPERS[i % 2]) for i in range(1, 9)]
    next_kill = time.time() + 5
    while True:
        rows = fleet.rows()
        over = sum(row["state"] != "running" for row in rows)
        if over >= fleet.sessions:
            break
        if kills and len(rows) >= kills[0][0]:
            name = kills.pop(0)[1]
            fleet.kill(name)
            say(f"{name} killed after {len(rows)} sessions, {over} over")
            fleet.start(name)
        while down and time.time() >= down[0][0]:
            fleet.start(down.pop(0)[1])
        if time.time() >= next_kill and len(rows) < fleet.sessions:
            next_kill = time.time() + 5
            name = rng.choice(sorted(set(fleet.values) - {name for _, name in down}))
            fleet.kill(name)
            down.append((time.time() + 3, name))
        time.sleep(0.5)
    for _, name in down:
        fleet.start(name)
    say(f"all {fleet.sessions} sessions are over")


def judge(fleet: FleetOfProcesses, codes: dict[str, int]) -> dict[str, Any]:
    """Hold what happened against what was promised."""
    wrong, worst, states, used = list[str](), 0.0, Counter[str](), list[int]()
    radii: dict[int, float] = {}
    rows = fleet.rows()
    for row in rows:
        states[row["state"]] += 1
        if row["state"] != "finished":
            continue
        session, result = fleet.seen[row["id"]], json.loads(row["result"])
        names = [member.name for member in session.roster if member.name not in result["missing"]]
        used.append(len(names))
        if len(names) not in radii:
            radii[len(names)] = radius_for(session, len(names), RARE)
        off = abs(result["mean"] - sum(fleet.values[name] for name in names) / len(names))
        worst = max(worst, off / radii[len(names)])
        if off > radii[len(names)]:
            wrong.append(f"{row['name']} is {off:g} off, more than {radii[len(names)]:g}")
    spent = {}
    for name in fleet.values:
        with Ledger(fleet.folder / f"{name}.ledger", create=False) as ledger:
            ledger.settle_expired()
            spent[name] = ledger.spent("value")
            if spent[name] > LOSS * fleet.sessions:
                wrong.append(f"{name} has lost {spent[name]:g}")
    wrong += [f"{name} ended with {code}" for name, code in codes.items() if code]
    logs = [path for path in fleet.folder.iterdir() if path.suffix in (".jsonl", ".out")]
    told = "".join(path.read_text() for path in logs)
    wrong += [
        f"the value of {name} is in a log" for name, v in fleet.values.items() if f"{v:.9f}"[:9] in told
    ]
    if "Traceback" in told or "cannot explain" in told:
        wrong.append("a log has a traceback")
    made, ended = [row["made"] for row in rows], [row["ended"] for row in rows if row["ended"]]
    return {
        "agents": len(fleet.values),
        "keepers": len(KEEPERS),
        "sessions": dict(states),
        "agents killed": fleet.kills["agent"],
        "keepers killed": fleet.kills["keeper"],
        "hub killed": fleet.kills["hub"],
        "seconds": round(max(ended) - min(made), 1),
        "messages used, least and most": [min(used, default=0), max(used, default=0)],
        "largest error as a share of its radius": round(worst, 3),
        "largest loss and cap": [max(spent.values()), LOSS * fleet.sessions],
        "log lines searched for values": told.count("\n"),
        "events": dict(Counter(re.findall(r'"event": "([a-z-]+)"', told)).most_common()),
        "wrong": wrong,
    }


def main() -> int:
    """Run a fleet and judge it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--agents", type=int, default=50)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--every", type=float, default=1.0, help="seconds between the beginnings of sessions")
    parser.add_argument("--folder", type=Path, help="keep everything here")
    options = parser.parse_args()
    begun = time.time()

    def say(text: str) -> None:
        print(f"{time.time() - begun:6.1f} s  {text}", flush=True)

    folder = options.folder or Path(tempfile.mkdtemp(prefix="tacit-fleet-"))
    folder.mkdir(exist_ok=True, mode=0o700)
    fleet = FleetOfProcesses(folder, options.agents, options.sessions)
    try:
        fleet.start("hub")
        time.sleep(3)
        fleet.enrol()
        say(f"{options.agents} agents and {len(KEEPERS)} keepers are enrolled")
        for name in (*KEEPERS, *fleet.values):
            fleet.start(name)
        drive(fleet, options.every, say)
        time.sleep(5)
        found = judge(fleet, fleet.stop())
    finally:
        for process in fleet.running.values():
            process.kill()
        if options.folder is None:
            shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(found, indent=2))
    return 1 if found["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
