"""A reach that is no longer than the noise needs."""

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.doubles.sessions import known_session

from tacit import ClientServer, Constant, Fading, Linear, OneShot
from tacit.base.errors import ParameterError
from tacit.core.law import Staircase
from tacit.core.mechanism.lattice import Lattice
from tacit.core.mechanism.reach import clamp_probability, reaching

ONCE = OneShot(0.5, c=10.0)


@pytest.mark.parametrize(
    ("agents", "keepers", "components", "reach"),
    [(1000, 0, 1, 512), (20, 0, 1, 256), (1000, 0, 10**6, 512), (1000, 2, 1, 16), (3, 2, 1, 256)],
)
def test_it_is_the_least_power_of_two_with_rare_clamps(
    agents: int, keepers: int, components: int, reach: float
) -> None:
    mechanism = ClientServer(ONCE, agents=agents, keepers=keepers)
    found = reaching(mechanism, 1, 0, 10, components=components)
    assert found.reach == reach
    assert clamp_probability(mechanism, found, 1, components=components) <= 1e-9
    if reach > 20:  # otherwise the range would not fit
        shorter = replace(found, reach_exponent=int(math.log2(reach)) - 1)
        assert clamp_probability(mechanism, shorter, 1, components=components) > 1e-9


def test_fresh_noise_has_the_least_power_of_two_too() -> None:
    """The bound is over all rounds: each round of constant noise adds as much, those of fading noise less."""
    for law, reach in ((Fading(0.5, c=10, q=0.8), 512), (Constant(0.5, c=10), 512)):
        mechanism = ClientServer(law, agents=1000)
        found = reaching(mechanism, 5, 0, 10)
        assert found.reach == reach < Lattice.fitting(law, 5, 0, 10).reach
        bound = clamp_probability(mechanism, found, 5)
        scales = law.scales(5)
        assert bound == pytest.approx(1000 * np.exp(-(reach - 10) / scales).sum(), rel=1e-6)
        assert bound <= 1e-9 < clamp_probability(mechanism, replace(found, reach_exponent=8), 5)
    with_keepers = ClientServer(Constant(0.5, c=10), agents=1000, keepers=2)
    once, ten = (clamp_probability(with_keepers, Lattice(0, 10, reach_exponent=4), t) for t in (1, 10))
    assert ten == pytest.approx(10 * once)


def test_agents_with_their_own_dynamics_have_room_for_64_scales() -> None:
    law = Constant(Linear([[0.5]], [[0.5]], [[1.0]], private={0: 1.0}), c=10.0)
    mechanism = ClientServer(law, agents=10)
    assert reaching(mechanism, 5, 0, 10) == Lattice.fitting(law, 5, 0, 10)
    assert clamp_probability(mechanism, Lattice.fitting(law, 5, 0, 10), 5) == 0


def test_staircase_noise_is_clamped_as_rarely_as_the_bound_says() -> None:
    law = Staircase.best_of(0.5, loss=2.0, low=0.0, domain=10.0)
    drawn = abs(law.noise_of(np.random.default_rng(6).laplace(size=200_000), np.zeros(200_000)))
    for room in (10.0, 25.0, 40.0):
        seen, bound = (drawn > room).mean(), law.clamped(room, 1)
        assert 0.1 * bound < seen < bound + 5 * math.sqrt(bound / 200_000)


@pytest.mark.parametrize("keepers", [0, 2])
def test_clamps_are_as_rare_as_the_bound_says(keepers: int) -> None:
    """20,000 sessions of 8 agents; a count above the limit is rarer than 1e-6 if the bound holds."""
    runs, n = 20_000, 8
    mechanism = ClientServer(ONCE, agents=n, keepers=keepers)
    lattice = Lattice(-1, 0, reach_exponent=3 if keepers else 6)
    bound = clamp_probability(mechanism, lattice, 1, quorum=n)
    drawn = np.random.default_rng(5).laplace(0, ONCE.c, (runs, keepers or n))
    far = abs(-1 + drawn.sum(axis=1) / n) if keepers else abs(-1 + drawn).max(axis=1)
    seen = int((far > lattice.reach).sum())
    assert 0.001 < bound < 0.05
    assert 0.2 * bound * runs < seen < bound * runs + 5 * math.sqrt(bound * runs)


def test_the_account_does_not_depend_on_the_reach() -> None:
    short, long = (
        known_session(3, law="one-shot", noise=10.0, high=10.0, rounds=1, adjacency=10.0, lattice=lattice)
        for lattice in (reaching(ClientServer(ONCE, agents=3), 1, 0, 10), Lattice.fitting(ONCE, 1, 0, 10))
    )
    assert short.lattice.reach < long.lattice.reach
    assert short.account(0).total == long.account(0).total
    # Clamps cost accuracy instead: the radius of the short one is that of a smaller failure probability.
    assert 0 < short.clamp_probability < 1e-9
    tight, wide = short.promise(2e-9), long.promise(2e-9)
    assert tight.theory.radius > wide.theory.radius
    assert tight.theory.failure_probability == wide.theory.failure_probability == 2e-9
    with pytest.raises(ParameterError):
        short.promise(short.clamp_probability)


def test_a_session_whose_noise_would_often_be_clamped_is_refused() -> None:
    narrow = Lattice(0, 10, reach_exponent=6)
    with pytest.raises(ParameterError):
        known_session(3, law="one-shot", noise=10.0, high=10.0, rounds=1, adjacency=10.0, lattice=narrow)
