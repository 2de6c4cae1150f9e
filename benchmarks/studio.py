"""From a moved slider to the new chart: in a real browser, and what of it is the server's thinking.

Run from the repository: ``python -m benchmarks.studio [--quick] [--json FILE]``

500 agents. A slider is moved by one step; the time ends when another number stands in the chart. It includes
the way to the server and back, the drawing, and the way from this program to the browser. The goal is 100 ms.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from playwright.sync_api import Page

from benchmarks.browser import browser, studio
from benchmarks.harness import Contestant, Goal, Question, ask, pace, unseen
from tacit.studio.form import Form
from tacit.studio.planned_once import sketch
from tacit.studio.planning import plan

GOAL = pace("100 ms, the goal", 0.1)
MOVE = """([slider, key]) => new Promise(done => {
    const chart = document.querySelector('[aria-label="Radius against privacy loss"]');
    const words = () => [...chart.querySelectorAll('text')].map(e => e.textContent).join();
    const before = words();
    const watch = new MutationObserver(() => { if (words() !== before) { watch.disconnect(); done(); } });
    watch.observe(chart, {subtree: true, childList: true, characterData: true});
    const thumb = document.querySelector(`[role=slider][aria-label="${slider}, as a slider"] [tabindex]`);
    thumb.dispatchEvent(new KeyboardEvent('keydown', {keyCode: key, bubbles: true}));
})"""
LEFT, RIGHT = 37, 39


def moved(page: Page, slider: str) -> Question:
    """Move a slider to and fro, and wait for the chart."""
    keys = itertools.cycle((LEFT, RIGHT))
    ours = Contestant("tacit studio", lambda: page.evaluate(MOVE, [slider, next(keys)]), used=unseen)
    return Question(f"500 agents: slider “{slider}” to chart", "move", [GOAL, ours], [Goal(GOAL.name, 1)])


def thought(title: str, work: Callable[[Form], object]) -> Question:
    """Think, without a browser, about a number of agents that was not asked about before."""
    agents = itertools.count(501)
    ours = Contestant("tacit studio", lambda: work(Form(agents=str(next(agents)))))
    return Question(title, "question", [GOAL, ours])


def main() -> None:
    """Measure and print."""
    with studio() as where, browser() as started:
        page = started.new_page()
        page.goto(f"{where}/?agents=500", wait_until="commit")
        page.get_by_text("Privacy loss").filter(visible=True).first.wait_for()
        ask(
            __doc__,
            lambda _: [
                moved(page, "number of agents"),
                moved(page, "mean within ±"),
                thought("about 500 agents: the curve, on the server", sketch),
                thought("about 500 agents: the whole answer, on the server", plan),
            ],
            turns=25,
            patience=15,
        )


if __name__ == "__main__":
    main()
