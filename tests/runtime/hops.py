"""What one private value passes between file and wire and back: ``python tests/runtime/hops.py``.

`tacit join` runs in this process with a value file. The other end of its transport is the script: a
coordinator and one more agent. Afterwards the ledger tells the states, draws, messages and feedback. A
function is a hop if one of these, or bytes or text that contain one,

- is among its arguments, its local variables or its results,
- is handed by it to another function, or returned to it by one,
- or is put by it into an attribute of its object.

Containers, records, messages and events are looked into. Other objects are not: who is given a machine is not
given its state. The transport is not counted: the walk ends where signed bytes are handed to it, and comes
back where it returns feedback. Nor is the sampler, which was another package's in version 0.1.
"""

import dataclasses
import sys
import tempfile
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import msgspec
import numpy as np
from click.testing import CliRunner
from tests.doubles import small_session

import tacit
from tacit.cli import join
from tacit.core.noise import exact
from tacit.core.protocol import codec as codecs
from tacit.core.protocol.agent import AgentMachine
from tacit.core.protocol.codec import Codec
from tacit.core.protocol.coordinator import CoordinatorMachine
from tacit.core.protocol.effects import Heard, Joined, NoiseReady, Start, Tick
from tacit.core.protocol.private_state import Budget
from tacit.core.protocol.records import Began, Moved, Spoke
from tacit.core.protocol.roster import COORDINATOR
from tacit.core.protocol.session import Deadlines
from tacit.live.identity.identity import provision
from tacit.live.ledger.ledger import Ledger
from tacit.live.sessions.file import write_session
from tacit.live.transport.base import Frame, Network, NetworkError, Presence

PACKAGE = str(Path(tacit.__file__).parent)
VALUE = "3.718293645546372819"
NOTHING = frozenset()


class Walk(NamedTuple):
    """The functions (with their module) and classes that hold a value or pass it on."""

    functions: list[str]
    classes: list[str]


class Trace:
    """A profile function that notes what every function of the package holds."""

    def __init__(self):
        self.active = False
        self._held = {}  # by function: what it holds
        self._inside = {}  # by class: what its objects hold
        self._stacks = {}  # by thread: the functions that run, with what their object held when they began
        self._known = {}  # by id: immutable data that was looked into, and what is in it

    def __call__(self, frame, event, result):
        if not self.active or event not in ("call", "return") or not _is_ours(frame):
            return
        code, owner = frame.f_code, frame.f_locals.get("self")
        given = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        own = {name: self.inside(v) for name, v in frame.f_locals.items() if name not in ("self", "cls")}
        passed = NOTHING.union(*(own[name] for name in own.keys() & given))
        if event == "return":
            passed = self.inside(result)
        kept, new = self._kept(owner), set()
        stack = self._stacks.setdefault(threading.get_ident(), [])
        if event == "call":
            stack.append((frame, kept, set()))
        elif stack and stack[-1][0] is frame:
            _, before, explained = stack.pop()
            new = kept - before - explained  # what functions called by this one have put there is theirs
            if stack:
                stack[-1][2].update(new | explained)
        self._note(frame, passed.union(*own.values(), (atom for _, atom in new)))
        if frame.f_back is not None and _is_ours(frame.f_back):
            self._note(frame.f_back, passed)
        if owner is not None:
            self._inside.setdefault(type(owner).__name__, set()).update(atom for _, atom in kept)

    def _note(self, frame, atoms):
        name = f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_qualname}"
        for part in ("genexpr", "listcomp", "dictcomp", "setcomp", "lambda"):
            name = name.replace(f".<locals>.<{part}>", "")
        owner = frame.f_locals.get("self")
        held = self._held.setdefault(name, (set(), set()))
        held[0].update(atoms)
        held[1].add("" if owner is None else type(owner).__name__)

    def _kept(self, owner):
        """Return what an object of the package holds, with the names of its attributes."""
        if owner is None or not type(owner).__module__.startswith("tacit"):
            return NOTHING
        return {(name, a) for name, v in getattr(owner, "__dict__", {}).items() for a in self.inside(v)}

    def inside(self, thing, depth=8):
        """Return the numbers, texts and bytes in something."""
        if thing is None or depth == 0 or isinstance(thing, bool | type):
            return NOTHING
        if type(thing) in (int, float, str, bytes):
            return frozenset((thing,))
        if isinstance(thing, np.ndarray):
            return self.inside(thing.reshape(-1)[:64].tolist(), depth)
        if id(thing) in self._known:
            return self._known[id(thing)][1]
        if isinstance(thing, msgspec.Struct):
            parts = [getattr(thing, name) for name in thing.__struct_fields__]
        elif dataclasses.is_dataclass(thing) and thing.__dataclass_params__.frozen:
            parts = [getattr(thing, field.name, None) for field in dataclasses.fields(thing)]
        elif isinstance(thing, tuple | list | deque | set | frozenset | dict):
            parts = [*thing, *thing.values()] if isinstance(thing, dict) else list(thing)
        else:
            return NOTHING
        found = NOTHING.union(*(self.inside(part, depth - 1) for part in parts))
        if type(thing).__module__.startswith("tacit"):
            self._known[id(thing)] = thing, found
            self._inside.setdefault(type(thing).__name__, set()).update(found)
        return found

    def walk(self, marks):
        """Return who has held one of these."""

        def hit(atoms):
            raw = [mark for mark in marks if isinstance(mark, bytes)]
            text = [mark for mark in marks if isinstance(mark, str)]
            return any(
                any(mark in atom for mark in raw)
                if isinstance(atom, bytes)
                else any(mark in atom for mark in text)
                if isinstance(atom, str)
                else atom in marks
                for atom in atoms
            )

        functions = {name: owners for name, (atoms, owners) in self._held.items() if hit(atoms)}
        classes = {name for name, atoms in self._inside.items() if hit(atoms)}
        classes = classes.union(*functions.values()) - {""}
        return Walk(list(functions), sorted(classes))

    @contextmanager
    def on(self):
        """Trace this thread, and those that are started meanwhile."""
        threading.setprofile(self)
        sys.setprofile(self)
        self.active = True
        try:
            yield
        finally:
            self.active = False
            sys.setprofile(None)
            threading.setprofile(None)


def _is_ours(frame):
    return frame.f_code.co_filename.startswith(PACKAGE) and frame.f_code.co_filename != exact.__file__


class Wire:
    """A transport whose other end is a coordinator and agent 1. What they do is not traced."""

    dropped, network = 0, Network()

    def __init__(self, trace, server, other):
        self._trace, self._server, self._other = trace, server, other
        self._arrivals = [Presence(COORDINATOR, True)]

    async def open(self, arrived):
        self._arrived = arrived
        self._hear(Start(), Tick(0.0), Joined(0), Joined(1), *self._tell(Start()))

    def send(self, _to, frame):
        self._hear(Heard(frame, 0), Tick(0.0))

    def take(self):
        if self._server.phase.value == "finished":
            raise NetworkError("the session is over")  # nobody lingers
        arrivals, self._arrivals = self._arrivals, []
        return arrivals

    async def close(self):
        pass

    def _hear(self, *events):
        self._trace.active, events = False, deque(events)
        while events:
            for message in self._server.handle(events.popleft()).messages:
                if message.to in (0, None):
                    self._arrivals.append(Frame(message.frame, COORDINATOR))
                if message.to in (1, None):
                    events.extend(self._tell(Heard(message.frame, COORDINATOR)))
        codecs._opened.cache_clear()  # agent 1 has read the same feedback
        self._trace.active = True
        self._arrived()

    def _tell(self, event):
        steps = [self._other.handle(event)]
        if (u := self._other.wants_noise) is not None:
            steps.append(self._other.handle(NoiseReady(u, 123_456_789 + u)))
        return [Heard(message.frame, 1) for step in steps for message in step.messages]


def walks(folder: Path) -> tuple[Walk, Walk]:
    """Return what a private value passes from file to wire, and that with what feedback passes."""
    keys = provision(folder / "keys", ["coordinator", "me", "other"])
    session = small_session(keys, ("me", "other"), rounds=2, deadlines=Deadlines())
    write_session(session, folder / "session.toml")
    (folder / "value").write_text(VALUE + "\n")
    (folder / "value").chmod(0o600)
    trace = Trace()
    server = CoordinatorMachine(session, sign=keys["coordinator"].sign)
    other = AgentMachine(session, 1, 1.25, sign=keys["other"].sign, budget=Budget(1e9))
    places = {"keys": "keys/me", "value-file": "value", "ledger": "me.ledger", "log": "log"}
    words = [f"--{name}={folder / place}" for name, place in places.items()]
    with (
        mock.patch("tacit.live.runtime.participant.transport_to", return_value=Wire(trace, server, other)),
        ThreadPoolExecutor(1) as thread,  # a new one, so that it is traced
        mock.patch("tacit.live.runtime.host.pool", return_value=thread),
        trace.on(),
    ):
        words += ["--connect=wss://localhost:1", "--cap=9", str(folder / "session.toml")]
        # click keeps the first names of a command's help option: those that the whole program has
        CliRunner().invoke(join.command, words, help_option_names=["-h", "--help"])
    private, public = _marks(session, folder / "me.ledger")
    return trace.walk(private), trace.walk(private | public)


def _marks(session, path):
    """Return how a value, its states, draws and messages look, and how the feedback does."""
    codec, agent = Codec(session), session.lattice_agent(0)
    private, public, state = {VALUE, float(VALUE)}, set(), 0
    with Ledger(path, create=False) as ledger:
        records = ledger.records(session.id)
    assert [type(record) for record in records[:5]] == [Began, Spoke, Moved, Spoke, Moved]
    for record in records[:5]:
        if isinstance(record, Spoke):
            message = codec.read(record.frame, own=True)
            (x,) = message.numbers
            private |= {x, x - agent.report(state, record.update, 0), message.body.numbers}
        else:
            (state,) = codec.unpack(record.state)
            private |= {state, record.state}
        if isinstance(record, Moved):
            public |= {*codec.unpack(record.y), record.y}
    return private, public


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        out, whole = walks(Path(place))
    for name in whole.functions:
        print(name if name in out.functions else f"{name} (feedback only)")
    for walk, what in ((out, "from file to wire"), (whole, "and back")):
        print(f"{what}: {len(walk.functions)} functions, {len(walk.classes)} classes: {walk.classes}")
