"""The whole audit: run every tester that applies, and report the result.

The failure probability is divided beforehand: a quarter each for the optimal distinguisher, the learned
ones, the attacks (on low bits, and your own) and the goodness of the noise, and within each by the number of
tests (Bonferroni). So if everything is as declared, the probability of any alarm is at most this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tacit.base.arguments import function, inside_unit, positive, shown, whole
from tacit.base.arrays import FloatArray, IntArray, ValuesLike
from tacit.base.errors import ParameterError
from tacit.base.extras import explains_extras
from tacit.core.history import History
from tacit.core.mechanism import Mechanism
from tacit.core.mechanism.base import require_mechanism
from tacit.core.noise.simulated import as_seed
from tacit.core.question import Question
from tacit.core.theory.plan import Plan
from tacit.core.theory.privacy import require_adjacency
from tacit.lab.audit.attacks import ATTACKS, Decision, coarser, decide
from tacit.lab.audit.audit_plan import (
    AuditPlan,
    best_distance,
    default_rounds,
    default_starts,
    group_note,
    messages,
    promises,
    stand_in,
    weakest,
)
from tacit.lab.audit.distinguisher import loss_law
from tacit.lab.audit.goodness import oddities
from tacit.lab.audit.learned import LEARNED, bit_rows, rows, sparse_score
from tacit.lab.audit.likelihood import log_likelihood_ratios
from tacit.lab.audit.measure import learned_bound
from tacit.lab.audit.oddity import Oddity
from tacit.lab.audit.report import AuditFinding, AuditReport, LossCurve
from tacit.lab.audit.residual import join, noise_of
from tacit.lab.audit.rules import NO_LATTICE, rule_findings
from tacit.lab.audit.seeds import guessable
from tacit.lab.audit.subjects import Subject
from tacit.lab.audit.testers import LossBound, coin, judge, rule_from_law, tally, to_learn_from

Progress: TypeAlias = Callable[[float, str], None]
"""Called with the finished share of the work, and the name of the next step."""

Attack: TypeAlias = Callable[[History, int, npt.ArrayLike, npt.ArrayLike], npt.ArrayLike]
"""An attack of your own: from what was public in many sessions, an agent and its two possible starts, to +1
for the first start, −1 for the second or 0 for no guess, for each session."""

_PART = 2000  # sessions between two progress reports
_POINTS = 2**13  # of the grid on which thresholds are chosen
_REAL_NUMBERS = "its promise is for real numbers, not for the bits it sends"


@dataclass(frozen=True, eq=False)
class TranscriptPair:
    """Transcripts from two starts, and what is declared about them.

    Fair coins chose the start of each transcript.

    `first` and `second` ran from `values` and from `others`, which differ in one agent's start. `learn_from`
    transcripts of the first start are to learn scores from (`to_learn_from`).
    """

    plan: AuditPlan
    first: History
    second: History
    values: FloatArray
    others: FloatArray
    low_bits: bool
    learn_from: int


@explains_extras
def examine(
    subject: Mechanism | Subject,
    *,
    agent: int | None = None,
    values: ValuesLike | None = None,
    distance: float | None = None,
    adjacency: float = 1.0,
    question: Question | str | None = None,
    records: Sequence[Any] | None = None,
    rounds: int | None = None,
    transcripts: int = 20_000,
    failure_probability: float = 1e-6,
    seed: int = 0,
    seeds: Sequence[int] | None = None,
    attacks: Mapping[str, Attack] | None = None,
    progress: Progress | None = None,
) -> AuditReport:
    """Audit a mechanism by running it: every tester, one verdict.

    Parameters
    ----------
    subject : Mechanism or Subject
        A mechanism is run as it is deployed, on its lattice with exact noise, in a group of a few
        agents (an agent's guarantee does not depend on the others). Or anything that makes transcripts for
        given values: `Simulated`, a broken mechanism, your own.
    agent : int, optional
        The agent whose start is varied; by default the one with the largest ε.
    values : one per agent, optional
        The first start; by default between 0 and `distance`, and on no grid. In the second, the
        agent's is `distance` higher.
    distance : float, optional
        By default one at which the tester can see most of the promised loss, and on no grid. The promise is
        for every distance, but small ones cannot be told from chance.
    adjacency : float
        The report also states the loss for this.
    question : Question, optional
        What is asked, if not a mean. The two starts are then the vectors of the two records that are furthest
        apart, so give a mechanism and neither agent, values, distance nor adjacency.
    records : sequence, optional
        Records to try for the question; by default the edges, ends and middles of its domain.
    rounds : int, optional
        By default until almost all of the loss of an endless run has been promised.
    transcripts : int
        Sessions, of both starts together.
    failure_probability : float
        Probability of any alarm if everything is as declared.
    seed : int
        For the tester's coins and for subjects that can be seeded.
    seeds : sequence of int
        Seeds to look for in the noise; by default common ones.
    attacks : mapping from names to functions, optional
        Attacks of your own, beside all others. A function gets the public part of many sessions (a `History`
        with a first axis for the sessions), the agent's number and its two possible starts. For each
        session it returns +1 for the first start, −1 for the second, or 0 for no guess. Right guesses that
        the promised loss does not allow raise an alarm.
    progress : function, optional

    Returns
    -------
    Report

    Examples
    --------
    >>> from tacit import ClientServer, Fading
    >>> from tacit.lab.audit import broken, examine
    >>> mechanism = ClientServer(Fading(sigma=0.8, c=10, q=0.6), agents=3)
    >>> report = examine(broken("raw-state", mechanism), transcripts=500)
    >>> "missing noise" in [finding.test for finding in report.alarms]
    True
    """
    adjacency = require_adjacency(adjacency)
    seed, rounds = as_seed(seed), None if rounds is None else whole("rounds", rounds, 1)
    distance = None if distance is None else positive("distance", distance)
    seeds = None if seeds is None else _as_seeds(seeds)
    function("progress", progress)
    attacks = _as_attacks(attacks)
    if whole("transcripts", transcripts, 1) < 200:
        raise ParameterError(f"transcripts must be at least 200 for any test to work, got {transcripts}.")
    failure_probability = inside_unit("a failure probability", failure_probability)
    if isinstance(subject, Mechanism) and subject.law.whole_domain:
        from tacit.lab.audit.once import examine_once

        near = None if adjacency == 1 else adjacency
        if attacks or any(x is not None for x in (agent, values, distance, near, rounds, seeds, question)):
            raise ParameterError(
                f"{subject.law.name} noise is audited for one number, between the ends of its range: leave "
                "all but transcripts, failure_probability and seed out."
            )
        return examine_once(
            subject, transcripts=transcripts, failure_probability=failure_probability, seed=seed
        )
    if question is not None:
        from tacit.lab.audit.asked import examine_question

        given = (agent, values, distance, None if adjacency == 1 else adjacency, seeds, attacks or None)
        if not isinstance(subject, Mechanism) or given != (None,) * len(given):
            raise ParameterError(
                "a question is audited with a mechanism, and its records are the two starts: leave agent, "
                "values, distance, adjacency, seeds and attacks out."
            )
        return examine_question(
            subject, Plan(question=question).asked, records=records, rounds=rounds, transcripts=transcripts,
            failure_probability=failure_probability, seed=seed, progress=progress,
        )  # fmt: skip
    if isinstance(subject, Mechanism) and subject.keepers:
        from tacit.lab.audit.conspiracy import examine_keepers

        if attacks:
            raise ParameterError(
                "attacks of your own need agents that add their own noise: with keepers, leave them out."
            )
        if agent is not None or values is not None:
            raise ParameterError("with keepers all agents are alike: leave agent and values out.")
        return examine_keepers(
            subject, distance=distance, adjacency=adjacency, rounds=rounds, transcripts=transcripts,
            failure_probability=failure_probability, seed=seed, progress=progress,
        )  # fmt: skip
    tell = progress or (lambda _share, _what: None)
    declared = require_mechanism(getattr(subject, "mechanism", subject))
    if declared.motion.dimension is not None:
        from tacit.lab.audit.moving import SimulatedMotion, examine_motion

        if attacks or values is not None or agent is not None or rounds is None:
            raise ParameterError(
                "an audit of agents with dynamics of their own needs rounds, and takes no attacks, values or "
                "agent: all agents are alike."
            )
        played = subject if isinstance(subject, SimulatedMotion) else SimulatedMotion(declared)
        return examine_motion(
            played, rounds=rounds, distance=distance, adjacency=adjacency, transcripts=transcripts,
            failure_probability=failure_probability, seed=seed,
        )  # fmt: skip
    whose = weakest(declared) if agent is None else whole("agent", agent, 0)
    if whose >= declared.n:
        raise ParameterError(f"agent must be a number from 0 to {declared.n - 1}, got {whose}.")
    start = None if values is None else declared.states(values)
    mechanism, members = stand_in(declared, whose) if isinstance(subject, Mechanism) else (declared, None)
    place = members.index(whose) if members else whose
    length = default_rounds(mechanism.law, place) if rounds is None else rounds
    apart = distance or best_distance(mechanism.law, length, place, transcripts, failure_probability)
    made = AuditPlan(
        mechanism, place, require_adjacency(apart), adjacency, length, transcripts, failure_probability
    )
    if members:
        made = replace(made, notes=group_note(members, declared))
        start = start if start is None else start[members]
    start = default_starts(mechanism.n, apart) if start is None else start
    running = subject if not isinstance(subject, Mechanism) else _deployed(made, start)
    return judge_evidence(
        _run(running, made, start, seed, tell),
        seeds=seeds,
        progress=tell,
        subject=running.name,
        attacks=attacks,
    )


def _as_attacks(attacks: object) -> dict[str, Attack]:
    must = "attacks must be a mapping from names to functions"
    if attacks is None:
        return {}
    if not isinstance(attacks, Mapping) or not all(isinstance(name, str) for name in attacks):
        raise ParameterError(f"{must}, got {shown(attacks)}.")
    for name, attack in attacks.items():
        if not callable(attack):
            raise ParameterError(f"{must}, got {shown(attack)} for {name!r}.")
    return dict(attacks)


def _as_seeds(seeds: object) -> list[int]:
    if isinstance(seeds, str) or not isinstance(seeds, Iterable):
        raise ParameterError(f"seeds must be a list of whole numbers, got {shown(seeds)}.")
    return [as_seed(seed) for seed in seeds]


def _deployed(made: AuditPlan, start: FloatArray) -> Subject:
    from tacit.lab.audit.deployed import Deployed

    both = np.stack([start, made.moved(start)])
    return Deployed(made.mechanism, float(both.min()), float(both.max()))


def _run(subject: Subject, made: AuditPlan, start: FloatArray, seed: int, tell: Progress) -> TranscriptPair:
    """Draw the coins and run the sessions."""
    rng = np.random.default_rng([seed, made.transcripts])
    heads, tails = coin(made.transcripts, rng)
    moved = made.moved(start)
    first = _sessions(subject, start, made.rounds, (heads, 2 * seed), lambda s: tell(0.4 * s, "first start"))
    second = _sessions(
        subject, moved, made.rounds, (tails, 2 * seed + 1), lambda s: tell(0.4 + 0.4 * s, "second start")
    )
    learn_from = to_learn_from(heads, tails, rng)
    return TranscriptPair(made, first, second, start, moved, subject.low_bits, learn_from)


def _sessions(
    subject: Subject, values: FloatArray, rounds: int, runs: tuple[int, int], tell: Callable[[float], None]
) -> History:
    """Run sessions in parts, with progress reports in between."""
    count, seed = runs
    parts = []
    for begin in range(0, count, _PART):
        tell(begin / count)
        parts.append(subject(values, rounds, min(_PART, count - begin), seed + begin * 2**20))
    return History.stack(parts)


def judge_evidence(
    evidence: TranscriptPair,
    *,
    seeds: Sequence[int] | None,
    progress: Progress,
    subject: str,
    attacks: Mapping[str, Attack] | None = None,
) -> AuditReport:
    """Run every tester on transcripts from two known starts."""
    made = evidence.plan
    quarter = made.failure_probability / 4
    progress(0.8, "rules")
    findings = [*rule_findings(History.stack([evidence.first, evidence.second]))]
    progress(0.82, "optimal distinguisher")
    with strict_numbers():
        optimal, curve = _optimal(evidence, quarter)
    findings.append(optimal)
    progress(0.86, "learned distinguishers")
    with strict_numbers():
        findings += _learned(evidence, quarter)
    progress(0.9, "attacks")
    findings += _attacks(evidence, quarter, attacks or {})
    progress(0.94, "noise")
    with strict_numbers():
        findings += _goodness(evidence, quarter, seeds)
    progress(1.0, "done")
    return made.report(subject, findings, curve=curve)


def strict_numbers() -> np.errstate:
    """Turn overflows and invalid casts into errors: verdicts would be wrong."""
    return np.errstate(over="raise", invalid="raise")


def _optimal(evidence: TranscriptPair, share: float) -> tuple[AuditFinding, LossCurve]:
    """Bound the loss by the exact ratio, after every number of rounds.

    The ratio is that of the declared parameters.
    """
    made = evidence.plan
    gains = [
        log_likelihood_ratios(t.of(made.agent), evidence.values[made.agent], evidence.others[made.agent])
        for t in (evidence.first, evidence.second)
    ]
    ends = np.searchsorted(evidence.first.rounds_of, np.arange(1, made.rounds + 1)) - 1
    scores = [np.cumsum(gain, axis=1)[:, ends] for gain in gains]
    bounds = []
    for t, spoken in enumerate(messages(evidence.first, made.agent)):
        # The bounds after all numbers of rounds are looked at, and the worst one is reported. So their false
        # alarms add up: half of the share is for the whole session, half for all shorter ones together.
        part = share / 2 if t + 1 == made.rounds else share / 2 / max(1, made.rounds - 1)
        law = loss_law(made.mechanism.law, spoken, made.distance, agent=made.agent, points=_POINTS)
        rule = rule_from_law(law, made.transcripts, part)
        bounds.append(judge(rule, scores[0][:, t], scores[1][:, t], part))
    promised = promises(evidence.first, made.agent, made.distance)
    worst = int(np.argmax([b.loss - p for b, p in zip(bounds, promised, strict=True)]))
    passes = bounds[worst].loss <= promised[worst]
    shown = made.rounds - 1 if passes else worst  # an alarm names the round that proves most
    finding = _loss_finding("optimal distinguisher", bounds[shown], promised[shown])
    finding = replace(finding, detail=f"round {shown + 1}: {finding.detail}")
    curve = LossCurve(tuple(range(1, made.rounds + 1)), promised, tuple(b.loss for b in bounds))
    return finding, curve


def _learned(evidence: TranscriptPair, share: float) -> Iterator[AuditFinding]:
    """Scores fitted on one half of the sessions, judged on the other."""
    made = evidence.plan
    first, second = (rows(t, made.agent) for t in (evidence.first, evidence.second))
    promised = promises(evidence.first, made.agent, made.distance)[-1]
    part = share / (len(LEARNED) + 1)
    for name, way in LEARNED.items():
        if name == "learned low bits" and not evidence.low_bits:
            yield AuditFinding(name, "skipped", _REAL_NUMBERS)
        else:
            yield _loss_finding(name, learned_bound(way, first, second, evidence.learn_from, part), promised)
    if evidence.first.exponent is None:
        yield AuditFinding("learned bits", "skipped", NO_LATTICE)
        return
    starts = evidence.values[made.agent], evidence.others[made.agent]
    first, second = (bit_rows(t.of(made.agent), *starts) for t in (evidence.first, evidence.second))
    bound = learned_bound(sparse_score, first, second, evidence.learn_from, part)
    yield _loss_finding("learned bits", bound, promised)


def _attacks(evidence: TranscriptPair, share: float, own: Mapping[str, Attack]) -> Iterator[AuditFinding]:
    """Attack whole sessions: floating point, coarse lattices, your own."""
    made = evidence.plan
    promised = promises(evidence.first, made.agent, made.distance)[-1]
    starts = evidence.values[made.agent], evidence.others[made.agent]
    both = evidence.first, evidence.second
    part = share / (len(ATTACKS) + 1 + len(own))
    ways: dict[str, Decision] = {
        **{name: partial(decide, attack) for name, attack in ATTACKS.items()},
        "coarser lattice": coarser,
    }
    for name, way in ways.items():
        if not evidence.low_bits:
            yield AuditFinding(f"low bits: {name}", "skipped", _REAL_NUMBERS)
            continue
        if way is coarser and evidence.first.exponent is None:
            yield AuditFinding(f"low bits: {name}", "skipped", NO_LATTICE)
            continue
        with strict_numbers():
            first, second = (way(t.of(made.agent), *starts) for t in both)
        yield _loss_finding(f"low bits: {name}", tally(first, second, part), promised)
    if own:
        # One call for all sessions, in random order. In the order of the starts an attack could simply name
        # the first half, and its right guesses would prove nothing.
        order = np.random.default_rng(made.transcripts).permutation(sum(t.runs for t in both))
        seen = History.stack([t.public() for t in both])[order]
    for name, attack in own.items():
        guesses = np.empty_like(order)
        guesses[order] = _checked_guesses(name, attack(seen, made.agent, *starts), len(order))
        first, second = guesses[: both[0].runs], guesses[both[0].runs :]
        yield _loss_finding(f"attack: {name}", tally(first, second, part), promised)


def _checked_guesses(name: str, given: npt.ArrayLike, sessions: int) -> IntArray:
    """Return an attack's guesses; there must be one for every session."""
    found = np.asarray(given)
    if found.shape != (sessions,) or not np.isin(found, (-1, 0, 1)).all():
        raise ParameterError(
            f"the attack {name!r} must return +1, -1 or 0 for each of {sessions:,} sessions: return one "
            "number per session."
        )
    return found.astype(np.int64)


def _goodness(evidence: TranscriptPair, share: float, seeds: Sequence[int] | None) -> list[AuditFinding]:
    """Compare the noise with its declaration."""
    known = ((evidence.first, evidence.values), (evidence.second, evidence.others))
    noise = join([noise_of(*some, stream=stream) for stream, some in enumerate(known)])
    return goodness_findings([*oddities(noise), *guessable(noise, seeds)], share)


def goodness_findings(found: Sequence[Oddity], share: float) -> list[AuditFinding]:
    """Return one finding per property, about its oddest place.

    The limit is corrected for the number of places.
    """
    limit = share / max(1, len(found))
    findings = []
    for test in dict.fromkeys(o.test for o in found):
        worst = min((o for o in found if o.test == test), key=lambda o: o.p_value)
        odd = worst.p_value <= limit
        detail = f"{worst.place}: {worst.seen}"
        findings.append(AuditFinding(test, "alarm" if odd else "pass", detail, worst.p_value, limit))
    return findings


def _loss_finding(test: str, bound: LossBound, promised: float) -> AuditFinding:
    detail = f"{bound.correct:,} of {bound.guesses:,} guesses right"
    return AuditFinding(
        test, "alarm" if bound.loss > promised else "pass", detail, loss=bound.loss, promised=promised
    )
