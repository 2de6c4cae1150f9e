"""Groups whose commands are modules, loaded when they are called.

Help must answer at once, so the commands' lines of help are data, and no module is imported to print them.
"""

from __future__ import annotations

import importlib
from typing import Any

import click


class LateGroup(click.Group):
    """A group some of whose commands are modules of this package.

    `late` has their lines of help by name; the module of each is `modules` with the name appended.
    """

    def __init__(self, *words: Any, late: dict[str, str], modules: str = "", **settings: Any) -> None:
        super().__init__(*words, **settings)
        self.late, self.modules = late, modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the late commands in their order, then the others."""
        return [*self.late, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; load its module if it is late."""
        if cmd_name not in self.late:
            return super().get_command(ctx, cmd_name)
        module = f"tacit.cli.{self.modules}{cmd_name.replace('-', '_')}"
        command: click.Command = importlib.import_module(module).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without loading any of them."""
        names = self.list_commands(ctx)
        room = formatter.width - 6 - max(map(len, names))
        told = {name: one.get_short_help_str(room) for name, one in self.commands.items()} | self.late
        with formatter.section("Commands"):
            formatter.write_dl([(name, told[name]) for name in names])
