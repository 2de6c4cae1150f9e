"""`tacit sweep`: simulate a grid of parameters; it can be resumed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from tacit.cli import options, output
from tacit.cli.failures import ON_STOP
from tacit.cli.output import progress
from tacit.cli.values import made_up_spread, read_values

EPILOG = """\b
Examples:
  tacit sweep --agents 100,1000 --mixing 0.2,0.5,0.8 --epsilon 0.1,1 --out sweep.jsonl
  tacit sweep --graph ring:50,karate --mixing 0.5 --noise 5,10 --decay 0.8 --json
  tacit sweep --agents 100,1000 --mixing 0.5 --loss 1 --ask count --ask histogram:0,1,2,5
  tacit sweep --agents 1e6,1e9 --mixing 0.5 --epsilon 1 --method outcome
"""

_AXES = ("agents", "graph", "keepers", "weights", "law", "mixing", "noise", "decay", "epsilon", "loss")


class Names(click.ParamType[tuple[str, ...]]):
    """A comma-separated list of names."""

    name = "name list"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Split the list and refuse empty names."""
        names = tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else tuple(value)
        if not all(names):
            self.fail("the list contains an empty name.", param, ctx)
        return names


def _axis(name: str, kind: click.ParamType[Any], text: str) -> Callable[[options.F], options.F]:
    """Return an option that takes a list, with commas or by repeating it."""
    return click.option(f"--{name}", type=kind, multiple=True, help=text)


@click.command(epilog=EPILOG)
@_axis("agents", options.WHOLES, "Numbers of agents around a server (N).")
@_axis("graph", Names(), "Names of graphs, like ring:100,karate.")
@_axis("keepers", options.ListOf(options.Whole(0)), "Numbers of keepers; 0: every agent adds its own noise.")
@_axis(
    "weights",
    Names(),
    "On graphs: closed, metropolis, edges.  [default: edges if the graph has weights, else closed]",
)
@_axis("mixing", options.NUMBERS, "Mixing (σ).")
@_axis("noise", options.NUMBERS, "Noise of round 0 (c); needs --decay.")
@_axis("decay", options.NUMBERS, "Decay (q).")
@_axis("epsilon", options.NUMBERS, "Privacy (ε), with the noise and decay that are best for it.")
@_axis("loss", options.NUMBERS, "Privacy as epsilon × adjacency, for questions.")
@click.option(
    "--ask",
    "question",
    metavar="QUESTION",
    multiple=True,
    help="A question, like count or histogram:0,1,2; may be repeated.",
)
@_axis("law", Names(), "Noise laws: fading, one-shot, constant.  [default: fading; one-shot for questions]")
@click.option(
    "--parameter",
    "parameters",
    type=options.Parameter(options.NUMBERS),
    multiple=True,
    metavar="NAME=LIST",
    help="A parameter that only one noise law has, like rate=0.1,0.5; may be repeated.",
)
@click.option("--rounds", type=options.Whole(), default=100, show_default=True, help="Rounds of a run (T).")
@click.option("--runs", type=options.Whole(), default=100, show_default=True, help="Runs of every cell.")
@click.option(
    "--method",
    type=click.Choice(["engine", "outcome"]),
    default="engine",
    show_default=True,
    help="engine simulates all agents; outcome samples only their result, at the same cost for any number.",
)
@click.option(
    "--values",
    "source",
    metavar="FILE|uniform:LO:HI",
    default="uniform:0:1",
    show_default=True,
    help="Initial values (θ). Of a file, only a hash is stored.",
)
@options.failure_option
@options.seed_option
@click.option(
    "--out",
    type=options.OUT_FILE,
    default="sweep.jsonl",
    show_default=True,
    help="Results, a line per cell; the same command continues an unfinished file.",
)
@click.option("--cluster", metavar="ADDRESS", help="Dask scheduler, like tcp://host:8786.")
@options.json_option
def command(*, source: str, out: Path, as_json: bool, **asked: Any) -> None:
    """Simulate every combination of parameters, and store the results.

    Lists are comma-separated; every combination is a cell of the grid. Give --mixing, and --epsilon
    or --noise with --decay. If a sweep was stopped, run the same command to continue.
    """
    grid = {name: _flat(asked.pop(name)) for name in _AXES}
    grid["question"] = list(asked.pop("question"))
    for name, values in asked.pop("parameters"):
        if name in grid:
            raise click.UsageError(
                f"--parameter {name} must be given once, and only if {name} has no option of its own."
            )
        grid[name] = list(values)
    output.require_writable(out, force=True)
    click.get_current_context().meta[ON_STOP] = (
        f"Stopped. Finished cells are in {out}: repeat the command to continue."
    )
    from tacit.lab.simulation import SweepTable, sweep

    with progress("sweep", "cells") as tell:
        found = sweep(
            {name: axis for name, axis in grid.items() if axis},
            path=out,
            values=_values(source, grid["agents"], asked["seed"]),
            progress=tell,
            **asked,
        )
    output.print_result(SweepTable.of(found), as_json, file=out)
    if not as_json:
        click.echo(f"Kept: {out}")


def _flat(lists: tuple[tuple[Any, ...], ...]) -> list[Any]:
    return [item for part in lists for item in part]


def _values(source: str, agents: list[int], seed: int) -> Any:
    """Return the values of a file, or the name of made-up ones."""
    if made_up_spread(source) is not None:
        return f"{source}:{seed}"
    return read_values(source, agents[0] if agents else None, seed)
