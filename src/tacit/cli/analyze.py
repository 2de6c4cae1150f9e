"""`tacit analyze`: what given parameters promise."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from tacit.cli import options, output

if TYPE_CHECKING:
    from tacit.core.mechanism import Mechanism
    from tacit.core.theory.convergence import Assumption

EPILOG = """\b
Examples:
  tacit analyze --agents 500 --mixing 0.8 --noise 10 --decay 0.6
  tacit analyze --graph karate --mixing 0.5 --noise 10 --decay 0.8 --json
  tacit analyze --agents 500 --mixing 0.8 --noise 5 --law one-shot --adjacency 2
"""


@click.command(epilog=EPILOG)
@options.asked_by("analyze")
@options.json_option
def command(*, as_json: bool, **asked: Any) -> None:
    """Say what given parameters promise: privacy, accuracy, agreement.

    Epsilon is per unit of adjacency; the loss is epsilon × adjacency. Every number printed is
    rounded up, so the true value is never larger.
    """
    question = options.read_question(asked)
    mechanism = question.mechanism()
    from tacit.core.theory.promise import analyze

    made = analyze(mechanism, **question.promised())
    premise = _assumption(mechanism)
    if as_json:
        output.print_json(made.as_dict() | ({"assumption": premise.as_dict()} if premise else {}))
        return
    told = made.summary()
    further = {"Assumption 1": premise.rows()} if premise else {}
    output.print_summary(replace(told, sections={**told.sections, **further}))


def _assumption(mechanism: Mechanism) -> Assumption | None:
    """Return Assumption 1; None unless on a graph with the paper's weights."""
    from tacit.core.mechanism import Distributed
    from tacit.core.theory import convergence

    if not isinstance(mechanism, Distributed) or not mechanism.topology.plain:
        return None
    return convergence.assumption(mechanism)
