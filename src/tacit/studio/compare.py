"""Compare two settings: their answers, and their address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tacit.base.errors import InputError
from tacit.base.report import near
from tacit.base.rounding import shown_up
from tacit.studio.form import Form, from_query, whole
from tacit.studio.plan_answer import PlanAnswer
from tacit.studio.words import percent

_SECOND = "b-"  # begins the names of fields in which setting B differs from setting A
_MORE = 4


def two_forms(query: Mapping[str, str]) -> tuple[Form, Form]:
    """Read two settings from an address.

    Raises
    ------
    InputError
        If a field of either cannot be used.
    """
    first = from_query({name: text for name, text in query.items() if not name.startswith(_SECOND)})
    changes = {name[len(_SECOND) :]: text for name, text in query.items() if name.startswith(_SECOND)}
    return first, from_query(changes, first)


def two_forms_query(first: Form, second: Form) -> dict[str, str]:
    """Write two settings as an address.

    It has all fields of the first, and those of the second that differ.
    """
    query = first.query()
    known = from_query(query).query()
    filled = {name: "" for name in known if name not in second.query()}  # emptied in the second
    differs = {name: text for name, text in second.query().items() if known.get(name) != text}
    used = {name: text for name, text in filled.items() if name in second.used()}
    return query | {_SECOND + name: text for name, text in (differs | used).items()}


def with_more_agents(form: Form) -> Form:
    """Return the setting with four times the agents.

    If the number of agents cannot be read, the setting is returned unchanged.
    """
    try:
        return replace(form, agents=f"{_MORE * whole(form.agents):,}")
    except InputError:
        return form  # the page shows what is wrong at the field


def compared_query(form: Form) -> dict[str, str]:
    """Write a setting, and the same one with more agents, as an address."""
    return two_forms_query(form, with_more_agents(form))


@dataclass(frozen=True)
class Difference:
    """One quantity of both answers, and the ratio of the second to the first."""

    name: str
    first: str
    second: str
    ratio: str


_ROWS = {
    "agents": "agents",
    "privacy loss": "loss",
    "epsilon, per unit": "epsilon",
    "radius": "radius",
    "radius with one-shot noise": "one_shot",
    "with probability": "failure_probability",
    "rounds": "rounds",
    "rate": "rate",
    "mixing σ": "mixing",
    "noise c": "noise",
    "decay q": "decay",
}


def differences(first: PlanAnswer, second: PlanAnswer) -> tuple[Difference, ...]:
    """Compare two answers, row by row; no rows if either has no design."""
    if first.design is None or second.design is None:
        return ()
    a, b = (_values(found) for found in (first, second))
    return tuple(
        Difference(name, _show(key, a[key]), _show(key, b[key]), _ratio(key, a[key], b[key]))
        for name, key in _ROWS.items()
        if (a[key], b[key]) != (None, None)
    )


def _values(found: PlanAnswer) -> dict[str, Any]:
    assert found.design is not None
    return {**found.design.as_dict(), "one_shot": found.design.baseline.radius}


def _show(key: str, value: Any) -> str:
    if isinstance(value, list):
        low, high = _show(key, min(value)), _show(key, max(value))
        return low if low == high else f"{low} to {high}"
    if value is None:  # noise that is drawn once has no decay
        return "none"
    if key == "failure_probability":
        return percent(1 - value)
    if key == "mixing":
        return near(value, 6)
    return near(value, 4) if key in ("agents", "rounds", "rate") else shown_up(value)


def _ratio(key: str, a: Any, b: Any) -> str:
    if key == "failure_probability" or not (isinstance(a, float | int) and isinstance(b, float | int)):
        return ""
    return "same" if _show(key, a) == _show(key, b) else f"× {b / a:.3g}" if a else ""
