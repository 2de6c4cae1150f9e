"""`tacit verify-dynamics`: the loss of a file of agents, exactly."""

from __future__ import annotations

from pathlib import Path

import click

from tacit.cli import options, output

EPILOG = """\b
Examples:
  tacit verify-dynamics truck.toml --loss 1
  tacit verify-dynamics engine.toml --json
"""


@click.command(epilog=EPILOG)
@click.argument("file", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--loss", type=click.FloatRange(min=0, min_open=True), help="The loss that must not be exceeded."
)
@options.json_option
@click.pass_context
def command(ctx: click.Context, /, *, file: Path, loss: float | None, as_json: bool) -> None:
    """Compute the loss of agents with their own dynamics again, from a file.

    All numbers of the file are taken as fractions: the loss of every change of the private components is
    exact, and rounded up once. Certificates of contraction, of a measured plant and of the tail of an endless
    run are checked by LDLᵀ in fractions. What cannot be checked is named. Exit codes: 0 proved, 1 the loss is
    above --loss, 2 the file cannot be used or breaks the guarantee.
    """
    from tacit.core.theory.dynamics_verdict import verify_dynamics
    from tacit.core.theory.motion_file import parse_motion_file

    verdict = verify_dynamics(parse_motion_file(file.read_text(encoding="utf-8")), loss)
    output.print_result(verdict, as_json)
    ctx.exit(0 if verdict.held else 1)
