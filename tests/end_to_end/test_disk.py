"""Disks that are full or read-only: the agent stops speaking, says so, and loses nothing."""

import mmap
import resource
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tacit.core.protocol.session import Deadlines
from tacit.live.identity.roster import COORDINATOR

PATIENT = Deadlines(round=30.0, start=30.0, repeat=0.2)


def on_disk(play, name, where, *kinds):
    """Keep these files of an agent on this disk, and let them be found where the others' are."""
    play.with_options(name, "--transcript", str(play.run.path(name, "transcript")))
    usual = play.run.command

    def command(unit):
        there = {f"--{kind}" for kind in kinds if unit == name}
        words = usual(unit)
        for place, word in enumerate(words):
            if word in there:
                words[place + 1] = str(where / Path(words[place + 1]).name)
        return words

    play.run.command = command
    for kind in kinds:
        for file in (kind, f"{kind}.mark") if kind == "ledger" else (kind,):
            play.run.path(name, file).symlink_to(where / f"{name}.{file}")


@pytest.fixture
def disk(tmp_path):
    """A disk of its own, small; skipped where nobody may mount one."""
    where = tmp_path / "disk"
    where.mkdir(mode=0o700)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k,mode=700", "tmpfs", str(where)],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    if mounted.returncode:
        pytest.skip(f"a small disk may not be mounted here: {mounted.stderr.strip()}")
    yield where
    subprocess.run(["umount", "-l", str(where)], check=False, timeout=120)


def remount(where, how):
    subprocess.run(["mount", "-o", f"remount,{how}", str(where)], check=True, timeout=120)


def filled(where):
    """Take all the room that is left, also in the last page of a log."""
    path = where / "full"
    with path.open("wb", buffering=0) as file:
        for size in (65536, 4096, 512, 1):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError:
                continue
    for lines in where.glob("*.log"):
        with suppress(OSError), lines.open("ab", buffering=0) as file:
            file.write(b"\n" * (-lines.stat().st_size % mmap.PAGESIZE))
    return path


@pytest.mark.parametrize("kind", ["ledger", pytest.param("transcript", marks=pytest.mark.long)])
def test_on_a_full_disk_it_stops_and_goes_on_when_there_is_room(crew, disk, kind):
    made = crew(agents=2, rounds=10, pace=0.1, quorum=2, deadlines=PATIENT)
    on_disk(made, "agent-0", disk, kind)
    tap = made.start_tapped()
    try:
        made.until(lambda: made.rounds() >= 2)
        full = filled(disk)
        assert made.run.processes["agent-0"].wait(made.wait) == 4
        [sentence] = made.said("agent-0").splitlines()
        assert f"agent-0.{kind} cannot be written" in sentence
        assert ("disk is full" if kind == "ledger" else "No space left on device") in sentence
        before = made.require_ledgers(["agent-0"])
        assert made.session.rounds > len(before) >= 2
        full.unlink()
        made.run.start("agent-0")
        made.ended()
    finally:
        tap.close()
    by_ledger, on_wire = made.require_sound(), made.require_one_message_each(tap.frames)
    assert before.items() <= by_ledger.items()  # nothing was lost, and nothing was said in another way
    assert by_ledger.items() <= on_wire.items()
    assert all(len(names) == 2 for names in made.result(COORDINATOR)["used"])


def test_on_a_read_only_disk_it_says_nothing_and_goes_on_when_it_may_write(crew, disk):
    made = crew(agents=2, rounds=8, pace=0.1, quorum=2, deadlines=PATIENT)
    on_disk(made, "agent-0", disk, "ledger")
    made.run.start_all()
    made.until(lambda: made.rounds() >= 2)
    made.run.kill("agent-0")
    remount(disk, "ro")
    made.run.start("agent-0")
    assert made.run.processes["agent-0"].wait(made.wait) == 4
    [sentence] = made.said("agent-0").splitlines()
    assert "agent-0.ledger: Read-only file system." in sentence
    remount(disk, "rw")
    made.run.start("agent-0")
    made.ended()
    made.require_sound()


@pytest.mark.long
def test_a_limit_on_the_size_of_files_is_a_full_disk_too(crew):
    """Set on the living process, for machines where no disk may be mounted."""
    made = crew(agents=2, rounds=10, pace=0.1, quorum=2, deadlines=PATIENT)
    usual = made.run.command
    # Its log and errors go to a pipe: the limit is on all files that it writes.
    made.run.command = lambda unit: [w for w in usual(unit) if not w.endswith(("--log", f"{unit}.log"))]
    agent = subprocess.Popen(made.run.command("agent-0"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    made.run.command = usual
    try:
        for unit in (COORDINATOR, "agent-1"):
            made.run.start(unit)
        made.until(lambda: made.rounds() >= 2)
        hard = resource.prlimit(agent.pid, resource.RLIMIT_FSIZE)[1]
        resource.prlimit(agent.pid, resource.RLIMIT_FSIZE, (0, hard))
        said = agent.communicate(timeout=made.wait)[1].decode().splitlines()
    finally:
        agent.kill()
    assert agent.returncode == 4
    assert "agent-0.ledger cannot be" in said[-1]
    before = made.require_ledgers(["agent-0"])
    made.run.start("agent-0")
    made.ended()
    assert before.items() <= made.require_sound().items()
