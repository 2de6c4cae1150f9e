"""Gaussian noise: its (ε, δ), what it costs, and that nothing takes it for Laplace noise."""

import math

import numpy as np
import pytest

import tacit
from tacit.base.errors import LawError, ParameterError, StateError
from tacit.core.graph import Graph
from tacit.core.law import Fading, Gaussian
from tacit.core.law.gaussian import best_deviations, delta_of, mu_of
from tacit.core.mechanism import ClientServer, Distributed
from tacit.core.mechanism.lattice import Lattice
from tacit.core.motion import Linear
from tacit.core.noise import SimulatedNoise
from tacit.core.theory import accuracy
from tacit.core.theory.normal_law import NormalLaw
from tacit.core.theory.witness import find_witness

TRUCK_A, LIVELY_A = [[1, 0.25], [-0.25, 0.5]], [[1, 0.25], [-1, 0.5]]
TRUCK = Linear(TRUCK_A, [0, 0.25], [1, 0], private={0: 1.0})
LIVELY = Linear(LIVELY_A, [0, 1], [1, 0], private={0: 1.0})
DELTA = 1e-6


def test_reference_numbers():
    """19 and 20: μ of (1, 1e-6), the Gaussian price of LIVELY, and a Gramian."""
    assert mu_of(1.0, DELTA) == pytest.approx(0.23670438066343497, rel=2e-12)
    price = [
        float(np.sqrt(np.sum(best_deviations(one.influence_table(400)) ** 2))) / abs(one.settling[0])
        for one in (TRUCK, LIVELY)
    ]
    assert price == pytest.approx([1.0, 2.9459459459459456], rel=1e-11)
    both = Linear(TRUCK_A, [0, 0.25], [1, 0], private={0: 1.0, 1: 1.0}, norm="l2")
    assert float(both.spent_squared(np.ones(400))) == pytest.approx(6.306763216990242, rel=1e-11)


@pytest.mark.parametrize(("sigma", "laplace"), [(0.1, 8.0053), (0.5, 3.1413), (0.8, 2.1196)])
def test_smooth_motion_costs_nothing(sigma, laplace):
    """T4: q = √(1 − σ) and Var = 1/(Nμ²) for every mixing; pure fading noise is worse if motion is slow."""
    law = Gaussian.best(sigma, 1.0, delta=DELTA)
    assert law.q == pytest.approx(math.sqrt(1 - sigma), rel=1e-15)
    assert law.mu(None) <= mu_of(1.0, DELTA) < law.mu(None) * (1 + 1e-12)
    found = math.sqrt(25 * accuracy.variance(ClientServer(law, agents=25)))
    assert found == pytest.approx(4.2247, abs=5e-5)
    pure = ClientServer(Fading.best(sigma, 1.0), agents=25)
    assert math.sqrt(25 * accuracy.variance(pure)) == pytest.approx(laplace, abs=5e-5)
    # no other decay of the same μ has less variance
    for q in (law.q * 0.97, min(law.q * 1.03, 0.99)):
        other = Gaussian(sigma, 1.0, q)
        other = other.with_noise(other.mu(None) / law.mu(None))
        assert accuracy.variance(ClientServer(other, agents=25)) > found**2 / 25


def test_mu_is_that_of_slow_code_at_every_corner():
    box = Linear(LIVELY_A, [0, 1], [1, 0], private={0: 1.0, 1: 2.0})
    deviations = best_deviations(box.influence_table(40))
    rows = np.array([np.array([1, 0]) @ np.linalg.matrix_power(np.array(LIVELY_A), t) for t in range(40)])
    largest = max(float(np.sum((rows @ d / deviations) ** 2)) for d in ([1, 2], [1, -2]))
    assert float(box.spent_squared(deviations)) == pytest.approx(largest, rel=1e-12) == pytest.approx(1)
    assert float(box.spent_squared(deviations)) >= largest
    rng = np.random.default_rng(1)
    for _ in range(100):  # deviations of the same μ have no smaller sum of squares
        other = deviations * np.exp(rng.normal(0, 0.05, 40))
        other *= math.sqrt(float(box.spent_squared(other)))
        assert np.sum(other**2) >= np.sum(deviations**2) * (1 - 1e-9)
    with pytest.raises(ParameterError, match="message 0 depends on a private component"):
        TRUCK.spent_squared(np.array([0.0, 1.0]))


def test_no_test_of_what_is_drawn_beats_its_delta():
    """The best test between two starts, against feedback that follows every message: μ-Gaussian, exactly.

    The log-likelihood ratio of a run is normal with mean μ²/2 and variance μ². 20,000 runs, 5 deviations.
    """
    law, rounds = Gaussian.best(TRUCK, 4.0, 60, delta=0.01), 60
    mu, scales, rng = law.mu(rounds), law.deviations(rounds), np.random.default_rng(5)
    one, other, ratio = np.zeros((20_000, 2)), np.zeros((20_000, 2)), np.zeros(20_000)
    other[:, 0] = 1.0
    for s in scales:
        x = TRUCK.say(one) + s * rng.normal(size=20_000)
        ratio += ((x - TRUCK.say(other)) ** 2 - (x - TRUCK.say(one)) ** 2) / (2 * s * s)
        y = 30 * np.sign(x) + x
        one, other = TRUCK.move(one, y), TRUCK.move(other, y)
    assert ratio.mean() == pytest.approx(mu**2 / 2, abs=5 * mu / 20_000**0.5)
    assert ratio.std() == pytest.approx(mu, rel=0.03)
    exceeded = np.mean(np.maximum(1 - np.exp(4.0 - ratio), 0))
    assert exceeded == pytest.approx(delta_of(mu, 4.0), abs=5 * 0.1 / 20_000**0.5)


@pytest.mark.parametrize("place", ["server", "graph"])
@pytest.mark.parametrize(
    "law", [Gaussian.best(0.3, 1.0), Gaussian.best(TRUCK, 1.0, 40)], ids=["mixing", "truck"]
)
def test_what_is_promised_is_what_runs_show(law, place):
    graph = Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 2)])
    mechanism = ClientServer(law, agents=5) if place == "server" else Distributed(law, graph)
    promise = tacit.analyze(mechanism, rounds=40, spread=2.0, delta=DELTA)
    assert promise.loss == pytest.approx(1, rel=1e-6)
    assert (promise.delta, promise.as_dict()["delta"]) == (DELTA, DELTA)
    assert "exceeded with probability 1e-06" in str(promise)
    starts = np.array([1.0, -1, -1, -1, -1])
    full = starts if law.mixes else np.column_stack([starts, np.zeros(5)])
    runs = tacit.simulate(
        mechanism, full, 40, runs=2000, seed=3, record=tacit.lab.simulation.Record(average=True)
    )
    said = runs.theta.values[:, -1] if law.mixes else runs.theta.values[:, -1, :, 0]
    aim = float(accuracy.target(mechanism, full))
    assert float(runs.average[:, -1].var()) == pytest.approx(promise.variance, rel=0.17)  # 5 deviations
    assert np.mean(np.abs(said - aim).max(axis=1) > promise.radius) <= 0.05 + 0.025
    if place == "server" and law.mixes:
        assert tacit.analyze(mechanism, delta=DELTA).radius > 0


def test_simulated_draws_are_normal_and_do_not_depend_on_how_many_are_drawn():
    law = Gaussian(0.5, 2.0, (1.0,) * 400)
    draws = SimulatedNoise(1).draw(law, 400, 50)
    np.testing.assert_array_equal(draws[:3, :2], SimulatedNoise(1).draw(law, 3, 2))
    within = [np.mean(np.abs(draws) <= 2.0 * k) for k in (1, 2, 3)]
    assert within == pytest.approx([0.6827, 0.9545, 0.9973], abs=5 * 0.5 / 20_000**0.5)


def test_what_only_laplace_noise_has_is_refused():
    """Taken for Laplace noise of scale c it would promise a pure loss that it does not keep."""
    law = Gaussian.best(0.5, 1.0)
    mechanism = ClientServer(law, agents=4)
    history = mechanism.execute(np.zeros(4), np.zeros((3, 4)))
    for asked in (
        lambda: tacit.analyze(mechanism, rounds=5),
        lambda: tacit.core.theory.privacy.epsilon(law, 5),
        lambda: tacit.examine(mechanism),
        lambda: Lattice(0, 1, state_exponent=-40, bits=30).agent(law).scale(0),
        lambda: find_witness(history, 0, 1.0),
        lambda: tacit.lab.simulation.sample_outcome(mechanism, 10),
        lambda: accuracy.deviation(mechanism),
        lambda: tacit.core.law.named("gaussian"),
        lambda: accuracy.variance(ClientServer(law, agents=4, keepers=2)),
    ):
        with pytest.raises(LawError):
            asked()
    with pytest.raises(LawError, match="leave delta out"):
        tacit.analyze(ClientServer(Fading(0.5, 1, 0.9), agents=4), delta=DELTA)
    with pytest.raises(StateError, match="one component at a time"):
        tacit.simulate(mechanism, np.zeros((4, 2)), 5)
    with pytest.raises(LawError, match="covers as many rounds"):
        tacit.simulate(ClientServer(Gaussian(0.5, 1, (1.0, 1.0)), agents=4), np.zeros(4), 5)
    with pytest.raises(ParameterError, match="must be in"):
        Gaussian(0.5, 1.0, 0.4).mu(None)


@pytest.mark.parametrize(("deviation", "more"), [(1.0, 0.3), (30.0, 0.0005)])
def test_the_discrete_gaussian_is_not_what_the_real_one_is(deviation, more):
    """A planted mistake: δ of whole numbers exceeds that of μ-Gaussian privacy, so no lattice has it."""
    k = np.arange(-int(12 * deviation) - 40, int(12 * deviation) + 41)
    weight = np.exp(-(k**2) / (2 * deviation**2))
    weight /= weight.sum()
    worst = 0.0
    for epsilon in np.linspace(0.05, 3, 60) / deviation:
        true = np.maximum(weight[1:] - math.exp(epsilon) * weight[:-1], 0).sum()
        worst = max(worst, true / delta_of(1 / deviation, epsilon) - 1)
    assert worst > more


def test_a_radius_around_an_offset_is_that_of_the_distribution():
    found = NormalLaw(2.0).quantile(0.1, offset=1.5)
    draws = np.random.default_rng(2).normal(1.5, 2.0, 200_000)
    assert np.mean(np.abs(draws) > found.high) == pytest.approx(0.1, abs=5 * 0.3 / 200_000**0.5)
    assert NormalLaw(0.0).quantile(0.1, offset=-3.0) == (3.0, 3.0)


def test_a_design_says_when_gaussian_noise_is_more_accurate():
    slow, fast = (tacit.design(agents=50, loss=1, mixing=sigma) for sigma in (0.1, 0.8))
    assert slow.gaussian.radius < slow.promise.radius
    assert "sessions draw Laplace noise" in str(slow)
    assert fast.gaussian.radius > fast.promise.radius
    assert "Gaussian" not in str(fast)
    assert fast.as_dict()["gaussian"]["delta"] == DELTA
    assert tacit.design(agents=50, loss=1).gaussian is None
