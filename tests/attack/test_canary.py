"""A value that would be known again anywhere: it is looked for wherever it must not be."""

import os
import time
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest
from rich.pretty import pretty_repr
from tests.doubles.processes import COORDINATOR, Processes, Tail, make_addresses

from tacit.base.errors import InputError
from tacit.cli import private_value
from tacit.core.mechanism.whole import nearest_shift
from tacit.core.protocol.codec import Codec
from tacit.core.protocol.records import Began, Ended, Moved, Spoke
from tacit.core.question import Mean
from tacit.live.ledger.ledger import Ledger
from tacit.live.sessions.file import write_session

VALUE = 7.123456789012345
DIGITS = "712345678901"


def secrets_of(crew, name):
    """All states and draws of an agent, as anyone would write them, from its own ledger."""
    session, codec = crew.session, Codec(crew.session)
    with Ledger(crew.path(name, "ledger"), create=False) as ledger:
        records = ledger.records(session.id)
    (state,) = codec.unpack(records[0].state)
    found = [state]
    for record in records:
        if isinstance(record, Spoke):
            message = codec.open(record.frame)
            shift = message.body.exponent - session.lattice.state_exponent
            found.append(message.numbers[0] - nearest_shift(state, shift))
        elif isinstance(record, Moved):
            (state,) = codec.unpack(record.state)
            found.append(state)
    assert isinstance(records[-1], Ended)
    assert len(found) == 1 + 2 * session.rounds
    words = [str(abs(v)).encode() for v in found] + [f"{abs(v):x}".encode() for v in found]
    words += [codec.pack((v,)) for v in found if abs(v) > 1 << 40]
    return [DIGITS.encode(), b"7.1234567", *(word for word in words if len(word) > 8)]


def test_nothing_private_is_where_others_can_see_it(world, monkeypatch):
    """Command lines, environments, logs, errors, status, metrics, transcript; asyncio says all it knows."""
    session = replace(world.session(rounds=3), roster=world.session().roster[:1], quorum=1, start=1)
    monkeypatch.setenv("PYTHONASYNCIODEBUG", "1")
    monkeypatch.setenv("PYTHONDEVMODE", "1")
    write_session(session, world.folder / "session.toml", addresses=make_addresses(session))
    crew = Processes(world.folder, session, {"a0": VALUE}, cap=10.0, pace=0.1)
    usual = crew.command
    crew.command = lambda unit: [
        *usual(unit),
        *("--status", "0"),
        *([] if unit == COORDINATOR else ["--transcript", str(crew.path(unit, "transcript"))]),
    ]
    public = b""
    try:
        crew.start_all()
        tail, lines = Tail(crew.path("a0", "log")), []
        end = time.monotonic() + 300
        while "a0" in crew.running:
            assert time.monotonic() < end, "the session does not end"
            time.sleep(0.02)
            crew.require_healthy()
            lines += tail
            if public or not any(line["event"] == "spoken" for line in lines):
                continue
            url = next(line["text"] for line in lines if line["event"] == "status").split()[2]
            with urllib.request.urlopen(url) as status:
                public += status.read()
            with urllib.request.urlopen(url.replace("status", "metrics")) as metrics:
                public += metrics.read()
            for process in crew.processes.values():
                public += Path(f"/proc/{process.pid}/cmdline").read_bytes()
                public += Path(f"/proc/{process.pid}/environ").read_bytes()
                limits = Path(f"/proc/{process.pid}/limits").read_text()
                (core,) = (line.split()[4] for line in limits.splitlines() if "core file" in line)
                assert core == "0"
        crew.require_healthy()
    finally:
        crew.stop_all()
    assert b"tacit_loss_spent" in public
    for path in world.folder.iterdir():
        if path.is_file():
            if path.stat().st_mode & 0o077:
                public += path.read_bytes()
            else:
                assert path.suffix in (".ledger", ".mark", ".value", ".state")  # the owner's own
    assert b"frame" in public  # the transcripts are in it
    for word in secrets_of(crew, "a0"):
        assert word not in public


def test_records_show_nothing_private_however_they_are_printed():
    records = (
        Began(b"s" * 32, 0, b"SECRET", 1.0, 0.0, 1.0),
        Moved(3, (b"SECRET",), (0,), b"SECRET", b"SECRET", b"SECRET"),
        Spoke(4, b"SECRET", 0.5),
    )
    for record in records:
        for text in (repr(record), str(record), f"{record}", pretty_repr(record), pretty_repr([record])):
            assert "SECRET" not in text
    assert pretty_repr(records[1]) == "Moved(update=3)"


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620])
def test_a_value_s_file_that_others_can_read_is_refused(tmp_path, mode):
    file = tmp_path / "reading.txt"
    file.write_text(str(VALUE))
    file.chmod(mode)
    with pytest.raises(InputError, match="chmod 600") as raised:
        private_value.read_value(file, Mean(0, 10), ())
    assert DIGITS[:5] not in str(raised.value)
    file.chmod(0o600)
    assert private_value.read_value(file, Mean(0, 10), ()) == VALUE


def test_a_value_can_come_through_a_pipe(tmp_path):
    """As from `--value-file <(…)`: nobody can read it again."""
    read, write = os.pipe()
    os.write(write, str(VALUE).encode())
    os.close(write)
    assert private_value.read_value(Path(f"/dev/fd/{read}"), Mean(0, 10), ()) == VALUE
    os.close(read)


@pytest.mark.parametrize("content", [b"7.123456789 x", "7,123456789".encode("utf-16"), b"\xff7.1234567", b""])
def test_a_value_that_cannot_be_read_is_not_repeated(tmp_path, content):
    file = tmp_path / "reading.txt"
    file.touch(mode=0o600)
    file.write_bytes(content)
    with pytest.raises(InputError) as raised:
        private_value.read_value(file, Mean(0, 10), ())
    assert "1234" not in str(raised.value)
    assert raised.value.__cause__ is None
    file.write_bytes(b"\xef\xbb\xbf7.5\r\n")  # as some editors write it
    assert private_value.read_value(file, Mean(0, 10), ()) == 7.5
