"""Simulate a graph that is too large for one worker, in parts.

A Dask cluster holds the parts. Each is a range of agents with their rows of the graph, states and messages,
and stays on its worker. In a round only messages between parts are sent: those of agents with a neighbour in
another part (the halo). Every step is a pure function of the part's last state and its halo. So if a worker
dies, its parts are computed again on another worker from the start, with the same numbers.

The numbers are those of `tacit.simulation.simulate` on the same seed, bit for bit: noise belongs to the
agent, sums over neighbours keep their order, and parts begin at the blocks of the average.
"""

from __future__ import annotations

import secrets
import warnings
from collections import deque
from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tacit.arrays import FloatArray, IntArray
from tacit.errors import ParameterError
from tacit.graph import Graph
from tacit.law import Law
from tacit.mechanism.topology import ClosedNeighbourhood, Weights, WeightsLike, resolve_weights
from tacit.noise.simulated import as_seed
from tacit.simulation import _kernels
from tacit.simulation import partition_steps as steps
from tacit.simulation._layout import WIDEST, cut
from tacit.simulation.cluster import connected
from tacit.simulation.partition_steps import Job, PartWeights
from tacit.simulation.record import Record
from tacit.simulation.recorder import LONG_NAMES, attributes, labelled_parameters
from tacit.simulation.rows import Rows, SlicedRows, rows_of

if TYPE_CHECKING:
    import xarray as xr

AHEAD = 8  # rounds that are submitted to the scheduler in advance


def simulate_partitioned(
    law: Law,
    graph: Graph | Rows | str,
    values: npt.ArrayLike | str,
    rounds: int,
    *,
    cluster: Any,
    weights: WeightsLike = None,
    parts: int | None = None,
    runs: int = 1,
    seed: int = 0,
    record: Record | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> xr.Dataset:
    """Run the distributed mechanism on a graph that is spread over a cluster.

    Parameters
    ----------
    law : Law
        Every parameter except mixing and noise must be one number for all agents.
    graph : Graph, Rows or str
        A whole graph is split here and sent. Rows (`tacit.simulation.rows`), and the names ``ring:…`` and
        ``torus:…``, are built on the workers, part by part. Rows are not checked for being connected.
    values : array_like of shape (n,) or (n, k), or str
        θ(0): an array, split and sent; or ``zeros`` or ``uniform:LOW:HIGH:SEED``, made on the workers.
    rounds, runs, seed
        As of `simulate`.
    cluster : str or distributed.Client
        Address of a Dask scheduler, or a client; its workers need this tacit.
    weights : str, Weights or matrix, optional
        As of `Distributed`. Others than plain means need a whole graph.
    parts : int, optional
        One per thread of the cluster if not given. Each but the last has a multiple of 1,024 agents.
    record : Record, optional
        What to keep: all states or none, and the average, of some rounds; the final states by default.
    progress : callable, optional
        Called with the number of finished rounds and of all rounds.

    Returns
    -------
    xarray.Dataset
        As of `simulate`; but if a client is given, ``theta`` stays on the cluster, as a Dask array.

    Examples
    --------
    >>> from distributed import Client, LocalCluster
    >>> from tacit import Fading
    >>> from tacit.simulation import simulate_partitioned
    >>> with LocalCluster(n_workers=2, processes=False, dashboard_address=":0") as local:
    ...     with Client(local) as client:
    ...         found = simulate_partitioned(
    ...             Fading(0.5, 1, 0.8), "torus:60x60", "uniform:0:10", 20, cluster=client
    ...         )
    ...         mean = float(found.theta.mean())
    >>> 4.5 < mean < 5.5
    True
    """
    record = record or Record()
    if record.agents is not None or record.everything:
        raise ParameterError("a partitioned simulation keeps all agents' states or none, and no messages.")
    rows = rows_of(graph)
    if isinstance(rows, Graph):
        rows.require_connected()
    given = _weights(rows, weights)
    law = law.for_agents(rows.n)
    job = Job.of(law, rows.n, values, rounds=rounds, runs=runs, seed=as_seed(seed))
    with connected(cluster) as client, client.as_current(), warnings.catch_warnings():
        # the graph of tasks is large because it contains the graph of agents
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        bounds = _bounds(rows.n, sum(client.nthreads().values()) if parts is None else parts)
        run = _Run(client, job, rows, given, bounds)
        found = run.dataset(record, progress or (lambda _done, _total: None))
        return found if client is cluster else found.load()


def _weights(rows: Graph | Rows, weights: WeightsLike) -> Weights | None:
    """Return the weights on a whole graph.

    None for plain means of a graph that is made in parts.
    """
    if isinstance(rows, Graph):
        return resolve_weights(rows, weights)
    if weights not in (None, ClosedNeighbourhood.name):
        raise ParameterError(
            "weights need a whole graph, but workers build this one in parts, and weights depend on "
            "neighbours' neighbours. "
            "Give a Graph, or leave weights out."
        )
    return None


def _bounds(n: int, parts: int) -> IntArray:
    """Bounds of the parts: as equal as the blocks of the average allow."""
    if parts < 1:
        raise ParameterError(f"parts must be a whole number of at least 1, got {parts}.")
    blocks = -(-n // _kernels.AGENTS)
    cuts = np.linspace(0, blocks, min(parts, blocks) + 1).round().astype(np.int64) * _kernels.AGENTS
    return np.minimum(cuts, n)


class _Run:
    """Submits the steps of all parts to the scheduler.

    It keeps the futures that are still needed.
    """

    def __init__(
        self, client: Any, job: Job, rows: Graph | Rows, weights: Weights | None, bounds: IntArray
    ) -> None:
        self._client, self._job, self._bounds = client, job, bounds
        self._rule = ClosedNeighbourhood.name if weights is None else weights.name
        shared = None if weights is None or weights.plain else weights
        self._call, self._count = secrets.token_hex(4), 0  # makes the keys of this call unique
        self._tiles = cut(job.runs * job.components, WIDEST)
        self._parts = [
            self._do(
                steps.cut_part, job.of_part(lo, hi), _sent(rows, lo, hi), _shares(shared, lo, hi), lo, hi
            )
            for lo, hi in pairwise(bounds.tolist())
        ]
        self._wants = [self._do(steps.wanted, part, bounds) for part in self._parts]
        self._heard_parts = client.gather([self._do(steps.heard_parts, wants) for wants in self._wants])
        self._states = {
            tile: [self._do(steps.begin, part, *tile) for part in self._parts] for tile in self._tiles
        }

    def dataset(self, record: Record, progress: Callable[[int, int], object]) -> xr.Dataset:
        """Run all rounds, and label what is kept of them."""
        rounds = self._job.rounds
        kept = record.rounds(rounds)
        columns, sums, under_way, done = [], [], deque[list[Any]](), 0
        for t in range(rounds + 1):
            if t in kept:
                columns += [self._columns()] if record.states else []
                sums += [self._block_sums()] if record.average else []
            if t < rounds:
                self._advance(t)
                # wait for marks, not for states, so that states can be released early
                under_way.append(
                    [self._do(steps.mark, s) for states in self._states.values() for s in states]
                )
            while len(under_way) > (AHEAD if t < rounds else 0):
                _finish(under_way.popleft())
                done += 1
                progress(done, rounds)
        return self._labelled(kept, columns, sums)

    def _do(self, function: Callable[..., Any], *arguments: Any) -> Any:
        self._count += 1
        key = f"tacit-{function.__name__}-{self._call}-{self._count}"
        return self._client.submit(function, *arguments, key=key)

    def _advance(self, t: int) -> None:
        """Submit round t of every part; release the states of the round before."""
        for tile, states in self._states.items():
            self._states[tile] = [
                self._do(steps.step, part, states[p], t, tile, self._heard(p, states, tile[1]))
                for p, part in enumerate(self._parts)
            ]

    def _heard(self, p: int, states: list[Any], width: int) -> list[Any]:
        """Messages that part p receives from others, in the order of their agents."""
        return [self._do(steps.border, states[q], self._wants[p], q, width) for q in self._heard_parts[p]]

    def _columns(self) -> Any:
        """θ of all agents now, as a Dask array (column, agent) of futures."""
        import dask.array as da

        sizes = np.diff(self._bounds)
        return da.block([  # type: ignore[no-untyped-call]
            [
                da.from_delayed(  # type: ignore[no-untyped-call]
                    self._do(steps.columns_of, state, width), (width, int(size)), np.float64)
                for state, size in zip(states, sizes, strict=True)
            ]
            for (_, width), states in self._states.items()
        ])  # fmt: skip

    def _block_sums(self) -> list[list[Any]]:
        weighted = self._weights[0]
        return [
            [
                self._do(steps.block_sums, part, state, width, weighted)
                for part, state in zip(self._parts, states, strict=True)
            ]
            for (_, width), states in self._states.items()
        ]

    @cached_property
    def _weights(self) -> tuple[bool, float]:
        """Return whether agents have different weights, and their sum.

        The same as `Setup.weights`.
        """
        found = self._client.gather([self._do(steps.weight_sums, part) for part in self._parts])
        least, most, blocks = zip(*found, strict=True)
        if min(least) == max(most):
            return False, float(self._bounds[-1])
        return True, float(np.cumsum(np.concatenate(blocks))[-1])  # first to last, as everywhere

    def _average(self, futures: list[list[Any]]) -> FloatArray:
        """Σγ_iθ_i/Σγ_i, one per column."""
        average = np.empty(self._job.runs * self._job.components)
        for (first, width), sums in zip(self._tiles, self._client.gather(futures), strict=True):
            _kernels.sum_of_blocks(np.concatenate(sums), self._weights[1], average[first : first + width])
        return average

    def _labelled(self, kept: IntArray, columns: list[Any], sums: list[list[list[Any]]]) -> xr.Dataset:
        import dask.array as da
        import xarray as xr

        job, n = self._job, int(self._bounds[-1])
        variables: dict[str, Any] = {}
        if columns:
            theta = da.stack(columns, axis=1).reshape(  # type: ignore[no-untyped-call]
                job.runs, job.components, len(kept), n
            )
            variables["theta"] = ("run", "component", "round", "agent"), theta
        if sums:
            average = np.stack([self._average(each) for each in sums], axis=-1)
            variables["average"] = (
                ("run", "component", "round"),
                average.reshape(job.runs, job.components, -1),
            )
        whole = xr.Dataset(
            {name: (*variable, {"long_name": LONG_NAMES[name]}) for name, variable in variables.items()},
            {"run": np.arange(job.runs), "round": kept, "component": np.arange(job.components)},
            attributes(
                "distributed", law=job.law, agents=n, weights=self._rule, rounds=job.rounds, seed=job.seed
            ),
        ).assign(labelled_parameters(job.law))
        if columns:
            whole = whole.transpose("run", "round", "agent", "component", missing_dims="ignore")
        return whole if job.vectors else whole.isel(component=0, drop=True)


def _sent(rows: Graph | Rows, lo: int, hi: int) -> Rows:
    """Return what a worker needs to make the rows of agents lo ≤ i < hi."""
    return SlicedRows.of(rows, lo, hi) if isinstance(rows, Graph) else rows


def _shares(weights: Weights | None, lo: int, hi: int) -> PartWeights | None:
    return None if weights is None else PartWeights.of(weights, lo, hi)


def _finish(futures: list[Any]) -> None:
    """Wait without fetching results; raise the first error."""
    from distributed import wait

    wait(futures)  # type: ignore[no-untyped-call]
    for future in futures:
        if future.status == "error":
            future.result()
