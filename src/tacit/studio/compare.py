"""Two answers side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tacit.report import near
from tacit.rounding import shown_up
from tacit.studio.planning import PlanAnswer
from tacit.studio.words import percent


@dataclass(frozen=True)
class Difference:
    """One quantity of both answers, and how many times the first the second is."""

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
    """Compare two answers, line by line; without two answers there is nothing to compare."""
    if first.design is None or second.design is None:
        return ()
    a, b = (_values(found) for found in (first, second))
    return tuple(
        Difference(name, _show(key, a[key]), _show(key, b[key]), _ratio(key, a[key], b[key]))
        for name, key in _ROWS.items()
    )


def _values(found: PlanAnswer) -> dict[str, Any]:
    assert found.design is not None
    return {**found.design.as_dict(), "one_shot": found.design.baseline.radius}


def _show(key: str, value: Any) -> str:
    if isinstance(value, list):
        low, high = _show(key, min(value)), _show(key, max(value))
        return low if low == high else f"{low} to {high}"
    if key == "failure_probability":
        return percent(1 - value)
    return near(value, 4) if key in ("agents", "rounds", "rate", "mixing") else shown_up(value)


def _ratio(key: str, a: Any, b: Any) -> str:
    if key == "failure_probability" or isinstance(a, list) or isinstance(b, list):
        return ""
    return "same" if _show(key, a) == _show(key, b) else f"× {b / a:.3g}" if a else ""
