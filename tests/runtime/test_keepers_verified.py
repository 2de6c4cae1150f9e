"""Transcripts with keepers: recomputed exactly, contradictions proved."""

import base64
import json

import msgspec
import numpy as np
import pytest
from tests.doubles import Harness, ScriptedNoise, known_key, known_session
from tests.runtime.builders import lines_of, names

from tacit.base.errors import FileError, StateError
from tacit.core.history.file import read_history
from tacit.core.protocol.codec import Codec
from tacit.core.protocol.messages import COORDINATOR, Closing, Key, Opening
from tacit.core.protocol.records import Evidence
from tacit.core.theory import influence
from tacit.live.runtime.transcript import TranscriptWriter
from tacit.live.verification.verdict import verify

EVERYONE = (COORDINATOR, 0, 1, 2, 3, 4)


def played(**more):
    session = known_session(3, 3, **{"keepers": 2, "quorum": 2, **more})
    rng = np.random.default_rng(1)
    shape = (3, 3) if session.components == 1 else (3, 3, session.components)
    draws = np.array([int(v) for v in rng.integers(-(2**40), 2**40, size=shape).ravel()], dtype=object)
    values = [0.25, 0.5, 1.0] if session.components == 1 else [[v] * session.components for v in (0, 0.5, 1)]
    harness = Harness(session, values, ScriptedNoise(draws.reshape(shape)))
    harness.start()
    assert harness.run(Harness.finished)
    return harness


@pytest.fixture(scope="module")
def harness():
    return played()


def written(harness, folder, number=COORDINATOR, extra=()):
    path = folder / f"{number}.jsonl"
    sign = known_key(number).sign
    with TranscriptWriter(path, harness.session, number, durable=False, sign=sign) as writer:
        writer.take([*harness.ledgers[number].records(), *extra])
    return path


def rewritten(path, change):
    """Write a transcript again, with lines kept, changed or left out."""
    first, *lines = lines_of(path)
    kept = [new for line in lines if (new := change(line)) is not None]
    path.write_text("".join(json.dumps(line) + "\n" for line in (first, *kept)))
    return path


@pytest.mark.parametrize("more", [{}, {"law": "one-shot"}, {"components": 6}, {"keepers": 1}], ids=str)
def test_a_session_is_sound_and_its_feedback_is_recomputed(tmp_path, more):
    harness = played(**more)
    verdict = verify(written(harness, tmp_path), session=harness.session)
    assert verdict.word == "sound", verdict.findings
    assert names(verdict) == {"masks-unproved"}
    assert verdict.means == verdict.rounds == harness.session.exchanges
    assert verdict.used == ((0, 1, 2),) * harness.session.exchanges
    assert verdict.accuracy.radius > 0
    assert verdict.losses == tuple(harness.session.account(i).total for i in range(3))


def test_all_files_together_are_sound(harness, tmp_path):
    paths = [written(harness, tmp_path, number) for number in EVERYONE]
    verdict = verify(paths)
    assert verdict.word == "sound", verdict.findings


def test_a_writer_goes_on_where_it_was(harness, tmp_path):
    path = written(harness, tmp_path)
    before = path.read_bytes()
    assert written(harness, tmp_path).read_bytes() == before


@pytest.mark.parametrize("more", [{}, {"law": "one-shot"}, {"components": 6}], ids=str)
def test_a_transcript_is_read_as_the_history_that_its_frames_prove(tmp_path, more):
    harness = played(**more)
    path = written(harness, tmp_path)
    proved, read = verify(path).history, read_history(path)
    assert (read.mechanism.keepers, read.rounds) == (2, harness.session.exchanges)
    for name in ("x", "y", "said", "rounds_of", "update", "exponent", "used"):
        assert np.array_equal(getattr(read, name), getattr(proved, name)), name
    assert np.array_equal(read.wholes.y, proved.wholes.y)
    mine, theirs = (influence.of(history).feedback().radius(0.05) for history in (read, proved))
    assert mine == theirs
    with pytest.raises(StateError, match="keepers"):
        read.of(0)


def test_masked_messages_are_not_read_as_numbers(harness, tmp_path):
    path = written(harness, tmp_path)
    assert not any("x" in line for line in lines_of(path))
    number = next(k for k, line in enumerate(lines_of(path), start=1) if line.get("agent") == 0)
    rewritten(path, lambda line: {**line, "x": 1} if line.get("agent") == 0 else line)
    with pytest.raises(FileError, match=f"line {number}"):
        read_history(path)


GONE = {
    "missing-report": lambda line: None if "keeper" in line and line["round"] == 1 else line,
    "missing-key": lambda line: None if line.get("note") == "key" else line,
    "missing-round": lambda line: None if line.get("round") == 1 else line,
}


@pytest.mark.parametrize("name", GONE)
def test_what_is_missing_is_named(harness, tmp_path, name):
    verdict = verify(rewritten(written(harness, tmp_path), GONE[name]))
    assert verdict.word != "sound"
    assert name in names(verdict)


def signed(harness, sender, body):
    return base64.b64encode(Codec(harness.session).seal(sender, body, known_key(sender).sign)).decode()


def changed(harness, line, sender, **fields):
    """The line with its frame changed and signed anew by its own sender."""
    body = Codec(harness.session).open(base64.b64decode(line["frame"])).body
    return {**line, "frame": signed(harness, sender, msgspec.structs.replace(body, **fields))}


def test_an_opening_that_is_not_the_one_used_is_found(harness, tmp_path):
    def lie(line):
        if line.get("keeper") == 3 and line["round"] == 0:
            return changed(harness, line, 3, numbers=bytes(harness.session.masked_bytes))
        return line

    assert {"wrong-reports", "wrong-mean"} <= names(verify(rewritten(written(harness, tmp_path), lie)))


def test_a_feedback_that_does_not_follow_is_found(harness, tmp_path):
    def lie(line):
        if "y" in line and line["round"] == 2:
            numbers = Codec(harness.session).pack([line["y"] + 1])
            return {**changed(harness, line, COORDINATOR, numbers=numbers), "y": line["y"] + 1}
        return line

    assert "wrong-mean" in names(verify(rewritten(written(harness, tmp_path), lie)))


WRONG = {
    "wrong-closing": ("closing", COORDINATOR, {"heard": b"h" * 32}),
    "wrong-keys": ("closing", COORDINATOR, {"keys": b"k" * 32}),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_closing_that_does_not_fit_is_found(harness, tmp_path, name):
    word, sender, fields = WRONG[name]

    def lie(line):
        return changed(harness, line, sender, **fields) if word in line and line["round"] == 0 else line

    assert name in names(verify(rewritten(written(harness, tmp_path), lie)))


def contradiction(harness, kind):
    codec = Codec(harness.session)
    if kind == "key":
        sender, body = 1, Key(b"\x09" + bytes(31))
    elif kind == "opening":
        sender, body = 4, Opening(1, bytes(harness.session.masked_bytes), bytes(32), bytes(32))
    else:
        bits = codec.bitmap((0, 1))
        sender, body = COORDINATOR, Closing(1, bits, 2, bytes(32), bytes(32), bytes(32), bytes(64))
    frame = codec.seal(sender, body, known_key(sender).sign)
    return sender, Evidence(sender, 1, bytes(32), b"", frame)


@pytest.mark.parametrize("kind", ["key", "opening", "closing"])
def test_who_said_two_things_is_proved(harness, tmp_path, kind):
    sender, evidence = contradiction(harness, kind)
    verdict = verify(written(harness, tmp_path, extra=[evidence]))
    assert verdict.word == "unsound"
    assert verdict.equivocators == (harness.session.member_name(sender),)


def test_a_keeper_proves_that_it_was_told_something_else(harness, tmp_path):
    """Its own file has the closings that it answered; another contradicts."""
    path = written(harness, tmp_path, 3)
    assert {line.get("note") for line in lines_of(path)[1:]} == {"key", "said"}
    _, evidence = contradiction(harness, "closing")

    def lie(line):
        frame = base64.b64decode(line["frame"])
        said = Codec(harness.session).open(frame).body
        if isinstance(said, Closing) and said.round == 1:
            return {**line, "frame": base64.b64encode(evidence.second).decode()}
        return line

    verdict = verify([written(harness, tmp_path), rewritten(path, lie)])
    assert verdict.equivocators == ("coordinator",)
