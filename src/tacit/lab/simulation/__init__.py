"""Simulated runs, sampled outcomes, sweeps, and files for their results.

Noise here is seedable and therefore not private: never use it to protect real values.
The names below load their module when first used.
"""

from typing import TYPE_CHECKING

from tacit.base.lazy import exports

if TYPE_CHECKING:
    from tacit.lab.simulation.asking import SimulatedAnswer, ask
    from tacit.lab.simulation.engine import simulate
    from tacit.lab.simulation.lattice import SimulatedWholeNoise, rounding_bound, simulate_on_lattice
    from tacit.lab.simulation.measured import Measured, measure
    from tacit.lab.simulation.oracle import reference
    from tacit.lab.simulation.outcome import sample_agent, sample_average, sample_outcome
    from tacit.lab.simulation.record import Record
    from tacit.lab.simulation.recorder import history_of
    from tacit.lab.simulation.results import load, save
    from tacit.lab.simulation.series import SeriesRuns, household_readings, simulate_series
    from tacit.lab.simulation.sweep_table import SweepTable
    from tacit.lab.simulation.sweeps import load_sweep, sweep

__all__ = [
    "Measured",
    "Record",
    "SeriesRuns",
    "SimulatedAnswer",
    "SimulatedWholeNoise",
    "SweepTable",
    "ask",
    "history_of",
    "household_readings",
    "load",
    "load_sweep",
    "measure",
    "reference",
    "rounding_bound",
    "sample_agent",
    "sample_average",
    "sample_outcome",
    "save",
    "simulate",
    "simulate_on_lattice",
    "simulate_series",
    "sweep",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = exports(
        __name__,
        {
            "asking": ("SimulatedAnswer", "ask"),
            "recorder": ("history_of",),
            "engine": ("simulate",),
            "lattice": ("SimulatedWholeNoise", "rounding_bound", "simulate_on_lattice"),
            "measured": ("Measured", "measure"),
            "outcome": ("sample_agent", "sample_average", "sample_outcome"),
            "record": ("Record",),
            "oracle": ("reference",),
            "results": ("load", "save"),
            "series": ("SeriesRuns", "household_readings", "simulate_series"),
            "sweep_table": ("SweepTable",),
            "sweeps": ("load_sweep", "sweep"),
        },
    )
