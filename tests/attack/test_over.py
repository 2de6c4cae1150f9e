"""A session that is over looks over, and what `tacit join` prints is public: with live commands."""

import json
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace

import pytest
from tests.doubles.processes import COORDINATOR, Processes, Tail, make_addresses

from tacit.cli.private_value import read_state
from tacit.live.ledger.ledger import Ledger
from tacit.live.sessions.file import write_session

pytestmark = pytest.mark.usefixtures("forks")

TACIT = (sys.executable, "-c", "from tacit.cli import main; main()")


@pytest.fixture
def crew(world, forked):
    """A session of one agent and its coordinator, as processes; the value is off the range of 0 to 10."""
    session = replace(world.session(rounds=6), roster=world.session().roster[:1], quorum=1, start=1)
    write_session(session, world.folder / "session.toml", addresses=make_addresses(session))
    made = Processes(world.folder, session, {"a0": 12.3456789}, cap=10.0)
    yield made
    made.stop_all()


def finish(crew):
    crew.start_all()
    for process in crew.processes.values():
        process.wait(120)
    crew.require_healthy()


def again(crew, *words):
    """Run the agent's command once more."""
    command = [word for word in crew.command("a0") if word != "--json"]
    return subprocess.run([*command, *words], capture_output=True, text=True, check=False, timeout=120)


def test_a_session_that_is_over_is_not_run_again_with_another_value(crew, world):
    finish(crew)
    printed = json.loads(crew.path("a0", "result").read_text())
    # What is printed is public: the feedback that everyone heard, clamped to the range.
    assert set(printed) == {
        *("agent", "feedback", "radius", "finished", "rounds", "loss", "spent", "cap", "refused"),
    }
    heard = json.loads(crew.path(COORDINATOR, "result").read_text())["feedback"]
    assert printed["feedback"] == crew.session.clamp(heard)
    # The owner's own is in a file for the owner alone, because it was asked for.
    at = crew.path("a0", "state")
    assert at.stat().st_mode & 0o777 == 0o600
    mine = read_state(at)
    assert (mine["clamped"], mine["finished"], mine["over_before"]) == (True, True, False)
    assert mine["session"] == crew.session.id.hex()

    crew.path("a0", "value").write_text("1.0")
    done = again(crew)
    assert done.returncode == 6
    assert done.stdout == ""
    (sentence,) = [line for line in done.stderr.splitlines() if line.startswith("Over: ")]
    assert "before, after 6 of 6 rounds" in sentence
    assert "a value that was given now was not used" in sentence
    assert read_state(at)["value"] == mine["value"]
    assert read_state(at)["over_before"] is True

    # With its states forgotten it is over all the same, and its cost still counts.
    with Ledger(crew.path("a0", "ledger"), create=False) as ledger:
        spent = ledger.spent("value")
        ledger.forget(crew.session.id)
    done = again(crew)
    assert done.returncode == 6
    assert done.stdout == ""
    assert "removed" in done.stderr
    with Ledger(crew.path("a0", "ledger"), create=False) as ledger:
        assert ledger.spent("value") == spent


def test_whether_a_value_was_clamped_is_told_to_its_owner_only(crew):
    finish(crew)
    told = " ".join(crew.path(unit, kind).read_text() for unit in crew.units for kind in ("log", "errors"))
    assert "clamp" not in told
    show = [*TACIT, "ledger", "show", str(crew.path("a0", "ledger")), "--json"]
    plain = subprocess.run(show, capture_output=True, text=True, check=True).stdout
    assert "clamped" not in plain
    asked = subprocess.run([*show, "--private"], capture_output=True, text=True, check=True).stdout
    assert json.loads(asked)["sessions"][0]["clamped"] is True


def test_a_ledger_put_back_while_its_session_runs_never_speaks(crew, tmp_path):
    """With live commands: ledger and mark from a moment ago, and the coordinator still there."""
    usual, files = crew.command, [crew.folder / f"a0.ledger{end}" for end in ("", "-wal", ".mark")]
    crew.command = lambda unit: [*usual(unit), *(("--pace", "1.0") if unit == COORDINATOR else ())]
    crew.start_all()
    log, spoken = Tail(crew.path("a0", "log")), []

    def wait_for(messages):
        while len(spoken) < messages:
            assert crew.processes["a0"].poll() is None, crew.path("a0", "errors").read_text()
            spoken.extend(line for line in log if line["event"] == "spoken")
            time.sleep(0.01)

    wait_for(1)
    kept = {file: file.read_bytes() for file in files}
    for file, content in kept.items():
        (tmp_path / file.name).write_bytes(content)
    with closing(sqlite3.connect(tmp_path / "a0.ledger")) as copy:
        ((held,),) = copy.execute("SELECT count(*) FROM record WHERE kind = 'spoke'")
    wait_for(held + 1)  # so that the copy lacks a message that was sent
    crew.kill("a0")
    for file, content in kept.items():
        file.write_bytes(content)
    crew.start("a0")
    assert crew.processes["a0"].wait(60) == 4
    assert "old copy" in crew.path("a0", "errors").read_text()
    spoken.extend(line for line in log if line["event"] == "spoken")
    assert [line["update"] for line in spoken] == list(range(len(spoken)))  # none was made again


@pytest.mark.parametrize("wrong", ["nan", "inf", "-inf", "1 2", "ten", ""])
def test_what_is_no_value_is_refused_before_anyone_is_contacted(crew, wrong):
    """That depends on the owner's file and on no number in it: others see an agent that does not come."""
    crew.path("a0", "value").write_text(wrong)
    done = again(crew)  # nobody listens: it does not get that far
    assert done.returncode == 2
    assert "must be one finite number; the input is not" in done.stderr
    assert not crew.path("a0", "ledger").exists()


@pytest.mark.parametrize("mode", [0o644, 0o660])
def test_a_value_s_file_that_others_can_read_is_refused_by_the_command(crew, mode):
    crew.path("a0", "value").chmod(mode)
    done = again(crew)
    assert done.returncode == 2
    assert f"has mode {mode:o}" in done.stderr
    assert not crew.path("a0", "ledger").exists()


@pytest.mark.parametrize("mode", [0o775, 0o757])
def test_a_ledger_where_others_may_write_is_refused_by_the_command(crew, mode):
    crew.folder.chmod(mode)
    done = again(crew)
    assert done.returncode == 4
    assert f"has mode {mode:o}" in done.stderr
    assert "chmod go-w" in done.stderr
    assert not crew.path("a0", "ledger").exists()


def test_a_state_file_is_no_file_of_another_kind(crew, tmp_path):
    precious = tmp_path / "authorized_keys"
    precious.write_text("ssh-ed25519 AAAA\n")
    link = tmp_path / "link"
    link.symlink_to(precious)
    for path in (precious, link, crew.path("a0", "value")):
        before = path.read_bytes()
        done = again(crew, "--state-file", str(path))
        assert done.returncode == 2
        assert "is not a state file of tacit" in done.stderr
        assert path.read_bytes() == before


DUMP = """
import ctypes, resource, sys
sys.path[:0] = {path!r}
from tacit.core.mechanism.lattice import Lattice
libc = ctypes.CDLL(None)
assert libc.prctl(3, 0, 0, 0, 0) == 1, "dumpable before"
from tacit.live.runtime.agent import Agent
from tacit.live.sessions.file import read_session
Agent(read_session({session!r}), 3.0, ledger={ledger!r}, identity={keys!r}, cap=1.0, transport=object())
print(libc.prctl(3, 0, 0, 0, 0), resource.getrlimit(resource.RLIMIT_CORE)[0])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_a_program_that_holds_a_value_leaves_no_core(crew):
    """In the library, too: the owner's own program need not know about it."""
    paths = {"session": "session.toml", "ledger": "a0.ledger", "keys": "keys/a0"}
    script = DUMP.format(path=sys.path, **{name: str(crew.folder / file) for name, file in paths.items()})
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["0", "0"], done.stderr
