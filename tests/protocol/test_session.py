"""A session has one id on every machine, and refuses what could not run."""

import hashlib
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.doubles import known_key, known_session

from tacit.base.errors import FileError, GraphError, ParameterError
from tacit.core.mechanism.lattice import Lattice
from tacit.core.protocol.roster import _SMALL_ORDER, COORDINATOR, Member
from tacit.core.protocol.session import Deadlines, Session


def public(i):
    return known_key(i).public_key().public_bytes_raw()


def test_the_id_is_this_on_every_machine():
    session = known_session(3, 4, mixing=(0.5, 0.6, 0.7), noise=0.1, decay=0.9)
    assert session.id.hex() == "fd264e0e6ee1d8c0dd4418a5a43ce12ae27adfee37fc073f9cd9583f1069d4f6"
    assert session.id == hashlib.sha256(b"tacit session id\0" + session.canonical).digest()


@pytest.mark.parametrize("graph", [None, "ring:4"])
@pytest.mark.parametrize("law", ["fading", "one-shot"])
def test_reading_gives_the_same_session(graph, law):
    session = known_session(4, graph=graph, law=law, components=3)
    again = Session.decode(session.encode())
    assert again == session
    assert again.id == session.id


@given(st.floats(min_value=5e-324, max_value=1e300))
def test_adjacency_is_hashed_exactly(adjacency):
    session = known_session(adjacency=adjacency)
    assert Session.decode(session.encode()).adjacency == adjacency
    assert known_session(adjacency=math.nextafter(adjacency, math.inf)).id != session.id


def test_one_session_is_written_in_one_way():
    plain = known_session(3, mixing=0.5, noise=2.0, adjacency=1.0)
    each = known_session(3, mixing=(0.5, 0.5, 0.5), noise=np.full(3, 2.0), adjacency=1, quorum=2, start=2)
    whole = known_session(3, lattice=Lattice(-0, 1, *_exponents(plain)))
    assert plain.id == each.id == whole.id
    turned = known_session(graph="ring:4")
    other = Session(**{**_fields(turned), "edges": [(j, i) for i, j in reversed(turned.edges)]})
    assert other.id == turned.id


def _exponents(session):
    lattice = session.lattice
    return lattice.state_exponent, lattice.bits, lattice.reach_exponent


def _fields(session):
    return {name: getattr(session, name) for name in session.__dataclass_fields__}


CHANGES = {
    "name": "other",
    "mixing": 0.51,
    "noise": 2.5,
    "decay": 0.76,
    "rounds": 3,
    "adjacency": 0.5,
    "components": 2,
    "deadlines": Deadlines(round=29),
    "quorum": 1,
    "start": 3,
    "expires": 2_000_000_000,
    "roster": tuple(Member(f"agent-{i}", public(i + 1)) for i in range(3)),
    "coordinator": public(99),
    "lattice": Lattice(0, 2, -100),
}


@pytest.mark.parametrize("field", CHANGES)
def test_every_field_is_in_the_id(field):
    session = known_session(3)
    assert Session(**{**_fields(session), field: CHANGES[field]}).id != session.id


WRONG = [
    ({"name": "a/b"}, "a session's name must be"),
    ({"name": ""}, "a session's name must be"),
    ({"name": "ü"}, "a session's name must be"),
    ({"roster": ()}, "must have 1 to 100000 agents"),
    ({"coordinator": None}, "got neither"),
    ({"edges": ((0, 1), (1, 2))}, "got both"),
    ({"coordinator": b"short"}, "the coordinator's key must be the 32 bytes"),
    ({"coordinator": public(0)}, "agent-0 has the key of the coordinator"),
    ({"roster": (Member("a", public(0)), Member("A", public(1)))}, "names must differ, also in lower case"),
    ({"roster": (Member("a", public(0)), Member("b", public(0)))}, "b has the key of a"),
    ({"law": "none"}, "must be one of fading, one-shot, constant"),
    ({"decay": None}, "decay must be given with fading noise"),
    ({"law": "one-shot"}, "decay must be left out with one-shot noise"),
    ({"mixing": 1.0}, r"mixing \(sigma\) must be in \(0, 1\)"),
    ({"mixing": (0.5, 0.6)}, "one for each of 3 agents, got 2"),
    ({"mixing": "half"}, "mixing must be a number"),
    ({"noise": math.nan}, "noise must be finite"),
    ({"rounds": 0}, "rounds must be a whole number from 1"),
    ({"rounds": 2.0}, "rounds must be a whole number from 1"),
    ({"rounds": True}, "rounds must be a whole number from 1"),
    ({"rounds": 4000}, "noise must stay at least as wide as the state step"),
    ({"quorum": 4}, "quorum must be a whole number from 1 to 3"),
    ({"expires": 0}, "expires must be a whole number from 1 to"),
    ({"expires": 1e9}, "expires must be a whole number from 1 to"),
    ({"expires": 253_402_300_800}, "expires must be a whole number from 1 to"),
    ({"start": 1}, "start must be at least the quorum"),
    ({"components": 10**6, "lattice": Lattice(0, 1, -200)}, "a message must fit in"),
    ({"adjacency": 0.0}, "adjacency"),
    ({"lattice": None}, "lattice must be a Lattice"),
]


@pytest.mark.parametrize(
    ("change", "says"),
    WRONG,
    ids=[f"{k[0]}-{i}" for i, (k, _) in enumerate([(list(c), s) for c, s in WRONG])],
)
def test_what_cannot_run_is_refused_in_a_sentence(change, says):
    with pytest.raises(ParameterError, match=says):
        Session(**{**_fields(known_session(3)), **change})


def test_graphs_must_be_whole():
    fields = _fields(known_session(graph="path:4"))
    with pytest.raises(GraphError, match="must be connected"):
        Session(**{**fields, "edges": ((0, 1), (2, 3))})
    with pytest.raises(GraphError):
        Session(**{**fields, "edges": ((0, 0), (0, 1), (1, 2), (2, 3))})
    with pytest.raises(GraphError):
        Session(**{**fields, "edges": ((0, 1), (1, 0), (1, 2), (2, 3))})


@pytest.mark.parametrize("name", ["coordinator", "Coordinator", "all", "", "a b", "../x", "-x", "x" * 65, 3])
def test_names_that_mean_something_else_are_refused(name):
    with pytest.raises(ParameterError):
        Member(name, public(0))


def _add(a, b):
    p, d = 2**255 - 19, (-121665 * pow(121666, -1, 2**255 - 19)) % (2**255 - 19)
    (x1, y1), (x2, y2) = a, b
    t = d * x1 * x2 * y1 * y2
    return (x1 * y2 + x2 * y1) * pow(1 + t, -1, p) % p, (y1 * y2 + x1 * x2) * pow(1 - t, -1, p) % p


def _point(y):
    """A point with this y, by the curve's equation −x² + y² = 1 + d x² y², or None."""
    p, d = 2**255 - 19, (-121665 * pow(121666, -1, 2**255 - 19)) % (2**255 - 19)
    u, v = (y * y - 1) % p, (d * y * y + 1) % p
    square = u * pow(v, -1, p) % p
    x = pow(square, (p + 3) // 8, p)
    if (x * x - square) % p:
        x = x * pow(2, (p - 1) // 4, p) % p
    return (x, y % p) if (x * x - square) % p == 0 else None


def test_the_keys_of_small_order_are_all_of_them():
    """The points whose eightfold is the neutral one have just these y; each is refused as a key."""
    p = 2**255 - 19
    small = set()
    for y in {y % p for y in _SMALL_ORDER}:
        point = _point(y)
        for _ in range(3):
            point = _add(point, point)
        assert point == (0, 1)
        small |= {(_point(y)[0], y), (-_point(y)[0] % p, y)}
    assert len(small) == 8  # the torsion group has eight points, so none is missing
    assert {y for y in range(2**255 - 19, 2**255) if y % p in {0, 1}} <= _SMALL_ORDER
    for y in _SMALL_ORDER:
        for sign in (0, 1):
            key = (y | sign << 255).to_bytes(32, "little")
            with pytest.raises(ParameterError, match="small order"):
                Member("a", key)


def test_reading_refuses_any_other_bytes():
    data = known_session().encode()
    for wrong in (b"", data[:-1], data + b"\0", b"\x90", b"\x91" * 2000):
        with pytest.raises(FileError, match="not a session that this version can read"):
            Session.decode(wrong)
    longer = data.replace(b"\xa7agent-1", b"\xd9\x07agent-1")  # the same text with a longer length
    with pytest.raises(FileError, match="canonical form"):
        Session.decode(longer)


def test_helpers():
    session = known_session(3, 4, mixing=(0.5, 0.6, 0.7))
    assert [session.lattice_agent(i).law.sigma for i in range(3)] == [0.5, 0.6, 0.7]
    assert session.exponent(1, 2) == session.lattice_agent(1).message_exponent(2)
    assert session.topology == "server"
    assert session.neighbours(0) == (COORDINATOR,)
    assert session.neighbours(COORDINATOR) == (0, 1, 2)
    assert session.index("agent-2") == 2
    assert session.key(COORDINATOR) == session.coordinator
    assert known_session(graph="ring:4").neighbours(0) == (1, 3)
    assert known_session(graph="ring:4").topology == "graph"
    with pytest.raises(ParameterError, match="no agent 'nobody'"):
        session.index("nobody")
    with pytest.raises(ParameterError, match="numbered 0 to 2"):
        session.lattice_agent(-1)


def test_the_promise_is_theorys_and_the_cost_is_the_accounts():
    session = known_session(3, 4, mixing=(0.5, 0.6, 0.7), components=2, adjacency=0.5)
    promise = session.promise(0.1)
    assert promise.theory.horizon == 4
    assert promise.theory.failure_probability == 0.1
    assert promise.losses == tuple(session.account(i).total for i in range(3))
    assert promise.loss == max(promise.losses) == pytest.approx(promise.theory.loss, rel=1e-9)


def test_deadlines_are_positive_numbers():
    for wrong in (0, -1, math.inf, math.nan, "1", 10**9):
        with pytest.raises(ParameterError, match="deadline"):
            Deadlines(round=wrong)


def test_results_are_clamped_to_the_range_component_by_component():
    session = known_session(3)  # values are from 0 to 1
    for value, shown in ((-0.25, 0.0), (0.5, 0.5), (7.0, 1.0), (0.0, 0.0)):
        clamped = session.clamp(value)
        assert type(clamped) is float
        assert clamped == shown
    np.testing.assert_array_equal(session.clamp([-3.0, 0.25, 1.5]), [0.0, 0.25, 1.0])
    np.testing.assert_array_equal(session.clamp(np.array([2.0])), [1.0])


def test_what_threads_read_was_made_ready_before():
    """msgspec crashes if two threads read a class for the first time at once."""
    code = """
import sys
import tacit.live.fleet.follower, tacit.live.status.reader
from tacit.core.protocol.session import Session

asked = set()

def note(frame, event, _):
    if event == "call" and frame.f_code.co_name == "get_class_annotations":
        if "msgspec" not in frame.f_back.f_code.co_filename:  # from its own Python it is harmless
            asked.add(str(frame.f_locals.get("obj")))

sys.setprofile(note)
Session.decode(sys.stdin.buffer.read())
tacit.live.status.reader._DECODER.decode(
    b'{"kind": "hub", "name": "h", "role": "hub", "state": "serving", "ready": true}'
)
sys.setprofile(None)
asked = {name for name in asked if "_LawTable" not in name}  # each thread makes its own
assert not asked, asked
"""
    subprocess.run([sys.executable, "-c", code], input=known_session(agents=3).encode(), check=True)
