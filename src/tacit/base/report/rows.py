"""Results for people: rows in sections, or a table.

Both have notes; a table has its own columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

from tacit.base.report.numbers import near, up

_SHOWN = 4  # components of a result


class Row(NamedTuple):
    """One quantity: name, printed value, meaning and unit."""

    name: str
    value: str
    meaning: str = ""
    unit: str = ""

    @property
    def shown(self) -> str:
        """The value with its unit, joined by a space that does not break."""
        return f"{self.value}\u00a0{self.unit}" if self.unit else self.value


@final
@dataclass(frozen=True)
class Summary:
    """A title, rows by section, and sentences below them."""

    title: str
    sections: Mapping[str, Sequence[Row]]
    notes: tuple[str, ...] = ()

    def row(self, section: str, name: str) -> Row:
        """Return one row."""
        return next(row for row in self.sections[section] if row.name == name)


@final
@dataclass(frozen=True)
class Grid:
    """A table; `right` are the indices of right-aligned columns."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: tuple[str, ...] = ()
    right: tuple[int, ...] = ()


def component_rows(
    name: str, one: float, every: float, components: int, meaning: str, *, unit: str = ""
) -> list[Row]:
    """Return a radius for one component.

    If there are several, also return it for all of them together.
    """
    if components == 1:
        return [Row(name, up(one), meaning, unit)]
    together = f"the same for all {components:,} components together"
    return [
        Row(name, up(one), f"{meaning}; for any one component", unit),
        Row("all components", up(every), together, unit),
    ]


def result_row(
    name: str, values: float | Iterable[float], inside: float | Iterable[float], meaning: str
) -> Row:
    """Return a result as it is shown, clamped to the range.

    Say so if clamping changed it.
    """
    listed, shown = ([v] if isinstance(v, float) else list(v) for v in (values, inside))
    text = ", ".join(near(value) for value in shown[:_SHOWN]) + (", …" if len(shown) > _SHOWN else "")
    return Row(name, text, meaning + ("" if listed == shown else "; clamped to the range"))
