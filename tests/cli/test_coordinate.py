"""What `tacit coordinate` says of a session that is over."""

from tests.doubles import known_session

from tacit.live.runtime.coordinator import CoordinatorResult


def result(feedback, components=1):
    session = known_session(3, components=components)  # values are from 0 to 1
    used = (("agent-0", "agent-1"),) * 4
    rows = CoordinatorResult(True, 4, feedback, used, {}, session).summary().sections["Session"]
    return next((row for row in rows if row.name == "result"), None)


def test_a_result_is_clamped_to_the_range():
    outside, inside = result(-24.6), result(0.25)
    assert (outside.value, inside.value) == ("0", "0.25")
    assert outside.meaning == f"{inside.meaning}; clamped to the range"


def test_vectors_are_clamped_component_by_component():
    assert result([-0.5, 0.5, 1.5], 3).value == "0, 0.5, 1"
    assert result([0.1, 0.2, 0.3, 0.4, 0.5], 5).value == "0.1, 0.2, 0.3, 0.4, …"


def test_without_a_round_there_is_no_result():
    assert result(None) is None
