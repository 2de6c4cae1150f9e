"""Compaction: same cost, no second draw, no rollback, and a small file."""

import json
import math
import os
import random
import shutil
import subprocess
import sys
import textwrap
from collections import Counter
from fractions import Fraction

import pytest

from tacit.base.errors import CapExceeded, InputError, LedgerError, SessionOver
from tacit.base.rounding import fraction_up
from tacit.core.protocol.records import Began, Closed, Ended, Moved, Opened, Spoke
from tacit.live.ledger import compaction, key_guard, schema
from tacit.live.ledger.budget import Window
from tacit.live.ledger.ledger import Ledger

DAY, LIFE = 86_400, 600
pytestmark = pytest.mark.usefixtures("forks")

SECRET = b"the-private-state-of-this-agent"


@pytest.fixture
def keys(tmp_path):
    folder = tmp_path / "keys"
    folder.mkdir(mode=0o700)
    return folder


def name(i):
    return i.to_bytes(32, "big")


def take_part(ledger, keys, i, at, *, loss=0.25, over=True, said=True, **more):
    """Take part in a short session, as an agent that follows a hub does."""
    session, expires = name(i), int(at) + LIFE
    key_guard.require_bindable(keys, session, ledger, expires)
    about = {"planned": 2 * loss, "adjacency": 1.0, "diameter": 10.0, "cap": 1e9, "cap_adjacency": 1.0}
    ledger.reserve(session, "meter", expires=expires, now=at, **about | more)
    key_guard.take(keys, ledger)
    key_guard.bind(keys, session, ledger, expires)
    ledger.append(session, [Began(session, 0, SECRET, 2 * loss, 0.0, 1e9)])
    if said:
        ledger.append(session, [Spoke(0, b"frame %d" % i, loss)])
        ledger.append(session, [Moved(0, (b"feedback",), (), b"y", SECRET, b"")])
    if over:
        ledger.append(session, [Ended(1, None)])


def rows(path):
    """Count the rows that a file has, read as any program could."""
    done = subprocess.run(
        [sys.executable, "-c", "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute("
         "'SELECT count(*) FROM record').fetchone()[0])", str(path)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return int(done.stdout)


def test_what_is_over_and_expired_goes_and_what_it_cost_stays(path, keys):
    with Ledger(path) as ledger:
        for i in range(20):
            take_part(ledger, keys, i + 1, 1000.0 * i, loss=0.1)
        take_part(ledger, keys, 50, 18_900.0, over=False)
        now, before = 20_000.0, ledger.balance("meter")
        spent_since = {when: ledger.spent_since("meter", when) for when in (-1.0, 5000.0, 18_000.0)}
        assert key_guard.compact(keys, ledger, now) == 20
        assert ledger.sessions() == (name(50),)
        assert ledger.balance("meter") == before
        assert {when: ledger.spent_since("meter", when) for when in spent_since} == spent_since
        assert ledger.last_begun("meter") == 19_000.0
    assert SECRET in path.read_bytes()  # of session 50, which can go on
    assert b"frame 7" not in path.read_bytes()
    with Ledger(path) as ledger:  # and so it is when it is read again
        assert ledger.balance("meter") == before
        assert {when: ledger.spent_since("meter", when) for when in spent_since} == spent_since
        assert [record.__class__ for record in ledger.records(name(50))] == [Began, Spoke, Moved]
        ledger.append(name(50), [Ended(1, None)])
        assert key_guard.compact(keys, ledger, 30_000.0) == 1
        assert fraction_up(Fraction(0.1) * 20 + Fraction(0.25)) == ledger.spent("meter")
    assert rows(path) == 1  # the cap
    assert SECRET not in path.read_bytes()
    assert [file.name for file in (keys / "sessions").iterdir()] == [key_guard.HORIZON]


def test_a_session_that_was_dropped_cannot_begin_again(path, keys, tmp_path):
    """Not even with a clock that is set back, nor with another ledger."""
    with Ledger(path) as ledger:
        take_part(ledger, keys, 1, 1000.0)
        take_part(ledger, keys, 2, 5000.0)
        assert key_guard.compact(keys, ledger, 6000.0) == 2
        with pytest.raises(SessionOver):
            take_part(ledger, keys, 1, 1000.0)
        shutil.rmtree(keys / "sessions")  # the ledger knows by itself
        with pytest.raises(SessionOver):
            take_part(ledger, keys, 1, 1000.0)
        take_part(ledger, keys, 3, 5001.0)
    with Ledger(path) as ledger, pytest.raises(SessionOver):
        take_part(ledger, keys, 2, 5000.0)


def test_another_ledger_does_not_begin_it_again_either(path, keys, tmp_path):
    with Ledger(path) as ledger:
        take_part(ledger, keys, 1, 1000.0)
        assert key_guard.compact(keys, ledger, 6000.0) == 1
    with Ledger(tmp_path / "other.ledger") as other, pytest.raises(SessionOver):
        take_part(other, keys, 1, 1000.0)


def test_only_what_is_over_and_expired_goes(path, keys):
    with Ledger(path) as ledger:
        take_part(ledger, keys, 1, 1000.0)  # expires at 1600
        take_part(ledger, keys, 2, 1000.0, over=False)
        take_part(ledger, keys, 3, 1001.0)
        assert key_guard.compact(keys, ledger, 1599.0) == 0
        assert key_guard.compact(keys, ledger, 1600.0, busy={name(1)}) == 0
        assert key_guard.compact(keys, ledger, 1600.0) == 1
        assert ledger.sessions() == (name(2), name(3))
        with pytest.raises(InputError):
            ledger.compact([name(2)], 1600, 1600.0)
        ledger.settle(name(2))
        assert key_guard.compact(keys, ledger, 1601.0) == 2


def test_sessions_without_a_reservation_go_by_the_expiry_that_the_keys_know(path, keys):
    """Those of a keeper or a coordinator."""
    with Ledger(path) as ledger:
        for i in (1, 2, 3):
            key_guard.bind(keys, name(i), ledger, 1000 * i)
            ledger.append(name(i), [Opened(name(i), (0, 1)), Closed(0, b"frame", (0,), ())])
        ledger.append(name(1), [Ended(1, None)])
        ledger.append(name(3), [Ended(1, None)])
        assert key_guard.compact(keys, ledger, 2500.0) == 1
        assert ledger.sessions() == (name(2), name(3))
        with pytest.raises(SessionOver):
            key_guard.bind(keys, name(1), ledger, 1000)
        key_guard.bind(keys, name(2), ledger, 2000)  # it is known, and may go on


@pytest.mark.parametrize("lost", ["binding", "horizon of the keys", "nothing"])
def test_cut_off_before_the_bindings_go_it_cannot_begin_again(path, keys, monkeypatch, lost):
    """A keeper or coordinator whose clock is then set back: binding and horizon are there, rows are not."""
    with Ledger(path) as ledger:
        key_guard.bind(keys, name(1), ledger, 1000)
        ledger.append(name(1), [Opened(name(1), (0, 1)), Ended(1, None)])
        real = type(path).unlink

        def cut_off(self, **how):
            if self.name == name(1).hex():
                raise KeyboardInterrupt
            real(self, **how)

        monkeypatch.setattr(type(path), "unlink", cut_off)
        with pytest.raises(KeyboardInterrupt):
            key_guard.compact(keys, ledger, 5000.0)
        monkeypatch.undo()
        assert (keys / "sessions" / name(1).hex()).exists()
        if lost == "binding":
            (keys / "sessions" / name(1).hex()).unlink()
        elif lost == "horizon of the keys":
            (keys / "sessions" / key_guard.HORIZON).unlink()
        with pytest.raises(SessionOver):
            key_guard.bind(keys, name(1), ledger, 1000)
        key_guard.bind(keys, name(2), ledger, 1001)


def test_a_cap_holds_over_sessions_that_were_dropped(path, keys):
    with Ledger(path) as ledger:
        for i in range(8):
            take_part(ledger, keys, i + 1, 1000.0 * i, cap=2.25)
        key_guard.compact(keys, ledger, 50_000.0)
        with pytest.raises(CapExceeded):
            take_part(ledger, keys, 20, 60_000.0, loss=0.13, cap=2.25)
        assert ledger.balance("meter").sessions == 8
        ledger.set_cap("meter", 1e9, adjacency=10.0)  # counted ten times, by the kind of session
        assert ledger.spent("meter") == 20.0


def test_a_window_never_loses_a_session_and_is_at_most_a_64th_too_long(path, keys):
    rng = random.Random(1)
    begun = sorted(rng.uniform(0, 40 * DAY) for _ in range(300))
    now = 40.0 * DAY
    with Ledger(path) as ledger:
        for i, at in enumerate(begun):
            take_part(ledger, keys, i + 1, at, loss=1.0)
            if i % 50 == 49:
                key_guard.compact(keys, ledger, at)
        key_guard.compact(keys, ledger, now + LIFE)
        for seconds in (LIFE, 3600.0, 6 * 3600.0, DAY, 7 * DAY, 30 * DAY, 39 * DAY):
            true = sum(at > now - seconds for at in begun)
            most = sum(at > now - seconds * (1 + 1 / 32) for at in begun)
            assert true <= ledger.spent_since("meter", now - seconds) <= most
        with pytest.raises(CapExceeded):
            ledger.reserve(
                name(900), "meter", planned=1.0, adjacency=1.0, diameter=10.0, now=now,
                windows=[Window(30 * DAY, sum(at > now - 30 * DAY for at in begun))],
            )  # fmt: skip


def test_the_number_of_sums_grows_with_the_logarithm_of_time():
    """Ten years of sessions leave about 3,000 sums at most.

    There is one session a minute in the first and the last month.
    """
    sums, now, sizes = (), 0.0, Counter()
    for month in range(120):
        fresh = [
            schema.SpentSum("meter", 1.0, 10.0, now + 60.0 * i, 1, "1", 0)
            for i in range(0, 43_200, 1 if month in (0, 119) else 240)
        ]
        now += 30 * DAY
        sums = compaction.merged([*sums, *fresh], now)
        sizes[month] = len(sums)
    assert sum(one.units for one in sums) == sum(one.sessions for one in sums)
    assert max(sizes.values()) < 64 * 2 * math.log2(10 * 366 * DAY / 64)


# ---- rollback ------------------------------------------------------------------------------------------


def test_a_ledger_from_before_is_refused(path, keys, tmp_path):
    with Ledger(path) as ledger:
        for i in range(5):
            take_part(ledger, keys, i + 1, 1000.0 * i)
    mark = path.with_name(path.name + ".mark")
    old = path.read_bytes(), mark.read_bytes()
    with Ledger(path) as ledger:
        key_guard.require_trusted(keys, ledger, None)
        key_guard.compact(keys, ledger, 50_000.0)
    path.write_bytes(old[0])
    with pytest.raises(LedgerError, match="it is an old copy"):
        Ledger(path)
    mark.write_bytes(old[1])
    with Ledger(path) as ledger, pytest.raises(LedgerError, match="the directory of keys says"):
        key_guard.require_trusted(keys, ledger, None)


def test_compaction_takes_the_keys_along_before_the_first_session(path, keys):
    """A keeper that just started has not compared ledger and keys yet."""
    with Ledger(path) as ledger:
        take_part(ledger, keys, 1, 1000.0)
    with Ledger(path) as ledger:
        ledger.set_cap("meter", 1e9)
        assert key_guard.compact(keys, ledger, 5000.0) == 1
    with Ledger(path) as ledger:
        key_guard.require_trusted(keys, ledger, None)


def test_a_copy_that_went_its_own_way_is_refused(path, keys, tmp_path):
    with Ledger(path) as ledger:
        take_part(ledger, keys, 1, 1000.0)
    other = tmp_path / "other.ledger"
    for ending in ("", ".mark"):
        shutil.copy(path.with_name(path.name + ending), other.with_name(other.name + ending))
    with Ledger(path) as ledger:
        key_guard.require_trusted(keys, ledger, None)
        take_part(ledger, keys, 2, 1001.0)
        key_guard.compact(keys, ledger, 5000.0)
    with Ledger(other, copied=True) as ledger:
        for i in range(5):
            ledger.set_cap("meter", 1e9 + i)
        ledger.compact([name(1)], 2000, 9000.0)
        with pytest.raises(LedgerError, match=r"has dropped the records|another history|an old copy"):
            key_guard.require_trusted(keys, ledger, None)


def test_a_witness_that_was_not_there_cannot_be_compared(path, keys, tmp_path):
    with Ledger(path) as ledger:
        take_part(ledger, keys, 1, 1000.0)
        key_guard.take_witness(ledger, tmp_path / "witness", create=True)
    with Ledger(path) as ledger:
        take_part(ledger, keys, 2, 1001.0)
        key_guard.compact(keys, ledger, 5000.0)
        with pytest.raises(LedgerError, match="make a new witness"):
            key_guard.take_witness(ledger, tmp_path / "witness")
        key_guard.take_witness(ledger, tmp_path / "another", create=True)
    with Ledger(path) as ledger:
        key_guard.take_witness(ledger, tmp_path / "another")


def test_a_flipped_bit_in_the_sums_is_seen(path, keys):
    with Ledger(path) as ledger:
        take_part(ledger, keys, 1, 1000.0)
        key_guard.compact(keys, ledger, 5000.0)
    data, label = bytearray(path.read_bytes()), b"sums"
    place = data.rindex(label) + 20
    data[place] ^= 1
    path.write_bytes(data)
    with pytest.raises(LedgerError):
        Ledger(path)


def test_an_older_file_takes_part_and_can_be_compacted(path, keys, monkeypatch):
    """Version 2 had no table for sums."""
    tables = schema.TABLES.replace(schema.CARRIED, "").replace("user_version = 3", "user_version = 2")
    monkeypatch.setattr(schema, "TABLES", tables)
    with Ledger(path) as ledger:
        take_part(ledger, keys, 1, 1000.0)
    with Ledger(path) as ledger:
        assert key_guard.compact(keys, ledger, 5000.0) == 1
    with Ledger(path) as ledger:
        assert ledger.spent("meter") == 0.25
        with pytest.raises(LedgerError, match="reserved"):  # the rules are there again
            ledger.append(name(9), [Began(name(9), 0, b"", 1.0, 0.0, 1.0)])


# ---- killed --------------------------------------------------------------------------------------------

KILLED = """
    import json, os, signal, sys
    from pathlib import Path
    from tests.runtime.test_ledger_compaction import name, take_part
    from tacit.base import files
    from tacit.live.ledger import compaction, key_guard, ledger as book, rollback_guard, store
    from tacit.live.ledger.ledger import Ledger

    folder, stride = Path(sys.argv[1]), int(sys.argv[2])
    watched = {module.__file__ for module in (compaction, files, key_guard, book, rollback_guard, store)}

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

    deaths, at = 0, 1
    while True:
        path, keys = folder / f"{at}.ledger", folder / f"keys-{at}"
        keys.mkdir(mode=0o700)
        with Ledger(path) as ledger:
            for i in (1, 2):
                take_part(ledger, keys, i, 1000.0)
            take_part(ledger, keys, 3, 1000.0, over=False)
        child = os.fork()
        if child == 0:
            try:
                with Ledger(path) as ledger:
                    key_guard.require_trusted(keys, ledger, None)
                    sys.settrace(killed_at(at))
                    key_guard.compact(keys, ledger, 5000.0)
                    sys.settrace(None)
                os._exit(0)
            finally:
                os._exit(9)
        _, status = os.waitpid(child, 0)
        with Ledger(path) as ledger:
            key_guard.require_trusted(keys, ledger, None)
            assert ledger.spent("meter") == 1.0, ledger.spent("meter")
            assert len(ledger.sessions()) in (1, 3), ledger.sessions()
            assert len(ledger.records(name(3))) == 3
            assert key_guard.compact(keys, ledger, 5000.0) in (0, 2)
            assert ledger.sessions() == (name(3),) and ledger.spent("meter") == 1.0
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0, status
            break
        deaths, at = deaths + 1, at + stride
    print(json.dumps(deaths))
"""


@pytest.mark.parametrize("stride", [17, pytest.param(1, marks=pytest.mark.long)])
def test_killed_at_any_line_it_has_all_rows_or_the_sums(tmp_path, stride):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path), str(stride)],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": os.getcwd()},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) * stride > 100
