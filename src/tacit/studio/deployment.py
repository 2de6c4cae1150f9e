"""A running session, as its members show themselves on this machine."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from tacit.errors import InputError
from tacit.report import near
from tacit.rounding import shown_up
from tacit.runtime.status.reader import read_status, status_url

MOST_PORTS = 64
_NAMES = 8


@dataclass(frozen=True)
class MemberStatus:
    """One member in words: where it is in its session, what it has lost, what is wrong."""

    port: int
    name: str
    session: str
    phase: str
    round: int
    rounds: int
    here: str = ""
    late: str = ""
    quiet: str = ""
    feedback: str = ""
    loss: str = ""
    share: float | None = None  # of the cap that is spent
    alarms: tuple[str, ...] = ()
    silent_for: str = ""


@dataclass(frozen=True)
class Deployment:
    """What was seen at all ports in one look."""

    members: tuple[MemberStatus, ...] = ()
    absent: dict[int, str] = field(default_factory=dict)  # port → why there is nothing
    feedback: dict[int, tuple[int, float]] = field(default_factory=dict)  # port → rounds that are over, and y


def ports_named(text: str) -> tuple[int, ...]:
    """Read ports of this machine, like "9464, 9470-9475"."""
    found: list[int] = []
    for part in text.replace(",", " ").split():
        first, dash, last = part.partition("-")
        low, high = _port(first), _port(last if dash else first)
        if high - low >= MOST_PORTS:
            raise InputError(f"give at most {MOST_PORTS} ports, got {part!r}.")
        found += range(low, high + 1)
    if len(found) > MOST_PORTS:
        raise InputError(f"give at most {MOST_PORTS} ports, got {len(found)}.")
    return tuple(dict.fromkeys(found))


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise InputError(f"{text!r} is not a port of this machine.")
    status_url(text)  # refuses what is out of range, in the words of `tacit status`
    return int(text)


def look(ports: tuple[int, ...], now: float | None = None) -> Deployment:
    """Ask every port for its status, all at once."""
    with ThreadPoolExecutor(max_workers=16) as crew:
        seen = list(crew.map(_ask, ports))
    at = time.time() if now is None else now
    found = {port: one for port, one in zip(ports, seen, strict=True) if isinstance(one, dict)}
    return Deployment(
        members=tuple(member(port, one, at) for port, one in found.items()),
        absent={port: one for port, one in zip(ports, seen, strict=True) if isinstance(one, str)},
        feedback={
            port: (int(one["round"]), float(one["feedback"][0]))
            for port, one in found.items()
            if one.get("feedback")
        },
    )


def _ask(port: int) -> dict[str, Any] | str:
    try:
        return read_status(status_url(str(port)), seconds=2.0)
    except InputError as error:
        return str(error)


def member(port: int, found: dict[str, Any], now: float) -> MemberStatus:
    """Put one status into words."""
    loss = found.get("loss") or {}
    parts = [f"{shown_up(loss[name])} {name}" for name in ("spent", "planned", "cap") if name in loss]
    cap = loss.get("cap") or 0.0
    idle = now - float(found.get("updated") or now)
    return MemberStatus(
        port=port,
        name=str(found["member"]),
        session=str(found["session"]),
        phase=str(found["phase"]),
        round=int(found["round"]),
        rounds=int(found["rounds"]),
        here="" if found.get("present") is None else f"{found['present']} of {found.get('agents')}",
        late=_few(found.get("late") or []),
        quiet=_few(found.get("quiet") or []),
        feedback=", ".join(near(float(y)) for y in (found.get("feedback") or [])[:4]),
        loss=", ".join(parts),
        share=min(float(loss.get("spent", 0.0)) / cap, 1.0) if cap > 0 else None,
        alarms=_alarms(found),
        silent_for=f"{idle:,.0f} s" if idle >= 10 and found["phase"] in ("running", "disconnected") else "",
    )


def _alarms(found: dict[str, Any]) -> tuple[str, ...]:
    alarms = []
    if found.get("equivocations"):
        who = _few(sorted({str(one.get("sender")) for one in found["equivocations"]}))
        alarms.append(f"said two things at once: {who} (tacit verify has the proof)")
    if found.get("trouble"):
        alarms.append(str(found["trouble"]))
    if found.get("lost_history"):
        alarms.append("others are ahead of this ledger: it is not the newest")
    if found.get("behind"):
        alarms.append(f"{found['behind']} rounds behind the others")
    if found.get("refused"):
        alarms.append("refused: " + ", ".join(f"{k} {v}" for k, v in sorted(found["refused"].items())))
    return tuple(alarms)


def _few(names: list[str]) -> str:
    more = len(names) - _NAMES
    return ", ".join(map(str, names[:_NAMES])) + (f" and {more} more" if more > 0 else "")
