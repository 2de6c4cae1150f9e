"""Choose the gains of agents together with their noise.

Noise must hide how a start fades, and that depends on the gains. So gains that are best without noise can be
bad with it. For given gains the best noise is known in closed form (docs/proofs/dynamics.md, T2), and so is
the cost of all agents around a server, for ever:

    J = value·Var(agreed) + mean over agents of Σ_t e_i(t)'·Q·e_i(t),

with e_i the distance of a state from rest at the value agreed on so far. Then J = transient + (2/N)·w·S³/ε²
with w = value/τ² + h'Ph, P = F'PF + Q for the loop F of the mean, and h what a message moves away from rest.
Only the gains are searched, from several starts: the optimum found is local.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacit.base.arguments import positive, whole
from tacit.base.arrays import FloatArray
from tacit.base.errors import InputError, MotionError, ParameterError
from tacit.base.extras import explains_extras
from tacit.base.report import Row, Shown, Summary, near
from tacit.core.law import Law, OneShot, Scheduled
from tacit.core.law.scheduled import best_schedule
from tacit.core.motion import Linear

_WORST = 1e30
_STABLE = 1 - 1e-6  # modes must fade at least so fast
_CALM = 1e-9
_RESTARTS = 4
_FEW = 10  # components: below, Lyapunov equations are solved directly


class LoopCost(NamedTuple):
    """What agents cost with one kind of noise.

    `agreed` is that of the value agreed on, `states` that of all distances by noise, and `transient` that of
    the starts.
    """

    agreed: float
    states: float
    transient: float

    @property
    def total(self) -> float:
        """All three."""
        return self.agreed + self.states + self.transient


@dataclass(frozen=True, eq=False)
class Choice:
    """Gains, the agents with them, their noise, and what they cost."""

    gains: tuple[float, ...]
    motion: Linear
    law: Law
    cost: LoopCost


@dataclass(frozen=True, eq=False)
class Synthesis(Shown):
    """Gains and noise that were chosen together, and what other orders cost.

    Attributes
    ----------
    together : Choice
        Gains for the best fresh noise. They are a local optimum.
    first : Choice
        Gains that are best without noise, and then the best fresh noise for them.
    once : Choice
        Gains for noise that is drawn once; it needs one private component and a computed state.
    """

    together: Choice
    first: Choice
    once: Choice | None
    starts: int
    agents: int
    rounds: int
    epsilon: float

    @property
    def motion(self) -> Linear:
        """The agents with the gains chosen together with fresh noise."""
        return self.together.motion

    @property
    def times(self) -> float:
        """How many times more "first the controller, then the noise" costs."""
        return self.first.cost.total / self.together.cost.total

    def _choices(self) -> dict[str, Choice]:
        found = {"together": self.together, "first gains, then noise": self.first}
        return found if self.once is None else {**found, "noise once": self.once}

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        rows = {
            name: {
                "gains": list(one.gains),
                "law": one.law.name,
                "cost": one.cost.total,
                **one.cost._asdict(),
            }
            for name, one in self._choices().items()
        }
        return {
            "agents": self.agents,
            "rounds": self.rounds,
            "epsilon": self.epsilon,
            "optimum": "local",
            "starts": self.starts,
            "times": self.times,
            "choices": rows,
        }

    def summary(self) -> Summary:
        """Return a row of cost and gains for each order."""
        rows = []
        for name, one in self._choices().items():
            parts = ", ".join(f"{near(part, 4)} {word}" for word, part in one.cost._asdict().items())
            gains = ", ".join(near(gain, 4) for gain in one.gains)
            rows.append(Row(name, near(one.cost.total, 5), f"{parts}; gains {gains}"))
        rows.append(Row("times", near(self.times, 3), "what first gains, then noise costs, over together"))
        title = (
            f"{self.agents:,} agents around a server, {self.rounds:,} rounds, epsilon {near(self.epsilon)}"
        )
        note = f"The best of {self.starts} searches: a local optimum. Other starts may find a better one."
        return Summary(title, {"Cost": rows}, (note, *self.motion.assumptions))


@explains_extras
def synthesise(
    agents_with: Callable[..., Linear],
    start: Sequence[float],
    *,
    agents: int,
    rounds: int,
    epsilon: float,
    value: float = 1.0,
    states: npt.ArrayLike | None = None,
    spread: float = 1.0,
    tries: int = 3,
    seed: int = 0,
) -> Synthesis:
    """Choose gains and noise together, for equal agents around a server.

    Parameters
    ----------
    agents_with : function of the gains
        Returns the agents' `Linear`. Gains with which they do not settle are not taken.
    start : sequence of float
        Gains to start from; they must settle.
    agents, rounds, epsilon
        How many there are, how many messages each says, and ε per unit of adjacency.
    value : float
        Cost of the variance of the value agreed on.
    states : array of shape (n, n), optional
        Q, symmetric and at least 0: cost of a state's distance from rest, in every round. None: no cost.
    spread : float
        Standard deviation of the private components of starts, in widths.
    tries, seed : int
        How many searches are made, and the seed of their starts.

    Examples
    --------
    >>> made = synthesise(
    ...     lambda k: Linear([[1 - k]], [k], [1], private={0: 1.0}),
    ...     [0.5], agents=10, rounds=60, epsilon=1.0, value=10.0, states=[[1.0]], tries=1,
    ... )
    >>> made.times > 0.999, made.together.law.name
    (True, 'scheduled')
    """
    agents, rounds = whole("agents", agents, 1), whole("rounds", rounds, 1)
    epsilon, value = positive("epsilon", epsilon), positive("value", value)
    job = _Question(agents_with, agents, rounds, epsilon, value, states, positive("spread", spread))
    first = np.asarray(start, dtype=np.float64).reshape(-1)
    job.motion(first)  # refuses a start that does not settle
    rng = np.random.default_rng(seed)
    begun = [
        first,
        *(first * np.exp(rng.normal(0, 0.7, first.size)) for _ in range(whole("tries", tries, 1) - 1)),
    ]
    together = job.best(begun, lambda motion: job.fresh(motion).total)
    alone = job.best([*begun, together], job.transient)
    made, once = job.motion(together).motion, None
    if len(made.private) == 1 and not made.measured:
        gains = job.best([*begun, together], lambda motion: job.once(motion).total)
        shadow = job.motion(gains)
        law = OneShot.best(shadow.motion, epsilon)
        once = Choice(tuple(gains.tolist()), shadow.motion, law, job.once(shadow))
    return Synthesis(job.choice(together), job.choice(alone), once, len(begun), agents, rounds, epsilon)


class _Agents(NamedTuple):
    """Agents as floats, for a search; what is chosen is made exactly again."""

    motion: Linear
    settling: FloatArray
    lag: float
    away: FloatArray
    loop: FloatArray
    starts: FloatArray

    @classmethod
    def of(cls, motion: Linear) -> _Agents:
        """Work out rest and loop; refuse agents that do not settle."""
        rest = np.eye(motion.dimension) - motion.A
        left, right = np.linalg.solve(rest.T, motion.C), np.linalg.solve(rest, motion.B)
        lag, gain = float(left @ right), float(left @ motion.B)
        if abs(gain - 1) > _CALM or abs(lag) < _CALM:
            raise MotionError(
                f"agents must have the gain C(I − A)^−1·B = 1 and a lag, got {gain:.6g} and {lag:.6g}."
            )
        away = np.eye(motion.dimension) - np.outer(right, left) / lag
        loop = away @ (motion.A + np.outer(motion.B, motion.C))
        slowest = max(float(np.abs(np.linalg.eigvals(one)).max()) for one in (loop, motion.A))
        if not slowest < _STABLE:
            raise MotionError(f"agents with these gains do not settle: a mode has modulus {slowest:.6g}.")
        starts = np.zeros((motion.dimension, len(motion.private)))
        for column, (component, half) in enumerate(motion.private):
            starts[component, column] = half
        return cls(motion, np.asarray(left, dtype=np.float64), lag, away, loop, starts)

    def table(self, rounds: int) -> FloatArray:
        """|M_t·d| at each corner."""
        rows, power = self.motion.C[None], self.motion.A
        while len(rows) < rounds:  # C·A^t for twice as many t
            rows, power = np.vstack([rows, rows @ power]), power @ power
        return np.asarray(np.abs(rows[:rounds] @ self.starts @ self.motion.corners.T))


@dataclass(frozen=True, eq=False)
class _Question:
    """The costs of one question."""

    make: Callable[..., Linear]
    n: int
    rounds: int
    epsilon: float
    value: float
    states: Any
    spread: float
    checked: dict[int, FloatArray] = field(default_factory=dict)

    def motion(self, gains: FloatArray) -> _Agents:
        """Return agents that settle; refuse others."""
        made = self.make(*gains.tolist())
        if not isinstance(made, Linear):
            raise ParameterError(f"agents_with must return a Linear, got {type(made).__name__}.")
        if not len(made.corners):
            raise ParameterError('synthesise takes private components in a box or an l1 ball: no norm="l2".')
        return _Agents.of(made)

    def price(self, of: _Agents) -> FloatArray:
        """Q, checked once."""
        n = len(of.away)
        if n in self.checked:
            return self.checked[n]
        Q = np.zeros((n, n)) if self.states is None else np.asarray(self.states, dtype=np.float64)
        if Q.shape != (n, n) or not np.allclose(Q, Q.T) or np.linalg.eigvalsh(Q)[0] < -_CALM:
            raise ParameterError(
                f"states must be a symmetric matrix of shape ({n}, {n}) without negative costs."
            )
        return self.checked.setdefault(n, Q)

    def transient(self, of: _Agents) -> float:
        """The cost of starts: agents that come together."""
        Q = self.price(of)
        starts = self.spread**2 * of.starts @ of.starts.T
        among = float(np.trace(_summed(of.motion.A, Q) @ starts)) * (1 - 1 / self.n)
        return among + float(np.trace(of.away.T @ _summed(of.loop, Q) @ of.away @ starts)) / self.n

    def fresh(self, of: _Agents) -> LoopCost:
        """The cost with the best schedule of fresh noise."""
        moved = of.away @ of.motion.B
        size = best_schedule(of.table(self.rounds)).value * 2 / self.n / self.epsilon**2
        states = size * float(moved @ _summed(of.loop, self.price(of)) @ moved)
        return LoopCost(self.value * size / of.lag**2, states, self.transient(of))

    def once(self, of: _Agents) -> LoopCost:
        """The cost with noise once: that of a shadow that the states follow."""
        Q, n, begun = self.price(of), len(of.away), of.starts[:, 0]
        variance = 2 / self.n / self.epsilon**2
        # e(t) = F̃^t·Πg − A^t·g for a unit of noise
        both = np.zeros((2 * n, 2 * n))
        both[:n, :n], both[n:, n:] = of.loop, of.motion.A
        seen = np.hstack([np.eye(n), -np.eye(n)])
        start = np.concatenate([of.away @ begun, begun])
        states = variance * float(start @ _summed(both, seen.T @ Q @ seen) @ start)
        agreed = self.value * variance * (float(of.settling @ begun) / of.lag) ** 2
        return LoopCost(agreed, states, self.transient(of))

    def best(self, begun: list[FloatArray], cost: Callable[[_Agents], float]) -> FloatArray:
        """Search the gains from all starts."""
        from scipy.optimize import minimize

        def tried(gains: FloatArray) -> float:
            try:
                found = cost(self.motion(gains))
            except (InputError, MotionError, np.linalg.LinAlgError):
                return _WORST
            return found if math.isfinite(found) else _WORST

        options: Any = {"xatol": 1e-5, "fatol": 1e-7, "maxiter": 300}
        found = []
        for one in begun:
            last = math.inf
            for _ in range(_RESTARTS):  # the cost has kinks, where a simplex may collapse
                made = minimize(tried, one, method="Nelder-Mead", options=options)
                one, value = made.x, float(made.fun)  # noqa: PLW2901
                if value > last * (1 - 1e-6):
                    break
                last = value
            found.append((value, tuple(one.tolist())))
        return np.array(min(found)[1])

    def choice(self, gains: FloatArray) -> Choice:
        """Return gains with the best fresh noise for them."""
        made = self.motion(gains)
        law = Scheduled.best(made.motion, self.epsilon, self.rounds)
        return Choice(tuple(gains.tolist()), made.motion, law, self.fresh(made))


def _summed(loop: FloatArray, Q: FloatArray) -> FloatArray:
    """P = F'PF + Q."""
    n = len(loop)
    if n < _FEW:  # as SciPy does, in a quarter of the time: a search asks for thousands
        twice = (loop.T[:, None, :, None] * loop.T[None, :, None, :]).reshape(n * n, n * n)
        return np.asarray(np.linalg.solve(np.eye(n * n) - twice, Q.reshape(-1)).reshape(n, n))
    from scipy.linalg import solve_discrete_lyapunov

    return np.asarray(solve_discrete_lyapunov(loop.T, Q))
