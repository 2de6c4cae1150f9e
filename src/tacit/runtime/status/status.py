"""The status of a running member: a snapshot and metrics.

Pass `Status.notice` to a node as its `watch`, and the status itself as one of its `takers`. It keeps only
public data and counts: the feedback, never a state, a value or a draw. `tacit.runtime.status.server` answers
``/status`` (JSON) and ``/metrics`` (Prometheus).
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np

from tacit.protocol.codec import Codec, as_array
from tacit.protocol.effects import (
    Answered,
    Behind,
    Cost,
    DisputeFound,
    Equivocated,
    FellSilent,
    Finished,
    Forgotten,
    LostHistory,
    MeanPublished,
    Nonsense,
    Notice,
    OverCap,
    Quiet,
    Refused,
    RoundClosed,
    RoundOpened,
    SlotMissed,
    Spoken,
    Stopped,
    Updated,
    Waiting,
    Weighed,
)
from tacit.protocol.messages import COORDINATOR, Message
from tacit.protocol.records import Closed, Moved, Record
from tacit.protocol.session import Session
from tacit.theory.advice import absences

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from prometheus_client.registry import CollectorRegistry

    from tacit.runtime.transport.base import Network

_MOST_COMPONENTS = 32
_MOST_EQUIVOCATIONS = 100


@final
@dataclass
class Snapshot:
    """A member's progress in a session; anyone on this machine may see it.

    Attributes
    ----------
    phase : str
        waiting, running, disconnected, finished, stopped, or refused (the cap). A member that would be
        waiting or running but has no connection is disconnected.
    round, rounds : int
        The round that is open (or the updates an agent has made), and how many there are in all.
    present : int or None
        How many agents the coordinator saw when the round was opened.
    used : int or None
        How many messages are in the last feedback.
    late : list of str
        Members whose message is missing: it came too late in the last round, or the round waits for it.
    quiet : list of str
        Members that announced that they send nothing more.
    refused : dict
        How many received frames were refused, by reason.
    loss : dict or None
        Of an agent: spent so far, planned for this session, and the owner's cap.
    weight : dict or None
        Of an agent, at the end: the weight of its value in the last feedback, and its share.
    trouble : str or None
        What is wrong, in one sentence: why there is no connection, for example.
    connected : list of str or None
        Members to which there is a connection now.
    heard : float or None
        When the last frame came in, in seconds since 1970.
    certificate_expires : float or None
        When the own certificate expires, in seconds since 1970.
    feedback : list of float or None
        The last feedback, its first components, clamped to the session's range. Public.
    deviation : float or None
        Of a series: the standard deviation of the noise in the last mean, for the messages used. What missing
        agents would have added is not in it.
    absences : str or None
        Of a series: who is missing from the last mean, and in how many earlier slots that still count.
    updated : float
        When something last happened, in seconds since 1970.
    """

    session: str
    id: str
    member: str
    topology: str
    agents: int
    rounds: int
    phase: str = "waiting"
    round: int = 0
    present: int | None = None
    used: int | None = None
    late: list[str] = field(default_factory=list)
    quiet: list[str] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)
    equivocations: list[dict[str, Any]] = field(default_factory=list)
    behind: int | None = None
    lost_history: bool = False
    loss: dict[str, float] | None = None
    weight: dict[str, float] | None = None
    trouble: str | None = None
    connected: list[str] | None = None
    heard: float | None = None
    certificate_expires: float | None = None
    feedback: list[float] | None = None
    deviation: float | None = None
    absences: str | None = None
    updated: float = 0.0


@final
class Status:
    """Keeps the snapshot of one member up to date.

    Parameters
    ----------
    session : Session
    who : int
        The agent's number, or `COORDINATOR`.
    clock : callable
        Seconds since 1970.
    """

    def __init__(
        self, session: Session, who: int = COORDINATOR, clock: Callable[[], float] = time.time
    ) -> None:
        self._session, self._codec, self._clock, self._who = session, Codec(session), clock, who
        self._network: Callable[[], Network] | None = None
        self._refused: Counter[str] = Counter()
        self.snapshot = Snapshot(
            session=session.name,
            id=session.id.hex(),
            member=session.member_name(who),
            topology=session.topology,
            agents=session.n,
            rounds=session.rounds,
            updated=clock(),
        )

    def watch_network(self, network: Callable[[], Network]) -> None:
        """Show the member's connections; each request calls `network`."""
        self._network = network

    @property
    def current(self) -> Snapshot:
        """The snapshot, with the connections as they are now."""
        if self._network is None:
            return self.snapshot
        network, now, shown = self._network(), self._clock(), replace(self.snapshot)
        shown.connected, shown.heard = self._names(network.connected), network.heard
        shown.trouble = network.trouble or shown.trouble
        if network.expires is not None:
            shown.certificate_expires = network.expires.timestamp()
            if now >= shown.certificate_expires:
                when = f"{network.expires:%Y-%m-%d %H:%M} UTC"
                shown.trouble = f"the certificate expired on {when}: renew it (tacit keys renew)"
        # A coordinator without connections is not disconnected: agents connect to it.
        alone = ("running",) if self._who == COORDINATOR else ("waiting", "running")
        if not network.connected and shown.phase in alone:
            shown.phase = "disconnected"
        return shown

    def not_ready(self) -> str | None:
        """Return why the member cannot do its work now, or None if it can."""
        now = self.current
        if now.certificate_expires is not None and self._clock() >= now.certificate_expires:
            return now.trouble
        if now.lost_history:
            return "this ledger is not the newest: it was restored from a backup"
        reasons = {
            "disconnected": f"no connection: {now.trouble}" if now.trouble else "no connection",
            "stopped": "the session was stopped",
            "refused": "the cap does not allow this session",
        }
        return reasons.get(now.phase)

    def update(self, **fields: Any) -> None:
        """Set fields of the snapshot."""
        for name, value in fields.items():
            if not hasattr(self.snapshot, name):
                raise TypeError(f"a status has no {name!r}")
            setattr(self.snapshot, name, value)
        self.snapshot.updated = self._clock()

    def notice(self, notice: Notice) -> None:
        """Take a notice of the machine."""
        self.update(**self._fields(notice))

    def _fields(self, notice: Notice) -> dict[str, Any]:  # noqa: PLR0911, PLR0912
        """Return the changed fields: one case for each kind of notice."""
        names, now = self._names, self.snapshot
        match notice:
            case RoundOpened():
                return {"phase": "running", "round": notice.round, "present": notice.present}
            case RoundClosed():
                done = {"round": notice.round + 1, "used": len(notice.used), "late": names(notice.missing)}
                return {**done, "phase": "running"}
            case Waiting():
                return {"round": notice.round, "late": names(notice.missing)}
            case Updated():
                done = {"round": notice.round + 1, "used": notice.count}
                return {**done, "phase": "running", "behind": None}
            case MeanPublished():
                done = {"round": notice.slot + 1, "used": notice.count, "phase": "running", "behind": None}
                if notice.mean is None:
                    return done
                missing = absences(notice.count, self._session.n, notice.incomplete_before)
                mean = {"feedback": [self._session.clamp(notice.mean)], "deviation": notice.deviation}
                return done | mean | {"absences": missing or None}
            case SlotMissed():
                why = "there is no reading" if notice.unread else "a keeper's key is missing"
                return {"trouble": f"no message for slot {notice.slot}: {why}"}
            case Behind():
                return {"behind": notice.open - notice.round}
            case Refused():
                self._refused[notice.reason.name.lower()] += 1
                return {"refused": dict(self._refused)}
            case Cost() | OverCap():
                loss = {"spent": notice.spent, "planned": notice.planned, "cap": notice.cap}
                return {"loss": loss} | ({"phase": "refused"} if isinstance(notice, OverCap) else {})
            case Answered():
                return {"phase": "running", "round": notice.update + 1, "used": notice.count, "late": []}
            case Nonsense():
                return {"trouble": f"the sum of round {notice.round} is nonsense: someone lied"}
            case Spoken():
                return {"loss": {**(now.loss or {}), "spent": notice.spent}, "phase": "running"}
            case FellSilent():
                return {"loss": {**(now.loss or {}), "spent": notice.spent, "cap": notice.cap}}
            case Equivocated():
                one = {"sender": self._session.member_name(notice.sender), "round": notice.round}
                return {"equivocations": [*now.equivocations, one][-_MOST_EQUIVOCATIONS:]}
            case Quiet():
                return {"quiet": sorted({*now.quiet, *names([notice.who])})}
            case LostHistory():
                return {"lost_history": True}
            case Forgotten():
                return {"trouble": f"the coordinator has lost its ledger: it asks for round {notice.asked}"}
            case Weighed():
                return {"weight": {"weight": notice.weight, "share": notice.share}}
            case Finished():
                return {"phase": "finished", "round": notice.rounds, "late": []}
            case Stopped() | DisputeFound():
                return {"phase": "stopped", "round": notice.round, "late": []}

    def _names(self, agents: Iterable[int]) -> list[str]:
        return [self._session.member_name(i) for i in agents]

    def take(self, records: Iterable[Record]) -> None:
        """Take the feedback from saved records, and nothing else of them."""
        if self._session.series is not None:
            return  # records have sums; the means of a series come with notices
        for record in records:
            match record:
                case Closed():
                    self._feedback(record.frame)
                case Moved() if self._session.topology == "server" and record.heard:
                    self._feedback(record.heard[0])
                case Moved():  # public: the mean of messages that neighbours have received
                    self._show(self._codec.unpack(record.y))
                case _:
                    pass

    def _feedback(self, frame: bytes) -> None:
        message = self._codec.open(frame)
        if isinstance(message, Message):
            self._show(message.numbers)

    def _show(self, numbers: tuple[int, ...]) -> None:
        values = self._session.lattice.value(as_array(numbers[:_MOST_COMPONENTS]))
        self.update(feedback=self._session.clamp(np.atleast_1d(values)).tolist())

    def json(self) -> bytes:
        """Return the snapshot as JSON."""
        return json.dumps(asdict(self.current), indent=2).encode() + b"\n"

    def metrics(self) -> bytes:
        """Return the snapshot in the format of Prometheus."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry())

    def registry(self) -> CollectorRegistry:
        """Return a registry of its own with this member's metrics."""
        from prometheus_client.registry import Collector, CollectorRegistry

        made, snapshot = CollectorRegistry(auto_describe=False), self.current
        ready = self.not_ready() is None

        class Collected(Collector):
            def collect(self) -> Iterator[Metric]:
                return _metrics(snapshot, ready)

        made.register(Collected())
        return made


def _metrics(now: Snapshot, ready: bool) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    labels, who = ["session", "member"], [now.session, now.member]
    gauges: dict[str, tuple[str, float | None]] = {
        "ready": ("1 if the member can do its work: what /readyz says.", int(ready)),
        "round": ("Rounds that are over, or updates made.", now.round),
        "rounds": ("Rounds of the whole session.", now.rounds),
        "agents": ("Agents on the roster.", now.agents),
        "present": ("Agents present when the round was opened.", now.present),
        "messages_used": ("Messages that the last feedback is the mean of.", now.used),
        "deviation": ("Standard deviation of the noise in the last mean of a series.", now.deviation),
        "late": ("Agents not waited for, or waited for now.", len(now.late)),
        "quiet": ("Agents that will not speak any more.", len(now.quiet)),
        "behind_rounds": ("Rounds that others are ahead.", now.behind or 0),
        "lost_history": ("1 if this ledger is not the newest.", int(now.lost_history)),
        "finished": ("1 when all rounds are made.", int(now.phase == "finished")),
        "connected": (
            "Members there is a connection to.",
            None if now.connected is None else len(now.connected),
        ),
        "heard_timestamp_seconds": ("When the last frame came in.", now.heard),
        "certificate_expiry_timestamp_seconds": (
            "When the own certificate expires.",
            now.certificate_expires,
        ),
        "last_event_timestamp_seconds": ("When something last happened.", now.updated),
    }
    loss = now.loss or {}
    for name in ("spent", "planned", "cap"):
        gauges[f"loss_{name}"] = (f"Privacy loss of this agent's value: {name}.", loss.get(name))
    for name, (what, value) in gauges.items():
        if value is not None:
            family = GaugeMetricFamily(f"tacit_{name}", what, labels=labels)
            family.add_metric(who, value)
            yield family
    refused = CounterMetricFamily("tacit_refused", "Frames refused, by reason.", labels=[*labels, "reason"])
    for reason, count in sorted(now.refused.items()):
        refused.add_metric([*who, reason], count)
    yield refused
    twice = CounterMetricFamily("tacit_equivocations", "Contradictions that were proved.", labels=labels)
    twice.add_metric(who, len(now.equivocations))
    yield twice
    feedback = GaugeMetricFamily(
        "tacit_feedback", "The last feedback, clamped to the range; public.", labels=[*labels, "component"]
    )
    for k, y in enumerate(now.feedback or []):
        feedback.add_metric([*who, str(k)], y)
    yield feedback
