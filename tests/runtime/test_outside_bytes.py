"""Bytes from outside: whatever they are, a decoder reads them or raises its one declared error."""

import base64
import hashlib
import math
from datetime import UTC, datetime

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.doubles import known_key, known_series, known_session

from tacit.base.errors import InputError
from tacit.core.protocol.codec import DOMAIN, Codec
from tacit.core.protocol.messages import KINDS, VERSION, Message
from tacit.core.protocol.notices import Refused
from tacit.core.protocol.session import Session
from tacit.live.fleet import messages
from tacit.live.fleet.invitation import MARK, Invitation, new_invitation
from tacit.live.identity.certificates import Authority, CertificateSubject, Request, read_certificates
from tacit.live.identity.keys import tls_key
from tacit.live.identity.revocation import Revocations, Revoked, revoked_list

SIGNING = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
SUBJECT = CertificateSubject("alice", SIGNING.public_key().public_bytes_raw(), ())
AUTHORITY = Authority.make("authority")
REQUEST = Request.make(SUBJECT, tls_key(), SIGNING)
CERTIFICATE = AUTHORITY.sign(Request.parse(REQUEST, "it"))
LIST = revoked_list(AUTHORITY, [Revoked(5, datetime(2030, 1, 1, tzinfo=UTC), "alice", SUBJECT.public_key)], 3)
SESSION, SERIES = known_session(4, 3), known_series(3, 8)
CODEC = Codec(SESSION)
INVITATION = new_invitation("wss://hub.example.org:7447", "ab" * 32, "meter-*", 2_000_000_000)

SAID = [
    messages.Greeting("agent"),
    messages.SessionOffer(SESSION.encode(), bytes(64)),
    messages.OfferReply(bytes(32), False, "cap"),
    messages.ChannelOpen(bytes(32)),
    messages.RenewalRequest(REQUEST),
    messages.RenewalAnswer(b"", "no"),
    messages.RevocationNews(LIST.pem()),
    messages.EnrolmentRequest("0" * 12, bytes(16), REQUEST),
    messages.EnrolmentAnswer(b"", "no"),
]

# Bytes that have broken a reader of MessagePack or ASN.1: text that is not UTF-8, deep nesting, long lengths.
NASTY = (
    b"\xa1\xff",
    b"\x91" * 3000,
    b"\xc4\xff",
    b"\xdd\xff\xff\xff\xff",
    b"\xcf" + b"\xff" * 8,
    b"\xcb\x7f\xf0",
)
LONG = "\x1b[2J" * 2000
WHOLE = st.integers(-(2**63), 2**64 - 1)
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        WHOLE,
        st.floats(),
        st.binary(max_size=40),
        st.text(max_size=40),
        st.just(LONG),
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def damaged(draw, whole):
    """Bytes like these, with some replaced, removed, doubled or put in."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.sampled_from([0, 1, 1, 2, 8])))
        data[start:end] = draw(st.binary(max_size=4) | st.sampled_from(NASTY))
    return bytes(data)


@st.composite
def replaced(draw, tree):
    """The MessagePack of a tree in which any value has become another, or is gone."""
    place = tree
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = draw(st.sampled_from(keys))
        below = place[key]
        if not (isinstance(below, dict | list) and below and draw(st.booleans())):
            break
        place = below
    if draw(st.integers(0, 5)):
        place[key] = draw(VALUES)
    else:
        del place[key]
    return msgspec.msgpack.encode(tree)


def tree_of(data):
    return st.builds(lambda: msgspec.msgpack.decode(data)).flatmap(replaced)


def pem(der, head):
    return b"-----BEGIN %s-----\n%s-----END %s-----\n" % (head, base64.encodebytes(der), head)


def raises_only(error, read, data):
    try:
        return read(data)
    except error as caught:
        why = str(caught)
    assert len(why) < 2000
    assert why.isprintable()
    return None


@pytest.mark.parametrize("said", SAID, ids=lambda said: type(said).__name__)
@settings(max_examples=30)
@given(data=st.data())
def test_control_messages(said, data):
    whole = messages.encode_control(said)
    raw = data.draw(
        damaged(whole) | tree_of(whole[1:]).map(messages.CONTROL.__add__) | st.binary(max_size=60)
    )
    found = raises_only(InputError, messages.decode_control, raw)
    if isinstance(found, messages.SessionOffer):
        raises_only(InputError, lambda offer: messages.offered_session(offer, bytes(32)), found)


def places(tree, before=()):
    """All places in a tree of lists and maps."""
    for i, below in tree.items() if isinstance(tree, dict) else enumerate(tree):
        yield (*before, i)
        if isinstance(below, list | dict):
            yield from places(below, (*before, i))


def opened(session):
    """A session with its roster, as a tree."""
    canonical, rows = msgspec.msgpack.decode(session.encode())
    return [msgspec.msgpack.decode(canonical), rows]


def closed(tree):
    canonical, rows = tree
    return msgspec.msgpack.encode([msgspec.msgpack.encode(canonical), rows])


@pytest.mark.parametrize("session", [SESSION, SERIES], ids=["rounds", "series"])
@pytest.mark.parametrize("other", [LONG, 1e301, 2**63, math.nan, -1, 0, []], ids="abcdefg")
def test_every_entry_of_a_session_is_checked(session, other):
    for place in places(opened(session)):
        whole = part = opened(session)
        for i in place[:-1]:
            part = part[i]
        part[place[-1]] = other
        raises_only(InputError, Session.decode, closed(whole))


def test_the_seven_bytes_that_left_a_traceback():
    for raw in (b"\x00\x81\xa2is\xa1\xff", b"\x00\x81\xa1\xff", b"\x00" + b"\x91" * 5000):
        with pytest.raises(InputError):
            messages.decode_control(raw)


@pytest.mark.parametrize("session", [SESSION, SERIES], ids=["rounds", "series"])
@settings(max_examples=80)
@given(data=st.data())
def test_sessions(session, data):
    inner = (tree_of(session.canonical) | damaged(session.canonical)).map(
        lambda canonical: msgspec.msgpack.encode([canonical, opened(session)[1]])
    )
    raw = data.draw(inner | tree_of(session.encode()) | damaged(session.encode()))
    found = raises_only(InputError, Session.decode, raw)
    if found is not None:
        assert found.encode() == raw
        assert found.expiry


@settings(max_examples=200)
@given(st.data())
def test_frames(data):
    kind = data.draw(st.sampled_from(sorted(KINDS.values())) | st.integers(0, 255))
    body = data.draw(VALUES.map(msgspec.msgpack.encode) | st.binary(max_size=50) | st.sampled_from(NASTY))
    head = msgspec.msgpack.encode([VERSION, SESSION.id, 0, int(kind), body])
    head = data.draw(st.just(head) | damaged(head))
    assert isinstance(CODEC.read(head + known_key(0).sign(DOMAIN + head)), Message | Refused)


def certificates(raw):
    return read_certificates(raw, "the certificate")


DER = {
    "request": (lambda raw: Request.parse(raw, "the request"), REQUEST, b"CERTIFICATE REQUEST"),
    "certificate": (certificates, CERTIFICATE.pem(), b"CERTIFICATE"),
    "authority": (certificates, AUTHORITY.certificate.pem(), b"CERTIFICATE"),
    "list": (lambda raw: Revocations.parse(raw, AUTHORITY.certificate, "the list"), LIST.pem(), b"X509 CRL"),
}


@pytest.mark.parametrize("what", DER)
@settings(max_examples=60)
@given(data=st.data())
def test_certificates_and_requests(what, data):
    read, whole, head = DER[what]
    block, _, rest = whole.partition(b"-----END %s-----\n" % head)
    der = base64.b64decode(b"".join(block.split(b"\n")[1:]))
    raw = data.draw(damaged(der).map(lambda der: pem(der, head) + rest) | damaged(whole))
    found = raises_only(InputError, read, raw)
    for certificate in found if isinstance(found, list) else ():
        assert certificate.name
        assert certificate.expires
        assert certificate.key_fingerprint


@settings(max_examples=200)
@given(tree_of(msgspec.msgpack.encode(INVITATION)) | damaged(msgspec.msgpack.encode(INVITATION)))
def test_invitations(data):
    text = MARK + base64.urlsafe_b64encode(hashlib.sha256(data).digest()[:4] + data).rstrip(b"=").decode()
    found = raises_only(InputError, Invitation.parse, text)
    if found is not None:
        assert found.expiry.endswith("UTC")
        assert found.pattern.isprintable()
        assert found.number.isprintable()
        assert repr(found)
