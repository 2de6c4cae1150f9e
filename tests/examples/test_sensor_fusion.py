"""Sensor fusion: weights by quality, and vectors in the right norm."""

import numpy as np
import pytest

from tacit import Graph, History
from tacit.core.noise import SimulatedNoise
from tacit.core.theory.accuracy import weights
from tacit.core.theory.answers import design
from tacit.lab.audit import log_likelihood_ratio

NAME = "geometric:40:0.4:seed=1"


@pytest.fixture(scope="module")
def fused(ran):
    return ran("sensor_fusion", NAME)


@pytest.fixture(scope="module")
def mechanism(fused):
    graph = Graph.from_name(NAME)
    deviation = np.random.default_rng(0).uniform(3, 9, graph.n)
    mixing = fused.module.by_variance(graph, deviation)
    answer = design(graph=graph, loss=fused.module.LOSS, adjacency=fused.module.ADJACENCY, mixing=mixing)
    best = deviation**-2.0 / np.sum(deviation**-2.0)
    np.testing.assert_allclose(weights(answer.mechanism), best, rtol=1e-12)
    return answer.baseline.mechanism


def test_the_promise_is_kept(fused):
    private = fused.found["private"]
    assert 0 < private["error"] <= private["radius"]
    assert private["spread"] < 0.1
    assert fused.row("privacy loss") == ["inf", "1"]
    assert fused.picture.exists()


def test_naive_readings_are_known_exactly(fused):
    assert fused.found["naive"]["guessed"] == 0
    assert fused.found["private"]["guessed"] > 2


def test_the_loss_is_for_the_sum_of_both_pollutants(fused, mechanism):
    n, parameters = mechanism.n, mechanism.law
    start = np.tile(fused.module.AMBIENT, (n, 1))
    rounds = 3
    noise = [SimulatedNoise(4).draw(parameters, rounds, n, components=2, run=r) for r in range(200)]
    seen = History.stack([mechanism.execute(start, part) for part in noise]).of(0)

    def worst(*change):
        return np.abs(log_likelihood_ratio(seen, start[0], start[0] + change)).max()

    for change in ((8, 0), (0, -8), (3, 5)):
        assert worst(*change) == pytest.approx(fused.module.LOSS, rel=1e-9)
    assert worst(8, 8) == pytest.approx(2 * fused.module.LOSS, rel=1e-9)


def test_noise_adds_to_the_standard_error(fused):
    naive, private = fused.found["naive"], fused.found["private"]
    assert naive["deviation"] < private["deviation"]
    assert naive["ambient"] < 5 * naive["deviation"]


def test_the_prior_is_the_bell_it_says(fused):
    prior = fused.module.bell(10.0, 2.0)
    edges, density = np.array(prior.edges), np.array(prior.densities)
    mass = density / density.sum()
    middle = (edges[1:] + edges[:-1]) / 2
    assert mass @ middle == pytest.approx(10)
    assert np.sqrt(mass @ (middle - 10) ** 2) == pytest.approx(2, rel=0.02)
