"""Agents with their own dynamics in a session.

A session says how its agents move in one of three ways. `linear` has A, B and C for all. `envelope` and
`geometric envelope` have only bounds on the influence of a start; A, B and C are then each agent's own, and
the agent compares its distances with the bounds before it says anything.

States are computed by the agents. A session of measured states is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, final

import msgspec
import numpy as np
from msgspec.structs import asdict

from tacit.base.arrays import ByValue
from tacit.base.errors import MotionError, ParameterError, StateError
from tacit.core.law import Law, named
from tacit.core.mechanism.lattice import LatticeAgent
from tacit.core.mechanism.whole import Whole, WholeArray
from tacit.core.motion import Bounded, Linear, Motion
from tacit.core.protocol.fields import FieldTable, Real

if TYPE_CHECKING:
    from tacit.core.protocol.session import Session

MOST_NUMBERS: Final = 16
"""The most numbers of a state in a session."""
MOST_MOVING_ROUNDS: Final = 2_000
"""The most rounds of agents with their own dynamics: distances are exact, and grow longer with each."""
COMPUTED: Final = "computed"
_UNIT = 1e-9  # how near a gain must be to 1, and a lag to the declared one
_MOST_BITS = 4096  # of a number of a state


class LinearTable(FieldTable, frozen=True):
    """Agents that all move by z⁺ = Az + By and say Cz."""

    kind: str
    state: str
    A: tuple[tuple[Real, ...], ...]
    B: tuple[Real, ...]
    C: tuple[Real, ...]
    names: tuple[str, ...]
    private: tuple[tuple[int, Real], ...]
    norm: str
    start: tuple[Real, ...]


class EnvelopeTable(FieldTable, frozen=True):
    """Agents that keep A, B and C to themselves, within bounds."""

    kind: str
    state: str
    influence: tuple[Real, ...]
    lag: Real


class GeometricTable(FieldTable, frozen=True):
    """The same, with bounds κ·ρ^u."""

    kind: str
    state: str
    kappa: Real
    rho: Real
    lag: Real


TABLES: Final[dict[str, type[FieldTable]]] = {
    "linear": LinearTable,
    "envelope": EnvelopeTable,
    "geometric envelope": GeometricTable,
}


@final
@dataclass(frozen=True, eq=False)
class Moving(ByValue):
    """How agents of a session move, and where they start.

    Parameters
    ----------
    motion : Linear or Bounded
    start : tuple of float
        Public: what is added to the private numbers, and what the others are. Empty if A, B and C are not
        public.
    """

    motion: Linear | Bounded
    start: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        motion = self.motion
        if not isinstance(motion, Linear | Bounded):
            raise ParameterError(
                "agents of a session must be linear, or within an envelope of public bounds, got the motion "
                f"{getattr(motion, 'name', type(motion).__name__)!r}."
            )
        size = motion.dimension if isinstance(motion, Linear) else 0
        start = tuple(float(number) + 0.0 for number in (self.start or (0.0,) * size))
        if len(start) != size or not all(map(math.isfinite, start)):
            raise ParameterError(
                f"the public start must be one finite number for each of the {size} numbers of a state, got "
                f"{len(start)}."
            )
        object.__setattr__(self, "start", start)
        if isinstance(motion, Linear):
            _require_linear(motion)

    @property
    def values(self) -> int:
        """How many private numbers an agent has."""
        return len(self.motion.private) if isinstance(self.motion, Linear) else 1

    def diameter(self, low: float, high: float) -> Fraction:
        """Return how many units of adjacency two values can be apart."""
        span = Fraction(high) - Fraction(low)
        if not isinstance(self.motion, Linear):
            return span
        each = [span / Fraction(width) for _, width in self.motion.private]
        return sum(each, Fraction(0)) if self.motion.norm == "l1" else max(each)

    @property
    def shift(self) -> float:
        """What the public start adds to the value agreed on, C(I − A)^−1·z̄/τ."""
        if not isinstance(self.motion, Linear):
            return 0.0
        return float(self.motion.settling @ np.array(self.start)) / self.motion.lag

    def begin(self, values: Any, state_exponent: int) -> WholeArray:
        """Return the start of a state, each number to the nearest step, ties up."""
        assert isinstance(self.motion, Linear)
        exact = [Fraction(number) for number in self.start]
        for (place, _), value in zip(self.motion.private, values, strict=True):
            exact[place] += Fraction(value)
        step = Fraction(2) ** state_exponent
        made = np.empty(len(exact), dtype=object)
        made[:] = [math.floor(number / step + Fraction(1, 2)) for number in exact]
        return made

    def encode(self) -> bytes:
        """Write it, for the agent's own records."""
        return msgspec.msgpack.Encoder(order="deterministic").encode(moving_fields(self))


def _require_linear(motion: Linear) -> None:
    if motion.measured:
        raise MotionError(
            "states in a session are computed by the agents, and this motion is of a measured state: a "
            "session reads no sensor. Let the plant follow the computed state, or use `analyze`."
        )
    if motion.dimension > MOST_NUMBERS:
        raise ParameterError(
            f"a state in a session has at most {MOST_NUMBERS} numbers, got {motion.dimension}."
        )
    if motion.norm == "l2":
        raise ParameterError("private numbers of a session change in a box or an l1 ball, got the norm l2.")
    if min(width for _, width in motion.private) < 1:
        raise ParameterError(
            "the widths of private numbers in a session must be at least 1, because its adjacency is in the "
            "unit of the values: divide the adjacency by the least width, and multiply the widths by it."
        )


# ---- in a session file and in canonical bytes -------------------------------------------------------


def moving_fields(moving: Moving) -> dict[str, Any]:
    """Return the table of a motion, as session files have it."""
    motion = moving.motion
    found: dict[str, Any] = {"state": COMPUTED}
    if isinstance(motion, Linear):
        found |= {"kind": "linear", "names": motion.names, "norm": motion.norm, "start": moving.start}
        found |= {"A": _plain(motion.A), "B": _plain(motion.B), "C": _plain(motion.C)}
        found |= {"private": tuple((place, width + 0.0) for place, width in motion.private)}
    else:
        found |= {"kind": "geometric envelope", "lag": motion.lag_of_all + 0.0}
        if motion.bounds:
            found |= {"kind": "envelope", "influence": _plain(np.array(motion.bounds))}
        else:
            found |= {"kappa": motion.kappa + 0.0, "rho": motion.rho + 0.0}
    return asdict(msgspec.convert(found, TABLES[found["kind"]]))


def _plain(numbers: Any) -> Any:
    """Return numbers without a negative zero, which would hash differently."""
    return tuple(map(_plain, numbers)) if np.ndim(numbers) else float(numbers) + 0.0


def moving_of(table: Mapping[str, Any]) -> Moving:
    """Return the motion that a table says; it refuses wrong parameters."""
    given = {name: value for name, value in table.items() if name not in ("kind", "state", "start")}
    if table["state"] != COMPUTED:
        raise MotionError(
            f"the state of agents in a session must be {COMPUTED!r}, got {table['state']!r}: a session reads "
            "no sensor, and noise once on a measured state would give the start away. Let the plant follow "
            "the computed state."
        )
    if table["kind"] == "linear":
        return Moving(Linear(**given | {"private": dict(given["private"])}), table["start"])
    bounds, lag = given.get("influence", ()), given["lag"]
    if table["kind"] == "envelope" and not bounds:
        raise ParameterError("the influence of an envelope must have one bound per round.")
    return Moving(Bounded(bounds, lag, given.get("kappa", 0.0), given.get("rho", 0.0)))


def decode_moving(data: bytes) -> Moving:
    """Read what `Moving.encode` wrote."""
    return moving_of(asdict(msgspec.msgpack.decode(data, type=LinearTable)))


# ---- what a session with a motion must be -----------------------------------------------------------


def require_moving(session: Session, moving: Moving) -> None:
    """Refuse what agents with their own dynamics cannot do in a session."""
    motion, law = moving.motion, named(session.law)
    if session.series is not None or session.asked is not None or session.components != 1:
        raise ParameterError(
            "agents with their own dynamics say one number, whose mean is wanted: leave out series, question "
            "and components."
        )
    if session.keepers:
        raise ParameterError(
            "keepers cannot serve agents with their own dynamics yet: let every agent add its own noise, and "
            "leave the keepers out."
        )
    if not law.pure:
        raise ParameterError(f"sessions draw Laplace noise, got the law {session.law}.")
    require_few_rounds(session.rounds)
    if isinstance(motion, Bounded) and motion.bounds and len(motion.bounds) != session.rounds:
        raise ParameterError(
            f"an envelope must have one bound for each of the {session.rounds} rounds, got "
            f"{len(motion.bounds)}."
        )
    session.mechanism  # noqa: B018 - refuses parameters out of range
    if law.shadowed:
        motion.width  # noqa: B018 - refuses several private numbers
    if isinstance(motion, Linear):
        require_fitting(session, moving)


def require_few_rounds(rounds: int) -> None:
    """Refuse a session whose exact account would take too long."""
    if rounds > MOST_MOVING_ROUNDS:
        raise ParameterError(
            f"agents with their own dynamics have at most {MOST_MOVING_ROUNDS:,} rounds in a session, got "
            f"{rounds:,}: their account is exact, and takes longer with every round."
        )


def require_fitting(session: Session, moving: Moving) -> None:
    """Refuse a reach that is too short, and states that grow without bound."""
    motion, lattice = moving.motion, session.lattice
    assert isinstance(motion, Linear)
    start = max(abs(lattice.low), abs(lattice.high)) + max(map(abs, moving.start))
    if motion.room(start, 0.0) > lattice.reach:
        raise ParameterError(
            f"the session's reach must hold the public start, {motion.room(start, 0.0):g}, but is "
            f"{lattice.reach:g}. Raise reach_exponent."
        )
    most = motion.reach(max(start, lattice.reach), lattice.reach)
    if not math.isfinite(most) or math.frexp(most)[1] - lattice.state_exponent > _MOST_BITS:
        raise MotionError(
            "the states of these agents could become too large to be stored. Add damping, or scale C and B."
        )


# ---- an agent whose A, B and C are its own ----------------------------------------------------------


def own_arithmetic(session: Session, number: int, own: Moving | None) -> tuple[LatticeAgent, Moving | None]:
    """Return an agent's arithmetic, and how it moves; None if it mixes.

    An agent that brings its own A, B and C is refused unless its distances are within the session's bounds,
    before it says anything.
    """
    public = session.motion
    if public is None or isinstance(public.motion, Linear):
        if own is not None:
            raise ParameterError(
                f"session {session.name} says how its agents move: leave out the agent's own motion."
            )
        return session.lattice_agent(number), public
    if own is None:
        raise ParameterError(
            f"in session {session.name} A, B and C are each agent's own: give them (--motion FILE)."
        )
    return _covered(session, own), own


def _covered(session: Session, own: Moving) -> LatticeAgent:
    assert session.motion is not None
    motion, public = own.motion, session.motion.motion
    if not isinstance(motion, Linear) or motion.width != 1:
        raise ParameterError(
            "an agent's own motion must have A, B and C, and one private number with width 1: the session's "
            "adjacency is in the unit of the value."
        )
    far = abs(motion.gain - 1), abs(motion.lag / public.lag - 1)
    if max(far) > _UNIT:
        raise MotionError(
            f"the gain of an agent must be 1 and its lag {public.lag:.9g}, as the session says, got "
            f"{motion.gain:.9g} and {motion.lag:.9g}: the result would be another one."
        )
    law = own_law(session, motion)
    require_fitting(session, own)
    if not law.shadowed:  # noise once costs the same for every motion
        _require_within(session, motion, public)
    return LatticeAgent(session.lattice, law)


def require_same(given: Moving | None, recorded: Moving) -> Moving:
    """Return how an agent began to move; refuse to go on in another way."""
    if given is not None and given != recorded:
        raise ParameterError(
            "the agent's own motion must be the one that it began this session with, which its ledger has: "
            "with another one its loss would be larger than promised. Leave it out, or give the same file."
        )
    return recorded


def own_law(session: Session, motion: Motion) -> Law:
    """Return the session's law with this motion."""
    given = {word: value for word, value in session.parameters.items() if word != "mixing"}
    return named(session.law).from_words({"mixing": motion, **given})


def _require_within(session: Session, motion: Linear, public: Motion) -> None:
    """Compare the very distances of which the account is made."""
    start = math.ceil(Fraction(session.adjacency) / Fraction(2) ** session.lattice.state_exponent)
    mine = islice(motion.steps_apart(start, 1), session.rounds)
    for u, (own, bound) in enumerate(zip(mine, public.steps_apart(start, 1), strict=False)):
        if own > bound:
            raise MotionError(
                f"the influence of this agent's start on message {u} is {own / start:.6g} with rounding, "
                f"above the {bound / start:.6g} that session {session.name} allows: its loss would be larger "
                "than promised. Nothing is sent. Add damping, or ask for a session with wider bounds."
            )


# ---- states of several numbers in records -----------------------------------------------------------


def pack_state(state: Whole) -> bytes:
    """Write whole numbers of any length, all equally long."""
    width = max(int(number).bit_length() for number in np.atleast_1d(state)) // 8 + 1
    return b"".join(int(number).to_bytes(width, "big", signed=True) for number in np.atleast_1d(state))


def unpack_state(data: bytes, numbers: int) -> WholeArray:
    """Read what `pack_state` wrote."""
    width = len(data) // numbers
    if width * numbers != len(data) or not width:
        raise StateError("the ledger's records must be of this agent's motion, and these are not.")
    made = np.empty(numbers, dtype=object)
    made[:] = [int.from_bytes(data[k : k + width], "big", signed=True) for k in range(0, len(data), width)]
    return made
