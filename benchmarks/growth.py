"""How cost grows: time and memory of every main operation over three decades or more, with the fitted power.

Run from the repository: ``python -m benchmarks.growth [--quick] [--json FILE]``

Each operation runs in a process of its own, from small sizes to large ones, the best of a few tries each.
Memory is the peak that the process grew by. The power is the slope of a line through the larger half of the
sizes, in logarithms. What should be linear must not grow with a power above 1.15, what should not depend
on the size with one above 0.1. Eigenvalues are not linear: at the edge of a random graph's spectrum they lie
N^(−2/3) apart, so Lanczos takes some N^(1/3) steps, each linear.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

LINEAR, EDGE, FLAT = 1.15, 1.45, 0.1
WORTH = 0.02  # seconds below which a call is repeated
TRIES, LONG = 3, 5.0


@dataclass(frozen=True)
class Operation:
    """What is done at every size; `at` prepares a size, and returns the call that is timed."""

    key: str
    name: str
    of: str
    sizes: tuple[int, ...]
    most: float
    at: Callable[[int], Callable[[], object]]


@dataclass(frozen=True)
class Growth:
    """What one operation took."""

    name: str
    of: str
    sizes: list[int]
    seconds: list[float]
    bytes: list[int]
    most: float
    power: float
    met: bool


def _graph(n: int) -> Callable[[], object]:
    from tacit import Graph

    return lambda: Graph.from_name(f"regular:{n}:8:seed=1")


def _distributed(n: int) -> Callable[[], object]:
    from tacit import Distributed, Fading, Graph
    from tacit.lab.simulation import simulate

    mechanism = Distributed(Fading(0.8, 10.0, 0.6), Graph.from_name(f"regular:{n}:8:seed=1"))
    values = np.zeros(n)
    return lambda: simulate(mechanism, values, 10)


def _served(n: int) -> Callable[[], object]:
    from tacit import ClientServer, Fading
    from tacit.lab.simulation import simulate

    mechanism, values = ClientServer(Fading(0.8, 10.0, 0.6), n), np.zeros(n)
    return lambda: simulate(mechanism, values, 10)


def _outcomes(n: int) -> Callable[[], object]:
    from tacit import ClientServer, Fading
    from tacit.lab.simulation import sample_outcome

    mechanism = ClientServer(Fading(0.8, 10.0, 0.6), n)
    return lambda: sample_outcome(mechanism, 10_000, rounds=30)


def _radius(n: int) -> Callable[[], object]:
    from tacit import ClientServer, Fading
    from tacit.core.theory.accuracy import radius

    return lambda: radius(ClientServer(Fading(0.8, 10.0, 0.6), n), 0.05)


def _eigenvalues(n: int) -> Callable[[], object]:
    from tacit import Graph
    from tacit.core.theory.spectrum import extremes

    graph = Graph.from_name(f"regular:{n}:8:seed=1")
    return lambda: extremes(graph, np.ones(n))


def _exact_noise(n: int) -> Callable[[], object]:
    from tacit.core.noise import SafeNoise

    return lambda: SafeNoise().draw(2.0**40, n)


def _ledger(n: int) -> Callable[[], object]:
    from tacit.core.protocol.records import Closed
    from tacit.live.ledger.ledger import Ledger

    file = Path(tempfile.mkdtemp(prefix="tacit-growth-")) / "agent.ledger"
    atexit.register(shutil.rmtree, file.parent, ignore_errors=True)
    session, frame = bytes([1]) * 32, os.urandom(160)
    with Ledger(file) as ledger:
        for start in range(0, n, 500):
            ledger.append(session, [Closed(i, frame, (), ()) for i in range(start, min(n, start + 500))])

    def read() -> None:
        with Ledger(file) as ledger:
            assert len(ledger.records(session)) == n

    return read


DECADES = (10**3, 10**4, 10**5, 10**6)
WIDE = (10**3, 10**5, 10**7, 10**9)
OPERATIONS = {
    each.key: each
    for each in (
        Operation("graph", "random graph of degree 8", "agents", DECADES, LINEAR, _graph),
        Operation(
            "distributed", "10 rounds on that graph", "agents", (*DECADES, 4 * 10**6), LINEAR, _distributed
        ),
        Operation("served", "10 rounds around a server", "agents", (*DECADES, 10**7), LINEAR, _served),
        Operation("eigenvalues", "extreme eigenvalues", "agents", (10**2, *DECADES[:3]), EDGE, _eigenvalues),
        Operation("outcomes", "10,000 outcomes without agents", "agents", WIDE, FLAT, _outcomes),
        Operation("radius", "exact radius", "agents", WIDE, FLAT, _radius),
        Operation("noise", "exact noise", "components", (10**2, 10**3, 10**4, 10**5), LINEAR, _exact_noise),
        Operation(
            "ledger", "open and check a ledger", "records", (10**2, 10**3, 10**4, 10**5), LINEAR, _ledger
        ),
    )
}


def measure(key: str, most_size: float) -> None:
    """Print what every size of one operation took, as JSON; in a process of its own."""
    operation = OPERATIONS[key]
    operation.at(operation.sizes[0])()  # loads and compiles what is needed
    rows = []
    for size in (size for size in operation.sizes if size <= most_size):
        before = _peak()
        call = operation.at(size)
        rows.append((size, _best(call), _peak() - before))
    print(json.dumps(rows))


def _best(call: Callable[[], object]) -> float:
    """Time a call a few times, or once where that is long enough."""
    best = _seconds(call)
    for _ in range(TRIES - 1 if best < LONG else 0):
        best = min(best, _seconds(call))
    return best


def _seconds(call: Callable[[], object]) -> float:
    """Time a call, several in a row where one is too short to time."""
    calls, begin = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - begin) < WORTH or not calls:
        call()
        calls += 1
    return elapsed / calls


def _peak() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def growth(operation: Operation, most_size: float) -> Growth:
    """Measure one operation, and fit."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.growth",
        "--measure",
        operation.key,
        "--most",
        str(most_size),
    ]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    sizes, seconds, peaks = (list(column) for column in zip(*json.loads(output), strict=True))
    half = slice(len(sizes) // 2 - 1, None)
    power = float(np.polyfit(np.log(sizes[half]), np.log(seconds[half]), 1)[0])
    return Growth(
        operation.name, operation.of, sizes, seconds, peaks, operation.most, power, power <= operation.most
    )


def show(found: list[Growth], console: Console) -> None:
    """Print one row per operation."""
    table = Table(title="how cost grows", title_justify="left")
    for heading in ("operation", "sizes", "ms, smallest to largest", "peak growth", "power", "at most"):
        table.add_column(heading, justify="left" if heading == "operation" else "right")
    for each in found:
        table.add_row(
            each.name,
            f"10^{np.log10(each.sizes[0]):.0f} to {each.sizes[-1]:.0e} {each.of}".replace(
                "e+0", "·10^"
            ).replace("1·", ""),
            " ".join(f"{1e3 * seconds:.3g}" for seconds in each.seconds),
            f"{max(each.bytes) / 2**20:,.0f} MiB",
            f"{each.power:.2f}",
            f"{each.most} {'met' if each.met else 'MISSED'}",
        )
    console.print(table)


def main() -> None:
    """Measure all operations, one process each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="sizes up to 100,000 only")
    parser.add_argument("--json", type=Path, help="write what was measured to this file")
    parser.add_argument("--measure", choices=tuple(OPERATIONS), help=argparse.SUPPRESS)
    parser.add_argument("--most", type=float, default=float("inf"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure, options.most)
        return
    most_size = 10**5 if options.quick else float("inf")
    found = [growth(operation, most_size) for operation in OPERATIONS.values()]
    show(found, Console())
    if options.json:
        options.json.write_text(json.dumps({"growth": [asdict(each) for each in found]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
