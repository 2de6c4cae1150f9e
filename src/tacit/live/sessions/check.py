"""What a session promises an agent, its loss, and whether it is sound."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tacit.base.arguments import plain
from tacit.base.report import Row, Shown, Summary, near, some_rounds, up
from tacit.base.rounding import product_up, shown_up
from tacit.core.mechanism.lattice import Lattice
from tacit.core.motion import Bounded
from tacit.core.protocol.session import Session, SessionPromise
from tacit.core.question import short_form
from tacit.core.theory.advice import (
    ALL_KEEPERS,
    ONE_DRAW,
    ONE_KEEPER,
    many_keepers,
    right_at_most,
    right_share,
    strength,
    wide_radius,
)
from tacit.core.theory.promise_rows import accuracy_rows, describe
from tacit.live.identity.keys import key_text
from tacit.live.ledger.budget import steps
from tacit.live.sessions.design import worst_loss

_COARSE = 1e-6
"""Largest relative excess of the accounted loss over the loss on real numbers; more is a fault."""


@dataclass(frozen=True, eq=False)
class Explanation(Shown):
    """What an agent should know about a session before it joins.

    Attributes
    ----------
    faults : tuple of str
        Why the session is not sound; empty if it is.
    notes : tuple of str
        Facts that an owner may not expect.
    """

    session: Session
    promise: SessionPromise | None
    faults: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong with it."""
        return not self.faults

    @cached_property
    def loss(self) -> float:
        """The largest loss of any agent, for the session's adjacency; rounded up."""
        return worst_loss(self.session)

    @cached_property
    def whole_range_loss(self) -> float:
        """The largest loss for any two values in the range; rounded up.

        Values that are further apart than the adjacency are several steps of the adjacency apart, and the
        loss counts once per step.
        """
        return product_up(steps(self.session.diameter, self.session.adjacency), self.loss)

    @property
    def factor(self) -> float:
        """e^loss: the largest ratio of an observation's likelihoods.

        The likelihoods are those under two values that differ by at most the adjacency.
        """
        return math.nextafter(math.exp(self.loss), math.inf) if self.loss < 700 else math.inf

    @property
    def first_loss(self) -> float:
        """The largest loss of any agent's first message."""
        return max(self.session.account(i).losses[0] for i in range(self.session.n))

    @property
    def longest(self) -> float:
        """Upper bound on the duration of all rounds, in seconds.

        It assumes that enough agents for the quorum always send in time.
        """
        return _longest(self.session)

    def summary(self, heading: str = "") -> Summary:
        """Return the session for people, with `heading` in front of the title."""
        assert self.promise is not None
        session, made = self.session, self.promise.theory
        sections = {
            "Session": session_rows(self),
            "Promise": promise_rows(self),
            "Accuracy": accuracy_rows(made),
            "Rules": rule_rows(self),
        }
        faults = (f"NOT SOUND: {fault}" for fault in self.faults)
        return Summary(f"{heading}{describe(session.mechanism)}", sections, (*faults, *self.notes))

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        assert self.promise is not None
        return self.told(self.promise.theory.as_dict())

    def told(self, promised: Mapping[str, Any]) -> dict[str, Any]:
        """Return the session and its loss for a program, with what it promises."""
        session = self.session
        lattice, deadlines = session.lattice, session.deadlines
        return {
            "sound": self.sound,
            "faults": list(self.faults),
            "notes": list(self.notes),
            "id": session.id.hex(),
            "name": session.name,
            "topology": session.topology,
            "keeper_keys": {keeper.name: key_text(keeper.key) for keeper in session.keepers},
            "edges": None if session.edges is None else len(session.edges),
            **promised,
            "protection": strength(self.loss).name,
            "right_at_most": right_share(self.loss),
            "accounted_loss": self.loss,
            "first_message_loss": self.first_loss,
            "likelihood_factor": self.factor,
            "low": lattice.low,
            "high": lattice.high,
            "asks": short_form(session.question),
            "whole_range": session.diameter,
            "whole_range_loss": self.whole_range_loss,
            "number_bytes": session.number_bytes * session.components,
            "state_exponent": lattice.state_exponent,
            "bits": lattice.bits,
            "reach_exponent": lattice.reach_exponent,
            "quorum": session.least_quorum,
            "start": session.least_start,
            "deadlines": {"round": deadlines.round, "start": deadlines.start, "repeat": deadlines.repeat},
            "longest_seconds": self.longest,
            "expires": session.expires,
            "expired": session.expires <= time.time(),
        }


def _longest(session: Session) -> float:
    return session.deadlines.start + session.rounds * session.deadlines.round


def explain(session: Session, failure_probability: float = 0.05) -> Explanation:
    """Return what a session promises, its loss, and whether it is sound."""
    if isinstance(session.mechanism.motion, Bounded):
        from tacit.live.sessions.motion import explain_bounded

        return explain_bounded(session)
    promise = session.promise(failure_probability)
    return Explanation(session, promise, tuple(_faults(session, promise)), tuple(_notes(session, promise)))


def _faults(session: Session, promise: SessionPromise) -> list[str]:
    """Name what makes a session unsound.

    A disconnected graph and an impossible quorum are refused earlier, when the session is read.
    """
    theory, accounted = promise.theory, worst_loss(session)
    if accounted <= theory.loss * (1 + _COARSE):
        return []
    finer = Lattice.fitting(session.mechanism.law, session.rounds, session.lattice.low, session.lattice.high)
    now = session.lattice
    return [
        f"The lattice is too coarse for {some_rounds(session.rounds)}: its whole numbers cost "
        f"{shown_up(accounted)} where real numbers cost {shown_up(theory.loss)}. Take a state_exponent of "
        f"{finer.state_exponent} (it is {now.state_exponent}) and {finer.bits} bits (it has {now.bits})."
    ]


def _whole_range(session: Session) -> str:
    """Say in one sentence what an agent loses over the whole range."""
    times, loss = steps(session.diameter, session.adjacency), worst_loss(session)
    cost = f"an agent gives away at most {shown_up(product_up(times, loss))} over the whole range"
    if times == 1:
        return f"Whatever its value is, {cost}, and that is what a cap counts."
    return (
        f"The promise is for values that differ by at most {session.adjacency:g}, but the range allows "
        f"{session.diameter:g}: {cost} ({times:,} times {shown_up(loss)}), and that is what a cap counts "
        "unless its owner gives --adjacency."
    )


def keeper_notes(session: Session) -> list[str]:
    """Say which keepers agents have to trust, and what happens otherwise."""
    if not session.keepers:
        return []
    names = ", ".join(keeper.name for keeper in session.keepers)
    notes = [
        f"KEEPERS: {names} add the noise. The promise holds for an agent if one of them keeps its secrets "
        f"and adds its noise. {ALL_KEEPERS}"
    ]
    return notes + ([ONE_KEEPER] if len(session.keepers) == 1 else [])


def _notes(session: Session, promise: SessionPromise) -> list[str]:
    notes = [_whole_range(session), *keeper_notes(session)]
    if session.keepers and (many := many_keepers(len(session.keepers), session.n)) is not None:
        notes.append(many)
    notes += session.mechanism.motion.assumptions
    if session.motion is not None and (moved := session.motion.shift):
        notes.append(
            f"The target is {near(moved)} more than the mean of the private values: the public start adds it."
        )
    mixes = session.mechanism.law.mixes
    if session.mechanism.law.shadowed and mixes and session.topology == "server" and session.asked is None:
        notes.append(ONE_DRAW)
    if (
        warning := wide_radius(promise.theory.radius, session.lattice.high - session.lattice.low)
    ) is not None:
        notes.append(warning)
    if promise.theory.target == "weighted":
        notes.append("Agents head for a weighted average, in which those with more neighbours count more.")
    if session.least_quorum < session.n and session.topology == "server":
        notes.append(
            f"A round may close with {session.least_quorum} of {session.n} messages; the radius is for all "
            "of them, and the result will say what it was for those that came."
        )
    left = session.expires - time.time()
    if left <= 0:
        notes.append(f"This session expired on {session.expiry}: nobody can join it. Make a new one.")
    elif left < _longest(session):
        notes.append(
            f"The rounds can take up to {_longest(session):,.0f} s if some agents are always late, and the "
            f"session expires in {left:,.0f} s: it may end before its last round."
        )
    return notes


def session_rows(found: Explanation) -> list[Row]:
    """Return which session it is."""
    session = found.session
    return [
        Row("name", session.name, some_rounds(session.rounds)),
        Row("id", session.id.hex()[:16], "the same for everyone who has this very session"),
    ]


def promise_rows(found: Explanation) -> list[Row]:
    """Return what it costs."""
    session = found.session
    apart = f"two values up to {near(session.adjacency)} apart"
    if session.asked is not None:
        apart = "any two records"
    return [
        Row("loss", up(found.loss), "all that an agent's messages can cost it; the cap must allow it"),
        Row("first", up(found.first_loss), "of which its first message costs this"),
        Row(
            "protection",
            strength(found.loss).name,
            f"who sees everything and must tell apart {apart} is right at most {right_at_most(found.loss)} "
            "of the time; a blind guess is right 50% of the time",
        ),
        Row(
            "factor",
            up(found.factor),
            "e^loss: how many times likelier one of them can become than the other",
        ),
        _asked_row(session),
    ]


def _asked_row(session: Session) -> Row:
    many = "a number" if session.components == 1 else f"{session.components:,} numbers"
    if session.asked is not None:
        fields = " and ".join(f"a {kind}" if kind != "yes or no" else kind for kind in session.asked.fields)
        return Row(
            "asks for",
            plain(short_form(session.asked)),
            f"a record is {fields}; one off its domain is clamped to it",
        )
    if session.motion is not None:
        many = "a number" if session.motion.values == 1 else f"{session.motion.values:,} numbers"
    ends = f"{near(session.lattice.low)} to {near(session.lattice.high)}"
    return Row("range", ends, f"every value is {many} in it; one off it counts as the nearest end")


def rule_rows(found: Explanation) -> list[Row]:
    """Return its rules."""
    session = found.session
    what = "agents" if session.topology == "server" else "agents,"
    size = (session.mask_bytes or session.number_bytes) * session.components
    sent = "once" if session.exchanges == 1 else "once a round"
    of = f"of {session.n:,}" if session.topology == "server" else "of an agent and its neighbours"
    return [
        Row(
            "start",
            f"{session.least_start:,}",
            f"{what} {of} at least; all of them in the first {session.deadlines.start:g} s",
        ),
        Row("quorum", f"{session.least_quorum:,}", f"messages {of} at least close a round"),
        Row(
            "deadline",
            f"{session.deadlines.round:g} s",
            f"for a round; {found.longest:,.0f} s at most for all",
        ),
        Row("expires", session.expiry, "nobody joins or speaks after that; what was not said is not lost"),
        Row("message", f"{size:,}", f"bytes of numbers, sent {sent}"),
        *(Row("keeper", keeper.name, f"its key is {key_text(keeper.key)}") for keeper in session.keepers),
    ]
