"""Transcripts to read: their lines, their session, and several put together.

`tacit.runtime.transcript` describes the file.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, final

import msgspec

from tacit.errors import FileError, TacitError
from tacit.files import refused
from tacit.protocol.codec import SIGNATURE_BYTES, Codec, digest
from tacit.protocol.messages import BODIES, COORDINATOR, Done, Feedback, Kind, Message, Report, Stop
from tacit.protocol.messages import VERSION as PROTOCOL
from tacit.protocol.session import Session

VERSION = 1
_MARK = "tacit_transcript"
_MOST_HEADER = 1 << 26
_LATTICE = ("low", "high", "state_exponent", "bits", "reach_exponent")

Content = dict[str, Any]


class Line(NamedTuple):
    """A line of a transcript; `content` is None where it is not one JSON object."""

    number: int
    content: Content | None


def encoded(frame: bytes) -> str:
    """Write a frame in letters."""
    return base64.b64encode(frame).decode("ascii")


def decoded(text: object) -> bytes | None:
    """Read what `encoded` wrote, and nothing else."""
    if not isinstance(text, str):
        return None
    try:
        frame = base64.b64decode(text, validate=True)
    except ValueError:
        return None
    return frame if encoded(frame) == text else None


def header(session: Session, by: int) -> Content:
    """Return the first line of a session's transcript, written by an agent or the coordinator."""
    made: Content = {_MARK: VERSION, "topology": session.topology, "agents": session.n}
    if session.edges is not None:
        made["edges"] = [list(edge) for edge in session.edges]
    made |= {"kind": session.noise_kind, "mixing": _listed(session.mixing), "noise": _listed(session.noise)}
    if session.decay is not None:
        made["decay"] = _listed(session.decay)
    lattice = {name: getattr(session.lattice, name) for name in _LATTICE}
    # As in the session's bytes: real numbers are never written as whole ones, and zero has no sign.
    made["lattice"] = lattice | {name: float(lattice[name]) + 0.0 for name in ("low", "high")}
    made |= {"name": session.name, "by": session.member_name(by), "id": session.id.hex()}
    return made | {"session": encoded(session.encode())}


def own_frame(codec: Codec, frame: bytes) -> Message:
    """Read a frame that a machine has checked: all but its signature, which costs the most."""
    try:
        version, session, sender, kind, body = msgspec.msgpack.decode(frame[:-SIGNATURE_BYTES])
        said = msgspec.msgpack.decode(body, type=BODIES[Kind(kind)])
    except (msgspec.MsgspecError, ValueError, TypeError):
        raise FileError("a transcript takes frames only, and these bytes are none.") from None
    if version != PROTOCOL or session != codec.session.id:
        raise FileError("a transcript takes frames of its own session only.")
    numbers = codec.unpack(said.numbers) if isinstance(said, Report | Feedback) else ()
    return Message(sender, said, numbers, digest(frame), frame)


def line_of(message: Message) -> Content:
    """Return the line of a report, feedback, stop or done: what it says, and its frame."""
    numbers = message.numbers[0] if len(message.numbers) == 1 else list(message.numbers)
    said: Content
    match message.body:
        case Report(update=u, exponent=exponent):
            said = {"round": u, "agent": message.sender, "update": u, "x": numbers, "exponent": exponent}
        case Feedback(round=t):
            said = {"round": t, "y": numbers}
        case Stop():
            said = {"note": "stop"}
        case Done():
            said = {"note": "done"}
        case _:
            raise FileError(f"a transcript has no lines for {type(message.body).__name__} messages.")
    return {**said, "frame": encoded(message.frame)}


def mean_line(session: Session, agent: int, t: int, y: tuple[int, ...], used: Iterable[int]) -> Content:
    """Return the line of a peer's own mean."""
    numbers = y[0] if session.components == 1 else list(y)
    return {"round": t, "agent": agent, "y": numbers, "used": list(used)}


def same(one: Content, other: Content) -> bool:
    """Whether two lines say the same, in any order of their words; 1, 1.0 and true are different things."""
    try:
        return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    except RecursionError:
        return False


def _listed(value: float | tuple[float, ...]) -> float | list[float]:
    return value if isinstance(value, float) else list(value)


@final
class Reading:
    """A transcript to read: its session at once, its lines one by one.

    Holds one line at a time. After the last line `torn` says whether a piece of one was left out.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.torn = False
        first = next(self._raw(_MOST_HEADER), None)
        content = None if first is None else first.content
        mark = None if content is None else content.get(_MARK)
        if content is None or type(mark) is not int or mark != VERSION:
            raise FileError(f"{path} must be a transcript, and has no first line of one (version {VERSION}).")
        data = decoded(content.get("session"))
        if data is None:
            raise FileError(f"{path} must declare its session in its first line, and does not.")
        try:
            self.session = Session.decode(data)
        except TacitError as why:
            raise FileError(f"{path} must declare a session, and does not: {why}") from None
        except (ValueError, OverflowError):  # letters that are no letters, numbers that are no numbers
            raise FileError(f"{path} must declare a session, and does not.") from None
        if content.get("id") != self.session.id.hex():
            raise FileError(f"{path} must declare the session of its id, and declares another one.")
        names = [member.name for member in self.session.roster]
        by = content.get("by")
        self.by: int = names.index(by) if by in names else COORDINATOR
        self.declared = content
        """The first line as it stands; `header(session, by)` is what it must be."""

    def __iter__(self) -> Iterator[Line]:
        # A frame in base64, its numbers in digits, and the agents that a mean names.
        most = 8 * Codec(self.session).most_bytes + 8 * self.session.n + 4096
        lines = self._raw(max(most, _MOST_HEADER))
        next(lines, None)
        return lines

    def _raw(self, most: int) -> Iterator[Line]:
        self.torn = False
        try:
            with self.path.open("rb") as file:
                number = 0
                while text := file.readline(most):
                    number += 1
                    if not text.endswith(b"\n"):
                        if not (rest := file.readline(most)):
                            self.torn = True
                            return
                        while rest and not rest.endswith(b"\n"):  # too long for any line
                            rest = file.readline(most)
                        text = b""
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


def merge(paths: Iterable[str | Path], out: str | Path) -> Path:
    """Put transcripts of one session together, in order of rounds, each frame once.

    What several peers saw of one session becomes a file that `tacit audit` reads.
    """
    readings = [Reading(path) for path in paths]
    if not readings or len({reading.session.id for reading in readings}) != 1:
        raise FileError("transcripts to put together must be one or more, all of one session.")
    lines: dict[str, Content] = {}
    for reading in readings:
        for line in reading:
            if line.content is not None:
                lines.setdefault(json.dumps(line.content), line.content)

    def place(content: Content) -> tuple[int, int, int]:
        t, agent = content.get("round", 1 << 31), content.get("agent", -1)
        return t, "y" in content, agent

    target = Path(out)
    first = header(readings[0].session, readings[0].by)
    with target.open("x", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in [first, *sorted(lines.values(), key=place)])
    return target
