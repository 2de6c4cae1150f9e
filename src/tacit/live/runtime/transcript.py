r"""Transcripts: all that an adversary sees, signed, in an append-only file.

One session is one file of JSON lines. The first line declares the session: its canonical bytes, and the same
in readable fields. Each other line is one frame as it was sent, in base64, with its content in readable
fields::

    {"tacit_transcript": 2, "topology": "server", …, "by": "coordinator", "id": "5f…", "session": "3A…"}
    {"round": 0, "agent": 0, "update": 0, "x": 913, "exponent": -37, "frame": "lQ…"}      a report
    {"round": 0, "y": -118, "count": 2, "members": 2, "frame": "lQ…"}    feedback, the mean of 2 messages
    {"round": 0, "agent": 2, "y": 77, "used": [1, 2, 3]}        a peer's mean; its next report commits to it
    {"note": "evidence", "frame": "lQ…"}            contradicts another frame of the same sender
    {"note": "stop", "frame": "lQ…"}                the coordinator ended the session here
    {"note": "done", "frame": "lQ…"}                a peer has made all its updates; commits to all its means

With keepers reports are masked, so their numbers are not written out, and a round has more lines::

    {"note": "key", "frame": "lQ…"}                                     an ephemeral key of an agent or keeper
    {"round": 0, "agent": 0, "update": 0, "exponent": -37, "frame": "lQ…"}                   a masked report
    {"round": 0, "closing": [0, 2], "frame": "lQ…"}                     whose reports the sum is made of
    {"round": 0, "keeper": 5, "frame": "lQ…"}                                             a keeper's opening
    {"note": "said", "frame": "lQ…"}          in a keeper's own file: a closing that it heard, or its opening

In a series a round is a slot. Its feedback is the sum in grid steps. A slot that is lost has a count of 0.
The reports that feedback is made of are in the coordinator's transcript: an agent's own has only its own.

The readable fields repeat the frames, so that people and `tacit audit` can read the file
(`tacit.core.history.file`). `tacit verify` uses only the frames. A round's reports come before its feedback.
Nothing private is in here. A line counts once it ends with a line feed. An incomplete last line, left by a
crash, is cut off when writing continues, and reported when the file is read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Self, final

import msgspec

from tacit.base.errors import FileError, LedgerError, TacitError
from tacit.base.files import LineJournal, open_own
from tacit.core.history.file import Content, Line, LineReader, declare, decoded, encoded, written
from tacit.core.protocol.codec import Codec, Sign, digest, history
from tacit.core.protocol.messages import (
    BODIES,
    COORDINATOR,
    NOTHING_HEARD,
    Closing,
    Done,
    Feedback,
    Key,
    Kind,
    Masked,
    Message,
    Opening,
    Report,
    Stop,
)
from tacit.core.protocol.messages import VERSION as PROTOCOL
from tacit.core.protocol.moving import moving_fields
from tacit.core.protocol.records import (
    Closed,
    Disclosed,
    Ended,
    Evidence,
    Keyed,
    Moved,
    Record,
    Shut,
    Spoke,
    Unopened,
)
from tacit.core.protocol.series import Series
from tacit.core.protocol.session import Session
from tacit.core.protocol.signatures import SIGNATURE_BYTES
from tacit.core.series import written as series_words


def header(session: Session, by: int) -> Content:
    """Return the first line of a session's transcript, with its writer."""
    if session.series is not None:
        made = declare_series(session, session.series)
    else:
        made = declare(session.mechanism, session.lattice)
        if session.motion is not None:
            made["motion"] = moving_fields(session.motion)
    if session.keepers:
        made["keepers"] = [keeper.name for keeper in session.keepers]
    made |= {"name": session.name, "by": session.member_name(by), "id": session.id.hex()}
    return made | {"session": encoded(session.encode())}


def declare_series(session: Session, series: Series) -> Content:
    """Return the readable fields in the first line of a series' transcript."""
    return {
        "tacit_transcript": 2,
        "topology": "server",
        "agents": session.n,
        "kind": session.law,
        "slots": series.slots,
        "hides": series_words(series.hides),
        "mechanism": series.mechanism,
        "exponent": series.exponent,
    }


def own_frame(codec: Codec, frame: bytes) -> Message:
    """Decode a frame whose signature a machine has already checked."""
    try:
        version, session, sender, kind, body = msgspec.msgpack.decode(frame[:-SIGNATURE_BYTES])
        said = msgspec.msgpack.decode(body, type=BODIES[Kind(kind)])
    except (msgspec.MsgspecError, ValueError, TypeError):
        raise FileError("a transcript holds only frames, and these bytes are not a frame.") from None
    if version != PROTOCOL or session != codec.session.id:
        raise FileError("a transcript holds only frames of its own session.")
    numbers: tuple[int, ...] = ()
    if isinstance(said, Report | Feedback) and not isinstance(said, Masked):
        numbers = codec.unpack(said.numbers)
    return Message(sender, said, numbers, digest(frame), frame)


def line_of(message: Message) -> Content:
    """Return the line of a message: its content in words, and its frame."""
    numbers = message.numbers[0] if len(message.numbers) == 1 else list(message.numbers)
    said: Content
    match message.body:
        case Masked(update=u, exponent=exponent):
            said = {"round": u, "agent": message.sender, "update": u, "exponent": exponent}
        case Closing(round=t, used=used):
            said = {"round": t, "closing": [i for i in range(8 * len(used)) if used[i // 8] >> i % 8 & 1]}
        case Opening(round=t):
            said = {"round": t, "keeper": message.sender}
        case Key():
            said = {"note": "key"}
        case Report(update=u, exponent=exponent):
            said = {"round": u, "agent": message.sender, "update": u, "x": numbers, "exponent": exponent}
        case Feedback(round=t, count=count, members=members):
            said = {"round": t, "y": numbers, "count": count, "members": members}
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


def _sender(line: Content) -> int:
    """Return the sender of a round's line that is not feedback."""
    sender = line.get("agent", line.get("keeper", COORDINATOR))
    assert isinstance(sender, int)
    return sender


@final
class TranscriptWriter:
    """Writes a session's transcript, or continues one; one process at a time.

    Parameters
    ----------
    path : path
        The file; it is created if it does not exist.
    session : Session
        An existing transcript of another session is refused.
    by : int
        Who writes it: `COORDINATOR`, or an agent's number.
    durable : bool
        Whether every `take` waits for the disk. If not, a crash may lose the last lines; calling `take` with
        all records of the ledger restores them.
    sign : callable, optional
        Signs with the writer's key. The transcript of a coordinator that ended a session early then has a
        signed stop. The transcript of a peer has a signature for its last means, to which no report commits.
    """

    def __init__(
        self,
        path: str | Path,
        session: Session,
        by: int = COORDINATOR,
        *,
        durable: bool = True,
        sign: Sign | None = None,
    ) -> None:
        self.path, self.session, self.by, self.durable = Path(path), session, by, durable
        self._sign = sign
        self.rounds = 0
        """How many rounds are completely written."""
        self._codec = Codec(session)
        self._open_round: set[int] = set()  # agents whose reports of round `rounds` are written
        self._noted: set[str] = set()
        self._heard = NOTHING_HEARD  # on a graph: what the next report commits to
        self._pending: dict[int, bytes] = {}  # in a series: own messages of slots that are not over
        self._file = open_own(self.path)
        try:
            self._resume()
        except BaseException:
            self.close()
            raise

    def _resume(self) -> None:
        self._journal = LineJournal(self.path, self._file, durable=self.durable)
        if not self._journal.begin(written(header(self.session, self.by))):
            raise FileError(
                f"{self.path} is not this session's and member's transcript: choose another file."
            )
        for line in Reading(self.path):
            self._seen(line)

    def _seen(self, line: Line) -> None:
        content = line.content
        if content is None:
            raise FileError(
                f"{self.path}, line {line.number} is damaged: move the file away, and it is written again."
            )
        if "note" in content:
            self._noted.add(content["frame"])
        elif "y" in content:
            self.rounds, self._open_round = self.rounds + 1, set()
        else:
            self._open_round.add(_sender(content))

    def take(self, records: Iterable[Record]) -> None:
        """Write the public part of records; skip lines that are written.

        Call it with the records of every step after they were saved, and after a restart with all records of
        the ledger. Before they are saved is too early: after a crash the agent would send another message
        than the one in its transcript.
        """
        lines: list[Content] = []
        for record in records:
            match record:
                case Closed():
                    parts = (*record.reports, *record.openings)
                    lines += self._round(record.round, parts, record.frame)
                case Spoke() if self.session.series is not None:
                    # It may be sent before the previous slot is over, and lines must be in order of slots.
                    self._pending[record.update] = record.frame
                case Spoke():
                    lines += self._reports(record.update, (record.frame,))
                case Moved() if self.session.series is not None:
                    said = [frame] if (frame := self._pending.pop(record.update, None)) else []
                    lines += self._round(record.update, said, record.heard[0])
                case Moved() if self.session.topology == "server":
                    # With keepers an agent may make an update towards feedback that it received before.
                    lines += self._round(record.update, (), record.heard[0]) if record.heard else []
                case Moved():
                    lines += self._mean(record)
                case Evidence():
                    lines += self._evidence(record)
                case Ended():
                    lines += self._end(record)
                case _:
                    lines += self._with_keepers(record)
        if lines:
            self._append(lines)

    def _round(self, t: int, reports: Iterable[bytes], feedback: bytes) -> list[Content]:
        if t < self.rounds:
            return []
        lines = [*self._reports(t, reports), line_of(self._read(feedback))]
        self.rounds, self._open_round = t + 1, set()
        return lines

    def _mean(self, moved: Moved) -> list[Content]:
        t, lines = moved.update, list[Content]()
        # All records are taken again at a restart, so the history starts again with the first one. It is
        # computed for skipped lines, too: the next report commits to all means.
        if t == 0:
            self._heard = NOTHING_HEARD
        self._heard = history(self._heard, map(digest, moved.heard))
        if t >= self.rounds:
            y = self._codec.unpack(moved.y)
            lines += [*self._reports(t, moved.heard), mean_line(self.session, self.by, t, y, moved.used)]
            self.rounds, self._open_round = t + 1, set()
        if t + 1 == self.session.rounds and self._sign is not None:
            # Ed25519 signatures are deterministic, so these are the same bytes that the machine sends.
            frame = self._codec.seal(self.by, Done(t + 1, self._heard), self._sign)
            lines += self._note(line_of(self._read(frame)))
        return lines

    def _reports(self, t: int, frames: Iterable[bytes]) -> list[Content]:
        if t < self.rounds:
            return []
        lines = [line_of(self._read(frame)) for frame in frames]
        lines = [line for line in lines if _sender(line) not in self._open_round]
        self._open_round.update(map(_sender, lines))
        return lines

    def _with_keepers(self, record: Record) -> list[Content]:
        match record:
            case Shut():
                return self._reports(record.round, (*record.reports, record.frame))
            case Unopened():
                return self._reports(record.round, record.openings)
            case Keyed():
                return self._note(line_of(self._read(record.frame)))
            case Disclosed():  # a keeper hears no feedback, so its file has no rounds
                frames = [frame for frame in (record.closing, record.frame) if frame]
                return [line for f in frames for line in self._note({"note": "said", "frame": encoded(f)})]
        return []

    def _evidence(self, record: Evidence) -> list[Content]:
        frames = [frame for frame in (record.first, record.second) if frame]
        return [line for f in frames for line in self._note({"note": "evidence", "frame": encoded(f)})]

    def _end(self, record: Ended) -> list[Content]:
        if record.reason is None or self.by != COORDINATOR or self._sign is None:
            return []
        frame = self._codec.seal(COORDINATOR, Stop(record.round, record.reason), self._sign)
        return self._note(line_of(self._read(frame)))

    def _note(self, line: Content) -> list[Content]:
        if line["frame"] in self._noted:
            return []
        self._noted.add(line["frame"])
        return [line]

    def _read(self, frame: bytes) -> Message:
        return own_frame(self._codec, frame)

    def _append(self, lines: Iterable[Content]) -> None:
        try:
            self._journal.append(map(written, lines))
        except OSError as error:
            raise LedgerError(
                f"{self.path} cannot be written ({error.strerror}), so nothing more is sent. The ledger has "
                "all records, so nothing is lost: check the disk and start again."
            ) from None

    def close(self) -> None:
        """End writing."""
        if self._file >= 0:
            if self.durable:
                os.fsync(self._file)
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@final
class Reading:
    """A signed transcript to read: its session at once, its lines one by one.

    Only one line is in memory at a time. After the last line, `torn` says whether an incomplete line at the
    end was ignored.
    """

    def __init__(self, path: str | Path) -> None:
        self._lines = LineReader(path)
        self.declared = self._lines.declared
        """The first line as it was read; it must equal `header(session, by)`."""
        data = decoded(self.declared.get("session"))
        if data is None:
            raise FileError(f"{path} must declare its session in its first line, and does not.")
        try:
            self.session = Session.decode(data)
        except TacitError as why:
            raise FileError(f"{path} must declare a session that can be read here: {why}") from None
        except (ValueError, OverflowError):  # invalid text, or numbers that are too large
            raise FileError(f"{path} must declare a session, and does not.") from None
        if self.declared.get("id") != self.session.id.hex():
            raise FileError(f"{path} must declare the session of its id, and declares another one.")
        names = [member.name for member in (*self.session.roster, *self.session.keepers)]
        by = self.declared.get("by")
        self.by: int = names.index(by) if by in names else COORDINATOR

    def __iter__(self) -> Iterator[Line]:
        return iter(self._lines)

    @property
    def torn(self) -> bool:
        """Whether an incomplete last line was ignored."""
        return self._lines.torn


def merge(paths: Iterable[str | Path], out: str | Path) -> Path:
    """Merge transcripts of one session, in order of rounds, each frame once.

    It makes one file for `tacit audit` from the transcripts of several peers.
    """
    readings = [Reading(path) for path in paths]
    if not readings or len({reading.session.id for reading in readings}) != 1:
        raise FileError("transcripts to merge must be one or more, all of one session.")
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
    with target.open("xb+") as file:
        every = [first, *sorted(lines.values(), key=place)]
        LineJournal(target, file.fileno(), durable=False).append(map(written, every))
    return target
