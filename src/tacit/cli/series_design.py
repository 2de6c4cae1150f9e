"""`tacit design --series`: the options and questions of a series."""

from __future__ import annotations

import math
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from tacit.base.errors import ParameterError
from tacit.cli import options

if TYPE_CHECKING:
    from tacit.core.series import SeriesDesign
    from tacit.core.theory.plan import Plan

_TAKEN = frozenset({"agents", "keepers", "loss", "low", "high", "question", "components"})


series_option = click.option(
    "--series", type=options.Whole(), metavar="SLOTS", help="A series of this many means instead of one."
)
hides_option = click.option(
    "--hides",
    metavar="reading|window:K|step:D|step",
    help="What a series hides: one reading, any K readings in a row, or a lasting step of up to D. "
    "With --ask: a lasting `step` to any other record.",
)
delta_option = click.option(
    "--delta",
    type=options.NUMBER,
    default=1e-6,
    show_default=True,
    help="Probability that a series, or Gaussian noise, loses more than its loss.",
)


def design_series(slots: int, hides: str | None, delta: float, question: Plan) -> SeriesDesign:
    """Answer a question about a series; refuse options that it cannot use."""
    from tacit.core.series import design as series

    what = require_hides(hides)
    require_only(question)
    if question.agents is None:
        raise ParameterError("a series needs a number of agents: give --agents.", "agents")
    return series.design_series(
        slots, what, agents=question.agents, keepers=question.keepers, delta=delta, **asked_often(question)
    )


def asked_often(question: Plan) -> dict[str, Any]:
    """Return loss, and question or range, as `design_series` takes them."""
    from tacit.core.question import Mean

    loss = {"loss": 1.0 if question.loss is None else question.loss}
    asked = question.asked
    if isinstance(asked, Mean) and asked.numbers == 1:
        return loss | {"low": asked.low, "high": asked.high}
    return loss | {"question": asked}


def require_hides(hides: str | None) -> str:
    """Return what a series hides; there is no default."""
    if hides is None:
        raise ParameterError(
            "a series must say what it hides: give --hides reading, --hides window:96 or --hides step:2."
        )
    return hides


def refuse_series_options(*names: str) -> None:
    """Refuse options that only a series has, where none is asked for."""
    given = options.given(*names)
    if given:
        raise click.UsageError(f"{', '.join(given)} can be given for a series only: add --series SLOTS.")


def require_only(question: Plan) -> None:
    """Refuse options that a series cannot use."""
    for name in question.given():
        if name not in _TAKEN:
            raise ParameterError(f"a series cannot use {name.replace('_', ' ')}: leave it out.", name)


def begin_time(text: str | None) -> int | None:
    """Read when a series begins, in whole seconds since 1970."""
    from tacit.live.fleet.policy import seconds

    if text is None:
        return None
    if text.startswith("+"):
        return math.ceil(time.time() + seconds(text[1:], "--begins"))
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        when = None
    if when is None or when.tzinfo is None:
        raise click.UsageError(
            f"--begins must be a time with its zone, like 2030-01-31T12:00:00Z, or +10m, got {text!r}."
        )
    return math.ceil(when.timestamp())
