r"""Histories in files: one session, one file of JSON lines.

There is one reader and one writer.

The first line declares the mechanism; each further line is a message or a feedback, in order of arrival::

    {"tacit_transcript": 2, "topology": "server", "agents": 2, "kind": "fading",
     "mixing": 0.8, "noise": 10, "decay": 0.6}                              (one line)
    {"round": 0, "agent": 0, "update": 0, "x": 3.25}
    {"round": 0, "agent": 1, "update": 0, "x": -1.5}
    {"round": 0, "y": 0.875}

- ``topology`` is ``server`` or ``graph``; a graph has ``edges``, pairs of agents, and feedback lines
  that name their agent. If messages have different weights it has ``weights``: the name of a rule
  (``metropolis``), or one ``[i, j, count]`` for every message j that agent i uses, its own included.
- Feedback is the mean of all messages of its round that are in the file, unless it says otherwise: with a
  server ``unused`` lists the agents whose messages are not in it, on a graph ``used`` those whose are. With a
  server ``count`` may say how many messages it is the mean of. A file that lacks some of them is refused.
- ``mixing``, ``noise`` and ``decay`` are one number or one per agent; ``kind`` is the noise law: ``fading``,
  ``one-shot`` or ``constant`` (no decay), or a user's own, with its other parameters by their names.
- ``update`` is the number of updates that the agent says it has made. Two lines for one agent and round: it
  was asked again. No line: no message arrived.
- x and y are numbers, or lists of them. A message may declare that it is a multiple of 2^exponent:
  ``"exponent": -37``. With ``"lattice": {"low": …, "high": …, "state_exponent": …, "bits": …,
  "reach_exponent": …}`` in the first line all numbers are whole: messages in steps of 2^exponent, which
  each must say, feedback in steps of 2^state_exponent.
- If keepers add the noise, ``keepers`` in the first line is their number or a list of their names. Messages
  are then masked and have no ``x``. Only the feedback of such a session is read, and whose messages it used.
  A line with a ``closing`` lists these agents; one of a ``keeper`` says that a sum was opened.
- ``{"round": 3, "agent": 1, "heard": false}`` says that agent 1 did not use the feedback of round 3.
  Needed only if the ``update`` of its next message does not tell which feedback it missed.

Other keys are ignored, and so are lines with a ``note``. The runtime adds the signed frames, in base64, and
`tacit verify` trusts only these (docs/reference/wire.md). Here frames are opaque bytes.

A line counts only with its line feed. An incomplete last line, left by a crash, is ignored by every reader
and truncated when writing continues; `read_history` also ignores a last round without its feedback. Nothing
private is ever written.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, final

import numpy as np
import numpy.typing as npt

from tacit.base.arrays import BoolArray, IntArray
from tacit.base.errors import FileError, TacitError
from tacit.base.files import LineJournal, read_lines, refused, whole_file
from tacit.core.graph import Graph
from tacit.core.history.value import History, Wholes
from tacit.core.law import named
from tacit.core.mechanism import ClientServer, Distributed, Mechanism
from tacit.core.mechanism.client_server import MOST_KEEPERS
from tacit.core.mechanism.lattice import Lattice
from tacit.core.mechanism.topology import read_weights, written_weights

VERSION = 2
MARK = "tacit_transcript"
_MOST_ROUNDS = 10**6
_LATTICE = ("low", "high", "state_exponent", "bits", "reach_exponent")
_MISSING = (KeyError, TypeError, ValueError, OverflowError)

Content = dict[str, Any]


# ---- lines ------------------------------------------------------------------------------------------


class Line(NamedTuple):
    """A line of a file; `content` is None if it is not one JSON object."""

    number: int
    content: Content | None


def encoded(frame: bytes) -> str:
    """Encode a frame in base64."""
    return base64.b64encode(frame).decode("ascii")


def decoded(text: object) -> bytes | None:
    """Decode what `encoded` wrote; None for anything else."""
    if not isinstance(text, str):
        return None
    try:
        frame = base64.b64decode(text, validate=True)
    except ValueError:
        return None
    return frame if encoded(frame) == text else None


def same(one: Content, other: Content) -> bool:
    """Whether two lines have the same content.

    The order of keys does not matter; 1, 1.0 and true are different.
    """
    try:
        return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    except RecursionError:
        return False


@final
class LineReader:
    """Reader of the file: the first line immediately, the others one by one.

    Holds one line at a time. After the last line, `torn` says whether an incomplete line was ignored.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.torn = False
        first = next(self._lines(), None)
        content = None if first is None else first.content
        mark = None if content is None else content.get(MARK)
        if content is None or type(mark) is not int:
            raise FileError(f"{path}, line 1: must be the first line of a transcript, and is not.")
        if mark != VERSION:
            who = "tacit 0.1 wrote it, use that" if mark == 1 else "use the version of tacit that wrote it"
            raise FileError(
                f"{path}, line 1: a transcript must be of format {VERSION}, and this one is of {mark}: {who}."
            )
        self.declared: Content = content
        """The first line as it stands."""

    def __iter__(self) -> Iterator[Line]:
        lines = self._lines()
        next(lines, None)
        return lines

    def _lines(self) -> Iterator[Line]:
        self.torn = False
        try:
            with self.path.open("rb") as file:
                for number, text in enumerate(read_lines(file), start=1):
                    if not text.endswith(b"\n"):
                        self.torn = True
                        return
                    yield Line(number, _parsed(text))
        except OSError as error:
            raise refused(self.path, error) from None


def _parsed(text: bytes) -> Content | None:
    def refuse(_word: str) -> None:
        raise ValueError

    def once(pairs: list[tuple[str, Any]]) -> Content:
        if len({key for key, _ in pairs}) < len(pairs):
            raise ValueError
        return dict(pairs)

    try:
        content = json.loads(text.decode("utf-8"), parse_constant=refuse, object_pairs_hook=once)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def written(line: Content) -> bytes:
    """Write a line."""
    return json.dumps(line).encode() + b"\n"


# ---- the first line ---------------------------------------------------------------------------------


def declare(mechanism: Mechanism, lattice: Lattice | None = None) -> Content:
    """Return a first line."""
    law = mechanism.law
    made: Content = {MARK: VERSION, "topology": "server", "agents": mechanism.n}
    if isinstance(mechanism, Distributed):
        made |= {"topology": "graph", "edges": mechanism.graph.edges().tolist()}
        if (weights := written_weights(mechanism.topology)) is not None:
            made["weights"] = weights if isinstance(weights, str) else [list(entry) for entry in weights]
    made |= {"kind": law.name}
    made |= {word: np.asarray(value).tolist() for word, value in law.worded().items()}
    if lattice is not None:
        chosen = {name: getattr(lattice, name) for name in _LATTICE}
        # Write reals never as integers, and zero without a sign, so that one lattice has exactly one form.
        made["lattice"] = chosen | {name: float(chosen[name]) + 0.0 for name in ("low", "high")}
    if mechanism.keepers:
        made["keepers"] = mechanism.keepers
    return made


@final
@dataclass(frozen=True)
class Declared:
    """What the first line of a file declares."""

    path: Path
    header: Content

    def same(self, header: Content) -> bool:
        """Whether another first line declares the same.

        Names and keys of sessions may differ.
        """
        mine, theirs = (
            {word: line.get(word) for word in declare(self.mechanism, self.lattice) if word in line}
            | {"weights": line.get("weights"), "keepers": _counted(line.get("keepers", 0))}
            for line in (self.header, header)
        )
        return mine == theirs

    @cached_property
    def mechanism(self) -> Mechanism:
        """The mechanism and its parameters."""
        if self.header.get("kind") == "series":
            raise FileError(
                f"{self.path} is the transcript of a series, which has none of the paper's mechanisms: judge "
                "it with `tacit verify`, and its mechanism with `tacit audit --series`."
            )
        if "motion" in self.header:
            raise FileError(
                f"{self.path} is the transcript of agents with their own dynamics, which is not audited: "
                "judge it with `tacit verify`, and the mechanism with `tacit.examine`."
            )
        try:
            law = named(self.header["kind"]).from_words(self.header)
            keepers = _counted(self.header.get("keepers", 0))
            if self.header["topology"] == "server":
                return ClientServer(law, agents=self.header["agents"], keepers=keepers)
            if keepers:
                raise FileError("Keepers need a server.")
            if self.header["topology"] == "graph":
                graph = Graph.from_edges(self.header["edges"], n=self.header["agents"])
                return Distributed(law, graph, read_weights(graph, self.header.get("weights")))
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
            f"{self.path}, line 1: topology, agents, keepers, kind, mixing, noise, decay and lattice must "
            f"declare a mechanism.{reason}"
        ) from None


def _counted(keepers: Any) -> int:
    """Return the number of keepers, or raise.

    They are given as a number or by their names.
    """
    if not isinstance(keepers, list):
        return _whole(keepers, MOST_KEEPERS + 1)
    if not 0 < len(keepers) <= MOST_KEEPERS or not all(isinstance(name, str) for name in keepers):
        raise ValueError
    return len(keepers)


# ---- whole histories --------------------------------------------------------------------------------


def write_history(path: Path | str, history: History) -> None:
    """Write the public part of one run to a file; an old one is replaced."""
    if history.said.ndim == 3:
        raise FileError("a file holds one run: write each run to its own file.")
    lattice = None if history.wholes is None else history.wholes.lattice
    first = declare(history.mechanism, lattice)
    with whole_file(Path(path)) as part, part.open("xb+") as file:
        LineJournal(part, file.fileno(), durable=False).append(map(written, [first, *_events(history)]))


def read_history(path: Path | str, declared: Declared | None = None) -> History:
    """Read one session from a file, or refuse it with its file and line.

    Parameters
    ----------
    declared : Declared, optional
        The declaration of another file. This one must declare the same, and shares its mechanism.
    """
    reader = LineReader(path)
    if declared is None:
        declared = Declared(reader.path, reader.declared)
    elif not declared.same(reader.declared):
        raise FileError(
            f"{path} declares another mechanism than {declared.path.name}: keep them in separate folders."
        )
    table = _HistoryTable(declared)
    for number, content in reader:
        if content is None:
            raise FileError(f"{path}, line {number}: every line must be one JSON object.")
        try:
            table.add(content)
        except _MISSING:
            raise FileError(
                f"{path}, line {number}: must be a message (round, agent, update, x; no x under masks), "
                "feedback (round, y) or what was not heard (round, agent, heard), in numbers that fit the "
                "first line."
            ) from None
    try:
        return table.history()
    except FileError as error:
        raise FileError(f"{path}: {error}") from None
    except _MISSING as error:
        reason = f" {error}" if isinstance(error, TacitError) else ""
        raise FileError(f"{path}: its lines do not make a session.{reason}") from None


def _events(h: History) -> Iterator[Content]:
    """Yield messages and feedback, in order."""
    x, y = (h.x, h.y) if h.wholes is None else (h.wholes.x, h.wholes.y)
    on_graph, n = isinstance(h.mechanism, Distributed), h.mechanism.n
    for slot, now in enumerate(h.rounds_of.tolist()):
        for agent in np.flatnonzero(h.said[slot]).tolist():
            line = {"round": now, "agent": agent, "update": int(h.update[slot, agent])}
            line["x"] = np.asarray(x[slot, agent]).tolist()
            if h.exponent is not None:
                line["exponent"] = int(h.exponent[slot, agent])
            yield line
        if slot + 1 < len(h.rounds_of):
            if h.rounds_of[slot + 1] == now:
                continue
            for agent in np.flatnonzero(h.update[slot + 1] == h.update[slot]).tolist():
                yield {"round": now, "agent": agent, "heard": False}
        for agent in range(n if on_graph else 1):
            name = {"agent": agent} if on_graph else {}
            line = {"round": now, **name, "y": np.asarray(y[now, agent] if on_graph else y[now]).tolist()}
            if h.used is not None and on_graph:
                line["used"] = np.sort(h.pairs[h.used[now] & (h.pairs[:, 0] == agent), 1]).tolist()
            elif h.used is not None:
                line["unused"] = np.flatnonzero(~h.used[now]).tolist()
            yield line


class _HistoryTable:
    """Collects the lines of one session."""

    def __init__(self, declared: Declared) -> None:
        self.mechanism, self.lattice = declared.mechanism, declared.lattice
        self.n = self.mechanism.n
        self.on_graph = isinstance(self.mechanism, Distributed)
        self.messages: dict[tuple[int, int], list[Content]] = {}
        self.feedback: dict[tuple[int, int], Any] = {}
        self.named: dict[
            tuple[int, int], IntArray
        ] = {}  # by feedback: the agents used, or with a server those unused
        self.counts: dict[int, int] = {}  # how many messages a server's feedback is the mean of
        self.heard: dict[tuple[int, int], bool] = {}
        self.tail: tuple[int, ...] | None = None
        self.steps = True  # whether every message names its step

    def add(self, line: Content) -> None:
        """Add one line; `read_history` explains what this raises."""
        if "note" in line:  # evidence and endings of the runtime, which only `tacit verify` reads
            return
        now, agent = _whole(line["round"], _MOST_ROUNDS), 0
        if self.mechanism.keepers and "y" not in line and "heard" not in line:
            self._mask(line, now)
            return
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
            word = "used" if self.on_graph else "unused"
            if word in line:
                self.named[now, agent] = _agents(line[word], self.n)
            if "count" in line and not self.on_graph:
                self.counts[now] = _whole(line["count"], self.n + 1)
        else:
            self.heard[now, agent] = bool(line["heard"])

    def _mask(self, line: Content, now: int) -> None:
        """Add a masked message, a closing or an opening.

        They have no numbers to read.
        """
        if "x" in line:
            raise ValueError
        if "closing" in line:
            self.named[now, 0] = np.setdiff1d(np.arange(self.n), _agents(line["closing"], self.n))
        elif "keeper" in line:
            _whole(line["keeper"] - self.n, self.mechanism.keepers)
        else:
            _whole(line["agent"], self.n)
            _whole(line["update"], now + 1)

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

    def history(self) -> History:
        """Return the session, or say what is missing."""
        heard = self.feedback if self.mechanism.keepers else self.messages
        rounds = 1 + max((now for now, _ in heard), default=-1)
        if rounds == 0:
            what = "feedback" if self.mechanism.keepers else "message"
            raise FileError(f"there must be at least one {what}.")
        if rounds > 1 and not self._answered(rounds - 1):  # the round was not finished when writing stopped
            rounds -= 1
            self.messages = {place: said for place, said in self.messages.items() if place[0] < rounds}
        if not all(map(self._answered, range(rounds))):
            raise FileError("there must be feedback for every round, and on a graph for every agent.")
        counts = [max(len(self.messages.get((t, i), [])) for i in range(self.n)) or 1 for t in range(rounds)]
        slots = np.repeat(np.arange(rounds), counts)
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        tail = self.tail or ()
        kind: Any = np.float64 if self.lattice is None else object
        sent = np.zeros((len(slots), self.n, *tail), dtype=kind)
        said = np.zeros((len(slots), self.n), dtype=np.bool_)
        exponent = np.zeros((len(slots), self.n), dtype=np.int64)
        for (now, agent), lines in self.messages.items():
            for place, line in enumerate(lines):
                where = (starts[now] + place, agent)
                sent[where], said[where], exponent[where] = line["x"][()], True, line.get("exponent", 0)
        y = np.zeros((rounds, *((self.n,) if self.on_graph else ()), *tail), dtype=kind)
        for (now, agent), value in self.feedback.items():
            if now < rounds:
                y[(now, agent) if self.on_graph else now] = value[()]
        update, used = self._updates(rounds)[slots], self._used(rounds)
        if self.lattice is None:
            steps = exponent if self.steps else None
            return History(self.mechanism, sent, y, said, slots, update, steps, used=used)
        x = self.lattice.value(sent, exponent.reshape(*exponent.shape, *(1,) * len(tail)))
        floats, wholes = np.asarray(self.lattice.value(y)), Wholes(self.lattice, sent, y)
        return History(
            self.mechanism, np.asarray(x), floats, said, slots, update, exponent, wholes, used=used
        )

    def _answered(self, now: int) -> bool:
        return all((now, a) in self.feedback for a in range(self.n if self.on_graph else 1))

    def _used(self, rounds: int) -> BoolArray | None:
        """Whose messages were used, if the lines say so."""
        mechanism, n = self.mechanism, self.n
        if not self.named and not mechanism.keepers:
            self._require_all(rounds)
            return None
        if not all(place in self.named for place in self.feedback if place[0] < rounds):
            optional = "" if mechanism.keepers else ", or none"
            raise FileError(f"all feedback must say whose messages it used{optional}.")
        named_ones = {place: agents for place, agents in self.named.items() if place[0] < rounds}
        if not isinstance(mechanism, Distributed):
            used = np.ones((rounds, n), dtype=np.bool_)
            for (now, _), agents in named_ones.items():
                used[now, agents] = False
            return used
        graph = mechanism.graph
        used = np.zeros((rounds, n + len(graph.indices)), dtype=np.bool_)
        for (now, agent), agents in named_ones.items():
            near = np.isin(graph.neighbours(agent), agents)
            own = bool(np.isin(agent, agents))
            if near.sum() + own != len(agents):
                raise FileError(
                    f"agent {agent} in round {now} must have used its neighbours' or own messages."
                )
            used[now, agent] = own
            used[now, n + graph.indptr[agent] : n + graph.indptr[agent + 1]] = near
        return used

    def _require_all(self, rounds: int) -> None:
        """Refuse a file without all messages of its feedback: an agent's own."""
        for t in range(rounds):
            there = sum((t, i) in self.messages for i in range(self.n))
            if there != self.counts.get(t, there):
                raise FileError(
                    f"all messages that feedback is the mean of must be in the file, and of the "
                    f"{self.counts[t]} in round {t} it has {there}: give the coordinator's transcript."
                )

    def _updates(self, rounds: int) -> IntArray:
        """Return how many updates each agent had made at each round.

        The shape is (rounds, n).
        """
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
    """Find which feedback between two messages was used.

    Their updates may tell.
    """
    between = range(before[0], now[0])
    open_ones = [t for t in between if heard[t] is None]
    needed = now[1] - before[1] - sum(1 for t in between if heard[t])
    if needed not in (0, len(open_ones)):
        raise FileError(
            f"agent {agent} declares update {now[1]} in round {now[0]}, so it is unclear which feedback it "
            'used before: add lines with "heard".'
        )
    for t in open_ones:
        heard[t] = needed > 0


def _whole(value: Any, below: int) -> int:
    """Return a whole number from 0 to below, or raise."""
    if type(value) is not int or not 0 <= value < below:
        raise ValueError
    return value


def _agents(value: Any, n: int) -> IntArray:
    """Return a list of different agents, or raise."""
    agents = [_whole(agent, n) for agent in value]
    if len(set(agents)) < len(agents):
        raise ValueError
    return np.array(agents, dtype=np.int64)
