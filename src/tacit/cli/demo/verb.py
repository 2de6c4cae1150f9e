"""`tacit demo`: real agents over TLS, killed half-way and resumed."""

from __future__ import annotations

import shutil
import signal
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tacit.cli import options, output
from tacit.cli.demo.tables import UNIT, rounds_table
from tacit.report import each, near, text, up

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tacit.cli.demo.scenario import Happening, Scenario

EPILOG = """\b
Examples:
  tacit demo
  tacit demo --keepers 2
  tacit demo --topology ring --agents 50
  tacit demo --no-faults --json
"""

_MOST_LINES = 40
_NOISE_IS_REAL = (
    "The values are made up and follow from the seed. The noise is real: exact, from the operating "
    "system's random source, different in every run."
)


@click.command(epilog=EPILOG)
@click.option("--agents", type=options.Whole(2), default=20, show_default=True, help="Number of agents (N).")
@click.option(
    "--topology", default="server", show_default=True, help="server, or a graph such as ring or star."
)
@click.option(
    "--keepers",
    type=options.Whole(0),
    default=0,
    show_default=True,
    help="Keepers that add the noise; agents trust one of them. 0: every agent adds its own.",
)
@click.option("--epsilon", type=options.NUMBER, default=1.0, show_default=True, help="Privacy per °C (ε).")
@click.option("--mixing", type=options.NUMBER, default=0.5, show_default=True, help="Mixing (σ).")
@click.option(
    "--rounds", type=options.Whole(1), help="Number of rounds.  [default: until they agree, at most 150]"
)
@click.option(
    "--faults/--no-faults", default=True, help="Whether to kill an agent, a keeper and the coordinator."
)
@click.option(
    "--pace", type=options.NUMBER, help="Minimum seconds per round.  [default: slow enough to follow]"
)
@click.option(
    "--processes",
    type=options.Whole(1),
    help="Number of processes that agents share.  [default: one per agent, or 4 for more than 100 around a "
    "server]",
)
@options.seed_option
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="out",
    show_default=True,
    help="Directory for the demo's session, transcript and picture, which are overwritten.",
)
@options.json_option
def command(*, agents: int, out: Path, as_json: bool, **asked: Any) -> None:
    """Let real agents agree on the average of made-up temperatures.

    The demo makes keys and a session, and starts a coordinator and every agent as its own process,
    connected by mutual TLS on this machine. Half-way it kills one agent and the coordinator (kill -9) and
    restarts them. Then it compares the result with the promise and verifies the transcript.
    """
    from tacit.cli.demo.scenario import Scenario

    folder = Path(tempfile.mkdtemp(prefix="tacit-demo-"))
    _end_in_order()
    try:
        scenario = Scenario.prepare(folder, agents, **asked)
        out.mkdir(parents=True, exist_ok=True)  # before the run: a failure here must not waste it
        if not as_json:
            _introduce(scenario)
        _watch(scenario, quiet=as_json)
        found = scenario.result(scenario.keep(out))
        if as_json:
            output.print_json(found.as_dict())
        else:
            click.echo()
            output.print_summary(found.summary())
            output.emit(text(found.endings(), spaced=False))
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # keys, values and ledgers are private


def _end_in_order() -> None:
    """Let SIGTERM and SIGHUP end the demo as Ctrl-C does.

    All processes are stopped, and the folder with private files is removed.
    """

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, end)


def _introduce(scenario: Scenario) -> None:
    from rich.text import Text

    session, made = scenario.session, scenario.promise
    law = made.as_dict()
    mixing, noise, decay = (each(law[name]) for name in ("mixing", "noise", "decay"))
    where = "a coordinator" if session.edges is None else f"{len(session.edges):,} edges, no server"
    if session.keepers:
        where = f"a coordinator and {len(session.keepers)} keepers (agents trust one of them)"
    told = (
        f"\nNetwork   {session.n:,} agents and {where}, {len(scenario.processes.units):,} processes, mutual "
        f"TLS on loopback\nAsked     epsilon {up(made.epsilon)} per {UNIT}, mixing {mixing}\n"
        f"Designed  noise {noise}, decay {decay}, {session.rounds} rounds\n"
        f"Promised  within {up(made.radius)} {UNIT} of the true average with "
        f"{near(100 * (1 - made.failure_probability))}% probability\n"
        f"Costs     each agent a loss of at most {up(scenario.loss)} for values that differ by "
        f"{near(session.adjacency)} {UNIT}; its cap is {near(scenario.processes.cap)}\n"
    )
    if scenario.needed > session.rounds:
        told += f"Note      agreement takes {scenario.needed:,} rounds; the demo stops before\n"
    who = f"{session.n:,} agents agree on the average of their private temperatures."
    output.emit(Text(who, style="bold"), Text(_NOISE_IS_REAL, style="yellow"), Text(told))


def _watch(scenario: Scenario, *, quiet: bool) -> None:
    """Run it; show rounds live on a terminal, elsewhere at the end."""
    from rich.live import Live

    lines: list[Happening] = []
    out = output.console()
    if quiet or not out.is_terminal:
        lines = list(scenario.play())
    else:
        with Live(console=out, auto_refresh=False, transient=True) as live:
            for line in scenario.play():
                lines.append(line)
                live.update(_table(scenario, lines[-max(4, out.height - 4) :]), refresh=True)
    if not quiet:
        output.emit(_table(scenario, _thinned(lines)))


def _thinned(lines: list[Happening]) -> list[Happening]:
    step = -(-len(lines) // _MOST_LINES)
    return [line for k, line in enumerate(lines) if line.event or k % step == 0]


def _table(scenario: Scenario, lines: list[Happening]) -> RenderableType:
    """Return the rounds for a terminal, with events in yellow."""
    events = [k for k, line in enumerate(lines) if line.event]
    return text(rounds_table(lines, scenario.average), spaced=False, wrap=False, marked=events)
