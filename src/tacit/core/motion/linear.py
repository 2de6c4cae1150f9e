"""Agents with linear dynamics: z⁺ = Az + By, and Cz is said.

Two starts of an agent that differ by Gd move apart by A^t·G·d for every feedback, so message t differs by
M_t·d with the influence M_t = C·A^t·G. For Laplace noise of scales s_t the loss is exactly

    L = sup over d of Σ_t |M_t·d|/s_t,

also for feedback that liars choose (docs/proofs/dynamics.md, T1). Floats are exact numbers, so M_t and the
sum are computed exactly, and L is rounded up once.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, final

import numpy as np

from tacit.base.arguments import positive, shown
from tacit.base.arrays import ByValue, FloatArray, frozen
from tacit.base.errors import MotionError, ParameterError
from tacit.base.rounding import Extended, extended, fraction_up, ulp
from tacit.core.motion.base import Motion
from tacit.core.motion.dyadic import Dyadic, powers, solved

if TYPE_CHECKING:
    import numpy.typing as npt

MOST_CORNERED = 16
"""The most private components of a box: it has 2^(p−1) pairs of corners."""
MOST_ROUNDS = 20_000
"""The most rounds whose loss is computed exactly: the numbers grow by some bits in every round."""
NORMS = ("box", "l1", "l2")

_FIXED = 1200  # binary places of exact sums; a term is rounded up to them
_FEW = 64  # corners that are compared exactly
_MOST_STEPS = 4096  # of a search for a power of A that contracts
_LEAST = 2.0**-400  # the squares of smaller numbers, and of their inverses, may leave the floats
_EPS = sys.float_info.epsilon
_TINY = sys.float_info.min


class Tail(NamedTuple):
    """How a run fades: row sums of |A^steps| are at most `factor` < 1."""

    steps: int
    factor: Fraction


@final
@dataclass(frozen=True, eq=False)
class Linear(ByValue, Motion):
    """z⁺ = Az + By with the feedback y; the message says Cz.

    Parameters
    ----------
    A, B, C : array_like of shapes (n, n), (n,) and (n,)
        One feedback comes in, and one number is said.
    private : mapping
        Which components of the start are private, by name or number, and how far each may change per unit of
        adjacency: ``{"speed": 1.0}``. A private constant is one more component that never moves.
    names : sequence of str, optional
        What the components are called; z0, z1, … unless given.
    norm : {"box", "l1", "l2"}
        How private components may change together: each by its own width, or with their changes (in
        widths) adding up to 1 as numbers or as squares.
    measured : bool
        Whether z is measured at a real plant. The loss then holds only if the plant moves by this A.
        Otherwise z is computed by the agent itself.

    Examples
    --------
    >>> truck = Linear([[1, 0.25], [-0.25, 0.5]], [0, 0.25], [1, 0], private={0: 1.0})
    >>> truck.lag, truck.gain, [float(a) for a in islice(truck.influences(), 3)]
    (8.0, 1.0, [1.0, 1.0, 0.9375])
    """

    A: FloatArray
    B: FloatArray
    C: FloatArray
    private: Any
    names: tuple[str, ...] = ()
    norm: str = "box"
    measured: bool = False

    name: ClassVar[str] = "linear"

    if TYPE_CHECKING:  # the fields are arrays, and lists are taken

        def __init__(  # noqa: PLR0917
            self,
            A: npt.ArrayLike,
            B: npt.ArrayLike,
            C: npt.ArrayLike,
            private: Any,
            names: Sequence[str] = (),
            norm: str = "box",
            measured: bool = False,
        ) -> None: ...

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        A = as_matrix(self.A, "A")
        n = len(A)
        if A.ndim != 2 or A.shape != (n, n) or n == 0:
            raise ParameterError(f"A must be a square matrix, got shape {A.shape}.", "A")
        set_field(self, "A", A)
        set_field(self, "B", as_vector(self.B, "B", n, "one feedback comes in"))
        set_field(self, "C", as_vector(self.C, "C", n, "one number is said"))
        names = tuple(self.names) or tuple(f"z{k}" for k in range(n))
        if len(names) != n or len(set(names)) < n or not all(isinstance(one, str) for one in names):
            raise ParameterError(f"names must be {n} different words, one per component, got {names}.")
        set_field(self, "names", names)
        if self.norm not in NORMS:
            raise ParameterError(f"norm must be one of {', '.join(NORMS)}, got {shown(self.norm)}.")
        set_field(self, "private", private_widths(self.private, names))
        if self.norm == "box" and len(self.private) > MOST_CORNERED:
            raise ParameterError(
                f"a box may have at most {MOST_CORNERED} private components, got {len(self.private)}: its "
                'corners are too many to try. Take norm="l1".'
            )
        said = islice(powers(Dyadic.of(self.C), self._exact), n)
        if not any((row @ self._start).whole.any() for row in said):
            raise ParameterError(
                "no message depends on a private component, so no noise is needed. Name the components that "
                "are private, or say them through C."
            )

    @classmethod
    def sampled(
        cls, A: npt.ArrayLike, B: npt.ArrayLike, C: npt.ArrayLike, seconds: float, **given: Any
    ) -> Linear:
        """Return the motion of ż = Az + By, if y is held for so many seconds.

        The zero-order hold is exact, up to the rounding of its matrices to floats.
        """
        from scipy.linalg import expm

        seconds = positive("seconds", seconds)
        A = as_matrix(A, "A")
        n = len(A)
        if A.ndim != 2 or A.shape != (n, n):
            raise ParameterError(f"A must be a square matrix, got shape {A.shape}.", "A")
        both = np.zeros((n + 1, n + 1))
        both[:n, :n], both[:n, n] = A, as_vector(B, "B", n, "one feedback comes in")
        held = expm(both * seconds)
        return cls(held[:n, :n], held[:n, n], np.asarray(C, dtype=np.float64), **given)

    @classmethod
    def of_system(cls, system: Any, *, seconds: float | None = None, **given: Any) -> Linear:
        """Return the motion of a `StateSpace` of python-control, or a like one.

        It has A, B, C, D and dt. A system in continuous time (dt = 0) is sampled every so many seconds.
        """
        missing = [name for name in ("A", "B", "C", "D", "dt") if not hasattr(system, name)]
        if missing:
            raise ParameterError(f"a system must have A, B, C, D and dt, got none named {missing[0]}.")
        if np.any(np.asarray(system.D, dtype=np.float64) != 0):
            raise ParameterError(
                "D must be 0: a message is said before the feedback of its round is known. Delay the "
                "feed-through by one more component of the state."
            )
        if not given.get("names"):
            labels = getattr(system, "state_labels", None)
            given["names"] = tuple(labels) if labels else ()
        if system.dt == 0:
            if seconds is None:
                raise ParameterError("a system in continuous time needs the seconds between two rounds.")
            return cls.sampled(system.A, system.B, system.C, seconds, **given)
        if seconds is not None and system.dt not in (None, True, seconds):
            raise ParameterError(f"the system has steps of {system.dt} seconds, got {seconds}. Leave it out.")
        return cls(system.A, system.B, system.C, **given)

    def __repr__(self) -> str:
        of = ", ".join(f"{self.names[k]}: {half:g}" for k, half in self.private)
        return f"Linear({', '.join(self.names)}; private {of})"

    # ---- how a state moves --------------------------------------------------------------------------

    @property
    def dimension(self) -> int:
        """Number of components of a state."""
        return len(self.A)

    def move(self, state: Any, y: Any, axis: int = 0) -> Any:
        """Az + By; the components are along the last axis."""
        return state @ self.A.T + np.asarray(y)[..., None] * self.B

    def say(self, state: Any) -> Any:
        """Cz."""
        return state @ self.C

    def disturb(self, state: Any, noise: Any) -> Any:
        """Return starts whose one private component is noisy."""
        component, _ = self._single("noise that is drawn once")
        return state + np.asarray(noise)[..., None] * np.eye(self.dimension)[component]

    def of_agent(self, i: int) -> Linear:
        """Return this motion: all agents share it."""
        return self

    # ---- how fast its start stops mattering ---------------------------------------------------------

    @cached_property
    def _exact(self) -> Dyadic:
        return Dyadic.of(self.A)

    @cached_property
    def _start(self) -> Dyadic:
        """G: one column per private component."""
        G = np.zeros((self.dimension, len(self.private)))
        for column, (component, half) in enumerate(self.private):
            G[component, column] = half
        return Dyadic.of(G)

    @cached_property
    def _rows(self) -> list[Dyadic]:
        return []

    def rows(self, rounds: int) -> list[Dyadic]:
        """Return C·A^t for t < rounds, exactly."""
        if rounds > MOST_ROUNDS:
            raise MotionError(
                f"the loss of linear agents is computed exactly for at most {MOST_ROUNDS:,} rounds, got "
                f"{rounds:,}. Ask for fewer rounds."
            )
        found = self._rows
        if len(found) < rounds:
            last = found[-1] @ self._exact if found else Dyadic.of(self.C)
            found += islice(powers(last, self._exact), rounds - len(found))
        return found[:rounds]

    @cached_property
    def _influences(self) -> list[Dyadic]:
        return []

    def influence_rows(self, rounds: int) -> list[Dyadic]:
        """M_t = C·A^t·G for t < rounds, exactly: one number per private component."""
        found = self._influences
        found += [row @ self._start for row in self.rows(rounds)[len(found) :]]
        return found[:rounds]

    @cached_property
    def corners(self) -> FloatArray:
        """The changes of the private components that matter, in widths.

        One row each; the loss is largest at one of them. Empty for the norm l2, whose changes have no
        corners.
        """
        p = len(self.private)
        if self.norm == "l1":
            return np.eye(p)
        if self.norm == "l2":
            return np.eye(1) if p == 1 else np.empty((0, p))
        signs = np.arange(2 ** (p - 1))[:, None] >> np.arange(p - 1) & 1
        return np.column_stack([np.ones(len(signs)), 1.0 - 2.0 * signs])

    def influence(self, u: Any) -> Any:
        """The largest |M_u·d| of any change d, never too small."""
        last = int(np.max(u, initial=0)) if np.size(u) else 0
        table = np.array([self._largest(row) for row in self.influence_rows(last + 1)])
        found = table[np.asarray(u).astype(np.int64)]
        return extended(found) if np.asarray(u).dtype == np.longdouble else found[()]

    def _largest(self, row: Dyadic) -> float:
        sizes = [abs(value) for value in row.fractions()]
        if self.norm == "l2" and len(sizes) > 1:
            length = math.hypot(*map(fraction_up, sizes))  # no square underflows in it
            return math.nextafter(length * (1 + 8 * _EPS), math.inf) if length else 0.0
        return fraction_up(max(sizes) if self.norm == "l1" else sum(sizes, Fraction(0)))

    def influence_table(self, rounds: int) -> FloatArray:
        """Return |M_t·d| for t < rounds at each corner, to the nearest float.

        For the norm l2 with several private components it is the bound of `influence`, in one column.
        """
        if not len(self.corners):
            return np.asarray(self.influence(np.arange(rounds)))[:, None]
        exact = self.influence_rows(rounds)
        rows = np.array([row.floats() for row in exact]).reshape(rounds, len(self.private))
        found = np.abs(rows @ self.corners.T)
        for t in np.flatnonzero(~found.any(axis=1)).tolist():  # what underflows still needs noise
            found[t] = _TINY if exact[t].whole.any() else 0.0
        return np.asarray(found)

    def spent(self, scales: FloatArray) -> FloatArray:
        """Return sup Σ_t |M_t·d|/s_t for these scales, rounded up once."""
        scales = np.asarray(scales, dtype=np.float64)
        if scales.ndim > 1:  # noise of its own for each agent
            return np.array([float(self.spent(own)) for own in scales.T])
        rows = self._noisy_rows(scales)
        if not len(self.corners):
            return np.asarray(self._round_loss(scales))
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = (
                np.array([row.floats() for row in rows]).reshape(len(rows), len(self.private))
                / scales[:, None]
            )
        parts[scales == 0] = 0.0
        largest = Fraction(0)
        for corner in self._candidates(parts):
            largest = max(largest, _exact_loss(rows, scales, [int(sign) for sign in corner]))
        return np.asarray(fraction_up(largest))

    def _noisy_rows(self, scales: FloatArray) -> list[Dyadic]:
        """Return the influences; refuse noise that does not hide one."""
        if not np.all(np.isfinite(scales) & (scales >= 0)):
            raise ParameterError("the scales of noise must be finite numbers of at least 0. Check them.")
        rows = self.influence_rows(len(scales))
        for t in np.flatnonzero(scales == 0).tolist():
            if rows[t].whole.any():
                raise ParameterError(
                    f"message {t} depends on a private component, so its noise must not be 0. "
                    "Give it a scale."
                )
        return rows

    def spent_squared(self, deviations: FloatArray) -> FloatArray:
        """Return sup Σ_t (M_t·d)²/s_t², rounded up.

        For the norm l2 it is the largest eigenvalue of the observability Gramian, weighted by 1/s_t².
        """
        if np.ndim(deviations) > 1:  # noise of its own for each agent
            return np.array([float(self.spent_squared(own)) for own in np.transpose(deviations)])
        rows = self._noisy_rows(deviations)
        parts = np.array([row.floats() for row in rows]).reshape(len(rows), len(self.private))
        parts = np.divide(parts, deviations[:, None], out=np.zeros_like(parts), where=parts != 0)
        if len(self.corners):  # what differences of floats lose is added
            lost = 8 * _EPS * np.abs(parts).sum(axis=1)[:, None]
            largest = float(np.square(np.abs(parts @ self.corners.T) + lost).sum(axis=0).max())
        else:
            largest = float(np.linalg.eigvalsh(parts.T @ parts)[-1])
        return np.asarray(largest * (1 + 8 * _EPS * (len(rows) + len(self.private) ** 2)))

    def parts(self, scales: FloatArray, adjacency: float) -> Iterator[float]:
        """Yield by how much each message raises the loss so far, rounded up.

        Their sum is the loss, although its corner may change from message to message.
        """
        rows, scales = self.influence_rows(len(scales)), np.asarray(scales, dtype=np.float64)
        corners = [[int(sign) for sign in corner] for corner in self.corners[: _FEW + 1]]
        if not corners or len(corners) > _FEW:  # a bound
            for u, a in enumerate(np.asarray(self.influence(np.arange(len(scales)))).tolist()):
                yield fraction_up(Fraction(adjacency) * Fraction(a) / Fraction(scales[u])) if a else 0.0
            return
        sums, before = [Fraction(0)] * len(corners), Fraction(0)
        for row, scale in zip(rows, scales, strict=True):
            sums = [
                total + _exact_loss([row], np.array([scale]), corner)
                for total, corner in zip(sums, corners, strict=True)
            ]
            yield fraction_up(Fraction(adjacency) * (max(sums) - before))
            before = max(sums)

    def _candidates(self, parts: FloatArray) -> FloatArray:
        """Return all corners at which the loss can be largest.

        Sums of floats are off by at most `error`, so every corner within twice of it from the largest stays.
        """
        if len(self.corners) <= _FEW:
            return self.corners
        found = np.concatenate(
            [np.abs(parts @ some.T).sum(axis=0) for some in np.array_split(self.corners, 64)]
        )
        error = 2 * _EPS * (len(parts) + parts.shape[1] + 8) * float(np.abs(parts).sum())
        near = np.flatnonzero(found >= found.max() - 2 * error)
        if len(near) > 100 * _FEW:
            raise MotionError(
                "too many corners of the private box have the same loss to compare them exactly. Take "
                'norm="l1", or fewer private components.'
            )
        return self.corners[near]

    def _round_loss(self, scales: FloatArray) -> float:
        """The loss of the norm l2: exact for two components, a bound for more."""
        exact = self.influence_rows(len(scales))
        rows = np.array([row.floats() for row in exact]).reshape(len(exact), -1)
        with np.errstate(over="ignore", under="ignore"):
            parts = rows[scales > 0] / scales[scales > 0, None]
        if not _LEAST < np.abs(parts).max(initial=0.0) < 1 / _LEAST:  # floats would lose it: the bound
            each = [(self._largest(row), s) for row, s in zip(exact, scales.tolist(), strict=True) if s]
            if math.inf in (size for size, _ in each):
                return math.inf
            return fraction_up(sum((Fraction(size) / Fraction(s) for size, s in each), Fraction(0)))
        if parts.shape[1] > 2:
            return float(np.sqrt((parts**2).sum(axis=1)).sum() * (1 + 1e-12))
        # Σ|m·v| over a disc is the support of a zonotope: its largest corner. Each one is a sum of all m with
        # the signs that they have on one side of a line.
        parts = np.where((parts[:, :1] < 0) | ((parts[:, :1] == 0) & (parts[:, 1:] < 0)), -parts, parts)
        parts = parts[np.argsort(np.arctan2(parts[:, 1], parts[:, 0]), kind="stable")]
        corners = 2 * np.cumsum(parts, axis=0) - parts.sum(axis=0)
        largest = np.hypot(corners[:, 0], corners[:, 1]).max(initial=0.0)
        return float(largest * (1 + 1e-13 * len(parts) ** 0.5 + 1e-12))

    @cached_property
    def tail(self) -> Tail:
        """A power of A whose row sums are below ½, exactly.

        It exists if every mode fades. Then A^(t+steps) is smaller than A^t by `factor`, in row sums.
        """
        return self._tail(1.0)

    def _tail(self, q: float) -> Tail:
        """Return a power K of A whose row sums are below q^K/2."""
        steps, power, faded = 1, self._exact, Fraction(q)
        while steps <= _MOST_STEPS and self.modulus < q:
            sums = [Fraction(int(sum(abs(v) for v in row)), 1 << power.shift) for row in power.whole]
            if 2 * max(sums) < faded:
                return Tail(steps, max(sums) / faded)
            power, steps, faded = power @ power, 2 * steps, _down(faded * faded)
        if q < 1:
            raise ParameterError(
                f"decay must be above {self.modulus:.6g}, the slowest mode of A, got {q:.6g}: the noise "
                "would fade faster than the states forget, so no finite epsilon covers an endless run. Raise "
                "decay, or give a number of rounds."
            )
        raise MotionError(
            "an endless run needs every mode of A to fade, and the largest has modulus "
            f"{self.modulus:.6g}. Give a number of rounds, or draw noise once."
        )

    def spent_endless(self, c: float, q: float) -> float:
        """Return Σ_t |M_t·d|/(c·q^t) over an endless run, rounded up.

        The first messages are summed exactly, each at its worst corner. From message T on they are at most
        Σ_{i<K} ‖C‖₁·‖A^(T+i)·G‖/(c·q^(T+i)) · 1/(1 − r/q^K) with the row sums r of |A^K|.
        """
        steps, _ = self._tail(q)
        exact, scale = Fraction(q), Fraction(c)
        first = 4 * steps + math.ceil(36 / math.log(q / max(self.modulus, 1e-9)))
        return fraction_up(_exact_sum(self, scale, exact, first) + self._left(c, q, first))

    def _left(self, c: float, q: float, first: int) -> Fraction:
        """Bound what all messages from `first` on add to the loss."""
        steps, ratio = self._tail(q)
        exact, scale = Fraction(q), Fraction(c)
        column, grown = self._start, Fraction(0)
        size = sum((abs(v) for v in Dyadic.of(self.C).fractions()), Fraction(0))
        for _ in range(first):
            column = self._exact @ column
        for i in range(steps):
            rows = [Fraction(int(sum(abs(v) for v in row)), 1 << column.shift) for row in column.whole]
            grown += size * max(rows) / (scale * _down(exact ** (first + i)))
            grown = Fraction(math.ceil(grown * (1 << _FIXED)), 1 << _FIXED)
            column = self._exact @ column
        return grown / (1 - ratio)

    # ---- what the group agrees on -------------------------------------------------------------------

    @property
    def modulus(self) -> float:
        """ρ(A), the modulus of the slowest mode. Nothing private rests on it."""
        return float(np.abs(np.linalg.eigvals(self.A)).max())

    @cached_property
    def _settling(self) -> list[Fraction]:
        """C(I − A)^−1: how much each component of a start weighs in the end."""
        n = self.dimension
        rest = [[Fraction(int(i == j)) - Fraction(self.A[i, j]) for i in range(n)] for j in range(n)]
        try:
            return solved(rest, [Fraction(value) for value in self.C])
        except ZeroDivisionError:
            raise MotionError(
                "what agents agree on is unknown: A has a mode of modulus 1 that never fades. A private "
                "preference that acts in every step has no such limit; ask for the loss of some rounds."
            ) from None

    @cached_property
    def gain(self) -> float:
        """C(I − A)^−1·B: 1 if an agent that hears what it says stays."""
        return float(sum((a * Fraction(b) for a, b in zip(self._settling, self.B, strict=True)), Fraction(0)))

    @cached_property
    def lag(self) -> float:
        """τ = C(I − A)^−2·B = Σ_t t·h_t, the mean delay of the response."""
        n = self.dimension
        left = self._settling  # refuses a mode that never fades
        rest = [[Fraction(int(i == j)) - Fraction(self.A[i, j]) for j in range(n)] for i in range(n)]
        moved = solved(rest, [Fraction(value) for value in self.B])
        return float(sum((a * b for a, b in zip(left, moved, strict=True)), Fraction(0)))

    @property
    def settling(self) -> FloatArray:
        """C(I − A)^−1, one number per component."""
        return np.array([float(value) for value in self._settling])

    def pointed(self, omega: FloatArray) -> FloatArray:
        """ω_i·C(I − A)^−1, of shape (agents, n)."""
        return np.multiply.outer(omega, self.settling)

    @property
    def resting(self) -> FloatArray:
        """(I − A)^−1·B: the state that stays while it hears 1."""
        return np.asarray(np.linalg.solve(np.eye(self.dimension) - self.A, self.B), dtype=np.float64)

    def followed(self, rounds: int) -> FloatArray:
        """How much of the noise of a start is in the states after T rounds.

        It is C(I − A)^−1·(I − A^T)·G, divided by τ: the share of a start in the value agreed on.
        """
        component, _ = self._single("noise that is drawn once")
        left = np.linalg.matrix_power(self.A, rounds)
        return np.asarray(abs(float((self.settling - self.settling @ left)[component])) / abs(self.lag))

    @property
    def settled(self) -> float:
        """`followed` of an endless run."""
        component, _ = self._single("noise that is drawn once")
        return abs(float(self.settling[component])) / abs(self.lag)

    @property
    def width(self) -> float:
        """How far the one private component may change per unit of adjacency."""
        return self._single("noise that is drawn once")[1]

    def _single(self, what: str) -> tuple[int, float]:
        if len(self.private) > 1:
            raise MotionError(
                f"{what} needs one private component, got {len(self.private)}: how the loss is split among "
                "several is not decided here. Take fresh noise, or agents with one private component."
            )
        if self.measured:
            raise measured_once()
        component, half = self.private[0]
        return int(component), float(half)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What every number about these agents assumes, one sentence each."""
        of = (
            "The state is measured: the plant must move exactly by this A, whatever disturbs it."
            if self.measured
            else "The state is computed by the agent itself from its start and public feedback."
        )
        return (
            of,
            "Besides the start, all that moves the state is public or does not depend on the start.",
            "No other agent's private state reaches it but through messages: no physical coupling.",
            "A, B and C do not depend on the private value.",
            "Noise is drawn once per step; nobody observes the state but through messages.",
        )

    # ---- on whole numbers (docs/proofs/dynamics.md, T9) ---------------------------------------------

    def move_whole(self, state: Any, y: Any) -> Any:
        """Return Az + By, each component to the nearest state step, ties up."""
        both = self._moving
        known = np.array([*np.asarray(state, dtype=object).reshape(-1), y], dtype=object)
        return (both.whole @ known + (1 << both.shift >> 1)) >> both.shift

    @cached_property
    def _moving(self) -> Dyadic:
        return Dyadic.of(np.column_stack([self.A, self.B]))

    @cached_property
    def _saying(self) -> Dyadic:
        return Dyadic.of(self.C)

    def say_whole(self, state: Any, shift: int) -> Any:
        """Return Cz to the nearest step of 2^shift, ties up; one rounding."""
        said = self._saying
        shift += said.shift
        return (int(said.whole @ np.asarray(state, dtype=object)) + (1 << shift >> 1)) >> shift

    def disturb_whole(self, state: Any, change: Callable[[Any], Any]) -> Any:
        """Return a start whose one private component is noisy."""
        component, _ = self._single("noise that is drawn once")
        made = np.array(state, dtype=object)
        made[component] = change(made[component])
        return made

    def starts_apart(self, start: int) -> int:
        """The width of the one private component, times `start`, rounded up."""
        return math.ceil(Fraction(self.width) * start)

    def steps_apart(self, start: int, components: int) -> Iterator[int]:
        """D_u = |C·A^u·G|·D_0 + Σ_{k≤u} ‖C·A^k‖₁.

        Each rounding is below a step.

        The last term of the sum is the rounding of the start.
        """
        if components != 1:
            raise MotionError(f"a linear agent says one number, got {components} components.")
        gain, before, finer, u = 0, 0, self._start.shift, 0
        while True:
            row = self.rows(u + 1)[u]
            # whole numbers of 2^−shift: fractions would look for common factors of very long numbers
            gain = (gain << (row.shift - before)) + sum(abs(int(value)) for value in row.whole.flat)
            sizes = [abs(int(value)) for value in (row @ self._start).whole.flat]
            apart = max(sizes) if self.norm == "l1" else sum(sizes)
            yield -(-(apart * start + (gain << finer)) >> (row.shift + finer))
            before, u = row.shift, u + 1

    def distances(self, start: Extended, rounding: float) -> Iterator[Extended]:
        """Δ_u ≤ a_u·Δ_0 + s·Σ_{k≤u} ‖C·A^k‖₁."""
        gain, u = 0.0, 0
        while True:
            gain += float(np.abs(self.rows(u + 1)[u].floats()).sum())
            yield (extended(self.influence(u)) * start + rounding * gain) * (1 + 64 * (u + 1) * ulp())
            u += 1

    @cached_property
    def rounding_gain(self) -> float:
        """Γ = Σ_k ‖C·A^k‖₁: how many steps rounding can move what is said."""
        total, row = 0.0, self.C
        steps = self.tail.steps
        size = float(np.abs(self.C).sum())
        bound = size * steps * max(1.0, float(np.abs(self.A).sum(axis=1).max())) ** min(steps, 64)
        for _ in range(_MOST_STEPS * 16):
            total += float(np.abs(row).sum())
            row = row @ self.A
            if float(np.abs(row).sum()) * bound < 1e-17 * total:
                return total
        raise MotionError(f"rounding errors of these agents add up without bound: ρ(A) = {self.modulus:.6g}.")

    @property
    def fineness(self) -> float:
        """1/Γ."""
        return 1 / self.rounding_gain

    def reach(self, start: float, feedback: float) -> float:
        """Return the largest magnitude of any component of a state.

        Component i is at most sup_u ‖(A^u)_i‖₁·start + Σ_k |(A^k·B)_i|·feedback.
        """
        steps, _ = self.tail
        grown, heard = np.zeros(self.dimension), np.zeros(self.dimension)
        power, column = np.eye(self.dimension), self.B
        for _ in range(64 * steps):  # from here on all is below 2^−63 of what it was
            grown = np.maximum(grown, np.abs(power).sum(axis=1))
            heard += np.abs(column)
            power, column = power @ self.A, self.A @ column
        most = float((grown * start + heard * feedback).max()) * (1 + 1e-9)
        return max(most, start, feedback)

    def room(self, start: float, feedback: float) -> float:
        """sup_u ‖C·A^u‖₁·start + Σ_k |C·A^k·B|·feedback, or what is heard."""
        steps, _ = self.tail
        row, grown, heard = self.C, 0.0, 0.0
        for _ in range(64 * steps):  # from here on all is below 2^−63 of what it was
            grown = max(grown, float(np.abs(row).sum()))
            heard += abs(float(row @ self.B))
            row = row @ self.A
        return max((grown * start + heard * feedback) * (1 + 1e-9), start, feedback)


def measured_once() -> MotionError:
    """Return the refusal of noise that is drawn once for a measured state."""
    return MotionError(
        "noise that is drawn once needs a computed state, and this one is measured: added to it, two "
        "messages would give the start away. Let the agent compute a reference (measured = false) that "
        "its plant follows, or take fresh noise."
    )


def as_matrix(given: Any, what: str) -> FloatArray:
    """Return finite numbers as a read-only array."""
    try:
        array = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError(f"{what} must be numbers, in rows of equal length.", what) from None
    if not np.isfinite(array).all():
        raise ParameterError(f"{what} must be finite numbers, got NaN or infinity.", what)
    frozen(array)
    return array


def as_vector(given: Any, what: str, n: int, why: str) -> FloatArray:
    """Return n finite numbers, from a vector, a row or a column."""
    array = as_matrix(given, what)
    if array.size != n or array.ndim not in (1, 2) or (array.ndim == 2 and 1 not in array.shape):
        raise ParameterError(
            f"{what} must have {n} numbers, one per component of the state ({why}), got shape {array.shape}.",
            what,
        )
    array = array.reshape(n)
    frozen(array)
    return array


def private_widths(given: Any, names: Sequence[str]) -> tuple[tuple[int, float], ...]:
    """Return private components by number with their widths, in order."""
    if isinstance(given, tuple) and given and all(isinstance(one, tuple) for one in given):
        if len({key for key, *_ in given}) < len(given):
            raise ParameterError("a private component must be named once, got one twice.", "private")
        given = dict(given)
    if not isinstance(given, Mapping) or not given:
        raise ParameterError(
            'private must name the private components of the start with their widths, as in {"speed": 1.0}, '
            f"got {shown(given)}.",
            "private",
        )
    found = {}
    for key, half in given.items():
        place = names.index(key) if key in names else key
        if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < len(names):
            raise ParameterError(
                f"private components must be among {', '.join(names)}, got {shown(key)}.", "private"
            )
        found[place] = positive("the width of a private component", half)
    if len(found) < len(given):
        raise ParameterError("a private component must be named once, got one twice.", "private")
    return tuple(sorted(found.items()))


def _exact_loss(rows: list[Dyadic], scales: FloatArray, corner: list[int]) -> Fraction:
    """Σ_t |M_t·d|/s_t at one corner, rounded up.

    Each term has 1,200 binary places.
    """
    total = 0
    for row, scale in zip(rows, scales.tolist(), strict=True):
        apart = abs(sum(sign * int(value) for sign, value in zip(corner, row.whole.flat, strict=True)))
        if apart:
            over, under = scale.as_integer_ratio()
            total -= (-(apart * under) << _FIXED) // (over << row.shift)
    return Fraction(total, 1 << _FIXED)


def _exact_sum(motion: Linear, c: Fraction, q: Fraction, rounds: int) -> Fraction:
    """Σ_{t<T} a_t/(c·q^t), each message at its worst corner, rounded up."""
    total, power = Fraction(0), Fraction(1)
    for row in motion.influence_rows(rounds):
        sizes = [abs(value) for value in row.fractions()]
        apart = max(sizes) if motion.norm == "l1" else sum(sizes, Fraction(0))
        total += Fraction(math.ceil(apart / (c * power) * (1 << _FIXED)), 1 << _FIXED)
        power = _down(power * q)
    return total


def _down(value: Fraction) -> Fraction:
    """Round a positive fraction down to 1,200 significant bits."""
    drop = max(value.denominator.bit_length() - value.numerator.bit_length() + _FIXED, 0)
    return Fraction((value.numerator << drop) // value.denominator, 1 << drop)
