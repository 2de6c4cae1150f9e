"""The notices of a follower. To add one, add a class here."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, final

from tacit.core.protocol.standing import Counted
from tacit.live.fleet.messages import Refusal
from tacit.live.runtime.process_notices import ProcessNotice

State: TypeAlias = Literal["joined", "finished", "stopped"]
_SESSIONS = Counted("agent_sessions", "sessions joined, finished and stopped", "state")


@final
@dataclass(frozen=True)
class Following(ProcessNotice):
    """A follower begins."""

    member: str
    hub: str

    said = "{member} follows {hub}"


@final
@dataclass(frozen=True)
class HubReached(ProcessNotice, event="connected"):
    """There is a connection to the hub."""

    member: str

    said = "connected to the hub"


@final
@dataclass(frozen=True)
class HubLost(ProcessNotice, event="disconnected"):
    """The connection to the hub is lost."""

    member: str

    said = "the connection to the hub is lost"


@final
@dataclass(frozen=True)
class OfferUnsigned(ProcessNotice, event="refused"):
    """An offer is not signed by the hub, or is no session."""

    member: str
    why: str
    reason: str = "signature"

    said = "{why}"

    def cause(self) -> Hashable:
        return self.reason


@final
@dataclass(frozen=True)
class OfferRefused(ProcessNotice, event="refused"):
    """A session is not joined.

    `why` may contain the cap and what was spent, which are the owner's.
    """

    member: str
    session: str
    reason: Refusal
    why: str

    counted = (Counted("agent_refusals", "sessions not joined", "reason"),)
    said = "{session} is not joined: {why}"

    def cause(self) -> Hashable:
        return self.reason


@final
@dataclass(frozen=True)
class OfferAccepted(ProcessNotice):
    """The hub is told that this member takes part."""

    session: str
    state: State = "joined"

    logged = False  # `SessionJoined` follows
    counted = (_SESSIONS,)


@final
@dataclass(frozen=True)
class SessionJoined(ProcessNotice, event="joined"):
    """The member takes part in a session, or goes on after a restart."""

    member: str
    session: str
    role: str

    said = "{session} is joined as {role}"


@final
@dataclass(frozen=True)
class MessageKept(ProcessNotice, event="receipt"):
    """The hub has signed that it keeps the message of this member."""

    member: str
    session: str
    until: str

    said = "the hub keeps the message for {session}: the result can be fetched until {until}"


@final
@dataclass(frozen=True)
class ParticipationFailed(ProcessNotice, event="failed"):
    """A session ended here by an error."""

    member: str
    session: str
    why: str

    said = "{session} failed: {why}"


@final
@dataclass(frozen=True)
class ParticipationOver(ProcessNotice):
    """A session is over for this member, and what it cost an agent."""

    member: str
    session: str
    state: State
    rounds: int
    loss: float | None = None
    spent: float | None = None
    cap: float | None = None

    counted = (
        _SESSIONS,
        Counted("agent_rounds", "rounds of sessions that ended", by="rounds"),
    )
    said = "{session} is over: {state}"

    def facts(self, session: Any = None) -> dict[str, Any]:
        return super().facts(session) | {"event": self.state}


@final
@dataclass(frozen=True)
class SlotCounted(ProcessNotice):
    """What became of a slot of a series."""

    what: Literal["sent", "unsent", "published", "lost"]

    logged = False
    counted = (
        Counted(
            "agent_slots",
            "slots of series; unsent: a keeper's key was missing, or there was no reading",
            "what",
        ),
    )


@final
@dataclass(frozen=True)
class SlotUnsent(ProcessNotice, event="trouble"):
    """No message is sent in a slot, because a keeper's key is missing."""

    member: str
    session: str
    slot: int

    often = 0  # it may happen in every slot
    said = "{session}: no message for slot {slot}: a keeper's key is missing"

    def cause(self) -> Hashable:
        return self.session


@final
@dataclass(frozen=True)
class ReadingFailed(ProcessNotice, event="trouble"):
    """The source of the value gave no new reading in a slot."""

    member: str
    session: str
    why: str

    often = 0  # it may happen in every slot
    counted = (
        Counted(
            "agent_readings_failed",
            "slots of series in which the source of the value gave no new reading",
        ),
    )
    said = "{session}: {why}"

    def cause(self) -> Hashable:
        return self.session


@final
@dataclass(frozen=True)
class RecordUnreadable(ProcessNotice, event="trouble"):
    """The record cannot be read, so the question's stand-in is used."""

    member: str
    session: str
    why: str

    counted = (
        Counted("agent_records_unreadable", "sessions in which the stand-in took the place of the record"),
    )
    said = "{session}: the question's stand-in counts in place of your record: {why}"


@final
@dataclass(frozen=True)
class CertificateInstalled(ProcessNotice, event="renewed"):
    """The member has a new certificate."""

    member: str
    until: str

    said = "the certificate is valid until {until}"
