"""`tacit figure`: the paper's figure and others, drawn or as numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tacit.cli import figure_sessions, options
from tacit.cli.drawing import Drawing, delivered
from tacit.cli.series_design import Span, delta_option

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tacit.plots.sheets import Width

EPILOG = """\b
Examples:
  tacit figure tradeoff --out tradeoff.svg
  tacit figure tradeoff --table
  tacit figure belief --agents 20 --epsilon 1 --out belief.png
  tacit figure bounds --width one-column --out bounds.pdf
"""

_mixing = click.option("--mixing", type=options.NUMBER, default=0.8, show_default=True, help="Mixing (σ).")
_noise = click.option(
    "--noise", type=options.NUMBER, default=10.0, show_default=True, help="Noise of round 0 (c)."
)


@click.group("figure", epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Draw the paper's figure and others, or print their numbers."""


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
    from tacit.plots import curves

    shared = (agents, mixing, noise, failure_probability)
    numbers = curves.tradeoff(*shared, curves.even_decays(mixing).tolist() if decay is None else decay)

    def draw(width: Width) -> Figure:
        from tacit.plots.tradeoff import draw_tradeoff

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
    from tacit.plots import curves

    numbers = curves.radius_curves(agents, mixing, failure_probability, epsilon)

    def draw(width: Width) -> Figure:
        from tacit.plots.radius import draw_radius

        return draw_radius(numbers, width=width)

    return Drawing({"mixing": mixing, "failure_probability": failure_probability}, numbers.table(), draw)


@command.command(epilog="\b\nExample:\n  tacit figure chebyshev --agents 10,1000 --table\n")
@click.option(
    "--agents", type=options.WHOLES, default="500", show_default=True, help="Numbers of agents (N)."
)
@_mixing
@_noise
@click.option("--decay", type=options.NUMBER, default=0.6, show_default=True, help="Decay (q).")
@click.option(
    "--failure-probability",
    type=options.NUMBERS,
    help="Failure probabilities (b).  [default: from 0.5 to 0.0001]",
)
@delivered
def chebyshev(
    *,
    agents: tuple[int, ...],
    mixing: float,
    noise: float,
    decay: float,
    failure_probability: tuple[float, ...] | None,
) -> Drawing:
    """Exact radius and the paper's (Chebyshev) per failure probability."""
    from tacit.plots import curves

    numbers = curves.bounds(agents, mixing, noise, decay, failure_probability or curves.FAILURES)

    def draw(width: Width) -> Figure:
        from tacit.plots.chebyshev import draw_chebyshev

        return draw_chebyshev(numbers, width=width)

    return Drawing({"mixing": mixing, "noise": noise, "decay": decay}, numbers.table(), draw)


@command.command(epilog="\b\nExample:\n  tacit figure smoothness --agents 5,500 --table\n")
@click.option(
    "--agents", type=options.WHOLES, default="500", show_default=True, help="Numbers of agents (N)."
)
@options.failure_option
@delivered
def smoothness(*, agents: tuple[int, ...], failure_probability: float) -> Drawing:
    """Radius divided by the radius of one-shot noise, per mixing."""
    from tacit.plots import curves

    numbers = curves.smoothness(agents, failure_probability)

    def draw(width: Width) -> Figure:
        from tacit.plots.smoothness import draw_smoothness

        return draw_smoothness(numbers, width=width)

    return Drawing({"agents": agents, "failure_probability": failure_probability}, numbers.table(), draw)


@command.command(epilog="\b\nExample:\n  tacit figure bounds --width one-column --out bounds.pdf\n")
@click.option("--mixing", type=options.NUMBERS, help="Mixings (σ).  [default: from 0.01 to 0.99]")
@delivered
def bounds(*, mixing: tuple[float, ...] | None) -> Drawing:
    """Variance divided by the least variance of any private protocol.

    Three curves: the paper's fading noise with the best decay, the best linear estimate from the same
    messages, and one-shot noise. docs/proofs/bounds.md has the proofs.
    """
    from tacit.plots import curves

    numbers = curves.closeness(mixing or curves.MIXINGS)

    def draw(width: Width) -> Figure:
        from tacit.plots.bounds import draw_bounds

        return draw_bounds(numbers, width=width)

    return Drawing({"one_shot": numbers.one_shot}, numbers.table(), draw)


@command.command(epilog="\b\nExample:\n  tacit figure tail --agents 1 --rounds 5 --table\n")
@click.option("--agents", type=options.Whole(), default=5, show_default=True, help="Number of agents (N).")
@click.option("--mixing", type=options.NUMBER, default=0.3, show_default=True, help="Mixing (σ).")
@click.option("--rounds", type=options.Whole(), default=10, show_default=True, help="Rounds (T).")
@click.option(
    "--failure-probability",
    type=options.NUMBERS,
    help="Failure probabilities (b).  [default: from 0.1 to 1e-300]",
)
@delivered
def tail(
    *, agents: int, mixing: float, rounds: int, failure_probability: tuple[float, ...] | None
) -> Drawing:
    """The radius for tiny failure probabilities, relative to its limit."""
    from tacit.plots import curves

    numbers = curves.tail_curves(agents, mixing, rounds, failure_probability or curves.TAILS)

    def draw(width: Width) -> Figure:
        from tacit.plots.bounds import draw_tail

        return draw_tail(numbers, width=width)

    return Drawing({"agents": agents, "mixing": mixing, "rounds": rounds}, numbers.table(), draw)


@command.command(epilog="\b\nExample:\n  tacit figure series --keepers 2 --table\n")
@click.option("--agents", type=options.Whole(), default=1000, show_default=True, help="Number of agents (N).")
@click.option(
    "--range", "span", type=Span(), default="0:10", show_default=True, help="The range of readings."
)
@click.option(
    "--hides",
    default="step:2",
    show_default=True,
    metavar="reading|window:K|step:D",
    help="The change that is hidden.",
)
@click.option(
    "--keepers", type=options.Whole(0), default=1, show_default=True, help="Number of keepers that add noise."
)
@click.option("--loss", type=options.NUMBER, default=1.0, show_default=True, help="Loss of the whole series.")
@delta_option
@click.option("--slots", type=options.WHOLES, help="Numbers of means.  [default: from 1 to 100,000]")
@delivered
def series(
    *,
    agents: int,
    span: tuple[float, float],
    hides: str,
    keepers: int,
    loss: float,
    delta: float,
    slots: tuple[int, ...] | None,
) -> Drawing:
    """Error of each mean of a series against its length, per mechanism."""
    from tacit.plots import curves

    numbers = curves.series_curves(
        slots or curves.SLOTS, hides, agents=agents, low=span[0], high=span[1], keepers=keepers, loss=loss,
        delta=delta,
    )  # fmt: skip

    def draw(width: Width) -> Figure:
        from tacit.plots.series import draw_series

        return draw_series(numbers, width=width)

    facts = {"agents": agents, "hides": hides, "keepers": keepers, "loss": loss, "delta": delta}
    return Drawing(facts, numbers.table(), draw)
