"""Simulated runs of a question: vectors in, an answer of every run out."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy.stats import binom

from tacit import ClientServer, Count, Fading, GroupBy, Histogram, OneShot, Plan, Sum, WeightedMean, simulate
from tacit.base.errors import ParameterError, StateError
from tacit.cli import main
from tacit.lab.simulation.answers_of_runs import Answers

FALSE_ALARM = 1e-6


def test_the_answers_of_runs_cover_the_truth_for_each_part_and_for_all():
    mechanism = ClientServer(OneShot(0.9, 2.0), agents=40, keepers=2)
    records = pd.Series([0.5] * 10 + [1.5] * 30)
    found = simulate(mechanism, records, 6, question=Histogram([0, 1, 2, 3]), runs=1000, seed=1)
    assert found.part.values.tolist() == ["0 to 1", "1 to 2", "2 to 3"]
    assert found.truth.values == pytest.approx([10, 30, 0])
    assert dict(found.theta.sizes) == {"run": 1000, "round": 1, "agent": 40, "component": 3}
    assert (found.low_all <= found.low).all()
    assert (found.high_all >= found.high).all()
    told = Answers.of(found, Histogram([0, 1, 2, 3]))
    most = binom.isf(FALSE_ALARM, 1000, 0.05) / 1000
    assert (told.outside <= most).all()
    assert 0 < told.outside_any <= most
    assert told.error[:2] == pytest.approx([4, 4], rel=0.3)  # the deviation of two draws of scale 2


def test_a_run_without_an_answer_is_not_counted_as_one():
    mechanism = ClientServer(OneShot(0.9, 2.0), agents=3)
    found = simulate(mechanism, [(0.1, 5.0)] * 3, 6, question=WeightedMean(0, 10), runs=60, seed=1)
    assert np.isnan(found.estimate.values).mean() > 0.5
    assert Answers.of(found, WeightedMean(0, 10)).outside_any <= 0.3


def test_what_does_not_fit_is_refused():
    fading = ClientServer(Fading(0.8, 10, 0.6), agents=3)
    with pytest.raises(ParameterError, match="drawn once"):
        simulate(fading, [1, 0, 1], 3, question=Count())
    assert simulate(fading, [1, 2, 3], 3, question=Sum(0, 10)).truth.values == pytest.approx([6])
    once = ClientServer(OneShot(0.8, 1.0), agents=3)
    with pytest.raises(StateError, match="one record for each"):
        simulate(once, [1, 0], 3, question=Count())
    with pytest.raises(ParameterError, match="question"):
        simulate(once, [1, 0, 1], 3, question="count")


def test_a_graph_ends_with_the_mean_vector_everywhere():
    mechanism = Plan(graph="ring:6", question="count", mixing=0.9, noise=0.001, law="one-shot").mechanism()
    found = simulate(mechanism, [1, 0, 0, 1, 1, 0], 60, question=Count(), runs=2)
    assert found.theta.isel(round=-1).values == pytest.approx(0.5, abs=0.01)
    assert found.estimate.sel(part="count").values == pytest.approx(3, abs=0.05)


def test_the_command_line_simulates_a_file_of_records(tmp_path):
    file = tmp_path / "records.csv"
    file.write_text("town,load\nnorth,3\nsouth,2.5\nnorth,9\n")
    base = ["simulate", "--mixing", "0.9", "--noise", "0.01", "--runs", "20", "--json"]
    asked = ["--ask", "group-by:north,south:sum:0:10", "--values", str(file)]
    told = CliRunner().invoke(main, [*base, "--agents", "3", *asked])
    assert told.exit_code == 0, told.output
    parts = json.loads(told.output)["answers"]["parts"]
    assert [(part["name"], round(part["truth"], 6)) for part in parts] == [
        ("north: sum", 12.0),
        ("south: sum", 2.5),
    ]
    for agents, question in (("4", asked[1]), ("3", "count"), ("3", "sum:0:10")):
        refused = CliRunner().invoke(main, [*base, "--agents", agents, "--ask", question, *asked[2:]])
        assert refused.exit_code == 2
        assert "2.5" not in refused.output
    assert GroupBy(["north", "south"], Sum(0, 10)).kind in json.dumps(json.loads(told.output)["answers"])


def test_a_range_says_how_far_values_spread_and_a_mean_clamps_them(tmp_path):
    file = tmp_path / "vectors.csv"
    file.write_text("1, 12\n3, 4\n")
    base = [
        "simulate",
        "--agents",
        "2",
        "--mixing",
        "0.9",
        "--noise",
        "0.01",
        "--law",
        "one-shot",
        "--runs",
        "5",
    ]
    told = CliRunner().invoke(main, [*base, "--range", "0:10", "--values", str(file), "--json"])
    assert told.exit_code == 0, told.output
    assert json.loads(told.output)["spread"] == 10
    file.write_text("1\n12\n")
    told = CliRunner().invoke(main, [*base, "--ask", "mean:0:10", "--values", str(file), "--json"])
    assert json.loads(told.output)["answers"]["parts"][0]["truth"] == pytest.approx(5.5)
