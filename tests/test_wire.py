"""The test vectors of the wire format are current, and a program that knows only the page passes them."""

import hashlib
import importlib.util
import itertools
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from tests.attack.judges import second_verifier
from tests.doubles import known_key, known_session

from tacit.base.errors import TacitError
from tacit.core.graph import Graph
from tacit.core.protocol.canonical import decode_for_one
from tacit.core.protocol.codec import Codec
from tacit.core.protocol.merkle import is_in_tree, merkle_root
from tacit.core.protocol.messages import COORDINATOR, Message, Place
from tacit.core.protocol.session import Session
from tacit.live.verification.verdict import verify

ROOT = Path(__file__).parents[1]


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def other():
    verifier = second_verifier()
    return SimpleNamespace(**vars(sys.modules["wire_independently"]) | vars(verifier))


@pytest.fixture(scope="module")
def vectors():
    return json.loads((ROOT / "docs" / "reference" / "wire-vectors.json").read_text())


def test_the_file_is_current():
    made = load(ROOT / "docs" / "wire_vectors.py")
    assert made.FILE.read_text() == made.text(), "run: python -m docs.wire_vectors"


def plain(value):
    return value.hex() if isinstance(value, bytes) else json.dumps(value)


def test_values_and_numbers(other, vectors):
    for row in vectors["messagepack"]:
        assert plain(other.unpack(bytes.fromhex(row["bytes"]))) == row["value"]
    for row in vectors["means"]:
        assert (2 * row["numerator"] + row["denominator"]) // (2 * row["denominator"]) == row["rounded"]
    a, b = b"a" * 32, b"b" * 32
    assert other.combined([a, b]).hex() == vectors["digests"]["combined"]
    chained = other.combined([other.combined([bytes(32), a]), b])
    assert chained.hex() == vectors["digests"]["history"]


def test_sessions_and_frames(other, vectors):
    for name, row in vectors["sessions"].items():
        session = other.Session(bytes.fromhex(row["bytes"]))
        assert session.id.hex() == row["id"]
        assert (session.width, str(session.limit)) == (row["number_bytes"], row["limit"])
        for member in row["leaves"]:
            leaf, path = (bytes.fromhex(member[what]) for what in ("leaf", "path"))
            assert decode_for_one(bytes.fromhex(row["canonical"]), leaf, path).id.hex() == row["id"]
        for i, exponents in enumerate(vectors["exponents"][name]):
            assert [session.exponent(i, u) for u in range(session.rounds)] == exponents
        assert vectors["frames"][name]
        for kept in vectors["frames"][name]:
            frame = other.Frame(session, bytes.fromhex(kept["frame"]))
            assert (frame.sender, frame.kind, frame.digest.hex()) == (
                kept["sender"],
                kept["kind"],
                kept["digest"],
            )
            assert [str(v) for v in frame.numbers] == kept.get("numbers", ["0"])
            assert [plain(v) for v in frame.body] == [v if isinstance(v, str) else json.dumps(v)
                                                      for v in kept["body"].values()]  # fmt: skip
            broken = bytearray.fromhex(kept["frame"])
            broken[len(broken) // 2] ^= 1
            with pytest.raises(other.BAD):
                other.Frame(session, bytes(broken))


def test_a_law_that_the_page_does_not_have_is_refused(other, vectors):
    canonical, rows = other.unpack(bytes.fromhex(vectors["sessions"]["constant"]["bytes"]))
    fields = other.unpack(canonical)

    def read(**changes):
        told = msgspec.msgpack.Encoder(order="deterministic").encode(fields | changes)
        return other.Session(msgspec.msgpack.encode([told, rows]))

    assert read().kind == "constant"
    for unknown in (
        {"mechanism": fields["mechanism"] | {"law": "harmonic"}},
        {"mechanism": fields["mechanism"] | {"rate": 0.5}},
        {"surprise": 1},
        {"format": 8},
        {"agents": 3},
        {"root": bytes(32)},
    ):
        with pytest.raises(other.BAD):
            read(**unknown)
    with pytest.raises(other.BAD):
        other.Session(msgspec.msgpack.encode([canonical, rows[::-1]]))


def variants(fields, rows):
    """Sessions that say the same in another form, or commit to another roster: name, fields, roster."""
    names = [[rows[1][0].upper(), *rows[0][1:]], *rows[1:]]
    yield "a default is written", fields | {"deadlines": {"round": 30.0}}, rows
    yield "all defaults are written", fields | {"deadlines": {}}, rows
    yield "no keepers are written", fields | {"keepers": []}, rows
    yield "an unknown field", fields | {"surprise": 1}, rows
    for asked in ({}, {"kind": "mean"}, {"kind": "surprise"}, {"kind": "count", "low": 0.0}, {"kind": "sum"}):
        yield f"the question {asked}", counting(fields) | {"question": asked}, rows
    once = counting(fields)
    yield "a count in two rounds", once | {"mechanism": once["mechanism"] | {"rounds": 2}}, rows
    grouped = {"kind": "group by", "labels": ["a"], "question": {"kind": "mean", "low": 0.0}}
    yield "a mean of groups without its range", once | {"question": grouped}, rows
    yield "an unknown field in a map", fields | {"quorum": fields["quorum"] | {"end": 1}}, rows
    yield "an unknown parameter", fields | {"mechanism": fields["mechanism"] | {"rate": 0.5}}, rows
    yield "a field is missing", {name: fields[name] for name in fields if name != "lattice"}, rows
    yield "a field of a map is missing", fields | {"quorum": {"round": 2}}, rows
    yield "a real number as an integer", fields | {"values": fields["values"] | {"high": 1}}, rows
    yield "a negative zero", fields | {"values": fields["values"] | {"low": -0.0}}, rows
    yield "not finite", fields | {"values": fields["values"] | {"high": float("inf")}}, rows
    yield "another format", fields | {"format": 8}, rows
    yield "more agents than there are", fields | {"agents": fields["agents"] + 1}, rows
    yield "another root", fields | {"root": bytes(32)}, rows
    yield "mask bytes without keepers", fields | {"mask_bytes": 9}, rows
    yield "edges with a server", fields | {"edges": [[0, 1]]}, rows
    yield "another order", fields, rows[::-1]
    yield "one agent less", fields, rows[1:]
    yield "no roster", fields, None
    yield "own parameters that the session does not leave open", *rooted(fields, own(rows, {"noise": 2.0}))
    yield (
        "parameters left open that nobody has",
        *rooted(fields | {"mechanism": fields["mechanism"] | {"noise": None}}, rows),
    )
    yield "equal names", *rooted(fields, names)
    yield "equal keys", *rooted(fields, [[rows[0][0], rows[1][1], None], *rows[1:]])


def motions(fields):
    """Sessions of linear agents that must be refused, by what is wrong."""
    motion = fields["motion"]
    for name, change in {
        "another kind": {"kind": "swarm"},
        "a measured state": {"state": "measured"},
        "an unknown field": {"surprise": 1},
        "a matrix that is not square": {"A": [[1.0, 0.25]]},
        "a row that is too short": {"A": [[1.0, 0.25], [1.0]]},
        "whole numbers in a row": {"B": [0, 1]},
        "a negative zero": {"C": [1.0, -0.0]},
        "a start that is too short": {"start": [0.0]},
        "equal names": {"names": ["a", "a"]},
        "a narrow private number": {"private": [[0, 0.5]]},
        "a private number that is not there": {"private": [[2, 1.0]]},
        "the norm l2": {"norm": "l2"},
    }.items():
        yield name, fields | {"motion": motion | change}
    yield "a mixing besides", fields | {"mechanism": fields["mechanism"] | {"mixing": 0.5}}
    yield "a table that is too short", fields | {"mechanism": fields["mechanism"] | {"table": [1.0]}}
    yield "no motion", {name: value for name, value in fields.items() if name != "motion"}


def test_a_motion_has_one_form(other, vectors):
    """Both programs refuse every other one."""
    write = msgspec.msgpack.Encoder(order="deterministic").encode
    for kind in ("linear", "linear-one-shot", "envelope"):
        canonical, rows = other.unpack(bytes.fromhex(vectors["sessions"][kind]["bytes"]))
        fields = other.unpack(canonical)
        for name, changed in [("as it is", fields), *(motions(fields) if kind == "linear" else [])]:
            data = write([write(changed), rows])
            right = name == "as it is"
            for read, refused in ((Session.decode, TacitError), (other.Session, other.BAD)):
                if right:
                    assert read(data).id == other.Session(data).id
                    continue
                with pytest.raises(refused):
                    read(data)


def own(rows, parameters):
    return [[name, key, parameters] for name, key, _ in rows]


def counting(fields):
    """Let a session ask how many say yes."""
    values = {"low": 0.0, "high": 1.0, "components": 1, "adjacency": 1.0}
    once = {"law": "one-shot", "mixing": 0.5, "noise": 2.0, "rounds": 1}
    return fields | {"question": {"kind": "count"}, "values": values, "mechanism": once}


def rooted(fields, rows):
    """Let a session commit to this roster."""
    leaves = [b"tacit roster v1\0" + msgspec.msgpack.encode([i, *row]) for i, row in enumerate(rows)]
    return fields | {"root": merkle_root(leaves)}, rows


def test_a_session_has_one_form(other, vectors):
    """Both programs refuse every other one; the roster is the one that the session commits to."""
    canonical, rows = other.unpack(bytes.fromhex(vectors["sessions"]["server"]["bytes"]))
    write = msgspec.msgpack.Encoder(order="deterministic").encode
    fields = other.unpack(canonical)

    def both(data):
        found = []
        for read, refused in ((Session.decode, TacitError), (other.Session, other.BAD)):
            try:
                found.append(read(data).id)
            except refused:
                found.append(None)
        return found

    assert both(write([write(fields), rows])) == [other.Session(write([canonical, rows])).id] * 2
    asked = write([write(counting(fields)), rows])
    assert both(asked) == [other.Session(asked).id] * 2
    for name, changed, roster in variants(fields, rows):
        assert both(write([write(changed), roster])) == [None, None], name
    turned = msgspec.msgpack.encode(dict(reversed(fields.items())))
    for name, data in {
        "not sorted": write([turned, rows]),
        "not the shortest form": write([canonical, rows]).replace(b"\x07", b"\xcc\x07", 1),
        "more after it": write([canonical, rows]) + b"\0",
        "three items": write([canonical, rows, None]),
    }.items():
        assert both(data) == [None, None], name
    # Parameters that differ are in the roster, and count.
    changed = fields | {"mechanism": fields["mechanism"] | {"noise": None}}
    rows = [[name, key, {"noise": 2.0 + i}] for i, (name, key, _) in enumerate(rows)]
    changed, rows = rooted(changed, rows)
    data = write([write(changed), rows])
    assert other.Session(data).noise == list(Session.decode(data).noise)


@pytest.mark.parametrize(
    "weights", [None, "metropolis", ((0, 0, 3), (0, 1, 2), (0, 2, 1), (1, 0, 1), (2, 0, 5))]
)
def test_means_of_the_messages_that_came(other, weights):
    """Whichever came, both programs count them the same."""
    ours = known_session(graph=Graph.from_edges([(0, 1), (0, 2)]), rounds=1, weights=weights)
    theirs = other.Session(ours.encode())
    for i in range(3):
        near = sorted((i, *ours.neighbours(i)))
        for some in (s for k in range(1, 4) for s in itertools.combinations(near, k)):
            said = [SimpleNamespace(sender=j, numbers=[3 + 7**j], exponent=ours.exponent(j, 0)) for j in some]
            mean = ours.lattice.mean([(m.numbers[0], m.exponent) for m in said], ours.counts(i, some))
            assert theirs.mean(said, i) == [mean]


def test_a_series(other, vectors, tmp_path, capsys):
    """Its bytes, frames and verdict, and its means to the last bit, by both programs."""
    made = vectors["series"]
    data = bytes.fromhex(made["session"]["bytes"])
    session, theirs = Session.decode(data), other.Session(data)
    assert session.id.hex() == theirs.id.hex() == made["session"]["id"]
    assert {row["kind"] for row in made["frames"]} == {3, 8, 9, 10}
    for row in made["frames"]:
        frame = bytes.fromhex(row["frame"])
        assert isinstance(Codec(session).open(frame), Message)
        read = other.Frame(theirs, frame)
        assert [str(v) for v in read.numbers] == row.get("numbers", ["0"])
        assert (read.kind, read.sender, read.digest.hex()) == (row["kind"], row["sender"], row["digest"])
    (case,) = made["transcripts"]
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(case["files"][0]) + "\n")
    verdict = verify(path)
    assert (verdict.word, verdict.rounds) == (case["verdict"], case["rounds"]) == ("sound", 4)
    assert verdict.series.used == (2, 3, 3, 0)
    assert list(verdict.series.means) == case["means"]
    other.main([str(path)])
    found = json.loads(capsys.readouterr().out)
    shared = ("verdict", "rounds", "result", "means")
    assert {key: found[key] for key in shared} == {key: case[key] for key in shared}
    assert found["used"] == [2, 3, 3, 0]


def test_masks(vectors):
    """From the page alone: key agreement and masks."""
    session = vectors["sessions"]["keepers"]
    keepers = [[keeper["name"], keeper["key"]] for keeper in session["fields"]["keepers"]]
    names, identity = [*session["roster"], *keepers], bytes.fromhex(session["id"])
    for row in vectors["masks"]:
        i, j = row["agent"], row["keeper"]
        private = [bytes.fromhex(key) for key in row["ephemeral"].values()]
        own, theirs = map(X25519PrivateKey.from_private_bytes, private)
        public = [key.public_key().public_bytes_raw() for key in (own, theirs)]
        assert [key.hex() for key in public] == list(row["public"].values())
        info = b"tacit keeper agreement v1\0\0\5agent\0\6keeper"
        info += b"".join(len(names[k][0]).to_bytes(2, "big") + names[k][0].encode() for k in (i, j))
        info += b"".join(bytes.fromhex(names[k][1]) for k in (i, j)) + b"".join(public)
        agreed = HKDF(SHA256(), 32, salt=identity, info=info).derive(own.exchange(theirs.public_key()))
        assert agreed.hex() == row["secret"]
        for made in row["masks"]:
            said = agreed + b"\1" + made["update"].to_bytes(8, "big") + bytes.fromhex(row["salt"])
            mask = hashlib.shake_256(b"tacit keeper mask v1\0" + said).digest(len(made["bytes"]) // 2)
            assert mask.hex() == made["bytes"]


def test_no_vector_is_left_out(vectors):
    """Every name in the file is on the page, and read by a test of this module."""
    tests, page = Path(__file__).read_text(), (ROOT / "docs" / "reference" / "wire.md").read_text()
    for name in set(vectors) - {"about"}:
        assert f'vectors["{name}"]' in tests, name
        assert f"\n| `{name}` | " in page, name
    for row in vectors["keys"].values():
        key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(row["private"]))
        assert key.public_key().public_bytes_raw().hex() == row["public"]


def test_trees(vectors):
    """The definition of the page, word for word, gives the roots and paths of the file."""

    def tree(leaves, i):
        if len(leaves) == 1:
            return hashlib.sha256(b"\0" + leaves[0]).digest(), b""
        m = 1 << (len(leaves) - 1).bit_length() - 1
        (left, low), (right, high) = tree(leaves[:m], i), tree(leaves[m:], i - m)
        path = low + right if 0 <= i < m else high + left
        return hashlib.sha256(b"\1" + left + right).digest(), path

    for row in vectors["trees"]:
        leaves = [f"leaf {i}".encode() for i in range(row["leaves"])]
        for i, path in enumerate(row["paths"]):
            assert tuple(part.hex() for part in tree(leaves, i)) == (row["root"], path)


def test_states_and_places(other, vectors):
    """Leaves, root and places, as the second program makes them; a place leads from its leaf to the root."""
    for row in vectors["states"]:
        leaves = [bytes.fromhex(leaf) for leaf in row["leaves"]]
        assert len(leaves) == row["agents"] == len(row["places"])
        fields = [other.unpack(leaf.removeprefix(b"tacit state v1\0")) for leaf in leaves]
        assert other.committed([leaf[1:] for leaf in fields], b"tacit state v1\0").hex() == row["state"]
        assert [b"tacit state v1\0" + other.pack(leaf) for leaf in fields] == leaves
        assert sum(last >= 0 for _, last, _ in fields) == row["members"]
        for (i, last, digest), place in zip(fields, row["places"], strict=True):
            t, *leaf, path = other.unpack(bytes.fromhex(place))
            assert (t, leaf) == (300, [last, digest])
            assert is_in_tree(bytes.fromhex(row["state"]), leaves[i], i, len(leaves), path)


def test_receipts(other, vectors):
    """Both programs accept them in sessions that stay open, and in no others."""
    sessions = {row["id"]: bytes.fromhex(row["bytes"]) for row in vectors["sessions"].values()}
    assert {row["accepted"] for row in vectors["receipts"]} == {True, False}
    for row in vectors["receipts"]:
        frame = bytes.fromhex(row["frame"])
        version, _, sender, kind, body = other.unpack(frame[:-64])
        assert (version, sender, kind) == (2, row["sender"], row["kind"])
        assert other.unpack(body) == [row["round"], bytes.fromhex(row["report"])]
        session = sessions[row["session"]]
        assert isinstance(Codec(Session.decode(session)).open(frame), Message) is row["accepted"]
        if row["accepted"]:
            assert other.Frame(other.Session(session), frame).kind == other.RECEIPT
            continue
        with pytest.raises(other.BAD):
            other.Frame(other.Session(session), frame)


@pytest.mark.parametrize(
    "fields",
    [(1, 2, b"d" * 32, b""), (1, -2, bytes(32), b""), (1, -1, b"d" * 32, b""), (1, 0, bytes(32), b"")]
    + [(1, -1, bytes(32), path) for path in (b"x", bytes(96))],
)
def test_places_that_cannot_be_are_refused(other, vectors, fields):
    data = bytes.fromhex(vectors["sessions"]["server"]["bytes"])
    codec, theirs, sign = Codec(Session.decode(data)), other.Session(data), known_key(COORDINATOR).sign
    sealed = codec.seal(COORDINATOR, Place(1, -1, bytes(32), b""), sign)
    assert isinstance(codec.open(sealed), Message)
    assert other.Frame(theirs, sealed).kind == other.PLACE
    wrong = codec.seal(COORDINATOR, Place(*fields), sign)
    assert not isinstance(codec.open(wrong), Message)
    with pytest.raises(other.BAD):
        other.Frame(theirs, wrong)


def test_scales(other, vectors):
    for row in vectors["scales"]:
        session = other.Session.__new__(other.Session)
        session.kind, session.noise, session.decay = "fading", row["c"], row["q"]
        session.bits, session.state, session.series = 0, -2000, []
        assert session.exponent(0, row["u"]) == row["exponent"]


def test_transcripts(other, vectors, tmp_path, capsys):
    for name, cases in vectors["transcripts"].items():
        assert {"sound", "unchecked", "unsound"} == {case["verdict"] for case in cases}, name
        for case in cases:
            paths = [tmp_path / f"{k}.jsonl" for k in range(len(case["files"]))]
            for path, lines in zip(paths, case["files"], strict=True):
                path.write_text("\n".join(lines) + "\n")
            other.main([*map(str, paths), "--running"])
            assert json.loads(capsys.readouterr().out)["verdict"] == case["running"]
            other.main([*map(str, paths)])
            found = json.loads(capsys.readouterr().out)
            assert {key: found[key] for key in ("verdict", "rounds", "result")} == {
                key: case[key] for key in ("verdict", "rounds", "result")
            }
