"""Results that display themselves in notebooks."""

from __future__ import annotations

from abc import ABC, abstractmethod

from tacit.report.rendering import html, latex
from tacit.report.rows import Grid, Summary


class Shown(ABC):
    """A result that displays itself as a table in a notebook, as HTML or LaTeX."""

    @abstractmethod
    def summary(self) -> Summary | Grid:
        """Return the result for people."""

    def to_latex(self) -> str:
        """Return the table for a paper; it needs no LaTeX package."""
        return latex(self.summary())

    def _repr_html_(self) -> str:
        return html(self.summary())

    def _repr_latex_(self) -> str:
        return self.to_latex()
