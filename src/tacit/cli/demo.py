"""`tacit demo`: a session of real processes, some of them killed."""

from __future__ import annotations

import random
import shutil
import signal
import tempfile
from contextlib import ExitStack
from pathlib import Path

import click

from tacit.base.report import counted, up

EPILOG = """\b
Examples:
  tacit demo
  tacit demo --agents 5 --keepers 2
"""
_WIDTH = 37  # of the line on which means are shown: all fits 80 columns
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.command(epilog=EPILOG)
@click.option(
    "--agents", type=click.IntRange(2, 100), default=20, show_default=True, help="Number of agents (N)."
)
@click.option(
    "--keepers",
    type=click.IntRange(0, 10),
    default=0,
    show_default=True,
    help="Keepers that add the noise; agents trust one of them. 0: every agent adds its own.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="out",
    show_default=True,
    help="Directory for the demo's session and transcript, which are overwritten.",
)
def command(*, agents: int, keepers: int, out: Path) -> None:
    """Let real agents agree on the average of made-up temperatures.

    It makes keys and a session, starts a coordinator and every agent as its own process over mutual TLS,
    kills one agent and the coordinator half-way and restarts them, compares the result with the promise
    and verifies the transcript.
    """
    from tacit.cli import demo_session as demo
    from tacit.core.theory.advice import right_at_most
    from tacit.live.verification.verdict import verify

    out.mkdir(parents=True, exist_ok=True)  # before the run: a failure here must not waste it
    made_up = random.Random(
        0
    )  # only the values have a seed: the agents draw the noise, which cannot be seeded
    values = [made_up.uniform(demo.LOW, demo.HIGH) for _ in range(agents)]
    average = sum(values) / agents
    for number in _SIGNALS:
        signal.signal(number, _end)
    with ExitStack() as stack:
        private = tempfile.TemporaryDirectory(prefix="tacit-demo-", ignore_cleanup_errors=True)
        folder = Path(stack.enter_context(private))
        stack.callback(_ignore_signals)  # nothing may be left of the folder
        session = demo.make_session(folder, agents, keepers)
        promise, helped = (
            session.promise(),
            ", a coordinator and " + counted(keepers, "keeper") if keepers else " and a coordinator",
        )
        radius, told_apart = promise.theory.radius, right_at_most(promise.loss)
        members = demo.commands(session, folder, values)
        click.secho(f"{agents} agents agree on the average of their private temperatures.", bold=True)
        click.echo(f"""\
The values are made up. The noise is real: exact, from the operating system's random
source, different in every run.

Network   {agents} agents{helped}: {len(members)} processes, mutual TLS
Promised  within {up(radius)} °C of the true average with 95% probability, after {session.rounds} rounds
Privacy   an observer of everything can tell 20 °C from 21 °C at most {told_apart} of the
          time (a loss of {up(promise.loss)}); a blind guess is right 50% of the time

Rounds (▼ is the true average)
 round     mean     used        loss  15{_mark(average, "▼")[2:]:{_WIDTH - 2}}25 °C""")
        done, loss = 0, 0.0
        for found in demo.play(session, folder, members):
            if isinstance(found, str):
                click.secho(f"{'':38}{found}", fg="yellow")
                continue
            loss += float(session.account(0).per_message[done])
            done, mean = done + 1, float(session.lattice.value(found["y"]))
            used = f"{found['count']}/{agents}"
            click.echo(f"{done:6}{mean:9.3f}{used:>9}{up(loss):>12}  {_mark(mean, '·')}")
        states, spent = demo.endings(session, folder)
        shutil.copyfile(folder / "session.toml", out / "demo.toml")
        transcript = shutil.copyfile(folder / "coordinator.jsonl", out / "demo.jsonl")
    verdict, agreed = verify(transcript, session=session), session.clamp(sum(states) / agents)
    error = abs(agreed - average)
    click.echo(f"""
Result    {agreed:.4f} °C; all agents are within {up(max(states) - min(states), 2)} °C of each other
Error     {error:.4f} °C, promised at most {up(radius)}: \
{"kept" if error <= radius else "missed, as in one run of 20"}
Loss      {up(spent)} in the fullest ledger; its owner allows {demo.LOSS:g}
Verifier  {verdict.word}: signatures, order, losses, and {verdict.means} means to the last bit
Files     {transcript} is what an adversary could see: tacit verify, tacit audit
          {out / "demo.toml"} is what all agreed on: tacit session check
""")
    if not verdict.sound:
        click.secho(f"The transcript is not sound: `tacit verify {transcript}` says why.", bold=True)
        raise click.exceptions.Exit(1)
    click.secho(
        f"""\
{agents} agents agreed on {agreed:.2f} °C; the true average is {average:.2f} °C. The difference is
noise, and it hides every agent's temperature from all others and from the server.
The {session.rounds} rounds are for show: one is enough for one number, and more accurate.""",
        bold=True,
    )


def _mark(value: float, mark: str) -> str:
    """Return a line from 15 to 25 °C with a mark on it."""
    return " " * round(min(1.0, max(0.0, (value - 15) / 10)) * (_WIDTH - 1)) + mark


def _ignore_signals() -> None:
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _end(number: int, _: object) -> None:
    """End the demo as Ctrl-C does; further signals change nothing."""
    _ignore_signals()
    raise click.exceptions.Exit(128 + number)
