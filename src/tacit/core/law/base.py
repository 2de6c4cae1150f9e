"""The base class of noise laws, and what follows from their scales.

A law must define `scale`, the scale of the noise of update u. For a finite number of rounds everything else
follows, because the draws are independent and the law's motion says how the influence of an agent's value
shrinks.
The base class computes it for every law, slowly. A law overrides the methods for which it has a closed form.
Statements about an endless run do not follow from single scales, so they have no default. If a law does not
define one, calling it raises a `LawError` that names the method.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from tacit.base.arrays import FloatArray, IntArray, PerAgent, checked_per_agent, is_array
from tacit.base.errors import LawError, ParameterError, RecordTooLarge
from tacit.core.motion import Mixing, Motion

if TYPE_CHECKING:
    import numpy.typing as npt

WORDS = {"sigma": "mixing", "c": "noise", "q": "decay"}
"""Names of a law's parameters in files, in JSON and on the command line, by letter."""

_FEW = 4096  # updates that are worked out one by one
STEP = 1 + 4 * sys.float_info.epsilon
"""Noise is widened by this factor repeatedly, until its loss, rounded up, is within bounds."""

_MOST_TERMS = 20_000_000
_NEARLY_FLAT = (
    1e-9  # how much an envelope falls over T rounds: little, so that it is hardly wider than needed
)


class MixingOrMotion:
    """The first parameter of a law: a mixing, or a motion in its place.

    Reading it as a mixing is refused where a motion has none. `Law.motion` always is the motion.
    """

    def __get__(self, law: Any, owner: type | None = None) -> float | FloatArray:
        if law is None or "sigma" not in law.__dict__:
            raise AttributeError("sigma")  # so that the field has no default
        found = law.__dict__["sigma"]
        if isinstance(found, Motion):
            raise found.undefined("mixing", "how far an agent moves towards the feedback in one round")
        mixing: float | FloatArray = found
        return mixing

    def __set__(self, law: Any, value: Any) -> None:
        law.__dict__["sigma"] = value


class Terms(NamedTuple):
    """Independent Laplace terms whose scales fade geometrically.

    The scales are scale_g·ratio_g^t for each t < rounds (None: endless). There is one entry g per series of
    terms. `group` is the class of agents that it belongs to. Each agent of the class has `repeat` such
    series.
    """

    scale: FloatArray
    ratio: FloatArray
    group: IntArray
    rounds: int | None
    repeat: int = 1


class Envelope(NamedTuple):
    """An upper bound c·q^u on the scales of the updates.

    c and q are one number, or one per agent.
    """

    c: PerAgent
    q: PerAgent


def _of_agent(value: Any, i: int) -> Any:
    """Return one agent's own of a parameter."""
    if isinstance(value, Motion):
        return value.of_agent(i)
    return float(value[i]) if is_array(value) else value


def _equal(mine: object, theirs: object) -> bool:
    if is_array(mine) or is_array(theirs):
        return np.array_equal(mine, theirs)  # type: ignore[arg-type]
    return bool(mine == theirs)


@cache
def _letters(law: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(law))


@dataclass(frozen=True, eq=False)
class Law(ABC):
    """A noise law: independent Laplace noise, one scale per update.

    The scale depends only on the number of the update.

    Parameters
    ----------
    sigma : float, one per agent, or a motion
        Mixing, in (0, 1): how far an agent moves towards the feedback in one round.
        The paper's σ; not a standard deviation. Or how agents move: `tacit.Linear`.
    c : float or one per agent
        Noise, positive: the scale of the Laplace noise of update 0.

    Attributes
    ----------
    name : str
        In files and on the command line.
    shadowed : bool
        Whether noise is drawn only once. Later messages then follow from earlier public ones, without noise.
        Otherwise every message is the state with fresh noise.
    pure : bool
        Whether its noise is Laplace noise, so that its loss has no failure probability.
    drawn : str
        What is drawn for a message: "laplace", "bit" or "staircase" (`tacit.core.noise.safe.source_of`).
    two_valued : bool
        Whether a message is one of two numbers, whatever its sender wants.
    whole_domain : bool
        Whether its loss is for its whole domain only. Such a law is for one question around a server.
    below_one : frozenset of str
        Parameters that must be below 1.
    by_mixing : bool
        Whether `scale` depends on the mixing. If not, agents that differ only in mixing count as equal.
    per_round : frozenset of str
        Parameters that are one number per round, the same for all agents.
    noise_meaning : str
        What noise (c) means, for people.
    meanings : mapping
        What the parameters after noise mean, for people.
    """

    sigma: float | FloatArray  # a motion may be given, and is never read as a mixing
    c: float | FloatArray

    name: ClassVar[str]
    shadowed: ClassVar[bool] = False
    pure: ClassVar[bool] = True
    drawn: ClassVar[str] = "laplace"
    two_valued: ClassVar[bool] = False
    whole_domain: ClassVar[bool] = False
    below_one: ClassVar[frozenset[str]] = frozenset({"sigma"})
    by_mixing: ClassVar[bool] = True
    per_round: ClassVar[frozenset[str]] = frozenset()
    meanings: ClassVar[Mapping[str, str]] = {}
    noise_meaning: ClassVar[str] = "scale of the Laplace noise"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.__repr__ = Law.__repr__  # type: ignore[method-assign]  # else that of a dataclass reads a mixing
        for base in cls.__mro__[1:]:
            if "scale" in vars(base) and base is not Law and issubclass(base, Law):
                raise LawError(
                    f"the law {cls.__name__} must be a subclass of Law itself, got one of {base.__name__}: "
                    "its closed forms would be used for another law."
                )

    def __post_init__(self) -> None:
        if not getattr(type(self), "name", ""):
            raise LawError(f"the law {type(self).__name__} does not define its name.")
        self.check(self.letters())
        try:  # a plain 0, which needs no numpy; but the formula of another's law may divide by it
            first = self.scale(0.0 if self.agents is None else np.float64(0))
        except ZeroDivisionError:
            first = self.scale(np.float64(0))
        if not (first == self.c if isinstance(first, float) else np.all(first == self.c)):
            raise LawError(f"the scale of update 0 must be c, and is not in the law {self.name!r}.")

    def __repr__(self) -> str:
        own = ", ".join(f"{name}={value!r}" for name, value in self.values().items())
        return f"{type(self).__name__}({own})"

    def check(self, letters: Iterable[str]) -> None:
        """Refuse parameters that are no positive number, or one per agent."""
        for name in letters:
            value, word = self.__dict__[name], WORDS.get(name, name)
            if name == "sigma" and isinstance(value, Motion):
                continue
            below = name in self.below_one
            found = checked_per_agent(value, f"{word} ({name})", below_one=below, field=word)
            object.__setattr__(self, name, found)
        self.agents  # noqa: B018 - refuses per-agent values of different lengths

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        theirs = other.values()
        return all(_equal(mine, theirs[name]) for name, mine in self.values().items())

    def __hash__(self) -> int:
        own = self.values().values()  # must be fast: an agent on a lattice calls this for every message
        return hash((type(self), *(v.tobytes() if is_array(v) else v for v in own)))

    if TYPE_CHECKING:  # the mixing is a number, and a motion is taken in its place

        def __init__(self, sigma: PerAgent | Motion, c: PerAgent, *further: Any) -> None: ...

    @property
    def mixes(self) -> bool:
        """Whether agents mix as in the paper, so that closed forms hold."""
        return isinstance(self.motion, Mixing)

    @property
    def clampable(self) -> bool:
        """Whether a lattice may be too narrow for its largest noise.

        Agents that mix stay between their start and the feedback, which is clamped. So the reach may be as
        short as accuracy allows (`tacit.core.mechanism.reach`).
        """
        return self.mixes and self.pure

    def with_noise(self, c: float | FloatArray) -> Self:
        """Return this law with another noise c."""
        return type(self)(**{**self.values(), "c": c})

    def with_mixing(self, sigma: float) -> Self:
        """Return this law with another mixing."""
        return type(self)(**{**self.values(), "sigma": sigma})

    # ---- what a law must define ---------------------------------------------------------------------

    @abstractmethod
    def scale(self, u: Any) -> Any:
        """Laplace scale of update u.

        `u` is a float64 number or array. With one parameter per agent, the last axis of the result is that of
        the agents. The result must be positive, and c for u = 0. It must be the same on every machine, so use
        only sums, products, quotients and square roots (or define `upper_scale`).
        """

    # ---- parameters ---------------------------------------------------------------------------------

    @classmethod
    def letters(cls) -> tuple[str, ...]:
        """Names of the parameters, in the order of the constructor."""
        return _letters(cls)

    @classmethod
    def words(cls) -> tuple[str, ...]:
        """Names of the parameters in files and on the command line."""
        return tuple(WORDS.get(name, name) for name in cls.letters())

    @classmethod
    def further(cls) -> tuple[str, ...]:
        """Return the words of the parameters that only this law has.

        These are all besides mixing, noise and decay.
        """
        return tuple(word for word in cls.words() if word not in WORDS.values())

    @classmethod
    def require_further(cls, given: Mapping[str, Any]) -> None:
        """Refuse if a parameter that only this law has is missing."""
        missing = [word for word in cls.further() if word not in given]
        if missing:
            raise ParameterError(
                f"{cls.name} noise needs {' and '.join(missing)}: give {missing[0]} among the parameters "
                f"(--parameter {missing[0]}=…).",
                "parameters",
            )

    def values(self) -> dict[str, Any]:
        """Return the parameters by letter; a motion in place of the mixing."""
        return {name: self.__dict__[name] for name in _letters(type(self))}

    def worded(self) -> dict[str, Any]:
        """Return the parameters by word; a motion is none of them."""
        own = zip(self.words(), self.values().values(), strict=True)
        return {word: value for word, value in own if not isinstance(value, Motion)}

    @classmethod
    def from_words(cls, given: Mapping[str, Any]) -> Self:
        """Make the law from parameters by word; a missing one is a KeyError."""
        return cls(*(given[word] for word in cls.words()))

    @property
    def agents(self) -> int | None:
        """Number of agents, if parameters are one per agent.

        None if all agents share one value.
        """
        sizes = {value.size for value in self.values().values() if is_array(value)}
        sizes |= set() if self.mixes or self.motion.agents is None else {self.motion.agents}
        if len(sizes) > 1:
            raise ParameterError(
                f"mixing, noise and decay must be one number or one per agent, got {sorted(sizes)} values."
            )
        return sizes.pop() if sizes else None

    def for_agents(self, n: int) -> Self:
        """Check that these parameters fit `n` agents, and return them."""
        if self.agents not in (None, n):
            raise ParameterError(
                f"per-agent mixing, noise and decay must have one value for each of the {n} agents, "
                f"got {self.agents}."
            )
        return self

    def of_agents(self, index: npt.NDArray[np.integer[Any]] | list[int] | slice) -> Self:
        """Return the law of some agents, in this order.

        Shared parameters stay one number.
        """
        own = {k: v[index] if isinstance(v, np.ndarray) else v for k, v in self.values().items()}
        if not self.mixes:
            own["sigma"] = self.motion.of_agents(index)
        return type(self)(**own)

    def of_agent(self, i: int) -> Self:
        """Return the law of one agent: single numbers."""
        own = {k: _of_agent(v, i) for k, v in self.values().items()}
        # Skip the checks, which were made for the whole law: a session has up to 100,000 agents.
        one = object.__new__(type(self))
        one.__dict__.update(own)
        return one

    def kinds(self) -> list[Self]:
        """Return a law of one agent for each different noise among the agents."""
        own = [
            v
            for name, v in self.values().items()
            if isinstance(v, float | np.ndarray) and (self.by_mixing or name != "sigma")
        ]
        rows = np.column_stack([np.atleast_1d(value) for value in np.broadcast_arrays(*own)])
        _, first = np.unique(rows, axis=0, return_index=True)
        return [self.of_agent(i) for i in first.tolist()]

    @classmethod
    def undefined(cls, method: str, what: str) -> LawError:
        """Return the error for a method that this law does not define."""
        return LawError(f"{what} is unknown: the law {cls.name!r} does not define {method}.")

    @property
    def motion(self) -> Motion:
        """How agents move: it decides how much each message says of a start."""
        found = self.__dict__["sigma"]
        return found if isinstance(found, Motion) else Mixing.of_checked(found)

    def as_linear(self) -> Self:
        """Return this law with mixing as a linear motion, to work out its loop."""
        raise self.undefined("as_linear", "mixing as a linear motion")

    # ---- scales -------------------------------------------------------------------------------------

    def scales(self, rounds: int) -> FloatArray:
        """Laplace scale of each round, of shape (rounds,) or (rounds, n)."""
        t = np.arange(rounds, dtype=np.float64)
        if self.agents is None:
            found = np.broadcast_to(np.asarray(self.scale(t), dtype=np.float64), (rounds,))
        else:
            found = np.broadcast_to(self.scale(t[:, None]), (rounds, self.agents))
        if not np.all((found >= 0) & np.isfinite(found)):
            raise LawError(
                f"scales must be finite numbers of at least 0, and are not in the law {self.name!r}."
            )
        return found

    def round_scales(self) -> Iterator[FloatArray]:
        """Yield the scale of round 0, 1, ….

        Each is an array of one number, or of one per agent.
        """
        t = 0
        while True:
            yield np.atleast_1d(np.asarray(self.scale(np.float64(t)), dtype=np.float64))
            t += 1

    def faded(self, t: FloatArray) -> FloatArray:
        """Scale of update t, divided by that of update 0."""
        return np.asarray(self.scale(t) / self.c)

    def deviation(self, u: Any) -> Any:
        """Standard deviation of the noise of update u: √2 times its scale."""
        return math.sqrt(2) * self.scale(u)

    def deviations(self, rounds: int) -> FloatArray:
        """Standard deviation of each round, of shape (rounds,) or (rounds, n)."""
        return np.asarray(math.sqrt(2) * self.scales(rounds))

    def total_variance(self, rounds: int | None) -> float:
        """Σ_t s_t² of the deviations of one agent."""
        if rounds is None:
            raise self.undefined("total_variance of an endless run", "the noise of an endless run")
        return float(np.sum(self.deviations(rounds) ** 2))

    def upper_scale(self, u: int) -> float:
        """Return the scale of one agent's update u, rounded up.

        It is a float64, and lattices draw with it. It is rounded up so that the noise is never smaller than
        the law's. It must be the same on every machine, because all members of a session compute the same
        grid from it.
        """
        return math.nextafter(float(self.scale(np.float64(u))), math.inf) if u else float(self.c)

    def upper_scales(self, update: IntArray) -> FloatArray:
        """Return `upper_scale` of each update; 0 where nothing is drawn."""
        last = int(update.max(initial=0))
        return np.array([self.upper_scale(u) if self.draws(u) else 0.0 for u in range(last + 1)])[update]

    def draws(self, u: int) -> bool:
        """Whether fresh noise is drawn for message u."""
        return u == 0 or not self.shadowed

    def least_scale(self, rounds: int) -> float:
        """Return the least `upper_scale` of a draw, of one agent.

        It is over the first `rounds` rounds.
        """
        return min(self.upper_scale(u) for u in range(max(rounds, 1)) if self.draws(u))

    def largest_scale(self, rounds: int) -> float:
        """Return the largest `upper_scale` within `rounds` rounds, of one agent."""
        return max(self.upper_scale(u) for u in range(max(rounds, 1)) if self.draws(u))

    # ---- messages -----------------------------------------------------------------------------------

    def said(self, basis: Any, draw: Any, exponent: int) -> Any:
        """Return which of its two values a law says; all in steps of 2^exponent."""
        raise self.undefined("said", "which of two values is said")

    def may_say(self, numbers: Any, exponent: int) -> bool:
        """Whether a message with fresh noise can have these numbers."""
        return True

    def noise_of(self, unit: FloatArray, theta: FloatArray) -> FloatArray:
        """Return the noise of values, made from Laplace draws of scale 1.

        It is for simulations.
        """
        return np.asarray(self.c * unit)

    @classmethod
    def best_of(cls, sigma: PerAgent | Motion, *, loss: float, low: float, domain: float) -> Self:
        """Return the best noise with this loss for any two values of a domain."""
        raise cls.undefined("best_of", "the best noise for a whole domain")

    @classmethod
    def located(cls, c: float, low: float, domain: float) -> dict[str, float]:
        """Return the parameters by word that follow from the domain."""
        return {}

    @classmethod  # noqa: B027
    def require_mechanism(cls, *, served: bool, keepers: int) -> None:
        """Refuse a graph or keepers, if this law is not for them."""

    def require_single(self) -> None:  # noqa: B027 - most laws have none of this
        """Refuse agents that differ, if this law is not for them."""

    def require_domain(self, adjacency: float) -> None:  # noqa: B027 - most laws have none of this
        """Refuse an adjacency for which the law has no loss."""

    def require_range(self, low: float, components: int, *, one_hot: bool) -> None:  # noqa: B027 - most laws have none of this
        """Refuse values for which the law has no loss."""

    def clamped(self, room: float, rounds: int) -> float:
        """Bound the expected number of one source's draws that exceed `room`.

        The sum of P(|noise_u| > room) over the updates, e^−room/s_u each.
        """
        draws = self._draws_within(rounds)
        if self.agents is None and draws <= _FEW:  # as an agent's process does it, without numpy
            each = (self.upper_scale(u) for u in range(draws))
            return math.fsum(math.exp(-room / scale) for scale in each if scale > 0)
        scales = self.scales(draws)
        return (
            float(np.exp(-room / scales[scales > 0]).sum())
            if self.agents is None
            else float(np.exp(-room / np.where(scales > 0, scales, np.nan)).max(axis=1, initial=0.0).sum())
        )

    # ---- privacy ------------------------------------------------------------------------------------

    def epsilons(self, rounds: int | None) -> FloatArray:
        """Return ε per agent (0-d where all share their parameters), rounded up.

        After T rounds it is Σ_{u<T} a_u/s_u with the influence a_u of the start, (1−σ)^u for mixing, and the
        scale s_u of update u (docs/proofs/privacy.md).
        """
        if rounds is None:
            raise self.undefined("epsilons for an endless run", "the loss of an endless run")
        return self.motion.spent(self.scales(self._draws_within(rounds)))

    def mu(self, rounds: int | None) -> float:
        """Return μ per unit of adjacency, if the noise is Gaussian."""
        raise self.undefined("mu", "Gaussian privacy")

    def spent_endless(self, q: PerAgent) -> FloatArray:
        """Return ε of an endless run of a motion, with scales c·q^u."""
        c, ratio = (np.broadcast_to(value, (self.agents or 1,)).tolist() for value in (self.c, q))
        own, known = [], dict[Any, float]()
        for i, pair in enumerate(zip(c, ratio, strict=True)):
            one = self.motion.of_agent(i)
            if (one, pair) not in known:
                known[one, pair] = one.spent_endless(*pair)
            own.append(known[one, pair])
        return np.array(own) if self.agents else np.asarray(own[0])

    def _draws_within(self, rounds: int) -> int:
        """Return how many messages of `rounds` rounds have fresh noise.

        The others follow from them.
        """
        return min(rounds, 1) if self.shadowed else rounds

    def costs(self, rounds: int, distance: float) -> FloatArray:
        """Return the most that each message adds to a likelihood ratio.

        For message u of one agent it is d·a_u/s_u, with the influence a_u of its start.
        """
        u = np.arange(self._draws_within(rounds))
        apart, scales = np.asarray(distance * self.motion.influence(u)), self.scales(u.size)
        return np.asarray(np.divide(apart, scales, out=np.zeros_like(apart), where=apart > 0))

    def loss_parts(self, rounds: int | None, adjacency: float, share: int) -> Iterator[float]:
        """Yield the loss of each message of one agent, rounded up.

        For an endless run the last item is the loss of all remaining messages together. It must be below
        1/`share` of the total.
        """
        if rounds is None:
            raise self.undefined("loss_parts for an endless run", "the loss of an endless run")
        yield from self.motion.parts(self.scales(self._draws_within(rounds)), adjacency)

    # ---- accuracy -----------------------------------------------------------------------------------

    def terms(self, closed: FloatArray, total: float, rounds: int | None) -> Terms:
        """Return the Laplace terms of the deviation of the average.

        `self` has one entry per class of agents. The noise of a message of class k enters the average with
        the weight closed_k/total.
        """
        if rounds is None:
            raise self.undefined("terms for an endless run", "the deviation of an endless run")
        if rounds * closed.size > _MOST_TERMS:
            raise RecordTooLarge(
                f"the deviation needs rounds × kinds of agents of at most {_MOST_TERMS:,}, "
                f"got {rounds:,} × {closed.size:,}. Ask for fewer rounds."
            )
        scale = (closed * self.scales(rounds) / total).reshape(-1)
        group = np.tile(np.arange(closed.size), rounds)
        return Terms(scale, np.zeros_like(scale), group, 1)

    def significant_rounds(self, rounds: int | None) -> int:
        """Return how many rounds matter in double precision.

        Samplers of the outcome skip the rest.
        """
        if rounds is None:
            raise self.undefined("significant_rounds for an endless run", "what an endless run leads to")
        return rounds

    # ---- agreement ----------------------------------------------------------------------------------

    @property
    def longest(self) -> int | None:
        """The most rounds that this law covers; None if there is no limit."""
        return None

    @property
    def ratio(self) -> PerAgent | None:
        """q, if the scale of update u is c·q^u; otherwise None."""
        return None

    def envelope(self, rounds: int | None) -> Envelope:
        """Return c and q such that c·q^u bounds the scales.

        It bounds every update u below `rounds` (None: all).
        """
        if rounds is None:
            raise self.undefined("envelope for an endless run", "after how many rounds agents agree")
        q = math.exp(-_NEARLY_FLAT / max(rounds, 1))
        c = self.scales(max(rounds, 1)).max(axis=0) * (1 + 2 * _NEARLY_FLAT)
        return Envelope(c if np.ndim(c) else float(c), q)

    # ---- design -------------------------------------------------------------------------------------

    @classmethod
    def best(cls, sigma: PerAgent | Motion, epsilon: float, rounds: int | None = None) -> Self:
        """Return this law with the least variance for a loss of at most ε.

        The base class can answer this for a law without further parameters; see `least_noise`.
        """
        return cls.least_noise(sigma, epsilon, rounds, {})

    @classmethod
    def least_noise(
        cls, sigma: PerAgent | Motion, epsilon: float, rounds: int | None, further: Mapping[str, PerAgent]
    ) -> Self:
        """Return this law with the least noise c for a loss of at most ε.

        It has these further parameters. The base class can compute it for a finite number of rounds, if all
        scales are proportional to c.
        """
        what = "the best noise for an epsilon"
        cls.require_further(further)
        if rounds is None:
            raise cls.undefined("best for an endless run", what)
        if "decay" in cls.words():
            raise cls.undefined("best", what)
        one = cls.from_words({"mixing": sigma, "noise": 1.0, **further})
        two = one.with_noise(2.0)
        if not np.allclose(two.scales(rounds), 2 * one.scales(rounds), rtol=1e-12, atol=0):
            raise cls.undefined("best", what)
        c = float(np.max(one.epsilons(rounds))) / epsilon
        while float(np.max((made := one.with_noise(c)).epsilons(rounds))) > epsilon:
            c *= STEP
        return made

    def rounded(self, up: Callable[..., float]) -> Self:
        """Return the law with numbers that can be typed.

        They are rounded up to a few digits. ``up(value)`` rounds; ``up(value, distance)`` also keeps the
        digits of a distance from 1.
        """
        return self if isinstance(self.c, np.ndarray) else self.with_noise(up(self.c))


# Not in the class body: there it would be the default of the field.
Law.sigma = MixingOrMotion()  # type: ignore[assignment]
