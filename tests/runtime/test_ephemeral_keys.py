"""An ephemeral key is on the disk only while its session can go on: whatever ends it, and at every crash."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import textwrap
import time

import pytest
from tests.doubles import small_session

from tacit.base.errors import CapExceeded, InputError, LedgerError, SessionOver
from tacit.core.protocol.masks import public_key
from tacit.core.protocol.messages import COORDINATOR
from tacit.core.protocol.notices import Answered, Spoken
from tacit.core.protocol.records import Ended, Erasing, Keyed
from tacit.core.protocol.roster import Member
from tacit.core.protocol.session import Deadlines
from tacit.live.identity.identity import provision
from tacit.live.ledger import key_guard, store
from tacit.live.ledger.ledger import Ledger
from tacit.live.runtime.agent import Agent
from tacit.live.runtime.clock import SystemClock
from tacit.live.runtime.coordinator import Coordinator
from tacit.live.runtime.keeper import Keeper
from tacit.live.transport.memory import MemoryNetwork

AGENTS, KEEPER, WAIT = ["a0", "a1"], "north", 120
pytestmark = pytest.mark.usefixtures("forks")

LIFE = 86_400


class Later(SystemClock):
    """The system's clock, some time ahead."""

    def __init__(self, seconds):
        super().__init__()
        self._ahead = seconds

    def wall(self):
        return super().wall() + self._ahead


class World:
    """The members of sessions with one keeper, on a network in memory, each with a ledger in one folder."""

    def __init__(self, folder):
        self.folder = folder
        self.keys = provision(folder / "keys", ["coordinator", *AGENTS, KEEPER], listening=["coordinator"])
        self.first, self.second = self.session("first"), self.session("second", life=3 * LIFE)

    def session(self, name, life=LIFE, **more):
        keeper = Member(KEEPER, self.keys[KEEPER].public_key)
        given = {"deadlines": Deadlines(round=30.0, start=30.0, repeat=0.2), **more}
        expires = int(time.time()) + life
        return small_session(self.keys, AGENTS, name=name, keepers=(keeper,), expires=expires, **given)

    def ledger(self, name):
        return self.folder / f"{name}.ledger"

    def member(self, name, session=None, network=None, *, cap=1e9, **more):
        session = session or self.first
        number = {"coordinator": COORDINATOR, **{n: i for i, n in enumerate((*AGENTS, KEEPER))}}[name]
        network = network or MemoryNetwork(session)
        given = {"ledger": self.ledger(name), "identity": self.keys[name], **more}
        given["transport"] = network.transport(number)
        if name == "coordinator":
            return Coordinator(session, **given)
        if name == KEEPER:
            return Keeper(session, **given)
        return Agent(session, 3.0, cap=cap, trust={KEEPER: self.keys[KEEPER].public_key}, **given)

    def stop_in_the_middle(self, name, kind):
        """Run a session, and stop everybody when this member has told something of this kind."""
        network = MemoryNetwork(self.first)

        async def member(one, until=None):
            async with self.member(one, network=network) as running:
                async for notice in running:
                    if until is not None and isinstance(notice, until):
                        return

        async def everyone():
            rest = [asyncio.ensure_future(member(n)) for n in ("coordinator", *AGENTS, KEEPER) if n != name]
            async with asyncio.timeout(WAIT):
                await member(name, kind)
            for task in rest:
                task.cancel()
            await asyncio.wait(rest)

        asyncio.run(everyone())
        assert self.on_disk(name)

    def start(self, name, session=None, **more):
        """Start a member, let it say its first words, and stop it."""
        network, said = MemoryNetwork(session or self.first), asyncio.Event()
        network.taps.append(lambda *_: said.set())

        async def begin():
            async with asyncio.timeout(WAIT), self.member(name, session, network, **more):
                await said.wait()

        asyncio.run(begin())

    def on_disk(self, name):
        """Return the keys beside a member's ledger, and the copies that a crash left of them."""
        beside = (path for path in self.folder.iterdir() if f"{name}.ledger." in path.name)
        return sorted(path for path in beside if "ephemeral" in path.name)


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


@pytest.fixture
def stopped(world):
    """An agent that was stopped in the middle of a session with keepers."""
    world.stop_in_the_middle("a0", Spoken)
    return world


# ---- what ends a session ----------------------------------------------------------------------------------


def test_giving_a_session_up_erases_its_key(stopped):
    with Ledger(stopped.ledger("a0")) as ledger:
        assert len(stopped.on_disk("a0")) == 1
        ledger.settle(stopped.first.id)
        assert not stopped.on_disk("a0")
        ledger.forget(stopped.first.id)
    with pytest.raises(SessionOver):
        stopped.start("a0")
    assert not stopped.on_disk("a0")


def test_the_next_session_erases_the_key_of_one_that_expired(stopped):
    stopped.start("a0", stopped.second, clock=Later(2 * LIFE))
    (left,) = stopped.on_disk("a0")
    assert stopped.second.id.hex() in left.name  # the whole id: not the first half of it
    with pytest.raises(SessionOver):
        stopped.start("a0")


def test_compaction_erases_the_keys_of_what_it_drops(stopped):
    with Ledger(stopped.ledger("a0")) as ledger:
        ledger.append(stopped.first.id, [Ended(1, None)])  # and no word of the key
        key_guard.compact(stopped.keys["a0"].directory, ledger, time.time() + 2 * LIFE)
        assert not stopped.on_disk("a0")
        assert not ledger.has(stopped.first.id)


@pytest.mark.parametrize("last", [Ended(1, None), Erasing(1)])
@pytest.mark.parametrize("flush", [True, False])
def test_the_record_comes_first_and_then_the_key_goes(stopped, last, flush):
    with Ledger(stopped.ledger("a0")) as ledger:
        ledger.append(stopped.first.id, [last], flush=flush)
        assert len(stopped.on_disk("a0")) == (0 if flush else 1)  # without the record it would be lost
        if not flush:
            from tacit.live.ledger.ledger import flush_together

            assert not flush_together([ledger])
        assert not stopped.on_disk("a0")


def test_leaving_for_good_erases_the_key(stopped):
    async def leave():
        async with stopped.member("a0") as member:
            member.halt()
            await member.result()

    asyncio.run(leave())
    assert not stopped.on_disk("a0")


def test_a_keeper_gives_up_too(world):
    """It reserves nothing, and its key opens what all agents have sent."""
    world.stop_in_the_middle(KEEPER, Answered)
    with Ledger(world.ledger(KEEPER)) as ledger:
        assert world.first.id in ledger.sessions()
        ledger.settle(world.first.id)
    assert not world.on_disk(KEEPER)
    with pytest.raises(SessionOver, match="given up"):
        world.start(KEEPER)
    with Ledger(world.ledger(KEEPER)) as ledger, pytest.raises(InputError, match="nor is there a key"):
        ledger.settle(world.second.id)


def test_a_keepers_next_session_erases_the_key_of_one_that_expired(world):
    world.stop_in_the_middle(KEEPER, Answered)
    world.start(KEEPER, world.second, clock=Later(2 * LIFE))
    (left,) = world.on_disk(KEEPER)
    assert world.second.id.hex() in left.name
    with pytest.raises(SessionOver, match="expired"):
        world.start(KEEPER)


# ---- every start ------------------------------------------------------------------------------------------


def test_opening_a_ledger_erases_keys_of_sessions_that_are_over_or_unknown(stopped):
    """And half-written copies, and files of older versions; of another ledger nothing."""
    (kept,) = stopped.on_disk("a0")
    names = [
        f"a0.ledger.{stopped.second.id.hex()}.4000000000.ephemeral",
        f"a0.ledger.{stopped.first.id.hex()[:16]}.ephemeral",
        f".{kept.name}.00ff00ff00ff00ff.part",
    ]
    others = [f"a0.ledger.b.{stopped.second.id.hex()}.4000000000.ephemeral", "a0.ledger.ephemeral"]
    for name in [*names, *others]:
        (stopped.folder / name).write_bytes(bytes(range(32)))
    Ledger(stopped.ledger("a0")).close()
    assert stopped.on_disk("a0") == sorted([kept, *(stopped.folder / name for name in others)])


def test_a_key_that_another_process_uses_stays(stopped):
    """The ledger is locked, so whoever cannot open it erases nothing."""
    with Ledger(stopped.ledger("a0")):
        before = stopped.on_disk("a0")
        words = [sys.executable, "-c", "from tacit.cli import main; main()", "ledger", "settle"]
        done = subprocess.run(
            [*words, str(stopped.ledger("a0")), stopped.first.id.hex()], capture_output=True, check=False
        )
        assert done.returncode == 2
        assert b"in use by process" in done.stderr
        assert stopped.on_disk("a0") == before
    stopped.start("a0")  # and it goes on
    assert stopped.on_disk("a0") == before


def test_what_is_removed_is_overwritten_first(stopped):
    (path,) = stopped.on_disk("a0")
    other = stopped.folder / "other-name"
    os.link(path, other)
    with Ledger(stopped.ledger("a0")) as ledger:
        ledger.settle(stopped.first.id)
    assert other.read_bytes() == bytes(32)


def test_a_key_that_cannot_be_removed_is_named(stopped, monkeypatch):
    (path,) = stopped.on_disk("a0")

    def refuse(self, missing_ok=False):
        raise PermissionError(1, "Operation not permitted")

    with Ledger(stopped.ledger("a0")) as ledger:
        monkeypatch.setattr(type(path), "unlink", refuse)
        with pytest.raises(LedgerError, match=f"{path.name} cannot be removed"):
            ledger.settle(stopped.first.id)
        monkeypatch.undo()
        assert ledger.is_over(stopped.first.id)
        ledger.forget(stopped.first.id)  # tries again
        assert not stopped.on_disk("a0")


def test_a_session_that_does_not_begin_leaves_no_key(world):
    with pytest.raises(CapExceeded):
        world.start("a0", cap=1e-6)
    with pytest.raises(InputError, match="expired"):
        world.start("a0", clock=Later(2 * LIFE))
    assert not world.on_disk("a0")


# ---- no key twice -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a0", KEEPER])
def test_an_image_from_before_the_record_makes_another_key(world, name, monkeypatch):
    """Two messages under one key, made from two values, would reveal their difference."""
    real, image = store.Store.append, {}

    def append(self, rows, **how):
        if any(row[1] == "keyed" for row in rows):  # the key is on the disk, its record is not
            files = [*world.folder.glob(f"{name}.ledger*"), *world.keys[name].directory.glob("*s/*")]
            image.update((file, file.read_bytes()) for file in files)
            monkeypatch.undo()
        real(self, rows, **how)

    monkeypatch.setattr(store.Store, "append", append)
    world.start(name)
    (first,) = (path.read_bytes() for path in world.on_disk(name))
    assert first in image.values()
    for file, content in image.items():
        file.write_bytes(content)  # under the same inodes
    world.start(name)
    (second,) = (path.read_bytes() for path in world.on_disk(name))
    with Ledger(world.ledger(name)) as ledger:
        (keyed,) = [record for record in ledger.records(world.first.id) if isinstance(record, Keyed)]
    assert public_key(first) not in keyed.frame
    assert public_key(second) in keyed.frame


# ---- crashes ----------------------------------------------------------------------------------------------

KILLED = """
    import json, os, shutil, signal, sys
    from pathlib import Path
    from tacit.base import files
    from tacit.core.protocol.records import Ended
    from tacit.live.ledger import ephemeral_key, key_guard, ledger as book, store
    from tacit.live.ledger.ledger import Ledger

    folder, way, stride = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    session, now, keys = bytes.fromhex(sys.argv[4]), float(sys.argv[5]), Path(sys.argv[6])
    watched = {module.__file__ for module in (files, ephemeral_key, key_guard, book, store)}
    ways = {
        "settle": lambda ledger: ledger.settle(session),
        "forget": lambda ledger: (ledger.settle(session), ledger.forget(session)),
        "expiry": lambda ledger: ledger.settle_expired(now),
        "end": lambda ledger: ledger.append(session, [Ended(1, None)]),
        "compact": lambda ledger: (ledger.settle(session), key_guard.compact(keys, ledger, now)),
    }

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

    def keys_on_disk():
        return list(folder.glob("a0.ledger.*ephemeral*"))

    before, kept = folder.parent / (folder.name + "-before"), None
    shutil.copytree(folder, before)
    deaths, at, seen = 0, 1, set()
    while True:
        for file in before.iterdir():  # as it was, under the same inodes
            (folder / file.name).write_bytes(file.read_bytes()) if file.is_file() else None
            (folder / file.name).chmod(0o600) if file.is_file() else None
        (folder / "a0.ledger-wal").unlink(missing_ok=True)
        for file in (keys / "sessions").glob(".*"):  # the horizon, and copies of it that a kill left
            file.unlink()
        for ending in ("ledgers", "sessions"):
            for file in (before / "keys" / "a0" / ending).iterdir():
                (keys / ending / file.name).write_bytes(file.read_bytes())
                (keys / ending / file.name).chmod(0o600)
        child = os.fork()
        if child == 0:
            try:
                with Ledger(folder / "a0.ledger") as ledger:
                    sys.settrace(killed_at(at))
                    ways[way](ledger)
                    sys.settrace(None)
                os._exit(0)
            finally:
                os._exit(9)
        _, status = os.waitpid(child, 0)
        left = len(keys_on_disk())
        with Ledger(folder / "a0.ledger") as ledger:
            over = ledger.is_over(session) or not ledger.has(session)
        seen.add((over, left))
        # Either it can go on, with its key, or it is over, without.
        assert len(keys_on_disk()) == (0 if over else 1), (at, over, keys_on_disk())
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0 and over and not left, (status, over, left)
            break
        deaths, at = deaths + 1, at + stride
    print(json.dumps([deaths, sorted(seen)]))
"""


@pytest.mark.parametrize("stride", [13, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("way", ["settle", "forget", "expiry", "end", "compact"])
def test_killed_at_any_line_no_key_outlives_its_session(stopped, way, stride):
    """Whatever ends the session, and wherever a crash cuts it off: the next start repairs it."""
    keys = stopped.keys["a0"].directory
    given = [str(stopped.folder), way, str(stride), stopped.first.id.hex(), str(time.time() + 2 * LIFE)]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KILLED), *given, str(keys)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    shutil.rmtree(stopped.folder.with_name(stopped.folder.name + "-before"))
    assert done.returncode == 0, done.stderr[-3000:]
    deaths, seen = json.loads(done.stdout)
    assert deaths * stride > 40
    assert [False, 1] in seen
    if stride == 1:
        assert [True, 1] in seen  # it was killed between the record and the removal
