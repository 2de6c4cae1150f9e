"""The session file: one TOML file, public, the same for everyone in a session.

Numbers are written so that they read back exactly: the session's id is a hash of them. Addresses may stand
in the file beside names; they are not part of the session, because a machine may move.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from tacit.errors import FileError, InputError
from tacit.files import PUBLIC, read_public, write_whole
from tacit.law import named, names
from tacit.mechanism.lattice import Lattice
from tacit.protocol.roster import Member
from tacit.protocol.session import Deadlines, PerMember, Session
from tacit.runtime.identity.keys import key_bytes, key_text
from tacit.runtime.transport.connection_diagnosis import ENDPOINT

FORMAT = 2
_NEEDED = object()
_MOST_PARTS = 64
# A key of n parts takes tomllib n² steps: one of 16,000 parts takes it many seconds.
_DEEP = re.compile(rf"""(?:\.[ \t]*+(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+){{{_MOST_PARTS}}}""")


def read_session(path: str | Path) -> Session:
    """Read a session file, or say in one sentence what is wrong in it."""
    return parse_session(_text(path), str(path))


def read_addresses(path: str | Path) -> dict[str, str]:
    """Return where members listen, as far as the file says: by name, and `coordinator`."""
    top = _Table(str(path), "", _toml(_text(path), str(path)))
    found = {"coordinator": top.address("coordinator_address")}
    found |= {name: entry.address("address") for name, entry in _entries(top)}
    found |= {name: entry.address("address") for name, entry in _entries(top, "keepers")}
    return {name: address for name, address in found.items() if address is not None}


def write_session(
    session: Session, path: str | Path, *, addresses: Mapping[str, str] | None = None, force: bool = False
) -> None:
    """Write a session file that reads back as the very same session."""
    text = session_text(session, addresses)
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
    mechanism = {"noise_kind": session.noise_kind, "mixing": session.mixing, "noise": session.noise}
    if session.decay is not None:
        mechanism["decay"] = session.decay
    lines += _section("mechanism", {**mechanism, "rounds": session.rounds})
    values = {"low": float(lattice.low) + 0.0, "high": float(lattice.high) + 0.0}
    values |= {"components": session.components, "adjacency": session.adjacency}
    lines += _section("values", values)
    steps = ("state_exponent", "bits", "reach_exponent")
    lines += _section("lattice", {name: getattr(lattice, name) for name in steps})
    lines += _section("deadlines", vars(session.deadlines), "  # in seconds")
    lines += _section("quorum", {"round": session.least_quorum, "start": session.least_start})
    return "\n".join(lines) + "\n"


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


def parse_session(text: str, what: str) -> Session:
    """Read the text of a session file; `what` names it in what is said of mistakes."""
    top = _Table(what, "", _toml(text, what))
    if (written := top.whole("format")) != FORMAT:
        top.refuse("format", _other_format(written))
    topology = top.word("topology", ("server", "graph"))
    members = tuple(_member(name, entry) for name, entry in _entries(top))
    mechanism, values = top.table("mechanism"), top.table("values")
    kind = mechanism.word("noise_kind", names())
    server = topology == "server"
    try:
        session = Session(
            name=top.string("name"),
            roster=members,
            coordinator=top.key("coordinator") if server else None,
            edges=None if server else _edges(top, members),
            weights=None if server else _weights(top, members),
            noise_kind=kind,
            mixing=mechanism.numbers("mixing"),
            noise=mechanism.numbers("noise"),
            decay=mechanism.numbers("decay") if "decay" in named(kind).words() else None,
            rounds=mechanism.whole("rounds"),
            lattice=_lattice(top.table("lattice"), values),
            adjacency=values.number("adjacency"),
            components=values.whole("components", 1),
            deadlines=_deadlines(top.table("deadlines", {})),
            expires=top.time("expires"),
            **_quorum(top.table("quorum", {})),
            **_keepers(top),
        )
    except FileError:
        raise
    except (InputError, OverflowError) as error:
        raise FileError(f"{what}: {error}") from None
    top.address("coordinator_address")
    for table in (top, mechanism, values):
        table.require_no_more()
    return session


def _other_format(written: int) -> str:
    """Say what to do with a session file of another version; nothing that it lacks is made up."""
    if written < FORMAT:
        return (
            f"must be {FORMAT}, got {written}: the file is from an older tacit, whose sessions never expire. "
            "Make the session anew (`tacit session new`) and give the new file to everyone"
        )
    return f"must be {FORMAT}, got {written}: the file is from a newer tacit. Install that version"


def _keepers(top: _Table) -> dict[str, Any]:
    members = tuple(_member(name, entry) for name, entry in _entries(top, "keepers"))
    return {"keepers": members, "mask_bytes": top.whole("mask_bytes")} if members else {}


def _entries(top: _Table, key: str = "roster") -> list[tuple[str, _Table]]:
    if key == "keepers" and not top.has(key):
        return []
    rows = [_Table(top.file, f"{key}[{i}].", row) for i, row in enumerate(top.items(key))]
    return [(row.string("name"), row) for row in rows]


def _member(name: str, entry: _Table) -> Member:
    try:
        member = Member(name, entry.key("key"))
    except FileError:
        raise
    except InputError as error:
        raise FileError(f"{entry.file}, {entry.place}name: {error}") from None
    entry.address("address")
    entry.require_no_more()
    return member


def _edges(top: _Table, members: tuple[Member, ...]) -> tuple[tuple[int, int], ...]:
    number = {member.name: i for i, member in enumerate(members)}
    edges = []
    for k, edge in enumerate(top.items("edges")):
        if not (isinstance(edge, list) and len(edge) == 2 and all(isinstance(name, str) for name in edge)):
            top.refuse(f"edges[{k}]", "must be a pair of names")
        stranger = next((name for name in edge if name not in number), None)
        if stranger is not None:
            top.refuse(f"edges[{k}]", f"must name agents of the roster, and {stranger!r} is none")
        edges.append((number[edge[0]], number[edge[1]]))
    return tuple(edges)


def _weights(top: _Table, members: tuple[Member, ...]) -> str | tuple[tuple[int, int, int], ...] | None:
    """Read the name of a rule, or how many times the first agent counts the second one's message."""
    if not top.has("weights"):
        return None
    given = top.items("weights", words=True)
    if isinstance(given, str):
        return given
    number = {member.name: i for i, member in enumerate(members)}
    rows = []
    for k, row in enumerate(given):
        if not (isinstance(row, list) and len(row) == 3 and type(row[2]) is int):
            top.refuse(f"weights[{k}]", "must be two names and a whole number")
        if not all(isinstance(name, str) and name in number for name in row[:2]):
            top.refuse(f"weights[{k}]", "must name agents of the roster")
        rows.append((number[row[0]], number[row[1]], row[2]))
    return tuple(sorted(rows))


def _lattice(table: _Table, values: _Table) -> Lattice:
    if values.has("outside"):
        values.refuse(
            "outside",
            "is no option any more, because an agent that stays away tells others about its value: every "
            "value off the range counts as the nearest end. Remove the line; the session gets a new id",
        )
    lattice = Lattice(
        values.number("low"),
        values.number("high"),
        table.whole("state_exponent"),
        table.whole("bits"),
        table.whole("reach_exponent"),
    )
    table.require_no_more()
    return lattice


def _deadlines(table: _Table) -> Deadlines:
    usual = Deadlines()
    names = ("round", "start", "repeat")
    made = Deadlines(**{name: table.number(name, getattr(usual, name)) for name in names})
    table.require_no_more()
    return made


def _quorum(table: _Table) -> dict[str, Any]:
    found = {"quorum": table.whole("round", None), "start": table.whole("start", None)}
    table.require_no_more()
    return found


class _Table:
    """One table of the file, which remembers where it is and what was not asked for."""

    def __init__(self, file: str, place: str, entries: Any) -> None:
        self.file, self.place = file, place
        if not isinstance(entries, dict):
            raise FileError(f"{file}, {place.rstrip('.')}: must be a table.")
        self._entries, self._asked = entries, set[str]()

    def refuse(self, key: str, why: str) -> NoReturn:
        raise FileError(f"{self.file}, {self.place}{key}: {why}.")

    def has(self, key: str) -> bool:
        return key in self._entries

    def _take(self, key: str, default: Any = _NEEDED) -> Any:
        self._asked.add(key)
        if key not in self._entries and default is _NEEDED:
            self.refuse(key, "must be given")
        return self._entries.get(key, default)

    def require_no_more(self) -> None:
        for key in self._entries:
            if key not in self._asked:
                self.refuse(key, "is not known here: remove it, or see that it is spelled right")

    def string(self, key: str, default: Any = _NEEDED) -> Any:
        value = self._take(key, default)
        if value is not default and not isinstance(value, str):
            self.refuse(key, "must be text in quotes")
        return value

    def address(self, key: str) -> str | None:
        value: str | None = self.string(key, None)
        if value is not None and not ENDPOINT.fullmatch(value):
            self.refuse(key, f"must be like wss://192.0.2.1:7447, got {value!r}")
        return value

    def word(self, key: str, words: tuple[str, ...]) -> str:
        value = self.string(key)
        if value not in words:
            self.refuse(key, f"must be {' or '.join(map(repr, words))}, got {value!r}")
        return str(value)

    def whole(self, key: str, default: Any = _NEEDED) -> Any:
        value = self._take(key, default)
        if value is not default and type(value) is not int:
            self.refuse(key, "must be a whole number")
        return value

    def time(self, key: str) -> int:
        value = self._take(key)
        if not isinstance(value, datetime) or value.tzinfo is None or value.microsecond:
            self.refuse(key, "must be a date and time in whole seconds with its zone: 2030-01-31T12:00:00Z")
        return int(value.timestamp())

    def number(self, key: str, default: Any = _NEEDED) -> float:
        value = self._take(key, default)
        if type(value) not in (int, float) or not abs(value) <= sys.float_info.max:
            self.refuse(key, "must be a finite number")
        return float(value)

    def numbers(self, key: str) -> PerMember:
        value = self._take(key)
        if not isinstance(value, list):
            return self.number(key)
        entries = {f"[{i}]": number for i, number in enumerate(value)}
        each = _Table(self.file, f"{self.place}{key}", entries)
        return tuple(each.number(place) for place in entries)

    def key(self, key: str) -> bytes:
        return key_bytes_at(self.string(key), f"{self.file}, {self.place}{key}")

    def items(self, key: str, *, words: bool = False) -> Any:
        """Return a list or, if `words`, a text."""
        value = self._take(key)
        if not isinstance(value, list) and not (words and isinstance(value, str)):
            self.refuse(key, "must be a list")
        return value

    def table(self, key: str, default: Any = _NEEDED) -> _Table:
        return _Table(self.file, f"{self.place}{key}.", self._take(key, default))


def key_bytes_at(text: str, place: str) -> bytes:
    """Read a public key that stands at a place in a file."""
    try:
        return key_bytes(text, "it")
    except InputError as error:
        raise FileError(f"{place}: {error}") from None


def _text(path: str | Path) -> str:
    try:
        return read_public(Path(path)).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FileError(f"{path} must be a text file (TOML in UTF-8), and is not.") from None


def _toml(text: str, what: str) -> dict[str, Any]:
    if _DEEP.search(text):
        raise FileError(f"{what} must be TOML, and is not: a key has more than {_MOST_PARTS} parts.")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        why = str(error) if isinstance(error, tomllib.TOMLDecodeError) else "too large or too deep"
        raise FileError(f"{what} must be TOML, and is not: {why}.") from None
