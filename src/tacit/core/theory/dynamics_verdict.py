"""Check a file of agents with their own dynamics again, exactly.

This is the slow and obvious way, and shares no arithmetic with `Linear` and `Contracting`: every float of the
file is a fraction, states move by products of fractions, and the loss of every corner is one exact sum.
Certificates are checked by LDLᵀ in fractions. Nothing is rounded before the end, and then up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from tacit.base.errors import MotionError, ParameterError
from tacit.base.report import Row, Shown, Summary, some_rounds, up
from tacit.base.rounding import fraction_up, root_up, shown_up
from tacit.core.law import Law
from tacit.core.law.gaussian import epsilon_of
from tacit.core.motion import Contracting, Linear, Motion, Plant, Prefiltered
from tacit.core.theory.hybrid import Hybrid
from tacit.core.theory.motion_file import MotionFile

MOST_CORNERS = 64
MOST_ROUNDS = 2_000
_LITTLE = Fraction(1, 10**18)  # what the tail of an endless run may add to the loss

Exact = list[Fraction]
Matrix = list[Exact]


class Corner(NamedTuple):
    """One change of the private components, in widths, and its loss."""

    change: tuple[int, ...]
    loss: Fraction


@dataclass(frozen=True, eq=False)
class DynamicsVerdict(Shown):
    """What was computed again from a file, and whether it is within a loss.

    Attributes
    ----------
    loss : Fraction
        For the adjacency of the file, exact; a bound where `bound` says why.
    corners : tuple of Corner
        Exact losses of all changes that matter, per unit of adjacency. Empty where there is a bound only.
    proofs : tuple of Row
        Certificates that were checked, with their smallest pivot.
    most : float or None
        The loss that must not be exceeded.
    """

    found: MotionFile
    loss: Fraction
    corners: tuple[Corner, ...] = ()
    proofs: tuple[Row, ...] = ()
    bound: str = ""
    most: float | None = None
    more: tuple[str, ...] = field(default=())

    @property
    def motion(self) -> Motion:
        """The agents' motion."""
        return self.found.law.plant if isinstance(self.found.law, Hybrid) else self.found.law.motion

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What is assumed, besides the state: it cannot be checked from a file."""
        own = [line for line in self.motion.assumptions if not (self.found.others and "coupling" in line)]
        return (*self.more, *own)

    @property
    def held(self) -> bool:
        """Whether the loss is within what must not be exceeded, exactly."""
        return self.most is None or self.loss <= Fraction(self.most)

    @property
    def assumed(self) -> str:
        """What the agent's state is: computed, or measured."""
        return "measured" if getattr(self.motion, "measured", False) else "computed"

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        return {
            "verdict": "proved" if self.held else "exceeded",
            "loss": fraction_up(self.loss),
            "most": self.most,
            "exact": not self.bound,
            "bound": self.bound or None,
            "numerator": hex(self.loss.numerator),
            "denominator": hex(self.loss.denominator),
            "corners": [
                {"change": list(one.change), "epsilon": fraction_up(one.loss)} for one in self.corners
            ],
            "certificates": [
                {"name": one.name, "value": one.value, "proves": one.meaning} for one in self.proofs
            ],
            "state": self.assumed,
            "law": self.found.law.name,
            "motion": self.motion.name,
            "rounds": self.found.rounds,
            "adjacency": self.found.adjacency,
            "assumptions": list(self.assumptions),
        }

    def summary(self) -> Summary:
        """Return the verdict, the loss of every corner, and what is assumed."""
        run = "an endless run" if self.found.rounds is None else some_rounds(self.found.rounds)
        of = f"over {run}, for an adjacency of {self.found.adjacency:g}"
        said = f"{self.bound or 'exact, then rounded up'}; {of}"
        rows = [Row("loss", repr(fraction_up(self.loss)), said)]
        if self.most is not None:
            word = "PROVED" if self.held else "EXCEEDED"
            rows.insert(0, Row(word, up(self.most), "the loss that must not be exceeded"))
        names = getattr(self.motion, "names", ())
        private = [names[k] if names else str(k) for k, _ in getattr(self.motion, "private", ())]
        for one in self.corners if len(self.corners) > 1 else ():
            change = ", ".join(
                f"{'-' if s < 0 else '+'}{name}" for s, name in zip(one.change, private, strict=True) if s
            )
            rows.append(Row("corner", repr(fraction_up(one.loss)), f"per unit of adjacency: {change}"))
        rows.append(Row("state", self.assumed, "that is assumed, and cannot be checked from a file"))
        sections = {"Loss": rows} | ({"Certificates": list(self.proofs)} if self.proofs else {})
        law = self.found.law
        title = f"{law.name} noise, {self.motion.name} agents"
        return Summary(title, sections, self.assumptions)


def verify_dynamics(found: MotionFile, most: float | None = None) -> DynamicsVerdict:
    """Compute the loss of a file again, exactly, and check its certificates.

    Parameters
    ----------
    found : MotionFile
        As `tacit.core.theory.motion_file.parse_motion_file` reads it.
    most : float, optional
        The loss that must not be exceeded.
    """
    if found.rounds is not None and found.rounds > MOST_ROUNDS:
        raise MotionError(
            f"a file is checked exactly for at most {MOST_ROUNDS:,} rounds, got {found.rounds:,}."
        )
    law = found.law
    made = _hybrid(law) if isinstance(law, Hybrid) else _KINDS[_kind(law)](found, law)
    adjacency = Fraction(found.adjacency)
    return DynamicsVerdict(found, made[0] * adjacency, *made[1:4], most, *made[4:])


_Made = tuple[Fraction, tuple[Corner, ...], tuple[Row, ...], str, tuple[str, ...]]


def _kind(law: Law) -> str:
    motion = law.motion
    if law.shadowed:
        return "once"
    if not law.pure:
        return "gaussian"
    if isinstance(motion, Linear):
        return "linear"
    return motion.name


# ---- linear agents --------------------------------------------------------------------------------------


def _linear(found: MotionFile, law: Law) -> _Made:
    motion = law.motion
    assert isinstance(motion, Linear)
    if found.rounds is None:
        return _endless(motion, law)
    scales = [Fraction(s) for s in law.scales(found.rounds).tolist()]
    rows = [motion.C.tolist(), *found.others]
    table = [_messages(motion, row, found.rounds) for row in rows]
    if motion.norm == "l2" and len(motion.private) > 1:
        bound = "an upper bound for a disc, swept in floats" if len(motion.private) == 2 else "an upper bound"
        return Fraction(float(motion.spent(law.scales(found.rounds)))), (), (), bound, ()
    corners = tuple(
        Corner(change, sum((_loss(said, scales, change) for said in table), Fraction(0)))
        for change in _changes(motion)
    )
    more: tuple[str, ...] = ()
    if found.others:
        own = max(_loss(table[0], scales, change) for change in _changes(motion))
        more = (
            f"Physical coupling: its own messages lose {shown_up(fraction_up(own))} per unit of adjacency, "
            "those of all together more. The guarantee is not the agent's own; no session takes such agents.",
        )
    return max(one.loss for one in corners), corners, (), "", more


def _changes(motion: Linear) -> list[tuple[int, ...]]:
    """The changes of private components at which a loss can be largest."""
    p = len(motion.private)
    if motion.norm == "l1":
        return [tuple(int(i == k) for i in range(p)) for k in range(p)]
    if 2 ** (p - 1) > MOST_CORNERS:
        raise ParameterError(
            f"a box of {p} private components has {2 ** (p - 1):,} corners, and at most {MOST_CORNERS} are "
            'checked one by one. Take norm = "l1".'
        )
    return [(1, *signs) for signs in product((1, -1), repeat=p - 1)]


def _messages(motion: Linear, row: Sequence[float], rounds: int) -> list[Exact]:
    """C·A^t·G for t < rounds: one exact number per private component."""
    A, C = _exact(motion.A), [Fraction(v) for v in row]
    columns = []
    for component, half in motion.private:
        z = [Fraction(0)] * len(A)
        z[component] = Fraction(half)
        said = []
        for _ in range(rounds):
            said.append(_dot(C, z))
            z = [_dot(line, z) for line in A]
        columns.append(said)
    return [list(one) for one in zip(*columns, strict=True)]


def _loss(said: list[Exact], scales: Exact, change: Sequence[int]) -> Fraction:
    """Σ_t |M_t·d|/s_t."""
    parts = []
    for t, (row, scale) in enumerate(zip(said, scales, strict=True)):
        apart = abs(sum((sign * value for sign, value in zip(change, row, strict=True)), Fraction(0)))
        if apart and not scale:
            raise ParameterError(
                f"message {t} depends on a private component, so its noise must not be 0. Give it a scale.",
                "scales",
            )
        parts.append(apart / scale if apart else apart)
    return _total(parts)


def _endless(motion: Linear, law: Law) -> _Made:
    """The loss of scales c·q^t for ever: messages, and a proved tail."""
    if law.ratio is None:
        raise ParameterError(f"an endless run of {law.name} noise is not checked: give a number of rounds.")
    c, q = Fraction(float(np.max(law.c))), Fraction(float(np.max(law.ratio)))
    slowest = motion.modulus
    if not slowest < q:
        raise ParameterError(
            f"decay must be above {slowest:.6g}, the slowest mode of A, got {float(q):.6g}: no finite "
            "loss covers an endless run. Raise decay, or give a number of rounds."
        )
    rho = math.sqrt(max(slowest, 1e-3) * float(q))
    P, rate = _lyapunov(motion.A / rho), Fraction(rho)
    pivots = _pivots(_rest(_exact(motion.A), _exact(P), rate))
    kappa = _kappa(_exact(P), motion)
    ratio, rounds = rate / q, 0
    tail = kappa / c / (1 - ratio)
    power = Fraction(1)
    while tail * power > _LITTLE:
        rounds, power = rounds + 1, Fraction(fraction_up(power * ratio))
        if rounds > MOST_ROUNDS:
            raise MotionError("the noise fades nearly as fast as the states: give a number of rounds.")
    said = _messages(motion, motion.C.tolist(), rounds)
    scales = [c * q**t for t in range(rounds)]
    left = tail * power
    corners = tuple(Corner(one, _loss(said, scales, one) + left) for one in _changes(motion))
    proofs = (
        Row("metric", f"{float(min(_pivots(_exact(P)))):.3g}", "its smallest pivot: positive definite"),
        Row("rate", shown_up(rho), f"A'PA ⪯ ρ²P, smallest pivot {float(min(pivots)):.3g}"),
        Row("tail", shown_up(fraction_up(left), 3), f"what messages from {rounds:,} on add at most"),
    )
    return (
        max(one.loss for one in corners),
        corners,
        proofs,
        "some messages exactly, the rest by a proved tail",
        (),
    )


def _lyapunov(A: Any) -> Any:
    """A metric in which A contracts, in floats; it is checked later."""
    from scipy.linalg import solve_discrete_lyapunov

    P = solve_discrete_lyapunov(A.T, np.eye(len(A)))
    return (P + P.T) / 2


# ---- agents with a certificate --------------------------------------------------------------------------


def _contracting(found: MotionFile, law: Law) -> _Made:
    motion = law.motion
    assert isinstance(motion, Contracting)
    kappa = _kappa(_exact(motion.metric), motion)
    rate = Fraction(float(motion.rate))
    return _by_bound(found, law, (kappa * rate**t for t in _from_zero()), (kappa, rate), _certificate(motion))


def _prefiltered(found: MotionFile, law: Law) -> _Made:
    motion = law.motion
    assert isinstance(motion, Prefiltered)
    k, r, p, span = (Fraction(float(v)) for v in (motion.gain, motion.limit, motion.pace, motion.range))
    held = max(math.ceil((span - r / k) / (r - p)), 0)
    half = Fraction(motion.private[0][1])
    proofs = (Row("held", f"{held:,}", "rounds in which the start may not fade; afterwards by 1 - gain"),)
    bounds = (half * (1 - k) ** max(t - held, 0) for t in _from_zero())
    # from `held` on the influence is half·(1 − k)^(t − held)
    return _by_bound(found, law, bounds, (half / (1 - k) ** held, 1 - k), proofs)


def _plant(found: MotionFile, law: Law) -> _Made:
    motion = law.motion
    assert isinstance(motion, Plant)
    if found.rounds is None:
        raise ParameterError("an endless run of a measured plant is not checked: give a number of rounds.")
    bounds = map(Fraction, np.asarray(motion.influence(np.arange(found.rounds))).tolist())
    return _by_bound(found, law, bounds, (Fraction(0), Fraction(0)), _certificate(motion.certificate))


def _by_bound(
    found: MotionFile,
    law: Law,
    bounds: Iterator[Fraction],
    fading: tuple[Fraction, Fraction],
    proofs: tuple[Row, ...],
) -> _Made:
    (kappa, rate), bound = fading, "an upper bound, by a certificate that was proved"
    if found.rounds is None:
        if law.ratio is None or not rate < float(np.max(law.ratio)):
            raise ParameterError(
                "an endless run needs fading noise whose decay is above the proved rate: raise decay, or "
                "give a number of rounds."
            )
        c, q = Fraction(float(np.max(law.c))), Fraction(float(np.max(law.ratio)))
        first = 0
        parts = []
        while kappa * (rate / q) ** first / c > _LITTLE * (1 - rate / q) and first <= MOST_ROUNDS:
            parts.append(next(bounds) / (c * q**first))
            first += 1
        return _total(parts) + kappa * (rate / q) ** first / c / (1 - rate / q), (), proofs, bound, ()
    scales = [Fraction(s) for s in law.scales(found.rounds).tolist()]
    if not all(scales):
        raise ParameterError(
            "a message of which only a bound is known must have noise: give it a scale.", "scales"
        )
    parts = [apart / scale for apart, scale in zip(bounds, scales, strict=False)]
    return _total(parts), (), proofs, bound, ()


def _certificate(motion: Contracting) -> tuple[Row, ...]:
    P, rate = _exact(motion.metric), Fraction(float(motion.rate))
    rows = [Row("metric", f"{float(min(_pivots(P))):.3g}", "its smallest pivot: positive definite")]
    least = [min(_pivots(_rest(_exact(J), P, rate), strict=False)) for J in motion.jacobians]
    said = f"J'PJ ⪯ ρ²P for {len(least)} matrices, smallest pivot {float(min(least)):.3g}"
    return (*rows, Row("rate", shown_up(motion.rate), said))


def _once(_: MotionFile, law: Law) -> _Made:
    loss = Fraction(float(law.motion.width)) / Fraction(float(np.max(law.c)))
    said = "Noise once is that of a computed shadow, never of a state that is measured or rounded by itself."
    return loss, (Corner((1,), loss),), (), "", (said,)


def _gaussian(found: MotionFile, law: Law) -> _Made:
    motion = law.motion
    if found.rounds is None or found.delta is None or not isinstance(motion, Linear) or motion.norm == "l2":
        raise ParameterError(
            "Gaussian noise is checked for linear agents with a box, and a number of rounds."
        )
    said = _messages(motion, motion.C.tolist(), found.rounds)
    squares = [Fraction(s) ** 2 for s in law.deviations(found.rounds).tolist()]
    spent = [[x * x for x in _combined(said, change)] for change in _changes(motion)]
    if any(x and not s for row in spent for x, s in zip(row, squares, strict=True)):
        raise ParameterError("a message that depends on a private component must have noise.", "scales")
    mu = max(_total([x / s for x, s in zip(row, squares, strict=True) if x]) for row in spent)
    loss = epsilon_of(root_up(mu) * found.adjacency, found.delta)
    proofs = (Row("mu", repr(root_up(mu)), "per unit of adjacency; its square is exact, and rounded up"),)
    bound = f"exceeded with probability {found.delta:g}; ε of this μ in floats"
    return Fraction(loss) / Fraction(found.adjacency), (), proofs, bound, ()


def _combined(said: list[Exact], change: Sequence[int]) -> Exact:
    return [sum((s * v for s, v in zip(change, row, strict=True)), Fraction(0)) for row in said]


def _hybrid(law: Hybrid) -> _Made:
    proofs = _certificate(law.plant.certificate)
    return law.exact, (), proofs, "an upper bound, by a certificate that was proved", ()


_KINDS: dict[str, Callable[[MotionFile, Law], _Made]] = {
    "linear": _linear,
    "once": _once,
    "gaussian": _gaussian,
    Contracting.name: _contracting,
    Prefiltered.name: _prefiltered,
    Plant.name: _plant,
}


# ---- exact arithmetic -----------------------------------------------------------------------------------


def _exact(matrix: Any) -> Matrix:
    return [[Fraction(v) for v in row] for row in np.asarray(matrix, dtype=np.float64).tolist()]


def _dot(one: Exact, other: Exact) -> Fraction:
    return sum((a * b for a, b in zip(one, other, strict=True)), Fraction(0))


def _total(parts: Exact) -> Fraction:
    """Add in pairs: the fractions in the middle of the way stay short."""
    while len(parts) > 1:
        parts = [sum(parts[i : i + 2], Fraction(0)) for i in range(0, len(parts), 2)]
    return parts[0] if parts else Fraction(0)


def _rest(J: Matrix, P: Matrix, rate: Fraction) -> Matrix:
    """ρ²P − J'PJ."""
    n = range(len(P))
    moved = [[_dot(P[i], [J[m][j] for m in n]) for j in n] for i in n]
    return [[rate**2 * P[i][j] - sum((J[m][i] * moved[m][j] for m in n), Fraction(0)) for j in n] for i in n]


def _pivots(matrix: Matrix, *, strict: bool = True) -> Exact:
    """The pivots of LDLᵀ; refuse a matrix that is not positive (semi)definite."""
    rows, n, found = [row[:] for row in matrix], len(matrix), []
    for k in range(n):
        pivot, below = rows[k][k], [rows[i][k] for i in range(k + 1, n)]
        found.append(pivot)
        if pivot < 0 or (pivot == 0 and (strict or any(below))):
            raise ParameterError(
                "the certificate does not prove its rate: a pivot of LDLᵀ is not positive. Give a larger "
                "rate, or another metric.",
                "rate",
            )
        for i in range(k + 1, n) if pivot else ():
            factor = rows[i][k] / pivot
            rows[i] = [a - factor * b for a, b in zip(rows[i], rows[k], strict=True)]
    return found


def _kappa(P: Matrix, motion: Linear | Contracting) -> Fraction:
    """max|Gd|_P·|C|_{P*} over the box of private components, rounded up."""
    place, widths = zip(*((k, Fraction(half)) for k, half in motion.private), strict=True)
    largest = Fraction(0)
    for signs in product((1, -1), repeat=len(place) - 1):
        d = dict(zip(place, (s * w for s, w in zip((1, *signs), widths, strict=True)), strict=True))
        largest = max(
            largest, sum((a * P[i][j] * b for i, a in d.items() for j, b in d.items()), Fraction(0))
        )
    row = [Fraction(v) for v in motion.C.tolist()]
    return Fraction(root_up(largest * _dot(row, _divided(P, row))))


def _divided(P: Matrix, right: Exact) -> Exact:
    """P⁻¹·right, by elimination from both sides of LDLᵀ."""
    rows = [[*row, r] for row, r in zip(P, right, strict=True)]
    n = len(rows)
    for k in range(n):
        for i in range(n):
            if i != k:
                factor = rows[i][k] / rows[k][k]
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[k], strict=True)]
    return [row[n] / row[k] for k, row in enumerate(rows)]


def _from_zero() -> Iterator[int]:
    t = 0
    while True:
        yield t
        t += 1
