"""Endpoints, and why a connection failed, in one sentence for each side."""

from __future__ import annotations

import re
import socket
import ssl
import traceback
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import final

from tacit.base.errors import InputError

_ENDPOINT = re.compile(r"wss://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})", re.ASCII)
_EXPIRED, _NOT_YET, _WRONG_HOST = 10, 9, (62, 64)  # OpenSSL's codes; host name, IP address

_MOST_KINDS = 1000
_UNITS = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


@final
class SparseLog:
    """Reports a kind of event the 1st, 2nd, 4th, 8th … time.

    Anyone who can reach the port can cause such events. So neither the log nor the counters may grow with
    their number: kinds beyond a maximum are not reported at all, because names of strangers are in them.
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._counts: Counter[str] = Counter()

    def __call__(self, kind: str, sentence: str) -> None:
        """Count an event, and report it if its turn has come."""
        if kind not in self._counts and len(self._counts) >= _MOST_KINDS:
            return
        self._counts[kind] += 1
        count = self._counts[kind]
        if not count & (count - 1):
            self._report(sentence if count == 1 else f"{sentence} ({count} times so far)")


def require_endpoint(endpoint: str) -> tuple[str, int]:
    """Return host and port of an endpoint such as ``wss://192.0.2.1:7447``."""
    found = _ENDPOINT.fullmatch(endpoint)
    if found is None or int(found[2]) > 65535:
        raise InputError(
            f"an endpoint must look like wss://host:port, got {endpoint!r}: WebSockets over TLS are used, "
            "so that both ends prove who they are."
        )
    return found[1].strip("[]"), int(found[2])


def clock_difference(ahead: float) -> str:
    """Say how far this machine's clock is from the hub's; `ahead` in seconds."""
    unit, name = next((one for one in _UNITS if abs(ahead) >= 0.95 * one[0]), _UNITS[-1])
    side = "ahead of" if ahead > 0 else "behind"
    return f"this machine's clock is {abs(ahead) / unit:.3g} {name} {side} the hub's"


def why_not_reached(endpoint: str, error: BaseException) -> str:
    """Say why we could not connect."""
    match error:
        case ssl.SSLCertVerificationError():
            return _distrusted(endpoint, error)
        case ssl.SSLError():
            return _refused(endpoint, error)
        case TimeoutError():
            return f"{endpoint} does not answer in time."
        case OSError():
            return f"{endpoint}: {_unreachable(error)}."
    return f"{endpoint}: the connection failed ({type(error).__name__})."


def why_turned_away(address: str, error: BaseException) -> tuple[str, str]:
    """Say why an incoming connection was refused: a kind and a sentence."""
    kind, because = _turned_away(error)
    return kind, f"A connection from {address} was refused: {because}."


def why_failed(whose: str, error: Exception) -> tuple[str, str]:
    """Say where a handler of a connection has a bug: a kind and a sentence.

    The text of the error is left out: it may hold bytes of the other side, or something private.
    """
    what = _place(error)
    return f"failed {what}", f"The connection to {whose} was ended because of a bug in tacit ({what})."


def why_failed_here(error: BaseException) -> tuple[str, str]:
    """Say where work in the background has a bug: a kind and a sentence."""
    what = _place(error)
    return f"failed {what}", f"Something failed here because of a bug in tacit ({what})."


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    place = f" in {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"


def _turned_away(error: BaseException) -> tuple[str, str]:  # noqa: PLR0911 - one case for each kind
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code == _EXPIRED:
            return "expired", "its certificate has expired, and must be signed again (tacit keys sign)"
        if error.verify_code == _NOT_YET:
            return "not-yet", "its certificate is not valid yet: compare the clocks"
        return "authority", f"another authority signed its certificate ({error.verify_message})"
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or "").upper()
        if "PEER_DID_NOT_RETURN_A_CERTIFICATE" in reason:
            return "bare", "it showed no certificate"
        if "ALERT" in reason and "EXPIRED" in reason:
            return (
                "own-expired",
                "it says that our own certificate has expired: have it signed again (tacit keys sign)",
            )
        if "ALERT" in reason:
            return "distrust", f"it does not accept our certificate ({_words(reason)})"
        return "not-tls", f"it does not speak TLS 1.3 ({_words(reason)})"
    if isinstance(error, TimeoutError):
        return "slow", "it sent nothing in time"
    return "gone", "it closed before it had shown a certificate"


def _words(reason: str) -> str:
    return reason.lower().replace("_", " ") or "no reason given"


def _unreachable(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return "no host has this name"
    if isinstance(error, ConnectionRefusedError):
        return "nobody listens there (yet)"
    if isinstance(error, ConnectionError):
        return "the connection was closed"
    return error.strerror or type(error).__name__


def _distrusted(endpoint: str, error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code == _EXPIRED:
        return (
            f"{endpoint} shows a certificate that has expired: it must be signed again (tacit keys sign), "
            f"or this machine's clock is ahead ({_now()})."
        )
    if error.verify_code == _NOT_YET:
        why = f"this machine's clock is behind ({_now()})"
        return f"{endpoint} shows a certificate that is not valid yet: {why}."
    if error.verify_code in _WRONG_HOST:
        return (
            f"{endpoint} shows a certificate that is not for this host: connect to the name or address it is "
            "for, or have a new one made with --host."
        )
    return (
        f"{endpoint} shows a certificate that our authority did not sign ({error.verify_message}): "
        "this is another session's coordinator, or the keys are from different authorities."
    )


def _now() -> str:
    return f"it says {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"


def _refused(endpoint: str, error: ssl.SSLError) -> str:
    reason = (error.reason or "").upper()
    if "EXPIRED" in reason:
        return (
            f"{endpoint} refuses our certificate, which has expired: have it signed again (tacit keys sign)."
        )
    if any(word in reason for word in ("UNKNOWN_CA", "BAD_CERTIFICATE", "DECRYPT_ERROR", "REQUIRED")):
        return (
            f"{endpoint} refuses our certificate: another authority signed it. Ask the session's authority "
            "for one (tacit keys)."
        )
    return f"{endpoint}: the TLS handshake failed ({_words(reason)})."
