"""The paper's motion, against its definition in fractions."""

from fractions import Fraction
from itertools import islice

import numpy as np
import pytest

from tacit.base.errors import MotionError, ParameterError
from tacit.base.rounding import extended
from tacit.core.law import Fading, OneShot
from tacit.core.mechanism import ClientServer
from tacit.core.motion import Mixing, Motion

EACH = np.array([0.25, 0.5, 0.8])


def test_a_law_and_a_mechanism_have_the_motion_of_their_mixing():
    law = Fading(0.8, 10, 0.6)
    assert law.motion == Mixing(0.8) == ClientServer(law, agents=3).motion
    assert OneShot(EACH, 1.0).motion == Mixing(EACH) != Mixing(0.8)
    assert Mixing(EACH).of_agent(1) == Mixing(0.5)


def test_states_move_towards_the_feedback_with_agents_along_an_axis():
    one = Mixing(EACH).move(np.full((3, 2), 8.0), np.zeros(2))
    np.testing.assert_array_equal(one, [[6, 6], [4, 4], [8 * (1 - 0.8)] * 2])
    runs = Mixing(EACH).move(np.full((5, 3), 8.0), 0.0, axis=1)
    np.testing.assert_array_equal(runs, np.tile(one[:, 0], (5, 1)))


def test_a_start_fades_by_the_same_factor_in_every_update():
    motion = Mixing(0.75)
    assert motion.influence(3) == 0.25**3
    assert [float(a) for a in islice(motion.influences(), 4)] == [1, 0.25, 0.25**2, 0.25**3]
    # In extended precision 1 − σ is not the float nearest to it.
    long = Mixing(0.8).influence(extended(np.arange(3)))
    assert long.dtype == np.longdouble
    assert long[1] == 1 - extended(0.8)
    np.testing.assert_allclose(Mixing(EACH).influence(np.arange(4)[:, None]), (1 - EACH) ** np.c_[:4])


def test_the_lag_decides_the_weight_in_the_target():
    omega = np.array([1.0, 3.0, 7.0])
    motion = Mixing(EACH)
    np.testing.assert_allclose(motion.weight(omega), omega * motion.lag, rtol=1e-15)
    np.testing.assert_allclose(motion.step_size(omega) * motion.weight(omega), 1, rtol=1e-15)


def test_what_is_left_of_a_start_keeps_its_digits():
    """1 − (1 − σ)^T loses all digits of a small σ, if it is computed as it is written."""
    exact = 1 - (1 - Fraction(1e-12)) ** 3
    assert float(Mixing(1e-12).followed(3)) == pytest.approx(float(exact), rel=1e-15)


@pytest.mark.parametrize("sigma", [0.5, 0.8, 0.1])
def test_whole_states_are_rounded_to_the_nearest_ties_up(sigma):
    motion, share = Mixing(sigma), Fraction(sigma)
    for state, y in [(0, 1), (1, 0), (-7, 12), (10**30, -(10**30)), (3, 3)]:
        exact = (1 - share) * state + share * y
        assert motion.move_whole(state, y) == (2 * exact + 1) // 2


@pytest.mark.parametrize("sigma", [0.5, 0.8, 0.1])
def test_steps_apart_bound_every_pair_of_states(sigma):
    """Two whole states stay within D_u, also where rounding is as unkind as it can be."""
    motion = Mixing(sigma)
    for start in (1, 5, 1000):
        low = np.array(range(-40, 40), dtype=object)
        high, bound = low + start, motion.steps_apart(start, 1)
        for y in (17, -3, 10**9, 0, 1, 5, -(10**6)):
            apart = next(bound)
            assert max(high - low) <= apart
            low, high = motion.move_whole(low, y), motion.move_whole(high, y)


def test_distances_bound_those_of_whole_steps():
    steps = islice(Mixing(0.3).steps_apart(1000, 2), 30)
    for whole, real in zip(steps, Mixing(0.3).distances(extended(1002.0), 2.0), strict=False):
        assert whole <= real


def test_mixing_must_be_a_share():
    for wrong in (0.0, 1.0, -0.5, np.nan, [0.5, 1.5]):
        with pytest.raises(ParameterError) as refused:
            Mixing(wrong)
        assert refused.value.field == "mixing"


class _Unknown(Motion):
    """A motion without closed forms."""

    name = "unknown"
    move = of_agent = influence = lag = move_whole = steps_apart = distances = fineness = reach = None


def test_what_a_motion_does_not_define_is_refused():
    with pytest.raises(MotionError, match="'unknown' does not define keep"):
        _Unknown().keep  # noqa: B018
    with pytest.raises(MotionError, match="'unknown' does not define pull"):
        _Unknown().pull  # noqa: B018
