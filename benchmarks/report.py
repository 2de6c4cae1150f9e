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
    from matplotlib.figure import Figure

DOCS = Path(__file__).resolve().parent.parent / "docs"
KEPT, PAGE = DOCS / "benchmarks.json", DOCS / "benchmarks.md"

HEAD = """# Benchmarks

`make bench` measures everything in one run and writes this page. Contestants take turns, ratios are
taken within a turn, and the spread is the middle half of the turns. A ratio above 1 means that tacit is
faster, one below 1 that it is slower; against a limit, which does only what cannot be avoided, 1 is the
most there is. Input and peers are described in `benchmarks/`, one script per question.
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
                theirs, mine = (1e3 * float(np.median(answer.seconds[name])) for name in (peer, ours))
                yield Row(
                    script,
                    answer.title,
                    peer,
                    (theirs, mine),
                    answer.unit,
                    (float(low), float(middle), float(high)),
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
    """Return rows as a Markdown table."""
    head = ["measured", "against", "theirs, ms", "tacit, ms", "per", "tacit is … times as fast", "goal"]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for row in found:
        middle = [*(f"{number:.3g}" for number in row.milliseconds), row.unit]
        lines.append(f"| {' | '.join([row.question, row.peer, *middle, row.spread, row.verdict])} |")
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
    """Write what was measured, and everything that shows it."""
    KEPT.write_text(json.dumps(measured, indent=1) + "\n")
    write(measured)


def write(measured: dict[str, Any]) -> None:
    """Write the page and the pictures."""
    from tacit.plots.style import save

    PAGE.write_text(page(measured))
    save(ratios_figure(list(rows(measured))), DOCS / "pictures" / "benchmarks.svg")
    save(growth_figure(measured["growth"]["growth"]), DOCS / "pictures" / "growth.svg")


def ratios_figure(found: list[Row]) -> Figure:
    """Draw every ratio on one logarithmic axis, with its spread and its goal."""
    from tacit.plots.style import BLUE, GREY, INK, RED, canvas, plain_log, styled

    with styled():
        figure = canvas(8.5, 0.26 * len(found) + 1.2)
        ax = figure.add_subplot()
        for place, row in enumerate(found):
            low, middle, high = row.ratio
            colour = GREY if "limit" in row.peer or "no logic" in row.peer else BLUE
            ax.plot([low, high], [place, place], color=colour, linewidth=3, alpha=0.4, solid_capstyle="butt")
            ax.plot(middle, place, "s" if colour == GREY else "o", color=colour, markersize=5)
            if row.goal is not None:
                ax.plot(row.goal, place, "|", color=RED, markersize=11, markeredgewidth=2)
        ax.axvline(1, color=INK, linewidth=0.8)
        ax.set_xscale("log")
        plain_log(ax.xaxis, (1,))
        ax.set_yticks(range(len(found)), [f"{row.question}: {row.peer}" for row in found], fontsize=7)
        ax.set_ylim(len(found) - 0.5, -0.5)
        ax.grid(axis="x")
        ax.set_xlabel("times as fast as the peer")
        figure.suptitle("square: a limit; red: the goal; bar: the middle half of the turns", fontsize=8)
        return figure


def growth_figure(found: list[dict[str, Any]]) -> Figure:
    """Draw time and memory of each operation over its size, and the fitted power."""
    from tacit.plots.style import BLUE, RED, canvas, styled

    with styled():
        columns = 4
        figure = canvas(10, 2.5 * -(-len(found) // columns))
        for place, each in enumerate(found):
            ax = figure.add_subplot(-(-len(found) // columns), columns, place + 1)
            sizes, seconds = np.array(each["sizes"]), np.array(each["seconds"])
            ax.loglog(sizes, seconds, "o-", color=BLUE, markersize=4)
            ax.set_title(f"{each['name']}\ntime ~ {each['of']}^{each['power']:.2f}", fontsize=8)
            ax.set_xlabel(each["of"])
            ax.set_ylabel("seconds", color=BLUE)
            grown = np.array(each["bytes"]) / 2**20
            if (grown > 1).sum() > 1:
                other = ax.twinx()
                other.loglog(sizes[grown > 1], grown[grown > 1], "s--", color=RED, markersize=4)
                other.set_ylabel("MiB", color=RED)
                other.spines["right"].set_visible(True)
            ax.margins(0.1)
            low, high = ax.get_ylim()
            if high < 10 * low:  # what is flat must look flat
                ax.set_ylim(low / 10**0.75, high * 10**0.75)
        return figure


if __name__ == "__main__":
    write(json.loads(KEPT.read_text()))
