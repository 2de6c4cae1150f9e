"""What a running process shows of itself, for people and programs.

`tacit status` prints it, and the studio's page has the same rows.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from tacit.base.report import Grid, Row, Shown, Summary, counted, near, up
from tacit.core.protocol.standing import Loss, Standing
from tacit.live.status.document import StatusDocument
from tacit.live.status.metrics import counters

_NAMES = 5  # that are listed; of more only the number is shown
_MEANS = 4
_IDLE = 10.0
_DAY = 86_400.0

REASONS = {
    "busy": "as many sessions are under way as the owner allows",
    "cap": "the loss would exceed the owner's cap",
    "clock": "the member's clock was set back, or was ahead before",
    "components": "it has more numbers than the owner allows",
    "delta": "its δ is more than the owner allows",
    "expired": "it has expired or closed; compare the clocks",
    "hides": "the series does not hide what the owner wants",
    "keepers": "the owner trusts none of its keepers",
    "ledger": "the ledger is of an older version",
    "long": "it lasts longer than the owner allows",
    "other": "for a reason that this version does not know",
    "pause": "it comes too soon after the one before",
    "question": "the owner does not answer this question",
    "range": "its range is not the owner's",
    "roster": "it does not name the member with its key",
    "rounds": "it has more rounds than the owner allows",
    "series": "the owner accepts no series",
    "source": "the value cannot be read",
    "topology": "it has no coordinator",
    "unable": "the machine is in trouble; its log says which",
    "version": "the member is too old: upgrade it",
}
"""What the words mean with which members refuse a session."""


@final
@dataclass(frozen=True)
class StatusReport(Shown):
    """A status as `read_status` returned it. Nothing private is in it."""

    found: StatusDocument

    def as_dict(self) -> dict[str, Any]:
        """Return the status as it was served."""
        return self.found.as_dict()

    def summary(self) -> Summary:
        """Return the state, everything that is known, and what is wrong."""
        now = time.time()
        rows = [Row("state", self.found.state), *self.rows(now)]
        rows += [Row("trouble", alarm) for alarm in self.alarms(now)]
        return Summary(self.title, {"": rows})

    @property
    def title(self) -> str:
        """Who it is."""
        found = self.found
        match found.kind:
            case "hub":
                return f"hub at {found.hub}"
            case "follower":
                return f"{found.name}, {found.role} of the hub at {found.hub}"
            case _:
                return f"{found.name} of session {found.sessions[0].name}"

    @property
    def loss(self) -> Loss:
        """The loss of a member's or a follower's value, as far as there is one."""
        found = self.found
        return (found.sessions[0].loss if found.kind == "member" else found.loss) or Loss()

    @property
    def connected(self) -> str:
        """How many members of each role are connected."""
        roles = sorted(Counter((self.found.connected or {}).values()).items())
        return ", ".join(counted(n, role) for role, n in roles) or "nobody"

    def rows(self, now: float) -> list[Row]:
        """Return everything that is known, but for the state."""
        found = self.found
        rows = _session_rows(found.sessions[0]) if found.kind == "member" else self._sessions()
        if found.connected is not None:
            names = _few(sorted(found.connected))
            rows.append(Row("connected", self.connected + (f": {names}" if names else "")))
        if found.numbers is not None:
            rows += _refusing(found.numbers.refusing)
        rows += self._counts()
        if parts := _loss(self.loss):
            rows.append(Row("loss", parts))
        for window in found.windows:
            over = ago(window.seconds).removesuffix(" ago")
            rows.append(Row(f"loss within {over}", f"{up(window.spent)} spent, {up(window.cap)} cap"))
        if found.numbers is not None:
            rows.append(Row("invitations", str(found.numbers.open_invitations), "can still be used"))
        if found.heard is not None:
            rows.append(Row("last heard", ago(now - found.heard)))
        idle = now - (found.updated or now)
        if idle >= _IDLE and found.state in ("running", "disconnected"):
            rows.append(Row("last event", ago(idle)))
        if found.certificate_expires is not None:
            left = (found.certificate_expires - now) / _DAY
            rows.append(Row("certificate", f"valid for {left:,.1f} more days" if left > 0 else "has expired"))
        return rows

    def _sessions(self) -> list[Row]:
        found = self.found
        under_way = found.under_way()
        rows = [Row("under way", _few([one.name for one in under_way]) or "no session")]
        rows += [Row(f"series {one.name}", _series(one)) for one in under_way if one.series]
        if found.numbers is not None:
            rows.append(
                Row("sessions", _labelled(found.numbers.outcomes) or "none yet", "as far as they are kept")
            )
        if last := next((one for one in reversed(found.sessions) if one.feedback or one.answer), None):
            rows.append(
                Row(
                    "last mean" if last.feedback else "last answer",
                    f"{_means(last)} ({last.name}, {last.phase})",
                )
            )
        return rows

    def _counts(self) -> list[Row]:
        """Return what notices have counted, with the meanings beside the notices."""
        rows = []
        for one in counters(self.found.kind):
            known = {label: count for label, count in self.found.counts.get(one.name, {}).items() if count}
            if known:
                name = one.name.removeprefix("hub_").removeprefix("agent_").replace("_", " ")
                rows.append(Row(name, _labelled(known), f"{one.meaning}, since the start"))
        return rows

    def alarms(self, now: float) -> tuple[str, ...]:
        """Return what is wrong, in sentences."""
        found = self.found
        alarms = [] if found.trouble is None else [found.trouble]
        for one in found.sessions:
            if one.equivocated:
                who = _few(one.equivocated)
                alarms.append(
                    f"sent two different messages for one round: {who} (`tacit verify` has the proof)"
                )
            if one.lost_history:
                alarms.append("others have more rounds than this ledger: it is not the newest")
            if one.behind:
                alarms.append(f"{counted(one.behind, 'round')} behind the others")
        expires = found.certificate_expires
        if expires is not None and expires <= now and "certificate" not in (found.trouble or ""):
            alarms.append("the certificate has expired")
        return tuple(alarms)

    def ended(self, now: float, most: int) -> Grid | None:
        """Return the last sessions of a hub, the newest first."""
        rows = [
            (
                one.name,
                one.phase,
                f"{one.round:,}" if one.round else "",
                "" if one.used is None else f"{one.used} of {one.agents}",
                _means(one),
                "" if one.radius is None else f"± {up(one.radius, 3)}",
                "" if one.ended is None else ago(now - one.ended),
            )
            for one in reversed(self.found.sessions[-most:])
        ]
        columns = ("session", "state", "rounds", "agents used", "result", "within", "ended")
        found = self.found.kind == "hub" and rows
        return Grid("Last sessions", columns, rows, right=(2, 3, 4, 5, 6)) if found else None


def _session_rows(one: Standing) -> list[Row]:
    rows = [Row("round", f"{one.round} of {one.rounds}")]
    if one.present is not None:
        rows.append(Row("present", f"{one.present} of {one.agents}"))
    if one.used is not None:
        rows.append(Row("messages used", str(one.used)))
    rows += [Row(name, _few(who)) for name, who in (("late", one.late), ("quiet", one.quiet)) if who]
    if one.feedback:
        rows.append(Row("feedback", _means(one)))
    rows += [Row(part.name, near(part.estimate), "of the answer; public") for part in one.answer or []]
    if one.deviation is not None:
        rows.append(Row("noise in it", up(one.deviation), "standard deviation, for the agents used"))
    if one.absences:
        rows.append(Row("missing from it", one.absences))
    return rows


def _series(one: Standing) -> str:
    """Say how far a series is, its last mean, and its loss; all public."""
    mean = f", last mean {_means(one)}" if one.feedback else ""
    noise = "" if one.deviation is None else f", noise {up(one.deviation, 4)}"
    noise += f" ({one.absences})" if one.absences else ""
    cost = "" if one.loss is None or one.loss.planned is None else f"; loss {up(one.loss.planned)} for all"
    return f"{one.round:,} of {one.rounds:,} slots over, {one.lost:,} lost{mean}{noise}{cost}"


def _means(one: Standing) -> str:
    means = [near(mean) for mean in one.feedback or []]
    means += [f"{part.name}: {near(part.estimate)}" for part in one.answer or []]
    return ", ".join(means[:_MEANS]) + (", …" if len(means) > _MEANS else "")


def _loss(loss: Loss) -> str:
    parts = {"spent": loss.spent, "planned": loss.planned, "cap": loss.cap}
    return ", ".join(f"{up(value)} {name}" for name, value in parts.items() if value is not None)


def _labelled(found: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}".strip() for name, count in sorted(found.items()))


def _refusing(words: Mapping[str, str]) -> list[Row]:
    """Return who refuses, a row for each reason."""
    who: dict[str, list[str]] = {}
    for name, word in words.items():
        who.setdefault(word if word in REASONS else "other", []).append(name)
    return [Row("refuse", f"{_few(names)}: {REASONS[word]}") for word, names in sorted(who.items())]


def _few(names: Sequence[str]) -> str:
    more = len(names) - _NAMES
    return ", ".join(names[:_NAMES]) + (f" and {more} more" if more > 0 else "")


def ago(seconds: float) -> str:
    """Return how long ago something was, in words."""
    for size, name in ((_DAY, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name} ago"
    return f"{max(seconds, 0.0):.0f} s ago"
