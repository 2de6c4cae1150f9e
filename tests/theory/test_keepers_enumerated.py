"""The reduction of docs/proofs/keepers.md, by enumeration.

Every case of a small session is added up. Numbers are modulo 8. Agent v starts from 0 or from 2 and moves
half of the way to the feedback. The adversary has everything but agent v and one keeper, sees X and T of both
updates, and answers with any feedback after each opening. Nothing here uses the proof: masks and noise are
enumerated one by one.
"""

import itertools
import math

import numpy as np
import pytest

M = 8
SCALES = (2.0, 1.5)  # of the noise of updates 0 and 1, in steps
STARTS = (0, 2)
ACCOUNT = 2 / SCALES[0] + 1 / SCALES[1]  # the starts differ by 2; after one update the states by at most 1


def wrapped(scale):
    """Discrete Laplace probabilities modulo 8."""
    k = np.arange(-400, 401)
    weight = np.exp(-np.abs(k) / scale)
    return np.bincount(k % M, weights=weight, minlength=M) / weight.sum()


def moved(state, y):
    return (state + y + 1) // 2


def largest_ratio(first, second):
    """Return the largest likelihood ratio of any view, either way.

    It is infinite where only one can happen.
    """
    seen = (first > 0) | (second > 0)
    with np.errstate(divide="ignore"):
        return float(np.max(np.maximum(first[seen] / second[seen], second[seen] / first[seen])))


def views(start, lie, used=(True, True)):
    """Return the probability of every (X0, T0, X1, T1).

    `lie` is the feedback for (X0, T0).
    """
    p0, p1 = (wrapped(scale) for scale in SCALES)
    out = np.zeros((M, M, M, M))
    for mask0, z0, mask1, z1 in itertools.product(range(M), repeat=4):
        x0, t0 = (start + mask0) % M, (used[0] * mask0 + z0) % M
        state = moved(start, lie(x0, t0))
        x1, t1 = (state + mask1) % M, (used[1] * mask1 + z1) % M
        out[x0, t0, x1, t1] += p0[z0] * p1[z1] / M**2
    return out


LIES = {
    "honest": lambda x, t: (x - t) % M,
    "constant": lambda _x, _t: 3,
    "far": lambda x, t: 40 * ((x - t) % M) - 100,
    "by the message alone": lambda x, _t: x,
    "by the opening alone": lambda _x, t: -t,
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_no_view_is_likelier_than_the_account_allows(lie):
    first, second = (views(start, lie) for start in STARTS)
    assert first.sum() == pytest.approx(1)
    assert largest_ratio(first, second) <= math.exp(ACCOUNT) * (1 + 1e-12)


def test_how_much_of_the_account_is_used():
    found = max(largest_ratio(*(views(start, lie) for start in STARTS)) for lie in LIES.values())
    assert found == pytest.approx(4.69, abs=0.01)
    assert math.exp(ACCOUNT) == pytest.approx(5.29, abs=0.01)


def test_a_view_is_worth_the_papers_two_messages():
    """X is uniform, and X − T is the message of the paper's agent."""
    lie = LIES["honest"]
    for start in STARTS:
        p0, p1 = (wrapped(scale) for scale in SCALES)
        paper = np.zeros((M, M))
        for z0, z1 in itertools.product(range(M), repeat=2):
            said = (start - z0) % M
            paper[said, (moved(start, said) - z1) % M] += p0[z0] * p1[z1]
        found = views(start, lie)
        for x0, t0, x1, t1 in itertools.product(range(M), repeat=4):
            assert found[x0, t0, x1, t1] == pytest.approx(paper[(x0 - t0) % M, (x1 - t1) % M] / M**2)


def test_an_agent_that_is_not_in_the_sum_tells_nothing():
    lie = LIES["constant"]
    first, second = (views(start, lie, used=(False, False)) for start in STARTS)
    assert largest_ratio(first, second) == pytest.approx(1)


def opened_with_copy(start, same_mask):
    """One update with an agent that has v's public key in the sum.

    It knows its mask if that differs.
    """
    out, p = np.zeros((M, M, M)), wrapped(SCALES[0])
    for mask, other, z in itertools.product(range(M), repeat=3):
        copied = mask if same_mask else other
        known = 0 if same_mask else other
        out[known, (start + mask) % M, (mask + copied + z) % M] += p[z] / M**2
    return out


def test_names_in_the_mask_stop_a_copied_public_key():
    account = math.exp(2 / SCALES[0])
    assert account == pytest.approx(2.72, abs=0.01)
    named = largest_ratio(*(opened_with_copy(start, same_mask=False) for start in STARTS))
    assert named <= account * (1 + 1e-12)
    copied = largest_ratio(*(opened_with_copy(start, same_mask=True) for start in STARTS))
    assert copied == pytest.approx(3.76, abs=0.01)


def test_two_sets_for_one_update_give_everything_away():
    """The same draw for U = {v} and U = {}: the difference is the mask."""
    both = []
    for start in STARTS:
        out, p = np.zeros((M, M, M)), wrapped(SCALES[0])
        for mask, z in itertools.product(range(M), repeat=2):
            out[(start + mask) % M, (mask + z) % M, z] += p[z] / M
        both.append(out)
    assert largest_ratio(*both) == math.inf


def test_a_mask_without_the_update_gives_everything_away():
    both = []
    for start in STARTS:
        out = np.zeros((M, M))
        for mask in range(M):
            out[(start + mask) % M, (moved(start, 5) + mask) % M] += 1 / M
        both.append(out)
    assert largest_ratio(*both) == math.inf
