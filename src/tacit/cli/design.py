"""`tacit design`: parameters of least variance for a promise, beside one-shot noise."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from tacit.cli import options, output, series_design

if TYPE_CHECKING:
    from tacit.theory.answers import Design
    from tacit.theory.question import Question
    from tacit.theory.trust import Trust

EPILOG = """\b
Examples:
  tacit design --agents 500 --epsilon 0.15 --mixing 0.8    the best radius
  tacit design --agents 500 --radius 0.5 --mixing 0.8      the least epsilon
  tacit design --epsilon 0.15 --radius 0.5 --mixing 0.8    the least number of agents
  tacit design --agents 1000 --radius 0.2 --adjacency 10 --keepers 2
  tacit design --graph karate --epsilon 1 --true-average --json
  tacit design --agents 1000 --range 0:10 --keepers 1 --series 35040 --hides step:2
"""

OPEN = "open"


class Failure(options.Number):
    """A probability, or the word that leaves it open."""

    name = "number|open"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read the number; NaN stands for open until the command reads it."""
        return float("nan") if value == OPEN else super().convert(value, param, ctx)


@click.command(epilog=EPILOG)
@options.asked_by(
    "design",
    failure_probability={
        "type": Failure(),
        "help": "How often the radius may be missed, in (0, 1) (b); `open` to be told it.",
    },
)
@series_design.range_option
@series_design.series_option
@series_design.hides_option
@series_design.delta_option
@options.json_option
def command(
    *,
    failure_probability: float,
    span: tuple[float, float] | None,
    series: int | None,
    hides: str | None,
    delta: float,
    as_json: bool,
    **asked: Any,
) -> None:
    """Find parameters for a promise, and compare them with one-shot noise.

    The question has four sides: privacy (--epsilon), accuracy (--radius), size (--agents or
    --graph) and rounds. Give at least two of the first three; the side left open is answered.
    Noise and decay are those of least variance; mixing is chosen for the question unless given.
    A question without an answer is answered with changes that give it one, and exit code 3.

    With --series the question is about a mean in every slot: what it hides (--hides), how far off
    each mean is, and what all of them together cost.
    """
    if span is not None:
        if asked["low"] is not None or asked["high"] is not None:
            raise click.UsageError("Give --range or --low and --high, not both.")
        asked["low"], asked["high"] = span
    asked["failure_probability"] = None if math.isnan(failure_probability) else failure_probability
    question = options.read_question(asked)
    if series is not None:
        planned = series_design.design_series(series, hides, delta, question)
        if as_json:
            output.print_json(planned.as_dict())
        else:
            series_design.print_series(planned)
        return
    if hides is not None:
        raise click.UsageError("--hides says what a series hides: give --series SLOTS as well.")
    from tacit.theory.answers import answer

    found = answer(question)
    warning = _warning(found, question)
    if as_json:
        output.print_json({**found.as_dict(), "warning": warning})
    else:
        _print(found, question, warning)


def _warning(answer: Design, question: Question) -> str | None:
    """Warn of a radius that is a large part of the range, where the question said what that is."""
    from tacit.theory.advice import wide_radius

    if (question.adjacency, question.spread, question.low) == (None, None, None):
        return None
    return wide_radius(answer.promise.radius, answer.promise.spread)


def _print(answer: Design, question: Question, warning: str | None) -> None:
    from tacit.cli.promises import accuracy_rows, agreement_rows, describe_size, privacy_rows

    made = answer.promise
    sections = {
        "Parameters": _parameters(answer, free=question.mixing is None),
        "Privacy": privacy_rows(made),
        "Accuracy": accuracy_rows(made),
        "Agreement": agreement_rows(made),
        "One-shot": [
            ("noise", _typed(answer.baseline.as_dict()["noise"]), "drawn once, at the same ε"),
            ("radius", output.up(answer.baseline.radius), answer.compared),
        ],
    }
    if answer.trust:
        sections["Price of trust"] = [_price(row) for row in answer.trust]
    title = f"{describe_size(made.mechanism)}; answered: {answer.answered}"
    output.print_report(title, sections, [*([warning] if warning else []), *answer.notes()])


def _parameters(answer: Design, free: bool) -> list[output.Row]:
    values = answer.promise.as_dict()
    chosen = "σ, chosen for the question" if free else "σ, as given"
    return [
        ("mixing", _typed(values["mixing"]), chosen),
        ("noise", _typed(values["noise"]), "c, scale of the Laplace noise of round 0"),
        (
            "decay",
            _typed(values["decay"]),
            "q, of least variance: the noise of round t has scale c·q^t",
        ),
    ]


def _price(row: Trust) -> output.Row:
    from tacit.theory.advice import right_at_most, trusted

    if row.loss is None:
        return (trusted(row.keepers), "none", "no loss does")
    wide = "" if row.radius is None else f"; at the loss above the radius is {output.up(row.radius)}"
    said = f"loss for this radius: two values are told apart {right_at_most(row.loss)} of the time{wide}"
    return (trusted(row.keepers), output.up(row.loss), said)


def _typed(value: float | list[float]) -> str:
    """Write a parameter in full, so that typing it in gives just what was promised; of many, the range."""
    return output.each(value, output.up) if isinstance(value, list) else repr(value).removesuffix(".0")
