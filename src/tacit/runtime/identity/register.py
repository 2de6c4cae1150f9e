"""An authority's register of certificates: one key for each name.

    signed.jsonl   a line for each certificate: name, signing key, serial number, dates, fingerprint
    revoked.crl    the newest list of revoked certificates; public, to be given to everyone

Both are in the authority's directory. The register is written before the certificate is handed out.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import final

import msgspec

from tacit.errors import FileError, InputError
from tacit.files import PUBLIC, read_private, write_whole
from tacit.runtime.identity.certificates import Authority, Certificate, Request
from tacit.runtime.identity.keys import key_bytes
from tacit.runtime.identity.revocation import Revocations, Revoked, read_revocations, revoked_list

SIGNED, REVOKED = "signed.jsonl", "revoked.crl"


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One certificate that was signed."""

    name: str
    key: str
    serial: str
    signed: datetime
    expires: datetime
    fingerprint: str


@final
@dataclass
class Register:
    """Signed and revoked certificates of one authority.

    Open it with `opened`; `save` writes both files.
    """

    home: Path
    authority: Authority
    entries: list[Entry]
    revoked: Revocations | None
    _new: list[Revoked] = field(default_factory=list)

    # ---- signing ------------------------------------------------------------------------------------

    def sign(self, request: Request, days: float = 90, *, listen: bool = False) -> Certificate:
        """Sign a request, unless its name has another key or its key another name.

        If the old key also signed the request (`tacit keys rotate`), the new key replaces it, and the old key
        is revoked.
        """
        subject = request.subject
        self._require_own_key(request)
        others = {e.key for e in self._of(subject.name) if e.key != subject.key and not self._dead(e)}
        replaced = {key for key in others if request.replaces == key_bytes(key)}
        if others - replaced:
            known = next(e for e in reversed(self.entries) if e.key in others - replaced)
            raise InputError(
                f"{known.name} has another signing key, {known.key}, signed on {known.signed:%Y-%m-%d}: a "
                f"name has one key. If {known.name} changes its key, it runs `tacit keys rotate`. If the old "
                f"key is lost or stolen, `tacit keys revoke {known.name}` first, then sign."
            )
        made = self.authority.sign(request, days, listen=listen)
        for key in replaced:
            self._revoke([e for e in self._of(subject.name) if e.key == key])
        self.add(made)
        return made

    def _require_own_key(self, request: Request) -> None:
        subject = request.subject
        if self.revoked is not None and self.revoked.revokes_key(subject.public_key):
            raise InputError(
                f"the signing key of {subject.name} in this request was revoked: it must make new keys "
                "(`tacit keys new`)."
            )
        other = next((e.name for e in self.entries if e.key == subject.key and e.name != subject.name), None)
        if other is not None:
            raise InputError(
                f"the signing key in this request belongs to {other}, and {subject.name} asks for it: each "
                "agent must have its own key. Find out why before you sign anything."
            )

    def add(self, certificate: Certificate) -> None:
        """Note a certificate that was signed."""
        subject = certificate.subject
        assert subject is not None
        self.entries.append(
            Entry(
                name=subject.name,
                key=subject.key,
                serial=f"{certificate.serial:x}",
                signed=datetime.now(UTC).replace(microsecond=0),
                expires=certificate.expires,
                fingerprint=certificate.fingerprint,
            )
        )

    def _of(self, name: str) -> list[Entry]:
        """Return the entries of a name, whatever its case, as in rosters."""
        return [entry for entry in self.entries if entry.name.lower() == name.lower()]

    def _dead(self, entry: Entry) -> bool:
        known = () if self.revoked is None else self.revoked.entries
        return any(key_bytes(entry.key) == one.key for one in (*known, *self._new))

    # ---- revoking -----------------------------------------------------------------------------------

    def revoke(self, name: str) -> list[Entry]:
        """Revoke the signing keys of a name; return the newly revoked entries.

        All certificates of these keys are revoked.
        """
        found = self._of(name)
        if not found:
            raise InputError(
                f"nothing was signed for {name!r} by this authority, as far as its register knows: give the "
                "certificate itself (NAME.crt)."
            )
        fresh = [entry for entry in found if not self._dead(entry)]
        self._revoke(fresh)
        return fresh

    def revoke_certificate(self, certificate: Certificate) -> None:
        """Revoke a certificate and its key, even if the register lacks them."""
        if certificate.subject is None or not certificate.issued_by(self.authority.certificate):
            raise InputError(
                f"the certificate of {certificate.name} must be one that this authority signed, and is not."
            )
        if all(entry.serial != f"{certificate.serial:x}" for entry in self.entries):
            self.add(certificate)
        self._revoke([e for e in self._of(certificate.name) if e.key == certificate.subject.key])

    def _revoke(self, entries: list[Entry]) -> None:
        now = datetime.now(UTC).replace(microsecond=0)
        known = set() if self.revoked is None else {one.serial for one in self.revoked.entries}
        known |= {one.serial for one in self._new}
        self._new += [
            Revoked(int(e.serial, 16), now, e.name, key_bytes(e.key))
            for e in entries
            if int(e.serial, 16) not in known
        ]

    # ---- the files ----------------------------------------------------------------------------------

    def save(self, *, durable: bool = True) -> None:
        """Write the register, and the next list if something was revoked.

        Call it before a certificate is handed out. After a crash between the two files a replaced key is not
        revoked yet. But its new certificate was not handed out either, and signing the request again
        completes both.
        """
        lines = b"".join(msgspec.json.encode(entry) + b"\n" for entry in self.entries)
        write_whole(self.home / SIGNED, lines, force=True, durable=durable)
        if self._new:
            before = () if self.revoked is None else self.revoked.entries
            number = 1 if self.revoked is None else self.revoked.number + 1
            self.revoked = revoked_list(self.authority, (*before, *self._new), number)
            self._new = []
            write_whole(self.home / REVOKED, self.revoked.pem(), mode=PUBLIC, force=True, durable=durable)


@contextmanager
def opened(home: Path, authority: Authority) -> Iterator[Register]:
    """Read an authority's register, and lock it; only `save` writes it."""
    descriptor = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Two processes that sign at once could otherwise give one name two keys, or lose an entry. The lock
        # is on the directory, because both files are replaced when they are written.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        revoked = read_revocations(home / REVOKED, authority.certificate)
        yield Register(home, authority, _entries(home / SIGNED), revoked)
    finally:
        os.close(descriptor)


def _entries(path: Path) -> list[Entry]:
    if not path.exists():
        return []
    try:
        return [msgspec.json.decode(line, type=Entry) for line in read_private(path).splitlines()]
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise FileError(
            f"{path} is damaged: without it this authority does not know which keys it signed. Put it back "
            "from a copy."
        ) from None
