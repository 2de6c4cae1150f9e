"""The mean: numbers in a range."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from tests.doubles import known_session

from tacit import Plan
from tacit.base.errors import ParameterError, StateError
from tacit.core.protocol.codec import Codec
from tacit.core.protocol.private_state import Budget, MixingState
from tacit.core.question import Mean


class Plain:
    """Noise whose radius is known, and a cover that draws."""

    variance = 1.0
    draws = True

    def radius(self, failure_probability, weights=(1.0,)):
        return 2.0 * sum(map(abs, weights)) if failure_probability == 0.05 else np.nan


@pytest.mark.parametrize(
    "record", [3, 3.0, np.float64(3), np.int64(3), Decimal(3), [3], np.array([3.0]), Fraction(3)]
)
def test_a_number_of_any_kind_is_read_exactly(record):
    assert Mean(0, 10).encode(record) == ((3,), False)


def test_exact_numbers_are_not_rounded_to_floats():
    tenth = Decimal("0.1000000000000000000000000000001")
    assert Fraction(Mean(0, 10).encode(tenth).vector[0]) == Fraction(tenth)
    assert Mean(0, 10).encode(Fraction(1, 3)).vector == (Fraction(1, 3),)


def test_a_record_outside_the_range_is_clamped_and_said_so():
    assert Mean(-1, 10, 3).encode([-2, 11.5, 4]) == ((-1, 10, 4), True)
    assert not Mean(-1, 10, 2).encode([-1, 10]).changed
    assert Mean(-1, 10, 2).encode(pd.Series([0.5, 20])) == ((0.5, 10), True)


@pytest.mark.parametrize(
    "record", ["4213", None, [4213, 1], [], [[4213]], np.nan, np.inf, Decimal("NaN"), {"a": 4213}, b"4213"]
)
def test_a_record_of_the_wrong_shape_is_refused_without_showing_it(record):
    with pytest.raises(StateError) as refused:
        Mean(0, 10).encode(record)
    assert "4213" not in str(refused.value)


def test_the_diameter_is_the_largest_distance_of_two_records():
    question = Mean(-0.5, 1.25, 2)
    corners = [question.encode([a, b]).vector for a in (-9, 0.3, 9) for b in (-9, 0.3, 9)]
    found = max(
        sum(abs(Fraction(a) - Fraction(b)) for a, b in zip(x, y, strict=True))
        for x in corners
        for y in corners
    )
    assert found == question.diameter == Fraction(7, 2)
    assert question.adjacency == 3.5
    assert Fraction(Mean(0.1, 0.3).adjacency) >= Mean(0.1, 0.3).diameter  # rounded up


def test_the_stand_in_is_the_middle_and_is_a_vector_of_the_question():
    question = Mean(0, 5, 2)
    assert question.stand_in == (Fraction(5, 2),) * 2
    assert question.encode(question.stand_in) == (question.stand_in, False)


def test_an_answer_stays_in_the_range_and_so_does_its_interval():
    answer = Mean(0, 10, 2).decode([4, 11], 7, Plain())
    assert answer.records == 7
    assert answer.parts == (("mean 0", 4, 2, 6), ("mean 1", 10, 9, 10))
    assert Mean(0, 10).decode([-3.0], 7).parts == (("mean", 0, None, None),)


def test_a_range_must_be_one():
    for low, high in [(1, 1), (2, 1), (0, np.inf), (np.nan, 1)]:
        with pytest.raises(ParameterError):
            Mean(low, high)


def test_a_plan_and_a_session_take_the_diameter_of_their_question():
    assert Plan(low=0, high=10, components=3).scope.adjacency == Mean(0, 10, 3).adjacency
    session = known_session(2, low=-1.0, high=2.0)
    assert session.question == Mean(-1.0, 2.0)
    assert session.diameter == 3.0
    assert session.clamp(7.0) == 2.0


@pytest.mark.parametrize("value", [0.1, -5, 17.25, Fraction(1, 3), np.float64(2) ** -70, Decimal("1.7")])
def test_an_agent_starts_at_its_encoded_value_on_the_lattice(value):
    session = known_session(2, low=-1.0, high=2.0)
    state = MixingState(Codec(session), 0, Budget(10.0), Plain(), value)
    assert state._state == session.lattice.start(value)
    assert state.clamped == (not -1 <= value <= 2)


def test_an_encoded_record_shows_nothing():
    """Not in a repr, and not in the text of what holds it."""
    encoded = Mean(0, 10).encode(7.125)
    assert "7.125" not in f"{encoded!r} {encoded} {[encoded]}"
