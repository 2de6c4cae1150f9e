"""Diagrams and lists made from the tables, so that docs match the code.

``python -m tacit.protocol.diagrams < page.md > new.md`` renews what lies between the markers
``<!-- made from: agent -->`` and ``<!-- end -->`` of a page.
"""

from __future__ import annotations

import re
import sys
from itertools import groupby

from tacit.protocol.table_agent import AGENT
from tacit.protocol.table_coordinator import COORDINATOR
from tacit.protocol.table_keeper import KEEPER
from tacit.protocol.table_masked import MASKED_AGENT, MASKED_COORDINATOR
from tacit.protocol.table_peer import PEER
from tacit.protocol.table_series import SERIES_AGENT, SERIES_COORDINATOR, SERIES_KEEPER
from tacit.protocol.tables import Phase, Table

_EVERY = (
    *(AGENT, COORDINATOR, PEER, KEEPER, MASKED_AGENT, MASKED_COORDINATOR),
    *(SERIES_AGENT, SERIES_COORDINATOR, SERIES_KEEPER),
)
TABLES = {table.name: table for table in _EVERY}
_NOTHING = {"refuse", "misplaced", "impossible", "ignore", "tick"}
_MARKED = re.compile(r"(<!-- made from: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


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


def listing(table: Table) -> str:
    """Return a markdown table of what is done in each phase.

    Events that are refused or ignored are left out.
    """
    lines = ["| in | on | does | then |", "|---|---|---|---|"]
    rows = [
        (phase, row, event.value)
        for (phase, event), row in table.rows.items()
        if row.action not in _NOTHING or row.phase is not phase
    ]
    for (phase, row), group in groupby(rows, key=lambda r: (r[0], r[1])):
        does = "nothing" if row.action == "ignore" else row.action.replace("_", " ")
        then = "" if row.phase is phase else row.phase.value
        lines.append(f"| {phase.value} | {', '.join(event for _, _, event in group)} | {does} | {then} |")
    return "\n".join(lines)


def renewed(page: str) -> str:
    """Return a page with everything between markers made anew."""

    def made(found: re.Match[str]) -> str:
        start, name, end = found.groups()
        table = TABLES[name]
        return f"{start}\n```mermaid\n{mermaid(table)}\n```\n\n{listing(table)}\n\n{end}"

    return _MARKED.sub(made, page)


def _name(phase: Phase) -> str:
    return str(phase.value).replace(" ", "_")


if __name__ == "__main__":
    sys.stdout.write(renewed(sys.stdin.read()))
