"""What an eavesdropper can know: against a grid, against closed forms, and by its own word."""

import numpy as np
import pytest
from scipy.stats import binom, kstest

from tacit import ClientServer, Distributed, Fading, Graph, History, OneShot
from tacit.base.errors import ParameterError, StateError
from tacit.lab.audit import Prior, Simulated, log_likelihood, reconstruct

FADING = ClientServer(Fading(0.6, 2.0, 0.7), agents=2)
PRIORS = {
    "flat on the line": Prior(),
    "flat": Prior.flat(-3, 4),
    "histogram": Prior((-5, -1, 0.5, 2, 6), (1, 5, 0.2, 2)),
    "half a line": Prior((-2, np.inf)),
}


def on_grid(view, prior, run, points=200_001):
    """The posterior by brute force: mode, mean and quantiles of the likelihood on a grid."""
    edges = np.clip(np.array(prior.edges, float), -80, 80)
    grid = np.linspace(edges[0], edges[-1], points)
    density = np.array(prior.densities)[
        np.clip(np.searchsorted(edges, grid, side="right") - 1, 0, len(edges) - 2)
    ]
    log = np.zeros(points)
    state = grid.copy()
    for t in range(view.x.shape[1]):
        if not view.law.shadowed or view.update[0, t] == 0:
            log -= np.abs(view.x[run, t] - state) / view.scales[0, t]
        state = (1 - view.law.sigma) * state + view.law.sigma * view.y[run, t]
    mass = np.exp(log - log.max()) * density
    mass /= mass.sum()
    total = np.cumsum(mass)
    quantiles = [grid[np.searchsorted(total, p)] for p in (0.025, 0.5, 0.975)]
    return grid[np.argmax(mass)], np.sum(mass * grid), quantiles


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("parameters", [Fading(0.6, 2.0, 0.7), Fading(0.3, 1.0, 0.5), OneShot(0.6, 2.0)])
def test_posterior_is_the_one_on_a_grid(name, parameters):
    view = Simulated(ClientServer(parameters, agents=2), lattice=False)([1.0, -2.0], 6, 8, 5).of(0)
    posterior = reconstruct(view, PRIORS[name])
    low, high = posterior.interval(0.95)
    for run in range(8):
        mode, mean, quantiles = on_grid(view, PRIORS[name], run)
        assert posterior.mode[run] == pytest.approx(mode, abs=2e-3)
        assert posterior.mean[run] == pytest.approx(mean, abs=2e-3)
        assert [low[run], posterior.quantile(0.5)[run], high[run]] == pytest.approx(quantiles, abs=3e-3)


def test_slopes_and_heights_are_the_likelihood():
    view = Simulated(FADING, lattice=False)([0.5, 0], 5, 3, 1).of(0)
    posterior = reconstruct(view)
    for piece in range(1, posterior.left.shape[1] - 1):
        left, right = posterior.left[:, piece], posterior.right[:, piece]
        rise = log_likelihood(view, right) - log_likelihood(view, left)
        assert posterior.slope[:, piece] * (right - left) == pytest.approx(rise, abs=1e-9)
        assert posterior.log_right[:, piece] - posterior.log_left[:, piece] == pytest.approx(rise, abs=1e-9)


def test_one_shot_is_laplace_around_the_message():
    view = Simulated(ClientServer(OneShot(0.4, 3.0), agents=1), lattice=False)([2.0], 4, 10, 8).of(0)
    posterior = reconstruct(view)
    assert posterior.mode == pytest.approx(view.x[:, 0])
    assert posterior.mean == pytest.approx(view.x[:, 0])
    low, high = posterior.interval(0.9)
    assert high - low == pytest.approx(2 * 3.0 * np.log(10))
    assert posterior.cdf(view.x[:, 0] + 3.0) == pytest.approx(1 - 0.5 * np.exp(-1))


def test_quantile_inverts_the_distribution():
    view = Simulated(FADING)([1.0, 0], 6, 200, 3).of(0)
    for prior in PRIORS.values():
        posterior = reconstruct(view, prior)
        for p in (1e-6, 0.1, 0.5, 0.93, 1 - 1e-6):
            assert posterior.cdf(posterior.quantile(p)) == pytest.approx(np.full(200, p), abs=1e-9)
        assert posterior.mass.sum(axis=1) == pytest.approx(np.ones(200))


@pytest.mark.parametrize("parameters", [Fading(0.6, 2.0, 0.7), OneShot(0.6, 2.0)])
@pytest.mark.parametrize("runs", [1000, pytest.param(20_000, marks=pytest.mark.long)])
def test_intervals_cover_at_their_stated_rate(parameters, runs):
    """Starts drawn from the prior: their place in the posterior is uniform, and intervals hold."""
    prior = Prior((-3, 0, 4), (1, 3))
    rng = np.random.default_rng(11)
    starts = np.where(rng.random(runs) < 3 / 15, rng.uniform(-3, 0, runs), rng.uniform(0, 4, runs))
    mechanism = ClientServer(parameters, agents=2)
    noise = rng.laplace(size=(runs, 5, 2)) * parameters.scales(5)[:, None]
    executions = [mechanism.execute([s, 1.0], eta) for s, eta in zip(starts, noise, strict=True)]
    posterior = reconstruct(History.stack(executions).of(0), prior)
    assert kstest(posterior.cdf(starts), "uniform").pvalue > 1e-6
    for level in (0.5, 0.95):
        low, high = posterior.interval(level)
        hits = int(np.sum((low <= starts) & (starts <= high)))
        assert 5e-7 < binom.cdf(hits, runs, level) < 1 - 5e-7


def test_more_rounds_tell_more_until_the_noise_has_faded_too_slowly():
    view = Simulated(FADING)([1.0, 0], 12, 400, 3).of(0)
    widths = [np.mean(np.subtract(*reconstruct(view, rounds=t).interval(0.9)[::-1])) for t in (1, 2, 4, 12)]
    assert np.all(np.diff(widths) < 0)
    assert reconstruct(view, rounds=12).mean == pytest.approx(reconstruct(view).mean)
    prefix = Simulated(FADING)([1.0, 0], 12, 400, 3).prefix(4).of(0)
    assert reconstruct(view, rounds=4).mean == pytest.approx(reconstruct(prefix).mean)


def test_components_are_independent():
    mechanism = Distributed(Fading(0.5, 2, 0.9), Graph.from_edges([(0, 1), (1, 2)]))
    values = np.arange(6.0).reshape(3, 2)
    seen = Simulated(mechanism, lattice=False)(values, 5, 20, 3)
    both = reconstruct(seen.of(1), Prior.flat(-10, 10))
    assert both.mean.shape == (20, 2)
    for k in range(2):
        alone = History.full(mechanism, seen.x[..., k].copy(), seen.y[..., k].copy(), runs=True)
        assert reconstruct(alone.of(1), Prior.flat(-10, 10)).mean == pytest.approx(both.mean[:, k])


def test_a_redrawing_agent_is_known_better():
    once, twice = (
        reconstruct(Simulated(FADING, retries=how)([1.0, 0], 5, 500, 3).of(0)).interval(0.9)
        for how in ("repeat", "redraw")
    )
    assert np.mean(twice[1] - twice[0]) < 0.85 * np.mean(once[1] - once[0])


def test_steep_posteriors_do_not_overflow():
    view = Simulated(ClientServer(Fading(0.9, 1e-3, 0.9), agents=2), lattice=False)([5.0, 0], 8, 50, 3).of(0)
    posterior = reconstruct(view, Prior.flat(-100, 100))
    low, high = posterior.interval(0.999)
    assert np.all((low < 5.0) & (5.0 < high) & (high - low < 0.05))
    assert np.abs(posterior.mean - 5).max() < 0.02


def test_what_makes_no_sense_is_refused():
    view = Simulated(FADING)([1.0, 0], 3, 5, 3).of(0)
    for bad in (
        {"edges": (1, 0)},
        {"edges": (0, 1, 2)},
        {"edges": (0, 1), "densities": (0.0,)},
        {"edges": (0,)},
    ):
        with pytest.raises(ParameterError):
            Prior(**bad)
    for call in (lambda p: p.quantile(0.0), lambda p: p.interval(1.0), lambda p: p.quantile(1.5)):
        with pytest.raises(ParameterError):
            call(reconstruct(view))
    with pytest.raises(StateError):
        reconstruct(view, rounds=0)
    assert reconstruct(view, Prior.flat(2, 6), rounds=0).mean == pytest.approx(np.full(5, 4.0))
