"""The part of a session that makes it a series of means.

A series is one session. Everything that its account needs is in here, so it is part of the session's id:
how many slots, when they begin, what is hidden, the mechanism, its grid and its noise.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Annotated, Final, Literal, cast, final

from msgspec.structs import force_setattr

from tacit.base.errors import ParameterError
from tacit.core.mechanism.lattice import Lattice
from tacit.core.protocol.fields import FieldTable, Real, Time, about
from tacit.core.question import Question
from tacit.core.series import (
    Hides,
    Independent,
    SeriesAgent,
    SeriesCode,
    SeriesDecoder,
    SeriesGrid,
    SquareRoot,
    loss_with,
)
from tacit.core.series.codes import GRID_BITS, require_slots
from tacit.core.series.vectors import Vectors

SERIES_KIND: Final = "series"
"""Stands for the noise law of a session that is a series."""
_CODES: Final[dict[str, type[SeriesCode]]] = {"square-root": SquareRoot, "independent": Independent}
_LAST: Final = 253_402_300_799
_LEAST_INTERVAL, _MOST_INTERVAL = 0.05, 366 * 86_400.0


@final
class Series(FieldTable, frozen=True, dict=True):
    """What all members of a series agree on, besides who they are."""

    slots: Annotated[int, about("How many means there are (T).", rule="1 to 10,000,000")]
    interval: Annotated[Real, about("Seconds from one slot to the next.", rule="0.05 to 31,622,400")]
    begins: Annotated[Time, about("When slot 0 begins.")]
    hides: Annotated[Hides, about("Which change of one agent's readings is hidden.", rule="below")]
    mechanism: Annotated[
        str, about("How it is hidden.", rule="`square-root` where a step is hidden, else `independent`")
    ]
    steps: Annotated[
        Real, about("The parameter of each keeper's noise, in steps of 2^exponent.", rule="2³² to 2⁵²")
    ]
    exponent: Annotated[int, about("The grid step is 2^exponent (e).", rule="−900 to 900")]
    low: Annotated[Real, about("The least reading. Smaller ones count as this.")]
    high: Annotated[Real, about("The largest reading. Larger ones count as this.", rule="above `low`")]
    delta: Annotated[
        Real, about("The probability with which the loss may be exceeded (δ).", rule="in (0, 1)")
    ]
    components: Annotated[
        int,
        about(
            "How many numbers are read in a slot (k).",
            rule="those of the question; `slots` times this is at most 10,000,000",
        ),
    ] = 1
    distance: Annotated[
        Real | None,
        about(
            "The largest L2 distance of two readings.",
            otherwise="high − low",
            rule="that of the question's vectors, rounded up to a double; only if it is not high − low",
        ),
    ] = None

    def __post_init__(self) -> None:
        if type(self.slots) is not int:
            raise ParameterError(f"slots must be a whole number, got {self.slots!r}.")
        require_slots(self.slots)
        for name in ("interval", "steps", "low", "high", "delta"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise ParameterError(f"{name} of a series must be a finite number, got {value!r}.")
            force_setattr(self, name, float(value) + 0.0)
        force_setattr(self, "hides", Hides(self.hides.kind, float(self.hides.size)))
        if not _LEAST_INTERVAL <= self.interval <= _MOST_INTERVAL:
            raise ParameterError(
                f"slots must be from {_LEAST_INTERVAL:g} s to a year apart, got {self.interval:g} s."
            )
        if type(self.begins) not in (int, Time) or not 0 <= self.begins <= _LAST:
            raise ParameterError(f"a series must begin at a whole second since 1970, got {self.begins!r}.")
        force_setattr(self, "begins", int(self.begins))
        if type(self.components) is not int or self.components < 1:
            raise ParameterError(
                f"components of a series must be a whole number from 1, got {self.components!r}."
            )
        require_slots(self.slots, self.components)
        self._check_distance()
        if not self.low < self.high:
            raise ParameterError(f"the range must be LOW below HIGH, got {self.low} and {self.high}.")
        if not 0 < self.delta < 1:
            raise ParameterError(f"delta must be above 0 and below 1, got {self.delta:g}.")
        self._check_mechanism()

    def _check_distance(self) -> None:
        far = self.distance
        if far is None:
            return
        if type(far) not in (int, float) or not 0 < far < math.inf:
            raise ParameterError(f"distance of a series must be a finite number above 0, got {far!r}.")
        plain = self.components == 1 and far == self.high - self.low  # one encoding only
        force_setattr(self, "distance", None if plain else float(far))

    def _check_mechanism(self) -> None:
        wanted = self.hides.runs_with
        if self.mechanism != wanted:
            raise ParameterError(
                f"a series that hides {self.hides} runs with {wanted} noise, got {self.mechanism!r}: other "
                "mechanisms can be designed and simulated, but not run."
            )
        span = self.high - self.low
        if self.hides.kind == "step" and not 0 < self.hides.size <= self.vectors.distance:
            raise ParameterError(f"a step must be above 0 and at most the range, got {self.hides.size:g}.")
        if self.hides.kind != "step" and not (self.hides.size >= 1 and self.hides.size.is_integer()):
            raise ParameterError(f"a window must have 1 or more whole slots, got {self.hides.size:g}.")
        if type(self.exponent) is not int or not -900 <= self.exponent <= 900:
            raise ParameterError(f"the grid's exponent must be from -900 to 900, got {self.exponent!r}.")
        if not (math.isfinite(span) and math.frexp(span)[1] - self.exponent <= 1000):
            raise ParameterError(
                f"the range must be at most 2^1000 grid steps, got {self.low} to {self.high} in steps of "
                f"2^{self.exponent}."
            )
        if not 2.0**GRID_BITS <= self.steps <= 2.0**52:
            raise ParameterError(
                f"the noise must be from 2^{GRID_BITS} to 2^52 grid steps, got {self.steps:g}: on a coarser "
                "grid the account would not hold, on a finer one there is no sampler."
            )

    # ---- what follows ---------------------------------------------------------------------------------

    @property
    def grid(self) -> SeriesGrid:
        """The grid that messages are rounded to."""
        return SeriesGrid(self.exponent, self.low, self.high)

    @property
    def lattice(self) -> Lattice:
        """The range and the grid step, as other sessions have them."""
        return Lattice(self.low, self.high, self.exponent, GRID_BITS)

    @property
    def noise(self) -> float:
        """The standard deviation τ of one keeper's draw, in reading units."""
        return math.ldexp(self.steps, self.exponent)

    @cached_property
    def loss(self) -> float:
        """The loss of the whole series for one agent, at `delta`, rounded up.

        It is for the discrete noise on the grid, as it is drawn.
        """
        kind = cast(Literal["square-root", "independent"], self.mechanism)
        return loss_with(
            kind, self.slots, self.hides, grid=self.grid, steps=self.steps, delta=self.delta,
            vectors=self.vectors,
        )  # fmt: skip

    @property
    def vectors(self) -> Vectors:
        """How many numbers are read in a slot, and how far apart two readings are."""
        far = self.high - self.low if self.distance is None else self.distance
        return Vectors(self.components, far, math.inf)  # no series that is run has Laplace noise

    @property
    def adjacency(self) -> float:
        """How far a hidden change moves one reading, in the L2 norm.

        It is the step, or as far as two readings can be apart.
        """
        return self.hides.size if self.hides.kind == "step" else self.vectors.distance

    @property
    def holds(self) -> bool:
        """Whether a slot without a reading counts as the last one again.

        Otherwise an agent sends nothing in it.
        """
        return _CODES[self.mechanism].holds

    def code(self) -> SeriesCode:
        """Return how readings become messages, and sums of messages become means."""
        return _CODES[self.mechanism](self.slots)

    def agent(self, asked: Question | None = None) -> SeriesAgent:
        """Return a filter that has read nothing yet; see `Session.question`."""
        return SeriesAgent(self.code(), self.grid, self._fitting(asked))

    def _fitting(self, asked: Question | None) -> Question | None:
        """Refuse a question that this series has not the noise for."""
        if asked is not None and Vectors.of(asked).distance > self.vectors.distance:
            raise ParameterError(f"this series has not the noise for a {asked.kind}.")
        if (1 if asked is None else asked.components) != self.components:
            raise ParameterError(f"this series has {self.components} numbers in each slot.")
        return asked

    def decoder(self, keepers: int, asked: Question | None = None) -> SeriesDecoder:
        """Return a decoder that has heard nothing yet, for this many keepers."""
        self._fitting(asked)
        return SeriesDecoder(self.code(), self.grid, self.noise * math.sqrt(keepers), asked)

    def largest_sum(self, agents: int) -> int:
        """Return the largest sum of honest messages, without noise.

        It is in grid steps, for one component. |w| is at most the range, and rounding adds at most one step
        per agent.
        """
        return agents * (math.ceil(math.ldexp(self.high - self.low, -self.exponent)) + 1)

    # ---- the clock ------------------------------------------------------------------------------------

    def begin_of(self, slot: int) -> float:
        """When a slot begins, in seconds since 1970."""
        return self.begins + slot * self.interval

    @property
    def ends(self) -> float:
        """When the last slot is over."""
        return self.begin_of(self.slots)

    def slot_at(self, wall: float) -> int:
        """Return the slot at this time; −1 before and `slots` after the series."""
        if not wall >= self.begins:
            return -1
        slot = int(min((wall - self.begins) // self.interval, self.slots))
        # `begin_of` decides: a quotient of floats can be off by one at the very beginning of a slot.
        slot += slot < self.slots and wall >= self.begin_of(slot + 1)
        return slot - (wall < self.begin_of(slot))
