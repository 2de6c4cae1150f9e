"""The verbs of `tacit figure` that simulate sessions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from tacit.cli import options
from tacit.cli.audit import BUGS
from tacit.cli.drawing import Drawing, delivered
from tacit.errors import ParameterError, StateError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tacit.cli.simulated_run import SimulatedRun
    from tacit.plots.sheets import Width

# The names of tacit.audit.ADVERSARIES, repeated because --help must not load it; a test compares the two.
ADVERSARIES = ("eavesdropper", "server", "compromised", "insiders", "conspirators")

_AGENTS = 20  # if neither --agents nor --graph is given
_GRAPHS = ("ring:12", "grid:5x5", "karate", "hypercube:5")

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

    The noise is the best for epsilon and mixing. It is a simulation: the noise follows from the
    seed and protects nobody. Without --agents and --graph there are 20 agents.
    """
    session = _play(agents, graph, asked)

    def draw(width: Width) -> Figure:
        from tacit.plots.trajectories import draw_trajectories

        return draw_trajectories(session.history, session.fan, width=width)

    facts = {"epsilon": asked["epsilon"], "seed": asked["seed"], "agents": session.mechanism.n}
    return Drawing(facts, session.table(), draw)


@click.command(epilog="\b\nExample:\n  tacit figure graph --graph grid:6x6 --after 0,2,10 --out grid.svg\n")
@click.option(
    "--graph", metavar="NAME_OR_FILE", default="karate", show_default=True, help="Who talks to whom."
)
@_session_options
@click.option(
    "--after",
    type=options.ListOf(options.Whole(0)),
    help="Rounds to draw.  [default: the first, the one with a quarter of the disagreement left, and the "
    "last]",
)
@delivered
def graph(*, graph: str, after: tuple[int, ...] | None, **asked: Any) -> Drawing:
    """A graph, coloured by the agents' states in one simulated session."""
    session = _play(None, graph, asked)
    history = session.history
    if after is not None and max(after) > session.rounds:
        raise StateError(f"--after must be at most the number of rounds, {session.rounds}, got {max(after)}.")

    def draw(width: Width) -> Figure:
        from tacit.plots.graph import draw_graph

        return draw_graph(history, after, width=width)

    numbers = {
        "round": range(session.rounds + 1),
        "lowest": history.theta.min(axis=1),
        "highest": history.theta.max(axis=1),
    }
    facts = {"epsilon": asked["epsilon"], "seed": asked["seed"], "agents": session.mechanism.n}
    return Drawing(facts, numbers, draw)


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
@click.option(
    "--range", "known", type=options.NUMBERS, metavar="LO,HI",
    help="Prior knowledge: all values in this range are equally likely.  [default: that of made-up values]",
)  # fmt: skip
@click.option(
    "--level",
    type=options.NUMBER,
    default=0.95,
    show_default=True,
    help="Probability of the credible interval, in (0, 1).",
)
@delivered
def belief(
    *,
    agents: int | None,
    graph: str | None,
    agent: int,
    adversary: Any,
    compromised: tuple[int, ...],
    known: tuple[float, ...] | None,
    level: float,
    **asked: Any,
) -> Drawing:
    """What an adversary believes about one agent's value, round by round.

    It is Bayes' rule in one simulated session, with the strongest and weakest belief that the promise
    allows. Everyone who sees all messages believes the same: an eavesdropper, the server, and an
    eavesdropper helped by compromised agents. Insiders are compromised agents who see only their own
    connections. With keepers, messages are masked, and all of these learn from the feedback alone.
    Conspirators are everybody except the agent and one honest keeper. The figure also shows the agent's
    value, which is made up unless a file is given.
    """
    from tacit.audit.beliefs import belief as believed
    from tacit.cli.values import made_up_range

    prior = made_up_range(asked["source"]) if known is None else known
    if prior is None or len(prior) != 2:
        raise ParameterError("--range must be two numbers LO,HI. It is required if values come from a file.")
    session = _play(agents, graph, asked)
    seen = believed(
        session.history, agent, prior=(prior[0], prior[1]), adversary=adversary, compromised=compromised,
        level=level,
    )  # fmt: skip

    def draw(width: Width) -> Figure:
        from tacit.plots.belief import draw_belief

        return draw_belief(seen, float(session.history.theta[0, agent]), width=width)

    facts = {
        "epsilon": asked["epsilon"],
        "seed": asked["seed"],
        "agents": session.mechanism.n,
        "agent": agent,
        "adversary": adversary,
        "level": level,
    }
    return Drawing(facts, seen.table(), draw)


@click.command(
    epilog="\b\nExample:\n  tacit figure convergence --graph ring:20 --graph star:20 --rounds 50\n"
)
@click.option(
    "--graph", "graphs", metavar="NAME_OR_FILE", multiple=True, default=_GRAPHS, show_default=True,
    help="Who talks to whom; may be repeated.",
)  # fmt: skip
@options.asked("weights")
@_epsilon
@_mixing
@click.option("--rounds", type=options.Whole(), default=30, show_default=True, help="Rounds (T).")
@click.option("--runs", type=options.Whole(), default=1000, show_default=True, help="Simulated runs.")
@_values
@options.seed_option
@delivered
def convergence(
    *,
    graphs: tuple[str, ...],
    weights: str | None,
    epsilon: float,
    mixing: options.Numbers,
    rounds: int,
    runs: int,
    source: str,
    seed: int,
) -> Drawing:
    """How fast agents agree: exact curve, exact rate and simulated runs."""
    from tacit.cli.values import read_values
    from tacit.plots.runs import converge, convergence_table
    from tacit.theory.answers import design

    curves = []
    for name in graphs:
        where = options.load_graph(name)
        sigma = options.as_array(mixing)
        mechanism = design(graph=where, weights=weights, epsilon=epsilon, mixing=sigma).mechanism
        values = read_values(source, where.n, seed)
        curves.append(converge(name, mechanism, values, rounds, runs=runs, seed=seed))

    def draw(width: Width) -> Figure:
        from tacit.plots.convergence import draw_convergence

        return draw_convergence(curves, width=width)

    return Drawing({"epsilon": epsilon, "runs": runs, "seed": seed}, convergence_table(curves), draw)


@click.command(
    epilog="\b\nExample:\n  tacit figure loss --broken low-scale --broken gaussian --out loss.svg\n"
)
@click.option("--mixing", type=options.NUMBER, default=0.8, show_default=True, help="Mixing (σ).")
@click.option("--noise", type=options.NUMBER, default=10.0, show_default=True, help="Noise of round 0 (c).")
@click.option("--decay", type=options.NUMBER, default=0.6, show_default=True, help="Decay (q).")
@click.option("--rounds", type=options.Whole(), default=9, show_default=True, help="Rounds (T).")
@click.option(
    "--distance", type=options.NUMBERS, default="2,4,6,8,10,12,14,16,18,20,22,24", show_default=True,
    help="Distance between the agent's two values.",
)  # fmt: skip
@click.option(
    "--broken", type=click.Choice(BUGS), metavar="BUG", multiple=True, default=("redraw",), show_default=True,
    help=f"A known bug to measure too; may be repeated: {', '.join(BUGS)}.",
)  # fmt: skip
@click.option(
    "--sessions", type=options.Whole(200), default=20_000, show_default=True, help="Sessions per point."
)
@options.seed_option
@delivered
def loss(
    *,
    mixing: float,
    noise: float,
    decay: float,
    rounds: int,
    distance: tuple[float, ...],
    broken: tuple[str, ...],
    sessions: int,
    seed: int,
) -> Drawing:
    """Measured and promised loss, for the true mechanism and known bugs."""
    from tacit.audit.broken_mechanisms import broken as with_bug
    from tacit.audit.subjects import Simulated
    from tacit.law import Fading
    from tacit.mechanism import ClientServer
    from tacit.plots.runs import loss_curves

    declared = ClientServer(Fading(mixing, noise, decay), agents=3)
    subjects = {"as declared": Simulated(declared), **{bug: with_bug(bug, declared) for bug in broken}}
    numbers = loss_curves(subjects, distance, rounds=rounds, sessions=sessions, seed=seed)

    def draw(width: Width) -> Figure:
        from tacit.plots.loss import draw_loss

        return draw_loss(numbers, width=width)

    facts = {
        "epsilon": numbers.epsilon,
        "rounds": rounds,
        "sessions": sessions,
        "failure_probability": numbers.failure_probability,
        "seed": seed,
    }
    return Drawing(facts, numbers.table(), draw)


COMMANDS = (trajectories, graph, belief, convergence, loss)
