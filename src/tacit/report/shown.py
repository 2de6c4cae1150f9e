"""Results that describe themselves: rows for people, plain types for programs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from tacit.report.rendering import html, latex
from tacit.report.rows import Grid, Summary


class Shown(ABC):
    """A result that makes its own rows, and displays them as a table in a notebook."""

    @abstractmethod
    def summary(self) -> Summary | Grid:
        """Return the result for people."""

    @abstractmethod
    def as_dict(self) -> dict[str, Any]:
        """Return the exact numbers for programs, ready for `json_text`."""

    def to_latex(self) -> str:
        """Return the table for a paper; it needs no LaTeX package."""
        return latex(self.summary())

    def _repr_html_(self) -> str:
        return html(self.summary())

    def _repr_latex_(self) -> str:
        return self.to_latex()
