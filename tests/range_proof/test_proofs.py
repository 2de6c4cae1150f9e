"""Good rows pass, bad ones do not, and an answer tells nothing: over a small field by counting all cases."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.base.errors import ParameterError
from tacit.core.range_proof.field import FIELD64, Field
from tacit.core.range_proof.proof import (
    Query,
    Rows,
    answers,
    as_bits,
    bit_weights,
    elements,
    passed,
    prove,
    read_elements,
    total,
    write_elements,
)

P = FIELD64.modulus
FIVE = Field(5, 2, 4, 1)
SEVENTEEN = Field(17, 3, 16, 1)

small_rows = st.sampled_from([
    Rows(1), Rows(3), Rows(7), Rows(8), Rows(20), Rows(4, (((1, 1, 1, 1), 1),)),
    Rows(2, (((1, 0), 1), ((3, P - 1), 2))),
])  # fmt: skip
coins = st.binary(min_size=32, max_size=32)


def spread(values, many, seed=b"masks"):
    """Share values among so many holders, all but one by masks."""
    masks = elements(FIELD64, seed)
    shares = [[next(masks) for _ in values] for _ in range(many - 1)]
    return [[(x - sum(column)) % P for x, *column in zip(values, *shares, strict=True)], *shares]


def good_rows(rows):
    for row in itertools.product((0, 1), repeat=rows.bits):
        fits = all(sum(a * b for a, b in zip(e, row, strict=True)) % P == c for e, c in rows.equations)
        if fits:
            yield list(row)


@given(rows=small_rows, data=st.data(), coin=coins, seed=st.integers(0, P - 1))
def test_a_good_row_passes_from_any_shares(rows, data, coin, seed):
    some = [row for row, _ in zip(good_rows(rows), range(300), strict=False)]
    row = data.draw(st.sampled_from(some))
    query = Query.of(rows, coin)
    shares = spread([*row, *prove(rows, row, seed)], 3)
    said = [query.answer(share) for share in shares]
    assert passed(query, total(FIELD64, said))
    assert answers(query, np.array(shares, dtype=np.uint64)).tolist() == [list(one) for one in said]


@given(rows=small_rows, data=st.data(), coin=coins)
def test_a_row_or_a_proof_that_is_changed_fails(rows, data, coin):
    row = next(good_rows(rows))
    whole = [*row, *prove(rows, row, data.draw(st.integers(0, P - 1)))]
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] = (whole[place] + data.draw(st.integers(1, P - 1))) % P
    query = Query.of(rows, coin)
    assert not passed(query, query.answer(whole))


@pytest.mark.parametrize("rows", [Rows(1), Rows(20), Rows(400), Rows(1000)])
def test_fast_answers_are_exact_at_the_ends(rows):
    query = Query.of(rows, b"ends")
    ends = np.array([0, 1, P - 1, P - 2, 2**63, 2**44 - 1, 2**22, 2**32 - 1, 2**32], dtype=np.uint64)
    shares = np.stack([np.resize(np.roll(ends, k), rows.length) for k in range(9)])
    shares[1], shares[2] = P - 1, 0
    assert answers(query, shares).tolist() == [list(query.answer(row)) for row in shares.tolist()]


def test_fast_answers_refuse_what_is_not_reduced():
    rows = Rows(1)
    query = Query.of(rows, b"x")
    with pytest.raises(ParameterError, match="below the field's modulus"):
        answers(query, np.full((1, rows.length), P, dtype=np.uint64))
    with pytest.raises(ParameterError, match="rows of 5 numbers"):
        answers(query, np.zeros((1, rows.length), dtype=np.int64))
    with pytest.raises(ParameterError, match="below the modulus"):
        read_elements(FIELD64, P.to_bytes(8, "little"))
    with pytest.raises(ParameterError, match="8 bytes each"):
        read_elements(FIELD64, b"1234567")
    assert read_elements(FIELD64, write_elements(FIELD64, [0, 1, P - 1])) == [0, 1, P - 1]


def test_a_root_of_unity_is_no_point():
    rows = Rows(5)
    for k in range(rows.order):
        with pytest.raises(ParameterError, match="root of unity"):
            Query(rows, pow(FIELD64.root(rows.order), k, P), (0,) * 5)
    other = FIELD64.root(2 * rows.order)  # a point where only G has a value: allowed, and right
    query, row = Query(rows, other, (1, 2, 3, 4, 5)), [1, 0, 1, 1, 0]
    assert passed(query, query.answer([*row, *prove(rows, row, 77)]))


# All cases over a small field.


def points(field, rows):
    return [t for t in range(field.modulus) if pow(t, rows.order, field.modulus) != 1]


def views(rows, query_columns, bit, seeds, two=None):
    """Count what a coordinator and all keepers but one see: the rest of the sum, and the honest answer.

    For every mask of the honest keeper, and every seed of the agent.
    """
    p = rows.field.modulus
    masks = np.array(list(itertools.product(range(p), repeat=rows.length)))
    seen = Counter()
    for seed in seeds:
        rest = (np.array([bit, *prove(rows, [bit], seed)]) - masks) % p
        said = [masks @ np.array(columns).T % p for columns in (query_columns, two) if columns is not None]
        codes = np.concatenate([rest, *said], axis=1) @ p ** np.arange(rows.length + 3 * len(said))
        seen.update(dict(zip(*np.unique(codes, return_counts=True), strict=True)))
    return seen


ONE_BIT = Rows(1, field=FIVE)


def test_an_answer_tells_nothing_of_the_bit():
    """Against all others together, who also choose the query."""
    for t, multiplier in itertools.product(points(FIVE, ONE_BIT), range(5)):
        columns = Query(ONE_BIT, t, (multiplier,)).columns
        assert views(ONE_BIT, columns, 0, range(5)) == views(ONE_BIT, columns, 1, range(5)), (t, multiplier)


def columns_at(t, multiplier):
    """The columns of a query that is refused."""
    query = Query.__new__(Query)
    for name, value in (("rows", ONE_BIT), ("point", t), ("multipliers", (multiplier,))):
        object.__setattr__(query, name, value)
    return query.columns


def test_a_root_of_unity_would_tell_the_bit():
    columns = columns_at(4, 1)  # a = −1, where W has the bit
    assert views(ONE_BIT, columns, 0, range(5)) != views(ONE_BIT, columns, 1, range(5))


def test_two_answers_would_tell_the_bit():
    first, second = (Query(ONE_BIT, t, (1,)).columns for t in (2, 3))
    ways = [views(ONE_BIT, first, bit, range(5), two=second) for bit in (0, 1)]
    assert ways[0] != ways[1]


def test_a_seed_that_is_not_drawn_would_tell_the_bit():
    columns = Query(ONE_BIT, 2, (1,)).columns
    assert views(ONE_BIT, columns, 0, [3]) != views(ONE_BIT, columns, 1, [3])


@pytest.mark.parametrize("entry", [2, 16])
def test_no_proof_of_a_bad_entry_passes_more_often_than_is_said(entry):
    rows = Rows(1, field=SEVENTEEN)
    proofs = np.array(list(itertools.product(range(17), repeat=rows.proof_length)))
    shares = np.concatenate([np.full((len(proofs), 1), entry), proofs], axis=1)
    times, asked = np.zeros(len(proofs), dtype=int), 0
    for t, multiplier in itertools.product(points(SEVENTEEN, rows), range(17)):
        zero, wire, gadget = (shares @ np.array(Query(rows, t, (multiplier,)).columns).T % 17).T
        times += (zero == 0) & ((wire * (wire - 1) - gadget) % 17 == 0)
        asked += 1
    assert 0 < times.max() <= rows.soundness * asked


def test_soundness_is_what_the_pages_say():
    for bits, power in ((20, 58), (40, 57), (1000, 53)):
        assert Rows(bits).soundness <= 2.0**-power
    assert [Rows(bits).proof_length for bits in (20, 40, 400)] == [64, 128, 1024]
    assert 8 * Rows(20).length < 2000


# Numbers as bits.


@pytest.mark.parametrize("most", [1, 2, 3, 5, 6, 7, 8, 100, 255, 256])
def test_every_row_of_bits_is_a_number_in_the_range_and_every_number_has_one(most):
    weights = bit_weights(most)
    rows = itertools.product((0, 1), repeat=len(weights))
    found = {sum(a * b for a, b in zip(weights, row, strict=True)) for row in rows}
    assert found == set(range(most + 1))
    for value in range(most + 1):
        assert sum(a * b for a, b in zip(weights, as_bits(value, most), strict=True)) == value


def test_numbers_outside_have_no_row():
    for value in (-1, 101):
        with pytest.raises(ParameterError, match="from 0 to 100"):
            as_bits(value, 100)
    with pytest.raises(ParameterError, match="at least 1"):
        bit_weights(0)


# Polynomials, against Lagrange's formula.


@given(values=st.lists(st.integers(0, 16), min_size=4, max_size=4), t=st.integers(0, 16))
def test_values_and_coefficients(values, t):
    coefficients = SEVENTEEN.coefficients(values)
    assert SEVENTEEN.values(coefficients, 4) == values
    exact = sum(c * pow(t, k, 17) for k, c in enumerate(coefficients)) % 17
    assert sum(w * v for w, v in zip(SEVENTEEN.weights(t, 4), values, strict=True)) % 17 == exact
    values = SEVENTEEN.values(coefficients[:3], 4)  # of degree 2: three values are enough
    exact = sum(c * pow(t, k, 17) for k, c in enumerate(coefficients[:3])) % 17
    assert sum(w * v for w, v in zip(SEVENTEEN.weights(t, 4, 3), values[:3], strict=True)) % 17 == exact


def test_elements_are_uniform_and_the_same_again():
    drawn = list(itertools.islice(elements(SEVENTEEN, b"seed"), 17_000))
    assert drawn == list(itertools.islice(elements(SEVENTEEN, b"seed"), 17_000))
    counts = Counter(drawn)
    distance = sum((counts[k] - 1000) ** 2 / 1000 for k in range(17))
    assert distance < 60  # chi-square with 16 degrees of freedom; the seed is fixed
    assert set(counts) == set(range(17))


def test_a_root_that_is_not_there_is_refused():
    with pytest.raises(ParameterError, match="at most 16"):
        SEVENTEEN.root(32)


def test_rows_are_refused_that_make_no_sense():
    with pytest.raises(ParameterError, match="at least 1 entry"):
        Rows(0)
    with pytest.raises(ParameterError, match="3 multipliers"):
        Rows(3, (((1, 1), 1),))
