"""Recording of a simulation, and the dataset made from it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit import __version__
from tacit.base.arrays import FloatArray, IntArray
from tacit.base.errors import StateError
from tacit.core.graph import Graph
from tacit.core.history import History, Private
from tacit.core.law import Law, named
from tacit.core.mechanism import ClientServer, Distributed, Mechanism
from tacit.core.mechanism.topology import GivenWeights
from tacit.core.noise import SimulatedNoise
from tacit.lab.simulation.record import Record

if TYPE_CHECKING:
    import xarray as xr

    from tacit.lab.simulation.batches import Setup, Tile

MOST_EDGES = 100_000
"""Datasets of larger graphs have only their hash: the edges would be larger than the results."""

LONG_NAMES = {
    "theta": "state",
    "average": "average of the states, weighted as in the target",
    "eta": "noise",
    "x": "message",
    "y": "feedback",
    "mixing": "sigma: how far an agent moves towards the feedback in one round",
    "noise": "c: scale of the noise of round 0",
    "decay": "q: factor by which the noise fades every round",
}


class Kept:
    """What a simulation keeps: arrays that tiles write into.

    Their axes are (run, round, agent, component).
    """

    def __init__(self, record: Record, setup: Setup, runs: int) -> None:
        n, k, last = setup.mechanism.n, setup.components, setup.rounds
        self.record, self.setup = record, setup
        self.rounds = record.rounds(last)
        self.agents = record.chosen(n)
        self.theta = np.empty((runs, len(self.rounds), len(self.agents), k)) if record.states else None
        self.average = np.empty((runs, len(self.rounds), k)) if record.average else None
        self.x = np.empty((runs, last, n, k)) if record.everything else None
        self.y = np.empty((runs, last, k)) if record.everything else None
        self._columns_left, self._lock = np.full(runs, k), Lock()
        self._chosen = np.empty(0, dtype=np.int64) if record.agents is None else self.agents
        self._slots = np.full(last, -1)
        if record.average:
            later = self.rounds > 0
            self._slots[self.rounds[later] - 1] = np.flatnonzero(later)

    @property
    def finished(self) -> Any:
        """Which runs are complete."""
        return self._columns_left == 0

    def follow(self, tile: Tile) -> Iterator[int]:
        """Run a tile to its end and record it.

        Yields the number of rounds after each call.
        """
        averages = np.empty((len(self.rounds), tile.width))
        if self.average is not None and self.rounds[0] == 0:
            averages[0] = tile.average()
        for slot, target in enumerate(self.rounds) if self.theta is not None else [(0, self.rounds[-1])]:
            while tile.t < target:
                before = tile.t
                tile.advance(int(target), self._slots, averages)
                self._keep_said(tile)
                yield tile.t - before
            if self.theta is not None:
                tile.keep_states(self.theta, slot, self._chosen)
        if self.average is not None:
            self.average[tile.run, :, tile.component] = averages.T
        with self._lock:
            np.subtract.at(self._columns_left, tile.run, 1)

    def _keep_said(self, tile: Tile) -> None:
        if self.x is not None and self.y is not None:
            tile.keep_said(self.x, tile.t - 1)
            self.y[tile.run, tile.t - 1, tile.component] = tile.y


def dataset(kept: Kept, *, vectors: bool, interrupted: bool) -> xr.Dataset:
    """Label what was kept of the finished runs."""
    import xarray as xr

    setup, finished = kept.setup, np.flatnonzero(kept.finished)
    # use a slice if possible: indexing by number would copy the whole record
    take = slice(0, len(finished)) if len(finished) and finished[-1] + 1 == len(finished) else finished
    tail = ("component",) if vectors else ()
    variables: dict[str, Any] = {}

    def add(name: str, dims: tuple[str, ...], array: FloatArray | None) -> None:
        if array is not None:
            values = array[take] if vectors else array[take][..., 0]
            variables[name] = (("run", *dims, *tail), values, {"long_name": LONG_NAMES[name]})

    add("theta", ("round", "agent"), kept.theta)
    add("average", ("round",), kept.average)
    coords: dict[str, Any] = {"run": finished, "round": kept.rounds, "agent": kept.agents}
    if isinstance(setup.mechanism, Distributed) and setup.mechanism.graph.labels is not None:
        # Labels are an extra coordinate: other code still selects agents by their numbers.
        coords["label"] = ("agent", [str(setup.mechanism.graph.label(i)) for i in kept.agents.tolist()])
    if vectors:
        coords["component"] = np.arange(setup.components)
    if kept.record.everything:
        served = not isinstance(setup.mechanism, Distributed)
        eta, y = _rest(kept, finished)
        add("eta", ("said", "keeper" if setup.mechanism.keepers else "agent"), eta)
        add("x", ("said", "agent"), kept.x)
        add("y", ("said",) if served else ("said", "agent"), y)
        coords["said"] = np.arange(setup.rounds)
        if isinstance(setup.mechanism, Distributed):
            graph = setup.mechanism.graph
            variables |= {"indptr": ("row", graph.indptr), "indices": ("edge", graph.indices)}
            rows = setup.mechanism.topology
            if isinstance(rows, GivenWeights):
                variables |= {"own_count": ("agent", rows.own_counts), "count": ("edge", rows.counts)}
    variables |= _labelled_parameters(setup.mechanism.law, kept.agents)
    attrs = _attributes(
        setup.mechanism.kind,
        law=setup.mechanism.law,
        agents=setup.mechanism.n,
        keepers=setup.mechanism.keepers,
        weights=_weights_name(setup.mechanism),
        rounds=setup.rounds,
        seed=setup.seed,
        interrupted=interrupted,
    )
    return xr.Dataset(variables, coords, attrs | _inputs(setup))


def _inputs(setup: Setup) -> dict[str, Any]:
    """Say which values and graph were simulated: hashes, and the edges.

    Very large graphs have only their hash.
    """
    made = {"values_sha256": hashlib.sha256(setup.values.tobytes()).hexdigest()}
    if isinstance(setup.mechanism, Distributed):
        graph = setup.mechanism.graph
        made["graph_sha256"] = graph.sha256
        if graph.n_edges <= MOST_EDGES:
            return made | {"edges": graph.edges()}
    return made


def _rest(kept: Kept, finished: IntArray) -> tuple[FloatArray, FloatArray | None]:
    """η, computed from the seed, and on a graph the feedback, computed from x."""
    setup, x = kept.setup, kept.x
    assert x is not None
    law, sources = setup.mechanism.noise_law, setup.mechanism.sources
    noise, eta = SimulatedNoise(setup.seed), np.empty((*x.shape[:2], sources, x.shape[3]))
    for run in finished:
        eta[run] = noise.draw(law, setup.rounds, sources, setup.components, int(run))
    if not isinstance(setup.mechanism, Distributed):
        return eta, kept.y
    y = np.empty_like(x)
    for run in finished:
        columns = np.moveaxis(x[run], 0, 1)  # agents first, as the mechanism expects
        heard = setup.mechanism.aggregate(np.ascontiguousarray(columns).reshape(setup.mechanism.n, -1))
        y[run] = np.moveaxis(heard.reshape(columns.shape), 1, 0)
    return eta, y


def _labelled_parameters(law: Law, agents: IntArray | None) -> dict[str, Any]:
    """Mixing, noise and decay as variables, of all agents or some."""
    return {
        name: (
            ("agent",),
            value if agents is None else value[agents],
            {"long_name": LONG_NAMES.get(name, name)},
        )
        if isinstance(value, np.ndarray)
        else ((), value, {"long_name": LONG_NAMES.get(name, name)})
        for name, value in law.worded().items()
    }


def _attributes(
    kind: str,
    *,
    law: Law,
    agents: int,
    rounds: int,
    seed: int,
    keepers: int = 0,
    weights: str | None = None,
    interrupted: bool = False,
) -> dict[str, Any]:
    """What was run."""
    return {
        "mechanism": kind,
        **({} if weights is None else {"weights": weights}),
        "law": law.name,
        "agents": agents,
        "keepers": keepers,
        "rounds": rounds,
        "seed": seed,
        "interrupted": int(interrupted),
        "tacit_version": __version__,
    }


def described(mechanism: Mechanism, *, rounds: int, seed: int) -> dict[str, dict[str, Any]]:
    """Return a law's parameters as variables, and what was run as attributes."""
    law = mechanism.law
    n, keepers = mechanism.n, mechanism.keepers
    told = _attributes(mechanism.kind, law=law, agents=n, rounds=rounds, seed=seed, keepers=keepers)
    return {"variables": _labelled_parameters(law, None), "attributes": told}


def _weights_name(mechanism: Mechanism) -> str | None:
    return mechanism.topology.name if isinstance(mechanism, Distributed) else None


def recorded_mechanism(dataset: xr.Dataset) -> Mechanism:
    """Return the mechanism of a record of everything.

    It has the law, graph and weights that the record names.
    """
    attrs = dataset.attrs
    kind = named(attrs["law"])
    law = kind.from_words({word: dataset[word].values[()] for word in kind.words()})
    if attrs["mechanism"] != Distributed.kind:
        return ClientServer(law, agents=attrs["agents"], keepers=attrs["keepers"])
    graph = Graph(np.array(dataset["indptr"].values), np.array(dataset["indices"].values))
    if attrs["weights"] == GivenWeights.name:
        counts = (np.array(dataset[name].values) for name in ("own_count", "count"))
        return Distributed(law, graph, GivenWeights(graph, *counts))
    return Distributed(law, graph, attrs["weights"])


def history_of(dataset: xr.Dataset, mechanism: Mechanism | None = None, run: int = 0) -> History:
    """Return one run of a record of everything as a `History`.

    Parameters
    ----------
    dataset : xarray.Dataset
        As `simulate` returns it for ``Record(everything=True)``.
    mechanism : Mechanism, optional
        The one that was simulated; by default the one that the dataset says.
    run : int
        The number of the run.
    """
    missing = {"theta", "eta", "x", "y"} - set(map(str, dataset.data_vars))
    if missing:
        raise StateError(
            "a history needs the states, noise, messages and feedback of every round: simulate with "
            "Record(everything=True)."
        )
    if mechanism is None:
        mechanism = recorded_mechanism(dataset)
    was = tuple(dataset.attrs.get(name, 0) for name in ("mechanism", "agents", "keepers"))
    if was != (mechanism.kind, mechanism.n, mechanism.keepers):
        raise StateError("the mechanism must be the one that was simulated: its kind or size differs.")
    if dataset.attrs.get("weights", _weights_name(mechanism)) != _weights_name(mechanism):
        raise StateError("the mechanism must be the one that was simulated: its weights differ.")
    if run not in dataset.run:
        raise StateError(f"run must be one of the {dataset.sizes['run']} runs that were kept, got {run}.")
    one = dataset.sel(run=run)
    theta, eta, x, y = (np.array(one[name].values) for name in ("theta", "eta", "x", "y"))
    return History.full(mechanism, x, y, private=Private(theta, eta))
