"""All members accept the same signatures. The vectors are made here."""

import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from tacit.core.protocol.signatures import is_signed, signer

ORDER = 2**252 + 27742317777372353535851937790883648493
PRIME = 2**255 - 19
SEED = bytes(range(32))
KEY = Ed25519PrivateKey.from_private_bytes(SEED)
PUBLIC = KEY.public_key().public_bytes_raw()
SAID = b"what was said"


def number(data):
    return int.from_bytes(data, "little")


def written(value):
    return value.to_bytes(32, "little")


def secret_scalar():
    half = bytearray(hashlib.sha512(SEED).digest()[:32])
    half[0] &= 248
    half[31] = half[31] & 127 | 64
    return number(half)


def challenge(r, public, data):
    return number(hashlib.sha512(r + public + data).digest()) % ORDER


IDENTITY = written(1)  # the point (0, 1), of order 1
ORDER_TWO = written(PRIME - 1)  # the point (0, -1)
SMALL = {
    "order 1": IDENTITY,
    "order 2": ORDER_TWO,
    "order 4": written(0),
    "order 8": bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
    "order 1, y + p": written(PRIME + 1),
    "order 4, y + p": written(PRIME),
    "order 1, other sign": written(1 | 1 << 255),
}


@given(st.binary(max_size=300))
def test_signatures_are_those_of_the_standard_and_are_accepted(data):
    made = signer(KEY)(data)
    assert made == KEY.sign(data)  # deterministic: any library makes the same bytes
    assert is_signed(PUBLIC, data, made)


@given(st.binary(min_size=1, max_size=100), st.integers(0, 799))
def test_any_other_bit_is_refused(data, bit):
    made = bytearray(signer(KEY)(data) + data)
    made[bit // 8 % len(made)] ^= 1 << bit % 8
    assert not is_signed(PUBLIC, bytes(made[64:]), bytes(made[:64]))


def test_no_second_signature_is_made_from_a_first():
    """S + L fits the equation too, and must be refused: a frame would have two forms."""
    made = signer(KEY)(SAID)
    other = made[:32] + written(number(made[32:]) + ORDER)
    assert not is_signed(PUBLIC, SAID, other)


def test_r_of_small_order_is_refused_even_from_the_owner():
    """With R the neutral point and S = h·a the equation holds; some libraries accept it, some do not."""
    s = challenge(IDENTITY, PUBLIC, SAID) * secret_scalar() % ORDER
    odd = IDENTITY + written(s)
    KEY.public_key().verify(odd, SAID)  # this library does
    assert not is_signed(PUBLIC, SAID, odd)


@pytest.mark.parametrize("public", SMALL.values(), ids=SMALL)
@pytest.mark.parametrize("r", SMALL.values(), ids=SMALL)
def test_keys_of_small_order_sign_nothing(public, r):
    """Under such a key R = any small point and S = 0 would fit one message in eight, or all."""
    for k in range(16):
        assert not is_signed(public, b"%d" % k, r + bytes(32))


def test_a_key_in_a_second_form_is_refused():
    """y + p encodes the same point as y, for the few y below 19; a signature must not count under both."""
    for y in range(19):
        for sign in (0, 1 << 255):
            assert not is_signed(written(PRIME + y | sign), SAID, IDENTITY + bytes(32))


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_keys_and_signatures_of_other_lengths_are_refused(length):
    made = signer(KEY)(SAID)
    assert not is_signed(bytes(length), SAID, made)
    assert not is_signed(PUBLIC, SAID, made[:length] if length < 64 else made + b"\0")
