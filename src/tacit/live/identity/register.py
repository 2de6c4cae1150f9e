"""An authority's register of certificates: one key for each name.

    signed.jsonl   a line for each certificate: name, signing key, serial number, dates, fingerprint
    revoked.crl    the newest list of revoked certificates; public, to be given to everyone

Both are in the authority's directory. The register is written before the certificate is handed out.

Neither grows without bound. The list has one entry for a key, and none for a key whose certificates have all
expired: nobody can connect with it. The register remembers for ever that such a key is revoked. Of expired
certificates it keeps the last of each key.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import final

import msgspec

from tacit.base.errors import FileError, InputError
from tacit.base.files import PUBLIC, read_private, write_whole
from tacit.live.identity.certificates import Authority, Certificate, Request
from tacit.live.identity.keys import key_bytes, key_text
from tacit.live.identity.revocation import Revocations, Revoked, read_revocations, revoked_list

SIGNED, REVOKED = "signed.jsonl", "revoked.crl"
_MOST_SIGNED = 4
_DAY = timedelta(days=1)
_KEPT = timedelta(days=7)
"""An entry stays this long in the list after the certificate has expired, because clocks differ."""


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One certificate that was signed; `revoked` is when its key was."""

    name: str
    key: str
    serial: str
    signed: datetime
    expires: datetime
    fingerprint: str
    revoked: datetime | None = None


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

    def __post_init__(self) -> None:
        # The list forgets a key when its certificates have expired. The register must not.
        if self.revoked is not None:
            self._mark({key_text(one.key): one.since for one in self.revoked.entries if one.key is not None})

    # ---- signing ------------------------------------------------------------------------------------

    def sign(self, request: Request, days: float = 90, *, listen: bool = False) -> Certificate:
        """Sign a request, unless its name has another key or its key another name."""
        subject = request.subject
        self._require_own_key(request)
        for known in reversed(self._of(subject.name)):
            if known.key != subject.key and known.revoked is None:
                raise InputError(
                    f"{known.name} has another signing key, {known.key}, signed on {known.signed:%Y-%m-%d}: "
                    f"a name has one key. If {known.name} really has a new one, `tacit keys revoke "
                    f"{known.name}` first, then sign."
                )
        made = self.authority.sign(request, days, listen=listen)
        self.add(made)
        return made

    def _require_own_key(self, request: Request) -> None:
        subject = request.subject
        listed = self.revoked is not None and self.revoked.revokes_key(subject.public_key)
        if listed or any(e.key == subject.key and e.revoked is not None for e in self.entries):
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

    def require_seldom(self, name: str, life: timedelta) -> None:
        """Refuse a further certificate of a name that has had several lately.

        A member asks for its own. This allows for answers that get lost, and for nothing beyond.
        """
        since = datetime.now(UTC) - min(_DAY, life / 3)
        if sum(entry.signed > since for entry in self._of(name)) >= _MOST_SIGNED:
            raise InputError(
                f"{name} has had {_MOST_SIGNED} certificates since {since:%Y-%m-%d %H:%M} UTC: use the "
                "newest, or ask again later."
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
        fresh = [entry for entry in found if entry.revoked is None]
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
        self._mark({entry.key: now for entry in entries})

    def _mark(self, keys: Mapping[str, datetime]) -> None:
        self.entries = [
            msgspec.structs.replace(entry, revoked=keys[entry.key])
            if entry.revoked is None and entry.key in keys
            else entry
            for entry in self.entries
        ]

    def _listed(self) -> list[Revoked]:
        """Return the next list: one entry per revoked key that can still be shown."""
        now = datetime.now(UTC)
        newest: dict[str, Entry] = {}
        for entry in self.entries:
            if entry.key not in newest or entry.expires >= newest[entry.key].expires:
                newest[entry.key] = entry
        # What the register does not know, as after the loss of its file, stays in the list.
        known = () if self.revoked is None else self.revoked.entries
        kept = [one for one in known if one.key is None or key_text(one.key) not in newest]
        return kept + [
            Revoked(int(entry.serial, 16), entry.revoked, entry.name, key_bytes(entry.key))
            for entry in newest.values()
            if entry.revoked is not None and entry.expires + _KEPT > now
        ]

    def _needed(self) -> list[Entry]:
        """Return all certificates that have not expired, and the last of each key."""
        now = datetime.now(UTC)
        last = {entry.key: entry for entry in self.entries}
        return [entry for entry in self.entries if entry.expires > now or entry is last[entry.key]]

    # ---- another register of the same authority --------------------------------------------------------

    def merge(self, signed: bytes, revoked: bytes) -> None:
        """Take over what another host of this authority has signed and revoked.

        `save` writes it. A certificate or a revocation that either has is kept.
        """
        known = {entry.serial: entry for entry in self.entries}
        for entry in _decoded(signed, "the register of another host"):
            mine = known.get(entry.serial, entry)
            known[entry.serial] = entry if mine.revoked is None else mine
        self.entries = sorted(known.values(), key=lambda entry: entry.signed)
        if revoked:
            listed = Revocations.parse(revoked, self.authority.certificate, "the list of another host")
            if self.revoked is None or listed.number > self.revoked.number:
                write_whole(self.home / REVOKED, listed.pem(), mode=PUBLIC, force=True)
                self.revoked = listed
            self._mark({key_text(one.key): one.since for one in listed.entries if one.key is not None})

    # ---- the files ----------------------------------------------------------------------------------

    def save(self, *, durable: bool = True) -> None:
        """Write the register, and the next list if something was revoked.

        Call it before a certificate is handed out. After a crash between the two files the list lacks a key
        that the register knows to be revoked. The next call completes it.
        """
        self.entries = self._needed()
        lines = b"".join(msgspec.json.encode(entry) + b"\n" for entry in self.entries)
        write_whole(self.home / SIGNED, lines, force=True, durable=durable)
        listed, known = self._listed(), self.revoked
        if any(one.key is not None and (known is None or not known.revokes_key(one.key)) for one in listed):
            self.revoked = revoked_list(self.authority, listed, 1 if known is None else known.number + 1)
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


def enrolled(home: Path, now: datetime) -> list[tuple[str, str]]:
    """Return name and key of all that an authority lets in now.

    Nothing is locked: the file is replaced as a whole. There are none where there is no register.
    """
    found: dict[str, Entry] = {}
    for entry in _entries(home / SIGNED):
        if entry.revoked is None and entry.expires > now:
            found[entry.name] = entry
    return [(name, entry.key) for name, entry in found.items()]


_DECODER = msgspec.json.Decoder(Entry)  # made here and not by the threads that read: see `protocol.schema`


def _entries(path: Path) -> list[Entry]:
    if not path.exists():
        return []
    return _decoded(read_private(path), str(path))


def _decoded(lines: bytes, what: str) -> list[Entry]:
    try:
        return [_DECODER.decode(line) for line in lines.splitlines()]
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise FileError(
            f"{what} is damaged: without it this authority does not know which keys it signed. Put it back "
            "from a copy."
        ) from None
