"""Results as HTML tables: how objects show themselves in notebooks.

Text is escaped, so that a name from a file cannot bring its own markup. Pictures are for
`tacit.plots.show`, above this layer (docs/decisions/0014-notebooks.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_LEFT = 'style="text-align:left"'


def html_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], notes: Iterable[str] = ()
) -> str:
    """Return a table with a caption, a header cell at the start of every row, and notes below."""
    head = "".join(f'<th scope="col" {_LEFT}>{escape(column)}</th>' for column in columns)
    body = "".join(
        f'<tr><th scope="row" {_LEFT}>{escape(first)}</th>'
        + "".join(f"<td {_LEFT}>{escape(cell)}</td>" for cell in cells)
        + "</tr>"
        for first, *cells in rows
    )
    below = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return (
        f'<table><caption style="text-align:left"><b>{escape(title)}</b></caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"
    )


def shown_near(value: float) -> str:
    """Write a number that is no promise, rounded to nearest."""
    return f"{value:.6g}"
