"""What an agent that follows a hub costs its machine: start, memory, and a ledger after many sessions.

Run from the repository: ``python -m benchmarks.follower [--sessions 20] [--ledger 10000]``

Two parts. **Live**: a hub, two keepers and three agents as processes, with sessions first without and then
with keepers. It prints how long members took from start until the hub's log says that they are connected, and
their resident memory (RSS and its anonymous part, `/proc/PID/status`) before the first session and after so
many. **Ledger**: an agent's ledger and keys after so many short sessions, written through the ledger's own
functions, as they are and after `key_guard.compact`: bytes, files, and how long a new process takes to open
them. This is no test of speed: it asserts nothing.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.fleet import HIGH, KEEPERS, LOW, FleetOfProcesses
from tacit.core.protocol.records import Began, Ended, Moved, Spoke
from tacit.live.fleet.store import HubStore
from tacit.live.ledger import key_guard
from tacit.live.ledger.ledger import Ledger

LIFE, EVERY = 600, 60.0
OPENED = """
import sys, time
from tacit.live.ledger.ledger import Ledger
def resident():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmRSS")).split()[1])
before, begun = resident(), time.perf_counter()
Ledger(sys.argv[1]).close()
print(time.perf_counter() - begun, resident() - before)
"""


def memory(pid: int) -> tuple[float, float]:
    """Return the resident memory of a process and its anonymous part, in MB (10^6 bytes)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    facts = dict(line.split(":", 1) for line in lines if ":" in line)
    return tuple(int(facts[name].split()[0]) * 1024 / 1e6 for name in ("VmRSS", "RssAnon"))  # type: ignore[return-value]


def tell_memory(fleet: FleetOfProcesses, when: str) -> None:
    """Print the largest memory of agents, of keepers and of the hub."""
    for kind, names in (("agents", list(fleet.values)), ("keepers", list(KEEPERS)), ("hub", ["hub"])):
        found = [memory(fleet.running[name].pid) for name in names]
        rss, anonymous = max(found)
        print(f"  {when}: {kind} {rss:.1f} MB at most, {anonymous:.1f} MB of it anonymous")


def until_connected(fleet: FleetOfProcesses, name: str) -> float:
    """Start a member; return the seconds until the hub has let it in."""
    log, begun = fleet.folder / "hub.jsonl", time.time()
    seen = len(log.read_text().splitlines())
    fleet.start(name)
    while True:
        for line in log.read_text().splitlines()[seen:]:
            told = json.loads(line)
            if told["event"] == "connected" and told["member"] == name:
                return float(told["time"]) - begun
        time.sleep(0.002)


def run(fleet: FleetOfProcesses, name: str, times: int, *more: str) -> None:
    """Run sessions and wait for their end."""
    fleet.tacit(
        *[
            "hub",
            "run",
            "hub",
            "--name",
            name,
            "--every",
            "0.5s",
            "--times",
            str(times),
            "--loss",
            "0.1",
            "--anyway",
        ],
        *[
            "--range",
            f"{LOW}:{HIGH}",
            "--law",
            "one-shot",
            "--least",
            str(len(fleet.values)),
            *more,
        ],
    )
    store = HubStore(fleet.folder / "hub")
    while sum(row["state"] != "running" for row in store.sessions(name)) < times:
        time.sleep(0.2)
    print(f"  {dict(store.outcomes())} so far")
    store.close()


def live(folder: Path, sessions: int) -> None:
    """Start a small fleet and watch its memory."""
    fleet = FleetOfProcesses(folder, 3, 10 * sessions)
    try:
        fleet.start("hub")
        time.sleep(2)
        fleet.enrol()
        starts = [until_connected(fleet, name) for name in (*KEEPERS, *fleet.values)]
        for name in fleet.values:
            fleet.kill(name)
            starts.append(until_connected(fleet, name))
        print(f"from start until connected, {len(starts)} starts: {_spread(starts)} s")
        time.sleep(1)
        tell_memory(fleet, "before the first session")
        run(fleet, "one", 1)
        tell_memory(fleet, "after 1 session without keepers")
        run(fleet, "plain", sessions)
        tell_memory(fleet, f"after {sessions + 1} sessions without keepers")
        run(fleet, "kept", sessions, "--keepers", ",".join(KEEPERS))
        tell_memory(fleet, f"after {sessions} more with keepers")
    finally:
        for process in fleet.running.values():
            process.kill()
            process.wait()


def _spread(numbers: list[float]) -> str:
    return f"{min(numbers):.2f} to {max(numbers):.2f}, median {statistics.median(numbers):.2f}"


def grown(folder: Path, sessions: int) -> None:
    """Write many short sessions, and measure the ledger before and after it is compacted."""
    path, keys = folder / "agent.ledger", folder / "keys"
    keys.mkdir(mode=0o700)
    state, frame = bytes(64), bytes(220)  # about what an agent's records hold
    with Ledger(path) as ledger:
        key_guard.take(keys, ledger)
        for i in range(sessions):
            session, at = i.to_bytes(31, "big") + b"\1", EVERY * i
            expires = int(at) + LIFE
            ledger.reserve(
                session, "value", planned=0.1, adjacency=10.0, diameter=10.0, cap=1e9, now=at, expires=expires
            )
            key_guard.bind(keys, session, ledger, expires)
            began, moved = Began(session, 0, state, 0.1, 0.0, 1e9), Moved(0, (frame,), (), b"", state, b"")
            last = Moved(1, (frame,), (), b"", state, b"")
            ledger.append(session, [began, Spoke(0, frame, 0.1), moved, last, Ended(2, None)])
    measure(f"after {sessions:,} sessions", path, keys)
    with Ledger(path) as ledger:
        begun = time.perf_counter()
        count = key_guard.compact(keys, ledger, EVERY * sessions)
        print(f"  {count:,} of them dropped in {time.perf_counter() - begun:.2f} s")
    measure("compacted", path, keys)


def measure(when: str, path: Path, keys: Path) -> None:
    """Print sizes, and how long a new process takes to open the ledger."""
    size, files = path.stat().st_size, len(list((keys / "sessions").iterdir()))
    done = [
        subprocess.run([sys.executable, "-c", OPENED, str(path)], check=True, capture_output=True)
        for _ in range(5)
    ]
    best = min([float(one.stdout.split()[0]), int(one.stdout.split()[1])] for one in done)
    print(
        f"{when}: ledger {size:,} bytes, {files:,} files with the keys, opened in {best[0]:.3f} s, "
        f"{best[1] * 1024 / 1e6:.1f} MB of memory"
    )


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sessions", type=int, default=20, help="sessions of each kind; 0 for none")
    parser.add_argument("--ledger", type=int, default=10_000, help="sessions in the ledger; 0 for none")
    options = parser.parse_args()
    for work, count in ((live, options.sessions), (grown, options.ledger)):
        if count:
            with tempfile.TemporaryDirectory(prefix="tacit-follower-") as folder:
                work(Path(folder), count)


if __name__ == "__main__":
    main()
