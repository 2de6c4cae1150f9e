"""Run every method on the same job; compare with closed forms.

Runs are columns and agents are rows, so a round of many runs is one sparse product: O((N + E)·rounds·runs)
for each method, in batches that stay in the cache. The seed determines all numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from tacit.base.arguments import function, shown, whole
from tacit.base.arrays import FloatArray, IntArray, ValuesLike, as_states
from tacit.base.errors import ParameterError, StateError
from tacit.base.extras import explains_extras
from tacit.core.graph import Graph
from tacit.core.graph.core import GraphLike
from tacit.core.mechanism.topology import WeightsLike
from tacit.core.motion import Linear
from tacit.core.noise.simulated import as_seed
from tacit.core.question import Question
from tacit.core.theory.laplace_sum import require_probability
from tacit.core.theory.plan import Plan
from tacit.lab.comparison.case import Case
from tacit.lab.comparison.comparison import Comparison, MethodResult
from tacit.lab.comparison.method import Method
from tacit.lab.comparison.moving import moving_methods
from tacit.lab.simulation.asking import encoded

METHODS: dict[str, tuple[str, str]] = {
    "plain": ("plain", "Plain"),
    "server": ("paper", "Server"),
    "server-one-shot": ("paper", "ServerOneShot"),
    "graph": ("paper", "OnGraph"),
    "constant": ("paper", "ConstantNoise"),
    "laplacian": ("laplacian", "Laplacian"),
    "one-shot": ("laplacian", "OneShotConsensus"),
    "zero-sum": ("zero_sum", "ZeroSum"),
    "gossip": ("gossip", "Gossip"),
    "keepers": ("paper", "Keepers"),
}
"""Module and class of each method, in the order of the table."""

ON_REQUEST: dict[str, tuple[str, str]] = {
    "bits": ("bits", "OneBit"),
    "trimmed": ("trimmed", "Trimmed"),
}
"""Methods against liars. They run only if they are named, because not every case has what they need."""

BYTES = 8
"""Payload of a message: one double."""

_CELLS = 1 << 18  # agents × runs of a batch: a few such arrays fit in the cache
_SHARE = 0.95  # of the runs in which agents must have agreed

Progress = Callable[[int, int], object]


@explains_extras
def compare(
    graph: GraphLike,
    values: ValuesLike,
    *,
    epsilon: float,
    adjacency: float | None = None,
    question: Question | str | None = None,
    rounds: int = 50,
    runs: int = 1000,
    seed: int = 0,
    mixing: float = 0.99,
    delta: float = 1e-6,
    tolerance: float | None = None,
    keepers: int = 2,
    weights: WeightsLike = None,
    liars: int = 1,
    failure_probability: float = 0.05,
    methods: Iterable[str | type[Method]] | None = None,
    agent: int = 0,
    progress: Progress | None = None,
    motion: Linear | None = None,
) -> Comparison:
    """Run methods for private averaging on the same graph and values.

    Each method gets its best parameters.

    Parameters
    ----------
    graph : Graph, or anything that `Graph.of` takes
        Connected; methods with a server use only its number of agents.
    values : array_like, mapping or Series, shape (n,)
        θ(0), one number per agent. With a question, one record per agent, as of `tacit.ask`.
    epsilon, adjacency, rounds, mixing, delta, tolerance, keepers, weights, liars
        See `Case`. The adjacency is 1 unless given, or that of the question.
    question : Question, optional
        Each component of the mean vector is run on its own, so a question of k components takes k times as
        long. Errors are those of components; `answers` of a row has those of the parts of the answer.
    runs, seed : int
        Number of independent runs of each method, and the seed of their noise.
    failure_probability : float
        Probability that the radius is missed.
    methods : names or subclasses of `Method`, optional
        Some of `METHODS` and `ON_REQUEST`, and your own methods; all of `METHODS` unless given. ``"bits"``
        needs a question of one number, for its range.
    agent : int
        The agent whose value is attacked.
    progress : callable, optional
        Called repeatedly with the number of finished rounds, over all runs, and their total.
    motion : Linear, optional
        Agents with dynamics of their own, instead of mixing: all laws are compared, around a server and on
        the graph with Metropolis weights. Values are those of their one private component.

    Examples
    --------
    >>> found = compare("ring:10", range(10), epsilon=1.0, runs=20, methods=["one-shot"])
    >>> found.row("one-shot").privacy
    'ε = 1'
    """
    graph = Graph.of(graph)
    asked = None if question is None else Plan(question=question, adjacency=adjacency).asked
    if adjacency is None:
        adjacency = 1.0 if asked is None else asked.adjacency
    span = asked.box if asked is not None and asked.components == 1 else None
    case = Case(graph, epsilon, adjacency, rounds, mixing, delta, tolerance, keepers, weights, liars, span)
    if asked is not None:
        theta = _vectors(values, graph, asked)
    else:
        theta = as_states(values, case.graph.n, labels=case.graph.names)
        if theta.ndim != 1:
            raise StateError(f"values must be one number per agent to be compared, got shape {theta.shape}.")
    if motion is not None:
        if methods is not None or asked is not None or weights is not None:
            raise ParameterError(
                "agents with dynamics of their own are compared by all laws, with Metropolis weights: leave "
                "out methods, question and weights."
            )
        methods = moving_methods(motion)
    require_probability(failure_probability)
    runs = whole("runs", runs, 1)
    function("progress", progress)
    if whole("agent", agent, 0) >= graph.n:
        raise ParameterError(f"agent must be a number from 0 to {graph.n - 1}, got {agent}.")
    seed, chosen = as_seed(seed), [method.tuned(case) for method in _chosen(methods)]
    done, total = 0, runs * sum(method.rounds for method in chosen) * theta[0].size

    def tell(step: int) -> None:
        nonlocal done
        done += step
        if progress is not None:
            progress(done, total)

    job = _Job(case, theta.reshape(graph.n, -1), runs, seed, agent, failure_probability, tell, asked)
    rows = tuple(job.row(m) for m in chosen)
    return Comparison(case, runs, seed, agent, failure_probability, rows, asked, motion)


def _vectors(records: Any, graph: Graph, asked: Question) -> FloatArray:
    """Return one vector per agent, in the order of the graph."""
    vectors, _, _ = encoded(records, asked)
    if len(vectors) != graph.n:
        raise StateError(
            f"there must be one record for each of the {graph.n:,} agents, got {len(vectors):,}."
        )
    return vectors


def _chosen(methods: Iterable[str | type[Method]] | None) -> list[type[Method]]:
    """The chosen methods, in the order of the table; then the caller's own."""
    if isinstance(methods, str) or not (methods is None or isinstance(methods, Iterable)):
        raise ParameterError(f"methods must be a list of names or classes, got {shown(methods)}.")
    known = METHODS | ON_REQUEST
    asked = list(METHODS if methods is None else methods)
    own = [method for method in asked if isinstance(method, type) and issubclass(method, Method)]
    unknown = [
        method for method in asked if method not in own and not (isinstance(method, str) and method in known)
    ]
    names = [method.name for method in own]
    if unknown or not asked:
        given = shown(unknown[0]) if unknown else "none"
        raise ParameterError(
            f"methods must be some of {', '.join(known)}, or subclasses of Method, got {given}."
        )
    for name in names:
        if name in known or names.count(name) > 1:
            raise ParameterError(f"a method's name must be used once, got {name!r} twice: rename one.")
    return [load(name) for name in known if name in asked] + own


def _stream(name: str) -> int:
    """Number the noise stream of a method by its place or its name.

    A method of METHODS has its place in the table, any other a number from its name.
    """
    if name in METHODS:
        return list(METHODS).index(name)
    return (1 << 32) + int.from_bytes(hashlib.sha256(name.encode()).digest()[:8])


def load(name: str) -> type[Method]:
    """Return the class of a method."""
    module, kind = (METHODS | ON_REQUEST)[name]
    made: type[Method] = getattr(import_module(f"tacit.lab.comparison.{module}"), kind)
    return made


class _Measured:
    """The recorded runs of one method."""

    def __init__(self, rounds: int, runs: int) -> None:
        self.average, self.squares = np.empty(runs), np.empty(runs)
        self.guess, self.apart = np.empty(runs), np.empty((rounds + 1, runs))

    @classmethod
    def joined(cls, every: Sequence[_Measured]) -> _Measured:
        """Return the runs of all components; agents agree if they do in each."""
        made = cls(0, 0)
        made.average, made.squares, made.guess = (
            np.concatenate([getattr(one, name) for one in every]) for name in ("average", "squares", "guess")
        )
        made.apart = np.max([one.apart for one in every], axis=0)
        return made

    def agreed_after(self, tolerance: float) -> int | None:
        """The first round from which on enough runs stay within the tolerance."""
        late = self.apart > tolerance
        last: IntArray = np.where(late.any(axis=0), len(late) - np.argmax(late[::-1], axis=0), 0)
        needed = int(np.sort(last)[int(np.ceil(_SHARE * len(last))) - 1])
        return needed if needed < len(late) else None


@dataclass(frozen=True, eq=False)
class _Job:
    """What every method is run on."""

    case: Case
    theta: FloatArray = field(repr=False)
    runs: int
    seed: int
    agent: int
    failure_probability: float
    tell: Callable[[int], None]
    question: Question | None = None

    def row(self, method: Method) -> MethodResult:
        """Run a method and return its measurements and closed forms."""
        b, columns = self.failure_probability, range(self.theta.shape[1])
        every = [self.measure(method, column) for column in columns]
        found = _Measured.joined(every)
        average = np.stack([one.average for one in every], axis=1)
        off = (average - self.theta.mean(axis=0)).ravel()
        guess = np.concatenate([every[j].guess - self.theta[self.agent, j] for j in columns])
        error, agreed = method.error(b), found.agreed_after(self.case.within)
        messages = method.messages * (method.rounds if agreed is None else max(agreed, 1))
        return MethodResult(
            name=method.name,
            title=method.title,
            source=method.source,
            needs=method.needs,
            guarantee=method.guarantee,
            settings=method.settings,
            rounds=method.rounds,
            error=_rms(off),
            error_standard_error=_rms_error(off**2),
            error_quantile=float(np.quantile(np.abs(off), 1 - b)),
            error_closed_form=None if error is None else error.deviation,
            least_error=method.least_error(len(self.theta)),
            radius=None if error is None else error.radius,
            bias=float(off.mean()),
            bias_standard_error=float(off.std() / np.sqrt(off.size)),
            agent_error=float(np.sqrt(found.squares.mean())),
            agent_standard_error=_rms_error(found.squares),
            agreed_after=agreed,
            disagreement=float(np.median(found.apart[-1])),
            messages=messages,
            bytes=BYTES * messages * len(columns),
            attack_error=_rms(guess),
            attack_standard_error=_rms_error(guess**2),
            answers=None if self.question is None else self._answers(average, self.question),
        )

    def _answers(self, average: FloatArray, question: Question) -> dict[str, float]:
        """Return the root mean square error of each part of the answer."""
        n = len(self.theta)
        true = {part.name: part.estimate for part in question.decode(self.theta.mean(axis=0), n).parts}
        squares: dict[str, list[float]] = {name: [] for name in true}
        for mean in average.tolist():
            for part in question.decode(mean, n).parts:
                if part.name in true:
                    squares[part.name].append((part.estimate - true[part.name]) ** 2)
        return {name: float(np.sqrt(np.mean(found))) for name, found in squares.items() if found}

    def measure(self, method: Method, column: int) -> _Measured:
        """Run a method in batches and keep what the table needs."""
        kept, width = _Measured(method.rounds, self.runs), max(1, _CELLS // len(self.theta))
        for first in range(0, self.runs, width):
            place = [column] if column else []
            rng = np.random.default_rng([self.seed, _stream(method.name), first, *place])
            runs = slice(first, min(first + width, self.runs))
            self._batch(method, rng, kept, runs, self.theta[:, column])
        return kept

    def _batch(
        self, method: Method, rng: np.random.Generator, kept: _Measured, columns: slice, theta: FloatArray
    ) -> None:
        width = columns.stop - columns.start
        states = np.repeat(theta[:, None], width, axis=1)
        x, y = np.empty((2, method.rounds, width))
        kept.apart[0, columns] = np.ptp(theta)
        for t, said in enumerate(method.run(states, rng)):
            x[t], y[t] = said.x[self.agent], said.y[self.agent if len(said.y) > 1 else 0]
            states = said.theta
            kept.apart[t + 1, columns] = states.max(axis=0) - states.min(axis=0)
            self.tell(width)
        kept.average[columns] = states.mean(axis=0)
        kept.squares[columns] = np.mean((states - theta.mean()) ** 2, axis=0)
        kept.guess[columns] = method.attack(self.agent, x, y)


def _rms(values: FloatArray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _rms_error(squares: FloatArray) -> float:
    """Standard error of √mean(squares), to first order.

    It is the standard error of the mean, divided by 2√mean.
    """
    mean = float(squares.mean())
    return float(squares.std() / np.sqrt(len(squares)) / (2 * np.sqrt(mean))) if mean > 0 else 0.0
