"""Read a private record: from text, JSON, CSV, or an object of a program.

No error shows what was read.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tacit.base.errors import InputError, StateError
from tacit.core.question import Mean, Question

_YES_OR_NO = {"yes": 1, "true": 1, "1": 1, "no": 0, "false": 0, "0": 0}
_COUNTS = {"number": "one number", "yes or no": "yes or no", "label": "a label"}


def read_record(given: Any, question: Question, names: Sequence[str] = ()) -> Any:
    """Return the record of a question that text or an object has.

    Parameters
    ----------
    given : str, bytes or object
        Text with the fields separated by blanks or commas, a JSON array or object, or CSV. Of several lines
        the last one counts. Or an object: one field, a sequence of fields, or a mapping.
    names : sequence of str
        The fields of a JSON object or a mapping, or the columns of CSV with a header, in the order of the
        question.
    """
    text = given.decode("utf-8-sig", errors="replace") if isinstance(given, bytes) else given
    try:
        if isinstance(text, str) and isinstance(question, Mean) and not names:
            numbers = [float(word) for word in re.split(r"[\s,;\[\]]+", text) if word]
            record: Any = numbers if question.numbers > 1 else numbers[0]
            record = record if len(numbers) == question.numbers else None
        else:
            pairs = zip(question.fields, _cells(text, question, names), strict=True)
            record = question.record([_FIELDS[kind](one) for kind, one in pairs])
        question.encode(record)  # refuses NaN
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError, csv.Error, StateError):
        raise InputError(f"the value must be {_wanted(question, names)}; the input is not.") from None
    return record


def _cells(given: Any, question: Question, names: Sequence[str]) -> list[Any]:
    """Split what was given into fields."""
    if isinstance(given, str):
        given = _parsed(given.strip(), len(question.fields), names)
    elif hasattr(given, "tolist"):
        given = given.tolist()
    if isinstance(given, Mapping):
        return [given[name] for name in names]
    return list(given) if isinstance(given, list | tuple) else [given]


def _parsed(text: str, many: int, names: Sequence[str]) -> Any:
    if text.startswith("{"):
        return json.loads(text.splitlines()[-1] if "\n{" in text else text)
    if text.startswith("["):
        found = json.loads(text)
        return found[-1] if isinstance(found[-1], dict) else found  # rows, as databases write them
    if names:
        return list(csv.DictReader(text.splitlines(), strict=True))[-1]
    last = text.splitlines()[-1].strip()
    if many == 1:
        return last.strip('"')
    if (sign := next((sign for sign in ",;\t" if sign in last), None)) is None:
        return last.split()
    return [cell.strip() for cell in next(csv.reader([last], delimiter=sign, strict=True))]


def _number(cell: Any) -> float:
    if isinstance(cell, bool):
        raise TypeError
    return float(cell)


def _answer(cell: Any) -> int:
    return _YES_OR_NO[str(cell).strip().lower().removesuffix(".0")]


def _label(cell: Any) -> str:
    if isinstance(cell, str | int) and str(cell) != "":
        return str(cell)
    raise TypeError


_FIELDS = {"number": _number, "yes or no": _answer, "label": _label}


def _wanted(question: Question, names: Sequence[str]) -> str:
    wanted = " and ".join(_COUNTS[kind] for kind in question.fields)
    if isinstance(question, Mean):
        many = f"{question.numbers} finite numbers, separated by blanks or commas"
        wanted = "one finite number" if question.numbers == 1 else many
    return f"{wanted}, in {' and '.join(names)} of JSON or CSV" if names else wanted
