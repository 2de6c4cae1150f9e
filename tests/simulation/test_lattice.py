"""Simulated on the lattice: the same as deployed, and repeatable.

It is as close to the reals as proved.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from tacit import ClientServer, Distributed, Fading, Graph, OneShot
from tacit.base.errors import ParameterError, StateError
from tacit.core.mechanism.lattice import Lattice
from tacit.core.mechanism.on_lattice import OnLattice
from tacit.core.noise import SafeNoise
from tacit.lab.simulation.lattice import SimulatedWholeNoise, rounding_bound, simulate_on_lattice

PAPER = Fading(sigma=0.8, c=10, q=0.6)
RING = Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)])
MECHANISMS = [
    ClientServer(PAPER, agents=4),
    ClientServer(OneShot(0.3, 2.0), agents=4),
    Distributed(Fading([0.3, 0.8, 0.5, 0.6], [10, 1, 2, 3], 0.7), RING),
    Distributed(OneShot([0.3, 0.8, 0.5, 0.6], 3), RING),
]
VALUES = np.array([-1.0, 0.25, 0.7, 1.0])


def simulated(mechanism, noise, runs=3, rounds=6, values=VALUES, **lattice):
    chosen = Lattice(-1, 1, **lattice) if lattice else Lattice.fitting(mechanism.law, rounds, -1, 1)
    return simulate_on_lattice(mechanism, chosen, values, rounds, noise=noise, runs=runs)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("noise", [SimulatedWholeNoise(4), SafeNoise()])
@pytest.mark.parametrize("vector", [False, True])
def test_every_run_is_the_deployed_mechanism_on_its_draws(mechanism, noise, vector):
    values = np.stack([VALUES, -VALUES], axis=1) if vector else VALUES
    many = simulated(mechanism, noise, values=values)
    assert many.x.shape == (3, 6, *values.shape)
    said = set()
    for r in range(3):
        run = many[r]
        alone = OnLattice(mechanism, many.wholes.lattice).execute(values, run.private.draws)
        assert run.private.states.tolist() == alone.private.states.tolist()
        assert run.wholes.x.tolist() == alone.wholes.x.tolist() == many.wholes.x[r].tolist()
        assert run.wholes.y.tolist() == alone.wholes.y.tolist() == many.wholes.y[r].tolist()
        for name in ("theta", "eta", "x", "y"):
            assert getattr(run, name).tolist() == getattr(alone, name).tolist()
        said.update(np.asarray(run.x[0]).reshape(-1).tolist())
    # fresh noise for every run, agent and component; two equal ones have a probability of 1e-10
    assert len(said) == 3 * values.size


def test_a_seed_gives_the_same_runs_however_many_are_asked_for():
    few, more = (simulated(MECHANISMS[2], SimulatedWholeNoise(9), runs) for runs in (2, 5))
    assert few.x.tolist() == more.x[:2].tolist()
    other = simulated(MECHANISMS[2], SimulatedWholeNoise(10), 2)
    assert few.x.tolist() != other.x.tolist()


def test_safe_runs_cannot_be_repeated():
    one, two = (simulated(MECHANISMS[0], SafeNoise(), 1) for _ in range(2))
    assert one.x.tolist() != two.x.tolist()


@pytest.mark.parametrize("scale", [1.0, 2.5])
def test_simulated_draws_are_discrete_laplace(scale):
    draws = SimulatedWholeNoise(3).draw(np.full(200_000, scale), run=0)
    k = np.arange(-12, 13)
    expected = len(draws) * math.tanh(1 / (2 * scale)) * np.exp(-np.abs(k) / scale)
    observed = np.array([np.sum(draws == v) for v in k], dtype=float)
    expected, observed = (np.append(c, len(draws) - c.sum()) for c in (expected, observed))
    assert stats.chi2.sf(np.sum((observed - expected) ** 2 / expected), len(k)) > 1e-6


@pytest.mark.parametrize("scale", [2.0**45, 1.7 * 2.0**51])
def test_simulated_draws_of_a_fine_lattice_have_fair_low_bits(scale):
    """A double does not hold them: the low bits must be drawn on their own."""
    draws = SimulatedWholeNoise(3).draw(np.full(50_000, scale), run=0)
    for j in range(30):
        ones = int(np.sum(draws >> j & 1))
        assert stats.binomtest(ones, len(draws), 0.5).pvalue > 1e-8
    assert stats.kstest(draws / scale, "laplace").pvalue > 1e-6
    mixed = SimulatedWholeNoise(3).draw(np.array([scale, 0.0, 2.5]), run=0)
    assert mixed[1] == 0
    assert abs(mixed[2]) < 100


def test_messages_have_the_noise_of_the_paper():
    many = simulated(MECHANISMS[0], SimulatedWholeNoise(3), runs=3000, rounds=3)
    first = many.x[:, 0] - many.theta[:, 0]
    assert stats.kstest(first.reshape(-1) / 10, stats.laplace.cdf).pvalue > 1e-6
    assert many[0].rounds == 3


def real_states(mechanism, values, run):
    """The mechanism on exact real numbers and the noise of a lattice run."""
    n = mechanism.n
    sigma = [Fraction(float(v)) for v in np.broadcast_to(mechanism.law.sigma, (n,))]
    theta = [Fraction(float(v)) for v in values]
    shadow, states = list(theta), [list(theta)]
    for row, steps in zip(run.private.draws, run.exponent, strict=True):
        x = [shadow[i] + row[i] * Fraction(2) ** int(steps[i]) for i in range(n)]
        if isinstance(mechanism, ClientServer):
            y = [sum(x) / n] * n
        else:
            near = [[i, *mechanism.graph.neighbours(i).tolist()] for i in range(n)]
            y = [sum(x[j] for j in group) / len(group) for group in near]
        theta = [(1 - sigma[i]) * theta[i] + sigma[i] * y[i] for i in range(n)]
        moved = [(1 - sigma[i]) * x[i] + sigma[i] * y[i] for i in range(n)]
        shadow = moved if mechanism.shadowed else theta
        states.append(list(theta))
    return states


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("lattice", [{"state_exponent": -12, "bits": 8}, {"state_exponent": -40, "bits": 12}])
def test_states_stay_as_close_to_the_reals_as_the_steps_allow(mechanism, lattice):
    many = simulated(mechanism, SimulatedWholeNoise(8), runs=5, rounds=8, **lattice)
    bound = rounding_bound(OnLattice(mechanism, many.wholes.lattice), 8)
    step = Fraction(many.wholes.lattice.state_step)
    furthest = np.zeros(9)
    for r in range(5):
        run = many[r]
        for t, exact in enumerate(real_states(mechanism, VALUES, run)):
            off = max(
                abs(whole * step - real) for whole, real in zip(run.private.states[t], exact, strict=True)
            )
            furthest[t] = max(furthest[t], float(off))
    assert np.all(furthest <= bound)
    assert furthest[-1] > 0.02 * bound[-1]  # of the size that was promised, not merely below it


def test_a_fine_lattice_is_next_to_the_reals():
    many = simulated(MECHANISMS[2], SimulatedWholeNoise(1), rounds=30)
    assert rounding_bound(OnLattice(MECHANISMS[2], many.wholes.lattice), 30)[-1] < 1e-10
    execution = many[0]
    paper = MECHANISMS[2].execute(VALUES, execution.eta)
    np.testing.assert_allclose(execution.theta, paper.theta, atol=1e-10)


def test_nothing_private_in_its_repr():
    many = simulated(MECHANISMS[0], SimulatedWholeNoise(1))
    assert repr(many) == "<History client-server, 3 runs, 4 agents, 6 rounds>"


def test_bad_requests_are_refused():
    for options in ({"runs": 0}, {"rounds": -1}):
        with pytest.raises(ParameterError, match="at least"):
            simulated(MECHANISMS[1], SimulatedWholeNoise(1), **options)
    with pytest.raises(StateError, match="from 0 to 2"):
        simulated(MECHANISMS[0], SimulatedWholeNoise(1))[3]
    with pytest.raises(ParameterError, match="seed"):
        SimulatedWholeNoise(-1)
