"""Is the noise as declared? Tests with exact false-alarm rates.

Every test gives a p-value: the probability that declared noise looks at least this odd. It is computed
exactly, or bounded from above, for every number of sessions. An asymptotic law would be wrong far out in the
tail, where the limits are: about 10^−9 each, for a false-alarm rate of 10^−6 over all tests.

After division by its scale, the noise is standard Laplace and independent of everything before it. On a
lattice `residual` makes it so, and tests of equality and of low bits account for the atoms
(docs/proofs/audit.md, section 3).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from scipy.special import gammainc, gammaincc, gammaln
from scipy.stats import binom, chi2

from tacit.base.arrays import FloatArray, IntArray
from tacit.lab.audit.bits import digits, every_bit
from tacit.lab.audit.oddity import Oddity
from tacit.lab.audit.residual import TOLERANCE, Noise

_TAILS = (0.05, 0.3, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0)
_TINY = 1e-9  # declared noise is never that small in a sample of less than 10^8
_LAGS = 4  # number of earlier draws that are tried as predictors of a draw
_MOST_COLUMNS = 24  # agents and components that are compared with each other
_MOST_NUMBERS = 8_000_000  # maximum for the tests that sort
_MOST_PLACES = 120  # draws of a session that are compared with each other
_NEAR = 1 / 32  # of the circle: predicted sizes closer than this count as the same
_DIVISORS = 24  # powers of two that are tried as divisors
_RARE = (0.1, 1e-2, 1e-3, 1e-4, 1e-5)  # shares of sessions with so little, or so much, noise
_MOST_SESSIONS = 5000  # sorted for each column
_CHUNK = 2_000_000  # coins multiplied at once
SURE = 1e-12
"""A coincidence of lower probability counts as proof."""

# Properties of a draw that are predicted, and predictors. Each is an independent fair coin.
_COINS = {"sign": "signs", "size": "sizes", "size, finer": "sizes"}


def oddities(noise: Noise) -> Iterator[Oddity]:
    """Test everything that the declaration fixes."""
    yield from scale(noise)
    yield from shape(noise)
    yield from tails(noise)
    yield from sessions(noise)
    yield from missing(noise)
    yield from predictable(noise)
    yield from dependence(noise)
    yield from every_bit(noise)
    yield from digits(noise)
    yield from grain(noise)
    yield from distinct(noise)
    yield from reuse(noise)
    yield from repeats(noise)


def scale(noise: Noise) -> Iterator[Oddity]:
    """Test the mean size of the noise, per update and per agent.

    The sum of |r| over n draws has the Gamma(n) law, so the p-value is exact.
    """
    for place, r in _groups(noise):
        size = np.abs(r)
        p = _both_sides(chi2.cdf(2 * size.sum(), 2 * len(r)), chi2.sf(2 * size.sum(), 2 * len(r)))
        yield Oddity("scale", place, p, f"{size.mean():.4f} times the declared scale")


def shape(noise: Noise) -> Iterator[Oddity]:
    """Test the whole distribution, per update, per agent and overall.

    Kolmogorov's distance d from the Laplace law satisfies P(distance ≥ d) ≤ 2·exp(−2nd²) for every n
    (Massart).
    """
    for place, r in [*_groups(noise), ("everywhere", _finite(noise.r))]:
        n = len(r)
        ordered = np.sort(r)
        cdf = np.where(
            ordered < 0, 0.5 * np.exp(np.minimum(ordered, 0)), 1 - 0.5 * np.exp(-np.maximum(ordered, 0))
        )
        rank = np.arange(n)
        distance = float(np.max(np.maximum(cdf - rank / n, (rank + 1) / n - cdf)))
        p = min(1.0, 2 * np.exp(-2 * n * distance**2))
        yield Oddity("shape", place, p, f"distance {distance:.4f} from the Laplace law")


def tails(noise: Noise) -> Iterator[Oddity]:
    """Test how many draws are beyond v scales: wrong tails or centres.

    The number of |r| above v is binomial with probability e^−v.
    """
    size = np.abs(_finite(noise.r))
    for v in _TAILS:
        above = int(np.sum(size > v))
        share = float(np.exp(-v))
        p = _both_sides(binom.cdf(above, len(size), share), binom.sf(above - 1, len(size), share))
        yield Oddity(
            "tails", f"beyond {v:g} scales", p, f"{above:,} draws, {share * len(size):,.1f} expected"
        )


def sessions(noise: Noise) -> Iterator[Oddity]:
    """Test how many sessions have very little, or very much, noise.

    The sum of |r| over k draws of a session has the Gamma(k) law. All draws are added, those of the first and
    of the second half, of each agent and of all: a fault in few sessions shows in their sums.
    """
    size, slots = np.abs(noise.r), noise.r.shape[1]
    halves = {"": slice(None), "first half, ": slice(0, slots // 2), "second half, ": slice(slots // 2, None)}
    who = {name: [i] for i, name in enumerate(noise.names[:_MOST_COLUMNS])}
    who["every agent"] = list(range(size.shape[2]))
    asked, worst = 0, (1.0, "", "")
    for half, part in halves.items():
        for name, columns in who.items():
            some = size[:, part][:, :, columns].reshape(len(size), -1)
            draws = np.sum(np.isfinite(some), axis=1)
            total, draws = np.nansum(some, axis=1)[draws > 0], draws[draws > 0]
            for side, law in (("little", gammainc), ("much", gammaincc)):
                rank = law(draws, total)
                for share in _RARE:
                    asked += bool(len(rank))
                    count = int(np.sum(rank <= share))
                    p = float(binom.sf(count - 1, len(rank), share)) if count else 1.0
                    if p < worst[0]:
                        place = f"{half}{name}: as {side} noise as in {share:g} of sessions"
                        worst = p, place, f"{count:,} of {len(rank):,}"
    if asked:
        yield Oddity("sessions", worst[1] or "everywhere", min(1.0, asked * worst[0]), worst[2])


def missing(noise: Noise) -> Iterator[Oddity]:
    """Test for messages without noise.

    P(|η| < 10^−9 scales, or half a step) is at most 10^−9 plus a step.
    """
    step = np.broadcast_to(noise.step, (len(noise.step), *noise.r.shape[1:]))
    for slot in range(noise.r.shape[1]):
        size = noise.size[:, slot]
        told = int(np.sum(np.isfinite(size)))
        if told:
            bare = int(np.sum(size < _TINY + step[:, slot] / 2))
            p = float(binom.sf(bare - 1, told, min(1.0, _TINY + step[:, slot].max())))
            yield Oddity("missing noise", f"message {slot}", p, f"{bare:,} of {told:,} have no noise")


def predictable(noise: Noise) -> Iterator[Oddity]:
    """Test that signs and sizes are fair coins, whatever is known before.

    The number of agreements with a predictor is then binomial with probability ½. A predictor may be
    anything known before: only the predicted coin must be fair.
    """
    # Given everything before, each coin is fair. So it agrees with any predictor from the past with
    # probability ½, independently of earlier agreements, however dependent the predictors are among
    # themselves. That makes the binomial law exact. A predictor from the future would break this argument.
    few = slice(0, _MOST_COLUMNS)
    coins, names = _coins(noise.r[:, :, few]), noise.names[few]
    with np.errstate(invalid="ignore", divide="ignore"):
        pull, far = np.sign(noise.pull), np.sign(np.abs(noise.pull / noise.scale) - 1)
        # A wrong mixing shifts the noise in the direction of the last move, even if all else is right.
        known = {"last move": pull, "length of the last move": far, "state": np.sign(noise.state)}
    for what, sign in known.items():
        said = np.nan_to_num(sign[:, :, few]).astype(np.int8)[None]
        yield from _own(what, coins, said, names)
    past = _coins(_previous(noise.r[:, :, few]))
    before = {"last message": (coins, past)}
    for lag in range(2, min(_LAGS + 1, coins.shape[2])):
        before[f"message {lag} steps earlier"] = coins[:, :, lag:], coins[:, :, :-lag]
    before["last session"] = coins[:, 1:], coins[:, :-1]
    for where, (now, then) in before.items():
        yield from _own(where, now, then, names)
        yield from _across(where, now, then, names, ~np.eye(len(names), dtype=np.bool_))
    # Each pair once: an agreement of two columns is the same seen from either of them.
    once = np.triu(np.ones((len(names), len(names)), np.bool_), 1)
    yield from _across("simultaneous message", coins, coins, names, once)


def dependence(noise: Noise) -> Iterator[Oddity]:
    """Sizes must not be a function of others, of the past or of feedback.

    Sessions are sorted by a possible predictor of the size. If the size is a smooth function of it,
    neighbours in that order have nearly the same size. For honest noise e^−|r| is uniform, and differs by
    less than 1/32 (on a circle) in 1/16 of all pairs, in every order.
    """
    columns = min(noise.r.shape[2], _MOST_COLUMNS // 4)
    u, names = np.exp(-np.abs(noise.r[:_MOST_SESSIONS, :, :columns])), noise.names
    slots = u.shape[1]
    for lag in range(min(_LAGS + 1, slots)):
        pairs = [(i, j) for i in range(columns) for j in range(columns) if lag or i < j]
        where = f"message {lag} steps earlier" if lag else "simultaneous message"
        yield from _followed(where, u, u, pairs, lag=lag, names=names)
    move = noise.pull[:_MOST_SESSIONS, :, :columns]
    own = [(i, i) for i in range(columns)]
    yield from _followed("last move", u, move, own, lag=0, names=names)


def grain(noise: Noise) -> Iterator[Oddity]:
    """Test that draws and messages are divisible by 2^j only by chance.

    If noise is on a coarser lattice than declared, the low bits of a message are those of the state. A class
    modulo 2^j has a probability of at most 2^−j plus a step, for every state.
    """
    if noise.drawn is None or noise.sent is None:
        return
    names = noise.names
    for what, whole in (("noise", noise.drawn), ("message", noise.sent)):
        asked = 0
        worst = 1.0, "", ""
        for column in range(whole.shape[2]):
            told = np.isfinite(noise.r[:, :, column])
            values, n = whole[:, :, column][told], int(told.sum())
            step = float(noise.step[:, :, column].max(initial=0.0))
            lowest = values & -values
            for j in range(1, _DIVISORS + 1):
                asked += 1
                count = int(np.sum((lowest == 0) | (lowest >= 1 << j)))
                p = float(binom.sf(count - 1, n, min(1.0, 2.0**-j + step)))
                if p < worst[0]:
                    worst = p, f"{names[column]}: {what} divisible by 2^{j}", f"{count:,} of {n:,}"
        if asked:
            yield Oddity("grain", worst[1] or what, min(1.0, asked * worst[0]), worst[2] or "nothing odd")


def distinct(noise: Noise) -> Iterator[Oddity]:
    """Test that the draws of one message take many different values.

    Few values mean a coarse lattice or a poor random source. Given all draws before, the i-th equals one
    of them with probability at most (i−1)·step/2. The number of such draws is then binomially bounded
    (Hoeffding 1956: unequal chances make a tail lighter).
    """
    if noise.drawn is None:
        return
    draws = again = 0
    mean = 0.0
    for slot in range(noise.r.shape[1]):
        told = np.isfinite(noise.r[:, slot])
        values = noise.drawn[:, slot][told]
        n, step = len(values), float(noise.step[:, slot].max(initial=0.0))
        draws, again = draws + n, again + n - len(np.unique(values))
        mean += float(np.minimum(1.0, np.arange(n) * step / 2).sum())
    if draws:
        # Hoeffding compares the tails only above the mean; below it nothing is odd.
        p = float(binom.sf(again - 1, draws, mean / draws)) if again - 1 >= mean else 1.0
        yield Oddity("distinct", "within a message", p, f"{again:,} of {draws:,} draws had occurred before")


def reuse(noise: Noise) -> Iterator[Oddity]:
    """Test for two equal draws in one session.

    They are rare anywhere in a session, and even rarer at the same two places of many sessions.
    """
    flat, near = _few(noise.flat), TOLERANCE + noise.widest
    width = flat.shape[1]
    if width < 2:
        return
    same = _same(noise)
    ordered = np.sort(flat, axis=1)  # NaN last
    hit = np.any(np.diff(ordered, axis=1) <= near, axis=1)
    # Union bound over all pairs of draws in a session; sessions are independent of each other.
    sessions = int(hit.sum())
    p = float(binom.sf(sessions - 1, len(flat), min(1.0, width * (width - 1) / 2 * same)))
    yield Oddity("reuse", "within a session", p, f"{sessions:,} of {len(flat):,} sessions use a draw twice")
    places = np.ascontiguousarray(flat[:, :_MOST_PLACES].T)
    most = max(
        int(np.sum(np.abs(places[i + 1 :] - places[i]) <= near, axis=1).max()) for i in range(len(places) - 1)
    )
    # A reused draw is at the same two places in every session. The worst pair of places was picked, so its
    # p-value is multiplied by the number of pairs.
    pairs = len(places) * (len(places) - 1) / 2
    p = min(1.0, pairs * float(binom.sf(most - 1, len(flat), min(1.0, same))))
    yield Oddity("reuse", "at two places", p, f"{most:,} of {len(flat):,} sessions use one draw at both")


def repeats(noise: Noise) -> Iterator[Oddity]:
    """Test for two sessions that share draws at the same places.

    More equal draws than by chance mean that the random source repeats itself.
    """
    flat, near = _few(noise.flat), TOLERANCE + noise.widest
    runs, width = flat.shape
    if width < 2 or runs < 2:
        return
    same = _same(noise)
    pairs = runs * (runs - 1) / 2
    # Markov: the expected number of pairs of sessions with that many equal draws bounds the probability of
    # one. The number is fixed beforehand from the sizes alone, so no correction for a choice is needed.
    needed = 2
    while needed < width and _expected(pairs, width, needed, same) > SURE:
        needed += 1
    found: set[tuple[int, int]] = set()
    for column in range(width):
        # If draws are often equal, sort by the next places too, to bring equal sessions together.
        keys = [flat[:, (column + k) % width] for k in (2, 1, 0)]
        order = np.lexsort(keys)
        close = np.flatnonzero(np.diff(flat[order, column]) <= near)
        a, b = order[close], order[close + 1]
        equal = np.sum(np.abs(flat[a] - flat[b]) <= near, axis=1) >= needed
        found.update(zip(a[equal].tolist(), b[equal].tolist(), strict=True))
    p = min(1.0, _expected(pairs, width, needed, same)) if found else 1.0
    yield Oddity("repeats", "between sessions", p, f"{len(found):,} pairs of sessions share draws")


def _expected(pairs: float, width: int, needed: int, same: float) -> float:
    choices = gammaln(width + 1) - gammaln(needed + 1) - gammaln(width - needed + 1)
    return math.exp(min(math.log(pairs) + choices + needed * math.log(same), 1.0))


def _groups(noise: Noise) -> Iterator[tuple[str, FloatArray]]:
    """Draws per update and per agent, named."""
    update = np.broadcast_to(noise.update, noise.r.shape)
    for u in range(int(noise.update.max()) + 1):
        shared = len(noise.update) == 1
        r = _finite(noise.r[:, noise.update[0] == u] if shared else noise.r[update == u])
        if len(r):
            yield f"update {u}", r
    agents = np.unique(noise.agent)
    for agent in agents.tolist():
        r = _finite(noise.r[:, :, noise.agent == agent])
        if len(r) and len(agents) > 1:
            yield f"agent {agent}", r


def _coins(r: FloatArray) -> IntArray:
    """Return three fair coins of each draw, as ±1; 0 if it is unknown.

    The coins are its sign, whether it is large, and one finer bit of its size; shape (3, …). e^−|r| is
    uniform: its first two binary digits are the two coins about the size.
    """
    u = np.exp(-np.abs(np.nan_to_num(r)))
    known = np.isfinite(r)
    pair = np.minimum(np.floor(4 * u), 3).astype(np.int8)
    coins = np.stack([np.where(r > 0, 1, -1), np.where(pair < 2, 1, -1), np.where(pair % 2 == 0, 1, -1)])
    return np.where(known, coins, 0).astype(np.int8)


def _own(where: str, coins: IntArray, said: IntArray, names: list[str]) -> Iterator[Oddity]:
    """Count agreements of coins with a predictor in the same column.

    Columns are counted one by one and all together.
    """
    total, count = _products("pni,qni->pqi", coins, said)
    total, count = (np.concatenate([z, z.sum(axis=2, keepdims=True)], axis=2) for z in (total, count))
    places = [[f"{name} and its {where}" for name in [*names, "every agent"]]] * len(said)
    yield from _oddest(total, count, places)


def _across(
    where: str, coins: IntArray, said: IntArray, names: list[str], pairs: npt.NDArray[np.bool_]
) -> Iterator[Oddity]:
    """Count agreements of coins with a predictor in another column.

    Only the given pairs of columns are counted.
    """
    total, count = _products("pni,qnj->pqij", coins, said)
    some = np.argwhere(pairs)
    total, count = (z[:, :, some[:, 0], some[:, 1]] for z in (total, count))
    places = [[f"{names[i]} and the {where} of {names[j]} ({coin})" for i, j in some] for coin in _COINS]
    yield from _oddest(total, count, places)


def _products(how: str, coins: IntArray, said: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return sums of products of coins, and the numbers of known coins.

    Both are whole numbers, which doubles hold exactly.
    """
    n = coins.shape[-1]
    total = count = np.zeros(1)
    a, b = (z.reshape(len(z), -1, n) for z in (coins, said))
    for begin in range(0, a.shape[1], _CHUNK // n):
        one, two = (z[:, begin : begin + _CHUNK // n].astype(np.float64) for z in (a, b))
        total = total + np.einsum(how, one, two, optimize=True)
        count = count + np.einsum(how, np.abs(one), np.abs(two), optimize=True)
    return total, count


def _oddest(total: FloatArray, count: FloatArray, places: list[list[str]]) -> Iterator[Oddity]:
    """Yield the oddest agreement of each kind.

    Its p-value is corrected for all agreements that were tested.
    """
    agree = (total + count) / 2
    p = np.minimum(1.0, 2 * np.minimum(binom.cdf(agree, count, 0.5), binom.sf(agree - 1, count, 0.5)))
    for test in dict.fromkeys(_COINS.values()):
        kind = [i for i, of in enumerate(_COINS.values()) if of == test]
        asked = int(np.sum(count[kind] > 0))
        if asked:
            own = np.where(count[kind] > 0, p[kind], 2.0)
            at = np.unravel_index(int(np.argmin(own)), own.shape)
            seen = f"{agree[kind][at] / count[kind][at]:.4f} agree, 0.5 expected"
            yield Oddity(test, places[at[1]][at[2]], min(1.0, asked * float(own[at])), seen)


def _followed(
    where: str, u: FloatArray, by: FloatArray, pairs: list[tuple[int, int]], *, lag: int, names: list[str]
) -> Iterator[Oddity]:
    """Count equal sizes among neighbours in the order of a predictor.

    Sizes count as equal if they differ by less than 1/32 on the circle.
    """
    near, asked = dict.fromkeys(pairs, 0), dict.fromkeys(pairs, 0)
    orders: dict[tuple[int, int], IntArray] = {}
    for i, j in pairs:
        for slot in range(lag, u.shape[1]):
            if np.isnan(by[:, slot - lag, j]).all():
                continue
            if (slot, j) not in orders:
                orders[slot, j] = np.argsort(by[:, slot - lag, j], kind="stable")
            size = u[orders[slot, j], slot, i]
            # Pairs must not overlap: then, given the order and the past, their differences are independent,
            # and the count is binomial. Overlapping neighbours would share draws, and the p-value would be
            # too small.
            apart = np.abs(size[1::2] - size[: len(size) // 2 * 2 : 2])
            near[i, j] += int(np.sum((apart < _NEAR) | (apart > 1 - _NEAR)))
            asked[i, j] += int(np.sum(np.isfinite(apart)))
    odd = {pair: float(binom.sf(near[pair] - 1, asked[pair], 2 * _NEAR)) for pair in pairs if asked[pair]}
    if odd:
        i, j = worst = min(odd, key=odd.__getitem__)
        place = f"{names[i]} and {'its' if i == j else 'the'} {where}" + (f" of {names[j]}" if i != j else "")
        seen = f"{near[worst] / asked[worst]:.4f} nearly the same, {2 * _NEAR:g} expected"
        yield Oddity("dependence", place, min(1.0, len(odd) * odd[worst]), seen)


def _previous(r: FloatArray) -> FloatArray:
    """The same column's last draw before each slot."""
    past = np.full(r.shape, np.nan)
    for slot in range(1, r.shape[1]):
        past[:, slot] = np.where(np.isnan(r[:, slot - 1]), past[:, slot - 1], r[:, slot - 1])
    return past


def _same(noise: Noise) -> float:
    """Bound P(two sizes differ by at most the tolerance and a step).

    Given one of them, at most 2·(tolerance + step)/step + 1 atoms of the other are that near, and each has a
    probability of at most a step.
    """
    return 2 * TOLERANCE + 3 * noise.widest


def _few(flat: FloatArray) -> FloatArray:
    return flat[: max(1, _MOST_NUMBERS // max(1, flat.shape[1]))]


def _finite(r: FloatArray) -> FloatArray:
    flat = r.reshape(-1)
    return flat[np.isfinite(flat)]


def _both_sides(low: float, high: float) -> float:
    return float(min(1.0, 2 * min(low, high)))
