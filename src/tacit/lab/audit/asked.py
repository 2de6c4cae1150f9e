"""Audit a question: what the messages of all agents tell about one record.

The promise of a question is about records: whatever one is changed to, the loss is at most ε times the
diameter. So the auditor looks for the two records whose vectors are furthest apart, and runs sessions with
each. Besides every test of `examine` there are three of its own: no two vectors are further apart than the
question declares, a vector depends on its record alone, and the messages of other agents tell nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations, pairwise, product
from typing import Any, TypeAlias, final

import numpy as np

from tacit.base.arguments import instance
from tacit.base.arrays import FloatArray
from tacit.base.errors import ParameterError
from tacit.base.report import near
from tacit.core.history import History
from tacit.core.mechanism import ClientServer, Mechanism
from tacit.core.question import (
    Answer,
    Count,
    Encoded,
    GroupBy,
    Histogram,
    Mean,
    MeanNoise,
    Quantile,
    Question,
    Several,
    Sum,
    Variance,
    WeightedMean,
)
from tacit.core.question.base import Exact
from tacit.core.theory.planned_answer import require_fitting
from tacit.lab.audit.audit_plan import AuditPlan, default_rounds, group_note, stand_in
from tacit.lab.audit.deployed import Deployed
from tacit.lab.audit.examination import Progress, TranscriptPair, judge_evidence
from tacit.lab.audit.learned import linear_score
from tacit.lab.audit.measure import learned_bound
from tacit.lab.audit.report import AuditFinding, AuditReport
from tacit.lab.audit.subjects import Moment, Say, Simulated, Subject, rounded
from tacit.lab.audit.testers import coin, to_learn_from

Vectors: TypeAlias = Callable[[FloatArray], FloatArray]
"""From the vectors of all agents to those that a broken session starts from."""

_SHARE = 0.1  # of the failure probability, for the messages of the others
_MOST_PROBES = 64
_MOST_COLUMNS = 16  # components that are run; components without a difference tell nothing
_AGENT = 0


@final
@dataclass(frozen=True)
class QuestionBug:
    """One thing that is wrong with a question.

    Attributes
    ----------
    wrong, harm : str
        What is done, and what follows from it.
    declared : function, optional
        Makes the question that is declared.
    vectors : function, optional
        Changes the vectors, knowing all of them.
    say : function, optional
        Makes messages in another way.
    """

    name: str
    wrong: str
    harm: str
    declared: Callable[[Question], Question] | None = None
    vectors: Vectors | None = None
    say: Say | None = None


@final
@dataclass(frozen=True)
class Understated(Question):
    """A question that declares half of its diameter."""

    of: Question

    @property
    def kind(self) -> str:  # type: ignore[override]
        """That of the question."""
        return self.of.kind

    @property
    def moves(self) -> bool:  # type: ignore[override]
        """That of the question."""
        return self.of.moves

    @property
    def components(self) -> int:
        """Those of the question."""
        return self.of.components

    @property
    def box(self) -> tuple[float, float]:
        """That of the question."""
        return self.of.box

    @property
    def diameter(self) -> Fraction:
        """Half of the true one."""
        return self.of.diameter / 2

    @property
    def stand_in(self) -> tuple[Exact, ...]:
        """That of the question."""
        return self.of.stand_in

    def encode(self, record: Any) -> Encoded:
        """Return the vector of the question."""
        return self.of.encode(record)

    def decode(
        self,
        mean: Sequence[float],
        records: int,
        noise: MeanNoise | None = None,
        failure_probability: float = 0.05,
        *,
        together: bool = False,
    ) -> Answer:
        """Return the answer of the question."""
        return self.of.decode(mean, records, noise, failure_probability, together=together)


def _smoothed(vectors: FloatArray) -> FloatArray:
    return (vectors + np.roll(vectors, -1, axis=0)) / 2


def _twice(vectors: FloatArray) -> FloatArray:
    again = vectors.copy()
    again[-1] = vectors[_AGENT]
    return again


def _again(now: Moment) -> FloatArray:
    """After the first feedback, send the vector for other edges."""
    other = now.start[..., ::-1] if now.start.shape[-1] > 1 else 1 - now.start
    moved = np.where(now.pull > 0, other - now.start, 0.0)
    return rounded(replace(now, state=now.state + moved))


QUESTION_BUGS: dict[str, QuestionBug] = {
    bug.name: bug
    for bug in (
        QuestionBug(
            "small-diameter",
            "the question declares half of its diameter",
            "the noise is half of what it must be, and the loss twice as high",
            declared=Understated,
        ),
        QuestionBug(
            "encode-others",
            "vectors are smoothed with the record of the next agent",
            "the messages of others tell about a record, and nobody counts that loss",
            vectors=_smoothed,
        ),
        QuestionBug(
            "moving-edges",
            "agents encode their record again, with edges that follow the feedback",
            "the later message says in which bucket the record is, without noise of its own",
            say=_again,
        ),
        QuestionBug(
            "counted-twice",
            "two agents send the same record",
            "the record is in two messages with noise of their own: its loss is twice as high",
            vectors=_twice,
        ),
    )
}
"""Every planted bug of a question by its name."""


def examine_question(
    mechanism: Mechanism,
    question: Question,
    *,
    bug: str | None = None,
    records: Sequence[Any] | None = None,
    rounds: int | None = None,
    transcripts: int = 20_000,
    failure_probability: float = 1e-6,
    seed: int = 0,
    seedable: bool = False,
    progress: Progress | None = None,
) -> AuditReport:
    """Audit a mechanism that answers a question; `examine` calls it.

    Parameters
    ----------
    mechanism : Mechanism
        With keepers, it is judged by what everyone else with all keepers but one can learn.
    bug : str, optional
        One of `QUESTION_BUGS`, to see it caught.
    records : sequence, optional
        Records to try; by default the edges, ends and middles of the domain. A question of your own needs
        some.
    rounds, transcripts, failure_probability, seed, progress
        As for `tacit.lab.audit.examine`.
    seedable : bool
        Use noise that follows from the seed, for tests that must repeat. NOT private.
    """
    instance("question", question, Question, "a question", "Take one, like tacit.Count().")
    if bug is not None and bug not in QUESTION_BUGS:
        raise ParameterError(f"a question's bug must be one of {', '.join(QUESTION_BUGS)}, got {bug!r}.")
    planted = None if bug is None else QUESTION_BUGS[bug]
    if planted is not None and planted.declared is not None:
        question, true = planted.declared(question), question.adjacency
        law = replace(mechanism.law, c=mechanism.law.c * (question.adjacency / true))
        mechanism = _around(mechanism, law)
    require_fitting(mechanism, question)
    if planted is not None and planted.say is not None and not mechanism.shadowed:
        raise ParameterError("this bug is in later messages of one-shot noise: take a server.")
    tried = list(probes(question) if records is None else records)
    vectors = [question.encode(record).vector for record in tried] + [question.stand_in]
    near_end, far_end, apart = _furthest(vectors)
    own = [_diameter_finding(question, apart), _alone_finding(question, tried, vectors)]
    plain = mechanism if not mechanism.keepers else ClientServer(mechanism.noise_law, agents=mechanism.n)
    group, members = stand_in(plain, _AGENT)
    differ = [j for j, (a, b) in enumerate(zip(near_end, far_end, strict=True)) if a != b][:_MOST_COLUMNS]
    start = np.array([[float(v[j]) for j in differ] for v in [near_end, *vectors][: group.n]])
    start = np.resize(start, (group.n, len(differ)))
    other = start.copy()
    other[_AGENT] = [float(far_end[j]) for j in differ]
    length = default_rounds(group.law, _AGENT) if rounds is None else rounds
    distance = min(float(np.abs(other - start).sum()), question.adjacency)
    plan = AuditPlan(group, _AGENT, distance, question.adjacency, length, transcripts, failure_probability)
    plan = replace(plan, notes=(*group_note(members, plain), *_notes(question, mechanism, len(differ))))
    noise = planted, seed, seedable
    pair = _run(plan, (start, other), noise, progress or _silent)
    share = _SHARE * failure_probability
    pair = replace(pair, plan=replace(plan, failure_probability=failure_probability - share))
    report = judge_evidence(
        pair, seeds=None, progress=progress or _silent, subject=question.kind if bug is None else bug
    )
    findings = (*own, *_others_finding(pair, share), *report.findings)
    return replace(report, failure_probability=failure_probability, findings=findings)


def _around(mechanism: Mechanism, law: Any) -> Mechanism:
    if not isinstance(mechanism, ClientServer):
        raise ParameterError("this bug is shown with a server: give agents instead of a graph.")
    return ClientServer(law, agents=mechanism.n, keepers=mechanism.keepers)


def _silent(_share: float, _what: str) -> None:
    pass


def _notes(question: Question, mechanism: Mechanism, run: int) -> Iterator[str]:
    yield (
        f"The two records are the furthest apart of those that were tried. Of {question.components:,} "
        f"components {run:,} were run: the others are the same for both."
    )
    if mechanism.keepers:
        yield (
            "Judged by what everyone else, with all keepers but one, can learn about one record. Masks are "
            "audited without a question."
        )


def _run(
    plan: AuditPlan,
    starts: tuple[FloatArray, FloatArray],
    noise: tuple[QuestionBug | None, int, bool],
    tell: Progress,
) -> TranscriptPair:
    """Toss the coins and run sessions from both records."""
    bug, seed, seedable = noise
    rng = np.random.default_rng([seed, plan.transcripts])
    counts = coin(plan.transcripts, rng)
    ends = np.stack(starts)
    subject: Subject = Deployed(plan.mechanism, float(ends.min()), float(ends.max()))
    if bug is not None or seedable:
        subject = Simulated(plan.mechanism, say=None if bug is None else bug.say)

    def run(place: int) -> History:
        tell(0.4 * place, ("first record", "second record")[place])
        changed = starts[place] if bug is None or bug.vectors is None else bug.vectors(starts[place])
        return subject(changed, plan.rounds, counts[place], 2 * seed + place)

    learn_from = to_learn_from(*counts, rng)
    return TranscriptPair(plan, run(0), run(1), *starts, subject.low_bits, learn_from)


def _others_finding(evidence: TranscriptPair, share: float) -> Iterator[AuditFinding]:
    """The first messages of the others must tell nothing about the record."""
    test = "messages of others"
    if evidence.plan.mechanism.n < 2:
        yield AuditFinding(test, "skipped", "there is one agent")
        return
    first, second = (t.x[:, 0, 1:].reshape(t.runs, -1) for t in (evidence.first, evidence.second))
    bound = learned_bound(linear_score, first, second, evidence.learn_from, share)
    detail = f"{bound.correct:,} of {bound.guesses:,} guesses right"
    yield AuditFinding(test, "alarm" if bound.loss > 0 else "pass", detail, loss=bound.loss, promised=0.0)


def _furthest(
    vectors: Sequence[tuple[Exact, ...]],
) -> tuple[tuple[Exact, ...], tuple[Exact, ...], Fraction]:
    """Return the two vectors that are furthest apart, and their distance."""
    rough = np.array([[float(number) for number in vector] for vector in vectors])
    pairs = list(combinations(range(len(vectors)), 2))
    a, b = max(pairs, key=lambda pair: float(np.abs(rough[pair[0]] - rough[pair[1]]).sum()))
    steps = (abs(Fraction(x) - Fraction(y)) for x, y in zip(vectors[a], vectors[b], strict=True))
    apart = sum(steps, start=Fraction(0))
    if not apart:
        raise ParameterError("the records to try must have different vectors, and all are the same.")
    return vectors[a], vectors[b], apart


def _diameter_finding(question: Question, apart: Fraction) -> AuditFinding:
    detail = f"two vectors are {near(float(apart))} apart, declared {near(float(question.diameter))}"
    return AuditFinding("diameter", "alarm" if apart > question.diameter else "pass", detail)


def _alone_finding(
    question: Question, tried: Sequence[Any], before: Sequence[tuple[Exact, ...]]
) -> AuditFinding:
    """Encode the records again in another order: nothing may change."""
    again = [question.encode(record).vector for record in reversed(tried)][::-1]
    off = sum(a != b for a, b in zip(again, before, strict=False))
    detail = f"{off:,} of {len(tried):,} records have another vector" if off else "the same in every company"
    return AuditFinding("record alone", "alarm" if off else "pass", detail)


def probes(question: Question) -> list[Any]:
    """Return records at the edges, the ends and the middle of a domain."""
    match question:
        case Understated():
            found = probes(question.of)
        case Mean():
            found = [(x,) * question.numbers for x in _between(question.low, question.high)]
        case Sum() | Variance():
            found = _between(question.low, question.high)
        case Count():
            found = [True, False]
        case Histogram() | Quantile():
            found = _in_buckets(question.edges)
        case WeightedMean():
            numbers = (question.low, (question.low + question.high) / 2, question.high)
            found = list(product((0, question.most / 2, question.most), numbers))
        case GroupBy():
            found = list(product(question.labels[:3], _ends(question.question)))
        case Several():
            found = list(product(*(_ends(each) for each in question.questions)))
        case _:
            raise ParameterError(f"an audit of a {question.kind} question needs records to try.", "records")
    step = -(-len(found) // _MOST_PROBES)
    return found[::step]


def _ends(question: Question) -> list[Any]:
    """Return the probes furthest apart, and the one of largest norm."""
    tried = probes(question)
    vectors = [question.encode(record).vector for record in tried]
    a, b, _ = _furthest(vectors)
    largest = max(vectors, key=lambda vector: sum(abs(Fraction(number)) for number in vector))
    return [tried[vectors.index(vector)] for vector in dict.fromkeys((a, b, largest))]


def _between(low: float, high: float) -> list[float]:
    ends = np.linspace(low, high, 33).tolist()
    return [2 * low - high, *ends, 2 * high - low]


def _in_buckets(edges: Sequence[Any]) -> list[Any]:
    if isinstance(edges[0], str):
        return [*edges, "no such label"]
    inner = [edge for edge in edges if abs(edge) != float("inf")] or [0.0]
    return [inner[0] - 1, *inner, *((a + b) / 2 for a, b in pairwise(inner)), inner[-1] + 1]
