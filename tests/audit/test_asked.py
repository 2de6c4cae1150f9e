"""Questions on trial: the true ones pass, every planted bug is caught. Seeds are fixed."""

import pytest
from click.testing import CliRunner

from tacit import (
    ClientServer,
    Count,
    GroupBy,
    Histogram,
    Mean,
    OneShot,
    Own,
    Plan,
    Quantile,
    Several,
    Sum,
    Variance,
    WeightedMean,
    examine,
)
from tacit.base.errors import ParameterError
from tacit.cli import audit, main
from tacit.core.question.base import Encoded
from tacit.lab.audit.asked import QUESTION_BUGS, Understated, examine_question, probes

CAUGHT_BY = {
    "small-diameter": {"diameter", "optimal distinguisher"},
    "encode-others": {"messages of others"},
    "moving-edges": {"shadow follows"},
    "counted-twice": {"messages of others"},
}
TRUE = [
    Mean(0, 10),
    Sum(-1, 3),
    Count(),
    Histogram([0, 1, 2, 5]),
    Histogram(["a", "b"]),
    Quantile([0, 1, 2]),
    Variance(0, 10),
    WeightedMean(0, 10),
    GroupBy(["a", "b"], Variance(0, 1)),
    Several([Count(), Mean(0, 10)]),
]


def judged(question, bug=None, loss=4.0, transcripts=1000, **how):
    mechanism = ClientServer(OneShot(0.5, question.adjacency / loss), agents=50, **how)
    return examine_question(mechanism, question, bug=bug, transcripts=transcripts, seed=3, seedable=True)


@pytest.mark.parametrize("question", TRUE, ids=lambda question: question.kind)
def test_true_questions_are_not_rejected(question):
    report = judged(question, keepers=2)
    assert report.passed, report.alarms
    assert report.measured <= report.promised <= 4.01


def test_an_audit_of_a_question_proves_most_of_the_promised_loss():
    assert judged(Count()).measured > 2


@pytest.mark.parametrize("bug", QUESTION_BUGS)
@pytest.mark.parametrize("question", [Histogram([0, 1, 2, 5]), Count()], ids=["histogram", "count"])
def test_every_planted_bug_is_caught_by_its_test(bug, question):
    # A loss that is twice as high can be proved only if it is small.
    how = {"loss": 1.0, "transcripts": 2500} if bug == "small-diameter" else {}
    report = judged(question, bug, **how)
    assert not report.passed
    assert CAUGHT_BY[bug] <= {finding.test for finding in report.alarms}
    assert report.subject == bug


@pytest.mark.parametrize("question", TRUE, ids=lambda question: question.kind)
def test_the_records_that_are_tried_reach_the_diameter(question):
    """So a diameter that is too small by anything is caught."""
    vectors = [question.encode(record).vector for record in probes(question)]
    distances = (sum(abs(a - b) for a, b in zip(x, y, strict=True)) for x in vectors for y in vectors)
    assert max(distances) == pytest.approx(
        float(question.diameter), rel=1e-3 if question.kind == "group by" else 0
    )
    assert Understated(question).diameter < question.diameter


def test_an_encoder_that_remembers_other_records_is_caught():
    seen = []

    def vector(record):
        seen.append(record)
        return [record / max(seen)]

    mechanism = ClientServer(OneShot(0.5, 1.0), agents=3)
    question = Own(vector, [0.5], 0.5)
    report = examine(mechanism, question=question, records=[1.0, 2.0, 8.0], transcripts=300)
    assert "record alone" in {finding.test for finding in report.alarms}
    with pytest.raises(ParameterError, match="records to try"):
        examine(mechanism, question=question)


def test_an_understated_own_bound_is_caught(monkeypatch):
    """A question whose encoder no longer clamps."""
    monkeypatch.setattr(Count, "encode", lambda _self, record: Encoded((3 * int(record),), False))
    assert "diameter" in {finding.test for finding in judged(Count()).alarms}


def test_what_an_audit_of_a_question_refuses():
    mechanism = ClientServer(OneShot(0.5, 1.0), agents=3)
    for wrong in ({"distance": 1}, {"agent": 0}, {"adjacency": 2}):
        with pytest.raises(ParameterError, match="leave agent"):
            examine(mechanism, question="count", **wrong)
    with pytest.raises(ParameterError, match="must be one of"):
        examine_question(mechanism, Count(), bug="redraw")
    graph = Plan(graph="ring:4", question="count", mixing=0.5, noise=1, decay=0.8).mechanism()
    with pytest.raises(ParameterError, match="server"):
        examine_question(graph, Count(), bug="moving-edges")
    assert examine(graph, question="count", rounds=3, transcripts=300).passed


def test_the_command_line_audits_questions():
    run = CliRunner().invoke
    assert set(audit.QUESTION_BUGS) == set(QUESTION_BUGS)
    caught = run(main, ["audit", "--broken", "counted-twice", "--sessions", "1000"])
    assert caught.exit_code == 1
    assert "messages of others" in caught.output
    text = "audit --agents 9 --mixing 0.5 --noise 1 --ask count --sessions 400 --simulated"
    assert run(main, text.split()).exit_code == 0
    for more in ("--distance 1", "--broken redraw", "--agent 1", "--law fading --decay 0.8"):
        refused = run(main, f"{text} {more}".split())
        assert refused.exit_code == 2, refused.output
    assert run(main, ["audit", "--agents", "9", "--broken", "moving-edges"]).exit_code == 2
