"""Simulated runs, sampled outcomes, sweeps, and files for their results.

Noise here is seedable and therefore not private: never use it to protect real values.
The names below load their module when first used.
"""

from typing import TYPE_CHECKING

from tacit.lazy import exports

if TYPE_CHECKING:
    from tacit.simulation.asking import SimulatedAnswer, ask
    from tacit.simulation.engine import simulate
    from tacit.simulation.lattice import SimulatedWholeNoise, rounding_bound, simulate_on_lattice
    from tacit.simulation.measured import Measured, measure
    from tacit.simulation.oracle import reference
    from tacit.simulation.outcome import sample_agent, sample_average, sample_outcome
    from tacit.simulation.record import Record
    from tacit.simulation.recorder import history_of
    from tacit.simulation.results import load, save
    from tacit.simulation.series import SeriesRuns, household_readings, simulate_series
    from tacit.simulation.sweep_table import SweepTable
    from tacit.simulation.sweeps import load_sweep, sweep

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
