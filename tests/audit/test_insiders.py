"""What insiders believe who see only their own connections."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kstest

from tacit import ClientServer, Distributed, Fading, Graph, History, OneShot
from tacit.base.errors import StateError
from tacit.lab.audit import Prior, Simulated, belief
from tacit.lab.audit.insiders import _log_law

PARAMETERS = {"fading": Fading(0.6, 2.0, 0.7), "one-shot": OneShot(0.6, 2.0)}


def session(mechanism, values, rounds, rng):
    scales = mechanism.law.scales(rounds).reshape(rounds, -1)
    return mechanism.execute(values, rng.laplace(size=(rounds, len(values))) * scales)


def two_laplace(s, scale):
    """Log-density of the sum of two Laplace variables, by hand."""
    return math.log1p(abs(s) / scale) - abs(s) / scale


@pytest.mark.parametrize("name", PARAMETERS)
def test_two_honest_agents_by_bayes_rule_in_loops(name):
    """Agent 1 tells all; agent 2 may be anywhere: sum over where it is."""
    parameters, cells, prior = PARAMETERS[name], 60, Prior((-3, 0, 4), (1, 3))
    execution = session(ClientServer(parameters, agents=3), [1.0, -2.0, 3.0], 4, np.random.default_rng(3))
    width = 7 / cells
    starts = [-3 + (k + 0.5) * width for k in range(cells)]
    weight = [1.0 if start < 0 else 3.0 for start in starts]
    scales = parameters.scales(4).tolist()
    for t in range(5):
        masses = [0.0] * cells
        for i, v in enumerate(starts):
            for other, chance in zip(starts, weight, strict=True):
                state, log = v + other, 0.0
                for x_1, y, scale in zip(execution.x[:t, 1], execution.y[:t], scales, strict=False):
                    if scale:
                        log += two_laplace(3 * y - x_1 - state, scale)
                    state = (1 - parameters.sigma) * state + parameters.sigma * 2 * y
                masses[i] += weight[i] * chance * math.exp(log)
        density = np.array(masses) / (sum(masses) * width)
        seen = belief(execution, 0, prior=prior, adversary="insiders", compromised=[1], points=cells)
        assert seen.mean[t] == pytest.approx(density @ starts * width, rel=1e-6)
        factor = np.interp(starts, seen.values, seen.density[t] / seen.prior)
        expected = density / prior.density(starts)
        assert factor[1:-1] == pytest.approx(expected[1:-1], rel=5e-3)  # the last half cell is not resolved
        below = np.cumsum(density) * width
        assert np.interp(seen.low[t], np.array(starts) + width / 2, below) == pytest.approx(0.025, abs=1e-6)


@pytest.mark.parametrize("m", [1, 2, 3, 5, 400])
def test_the_law_of_a_sum_of_laplace_variables(m):
    """Against its characteristic function, inverted on a grid; and the closed forms of small m."""
    s = np.linspace(0, 4 * math.sqrt(2 * m), 25)
    found = _log_law(m)(s) - _log_law(m)(np.zeros(1))
    closed = {1: 0 * s, 2: np.log1p(s), 3: np.log1p(s + s**2 / 3)}
    if m in closed:
        assert found == pytest.approx(closed[m] - s, abs=1e-9)
    if m > 1:
        w = np.linspace(0, min(400, math.sqrt(math.expm1(37 / m))), 100_001)
        density = np.trapezoid(np.cos(np.outer(s, w)) * np.exp(-m * np.log1p(w**2)), w, axis=1)
        assert found == pytest.approx(np.log(density / density[0]), abs=2e-3)


@pytest.mark.parametrize("sessions", [100, pytest.param(2000, marks=pytest.mark.long)])
def test_the_truth_is_where_they_believe_it_to_be(sessions):
    """Starts drawn from the prior: their place in the belief is uniform."""
    rng, places = np.random.default_rng(12), []
    mechanism = ClientServer(Fading(0.5, 1.0, 0.8), agents=4)
    for _ in range(sessions):
        starts = rng.uniform(0, 4, 4)
        seen = belief(
            session(mechanism, starts, 6, rng),
            2,
            prior=(0, 4),
            adversary="insiders",
            compromised=[0],
            points=101,
        )
        mass = np.concatenate([[0], np.cumsum((seen.density[-1][1:] + seen.density[-1][:-1]) / 2 * 0.04)])
        places.append(np.interp(starts[2], seen.values, mass / mass[-1]))
    assert kstest(places, "uniform").pvalue > 1e-6


def test_they_know_less_than_an_eavesdropper_and_more_the_more_they_are():
    mechanism = ClientServer(Fading(0.6, 0.5, 0.7), agents=12)
    rng = np.random.default_rng(5)
    widths = np.zeros(3)
    for _ in range(20):
        execution = session(mechanism, rng.uniform(0, 4, 12), 8, rng)
        for place, count in enumerate((1, 10, 11)):
            seen = belief(execution, 0, prior=(0, 4), adversary="insiders", compromised=range(1, count + 1))
            assert (seen.learned <= seen.promised + 1e-9).all()
            assert (seen.density <= seen.most * 1.001).all()
            assert (seen.density >= seen.least * 0.999).all()
            widths[place] += seen.high[-1] - seen.low[-1]
    assert widths[0] > 1.2 * widths[1] > 1.2 * widths[2]


def test_alone_among_insiders_an_agent_is_heard_word_for_word():
    execution = session(ClientServer(PARAMETERS["fading"], agents=3), [0, 1, 2], 4, np.random.default_rng(1))
    heard = belief(execution, 1, prior=(-2, 4))
    seen = belief(execution, 1, prior=(-2, 4), adversary="insiders", compromised=[0, 2])
    assert np.array_equal(seen.density, heard.density)


def test_on_a_graph_they_must_surround_the_agent():
    """Agent 1 of a path of five hears 0, 1 and 2: agent 0 and its only neighbour, itself."""
    mechanism = Distributed(PARAMETERS["fading"], Graph.from_name("path:5"))
    execution = session(mechanism, np.arange(5.0), 4, np.random.default_rng(1))
    heard = belief(execution, 0, prior=(0, 5))
    seen = belief(execution, 0, prior=(0, 5), adversary="insiders", compromised=[1])
    assert np.array_equal(seen.density, heard.density)
    with pytest.raises(StateError, match="all its neighbours"):
        belief(execution, 2, prior=(0, 5), adversary="insiders", compromised=[1])
    around = belief(execution, 2, prior=(0, 5), adversary="insiders", compromised=[1, 3])
    assert np.array_equal(around.density, belief(execution, 2, prior=(0, 5)).density)


def test_what_has_no_closed_form_is_refused():
    uneven = ClientServer(Fading([0.5, 0.6, 0.6], 1.0, 0.8), agents=3)
    execution = session(uneven, [0.0, 1.0, 2.0], 3, np.random.default_rng(1))
    with pytest.raises(StateError, match="share their parameters, but their sigma differ"):
        belief(execution, 1, prior=(0, 3), adversary="insiders", compromised=[2])
    belief(execution, 1, prior=(0, 3), adversary="insiders", compromised=[0])  # only the insider is different
    silent = Simulated(ClientServer(PARAMETERS["fading"], agents=3), misses=True)([0.0, 1.0, 2.0], 4, 1, 1)
    with pytest.raises(StateError, match="one number in every round"):
        belief(silent, 1, prior=(0, 3), adversary="insiders", compromised=[0])
    vectors = History.full(uneven, np.zeros((2, 3, 2)), np.zeros((2, 2)))
    with pytest.raises(StateError, match="one number in every round"):
        belief(vectors, 1, prior=(0, 3), adversary="insiders", compromised=[0])


# ---- where keepers add the noise, everyone is in their place ----------------------------------------------


def kept(parameters, values, rounds, keepers=2, seed=3):
    mechanism = ClientServer(parameters, agents=len(values), keepers=keepers)
    noise = np.random.default_rng(seed).laplace(size=(rounds, keepers))
    return mechanism.execute(values, noise * mechanism.noise_law.scales(rounds).reshape(rounds, -1))


@pytest.mark.parametrize("name", PARAMETERS)
@pytest.mark.parametrize("told", [(), (2,)])
def test_with_two_keepers_by_bayes_rule_in_loops(name, told):
    """All that is heard is the sum, with two draws in it, less what the compromised have sent."""
    parameters, cells = PARAMETERS[name], 24
    values, rounds = ([1.0, -2.0], 3) if not told else ([1.0, -2.0, 0.5], 3)
    run = kept(parameters, values, rounds)
    width, n = 7 / cells, len(values)
    starts = [-3 + (k + 0.5) * width for k in range(cells)]
    scales = parameters.scales(rounds).tolist()
    masses = [0.0] * cells
    for i, v in enumerate(starts):
        for other in starts:
            state, log = v + other, 0.0
            for t, (y, scale) in enumerate(zip(run.y, scales, strict=True)):
                if scale:
                    log += two_laplace(n * y - run.private.sent[t, list(told)].sum() - state, scale)
                state = (1 - parameters.sigma) * state + parameters.sigma * 2 * y
            masses[i] += math.exp(log)
    density = np.array(masses) / (sum(masses) * width)
    adversary = "compromised" if told else "eavesdropper"
    seen = belief(run, 0, prior=(-3, 4), adversary=adversary, compromised=told, points=cells)
    assert seen.mean[-1] == pytest.approx(density @ starts * width, rel=1e-6)
    assert (seen.learned <= seen.promised).all()
    other = "insiders" if told else "server"
    same = belief(run, 0, prior=(-3, 4), adversary=other, compromised=told, points=cells)
    np.testing.assert_array_equal(same.density, seen.density)


@pytest.mark.parametrize("name", PARAMETERS)
@pytest.mark.parametrize("keeper", [0, 1])
def test_conspirators_believe_what_an_eavesdropper_does_without_keepers(name, keeper):
    """What they put together is the message of an agent that adds the honest keeper's noise itself."""
    run = kept(PARAMETERS[name], [1.0, -2.0, 0.5], 4)
    seen = belief(run, 0, prior=(-3, 4), adversary="conspirators", keeper=keeper)
    x = run.private.sent[:, :1] + run.eta[:, [keeper]]
    rounds = 1 if name == "one-shot" else 4
    alone = History.full(ClientServer(PARAMETERS[name], agents=1), x[:rounds], run.y[:rounds])
    np.testing.assert_allclose(seen.density[: rounds + 1], belief(alone, 0, prior=(-3, 4)).density)
    np.testing.assert_array_equal(seen.density[rounds:], [seen.density[-1]] * (5 - rounds))
    assert (seen.learned <= seen.promised).all()


def test_a_crowd_hides_an_agent_from_an_eavesdropper_and_not_from_conspirators():
    """On average over starts from the prior, the eavesdropper of 40 agents learns next to nothing."""
    rng, spread = np.random.default_rng(5), {"eavesdropper": 0.0, "conspirators": 0.0}
    for seed in range(20):
        run = kept(Fading(0.6, 0.5, 0.7), rng.uniform(0, 4, 40), 4, seed=seed)
        for adversary in spread:
            seen = belief(run, 0, prior=(0, 4), adversary=adversary, points=81)
            spread[adversary] += float(seen.high[-1] - seen.low[-1]) / 20
    assert spread["eavesdropper"] > 0.98 * 0.95 * 4
    assert spread["conspirators"] < 0.75 * 0.95 * 4


def test_what_nobody_knows_is_refused():
    run = kept(PARAMETERS["fading"], [1.0, -2.0, 0.5], 4)
    public = run.public()
    assert belief(public, 0, prior=(-3, 4)).mean == pytest.approx(belief(run, 0, prior=(-3, 4)).mean)
    with pytest.raises(StateError, match="under masks"):
        belief(public, 0, prior=(-3, 4), adversary="insiders", compromised=[1])
    with pytest.raises(StateError, match="use a simulated one"):
        belief(public, 0, prior=(-3, 4), adversary="conspirators")
    with pytest.raises(StateError, match="keeper from 0 to 1"):
        belief(run, 0, prior=(-3, 4), adversary="conspirators", keeper=2)
    with pytest.raises(StateError, match="from 0 to 2"):
        belief(run, 3, prior=(-3, 4))
    plain = session(ClientServer(PARAMETERS["fading"], agents=2), [1.0, 2.0], 2, np.random.default_rng(1))
    with pytest.raises(StateError, match="no keepers"):
        belief(plain, 0, prior=(-3, 4), adversary="conspirators")
    absent = np.ones((4, 3), dtype=bool)
    absent[2, 1] = False
    with pytest.raises(StateError, match="every agent sent"):
        belief(replace(public, used=absent), 0, prior=(-3, 4))
