"""What is offered where a plain certificate does not hold: public filter, odometer, hybrid."""

import math
from functools import cache

import numpy as np
import pytest

import tacit
from tacit.base.errors import MotionError, ParameterError
from tacit.core.law import Fading, OneShot, Scheduled
from tacit.core.mechanism import ClientServer
from tacit.core.motion import Contracting, Linear, Odometer, Plant, Prefiltered
from tacit.core.theory.hybrid import Hybrid
from tacit.core.theory.privacy import epsilon

A = np.array([[1, 0.25], [-0.25, 0.5]])
TRUCK = Linear(A, [0, 0.25], [1, 0], private={0: 1.0}, measured=True)
SLEW = Prefiltered(0.5, limit=0.2, pace=0.1, range=2.0, private={"z": 1.0})


def off_by(width):
    """A truck whose second row is off by this: the corners of the set."""
    return [A + np.array([[0, 0], [a, b]]) for a in (-width, width) for b in (-width, width)]


@cache
def plant_off_by(width):
    return Plant.searched(TRUCK, off_by(width))


# ---- public filter --------------------------------------------------------------------------------------


def test_a_public_filter_ends_the_saturation():
    """22: S of the slew limit. Whatever liars say, two starts fade as promised."""
    found = np.cbrt(SLEW.influence(np.arange(200)) ** 2).sum()
    assert found == pytest.approx(18.702414383919315, rel=1e-14)
    rng = np.random.default_rng(2)
    for lie in range(60):
        one, other, bare = np.array([1.0, -1.0]), np.array([0.0, -1.0]), np.array([1.0, 0.0])
        for t in range(60):
            assert abs(one[0] - other[0]) <= float(SLEW.influence(t)) * (1 + 1e-12)
            y = 1e6 if lie == 0 else rng.choice([-1, 1]) * 10 ** rng.uniform(-1, 4)
            one, other = SLEW.move(one, y), SLEW.move(other, y)
            bare = bare + np.clip(0.5 * (1e6 - bare), -0.2, 0.2)  # without the filter: never
    assert bare[0] - bare[1] == pytest.approx(1.0)
    law = Fading.best(SLEW, 1.0)
    t = np.arange(4000)
    assert 1 - 1e-9 < epsilon(law) <= 1
    assert np.sum(SLEW.influence(t) / (law.c * law.q**t)) == pytest.approx(1, rel=1e-9)
    assert epsilon(OneShot(SLEW, 2.0)) == 0.5


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"pace": 0.2}, "pace of the public filter must be below the limit.*Lower the pace"),
        ({"private": {"filtered": 1.0}}, "the filtered feedback is public"),
        ({"gain": 1.5}, "gain must be in"),
        ({"range": 1e9}, "the start stays for"),
    ],
)
def test_a_filter_that_does_not_help_is_refused(change, words):
    given = {"gain": 0.5, "limit": 0.2, "pace": 0.1, "range": 2.0, "private": {"z": 1.0}} | change
    with pytest.raises((MotionError, ParameterError), match=words):
        Prefiltered(**given)
    with pytest.raises(ParameterError, match=r"decay must be above 0\.5"):
        SLEW.spent_endless(1.0, 0.5)


# ---- odometer -------------------------------------------------------------------------------------------


def tanh_step(z, y):
    return z + 0.5 * np.tanh(y - z)


def tanh_slope(low, high, y):
    """The largest 1 − ½/cosh²(y − z): at the end of Z that is farther from y."""
    return 1 - 0.5 / math.cosh(max(abs(y - low), abs(y - high))) ** 2


def tanh_image(low, high, y):
    return tanh_step(low, y), tanh_step(high, y)  # f rises with z


def tanh_odometer(rounds, slack=4e-16):
    return Odometer(-1.0, 1.0, 1.0, (1 / rounds,) * rounds, tanh_image, tanh_slope, slack)


def kuramoto(rounds):
    """Phases move by 0.3·sin(y − z): slopes from 0.7 to 1.3, so no certificate contracts."""
    move = lambda z, y: z + 0.3 * math.sin(y - z)  # noqa: E731
    image = lambda a, b, y: (move(a, y), move(b, y))  # noqa: E731 - it rises with z

    def slope(low, high, y):
        turns = [k * math.pi for k in range(-9, 9) if low <= y - k * math.pi <= high]
        return max(1 - 0.3 * math.cos(x) for x in (y - low, y - high, *turns))

    return move, Odometer(-0.5, 0.5, 1.0, (1 / rounds,) * rounds, image, slope, 4e-16)


@pytest.mark.parametrize("lying", [False, True])
def test_an_odometer_knows_the_distance_from_public_data(lying):
    """T7. The certified rate of 20 rounds is .487; honest feedback shows far less, lies a bit."""
    rng = np.random.default_rng(3)
    certified = (1 - 0.5 / math.cosh(2) ** 2) ** 20
    assert certified == pytest.approx(0.487, abs=5e-4)
    for _ in range(30):
        meter, one, other = tanh_odometer(21), 0.5, -0.5
        for _ in range(20):
            assert meter.low <= other <= one <= meter.high
            assert one - other <= meter.apart
            y = float(rng.choice([-1.0, 1.0])) if lying else 0.5 * (one + other)
            meter, one, other = meter.heard(y), tanh_step(one, y), tanh_step(other, y)
        assert meter.loss == pytest.approx(1)
        assert meter.apart < (certified if lying else 1e-5)
        assert meter.scale == pytest.approx(meter.apart * 21)
    with pytest.raises(MotionError, match="covers as many messages"):
        tanh_odometer(1).heard(0.0).scale  # noqa: B018


def test_an_odometer_covers_phases_that_no_certificate_does():
    with pytest.raises(MotionError, match=r"keep a public odometer \(Odometer\)"):
        Contracting.searched([[[1.3]], [[0.7]]], [1], private={0: 1.0})
    rng = np.random.default_rng(4)
    for lying in (False, True):
        move, meter = kuramoto(21)
        one, other = 0.5, -0.5
        for _ in range(20):
            assert one - other <= meter.apart
            y = rng.uniform(-3, 3) if lying else 0.0
            meter, one, other = meter.heard(y), move(one, y), move(other, y)
    assert meter.apart > 1  # lies cost accuracy: the noise grows, and the loss stays


def test_an_odometer_without_slack_falls_below_what_floats_do():
    """Planted: both worlds round, so states stay a bit apart when the exact bound has long vanished."""
    with pytest.raises(ParameterError, match="both worlds do"):
        tanh_odometer(5, slack=0.0)
    exceeded = {}
    for slack in (5e-324, 4e-16):
        meter, worst = tanh_odometer(200, slack), 0.0
        one, other = 0.7, -0.3
        for _ in range(199):
            worst = max(worst, (one - other) / meter.scale)
            y = 1 / 3
            meter, one, other = meter.heard(y), float(tanh_step(one, y)), float(tanh_step(other, y))
        exceeded[slack] = worst * 200
    assert exceeded[4e-16] <= 1
    assert exceeded[5e-324] > 1


# ---- hybrid ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("width", "P", "price", "fresh"),
    [
        (0.001, None, 1.2789, None),
        (0.01, [[1, 0.602], [0.602, 0.591]], 2.5295, 6.11),
        (0.05, [[1, 0.566], [0.566, 0.561]], 8.033, 8.83),
    ],
)
def test_reference_prices_of_hybrid_noise(width, P, price, fresh):
    """25, and the price of fresh noise alone, (κ^⅔/(1 − ρ^⅔))^1.5/8."""
    matrices = off_by(width)
    found = plant_off_by(width)
    if P is not None:
        root = np.linalg.cholesky(np.array(P)).T
        rate = max(np.linalg.norm(root @ M @ np.linalg.inv(root), 2) for M in matrices) * (1 + 1e-12)
        given = Plant(TRUCK, matrices, P, rate)
        assert (
            np.cbrt((given.residuals(400) / 8) ** 2).sum() >= np.cbrt((found.residuals(400) / 8) ** 2).sum()
        )
        found = given
    made = Hybrid.best(found, 1.0, 300)
    assert made.price == pytest.approx(price, abs=5.1e-5 if width < 0.05 else 5.1e-4)
    assert 1 - 1e-9 < made.epsilon <= 1
    if fresh:
        alone = Contracting.searched(matrices, [1, 0], private={0: 1.0})
        size = alone.kappa ** (2 / 3) / (1 - alone.rate ** (2 / 3))
        assert size**1.5 / 8 == pytest.approx(fresh, abs=5e-3)


def test_shifted_noise_of_a_hybrid_keeps_every_message():
    """T3′: any plant in the set, any feedback; the shifts are within what is paid for."""
    plant, corners, rng = plant_off_by(0.01), off_by(0.01), np.random.default_rng(6)
    b, apart = plant.residuals(40), plant.influence(np.arange(40))
    rows = np.array([row.floats()[0] for row in TRUCK.influence_rows(40)])
    for _ in range(40):
        one = rng.normal(size=2)
        other = one + np.array([1.0, 0.0])
        for t in range(40):
            shift = plant.say(one) - plant.say(other) + rows[t]  # of η_t, while ξ is shifted by 1
            assert abs(shift) <= b[t] * (1 + 1e-12) + 1e-12
            assert abs(plant.say(one) - plant.say(other)) <= apart[t] + 1e-12
            share = rng.dirichlet(np.full(4, 0.2))
            true, y = np.tensordot(share, corners, 1), 100 * rng.normal()
            one, other = true @ one + TRUCK.B * y, true @ other + TRUCK.B * y


def test_the_rate_of_the_model_alone_is_no_bound():
    """Planted: A = .5 and E = .3 differ by .8² − .5² = .39 where the rate .5 says .3."""
    model = Linear([[0.5]], [0.5], [1], private={0: 1.0}, measured=True)
    with pytest.raises(ParameterError, match="does not prove the rate"):
        Plant(model, [[[0.2]], [[0.8]]], [[1.0]], 0.5)
    true = Plant(model, [[[0.2]], [[0.8]]], [[1.0]], 0.8)
    assert true.residuals(3)[2] >= 0.8**2 - 0.5**2 == pytest.approx(0.39)
    assert 0.5 * 0.3 + 0.3 * 0.5 == pytest.approx(0.3)


def test_a_rounded_measurement_needs_fresh_noise_from_the_first_message_on():
    exact, rounded = (Plant(TRUCK, off_by(0.01), [[1, 0.602], [0.602, 0.591]], 0.8639, q) for q in (0, 0.125))
    assert exact.residuals(1)[0] == 0
    np.testing.assert_allclose(rounded.residuals(9) - exact.residuals(9), 0.125, rtol=1e-12)
    assert Hybrid.best(rounded, 1.0, 50).price > Hybrid.best(exact, 1.0, 50).price
    with pytest.raises(ParameterError, match="two messages would give the start away"):
        Hybrid(rounded, 2.0, np.append(0.0, np.ones(5)))


def test_agents_with_hybrid_noise_agree_as_it_says():
    plant = plant_off_by(0.001)
    made, rng = Hybrid.best(plant, 1.0, 80, agents=5), np.random.default_rng(9)
    mechanism = ClientServer(Scheduled.best(TRUCK, 1.0, 80), agents=5)
    ends = []
    for _ in range(400):
        noise = made.noise(rng.laplace(size=(81, 5)))
        end = mechanism.execute(np.zeros((5, 2)), noise).theta[-1]
        ends.append(float(np.mean(end @ TRUCK.settling) / TRUCK.lag))
    assert np.var(ends) == pytest.approx(made.deviation.variance, rel=0.35)
    assert made.deviation.variance == pytest.approx(2 / 5 * made.price**2, rel=1e-7)
    assert "hybrid noise" in str(made)


def test_a_design_says_that_only_the_loss_of_such_agents_is_known():
    for motion in (SLEW, plant_off_by(0.01)):
        with pytest.raises(MotionError, match=r"`tacit analyze --motion` chooses noise for a loss"):
            tacit.design(motion=motion, loss=1, rounds=9, agents=4)


def test_a_plant_without_a_model_is_refused():
    two = Linear(A, [0, 0.25], [1, 0], private={0: 1.0, 1: 1.0})
    for model in (two, Linear([[1.0]], [0.1], [1], private={0: 1.0}), "truck"):
        with pytest.raises(ParameterError, match="the model of a plant must be"):
            Plant.searched(model, off_by(0.01))
    law = Scheduled.best(plant_off_by(0.01), 1.0, 30)
    assert epsilon(law, 30) <= 1
    with pytest.raises(MotionError, match="this one is measured"):
        OneShot.best(law.motion, 1.0)
