"""Options that several verbs share, with the paper's letter in the help."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click
from click.core import ParameterSource

from tacit.cli.failures import JSON_ASKED
from tacit.core.theory.plan import Plan
from tacit.core.theory.plan import asked as field_of

if TYPE_CHECKING:
    from tacit.base.arrays import FloatArray
    from tacit.core.graph import Graph
    from tacit.live.ledger.budget import Hidden

F = TypeVar("F", bound=Callable[..., Any])
Numbers: TypeAlias = float | tuple[float, ...]
"""One number for all agents, or one per agent."""


def _number(text: str) -> float | None:
    """Read a finite number; None if it is not one."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


class Number(click.ParamType[float]):
    """A finite number; the library checks its range."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read the number or fail with what was given."""
        if isinstance(value, float | int):
            return float(value)
        number = _number(value)
        if number is None:
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


class Whole(click.ParamType[int]):
    """A whole number, at least `least`: 1000000, 1e6 or 1_000_000."""

    name = "integer"

    def __init__(self, least: int = 1) -> None:
        self.least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read the number or fail with what was given."""
        try:
            number = int(value)
        except ValueError:
            as_float = _number(value)
            if as_float is None or as_float != int(as_float):
                self.fail(f"{value!r} is not a whole number.", param, ctx)
            number = int(as_float)
        if not self.least <= number < 2**63:
            self.fail(f"{value} is not a whole number from {self.least} to 2^63 - 1.", param, ctx)
        return number


class PerAgent(click.ParamType[Numbers]):
    """One number, or one per agent: a comma-separated list or @FILE."""

    name = "number|list|@file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Numbers:
        """Read the number or numbers, or fail with what was given."""
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]
        if not value.startswith("@"):
            return self._parse(value.split(","), param, ctx)
        try:
            text = Path(value[1:]).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "not a text file"
            self.fail(f"{value[1:]}: {reason}.", param, ctx)
        return self._parse(text.replace(",", " ").split(), param, ctx)

    def _parse(self, parts: list[str], param: click.Parameter | None, ctx: click.Context | None) -> Numbers:
        numbers = []
        for place, part in enumerate(parts):
            number = _number(part)
            if number is None:
                where = f" (number {place + 1} of the list)" if len(parts) > 1 else ""
                self.fail(f"{part.strip()!r} is not a finite number{where}.", param, ctx)
            numbers.append(number)
        if not numbers:
            self.fail("there must be at least one number, and there is none.", param, ctx)
        return numbers[0] if len(numbers) == 1 else tuple(numbers)


class ListOf(click.ParamType[tuple[Any, ...]]):
    """A comma-separated list of one or more values of another type."""

    def __init__(self, item: Number | Whole) -> None:
        self.item = item
        self.name = f"{item.name} list"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Any, ...]:
        """Read every value of the list, or fail at the first that cannot be read."""
        if not isinstance(value, str):
            return tuple(value)
        return tuple(self.item.convert(part.strip(), param, ctx) for part in value.split(","))


class Parameter(click.ParamType[tuple[str, Any]]):
    """NAME=VALUE, for a parameter that only one law has."""

    name = "name=value"

    def __init__(self, value: click.ParamType[Any]) -> None:
        self.value = value

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, Any]:
        """Split it at the first equals sign, and read the value."""
        if not isinstance(value, str):
            return tuple(value)
        name, equals, rest = value.partition("=")
        if not (name.strip() and equals):
            self.fail(f"{value!r} is not NAME=VALUE, like rate=0.5.", param, ctx)
        return name.strip(), self.value.convert(rest, param, ctx)


class Span(click.ParamType[tuple[float, float]]):
    """Two numbers with a colon between them."""

    name = "low:high"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, float]:
        """Read both numbers."""
        low, colon, high = str(value).partition(":")
        if not colon:
            self.fail(f"{value!r} is not a range like 0:10.", param, ctx)
        return NUMBER.convert(low, param, ctx), NUMBER.convert(high, param, ctx)


NUMBER, PER_AGENT = Number(), PerAgent()
NUMBERS, WHOLES = ListOf(Number()), ListOf(Whole())
OUT_FILE = click.Path(dir_okay=False, path_type=Path)
HUB = click.Path(exists=True, file_okay=False, path_type=Path)


def compose(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Apply option decorators so that help lists them in this order."""

    def apply(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return apply


def _remember_json(ctx: click.Context, _param: click.Parameter, value: bool) -> bool:
    ctx.meta[JSON_ASKED] = value
    return value


json_option = click.option(
    "--json", "as_json", is_flag=True, is_eager=True, callback=_remember_json, help="Print JSON for programs."
)
force_option = click.option("--force", is_flag=True, help="Overwrite an existing file.")
anyway_option = click.option(
    "--anyway", is_flag=True, help="Go on even if the result would say nothing: a radius of half the range."
)
seed_option = click.option(
    "--seed", type=Whole(0), default=0, show_default=True, help="The same seed gives the same numbers."
)

_TYPES: dict[str, dict[str, Any]] = {
    "number": {"type": NUMBER},
    "positive": {"type": NUMBER},
    "at least 0": {"type": NUMBER},
    "probability": {"type": NUMBER},
    "whole": {"type": Whole()},
    "count": {"type": Whole(0), "metavar": "M"},
    "per agent": {"type": PER_AGENT},
    "graph": {"metavar": "NAME_OR_FILE"},
    "law": {"metavar": "NAME"},
    "parameters": {"type": Parameter(PER_AGENT), "multiple": True, "metavar": "NAME=VALUE"},
    "weights": {"metavar": "NAME_OR_FILE"},
    "flag": {"is_flag": True},
    "question": {"metavar": "QUESTION"},
}
"""How a field of a question is read on the command line, by its kind."""


def asked(*names: str, **changes: Mapping[str, Any]) -> Callable[[F], F]:
    """Return options for fields of `tacit.Plan`, with its help texts.

    `low` and `high` are one option, --range. `changes` are other arguments of `click.option` for the option
    of a field; that of --range is `span`.
    """
    rest = [name for name in names if name != "high"]
    return compose(*(_range_option(changes) if name == "low" else _option(name, changes) for name in rest))


def asked_by(verb: str, **changes: Mapping[str, Any]) -> Callable[[F], F]:
    """Return options for all fields that a verb takes; see `asked`."""
    return asked(*Plan.names(verb), **changes)


def _range_option(changes: Mapping[str, Mapping[str, Any]]) -> Callable[[F], F]:
    usual: dict[str, Any] = {"type": Span(), "help": "The range of values, like 0:10."}
    return click.option("--range", "span", **usual | dict(changes.get("span", {})))


def _option(name: str, changes: Mapping[str, Mapping[str, Any]]) -> Callable[[F], F]:
    known, default = field_of(name), Plan.__dataclass_fields__[name].default
    usual: dict[str, Any] = {**_TYPES[known.kind], "help": known.help}
    if default is not None and default is not False and default != ():
        usual |= {"default": default, "show_default": True}
    return click.option(spelled(name), name, **usual | dict(changes.get(name, {})))


def given(*names: str) -> list[str]:
    """Return those of these options that the command line has, as spelled."""
    ctx = click.get_current_context()
    found = [name for name in names if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    return [next(one.opts[0] for one in ctx.command.params if one.name == name) for name in found]


def motion_option(text: str) -> Callable[[F], F]:
    """Return --motion, a file of agents with dynamics of their own."""
    exists = click.Path(exists=True, dir_okay=False)
    return click.option("--motion", "motion_file", metavar="FILE", type=exists, help=text)


def refuse_beside_motion(*more: str) -> None:
    """Refuse options that the file of --motion answers."""
    names = (
        "agents",
        "graph",
        "keepers",
        "mixing",
        "noise",
        "decay",
        "law",
        "weights",
        "parameters",
        "question",
    )
    odd = given(*(name for name in (*names, *more)))
    if odd:
        raise click.UsageError(f"The file of --motion says who the agents are: leave out {odd[0]}.")


def spelled(name: str) -> str:
    """Return the option of a field; --parameter is one of `parameters`."""
    other = {"parameters": "--parameter", "span": "--range", "question": "--ask"}
    return other.get(name, f"--{name.replace('_', '-')}")


failure_option = asked("failure_probability")
range_option = asked("low", "high")
one_adjacency_option = asked(
    "adjacency",
    adjacency={
        "default": 1.0,
        "show_default": True,
        "help": "Two values of one agent that differ by at most this must be hard to tell apart (δ).",
    },
)


def read_question(given: dict[str, Any]) -> Plan:
    """Take the fields of a question out of the options of a command."""
    low, high = given.pop("span", None) or (None, None)
    return Plan(**{name: given.pop(name) for name in Plan.names() if name in given}, low=low, high=high)


def read_size(agents: int | None, graph: str | None) -> int | Graph:
    """Return the number of agents or the graph, whichever was given."""
    if (agents is None) == (graph is None):
        given = "neither" if agents is None else "both"
        raise click.UsageError(f"Give exactly one of --agents and --graph, got {given}.")
    if agents is not None:
        return agents
    return load_graph(str(graph))


def load_graph(name_or_file: str) -> Graph:
    """Load a graph by name or from a file."""
    from tacit.core.graph import Graph

    return Graph.load(name_or_file)


def as_array(value: Numbers) -> float | FloatArray:
    """Return one number, or an array of one per agent."""
    import numpy as np

    return value if isinstance(value, float) else np.array(value, dtype=np.float64)


def accepted(hides: str | None, delta: float | None) -> Hidden | None:
    """Return what an owner accepts of series; None without the options."""
    from tacit.core.series import Hides
    from tacit.live.ledger.budget import Hidden

    if (hides is None) != (delta is None):
        raise click.UsageError("Give --hides and --delta together: both say what you accept of a series.")
    return None if hides is None or delta is None else Hidden(Hides.parse(hides), delta)
