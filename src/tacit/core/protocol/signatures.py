"""Ed25519 by libsodium: all members sign and check by the same rules.

libsodium is stricter than RFC 8032. S must be below the group's order, so nobody can make a second signature
from a first. Neither the key nor R may be of small order or in a second encoding, so nobody can make a
signature that fits many messages. If members had different rules, one could accept a frame that another
refuses.

Private keys are read and made by `cryptography`, which also signs certificates and does TLS.
"""

from __future__ import annotations

from collections.abc import Callable

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from nacl.bindings import crypto_sign, crypto_sign_open
from nacl.exceptions import CryptoError

SIGNATURE_BYTES = 64
_KEY_BYTES = 32


def signer(key: Ed25519PrivateKey) -> Callable[[bytes], bytes]:
    """Return a function that signs with this key, 64 bytes."""
    secret = key.private_bytes_raw() + key.public_key().public_bytes_raw()
    return lambda data: crypto_sign(data, secret)[:SIGNATURE_BYTES]


def is_signed(public_key: bytes, data: bytes, signature: bytes) -> bool:
    """Whether this key signed these bytes.

    Releases the interpreter lock meanwhile.
    """
    if len(public_key) != _KEY_BYTES or len(signature) != SIGNATURE_BYTES:
        return False
    try:
        crypto_sign_open(signature + data, public_key)
    except CryptoError:
        return False
    return True
