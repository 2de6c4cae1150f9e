"""Graphs by name, like ``ring:100`` or ``regular:1000:8:seed=1``.

`FAMILIES` is the list as data; the parser and the command line's help both use it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final, NamedTuple

from tacit.base.arguments import shown
from tacit.base.errors import GraphError
from tacit.core.graph.core import Graph
from tacit.core.graph.lattices import complete, grid, hypercube, karate, path, ring, star, torus
from tacit.core.graph.random_graphs import (
    barabasi_graph,
    erdos_graph,
    geometric_graph,
    regular_graph,
    smallworld_graph,
)

_SEED = "[:seed=S]"


class Family(NamedTuple):
    """One family of graphs: builder, form of its names, and an example.

    In a form, words in capitals are whole numbers, PROBABILITY and RADIUS decimal numbers.
    """

    build: Callable[..., Graph]
    form: str
    example: str
    summary: str


FAMILIES: Final[dict[str, Family]] = {
    "ring": Family(ring, "ring:AGENTS", "ring:100", "a circle of agents"),
    "path": Family(path, "path:AGENTS", "path:100", "agents in a row"),
    "star": Family(star, "star:AGENTS", "star:50", "agent 0 joined to all others"),
    "complete": Family(complete, "complete:AGENTS", "complete:20", "everyone joined to everyone"),
    "grid": Family(grid, "grid:ROWSxCOLUMNS", "grid:30x30", "a rectangle, up to four neighbours"),
    "torus": Family(torus, "torus:ROWSxCOLUMNS", "torus:30x30", "a grid whose opposite sides meet"),
    "hypercube": Family(
        hypercube, "hypercube:DIMENSION", "hypercube:10", "2^DIMENSION agents, joined if one bit differs"
    ),
    "regular": Family(
        regular_graph,
        f"regular:AGENTS:DEGREE{_SEED}",
        "regular:1000:8:seed=1",
        "random, everyone with DEGREE neighbours",
    ),
    "erdos": Family(
        erdos_graph,
        f"erdos:AGENTS:PROBABILITY{_SEED}",
        "erdos:1000:0.01:seed=1",
        "every pair joined with PROBABILITY",
    ),
    "barabasi": Family(
        barabasi_graph,
        f"barabasi:AGENTS:EDGES{_SEED}",
        "barabasi:1000:3:seed=1",
        "each arriving agent joins EDGES others, the well-connected more often",
    ),
    "smallworld": Family(
        smallworld_graph,
        f"smallworld:AGENTS:NEIGHBOURS:PROBABILITY{_SEED}",
        "smallworld:1000:6:0.1:seed=1",
        "a ring of the NEIGHBOURS nearest, edges led far away with PROBABILITY",
    ),
    "geometric": Family(
        geometric_graph,
        f"geometric:AGENTS:RADIUS{_SEED}",
        "geometric:1000:0.1:seed=1",
        "random places in the unit square, joined within RADIUS",
    ),
    "karate": Family(karate, "karate", "karate", "Zachary's karate club, 34 agents"),
}


def from_name(name: str) -> Graph:
    """Make a graph of a named family (see `FAMILIES`).

    The same name, seed included, is the same graph; the seed is 0 unless given.
    """
    if not isinstance(name, str):
        given: object = name
        raise GraphError(f"the name of a graph must be text, like 'ring:100', got {shown(given)}.")
    kind, *fields = name.strip().split(":")
    family = FAMILIES.get(kind.lower())
    if family is None:
        raise _unknown(name)
    try:
        return family.build(*_arguments(fields, family.form))
    except GraphError as error:
        form = "" if family.form == family.example else f" ({family.form})"
        raise GraphError(f"{name!r} is not a graph: {error}. Write it like {family.example}{form}.") from None


def _arguments(fields: list[str], form: str) -> list[int | float]:
    """Read the fields of a name by the family's form."""
    wanted = form.removesuffix(_SEED).split(":")[1:]
    given = list(fields)
    seed: list[int | float] = []
    if form.endswith(_SEED) and given and given[-1].startswith("seed="):
        seed = [_whole(given.pop().removeprefix("seed="), "seed")]
    if len(given) != len(wanted):
        parts = "no parts" if not wanted else f"{len(wanted)} part{'s' * (len(wanted) > 1)}"
        raise GraphError(f"there must be {parts} after the family's name, got {':'.join(given) or 'none'}")
    values: list[int | float] = []
    for text, what in zip(given, wanted, strict=True):
        if "x" in what:
            values += _sides(text, what)
        elif what in ("PROBABILITY", "RADIUS"):
            values.append(_decimal(text, what))
        else:
            values.append(_whole(text, what))
    return values + seed


def _whole(text: str, what: str) -> int:
    digits = text.strip().replace("_", "")
    if not (digits.isascii() and digits.isdigit()):
        raise GraphError(f"{what} must be a whole number, got {text!r}")
    return int(digits)


def _decimal(text: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise GraphError(f"{what} must be a number, got {text!r}") from None


def _sides(text: str, what: str) -> list[int]:
    sides = text.lower().split("x")
    if len(sides) != 2:
        raise GraphError(f"{what} must be two whole numbers with an x between them, got {text!r}")
    return [_whole(side, what) for side in sides]


def _unknown(name: str) -> GraphError:
    known = ", ".join(FAMILIES)
    file = ""
    if os.sep in name or "." in name:
        exists = os.path.isfile(name)
        file = " (to read the file, use Graph.from_file)" if exists else ", and there is no such file either"
    return GraphError(
        f"{name!r} does not begin with a graph family{file}. Families are {known}; "
        "write one like ring:100 or regular:1000:8:seed=1."
    )
