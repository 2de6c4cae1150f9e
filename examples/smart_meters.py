"""Smart meters tell the mean load of their feeder every quarter of an hour, for a year; no household shows.

The grid is that of Schutterwald, a German town of 1,506 households and 14 transformer stations, as
pandapower ships it. The utility wants a load curve. One household buys an appliance of 2 kW that stays on:
a series with the square-root mechanism hides that, with one promise for the whole year. Repeated sessions of
the same accuracy do not. The meters trust one of two keepers, say a consumers' association and the regulator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandapower as pp  # type: ignore[import-untyped]
from shared import Found, options, rms, tell

from tacit.base.arrays import FloatArray
from tacit.core.series import SeriesDesign, decoding_filter, design_series, epsilon_of
from tacit.lab.plots.style import BLUE, GREY, INK, RED, canvas, label_line, save, styled
from tacit.lab.simulation import SeriesRuns, household_readings, simulate_series

STATION = "T_idx_35"  # 400 kVA for 177 households: the busiest transformer of the town
MOST = 10.0  # kW that a household can draw
APPLIANCE = 2.0  # kW that one household buys, for good
DAY, YEAR = 96, 35_040  # quarter hours
BOUGHT = 30 * DAY
LOSS, DELTA, KEEPERS = 1.0, 1e-6, 2


def town() -> Any:
    """Return the grid as `pandapower.networks.lv_schutterwald` has it, before its power flow."""
    net = pp.from_json(str(Path(pp.__file__).parent / "networks" / "lv_schutterwald.json"))
    net.load = net.load[net.load.type == "HH"]  # households, without heat pumps
    net.trafo["tap_dependency_table"] = False  # the file is older than this column
    return net


def power_flow(feeder: Any, load: FloatArray | float) -> dict[str, float]:
    """How loaded the transformer is, and the lowest voltage, both in %."""
    feeder.load["p_mw"] = load / 1000
    pp.runpp(feeder, numba=False)
    return {
        "loading": float(feeder.res_trafo.loading_percent.max()),
        "voltage": float(feeder.res_bus.vm_pu.min() * 100),
    }


def planned(agents: int) -> SeriesDesign:
    """Return the series that hides the appliance for a whole year."""
    return design_series(
        YEAR, f"step:{APPLIANCE:g}", agents=agents, low=0, high=MOST, keepers=KEEPERS, loss=LOSS, delta=DELTA
    )


def beliefs(moved: FloatArray, noise: float, seed: int) -> FloatArray:
    """How sure an eavesdropper is of the appliance after each slot, at even odds before the first.

    It knows everything else: all other readings, the day of the purchase, the noise of all keepers but one.
    What is left is each message's shift by `moved` against the last keeper's noise.
    """
    seen = moved + noise * np.random.default_rng(seed).standard_normal(moved.size)
    odds = np.cumsum((moved * seen - moved**2 / 2) / noise**2)
    return np.asarray(0.5 * (1 + np.tanh(odds / 2)))


def main(argv: Sequence[str] | None = None) -> Found:
    """Run a year, print the table, draw its last day, and return the numbers."""
    seed, out = options(__doc__, argv, "smart_meters.svg")
    net = town()
    cables = pp.topology.create_nxgraph(net)
    station = int(net.trafo.lv_bus[net.trafo.name == STATION].iloc[0])
    feeder = pp.toolbox.select_subnet(net, nx.node_connected_component(cables, station))
    homes, everyone = len(feeder.load), len(net.load)
    loads = household_readings(YEAR, 0, MOST, seed=seed, day=DAY)

    runs = {n: simulate_series(planned(n), loads, seed=seed, on_grid=n == homes) for n in (homes, everyone)}
    made, year = runs[homes].design, runs[homes]
    peak = YEAR - DAY + int(np.argmax(year.truth[-DAY:]))
    found: Found = {"truth": power_flow(feeder, loads(0, homes)[:, peak]) | {"mean": float(year.truth[peak])}}

    after = np.arange(YEAR) - BOUGHT
    shift = np.where(after >= 0, APPLIANCE, 0.0)
    filtered = np.concatenate([np.zeros(BOUGHT), APPLIANCE * decoding_filter(YEAR - BOUGHT)])
    equal = made.deviation * homes / math.sqrt(KEEPERS)  # noise per session, for means as good as the series'
    mu = APPLIANCE * math.sqrt(YEAR) / equal
    sure = {
        "naive": np.where(after >= 0, 1.0, 0.5),
        "repeated": beliefs(shift, equal, seed),
        "series": beliefs(filtered, made.noise_deviation, seed),
    }
    found["naive"] = {"loss": math.inf, "deviation": 0.0, "error": 0.0, "mean": found["truth"]["mean"]}
    found["repeated"] = {"loss": epsilon_of(mu, DELTA), "deviation": made.deviation}
    found["series"] = curve(year, peak) | power_flow(feeder, float(year.first[peak]))
    found["town"] = curve(runs[everyone], peak)
    for kind, belief in sure.items():
        week, last = (float(belief[BOUGHT + slots - 1]) for slots in (7 * DAY, YEAR - BOUGHT))
        found[kind] |= {"week": 100 * week, "year": 100 * last}
    report(found, homes)
    picture(runs[homes], runs[everyone], sure, out)
    return found


def curve(ran: SeriesRuns, peak: int) -> dict[str, float]:
    """What a published year is worth: its promise, and how far off its last day is."""
    return {
        "loss": ran.design.loss,
        "deviation": ran.design.deviation,
        "error": rms((ran.first - ran.truth)[-DAY:]),
        "mean": float(ran.first[peak]),
    }


def report(found: Found, homes: int) -> None:
    """Print what was published, what it costs, and what is left to an eavesdropper."""
    tell(
        f"{homes} meters of one station, and all 1,506 of the town: {YEAR:,} means in a year",
        found,
        [
            (
                "privacy loss",
                "loss",
                "up",
                f"of the whole year, for {APPLIANCE:g} kW for good, δ = {DELTA:g}",
            ),
            ("deviation, kW", "deviation", "up", "promised for each mean"),
            ("error, kW", "error", ".3f", "rms, on the last day"),
            ("peak, kW", "mean", ".3f", "mean load of a household at the last day's peak"),
            ("transformer, %", "loading", ".1f", "loading at the peak if all drew the mean"),
            ("lowest voltage, %", "voltage", ".1f", "of the nominal one, in the same case"),
            ("sure after a week", "week", ".1f", "%, an eavesdropper of the new appliance"),
            ("sure at the end", "year", ".1f", "%, at even odds before"),
        ],
    )
    made = planned(homes).costs()
    habit = made["the same hour every day"]
    print(f"The same 2 kW for an hour every day move the messages {habit:.1f} times as far: not hidden.")


def picture(feeder: SeriesRuns, everyone: SeriesRuns, sure: dict[str, FloatArray], out: Path) -> None:
    """Draw the last day's curves, and how an eavesdropper's belief in the appliance grows."""
    hours = np.arange(DAY) / 4
    with styled():
        figure = canvas(9.6, 4.0)
        left, right = figure.subplots(1, 2)
        for ran, colour, shade in ((feeder, RED, 0.12), (everyone, BLUE, 0.35)):
            true, said = ran.truth[-DAY:], ran.first[-DAY:]
            wide = 2 * ran.design.deviation
            left.fill_between(hours, true - wide, true + wide, color=colour, alpha=shade, lw=0)
            left.plot(hours, true, color=INK, lw=1.0)
            left.plot(hours, said, color=colour, lw=1.4)
        label_line(left, 15.5, -0.02, "177 meters", RED)
        label_line(left, 20.6, 1.3, "1,506 meters", BLUE)
        label_line(left, 0.4, 2.1, "black: true; bands: ± 2 deviations", INK)
        left.set(title="True and published curve, last day of a year", xlabel="hour", xlim=(0, 24))
        left.set_ylabel("mean load of a household, kW")
        left.set_xticks(range(0, 25, 6))
        days = np.arange(YEAR) / DAY
        right.axvline(BOUGHT / DAY, color=GREY, lw=0.8)
        label_line(right, BOUGHT / DAY, 0.03, "bought", GREY)
        names = {"naive": "readings sent", "repeated": "a session per slot", "series": "a series"}
        looks: dict[str, Any] = {
            "naive": (INK, ":", 1.7),
            "repeated": (RED, "-", 0.9),
            "series": (BLUE, "-", 1.7),
        }
        for kind, (colour, dashes, wide) in looks.items():
            right.plot(days[::24], sure[kind][::24], color=colour, ls=dashes, lw=wide)
        label_line(right, 365, 1.0, names["naive"], INK, ha="right", offset=(0, 7))
        label_line(right, 120, 0.9, names["repeated"], RED)
        label_line(right, 365, float(sure["series"][-1]), names["series"], BLUE, ha="right", offset=(0, -12))
        right.set(title="What an eavesdropper knows of a new appliance", xlabel="day", ylim=(0, 1.09))
        right.set_ylabel("probability that it was bought")
        save(figure, out)


if __name__ == "__main__":
    main()
