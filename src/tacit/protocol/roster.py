"""The members of a session: safe names and valid keys."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from tacit.errors import ParameterError

COORDINATOR = -1
"""The coordinator's number; agents are numbered from 0 in the order of the roster."""

KEY_BYTES = 32
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
