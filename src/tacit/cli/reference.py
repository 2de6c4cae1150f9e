"""The command reference, made from what --help says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from tacit.cli import main

_WIDTH = 100
_PREFACE = """# Command line

For anyone at a terminal: every command with its options and an example.

Made from `--help` by `python docs/make.py`; do not edit.
"""


def markdown() -> str:
    """Return the help of every command as one Markdown page."""
    parts = [_PREFACE]
    for command, ctx in _walk(main, click.Context(main, info_name="tacit", **_settings(main))):
        text = "\n".join(line.rstrip() for line in command.get_help(ctx).splitlines())
        parts.append(f"## {ctx.command_path}\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


def _walk(command: click.Command, ctx: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    yield command, ctx
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            child = command.get_command(ctx, name)
            if child is not None:
                yield from _walk(child, click.Context(child, info_name=name, parent=ctx, **_settings(child)))


def _settings(command: click.Command) -> dict[str, Any]:
    # help must not depend on the terminal it is made in
    return {**command.context_settings, "terminal_width": _WIDTH, "max_content_width": _WIDTH}
