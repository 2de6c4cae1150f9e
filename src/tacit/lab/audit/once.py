"""Audit laws for a whole domain: bits and staircase noise, as deployed.

An agent says one message. So it is asked for many of them, from the two ends of its range, on its lattice and
with its safe source. What can be checked exactly is: which numbers it says, and which draws lead to which.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np

from tacit.base.errors import ParameterError
from tacit.core.law.once import log_up
from tacit.core.mechanism import Mechanism
from tacit.core.mechanism.lattice import Lattice, LatticeAgent
from tacit.core.noise.accounting import account
from tacit.core.noise.safe import source_of
from tacit.lab.audit.audit_plan import AuditPlan
from tacit.lab.audit.report import AuditFinding, AuditReport, LossCurve, Verdict
from tacit.lab.audit.testers import coin, tally

_STARTS = 64  # values, at which the draws around the border are tried
_LEVELS = 6  # of a staircase, compared with their probabilities


@dataclass(frozen=True)
class Speaker:
    """An agent that says one message; faults override its methods."""

    agent: LatticeAgent
    adjacency: float

    def draws(self, count: int) -> list[int]:
        """Return the draws of so many sessions."""
        source = source_of(self.agent, self.adjacency)
        return [int(draw) for draw in source.draw(self.agent.draw_scale(0), count)]

    def say(self, start: int, draw: int) -> int:
        """Return the message of a start, in state steps, and a draw."""
        return int(self.agent.report(start, 0, draw))


@final
class RoundedDown(Speaker):
    """Planted: the two values are rounded towards the middle."""

    def say(self, start: int, draw: int) -> int:
        """Say a value two steps too close, beyond the room for rounding."""
        law: Any = self.agent.law
        ends, more = self.agent.ends, math.ceil(Fraction(float(law.c)) / Fraction(law.domain)) + 2
        low, high = ends.low + more, ends.high - more
        here = int(self.agent.rounded(start, 0))
        return high if draw * (high - low) < (here - low) * (ends.high - ends.low) else low


@final
class FloatProbability(Speaker):
    """Planted: the probability is a float, from the value and the law."""

    def say(self, start: int, draw: int) -> int:
        """Compare two floats."""
        law: Any = self.agent.law
        ends, grid = self.agent.ends, self.agent.lattice
        likely = 0.5 + (float(grid.value(start)) - law.middle) / (2 * float(law.c))
        return ends.high if draw / self.agent.draw_scale(0) < likely else ends.low


@final
class ReusedDraw(Speaker):
    """Planted: after a restart the agent takes the draw of its last session."""

    def draws(self, count: int) -> list[int]:
        """Return every draw twice."""
        return [draw for draw in super().draws(count // 2 + 1) for _ in range(2)][:count]


PLANTED: dict[str, type[Speaker]] = {
    "rounded-down": RoundedDown,
    "float-probability": FloatProbability,
    "reused-draw": ReusedDraw,
}
"""Faults of an agent with bits, by name; the last one is for staircase noise, too."""


def examine_once(
    mechanism: Mechanism,
    *,
    transcripts: int,
    failure_probability: float,
    seed: int,
    planted: str | None = None,
) -> AuditReport:
    """Audit an agent of a mechanism with bits or staircase noise.

    Parameters
    ----------
    planted : str, optional
        A fault of `PLANTED`, to see that it is found.
    """
    law: Any = mechanism.law
    domain = float(law.domain)
    low = float(law.middle) - domain / 2 if law.two_valued else 0.0  # staircase noise is the same everywhere
    agent = Lattice.fitting(law, 1, low, low + domain).agent(law)
    if planted is not None and planted not in PLANTED:
        raise ParameterError(f"planted must be one of {', '.join(PLANTED)}, got {planted!r}.", "planted")
    speaker = (Speaker if planted is None else PLANTED[planted])(agent, domain)
    ends = tuple(int(agent.lattice.start(end)) for end in (agent.lattice.low, agent.lattice.high))
    heads = coin(transcripts, np.random.default_rng([seed, transcripts]))
    pairs = zip(ends, heads, strict=True)
    said = [[speaker.say(end, draw) for draw in speaker.draws(many)] for end, many in pairs]
    promised = account(agent, 1, adjacency=domain).total
    share = failure_probability / 8
    checks = _rules(speaker, said, ends, share) if law.two_valued else _stairs(agent, said, ends, share)
    findings = list(checks)
    loss = _distinguished(agent, said, ends, share)
    verdict: Verdict = "alarm" if loss > promised else "pass"
    told = f"guesses of the end by the message prove a loss of {loss:.4g}"
    findings.insert(0, AuditFinding("optimal distinguisher", verdict, told, loss=loss, promised=promised))
    made = AuditPlan(mechanism, 0, domain, domain, 1, transcripts, failure_probability)
    curve = LossCurve((1,), (promised,), (loss,))
    return made.report("lattice mechanism" if planted is None else planted, findings, curve=curve)


def _distinguished(agent: LatticeAgent, said: list[list[int]], ends: tuple[int, ...], share: float) -> float:
    """Return the loss that guesses by the likelier end prove."""
    low, high = (int(agent.rounded(end, 0)) for end in ends)
    middle = (low + high) / 2
    first, second = (np.array([1 if x < middle else -1 for x in row], dtype=np.int64) for row in said)
    return tally(first, second, share).loss


def _rules(
    speaker: Speaker, said: list[list[int]], ends: tuple[int, ...], share: float
) -> Iterator[AuditFinding]:
    """Check bits: numbers, their cost and probability, and fresh draws."""
    agent = speaker.agent
    seen = sorted({x for row in said for x in row})
    yield _rule("two values", len(seen) == 2, f"{len(seen)} different messages were said")
    if len(seen) != 2:
        return
    least, most = seen
    low, high = (int(agent.rounded(end, 0)) for end in ends)
    inside = least < low and high < most
    law: Any = agent.law
    cost = math.inf
    if inside:
        cost = log_up(max(Fraction(high - least, low - least), Fraction(most - low, most - high)))
    what = "the two numbers that were said cost exactly at most"
    yield _rule("distance", cost <= law.whole_loss, f"{what} {cost:.12g}, declared {law.whole_loss:.12g}")
    wrong = sum(not _exact(speaker, start, least, most) for start in _between(ends))
    told = f"at {wrong} of {_STARTS} values a draw next to the border led to the wrong number"
    yield _rule("probability", wrong == 0, told)
    for row, here, end in zip(said, (low, high), ("low", "high"), strict=True):
        p = Fraction(here - least, most - least)
        yield _counted(f"frequency at the {end} end", row.count(most), len(row), float(p), share)
        alike = sum(a == b for a, b in zip(row[::2], row[1::2], strict=False))
        same = float(p * p + (1 - p) * (1 - p))
        yield _counted(f"fresh draws at the {end} end", alike, len(row) // 2, same, share)


def _between(ends: tuple[int, ...]) -> list[int]:
    low, high = ends
    return [low + (high - low) * k // (_STARTS - 1) for k in range(_STARTS)]


def _exact(speaker: Speaker, start: int, least: int, most: int) -> bool:
    """Whether exactly the draws below start − least lead to the larger number."""
    border = int(speaker.agent.rounded(start, 0)) - least
    return speaker.say(start, border - 1) == most and speaker.say(start, border) == least


def _stairs(
    agent: LatticeAgent, said: list[list[int]], ends: tuple[int, ...], share: float
) -> Iterator[AuditFinding]:
    """Check staircase noise: draws on each stair, and fresh draws."""
    law: Any = agent.law
    width = source_of(agent, float(law.domain)).stairs.width  # type: ignore[attr-defined]
    first = law.stairs(width).first
    q = law.fall
    whole = (2 * first - 1) + 2 * width * q / (1 - q)
    for row, end, name in zip(said, ends, ("low", "high"), strict=True):
        noise = [x - int(agent.rounded(end, 0)) for x in row]
        level = [0 if abs(k) < first else 1 + (abs(k) - first) // width for k in noise]
        for stair in range(_LEVELS):
            p = (2 * first - 1 if stair == 0 else 2 * width * q**stair) / whole
            where = f"stair {stair} at the {name} end"
            yield _counted(where, level.count(stair), len(row), p, share / _LEVELS)
        alike = sum(a == b for a, b in zip(noise[::2], noise[1::2], strict=False))
        yield _rule(f"fresh draws at the {name} end", alike == 0, f"{alike} pairs of draws are the same")


def _rule(name: str, holds: bool, told: str) -> AuditFinding:
    return AuditFinding(name, "pass" if holds else "alarm", told)


def _counted(name: str, seen: int, many: int, p: float, share: float) -> AuditFinding:
    """Compare a count with its probability."""
    from scipy.stats import binomtest

    found = float(binomtest(seen, many, min(max(p, 0.0), 1.0)).pvalue)
    told = f"{seen} of {many}, expected {many * p:.1f}"
    return AuditFinding(name, "alarm" if found < share else "pass", told, found, share)
