"""An agent's private value: from a file, standard input or the environment, never the command line.

Every process of the machine can read a command line. Errors do not repeat what was read.
"""

from __future__ import annotations

import math
import os
import re
import stat
import sys
from collections.abc import Callable
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
    given = [source for source in (file, stdin or None, env) if source is not None]
    if len(given) > 1:
        raise InputError("the value must come from one place: --value-file, --value-stdin or --value-env.")
    if not given:
        return None
    if env is not None:
        if env not in os.environ:
            raise InputError(f"the environment has no variable {env}: set it, or use --value-file.")
        text = os.environ.pop(env)
    else:
        text = sys.stdin.read(_MOST) if file is None else _text(file)
    return _numbers(text, components)


def _text(file: Path) -> str:
    from tacit.files import require_private

    with file.open("rb") as source:
        status = os.fstat(source.fileno())
        if stat.S_ISREG(status.st_mode):  # a pipe has no mode to check, and cannot be read twice
            require_private(file, status)
        return source.read(_MOST).decode(
            "utf-8-sig", errors="replace"
        )  # anything that is not a number is refused below


def _numbers(text: str, components: int) -> float | list[float]:
    words = [word for word in re.split(r"[\s,;\[\]]+", text) if word]
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        numbers = []
    if len(numbers) != components or not all(map(math.isfinite, numbers)):
        many = f"{components} finite numbers, separated by blanks or commas"
        what = "one finite number" if components == 1 else many
        raise InputError(f"the value must be {what}; the input is not.")
    return numbers[0] if components == 1 else numbers
