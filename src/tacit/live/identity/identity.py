"""Keys on disk: made where they are used, and never sent.

An agent makes its own keys and sends a request, which an authority signs.

An agent's directory (mode 700) holds

    signing.key    the Ed25519 key that signs its messages; its public half is in the roster  (mode 600)
    tls.pem        the TLS key and its certificate, in one file so that both change at once  (600)
    next.key       a TLS key without a certificate yet  (600)
    request.pem    the request for the authority to sign; public
    authority.crt  the trusted authority; public
    revoked.crl    the newest known list of revoked certificates; public
    ledgers/       the position of each ledger when this key last sent from it (`key_guard`)
    sessions/      the ledger that this key uses in each session

and an authority's directory `authority.key` (mode 600), `authority.crt` and its register
(`tacit.live.identity.register`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import RLock
from typing import final

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tacit.base.errors import FileError, InputError
from tacit.base.files import PUBLIC, private_directory, read_private, read_public, write_whole
from tacit.core.protocol.signatures import signer
from tacit.live.identity.certificates import (
    LOOPBACK,
    Authority,
    Certificate,
    CertificateSubject,
    Request,
    read_certificates,
)
from tacit.live.identity.keys import (
    key_text,
    private_pem,
    public_der,
    read_signing_key,
    read_tls_key,
    tls_key,
)
from tacit.live.identity.register import REVOKED, SIGNED, opened
from tacit.live.identity.revocation import Revocations, read_revocations, require_newer

SIGNING, TLS, NEXT, REQUEST, TRUSTED = "signing.key", "tls.pem", "next.key", "request.pem", "authority.crt"
AUTHORITY_KEY = "authority.key"


@final
@dataclass(frozen=True)
class TlsFiles:
    """Paths as TLS libraries want them; key and certificate are one file."""

    private_key: Path
    certificate: Path
    authority: Path


@final
class Identity:
    """An agent's name, its signing key, and a certificate for both.

    It can sign with the private key but never shows it. Make one with `load`.
    """

    __slots__ = (
        "_list",
        "_lock",
        "_stamp",
        "authority",
        "certificate",
        "directory",
        "name",
        "public_key",
        "sign",
    )

    def __init__(
        self, directory: Path, signing: Ed25519PrivateKey, certificate: Certificate, authority: Certificate
    ) -> None:
        self.directory = directory
        self.sign: Callable[[bytes], bytes] = signer(signing)
        """Signs with the agent's Ed25519 key, 64 bytes."""
        self.certificate = certificate
        self.authority = authority
        self.name = certificate.name
        self.public_key = _public(signing)
        self._stamp: tuple[int, int, int] | None = None
        self._list: Revocations | None = None
        self._lock = RLock()

    def __repr__(self) -> str:
        return f"<Identity {self.name} {self.key}>"

    @classmethod
    def load(cls, directory: str | Path) -> Identity:
        """Read an agent's directory, and check that its files belong together."""
        folder = Path(directory)
        signing = read_signing_key(read_private(folder / SIGNING), str(folder / SIGNING))
        path = folder / TLS
        if not path.exists() and (folder / NEXT).exists():
            raise FileError(
                f"{folder} has no certificate yet: let the authority sign {folder / REQUEST} "
                "(`tacit keys sign`), then `tacit keys install` what it gives back."
            )
        data = read_private(path)
        certificate = read_certificates(data, str(path))[0]
        authority = read_certificates(read_public(folder / TRUSTED), str(folder / TRUSTED))[0]
        _require_pair(certificate, read_tls_key(data, str(path)), path)
        _require_own(certificate, signing, path)
        if not certificate.issued_by(authority):
            raise FileError(f"{path} must be signed by the authority in {folder / TRUSTED}, and is not.")
        return cls(folder, signing, certificate, authority)

    @property
    def key(self) -> str:
        """The public signing key as text, as in the roster."""
        return key_text(self.public_key)

    @property
    def expires(self) -> datetime:
        """When the certificate, or its authority's, expires."""
        return min(self.certificate.expires, self.authority.expires)

    @property
    def tls(self) -> TlsFiles:
        """Where a TLS library finds its keys."""
        path = self.directory / TLS
        return TlsFiles(path, path, self.directory / TRUSTED)

    @property
    def revocations(self) -> Revocations | None:
        """The newest list of revoked certificates in the directory.

        It is read again if the file changed. If the file cannot be read, the list that was read before stays
        in use.
        """
        with self._lock:
            stamp = self._list_stamp()
            if stamp is not None and stamp != self._stamp:
                try:
                    found = read_revocations(self.directory / REVOKED, self.authority)
                except FileError:
                    if self._list is None:
                        raise
                else:
                    # An older list that is put back must not make a revoked key valid again.
                    if found is not None and (self._list is None or found.number >= self._list.number):
                        self._list = found
                self._stamp = stamp
            return self._list

    def install_revocations(self, data: bytes) -> Revocations:
        """Use a list of revoked certificates from now on; refuse an older one.

        The trusted authority must have signed it. A long list takes seconds to read, so call this on a
        worker. A list that is there already is not written again.
        """
        what = "the list of revoked certificates"
        found = Revocations.parse(data, self.authority, what)
        with self._lock:
            require_newer(found, self.revocations, what)
            if self._list is None or found.number > self._list.number:
                write_whole(self.directory / REVOKED, found.pem(), mode=PUBLIC, force=True)
                self._list, self._stamp = found, self._list_stamp()
        return found

    def _list_stamp(self) -> tuple[int, int, int] | None:
        try:
            status = (self.directory / REVOKED).stat()
        except OSError:
            return None
        return (status.st_mtime_ns, status.st_size, status.st_ino)

    def revoked(self, certificate: Certificate) -> bool:
        """Whether the list in this directory revokes a certificate."""
        known = self.revocations
        return known is not None and known.entry(certificate) is not None

    def require_current(self, now: datetime | None = None) -> None:
        """Refuse to start with a certificate that is not valid."""
        known = self.revocations
        if known is not None and (entry := known.entry(self.certificate)) is not None:
            raise FileError(
                f"the certificate of {self.name} was revoked on {entry.since:%Y-%m-%d %H:%M} UTC by its "
                f"authority (list {known.number}): ask the authority why."
            )
        self.certificate.require_current(f"the certificate of {self.name}", now)
        self.authority.require_current(f"the authority of {self.name}", now)


def _public(signing: Ed25519PrivateKey) -> bytes:
    return signing.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def _require_pair(certificate: Certificate, key: EllipticCurvePrivateKey, path: Path) -> None:
    if public_der(certificate.document.public_key()) != public_der(key.public_key()):
        raise FileError(f"{path}: the certificate must be for the TLS key of this directory, and is not.")


def _require_own(certificate: Certificate, signing: Ed25519PrivateKey, path: Path) -> None:
    if certificate.subject is None or certificate.subject.public_key != _public(signing):
        raise FileError(f"{path}: the certificate must name the signing key of this directory, and does not.")


def new_agent(
    name: str, directory: str | Path, *, hosts: Sequence[str] = (), force: bool = False, durable: bool = True
) -> Path:
    """Make an agent's keys; return the path of the request to be signed."""
    signing, tls = Ed25519PrivateKey.generate(), tls_key()
    request = Request.make(CertificateSubject(name, _public(signing), tuple(hosts)), tls, signing)
    folder = private_directory(Path(directory))
    _require_free(folder, (SIGNING, TLS, NEXT, REQUEST, TRUSTED), force)
    for stale in (TLS, TRUSTED, REVOKED):  # they belong to the keys that are overwritten
        (folder / stale).unlink(missing_ok=True)
    write_whole(folder / SIGNING, private_pem(signing), force=force, durable=durable)
    _write_request(folder, tls, request, force=force, durable=durable)
    return folder / REQUEST


def _write_request(
    folder: Path, tls: EllipticCurvePrivateKey, request: bytes, *, force: bool, durable: bool = True
) -> None:
    write_whole(folder / NEXT, private_pem(tls), force=force, durable=durable)
    write_whole(folder / REQUEST, request, mode=PUBLIC, force=force, durable=durable)


def _require_free(folder: Path, names: Iterable[str], force: bool) -> None:
    for name in names:
        if not force and (folder / name).exists():
            raise FileError(
                f"{folder / name} exists already: choose another directory, or use --force to overwrite it; "
                "sessions with the old signing key cannot be continued."
            )


def renew_agent(directory: str | Path, hosts: Sequence[str] | None = None) -> Path:
    """Make a new TLS key and a request for it.

    The old key stays in use until `install`. The signing key stays the same, because rosters contain it. Host
    names stay unless others are given.
    """
    folder = Path(directory)
    signing, subject = _signing_and_subject(folder)
    if hosts is not None:
        subject = CertificateSubject(subject.name, subject.public_key, tuple(hosts))
    tls = tls_key()
    _write_request(folder, tls, Request.make(subject, tls, signing), force=True)
    return folder / REQUEST


def _signing_and_subject(folder: Path) -> tuple[Ed25519PrivateKey, CertificateSubject]:
    """Return the signing key of a directory, and what it is certified for."""
    signing = read_signing_key(read_private(folder / SIGNING), str(folder / SIGNING))
    if (folder / TLS).exists():
        subject = read_certificates(read_private(folder / TLS), str(folder / TLS))[0].subject
    else:
        subject = Request.parse(read_public(folder / REQUEST), str(folder / REQUEST)).subject
    if subject is None or subject.public_key != _public(signing):
        raise FileError(f"{folder}: the certificate must name the signing key of this directory.")
    return signing, subject


def install(
    bundle: bytes,
    directory: str | Path,
    *,
    new_authority: bool = False,
    durable: bool = True,
    now: datetime | None = None,
) -> Identity:
    """Install a certificate that the authority signed.

    The first authority is trusted. One with another key is trusted only if `new_authority`. A certificate
    that has expired by `now` is refused.
    """
    folder = Path(directory)
    found = read_certificates(bundle, "the certificate")
    if len(found) != 2 or found[1].subject is not None or not found[0].issued_by(found[1]):
        raise FileError("what the authority gives back must be a certificate and its own, and is not.")
    certificate, authority = found
    certificate.require_current(f"the certificate of {certificate.name}", now)
    authority.require_current(f"the certificate of its authority, {authority.name},", now)
    signing = read_signing_key(read_private(folder / SIGNING), str(folder / SIGNING))
    _require_own(certificate, signing, folder)
    held = folder / NEXT if (folder / NEXT).exists() else folder / TLS
    key = read_tls_key(read_private(held), str(held))
    _require_pair(certificate, key, folder)
    trusted = folder / TRUSTED
    if trusted.exists():
        known = read_certificates(read_public(trusted), str(trusted))[0]
        if not known.same_key(authority):
            if not new_authority:
                raise FileError(
                    f"the certificate is from another authority than {trusted}: find out why, "
                    "then use --new-authority if that is right."
                )
            (folder / REVOKED).unlink(missing_ok=True)  # the list belongs to the other authority
    _require_not_revoked(certificate, authority, folder)
    write_whole(trusted, authority.pem(), mode=PUBLIC, force=True, durable=durable)
    write_whole(folder / TLS, private_pem(key) + certificate.pem(), force=True, durable=durable)
    (folder / NEXT).unlink(missing_ok=True)  # last, so that after a crash the same call can be repeated
    return Identity(folder, signing, certificate, authority)


def _require_not_revoked(certificate: Certificate, authority: Certificate, folder: Path) -> None:
    known = read_revocations(folder / REVOKED, authority)
    if known is not None and known.entry(certificate) is not None:
        raise FileError(
            f"the certificate of {certificate.name} was revoked (list {known.number}): ask for another."
        )


def install_revocations(data: bytes, directory: str | Path) -> tuple[Identity, Revocations]:
    """Install a list of revoked certificates; refuse an older list.

    A running process with these keys uses it within seconds.
    """
    identity = Identity.load(directory)
    return identity, identity.install_revocations(data)


def new_authority(
    name: str, directory: str | Path, *, days: float = 365, force: bool = False, durable: bool = True
) -> Authority:
    """Make an authority that signs for the agents of sessions."""
    made = Authority.make(name, days)
    folder = private_directory(Path(directory))
    _require_free(folder, (AUTHORITY_KEY, TRUSTED), force)
    for stale in (SIGNED, REVOKED):  # they belong to the key that is overwritten
        (folder / stale).unlink(missing_ok=True)
    write_whole(folder / AUTHORITY_KEY, private_pem(made.key), force=force, durable=durable)
    write_whole(folder / TRUSTED, made.certificate.pem(), mode=PUBLIC, force=force, durable=durable)
    return made


def load_authority(directory: str | Path) -> Authority:
    """Read an authority's directory."""
    folder = Path(directory)
    key = read_tls_key(read_private(folder / AUTHORITY_KEY), str(folder / AUTHORITY_KEY))
    certificate = read_certificates(read_public(folder / TRUSTED), str(folder / TRUSTED))[0]
    _require_pair(certificate, key, folder / TRUSTED)
    return Authority(key, certificate)


def renew_authority(directory: str | Path, *, days: float = 365) -> Authority:
    """Extend an authority with the same key; its certificates stay valid."""
    old = load_authority(directory)
    made = Authority.make(old.certificate.name, days, key=old.key)
    write_whole(Path(directory) / TRUSTED, made.certificate.pem(), mode=PUBLIC, force=True)
    return made


def is_authority(directory: str | Path) -> bool:
    """Whether a directory is an authority's."""
    return (Path(directory) / AUTHORITY_KEY).exists()


def bundle(certificate: Certificate, authority: Authority) -> bytes:
    """Return what an authority sends back: the certificate and its own."""
    return certificate.pem() + authority.certificate.pem()


def provision(
    directory: str | Path,
    names: Iterable[str],
    *,
    listening: Iterable[str] = (),
    hosts: Sequence[str] = LOOPBACK,
    days: float = 1,
) -> dict[str, Identity]:
    """Make an authority and everybody's keys in one place.

    This is for demos and tests on one machine. Anyone with the directory could send messages in the name of
    all members. If agents belong to different people, each makes its own keys (`new_agent`), and only
    requests and certificates are exchanged. `listening` names members that accept connections at `hosts`.
    This does not wait for the disk.
    """
    folder = private_directory(Path(directory))
    authority = new_authority("demo-authority", folder / "authority", days=days, durable=False)
    listening, made = set(listening), {}
    with opened(folder / "authority", authority) as register:
        for name in names:
            if name in made or name == "authority":
                raise InputError(
                    f"names must differ from each other and from 'authority', got {name!r} again."
                )
            home, open_to = folder / name, hosts if name in listening else ()
            path = new_agent(name, home, hosts=open_to, durable=False)
            request = Request.parse(path.read_bytes(), str(path))
            signed = register.sign(request, days, listen=True)
            made[name] = install(bundle(signed, authority), home, durable=False)
        register.save(durable=False)
    return made
