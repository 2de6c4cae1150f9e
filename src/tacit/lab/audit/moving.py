"""Audit agents with linear dynamics, with and without known mistakes.

The tester knows both starts and all that is public. Given the feedback, a start fixes the states, so the
noise of every message is known: its law is compared with the declared one, and the likelihood ratio of the
two starts is a guess that no other beats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tacit.base.arrays import FloatArray, IntArray
from tacit.base.errors import ParameterError
from tacit.core.mechanism import ClientServer, Mechanism
from tacit.core.motion import Linear
from tacit.core.theory.privacy import loss
from tacit.lab.audit.audit_plan import AuditPlan
from tacit.lab.audit.distinguisher import sum_law
from tacit.lab.audit.portable import laplace
from tacit.lab.audit.report import AuditFinding, AuditReport, LossCurve
from tacit.lab.audit.testers import coin, judge, rule_from_law

_OWN = (0x7AC17, 0x307E)  # keeps the random streams of this module apart from all others
_ROUNDING = 1e-9
_LOSS = 1.0  # promised at the distance that is tried, unless one is given

MOTION_BUGS = {
    "half-noise": "noise of half its scale",
    "off-by-one": "message u has the scale of message u + 1",
    "redraw": "an agent that is asked again draws new noise for the same update",
    "by-round": "scales follow the round while the state is held every other round",
    "own-feedback": "an agent that lost its feedback takes its own output instead",
    "transposed": "states move by A transposed",
    "clamped": "states are cut to a range",
    "measured-once": "noise that is drawn once is added to a measured state that moves a little differently",
}
"""Mistakes of agents with dynamics of their own, by name."""


class MotionRuns(NamedTuple):
    """Many sessions of one agent.

    Messages have shape (runs, slots), feedback (runs, rounds). Each slot has its update and its round.
    """

    x: FloatArray
    y: FloatArray
    update: IntArray
    round_of: IntArray


@dataclass(frozen=True)
class SimulatedMotion:
    """One linear agent among others, with simulated noise and maybe a bug.

    Parameters
    ----------
    mechanism : ClientServer with linear agents
        What is declared.
    bug : str, optional
        A key of `MOTION_BUGS`.
    """

    mechanism: Mechanism
    bug: str | None = None

    def __post_init__(self) -> None:
        if self.bug is not None and self.bug not in MOTION_BUGS:
            raise ParameterError(f"a bug must be one of {', '.join(MOTION_BUGS)}, got {self.bug!r}.")
        if not isinstance(self.mechanism, ClientServer) or self.mechanism.keepers:
            raise ParameterError("linear agents are audited around a server, without keepers.")
        if not isinstance(self.mechanism.motion, Linear):
            raise self.mechanism.motion.undefined("an audit by transcripts", "whether it keeps its promise")

    @property
    def name(self) -> str:
        """Its bug, or that it has none."""
        return self.bug or "simulated"

    def play(self, start: FloatArray, rounds: int, runs: int, seed: int) -> MotionRuns:
        """Run sessions of one agent from a start; the others send only noise."""
        law, n, bug = self.mechanism.law, self.mechanism.n, self.bug
        motion = self._motion()
        rng = np.random.default_rng([seed, *_OWN])
        scales = np.append(law.scales(rounds), law.scales(rounds)[-1:])
        state = np.tile(start, (runs, 1))
        shadow, reference = state.copy(), state.copy()
        said, heard, update, round_of = [], [], [], []
        u = 0
        for t in range(rounds):
            scale = scales[t if bug == "by-round" else u + (bug == "off-by-one")]
            scale *= 0.5 if bug == "half-noise" else 1.0
            for _ in range(2 if bug == "redraw" else 1):
                noise = scale * laplace(rng, (runs,))
                if not law.shadowed:
                    x = state @ motion.C + noise
                else:
                    if t == 0:
                        shadow = motion.disturb(state, noise)
                        reference = shadow - state  # moves by the declared A: M_t·ξ
                    x = shadow @ motion.C
                    if bug == "measured-once":
                        x = state @ motion.C + reference @ motion.C
                said.append(x)
                update.append(u)
                round_of.append(t)
            y = (x + scales[min(u, rounds - 1)] * laplace(rng, (runs, n - 1)).sum(axis=1)) / n
            heard.append(y)
            if bug == "by-round" and t % 2 == 0:
                continue  # the state is held
            own = state @ motion.C if bug == "own-feedback" else y
            state, shadow = motion.move(state, own), motion.move(shadow, y)
            reference = reference @ np.asarray(self.mechanism.motion.A).T  # type: ignore[attr-defined]
            if bug == "clamped":
                state = np.clip(state, -0.25, 0.25)
            u += 1
        return MotionRuns(np.stack(said, 1), np.stack(heard, 1), np.array(update), np.array(round_of))

    def _motion(self) -> Linear:
        motion = self.mechanism.motion
        assert isinstance(motion, Linear)
        A = {"transposed": motion.A.T, "measured-once": motion.A + 0.01 * np.eye(motion.dimension)[::-1]}
        private = dict(motion.private)
        return Linear(A.get(self.bug or "", motion.A), motion.B, motion.C, private=private)


def examine_motion(
    subject: SimulatedMotion,
    *,
    rounds: int,
    distance: float | None = None,
    adjacency: float = 1.0,
    transcripts: int = 4000,
    failure_probability: float = 1e-6,
    seed: int = 0,
) -> AuditReport:
    """Audit linear agents by running them: noise, shadow, and the best guess.

    The start moves along the change of the private components whose loss is largest.
    """
    mechanism, law = subject.mechanism, subject.mechanism.law
    motion = mechanism.motion
    assert isinstance(motion, Linear)
    apart = distance or _LOSS / max(float(np.max(law.epsilons(rounds))), 1e-300)
    change = _worst_change(motion, law.scales(rounds), law.shadowed)
    other = apart * change
    rng = np.random.default_rng([seed, transcripts])
    heads, tails = coin(transcripts, rng)
    starts = np.zeros(motion.dimension), other
    first = subject.play(starts[0], rounds, heads, 2 * seed)
    second = subject.play(starts[1], rounds, tails, 2 * seed + 1)
    share = failure_probability / 2
    promised = loss(law, apart, rounds)
    plan = AuditPlan(mechanism, 0, apart, adjacency, rounds, transcripts, failure_probability)
    table = law.scales(rounds)
    read = _once if law.shadowed else _fresh
    scores = []
    for runs in (first, second):
        gains = np.abs(read(motion, runs, starts[1])) - np.abs(read(motion, runs, starts[0]))
        scale = table[:1] if law.shadowed else table[runs.update]
        scores.append(np.divide(gains, scale, out=np.zeros_like(gains), where=scale > 0).sum(axis=1))
    costs = np.array([promised]) if law.shadowed else _costs(motion, table, other)
    rule = rule_from_law(sum_law(costs), transcripts, share)
    bound = judge(rule, scores[0], scores[1], share)
    told = f"{bound.correct:,} of {bound.guesses:,} guesses right"
    findings = [
        AuditFinding(
            "optimal distinguisher",
            "alarm" if bound.loss > promised else "pass",
            told,
            loss=bound.loss,
            promised=promised,
        ),
        *_noise(motion, first, read(motion, first, starts[0]), table, share),
    ]
    if law.shadowed:
        findings.append(_shadow(motion, first, starts[0], float(law.c)))
    return plan.report(subject.name, findings, curve=LossCurve((rounds,), (promised,), (bound.loss,)))


def _path(motion: Linear, runs: MotionRuns, start: FloatArray) -> FloatArray:
    """What the agent says without noise at each slot, from this start."""
    state = np.tile(start, (len(runs.x), 1))
    said = []
    for slot, t in enumerate(runs.round_of):
        said.append(state @ motion.C)
        last = slot + 1 == len(runs.round_of)
        if not last and runs.update[slot + 1] > runs.update[slot]:
            state = motion.move(state, runs.y[:, t])
    return np.stack(said, axis=1)


def _fresh(motion: Linear, runs: MotionRuns, start: FloatArray) -> FloatArray:
    """Return the noise of every message, if this was the start."""
    return runs.x - _path(motion, runs, start)


def _once(motion: Linear, runs: MotionRuns, start: FloatArray) -> FloatArray:
    """Return the noise of the start, from the first message that says it."""
    component = motion.private[0][0]
    weights = [float(row.floats()[component]) for row in motion.rows(len(runs.update))]
    slot = next(k for k, weight in enumerate(weights) if weight != 0)
    return ((runs.x - _path(motion, runs, start))[:, slot] / weights[slot])[:, None]


def _worst_change(motion: Linear, scales: FloatArray, once: bool) -> FloatArray:
    """Return the change of the start whose loss is largest."""
    change = np.zeros(motion.dimension)
    corners = motion.corners if len(motion.corners) else np.eye(len(motion.private))
    if once:
        best = corners[0]
    else:
        rows = np.array([row.floats() for row in motion.influence_rows(len(scales))])
        parts = np.divide(rows, scales[:, None], out=np.zeros_like(rows), where=scales[:, None] > 0)
        best = corners[int(np.argmax(np.abs(parts @ corners.T).sum(axis=0)))]
    for (component, half), sign in zip(motion.private, best, strict=True):
        change[component] = sign * half
    return change


def _costs(motion: Linear, scales: FloatArray, change: FloatArray) -> FloatArray:
    """The most that each message adds to the ratio, if it adds any."""
    apart = np.array([abs(float(row.floats() @ change)) for row in motion.rows(len(scales))])
    return apart[apart > 0] / scales[apart > 0]


def _noise(
    motion: Linear, runs: MotionRuns, drawn: FloatArray, table: FloatArray, limit: float
) -> list[AuditFinding]:
    """Compare the noise with what is declared."""
    from scipy.stats import binomtest, gamma, kstest

    once = drawn.shape[1] == 1
    scale = np.broadcast_to(table[:1] if once else table[runs.update], drawn.shape)
    unit = drawn[scale > 0] / scale[scale > 0]
    # |noise|/scale is exponential, so its sum has a Gamma law.
    low = float(gamma.cdf(np.abs(unit).sum(), unit.size))
    found = {
        "noise scale": (2 * min(low, 1 - low), f"{float(np.abs(unit).mean()):.4g} times the declared scale"),
        "noise law": (float(kstest(unit, "laplace").pvalue), f"{unit.size:,} draws"),
    }
    if not once:
        # The sign of noise is a fair coin, whatever the agent would have said without it.
        path = _path(motion, runs, np.zeros(motion.dimension))
        later = (path != 0) & (scale > 0)
        same = int(np.sum((np.sign(path) == np.sign(drawn)) & later))
        count = max(int(np.sum(later)), 1)
        found["noise independence"] = (
            float(binomtest(same, count).pvalue),
            f"{same:,} of {count:,} signs agree",
        )
    part = limit / len(found)
    findings = [
        AuditFinding(name, "alarm" if p <= part else "pass", said, p, part)
        for name, (p, said) in found.items()
    ]
    again = np.flatnonzero(np.diff(runs.update) == 0)
    same_round = again[np.diff(runs.round_of)[again] == 0]
    off = int(np.sum(runs.x[:, same_round] != runs.x[:, same_round + 1]))
    said = f"{off:,} messages differ from the one before of the same update" if off else "each has one"
    return [*findings, AuditFinding("one draw per update", "alarm" if off else "pass", said)]


def _shadow(motion: Linear, runs: MotionRuns, start: FloatArray, scale: float) -> AuditFinding:
    """Check noise once: messages must be those of one noisy shadow."""
    begun = motion.disturb(np.tile(start, (len(runs.x), 1)), _once(motion, runs, start)[:, 0])
    expected = []
    for slot, t in enumerate(runs.round_of):
        expected.append(begun @ motion.C)
        if slot + 1 < len(runs.round_of):
            begun = motion.move(begun, runs.y[:, t])
    off = int(np.sum(np.abs(runs.x - np.stack(expected, 1)) > _ROUNDING * (scale + np.abs(runs.x).max())))
    said = f"{off:,} messages do not follow from the noisy start" if off else "all messages follow from it"
    return AuditFinding("shadow follows", "alarm" if off else "pass", said)
