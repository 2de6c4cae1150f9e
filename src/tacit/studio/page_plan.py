"""Plan: from what you want to the best parameters, or to what has to give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from nicegui import ui

from tacit.report import Row
from tacit.studio import charts
from tacit.studio.form import Form
from tacit.studio.panel import Panel
from tacit.studio.planning import PlanAnswer, TradeoffCurve
from tacit.studio.shell import card, chart, code, page, paragraph, redraw
from tacit.theory.advice import keeper_warnings


class Answer:
    """The answer to one form: a headline, numbers, or what has to give."""

    def __init__(self, heading: str = "Answer") -> None:
        with card(heading) as self._card:
            self._card.props("aria-live=polite")
            self.body = ui.element("div")

    def show(self, found: PlanAnswer, panel: Panel) -> None:
        """Show an answer."""
        self.body.clear()
        self._card.classes(remove="alarm")
        with self.body:
            if found.wrong:
                self._wrong(found)
            elif found.refusal:
                self._card.classes("alarm")
                self._refused(found, panel)
            else:
                ui.label(found.headline).classes("figure").mark("headline")
                paragraph(found.plain, "plain")
                if found.warning:
                    paragraph(found.warning, "wrong")
                trusts(found)

    def _wrong(self, found: PlanAnswer) -> None:
        elsewhere = found.wrong.get("")
        paragraph(elsewhere or "Some fields need a second look.", "wrong")

    def _refused(self, found: PlanAnswer, panel: Panel) -> None:
        ui.label("Out of reach").classes("figure").mark("headline")
        paragraph(found.refusal, "plain")
        if not found.ways:
            return
        with ui.element("div").classes("ways"):
            ui.label("Let one of them give:").classes("hint")
            for way in found.ways:

                async def give(form: Form = way.form) -> None:
                    await panel.fill(form)

                ui.button(way.words, on_click=give).props("outline dense no-caps padding='2px 10px'")


def trusts(found: PlanAnswer) -> None:
    """Build the answers for agents that trust nobody and for those that trust keepers, side by side."""
    if not found.trust:
        return
    with ui.element("div").classes("trusts"):
        for one in found.trust:
            with ui.element("div").classes("trust asked" if one.asked else "trust"):
                ui.label(f"Agents trust: {one.whom.lower()}").classes("hint")
                ui.label(one.headline).classes("whom")
                paragraph(one.words)
    assumed = keeper_warnings(found.question.keepers if found.question is not None else 0)
    if assumed:
        with ui.element("div").classes("assumed").props('role="note"'):
            for sentence in assumed:
                paragraph(sentence)


def numbers(sections: Mapping[str, Sequence[Row]]) -> None:
    """Build the numbers of an answer, grouped and aligned."""
    with ui.element("div").classes("numbers"):
        for section, lines in sections.items():
            with ui.element("div"):
                with ui.element("h2"):
                    ui.label(section)
                for line in lines:
                    with ui.element("div").classes("line"):
                        ui.label(line.name)
                        ui.label(line.shown).classes("value")
                        ui.label(line.meaning).classes("meaning")


class PlanPage:
    """A form beside its answer, the trade-off, the numbers, and the lines that do the same."""

    def __init__(self, form: Form) -> None:
        with ui.element("div").classes("columns"):
            with ui.element("div").classes("card"):
                self._panel = Panel(form, self._show, self._draw)
            with ui.element("div").classes("stack"):
                self._answer = Answer()
                with card("Privacy against accuracy"):
                    self._picture = chart(charts.tradeoff({"": None}), "Radius against privacy loss")
                with ui.element("section").classes("card") as self._details:
                    self._table = ui.element("div")
                with card("Do the same elsewhere", "form") as self._same:
                    self._command, self._python = code("On the command line"), code("In Python")
                    with ui.element("div").classes("ways"):
                        self._watch = ui.link("Watch a session with these numbers", "/watch")
                        self._compare = ui.link("Compare with another setting", "/compare")
        self._details.set_visibility(False)
        self._same.set_visibility(False)
        ui.timer(0.01, self._panel.start, once=True)

    def _draw(self, curve: TradeoffCurve) -> None:
        redraw(self._picture, charts.tradeoff({"": curve}))

    def _show(self, found: PlanAnswer) -> None:
        self._answer.show(found, self._panel)
        self._details.set_visibility(found.design is not None)
        self._same.set_visibility(bool(found.command))
        if found.curve is not None:
            self._draw(found.curve)
        self._table.clear()
        with self._table:
            if found.design is not None and found.summary is not None:
                numbers(found.summary.sections)
                with ui.element("div").classes("notes"):
                    for note in found.design.notes():
                        paragraph(note)
        self._command(found.command)
        self._python(found.python)
        query = urlencode(found.form.query())
        self._watch.props["href"] = f"/watch?{query}"
        self._compare.props["href"] = f"/compare?{query}"


def build(query: Mapping[str, str]) -> None:
    """Build the page."""
    lead = "Say how many agents, how accurate, how private; get the parameters that do it."
    with page("Plan", lead):
        PlanPage(Form.from_query(query))
