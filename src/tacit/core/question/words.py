"""Questions in one word, as on the command line: `histogram:0,1,2,5,10`.

After the kind come the question's parameters in the order of its fields, separated by colons. A list has
commas. Trailing parameters that have a default may be left out. Several questions are joined by `+`, and
`2*count` counts twice as much as the others. A label with one of these signs cannot be written like this: it
needs a session file or Python.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Mapping
from typing import Any, get_type_hints

from tacit.base.errors import ParameterError
from tacit.core.question.base import Question
from tacit.core.question.several import Several

_EXAMPLES = (
    "mean:0:10, sum:0:10, count, histogram:0,1,2,5,inf, histogram:red,green, quantile:0,1,2,5:0.5,0.9, "
    "variance:0:10, weighted-mean:0:10:1, group-by:north,south:mean:0:10, or several, as in count+mean:0:10"
)


def read_short(text: str, kinds: Mapping[str, type[Question]]) -> Question:
    """Read a question of one of these kinds."""
    known = {_word(kind): asked for kind, asked in kinds.items() if asked is not Several}
    words = "|".join(map(re.escape, known))
    pieces = re.split(rf"\+(?=(?:[0-9.]+\*)?(?:{words})(?:[:+]|$))", text.strip())
    read = [_weighed(piece) for piece in pieces]
    questions = [_one(piece, known, text) for _, piece in read]
    if len(read) == 1 and read[0][0] is None:
        return questions[0]
    return Several(questions, [1.0 if weight is None else weight for weight, _ in read])


def short_form(question: Question) -> str:
    """Return a question as one word; `parse_question` reads it."""
    if isinstance(question, Several):
        alike = set(question.weights) == {1.0}
        pairs = zip(question.questions, question.weights, strict=True)
        return "+".join(("" if alike else f"{_plain(w)}*") + short_form(each) for each, w in pairs)
    found = [_word(question.kind)]
    fields = list(dataclasses.fields(question))  # type: ignore[arg-type]
    while fields and _default(question, fields[-1].name) == getattr(question, fields[-1].name):
        fields.pop()
    for field in fields:
        value = getattr(question, field.name)
        many = value if isinstance(value, tuple) else (value,)
        found.append(",".join(map(_plain, many)))
    return ":".join(found)


def _weighed(piece: str) -> tuple[float | None, str]:
    weight, star, rest = piece.partition("*")
    number = _number(weight) if star else None
    return (None, piece) if number is None else (number, rest)


def _one(piece: str, known: Mapping[str, type[Question]], text: str) -> Question:
    word, _, rest = piece.partition(":")
    if word not in known:
        raise ParameterError(f"a question must be written like {_EXAMPLES}, got {text!r}.")
    asked = known[word]
    types = get_type_hints(asked)
    given: dict[str, Any] = {}
    for field in dataclasses.fields(asked):  # type: ignore[arg-type]
        if not rest:
            break
        if types[field.name] is Question:
            given[field.name], rest = _one(rest, known, text), ""
        else:
            entry, _, rest = rest.partition(":")
            given[field.name] = _read(entry, types[field.name], word, field.name)
    if rest:
        raise ParameterError(f"a question must be written like {_EXAMPLES}, got {text!r}.")
    try:
        return asked(**given)
    except TypeError:  # a parameter without a default is missing
        raise ParameterError(f"a question must be written like {_EXAMPLES}, got {text!r}.") from None


def _read(entry: str, declared_type: Any, word: str, name: str) -> Any:
    """Read a parameter: a number, a whole number, or a list."""
    if declared_type is int:
        number = _number(entry)
        if number is None or number != number // 1:
            raise ParameterError(f"{name} of {word} must be a whole number, got {entry!r}.")
        return int(number)
    if declared_type is str:
        return entry
    texts = [part.strip() for part in entry.split(",")]
    numbers = [_number(part) for part in texts]
    if declared_type is float:
        if len(numbers) != 1 or numbers[0] is None:
            raise ParameterError(f"{name} of {word} must be a number, got {entry!r}.")
        return numbers[0]
    labels = declared_type != tuple[float, ...] and not any(number is not None for number in numbers)
    if labels or declared_type == tuple[str, ...]:
        return texts
    if None in numbers:
        wrong = texts[numbers.index(None)]
        raise ParameterError(f"{name} of {word} must be numbers, got {wrong!r}.")
    return numbers


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _default(question: Question, name: str) -> Any:
    """What a parameter has if it is left out; nothing equals a missing one."""
    default = inspect.signature(type(question)).parameters[name].default
    return object() if default is inspect.Parameter.empty else default


def _plain(value: Any) -> str:
    if isinstance(value, Question):
        return short_form(value)
    if isinstance(value, str):
        return value
    return f"{value:.0f}" if abs(value) < 1e15 and value == value // 1 else repr(float(value))


def _word(kind: str) -> str:
    return kind.replace(" ", "-")
