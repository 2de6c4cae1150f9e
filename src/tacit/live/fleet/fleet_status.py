"""Status pages of hubs and followers: counts and public means only."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from tacit.base.errors import DiskFull, NotCurrent
from tacit.base.files import require_room
from tacit.core.protocol.standing import MOST_SHOWN, AnswerPart, Loss, Standing
from tacit.live.fleet.messages import AGENT
from tacit.live.fleet.store import as_facts
from tacit.live.status.document import HubNumbers, Kind, StatusDocument, StatusPages, WindowLoss
from tacit.live.transport.connection_diagnosis import clock_difference

if TYPE_CHECKING:
    from tacit.live.fleet.follower import FleetAgent
    from tacit.live.fleet.hub import Hub

_LAST = 20
_WRONG_CLOCK = 300.0
"""Seconds between two clocks that make an agent not ready: sessions of a hub last 600 s at least."""


@final
class HubPages(StatusPages):
    """A hub's status, for a `StatusServer`."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def document(self) -> StatusDocument:
        """Return the status: the last sessions, and all that are under way."""
        hub = self._hub
        trouble, now = self._why_not(), hub.standings()
        ended = [one for one in as_facts(hub.store.sessions(most=_LAST)) if one["id"] not in now]
        return StatusDocument(
            kind="hub",
            name="hub",
            role="hub",
            hub=hub.store.setting("address"),
            state=hub.state,
            ready=trouble is None,
            trouble=trouble,
            certificate_expires=_timestamp(hub.gateway.expires),
            connected={name: member.role for name, member in sorted(hub.gateway.members.items())},
            sessions=[*map(_ended, ended), *now.values()],
            counts=hub.tell.counts,
            numbers=HubNumbers(
                outcomes=hub.store.outcomes(),
                known=hub.store.count_members(),
                open_invitations=hub.store.open_invitations(time.time()),
                queue=hub.queue,
                lag=hub.lag,
                bytes=hub.bytes,
                participation=hub.participation,
                seconds=hub.seconds,
                refusing=dict(sorted(hub.refusing.items())),
            ),
        )

    def _why_not(self) -> str | None:
        """Return why members cannot use the hub now, or None if they can.

        A hub that is paused or draining still serves its members.
        """
        return _expired(self._hub.gateway.expires) or self._hub.unwritable


def _ended(facts: dict[str, Any]) -> Standing:
    """Return how a session ended, as the store has it."""
    result = facts["result"] or {}
    mean = result.get("mean")
    means = mean if isinstance(mean, list) else [] if mean is None else [mean]
    series, used, answer = result.get("series"), result.get("used"), result.get("answer")
    return Standing(
        name=facts["name"],
        id=facts["id"],
        series=bool(series),
        phase=facts["state"],
        agents=result.get("agents", 0),
        rounds=series["slots"] if series else result.get("rounds", 0),
        round=result.get("over", result.get("rounds", 0)),
        used=min(used) if used else None,
        feedback=means[:MOST_SHOWN] or None,
        answer=[AnswerPart(**part) for part in answer["parts"][:MOST_SHOWN]] if answer else None,
        radius=result.get("radius"),
        deviation=result.get("deviation"),
        lost=result.get("lost", 0),
        incomplete=result.get("incomplete", 0),
        ended=facts["ended"],
    )


@final
class AgentPages(StatusPages):
    """A follower's status, for a `StatusServer`."""

    def __init__(self, agent: FleetAgent) -> None:
        self._agent = agent

    def document(self) -> StatusDocument:
        """Return the status, with the loss of an agent's value."""
        agent = self._agent
        policy, connection, trouble = agent.policy, agent.connection, self._why_not()
        now = StatusDocument(
            kind="follower",
            name=agent.name,
            role=policy.role,
            hub=connection.endpoint,
            state="connected" if connection.connected else "disconnected",
            ready=trouble is None,
            trouble=trouble,
            certificate_expires=_timestamp(connection.expires),
            clock_ahead=connection.clock_ahead,
            sessions=list(agent.standings.values()),
            counts=agent.tell.counts,
        )
        if policy.role == AGENT and policy.label in agent.ledger.values():
            balance = agent.ledger.balance(policy.label)
            now.loss = Loss(spent=balance.spent, cap=balance.cap)
            for one in policy.windows:
                spent = agent.ledger.spent_since(policy.label, time.time() - one.seconds)
                now.windows.append(WindowLoss(one.seconds, one.cap, spent))
        return now

    def _why_not(self) -> str | None:
        """Return why the member cannot take part in sessions, or None if it can."""
        connection = self._agent.connection
        if not connection.connected:
            return f"no connection: {connection.why}" if connection.why else "no connection"
        ahead = connection.clock_ahead
        if ahead is not None and abs(ahead) >= _WRONG_CLOCK:
            return clock_difference(ahead)
        return _expired(connection.expires) or self._agent.readiness.why_not


@final
class LatePages(StatusPages):
    """Pages of a hub or a follower that may still wait for something.

    Parameters
    ----------
    kind, name, role, hub : str
        What its status shows while it waits.
    trouble : callable
        Returns what else is wrong: the log.
    """

    def __init__(
        self,
        kind: Kind,
        name: str,
        role: str,
        hub: str,
        trouble: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._about: dict[str, Any] = {"kind": kind, "name": name, "role": role, "hub": hub}
        self._trouble = trouble
        self.pages: StatusPages | None = None
        """Those of the hub or follower, while there is one."""
        self.why = "it is starting"
        """What it waits for."""

    def document(self) -> StatusDocument:
        """Return the status of the hub or follower, or that it waits."""
        if self.pages is None:
            return StatusDocument(**self._about, state="waiting", ready=False, trouble=self.why)
        now = self.pages.document()
        if now.ready and (why := self._trouble()) is not None:
            now.ready, now.trouble = False, why
        return now


async def wait_and_run(
    run: Callable[[], Awaitable[None]], waits: Callable[[str], None], folder: Path, *, seconds: float = 5.0
) -> None:
    """Run a service, and run it again when a disk or a certificate is right.

    A full disk, and a certificate that is not valid now, are repaired while the service waits: a supervisor
    need not start it again. Every other error is raised.

    Parameters
    ----------
    waits : callable
        Called with one sentence whenever it begins to wait.
    folder : Path
        Where it keeps its data.
    """
    while True:
        try:
            return await run()
        except (DiskFull, NotCurrent) as error:
            waits(str(error))
        while True:
            await asyncio.sleep(seconds)
            with suppress(DiskFull):
                await asyncio.to_thread(require_room, folder)
                break


def _timestamp(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def _expired(expires: datetime | None) -> str | None:
    if expires is None or time.time() < expires.timestamp():
        return None
    return f"the certificate expired on {expires:%Y-%m-%d %H:%M} UTC"
