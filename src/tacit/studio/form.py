"""The fields of a design question as they are typed, and the question they ask."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from decimal import Decimal, InvalidOperation
from typing import Any, Self, TypeVar

from tacit.errors import InputError

T = TypeVar("T")

FINDS = {
    "privacy": "How private can it be?",
    "accuracy": "How accurate can it be?",
    "size": "How many agents does it take?",
    "all": "Is all of this possible?",
}
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


@dataclass(frozen=True)
class Wish:
    """A design question; None is left open, or left to the default.

    `unit`, `low`, `high` and `components` are not asked of `tacit design`, which knows adjacency and spread.
    """

    low: float
    high: float
    unit: str = ""
    agents: int | None = None
    graph: str | None = None
    radius: float | None = None
    failure_probability: float = 0.05
    epsilon: float | None = None
    loss: float | None = None
    adjacency: float = 1.0
    spread: float | None = None
    rounds: int | None = None
    tolerance: float | None = None
    mixing: float | None = None
    true_average: bool = False
    components: int = 1

    def asked(self) -> dict[str, Any]:
        """What `tacit design` has to be told; the graph by its name."""
        usual = Wish(low=self.low, high=self.high, unit=self.unit)
        names = [f.name for f in fields(self) if f.name not in ("low", "high", "unit", "components")]
        return {k: getattr(self, k) for k in names if getattr(self, k) != getattr(usual, k)}


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


def read(form: Form) -> Wish:
    """Turn what is in the fields into a question, or say of every bad field what is wrong.

    Raises
    ------
    Refused
        With the sentence that the command line would print, for each field.
    """
    get = _Reader()
    low, high = get("low", number, form.low), get("high", number, form.high)
    if low is not None and high is not None and not low < high:
        get.wrong["high"] = f"the range must be finite with low < high, got {low:g} to {high:g}."
    said: dict[str, Any] = {"failure_probability": get("probability", failure, form.probability)}
    said["components"] = get("components", whole, form.components)
    if form.find != "size":
        if form.place == "server":
            said["agents"] = get("agents", whole, form.agents)
        else:
            said |= {"graph": form.graph.strip(), "true_average": form.average}
    if form.find != "accuracy":
        said["radius"] = get("radius", number, form.radius)
    if form.find != "privacy":
        said["loss" if form.privacy == "loss" else "epsilon"] = get("budget", number, form.budget)
    for name, reader in (("rounds", whole), ("mixing", number), ("adjacency", number), ("tolerance", number)):
        if getattr(form, name).strip():
            said[name] = get(name, reader, getattr(form, name))
    if get.wrong:
        raise FieldErrors(get.wrong)
    assert low is not None
    assert high is not None
    if said.setdefault("adjacency", (high - low) * said["components"]) != high - low:
        said["spread"] = high - low
    return Wish(low=low, high=high, unit=form.unit.strip(), **said)
