"""Answer the question of a form, with everything that the page shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tacit.base.errors import GraphError, Infeasible, InputError, ParameterError, TacitError
from tacit.base.report import near
from tacit.studio import planned_once, planned_series
from tacit.studio.form import TRUSTED, FieldErrors, Form, filled, first_of, shown_field, unit_of
from tacit.studio.plan_answer import PlanAnswer, PlanPart, Way
from tacit.studio.words import with_unit

PARTS: Mapping[str, PlanPart[Any]] = {"once": planned_once.PART, "series": planned_series.PART}
_SAID = {"radius": "mean within ±", "loss": "privacy loss", "epsilon": "privacy loss per unit"}
"""What the form calls these quantities."""


def plan(form: Form) -> PlanAnswer:
    """Answer the question of a form; errors are part of the answer."""
    part = PARTS[form.when]
    try:
        question = part.read(form)
    except FieldErrors as error:
        return PlanAnswer(form, wrong=error.fields)
    asked = part.asked(form, question)
    try:
        return part.answered(asked, question)
    except Infeasible as error:
        ways = tuple(_way(form, changes) for changes in error.alternatives)
        return replace(part.drawn(asked, question), refusal=str(error), ways=ways)
    except TacitError as error:
        return PlanAnswer(form, wrong={_field(error, form): str(error)})
    except MemoryError:
        return PlanAnswer(form, wrong={"": "this does not fit in memory: ask for fewer agents or rounds."})
    except ArithmeticError:
        sentence = "these numbers overflow floating-point arithmetic: choose less extreme ones."
        return PlanAnswer(form, wrong={"": sentence})


def form_of(query: Mapping[str, str], otherwise: Form | None = None) -> Form:
    """Fill a form of any kind from the address of a page.

    Raises
    ------
    InputError
        If a name is not one of the fields, or its text cannot be used.
    """
    form = filled(query, otherwise)
    try:
        PARTS[form.when].read(form)
    except FieldErrors as error:
        raise InputError(first_of(error.fields)) from None
    return form


def _way(form: Form, changes: Mapping[str, float]) -> Way:
    """Return the form with these changes, and their words.

    The words are those of the form's fields.
    """
    unit, words = unit_of(form), []
    for name, value in changes.items():
        shown = str(value) if isinstance(value, int) else f"{value:.12g}"
        change = {"budget": shown, "privacy": name} if name in ("epsilon", "loss") else {name: shown}
        said = f"{_SAID.get(name, name)} {shown}"
        if name == "radius":
            said = said if form.ask == "mean" else f"answer within ± {shown}"
            said = with_unit(said, unit)
        elif name == "failure_probability":
            change = {"probability": near(100 * (1 - value) - 5e-5 * (1 - value), 6)}
            said = f"probability {change['probability']}%"
        elif name == "keepers":
            said = f"trust {TRUSTED[shown].lower()}"
        elif isinstance(value, int):
            said = f"{name} {value:,}"
        form = replace(form, **change)  # type: ignore[arg-type]
        words.append(said)
    return Way(" with ".join(words), form)


def _field(error: TacitError, form: Form) -> str:
    if isinstance(error, GraphError):
        return "graph"
    return shown_field(error.field, form) if isinstance(error, ParameterError) else ""
