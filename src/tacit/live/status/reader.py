"""Read the status that a running member, hub or follower shows."""

from __future__ import annotations

from contextlib import suppress
from http.client import OK, HTTPConnection, HTTPException, HTTPSConnection
from socket import SHUT_RDWR
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import msgspec

from tacit.base.errors import InputError
from tacit.live.status.document import StatusDocument

_MOST_BYTES = 16 << 20
_SECONDS = 5.0
_DECODER = msgspec.json.Decoder(StatusDocument)  # made here, not by threads that read: see `protocol.schema`


def status_url(where: str) -> str:
    """Return the address of a status; a number is a port of this machine."""
    if where.isascii() and where.isdigit():
        if not 1 <= int(where) <= 65535:
            raise InputError(f"a port is from 1 to 65535, got {where}.")
        return f"http://127.0.0.1:{int(where)}/status"
    url = where if "://" in where else f"http://{where}"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"a status is at a port, or at a URL with http://, got {where!r}.")
    return url if parts.path not in ("", "/") else f"{parts.scheme}://{parts.netloc}/status"


def read_status(url: str, seconds: float = _SECONDS) -> StatusDocument:
    """Fetch a status; refuse anything else."""
    try:
        code, data = _fetched(url, seconds)
        if code != OK:
            raise InputError(
                f"{url} answered {code}, which is not a status of tacit: check the address (--status)."
            )
        found = _DECODER.decode(data)
        _require_plain(found.as_dict())
        return found
    except InputError:
        raise
    except OSError as error:
        said = error.strerror or "no answer in time"
        raise InputError(
            f"{url} does not answer ({said}): is a hub or member running there with --status?"
        ) from None
    except (ValueError, RecursionError, HTTPException):
        raise InputError(
            f"{url} did not answer with a status of tacit: give the port or address that a hub or member "
            "was started with (--status)."
        ) from None


def _fetched(url: str, seconds: float) -> tuple[int, bytes]:
    """Return code and content of one answer, all of it within some seconds.

    No proxy is used and no redirect is followed: the answer is from this address, or there is none. A server
    could otherwise send its reader to an address that only the reader's machine can reach.
    """
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=seconds)
    answers: list[tuple[int, bytes] | Exception] = []

    def ask() -> None:
        try:
            connection.request("GET", f"{parts.path}?{parts.query}" if parts.query else parts.path)
            answer = connection.getresponse()
            answers.append((answer.status, answer.read(_MOST_BYTES)))
        except Exception as error:
            answers.append(error)
        finally:
            connection.close()

    # On another thread: the timeout of a socket starts again with each byte, and a name that is looked up has
    # none at all.
    asking = Thread(target=ask, daemon=True)
    asking.start()
    asking.join(seconds)
    if not answers:
        with suppress(OSError, AttributeError):
            connection.sock.shutdown(SHUT_RDWR)  # the thread ends
        raise TimeoutError
    if isinstance(answers[0], Exception):
        raise answers[0]
    return answers[0]


def _require_plain(found: Any) -> None:
    """Refuse text with control characters: a terminal may obey them."""
    match found:
        case dict():
            for key, value in found.items():
                _require_plain(key)
                _require_plain(value)
        case list():
            for value in found:
                _require_plain(value)
        case str() if not found.isprintable():
            raise ValueError
