"""Options of `session new` and `hub run` that choose fields of a session.

They follow from `tacit.core.protocol.schema`: a field that names an option there has it here.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import click

from tacit.cli import options
from tacit.core.protocol.fields import kind_of
from tacit.core.protocol.schema import chosen, settings

_TYPES: dict[type[Any] | None, click.ParamType[Any]] = {
    float: options.NUMBER,
    int: options.Whole(),
    str: click.STRING,
    bool: click.BOOL,
}


def session_options(verb: str, **otherwise: str) -> Callable[[options.F], options.F]:
    """Return the options of a verb; `otherwise` says in words what is usual.

    These options are None unless they are given.
    """
    made = []
    for setting in settings(verb):
        told = dict(setting.meta.extra or {})
        if setting.name in otherwise:
            told["otherwise"] = otherwise[setting.name]
        default = setting.default if setting.name not in otherwise else None
        words = str(setting.meta.description)
        if default is None and "otherwise" in told:
            words = f"{words}  [default: {told['otherwise']}]"
        shown = {} if default is None else {"default": default, "show_default": True}
        kind = _TYPES[kind_of(setting.field)]
        made.append(click.option(options.spelled(setting.name), setting.name, type=kind, help=words, **shown))
    return options.compose(*made)


open_option = click.option(
    "--open",
    "open_for",
    metavar="TIME",
    help="Stay open for 10m, 24h or 3d: agents come within it, send one message, leave, and fetch the result "
    "later. Needs --quorum.",
)


def open_seconds(text: str, quorum: int | None) -> float:
    """Read how long a session stays open; it must say how many are enough."""
    from tacit.live.fleet.policy import seconds

    found = seconds(text, "--open")
    if not found >= 1.0:
        raise click.UsageError(f"--open must be at least 1s, got {text}.")
    if quorum is None:
        raise click.UsageError("--open goes with --quorum: say how many messages are enough for a result.")
    return found


def closing_time(text: str, quorum: int | None) -> int:
    """Return when a session closes that is made now."""
    return math.ceil(time.time() + open_seconds(text, quorum))


def take_settings(verb: str, given: dict[str, Any]) -> dict[str, Any]:
    """Take what options chose out of the options of a command."""
    return {setting.name: given.pop(setting.name) for setting in settings(verb)}


def take_fields(verb: str, given: dict[str, Any]) -> dict[str, Any]:
    """Take the attributes of a session out of the options of a command."""
    return chosen(take_settings(verb, given))
