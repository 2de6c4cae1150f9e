"""A motion of one's own: a truck with an engine lag, and nothing else changed.

Two states (speed and acceleration), of which the speed is said. The numbers are known in closed form:
C·A^t = .75^t·(1 + t/3, t/3), so the influence of the speed first falls more slowly than that of mixing.
"""

# ruff: noqa: ARG002 - methods have the arguments of their base class
from fractions import Fraction
from itertools import islice

import numpy as np
import pytest

from tacit.base.rounding import extended
from tacit.core.law import Law
from tacit.core.mechanism import ClientServer
from tacit.core.mechanism.lattice import Lattice
from tacit.core.motion import Motion
from tacit.core.noise.accounting import account, sensitivities
from tacit.core.theory.agent_classes import classes_of
from tacit.core.theory.privacy import epsilon
from tacit.core.theory.targets import weights

A, B, C = np.array([[1, 0.25], [-0.25, 0.5]]), np.array([0, 0.25]), np.array([1.0, 0])


class Truck(Motion):
    """z⁺ = Az + By, and Cz is said."""

    name = "truck"
    lag = 8.0  # C(I − A)^−2 B

    def move(self, state, y, axis=0):
        return state @ A.T + np.asarray(y)[..., None] * B

    def say(self, state):
        return state @ C

    def of_agent(self, i):
        return self

    def influence(self, u):
        """|C·A^u| for a private speed."""
        return (1 + u / 3) * 0.75**u

    def move_whole(self, state, y):
        quarter = np.array([4 * state[0] + state[1], -state[0] + 2 * state[1] + y])
        return (quarter + 2) >> 2

    def steps_apart(self, start, components):
        """D_u = |C·A^u|·D_0 + Σ_{k<u} |C·A^k|_1, each rounding being less than a step."""
        row, gain = (Fraction(1), Fraction(0)), Fraction(0)
        while True:
            yield -int(-(abs(row[0]) * start + gain) // 1)
            gain += abs(row[0]) + abs(row[1])
            row = row[0] - row[1] / 4, row[0] / 4 + row[1] / 2

    def distances(self, start, rounding):
        raise NotImplementedError

    fineness = 1 / 12

    def reach(self, start, feedback):
        return 4 * max(start, feedback)


class Level(Law):
    """Constant noise for trucks."""

    name = "level"
    motion = Truck()

    def scale(self, u):
        return self.c + 0.0 * u


LAW = Level(0.5, 1.0)  # its mixing is not used


def test_the_loss_is_the_sum_of_the_influences():
    """Reference number 10 of the design: Σ_{t<50} |C·A^t| = 7.999957714649653."""
    assert float(LAW.epsilons(50)) == pytest.approx(7.999957714649653, rel=1e-14)
    assert epsilon(LAW, 50) == float(LAW.epsilons(50))
    costs = LAW.costs(4, 1.0)
    np.testing.assert_allclose(costs, [1, 1, 0.9375, 0.84375], rtol=1e-15)
    np.testing.assert_allclose(list(LAW.loss_parts(4, 1.0, 1)), costs, rtol=1e-14)


def test_the_weight_of_an_agent_is_omega_times_its_lag():
    mechanism = ClientServer(LAW, agents=10)
    assert classes_of(mechanism).total_gamma == 10 * 10 * 8.0
    np.testing.assert_allclose(weights(mechanism), 0.1)


def test_trucks_agree_on_the_weighted_mean_of_their_starts():
    """Without noise: Σω·C(I − A)^−1·z(0)/Σωτ, where C(I − A)^−1 = (8, 4)."""
    generator = np.random.default_rng(5)
    starts = generator.normal(size=(10, 2))
    run = ClientServer(LAW, agents=10).execute(starts, np.zeros((400, 10)))
    expected = np.mean(starts @ [1, 0.5])
    np.testing.assert_allclose(run.x[-1], expected, rtol=1e-9)


def test_the_account_on_a_lattice_asks_the_motion():
    """Two trucks whose speeds differ stay within the bound, whatever they hear."""
    agent = Lattice(0, 1, state_exponent=-40, bits=38).agent(LAW)
    apart = list(islice(sensitivities(agent, 1.0), 20))
    real = [float(agent.motion.influence(extended(u))) * 2.0**38 for u in range(20)]
    np.testing.assert_allclose(apart, real, rtol=1e-9)
    low = np.array([0, 0], dtype=object)
    high = np.array([2**40, 0], dtype=object)
    steps = agent.motion.steps_apart(2**40, 1)
    for y in np.random.default_rng(3).integers(-(2**40), 2**40, 30).tolist():
        assert abs(high[0] - low[0]) <= next(steps)
        low, high = agent.update(low, y), agent.update(high, y)
    total = account(agent, 50).total
    assert float(LAW.epsilons(50)) <= total <= float(LAW.epsilons(50)) * (1 + 1e-9)
