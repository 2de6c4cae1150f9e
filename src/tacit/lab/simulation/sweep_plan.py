"""The plan of a sweep: a grid of settings, checked, numbered and hashed.

A plan is a value that contains everything a cell's result depends on. So a cell gives the same numbers on
any machine, in any order, and on every retry.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tacit import __version__
from tacit.base.arguments import inside_unit, instance, shown, whole
from tacit.base.arrays import FloatArray, ValuesLike, as_states, by_label, is_labelled
from tacit.base.errors import ParameterError
from tacit.core.graph import Graph
from tacit.core.graph.sources import is_one_graph
from tacit.core.law import Fading, Law, OneShot, named
from tacit.core.mechanism import ClientServer, Distributed, Mechanism
from tacit.core.mechanism.topology import rule_names
from tacit.core.question import Question, parse_question, short_form
from tacit.core.theory.plan import NO_KEEPERS
from tacit.core.theory.planned_answer import require_fitting

Setting: TypeAlias = int | float | str
Grid: TypeAlias = Mapping[str, Any]

# The slowest axis first: cells that share a graph are consecutive, so it is built once.
AXES = (
    "agents", "graph", "keepers", "weights", "question", "law", "mixing", "noise", "decay", "epsilon", "loss",
)  # fmt: skip
METHODS = ("engine", "outcome")
_CHUNK = 2**20


@dataclass(frozen=True, eq=False)
class SweepPlan:
    """A checked sweep; make it with `SweepPlan.of`."""

    grid: dict[str, tuple[Setting, ...]]
    rounds: int
    runs: int
    seed: int
    values: str
    method: str
    failure_probability: float
    version: str = __version__
    given: FloatArray | None = field(default=None, repr=False)  # θ(0), if it was an array
    graphs: Mapping[str, Graph] = field(default_factory=dict, repr=False)  # those that have no name

    @classmethod
    def of(
        cls,
        grid: Grid,
        *,
        rounds: int,
        runs: int,
        seed: int,
        values: str | ValuesLike,
        method: str,
        failure_probability: float,
    ) -> SweepPlan:
        """Check the arguments of a sweep, without building named graphs."""
        if method not in METHODS:
            raise ParameterError(f"method must be one of {', '.join(METHODS)}, got {shown(method)}.")
        named_grid, graphs = _named_graphs(grid)
        text, given = _checked_values(_by_label(values, named_grid, graphs))
        plan = cls(
            grid=_checked_grid(named_grid),
            rounds=whole("rounds", rounds, 1),
            runs=whole("runs", runs, 1),
            seed=whole("seed", seed, 0),
            values=text,
            method=method,
            failure_probability=inside_unit("failure_probability", failure_probability),
            given=given,
            graphs=graphs,
        )
        plan._require_parameters()
        return plan

    def document(self) -> dict[str, Any]:
        """Return everything that decides the results.

        This is the first line of a sweep's file.
        """
        return {
            "grid": {name: list(axis) for name, axis in self.grid.items()},
            "rounds": self.rounds,
            "runs": self.runs,
            "seed": self.seed,
            "values": self.values,
            "method": self.method,
            "failure_probability": self.failure_probability,
            "tacit_version": self.version,
        }

    @cached_property
    def digest(self) -> str:
        """A hash of the document: equal plans, equal hashes."""
        return hashlib.sha256(json.dumps(self.document(), sort_keys=True).encode()).hexdigest()

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of settings along each axis."""
        return tuple(len(axis) for axis in self.grid.values())

    @property
    def cells(self) -> int:
        """Number of cells of the grid."""
        return math.prod(self.shape)

    def settings(self, cell: int) -> dict[str, Setting]:
        """Settings of a cell; the last axis changes fastest."""
        places = np.unravel_index(cell, self.shape)
        return {name: axis[int(i)] for (name, axis), i in zip(self.grid.items(), places, strict=True)}

    def cell_seed(self, cell: int) -> int:
        """Return the seed of a cell.

        It depends only on the sweep's seed and the cell's number.
        """
        return derived_seed(self.seed, cell)

    def mechanism(self, cell: int) -> Mechanism:
        """Build the mechanism of a cell."""
        settings = self.settings(cell)
        law = _law_of(settings)
        if "graph" in settings:
            name = str(settings["graph"])
            graph = self.graphs[name] if name in self.graphs else _graph(name)
            usual = "metropolis" if "question" in settings else None  # in a count all records count the same
            return Distributed(law, graph, settings.get("weights", usual))
        keepers = int(settings.get("keepers", 0))
        return ClientServer(law, agents=int(settings["agents"]), keepers=keepers)

    def question(self, cell: int) -> Question | None:
        """Return what a cell asks; None for a mean of plain numbers."""
        word = self.settings(cell).get("question")
        return None if word is None else parse_question(str(word))

    def initial_values(self, n: int) -> FloatArray:
        """θ(0) of n agents."""
        if self.given is not None:
            return as_states(self.given, n)
        return _made_values(self.values, n)

    def spread(self, n: int) -> float:
        """Largest minus smallest initial value, without holding n numbers."""
        if self.given is not None:
            return float(np.ptp(as_states(self.given, n)))
        if self.values == "zeros":
            return 0.0
        return _uniform_spread(self.values, n)

    def require_buildable(self) -> None:
        """Build every graph with its weights once, and check the initial values.

        Otherwise a wrong graph or a wrong number of values would make a cell fail after hours.
        """
        above = 1 + sum(name in self.grid for name in ("keepers", "weights", "question"))
        step = math.prod(self.shape[above:])  # agents or graph is the first axis
        for cell in range(0, self.cells, step):
            mechanism, asked = self.mechanism(cell), self.question(cell)
            n = mechanism.n
            if asked is not None:
                require_fitting(mechanism, asked)
            if self.given is not None:
                as_states(self.given, n)

    def _require_parameters(self) -> None:
        names = [name for name in self.grid if name not in ("agents", "graph", "keepers", "weights")]
        if "question" in self.grid and self.given is not None:
            raise ParameterError(
                "a sweep of questions takes no values: how wide intervals are follows from the noise."
            )
        for row in itertools.product(*(self.grid[name] for name in names)):
            _law_of(dict(zip(names, row, strict=True)))


def derived_seed(seed: int, number: int) -> int:
    """Derive a seed from a seed and a number.

    It has 63 bits, so it fits a signed integer.
    """
    low, high = np.random.SeedSequence(seed, spawn_key=(number,)).generate_state(2, np.uint32)
    return int(low) | (int(high) >> 1) << 32


def _law_of(settings: Mapping[str, Setting]) -> Law:
    law = named(str(settings["law"]))
    if "loss" in settings:
        whole_record = parse_question(str(settings["question"])).adjacency
        return law.best(float(settings["mixing"]), float(settings["loss"]) / whole_record)
    if "epsilon" in settings:
        # the least variance for this mixing and epsilon (docs/proofs/best-noise.md)
        epsilon = float(settings["epsilon"])
        return law.best(float(settings["mixing"]), epsilon)
    return law.from_words(settings)


@lru_cache(maxsize=2)
def _graph(name: str) -> Graph:
    return Graph.from_name(name)


def _named_graphs(grid: Grid) -> tuple[Grid, dict[str, Graph]]:
    """Give every graph without a name one, from a hash of its edges.

    Weights are part of the hash. The file of a sweep must detect another graph, and a file of edges can
    change.
    """
    advice = 'Give one, like {"agents": [10, 100], "mixing": 0.8, "epsilon": [0.1, 1]}.'
    instance("the grid of a sweep", grid, Mapping, "a mapping from names to values", advice)
    if "graph" not in grid:
        return grid, {}
    given = grid["graph"]
    several = [given] if is_one_graph(given) or not isinstance(given, Iterable) else list(given)
    graphs: dict[str, Graph] = {}
    names: list[str] = []
    for one in several:
        if isinstance(one, str) and not os.path.isfile(one):
            names.append(one)
            continue
        graph = Graph.of(one)
        names.append(f"graph:{graph.n}:{graph.sha256[:16]}")
        graphs[names[-1]] = graph
    return {**grid, "graph": names}, graphs


def _checked_grid(grid: Grid) -> dict[str, tuple[Setting, ...]]:
    usual = OneShot if "question" in grid and "graph" not in grid else Fading
    asked = {"law": [usual.name], **grid}
    words = {word for kind in _checked_axis("law", asked["law"]) for word in named(str(kind)).words()}
    known = (*AXES, *sorted(words - {*AXES}))  # a law may have further parameters
    unknown = [name for name in grid if name not in known]
    if unknown:
        raise ParameterError(f"a sweep's axes must be among {', '.join(known)}, got {shown(unknown[0])}.")
    axes = {name: _checked_axis(name, asked[name]) for name in known if name in asked}
    if ("agents" in axes) == ("graph" in axes):
        raise ParameterError("a sweep needs either agents (with a server) or graph among its axes, not both.")
    if "keepers" in axes and "graph" in axes:
        raise ParameterError(NO_KEEPERS)
    if "weights" in axes and "graph" not in axes:
        raise ParameterError("weights are for graphs: a server counts every message the same.")
    if "mixing" not in axes or sum(name in axes for name in ("noise", "epsilon", "loss")) != 1:
        raise ParameterError(
            "a sweep needs mixing and either noise or epsilon (or loss, with questions) among its axes."
        )
    if "loss" in axes and "question" not in axes:
        raise ParameterError("loss is for a sweep of questions: give question among its axes, or epsilon.")
    for word in sorted({"decay", *words} - {"mixing", "noise"}):
        if (word in axes) != ("noise" in axes and word in words):
            raise ParameterError(
                f"a sweep needs {word} among its axes if and only if noise is among them and a law "
                f"has {word}: with epsilon the best one is chosen."
            )
    return axes


def _checked_axis(name: str, given: object) -> tuple[Setting, ...]:
    several = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    axis = tuple(_checked_setting(name, one) for one in several)
    if not axis or len(set(axis)) < len(axis):
        raise ParameterError(f"axis {name} must have at least one value and none twice, got {list(axis)}.")
    return axis


def _checked_setting(name: str, value: object) -> Setting:
    if name == "weights" and value not in rule_names():
        raise ParameterError(
            f"weights of a sweep must be one of {', '.join(rule_names())}, got {shown(value)}."
        )
    if name == "question":
        word = short_form(value) if isinstance(value, Question) else value
        return short_form(parse_question(word)) if isinstance(word, str) else _no_question(value)
    if name in ("graph", "weights", "law"):
        if not isinstance(value, str):
            raise ParameterError(f"{name} must be a name, got {shown(value)}.")
        return value
    if name in ("agents", "keepers"):
        return whole(name, value, 1 if name == "agents" else 0)
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise ParameterError(f"{name} must be a number, got {shown(value)}.")
    if name in ("epsilon", "loss") and not (math.isfinite(value) and value > 0):
        raise ParameterError(f"{name} must be a positive number, got {value}.")
    return float(value)


def _no_question(value: object) -> Setting:
    raise ParameterError(f"question must be a question or its word, like 'count', got {shown(value)}.")


def _checked_values(values: str | npt.ArrayLike) -> tuple[str, FloatArray | None]:
    """Return a text that identifies θ(0), and the array if one was given."""
    if isinstance(values, str):
        if values != "zeros":
            _uniform_parts(values)
        return values, None
    given = as_states(values, np.shape(values)[0] if np.ndim(values) else 0)
    if given.ndim != 1:
        raise ParameterError("values of a sweep must be one number per agent: components do not interact.")
    # the file must detect different values without containing them
    return f"array:{given.size}:{hashlib.sha256(given.tobytes()).hexdigest()}", given


def _by_label(values: Any, grid: Mapping[str, Any], graphs: Mapping[str, Graph]) -> Any:
    """Return values with labels in the order of the sweep's one graph."""
    if not is_labelled(values):
        return values
    names = grid.get("graph", ())
    names = [names] if isinstance(names, str) else list(names)
    if len(names) > 1:
        raise ParameterError(
            f"values with labels need a sweep over one graph, got {len(names)}. Give an array, in the order "
            "of the graphs."
        )
    if not names:
        return by_label(values, range(len(values)))
    return by_label(values, (graphs.get(names[0]) or _graph(names[0])).names)


def _uniform(text: str, n: int) -> Iterable[FloatArray]:
    low, high, seed = _uniform_parts(text)
    rng = np.random.default_rng(seed)
    # the stream does not depend on how it is split
    return (rng.uniform(low, high, min(_CHUNK, n - done)) for done in range(0, n, _CHUNK))


def _made_values(text: str, n: int) -> FloatArray:
    if text == "zeros":
        return np.zeros(n)
    low, high, seed = _uniform_parts(text)
    return np.random.default_rng(seed).uniform(low, high, n)


@lru_cache(maxsize=64)
def _uniform_spread(text: str, n: int) -> float:
    # cached: it takes seconds for a billion agents, and many cells need the same
    extremes = [(chunk.min(), chunk.max()) for chunk in _uniform(text, n)]
    return float(max(high for _, high in extremes) - min(low for low, _ in extremes))


def _uniform_parts(text: str) -> tuple[float, float, int]:
    kind, *parts = text.split(":")
    try:
        low, high = map(float, parts[:2])
        seed = int(parts[2]) if len(parts) > 2 else 0
    except ValueError:
        low, high, seed = math.nan, math.nan, 0
    if kind != "uniform" or not (-math.inf < low <= high < math.inf) or len(parts) > 3 or seed < 0:
        raise ParameterError(
            f"values must be zeros, uniform:LOW:HIGH:SEED or one number per agent, got {text!r}."
        )
    return low, high, seed
