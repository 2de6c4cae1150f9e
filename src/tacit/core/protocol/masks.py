"""Masks, which an agent adds to its number and keepers subtract again.

An agent and a keeper agree on a secret without exchanging messages: each has an ephemeral X25519 key, made
for one session and signed with its Ed25519 identity. From the secret both compute the same stream of bytes
for every update. Without the secret a masked number cannot be told from a random one.

    k_ij  = HKDF-SHA256(X25519(i, j), salt = session id, info = domain, roles, names, identities, X25519 keys)
    mask  = SHAKE-256(domain, k_ij, direction, u, salt), one number of w bytes after the other

Names and keys are in `info`, so that an agent that copies another's public key gets another mask. Every
message has a random salt of 32 bytes, which is in all its masks. So an agent that was rolled back never uses
one mask for two messages, which would reveal their difference. All inputs of SHAKE-256 have fixed lengths, so
different inputs are different bytes.

Nothing here draws randomness: the caller passes the private keys.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tacit.base.errors import InputError

KEY_BYTES: Final = 32
UP: Final = b"\x01"
"""The direction of all masks so far: from an agent towards the sum."""
_AGREEMENT: Final = b"tacit keeper agreement v1\0"
_STREAM: Final = b"tacit keeper mask v1\0"
_P = 2**255 - 19
# The u-coordinates of the points of order 8. With 0, 1 and p − 1 these are all of small order below p; larger
# encodings of them are refused for their size.
_ORDER_8 = (
    0x00B8495F16056286FDB1329CEB8D09DA6AC49FF1FAE35616AEB8413B7C7AEBE0,
    0x57119FD0DD4E22D8868E1C58C45C44045BEF839C55B1D0B1248C50A3BC959C5F,
)
_SMALL_ORDER = {0, 1, _P - 1, *_ORDER_8}
_FEW = 4
"""Up to this many components, Python integers are faster than arrays."""


@final
@dataclass(frozen=True)
class Party:
    """A member that shares a mask: name and public keys.

    `identity` is its Ed25519 key, `ephemeral` its X25519 key.
    """

    name: str
    identity: bytes
    ephemeral: bytes


def is_usable(public: bytes) -> bool:
    """Whether this is an X25519 public key that is safe to use.

    It must be in its one encoding (below 2^255 − 19), and not of small order. With a key of small order
    everyone would know the secret: it is zero, whatever the other key is.
    """
    number = int.from_bytes(public, "little")
    return len(public) == KEY_BYTES and number < _P and number not in _SMALL_ORDER


def public_key(private: bytes) -> bytes:
    """Return the X25519 public key of a private one."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def agree(private: bytes, theirs: bytes, *, session: bytes, agent: Party, keeper: Party) -> bytes:
    """Return k_ij, the secret of an agent and a keeper in one session.

    `private` is the ephemeral key of one of the two, `theirs` the public one of the other. Both get the same.
    """
    if not is_usable(theirs):
        raise InputError(
            "an ephemeral key must be an X25519 public key in its one encoding, and not of small order."
        )
    # `cryptography` refuses an output of zeros as well, which only keys of small order have.
    shared = X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(theirs))
    # Lengths come before the names, so that no two pairs of names give the same bytes.
    info = b"".join(
        (
            _AGREEMENT,
            _prefixed(b"agent"),
            _prefixed(b"keeper"),
            _prefixed(agent.name.encode()),
            _prefixed(keeper.name.encode()),
            agent.identity,
            keeper.identity,
            agent.ephemeral,
            keeper.ephemeral,
        )
    )
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=session, info=info).derive(shared)


def _prefixed(data: bytes) -> bytes:
    return len(data).to_bytes(2, "big") + data


def mask(key: bytes, update: int, salt: bytes, length: int) -> bytes:
    """Return `length` bytes that look random without the key.

    The inputs must differ for every message. Two messages with one mask reveal their difference.
    """
    return hashlib.shake_256(_STREAM + key + UP + update.to_bytes(8, "big") + salt).digest(length)


# ---- whole numbers modulo 2^(8·width), big-endian, one after the other ---------------------------------


def packed(numbers: Sequence[int], width: int) -> bytes:
    """Write whole numbers modulo 2^(8·width)."""
    low = (1 << 8 * width) - 1
    return b"".join([(number & low).to_bytes(width, "big") for number in numbers])


def centred(data: bytes, width: int) -> tuple[int, ...]:
    """Read numbers as the ones nearest to zero.

    They are from −2^(8·width−1) to 2^(8·width−1) − 1.
    """
    return tuple(int.from_bytes(data[k : k + width], "big", signed=True) for k in range(0, len(data), width))


def total(parts: Iterable[bytes], width: int, *, minus: Iterable[bytes] = ()) -> bytes:
    """Add vectors of numbers and subtract others, modulo 2^(8·width)."""
    parts, minus = list(parts), list(minus)
    length = len((parts or minus)[0])
    if length <= _FEW * width:
        return _total_of_few(parts, minus, width, length)
    # Bytes are added column by column; carries are settled at the end. 2^31 vectors would fit.
    columns = np.zeros((length // width, width), dtype=np.int64)
    for part in parts:
        columns += np.frombuffer(part, dtype=np.uint8).reshape(columns.shape)
    for part in minus:
        columns -= np.frombuffer(part, dtype=np.uint8).reshape(columns.shape)
    carry = np.zeros(len(columns), dtype=np.int64)
    result = np.empty(columns.shape, dtype=np.uint8)
    for k in range(width - 1, -1, -1):
        column = columns[:, k] + carry
        result[:, k] = column & 0xFF
        carry = column >> 8  # rounds down, so a borrow is a carry of −1
    return result.tobytes()


def _total_of_few(parts: list[bytes], minus: list[bytes], width: int, length: int) -> bytes:
    read = int.from_bytes
    sums = [
        sum([read(part[k : k + width], "big") for part in parts])
        - sum([read(part[k : k + width], "big") for part in minus])
        for k in range(0, length, width)
    ]
    return packed(sums, width)
