"""The notices of a hub. To add one, add a class here."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Literal, final

from tacit.core.protocol.standing import Counted
from tacit.live.fleet.messages import Refusal
from tacit.live.runtime.process_notices import ProcessNotice
from tacit.live.transport.listener import source


@final
@dataclass(frozen=True)
class Listening(ProcessNotice):
    """The hub listens."""

    address: str

    said = "the hub listens at {address}"


@final
@dataclass(frozen=True)
class LeadTaken(ProcessNotice, event="leads"):
    """Of a hub on several hosts, this one leads from now on."""

    epoch: int

    said = "this host leads the hub from now on"


@final
@dataclass(frozen=True)
class StandingBy(ProcessNotice, event="stands_by"):
    """Of a hub on several hosts, this one does not lead."""

    text: str

    said = "{text}"


@final
@dataclass(frozen=True)
class LeadTroubled(ProcessNotice, event="trouble"):
    """Why this host does not lead."""

    text: str

    said = "{text}"


@final
@dataclass(frozen=True)
class SessionsGivenUp(ProcessNotice, event="given_up"):
    """The database lost what was saved, so nothing goes on from it."""

    why: str

    said = (
        "the database has lost what was saved: {why}. Sessions under way are given up, and open invitations "
        "are void: members take part in the next session, and who is not enrolled needs another invitation"
    )


@final
@dataclass(frozen=True)
class Drained(ProcessNotice):
    """No session is under way, and none will begin."""

    said = "no session is under way, and none will begin: the hub stops"


@final
@dataclass(frozen=True)
class Writable(ProcessNotice):
    """The hub can write again."""

    said = "the hub can write again"


@final
@dataclass(frozen=True)
class StoreTrouble(ProcessNotice, event="trouble"):
    """The store cannot be written; it is tried again."""

    text: str

    said = "{text}"

    def cause(self) -> Hashable:
        return ""


@final
@dataclass(frozen=True)
class TaskFailed(ProcessNotice, event="failed"):
    """A session of a task is never begun."""

    task: str
    why: str

    said = "{task} was not begun: {why}"


@final
@dataclass(frozen=True)
class SessionBegun(ProcessNotice, event="begun"):
    """A session has begun, or goes on after a restart of the hub."""

    session: str
    agents: int

    said = "{session} has begun"


@final
@dataclass(frozen=True)
class SessionStarted(ProcessNotice):
    """A session is in the store, and begins."""

    session: str

    logged = False  # `SessionBegun` follows
    counted = (Counted("hub_sessions_started", "sessions begun"),)


@final
@dataclass(frozen=True)
class SessionFailed(ProcessNotice, event="failed"):
    """A session ended by an error."""

    session: str
    why: str

    said = "{session} failed: {why}"


@final
@dataclass(frozen=True)
class SlotOver(ProcessNotice, event="slot"):
    """A slot of a series is over; its mean is public, and None if it is lost."""

    session: str
    slot: int
    mean: float | list[float] | None
    messages: int

    def sentence(self, session: object = None) -> str:
        return f"{self.session}: slot {self.slot} {'is lost' if self.mean is None else 'is over'}"


@final
@dataclass(frozen=True)
class SessionEnded(ProcessNotice):
    """A session is over and stored; `result` is public."""

    session: str
    state: Literal["finished", "stopped"]
    over: int
    result: dict[str, Any] = field(repr=False)

    counted = (Counted("hub_rounds", "rounds of sessions that ended", by="over"),)
    said = "{session} is over: {state}"

    def facts(self, session: Any = None) -> dict[str, Any]:
        return {"event": self.state, "session": self.session, **self.result}


@final
@dataclass(frozen=True)
class OfferDeclined(ProcessNotice, event="refused"):
    """A member does not take part in a session."""

    session: str
    member: str
    reason: Refusal

    counted = (
        Counted(
            "hub_refusals", "sessions that agents did not join; an unknown word counts as other", "reason"
        ),
    )
    said = "{member} does not take part in {session}: {reason}"

    def cause(self) -> Hashable:
        return self.member


@final
@dataclass(frozen=True)
class MemberConnected(ProcessNotice, event="connected"):
    """A member has connected."""

    member: str
    role: str

    said = "{member} has connected"

    def cause(self) -> Hashable:
        return self.member


@final
@dataclass(frozen=True)
class MemberLeft(ProcessNotice, event="disconnected"):
    """A member's connection is lost."""

    member: str

    said = "{member} is not connected any more"

    def cause(self) -> Hashable:
        return self.member


@final
@dataclass(frozen=True)
class MemberEnrolled(ProcessNotice, event="enrolled"):
    """A member has its first certificate."""

    member: str
    key: str

    counted = (Counted("hub_enrolments", "members enrolled"),)
    said = "{member} is enrolled with the key {key}"


@final
@dataclass(frozen=True)
class EnrolmentRefused(ProcessNotice):
    """An invitation was refused. Strangers can cause it."""

    address: str
    invitation: str
    why: str

    causes = 100
    said = "an invitation was refused: {why}"

    def cause(self) -> Hashable:
        return source(self.address)


@final
@dataclass(frozen=True)
class CertificateRenewed(ProcessNotice, event="renewed"):
    """A member has a new certificate."""

    member: str

    said = "{member} has a new certificate"

    def cause(self) -> Hashable:
        return self.member


@final
@dataclass(frozen=True)
class OwnCertificateRenewed(ProcessNotice, event="renewed"):
    """The hub or its authority has a new certificate, with the same key."""

    whose: Literal["hub", "authority"]

    said = "the {whose} has a new certificate, with the same key"


@final
@dataclass(frozen=True)
class RenewalRefused(ProcessNotice):
    """A member gets no new certificate."""

    member: str
    why: str

    said = "{member} gets no new certificate: {why}"

    def cause(self) -> Hashable:
        return self.member


@final
@dataclass(frozen=True)
class RevocationsTaken(ProcessNotice, event="revoked"):
    """A newer list of revoked certificates counts."""

    number: int

    said = "list {number} of revoked certificates counts from now on"
