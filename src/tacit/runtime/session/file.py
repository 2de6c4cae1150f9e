"""The session file: public TOML, the same for everyone in a session.

Numbers are written so that they read back exactly, because the session's id is a hash of them. The file may
also contain addresses of members. They are not part of the session, because a machine may move.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec.structs import asdict

from tacit.errors import FileError, InputError, LawError
from tacit.files import PUBLIC, read_public, write_whole
from tacit.law import named
from tacit.mechanism.lattice import Lattice
from tacit.protocol.roster import Member
from tacit.protocol.series import Series
from tacit.protocol.session import Deadlines, Session
from tacit.runtime.identity.keys import key_bytes, key_text
from tacit.runtime.transport.connection_diagnosis import ENDPOINT
from tacit.theory.series import Hides
from tacit.theory.series import written as hidden_text

FORMAT = 2
_MOST_PARTS = 64
# tomllib needs n² steps for a dotted key of n parts. A key of 16,000 parts would take many seconds.
_DEEP = re.compile(rf"""(?:\.[ \t]*+(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+){{{_MOST_PARTS}}}""")


def read_session(path: str | Path) -> Session:
    """Read a session file, or say in one sentence what is wrong in it."""
    return parse_session(text_of(path), str(path))


def read_addresses(path: str | Path) -> dict[str, str]:
    """Return the addresses in the file: by name, and `coordinator`."""
    written = _parsed(text_of(path), str(path))
    found = {entry.name: entry.address for entry in written.roster}
    if isinstance(written, _ServerFile | _SeriesFile):
        found |= {entry.name: entry.address for entry in written.keepers}
        found["coordinator"] = written.coordinator_address
    return {name: str(address) for name, address in found.items() if address is not None}


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
    places, lattice = dict(addresses or {}), session.lattice
    ends = datetime.fromtimestamp(session.expires, UTC)
    lines = [
        "# A session of tacit: public, and the same for everyone in it. `tacit session check` explains it.",
        f"format = {FORMAT}",
        f"name = {_written(session.name)}",
        f"expires = {ends:%Y-%m-%dT%H:%M:%SZ}  # nobody joins or speaks from then on",
        f"topology = {_written(session.topology)}",
    ]
    if session.coordinator is not None:
        lines.append(f"coordinator = {_written(key_text(session.coordinator))}")
        if "coordinator" in places:
            lines.append(f"coordinator_address = {_written(places['coordinator'])}")
    lines += _array("roster", [_member_text(member, places.get(member.name)) for member in session.roster])
    if session.keepers:
        keepers = [_member_text(member, places.get(member.name)) for member in session.keepers]
        lines += _array("keepers", keepers)
        lines.append(f"mask_bytes = {session.mask_bytes}")
    if session.edges is not None:
        names = [_written(member.name) for member in session.roster]
        lines += _array("edges", [f"[{names[i]}, {names[j]}]" for i, j in session.edges])
        if isinstance(session.weights, str):
            lines.append(f"weights = {_written(session.weights)}")
        elif session.weights is not None:
            rows = [f"[{names[i]}, {names[j]}, {count}]" for i, j, count in session.weights]
            lines += _array("weights", rows)
    if session.series is not None:
        lines += _series_text(session.series)
    else:
        mechanism = {"law": session.law, **session.parameters, "rounds": session.rounds}
        lines += _section("mechanism", mechanism)
        values = {"low": float(lattice.low) + 0.0, "high": float(lattice.high) + 0.0}
        values |= {"components": session.components, "adjacency": session.adjacency}
        lines += _section("values", values)
        steps = ("state_exponent", "bits", "reach_exponent")
        lines += _section("lattice", {name: getattr(lattice, name) for name in steps})
    lines += _section("deadlines", vars(session.deadlines), "  # in seconds")
    lines += _section("quorum", {"round": session.least_quorum, "start": session.least_start})
    return "\n".join(lines) + "\n"


def _series_text(series: Series) -> list[str]:
    begins = datetime.fromtimestamp(series.begins, UTC)
    rest = {
        name: getattr(series, name) for name in ("mechanism", "steps", "exponent", "low", "high", "delta")
    }
    first = _section("series", {"slots": series.slots, "interval": series.interval})
    text = {"hides": hidden_text(series.hides), **rest}
    return [
        *first,
        f"begins = {begins:%Y-%m-%dT%H:%M:%SZ}",
        *(f"{key} = {_written(value)}" for key, value in text.items()),
    ]


def _section(name: str, entries: Mapping[str, object], remark: str = "") -> list[str]:
    return ["", f"[{name}]{remark}", *(f"{key} = {_written(value)}" for key, value in entries.items())]


def _array(name: str, items: list[str]) -> list[str]:
    return [f"{name} = [", *(f"  {item}," for item in items), "]"]


def _member_text(member: Member, address: str | None) -> str:
    place = "" if address is None else f", address = {_written(address)}"
    return f"{{ name = {_written(member.name)}, key = {_written(key_text(member.key))}{place} }}"


def _written(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, str):
        return json.dumps(value)
    assert isinstance(value, int | float)
    return repr(value)  # the shortest text that reads back as this number


# ---- reading --------------------------------------------------------------------------------------

_LARGEST = sys.float_info.max
_Number = Annotated[float, msgspec.Meta(ge=-_LARGEST, le=_LARGEST)]  # neither infinite nor NaN
_Numbers = _Number | tuple[_Number, ...]


class _Key(bytes):
    """A public key, written in 43 characters."""


class _Address(str):
    """Where a member listens."""


class _Time(int):
    """A date and time with its zone, in seconds since 1970-01-01 00:00 UTC."""


class _Table(msgspec.Struct, forbid_unknown_fields=True):
    """A table of the file: its entries and their types."""


class _Listed(_Table):
    name: str
    key: _Key
    address: _Address | None = None

    def __post_init__(self) -> None:
        self.member()  # refuses a name that cannot be used, and msgspec says which one

    def member(self) -> Member:
        return Member(self.name, bytes(self.key))


class _Values(_Table):
    low: _Number
    high: _Number
    adjacency: _Number
    components: int = 1


class _Steps(_Table):
    state_exponent: int
    bits: int
    reach_exponent: int


class _Waits(_Table):
    round: _Number = Deadlines.round
    start: _Number = Deadlines.start
    repeat: _Number = Deadlines.repeat


class _Least(_Table):
    round: int | None = None
    start: int | None = None


class _AnyFile(_Table, kw_only=True):
    format: int
    name: str
    expires: _Time
    topology: str
    roster: tuple[_Listed, ...]
    deadlines: _Waits = msgspec.field(default_factory=_Waits)
    quorum: _Least = msgspec.field(default_factory=_Least)


class _SessionFile(_AnyFile, kw_only=True):
    mechanism: dict[str, Any]  # what else is in it depends on the law
    values: _Values
    lattice: _Steps


class _SeriesTable(_Table):
    slots: int
    interval: _Number
    begins: _Time
    hides: str
    mechanism: str
    steps: _Number
    exponent: int
    low: _Number
    high: _Number
    delta: _Number


class _SeriesFile(_AnyFile, kw_only=True):
    coordinator: _Key
    coordinator_address: _Address | None = None
    keepers: tuple[_Listed, ...] = ()
    mask_bytes: int | None = None
    series: _SeriesTable


class _ServerFile(_SessionFile, kw_only=True):
    coordinator: _Key
    coordinator_address: _Address | None = None
    keepers: tuple[_Listed, ...] = ()
    mask_bytes: int | None = None


class _GraphFile(_SessionFile, kw_only=True):
    edges: tuple[tuple[str, str], ...]
    weights: str | tuple[tuple[str, str, int], ...] | None = None


class _Kind(msgspec.Struct):
    law: str


class _SessionHead(msgspec.Struct):
    format: int
    topology: str | None = None
    series: Any = None


def parse_session(text: str, what: str) -> Session:
    """Read the text of a session file; `what` names it in errors."""
    written = _parsed(text, what)
    try:
        if isinstance(written, _SeriesFile):
            return _series_session(written)
        low, high, steps = written.values.low, written.values.high, written.lattice
        return Session(
            name=written.name,
            roster=tuple(entry.member() for entry in written.roster),
            lattice=Lattice(low, high, steps.state_exponent, steps.bits, steps.reach_exponent),
            adjacency=written.values.adjacency,
            components=written.values.components,
            deadlines=Deadlines(**asdict(written.deadlines)),
            quorum=written.quorum.round,
            start=written.quorum.start,
            expires=int(written.expires),
            **_mechanism(written.mechanism, what),
            **_topology(written, what),
        )
    except FileError:
        raise
    except (InputError, OverflowError) as error:
        raise FileError(f"{what}: {error}") from None


def _series_session(found: _SeriesFile) -> Session:
    table = asdict(found.series)
    table |= {"begins": int(found.series.begins), "hides": Hides.parse(found.series.hides)}
    return Session.of_series(
        Series(**table),
        name=found.name,
        roster=tuple(entry.member() for entry in found.roster),
        coordinator=bytes(found.coordinator),
        keepers=tuple(entry.member() for entry in found.keepers),
        mask_bytes=found.mask_bytes,
        deadlines=Deadlines(**asdict(found.deadlines)),
        quorum=found.quorum.round,
        start=found.quorum.start,
        expires=int(found.expires),
    )


def _parsed(text: str, what: str) -> _ServerFile | _GraphFile | _SeriesFile:
    entries = toml_of(text, what)
    head = _converted(entries, _SessionHead, what)
    if head.format != FORMAT:
        raise _refused(what, "format", _other_format(head.format))
    if head.series is not None:
        return _converted(entries, _SeriesFile, what)
    if head.topology == "graph":
        return _converted(entries, _GraphFile, what)
    if head.topology not in ("server", None):
        raise _refused(what, "topology", f"must be 'server' or 'graph', got {head.topology!r}")
    return _converted(entries, _ServerFile, what)


def _other_format(written: int) -> str:
    """Say what to do with a session file of another version.

    It is refused: missing entries are never guessed.
    """
    if written < FORMAT:
        return (
            f"must be {FORMAT}, got {written}: the file is from tacit 0.1, whose sessions never expire. "
            "Make a new session (`tacit session new`) and give its file to everyone"
        )
    return f"must be {FORMAT}, got {written}: the file is from a newer tacit. Install that version"


def _mechanism(entries: dict[str, Any], what: str) -> dict[str, Any]:
    kind = _converted(entries, _Kind, what, "mechanism").law
    try:
        law = named(kind)
    except LawError as error:
        raise _refused(what, "mechanism.law", str(error)) from None
    fields: list[Any] = [("law", str), ("rounds", int), *((word, _Numbers) for word in law.words())]
    table = msgspec.defstruct("_Mechanism", fields, bases=(_Table,))
    found = asdict(_converted(entries, table, what, "mechanism"))
    return found | {"further": [(word, found.pop(word)) for word in law.further()]}


def _topology(written: _ServerFile | _GraphFile, what: str) -> dict[str, Any]:
    if isinstance(written, _ServerFile):
        keepers = tuple(entry.member() for entry in written.keepers)
        return {
            "coordinator": bytes(written.coordinator),
            "keepers": keepers,
            "mask_bytes": written.mask_bytes,
        }
    number = {entry.name: i for i, entry in enumerate(written.roster)}

    def numbered(key: str, rows: tuple[tuple[Any, ...], ...]) -> tuple[tuple[int, ...], ...]:
        for k, row in enumerate(rows):
            if (stranger := next((name for name in row[:2] if name not in number), None)) is not None:
                why = f"must name agents of the roster, and {stranger!r} is none"
                raise _refused(what, f"{key}[{k}]", why)
        return tuple((number[i], number[j], *count) for i, j, *count in rows)

    found: dict[str, Any] = {"edges": numbered("edges", written.edges), "weights": written.weights}
    if isinstance(written.weights, tuple):
        found["weights"] = tuple(sorted(numbered("weights", written.weights)))
    return found


# ---- mistakes -------------------------------------------------------------------------------------

_MUST_BE = {
    "int": "a whole number",
    "float": "a finite number",
    "str": "text in quotes",
    "array": "a list",
    "object": "a table",
}
_PLACED = re.compile(r"(.*?)(?: - at `\$\.?(.*)`)?", re.DOTALL)  # what msgspec says
_MISSING = re.compile(r"Object missing required field `(.*)`", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISTYPED = re.compile(r"Expected `([a-z |]*)`(?: of length (\d+)|).*|Number out of range")
_T = TypeVar("_T")


def _converted(entries: Any, table: type[_T], what: str, place: str = "") -> _T:
    """Read a table of the file, or say in one sentence which entry is wrong."""
    try:
        return msgspec.convert(entries, table, dec_hook=_own_type, builtin_types=(datetime,))
    except msgspec.ValidationError as error:
        said = _PLACED.fullmatch(str(error))
        assert said is not None
        why, where = said[1], [place, said[2]]
    if found := _MISSING.fullmatch(why):
        why, where = "must be given", [*where, found[1]]
    elif found := _UNKNOWN.fullmatch(why):
        why, where = "is not known here: remove it, or check its spelling", [*where, found[1]]
    elif found := _MISTYPED.fullmatch(why):
        kinds = [_MUST_BE[kind] for kind in (found[1] or "float").split(" | ") if kind != "null"]
        why = f"must be {' or '.join(kinds)}" + (f" of {found[2]} entries" if found[2] else "")
    raise _refused(what, ".".join(filter(None, where)), why)


def _refused(what: str, place: str, why: str) -> FileError:
    plain = "".join(letter if letter.isprintable() else "?" for letter in place)  # keys may be any text
    return FileError(f"{what}, {plain}: {why.removesuffix('.')}.")


def _own_type(kind: type[Any], value: Any) -> Any:
    """Read an entry of our own types; msgspec adds its place to errors."""
    if kind is _Time:
        if not isinstance(value, datetime) or value.tzinfo is None or value.microsecond:
            raise InputError("must be a date and time in whole seconds with its zone: 2030-01-31T12:00:00Z")
        return _Time(value.timestamp())
    if not isinstance(value, str):
        raise InputError("must be text in quotes")
    if kind is _Key:
        return _Key(key_bytes(value, "it"))
    if not ENDPOINT.fullmatch(value):
        raise InputError(f"must be like wss://192.0.2.1:7447, got {value!r}")
    return _Address(value)


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
