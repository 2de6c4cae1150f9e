"""The keys detect an old ledger that is put back, even with its mark."""

import os
import shutil
from pathlib import Path

import pytest
from tests.saving import Saving

from tacit.base.errors import CapExceeded, InputError, LedgerError, SessionOver
from tacit.core.protocol.messages import Reason
from tacit.core.protocol.records import Began, Ended, Moved, Silenced, Spoke
from tacit.live.ledger import group_commit, key_guard, rollback_guard, store
from tacit.live.ledger.flush import can_flush_file_system
from tacit.live.ledger.ledger import Ledger

S, T = b"s" * 32, b"t" * 32
EXPIRES = 4_000_000_000
SECRET = b"the-private-state-of-this-agent"


@pytest.fixture
def keys(tmp_path):
    folder = tmp_path / "keys"
    folder.mkdir(mode=0o700)
    return folder


def begin(path, keys, session=S, *, planned=1.0, cap=10.0, words=None):
    """Open a ledger as an agent does before it speaks."""
    key_guard.require_known(keys, path, words)
    ledger = Ledger(path)
    try:
        key_guard.require_bindable(keys, session, ledger, EXPIRES)
        key_guard.require_trusted(keys, ledger, words)
        ledger.reserve(session, "meter", planned=planned, adjacency=1.0, diameter=1.0, cap=cap)
        key_guard.take(keys, ledger)
        key_guard.bind(keys, session, ledger, EXPIRES)
        if not ledger.records(session):
            ledger.append(session, [Began(session, 0, SECRET, planned, 0.0, cap)])
    except BaseException:
        ledger.close()
        raise
    return ledger


def say(ledger, update, session=S):
    """Append as a round does: an update and the message after it."""
    moved = Moved(update, (b"feedback %d" % update,), (), b"y", SECRET, b"")
    ledger.append(session, [moved, Spoke(update + 1, b"frame %d" % (update + 1), 0.01)])


def mark_of(path):
    return path.with_name(path.name + ".mark")


class Backup:
    """A copy of some files that can be put back into the same files."""

    def __init__(self, *paths):
        self._kept = {}
        for path in paths:
            wal = path.with_name(path.name + "-wal")
            for file in (path, wal):
                self._kept[file] = file.read_bytes() if file.exists() else None

    def restore(self):
        for file, content in self._kept.items():
            if content is not None:
                file.write_bytes(content)
            elif file.exists():
                file.unlink()


def guards(keys):
    return sorted((keys / "ledgers").iterdir())


# ---- put back ---------------------------------------------------------------------------------------


def test_ledger_and_mark_put_back_between_sessions(path, keys):
    """The cap would forget what was spent, though the keys have spoken since."""
    with begin(path, keys, planned=0.6, cap=1.0) as ledger:
        ledger.append(S, [Ended(0, None)])
    backup = Backup(path, mark_of(path))
    with begin(path, keys, T, planned=0.6, cap=1.0) as ledger:
        ledger.append(T, [Spoke(0, b"frame", 0.6), Ended(1, None)])
        assert ledger.spent("meter") == 0.6
    backup.restore()
    with Ledger(path) as ledger:  # beside each other they look well
        assert ledger.spent("meter") == 0.0
    with pytest.raises(LedgerError, match="the directory of keys says that there were 8: it is an old copy"):
        begin(path, keys, b"u" * 32, planned=0.6)


@pytest.mark.parametrize("messages", [1, 2, 7, 40])
def test_ledger_and_mark_put_back_in_mid_session(path, keys, messages):
    ledger = begin(path, keys)
    ledger.append(S, [Spoke(0, b"frame 0", 0.01)])
    backup = Backup(path, mark_of(path))  # while it runs, as a snapshot would
    for u in range(messages):
        say(ledger, u)
    ledger.close()
    backup.restore()
    with pytest.raises(LedgerError, match="it is an old copy"):
        begin(path, keys)


def test_a_ledger_that_went_its_own_way(path, keys, tmp_path):
    """Of two copies of a ledger, only the last one used with the keys works."""
    with begin(path, keys) as ledger:
        ledger.append(S, [Spoke(0, b"frame 0", 0.01)])
    other = tmp_path / "other.ledger"
    for source, target in ((path, other), (mark_of(path), mark_of(other))):
        shutil.copy(source, target)
    Ledger(other, copied=True).close()
    with begin(path, keys) as ledger:
        say(ledger, 0)
        with pytest.raises(LedgerError, match="is in use"):  # not at the same time
            begin(other, keys)
    with Ledger(other) as ledger:
        ledger.append(S, [Spoke(1, b"another frame", 0.01), Spoke(2, b"more", 0.01)])
    with pytest.raises(LedgerError, match="another history than the directory of keys"):
        begin(other, keys)


@pytest.mark.parametrize("torn", [512, 1024, None])
def test_the_slots_of_a_mark_take_turns(path, torn):
    """Slots alternate by writes, although a round appends two records."""
    ledger = Ledger(path)
    ledger.reserve(S, "meter", planned=1.0, adjacency=1.0, diameter=1.0, cap=10.0)
    ledger.append(S, [Began(S, 0, SECRET, 1.0, 0.0, 10.0), Spoke(0, b"frame 0", 0.01)])
    backup = Backup(path)
    for u in range(35):
        say(ledger, u)
    content = bytearray(mark_of(path).read_bytes())
    ledger.close()
    if torn is not None:
        content[torn : torn + 80] = os.urandom(80)
    backup.restore()
    mark_of(path).write_bytes(content)
    with pytest.raises(LedgerError, match="it is an old copy"):
        Ledger(path)


def test_a_torn_guard_still_knows_of_every_message_that_was_sent(path, keys):
    """Its newest slot is torn only if that message was not sent yet."""
    ledger = begin(path, keys)
    ledger.append(S, [Spoke(0, b"frame 0", 0.01)])
    say(ledger, 0)
    before = Backup(path, mark_of(path))
    (at,) = guards(keys)
    sent = at.read_bytes()
    say(ledger, 1)
    torn = bytearray(at.read_bytes())
    (place,) = (p for p in (512, 1024) if torn[p : p + 512] != sent[p : p + 512])  # one slot was written
    ledger.close()
    torn[place + 40] ^= 0xFF
    at.write_bytes(torn)
    before.restore()
    begin(path, keys).close()  # message 2 was made and not sent: going on without it is right
    with Ledger(path) as ledger:
        assert ledger.said(S, 1) == b"frame 1"


# ---- on the disk before a message leaves -------------------------------------------------------------


@pytest.fixture
def disk(monkeypatch):
    """What is on the disk, by inode: each file's content at its last flush."""
    kept, real = {}, store.flush_file

    def flush_file(descriptor):
        real(descriptor)
        kept[os.fstat(descriptor).st_ino] = os.pread(descriptor, 1 << 20, 0)

    for module in (rollback_guard, store):
        monkeypatch.setattr(module, "flush_file", flush_file)
    return kept


def on_disk(disk, path):
    """The newest position that a mark has on the disk."""
    content = disk[path.stat().st_ino]
    slots = [rollback_guard.Position.unpack(content[place : place + 512]) for place in (512, 1024)]
    return max(slot for slot in slots if slot is not None)[1]


def test_each_message_is_in_the_guard_on_the_disk_when_append_returns(path, keys, disk):
    with begin(path, keys) as ledger:
        (at,) = guards(keys)
        ledger.append(S, [Spoke(0, b"frame 0", 0.01)])
        for u in range(5):
            assert on_disk(disk, at).count == ledger._store.count
            say(ledger, u)
        ledger.append(S, [Moved(5, (), (), b"", SECRET, b"")])  # no message: nothing to wait for
        assert on_disk(disk, at).count == ledger._store.count - 1


@pytest.mark.skipif(not can_flush_file_system(), reason="this kernel cannot flush a whole file system")
def test_ledgers_that_are_saved_together_wait_for_their_guards_too(tmp_path, monkeypatch):
    """First the records, then the guards: a guard is never ahead."""
    ledgers, waits = [], []
    for i in range(3):
        (tmp_path / f"keys{i}").mkdir(mode=0o700)
        ledgers.append(begin(tmp_path / f"{i}.ledger", tmp_path / f"keys{i}"))

    def counts():
        found = []
        for i, _ledger in enumerate(ledgers):
            (at,) = guards(tmp_path / f"keys{i}")
            slots = [
                rollback_guard.Position.unpack(at.read_bytes()[place : place + 512]) for place in (512, 1024)
            ]
            found.append(max(slot for slot in slots if slot is not None)[1].count)
        return found

    monkeypatch.setattr(store, "flush_file_system", lambda _: waits.append(counts()))

    spoken = [Saving(ledger, S, [Spoke(0, b"frame 0", 0.01)]) for ledger in ledgers]
    assert group_commit.save_all(spoken) == [None] * 3
    assert waits == [[3, 3, 3], [4, 4, 4]]
    for ledger in ledgers:
        ledger.close()


def test_a_guard_that_cannot_be_written_stops_the_agent(path, keys, monkeypatch):
    ledger = begin(path, keys)

    def broken(_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(store, "flush_file", broken)
    with pytest.raises(LedgerError, match="cannot be guarded any more"):
        ledger.append(S, [Spoke(0, b"frame 0", 0.01)])
    monkeypatch.undo()
    with pytest.raises(LedgerError, match="cannot be guarded any more"):
        ledger.append(S, [Spoke(1, b"frame 1", 0.01)])
    ledger.close()
    begin(path, keys).close()


def test_the_binding_of_a_session_is_on_the_disk(path, keys, monkeypatch):
    synced, real = [], os.fsync

    def fsync(descriptor):
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    begin(path, keys).close()
    assert keys in synced  # the names of ledgers/ and sessions/
    assert keys / "sessions" in synced
    assert keys / "ledgers" in synced
    assert any(file.parent == keys / "sessions" and S.hex() in file.name for file in synced)


# ---- new ledgers -------------------------------------------------------------------------------------


def test_keys_that_have_spent_do_not_start_a_new_ledger_in_passing(path, keys, tmp_path):
    begin(path, keys).close()
    new = tmp_path / "new.ledger"
    with pytest.raises(LedgerError, match=r"another ledger than .*new\.ledger \(.*agent\.ledger\)"):
        begin(new, keys, T)
    assert not new.exists()
    begin(new, keys, T, words=key_guard.NEW_LEDGER).close()
    begin(path, keys).close()  # both are known now
    begin(new, keys, T).close()


def test_a_refused_session_does_not_tie_the_keys_to_a_ledger(path, keys, tmp_path):
    with pytest.raises(CapExceeded):
        begin(path, keys, planned=2.0, cap=1.0)
    begin(tmp_path / "other.ledger", keys).close()  # nothing was spent from the first


def test_a_power_cut_between_the_binding_and_the_guard(path, keys):
    """The session is bound, and the mark with the keys is missing or empty."""
    begin(path, keys).close()
    (at,) = guards(keys)
    at.write_bytes(b"")
    begin(path, keys).close()
    at.unlink()
    begin(path, keys).close()
    assert guards(keys) == [at]


# ---- a witness elsewhere -----------------------------------------------------------------------------


@pytest.fixture
def far(tmp_path):
    folder = tmp_path / "far"
    folder.mkdir(mode=0o700)
    return folder / "witness"


def test_a_witness_sees_keys_and_ledger_put_back_together(path, keys, far, tmp_path):
    with begin(path, keys) as ledger:
        key_guard.take_witness(ledger, far, create=True)
        ledger.append(S, [Spoke(0, b"frame 0", 0.01)])
    (at,) = guards(keys)
    backup = Backup(path, mark_of(path), at)
    with begin(path, keys) as ledger:
        key_guard.take_witness(ledger, far)
        say(ledger, 0)
    backup.restore()
    with begin(path, keys) as ledger:  # nothing on this machine can notice
        assert ledger.said(S, 1) is None
    with (
        begin(path, keys) as ledger,
        pytest.raises(LedgerError, match=r"the witness .* says that there were"),
    ):
        key_guard.take_witness(ledger, far)
    fresh = tmp_path / "keys-restored"
    fresh.mkdir(mode=0o700)
    with (
        begin(tmp_path / "fresh.ledger", fresh) as ledger,
        pytest.raises(LedgerError, match="another ledger"),
    ):
        key_guard.take_witness(ledger, far)


def test_a_witness_is_made_on_purpose(path, keys, far):
    """An unmounted disk or a mistyped name must not make a new witness."""
    with begin(path, keys) as ledger:
        with pytest.raises(LedgerError, match="there is no witness"):
            key_guard.take_witness(ledger, far)
        key_guard.take_witness(ledger, far, create=True)
    with begin(path, keys) as ledger, pytest.raises(LedgerError, match="exists already"):
        key_guard.take_witness(ledger, far, create=True)


# ---- forgetting --------------------------------------------------------------------------------------


def everything(folder):
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


def test_what_is_forgotten_is_gone_and_what_it_cost_is_not(path, keys, tmp_path):
    with begin(path, keys) as ledger:
        ledger.append(S, [Spoke(0, b"frame 0", 0.01)])
        for u in range(20):
            say(ledger, u)
        with pytest.raises(InputError, match="only a session that is over"):
            ledger.forget(S)
        ledger.append(S, [Ended(20, None)])
        spent = ledger.spent("meter")
        ledger.reserve(T, "meter", planned=1.0, adjacency=1.0, diameter=1.0)
        ledger.append(T, [Began(T, 0, b"of another session", 1.0, 0.0, 10.0)])
        assert SECRET in everything(tmp_path)
        assert b"frame 7" in everything(tmp_path)
        assert ledger.forget(S) == 42
        assert SECRET not in everything(tmp_path)  # while it is open: in the log, too
        assert b"frame 7" not in everything(tmp_path)
        assert ledger.forget(S) == 0
        assert ledger.forgotten(S)
        assert not ledger.forgotten(T)
    assert SECRET not in everything(tmp_path)
    with begin(path, keys, T) as ledger:  # the chain holds, and the keys know it again
        assert ledger.spent("meter") == pytest.approx(spent + 1.0)
        assert ledger.reservation(S).said == pytest.approx(0.21)
        assert ledger.size(S) == 43
        assert ledger.records(T)[0].state == b"of another session"
        with pytest.raises(SessionOver):
            ledger.records(S)
        with pytest.raises(LedgerError, match="settled"):
            ledger.append(S, [Spoke(99, b"again", 0.01)])


def test_equal_states_do_not_look_equal_when_they_are_forgotten(path, keys):
    """Each row has its own salt: a bare hash of a state would reveal it."""
    with begin(path, keys) as ledger:
        ledger.append(S, [Moved(u, (), (), b"y", SECRET, b"") for u in range(2)] + [Ended(2, None)])
        ledger.forget(S)
        rows = ledger._store._each("WHERE kind = 'moved'")
        first, second = (row[6] for row in rows)
    assert len(first) == len(second) == 32
    assert first != second


def test_a_session_that_fell_silent_can_be_given_up_and_forgotten(path, keys, tmp_path):
    with begin(path, keys) as ledger:
        ledger.append(S, [Spoke(0, b"frame 0", 0.01), Silenced(1, Reason.CAP)])
        ledger.settle(S)
        ledger.settle(S)
        assert ledger.given_up(S)
        ledger.forget(S)
    assert SECRET not in everything(tmp_path)
