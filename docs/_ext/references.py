"""What is made from the code, in the place of marks: commands, metrics, and diagrams of states."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from sphinx.application import Sphinx

from tacit.cli.reference import markdown as commands
from tacit.core.protocol.diagrams import TABLES, mermaid
from tacit.live.status.document import Kind
from tacit.live.status.metrics import GAUGES, counters

MARK = re.compile(r"^<!-- made: (.+) -->$", re.MULTILINE)


def metrics(kind: Kind) -> str:
    """Return the metrics of a kind of process as a table."""
    rows = [(one.name, one.meaning, one.label, "") for one in GAUGES[kind]]
    for one, labels in counters(kind).items():
        rows.append((f"{one.name}_total", one.meaning, one.label, f": {', '.join(sorted(labels))}"))
    lines = [
        f"| `tacit_{name}` | {meaning}{f'; label `{label}`{values}' if label else ''} |"
        for name, meaning, label, values in rows
    ]
    return "\n".join(["| metric | meaning |", "|---|---|", *lines])


def diagram(name: str) -> str:
    """Return the states of a machine as a diagram."""
    return f"```mermaid\n{mermaid(TABLES[name])}\n```"


MADE: dict[str, Callable[[], str]] = {
    "commands": commands,
    **{f"metrics of a {kind}": partial(metrics, kind) for kind in GAUGES},
    **{f"states of: {name}": partial(diagram, name) for name in TABLES},
}


def _expand(app: Sphinx, docname: str, source: list[str]) -> None:  # noqa: ARG001
    source[0] = MARK.sub(lambda mark: MADE[mark[1]](), source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Put references in the place of marks."""
    app.connect("source-read", _expand)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
