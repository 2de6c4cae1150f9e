"""`tacit figure`: the paper's figure and others, drawn or as numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tacit.cli import figure_sessions, options
from tacit.cli.drawing import Drawing, delivered

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tacit.lab.plots.sheets import Width

EPILOG = """\b
Examples:
  tacit figure tradeoff --out tradeoff.svg
  tacit figure tradeoff --table
  tacit figure belief --agents 20 --epsilon 1 --out belief.png
  tacit figure radius --width one-column --out radius.pdf
"""

_mixing = click.option("--mixing", type=options.NUMBER, default=0.8, show_default=True, help="Mixing (σ).")
_noise = click.option(
    "--noise", type=options.NUMBER, default=10.0, show_default=True, help="Noise of round 0 (c)."
)


@click.group("figure", epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Draw the paper's figure and others, or print their numbers.

    `tacit.lab.plots` has more, and draws every result: `tacit.lab.plots.show(result)`.
    """


for session_figure in figure_sessions.COMMANDS:
    command.add_command(session_figure)


@command.command(epilog="\b\nExample:\n  tacit figure tradeoff --mixing 0.5 --out tradeoff.png --table\n")
@click.option("--agents", type=options.Whole(), default=500, show_default=True, help="Number of agents (N).")
@_mixing
@_noise
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
@delivered
def tradeoff(
    *,
    agents: int,
    mixing: float,
    noise: float,
    failure_probability: float,
    decay: tuple[float, ...] | None,
) -> Drawing:
    """Privacy and accuracy for each decay of the noise: the paper's figure.

    The defaults are the paper's: N = 500, σ = 0.8, c = 10, b = 0.5. Both the paper's radius, by
    Chebyshev's inequality, and the exact one are drawn.
    """
    from tacit.lab.plots import curves

    shared = (agents, mixing, noise, failure_probability)
    numbers = curves.tradeoff(*shared, curves.even_decays(mixing).tolist() if decay is None else decay)

    def draw(width: Width) -> Figure:
        from tacit.lab.plots.tradeoff import draw_tradeoff

        return draw_tradeoff(curves.tradeoff(*shared), width=width)

    facts = {"agents": agents, "mixing": mixing, "noise": noise, "failure_probability": failure_probability}
    return Drawing(facts, numbers.table(), draw)


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
@_mixing
@click.option(
    "--epsilon",
    type=options.NUMBERS,
    default="0.01,0.03,0.1,0.3,1,3,10",
    show_default=True,
    help="Privacy (ε).",
)
@options.failure_option
@delivered
def radius(
    *, agents: tuple[int, ...], mixing: float, epsilon: tuple[float, ...], failure_probability: float
) -> Drawing:
    """Exact radius of the best noise against epsilon, per number of agents."""
    from tacit.lab.plots import curves

    numbers = curves.radius_curves(agents, mixing, failure_probability, epsilon)

    def draw(width: Width) -> Figure:
        from tacit.lab.plots.radius import draw_radius

        return draw_radius(numbers, width=width)

    return Drawing({"mixing": mixing, "failure_probability": failure_probability}, numbers.table(), draw)
