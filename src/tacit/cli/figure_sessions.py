"""The verbs of `tacit figure` that simulate sessions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from tacit.base.errors import ParameterError
from tacit.cli import options
from tacit.cli.drawing import Drawing, delivered

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tacit.cli.simulated_run import SimulatedRun
    from tacit.lab.plots.sheets import Width

# The names of tacit.lab.audit.ADVERSARIES, repeated because --help must not load it; a test compares the two.
ADVERSARIES = ("eavesdropper", "server", "compromised", "insiders", "conspirators")

_AGENTS = 20  # if neither --agents nor --graph is given

_epsilon = click.option("--epsilon", type=options.NUMBER, default=1.0, show_default=True, help="Privacy (ε).")
_mixing = click.option("--mixing", type=options.PER_AGENT, default=0.5, show_default=True, help="Mixing (σ).")
_values = click.option(
    "--values",
    "source",
    default="uniform:15:25",
    show_default=True,
    metavar="FILE|uniform:LO:HI",
    help="Initial values (θ), which the figure shows: made up from the seed, or a file.",
)


def _session_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options of one simulated session with the best noise."""
    rounds = click.option("--rounds", type=options.Whole(), help="Rounds (T).  [default: until agents agree]")
    for decorator in (options.seed_option, _values, rounds, _mixing, _epsilon, options.asked("weights")):
        function = decorator(function)
    return function


def _play(agents: int | None, graph: str | None, asked: dict[str, Any]) -> SimulatedRun:
    from tacit.cli.simulated_run import play

    return play(options.read_size(_AGENTS if graph is None and agents is None else agents, graph), **asked)


@click.command(
    epilog="\b\nExample:\n  tacit figure trajectories --graph karate --epsilon 2 --out karate.svg\n"
)
@options.asked("agents", "graph")
@_session_options
@delivered
def trajectories(*, agents: int | None, graph: str | None, **asked: Any) -> Drawing:
    """The states of one simulated session, and the exact radius per round.

    The noise is the best for epsilon and mixing, follows from the seed and protects nobody. Without
    --agents and --graph there are 20 agents.
    """
    session = _play(agents, graph, asked)

    def draw(width: Width) -> Figure:
        from tacit.lab.plots.trajectories import draw_trajectories

        return draw_trajectories(session.history, session.fan, width=width)

    facts = {"epsilon": asked["epsilon"], "seed": asked["seed"], "agents": session.mechanism.n}
    return Drawing(facts, session.table(), draw)


@click.command(
    epilog="\b\nExample:\n  tacit figure belief --agents 20 --epsilon 0.5 --agent 3 --out belief.svg\n"
)
@options.asked("agents", "graph", "keepers")
@_session_options
@click.option(
    "--agent", type=options.Whole(0), default=0, show_default=True, help="The agent whose value is guessed."
)
@click.option(
    "--adversary",
    type=click.Choice(ADVERSARIES),
    default="eavesdropper",
    show_default=True,
    help="Who guesses.",
)
@click.option(
    "--compromised",
    type=options.ListOf(options.Whole(0)),
    help="Agents that tell the adversary all they know.",
    default=(),
)
@options.asked(
    "low",
    span={
        "help": "Prior knowledge: all values in this range, like 0:10, are equally likely.  "
        "[default: that of made-up values]"
    },
)
@delivered
def belief(
    *,
    agents: int | None,
    graph: str | None,
    agent: int,
    adversary: Any,
    compromised: tuple[int, ...],
    span: tuple[float, float] | None,
    **asked: Any,
) -> Drawing:
    """What an adversary believes about one agent's value, round by round.

    It is Bayes' rule in one simulated session, with the strongest and weakest belief that the promise
    allows. Insiders are compromised agents who see only their own connections; conspirators are everybody
    except the agent and one honest keeper. The figure shows the agent's value, which is made up unless a
    file is given.
    """
    from tacit.cli.values import made_up_range
    from tacit.lab.audit.beliefs import belief as believed

    prior = made_up_range(asked["source"]) if span is None else span
    if prior is None:
        raise ParameterError("values from a file need their range: give --range, like 0:10.")
    session = _play(agents, graph, asked)
    seen = believed(
        session.history, agent, prior=(prior[0], prior[1]), adversary=adversary, compromised=compromised,
    )  # fmt: skip

    def draw(width: Width) -> Figure:
        from tacit.lab.plots.belief import draw_belief

        return draw_belief(seen, float(session.history.theta[0, agent]), width=width)

    facts = {
        "epsilon": asked["epsilon"],
        "seed": asked["seed"],
        "agents": session.mechanism.n,
        "agent": agent,
        "adversary": adversary,
        "level": seen.level,
    }
    return Drawing(facts, seen.table(), draw)


COMMANDS = (trajectories, belief)
