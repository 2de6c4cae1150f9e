"""`tacit analyze`: what given parameters promise."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from tacit.cli import options, output

if TYPE_CHECKING:
    from tacit.base.report import Shown
    from tacit.core.mechanism import Mechanism
    from tacit.core.theory.convergence import Assumption
    from tacit.core.theory.plan import Plan

EPILOG = """\b
Examples:
  tacit analyze --agents 500 --mixing 0.8 --noise 10 --decay 0.6
  tacit analyze --graph karate --mixing 0.5 --noise 10 --decay 0.8 --json
  tacit analyze --agents 500 --mixing 0.8 --noise 5 --law one-shot --adjacency 2
  tacit analyze --motion truck.toml
"""


@click.command(epilog=EPILOG)
@options.asked_by("analyze")
@options.motion_option(
    "Agents with dynamics of their own: a TOML file with their matrices, noise and number. Their loss is "
    "computed exactly, and a certificate of contraction is proved."
)
@options.json_option
def command(*, as_json: bool, motion_file: str | None, **asked: Any) -> None:
    """Say what given parameters promise: privacy, accuracy, agreement.

    Epsilon is per unit of adjacency; the loss is epsilon × adjacency. Every number printed is
    rounded up, so the true value is never larger.
    """
    question = options.read_question(asked)
    if motion_file is not None:
        _analyze_motion(motion_file, question, as_json)
        return
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


def _analyze_motion(name: str, question: Plan, as_json: bool) -> None:
    """Say what a file of agents with dynamics of their own promises."""
    from pathlib import Path

    from tacit.core.motion import Linear
    from tacit.core.theory.hybrid import Hybrid
    from tacit.core.theory.motion_file import CertifiedPrivacy, parse_motion_file
    from tacit.core.theory.promise import analyze

    options.refuse_beside_motion()
    found = parse_motion_file(Path(name).read_text(encoding="utf-8"))
    if isinstance(found.law, Hybrid):
        for odd in options.given("rounds", "adjacency", "failure_probability"):
            raise click.UsageError(f"Hybrid noise is for what its file says: leave out {odd}.")
        output.print_result(found.law, as_json)
        return
    rounds = found.rounds if question.rounds is None else question.rounds
    adjacency = found.adjacency if question.adjacency is None else question.adjacency
    made: Shown = CertifiedPrivacy(found.law, rounds, adjacency)
    if isinstance(found.law.motion, Linear):
        said = question.promised() | {"rounds": rounds, "adjacency": adjacency, "delta": found.delta}
        made = analyze(found.mechanism, **said)
    output.print_result(made, as_json)


def _assumption(mechanism: Mechanism) -> Assumption | None:
    """Return Assumption 1; None unless on a graph with the paper's weights."""
    from tacit.core.mechanism import Distributed
    from tacit.core.theory import convergence

    if not isinstance(mechanism, Distributed) or not mechanism.topology.plain:
        return None
    return convergence.assumption(mechanism)
