"""Scores learned from transcripts, for unknown mechanisms.

They are fitted on some transcripts and judged on others, so the bound on the loss is valid for every score;
a bad score can only miss a leak.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.linalg import svd

from tacit.base.arrays import FloatArray
from tacit.core.history import AgentHistory, History
from tacit.lab.audit.attacks import last_bit
from tacit.lab.audit.bits import bits_above, bits_of
from tacit.lab.audit.likelihood import counted, drawn_steps, sent_steps

Score: TypeAlias = Callable[[FloatArray], FloatArray]
"""From rows of numbers, one row per transcript, to one number each."""

_MOST_COLUMNS = 400
_RIDGE = 1e-11  # smaller singular values, relative to the largest, count as rounding errors
_STEP = 2.0**-14  # of the spread of scores: much smaller differences depend on the machine
_PENALTY = 1e-3
_MOST_BITS = 2000  # of a session
_CLEAR = 4.0  # standard errors: bits whose means differ by less are left out
_MOST_CLEAR = 100  # bits that a score uses


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


def bit_rows(view: AgentHistory, theta: npt.ArrayLike, other: npt.ArrayLike) -> FloatArray:
    """Return the bits of an agent's messages as one row of ±1 per session.

    They are followed by the bits of which the state that a start implies is taken away, added up over the
    messages, for each of the two starts. Needs a lattice.
    """
    runs, told, sent = len(view.x), counted(view) & (view.scales > 0), sent_steps(view)
    told = np.broadcast_to(told.reshape(*told.shape, *(1,) * (sent.ndim - 2)), sent.shape)
    assert view.exponent is not None
    scale = np.where(view.scales > 0, view.scales, np.inf)
    width = bits_above(float(np.max(np.ldexp(1 / scale, view.exponent))))

    def signs(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int8]:
        return np.where(told[..., None], 1 - 2 * bits_of(numbers, width).astype(np.int8), 0).astype(np.int8)

    rows = [signs(sent).reshape(runs, -1)[:, :_MOST_BITS]]
    for start in (theta, other):
        state = sent - drawn_steps(view, start)
        rows.append(signs(sent ^ state).reshape(runs, -1, width).sum(axis=1, dtype=np.int64))
    return np.concatenate(rows, axis=1).astype(np.float32)


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
    # And not by LAPACK's gesdd, NumPy's choice: it fails on some matrices of low rank.
    _, singular, directions = svd(inner, full_matrices=False, lapack_driver="gesvd")
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

    weight = _fisher(features(first), features(second))
    return lambda z: features(z) @ weight


def sparse_score(first: FloatArray, second: FloatArray) -> Score:
    """Fisher's discriminant on the columns whose means clearly differ.

    With many columns and few sessions, the chance of the others would drown them.
    """
    gap = np.abs(first.mean(axis=0) - second.mean(axis=0))
    error = np.sqrt(first.var(axis=0) / len(first) + second.var(axis=0) / len(second))
    clear = np.where(gap > _CLEAR * error, gap / np.maximum(error, _PENALTY), 0.0)
    used = np.argsort(-clear, kind="stable")[: min(_MOST_CLEAR, np.count_nonzero(clear))]
    weight = _fisher(*(z[:, used].astype(np.float64) for z in (first, second)))
    return lambda z: z[:, used].astype(np.float64) @ weight


def _fisher(first: FloatArray, second: FloatArray) -> FloatArray:
    gap = first.mean(axis=0) - second.mean(axis=0)
    inner = np.concatenate([first - first.mean(axis=0), second - second.mean(axis=0)])
    covariance = inner.T @ inner / len(inner)
    return np.linalg.solve(covariance + _PENALTY * np.eye(len(gap)), gap)


def bits_score(first: FloatArray, second: FloatArray) -> Score:
    """The same on the position of each number's lowest bit."""
    score = step_score(*(last_bit(z).astype(np.float64) for z in (first, second)))
    return lambda z: score(last_bit(z).astype(np.float64))


LEARNED: dict[str, Callable[[FloatArray, FloatArray], Score]] = {
    "linear probe": linear_score,
    "learned distinguisher": step_score,
    "learned low bits": bits_score,
}
"""Ways to learn a score from rows of numbers, by name."""


def learn(way: Callable[[FloatArray, FloatArray], Score], first: FloatArray, second: FloatArray) -> Score:
    """Return a score fitted to rows from two starts, rounded to steps.

    A step is 2^−14 of the spread of scores. Linear algebra differs between machines in the last digits. A
    score that separates two starts perfectly has nearly two values; rounded to steps it has exactly two,
    on every machine.
    """
    score = way(first, second)
    seen = np.concatenate([score(first), score(second)])
    step = _STEP * float(np.ptp(seen)) or 1.0
    return lambda z: np.rint(score(z) / step)


def _standard(both: FloatArray) -> tuple[FloatArray, FloatArray]:
    spread = both.std(axis=0)
    return both.mean(axis=0), np.where(spread > 0, spread, 1.0)
