"""An agent's private value: from a file, standard input or the environment, never the command line.

Every process of the machine can read a command line. Errors do not repeat what was read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TypeVar

import click

from tacit.errors import InputError

F = TypeVar("F", bound=Callable[..., Any])
_MOST = 1 << 26


def value_options(command: F) -> F:
    """Add --value-file, --value-stdin and --value-env."""
    for option in (
        click.option("--value-env", metavar="NAME", help="Variable that holds the private value."),
        click.option("--value-stdin", is_flag=True, help="Read the private value from standard input."),
        click.option(
            "--value-file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="File that holds the private value, mode 600: one number, or one per component.",
        ),
    ):
        command = option(command)
    return command


def read_value(
    file: Path | None, stdin: bool, env: str | None, components: int
) -> float | list[float] | None:
    """Return the value, or None if no source was named: an agent that resumes needs none."""
    from tacit.runtime.fleet.sources import open_value_file, parse_value

    given = [source for source in (file, stdin or None, env) if source is not None]
    if len(given) > 1:
        raise InputError("the value must come from one place: --value-file, --value-stdin or --value-env.")
    if not given:
        return None
    if env is not None:
        if env not in os.environ:
            raise InputError(f"the environment has no variable {env}: set it, or use --value-file.")
        return parse_value(os.environ.pop(env), components)
    with nullcontext(sys.stdin) if file is None else open_value_file(file) as source:
        return parse_value(source.read(_MOST), components)
