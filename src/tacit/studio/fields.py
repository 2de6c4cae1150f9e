"""The fields of a form on a page, in groups."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from nicegui import events, ui

from tacit.base.errors import InputError
from tacit.studio.form import Form, number
from tacit.studio.latest import Latest
from tacit.studio.plan_answer import PlanAnswer
from tacit.studio.scales import STEP, STEPS, Scale
from tacit.studio.shell import Slider

_REST = 0.06  # seconds without a change before a question is answered


class Fields(ABC):
    """A form whose question is answered in a thread.

    Only the newest answer is shown, and only the fields that the question uses.

    Parameters
    ----------
    form : Form
        What is in the fields at first.
    work : callable
        From a form to its answer. It does not raise: errors are part of the answer.
    show : callable
        Is given every answer.
    name : str
        Tells two forms on one page apart.
    """

    def __init__(
        self,
        form: Form,
        work: Callable[[Form], PlanAnswer],
        show: Callable[[PlanAnswer], None],
        name: str = "",
    ) -> None:
        self.form, self.changed = form, ""
        self._name, self._show, self._filling = name, show, False
        self._inputs: dict[str, ui.input] = {}
        self._choices: dict[str, Any] = {}
        self._sliders: dict[str, Slider] = {}
        self._groups: list[tuple[ui.element, set[str]]] = []
        self._hints: Mapping[str, str] = {}
        self._answers: Latest[Form, PlanAnswer] = Latest(work, self.answered)
        label = f"Setting {name}" if name else "Question"
        with ui.element("form").classes("form").props(f'aria-label="{label}"').on("submit.prevent"):
            self._build()
        self._arrange()

    @abstractmethod
    def _build(self) -> None:
        """Build the fields."""

    def _arrange(self) -> None:
        """Show the fields that the question uses, and move the sliders."""
        used = self.form.used()
        for fields in (self._inputs, self._choices, self._sliders):
            for name, field in fields.items():
                field.set_visibility(name in used)
        for group, names in self._groups:
            group.set_visibility(not used.isdisjoint(names))
        self._place_sliders()

    @abstractmethod
    def _scale(self, name: str) -> Scale:
        """Return the scale of a slider."""

    async def start(self) -> None:
        """Answer the question that the form starts with."""
        await self._answers.ask(self.form)

    async def fill(self, form: Form, changed: str = "") -> None:
        """Put another form into the fields, and answer it.

        `changed` names what the user changed. It is empty if the form comes from the address.
        """
        self.form, self._filling, self.changed = form, True, changed
        for name, field in (self._inputs | self._choices).items():
            field.value = getattr(form, name)
        self._filling = False
        await self._ask()

    def answered(self, answer: PlanAnswer) -> None:
        """Show an answer, and each error at its field."""
        for name, field in self._inputs.items():
            field.error = answer.wrong.get(name)
        self._show(answer)

    @contextmanager
    def _group(self, heading: str = "", classes: str = "group") -> Iterator[None]:
        """Build a group of fields, shown if the question uses one of them."""
        before = {*self._inputs, *self._choices}
        with ui.element("div").classes(classes) as made:
            if heading:
                with ui.element("h2"):
                    ui.label(heading)
            yield
        self._groups.append((made, {*self._inputs, *self._choices} - before))

    def _choice(self, name: str, labels: Mapping[str, str], described: str, props: str = "dense") -> ui.radio:
        made = ui.radio(dict(labels), value=getattr(self.form, name), on_change=self._on(name)).props(props)
        made.props["aria-label"] = described
        self._choices[name] = made.mark(f"{name}{self._name}")
        return made

    def _select(self, name: str, labels: Mapping[str, str], label: str) -> ui.select:
        made = ui.select(
            dict(labels), value=getattr(self.form, name), label=label, on_change=self._on(name)
        ).props("dense outlined stack-label hide-bottom-space")
        self._choices[name] = made.mark(f"{name}{self._name}")
        return made

    def _text(self, name: str, label: str) -> ui.input:
        made = ui.input(label, value=getattr(self.form, name), on_change=self._on(name))
        made.props("dense outlined stack-label hide-bottom-space autocomplete=off spellcheck=false")
        self._inputs[name] = made.mark(f"{name}{self._name}")
        return made

    def _number(self, name: str, label: str, *, slider: bool = False) -> ui.input:
        made = self._text(name, label).props("inputmode=decimal")
        if name in self._hints:
            made.props["hint"] = self._hints[name]
        if slider:

            def slid(event: events.GenericEventArguments) -> None:
                made.value = self._scale(name).text(float(event.args))

            bar = Slider(min=0, max=STEPS, step=STEP, value=0).mark(f"slide-{name}{self._name}")
            # Not on_change: it would also report positions that the page sets itself.
            bar.on("update:model-value", slid, throttle=0.05)
            bar.props["aria-label"] = f"{label}, as a slider"
            self._sliders[name] = bar
        return made

    def _on(self, name: str) -> Callable[[events.ValueChangeEventArguments[Any]], Any]:
        def changed(event: events.ValueChangeEventArguments[Any]) -> Awaitable[None] | None:
            if self._filling:  # checked here: a coroutine would run only after fill() has ended
                return None
            self.changed = name
            value: Any = event.value if event.value is not None else ""
            self.form = replace(self.form, **{name: value})
            return self._ask()

        return changed

    async def _ask(self) -> None:
        """Answer after a short pause without changes."""
        self._arrange()
        form = self.form
        await self._sketch(form)
        await asyncio.sleep(_REST)
        if form is self.form:
            await self._answers.ask(form)

    @abstractmethod
    async def _sketch(self, form: Form) -> None:
        """Draw what can be drawn at once."""

    def _place_sliders(self) -> None:
        for name, bar in self._sliders.items():
            scale, text = self._scale(name), getattr(self.form, name)
            with suppress(InputError):  # the field shows what is wrong
                if scale.text(bar.value or 0) != text:  # equal if the user moved the slider itself
                    bar.value = scale.position(number(text))
