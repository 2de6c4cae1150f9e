"""The transitions of the machines, as data.

For every phase and every event, a table gives the action and the next phase. `machine` runs tables,
docs/explanation/protocol.md shows them as diagrams, and a test checks that they are complete.
An action is a method of the machine. Four have a fixed meaning: "ignore" does nothing, "refuse" and
"misplaced" count the event and change nothing else, and "impossible" raises, because to get there is a bug.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
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
    MISNAMED = "named without having spoken"
    LAST = "last round is over"
    ALL_DONE = "all are done"
    SHUT = "was shut before"
    NONSENSE = "sum is nonsense"


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


class OpeningPhase(_Name):
    """The extra phase of a coordinator with keepers: waiting for openings."""

    OPENING = "opening"


class KeeperPhase(_Name):
    """The phases of a keeper."""

    IDLE = "idle"
    WAITING = "waiting"
    DRAWING = "drawing"
    SERVING = "serving"
    FINISHED = "finished"
    STOPPED = "stopped"


Phase: TypeAlias = AgentPhase | CoordinatorPhase | PeerPhase | OpeningPhase | KeeperPhase


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


Rows: TypeAlias = Mapping[tuple[On, ...], Transition]


def table(name: str, events: Iterable[On], phases: Mapping[Phase, Rows]) -> Table:
    """Expand groups of events into rows; refuse an event that is listed twice.

    Without the check the later row would silently replace the earlier one.
    """
    rows: dict[tuple[Phase, On], Transition] = {}
    for phase, groups in phases.items():
        for group, row in groups.items():
            for event in group:
                if (phase, event) in rows:
                    raise ValueError(f"{name}: {phase.value} on {event.value} is written twice")
                rows[phase, event] = row
    return Table(name, tuple(events), rows)
