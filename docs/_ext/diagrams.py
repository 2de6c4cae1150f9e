"""State diagrams as drawings of our own: a column for each state, a row for each change.

A ```` ```mermaid ```` block is drawn by GitHub with a script from elsewhere; the site must work without.
"""

from __future__ import annotations

import re
from html import escape

from docutils import nodes  # type: ignore[import-untyped]
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

CHANGE = re.compile(r"\s*(?P<before>\w+) --> (?P<after>\w+): (?P<why>.+)")
FIRST = re.compile(r"\s*\[\*\] --> (?P<after>\w+)")
WIDE, HIGH, TOP = 96, 26, 46
"""Distance of columns and rows, and room for the names of the states, in pixels."""


def changes(source: str) -> list[tuple[str, str, str]]:
    """Read (state before, state after, why) from a mermaid state diagram of the kind we write."""
    found = []
    for line in source.splitlines():
        change = CHANGE.fullmatch(line)
        if change:
            found.append((change["before"], change["after"], change["why"]))
        elif line.strip() != "stateDiagram-v2" and not FIRST.fullmatch(line):
            raise ValueError(f"a state diagram has lines like `a --> b: why`, got `{line}`")
    return found


def svg(source: str) -> str:
    """Draw a state diagram; colours are those of the text around it."""
    rows = changes(source)
    states = list(dict.fromkeys(state for before, after, _ in rows for state in (before, after)))
    ends = [state for state in states if state not in {before for before, _, _ in rows}]
    states = [state for state in states if state not in ends] + ends
    at = {state: 60 + WIDE * i for i, state in enumerate(states)}
    width, height = 60 + WIDE * len(states), TOP + HIGH * len(rows) + 14
    parts = [_column(state.replace("_", " "), x, height) for state, x in at.items()]
    parts += [_row(at[a], at[b], why, TOP + HIGH * (i + 1), width) for i, (a, b, why) in enumerate(rows)]
    told = "; ".join(f"{a} to {b}: {why}" for a, b, why in rows)
    return (
        f'<svg class="states" viewBox="0 0 {width} {height}" width="{width}" role="img" '
        f'aria-label="{escape(told)}">{"".join(parts)}</svg>'
    )


def _column(name: str, x: int, height: int) -> str:
    return (
        f'<line class="life" x1="{x}" y1="36" x2="{x}" y2="{height}"/>'
        f'<rect x="{x - 43}" y="8" width="86" height="28" rx="6"/>'
        f'<text class="state" x="{x}" y="27">{escape(name)}</text>'
    )


def _row(start: int, end: int, why: str, y: int, width: int) -> str:
    """Draw an arrow, and why: along it where there is room, else behind its head."""
    way = 1 if end > start else -1
    tip = f"M{end - 8 * way},{y - 4} L{end},{y} L{end - 8 * way},{y + 4}"
    arrow = f'<circle cx="{start}" cy="{y}" r="3"/><path d="M{start},{y} L{end},{y}"/><path d="{tip}"/>'
    room = 6.3 * len(why)
    if room < abs(end - start) - 12:
        x, anchor = (start + end) / 2, "middle"
    else:
        x, anchor = min(start, end) + 6, "start"
        if x + room > width:
            x, anchor = max(start, end) - 6, "end"
    return f'{arrow}<text x="{x:g}" y="{y - 5}" text-anchor="{anchor}">{escape(why)}</text>'


class Drawn(SphinxDirective):
    """A ``mermaid`` block, drawn while the site is built."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the drawing, which a narrow screen scrolls."""
        try:
            drawing = svg("\n".join(self.content))
        except ValueError as error:
            raise self.error(str(error)) from error
        return [nodes.raw("", f'<div class="drawing">{drawing}</div>', format="html")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Let Sphinx draw ``mermaid`` blocks."""
    app.add_directive("mermaid", Drawn)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
