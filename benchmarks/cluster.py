"""What it costs to cut a graph up over workers, beside one process that holds it whole.

Run from the repository: ``python -m benchmarks.cluster [--quick] [--json FILE]``

Both use the same cores: the engine two threads, the cluster two workers of one thread each, as processes.
"""

from __future__ import annotations

from importlib.metadata import version

from distributed import Client, LocalCluster

from benchmarks.harness import CORES, Contestant, Question, ask, unseen
from tacit import Distributed, Fading, Graph
from tacit.simulation import Record, simulate, simulate_partitioned
from tacit.simulation.sweep_plan import values_between

PARAMETERS = Fading(sigma=0.8, c=10.0, q=0.6)
ROUNDS = 30
VALUES = "uniform:0:1:1"
KEEP = Record(states=False, average=True)


def partitioned(side: int, client: Client) -> Question:
    """The same run on a torus, whole and in parts."""
    name = f"torus:{side}x{side}"
    graph = Graph.from_name(name)
    values = values_between(VALUES, 0, graph.n)
    mechanism = Distributed(PARAMETERS, graph)
    return Question(
        f"{graph.n:,} agents on a torus, {ROUNDS} rounds",
        "round",
        [
            Contestant(
                "tacit.simulation, one process",
                lambda: simulate(mechanism, values, ROUNDS, record=KEEP),
                ROUNDS,
            ),
            Contestant(
                f"in parts, Dask {version('distributed')}",
                lambda: simulate_partitioned(PARAMETERS, name, VALUES, ROUNDS, cluster=client, record=KEEP),
                ROUNDS,
                unseen,
            ),
        ],
    )


if __name__ == "__main__":
    with (
        LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=CORES, threads_per_worker=1, dashboard_address=":0"
        ) as local,
        Client(local) as client,  # type: ignore[no-untyped-call]
    ):
        ask(__doc__, lambda quick: [partitioned(300 if quick else 2000, client)], turns=5)
