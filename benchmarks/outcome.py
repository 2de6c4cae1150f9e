"""Outcomes without agents, exact radii and eigenvalues: what closed forms save.

Run from the repository: ``python -m benchmarks.outcome [--quick] [--json FILE]``

- how far a run ends from the target: sampled without its 10^3, 10^6 or 10^9 agents, and simulated;
- the exact radius, against the same quantile of as many sampled outcomes as three digits take;
- the extreme eigenvalues of a Laplacian, with proved bounds, against SciPy's eigsh.
"""

from __future__ import annotations

from importlib.metadata import version

import numpy as np
from scipy.sparse.linalg import eigsh

from benchmarks.harness import Contestant, Goal, Question, ask
from tacit import ClientServer, Fading, Graph
from tacit.core.theory.accuracy import deviation, radius
from tacit.core.theory.spectrum import extremes
from tacit.lab.simulation import Record, sample_outcome, simulate

PARAMETERS = Fading(sigma=0.8, c=10.0, q=0.6)
OUTCOMES = 100_000
ROUNDS = 30
DIGITS = 1e-3  # relative standard error of a sampled radius


def sampling() -> Question:
    """Ask for outcomes of few and of many agents."""

    def contestant(agents: int, name: str) -> Contestant:
        mechanism = ClientServer(PARAMETERS, agents)
        return Contestant(name, lambda: sample_outcome(mechanism, OUTCOMES, rounds=ROUNDS), OUTCOMES / 1000)

    few = ClientServer(PARAMETERS, 1000)
    engine = "tacit.lab.simulation, 10^3 agents"
    return Question(
        "how far a run ends from the target, 30 rounds around a server",
        "1,000 outcomes",
        [
            Contestant(
                engine,
                lambda: simulate(
                    few, np.zeros(1000), ROUNDS, runs=1000, record=Record(states=False, average=True)
                ),
            ),
            contestant(10**3, "sampled, 10^3 agents"),
            contestant(10**6, "sampled, 10^6 agents"),
            contestant(10**9, "sampled, 10^9 agents"),
        ],
        # flat within a fifth
        [Goal("sampled, 10^3 agents", 0.8), Goal("sampled, 10^6 agents", 0.8)],
    )


def exact_radius(agents: int) -> Question:
    """Ask for the radius of a new mechanism every time, so that nothing is remembered."""
    b, c = 0.05, iter(np.linspace(9.0, 11.0, 10**6).tolist())

    def fresh() -> ClientServer:
        return ClientServer(Fading(0.8, next(c), 0.6), agents)

    law, r = deviation(fresh(), ROUNDS), radius(fresh(), b, ROUNDS)
    density = (law.exceedance(0.999 * r).high - law.exceedance(1.001 * r).high) / (0.002 * r)
    samples = int(b * (1 - b) / (density * r * DIGITS) ** 2)

    def sampled() -> float:
        return float(np.quantile(np.abs(sample_outcome(fresh(), samples, rounds=ROUNDS)), 1 - b))

    return Question(
        f"radius of {agents:,} agents around a server, {ROUNDS} rounds",
        "radius",
        [
            Contestant(f"{samples:,} sampled outcomes, 3 digits", sampled),
            Contestant("tacit, exact", lambda: radius(fresh(), b, ROUNDS)),
        ],
    )


def eigenvalues(agents: int) -> Question:
    """Ask for both ends of a spectrum."""
    graph = Graph.from_name(f"regular:{agents}:8:seed=1")
    laplacian, ones = graph.laplacian(), np.ones(graph.n)
    start = np.random.default_rng(0).normal(size=graph.n)

    def plain() -> None:
        eigsh(laplacian, k=2, which="SA", v0=start, tol=1e-3, return_eigenvectors=False)
        eigsh(laplacian, k=1, which="LA", v0=start, tol=1e-3, return_eigenvectors=False)

    return Question(
        f"extreme eigenvalues of a Laplacian to 3 digits, {agents:,} agents of degree 8",
        "graph",
        [
            Contestant(f"SciPy {version('scipy')}, eigsh", plain),
            Contestant("tacit, with proved bounds", lambda: extremes(graph, ones)),
        ],
        long=agents > 10**5,
    )


if __name__ == "__main__":
    ask(
        __doc__,
        lambda quick: [sampling(), exact_radius(500), eigenvalues(10**4 if quick else 10**6)],
        turns=5,
    )
