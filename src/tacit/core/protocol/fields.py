"""Tables of described fields, for files and for canonical bytes.

A table is a msgspec Struct. Each field has its type, its words and at most one default. From this follow how
a table is read, which mistakes are named, and what is written: the fields that differ by value from their
defaults.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import lru_cache
from types import UnionType
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import NODEFAULT
from msgspec.structs import FieldInfo

from tacit.base.errors import FileError

_LARGEST: Final = sys.float_info.max
Real = Annotated[float, msgspec.Meta(ge=-_LARGEST, le=_LARGEST)]
"""A real number, neither infinite nor NaN."""


class MemberKey(bytes):
    """An Ed25519 public key: 32 bytes, or 43 characters in a file."""


class Digest(bytes):
    """A SHA-256 hash: 32 bytes, or 43 characters in a file."""


class Time(int):
    """Whole seconds since 1970-01-01 00:00 UTC; a date and time in a file."""


class Endpoint(str):
    """Where a member listens; only in a file."""


class AgentNumber(int):
    """An agent by its number; by its name in a file."""


class FieldTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Described fields that belong together; other ones are refused by name."""


_T = TypeVar("_T")


def about(words: str, **more: Any) -> msgspec.Meta:
    """Describe a field: its words, and an option or a remark that it has."""
    return msgspec.Meta(description=words, extra=more)


# ---- what a table has -------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def fields_of(table: type[msgspec.Struct]) -> tuple[FieldInfo, ...]:
    """Return the fields of a table, resolved once: msgspec takes long."""
    return msgspec.structs.fields(table)


def declared(table: type[msgspec.Struct]) -> Iterator[tuple[FieldInfo, msgspec.Meta]]:
    """Return the fields of a table with what is said about them."""
    for field in fields_of(table):
        told = (part for part in get_args(field.type) if isinstance(part, msgspec.Meta) and part.description)
        yield field, next(told, msgspec.Meta(description="", extra={}))


def kind_of(field: FieldInfo) -> type[Any] | None:
    """Return the class of a field's values; None if there are several."""
    found: Any = field.type
    while get_origin(found) in (Annotated, Union, UnionType):
        parts = [part for part in get_args(found) if part is not type(None)]
        alone = get_origin(found) is Annotated or len(parts) == 1
        found = parts[0] if alone else None
    kind: type[Any] | None = get_origin(found) or found  # tuple, of tuple[int, ...]
    return kind


def described_in(
    table: type[msgspec.Struct], before: str = ""
) -> Iterator[tuple[str, FieldInfo, msgspec.Meta]]:
    """Return all fields of a table and of those in it, with their places."""
    for field, meta in declared(table):
        place = before + field.encode_name
        yield place, field, meta
        if (below := next(_tables_in(field.type), None)) is not None:
            yield from described_in(below, f"{place}.")


def _tables_in(kind: Any) -> Iterator[type[msgspec.Struct]]:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
    for part in get_args(kind):
        yield from _tables_in(part)


def default_of(field: FieldInfo) -> Any:
    """Return the default of a field; NODEFAULT if it must be given."""
    return field.default if field.default_factory is NODEFAULT else field.default_factory()


def differing(table: msgspec.Struct) -> dict[str, Any]:
    """Return the fields that differ from their defaults, as plain values.

    Values are compared, not objects: msgspec's `omit_defaults` would give equal tables different bytes.
    """
    found = {}
    for field in fields_of(type(table)):
        value, default = plain_value(getattr(table, field.name)), default_of(field)
        if default is NODEFAULT or value != plain_value(default):
            found[field.encode_name] = value
    return found


def plain_value(value: Any) -> Any:
    """Return a value as MessagePack has it: maps, arrays, bytes, numbers."""
    if isinstance(value, msgspec.Struct):
        return differing(value)
    if isinstance(value, dict):
        return {key: plain_value(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return [plain_value(entry) for entry in value]
    kind = next((kind for kind in (bytes, bool, float, int, str) if isinstance(value, kind)), None)
    return None if kind is None else kind(value)


# ---- reading ----------------------------------------------------------------------------------------

_MUST_BE = {
    "int": "a whole number",
    "float": "a finite number",
    "bool": "true or false",
    "str": "text in quotes",
    "array": "a list",
    "object": "a table",
    "null": "left out",
}
_PLACED = re.compile(r"(.*?)(?: - at `(?:key in )?\$\.?(.*)`)?", re.DOTALL)  # what msgspec says
_MISSING = re.compile(r"Object missing required field `(.*)`", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISTYPED = re.compile(r"Expected `([a-z |]*)`(?: of length (\d+)|).*|Number out of range", re.DOTALL)


def converted(
    entries: Any,
    table: type[_T],
    what: str,
    own_type: Callable[[type[Any], Any], Any] | None = None,
    place: str = "",
) -> _T:
    """Read a table, or say in one sentence which entry of it is wrong.

    Parameters
    ----------
    what, place : str
        What is read, and where in it the table is.
    own_type : callable, optional
        Reads a `Key`, `Digest`, `Time`, `Endpoint` or `AgentNumber`, or raises an InputError.
    """
    try:
        return msgspec.convert(entries, table, dec_hook=own_type, builtin_types=(bytes, datetime))
    except msgspec.ValidationError as error:
        said = _PLACED.fullmatch(str(error))
        assert said is not None
        why, where = said[1], [place, said[2]]
    if found := _MISSING.fullmatch(why):
        why, where = "must be given", [*where, found[1]]
    elif found := _UNKNOWN.fullmatch(why):
        why, where = (
            "is not known here: check its spelling, remove it, or install the tacit that wrote it",
            [*where, found[1]],
        )
    elif found := _MISTYPED.fullmatch(why):
        kinds = [_MUST_BE.get(kind, kind) for kind in (found[1] or "float").split(" | ") if kind != "null"]
        why = f"must be {' or '.join(kinds)}" + (f" of {found[2]} entries" if found[2] else "")
    raise misplaced(what, ".".join(filter(None, where)), why)


def misplaced(what: str, place: str, why: str) -> FileError:
    """Return the refusal of one entry, which names its place."""
    plain = "".join(letter if letter.isprintable() else "?" for letter in place)  # keys may be any text
    return FileError(f"{what}, {plain}: {why.removesuffix('.')}.")
