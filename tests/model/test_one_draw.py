"""One draw for each update, whatever crashes, is put back or lies: a model, looked through completely.

The model has the steps between which a machine can stop: draw and record a message, wait for the disk, tell
the guard with the keys, wait for the disk, send. Around them are an adversary's moves: kill the process, cut
the power (what was not waited for is lost, or not), back up ledger and mark, put them back, start again. The
coordinator asks for the current message whenever it likes, so nothing else that it says matters here.

What others see is an output: that the agent takes part, that it refuses, and each message with its draw. Two
things must hold in every reachable state: no update has two different messages, and two agents that differ in
their values alone have the same outputs but for the numbers in messages.

The model is held against the real ledger and keys below, move by move, so that it cannot drift.
"""

import itertools
import os
from dataclasses import dataclass, replace

import pytest

from tacit.base.errors import LedgerError
from tacit.core.protocol.records import Began, Spoke
from tacit.live.ledger import key_guard
from tacit.live.ledger.ledger import Ledger

EXPIRES = 4_000_000_000

# ---- the model -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rules:
    """How an agent is built; each is wrong in one way, but for the first."""

    guarded: bool = True
    guard_waits: bool = True
    record_first: bool = True
    clamps: bool = True


@dataclass(frozen=True)
class World:
    """Messages are written as the number of their draw; a ledger is the tuple of them."""

    ledger: tuple = ()  # as it was written
    ledger_disk: tuple = ()  # as it surely is after a power cut
    guard: int = 0  # how many messages the keys know of
    guard_disk: int = 0
    backup: tuple | None = None
    step: str = "off"
    draws: int = 0
    seen: tuple = ()
    sent: frozenset = frozenset()  # (update, draw)


def moves(world, rules, off_range):
    """Every next state."""
    if world.step == "off":
        yield from starts(world, rules, off_range)
        if world.backup is not None:
            yield replace(world, ledger=world.backup, ledger_disk=world.backup)
        if world.backup != world.ledger:
            yield replace(world, backup=world.ledger)
        return
    yield replace(world, step="off")  # kill -9: what was written is there
    for ledger, known in itertools.product(
        (world.ledger, world.ledger_disk), (world.guard, world.guard_disk)
    ):
        yield replace(  # a power cut: each file as it was written, or as it was when last waited for
            world, step="off", ledger=ledger, ledger_disk=ledger, guard=known, guard_disk=known
        )
    yield from works(world, rules)


def starts(world, rules, off_range):
    if off_range and not rules.clamps:
        yield output(world, "stays away")
    elif rules.guarded and len(world.ledger) < world.guard:
        yield output(world, "refuses")
    else:
        known = {"guard": len(world.ledger), "guard_disk": len(world.ledger)} if rules.guarded else {}
        yield replace(output(world, "takes part"), step="idle", **known)


def works(world, rules):
    """The steps of an agent that was asked for its next message."""
    update, order = len(world.ledger), world.step
    if order == "idle" and update < MESSAGES:
        draw = world.draws
        drawn = replace(world, draws=draw + 1)
        if not rules.record_first:
            yield replace(drawn, sent=world.sent | {(update, draw)}, step="sent early")
        yield replace(drawn, ledger=(*world.ledger, draw), step="recorded")
    elif order == "sent early":
        yield replace(world, ledger=(*world.ledger, world.draws - 1), step="recorded")
    elif order == "recorded":
        yield replace(world, ledger_disk=world.ledger, step="on the disk")
    elif order == "on the disk":
        yield replace(world, guard=update if rules.guarded else world.guard, step="told")
    elif order == "told":
        waited = {"guard_disk": world.guard} if rules.guard_waits else {}
        yield replace(world, step="durable", **waited)
    if order == "durable" or (order == "idle" and update):  # asked again: the very same bytes
        yield replace(world, step="idle", sent=world.sent | {(update - 1, world.ledger[-1])})


def output(world, what):
    return world if world.seen[-1:] == (what,) else replace(world, seen=(*world.seen, what)[-2:])


MESSAGES, DRAWS = 2, 4


def reachable(rules, off_range=False):
    """All states that any order of moves leads to, with at most `DRAWS` draws."""
    known, open_ = {World()}, [World()]
    while open_:
        for world in moves(open_.pop(), rules, off_range):
            if world not in known and world.draws <= DRAWS:
                known.add(world)
                open_.append(world)
    return known


def second_draws(worlds):
    """The states in which an update has two different messages."""
    return [world for world in worlds if len({update for update, _ in world.sent}) < len(world.sent)]


def test_no_order_of_crashes_power_cuts_and_restores_leads_to_a_second_message():
    worlds = reachable(Rules())
    assert len(worlds) > 1000
    assert any(len(world.sent) == MESSAGES for world in worlds)  # it does get there
    assert any("refuses" in world.seen for world in worlds)
    assert second_draws(worlds) == []


@pytest.mark.parametrize(
    "wrong",
    [Rules(guarded=False), Rules(guard_waits=False), Rules(record_first=False)],
    ids=["no guard", "guard not waited for", "sent before recorded"],
)
def test_the_model_finds_what_is_wrong(wrong):
    """A model that finds nothing anywhere shows nothing."""
    assert second_draws(reachable(wrong))


def test_taking_part_says_nothing_of_the_value():
    """Outputs of an agent whose value is off the range are those of one whose value is in it."""
    assert reachable(Rules(), off_range=True) == reachable(Rules(), off_range=False)
    assert reachable(Rules(clamps=False), off_range=True) != reachable(Rules(clamps=False), off_range=False)


def test_what_the_guard_cannot_see():
    """Ledger, mark and keys put back together: as the documentation says, nothing here can notice."""
    worlds = reachable(Rules())
    back = [replace(world, guard=0, guard_disk=0, ledger=(), ledger_disk=(), step="idle") for world in worlds]
    again = [w for world in back if world.sent for w in works(world, Rules())]
    assert any(world.draws > 1 and len(world.ledger) == 1 for world in again)


# ---- and the real thing ----------------------------------------------------------------------------------

S = b"s" * 32


class Real:
    """The same moves on a real ledger with real keys; kill and start are one move, as in `Predicted`."""

    def __init__(self, folder):
        self.path, self.keys = folder / "a.ledger", folder / "keys"
        self.keys.mkdir(mode=0o700)
        self.files = (self.path, folder / "a.ledger-wal", folder / "a.ledger.mark")
        self.kept, self.sent = None, set()
        self.start()

    def start(self):
        """Start as an agent does; return whether it takes part."""
        self.ledger = Ledger(self.path)
        try:
            key_guard.require_bindable(self.keys, S, self.ledger, EXPIRES)
            key_guard.require_trusted(self.keys, self.ledger, None)
        except LedgerError:
            self.stop()
            return "refuses"
        self.ledger.reserve(S, "v", planned=1.0, adjacency=1.0, diameter=1.0, cap=1.0)
        key_guard.take(self.keys, self.ledger)
        key_guard.bind(self.keys, S, self.ledger, EXPIRES)
        if not self.ledger.records(S):
            self.ledger.append(S, [Began(S, 0, b"", 1.0, 0.0, 1.0)])
        return "takes part"

    def stop(self):
        self.ledger.close()
        self.ledger = None

    def say(self):
        """Make the next message and send it, or send the last one again; return which update it was."""
        if self.ledger is None:
            return None
        update = len(self.ledger.records(S)) - 1
        self.ledger.append(S, [Spoke(update, os.urandom(8), 0.01)])
        self.sent.add((update, self.ledger.said(S, update)))
        return update

    def restart(self):
        if self.ledger is not None:
            self.stop()
        return self.start()

    def backup(self):
        if self.ledger is not None:
            self.kept = [file.read_bytes() if file.exists() else None for file in self.files]

    def restore(self):
        if self.kept is None:
            return None
        if self.ledger is not None:
            self.stop()
        for file, content in zip(self.files, self.kept, strict=True):
            if content is None:
                file.unlink(missing_ok=True)
            else:
                file.write_bytes(content)
        return self.start()


class Predicted:
    """The same moves in the model."""

    def __init__(self):
        self.world = World()
        self.start()

    def start(self):
        (self.world,) = starts(replace(self.world, step="off"), Rules(), False)
        return self.world.seen[-1]

    def say(self):
        if self.world.step == "off":
            return None
        update = len(self.world.ledger)
        step = replace(self.world, ledger=(*self.world.ledger, self.world.draws), step="recorded")
        step = replace(step, draws=step.draws + 1)
        while step.step != "idle":
            (step,) = works(step, Rules())
        self.world = step
        return update

    def restart(self):
        return self.start()

    def backup(self):
        if self.world.step != "off":
            self.world = replace(self.world, backup=self.world.ledger)

    def restore(self):
        if self.world.backup is None:
            return None
        kept = self.world.backup
        self.world = replace(self.world, ledger=kept, ledger_disk=kept)
        return self.start()


MOVES = ("say", "restart", "backup", "restore")


def compare(make_folder, length):
    """Make every sequence of so many moves in both, and compare what is seen after each."""
    for sequence in itertools.product(MOVES, repeat=length):
        real, predicted = Real(make_folder()), Predicted()
        for move in sequence:
            assert getattr(real, move)() == getattr(predicted, move)(), sequence
        assert {u for u, _ in real.sent} == {u for u, _ in predicted.world.sent}, sequence
        assert len({u for u, _ in real.sent}) == len(real.sent), sequence
        if real.ledger is not None:
            real.stop()


@pytest.fixture
def make_folder(folder):
    numbers = itertools.count()

    def make():
        made = folder / str(next(numbers))
        made.mkdir(mode=0o700)
        return made

    return make


def test_the_ledger_does_what_the_model_says(make_folder, monkeypatch):
    monkeypatch.setitem(globals(), "MESSAGES", 10)
    compare(make_folder, 4)


@pytest.mark.long
def test_the_ledger_does_what_the_model_says_for_longer(make_folder, monkeypatch):
    monkeypatch.setitem(globals(), "MESSAGES", 10)
    compare(make_folder, 6)
