"""Files that are not what they seem, and files that must not be touched."""

import json
import os
from pathlib import Path

import pytest

from tacit.base.errors import FileError, InputError, LedgerError
from tacit.cli.notice_log import NoticeLog
from tacit.cli.status_place import StatusPlace
from tacit.core.protocol.messages import COORDINATOR
from tacit.live.ledger.ledger import Ledger
from tacit.live.runtime.process_notices import StatusServed
from tacit.live.runtime.transcript import TranscriptWriter


@pytest.mark.parametrize("content", [b"21.5", b"line\n21.5", b"SQLite format 3\0\n\0\0", b"{}\n{}"])
def test_a_file_that_is_no_transcript_is_not_touched(played, tmp_path, content):
    """`--transcript` with the name of the value's file, or of the ledger, must not cost the owner either."""
    path = tmp_path / "precious"
    path.write_bytes(content)
    with pytest.raises(FileError):
        TranscriptWriter(path, played(rounds=4).session, durable=False)
    assert path.read_bytes() == content


def test_a_transcript_whose_first_line_was_cut_short_is_begun_again(played, tmp_path):
    game, path = played(rounds=4), tmp_path / "t.jsonl"
    with TranscriptWriter(path, game.session, durable=False) as writer:
        writer.take(game.kept[COORDINATOR])
    whole = path.read_bytes()
    for cut in (1, 100, whole.index(b"\n"), whole.index(b"\n") + 1, len(whole) - 5):
        path.write_bytes(whole[:cut])
        with TranscriptWriter(path, game.session, durable=False) as writer:
            writer.take(game.kept[COORDINATOR])
        assert path.read_bytes() == whole


def test_a_mark_that_is_a_link_is_not_followed(folder):
    """In a directory of others a link could make us overwrite a private file of our own."""
    key = folder / "id_ed25519"
    key.write_bytes(b"k" * 2000)
    key.chmod(0o600)
    for link in (os.symlink, os.link):
        beside = folder / "me.ledger.mark"
        link(key, beside)
        with pytest.raises(LedgerError):
            Ledger(folder / "me.ledger")
        assert key.read_bytes() == b"k" * 2000
        beside.unlink()


def test_a_ledger_is_not_kept_where_everyone_may_replace_it(folder):
    folder.chmod(0o777)
    with pytest.raises(LedgerError, match="others may replace"):
        Ledger(folder / "me.ledger")
    assert list(folder.iterdir()) == []
    folder.chmod(0o1777)  # as of /tmp: others may add files, and not replace ours
    Ledger(folder / "me.ledger").close()


def test_a_ledger_s_files_are_closed_to_others_at_all_times(folder):
    """Whatever the umask, and also while SQLite has files of its own beside it."""
    before = os.umask(0)
    try:
        with Ledger(folder / "me.ledger") as ledger:
            ledger.reserve(b"s" * 32, "meter", planned=1.0, adjacency=1.0, diameter=1.0, cap=1.0)
            modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    finally:
        os.umask(before)
    assert set(modes) == {"me.ledger", "me.ledger-wal", "me.ledger.mark"}
    assert set(modes.values()) == {0o600}


def test_log_ledger_and_transcript_are_different_files(tmp_path):
    from tacit.cli.running import Options

    def options(**paths):
        return Options(**{"ledger": tmp_path / "l", "transcript": None, "log": None, **paths}, **rest)

    rest = {"place": StatusPlace(), "pace": 0.0, "timeout": None}
    options(log=tmp_path / "log", transcript=tmp_path / "t").require_apart()
    (tmp_path / "other").symlink_to(tmp_path / "l")
    for paths in ({"log": tmp_path / "l"}, {"transcript": tmp_path / "other"}, {"log": tmp_path / "l.mark"}):
        with pytest.raises(InputError, match="must be different files"):
            options(**paths).require_apart()


# ---- logs and transcripts touch only their own files ---------------------------------------------------


def planted(tmp_path, kind):
    """A precious file, and a path that leads to it."""
    precious, path = tmp_path / "authorized_keys", tmp_path / "planted"
    precious.write_bytes(b"ssh-ed25519 AAAA\n")
    match kind:
        case "link":
            path.symlink_to(precious)
        case "hard link":
            os.link(precious, path)
        case "itself":
            path = precious
        case "dangling link":
            precious.unlink()
            path.symlink_to(precious)
        case "empty link":
            precious.write_bytes(b"")
            path.symlink_to(precious)
        case "empty hard link":
            precious.write_bytes(b"")
            os.link(precious, path)
        case "fifo":
            os.mkfifo(path)
        case "device":
            path = Path("/dev/null")
    return precious, path


KINDS = ["link", "hard link", "itself", "dangling link", "empty link", "empty hard link", "fifo", "device"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_transcript_is_written_to_a_plain_file_of_its_own(played, tmp_path, kind):
    precious, path = planted(tmp_path, kind)
    before = precious.read_bytes() if precious.exists() else None
    with pytest.raises(FileError):
        TranscriptWriter(path, played(rounds=4).session, durable=False)
    assert (precious.read_bytes() if precious.exists() else None) == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_log_is_written_to_a_plain_file_of_its_own(played, tmp_path, kind):
    precious, path = planted(tmp_path, kind)
    before = precious.read_bytes() if precious.exists() else None
    with pytest.raises(InputError):
        NoticeLog(path, {}, played(rounds=4).session)
    assert (precious.read_bytes() if precious.exists() else None) == before


def test_a_log_goes_on_where_it_was(played, tmp_path):
    session, path = played(rounds=4).session, tmp_path / "a.log"
    for _ in range(2):
        with NoticeLog(path, {"id": "1234"}, session) as log:
            log(StatusServed("http://127.0.0.1:1"))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["event"] for line in lines] == ["log", "status", "status"]
    assert [line["id"] for line in lines] == ["1234"] * 3
    assert path.stat().st_nlink == 1


def test_keys_values_and_ledgers_are_never_appended_to(world, played, tmp_path):
    with Ledger(tmp_path / "a.ledger"):
        pass
    (tmp_path / "value").write_bytes(b"21.5\n")
    private = [tmp_path / name for name in ("a.ledger", "a.ledger.mark", "value")]
    private += [file for file in (world.folder / "keys" / "a0").iterdir() if file.is_file()]
    assert len(private) > 5
    for path in private:
        before = path.read_bytes()
        with pytest.raises(InputError):
            NoticeLog(path, {}, played(rounds=4).session)
        with pytest.raises(InputError):
            TranscriptWriter(path, played(rounds=4).session, durable=False)
        assert path.read_bytes() == before
