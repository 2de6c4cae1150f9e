"""Plan: the best parameters for a question, or changes that allow them."""

from __future__ import annotations

from urllib.parse import urlencode

from nicegui import background_tasks, ui

from tacit.base.errors import InputError
from tacit.core.theory.advice import keeper_warnings
from tacit.studio import charts
from tacit.studio.address import Address, Query, say_instead
from tacit.studio.compare import compared_query
from tacit.studio.examples import PLAN, SERIES
from tacit.studio.form import EXAMPLE, Form, unit_of, whole
from tacit.studio.panel import Panel
from tacit.studio.plan_answer import PlanAnswer, TradeoffCurve
from tacit.studio.planning import form_of
from tacit.studio.shell import Numbers, PageNotice, card, chart, code, page, paragraph, redraw


class AnswerCard:
    """The answer to one form: a headline, possible changes, or an error."""

    def __init__(self, heading: str = "Answer") -> None:
        with card(heading) as self._card:
            self._card.props("aria-live=polite")
            self.body = ui.element("div")
        with self.body:
            paragraph("Computing …", "hint")

    def show(self, found: PlanAnswer, panel: Panel) -> None:
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
                if found.liar:
                    paragraph(found.liar, "plain")

    def _refused(self, found: PlanAnswer, panel: Panel) -> None:
        ui.label("Out of reach").classes("figure").mark("headline")
        paragraph(found.refusal, "plain")
        if not found.ways:
            return
        with ui.element("div").classes("ways"):
            ui.label("Change one of these fields:").classes("hint")
            for way in found.ways:

                async def give(form: Form = way.form) -> None:
                    await panel.fill(form, "way")

                ui.button(way.words, on_click=give).props("outline dense no-caps padding='2px 10px'")


def trusts(found: PlanAnswer) -> None:
    """Build the answers without and with keepers, and what these assume."""
    if found.warning:
        paragraph(found.warning, "wrong")
    if found.trust:
        with ui.element("div").classes("trusts"):
            for one in found.trust:
                with ui.element("div").classes("trust asked" if one.asked else "trust"):
                    ui.label(f"Agents trust: {one.whom.lower()}").classes("hint")
                    ui.label(one.headline).classes("whom")
                    paragraph(one.words)
    assumed = keeper_warnings(found.keepers)
    if assumed:
        with ui.element("div").classes("assumed").props('role="note"'):
            for sentence in assumed:
                paragraph(sentence)


class PlanPage:
    """A form, its answer, the trade-off, the numbers, and code to copy."""

    def __init__(self, address: Address, example: Form) -> None:
        self._address, self._example = address, example
        form, said = asked(address.query, example)
        self._notice = PageNotice(said)
        with ui.element("div").classes("columns"):
            with ui.element("div").classes("card"):
                self._panel = Panel(form, self._show, self._draw, once=False)
            with ui.element("div").classes("stack"):
                self._answer = AnswerCard()
                with card("Intervals of the answer, if records are spread evenly") as self._parts:
                    self._intervals = chart(charts.intervals(None, ""), "Interval of each part", "low")
                with card("Privacy against accuracy") as self._card:
                    self._picture = chart(charts.tradeoff({"": None}), "Radius against privacy loss")
                with card("What each mechanism would do") as self._mechanisms:
                    self._slots = chart(
                        charts.over_slots(None, "", 1, ""), "Deviation of each mean over the number of means"
                    )
                self._numbers = Numbers()
                with card("Do the same elsewhere", "form") as self._same:
                    self._command, self._python = code("On the command line"), code("In Python")
                    with ui.element("div").classes("ways") as self._links:
                        self._watch = ui.link("Watch a session with these numbers", "/watch")
                        self._compare = ui.link("Compare with another setting", "/compare")
        for hidden in (self._card, self._parts, self._mechanisms, self._same):
            hidden.set_visibility(False)
        address.follow(self._moved)
        ready = [made.found for made in (PLAN, SERIES) if made.found is not None and made.found.form == form]
        if ready:
            self._panel.answered(ready[0])
        else:
            ui.timer(0.01, self._panel.start, once=True)

    def _moved(self, query: Query) -> None:
        form, said = asked(query, self._example)
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
        self._draw_slots(found)
        self._numbers.show(found.summary, _notes_below(found))
        self._same.set_visibility(not found.wrong)
        if found.wrong:
            return
        self._command(found.command)
        self._python(found.python)
        self._links.set_visibility(found.form.when == "once")
        if found.form.when != "once":
            return
        self._watch.props["href"] = f"/watch?{urlencode(found.form.query(), safe=':,')}"
        self._compare.props["href"] = f"/compare?{urlencode(compared_query(found.form), safe=':,')}"

    def _draw_slots(self, found: PlanAnswer) -> None:
        self._mechanisms.set_visibility(found.slots is not None)
        if found.slots is not None:
            chosen = "" if found.series is None else found.series.mechanism
            asked_for = whole(found.form.slots)
            redraw(self._slots, charts.over_slots(found.slots, chosen, asked_for, unit_of(found.form)))


def _notes_below(found: PlanAnswer) -> list[str]:
    """Return the notes that do not stand above the numbers already."""
    above = (found.warning, *keeper_warnings(found.keepers))
    notes = found.design.notes() if found.design is not None else found.summary.notes if found.summary else ()
    return [note for note in notes if note not in above]


def asked(query: Query, example: Form) -> tuple[Form, str]:
    """Return the form of an address, or the example and the reason."""
    if not query:
        return example, ""
    try:
        return form_of(query, example if example.when == "series" else None), ""
    except InputError as error:
        return example, say_instead(error)


def build(address: Address, example: Form = EXAMPLE) -> None:
    """Build the page."""
    lead = "Enter how many agents there are, how accurate and how private. Get the best parameters."
    with page("Plan", lead):
        PlanPage(address, example)
