"""What an adversary believes: against Bayes' rule in plain Python, and against the promise."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import ClientServer, Distributed, Fading, Graph, History, OneShot
from tacit.base.errors import ParameterError, StateError
from tacit.lab.audit import ADVERSARIES, Prior, Simulated, belief, log_likelihood, reconstruct

PARAMETERS = {
    "fading": Fading(0.6, 2.0, 0.7),
    "fading too fast": Fading(0.3, 1.0, 0.5),
    "one-shot": OneShot(0.6, 2.0),
}
PRIORS = {"flat": Prior.flat(-3, 4), "histogram": Prior((-5, -1, 0.5, 2, 6), (1, 5, 0.2, 2))}
PATH = Graph.from_edges([(0, 1), (1, 2)])


def session(mechanism, values, rounds, seed=4):
    shape = (rounds, *np.shape(values))
    scales = np.broadcast_to(mechanism.law.scales(rounds).reshape(rounds, -1), (rounds, len(values)))
    noise = np.random.default_rng(seed).laplace(size=shape)
    return mechanism.execute(values, noise * scales.reshape(*scales.shape, *(1,) * (len(shape) - 2)))


def bayes(x, y, sigma, scales, prior):
    """Bayes' rule cell by cell, in floats and loops; for one-shot noise the scale 0 says nothing new."""
    low, high, cells = prior.edges[0], prior.edges[-1], 4400  # no edge inside a cell
    width = (high - low) / cells
    middles = [low + (k + 0.5) * width for k in range(cells)]
    masses = []
    for start in middles:
        place = max(i for i, edge in enumerate(prior.edges[:-1]) if edge <= start)
        log, state = math.log(prior.densities[place]), start
        for x_t, y_t, scale in zip(x, y, scales, strict=True):
            log -= abs(x_t - state) / scale if scale else 0.0
            state = (1 - sigma) * state + sigma * y_t
        masses.append(math.exp(log))
    total = sum(masses)
    return middles, [m / total / width for m in masses]


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
@pytest.mark.parametrize("parameters", PARAMETERS.values(), ids=PARAMETERS)
@pytest.mark.parametrize("graph", [None, PATH], ids=["server", "graph"])
def test_belief_is_bayes_rule(parameters, prior, graph):
    mechanism = Distributed(parameters, graph) if graph else ClientServer(parameters, agents=3)
    execution = session(mechanism, [1.0, -2.0, 0.5], 5)
    seen = belief(execution, 1, prior=prior, points=15, level=0.9)
    heard = execution.y[:, 1] if graph else execution.y
    scales = parameters.scales(5).tolist()
    for t in range(6):
        x, y = execution.x[:t, 1].tolist(), heard[:t].tolist()
        starts, density = map(np.array, bayes(x, y, parameters.sigma, scales[:t], prior))
        width = starts[1] - starts[0]
        assert seen.mean[t] == pytest.approx(np.sum(starts * density) * width, abs=1e-4)
        below = np.cumsum(density) * width
        for end, probability in ((seen.low[t], 0.05), (seen.high[t], 0.95)):
            assert np.interp(end, starts + width / 2, below) == pytest.approx(probability, abs=2e-4)
        inside = np.array([not np.isclose(prior.edges, v).any() for v in seen.values])
        assert seen.density[t, inside] == pytest.approx(
            np.interp(seen.values[inside], starts, density), rel=5e-3
        )


def test_before_the_first_round_the_belief_is_the_prior():
    seen = belief(session(ClientServer(PARAMETERS["fading"], agents=2), [0, 1], 3), 0, prior=(-1, 3))
    assert seen.rounds.tolist() == [0, 1, 2, 3]
    assert seen.density[0] == pytest.approx(np.full(401, 0.25))
    assert (seen.mean[0], seen.low[0], seen.high[0]) == pytest.approx((1, -0.9, 2.9))
    assert seen.learned[0] == 0
    assert seen.promised[0] == seen.epsilon[0] == 0
    assert seen.most[0] == pytest.approx(seen.prior)


@pytest.mark.parametrize("lattice", [False, True])
def test_the_density_is_the_likelihood_over_its_mean(lattice):
    mechanism = ClientServer(PARAMETERS["fading"], agents=2)
    transcripts = Simulated(mechanism, lattice=lattice)([1.0, -2.0], 8, 3, 7)
    for run in range(3):
        seen = belief(transcripts, 0, prior=(-4, 4), points=9, run=run)
        view = transcripts[slice(run, run + 1)].of(0)
        log = np.array([log_likelihood(view, v)[0] for v in seen.values])
        ratio = np.log(seen.density[-1] / seen.density[-1, 4])
        assert ratio == pytest.approx(log - log[4], abs=1e-9)


def test_on_a_lattice_the_declared_range_is_the_prior():
    from tacit.lab.audit import Deployed

    mechanism = ClientServer(PARAMETERS["fading"], agents=2)
    transcripts = Deployed(mechanism, -4, 4, seedable=True)([1.0, -2.0], 8, 2, 7)
    seen = belief(transcripts, 1, points=9)
    assert (seen.values[0], seen.values[-1]) == (-4, 4)
    log = np.array([log_likelihood(transcripts[:1].of(1), v)[0] for v in seen.values])
    assert np.log(seen.density[-1] / seen.density[-1, 4]) == pytest.approx(log - log[4], abs=1e-9)


finite = st.floats(-50, 50, allow_nan=False)


@settings(max_examples=60, deadline=None)
@given(
    x=st.lists(finite, min_size=1, max_size=6),
    data=st.data(),
    name=st.sampled_from(sorted(PARAMETERS)),
    known=st.sampled_from(sorted(PRIORS)),
)
def test_no_transcript_teaches_more_than_promised(x, data, name, known):
    """Messages and feedback as an adversary would like them best."""
    y = data.draw(st.lists(finite, min_size=len(x), max_size=len(x)))
    mechanism = ClientServer(PARAMETERS[name], agents=1)
    transcripts = History.full(mechanism, np.array(x)[:, None], np.array(y))
    seen = belief(transcripts, 0, prior=PRIORS[known], points=33)
    assert (seen.learned <= seen.promised + 1e-9).all()
    assert (seen.density <= seen.most * (1 + 1e-9)).all()
    assert (seen.density >= seen.least * (1 - 1e-9)).all()
    change = np.abs(np.log(seen.density / seen.prior))
    assert (change <= seen.learned[:, None] + 1e-9).all()


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_promise_is_reached(name):
    """Messages without noise make the true start as likely as can be; far ones, the far end least so."""
    parameters = PARAMETERS[name]
    mechanism = ClientServer(parameters, agents=1)
    rounds, prior = 5, Prior.flat(0, 8)
    quiet = mechanism.execute([3.0], np.zeros((rounds, 1)))
    seen = belief(quiet, 0, prior=prior, points=17)
    assert seen.values[6] == 3.0
    assert seen.density[:, 6] == pytest.approx(seen.most[:, 6])
    assert (seen.density[1:, :6] < seen.most[1:, :6]).all()
    x = np.full((rounds, 1), 1e6)
    far = belief(History.full(mechanism, x, np.zeros(rounds)), 0, prior=prior, points=17)
    assert far.density[:, 0] == pytest.approx(far.least[:, 0], rel=1e-6)
    rise = np.log(far.density[:, -1] / far.density[:, 0])
    assert rise == pytest.approx(far.epsilon * 8, rel=1e-6)


def test_a_narrow_prior_learns_all_that_is_promised():
    """As the interval shrinks, the largest change nears the promise for half of it, from both ends."""
    mechanism = ClientServer(Fading(0.8, 10, 0.6), agents=1)
    x = np.full((3, 1), 1e4)
    seen = belief(History.full(mechanism, x, np.zeros(3)), 0, prior=(0, 1e-3))
    assert seen.learned[-1] == pytest.approx(seen.promised[-1] / 2, rel=1e-3)


def test_a_redrawing_agent_tells_more_than_promised():
    mechanism = ClientServer(Fading(0.8, 0.5, 0.6), agents=2)
    shown = [
        belief(Simulated(mechanism, retries=how)([1.0, 0.0], 5, 40, 3), 0, prior=(0.99, 1.01), run=run)
        for how in ("repeat", "redraw")
        for run in range(40)
    ]
    over = [float((b.most[1:] < b.density[1:] * (1 - 1e-9)).any()) for b in shown]
    assert sum(over[:40]) == 0
    assert sum(over[40:]) > 0


def test_all_adversaries_on_the_wires_believe_the_same():
    execution = session(ClientServer(PARAMETERS["fading"], agents=3), [0.0, 1.0, 2.0], 4)
    others = {"eavesdropper": (), "server": (), "compromised": (0, 2), "insiders": (0, 2)}
    assert {*others, "conspirators"} == set(ADVERSARIES)  # these need keepers
    seen = [belief(execution, 1, prior=(-2, 4), adversary=a, compromised=c) for a, c in others.items()]
    assert all(np.array_equal(b.density, seen[0].density) for b in seen)
    assert repr(seen[2]) == "<Belief about agent 1 (compromised), 4 rounds>"


def test_per_agent_parameters_silence_and_components():
    mechanism = ClientServer(Fading([0.5, 0.9, 0.7], [1.0, 2.0, 3.0], [0.8, 0.5, 0.9]), agents=3)
    transcripts = Simulated(mechanism, misses=True)([0.0, 1.0, 2.0], 6, 4, 3)
    for agent in range(3):
        seen = belief(transcripts, agent, prior=(-5, 5), run=2)
        for t in range(7):
            exact = reconstruct(transcripts.of(agent), Prior.flat(-5, 5), rounds=t)
            assert seen.mean[t] == pytest.approx(exact.mean[2])
    vectors = session(Distributed(PARAMETERS["fading"], PATH), np.arange(6.0).reshape(3, 2), 3)
    alone = History.full(vectors.mechanism, vectors.x[..., 1], vectors.y[..., 1])
    seen = belief(vectors, 2, prior=(0, 9), component=1)
    assert seen.density == pytest.approx(belief(alone, 2, prior=(0, 9)).density)


def test_long_runs_stay_finite():
    """Far beyond where noise and differences underflow."""
    execution = session(ClientServer(Fading(0.95, 1.0, 0.1), agents=2), [1.0, 0.0], 600)
    seen = belief(execution, 0, prior=(-5, 5))
    assert np.isfinite(seen.density).all()
    assert (seen.low < seen.mean).all()
    assert (seen.mean < seen.high).all()
    assert (seen.learned <= seen.promised).all()


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"prior": None}, ParameterError, "a prior must be given"),
        ({"prior": Prior()}, ParameterError, "finite interval"),
        ({"prior": (1, 0)}, ParameterError, "rising order"),
        ({"points": 1}, ParameterError, "at least 2"),
        ({"level": 1.0}, ParameterError, "level"),
        ({"agent": 3}, StateError, "0 to 2"),
        ({"run": 1}, StateError, "0 to 0"),
        ({"adversary": "oracle"}, ParameterError, "eavesdropper, server, compromised, insiders"),
        ({"adversary": "server"}, StateError, "no server on a graph"),
        ({"compromised": (1,)}, ParameterError, "leave them out"),
        ({"adversary": "compromised", "compromised": (0, 1)}, StateError, "must not be compromised"),
        ({"adversary": "compromised", "compromised": (7,)}, StateError, "0 to 2"),
        ({"adversary": "insiders"}, ParameterError, "must be named"),
        ({"adversary": "insiders", "compromised": (0, 1)}, StateError, "must not be compromised"),
        ({"adversary": "insiders", "compromised": (2,)}, StateError, "hear the agent and all its neighbours"),
    ],
)
def test_what_makes_no_sense_is_refused(change, error, words):
    execution = session(Distributed(PARAMETERS["fading"], PATH), [0.0, 1.0, 2.0], 2)
    call = {"agent": 0, "prior": (0, 3), **change}
    with pytest.raises(error, match=words):
        belief(execution, **call)
    vectors = session(ClientServer(PARAMETERS["fading"], agents=1), [[1.0, 2.0]], 2)
    with pytest.raises(StateError, match="component"):
        belief(vectors, 0, prior=(0, 3), component=2)


def test_nothing_private_is_shown():
    execution = session(ClientServer(PARAMETERS["fading"], agents=1), [1.2345], 2)
    assert "1.23" not in repr(belief(execution, 0, prior=(0, 3)))
