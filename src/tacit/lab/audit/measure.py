"""Measure a lower bound on the loss of a mechanism.

Either with the exact likelihood ratio, or without knowing how the mechanism works.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tacit.base.arrays import FloatArray
from tacit.base.errors import StateError
from tacit.core.theory.privacy import require_adjacency
from tacit.lab.audit.distinguisher import loss_law
from tacit.lab.audit.learned import LEARNED, Score, learn
from tacit.lab.audit.likelihood import log_likelihood_ratio
from tacit.lab.audit.subjects import Subject
from tacit.lab.audit.testers import (
    LossBound,
    coin,
    judge,
    loss_bound,
    rule_from_law,
    rule_from_sample,
    to_learn_from,
)

_CHUNK = 100_000  # sessions held at once


def measure_loss(
    subject: Subject,
    distance: float,
    *,
    rounds: int,
    transcripts: int,
    failure_probability: float = 1e-6,
    agent: int = 0,
    values: npt.ArrayLike | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> LossBound:
    """Bound the loss between two starts from below, by the exact ratio.

    The threshold comes from the exact law under the declared parameters, so no transcript is needed to
    choose it. Millions of transcripts are processed in parts.

    Examples
    --------
    >>> from tacit import ClientServer, Fading
    >>> from tacit.lab.audit import Simulated, measure_loss
    >>> subject = Simulated(ClientServer(Fading(sigma=0.8, c=10, q=0.6), agents=1))
    >>> bound = measure_loss(subject, 16, rounds=8, transcripts=10_000)
    >>> 0.75 * 2.4 < bound.loss < 2.4
    True
    """
    n = subject.mechanism.n
    first = subject.mechanism.states(np.zeros(n) if values is None else values)
    second = first.copy()
    second[(agent, *(0,) * (first.ndim - 1))] += require_adjacency(distance)
    law = loss_law(subject.mechanism.law, rounds, distance, agent=agent)
    rule = rule_from_law(law, transcripts, failure_probability)
    rng = np.random.default_rng([seed, transcripts])
    guesses = correct = 0
    for begin in range(0, transcripts, _CHUNK):
        some = coin(min(_CHUNK, transcripts - begin), rng)
        scores = []
        for which, (start, count) in enumerate(zip((first, second), some, strict=True)):
            seen = subject(start, rounds, max(count, 1), int(rng.integers(2**62)) + which)[:count]
            scores.append(log_likelihood_ratio(seen.of(agent), first[agent], second[agent]))
        found = judge(rule, scores[0], scores[1], failure_probability)
        guesses, correct = guesses + found.guesses, correct + found.correct
        if progress:
            progress(begin + sum(some), transcripts)
    loss = loss_bound(correct, guesses, failure_probability)
    return LossBound(loss, guesses, correct, transcripts, failure_probability)


def measure_black_box(
    mechanism: Callable[[object, int, int], npt.ArrayLike],
    first: object,
    second: object,
    *,
    transcripts: int,
    failure_probability: float = 1e-6,
    seed: int = 0,
) -> LossBound:
    """Bound the loss of any mechanism from below, as a black box.

    Parameters
    ----------
    mechanism : function of (input, count, seed)
        Returns `count` independent outputs, one row of numbers each.
    first, second
        The two inputs.
    transcripts : int
        Outputs, of both inputs together. Half of them are used to learn a score.

    Examples
    --------
    >>> import numpy as np
    >>> noisy = lambda value, count, seed: np.random.default_rng(seed).laplace(value, 1.0, (count, 1))
    >>> measure_black_box(noisy, 0.0, 2.0, transcripts=10_000).loss > 4  # 2 on paper: the low bits tell
    True
    >>> rounded = lambda value, count, seed: noisy(value, count, seed).round(3)
    >>> 1.5 < measure_black_box(rounded, 0.0, 2.0, transcripts=10_000).loss < 2
    True
    """
    rng = np.random.default_rng([seed, transcripts])
    counts = coin(transcripts, rng)
    outputs = [
        _rows(mechanism(given, count, int(rng.integers(2**62))), count)
        for given, count in zip((first, second), counts, strict=True)
    ]
    learn_from, part = to_learn_from(*counts, rng), failure_probability / len(LEARNED)
    bounds = [learned_bound(way, outputs[0], outputs[1], learn_from, part) for way in LEARNED.values()]
    return max(bounds, key=lambda bound: bound.loss)


def learned_bound(
    way: Callable[[FloatArray, FloatArray], Score],
    first: FloatArray,
    second: FloatArray,
    learn_from: int,
    failure_probability: float,
) -> LossBound:
    """Fit one score on one half of the rows, and judge it on the other.

    `learn_from` rows of the first start are in the half to learn from: see `to_learn_from`.
    """
    # The score and its thresholds must be fixed before the judged transcripts are seen. On the same
    # transcripts a flexible score would fit their chance, and the bound would be too high.
    half = (len(first) + len(second)) // 2
    (a, x), (b, y) = (np.split(z, [n]) for z, n in ((first, learn_from), (second, half - learn_from)))
    score = learn(way, a, b)
    rule = rule_from_sample(score(a), score(b), len(x) + len(y), failure_probability)
    return judge(rule, score(x), score(y), failure_probability)


def _rows(outputs: npt.ArrayLike, count: int) -> FloatArray:
    table = np.asarray(outputs, dtype=np.float64)
    if table.ndim == 0 or len(table) != count or count < 4:
        raise StateError(f"a mechanism must return one row for each of the {count} outputs asked for.")
    return np.asarray(np.nan_to_num(table.reshape(count, -1)))
