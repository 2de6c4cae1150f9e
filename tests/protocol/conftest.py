"""What the protocol's tests share: runs with scripted noise, a watch over them, a look into machines."""

import copy
import math
from dataclasses import replace
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from tests.doubles import Harness, ScriptedNoise

from tacit.core.mechanism.on_lattice import OnLattice, WholeState
from tacit.core.protocol.codec import as_numbers
from tacit.core.protocol.messages import Kind
from tacit.core.protocol.moving import own_law
from tacit.core.protocol.records import Closed, Disclosed, Keyed, Shut, Spoke

NOT_STATE = {"session", "codec", "refused", "_codec", "_sign", "_agent", "_losses", "_records", "_messages"}
SAID = Spoke | Closed | Disclosed | Shut | Keyed
NOT_STATE |= {"keyring", "_notices", "budget", "private", "_timers", "_pace", "_sum", "_cover", "_turns"}
NOT_STATE |= {"_session", "_private", "_chain", "_series", "_filter", "_decoder", "first", "_pack"}


def draws_for(session, seed=1):
    """Noise as wide as the session's, and values, both decided by a seed."""
    rng = np.random.default_rng(seed)
    shape = (session.rounds, session.n, *([] if session.components == 1 else [session.components]))
    draws = np.zeros(shape, dtype=object)
    for u in filter(session.mechanism.law.draws, range(session.rounds)):
        for i in range(session.n):
            scale = session.lattice_agent(i).draw_scale(u)
            part = np.rint(rng.laplace(scale=scale, size=shape[2:] or None))
            draws[u, i] = int(part) if len(shape) == 2 else [int(v) for v in part]
    return draws, rng.uniform(session.lattice.low, session.lattice.high, size=shape[1:]).tolist()


def read(frame):
    """The sender, kind, and first field (update or round) of a frame, without the codec."""
    _, _, sender, kind, body = msgspec.msgpack.decode(frame[:-64])
    return sender, Kind(kind), msgspec.msgpack.decode(body)[0]


def expected(session, values, draws, own=None):
    """What the mechanism itself does with these values and draws."""
    moving, mechanism = own or session.motion, session.mechanism
    if moving is None:
        return OnLattice(mechanism, session.lattice).execute(values, draws)
    on = OnLattice(replace(mechanism, law=own_law(session, moving.motion)), session.lattice)
    theta = np.array([moving.begin([value], session.lattice.state_exponent) for value in values])
    return on.run(WholeState(theta, theta), draws)


class Watch:
    """Holds a harness to what must hold at every moment, whatever happens.

    - Nobody ever signs two different messages for one update or round.
    - What is sent is in the sender's ledger already.
    - What an agent's messages cost never passes its owner's cap.
    """

    def __init__(self, harness):
        self.harness, self.said = harness, {}
        self._send = harness.network.send
        harness.network.send = self.send

    def send(self, source, to, frame):
        sender, kind, number = read(frame)
        assert kind is Kind.KEY or sender in (source, to), "a node speaks for itself, or tells what one said"
        if kind in (Kind.REPORT, Kind.FEEDBACK, Kind.MASKED, Kind.OPENING, Kind.CLOSING, Kind.KEY):
            number = (number, kind) if kind in (Kind.CLOSING, Kind.KEY) else number
            new = (sender, number) not in self.said
            first = self.said.setdefault((sender, number), frame)
            assert first == frame, f"{sender} said two things in round {number}"
            records = self.harness.ledgers[sender].records() if new else ()
            saved = any(frame == r.frame for r in records if isinstance(r, SAID))
            assert saved or not new, "sent, but not saved"
        self._send(source, to, frame)

    def check(self):
        for number, ledger in self.harness.ledgers.items():
            records = ledger.records()
            spoke = [r.update for r in records if isinstance(r, Spoke)]
            closed = [r.round for r in records if isinstance(r, Closed)]
            assert len(spoke) == len(set(spoke))
            assert closed == list(range(len(closed)))
            opened = [r.update for r in records if isinstance(r, Disclosed)]
            assert opened == list(range(len(opened)))
            if 0 <= number < self.harness.session.n:
                budget = self.harness.budget(number)
                lost = sum(Fraction(r.loss) for r in records if isinstance(r, Spoke))
                assert Fraction(budget.spent) + lost <= budget.cap
                account = self.harness.session.account(number).per_message
                assert all(r.loss == account[r.update] for r in records if isinstance(r, Spoke))
                assert {u for s, u in self.said if s == number and type(u) is int} <= set(spoke)


@pytest.fixture
def script():
    return draws_for


@pytest.fixture
def play():
    """Make a watched harness with scripted noise, and what the mechanism does on the same noise."""

    def made(session, *, seed=1, fresh=True, **more):
        draws, values = draws_for(session, seed)
        harness = Harness(session, values, ScriptedNoise(draws, fresh=fresh), seed=seed, **more)
        if not session.keepers:
            harness.expected = expected(session, values, draws, more.get("motion"))
        harness.watch = Watch(harness)
        return harness

    return made


@pytest.fixture
def equals_the_mechanism():
    """Check that a run is the mechanism's own execution, bit for bit: states, messages, feedback."""

    def check(harness):
        expected, session = harness.expected, harness.session
        for i in range(session.n):
            assert as_numbers(harness.private_machine(i).private._state) == _numbers(
                expected.private.states[-1][i]
            )
            codec = harness.private_machine(i).codec
            records = harness.ledgers[i].records()
            spoke = [codec.open(r.frame) for r in records if isinstance(r, Spoke)]
            assert [m.numbers for m in spoke] == [_numbers(x[i]) for x in expected.wholes.x]
            assert [m.body.exponent for m in spoke] == expected.exponent[:, i].tolist()
            moved = [codec.unpack(r.y) for r in records if hasattr(r, "y")]
            y = [row if session.edges is None else row[i] for row in expected.wholes.y]
            assert moved == [_numbers(v) for v in y]

    return check


def _numbers(value):
    return (int(value),) if np.ndim(value) == 0 else tuple(int(v) for v in value)


def everything(machine):
    """All that a machine holds, but for counters and what its last step said."""
    found = {k: copy.deepcopy(v) for k, v in vars(machine).items() if k not in NOT_STATE}
    found["timers"] = copy.deepcopy(vars(machine._timers))
    if hasattr(machine, "keyring"):
        found["keys"] = dict(machine.keyring.frames), machine.keyring.erased
    if hasattr(machine, "_pace"):
        found["missing"] = machine._pace.missing()
    if hasattr(machine, "_turns"):
        found["turns"] = {k: copy.deepcopy(v) for k, v in vars(machine._turns).items() if k not in NOT_STATE}
    if hasattr(machine, "private"):
        found["private"] = {
            k: v.tolist() if isinstance(v, np.ndarray) else copy.deepcopy(v)
            for k, v in vars(machine.private).items()
            if k not in NOT_STATE
        }
    return found


@pytest.fixture
def state_of():
    return everything


@pytest.fixture
def no_end():
    return math.inf
