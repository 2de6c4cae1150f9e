"""Tests of masked numbers as sent: they look random, none is repeated.

To anyone without the masks of one keeper, an agent's reports are independent random numbers, and so are a
keeper's openings. That can be tested on the bytes of any session, live or recorded, without a secret:
`examine_masked` reads the signed frames of transcripts. Whether keepers added their noise cannot be seen in
a transcript: `tacit.lab.audit.conspiracy` examines that.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TypeAlias, final

import numpy as np
import numpy.typing as npt
from scipy.stats import binom

from tacit.base.arrays import BoolArray, IntArray
from tacit.base.errors import FileError, TacitError
from tacit.core.history.file import Declared, LineReader, decoded
from tacit.core.mechanism.whole import WholeArray
from tacit.core.protocol.codec import Codec
from tacit.core.protocol.messages import Closing, Masked, Message, Opening
from tacit.core.protocol.session import Session
from tacit.core.theory.advice import ALL_KEEPERS, ONE_KEEPER
from tacit.lab.audit.audit_plan import describe
from tacit.lab.audit.report import AuditFinding, AuditReport

_MOST_NUMBERS = 1 << 18  # looked at; the first components of long vectors
_CHUNK = 100_000  # masks whose bits are held at once

Numbers: TypeAlias = dict[tuple[int, int], list[bytes]]
"""The masked numbers of every different frame, by sender and update."""


# ---- tests ----------------------------------------------------------------------------------------------


def once_finding(test: str, said: Sequence[Sequence[bytes | int]]) -> AuditFinding:
    """Check that a sender sent the same answer for one update each time.

    `said` has, for each sender and update, everything that was sent.
    """
    twice = sum(len(set(answers)) > 1 for answers in said)
    versions = f"{twice:,} of {len(said):,} were sent in several versions"
    detail = versions if twice else f"each of {len(said):,} was sent in one version"
    return AuditFinding(test, "alarm" if twice else "pass", detail)


def opening_finding(openings: Sequence[Sequence[bytes | int]]) -> AuditFinding:
    """Check that all answers of a keeper to one update are the same bytes."""
    return once_finding("one opening per update", openings)


def mask_findings(
    masks: WholeArray | Sequence[Sequence[int]],
    width: int,
    failure_probability: float,
    *,
    there: BoolArray | None = None,
    span: int = 0,
    name: str = "masks",
    rows: str = "session",
) -> list[AuditFinding]:
    """Test masks, or masked numbers, for reuse and for unfair bits.

    All false-alarm rates are exact or bounds.

    Parameters
    ----------
    masks : whole numbers modulo 2^(8·width), shape (rows, columns)
        One session, agent or keeper in each row; its updates, one after the other, in the columns.
    width : int
        Bytes of a number.
    there : bool array, optional
        Which numbers exist; by default all.
    span : int
        Two numbers under the same mask differ by at most this; 0 for masks themselves.
    name, rows : str
        What the numbers are, and what a row is, in words.
    """
    table = np.asarray(masks, dtype=object)
    table = table.reshape(len(table), -1)
    known = np.ones(table.shape, dtype=np.bool_) if there is None else there
    flat = [int(number) if here else 0 for number, here in zip(table.flat, known.flat, strict=True)]
    data = b"".join(number.to_bytes(width, "big") for number in flat)
    bits = np.unpackbits(np.frombuffer(data, np.uint8)).reshape(*table.shape, 8 * width)
    # Masks are independent and uniform, so every bit is a fair coin, and so is the exclusive or of the same
    # bit in two neighbours. A counter or a reused mask has balanced bits, but shows in the exclusive or.
    looks = {f"{name}: bits": bits[known]}
    if len(table) > 1:
        looks[f"{name}: from one {rows} to the next"] = (bits[:-1] ^ bits[1:])[known[:-1] & known[1:]]
    if table.shape[1] > 1:
        looks[f"{name}: from one update to the next"] = (bits[:, :-1] ^ bits[:, 1:])[
            known[:, :-1] & known[:, 1:]
        ]
    numbers = list(itertools.compress(flat, known.flat))
    share = failure_probability / 2 / len(looks) / (8 * width)
    found = [_reuse(f"{name}: reuse", numbers, width, failure_probability / 2, span)]
    return found + [_fair(test, _ones(coins), len(coins), share) for test, coins in looks.items()]


def secret_findings(masks: list[int], width: int, failure_probability: float) -> list[AuditFinding]:
    """Test the masks of many secrets, one of each.

    If secrets have few bits, some masks are equal. With so many masks, a small bias of a bit shows too.
    """
    ones = np.zeros(8 * width, dtype=np.int64)
    for begin in range(0, len(masks), _CHUNK):
        data = b"".join(mask.to_bytes(width, "big") for mask in masks[begin : begin + _CHUNK])
        ones += _ones(np.unpackbits(np.frombuffer(data, np.uint8)).reshape(-1, 8 * width))
    share = failure_probability / 2
    return [
        _reuse("masks: few secrets", masks, width, share, 0),
        _fair("masks: bits of many secrets", ones, len(masks), share / (8 * width)),
    ]


def _reuse(test: str, numbers: list[int], width: int, limit: float, span: int) -> AuditFinding:
    """Count numbers that are closer to another one than by chance."""
    modulus, pairs = 1 << 8 * width, len(numbers) * (len(numbers) - 1) // 2
    if not pairs:
        return AuditFinding(test, "skipped", "there is only one number")
    # Union bound: two of the numbers are among `room` neighbouring values with a probability of at most
    # `limit`. So a single hit is an alarm, and no test is made where chance alone could cause one.
    room = int(Fraction(limit) * modulus) // pairs
    if room < 1:
        return AuditFinding(test, "skipped", f"{len(numbers):,} numbers of {width} bytes may agree by chance")
    reach = min(span, (room - 1) // 2)
    chance = float(Fraction(pairs * (2 * reach + 1), modulus))
    order = sorted(numbers)
    order.append(order[0] + modulus)
    near = sum(after - before <= reach for before, after in itertools.pairwise(order))
    again = "occurred before" if reach == 0 else "are as close to another as two under the same mask"
    detail = f"{near:,} of {len(numbers):,} {again}"
    return AuditFinding(test, "alarm" if near else "pass", detail, chance if near else 1.0, limit)


def _ones(coins: npt.NDArray[np.uint8]) -> IntArray:
    """Count the ones in each bit position."""
    return np.asarray(coins.sum(axis=0, dtype=np.int64))


def _fair(test: str, ones: IntArray, tossed: int, share: float) -> AuditFinding:
    """Test each bit position as a fair coin over all numbers.

    The least likely position decides.
    """
    if tossed < 1 or 2.0 ** (1 - tossed) > share:
        return AuditFinding(test, "skipped", f"{tossed:,} numbers are too few to tell")
    p = np.minimum(2 * binom.cdf(np.minimum(ones, tossed - ones), tossed, 0.5), 1.0)
    worst = int(np.argmin(p))
    detail = f"bit {worst}: {ones[worst]:,} ones of {tossed:,}"
    return AuditFinding(test, "alarm" if p[worst] <= share else "pass", detail, float(p[worst]), share)


# ---- frames of sessions -----------------------------------------------------------------------------------


@final
@dataclass(eq=False)
class MaskedFrames:
    """All known frames of one session with keepers.

    They come from its transcripts, or were tapped from its wires.

    Attributes
    ----------
    reports, openings : dict
        Masked numbers by (agent or keeper, update), one for each different frame.
    closings : dict
        Digests by (coordinator, update).
    refused : int
        How many were no frames of this session, or not signed by their sender.
    """

    session: Session
    reports: Numbers = field(default_factory=dict)
    openings: Numbers = field(default_factory=dict)
    closings: Numbers = field(default_factory=dict)
    refused: int = 0

    def __post_init__(self) -> None:
        self._codec, self._known = Codec(self.session), set[bytes]()

    def add(self, frame: bytes) -> None:
        """Take a frame; the same one twice counts once."""
        message = self._codec.open(frame)
        if not isinstance(message, Message):
            self.refused += 1
            return
        if message.digest in self._known:
            return
        self._known.add(message.digest)
        match message.body:
            case Masked(update=u, numbers=numbers):
                self.reports.setdefault((message.sender, u), []).append(numbers)
            case Opening(round=u, numbers=numbers):
                self.openings.setdefault((message.sender, u), []).append(numbers)
            case Closing(round=u):
                self.closings.setdefault((message.sender, u), []).append(message.digest)

    @property
    def rounds(self) -> int:
        """How many updates were closed, or opened by a keeper."""
        return 1 + max((u for said in (self.closings, self.openings) for _, u in said), default=-1)


def read_masked(paths: Sequence[Path | str]) -> list[MaskedFrames]:
    """Read transcripts of sessions with keepers, one item per session."""
    found: dict[bytes, MaskedFrames] = {}
    for path in paths:
        reader = LineReader(path)
        data = decoded(reader.declared.get("session"))
        try:
            session = None if data is None else Session.decode(data)
        except (TacitError, ValueError, OverflowError):
            session = None
        if session is None or not session.keepers:
            raise FileError(
                f"{path} must declare a session with keepers in its first line: give another transcript."
            )
        frames = found.setdefault(session.id, MaskedFrames(session))
        for number, content in reader:
            if content is None:
                raise FileError(f"{path}, line {number}: every line must be one JSON object.")
            if "frame" in content:
                frames.add(decoded(content["frame"]) or b"")
    return list(found.values())


def frame_findings(sessions: Sequence[MaskedFrames], failure_probability: float) -> list[AuditFinding]:
    """Judge the frames of sessions of one kind.

    No sender may send two versions, and all numbers must look random.
    """
    widths = {(frames.session.mask_bytes, frames.session.components) for frames in sessions}
    if len(widths) != 1:
        raise FileError(
            "sessions that are judged together must have masked numbers of one length: audit them separately."
        )
    refused = sum(frames.refused for frames in sessions)
    wrong = f"{refused:,} frames are not signed by their sender, or not of this session"
    detail = wrong if refused else "all frames are signed by their senders"
    found = [AuditFinding("signed frames", "alarm" if refused else "pass", detail)]
    kinds = {"message": "reports", "closing": "closings", "opening": "openings"}
    for what, name in kinds.items():
        said = [answers for frames in sessions for answers in getattr(frames, name).values()]
        found.append(once_finding(f"one {what} per update", said))
    for name, rows in (("reports", "agent"), ("openings", "keeper")):
        found += _random_findings(sessions, name, rows, failure_probability / 2)
    return found


def _random_findings(
    sessions: Sequence[MaskedFrames], name: str, rows: str, failure_probability: float
) -> list[AuditFinding]:
    """Test the numbers of all sessions, one row per sender and session."""
    lines = [line for frames in sessions for line in _rows(getattr(frames, name))]
    if not lines:
        return [AuditFinding(name, "skipped", "there are none")]
    session = sessions[0].session
    width = session.mask_bytes
    assert width is not None
    columns = max(map(len, lines))
    most = max(1, min(session.components, _MOST_NUMBERS // (len(lines) * columns)))
    # Each component of a vector has rows of its own: neighbours are of the same component.
    table = np.zeros((most, len(lines), columns), dtype=object)
    there = np.zeros(table.shape, dtype=np.bool_)
    for row, line in enumerate(lines):
        for u, numbers in enumerate(line):
            for k in range(most if numbers is not None else 0):
                assert numbers is not None
                table[k, row, u] = int.from_bytes(numbers[k * width : (k + 1) * width], "big")
                there[k, row, u] = True
    span = 2 * max(max(frames.session.sum_limits) for frames in sessions)
    return mask_findings(
        table.reshape(-1, columns),
        width,
        failure_probability,
        there=there.reshape(-1, columns),
        span=span,
        name=name,
        rows=rows,
    )


def _rows(said: Numbers) -> Iterator[list[bytes | None]]:
    """Yield one row per sender; None where nothing was sent for an update."""
    last = 1 + max((u for _, u in said), default=-1)
    for sender in sorted({sender for sender, _ in said}):
        yield [said.get((sender, u), [None])[0] for u in range(last)]


def examine_masked(
    paths: Sequence[Path | str], *, name: str, adjacency: float = 1.0, failure_probability: float = 1e-6
) -> AuditReport:
    """Audit transcripts of sessions with keepers by their signed frames.

    Parameters
    ----------
    paths : sequence of paths
        Transcripts of one session, or of several that declare the same.
    name : str
        The subject's name, for the report.
    adjacency, failure_probability
        As for `tacit.lab.audit.examine`.
    """
    first = Declared(Path(paths[0]), LineReader(paths[0]).declared)
    for path in paths:
        if not first.same(LineReader(path).declared):
            raise FileError(
                f"{path} declares another mechanism than {first.path.name}: put them into separate folders."
            )
    sessions = read_masked(paths)
    keepers = len(sessions[0].session.keepers)
    unseen = f"no transcript shows it: `tacit audit --keepers {keepers}` tests keepers that you run yourself"
    return AuditReport(
        subject=name,
        declared=describe(first.mechanism),
        agent=0,
        distance=None,
        adjacency=adjacency,
        rounds=max(frames.rounds for frames in sessions),
        transcripts=len(sessions),
        failure_probability=failure_probability,
        promised=None,
        measured=None,
        findings=(
            *frame_findings(sessions, failure_probability),
            AuditFinding("noise", "skipped", unseen),
            AuditFinding("loss", "skipped", unseen),
        ),
        notes=(
            "Masked messages reveal nothing to an eavesdropper, unless their numbers fail the tests above.",
            ALL_KEEPERS if keepers > 1 else ONE_KEEPER,
        ),
    )
