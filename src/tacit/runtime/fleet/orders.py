"""Orders of an operator to a hub: what to promise, and which connected members take part."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, final

import msgspec

from tacit.protocol.roster import Member
from tacit.protocol.session import LAST_EXPIRY, Deadlines, Session

_LEAST_LIFE = 600.0
"""Least lifetime of a hub's session in seconds, so that members that were away can come back."""


@final
class SessionOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What every session of a task has in common.

    Attributes
    ----------
    question : dict
        Fields of `tacit.Question`: what is promised.
    agents : str
        A pattern: connected agents with a matching name take part.
    keepers : tuple of str
        The members that hold masks and add the noise.
    least : int
        Least number of agents that a session begins with.
    wait : float
        How many seconds a session that runs once waits for agents and keepers.
    """

    question: dict[str, Any]
    agents: str = "*"
    keepers: tuple[str, ...] = ()
    least: int = 2
    wait: float = 60.0
    round_deadline: float = 10.0
    start_deadline: float = 5.0
    repeat: float = 0.5

    def wants(self, name: str) -> bool:
        """Whether an agent of this name is asked to take part."""
        return name not in self.keepers and fnmatchcase(name, self.agents)


def designed(
    order: SessionOrder, members: Sequence[Member], keepers: Sequence[Member], hub: bytes
) -> Session:
    """Return the best session for an order. It is slow: call it on a worker thread."""
    from tacit.runtime.identity.roster import Roster
    from tacit.runtime.session.design import draft
    from tacit.theory.question import Question

    return draft(
        "design",
        Roster((*members, *keepers), hub),
        Question(**order.question),
        deadlines=Deadlines(order.round_deadline, order.start_deadline, order.repeat),
        keepers=[keeper.name for keeper in keepers],
    )


def depends_on_size(order: SessionOrder) -> bool:
    """Whether the noise depends on the number of agents, as it does if the order asks for a radius."""
    return order.question.get("radius") is not None


def instance(
    design: Session, name: str, members: Sequence[Member], keepers: Sequence[Member], now: float
) -> Session:
    """Return a session of this design for these members, that begins now."""
    longest = design.deadlines.start + design.rounds * design.deadlines.round
    return replace(
        design,
        name=name,
        roster=tuple(members),
        keepers=tuple(keepers),
        quorum=None,
        start=None,
        mask_bytes=None,
        expires=min(math.ceil(now + max(_LEAST_LIFE, 2 * longest)), LAST_EXPIRY),
    )


def radius_for(session: Session, count: int, failure_probability: float = 0.05) -> float:
    """Return the promised radius if `count` agents take part in every round. It may be slow."""
    smaller = session
    if count < session.n:
        smaller = replace(session, roster=session.roster[:count], quorum=None, start=None, mask_bytes=None)
    return float(smaller.promise(failure_probability).theory.radius)
