"""Checks of single arguments: one function per kind of argument.

Each returns the argument, or raises a `ParameterError` that says what must hold, what was given and what to
do. An argument at a wrong place may be private, so an error shows only short texts and single numbers. Of
anything else it names the type.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable
from numbers import Integral, Number
from typing import Any, SupportsFloat

from tacit.base.errors import InputError, ParameterError

_LONGEST = 60  # characters of a text that an error shows


def shown(value: object) -> str:
    """Describe an argument in an error, without revealing much.

    It shows at most one number or a short text.
    """
    if value is None or isinstance(value, Number):  # numpy's numbers are among them
        return str(value)
    if isinstance(value, str):
        return repr(value) if len(value) <= _LONGEST else f"a text of {len(value)} characters"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return f"an object of type {type(value).__name__}"


def whole(
    name: str,
    value: Any,
    least: int,
    field: str | None = None,
    *,
    most: float = math.inf,
    bounds: str = "",
) -> int:
    """Return a whole number from `least` to `most`; `bounds` says so in words."""
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if is_whole and least <= int(value) <= most:
        return int(value)
    advice = ""
    if isinstance(value, float) and value.is_integer():
        advice = f" Write {int(value)}."
    elif not is_whole:
        advice = f" Give one whole number, like {max(least, 1)}."
    bounds = bounds or f"of at least {least}"
    raise ParameterError(f"{name} must be a whole number {bounds}, got {shown(value)}.{advice}", field)


def number(
    name: str,
    value: Any,
    must: str = "be a finite number",
    *,
    least: float = -sys.float_info.max,
    below: float = math.inf,
    why: str = "",
    field: str | None = None,
) -> float:
    """Return a number of at least `least` and less than `below`.

    `must` says so in words.
    """
    real = _as_float(value)
    if real is not None and least <= real < below:
        return real
    advice = f": {why}." if why else "."
    if real is None:
        advice = f". Give one number, like {0.5 if below <= 1 else 1.0}."
    raise ParameterError(f"{name} must {must}, got {shown(value)}{advice}", field)


def positive(name: str, value: Any, why: str = "", field: str | None = None) -> float:
    """Return a positive, finite number."""
    return number(name, value, "be a positive number", least=math.ulp(0.0), why=why, field=field)


def inside_unit(name: str, value: Any, why: str = "", field: str | None = None) -> float:
    """Return a number in (0, 1)."""
    return number(name, value, "be in (0, 1)", least=math.ulp(0.0), below=1.0, why=why, field=field)


def _as_float(value: Any) -> float | None:
    """Return a single real number as a float, None for anything else."""
    axes: Any = getattr(value, "shape", ())
    if isinstance(value, bool) or not isinstance(value, SupportsFloat) or axes:
        return None
    if isinstance(value, Number) and not hasattr(value, "__lt__"):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def items(name: str, value: Any, must: str) -> tuple[Any, ...]:
    """Return the items of a list, or of anything like it but a text.

    `must` says in words what it must be.
    """
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise ParameterError(f"{name} must be {must}, got {shown(value)}.")
    return tuple(value.tolist() if hasattr(value, "tolist") else value)


def flag(name: str, value: Any, field: str | None = None) -> bool:
    """Return True or False.

    Other values that Python takes for one of them are refused.
    """
    if isinstance(value, bool) or type(value).__name__ == "bool":  # the second is numpy's
        return bool(value)
    raise ParameterError(f"{name} must be True or False, got {shown(value)}.", field)


def function(name: str, value: Any) -> Callable[..., Any] | None:
    """Return a function, or None if none was given."""
    if value is None or (callable(value) and not isinstance(value, type)):
        return value
    raise ParameterError(f"{name} must be a function or None, got {shown(value)}.")


def instance(name: str, value: Any, kind: type[Any], must: str, advice: str = "") -> Any:
    """Return an object of a class.

    `must` says in words what it must be, `advice` how to get one.
    """
    if isinstance(value, kind):
        return value
    raise ParameterError(f"{name} must be {must}, got {shown(value)}.{advice and ' '}{advice}")


def path_text(name: str, value: Any, error: type[InputError] = ParameterError) -> str:
    """Return the text of a path."""
    if isinstance(value, str | os.PathLike):
        text = os.fspath(value)
        if isinstance(text, str):
            return text
    raise error(f"{name} must be the path of a file, as text or pathlib.Path, got {shown(value)}.")


MOST_OF_OTHERS = 500
"""Maximum number of characters of others' text that is shown or stored."""


def plain(text: str, most: int = MOST_OF_OTHERS) -> str:
    """Return text of others, short and printable.

    A terminal obeys control characters, and a log must not grow by what others send.
    """
    shown = "".join(letter if letter.isprintable() else " " for letter in text[:most]).strip()
    return shown if len(text) <= most else f"{shown} …"
