"""A log on a full disk: lines are lost and counted, and nothing else happens."""

import errno
import json
import os

import pytest

from tacit.base.errors import InputError
from tacit.cli.log_file import LogFile
from tacit.cli.notice_log import NoticeLog
from tacit.live.fleet.hub_notices import Drained, SessionBegun
from tacit.live.runtime.process_notices import Trouble


def test_lines_that_cannot_be_written_are_counted_and_the_rest_follows(tmp_path, monkeypatch, capsys):
    path = tmp_path / "hub.jsonl"
    log = NoticeLog(path, {"member": "hub"})
    log(SessionBegun("s", 3))
    real = os.write
    with monkeypatch.context() as full:
        room = [7, 0, 0]  # the first line is cut off in the middle

        def write(descriptor, data):
            if room[0] == 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(descriptor, data[: room.pop(0)])

        full.setattr(os, "write", write)
        for number in range(3):
            log(Trouble(f"nobody reads this {number}"))
    log(Drained())
    log.close()
    lines = path.read_text().splitlines()
    found = [json.loads(line) for line in lines if line.endswith("}")]
    assert [one["event"] for one in found] == ["log", "begun", "lines-lost", "drained"]
    assert (found[2]["lost"], found[2]["member"]) == (3, "hub")
    assert capsys.readouterr().err.count("cannot be written") == 1


def test_any_other_file_is_refused_and_not_changed(tmp_path):
    path = tmp_path / "value"
    path.write_text("5.0\n")
    with pytest.raises(InputError, match="not a log of tacit"):
        LogFile(path, {})
    assert path.read_text() == "5.0\n"
