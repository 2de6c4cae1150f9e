"""Public facts about keys and certificates, as results of `tacit keys`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, final

from tacit.base.files import read_public
from tacit.base.report import Row, Shown, Summary
from tacit.live.identity.certificates import (
    Authority,
    Certificate,
    CertificateSubject,
    Request,
    read_certificates,
)
from tacit.live.identity.identity import NEXT, REQUEST, TLS, Identity, is_authority, load_authority
from tacit.live.identity.register import opened
from tacit.live.identity.revocation import Revocations

_SOON = 14  # days before it expires that a certificate should be renewed, if it lives long enough
_MEANINGS = {
    "name": "",
    "key": "public signing key, for rosters",
    "hosts": "where it may listen",
    "expires": "",
    "fingerprint": "SHA-256",
    "key_fingerprint": "SHA-256 of its key, as invitations have it",
    "authority": "its SHA-256",
    "request": "to be signed",
    "signed": "names it has signed for",
    "list": "number of the newest list of revoked certificates",
    "number": "of the list; each new list has a higher one",
    "made": "",
    "revoked": "names that are no longer valid",
}
"""The facts that people see, in this order of explanation; programs get all of them."""
_DATES = ("expires", "made")


@final
@dataclass(frozen=True)
class KeyReport(Shown):
    """Public facts about keys, a certificate, a request or a list.

    Attributes
    ----------
    kind : str
        What is at `path`: Keys, Authority, Certificate, Request or List.
    facts : mapping
        By name, ready for JSON. Nothing private is in it.
    notes : tuple of str
        What to do next, or what is wrong.
    """

    kind: str
    path: Path
    facts: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    @classmethod
    def of_authority(cls, path: Path, made: Authority, *notes: str) -> KeyReport:
        """Report on an authority that was just made or renewed."""
        return cls("Authority", path, _certificate(made.certificate), notes)

    @classmethod
    def of_request(cls, folder: Path, request: Path, *notes: str) -> KeyReport:
        """Report on an agent's directory whose request has to be signed."""
        subject = Request.parse(read_public(request), str(request)).subject
        return cls("Keys", folder, {**_subject(subject), "request": request}, notes)

    @classmethod
    def of_certificate(cls, path: Path, made: Certificate, *notes: str) -> KeyReport:
        """Report on a certificate."""
        return cls("Certificate", path, _certificate(made), notes)

    @classmethod
    def of_identity(cls, made: Identity, *notes: str) -> KeyReport:
        """Report on an agent's directory that has a certificate."""
        facts = {**_certificate(made.certificate), "authority": made.authority.fingerprint}
        return cls("Keys", made.directory, facts, notes)

    @classmethod
    def of_list(cls, path: Path, found: Revocations, *notes: str) -> KeyReport:
        """Report on a list of revoked certificates."""
        facts = {"number": found.number, "made": found.made.isoformat(), "revoked": _names(found)}
        return cls("List", path, facts, notes)

    @classmethod
    def read(cls, path: Path) -> KeyReport:
        """Report on a directory of keys, a certificate or a request."""
        if is_authority(path):
            return _read_authority(path)
        if path.is_dir():
            return _read_agent(path)
        data = read_public(path)
        if b"CERTIFICATE REQUEST" in data:
            return cls("Request", path, _subject(Request.parse(data, str(path)).subject))
        found = read_certificates(data, str(path))
        return cls.of_certificate(path, found[0], *_expiry(found[:1]))

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        return {"path": self.path, **self.facts}

    def summary(self) -> Summary:
        """Return the facts for people, without empty ones."""
        shown = {name: fact for name, fact in self.facts.items() if name in _MEANINGS and fact != []}
        rows = [Row(name, _text(name, fact), _MEANINGS[name]) for name, fact in shown.items()]
        return Summary(f"{self.kind} in {self.path}", {"": rows}, self.notes)


@final
@dataclass(frozen=True)
class SignedRequests(Shown):
    """The certificates that were signed for all requests in a directory."""

    path: Path
    certificates: Sequence[Certificate]
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        return {"path": self.path, "certificates": [_certificate(one) for one in self.certificates]}

    def summary(self) -> Summary:
        """Return the name and the signing key of each certificate."""
        subjects = [one.subject for one in self.certificates if one.subject is not None]
        rows = [Row(subject.name, subject.key) for subject in subjects]
        return Summary(f"{len(self.certificates)} certificates in {self.path}", {"": rows}, self.notes)


def _read_authority(path: Path) -> KeyReport:
    made = load_authority(path)
    with opened(path, made) as register:
        names = sorted({entry.name for entry in register.entries})
    facts = {**_certificate(made.certificate), "signed": names, **_newest_list(register.revoked)}
    return KeyReport("Authority", path, facts, tuple(_expiry([made.certificate])))


def _read_agent(path: Path) -> KeyReport:
    waiting = (path / NEXT).exists()
    notes = [f"{path / REQUEST} waits to be signed."] if waiting else []
    if waiting and not (path / TLS).exists():
        subject = Request.parse(read_public(path / REQUEST), str(path / REQUEST)).subject
        return KeyReport("Keys", path, _subject(subject), tuple(notes))
    identity = Identity.load(path)
    if identity.revoked(identity.certificate):
        notes.append(f"The certificate of {identity.name} is revoked: it cannot join.")
    notes += _expiry([identity.certificate, identity.authority])
    found = KeyReport.of_identity(identity)
    return KeyReport("Keys", path, {**found.facts, **_newest_list(identity.revocations)}, tuple(notes))


def _expiry(certificates: Sequence[Certificate]) -> list[str]:
    """Return a note for each certificate that has expired or will expire soon."""
    now = datetime.now(UTC)
    return [
        f"The certificate of {made.name} has expired: {made.renewal}."
        if made.expires <= now
        else f"The certificate of {made.name} expires in {(made.expires - now).days} days: renew it soon."
        for made in certificates
        if (made.expires - now).days < min(_SOON, (made.expires - made.begins).days / 3)
    ]


def _newest_list(found: Revocations | None) -> dict[str, Any]:
    return {} if found is None else {"list": found.number, "revoked": _names(found)}


def _names(found: Revocations) -> list[str]:
    return sorted({entry.name or f"certificate {entry.serial:x}" for entry in found.entries})


def _subject(subject: CertificateSubject) -> dict[str, Any]:
    return {"name": subject.name, "key": subject.key, "hosts": list(subject.hosts)}


def _certificate(certificate: Certificate) -> dict[str, Any]:
    about = {"name": certificate.name} if certificate.subject is None else _subject(certificate.subject)
    if certificate.subject is None:
        about["key_fingerprint"] = certificate.key_fingerprint
    return {
        **about,
        "begins": certificate.begins.isoformat(),
        "expires": certificate.expires.isoformat(),
        "expired": certificate.expires <= datetime.now(UTC),
        "fingerprint": certificate.fingerprint,
    }


def _text(name: str, fact: Any) -> str:
    if name in _DATES:
        return f"{datetime.fromisoformat(fact):%Y-%m-%d %H:%M} UTC"
    return ", ".join(fact) if isinstance(fact, list) else str(fact)
