"""`tacit graph`: shape, spectrum and target, against networkx and by hand."""

import networkx as nx
import numpy as np
import pytest

from tacit.core.graph.families import FAMILIES


def test_karate_is_as_networkx_has_it(answer):
    found = answer("graph", "karate")
    club = nx.karate_club_graph()
    degrees = [degree for _, degree in club.degree()]
    spectrum = np.linalg.eigvalsh(nx.laplacian_matrix(club, weight=None).toarray().astype(float))
    assert (found["agents"], found["edges"], found["parts"]) == (34, 78, 1)
    assert found["degrees"]["histogram"] == {str(d): degrees.count(d) for d in sorted(set(degrees))}
    assert found["degrees"]["mean"] == pytest.approx(np.mean(degrees))
    assert found["lambda_2"] == pytest.approx(spectrum[1])
    assert found["lambda_n"] == pytest.approx(spectrum[-1])
    assert found["target"] == "weighted"
    share = 34 * (np.array(degrees) + 1) / sum(d + 1 for d in degrees)
    assert (found["weights"]["min"], found["weights"]["max"]) == pytest.approx((share.min(), share.max()))


def test_the_rate_follows_the_mixing(answer):
    # complete graph: disagreement shrinks by exactly 1 - mixing
    assert answer("graph", "complete:6", "--mixing", 0.25)["rate"] == pytest.approx(0.75)
    assert answer("graph", "complete:6")["rate"] == pytest.approx(0.5)


def test_mixing_per_agent_changes_the_target(answer):
    assert answer("graph", "complete:3", "--mixing", "0.3,0.3,0.6")["target"] == "weighted"


def test_parts_of_a_graph_have_no_rate(answer, run, tmp_path):
    (tmp_path / "parts.txt").write_text("0 1\n1 2\n3 4\n")
    found = answer("graph", "parts.txt")
    assert (found["parts"], found["largest_part"]) == (2, 3)
    assert "rate" not in found
    assert "values never agree" in run("graph", "parts.txt").output


def test_help_lists_the_families(run):
    text = run("graph", "--help").output
    for family in FAMILIES.values():
        assert family.form in text


def test_the_histogram_counts_every_agent_once(run):
    text = run("graph", "barabasi:500:2:seed=3").output
    rows = text[text.index("degree  agents") :].splitlines()[1:]
    counts = [int(row.split("█")[0].split()[-1].replace(",", "")) for row in rows if row.strip()]
    assert len(counts) <= 12
    assert sum(counts) == 500


def test_the_target_is_said_plainly(run):
    assert "not the true one" in " ".join(run("graph", "star:5").output.split())
    assert "not the true one" not in run("graph", "ring:5").output


@pytest.mark.parametrize("name", ["nothing", "ring", "ring:2", "ring:x", "missing.txt", "grid:3", ""])
def test_mistakes(run, name):
    assert run("graph", name, code=2).stderr.startswith("Error: ")


def test_a_file_that_is_no_graph(run, tmp_path):
    (tmp_path / "loop.txt").write_text("0 0\n")
    assert run("graph", "loop.txt", code=2).stderr.startswith("Error: ")
