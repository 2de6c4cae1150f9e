"""The methods against liars: bits and trimmed means. They run only if they are named.

Statistical tests have fixed seeds and a false-alarm rate of 1e-6.
"""

import math
from itertools import product

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import binom

from tacit import Graph, compare
from tacit.base.errors import ParameterError
from tacit.cli import main
from tacit.cli.compare import NAMED
from tacit.lab.comparison import METHODS, ON_REQUEST, Case
from tacit.lab.comparison.bits import OneBit
from tacit.lab.comparison.paper import OnGraph
from tacit.lab.comparison.trimmed import Trimmed, require_robust, surely_robust
from tacit.lab.plots.compare import draw_compare

ALARM = 1e-6
RANGE = {"epsilon": 0.1, "adjacency": 10.0, "span": (0.0, 10.0)}


def bits(agents, **change):
    return OneBit.tuned(Case(Graph.from_name(f"complete:{agents}"), **{**RANGE, **change}))


def one_round(method, values, runs, seed=1):
    (said,) = method.run(np.repeat(np.asarray(values)[:, None], runs, axis=1), np.random.default_rng(seed))
    return said


def unlikely(count, runs, chance, cells=1):
    """Whether a count is further off than one in a million repetitions of the whole test."""
    tail = min(binom.cdf(count, runs, chance), binom.sf(count - 1, runs, chance))
    return 2 * tail * cells < ALARM


# Bits


@pytest.mark.parametrize("value", [0.0, 3.0, 10.0])
def test_larger_messages_have_the_binomial_law(value):
    n, runs = 12, 20_000
    method = bits(n)
    said = one_round(method, [value] * n, runs)
    half = 5 / math.tanh(0.5)
    assert method.settings["B"] == pytest.approx(half, rel=1e-9)
    np.testing.assert_allclose(np.unique(said.x), [5 - half, 5 + half], rtol=1e-9)
    counts = np.bincount((said.x > 5).sum(axis=0), minlength=n + 1)
    law = binom(n, 0.5 + (value - 5) / (2 * half))
    for k, count in enumerate(counts):
        assert not unlikely(count, runs, law.pmf(k), cells=n + 1)
    np.testing.assert_allclose(said.theta, np.tile(said.x.mean(axis=0), (n, 1)))


@pytest.mark.parametrize("values", [[5.0] * 30, [0.0] * 30, np.linspace(0, 10, 30)])
def test_no_start_is_worse_than_what_is_proved(values):
    runs, b = 20_000, 0.1
    method = bits(30)
    off = one_round(method, values, runs).theta[0] - np.mean(values)
    missed = int((np.abs(off) > method.error(b).radius).sum())
    assert binom.sf(missed - 1, runs, b) > ALARM
    # squares are at most B², so the mean of the squares is off by less than this, by Hoeffding
    slack = float(method.law.c) ** 2 * 4 * math.sqrt(math.log(1 / ALARM) / (2 * runs))
    assert np.mean(off**2) < method.error(b).deviation ** 2 + slack
    exact = (method.law.c**2 - np.mean((np.asarray(values) - 5) ** 2)) / 30
    assert np.mean(off**2) == pytest.approx(exact, abs=slack)


def test_bits_have_the_numbers_of_the_page():
    method = bits(1000)
    assert method.error(0.05).radius == pytest.approx(0.67083, abs=6e-6)
    assert 2 * method.settings["B"] / 1000 == pytest.approx(0.0216395, abs=5e-8)
    assert method.error(0.05).deviation == pytest.approx(0.342151, abs=5e-7)
    # the worst two values cost the loss: at the ends B + h and B − h are the two likelihoods
    ratio = (method.law.c + 5) / (method.law.c - 5)
    assert ratio == pytest.approx(math.e, rel=1e-9)
    assert math.log(ratio) / 10 <= method.guarantee.epsilon <= 0.1
    # the least for one distance is reached at the ends of the range, and worst values are cosh(loss/2) off it
    assert method.error(0.05).deviation / method.least_error(1000) == pytest.approx(math.cosh(0.5), rel=1e-9)


def test_a_liar_moves_bits_by_at_most_two_b_over_n():
    n, runs = 20, 500
    method = bits(n)
    honest = np.linspace(0, 10, n)
    ends = []
    for lie in (-1e3, 1e3):
        honest[3] = lie
        ends.append(one_round(method, honest, runs).theta[0])
    moved = np.abs(ends[1] - ends[0])
    bound = 2 * method.settings["B"] / n
    assert moved.max() <= bound * (1 + 1e-9)  # rounding
    assert moved.max() == pytest.approx(bound)  # and a liar can do that
    found = compare(
        f"complete:{n}", honest.clip(0, 10), epsilon=0.1, question="mean:0:10", runs=5, methods=["bits"]
    )
    assert f"at most {math.ceil(1000 * bound) / 1000:.3f}, because" in found.notes()[-1]


def test_an_eavesdropper_names_the_likelier_end():
    method = bits(20)
    said = one_round(method, [2.0] * 20, 200)
    guess = method.attack(4, said.x[None, 4], said.y)
    assert set(guess) == {0.0, 10.0}
    assert ((guess == 10.0) == (said.x[4] > 5)).all()


# Trimmed means


def slow_feedback(graph, x, liars):
    """The rule in the words of its authors, one agent at a time."""
    found = np.empty_like(x)
    for i in range(graph.n):
        larger = sorted(x[j] for j in graph.neighbours(i) if x[j] > x[i])
        smaller = sorted(x[j] for j in graph.neighbours(i) if x[j] < x[i])
        same = [x[j] for j in graph.neighbours(i) if x[j] == x[i]]
        kept = [x[i], *same, *larger[: max(len(larger) - liars, 0)], *smaller[liars:]]
        found[i] = sum(kept) / len(kept)
    return found


@pytest.mark.parametrize(
    ("name", "liars"), [("complete:7", 1), ("complete:9", 2), ("erdos:24:0.5:seed=3", 1)]
)
def test_feedback_is_the_rule_of_its_authors(name, liars, monkeypatch):
    graph = Graph.from_name(name)
    method = Trimmed.tuned(Case(graph, 1.0, liars=liars))
    x = np.random.default_rng(1).integers(0, 6, (graph.n, 40)) / 2  # with ties
    expected = np.stack([slow_feedback(graph, column, liars) for column in x.T], axis=1)
    np.testing.assert_allclose(method.feedback(x), expected, atol=1e-12)
    monkeypatch.setattr("tacit.lab.comparison.trimmed._CELLS", 1)  # one agent at a time
    np.testing.assert_allclose(method.feedback(x), expected, atol=1e-12)


@pytest.mark.parametrize("lie", [1e6, -1e6])
def test_one_liar_on_a_complete_graph_pulls_nobody_out_of_what_the_others_say(lie, black_box):
    """The liar says the same in every round; with plain means everyone follows it."""
    noise = np.random.default_rng(4).laplace(size=(30, 9))
    case, theta, ends = Case(Graph.from_name("complete:9"), 1.0, rounds=30), np.linspace(0, 1, 9), {}
    for method in (Trimmed.tuned(case), OnGraph.tuned(case)):
        box = black_box(method, theta)
        for eta, scale in zip(noise, method.scales(), strict=True):
            honest = box.states[1:, 0].copy()
            eta[0] = (lie - box.states[0, 0]) / scale[0]
            x, _ = box.say(eta)
            assert x[0] == pytest.approx(lie)
            if method.name == "trimmed":
                assert (box.states[1:] >= min(honest.min(), x[1:].min()) - 1e-12).all()
                assert (box.states[1:] <= max(honest.max(), x[1:].max()) + 1e-12).all()
        ends[method.name] = np.abs(box.states[1:]).max()
    assert ends["trimmed"] < 10
    assert ends["graph"] > 0.9 * abs(lie)


def test_two_liars_are_too_many_for_one():
    method = Trimmed.tuned(Case(Graph.from_name("complete:9"), 1.0, liars=1))
    x = np.zeros((9, 1))
    x[0] = 1e6
    assert method.feedback(x)[1:].max() == 0
    x[1] = 1e6
    assert method.feedback(x)[2:].max() > 1e4


@pytest.mark.parametrize("name", ["complete:6", "erdos:12:0.7:seed=1"])
def test_trimmed_means_say_what_the_noise_allows_and_no_more(name, black_box):
    """Two worlds with the same messages: what the noise must have been, whatever the feedback is."""
    case = Case(Graph.from_name(name), 0.7, rounds=6, mixing=0.6)
    method, rng, shift = Trimmed.tuned(case), np.random.default_rng(5), 1.7
    promised, scales = method.guarantee.epsilon, np.broadcast_to(method.scales().T, (case.graph.n, 6))
    assert promised <= 0.7

    def loss(noise):
        theta = np.linspace(-1, 1, case.graph.n)
        here, there = (
            black_box(method, theta),
            black_box(method, theta + shift * (np.arange(len(theta)) == 2)),
        )
        total = 0.0
        for t, eta in enumerate(noise):
            needed = np.array(eta)
            needed[2] += float(here.states[2, 0] - there.states[2, 0]) / scales[2, t]
            x, _ = here.say(eta)
            same, _ = there.say(needed)
            np.testing.assert_allclose(same, x, atol=1e-9)
            total += abs(needed[2]) - abs(eta[2])
        return total

    for noise in rng.laplace(size=(20, 6, case.graph.n)):
        assert loss(noise) <= promised * shift * (1 + 1e-9)
    keep = float(method.mechanism.motion.of_agent(2).keep)
    own = sum(keep**t / scales[2, t] for t in range(6))
    assert loss(np.full((6, case.graph.n), -50.0)) == pytest.approx(own * shift, rel=1e-9)


def robust(graph, r):
    """Whether of any two disjoint groups one has an agent with r neighbours outside."""
    near = graph.adjacency().toarray() > 0

    def reachable(group):
        return (near[np.ix_(group, ~group)].sum(axis=1) >= r).any()

    for marks in product((0, 1, 2), repeat=graph.n):
        one, other = (np.array(marks) == k for k in (1, 2))
        if one.any() and other.any() and not reachable(one) and not reachable(other):
            return False
    return True


@pytest.mark.parametrize(
    "name",
    [
        "complete:4",
        "complete:5",
        "ring:6",
        "erdos:6:0.8:seed=1",
        "erdos:7:0.9:seed=2",
        "regular:6:4:seed=1",
    ],
)
def test_a_graph_is_called_robust_if_it_is_and_refused_if_it_is_not(name):
    graph = Graph.from_name(name)
    is_robust = robust(graph, 3)
    if surely_robust(graph, 1):
        assert is_robust
    if is_robust:
        require_robust(graph, 1)


def test_the_smallest_graph_that_withstands_a_liar_is_known():
    assert surely_robust(Graph.from_name("complete:5"), 1)
    assert not surely_robust(Graph.from_name("complete:4"), 1)
    assert not surely_robust(Graph.from_name("regular:100:4:seed=1"), 1)


# In the table


def test_both_run_only_if_they_are_named():
    assert tuple(ON_REQUEST) == NAMED
    assert not set(ON_REQUEST) & set(METHODS)
    asked = {"epsilon": 0.1, "question": "mean:0:10", "runs": 40, "rounds": 20, "seed": 2}
    found = compare("complete:6", range(6), methods=["trimmed", "bits", "graph"], **asked)
    assert [row.name for row in found.rows] == ["graph", "bits", "trimmed"]
    assert found.row("graph") == compare("complete:6", range(6), methods=["graph"], **asked).row("graph")
    bits, trimmed = found.row("bits"), found.row("trimmed")
    assert (bits.rounds, bits.agreed_after, bits.messages) == (1, 1, 12)
    assert "liars: at most 2B/N each" in bits.guarantee.against
    assert "1 lying neighbour" in trimmed.guarantee.against
    assert trimmed.privacy == found.row("graph").privacy
    assert trimmed.error_closed_form is trimmed.radius is trimmed.times_least_deviation is None
    assert trimmed.accurate()[2] == trimmed.accurate()[5] == "-"
    assert "not proved" in found.notes()[-1]
    assert "3-robust, as this one is" in found.notes()[-1]
    assert len(draw_compare(found).axes[0].get_yticks()) == 3
    assert "trimmed" in found.to_latex()
    assert [row["radius"] is None for row in found.as_dict()["rows"]] == [False, False, True]


@pytest.mark.parametrize(
    ("graph", "change", "words"),
    [
        ("ring:8", {"methods": ["bits"]}, "bits need the range"),
        ("ring:8", {"methods": ["bits"], "question": "histogram:0,1,20"}, "bits need the range"),
        ("ring:8", {"methods": ["trimmed"]}, "at least 5 agents with at least 3 neighbours each, got 8"),
        ("complete:4", {"methods": ["trimmed"]}, "at least 5 agents"),
        ("complete:8", {"methods": ["trimmed"], "liars": 2}, "withstand 2 lying neighbours"),
        ("complete:8", {"methods": ["trimmed"], "liars": 0}, "liars"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_one_sentence(graph, change, words):
    with pytest.raises(ParameterError, match=words) as caught:
        compare(graph, np.arange(float(Graph.from_name(graph).n)), epsilon=1.0, runs=2, **change)
    assert str(caught.value).count(". ") == 0


def test_a_range_that_is_not_the_adjacency_is_refused():
    with pytest.raises(ParameterError, match="must be its whole domain"):
        bits(5, adjacency=2.0)
    with pytest.raises(ParameterError, match="smaller number first"):
        bits(5, span=(10.0, 0.0))
    with pytest.raises(ParameterError, match="finite"):
        bits(5, span=(0.0, math.inf))


def test_the_command_line_has_both():
    words = "compare --graph complete:6 --epsilon 0.1 --ask mean:0:10 --methods bits,trimmed --runs 9"
    done = CliRunner().invoke(main, words.split())
    assert done.exit_code == 0, done.output
    text = " ".join(done.output.split())
    assert "one liar moves the average by at most" in text
    assert "With at most 1 lying neighbour" in text
    refused = CliRunner().invoke(main, [*words.split(), "--liars", "2"])
    assert refused.exit_code == 2
    assert "fewer liars" in refused.output
