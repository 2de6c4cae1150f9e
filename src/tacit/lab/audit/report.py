"""What an audit found: verdicts, measured and promised loss, limits."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from tacit.base.report import Row, Shown, Summary, down, near, some_rounds, up

Verdict = Literal["pass", "alarm", "skipped"]

NOT_PROVED = (
    "A pass does not prove privacy. It says that these tests, on these transcripts and for this pair of "
    "starts, found nothing beyond the promise. The proofs are in docs/proofs.",
    "A leak can go unnoticed if it shows in few sessions, or only for other values, other agents, other "
    "feedback or longer sessions.",
    "Rare faults need more sessions. 20,000 find a bit that leaks in 3 % of messages, a decay that is a "
    "fifth too fast in 1 % of sessions, masks from secrets of 32 bits, and a mask bit that is 1 in 50.6 % of "
    "cases. 200,000 find 1 %, 0.1 %, 40 bits and 50.2 %.",
    "Timing, packet sizes, logs, memory and everything else outside the transcripts were not examined.",
    "A generator can be predictable in ways that no statistical test sees: only common seeds were tried.",
)
"""What a pass does not prove, for people."""


@dataclass(frozen=True)
class AuditFinding:
    """What one test found.

    Attributes
    ----------
    test : str
    verdict : "pass", "alarm" or "skipped"
    detail : str
        What was seen, or why the test was skipped.
    p_value, limit : float or None
        The smallest p-value, and the limit below which the test alarms; the limit is already corrected for
        the number of places tested.
    loss, promised : float or None
        For tests of the loss: the proved lower bound, and what was promised.
    """

    test: str
    verdict: Verdict
    detail: str
    p_value: float | None = None
    limit: float | None = None
    loss: float | None = None
    promised: float | None = None

    def row(self) -> Row:
        """Return the test, its verdict and what it saw."""
        detail = self.detail
        if self.loss is not None:
            detail += f"; loss at least {down(self.loss, 4)}, promised {up(self.promised or 0, 4)}"
        elif self.p_value is not None:
            detail += f"; p-value {self.p_value:.2g}"
        return Row(self.test, "ALARM" if self.verdict == "alarm" else self.verdict, detail)


@dataclass(frozen=True)
class LossCurve:
    """Promised and proved loss after each number of rounds."""

    rounds: tuple[int, ...]
    promised: tuple[float, ...]
    measured: tuple[float, ...]


@dataclass(frozen=True)
class AuditReport(Shown):
    """The result of an audit.

    Attributes
    ----------
    subject : str
    declared : str
        The mechanism and its parameters, in words.
    agent : int
        The agent whose start differed.
    distance : float or None
        By how much; None if the starts are unknown.
    adjacency : float
        The loss is also stated for this distance.
    rounds, transcripts : int
    failure_probability : float
        Probability of any alarm if everything is as declared.
    promised, measured : float or None
        Loss at `distance`: at most, and at least (with the failure probability).
    findings : tuple of Finding
    curve : Curve, optional
    notes : tuple of str
    """

    subject: str
    declared: str
    agent: int
    distance: float | None
    adjacency: float
    rounds: int
    transcripts: int
    failure_probability: float
    promised: float | None
    measured: float | None
    findings: tuple[AuditFinding, ...]
    curve: LossCurve | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def alarms(self) -> tuple[AuditFinding, ...]:
        """The tests that found something."""
        return tuple(f for f in self.findings if f.verdict == "alarm")

    @property
    def passed(self) -> bool:
        """Whether no test found anything.

        `NOT_PROVED` says what a pass does not prove.
        """
        return not self.alarms

    @property
    def epsilon(self) -> float | None:
        """The proved lower bound on ε, per unit of adjacency: measured/distance."""
        return None if self.measured is None or not self.distance else self.measured / self.distance

    def as_dict(self) -> dict[str, Any]:
        """Return everything in plain types, for programs."""
        return {
            "verdict": "pass" if self.passed else "alarm",
            **asdict(self),
            "epsilon_at_least": self.epsilon,
            "not_proved": list(NOT_PROVED),
        }

    def summary(self) -> Summary:
        """Return the verdict, losses, every test and the limits, for people.

        Losses are rounded to the safe side.
        """
        sections = {"Loss": self._loss_rows(), "Tests": [finding.row() for finding in self.findings]}
        title = f"{'PASS' if self.passed else 'ALARM'}: {self.subject} ({self.declared})"
        rate = f"{self.failure_probability:g}"
        alarmed = (f"If everything were as declared, the probability of any alarm would be at most {rate}.",)
        notes = (*self.notes, *(NOT_PROVED if self.passed else alarmed))
        return Summary(title, {name: rows for name, rows in sections.items() if rows}, notes)

    def _loss_rows(self) -> list[Row]:
        if self.promised is None or self.measured is None or not self.distance:
            return []
        apart = f"starts {near(self.distance)} apart, {some_rounds(self.rounds)}"
        share = self.adjacency / self.distance
        each = f"at least, starts {near(self.adjacency)} apart; promised at most {up(self.promised * share)}"
        return [
            Row("promised", up(self.promised), f"at most, {apart}"),
            Row("measured", down(self.measured, 4), f"at least, {self.transcripts:,} sessions"),
            Row("for the adjacency", down(self.measured * share, 4), each),
        ]
