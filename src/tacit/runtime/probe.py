"""Endpoints, and why one cannot be connected to, in words.

zenoh says "Timeout!" whether nobody listens or a certificate is refused. So when there is no connection
for a while, the same handshake is tried with Python's own TLS, which says what is wrong.
"""

from __future__ import annotations

import re
import socket
import ssl
from typing import TYPE_CHECKING

from tacit.errors import InputError

if TYPE_CHECKING:
    from tacit.runtime.identity import TlsFiles

_ENDPOINT = re.compile(r"tls/(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_WAIT = 2.0


def require_endpoint(endpoint: str) -> tuple[str, int]:
    """Return host and port of an endpoint such as ``tls/192.0.2.1:7447``; no other kind is used."""
    found = _ENDPOINT.fullmatch(endpoint)
    if found is None or int(found[2]) > 65535:
        raise InputError(
            f"an endpoint must look like tls/host:port, got {endpoint!r}: only TLS is used, "
            "so that both ends prove who they are."
        )
    return found[1].strip("[]"), int(found[2])


def require_reachable(endpoint: str) -> None:
    """Refuse an endpoint that can be listened at, but that zenoh cannot connect to."""
    if require_endpoint(endpoint)[0].count(":"):
        raise InputError(
            f"{endpoint} cannot be connected to by its number: zenoh finds no name in it to check the "
            "certificate for. Give a host name that stands for it, such as localhost for ::1."
        )


def why_not_connected(endpoint: str, tls: TlsFiles) -> str | None:
    """Try one handshake; return what is wrong in one sentence, or None if nothing is.

    Blocks for a few seconds at most.
    """
    host, port = require_endpoint(endpoint)
    try:
        _shake_hands(host, port, tls)
    except ssl.SSLCertVerificationError as error:
        return _distrusted(endpoint, error)
    except ssl.SSLError as error:
        return _refused(endpoint, error)
    except TimeoutError:
        return None  # it waits for us to speak: the handshake is good, or it hangs
    except OSError as error:
        return f"{endpoint}: {_unreachable(error)}."
    return None


def _shake_hands(host: str, port: int, tls: TlsFiles) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(tls.authority)
    context.load_cert_chain(tls.certificate, tls.private_key)
    with (
        socket.create_connection((host, port), timeout=_WAIT) as plain,
        context.wrap_socket(plain, server_hostname=host) as secure,
    ):
        secure.settimeout(_WAIT / 2)
        secure.recv(1)  # a server that refuses our certificate says so only now (TLS 1.3)


def _unreachable(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return "there is no host of this name"
    if isinstance(error, ConnectionRefusedError):
        return "nobody listens there (yet)"
    return error.strerror or type(error).__name__


def _distrusted(endpoint: str, error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code == 10:
        return f"{endpoint} shows a certificate that has expired: its owner must renew it (tacit keys renew)."
    if error.verify_code in (62, 64):  # host name, IP address
        return (
            f"{endpoint} shows a certificate that is not for this host: connect to the name or address it is "
            "for, or have it made anew with --host."
        )
    return (
        f"{endpoint} shows a certificate that our authority ({error.verify_message}) did not sign: "
        "this is another session's coordinator, or the keys are from different authorities."
    )


def _refused(endpoint: str, error: ssl.SSLError) -> str:
    reason = (error.reason or "").upper()
    if "EXPIRED" in reason:
        return f"{endpoint} refuses our certificate, which has expired: renew it (tacit keys renew)."
    if any(word in reason for word in ("UNKNOWN_CA", "BAD_CERTIFICATE", "DECRYPT_ERROR", "REQUIRED")):
        return (
            f"{endpoint} refuses our certificate: another authority signed it. Ask the session's authority "
            "for one (tacit keys)."
        )
    return f"{endpoint}: the TLS handshake failed ({reason or type(error).__name__})."
