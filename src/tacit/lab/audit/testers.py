"""An empirical lower bound on the loss of any mechanism.

A coin decides for each session from which of two starts it runs. The tester reads the transcript and
names the start, or abstains. If the loss between the two starts is at most L, no rule names it correctly
with a probability above e^L/(1 + e^L), given the transcript. So the number of right answers among K
guesses is at most binomial, and Clopper and Pearson's bound on their share gives a bound on L. It holds
except with the failure probability: exactly, not asymptotically, and for every rule that was fixed before
these transcripts were seen (docs/proofs/audit.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import beta, binom

from tacit.base.arrays import FloatArray
from tacit.base.errors import ParameterError, StateError
from tacit.lab.audit.distinguisher import LossLaw

_FEWEST = 100  # sessions; fewer prove nothing
DECIMALS = 9
"""Digits of the numbers that are compared to find the best; further digits depend on the machine."""
_ATOM = 1e-9  # the ratio has atoms: thresholds are this much lower, so that rounding cannot lose one


@dataclass(frozen=True)
class Rule:
    """Name a start if a score is far enough to one side.

    The first start if the score is at least `high`, the second if it is at most `low`.
    """

    low: float
    high: float

    def guesses(self, score: FloatArray) -> npt.NDArray[np.int64]:
        """+1 for the first start, −1 for the second, 0 for no guess."""
        return np.where(score >= self.high, 1, np.where(score <= self.low, -1, 0))


@dataclass(frozen=True)
class LossBound:
    """What the guesses prove about the loss between two starts.

    Attributes
    ----------
    loss : float
        The loss is at least this, except with the failure probability.
    guesses, correct, transcripts : int
        Number of guesses, of right guesses, and of transcripts.
    failure_probability : float
    """

    loss: float
    guesses: int
    correct: int
    transcripts: int
    failure_probability: float


def loss_bound(correct: float, guesses: float, failure_probability: float) -> float:
    """Return the largest loss that this many right guesses refute; 0 if none.

    Examples
    --------
    >>> round(loss_bound(900, 1000, 1e-6), 3)
    1.721
    """
    if not 0 < failure_probability < 1:
        raise ParameterError(f"a failure probability must be in (0, 1), got {failure_probability}.")
    return float(_loss_bounds(np.array([correct]), np.array([guesses]), failure_probability)[0])


def _loss_bounds(
    correct: npt.NDArray[np.floating], guesses: npt.NDArray[np.floating], failure_probability: float
) -> FloatArray:
    """Clopper and Pearson's lower bound on right guesses, as a loss.

    A share p of right guesses means a loss of log(p/(1−p)).
    """
    some = correct > 0
    share = beta.ppf(failure_probability, np.where(some, correct, 1), np.maximum(guesses - correct, 0) + 1)
    with np.errstate(divide="ignore"):  # a share of 0 proves nothing
        return np.where(some, np.maximum(np.log(share) - np.log1p(-share), 0.0), 0.0)


def judge(rule: Rule, first: FloatArray, second: FloatArray, failure_probability: float) -> LossBound:
    """Apply a rule to scores of transcripts whose starts a fair coin chose.

    `first` and `second` are the scores of those that came from the first and second start. The
    coin must also decide how many there are of each: see `coin`.
    """
    return tally(rule.guesses(first), rule.guesses(second), failure_probability)


def tally(
    first: npt.NDArray[np.int64], second: npt.NDArray[np.int64], failure_probability: float
) -> LossBound:
    """Count the guesses for transcripts from both starts.

    A guess is +1 for the first start, −1 for the second, 0 for none.
    """
    guesses = int(np.count_nonzero(first) + np.count_nonzero(second))
    correct = int(np.sum(first == 1) + np.sum(second == -1))
    loss = loss_bound(correct, guesses, failure_probability)
    return LossBound(loss, guesses, correct, len(first) + len(second), failure_probability)


def coin(transcripts: int, rng: np.random.Generator) -> tuple[int, int]:
    """Toss a fair coin for each transcript, and count both sides.

    The first number is that of transcripts from the first start.
    """
    first = int(rng.binomial(transcripts, 0.5))
    return first, transcripts - first


def to_learn_from(first: int, second: int, rng: np.random.Generator) -> int:
    """Draw how many transcripts of the first start to learn from.

    Half of the coins of `coin` are for transcripts to learn from, the others for transcripts to judge. Given
    how many of all coins show the first start, this draws how many of the first half do. So the starts of
    the judged transcripts are fair coins, independent of what was learned. With half of each start, their
    number would vary too little.
    """
    half = (first + second) // 2
    drawn = int(rng.hypergeometric(first, second, half))
    # Learning and judging need transcripts of both starts. This only matters if there are very few.
    return min(max(drawn, 1, half - second + 1), half - 1, first - 1)


def coin_for(
    first: int, second: int, failure_probability: float, rng: np.random.Generator
) -> tuple[int, int]:
    """Toss coins for recorded transcripts, as many as these allow.

    Running out of one kind would bias the coin. That happens with at most a thousandth of the failure
    probability, which is therefore not available to `judge`.
    """
    # Which recorded session is used must not depend on its content, and the coins must stay fair: simply
    # using all sessions would fix the numbers of both kinds, and guesses would no longer be binomial.
    few = min(first, second)
    most = 2 * few
    while most and 2 * binom.sf(few, most, 0.5) > failure_probability / 1000:
        most -= max(1, int(math.sqrt(most)) // 4)
    heads, tails = coin(most, rng)
    if most < _FEWEST or max(heads, tails) > few:
        raise StateError(
            f"too few transcripts to judge: {first} from the first start and {second} from the second: "
            "record at least a hundred of each."
        )
    return heads, tails


def rule_from_law(law: LossLaw, transcripts: int, failure_probability: float) -> Rule:
    """Choose the best threshold on the log-likelihood ratio.

    Its exact law says which threshold has the largest expected bound.
    """
    # The law needs no transcript, so the rule is fixed before any is seen, as the bound requires.
    threshold = np.linspace(0, law.most, 400, endpoint=False)
    right, wrong = law.tail(threshold)[0], law.other_tail(threshold)[1]
    # By symmetry, equally many transcripts are below −threshold, and equally many of them are named
    # correctly.
    proved = _loss_bounds(transcripts * right, transcripts * (right + wrong), failure_probability)
    best = float(threshold[int(np.argmax(np.round(proved, DECIMALS)))]) - _ATOM * law.most
    return Rule(-best, best) if best > 0 else Rule(-_ATOM * law.most, _ATOM * law.most)


def rule_from_sample(
    first: FloatArray, second: FloatArray, transcripts: int, failure_probability: float
) -> Rule:
    """Choose the best thresholds on a score, from other transcripts."""
    one, two = np.sort(first), np.sort(second)
    both = np.sort(np.concatenate([one, two]))
    shares = np.geomspace(1 / len(both), 0.5, 40)
    lows = np.append(both[(shares * (len(both) - 1)).astype(int)], -np.inf)
    highs = np.append(both[((1 - shares) * (len(both) - 1)).astype(int)], np.inf)
    # Thresholds on one side, on the other side, or on both in the same quantile.
    low = np.concatenate([lows, np.full_like(highs, -np.inf), lows])
    high = np.concatenate([np.full_like(lows, np.inf), highs, highs])
    low, high = low[low < high], high[low < high]
    over = [len(z) - np.searchsorted(z, high) for z in (one, two)]
    under = [np.searchsorted(z, low, side="right") for z in (one, two)]
    grow = transcripts / len(both)
    correct, guesses = over[0] + under[1], over[0] + over[1] + under[0] + under[1]
    proved = _loss_bounds(np.asarray(grow * correct), np.asarray(grow * guesses), failure_probability)
    best = int(np.argmax(np.round(proved, DECIMALS)))
    return Rule(float(low[best]), float(high[best]))
