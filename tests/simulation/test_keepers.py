"""Keepers in every simulator: the same numbers as the plain loops.

Errors match the promise.
"""

import math

import numpy as np
import pytest

from tacit import ClientServer, Constant, Fading, OneShot
from tacit.base.errors import ParameterError, StateError
from tacit.core.mechanism.lattice import Lattice
from tacit.core.mechanism.on_lattice import OnLattice
from tacit.core.noise import SafeNoise, SimulatedNoise
from tacit.core.theory import accuracy
from tacit.core.theory.endings import ending
from tacit.lab.simulation import Record, history_of, sample_outcome, simulate, simulate_on_lattice, sweep
from tacit.lab.simulation.lattice import SimulatedWholeNoise, rounding_bound
from tacit.lab.simulation.oracle import reference
from tacit.lab.simulation.outcome import sample_average

SIGMAS = np.linspace(0.2, 0.9, 40)
MECHANISMS = {
    "fading": ClientServer(Fading(0.5, 1, 0.9), agents=40, keepers=2),
    "fading, each": ClientServer(Fading(SIGMAS, 1, 0.9), agents=40, keepers=3),
    "constant": ClientServer(Constant(0.5, 1), agents=40, keepers=1),
    "one-shot": ClientServer(OneShot(0.5, 2), agents=40, keepers=2),
}
each_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)


@each_mechanism
@pytest.mark.parametrize("vector", [(), (3,)], ids=["numbers", "vectors"])
def test_engine_equals_reference_on_the_same_noise(mechanism, vector):
    values = np.random.default_rng(5).random((40, *vector))
    found = simulate(mechanism, values, 9, runs=3, seed=7, record=Record(everything=True, average=True))
    for run in range(3):
        noise = SimulatedNoise(7).draw(
            mechanism.noise_law, 9, mechanism.keepers, vector[0] if vector else None, run
        )
        slow = reference(mechanism, values, noise)
        fast = history_of(found, mechanism, run)
        for name in ("theta", "eta", "y"):
            assert np.allclose(getattr(fast, name), getattr(slow, name), rtol=0, atol=1e-12)
        assert np.allclose(fast.private.sent, slow.private.sent, rtol=0, atol=1e-12)
        assert np.allclose(mechanism.execute(values, noise).theta, slow.theta, rtol=0, atol=1e-12)
        average = np.tensordot(accuracy.weights(mechanism), slow.theta, (0, 1))
        assert np.allclose(found.average.sel(run=run).values, average, atol=1e-12)
    with pytest.raises(StateError, match="kind or size"):
        history_of(found, ClientServer(mechanism.law, agents=40))


@each_mechanism
def test_threads_do_not_change_the_numbers(mechanism):
    """A round of 2^15 numbers or more is shared out; this one is made to."""
    n = 40_000
    sigma = mechanism.law.sigma
    law = mechanism.law if np.ndim(sigma) == 0 else Fading(np.linspace(0.2, 0.9, n), 1, 0.9)
    large = ClientServer(law, agents=n, keepers=mechanism.keepers)
    values = np.random.default_rng(5).random(n)
    one, two = (
        simulate(large, values, 3, seed=2, record=Record(everything=True, average=True), threads=threads)
        for threads in (1, 2)
    )
    for name in ("theta", "x", "y", "average"):
        assert np.allclose(one[name].values, two[name].values, rtol=0, atol=1e-12)


@each_mechanism
def test_outcome_has_the_promised_law(mechanism):
    """20,000 runs against the exact tail at four radii.

    A false alarm has a probability below 1e-6.
    """
    runs = 20_000
    deviation = np.abs(sample_outcome(mechanism, runs, rounds=12, seed=3))
    for b in (0.5, 0.2, 0.05, 0.01):
        outside = np.mean(deviation > accuracy.radius(mechanism, b, 12))
        assert abs(outside - b) < 5.2 * math.sqrt(b * (1 - b) / runs) + 1e-3
    path = sample_average(mechanism, 12, 5000, seed=4)
    assert np.var(path[:, -1]) == pytest.approx(accuracy.variance(mechanism, 12), rel=0.2)


@pytest.mark.parametrize("law", [Fading(0.5, 1, 0.8), OneShot(0.5, 1)])
def test_errors_of_2000_lattice_sessions_match_the_promised_radius(law):
    mechanism, runs, rounds, b = ClientServer(law, agents=5, keepers=2), 2000, 8, 0.1
    values = np.array([0.0, 1, 1, 1, 1])
    lattice = Lattice.fitting(law, rounds, low=0, high=1)
    found = simulate_on_lattice(mechanism, lattice, values, rounds, noise=SafeNoise(), runs=runs)
    states = found.theta[:, -1]
    off = np.abs(states - 0.8).max(axis=1)
    radius = (
        ending(mechanism, b, rounds, 1.0).radius + rounding_bound(OnLattice(mechanism, lattice), rounds)[-1]
    )
    outside = np.mean(off > radius)
    assert outside < b + 5.0 * math.sqrt(b * (1 - b) / runs)
    assert outside > b - 5.0 * math.sqrt(b * (1 - b) / runs) - 0.02  # the radius is not far too wide


@each_mechanism
def test_lattice_stays_near_the_real_mechanism_on_the_same_noise(mechanism):
    lattice = Lattice.fitting(mechanism.law, 9, low=0, high=1)
    values = np.random.default_rng(5).random(40)
    runs = simulate_on_lattice(mechanism, lattice, values, 9, noise=SimulatedWholeNoise(1), runs=2)
    on = OnLattice(mechanism, lattice)
    for run in range(2):
        whole = runs[run]
        real = mechanism.execute(values, whole.eta)
        apart = np.abs(whole.theta - real.theta).max(axis=1)
        assert np.all(apart <= rounding_bound(on, 9) + 1e-12)
    with pytest.raises(StateError, match="keeper"):
        on.execute(values, np.zeros((1, 40), dtype=int))


def test_feedback_is_cut_to_the_reach():
    lattice = Lattice(0, 1)
    mechanism = ClientServer(Fading(0.5, 1, 0.9), agents=1, keepers=1)
    huge = 2 ** (40 + lattice.reach_exponent + 3)
    run = OnLattice(mechanism, lattice).execute([0.5], [[huge]])
    assert run.y[0] == 2.0**lattice.reach_exponent


def test_sweep_over_keepers(tmp_path):
    grid = {"agents": [100], "keepers": [0, 1, 3], "mixing": [0.8], "epsilon": [1.0]}
    found = sweep(grid, path=tmp_path / "s.jsonl", rounds=20, runs=200, values="zeros", method="outcome")
    radius = found["average_radius"].values.reshape(-1)
    law = Fading.best(0.8, 1.0)
    expected = [accuracy.radius(ClientServer(law, agents=100, keepers=m), 0.05, 20) for m in (0, 1, 3)]
    assert radius == pytest.approx(expected, rel=1e-9)
    on_graph = {"graph": ["karate"], "keepers": [1], "mixing": [0.5], "epsilon": [1.0]}
    with pytest.raises(ParameterError, match="keepers need a server"):
        sweep(on_graph, path=tmp_path / "t", rounds=2, runs=1)
