"""Invitations: a line of text with which one agent can enrol, once.

The line holds the hub's addresses, the fingerprint of its authority's key, a name or a pattern of names, when
it expires, and a secret. Anyone with the line can enrol under such a name, so send it over a private channel.
The hub stores only a hash of the secret.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import final

import msgspec

from tacit.base.errors import InputError
from tacit.core.protocol.canonical import UNREADABLE
from tacit.core.protocol.roster import Member, require_name
from tacit.core.protocol.session import LAST_EXPIRY
from tacit.live.transport.connection_diagnosis import require_endpoint

MARK = "tacit-invitation-1-"
_PATTERN = re.compile(r"[A-Za-z0-9*][A-Za-z0-9._*-]{0,63}")
_NUMBER = re.compile(r"[0-9a-f]{12}")
_CHECK, _AUTHORITY, _SECRET = 4, 32, 16
_MOST_ADDRESSES = 16
_ANY_KEY = bytes([2]) + bytes(31)  # of a member that is made to see whether its name may be used


@final
class Invitation(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What an invitation says.

    Attributes
    ----------
    address : str
        The hub's endpoint; several, with blanks between, if it runs on several hosts.
    authority : bytes
        SHA-256 of the authority's public key.
    pattern : str
        The name, or a pattern such as ``meter-*``: then the agent chooses its name.
    expires : int
        Nobody enrols with it from then on, in seconds since 1970 (UTC).
    number : str
        Identifies the invitation at the hub; not secret.
    """

    address: str
    authority: bytes
    pattern: str
    expires: int
    number: str
    secret: bytes

    def __repr__(self) -> str:
        return f"<Invitation {self.number} for {self.pattern}>"

    @property
    def addresses(self) -> tuple[str, ...]:
        """The hub's endpoints, to be tried in turn."""
        return tuple(self.address.split(" "))

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the authority's key, as `tacit keys show` prints it."""
        return self.authority.hex()

    @property
    def expiry(self) -> str:
        """When it expires, for people."""
        return f"{datetime.fromtimestamp(self.expires, UTC):%Y-%m-%d %H:%M} UTC"

    def text(self) -> str:
        """Return the one line."""
        data = msgspec.msgpack.encode(self)
        check = hashlib.sha256(data).digest()[:_CHECK]
        return MARK + base64.urlsafe_b64encode(check + data).rstrip(b"=").decode()

    @classmethod
    def parse(cls, text: str) -> Invitation:
        """Read the line; refuse an incomplete one without showing it."""
        line = text.strip()
        try:
            if not line.startswith(MARK):
                raise ValueError
            coded = line.removeprefix(MARK).encode("ascii")
            data = base64.b64decode(coded + b"=" * (-len(coded) % 4), altchars=b"-_", validate=True)
            if hashlib.sha256(data[_CHECK:]).digest()[:_CHECK] != data[:_CHECK]:
                raise ValueError
            found = msgspec.msgpack.decode(data[_CHECK:], type=cls)
            found._require_possible()
        except (ValueError, *UNREADABLE):
            raise InputError(
                f"an invitation is one line that begins with {MARK}, and this is not a whole one: copy all "
                "of it."
            ) from None
        return found

    def _require_possible(self) -> None:
        """Refuse what no hub writes; the checksum finds mistakes, and no lies."""
        require_addresses(self.addresses)
        require_pattern(self.pattern)
        sizes = len(self.authority), len(self.secret)
        if sizes != (_AUTHORITY, _SECRET) or not _NUMBER.fullmatch(self.number):
            raise ValueError
        if not 0 < self.expires <= LAST_EXPIRY:
            raise ValueError


def new_invitation(address: str, authority: str, pattern: str, expires: int) -> Invitation:
    """Make an invitation with a fresh secret."""
    require_addresses(address.split(" "))
    require_pattern(pattern)
    return Invitation(
        address,
        bytes.fromhex(authority),
        pattern,
        expires,
        secrets.token_hex(6),
        secrets.token_bytes(_SECRET),
    )


def require_addresses(addresses: Sequence[str]) -> None:
    """Refuse what cannot be the endpoints of one hub."""
    for address in addresses:
        require_endpoint(address)
    if not 0 < len(set(addresses)) == len(addresses) <= _MOST_ADDRESSES:
        raise InputError(
            f"a hub has 1 to {_MOST_ADDRESSES} addresses, each given once, got {len(addresses)}."
        )


def secret_digest(secret: bytes) -> bytes:
    """Return the hash of a secret that a hub stores."""
    return hashlib.sha256(b"tacit invitation 1\0" + secret).digest()


def require_pattern(pattern: str) -> None:
    """Refuse a pattern that no valid name matches."""
    if "*" not in pattern:
        Member(pattern, _ANY_KEY)
    elif not _PATTERN.fullmatch(pattern):
        raise InputError(
            "a pattern of names must be 1 to 64 letters, digits, dots, underscores, dashes and stars (ASCII),"
            f" got {pattern!r}."
        )


def require_invited(name: str, pattern: str) -> None:
    """Refuse a name that an invitation is not for, or that no member may have."""
    require_name(name, "an agent's name")
    Member(name, _ANY_KEY)
    if not fnmatchcase(name, pattern):
        raise InputError(f"the invitation is for {pattern}, and not for {name}: ask for another one.")
