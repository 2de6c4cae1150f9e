"""The one writer of whole files, and the one journal of lines."""

import os
from contextlib import suppress

import pytest

from tacit.base import files
from tacit.base.errors import FileError


def stopped_while_writing(path):
    with files.whole_file(path) as part:
        part.write_text("half")
        raise KeyboardInterrupt


def test_a_whole_file_or_what_was_there(tmp_path):
    path = tmp_path / "a.txt"
    with files.whole_file(path) as part:
        part.write_text("first")
        assert not path.exists()
    with pytest.raises(KeyboardInterrupt):
        stopped_while_writing(path)
    assert path.read_text() == "first"
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("mode", [0o600, 0o644, None])
def test_a_file_has_the_mode_that_was_asked_for(tmp_path, mode):
    path = tmp_path / "a"
    files.write_whole(path, b"one", mode=mode)
    assert path.stat().st_mode & 0o777 == (mode or _umasked(tmp_path))
    with pytest.raises(FileError, match="exists already"):
        files.write_whole(path, b"two", mode=mode)
    files.write_whole(path, b"two", mode=mode, force=True)
    assert path.read_bytes() == b"two"
    assert [each.name for each in tmp_path.iterdir() if each.name.endswith(".part")] == []


def _umasked(folder):
    """The mode that the umask leaves to a file that is simply opened."""
    probe = folder / "probe"
    probe.write_bytes(b"")
    return probe.stat().st_mode & 0o777


def test_a_folder_in_the_place_of_a_file_does_not_stay_open(tmp_path):
    """A running member reads its files again and again: it would run out of descriptors."""
    for read in (files.read_public, files.read_private):
        with pytest.raises(FileError):
            read(tmp_path)
    held = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # it was the one that listed them
            held.append(os.readlink(f"/proc/self/fd/{number}"))
    assert str(tmp_path) not in held


# ---- lines --------------------------------------------------------------------------------------------

LINES = [b"first\n", b"second\n", b"third\n"]


@pytest.fixture
def journal(tmp_path):
    """Open a journal of these bytes; closed at the end."""
    path, opened = tmp_path / "j", []

    def make(content=b""):
        path.write_bytes(content)
        opened.append(os.open(path, os.O_RDWR))
        return path, files.LineJournal(path, opened[-1])

    yield make
    for descriptor in opened:
        os.close(descriptor)


@pytest.mark.parametrize("kept", range(len(b"".join(LINES)) + 1))
def test_a_journal_goes_on_after_its_last_whole_line(journal, kept):
    path, book = journal(b"".join(LINES)[:kept])
    assert book.begin(LINES[0])
    whole = [line for line in book if line.endswith(b"\n")]
    assert whole == LINES[: max(1, len(whole))]
    book.append(LINES[len(whole) :])
    book.append([b"fourth\n"])
    assert path.read_bytes() == b"".join([*LINES, b"fourth\n"])


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_zeros_that_a_power_cut_left_are_no_line(journal, end):
    path, book = journal(b"".join(LINES[:2]) + b"th" + bytes(5000) + end)
    assert [line for line in book if line.endswith(b"\n")] == LINES[:2]
    book.append(LINES[2:])
    assert path.read_bytes() == b"".join(LINES)
    zeros = b"a\0b\n"  # before another line no crash leaves them: whoever reads says what is wrong
    path.write_bytes(zeros + LINES[0])
    assert list(book) == [zeros, LINES[0]]


def test_what_a_full_disk_left_is_cut_off(journal, monkeypatch):
    path, book = journal()
    book.append(LINES[:1])
    really, room = os.pwrite, [3]

    def some(descriptor, data, place):
        if not room:
            raise OSError(28, "No space left on device")
        return really(descriptor, data[: room.pop()], place)

    monkeypatch.setattr(files.os, "pwrite", some)
    with pytest.raises(OSError, match="No space"):
        book.append(LINES[1:])
    assert path.read_bytes() == b"first\nsec"
    monkeypatch.undo()
    book.append(LINES[1:])
    assert path.read_bytes() == b"".join(LINES)


def test_another_file_is_left_alone_and_one_process_writes(journal):
    path, book = journal(b"mine\nand")
    assert not book.begin(LINES[0])
    assert path.read_bytes() == b"mine\nand"
    with pytest.raises(FileError, match="another process"):
        journal()
