"""What `simulate`, `compare` and `audit` do with --series."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from tacit.base.errors import ParameterError
from tacit.cli import options, output
from tacit.cli.output import progress
from tacit.cli.series_design import (
    delta_option,
    hides_option,
    refuse_series_options,
    require_hides,
    series_option,
)

if TYPE_CHECKING:
    from tacit.base.arrays import FloatArray
    from tacit.core.series import SeriesDesign
    from tacit.lab.simulation.series import Readings, SeriesRuns

F = TypeVar("F", bound=Callable[..., Any])
ALARM = 1

# The names of tacit.lab.audit.series.SERIES_BUGS, repeated because --help must not load it; a test compares.
BUGS = (
    "backlog", "resend", "opened-twice", "reused-draw", "restart", "rounded-reading", "held-reading",
    "half-noise",
)  # fmt: skip

_OPTIONS = {
    "agents": options.asked("agents"),
    "keepers": options.asked("keepers"),
    "hides": hides_option,
    "span": options.range_option,
    "loss": click.option(
        "--loss", type=options.NUMBER, default=1.0, help="Loss of a whole series.  [default: 1]"
    ),
    "delta": delta_option,
    "missing": click.option(
        "--missing", type=options.NUMBER, default=0.0,
        help="Probability that an agent's message is missing in a slot of a series, in [0, 1).  [default: 0]",
    ),
    "readings": click.option(
        "--readings", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
        help="Readings of a series: a CSV file with one row per agent and one column per slot.  "
        "[default: made-up households]",
    ),
    "on_grid": click.option(
        "--on-grid", is_flag=True, help="Round every agent's messages of a series as a deployment does."
    ),
}  # fmt: skip
_SERIES = ("agents", "keepers", "hides", "span", "loss", "delta")
"""What describes a series, beside its slots."""


def or_series(answer: Callable[..., None], *also: str, shared: tuple[str, ...]) -> Callable[[F], F]:
    """Let a verb answer about a series, too, if --series is given.

    Parameters
    ----------
    answer : function
        Answers. It is called with `slots`, the options of a series, and of the verb's own those in
        `shared` that were given. It has defaults for the latter.
    also : str
        Further options that only a series has.
    shared : tuple of str
        The verb's own options that a series uses as well. The others are refused.
    """
    added = tuple(name for name in (*_SERIES, *also) if name not in shared)

    def decorate(function: F) -> F:
        @wraps(function)
        def run(*, series: int | None, **asked: Any) -> None:
            if series is None:
                refuse_series_options(*added)
                function(**{name: value for name, value in asked.items() if name not in added})
                return
            source = click.get_current_context().get_parameter_source
            given = {name for name in asked if source(name) is ParameterSource.COMMANDLINE} - set(added)
            if "question" in given:
                raise ParameterError(
                    "a series of a question can be designed and run, and only one of means is simulated, "
                    "compared or audited: leave --ask out, and see `tacit design --series --ask`.",
                    "question",
                )
            for name in sorted(given - set(shared) - {"as_json"}):
                raise ParameterError(f"a series cannot use {name.replace('_', ' ')}: leave it out.", name)
            taken = {name: asked[name] for name in (*added, *sorted(given & set(shared)))}
            answer(slots=series, as_json=asked["as_json"], **taken)

        made: Any = run
        for name in reversed(added):
            made = _OPTIONS[name](made)
        return series_option(made)  # type: ignore[no-any-return]

    return decorate


def _question(
    slots: int,
    hides: str | None,
    span: tuple[float, float] | None = None,
    agents: int | None = None,
    keepers: int = 0,
    **rest: Any,
) -> dict[str, Any]:
    """Name the options of a series as `design_series` does; all must be there."""
    if agents is None:
        raise ParameterError("a series needs a number of agents: give --agents.", "agents")
    if span is None:
        raise ParameterError("a series needs a range of readings: give --range, like 0:10.", "range")
    size = {"slots": slots, "agents": agents, "keepers": keepers, "low": span[0], "high": span[1]}
    return {**size, "hides": require_hides(hides), **rest}


def simulate(
    *, runs: int = 100, missing: float, readings: Path | None, on_grid: bool, seed: int = 0,
    out: Path | None = None, force: bool = False, as_json: bool, **asked: Any,
) -> None:  # fmt: skip
    """Run a series many times and compare its error with the promise.

    Readings are clamped to the range. If no agent is missing, the error of a mean does not depend on them.
    Single agents are simulated only with --missing or --on-grid.
    """
    if out is not None:
        output.require_writable(out, force)
    from tacit.core.series import design_series

    made = design_series(**_question(**asked))
    from tacit.lab.simulation.series import simulate_series

    source = _readings(readings, made, seed)
    with progress("simulate", "agents") as tell:
        ran = simulate_series(
            made, source, runs=runs, seed=seed, missing=missing, on_grid=on_grid, progress=tell
        )
    if out is not None:
        _keep(ran, out)
    if as_json:
        output.print_json({**made.as_dict(), "measured": ran.as_dict(), "seed": seed, "file": out})
        return
    output.print_summary(ran.summary())
    if out is not None:
        click.echo(f"Kept: {out}")


def compare(*, runs: int = 100, missing: float, seed: int = 0, as_json: bool, **asked: Any) -> None:
    """Compare mechanisms for a series: the same readings and loss."""
    from tacit.lab.comparison.series import compare_series
    from tacit.lab.simulation.series import household_readings

    question = _question(**asked)
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


def audit(
    *, broken: str | None = None, simulated: bool = False, sessions: int = 10_000,
    failure_probability: float = 1e-6, seed: int = 0, as_json: bool, **asked: Any,
) -> None:  # fmt: skip
    """Try to break a series' promise: its loss, its noise, its openings.

    The series is run many times with each of two streams of readings that it should hide. The audit tries
    to tell them apart with all that everybody else and all keepers except one know.
    """
    if broken is not None and broken not in BUGS:
        raise click.UsageError(f"For a series --broken must be one of {', '.join(BUGS)}, got {broken}.")
    from tacit.core.series import Hides, design_series

    question = _question(**asked)
    made = design_series(mechanism=Hides.parse(question["hides"]).runs_with, **question)
    from tacit.lab.audit.series import examine_series

    with progress("audit", "challenges") as tell:
        report = examine_series(
            made, bug=broken, sessions=sessions, failure_probability=failure_probability, seed=seed,
            seedable=simulated, progress=tell,
        )  # fmt: skip
    output.print_result(report, as_json)
    click.get_current_context().exit(0 if report.passed else ALARM)


# ---- readings and results ---------------------------------------------------------------------------


def _readings(file: Path | None, made: SeriesDesign, seed: int) -> Readings:
    from tacit.lab.simulation.series import household_readings

    if file is None:
        return household_readings(made.slots, made.low, made.high, seed=seed)
    import numpy as np

    from tacit.base.errors import FileError

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
    from tacit.base.files import whole_file

    rows = ["slot,true mean,published mean"]
    pairs = zip(ran.truth.tolist(), ran.first.tolist(), strict=True)
    rows += [f"{t},{true!r},{said!r}" for t, (true, said) in enumerate(pairs)]
    with whole_file(out) as part:
        part.write_text("\n".join(rows) + "\n", encoding="utf-8")
