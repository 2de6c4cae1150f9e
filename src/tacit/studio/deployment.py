"""Read the status of running processes, for the page that shows them."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tacit.base.errors import InputError
from tacit.base.report import Grid, Row
from tacit.live.status.document import StatusDocument
from tacit.live.status.reader import read_status, status_url
from tacit.live.status.report import StatusReport

MOST_PLACES = 64
_SESSIONS = 10
_SECONDS = 2.0


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
    found = {place: one for place, one in seen.items() if isinstance(one, StatusDocument)}
    cards = {place: card_of(place, one, at) for place, one in found.items()}
    feedback = {
        f"{cards[place].title} ({place})": (one.sessions[0].round, one.sessions[0].feedback[0])
        for place, one in found.items()
        if one.kind == "member" and one.sessions[0].feedback
    }
    absent = {place: one for place, one in seen.items() if isinstance(one, str)}
    return Deployment(tuple(cards.values()), absent, feedback)


def _ask(place: str) -> StatusDocument | str:
    try:
        return read_status(status_url(place), seconds=_SECONDS)
    except InputError as error:
        return str(error)


def card_of(place: str, found: StatusDocument, now: float) -> StatusCard:
    """Turn a status into a card, with the rows of `tacit status`."""
    shown = StatusReport(found)
    headline, done = found.state, None
    if found.kind == "member":
        one = found.sessions[0]
        headline, done = f"Round {one.round:,} of {one.rounds:,}", one.round / max(one.rounds, 1)
    elif found.kind == "hub":
        headline = found.state if found.connected is None else f"{shown.connected} connected"
    spent, cap = shown.loss.spent or 0.0, shown.loss.cap or 0.0
    return StatusCard(
        place=place,
        title=shown.title,
        headline=headline[0].upper() + headline[1:],
        phase=found.state,
        facts=tuple(row for row in shown.rows(now) if row.name != "round"),
        done=done,
        spent=min(spent / cap, 1.0) if cap > 0 else None,
        alarms=shown.alarms(now),
        sessions=shown.ended(now, _SESSIONS),
    )
