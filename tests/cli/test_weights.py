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
