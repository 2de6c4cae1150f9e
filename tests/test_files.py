"""The one writer of whole files."""

import os

import pytest

from tacit import files
from tacit.errors import FileError


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
