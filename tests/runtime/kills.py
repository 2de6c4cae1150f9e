"""An agent that is killed again and again while its coordinator lies; run as a program by the tests.

``FOLDER SEED KILLS``. Each life is a process of its own that runs the real `Agent` with its ledger and keys
against a coordinator that asks again, and gives other feedback for the same round whenever it can. At a
random moment (before or after a write, a wait for the disk, or a message) the process kills itself with
SIGKILL. Then one of three things happens, and the next life begins:

kill      everything that was written is there
power     what was written and not waited for may be lost: each file is as it was when it was last waited
          for, or as it is, or cut in between; a slot of a mark may be torn
restore   ledger and mark are put back from an earlier moment. If messages were sent since, the next life
          must be refused; then the newest files come back

A life must never be refused otherwise. At the end there must be one message for each update, ever.
"""

import asyncio
import json
import os
import random
import signal
import sqlite3
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

from tacit.base import files
from tacit.base.errors import LedgerError
from tacit.core.mechanism.lattice import Lattice
from tacit.core.protocol.codec import Codec, digest
from tacit.core.protocol.messages import COORDINATOR, Ask, Feedback, Message, Present, Report
from tacit.core.protocol.places import LastUsed
from tacit.core.protocol.roster import Member
from tacit.core.protocol.session import LAST_EXPIRY, Deadlines, Session
from tacit.live.identity.identity import provision
from tacit.live.ledger import rollback_guard, store
from tacit.live.runtime.agent import Agent
from tacit.live.transport.base import Frame, Inbox

ROUNDS = 8
SLOTS = (512, 1024)


def session_of(keys, name):
    return Session(
        name=name,
        roster=(Member("a0", keys["a0"].public_key), Member("a1", keys["a1"].public_key)),
        coordinator=keys["coordinator"].public_key,
        mixing=0.5,
        noise=2.0,
        decay=0.8,
        rounds=ROUNDS,
        lattice=Lattice(0, 10),
        deadlines=Deadlines(round=30.0, start=30.0, repeat=0.05),
        quorum=1,
        start=1,
        expires=LAST_EXPIRY,
    )


# ---- what is surely on the disk ----------------------------------------------------------------------


class Disk:
    """Keeps a copy of each file as it was when it was last waited for, and of the names in directories."""

    def __init__(self, folder, shadow):
        self.folder, self.shadow = folder, shadow

    def _content(self, inode):
        return self.shadow / f"content-{inode}"

    def _names(self, inode):
        return self.shadow / f"names-{inode}"

    def waited_for(self, descriptor):
        at = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if at.is_dir():
            self._names(at.stat().st_ino).write_text(json.dumps(sorted(file.name for file in at.iterdir())))
        else:
            self.keep(at)

    def keep(self, path):
        if path.exists():
            self._content(path.stat().st_ino).write_bytes(path.read_bytes())

    def cut_power(self, chance):
        """Lose what was not waited for, or a part of it; in place, because a ledger knows its inode."""
        for folder in [self.folder, *(at for at in self.folder.rglob("*") if at.is_dir())]:
            known = self._names(folder.stat().st_ino)
            names = json.loads(known.read_text()) if known.exists() else []
            for file in [file for file in folder.iterdir() if file.is_file()]:
                if folder != self.folder and file.name not in names and chance.random() < 0.5:
                    file.unlink()  # its name was not waited for
                else:
                    self._lose(file, chance)
        for folder in sorted(self.folder.rglob("*"), reverse=True):
            parent = self._names(folder.parent.stat().st_ino)
            durable = parent.exists() and folder.name in json.loads(parent.read_text())
            if folder.is_dir() and not durable and not list(folder.iterdir()) and chance.random() < 0.5:
                folder.rmdir()

    def _lose(self, file, chance):
        if file.suffix == ".ledger":  # SQLite alone writes it, at checkpoints that it waits for
            return
        now, kept = file.read_bytes(), self._content(file.stat().st_ino)
        before = kept.read_bytes() if kept.exists() else b""
        if now == before or (not kept.exists() and file.suffix in (".pem", ".key", ".crt")):
            return
        choice = chance.randrange(3)
        if choice == 0:
            left = before
        elif choice == 1 or len(now) == 1536:
            left = self._torn(before, now, chance) if len(now) == 1536 == len(before) else now
        else:
            left = now[: chance.randint(min(len(before), len(now)), len(now))]
        file.write_bytes(left)

    @staticmethod
    def _torn(before, now, chance):
        """Return a mark of which a slot that was being written is torn; the slot before it is whole."""
        changed = [place for place in SLOTS if before[place : place + 512] != now[place : place + 512]]
        left = bytearray(now)
        if len(changed) == 1 and chance.random() < 0.5:
            cut = changed[0] + chance.randrange(1, 100)
            left[cut : changed[0] + 512] = before[cut : changed[0] + 512]
        return bytes(left)


def watch_the_disk(disk, moment):
    """Let every wait for the disk be known, and every write be a moment to die at."""

    def around(module, name, waits=None):
        real = getattr(module, name)

        def wrapped(*given, **more):
            moment()
            found = real(*given, **more)
            if waits is not None:
                waits(*given, **more)
            moment()
            return found

        setattr(module, name, wrapped)

    for module in (rollback_guard, store):
        around(module, "flush_file", disk.waited_for)
    around(os, "fsync", disk.waited_for)
    for name in ("pwrite", "rename", "replace", "link"):
        around(os, name)

    append, move_marks = store.Store.append, store.Store._move_marks

    def inserting(self, rows, **how):
        moment()
        append(self, rows, **how)

    def inserted(self, **how):
        assert self._flushes  # FULL: the log and its name are on the disk when a statement returns
        disk.keep(self.path.with_name(self.path.name + "-wal"))
        moment()
        move_marks(self, **how)

    store.Store.append, store.Store._move_marks = inserting, inserted
    assert files.os is os


# ---- the lying coordinator ---------------------------------------------------------------------------


class Liar:
    """A transport with a coordinator in it. What it said and heard is in a file that outlives the agent."""

    dropped = 0

    def __init__(self, session, sign, book, chance, moment):
        self.session, self.codec, self.sign = session, Codec(session), sign
        self.book, self.chance, self.moment = book, chance, moment
        self.said, self.used = self._remembered()

    def _remembered(self):
        """The last feedback of each round, and the digest of the message in it."""
        book = self.book.read_text() if self.book.exists() else ""
        lines = [json.loads(line) for line in book.splitlines()]
        said = {line["round"]: bytes.fromhex(line["frame"]) for line in lines if "round" in line}
        used = {line["update"]: digest(bytes.fromhex(line["frame"])) for line in lines if "update" in line}
        return said, {t: used[t] for t in said}

    def _note(self, **what):
        with self.book.open("a") as book:
            book.write(json.dumps(what) + "\n")

    async def open(self, arrived):
        self.inbox = Inbox(1 << 20, arrived=arrived)
        self.inbox.seen(COORDINATOR, True)

    def send(self, _to, frame):
        message = self.codec.open(frame)
        assert isinstance(message, Message)
        self.moment()
        if isinstance(message.body, Report):
            self._note(update=message.body.update, frame=frame.hex())  # it has left: nothing takes it back
            self.moment()
            self._answer(message.body.update, message)
        elif isinstance(message.body, Present):
            # Whatever was said before: ask for the message again. After a restart it first needs its place.
            self._place(message.body.update - 1)
            self._say(Ask(min(message.body.update, ROUNDS - 1)))

    def _place(self, t):
        """Say which message was used in round t: all lies about that round agree on it."""
        if t in self.used:
            self._say(self._state(t).place(t, 0))

    def _state(self, t):
        state = LastUsed(2)
        state.use(t, {0: self.used[t]})
        return state

    def _answer(self, t, message):
        """Close round t for an agent that spoke in it: as it was closed already, or with another lie."""
        self.used[t] = message.digest
        if t in self.said and self.chance.random() < 0.5:
            self.inbox.put(self.said[t], COORDINATOR)
        lattice = self.session.lattice
        y = self.codec.pack([self.chance.randrange(lattice.limit >> 24)])
        body = Feedback(t, y, 1, 1, self._state(t).root, bytes(32), message.body.heard)
        frame = self.codec.seal(COORDINATOR, body, self.sign)
        self.said[t] = frame
        self._note(round=t, frame=frame.hex())
        self.inbox.put(frame, COORDINATOR)
        self._place(t)
        if t + 1 < ROUNDS:
            self._say(Ask(t + 1))

    def _say(self, body):
        self.inbox.put(self.codec.seal(COORDINATOR, body, self.sign), COORDINATOR)

    def take(self):
        arrived = self.inbox.take()
        assert all(isinstance(one, Frame) or one.who == COORDINATOR for one in arrived)
        return arrived

    async def close(self):
        pass


# ---- lives ---------------------------------------------------------------------------------------------


def live(keys, session, folder, disk, seed):
    """Be an agent until the end, or until killed; never returns."""
    signal.alarm(60)  # a life that hangs is a failure
    chance = random.Random(seed)
    left = chance.randrange(1, 70)

    def moment():
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    watch_the_disk(disk, moment)
    liar = Liar(session, keys["coordinator"].sign, folder.parent / f"{session.name}.book", chance, moment)
    agent = Agent(
        session, 3.0, ledger=folder / "a0.ledger", identity=keys["a0"], cap=float("inf"), transport=liar
    )

    async def main():
        async with agent:
            while not agent.machine.ended:
                await asyncio.sleep(0.002)

    try:
        asyncio.run(main())
        code = 0
    except LedgerError as error:
        os.write(2, f"{error}\n".encode())
        code = 4
    except BaseException as error:
        os.write(2, f"{type(error).__name__} {error}\n".encode())
        code = 9
    os._exit(code)


class Snapshot:
    """Ledger, log and mark as they are now."""

    def __init__(self, folder):
        ledger = folder / "a0.ledger"
        self.files = {
            path: path.read_bytes() if path.exists() else None
            for path in (ledger, folder / "a0.ledger-wal", folder / "a0.ledger.mark")
        }

    @property
    def usable(self):
        return all(content for path, content in self.files.items() if not path.name.endswith("-wal"))

    def holds(self, session, scratch):
        """Return which messages of a session are in this ledger."""
        for path, content in self.files.items():
            if content is not None:
                (scratch / path.name).write_bytes(content)
        with closing(sqlite3.connect(scratch / "a0.ledger")) as database:
            rows = database.execute(
                "SELECT number FROM record WHERE session = ? AND kind = 'spoke'", (session.id,)
            )
            found = {row[0] for row in rows}
        for file in scratch.iterdir():
            file.unlink()
        return found

    def put_back(self):
        for path, content in self.files.items():
            if content is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(content)


def messages(book):
    """All messages that left, by update."""
    said = {}
    for line in book.read_text().splitlines() if book.exists() else ():
        what = json.loads(line)
        if "update" in what:
            said.setdefault(what["update"], set()).add(what["frame"])
    return said


def main():
    """Kill agents, and print what was seen."""
    where, chance, kills = Path(sys.argv[1]), random.Random(int(sys.argv[2])), int(sys.argv[3])
    folder, shadow, scratch = (where / name for name in ("agent", "shadow", "scratch"))
    for made in (folder, shadow, scratch):
        made.mkdir(mode=0o700)
    keys = provision(folder / "keys", ["coordinator", "a0", "a1"], listening=["coordinator"])
    disk, seen, number = Disk(folder, shadow), Counter(), 0
    for file in folder.rglob("*"):  # the keys were there long before
        if file.is_file():
            disk.keep(file)
    for at in (folder, *(file for file in folder.rglob("*") if file.is_dir())):
        disk._names(at.stat().st_ino).write_text(json.dumps(sorted(file.name for file in at.iterdir())))
    while seen["kills"] < kills:
        session = session_of(keys, f"session-{number}")
        book, number, snapshots = where / f"session-{number}.book", number + 1, []
        while True:
            child = os.fork()
            if child == 0:
                live(keys, session, folder, disk, chance.random())
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            assert status in (0, -signal.SIGKILL), f"a life was refused or failed: {status}"
            said = messages(book)
            assert all(len(frames) == 1 for frames in said.values()), "a second draw"
            if status == 0:
                break
            seen["kills"] += 1
            if chance.random() < 0.5:
                seen["power"] += 1
                disk.cut_power(chance)
            now = Snapshot(folder)
            old = chance.choice(snapshots) if snapshots and chance.random() < 0.3 else None
            usable = old is not None and old.usable and now.usable
            if usable and not set(said) <= old.holds(session, scratch):  # it lacks a message that was sent
                seen["restored"] += 1
                old.put_back()
                refused(keys, session, folder, disk, chance)
                assert messages(book) == said, "an old ledger spoke"
                now.put_back()
                for path in now.files:
                    disk.keep(path)
            snapshots.append(now)
        assert len(said) == ROUNDS
        seen["messages"] += len(said)
    print(json.dumps({**seen, "sessions": number}))


def refused(keys, session, folder, disk, chance):
    """See that a life with a ledger that was put back is refused before it speaks."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        os.dup2(write, 2)
        while True:  # a life that is killed by chance is begun again
            live(keys, session, folder, disk, chance.random())
    os.close(write)
    told = os.read(read, 10_000).decode()
    os.close(read)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == -signal.SIGKILL:
        return
    assert status == 4, (status, told)
    assert "old copy" in told or "another history" in told, told


if __name__ == "__main__":
    main()
