"""Keys in the formats of files, certificates and sessions."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from tacit.base.errors import FileError, InputError
from tacit.core.protocol.roster import require_key


def key_text(public_key: bytes) -> str:
    """Return a public signing key as 43 characters, as in session files."""
    return base64.urlsafe_b64encode(public_key).rstrip(b"=").decode()


def key_bytes(text: str, what: str = "a public key") -> bytes:
    """Read the public half of a signing key, 32 bytes."""
    raw = hash_bytes(text, what)
    require_key(raw, what)
    return raw


def hash_bytes(text: str, what: str) -> bytes:
    """Read 32 bytes from 43 characters."""
    try:
        raw = base64.b64decode(text.encode("ascii") + b"=", altchars=b"-_", validate=True)
    except ValueError:
        raw = b""
    # The last character has two unused bits. They must be zero; otherwise one key would have four texts.
    if len(text) != 43 or key_text(raw) != text:
        raise InputError(f"{what} must be 43 characters of URL-safe base64, got {text!r}.")
    return raw


def refuse(what: str, why: str) -> NoReturn:
    """Refuse a file of keys or certificates in one sentence."""
    raise FileError(f"{what} {why}: make it again with `tacit keys`.")


@contextmanager
def refusing(what: str, why: str) -> Iterator[None]:
    """Refuse bytes in one sentence, whatever `cryptography` raises for them.

    It reads lazily, and has errors of its own for algorithms and names that it does not know.
    """
    try:
        yield
    except FileError:
        raise  # a sentence of our own
    except Exception:
        refuse(what, why)


def tls_key() -> EllipticCurvePrivateKey:
    """Make a private key for TLS."""
    return generate_private_key(SECP256R1())


def private_pem(key: EllipticCurvePrivateKey | Ed25519PrivateKey) -> bytes:
    """Return a private key in PEM format."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def public_der(key: object) -> bytes:
    """Return a public key as bytes that can be compared."""
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)  # type: ignore[attr-defined, no-any-return]


def read_tls_key(data: bytes, what: str) -> EllipticCurvePrivateKey:
    """Read a private key for TLS."""
    key = _private(data, what)
    if not isinstance(key, EllipticCurvePrivateKey) or not isinstance(key.curve, SECP256R1):
        refuse(what, "must hold an ECDSA key on P-256")
    return key


def read_signing_key(data: bytes, what: str) -> Ed25519PrivateKey:
    """Read a private key for signatures."""
    key = _private(data, what)
    if not isinstance(key, Ed25519PrivateKey):
        refuse(what, "must hold an Ed25519 key")
    return key


def _private(data: bytes, what: str) -> object:
    try:
        return load_pem_private_key(data, password=None)
    except TypeError:
        refuse(what, "is locked with a password, which tacit cannot ask for")
    except Exception:  # cryptography raises errors of its own for algorithms it does not know
        refuse(what, "does not hold a private key")
