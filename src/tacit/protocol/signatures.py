"""Ed25519 by libsodium, for signing and for checking, so that there is one rule about odd signatures.

The rule is libsodium's, which is stricter than RFC 8032: S must be below the group's order (no second
signature is made from a first), and neither the key nor R may be of small order or in a second encoding
(nobody can make a signature that fits many messages). What one member accepts, every other accepts.

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
    """Whether the holder of this key has signed these bytes. Lets other threads run meanwhile."""
    if len(public_key) != _KEY_BYTES or len(signature) != SIGNATURE_BYTES:
        return False
    try:
        crypto_sign_open(signature + data, public_key)
    except CryptoError:
        return False
    return True
