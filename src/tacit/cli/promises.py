"""A promise as rows of a report, and the sentences a reader needs beside the numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tacit.cli.output import Row, each, near, up
from tacit.mechanism import Distributed, Mechanism
from tacit.theory import accuracy
from tacit.theory.advice import trusted

if TYPE_CHECKING:
    from tacit.theory.promise import Promise

_FEW = 10_000_000  # agents whose weights are worth summing up in a sentence


def describe(mechanism: Mechanism) -> str:
    """Name a mechanism in one line: who, how, and with which parameters."""
    return f"{describe_size(mechanism)}, {describe_parameters(mechanism)}"


def describe_size(mechanism: Mechanism) -> str:
    """Name how many agents there are, and around what."""
    people = f"{mechanism.n:,} agent{'s' * (mechanism.n != 1)}"
    if isinstance(mechanism, Distributed):
        return f"{people} on a graph with {mechanism.graph.n_edges:,} edges"
    if mechanism.keepers:
        return f"{people} around a server, trusting {trusted(mechanism.keepers)}"
    return f"{people} around a server"


def describe_parameters(mechanism: Mechanism) -> str:
    """Name the noise and its parameters."""
    law = mechanism.law
    values = (f"{word} {_each(value)}" for word, value in law.worded().items())
    return f"{law.name} noise: {', '.join(values)}"


def _each(value: float | np.ndarray) -> str:
    return each(value.tolist() if isinstance(value, np.ndarray) else value)


def privacy_rows(made: Promise) -> list[Row]:
    """Return ε and the loss, and which is which."""
    run = "an endless run" if made.horizon is None else _rounds(made.horizon)
    return [
        ("epsilon", up(made.epsilon), f"ε per unit of adjacency, over {run}"),
        ("loss", up(made.loss), f"ε × adjacency {near(made.adjacency)}"),
    ]


def accuracy_rows(made: Promise) -> list[Row]:
    """Return the target and how far from it the agents may end, in one component and in all."""
    average = made.target == "average"
    aim = "the true average of all values" if average else "a weighted average, NOT the true one"
    wider = made.radius_chebyshev / made.average_radius
    alone = [("average", up(made.average_radius), "the same of the average of all states alone")]
    return [
        ("target", made.target, aim),
        *component_rows(
            "radius", made.radius, made.radius_all_components, made.components, made.radius_meaning()
        ),
        *(alone if made.horizon is not None else []),
        (
            "Chebyshev",
            up(made.radius_chebyshev),
            f"the paper's bound on the average's radius, {wider:.2g} times as wide",
        ),
        (
            "deviation",
            up(made.variance**0.5),
            f"standard deviation of the average; the variance is {up(made.variance)}",
        ),
    ]


def component_rows(name: str, one: float, every: float, components: int, meaning: str) -> list[Row]:
    """Return a radius for one component and, where there are several, for all of them together."""
    if components == 1:
        return [(name, up(one), meaning)]
    together = f"the same for all {components:,} components together"
    return [(name, up(one), f"{meaning}; for any one component"), ("", up(every), together)]


def agreement_rows(made: Promise) -> list[Row]:
    """Return how fast the agents agree."""
    rate: list[Row] = []
    if made.rate is not None:
        rate = [("rate", f"{made.rate:.6g}", "what is left of the disagreement after a round")]
    if made.horizon is not None:
        apart = "no two agents are further apart then"
        return [*rate, ("rounds", f"{made.rounds:,}", "as asked"), ("apart", up(made.disagreement), apart)]
    agree = f"until all agree within {near(made.tolerance)}, from values that spread over {near(made.spread)}"
    return [*rate, ("rounds", f"{made.rounds:,}", agree)]


def target_notes(made: Promise) -> list[str]:
    """Say plainly when the agents do not head for the true average."""
    mechanism = made.mechanism
    if made.target == "average" or mechanism.n > _FEW:
        return []
    share = accuracy.weights(mechanism) * mechanism.n
    note = (
        f"The target is a weighted average, not the true one: an agent counts {near(float(share.min()), 3)} "
        f"to {near(float(share.max()), 3)} times as much as in the true average."
    )
    if isinstance(mechanism, Distributed):
        note += " With one mixing for all, --weights metropolis would change that at no cost in noise."
    return [note]


def _rounds(count: int) -> str:
    return "one round" if count == 1 else f"{count:,} rounds"
