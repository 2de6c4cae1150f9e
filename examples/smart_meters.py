"""Smart meters agree on the mean load of their feeder; no household's load shows.

The grid is that of Schutterwald, a German town of 1,506 households and 14 transformer stations, as
pandapower ships it. The utility asks for the mean as a server; or the 177 meters of one station agree on it
along their cables, where the utility listens like anybody else. With the server, all is computed on the
lattice of a deployment and the loss is accounted there. Last, the meters trust one of two keepers, say a
consumers' association and the regulator, and get the server's accuracy for a loss that protects people.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandapower as pp  # type: ignore[import-untyped]
from scipy.stats import gamma
from shared import FAILURE, Found, eavesdrop, joined, options, rms, tell

from tacit import ClientServer, Distributed, Graph, History
from tacit.arrays import FloatArray
from tacit.audit import Prior
from tacit.mechanism.lattice import Lattice
from tacit.noise import SimulatedNoise, account
from tacit.plots.style import BLUE, GREY, INK, RED, canvas, label_line, save, styled
from tacit.simulation import SimulatedWholeNoise, simulate_on_lattice
from tacit.theory.accuracy import radius
from tacit.theory.advice import right_at_most
from tacit.theory.answers import Design, design
from tacit.theory.promise import Promise

STATION = "T_idx_35"  # 400 kVA for 177 households: the busiest transformer of the town
MOST = 10.0  # kW that a household can draw
ADJACENCY, LOSS = 1.0, 1 - 2**-20  # an appliance of 1 kW; what the lattice costs fits below 1
KEEPERS = 2
HEARING = 0.3  # km of cable over which two meters hear each other
EVENING = gamma(1.6)  # how loads in kW spread at this hour, known to all


def town() -> Any:
    """Return the grid as `pandapower.networks.lv_schutterwald` has it, before its power flow."""
    net = pp.from_json(str(Path(pp.__file__).parent / "networks" / "lv_schutterwald.json"))
    net.load = net.load[net.load.type == "HH"]  # households, without heat pumps
    net.trafo["tap_dependency_table"] = False  # the file is older than this column
    return net


def hearing(cables: nx.MultiGraph[int], homes: Sequence[int]) -> Graph:
    """Join meters that are near enough along the cables."""
    number = {bus: i for i, bus in enumerate(homes)}
    near = [nx.single_source_dijkstra_path_length(cables, bus, cutoff=HEARING) for bus in homes]
    return Graph.from_edges(
        [(i, number[bus]) for i, reached in enumerate(near) for bus in reached if i < number.get(bus, -1)]
    )


def agree(promise: Promise, load: FloatArray, seed: int) -> tuple[History, float]:
    """Return what happened and what it cost: with a server, on the lattice of a deployment."""
    mechanism, rounds = promise.mechanism, promise.rounds
    if isinstance(mechanism, Distributed):
        noise = SimulatedNoise(seed).draw(mechanism.law, rounds, mechanism.n)
        return mechanism.execute(load, noise), promise.loss
    lattice = Lattice.fitting(mechanism.law, rounds, 0, MOST)
    runs = simulate_on_lattice(mechanism, lattice, load, rounds, noise=SimulatedWholeNoise(seed))
    spent = account(lattice.agent(mechanism.law), rounds, adjacency=ADJACENCY)
    return runs[0], spent.total


def pooled(run: History) -> History:
    """Return what everybody else and all keepers but one know of each meter, as if it had sent that."""
    assert run.private is not None
    assert run.private.sent is not None
    law, known = run.mechanism.law, run.private.sent + run.eta[:, :1]
    return History.full(ClientServer(law, agents=run.mechanism.n), known, run.y)


def power_flow(feeder: Any, load: FloatArray | float) -> dict[str, float]:
    """How loaded the transformer is, and the lowest voltage, both in %."""
    feeder.load["p_mw"] = load / 1000
    pp.runpp(feeder, numba=False)
    return {
        "loading": float(feeder.res_trafo.loading_percent.max()),
        "voltage": float(feeder.res_bus.vm_pu.min() * 100),
    }


def main(argv: Sequence[str] | None = None) -> Found:
    """Agree with and without a server, print the table, draw, and return the numbers."""
    seed, out = options(__doc__, argv, "smart_meters.svg")
    net = town()
    cables = pp.topology.create_nxgraph(net)
    station = int(net.trafo.lv_bus[net.trafo.name == STATION].iloc[0])
    feeder = pp.toolbox.select_subnet(net, nx.node_connected_component(cables, station))
    everyone = np.minimum(EVENING.rvs(len(net.load), random_state=seed), MOST)
    load = everyone[net.load.index.isin(feeder.load.index)]

    def ask(**who: Any) -> Design:
        return design(loss=LOSS, adjacency=ADJACENCY, spread=MOST, tolerance=0.01, **who)

    graph = hearing(cables, feeder.load.bus.tolist())
    cases = {
        "server": (ask(agents=len(load)).promise, load),
        "grid": (ask(graph=graph, true_average=True).baseline, load),  # one-shot noise
        "town": (ask(agents=len(everyone)).promise, everyone),
    }
    same = cases["server"][0].radius
    kept = design(
        agents=len(load), keepers=KEEPERS, radius=same, adjacency=ADJACENCY, spread=MOST, tolerance=0.01
    )
    cases["keepers"] = (kept.promise, load)
    naive = cases["server"][0].mechanism.execute(load, np.zeros((1, len(load))))
    mean = float(naive.y[0])
    found: Found = {"truth": power_flow(feeder, load) | {"mean": float(load.mean())}}
    found["naive"] = power_flow(feeder, mean) | {"loss": math.inf, "radius": 0.0, "mean": mean, "rounds": 1}
    found["naive"] |= {"error": abs(mean - float(load.mean())), "guessed": rms(naive.x[0] - load)}
    edges = np.linspace(0, MOST, 41)
    prior = Prior(edges.tolist(), np.diff(EVENING.cdf(edges)).tolist())
    for kind, (promise, values) in cases.items():
        run, spent = agree(promise, values, seed + (kind == "keepers"))  # keepers draw noise of their own
        mean = float(run.theta[-1].mean())
        found[kind] = {
            "loss": spent,
            "radius": radius(promise.mechanism, FAILURE, promise.rounds),
            "mean": mean,
            "error": abs(mean - float(values.mean())),
            "rounds": promise.rounds,
            "guessed": rms(eavesdrop(pooled(run) if kind == "keepers" else run, prior) - values),
        } | (power_flow(feeder, mean) if kind != "town" else {})
    report(found, graph, rms(load - load.mean()))
    picture(feeder, load, float(everyone.mean()), found, out)
    return found


def report(found: Found, graph: Graph, blind: float) -> None:
    """Print what was bought, what it costs, and what is left to an eavesdropper."""
    tell(
        f"{graph.n} meters of one station, by a server, the grid or keepers, and all 1,506 of the town",
        found,
        [
            ("privacy loss", "loss", "up", f"ε·δ, for {ADJACENCY:g} kW more or less"),
            ("promised, kW", "radius", "up", f"radius, missed with probability {FAILURE:g}"),
            ("mean load, kW", "mean", ".3f", "of a household"),
            ("error, kW", "error", ".3f", "against the true mean"),
            ("rounds", "rounds", ".0f", "to agree within 0.01 kW"),
            ("transformer, %", "loading", ".1f", "loading if all drew the mean"),
            ("lowest voltage, %", "voltage", ".1f", "of the nominal one, in the same case"),
            (
                "load guessed, kW",
                "guessed",
                ".3f",
                f"rms error; {blind:.3f} from the mean alone",
            ),
        ],
    )
    kept = found["keepers"]["loss"]
    print(
        f"Whether a {ADJACENCY:g} kW appliance is on, at even odds, is guessed right at most "
        f"{right_at_most(1)} of the time, with keepers {right_at_most(kept)}.\n"
        f"Whether a household draws 0 or {MOST:g} kW: {right_at_most(MOST)}, "
        f"with keepers {right_at_most(kept * MOST / ADJACENCY)}."
    )
    print("Each session costs anew: an appliance that is on for four of them costs four times as much.")


def picture(feeder: Any, load: FloatArray, town_mean: float, found: Found, out: Path) -> None:
    """Draw the feeder with its (made-up) loads, and each agreed mean in its radius."""
    degrees = {bus: np.array(json.loads(geo)["coordinates"]) for bus, geo in feeder.bus.geo.items()}
    origin = degrees[int(feeder.trafo.lv_bus.iloc[0])]
    scale = 111_200 * np.array([math.cos(math.radians(origin[1])), 1])  # metres per degree
    at = {bus: (point - origin) * scale for bus, point in degrees.items()}
    cables = zip(feeder.line.from_bus, feeder.line.to_bus, strict=True)
    means = dict.fromkeys(("server", "grid", "keepers"), float(load.mean())) | {"town": town_mean}
    back = {"facecolor": "white", "edgecolor": "none", "pad": 1, "alpha": 0.8}
    with styled():
        figure = canvas(9.6, 4.2)
        left, right = figure.subplots(1, 2, width_ratios=[1.25, 1])
        left.plot(*joined(np.array([(at[a], at[b]) for a, b in cables])), color=GREY, lw=0.8, zorder=1)
        homes = np.array([at[bus] for bus in feeder.load.bus]).T
        dots = left.scatter(*homes, c=load, cmap="cividis_r", s=18, edgecolor=GREY, lw=0.4, zorder=2)
        left.plot(0, 0, "*", color=RED, ms=14, mec="white", zorder=3)
        label_line(left, 0, 0, "transformer", RED, offset=(0, 14), ha="center", bbox=back)
        left.set(title="One feeder and its made-up loads", xlabel="metres east", aspect="equal")
        left.set_ylabel("metres north")
        figure.colorbar(dots, ax=left, label="load, kW", shrink=0.8)
        for i, (kind, true) in enumerate(means.items()):
            r = found[kind]["radius"]
            right.plot([i, i], [true - r, true + r], color=BLUE, lw=7, alpha=0.5, solid_capstyle="butt")
            right.plot([i - 0.2, i + 0.2], [true, true], color=INK, lw=1.2)
            right.plot(i, found[kind]["mean"], "o", color=RED, ms=7, mec="white")
        label_line(right, 0.2, means["server"], "true", INK, offset=(3, 0))
        label_line(right, 0, found["server"]["mean"], "agreed on", RED, offset=(8, 0))
        names = ["177,\na server", "177,\nthe grid", "177,\nkeepers", "1,506,\na server"]
        right.set_xticks(range(4), names)
        right.set(title="Agreed means, and their promised radii", ylabel="mean load, kW", xlim=(-0.5, 3.5))
        save(figure, out)


if __name__ == "__main__":
    main()
