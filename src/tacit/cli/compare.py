"""`tacit compare`: other methods, on the same graph and values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tacit.cli import options, output, series
from tacit.cli.drawing import require_drawable, width_option, write_figure
from tacit.cli.output import progress
from tacit.cli.values import read_records, read_values, values_option

if TYPE_CHECKING:
    from tacit.lab.comparison import Comparison
    from tacit.lab.plots.sheets import Width

# The names of METHODS and ON_REQUEST of tacit.lab.comparison, repeated because --help must not load it; a
# test compares them.
NAMES = (
    "plain", "server", "server-one-shot", "graph", "constant", "laplacian", "one-shot", "zero-sum", "gossip",
    "keepers",
)  # fmt: skip
NAMED = ("bits", "trimmed")

_ADJACENCY = (
    "Two values of one agent that differ by at most this must be hard to tell apart (δ).  [default: 1, or "
    "that of the question]"
)

EPILOG = """\b
Examples:
  tacit compare --graph regular:100:4:seed=1 --epsilon 1 --rounds 50 --runs 1000 --seed 1
  tacit compare --graph karate --epsilon 0.5 --methods graph,one-shot,zero-sum --out compare.svg
  tacit compare --graph ring:20 --epsilon 1 --mixing 0.5 --json
  tacit compare --graph karate --epsilon 0.5 --ask histogram:0,1,2,5 --values uniform:0:5
  tacit compare --graph complete:20 --epsilon 0.1 --ask mean:0:10 --methods bits,trimmed,graph
  tacit compare --graph ring:20 --epsilon 1 --motion truck.toml
  tacit compare --series 96 --hides step:2 --agents 1000 --range 0:10 --keepers 1
"""


class Methods(click.ParamType[tuple[str, ...]]):
    """A comma-separated list of methods."""

    name = "names"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Refuse an unknown name before any work is done."""
        names = value if isinstance(value, tuple) else tuple(part.strip() for part in value.split(","))
        for name in names:
            if name not in NAMES + NAMED:
                self.fail(f"{name!r} is none of {', '.join(NAMES + NAMED)}.", param, ctx)
        return names


@click.command(epilog=EPILOG)
@click.option(
    "--graph", metavar="NAME_OR_FILE",
    help="A graph like ring:100, karate, or a file; methods with a server use its size. See `tacit graph`.",
)  # fmt: skip
@click.option("--epsilon", type=options.NUMBER, help="Privacy wanted, per unit of adjacency (ε).")
@values_option
@click.option(
    "--rounds",
    type=options.Whole(),
    default=50,
    show_default=True,
    help="Maximum number of rounds of a method.",
)
@click.option("--runs", type=options.Whole(), default=1000, show_default=True, help="Runs of each method.")
@click.option(
    "--mixing", type=options.NUMBER, default=0.99, show_default=True,
    help="How far agents move per round, in (0, 1): σ of the paper's mechanisms, s of the Laplacian family.",
)  # fmt: skip
@options.asked("adjacency", adjacency={"help": _ADJACENCY})
@options.asked("question")
@click.option(
    "--delta", type=options.NUMBER, default=1e-6, show_default=True,
    help="Failure probability of the (ε, δ) statement of gossip or a series, in (0, 1).",
)  # fmt: skip
@click.option(
    "--tolerance", type=options.NUMBER, help="How close agents must be to agree.  [default: adjacency / 100]"
)
@click.option(
    "--keepers", type=options.Whole(0), default=2, metavar="M",
    help="Number of keepers, for the method with keepers or a series.  [default: 2; of a series 0]",
)  # fmt: skip
@options.asked("weights")
@options.failure_option
@click.option(
    "--agent", type=options.Whole(0), default=0, show_default=True, help="The agent whose value is attacked."
)
@click.option(
    "--methods", type=Methods(), metavar="NAME,…",
    help=f"Some of {', '.join(NAMES + NAMED)}.  [default: all but {' and '.join(NAMED)}]",
)  # fmt: skip
@click.option(
    "--liars", type=options.Whole(), default=1, show_default=True,
    help="How many dishonest neighbours of an agent trimmed means withstand.",
)  # fmt: skip
@options.motion_option(
    "Agents with dynamics of their own: a TOML file with their [motion]. All laws are compared, around a "
    "server and on the graph; values are those of their one private component."
)
@options.seed_option
@click.option("--out", type=options.OUT_FILE, help="Draw the comparison: .svg, .png or .pdf.")
@width_option
@options.force_option
@series.or_series(series.compare, "missing", shared=("keepers", "runs", "seed", "delta"))
@options.json_option
def command(
    *,
    graph: str | None,
    epsilon: float | None,
    source: str,
    seed: int,
    out: Path | None,
    width: Width,
    force: bool,
    as_json: bool,
    motion_file: str | None,
    **asked: Any,
) -> None:
    """Compare methods for private averaging on the same graph and values.

    Each method gets its best parameters for the given epsilon. An attack shows what a method without
    differential privacy gives away. The noise follows from the seed and protects nobody.

    With --series the mechanisms for a mean in every slot are compared, on made-up households.
    """
    if graph is None or epsilon is None:
        raise click.UsageError("Give --graph and --epsilon, or --series SLOTS.")
    if out is not None:
        require_drawable(out, force, width)
    from tacit.core.theory.plan import Plan

    network = options.load_graph(graph)
    network.require_connected()
    weights: Any = Plan(graph=network, weights=asked.pop("weights")).rows
    if motion_file is not None:
        from tacit.core.theory.motion_file import parse_motion_plan

        for odd in options.given("mixing", "methods", "weights", "keepers", "question", "delta", "liars"):
            raise click.UsageError(
                f"Agents with dynamics of their own are compared by all laws: leave out {odd}."
            )
        asked["motion"] = parse_motion_plan(Path(motion_file).read_text(encoding="utf-8"))["motion"]
        weights = None
    question = asked["question"] = Plan.read_word(asked["question"])
    values: Any = (
        read_values(source, network.n, seed)
        if question is None
        else read_records(source, network.n, seed, question)
    )
    from tacit.lab.comparison import compare

    with progress("compare", "rounds") as tell:
        found = compare(network, values, seed=seed, progress=tell, weights=weights, epsilon=epsilon, **asked)
    if out is not None:
        from tacit.lab.plots.compare import draw_compare

        write_figure(draw_compare(found, width=width), out)
    if as_json:
        output.print_json({**found.as_dict(), "file": out})
        return
    _print(found, graph)
    if out is not None:
        click.echo(f"Drawn: {out}")


def _print(found: Comparison, graph: str) -> None:
    private, *accurate = found.grids()
    output.print_summary(replace(private, title=f"{graph}: {private.title}"), *accurate)
