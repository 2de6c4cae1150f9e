"""The ledger under kill -9, full and read-only disks: nothing is lost."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.runtime.builders import ONE as S
from tests.runtime.builders import entered

from tacit.core.protocol.records import Spoke
from tacit.live.ledger import rollback_guard, store
from tacit.live.ledger.ledger import Ledger

pytestmark = pytest.mark.usefixtures("forks")


def script_run(script, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


# ---- kill -9 -----------------------------------------------------------------------------------------

KILLED = """
    import json, os, random, signal, sys, time
    from tacit.core.protocol.records import Began, Moved, Spoke
    from tacit.live.ledger.ledger import Ledger

    S, path = b"s" * 32, sys.argv[1]
    chance = random.Random(int(sys.argv[2]))

    def frame(u, size):
        return (b"%d " % u) * size

    def speak(write):
        ledger = Ledger(path)
        ledger.reserve(S, "meter", planned=1.0, adjacency=1.0, diameter=1.0, cap=1.0)
        kept = ledger.records(S)
        if not kept:
            ledger.append(S, [Began(S, 0, b"state", 1.0, 0.0, 1.0)])
        u = sum(isinstance(record, Spoke) for record in kept)
        while True:
            moved = Moved(u, (b"y",) * (u % 40), (), b"", b"state %d" % u, b"")
            ledger.append(S, [Spoke(u, frame(u, 1 + u % 3000), 1e-6), moved])
            os.write(write, b"%d\\n" % u)  # acknowledged
            u += 1

    kills = acknowledged = 0
    for k in range(int(sys.argv[3])):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                speak(write)
            finally:
                os._exit(9)
        os.close(write)
        told = os.read(read, 1 << 20) if k % 2 else b""  # every other one has spoken, on any machine
        time.sleep(chance.expovariate(1 / 0.008))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, status
        kills += 1
        told += os.read(read, 1 << 20)
        os.close(read)
        acknowledged = max([acknowledged, *(int(u) + 1 for u in told.split())])
        with Ledger(path) as ledger:
            kept = ledger.records(S)
        spoken = [record for record in kept if isinstance(record, Spoke)]
        moves = [record for record in kept if isinstance(record, Moved)]
        assert [record.update for record in spoken] == list(range(len(spoken))), "a gap or a second message"
        assert len(spoken) >= acknowledged, "something acknowledged is gone"
        assert len(spoken) == len(moves), "half a transaction"
        for u, (said, move) in enumerate(zip(spoken, moves)):
            assert said.frame == frame(u, 1 + u % 3000), "a torn record"
            assert move.state == b"state %d" % u
    print(json.dumps({"kills": kills, "spoken": len(spoken), "acknowledged": acknowledged}))
"""


@pytest.mark.parametrize("kills", [30, pytest.param(500, marks=pytest.mark.long)])
def test_it_survives_being_killed_at_random_moments(path, kills):
    found = script_run(KILLED, path, 1, kills)
    assert found["kills"] == kills
    assert found["acknowledged"] >= kills // 2


KILLED_AT_EACH_LINE = """
    import json, os, signal, sys
    from pathlib import Path
    from tacit.core.protocol.records import Began, Moved, Spoke
    from tacit.base import files
    from tacit.live.ledger import budget, ledger as book, rollback_guard, store
    from tacit.live.ledger.ledger import Ledger

    S, folder, step = b"s" * 32, Path(sys.argv[1]), int(sys.argv[2])
    watched = {module.__file__ for module in (budget, files, book, rollback_guard, store)}

    def killed_at(count):
        left = count
        def trace(frame, event, argument):
            nonlocal left
            if frame.f_code.co_filename not in watched:
                return None
            if event == "line":
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
            return trace
        return trace

    def work(path, write):
        ledger = Ledger(path)
        ledger.reserve(S, "meter", planned=1.0, adjacency=1.0, diameter=1.0, cap=1.0)
        os.write(write, b"r")
        ledger.append(S, [Began(S, 0, b"state", 1.0, 0.0, 1.0)])
        os.write(write, b"b")
        ledger.append(S, [Spoke(0, b"frame", 0.5), Moved(0, (), (), b"", b"", b"")])
        os.write(write, b"s")
        ledger.close()

    deaths = 0
    while True:
        path = folder / f"{deaths}"
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            sys.settrace(killed_at(step * deaths + 1))
            work(path, write)
            os._exit(0)
        os.close(write)
        _, status = os.waitpid(child, 0)
        told = os.read(read, 100)
        os.close(read)
        with Ledger(path) as ledger:  # never refused: a crash leaves nothing that cannot be trusted
            kept = [type(record).__name__ for record in ledger.records(S)]
            spent = ledger.spent("meter")
        done = {b"": [], b"r": [], b"rb": ["Began"], b"rbs": ["Began", "Spoke", "Moved"]}[told]
        assert kept[: len(done)] == done, (told, kept)  # what was acknowledged is there
        assert kept in ([], ["Began"], ["Began", "Spoke", "Moved"]), kept  # and whole
        assert spent == (1.0 if told else spent) and spent in (0.0, 1.0)
        left = {file.name for file in folder.iterdir() if file.name.startswith(path.name)}
        assert left == {path.name, path.name + ".mark"}, left
        for file in left:
            (folder / file).unlink()
        for file in folder.glob(".*"):
            raise AssertionError(f"{file} was left over")
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            break
        deaths += 1
    print(json.dumps(deaths))
"""


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.long)])
def test_it_survives_being_killed_at_every_line(tmp_path, step):
    """Killed at a line, it reopens with nothing torn, lost or refused.

    From creation to close, at every line or every fifth one.
    """
    assert script_run(KILLED_AT_EACH_LINE, tmp_path, step) > 200 / step


def killed(tmp_path, seed, kills):
    """Run `kills.py`: agents under kill -9 and power cuts, and a lying server."""
    program = [
        sys.executable,
        str(Path(__file__).with_name("kills.py")),
        str(tmp_path),
        str(seed),
        str(kills),
    ]
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=3600)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_a_killed_agent_never_draws_twice(tmp_path):
    """One message for each update, ever.

    Agents are killed, lose power, and have old ledgers put back.
    """
    found = killed(tmp_path, 1, 24)
    assert found["kills"] >= 24
    assert found["power"] >= 5
    assert found["messages"] >= 40


@pytest.mark.long
def test_a_thousand_kills_and_no_second_draw(tmp_path):
    found = killed(tmp_path, 2, 1000)
    assert found["kills"] >= 1000
    assert found["power"] >= 400
    assert found["restored"] >= 50


# ---- disks -------------------------------------------------------------------------------------------

MODES = """
    import json, os, stat, sys
    from pathlib import Path
    from tacit.core.protocol.records import Closed, Opened
    from tacit.live.ledger.ledger import Ledger

    os.umask(0)
    folder, seen = Path(sys.argv[1]), {}

    def look(event="", arguments=()):
        if event != "os.scandir":
            for file in os.scandir(folder):
                seen[file.name] = seen.get(file.name, 0) | stat.S_IMODE(file.stat().st_mode)

    sys.addaudithook(look)  # called at every file that is opened, renamed or removed, and much else
    ledger = Ledger(folder / "a")
    ledger.append(b"s" * 32, [Opened(b"s" * 32, ())])
    look()
    ledger.append(b"s" * 32, [Closed(0, b"y", (), ())])
    look()
    ledger.close()
    look()
    print(json.dumps(seen))
"""


def test_all_files_are_closed_to_others_from_the_first_byte(tmp_path):
    """Even with an empty umask, at every moment from creation to close."""
    seen = script_run(MODES, tmp_path)
    assert {"a", "a-wal", "a.mark", ".a.part"} <= set(seen)
    assert all(mode == 0o600 for mode in seen.values()), seen


FULL = """
    import json, resource, sys
    from pathlib import Path
    from tacit.base.errors import LedgerError
    from tacit.core.protocol.records import Began, Spoke
    from tacit.live.ledger.ledger import Ledger

    S, path = b"s" * 32, Path(sys.argv[1])
    ledger = Ledger(path)
    ledger.reserve(S, "meter", planned=1.0, adjacency=1.0, diameter=1.0, cap=1.0)
    ledger.append(S, [Began(S, 0, b"state", 1.0, 0.0, 1.0)])
    if sys.argv[2] == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
    said, sentences = 0, []
    try:
        while said < 100_000:
            ledger.append(S, [Spoke(said, b"x" * 5000, 1e-6)])
            said += 1
    except LedgerError as error:
        sentences.append(str(error))
    try:
        ledger.append(S, [Spoke(said, b"another", 1e-6)])
    except LedgerError as error:
        sentences.append(str(error))
    try:
        ledger.records(S)
    except LedgerError as error:
        sentences.append(str(error))
    ledger.close()
    if sys.argv[2] == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    else:
        (path.parent / "ballast").unlink()
    with Ledger(path) as ledger:
        kept = [record for record in ledger.records(S) if isinstance(record, Spoke)]
        assert [record.update for record in kept[:said]] == list(range(said)), "something said is lost"
        assert all(record.frame == b"x" * 5000 for record in kept)
        ledger.append(S, [Spoke(len(kept), b"goes on", 1e-6)])
    print(json.dumps([said, len(kept), *sentences]))
"""


def test_a_full_disk_stops_the_agent_and_loses_nothing(path):
    said, kept, first, second, third = script_run(FULL, path, "limit")
    assert said > 10
    assert kept in (said, said + 1)
    assert "cannot be written" in first
    assert "stops sending" in first
    assert first == second == third


def namespaced(tmp_path, mount, script, *arguments):
    """Run a script where it may mount things, or skip."""
    shell = f'set -e; {mount}; exec {sys.executable} -c "$0" "$@"'
    words = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    able = (
        shutil.which("unshare")
        and not subprocess.run(
            [*words, f"mount -t tmpfs none {tmp_path}"], capture_output=True, check=False
        ).returncode
    )
    if not able:
        pytest.skip("this machine does not let tests mount anything (unprivileged user namespaces are off)")
    done = subprocess.run(
        [*words, shell, textwrap.dedent(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_a_disk_that_is_really_full(tmp_path):
    mount = f"mount -t tmpfs -o size=600k none {tmp_path}; head -c 100000 /dev/zero > {tmp_path}/ballast"
    said, kept, first, *_ = namespaced(tmp_path, mount, FULL, tmp_path / "a", "tmpfs")
    assert said > 5
    assert kept in (said, said + 1)
    assert "disk is full" in first


def test_a_disk_too_full_for_a_ledger(tmp_path):
    fill = f"(cat /dev/zero > {tmp_path}/ballast || true) 2>/dev/null"
    mount = f"mount -t tmpfs -o size=64k none {tmp_path}; {fill}"
    script = """
        import json, sys
        from pathlib import Path
        from tacit.base.errors import LedgerError
        from tacit.live.ledger.ledger import Ledger
        try:
            Ledger(sys.argv[1])
            said = "opened"
        except LedgerError as error:
            said = str(error)
        (Path(sys.argv[1]).parent / "ballast").unlink()
        Ledger(sys.argv[1]).close()
        print(json.dumps(said))
    """
    said = namespaced(tmp_path, mount, script, tmp_path / "a")
    assert "full" in said or "No space left" in said


READ_ONLY = """
    import json, sys
    from tacit.base.errors import LedgerError
    from tacit.live.ledger.ledger import Ledger
    said = []
    for path in sys.argv[1:]:
        try:
            Ledger(path)
        except LedgerError as error:
            said.append(str(error))
    print(json.dumps(said))
"""


def test_a_read_only_disk(tmp_path):
    (tmp_path / "kept").mkdir()
    entered(tmp_path / "kept" / "a").close()
    at = tmp_path / "kept"
    mount = f"mount --bind {at} {at}; mount -o remount,bind,ro {at}"
    old, new = namespaced(tmp_path, mount, READ_ONLY, at / "a", at / "new")
    for said in (old, new):
        assert "Read-only file system" in said
        assert "cannot send" in said
    Ledger(at / "a").close()


def without_power(command):
    """Return a command that obeys modes even where tests are run by root."""
    if os.geteuid() != 0:
        return command
    if not shutil.which("setpriv"):
        pytest.skip("tests run as root, whom no file mode stops, and there is no setpriv to give that up")
    return ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *command]


@pytest.mark.parametrize(("file_mode", "folder_mode"), [(0o400, 0o700), (0o600, 0o500)])
def test_a_file_or_directory_without_permission(tmp_path, file_mode, folder_mode):
    home = tmp_path / "home"
    home.mkdir()
    entered(home / "a").close()
    (home / "a").chmod(file_mode)
    home.chmod(folder_mode)
    try:
        command = without_power([sys.executable, "-c", textwrap.dedent(READ_ONLY), str(home / "a")])
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        (said,) = json.loads(done.stdout)
        assert "Permission denied" in said or "read-only" in said
    finally:
        home.chmod(0o700)
    (home / "a").chmod(0o600)
    Ledger(home / "a").close()


def test_the_disk_is_waited_for(path):
    """Every append flushes the log; the mark is flushed every 32 rows."""
    with entered(path) as ledger:
        settings_ = {
            name: ledger._store._ask(f"PRAGMA {name}")
            for name in ("synchronous", "journal_mode", "locking_mode")
        }
        assert settings_ == {"synchronous": 2, "journal_mode": "wal", "locking_mode": "exclusive"}
        synced = []
        real = store.flush_file
        rollback_guard.flush_file = lambda descriptor: (
            synced.append(os.fstat(descriptor).st_ino) or real(descriptor)
        )
        try:
            for u in range(64):
                ledger.append(S, [Spoke(u, b"x", 1e-6)])
        finally:
            rollback_guard.flush_file = real
        assert synced.count(path.with_name(path.name + ".mark").stat().st_ino) >= 2
