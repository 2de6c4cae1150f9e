"""Status pages of hubs and followers: counts and public means only."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from tacit.errors import DiskFull, NotCurrent
from tacit.files import require_room
from tacit.runtime.fleet.messages import AGENT
from tacit.runtime.fleet.store import as_facts
from tacit.runtime.transport.connection_diagnosis import clock_difference
from tacit.runtime.transport.link import own_version

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from tacit.runtime.fleet.follower import FleetAgent
    from tacit.runtime.fleet.hub import Hub
    from tacit.runtime.status.server import StatusPages

_LAST = 20
_WRONG_CLOCK = 300.0
"""Seconds between two clocks that make an agent not ready: sessions of a hub last 600 s at least."""
_Gauges = dict[str, tuple[str, dict[str, float], str | None]]
"""By name: what it means, its values by label, and the label's name (None for one value without label)."""


@final
class HubPages:
    """A hub's status and metrics, for a `StatusServer`."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def facts(self) -> dict[str, Any]:
        """Return what `/status` shows."""
        hub = self._hub
        expires = hub.gateway.expires
        return {
            "hub": hub.store.setting("address"),
            "state": hub.state,
            "trouble": self.not_ready(),
            "members": {name: member.role for name, member in sorted(hub.gateway.members.items())},
            "running": [session.name for session in hub.running()],
            "outcomes": hub.store.outcomes(),
            "refusals": dict(hub.refusals),
            "rounds": hub.rounds,
            "enrolled": hub.enrolled,
            "open_invitations": hub.store.open_invitations(time.time()),
            "certificate_expires": None if expires is None else expires.timestamp(),
            "sessions": as_facts(hub.store.sessions(most=_LAST)),
            "series": hub.series(),
            "version": own_version(),
            "known": hub.store.count_members(),
            "queue": hub.queue,
            "lag": hub.lag,
            "bytes": hub.bytes,
            "participation": hub.participation,
            "seconds": hub.seconds,
        }

    def json(self) -> bytes:
        """Return the status as JSON."""
        return json.dumps(self.facts(), indent=2).encode() + b"\n"

    def not_ready(self) -> str | None:
        """Return why members cannot use the hub now, or None if they can.

        A hub that is paused or draining still serves its members.
        """
        return _expired(self._hub.gateway.expires) or self._hub.unwritable

    def metrics(self) -> bytes:
        """Return the metrics as Prometheus reads them."""
        facts = self.facts()
        roles = list(facts["members"].values())
        gauges: _Gauges = {
            "hub_ready": ("1 if members can use the hub: what /readyz says.", _ready(facts), None),
            "hub_members": (
                "Members that are connected.",
                {role: roles.count(role) for role in ("agent", "keeper")},
                "role",
            ),
            "hub_info": ("1; the version of tacit is its label.", {facts["version"]: 1.0}, "version"),
            "hub_enrolled": ("Members that have ever connected.", {"": facts["known"]}, None),
            "hub_queue": ("Sessions that are due and not begun.", {"": facts["queue"]}, None),
            "hub_loop_lag_seconds": (
                "Longest delay of the event loop in the last ten seconds or so.",
                {"": facts["lag"]},
                None,
            ),
            "hub_store_bytes": ("Size of the store and the ledger.", {"": facts["bytes"]}, None),
            "hub_last_session_participation": (
                "Share of the agents that took part in the last session that ended.",
                {} if facts["participation"] is None else {"": facts["participation"]},
                None,
            ),
            "hub_last_session_seconds": (
                "How long the last session that ended took.",
                {} if facts["seconds"] is None else {"": facts["seconds"]},
                None,
            ),
            "hub_sessions_running": ("Sessions under way.", {"": len(facts["running"])}, None),
            "hub_sessions": ("Sessions by state, as far as they are kept.", facts["outcomes"], "state"),
            "hub_open_invitations": ("Invitations that can be used.", {"": facts["open_invitations"]}, None),
            "hub_serving": ("1 if sessions are begun, 0 if paused or draining.", _flag(facts["state"]), None),
            "hub_certificate_expiry_timestamp_seconds": (
                "When the hub's certificate expires.",
                {} if facts["certificate_expires"] is None else {"": facts["certificate_expires"]},
                None,
            ),
        }
        gauges |= _of_series(facts["series"])
        counters: _Gauges = {
            "hub_refusals": ("Sessions that agents did not join, by reason.", facts["refusals"], "reason"),
            "hub_rounds": ("Rounds of sessions that ended since the start.", {"": facts["rounds"]}, None),
            "hub_enrolments": ("Members enrolled since the start.", {"": facts["enrolled"]}, None),
            "hub_sessions_started": ("Sessions begun since the start.", {"": self._hub.started}, None),
        }
        return _written(gauges, counters)


@final
class LatePages:
    """Pages of a hub or a follower that may still wait for something.

    Parameters
    ----------
    kind : str
        hub or agent.
    facts : dict
        What its status shows while it waits.
    trouble : callable
        Returns what else is wrong: the log.
    """

    def __init__(
        self, kind: str, facts: dict[str, Any], trouble: Callable[[], str | None] = lambda: None
    ) -> None:
        self._kind, self._facts, self._trouble = kind, facts, trouble
        self.pages: StatusPages | None = None
        """Those of the hub or follower, while there is one."""
        self.why = "it is starting"
        """What it waits for."""

    def json(self) -> bytes:
        """Return the status as JSON."""
        if self.pages is not None:
            return self.pages.json()
        return json.dumps({**self._facts, "trouble": self.why}, indent=2).encode() + b"\n"

    def not_ready(self) -> str | None:
        """Return why the work cannot be done now, or None if it can."""
        return self.why if self.pages is None else self.pages.not_ready() or self._trouble()

    def metrics(self) -> bytes:
        """Return the metrics as Prometheus reads them."""
        if self.pages is not None:
            return self.pages.metrics()
        return _written({f"{self._kind}_ready": ("0: it waits, and /readyz says why.", {"": 0.0}, None)}, {})


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


@final
class AgentPages:
    """A follower's status and metrics, for a `StatusServer`."""

    def __init__(self, agent: FleetAgent) -> None:
        self._agent = agent

    def facts(self) -> dict[str, Any]:
        """Return what `/status` shows."""
        agent = self._agent
        policy, tally, expires = agent.policy, agent.tally, agent.connection.expires
        facts: dict[str, Any] = {
            "member": agent.name,
            "role": policy.role,
            "hub": policy.hub,
            "connected": agent.connection.connected,
            "clock_ahead": agent.connection.clock_ahead,
            "trouble": self.not_ready(),
            "sessions_running": agent.sessions,
            "joined": tally.joined,
            "finished": tally.finished,
            "stopped": tally.stopped,
            "rounds": tally.rounds,
            "refused": dict(tally.refused),
            "slots": {what: tally.slots[what] for what in ("sent", "unsent", "published", "lost")},
            "readings_failed": tally.unread,
            "certificate_expires": None if expires is None else expires.timestamp(),
        }
        if policy.role == AGENT and policy.label in agent.ledger.values():
            balance = agent.ledger.balance(policy.label)
            facts["loss"] = {"spent": balance.spent, "cap": balance.cap}
            facts["windows"] = [
                {
                    "seconds": window.seconds,
                    "cap": window.cap,
                    "spent": agent.ledger.spent_since(policy.label, time.time() - window.seconds),
                }
                for window in policy.windows
            ]
        return facts

    def json(self) -> bytes:
        """Return the status as JSON."""
        return json.dumps(self.facts(), indent=2).encode() + b"\n"

    def not_ready(self) -> str | None:
        """Return why the member cannot take part in sessions, or None if it can."""
        connection = self._agent.connection
        if not connection.connected:
            return f"no connection: {connection.why}" if connection.why else "no connection"
        ahead = connection.clock_ahead
        if ahead is not None and abs(ahead) >= _WRONG_CLOCK:
            return clock_difference(ahead)
        return _expired(connection.expires) or self._agent.readiness.why_not

    def metrics(self) -> bytes:
        """Return the metrics as Prometheus reads them."""
        facts = self.facts()
        loss, windows = facts.get("loss", {}), facts.get("windows", [])
        gauges: _Gauges = {
            "agent_ready": ("1 if it can take part: what /readyz says.", _ready(facts), None),
            "agent_connected": ("1 while connected to the hub.", {"": int(facts["connected"])}, None),
            "agent_clock_ahead_seconds": (
                "How far this machine's clock was ahead of the hub's when it connected.",
                {} if facts["clock_ahead"] is None else {"": facts["clock_ahead"]},
                None,
            ),
            "agent_sessions_running": ("Sessions under way.", {"": facts["sessions_running"]}, None),
            "agent_loss": ("Privacy loss of the value: spent, and the cap.", loss, "what"),
            "agent_window_spent": (
                "Loss of sessions begun within the window.",
                {f"{one['seconds']:g}": one["spent"] for one in windows},
                "seconds",
            ),
            "agent_window_cap": (
                "Cap of the window.",
                {f"{one['seconds']:g}": one["cap"] for one in windows},
                "seconds",
            ),
            "agent_certificate_expiry_timestamp_seconds": (
                "When the member's certificate expires.",
                {} if facts["certificate_expires"] is None else {"": facts["certificate_expires"]},
                None,
            ),
        }
        outcomes = {state: facts[state] for state in ("joined", "finished", "stopped")}
        counters: _Gauges = {
            "agent_sessions": ("Sessions since the start.", outcomes, "state"),
            "agent_rounds": ("Rounds of sessions that ended since the start.", {"": facts["rounds"]}, None),
            "agent_refusals": ("Sessions not joined, by reason.", facts["refused"], "reason"),
            "agent_slots": ("Slots of series since the start.", facts["slots"], "what"),
            "agent_readings_failed": (
                "Slots of series in which the source of the value gave no new reading.",
                {"": facts["readings_failed"]},
                None,
            ),
        }
        return _written(gauges, counters)


def _of_series(series: dict[str, dict[str, Any]]) -> _Gauges:
    """Return the gauges of series under way, by their names."""

    def by_name(fact: str) -> dict[str, float]:
        return {name: facts[fact] for name, facts in series.items() if facts[fact] is not None}

    return {
        "hub_series_slots_over": ("Slots of a series that are over.", by_name("over"), "series"),
        "hub_series_slots_lost": ("Slots of a series that have no mean.", by_name("lost"), "series"),
        "hub_series_mean": ("Last published mean of a series, public.", by_name("mean"), "series"),
        "hub_series_deviation": (
            "Standard deviation of the noise in that mean; missing agents are not in it.",
            by_name("deviation"),
            "series",
        ),
        "hub_series_slots_incomplete": (
            "Slots of a series in which an agent was missing.",
            by_name("incomplete"),
            "series",
        ),
    }


def _expired(expires: datetime | None) -> str | None:
    if expires is None or time.time() < expires.timestamp():
        return None
    return f"the certificate expired on {expires:%Y-%m-%d %H:%M} UTC"


def _ready(facts: dict[str, Any]) -> dict[str, float]:
    return {"": float(facts["trouble"] is None)}


def _flag(state: str) -> dict[str, float]:
    return {"": float(state == "serving")}


def _written(gauges: _Gauges, counters: _Gauges) -> bytes:
    from prometheus_client import generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.registry import Collector, CollectorRegistry

    class FleetCollected(Collector):
        def collect(self) -> Iterator[Metric]:
            for kind, families in ((GaugeMetricFamily, gauges), (CounterMetricFamily, counters)):
                for name, (what, values, label) in families.items():
                    made: Metric = kind(f"tacit_{name}", what, labels=[] if label is None else [label])
                    for key, value in sorted(values.items()):
                        made.add_metric([] if label is None else [key], value)  # type: ignore[attr-defined]
                    yield made

    registry = CollectorRegistry(auto_describe=False)
    registry.register(FleetCollected())
    return generate_latest(registry)
