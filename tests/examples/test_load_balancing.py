"""Load balancing: what moves follows from what was said, and from nothing else."""

import numpy as np
import pytest

from tacit import Graph
from tacit.core.noise import SimulatedNoise
from tacit.core.theory.answers import design


@pytest.fixture(scope="module")
def balanced(ran):
    return ran("load_balancing", "grid:4x5")


@pytest.fixture(scope="module")
def network():
    return Graph.from_name("grid:4x5")


@pytest.fixture(scope="module")
def mechanism(network):
    return design(graph=network, loss=1, adjacency=32, mixing=0.9, true_average=True).baseline.mechanism


def test_the_loss_is_that_of_one_draw(balanced, mechanism):
    assert balanced.found["private"]["loss"] == 32 / mechanism.law.c == 1
    assert balanced.row("privacy loss") == ["inf", "1"]


def test_the_agreed_mean_is_within_its_radius(balanced):
    assert 0 < balanced.found["private"]["error"] <= balanced.found["private"]["radius"]
    assert balanced.picture.exists()


def test_naive_loads_are_read_off_messages_and_off_moves(balanced):
    assert balanced.found["naive"]["guessed"] == 0
    assert balanced.found["naive"]["tenant"] == 0
    assert balanced.found["naive"]["counted"] < 1
    assert balanced.found["private"]["counted"] > 10


def test_what_moves_does_not_depend_on_what_was_not_said(balanced, mechanism, network):
    load = np.linspace(200, 900, network.n)
    noise = SimulatedNoise(2).draw(mechanism.law, 50, network.n)
    other, shifted = load.copy(), noise.copy()
    other[3] += 32  # one more tenant, and noise that hides it
    shifted[0, 3] -= 32
    one, two = mechanism.execute(load, noise), mechanism.execute(other, shifted)
    moves = [balanced.module.passed_on(run) for run in (one, two)]
    assert np.abs(moves[0]).max() > 1
    np.testing.assert_allclose(*moves, atol=1e-9)


def test_no_request_is_lost_and_the_noise_is_what_remains(balanced, mechanism, network):
    load = np.linspace(200, 900, network.n)
    noise = SimulatedNoise(2).draw(mechanism.law, 800, network.n)
    run = mechanism.execute(load, noise)
    change = balanced.module.passed_on(run)
    np.testing.assert_allclose(change.sum(axis=1), 0, atol=1e-9)
    end = load + change.sum(axis=0)
    np.testing.assert_allclose(end - end.mean(), noise[0].mean() - noise[0], atol=1e-3)


def test_balancing_pays_off_in_response_time(balanced):
    before, naive, private = (balanced.found[kind] for kind in ("before", "naive", "private"))
    assert naive["response"] <= private["response"] < before["response"]
    assert private["rms"] < before["rms"] / 2


def test_a_queue_at_its_capacity_never_answers(balanced):
    assert balanced.module.response(np.array([10.0, 1000.0])) == np.inf
    assert balanced.module.response(np.array([500.0, 500.0])) == pytest.approx(2)


def test_another_seed_is_another_run(ran, balanced):
    assert ran("load_balancing", "grid:4x5", seed=1).text == balanced.text
    assert ran("load_balancing", "grid:4x5", seed=2).text != balanced.text
