"""What a radius promises after finitely many rounds.

Checked against simulation and against exact laws.
"""

import numpy as np
import pytest
from scipy import stats

from tacit import ClientServer, Distributed, Fading, Graph, OneShot
from tacit.base.errors import ParameterError
from tacit.core.theory import accuracy, every_agent
from tacit.core.theory.agreement import apart
from tacit.core.theory.endings import PAIRS_SHARE, ending, failure, shares
from tacit.core.theory.promise import analyze

EACH = np.linspace(0.3, 0.9, 9)
RUNS = 2000
CASES = {
    "server": ClientServer(Fading(0.4, 1.0, 0.8), agents=9),
    "server, one-shot": ClientServer(OneShot(0.4, 1.0), agents=9),
    "server, each its own": ClientServer(Fading(EACH, 1.0, 0.8), agents=9),
    "ring": Distributed(Fading(0.6, 0.5, 0.7), Graph.from_name("ring:9")),
    "star": Distributed(Fading(0.8, 1.0, 0.7), Graph.from_name("star:9")),
    "star, one-shot": Distributed(OneShot(EACH, 1.0), Graph.from_name("star:9")),
}


def final_states(mechanism, start, rounds, seed=5):
    """States after so many rounds, one column per run."""
    n = mechanism.n
    scale = np.broadcast_to(mechanism.law.scales(rounds).reshape(rounds, -1), (rounds, n))
    noise = np.random.default_rng(seed).laplace(size=(rounds, n, RUNS)) * scale[:, :, None]
    return mechanism.execute(np.repeat(start[:, None], RUNS, axis=1), noise).theta[-1]


@pytest.mark.parametrize("rounds", [1, 3, 40])
@pytest.mark.parametrize("name", CASES)
def test_agents_leave_the_radius_or_each_other_at_most_as_often_as_promised(name, rounds):
    """From the worst start; false alarm 1e-6 if the probability were just b."""
    mechanism, b, spread = CASES[name], 0.1, 5.0
    start = np.zeros(mechanism.n)
    start[-1] = spread
    theta = final_states(mechanism, start, rounds)
    bound = ending(mechanism, b, rounds, spread)
    off = np.abs(theta - accuracy.target(mechanism, start)).max(axis=0)
    outside = (off > bound.radius) | (np.ptp(theta, axis=0) > bound.disagreement + 1e-9)
    assert outside.sum() <= stats.binom.isf(1e-6, RUNS, b)
    if name in ("server", "server, one-shot"):  # exact: not only at most
        assert outside.sum() >= stats.binom.isf(1 - 1e-6, RUNS, b)


@pytest.mark.parametrize("name", ["server, each its own", "ring", "star", "star, one-shot"])
def test_the_failure_probability_is_spent_once(name):
    """Radius and disagreement share it, because both are promised together."""
    mechanism, b = CASES[name], 0.1
    part = shares(mechanism, b)
    assert part.average + part.agreement <= b * (1 + 1e-12)
    bound = ending(mechanism, b, 3, 5.0)
    assert bound.radius == every_agent.radius(mechanism, 3, 5.0, b * (1 - PAIRS_SHARE))
    assert bound.disagreement == every_agent.disagreement(mechanism, 3, 5.0, b * PAIRS_SHARE)


def test_many_agents_spend_the_failure_probability_once():
    mechanism, b = Distributed(Fading(0.6, 0.5, 0.7), Graph.from_name("ring:600")), 0.1
    part = shares(mechanism, b)
    bound, far = ending(mechanism, b, 3, 5.0), apart(mechanism, 3, 5.0, part.agreement)
    assert bound.disagreement == far.pair
    assert bound.radius == pytest.approx(accuracy.radius(mechanism, part.average, 3) + far.own, rel=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_simulated_promises_are_kept(name):
    made = analyze(CASES[name], failure_probability=0.1, rounds=2, spread=5.0)
    theta = final_states(CASES[name], np.linspace(0, 5, 9), 2)
    off = np.abs(theta - accuracy.target(CASES[name], np.linspace(0, 5, 9))).max(axis=0)
    assert np.sum(off > made.radius) <= stats.binom.isf(1e-6, RUNS, 0.1)
    assert made.average_radius < made.radius


def test_the_issues_own_example():
    mechanism = ClientServer(Fading(0.01, 1, 0.995), agents=10)
    found = ending(mechanism, 0.05, 1, 100.0)
    assert found.radius >= 89
    assert found.disagreement == 99.0
    made = analyze(mechanism, rounds=1, spread=100.0)
    assert made.radius == found.radius
    assert made.average_radius == pytest.approx(0.00886117, rel=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_an_endless_run_is_about_the_value_agreed_on(name):
    mechanism = CASES[name]
    share = shares(mechanism, 0.05)
    found = ending(mechanism, 0.05, None, 5.0)
    assert found.radius == accuracy.radius(mechanism, share.average)
    assert share.average + share.agreement == pytest.approx(0.05) or share == (0.05, 0.05)
    late = ending(mechanism, 0.05, 400, 5.0)
    assert late.radius == pytest.approx(found.radius, rel=1e-3)  # 0.1% of b is for the agents
    assert late.disagreement < 1e-6


@pytest.mark.parametrize("name", CASES)
def test_one_agents_exact_radius_is_never_above(name):
    """The exact law of any one agent is within the promise to all.

    The agent has its own worst start.
    """
    for rounds in (1, 3, 10):
        bound = ending(CASES[name], 0.05, rounds, 2.0).radius
        for agent in (0, 8):
            own = accuracy.radius(CASES[name], 0.05, rounds, agent=agent, spread=2.0)
            assert own <= bound * (1 + 1e-9)


def test_around_a_server_nothing_is_wasted():
    """All agents at once cost next to nothing beyond one agent.

    The noise is the same for all.
    """
    mechanism = CASES["server"]
    one = accuracy.radius(mechanism, 0.05, 3, agent=0, spread=1.0)
    assert one <= ending(mechanism, 0.05, 3, 1.0).radius <= one * 1.1


@pytest.mark.parametrize(
    ("name", "rounds"),
    [
        ("server", None),
        ("server", 2),
        ("ring", None),
        pytest.param("ring", 2, marks=pytest.mark.long),
    ],
)
def test_the_failure_probability_is_the_least_that_keeps_to_a_radius(name, rounds):
    mechanism = CASES[name]
    for b in (0.7, 0.2, 1e-6):
        radius = ending(mechanism, b, rounds, 1.0).radius
        found = failure(mechanism, radius * (1 + 1e-12), rounds, 1.0)
        assert found <= b * (1 + 1e-6)
        assert b > 0.5 or found == pytest.approx(b, rel=1e-3)
        assert ending(mechanism, found, rounds, 1.0).radius <= radius * (1 + 1e-12)
    assert failure(mechanism, 1e-9, 1, 1.0) == 1


def test_all_components_at_once_have_a_larger_radius():
    mechanism = CASES["ring"]
    radii = [ending(mechanism, 0.05, 5, 1.0, components=k).radius for k in (1, 3, 10)]
    assert radii == sorted(radii)
    single = 1 - (1 - 0.05) ** (1 / 3)
    assert radii[1] == pytest.approx(ending(mechanism, single, 5, 1.0).radius, rel=1e-9)


def test_many_agents():
    ring = Distributed(Fading(0.6, 1.0, 0.7), Graph.from_name("ring:20000"))
    assert ending(ring, 0.05, 3, 1.0).radius < 20
    own = ClientServer(Fading(np.linspace(0.3, 0.6, 10**5), 1.0, 0.8), agents=10**5)
    assert ending(own, 0.05, 40, 1.0).radius == pytest.approx(accuracy.radius(own, 0.05, 40), rel=0.05)


def test_spread_must_be_a_number():
    with pytest.raises(ParameterError, match="spread must be a number of at least 0"):
        ending(CASES["ring"], 0.05, 3, float("nan"))
