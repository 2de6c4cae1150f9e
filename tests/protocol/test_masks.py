"""Masks: both sides compute the same one, nobody else does, and sums are sums."""

import hashlib

import hypothesis.strategies as st
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings

from tacit.base.errors import InputError
from tacit.core.protocol.masks import Party, agree, centred, is_usable, mask, packed, public_key, total

P = 2**255 - 19
SESSION = bytes(range(32))


def key(name):
    return hashlib.sha256(name.encode()).digest()


def party(name, identity=None, ephemeral=None):
    return Party(
        name, identity or key(f"id {name}"), public_key(key(name)) if ephemeral is None else ephemeral
    )


def secret(own="a", theirs="k", session=SESSION, **parties):
    parties = {"agent": party("a"), "keeper": party("k")} | parties
    return agree(key(own), public_key(key(theirs)), session=session, **parties)


def test_both_sides_agree():
    assert secret("a", "k") == secret("k", "a")


def test_everything_public_is_in_the_secret():
    changed = [
        secret(session=bytes(32)),
        secret(agent=party("b", key("id a"), public_key(key("a")))),
        secret(keeper=party("l", key("id k"), public_key(key("k")))),
        secret(agent=party("a", key("other"))),
        secret(keeper=party("k", key("other"))),
        secret(agent=party("a", ephemeral=public_key(key("other")))),
        secret(keeper=party("k", ephemeral=public_key(key("other")))),
        secret(agent=party("k", key("id k"), public_key(key("k"))), keeper=party("a")),
    ]
    assert len({secret(), *changed}) == len(changed) + 1


def test_a_copied_public_key_gets_another_mask():
    """With the same mask for two agents of the sum, the victim's would count twice."""
    copied = secret(agent=party("b", ephemeral=public_key(key("a"))))
    assert copied != secret()


@pytest.mark.parametrize("number", [0, 1, P - 1, P, P + 1, 2**255 - 1, 2**255 + 9, 2**256 - 1])
def test_odd_public_keys_are_refused(number):
    odd = number.to_bytes(32, "little")
    assert not is_usable(odd)
    with pytest.raises(InputError, match="one encoding"):
        agree(key("a"), odd, session=SESSION, agent=party("a"), keeper=party("k", ephemeral=odd))


def test_other_lengths_are_no_keys():
    assert not is_usable(bytes(31))
    assert not is_usable(b"\1" * 33)
    assert is_usable(public_key(key("a")))


def test_masks_differ_by_key_update_and_what_was_heard():
    heard = key("heard")
    found = [
        mask(key("1"), 0, heard, 16),
        mask(key("2"), 0, heard, 16),
        mask(key("1"), 1, heard, 16),
        mask(key("1"), 256, heard, 16),
        mask(key("1"), 0, key("other"), 16),
    ]
    assert len(set(found)) == len(found)
    assert mask(key("1"), 0, heard, 64)[:16] == found[0]  # component by component


def slow_total(parts, minus, width):
    """The same with Python's whole numbers, one component at a time."""

    def read(data, k):
        return int.from_bytes(data[k : k + width], "big")

    return b"".join(
        ((sum(read(p, k) for p in parts) - sum(read(p, k) for p in minus)) % (1 << 8 * width)).to_bytes(width)
        for k in range(0, len(parts[0]), width)
    )


@given(st.data(), st.integers(1, 20), st.integers(1, 9), st.integers(1, 5), st.integers(0, 3))
@hypothesis_settings(deadline=None, max_examples=60)
def test_sums_are_sums(data, width, components, count, less):
    vectors = st.binary(min_size=width * components, max_size=width * components)
    parts = data.draw(st.lists(vectors, min_size=count, max_size=count))
    minus = data.draw(st.lists(vectors, min_size=less, max_size=less))
    assert total(parts, width, minus=minus) == slow_total(parts, minus, width)


@pytest.mark.parametrize("components", [1, 9])
def test_carries_and_borrows_run_through_all_bytes(components):
    ones, one = b"\xff" * 12 * components, packed([1] * components, 12)
    assert total([ones, one], 12) == bytes(12 * components)
    assert total([bytes(12 * components)], 12, minus=[one]) == ones
    assert total([ones] * 300, 12) == packed([-300] * components, 12)


@given(st.lists(st.integers(-(2**95), 2**95 - 1), min_size=1, max_size=6))
def test_numbers_read_back_nearest_to_zero(numbers):
    assert centred(packed(numbers, 12), 12) == tuple(numbers)
