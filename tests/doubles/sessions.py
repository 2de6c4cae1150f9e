"""Small sessions whose keys everyone knows. For tests only."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tacit.core.graph import Graph
from tacit.core.law import Law, Scheduled, named
from tacit.core.mechanism.lattice import Lattice
from tacit.core.motion import Linear
from tacit.core.protocol.canonical import decode_for_one
from tacit.core.protocol.fields import Time
from tacit.core.protocol.moving import Moving
from tacit.core.protocol.roster import COORDINATOR, Member, roster_leaf
from tacit.core.protocol.schema import Deadlines
from tacit.core.protocol.series import Series
from tacit.core.protocol.session import LAST_EXPIRY, Session
from tacit.core.question import Question
from tacit.core.series import Hides, design_series


def known_key(number: int, salt: str = "tacit") -> Ed25519PrivateKey:
    """Return the key of a member (or the coordinator) that everyone knows."""
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(f"{salt} {number}".encode()).digest())


def known_ephemeral(number: int) -> bytes:
    """Return the private ephemeral key of a member that everyone knows."""
    return hashlib.sha256(f"tacit ephemeral {number}".encode()).digest()


def known_session(
    agents: int = 3,
    rounds: int = 4,
    *,
    graph: str | Graph | None = None,
    law: str = "fading",
    mixing: float | tuple[float, ...] = 0.5,
    noise: float | tuple[float, ...] = 2.0,
    decay: float | tuple[float, ...] = 0.75,
    low: float = 0.0,
    high: float = 1.0,
    keepers: int = 0,
    motion: Moving | None = None,
    **more: Any,
) -> Session:
    """Return a session with known keys, with a server or on a graph.

    `graph` is a `Graph` or the name of one. A motion is in place of mixing.
    """
    on = Graph.from_name(graph) if isinstance(graph, str) else graph
    n = agents if on is None else on.n
    kind = named(law)
    given = {"mixing": mixing, "noise": noise, "decay": decay, **dict(more.get("further", ()))}
    words = {word: np.array(value)[()] for word, value in given.items()}
    parameters = kind.from_words(words if motion is None else words | {"mixing": motion.motion})
    more.setdefault("expires", LAST_EXPIRY)
    more.setdefault("lattice", Lattice.fitting(parameters, rounds, low, high))
    return Session(
        name="known",
        roster=tuple(Member(f"agent-{i}", _public(i)) for i in range(n)),
        coordinator=_public(COORDINATOR) if on is None else None,
        keepers=tuple(Member(f"keeper-{j}", _public(n + j)) for j in range(keepers)),
        edges=None if on is None else tuple((int(i), int(j)) for i, j in on.edges()),
        law=law,
        mixing=mixing if motion is None else None,
        motion=motion,
        noise=noise,
        decay=decay if "decay" in kind.words() else None,
        rounds=rounds,
        **more,
    )


TRUCK = Linear(
    [[1, 0.25], [-0.25, 0.5]], [0, 0.25], [1, 0], private={"speed": 1.0}, names=("speed", "acceleration")
)
"""A truck with an engine lag, whose speed is private."""


def moving_session(
    agents: int = 3,
    rounds: int = 4,
    *,
    law: str = "scheduled",
    motion: Moving | None = None,
    own: Linear = TRUCK,
    **more: Any,
) -> Session:
    """Return a session of linear agents with the best noise for their motion, and known keys."""
    made: Law = named(law).best(own, 1.0, rounds)
    given = {"noise": float(np.max(made.c)), "decay": getattr(made, "q", None)}
    if isinstance(made, Scheduled):
        given["further"] = (("table", made.table),)
    about = {"low": -10.0, "high": 10.0, "adjacency": 1.0, **given, **more}
    start = tuple(0.125 * k for k in range(own.dimension))
    return known_session(agents, rounds, law=law, motion=motion or Moving(own, start), **about)


@lru_cache(maxsize=256)
def as_told(session: Session, number: int) -> Session:
    """Return a session as a hub tells it to a member: an agent knows itself only."""
    if session.edges is not None or not 0 <= number < session.n:
        return session
    leaf = roster_leaf(number, session.member(number), session.own(number))
    return decode_for_one(session.canonical, leaf, session.path(number))


def known_series(
    agents: int = 3,
    slots: int = 8,
    *,
    hides: str = "step:2",
    keepers: int = 2,
    interval: float = 10.0,
    begins: int = 100,
    low: float = 0.0,
    high: float = 10.0,
    loss: float = 1.0,
    delta: float = 1e-6,
    question: Question | None = None,
    **more: Any,
) -> Session:
    """Return a series with known keys, designed for this loss."""
    span = (low, high) if question is None else (None, None)
    what = Hides.parse(hides)
    kind = what.runs_with
    made = design_series(
        slots,
        what,
        agents=agents,
        low=span[0],
        high=span[1],
        keepers=keepers,
        loss=loss,
        delta=delta,
        mechanism=kind,
        question=question,
    )
    series = Series(
        slots, interval, Time(begins), made.hides, kind, made.steps, made.grid.exponent, made.low, made.high,
        delta, made.vectors.components, made.vectors.distance,
    )  # fmt: skip
    more.setdefault("asked", made.question)
    more.setdefault("expires", LAST_EXPIRY)
    more.setdefault("deadlines", Deadlines(round=interval / 2, start=interval, repeat=interval / 10))
    return Session.of_series(
        series,
        name="known",
        roster=tuple(Member(f"agent-{i}", _public(i)) for i in range(agents)),
        coordinator=_public(COORDINATOR),
        keepers=tuple(Member(f"keeper-{j}", _public(agents + j)) for j in range(keepers)),
        **more,
    )


def small_session(keys: Mapping[str, Any], names: Sequence[str], **other: Any) -> Session:
    """Return a session of these agents, whose identities are in `keys`.

    There is a coordinator unless `other` has edges.
    """
    given: dict[str, Any] = {
        "name": "test",
        "coordinator": None if other.get("edges") else keys["coordinator"].public_key,
        "mixing": 0.5,
        "noise": 2.0,
        "decay": 0.8,
        "rounds": 4,
        "lattice": Lattice(0, 10),
        "start": len(names),
        "expires": LAST_EXPIRY,
        "deadlines": Deadlines(round=600.0, start=600.0, repeat=0.1),
    }
    roster = tuple(Member(name, keys[name].public_key) for name in names)
    return Session(roster=roster, **given | other)


def _public(number: int) -> bytes:
    return known_key(number).public_key().public_bytes_raw()
