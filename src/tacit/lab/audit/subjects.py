"""Subjects of an audit: they make transcripts for chosen values.

`Simulated` runs a mechanism many times at once. Its noise is not private, but its messages are rounded to
a lattice, as deployed ones are, so that testers of low bits find only planted bugs. The mechanisms with
known bugs are built from it. The same seed gives the same transcripts on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from tacit.base.arrays import FloatArray, IntArray, per_agent_columns
from tacit.base.errors import ParameterError
from tacit.core.history import History
from tacit.core.mechanism import Distributed, Mechanism
from tacit.core.mechanism.topology import ClosedNeighbourhood
from tacit.core.motion import Mixing
from tacit.core.theory.finite_precision import message_step
from tacit.lab.audit.likelihood import nearest_up
from tacit.lab.audit.portable import laplace

Unit: TypeAlias = Callable[[np.random.Generator, tuple[int, ...]], FloatArray]
"""Draws noise of scale 1, of shape (runs, slots, n) or (runs, slots, n, k)."""

_DIGITS = 53  # of a double: messages must be whole numbers of steps that fit one
_ROOM = 16  # noise scales; larger draws are rare
_OWN = (0x7AC17, 0xA0D17)  # keeps the random streams of this module apart from all others
_CHUNK = 4_000_000  # numbers held at once


class Subject(Protocol):
    """Anything that makes transcripts for chosen values.

    Attributes
    ----------
    name : str
    mechanism : Mechanism
        What it declares to run.
    low_bits : bool
        Whether its promise is meant to hold for the bytes it sends, not only for real numbers.
    """

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def mechanism(self) -> Mechanism: ...  # noqa: D102

    @property
    def low_bits(self) -> bool: ...  # noqa: D102

    def __call__(self, values: npt.ArrayLike, rounds: int, runs: int, seed: int) -> History:
        """Return `runs` independent transcripts of `rounds` rounds."""
        ...


@dataclass(frozen=True, eq=False)
class Moment:
    """The data from which agents make a message.

    Arrays have shape (runs, n) or (runs, n, k).

    Attributes
    ----------
    start : array
        The private starts, without the axis of runs.
    state : array
        What noise is added to.
    noise : array
        Drawn for this message, at its scale.
    pull : array
        The last feedback minus the state before it; 0 at first.
    step : array
        Of the message lattice.
    """

    start: FloatArray
    state: FloatArray
    noise: FloatArray
    pull: FloatArray
    step: FloatArray


Say: TypeAlias = Callable[[Moment], FloatArray]
"""Makes the messages."""


def rounded(now: Moment) -> FloatArray:
    """The sum of state and noise to the nearest step of the lattice.

    On a fine lattice many sums of doubles are ties. Rounding these to even would make low bits unfair.
    """
    return nearest_up((now.state + now.noise) / now.step) * now.step


def unrounded(now: Moment) -> FloatArray:
    """The sum in doubles."""
    return now.state + now.noise


@dataclass(frozen=True)
class Simulated:
    """A mechanism run with NumPy noise, with options to deviate from it.

    Parameters
    ----------
    mechanism : Mechanism
        Declared, and followed except for the deviations below.
    unit : function
        Draws all the noise, at scale 1.
    sigma : float, optional
        The mixing that agents actually use.
    misses : bool
        Agents take turns in being away for a round: they neither send nor receive.
    retries : "none", "repeat" or "redraw"
        Whether agents are asked again in every fourth round, and what they answer.
    by_round : bool
        Let the noise fade with the round instead of with the agent's own updates.
    lattice : bool
        Declare the lattice of the noise, and round messages to it.
    say : function, optional
        Makes messages from states and noise in another way.
    bits : int
        The message step is at most 2^−bits times the scale of the noise.
    """

    mechanism: Mechanism
    name: str = "simulated"
    unit: Unit = laplace
    sigma: float | None = None
    misses: bool = False
    retries: Literal["none", "repeat", "redraw"] = "none"
    by_round: bool = False
    lattice: bool = True
    say: Say | None = None
    bits: int = 40
    low_bits: bool = field(default=True)

    def __post_init__(self) -> None:
        if self.mechanism.keepers:
            raise ParameterError(
                "a simulated subject has agents that add their own noise: for keepers use "
                "tacit.lab.audit.conspiracy.MaskedSessions."
            )

    def __call__(self, values: npt.ArrayLike, rounds: int, runs: int, seed: int) -> History:
        """Run `runs` sessions from the same values."""
        theta = self.mechanism.states(values)
        rng = np.random.default_rng([seed, *_OWN])  # a bare seed would be the bug `guessable-seed`
        return History.stack(
            [self._play(theta, rounds, some, rng) for some in self._chunks(theta, rounds, runs)]
        )

    def _chunks(self, theta: FloatArray, rounds: int, runs: int) -> Iterator[int]:
        most = max(1, _CHUNK // (2 * rounds * theta.size))
        for start in range(0, runs, most):
            yield min(most, runs - start)

    def _play(self, values: FloatArray, rounds: int, runs: int, rng: np.random.Generator) -> History:
        say = self.say or (rounded if self.lattice else unrounded)
        slots = _slots(rounds, self.retries != "none")
        away = _away(rounds, self.mechanism.n, self.misses)
        tail = values.shape[1:]
        unit = self.unit(rng, (runs, len(slots), *values.shape))
        table = self._scales(rounds)
        finest = _finest_step(values, table)
        theta = np.broadcast_to(values, (runs, *values.shape))
        shadow, heard, pull = theta, np.zeros(self.mechanism.n, np.int64), np.zeros_like(theta)
        x, y, said = np.zeros(unit.shape), [], np.ones(unit.shape[:3], dtype=np.bool_)
        update, steps = np.empty((2, len(slots), self.mechanism.n), np.int64)
        for slot, t in enumerate(slots):
            scale = table[np.full_like(heard, t) if self.by_round else heard, np.arange(len(heard))]
            said[:, slot, away[t]] = False
            update[slot], steps[slot] = (
                heard,
                _exponents(table[heard, np.arange(len(heard))], finest, self.bits),
            )
            again = slot > 0 and slots[slot - 1] == t
            if again and self.retries == "repeat":
                x[:, slot] = x[:, slot - 1]
            else:
                eta = unit[:, slot] * per_agent_columns(scale, values.ndim)
                step = np.ldexp(1.0, steps[slot]).reshape(-1, *(1,) * len(tail))
                x[:, slot] = say(Moment(values, shadow, eta, pull, step))
                x[:, slot, away[t]] = 0.0
            if slot + 1 < len(slots) and slots[slot + 1] == t:
                continue
            y.append(self._feedback(x[:, slot], ~away[t]))
            after = self._update(theta, y[-1])
            here = ~away[t].reshape(-1, *(1,) * len(tail))
            spoken = self._update(x[:, slot], y[-1]) if self.mechanism.shadowed else after
            pull = np.where(here, _as_columns(y[-1], theta) - theta, pull)
            theta, shadow = np.where(here, after, theta), np.where(here, spoken, shadow)
            heard = heard + ~away[t]
        exponent = steps[None] if self.lattice else None
        return History(self.mechanism, x, np.stack(y, axis=1), said, np.array(slots), update[None], exponent)

    def _scales(self, rounds: int) -> FloatArray:
        """Laplace scale of each agent's update, of shape (rounds, n)."""
        law, updates = self.mechanism.law, np.arange(rounds)
        return np.stack([law.of_agent(i).upper_scales(updates) for i in range(self.mechanism.n)], axis=1)

    def _feedback(self, x: FloatArray, here: npt.NDArray[np.bool_]) -> FloatArray:
        """Return the mean of the messages of the agents that spoke.

        Its shape is (runs, …) from a server, and (runs, n, …) on a graph.
        """
        by_agent, spoke = np.swapaxes(x, 0, 1), here.astype(np.float64)
        if not isinstance(self.mechanism, Distributed):
            return np.asarray(self.mechanism.aggregate(by_agent) / self.mechanism.aggregate(spoke))
        rows = self.mechanism.topology
        share, total = rows.aggregate(spoke), rows.aggregate(by_agent)
        if rows.keeps_missing:  # as a session's peers do it
            kept = np.where(here, 1 - share, 0.0)
            share, total = share + kept, total + per_agent_columns(kept, by_agent.ndim) * by_agent
        if not share.all():  # those who came count 0: then they count the same
            plain, nothing = ClosedNeighbourhood(rows.graph), share == 0
            share = np.where(nothing, plain.aggregate(spoke), share)
            total[nothing] = plain.aggregate(by_agent)[nothing]
        return np.asarray(np.swapaxes(total / per_agent_columns(share, by_agent.ndim), 0, 1))

    def _update(self, theta: FloatArray, y: FloatArray) -> FloatArray:
        motion = self.mechanism.motion if self.sigma is None else Mixing(self.sigma)
        return np.asarray(motion.move(theta, _as_columns(y, theta), axis=1))


def _finest_step(values: FloatArray, scales: FloatArray) -> float:
    """Return the finest step of which doubles hold all messages exactly."""
    largest = float(np.abs(values).max() + _ROOM * scales.max())
    return math.ldexp(1.0, math.frexp(largest)[1] - _DIGITS)


def _exponents(scale: FloatArray, finest: float, bits: int) -> IntArray:
    """Return log2 of the message lattice's step, for each agent."""
    steps = [message_step(s, finest, bits) if s > 0 else finest for s in scale.tolist()]
    return np.frexp(steps)[1].astype(np.int64) - 1


def _as_columns(y: FloatArray, theta: FloatArray) -> FloatArray:
    """Shape feedback like the states: a server's is the same for all agents."""
    return y if y.ndim == theta.ndim else y[:, None]


def _slots(rounds: int, retries: bool) -> list[int]:
    """The round of each slot; with retries, every fourth round has two."""
    return [t for t in range(rounds) for _ in range(1 + (retries and t % 4 == 0))]


def _away(rounds: int, n: int, misses: bool) -> npt.NDArray[np.bool_]:
    """Who is away in which round: agents take turns, and never all at once."""
    t, i = np.arange(rounds)[:, None], np.arange(n)
    return np.asarray((t + i) % max(3, n) == 1) & (misses and n > 1)
