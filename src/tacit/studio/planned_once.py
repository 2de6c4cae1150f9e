"""The part of Plan for one time: a mean or another question."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from tacit.base.errors import Infeasible, ParameterError, TacitError
from tacit.base.report import near
from tacit.base.rounding import shown_up
from tacit.core.theory import accuracy
from tacit.core.theory.advice import right_at_most, strength
from tacit.core.theory.answers import Design, answer
from tacit.core.theory.plan import Plan
from tacit.core.theory.planned_answer import PlannedAnswer
from tacit.core.theory.promise import Promise
from tacit.core.theory.trial import Trial
from tacit.studio import same
from tacit.studio.form import TRUSTED, FieldErrors, Form, read, unit_of
from tacit.studio.graphs import graph
from tacit.studio.plan_answer import PlanAnswer, PlanPart, TradeoffCurve, TrustAnswer
from tacit.studio.words import percent, with_unit

_LIMITS = {"agents": (1, 10**15), "rounds": (1, 10**6), "mixing": (1e-6, 1), "components": (1, 10**6)}
"""Within these limits an answer takes less than a second."""
_TINY = 1e-100
_USUAL_KEEPERS = 2
_MOST_KEEPERS = len(TRUSTED) - 1


def _read(form: Form) -> Plan:
    return _modest(read(form))


def _asked(form: Form, question: Plan) -> PlanAnswer:
    return PlanAnswer(
        form, question.keepers, question=question,
        command=same.command(question), python=same.python(question),
    )  # fmt: skip


def _modest(question: Plan) -> Plan:
    """Refuse numbers that would take too long, with an error at each field."""
    wrong = {}
    for name, (low, high) in _LIMITS.items():
        value = getattr(question, name)
        if value is not None and (value > high >= 10 or 0 < value < low):
            wrong[name] = (
                f"the studio takes {name} from {low:g} to {high:g}, got {value:g}: try `tacit design`."
            )
    if wrong:
        raise FieldErrors(wrong)
    return question


def sketch(form: Form) -> TradeoffCurve | None:
    """Return only the curve, which is fast enough for a moving slider.

    None if there is no curve or a field cannot be used. The answer that follows says why.
    """
    try:
        return _curve(_read(form), unit_of(form)) if form.when == "once" else None
    except (TacitError, ArithmeticError, MemoryError):
        return None


@lru_cache(maxsize=256)
def _design(question: Plan) -> Design:
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        return answer(_loaded(question))


def _loaded(question: Plan) -> Plan:
    """Return the question with its graph built, unless it is too large."""
    return replace(question, graph=graph(question.graph)) if isinstance(question.graph, str) else question


def _answered(asked: PlanAnswer, question: Plan) -> PlanAnswer:
    found, unit = _design(question), asked.form.unit.strip()
    made = found.promise
    if found.mechanism.keepers > _MOST_KEEPERS:
        raise ParameterError(
            f"the studio takes up to {_MOST_KEEPERS} keepers: try `tacit design`.", "keepers"
        )
    target = "true mean" if made.target == "average" else "weighted mean"
    odds = percent(1 - made.failure_probability)
    headline = _headline(asked.form, found)
    agents = "The one agent ends" if made.mechanism.n == 1 else f"The {made.mechanism.n:,} agents agree"
    each, every = "", ""
    if question.components > 1:
        each = " in any one component"
        together = with_unit(shown_up(made.radius_all_components, 4), unit)
        every = f" In all {question.components:,} components together they are within {together} as surely."
    kept = (
        f"{agents} within {with_unit(shown_up(made.radius, 4), unit)} of their {target}{each}, with "
        f"probability {odds}.{every}"
    )
    two = f"two values {with_unit(near(made.adjacency), unit)} apart"
    if made.answer is not None:
        kept, two = _exact(made.answer, unit_of(asked.form), odds), "any two records"
    plain = (
        f"{kept} Someone who sees every message and must tell apart {two} "
        f"is right at most {right_at_most(made.loss)} of the "
        f"time. A blind guess is right 50% of the time. Protection: {strength(made.loss).name}."
    )
    sigma = found.mechanism.law.sigma
    law = found.mechanism.law.name
    chosen = replace(question, mixing=sigma, law=law) if isinstance(sigma, float) else question
    sized = question.agents is not None or question.graph is not None
    curve = _curve(chosen if sized else replace(chosen, agents=made.mechanism.n), unit_of(asked.form))
    return replace(
        asked,
        design=found,
        headline=headline,
        plain=plain,
        summary=found.summary(unit),
        trust=_trust(asked.form, question),
        warning=found.warning or "",
        liar=_liar(made, unit_of(asked.form)),
        curve=None if curve is None else replace(curve, point=(made.loss, made.radius * _unit(question))),
    )


def _liar(made: Promise, unit: str) -> str:
    """Say how far one dishonest agent can move a result of one number."""
    moved = made.moved_by(1)
    if moved is None or (made.question is not None and made.question.unit(made.mechanism.n) is None):
        return ""
    return f"One dishonest agent can move the result by at most {with_unit(shown_up(moved, 4), unit)}."


def _unit(question: Plan) -> float:
    """How much of the answer one unit of a component is."""
    if question.question is None:
        return 1.0
    n = graph(str(question.graph)).n if question.graph is not None else question.agents or 1
    return question.asked.unit(n) or 1.0


def _exact(answer: PlannedAnswer, unit: str, odds: str) -> str:
    """Say how exact an answer is."""
    if answer.radius is None or answer.radius_all_parts is None:
        return (
            f"Each interval has the truth with probability {odds}. How wide it is depends on the records; "
            "the picture is for records that are spread evenly."
        )
    within = with_unit(shown_up(answer.radius, 4), unit)
    if answer.question.components == 1:
        return f"The answer is within {within} of the truth, with probability {odds}."
    every = with_unit(shown_up(answer.radius_all_parts, 4), unit)
    return (
        f"Any one part of the answer is within {within} of the truth, with probability {odds}. All "
        f"{answer.question.components:,} parts at once are within {every} as surely."
    )


def _headline(form: Form, found: Design) -> str:
    made, unit = found.promise, unit_of(form)
    within = f"Within {with_unit(shown_up(made.radius, 4), unit)}"
    if made.answer is not None:
        radius, parts = made.answer.radius, made.answer.each.parts
        within = f"Within {with_unit(shown_up(radius, 4), unit)}" if radius is not None else "No answer"
        if radius is None and parts and parts[0].low is not None and parts[0].high is not None:
            ends = f"{near(parts[0].low, 4)} to {with_unit(near(parts[0].high, 4), unit)}"
            within = f"{parts[0].name}: {ends}".capitalize()
    return {
        "privacy": f"Privacy loss {shown_up(made.loss, 4)}",
        "accuracy": within,
        "size": f"{made.mechanism.n:,} agents",
        "all": "Possible",
    }[form.find]


def _trust(form: Form, question: Plan) -> tuple[TrustAnswer, ...]:
    """Return the answers without and with keepers.

    If the form has no keepers, the second answer is for two.
    """
    if question.graph is not None:
        return ()
    return tuple(_trusting(form, question, m) for m in (0, question.keepers or _USUAL_KEEPERS))


def _trusting(form: Form, question: Plan, keepers: int) -> TrustAnswer:
    whom, asked = TRUSTED[str(keepers)], keepers == question.keepers
    try:
        found = _design(replace(question, keepers=keepers))
    except Infeasible as error:
        return TrustAnswer(whom, "Out of reach", _needed(error, form), asked)
    else:
        made = found.promise
        apart = with_unit(near(made.adjacency), form.unit.strip())
        two = f"Two values {apart} apart" if made.question is None else "Any two records"
        words = (
            f"{two} are told apart correctly "
            f"at most {right_at_most(made.loss)} of the time. "
            f"Protection: {strength(made.loss).name}."
        )
        return TrustAnswer(whom, _headline(form, found), words, asked)


def _needed(error: Infeasible, form: Form) -> str:
    """Name the changes that would make the question feasible."""
    unit = form.unit.strip()
    parts = []
    if "radius" in error.gives:
        parts.append("± " + with_unit(near(error.gives["radius"], 4), unit))
    parts += [f"{name} {error.gives[name]:g}" for name in ("loss", "epsilon") if name in error.gives]
    parts += [f"{error.gives['agents']:,} agents"] if "agents" in error.gives else []
    return f"It would take {' or '.join(parts)}." if parts else "No change of one number makes it possible."


@lru_cache(maxsize=256)
def _unit_radii(size: Plan) -> tuple[float, float, float, float]:
    """Return the certain part of the radius, and three radii at ε = 1.

    The three are of the design and of one-shot noise, without the certain part, and Chebyshev's bound.
    """
    trial = Trial.of(replace(_loaded(size), epsilon=1.0))
    designed = trial.mechanism(1.0)
    chebyshev = accuracy.chebyshev_radius(designed, trial.b, trial.rounds)
    certain = trial.rough(deviations=2.0).certain
    once = trial.radius_of(trial.one_shot(1.0)) - certain
    return certain, trial.radius_of(designed) - certain, once, chebyshev


def _curve(question: Plan, unit: str) -> TradeoffCurve | None:
    """Return the curve of a question; None without a size or range to draw."""
    if question.agents is None and question.graph is None:
        return None
    # A chart cannot show what is not positive, and extreme numbers would overflow in a division.
    adjacency, spread, _ = question.scope
    if question.question is not None and question.asked.unit(1) is None:
        return None  # no single radius
    drawn = [v for v in (question.loss, question.epsilon, question.radius, adjacency) if v is not None]
    if not all(_TINY < value < 1 / _TINY for value in drawn):
        return None
    # Keep only what the radii depend on, so that the cache serves changes of all other fields.
    size = replace(
        question, low=None, high=None, components=1, radius=None, epsilon=None, loss=None, adjacency=1.0,
        spread=spread / adjacency if question.rounds else None, tolerance=1.0, question=None,
        law="one-shot" if question.drawn_once else question.law,
        true_average=question.true_average or (question.question is not None and question.graph is not None),
    )  # fmt: skip
    at_one = _unit_radii(size)
    certain, designed, one_shot, chebyshev = (radius * adjacency * _unit(question) for radius in at_one)
    loss = question.loss if question.epsilon is None else question.epsilon * adjacency
    if loss is None:
        room = (question.radius or 0.0) - certain
        point = None if not question.radius or room <= 0 else (designed / room, question.radius)
    else:
        point = (loss, certain + designed / loss)
    of = "mean" if question.question is None else "answer"
    return TradeoffCurve(designed, one_shot, chebyshev, unit, point, (loss, question.radius), certain, of)


def _drawn(asked: PlanAnswer, question: Plan) -> PlanAnswer:
    curve = _curve(question, unit_of(asked.form))
    return replace(asked, curve=None if curve is None else replace(curve, point=None))


PART = PlanPart(_read, _asked, _answered, _drawn)
