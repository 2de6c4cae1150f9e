"""Rosters: who takes part, from certificates or from a list of keys."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import final

from tacit.base.errors import FileError, InputError
from tacit.base.files import read_public
from tacit.core.protocol.roster import Member
from tacit.live.identity.certificates import Certificate, CertificateSubject, Request, read_certificates
from tacit.live.identity.keys import key_bytes
from tacit.live.identity.revocation import Revocations

COORDINATOR = "coordinator"
"""This name means the coordinator, which is not an agent."""


@final
@dataclass(frozen=True)
class Roster:
    """The agents in order, and the coordinator's key if there was one."""

    members: tuple[Member, ...]
    coordinator: bytes | None


def read_roster(path: str | Path) -> Roster:
    """Read a roster from a directory of certificates or a list of keys.

    The directory may also have requests. A list has lines of `NAME KEY`. From a directory, agents are sorted
    by name, and numbers in names are compared as numbers. From a list, agents keep their order. All
    certificates must be valid and of one authority. Certificates that a list of revoked ones (`*.crl`) in the
    directory names are refused.
    """
    path = Path(path)
    subjects = _from_directory(path) if path.is_dir() else _from_lines(path)
    if not subjects:
        raise FileError(f"{path} must hold certificates, or lines of NAME KEY, and holds none.")
    members: dict[str, Member] = {}
    coordinator = None
    for name, key, where in subjects:
        if name == COORDINATOR and coordinator is None:
            coordinator = key
        elif name in members or name == COORDINATOR:
            raise FileError(f"{where}: there must be one key for {name}, and there are two.")
        else:
            members[name] = _member(name, key, where)
    return Roster(tuple(members.values()), coordinator)


def _member(name: str, key: bytes, where: str) -> Member:
    try:
        return Member(name, key)
    except InputError as error:
        raise FileError(f"{where}: {error}") from None


def _from_lines(path: Path) -> list[tuple[str, bytes, str]]:
    try:
        lines = read_public(path).decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise FileError(f"{path} must be a text file with lines of NAME KEY, and is not.") from None
    found = []
    for number, line in enumerate(lines, start=1):
        words, where = line.partition("#")[0].split(), f"{path}, line {number}"
        if not words:
            continue
        if len(words) != 2:
            raise FileError(f"{where}: must be a name and its public key, as `tacit keys show` prints them.")
        try:
            found.append((words[0], key_bytes(words[1]), where))
        except InputError as error:
            raise FileError(f"{where}: {error}") from None
    return found


def _from_directory(path: Path) -> list[tuple[str, bytes, str]]:
    files = sorted(file for file in path.iterdir() if file.suffix in (".crt", ".pem") and file.is_file())
    authority: Certificate | None = None
    found: list[tuple[CertificateSubject, str]] = []
    certified: list[tuple[Certificate, str]] = []
    for file in files:
        data, where = read_public(file), str(file)
        if b"CERTIFICATE REQUEST" in data:
            found.append((Request.parse(data, where).subject, where))
            continue
        chain = read_certificates(data, where)
        if chain[0].subject is None:
            continue  # an authority's own
        if len(chain) != 2 or not chain[0].issued_by(chain[1]):
            raise FileError(f"{where} must be what `tacit keys sign` gives back, and is not.")
        chain[0].require_current(f"{where}: the certificate of {chain[0].name}")
        if authority is not None and not authority.same_key(chain[1]):
            raise FileError(f"{where} is signed by another authority than the files before: use one for all.")
        authority = chain[1]
        found.append((chain[0].subject, where))
        certified.append((chain[0], where))
    _require_not_revoked(path, certified, found, authority)
    found.sort(key=lambda pair: _natural(pair[0].name))
    return [(subject.name, subject.public_key, where) for subject, where in found]


def _require_not_revoked(
    path: Path,
    certified: list[tuple[Certificate, str]],
    found: list[tuple[CertificateSubject, str]],
    authority: Certificate | None,
) -> None:
    """Refuse members that a list of revoked certificates names."""
    for file in sorted(path.glob("*.crl")):
        if authority is None:
            raise FileError(f"{file} cannot be checked without a certificate of its authority beside it.")
        revoked = Revocations.parse(read_public(file), authority, str(file))
        for certificate, where in certified:
            if (entry := revoked.entry(certificate)) is not None:
                raise FileError(
                    f"{where}: the certificate of {certificate.name} was revoked on "
                    f"{entry.since:%Y-%m-%d %H:%M} UTC ({file}): take it out of the roster."
                )
        for subject, where in found:
            if revoked.revokes_key(subject.public_key):
                raise FileError(f"{where}: the key of {subject.name} was revoked ({file}): take it out.")


def _natural(name: str) -> tuple[tuple[bool, int, str], ...]:
    """Order names so that agent-2 comes before agent-10."""
    parts = re.split(r"(\d+)", name)
    return tuple((part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts if part)
