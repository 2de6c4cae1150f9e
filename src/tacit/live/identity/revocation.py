"""Revocation: an authority's signed list of certificates and keys.

Those in the list are no longer valid.

The list is an X.509 certificate revocation list (RFC 5280), so other programs can read it. It has a number
that only rises and a date. Each entry names a certificate by its serial number. Where the signing key itself
is revoked, the entry also names the agent and the key, as certificates do (`tacit:agent:NAME:KEY`). There is
one such entry for a key, with the serial number of its newest certificate, and it counts for all of them.

Only `read_revocations` uses the disk.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.serialization import Encoding

from tacit.base.errors import FileError
from tacit.base.files import read_public
from tacit.live.identity.certificates import Authority, Certificate, subject_of
from tacit.live.identity.keys import key_text, refusing

_ABOUT = x509.ObjectIdentifier("2.25.164519467812957604838203790437018493277")
"""Identifier of the extension that names agent and key: random (ITU-T X.667), used only by tacit."""
MARK = b"-----BEGIN X509 CRL-----"


@final
@dataclass(frozen=True)
class Revoked:
    """A revoked certificate; with `key`, all of that signing key."""

    serial: int
    since: datetime
    name: str
    key: bytes | None


@final
@dataclass(frozen=True)
class Revocations:
    """An authority's list, checked: public.

    Attributes
    ----------
    number : int
        Lists are numbered. A list with a lower number than one seen before is refused.
    """

    document: x509.CertificateRevocationList = field(repr=False)
    number: int
    entries: tuple[Revoked, ...]

    @classmethod
    def parse(cls, data: bytes, authority: Certificate, what: str) -> Revocations:
        """Read a list, and check that the authority signed it."""
        with refusing(what, "is not a list of revoked certificates"):
            document = x509.load_pem_x509_crl(data)
            key = authority.document.public_key()
            signed = isinstance(key, EllipticCurvePublicKey) and document.is_signature_valid(key)
            number = document.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
            entries = tuple(map(_entry, document))
            _ = document.last_update_utc
        if not signed:
            raise FileError(
                f"{what} must be signed by the authority of this directory ({authority.name}), and is not: "
                "ask the authority for its list."
            )
        return cls(document, number, entries)

    @property
    def made(self) -> datetime:
        """When the list was made."""
        return self.document.last_update_utc

    def pem(self) -> bytes:
        """Return the list in PEM format."""
        return self.document.public_bytes(Encoding.PEM)

    def entry(self, certificate: Certificate) -> Revoked | None:
        """Return the entry that revokes a certificate, if there is one."""
        key = None if certificate.subject is None else certificate.subject.public_key
        found = self._by_serial.get(certificate.serial)
        return found if found is not None or key is None else self._by_key.get(key)

    def revokes_key(self, key: bytes) -> bool:
        """Whether a signing key is revoked, in all its certificates."""
        return key in self._by_key

    # A hub looks up all connected members every second, in a list of any length.
    @cached_property
    def _by_serial(self) -> dict[int, Revoked]:
        return {entry.serial: entry for entry in reversed(self.entries)}

    @cached_property
    def _by_key(self) -> dict[bytes, Revoked]:
        return {entry.key: entry for entry in reversed(self.entries) if entry.key is not None}


def _entry(entry: x509.RevokedCertificate) -> Revoked:
    """Read one entry; without our extension it revokes only the certificate."""
    name, key = "", None
    for extension in entry.extensions:
        if extension.oid == _ABOUT and isinstance(extension.value, x509.UnrecognizedExtension):
            name, key = subject_of(extension.value.value.decode("ascii"))
    return Revoked(entry.serial_number, entry.revocation_date_utc, name, key)


def revoked_list(
    authority: Authority, entries: Iterable[Revoked], number: int, *, now: datetime | None = None
) -> Revocations:
    """Sign a list of revoked certificates.

    It is valid as long as its authority, or until there is a list with a higher number.
    """
    entries, now = tuple(entries), now or datetime.now(UTC)
    # All at once: a builder copies its whole list for each certificate that is added.
    builder = (
        x509.CertificateRevocationListBuilder(revoked_certificates=[_written(entry) for entry in entries])
        .issuer_name(authority.certificate.document.subject)
        .last_update(now)
        .next_update(max(authority.certificate.expires, now))
        .add_extension(x509.CRLNumber(number), critical=False)
    )
    return Revocations(builder.sign(authority.key, hashes.SHA256()), number, entries)


def _written(entry: Revoked) -> x509.RevokedCertificate:
    made = x509.RevokedCertificateBuilder().serial_number(entry.serial).revocation_date(entry.since)
    if entry.key is not None:
        about = f"tacit:agent:{entry.name}:{key_text(entry.key)}".encode("ascii")
        made = made.add_extension(x509.UnrecognizedExtension(_ABOUT, about), critical=False)
    return made.build()


def read_revocations(path: Path, authority: Certificate) -> Revocations | None:
    """Read the list at a path, if there is one."""
    return Revocations.parse(read_public(path), authority, str(path)) if path.exists() else None


def require_newer(found: Revocations, known: Revocations | None, what: str) -> None:
    """Refuse a list that is not newer than the known one.

    With an older list a revoked key would be valid again. The known list itself is accepted.
    """
    if known is None or found.number > known.number or found.pem() == known.pem():
        return
    raise FileError(
        f"{what} has number {found.number}, made {found.made:%Y-%m-%d %H:%M} UTC, but list {known.number} "
        f"(made {known.made:%Y-%m-%d %H:%M} UTC) is known already: ask the authority for its newest list."
    )
