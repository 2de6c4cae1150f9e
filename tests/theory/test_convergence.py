"""Potential, rates and Assumption 1 against dense matrices."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit import ClientServer, Distributed, Fading, Graph, OneShot
from tacit.base.errors import ParameterError, StateError
from tacit.core.theory import convergence, moments
from tacit.core.theory.optimum import averaging_mixing

PATH = Graph.from_name("path:4")
STAR = Graph.from_name("star:6")
KARATE = Graph.from_name("karate")


def atlas():
    """Every connected graph of 2 to 7 agents."""
    graphs = nx.graph_atlas_g()
    return [Graph.from_networkx(g) for g in graphs if g.number_of_nodes() > 1 and nx.is_connected(g)]


def complete(n):
    return Graph.from_name(f"complete:{n}")


def matrix(mechanism):
    """P = I − DL, dense and obvious."""
    d = mechanism.law.sigma / mechanism.closed_degrees
    graph = mechanism.graph if isinstance(mechanism, Distributed) else complete(mechanism.n)
    return np.eye(mechanism.n) - np.diag(np.broadcast_to(d, mechanism.n)) @ graph.laplacian().toarray()


def second_largest(P):
    return np.sort(np.abs(np.linalg.eigvals(P)))[-2]


# ---- potential


def test_potential_sums_over_pairs_that_hear_each_other():
    theta = np.random.default_rng(1).normal(size=(34, 3))
    by_hand = sum(np.sum((theta[i] - theta[j]) ** 2) for i, j in KARATE.edges())
    assert convergence.potential(Distributed(Fading(0.5, 1, 0.9), KARATE), theta) == pytest.approx(by_hand)


def test_potential_with_a_server_is_that_of_the_complete_graph():
    theta = np.random.default_rng(2).normal(size=(9, 2))
    parameters = Fading(0.5, 1, 0.9)
    server = convergence.potential(ClientServer(parameters, agents=9), theta)
    assert server == pytest.approx(convergence.potential(Distributed(parameters, complete(9)), theta))


@pytest.mark.parametrize("mechanism", [ClientServer(OneShot(0.5, 1), 4), Distributed(OneShot(0.5, 1), PATH)])
def test_potential_is_accurate_where_agents_nearly_agree(mechanism):
    theta = 2.0**20 + np.array([0, 1, 0, 1]) * 2.0**-20
    pairs = 4 if isinstance(mechanism, ClientServer) else 3
    assert convergence.potential(mechanism, theta) == pairs * 2.0**-40
    with pytest.raises(StateError):
        convergence.potential(mechanism, [1.0, 2.0])


def test_contraction_is_for_agents_that_all_move_alike():
    assert convergence.contraction(ClientServer(Fading(0.8, 1, 0.9), 7)) == (1 - 0.8) ** 2
    assert convergence.contraction(ClientServer(OneShot(np.full(3, 0.25), 1), 3)) == 0.5625
    assert convergence.contraction(Distributed(Fading(0.75, 1, 0.9), complete(5))) == 0.0625
    for other in (ClientServer(Fading([0.5, 0.6], 1, 0.9), 2), Distributed(Fading(0.5, 1, 0.9), PATH)):
        with pytest.raises(ParameterError, match="use the rate"):
            convergence.contraction(other)


# ---- rates


@pytest.mark.parametrize("step", [16, pytest.param(1, marks=pytest.mark.long)])
def test_every_connected_graph_converges_for_every_mixing(step):
    """All 995 graphs of up to 7 agents.

    The rate is the dense one, below 1, and disagreement vanishes.
    """
    rng = np.random.default_rng(5)
    graphs = atlas()
    assert len(graphs) == 995
    for k, graph in enumerate(graphs[::step]):
        sigma = rng.uniform(0.01, 0.99, graph.n)
        mechanism = Distributed((Fading(sigma, 1.0, 0.7), OneShot(sigma, 1.0))[k % 2], graph)
        P = matrix(mechanism)
        rate = convergence.spectral_rate(mechanism)
        assert second_largest(P) - 1e-13 <= rate <= second_largest(P) + 1e-11
        assert rate < 1
        # the certain part contracts in every single round, in the norm weighted by γ
        gamma = 1 / convergence.step_sizes(mechanism)
        theta = rng.normal(size=graph.n)
        e = theta - gamma @ theta / gamma.sum()
        assert gamma @ (P @ e) ** 2 <= rate**2 * (gamma @ e**2) * (1 + 1e-12)
        # Definition 3: mean-square disagreement vanishes
        settled = convergence.rounds_to_agreement(mechanism, 1e-6, float(np.ptp(theta)))
        assert moments.mean_square_disagreement(mechanism, theta, settled) < 1e-12


@pytest.mark.parametrize("sigma", [0.3, 0.9, "random"])
@pytest.mark.parametrize("name", ["karate", "barabasi:210:2:seed=3", "torus:5x41", "hypercube:8"])
def test_spectral_rate_on_larger_graphs(name, sigma):
    """All but the first have more than 200 agents.

    Their spectrum is computed on sparse rows.
    """
    graph = Graph.from_name(name)
    if sigma == "random":
        sigma = np.random.default_rng(4).uniform(0.05, 0.95, graph.n)
    mechanism = Distributed(Fading(sigma, 1, 0.5), graph)
    exact = second_largest(matrix(mechanism))
    assert exact - 1e-12 <= convergence.spectral_rate(mechanism) <= exact + 1e-7
    assert convergence.rate(mechanism) == max(0.5, convergence.spectral_rate(mechanism))


def test_the_high_end_decides_on_a_dense_bipartite_graph():
    """K_{60,60}, σ = .99: μ_N = 2·60·.99/61 is nearer to 2 than μ_2 to 0."""
    i, j = np.divmod(np.arange(3600), 60)
    mechanism = Distributed(Fading(0.99, 1, 0.5), Graph.from_edges(np.column_stack([i, j + 60])))
    assert convergence.spectral_rate(mechanism) == pytest.approx(2 * 60 * 0.99 / 61 - 1, rel=1e-12)


def test_the_gap_of_a_large_ring_and_grid_in_closed_form():
    """D^½LD^½ is a multiple of L.

    This holds with one mixing on a ring, and with σ_i ∝ |N(i)|+1 on a grid.
    """
    ring = Distributed(Fading(0.4, 1, 0.5), Graph.from_name("ring:20000"))
    exact = 0.4 / 3 * 4 * np.sin(np.pi / 20000) ** 2
    assert exact * (1 - 1e-9) <= convergence.spectral_gap(ring) <= exact
    assert convergence.gap(ring) == convergence.spectral_gap(ring)
    grid = Graph.from_name("grid:100x150")
    sigma = averaging_mixing(grid, 0.8)
    exact = 0.8 / 5 * 4 * np.sin(np.pi / 300) ** 2
    found = convergence.spectral_gap(Distributed(Fading(sigma, 1, 0.5), grid))
    assert exact * (1 - 1e-9) <= found <= exact * (1 + 1e-14)
    assert 0 <= 1 - convergence.spectral_rate(ring) <= convergence.spectral_gap(ring)


def test_one_graph_is_analysed_once_for_every_mixing(monkeypatch):
    graph = Graph.from_name("barabasi:300:2:seed=9")
    first = convergence.spectral_gap(Distributed(Fading(0.4, 1, 0.5), graph))
    flat = convergence.spectral_gap(Distributed(Fading(averaging_mixing(graph, 0.4), 1, 0.5), graph))
    monkeypatch.setattr("tacit.core.theory.spectrum.extremes", None)
    assert convergence.spectral_gap(Distributed(OneShot(0.8, 2), graph)) == pytest.approx(2 * first)
    again = Distributed(Fading(averaging_mixing(graph, 0.8), 1, 0.5), graph)
    assert convergence.spectral_gap(again) == pytest.approx(2 * flat)


@given(st.integers(2, 7), st.integers(0, 2**32))
def test_a_server_is_the_complete_graph(n, seed):
    rng = np.random.default_rng(seed)
    sigma = rng.uniform(0.01, 0.99, n)
    server = ClientServer(Fading(sigma, 1, 0.5), agents=n)
    exact = second_largest(matrix(server))
    assert exact - 1e-13 <= convergence.spectral_rate(server) <= exact + 1e-13
    assert convergence.spectral_rate(Distributed(Fading(sigma, 1, 0.5), complete(n))) == pytest.approx(
        convergence.spectral_rate(server), rel=1e-14
    )


def test_a_server_of_a_million_needs_no_graph():
    sigma = np.linspace(0.2, 0.8, 10**6)
    mechanism = ClientServer(Fading(sigma, 1, 0.5), agents=10**6)
    assert 0.8 - 1e-6 <= convergence.rate(mechanism) <= 0.8


@pytest.mark.parametrize("make", [lambda p: ClientServer(p, 5), lambda p: Distributed(p, complete(5))])
def test_noise_that_moves_all_alike_costs_no_time(make):
    """Exactly 1 − σ, although the noise decays more slowly."""
    for sigma in (0.8, 0.3, np.full(5, 0.7)):
        assert convergence.rate(make(Fading(sigma, 1, 0.99))) == 1 - np.min(sigma)
        assert convergence.rate(make(OneShot(sigma, 1))) == 1 - np.min(sigma)
        assert convergence.moves_as_one(make(Fading(sigma, 1, 0.99)))


def measured_rate(mechanism, rounds):
    """Return the factor of disagreement over the last rounds.

    It is that of the root mean square, from exact moments, powers of two apart: eigenvalues of either sign
    show in the same way.
    """
    values = np.random.default_rng(0).normal(size=mechanism.n)
    late, later = (moments.mean_square_disagreement(mechanism, values, t) for t in (rounds, rounds + 20))
    return (later / late) ** (1 / 40)


@pytest.mark.parametrize(
    "mechanism",
    [
        Distributed(Fading(0.5, 1, 0.9), STAR),
        Distributed(Fading(0.5, 1, 0.1), STAR),
        ClientServer(Fading([0.3, 0.6, 0.9], 1, 0.8), 3),
        ClientServer(Fading([0.3, 0.6, 0.9], 1, 0.1), 3),
        Distributed(Fading(0.5, 1, [0.9, 0.1, 0.2, 0.3]), PATH),
        # the hub's noise reaches all alike, so its slow decay does not matter
        Distributed(Fading([0.9, 0.3, 0.3, 0.3, 0.3, 0.3], 1, [0.99, 0.5, 0.4, 0.3, 0.2, 0.1]), STAR),
        # one-shot: own states forget their start at 1 − σ_min, slower here than the shadows agree
        Distributed(OneShot([0.1, 0.9], 1), Graph.from_edges([(0, 1)])),
        ClientServer(OneShot([0.1, 0.6, 0.9], 1), 3),
        Distributed(OneShot(0.5, 1), PATH),
    ],
)
def test_the_rate_is_what_exact_moments_show(mechanism):
    assert measured_rate(mechanism, 200) == pytest.approx(convergence.rate(mechanism), rel=1e-4)
    assert convergence.gap(mechanism) == pytest.approx(1 - convergence.rate(mechanism), rel=1e-12)


def test_one_shot_shadows_agree_faster_than_states():
    mechanism = Distributed(OneShot([0.1, 0.9], 1), Graph.from_edges([(0, 1)]))
    assert convergence.spectral_rate(mechanism) == pytest.approx(0.5, abs=1e-14)
    assert convergence.rate(mechanism) == pytest.approx(0.9, abs=1e-14)


@pytest.mark.parametrize("parameters", [Fading(0.5, 1, 0.9), OneShot(0.5, 1)])
def test_one_agent_agrees_with_itself(parameters):
    for one in (ClientServer(parameters, 1), Distributed(parameters, Graph.from_edges([], n=1))):
        assert convergence.rate(one) == convergence.spectral_rate(one) == 0
        assert convergence.gap(one) == 1
        assert convergence.potential(one, [3.0]) == 0
        assert convergence.rounds_to_agreement(one, 1e-9, 1.0) == 0
        assert convergence.disagreement(one, 0, 1.0) == 0
        assert convergence.assumption(one).contraction is None
        with pytest.raises(ParameterError, match="at least 2 agents"):
            convergence.spectrum(one)


# ---- Assumption 1


def test_assumption_reports_the_laplacian_and_the_steps():
    found = convergence.assumption(Distributed(Fading(np.linspace(0.2, 0.7, 6), 1, 0.9), STAR))
    assert found.lambda_2 == pytest.approx(1, rel=1e-12)
    assert found.lambda_N == pytest.approx(6, rel=1e-12)
    assert found.m == pytest.approx(0.2 / 6)
    assert found.M == pytest.approx(0.35)
    server = convergence.assumption(ClientServer(Fading(0.5, 1, 0.9), 10))
    assert (server.lambda_2, server.lambda_N, server.m, server.M) == (10, 10, 0.05, 0.05)
    # min(λ_2(2m − λ_N M²), 1) = 10·(.1 − .025): for a server it is the exact 1 − (1−σ)²
    assert server.contraction == pytest.approx(0.75)


def test_assumption_rounds_to_the_safe_side():
    graph = Graph.from_name("regular:250:6:seed=1")
    found = convergence.assumption(Distributed(Fading(0.5, 1, 0.9), graph))
    values = np.linalg.eigvalsh(graph.laplacian().toarray())
    assert values[1] * (1 - 1e-6) <= found.lambda_2 <= values[1] + 1e-13
    assert values[-1] - 1e-13 <= found.lambda_N <= values[-1] * (1 + 1e-6)
