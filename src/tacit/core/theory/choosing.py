"""Choose the mixing of a design, and compute the side that was left open.

Over an endless run more mixing is more accurate, up to a limit at mixing 1. Over finitely many rounds there
is a trade-off: with little mixing agents stay near their initial values, with much mixing more noise enters,
and on a graph agents agree fastest somewhere in between. Around a server the radius is exact and fast to
compute, so the best mixing is found. On a graph a search tries many mixings roughly, without the exact law of
the noise, and computes the best few exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from tacit.core.motion.mixing import kept
from tacit.core.theory import accuracy, convergence
from tacit.core.theory.one_dimension import lowest_point
from tacit.core.theory.rates import is_reversible
from tacit.core.theory.trial import AT_ONCE, BRISK, Trial

_GRID = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, BRISK)
_BEYOND = (0.995, 0.999, 0.9999, 0.99999, AT_ONCE)  # only if nothing smoother works
_WORTHWHILE = (
    1.07  # or if the open side gains by this factor: after one round at 0.99 agents are still far off
)
_NEARBY = 6  # points tried between two neighbours of the grid, twice
_TRIES = 3  # number of mixings, the best ones by estimate, that are computed exactly
_UNIT = 1e-6  # mixings have at most six digits
_STRIDE, _CLOSE = 1.2, 1e-3  # of ln(σ/(1−σ)): of a first search, and of the second one around its best point
_SLIGHTLY = 1e-6  # an ε or a failure probability is the least up to this


def solve(plan: Trial) -> Trial | None:
    """Choose the mixing and compute the side that was left open.

    Return the plan with both, or None if nothing works.
    """
    if plan.mixing is not None:
        return _filled(plan)
    if _alike(plan):
        return _solve_alike(plan)
    for sigma in _candidates(plan):
        found = _filled(replace(plan, mixing=sigma))
        if found is not None:
            return found
    return None


def smoothest(plan: Trial) -> float | None:
    """Return the least mixing found that meets the plan.

    None if there is none, or if mixing was given.
    """
    if plan.mixing is not None:
        return None

    def enough(sigma: float) -> bool:
        return _filled(replace(plan, mixing=sigma)) is not None

    high = next((sigma for sigma in (*_GRID, *_BEYOND) if enough(sigma)), None)
    if high is None:
        return None
    low = max((sigma for sigma in (0.0, *_GRID, *_BEYOND) if sigma < high), default=0.0)
    while high - low > 1.5e-3 and round((low + high) / 2, 3) not in (low, high):
        middle = round((low + high) / 2, 3)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def by_agreement(plan: Trial) -> list[tuple[float, Trial]]:
    """Return the final disagreement for each mixing of a grid.

    The smallest comes first. The plan must have ε and a size.
    """
    found = []
    for sigma in [plan.mixing] if plan.mixing is not None else _grid(plan):
        trial = replace(plan, mixing=sigma)
        found.append((trial.disagreement_of(trial.mechanism(plan.epsilon or 1.0)), trial))
    return sorted(found, key=lambda pair: pair[0])


def _filled(plan: Trial) -> Trial | None:
    """Compute the open side for the given mixing.

    None if the plan cannot be met with it.
    """
    if not plan.sized:
        n = plan.least_agents()
        return None if n is None else replace(plan, agents=n)
    if plan.epsilon is None:
        epsilon = plan.least_epsilon()
        return None if epsilon is None else replace(plan, epsilon=epsilon)
    mechanism = plan.mechanism(plan.epsilon)
    if plan.failure_probability is None:
        b = plan.failure_of(mechanism)
        plan = replace(plan, failure_probability=b if b < 1 else 0.5)
    return plan if plan.met_by(mechanism) else None


def _alike(plan: Trial) -> bool:
    """Whether noise moves all agents alike, as around a server.

    Then it never drives them apart, and the radius is exact and fast to compute.
    """
    sized = plan if plan.sized else replace(plan, agents=2)
    return convergence.moves_as_one(replace(sized, mixing=0.5).mechanism(1.0))


def _solve_alike(plan: Trial) -> Trial | None:
    """Find the mixing that is best for the open side.

    Each step asks for slightly more than the best answer so far, and takes the mixing of least radius.
    """
    if plan.rounds is None:  # more mixing is never less accurate
        return _filled(replace(plan, mixing=AT_ONCE))
    if plan.sized and plan.epsilon is not None and plan.failure_probability is not None:
        sigma = _most_accurate(plan)
        return None if sigma is None else _filled(replace(plan, mixing=sigma))
    found = _filled(replace(plan, mixing=AT_ONCE))
    if found is None and plan.failure_probability is None:
        sigma = _most_accurate(replace(plan, failure_probability=0.5))
        found = None if sigma is None else _filled(replace(plan, mixing=sigma))
    while found is not None:
        harder = _harder(plan, found)
        sigma = None if harder is None else _most_accurate(harder)
        if harder is None or sigma is None or _filled(replace(harder, mixing=sigma)) is None:
            break
        found = _filled(replace(plan, mixing=sigma))
    return found


def _harder(plan: Trial, found: Trial) -> Trial | None:
    """Return an answered plan that asks for slightly more.

    None if there is no more to ask for.
    """
    if not plan.sized:
        assert found.agents is not None
        return None if found.agents == 1 else replace(found, agents=found.agents - 1)
    if plan.epsilon is None:
        assert found.epsilon is not None
        return replace(found, epsilon=found.epsilon * (1 - _SLIGHTLY))
    return replace(found, failure_probability=found.b * (1 - _SLIGHTLY))


def _most_accurate(plan: Trial) -> float | None:
    """Return the mixing of least radius with which agents agree in time.

    The plan must have ε, a size and a number of rounds. None if agents do not agree with any mixing.
    """
    least = _just_in_time(plan)
    if least is None:
        return None
    low, high = (math.log(sigma / kept(sigma)) for sigma in (least, AT_ONCE))

    def sigma_of(place: float) -> float:
        return min(max(round(1 / (1 + math.exp(-place)), 6), least), AT_ONCE)

    def radius(sigma: float) -> float:
        trial = replace(plan, mixing=sigma)
        return trial.radius_of(trial.mechanism(plan.epsilon or 1.0))

    places = np.linspace(low, high, max(math.ceil((high - low) / _STRIDE), 1) + 1).tolist()
    radii = [radius(sigma_of(place)) for place in places]
    best = radii.index(min(radii))
    around = places[max(best - 1, 0)], places[min(best + 1, len(places) - 1)]
    nearby = sigma_of(lowest_point(lambda place: radius(sigma_of(place)), *around, _CLOSE))
    found = min((radii[best], sigma_of(places[best])), (radius(nearby), nearby))
    return AT_ONCE if radii[-1] <= found[0] * (1 + _SLIGHTLY / 10) else found[1]


def _just_in_time(plan: Trial) -> float | None:
    """Return the least mixing, of six digits, with which agents agree in time.

    None if there is none. Noise must move all agents alike.
    """
    kept = min(plan.tolerance / plan.spread, 1.0) if plan.spread else 1.0
    just = -math.expm1(math.log(kept) / (plan.rounds or 1))
    first = max(math.floor(just / _UNIT), 1)
    for units in range(first, first + 3):  # rounding may be off by a unit
        sigma = round(units * _UNIT, 6)
        trial = replace(plan, mixing=sigma, radius=None)
        if sigma <= AT_ONCE and trial.met_by(trial.mechanism(1.0)):
            return sigma
    return None


def _candidates(plan: Trial) -> Iterator[float]:
    """Mixings to try on a graph, the most promising first."""
    if plan.rounds is None:  # more mixing is more accurate
        yield BRISK
        if plan.radius is not None:
            yield from _BEYOND
        return
    deviations = _deviations(plan)
    score = {sigma: _score(plan, sigma, deviations) for sigma in _grid(plan)}
    best = min(score, key=lambda sigma: score[sigma])
    if score[best][0] > 0 or best >= BRISK:
        beyond = {sigma: _score(plan, sigma, deviations) for sigma in _BEYOND}
        missed, side = min(beyond.values())
        if score[best][0] > 0 or (missed == 0 and side * _WORTHWHILE < score[best][1]):
            score |= beyond
    for _ in range(2):
        places = sorted(score)
        best = places.index(min(places, key=lambda sigma: score[sigma]))
        low, high = places[max(best - 1, 0)], places[min(best + 1, len(places) - 1)]
        for sigma in _between(low, high):
            if sigma not in score:
                score[sigma] = _score(plan, sigma, deviations)
    for sigma in sorted(score, key=lambda sigma: score[sigma])[:_TRIES]:
        if math.isfinite(score[sigma][0]):
            yield sigma


def _between(low: float, high: float) -> Iterable[float]:
    """Some numbers between two, with few digits."""
    digits = 3 + max(0, math.ceil(-math.log10(max(high - low, 1e-6))))
    return [round(float(sigma), min(digits, 6)) for sigma in np.linspace(low, high, _NEARBY + 2)[1:-1]]


def _grid(plan: Trial) -> list[float]:
    """Return the mixings to try first.

    They are a fixed grid, and the one with fastest agreement or with agreement just in time.
    """
    found = set(_GRID)
    one = replace(plan, mixing=0.5, epsilon=1.0).mechanism(1.0)
    if _alike(plan):
        found |= {*_BEYOND, _just_in_time(plan) or AT_ONCE}
    elif is_reversible(one):
        seen = convergence.spectrum(one)  # μ is proportional to σ, and at 1 it is 2μ
        found.add(min(round(2 / (2 * seen.low + 2 * seen.high), 4), BRISK))
    return sorted(found)


def _deviations(plan: Trial) -> float:
    """Estimate a radius in standard deviations of the average.

    The estimate is for this noise.
    """
    mechanism = replace(plan, mixing=0.5).mechanism(1.0)
    spread = float(accuracy.variance(mechanism, plan.rounds) ** 0.5)
    return accuracy.radius(mechanism, plan.b, plan.rounds) / spread


def _score(plan: Trial, sigma: float, deviations: float) -> tuple[float, float]:
    """Estimate how far this mixing misses the plan.

    The second number is an estimate of the open side. Less is better.
    """
    rough = replace(plan, mixing=sigma).rough(deviations)
    room = math.inf if plan.radius is None else plan.radius - rough.certain
    slack = plan.tolerance * (1 + 1e-12) - rough.apart
    epsilon = plan.epsilon
    if slack < 0 or room <= 0:
        return math.inf, max(-slack / plan.tolerance, rough.certain)  # for any noise
    amiss = 0.0 if epsilon is None else max(rough.apart_by_noise / epsilon - slack, 0.0)
    if amiss > 0:
        return amiss / plan.tolerance, rough.certain
    if epsilon is None:
        needed = rough.apart_by_noise / max(slack, 1e-300) if rough.apart_by_noise else 0.0
        return 0.0, max(rough.noise / room, needed)
    if plan.radius is not None and plan.failure_probability is None:
        return 0.0, rough.noise / (epsilon * room)
    found = rough.certain + rough.noise / epsilon
    return 0.0 if plan.radius is None else max(found / plan.radius - 1, 0.0), found
