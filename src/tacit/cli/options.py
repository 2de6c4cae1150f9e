"""Options that several verbs share: words, with the paper's letter in the help."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

from tacit.cli.failures import JSON_ASKED

if TYPE_CHECKING:
    from tacit.arrays import FloatArray
    from tacit.graph import Graph
    from tacit.law import Law
    from tacit.mechanism import Mechanism

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
    """A finite number; the range is for the library to judge."""

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
    """A whole number of at least `least`; 1e6 and 1_000_000 will do."""

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
    """One number, a comma-separated list with one per agent, or @FILE with such a list."""

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
            self.fail("there is no number in it.", param, ctx)
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


NUMBER, PER_AGENT = Number(), PerAgent()
NUMBERS, WHOLES = ListOf(Number()), ListOf(Whole())
OUT_FILE = click.Path(dir_okay=False, path_type=Path)


def _compose(*decorators: Callable[[F], F]) -> Callable[[F], F]:
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
seed_option = click.option(
    "--seed", type=Whole(0), default=0, show_default=True, help="The same seed gives the same numbers."
)

size_options = _compose(
    click.option("--agents", type=Whole(), metavar="N", help="Number of agents around a server (N)."),
    click.option(
        "--graph",
        metavar="NAME_OR_FILE",
        help="No server: agents on a graph like ring:100, karate, or a file. See `tacit graph --help`.",
    ),
)

mixing_option = click.option(
    "--mixing",
    type=PER_AGENT,
    help="How far an agent moves towards the feedback per round, in (0, 1) (σ; not a standard deviation).",
)

law_options = _compose(
    click.option("--law", metavar="NAME", help="Noise law: fading, one-shot or constant.  [default: fading]"),
    click.option("--one-shot", is_flag=True, help="Noise once, at the start: the same as --law one-shot."),
)

parameter_options = _compose(
    mixing_option,
    click.option("--noise", type=PER_AGENT, help="Scale of the Laplace noise of round 0 (c)."),
    click.option(
        "--decay", type=PER_AGENT, help="The noise of round t has scale c·q^t; above 1 - mixing (q)."
    ),
    law_options,
)

adjacency_option = click.option(
    "--adjacency",
    type=NUMBER,
    default=1.0,
    show_default=True,
    help="By how much one agent's value may differ between worlds that must look alike (δ).",
)

failure_option = click.option(
    "--failure-probability",
    type=NUMBER,
    default=0.05,
    show_default=True,
    help="How often the radius may be missed, in (0, 1) (b).",
)

agreement_options = _compose(
    click.option(
        "--rounds", type=Whole(), help="Run so many rounds; without it, guarantees cover an endless run (T)."
    ),
    click.option(
        "--tolerance", type=NUMBER, help="How close agents must be to agree.  [default: spread / 1000]"
    ),
    click.option(
        "--spread", type=NUMBER, help="Largest minus smallest initial value.  [default: the adjacency]"
    ),
)


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
    from tacit.graph import Graph

    return Graph.load(name_or_file)


def as_array(value: Numbers) -> float | FloatArray:
    """Return one number, or an array of one per agent."""
    import numpy as np

    return value if isinstance(value, float) else np.array(value, dtype=np.float64)


def read_law(law: str | None, one_shot: bool) -> type[Law] | None:
    """Return the noise law that was asked for by name; None if none was."""
    from tacit.law import OneShot, named

    if one_shot and law is not None:
        raise click.UsageError("Give --law or --one-shot, not both.")
    return OneShot if one_shot else None if law is None else named(law)


def read_parameters(given: Mapping[str, Any], law: str | None, one_shot: bool) -> Law:
    """Return the law with its parameters, refusing too few and too many."""
    from tacit.law import Fading

    kind = read_law(law, one_shot) or Fading
    missing = [f"--{word}" for word in kind.words() if given[word] is None]
    if missing:
        raise click.UsageError(f"Missing {' and '.join(missing)}: `tacit design` finds the best ones.")
    if given["decay"] is not None and "decay" not in kind.words():
        raise click.UsageError(f"{kind.name} noise has no decay: leave --decay out.")
    chosen = {word: given[word] for word in kind.words()}
    return kind.from_words({word: as_array(value) for word, value in chosen.items() if value is not None})


def build_mechanism(size: int | Graph, parameters: Law) -> Mechanism:
    """Return the mechanism of this size: with a server, or on the graph."""
    from tacit.mechanism import ClientServer, Distributed

    if isinstance(size, int):
        return ClientServer(parameters, agents=size)
    return Distributed(parameters, size)
