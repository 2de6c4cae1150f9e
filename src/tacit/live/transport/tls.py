"""Mutual TLS 1.3 without I/O: contexts from files, and a channel of bytes.

asyncio's own TLS is not used. It drops the alert that tells the other side why its certificate was refused,
and it allocates 256 KiB for every connection, even before the other side is authenticated.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, final

from cryptography import x509

from tacit.base.errors import FileError, TacitError
from tacit.base.files import read_private, read_public
from tacit.live.identity.certificates import Certificate, read_certificates

if TYPE_CHECKING:
    from tacit.live.identity.identity import TlsFiles

_CHUNK = 1 << 16


@final
class Credentials:
    """An agent's certificate and trusted authority, as TLS contexts.

    The files are checked for changes at every connection, so a renewed certificate is used without a restart.
    With `bare`, incoming connections may come without a certificate; a certificate that is shown must be
    valid.
    """

    def __init__(self, files: TlsFiles, *, bare: bool = False) -> None:
        self._files, self._bare = files, bare
        self._seen: tuple[object, ...] = ()
        self.reload()

    def reload(self) -> None:
        """Read changed files again; if that fails, keep the old content.

        A renewal replaces two files one after the other. In between they may not fit together, and
        connections must still be possible. The next call tries again.
        """
        # Taken before the files are read. If they change during the reading, the next call sees that.
        try:
            seen = tuple(map(_signature, (self._files.certificate, self._files.authority)))
            if seen == self._seen:
                return
            self._read()
        except (TacitError, OSError):
            if not self._seen:
                raise
        else:
            self._seen = seen

    def _read(self) -> None:
        files = self._files
        certificate = read_certificates(read_private(files.certificate), str(files.certificate))[0]
        authority = read_certificates(read_public(files.authority), str(files.authority))[0]
        self.server = _context(ssl.PROTOCOL_TLS_SERVER, files)
        self.client = _context(ssl.PROTOCOL_TLS_CLIENT, files)
        if self._bare:
            self.server.verify_mode = ssl.CERT_OPTIONAL
        self.certificate, self.authority = certificate, authority

    @property
    def expires(self) -> datetime:
        """When our certificate, or the authority's, expires."""
        return min(self.certificate.expires, self.authority.expires)


def _signature(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


def _context(side: ssl._SSLMethod, files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    if side == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0  # no resumption: every connection must prove its key
    try:
        context.load_verify_locations(files.authority)
        context.load_cert_chain(files.certificate, files.private_key)
    except ssl.SSLError:
        raise FileError(f"{files.certificate} and {files.authority} cannot be used for TLS.") from None
    return context


@final
class Channel:
    """One TLS connection as bytes in and bytes out.

    Call `to_send` after every other method, also after an error: there may be an alert to send.
    """

    def __init__(self, context: ssl.SSLContext, host: str | None = None) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=host is None, server_hostname=host
        )
        self.ready = False
        self.ended = False
        """Whether the other side announced that it sends nothing more."""

    def start(self) -> None:
        """Make the first step of the handshake; raises `ssl.SSLError`."""
        with suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()
            self.ready = True

    def receive(self, data: bytes) -> bytes:
        """Decrypt bytes from the network; raises `ssl.SSLError`."""
        self._incoming.write(data)
        if not self.ready:
            self.start()
        return self._read() if self.ready else b""

    def _read(self) -> bytes:
        parts = []
        with suppress(ssl.SSLWantReadError):
            # A read that finds nothing raises an error, which costs more than to ask before.
            while not self.ended and (self._incoming.pending or self._tls.pending()):
                try:
                    part = self._tls.read(_CHUNK)
                except ssl.SSLZeroReturnError:
                    part = b""
                if part:
                    parts.append(part)
                else:
                    self.ended = True
        return b"".join(parts)

    def send(self, data: bytes) -> None:
        """Encrypt bytes for the network."""
        view = memoryview(data)
        while view:
            view = view[self._tls.write(view) :]

    def finish(self) -> None:
        """Announce that nothing more is sent."""
        with suppress(ssl.SSLError):
            self._tls.unwrap()

    def to_send(self) -> bytes:
        """Return bytes to send now."""
        return self._outgoing.read()

    @property
    def certified(self) -> bool:
        """Whether the other side has shown a certificate."""
        return bool(self._tls.getpeercert(binary_form=True))

    def peer(self) -> Certificate:
        """Return the other side's certificate, which our authority has signed.

        Raises `FileError` if there is none, or if it cannot be read.
        """
        shown = self._tls.getpeercert(binary_form=True)
        if not shown:
            raise FileError("there is no certificate.")
        return Certificate.parse(x509.load_der_x509_certificate(shown), "the certificate")
