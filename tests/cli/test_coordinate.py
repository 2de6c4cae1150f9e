"""What `tacit coordinate` says of a session that is over."""

from tacit.cli.coordinate import _report
from tacit.runtime.coordinator import CoordinatorResult
from tacit.testing import known_session


def told(capsys, feedback, components=1):
    session = known_session(3, components=components)  # values are from 0 to 1
    _report(CoordinatorResult(True, 4, feedback, (("agent-0", "agent-1"),) * 4, {}), session)
    return " ".join(capsys.readouterr().out.split())


def test_a_result_is_clamped_to_the_range(capsys):
    assert "result 0 the last feedback, which everyone received; public; clamped to the range" in told(
        capsys, -24.6
    )
    inside = told(capsys, 0.25)
    assert "result 0.25 the last feedback" in inside
    assert "clamped" not in inside


def test_vectors_are_clamped_component_by_component(capsys):
    assert "result 0, 0.5, 1 the last" in told(capsys, [-0.5, 0.5, 1.5], 3)
    assert "0.1, 0.2, 0.3, 0.4, …" in told(capsys, [0.1, 0.2, 0.3, 0.4, 0.5], 5)


def test_without_a_round_there_is_no_result(capsys):
    assert "result" not in told(capsys, None)
