"""The session file: public TOML, the same for everyone in a session.

Its tables and fields are those of `tacit.core.protocol.schema`. Here is only how a text has them: keys as 43
characters, times as dates, agents by name. Numbers are written so that they read back exactly, because the
session's id is a hash of them. The file may also contain addresses of members. They are not part of the
session, because a machine may move.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from tacit.base.errors import FileError, InputError
from tacit.base.files import PUBLIC, read_public, write_whole
from tacit.core.protocol.fields import (
    AgentNumber,
    Digest,
    Endpoint,
    MemberKey,
    Time,
    declared,
    fields_of,
    kind_of,
    misplaced,
)
from tacit.core.protocol.schema import AnySession, AroundServer, Listed, read_tables, session_of, tables_of
from tacit.core.protocol.session import Session
from tacit.core.series import Hides
from tacit.core.series import written as hidden_text
from tacit.live.identity.keys import hash_bytes, key_bytes, key_text
from tacit.live.transport.schemes import is_endpoint

_MOST_PARTS = 64
# tomllib needs n² steps for a dotted key of n parts. A key of 16,000 parts would take many seconds.
_DEEP = re.compile(rf"""(?:\.[ \t]*+(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+){{{_MOST_PARTS}}}""")


def read_session(path: str | Path) -> Session:
    """Read a session file, or say in one sentence what is wrong in it."""
    return parse_session(text_of(path), str(path))


def read_with_addresses(path: str | Path) -> tuple[Session, dict[str, str]]:
    """Return a session and the addresses in its file.

    Addresses are by the names of agents and keepers, and `coordinator`.
    """
    what = str(path)
    told = _told(text_of(path), what)
    listed: tuple[Listed, ...] = (*getattr(told, "roster", ()), *getattr(told, "keepers", ()))
    found = {entry.name: entry.address for entry in listed}
    if isinstance(told, AroundServer):
        found["coordinator"] = told.coordinator_address
    addresses = {name: str(address) for name, address in found.items() if address is not None}
    return _session(told, what), addresses


def write_session(
    session: Session, path: str | Path, *, addresses: Mapping[str, str] | None = None, force: bool = False
) -> None:
    """Write a session file that reads back as exactly the same session."""
    text = session_text(session, addresses)
    # With another id the members would refuse each other's messages.
    assert parse_session(text, str(path)).id == session.id
    write_whole(Path(path), text.encode(), mode=PUBLIC, force=force)


# ---- writing --------------------------------------------------------------------------------------


def session_text(session: Session, addresses: Mapping[str, str] | None = None) -> str:
    """Return a session as the text of its file."""
    told, places = tables_of(session), dict(addresses or {})
    names = [member.name for member in session.roster]
    lines = [
        "# A session of tacit: public, and the same for everyone in it. `tacit session check` explains it."
    ]
    own: list[str] = []  # tables
    common: list[str] = []
    for field, meta in declared(type(told)):
        value, name = getattr(told, field.name), field.encode_name
        if field.name == "coordinator_address":
            value = places.get("coordinator")
        if value is None or value == ():
            continue
        remark = f"  # {meta.extra['remark']}" if meta.extra and "remark" in meta.extra else ""
        if isinstance(value, msgspec.Struct | dict):
            tables = common if field.name in AnySession.__struct_fields__ else own
            tables += ["", f"[{name}]{remark}", *_entries(value)]
        elif isinstance(value, tuple) and isinstance(value[0], Listed | tuple):
            lines += [f"{name} = [", *(f"  {_item(item, names, places)}," for item in value), "]"]
        else:
            lines.append(f"{name} = {_written(_texted(kind_of(field), value))}{remark}")
    return "\n".join([*lines, *own, *common]) + "\n"


def _entries(table: msgspec.Struct | dict[str, Any]) -> Iterator[str]:
    if isinstance(table, dict):
        yield from (f"{word} = {_written(value)}" for word, value in table.items())
        return
    for field in fields_of(type(table)):
        if (value := getattr(table, field.name)) is not None:
            yield f"{field.encode_name} = {_written(_texted(kind_of(field), value))}"


def _item(item: Any, names: list[str], places: Mapping[str, str]) -> str:
    """Return one entry of a list: a member, or numbers of agents and a count."""
    if isinstance(item, Listed):
        place = f", address = {_written(places[item.name])}" if item.name in places else ""
        return f"{{ name = {_written(item.name)}, key = {_written(key_text(item.key))}{place} }}"
    return _written((*(names[i] for i in item[:2]), *item[2:]))


def _texted(kind: type[Any] | None, value: Any) -> Any:
    """Return a value as the file has it."""
    if kind in (MemberKey, Digest):
        return key_text(value)
    if kind is Time:
        return datetime.fromtimestamp(value, UTC)
    return hidden_text(value) if kind is Hides else value


def _written(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{word} = {_written(entry)}" for word, entry in value.items()) + " }"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%dT%H:%M:%SZ}"
    assert isinstance(value, int | float)
    return repr(value)  # the shortest text that reads back as this number


# ---- reading --------------------------------------------------------------------------------------


def parse_session(text: str, what: str) -> Session:
    """Read the text of a session file; `what` names it in errors."""
    return _session(_told(text, what), what)


def _session(told: Any, what: str) -> Session:
    try:
        session = session_of(told, [entry.member() for entry in told.roster])
    except FileError:
        raise
    except (InputError, OverflowError) as error:
        raise FileError(f"{what}: {error}") from None
    if isinstance(told, AroundServer):
        for name, found in (("agents", session.n), ("root", session.root)):
            if getattr(told, name) not in (None, found):
                why = "must be that of the roster in this file, and is not: someone changed the roster"
                raise misplaced(what, name, f"{why}. Ask for the file again, or remove this line")
    return session


def _told(text: str, what: str) -> Any:
    entries = toml_of(text, what)
    _require_exact(entries, what, "")
    series = entries.get("series")
    if isinstance(series, dict) and isinstance(series.get("hides"), str):
        try:
            series["hides"] = msgspec.to_builtins(Hides.parse(series["hides"]))
        except InputError as error:
            raise misplaced(what, "series.hides", str(error)) from None
    return read_tables(entries, what, _own_type(entries))


def _require_exact(entries: Any, what: str, place: str) -> None:
    """Refuse a whole number that would be rounded where a real one is meant."""
    if isinstance(entries, dict | list):
        below = entries.items() if isinstance(entries, dict) else enumerate(entries)
        for key, entry in below:
            _require_exact(entry, what, f"{place}[{key}]" if isinstance(entries, list) else f"{place}.{key}")
    elif isinstance(entries, int) and 2**53 < abs(entries) < 2**1023 and int(float(entries)) != entries:
        raise misplaced(what, place.removeprefix("."), "must be a number that a double holds exactly")


def _own_type(entries: dict[str, Any]) -> Callable[[type[Any], Any], Any]:
    """Return what reads entries of our own types; msgspec adds their place."""
    listed = entries.get("roster")
    rows = listed if isinstance(listed, list) else []
    names = [row.get("name") if isinstance(row, dict) else None for row in rows]
    numbers = {name: i for i, name in enumerate(names) if isinstance(name, str)}

    def read(kind: type[Any], value: Any) -> Any:
        if kind is Time:
            if not isinstance(value, datetime) or value.tzinfo is None or value.microsecond:
                raise InputError(
                    "must be a date and time in whole seconds with its zone: 2030-01-31T12:00:00Z"
                )
            return Time(value.timestamp())
        if not isinstance(value, str):
            raise InputError("must be text in quotes")
        if kind is AgentNumber:
            if value not in numbers:
                raise InputError(f"must name agents of the roster, and {value!r} is none")
            return AgentNumber(numbers[value])
        if kind is Endpoint and not is_endpoint(value):
            raise InputError(f"must be like wss://192.0.2.1:7447, got {value!r}")
        if kind is not Endpoint:
            return kind(key_bytes(value, "it") if kind is MemberKey else hash_bytes(value, "it"))
        return Endpoint(value)

    return read


def text_of(path: str | Path) -> str:
    """Return the text of a TOML file."""
    try:
        return read_public(Path(path)).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FileError(f"{path} must be a text file (TOML in UTF-8), and is not.") from None


def toml_of(text: str, what: str) -> dict[str, Any]:
    """Parse TOML of others, or refuse it in one sentence."""
    if _DEEP.search(text):
        raise FileError(f"{what} must be TOML, and is not: a key has more than {_MOST_PARTS} parts.")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        why = str(error) if isinstance(error, tomllib.TOMLDecodeError) else "too large or too deep"
        raise FileError(f"{what} must be TOML, and is not: {why}.") from None
