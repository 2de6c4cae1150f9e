"""What the harness measures is what the closed forms say, for every method, on the same target.

Seeds are fixed; tolerances are five standard deviations of the estimate.
"""

import math

import networkx as nx
import numpy as np
import pytest

from tacit import Graph
from tacit.base.errors import GraphError, ParameterError, StateError
from tacit.lab.comparison import METHODS, Case, compare, harness
from tacit.lab.comparison.comparison import with_error
from tacit.lab.comparison.harness import _CELLS, _Measured, load

RUNS = 4000
GRAPH = Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (1, 3), (3, 5)])  # degrees 1 to 4
VALUES = np.array([3.0, -1.0, 0.5, 2.0, 4.0, 1.5])
ASKED = {"epsilon": 0.8, "rounds": 25, "mixing": 0.7, "runs": RUNS, "seed": 11, "adjacency": 2.0}


@pytest.fixture(scope="module")
def found():
    return compare(GRAPH, VALUES, **ASKED)


@pytest.mark.parametrize("name", METHODS)
def test_the_error_is_its_closed_form(found, name):
    row = found.row(name)
    # a sum of Laplace variables has kurtosis at most 6
    assert row.error**2 == pytest.approx(row.error_closed_form**2, rel=5 * math.sqrt(5 / RUNS), abs=1e-25)


@pytest.mark.parametrize("name", [name for name in METHODS if name != "plain"])
def test_the_radius_is_missed_as_often_as_it_says(name):
    method = load(name).tuned(Case(GRAPH, 0.8, rounds=25, mixing=0.7))
    rng, states = np.random.default_rng(2), np.repeat(VALUES[:, None], RUNS, axis=1)
    for said in method.run(states, rng):
        states = said.theta
    missed = np.mean(np.abs(states.mean(axis=0) - VALUES.mean()) > method.error(0.1).radius)
    assert missed == pytest.approx(0.1, abs=5 * math.sqrt(0.09 / RUNS))


@pytest.mark.parametrize("name", METHODS)
def test_every_method_aims_at_the_true_average(found, name):
    row = found.row(name)
    assert abs(row.bias) <= 5 * row.bias_standard_error + 1e-12
    assert row.bias_standard_error**2 * RUNS + row.bias**2 == pytest.approx(row.error**2, rel=1e-9, abs=1e-25)


@pytest.mark.parametrize("name", METHODS)
def test_what_is_public_leads_to_the_state(name):
    """The attacks take y for public: a state must follow from it and the last one, whatever was drawn."""
    method = load(name).tuned(Case(GRAPH, 0.8, rounds=6, mixing=0.7))
    keeps = {"server": 0.3, "constant": None, "graph": None, "laplacian": 0.3, "server-one-shot": 0.3}
    keeps["keepers"] = 0.3
    sigma = method.settings.get("sigma")
    rng, states = np.random.default_rng(2), np.repeat(VALUES[:, None], 3, axis=1)
    for said in method.run(states, rng):
        kept = keeps.get(name, 0.0)
        if kept is None:
            kept = 1 - sigma * ((GRAPH.degrees + 1) / (GRAPH.degrees.max() + 1))[:, None]
        np.testing.assert_allclose(said.theta, kept * states + said.y, atol=1e-9)
        states = said.theta


def test_an_eavesdropper_is_off_by_the_noise_or_by_nothing(found):
    off = {row.name: row.attack_error for row in found.rows}
    close = {"rel": 5 * math.sqrt(5 / RUNS) / 2}
    assert off["plain"] == 0
    assert off["one-shot"] == pytest.approx(math.sqrt(2) / 0.8, **close)
    assert off["server-one-shot"] == pytest.approx(math.sqrt(2) / 0.8, **close)
    assert off["gossip"] == pytest.approx(found.row("gossip").settings["s"], **close)
    zero_sum = load("zero-sum").tuned(found.case)
    sharpness = sum(zero_sum.phi ** (-2 * t) for t in range(zero_sum.rounds))
    assert off["zero-sum"] == pytest.approx(zero_sum.s / math.sqrt(sharpness), **close)
    assert off["zero-sum"] < 0.02 * off["one-shot"]
    for name in ("server", "graph", "constant", "laplacian", "keepers"):
        assert off[name] > 1 / 0.8  # no likelihood attack beats privacy


@pytest.mark.parametrize("name", ["server", "graph", "constant", "laplacian"])
def test_the_attack_hears_through_one_loud_message(name):
    method = load(name).tuned(Case(GRAPH, 0.8, rounds=12, mixing=0.2))

    class FirstOnly:
        left = 2

        def standard_exponential(self, shape):
            self.left -= 1
            return np.full(shape, 30.0 if self.left == 1 else 0.0)

    rounds = list(method.run(VALUES[:, None].copy(), FirstOnly()))
    for agent in (3, 5):
        x = np.array([said.x[agent] for said in rounds])
        y = np.array([said.y[agent if len(said.y) > 1 else 0] for said in rounds])
        # all later messages agree, and together they outweigh the first
        assert method.attack(agent, x, y) == pytest.approx(VALUES[agent], abs=1e-6)


def test_the_edge_weight_is_the_best(found):
    laplacian = GRAPH.laplacian().toarray()

    def rate(h):
        return np.sort(np.abs(np.linalg.eigvalsh(np.eye(6) - h * laplacian)))[-2]

    h = found.case.edge_weight
    assert found.case.rate == pytest.approx(rate(h))
    assert rate(h) < min(rate(0.95 * h), rate(1.05 * h))


def test_only_what_is_differentially_private_has_an_epsilon(found):
    kinds = {row.name: row.guarantee.kind for row in found.rows}
    assert {name for name, kind in kinds.items() if kind == "none"} == {"plain", "zero-sum"}
    for row in found.rows:
        if row.guarantee.kind == "none":
            assert row.guarantee.epsilon is None
            assert row.privacy == "not differentially private"
        else:
            assert row.guarantee.epsilon == pytest.approx(0.8, rel=1e-6)
    assert "at worst" in found.row("gossip").privacy
    assert "1 edge apart" in found.notes()[-2]
    assert found.row("keepers").guarantee.kind == "one honest keeper"
    assert "If all keepers collude" in found.notes()[-1]


def test_one_shot_noise_is_the_most_accurate_of_the_pure_and_the_note_says_by_how_much(found):
    pure = {row.name: row.error_closed_form for row in found.rows if row.guarantee.kind == "pure"}
    least = min(pure.values())
    assert pure["one-shot"] == pytest.approx(least)
    assert pure["server-one-shot"] == pytest.approx(least)
    assert max(pure, key=pure.get) == "constant"
    # the paper's server and the Laplacian family pay the same for the same mixing
    assert pure["server"] == pytest.approx(pure["laplacian"])
    # two keepers draw for six agents: the variance is that of the server's noise over three
    assert found.row("keepers").error_closed_form == pytest.approx(pure["server"] / math.sqrt(3))
    note = found.notes()[0]
    assert f"{pure['graph'] / pure['one-shot']:.3g} times as accurate" in note
    assert note.endswith("degrees that differ.")


def test_messages_count_until_agents_agree(found):
    for row in found.rows:
        each = {"server": 12, "server-one-shot": 12, "keepers": 16}.get(row.name, 14)
        rounds = row.rounds if row.agreed_after is None else max(row.agreed_after, 1)
        assert row.messages == each * rounds
        assert row.bytes == 8 * row.messages


def test_constant_noise_never_settles_and_the_rest_do():
    row = compare(Graph.from_name("complete:8"), range(8), epsilon=1.0, runs=50).row
    assert row("constant").agreed_after == 2  # everyone hears everyone: noise moves all alike
    graph = Graph.from_name("regular:20:4:seed=1")
    row = compare(graph, range(20), epsilon=1.0, runs=50, tolerance=0.1).row
    assert row("constant").agreed_after is None
    for name in METHODS:
        if name != "constant":
            assert row(name).agreed_after is not None
            assert row(name).disagreement <= 0.1


def test_agreement_must_last_and_hold_in_most_runs():
    kept = _Measured(rounds=3, runs=20)
    kept.apart[:] = np.array([9.0, 1.0, 1.0, 1.0])[:, None]
    assert kept.agreed_after(2.0) == 1
    kept.apart[2, 0] = 5.0  # one run in twenty may be late
    assert kept.agreed_after(2.0) == 1
    kept.apart[2, 1] = 5.0
    assert kept.agreed_after(2.0) == 3
    kept.apart[3, :2] = 5.0
    assert kept.agreed_after(2.0) is None
    kept.apart[:] = 1.0
    assert kept.agreed_after(2.0) == 0


def test_the_same_seed_gives_the_same_numbers_and_methods_do_not_disturb_each_other(found):
    again = compare(GRAPH, VALUES, **ASKED, methods=["zero-sum", "graph"])
    assert [row.name for row in again.rows] == ["graph", "zero-sum"]
    assert again.row("graph") == found.row("graph")
    other = compare(GRAPH, VALUES, **{**ASKED, "seed": 12}, methods=["graph"])
    assert other.row("graph").error != found.row("graph").error
    # two methods with the same noise would end the same if they drew the same
    assert found.row("one-shot").error != pytest.approx(found.row("server-one-shot").error, rel=1e-4)


@pytest.mark.parametrize(
    "extreme", [{"rounds": 3000}, {"mixing": 1e-9}, {"mixing": 1 - 1e-12}, {"delta": 1e-300}]
)
def test_extremes_have_answers(extreme):
    found = compare(Graph.from_name("ring:6"), range(6), **({"epsilon": 1.0, "runs": 3} | extreme))
    for row in found.rows:
        assert np.isfinite([row.error, row.radius, row.attack_error, row.agent_error]).all()
        assert row.guarantee.epsilon is None or row.guarantee.epsilon == pytest.approx(1, rel=1e-6)


def test_batches_have_noise_of_their_own(monkeypatch):
    monkeypatch.setattr(harness, "_CELLS", 3 * GRAPH.n)
    case = Case(GRAPH, 1.0, rounds=2)
    job = harness._Job(case, np.asarray(VALUES)[:, None], 10, 1, 0, 0.05, lambda _step: None)
    assert len(np.unique(job.measure(load("one-shot").tuned(case), 0).average)) == 10


def test_progress_counts_the_rounds_of_all_batches():
    n, graph = 64, Graph.from_name("ring:64")
    runs = _CELLS // n + 3
    told = []
    found = compare(
        graph, np.zeros(n), epsilon=1.0, rounds=2, runs=runs, methods=["one-shot"],
        progress=lambda done, total: told.append((done, total)),
    )  # fmt: skip
    assert told[-1] == (2 * runs, 2 * runs)
    assert told == sorted(told)
    assert found.row("one-shot").error == pytest.approx(math.sqrt(2 / n), rel=0.1)


def test_what_programs_read(found):
    answer = found.as_dict()
    assert answer["epsilon"] == 0.8
    assert answer["loss"] == pytest.approx(1.6)
    assert answer["target"] == "average"
    assert [row["name"] for row in answer["rows"]] == list(METHODS)
    for row in answer["rows"]:
        assert set(row) == {
            "name", "title", "source", "needs", "guarantee", "settings", "rounds", "error", "error_quantile",
            "error_standard_error", "agent_standard_error", "attack_standard_error", "bias_standard_error",
            "error_closed_form", "radius", "bias", "agent_error", "agreed_after",
            "disagreement", "messages", "bytes", "attack_error", "privacy", "least_error",
            "times_least_deviation", "answers",
        }  # fmt: skip
        assert set(row["guarantee"]) == {"kind", "against", "epsilon", "delta", "worst", "by_distance"}
    assert answer["keepers"] == 2
    gossip = answer["rows"][-2]["guarantee"]
    assert gossip["delta"] == 1e-6
    assert gossip["by_distance"][0]["distance"] == 1


def test_no_private_method_beats_the_least_error(found):
    for row in found.rows:
        if row.guarantee.kind in ("pure", "one honest keeper"):
            assert row.times_least_deviation >= 2**0.5 * (1 - 1e-9)  # Laplace noise is at best √2 times it
        else:
            assert row.least_error is row.times_least_deviation is None
    case = found.case
    for name in ("one-shot", "server-one-shot"):
        assert found.row(name).times_least_deviation == pytest.approx(2**0.5)
    assert found.row("one-shot").least_error == pytest.approx(1 / (case.epsilon * case.graph.n**0.5))


def test_notebooks_see_a_table_and_nobody_sees_values(found):
    page = found._repr_html_()
    assert page.count("<tr>") == 2 * (1 + len(METHODS))  # what is promised, and what was measured
    assert "not differentially private" in page
    assert not hasattr(found, "values")
    assert "theta" not in repr(found)


def test_the_attacked_agent_is_named_by_its_label():
    rooms = Graph.from_networkx(nx.Graph([("attic", "cellar"), ("cellar", "hall"), ("hall", "attic")]))
    made = compare(rooms, [1.0, 2.0, 3.0], epsilon=1.0, runs=2, methods=["plain", "one-shot"], agent=2)
    assert made.label == str(rooms.labels[2])
    assert f"value of agent {made.label}," in made.grids()[1].notes[0]
    assert f"value of agent {made.label}," in made._repr_html_()
    assert (made.as_dict()["attacked_agent"], made.as_dict()["attacked_label"]) == (2, made.label)
    table = made.to_dataframe()
    assert list(table.agent) == [2, 2]
    assert list(table.label) == [made.label] * 2


def test_an_agent_without_a_label_is_named_by_its_number(found):
    assert found.label is None
    assert f"value of agent {found.agent}," in found.grids()[1].notes[0]
    assert found.as_dict()["attacked_label"] is None
    assert "label" not in found.to_dataframe()


def test_a_method_that_was_not_run_is_named(found):
    with pytest.raises(ParameterError, match="secret-splitting"):
        found.row("secret-splitting")


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"epsilon": 0.0}, ParameterError, "epsilon must be a positive number"),
        ({"epsilon": math.nan}, ParameterError, "epsilon"),
        ({"mixing": 1.0}, ParameterError, r"mixing must be in \(0, 1\)"),
        ({"delta": 0.0}, ParameterError, r"delta must be in \(0, 1\)"),
        ({"adjacency": -1.0}, ParameterError, "adjacency"),
        ({"tolerance": 0.0}, ParameterError, "tolerance"),
        ({"rounds": 0}, ParameterError, "rounds"),
        ({"runs": 0}, ParameterError, "runs"),
        ({"seed": -1}, ParameterError, "seed"),
        ({"agent": 6}, ParameterError, "agent must be a number from 0 to 5"),
        ({"failure_probability": 0.0}, ParameterError, "failure probability"),
        ({"methods": ["graph", "magic"]}, ParameterError, "got 'magic'"),
        ({"methods": []}, ParameterError, "got none"),
        ({"values": [1.0, 2.0]}, StateError, "one row per agent"),
        ({"values": np.ones((6, 2))}, StateError, "one number per agent"),
        ({"values": [1, 2, 3, 4, 5, math.nan]}, StateError, "finite"),
        ({"graph": Graph.from_edges([(0, 1), (2, 3)])}, GraphError, "connected"),
        ({"graph": Graph.from_edges([], n=1), "values": [1.0]}, ParameterError, "at least 2 agents"),
    ],
)  # fmt: skip
def test_mistakes_are_explained(change, error, words):
    given = {"graph": GRAPH, "values": VALUES, "epsilon": 1.0, "runs": 2, **change}
    with pytest.raises(error, match=words) as caught:
        compare(given.pop("graph"), given.pop("values"), **given)
    assert str(caught.value).count(". ") <= 1


def test_standard_errors_say_how_far_repetitions_are_apart():
    """Over 40 seeds the measured errors scatter as their standard errors say."""
    again = [
        compare(GRAPH, VALUES, epsilon=0.8, rounds=10, runs=200, seed=seed, methods=["one-shot", "server"])
        for seed in range(40)
    ]
    for name in ("one-shot", "server"):
        rows = [comparison.row(name) for comparison in again]
        for value, error in (
            ("error", "error_standard_error"),
            ("agent_error", "agent_standard_error"),
            ("attack_error", "attack_standard_error"),
        ):
            scatter = np.std([getattr(row, value) for row in rows])
            said = np.mean([getattr(row, error) for row in rows])
            assert 0.5 < scatter / said < 2  # fixed seeds; the ratio is 1 ± 0.15


@pytest.mark.parametrize(
    ("value", "error", "written"),
    [
        (0.14771, 0.0034, "0.148 ±0.003"),
        (12.3, 1.4, "12.3 ±1"),
        (0.000202, 0.0000049, "0.000202 ±5e-06"),
        (0.0247, 1e-17, "0.0247"),
        (3e-16, 0.0, "0"),
    ],
)
def test_a_measured_value_is_written_with_its_standard_error(value, error, written):
    assert with_error(value, error) == written


def test_one_number_is_rounded_up_the_same_way_wherever_it_stands():
    graph = Graph.from_name("regular:100:4:seed=1")
    found = compare(graph, range(100), epsilon=1, runs=2, methods=["gossip"])
    worst = found.row("gossip").privacy.partition("; ε = ")[2].partition(" ")[0]
    assert f": {worst}," in found.notes()[-1]
