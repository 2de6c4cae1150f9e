"""Read transcripts strictly: what cannot be understood is refused, with its file and line.

The format is described in `tacit.audit.files`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from tacit.arrays import IntArray
from tacit.audit.transcript import Transcripts, Wholes
from tacit.errors import FileError, TacitError
from tacit.graph import Graph
from tacit.law import named
from tacit.mechanism import ClientServer, Distributed, Mechanism
from tacit.mechanism.lattice import Lattice

VERSION = 1
_MOST_ROUNDS = 10**6
_DECLARES = ("topology", "agents", "edges", "kind", "mixing", "noise", "decay", "lattice")
_MISSING = (KeyError, TypeError, ValueError, OverflowError)

Line = dict[str, Any]


def read_lines(path: Path) -> tuple[Line, list[Line]]:
    """Return the header and the other lines of a file, each one JSON object.

    What a crash left of a last line is left out: it has no end, and a part of an object is none.
    """

    def refuse(word: str) -> NoReturn:
        raise ValueError(word)

    lines: list[Line] = []
    try:
        with path.open("rb") as file:
            for text in file:
                try:
                    line = json.loads(text, parse_constant=refuse)
                except ValueError:
                    if lines and not text.endswith(b"\n"):
                        break
                    raise
                lines.append(dict(line.items()))
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}.") from None
    except (ValueError, AttributeError, RecursionError):
        raise FileError(f"{path}, line {len(lines) + 1}: every line must be one JSON object.") from None
    if not lines or lines[0].get("tacit_transcript") != VERSION:
        raise FileError(
            f'{path}: the first line of a transcript must have "tacit_transcript": {VERSION}; this has not.'
        )
    return lines[0], lines[1:]


@dataclass(frozen=True)
class Declared:
    """What the first line of a transcript declares."""

    path: Path
    header: Line

    def same(self, header: Line) -> bool:
        """Whether another first line declares the same; sessions may have names and keys of their own."""
        return all(self.header.get(word) == header.get(word) for word in _DECLARES)

    @cached_property
    def mechanism(self) -> Mechanism:
        """The mechanism and its parameters."""
        try:
            law = named(self.header["kind"]).from_words(self.header)
            if self.header["topology"] == "server":
                return ClientServer(law, agents=self.header["agents"])
            if self.header["topology"] == "graph":
                graph = Graph.from_edges(self.header["edges"], n=self.header["agents"])
                return Distributed(law, graph)
        except _MISSING as error:
            self._refuse(error)
        raise FileError(f'{self.path}, line 1: topology must be "server" or "graph".')

    @cached_property
    def lattice(self) -> Lattice | None:
        """The lattice, if whole numbers were sent."""
        if self.header.get("lattice") is None:
            return None
        try:
            return Lattice(**self.header["lattice"])
        except _MISSING as error:
            self._refuse(error)

    def _refuse(self, error: Exception) -> NoReturn:
        reason = f" {error}" if isinstance(error, TacitError) else ""
        raise FileError(
            f"{self.path}, line 1: topology, agents, kind, mixing, noise, decay and lattice must declare a "
            f"mechanism.{reason}"
        ) from None


def session(path: Path, declared: Declared, lines: list[Line]) -> Transcripts:
    """Put the lines of one session in their places."""
    table = _ParsedTable(declared)
    for number, line in enumerate(lines, 2):
        try:
            table.add(line)
        except _MISSING:
            raise FileError(
                f"{path}, line {number}: must be a message (round, agent, update, x), feedback (round, y) or "
                "what was not heard (round, agent, heard), in numbers that fit the first line."
            ) from None
    try:
        return table.transcripts()
    except FileError as error:
        raise FileError(f"{path}: {error}") from None
    except _MISSING as error:
        reason = f" {error}" if isinstance(error, TacitError) else ""
        raise FileError(f"{path}: its lines do not make a session.{reason}") from None


class _ParsedTable:
    """Collects the lines of one session."""

    def __init__(self, declared: Declared) -> None:
        self.declared, self.lattice = declared, declared.lattice
        self.n = declared.mechanism.n
        self.on_graph = isinstance(declared.mechanism, Distributed)
        self.messages: dict[tuple[int, int], list[Line]] = {}
        self.feedback: dict[tuple[int, int], Any] = {}
        self.heard: dict[tuple[int, int], bool] = {}
        self.tail: tuple[int, ...] | None = None
        self.steps = True  # whether every message names its step

    def add(self, line: Line) -> None:
        """Take one line, or raise what `session` explains."""
        if "note" in line:  # the runtime's evidence and ends: `tacit verify` is for them
            return
        now, agent = _whole(line["round"], _MOST_ROUNDS), 0
        if "x" in line or "heard" in line or self.on_graph:
            agent = _whole(line["agent"], self.n)
        if "x" in line:
            update = _whole(line["update"], now + 1)
            said = {"update": update, "x": self._numbers(line["x"])}
            if self.lattice is not None or "exponent" in line:
                said["exponent"] = _whole(line["exponent"] + 2000, 4000) - 2000
            self.steps &= "exponent" in said
            self.messages.setdefault((now, agent), []).append(said)
        elif "y" in line:
            self.feedback[now, agent] = self._numbers(line["y"])
        else:
            self.heard[now, agent] = bool(line["heard"])

    def _numbers(self, value: Any) -> npt.NDArray[Any]:
        """Read a number or a list of them, whole ones on a lattice."""
        listed = value if isinstance(value, list) else [value]
        kinds = (int,) if self.lattice is not None else (int, float)
        if not listed or not all(type(v) in kinds for v in listed):
            raise ValueError
        tail = (len(listed),) if isinstance(value, list) else ()
        if self.tail not in (None, tail):
            raise ValueError
        self.tail = tail
        numbers = np.array(listed, dtype=object if self.lattice is not None else np.float64)
        return numbers.reshape(tail)

    def transcripts(self) -> Transcripts:
        """Return the session, or say what is missing."""
        rounds = 1 + max((now for now, _ in self.messages), default=-1)
        if rounds == 0:
            raise FileError("there must be at least one message.")
        if rounds > 1 and not self._answered(rounds - 1):  # under way when the writing stopped
            rounds -= 1
            self.messages = {place: said for place, said in self.messages.items() if place[0] < rounds}
        if not all(map(self._answered, range(rounds))):
            raise FileError("there must be feedback for every round, and on a graph for every agent.")
        counts = [max(len(self.messages.get((t, i), [])) for i in range(self.n)) or 1 for t in range(rounds)]
        slots = np.repeat(np.arange(rounds), counts)
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        tail = self.tail or ()
        kind: Any = np.float64 if self.lattice is None else object
        said = np.zeros((1, len(slots), self.n, *tail), dtype=kind)
        silent = np.ones((1, len(slots), self.n), dtype=np.bool_)
        exponent = np.zeros((1, len(slots), self.n), dtype=np.int64)
        for (now, agent), lines in self.messages.items():
            for place, line in enumerate(lines):
                where = (0, starts[now] + place, agent)
                said[where], silent[where], exponent[where] = line["x"][()], False, line.get("exponent", 0)
        y = np.zeros((1, rounds, *((self.n,) if self.on_graph else ()), *tail), dtype=kind)
        for (now, agent), value in self.feedback.items():
            if now < rounds:
                y[(0, now, agent) if self.on_graph else (0, now)] = value[()]
        update = self._updates(rounds)[slots][None]
        return self._made(said, silent, y, slots, update, exponent)

    def _answered(self, now: int) -> bool:
        return all((now, a) in self.feedback for a in range(self.n if self.on_graph else 1))

    def _made(  # noqa: PLR0917 - all of them are the session
        self,
        said: npt.NDArray[Any],
        silent: npt.NDArray[np.bool_],
        y: npt.NDArray[Any],
        slots: IntArray,
        update: IntArray,
        exponent: IntArray,
    ) -> Transcripts:
        lattice, tail = self.lattice, (1,) * (said.ndim - 3)
        hidden = silent.reshape(*silent.shape, *tail)
        if lattice is None:
            steps = exponent if self.steps else None
            return Transcripts(
                self.declared.mechanism, np.where(hidden, np.nan, said), y, slots, update, steps
            )
        x = np.asarray(lattice.value(said, exponent.reshape(*exponent.shape, *tail)))
        return Transcripts(
            self.declared.mechanism,
            np.where(hidden, np.nan, x),
            np.asarray(lattice.value(y)),
            slots,
            update,
            exponent,
            Wholes(lattice, said, y),
        )

    def _updates(self, rounds: int) -> IntArray:
        """How many updates each agent had made at each round; of shape (rounds, n)."""
        update = np.zeros((rounds, self.n), dtype=np.int64)
        for agent in range(self.n):
            heard: list[bool | None] = [self.heard.get((t, agent)) for t in range(rounds)]
            before = 0, 0
            for t in range(rounds):
                for line in self.messages.get((t, agent), []):
                    _settle(heard, before, (t, line["update"]), agent)
                    before = t, line["update"]
            steps = [1 if h is None or h else 0 for h in heard[:-1]]
            update[1:, agent] = np.cumsum(steps)
        return update


def _settle(heard: list[bool | None], before: tuple[int, int], now: tuple[int, int], agent: int) -> None:
    """Say which feedback between two messages was used, where their updates leave no doubt."""
    between = range(before[0], now[0])
    open_ones = [t for t in between if heard[t] is None]
    needed = now[1] - before[1] - sum(1 for t in between if heard[t])
    if needed not in (0, len(open_ones)):
        raise FileError(
            f"agent {agent} says update {now[1]} in round {now[0]}, which leaves open what feedback it used "
            'before: add lines with "heard".'
        )
    for t in open_ones:
        heard[t] = needed > 0


def _whole(value: Any, below: int) -> int:
    """Return a whole number from 0 to below, or raise."""
    if type(value) is not int or not 0 <= value < below:
        raise ValueError
    return value
