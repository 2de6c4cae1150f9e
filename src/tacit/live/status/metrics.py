"""The metrics of a status, for Prometheus: gauges of it, and its counters.

Counters are declared beside the notices that raise them. The page of metrics in the docs is made from both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from importlib import import_module
from typing import TYPE_CHECKING, Literal, get_args, get_origin, get_type_hints

from tacit.core.protocol.notices import Notice
from tacit.core.protocol.standing import MEMBER_GAUGES, Counted, Gauge, Standing
from tacit.live.status.document import HubNumbers, Kind, StatusDocument

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_Gauges = tuple[Gauge[StatusDocument], ...]


def _of_session(gauge: Gauge[Standing]) -> Gauge[StatusDocument]:
    return Gauge(gauge.name, gauge.meaning, lambda now: gauge.of(now.sessions[0]), gauge.label)


def _hub(name: str, meaning: str, of: Callable[[HubNumbers], float | None]) -> Gauge[StatusDocument]:
    return Gauge(name, meaning, lambda now: None if now.numbers is None else of(now.numbers))


def _series(name: str, meaning: str, of: Callable[[Standing], float | None]) -> Gauge[StatusDocument]:
    def by_name(now: StatusDocument) -> dict[str, float]:
        found = {one.name: of(one) for one in now.under_way() if one.series}
        return {name: value for name, value in found.items() if value is not None}

    return Gauge(f"hub_series_{name}", meaning, by_name, "series")


def _roles(now: StatusDocument) -> dict[str, float]:
    roles = list((now.connected or {}).values())
    return {role: roles.count(role) for role in ("agent", "keeper")}


def _loss(now: StatusDocument) -> dict[str, float]:
    found = {} if now.loss is None else {"spent": now.loss.spent, "cap": now.loss.cap}
    return {name: value for name, value in found.items() if value is not None}


_MEMBER: _Gauges = (
    Gauge("ready", "1 if the member can do its work: what `/readyz` says", lambda now: now.ready),
    *map(_of_session, MEMBER_GAUGES),
    Gauge(
        "connected",
        "members there is a connection to now",
        lambda now: None if now.connected is None else len(now.connected),
    ),
    Gauge("heard_timestamp_seconds", "when the last frame came in", lambda now: now.heard),
    Gauge(
        "certificate_expiry_timestamp_seconds",
        "when the member's own certificate expires",
        lambda now: now.certificate_expires,
    ),
    Gauge("last_event_timestamp_seconds", "when something last happened", lambda now: now.updated),
)
_HUB: _Gauges = (
    Gauge("hub_ready", "1 if members can use the hub: what `/readyz` says", lambda now: now.ready),
    Gauge("hub_members", "members that are connected", _roles, "role"),
    Gauge("hub_info", "1; the label is the version of tacit", lambda now: {now.version: 1}, "version"),
    _hub("hub_enrolled", "members that have ever connected", lambda hub: hub.known),
    _hub("hub_queue", "sessions that are due and not begun", lambda hub: hub.queue),
    _hub(
        "hub_last_session_participation",
        "share of the agents that took part in the last session that ended",
        lambda hub: hub.participation,
    ),
    _hub("hub_last_session_seconds", "how long the last session that ended took", lambda hub: hub.seconds),
    _hub(
        "hub_loop_lag_seconds",
        "longest delay of the event loop in the last ten seconds or so",
        lambda hub: hub.lag,
    ),
    _hub("hub_store_bytes", "size of the store and the ledger", lambda hub: hub.bytes),
    Gauge("hub_sessions_running", "sessions under way", lambda now: len(now.under_way())),
    Gauge(
        "hub_sessions",
        "sessions that the hub's store has (30 days after their expiry they go)",
        lambda now: {} if now.numbers is None else now.numbers.outcomes,
        "state",
    ),
    _hub("hub_open_invitations", "invitations that can be used", lambda hub: hub.open_invitations),
    Gauge(
        "hub_serving",
        "1 if sessions are begun, 0 if the hub is paused or draining",
        lambda now: now.state == "serving",
    ),
    _series("slots_over", "slots of a series under way that are over", lambda one: one.round),
    _series("slots_lost", "slots of it that have no mean", lambda one: one.lost),
    _series(
        "mean",
        "its last published mean, clamped to the range",
        lambda one: one.feedback[0] if one.feedback else None,
    ),
    _series(
        "deviation",
        "standard deviation of the noise in that mean, for the messages used; what missing agents would have "
        "added is not in it",
        lambda one: one.deviation,
    ),
    _series(
        "slots_incomplete",
        "slots of it in which an agent of the roster was missing",
        lambda one: one.incomplete,
    ),
    Gauge(
        "hub_certificate_expiry_timestamp_seconds",
        "when the hub's certificate expires",
        lambda now: now.certificate_expires,
    ),
)
_FOLLOWER: _Gauges = (
    Gauge("agent_ready", "1 if it can take part: what `/readyz` says", lambda now: now.ready),
    Gauge("agent_connected", "1 while connected to the hub", lambda now: now.state == "connected"),
    Gauge(
        "agent_clock_ahead_seconds",
        "how far its clock was ahead of the hub's when it connected (negative: behind); whole seconds count",
        lambda now: now.clock_ahead,
    ),
    Gauge("agent_sessions_running", "sessions under way", lambda now: len(now.under_way())),
    Gauge("agent_loss", "privacy loss of the value in all sessions, and its cap", _loss, "what"),
    Gauge(
        "agent_window_spent",
        "loss of sessions begun within a window",
        lambda now: {f"{one.seconds:g}": one.spent for one in now.windows},
        "seconds",
    ),
    Gauge(
        "agent_window_cap",
        "the owner's cap for the window",
        lambda now: {f"{one.seconds:g}": one.cap for one in now.windows},
        "seconds",
    ),
    Gauge(
        "agent_certificate_expiry_timestamp_seconds",
        "when the member's certificate expires",
        lambda now: now.certificate_expires,
    ),
)
GAUGES: dict[Kind, _Gauges] = {"member": _MEMBER, "hub": _HUB, "follower": _FOLLOWER}
_MODULES: dict[Kind, str] = {
    "member": "tacit.core.protocol.notices",
    "hub": "tacit.live.fleet.hub_notices",
    "follower": "tacit.live.fleet.follower_notices",
}
"""Where the notices of each kind of process are."""


def counters(kind: Kind) -> dict[Counted, tuple[str, ...]]:
    """Return the counters of a kind of process, and their labels' values."""
    found = [what for what in vars(import_module(_MODULES[kind])).values() if isinstance(what, type)]
    return {
        counted: _label_values(what, counted.label)
        for what in found
        if issubclass(what, Notice)
        for counted in what.counted
    }


def _label_values(kind: type[Notice], label: str) -> tuple[str, ...]:
    """Return the values that a label can have; empty without a label."""
    if not label:
        return ("",)
    hint = get_type_hints(kind)[label]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return tuple(one.name.lower() for one in hint)
    if get_origin(hint) is not Literal:
        raise TypeError(f"the label {label!r} of {kind.__name__} must be an Enum or a Literal: others grow")
    return get_args(hint)


def exposition(now: StatusDocument) -> bytes:
    """Return the metrics of a status as Prometheus reads them."""
    from prometheus_client import generate_latest
    from prometheus_client.registry import Collector, CollectorRegistry

    class Collected(Collector):
        def collect(self) -> Iterator[Metric]:
            return _families(now)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collected())
    return generate_latest(registry)


def _families(now: StatusDocument) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    whose = {"session": now.sessions[0].name, "member": now.name} if now.kind == "member" else {}
    for gauge in GAUGES[now.kind]:
        value = gauge.of(now)
        if value is not None:
            labels = [*whose, gauge.label] if gauge.label else list(whose)
            family = GaugeMetricFamily(f"tacit_{gauge.name}", gauge.meaning, labels=labels)
            for label, number in value.items() if isinstance(value, Mapping) else [("", value)]:
                family.add_metric([*whose.values(), label] if gauge.label else list(whose.values()), number)
            yield family
    for counted, values in counters(now.kind).items():
        labels = [*whose, counted.label] if counted.label else list(whose)
        raised = CounterMetricFamily(f"tacit_{counted.name}", counted.meaning, labels=labels)
        known = now.counts.get(counted.name, {})
        for label in values:  # from the start: the first increase would not be seen otherwise
            raised.add_metric(
                [*whose.values(), label] if label else list(whose.values()), known.get(label, 0)
            )
        yield raised
