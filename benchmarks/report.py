"""One table of ratios from what was measured, and the page and pictures that show it.

``python -m benchmarks.report`` writes them anew from docs/benchmarks.json, without measuring.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.harness import Answer

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DOCS = Path(__file__).resolve().parent.parent / "docs"
KEPT, PAGE = DOCS / "benchmarks.json", DOCS / "benchmarks.md"

HEAD = """# Benchmarks

For people who ask how fast tacit is.

`make bench` measures everything and writes this page; `python -m benchmarks SCRIPT --keep` measures one
script again and replaces its rows. Compare ratios, not milliseconds of different scripts.

Contestants take turns. Milliseconds are medians. Ratios are taken within a turn: their median, and in
brackets their middle half. Above 1 tacit is faster. "By processor time" adds up all cores: other programs
hardly change it. A limit does only the work that cannot be avoided: against it, 1 is the best possible
ratio. `benchmarks/` describes inputs and peers; `docs/benchmarks.json` has every turn.
"""


@dataclass(frozen=True)
class Row:
    """One contestant beside ours."""

    script: str
    question: str
    peer: str
    milliseconds: tuple[float, float]
    unit: str
    ratio: tuple[float, float, float]
    core_ratio: float | None
    goal: float | None

    @property
    def spread(self) -> str:
        """The ratio, with the middle half of the turns."""
        low, middle, high = (f"{number:.3g}" for number in self.ratio)
        return f"{middle} ({low} to {high})"

    @property
    def verdict(self) -> str:
        """The goal, and whether it was reached."""
        if self.goal is None:
            return ""
        return f"{self.goal:.3g}: {'reached' if self.ratio[1] >= self.goal else 'MISSED'}"


def rows(measured: dict[str, Any]) -> Iterator[Row]:
    """Every ratio that was measured."""
    for script, found in measured.items():
        for document in found.get("answers", []):
            answer = Answer(**document)
            *others, ours = answer.seconds
            goals = {goal["against"]: float(str(goal["ratio"])) for goal in answer.goals}
            for peer in others:
                low, middle, high = np.percentile(answer.ratios(ours, peer), [25, 50, 75])
                yield Row(
                    script,
                    answer.title,
                    peer,
                    (answer.milliseconds(peer), answer.milliseconds(ours)),
                    answer.unit,
                    (float(low), float(middle), float(high)),
                    answer.core_ratio(ours, peer),
                    goals.get(peer),
                )


def print_table(measured: dict[str, Any], console: Console) -> None:
    """Print every ratio in one table."""
    table = Table(title="tacit against its peers, in one run", title_justify="left")
    for heading in ("measured", "against", "times as fast", "goal"):
        table.add_column(heading, justify="left" if heading in ("measured", "against") else "right")
    for row in rows(measured):
        table.add_row(row.question, row.peer, row.spread, row.verdict)
    console.print(table)


def markdown(found: list[Row]) -> str:
    """Return rows as a Markdown table, which says each question and time once."""
    head = ["measured", "against", "tacit, ms", "per", "tacit is … times as fast"]
    head += ["by processor time", "goal"]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    above = None
    for row in found:
        ours = [row.question, f"{row.milliseconds[1]:.3g}", row.unit]
        question, *times = ["", "", ""] if ours == above else ours
        core = "" if row.core_ratio is None else f"{row.core_ratio:.3g}"
        told = [question, row.peer, *times, row.spread, core, row.verdict]
        lines.append(f"| {' | '.join(told)} |")
        above = ours
    return "\n".join(lines) + "\n"


def page(measured: dict[str, Any]) -> str:
    """Return the page."""
    any_script = next(iter(measured.values()))
    machine = f"{any_script['cores']} cores, {any_script['machine']}, Python {any_script['python']}"
    memory = measured.get("engine", {}).get("memory")
    parts = [HEAD, f"Measured on: {machine}.\n", "![Ratios](pictures/benchmarks.svg)\n"]
    parts.append(markdown(list(rows(measured))))
    if memory:
        parts.append(
            f"Simulating {memory['agents']:,} agents of degree 8 takes "
            f"{memory['peak_bytes'] / 2**30:.2f} GiB at its peak (goal: under 4 GiB); "
            f"making the graph {memory['graph_bytes'] / 2**30:.2f} GiB.\n"
        )
    parts += [
        "## How cost grows\n",
        "![Time and memory over size](pictures/growth.svg)\n",
        _growth_table(measured),
    ]
    return "\n".join(parts)


def _growth_table(measured: dict[str, Any]) -> str:
    lines = [
        "| operation | sizes | slowest, ms | peak memory, MiB | power of the size | at most |",
        "|---|---|---|---|---|---|",
    ]
    for each in measured.get("growth", {}).get("growth", []):
        sizes = f"{each['sizes'][0]:,} to {each['sizes'][-1]:,} {each['of']}"
        numbers = f"{1e3 * max(each['seconds']):.3g} | {max(each['bytes']) / 2**20:.0f} | {each['power']:.2f}"
        lines.append(
            f"| {each['name']} | {sizes} | {numbers} | {each['most']}{'' if each['met'] else ' MISSED'} |"
        )
    return "\n".join(lines) + "\n"


def keep(measured: dict[str, Any]) -> None:
    """Write what was measured, and everything that shows it; other scripts' results stay."""
    kept = {**json.loads(KEPT.read_text()), **measured} if KEPT.exists() else measured
    KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    write(kept)


def write(measured: dict[str, Any]) -> None:
    """Write the page and the pictures."""
    from tacit.lab.plots.style import save

    PAGE.write_text(page(measured))
    save(ratios_figure(list(rows(measured))), DOCS / "pictures" / "benchmarks.svg")
    save(growth_figure(measured["growth"]["growth"]), DOCS / "pictures" / "growth.svg")


def ratios_figure(found: list[Row]) -> Figure:
    """Draw the ratios that have a goal, each named and with its goal; the table has all others."""
    from matplotlib.patheffects import withStroke

    from tacit.lab.plots.style import BLUE, GREY, INK, RED, canvas, plain_log, styled

    shown = [row for row in found if row.goal is not None and "alone" not in row.question]
    with styled():
        figure = canvas(8.5, 0.36 * len(shown) + 1.1)
        ax = figure.add_subplot()
        for place, row in enumerate(shown):
            low, middle, high = row.ratio
            assert row.goal is not None
            met = middle >= row.goal
            colour = BLUE if met else RED
            ax.plot([row.goal, row.goal], [place - 0.3, place + 0.3], color=INK, linewidth=1.4)
            ax.plot([low, high], [place, place], color=colour, linewidth=5, alpha=0.35, solid_capstyle="butt")
            ax.plot(middle, place, "o" if met else "X", color=colour, markersize=6)
            told = f"{middle:.2g} ×, goal {row.goal:.2g}{'' if met else ': missed'}"
            ax.annotate(
                told, (max(high, row.goal), place), xytext=(7, 0), textcoords="offset points", va="center",
                fontsize=8.5, color=INK if met else RED,
                path_effects=[withStroke(linewidth=3, foreground="white")],  # no line crosses the words
            )  # fmt: skip
        ax.axvline(1, color=GREY, linewidth=0.8)
        ax.annotate(
            "as fast",
            (1, -0.5),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            fontsize=8.5,
            color=GREY,
        )
        ax.set_xscale("log")
        plain_log(ax.xaxis)
        ax.set_xlim(0.08, 4.5 * max(row.ratio[2] for row in shown))
        names = [f"{row.question}\nagainst: {row.peer}" for row in shown]
        ax.set_yticks(range(len(shown)), names, fontsize=7.5)
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
        ax.set_ylim(len(shown) - 0.5, -0.5)
        ax.grid(axis="x")
        ax.set_xlabel("times as fast as the peer (band: middle half of the turns)")
        return figure


def growth_figure(found: list[dict[str, Any]]) -> Figure:
    """Draw time and memory of the operations over their size, each named at its end."""
    from tacit.lab.plots.style import canvas, styled

    with styled():
        figure = canvas(9.2, 4.6)
        left, right = figure.subplots(1, 2, width_ratios=[1, 0.9])
        times = [
            (k, f"{each['name']}, {each['power']:.2f}", each["sizes"], each["seconds"])
            for k, each in enumerate(found)
        ]
        _grown(left, times)
        left.set_title("Time, and the power of the size that it grows with")
        left.set_ylabel("seconds")
        kept = []
        for k, each in enumerate(found):
            sizes, mebibytes = np.array(each["sizes"]), np.array(each["bytes"]) / 2**20
            if (mebibytes > 1).sum() > 1:
                large = mebibytes > 1
                kept.append((k, each["name"], sizes[large].tolist(), mebibytes[large].tolist()))
        _grown(right, kept)
        right.set_title("Memory, where it is above 1 MiB")
        right.set_ylabel("MiB")
        for ax in (left, right):
            ax.set_xlabel("size: agents, components or records")
        return figure


def _grown(ax: Axes, rows: list[tuple[int, str, list[int], list[float]]]) -> None:
    """Draw lines on logarithmic axes, named in a column on the right; equal numbers look the same."""
    from tacit.lab.plots.style import CYCLE, DASHES, MARKERS, label_room, plain_log, spread_labels

    low, high = (pick(value for *_, row in rows for value in row) for pick in (min, max))
    ends = [float(np.log(row[-1] / low) / np.log(high / low)) for *_, row in rows]
    places = spread_labels(ends, label_room(ax))
    for (k, name, sizes, row), end in zip(rows, places, strict=True):
        colour, again = CYCLE[k % len(CYCLE)], k // len(CYCLE)  # a second round has other markers and dashes
        marker, dashes = MARKERS[(k + 2 * again) % len(MARKERS)], DASHES[(k + 3 * again) % len(DASHES)]
        ax.loglog(sizes, row, marker=marker, linestyle=dashes, color=colour, markersize=4)
        ax.annotate(
            name, (sizes[-1], row[-1]), xytext=(1.03, 0.05 + 0.9 * end), textcoords="axes fraction",
            va="center", fontsize=8, color=colour, annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "lw": 0.5, "shrinkA": 0, "shrinkB": 3},
        )  # fmt: skip
    plain_log(ax.yaxis, (1,))
    ax.set_ylim(low * (low / high) ** 0.055, high * (high / low) ** 0.055)
    ax.grid(axis="y")


if __name__ == "__main__":
    write(json.loads(KEPT.read_text()))
