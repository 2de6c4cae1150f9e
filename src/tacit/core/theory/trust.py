"""The price of trust: what agents gain by trusting keepers.

Agents that trust nobody add their own noise. Agents that trust one of m keepers let the keepers add the
noise, once for all agents. The error then falls like 1/N instead of 1/√N (docs/proofs/keepers.md).
`price_of_trust` answers one plan for 0, 1, 2, … keepers: the loss for the same radius, and the radius for
the same loss.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from tacit.core.theory.choosing import solve
from tacit.core.theory.privacy import loss
from tacit.core.theory.trial import Trial

MOST_KEEPERS_SHOWN = 3
"""More keepers are hard to find, and each costs accuracy."""


class Trust(NamedTuple):
    """What one number of keepers leads to.

    With 0 keepers every agent adds its own noise.
    """

    keepers: int
    loss: float | None
    """The least loss for the plan's radius; None if no loss is large enough."""
    radius: float | None
    """The radius for the plan's loss; None if agents do not agree as required."""


def price_of_trust(plan: Trial, most: int = MOST_KEEPERS_SHOWN) -> list[Trust]:
    """Return what the plan leads to with 0, 1, … `most` keepers.

    Parameters
    ----------
    plan : Trial
        As `tacit.core.theory.choosing.solve` returns it: with a size, ε and mixing. Other numbers of keepers
        are compared at the radius of its mechanism, and at its ε.
    most : int
    """
    assert plan.epsilon is not None
    radius = plan.radius_of(plan.mechanism(plan.epsilon))
    found = []
    for keepers in range(most + 1):
        trial = replace(plan, plan=replace(plan.plan, keepers=keepers))
        if keepers == plan.plan.keepers:
            solved: Trial | None = plan
        else:
            solved = solve(replace(trial, epsilon=None, radius=radius))
        lost = None
        if solved is not None and solved.epsilon is not None:
            lost = loss(solved.mechanism(solved.epsilon).law, plan.adjacency, plan.rounds)
        mechanism = trial.mechanism(plan.epsilon)
        met = replace(trial, radius=None).met_by(mechanism)
        found.append(Trust(keepers, lost, trial.radius_of(mechanism) if met else None))
    return found
