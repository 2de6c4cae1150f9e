"""The interface of a method: parameters, runs, error, attack, promise."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Self

import numpy as np

from tacit.base.arrays import FloatArray
from tacit.core.theory.bounds import least_variance
from tacit.lab.comparison.case import Case

_NEGLIGIBLE = 1e-6  # of the first message's weight: messages with less are ignored


class Said(NamedTuple):
    """One round of many runs; agents along axis 0, runs along axis 1.

    `x` are the messages and `theta` the states after the round. `y` is the public part of an agent's next
    state, which follows from messages only. `y` has a single row if it is the same for all agents.
    """

    x: FloatArray
    y: FloatArray
    theta: FloatArray


class Error(NamedTuple):
    """The law of the group's average minus the true one, after the last round."""

    deviation: float
    radius: float


@dataclass(frozen=True)
class Guarantee:
    """What a method promises, and against whom.

    Attributes
    ----------
    kind : str
        ``"pure"`` (ε for all messages), ``"one honest keeper"`` (the same if at least one keeper is honest),
        ``"per pair"`` ((ε, δ) for what one other agent receives, on average over pairs) or ``"none"`` (not
        differentially private).
    epsilon : float or None
        Per unit of adjacency, rounded up.
    delta : float
        Failure probability; 0 for a pure guarantee.
    worst : float or None
        ε, with the same δ, against an eavesdropper on everything.
    by_distance : tuple of (distance, ε)
        Of a guarantee per pair: the largest ε found at each distance.
    """

    kind: str
    against: str
    epsilon: float | None = None
    delta: float = 0.0
    worst: float | None = None
    by_distance: tuple[tuple[int, float], ...] = field(default=(), repr=False)


class Method(ABC):
    """One method for averaging private values.

    Attributes
    ----------
    name, title, source : str
        Name on the command line, title, and literature.
    needs : str
        What it needs besides synchronous rounds.
    rounds : int
        How many rounds it takes in this case.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[str]
    needs: ClassVar[str]
    rounds: int

    @classmethod
    @abstractmethod
    def tuned(cls, case: Case) -> Self:
        """Return the method with its best noise for the case."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What it promises, and against whom."""

    @property
    @abstractmethod
    def settings(self) -> dict[str, float]:
        """Its parameters, by name; the largest if agents differ."""

    @property
    @abstractmethod
    def messages(self) -> int:
        """Messages of one round."""

    @abstractmethod
    def run(self, theta: FloatArray, rng: np.random.Generator) -> Iterator[Said]:
        """Run all rounds from the states of many runs, shape (n, runs)."""

    @abstractmethod
    def error(self, failure_probability: float) -> Error | None:
        """The closed form of the error, with its radius.

        The radius is missed with the given probability. None if neither is proved.
        """

    def least_error(self, agents: int) -> float | None:
        """The least deviation of any unbiased method with this guarantee.

        None if the guarantee is not pure, or ε is 0. See docs/proofs/bounds.md, section 1. Override it if
        the agents' states keep a part of their own initial value, which nobody else knows.
        """
        given = self.guarantee
        if given.kind != "pure" or not given.epsilon:
            return None
        return math.sqrt(least_variance(given.epsilon, agents))

    @abstractmethod
    def attack(self, agent: int, x: FloatArray, y: FloatArray) -> FloatArray:
        """Return an agent's most likely start, for an eavesdropper on everything.

        Parameters
        ----------
        x, y : array, shape (rounds, runs)
            The agent's messages, and the public part of its states (see `Said`).
        """


def laplace(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Laplace noise of scale 1. Seedable, NOT private."""
    return np.asarray(rng.standard_exponential(shape) - rng.standard_exponential(shape))


def likeliest_start(x: FloatArray, y: FloatArray, keeps: float, scales: FloatArray) -> FloatArray:
    """Maximise the likelihood of θ(0), given messages and feedback.

    States follow θ(t+1) = keeps·θ(t) + y(t), and messages are x(t) = θ(t) + Lap(scale_t).

    Let κ_t be the θ(0) for which the noise of message t would be 0. As a function of θ(0) the log-likelihood
    is −Σ_t w_t·|θ(0) − κ_t| with w_t = |keeps|^t/scale_t. Its maximum is the weighted median of the κ_t.
    """
    shrink = keeps ** np.arange(len(x))
    weight = np.divide(
        np.abs(shrink), scales, out=np.zeros(len(x)), where=scales > 0
    )  # 0 once both underflow
    told = max(1, int(np.argmax(weight < _NEGLIGIBLE * weight[0])) or len(x))
    path, kinks = np.zeros(x.shape[1]), np.empty((told, x.shape[1]))
    for t in range(told):
        kinks[t] = (x[t] - path) / shrink[t]
        path = keeps * path + y[t]
    order = np.argsort(kinks, axis=0)
    below = np.cumsum(weight[order], axis=0)
    middle = np.argmax(below >= below[-1] / 2, axis=0)
    return np.asarray(np.take_along_axis(kinks, np.take_along_axis(order, middle[None], 0), 0)[0])
