"""Make a session from a design: on a lattice, and for a roster."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.base.arrays import FloatArray
from tacit.base.errors import InputError
from tacit.core.graph import Graph
from tacit.core.law import Law, OneShot
from tacit.core.mechanism import Distributed, Mechanism
from tacit.core.mechanism.reach import reaching
from tacit.core.mechanism.topology import written_weights
from tacit.core.protocol.roster import Member
from tacit.core.protocol.schema import Deadlines, PerMember
from tacit.core.protocol.session import LAST_EXPIRY, MOST_ROUNDS, Session
from tacit.core.theory.advice import require_useful
from tacit.core.theory.answers import answer
from tacit.core.theory.plan import Plan
from tacit.core.theory.promise import Promise
from tacit.live.identity.roster import COORDINATOR, Roster

if TYPE_CHECKING:
    from tacit.live.sessions.motion import MotionRequest

_TRIES = 60
WEEK = 7 * 86_400.0
"""Default lifetime of a session in seconds."""


def draft(
    name: str,
    roster: Roster,
    question: Plan,
    *,
    expires: int | None = None,
    keepers: Sequence[str] = (),
    anyway: bool = False,
    motion: MotionRequest | None = None,
    **fields: Any,
) -> Session:
    """Make the session with the best noise for a question.

    The loss of an agent on the lattice is at most the loss in the question, so a cap of that size is enough.

    Parameters
    ----------
    question : Plan
        With `low` and `high`. Agent i of its graph is the i-th of the roster; without a graph there is a
        coordinator. Unless the question gives the rounds, there are as many as agreement needs.
    expires : int, optional
        When the session ends for everyone, in seconds since 1970 (UTC); `usual_expiry` unless given.
    keepers : sequence of str
        Members of the roster that are not agents: they hold masks and add the noise.
    anyway : bool
        Make it even if its radius is half the range or more; otherwise `Useless` is raised.
    motion : MotionRequest, optional
        Of agents with their own dynamics: what their file asks.
    fields
        Other fields of the `Session`, such as deadlines, quorum and start.
    """
    roster, kept = apart(roster, keepers)
    if kept:
        question = replace(question, keepers=len(kept))
    n, graph = len(roster.members), question.network
    _require_fitting(n, roster, graph)
    low, high = question.span
    if question.question is not None and question.law is None:
        question = replace(question, law=OneShot.name)  # no other is more accurate
    if graph is None:
        question = replace(question, agents=n)
    promise = _promise(question)
    if not anyway:
        require_useful(promise.radius, high - low)
    law = promise.mechanism.law if motion is None else motion.law(promise.mechanism.law, promise.rounds)
    waits = fields.get("deadlines") or Deadlines()
    fixed: dict[str, Any] = {
        "name": name,
        "roster": roster.members,
        "keepers": kept,
        "coordinator": roster.coordinator if graph is None else None,
        "edges": None if graph is None else tuple(map(tuple, graph.edges().tolist())),
        "weights": _weights(promise.mechanism),
        "law": law.name,
        "mixing": _plain(law.sigma) if motion is None else None,
        "motion": None if motion is None else motion.moving(law),
        **_further(law),
        "rounds": promise.rounds,
        "adjacency": promise.adjacency,
        "components": question.asked.components,
        "asked": question.question,
        "expires": usual_expiry(waits, promise.rounds) if expires is None else expires,
    }

    def session(c: float | FloatArray) -> Session:
        noisy = law.with_noise(c)
        lattice = reaching(
            replace(promise.mechanism, law=noisy),
            promise.rounds,
            low,
            high,
            components=question.asked.components,
            quorum=fields.get("quorum"),
        )
        if motion is not None:
            lattice = motion.lattice(lattice, noisy)
        return Session(noise=_plain(c), lattice=lattice, **fixed, **fields)

    made = _within(session, law.c, promise.loss if question.loss is None else question.loss)
    if motion is not None:
        motion.require_own(made)
    return made


def usual_expiry(deadlines: Deadlines, rounds: int, now: float | None = None) -> int:
    """Return a week from now, or later if the rounds can last longer.

    The loss of the agents stays reserved until the session expires, so it should not expire too late.
    """
    longest = deadlines.start + rounds * deadlines.round
    return min(math.ceil((time.time() if now is None else now) + max(WEEK, 2 * longest)), LAST_EXPIRY)


def _promise(question: Plan) -> Promise:
    """Design for the given rounds, or for as many as agents need to agree."""
    made = answer(question).promise
    _require_few(made.rounds)
    if question.rounds is not None:
        return made
    # Less noise than for an endless run.
    return answer(replace(question, rounds=max(made.rounds, 1))).promise


def _require_few(rounds: int) -> None:
    if rounds > MOST_ROUNDS:
        raise InputError(
            f"agents would need {rounds:,} rounds to agree, and a session has at most {MOST_ROUNDS:,}: ask "
            "for more mixing or a wider tolerance."
        )


def _within(session: Callable[[float | FloatArray], Session], c: float | FloatArray, loss: float) -> Session:
    """Widen the noise until the loss on the lattice is within bounds.

    That loss includes rounding, so it can be above the loss of the design on real numbers.
    """
    for _ in range(_TRIES):
        made = session(c)
        accounted = worst_loss(made)
        if accounted <= loss:
            return made
        c = c * (accounted / loss * (1 + 2.0**-50))  # slightly more, so that rounding cannot undo the step
    raise InputError(f"no noise keeps the loss within {loss:g} on whole numbers: ask for a larger loss.")


def worst_loss(session: Session) -> float:
    """Return the largest loss of any agent, on the lattice, rounded up."""
    kinds = {session.lattice_agent(i): i for i in range(session.n)}
    return max(session.account(i).total for i in kinds.values())


def apart(roster: Roster, names: Sequence[str]) -> tuple[Roster, tuple[Member, ...]]:
    """Take keepers out of a roster, in the order in which they are named."""
    known = {member.name: member for member in roster.members}
    for name in names:
        if name not in known:
            raise InputError(f"keepers must be named in the roster, and {name!r} is not.")
    if len(set(names)) < len(names):
        raise InputError("each keeper must be named once.")
    agents = tuple(member for member in roster.members if member.name not in names)
    return Roster(agents, roster.coordinator), tuple(known[name] for name in names)


def _require_fitting(n: int, roster: Roster, graph: Graph | None) -> None:
    if graph is None and roster.coordinator is None:
        raise InputError(
            "a session without a graph needs a coordinator: put the certificate (or line) of one that is "
            f"named {COORDINATOR!r} into the roster, or give a graph."
        )
    if graph is not None and graph.n != n:
        raise InputError(
            f"the graph must have one agent for each of the roster's {n:,}, and has {graph.n:,}."
        )
    if n == 0:
        raise InputError("the roster must hold agents, and holds only a coordinator.")


def _weights(mechanism: Mechanism) -> Any:
    """Return the weights in the form of a session."""
    return written_weights(mechanism.topology) if isinstance(mechanism, Distributed) else None


def _further(law: Law) -> dict[str, Any]:
    """Return the law's parameters besides mixing and noise, for a session."""
    first = ("mixing", "noise")
    rest = {word: _plain(value) for word, value in law.worded().items() if word not in first}
    return {"decay": rest.pop("decay", None), "further": tuple(rest.items())}


def _plain(value: float | FloatArray) -> PerMember:
    return tuple(value.tolist()) if isinstance(value, np.ndarray) else value
