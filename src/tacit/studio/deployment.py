"""Read the status of running hubs, their followers, and session members."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from tacit.errors import InputError
from tacit.report import Grid, Row, near
from tacit.rounding import shown_up
from tacit.runtime.status.reader import kind_of, read_status, status_url
from tacit.theory.advice import absences

MOST_PLACES = 64
_NAMES = 8
_SESSIONS = 10
_SECONDS = 2.0
_DAY = 86400.0


@dataclass(frozen=True)
class StatusCard:
    """The status of one process, as the page shows it."""

    place: str
    title: str
    headline: str
    phase: str
    facts: tuple[Row, ...] = ()
    done: float | None = None  # share of the rounds
    spent: float | None = None  # share of the cap
    alarms: tuple[str, ...] = ()
    sessions: Grid | None = None  # of a hub


@dataclass(frozen=True)
class Deployment:
    """The statuses of all places, read at the same time."""

    cards: tuple[StatusCard, ...] = ()
    absent: dict[str, str] = field(default_factory=dict)  # place → why there is nothing
    feedback: dict[str, tuple[int, float]] = field(
        default_factory=dict
    )  # title → rounds that are over, and y


def ports_named(text: str) -> tuple[str, ...]:
    """Read ports of this machine, like "9464, 9470-9475"."""
    return places_named(text, anywhere=False)


def places_named(text: str, *, anywhere: bool) -> tuple[str, ...]:
    """Read ports of this machine, and, if `anywhere`, other addresses.

    An address is like https://10.0.0.7:9464.
    """
    found: list[str] = []
    for part in text.replace(",", " ").split():
        if anywhere and (":" in part or "." in part):
            status_url(part)  # refuses what is no address, in the words of `tacit status`
            found.append(part)
            continue
        first, dash, last = part.partition("-")
        low, high = _port(first, anywhere), _port(last if dash else first, anywhere)
        if high - low >= MOST_PLACES:
            raise InputError(f"give at most {MOST_PLACES} ports, got {part!r}.")
        found += map(str, range(low, high + 1))
    if len(found) > MOST_PLACES:
        raise InputError(f"give at most {MOST_PLACES} ports and addresses, got {len(found)}.")
    return tuple(dict.fromkeys(found))


def _port(text: str, anywhere: bool) -> int:
    if not (text.isascii() and text.isdigit()):
        raise InputError(f"{text[:60]!r} is not a port of this machine{' or an address' * anywhere}.")
    status_url(text)
    return int(text)


def look(places: tuple[str, ...], now: float | None = None) -> Deployment:
    """Ask all places for their status, in parallel."""
    with ThreadPoolExecutor(max_workers=16) as crew:
        seen = dict(zip(places, crew.map(_ask, places), strict=True))
    at = time.time() if now is None else now
    cards: list[StatusCard] = []
    absent: dict[str, str] = {}
    feedback: dict[str, tuple[int, float]] = {}
    for place, found in seen.items():
        try:
            if isinstance(found, str):
                raise InputError(found)
            cards.append(card_of(place, found, at))
            if found.get("feedback"):
                feedback[f"{cards[-1].title} ({place})"] = (int(found["round"]), float(found["feedback"][0]))
        except InputError as error:
            absent[place] = str(error)
    return Deployment(tuple(cards), absent, feedback)


def _ask(place: str) -> dict[str, Any] | str:
    try:
        return read_status(status_url(place), seconds=_SECONDS, kinds=("member", "hub", "follower"))
    except InputError as error:
        return str(error)


def card_of(place: str, found: dict[str, Any], now: float) -> StatusCard:
    """Turn a status of any kind into a card."""
    makers: dict[str | None, Callable[[str, dict[str, Any], float], StatusCard]] = {
        "member": _member, "hub": _hub, "follower": _follower,
    }  # fmt: skip
    try:
        return makers[kind_of(found)](place, found, now)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise InputError(f"{place} did not answer with a status that can be read.") from None


def _member(place: str, found: dict[str, Any], now: float) -> StatusCard:
    """Turn the status of a session member into a card."""
    loss = found.get("loss") or {}
    idle = now - float(found.get("updated") or now)
    quiet = idle >= 10 and found["phase"] in ("running", "disconnected")
    facts = {
        "present": "" if found.get("present") is None else f"{found['present']} of {found.get('agents')}",
        "late": _few(found.get("late") or []),
        "quiet": _few(found.get("quiet") or []),
        "feedback": ", ".join(near(float(y)) for y in (found.get("feedback") or [])[:4]),
        "noise in it": _noise(found.get("deviation")),
        "missing from it": str(found.get("absences") or ""),
        "privacy loss": _parts(loss),
        "nothing happened for": f"{idle:,.0f} s" if quiet else "",
        "certificate": _certificate(found, now),
    }
    rounds = int(found["rounds"])
    return StatusCard(
        place=place,
        title=f"{found['member']} of session {found['session']}",
        headline=f"Round {int(found['round'])} of {rounds}",
        phase=str(found["phase"]),
        facts=_rows(facts),
        done=int(found["round"]) / max(rounds, 1),
        spent=_share(loss),
        alarms=_alarms(found),
    )


def _hub(place: str, found: dict[str, Any], now: float) -> StatusCard:
    """Turn the status of a hub into a card.

    It shows who is connected, which sessions run, and the results of the last ones.
    """
    names: dict[str, list[str]] = {"agent": [], "keeper": []}
    for name, role in sorted(found["members"].items()):
        names.setdefault(str(role), []).append(str(name))
    counted = [f"{len(who):,} {role}{'s' * (len(who) != 1)}" for role, who in names.items()]
    facts = {
        "agents connected": _few(names["agent"]),
        "keepers connected": _few(names["keeper"]),
        "sessions under way": _few(found["running"]) or "none",
        "sessions so far": _counts(found.get("outcomes") or {}),
        "rounds so far": "" if found.get("rounds") is None else f"{int(found['rounds']):,}",
        "refusals of agents": _counts(found.get("refusals") or {}),
        "open invitations": str(found.get("open_invitations", 0)),
        "certificate": _certificate(found, now),
    }
    for name, one in (found.get("series") or {}).items():
        facts[f"series {name}"] = _series(one)
    return StatusCard(
        place=place,
        title=f"Hub at {found['hub']}",
        headline=f"{' and '.join(counted)} connected",
        phase=str(found["state"]),
        facts=_rows(facts),
        alarms=("the certificate has expired",) if _expired(found, now) else (),
        sessions=_sessions(found["sessions"][-_SESSIONS:], now),
    )


def _series(one: Mapping[str, Any]) -> str:
    """Say how far a series is, and its loss. Its means are public."""
    planned = one["series"]
    mean = ""
    if one.get("mean") is not None:
        missing = absences(one["used"][0], one["agents"], one["incomplete_before"])
        mean = f", last mean {near(float(one['mean']))}, noise {_noise(one['deviation'])}"
        mean += f" ({missing})" if missing else ""
    return (
        f"{one['over']:,} of {planned['slots']:,} slots over, {one['lost']:,} lost{mean}; "
        f"loss {shown_up(planned['loss'])} for all"
    )


def _noise(deviation: float | None) -> str:
    return "" if deviation is None else f"deviation {shown_up(float(deviation), 4)}"


def _sessions(rows: Sequence[Mapping[str, Any]], now: float) -> Grid | None:
    """Return the last sessions of a hub, the newest first.

    Means and radii are public, so they may be shown.
    """
    shown = []
    for one in reversed(rows):
        result = one.get("result") or {}
        used, mean = result.get("used") or [], result.get("mean")
        means = mean if isinstance(mean, list) else [] if mean is None else [mean]
        ago = now - float(one["ended"]) if one.get("ended") is not None else None
        shown.append((
            str(one["name"]),
            str(one["state"]),
            near(result["rounds"]) if "rounds" in result else "",
            f"{min(used)} of {result.get('agents')}" if used else "",
            ", ".join(near(float(y)) for y in means[:2]) + (", …" if len(means) > 2 else ""),
            f"± {shown_up(float(result['radius']), 3)}" if result.get("radius") is not None else "",
            "" if ago is None else _ago(ago),
        ))  # fmt: skip
    columns = ("session", "state", "rounds", "agents used", "mean", "within", "ended")
    return Grid("Last sessions", columns, shown, right=(2, 3, 4, 5, 6)) if shown else None


def _follower(place: str, found: dict[str, Any], now: float) -> StatusCard:
    """Turn the status of a hub's agent or keeper into a card."""
    loss = found.get("loss") or {}
    facts = {
        "hub": str(found["hub"]),
        "sessions under way": str(found["sessions_running"]),
        "since the start": ", ".join(f"{found.get(k, 0)} {k}" for k in ("joined", "finished", "stopped")),
        "sessions not joined": _counts(found.get("refused") or {}),
        "privacy loss": _parts(loss),
        "certificate": _certificate(found, now),
    }
    for window in found.get("windows") or []:
        over = _ago(float(window["seconds"])).removesuffix(" ago")
        facts[f"loss within {over}"] = f"{shown_up(window['spent'])} spent, {shown_up(window['cap'])} cap"
    trouble = (str(found["trouble"]),) if found.get("trouble") and not found["connected"] else ()
    return StatusCard(
        place=place,
        title=f"{found['member']}, {found['role']} of a hub",
        headline="Connected" if found["connected"] else "Not connected",
        phase=str(found["role"]),
        facts=_rows(facts),
        spent=_share(loss),
        alarms=trouble + (("the certificate has expired",) if _expired(found, now) else ()),
    )


def _rows(facts: Mapping[str, str]) -> tuple[Row, ...]:
    return tuple(Row(name, value) for name, value in facts.items() if value)


def _parts(loss: Mapping[str, float]) -> str:
    return ", ".join(f"{shown_up(loss[name])} {name}" for name in ("spent", "planned", "cap") if name in loss)


def _share(loss: Mapping[str, float]) -> float | None:
    cap = loss.get("cap") or 0.0
    return min(float(loss.get("spent", 0.0)) / cap, 1.0) if cap > 0 else None


def _expired(found: Mapping[str, Any], now: float) -> bool:
    return found.get("certificate_expires") is not None and float(found["certificate_expires"]) <= now


def _certificate(found: Mapping[str, Any], now: float) -> str:
    if found.get("certificate_expires") is None:
        return ""
    left = (float(found["certificate_expires"]) - now) / _DAY
    return f"valid for {left:,.1f} more days" if left > 0 else "has expired"


def _ago(seconds: float) -> str:
    for size, name in ((_DAY, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name} ago"
    return f"{max(seconds, 0.0):.0f} s ago"


def _alarms(found: Mapping[str, Any]) -> tuple[str, ...]:
    alarms = []
    if found.get("equivocations"):
        who = _few(sorted({str(one.get("sender")) for one in found["equivocations"]}))
        alarms.append(f"sent two different messages for one round: {who} (`tacit verify` has the proof)")
    if found.get("trouble"):
        alarms.append(str(found["trouble"]))
    if found.get("lost_history"):
        alarms.append("others have more rounds than this ledger: it is not the newest")
    if found.get("behind"):
        alarms.append(f"{found['behind']} rounds behind the others")
    if found.get("refused"):
        alarms.append("refused: " + _counts(found["refused"]))
    return tuple(alarms)


def _counts(found: Mapping[str, int]) -> str:
    return ", ".join(f"{name}: {count}" for name, count in sorted(found.items()))


def _few(names: Sequence[str]) -> str:
    more = len(names) - _NAMES
    return ", ".join(map(str, names[:_NAMES])) + (f" and {more} more" if more > 0 else "")
