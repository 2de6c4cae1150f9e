"""Ranges and shapes of the parameters, and how noise fades."""

import numpy as np
import pytest

from tacit import Fading, OneShot
from tacit.base.errors import ParameterError


def test_scales_fade_geometrically():
    np.testing.assert_allclose(Fading(0.8, 10, 0.6).scales(4), [10, 6, 3.6, 2.16])
    np.testing.assert_allclose(Fading(0.8, [1, 2], [0.5, 0.1]).scales(2), [[1, 2], [0.5, 0.2]])
    assert Fading([0.5, 0.6], 1, 0.9).scales(3).shape == (3, 2)


def test_one_shot_scales_are_zero_after_the_first_round():
    np.testing.assert_array_equal(OneShot(0.8, 10).scales(3), [10, 0, 0])
    np.testing.assert_array_equal(OneShot(0.8, [1, 2]).scales(2), [[1, 2], [0, 0]])
    assert OneShot(0.8, 10).scales(0).shape == (0,)
    assert OneShot([0.5, 0.6], 1).scales(3).shape == (3, 2)


@pytest.mark.parametrize("sigma", [0, 1, -0.1, 1.5, np.nan, np.inf])
def test_mixing_must_be_inside_the_unit_interval(sigma):
    with pytest.raises(ParameterError, match=r"mixing \(sigma\) must be in \(0, 1\), got"):
        Fading(sigma, 1, 0.9)


@pytest.mark.parametrize("c", [0, -1, np.nan, np.inf])
def test_noise_must_be_positive(c):
    with pytest.raises(ParameterError, match=r"noise \(c\) must be a positive number, got"):
        OneShot(0.5, c)


@pytest.mark.parametrize("q", [0, 1, 1.2, np.nan, -np.inf])
def test_decay_must_be_inside_the_unit_interval(q):
    with pytest.raises(ParameterError, match=r"decay \(q\) must be in \(0, 1\), got"):
        Fading(0.5, 1, q)


def test_a_bad_value_names_its_agent():
    with pytest.raises(ParameterError, match=r"mixing \(sigma\) must be in \(0, 1\), got 1.5 for agent 2"):
        Fading([0.5, 0.5, 1.5], 1, 0.9)


@pytest.mark.parametrize("value", ["half", [[0.5]], [], object()])
def test_not_a_number_or_list_of_numbers(value):
    with pytest.raises(ParameterError, match=r"mixing \(sigma\) must be"):
        Fading(value, 1, 0.9)


def test_per_agent_values_must_agree_in_number():
    with pytest.raises(ParameterError, match=r"one number or one per agent, got \[2, 3\] values"):
        Fading([0.5, 0.5], [1, 1, 1], 0.9)
    with pytest.raises(ParameterError, match="one value for each of the 3 agents, got 2"):
        Fading([0.5, 0.5], 1, 0.9).for_agents(3)


def test_parameters_are_frozen_and_do_not_share_memory():
    given = np.array([0.5, 0.6])
    parameters = Fading(given, 1, 0.9)
    given[0] = 0.1
    assert parameters.sigma[0] == 0.5
    with pytest.raises(ValueError, match="read-only"):
        parameters.sigma[0] = 0.2
