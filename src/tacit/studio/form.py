"""The fields of a design question as text, and how they are read."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar

from tacit.base.errors import InputError, ParameterError
from tacit.core.theory.plan import Plan

T = TypeVar("T")

WHENS = {"once": "once", "series": "at regular times"}
"""How often an answer is wanted."""
HIDES = {"step": "a lasting step", "window": "some readings in a row", "reading": "one reading"}
"""What a series can hide."""
FINDS = {
    "privacy": "How private can it be?",
    "accuracy": "How accurate can it be?",
    "size": "How many agents does it take?",
    "all": "Is all of this possible?",
}
TRUSTED = {"0": "Nobody", "1": "One keeper", "2": "One of two keepers", "3": "One of three keepers"}
"""Whom agents trust, by the number of keepers."""
ASKS = {
    "mean": "the mean",
    "sum": "the sum",
    "count": "how many say yes",
    "histogram": "a histogram",
    "quantile": "the median",
    "variance": "the variance",
    "word": "something else, in one word",
}
"""What is asked of the agents' records."""
_OF_NUMBERS, _OF_BUCKETS = ("mean", "sum", "variance"), ("histogram", "quantile", "word")
PLACES = {"server": "around a server", "graph": "on a graph"}
PRIVACIES = {"loss": "over the whole range", "epsilon": "per unit (ε)"}
_TYPED_IN = {
    "failure_probability": "probability", "epsilon": "budget", "loss": "budget", "true_average": "average",
    "question": "domain", "range": "high", "step": "size",
}  # fmt: skip
"""Where a field of a question has another name in the form."""
_CHOICES = {
    "find": FINDS, "place": PLACES, "privacy": PRIVACIES, "keepers": TRUSTED, "average": ("yes", "no"),
    "ask": ASKS, "when": WHENS, "hides": HIDES,
}  # fmt: skip
_MOST_QUOTED = 60
_THOUSANDS = re.compile(r"\d{1,3}(,\d{3})+(\.\d*)?")


class FieldErrors(InputError):
    """Some fields cannot be used; `fields` has one sentence for each of them."""

    def __init__(self, sentences: Mapping[str, str]) -> None:
        super().__init__(" ".join(sentences.values()))
        self.fields = dict(sentences)


@dataclass(frozen=True)
class Form:
    """The fields as text; they are checked only when the form is read."""

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
    ask: str = "mean"
    domain: str = "0, 1, 2, 5, 10"
    when: str = "once"
    slots: str = "35,040"
    every: str = "15"
    hides: str = "step"
    size: str = "2"
    delta: str = "1e-6"

    def used(self) -> frozenset[str]:
        """Return the fields that the question uses; the page shows only these."""
        if self.when == "series":
            names = {"when", "slots", "every", "hides", "agents", "keepers", "low", "high", "unit", "budget"}
            return frozenset(names | {"delta"} | ({"size"} if self.hides != "reading" else set()))
        names = {"when", "find", "ask", "probability", "rounds", "mixing", "tolerance"}
        names |= {"components", "adjacency"} if self.ask == "mean" else set()
        names |= {"low", "high", "unit"} if self.ask in _OF_NUMBERS else set()
        names |= {"domain"} if self.ask in _OF_BUCKETS else set()
        on_graph = self.find != "size" and self.place == "graph"
        names |= {"graph", "average"} if on_graph else {"keepers"}
        if self.find != "size":
            names |= {"place"} if on_graph else {"place", "agents"}
        if self.find != "accuracy":
            names.add("radius")
        if self.find != "privacy":
            names |= {"budget", "privacy"}
        return frozenset(names)

    def query(self) -> dict[str, str]:
        """Return the used fields for the address of a page.

        Defaults are written out, so that a link keeps its meaning when they change.
        """
        told = {name: text for name, text in asdict(self).items() if name in self.used() and text != ""}
        return {
            name: text if isinstance(text, str) else "yes" if text else "no" for name, text in told.items()
        }


EXAMPLE = Form(agents="1,000", high="10", unit="kW", radius="0.2", keepers="2")
"""The question that Plan and Compare open with."""
SERIES_EXAMPLE = replace(EXAMPLE, when="series")
"""The series that Plan shows at `/series`."""


def unit_of(form: Form) -> str:
    """Return the unit of the answer's parts."""
    used = form.used()
    counts = "ask" in used and form.ask in ("count", "histogram")
    return "records" if counts else form.unit.strip() if "unit" in used else ""


def from_query(query: Mapping[str, str], otherwise: Form | None = None) -> Form:
    """Fill a form about one time from the address of a page.

    Fields that the address does not name are as in `otherwise`.

    Raises
    ------
    InputError
        If a name is not one of the fields, or its text cannot be used.
    """
    form = filled(query, otherwise)
    if form.when != "once":
        raise InputError(f"when must be once here, got {quoted(form.when)}: series are planned under Plan.")
    try:
        read(form)
    except FieldErrors as error:
        raise InputError(first_of(error.fields)) from None
    return form


def filled(query: Mapping[str, str], otherwise: Form | None = None) -> Form:
    """Fill a form whose choices are known ones, without reading its fields."""
    known = [field.name for field in fields(Form)]
    changes: dict[str, Any] = {}
    for name, text in query.items():
        if name not in known:
            raise InputError(f"this page has no field {quoted(name)}.")
        require_choice(name, text, _CHOICES)
        changes[name] = text != "no" if name == "average" else text
    return replace(otherwise or Form(), **changes)


def require_choice(name: str, text: str, choices: Mapping[str, Any]) -> None:
    """Check the text of a field that offers a fixed choice."""
    if name in choices and text not in choices[name]:
        raise InputError(f"{name} must be one of {', '.join(choices[name])}, got {quoted(text)}.")


def first_of(sentences: Mapping[str, str]) -> str:
    """Return the first sentence, with the name of its field."""
    field, sentence = next(iter(sentences.items()))
    return sentence if field in sentence or not field else f"{field}: {sentence}"


def quoted(text: str) -> str:
    """Quote what was typed, shortened if it is very long."""
    return repr(text if len(text) <= _MOST_QUOTED else f"{text[:_MOST_QUOTED]}…")


def number(text: str) -> float:
    """Read a finite number; 1,000 is a thousand."""
    try:
        value = float(_plain(text))
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{quoted(text)} is not a finite number.")
    return value


def whole(text: str, least: int = 1) -> int:
    """Read a whole number; 1,000 and 1e6 are accepted."""
    try:
        value = int(_plain(text))
    except ValueError:
        try:
            as_float = number(text)
        except InputError:
            as_float = math.nan
        if not as_float.is_integer():
            raise InputError(f"{quoted(text)} is not a whole number.") from None
        value = int(as_float)
    if not least <= value < 2**63:
        raise InputError(f"{quoted(text)[1:-1]} is not a whole number from {least} to 2^63 - 1.")
    return value


def failure(percent: str) -> float:
    """Turn "95" (percent) into the failure probability 0.05.

    The subtraction is decimal, so that no binary rounding error is added.
    """
    try:
        return float((100 - Decimal(_plain(percent))) / 100)
    except (InvalidOperation, ValueError):
        raise InputError(f"{quoted(percent)} is not a finite number.") from None


def _plain(text: str) -> str:
    text = text.strip()
    return text.replace(",", "") if _THOUSANDS.fullmatch(text) else text


class Reader:
    """Reads fields one by one, and collects the errors of all of them."""

    def __init__(self) -> None:
        self.wrong: dict[str, str] = {}

    def __call__(self, field: str, read: Callable[[str], T], text: str) -> T | None:
        """Return the value of a text, or None and keep the error."""
        try:
            return read(text)
        except InputError as error:
            self.wrong[field] = str(error)
            return None


def field_of(name: str | None) -> str:
    """Return the form's field for a field of a question; "" if none."""
    field = _TYPED_IN.get(name or "", name or "")
    return field if field in Form.__dataclass_fields__ else ""


def shown_field(name: str | None, form: Form) -> str:
    """Return the form's field for a field of a plan; "" if it is not shown."""
    field = field_of(name)
    if field == "domain" and form.ask in _OF_NUMBERS:
        return "high"  # a range that is none
    return field if field in form.used() else ""


def _asked(form: Form, get: Reader) -> dict[str, Any]:
    """Return what the form asks of the records."""
    if form.ask not in ASKS:
        raise FieldErrors({"domain": f"the question must be one of {', '.join(ASKS)}."})
    numbers = form.ask in _OF_NUMBERS
    low, high = (get(name, number, getattr(form, name)) if numbers else None for name in ("low", "high"))
    if form.ask == "mean":
        return {"low": low, "high": high, "components": get("components", whole, form.components)}
    if get.wrong:
        return {}
    domain = ",".join(part.strip() for part in form.domain.split(","))
    words = {"count": "count", "word": form.domain.strip()}
    words |= {name: f"{name}:{domain}" for name in ("histogram", "quantile")}
    words |= {name: f"{name}:{low!r}:{high!r}" for name in ("sum", "variance")}
    return {"question": words[form.ask]}


def read(form: Form) -> Plan:
    """Turn the fields into a question, or report every field that is wrong.

    Raises
    ------
    FieldErrors
        With one sentence per field, the same as on the command line.
    """
    get, used = Reader(), form.used()
    said = _asked(form, get) | {"failure_probability": get("probability", failure, form.probability)}
    if "agents" in used:
        said["agents"] = get("agents", whole, form.agents)
    if "graph" in used:
        said |= {"graph": form.graph.strip(), "true_average": form.average}
    if "keepers" in used:
        said["keepers"] = get("keepers", lambda text: whole(text, 0), form.keepers)
    if "radius" in used:
        said["radius"] = get("radius", number, form.radius)
    if "budget" in used:
        said["loss" if form.privacy == "loss" else "epsilon"] = get("budget", number, form.budget)
    for name, reader in (("rounds", whole), ("mixing", number), ("adjacency", number), ("tolerance", number)):
        if name in used and getattr(form, name).strip():
            said[name] = get(name, reader, getattr(form, name))
    if get.wrong:
        raise FieldErrors(get.wrong)
    try:
        return Plan(**said)
    except ParameterError as error:
        raise FieldErrors({shown_field(error.field, form): str(error)}) from None
