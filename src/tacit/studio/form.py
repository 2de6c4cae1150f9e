"""The fields of a design question as they are typed, and the question they ask."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from decimal import Decimal, InvalidOperation
from typing import Any, Self, TypeVar

from tacit.errors import InputError, ParameterError
from tacit.theory.question import Question

T = TypeVar("T")

FINDS = {
    "privacy": "How private can it be?",
    "accuracy": "How accurate can it be?",
    "size": "How many agents does it take?",
    "all": "Is all of this possible?",
}
TRUSTED = {"0": "Nobody", "1": "One keeper", "2": "One of two keepers", "3": "One of three keepers"}
"""Whom agents trust, by the number of keepers."""
_TYPED_IN = {
    "failure_probability": "probability", "epsilon": "budget", "loss": "budget", "true_average": "average",
}  # fmt: skip
"""Where a field of a question has another name in the form."""
_THOUSANDS = re.compile(r"\d{1,3}(,\d{3})+(\.\d*)?")


class FieldErrors(InputError):
    """Some fields cannot be used; `fields` has one sentence for each of them."""

    def __init__(self, sentences: Mapping[str, str]) -> None:
        super().__init__(" ".join(sentences.values()))
        self.fields = dict(sentences)


@dataclass(frozen=True)
class Form:
    """What is in the fields, as text: nothing is wrong with a form until it is read."""

    find: str = "privacy"
    place: str = "server"
    agents: str = "500"
    graph: str = "regular:100:6:seed=1"
    average: bool = True
    low: str = "0"
    high: str = "100"
    unit: str = ""
    radius: str = "5"
    probability: str = "95"
    privacy: str = "loss"
    budget: str = "1"
    rounds: str = ""
    mixing: str = ""
    adjacency: str = ""
    tolerance: str = ""
    components: str = "1"
    keepers: str = "0"

    @classmethod
    def from_query(cls, query: Mapping[str, str], **otherwise: Any) -> Self:
        """Fill a form from the address of a page; what it does not name is as usual."""
        known = {f.name: f for f in fields(cls)}
        given: dict[str, Any] = {k: v for k, v in query.items() if k in known}
        if "average" in given:
            given["average"] = given["average"] != "no"
        return cls(**{**otherwise, **given})

    def query(self) -> dict[str, str]:
        """What differs from an untouched form, for the address of a page."""
        usual = asdict(type(self)())
        said = {k: v for k, v in asdict(self).items() if v != usual[k]}
        return {k: v if isinstance(v, str) else "yes" if v else "no" for k, v in said.items()}


def number(text: str) -> float:
    """Read a finite number; 1,000 is a thousand."""
    try:
        value = float(_plain(text))
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{text!r} is not a finite number.")
    return value


def whole(text: str, least: int = 1) -> int:
    """Read a whole number; 1,000 and 1e6 will do."""
    try:
        value = int(_plain(text))
    except ValueError:
        try:
            as_float = number(text)
        except InputError:
            as_float = math.nan
        if not as_float.is_integer():
            raise InputError(f"{text!r} is not a whole number.") from None
        value = int(as_float)
    if not least <= value < 2**63:
        raise InputError(f"{value} is not a whole number from {least} to 2^63 - 1.")
    return value


def failure(percent: str) -> float:
    """Turn "95" (percent) into the failure probability 0.05, exactly as written."""
    try:
        return float((100 - Decimal(_plain(percent))) / 100)
    except (InvalidOperation, ValueError):
        raise InputError(f"{percent!r} is not a finite number.") from None


def _plain(text: str) -> str:
    text = text.strip()
    return text.replace(",", "") if _THOUSANDS.fullmatch(text) else text


class _Reader:
    """Reads field after field and keeps every sentence, not only the first."""

    def __init__(self) -> None:
        self.wrong: dict[str, str] = {}

    def __call__(self, field: str, read: Callable[[str], T], text: str) -> T | None:
        try:
            return read(text)
        except InputError as error:
            self.wrong[field] = str(error)
            return None


def field_of(name: str | None) -> str:
    """Return the field of a form where a field of a question is typed in; "" for none in particular."""
    field = _TYPED_IN.get(name or "", name or "")
    return field if field in Form.__dataclass_fields__ else ""


def read(form: Form) -> Question:
    """Turn what is in the fields into a question, or say of every bad field what is wrong.

    Raises
    ------
    FieldErrors
        With the sentence that the command line would print, for each field.
    """
    get = _Reader()
    said: dict[str, Any] = {"low": get("low", number, form.low), "high": get("high", number, form.high)}
    said["failure_probability"] = get("probability", failure, form.probability)
    said["components"] = get("components", whole, form.components)
    if form.find != "size":
        if form.place == "server":
            said["agents"] = get("agents", whole, form.agents)
        else:
            said |= {"graph": form.graph.strip(), "true_average": form.average}
    if form.find == "size" or form.place == "server":
        said["keepers"] = get("keepers", lambda text: whole(text, 0), form.keepers)
    if form.find != "accuracy":
        said["radius"] = get("radius", number, form.radius)
    if form.find != "privacy":
        said["loss" if form.privacy == "loss" else "epsilon"] = get("budget", number, form.budget)
    for name, reader in (("rounds", whole), ("mixing", number), ("adjacency", number), ("tolerance", number)):
        if getattr(form, name).strip():
            said[name] = get(name, reader, getattr(form, name))
    if get.wrong:
        raise FieldErrors(get.wrong)
    try:
        return Question(**said)
    except ParameterError as error:
        raise FieldErrors({field_of(error.field): str(error)}) from None
