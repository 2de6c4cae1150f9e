"""Mistakes that were planted: the exact loss shows each one, by its known number. All promise 1."""

from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from tacit.base.errors import ParameterError
from tacit.core.law import Constant
from tacit.core.law.scheduled import best_schedule
from tacit.core.mechanism import ClientServer
from tacit.core.motion import Contracting, Linear, Various
from tacit.core.theory.targets import target, weights

TRUCK_A, LIVELY_A = np.array([[1, 0.25], [-0.25, 0.5]]), np.array([[1, 0.25], [-1, 0.5]])
TRUCK = Linear(TRUCK_A, [0, 0.25], [1, 0], private={0: 1.0})
BOX = Linear(TRUCK_A, [0, 0.25], [1, 0], private={0: 1.0, 1: 0.5})
LIVELY = Linear(LIVELY_A, [0, 1], [1, 0], private={0: 1.0})
T = 200
BEST = best_schedule(TRUCK.influence_table(T)).scales


def scheduled(a):
    """The schedule of someone who takes `a` for the influence."""
    return np.cbrt(a) * np.cbrt(np.asarray(a) ** 2).sum()


A_T = TRUCK.influence_table(T)[:, 0]
PLANTED = [
    ("spectral radius for the influence", TRUCK, scheduled(0.75 ** np.arange(400.0)), 2.5766872644),
    ("off by one in t", TRUCK, scheduled(TRUCK.influence_table(T + 1)[1:, 0]), 1.166),
    ("squared influence", TRUCK, scheduled(A_T**2), 2.481),
    ("half the noise", TRUCK, BEST / 2, 2.0),
    ("only the first component of a box", BOX, BEST, 1.282),
]


@pytest.mark.parametrize(("name", "motion", "scales", "true"), PLANTED, ids=[row[0] for row in PLANTED])
def test_the_true_loss_of_a_mistake_is_told(name, motion, scales, true):
    assert float(motion.spent(scales)) == pytest.approx(true, abs=6e-4)


def test_signs_are_not_lost():
    """The signed sum of a lively agent is .216 where its loss is 1."""
    best = best_schedule(LIVELY.influence_table(T)).scales
    rows = np.array([row.floats()[0] for row in LIVELY.influence_rows(T)])
    signed = np.divide(rows, best, out=np.zeros(T), where=best > 0).sum()
    assert abs(signed) == pytest.approx(0.216, abs=6e-4)
    assert float(LIVELY.spent(best)) == pytest.approx(1, rel=1e-12)


def test_another_exponent_is_private_and_less_accurate():
    """Exponent 2/3 for 1/3 in the schedule: the variance is 1.716 times as large."""
    wrong = A_T ** (2 / 3) * np.sum(A_T ** (1 / 3))
    assert float(TRUCK.spent(wrong)) == pytest.approx(1)
    assert np.sum(wrong**2) / np.sum(BEST**2) == pytest.approx(1.716, abs=6e-4)


def test_transposed_matrices_are_seen_by_a_lively_agent():
    """24. A truck cannot tell A from its transpose; a lively agent with a private acceleration can."""
    one, other = (Linear(A, [0, 1], [1, 0], private={1: 1.0}) for A in (LIVELY_A, LIVELY_A.T))
    assert float(one.spent(np.ones(100))) == pytest.approx(2.4594579900843505, rel=1e-14)
    assert float(other.spent(np.ones(100))) == pytest.approx(9.837831960337402, rel=1e-14)


def test_own_output_in_place_of_lost_feedback_keeps_the_start():
    """The difference then moves by A + BC, which has the eigenvalue 1."""
    own = Linear(TRUCK_A + np.outer([0, 0.25], [1, 0]), [0, 0.25], [1, 0], private={0: 1.0})
    best = best_schedule(TRUCK.influence_table(100)).scales
    assert float(own.spent(best)) == pytest.approx(4502, abs=0.6)


def test_coupled_trucks_lose_more_by_the_messages_of_others():
    """21: a radar feels the other's speed by 1/10. The agent's own messages show 1, all together 1.41."""
    pair = np.zeros((4, 4))
    pair[:2, :2] = pair[2:, 2:] = TRUCK_A
    pair[3, 0], pair[3, 2] = pair[3, 0] + 0.1, pair[3, 2] - 0.1
    rows = [Linear(pair, [0, 0.25, 0, 0.25], C, private={0: 1.0}) for C in ([1, 0, 0, 0], [0, 0, 1, 0])]
    assert float(rows[0].spent(BEST)) == pytest.approx(1, rel=1e-12)
    assert sum(float(row.spent(BEST)) for row in rows) == pytest.approx(1.4133837626640555, rel=1e-13)


def test_noise_once_on_a_measured_state_gives_the_start_away():
    """A plant that is off by .01, with M_t·ξ added to what is measured: two messages solve for the start."""
    true, start = TRUCK_A + np.array([[0, 0], [0.01, 0]]), 24.37
    xi = np.random.default_rng(1).laplace(0, 1)
    z, messages = np.array([start, 0.0]), []
    for t in range(4):
        messages.append(z[0] + float(TRUCK.influence_rows(4)[t].floats()[0]) * xi)
        z = true @ z  # no feedback, for brevity: it is public and cancels
    rows = [[(np.linalg.matrix_power(M, t) @ [1, 0])[0] for M in (true, TRUCK_A)] for t in (0, 3)]
    found = np.linalg.solve(rows, [messages[0], messages[3]])
    assert found[0] == pytest.approx(start, abs=1e-9)
    # A shadow says only what follows from start + noise: the same equations have no solution.
    shadow = [float(TRUCK.influence_rows(4)[t].floats()[0]) * (start + xi) for t in (0, 3)]
    assert np.linalg.matrix_rank(np.c_[[TRUCK.influence_rows(4)[t].floats()[0] for t in (0, 3)], shadow]) == 1


def test_scales_that_follow_the_round_while_the_state_is_held():
    """Every other round is lost and the state held: message t has the influence of update ⌊t/2⌋."""
    best = best_schedule(TRUCK.influence_table(100)).scales
    assert np.sum(A_T[np.arange(100) // 2] / best) == pytest.approx(4.486, abs=6e-4)


def test_a_message_that_is_drawn_again_costs_again():
    assert np.sum(np.repeat(A_T, 2) / np.repeat(BEST, 2)) == pytest.approx(2, rel=1e-12)


def test_a_recursion_with_moduli_explodes_on_the_lattice():
    """ρ(|A|) = 1.10 and 1.31: after 59 steps thousands and millions, where T9 has 12 and 8.4."""
    for motion, gain, far in ((TRUCK, 12.0, 3e3), (LIVELY, 8.35135135135135, 2e7)):
        apart = np.zeros(2)
        for _ in range(59):
            apart = np.abs(motion.A) @ apart + 1
        assert apart[0] > far
        assert next(islice(motion.steps_apart(0, 1), 59, None)) <= int(gain) + 1


def test_two_roundings_where_one_step_is_counted_exceed_the_account():
    """Each product is rounded by itself, instead of Az + By once for each component."""
    motion = Linear(np.full((5, 5), 0.1), np.ones(5), [1, 0, 0, 0, 0], private={0: 1.0})
    worst = {"once": 0, "each product": 0}
    for seed in range(60):
        rng = np.random.default_rng(seed)
        low = rng.integers(-1000, 1000, 5)
        states = {name: (low, low + np.eye(5, dtype=int)[0]) for name in worst}
        for bound in islice(motion.steps_apart(1, 1), 20):
            y = int(rng.integers(-1000, 1000))
            for name, (one, other) in states.items():
                worst[name] = max(worst[name], abs(int(other[0] - one[0])) - bound)
                if name == "once":
                    states[name] = motion.move_whole(one, y), motion.move_whole(other, y)
                else:
                    states[name] = tuple(
                        np.floor(motion.A * z + 0.5).astype(int).sum(axis=1) + y for z in (one, other)
                    )
    assert worst["once"] == 0
    assert worst["each product"] > 0


def test_agents_are_weighted_by_their_lag_and_not_by_their_slowest_mode():
    """γ = ω/σ with σ = 1 − ρ(A) gives a truck 4 where its lag is 8."""
    slow = Linear([[0.75]], [0.25], [1], private={0: 1.0})
    mechanism = ClientServer(Constant(Various([TRUCK, slow]), 1.0), agents=2)
    starts = np.array([[1.0, 0.0], [0.0, 0.0]])
    agreed = mechanism.motion.say(mechanism.execute(starts, np.zeros((400, 2))).theta[-1])
    assert target(mechanism, starts) == pytest.approx(agreed[0], rel=1e-9)
    np.testing.assert_allclose(weights(mechanism)[:, 0], [8 / 12, 4 / 12])
    wrong = np.array([1 / (1 - TRUCK.modulus), 4.0])
    assert abs(wrong[0] / wrong.sum() - agreed[0]) > 0.1


def test_an_integrator_of_another_kind_has_another_rate():
    """Drag ẋ = −x/2 − x|x| over 8 s: the flow shrinks by e⁻⁴, and Runge–Kutta grows."""
    z = 8 * -(0.5 + 2 * 0.6)
    runge_kutta, implicit, flow = 1 + z + z**2 / 2 + z**3 / 6 + z**4 / 24, 1 / (1 + 8 * 0.5), np.exp(-4)
    assert runge_kutta > 900
    with pytest.raises(ParameterError, match="does not prove the rate"):
        Contracting([[[runge_kutta]]], [1], [[1]], flow, {0: 1.0})
    with pytest.raises(ParameterError, match="does not prove the rate"):
        Contracting([[[implicit]]], [1], [[1]], flow, {0: 1.0})
    assert Contracting([[[1 / (1 - z)]], [[implicit]]], [1], [[1]], 0.2, {0: 1.0}).modulus == 0.2


def test_clamping_a_state_may_move_two_of_them_apart():
    """In a metric that is not diagonal: .447 before, and 1 after both accelerations are cut to one limit."""
    P = np.array([[1, 0.4**0.5 * 2**0.5], [0.4**0.5 * 2**0.5, 1]])
    size = lambda d: float(np.sqrt(d @ P @ d))  # noqa: E731
    one, other = np.array([0.0, 5.0]), np.array([1.0, 5.0 - P[0, 1]])
    assert size(other - one) == pytest.approx(0.447, abs=5e-4)
    cut = [np.array([z[0], min(z[1], 4.0)]) for z in (one, other)]
    assert size(cut[1] - cut[0]) == pytest.approx(1.0)


def test_a_ball_of_many_components_is_not_bounded_by_spectral_norms():
    """Three messages say three components of a ball: the sum is √3, the norm of their matrix 1."""
    turned = Linear(
        np.roll(np.eye(3), 1, axis=1), np.ones(3), [1, 0, 0], dict.fromkeys(range(3), 1.0), norm="l2"
    )
    rows = np.array([row.floats() for row in turned.influence_rows(3)])
    assert np.linalg.norm(rows, 2) == pytest.approx(1)
    assert float(turned.spent(np.ones(3))) >= 3**0.5


CAUGHT_BY = {
    "spectral radius": "test_the_true_loss_of_a_mistake_is_told",
    "off by one": "../audit/test_moving.py::test_every_mistake_is_caught_by_name",
    "squared influence": "test_the_true_loss_of_a_mistake_is_told",
    "half noise": "../audit/test_moving.py::test_every_mistake_is_caught_by_name",
    "only one component of a box": "test_the_true_loss_of_a_mistake_is_told",
    "signed sum": "test_signs_are_not_lost",
    "own output for lost feedback": "test_own_output_in_place_of_lost_feedback_keeps_the_start",
    "scale by round": "test_scales_that_follow_the_round_while_the_state_is_held",
    "redraw": "test_a_message_that_is_drawn_again_costs_again",
    "another exponent": "test_another_exponent_is_private_and_less_accurate",
    "once, measured": "test_noise_once_on_a_measured_state_gives_the_start_away",
    "A transposed": "test_transposed_matrices_are_seen_by_a_lively_agent",
    "|A| recursion": "test_a_recursion_with_moduli_explodes_on_the_lattice",
    "RK4 with the flow's rate": "test_an_integrator_of_another_kind_has_another_rate",
    "certificate in floats": "test_contracting.py::test_a_certificate_is_checked_exactly",
    "clamped": "test_clamping_a_state_may_move_two_of_them_apart",
    "coupling": "test_coupled_trucks_lose_more_by_the_messages_of_others",
    "zero scale": "test_linear.py::test_a_message_that_says_nothing_needs_no_noise_and_others_do",
    "c·q^t below": "test_linear.py::test_the_best_geometric_noise_takes_its_size_from_the_true_influence",
    "γ by the slowest mode": "test_agents_are_weighted_by_their_lag_and_not_by_their_slowest_mode",
    "two roundings": "test_two_roundings_where_one_step_is_counted_exceed_the_account",
    "odometer without slack": "test_offered.py::test_an_odometer_without_slack_falls_below_what_floats_do",
    "hybrid with the nominal rate": "test_offered.py::test_the_rate_of_the_model_alone_is_no_bound",
    "whole number below": "test_linear.py::test_a_fractional_row_is_counted_up",
    "discrete Gaussian": "../law/test_gaussian.py::test_the_discrete_gaussian_is_not_what_the_real_one_is",
    "spectral norms": "test_a_ball_of_many_components_is_not_bounded_by_spectral_norms",
}


@pytest.mark.parametrize("mistake", CAUGHT_BY)
def test_every_mistake_has_a_test_that_shows_it(mistake):
    *file, name = CAUGHT_BY[mistake].split("::")
    place = Path(__file__).parent.joinpath(*file) if file else Path(__file__)
    assert f"\ndef {name}(" in place.read_text(encoding="utf-8")
