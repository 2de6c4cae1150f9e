"""How fast the engine is, against a textbook loop and against the least it must do.

Run from the repository: ``python -m benchmarks.engine [--quick] [--json FILE] [--skip-memory]``

Contestants:

- textbook: NumPy and SciPy as one would write it, ``rng.laplace``, ``A @ x``, a vector update;
- JAX: the same, compiled, in an environment of its own (`benchmarks.peers`);
- limit: the engine's own sum over closed neighbourhoods alone, on all cores, without any noise;
- tacit: `tacit.lab.simulation.simulate`.

The first question is asked again in a process whose compiled code has no more than AVX2.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numba
import numpy as np
from rich.console import Console

from benchmarks import peers
from benchmarks.harness import CORES, Answer, Contestant, Goal, Question, race, save, show
from benchmarks.network_turns import Troupe
from tacit import ClientServer, Distributed, Fading, Graph
from tacit.base.arrays import FloatArray
from tacit.lab.simulation import simulate
from tacit.lab.simulation._simd import closed_sum
from tacit.lab.simulation.threads import ThreadTeam, even_work

PARAMETERS = Fading(sigma=0.8, c=10.0, q=0.6)
ROUNDS = 30
PEAK_GOAL = 4 * 1024**3
TEXTBOOK = f"NumPy {version('numpy')}, SciPy {version('scipy')}"
LIMIT = "noise-free gather-sum, the limit"
AVX2 = {
    "NUMBA_CPU_NAME": "haswell",
    "NUMBA_CPU_FEATURES": "+avx2,+fma,+bmi,+bmi2,+sse4.2,+popcnt,+lzcnt",
}


# ---------------------------------------------------------------- contestants


def textbook_graph(graph: Graph, values: FloatArray, rounds: int, seed: int) -> FloatArray:
    """θ after some rounds on a graph; `values` may have one column per run."""
    rng = np.random.default_rng(seed)
    a = graph.adjacency()
    closed = (graph.degrees + 1.0).reshape((-1,) + (1,) * (values.ndim - 1))
    sigma, c, q = PARAMETERS.sigma, PARAMETERS.c, PARAMETERS.q
    theta = values
    for t in range(rounds):
        x = theta + rng.laplace(scale=c * q**t, size=theta.shape)
        theta = (1 - sigma) * theta + sigma * (x + a @ x) / closed
    return theta


def textbook_server(values: FloatArray, rounds: int, seed: int) -> FloatArray:
    """θ after some rounds with a server; `values` may have one row per run."""
    rng = np.random.default_rng(seed)
    sigma, c, q = PARAMETERS.sigma, PARAMETERS.c, PARAMETERS.q
    theta = values
    for t in range(rounds):
        x = theta + rng.laplace(scale=c * q**t, size=theta.shape)
        theta = (1 - sigma) * theta + sigma * x.mean(axis=-1, keepdims=True)
    return theta


@numba.njit(nogil=True)
def _closed_sums(indptr, indices, x, out, lanes, lo, hi):  # type: ignore[no-untyped-def]  # noqa: PLR0917
    for i in range(lo, hi):
        closed_sum(x, indices, indptr[i], indptr[i + 1], i, out, i, lanes)


def limit(graph: Graph, rounds: int, width: int) -> Callable[[], None]:
    """Sum over neighbourhoods and nothing else, with the engine's own gather, threads and shares."""
    x, out = (np.random.default_rng(0).random(graph.n * width) for _ in range(2))
    work = partial(_closed_sums, graph.indptr, graph.indices, x, out, (0,) * width)
    crew = ThreadTeam(CORES)
    bounds = even_work(graph.indptr, crew)

    def call() -> None:
        for _ in range(rounds):
            crew.share(work, bounds)

    return call


@contextmanager
def in_jax(graph: Graph) -> Iterator[Contestant]:
    """Hand the graph to JAX, in a process of its own."""
    with tempfile.NamedTemporaryFile(suffix=".npz") as file:
        np.savez(file, indptr=graph.indptr, indices=graph.indices)
        file.flush()
        numbers = map(str, (PARAMETERS.sigma, PARAMETERS.c, PARAMETERS.q))
        command = ["benchmarks.peers.jax_rounds", file.name, *numbers]
        with Troupe([command], python=str(peers.PYTHON)) as jax:
            yield Contestant(f"JAX {peers.version('jax')}", lambda: jax.go(5), 5, jax.used)


# ---------------------------------------------------------------- questions


def on_a_large_graph(graph: Graph, runs: int, *others: Contestant) -> Question:
    """One run, or some at once."""
    values = np.random.default_rng(1).random(graph.n)
    mechanism = Distributed(PARAMETERS, graph)
    together = np.repeat(values[:, None], 8, axis=1)
    rounds = ROUNDS if runs == 1 else ROUNDS // 2
    contestants = [
        Contestant(TEXTBOOK, lambda: textbook_graph(graph, values, 3, 0), 3),
        *others,
        Contestant(LIMIT, limit(graph, 10, min(runs, 16)), 10 * min(runs, 16)),
        Contestant("tacit", lambda: simulate(mechanism, values, rounds, runs=runs), runs * rounds),
    ]
    goals = [Goal(TEXTBOOK, 2.5), Goal(LIMIT, 0.6)]
    if runs > 1:
        contestants.insert(
            1, Contestant("the same, 8 runs at once", lambda: textbook_graph(graph, together, 1, 0), 8)
        )
        goals = [Goal(TEXTBOOK, 5.0)]
    title = f"{graph.n:,} agents of degree {int(graph.degrees[0])}, {runs} run{'s' if runs > 1 else ''}"
    return Question(title, "round, run", contestants, goals)


def with_a_server(agents: int, runs: int) -> Question:
    """Many short runs with a server."""
    values = np.random.default_rng(1).random(agents)
    rows = np.repeat(values[None, :], runs, axis=0)
    mechanism = ClientServer(PARAMETERS, agents)

    def one_by_one() -> None:
        for run in range(runs // 10):
            textbook_server(values, ROUNDS, run)

    return Question(
        f"client-server, {agents} agents, {runs:,} runs",
        "round",
        [
            Contestant(TEXTBOOK, one_by_one, ROUNDS / 10),
            Contestant("the same, all runs at once", lambda: textbook_server(rows, 3, 0), 3),
            Contestant("tacit", lambda: simulate(mechanism, values, ROUNDS, runs=runs), ROUNDS),
        ],
        [Goal(TEXTBOOK, 8.0)],
    )


def on_a_small_graph(graph: Graph, runs: int) -> Question:
    """Many short runs on a graph."""
    values = np.random.default_rng(1).random(graph.n)
    columns = np.repeat(values[:, None], runs, axis=1)
    mechanism = Distributed(PARAMETERS, graph)

    def one_by_one() -> None:
        for run in range(runs // 10):
            textbook_graph(graph, values, ROUNDS, run)

    return Question(
        f"distributed, {graph.n} agents of degree {int(graph.degrees[0])}, {runs:,} runs",
        "round",
        [
            Contestant(TEXTBOOK, one_by_one, ROUNDS / 10),
            Contestant("the same, all runs at once", lambda: textbook_graph(graph, columns, 3, 0), 3),
            Contestant("tacit", lambda: simulate(mechanism, values, ROUNDS, runs=runs), ROUNDS),
        ],
    )


# ---------------------------------------------------------------- memory


def regular(n: int) -> Graph:
    """Make a random graph in which everyone has eight neighbours."""
    return Graph.from_name(f"regular:{n}:8:seed=1")


def peak(n: int) -> None:
    """Print the peak memory of this process: after making the graph, and after a simulation."""
    graph = regular(n)
    made = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    simulate(Distributed(PARAMETERS, graph), np.random.default_rng(1).random(n), ROUNDS)
    done = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"agents": n, "graph_bytes": 1024 * made, "peak_bytes": 1024 * done}))


def memory(n: int) -> dict[str, int]:
    """Measure the peak in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.engine", "--peak", str(n)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    measured: dict[str, int] = json.loads(output)
    return measured


def on_avx2(*, quick: bool) -> Answer:
    """Ask the first question in a process that compiles for AVX2 alone."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [sys.executable, "-m", "benchmarks.engine", "--only", "1", "--skip-memory"]
        subprocess.run(
            [*command, "--json", file.name, *["--quick"] * quick],
            check=True,
            stdout=subprocess.DEVNULL,
            env=os.environ | AVX2,
        )
        (found,) = json.loads(Path(file.name).read_text())["answers"]
    return Answer(**{**found, "title": f"{found['title']}, AVX2 alone"})


def main() -> None:
    """Ask every question and report."""
    parser = argparse.ArgumentParser(description="How fast is the engine?")
    parser.add_argument("--quick", action="store_true", help="smaller sizes and fewer repetitions")
    parser.add_argument("--only", type=int, help="ask the question of this number alone")
    parser.add_argument("--skip-memory", action="store_true", help="do not simulate ten million agents")
    parser.add_argument("--json", type=Path, help="where to write what was measured")
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        peak(options.peak)
        return
    limited = os.environ.items() >= AVX2.items()  # this is the process that `on_avx2` started
    console = Console()
    large, repetitions = (100_000, 5) if options.quick else (1_000_000, 11)
    graph = regular(large)
    answers: list[Answer] = []
    with in_jax(graph) if peers.available() and not limited else nullcontext() as jax:
        questions = [
            on_a_large_graph(graph, 1, *([jax] if jax else [])),
            on_a_large_graph(graph, 16),
            with_a_server(500, 1000),
            on_a_small_graph(regular(500), 1000),
        ]
        for question in questions if options.only is None else [questions[options.only - 1]]:
            answers.append(race(question, repetitions))
            show(answers[-1], console)
    if options.only in (None, 1) and not limited:
        answers.insert(1, on_avx2(quick=options.quick))
        show(answers[1], console)
    facts: dict[str, object] = {}
    if not options.skip_memory:
        facts["memory"] = measured = memory(large * 10)
        met = "met" if measured["peak_bytes"] < PEAK_GOAL else "MISSED"
        console.print(
            f"{measured['agents']:,} agents of degree 8: peak {measured['peak_bytes'] / 2**30:.2f} GiB, "
            f"of which making the graph {measured['graph_bytes'] / 2**30:.2f} GiB (goal: under 4 GiB, {met})"
        )
    if options.json:
        save(answers, options.json, **facts)


if __name__ == "__main__":
    main()
