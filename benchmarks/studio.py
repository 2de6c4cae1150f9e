"""From a moved slider to the new chart: in a real browser, and what of it is the server's thinking.

Run from the repository: ``python -m benchmarks.studio [--quick] [--json FILE]``

500 agents. A key is pressed on a slider; the time ends when the chart's drawing has changed in the page.
It includes the way to the server and back, and the drawing. The goal is 100 ms.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from playwright.sync_api import Page
from rich.console import Console
from rich.table import Table

from benchmarks.browser import browser, studio
from tacit.studio import plan as planning
from tacit.studio.form import Form

GOAL = 100.0  # milliseconds
SLIDERS = ("number of agents", "mean within ±", "with probability")
WATCH = """() => {
    const chart = document.querySelector('[aria-label="Radius against privacy loss"]');
    let began = null;
    window.took = [];
    document.addEventListener('keydown', () => { began = performance.now(); }, true);
    new MutationObserver(() => {
        if (began !== null) { window.took.push(performance.now() - began); began = null; }
    }).observe(chart, {subtree: true, childList: true, attributes: true, characterData: true});
}"""


def in_the_browser(page: Page, slider: str, presses: int) -> list[float]:
    """Milliseconds from a key on a slider to the changed chart."""
    page.evaluate("window.took.length = 0")
    page.get_by_role("slider", name=slider).locator("[tabindex]").first.focus()
    for k in range(presses):
        page.keyboard.press("ArrowRight" if k % 2 else "ArrowLeft")
        page.wait_for_function(f"window.took.length > {k}")
        page.wait_for_timeout(600)  # the whole answer is drawn, too, before the next key
    return [float(ms) for ms in page.evaluate("window.took")]


def on_the_server(work: Callable[[Form], object], changes: Sequence[dict[str, str]]) -> list[float]:
    """Milliseconds to think about one change of the form that was not asked about before."""
    took = []
    for change in changes:
        form = Form(**change)  # type: ignore[arg-type]
        begin = time.perf_counter()
        work(form)
        took.append(1e3 * (time.perf_counter() - begin))
    return took


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    presses = 10 if options.quick else 40
    planning.plan(Form())  # what is loaded once
    sizes = [{"agents": str(500 + k)} for k in range(1, presses + 1)]
    found = {
        "server: curve, another number of agents": on_the_server(planning.sketch, sizes),
        "server: curve, another radius": on_the_server(
            planning.sketch, [{"radius": f"{5 + k / 100}"} for k in range(presses)]
        ),
        "server: the whole answer": on_the_server(
            planning.plan, [{"agents": str(600 + k)} for k in range(presses)]
        ),
    }
    with studio() as where, browser() as started:
        page = started.new_page()
        page.goto(f"{where}/?agents=500", wait_until="commit")
        page.get_by_text("Privacy loss").filter(visible=True).first.wait_for()
        page.evaluate(WATCH)
        for slider in SLIDERS:
            found[f"browser: slider “{slider}” to chart"] = in_the_browser(page, slider, presses)
    table = Table(title="500 agents, milliseconds", title_justify="left")
    for heading in ("from … to", "median", "middle half", "slowest", f"under {GOAL:.0f}"):
        table.add_column(heading, justify="left" if heading == "from … to" else "right")
    for name, took in found.items():
        low, middle, high = np.percentile(took, [25, 50, 75])
        met = f"{np.mean(np.array(took) < GOAL):.0%}"
        table.add_row(name, f"{middle:.1f}", f"{low:.1f}…{high:.1f}", f"{max(took):.1f}", met)
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
