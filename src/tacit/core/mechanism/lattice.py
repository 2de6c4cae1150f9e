"""The mechanisms on whole numbers, as the proofs need them.

So the proofs hold for the program that runs. States are multiples of the state step s = 2^state_exponent,
fixed for a session. Message u is a multiple of the message step g_u, which shrinks with the noise: it is the
largest power of two that is at most 2^−bits·b_u, never below s. b_u is the law's scale of update u as a
float64, rounded up. Feedback is a multiple of s. All rounding is to the nearest, ties up: floor(value/step +
1/2). This rounding depends only on the value, keeps order, and commutes with adding whole steps.
docs/proofs/lattice.md needs only these three properties.

Nothing here draws noise: the caller passes it in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast, final

import numpy as np

from tacit.base.errors import ParameterError, StateError
from tacit.core.law import Law
from tacit.core.law.once import Ends
from tacit.core.mechanism.whole import Whole, as_whole, nearest
from tacit.core.motion import Motion

if TYPE_CHECKING:
    import numpy.typing as npt

_NOISE_ROOM = 64
"""Messages have room for this many noise scales. A draw exceeds it with probability e^−64 = 1.6·10^−28."""


@final
@dataclass(frozen=True)
class Lattice:
    """The grid for all numbers of a session.

    It is public, and the same for all members.

    Parameters
    ----------
    low, high : float
        The declared range of values.
    state_exponent : int
        The state step is s = 2^state_exponent.
    bits : int
        The message step is at most 2^−bits times the scale of the noise.
    reach_exponent : int, optional
        No state, message or feedback leaves ±2^reach_exponent, so that every whole number fits in
        `whole_bits`. By default 2^20 times the range or more.

    Notes
    -----
    A value outside the range is clamped before any noise is added. Refusing it would leak information about
    the value, because others see who does not take part. NaN and infinities are refused. States cannot leave
    the reach (docs/proofs/lattice.md), so a refusal after the start depends only on public numbers.
    """

    low: float
    high: float
    state_exponent: int = -80
    bits: int = 40
    reach_exponent: int | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ParameterError(f"the range must be finite with low < high, got {self.low} to {self.high}.")
        if not -900 <= self.state_exponent <= 900:
            raise ParameterError(f"state_exponent must be from -900 to 900, got {self.state_exponent}.")
        if not 8 <= self.bits <= 51:
            raise ParameterError(
                f"bits must be from 8 to 51, got {self.bits}: with fewer, rounding costs privacy; with more, "
                "there is no exact sampler."
            )
        least = max(math.frexp(max(abs(self.low), abs(self.high)))[1], self.state_exponent + 1)
        if self.reach_exponent is None:
            object.__setattr__(self, "reach_exponent", least + 20)
        elif least > 1000:
            raise ParameterError(f"the range must be within ±2^1000, got {self.low} to {self.high}.")
        elif not least <= self.reach_exponent <= 1000:
            raise ParameterError(
                f"reach_exponent must be from {least} to 1000, got {self.reach_exponent}: "
                "the range and the state step must fit below the reach."
            )

    @classmethod
    def fitting(
        cls,
        law: Law,
        rounds: int,
        low: float,
        high: float,
        *,
        bits: int = 40,
    ) -> Lattice:
        """Return a lattice for a number of rounds.

        It is fine enough for them, and wide enough for their noise. The state step is at most 2^−(bits+16)
        times the last noise scale, and finer by what rounding adds up to in the states (`Motion.fineness`, σ
        for mixing). Rounded states then add less than 2^−(bits+14) per component to the loss
        of all messages.
        """
        kinds = law.kinds()
        last = min(kind.least_scale(rounds) for kind in kinds)
        if last == 0:
            raise ParameterError(f"noise must not vanish: after {rounds} rounds it is below 2^-1000.")
        finest = last * law.motion.fineness
        exponent = math.frexp(finest)[1] - 1 - bits - 16
        most = max(kind.largest_scale(rounds) for kind in kinds)
        if law.two_valued:  # messages are no larger, and nobody can say more
            grid = cls(low, high, exponent, bits, 1000)
            ends = grid.agent(law).ends
            most_said = max(abs(end) for end in ends) << (grid.agent(law).message_exponent(0) - exponent)
            return cls(low, high, exponent, bits, (most_said - 1).bit_length() + exponent)
        room = _room(law, low, high, most)
        reach = max(math.frexp(room)[1], exponent + 1) + 1
        return cls(low, high, exponent, bits, reach)

    @property
    def state_step(self) -> float:
        """s, a power of two."""
        return math.ldexp(1.0, self.state_exponent)

    @property
    def reach(self) -> float:
        """Return the largest magnitude of a state, message or feedback."""
        return math.ldexp(1.0, cast(int, self.reach_exponent))

    @cached_property
    def limit(self) -> int:
        """The reach in state steps: no whole number of a session is larger."""
        return 1 << (cast(int, self.reach_exponent) - self.state_exponent)

    @property
    def whole_bits(self) -> int:
        """Bits, with the sign, that hold any state, message or feedback."""
        return self.limit.bit_length() + 1

    def agent(self, law: Law, i: int = 0) -> LatticeAgent:
        """Return the arithmetic of agent i with this law on this lattice."""
        if i < 0 or (law.agents is not None and i >= law.agents):
            raise ParameterError(f"there must be an agent of number {i}; numbers start at 0.")
        return LatticeAgent(self, law.of_agent(i))

    def start(self, value: Any) -> Whole:
        """Return a value, or a vector, as whole numbers of the state step.

        Values are read exactly: int, float, Fraction, Decimal. Ties go up. A value outside the range is
        clamped. NaN and infinities are refused; the error never shows a value.
        """
        array = np.asarray(value, dtype=object)
        if array.ndim > 1 or array.size == 0:
            raise StateError(f"a value must be a number or a vector, got shape {array.shape}.")
        whole = np.empty(array.shape, dtype=object)
        up, down = max(-self.state_exponent, 0), max(self.state_exponent, 0)
        for i, each in enumerate(array.flat):
            where = f" at index {i}" if array.ndim else ""
            v = each.item() if isinstance(each, np.generic) else each
            if isinstance(v, str) or not hasattr(v, "as_integer_ratio"):
                raise StateError(f"values must be numbers{where}.")
            try:
                numerator, denominator = v.as_integer_ratio()
            except (OverflowError, ValueError):
                raise StateError(f"values must be finite numbers, got NaN or infinity{where}.") from None
            if not self.low <= v <= self.high:
                numerator, denominator = (self.low if v < self.low else self.high).as_integer_ratio()
            numerator, denominator = numerator << up, denominator << down
            whole.flat[i] = (2 * numerator + denominator) // (2 * denominator)  # to the nearest, ties up
        return cast(Whole, whole[()])

    def within(self, values: Any, what: str, exponent: int | None = None) -> Whole:
        """Return whole numbers within the reach.

        Others are refused, without showing a value.
        """
        whole = values if type(values) is int else as_whole(values, what)
        bound = self.limit >> ((self.state_exponent if exponent is None else exponent) - self.state_exponent)
        inside = -bound <= whole <= bound if isinstance(whole, int) else np.all(abs(whole) <= bound)
        if not inside:
            raise StateError(f"{what} must be within the session's reach of ±{self.reach:g}.")
        return whole

    def lifted(self, message: Any, exponent: int) -> Whole:
        """Return a message as whole numbers of the state step, exactly.

        The message is in whole numbers of 2^exponent.
        """
        if not self.state_exponent <= exponent <= cast(int, self.reach_exponent):
            raise StateError(
                f"a message's exponent must be from {self.state_exponent} to {self.reach_exponent}, "
                f"got {exponent}."
            )
        return cast(Whole, self.within(message, "a message", exponent) << (exponent - self.state_exponent))

    def mean(self, messages: Sequence[tuple[Any, int]], counts: Sequence[int] | None = None) -> Whole:
        """Return the feedback for messages, each with its exponent.

        It is their mean, rounded to the nearest state step, ties up. Messages are public, so this rounding
        is post-processing. Used by the server and by agents on a graph. `counts` are the weights of the
        messages; if all of them are 0, every message counts once.
        """
        if not messages:
            raise StateError("a mean needs at least one message.")
        lifted = [self.lifted(x, exponent) for x, exponent in messages]
        if not all(type(x) is int for x in lifted) and len({np.shape(x) for x in lifted}) > 1:
            raise StateError("messages must all have the same number of components.")
        if counts is not None and any(counts):
            parts = [count * x for count, x in zip(counts, lifted, strict=True)]
            return nearest(sum(parts[1:], start=parts[0]), sum(counts))
        return nearest(sum(lifted[1:], start=lifted[0]), len(lifted))

    def value(self, whole: Any, exponent: int | npt.NDArray[np.int64] | None = None) -> Any:
        """Return whole numbers of a step as the nearest floats.

        By default it is the state step.
        """
        step = self.state_exponent if exponent is None else exponent
        if type(whole) is int and isinstance(step, int):
            return math.ldexp(float(whole), step)
        result = np.ldexp(np.asarray(whole, dtype=object).astype(np.float64), step)
        return result[()]


@final
@dataclass(frozen=True)
class LatticeAgent:
    """The arithmetic of one agent, as pure functions of whole numbers.

    It holds nothing private. Every function takes a number or an array of them: components, or agents with
    equal parameters.
    """

    lattice: Lattice
    law: Law

    def __post_init__(self) -> None:
        if self.law.agents is not None:
            raise ParameterError("an agent on a lattice must have single numbers as its parameters.")
        self._require_room(float(self.law.c))

    @cached_property
    def motion(self) -> Motion:
        """How the agent moves."""
        return self.law.motion

    @property
    def ends(self) -> Ends:
        """The two numbers of a law that is `two_valued`, in message steps."""
        found: Ends = cast(Any, self.law).ends(self.message_exponent(0))
        return found

    def may_say(self, u: int, numbers: Sequence[int]) -> bool:
        """Whether message u can have these numbers, in its message steps."""
        return not self.speaks(u) or self.law.may_say(numbers, self.message_exponent(u))

    def _require_room(self, scale: float) -> None:
        if self.law.two_valued:
            shift = self.message_exponent(0) - self.lattice.state_exponent
            if max(abs(end) for end in self.ends) << shift > self.lattice.limit:
                raise ParameterError(
                    f"the session's reach must hold both values of a message, but is {self.lattice.reach:g}. "
                    "Raise reach_exponent, or use Lattice.fitting."
                )
            return
        if self.law.clampable:  # a session refuses a reach with which clamps are not rare
            return
        room = _room(self.law, self.lattice.low, self.lattice.high, scale)
        if room > self.lattice.reach:
            raise ParameterError(
                f"the session's reach must hold the range and {_NOISE_ROOM} times the noise, {room:g}, "
                f"but is {self.lattice.reach:g}. Raise reach_exponent, or use Lattice.fitting."
            )

    def speaks(self, u: int) -> bool:
        """Whether fresh noise is drawn for message u.

        Always, or only for the first if the law draws once.
        """
        return self.law.draws(u)

    def scale(self, u: int) -> float:
        """Return b_u, the Laplace scale of update u.

        The law rounds it up to a float64.
        """
        if u < 0:
            raise ParameterError(f"updates are counted from 0, got {u}.")
        if not self.speaks(u):
            return 0.0
        scale = self.law.upper_scale(u)
        if scale > self.law.c:  # scales may grow: the check for update 0 does not cover this update
            self._require_room(scale)
        if scale < self.lattice.state_step:
            raise ParameterError(
                f"noise must stay at least as wide as the state step 2^{self.lattice.state_exponent}, "
                f"but at update {u} it is not. Stop before, or take a finer state step."
            )
        return scale

    def message_exponent(self, u: int) -> int:
        """Return the public exponent of the message step g_u = 2^exponent.

        g_u is at most 2^−bits·b_u, and never below s.
        """
        if not self.adds(u):
            return self.lattice.state_exponent  # the message is of the shadow, which is public
        return self.draw_exponent(u)

    def adds(self, u: int) -> bool:
        """Whether noise is added to message u itself.

        The noise of a shadow of several numbers is added to its start instead.
        """
        return self.speaks(u) and not (self.moves and self.law.shadowed)

    def draw_exponent(self, u: int) -> int:
        """Return the exponent of the step in which noise is drawn.

        It is that of the message, if the noise is added to the message.
        """
        return max(math.frexp(self.scale(u))[1] - 1 - self.lattice.bits, self.lattice.state_exponent)

    def draw_scale(self, u: int) -> float:
        """Return b_u/g_u, exactly.

        It is the scale of the whole number that is drawn for update u. Of a law that is `two_valued` it is
        how many whole numbers the draw is one of.
        """
        if self.law.two_valued:
            return float(cast(Any, self.law).draw_below(self.message_exponent(u)))
        return math.ldexp(self.scale(u), -self.draw_exponent(u))

    @cached_property
    def moves(self) -> bool:
        """Whether a state has several numbers, of which something is said."""
        return self.motion.several

    def shadow(self, state: Any, draw: Any) -> Whole:
        """Return the noisy start of a shadow of a state with several numbers.

        Its private number is rounded to the step of the draw, as a message is. What is beyond the reach is
        clamped to it: the noise is already added, so this leaks nothing.
        """
        shift = self.draw_exponent(0) - self.lattice.state_exponent
        noise, bound = as_whole(draw, "noise"), self.lattice.limit

        def noisy(number: Any) -> Any:
            return max(min((((number + (1 << shift >> 1)) >> shift) + noise) << shift, bound), -bound)

        return cast(Whole, self.motion.disturb_whole(state, noisy))

    def report(self, basis: Any, u: int, draw: Any) -> Whole:
        """Phase (i): return message u, as whole numbers of g_u.

        It is round(basis, g_u) + g_u·draw, or what else the law makes of both; of a state z with several
        numbers round(Cz, g_u) + g_u·draw. A message beyond the reach is clamped to it. The noise is already
        added, so this leaks nothing.
        """
        exponent = self.message_exponent(u)
        noise = draw if type(draw) is int else as_whole(draw, "noise")
        if not self.adds(u) and (noise != 0 if type(noise) is int else np.any(noise != 0)):
            raise ParameterError(f"{self.law.name} noise is drawn once: noise after update 0 must be zero.")
        shift = exponent - self.lattice.state_exponent
        if self.moves:
            x = self.motion.say_whole(basis, shift) + noise
        elif self.law.two_valued and self.speaks(u):
            x = self.law.said(self.rounded(self.lattice.within(basis, "a state"), u), noise, exponent)
        else:  # rounded to the nearest, ties up, before any noise is added
            x = ((self.lattice.within(basis, "a state") + (1 << shift >> 1)) >> shift) + noise
        bound = self.lattice.limit >> shift
        return max(min(x, bound), -bound) if isinstance(x, int) else np.clip(x, -bound, bound)

    def rounded(self, basis: Any, u: int) -> Whole:
        """Return states in message steps, to the nearest, ties up."""
        shift = self.message_exponent(u) - self.lattice.state_exponent
        return cast(Whole, (basis + (1 << shift >> 1)) >> shift)

    def update(self, state: Any, y: Any) -> Whole:
        """Phase (iv): return the state moved by the feedback.

        It is rounded to the nearest state step, ties up; eq:upd, eq:upd_dis. A state that is one number never
        leaves the reach. One with several numbers may, and is never clamped: two states would not approach
        each other as the account assumes. Feedback beyond the reach is refused, which depends on public
        numbers only.
        """
        theta = state if self.moves else self.lattice.within(state, "a state")
        return cast(Whole, self.motion.move_whole(theta, self.lattice.within(y, "feedback")))


def _room(law: Law, low: float, high: float, scale: float) -> float:
    """Return the largest magnitude of a message with noise of this scale."""
    start = max(abs(low), abs(high))
    said = start + _NOISE_ROOM * scale
    return law.motion.room(start, said)
