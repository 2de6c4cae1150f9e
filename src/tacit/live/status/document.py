"""The status of a running process: one shape for all kinds of them.

`/status` serves it as JSON. `tacit status` and the studio read it. Nothing private is in it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal, TypeAlias, final

import msgspec

from tacit.core.protocol.notices import Counts
from tacit.core.protocol.standing import Loss, Standing
from tacit.live.transport.link import own_version

Kind: TypeAlias = Literal["member", "hub", "follower"]
"""Who shows a status: a member of one session, a hub, or an agent or keeper that follows a hub."""


@final
class WindowLoss(msgspec.Struct):
    """The loss of sessions begun within some seconds, and its cap."""

    seconds: float
    cap: float
    spent: float


@final
class HubNumbers(msgspec.Struct, kw_only=True):
    """What only a hub has.

    Attributes
    ----------
    outcomes : dict
        How many sessions the store has, by state.
    known, open_invitations, queue : int
        Members that have ever connected, invitations that can be used, sessions that are due and not begun.
    lag : float
        The longest delay of the event loop in the last ten seconds or so.
    bytes : int
        The size of the store and the ledger.
    participation, seconds : float or None
        Of the last session that ended: the share of its agents that took part, and how long it took.
    refusing : dict
        Members that refused the last session that they were offered, with the word that says why.
    """

    outcomes: dict[str, int] = {}
    known: int = 0
    open_invitations: int = 0
    queue: int = 0
    lag: float = 0.0
    bytes: int = 0
    participation: float | None = None
    seconds: float | None = None
    refusing: dict[str, str] = {}


@final
class StatusDocument(msgspec.Struct, kw_only=True):
    """What a member of a session, a hub or a follower shows of itself.

    Attributes
    ----------
    name, role : str
        The name of the member, and coordinator, agent, keeper, peer or hub.
    hub : str or None
        The address of the hub, of a hub and its followers.
    state : str
        Of a member its phase (see `Standing`), or disconnected; of a hub serving, paused or draining; of a
        follower connected or disconnected; waiting while a process cannot start.
    ready : bool
        Whether it can do its work now: what `/readyz` says.
    trouble : str or None
        What is wrong, in one sentence.
    updated, heard, certificate_expires : float or None
        When something last happened, when the last frame came in, and when the own certificate expires, in
        seconds since 1970.
    clock_ahead : float or None
        How far the own clock was ahead of the hub's.
    connected : dict or None
        To whom there is a connection now: roles by names.
    sessions : list of Standing
        The session of a member. Of a hub and a follower those under way; of a hub also the last that ended.
    counts : dict
        What notices have counted since the start.
    loss, windows
        Of a follower that is an agent: the loss of its value in all sessions, and within each window.
    """

    kind: Kind
    name: str
    role: str
    state: str
    ready: bool
    trouble: str | None = None
    hub: str | None = None
    version: str = msgspec.field(default_factory=own_version)
    updated: float | None = None
    heard: float | None = None
    certificate_expires: float | None = None
    clock_ahead: float | None = None
    connected: dict[str, str] | None = None
    sessions: list[Standing] = []
    counts: Counts = {}
    loss: Loss | None = None
    windows: list[WindowLoss] = []
    numbers: HubNumbers | None = None

    def __post_init__(self) -> None:
        if self.kind == "member" and len(self.sessions) != 1:
            raise ValueError("a member has one session")

    def under_way(self) -> list[Standing]:
        """Return the sessions that are not over."""
        return [one for one in self.sessions if one.phase in ("waiting", "running")]

    def as_dict(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return dict(msgspec.to_builtins(self))


class StatusPages(ABC):
    """The pages of a process, for a `StatusServer`."""

    @abstractmethod
    def document(self) -> StatusDocument:
        """Return the status as it is now."""

    def json(self) -> bytes:
        """Return the content of `/status`."""
        return msgspec.json.format(msgspec.json.encode(self.document()), indent=2) + b"\n"

    def metrics(self) -> bytes:
        """Return the content of `/metrics`."""
        from tacit.live.status.metrics import exposition

        return exposition(self.document())

    def not_ready(self) -> str | None:
        """Return why the work cannot be done now, or None if it can."""
        now = self.document()
        return None if now.ready else now.trouble or now.state
