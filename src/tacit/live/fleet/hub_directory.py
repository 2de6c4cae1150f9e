"""A hub's directory: its authority, keys, ledger and store.

It is made once. To move a hub to another machine, move the whole directory.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.base.errors import InputError
from tacit.base.files import PRIVATE, PUBLIC, private_directory, write_whole
from tacit.live.fleet.store import HubStore
from tacit.live.identity.certificates import CertificateSubject, Request, require_days
from tacit.live.identity.identity import (
    Identity,
    bundle,
    install,
    is_authority,
    load_authority,
    new_agent,
    new_authority,
    renew_agent,
)
from tacit.live.identity.register import REVOKED, SIGNED, opened
from tacit.live.identity.roster import COORDINATOR as COORDINATOR_NAME
from tacit.live.status.server import is_loopback
from tacit.live.transport.connection_diagnosis import require_endpoint

if TYPE_CHECKING:
    from tacit.live.identity.certificates import Authority

LEDGER, KEYS, AUTHORITY, LOCK = "hub.ledger", "coordinator", "authority", "serving"


def new_hub(
    home: Path, address: str, *, listen: str | None = None, hosts: tuple[str, ...] = (), days: float = 365
) -> str:
    """Make a hub's directory; return the fingerprint of its new authority."""
    host, _ = require_endpoint(address)
    at = _listening(address, listen)
    names = _names(host, hosts)
    require_days(days)  # all is checked before anything is written: half a hub could not be made again
    private_directory(home)
    HubStore(home, create=True).close()
    authority = new_authority(f"{_plain(home.resolve().name)}-authority", home / AUTHORITY, days=days)
    request = new_agent(COORDINATOR_NAME, home / KEYS, hosts=names)
    with opened(home / AUTHORITY, authority) as register:
        made = register.sign(Request.parse(request.read_bytes(), str(request)), days, listen=True)
        register.save()
    install(bundle(made, authority), home / KEYS)
    store = HubStore(home)
    store.set_setting("address", address)
    store.set_setting("listen", at)
    store.close()
    return authority.certificate.key_fingerprint


def move_hub(
    home: Path,
    address: str,
    *,
    listen: str | None = None,
    hosts: tuple[str, ...] = (),
    new_store: bool = False,
) -> str:
    """Give a stopped hub another address; return the authority's fingerprint.

    The hub gets a certificate for the new address. With `new_store` an empty store replaces one that was
    lost: members know the hub by its authority, keys and ledger.
    """
    host, _ = require_endpoint(address)
    at = _listening(address, listen)
    names = _names(host, hosts)
    if is_served(home):
        raise InputError(f"a hub runs with {home}: stop it first (`tacit hub pause --stop`, or SIGTERM).")
    authority = load_authority(home / AUTHORITY)
    if new_store:
        HubStore(home, create=True).close()
    store = HubStore(home)
    try:
        share_register(home, store)
        certify(home, authority, renew_agent(home / KEYS, names), store)
        store.set_setting("address", address)
        store.set_setting("listen", at)
    finally:
        store.close()
    return authority.certificate.key_fingerprint


def _listening(address: str, listen: str | None) -> str:
    """Return where a hub of this address listens, unless told.

    Members reach one with a loopback address from this machine alone, so nobody else does.
    """
    host, port = require_endpoint(address)
    if listen is not None:
        require_endpoint(listen)
        return listen
    return address if is_loopback(host) else f"wss://0.0.0.0:{port}"


def _names(host: str, further: tuple[str, ...]) -> tuple[str, ...]:
    """Return the host names of a hub's certificate; refuse impossible ones."""
    return CertificateSubject(COORDINATOR_NAME, b"", tuple(dict.fromkeys((host, *further)))).hosts


def certify(home: Path, authority: Authority, request: Path, store: HubStore) -> None:
    """Sign and install the hub's next certificate, valid as long as the last."""
    before = Identity.load(home / KEYS).certificate
    life = (before.expires - before.begins).total_seconds() / 86_400
    with opened(home / AUTHORITY, authority) as register:
        signed = register.sign(Request.parse(request.read_bytes(), str(request)), life, listen=True)
        register.save()
        store.keep_register(home / AUTHORITY)
    install(bundle(signed, authority), home / KEYS)


def share_register(home: Path, store: HubStore) -> None:
    """Bring together what this host's authority and the others have signed.

    A host whose directory has no authority's key takes the list of revoked certificates alone.
    """
    known, folder = store.register(), home / AUTHORITY
    if is_authority(folder):
        authority = load_authority(folder)
        with opened(folder, authority) as register:
            register.merge(known.get(SIGNED, b""), known.get(REVOKED, b""))
            register.save()
            store.keep_register(folder)
    elif REVOKED in known:
        write_whole(folder / REVOKED, known[REVOKED], mode=PUBLIC, force=True)


@contextmanager
def serving(home: Path) -> Iterator[None]:
    """Let commands see that a hub serves, or stands by, with this directory."""
    descriptor = os.open(home / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)  # releases the lock


def is_served(home: Path) -> bool:
    """Whether a hub runs with this directory now.

    The lock is released by the system when a hub is killed, so no stale file is left behind. A shared lock is
    tried: two commands that ask at the same time do not take each other for a hub.
    """
    try:
        descriptor = os.open(home / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _plain(name: str) -> str:
    """Return a directory's name as certificates may have it."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", name).lstrip("._-")[:40] or "hub"
