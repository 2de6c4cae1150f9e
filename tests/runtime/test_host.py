"""Many machines in one process: handled together, saved by one flush, and nothing is sent before it."""

import asyncio
import threading
from dataclasses import replace

import pytest
from tests.doubles import known_session

from tacit.base.errors import LedgerError
from tacit.core.protocol import codec as codecs
from tacit.core.protocol.codec import Codec
from tacit.core.protocol.effects import Heard, Send, Step
from tacit.core.protocol.records import Opened
from tacit.core.protocol.tables import AgentPhase
from tacit.live.ledger import store
from tacit.live.ledger.flush import can_flush_file_system
from tacit.live.ledger.ledger import Ledger
from tacit.live.runtime import host as hosts
from tacit.live.runtime.host import Host
from tacit.live.runtime.node import Node

linux = pytest.mark.skipif(not can_flush_file_system(), reason="no syncfs that reports errors here")
WAIT = 300


class Line:
    """A transport whose other end is the test."""

    dropped = 0

    def __init__(self):
        self.sent, self._arrived = [], []

    async def open(self, arrived):
        self.stir = arrived

    def arrive(self, *arrivals):
        self._arrived.extend(arrivals)
        self.stir()

    def take(self):
        taken, self._arrived = self._arrived, []
        return taken

    def send(self, _to, frame):
        self.sent.append(frame)

    async def close(self):
        pass


class Echo:
    """A machine of no kind the package knows: saves what it hears, and repeats it; "end" ends it."""

    ended, wake = False, None

    def __init__(self, session):
        self.session, self.codec, self.phase, self.threads = (
            session,
            Codec(session),
            AgentPhase.WAITING,
            set(),
        )

    def handle(self, event):
        self.threads.add(threading.current_thread())
        if isinstance(event, Heard) and event.frame == b"fail":
            raise LedgerError("the machine fails")
        if isinstance(event, Heard):
            if event.frame == b"end":
                self.phase = AgentPhase.FINISHED
            # One such record is allowed in a ledger.
            records = (Opened(self.session.id, (1,)),) if event.frame in (b"hello", b"first") else ()
            return Step(records, (Send(None, event.frame),), ())
        return Step((), (), ())


def frame(data):
    from tacit.live.transport.base import Frame

    return Frame(data)


class Place:
    """Some echoes in one event loop, each with a ledger."""

    def __init__(self, folder, count, components=1):
        self.session = replace(known_session(), components=components)
        self.ledgers = [Ledger(folder / f"{i}.ledger") for i in range(count)]
        self.lines = [Line() for _ in range(count)]
        self.machines = [Echo(self.session) for _ in range(count)]
        self.nodes = [
            Node(self.session.id, machine, line, ledger, linger=0.0)
            for machine, line, ledger in zip(self.machines, self.lines, self.ledgers, strict=True)
        ]

    async def __aenter__(self):
        self.tasks = [asyncio.ensure_future(node.run()) for node in self.nodes]
        while not all(hasattr(line, "stir") for line in self.lines):
            await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for ledger in self.ledgers:
            ledger.close()

    async def sent(self, *expected):
        """Wait until each has sent this."""
        while [line.sent for line in self.lines] != [list(expected)] * len(self.lines):
            await asyncio.sleep(0.005)


def limited(work):
    asyncio.run(asyncio.wait_for(work, WAIT))


class Gate:
    """A flush that waits for the test."""

    def __init__(self, monkeypatch):
        self.flushes, self.waiting, self.go = 0, threading.Event(), threading.Event()
        self._real = store.flush_file_system
        monkeypatch.setattr(store, "flush_file_system", self)

    def __call__(self, descriptor):
        self.flushes += 1
        self.waiting.set()
        assert self.go.wait(WAIT)
        self._real(descriptor)

    async def reached(self):
        while not self.waiting.is_set():
            await asyncio.sleep(0.005)


@linux
def test_many_machines_are_saved_by_one_flush_and_nothing_is_sent_before_it(tmp_path, monkeypatch):
    async def main():
        gate = Gate(monkeypatch)
        async with Place(tmp_path, 7) as place:
            for line in place.lines:
                line.arrive(frame(b"hello"))
            await gate.reached()
            assert all(ledger.records(place.session.id) for ledger in place.ledgers)  # written
            assert [line.sent for line in place.lines] == [[]] * 7  # and not sent
            gate.go.set()
            await place.sent(b"hello")
            assert gate.flushes == 1

    limited(main())


@linux
def test_what_arrives_one_after_another_without_a_pause_is_saved_by_one_flush(tmp_path, monkeypatch):
    batches, real = [], hosts.save_all
    monkeypatch.setattr(hosts, "save_all", lambda batch: batches.append(len(batch)) or real(batch))

    async def main():
        async with Place(tmp_path, 7) as place:
            for _ in range(20):
                await asyncio.sleep(0)  # all have started
            for line in place.lines:
                line.arrive(frame(b"hello"))
                await asyncio.sleep(0)  # one turn of the loop
            await place.sent(b"hello")
            assert batches == [7]

    limited(main())


def test_a_turn_waits_for_others_only_while_more_of_them_hear_something(tmp_path):
    """A flood at one machine, or at some, cannot put the turn off."""

    async def main():
        async with Place(tmp_path, 4) as place:
            for _ in range(3):
                place.lines[0].arrive(frame(b"say"))
                place.lines[1].arrive(frame(b"say"))
                await asyncio.sleep(0)
            assert b"say" in place.lines[0].sent
            assert b"say" in place.lines[1].sent

    limited(main())


@linux
def test_what_arrives_while_the_disk_is_waited_for_overtakes_nothing(tmp_path, monkeypatch):
    """Not even a message without a record: it may follow from what is not on the disk yet."""

    async def main():
        gate = Gate(monkeypatch)
        async with Place(tmp_path, 3) as place:
            for line in place.lines:
                line.arrive(frame(b"first"))
            await gate.reached()
            for line in place.lines:
                line.arrive(frame(b"only say"))
            for _ in range(10):
                await asyncio.sleep(0)
            assert [line.sent for line in place.lines] == [[]] * 3
            gate.go.set()
            await place.sent(b"first", b"only say")

    limited(main())


@linux
def test_whoever_is_stopped_while_saving_waits_for_the_disk_and_holds_up_nobody(tmp_path, monkeypatch):
    async def main():
        gate = Gate(monkeypatch)
        async with Place(tmp_path, 3) as place:
            for line in place.lines:
                line.arrive(frame(b"hello"))
            await gate.reached()
            place.tasks[0].cancel()
            for _ in range(10):
                await asyncio.sleep(0)
            assert not place.tasks[0].done()  # its ledger would be closed next
            gate.go.set()
            await asyncio.wait([place.tasks[0]])
            assert place.tasks[0].cancelled()
            assert place.lines[0].sent == []  # saved: it is said after a restart
            assert place.ledgers[0].records(place.session.id)
            place.lines.pop(0)
            await place.sent(b"hello")

    limited(main())


def test_one_that_fails_stops_nobody_else(tmp_path):
    async def main():
        async with Place(tmp_path, 3) as place:
            place.lines[1].arrive(frame(b"fail"))
            place.ledgers[2].close()
            for line in place.lines:
                line.arrive(frame(b"hello"))
            with pytest.raises(LedgerError, match="the machine fails"):
                await place.tasks[1]
            with pytest.raises(LedgerError, match="closed"):
                await place.tasks[2]
            assert [line.sent for line in place.lines[1:]] == [[], []]
            place.lines = place.lines[:1]
            await place.sent(b"hello")
            place.lines[0].arrive(frame(b"end"))
            await place.tasks[0]

    limited(main())


@linux
def test_a_machine_that_is_over_ends_only_when_its_last_word_is_saved_and_sent(tmp_path, monkeypatch):
    async def main():
        gate = Gate(monkeypatch)
        async with Place(tmp_path, 2) as place:
            for line in place.lines:
                line.arrive(frame(b"hello"), frame(b"end"))
            await gate.reached()
            for _ in range(10):
                await asyncio.sleep(0)
            assert not any(task.done() for task in place.tasks)
            gate.go.set()
            await asyncio.gather(*place.tasks)
            assert [line.sent for line in place.lines] == [[b"hello", b"end"]] * 2

    limited(main())


def test_a_machine_that_computes_for_long_leaves_the_loop_free(tmp_path):
    async def main():
        async with Place(tmp_path, 2, components=5000) as place:
            for line in place.lines:
                line.arrive(frame(b"hello"))
            await place.sent(b"hello")
            for machine in place.machines:
                assert threading.main_thread() not in machine.threads

    limited(main())


def test_frames_that_arrive_together_are_checked_once_each():
    """Two threads check them; the machines then find what came of it."""
    codec = Codec(known_session())
    frames = [b"%d" % k * 70 for k in range(40)]
    before = codecs._opened.cache_info()
    hosts._check_together([(codec, data) for data in frames])
    for data in frames:
        codec.open(data)
    after = codecs._opened.cache_info()
    assert (after.misses - before.misses, after.hits - before.hits) == (40, 40)


def test_each_loop_has_its_own_host_and_lets_go_of_it():
    async def main():
        assert Host.here() is Host.here()
        return Host.here()

    first, second = asyncio.run(main()), asyncio.run(main())
    assert first is not second
