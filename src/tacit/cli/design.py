"""`tacit design`: the best parameters for a promise."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from tacit.cli import options, output, series_design

if TYPE_CHECKING:
    from tacit.core.theory.plan import Plan

EPILOG = """\b
Examples:
  tacit design --agents 500 --epsilon 0.15 --mixing 0.8    the best radius
  tacit design --agents 500 --radius 0.5 --mixing 0.8      the least epsilon
  tacit design --epsilon 0.15 --radius 0.5 --mixing 0.8    the least number of agents
  tacit design --agents 1000 --radius 0.2 --adjacency 10 --keepers 2
  tacit design --graph karate --epsilon 1 --true-average --json
  tacit design --motion truck.toml
  tacit design --agents 1000 --range 0:10 --keepers 1 --series 35040 --hides step:2
"""

OPEN = "open"


class Failure(options.Number):
    """A probability, or the word `open`."""

    name = "number|open"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read the number; `open` becomes NaN, which the command reads."""
        return float("nan") if value == OPEN else super().convert(value, param, ctx)


@click.command(epilog=EPILOG)
@options.asked_by(
    "design",
    failure_probability={
        "type": Failure(),
        "help": "Probability that the radius is missed, in (0, 1) (b); `open` to compute it.",
    },
)
@options.motion_option(
    "Agents with dynamics of their own: a TOML file with their matrices, number, rounds and loss. The best "
    "noise of every law is compared."
)
@series_design.series_option
@series_design.hides_option
@series_design.delta_option
@options.json_option
def command(
    *,
    failure_probability: float,
    motion_file: str | None,
    series: int | None,
    hides: str | None,
    delta: float,
    as_json: bool,
    **asked: Any,
) -> None:
    """Find parameters for a promise, and compare them with one-shot noise.

    Give at least two of privacy (--epsilon or --loss), accuracy (--radius) and size (--agents or
    --graph); the third is computed, with the parameters of least variance. If no parameters meet the
    request, changes that make it possible are printed, and the exit code is 3.

    With --series and --hides: the error of a mean in every slot, and the loss of all of them together.
    """
    asked["failure_probability"] = None if math.isnan(failure_probability) else failure_probability
    question = options.read_question(asked)
    if series is not None:
        output.print_result(series_design.design_series(series, hides, delta, question), as_json)
        return
    fresh = motion_file is not None or question.mixing is not None  # then Gaussian noise is compared
    series_design.refuse_series_options("hides", *([] if fresh else ["delta"]))
    from tacit.core.theory.answers import answer

    question = replace(question, delta=delta)
    if motion_file is not None:
        question = _of_file(motion_file, question)
    found = answer(question)
    output.print_result(found, as_json)


def _of_file(name: str, question: Plan) -> Plan:
    """Return the plan of a file of agents with dynamics of their own."""
    from pathlib import Path

    from tacit.core.theory.motion_file import parse_motion_plan

    options.refuse_beside_motion("radius")
    found = parse_motion_plan(Path(name).read_text(encoding="utf-8"))
    given = {key: getattr(question, key) for key in ("rounds", "adjacency", "loss", "epsilon")}
    found |= {key: value for key, value in given.items() if value is not None}
    if options.given("delta"):
        found["delta"] = question.delta
    if "epsilon" in found:
        found.pop("loss", None)
    return replace(question, **found)
