"""Alternatives to a plan that has no answer.

Every alternative is rounded as it will be printed, and then tried. Only alternatives that have an answer are
listed. If one change is not enough, an alternative consists of several changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NoReturn

from tacit.base.errors import Infeasible, LawError
from tacit.base.rounding import shown_up
from tacit.core.theory import convergence
from tacit.core.theory.choosing import by_agreement, solve
from tacit.core.theory.searching import least_whole
from tacit.core.theory.trial import Trial

Changes = dict[str, float]
"""New values of some sides, by the name of the option."""

_DIGITS = 4
_ENOUGH = 2  # if this many single changes help, combinations are not searched
_ANY = 1e300  # a tolerance that is always met
_MOST_ROUNDS = 10**6
_EXACT = ("agents", "rounds", "mixing")  # not to be rounded
_BUMPS = 3  # how often a rounded number is raised by one digit before giving up


def refuse(plan: Trial) -> NoReturn:
    """Raise `Infeasible` with the reason and the alternatives."""
    if plan.radius == 0:
        why = (
            "a radius of 0 is impossible: no private mechanism of this kind reaches the exact average "
            "(Nozari, Tallapragada and Cortés, 2017), because anyone who knows all other "
            "values could subtract them."
        )
        free = _changed(plan, "radius")
        found, hint = ([] if free is None else [free[0]]), ""
    else:
        why, hint = _reason(plan), _one_shot_hint(plan)
        found = list(_alternatives(plan))
    if not found:
        raise Infeasible(f"{why} Ask for a larger radius or tolerance, or for more rounds.{hint}")
    ways = "; ".join(" with ".join(_shown(name, value) for name, value in way.items()) for way in found)
    lead = "Any one of these would work" if len(found) > 1 else "This would work"
    raise Infeasible(f"{why} {lead}: {ways}.{hint}", alternatives=found)


def _shown(name: str, value: float) -> str:
    return f"{name.replace('_', ' ')} {value if isinstance(value, int) else f'{value:.12g}'}"


def _reason(plan: Trial) -> str:
    """Say what is impossible."""
    after = f"after {plan.rounds} round{'s' * (plan.rounds != 1)}"
    if plan.rounds is not None and solve(replace(plan, tolerance=_ANY)) is not None:
        both = plan.radius is not None and solve(replace(plan, radius=None)) is not None
        asked = (plan.radius or 0.0) * plan.unit
        bound = f" if they must stay within {asked:.4g} of the target" if both else ""
        return f"{after} agents may still differ by more than {plan.tolerance:.4g}{bound}."
    n = plan.graph.n if plan.graph is not None else plan.agents
    size = "agents" if n is None else f"{n:,} agent{'s' * (n != 1)}"
    loss = plan.plan.loss  # named as it was asked for
    privacy = f" with epsilon {plan.epsilon:.4g}" if plan.epsilon is not None else ""
    privacy = privacy if loss is None else f" with loss {loss:.4g}"
    privacy += "" if plan.plan.law is None else f" and {plan.law.name} noise"
    keepers = plan.plan.keepers
    privacy += f" and {keepers} keeper{'s' * (keepers != 1)}" if keepers else ""
    radius = "" if plan.radius is None else f" stay within {plan.radius * plan.unit:.4g} of the target"
    percent = f" with {100 * (1 - plan.b):.6g}% probability" if radius else ""
    agree = f" agree within {plan.tolerance:.4g} {after}" if plan.rounds is not None else ""
    joined = " and".join(part for part in (radius + percent, agree) if part)
    return f"{size}{privacy} cannot{joined}."


def _one_shot_hint(plan: Trial) -> str:
    if plan.epsilon is None or plan.radius is None or not plan.sized:
        return ""
    if plan.plan.law is not None or plan.law.shadowed:  # a law was named, or it is this one
        return ""
    mechanism = plan.one_shot(plan.epsilon)
    if not plan.met_by(mechanism):
        return ""
    radius = plan.radius_of(mechanism) * plan.unit
    return f" One-shot noise would also work, with radius {shown_up(radius, _DIGITS)}."


def _alternatives(plan: Trial) -> Iterator[Changes]:
    """Yield changes with which the plan has an answer.

    They are rounded as they are printed.
    """
    told = 0
    for side in _SIDES:
        found = _changed(plan, side)
        if found is not None:
            told += 1
            yield found[0]
    if told >= _ENOUGH:
        return
    # First make agents agree, ignoring the radius; then relax the radius or another side.
    for first in ("rounds", "tolerance", "mixing"):
        begun = _changed(replace(plan, radius=None), first) if _radius_is_free(plan) else None
        if begun is None:
            continue
        changed = replace(begun[1], radius=plan.radius)
        for second in ("radius", "epsilon", "agents", "tolerance"):
            found = _changed(changed, second) if second != first else None
            if found is not None:
                yield begun[0] | found[0]
                break


def _radius_is_free(plan: Trial) -> bool:
    return plan.epsilon is not None and plan.sized and plan.failure_probability is not None


def _changed(plan: Trial, side: str) -> tuple[Changes, Trial] | None:
    """Return a change of one side that gives the plan an answer.

    Also return the plan with that change.
    """
    try:
        value = _SIDES[side](plan)
    except LawError:  # the law does not define what this side would need, such as noise for an endless run
        return None
    for _ in range(_BUMPS):
        if value is None or not math.isfinite(value):
            return None
        if side not in _EXACT:
            value = float(shown_up(value, _DIGITS))
        name, changed = _with(plan, side, value)
        if changed is not None and solve(changed) is not None:
            return {name: value}, changed
        value = value + 1 if isinstance(value, int) else value * (1 + 10.0 ** (1 - _DIGITS))
    return None


def _with(plan: Trial, side: str, value: float) -> tuple[str, Trial | None]:
    if side == "failure_probability" and not 0 < value < 1:
        return side, None
    if (
        side == "epsilon" and plan.by_loss
    ):  # the alternative is a loss, which will be divided by the adjacency again
        return "loss", replace(plan, epsilon=value / plan.adjacency)
    if side == "radius":
        return side, replace(plan, radius=value / plan.unit)
    return side, replace(plan, **{side: value})  # type: ignore[arg-type]


def _radius(plan: Trial) -> float | None:
    if plan.radius is None or not _radius_is_free(plan):
        return None
    found = solve(replace(plan, radius=None))
    if found is None:
        return None
    return found.radius_of(found.mechanism(found.epsilon or 1.0)) * plan.unit * (1 + 1e-9)


def _epsilon(plan: Trial) -> float | None:
    if plan.epsilon is None or plan.radius is None or not plan.sized:
        return None
    if plan.failure_probability is None:
        return None
    found = solve(replace(plan, epsilon=None))
    if found is None or found.epsilon is None:
        return None
    return found.epsilon * (1 + 1e-9) * (plan.adjacency if plan.by_loss else 1.0)


def _failure(plan: Trial) -> float | None:
    if plan.radius is None or not _radius_is_free(plan):
        return None
    found = solve(replace(plan, failure_probability=None))
    return None if found is None else found.b * (1 + 1e-9)


def _agents(plan: Trial) -> int | None:
    if plan.graph is not None or plan.agents is None or plan.radius is None:
        return None
    if plan.unit != 1.0:  # of another number of agents the radius would be another one
        return None
    if plan.epsilon is None or plan.failure_probability is None:
        return None
    found = solve(replace(plan, agents=None))
    return None if found is None else found.agents


def _tolerance(plan: Trial) -> float | None:
    if plan.rounds is None:
        return None
    if plan.epsilon is None or not plan.sized:  # as if agents need not agree
        loose = solve(replace(plan, tolerance=_ANY))
        if loose is None:
            return None
        plan = replace(plan, epsilon=loose.epsilon, agents=loose.agents)
    for apart, trial in by_agreement(plan):
        loose = replace(trial, tolerance=_ANY)
        if apart > plan.tolerance and loose.met_by(trial.mechanism(plan.epsilon or 1.0)):
            return apart * (1 + 1e-9)
    return None


def _rounds(plan: Trial) -> int | None:
    if plan.rounds is None:
        return None
    endless = replace(plan, rounds=None)

    def enough(rounds: int) -> bool:
        return solve(replace(plan, rounds=rounds)) is not None

    guess = plan.rounds + 1
    for mixing in [plan.mixing] if plan.mixing is not None else [0.5, 0.8, 0.99]:
        mechanism = replace(endless, mixing=mixing).mechanism(plan.epsilon or 1.0)
        rounds = convergence.rounds_to_agreement(mechanism, plan.tolerance, plan.spread, plan.b / 50)
        guess = min(rounds, guess) if guess > plan.rounds + 1 else max(rounds, guess)
    for rounds in (guess, 2 * guess, 8 * guess):
        if rounds <= _MOST_ROUNDS and enough(rounds):
            return least_whole(enough, rounds, lowest=plan.rounds + 1, most=rounds)
    return None


def _mixing(plan: Trial) -> float | None:
    if plan.mixing is None:
        return None
    found = solve(replace(plan, mixing=None))
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
