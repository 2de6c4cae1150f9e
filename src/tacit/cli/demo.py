"""`tacit demo`: one simulated session, from private values to agreement."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tacit.cli import options, output

if TYPE_CHECKING:
    from rich.table import Table

    from tacit.cli.session import Session

EPILOG = """\b
Examples:
  tacit demo
  tacit demo --agents 100 --epsilon 0.5 --seed 7
  tacit demo --json
"""

_LOW, _HIGH, _UNIT = 15.0, 25.0, "°C"
_STRIP = 41  # characters that the span of values takes
_PAUSE = 0.07  # seconds between rounds on a terminal: slow enough to follow
_MOST_ROUNDS_SHOWN = 40
_NOT_PRIVATE = (
    "This is a simulation with made-up values. Its noise follows from the seed, so it protects nobody: "
    "it is not a private deployment."
)


@click.command(epilog=EPILOG)
@click.option("--agents", type=options.Whole(2), default=20, show_default=True, help="Number of agents (N).")
@click.option("--epsilon", type=options.NUMBER, default=1.0, show_default=True, help="Privacy per °C (ε).")
@click.option("--mixing", type=options.NUMBER, default=0.5, show_default=True, help="Mixing (σ).")
@options.seed_option
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="out",
    show_default=True,
    help="Directory for demo.svg, demo.png and demo.nc, which are overwritten.",
)
@options.json_option
def command(*, agents: int, epsilon: float, mixing: float, seed: int, out: Path, as_json: bool) -> None:
    """Play one session: agents agree on the average of temperatures they keep to themselves.

    Every agent has a made-up value between 15 and 25 °C. The parameters are the best for the
    privacy asked; two values that differ by 1 °C cannot be told apart beyond it. Then the
    mechanism runs round by round.
    """
    from tacit.cli.session import play

    session = play(agents, epsilon=epsilon, mixing=mixing, source=f"uniform:{_LOW:g}:{_HIGH:g}", seed=seed)
    if not as_json:
        _introduce(session)
        _show_rounds(session)
    files = _write(session, out)
    if as_json:
        output.print_json(result(session, seed) | {"files": files})
    else:
        _conclude(session, files)


def result(session: Session, seed: int) -> dict[str, Any]:
    """Return what the session led to, beside what was promised."""
    final, target = session.execution.theta[-1], session.target
    return {
        "simulation": _NOT_PRIVATE,
        "seed": seed,
        **session.design.promise.as_dict(),
        "average": target,
        "agreed_on": float(final.mean()),
        "error": abs(float(final.mean()) - target),
        "disagreement": float(final.max() - final.min()),
        "final": final,
    }


def _introduce(session: Session) -> None:
    from rich.text import Text

    made, parameters = session.design.promise, session.design.promise.as_dict()
    mixing, noise, decay = (output.near(parameters[name]) for name in ("mixing", "noise", "decay"))
    who = f"{session.mechanism.n:,} agents agree on the average of temperatures they keep to themselves."
    asked = (
        f"\nAsked     epsilon {output.up(made.epsilon)} per {_UNIT}, mixing {mixing}\n"
        f"Designed  noise {noise}, decay {decay}\n"
        f"Promised  within {output.up(made.radius)} {_UNIT} of the true average, but for probability "
        f"{output.near(made.failure_probability)};\n"
        f"          agreement within {output.near(made.tolerance)} {_UNIT} after {made.rounds} rounds\n"
        f"Run       {session.rounds} rounds, until the noise has faded too\n"
    )
    output.emit(Text(who, style="bold"), Text(_NOT_PRIVATE, style="yellow"), Text(asked))


def _show_rounds(session: Session) -> None:
    """Show the rounds as they pass on a terminal, and all at once elsewhere."""
    from rich.live import Live

    out = output.console()
    shown = range(0, session.rounds + 1, -(-(session.rounds + 1) // _MOST_ROUNDS_SHOWN))
    if out.is_terminal:
        room = max(4, out.height - 4)
        with Live(console=out, auto_refresh=False, transient=True) as live:
            for k in range(len(shown)):
                live.update(_table(session, list(shown[: k + 1])[-room:]), refresh=True)
                time.sleep(_PAUSE)
    output.emit(_table(session, list(shown)))


def _table(session: Session, rounds: list[int]) -> Table:
    from rich.table import Table
    from rich.text import Text

    from tacit.theory import privacy

    table = Table(box=None, padding=(0, 1), header_style="bold", pad_edge=False)
    for heading in ("round", "feedback", "spread", "ε so far"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column(scale(session.target), no_wrap=True)
    execution = session.execution
    for t in rounds:
        theta = execution.theta[t]
        heard = "" if t == 0 else f"{execution.y[t - 1]:.3f}"
        spent = output.up(privacy.epsilon(session.mechanism.parameters, t))
        row = (str(t), heard, f"{theta.max() - theta.min():.3g}", spent)
        table.add_row(*row, Text(strip(theta.tolist()), style="cyan"))
    return table


def scale(target: float) -> str:
    """Return the ends of the strip, and a mark where the true average is."""
    low, high = f"{_LOW:g}", f"{_HIGH:g} {_UNIT}"
    marks = list(low + " " * (_STRIP - len(low)) + high)
    marks[_place(target)] = "▼"
    return "".join(marks) + "  (▼ true average)"


def strip(states: list[float]) -> str:
    """Draw where the agents are: · for one, : for a few, # for many in one place."""
    counts = [0] * _STRIP
    for state in states:
        counts[_place(state)] += 1
    many = max(4, len(states) // 4)
    return "".join(" " if k == 0 else "·" if k == 1 else ":" if k < many else "#" for k in counts)


def _place(value: float) -> int:
    share = (value - _LOW) / (_HIGH - _LOW)
    return min(_STRIP - 1, max(0, round(share * (_STRIP - 1))))


def _write(session: Session, out: Path) -> dict[str, Path]:
    from tacit.plots.style import save
    from tacit.plots.trajectories import draw_trajectories
    from tacit.simulate.results import save as save_results

    out.mkdir(parents=True, exist_ok=True)
    files = {kind: out / f"demo.{kind}" for kind in ("svg", "png", "nc")}
    figure = draw_trajectories(session.execution, session.fan, f"temperature ({_UNIT})")
    for kind in ("svg", "png"):
        with output.whole_file(files[kind]) as part:
            save(figure, part)
    save_results(session.dataset, files["nc"])
    return files


def _conclude(session: Session, files: dict[str, Path]) -> None:
    made = session.design.promise
    final, target = session.execution.theta[-1], session.target
    agreed = float(final.mean())
    error = abs(agreed - target)
    verdict = (
        "kept"
        if error <= made.radius
        else f"missed: it may be, with probability {made.failure_probability:g}"
    )
    apart = output.near(float(final.max() - final.min()), 3)
    sections = {
        "Result": [
            ("true average", f"{target:.4f}", f"of the made-up values, in {_UNIT}"),
            ("agreed on", f"{agreed:.4f}", f"all {len(final):,} agents within {apart} of each other"),
            ("error", f"{error:.4f}", f"promised at most {output.up(made.radius)}: {verdict}"),
        ],
        "Privacy": [
            ("epsilon", output.up(made.epsilon), f"ε per {_UNIT}, were the run endless"),
            ("loss", output.up(made.loss), f"ε × adjacency {output.near(made.adjacency)} {_UNIT}"),
        ],
        "One-shot": [
            (
                "radius",
                output.up(session.design.baseline.radius),
                "with noise once instead of in every round",
            ),
        ],
        "Files": [
            ("picture", str(files["svg"]), f"also {files['png']}"),
            ("results", str(files["nc"]), "every state, noise and message: tacit.simulate.load(…)"),
        ],
    }
    click.echo()
    output.print_report("What came of it", sections)
    output.print_table(
        ("agent", "started", "ended") * 4, _endings(session), title="Each agent, in made-up " + _UNIT
    )


def _endings(session: Session) -> list[list[str]]:
    """Return where each agent started and ended, four agents to a row, the first forty at most."""
    theta = session.execution.theta
    cells = [[f"{i}", f"{theta[0, i]:.3f}", f"{theta[-1, i]:.3f}"] for i in range(min(len(theta[0]), 40))]
    rows = -(-len(cells) // 4)
    cells += [["", "", ""]] * (4 * rows - len(cells))
    return [[cell for column in range(4) for cell in cells[column * rows + row]] for row in range(rows)]
