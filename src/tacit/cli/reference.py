"""References made from the code: commands, and fields of sessions."""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import click
from msgspec import NODEFAULT, Meta, Struct
from msgspec.structs import FieldInfo

from tacit.cli import main
from tacit.core.protocol.fields import Digest, Endpoint, MemberKey, Time, default_of, described_in, kind_of
from tacit.core.protocol.schema import GraphSession, SeriesSession, ServerSession
from tacit.core.series import Hides

_WIDTH = 100
_ENOUGH = 2
"""An option that so many commands have, with the same words, is told once."""
_HELP = ("-h, --help", "Show the help of a command and exit; every command has it.")
_PREFACE = """What several commands share is told once here; a command that lists such an option again has
another default.

## Options of several commands

```text
"""


def markdown() -> str:
    """Return the help of all commands as Markdown; shared options once."""
    found = list(_walk(main, click.Context(main, info_name="tacit", **_settings(main))))
    shared = _shared(found)
    formatter = click.HelpFormatter(width=_WIDTH)
    formatter.write_dl(list(shared.values()))
    parts = [_PREFACE + _stripped(formatter.getvalue()) + "```\n"]
    for command, ctx in found:
        own = copy.copy(command)
        own.add_help_option = False
        own.params = [
            _with_default_alone(option, ctx, shared)
            for option in command.params
            if not _is_shared(option, ctx, shared)
        ]
        also = [_told(option, ctx)[0] for option in command.params if _is_shared(option, ctx, shared)]
        own.epilog = _first_example(command.epilog or "")
        if isinstance(own, click.Group):  # each of its commands has a section, with an example
            own = click.Group(own.name, help=own.help, params=own.params, add_help_option=False)
        own.help = (own.help or "").partition("Exit codes:")[0].rstrip()
        usage = _stripped(own.get_help(ctx)).removeprefix("Usage: ")
        text = f"## {ctx.command_path}\n\n```text\n{usage}```\n"
        names = ", ".join(f"`{name.split()[0].rstrip(',')}`" for name in also)
        parts.append(text + (f"\n[Also](#options-of-several-commands): {names}.\n" if also else ""))
    return "\n".join(parts)


def _first_example(epilog: str) -> str:
    """Leave out other examples, and exit codes, which have a page."""
    kept, seen = [], 0
    for line in epilog.partition("Exit codes:")[0].rstrip("\b\n ").splitlines():
        seen += line.startswith("  tacit ")
        if seen <= 1:
            kept.append(line.replace("Examples", "Example"))
    return "\n".join(kept)


def _with_default_alone(
    option: click.Parameter, ctx: click.Context, shared: dict[str, tuple[str, str]]
) -> click.Parameter:
    """Leave out the words of a shared option whose default differs."""
    name, text = _told(option, ctx)
    usual = shared.get(str(option.name), ("", ""))
    if (
        not isinstance(option, click.Option)
        or not text
        or (name, _words(text)) != (usual[0], _words(usual[1]))
    ):
        return option
    short = copy.copy(option)
    short.help = (option.help or "").removeprefix(_words(option.help or "")).strip()
    return short


def _words(text: str) -> str:
    """Return what an option's help says, without the default."""
    return re.sub(r"\s+\[(?:default|required)[^\[\]]*\]$", "", text)


def _shared(found: list[tuple[click.Command, click.Context]]) -> dict[str, tuple[str, str]]:
    """Return, for names that several commands have, what most say."""
    told: dict[str, Counter[tuple[str, str]]] = {}
    for command, ctx in found:
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                told.setdefault(str(option.name), Counter())[_told(option, ctx)] += 1
    most = {name: said.most_common(1)[0] for name, said in told.items()}
    enough = {name: text for name, (text, count) in most.items() if count >= _ENOUGH}
    return {"help": _HELP} | dict(sorted(enough.items(), key=lambda item: item[1]))


def _told(option: click.Parameter, ctx: click.Context) -> tuple[str, str]:
    return option.get_help_record(ctx) or ("", "")


def _is_shared(option: click.Parameter, ctx: click.Context, shared: dict[str, tuple[str, str]]) -> bool:
    return shared.get(str(option.name)) == _told(option, ctx)


def _stripped(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


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
    Digest: "32 bytes",
    Hides: "map",
    MemberKey: "32 bytes",
    Time: "integer",
    bool: "true or false",
    dict: "map",
    float: "real",
    int: "integer",
    str: "string",
}
_SORTS: dict[type[Struct], str] = {ServerSession: "server", GraphSession: "graph", SeriesSession: "series"}


def renewed_fields(page: str) -> str:
    """Return a page with the table of a session's fields made anew."""
    return _FIELDS.sub(lambda found: f"{found[1]}{session_fields()}{found[2]}", page)


def session_fields() -> str:
    """Return the fields of a session as a table, from the schema."""
    found: dict[str, tuple[FieldInfo, Meta]] = {}
    where: dict[str, list[str]] = {}
    for kind, sort in _SORTS.items():
        for place, field, meta in described_in(kind):
            found.setdefault(place, (field, meta))
            where.setdefault(place, []).append(sort)
    rows = [
        ("field", "in", "type", "default", "meaning and condition"),
        ("---",) * 5,
        *(
            (f"`{place}`", _where(where[place]), _type(field), _default(field, meta), _meaning(meta))
            for place, (field, meta) in found.items()
            if not place.startswith(("series.hides.", "keepers."))
            and not _is_table(field)
            and kind_of(field) is not Endpoint  # not part of the session
        ),
    ]
    return "".join(f"| {' | '.join(map(str, row))} |\n" for row in rows)


def _is_table(field: FieldInfo) -> bool:
    """Whether a field has rows of its own for what is in it."""
    kind = kind_of(field)
    return kind is not None and issubclass(kind, Struct) and kind is not Hides


def _meaning(meta: Meta) -> str:
    rule = (meta.extra or {}).get("rule", "")
    return f"{meta.description} {rule[:1].upper()}{rule[1:]}{'.' if rule else ''}".strip()


def _where(sorts: list[str]) -> str:
    return "all" if len(sorts) == len(_SORTS) else ", ".join(sorts)


def _type(field: FieldInfo) -> str:
    kind = kind_of(field)
    if kind is None:
        return "string or array"
    return _TYPES.get(kind, "map" if issubclass(kind, Struct) else "array")


def _default(field: FieldInfo, meta: Meta) -> str:
    default = default_of(field)
    if default is NODEFAULT:
        return ""
    if default in (None, ()) or isinstance(default, Struct):
        return str((meta.extra or {}).get("otherwise", ""))
    return default if isinstance(default, str) else f"{default:g}"
