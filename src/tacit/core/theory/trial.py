"""A plan with some sides filled in, and its results."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple, Self, final

import numpy as np

from tacit.base.arrays import FloatArray, PerAgent
from tacit.base.errors import ParameterError
from tacit.base.rounding import shown_up
from tacit.core.graph import Graph
from tacit.core.law import Fading, Law, OneShot
from tacit.core.mechanism import Mechanism
from tacit.core.theory import accuracy, convergence, every_agent, privacy
from tacit.core.theory.agreement import apart
from tacit.core.theory.endings import Ending, ending, failure, shares
from tacit.core.theory.plan import Plan
from tacit.core.theory.promise import Promise, analyze
from tacit.core.theory.searching import least, least_whole

BRISK = 0.99
"""The largest mixing a design chooses on a graph, unless more is needed: within 7% of the limit."""

AT_ONCE = 0.999999
"""The largest mixing that a design chooses: agents take over the mean in one round."""

MOST_AGENTS = 10**15
_DIGITS = (
    8  # of noise and decay, rounded up before the promise is computed, so that it holds for printed numbers
)
_SAME = 1 + 1e-12  # a tolerance may be exceeded by rounding errors: 0.1³ counts as 0.001


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Trial:
    """A plan that asks for the best parameters, partly filled in.

    The fields are the sides that a search may change; everything else is taken from the plan. If `mixing`
    is None, it is free (see `tacit.core.theory.choosing`), and methods that need a mixing use the largest one
    that a design chooses.
    """

    plan: Plan
    law: type[Law]
    agents: int | None
    epsilon: float | None
    radius: float | None
    failure_probability: float | None
    rounds: int | None
    tolerance: float
    mixing: PerAgent | None

    def __post_init__(self) -> None:
        given = (self.epsilon is not None, self.radius is not None, self.sized)
        if sum(given) < 2:
            raise ParameterError(
                "a design needs at least two of privacy (epsilon), accuracy (radius) and size (agents or "
                "graph): the third is what it answers."
            )
        OneShot(self.sigma, 1.0)  # refuses a mixing out of range
        if self.failure_probability is None and not all(given):
            raise ParameterError(
                "to compute the failure probability, give epsilon, radius and a size.", "failure_probability"
            )

    @classmethod
    def of(cls, plan: Plan, law: type[Law] | None = None) -> Self:
        """Return the trial of a plan with a law, the usual one unless given."""
        for word in ("noise", "decay"):
            if getattr(plan, word) is not None:
                raise ParameterError(f"a design finds the best {word}: leave it out.", word)
        plan.own_parameters()  # refuses those that the law does not have
        if plan.chosen_law.whole_domain:
            plan.require_whole_domain(plan.chosen_law)
        epsilon = plan.epsilon
        if plan.loss is not None:
            epsilon = plan.loss / plan.scope.adjacency
        return cls(
            plan=plan,
            law=usual_laws(plan)[0] if law is None else law,
            agents=plan.agents,
            epsilon=epsilon,
            radius=None if plan.radius is None else _of_vectors(plan, plan.radius),
            failure_probability=plan.failure_probability,
            rounds=plan.rounds,
            tolerance=plan.scope.tolerance,
            mixing=plan.mixing,
        )

    @property
    def graph(self) -> Graph | None:
        """The graph, if there is no server."""
        return self.plan.network

    @property
    def by_loss(self) -> bool:
        """Whether privacy was given as a loss; then alternatives are losses, too."""
        return self.plan.loss is not None

    @property
    def unit(self) -> float:
        """How much of the answer one unit of a component is; 1 for a mean."""
        return _unit(self.plan) or 1.0

    @property
    def adjacency(self) -> float:
        """Two values that differ by at most this must be hard to tell apart."""
        return self.plan.scope.adjacency

    @property
    def spread(self) -> float:
        """Largest minus smallest value to start from."""
        return self.plan.scope.spread

    @property
    def sized(self) -> bool:
        """Whether the number of agents is given."""
        return self.agents is not None or self.graph is not None

    @property
    def b(self) -> float:
        """The failure probability; 0.05 if it is the open side."""
        return 0.05 if self.failure_probability is None else self.failure_probability

    @property
    def sigma(self) -> float | FloatArray:
        """The mixing to use."""
        largest = AT_ONCE if self.graph is None else BRISK
        sigma = np.asarray(largest if self.mixing is None else self.mixing, dtype=np.float64)
        if self.plan.true_average:
            return float(np.max(sigma))
        return sigma if sigma.ndim else float(sigma)

    def mechanism(self, epsilon: float) -> Mechanism:
        """Return the mechanism with the trial's noise law, for ε."""
        return self.with_law(self.law, epsilon)

    def with_law(self, law: type[Law], epsilon: float) -> Mechanism:
        """Return the mechanism with a law's best noise for ε.

        The best noise has the least variance. Its parameters are short decimal numbers.
        """
        made = self._best(law, epsilon).rounded(_typed)
        asked = self.plan.loss
        if (
            asked is not None and epsilon == asked / self.adjacency
        ):  # rounded, so it may be slightly too large
            while privacy.loss(made, self.adjacency, self.rounds) > asked:
                epsilon = math.nextafter(epsilon, 0.0)
                made = self._best(law, epsilon).rounded(_typed)
        return self.plan.place(made, self.agents)

    def _best(self, law: type[Law], epsilon: float) -> Law:
        if law.whole_domain:
            low = self.plan.span[0]
            return law.best_of(self.sigma, loss=epsilon * self.adjacency, low=low, domain=self.adjacency)
        own = self.plan.own_parameters() if law is self.plan.chosen_law else {}
        if own:
            return law.least_noise(self.sigma, epsilon, self.rounds, own)
        return law.best(self.sigma, epsilon, self.rounds)

    def one_shot(self, epsilon: float) -> Mechanism:
        """Return the mechanism with one-shot noise for ε.

        Every answer is compared with it.
        """
        return self.with_law(OneShot, epsilon)

    def ending_of(self, mechanism: Mechanism) -> Ending:
        """Return how far agents are from the target and from each other.

        It is at the plan's failure probability.
        """
        return ending(mechanism, self.b, self.rounds, self.spread)

    def radius_of(self, mechanism: Mechanism) -> float:
        """The radius of a mechanism at the plan's failure probability."""
        return self.ending_of(mechanism).radius

    def failure_of(self, mechanism: Mechanism) -> float:
        """The probability that a mechanism misses the plan's radius."""
        return failure(mechanism, self.radius or 0.0, self.rounds, self.spread)

    def disagreement_of(self, mechanism: Mechanism) -> float:
        """How far apart agents may be after the plan's rounds."""
        return self.ending_of(mechanism).disagreement

    def met_by(self, mechanism: Mechanism) -> bool:
        """Whether agents end close enough to the target.

        If rounds are given, they must also be close enough to each other.
        """
        if self.rounds is None and self.radius is None:
            return True
        found = self.ending_of(mechanism)
        if self.rounds is not None and found.disagreement > self.tolerance * _SAME:
            return False
        return self.radius is None or found.radius <= self.radius

    def promise_of(self, mechanism: Mechanism) -> Promise:
        """Everything a mechanism promises, in the terms of the plan."""
        asked = {"failure_probability": self.b, "rounds": self.rounds, "tolerance": self.tolerance}
        return analyze(mechanism, **self.plan.promised() | asked)

    def least_epsilon(self) -> float | None:
        """The least ε that meets the plan with this mixing; None if no ε does."""
        if self.radius is None:
            guess = 1.0
        else:
            rough = self.rough(deviations=2.0)
            certain, noise = rough.certain, rough.noise
            if certain >= self.radius:
                return None
            guess = noise / (self.radius - certain)
            for _ in range(4):  # the noise's part of the radius is nearly proportional to 1/ε
                found = self.radius_of(self.mechanism(guess)) - certain
                guess *= found / (self.radius - certain)
                if abs(found / (self.radius - certain) - 1) < 1e-10:
                    break
        return least(lambda epsilon: self.met_by(self.mechanism(epsilon)), guess, most=1e12)

    def least_agents(self) -> int | None:
        """Return the least number of agents that meets the plan.

        They are around a server. None if no number does.
        """
        if self.radius is None:
            return 1

        def enough(n: int) -> bool:
            sized = replace(self, agents=n)
            return sized.met_by(sized.mechanism(self.epsilon or 1.0))

        n = 1000
        power = 1 if self.plan.keepers else 2
        # The noise's part of the radius is nearly proportional to 1/√N, with keepers to 1/N.
        for _ in range(4):
            sized = replace(self, agents=n)
            certain = sized.rough(deviations=2.0).certain
            if certain >= self.radius and n > 1:
                return None if not enough(1) else 1
            found = sized.radius_of(sized.mechanism(self.epsilon or 1.0)) - certain
            previous, n = n, math.ceil(min(n * (found / (self.radius - certain)) ** power, MOST_AGENTS))
            if abs(n - previous) <= 1:
                break
        return least_whole(enough, n, lowest=1, most=MOST_AGENTS)

    def rough(self, deviations: float) -> Rough:
        """Estimate how radius and disagreement depend on ε.

        The exact law of the noise is not used. `deviations` is an estimate of the radius in standard
        deviations of the average.
        """
        mechanism = self.mechanism(1.0)
        noise = deviations * accuracy.variance(mechanism, self.rounds) ** 0.5
        if self.rounds is None:
            return Rough(0.0, noise, 0.0, 0.0)
        if not convergence.moves_as_one(mechanism):
            found = every_agent.rough(mechanism, self.rounds, self.spread, self.b)
            if found is not None:
                return Rough(found.bias, found.by_noise, found.apart, found.apart_by_noise)
        share = shares(mechanism, self.b).agreement
        noisy = apart(mechanism, self.rounds, self.spread, share)
        quiet = apart(self.mechanism(1e12), self.rounds, self.spread, share)
        by_noise = noisy.own - quiet.own + noise
        return Rough(quiet.own, by_noise, quiet.pair, noisy.pair - quiet.pair)


class Rough(NamedTuple):
    """Estimates of the radius and the disagreement for any ε.

    The radius is certain + noise/ε, and the disagreement apart + apart_by_noise/ε. `certain` is how far the
    farthest agent is from the average without noise.
    """

    certain: float
    noise: float
    apart: float
    apart_by_noise: float


def _unit(plan: Plan) -> float | None:
    """Return the unit of the plan's answers; None if it has none."""
    if plan.question is None:
        return 1.0
    n = plan.network.n if plan.network is not None else plan.agents
    return None if n is None else plan.asked.unit(n)


def _of_vectors(plan: Plan, radius: float) -> float:
    """Return the radius of vectors that a radius of the answer needs."""
    unit = _unit(plan)
    if unit is not None:
        return radius if unit == 1.0 else math.nextafter(radius / unit, 0.0)
    if plan.asked.unit(1) is None:
        raise ParameterError(
            f"the intervals of a {plan.asked.kind} have no single radius: give the loss and a size, and the "
            "design says how wide they are.",
            "radius",
        )
    raise ParameterError(
        f"the radius of a {plan.asked.kind} is a number of records or a sum, so it depends on how many "
        "agents there are: give their number.",
        "agents",
    )


def usual_laws(plan: Plan) -> tuple[type[Law], ...]:
    """Return the noise laws to try for a plan; the first is the usual one.

    If a server sums all messages and nobody asks for motion (a mixing), noise that is drawn once is never
    less accurate than fresh noise in every round. After finitely many rounds that is proved for failure
    probabilities below 1/2 (docs/proofs/best-noise.md); for others both laws are tried.
    """
    if plan.law is not None and not plan.best_law:
        return (plan.chosen_law,)
    usual = _by_default(plan)
    if not plan.best_law:
        return usual
    return tuple(dict.fromkeys((*usual, OneShot, *plan.whole_domain_laws())))


def _by_default(plan: Plan) -> tuple[type[Law], ...]:
    """Return the laws to try if none is named."""
    if plan.drawn_once:
        return (OneShot,)
    if plan.graph is not None or plan.mixing is not None:
        return (Fading,)
    b = plan.failure_probability
    return (OneShot,) if plan.rounds is None or (b is not None and b < 0.5) else (OneShot, Fading)


def _typed(value: float, distance: float | None = None) -> float:
    """Round up to a few digits.

    For a decay near 1, keep the digits of its distance from 1.
    """
    digits = _DIGITS if distance is None else _DIGITS + max(0, math.ceil(-math.log10(distance)))
    rounded = float(shown_up(value, min(digits, 16)))
    return rounded if rounded >= value and (distance is None or rounded < 1) else value
