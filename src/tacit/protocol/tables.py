"""The transitions of the machines, as data.

A table says for every phase and everything that can happen in it what is done and which phase comes
next. `machine` runs tables; docs/explanation/protocol.md draws them; a test holds them complete.
Two actions are special: "refuse" counts and changes nothing, "impossible" is a bug of ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias, final


class _Name(Enum):
    """Members are looked up in tables all the time: by identity, which is fastest."""

    __hash__ = object.__hash__


class On(_Name):
    """What can happen. First what comes from outside, sorted by what it means here."""

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
    """Where an agent of the client-server mechanism is."""

    IDLE = "idle"
    WAITING = "waiting"
    DRAWING = "drawing"
    SPOKEN = "spoken"
    SILENT = "silent"
    FINISHED = "finished"
    STOPPED = "stopped"
    DECLINED = "declined"


class CoordinatorPhase(_Name):
    """Where the coordinator is."""

    IDLE = "idle"
    GATHERING = "gathering"
    COLLECTING = "collecting"
    SERVING = "serving"
    FINISHED = "finished"
    STOPPED = "stopped"


class PeerPhase(_Name):
    """Where an agent of the distributed mechanism is."""

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
    """Where a coordinator with keepers is, besides: it waits for their openings."""

    OPENING = "opening"


class KeeperPhase(_Name):
    """Where a keeper is."""

    IDLE = "idle"
    WAITING = "waiting"
    DRAWING = "drawing"
    SERVING = "serving"
    FINISHED = "finished"
    STOPPED = "stopped"


Phase: TypeAlias = AgentPhase | CoordinatorPhase | PeerPhase | OpeningPhase | KeeperPhase


class Transition(NamedTuple):
    """What is done, and the phase after it."""

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
        """The phase a machine starts in."""
        return next(iter(self.rows))[0]


Rows: TypeAlias = Mapping[tuple[On, ...], Transition]


def table(name: str, events: Iterable[On], phases: Mapping[Phase, Rows]) -> Table:
    """Spread groups of events out into rows; refuse what is written twice."""
    rows: dict[tuple[Phase, On], Transition] = {}
    for phase, groups in phases.items():
        for group, row in groups.items():
            for event in group:
                if (phase, event) in rows:
                    raise ValueError(f"{name}: {phase.value} on {event.value} is written twice")
                rows[phase, event] = row
    return Table(name, tuple(events), rows)
