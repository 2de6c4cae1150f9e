"""`tacit analyze`: what given parameters promise."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from tacit.cli import options, output
from tacit.report import Row

if TYPE_CHECKING:
    from tacit.mechanism import Mechanism
    from tacit.theory.promise import Promise

EPILOG = """\b
Examples:
  tacit analyze --agents 500 --mixing 0.8 --noise 10 --decay 0.6
  tacit analyze --graph karate --mixing 0.5 --noise 10 --decay 0.8 --json
  tacit analyze --agents 500 --mixing 0.8 --noise 5 --one-shot --adjacency 2
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
    from tacit.theory.promise import analyze

    made = analyze(mechanism, **question.promised())
    premise = _assumption(mechanism)
    if as_json:
        output.print_json(made.as_dict() | ({"assumption": premise} if premise else {}))
    else:
        _print(made, premise)


def _assumption(mechanism: Mechanism) -> dict[str, Any] | None:
    """Return whether the paper's Assumption 1 holds, as printed and as its proof needs it."""
    from tacit.mechanism import Distributed
    from tacit.theory import convergence

    if not isinstance(mechanism, Distributed) or not mechanism.topology.plain:
        return None
    found = convergence.assumption(mechanism)
    return {"as_printed": found.as_printed, "as_needed": found.as_needed, "lambda_n": found.lambda_N}


def _print(made: Promise, premise: dict[str, Any] | None) -> None:
    told = made.summary()
    sections = dict(told.sections)
    if premise:
        words = {True: "holds", False: "does not hold"}
        sections["Assumption 1"] = [
            Row("as printed", words[premise["as_printed"]], "λ_N < M²/(2m), a slip of the paper"),
            Row(
                "as needed",
                words[premise["as_needed"]],
                "λ_N < 2m/M², which its proof uses; agents agree without it",
            ),
        ]
    output.print_summary(replace(told, sections=sections))
