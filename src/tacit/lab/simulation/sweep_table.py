"""A sweep's results, cell by cell: promised and measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from tacit.base.report import Grid, Shown, dataframe, near, up
from tacit.lab.simulation.sweeps import OF_QUESTIONS

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

_PLAN = ("rounds", "runs", "seed", "method", "failure_probability", "tacit_version", "finished")
_PROMISED = ("noise", "decay", "epsilon_rounds", "epsilon_endless", "variance", "average_radius")
_COLUMNS: dict[str, tuple[str, Callable[[float], str]]] = {
    "epsilon_rounds": ("ε", up),
    "average_radius": ("average radius", up),
    "measured_quantile": ("measured", near),
    "outside_average_radius": ("outside", near),
    "disagreement": ("apart", lambda value: near(value, 3)),
}
_OF_QUESTIONS: dict[str, tuple[str, Callable[[float], str]]] = {
    "half_width": ("answer ±", up),
    "half_width_all": ("all parts ±", up),
}


@final
@dataclass(frozen=True, eq=False)
class SweepTable(Shown):
    """One row per cell of a sweep, from what `sweep` or `load_sweep` returned.

    Attributes
    ----------
    plan : dict
        Rounds, runs, seed, method, failure probability, the version that ran it, finished cells.
    axes : dict
        The settings that span the grid, and how many values each has.
    cells : list of dict
        Of every cell its settings, what is promised and what was measured.
    """

    plan: dict[str, Any]
    axes: dict[str, int]
    cells: list[dict[str, Any]]

    @classmethod
    def of(cls, found: xr.Dataset) -> SweepTable:
        """Tabulate a sweep; an unfinished cell has NaN for what it lacks."""
        axes = {str(name): found.sizes[name] for name in found["deviation"].dims if name != "run"}
        b = found.attrs["failure_probability"]
        cells = [
            _cell(found.isel(dict(zip(axes, place, strict=True))), list(axes), b)
            for place in np.ndindex(*axes.values())
        ]
        return cls({name: found.attrs[name] for name in _PLAN}, axes, cells)

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        return {**self.plan, "cells": self.cells}

    def to_dataframe(self) -> pd.DataFrame:
        """Return the cells as a pandas table."""
        return dataframe(self.cells)

    def summary(self) -> Grid:
        """Return the cells for people.

        It shows only the settings that differ between cells.
        """
        shown = [name for name, size in self.axes.items() if size > 1] or list(self.axes)[:1]
        columns = dict(_COLUMNS) | (_OF_QUESTIONS if "question" in self.axes else {})
        if "epsilon" in shown:
            del columns["epsilon_rounds"]
        rows = [
            [cell[name] if isinstance(cell[name], str) else near(cell[name]) for name in shown]
            + [show(cell[name]) for name, (_, show) in columns.items()]
            for cell in self.cells
        ]
        count = "1 cell of" if len(rows) == 1 else f"{len(rows)} cells of"
        b = self.plan["failure_probability"]
        title = f"{count} {self.plan['runs']} runs; the average is outside its radius with probability {b:g}"
        headings = [*shown, *(heading for heading, _ in columns.values())]
        return Grid(title, headings, rows, right=tuple(range(len(headings))))


def _cell(cell: xr.Dataset, axes: list[str], b: float) -> dict[str, Any]:
    deviation = np.abs(cell["deviation"].values)
    settings = {name: cell[name].item() for name in axes}
    return (
        settings
        | {name: cell[name].item() for name in _PROMISED if name not in settings}
        | {
            "chebyshev_radius": cell["chebyshev_radius"].item(),
            "measured_deviation": float(np.sqrt(np.mean(deviation**2))),
            "measured_quantile": float(np.quantile(deviation, 1 - b)),
            "outside_average_radius": float(np.mean(deviation > cell["average_radius"].item())),
            "disagreement": float(np.max(cell["disagreement"].values)),
        }
        | {name: cell[name].item() for name in OF_QUESTIONS if name in cell}
    )
