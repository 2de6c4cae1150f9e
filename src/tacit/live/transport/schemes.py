"""Endpoints, and which transport carries a session: their scheme says.

A new transport is one module, with a class whose parameters are those of `WebsocketTransport`, and one row
of `SCHEMES`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tacit.base.errors import InputError
from tacit.core.protocol.roster import COORDINATOR

if TYPE_CHECKING:
    from tacit.core.protocol.session import Session
    from tacit.live.identity.identity import Identity
    from tacit.live.transport.base import Transport

SCHEMES: dict[str, tuple[str, str]] = {"wss": ("tacit.live.transport.websocket", "WebsocketTransport")}
"""By scheme of an endpoint: module and class. Only the module that is used is loaded."""
_USUAL = "wss"
_ENDPOINT = re.compile(r"([a-z]+)://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}", re.ASCII)


def is_endpoint(text: str) -> bool:
    """Whether a text looks like an endpoint that some transport can use."""
    found = _ENDPOINT.fullmatch(text)
    return found is not None and found[1] in SCHEMES


def transport_to(
    session: Session,
    who: int,
    identity: Identity,
    *,
    listen: Sequence[str],
    connect: Sequence[str],
    trouble: Callable[[str], None],
) -> Transport:
    """Return the transport of a member, which is not opened yet."""
    # An unknown scheme goes to the usual transport, which says what an endpoint must look like.
    found = {end.partition("://")[0] for end in (*listen, *connect)} & SCHEMES.keys() or {_USUAL}
    if len(found) > 1:
        raise InputError(f"the endpoints of a member must have one scheme, got {', '.join(sorted(found))}.")
    module, name = SCHEMES[found.pop()]
    kind: Any = getattr(import_module(module), name)
    made: Transport = kind(
        session,
        who,
        identity.tls,
        listen=listen,
        connect=connect,
        trouble=trouble,
        revoked=identity.revoked,
    )
    return made


def to_dial(session: Session, who: int, addresses: Mapping[str, str]) -> tuple[str, ...]:
    """Return the endpoints that a member connects to, of those known.

    Agents of a server connect to the coordinator. Of two neighbours, the one that is earlier in the roster
    connects to the later one, unless only the earlier one has an address.
    """
    if session.topology == "server":
        names = [] if who == COORDINATOR else [session.member_name(COORDINATOR)]
    else:
        mine = session.member_name(who) in addresses
        near = [(j, session.member_name(j)) for j in session.neighbours(who)]
        names = [name for j, name in near if j > who or not mine]
    return tuple(addresses[name] for name in names if name in addresses)
