"""References made from the code: commands, and fields of sessions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import click
from msgspec import NODEFAULT, Meta, Struct
from msgspec.structs import FieldInfo

from tacit.cli import main
from tacit.protocol.fields import Digest, Endpoint, MemberKey, Time, default_of, described_in, kind_of
from tacit.protocol.schema import GraphSession, SeriesSession, ServerSession
from tacit.theory.series import Hides

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


# ---- the fields of a session ------------------------------------------------------------------------

_FIELDS = re.compile(r"(<!-- session fields -->\n).*?(<!-- end -->)", re.DOTALL)
_TYPES = {
    Endpoint: "address",
    Digest: "hash, 43 characters",
    Hides: "text",
    MemberKey: "key, 43 characters",
    Time: "date and time with its zone",
    bool: "true or false",
    dict: "table",
    float: "number",
    int: "whole number",
    str: "text",
}
_SORTS: dict[type[Struct], str] = {ServerSession: "server", GraphSession: "graph", SeriesSession: "series"}


def renewed_fields(page: str) -> str:
    """Return a page with the table of a session's fields made anew."""
    return _FIELDS.sub(lambda found: f"{found[1]}{session_fields()}{found[2]}", page)


def session_fields() -> str:
    """Return the fields of a session file as a table, from the schema."""
    found: dict[str, tuple[FieldInfo, Meta]] = {}
    where: dict[str, list[str]] = {}
    for kind, sort in _SORTS.items():
        for place, field, meta in described_in(kind):
            found.setdefault(place, (field, meta))
            where.setdefault(place, []).append(sort)
    rows = [
        ("field", "in", "type", "default", "meaning"),
        ("---",) * 5,
        *(
            (f"`{place}`", _where(where[place]), _type(field), _default(field, meta), meta.description)
            for place, (field, meta) in found.items()
            if not place.startswith("series.hides.")  # one text in a file
        ),
    ]
    return "".join(f"| {' | '.join(map(str, row))} |\n" for row in rows)


def _where(sorts: list[str]) -> str:
    return "all" if len(sorts) == len(_SORTS) else ", ".join(sorts)


def _type(field: FieldInfo) -> str:
    kind = kind_of(field)
    if kind is None:
        return "text or list"
    return _TYPES.get(kind, "table" if issubclass(kind, Struct) else "list")


def _default(field: FieldInfo, meta: Meta) -> str:
    default = default_of(field)
    if default is NODEFAULT:
        return "must be given"
    if default in (None, ()) or isinstance(default, Struct):
        return str((meta.extra or {}).get("otherwise", ""))
    return default if isinstance(default, str) else f"{default:g}"
