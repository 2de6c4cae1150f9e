"""The picture shows what the report says."""

import io

import pytest

pytest.importorskip("matplotlib")

from tacit import ClientServer, Fading
from tacit.lab.audit import AuditFinding, Simulated, broken, examine
from tacit.lab.plots.audit import closeness, draw_audit
from tacit.lab.plots.style import RED, save

SERVER = ClientServer(Fading(0.8, 10, 0.6), agents=3)


@pytest.fixture(scope="module")
def reports():
    return [examine(s, transcripts=600) for s in (Simulated(SERVER), broken("redraw", SERVER))]


def test_alarms_are_drawn_as_alarms(reports):
    for report in reports:
        figure = draw_audit(report)
        left, right = figure.axes
        names = [label.get_text() for label in right.get_yticklabels()]
        tested = [f for f in report.findings if f.verdict != "skipped"]
        drawn = [f for f in tested if f.test in names]
        assert names == [f"{len(tested) - len(drawn)} more tests", *(f.test for f in reversed(drawn))]
        assert {f.test for f in report.alarms} <= set(names)
        assert all(closeness(f) < 0.05 for f in tested if f not in drawn)
        red = [line for line in right.lines if line.get_color() == RED and line.get_marker() == "^"]
        assert len(red) == len(report.alarms)
        steps = left.lines[0]
        assert steps.get_ydata() == pytest.approx(report.curve.promised)
        assert f"{len(report.alarms)} alarms" in figure.get_suptitle() or report.passed


def test_the_same_report_is_the_same_picture(reports):
    pictures = []
    for _ in range(2):
        buffer = io.BytesIO()
        save(draw_audit(reports[0]), buffer, suffix=".svg")
        pictures.append(buffer.getvalue())
    assert pictures[0] == pictures[1]


def test_closeness_is_one_at_the_alarm():
    assert closeness(AuditFinding("a", "pass", "", loss=1.5, promised=3.0)) == 0.5
    assert closeness(AuditFinding("a", "alarm", "", p_value=1e-8, limit=1e-8)) == pytest.approx(1)
    assert closeness(AuditFinding("a", "pass", "", p_value=1e-4, limit=1e-8)) == pytest.approx(0.5)
    assert closeness(AuditFinding("a", "alarm", "", p_value=0.0, limit=1e-8)) > 2
    assert closeness(AuditFinding("a", "skipped", "")) is None
    assert closeness(AuditFinding("a", "alarm", "")) > 1
    assert closeness(AuditFinding("a", "pass", "")) == 0
