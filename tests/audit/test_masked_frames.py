"""Masked numbers as they were sent: the frames of real machines pass, and every planted bug is caught.

False alarms have probability 1e-6; what is planted is found for certain, or but for 1e-6.
"""

import base64
import json

import numpy as np
import pytest
from click.testing import CliRunner
from tests.doubles import Harness, ScriptedNoise, known_key, known_session

from tacit.base.errors import FileError
from tacit.cli import main
from tacit.core.law import Fading
from tacit.core.mechanism import ClientServer
from tacit.core.protocol import keeper as keeper_module
from tacit.core.protocol import private_state
from tacit.core.protocol.codec import Codec
from tacit.core.protocol.masks import mask
from tacit.core.protocol.messages import COORDINATOR, NOTHING_HEARD, Closing, Masked, Opening
from tacit.core.protocol.records import Evidence
from tacit.lab.audit import Simulated, examine_files, examine_folder, write_folder
from tacit.lab.audit.masked_frames import MaskedFrames, frame_findings, mask_findings
from tacit.live.runtime.transcript import TranscriptWriter

LENGTH = 20


def played(rounds=3, components=LENGTH, **more):
    """Play a session; at 3 agents and 3 rounds its coordinator has 9 reports of 20 numbers."""
    session = known_session(3, rounds, keepers=2, components=components, **more)
    draws = np.random.default_rng(1).integers(-(2**40), 2**40, size=(rounds, 3, components))
    draws = draws if components > 1 else draws[:, :, 0]
    value = [[v] * components for v in (0.25, 0.5, 1.0)] if components > 1 else [0.25, 0.5, 1.0]
    harness = Harness(session, value, ScriptedNoise(draws.astype(object)))
    harness.start()
    assert harness.run(Harness.finished)
    return harness


def written(harness, path, extra=()):
    with TranscriptWriter(path, harness.session, durable=False, sign=known_key(COORDINATOR).sign) as writer:
        writer.take([*harness.ledgers[COORDINATOR].records(), *extra])
    return path


def alarms(report):
    return {finding.test for finding in report.alarms}


def test_the_frames_of_a_session_pass(tmp_path):
    report = examine_files([written(played(), tmp_path / "a.jsonl")])
    assert report.passed, report.alarms
    looked = {finding.test for finding in report.findings if finding.verdict == "pass"}
    assert {
        "signed frames",
        "one message per update",
        "one closing per update",
        "one opening per update",
    } <= looked
    assert {"reports: reuse", "reports: bits", "openings: reuse", "openings: bits"} <= looked
    assert (report.rounds, report.transcripts) == (3, 1)
    assert "2 keepers" in report.declared
    assert any("no protection at all" in note for note in report.notes)


# ---- masks that are not what they should be ---------------------------------------------------------------


def without_update(key, _update, _salt, length):
    return mask(key, 0, NOTHING_HEARD, length)


def even(key, update, salt, length):
    data = bytearray(mask(key, update, salt, length))
    width = length // LENGTH
    data[width - 1 :: width] = bytes(byte & 0xFE for byte in data[width - 1 :: width])
    return bytes(data)


def one_for_all(_key, update, _salt, length):
    return mask(bytes(32), update, NOTHING_HEARD, length)


def one_for_components(key, update, salt, length):
    return mask(key, update, salt, length // LENGTH) * LENGTH


def short(key, update, salt, length):
    """A mask that leaves the highest two bytes of each number as they are."""
    width = length // LENGTH
    data = bytearray(mask(key, update, salt, length))
    for k in range(0, length, width):
        data[k : k + 2] = bytes(2)
    return bytes(data)


@pytest.mark.parametrize(
    ("bug", "caught"),
    [
        (without_update, {"reports: reuse", "reports: from one update to the next", "openings: reuse"}),
        (one_for_all, {"reports: reuse", "reports: from one agent to the next"}),
        (one_for_components, {"reports: reuse", "openings: reuse"}),
        (short, {"reports: bits", "openings: bits"}),
    ],
)
def test_a_wrong_mask_is_caught(tmp_path, monkeypatch, bug, caught):
    monkeypatch.setattr(private_state, "mask", bug)
    monkeypatch.setattr(keeper_module, "mask", bug)
    report = examine_files([written(played(), tmp_path / "a.jsonl")])
    assert caught <= alarms(report), report.alarms


def test_low_bits_without_a_mask_are_caught(monkeypatch, tmp_path):
    """The lowest bit of the number under the mask shows: it is 0 for values like these."""
    monkeypatch.setattr(private_state, "mask", even)
    monkeypatch.setattr(keeper_module, "mask", even)
    report = examine_files([written(played(rounds=1), tmp_path / "a.jsonl")])
    assert "reports: bits" in alarms(report)


def test_two_numbers_under_one_mask_are_enough():
    """The numbers under it may differ; two random ones are as near to each other once in 2^39."""
    span = 2**40
    table = [[5 + 2**90], [5 + 2**90 + span]]
    (reuse, *_) = mask_findings(table, 12, 1e-6, span=span)
    assert (reuse.verdict, reuse.p_value < 1e-10) == ("alarm", True)
    (reuse, *_) = mask_findings([[3], [2**96 - 7]], 12, 1e-6, span=span)
    assert reuse.verdict == "alarm"  # numbers count modulo 2^96
    (reuse, *others) = mask_findings([[5], [5 + 2**60]], 12, 1e-6, span=span)
    assert (reuse.verdict, reuse.p_value) == ("pass", 1)  # nothing was found, so nothing is unlikely
    assert {finding.verdict for finding in others} == {"skipped"}  # two numbers have no statistics


def test_what_was_not_said_counts_for_nothing():
    rng = np.random.default_rng(1)
    table = [[int.from_bytes(rng.bytes(8), "big") for _ in range(40)] for _ in range(3)]
    there = rng.random((3, 40)) < 0.7
    gaps = np.where(there, np.array(table, dtype=object), 0)
    found = mask_findings(gaps, 8, 1e-6, there=there)
    assert [finding.verdict for finding in found] == ["pass"] * 4
    assert f"of {there.sum()}" in found[0].detail
    assert mask_findings(gaps, 8, 1e-6)[0].verdict == "alarm"


# ---- who says two things --------------------------------------------------------------------------------


def second(harness, kind):
    codec, session = Codec(harness.session), harness.session
    nothing = bytes(32)
    if kind == "opening":
        sender, body = 4, Opening(1, bytes(session.masked_bytes), nothing, nothing)
    elif kind == "closing":
        sender, body = (
            COORDINATOR,
            Closing(1, codec.bitmap((0, 1, 2)), 3, nothing, nothing, nothing, bytes(96)),
        )
    else:
        step = session.exponent(0, 1)
        sender, body = 1, Masked(1, step, bytes(session.masked_bytes), nothing, nothing, nothing)
    return Evidence(sender, 1, nothing, b"", codec.seal(sender, body, known_key(sender).sign))


@pytest.mark.parametrize("kind", ["opening", "closing", "message"])
def test_a_second_answer_is_caught(tmp_path, kind):
    harness = played()
    path = written(harness, tmp_path / "a.jsonl", [second(harness, kind)])
    assert alarms(examine_files([path])) == {f"one {kind} per update"}


def test_frames_that_nobody_signed_are_caught(tmp_path):
    path = written(played(), tmp_path / "a.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    frame = bytearray(base64.b64decode(lines[-1]["frame"]))
    frame[-1] ^= 1
    lines[-1]["frame"] = base64.b64encode(frame).decode()
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert alarms(examine_files([path])) == {"signed frames"}


# ---- several files, and the command ---------------------------------------------------------------------


def test_files_of_one_session_count_once_and_sessions_add_up(tmp_path):
    harness, other = played(), played(quorum=3)
    for number in (COORDINATOR, 0, 3):
        with TranscriptWriter(tmp_path / f"{number}.jsonl", harness.session, number, durable=False) as writer:
            writer.take(harness.ledgers[number].records())
    report = examine_folder(tmp_path)
    assert (report.passed, report.transcripts) == (True, 1)
    written(other, tmp_path / "other.jsonl")
    report = examine_folder(tmp_path)
    # Keys are known in tests, so that both sessions would have the same masks if their ids were the same.
    assert (report.passed, report.transcripts) == (True, 2)


def test_what_cannot_be_judged_is_refused(tmp_path):
    path = written(played(), tmp_path / "a.jsonl")
    with pytest.raises(FileError, match="another mechanism"):
        examine_files([path, written(played(noise=3.0), tmp_path / "b.jsonl")])
    with pytest.raises(FileError, match="one length"):
        frame_findings([MaskedFrames(played(components=k).session) for k in (1, 2)], 1e-6)
    kept = ClientServer(Fading(0.8, 10, 0.6), agents=3, keepers=2)
    for name in ("one", "two"):
        write_folder(tmp_path / "pair" / name, kept.execute(np.zeros(3), np.zeros((2, 2))), np.zeros(3))
    with pytest.raises(FileError, match="no transcript shows what an agent loses"):
        examine_folder(tmp_path / "pair")
    with pytest.raises(FileError, match="must declare a session with keepers"):
        examine_folder(tmp_path / "pair" / "one")


@pytest.fixture
def run():
    def invoke(*words, code=0):
        result = CliRunner().invoke(main, ["audit", *map(str, words)])
        assert "Traceback" not in result.output
        assert result.exit_code == code, result.output
        return result

    return invoke


def test_the_command_takes_a_transcript(run, tmp_path):
    harness = played()
    path = written(harness, tmp_path / "a.jsonl")
    assert run(path).stdout.startswith("PASS: a.jsonl (3 agents around a server with 2 keepers")
    assert "leave --keepers out" in run(path, "--keepers", 2, code=2).stderr
    assert "give nothing beside it" in run(path, tmp_path, code=2).stderr
    bad = written(harness, tmp_path / "b.jsonl", [second(harness, "opening")])
    assert run(bad, code=1).stdout.startswith("ALARM: b.jsonl")
    plain = ClientServer(Fading(0.8, 10, 0.6), agents=3)
    write_folder(tmp_path / "plain", Simulated(plain)([1, 2, 3.0], 4, 2, 1))
    report = run(tmp_path / "plain" / "000000.jsonl").stdout
    assert report.startswith("PASS: 000000.jsonl")
    assert "eavesdropper can locate" in report
