"""Graphs from files: edge lists and GraphML, plain or gzipped.

An edge list has one edge per line: two columns, separated by a comma or else by blanks.
``#`` starts a comment. Agents are called by numbers or names: the numbers 0 … n − 1 are the
agents themselves; other whole numbers are kept as labels in numerical order, names in
alphabetical order. The first line may be a header: usual words for the two ends of an edge
(``source,target``), or any words above numbers.

A third column, or a GraphML attribute ``weight``, is the weight of a neighbour's message, relative to 1 for
the own message. It is kept unless it is 1 everywhere. Directed GraphML stays directed.
"""

from __future__ import annotations

import csv
import gzip
import math
import os
import re
import warnings
import zlib
from array import array
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tacit.base.arguments import path_text, shown
from tacit.base.arrays import FloatArray, IntArray
from tacit.base.errors import FileError, GraphError
from tacit.core.graph.build import from_keys, pack
from tacit.core.graph.core import Graph
from tacit.core.graph.sources import from_ordered_networkx, weighted_graph

if TYPE_CHECKING:
    import scipy.sparse as sp

_NUMBER = re.compile(r"[+-]?[0-9]+")
_MOST_DIGITS = 1000
_HEADERS = {
    ("source", "target"),
    ("from", "to"),
    ("src", "dst"),
    ("node1", "node2"),
    ("agent1", "agent2"),
    ("fromnodeid", "tonodeid"),
}


def from_file(path: str | os.PathLike[str]) -> Graph:
    """Make a graph from an edge list or a GraphML file.

    A file is GraphML if its name says so.
    """
    path = path_text("a graph's file", path, FileError)
    read = _graphml if path.lower().removesuffix(".gz").endswith(".graphml") else _edge_list
    with _refusals(path, f"there is no file {path!r}."):
        return read(path)


@contextmanager
def _refusals(path: str, missing: str) -> Iterator[None]:
    """Raise what goes wrong while reading a file as one sentence."""
    try:
        yield
    except FileNotFoundError:
        raise FileError(missing) from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise FileError(
            f"{path!r} must be a gzip file, as its name says, but is broken or something else."
        ) from None
    except OSError as error:
        raise FileError(f"{path!r} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise FileError(f"{path!r} must be text in UTF-8, but is not. Is it the right file?") from None
    except (OverflowError, RecursionError):
        raise FileError(f"{path!r} has a number that is too large, or is nested too deeply.") from None


def _open(path: str) -> IO[str]:
    if path.lower().endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8-sig")
    return open(path, encoding="utf-8-sig")


# Weights ---------------------------------------------------------------------------------


def read_weight_matrix(path: str | os.PathLike[str], graph: Graph) -> sp.csr_array[np.float64]:
    """Read a matrix of weights W.

    The file has lines of AGENT HEARD WEIGHT, with the graph's names of agents. The rest of a row is the
    agent's own weight, unless the file has a line for it.
    """
    import scipy.sparse as sp

    path = os.fspath(path)
    number = {str(graph.label(i)): i for i in range(graph.n)}
    found: dict[tuple[int, int], float] = {}
    missing = f"weights must be closed, metropolis, edges or a file, and there is no file {path!r}."
    with _refusals(path, missing), _open(path) as lines:
        for line, text in _data_lines(lines):
            cells = [cell.strip() for cell in (text.split(",") if "," in text else text.split())]
            weight = _weight(cells[2]) if len(cells) == 3 else math.nan
            if not math.isfinite(weight) or cells[0] not in number or cells[1] not in number:
                raise FileError(
                    f"{path!r}, line {line}: must be AGENT HEARD WEIGHT, two agents and a number."
                )
            pair = number[cells[0]], number[cells[1]]
            if pair in found:
                raise FileError(f"{path!r}, line {line}: every weight must be given once.")
            found[pair] = weight
    sums = np.bincount([i for i, _ in found], list(found.values()), graph.n) if found else np.zeros(graph.n)
    for i in range(graph.n):
        found.setdefault((i, i), max(1 - float(sums[i]), 0.0))
    rows, columns = zip(*found, strict=True)
    return sp.csr_array((list(found.values()), (rows, columns)), shape=(graph.n, graph.n))


# Edge lists ------------------------------------------------------------------------------


def _edge_list(path: str) -> Graph:
    with _open(path) as lines:
        first = next(_data_lines(lines), None)
    if first is None:
        raise _no_edges(path)
    clean = _clean_numbers(path, "," if "," in first[1] else None)
    if clean is not None:
        return clean
    with _open(path) as lines:
        return _GraphReader(path).read(_data_lines(lines))


def _no_edges(path: str) -> FileError:
    return FileError(f"{path!r} must hold one edge per line, two agents in two columns, but holds no edges.")


def _data_lines(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield number and text of every line that is not empty or a comment."""
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if text:
            yield number, text


def _clean_numbers(path: str, delimiter: str | None) -> Graph | None:
    """Read a correct file of whole numbers fast; None for any other file."""
    try:
        with warnings.catch_warnings(), _open(path) as lines:
            warnings.simplefilter("error")
            pairs = np.loadtxt(lines, dtype=np.int64, delimiter=delimiter, ndmin=2)
    except (ValueError, OverflowError, Warning):
        return None
    if pairs.shape[1] != 2:
        return None
    numbers, ends = np.unique(pairs, return_inverse=True)
    return _distinct(ends.reshape(-1, 2), tuple(numbers.tolist()))


def _distinct(
    ends: IntArray, labels: tuple[Hashable, ...], weights: FloatArray | None = None
) -> Graph | None:
    """Make the graph, unless an edge is a self-loop or a duplicate.

    Then return None.
    """
    keys = pack(ends[:, 0], ends[:, 1])
    keys.sort()
    if (ends[:, 0] == ends[:, 1]).any() or (keys[1:] == keys[:-1]).any():
        return None
    if weights is None or (weights == 1).all():
        return replace(from_keys(keys, len(labels)), labels=_unless_numbers(labels))
    i, j = ends.T
    both = weighted_graph(np.r_[i, j], np.r_[j, i], np.r_[weights, weights], len(labels))
    return replace(both, labels=_unless_numbers(labels))


def _unless_numbers(labels: tuple[Hashable, ...]) -> tuple[Hashable, ...] | None:
    """Return the labels unless they are the agents' own numbers."""
    return None if labels == tuple(range(len(labels))) else labels


class _Row(NamedTuple):
    line: int
    cells: list[str]


class _GraphReader:
    """Reads any edge list line by line; errors name the line."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.number: dict[str, int] = {}
        self.ends = array("q")
        self.lines = array("q")
        self.weights = array("d")

    def read(self, lines: Iterator[tuple[int, str]]) -> Graph:
        first = self._row(*next(lines))
        for number, text in lines:
            self._add(self._row(number, text))
        if not self._is_header(first):
            self._add(first)
        if not self.lines:
            raise _no_edges(self.path)
        labels, rank = numbered(self.number)
        ends = rank[np.array(self.ends, dtype=np.int64)].reshape(-1, 2)
        self._refuse_loops(ends, labels)
        graph = _distinct(ends, labels, np.array(self.weights))
        if graph is None:
            raise self._duplicate(ends, labels)
        return graph

    def _row(self, line: int, text: str) -> _Row:
        if "," not in text:
            return _Row(line, text.split())
        cells = next(csv.reader([text], skipinitialspace=True)) if '"' in text else text.split(",")
        return _Row(line, [cell.strip() for cell in cells])

    def _is_header(self, first: _Row) -> bool:
        """Whether the first row is a header, judging by all other rows."""
        if len(first.cells) not in (2, 3):
            return False
        words = tuple(cell.lower() for cell in first.cells[:2])
        above_numbers = bool(self.number) and all(map(_NUMBER.fullmatch, self.number))
        return words in _HEADERS or (above_numbers and not any(map(_NUMBER.fullmatch, words)))

    def _add(self, row: _Row) -> None:
        if len(row.cells) not in (2, 3) or not all(row.cells):
            raise self._error(
                row.line,
                f"an edge must be two agents in two columns, got {len(row.cells)} columns"
                f"{'' if all(row.cells) else ', of which one is empty'}. "
                "Names with blanks need a comma between them.",
            )
        weight = _weight(row.cells[2]) if len(row.cells) == 3 else 1.0
        if not 0 < weight < math.inf:
            raise self._error(
                row.line,
                f"a third column must be an edge weight, a positive number, got {shown(row.cells[2])}. "
                "Remove the column, or put commas between names with blanks.",
            )
        self.weights.append(weight)
        for name in row.cells[:2]:
            self.ends.append(self.number.setdefault(name, len(self.number)))
        self.lines.append(row.line)

    def _refuse_loops(self, ends: IntArray, labels: tuple[Hashable, ...]) -> None:
        loop = ends[:, 0] == ends[:, 1]
        if loop.any():
            k = int(np.argmax(loop))
            raise self._error(
                self.lines[k],
                f"an edge must join two agents, but {labels[ends[k, 0]]!r} is joined with itself. "
                "Remove it: an agent counts its own message anyway.",
            )

    def _duplicate(self, ends: IntArray, labels: tuple[Hashable, ...]) -> FileError:
        lines = np.array(self.lines)
        keys = pack(ends[:, 0], ends[:, 1])
        order = np.lexsort((lines, keys))
        again = order[1:][keys[order][1:] == keys[order][:-1]]
        k = int(again[np.argmin(lines[again])])
        earlier = int(lines[keys == keys[k]].min())
        u, v = (labels[end] for end in ends[k])
        return self._error(
            int(lines[k]),
            f"every edge must be given once, but {u!r}, {v!r} is on line {earlier} already. "
            "Remove one of them; order does not matter.",
        )

    def _error(self, line: int, sentence: str) -> FileError:
        return FileError(f"{self.path!r}, line {line}: {sentence}")


def _weight(cell: str) -> float:
    """Read an edge weight.

    It is 1 for the empty attributes that networkx writes, and NaN if it is not a number.
    """
    try:
        return 1.0 if cell == "{}" else float(cell)
    except ValueError:
        return math.nan


def numbered(names: Iterable[str]) -> tuple[tuple[Hashable, ...], IntArray]:
    """Return the labels in order, and the place of every name among them."""
    given = list(names)
    if all(map(_NUMBER.fullmatch, given)):
        if (longest := max(map(len, given), default=0)) > _MOST_DIGITS:
            raise GraphError(
                f"the number of an agent must have at most {_MOST_DIGITS:,} digits, and one has {longest:,}: "
                "is this the right file?"
            )
        return _ranked([int(name) for name in given])  # 7 and 007 are one agent
    return _ranked(given)


def _ranked(given: list[Any]) -> tuple[tuple[Hashable, ...], IntArray]:
    labels = tuple(sorted(set(given)))
    place = {label: i for i, label in enumerate(labels)}
    return labels, np.array([place[name] for name in given], dtype=np.int64)


# GraphML ---------------------------------------------------------------------------------


def _graphml(path: str) -> Graph:
    from xml.etree.ElementTree import ParseError

    import networkx as nx

    try:
        graph = nx.read_graphml(path)
    except ParseError as error:
        raise FileError(
            f"{path!r}, line {error.position[0]}: must be GraphML, but is not ({error})."
        ) from None
    except (nx.NetworkXError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FileError(f"{path!r} must be GraphML that networkx can read: {error}.") from None
    labels, rank = numbered(graph)
    if len(labels) < len(graph):  # ids 7 and 007 are two nodes in GraphML
        labels, rank = _ranked(list(graph))
    nodes = [node for _, node in sorted(zip(rank.tolist(), graph, strict=True))]
    try:
        return from_ordered_networkx(graph, nodes, _unless_numbers(labels))
    except GraphError as error:
        raise FileError(f"{path!r}: {error}") from None
