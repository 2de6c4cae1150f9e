"""`tacit demo`: a session of real processes, some of them killed."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tacit.base.errors import InputError, installing
from tacit.base.report import counted, up
from tacit.cli import options, output

if TYPE_CHECKING:
    from tacit.core.protocol.session import Session, SessionPromise

EPILOG = """\b
Examples:
  tacit demo
  tacit demo --keepers 2
  tacit demo --topology ring --agents 12
  tacit demo --no-faults --json
"""
_MOST_PROCESSES, _MOST_LINES = 100, 25
_WIDTH = 37  # of the line on which means are shown: all fits 80 columns


@click.command(epilog=EPILOG)
@click.option(
    "--agents",
    type=options.Whole(2),
    default=20,
    show_default=True,
    help="Number of agents (N), at most 100.",
)
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
@click.option(
    "--rounds", type=options.Whole(1), help="Number of rounds.  [default: until they agree, at most 150]"
)
@click.option(
    "--faults/--no-faults", default=True, help="Whether to kill an agent, a keeper and the coordinator."
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
def command(
    *, agents: int, epsilon: float, seed: int, faults: bool, out: Path, as_json: bool, **asked: Any
) -> None:
    """Let real agents agree on the average of made-up temperatures.

    It makes keys and a session, starts a coordinator and every agent as its own process over mutual TLS,
    kills one agent and the coordinator half-way and restarts them, compares the result with the promise
    and verifies the transcript.
    """
    if agents + asked["keepers"] > _MOST_PROCESSES:
        raise InputError(
            f"a demo has at most {_MOST_PROCESSES} agents and keepers, got {agents + asked['keepers']:,}: "
            "each is a process on this machine."
        )
    import numpy as np

    from tacit.cli import demo_session as demo
    from tacit.core.theory.accuracy import target
    from tacit.live.verification.verdict import verify

    tell = (lambda *_, **__: None) if as_json else click.secho
    with _private_folder() as folder:
        session = demo.make_session(folder, agents, epsilon=epsilon, **asked)
        out.mkdir(parents=True, exist_ok=True)  # before the run: a failure here must not waste it
        # The seed makes only the values. The agents draw the noise, which cannot be seeded.
        values = np.random.default_rng(seed).uniform(demo.LOW, demo.HIGH, agents)
        average, promise = float(target(session.mechanism, values)), session.promise()
        members = demo.commands(session, folder, values.tolist(), cap=epsilon)
        tell(f"{agents} agents agree on the average of their private temperatures.", bold=True)
        tell(_before(session, promise, len(members), average))

        losses, killed = np.cumsum(session.account(0).per_message), []
        for line in demo.play(session, folder, members, faults=faults):
            if isinstance(line, str):
                killed += [line.split()[0]] if "killed" in line else []
                tell(f"{'':38}{line}", fg="yellow")
            elif line.number % -(-session.rounds // _MOST_LINES) == 0:
                loss, place = up(losses[line.number - 1]), _mark(line.mean, "·")
                tell(f"{line.number:6}{line.mean:9.3f}{line.used:>9}{loss:>12}  {place}")

        files = demo.keep(session, folder, out)
        verdict = verify(files["transcript"], session=session)
        if verdict.history is not None and find_spec("matplotlib") is not None:
            files |= demo.draw(verdict.history, values, out)
        final, spent = demo.endings(session, folder)
    agreed = session.clamp(float(final.mean()))
    found = {
        **promise.theory.as_dict(),
        "average": average,
        "agreed_on": agreed,
        "error": abs(agreed - average),
        "disagreement": float(np.ptp(final)),
        "final": final.tolist(),
        "loss": spent,
        "cap": epsilon,
        "killed": sorted(killed),
        "transcript": {"sound": verdict.sound, "means": verdict.means, "rounds": verdict.rounds},
        "files": files,
    }
    if as_json:
        output.print_json(found)
    tell(_after(found, files))
    tell(_in_short(found, files), bold=True)
    if not verdict.sound:
        raise click.exceptions.Exit(1)


@contextmanager
def _private_folder() -> Iterator[Path]:
    """Yield a folder for keys, values and ledgers, which is always removed.

    SIGTERM and SIGHUP end the demo as Ctrl-C does. Further signals are ignored, so that nothing is left.
    """
    usual = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    caught: list[int] = [signal.SIGINT]

    def end(number: int, _: object) -> None:
        ignore()
        caught.append(number)
        raise KeyboardInterrupt

    def ignore() -> None:
        for number in usual:
            signal.signal(number, signal.SIG_IGN)

    for number in usual:
        signal.signal(number, end)
    try:
        with tempfile.TemporaryDirectory(prefix="tacit-demo-", ignore_cleanup_errors=True) as folder:
            try:
                yield Path(folder)
            finally:
                ignore()
    except KeyboardInterrupt:
        if caught[-1] == signal.SIGINT:
            raise
        raise click.exceptions.Exit(128 + caught[-1]) from None
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


def _before(session: Session, promise: SessionPromise, processes: int, average: float) -> str:
    from tacit.core.theory.advice import right_at_most

    others = " and a coordinator" if session.edges is None else f", {len(session.edges)} edges and no server"
    if session.keepers:
        others = f", a coordinator and {counted(len(session.keepers), 'keeper')}, of which one is trusted"
    radius, loss, kind = up(promise.theory.radius), up(promise.loss), _kind(promise.theory.target)
    return f"""\
The values are made up and follow from the seed. The noise is real: exact, from the
operating system's random source, different in every run.

Network   {session.n} agents{others}: {processes} processes, mutual TLS
Promised  within {radius} °C of the {kind} average with 95% probability, after {session.rounds} rounds
Privacy   an observer of everything can tell 20 °C from 21 °C at most {right_at_most(promise.loss)} of the
          time (a loss of {loss}); a blind guess is right 50% of the time

Rounds (▼ is the {kind} average)
 round     mean     used        loss  15{_mark(average, "▼")[2:]:{_WIDTH - 2}}25 °C"""


def _mark(value: float, mark: str) -> str:
    """Return a line from 15 to 25 °C with a mark on it."""
    return " " * round(min(1.0, max(0.0, (value - 15) / 10)) * (_WIDTH - 1)) + mark


def _kind(target: str) -> str:
    return "true" if target == "average" else "weighted"  # on some graphs agents count differently


def _after(found: dict[str, Any], files: dict[str, Path]) -> str:
    kept = "kept" if found["error"] <= found["radius"] else "missed, as in one run of 20"
    picture = f"no picture: drawing needs an extra; {installing('plots')}"
    if "png" in files:
        picture = f"{files['png']} and {files['svg'].name} show how they came together"
    return f"""
Result    {found["agreed_on"]:.4f} °C; all agents are within {up(found["disagreement"], 2)} °C of each other
Truth     {found["average"]:.4f} °C, the {_kind(found["target"])} average of the made-up values
Error     {found["error"]:.4f} °C, promised at most {up(found["radius"])}: {kept}
Loss      {up(found["loss"])} in the fullest ledger; the promise allows {found["cap"]:g}
Verifier  {"sound" if found["transcript"]["sound"] else "NOT SOUND"}: signatures, order, losses, and \
{found["transcript"]["means"]} means to the last bit
Files     {files["transcript"]} is what an adversary could see: tacit verify, tacit audit
          {files["session"]} is what all agreed on: tacit session check
          {picture}
"""


def _in_short(found: dict[str, Any], files: dict[str, Path]) -> str:
    how = "agreed on" if found["disagreement"] <= 0.05 else "did not agree yet, but are around"
    learned = "nobody learned more about any of them than the promise allows."
    if not found["transcript"]["sound"]:
        learned = f"the transcript is not sound: `tacit verify {files['transcript']}` says why."
    truth = f"the {_kind(found['target'])} average is {found['average']:.2f} °C"
    return f"{len(found['final'])} agents {how} {found['agreed_on']:.2f} °C; {truth},\nand {learned}"
