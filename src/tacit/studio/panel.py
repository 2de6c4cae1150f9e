"""The form of a design question: fields in words, sliders, and every sentence next to its field."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from nicegui import events, ui

from tacit.errors import InputError
from tacit.studio.form import FINDS, TRUSTED, Form, number
from tacit.studio.latest import Latest
from tacit.studio.planning import PlanAnswer, TradeoffCurve, plan, sketch
from tacit.studio.scales import STEP, STEPS, Scale
from tacit.studio.shell import Slider
from tacit.theory import advice

GRAPHS = (
    "karate", "ring:50", "grid:8x8", "regular:100:6:seed=1", "smallworld:100:6:0.1:seed=1",
    "geometric:100:0.2:seed=1", "barabasi:100:3:seed=1", "complete:20", "star:20",
)  # fmt: skip
SCALES = {
    "agents": Scale(2, 1_000_000, whole=True, digits=2),
    "probability": Scale(50, 99.9, log=False),
    "budget": Scale(0.01, 20),
    "rounds": Scale(1, 201, log=False, whole=True),
    "mixing": Scale(0.05, 0.99, log=False),
}
_WIDEST = 1e300  # range for which there is a slider
_REST = 0.06  # seconds without a change
_HINTS = {
    "radius": "How far from the true mean the agents may end.",
    "probability": "How sure you want to be of that.",
    "budget": f"The most that one agent may lose. {advice.scale()}",
}


class Panel:
    """A form whose answer is found off the event loop; only the newest is shown.

    Parameters
    ----------
    form : Form
        What is in the fields at first.
    show : callable
        Is given every answer.
    draw : callable
        Is given the curve at once, while the answer is still being worked out.
    """

    def __init__(
        self,
        form: Form,
        show: Callable[[PlanAnswer], None],
        draw: Callable[[TradeoffCurve], None],
        name: str = "",
    ) -> None:
        self.form, self._name, self._show, self._filling = form, name, show, False
        self._inputs: dict[str, ui.input] = {}
        self._sliders: dict[str, Slider] = {}
        self._plan: Latest[Form, PlanAnswer] = Latest(plan, self._answered)
        self._sketch: Latest[Form, TradeoffCurve | None] = Latest(
            sketch, lambda c: draw(c) if c is not None else None
        )
        with ui.element("form").classes("form").props('aria-label="What you want"').on("submit.prevent"):
            self._build()
        self._arrange()

    async def start(self) -> None:
        """Answer the question that the form begins with."""
        await self._plan.ask(self.form)

    async def fill(self, form: Form) -> None:
        """Put other text into the fields."""
        self.form, self._filling = form, True
        for name, field in self._inputs.items():
            field.value = getattr(form, name)
        self._find.value, self._place.value = form.find, form.place
        self._privacy.value, self._average.value = form.privacy, form.average
        self._keepers.value = form.keepers if form.keepers in TRUSTED else None
        self._filling = False
        await self._changed()

    def _build(self) -> None:
        with ui.element("div").classes("group"):
            self._heading("What do you want to know?")
            self._find = ui.radio(FINDS, value=self.form.find, on_change=self._on("find")).props("dense")
        with ui.element("div").classes("group"):
            self._heading("Who takes part")
            places = {"server": "around a server", "graph": "on a graph"}
            self._place = ui.radio(places, value=self.form.place, on_change=self._on("place"))
            self._place.props("dense inline")
            self._agents = self._number("agents", "number of agents", slider=True)
            with ui.element("div") as self._graph:
                field = self._text("graph", "graph, by its name").props(f'list="graphs{self._name}"')
                field.props('hint="Like ring:50, or regular:100:6:seed=1."')
                with ui.element("datalist").props(f'id="graphs{self._name}"'):
                    for known in GRAPHS:
                        ui.element("option").props(f'value="{known}"')
                self._average = ui.switch(
                    "aim for the true mean", value=self.form.average, on_change=self._on("average")
                ).props("dense")
        with ui.element("div").classes("group") as self._trust:
            self._heading("Whom do your agents trust?")
            chosen = self.form.keepers if self.form.keepers in TRUSTED else None
            self._keepers = ui.radio(TRUSTED, value=chosen, on_change=self._on("keepers")).props("dense")
            self._keepers.mark(f"keepers{self._name}")
        with ui.element("div").classes("group"):
            self._heading("Their values")
            with ui.element("div").classes("side"):
                self._number("low", "values from")
                self._number("high", "to")
                self._text("unit", "unit").props('placeholder="kW"')
        with ui.element("div").classes("group"):
            self._heading("Accuracy")
            self._radius = self._number("radius", "mean within ±", slider=True)
            self._number("probability", "with probability", slider=True).props('suffix="%"')
        with ui.element("div").classes("group") as self._budget:
            self._heading("Privacy")
            self._number("budget", "privacy loss of at most", slider=True)
            kinds = {"loss": "over the whole range", "epsilon": "per unit (ε)"}
            self._privacy = ui.radio(kinds, value=self.form.privacy, on_change=self._on("privacy"))
            self._privacy.props("dense inline")
        with (
            ui.element("div").classes("group"),
            ui.expansion("More: rounds, mixing, …").props("dense") as more,
        ):
            self._more()
        more.set_value(
            self.form.components != "1"
            or any(getattr(self.form, name) for name in ("rounds", "mixing", "adjacency", "tolerance"))
        )

    def _more(self) -> None:
        with ui.element("div").classes("form").style("padding-top: 8px"):
            self._number("rounds", "rounds", slider=True).props(
                'placeholder="endless" hint="Empty: the promise covers an endless run."'
            )
            self._number("mixing", "mixing σ", slider=True).props(
                'placeholder="the best" hint="How far an agent moves in one round. Empty: the most accurate."'
            )
            self._number("adjacency", "hide differences up to").props(
                'placeholder="the whole range" hint="Adjacency δ: smaller protects less."'
            )
            self._number("components", "numbers per value").props(
                'hint="Components. Each has noise of its own; the accuracy asked for is that of any one."'
            )
            self._number("tolerance", "agents agree within").props(
                'placeholder="a thousandth of the range" hint="When they count as agreed."'
            )

    def _heading(self, text: str) -> None:
        with ui.element("h2"):
            ui.label(text)

    def _text(self, name: str, label: str) -> ui.input:
        made = ui.input(label, value=getattr(self.form, name), on_change=self._on(name))
        made.props("dense outlined stack-label hide-bottom-space autocomplete=off spellcheck=false")
        self._inputs[name] = made.mark(f"{name}{self._name}")
        return made

    def _number(self, name: str, label: str, *, slider: bool = False) -> ui.input:
        made = self._text(name, label).props("inputmode=decimal")
        if name in _HINTS:
            made.props["hint"] = _HINTS[name]
        if slider:

            def slid(event: events.GenericEventArguments) -> None:
                made.value = self._scale(name).text(float(event.args))

            bar = Slider(min=0, max=STEPS, step=STEP, value=0).mark(f"slide-{name}{self._name}")
            bar.on("update:model-value", slid, throttle=0.05)  # only what the user does, unlike on_change
            bar.props["aria-label"] = label
            self._sliders[name] = bar
        return made

    def _scale(self, name: str) -> Scale:
        if name != "radius":
            return SCALES[name]
        try:  # a radius is large or small only beside the range of the values
            span = number(self.form.high) - number(self.form.low)
        except InputError:
            span = 1.0
        span = span if 0 < span < _WIDEST else 1.0
        return Scale(span / 10_000, span)

    def _on(self, name: str) -> Callable[[events.ValueChangeEventArguments[Any]], Any]:
        async def changed(event: events.ValueChangeEventArguments[Any]) -> None:
            if not self._filling:
                change: dict[str, Any] = {name: event.value if event.value is not None else ""}
                self.form = replace(self.form, **change)
                await self._changed()

        return changed

    async def _changed(self) -> None:
        """Draw the curve at once, and answer when the slider or the typing rests for a moment."""
        self._arrange()
        form = self.form
        await self._sketch.ask(form)
        await asyncio.sleep(_REST)
        if form is self.form:
            await self._plan.ask(form)

    def _arrange(self) -> None:
        """Show the fields that this question needs, and put the sliders where the numbers are."""
        form = self.form
        on_server = form.place == "server"
        self._place.set_visibility(form.find != "size")
        for field in (self._agents, self._sliders["agents"]):
            field.set_visibility(form.find != "size" and on_server)
        self._graph.set_visibility(form.find != "size" and not on_server)
        self._trust.set_visibility(form.find == "size" or on_server)
        for field in (self._radius, self._sliders["radius"]):
            field.set_visibility(form.find != "accuracy")
        self._budget.set_visibility(form.find != "privacy")
        for name in ("low", "high", "radius", "adjacency", "tolerance"):
            self._inputs[name].props["suffix"] = form.unit
        for name, bar in self._sliders.items():
            scale, text = self._scale(name), getattr(form, name)
            with suppress(InputError):  # the field says what is wrong
                if scale.text(bar.value or 0) != text:  # otherwise it was the slider that was moved
                    bar.value = scale.position(number(text))

    def _answered(self, answer: PlanAnswer) -> None:
        for name, field in self._inputs.items():
            field.error = answer.wrong.get(name)
        self._show(answer)
