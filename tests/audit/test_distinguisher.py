"""The law of the ratio: against a closed form, against samples, and as the best there is."""

import numpy as np
import pytest
from scipy.stats import binom

from tacit import ClientServer, Fading, OneShot
from tacit.base.errors import ParameterError
from tacit.core.theory.privacy import epsilon
from tacit.lab.audit import Simulated, log_likelihood_ratio, loss_law
from tacit.lab.audit.distinguisher import message_costs, sum_law

PAPER = Fading(0.8, 10, 0.6)


@pytest.mark.parametrize("distance", [0.1, 1.0, 30.0])
def test_one_message_in_closed_form(distance):
    law = loss_law(OneShot(0.8, 10), 5, distance)
    a = distance / 10
    threshold = np.linspace(-a, a, 21)[:-1]
    exact = 1 - 0.5 * np.exp((threshold - a) / 2)
    exact[0] = 1.0
    low, high = law.tail(threshold)
    assert np.all((low <= exact + 1e-12) & (exact <= high + 1e-12))
    assert np.max(high - low) < 1e-3 + 0.5 * np.exp(-a) * (threshold[0] == -a)
    # mirrored: P'(L ≥ l) = P(L ≤ −l), and the atom at −a belongs to it
    below = np.where(-threshold >= a, 1.0, 0.5 * np.exp((-threshold - a) / 2))
    low, high = law.other_tail(threshold)
    assert np.all((low <= below + 1e-12) & (below <= high + 1e-12))


def test_largest_value_is_the_loss():
    for rounds in (1, 4, 20):
        assert loss_law(PAPER, rounds, 2.5).most == pytest.approx(2.5 * epsilon(PAPER, rounds), rel=1e-12)
    per_agent = Fading([0.8, 0.5, 0.9], [10, 4.0, 1.0], [0.6, 0.7, 0.8])
    assert message_costs(per_agent, 3, 1, agent=1) == pytest.approx([0.25, 0.25 * 5 / 7, 0.25 * 25 / 49])


@pytest.mark.parametrize("distance", [1.0, 12.0])
def test_tails_enclose_what_sessions_show(distance):
    mechanism = ClientServer(PAPER, agents=2)
    law = loss_law(PAPER, 6, distance)
    runs = 40_000
    for start, tail in ((0.0, law.tail), (distance, law.other_tail)):
        seen = Simulated(mechanism, lattice=False)([start, 0], 6, runs, 3)
        ratio = log_likelihood_ratio(seen.of(0), 0.0, distance)
        for share in (-0.7, 0.0, 0.4, 0.9):
            low, high = tail(share * law.most)
            hits = int(np.sum(ratio >= share * law.most))
            # 16 checks at 3e-8 each
            assert binom.cdf(hits, runs, float(low)) > 3e-8
            assert binom.sf(hits - 1, runs, float(high)) > 3e-8


def rates(law):
    """False and true alarm rates of the optimal test, from corner to corner: it names θ above a threshold."""
    reach = law.most + 2 * len(law.costs) * law.step
    threshold = np.linspace(reach, -reach, 201)
    return np.mean(law.other_tail(threshold), axis=0), np.mean(law.tail(threshold), axis=0)


def test_no_statistic_beats_the_ratio():
    """Neyman and Pearson: at each false-alarm rate the ratio has the largest power."""
    mechanism = ClientServer(Fading(0.5, 1.0, 0.8), agents=2)
    law = loss_law(mechanism.law, 5, 2.0)
    false, true = rates(law)
    seen = [Simulated(mechanism, lattice=False)([v, 0], 5, 40_000, 7 + int(v)).of(0) for v in (0.0, 2.0)]
    statistics = {
        "first message": [-v.x[:, 0] for v in seen],
        "mean message": [-v.x.mean(axis=1) for v in seen],
        "ratio": [log_likelihood_ratio(v, 0.0, 2.0) for v in seen],
    }
    best = {}
    for name, (right, wrong) in statistics.items():
        thresholds = np.quantile(wrong, [0.5, 0.8, 0.95])
        power = np.array([np.mean(right >= t) for t in thresholds])
        rate = np.array([np.mean(wrong >= t) for t in thresholds])
        best[name] = power - np.interp(rate, false, true)
    assert np.abs(best["ratio"]).max() < 0.02
    for name in ("first message", "mean message"):
        assert np.all(best[name] < 0.01)
    assert np.all(best["mean message"] < -0.02)  # so there is something to beat


def test_alarm_rates_run_from_corner_to_corner_and_rise():
    false, true = rates(loss_law(PAPER, 8, 5.0))
    assert [false[0], true[0]] == pytest.approx([0, 0], abs=1e-9)
    assert [false[-1], true[-1]] == pytest.approx([1, 1], abs=1e-9)
    assert np.all(np.diff(false) >= -1e-9)
    assert np.all(np.diff(true) >= -1e-9)
    assert np.all(true >= false - 1e-9)


def test_a_finer_grid_encloses_more_tightly():
    costs = np.array([0.5, 0.2, 0.1])  # multiples of the step: atoms lie on the grid
    wide, tight = (sum_law(costs, points=n).tail(0.33) for n in (2**8, 2**14))
    assert wide[0] <= tight[0] <= tight[1] <= wide[1]
    assert tight[1] - tight[0] < (wide[1] - wide[0]) / 10


@pytest.mark.parametrize(("rounds", "distance"), [(0, 1.0), (3, 0.0), (3, np.inf)])
def test_nothing_said_or_no_distance_is_refused(rounds, distance):
    with pytest.raises(ParameterError):
        loss_law(PAPER, rounds, distance)
