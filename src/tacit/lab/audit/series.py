"""Audit a series: what everyone but one agent and one keeper can learn.

The view of the conspirators is X − T, slot by slot: the agent's message plus the honest keeper's noise, for
the slots that the coordinator says were used. The auditor knows the readings. It runs two streams that the
series should hide from each other, and tests whether they can be told apart any better than promised.

If a step is hidden, there are three challenges: a step with all slots used, a step with only the last slot
used, and a step on readings that rise and fall in every slot. If a reading or a window is hidden, there are
two: it changes while all slots are read, and it changes while all later readings fail. One of the tests
catches each planted bug below.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
from scipy.stats import beta, binom, chi2, norm, poisson

from tacit.base.arrays import BoolArray, FloatArray, IntArray
from tacit.base.errors import ParameterError
from tacit.core.noise.safe import SafeGaussian
from tacit.core.series import SeriesAgent, SeriesDesign, epsilon_of
from tacit.core.theory.advice import ALL_KEEPERS
from tacit.lab.audit.masked_frames import opening_finding
from tacit.lab.audit.report import AuditFinding, AuditReport

LIES: Final = 3
"""How many times the coordinator claims that a message was not used."""
RESTARTS: Final = 8
_WATCHED: Final = 1000  # openings that are tested
SLOTS: Final = 48
"""The usual length of an audited series: long enough for every bug, and its noise is drawn in seconds."""


@final
@dataclass(frozen=True)
class SeriesBug:
    """One thing that an agent or a keeper does wrong in a series.

    Attributes
    ----------
    sent : function of (design, readings, used), optional
        What the agent says instead, in grid steps: shape (views, slots). Several views of a slot are
        messages with the same content in different slots.
    noise : function of draws of shape (runs, views, slots), optional
        Changes what the keeper draws.
    twice : bool
        The keeper answers a second closing for each slot, with the same draw.
    where : tuple of str
        The kinds of `Hides` for which it is a bug.
    """

    name: str
    wrong: str
    harm: str
    sent: Callable[[SeriesDesign, FloatArray, BoolArray], FloatArray] | None = None
    noise: Callable[[IntArray], IntArray] | None = None
    twice: bool = False
    where: tuple[str, ...] = ("step", "reading", "window")


def right_messages(design: SeriesDesign, readings: FloatArray, used: BoolArray) -> FloatArray:  # noqa: ARG001
    """Return what an honest agent sends: one view of each slot.

    It does not depend on which slots are used. A reading of NaN has failed; NaN is returned where nothing is
    sent.
    """
    agent = SeriesAgent(design.code, design.grid)
    said = (agent.read(None if math.isnan(x) else x) or (math.nan,) for x in readings.tolist())
    return np.array([[numbers[0] for numbers in said]], dtype=np.float64)


def _held(design: SeriesDesign, readings: FloatArray, used: BoolArray) -> FloatArray:
    """Send the last reading again in slots in which reading failed."""
    last = np.maximum.accumulate(np.where(np.isnan(readings), 0, np.arange(len(readings))))
    return right_messages(design, readings[last], used)


def _backlog(design: SeriesDesign, readings: FloatArray, used: BoolArray) -> FloatArray:
    """Add what was not used to the next message."""
    said, left = right_messages(design, readings, used), 0.0
    for t in range(said.shape[1]):
        said[0, t] += left
        left = 0.0 if used[t] else said[0, t]
    return said


def _resend(design: SeriesDesign, readings: FloatArray, used: BoolArray) -> FloatArray:
    """Send a message again each time it was allegedly not used.

    It is sent in a later slot, with a new draw.
    """
    return np.repeat(right_messages(design, readings, used), 1 + LIES, axis=0)


def _restart(design: SeriesDesign, readings: FloatArray, used: BoolArray) -> FloatArray:
    """Restart the filter from zero several times."""
    parts = np.array_split(readings, RESTARTS)
    return np.concatenate([right_messages(design, part, used) for part in parts], axis=1)


def _rounded(design: SeriesDesign, readings: FloatArray, used: BoolArray) -> FloatArray:
    """Round readings to multiples of the hidden step before filtering."""
    step = design.hides.size
    return right_messages(design, np.rint((readings - design.low) / step) * step + design.low, used)


def _reused(draws: IntArray) -> IntArray:
    again = draws.copy()
    again[..., 1::2] = again[..., 0 : 2 * (draws.shape[-1] // 2) : 2]
    return again


SERIES_BUGS: Final[dict[str, SeriesBug]] = {
    bug.name: bug
    for bug in (
        SeriesBug(
            "backlog",
            "a message that was not used is added to the next one",
            "the sum of many slots moves much further than any single message may",
            sent=_backlog,
            where=("step",),
        ),
        SeriesBug(
            "resend",
            "a message is sent again when the coordinator says that it was not used",
            "a lying coordinator gets the same content with several draws",
            sent=_resend,
        ),
        SeriesBug(
            "opened-twice",
            "the keeper answers two closings of one slot",
            "the difference of the answers is the mask, and the message without it is the filtered reading",
            twice=True,
        ),
        SeriesBug(
            "reused-draw",
            "every second slot has the draw of the slot before",
            "the difference of two messages is known without noise",
            noise=_reused,
        ),
        SeriesBug(
            "restart",
            f"the filter restarts from zero {RESTARTS} times",
            "each restart reveals the same step again",
            sent=_restart,
            where=("step",),
        ),
        SeriesBug(
            "rounded-reading",
            "readings are rounded before they are filtered",
            "a step becomes one that goes up and down in every slot",
            sent=_rounded,
            where=("step",),
        ),
        SeriesBug(
            "held-reading",
            "where reading fails, the last reading is sent again",
            "one reading is in many messages, each with a draw of its own",
            sent=_held,
            where=("reading", "window"),
        ),
        SeriesBug(
            "half-noise",
            "the noise is half as large",
            "the loss is more than twice as high",
            noise=lambda draws: draws // 2,
        ),
    )
}
"""Every planted bug by its name."""


@final
@dataclass(frozen=True, eq=False)
class Challenge:
    """Two streams that the series hides from each other.

    `used` says which slots the coordinator uses.
    """

    name: str
    streams: tuple[FloatArray, FloatArray]
    used: BoolArray


def challenges(design: SeriesDesign) -> tuple[Challenge, ...]:
    """Return the challenges that the audit runs.

    The difference of each pair of streams is a step of at most the hidden size, or is in one reading or
    window. NaN is a reading that fails.
    """
    t, size = np.arange(design.slots), design.hides.size
    flat = np.full(design.slots, design.low)
    if design.hides.kind != "step":
        always, what = np.ones(design.slots, np.bool_), f"a {design.hides.kind}"
        changed = np.where(t < size, design.high, flat)
        one, two = (np.where(t < size, stream, np.nan) for stream in (flat, changed))
        return (
            Challenge(what, (flat, changed), always),
            Challenge(f"{what}, then no readings", (one, two), always),
        )
    swing = design.low + size * np.where(t % 2, 0.55, 0.45)  # rounded to the step, 1 or 0; with 0.4 more, 1
    everyone, last = np.ones(design.slots, np.bool_), t == design.slots - 1
    return (
        Challenge("a step", (flat, flat + size), everyone),
        Challenge("only the last slot used", (flat, flat + size), last),
        Challenge("readings up and down", (swing, swing + 0.4 * size), everyone),
    )


@final
@dataclass(frozen=True, eq=False)
class SeriesView:
    """What the conspirators see of many series, in grid steps.

    These are the messages with noise of the used slots.

    Attributes
    ----------
    seen : array, shape (runs, views, used slots)
    sent : array, shape (views, used slots)
        The same without noise, which the auditor knows.
    """

    seen: FloatArray
    sent: FloatArray
    draws: IntArray


@final
@dataclass(frozen=True)
class SeriesTrial:
    """A series to be audited, with or without a bug.

    Parameters
    ----------
    seedable : bool
        Take noise that follows from the seed, for tests that must repeat. NOT private.
    """

    design: SeriesDesign
    bug: SeriesBug | None = None
    seedable: bool = False

    def run(self, readings: FloatArray, used: BoolArray, runs: int, seed: list[int]) -> SeriesView:
        """Run `runs` series of one agent on these readings."""
        say = right_messages if self.bug is None or self.bug.sent is None else self.bug.sent
        sent = say(self.design, readings, used)[:, used]
        sent = sent[:, ~np.isnan(sent[0])]
        shape = (runs, *sent.shape)
        if self.seedable:
            normal = np.random.default_rng(seed).standard_normal(shape)
            draws = np.rint(normal * self.design.steps).astype(np.int64)
        else:
            draws = SafeGaussian().draw(self.design.steps, math.prod(shape)).reshape(shape)
        if self.bug is not None and self.bug.noise is not None:
            draws = self.bug.noise(draws)
        return SeriesView(sent + draws, sent, draws)


# ---- tests ------------------------------------------------------------------------------------------


def loss_finding(
    name: str, one: SeriesView, two: SeriesView, design: SeriesDesign, failure_probability: float
) -> AuditFinding:
    """Tell two streams apart by the best linear test, and bound the loss.

    μ-Gaussian privacy bounds the power of any test: Φ⁻¹(power) ≤ Φ⁻¹(false alarms) + μ. Both are counted,
    with exact bounds, and the μ that they prove is turned into a loss for the promise's δ.
    """
    towards, runs = two.sent - one.sent, len(one.seen)
    line = float(np.sum(towards * (one.sent + two.sent))) / 2
    hits = [int(np.sum(np.einsum("rvs,vs->r", view.seen, towards) > line)) for view in (one, two)]
    # Two exact one-sided bounds (Clopper and Pearson), each with half of the failure probability: one on the
    # false alarms from above, one on the power from below. Normal approximations would fail at rates near 0
    # or 1.
    share = failure_probability / 2
    false = beta.isf(share, hits[0] + 1, runs - hits[0]) if hits[0] < runs else 1.0
    power = beta.ppf(share, hits[1], runs - hits[1] + 1) if hits[1] else 0.0
    mu = float(norm.ppf(power) - norm.ppf(false)) if np.any(towards) else 0.0
    loss = epsilon_of(mu, design.delta) if mu > 0 else 0.0
    detail = f"of {runs:,}: {hits[1]:,} recognised, {hits[0]:,} false alarms"
    verdict: Any = "alarm" if loss > design.loss else "pass"
    return AuditFinding(f"loss: {name}", verdict, detail, loss=loss, promised=design.loss)


def noise_findings(view: SeriesView, steps: float, failure_probability: float) -> list[AuditFinding]:
    """Test the keeper's noise: size, law, independence of slots, reuse."""
    r = (view.seen - view.sent).reshape(len(view.seen), -1)
    share, n = failure_probability / 4, r.size
    found = []
    square = float(np.sum((r / steps) ** 2))
    p = 2 * min(float(chi2.cdf(square, n)), float(chi2.sf(square, n)))
    size = math.sqrt(square / n)
    found.append(_judged("noise: size", p, share, f"{size:.4f} times what was declared"))
    cells = 32
    counts = np.bincount(
        np.minimum((norm.cdf(r / steps) * cells).astype(int), cells - 1).ravel(), minlength=cells
    )
    off = np.minimum(binom.cdf(counts, n, 1 / cells), binom.sf(counts - 1, n, 1 / cells))
    found.append(
        _judged("noise: law", 2 * cells * float(off.min()), share, f"{cells} parts of the distribution")
    )
    if r.shape[1] > 1:
        same = int(np.sum((r[:, 1:] > 0) == (r[:, :-1] > 0)))
        pairs = r[:, 1:].size
        # Given all draws before, a sign is a fair coin. So it agrees with the sign before it with probability
        # ½, independently of earlier agreements: the binomial law holds, although comparisons overlap. (Draws
        # of exactly 0 are too rare to matter.)
        p = 2 * min(float(binom.cdf(same, pairs, 0.5)), float(binom.sf(same - 1, pairs, 0.5)))
        found.append(_judged("noise: from slot to slot", p, share, f"{same:,} of {pairs:,} signs agree"))
    ordered = np.sort(r, axis=1)
    repeats = int(np.sum(ordered[:, 1:] == ordered[:, :-1]))
    # Two draws agree with probability Σp² < 1/(3·steps), which is 1/(2√π·steps) for Gaussian noise.
    expected = len(r) * r.shape[1] * (r.shape[1] - 1) / 2 / (3 * steps)
    p = float(poisson.sf(repeats - 1, expected)) if repeats else 1.0
    found.append(_judged("noise: reuse", p, share, f"{repeats:,} draws occurred before in their series"))
    return found


def _judged(test: str, p: float, limit: float, detail: str) -> AuditFinding:
    return AuditFinding(test, "alarm" if p <= limit else "pass", detail, min(p, 1.0), limit)


def _answers(trial: SeriesTrial, draws: list[int], seed: int) -> list[tuple[int, ...]]:
    """Return the keeper's answers for each slot.

    An answer is the sum of the masks of the used agents, minus the noise.
    """
    masks = np.random.default_rng([seed, _WATCHED]).integers(0, 2**62, len(draws)).tolist()
    both = trial.bug is not None and trial.bug.twice  # a second closing, without the agent
    return [(mask - z, -z) if both else (mask - z,) for mask, z in zip(masks, draws, strict=True)]


def examine_series(
    design: SeriesDesign,
    *,
    bug: str | None = None,
    sessions: int = 10_000,
    failure_probability: float = 1e-6,
    seed: int = 0,
    seedable: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> AuditReport:
    """Audit a series against everyone except one agent and one keeper.

    Parameters
    ----------
    design : SeriesDesign
        Of the mechanism that such a series runs with, with Gaussian noise: `Hides.runs_with`.
    bug : str, optional
        One of `SERIES_BUGS`, to see it caught.
    sessions : int
        Series that are run for each stream of each challenge.
    failure_probability : float
        Probability of any alarm if everything is as declared.
    seedable : bool
        See `SeriesTrial`.
    """
    if bug is not None and bug not in SERIES_BUGS:
        raise ParameterError(f"a bug of a series must be one of {', '.join(SERIES_BUGS)}, got {bug!r}.")
    if not 0 < failure_probability < 1 or sessions < 200:
        raise ParameterError(
            f"an audit needs a failure probability in (0, 1) and at least 200 sessions, got "
            f"{failure_probability} and {sessions}."
        )
    if design.mechanism != design.hides.runs_with:
        raise ParameterError(
            f"a series that hides {design.hides} runs with {design.hides.runs_with} noise, and the audit is "
            f"of that, got {design.mechanism} noise: give `design_series` this mechanism."
        )
    if bug is not None and design.hides.kind not in (where := SERIES_BUGS[bug].where):
        raise ParameterError(
            f"{bug} is a bug of a series that hides a {' or a '.join(where)}, got {design.hides}: change "
            "what is hidden."
        )
    trial = SeriesTrial(design, None if bug is None else SERIES_BUGS[bug], seedable)
    tried = challenges(design)
    share = failure_probability / (len(tried) + 1)
    findings, views = [], []
    for place, challenge in enumerate(tried):
        one, two = (
            trial.run(stream, challenge.used, sessions, [seed, place, world])
            for world, stream in enumerate(challenge.streams)
        )
        findings.append(loss_finding(challenge.name, one, two, design, share))
        views.append(one)
        if progress is not None:
            progress(place + 1, len(tried))
    findings += noise_findings(views[0], design.steps, share)
    findings.append(opening_finding(_answers(trial, views[0].draws.ravel()[:_WATCHED].tolist(), seed)))
    worst = max((f.loss for f in findings if f.loss is not None), default=0.0)
    made = f"{design.slots} slots, hides {design.hides}, noise {design.noise_deviation:.4g} in every slot"
    code = "square root of summation" if design.mechanism == "square-root" else "independent noise"
    distance = design.hides.size if design.hides.kind == "step" else design.high - design.low
    return AuditReport(
        subject="series" if trial.bug is None else trial.bug.name,
        declared=f"{code}, {made}",
        agent=0,
        distance=distance,
        adjacency=distance,
        rounds=design.slots,
        transcripts=sessions,
        failure_probability=failure_probability,
        promised=design.loss,
        measured=worst,
        findings=tuple(findings),
        notes=(
            *(() if trial.bug is None else (f"Planted: {trial.bug.wrong}; {trial.bug.harm}.",)),
            f"Losses are for a failure probability of {design.delta:g}.",
            "Judged by what everyone else, with all keepers but one, can learn about one agent.",
            ALL_KEEPERS,
        ),
    )
