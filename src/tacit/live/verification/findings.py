"""Findings about a transcript, each with a name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from tacit.core.protocol.messages import Refusal

NOTES = {
    "torn": "the last line was cut off while it was written",
    "unused-report": "a report is in a round whose feedback does not name it",
    "evidence-alone": "a frame kept as evidence contradicts nothing in these transcripts",
    "start-unproved": "fewer messages were used in round 0 than agents must be present before it; who was "
    "present is not signed",
    "masks-unproved": "nobody can prove that masks were right and that keepers added their noise",
    "losses-uncounted": "these few messages are of very late rounds, so adding up their loss would take too "
    "long",
}
"""Findings that do not affect the verdict."""

GAPS = {
    "no-rounds": "no round is over, so there is nothing to check",
    "unfinished": "rounds are missing at the end, and nobody signed that the session ended early",
    "missing-report": "messages that are part of a mean are not in these transcripts",
    "missing-key": "ephemeral keys that messages were made with are not in these transcripts",
    "missing-mean": "an agent has signed which messages are in its means, and not all of these means are "
    "in these transcripts",
    "unsigned-mean": "nobody has signed which messages are in these means",
}
"""Findings that something could not be checked: there is no evidence for it or against it."""

WRONG = {
    "unreadable-line": "a line is not a valid line of a transcript",
    "altered-line": "the readable fields of a line differ from its frame",
    "altered-header": "the readable fields of the first line differ from the session",
    "other-session": "a transcript is of another session than the first, or than the one agreed on",
    "equivocation": "one sender signed two different messages for one round",
    "out-of-order": "a line belongs to another round than the lines around it",
    "missing-round": "rounds are missing before this one",
    "wrong-reports": "a feedback commits to other messages than those in the transcript",
    "wrong-closing": "a closing, an opening and the feedback of a round do not match",
    "wrong-keys": "messages were made with other ephemeral keys than those in the transcript",
    "wrong-mean": "a feedback is not the mean (in a series: the sum) of the messages it names",
    "wrong-state": "a feedback commits to other uses of messages so far than those in the transcript",
    "below-quorum": "a mean was taken of fewer messages than the session's quorum",
    "broken-chain": "a feedback does not follow from the one of the round before",
    "other-history": "a report commits to other feedback than that in the transcript",
    "wrong-sender": "a line of this kind cannot come from this sender",
    "after-the-end": "rounds follow the signed end of the session",
}
"""Findings that something is wrong, in addition to the codec's reasons to refuse a frame."""


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
        return self.name not in NOTES and self.name not in GAPS

    @property
    def gap(self) -> bool:
        """Whether it means that something could not be checked."""
        return self.name in GAPS

    def __str__(self) -> str:
        where = [] if self.file is None else [f"{self.file}" + (f", line {self.line}" if self.line else "")]
        where += [] if self.round is None else [f"round {self.round}"]
        where += [] if self.sender is None else [self.sender]
        return f"{self.name}: {self.sentence}" + (f" ({', '.join(where)})" if where else "")
