"""What an adversary believes about one agent's start, round by round.

Before the session it has a prior; after round t it applies Bayes' rule. The posterior is exact: it is
exponential between the knots of `reconstruction`, so its mean and credible interval need no grid. The
density is also given on a grid, for drawing. The promise limits the belief: after t rounds, the density at
a value v is between `least` and `most` for all possible messages, and both limits can be reached
(docs/proofs/audit.md, section 5).

Three adversaries share one belief, because only the agent's own messages and the feedback it received
depend on its start (docs/proofs/audit.md, section 1); a fourth sees less:

- ``"eavesdropper"`` hears every message and all feedback;
- ``"server"``, curious, receives the same messages and made the feedback;
- ``"compromised"`` agents tell all they know to an eavesdropper (the paper's strongest adversary).
  Their own starts, states and noise say nothing about the start of another agent;
- ``"insiders"`` are compromised agents who see only their own connections: see `insiders`.

With keepers, messages are masked. Then all of these know only the feedback, and what compromised agents tell
about themselves. A fifth adversary learns as much as an eavesdropper learns without keepers:

- ``"conspirators"`` are everyone except the agent and one honest keeper: all wires, the server, all other
  agents and all other keepers. What they know can only be computed for simulated sessions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from tacit.base.arrays import FloatArray, IntArray, frozen
from tacit.base.errors import ParameterError, StateError
from tacit.base.report import Grid, Shown, near
from tacit.base.rounding import product_up, shown_up
from tacit.core.history import AgentHistory, History
from tacit.core.law import Law
from tacit.core.mechanism import ClientServer
from tacit.core.theory.privacy import epsilon
from tacit.lab.audit.insiders import hear_everything, insider_density
from tacit.lab.audit.reconstruction import Posterior, Prior, from_kinks, kinks

Adversary = Literal["eavesdropper", "server", "compromised", "insiders", "conspirators"]
"""The adversaries, named by what they see."""
ADVERSARIES: tuple[Adversary, ...] = get_args(Adversary)
"""All adversaries."""


@dataclass(frozen=True, eq=False, repr=False)
class Belief(Shown):
    """What an adversary believes after 0, 1, …, T rounds.

    Row t of every array is after t rounds.

    Attributes
    ----------
    agent : int
    adversary : str
    level : float
        Probability, to the adversary, that the credible interval contains the value.
    rounds : array, shape (T + 1,)
        0 to T.
    values : array, shape (points,)
        Possible starts, evenly over the prior's interval, with both ends.
    prior : array, shape (points,)
        Density before the first message.
    density : array, shape (T + 1, points)
    mean, low, high : array, shape (T + 1,)
        Expected value, and the ends of the credible interval with equal tails.
    learned : array, shape (T + 1,)
        Logarithm of the largest factor by which the density at any value has risen or fallen. These
        four are exact, except for insiders who do not see everything: then limited by `points`.
    epsilon : array, shape (T + 1,)
        ε of the first t rounds, per unit of adjacency, rounded up.
    promised : array, shape (T + 1,)
        ε times the length of the prior's interval, rounded up: `learned` never exceeds it.
    most, least : array, shape (T + 1, points)
        The largest and the smallest density at each value that is possible after t rounds.
    """

    agent: int
    adversary: Adversary
    level: float
    rounds: IntArray
    values: FloatArray
    prior: FloatArray
    density: FloatArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray
    learned: FloatArray
    epsilon: FloatArray
    promised: FloatArray
    most: FloatArray
    least: FloatArray

    def __post_init__(self) -> None:
        for array in vars(self).values():
            if isinstance(array, np.ndarray):
                frozen(array)

    def table(self) -> dict[str, FloatArray | IntArray]:
        """Return what has one number per round, by name."""
        names = ("mean", "low", "high", "learned", "promised", "epsilon")
        return {"round": self.rounds, **{name: getattr(self, name) for name in names}}

    def as_dict(self) -> dict[str, Any]:
        """Return who believes what after every round, for programs."""
        return {"agent": self.agent, "adversary": self.adversary, "level": self.level, **self.table()}

    def summary(self) -> Grid:
        """Return what is believed after some of the rounds, for people."""
        last = int(self.rounds[-1])
        some = sorted({t for t in (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, last) if t <= last})
        rows = [
            (
                str(t),
                near(self.mean[t]),
                f"{near(self.low[t])} to {near(self.high[t])}",
                shown_up(self.epsilon[t]),
            )
            for t in some
        ]
        title = f"What is believed about the start of agent {self.agent} ({self.adversary})"
        return Grid(title, ("rounds", "mean", f"{100 * self.level:g}% interval", "ε so far"), rows)

    def __repr__(self) -> str:
        return f"<Belief about agent {self.agent} ({self.adversary}), {self.rounds[-1]} rounds>"


def belief(
    source: History,
    agent: int,
    *,
    prior: Prior | tuple[float, float] | None = None,
    adversary: Adversary = "eavesdropper",
    compromised: Iterable[int] = (),
    points: int = 401,
    level: float = 0.95,
    run: int = 0,
    component: int = 0,
    keeper: int = 0,
) -> Belief:
    """Return what an adversary believes about an agent's start, per round.

    Time and memory grow like rounds × (rounds + points).

    Parameters
    ----------
    source : History
        What happened; only messages and feedback are read. From arrays: ``History.full(mechanism, x, y)``.
    agent : int
    prior : Prior or (low, high), optional
        Prior knowledge; two numbers are a flat prior. By default flat on the declared range; only messages on
        a lattice declare one.
    adversary : {"eavesdropper", "server", "compromised", "insiders", "conspirators"}
    compromised : numbers of agents
        For "compromised" and "insiders": the agents that tell everything. The agent itself must not be one.
    points : int
        Number of values at which the density is given.
    level : float
        Of the credible interval.
    run, component : int
        Which session of transcripts; which component of vectors.
    keeper : int
        For conspirators: which keeper is honest.

    Examples
    --------
    >>> from tacit import ClientServer, Fading
    >>> mechanism = ClientServer(Fading(sigma=0.8, c=10, q=0.6), agents=2)
    >>> history = mechanism.execute([21.0, 19.0], [[4.0, -9.0], [-2.0, 5.0]])
    >>> seen = belief(history, agent=0, prior=(0, 50))
    >>> seen.mean.round(2)
    array([25.  , 25.  , 22.44])
    >>> [(round(float(a), 1), round(float(b), 1)) for a, b in zip(seen.low, seen.high)]
    [(1.3, 48.8), (4.4, 45.6), (3.9, 42.4)]
    >>> bool((seen.learned <= seen.promised).all())
    True
    """
    transcripts = source.stacked
    known = _prior(prior, transcripts)
    if points < 2:
        raise ParameterError(f"points must be at least 2, got {points}.")
    if not 0 <= run < transcripts.runs:
        raise StateError(f"run must be a number from 0 to {transcripts.runs - 1}, got {run}.")
    others = tuple(sorted(set(compromised)))
    _require_view(transcripts, agent, adversary, others)
    law = transcripts.mechanism.law.of_agent(agent)
    values = np.linspace(known.edges[0], known.edges[-1], points)
    if _hears_only_feedback(transcripts, agent, adversary, others):
        seen = _hidden(insider_density(transcripts, run, others, known, points), known, values, level)
    else:
        one = transcripts[slice(run, run + 1)]
        view = _pooled(transcripts[run], agent, keeper) if adversary == "conspirators" else one.of(agent)
        posterior = _by_round(view, known, transcripts.rounds, _component(transcripts, component))
        seen = _heard(posterior, known, values, level)
    spent = _epsilons(law, transcripts.rounds)
    most, least = _limits(known, values, spent)
    return Belief(
        agent=agent,
        adversary=adversary,
        level=level,
        rounds=np.arange(transcripts.rounds + 1),
        values=values,
        prior=known.density(values),
        epsilon=spent,
        promised=np.array([product_up(float(e), known.edges[-1] - known.edges[0]) for e in spent]),
        most=most,
        least=least,
        **seen,
    )


def _heard(posterior: Posterior, prior: Prior, values: FloatArray, level: float) -> dict[str, FloatArray]:
    """Summarise an exact posterior."""
    low, high = posterior.interval(level)
    return {
        "density": posterior.density(values),
        "mean": posterior.mean,
        "low": low,
        "high": high,
        "learned": _learned(posterior, prior),
    }


def _hidden(cells: FloatArray, prior: Prior, values: FloatArray, level: float) -> dict[str, FloatArray]:
    """Summarise densities that are constant in cells of equal width."""
    edges = np.linspace(prior.edges[0], prior.edges[-1], cells.shape[1] + 1)
    middles, width = (edges[1:] + edges[:-1]) / 2, edges[1] - edges[0]
    below = np.concatenate([np.zeros((len(cells), 1)), np.cumsum(cells, axis=1) * width], axis=1)
    low, high = (
        np.array([np.interp(p, row, edges) for row in below]) for p in ((1 - level) / 2, (1 + level) / 2)
    )
    factor = cells / cells[0]  # the ratio is continuous even if the prior has jumps
    with np.errstate(divide="ignore"):
        change = np.abs(np.log(factor)).max(axis=1)
    return {
        "density": prior.density(values) * [np.interp(values, middles, row) for row in factor],
        "mean": cells @ middles * width,
        "low": low,
        "high": high,
        "learned": change,
    }


def _prior(prior: Prior | tuple[float, float] | None, transcripts: History) -> Prior:
    if prior is None:
        if transcripts.wholes is None:
            raise ParameterError(
                "a prior must be given, as (low, high) or a Prior: these messages declare no range of values."
            )
        prior = (transcripts.wholes.lattice.low, transcripts.wholes.lattice.high)
    known = prior if isinstance(prior, Prior) else Prior.flat(*prior)
    if not np.isfinite(known.edges).all():
        raise ParameterError("a prior must be on a finite interval to be drawn: give its low and high end.")
    return known


def _require_view(
    transcripts: History, agent: int, adversary: Adversary, compromised: tuple[int, ...]
) -> None:
    """Refuse adversaries that do not exist here or already know the value."""
    if adversary not in ADVERSARIES:
        raise ParameterError(f"adversary must be one of {', '.join(ADVERSARIES)}, got {adversary!r}.")
    if adversary == "server" and not isinstance(transcripts.mechanism, ClientServer):
        raise StateError("there is no server on a graph: choose the eavesdropper or compromised agents.")
    if not 0 <= agent < transcripts.mechanism.n:
        raise StateError(f"agent must be a number from 0 to {transcripts.mechanism.n - 1}, got {agent}.")
    if adversary == "conspirators" and not transcripts.mechanism.keepers:
        raise StateError(
            "conspirators need keepers, and there are no keepers here: choose another adversary."
        )
    if compromised and adversary not in ("compromised", "insiders"):
        raise ParameterError(
            f"only the adversaries compromised and insiders have compromised agents, got {adversary!r}: "
            "leave them out."
        )
    if adversary == "insiders" and not compromised:
        raise ParameterError("insiders must be named: give the compromised agents.")
    if any(not 0 <= other < transcripts.mechanism.n for other in compromised):
        raise StateError(f"compromised agents must be numbers from 0 to {transcripts.mechanism.n - 1}.")
    if agent in compromised:
        raise StateError(
            f"agent {agent} must not be compromised: compromised agents tell their values, so there is "
            "nothing to infer. Choose another agent."
        )


def _component(transcripts: History, component: int) -> int | None:
    if transcripts.components is None:
        return None
    if not 0 <= component < transcripts.components:
        raise StateError(
            f"component must be a number from 0 to {transcripts.components - 1}, got {component}."
        )
    return component


def _by_round(view: AgentHistory, prior: Prior, rounds: int, component: int | None) -> Posterior:
    """Return the posterior after 0, …, T rounds along its first axis."""
    kink, weight = (a[0] if component is None else a[0, component] for a in kinks(view))
    heard = view.rounds_of < np.arange(rounds + 1)[:, None]
    return from_kinks(kink, np.where(heard, weight, 0.0), prior)


def _hears_only_feedback(
    transcripts: History, agent: int, adversary: Adversary, others: tuple[int, ...]
) -> bool:
    if transcripts.mechanism.keepers:
        return adversary != "conspirators"
    return adversary == "insiders" and not hear_everything(transcripts, agent, others)


def _pooled(run: History, agent: int, keeper: int) -> AgentHistory:
    """Return what conspirators know, as messages of one agent with noise."""
    known = run.conspirators(agent, keeper)
    assert known.x is not None
    x = np.zeros((run.rounds, *known.x.shape[1:]))
    x[: len(known.x)] = known.x
    said = np.arange(run.rounds)[:, None] < len(known.x)  # noise drawn once: nothing is sent after it
    alone = ClientServer(run.mechanism.law.of_agent(agent), agents=1)
    update = np.arange(run.rounds)
    return History(alone, x, run.y, said, update, update[:, None]).of(0)


def _epsilons(law: Law, rounds: int) -> FloatArray:
    """Return ε_t of the agent's own parameters for t = 0, …, T."""
    return np.array([epsilon(law, t) for t in range(rounds + 1)])


def _learned(posterior: Posterior, prior: Prior) -> FloatArray:
    """Largest |log density − log prior|, over all values.

    Both are linear between knots, so the largest difference is at a knot.
    """
    solid = posterior.right > posterior.left
    before = np.log(prior.density(np.where(solid, (posterior.left + posterior.right) / 2, prior.edges[0])))
    ends = np.stack([posterior.log_left, posterior.log_right]) - before
    change = np.abs(ends + posterior.log_peak[:, None])
    most = np.max(change, axis=(0, 2), where=solid, initial=0.0)
    return np.where(posterior.slope.any(axis=1), most, 0.0)  # no message: exactly 0, without rounding errors


def _limits(prior: Prior, values: FloatArray, spent: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the largest and smallest possible density at each value.

    The log-likelihood ℓ is concave with slopes within ±ε. The mean likelihood under the prior, divided by
    that at v, is least if ℓ falls with slope ε on both sides of v, and greatest if it rises throughout.
    """
    edges = np.array(prior.edges) - values[:, None]
    bins = prior.density(np.array(prior.edges[:-1]))
    before = prior.density(values)
    most, least = np.empty((len(spent), len(values))), np.empty((len(spent), len(values)))
    for t, eps in enumerate(spent):
        if eps == 0:
            most[t] = least[t] = before
            continue
        falls = np.sign(edges) * -np.expm1(-eps * np.abs(edges)) / eps
        reach = np.clip(eps * edges, -700, 700)  # beyond that a double overflows
        rises = np.stack([np.expm1(reach), -np.expm1(-reach)]) / eps
        most[t] = before / (np.diff(falls, axis=1) @ bins)
        least[t] = before / np.max(np.diff(rises, axis=2) @ bins, axis=0)
    return most, least
