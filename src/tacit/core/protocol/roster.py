r"""The members of a session: safe names, valid keys, and one root for all.

A session with a server commits to its roster by a Merkle tree (`merkle`). Leaf i is

    "tacit roster v1\0" | MessagePack [i, name, key, own parameters or nil]

where the own parameters are a sorted map of those that differ between agents: a real number for each word,
such as mixing. The session has the number of agents and the root. So an agent needs only its leaf and its
path to know that it is the one member with this number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final, overload

import msgspec

from tacit.base.errors import InputError, ParameterError
from tacit.core.protocol.merkle import is_in_tree

COORDINATOR = -1
"""The coordinator's number; agents are numbered from 0 in the order of the roster."""

KEY_BYTES = 32
_LEAF: Final = b"tacit roster v1\0"
_SORTED = msgspec.msgpack.Encoder(order="deterministic")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_RESERVED = {"coordinator", "all"}
# Edwards y of the points of small order (RFC 8032 numbers, little-endian, sign bit cleared), in every
# encoding below 2^255. Under such a key one signature fits many messages, so it proves nothing.
_P = 2**255 - 19
_ORDER_8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL_ORDER = {0, 1, _P - 1, _P, _P + 1, _ORDER_8, _P - _ORDER_8}


@final
@dataclass(frozen=True)
class Member:
    """One agent of the roster: its name, and its Ed25519 public key.

    Names are 1 to 64 ASCII letters, digits, dots, underscores and dashes: they become file names,
    metric labels and parts of network keys.
    """

    name: str
    key: bytes

    def __post_init__(self) -> None:
        require_name(self.name, "an agent's name")
        if self.name.lower() in _RESERVED:
            raise ParameterError(f"an agent cannot be called {self.name!r}: the name is reserved.")
        require_key(self.key, f"the key of agent {self.name}")


def require_name(name: object, what: str) -> None:
    """Refuse a name that is unsafe in a file system, shell or network."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ParameterError(
            f"{what} must be 1 to 64 letters, digits, dots, underscores or dashes (ASCII), and start with "
            f"a letter or digit, got {name!r}."
        )


def require_key(key: object, what: str) -> None:
    """Refuse an Ed25519 public key that is invalid or of small order.

    Under a key of small order anyone could sign.
    """
    if not isinstance(key, bytes) or len(key) != KEY_BYTES:
        raise ParameterError(f"{what} must be the {KEY_BYTES} bytes of an Ed25519 public key.")
    if int.from_bytes(key, "little") & ((1 << 255) - 1) in _SMALL_ORDER:
        raise ParameterError(f"{what} has small order: anyone could sign under it. Make a new key.")


def require_distinct(members: Sequence[Member], coordinator: bytes | None) -> None:
    """Refuse two members with the same name (ignoring case) or key."""
    names: set[str] = set()
    owners: dict[bytes, str] = {} if coordinator is None else {coordinator: "the coordinator"}
    for member in members:
        if member.name.lower() in names:
            raise ParameterError(f"names must differ, also in lower case, and {member.name!r} does not.")
        names.add(member.name.lower())
        if member.key in owners:
            raise ParameterError(
                f"each member must have its own key, but {member.name} has the key of {owners[member.key]}."
            )
        owners[member.key] = member.name


# ---- a roster that is committed to ------------------------------------------------------------------


def roster_leaf(i: int, member: Member, own: Mapping[str, float] | None = None) -> bytes:
    """Return the leaf of agent i, with its own parameters if it has any."""
    return _LEAF + _SORTED.encode([i, member.name, member.key, dict(own) if own else None])


def read_leaf(leaf: bytes) -> tuple[int, Member, dict[str, float]]:
    """Return an agent's number, itself, and its own parameters."""
    try:
        if not leaf.startswith(_LEAF):
            raise InputError("a leaf of a roster must begin with its name.")
        i, name, key, own = msgspec.msgpack.decode(
            leaf[len(_LEAF) :], type=tuple[int, str, bytes, dict[str, float] | None]
        )
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InputError("these bytes are not the leaf of a roster.") from None
    member = Member(name, key)
    if roster_leaf(i, member, own) != leaf:
        raise InputError("a leaf of a roster must be written in its one canonical form, and this one is not.")
    return i, member, own or {}


def require_in_roster(root: bytes, agents: int, i: int, leaf: bytes, path: bytes) -> None:
    """Refuse a leaf that is not that of agent i under the root of a roster."""
    if not is_in_tree(root, leaf, i, agents, path):
        raise InputError(
            f"the roster that the session commits to does not have this agent as number {i} of {agents}: "
            "nothing is sent. Ask for the session again."
        )


@final
@dataclass(frozen=True)
class OneOf(Sequence[Member]):
    """A roster of which only one agent is known, and the root of all.

    Parameters
    ----------
    agents : int
        How many agents there are.
    root : bytes
        The root of the whole roster.
    number, member : int, Member
        The one that is known.
    own : tuple of str
        The words of the parameters that differ between agents.
    """

    agents: int
    root: bytes
    number: int
    member: Member
    own: tuple[str, ...] = ()

    def __len__(self) -> int:
        return self.agents

    @overload
    def __getitem__(self, index: int) -> Member: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Member]: ...

    def __getitem__(self, index: int | slice) -> Member | Sequence[Member]:
        if index != self.number:
            raise ParameterError("only one agent of this roster is known here: ask for the whole roster.")
        return self.member
