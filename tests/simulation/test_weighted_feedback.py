"""Metropolis weights reach the true average at the server's price.

Sampled on floats and on the lattice.
"""

import math

import numpy as np

from tacit import Distributed, Graph
from tacit.core.mechanism.lattice import Lattice
from tacit.core.theory.optimum import best_fading
from tacit.lab.simulation import sample_outcome, simulate
from tacit.lab.simulation.lattice import SimulatedWholeNoise, simulate_on_lattice

CLUB = Distributed(best_fading(0.8, 1.0), Graph.from_name("karate"), "metropolis")
DEVIATION = math.sqrt(2 / 34 * 0.8**2 / (1 - 0.2 ** (2 / 3)) ** 3)  # .36351
VALUES = np.linspace(0, 10, 34) ** 2
ROUNDS = 60


def assert_deviates_as_promised(ends):
    """The mean square is within 6 of its own standard deviations.

    False alarms are below 1e-6, and seeds are fixed.
    """
    off = ends - VALUES.mean()
    # A sum of Laplace variables has a kurtosis of at most 6: Var(off²) ≤ 5·Var(off)².
    assert abs(np.mean(off**2) / DEVIATION**2 - 1) <= 6 * math.sqrt(5 / len(off))


def test_simulated_runs_end_at_the_true_average_with_the_deviation_of_the_formula():
    ends = simulate(CLUB, VALUES, ROUNDS, runs=4_000, seed=5)
    # The plain mean of all states never moves but by noise, and that has faded.
    assert_deviates_as_promised(ends.theta.values[:, -1].mean(axis=1))
    assert_deviates_as_promised(sample_outcome(CLUB, 20_000, seed=5) + VALUES.mean())


def test_so_do_runs_on_the_lattice():
    lattice = Lattice.fitting(CLUB.law, ROUNDS, 0, 100)
    noise = SimulatedWholeNoise(seed=6)
    runs = simulate_on_lattice(CLUB, lattice, VALUES, ROUNDS, noise=noise, runs=400)
    assert_deviates_as_promised(runs.theta[:, -1].mean(axis=1))
