"""The numbers behind the figures, against closed forms."""

import numpy as np
import pytest

from tacit.base.errors import ParameterError
from tacit.lab.plots import curves


def test_tradeoff_is_what_the_lemmas_say():
    data = curves.tradeoff(agents=7, sigma=0.6, c=3.0, failure_probability=0.1, q=[0.9, 0.5])
    assert data.q.tolist() == [0.5, 0.9]
    assert data.epsilon == pytest.approx(data.q / (3 * (data.q - 0.4)))
    assert data.chebyshev_radius == pytest.approx(3 * np.sqrt(2 * 0.36 / 7 / (0.1 * (1 - data.q**2))))
    assert (data.radius < data.chebyshev_radius).all()
    assert set(data.table()) == {"decay", "epsilon", "radius", "chebyshev_radius"}


@pytest.mark.parametrize("sigma", [0.01, 0.5, 0.8, 0.99])
@pytest.mark.parametrize("decays", [curves.even_decays, curves.dense_decays])
def test_decays_rise_inside_their_range(sigma, decays):
    q = decays(sigma)
    assert (np.diff(q) > 0).all()
    assert 1 - sigma < q[0]
    assert q[-1] < 1


def test_even_decays_are_round_for_the_paper():
    assert curves.even_decays(0.8).tolist() == [0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95]  # fmt: skip # noqa: E501


def test_dense_decays_are_dense_where_curves_are_steep():
    steps = np.diff(curves.dense_decays(0.8))
    assert max(steps[0], steps[-1]) < steps[len(steps) // 2] / 4


def test_the_radius_falls_with_epsilon_and_with_the_root_of_agents():
    data = curves.radius_curves((400, 100), 0.8, 0.05, (1.0, 0.1))
    assert data.agents == (100, 400)
    assert data.radius.shape == (2, 2)
    assert data.radius[:, 0] == pytest.approx(10 * data.radius[:, 1])
    assert data.radius[0] / data.radius[1] == pytest.approx(2, rel=0.01)
    assert (data.one_shot < data.radius).all()
    assert (data.radius < data.chebyshev_radius).all()
    table = data.table()
    assert table["agents"].tolist() == [100, 100, 400, 400]
    assert table["epsilon"].tolist() == [0.1, 1.0, 0.1, 1.0]
    assert table["radius"].tolist() == data.radius.reshape(-1).tolist()


def test_radius_curves_agree_with_a_design():
    from tacit.core.theory.answers import design

    data = curves.radius_curves((50,), 0.6, 0.1, (0.3,))
    answer = design(agents=50, mixing=0.6, failure_probability=0.1, epsilon=0.3)
    assert data.radius[0, 0] == pytest.approx(answer.promise.radius)
    assert data.one_shot[0, 0] == pytest.approx(answer.baseline.radius)


def test_the_price_of_smoothness():
    data = curves.smoothness((500,), 0.05, (0.1, 0.5, 0.8, 0.99))
    assert data.deviation == pytest.approx([5.66, 2.22, 1.50, 1.06], abs=0.005)
    # with many agents the deviation is nearly normal, so its quantiles go with it
    assert data.radius[0] == pytest.approx(data.deviation, rel=2e-3)
    assert list(data.table()) == ["mixing", "deviation", "radius_500_agents"]


@pytest.mark.parametrize("epsilon", [(), (0.0,), (1.0, -1.0), (float("nan"),), (float("inf"),)])
def test_epsilon_must_be_positive(epsilon):
    with pytest.raises(ParameterError):
        curves.radius_curves((5,), epsilon=epsilon)


@pytest.mark.parametrize("sigma", [0.0, 1.0, 2.0, float("nan")])
def test_mixing_must_be_in_its_range(sigma):
    for decays in (curves.even_decays, curves.dense_decays):
        with pytest.raises(ParameterError, match="mixing"):
            decays(sigma)
