"""The fields of a form on a page, for both kinds of question."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar

from nicegui import events, ui

from tacit.base.errors import InputError
from tacit.studio.form import number
from tacit.studio.latest import Latest
from tacit.studio.scales import STEP, STEPS, Scale
from tacit.studio.shell import Slider

_REST = 0.06  # seconds without a change before a question is answered


class FormAnswer(Protocol):
    """An answer, with one sentence for every field that cannot be used."""

    @property
    def wrong(self) -> Mapping[str, str]:
        """Sentences by field."""
        ...


F = TypeVar("F", bound=Any)
A = TypeVar("A", bound=FormAnswer)


class Fields(ABC, Generic[F, A]):
    """A form whose question is answered in a thread.

    Only the newest answer is shown.

    Parameters
    ----------
    form : dataclass of texts
        What is in the fields at first.
    work : callable
        From a form to its answer. It does not raise: errors are part of the answer.
    show : callable
        Is given every answer.
    name : str
        Tells two forms on one page apart.
    """

    def __init__(self, form: F, work: Callable[[F], A], show: Callable[[A], None], name: str = "") -> None:
        self.form, self.changed = form, ""
        self._name, self._show, self._filling = name, show, False
        self._inputs: dict[str, ui.input] = {}
        self._choices: dict[str, Any] = {}
        self._sliders: dict[str, Slider] = {}
        self._hints: Mapping[str, str] = {}
        self._answers: Latest[F, A] = Latest(work, self.answered)
        label = f"Setting {name}" if name else "Question"
        with ui.element("form").classes("form").props(f'aria-label="{label}"').on("submit.prevent"):
            self._build()
        self._arrange()

    @abstractmethod
    def _build(self) -> None:
        """Build the fields."""

    @abstractmethod
    def _arrange(self) -> None:
        """Show the fields that the question needs, and move the sliders."""

    @abstractmethod
    def _scale(self, name: str) -> Scale:
        """Return the scale of a slider."""

    async def start(self) -> None:
        """Answer the question that the form starts with."""
        await self._answers.ask(self.form)

    async def fill(self, form: F, changed: str = "") -> None:
        """Put another form into the fields, and answer it.

        `changed` names what the user changed. It is empty if the form comes from the address.
        """
        self.form, self._filling, self.changed = form, True, changed
        for name, field in (self._inputs | self._choices).items():
            field.value = getattr(form, name)
        self._filling = False
        await self._ask()

    def answered(self, answer: A) -> None:
        """Show an answer, and each error at its field."""
        for name, field in self._inputs.items():
            field.error = answer.wrong.get(name)
        self._show(answer)

    def _heading(self, text: str) -> None:
        with ui.element("h2"):
            ui.label(text)

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
            self.form = replace(self.form, **{name: event.value if event.value is not None else ""})
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

    async def _sketch(self, form: F) -> None:
        """Draw what can be drawn at once; by default nothing."""

    def _place_sliders(self) -> None:
        for name, bar in self._sliders.items():
            scale, text = self._scale(name), getattr(self.form, name)
            with suppress(InputError):  # the field shows what is wrong
                if scale.text(bar.value or 0) != text:  # equal if the user moved the slider itself
                    bar.value = scale.position(number(text))
