"""A session is described once: its canonical bytes, its defaults, and the root of its roster."""

import hashlib
import math
import struct

import msgspec
import pytest
from tests.doubles import known_key, known_series, known_session, moving_session

from tacit.base.errors import FileError, InputError, ParameterError
from tacit.core.protocol import fields, schema
from tacit.core.protocol.canonical import decode_for_one
from tacit.core.protocol.merkle import MerkleTree
from tacit.core.protocol.roster import OneOf, read_leaf, require_in_roster, roster_leaf
from tacit.core.protocol.session import Deadlines, Session

SESSIONS = {
    "server": known_session(3),
    "each its own": known_session(3, mixing=(0.5, 0.6, 0.7), noise=(2.0, 3.0, 4.0)),
    "keepers": known_session(3, keepers=2),
    "graph": known_session(graph="path:3"),
    "linear": moving_session(3),
    "weights": known_session(graph="path:3", weights="metropolis"),
    "series": known_series(3),
}
every = pytest.mark.parametrize("session", SESSIONS.values(), ids=SESSIONS)


def public(i):
    return known_key(i).public_key().public_bytes_raw()


def packed(value):  # noqa: PLR0911 - one return for each type
    """Canonical MessagePack, written here a second time."""
    if value is None:
        return b"\xc0"
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, bytes):
        return b"\xc4" + bytes([len(value)]) + value
    if isinstance(value, str):
        return bytes([0xA0 + len(value)]) + value.encode()
    if isinstance(value, list):
        return bytes([0x90 + len(value)]) + b"".join(map(packed, value))
    if isinstance(value, dict):
        return bytes([0x80 + len(value)]) + b"".join(packed(k) + packed(value[k]) for k in sorted(value))
    return msgspec.msgpack.encode(value)


# ---- bytes ----------------------------------------------------------------------------------------------


def test_the_canonical_bytes_are_these():
    session = known_session(3, mixing=(0.5, 0.6, 0.7), deadlines=Deadlines(round=5, start=60), quorum=2)
    leaves = [
        b"\x00tacit roster v1\0" + packed([i, f"agent-{i}", public(i), {"mixing": (5 + i) / 10}])
        for i in range(3)
    ]
    a, b, c = (hashlib.sha256(leaf).digest() for leaf in leaves)
    root = hashlib.sha256(b"\x01" + hashlib.sha256(b"\x01" + a + b).digest() + c).digest()
    lattice = session.lattice
    written = {
        "format": 7,
        "name": "known",
        "topology": "server",
        "expires": 253402300799,
        "agents": 3,
        "root": root,
        "coordinator": public(-1),
        "mechanism": {"law": "fading", "rounds": 4, "mixing": None, "noise": 2.0, "decay": 0.75},
        "values": {"low": 0.0, "high": 1.0, "components": 1, "adjacency": 1.0},
        "lattice": {
            "state_exponent": lattice.state_exponent, "bits": 40, "reach_exponent": lattice.reach_exponent,
        },
        "deadlines": {"round": 5.0},
        "quorum": {"round": 2, "start": 2},
    }  # fmt: skip
    assert msgspec.msgpack.decode(session.canonical) == written
    assert len(written) < 16
    assert session.canonical == packed(written)
    rows = [[f"agent-{i}", public(i), {"mixing": (5 + i) / 10}] for i in range(3)]
    assert msgspec.msgpack.decode(session.encode()) == [session.canonical, rows]


@every
def test_maps_are_sorted_and_reading_gives_the_same(session):
    assert session.canonical == msgspec.msgpack.Encoder(order="deterministic").encode(
        msgspec.msgpack.decode(session.canonical)
    )
    again = Session.decode(session.encode())
    assert again == session
    assert again.canonical == session.canonical


def with_canonical(session, change):
    """The bytes of a session in which `change` has changed the map."""
    canonical, rows = msgspec.msgpack.decode(session.encode())
    told = msgspec.msgpack.decode(canonical)
    change(told)
    return msgspec.msgpack.encode([msgspec.msgpack.Encoder(order="deterministic").encode(told), rows])


@every
def test_unchanged_maps_are_read(session):
    assert Session.decode(with_canonical(session, lambda _: None)) == session


@every
def test_unknown_fields_are_refused_by_name_in_every_map(session):
    told = msgspec.msgpack.decode(session.canonical)
    inner = [name for name, value in told.items() if isinstance(value, dict)]
    assert inner
    for place in ("", *inner):
        with pytest.raises(FileError, match=f", {place and place + '.'}surprise: is not known here"):
            Session.decode(
                with_canonical(session, lambda t, p=place: (t[p] if p else t).update(surprise=0.5))
            )
    lists = [name for name in ("keepers", "roster") if told.get(name)]
    for place in lists:
        with pytest.raises(FileError, match=rf", {place}\[0\]\.surprise: is not known here"):
            Session.decode(with_canonical(session, lambda t, p=place: t[p][0].update(surprise=1)))


def leaves_of(told, before=()):
    for name, value in told.items():
        if isinstance(value, dict):
            yield from leaves_of(value, (*before, name))
        else:
            yield (*before, name), value


@every
def test_numbers_have_their_declared_kind_and_are_finite(session):
    for place, value in leaves_of(msgspec.msgpack.decode(session.canonical)):
        others = []
        if isinstance(value, float):
            others = [int(value), math.nan, math.inf, -0.0 if value == 0 else None]
        elif isinstance(value, int):
            others = [float(value), True]
        for other in others:

            def change(told, other=other, place=place):
                for name in place[:-1]:
                    told = told[name]
                told[place[-1]] = other

            with pytest.raises(InputError):
                Session.decode(with_canonical(session, change))


@every
def test_a_field_at_its_default_is_left_out_and_only_so(session):
    """Writing a default, or leaving out what has none, is refused."""
    for name, default in (("deadlines", {}), ("keepers", []), ("mask_bytes", None), ("weights", None)):
        if name not in msgspec.msgpack.decode(session.canonical):
            with pytest.raises(FileError):
                Session.decode(with_canonical(session, lambda t, n=name, d=default: t.update({n: d})))
    for place, _ in leaves_of(msgspec.msgpack.decode(session.canonical)):

        def drop(told, place=place):
            for name in place[:-1]:
                told = told[name]
            del told[place[-1]]

        if ".".join(place) in {"weights", "deadlines.start"}:  # another session, which has the default
            assert Session.decode(with_canonical(session, drop)).id != session.id
        else:
            with pytest.raises(InputError):
                Session.decode(with_canonical(session, drop))


def test_equal_values_are_equal_whatever_object_they_are():
    """`omit_defaults` of msgspec compares objects: equal sessions would get different ids."""
    for other in (Deadlines(), Deadlines(30, 60, 1), Deadlines(float("30"), float("6e1"), 1.0)):
        assert known_session(deadlines=other).canonical == known_session().canonical
        assert b"deadlines" not in known_session(deadlines=other).canonical


OLD = [
    ["tacit session", 2, "known", [["agent-0", bytes(32)]], bytes(32), None, *range(12)],
    ["tacit session", 6, "known", *range(9)],
]


@pytest.mark.parametrize("old", OLD, ids=["2", "6"])
def test_sessions_of_older_versions_are_refused_in_one_sentence(old):
    with pytest.raises(FileError, match=r"^this session has a format of tacit 0\.2 or older, .* anew"):
        Session.decode(msgspec.msgpack.encode(old))


# ---- defaults -------------------------------------------------------------------------------------------

DEFAULTS = {
    "motion": None,
    "agents": None,
    "closes": None,
    "coordinator_address": None,
    "deadlines": {},
    "deadlines.repeat": 1.0,
    "deadlines.round": 30.0,
    "deadlines.start": 60.0,
    "keepers": [],
    "keepers.address": None,
    "mask_bytes": None,
    "question": None,
    "quorum": {},
    "quorum.round": None,
    "quorum.start": None,
    "root": None,
    "series.components": 1,
    "series.distance": None,
    "roster": [],
    "roster.address": None,
    "weights": None,
}
NEVER = {
    "mechanism", "values.low", "values.high", "values.components", "values.adjacency", "series.steps",
    "lattice.state_exponent", "lattice.bits", "lattice.reach_exponent", "series.slots", "series.interval",
    "series.begins", "series.hides", "series.hides.kind", "series.hides.size", "series.mechanism",
    "series.exponent", "series.low", "series.high", "series.delta", "coordinator", "edges", "expires",
}  # fmt: skip


def test_a_default_is_wire_format_for_ever():
    """Changing a default would give old sessions another meaning under the same id. Add, never change."""
    found, required = {}, set()
    for kind in schema.KINDS:
        for place, field, _ in fields.described_in(kind):
            default = fields.default_of(field)
            if default is msgspec.NODEFAULT:
                required.add(place)
            else:
                found[place] = fields.plain_value(default)
    assert found == DEFAULTS
    assert required >= NEVER


def test_options_choose_attributes_of_a_session():
    given = {"round_deadline": 5, "start_deadline": None, "quorum": 2, "start": None}
    assert schema.chosen(given) == {"deadlines": Deadlines(round=5.0), "quorum": 2, "start": None}
    usual = Deadlines(10, 5, 0.5)
    assert schema.chosen({"start_deadline": 1.0}, deadlines=usual) == {"deadlines": Deadlines(10, 1, 0.5)}
    options = ["round_deadline", "start_deadline", "quorum"]
    assert [setting.name for setting in schema.settings("hub")] == options
    with pytest.raises(ParameterError, match="no option 'surprise'"):
        schema.chosen({"surprise": 1})
    with pytest.raises(ParameterError, match="round deadline"):
        schema.chosen({"round_deadline": "soon"})


# ---- the roster -----------------------------------------------------------------------------------------


def rows_changed(session, change):
    canonical, rows = msgspec.msgpack.decode(session.encode())
    change(rows)
    return msgspec.msgpack.encode([canonical, rows])


def swap(rows):
    rows[0], rows[1] = rows[1], rows[0]


ROSTERS = {
    "another name": (lambda rows: rows[1].__setitem__(0, "mallory"), "commits to"),
    "another key": (lambda rows: rows[1].__setitem__(1, public(9)), "commits to"),
    "swapped": (swap, "commits to"),
    "one fewer": (lambda rows: rows.pop(), "commits to|must be"),
    "one more": (lambda rows: rows.append(["d", public(9), None]), "commits to|must be"),
    "equal names": (lambda rows: rows[1].__setitem__(0, "agent-0"), "names must differ"),
    "equal keys": (lambda rows: rows[1].__setitem__(1, public(0)), "own key"),
    "none": (lambda rows: rows.clear(), "must have"),
    "own parameters": (lambda rows: rows[1].__setitem__(2, {"mixing": 0.5}), "canonical form"),
}


@pytest.mark.parametrize("change", ROSTERS)
@pytest.mark.parametrize("kind", ["server", "keepers", "series"])
def test_another_roster_than_the_committed_one_is_refused(kind, change):
    changed, says = ROSTERS[change]
    with pytest.raises(InputError, match=says):
        Session.decode(rows_changed(SESSIONS[kind], changed))


def test_own_parameters_are_committed_to():
    session = SESSIONS["each its own"]
    assert session.own(1) == {"mixing": 0.6, "noise": 3.0}
    for change, says in (
        (lambda rows: rows[1][2].update(mixing=0.61), "commits to"),
        (lambda rows: rows[1][2].pop("mixing"), "must be a number"),
        (lambda rows: rows[1][2].update(decay=0.6), "canonical form"),
        (lambda rows: [row[2].update(mixing=0.5) for row in rows], "commits to"),
    ):
        with pytest.raises(InputError, match=says):
            Session.decode(rows_changed(session, change))


@pytest.mark.parametrize("kind", ["server", "each its own", "keepers", "series"])
def test_a_session_is_read_with_one_leaf_and_its_path(kind):
    """What an agent needs of a large session: nothing else of the roster."""
    whole = SESSIONS[kind]
    for i, member in enumerate(whole.roster):
        leaf, path = roster_leaf(i, member, whole.own(i)), whole.roster_tree.path(i)
        one = decode_for_one(whole.canonical, leaf, path)
        assert isinstance(one.roster, OneOf)
        assert (one.id, one.n, one.root, one.own(i)) == (whole.id, 3, whole.root, whole.own(i))
        assert one.number_of_key(member.key) == i
        assert one.planned(i) == whole.planned(i)
        assert one.exponent(i, 0) == whole.exponent(i, 0)
        assert (one.least_quorum, one.keepers) == (whole.least_quorum, whole.keepers)
        with pytest.raises(ParameterError, match="only one agent"):
            one.member((i + 1) % 3)
        with pytest.raises(ParameterError, match="only one agent"):
            one.encode()


def test_a_leaf_that_is_not_under_the_root_is_refused():
    whole = SESSIONS["each its own"]
    leaf, path = roster_leaf(1, whole.roster[1], whole.own(1)), whole.roster_tree.path(1)
    assert read_leaf(leaf) == (1, whole.roster[1], {"mixing": 0.6, "noise": 3.0})
    other = roster_leaf(1, whole.roster[1], {"mixing": 0.7, "noise": 3.0})
    moved = roster_leaf(2, whole.roster[1], whole.own(1))
    for wrong, way in ((other, path), (moved, path), (leaf, path[:-32]), (leaf, path + bytes(32))):
        with pytest.raises(InputError, match="does not have this agent"):
            decode_for_one(whole.canonical, wrong, way)
    fewer = roster_leaf(1, whole.roster[1], {"mixing": 0.6})
    for wrong in (fewer, leaf + b"\0", leaf[1:], b"", leaf.replace(b"\xa7agent-1", b"\xd9\x07agent-1")):
        with pytest.raises(InputError, match=r"leaf of a roster"):
            decode_for_one(whole.canonical, wrong, path)
    told = msgspec.msgpack.decode(whole.canonical) | {"deadlines": {}}
    with pytest.raises(InputError, match="canonical form"):
        decode_for_one(msgspec.msgpack.Encoder(order="deterministic").encode(told), leaf, path)
    with pytest.raises(InputError, match="must commit to its roster"):
        decode_for_one(SESSIONS["graph"].canonical, leaf, path)


def test_an_agent_looks_for_its_leaf_under_the_root():
    session = known_session(3)
    for i in range(3):
        session.require_listed(i)
    object.__setattr__(session, "roster", (session.roster[1], session.roster[0], session.roster[2]))
    session.require_listed(2)
    with pytest.raises(InputError, match="number 0 of 3"):
        session.require_listed(0)
    known_session(graph="path:3").require_listed(0)
    with pytest.raises(InputError, match="number 3 of 3"):
        require_in_roster(session.root, 3, 3, b"", b"")


@pytest.mark.parametrize(
    ("whole", "own", "why"),
    [
        (known_session(3, 4, keepers=1), {"noise": 1.0}, "noise must be one number if keepers add"),
        (known_session(3, 4, keepers=1), {"decay": 0.5}, "decay must be one number if keepers add"),
        (known_session(1, 4), {"noise": 2.0}, "alone must not have parameters of its own"),
    ],
    ids=["noise with keepers", "decay with keepers", "alone"],
)
def test_one_leaf_admits_no_session_that_the_whole_roster_does_not(whole, own, why):
    """Otherwise an agent would account for a noise that no keeper draws."""
    leaves = [roster_leaf(i, member, own) for i, member in enumerate(whole.roster)]
    tree = MerkleTree(leaves)
    told = msgspec.msgpack.decode(whole.canonical)
    told |= {"root": tree.root, "mechanism": told["mechanism"] | dict.fromkeys(own)}
    with pytest.raises(InputError, match=why):
        decode_for_one(msgspec.msgpack.Encoder(order="deterministic").encode(told), leaves[0], tree.path(0))
