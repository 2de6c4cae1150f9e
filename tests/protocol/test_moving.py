"""Agents with their own dynamics in a session: state vectors, shadows, and motions that stay their own."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from tests.doubles import TRUCK, Harness, Point, known_key, known_session, moving_session

from tacit.base.errors import FileError, MotionError, ParameterError
from tacit.core.motion import Bounded, Contracting, Linear
from tacit.core.protocol.agent import AgentMachine
from tacit.core.protocol.canonical import decode_for_one
from tacit.core.protocol.moving import Moving, pack_state, unpack_state
from tacit.core.protocol.private_state import Budget
from tacit.core.protocol.records import Began, Moved, Spoke
from tacit.core.protocol.roster import roster_leaf
from tacit.core.protocol.session import Session
from tacit.live.sessions.file import parse_session, session_text

LIVELY = Linear([[1, 0.25], [-1, 0.5]], [0, 1], [1, 0], private={0: 1.0})
CONTROL = Linear([[0.5]], [0.5], [1], private={0: 1.0})
PAIR = Linear(TRUCK.A, TRUCK.B, TRUCK.C, private={0: 1.0, 1: 2.0}, names=TRUCK.names)
OWN = Moving(TRUCK, (0.5, -0.25))
COVERED = Bounded.around(TRUCK, 4)
GEOMETRIC = Bounded((), 8.0, kappa=1.25, rho=0.99)


TABLE = (("table", (1, 0.5, 0.75, 0.5)),)


def enveloped(bounds=COVERED, **more):
    return moving_session(3, 4, motion=Moving(bounds), **more)


SESSIONS = {
    "linear": moving_session(),
    "lively": moving_session(own=LIVELY, rounds=4),
    "once": moving_session(law="one-shot"),
    "fading": moving_session(law="fading"),
    "graph": moving_session(graph="path:3"),
    "graph, once": moving_session(graph="ring:4", law="one-shot"),
    "envelope": enveloped(),
    "geometric": enveloped(GEOMETRIC, law="one-shot"),
    "envelope on a graph": enveloped(graph="path:3"),
    "a table for agents that mix": known_session(
        3, law="scheduled", further=(("table", (1, 0.5, 0.75, 0.5)),)
    ),
}
every = pytest.mark.parametrize("session", SESSIONS.values(), ids=SESSIONS)


def own_of(session):
    moving = session.motion
    return OWN if moving is not None and isinstance(moving.motion, Bounded) else None


@every
def test_a_run_is_the_mechanisms_own_execution(play, equals_the_mechanism, session):
    harness = play(session, motion=own_of(session))
    harness.start()
    assert harness.run(Harness.finished)
    equals_the_mechanism(harness)
    harness.watch.check()


@every
def test_it_is_read_as_it_was_written(session):
    assert Session.decode(session.encode()) == session
    assert parse_session(session_text(session), "it").id == session.id
    if session.edges is None:
        leaf = roster_leaf(1, session.member(1), session.own(1))
        assert decode_for_one(session.canonical, leaf, session.path(1)).id == session.id
    fields = msgspec.msgpack.decode(session.canonical)
    assert ("motion" in fields) == (session.motion is not None)
    assert ("mixing" in fields["mechanism"]) == (session.motion is None)


def test_an_account_is_of_the_public_bounds_and_never_below_the_agents_own():
    linear, bounds = moving_session(), enveloped()
    for i in range(3):
        assert bounds.account(i).total >= linear.account(i).total
        assert bounds.account(i).total == pytest.approx(linear.account(i).total, rel=1e-9)
    assert linear.account(0).total == pytest.approx(1.0, rel=1e-9)
    assert moving_session(law="one-shot").account(0).per_message.tolist() == [1.0, 0, 0, 0]


# ---- crashes ----------------------------------------------------------------------------------------------


def crashed_when_saved(play, session, own):
    """Crash agent 0 right after its first message is on the disk, and start it again."""
    down = []

    def crash(number, point):
        spoke = any(isinstance(r, Spoke) for r in harness.ledgers[0].records()) if number == 0 else False
        if point is Point.SAVED and spoke and not down:
            down.append(number)
            return True
        return False

    harness = play(session, crash=crash, motion=own, fresh=True, liveliness=False)
    harness.start()
    harness.run(most=20)
    assert down
    return harness


@pytest.mark.parametrize("name", ["once", "graph, once", "envelope", "linear"])
def test_a_shadow_and_the_own_motion_are_in_the_ledger_before_anything_is_sent(
    play, equals_the_mechanism, name
):
    """After a restart nothing is drawn again, although a message does not say where its shadow began."""
    session = SESSIONS[name]
    harness = crashed_when_saved(play, session, own_of(session))
    records = harness.ledgers[0].records()
    [spoke] = [r for r in records if isinstance(r, Spoke)]
    assert bool(spoke.basis) == ("once" in name)
    assert bool(records[0].motion) == (name == "envelope")
    harness.motion = None  # its ledger has it
    harness.start(0)
    harness.motion = own_of(session)
    assert harness.run(Harness.finished)
    equals_the_mechanism(harness)
    harness.watch.check()


def test_a_shadow_that_is_not_recorded_would_be_lost(play):
    """The message of an update says one number, and the shadow has two."""
    session = SESSIONS["once"]
    harness = crashed_when_saved(play, session, None)
    ledger = harness.ledgers[0]
    whole = next(r for r in ledger.records() if isinstance(r, Spoke)).basis
    state = unpack_state(whole, 2)
    agent = session.lattice_agent(0)
    assert state[0] % (1 << agent.draw_exponent(0) - session.lattice.state_exponent) == 0
    assert state[1] == round(0.125 / 2.0**session.lattice.state_exponent)


def test_states_of_any_length_are_packed():
    for numbers in ([0, 0], [-1, 127], [128, -129], [2**300, -1], [-(2**63), 5]):
        packed = pack_state(np.array(numbers, dtype=object))
        assert unpack_state(packed, 2).tolist() == numbers
        assert len(packed) == 2 * (len(packed) // 2)


# ---- motions that stay the agent's own ---------------------------------------------------------------------


def machine(session, motion, **more):
    sign = known_key(0).sign
    return AgentMachine(session, 0, 1.0, sign=sign, budget=Budget(10.0), motion=motion, **more)


@pytest.mark.parametrize(
    ("motion", "words"),
    [
        (None, "A, B and C are each agent's own: give them"),
        (Moving(Linear(TRUCK.A, TRUCK.B, TRUCK.C, private={0: 2.0})), "one private number with width 1"),
        (Moving(PAIR), "needs one private component"),
        (Moving(CONTROL), "its lag 8"),
        (Moving(Linear(TRUCK.A, TRUCK.B * 2, TRUCK.C, private={0: 1.0})), "gain of an agent must be 1"),
    ],
)
def test_an_own_motion_that_does_not_fit_is_refused(motion, words):
    with pytest.raises((MotionError, ParameterError), match=words):
        machine(enveloped(), motion)


def test_an_influence_above_the_public_bound_is_refused_before_anything_is_said():
    machine(enveloped(), OWN)
    narrow = Bounded(tuple(b * (1 - 2.0**-30) if u == 3 else b for u, b in enumerate(COVERED.bounds)), 8.0)
    with pytest.raises(MotionError, match=r"start on message 3 is .* Nothing is sent"):
        machine(enveloped(narrow), OWN)
    # Rounding counts: bounds that are just the influence on real numbers are too narrow.
    exact = Bounded(tuple(float(a) for a in TRUCK.influence(np.arange(4))), 8.0)
    with pytest.raises(MotionError, match="with rounding"):
        machine(enveloped(exact), OWN)
    # Noise once costs the same for every motion.
    machine(enveloped(narrow, law="one-shot"), OWN)


def test_an_agent_goes_on_with_the_motion_it_began_with():
    session, sign = enveloped(), known_key(0).sign
    began = machine(session, OWN).private.first[0]
    assert isinstance(began, Began)
    again = AgentMachine.resume(session, 0, [began], sign=sign, budget=Budget(10.0))
    assert again.private._moving == OWN
    AgentMachine.resume(
        session, 0, [began], sign=sign, budget=Budget(10.0), motion=Moving(TRUCK, (0.5, -0.25))
    )
    other = Moving(TRUCK, (0.5, 0.0))
    with pytest.raises(ParameterError, match="the one that it began this session with"):
        AgentMachine.resume(session, 0, [began], sign=sign, budget=Budget(10.0), motion=other)
    with pytest.raises(ParameterError, match="leave out the agent's own motion"):
        machine(moving_session(), OWN)


# ---- what is refused ---------------------------------------------------------------------------------------


def told(session, **changes):
    """The session with other fields of its motion, as bytes."""
    canonical, rows = msgspec.msgpack.decode(session.encode())
    fields = msgspec.msgpack.decode(canonical)
    fields["motion"] = {name: v for name, v in (fields["motion"] | changes).items() if v is not None}
    return msgspec.msgpack.encode([msgspec.msgpack.Encoder(order="deterministic").encode(fields), rows])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "swarm"}, r"motion\.kind: must be one of linear, envelope, .* got 'swarm'"),
        ({"state": "measured"}, "must be 'computed', got 'measured'"),
        ({"surprise": 1}, r"motion\.surprise: is not known here"),
        ({"names": None}, r"motion\.names: must be given"),
        ({"A": [[1.0, 0.25], [-0.25, -0.0]]}, "canonical form|mode"),
        ({"start": [0.0]}, "public start must be one finite number for each of the 2"),
        ({"private": [[0, 0.5]]}, "must be at least 1"),
        ({"private": [[2, 1.0]]}, "private components must be among"),
        ({"norm": "l2"}, "in a box or an l1 ball"),
        ({"A": [[1.0, 0.0], [0.0, 1.0]]}, "mode"),
        ({"B": [0.0, float("inf")]}, "finite number"),
        ({"start": [0.0, 1e30]}, "reach must hold the public start"),
    ],
)
def test_a_motion_that_is_not_understood_is_refused_by_name(changes, words):
    with pytest.raises((FileError, MotionError, ParameterError), match=words):
        Session.decode(told(moving_session(), **changes))


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: moving_session(keepers=1), "keepers cannot serve agents with their own dynamics yet"),
        (lambda: replace(moving_session(), mixing=0.5), "mixing must be left out"),
        (lambda: replace(known_session(3), mixing=None), "mixing must be given"),
        (lambda: replace(moving_session(), components=2), "say one number"),
        (lambda: moving_session(own=PAIR, law="fading", rounds=2001), "at most 2,000 rounds"),
        (lambda: replace(moving_session(), further=(("table", (1.0, 1.0)),)), "each of 4 rounds, got 2"),
        (lambda: replace(moving_session(), further=(("table", 1.0),)), "each of 4 rounds"),
        (lambda: replace(moving_session(), further=(("table", (1, 0, 1, 1)),)), "at least as wide as"),
        (lambda: enveloped(Bounded((1.0, 1.0), 8.0)), "one bound for each of the 4 rounds, got 2"),
        (lambda: Moving(Linear(TRUCK.A, TRUCK.B, TRUCK.C, private={0: 1.0}, measured=True)), "no sensor"),
        (lambda: replace(moving_session(law="one-shot"), motion=Moving(PAIR)), "one private component"),
        (lambda: Moving(Contracting([[[0.5]]], [1], [[1]], 0.5, {0: 1.0})), "got the motion 'contracting'"),
    ],
)  # fmt: skip
def test_what_agents_with_their_own_dynamics_cannot_do_is_refused(made, words):
    with pytest.raises((MotionError, ParameterError), match=words):
        made()


def test_two_private_numbers_are_each_in_the_range_and_cost_their_steps():
    session = moving_session(own=PAIR)
    assert session.diameter == 20.0  # the second may change by 2 per unit of adjacency
    assert session.question.components == 2
    l1 = Linear(TRUCK.A, TRUCK.B, TRUCK.C, private={0: 1.0, 1: 2.0}, names=TRUCK.names, norm="l1")
    assert moving_session(own=l1).diameter == 30.0
    made = AgentMachine(session, 0, [30.0, -30.0], sign=known_key(0).sign, budget=Budget(10.0)).private
    step = 2.0**session.lattice.state_exponent
    assert (made._state * step).tolist() == [10.0, 0.125 - 10.0]
    assert made.clamped


def test_a_state_far_beyond_the_reach_goes_on(play):
    """What a lively agent does must not depend on where its state is, however far feedback drives it."""
    session = moving_session(1, 4, own=LIVELY, quorum=1)
    private = AgentMachine(session, 0, 1.0, sign=known_key(0).sign, budget=Budget(10.0)).private
    for u in range(4):
        private.draws[u] = 0
        private.speak(bytes(32))
        moved = private.move((session.lattice.limit,), [], [])
        assert isinstance(moved, Moved)
    assert max(map(abs, private._state)) > session.lattice.limit
