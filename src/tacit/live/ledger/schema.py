"""The schema of a ledger's file, with the rules that must never break.

They are constraints and triggers of the file, so they hold even if the code above it has a mistake.

There is one append-only table. `digest` is SHA-256 over the previous digest and the row, so a row that is
missing, changed or out of place is detected. The digest covers the row's data only through `leaf`, which is
SHA-256 of a random salt and the data. So the data of a finished session can be removed: the leaf replaces
salt and data, and the chain stays valid. Without the salt a leaf reveals nothing about the data, even if the
data has few possible values.

Rows of finished, expired sessions can be dropped completely (`compaction`). Then one row of the table
`carried` replaces them, with their losses and the previous position of the chain.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import msgspec

APPLICATION_ID = 0x7AC17001
VERSION = 3
READABLE = (2, VERSION)
"""Version 2 has no table `carried`."""

CARRIED = """
CREATE TABLE IF NOT EXISTS carried (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    count INTEGER NOT NULL CHECK (typeof(count) = 'integer' AND count >= 0),
    head BLOB NOT NULL CHECK (typeof(head) = 'blob' AND length(head) = 32),
    data BLOB NOT NULL CHECK (typeof(data) = 'blob')
);
"""
RECORD = """
CREATE TABLE record (
    sequence INTEGER PRIMARY KEY CHECK (sequence >= 1),
    session BLOB NOT NULL CHECK (typeof(session) = 'blob' AND length(session) = 32),
    kind TEXT NOT NULL CHECK (kind IN (
        'capped', 'reserved', 'began', 'spoke', 'moved', 'silenced', 'opened', 'closed', 'evidence', 'ended',
        'settled', 'keyed', 'erasing', 'disclosed', 'shut', 'unopened', 'sampled', 'reported')),
    number INTEGER NOT NULL CHECK (typeof(number) = 'integer' AND number >= 0),
    loss REAL CHECK ((loss IS NOT NULL) = (kind = 'spoke') AND (loss IS NULL OR loss >= 0)),
    salt BLOB CHECK (salt IS NULL OR (typeof(salt) = 'blob' AND length(salt) = 16)),
    data BLOB NOT NULL CHECK (typeof(data) = 'blob' AND (salt IS NOT NULL OR length(data) = 32)),
    digest BLOB NOT NULL CHECK (typeof(digest) = 'blob' AND length(digest) = 32),
    CHECK (number = 0 OR kind IN ('spoke', 'moved', 'closed', 'evidence', 'capped', 'keyed', 'disclosed',
        'shut', 'unopened', 'sampled', 'reported')),
    -- One message or opening per update, one feedback per round, ever; the rest once per session.
    UNIQUE (session, kind, number)
);
"""
# These texts are stored in each file when it is made or compacted. Until then a file keeps its older rules.
RULES = (
    # A message is only ever sent after its loss is set aside on the disk: a crash cannot hide the loss, and
    # two sessions that start together cannot both use the rest of a cap.
    """CREATE TRIGGER reserve_before_beginning BEFORE INSERT ON record WHEN NEW.kind = 'began'
    AND NOT EXISTS (SELECT 1 FROM record WHERE session = NEW.session AND kind = 'reserved')
    BEGIN SELECT RAISE(ABORT, 'loss not reserved'); END;""",
    """CREATE TRIGGER begin_before_speaking BEFORE INSERT ON record WHEN NEW.kind = 'spoke'
    AND NOT EXISTS (SELECT 1 FROM record WHERE session = NEW.session AND kind = 'began')
    BEGIN SELECT RAISE(ABORT, 'session not begun'); END;""",
    # The loss that a settled session did not use is released. Another session may have reserved it by now, so
    # a message after that could exceed the cap.
    """CREATE TRIGGER silent_means_silent BEFORE INSERT ON record WHEN NEW.kind IN ('spoke', 'disclosed')
    AND EXISTS (SELECT 1 FROM record WHERE session = NEW.session
    AND kind IN ('silenced', 'ended', 'settled', 'erasing'))
    BEGIN SELECT RAISE(ABORT, 'session is settled'); END;""",
    """-- The one change: what was said and heard in a session that is over may be forgotten, its loss never.
CREATE TRIGGER never_changed BEFORE UPDATE ON record WHEN NOT (
    OLD.salt IS NOT NULL AND NEW.salt IS NULL AND OLD.kind IN ('began', 'spoke', 'moved', 'sampled')
    AND NEW.sequence = OLD.sequence AND NEW.session = OLD.session AND NEW.kind = OLD.kind
    AND NEW.number = OLD.number AND NEW.loss IS OLD.loss AND NEW.digest = OLD.digest
    AND EXISTS (SELECT 1 FROM record WHERE session = OLD.session AND kind IN ('ended', 'settled')))
    BEGIN SELECT RAISE(ABORT, 'append only'); END;""",
    # A row without salt has lost its data. A message that was inserted like that could never be sent again.
    """CREATE TRIGGER born_whole BEFORE INSERT ON record WHEN NEW.salt IS NULL
    BEGIN SELECT RAISE(ABORT, 'append only'); END;""",
    """CREATE TRIGGER never_removed BEFORE DELETE ON record BEGIN SELECT RAISE(ABORT, 'append only'); END;""",
)
TABLES = f"""
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {VERSION};
BEGIN;
CREATE TABLE ledger (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    generation BLOB NOT NULL CHECK (typeof(generation) = 'blob' AND length(generation) = 16)
);
CREATE TRIGGER one_identity BEFORE UPDATE ON ledger BEGIN SELECT RAISE(ABORT, 'append only'); END;
{RECORD}{"".join(RULES)}{CARRIED}"""

COMPLAINTS = {
    "record.number": "it has one of this kind already, and a second must never exist. Repeat the first",
    "loss not reserved": "the loss of a session must be reserved before it begins",
    "session not begun": "a session must begin before a message is sent in it",
    "session is settled": "the session is settled, so the agent must not send anything more in it",
}

FORGETTABLE = ("began", "spoke", "moved", "sampled")
"""Rows whose data can be removed once their session is over: states, or states with noise."""
SAID = ("spoke", "disclosed")
"""Kinds with messages of which there must never be two: the guards count them before they are sent."""


class Capped(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The owner's cap on the loss of one value.

    It covers values up to `adjacency` apart; any two values if that is infinite. `hides` is the change of the
    readings that a series must hide, like "step:2". With it the owner accepts that the cap counts the loss of
    a series for that change only. It is empty if no series is accepted. `delta` is the cap on the sum of the
    failure probabilities of all series.
    """

    value: str
    adjacency: float
    cap: float
    hides: str = ""
    delta: float = 0.0


class Reserved(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The largest loss of a session, reserved for one value.

    It is for the session's own adjacency. `diameter` is how far apart two values can be after clamping to the
    session's range. `expires` is when the session ends, in seconds since 1970 (UTC); then the loss of
    messages that were not sent is released. Without it the loss stays reserved until the session is settled.
    `at` is the time of the reservation, for caps per window.
    A series says what it `hides`, and its failure probability `delta`; it has no `at`, and counts in every
    window until its expiry is that long ago.
    """

    value: str
    adjacency: float
    diameter: float
    planned: float
    expires: int | None = None
    at: float | None = None
    hides: str = ""
    delta: float = 0.0


class SpentSum(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """The total loss of sessions of one kind that began around one time.

    `said` · 2^`shift` is the exact sum in the units of `tacit.core.protocol.exact_loss`; `said` is
    hexadecimal. `at` is when the last of them was begun, so a window counts all of them as long as it counts
    the last.
    """

    value: str
    adjacency: float
    diameter: float
    at: float
    sessions: int
    said: str
    shift: int

    @property
    def units(self) -> int:
        """The exact sum, as a whole number."""
        return int(self.said, 16) << self.shift


class Carried(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept of sessions whose rows were dropped.

    No session that expires at or before `horizon` may begin: it could be one that was dropped, and then its
    noise would be drawn a second time.
    """

    horizon: int
    sums: tuple[SpentSum, ...]


def in_digits(units: int) -> tuple[str, int]:
    """Return `said` and `shift` of an exact sum."""
    # Most bits of such a sum are zeros at the end; without them it takes far fewer digits.
    shift = max((units & -units).bit_length() - 1, 0)
    return f"{units >> shift:x}", shift


encode_carried: Callable[[Carried], bytes] = msgspec.msgpack.Encoder().encode
# Made here and not by the threads that open ledgers: see `protocol.schema`.
decode_carried: Callable[[bytes], Carried] = msgspec.msgpack.Decoder(Carried).decode
decode_capped: Callable[[bytes], Capped] = msgspec.msgpack.Decoder(Capped).decode
decode_reserved: Callable[[bytes], Reserved] = msgspec.msgpack.Decoder(Reserved).decode


def leaf(salt: bytes, data: bytes) -> bytes:
    """Return the hash of a row's data that the chain contains.

    The salt makes it safe to keep the hash after the data was removed: without a salt, the few possible
    values of a state could be tried until one fits.
    """
    return hashlib.sha256(b"tacit row\0" + salt + data).digest()


def digest(before: bytes, row: tuple[int, bytes, str, int, float | None, bytes]) -> bytes:
    """Return the digest of a row that follows the digest `before`.

    The row has its `leaf` in the place of its data.
    """
    return hashlib.sha256(before + msgspec.msgpack.encode(row)).digest()


def carried_digest(before: bytes, data: bytes) -> bytes:
    """Return the digest of carried sums that follow the digest `before`."""
    return hashlib.sha256(b"tacit carried\0" + before + data).digest()


def first_digest(generation: bytes) -> bytes:
    """Return the digest that the first row follows."""
    return hashlib.sha256(b"tacit ledger 2\0" + generation).digest()
