r"""The canonical bytes of a session, the same on every machine.

They are MessagePack: a map of the session's fields, as `schema` describes them. Their hash is the session's
id, SHA-256 of "tacit session id\0" and these bytes. Everything about them is decided:

- A field is written if, and only if, its value differs from its default. A field without a default is
  always written. Defaults never change (tests/protocol/test_schema.py has them all).
- The keys of every map are sorted. Whole numbers take the shortest form. Every real number is written as its
  IEEE 754 double (9 bytes), is finite, and is never a negative zero.
- A session with a server has the number of agents and the root of its roster (`roster`) in place of the
  agents. Parameters that differ between agents are nil: each agent has its own in its leaf.
- A field that is not known is refused by its name, in every map. What was read is written again and compared,
  so one session has one encoding only.

Whoever gets a session gets its roster beside it, as one MessagePack array: the canonical bytes, and
[[name, key, own parameters or nil], …], or nil on a graph, where the bytes have the roster themselves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from tacit.base.arguments import MOST_OF_OTHERS, plain
from tacit.base.errors import FileError, InputError
from tacit.core.protocol.fields import Endpoint, differing
from tacit.core.protocol.merkle import HASH_BYTES
from tacit.core.protocol.roster import Member, OneOf, read_leaf, require_in_roster

if TYPE_CHECKING:
    from tacit.core.protocol.schema import AnySession
    from tacit.core.protocol.session import Session

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""All that reading MessagePack raises for bytes that it cannot read."""
_DOMAIN = b"tacit session id\0"
_OLD = b"\xadtacit session"
"""Formats 2 to 6 were arrays that began with this text."""
_WHAT = "these bytes are not a session that this version can read"
_SORTED = msgspec.msgpack.Encoder(order="deterministic")
_Row = tuple[str, bytes, dict[str, float] | None]
_WHOLE = msgspec.msgpack.Decoder(tuple[bytes, list[_Row] | None])
_T = TypeVar("_T")


def session_id(canonical: bytes) -> bytes:
    """Return the id of the session with these canonical bytes."""
    return hashlib.sha256(_DOMAIN + canonical).digest()


def canonical_bytes(session: Session) -> bytes:
    """Write a session in its one canonical form."""
    from tacit.core.protocol.schema import tables_of  # it imports roster and series, and they the session

    return _SORTED.encode(differing(tables_of(session, own=True)))


def encode_session(session: Session) -> bytes:
    """Write a session with its whole roster beside it."""
    rows = None
    if session.edges is None:
        rows = [(member.name, member.key, session.own(i) or None) for i, member in enumerate(session.roster)]
    return _SORTED.encode((session.canonical, rows))


def decode_session(data: bytes) -> Session:
    """Read a session and its roster, and check it as if it were new."""
    session = _checked(data, lambda: _whole(data))
    # One session has one encoding, so members can compare sessions by their bytes as well as by their id.
    if session.encode() != data:
        raise FileError("a session must be written in its one canonical form, and this one is not.")
    return session


def decode_for_one(canonical: bytes, leaf: bytes, path: bytes) -> Session:
    """Read a session of which an agent knows only its own leaf and path.

    The leaf must be in the tree whose root the session has. The session's roster is then a `OneOf`.
    """
    session = _checked(canonical, lambda: _of_one(canonical, leaf, path))
    if session.canonical != canonical:
        raise FileError("a session must be written in its one canonical form, and this one is not.")
    return session


def _whole(data: bytes) -> Session:
    from tacit.core.protocol.schema import AroundServer, GraphSession, session_of

    canonical, rows = _WHOLE.decode(data)
    told = _tables(canonical)
    if isinstance(told, GraphSession):
        return session_of(told, [entry.member() for entry in told.roster])
    assert isinstance(told, AroundServer)
    members = [Member(name, key) for name, key, _ in rows or ()]
    words = {word: tuple((own or {}).get(word) for _, _, own in rows or ()) for word in _own_words(told)}
    session = session_of(told, members, words)
    if (session.n, session.root) != (told.agents, told.root):
        raise FileError(
            f"the roster beside session {session.name} must be the one that the session commits to, and is "
            "not: nobody joins it. Ask for the session again."
        )
    return session


def _of_one(canonical: bytes, leaf: bytes, path: bytes) -> Session:
    from tacit.core.protocol.schema import AroundServer, session_of

    told = _tables(canonical)
    number, member, own = read_leaf(leaf)
    if not isinstance(told, AroundServer) or told.agents is None or told.root is None:
        raise FileError(
            "a session must commit to its roster to be read with one leaf, and this one does not."
        )
    words = _own_words(told)
    if set(words) != set(own):
        raise FileError("the leaf of a roster must have just the parameters that agents have on their own.")
    require_in_roster(told.root, told.agents, number, leaf, path)
    return session_of(told, OneOf(told.agents, bytes(told.root), number, member, tuple(words)), own)


def _tables(canonical: bytes) -> AnySession:
    from tacit.core.protocol.schema import read_tables

    return read_tables(msgspec.msgpack.decode(canonical, type=dict[str, Any]), _WHAT, _own_type)


def _own_words(told: AnySession) -> list[str]:
    return [word for word, value in getattr(told, "mechanism", {}).items() if value is None]


def _own_type(kind: type[Any], value: Any) -> Any:
    if kind is Endpoint:
        raise InputError("an address must not be part of a session")
    if issubclass(kind, bytes):
        if type(value) is not bytes or len(value) != HASH_BYTES:
            raise InputError(f"must be {HASH_BYTES} bytes")
    elif type(value) is not int:
        raise InputError("must be a whole number")
    return kind(value)


def _checked(data: bytes, read: Callable[[], _T]) -> _T:
    if _OLD in data[:17]:
        raise FileError(
            "this session has a format of tacit 0.2 or older, which this version does not read: make the "
            "session anew, and read what it left with the tacit that ran it."
        )
    try:
        return read()
    except (*UNREADABLE, TypeError) as why:
        raise FileError(f"{_WHAT}: {plain(str(why))}.") from None
    except ArithmeticError:
        raise FileError("the numbers of this session overflow floating-point arithmetic.") from None
    except InputError as why:
        # A sentence about a wrong entry repeats it, and it may be as long as a frame.
        if len(str(why)) <= MOST_OF_OTHERS:
            raise
        raise FileError(plain(str(why))) from None
