"""Transcripts: whole lines, resumed without gaps, read by the auditor."""

import json
from itertools import pairwise

import numpy as np
import pytest
from tests.saving import Saving

from tacit.base.errors import FileError
from tacit.core.history.file import encoded, read_history
from tacit.core.protocol.messages import COORDINATOR, Reason, Report, Stop
from tacit.core.protocol.records import Ended, Evidence, Opened
from tacit.lab.audit import examine_folder
from tacit.live.ledger.group_commit import save_all
from tacit.live.runtime.transcript import Reading, TranscriptWriter, header, merge

PATH = ((0, 1), (1, 2), (2, 3))


def write(path, session, records, by=COORDINATOR, **how):
    with TranscriptWriter(path, session, by, **how) as writer:
        writer.take(records)
    return path.read_bytes()


@pytest.fixture
def game(played):
    return played(absent={1: [2], 2: [0, 1]})


def test_every_frame_is_there_in_order(game, tmp_path):
    path = tmp_path / "t.jsonl"
    write(path, game.session, game.kept[-1])
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0] == header(game.session, COORDINATOR)
    expected = []
    for t, reports in enumerate(game.reports):
        expected += [(t, i) for i in sorted(reports)] + [(t, None)]
    assert [(line["round"], line.get("agent")) for line in lines[1:]] == expected
    assert path.stat().st_mode & 0o777 == 0o644  # public


@pytest.mark.parametrize(("by", "edges"), [(-1, None), (0, None), (0, PATH)])
def test_cut_anywhere_and_resumed_it_is_the_same_file(played, tmp_path, by, edges):
    """A crash leaves any part of the file; the ledger restores the rest."""
    game = played(rounds=2, edges=edges)
    path, records = tmp_path / "t.jsonl", game.kept[by]
    sign = game.keys[by].sign
    whole = write(path, game.session, records, by, sign=sign)
    assert whole.count(b'"note": "done"') == (edges is not None)
    for cut in {
        *range(0, len(whole), 41),
        len(whole) - 1,
        len(whole),
        whole.index(b"\n"),
        whole.index(b"\n") + 1,
    }:
        path.write_bytes(whole[:cut])
        assert write(path, game.session, records, by, durable=False, sign=sign) == whole


def test_taken_step_by_step_or_at_once_is_the_same(game, tmp_path):
    whole = write(tmp_path / "a", game.session, game.kept[-1])
    with TranscriptWriter(tmp_path / "b", game.session) as writer:
        for record in game.kept[-1]:
            writer.take([record])
            writer.take([record])  # again: nothing more
    assert (tmp_path / "b").read_bytes() == whole
    assert writer.rounds == game.session.rounds


def test_a_ledger_comes_first(game, tmp_path):
    """What could not be saved is not published."""
    order = []

    class Disk:
        def append(self, *_, **__):
            order.append("saved")
            if len(order) > 2:
                raise OSError("no space")

    class Taker:
        def take(self, _):
            order.append("published")

    saving = Saving(Disk(), b"", [Opened(b"", ())], [Taker()])
    assert save_all([saving]) == [None]
    [error] = save_all([saving])
    assert isinstance(error, OSError)
    assert order == ["saved", "published", "saved"]


def test_evidence_and_ends_are_noted_once(game, tmp_path):
    key = game.keys[game.session.n]
    other = game.codec.seal(
        1, Report(0, game.session.exponent(1, 0), game.codec.pack((5,)), bytes(32)), game.keys[1].sign
    )
    records = [*game.kept[-1][:2], Evidence(1, 0, bytes(32), b"", other), Ended(2, Reason.OPERATOR)]
    path = tmp_path / "t.jsonl"
    first = write(path, game.session, records, sign=key.sign)
    assert write(path, game.session, records, sign=key.sign) == first
    notes = [line for line in map(json.loads, first.splitlines()) if "note" in line]
    assert [line["note"] for line in notes] == ["evidence", "stop"]
    sent = game.codec.seal(COORDINATOR, Stop(2, Reason.OPERATOR), key.sign)
    assert notes[-1]["frame"] == encoded(sent)


def test_another_session_or_writer_is_refused(played, tmp_path):
    path = tmp_path / "t.jsonl"
    write(path, played().session, played().kept[-1])
    with pytest.raises(FileError, match="another"):
        TranscriptWriter(path, played(rounds=2).session)
    with pytest.raises(FileError, match="another"):
        TranscriptWriter(path, played().session, by=1)
    with TranscriptWriter(path, played().session), pytest.raises(FileError, match="another process"):
        TranscriptWriter(path, played().session)
    path.write_bytes(path.read_bytes() + b"not json\n")
    with pytest.raises(FileError, match="damaged"):
        TranscriptWriter(path, played().session)


def test_foreign_frames_are_not_written(played, tmp_path):
    with (
        TranscriptWriter(tmp_path / "t.jsonl", played().session) as writer,
        pytest.raises(FileError, match="session"),
    ):
        writer.take(played(rounds=2).kept[-1])


@pytest.mark.parametrize(
    "text", ["", "{}\n", "[]\n", '{"tacit_transcript": 3}\n', '{"tacit_transcript": 2}\n']
)
def test_what_is_no_transcript_is_refused(tmp_path, text):
    path = tmp_path / "t.jsonl"
    path.write_text(text)
    with pytest.raises(FileError, match="must"):
        Reading(path)


def test_a_line_longer_than_any_is_passed_over(game, tmp_path, monkeypatch):
    """Memory is bounded, whatever is in the file."""
    from tacit.base import files

    path = tmp_path / "t.jsonl"
    whole = write(path, game.session, game.kept[-1]).splitlines(keepends=True)
    most = len(whole[0]) + 1
    monkeypatch.setattr(files, "LARGEST", most)
    path.write_bytes(b"".join([*whole[:3], b'"' + b"x" * (3 * most) + b'"\n', *whole[3:]]))
    lines = list(Reading(path))
    assert [line.number for line in lines if line.content is None] == [4]
    assert [line.content for line in lines if line.content is not None] == [json.loads(w) for w in whole[1:]]


def test_the_auditor_reads_it_as_it_is(game, played, tmp_path):
    write(tmp_path / "a.jsonl", game.session, game.kept[-1])
    found = read_history(tmp_path / "a.jsonl")
    assert found.mechanism.n == game.session.n
    said = [[i in reports for i in range(4)] for reports in game.reports]
    np.testing.assert_array_equal(found.said, said)
    for t, reports in enumerate(game.reports):
        for i, frame in reports.items():
            message = game.codec.open(frame)
            assert (found.wholes.x[t, i],) == message.numbers
            assert found.exponent[t, i] == message.body.exponent
        assert (found.wholes.y[t],) == game.codec.open(game.feedback[t]).numbers
    again = played(absent={1: [2], 2: [0, 1]}, seed=2)
    write(tmp_path / "b.jsonl", again.session, again.kept[-1])
    report = examine_folder(tmp_path)
    assert report.passed
    assert report.transcripts == 2


@pytest.mark.parametrize("one_shot", [False, True])
def test_peers_put_together_can_be_audited(played, tmp_path, one_shot):
    game = played(edges=PATH, one_shot=one_shot, absent={1: [2]})
    paths = [tmp_path / f"{i}.jsonl" for i in range(4)]
    for i, path in enumerate(paths):
        write(path, game.session, game.kept[i], by=i)
    (tmp_path / "all").mkdir()
    made = merge(paths, tmp_path / "all" / "session.jsonl")
    rounds = [json.loads(line)["round"] for line in made.read_text().splitlines()[1:]]
    assert all(a <= b for a, b in pairwise(rounds))
    assert len(rounds) == 4 * 4 + 15
    assert examine_folder(tmp_path / "all").passed
    other = tmp_path / "other.jsonl"
    write(other, played().session, played().kept[-1])
    with pytest.raises(FileError, match="one session"):
        merge([paths[0], other], tmp_path / "no.jsonl")
