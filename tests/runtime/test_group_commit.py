"""Group commit: one flush for all ledgers, and no news before it."""

import errno

import pytest
from tests.saving import Saving

from tacit.base.errors import LedgerError
from tacit.core.protocol.records import Began, Spoke
from tacit.live.ledger import group_commit, store
from tacit.live.ledger.flush import can_flush_file_system
from tacit.live.ledger.ledger import Ledger, flush_together

S = b"s" * 32

linux = pytest.mark.skipif(not can_flush_file_system(), reason="no syncfs that reports errors here")


def begun(path):
    ledger = Ledger(path)
    ledger.reserve(S, "meter", planned=1.0, adjacency=1.0, diameter=1.0, cap=10.0)
    ledger.append(S, [Began(S, 0, b"state", 1.0, 0.0, 10.0)])
    return ledger


@pytest.fixture
def ledgers(tmp_path):
    made = [begun(tmp_path / f"{i}.ledger") for i in range(5)]
    yield made
    for ledger in made:
        ledger.close()


def spoke(u):
    return [Spoke(u, b"message %d" % u, 1e-3)]


def save_all(ledgers, u):
    return group_commit.save_all([Saving(one, S, spoke(u)) for one in ledgers])


@linux
def test_one_flush_serves_all_and_comes_before_anyone_is_told(ledgers, monkeypatch):
    flushes, told = [], []
    real = store.flush_file_system

    class Taker:
        def take(self, _records):
            assert flushes
            told.append(self)

    def flush(descriptor):
        assert all(ledger.said(S, 0) == b"message 0" for ledger in ledgers)  # written before the flush
        flushes.append(real(descriptor))

    monkeypatch.setattr(store, "flush_file_system", flush)
    batch = [Saving(ledger, S, spoke(0), [Taker()]) for ledger in ledgers]
    assert group_commit.save_all(batch) == [None] * len(ledgers)
    assert len(flushes) == 1
    assert told == [item.takers[0] for item in batch]


@linux
def test_a_failed_flush_ends_every_ledger_that_waited_for_it(ledgers, monkeypatch):
    def broken(_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(store, "flush_file_system", broken)
    outcomes = save_all(ledgers, 0)
    assert [type(outcome) for outcome in outcomes] == [LedgerError] * len(ledgers)
    monkeypatch.undo()
    for ledger in ledgers:
        with pytest.raises(LedgerError, match="flushed"):
            ledger.append(S, spoke(0))


@linux
def test_the_mark_never_runs_ahead_of_the_disk(ledgers, monkeypatch):
    """A power cut before the flush leaves a ledger as new as its mark."""
    seen = []
    marks = [ledger.path.with_name(ledger.path.name + ".mark") for ledger in ledgers]
    before = [mark.read_bytes() for mark in marks]

    def flush(_):
        seen.extend(mark.read_bytes() == old for mark, old in zip(marks, before, strict=True))

    monkeypatch.setattr(store, "flush_file_system", flush)
    save_all(ledgers, 0)
    assert seen == [True] * len(ledgers)
    assert all(mark.read_bytes() != old for mark, old in zip(marks, before, strict=True))


@linux
def test_a_ledger_alone_flushes_its_own_file(ledgers, monkeypatch):
    monkeypatch.setattr(store, "flush_file_system", None)

    def levels():
        return [ledger._store._ask("PRAGMA synchronous") for ledger in ledgers]

    save_all(ledgers[:1], 0)
    assert levels()[0] == 2  # FULL: the commit itself waits for the disk
    monkeypatch.setattr(store, "flush_file_system", lambda _: None)
    save_all(ledgers, 1)
    assert levels() == [1] * len(ledgers)  # NORMAL: the flush is the one that follows
    save_all(ledgers[:1], 2)
    assert levels()[0] == 2


def test_without_such_a_flush_each_file_is_flushed(ledgers, monkeypatch):
    monkeypatch.setattr(group_commit, "can_flush_file_system", lambda: False)
    monkeypatch.setattr(store, "flush_file_system", None)
    assert save_all(ledgers, 0) == [None] * len(ledgers)
    assert all(ledger.said(S, 0) == b"message 0" for ledger in ledgers)


def test_one_ledger_that_refuses_does_not_hold_up_the_others(ledgers):
    ledgers[2].append(S, spoke(0))
    outcomes = save_all(ledgers, 0)
    assert [outcome is None for outcome in outcomes] == [True, True, False, True, True]
    assert isinstance(outcomes[2], LedgerError)
    assert save_all(ledgers, 1) == [None] * len(ledgers)  # nothing of it was left half done


def test_many_rows_at_once_are_all_or_none(ledgers):
    ledger = ledgers[0]
    many = [record for u in range(200) for record in spoke(u)]
    with pytest.raises(LedgerError, match="one of this kind already"):
        ledger.append(S, [*many, *spoke(7)])
    assert ledger.said(S, 0) is None
    ledger.append(S, many)
    assert ledger.said(S, 199) == b"message 199"


def test_what_was_flushed_together_is_found_again(tmp_path):
    made = [begun(tmp_path / f"{i}.ledger") for i in range(3)]
    for ledger in made:
        ledger.append(S, spoke(0), flush=False)
    assert not flush_together(made)
    for ledger in made:
        ledger.close()
    for i in range(3):
        with Ledger(tmp_path / f"{i}.ledger", create=False) as again:
            assert again.said(S, 0) == b"message 0"
