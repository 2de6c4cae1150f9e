"""What an audit found: a verdict per test, the measured and the promised loss, and the limits."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from tacit.rounding import shown_up
from tacit.theory.tables import html_table

Verdict = Literal["pass", "alarm", "skipped"]

NOT_PROVED = (
    "A pass does not prove privacy. It says that these tests, on these transcripts and for this pair of "
    "starts, found nothing beyond the promise; proofs are in docs/proofs.",
    "A leak can stay unseen that shows in few sessions, or only for other values, other agents, other "
    "feedback or longer sessions.",
    "Timing, sizes of packets, logs, memory and whatever else is not in a transcript were not looked at.",
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
        What was seen, or why nothing was looked at.
    p_value, limit : float or None
        The smallest probability that the test gave to what it saw, and the one below which it
        alarms; the limit already pays for how many places were looked at.
    loss, promised : float or None
        For tests of the loss: what is proved of it, and what was promised.
    """

    test: str
    verdict: Verdict
    detail: str
    p_value: float | None = None
    limit: float | None = None
    loss: float | None = None
    promised: float | None = None


@dataclass(frozen=True)
class LossCurve:
    """Loss after each number of rounds: promised, and proved by the optimal distinguisher."""

    rounds: tuple[int, ...]
    promised: tuple[float, ...]
    measured: tuple[float, ...]


@dataclass(frozen=True)
class AuditReport:
    """The result of an audit.

    Attributes
    ----------
    subject : str
    declared : str
        The mechanism and its parameters, in words.
    agent : int
        Whose start differed.
    distance : float or None
        By how much; None where the starts are not known.
    adjacency : float
        What the loss is stated for, beside the one at `distance`.
    rounds, transcripts : int
    failure_probability : float
        How likely any alarm at all is if everything is as declared.
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
        """Whether no test found anything. `NOT_PROVED` says what that leaves open."""
        return not self.alarms

    @property
    def epsilon(self) -> float | None:
        """What is proved of ε, per unit of adjacency: measured/distance."""
        return None if self.measured is None or not self.distance else self.measured / self.distance

    def as_dict(self) -> dict[str, Any]:
        """Return everything in plain types, for programs."""
        return {
            "verdict": "pass" if self.passed else "alarm",
            **asdict(self),
            "epsilon_at_least": self.epsilon,
            "not_proved": list(NOT_PROVED),
        }

    def _repr_html_(self) -> str:
        verdict = "no alarm" if self.passed else f"{len(self.alarms)} alarms"
        title = f"{self.subject} ({self.declared}): {verdict} in {self.transcripts:,} sessions"
        loss = []
        if self.promised is not None:
            loss.append(("loss promised", "at most", shown_up(self.promised)))
        if self.measured is not None:
            loss.append(("loss measured", "at least", shown_up(-self.measured).removeprefix("-")))
        found = [(finding.test, finding.verdict, finding.detail) for finding in self.findings]
        return html_table(title, ("test", "verdict", "seen"), [*loss, *found], (*self.notes, *NOT_PROVED))
