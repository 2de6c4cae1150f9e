"""Compare: two settings, one chart, and a table of differences."""

from __future__ import annotations

from collections.abc import Callable

from nicegui import background_tasks, ui

from tacit.base.errors import InputError
from tacit.studio import charts
from tacit.studio.address import Address, Query, say_instead
from tacit.studio.compare import differences, two_forms, two_forms_query, with_more_agents
from tacit.studio.form import EXAMPLE, Form
from tacit.studio.page_plan import AnswerCard, trusts
from tacit.studio.panel import Panel
from tacit.studio.plan_answer import PlanAnswer, TradeoffCurve
from tacit.studio.shell import PageNotice, card, chart, page, redraw, table

NAMES = ("A", "B")


class ComparePage:
    """Two forms with their answers, under one chart and one table."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._plans: dict[str, PlanAnswer | None] = dict.fromkeys(NAMES)
        self._curves: dict[str, TradeoffCurve | None] = dict.fromkeys(NAMES)
        self._panels: dict[str, Panel] = {}
        forms, said = _asked(address.query)
        self._notice = PageNotice(said)
        with ui.element("div").classes("stack"):
            with ui.element("div").classes("halves"):
                with card("Privacy against accuracy"):
                    self._picture = chart(charts.tradeoff(self._curves), "Radius against privacy loss, twice")
                with card("What differs"):
                    self._table = ui.element("div").classes("scroll")
            with ui.element("div").classes("halves"):
                for name, form in zip(NAMES, forms, strict=True):
                    self._half(name, form)
        self._tabulate()
        address.follow(self._moved)

    def _half(self, name: str, form: Form) -> None:
        def show(found: PlanAnswer) -> None:
            answer.show(found, panel)
            with answer.body:
                trusts(found)
            self._plans[name] = found
            self._draw(name, found.curve)
            self._tabulate()
            if panel.changed and not found.wrong:
                self._write(f"{name} {panel.changed}")

        with ui.element("div").classes("stack"):
            answer = AnswerCard(f"Setting {name}")
            with ui.element("div").classes("card"):
                panel = self._panels[name] = Panel(form, show, self._drawing(name), name)
        ui.timer(0.01, panel.start, once=True)

    def _write(self, entry: str) -> None:
        """Write both settings to the address, if both can be read."""
        forms = [panel.form for panel in self._panels.values()]
        try:
            self._address.write(two_forms_query(*forms), entry)
        except InputError:
            return  # the other setting has a field that cannot be used
        self._notice.say("")

    def _moved(self, query: Query) -> None:
        forms, said = _asked(query)
        self._notice.say(said)
        for panel, form in zip(self._panels.values(), forms, strict=True):
            background_tasks.create(panel.fill(form))

    def _drawing(self, name: str) -> Callable[[TradeoffCurve], None]:
        return lambda curve: self._draw(name, curve)

    def _draw(self, name: str, curve: TradeoffCurve | None) -> None:
        self._curves[name] = curve
        redraw(self._picture, charts.tradeoff(self._curves))

    def _tabulate(self) -> None:
        first, second = self._plans.values()
        rows = differences(first, second) if first and second else ()
        self._table.clear()
        with self._table:
            if not rows:
                ui.label("The table appears when both settings have an answer.").classes("hint")
                return
            cells = [(row.name, row.first, row.second, row.ratio) for row in rows]
            table(("quantity", *NAMES, "B over A"), cells)


def _asked(query: Query) -> tuple[tuple[Form, Form], str]:
    """Return the two settings of an address, or the example and the reason."""
    example = (EXAMPLE, with_more_agents(EXAMPLE))
    if not query:
        return example, ""
    try:
        return two_forms(query), ""
    except InputError as error:
        return example, say_instead(error)


def build(address: Address) -> None:
    """Build the page."""
    with page("Compare", "Two settings side by side: what one gains over the other, and what it costs."):
        ComparePage(address)
