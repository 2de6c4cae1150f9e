"""Plan: the best parameters for a question, or changes that allow them."""

from __future__ import annotations

from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

from nicegui import background_tasks, ui

from tacit.base.errors import InputError
from tacit.core.theory.advice import keeper_warnings
from tacit.core.theory.answers import Design
from tacit.studio import charts
from tacit.studio.address import Address, Query, say_instead
from tacit.studio.compare import compared_query
from tacit.studio.examples import PLAN
from tacit.studio.fields import Fields
from tacit.studio.form import EXAMPLE, Form, from_query
from tacit.studio.panel import Panel
from tacit.studio.planning import PlanAnswer, TradeoffCurve, unit_of
from tacit.studio.series_planning import SeriesAnswer
from tacit.studio.shell import Numbers, PageNotice, card, chart, code, kinds, page, paragraph, redraw

F = TypeVar("F", bound=Any)


class AnswerCard(Generic[F]):
    """The answer to one form: a headline, possible changes, or an error."""

    def __init__(self, heading: str = "Answer") -> None:
        with card(heading) as self._card:
            self._card.props("aria-live=polite")
            self.body = ui.element("div")
        with self.body:
            paragraph("Computing …", "hint")

    def show(self, found: PlanAnswer | SeriesAnswer, panel: Fields[F, Any]) -> None:
        """Replace the old answer."""
        self.body.clear()
        self._card.classes(remove="alarm")
        with self.body:
            if found.wrong:
                elsewhere = found.wrong.get("")
                paragraph(elsewhere or "A field cannot be used: the reason is below it.", "wrong")
            elif found.refusal:
                self._card.classes("alarm")
                self._refused(found, panel)
            else:
                ui.label(found.headline).classes("figure").mark("headline")
                paragraph(found.plain, "plain")

    def _refused(self, found: PlanAnswer | SeriesAnswer, panel: Fields[F, Any]) -> None:
        ui.label("Out of reach").classes("figure").mark("headline")
        paragraph(found.refusal, "plain")
        if not found.ways:
            return
        with ui.element("div").classes("ways"):
            ui.label("Change one of these fields:").classes("hint")
            for way in found.ways:

                async def give(form: Any = way.form) -> None:
                    await panel.fill(form, "way")

                ui.button(way.words, on_click=give).props("outline dense no-caps padding='2px 10px'")


def trusts(found: PlanAnswer) -> None:
    """Build the answers without and with keepers, side by side."""
    if found.warning:
        paragraph(found.warning, "wrong")
    if found.trust:
        with ui.element("div").classes("trusts"):
            for one in found.trust:
                with ui.element("div").classes("trust asked" if one.asked else "trust"):
                    ui.label(f"Agents trust: {one.whom.lower()}").classes("hint")
                    ui.label(one.headline).classes("whom")
                    paragraph(one.words)
    assumptions(found.question.keepers if found.question is not None else 0)


def assumptions(keepers: int) -> None:
    """Build the sentences about what is assumed of keepers."""
    assumed = keeper_warnings(keepers)
    if assumed:
        with ui.element("div").classes("assumed").props('role="note"'):
            for sentence in assumed:
                paragraph(sentence)


class PlanPage:
    """A form, its answer, the trade-off, the numbers, and code to copy."""

    def __init__(self, address: Address) -> None:
        self._address = address
        form, said = asked(address.query, EXAMPLE)
        kinds("/")
        self._notice = PageNotice(said)
        with ui.element("div").classes("columns"):
            with ui.element("div").classes("card"):
                self._panel = Panel(form, self._show, self._draw)
            with ui.element("div").classes("stack"):
                self._answer: AnswerCard[Form] = AnswerCard()
                with card("Intervals of the answer, if records are spread evenly") as self._parts:
                    self._intervals = chart(charts.intervals(None, ""), "Interval of each part", "low")
                with card("Privacy against accuracy") as self._card:
                    self._picture = chart(charts.tradeoff({"": None}), "Radius against privacy loss")
                self._numbers = Numbers()
                with card("Do the same elsewhere", "form") as self._same:
                    self._command, self._python = code("On the command line"), code("In Python")
                    with ui.element("div").classes("ways"):
                        self._watch = ui.link("Watch a session with these numbers", "/watch")
                        self._compare = ui.link("Compare with another setting", "/compare")
        self._card.set_visibility(False)
        self._parts.set_visibility(False)
        self._same.set_visibility(False)
        address.follow(self._moved)
        if form == EXAMPLE and PLAN.found is not None:
            self._panel.answered(PLAN.found)
        else:
            ui.timer(0.01, self._panel.start, once=True)

    def _moved(self, query: Query) -> None:
        form, said = asked(query, EXAMPLE)
        self._notice.say(said)
        background_tasks.create(self._panel.fill(form))

    def _draw(self, curve: TradeoffCurve) -> None:
        self._card.set_visibility(True)
        redraw(self._picture, charts.tradeoff({"": curve}))

    def _show(self, found: PlanAnswer) -> None:
        if self._panel.changed and not found.wrong:
            self._notice.say("")
            self._address.write(found.form.query(), self._panel.changed)
        self._answer.show(found, self._panel)
        with self._answer.body:
            trusts(found)
        self._card.set_visibility(found.curve is not None)
        if found.curve is not None:
            self._draw(found.curve)
        planned = None if found.design is None else found.design.promise.answer
        self._parts.set_visibility(planned is not None and bool(planned.each.parts))
        if planned is not None:
            redraw(self._intervals, charts.intervals(planned, unit_of(found.form)))
        self._numbers.show(found.summary, [] if found.design is None else _notes_below(found.design))
        self._same.set_visibility(not found.wrong)
        if found.wrong:
            return
        self._command(found.command)
        self._python(found.python)
        self._watch.props["href"] = f"/watch?{urlencode(found.form.query(), safe=':,')}"
        self._compare.props["href"] = f"/compare?{urlencode(compared_query(found.form), safe=':,')}"


def _notes_below(made: Design) -> list[str]:
    """Return the notes that do not stand above the numbers already."""
    above = (made.warning, *keeper_warnings(made.mechanism.keepers))
    return [note for note in made.notes() if note not in above]


def asked(query: Query, example: Form) -> tuple[Form, str]:
    """Return the form of an address, or the example and the reason."""
    if not query:
        return example, ""
    try:
        return from_query(query), ""
    except InputError as error:
        return example, say_instead(error)


def build(address: Address) -> None:
    """Build the page."""
    lead = "Enter how many agents there are, how accurate and how private. Get the best parameters."
    with page("Plan", lead):
        PlanPage(address)
