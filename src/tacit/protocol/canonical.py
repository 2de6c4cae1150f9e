r"""The canonical bytes of a session, the same on every machine.

Their hash is the session's id. The encoding is MessagePack. All maps are written as arrays in this order,
with nil only where a field is absent:

    "tacit session", format 2,
    name, [[agent name, key (32 bytes)], …], coordinator's key or nil,
    [[i, j], …] with i < j in rising order or nil,
    name of the noise law, mixing, noise, decay or nil where the law has none (each a float, or an array of
    one per agent where they differ),
    rounds, [low, high, state exponent, bits, reach exponent], adjacency, components,
    [round, start, repeat] in seconds, quorum, start,
    expires in whole seconds since 1970-01-01 00:00 UTC

A session with keepers has format 3 and two fields more: [[keeper's name, key], …], bytes of a masked number.
A session on a graph where messages do not all count the same has format 4 and one field more: the name
of the rule, or [[i, j, count], …] in rising order: agent i counts the message of j (or its own) so often.
A session whose law has other parameters than mixing, noise and decay has format 5 and four fields more, the
first three of them nil where they are absent: keepers and bytes of a masked number as in format 3, weights as
in format 4, and [[name, float or array], …], the law's other parameters in its order.

A series has format 6 and its own fields, because rounds, lattice and law follow from it:

    "tacit session", format 6, name, [[agent name, key], …], coordinator's key, [[keeper's name, key], …],
    bytes of a masked number,
    [slots, interval in seconds, begins in whole seconds since 1970, "step" or "window" or "reading",
    size of what is hidden, "square-root" or "independent", noise in grid steps, grid exponent, low, high, δ],
    [round, start, repeat] in seconds, quorum, start, expires

Every real number is written as its IEEE 754 double (9 bytes), exactly; zero is never negative; whole
numbers take the shortest form. The id is SHA-256 of "tacit session id\0" and these bytes.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from tacit.arguments import MOST_OF_OTHERS, plain
from tacit.errors import FileError, InputError

if TYPE_CHECKING:
    from tacit.protocol.series import Series
    from tacit.protocol.session import Session

FORMAT: Literal[2] = 2
FORMAT_WITH_KEEPERS: Literal[3] = 3
FORMAT_WITH_WEIGHTS: Literal[4] = 4
FORMAT_WITH_FURTHER: Literal[5] = 5
FORMAT_OF_SERIES: Literal[6] = 6
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""All that reading MessagePack raises for bytes that it cannot read."""
_DOMAIN = b"tacit session id\0"
_SERIES_HEAD = b"\x9c"
"""A series is written as an array of twelve; all other sessions have at least eighteen fields."""


class _Written(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    what: Literal["tacit session"]
    format: Literal[2, 3, 4, 5]
    name: str
    roster: tuple[tuple[str, bytes], ...]
    coordinator: bytes | None
    edges: tuple[tuple[int, int], ...] | None
    law: str
    mixing: float | tuple[float, ...]
    noise: float | tuple[float, ...]
    decay: float | tuple[float, ...] | None
    rounds: int
    lattice: tuple[float, float, int, int, int]
    adjacency: float
    components: int
    deadlines: tuple[float, float, float]
    quorum: int
    start: int
    expires: int


class _WrittenWithKeepers(_Written, frozen=True, array_like=True, forbid_unknown_fields=True):
    keepers: Annotated[tuple[tuple[str, bytes], ...], msgspec.Meta(min_length=1)]
    mask_bytes: int


class _WrittenWithWeights(_Written, frozen=True, array_like=True, forbid_unknown_fields=True):
    weights: str | tuple[tuple[int, int, int], ...]


class _WrittenWithFurther(_Written, frozen=True, array_like=True, forbid_unknown_fields=True):
    keepers: Annotated[tuple[tuple[str, bytes], ...], msgspec.Meta(min_length=1)] | None
    mask_bytes: int | None
    weights: str | tuple[tuple[int, int, int], ...] | None
    further: Annotated[tuple[tuple[str, float | tuple[float, ...]], ...], msgspec.Meta(min_length=1)]


# A series has its own struct: what follows from the series is not written, so it cannot contradict it.
class _WrittenSeries(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    what: Literal["tacit session"]
    format: Literal[6]
    name: str
    roster: tuple[tuple[str, bytes], ...]
    coordinator: bytes
    keepers: Annotated[tuple[tuple[str, bytes], ...], msgspec.Meta(min_length=1)]
    mask_bytes: int
    series: tuple[
        int, float, int, Literal["step", "window", "reading"], float, str, float, int, float, float, float
    ]
    deadlines: tuple[float, float, float]
    quorum: int
    start: int
    expires: int


_FORMATS: dict[int, type[_Written]] = {
    FORMAT_WITH_KEEPERS: _WrittenWithKeepers,
    FORMAT_WITH_WEIGHTS: _WrittenWithWeights,
    FORMAT_WITH_FURTHER: _WrittenWithFurther,
}


def session_id(encoded: bytes) -> bytes:
    """Return the id of the session with this encoding."""
    return hashlib.sha256(_DOMAIN + encoded).digest()


def encode_session(session: Session) -> bytes:
    """Write a session in its canonical encoding."""
    if session.series is not None:
        return _encode_series(session, session.series)
    lattice, deadlines = session.lattice, session.deadlines
    reach = lattice.reach_exponent
    assert reach is not None  # Lattice fills it in
    fields: dict[str, Any] = {
        "what": "tacit session",
        "format": FORMAT,
        "name": session.name,
        "roster": tuple((member.name, member.key) for member in session.roster),
        "coordinator": session.coordinator,
        "edges": session.edges,
        "law": session.law,
        "mixing": session.mixing,
        "noise": session.noise,
        "decay": session.decay,
        "rounds": session.rounds,
        "lattice": (
            float(lattice.low) + 0.0,  # no negative zero: it would hash differently
            float(lattice.high) + 0.0,
            lattice.state_exponent,
            lattice.bits,
            reach,
        ),
        "adjacency": session.adjacency,
        "components": session.components,
        "deadlines": (deadlines.round, deadlines.start, deadlines.repeat),
        "quorum": session.least_quorum,
        "start": session.least_start,
        "expires": session.expires,
    }
    # The lowest format that has the fields: sessions that need none of them keep their old bytes and id.
    keepers = tuple((keeper.name, keeper.key) for keeper in session.keepers) or None
    further = {"keepers": keepers, "mask_bytes": session.mask_bytes, "weights": session.weights}
    if session.further:
        fields |= {"format": FORMAT_WITH_FURTHER, **further, "further": session.further}
    elif session.weights is not None:  # on a graph, so without keepers
        fields |= {"format": FORMAT_WITH_WEIGHTS, "weights": session.weights}
    elif session.keepers:
        fields |= {"format": FORMAT_WITH_KEEPERS, "keepers": keepers, "mask_bytes": session.mask_bytes}
    return msgspec.msgpack.encode(_FORMATS.get(fields["format"], _Written)(**fields))


def _encode_series(session: Session, series: Series) -> bytes:
    assert session.coordinator is not None
    assert session.mask_bytes is not None
    deadlines, hides = session.deadlines, series.hides
    return msgspec.msgpack.encode(
        _WrittenSeries(
            what="tacit session",
            format=FORMAT_OF_SERIES,
            name=session.name,
            roster=tuple((member.name, member.key) for member in session.roster),
            coordinator=session.coordinator,
            keepers=tuple((keeper.name, keeper.key) for keeper in session.keepers),
            mask_bytes=session.mask_bytes,
            series=(
                series.slots, series.interval, series.begins, hides.kind, float(hides.size), series.mechanism,
                series.steps, series.exponent, series.low, series.high, series.delta,
            ),
            deadlines=(deadlines.round, deadlines.start, deadlines.repeat),
            quorum=session.least_quorum,
            start=session.least_start,
            expires=session.expires,
        )
    )  # fmt: skip


def decode_session(data: bytes) -> Session:
    """Read a session, and check it as if it were new."""
    try:
        if data[:1] == _SERIES_HEAD:
            session = _series_session(msgspec.msgpack.decode(data, type=_WrittenSeries))
        else:
            session = _session(msgspec.msgpack.decode(data, type=_kind(data)))
    except UNREADABLE as why:
        raise FileError(
            f"these bytes are not a session that this version can read: {plain(str(why))}."
        ) from None
    except ArithmeticError:
        raise FileError("the numbers of this session overflow floating-point arithmetic.") from None
    except InputError as why:
        # A sentence about a wrong entry repeats it, and it may be as long as a frame.
        if len(str(why)) <= MOST_OF_OTHERS:
            raise
        raise FileError(plain(str(why))) from None
    # One session has one encoding, so members can compare sessions by their bytes as well as by their id.
    if session.encode() != data:
        raise FileError("a session must be written in its one canonical form, and this one is not.")
    return session


# The imports are inside: `session` imports this module.
def _series_session(w: _WrittenSeries) -> Session:
    from tacit.protocol.roster import Member
    from tacit.protocol.series import Series
    from tacit.protocol.session import Deadlines, Session
    from tacit.theory.series import Hides

    slots, interval, begins, kind, size, mechanism, steps, exponent, low, high, delta = w.series
    series = Series(slots, interval, begins, Hides(kind, size), mechanism, steps, exponent, low, high, delta)
    return Session.of_series(
        series,
        name=w.name,
        roster=tuple(Member(name, key) for name, key in w.roster),
        coordinator=w.coordinator,
        keepers=tuple(Member(name, key) for name, key in w.keepers),
        mask_bytes=w.mask_bytes,
        deadlines=Deadlines(*w.deadlines),
        quorum=w.quorum,
        start=w.start,
        expires=w.expires,
    )


def _session(w: _Written) -> Session:
    from tacit.mechanism.lattice import Lattice
    from tacit.protocol.roster import Member
    from tacit.protocol.session import Deadlines, Session

    return Session(
        name=w.name,
        roster=tuple(Member(name, key) for name, key in w.roster),
        coordinator=w.coordinator,
        edges=w.edges,
        law=w.law,
        mixing=w.mixing,
        noise=w.noise,
        decay=w.decay,
        rounds=w.rounds,
        lattice=Lattice(*w.lattice),
        adjacency=w.adjacency,
        components=w.components,
        deadlines=Deadlines(*w.deadlines),
        quorum=w.quorum,
        start=w.start,
        expires=w.expires,
        keepers=tuple(Member(name, key) for name, key in getattr(w, "keepers", None) or ()),
        mask_bytes=getattr(w, "mask_bytes", None),
        weights=getattr(w, "weights", None),
        further=getattr(w, "further", ()),
    )


def _kind(data: bytes) -> type[_Written]:
    """Return the class for the format that these bytes name.

    It is read before the rest, because each format has its own fields. An array of 16 or more fields has a
    head of 3 bytes; "tacit session" has 1 + 13. So the format is byte 17.
    """
    return _FORMATS.get(data[17], _Written) if data[:1] == b"\xdc" and len(data) > 17 else _Written
