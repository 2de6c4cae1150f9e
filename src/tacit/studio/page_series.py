"""Plan a series: one loss for all means, and the error of each mean."""

from __future__ import annotations

from collections.abc import Callable

from nicegui import background_tasks, ui

from tacit.base.errors import InputError
from tacit.core.theory import advice
from tacit.studio import charts
from tacit.studio.address import Address, Query, say_instead
from tacit.studio.examples import SERIES
from tacit.studio.fields import Fields
from tacit.studio.form import TRUSTED
from tacit.studio.page_plan import AnswerCard, assumptions
from tacit.studio.scales import Scale
from tacit.studio.series_planning import HIDES, SeriesAnswer, SeriesForm, from_query, plan_series
from tacit.studio.shell import Numbers, PageNotice, card, chart, code, kinds, page, redraw

_SCALES = {
    "slots": Scale(1, 1_000_000, whole=True, digits=2),
    "agents": Scale(2, 1_000_000, whole=True, digits=2),
    "budget": Scale(0.01, 20),
}
_HINTS = {
    "slots": "35,040 is a year of quarter hours.",
    "budget": f"For all means together. {advice.scale()}",
    "delta": "How likely the loss may be exceeded (δ).",
}
_SIZES = {"step": "a step of up to", "window": "readings in a row", "reading": ""}


class SeriesPanel(Fields[SeriesForm, SeriesAnswer]):
    """A form for a series of means."""

    def __init__(self, form: SeriesForm, show: Callable[[SeriesAnswer], None]) -> None:
        super().__init__(form, plan_series, show)

    def _build(self) -> None:
        self._hints = _HINTS
        with ui.element("div").classes("group"):
            self._heading("How many means, how often?")
            self._number("slots", "number of means", slider=True)
            self._number("every", "one every").props('suffix="minutes"')
        with ui.element("div").classes("group"):
            self._heading("What must stay hidden?")
            self._choice("hides", HIDES, "What must stay hidden?")
            self._size = self._number("size", _SIZES["step"])
        with ui.element("div").classes("group"):
            self._heading("Who takes part")
            self._number("agents", "number of agents", slider=True)
        with ui.element("div").classes("group"):
            self._heading("Whom do your agents trust?")
            self._choice("keepers", TRUSTED, "Whom do your agents trust?")
        with ui.element("div").classes("group"):
            self._heading("Their readings")
            with ui.element("div").classes("side"):
                self._number("low", "from")
                self._number("high", "to")
                self._text("unit", "unit").props('placeholder="kW"')
        with ui.element("div").classes("group"):
            self._heading("Privacy")
            self._number("budget", "privacy loss of at most", slider=True)
            self._number("delta", "failure probability")

    def _scale(self, name: str) -> Scale:
        return _SCALES[name]

    def _arrange(self) -> None:
        kind, unit = self.form.hides, self.form.unit
        self._size.set_visibility(kind != "reading")
        self._size.props["label"] = _SIZES.get(kind, "")
        self._size.props["suffix"] = unit if kind == "step" else ""
        for name in ("low", "high"):
            self._inputs[name].props["suffix"] = unit
        self._place_sliders()


class SeriesPage:
    """A form, its answer, a chart of all mechanisms, and the numbers."""

    def __init__(self, address: Address) -> None:
        self._address = address
        form, said = _asked(address.query)
        kinds("/series")
        self._notice = PageNotice(said)
        with ui.element("div").classes("columns"):
            with ui.element("div").classes("card"):
                self._panel = SeriesPanel(form, self._show)
            with ui.element("div").classes("stack"):
                self._answer: AnswerCard[SeriesForm] = AnswerCard()
                with card("What each mechanism would do") as self._card:
                    self._picture = chart(
                        charts.over_slots(None, "", 1, ""), "Deviation of each mean over the number of means"
                    )
                self._numbers = Numbers()
                with card("Do the same elsewhere", "form") as self._same:
                    self._command, self._python = code("On the command line"), code("In Python")
        self._card.set_visibility(False)
        self._same.set_visibility(False)
        address.follow(self._moved)
        if form == SeriesForm() and SERIES.found is not None:
            self._panel.answered(SERIES.found)
        else:
            ui.timer(0.01, self._panel.start, once=True)

    def _moved(self, query: Query) -> None:
        form, said = _asked(query)
        self._notice.say(said)
        background_tasks.create(self._panel.fill(form))

    def _show(self, found: SeriesAnswer) -> None:
        if self._panel.changed and not found.wrong:
            self._notice.say("")
            self._address.write(found.form.query(), self._panel.changed)
        self._answer.show(found, self._panel)
        with self._answer.body:
            assumptions(found.question.keepers if found.question is not None else 0)
        self._card.set_visibility(found.curves is not None)
        if found.curves is not None and found.question is not None:
            chosen = found.design.mechanism if found.design is not None else ""
            unit = found.form.unit.strip()
            redraw(self._picture, charts.over_slots(found.curves, chosen, found.question.slots, unit))
        self._numbers.show(found.summary, found.summary.notes if found.summary is not None else ())
        self._same.set_visibility(not found.wrong)
        self._command(found.command)
        self._python(found.python)


def _asked(query: Query) -> tuple[SeriesForm, str]:
    """Return the form of an address, or the example and the reason."""
    try:
        return from_query(query), ""
    except InputError as error:
        return SeriesForm(), say_instead(error)


def build(address: Address) -> None:
    """Build the page."""
    lead = "A mean at regular times. Enter what must stay hidden. Get the error of each mean, and one loss."
    with page("Plan", lead):
        SeriesPage(address)
