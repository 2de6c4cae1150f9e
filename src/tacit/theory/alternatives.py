"""Alternatives to a question that has no answer.

Every alternative is rounded as it will be printed, and then tried. Only alternatives that have an answer are
listed. If one change is not enough, an alternative consists of several changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NoReturn

from tacit.errors import Infeasible, LawError
from tacit.rounding import shown_up
from tacit.theory import convergence
from tacit.theory.choosing import by_agreement, solve
from tacit.theory.searching import least_whole
from tacit.theory.trial import Trial

Changes = dict[str, float]
"""New values of some sides, by the name of the option."""

_DIGITS = 4
_ENOUGH = 2  # if this many single changes help, combinations are not searched
_ANY = 1e300  # a tolerance that is always met
_MOST_ROUNDS = 10**6
_EXACT = ("agents", "rounds", "mixing")  # not to be rounded
_BUMPS = 3  # how often a rounded number is raised by one digit before giving up


def refuse(question: Trial) -> NoReturn:
    """Raise `Infeasible` with the reason and the alternatives."""
    if question.radius == 0:
        why = (
            "a radius of 0 is impossible: no private mechanism of this kind reaches the exact average "
            "(Nozari, Tallapragada and Cortés, 2017), because anyone who knows all other "
            "values could subtract them."
        )
        free = _changed(question, "radius")
        found, hint = ([] if free is None else [free[0]]), ""
    else:
        why, hint = _reason(question), _one_shot_hint(question)
        found = list(_alternatives(question))
    if not found:
        raise Infeasible(f"{why} Ask for a larger radius or tolerance, or for more rounds.{hint}")
    ways = "; ".join(" with ".join(_shown(name, value) for name, value in way.items()) for way in found)
    lead = "Any one of these would work" if len(found) > 1 else "This would work"
    raise Infeasible(f"{why} {lead}: {ways}.{hint}", alternatives=found)


def _shown(name: str, value: float) -> str:
    return f"{name.replace('_', ' ')} {value if isinstance(value, int) else f'{value:.12g}'}"


def _reason(question: Trial) -> str:
    """Say what is impossible."""
    after = f"after {question.rounds} round{'s' * (question.rounds != 1)}"
    if question.rounds is not None and solve(replace(question, tolerance=_ANY)) is not None:
        both = question.radius is not None and solve(replace(question, radius=None)) is not None
        bound = f" if they must stay within {question.radius:.4g} of the target" if both else ""
        return f"{after} agents may still differ by more than {question.tolerance:.4g}{bound}."
    n = question.graph.n if question.graph is not None else question.agents
    size = "agents" if n is None else f"{n:,} agent{'s' * (n != 1)}"
    loss = question.question.loss  # named as it was asked for
    privacy = f" with epsilon {question.epsilon:.4g}" if question.epsilon is not None else ""
    privacy = privacy if loss is None else f" with loss {loss:.4g}"
    privacy += "" if question.question.law is None else f" and {question.law.name} noise"
    keepers = question.question.keepers
    privacy += f" and {keepers} keeper{'s' * (keepers != 1)}" if keepers else ""
    radius = "" if question.radius is None else f" stay within {question.radius:.4g} of the target"
    percent = f" with {100 * (1 - question.b):.6g}% probability" if radius else ""
    agree = f" agree within {question.tolerance:.4g} {after}" if question.rounds is not None else ""
    joined = " and".join(part for part in (radius + percent, agree) if part)
    return f"{size}{privacy} cannot{joined}."


def _one_shot_hint(question: Trial) -> str:
    if question.epsilon is None or question.radius is None or not question.sized:
        return ""
    if question.question.law is not None or question.law.shadowed:  # a law was named, or it is this one
        return ""
    mechanism = question.one_shot(question.epsilon)
    if not question.met_by(mechanism):
        return ""
    return f" One-shot noise would also work, with radius {shown_up(question.radius_of(mechanism), _DIGITS)}."


def _alternatives(question: Trial) -> Iterator[Changes]:
    """Yield changes with which the question has an answer.

    They are rounded as they are printed.
    """
    told = 0
    for side in _SIDES:
        found = _changed(question, side)
        if found is not None:
            told += 1
            yield found[0]
    if told >= _ENOUGH:
        return
    # First make agents agree, ignoring the radius; then relax the radius or another side.
    for first in ("rounds", "tolerance", "mixing"):
        begun = _changed(replace(question, radius=None), first) if _radius_is_free(question) else None
        if begun is None:
            continue
        changed = replace(begun[1], radius=question.radius)
        for second in ("radius", "epsilon", "agents", "tolerance"):
            found = _changed(changed, second) if second != first else None
            if found is not None:
                yield begun[0] | found[0]
                break


def _radius_is_free(question: Trial) -> bool:
    return question.epsilon is not None and question.sized and question.failure_probability is not None


def _changed(question: Trial, side: str) -> tuple[Changes, Trial] | None:
    """Return a change of one side that gives the question an answer.

    Also return the question with that change.
    """
    try:
        value = _SIDES[side](question)
    except LawError:  # the law does not define what this side would need, such as noise for an endless run
        return None
    for _ in range(_BUMPS):
        if value is None or not math.isfinite(value):
            return None
        if side not in _EXACT:
            value = float(shown_up(value, _DIGITS))
        name, changed = _with(question, side, value)
        if changed is not None and solve(changed) is not None:
            return {name: value}, changed
        value = value + 1 if isinstance(value, int) else value * (1 + 10.0 ** (1 - _DIGITS))
    return None


def _with(question: Trial, side: str, value: float) -> tuple[str, Trial | None]:
    if side == "failure_probability" and not 0 < value < 1:
        return side, None
    if (
        side == "epsilon" and question.by_loss
    ):  # the alternative is a loss, which will be divided by the adjacency again
        return "loss", replace(question, epsilon=value / question.adjacency)
    return side, replace(question, **{side: value})  # type: ignore[arg-type]


def _radius(question: Trial) -> float | None:
    if question.radius is None or not _radius_is_free(question):
        return None
    found = solve(replace(question, radius=None))
    return None if found is None else found.radius_of(found.mechanism(found.epsilon or 1.0)) * (1 + 1e-9)


def _epsilon(question: Trial) -> float | None:
    if question.epsilon is None or question.radius is None or not question.sized:
        return None
    if question.failure_probability is None:
        return None
    found = solve(replace(question, epsilon=None))
    if found is None or found.epsilon is None:
        return None
    return found.epsilon * (1 + 1e-9) * (question.adjacency if question.by_loss else 1.0)


def _failure(question: Trial) -> float | None:
    if question.radius is None or not _radius_is_free(question):
        return None
    found = solve(replace(question, failure_probability=None))
    return None if found is None else found.b * (1 + 1e-9)


def _agents(question: Trial) -> int | None:
    if question.graph is not None or question.agents is None or question.radius is None:
        return None
    if question.epsilon is None or question.failure_probability is None:
        return None
    found = solve(replace(question, agents=None))
    return None if found is None else found.agents


def _tolerance(question: Trial) -> float | None:
    if question.rounds is None:
        return None
    if question.epsilon is None or not question.sized:  # as if agents need not agree
        loose = solve(replace(question, tolerance=_ANY))
        if loose is None:
            return None
        question = replace(question, epsilon=loose.epsilon, agents=loose.agents)
    for apart, trial in by_agreement(question):
        loose = replace(trial, tolerance=_ANY)
        if apart > question.tolerance and loose.met_by(trial.mechanism(question.epsilon or 1.0)):
            return apart * (1 + 1e-9)
    return None


def _rounds(question: Trial) -> int | None:
    if question.rounds is None:
        return None
    endless = replace(question, rounds=None)

    def enough(rounds: int) -> bool:
        return solve(replace(question, rounds=rounds)) is not None

    guess = question.rounds + 1
    for mixing in [question.mixing] if question.mixing is not None else [0.5, 0.8, 0.99]:
        mechanism = replace(endless, mixing=mixing).mechanism(question.epsilon or 1.0)
        rounds = convergence.rounds_to_agreement(
            mechanism, question.tolerance, question.spread, question.b / 50
        )
        guess = min(rounds, guess) if guess > question.rounds + 1 else max(rounds, guess)
    for rounds in (guess, 2 * guess, 8 * guess):
        if rounds <= _MOST_ROUNDS and enough(rounds):
            return least_whole(enough, rounds, lowest=question.rounds + 1, most=rounds)
    return None


def _mixing(question: Trial) -> float | None:
    if question.mixing is None:
        return None
    found = solve(replace(question, mixing=None))
    return found.mixing if found is not None and isinstance(found.mixing, float) else None


_SIDES: dict[str, Callable[[Trial], float | None]] = {
    "radius": _radius,
    "epsilon": _epsilon,
    "failure_probability": _failure,
    "agents": _agents,
    "rounds": _rounds,
    "tolerance": _tolerance,
    "mixing": _mixing,
}
