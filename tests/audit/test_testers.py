"""Lower bounds on the loss: exact where they can be, and never above the truth too often."""

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from tacit import ClientServer, Fading
from tacit.base.errors import ParameterError, StateError
from tacit.lab.audit import Simulated, broken, loss_law, measure_black_box, measure_loss
from tacit.lab.audit.testers import (
    Rule,
    coin,
    coin_for,
    judge,
    loss_bound,
    rule_from_law,
    rule_from_sample,
    tally,
    to_learn_from,
)

PAPER = Fading(0.8, 10, 0.6)
PAIR = ClientServer(PAPER, agents=2)


@pytest.mark.parametrize(("correct", "guesses"), [(5, 5), (60, 100), (999, 1000)])
def test_bound_is_the_loss_at_which_so_many_right_guesses_have_the_failure_probability(correct, guesses):
    for alpha in (0.05, 1e-6):
        loss = loss_bound(correct, guesses, alpha)
        share = np.exp(loss) / (1 + np.exp(loss))
        tail = binom.sf(correct - 1, guesses, share)
        assert loss == 0 or tail == pytest.approx(alpha, rel=1e-6)
        assert loss > 0 or binom.sf(correct - 1, guesses, 0.5) >= alpha


def test_no_right_guess_proves_nothing_and_no_probability_is_refused():
    assert loss_bound(0, 0, 0.05) == 0
    assert loss_bound(0, 10, 0.05) == 0
    assert loss_bound(1e-9, 10, 1e-6) == 0  # an expected count may be less than one
    for alpha in (0.0, 1.0, -1, np.nan):
        with pytest.raises(ParameterError):
            loss_bound(1, 1, alpha)


def test_guesses_are_counted_as_they_are():
    rule = Rule(-1.0, 2.0)
    scores = np.array([3.0, 2.0, 0.0, -1.0, -5.0])
    assert rule.guesses(scores).tolist() == [1, 1, 0, -1, -1]
    bound = judge(rule, scores, scores[:3], 0.05)
    assert (bound.guesses, bound.correct, bound.transcripts) == (6, 2, 8)
    assert tally(np.array([1, -1, 0]), np.array([-1, -1]), 0.5).correct == 3


def test_the_bound_passes_the_truth_no_more_often_than_stated():
    """One message, 400 sessions, a thousand times at 20 %: a tester that is off shows."""
    rng = np.random.default_rng(5)
    repeats, sessions, loss, alpha = 1000, 400, 1.0, 0.2
    passed = 0
    for _ in range(repeats):
        heads = rng.binomial(sessions, 0.5)
        ratio = [
            np.abs(x - loss) - np.abs(x)
            for x in (rng.laplace(0, 1, heads), rng.laplace(loss, 1, sessions - heads))
        ]
        # the event of the largest ratio: there the right share is exactly e^loss/(1 + e^loss)
        passed += judge(Rule(-loss + 1e-12, loss - 1e-12), *ratio, alpha).loss > loss
    assert binom.sf(passed - 1, repeats, alpha) > 1e-6
    assert binom.cdf(passed, repeats, alpha / 2) > 1e-6  # nor is it timid: Clopper and Pearson's, no more


def test_coins_for_recorded_sessions_do_not_run_out():
    rng = np.random.default_rng(1)
    for first, second in ((100, 100), (5000, 4000), (10_000, 300)):
        heads, tails = coin_for(first, second, 1e-6, rng)
        few = min(first, second)
        assert heads <= first
        assert tails <= second
        assert 2 * few - 12 * np.sqrt(few) < heads + tails <= 2 * few
    with pytest.raises(StateError, match="too few"):
        coin_for(3, 1000, 1e-6, rng)


def test_threshold_from_the_law_is_the_best():
    law = loss_law(PAPER, 10, 1.0)
    rule = rule_from_law(law, 2_000_000, 0.05)
    assert rule.low == -rule.high

    def expected(threshold):
        right, wrong = float(law.tail(threshold)[0]), float(law.other_tail(threshold)[0])
        return loss_bound(2e6 * right, 2e6 * (right + wrong), 0.05)

    best = expected(rule.high)
    assert best >= 0.93 * law.most
    for threshold in np.linspace(0, 0.999, 37) * law.most:
        assert expected(threshold) <= best + 1e-3


def test_threshold_from_a_sample_finds_a_rare_giveaway():
    rng = np.random.default_rng(3)
    first, second = rng.normal(size=4000), rng.normal(size=4000)
    first[:80] = 50  # one in fifty, and never from the second start
    rule = rule_from_sample(first, second, 8000, 1e-6)
    assert 5 < rule.high <= 50
    assert judge(rule, first, second, 1e-6).loss > 1.5


def test_threshold_from_a_sample_uses_both_sides():
    rng = np.random.default_rng(4)
    first, second = rng.laplace(1, 1, 3000), rng.laplace(-1, 1, 3000)
    rule = rule_from_sample(first, second, 6000, 1e-6)
    assert rule.low == pytest.approx(-rule.high, abs=0.3)
    assert 1.5 < judge(rule, first, second, 1e-6).loss < 2
    turned = rule_from_sample(
        second, first, 6000, 1e-6
    )  # small scores mean the first start: no rule is for that
    assert judge(turned, second, first, 1e-6).loss == 0


def test_optimal_tester_proves_most_of_the_loss_and_not_more():
    """The paper's parameters; the long form, with two million sessions, is benchmarks/audit.py."""
    subject = Simulated(PAIR)
    bound = measure_loss(subject, 16.0, rounds=10, transcripts=100_000, seed=3)
    assert 0.9 * 16 * 0.15 < bound.loss < 16 * 0.15
    assert bound.transcripts == 100_000
    calls = []
    parts = measure_loss(
        subject, 16.0, rounds=3, transcripts=150_000, seed=3, progress=lambda *done: calls.append(done)
    )
    assert calls == [(100_000, 150_000), (150_000, 150_000)]
    assert parts.transcripts == 150_000


def test_optimal_tester_sees_noise_that_is_too_small():
    bound = measure_loss(broken("low-scale", PAIR), 16.0, rounds=8, transcripts=60_000, seed=1)
    assert bound.loss > 16 * 0.15


def test_black_box_finds_the_loss_of_what_it_does_not_know():
    def laplace(value, count, seed):
        x = np.random.default_rng(seed).laplace(value, 1.0, (count, 3))
        return np.round(np.column_stack([x[:, 0], x[:, 1:] - value]), 6)  # one column tells, two do not

    bound = measure_black_box(laplace, 0.0, 2.0, transcripts=20_000, seed=2)
    assert 1.5 < bound.loss < 2.0
    same = measure_black_box(laplace, 0.0, 0.0, transcripts=4000, seed=2)
    assert same.loss == 0


@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(1, 20), marks=pytest.mark.long)])
def test_what_is_learned_is_not_judged_on_what_it_was_learned_from(seeds):
    """Two hundred columns of nothing, four hundred rows: any score fits them, none may pass for a leak."""

    def nothing(value, count, seed):
        return np.random.default_rng(seed).normal(size=(count, 200)).round(6)

    for seed in seeds:
        assert (
            measure_black_box(nothing, 0, 1, transcripts=400, failure_probability=1e-3, seed=seed).loss == 0
        )


def test_black_box_finds_noise_that_cancels():
    def shared(value, count, seed):
        rng = np.random.default_rng(seed)
        eta, other = np.round(rng.laplace(0, 10, count), 9), rng.normal(size=count)
        return np.column_stack([value + eta, other, 3 * eta - other])

    assert measure_black_box(shared, 0.0, 1.0, transcripts=4000).loss > 4


def test_black_box_finds_floating_point():
    def naive(value, count, seed):
        return value + np.random.default_rng(seed).laplace(0, 1.0, (count, 2))

    assert measure_black_box(naive, 0.0, 1.0, transcripts=8000).loss > 2
    with pytest.raises(StateError, match="one row"):
        measure_black_box(lambda *_: np.zeros(3), 0, 1, transcripts=100)


def test_the_starts_of_judged_rows_are_fair_coins():
    """With half of each start, their number would vary half as much as coins do."""
    rng, judged = np.random.default_rng(5), []
    for _ in range(4000):
        heads, tails = coin(40, rng)
        learned = to_learn_from(heads, tails, rng)
        assert 1 <= learned < min(heads, 20)
        assert 1 <= 20 - learned < tails
        judged.append(heads - learned)
    seen = np.bincount(judged, minlength=21)
    share = binom.pmf(np.arange(21), 20, 0.5)
    for count, p in zip(seen, share, strict=True):
        assert binomtest(int(count), 4000, p).pvalue > 1e-6
