"""Read the status that a running member, hub or follower shows."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any, Literal
from urllib.parse import urlsplit

from tacit.errors import InputError

Kind = Literal["member", "hub", "follower"]
"""Who shows a status: a member of one session, a hub, or an agent or keeper that follows a hub."""
_MOST_BYTES = 16 << 20
_SECONDS = 5.0
_FIELDS: dict[Kind, set[str]] = {
    "member": {"session", "member", "round", "rounds", "phase"},
    "hub": {"hub", "state", "members", "running", "sessions"},
    "follower": {"hub", "member", "role", "connected", "sessions_running"},
}
"""Fields that every status of a kind has."""


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


def read_status(url: str, seconds: float = _SECONDS, kinds: tuple[Kind, ...] = ("member",)) -> dict[str, Any]:
    """Fetch a status of one of these kinds; refuse anything else."""
    try:
        with urllib.request.urlopen(url, timeout=seconds) as answer:
            found = json.loads(answer.read(_MOST_BYTES), object_pairs_hook=_plain)
    except urllib.error.HTTPError as error:
        error.close()
        raise InputError(
            f"{url} answered {error.code}, which is not a status of tacit: check the address (--status)."
        ) from None
    except OSError as error:
        reason = getattr(error, "reason", error)
        said = getattr(reason, "strerror", None) or "no answer in time"
        raise InputError(
            f"{url} does not answer ({said}): is a hub or member running there with --status?"
        ) from None
    except (ValueError, RecursionError, HTTPException):
        found = None
    kind = kind_of(found) if isinstance(found, dict) else None
    if kind is None:
        raise InputError(
            f"{url} did not answer with a status of tacit: give the port or address that a hub or member "
            "was started with (--status)."
        )
    if kind not in kinds:
        raise InputError(f"{url} shows the status of a {kind}, not of a {' or '.join(kinds)}.")
    return dict(found)


def kind_of(found: dict[str, Any]) -> Kind | None:
    """Return the kind of a status, or None if this is no status."""
    return next((kind for kind, fields in _FIELDS.items() if fields <= set(found)), None)


def _plain(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse text with control characters: a terminal may obey them."""
    for key, value in pairs:
        for word in (key, *(value if isinstance(value, list) else [value])):
            if isinstance(word, str) and not word.isprintable():
                raise ValueError
    return dict(pairs)
