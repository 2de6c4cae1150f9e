"""Certificates: who may connect, and which signing key a name has.

TLS uses ECDSA keys on P-256, which every TLS library supports. Messages are signed with Ed25519 keys. A
certificate contains both: the TLS key, and in a URI `tacit:agent:NAME:KEY` the name and its signing key. So
one signature of the authority covers all of them. A certificate contains a host name only if the authority
allowed the agent to listen there.

Nothing here touches the disk.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tacit.base.arguments import plain
from tacit.base.errors import InputError, NotCurrent
from tacit.core.protocol.roster import require_name
from tacit.core.protocol.signatures import is_signed, signer
from tacit.live.identity.keys import key_bytes, key_text, public_der, refuse, refusing, tls_key

LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Hosts of a coordinator on the same machine."""
SKEW = timedelta(hours=1)
"""Certificates are valid from this long before they are made, because clocks differ."""

_HOST = re.compile(
    r"(?=.{1,253}\Z)[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*"
)
_URI = re.compile(r"tacit:agent:([A-Za-z0-9._-]{1,64}):([A-Za-z0-9_-]{43})")
_PROOF = re.compile(rb"-----BEGIN TACIT PROOF-----\s+([A-Za-z0-9+/=\s]{1,200})-----END TACIT PROOF-----")
_PROOF_OF = b"tacit certificate request 1\0"
_LONGEST = 36_500


@dataclass(frozen=True)
class CertificateSubject:
    """What a request asks for and a certificate grants."""

    name: str
    public_key: bytes
    hosts: tuple[str, ...]

    def __post_init__(self) -> None:
        require_name(self.name, "an agent's name")
        for host in self.hosts:
            _alternative(host)

    @property
    def key(self) -> str:
        """The public signing key as text."""
        return key_text(self.public_key)

    def x509_name(self) -> x509.Name:
        """The name in the form that certificates use."""
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.name)])

    def alternatives(self) -> x509.SubjectAlternativeName:
        """Everything else that the certificate says about the agent."""
        about = x509.UniformResourceIdentifier(f"tacit:agent:{self.name}:{self.key}")
        return x509.SubjectAlternativeName([about, *map(_alternative, self.hosts)])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    if not _HOST.fullmatch(host):
        raise InputError(f"a host must be a host name or an IP address, got {plain(host)!r}.")
    return x509.DNSName(host)


def _subject(signed: x509.Certificate | x509.CertificateSigningRequest, what: str) -> CertificateSubject:
    """Read who a certificate or request is about; both have the same form."""
    with refusing(what, "does not name its subject"):
        names = signed.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        listed = signed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        about = [_URI.fullmatch(uri) for uri in listed.get_values_for_type(x509.UniformResourceIdentifier)]
    # Exactly one, and the same name in both places: tools show the common name, and tacit uses the URI.
    if len(about) != 1 or about[0] is None or [name.value for name in names] != [about[0][1]]:
        refuse(what, "must name one agent and its signing key")
    hosts = (str(one.value) for one in listed if isinstance(one, x509.DNSName | x509.IPAddress))
    return CertificateSubject(about[0][1], key_bytes(about[0][2]), tuple(hosts))


def subject_of(uri: str) -> tuple[str, bytes]:
    """Read name and signing key from the URI of a certificate."""
    found = _URI.fullmatch(uri)
    if found is None:
        raise InputError(f"must be like tacit:agent:NAME:KEY, got {uri!r}.")
    return found[1], key_bytes(found[2])


def _require_shown(authority: x509.Certificate, what: str) -> None:
    """Refuse an authority whose name could be misread where it is shown."""
    names = [n.value for n in authority.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    try:
        require_name(names[0] if len(names) == 1 else None, "an authority's name")
    except InputError:
        refuse(what, "must give the authority one plain name")


@final
@dataclass(frozen=True)
class Certificate:
    """A parsed certificate of an agent, or of an authority; public.

    `subject` is None for an authority.
    """

    document: x509.Certificate = field(repr=False)
    subject: CertificateSubject | None

    @classmethod
    def parse(cls, certificate: x509.Certificate, what: str) -> Certificate:
        """Parse a certificate; it is an authority's if it says so."""
        with refusing(what, "is not a certificate that tacit can read"):
            try:
                authority = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
            except x509.ExtensionNotFound:
                authority = False
            if authority:
                _require_shown(certificate, what)
            made = cls(certificate, None if authority else _subject(certificate, what))
            # All that is read later: what cannot be read is refused here, and nowhere else.
            _ = made.name, made.serial, made.begins, made.expires, made.key_fingerprint
        return made

    @property
    def name(self) -> str:
        """The agent's or the authority's name."""
        return str(self.document.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)

    @property
    def serial(self) -> int:
        """The number from its authority, by which it can be revoked."""
        return self.document.serial_number

    @property
    def begins(self) -> datetime:
        """When it becomes valid."""
        return self.document.not_valid_before_utc

    @property
    def expires(self) -> datetime:
        """When it expires."""
        return self.document.not_valid_after_utc

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate, to compare over another channel."""
        return self.document.fingerprint(hashes.SHA256()).hex()

    @property
    def key_fingerprint(self) -> str:
        """SHA-256 of the TLS key alone.

        It stays the same when the certificate is renewed with that key.
        """
        return hashlib.sha256(public_der(self.document.public_key())).hexdigest()

    def renewal_due(self, now: datetime | None = None) -> bool:
        """Whether less than a third of its life is left."""
        return self.expires - (now or datetime.now(UTC)) < (self.expires - self.begins) / 3

    @property
    def renewal(self) -> str:
        """How its owner gets the next one."""
        if self.subject is None:
            return "extend it with `tacit keys authority --renew`"
        return "let its authority sign its request.pem again (`tacit keys sign`)"

    def pem(self) -> bytes:
        """Return the certificate in PEM format."""
        return self.document.public_bytes(Encoding.PEM)

    def issued_by(self, authority: Certificate) -> bool:
        """Whether the authority's key signed this certificate."""
        try:
            self.document.verify_directly_issued_by(authority.document)
        except (ValueError, TypeError, InvalidSignature):
            return False
        return authority.subject is None

    def same_key(self, other: Certificate) -> bool:
        """Whether both have the same TLS key."""
        return public_der(self.document.public_key()) == public_der(other.document.public_key())

    def require_current(self, what: str, now: datetime | None = None) -> None:
        """Refuse a certificate that is not valid yet, or has expired."""
        now = now or datetime.now(UTC)
        if now >= self.expires:
            raise NotCurrent(f"{what} expired on {self.expires:%Y-%m-%d %H:%M} UTC: {self.renewal}.")
        if now < self.begins:
            raise NotCurrent(
                f"{what} is not valid before {self.begins:%Y-%m-%d %H:%M} UTC, and this machine's clock says "
                f"{now:%Y-%m-%d %H:%M} UTC: set the clock, or wait."
            )


@final
@dataclass(frozen=True)
class Request:
    """A signing request whose sender proved that it has both private keys."""

    subject: CertificateSubject
    tls_key: EllipticCurvePublicKey = field(repr=False)

    @staticmethod
    def make(subject: CertificateSubject, tls: EllipticCurvePrivateKey, signing: Ed25519PrivateKey) -> bytes:
        """Return a request as a file's content: public, and signed with both keys."""
        request = (
            x509.CertificateSigningRequestBuilder()
            .subject_name(subject.x509_name())
            .add_extension(subject.alternatives(), critical=False)
            .sign(tls, hashes.SHA256())
        )
        proof = signer(signing)(_PROOF_OF + request.public_bytes(Encoding.DER))
        head, tail = b"-----BEGIN TACIT PROOF-----\n", b"-----END TACIT PROOF-----\n"
        return request.public_bytes(Encoding.PEM) + head + base64.encodebytes(proof) + tail

    @classmethod
    def parse(cls, data: bytes, what: str) -> Request:
        """Read a request and check both proofs."""
        with refusing(what, "is not a certificate request with keys that tacit uses"):
            request = x509.load_pem_x509_csr(data)
            key, sound = request.public_key(), request.is_signature_valid
        if not isinstance(key, EllipticCurvePublicKey) or not isinstance(key.curve, SECP256R1):
            refuse(what, "must be for an ECDSA key on P-256")
        subject = _subject(request, what)
        # The request's own signature proves the TLS key only. Without the second proof anyone could have the
        # signing key of another agent certified under a name of their own.
        if not sound or not _proved(subject, request, data):
            refuse(what, "does not prove that its sender holds the keys in it")
        return cls(subject, key)


def _proved(subject: CertificateSubject, request: x509.CertificateSigningRequest, data: bytes) -> bool:
    found = _PROOF.search(data)
    if found is None:
        return False
    try:
        proof = base64.b64decode(b"".join(found[1].split()), validate=True)
    except ValueError:
        return False
    return is_signed(subject.public_key, _PROOF_OF + request.public_bytes(Encoding.DER), proof)


@final
@dataclass(frozen=True)
class Authority:
    """An authority: a TLS key and its certificate, to decide who may connect."""

    key: EllipticCurvePrivateKey = field(repr=False)
    certificate: Certificate

    @classmethod
    def make(
        cls,
        name: str,
        days: float = 365,
        *,
        key: EllipticCurvePrivateKey | None = None,
        now: datetime | None = None,
    ) -> Authority:
        """Make an authority, with a new key unless one is given.

        With the key of an old authority, certificates that it signed stay valid.
        """
        require_name(name, "an authority's name")
        key = key or tls_key()
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = dict.fromkeys(_USAGES, False) | {"key_cert_sign": True, "crl_sign": True}
        begins, ends = _validity(days, now)
        made = (
            _builder(subject, subject, key.public_key(), begins, ends)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.KeyUsage(**usage), critical=True)
            .sign(key, hashes.SHA256())
        )
        return cls(key, Certificate(made, None))

    def sign(
        self, request: Request, days: float = 90, *, listen: bool = False, now: datetime | None = None
    ) -> Certificate:
        """Sign a request, at most until this authority itself expires.

        With a certificate for a host name an agent could pose as the server there. So a request for host
        names is refused unless `listen`.
        """
        subject = request.subject
        if subject.hosts and not listen:
            raise InputError(
                f"{subject.name} asks to listen at {', '.join(subject.hosts)}: if it may, sign with "
                "--listen; if not, let it ask again without --host."
            )
        if now is None:
            self.certificate.require_current("the authority's certificate")
        begins, ends = _validity(days, now)
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if subject.hosts:
            purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
        usage = dict.fromkeys(_USAGES, False) | {"digital_signature": True}
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        made = (
            _builder(
                subject.x509_name(),
                self.certificate.document.subject,
                request.tls_key,
                max(begins, self.certificate.begins),
                min(ends, self.certificate.expires),
            )
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.KeyUsage(**usage), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(subject.alternatives(), critical=False)
            .add_extension(issuer, critical=False)
            .sign(self.key, hashes.SHA256())
        )
        return Certificate(made, subject)


_USAGES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePublicKey, begins: datetime, ends: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def require_days(days: float) -> None:
    """Refuse a lifetime that no certificate may have."""
    if not 0 < days <= _LONGEST:
        raise InputError(
            f"a certificate must be valid for more than 0 and at most {_LONGEST:,} days, got {days:g}."
        )


def _validity(days: float, now: datetime | None) -> tuple[datetime, datetime]:
    require_days(days)
    now = now or datetime.now(UTC)
    return now - SKEW, now + timedelta(days=days)


def read_certificates(data: bytes, what: str) -> list[Certificate]:
    """Read all certificates in a file, in their order; at least one."""
    with refusing(what, "does not hold a certificate"):
        found: Sequence[x509.Certificate] = x509.load_pem_x509_certificates(data)
    return [Certificate.parse(certificate, what) for certificate in found]
