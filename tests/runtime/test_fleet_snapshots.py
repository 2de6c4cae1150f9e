"""A member's disk that is put back: the hub has seen a newer ledger, and the member refuses."""

import asyncio
import sqlite3
from unittest import mock

import pytest
from tests.runtime.builders import ONE, entered, limited
from tests.runtime.fleets import Fleet, following

from tacit.base.errors import FileError, InputError, LedgerError
from tacit.core.protocol.records import Ended, Spoke, decode_record
from tacit.live.fleet import hub as hub_module
from tacit.live.fleet.channel import SessionChannel
from tacit.live.fleet.marks import MARKS, MarkedFrames, MarkStore
from tacit.live.fleet.messages import LedgerMark
from tacit.live.ledger.ledger import Ledger
from tacit.live.ledger.rollback_guard import TOLD_BYTES, Position
from tacit.live.runtime.node import Node

NAMES = ("alice", "bob", "carol")
ROUNDS = {"loss": 2.0, "low": 0.0, "high": 10.0, "rounds": 60, "mixing": 0.5}


@pytest.fixture(autouse=True)
def no_radius(monkeypatch):
    monkeypatch.setattr(hub_module, "radius_for", lambda *_: 1.0)


class Snapshot:
    """The files of one member, put back as a disk is: in place, with the same inodes."""

    def __init__(self, folder, name):
        self._folder, self._name = folder, name
        self._files = {path: path.read_bytes() for path in self._now()}

    def _now(self):
        return [path for path in self._folder.glob(f"{self._name}*/**/*") if path.is_file()] + [
            path for path in self._folder.glob(f"{self._name}*") if path.is_file()
        ]

    def put_back(self):
        for path in set(self._now()) - set(self._files):
            path.unlink()
        for path, data in self._files.items():
            with path.open("r+b" if path.exists() else "wb") as file:
                file.truncate()
                file.write(data)
            path.chmod(0o600)


async def fleet_of(folder, *names, keepers=(), **limits):
    fleet = Fleet(folder)
    async with fleet.serving():
        for name in (*keepers, *names):
            await fleet.enrol(name)
        for name in keepers:
            fleet.policy(name, role="keeper")
        for name in names:
            fleet.policy(name, trust=keepers[:1], **limits)
    return fleet


async def refusal(fleet, name):
    """Return with which sentence a member stops."""
    with pytest.raises(LedgerError) as refused:
        async with fleet.follow(name) as member:
            await member.run()
    return str(refused.value)


def test_an_agent_whose_disk_was_put_back_refuses_before_it_overspends(tmp_path):
    async def main():
        fleet = await fleet_of(tmp_path, *NAMES)
        fleet.policy("alice", cap=2.0)
        async with fleet.serving() as hub, following(fleet, "bob", "carol"):
            async with following(fleet, "alice"):
                await fleet.run("one", least=3)
            disk = Snapshot(tmp_path, "alice")
            async with following(fleet, "alice") as alice:
                await fleet.run("two", least=3)
                await fleet.until(lambda: not alice.sessions)
                assert alice.ledger.balance("value").spent == 2.0
            disk.put_back()
            said = await refusal(fleet, "alice")
            assert "alice.ledger has" in said
            assert "but the hub says that there were" in said
            assert "old copy" in said
            [(state, result)] = await fleet.run("three", least=2)
            assert (state, result["agents"]) == ("finished", 2)
            assert "alice" not in hub.gateway.members

    limited(main())


def test_a_disk_from_before_the_last_message_is_found_in_mid_session(tmp_path, monkeypatch):
    """The record of the message is not on this disk, and the message has left."""
    disks, save = [], Node.save

    def watched(self, *, flush):
        steps = [record for step in self._steps for record in step.records]
        mine = self.ledger.path.name == "alice.ledger"
        if mine and any(isinstance(record, Spoke) and record.update == 2 for record in steps):
            disks.append(Snapshot(tmp_path, "alice"))
        save(self, flush=flush)

    monkeypatch.setattr(Node, "save", watched)

    async def main():
        fleet = await fleet_of(tmp_path, *NAMES)
        async with fleet.serving(), following(fleet, "bob", "carol"):
            async with following(fleet, "alice"):
                [(state, _)] = await fleet.run("one", question=ROUNDS, least=3)
                assert state == "finished"
            assert len(disks) == 1
            disks[0].put_back()
            assert "the hub says" in await refusal(fleet, "alice")

    limited(main())


def test_a_keeper_whose_disk_was_put_back_does_not_open_again(tmp_path):
    async def main():
        fleet = await fleet_of(tmp_path, *NAMES, keepers=("north", "south"))
        kept = {"least": 3, "keepers": ("north", "south")}
        async with fleet.serving(), following(fleet, *NAMES, "south"):
            async with following(fleet, "north") as north:
                await fleet.run("one", **kept)
                await fleet.until(lambda: not north.sessions)
            disk = Snapshot(tmp_path, "north")
            async with following(fleet, "north") as north:
                await fleet.run("two", **kept)
                await fleet.until(lambda: not north.sessions)
            disk.put_back()
            assert "the hub says" in await refusal(fleet, "north")

    limited(main())


def on_the_disk(home):
    """Return the marks that are committed, as another process reads them."""
    database = sqlite3.connect(home / MARKS)
    try:
        return {key: Position.heard(mark) for key, mark in database.execute("SELECT key, mark FROM mark")}
    finally:
        database.close()


def test_the_mark_is_on_the_hubs_disk_before_the_message_is_handed_on(tmp_path, monkeypatch):
    found, put = [], SessionChannel.put

    async def main():
        fleet = await fleet_of(tmp_path, *NAMES)
        async with fleet.serving() as hub, following(fleet, *NAMES) as agents:
            ledgers = {agent.identity.public_key: agent.ledger for agent in agents}

            def watched(self, link, data):
                member = hub.gateway._by_link.get(link)
                if member is not None:
                    marks = on_the_disk(fleet.home)
                    for number, _, kind, *_, record, _ in ledgers[member.public_key]._store._each():
                        if kind == "spoke" and decode_record(record).frame == data:
                            found.append(number <= marks[member.public_key].count)
                return put(self, link, data)

            monkeypatch.setattr(SessionChannel, "put", watched)
            [(state, _)] = await fleet.run("one", question=ROUNDS, least=3)
            assert state == "finished"
            for agent in agents:
                assert on_the_disk(fleet.home)[agent.identity.public_key].generation == agent.ledger.identity

    limited(main())
    assert len(found) >= 15
    assert all(found)


def test_a_hub_that_cannot_store_a_mark_takes_no_message(tmp_path, monkeypatch):
    handed = []

    async def main():
        fleet = await fleet_of(tmp_path, *NAMES)
        async with fleet.serving(), following(fleet, *NAMES):
            with monkeypatch.context() as patch:

                def full(self, marks):
                    raise FileError("the disk is full.")

                patch.setattr(MarkStore, "keep", full)
                patch.setattr(SessionChannel, "put", lambda self, *_: handed.append(self.who) or True)
                running = asyncio.ensure_future(fleet.run("one", least=3, start_deadline=60.0))
                await fleet.until(lambda: any("not taken" in text for _, text, _ in fleet.told))
                assert -1 not in handed  # the coordinator has heard nothing
            [(state, result)] = await running  # they connect again, and the mark comes with the greeting
            assert (state, result["missing"]) == ("finished", [])

    limited(main())


def test_a_hub_that_lies_or_forgets_can_only_cause_a_refusal(tmp_path):
    async def main():
        fleet = await fleet_of(tmp_path, *NAMES)
        async with fleet.serving(), following(fleet, *NAMES):
            await fleet.run("one", least=3)
        (fleet.home / MARKS).unlink()  # a hub without marks, or with older ones, accepts what is newer
        async with fleet.serving() as hub, following(fleet, *NAMES) as agents:
            alice, member = agents[0], hub.gateway.members["alice"]
            true = alice.ledger.position
            older = Position(true.generation, 0, true.head, 0, born=True)
            for mark in (true.told(), b"", b"x" * TOLD_BYTES + b"y", b"\xff" * TOLD_BYTES):
                member.send(LedgerMark(mark))
            [(state, _)] = await fleet.run("two", least=3)
            assert state == "finished"
            spent = alice.ledger.balance("value").spent
            member.send(LedgerMark(Position(older.generation, 10_000, older.head, 0, born=True).told()))
            with pytest.raises(LedgerError, match="10,000"):
                async with asyncio.timeout(60):
                    await alice.run()
            assert alice.ledger.balance("value").spent == spent

    limited(main())


def test_keys_with_an_empty_ledger_are_refused_where_the_hub_knows_another(tmp_path):
    async def main():
        fleet = await fleet_of(tmp_path, *NAMES)
        empty = Snapshot(tmp_path, "alice")
        async with fleet.serving(), following(fleet, "bob", "carol"):
            async with following(fleet, "alice"):
                await fleet.run("one", least=3)
            empty.put_back()
            assert "another ledger than the one that the hub knows" in await refusal(fleet, "alice")

    limited(main())


def test_a_witness_in_the_policy_sees_what_a_hub_does_not(tmp_path):
    async def main():
        fleet = await fleet_of(tmp_path, *NAMES)
        policy, far = tmp_path / "alice.toml", tmp_path / "far.witness"
        policy.write_text(f'witness = "{far.name}"\n' + policy.read_text())
        async with fleet.serving(), following(fleet, *NAMES):  # the witness is made with the ledger
            await fleet.run("one", least=3)
        disk = Snapshot(tmp_path, "alice")
        async with fleet.serving(), following(fleet, *NAMES):
            await fleet.run("two", least=3)
        disk.put_back()
        (fleet.home / MARKS).unlink()
        said = await refusal(fleet, "alice")
        assert "far.witness says that there were" in said
        far.unlink()
        assert "there is no witness" in await refusal(fleet, "alice")

    limited(main())


def test_a_mark_from_before_a_compaction_is_accepted_and_a_newer_one_is_not(path):
    with entered(path, expires=100, now=0.0) as ledger:
        first = ledger.position
        ledger.append(ONE, [Ended(0, None)])
        ledger.compact([ONE], 100, 200.0)
        assert ledger.position.count > first.count
        for known in (first, ledger.position, Position.heard(ledger.position.told())):
            ledger.require_not_behind(known, "the hub")
        later = Position(first.generation, ledger.position.count + 1, first.head, 0, born=True)
        with pytest.raises(LedgerError, match="the hub says"):
            ledger.require_not_behind(later, "the hub")
        other = Position(first.generation, ledger.position.count, bytes(32), 0, born=True)
        with pytest.raises(LedgerError, match="another history"):
            ledger.require_not_behind(other, "the hub")


def test_a_position_is_on_the_disk_and_tells_nothing_private(path):
    with entered(path) as ledger:
        told = ledger.position.told()
        assert len(told) == TOLD_BYTES == 56
        assert told[:16] == ledger.identity
        ledger.append(ONE, [Ended(0, None)], flush=False)
        assert ledger.position.told() == told  # not on the disk yet
    with Ledger(path) as ledger:
        assert ledger.position.told() != told


@pytest.mark.parametrize("mark", [b"", bytes(55), bytes(57), b"\xff" * TOLD_BYTES])
def test_a_mark_that_is_none_is_refused(mark):
    with pytest.raises(InputError):
        Position.heard(mark)


def test_frames_wait_for_the_mark_of_the_greeting_in_their_order(tmp_path):
    """A member that connects again has told its mark before its frames, which come without one."""
    handed = []

    def mark(count):
        return Position(b"g" * 16, count, bytes(32), 0, born=True)

    async def main():
        store = MarkStore(tmp_path)
        frames = MarkedFrames(store, lambda _, frame: handed.append((frame, known())), lambda *_: None)
        member = mock.Mock(public_key=b"k" * 32, link=mock.Mock(waiting=0))

        def known():
            return on_the_disk(tmp_path)[b"k" * 32].count

        frames.take(member, b"", mark(3))
        for frame, its in ((b"a", None), (b"b", mark(4)), (b"c", mark(2)), (b"d", mark(9))):
            frames.take(member, frame, its)
        assert not handed
        await frames.close()
        assert member.link.waiting == 0
        frames.take(member, b"e", None)
        store.close()

    limited(main())
    assert [frame for frame, _ in handed] == [b"a", b"b", b"c", b"d", b"e"]
    assert all(count >= least for (_, count), least in zip(handed, (3, 4, 4, 9, 9), strict=True))


def test_a_disk_that_is_put_back_while_the_last_mark_is_being_stored_is_seen(tmp_path):
    """Two connections with one key, and two marks in one write: the newer one stays, and is told."""

    def mark(count):
        return Position(b"g" * 16, count, bytes(32), 0, born=True)

    async def main():
        store, key = MarkStore(tmp_path), b"k" * 32
        frames = MarkedFrames(store, lambda *_: None, lambda *_: None)
        first, again = (mock.Mock(public_key=key, link=mock.Mock(waiting=0)) for _ in range(2))
        store.keep({key: mark(3)})
        frames.take(first, b"a", mark(10))
        frames.forget(first)  # its connection is lost, and the mark is still stored
        assert frames.known(key) == mark(10)
        frames.take(again, b"", mark(5))
        await frames.close()
        assert frames.known(key) == store.known(key) == mark(10)
        assert on_the_disk(tmp_path)[key].count == 10
        store.close()

    limited(main())


def test_the_store_of_marks_keeps_the_newest_of_one_ledger(tmp_path):
    def mark(count, generation=b"g" * 16):
        return Position(generation, count, bytes(32), 0, born=True)

    store, key = MarkStore(tmp_path), b"k" * 32
    assert store.known(key) is None
    store.keep({key: mark(5)})
    assert [store.is_news(key, one) for one in (mark(4), mark(5), mark(6))] == [False, False, True]
    assert not store.is_news(key, mark(9, b"h" * 16))
    store.close()
    again = MarkStore(tmp_path)
    assert again.known(key) == mark(5)
    again.close()
    assert (tmp_path / MARKS).stat().st_mode & 0o077 == 0
    (tmp_path / MARKS).write_bytes(b"nonsense" * 1000)
    with pytest.raises(FileError, match="cannot be used"):
        MarkStore(tmp_path)
