"""Mistakes that were planted: the exact loss shows each one, by its known number. All promise 1."""

import numpy as np
import pytest

from tacit.core.law.scheduled import best_schedule
from tacit.core.motion import Linear

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
