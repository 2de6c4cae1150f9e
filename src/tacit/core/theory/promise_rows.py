"""A promise as rows for people, with notes.

The command line, the studio, `tacit session check` and notebooks all show these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.base.report import Row, component_rows, counted, each, near, some_rounds, typed, up
from tacit.core.mechanism import Distributed, Mechanism
from tacit.core.motion import Linear, Various
from tacit.core.theory import accuracy
from tacit.core.theory.advice import trusted

if TYPE_CHECKING:
    from tacit.core.theory.promise import Promise

_FEW = 10_000_000  # up to this many agents the weights are summarised in a sentence


def describe(mechanism: Mechanism) -> str:
    """Name a mechanism in one line: who, how, and with which parameters."""
    return f"{describe_size(mechanism)}, {describe_parameters(mechanism)}"


def describe_size(mechanism: Mechanism) -> str:
    """Name the number of agents, and the server or graph."""
    people = f"{mechanism.n:,} agent{'s' * (mechanism.n != 1)}"
    if isinstance(mechanism, Distributed):
        rule = mechanism.topology.name
        weighed = "" if rule == "closed" else f", {rule} weights"
        return f"{people} on a graph with {mechanism.graph.n_edges:,} edges{weighed}"
    if mechanism.keepers:
        return f"{people} around a server, trusting {trusted(mechanism.keepers)}"
    return f"{people} around a server"


def describe_parameters(mechanism: Mechanism) -> str:
    """Name the noise and its parameters."""
    law = mechanism.law
    values = (f"{word} {each(value, typed)}" for word, value in law.worded().items())
    moving = "" if law.mixes else f", {law.motion}"
    return f"{law.name} noise: {', '.join(values)}{moving}"


def promise_sections(made: Promise, unit: str = "") -> dict[str, list[Row]]:
    """Return everything that is promised, in the unit of the values."""
    return {
        "Privacy": privacy_rows(made, unit),
        "Accuracy": accuracy_rows(made, unit),
        "Agreement": agreement_rows(made, unit),
    }


def privacy_rows(made: Promise, unit: str = "") -> list[Row]:
    """Return ε and the loss, and the change and the rounds that they are for."""
    run = "an endless run" if made.horizon is None else some_rounds(made.horizon)
    per = unit or "unit of adjacency"
    failing = "" if made.delta is None else f", exceeded with probability {near(made.delta)}"
    return [
        Row("epsilon", up(made.epsilon), f"ε per {per}, over {run}"),
        Row("loss", up(made.loss), f"ε × adjacency {_with_unit(near(made.adjacency), unit)}{failing}"),
    ]


def accuracy_rows(made: Promise, unit: str = "") -> list[Row]:
    """Return the target and how far from it the agents may end.

    The radius is for one component, and for all of them at once.
    """
    if made.question is not None and made.answer is not None:
        told = "standard deviation in each component of the mean vector"
        return [
            Row("question", made.question.kind, f"of {counted(made.mechanism.n, 'record')}"),
            *made.answer.rows(made.failure_probability),
            Row("noise", up(made.variance**0.5), told),
            *_liar_rows(made, unit),
        ]
    average = made.target == "average"
    aim = "the true average of all values" if average else "a weighted average, NOT the true one"
    wider = made.chebyshev_radius / made.average_radius
    alone = "the radius of the average of all states"
    every, components = made.radius_all_components, made.components
    return [
        Row("target", made.target, aim),
        *component_rows("radius", made.radius, every, components, made.radius_meaning(), unit=unit),
        *([Row("average", up(made.average_radius), alone, unit)] if made.horizon is not None else []),
        Row(
            "Chebyshev",
            up(made.chebyshev_radius),
            f"the paper's bound on the average's radius, {wider:.2g} times as wide",
            unit,
        ),
        Row(
            "deviation",
            up(made.variance**0.5),
            f"standard deviation of the average; the variance is {up(made.variance)}",
            unit,
        ),
        *_liar_rows(made, unit),
    ]


def _liar_rows(made: Promise, unit: str) -> list[Row]:
    """Say how far dishonest agents can move the result, if it is known."""
    moved = made.moved_by(1)
    if moved is None:
        return []
    n, least = made.mechanism.n, made.speaking
    few = least is not None and least < n
    when = f" if only {least:,} messages are in a mean" if few else " if all agents speak"
    when = "" if made.mechanism.keepers else when
    part = ""
    if made.question is not None and made.question.components > 1:
        part = (
            " in every part of the answer"
            if made.question.unit(n)
            else " in each component of the mean vector"
        )
    told = f"one dishonest agent can move the result by at most this{part}{when}"
    rows = [Row("one liar", up(moved), told, unit)]
    if made.liars > 1 and (more := made.moved_by(made.liars)) is not None:
        rows.append(Row(f"{made.liars:,} liars", up(more), "so many together, by at most this", unit))
    return rows


def agreement_rows(made: Promise, unit: str = "") -> list[Row]:
    """Return how fast the agents agree."""
    rate: list[Row] = []
    if made.rate is not None:
        rate = [Row("rate", f"{made.rate:.6g}", "what is left of the disagreement after a round")]
    motion = made.mechanism.motion
    if isinstance(motion, Linear | Various):
        from tacit.core.theory.closed_loop import settles_everywhere

        calm = settles_everywhere(motion)
        told = "no response overshoots, so these agents settle on every connected graph"
        other = "a response overshoots: these agents settle here, and maybe not on another graph"
        rate.append(Row("any graph", "yes" if calm else "no", told if calm else other))
    if made.horizon is not None:
        apart = Row("apart", up(made.disagreement), "largest difference between two agents then", unit)
        return [*rate, Row("rounds", f"{made.rounds:,}", "as asked"), apart]
    tolerance, spread = (_with_unit(near(value), unit) for value in (made.tolerance, made.spread))
    agree = f"until all agree within {tolerance}, from values that spread over {spread}"
    return [*rate, Row("rounds", f"{made.rounds:,}", agree)]


def target_notes(made: Promise) -> list[str]:
    """Say so if the agents do not agree on the true average."""
    mechanism = made.mechanism
    if made.target == "average" or mechanism.n > _FEW:
        return []
    share = accuracy.weights(mechanism) * mechanism.n
    if share.ndim > 1:  # one column per component of the state
        counts = ", ".join(
            f"{near(low, 3)} to {near(high, 3)}" for low, high in zip(share.min(0), share.max(0), strict=True)
        )
        return [f"The target is a weighted average: components of a start count {counts} times as in a mean."]
    note = (
        f"The target is a weighted average, not the true one: an agent counts {near(float(share.min()), 3)} "
        f"to {near(float(share.max()), 3)} times as much as in the true average."
    )
    if isinstance(mechanism, Distributed):
        note += " With one mixing for all, --weights metropolis would change that at no cost in noise."
    return [note]


def _with_unit(number: str, unit: str) -> str:
    return Row("", number, unit=unit).shown
