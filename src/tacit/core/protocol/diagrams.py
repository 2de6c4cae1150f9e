"""Diagrams made from the tables, so that docs match the code."""

from __future__ import annotations

from tacit.core.protocol.agent import AgentMachine
from tacit.core.protocol.coordinator import CoordinatorMachine
from tacit.core.protocol.keeper import KeeperMachine
from tacit.core.protocol.machine import Machine
from tacit.core.protocol.peer import PeerMachine
from tacit.core.protocol.tables import Phase, Table, Transition

MACHINES: tuple[type[Machine], ...] = (
    AgentMachine,
    CoordinatorMachine,
    PeerMachine,
    KeeperMachine,
)
TABLES = {machine.table.name: machine.table for machine in MACHINES}


def mermaid(table: Table) -> str:
    """Return the changes of phase as a mermaid state diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {_name(table.first)}"]
    changes: dict[tuple[Phase, Phase], list[str]] = {}
    for (phase, event), row in table.rows.items():
        if row.phase is not phase:
            changes.setdefault((phase, row.phase), []).append(event.value)
    for (phase, after), events in changes.items():
        lines.append(f"    {_name(phase)} --> {_name(after)}: {', '.join(events)}")
    return "\n".join(lines)


def _grouped(table: Table) -> dict[tuple[Phase, Transition], list[str]]:
    """Return the events that lead to each transition of each phase."""
    found: dict[tuple[Phase, Transition], list[str]] = {}
    for (phase, event), row in table.rows.items():
        found.setdefault((phase, row), []).append(event.value)
    return found


def expanded(table: Table) -> str:
    """Return every row of a table as text, the events of one action together."""
    lines = [table.name]
    for (phase, row), events in _grouped(table).items():
        then = "" if row.phase is phase else f" > {row.phase.value}"
        lines.append(f"    {phase.value} | {row.action}{then}: {', '.join(events)}")
    return "\n".join(lines) + "\n"


def _name(phase: Phase) -> str:
    return str(phase.value).replace(" ", "_")
