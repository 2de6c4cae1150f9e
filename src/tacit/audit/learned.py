"""Scores learned from transcripts, for unknown mechanisms.

They are fitted on some transcripts and judged on others, so the bound on the loss is valid for every score;
a bad score can only miss a leak.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from tacit.arrays import FloatArray
from tacit.audit.attacks import last_bit
from tacit.history import History

Score: TypeAlias = Callable[[FloatArray], FloatArray]
"""From rows of numbers, one row per transcript, to one number each."""

_MOST_COLUMNS = 400
_RIDGE = 1e-11  # smaller singular values, relative to the largest, count as rounding errors
_STEP = 2.0**-14  # of the spread of scores: much smaller differences depend on the machine
_PENALTY = 1e-3


def rows(transcripts: History, agent: int) -> FloatArray:
    """Return all messages and feedback as one row of numbers per session.

    With very many agents or rounds, only those of the agent itself.
    """
    runs = transcripts.runs
    x, y = transcripts.x.reshape(runs, -1), transcripts.y.reshape(runs, -1)
    if x.shape[1] + y.shape[1] > _MOST_COLUMNS:
        view = transcripts.of(agent)
        x, y = view.x.reshape(runs, -1), view.y.reshape(runs, -1)
    return np.concatenate([x, y], axis=1)[:, :_MOST_COLUMNS]


def linear_score(first: FloatArray, second: FloatArray) -> Score:
    """Fisher's linear discriminant, by singular values.

    Finds any combination of messages in which noise cancels: a state that was sent raw, noise
    that two agents share, noise that is taken back later.
    """
    centre, spread = _standard(np.concatenate([first, second]))
    a, b = (first - centre) / spread, (second - centre) / spread
    gap = a.mean(axis=0) - b.mean(axis=0)
    inner = np.concatenate([a - a.mean(axis=0), b - b.mean(axis=0)])
    # Not the covariance: squaring would lose directions with a variance below 10^−16.
    _, singular, directions = np.linalg.svd(inner, full_matrices=False)
    ridge = (_RIDGE * max(singular[0], 1e-300)) ** 2
    along = directions @ gap
    # Feedback is a sum of messages: such directions hold only rounding errors, which depend on the machine.
    along[np.abs(along) < _RIDGE] = 0
    weight = directions.T @ (along / (singular**2 + ridge))
    weight /= max(float(np.abs(weight).max()), 1e-300)
    return lambda z: ((z - centre) / spread) @ weight


def step_score(first: FloatArray, second: FloatArray) -> Score:
    """Fisher's discriminant on bounded features of every number.

    The features say on which side of its median a number is, and how far. Ratios of Laplace densities are
    bounded and step-like; so are these features.
    """
    both = np.concatenate([first, second])
    centre = np.median(both, axis=0)
    spread = np.median(np.abs(both - centre), axis=0)
    spread = np.where(spread > 0, spread, 1.0)

    def features(z: FloatArray) -> FloatArray:
        u = (z - centre) / spread
        return np.concatenate([np.sign(u), np.tanh(u), np.tanh(u / 4)], axis=1)

    a, b = features(first), features(second)
    gap = a.mean(axis=0) - b.mean(axis=0)
    inner = np.concatenate([a - a.mean(axis=0), b - b.mean(axis=0)])
    covariance = inner.T @ inner / len(inner)
    weight = np.linalg.solve(covariance + _PENALTY * np.eye(len(gap)), gap)
    return lambda z: features(z) @ weight


def bits_score(first: FloatArray, second: FloatArray) -> Score:
    """The same on the position of each number's lowest bit."""
    score = step_score(*(last_bit(z).astype(np.float64) for z in (first, second)))
    return lambda z: score(last_bit(z).astype(np.float64))


LEARNED: dict[str, Callable[[FloatArray, FloatArray], Score]] = {
    "linear probe": linear_score,
    "learned distinguisher": step_score,
    "learned low bits": bits_score,
}
"""Ways to learn a score, by name."""


def learn(name: str, first: FloatArray, second: FloatArray) -> Score:
    """Return a score fitted to rows from two starts, rounded to steps.

    A step is 2^−14 of the spread of scores. Linear algebra differs between machines in the last digits. A
    score that separates two starts perfectly has nearly two values; rounded to steps it has exactly two,
    on every machine.
    """
    score = LEARNED[name](first, second)
    seen = np.concatenate([score(first), score(second)])
    step = _STEP * float(np.ptp(seen)) or 1.0
    return lambda z: np.rint(score(z) / step)


def _standard(both: FloatArray) -> tuple[FloatArray, FloatArray]:
    spread = both.std(axis=0)
    return both.mean(axis=0), np.where(spread > 0, spread, 1.0)
