"""Notices for people: text for the progress bar, and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tacit.protocol.effects import (
    Answered,
    Behind,
    Cost,
    DisputeFound,
    Equivocated,
    FellSilent,
    Forgotten,
    LostHistory,
    MeanPublished,
    Nonsense,
    Notice,
    Quiet,
    RoundClosed,
    SlotMissed,
    Spoken,
    Stopped,
    Updated,
    Waiting,
    Weighed,
)
from tacit.protocol.messages import COORDINATOR, Reason
from tacit.report import near, up

if TYPE_CHECKING:
    from tacit.protocol.session import Session

_MOST_NAMES = 5
_ENDS = {
    Reason.NONSENSE: ": a sum was impossible",
    Reason.KEEPER: ": a keeper has left, and nobody can take its place",
}
_HARDLY = 0.1  # an agent whose weight is below this part of its fair share is told so


def progress(notice: Notice, session: Session) -> tuple[int, str] | None:
    """Return the number of finished rounds, and the text beside the bar."""
    match notice:
        case RoundClosed():
            return notice.round + 1, f"{len(notice.used)} of {session.n} messages used"
        case Answered():
            return notice.update + 1, f"sum of {notice.count} messages opened"
        case MeanPublished():
            return notice.slot + 1, f"{notice.count} of {session.n} agents used"
        case Updated():
            return notice.round + 1, f"{notice.count} of {session.n} messages used"
        case Spoken():
            return notice.update, f"message {notice.update} sent, loss so far {up(notice.spent)}"
    return None


def sentence(notice: Notice, session: Session) -> str | None:  # noqa: PLR0911, PLR0912
    """Return a sentence for a notice; None if people need not know it."""
    name = session.member_name
    match notice:
        case Cost() if session.series is not None:
            return (
                f"This series costs at most {up(notice.planned)} in all, except with probability "
                f"{near(session.series.delta)}, and hides {session.series.hides}; other sessions on this "
                f"value count for {up(notice.spent)}; the cap is {near(notice.cap)}."
            )
        case SlotMissed():
            why = "there is no reading" if notice.unread else "a keeper's key is missing"
            return f"No message for slot {notice.slot}: {why}."
        case MeanPublished() if notice.mean is None:
            return f"Slot {notice.slot} is lost: too few messages, or a keeper did not answer."
        case Cost():
            return (
                f"This session costs at most {up(notice.planned)} for values up to "
                f"{_protected(session)}; other sessions on this value count for {up(notice.spent)}; "
                f"the cap is {near(notice.cap)}."
            )
        case RoundClosed() if notice.missing:
            return f"Round {notice.round} closed without {_names(notice.missing, session)}."
        case Waiting():
            return _waiting(notice, session)
        case Behind():
            return f"Catching up from round {notice.round} to {notice.open}."
        case FellSilent():
            return (
                f"Message {notice.update} would exceed the cap of {near(notice.cap)}: nothing more is sent."
            )
        case LostHistory():
            return (
                f"{name(notice.who)} has {notice.update} rounds, more than this ledger: the ledger is "
                "not the newest."
            )
        case Forgotten():
            return (
                f"The coordinator asks for round {notice.asked}, but {notice.round} rounds are finished: it "
                "has lost its ledger. The session can continue only with that ledger."
            )
        case Weighed() if notice.weight < _HARDLY * notice.share:
            return (
                f"Your value hardly counts in the result: its weight is {near(notice.weight)} instead of "
                f"{near(notice.share)}. Your messages were used in "
                f"{notice.times} of {notice.rounds} rounds."
            )
        case Equivocated():
            return f"{name(notice.sender)} signed two different messages for round {notice.round}."
        case DisputeFound():
            return (
                f"The feedback of round {notice.round} contains a message in this agent's name that it did "
                "not send: the coordinator may lie, or the key is used elsewhere. Nothing more is sent."
            )
        case Nonsense():
            return (
                f"The sum of round {notice.round} is larger than honest agents and keepers could make it: "
                "one of them lied. All signed messages are kept."
            )
        case Quiet():
            return f"{name(notice.who)} sends nothing more, from round {notice.update} on."
        case Stopped():
            if notice.reason is Reason.EXPIRED:
                return f"The session expired on {session.expiry}, at round {notice.round}."
            why = _ENDS.get(notice.reason, "")
            return f"The session ended at round {notice.round}{why}."
    return None


def _waiting(notice: Waiting, session: Session) -> str:
    if notice.missing == (COORDINATOR,):
        where = "it cannot be reached, or is waiting for other agents"
        return f"Round {notice.round} waits for the coordinator: {where}."
    start = f"Round {notice.round} waits for {_names(notice.missing, session)}"
    if not notice.needed:
        return f"{start}. It continues without them at its deadline."
    if notice.needed == len(notice.missing):
        return f"{start}. It cannot continue without them."
    return f"{start}. At least {notice.needed} of them must join."


def _protected(session: Session) -> str:
    """Say how far apart the protected values are.

    If the session's adjacency is smaller than its range, it says so: the promise covers less.
    """
    wide = session.adjacency < session.diameter
    far = f", though they may be {near(session.diameter)} apart" if wide else ""
    return f"{near(session.adjacency)} apart{far}"


def _names(who: Sequence[int], session: Session) -> str:
    names = ", ".join(session.member_name(i) for i in who[:_MOST_NAMES])
    return names if len(who) <= _MOST_NAMES else f"{names} and {len(who) - _MOST_NAMES} more"
