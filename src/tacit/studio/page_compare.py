"""Compare: two settings, one chart, and a table of what differs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from nicegui import ui

from tacit.errors import InputError
from tacit.studio import charts
from tacit.studio.compare import differences
from tacit.studio.form import Form, whole
from tacit.studio.page_plan import Answer
from tacit.studio.panel import Panel
from tacit.studio.planning import PlanAnswer, TradeoffCurve
from tacit.studio.shell import card, chart, page, redraw

NAMES = ("A", "B")


class ComparePage:
    """Two forms with their answers, under one chart and one table."""

    def __init__(self, forms: tuple[Form, Form]) -> None:
        self._plans: dict[str, PlanAnswer | None] = dict.fromkeys(NAMES)
        self._curves: dict[str, TradeoffCurve | None] = dict.fromkeys(NAMES)
        with ui.element("div").classes("stack"):
            with ui.element("div").classes("halves"):
                with card("Privacy against accuracy"):
                    self._picture = chart(charts.tradeoff(self._curves), "Radius against privacy loss, twice")
                with card("What differs"):
                    self._table = ui.element("div").classes("scroll")
            with ui.element("div").classes("halves"):
                for name, form in zip(NAMES, forms, strict=True):
                    self._half(name, form)

    def _half(self, name: str, form: Form) -> None:
        def show(found: PlanAnswer) -> None:
            answer.show(found, panel)
            self._plans[name] = found
            self._drawing(name)(found.curve)
            self._tabulate()

        with ui.element("div").classes("stack"):
            answer = Answer(f"Setting {name}")
            with ui.element("div").classes("card"):
                panel = Panel(form, show, self._drawing(name), name)
        ui.timer(0.01, panel.start, once=True)

    def _drawing(self, name: str) -> Callable[[TradeoffCurve | None], None]:
        def draw(curve: TradeoffCurve | None) -> None:
            self._curves[name] = curve
            redraw(self._picture, charts.tradeoff(self._curves))

        return draw

    def _tabulate(self) -> None:
        first, second = self._plans.values()
        rows = differences(first, second) if first and second else ()
        self._table.clear()
        with self._table:
            if not rows:
                ui.label("The table is here as soon as both settings have an answer.").classes("hint")
                return
            with ui.element("table").classes("plain-table"):
                with ui.element("tr"):
                    for heading in ("", *NAMES, "B over A"):
                        with ui.element("th").props("scope=col"):
                            ui.label(heading)
                for row in rows:
                    with ui.element("tr"):
                        for cell in (row.name, row.first, row.second, row.ratio):
                            with ui.element("td"):
                                ui.label(cell)


def build(query: Mapping[str, str]) -> None:
    """Build the page; the second setting starts with four times the agents."""
    first = Form.from_query(query)
    try:
        agents = str(4 * whole(first.agents))
    except InputError:
        agents = first.agents  # its field says what is wrong
    with page("Compare", "Two settings side by side: what one gains over the other, and what it costs."):
        ComparePage((first, replace(first, agents=agents)))
