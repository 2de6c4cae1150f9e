"""`tacit figure`: the paper's figure and others, drawn or as numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tacit.cli import options, output
from tacit.errors import FileError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EPILOG = """\b
Examples:
  tacit figure tradeoff --out tradeoff.svg
  tacit figure tradeoff --table
  tacit figure trajectories --agents 20 --epsilon 1 --out session.png
"""

_SUFFIXES = (".svg", ".png", ".pdf")


@click.group("figure", epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Draw the paper's figure and others, or print their numbers."""


def _out_options(function: options.F) -> options.F:
    decorators: list[Callable[[options.F], options.F]] = [
        click.option(
            "--out", type=options.OUT_FILE, help="File to draw into, .svg, .png or .pdf.  [default: NAME.svg]"
        ),
        options.force_option,
        click.option("--table", is_flag=True, help="Print the numbers; draws only if --out is given."),
        options.json_option,
    ]
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


def _target(name: str, out: Path | None, force: bool, numbers_only: bool) -> Path | None:
    """Return the file to draw into, checked before anything is computed."""
    if out is None and numbers_only:
        return None
    path = out or Path(f"{name}.svg")
    if path.suffix.lower() not in _SUFFIXES:
        raise FileError(f"a figure is written as {', '.join(_SUFFIXES)}, got {path.name!r}: change the name.")
    output.require_writable(path, force)
    return path


def _deliver(
    path: Path | None,
    draw: Callable[[], Figure],
    *,
    facts: dict[str, Any],
    table: dict[str, Any],
    as_json: bool,
    show: bool,
) -> None:
    """Draw into the file and print the numbers, as far as each was asked for."""
    if path is not None:
        from tacit.plots.style import save

        figure = draw()
        with output.whole_file(path) as part:
            save(figure, part)
    if as_json:
        columns = {name: list(column) for name, column in table.items()}
        output.print_json({**facts, "file": path, "table": columns})
        return
    if show:
        _print_columns(table)
    if path is not None:
        click.echo(f"Drawn: {path}")


def _print_columns(table: dict[str, Any]) -> None:
    """Print columns; radii and ε are promises and round up, the rest rounds to nearest."""

    def cell(name: str, value: Any) -> str:
        promised = name.startswith(("radius", "one_shot", "epsilon"))
        return output.up(float(value)) if promised else output.near(float(value))

    rows = zip(*([cell(name, value) for value in column] for name, column in table.items()), strict=True)
    output.print_table([name.replace("_", " ") for name in table], list(rows))


@command.command(epilog="\b\nExample:\n  tacit figure tradeoff --mixing 0.5 --out tradeoff.png --table\n")
@click.option("--agents", type=options.Whole(), default=500, show_default=True, help="Number of agents (N).")
@click.option("--mixing", type=options.NUMBER, default=0.8, show_default=True, help="Mixing (σ).")
@click.option("--noise", type=options.NUMBER, default=10.0, show_default=True, help="Noise of round 0 (c).")
@click.option(
    "--failure-probability",
    type=options.NUMBER,
    default=0.5,
    show_default=True,
    help="Failure probability (b).",
)
@click.option(
    "--decay", type=options.NUMBERS, help="Decays of the table (q).  [default: 15 in (1 - mixing, 1)]"
)
@_out_options
def tradeoff(
    *,
    agents: int,
    mixing: float,
    noise: float,
    failure_probability: float,
    decay: tuple[float, ...] | None,
    out: Path | None,
    force: bool,
    table: bool,
    as_json: bool,
) -> None:
    """Privacy and accuracy over the decay of the noise: the paper's figure.

    The defaults are the paper's: N = 500, σ = 0.8, c = 10, b = 0.5. Both the paper's radius, by
    Chebyshev's inequality, and the exact one are drawn.
    """
    path = _target("tradeoff", out, force, table or as_json)
    from tacit.plots import curves

    shared = (agents, mixing, noise, failure_probability)
    numbers = curves.tradeoff(*shared, curves.even_decays(mixing).tolist() if decay is None else decay)

    def draw() -> Figure:
        from tacit.plots.tradeoff import draw_tradeoff

        return draw_tradeoff(curves.tradeoff(*shared))

    facts = {
        "figure": "tradeoff",
        "agents": agents,
        "mixing": mixing,
        "noise": noise,
        "failure_probability": failure_probability,
    }
    _deliver(path, draw, facts=facts, table=numbers.table(), as_json=as_json, show=table)


@command.command(
    epilog="\b\nExample:\n  tacit figure radius --agents 50,500,5000 --mixing 0.5 --out radius.svg\n"
)
@click.option(
    "--agents",
    type=options.WHOLES,
    default="10,100,1000,10000",
    show_default=True,
    help="Numbers of agents (N).",
)
@click.option("--mixing", type=options.NUMBER, default=0.8, show_default=True, help="Mixing (σ).")
@click.option(
    "--epsilon",
    type=options.NUMBERS,
    default="0.01,0.03,0.1,0.3,1,3,10",
    show_default=True,
    help="Privacy (ε).",
)
@options.failure_option
@_out_options
def radius(
    *,
    agents: tuple[int, ...],
    mixing: float,
    epsilon: tuple[float, ...],
    failure_probability: float,
    out: Path | None,
    force: bool,
    table: bool,
    as_json: bool,
) -> None:
    """Exact radius of the best noise against epsilon, for several numbers of agents."""
    path = _target("radius", out, force, table or as_json)
    from tacit.plots import curves

    numbers = curves.radius_curves(agents, mixing, failure_probability, epsilon)

    def draw() -> Figure:
        from tacit.plots.radius import draw_radius

        return draw_radius(numbers)

    facts = {"figure": "radius", "mixing": mixing, "failure_probability": failure_probability}
    _deliver(path, draw, facts=facts, table=numbers.table(), as_json=as_json, show=table)


@command.command(epilog="\b\nExample:\n  tacit figure smoothness --agents 5,500 --table\n")
@click.option(
    "--agents", type=options.WHOLES, default="500", show_default=True, help="Numbers of agents (N)."
)
@options.failure_option
@_out_options
def smoothness(
    *,
    agents: tuple[int, ...],
    failure_probability: float,
    out: Path | None,
    force: bool,
    table: bool,
    as_json: bool,
) -> None:
    """The price of smoothness: the radius over that of one-shot noise, over the mixing."""
    path = _target("smoothness", out, force, table or as_json)
    from tacit.plots import curves

    numbers = curves.smoothness(agents, failure_probability)

    def draw() -> Figure:
        from tacit.plots.smoothness import draw_smoothness

        return draw_smoothness(numbers)

    facts = {"figure": "smoothness", "agents": agents, "failure_probability": failure_probability}
    _deliver(path, draw, facts=facts, table=numbers.table(), as_json=as_json, show=table)


@command.command(
    epilog="\b\nExample:\n  tacit figure trajectories --graph karate --epsilon 2 --out karate.svg\n"
)
@options.size_options
@click.option("--epsilon", type=options.NUMBER, default=1.0, show_default=True, help="Privacy (ε).")
@click.option("--mixing", type=options.PER_AGENT, default=0.5, show_default=True, help="Mixing (σ).")
@click.option("--rounds", type=options.Whole(), help="Rounds (T).  [default: until agents agree]")
@click.option(
    "--values",
    "source",
    default="uniform:15:25",
    show_default=True,
    metavar="FILE|uniform:LO:HI",
    help="Initial values (θ), which the figure shows: made up from the seed, or a file.",
)
@options.seed_option
@_out_options
def trajectories(
    *,
    agents: int | None,
    graph: str | None,
    epsilon: float,
    mixing: options.Numbers,
    rounds: int | None,
    source: str,
    seed: int,
    out: Path | None,
    force: bool,
    table: bool,
    as_json: bool,
) -> None:
    """One simulated session in the fan of the exact radius.

    The noise is the best for epsilon and mixing. It is a simulation: the noise follows from the
    seed and protects nobody. Without --agents and --graph there are 20 agents.
    """
    path = _target("trajectories", out, force, table or as_json)
    from tacit.cli.session import play

    size = options.read_size(20 if graph is None and agents is None else agents, graph)
    session = play(size, epsilon=epsilon, mixing=mixing, source=source, seed=seed, rounds=rounds)

    def draw() -> Figure:
        from tacit.plots.trajectories import draw_trajectories

        return draw_trajectories(session.execution, session.fan)

    facts = {
        "figure": "trajectories",
        "epsilon": epsilon,
        "seed": seed,
        "agents": session.execution.mechanism.n,
    }
    _deliver(path, draw, facts=facts, table=session.table(), as_json=as_json, show=table)
