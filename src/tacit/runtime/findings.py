"""What can be wrong with a transcript, each by its name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from tacit.protocol.messages import Refusal

NOTES = {
    "torn": "the last line was cut off while it was written",
    "means-unchecked": "the messages behind some feedback are not in these transcripts",
    "means-unproved": "nobody has signed what these means were taken of",
    "unused-report": "a report stands in a round whose feedback does not name it",
    "evidence-alone": "a frame kept as evidence contradicts nothing in these transcripts",
}
"""Findings that are worth telling and are nobody's fault."""

WRONG = {
    "unreadable-line": "a line is not one of a transcript",
    "altered-line": "the words of a line are not those of its frame",
    "altered-header": "the words of the first line are not those of the session",
    "other-session": "a transcript is of another session than the first, or than the one agreed on",
    "equivocation": "one sender signed two different messages for one round",
    "out-of-order": "a line belongs to another round than the one it stands in",
    "missing-round": "rounds are missing before this one",
    "missing-report": "a feedback names messages that are not in the coordinator's transcript",
    "wrong-reports": "a feedback commits to other messages than those in the transcript",
    "wrong-mean": "a feedback is not the mean of the messages it names",
    "broken-chain": "a feedback does not follow from the one of the round before",
    "other-history": "a report commits to other feedback than that in the transcript",
    "wrong-sender": "a line of this kind cannot come from this sender",
    "after-the-end": "lines follow the end of the session",
    "unfinished": "rounds are missing at the end, and nobody signed that the session ended early",
}
"""Findings that mean that something is wrong, besides the codec's reasons to refuse a frame."""


def refusal_name(reason: Refusal) -> str:
    """Return the name of the finding that a frame was refused for this reason."""
    return reason.name.lower().replace("_", "-")


@final
@dataclass(frozen=True)
class Finding:
    """Something about a transcript: its name, where it is, and one sentence."""

    name: str
    sentence: str
    file: str | None = None
    line: int | None = None
    round: int | None = None
    sender: str | None = None

    @property
    def wrong(self) -> bool:
        """Whether it means that something is wrong."""
        return self.name not in NOTES

    def __str__(self) -> str:
        where = [] if self.file is None else [f"{self.file}" + (f", line {self.line}" if self.line else "")]
        where += [] if self.round is None else [f"round {self.round}"]
        where += [] if self.sender is None else [self.sender]
        return f"{self.name}: {self.sentence}" + (f" ({', '.join(where)})" if where else "")
