"""`tacit series`: design, simulate, compare and audit series of means."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tacit.cli import options, output
from tacit.cli.output import progress
from tacit.cli.series_design import Span, delta_option

if TYPE_CHECKING:
    from tacit.arrays import FloatArray
    from tacit.simulation.series import Readings, SeriesRuns
    from tacit.theory.series import SeriesDesign

F = TypeVar("F", bound=Callable[..., Any])
ALARM = 1

# The names of tacit.audit.series.SERIES_BUGS, repeated because --help must not load it; a test compares.
BUGS = (
    "backlog", "resend", "opened-twice", "reused-draw", "restart", "rounded-reading", "held-reading",
    "half-noise",
)  # fmt: skip

EPILOG = """\b
Examples:
  tacit series design --slots 35040 --hides step:2 --agents 1000 --range 0:10 --keepers 1
  tacit series simulate --slots 96 --hides step:2 --agents 1000 --range 0:10 --keepers 1
  tacit series compare --slots 96 --hides step:2 --agents 1000 --range 0:10 --keepers 1
  tacit series audit --broken backlog --json
"""


def _asked(slots: int) -> Callable[[F], F]:
    """Return the options that describe a series."""
    decorators = (
        click.option(
            "--slots", type=options.Whole(), default=slots, show_default=True, help="Number of means (T)."
        ),
        click.option(
            "--hides", default="step:2", show_default=True, metavar="reading|window:K|step:D",
            help="What is hidden: one reading, any K readings in a row, or a lasting step of up to D.",
        ),
        click.option(
            "--agents", type=options.Whole(), default=1000, show_default=True, help="Number of agents (N)."
        ),
        click.option(
            "--range", "span", type=Span(), default="0:10", show_default=True, help="The range of readings."
        ),
        click.option(
            "--keepers", type=options.Whole(0), default=1, show_default=True, metavar="M",
            help="Number of keepers that add noise; 0: every agent adds its own.",
        ),
        click.option(
            "--loss", type=options.NUMBER, default=1.0, show_default=True, help="Loss of the whole series."
        ),
        delta_option,
    )  # fmt: skip

    def apply(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return apply


def _question(asked: dict[str, Any]) -> dict[str, Any]:
    """Take the options of `_asked` and name them as `design_series` does."""
    low, high = asked.pop("span")
    names = ("slots", "hides", "agents", "keepers", "loss", "delta")
    return {name: asked.pop(name) for name in names} | {"low": low, "high": high}


def _design(asked: dict[str, Any]) -> SeriesDesign:
    from tacit.theory.series import design_series

    return design_series(**_question(asked))


_runs = click.option("--runs", type=options.Whole(), default=100, show_default=True, help="Independent runs.")
_missing = click.option(
    "--missing", type=options.NUMBER, default=0.0, show_default=True,
    help="Probability that an agent's message is missing in a slot, in [0, 1).",
)  # fmt: skip


@click.group("series", epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Series: a mean in every slot, with one promise for all of them."""


@command.command(epilog="\b\nExample:\n  tacit series design --slots 35040 --hides window:96 --json\n")
@_asked(96)
@options.json_option
def design(*, as_json: bool, **asked: Any) -> None:
    """Find the noise for a series, like `tacit design --series`."""
    output.print_result(_design(asked), as_json)


@command.command(epilog="\b\nExample:\n  tacit series simulate --slots 2976 --missing 0.05 --on-grid\n")
@_asked(96)
@_runs
@_missing
@click.option(
    "--readings", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
    help="A CSV file of readings, one row per agent and one column per slot.  [default: made-up households]",
)  # fmt: skip
@click.option("--on-grid", is_flag=True, help="Round every agent's messages as a deployment does.")
@click.option(
    "--exact", is_flag=True, help="Draw exact noise as a deployment does; then a run cannot be repeated."
)
@options.seed_option
@click.option("--out", type=options.OUT_FILE, help="Write true and published means of one run as CSV.")
@options.force_option
@options.json_option
def simulate(
    *, runs: int, missing: float, readings: Path | None, on_grid: bool, exact: bool, seed: int,
    out: Path | None, force: bool, as_json: bool, **asked: Any,
) -> None:  # fmt: skip
    """Run a series many times and compare its error with the promise.

    Readings are clamped to the range. If no agent is missing, the error of a mean does not depend on them.
    Single agents are simulated only with --missing or --on-grid; for a year of quarter hours that takes
    some milliseconds per agent.
    """
    if out is not None:
        output.require_writable(out, force)
    made = _design(asked)
    from tacit.simulation.series import simulate_series

    source = _readings(readings, made, seed)
    with progress("simulate", "agents") as tell:
        ran = simulate_series(
            made, source, runs=runs, seed=seed, missing=missing, on_grid=on_grid, safe=exact, progress=tell
        )
    if out is not None:
        _keep(ran, out)
    if as_json:
        output.print_json({**made.as_dict(), "measured": ran.as_dict(), "seed": seed, "file": out})
        return
    output.print_summary(ran.summary())
    if out is not None:
        click.echo(f"Kept: {out}")


@command.command(epilog="\b\nExample:\n  tacit series compare --slots 35040 --runs 10\n")
@_asked(96)
@_runs
@_missing
@options.seed_option
@options.json_option
def compare(*, runs: int, missing: float, seed: int, as_json: bool, **asked: Any) -> None:
    """Compare mechanisms for a series: the same readings and loss."""
    from tacit.comparison.series import compare_series
    from tacit.simulation.series import household_readings

    question = _question(asked)
    made_up = household_readings(question["slots"], question["low"], question["high"], seed=seed)
    slots, hides = question.pop("slots"), question.pop("hides")
    with progress("compare", "mechanisms") as tell:
        found = compare_series(
            slots, hides, made_up, runs=runs, seed=seed, missing=missing, progress=tell, **question
        )
    if as_json:
        output.print_json(found.as_dict())
    else:
        output.print_summary(found.grid())


@command.command(epilog="\b\nExample:\n  tacit series audit --broken restart --json\n")
@_asked(48)
@click.option(
    "--broken", type=click.Choice(BUGS), metavar="BUG",
    help=f"Audit a series with a known bug, to see it caught: {', '.join(BUGS)}.",
)  # fmt: skip
@click.option(
    "--simulated", is_flag=True, help="Use noise that follows from --seed, to repeat an audit exactly."
)
@click.option(
    "--sessions", type=options.Whole(200), default=10_000, show_default=True,
    help="Number of runs for each of the two streams, per test.",
)  # fmt: skip
@click.option(
    "--failure-probability", type=options.NUMBER, default=1e-6, show_default=True,
    help="Probability of a false alarm, over all tests together, in (0, 1).",
)  # fmt: skip
@options.seed_option
@options.json_option
@click.pass_context
def audit(
    ctx: click.Context, /, *, broken: str | None, simulated: bool, sessions: int, failure_probability: float,
    seed: int, as_json: bool, **asked: Any,
) -> None:  # fmt: skip
    """Try to break a series' promise: its loss, its noise, its openings.

    The series is run many times with each of two streams of readings that it should hide. The audit tries
    to tell them apart with all that everybody else and all keepers except one know. Exit codes: 0 no
    alarm, 1 alarm, 2 the input cannot be used.
    """
    from tacit.theory.series import Hides, design_series

    made = design_series(mechanism=Hides.parse(asked["hides"]).runs_with, **_question(asked))
    from tacit.audit.series import examine_series

    with progress("audit", "challenges") as tell:
        report = examine_series(
            made, bug=broken, sessions=sessions, failure_probability=failure_probability, seed=seed,
            seedable=simulated, progress=tell,
        )  # fmt: skip
    output.print_result(report, as_json)
    ctx.exit(0 if report.passed else ALARM)


# ---- readings and results ---------------------------------------------------------------------------


def _readings(file: Path | None, made: SeriesDesign, seed: int) -> Readings:
    from tacit.simulation.series import household_readings

    if file is None:
        return household_readings(made.slots, made.low, made.high, seed=seed)
    import numpy as np

    from tacit.errors import FileError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an empty file; its shape is refused below
            table = np.loadtxt(file, delimiter=",", ndmin=2)
    except (OSError, ValueError):
        raise FileError(f"{file} must have one row of numbers per agent, separated by commas.") from None
    if table.shape != (made.agents, made.slots) or not np.isfinite(table).all():
        raise FileError(
            f"{file} must have {made.agents:,} rows of {made.slots:,} finite numbers, got "
            f"{table.shape[0]:,} rows of {table.shape[1]:,}: give --agents and --slots that fit."
        )

    def block(first: int, last: int) -> FloatArray:
        return np.asarray(table[first:last])

    return block


def _keep(ran: SeriesRuns, out: Path) -> None:
    from tacit.files import whole_file

    rows = ["slot,true mean,published mean"]
    pairs = zip(ran.truth.tolist(), ran.first.tolist(), strict=True)
    rows += [f"{t},{true!r},{said!r}" for t, (true, said) in enumerate(pairs)]
    with whole_file(out) as part:
        part.write_text("\n".join(rows) + "\n", encoding="utf-8")
