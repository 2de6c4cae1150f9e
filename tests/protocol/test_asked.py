"""What a session asks is in its file and bytes, and decides range, components and adjacency."""

from functools import cache

import msgspec
import pytest
from tests.doubles import known_session

from tacit.base.errors import FileError, ParameterError
from tacit.core.mechanism.lattice import Lattice
from tacit.core.protocol.session import Session
from tacit.core.question import (
    Count,
    GroupBy,
    Histogram,
    Mean,
    Own,
    Quantile,
    Several,
    Sum,
    Variance,
    WeightedMean,
)
from tacit.live.sessions.check import explain
from tacit.live.sessions.file import parse_session, session_text

INF = float("inf")
ONCE = {"law": "one-shot", "rounds": 1}


@cache
def plain():
    return known_session(3, **ONCE)


def asking(question, **other):
    grid = Lattice.fitting(plain().mechanism.law, plain().rounds, *question.box)
    given = {"lattice": grid, "components": question.components, "adjacency": question.adjacency, **ONCE}
    return known_session(3, asked=question, **given | other)


@pytest.mark.parametrize(
    "question",
    [Sum(-0.0, 3), Count(), Histogram([0, 1, 2, 5]), Histogram(["a", "b"]), Quantile([0, 1, 2]),
     Variance(0, 10), WeightedMean(0, 1), Histogram([-INF, 0, INF]), Quantile([0, 1, INF], [0.1, 0.9]),
     GroupBy(["a", "b"], Mean(0, 1)), GroupBy(["a"], Histogram([-0.0, INF])),
     Several([Count(), GroupBy(["a", "b"], WeightedMean(0, 9, 3))], [1, 2.5])],
    ids=repr,
)  # fmt: skip
def test_a_question_is_in_the_file_and_in_the_bytes(question):
    session = asking(question)
    assert session.question == question
    assert session.diameter == session.adjacency == question.adjacency
    assert Session.decode(session.encode()) == session
    assert parse_session(session_text(session), "s").id == session.id
    assert session.id != asking(Mean(*question.box, question.components)).id
    assert "-0.0" not in session_text(session)  # it would hash differently


def test_the_mean_is_not_written():
    assert asking(Mean(0, 1)).asked is None
    assert b"question" not in asking(Mean(0, 1)).canonical
    text = session_text(plain())
    assert parse_session(text + '\n[question]\nkind = "mean"\n', "s") == plain()


def test_what_is_not_the_questions_own_is_refused():
    """A smaller adjacency would be a promise about vectors, not about records."""
    wide = Lattice.fitting(plain().mechanism.law, plain().rounds, 0, 2)
    for other in ({"adjacency": 0.5}, {"components": 2}, {"lattice": wide}):
        with pytest.raises(ParameterError, match="asks for a histogram must have numbers from 0 to 1, 3"):
            asking(Histogram([0, 1, 2, 5]), **other)
    with pytest.raises(ParameterError, match="a double holds exactly"):
        asking(Histogram([0, 2**60 + 1]))
    with pytest.raises(ParameterError, match="the question must be one of mean, sum, count"):
        asking(Own(lambda x: [x], [0], 1))


def test_only_a_mean_fades_or_takes_many_rounds_or_weights_records():
    """A record in a bucket is no speed that must change smoothly."""
    asked = Histogram([0, 1, 2, 5])
    with pytest.raises(ParameterError, match=r"must draw its noise once.*with fading noise"):
        asking(asked, law="fading")
    with pytest.raises(ParameterError, match="must have one round, got 2"):
        asking(asked, rounds=2)
    with pytest.raises(ParameterError, match="must aim at the true average"):
        asking(asked, graph="path:3", rounds=9)
    assert asking(asked, graph="path:3", rounds=9, weights="metropolis").question == asked


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ('kind = "cuont"', r"s, question\.kind: the question must be one of mean, sum, .*'cuont'"),
        ('kind = "count"\nx = 1', r"s, question\.x: is not known here"),
        ('kind = "mean"\nlow = 1', r"s, question\.low: is not known here"),
        ("edges = [0, 1]", r"s, question\.kind: must be given"),
        ('kind = "histogram"', r"s, question\.edges: must be given"),
        ('kind = "histogram"\nedges = [[0]]', r"s, question\.edges\[0\]: must be a finite number or text"),
        ('kind = "histogram"\nedges = [0, nan]', r"^s: .* got NaN"),
        ('kind = "group by"\nlabels = ["a"]', r"s, question\.question: must be given"),
        (
            'kind = "group by"\nlabels = ["a"]\nquestion = { kind = "mean", low = 0 }',
            r"s, question\.question\.high: must be given",
        ),
        (
            'kind = "several"\nweights = [1]\nquestions = [{ kind = "own" }]',
            r"s, question\.questions\[0\]\.kind: the question must be one of",
        ),
        ('kind = "histogram"\nedges = [1, 0]', r"^s: edges of a histogram must be"),
        ('kind = "sum"\nlow = "a"\nhigh = 1', r"s, question\.low: must be a finite number"),
        ('kind = "sum"\nlow = -inf\nhigh = 1', r"s, question\.low: must be a finite number"),
    ],
)
def test_every_mistake_names_its_place(table, told):
    text = session_text(asking(Count())).replace('kind = "count"', table)
    with pytest.raises(FileError, match=told):
        parse_session(text, "s")


def test_bytes_have_one_form():
    session = asking(Sum(0, 3))
    canonical, roster = msgspec.msgpack.decode(session.encode())
    sorted_bytes = msgspec.msgpack.Encoder(order="deterministic").encode
    for low in (0, -0.0):
        told = msgspec.msgpack.decode(canonical)
        told["question"]["low"] = low
        with pytest.raises(FileError, match="one canonical form"):
            Session.decode(sorted_bytes((sorted_bytes(told), roster)))


def test_whoever_checks_a_session_is_told_what_it_asks():
    assert "asks for histogram:0,1,2,5 a record is a number" in " ".join(
        str(explain(asking(Histogram([0, 1, 2, 5])))).split()
    )
    assert "asks for" not in " ".join(str(explain(plain())).split())
