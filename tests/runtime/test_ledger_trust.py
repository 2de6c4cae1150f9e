"""Ledgers that are refused: in use, damaged, newer, copied, restored."""

import os
import re
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.runtime.builders import ONE as S
from tests.runtime.builders import entered, moved

from tacit.base.errors import LedgerError
from tacit.core.protocol.records import Spoke
from tacit.live.ledger import schema
from tacit.live.ledger.ledger import Ledger

pytestmark = pytest.mark.usefixtures("forks")


@pytest.fixture
def ledger(path):
    with entered(path) as made:
        yield made


# ---- who may use it ----------------------------------------------------------------------------------


def run(script, *, check=True, **environment):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert not check or done.returncode == 0, done.stderr
    return done


def test_two_processes_cannot_use_it(path, ledger):
    script = f"""
        from tacit.base.errors import LedgerError
        from tacit.live.ledger.ledger import Ledger
        try:
            Ledger({str(path)!r})
        except LedgerError as error:
            print(error)
    """
    said = run(script).stdout
    assert f"in use by process {os.getpid()}:" in said
    assert "two agents must never share a ledger" in said


def test_two_ledgers_in_one_process_neither(path, ledger, tmp_path):
    with pytest.raises(LedgerError, match="in use"):
        Ledger(path)
    (tmp_path / "other-name").symlink_to(path)
    with pytest.raises(LedgerError, match="in use"):
        Ledger(tmp_path / "other-name")
    ledger.append(S, [moved(0)])  # the one that has it was not disturbed


def test_a_lock_ends_with_its_process(path):
    script = f"""
        import os, signal
        from tacit.live.ledger.ledger import Ledger
        ledger = Ledger({str(path)!r})
        os.kill(os.getpid(), signal.SIGKILL)
    """
    assert run(script, check=False).returncode == -signal.SIGKILL
    with Ledger(path) as ledger:
        assert not ledger.created


def test_a_fork_cannot_use_it(path):
    script = f"""
        import os
        from tacit.base.errors import LedgerError
        from tacit.core.protocol.records import Opened
        from tacit.live.ledger.ledger import Ledger
        ledger, opened = Ledger({str(path)!r}), Opened(b"s" * 32, ())
        if os.fork() == 0:
            try:
                ledger.append(b"s" * 32, [opened])
            except LedgerError as error:
                print(error, flush=True)
            ledger.close()  # must not let go of the parent's lock
            os._exit(0)
        os.wait()
        try:
            Ledger({str(path)!r})
        except LedgerError as error:
            print(error)
        ledger.append(b"s" * 32, [opened])
        print("appended", flush=True)
        os.kill(os.getpid(), 9)
    """
    done = run(script, check=False)
    child, again, appended = done.stdout.splitlines()
    assert "was opened before a fork" in child
    assert "in use" in again
    assert (appended, done.returncode) == ("appended", -signal.SIGKILL)
    with Ledger(path) as ledger:
        assert len(ledger.records(S)) == 1  # the child did not take the parent's log away


def test_a_closed_ledger_refuses(path):
    ledger = entered(path)
    ledger.close()
    ledger.close()
    for use in (
        lambda: ledger.append(S, [moved(0)]),
        lambda: ledger.records(S),
        lambda: ledger.spent("meter"),
    ):
        with pytest.raises(LedgerError, match="is closed"):
            use()


# ---- what is not to be trusted -----------------------------------------------------------------------


def mark_of(path):
    return path.with_name(path.name + ".mark")


@pytest.fixture
def kept(path):
    """Return a closed ledger with a few records."""
    with entered(path) as ledger:
        for u in range(5):
            ledger.append(S, [Spoke(u, b"frame %d" % u, 0.01), moved(u)])
    return path


def refused(path, match, **options):
    before = path.read_bytes() if path.exists() else None
    with pytest.raises(LedgerError, match=match) as error:
        Ledger(path, **options)
    assert str(error.value).count("\n") == 0
    assert (path.read_bytes() if path.exists() else None) == before  # nothing was changed


def test_another_programs_file(tmp_path, kept):
    other = tmp_path / "other"
    shutil.copy(mark_of(kept), mark_of(other))
    sqlite3.connect(other).execute("CREATE TABLE t (x)").connection.close()
    other.chmod(0o600)
    refused(other, "is not a ledger of tacit")
    other.write_bytes(b"not a database at all, " * 100)
    refused(other, "is damaged")


@pytest.mark.parametrize(
    ("version", "words"),
    [(1, "is a ledger of tacit 0.1"), (schema.VERSION + 1, "has version 4, and this tacit knows version 3")],
)
def test_other_versions(kept, version, words):
    database = sqlite3.connect(kept)
    database.execute(f"PRAGMA user_version = {version}")
    database.close()
    refused(kept, words)


@pytest.mark.parametrize("place", [0, 20, 100, 4096 + 8, 2 * 4096 + 4000])
def test_damaged_bytes(kept, place):
    data = bytearray(kept.read_bytes())
    data[place : place + 4 or None] = bytes(b ^ 0xA5 for b in data[place : place + 4 or None])
    kept.write_bytes(data)
    with pytest.raises(LedgerError):
        Ledger(kept)


def test_a_damaged_index_is_seen(kept):
    """The index is what makes a second message for one update impossible."""
    content = kept.read_bytes()
    places = [match.start() for match in re.finditer(rb"spoke[\x00-\x20]", content)]
    assert len(places) >= 5
    for place in places:
        kept.write_bytes(content[:place] + b"spoka" + content[place + 5 :])
        refused(kept, "is damaged")
    kept.write_bytes(content)
    Ledger(kept).close()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(place=25519)  # the message of this error is no text
@given(place=st.integers(0, 2**19))
def test_no_flipped_bit_goes_unseen(tmp_path, place):
    """With any bit flipped it is refused, or reads as it was written."""
    path = tmp_path / secrets.token_hex(8)
    with entered(path) as ledger:
        ledger.append(S, [Spoke(0, b"frame", 0.25), moved(0)])
        truth = ledger.records(S)
    content = bytearray(path.read_bytes())
    place %= len(content) * 8
    content[place // 8] ^= 1 << place % 8
    path.write_bytes(content)
    try:
        with Ledger(path) as ledger:
            assert ledger.records(S) == truth
            assert ledger.spent("meter") == 1.0
    except LedgerError:
        pass


@pytest.mark.parametrize("length", [0, 100, 4096, 5000, 8192])
def test_a_cut_file(kept, length):
    os.truncate(kept, length)
    with pytest.raises(LedgerError):
        Ledger(kept)


def test_a_row_that_was_changed_behind_its_back(kept):
    """The chain of digests shows a change that was made without triggers."""
    database = sqlite3.connect(kept)
    database.execute("DROP TRIGGER never_changed")
    data = msgspec.msgpack.encode({"record": "spoke", "update": 2, "frame": b"another", "loss": 0.01})
    database.execute("UPDATE record SET data = ? WHERE kind = 'spoke' AND number = 2", (data,))
    database.commit()
    database.close()
    refused(kept, "is damaged")


def test_a_row_that_was_removed(kept):
    database = sqlite3.connect(kept)
    database.execute("DROP TRIGGER never_removed")
    database.execute("DELETE FROM record WHERE sequence = (SELECT max(sequence) FROM record)")
    database.commit()
    database.close()
    refused(kept, "it is an old copy")


def test_an_old_copy_put_back(kept, tmp_path):
    old = kept.read_bytes()
    with Ledger(kept) as ledger:
        ledger.append(S, [Spoke(5, b"said since", 0.01)])
    kept.write_bytes(old)  # into the very same file
    refused(kept, r"has 13 records, but its mark says that there were 14: it is an old copy")
    refused(kept, "old copy", copied=True)  # no word of the owner makes it new


def test_an_old_copy_put_back_after_a_crash(path):
    """The mark is moved at each append, not only at the end."""
    script = f"""
        import os, shutil
        from tacit.core.protocol.records import Closed, Opened
        from tacit.live.ledger.ledger import Ledger
        path = {str(path)!r}
        ledger = Ledger(path)
        ledger.append(b"s" * 32, [Opened(b"s" * 32, ())])
        for end in ("", "-wal"):
            shutil.copyfile(path + end, path + ".backup" + end)
        ledger.append(b"s" * 32, [Closed(0, b"y", (), ())])
        os.kill(os.getpid(), 9)
    """
    assert run(script, check=False).returncode == -signal.SIGKILL
    for end in ("", "-wal"):
        Path(f"{path}{end}").write_bytes(Path(f"{path}.backup{end}").read_bytes())
    with pytest.raises(LedgerError, match="old copy"):
        Ledger(path)


def test_an_old_copy_whose_history_went_on_differently(kept, tmp_path):
    other = tmp_path / "other"
    for source, target in ((kept, other), (mark_of(kept), mark_of(other))):
        shutil.copy(source, target)
    with Ledger(other, copied=True) as ledger:
        ledger.append(S, [Spoke(5, b"one thing", 0.01), Spoke(6, b"more", 0.01)])
    with Ledger(kept) as ledger:
        ledger.append(S, [Spoke(5, b"another thing", 0.01)])
    kept.write_bytes(other.read_bytes())  # longer than its mark says, and not what it says
    refused(kept, "another history than its mark")


def test_a_copy_under_another_name(kept, tmp_path):
    copy = tmp_path / "copy"
    shutil.copy(kept, copy)
    refused(copy, r"has no mark \(copy.mark\)")
    assert not mark_of(copy).exists()
    shutil.copy(mark_of(kept), mark_of(copy))
    refused(copy, "is not the file that its mark was made for")
    with Ledger(copy, copied=True) as ledger:
        assert len(ledger.records(S)) == 11
    Ledger(copy).close()  # now the mark is for this file


def test_a_file_replaced_by_its_own_copy(kept, tmp_path):
    shutil.copy(kept, tmp_path / "backup")
    os.replace(tmp_path / "backup", kept)
    refused(kept, "not the file that its mark was made for")
    Ledger(kept, copied=True).close()


def test_the_owners_word_makes_a_mark_where_there_is_none(kept):
    mark_of(kept).unlink()
    refused(kept, "has no mark")
    Ledger(kept, copied=True).close()
    Ledger(kept).close()


def test_a_mark_of_another_ledger(kept, tmp_path):
    Ledger(tmp_path / "other").close()
    shutil.copy(mark_of(tmp_path / "other"), mark_of(kept))
    refused(kept, "no mark of its own")


def test_a_moved_pair_is_the_same_pair(kept, tmp_path):
    (tmp_path / "new").mkdir()
    for file in (kept, mark_of(kept)):
        file.rename(tmp_path / "new" / file.name)
    Ledger(tmp_path / "new" / kept.name).close()


def test_a_lost_ledger_is_not_begun_again(kept):
    kept.unlink()
    refused(kept, r"is missing.* 13 records")


def test_a_damaged_mark(kept):
    data = bytearray(mark_of(kept).read_bytes())
    data[512 + 30] ^= 1
    mark_of(kept).write_bytes(data)
    Ledger(kept).close()  # the other half is whole
    data[512 + 30 : 512 + 31] = data[1024 + 30 : 1024 + 31] = b"?"
    mark_of(kept).write_bytes(data)
    refused(kept, "agent.ledger.mark is damaged")
    mark_of(kept).write_bytes(b"")
    refused(kept, "no mark of its own")


def test_open_files_and_other_names(kept, tmp_path):
    kept.chmod(0o640)
    with pytest.raises(Exception, match="has mode 640"):
        Ledger(kept)
    kept.chmod(0o600)
    os.link(kept, tmp_path / "second-name")
    refused(kept, "one name only")


def test_no_ledger_where_one_should_be(path):
    refused(path, "there is no ledger", create=False)
    assert not mark_of(path).exists()
    refused(path.parent / "nowhere" / "a", "No such file")
    with pytest.raises(LedgerError):
        Ledger(path.parent)


def test_a_log_that_is_lost_is_seen(path):
    """A copy of the file alone, without its write-ahead log, is an old copy."""
    ledger = entered(path)
    ledger.append(S, [Spoke(0, b"x", 0.1)])
    alone = path.read_bytes()
    ledger.close()
    path.write_bytes(alone)
    refused(path, "old copy")


def test_many_threads(path):
    with entered(path) as ledger, ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda u: ledger.append(S, [Spoke(u, b"%d" % u, 1e-6)]), range(40)))
        assert {record.update for record in ledger.records(S)[1:]} == set(range(40))
    with Ledger(path) as ledger:
        assert all(ledger.said(S, u) == b"%d" % u for u in range(40))


def test_a_path_in_words(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Ledger("my ledger?#%41.db") as ledger:
        assert ledger.path == Path(tmp_path).resolve() / "my ledger?#%41.db"
    assert (tmp_path / "my ledger?#%41.db").exists()
