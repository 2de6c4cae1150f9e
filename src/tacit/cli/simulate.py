"""`tacit simulate`: run the mechanism, and compare with the promise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tacit.base.errors import ParameterError
from tacit.cli import options, output, series
from tacit.cli.output import progress
from tacit.cli.values import made_up_spread, read_records, read_values, values_option

if TYPE_CHECKING:
    from tacit.core.mechanism import Mechanism
    from tacit.core.theory.plan import Plan
    from tacit.core.theory.promise import Promise
    from tacit.lab.simulation import Record

EPILOG = """\b
Examples:
  tacit simulate --agents 500 --mixing 0.8 --noise 10 --decay 0.6 --runs 1000
  tacit simulate --graph karate --mixing 0.5 --noise 5 --decay 0.8 --out runs.nc
  tacit simulate --agents 3 --mixing 0.5 --noise 2 --law one-shot --values meters.csv --json
  tacit simulate --series 96 --hides step:2 --agents 1000 --range 0:10 --keepers 1
"""


class Records(click.ParamType[str]):
    """What to keep: final, average, every:K, agents:I,J,… or everything."""

    name = "record"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse an unknown record before any work is done."""
        try:
            parse_record(value)
        except (ValueError, ParameterError) as error:
            reason = f": {error}" if isinstance(error, ParameterError) else ""
            self.fail(
                f"{value!r} is none of final, average, every:K, agents:I,J,… and everything{reason}",
                param,
                ctx,
            )
        return str(value)


def parse_record(text: str) -> Record:
    """Read what to record.

    The average of the last round is always recorded, to compare it with the promise.
    """
    from tacit.lab.simulation.record import Record

    word, _, rest = text.partition(":")
    if word == "every":
        return Record(every=int(rest), average=True)
    if word == "agents":
        return Record(every=1, agents=tuple(int(part) for part in rest.split(",")), average=True)
    if rest or word not in ("final", "average", "everything"):
        raise ValueError(text)
    if word == "average":
        return Record(every=1, states=False, average=True)
    return Record(average=True, everything=word == "everything")


@click.command(epilog=EPILOG)
@options.asked_by(
    "simulate",
    rounds={"help": "Rounds of a run (T).  [default: until agents agree]"},
)
@values_option
@click.option("--runs", type=options.Whole(), default=100, show_default=True, help="Independent runs.")
@options.seed_option
@click.option(
    "--record",
    type=Records(),
    default="final",
    show_default=True,
    metavar="final|average|every:K|agents:I,J|everything",
    help="What to record of each run: states at the end, the average of each round, all states every K "
    "rounds, all states of some agents, or everything.",
)
@click.option("--out", type=options.OUT_FILE, help="Write the runs to a netCDF file, like runs.nc.")
@options.force_option
@series.or_series(
    series.simulate, "missing", "readings", "on_grid",
    shared=("agents", "keepers", "span", "runs", "seed", "out", "force"),
)  # fmt: skip
@options.json_option
def command(
    *,
    source: str,
    runs: int,
    seed: int,
    record: str,
    out: Path | None,
    force: bool,
    as_json: bool,
    **asked: Any,
) -> None:
    """Run the mechanism many times and compare the results with the promise.

    The noise follows from the seed and protects nobody. The file of --out contains states, and the values
    too if round 0 is recorded; with --series true and published means of one run, as CSV.
    """
    if out is not None:
        output.require_writable(out, force)
    word = asked["question"]
    question = options.read_question(asked)
    mechanism = question.mechanism()
    asks = None if word is None else question.asked
    if asks is None:
        values: Any = read_values(source, mechanism.n, seed)
        if question.low is None:
            question = replace(question, spread=made_up_spread(source) or 1.0)
    else:
        values = read_records(source, mechanism.n, seed, asks)
    made = _promise(mechanism, question)
    from tacit.lab.simulation import measure, save, simulate

    how: dict[str, Any] = {"runs": runs, "seed": seed, "record": parse_record(record), "question": asks}
    how["failure_probability"] = made.failure_probability
    with progress("simulate", "rounds") as tell:
        found = simulate(mechanism, values, made.rounds, progress=tell, **how)
    if out is not None:
        save(found, out)
    if asks is not None:
        from tacit.lab.simulation.answers_of_runs import started

        values = started(mechanism, values, asks)
    output.print_result(measure(found, mechanism, values, made, asks), as_json, seed=seed, file=out)
    if out is not None and not as_json:
        click.echo(f"Kept: {out}")


def _promise(mechanism: Mechanism, question: Plan) -> Promise:
    """Return the promise for as many rounds as will be run."""
    from tacit.core.theory.promise import analyze

    made = analyze(mechanism, **question.promised())
    if question.rounds is not None:
        return made
    return analyze(mechanism, **question.promised() | {"rounds": made.rounds})
