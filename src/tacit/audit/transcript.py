"""Recorded transcripts: what an adversary saw of sessions with the same public parameters.

A session is a row of *slots*. Usually there is one slot per round; where an agent was asked again
in a round, there is one more slot with that round's number. Nothing private is in here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.arrays import FloatArray, IntArray, frozen, require_finite
from tacit.audit.portable import powers
from tacit.errors import StateError
from tacit.law import Law
from tacit.mechanism import ClientServer, Execution, Mechanism
from tacit.mechanism.lattice import Lattice
from tacit.mechanism.whole import WholeArray


@dataclass(frozen=True, eq=False, repr=False)
class Wholes:
    """The whole numbers that were sent on a lattice; floats may not hold all their digits.

    Attributes
    ----------
    x : array of whole numbers, shaped like the messages
        In message steps; 0 where nothing was said.
    y : array of whole numbers, shaped like the feedback
        In state steps.
    """

    lattice: Lattice
    x: WholeArray
    y: WholeArray


@dataclass(frozen=True, eq=False, repr=False)
class Transcripts:
    """Sessions of one mechanism, as heard on all wires.

    Attributes
    ----------
    mechanism : Mechanism
        What the sessions are declared to run. Nobody has checked it: the auditor does.
    x : array, shape (runs, slots, n) or (runs, slots, n, k)
        Messages; NaN where an agent said nothing.
    y : array, shape (runs, rounds) or (runs, rounds, k); on a graph (runs, rounds, n), …
        Feedback, per round.
    rounds_of : int array, shape (slots,)
        The round that a slot belongs to.
    update : int array, shape (1 or runs, slots, n)
        How many updates the agent had made; it says so with each message.
    exponent : int array like `update`, or None
        Messages are declared to be whole multiples of 2^exponent.
    wholes : Wholes, optional
        The same messages and feedback exactly, on a lattice.
    """

    mechanism: Mechanism
    x: FloatArray
    y: FloatArray
    rounds_of: IntArray
    update: IntArray
    exponent: IntArray | None = None
    wholes: Wholes | None = None

    def __post_init__(self) -> None:
        _check(self)
        for array in (self.x, self.y, self.rounds_of, self.update, self.exponent):
            if array is not None:
                frozen(array)

    def __repr__(self) -> str:
        return (
            f"<Transcripts {self.mechanism.kind}, {self.runs:,} sessions, {self.rounds} rounds, "
            f"{self.mechanism.n} agents>"
        )

    @property
    def runs(self) -> int:
        """Number of sessions."""
        return len(self.x)

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return int(self.y.shape[1])

    @property
    def components(self) -> int | None:
        """Length of the messages; None for plain numbers."""
        return int(self.x.shape[3]) if self.x.ndim == 4 else None

    def __getitem__(self, which: slice | npt.NDArray[np.generic]) -> Transcripts:
        """Return some of the sessions."""

        def part(array: Any) -> Any:
            return array if array is None or len(array) == 1 else array[which]

        wholes = self.wholes and replace(self.wholes, x=self.wholes.x[which], y=self.wholes.y[which])
        shared = {name: part(getattr(self, name)) for name in ("update", "exponent")}
        return replace(self, x=self.x[which], y=self.y[which], wholes=wholes, **shared)

    def prefix(self, rounds: int) -> Transcripts:
        """Return what had been seen after so many rounds."""
        if not 1 <= rounds <= self.rounds:
            raise StateError(f"a prefix must have 1 to {self.rounds} rounds, got {rounds}.")
        slots = int(np.searchsorted(self.rounds_of, rounds))
        wholes = self.wholes
        return replace(
            self,
            x=self.x[:, :slots],
            y=self.y[:, :rounds],
            rounds_of=self.rounds_of[:slots],
            update=self.update[:, :slots],
            exponent=None if self.exponent is None else self.exponent[:, :slots],
            wholes=wholes and replace(wholes, x=wholes.x[:, :slots], y=wholes.y[:, :rounds]),
        )

    def of(self, agent: int) -> AgentTranscripts:
        """Return one agent's messages and the feedback it heard: all that bears on its value."""
        if not 0 <= agent < self.mechanism.n:
            raise StateError(f"agent must be a number from 0 to {self.mechanism.n - 1}, got {agent}.")
        i, parameters, wholes = agent, self.mechanism.law, self.wholes
        server = isinstance(self.mechanism, ClientServer)
        return AgentTranscripts(
            law=parameters.of_agent(agent),
            x=self.x[:, :, i],
            y=self.y if server else self.y[:, :, i],
            rounds_of=self.rounds_of,
            update=self.update[:, :, i],
            exponent=None if self.exponent is None else self.exponent[:, :, i],
            wholes=wholes
            and replace(wholes, x=wholes.x[:, :, i], y=wholes.y if server else wholes.y[:, :, i]),
        )

    @classmethod
    def plain(
        cls,
        mechanism: Mechanism,
        x: FloatArray,
        y: FloatArray,
        *,
        exponent: IntArray | None = None,
        wholes: Wholes | None = None,
    ) -> Transcripts:
        """Make transcripts in which everyone spoke once and heard in every round."""
        slots, n = x.shape[1:3]
        update = np.broadcast_to(np.arange(slots)[:, None], (slots, n))[None].copy()
        return cls(mechanism, x, y, np.arange(slots), update, exponent, wholes)

    @classmethod
    def from_executions(cls, executions: Sequence[Execution]) -> Transcripts:
        """Forget what is private of executions of one mechanism."""
        if not executions or len({e.x.shape for e in executions}) != 1:
            raise StateError(
                "executions must be at least one, all with the same agents, rounds and components."
            )
        x = np.stack([execution.x for execution in executions])
        y = np.stack([execution.y for execution in executions])
        return cls.plain(executions[0].mechanism, x, y)

    @classmethod
    def join(cls, parts: Sequence[Transcripts]) -> Transcripts:
        """Put sessions of one mechanism together."""
        first = parts[0]
        shapes = {(p.x.shape[1:], p.y.shape[1:], p.wholes is None, p.exponent is None) for p in parts}
        if len(shapes) != 1 or not all(np.array_equal(p.rounds_of, first.rounds_of) for p in parts):
            raise StateError(
                "transcripts must have the same agents, rounds, retries and components to be judged "
                "together: keep sessions that differ in separate folders."
            )
        wholes = [p.wholes for p in parts if p.wholes is not None]
        return replace(
            first,
            x=np.concatenate([p.x for p in parts]),
            y=np.concatenate([p.y for p in parts]),
            update=_joined([p.update for p in parts], parts),
            exponent=None
            if first.exponent is None
            else _joined([p.exponent for p in parts if p.exponent is not None], parts),
            wholes=None
            if first.wholes is None
            else replace(
                first.wholes,
                x=np.concatenate([w.x for w in wholes]),
                y=np.concatenate([w.y for w in wholes]),
            ),
        )


@dataclass(frozen=True, eq=False, repr=False)
class AgentTranscripts:
    """One agent's part of transcripts: all that bears on its initial value.

    The fields are those of `Transcripts` without the axis of agents, and the agent's own
    law.
    """

    law: Law
    x: FloatArray
    y: FloatArray
    rounds_of: IntArray
    update: IntArray
    exponent: IntArray | None = None
    wholes: Wholes | None = None

    @property
    def scales(self) -> FloatArray:
        """Laplace scale of each slot's message, shaped like `update`; 0 where nothing is drawn."""
        return self.law.upper_scales(self.update)

    @property
    def sigma(self) -> float:
        """The agent's mixing."""
        return float(self.law.sigma)

    @property
    def fades(self) -> FloatArray:
        """By how much a difference of starts has faded at each slot: (1−σ)^u, eq:upd."""
        return powers(1 - self.sigma, self.update)


def _joined(arrays: Sequence[IntArray], parts: Sequence[Transcripts]) -> IntArray:
    """Join what all sessions may share, and keep it shared where it is."""
    if all(len(a) == 1 and np.array_equal(a, arrays[0]) for a in arrays):
        return arrays[0]
    rows = [np.broadcast_to(a, (p.runs, *a.shape[1:])) for a, p in zip(arrays, parts, strict=True)]
    return np.concatenate(rows)


def _check(t: Transcripts) -> None:
    """Refuse shapes that do not fit together and numbers that nobody can have sent."""
    n = t.mechanism.n
    if t.x.ndim not in (3, 4) or t.x.shape[2] != n or 0 in t.x.shape:
        raise StateError(f"messages must have shape (runs, slots, {n}) or one axis more, got {t.x.shape}.")
    runs, slots = t.x.shape[:2]
    rounds = t.y.shape[1] if t.y.ndim > 1 else 0
    tail = t.x.shape[3:] if isinstance(t.mechanism, ClientServer) else t.x.shape[2:]
    if t.y.shape != (runs, rounds, *tail):
        raise StateError(
            f"feedback must have shape {(runs, 'rounds', *tail)} to go with the messages, got {t.y.shape}."
        )
    order = np.diff(t.rounds_of, prepend=-1)
    if len(t.rounds_of) != slots or order.min() < 0 or order.max() > 1 or t.rounds_of[-1] != rounds - 1:
        raise StateError("slots must belong to rounds 0, 1, … in order, at least one slot per round.")
    if t.update.shape not in ((1, slots, n), (runs, slots, n)):
        raise StateError(f"update must have shape (1 or {runs}, {slots}, {n}), got {t.update.shape}.")
    steps = np.diff(t.update, axis=1)
    if t.update[:, 0].any() or (steps < 0).any() or (steps > order[1:, None]).any():
        raise StateError("update counts must start at 0 and rise by 0 or 1 from round to round.")
    if t.wholes is not None and (t.wholes.x.shape != t.x.shape or t.wholes.y.shape != t.y.shape):
        raise StateError("whole numbers must have the shapes of the messages and the feedback.")
    if np.isinf(t.x).any():
        raise StateError("messages must be finite numbers, or NaN where nothing was said; got infinity.")
    require_finite(t.y, "feedback")
