"""`--weights` on the command line: rules by name, a file, and what is refused."""

import pytest

ASKED = ("--mixing", 0.8, "--noise", 2, "--decay", 0.6)


def test_metropolis_reaches_the_true_average_and_edges_are_used(answer, run, tmp_path):
    on = ("analyze", "--graph", "star:5", *ASKED)
    assert answer(*on)["target"] == "weighted"
    found = answer(*on, "--weights", "metropolis")
    assert found["target"] == "average"
    assert "assumption" not in found
    server = answer("analyze", "--agents", 5, *ASKED)
    assert found["variance"] == pytest.approx(server["variance"])
    (tmp_path / "edges.csv").write_text("a,b,2\nb,c,1\n")
    weighted = ("analyze", "--graph", tmp_path / "edges.csv", *ASKED)
    assert answer(*weighted) == answer(*weighted, "--weights", "edges")
    refused = run(*weighted, "--weights", "metropolis", code=2)
    assert "would ignore" in refused.output


def test_a_file_of_weights_is_a_matrix_whose_rest_is_the_own_message(answer, run, tmp_path):
    file = tmp_path / "weights.txt"
    file.write_text("# a directed ring\n0 1 0.5\n1 2 0.5\n2 0 1\n")
    on = ("simulate", "--graph", "ring:3", *ASKED, "--runs", 3, "--weights", file)
    assert answer(*on)["target"] == "weighted"
    for text, says in (
        ("0 1 0.5\n1 0 0.5\n", "must reach every other agent"),
        ("0 1 1.5\n", "must add up to 1"),
        ("0 1\n", "line 1"),
        ("0 7 0.5\n", "line 1"),
    ):
        file.write_text(text)
        assert says in run(*on, code=2).output
    assert "there is no file" in run(*on[:-1], tmp_path / "nothing", code=2).output


def test_a_server_has_no_weights(run):
    assert (
        "weights are for a graph"
        in run("analyze", "--agents", 5, *ASKED, "--weights", "closed", code=2).output
    )
    design = ("design", "--graph", "star:5", "--epsilon", 1, "--true-average", "--weights", "closed")
    assert "not both" in run(*design, code=2).output


def test_every_verb_on_a_graph_takes_weights(answer, run):
    assert answer("graph", "star:9")["target"] == "weighted"
    told = answer("graph", "star:9", "--weights", "metropolis")
    assert (told["target"], told["message_weights"]) == ("average", "metropolis")
    sweep = ("sweep", "--graph", "star:9", "--mixing", 0.8, "--epsilon", 1, "--runs", 5, "--rounds", 4)
    cells = answer(*sweep, "--weights", "closed,metropolis")["cells"]
    assert [cell["weights"] for cell in cells] == ["closed", "metropolis"]
    server = answer("analyze", "--agents", 9, "--mixing", 0.8, "--noise", cells[1]["noise"], "--decay",
                    cells[1]["decay"], "--rounds", 4)  # fmt: skip
    assert cells[1]["variance"] == pytest.approx(server["variance"]) != cells[0]["variance"]
    compare = ("compare", "--graph", "star:9", "--epsilon", 1, "--runs", 5, "--methods", "graph,server")
    plain, true = (
        {row["name"]: row["error_closed_form"] for row in answer(*compare, "--weights", name)["rows"]}
        for name in ("closed", "metropolis")
    )
    assert true["graph"] == pytest.approx(true["server"])
    assert plain["graph"] > 2 * plain["server"]
    figure = ("figure", "trajectories", "--graph", "star:9", "--rounds", 9)
    left = [answer(*figure, "--weights", name)["table"]["spread"][-1] for name in ("closed", "metropolis")]
    assert left[0] < left[1]


def test_weights_that_a_verb_does_not_have_are_refused(run, tmp_path):
    sweep = ("sweep", "--mixing", 0.8, "--epsilon", 1, "--out", tmp_path / "s.jsonl")
    for words, says in (
        ((*sweep, "--graph", "karate", "--weights", "file.txt"), "weights of a sweep must be one of"),
        ((*sweep, "--graph", "karate", "--weights", "closed,edges"), "need a graph with edge weights"),
        ((*sweep, "--agents", 5, "--weights", "closed"), "weights are for graphs"),
        (
            ("figure", "trajectories", "--agents", 5, "--weights", "closed", "--table"),
            "weights are for a graph",
        ),
        (("graph", "karate", "--weights", "heavy"), "there is no file"),
    ):
        assert says in run(*words, code=2).output
    assert not (tmp_path / "s.jsonl").exists()
