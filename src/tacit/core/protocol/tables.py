"""The transitions of the machines, as data.

For every phase and every event, a table gives the action and the next phase. `machine` runs tables,
docs/explanation/protocol.md shows them as diagrams, and tests/protocol/tables.txt has every row.
An action is a method of the machine. Four have a fixed meaning: "ignore" does nothing, "refuse" and
"misplaced" count the event and change nothing else, and "impossible" raises, because to get there is a bug.

A table is written short: only what differs from one rule of defaults (`usual`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import EllipsisType
from typing import NamedTuple, TypeAlias, final


class _Name(Enum):
    """An enumeration that hashes by identity, for fast table lookups."""

    __hash__ = object.__hash__


class On(_Name):
    """The events of the tables.

    Events from outside are named by their meaning for the machine: one frame can be a late report or a
    contradiction. Events from the state alone are what `Machine._due` returns.
    """

    START = "start"
    OVER = "start above the cap"
    ENDED = "start after the end"
    FEEDBACK = "feedback for now or later"
    PLACE = "place"
    RECEIPT = "receipt"
    MISNAMED = "place of a message not made here"
    REPORT = "report for now or later"
    LATE = "report for a past round"
    PRESENT = "present"
    ASKED = "asked"
    DONE = "done"
    QUIET = "someone falls silent"
    STOP = "stop"
    NOISE = "noise ready"
    READING = "reading ready"
    TICK = "tick"
    JOINED = "joined"
    LEFT = "left"
    HALT = "halt"
    EXPIRED = "session has expired"
    PAST = "heard before or too late"
    CONTRADICTED = "contradiction signed"
    LOST = "someone is ahead"
    FORGOTTEN = "asked for a past round"
    AGAIN = "asked to repeat a slot"
    REFUSED = "refused"
    KEY = "ephemeral key"
    CLOSING = "closing for now"
    LACKING = "closing that needs more keys"
    OPENING = "opening for now"
    WITHOUT_KEEPER = "a keeper leaves for good"
    # What follows from the state alone, at once.
    ENOUGH = "enough are present"
    RESUMED = "was open before"
    COMPLETE = "was complete before"
    TURN = "my turn"
    SAID = "said before"
    SKIP = "all others are beyond"
    CAPPED = "would pass the cap"
    READY = "noise is there"
    MOVE = "round is over"
    FORKED = "another history"
    LAST = "last round is over"
    ALL_DONE = "all are done"
    SHUT = "was shut before"
    NONSENSE = "sum is nonsense"


DUE = frozenset(list(On)[list(On).index(On.ENOUGH) :])
"""The events that follow from the state alone."""


def usual(event: On) -> str:
    """Return what is done where a short table says nothing.

    What follows from the state must be expected, and anything heard has its place.
    """
    if event in DUE:
        return "impossible"
    known = {On.TICK: "tick", On.LEFT: "ignore", On.REFUSED: "refuse", On.CONTRADICTED: "accuse"}
    return known.get(event, "misplaced")


class AgentPhase(_Name):
    """The phases of an agent of the client-server mechanism."""

    IDLE = "idle"
    WAITING = "waiting"
    DRAWING = "drawing"
    SPOKEN = "spoken"
    SILENT = "silent"
    FINISHED = "finished"
    STOPPED = "stopped"
    DECLINED = "declined"


class CoordinatorPhase(_Name):
    """The phases of the coordinator."""

    IDLE = "idle"
    GATHERING = "gathering"
    COLLECTING = "collecting"
    OPENING = "opening"
    SERVING = "serving"
    FINISHED = "finished"
    STOPPED = "stopped"


class PeerPhase(_Name):
    """The phases of an agent of the distributed mechanism."""

    IDLE = "idle"
    GATHERING = "gathering"
    CHOOSING = "choosing"
    DRAWING = "drawing"
    COLLECTING = "collecting"
    FOLLOWING = "following"
    SERVING = "serving"
    FINISHED = "finished"
    STOPPED = "stopped"
    DECLINED = "declined"


class KeeperPhase(_Name):
    """The phases of a keeper."""

    IDLE = "idle"
    WAITING = "waiting"
    DRAWING = "drawing"
    SERVING = "serving"
    FINISHED = "finished"
    STOPPED = "stopped"


Phase: TypeAlias = AgentPhase | CoordinatorPhase | PeerPhase | KeeperPhase


class Transition(NamedTuple):
    """An action, and the phase after it."""

    action: str
    phase: Phase


@final
@dataclass(frozen=True)
class Table:
    """All transitions of one machine."""

    name: str
    events: tuple[On, ...]
    rows: Mapping[tuple[Phase, On], Transition]

    @property
    def first(self) -> Phase:
        """The phase a machine starts in: the one listed first."""
        return next(iter(self.rows))[0]


Action: TypeAlias = Callable[..., None]
"""A method of the machine. It is called by its name, so that a subclass may replace it."""
Then: TypeAlias = Action | Phase | tuple[Action, Phase] | None
"""What to do, and where to go. A method alone stays in the phase, a phase alone does nothing but go there."""
Short: TypeAlias = Mapping[On | tuple[On, ...] | EllipsisType, Then]
"""The rows of one phase; ``...`` stands for all events that are not listed, instead of `usual`."""


def short(name: str, phases: Mapping[Phase, Short]) -> Table:
    """Return the whole table of a machine from the rows that differ.

    Its events are all that are named in some phase, and those that every machine handles.
    """
    listed = {phase: _listed(name, phase, rows) for phase, rows in phases.items()}
    named = _EVERYWHERE.union(*listed.values())
    events = tuple(event for event in On if event in named)
    rows = {}
    for phase, own in listed.items():
        for event in events:
            if event in own or ... in phases[phase]:
                rows[phase, event] = _transition(phase, own[event] if event in own else phases[phase][...])
            else:
                rows[phase, event] = Transition(usual(event), phase)
    return Table(name, events, rows)


_EVERYWHERE = frozenset({On.TICK, On.JOINED, On.LEFT, On.HALT, On.EXPIRED, On.CONTRADICTED, On.REFUSED})


def _listed(name: str, phase: Phase, rows: Short) -> dict[On, Then]:
    """Return one row per event; refuse an event that is listed twice.

    Without the check the later row would silently replace the earlier one.
    """
    found: dict[On, Then] = {}
    for group, then in rows.items():
        for event in () if group is ... else (group,) if isinstance(group, On) else group:
            if event in found:
                raise ValueError(f"{name}: {phase.value} on {event.value} is written twice")
            found[event] = then
    return found


def _transition(phase: Phase, then: Then) -> Transition:
    if then is None or isinstance(then, Phase):
        return Transition("ignore", phase if then is None else then)
    action, after = then if isinstance(then, tuple) else (then, phase)
    return Transition(action.__name__.removeprefix("_"), after)
