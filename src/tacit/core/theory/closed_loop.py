"""What linear agents agree on, how fast, and how far from the target.

All agents together move by z⁺ = F·z + BW·η with F = diag(A_i) + diag(B_i)·W·diag(C_i). If an agent that hears
what it says stays (unit gain) and all other modes of F fade, outputs converge to the target
Σω_i·C_i(I − A_i)^−1·z_i(0)/Σω_iτ_i plus Σ_tΣ_i ω_i·η_i(t)/Σω_iτ_i (docs/proofs/dynamics.md, T5). Equal
agents around a server differ by A^t·(z_i(0) − z_j(0)), without any noise.
"""

from __future__ import annotations

import math
from contextlib import suppress
from functools import cached_property
from itertools import pairwise
from typing import Any, cast

import numpy as np

from tacit.base.arrays import FloatArray
from tacit.base.errors import MotionError, RecordTooLarge
from tacit.core.mechanism import ClientServer, Distributed, Mechanism
from tacit.core.motion.dyadic import Dyadic
from tacit.core.motion.linear import Linear
from tacit.core.motion.various import Various
from tacit.core.theory import accuracy
from tacit.core.theory.endings import Ending
from tacit.core.theory.laplace_sum import LaplaceSum, per_component
from tacit.core.theory.normal_law import NormalLaw
from tacit.core.theory.targets import weights

_MOST_STATES = 600  # components of all agents together, for dense matrices
_MOST_TERMS = 20_000_000
_MOST_ROUNDS = 20_000
_INSIDE = 1e-9  # a mode this near to modulus 1 counts as one that does not fade
_UNIT = 1e-12  # a gain this near to 1 counts as 1 in an endless run


class ClosedLoop:
    """The loop of linear agents; one that does not settle is refused."""

    def __init__(self, mechanism: Mechanism, rounds: int | None = None, share: float = 1e-3) -> None:
        motion = mechanism.motion
        if not isinstance(motion, Linear | Various):
            raise motion.undefined("the loop of all agents", "what the group does")
        self.mechanism, self.rounds = mechanism, rounds
        self.motion: Linear | Various = motion
        self.alike = isinstance(mechanism, ClientServer) and isinstance(motion, Linear)
        self._require_limit(share)

    # ---- the loop -----------------------------------------------------------------------------------

    @cached_property
    def heard(self) -> FloatArray:
        """W, dense."""
        n = self.mechanism.n
        if isinstance(self.mechanism, Distributed):
            return np.asarray(self.mechanism.topology.matrix.toarray(), dtype=np.float64)
        return np.full((n, n), 1 / n)

    @cached_property
    def _parts(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """A, B and C of every agent, of shapes (n, d, d), (n, d), (n, d)."""
        n, d = self.mechanism.n, self.motion.dimension
        if n * d > _MOST_STATES:
            raise RecordTooLarge(
                "the loop of different linear agents, or of agents on a graph, is worked out for at most "
                f"{_MOST_STATES} components together, got {n * d}. Take fewer agents, or equal ones around a "
                "server."
            )
        if isinstance(self.motion, Various):
            return self.motion.stacked
        one = self.motion
        return np.tile(one.A, (n, 1, 1)), np.tile(one.B, (n, 1)), np.tile(one.C, (n, 1))

    @cached_property
    def matrix(self) -> FloatArray:
        """F, of shape (n·d, n·d)."""
        A, B, C = self._parts
        n, d = B.shape
        F = np.einsum("ik,ij,jl->ikjl", B, self.heard, C)
        F[np.arange(n), :, np.arange(n), :] += A
        return np.asarray(F.reshape(n * d, n * d))

    @cached_property
    def entrance(self) -> FloatArray:
        """BW: how the noise of each message enters all states."""
        B = self._parts[1]
        return np.asarray(np.einsum("ik,ij->ikj", B, self.heard).reshape(-1, self.mechanism.n))

    @cached_property
    def mean_matrix(self) -> FloatArray:
        """A + BC: how the mean of equal agents around a server moves."""
        one = cast(Linear, self.motion)
        return np.asarray(one.A + np.outer(one.B, one.C))

    @cached_property
    def modes(self) -> FloatArray:
        """Moduli of all modes of the loop, the largest first."""
        if self.alike:
            one = cast(Linear, self.motion)
            values = np.linalg.eigvals(self.mean_matrix)
            if self.mechanism.n > 1:
                values = np.concatenate([values, np.linalg.eigvals(one.A)])
        else:
            values = np.linalg.eigvals(self.matrix)
        top = int(np.argmin(np.abs(values - 1)))  # the value agreed on
        self._top = complex(values[top])
        rest = np.abs(np.delete(values, top))
        return np.asarray(np.sort(rest)[::-1])

    # ---- whether there is a limit -------------------------------------------------------------------

    def _require_limit(self, share: float) -> None:
        motion, omega = self.motion, self.mechanism.stationary
        gamma = np.asarray(motion.weight(omega))
        total = float(np.sum(gamma))
        if abs(total) <= 1e-12 * float(np.sum(np.abs(gamma))):
            raise MotionError(
                "the mean lag Σωτ of the agents is 0: they would agree on a ramp instead of a value, and "
                "noise would make errors grow without end. Add damping."
            )
        self.drift = abs(float(np.sum(omega * (1 - np.asarray(motion.gain))))) / abs(total)
        rounds = self.rounds
        worst = float(np.ravel(motion.gain)[np.argmax(np.abs(1 - np.ravel(motion.gain)))])
        if (rounds is None and self.drift > _UNIT) or self.drift * (rounds or 0) > share:
            far = "without end" if rounds is None else f"by {self.drift * rounds:.3g} of itself"
            raise MotionError(
                f"the gain C(I − A)^−1·B of every agent must be 1, got {worst:.9g}: an agent that hears what "
                f"it says would not stay, and the value agreed on would drift {far}. Scale B by 1/gain."
            )
        if self.modes.size and self.modes[0] >= 1 - _INSIDE:
            raise MotionError(
                f"the loop of all agents has a mode of modulus {self.modes[0]:.6g} besides the value agreed "
                f"on{self._named()}, so they never agree. Lower the gain of the feedback, or add damping."
            )

    def _named(self) -> str:
        """Say how the slowest mode moves, where it comes from, and who takes part."""
        if self.alike:
            one = cast(Linear, self.motion)
            own = float(np.abs(np.linalg.eigvals(one.A)).max()) >= 1 - _INSIDE
            return ", of every agent by itself" if own else ", of the mean of all"
        values, vectors = np.linalg.eig(self.matrix)
        order = np.argsort(-np.abs(values))
        top = int(np.argmin(np.abs(values - 1)))
        k = next(int(i) for i in order if i != top)
        z, (n, d) = complex(values[k]), self._parts[1].shape
        turn = abs(float(np.angle(z)))
        moves = "" if turn < _INSIDE else f", with a period of {2 * math.pi / turn:.3g} rounds"
        if isinstance(self.motion, Linear):  # det(zI − A − wBC) = 0 for an eigenvalue w of the weights
            with suppress(np.linalg.LinAlgError, ZeroDivisionError):
                answer = complex(
                    self.motion.C @ np.linalg.solve(z * np.eye(d) - self.motion.A, self.motion.B)
                )
                w = 1 / answer
                shown_ = f"{w.real:.4g}" if abs(w.imag) < _INSIDE else f"{w:.4g}"
                return f"{moves}, at the eigenvalue {shown_} of the weights"
        share = np.abs(vectors[:, k].reshape(n, d)).max(axis=1)
        most = [str(self.mechanism.names[int(i)]) for i in np.argsort(-share)[:3]]
        return f"{moves}, strongest in agents {', '.join(most)}"

    # ---- how fast ----------------------------------------------------------------------------------

    @property
    def rate(self) -> float | None:
        """The factor by which disagreement shrinks per round, in the long run.

        None if the noise has no such factor.
        """
        own = self.motion.modulus
        if self.mechanism.n == 1:
            return 0.0
        if self.alike:
            return own
        law = self.mechanism.law
        if law.shadowed:
            return max(own, float(self.modes[0]))
        return None if law.ratio is None else max(float(np.max(law.ratio)), float(self.modes[0]))

    def rounds_to_agreement(self, tolerance: float, spread: float, b: float) -> int:
        """Return after how many rounds agents agree within a tolerance.

        Equal agents around a server agree for certain, and from then on. Others do with probability 1 − b, by
        a bound on the variances.
        """
        if self.mechanism.n == 1:
            return 0
        return self._certain(tolerance, spread) if self.alike else self._likely(tolerance, spread, b)

    def _certain(self, tolerance: float, spread: float) -> int:
        one = cast(Linear, self.motion)
        steps, size = one.tail.steps, float(np.abs(one.C).sum())
        state, calm, last = _private_columns(one), 0, 0
        for t in range(_MOST_ROUNDS):
            if float(np.abs(one.C @ state).sum()) * spread > tolerance:
                last = t + 1
            # After `steps` rounds in a row all later ones are smaller, too.
            calm = calm + 1 if size * float(np.abs(state).sum(axis=1).max()) * spread <= tolerance else 0
            if calm > steps:
                return last
            state = one.A @ state
        raise MotionError(f"agents need more than {_MOST_ROUNDS:,} rounds to agree: none are counted.")

    def _likely(self, tolerance: float, spread: float, b: float) -> int:
        law, n = self.mechanism.law, self.mechanism.n
        F, entrance, off = self.matrix, self.entrance, self._off_consensus
        C, starts = self._said, self._starts
        state, noise = off @ starts, np.zeros_like(F)
        if law.shadowed:
            once = off @ starts / _widths(self)
            noise = once @ np.diag(np.broadcast_to(law.c, (n,)) ** 2 * 2.0) @ once.T
        for t in range(_MOST_ROUNDS):
            sure = float(np.abs(C @ state).sum(axis=1).max()) * spread
            left = tolerance - sure
            if left > 0 and float(np.einsum("ij,jk,ik->", C, noise, C)) <= b * (left / 2) ** 2:
                return t
            state, noise = F @ state, F @ noise @ F.T
            if not law.shadowed:
                enters = off @ entrance * law.deviation(np.float64(t))
                noise = noise + enters @ enters.T
        raise MotionError(f"agents need more than {_MOST_ROUNDS:,} rounds to agree: none are counted.")

    def _sum_of(self, size: FloatArray, each: float) -> LaplaceSum | NormalLaw | None:
        """The sum of independent noise of these deviations; None if there is none."""
        size, times = np.unique(size[size > 0], return_counts=True)
        if not size.size:
            return None
        count = np.asarray(times * each, dtype=np.float64)
        if not self.mechanism.law.pure:
            return NormalLaw(math.sqrt(float(np.sum(count * size**2))))
        return LaplaceSum(size / math.sqrt(2), np.zeros_like(size), count, 1)

    @cached_property
    def _said(self) -> FloatArray:
        """diag(C_i), of shape (n, n·d)."""
        C = self._parts[2]
        n, d = C.shape
        said = np.zeros((n, n, d))
        said[np.arange(n), np.arange(n)] = C
        return said.reshape(n, n * d)

    @cached_property
    def _starts(self) -> FloatArray:
        """The columns by which private components enter all states."""
        n, d = self._parts[1].shape
        columns = [_private_columns(self.motion.of_agent(i)) for i in range(n)]
        made = np.zeros((n * d, sum(column.shape[1] for column in columns)))
        place = 0
        for i, column in enumerate(columns):
            made[i * d : i * d + len(column), place : place + column.shape[1]] = column
            place += column.shape[1]
        return made

    @cached_property
    def _off_consensus(self) -> FloatArray:
        """I − r·ℓ/(ℓr): what is left without the value agreed on."""
        n, d = self._parts[1].shape
        left = weights(self.mechanism).reshape(-1)
        right = np.broadcast_to(self.motion.resting, (n, d)).reshape(-1)
        return np.asarray(np.eye(n * d) - np.outer(right, left))

    # ---- how far from the target --------------------------------------------------------------------

    def ending(self, b: float, spread: float, components: int = 1) -> Ending:
        """Bound what every agent says after the rounds, and how they differ.

        Starts lie around a state at rest: private components within `spread` widths of each other, the others
        as at rest.
        """
        b = per_component(b, components)
        if self.rounds is None:
            return Ending(accuracy.radius(self.mechanism, b), 0.0)
        return self._ending_alike(b, spread) if self.alike else self._ending_each(b, spread)

    def _ending_alike(self, b: float, spread: float) -> Ending:
        one, n, rounds = cast(Linear, self.motion), self.mechanism.n, cast(int, self.rounds)
        law, draws = self.mechanism.law, self.mechanism.sources
        F, row, effect = self.mean_matrix, one.C, []
        for _ in range(rounds):
            effect.append(abs(float(row @ one.B)))
            row = row @ F
        G = _private_columns(one)
        own = np.abs(one.C @ np.linalg.matrix_power(one.A, rounds) @ G)
        common = np.abs((row - one.settling / one.lag) @ G)
        bias = spread * float((own * (1 - 1 / n) + common / 2).sum())
        if law.shadowed:
            rest = row - one.C @ np.linalg.matrix_power(one.A, rounds)
            scale = np.array(
                [abs(float((rest @ G)[0])) / one.width * float(law.deviation(np.float64(0))) / n]
            )
        else:
            scale = np.array(effect[::-1]) * law.deviations(rounds) / n
        noise = self._sum_of(scale, float(draws))
        radius = bias if noise is None else (noise.quantile(b).high + bias) * (1 + 1e-12)
        return Ending(radius, spread * float(own.sum()) if n > 1 else 0.0)

    def _ending_each(self, b: float, spread: float) -> Ending:
        n, rounds, law = self.mechanism.n, cast(int, self.rounds), self.mechanism.law
        if n * n * max(rounds, 1) > _MOST_TERMS or self.mechanism.keepers:
            raise RecordTooLarge(
                "the radius of every agent needs agents² × rounds of at most "
                f"{_MOST_TERMS:,} and no keepers, got {n:,}² × {rounds:,}. Ask for fewer rounds, or for an "
                "endless run."
            )
        rows, effects = self._said, []
        for _ in range(rounds):
            effects.append(np.abs(rows @ self.entrance))
            rows = rows @ self.matrix
        aim = np.tile(weights(self.mechanism).reshape(-1), (n, 1))
        bias = spread / 2 * np.abs((rows - aim) @ self._starts).sum(axis=1)
        if law.shadowed:
            own = np.zeros_like(rows)
            A, _, C = self._parts
            d = C.shape[1]
            for i in range(n):
                own[i, i * d : (i + 1) * d] = C[i] @ np.linalg.matrix_power(A[i], rounds)
            scale = np.abs((rows - own) @ (self._starts / _widths(self)))[None] * law.deviation(np.float64(0))
        else:
            scales = law.deviations(rounds)
            table = np.array(effects[::-1]).reshape(rounds, n, n)
            scale = table * (scales[:, None, None] if scales.ndim == 1 else scales[:, None, :])
        sums = [self._sum_of(scale[:, i].reshape(-1), 1.0) for i in range(n)]
        own_radius = [0.0 if one is None else one.quantile(b / n).high for one in sums]
        radius = float(np.max(np.array(own_radius) + bias)) * (1 + 1e-12)
        return Ending(radius, 2 * radius if n > 1 else 0.0)

    @property
    def reaches_average(self) -> bool:
        """Whether private components count as in their plain average."""
        share = weights(self.mechanism) * self.mechanism.n
        private = [
            self.motion.of_agent(i).private for i in range(self.mechanism.n if self.motion.agents else 1)
        ]
        found = [share[i, k] for i, own in enumerate(private) for k, _ in own]
        return all(len(own) == 1 for own in private) and bool(np.all(np.abs(np.array(found) - 1) <= 1e-12))


def settles_everywhere(motion: Linear | Various, rounds: int = 400) -> bool:
    """Whether agents settle on every connected graph, equal or mixed.

    It is enough that each has unit gain and fading modes, that no response h_t = C·A^(t−1)·B is negative, and
    that one of them answers in two rounds in a row (docs/proofs/dynamics.md, T5). Signs are exact for so many
    rounds; the responses after them must add up to nearly nothing.
    """
    answers = False
    for one in motion.kinds if isinstance(motion, Various) else [motion]:
        if not one.modulus < 1 or abs(one.gain - 1) > _UNIT:
            return False
        entered = Dyadic.of(one.B)
        response = [(row @ entered).whole for row in one.rows(rounds)]
        if any(value < 0 for value in response):
            return False
        total = sum(float((row @ entered).floats()) for row in one.rows(rounds))
        if abs(total - 1) > _INSIDE:
            return False
        answers |= any(bool(a) and bool(b) for a, b in pairwise(response))
    return answers


def _private_columns(motion: Linear) -> FloatArray:
    """G in floats, one column per private component."""
    G = np.zeros((motion.dimension, len(motion.private)))
    for column, (component, half) in enumerate(motion.private):
        G[component, column] = half
    return G


def _widths(loop: ClosedLoop) -> Any:
    """The width of each agent's one private component."""
    return np.broadcast_to(np.asarray(loop.motion.width), (loop.mechanism.n,))
