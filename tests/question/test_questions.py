"""Every question: its diameter by search, its reference numbers, its refusals, its coverage.

The intervals are checked by simulation with a fixed seed, at edges too: all records alike, all at one end,
one record, weights that are all 0, a bucket that nobody is in, one bucket, many buckets.
"""

import math
from fractions import Fraction
from functools import cache
from itertools import combinations, product

import numpy as np
import pytest
from scipy.stats import binom, norm

from tacit.base.errors import ParameterError, StateError
from tacit.core.law import OneShot
from tacit.core.mechanism import ClientServer
from tacit.core.question import (
    Count,
    GroupBy,
    Histogram,
    Mean,
    Own,
    Quantile,
    Several,
    Sum,
    Variance,
    WeightedMean,
    parse_question,
    short_form,
)
from tacit.core.question.base import share_of
from tacit.core.question.group_variance import GroupVariance
from tacit.core.question.histogram import OTHER, projected
from tacit.core.theory.mean_noise import ComponentNoise

B = 0.05
FALSE_ALARM = 1e-6


def noise_of(question, records=1000, keepers=2, loss=1.0):
    return ComponentNoise.of(
        ClientServer(OneShot(0.5, question.adjacency / loss), agents=records, keepers=keepers)
    )


# ---- diameters --------------------------------------------------------------------------------------

GRID = [Fraction(i, 24) for i in range(-30, 31)]
DOMAINS = {
    Sum(-1, 3): [4 * x for x in GRID],
    Count(): [True, False, 0, 1],
    Histogram([-1, 0, 0.5, 1]): GRID,
    Histogram(["a", "b"]): ["a", "b", "c"],
    Quantile([-1, 0, 1]): GRID,
    Variance(-1, 1): GRID,
    Variance(-1, 1, stretch=2.0): GRID,
    Variance(-1, 1, stretch=0.5): GRID,
    Several([Count(), Histogram([0, 1, 2]), Variance(-1, 1)]): list(product([0, 1], [0, 1], GRID)),
    Own(lambda x: [x, -x, 1 - x], [0, 0, 1], 2): [8 * x for x in GRID],
    Own(lambda x: [x, x * x], vertices=[(0, 0), (1, 1), (-0.5, 0.25)]): GRID,
    GroupBy(["a", "b"], Count()): list(product("abc", [0, 1])),
    GroupBy(["a", "b"], Sum(-1, 0.5)): list(product("abc", GRID)),
    GroupBy(["a", "b"], Mean(-1, 1)): list(product("abc", GRID)),
    GroupBy(["a", "b"], WeightedMean(-1, 1, 0.5)): list(product("ab", product(GRID[::6], GRID[::6]))),
    GroupBy(["a", "b"], Histogram([0, 1, 2])): list(product("abc", [0, 1])),
    GroupBy(["a", "b"], Variance(-1, 1)): list(product("abc", GRID[::6])),
    GroupBy(["a", "b"], Variance(-1, 1, 2.0)): list(product("abc", GRID[::6])),
    GroupBy(["a"], Count()): list(product("ab", [0, 1])),
    GroupBy(["a"], Sum(1, 2)): list(product("ab", [2 * x for x in GRID])),
    GroupBy(["a"], Sum(-1, 1)): list(product("ab", GRID)),
    GroupBy(["a"], Mean(-1, 1)): list(product("ab", GRID)),
    GroupBy(["a"], Histogram([0, 1, 2])): list(product("ab", [0, 1])),
    GroupBy(["a"], Variance(-1, 1)): list(product("ab", GRID[::6])),
    WeightedMean(-1, 1, 0.5): list(product(GRID[::4], GRID[::4])),
}


@pytest.mark.parametrize("question", DOMAINS, ids=lambda question: question.kind)
def test_the_diameter_is_the_largest_distance_of_two_vectors(question):
    vectors = {question.encode(record).vector for record in DOMAINS[question]} | {question.stand_in}
    assert {len(vector) for vector in vectors} == {question.components}
    low, high = question.box
    assert all(low <= number <= high for vector in vectors for number in vector)
    assert not any(type(number) is float for vector in vectors for number in vector)  # exact
    pairs = ([abs(a - b) for a, b in zip(*two, strict=True)] for two in combinations(vectors, 2))
    distances = [(sum(apart), sum(a * a for a in apart)) for apart in pairs]
    largest, squared = map(max, zip(*distances, strict=True))
    assert largest == question.diameter  # the corners are on the grid
    assert squared <= question.squared_distance
    if not isinstance(question, Own | Several):  # bounds; and a peak between the numbers of the grid
        assert squared >= question.squared_distance * (Fraction(99, 100) if steep(question) else 1)


def steep(question):
    """Whether the largest L2 distance is at no number of the grid."""
    asked = getattr(question, "question", question)
    return isinstance(asked, Variance) and asked.stretch > 1.5


@pytest.mark.parametrize("stretch", [0.5, 1.0, 1.4, 1.5, 2.0, 10.0, 1000.0])
def test_the_squared_distance_of_a_variance_bounds_a_fine_search(stretch):
    t = np.linspace(-1, 1, 2001)
    moved = (t[:, None] - t) ** 2 + stretch**2 * (t[:, None] ** 2 - t**2) ** 2
    bound = float(Variance(0, 1, stretch).squared_distance)
    assert bound * (1 - 1e-5) <= moved.max() <= bound


def test_one_bucket_says_nothing_and_is_counted_all_the_same():
    assert Histogram([0, 1]).encode(7) == ((1,), True)
    assert Histogram([0, 1]).diameter == 2


# ---- reference numbers ------------------------------------------------------------------------------


def half_widths(question, mean, **more):
    answer = question.decode(mean, 1000, noise_of(question), B, **more)
    return [(part.high - part.low) / 2 for part in answer.parts]


def test_the_reference_numbers_with_two_keepers():
    """N = 1000, loss 1, probability .05, one draw per keeper."""
    assert half_widths(Mean(0, 10), [5]) == [pytest.approx(0.0411300, abs=5e-8)]
    assert half_widths(Sum(0, 10), [5]) == [pytest.approx(41.130033, abs=5e-6)]
    assert half_widths(Count(), [0.5])[0] == pytest.approx(4.1130033, abs=5e-7)
    twenty = Histogram(range(21))
    assert half_widths(twenty, [0.05] * 20) == pytest.approx([8.2260066] * 20, abs=5e-7)
    assert half_widths(twenty, [0.05] * 20, together=True) == pytest.approx([15.0566642] * 20, abs=5e-7)


@pytest.mark.parametrize(("b", "t"), [(B, 4.1130033), (1 - 0.95 ** (1 / 20), 7.5283321)])
def test_the_tail_of_two_keepers_is_known_in_closed_form(b, t):
    assert math.exp(-t) * (1 + t / 2) == pytest.approx(b, rel=2e-7)
    assert noise_of(Count(), records=1).radius(b) == pytest.approx(t, abs=5e-7)


def test_the_reference_numbers_without_keepers():
    assert math.sqrt(noise_of(Mean(0, 10), keepers=0).variance) == pytest.approx(0.4472136, abs=5e-8)
    deviation = 1000 * math.sqrt(noise_of(Histogram(range(21)), keepers=0).variance)
    assert deviation == pytest.approx(89.4427, abs=5e-5)


def test_the_exact_law_of_a_sum_of_components():
    noise = noise_of(Count(), records=1)
    r = noise.radius(0.01, [1, -0.5, 0, 0.5])
    draws = np.random.default_rng(2).laplace(size=(200_000, 2, 3)).sum(axis=1) @ [1, -0.5, 0.5]
    assert binom.ppf(FALSE_ALARM, 200_000, 0.01) <= np.sum(np.abs(draws) > r)
    assert np.sum(np.abs(draws) > r) <= binom.isf(FALSE_ALARM, 200_000, 0.01)
    assert noise.radius(0.01, [0.0, 0]) == 0


# ---- coverage ---------------------------------------------------------------------------------------


def answers(question, records, runs, *, together=False, seed=1):
    """Answers for the true mean vector and the noise of two keepers."""
    vectors = [[float(x) for x in question.encode(record).vector] for record in records]
    true, n = np.mean(vectors, axis=0), len(records)
    noise = noise_of(question, n)
    draws = np.random.default_rng(seed).laplace(scale=question.adjacency, size=(runs, 2, question.components))
    for eta in draws.sum(axis=1) / n:
        yield question.decode((true + eta).tolist(), n, noise, B, together=together)


def assert_covered(misses, trials, b=B):
    assert misses <= binom.isf(FALSE_ALARM, trials, b), f"{misses} of {trials}"


CASES = {
    "sum": (Sum(0, 10), [1, 2, 9.5] * 10, [125.0]),
    "sum, all at one end": (Sum(0, 10), [0] * 30, [0.0]),
    "sum of one": (Sum(0, 10), [4], [4.0]),
    "count": (Count(), [True] * 20 + [False] * 30, [20, 0.4]),
    "count, all alike": (Count(), [True] * 50, [50, 1.0]),
    "count of one": (Count(), [False], [0, 0.0]),
    "histogram": (Histogram([0, 1, 2, 3]), [0.5] * 20 + [2.5] * 30, [20, 0, 30]),
    "histogram of labels": (Histogram(["a", "b"]), ["a"] * 9 + ["z"], [9, 0, 1]),
    "histogram, one bucket": (Histogram([0, 1]), [0.5] * 20, [20]),
    "variance": (Variance(0, 10), [2, 4, 9] * 300, [78 / 9, math.sqrt(78 / 9)]),
    "variance, all alike": (Variance(0, 10), [7] * 500, [0, 0]),
    "variance, both ends": (Variance(0, 10, 2.0), [0, 10] * 300, [25, 5]),
    "variance, far from the middle": (Variance(0, 10, 50.0), [8, 9] * 1000, [0.25, 0.5]),
    "several": (
        Several([Count(), Histogram([0, 1, 2])], weights=[5, 1]),
        [(True, 0.5)] * 30 + [(False, 1.5)] * 20,
        [30, 0.6, 30, 20],
    ),
    "groups": (
        GroupBy(["a", "b", "c"], Count()),
        [("a", True)] * 9 + [("b", False)] * 11,
        [9, 9 / 20, 0, 0, 0, 0],
    ),
    "sums of groups": (GroupBy(["a", "b"], Sum(0, 2)), [("a", 2)] * 9 + [("z", 1)], [18, 0]),
    "own, vertices": (
        Own(lambda x: [x, x * x], vertices=[(0, 0), (1, 1), (-1, 1)]),
        [1, 0, -1, -1] * 20,
        [-0.25, 0.75],
    ),
    "own": (Own(lambda x: [x, x * x], [0, 0], 2), [1, 0, -0.5] * 100, [1 / 6, 5 / 12]),
    "variance of one": (Variance(0, 10), [3], [0, 0]),
    "median": (Quantile(np.linspace(0, 10, 31)), np.linspace(0, 10, 401).tolist(), [5.0]),
    "quartiles": (Quantile(range(11), [0.25, 0.75]), [2.5] * 200 + [7.5] * 200, [2.5, 7.5]),
    "median, all at one end": (Quantile(range(11)), [0] * 300, [0]),
    "median, all alike": (Quantile([-math.inf, 1, 4, 6, math.inf]), [5.0] * 300, [5.0]),
    "median, one bucket": (Quantile([0, 10]), [3.0] * 20, [3.0]),
    "median of one": (Quantile(range(11)), [4.5], [4.5]),
}


@pytest.mark.parametrize("name", CASES)
def test_each_interval_covers_the_truth(name):
    question, records, truth = CASES[name]
    runs = 1000
    missed = np.zeros(len(truth), dtype=int)
    for answer in answers(question, records, runs):
        assert answer.records == len(records)
        for i, (part, true) in enumerate(zip(answer.parts, truth, strict=True)):
            assert part.low <= part.estimate <= part.high
            missed[i] += not part.low - 1e-9 <= true <= part.high + 1e-9
    for misses in missed:
        assert_covered(misses, runs)


@pytest.mark.parametrize("name", ["histogram", "quartiles", "variance", "several", "own", "groups"])
def test_intervals_together_cover_all_truths_at_once(name):
    question, records, truth = CASES[name]
    misses = 0
    for answer in answers(question, records, 1000, together=True):
        pairs = zip(answer.parts, truth, strict=True)
        misses += not all(part.low - 1e-9 <= true <= part.high + 1e-9 for part, true in pairs)
    assert_covered(misses, 1000)


@pytest.mark.parametrize(("full", "end"), [(5, "low"), (1, "low"), (6, "high"), (10, "high")])
def test_each_end_of_a_quantile_is_missed_with_half_the_probability(full, end):
    """Just enough records, or just too few, are in the buckets before: nothing is left to spare."""
    question, runs = Quantile(range(11)), 2000
    if end == "low":  # the first `full` buckets have exactly half of the records
        records, true = [full - 0.5] * 200 + [9.5] * 200, full - 0.5
    else:  # one record less than half is before bucket `full`
        records, true = [0.5] * 199 + [full - 0.5] * 201, full - 0.5
    misses = sum(not a.parts[0].low <= true <= a.parts[0].high for a in answers(question, records, runs))
    assert_covered(misses, runs, B / 2)
    if 1 < full < 10 and end == "low":
        assert misses >= binom.ppf(FALSE_ALARM, runs, B / 2 * 0.8)


def test_all_quantiles_at_once_are_seldom_missed():
    """Every bucket is full exactly where a quantile asks, so each edge has nothing to spare."""
    question, runs = Quantile(range(11), [j / 10 for j in range(1, 10)]), 1000
    records, truth = [j + 0.5 for j in range(10)] * 40, [j + 0.5 for j in range(9)]
    misses = 0
    for answer in answers(question, records, runs, together=True):
        misses += not all(p.low <= true <= p.high for p, true in zip(answer.parts, truth, strict=True))
    assert_covered(misses, runs)


def test_a_thousand_buckets_are_covered_one_by_one_and_together():
    question, runs = Histogram(range(1001)), 40
    records = [0.5] * 600 + [999.5] * 400
    for together, b in ((False, B), (True, share_of(B, 1000))):
        misses = 0
        for answer in answers(question, records, runs, together=together):
            truth = [600, *[0] * 998, 400]
            misses += sum(not p.low <= t <= p.high for p, t in zip(answer.parts, truth, strict=True))
        assert_covered(misses, runs * 1000, b)


class Normal:
    """Normal noise of a component, whose radii are known in closed form."""

    def __init__(self, deviation):
        self.deviation, self.variance = deviation, deviation**2

    def radius(self, failure_probability, weights=(1.0,)):
        return quantile(failure_probability) * self.deviation * math.hypot(*weights)


@cache
def quantile(failure_probability):
    return float(norm.isf(failure_probability / 2))


@pytest.mark.parametrize(
    ("records", "true"),
    [
        ([(1, 2), (0.5, 8)], 4.0),
        ([(2, 0)], 0.0),  # all at one end
        ([(1, 10), (0.25, 10)], 10.0),
        ([(0, 7), (0, 1)], None),  # weights that are all 0 have no mean
    ],
)
def test_a_weighted_mean_is_seldom_answered_wrongly(records, true):
    question, runs = WeightedMean(0, 10, most=2), 400
    vectors = np.mean([[float(x) for x in question.encode(record).vector] for record in records], axis=0)
    noise, wrong, answered = Normal(0.05), 0, 0
    for eta in np.random.default_rng(4).normal(scale=0.05, size=(runs, 2)):
        for part in question.decode((vectors + eta).tolist(), len(records), noise, B).parts:
            answered += 1
            assert part.low <= part.estimate <= part.high
            wrong += true is None or not part.low - 1e-5 <= true <= part.high + 1e-5
    assert_covered(wrong, runs)
    assert answered > 0.9 * runs if true is not None else answered < 0.1 * runs


def test_the_interval_of_a_weighted_mean_is_narrower_than_that_of_a_box():
    """A box around both means divides the largest numerator by the least denominator."""
    question, noise = WeightedMean(-1, 1), Normal(0.01)
    (part,) = question.decode([0.5, 0.25], 100, noise, B).parts
    r = noise.radius(share_of(B, 2))
    box = (0.25 + r) / (0.5 - r) - (0.25 - r) / (0.5 + r)
    assert part.high - part.low < 0.8 * box
    with_law = question.decode([0.5, 0.25], 1000, noise_of(question), B).parts[
        0
    ]  # the exact law is taken, too
    assert with_law.low < 0.5 < with_law.high


def test_a_variance_is_not_biased_by_the_noise():
    question = Variance(0, 10)
    mean, noise = [0.0, 0.25], noise_of(question, 100)
    draws = np.random.default_rng(7).laplace(scale=2.25, size=(40_000, 2, 2)).sum(axis=1) / 100
    raw = 25 * (mean[1] + draws[:, 1] - (mean[0] + draws[:, 0]) ** 2 + noise.variance)
    assert np.mean(raw) == pytest.approx(6.25, abs=6 * np.std(raw) / 200)
    assert question.decode(mean, 100, noise).parts[0].estimate == pytest.approx(25 * (0.25 + noise.variance))


def test_the_sum_of_a_group_may_be_below_the_range_of_its_numbers():
    """Records of other groups count as 0. The sum was clamped to as many times the least number."""
    question = GroupBy(["a", "b"], Sum(5, 10))
    vectors = [question.encode(record).vector for record in [("a", 7), ("b", 8), ("b", 9), ("b", 6)]]
    mean = [float(sum(column)) / 4 for column in zip(*vectors, strict=True)]
    assert question.decode(mean, 4).estimates == (7, 23)
    for part in question.decode(mean, 4, noise_of(question, 4)).parts:
        assert part.low <= part.estimate <= part.high


def test_means_of_groups_come_with_their_sizes_and_none_for_an_empty_group():
    question, noise = GroupBy(["a", "b"], Mean(0, 10)), Normal(0.01)
    records = [("a", 2)] * 30 + [("a", 4)] * 30
    true = np.mean([[float(x) for x in question.encode(record).vector] for record in records], axis=0)
    truth, misses, empty = {"a: size": 60, "a: mean": 3, "b: size": 0}, 0, 0
    for eta in np.random.default_rng(8).normal(scale=0.01, size=(300, 4)):
        parts = {p.name: p for p in question.decode((true + eta).tolist(), 60, noise, B, together=True).parts}
        empty += "b: mean" in parts
        misses += not all(parts[name].low <= number <= parts[name].high for name, number in truth.items())
    assert_covered(misses, 300)
    assert_covered(empty, 300)


@pytest.mark.parametrize(
    ("records", "truth"),
    [
        ([2, 4] * 15, 1.0),
        ([0, 10] * 15, 25.0),  # as large as it can be
        ([7] * 30, 0.0),  # all alike
        ([0] * 30, 0.0),  # all at one end
    ],
)
def test_variances_of_groups_come_with_their_sizes_and_none_for_an_empty_group(records, truth):
    question, noise = GroupBy(["a", "b"], Variance(0, 10)), Normal(0.02)
    given = [("a", number) for number in records] + [("c", 1)] * len(records)
    true = np.mean([[float(x) for x in question.encode(record).vector] for record in given], axis=0)
    wanted = {"a: size": 30, "a: variance": truth, "a: deviation": math.sqrt(truth), "b: size": 0}
    misses = empty = answered = 0
    for eta in np.random.default_rng(9).normal(scale=0.02, size=(400, 6)):
        parts = {p.name: p for p in question.decode((true + eta).tolist(), 60, noise, B, together=True).parts}
        empty += "b: variance" in parts
        answered += "a: variance" in parts
        misses += any(
            not parts[name].low - 1e-9 <= number <= parts[name].high + 1e-9
            for name, number in wanted.items()
            if name in parts
        )
        assert all(part.low <= part.estimate <= part.high for part in parts.values())
    assert_covered(misses, 400)
    assert_covered(empty, 400)
    assert answered > 390


def test_the_interval_of_a_variance_of_a_group_has_every_value_of_its_box():
    question, noise = GroupVariance(Variance(-1, 1)), Normal(0.03)
    rng, r = np.random.default_rng(10), noise.radius(share_of(B, 3))
    for s, v, u in [(0.5, 0.1, 0.3), (0.2, -0.18, 0.17), (0.9, 0.0, 0.02), (0.15, 0.05, 0.03)]:
        part = next(p for p in question.decode([s, v, u], 50, noise, B).parts if p.name == "variance")
        boxed = np.array([s, v, u]) + rng.uniform(-r, r, size=(20_000, 3))
        boxed = boxed[(np.abs(boxed[:, 1]) <= boxed[:, 0]) & (boxed[:, 0] <= 1) & (boxed[:, 2] >= 0)]
        inside = boxed[:, 2] / boxed[:, 0] - (boxed[:, 1] / boxed[:, 0]) ** 2
        inside = np.clip(inside, 0, 1)
        assert part.low <= inside.min()
        assert inside.max() <= part.high
        assert part.high - part.low < 1.2 * np.ptp(inside) + 0.02  # not much wider than it must be


def test_a_vector_that_is_no_vertex_becomes_the_nearest_one():
    question = Own(lambda x: [x, x * x], vertices=[(0, 0), (1, 1), (-0.5, 0.25)])
    assert question.encode(1) == ((1, 1), False)
    assert question.encode(0.9) == ((1, 1), True)
    assert question.encode(-0.5) == ((Fraction(-1, 2), Fraction(1, 4)), False)
    assert question.stand_in == (0, 0)
    assert question.diameter == Fraction(9, 4)


@pytest.mark.parametrize("question", [*DOMAINS, Mean(0, 10), Own(lambda x: [x], [3], 1)])
def test_a_question_can_be_planned_with_records_that_are_spread_evenly(question):
    low, high = question.box
    assert len(question.even) == question.components
    assert all(low <= number <= high for number in question.even)
    parts = question.decode(question.even, 1000, Normal(1e-4), B).parts
    assert parts
    unit = question.unit(1000)
    if unit is not None:  # one unit of a component moves the first part by this much
        moved = question.decode([x + 1e-3 for x in question.even], 1000).parts[0].estimate
        assert moved - question.decode(question.even, 1000).parts[0].estimate == pytest.approx(1e-3 * unit)


def test_the_shares_of_the_loss_minimise_the_sum_of_the_variances():
    questions, weights = [Count(), Histogram(range(9))], [3.0, 0.5]
    best = Several(questions, weights).shares
    assert sum(best) == 1

    def cost(p):
        return 3 / p**2 + 0.5 * 8 / (1 - p) ** 2

    assert all(cost(float(best[0])) <= cost(p) for p in np.linspace(0.01, 0.99, 99))


def test_each_question_of_several_has_the_noise_of_its_share():
    questions = [Count(), Mean(0, 10)]
    answer = Several(questions).decode([0.25, 0.25], 1000, noise_of(Several(questions)), B)
    widths = [part.high - part.low for part in answer.parts]
    assert [part.name for part in answer.parts] == ["0 count: count", "0 count: share", "1 mean: mean"]
    # Each has half of the loss, so twice the width.
    assert widths == pytest.approx([2 * 2 * 4.1130033, 4 * 0.0041130033, 4 * 0.0411300], rel=1e-5)


def test_a_function_of_ones_own_gets_the_mean_vector():
    question = Own(lambda x: [x, x * x], [0, 0], 2, answer=lambda mean: {"variance": mean[1] - mean[0] ** 2})
    assert question.decode([0.5, 0.5], 9).parts == (("variance", 0.25, None, None),)
    assert Own(lambda x: [x], [0], 1, answer=lambda mean: mean[0]).decode([3.0], 9).estimates == (3.0,)


# ---- answers without noise, and pictures ------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in CASES if "quartiles" not in name and "median" not in name])
def test_without_noise_the_answer_is_the_truth(name):
    question, records, truth = CASES[name]
    mean = np.mean([[float(x) for x in question.encode(record).vector] for record in records], axis=0)
    answer = question.decode(mean.tolist(), len(records))
    assert answer.estimates == pytest.approx(truth, abs=1e-6)
    assert all(part.low is None for part in answer.parts)


def test_projected_counts_are_the_nearest_that_add_up():
    counts = [12.0, -3.0, 4.0, 0.5]
    found = np.array(projected(counts, 10))
    assert found.sum() == pytest.approx(10)
    assert found.min() >= 0
    others = np.random.default_rng(1).dirichlet(np.ones(4), size=20_000) * 10
    nearest = np.min(np.sum((others - counts) ** 2, axis=1))
    assert np.sum((found - counts) ** 2) <= nearest + 1e-12


# ---- records ----------------------------------------------------------------------------------------


def test_records_outside_are_clamped_and_their_owner_can_be_told():
    assert Histogram([0, 1, 2]).encode(-5) == ((1, 0), True)
    assert Histogram([0, 1, 2]).encode(2) == ((0, 1), False)  # the last edge belongs to the last bucket
    assert Histogram([0, 1, 2]).encode(1) == ((0, 1), False)
    assert Histogram(["a"]).encode("b") == ((0, 1), False)
    assert Histogram(["a"]).names == ("a", OTHER)
    assert Variance(0, 10).encode(99) == ((1, 1), True)
    assert WeightedMean(0, 10, 2).encode((3, 5)) == ((1, 0), True)


@pytest.mark.parametrize(
    ("question", "record"),
    [
        (Sum(0, 1), "4213"),
        (Count(), 4213),
        (Count(), "yes"),
        (Histogram([0, 1]), math.nan),
        (Histogram([0, 1]), "4213"),
        (Histogram([0, 1]), [0.5]),
        (Histogram(["a"]), 4213),
        (Quantile([0, 1]), None),
        (Variance(0, 1), [1, 2]),
        (WeightedMean(0, 1), 4213),
        (WeightedMean(0, 1), (4213, 1, 1)),
        (WeightedMean(0, 1), (math.nan, 1)),
        (Several([Count(), Sum(0, 1)]), (True,)),
        (Several([Count()]), 4213),
        (GroupBy(["a"], Count()), 4213),
        (GroupBy(["a"], Count()), ("a", 4213)),
        (GroupBy(["a"], Count()), (4213, True)),
        (Own(lambda x: [float(x)], [0], 1), "x4213"),
        (Own(lambda x: [x], [0], 1), math.nan),
        (Own(lambda x: [x, x], [0], 1), 4213),
    ],
)
def test_a_record_of_the_wrong_shape_is_refused_without_showing_it(question, record):
    with pytest.raises(StateError) as refused:
        question.encode(record)
    assert "4213" not in str(refused.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Sum(1, 1),
        lambda: Histogram([0, 0]),
        lambda: Histogram([2, 1]),
        lambda: Histogram([0]),
        lambda: Histogram([]),
        lambda: Histogram([0, math.nan, 1]),
        lambda: Histogram([0, math.inf, math.inf]),
        lambda: Histogram(["a", "a"]),
        lambda: Histogram([OTHER]),
        lambda: Histogram("ab"),
        lambda: Histogram([0, "a"]),
        lambda: Quantile(["a", "b"]),
        lambda: Quantile([0, 1], [1.0]),
        lambda: Quantile([0, 1], [0.0]),
        lambda: Quantile([0, 1], []),
        lambda: Variance(0, math.inf),
        lambda: Variance(0, 1, 0.4),
        lambda: WeightedMean(0, 1, 0),
        lambda: GroupBy([], Count()),
        lambda: GroupBy(["a", "a"], Count()),
        lambda: GroupBy(["a"], Quantile([0, 1])),
        lambda: GroupBy(["a"], Mean(0, 1, 2)),
        lambda: GroupBy(["a"], "count"),
        lambda: Several([]),
        lambda: Several(["mean"]),
        lambda: Several([Several([Count()])]),
        lambda: Mean(0, 1, 0),
        lambda: Several([Count()], [0]),
        lambda: Several([Count()], [1, 1]),
        lambda: Own(lambda x: [x], [0], 0),
        lambda: Own(lambda x: [x], [math.nan], 1),
        lambda: Own(lambda x: [x], [], 1),
        lambda: Own(lambda x: [x], vertices=[[1]]),
        lambda: Own(lambda x: [x], vertices=[[1], [1]]),
        lambda: Own(lambda x: [x], vertices=[[1], [1, 2]]),
        lambda: Own(lambda x: [x], vertices=[[1], [math.nan]]),
        lambda: Own(lambda x: [x], [0], 1, vertices=[[1], [2]]),
        lambda: WeightedMean(0, 1, math.nan),
    ],
)
def test_a_question_without_sense_is_refused(make):
    with pytest.raises(ParameterError):
        make()


# ---- in one word ------------------------------------------------------------------------------------

WORDS = {
    "mean:0:10": Mean(0, 10),
    "mean:0:10:3": Mean(0, 10, 3),
    "sum:-1.5:1e+20": Sum(-1.5, 1e20),
    "count": Count(),
    "histogram:0,1,2,5,10": Histogram([0, 1, 2, 5, 10]),
    "histogram:-inf,0.1,inf": Histogram([-math.inf, 0.1, math.inf]),
    "histogram:red,light green": Histogram(["red", "light green"]),
    "quantile:0,1,2": Quantile([0, 1, 2]),
    "quantile:0,1,2:0.25,0.75": Quantile([0, 1, 2], [0.25, 0.75]),
    "variance:0:10": Variance(0, 10),
    "variance:0:10:2": Variance(0, 10, 2),
    "weighted-mean:0:10": WeightedMean(0, 10),
    "weighted-mean:0:10:3": WeightedMean(0, 10, 3),
    "group-by:north,1:mean:0:10": GroupBy(["north", "1"], Mean(0, 10)),
    "count+mean:0:1e+20": Several([Count(), Mean(0, 1e20)]),
    "2*count+1*group-by:a,b:count": Several([Count(), GroupBy(["a", "b"], Count())], [2, 1]),
}


@pytest.mark.parametrize("word", WORDS)
def test_a_question_is_one_word(word):
    assert parse_question(word) == WORDS[word]
    assert short_form(WORDS[word]) == word


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("", "must be written like mean:0:10, "),
        ("cuont", "got 'cuont'"),
        ("count:1", "got 'count:1'"),
        ("mean", "got 'mean'"),
        ("mean:0", "got 'mean:0'"),
        ("mean:0:ten", "high of mean must be a number, got 'ten'"),
        ("mean:0:10:1.5", "numbers of mean must be a whole number, got '1.5'"),
        ("histogram:0,1,red", "edges of histogram must be numbers, got 'red'"),
        ("histogram:0,2,1", "must be two or more numbers that increase"),
        ("histogram:0,nan,1", "must be two or more numbers that increase"),
        ("histogram:red,red", "labels of a histogram must differ"),
        ("quantile:0,1:1", r"a quantile must be in \(0, 1\)"),
        ("quantile:red,green", "edges of quantile must be numbers"),
        ("weighted-mean:0:1:0", "the largest weight must be a positive number"),
        ("group-by:a,b", "got 'group-by:a,b'"),
        ("group-by:a,b:quantile:0,1", "groups must ask for a count"),
        ("count+", r"got 'count\+'"),
        ("several:count", "got 'several:count'"),
    ],
)
def test_a_word_that_is_no_question_is_refused_in_one_sentence(word, told):
    with pytest.raises(ParameterError, match=told):
        parse_question(word)
