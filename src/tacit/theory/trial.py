"""A design question with some sides filled in, and its results."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import NamedTuple, Self, final

import numpy as np

from tacit.arrays import FloatArray, PerAgent
from tacit.errors import ParameterError
from tacit.graph import Graph
from tacit.law import Law, OneShot
from tacit.mechanism import Mechanism
from tacit.rounding import shown_up
from tacit.theory import accuracy, convergence, every_agent
from tacit.theory.agreement import apart
from tacit.theory.endings import Ending, ending, failure, shares
from tacit.theory.promise import Promise, analyze
from tacit.theory.question import Question
from tacit.theory.searching import least, least_whole

BRISK = 0.99
"""The largest mixing a design chooses, unless more is needed: its radius is within 7% of the limit."""

MOST_AGENTS = 10**15
_DIGITS = (
    8  # of noise and decay, rounded up before the promise is computed, so that it holds for printed numbers
)
_SAME = 1 + 1e-12  # a tolerance may be exceeded by rounding errors: 0.1³ counts as 0.001


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Trial:
    """A question about the best parameters, partly filled in.

    The fields are the sides that a search may change; everything else is taken from the question. If `mixing`
    is None, it is free (see `tacit.theory.choosing`), and methods that need a mixing use `BRISK`.
    """

    question: Question
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
    def of(cls, question: Question) -> Self:
        """Return the trial of a question."""
        for word in ("noise", "decay"):
            if getattr(question, word) is not None:
                raise ParameterError(f"a design finds the best {word}: leave it out.", word)
        epsilon = question.epsilon
        return cls(
            question=question,
            agents=question.agents,
            epsilon=epsilon if question.loss is None else question.loss / question.scope.adjacency,
            radius=question.radius,
            failure_probability=question.failure_probability,
            rounds=question.rounds,
            tolerance=question.scope.tolerance,
            mixing=question.mixing,
        )

    @property
    def graph(self) -> Graph | None:
        """The graph, if there is no server."""
        return self.question.network

    @property
    def law(self) -> type[Law] | None:
        """The noise law, if one was named."""
        return None if self.question.law is None else self.question.chosen_law

    @property
    def by_loss(self) -> bool:
        """Whether privacy was given as a loss; then alternatives are losses, too."""
        return self.question.loss is not None

    @property
    def adjacency(self) -> float:
        """Two values that differ by at most this must be hard to tell apart."""
        return self.question.scope.adjacency

    @property
    def spread(self) -> float:
        """Largest minus smallest value to start from."""
        return self.question.scope.spread

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
        sigma = np.asarray(BRISK if self.mixing is None else self.mixing, dtype=np.float64)
        if self.question.true_average:
            return float(np.max(sigma))
        return sigma if sigma.ndim else float(sigma)

    def mechanism(self, epsilon: float) -> Mechanism:
        """Return the mechanism with the question's noise law, for ε."""
        return self.with_law(self.question.chosen_law, epsilon)

    def with_law(self, law: type[Law], epsilon: float) -> Mechanism:
        """Return the mechanism with a law's best noise for ε.

        The best noise has the least variance. Its parameters are short decimal numbers.
        """
        own = self.question.own_parameters() if law is self.question.chosen_law else {}
        if own:
            best = law.least_noise(self.sigma, epsilon, self.rounds, own)
        else:
            best = law.best(self.sigma, epsilon, self.rounds)
        return self.question.place(best.rounded(_typed), self.agents)

    def one_shot(self, epsilon: float) -> Mechanism:
        """Return the mechanism with one-shot noise for ε.

        Every answer is compared with it.
        """
        return self.with_law(OneShot, epsilon)

    def ending_of(self, mechanism: Mechanism) -> Ending:
        """Return how far agents are from the target and from each other.

        It is at the question's failure probability.
        """
        return ending(mechanism, self.b, self.rounds, self.spread)

    def radius_of(self, mechanism: Mechanism) -> float:
        """The radius of a mechanism at the question's failure probability."""
        return self.ending_of(mechanism).radius

    def failure_of(self, mechanism: Mechanism) -> float:
        """The probability that a mechanism misses the question's radius."""
        return failure(mechanism, self.radius or 0.0, self.rounds, self.spread)

    def disagreement_of(self, mechanism: Mechanism) -> float:
        """How far apart agents may be after the question's rounds."""
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
        """Everything a mechanism promises, in the terms of the question."""
        asked = {"failure_probability": self.b, "rounds": self.rounds, "tolerance": self.tolerance}
        return analyze(mechanism, **self.question.promised() | asked)

    def least_epsilon(self) -> float | None:
        """The least ε that meets the question with this mixing; None if no ε does."""
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
        """Return the least number of agents that meets the question.

        They are around a server. None if no number does.
        """
        if self.radius is None:
            return 1

        def enough(n: int) -> bool:
            sized = replace(self, agents=n)
            return sized.met_by(sized.mechanism(self.epsilon or 1.0))

        n = 1000
        power = 1 if self.question.keepers else 2
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
            return Rough(0.0, 0.0, noise, 0.0, 0.0)
        if not convergence.moves_as_one(mechanism):
            found = every_agent.rough(mechanism, self.rounds, self.spread, self.b)
            if found is not None:
                return Rough(found.bias, found.bias, found.by_noise, found.apart, found.apart_by_noise)
        share = shares(mechanism, self.b).agreement
        noisy = apart(mechanism, self.rounds, self.spread, share)
        if convergence.moves_as_one(mechanism):
            near = noisy.pair / mechanism.n if mechanism.n > 1 else noisy.own
            return Rough(noisy.own, near, noise, noisy.pair, 0.0)
        quiet = apart(self.mechanism(1e12), self.rounds, self.spread, share)
        by_noise = noisy.own - quiet.own + noise
        return Rough(quiet.own, quiet.own, by_noise, quiet.pair, noisy.pair - quiet.pair)


class Rough(NamedTuple):
    """Estimates of the radius and the disagreement for any ε.

    The disagreement is apart + apart_by_noise/ε. `certain` is how far the farthest agent is from the average,
    `near` how far the agent at the other end is. `noise` is the radius of the average alone, for ε = 1. If
    noise moves all agents alike, the two ends share the failure probability, and the radius is less than
    certain + noise/ε (docs/proofs/ending.md).
    """

    certain: float
    near: float
    noise: float
    apart: float
    apart_by_noise: float

    def radius(self, epsilon: float, b: float) -> float:
        """Estimate the radius, as if the noise were normal."""
        width = self.noise / epsilon
        if b >= 0.5 or self.certain == self.near:
            return self.certain + width
        return _rise(lambda r: b - self.missed(r, width, b), self.certain, self.certain + width)

    def room(self, radius: float, b: float) -> float:
        """Estimate the noise/ε that leads to a radius; at most 0 if none does."""
        least = radius - self.certain
        if b >= 0.5 or self.certain == self.near or least <= 0:
            return least
        return _rise(lambda width: self.missed(radius, width, b) - b, least, radius - self.near)

    def missed(self, radius: float, width: float, b: float) -> float:
        """Estimate how often an agent at either end leaves a radius.

        The average alone leaves `width` with probability b.
        """
        unit = width / NormalDist().inv_cdf(1 - b / 2) * math.sqrt(2)
        if unit == 0:
            return 0.0
        return 0.5 * sum(math.erfc((radius - end) / unit) for end in (self.certain, self.near))


def _rise(function: Callable[[float], float], low: float, high: float) -> float:
    """Find where a growing function passes 0, between two numbers."""
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if function(middle) >= 0 else (middle, high)
    return high


def _typed(value: float, distance: float | None = None) -> float:
    """Round up to a few digits.

    For a decay near 1, keep the digits of its distance from 1.
    """
    digits = _DIGITS if distance is None else _DIGITS + max(0, math.ceil(-math.log10(distance)))
    rounded = float(shown_up(value, min(digits, 16)))
    return rounded if rounded >= value and (distance is None or rounded < 1) else value
