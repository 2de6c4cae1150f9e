"""Gains and noise together: the cost is that of runs, and the optimum is better than the order of habit."""

from functools import cache

import numpy as np
import pytest

import tacit
from tacit.base.errors import MotionError, ParameterError
from tacit.core.law import Constant
from tacit.core.mechanism import ClientServer
from tacit.core.motion import Linear
from tacit.core.theory.synthesis import _Agents, _Question, _summed, synthesise
from tacit.lab.simulation.record import Record

Q = np.diag([1.0, 20.0])
ASKED = {"agents": 8, "rounds": 40, "epsilon": 1.0, "value": 100.0, "states": Q, "spread": 2.0, "tries": 1}


def truck(k, damping=0.0):
    A = [[1, 1 / 4], [-k / 2, (1 - damping) / 2]]
    return Linear(A, [0, k / 2], [1, 0], private={"speed": 1.0}, names=("speed", "acceleration"))


@cache
def made():
    return synthesise(truck, [0.5, 0.0], **ASKED)


def apart(motion, theta):
    """Σ_t over rounds and mean over agents of e'Qe, e away from rest at the value agreed on so far."""
    agreed = theta.mean(axis=-2) @ motion.settling / motion.lag
    e = theta - agreed[..., None, None] * motion.resting
    return float(np.einsum("...i,ij,...j->...", e, Q, e).mean(axis=-1).sum(axis=-1).mean())


@pytest.mark.parametrize("order", ["together", "first", "once"])
def test_the_cost_is_that_of_runs(order):
    choice = getattr(made(), order)
    mechanism = ClientServer(choice.law, agents=8)
    runs = tacit.simulate(
        mechanism, np.zeros((8, 2)), 40 if order != "once" else 120, runs=1200, seed=2, record=Record(every=1)
    )
    theta = runs.theta.values
    agreed = (theta[:, -1].mean(axis=1) @ choice.motion.settling / choice.motion.lag).var()
    assert 100 * agreed == pytest.approx(choice.cost.agreed, rel=0.2)
    states = apart(choice.motion, theta)
    if order != "once":
        # what the last messages still move after the rounds is in the formula, too
        assert states == pytest.approx(choice.cost.states, rel=0.2)
    else:  # away from rest at the value of the shadow: here that of the states comes to it
        assert states <= choice.cost.states * 1.2


def test_the_transient_is_that_of_runs_without_noise():
    choice, rng = made().together, np.random.default_rng(1)
    mechanism, found = ClientServer(Constant(choice.motion, 1.0), agents=8), []
    for _ in range(150):
        starts = np.column_stack([rng.normal(0, 2.0, 8), np.zeros(8)])
        found.append(apart(choice.motion, mechanism.execute(starts, np.zeros((100, 8))).theta))
    assert np.mean(found) == pytest.approx(choice.cost.transient, rel=0.15)


def test_first_the_controller_then_the_noise_costs_more():
    found = made()
    assert found.together.cost.total < found.first.cost.total
    assert found.first.cost.transient <= found.together.cost.transient
    assert found.once.cost.total < found.together.cost.total
    assert found.times == found.first.cost.total / found.together.cost.total > 2
    assert "a local optimum" in str(found)
    assert found.as_dict()["optimum"] == "local"
    assert float(found.together.law.epsilons(40)) <= 1
    # no other gains nearby are better
    for step in ([0.05, 0], [-0.05, 0], [0, 0.05], [0, -0.05]):
        near = truck(*(np.array(found.together.gains) + step))
        assert (
            _Question(truck, 8, 40, 1.0, 100.0, Q, 2.0).fresh(_Agents.of(near)).total
            > found.together.cost.total
        )


@pytest.mark.parametrize("n", [1, 3, 9, 10])
def test_costs_of_all_rounds_are_their_sum(n):
    rng = np.random.default_rng(n)
    loop, states = rng.normal(size=(n, n)) / (3 * n) + 0.5 * np.eye(n), np.diag(np.arange(1.0, n + 1))
    moves = [np.linalg.matrix_power(loop, t) for t in range(200)]
    np.testing.assert_allclose(_summed(loop, states), sum(F.T @ states @ F for F in moves), rtol=1e-9)


def test_gains_are_best_at_a_known_optimum():
    """A scalar agent without a cost of states: slower is better, down to what the rounds allow."""
    scalar = lambda k: Linear([[1 - k]], [k], [1], private={0: 1.0})  # noqa: E731
    asked = {"agents": 10, "rounds": 400, "epsilon": 1.0, "value": 10.0, "states": [[1.0]], "tries": 2}
    found, again = (synthesise(scalar, [0.5], **asked).together for _ in range(2))
    assert again.gains == found.gains
    grid = np.linspace(0.05, 0.99, 95)

    def cost(k):
        size = (1 / (1 - (1 - k) ** (2 / 3))) ** 3 * 2 / 10
        return 10 * size * k**2 + 0.9 / (1 - (1 - k) ** 2)  # w = value/τ² + 0; the mean rests

    assert found.cost.total <= min(map(cost, grid)) * (1 + 1e-9)
    assert found.cost.total == pytest.approx(cost(found.gains[0]), rel=1e-6)


@pytest.mark.parametrize(
    ("make", "start", "change", "words"),
    [
        (str, [0.5], {}, "must return a Linear"),
        (truck, [9.0, 0.0], {}, "do not settle"),
        (lambda k: Linear([[0.5]], [k], [1], private={0: 1.0}), [0.25], {"states": [[1]]}, "gain C"),
        (truck, [0.5, 0.0], {"states": [[1.0]]}, "symmetric matrix"),
        (truck, [0.5, 0.0], {"states": -Q}, "without negative costs"),
        (truck, [0.5, 0.0], {"epsilon": -1}, "epsilon must be"),
        (truck, [0.5, 0.0], {"tries": 0}, "tries must be"),
    ],
)
def test_what_makes_no_sense_is_refused(make, start, change, words):
    with pytest.raises((MotionError, ParameterError), match=words):
        synthesise(make, start, **(ASKED | change))
