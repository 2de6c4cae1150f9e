"""Make docs/reference/wire-vectors.json: test vectors of the wire format, for other languages.

``python -m docs.wire_vectors`` writes the file. It is the same on every machine: keys come from fixed seeds,
the noise is given, and everything else is arithmetic on whole numbers. tests/test_wire.py compares it.
"""

from __future__ import annotations

import json
import math
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from tests.doubles import (
    TRUCK,
    Harness,
    ScriptedNoise,
    known_ephemeral,
    known_key,
    known_series,
    known_session,
)

from tacit.core.law import OneShot
from tacit.core.law.geometric import fading_scale
from tacit.core.mechanism.lattice import Lattice
from tacit.core.mechanism.whole import nearest
from tacit.core.motion import Bounded
from tacit.core.protocol.codec import Codec, combined, digest, history
from tacit.core.protocol.masks import Party, agree, mask, public_key
from tacit.core.protocol.merkle import MerkleTree
from tacit.core.protocol.messages import (
    KINDS,
    NOTHING_HEARD,
    Ask,
    Body,
    Done,
    Message,
    Present,
    Reason,
    Receipt,
    Stop,
)
from tacit.core.protocol.moving import Moving
from tacit.core.protocol.places import LastUsed, state_leaf
from tacit.core.protocol.records import Closed, Disclosed, Ended, Keyed, Moved, Shut, Spoke
from tacit.core.protocol.roster import COORDINATOR, roster_leaf
from tacit.core.protocol.session import Session
from tacit.core.question import Count, GroupBy, Histogram, Mean, Question, Several
from tacit.live.runtime.transcript import TranscriptWriter
from tacit.live.verification.verdict import verify

FILE = Path(__file__).parent / "reference" / "wire-vectors.json"


def vectors() -> dict[str, Any]:
    """Return all vectors, as JSON has them. Bytes are written in hexadecimal."""
    server = known_session(3, 2, quorum=2)
    vector = known_session(2, 1, components=2, mixing=(0.5, 0.25), noise=(2.0, 3.0))
    ring = known_session(graph="path:3", rounds=2)
    once = known_session(2, 2, law="one-shot")
    kept = known_session(3, 2, quorum=2, keepers=2)
    kept_once = known_session(2, 3, components=2, law="one-shot", keepers=1)
    sessions = {"server": server, "vector": vector, "graph": ring, "one-shot": once}
    sessions |= {"keepers": kept, "keepers-one-shot": kept_once}
    sessions["open"] = known_session(3, 1, law="one-shot", quorum=2, keepers=1, closes=2_000_000_000)
    sessions["constant"] = known_session(2, 2, law="constant")
    sessions["metropolis"] = known_session(graph="path:3", rounds=2, weights="metropolis")
    counts = ((0, 0, 1), (0, 1, 2), (1, 0, 3), (1, 1, 4), (1, 2, 1), (2, 1, 1))  # agent 2 leaves itself out
    sessions["weights"] = known_session(graph="path:3", rounds=2, weights=counts)
    sessions["linear"] = _moving("scheduled", noise=8.0, further=(("table", (1.0, 0.625)),))
    sessions["linear-one-shot"] = _moving("one-shot", noise=1.0)
    bounds = Bounded((1.25, 1.25), 8.0)
    sessions["envelope"] = _moving("scheduled", bounds, noise=8.0, further=(("table", (1.0, 0.625)),))
    sessions["histogram"] = _asking(Histogram([0, 1, 2, math.inf]), keepers=1)
    sessions["several"] = _asking(Several([Count(), GroupBy(["a", "b"], Mean(0, 10))], [1, 2]))
    return {
        "about": "Test vectors of docs/reference/wire.md, made by docs/wire_vectors.py. Bytes are in hex.",
        "keys": {_name(i): _key(i) for i in (COORDINATOR, 0, 1, 2, 3, 4)},
        "messagepack": [_packed(value) for value in _VALUES],
        "sessions": {name: _session(session) for name, session in sessions.items()},
        "scales": [_scale(c, q, u) for c, q, u in _SCALES],
        "exponents": {name: _exponents(session) for name, session in sessions.items()},
        "means": [{"numerator": a, "denominator": b, "rounded": nearest(a, b)} for a, b in _QUOTIENTS],
        "digests": _digests(),
        "trees": [_tree(n) for n in (1, 2, 3, 5, 7, 8, 9)],
        "states": [_state(n) for n in (1, 3, 5)],
        "receipts": [_receipt(sessions["open"]), _receipt(server)],
        "masks": [_mask(kept, i, j) for i in (0, 2) for j in (3, 4)],
        "frames": {name: _frames(session) for name, session in sessions.items()},
        "transcripts": {name: _transcripts(session) for name, session in sessions.items()},
        "series": _series(),
    }


def _asking(question: Question, **more: Any) -> Session:
    grid = Lattice.fitting(OneShot(0.5, 2.0), 1, *question.box)
    about: dict[str, Any] = {
        "lattice": grid,
        "components": question.components,
        "adjacency": question.adjacency,
    }
    return known_session(2, 1, law="one-shot", asked=question, **about, **more)


def _moving(law: str, motion: Any = TRUCK, **more: Any) -> Session:
    """Agents with their own dynamics; numbers that no library has computed."""
    grid = Lattice(-10.0, 10.0, -60, 40, 16)
    about: dict[str, Any] = {"low": -10.0, "high": 10.0, "lattice": grid, "motion": Moving(motion)}
    return known_session(2, 2, law=law, **about, **more)


_RECORDS: dict[str, list[Any]] = {
    "histogram": [0.5, 7.0],
    "several": [(True, ("a", 2.5)), (False, ("c", 5.0))],
}


def _series() -> dict[str, Any]:
    """A series of four slots; agent 2 is missing in the first, and the last has too few messages."""
    made = known_series(3, 4, quorum=2)
    assert made.series is not None
    # Numbers that no library has computed: the bytes must be the same on every machine.
    series = msgspec.structs.replace(made.series, steps=2.0**33, exponent=-30)
    session = Session.of_series(
        series,
        **{name: getattr(made, name) for name in ("name", "roster", "coordinator", "keepers", "quorum")},
        deadlines=made.deadlines,
        expires=made.expires,
    )
    draws = np.array([((37 * k) % 23 - 11) << 30 for k in range(12)], dtype=object).reshape(4, 3)
    harness = Harness(session, [_reading(i) for i in range(3)], ScriptedNoise(draws))
    harness.start(COORDINATOR, 0, 1, *session.keeper_numbers)
    harness.run(lambda h: h.clock.now >= series.begin_of(1))
    harness.start(2)
    ledger = harness.ledgers[COORDINATOR]
    harness.run(lambda _: sum(isinstance(record, Closed) for record in ledger.records()) == 3)
    harness.stop(0)
    harness.stop(1)
    harness.run(lambda h: h.machine(COORDINATOR).ended, most=5000)
    codec, records = Codec(session), list(harness.ledgers[COORDINATOR].records())
    kinds = Closed | Shut
    frames = [_frame(codec, record.frame) for record in records if isinstance(record, kinds)]
    for number in (0, 3):
        said = [r for r in harness.ledgers[number].records() if isinstance(r, Spoke | Disclosed)]
        frames += [_frame(codec, record.frame) for record in said]
    return {
        "session": {"bytes": session.encode().hex(), "id": session.id.hex()},
        "frames": frames,
        "transcripts": [_judged(session, {COORDINATOR: records}, "everything that was used")],
    }


def _reading(i: int) -> Callable[[int], float]:
    return lambda slot: float(i + slot)


_VALUES = [
    None, 0, 1, 127, 128, 255, 256, 65535, 65536, 2**32 - 1, 2**32, -1, -32, -33, -128, -129, -32768, -32769,
    0.0, 0.75, -1.5, "", "fading", "x" * 32, b"", b"\0\1", bytes(256), [], [1, [0.5, None]], [0] * 16,
    {}, {"a": 1, "b": [0.5]}, {f"{k:x}": k for k in range(16)},
]  # fmt: skip
_SCALES = [(2.0, 0.75, 0), (2.0, 0.75, 5), (10.0, 0.6, 2), (1.0, 0.1, 30), (3.7, 0.99, 1000), (1.0, 0.5, 999)]
_QUOTIENTS = [(7, 2), (-7, 2), (5, 3), (-5, 3), (1, 2), (-1, 2), (3, 2), (-3, 2), (0, 5), (2**80 + 1, 2)]


def _name(i: int) -> str:
    return "coordinator" if i == COORDINATOR else f"agent-{i}"


def _key(i: int) -> dict[str, str]:
    key = known_key(i)
    return {"private": key.private_bytes_raw().hex(), "public": key.public_key().public_bytes_raw().hex()}


def _packed(value: Any) -> dict[str, str]:
    kinds = {
        type(None): "nil",
        int: "integer",
        float: "float64",
        str: "string",
        bytes: "bytes",
        list: "array",
        dict: "map",
    }
    shown = value.hex() if isinstance(value, bytes) else json.dumps(value)
    return {"type": kinds[type(value)], "value": shown, "bytes": msgspec.msgpack.encode(value).hex()}


def _session(session: Session) -> dict[str, Any]:
    canonical, rows = msgspec.msgpack.decode(session.encode())
    tree = session.roster_tree if session.edges is None else None
    leaves = [roster_leaf(i, member, session.own(i)) for i, member in enumerate(session.roster) if tree]
    return {
        "fields": _finite(json.loads(json.dumps(msgspec.msgpack.decode(canonical), default=bytes.hex))),
        "roster": json.loads(json.dumps(rows, default=bytes.hex)),
        "leaves": [{"leaf": leaf.hex(), "path": tree.path(i).hex()} for i, leaf in enumerate(leaves) if tree],
        "canonical": canonical.hex(),
        "bytes": session.encode().hex(),
        "id": session.id.hex(),
        "number_bytes": session.number_bytes,
        "limit": str(session.lattice.limit),
    }


def _finite(value: Any) -> Any:
    """Write infinite numbers as text: JSON has none."""
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_finite(entry) for entry in value]
    return str(value) if value in (math.inf, -math.inf) else value


def _scale(c: float, q: float, u: int) -> dict[str, Any]:
    scale = fading_scale(c, q, u)
    return {"c": c, "q": q, "u": u, "scale": struct.pack(">d", scale).hex(), "exponent": _log(scale)}


def _log(scale: float) -> int:
    return int(np.frexp(scale)[1]) - 1


def _exponents(session: Session) -> list[list[int]]:
    return [[session.exponent(i, u) for u in range(session.rounds)] for i in range(session.n)]


def _digests() -> dict[str, str]:
    a, b = b"a" * 32, b"b" * 32
    return {"combined": combined([a, b]).hex(), "history": history(history(NOTHING_HEARD, [a]), [b]).hex()}


def _tree(n: int) -> dict[str, Any]:
    tree = MerkleTree(f"leaf {i}".encode() for i in range(n))
    return {"leaves": n, "root": tree.root.hex(), "paths": [tree.path(i).hex() for i in range(n)]}


def _state(n: int) -> dict[str, Any]:
    """Who was used last, after agent 0 was in round 0, and every second agent in round 300."""
    state = LastUsed(n)
    state.use(0, {0: digest(b"a" * 96)})
    state.use(300, {i: digest(b"b" * 96) for i in range(1, n, 2)})
    places = [state.place(300, i) for i in range(n)]
    return {
        "agents": n,
        "members": state.members,
        "leaves": [state_leaf(i, place.last, place.digest).hex() for i, place in enumerate(places)],
        "state": state.root.hex(),
        "places": [msgspec.msgpack.encode(place).hex() for place in places],
    }


def _receipt(session: Session) -> dict[str, Any]:
    """A receipt; only a session that stays open has any, and others refuse it."""
    frame = Codec(session).seal(COORDINATOR, Receipt(0, digest(b"a" * 96)), known_key(COORDINATOR).sign)
    accepted = isinstance(Codec(session).open(frame), Message)
    assert accepted is (session.closes is not None)
    return {
        "session": session.id.hex(),
        "accepted": accepted,
        "sender": COORDINATOR,
        "kind": 12,
        "round": 0,
        "report": digest(b"a" * 96).hex(),
        "frame": frame.hex(),
    }


def _mask(session: Session, i: int, j: int) -> dict[str, Any]:
    """The secret of agent i and keeper j, and masks that follow from it."""
    own, theirs = known_ephemeral(i), known_ephemeral(j)
    agent, keeper = (
        Party(session.member_name(k), session.key(k), public_key(known_ephemeral(k))) for k in (i, j)
    )
    secret = agree(own, public_key(theirs), session=session.id, agent=agent, keeper=keeper)
    salt = bytes(range(32))
    return {
        "agent": i,
        "keeper": j,
        "ephemeral": {_name(k): known_ephemeral(k).hex() for k in (i, j)},
        "public": {_name(k): public_key(known_ephemeral(k)).hex() for k in (i, j)},
        "secret": secret.hex(),
        "salt": salt.hex(),
        "masks": [{"update": u, "bytes": mask(secret, u, salt, 36).hex()} for u in (0, 1, 300)],
    }


def _played(session: Session) -> Harness:
    """Play a session with noise that was decided before."""
    shape = (session.rounds, session.n) + ((session.components,) if session.components > 1 else ())
    draws = np.array([((37 * k) % 23 - 11) << 36 for k in range(int(np.prod(shape)))], dtype=object)
    draws = draws.reshape(shape)
    if session.law == "one-shot":
        draws[1:] = 0
    values: Any = [0.25 + i / 8 for i in range(session.n)]
    if session.components > 1:
        values = [[value, 0.5] for value in values]
    if session.asked is not None:
        values = _RECORDS[session.asked.kind]
    own = session.motion is not None and isinstance(session.motion.motion, Bounded)
    harness = Harness(session, values, ScriptedNoise(draws), motion=Moving(TRUCK) if own else None)
    harness.start()
    assert harness.run()
    return harness


def _frames(session: Session) -> list[dict[str, Any]]:
    codec, found = Codec(session), list[dict[str, Any]]()
    harness = _played(session)
    for number in harness.numbers:
        records = harness.ledgers[number].records()
        kinds = Spoke | Closed | Shut | Disclosed
        found += [_frame(codec, record.frame) for record in records if isinstance(record, kinds)]
        found += [_frame(codec, r.frame) for r in records if isinstance(r, Keyed) and r.member == number]
    sender = COORDINATOR if session.coordinator is not None else 1
    said: list[tuple[int, Body]] = [(0, Present(0)), (sender, Ask(0)), (sender, Stop(0, Reason.OPERATOR))]
    said.append((0, Done(session.rounds, bytes(range(32)))))
    if sender == COORDINATOR:
        said.append((sender, LastUsed(session.n).place(0, 1)))
    if session.closes is not None:
        said.append((sender, Receipt(0, digest(b"a" * 96))))
    return found + [_frame(codec, codec.seal(i, body, known_key(i).sign)) for i, body in said]


def _frame(codec: Codec, frame: bytes) -> dict[str, Any]:
    message = codec.open(frame)
    assert isinstance(message, Message)
    fields = {name: getattr(message.body, name) for name in message.body.__struct_fields__}
    found: dict[str, Any] = {"sender": message.sender, "kind": int(KINDS[type(message.body)])}
    found |= {"body": json.loads(json.dumps(fields, default=bytes.hex))}
    if message.numbers:
        found["numbers"] = [str(number) for number in message.numbers]
    return found | {"digest": digest(frame).hex(), "frame": frame.hex()}


def _transcripts(session: Session) -> list[dict[str, Any]]:
    harness = _played(session)
    records = {number: list(harness.ledgers[number].records()) for number in harness.numbers}
    first = COORDINATOR if session.coordinator is not None else 0
    every = [COORDINATOR] if first == COORDINATOR else list(harness.numbers)
    last = next(k for k, record in enumerate(records[first]) if isinstance(record, Closed | Moved)) + 1
    ended = [*records[first][:last], Ended(1, Reason.OPERATOR)]
    kept = [_judged(session, {number: records[number] for number in every}, "everything that was used")]
    kept.append(_judged(session, {first: records[first][:last]}, "cut off after the first mean"))
    if first == COORDINATOR and session.exchanges > 1:
        kept.append(_judged(session, {first: ended}, "ended by the coordinator after the first round"))
    kept.append(_judged(session, {0: records[0]}, "one agent's alone"))
    changed = _judged(session, {number: records[number] for number in every}, "one number changed in words")
    changed["files"][0] = [line.replace('"exponent": -', '"exponent": -1') for line in changed["files"][0]]
    return [*kept, _judge(changed)]


def _judged(session: Session, records: dict[int, list[Any]], what: str) -> dict[str, Any]:
    files = []
    with tempfile.TemporaryDirectory() as folder:
        for number, own in records.items():
            path = Path(folder) / f"{number}.jsonl"
            with TranscriptWriter(
                path, session, number, durable=False, sign=known_key(number).sign
            ) as writer:
                writer.take(own)
            files.append(path.read_text(encoding="utf-8").splitlines())
    return _judge({"what": what, "files": files})


def _judge(case: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{k}.jsonl" for k in range(len(case["files"]))]
        for path, lines in zip(paths, case["files"], strict=True):
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        verdict, running = verify(paths), verify(paths, running=True)
    result = None if verdict.result is None else list(verdict.result)
    findings = sorted({finding.name for finding in verdict.findings})
    judged = {"verdict": verdict.word, "running": running.word, "rounds": verdict.rounds, "result": result}
    means = {} if verdict.series is None else {"means": list(verdict.series.means)}
    return case | judged | means | {"findings": findings}


def text() -> str:
    """Return the file as it must be."""
    return json.dumps(vectors(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
