"""Frames: one encoding for one message, and a name for everything else."""

import hashlib

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.doubles import known_feedback, known_key, known_session

from tacit.base.errors import FileError
from tacit.core.mechanism.lattice import Lattice
from tacit.core.protocol.codec import DOMAIN, SIGNATURE_BYTES, Codec, combined, digest
from tacit.core.protocol.merkle import longest_path
from tacit.core.protocol.messages import (
    BODIES,
    COORDINATOR,
    KINDS,
    NOTHING_HEARD,
    VERSION,
    Ask,
    Closing,
    Done,
    Feedback,
    Key,
    Masked,
    Message,
    Opening,
    Place,
    Present,
    Reason,
    Receipt,
    Refusal,
    Report,
    Stop,
)
from tacit.core.protocol.notices import Refused
from tacit.core.protocol.records import Evidence, Moved, Spoke, decode_record, encode_record

SESSION = known_session(10, 4, components=2, lattice=Lattice(0, 1, -70, 40, 20))
CODEC = Codec(SESSION)
WIDTH = SESSION.number_bytes
SIGNS = {i: known_key(i).sign for i in (COORDINATOR, *range(10))}
HEARD = hashlib.sha256(b"heard").digest()
LIMIT = SESSION.lattice.limit


def report(sender=3, u=1, numbers=(5, -6), exponent=None, heard=HEARD):
    exponent = SESSION.exponent(sender, u) if exponent is None else exponent
    return Report(u, exponent, CODEC.pack(numbers), heard)


def feedback(t=1, numbers=(5, -6), count=10, before=HEARD, **more):
    return known_feedback(CODEC, t, numbers, count=count, before=before, **more)


def bound(exponent):
    return LIMIT >> (exponent - SESSION.lattice.state_exponent)


VALID = [
    (3, report()),
    (0, report(0, 0, (0, 0), heard=NOTHING_HEARD)),
    (9, report(9, 3, (bound(SESSION.exponent(9, 3)), -bound(SESSION.exponent(9, 3))))),
    (COORDINATOR, feedback()),
    (COORDINATOR, feedback(0, (LIMIT, -LIMIT), 6, before=NOTHING_HEARD)),
    (COORDINATOR, feedback(3, count=6, members=9)),
    (COORDINATOR, Place(3, 1, HEARD, bytes(4 * 32))),
    (COORDINATOR, Place(0, -1, NOTHING_HEARD, b"")),
    (3, Ask(0)),
    (COORDINATOR, Ask(3)),
    (3, Present(0)),
    (3, Present(4)),
    (3, Done(4, bytes(32))),
    (3, Stop(2, Reason.CAP)),
    (COORDINATOR, Stop(4, Reason.OPERATOR)),
]
FRAMES = [CODEC.seal(sender, body, SIGNS[sender]) for sender, body in VALID]


@pytest.mark.parametrize(("sender", "body"), VALID)
def test_what_is_written_is_read(sender, body):
    frame = CODEC.seal(sender, body, SIGNS[sender])
    message = CODEC.open(frame)
    assert isinstance(message, Message)
    assert (message.sender, message.body, message.frame) == (sender, body, frame)
    assert message.digest == hashlib.sha256(frame[:-64]).digest() == digest(frame)
    numbers = getattr(body, "numbers", b"")
    assert message.numbers == CODEC.unpack(numbers)
    assert CODEC.seal(message.sender, message.body, SIGNS[sender]) == frame
    assert len(frame) <= CODEC.most_bytes


def test_golden_bytes():
    """What is on the wire. If this fails, the wire format has changed: raise VERSION."""
    session = known_session(2, 2, lattice=Lattice(0, 1, -70, 40, 20))
    codec = Codec(session)
    body = Report(1, session.exponent(1, 1), codec.pack([-2]), bytes(range(32)))
    frame = codec.seal(1, body, known_key(1).sign)
    head = b"\x95\x02\xc4\x20" + session.id + b"\x01\x02\xc4\x34"
    inner = b"\x94\x01\xd0\xd8\xc4\x0c" + b"\xff" * 11 + b"\xfe" + b"\xc4\x20" + bytes(range(32))
    assert frame[:-64] == head + inner
    assert frame[-64:] == known_key(1).sign(b"tacit message v1\0" + head + inner)
    assert (
        hashlib.sha256(frame).hexdigest()
        == "f8c38df7936e9cf325464a4fde9e5472b45649416a46c2ba43125329848e93d0"
    )
    said = Feedback(0, codec.pack([7]), 2, 2, bytes(32), bytes(32), bytes(32))
    frame = codec.seal(COORDINATOR, said, known_key(COORDINATOR).sign)
    inner = b"\x97\x00\xc4\x0c" + bytes(11) + b"\x07\x02\x02" + 3 * (b"\xc4\x20" + bytes(32))
    assert frame[:-64] == b"\x95\x02\xc4\x20" + session.id + b"\xff\x03\xc4\x78" + inner
    assert (
        combined([b"a" * 32, b"b" * 32])
        == hashlib.sha256(b"tacit reports v1\0" + b"a" * 32 + b"b" * 32).digest()
    )


def refused(frame, codec=CODEC):
    found = codec.open(frame)
    assert isinstance(found, Refused), f"accepted: {found}"
    return found.reason


def signed(head, sender=3):
    return head + SIGNS[sender](DOMAIN + head)


def headed(version=VERSION, session=None, sender=3, kind=2, body=None):
    body = msgspec.msgpack.encode(report()) if body is None else body
    session = SESSION.id if session is None else session
    return msgspec.msgpack.encode([version, session, sender, kind, body])


PLAIN = signed(headed())
HEAD_CASES = {
    "plain": (PLAIN, None),
    "too large": (PLAIN + bytes(10**4), Refusal.TOO_LARGE),
    "empty": (b"", Refusal.MALFORMED),
    "short": (PLAIN[-64:], Refusal.MALFORMED),
    "not an array": (b"\x85" + PLAIN[1:], Refusal.MALFORMED),
    "an element too few": (signed(b"\x94" + headed()[1:]), Refusal.MALFORMED),
    "version 1": (signed(headed(version=1)), Refusal.UNKNOWN_VERSION),
    "version 3 of another form": (signed(b"\x93\x03\x00\x00"), Refusal.UNKNOWN_VERSION),
    "version is text": (signed(headed(version="2")), Refusal.MALFORMED),
    "another session": (signed(headed(session=bytes(32))), Refusal.WRONG_SESSION),
    "session too short": (signed(headed(session=SESSION.id[:-1])), Refusal.WRONG_SESSION),
    "nobody": (signed(headed(sender=10)), Refusal.UNKNOWN_SENDER),
    "minus two": (signed(headed(sender=-2)), Refusal.MALFORMED),
    "no such kind": (signed(headed(kind=13)), Refusal.UNKNOWN_KIND),
    "kind 0": (signed(headed(kind=0)), Refusal.UNKNOWN_KIND),
    "another's signature": (signed(headed(), sender=4), Refusal.BAD_SIGNATURE),
    "no domain": (headed() + SIGNS[3](headed()), Refusal.BAD_SIGNATURE),
    "zero signature": (headed() + bytes(64), Refusal.BAD_SIGNATURE),
    "not a body": (signed(headed(body=b"\xc0")), Refusal.MALFORMED),
    "body of another kind": (signed(headed(kind=4)), Refusal.MALFORMED),
    "a field too many": (signed(headed(kind=4, body=b"\x92\x01\x01")), Refusal.MALFORMED),
    "a field too few": (signed(headed(kind=6, body=b"\x91\x01")), Refusal.MALFORMED),
    "negative round": (signed(headed(kind=4, body=b"\x91\xff")), Refusal.MALFORMED),
    "huge round": (signed(headed(kind=4, body=b"\x91\xcf" + b"\xff" * 8)), Refusal.MALFORMED),
    "no such reason": (signed(headed(kind=6, body=b"\x92\x01\x05")), Refusal.MALFORMED),
    "long whole number": (signed(headed(kind=4, body=b"\x91\xcc\x01")), Refusal.NOT_CANONICAL),
    "a float": (signed(headed(kind=4, body=b"\x91\xcb\x3f\xf0" + bytes(6))), None),
    "long array": (signed(headed(kind=4, body=b"\xdc\x00\x01\x01")), Refusal.NOT_CANONICAL),
    "long head": (signed(headed().replace(b"\xc4\x20" + SESSION.id, b"\xc5\x00\x20" + SESSION.id)), None),
}


@pytest.mark.parametrize("case", HEAD_CASES)
def test_heads(case):
    frame, reason = HEAD_CASES[case]
    if case == "plain":
        assert isinstance(CODEC.open(frame), Message)
    else:
        assert refused(frame) in ({reason} if reason else {Refusal.NOT_CANONICAL, Refusal.MALFORMED})


def test_one_signer_can_sign_one_message_in_two_ways_but_it_stays_one_message():
    frame = FRAMES[0]
    order = 2**252 + 27742317777372353535851937790883648493
    s = int.from_bytes(frame[-32:], "little") + order  # the same modulo the order: malleable
    assert refused(frame[:-32] + s.to_bytes(32, "little")) is Refusal.BAD_SIGNATURE
    assert digest(frame) == digest(frame[:-64] + bytes(64))


BODY_CASES = [
    (3, report(u=3), None),
    (3, report(u=4, exponent=0), Refusal.WRONG_ROUND),
    (3, Report(1, SESSION.exponent(3, 1), CODEC.pack([1]), HEARD), Refusal.WRONG_LENGTH),
    (3, Report(1, SESSION.exponent(3, 1), CODEC.pack([1, 2, 3]), HEARD), Refusal.WRONG_LENGTH),
    (3, Report(1, SESSION.exponent(3, 1), b"", HEARD), Refusal.WRONG_LENGTH),
    (3, Report(1, SESSION.exponent(3, 1), CODEC.pack([1, 2])[1:], HEARD), Refusal.WRONG_LENGTH),
    (3, report(exponent=SESSION.exponent(3, 0)), Refusal.OFF_LATTICE),
    (3, report(exponent=-2048), Refusal.OFF_LATTICE),
    (3, report(numbers=(bound(SESSION.exponent(3, 1)) + 1, 0)), Refusal.OUT_OF_RANGE),
    (3, report(numbers=(0, -bound(SESSION.exponent(3, 1)) - 1)), Refusal.OUT_OF_RANGE),
    (3, feedback(), Refusal.WRONG_ROLE),
    (COORDINATOR, report(), Refusal.WRONG_ROLE),
    (COORDINATOR, Present(0), Refusal.WRONG_ROLE),
    (COORDINATOR, Done(4, bytes(32)), Refusal.WRONG_ROLE),
    (COORDINATOR, feedback(4), Refusal.WRONG_ROUND),
    (COORDINATOR, feedback(2**31 - 1), Refusal.WRONG_ROUND),
    (COORDINATOR, feedback(numbers=(1,)), Refusal.WRONG_LENGTH),
    (COORDINATOR, feedback(numbers=(LIMIT + 1, 0)), Refusal.OUT_OF_RANGE),
    (COORDINATOR, feedback(numbers=(0, -LIMIT - 1)), Refusal.OUT_OF_RANGE),
    (COORDINATOR, feedback(numbers=(256**WIDTH // 2 - 1, 0)), Refusal.OUT_OF_RANGE),
    (COORDINATOR, feedback(count=9, members=8), Refusal.WRONG_COUNT),
    (COORDINATOR, feedback(count=5), Refusal.WRONG_COUNT),  # below the quorum, 6
    (COORDINATOR, feedback(count=11), Refusal.WRONG_COUNT),  # there are 10
    (COORDINATOR, feedback(count=6, members=11), Refusal.WRONG_COUNT),
    (COORDINATOR, feedback(0, count=6, members=7, before=NOTHING_HEARD), Refusal.WRONG_COUNT),  # by whom?
    (COORDINATOR, feedback(count=0, numbers=(0, 0)), Refusal.WRONG_COUNT),  # only slots can be lost
    (3, Place(3, 1, HEARD, b""), Refusal.WRONG_ROLE),
    (COORDINATOR, Place(4, 1, HEARD, b""), Refusal.WRONG_ROUND),
    (COORDINATOR, Place(2, 3, HEARD, b""), Refusal.WRONG_ROUND),
    (COORDINATOR, Place(3, -1, HEARD, b""), Refusal.NOT_CANONICAL),
    (COORDINATOR, Place(3, 1, NOTHING_HEARD, b""), Refusal.NOT_CANONICAL),
    (COORDINATOR, Place(3, 1, HEARD, bytes(31)), Refusal.WRONG_LENGTH),
    (COORDINATOR, Place(3, 1, HEARD, bytes(5 * 32)), Refusal.TOO_LARGE),
    (COORDINATOR, Receipt(0, HEARD), Refusal.WRONG_ROLE),  # only in sessions that stay open
    (3, Receipt(0, HEARD), Refusal.WRONG_ROLE),
    (3, Ask(4), Refusal.WRONG_ROUND),
    (3, Present(5), Refusal.WRONG_ROUND),
    (3, Done(3, bytes(32)), Refusal.WRONG_ROUND),
    (3, Stop(5, Reason.CAP), Refusal.WRONG_ROUND),
]


@pytest.mark.parametrize(("sender", "body", "reason"), BODY_CASES)
def test_contents(sender, body, reason):
    frame = CODEC.seal(sender, body, SIGNS[sender])
    if reason is None:
        assert isinstance(CODEC.open(frame), Message)
    else:
        assert CODEC.open(frame) == Refused(reason, None if reason is Refusal.TOO_LARGE else sender)


def test_a_graph_has_no_coordinator():
    session = known_session(graph="ring:4")
    frame = Codec(session).seal(COORDINATOR, Ask(0), SIGNS[COORDINATOR])
    assert refused(frame, Codec(session)) is Refusal.UNKNOWN_SENDER


def test_the_largest_frames_fit_and_the_bound_is_tight():
    for session in (known_session(100, 4), known_session(2, 4, components=30_000)):
        codec = Codec(session)
        sizes = []
        for numbers in ([session.lattice.limit] * session.components,):
            body = known_feedback(codec, 3, numbers)
            place = Place(3, 3, HEARD, bytes(longest_path(session.n)))
            for each in (body, place):
                frame = codec.seal(COORDINATOR, each, SIGNS[COORDINATOR])
                assert isinstance(codec.open(frame), Message)
                sizes.append(len(frame))
        assert max(sizes) <= codec.most_bytes <= max(sizes) + 40


@settings(max_examples=400, deadline=None)
@given(st.integers(0, len(FRAMES) - 1), st.data())
def test_no_mutation_of_a_frame_is_accepted(which, data):
    """Bytes changed, cut, doubled or inserted anywhere: refused, for a reason, without a crash."""
    frame = bytearray(FRAMES[which])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(frame) - 1))
        match data.draw(st.sampled_from(["flip", "set", "cut", "insert", "double"])):
            case "flip":
                frame[place] ^= 1 << data.draw(st.integers(0, 7))
            case "set":
                frame[place] = data.draw(st.integers(0, 255))
            case "cut" if len(frame) > 1:
                del frame[place : place + data.draw(st.integers(1, 8))]
            case "insert":
                frame[place:place] = data.draw(st.binary(min_size=1, max_size=8))
            case "double":
                frame[place:place] = frame[place : place + 16]
        frame = frame or bytearray(b"\0")
    found = CODEC.open(bytes(frame))
    assert isinstance(found, Refused) == (bytes(frame) not in FRAMES)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(FRAMES) - 1), st.data())
def test_a_member_who_signs_nonsense_is_refused_and_named(which, data):
    """The same, but signed anew: the parser behind the signature must hold too."""
    sender, body = VALID[which]
    inner = bytearray(msgspec.msgpack.encode(body))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(inner) - 1))
        inner[place : place + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
        inner = inner or bytearray(b"\xc0")
    head = headed(sender=sender, kind=int(KINDS[type(body)]), body=bytes(inner))
    frame = signed(head, sender)
    found = CODEC.open(frame)
    if isinstance(found, Message):
        assert CODEC.seal(sender, found.body, SIGNS[sender]) == frame
    else:
        assert found.sender == sender or found.reason is Refusal.TOO_LARGE


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400))
@example(b"\x95\x02" + b"\x91" * 300)
def test_any_bytes_are_refused(data):
    assert refused(data) in set(Refusal)
    assert refused(b"\x95\x02\xc4\x20" + SESSION.id + data) in set(Refusal)


@given(st.lists(st.integers(-(256**WIDTH) // 2, 256**WIDTH // 2 - 1), max_size=5))
def test_numbers_keep_their_sign_and_size(numbers):
    assert CODEC.unpack(CODEC.pack(numbers)) == tuple(numbers)
    assert len(CODEC.pack(numbers)) == WIDTH * len(numbers)


@given(st.sets(st.integers(0, 9)))
def test_bitmaps(agents):
    assert CODEC.members(CODEC.bitmap(agents)) == tuple(sorted(agents))
    assert len(CODEC.bitmap(agents)) == 2


def test_every_kind_has_a_body_and_a_number():
    with_keepers = {Key, Masked, Closing, Opening}
    assert {type(body) for _, body in VALID} == set(BODIES.values()) - with_keepers - {Receipt}
    assert len(BODIES) == len(KINDS) == 12


def test_records_are_read_back_and_show_nothing_private():
    moved = Moved(3, (b"frame",), (1,), b"y", b"private", b"")
    assert decode_record(encode_record(moved)) == moved
    assert repr(moved) == str(moved) == "<Moved 3>"
    assert repr(Spoke(1, b"frame", 0.5)) == "<Spoke 1>"
    assert repr(Evidence(0, 2, b"", b"", b"")) == "<Evidence 2>"
    for wrong in (b"", b"\x80", encode_record(moved)[:-1], encode_record(moved) + b"\0"):
        with pytest.raises(FileError, match="damaged or from a newer version"):
            decode_record(wrong)


def test_signatures_are_sixty_four_bytes():
    assert SIGNATURE_BYTES == len(known_key(0).sign(b""))


def test_the_length_of_a_frame_does_not_depend_on_its_numbers():
    """Length is seen by everyone on the wire. It follows from the round alone, which is public."""
    lengths = set()
    for x in (0, 1, -1, 127, 128, -(2**40), bound(SESSION.exponent(3, 2)), -bound(SESSION.exponent(3, 2))):
        lengths.add(len(CODEC.seal(3, report(3, 2, (x, -x)), SIGNS[3])))
    assert len(lengths) == 1
