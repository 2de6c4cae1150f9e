"""Sessions of agents with their own dynamics: files and making."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from tacit.base.errors import InputError
from tacit.base.files import read_public
from tacit.base.report import Row, Summary, near, up
from tacit.base.rounding import product_up
from tacit.core.law import Law, Scheduled
from tacit.core.law.scheduled import best_schedule
from tacit.core.motion import Bounded, Linear
from tacit.core.protocol.moving import Moving, own_arithmetic, require_few_rounds
from tacit.core.theory.motion_file import parse_motion_start
from tacit.core.theory.promise_rows import describe
from tacit.live.sessions.check import Explanation, promise_rows, rule_rows, session_rows

if TYPE_CHECKING:
    from tacit.core.mechanism.lattice import Lattice
    from tacit.core.protocol.session import Session

_LEAST = 2.0**-40  # of the largest influence: where it vanishes, rounding does not


@final
@dataclass(frozen=True)
class MotionRequest:
    """What a motion file asks of a session.

    Attributes
    ----------
    plan : dict
        Fields of a `Plan`, its motion among them.
    start : tuple of float
        The public start.
    kept : bool
        Whether A, B and C stay each agent's own.
    """

    plan: Mapping[str, Any]
    start: tuple[float, ...] = ()
    kept: bool = False

    def law(self, found: Law, rounds: int) -> Law:
        """Return the designed law as a session has it."""
        motion, made = found.motion, found
        if not isinstance(motion, Linear):
            raise InputError(
                f"agents of a session must be linear, got the motion {motion.name!r}: use `analyze` and "
                "`simulate` for others."
            )
        if isinstance(found, Scheduled):  # a scale must never vanish, as an influence may
            table = motion.influence_table(rounds)
            scales = best_schedule(np.maximum(table, table.max() * _LEAST)).scales
            made = Scheduled.of(motion, scales / scales.max() * float(found.c))
        if not self.kept:
            return made
        return type(made)(**{**made.values(), "sigma": Bounded.around(motion, rounds)})

    def moving(self, law: Law) -> Moving:
        """Return how the session's agents move."""
        motion = law.motion
        assert isinstance(motion, Linear | Bounded)
        return Moving(motion, self.start if isinstance(motion, Linear) else ())

    def lattice(self, found: Lattice, law: Law) -> Lattice:
        """Return a lattice that also holds the public start."""
        most = max([abs(found.low), abs(found.high)]) + max(map(abs, self.start), default=0.0)
        least = math.frexp(law.motion.room(most, 0.0))[1]
        assert found.reach_exponent is not None
        return replace(found, reach_exponent=max(found.reach_exponent, least))

    def require_own(self, session: Session) -> None:
        """Refuse bounds that the file's own A, B and C do not keep."""
        if self.kept:
            own_arithmetic(session, 0, Moving(self.plan["motion"], self.start))


def read_motion_request(path: str | Path, *, kept: bool = False) -> MotionRequest:
    """Read a motion file for a session."""
    plan, start = parse_motion_start(_text(path))
    require_few_rounds(plan.get("rounds") or 0)
    return MotionRequest(plan, start, kept)


def read_own_motion(path: str | Path) -> Moving:
    """Read an agent's own A, B, C and start."""
    plan, start = parse_motion_start(_text(path))
    return Moving(plan["motion"], start)


def _text(path: str | Path) -> str:
    try:
        return read_public(Path(path)).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path} must be a text file (TOML in UTF-8), and is not.") from None


# ---- what is said of a session whose A, B and C are each agent's own --------------------------------


def explain_bounded(session: Session) -> Explanation:
    """Return what a session promises of agents that it does not know."""
    return BoundedExplanation(session, None, (), session.mechanism.motion.assumptions)


@final
@dataclass(frozen=True, eq=False)
class BoundedExplanation(Explanation):
    """What an agent should know; accuracy holds if all have the declared lag."""

    @property
    def deviation(self) -> float | None:
        """Standard deviation of the noise in the value agreed on.

        √(2Σs²/N)/τ with fresh noise around a server. None where it needs A and C.
        """
        mechanism = self.session.mechanism
        if mechanism.shadowed or self.session.edges is not None:
            return None
        scales = mechanism.law.scales(self.session.rounds)
        total = 2 * float(np.sum(scales**2)) / self.session.n
        return product_up(math.sqrt(total) / float(mechanism.motion.lag), 1 + 1e-12)

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        law = self.session.mechanism.law
        promised = {
            "law": law.name,
            "agents": self.session.n,
            "rounds": self.session.rounds,
            "adjacency": self.session.adjacency,
            "loss": self.loss,
            "motion": law.motion.name,
            "lag": law.motion.lag,
            "deviation": self.deviation,
            "assumptions": list(law.motion.assumptions),
        }
        return self.told(promised)

    def summary(self, heading: str = "") -> Summary:
        """Return the session for people, with `heading` in front of the title."""
        motion, found = self.session.mechanism.motion, self.deviation
        rows = [Row("lag", near(float(motion.lag)), "rounds, of every agent's response; each checks its own")]
        if found is not None:
            rows.append(Row("deviation", up(found), "of the noise in the value that all agree on"))
        rows.append(Row("radius", "not known", "it needs A, B and C of all agents"))
        sections = {
            "Session": session_rows(self),
            "Promise": promise_rows(self),
            "Accuracy": rows,
            "Rules": rule_rows(self),
        }
        return Summary(f"{heading}{describe(self.session.mechanism)}", sections, self.notes)
