"""A mean of a series never looks like that of all agents when some were missing."""

import math

import pytest
from tests.doubles import Harness, ScriptedNoise, known_series

from tacit.base.report import up
from tacit.cli.join import mean_line
from tacit.core.protocol.messages import COORDINATOR
from tacit.core.protocol.notices import MeanPublished
from tacit.core.theory.advice import NOT_COVERED, absences
from tacit.live.runtime.agent_result import SeriesResult
from tacit.live.runtime.coordinator import CoordinatorResult
from tacit.live.runtime.transcript import TranscriptWriter
from tacit.live.sessions.series import explain_series
from tacit.live.status.report import StatusReport
from tacit.live.status.status import Status
from tacit.live.verification.verdict import verify
from tacit.studio.deployment import card_of

SLOTS, LATE = 6, 2


def ran(hides, late=LATE):
    """Run a series of three agents; the last one starts when `late` slots are over."""
    session = known_series(3, SLOTS, hides=hides, quorum=1)
    harness = Harness(session, [lambda _, i=i: 3.0 * i for i in range(3)], ScriptedNoise([[5, 6, 7]] * SLOTS))
    if late:
        harness.start(COORDINATOR, 0, 1, *session.keeper_numbers)
        assert harness.run(lambda h: h.machines[COORDINATOR].round == late)
        harness.start(2)
    else:
        harness.start()
    assert harness.run(Harness.finished)
    return session, harness


def means(harness, number):
    return [notice for notice in harness.notices[number] if isinstance(notice, MeanPublished)]


@pytest.mark.parametrize("hides", ["step:2", "reading"])
def test_every_mean_has_the_deviation_of_those_used_and_is_marked(hides):
    session, harness = ran(hides)
    heard = means(harness, 0)
    assert heard == means(harness, COORDINATOR)
    assert [one.count for one in heard] == [2, 2, 3, 3, 3, 3]
    draw = session.series.noise * math.sqrt(2)
    assert heard[0].deviation == pytest.approx(draw / 2)  # it was shown for three agents
    worst = explain_series(session).deviation
    if hides == "reading":
        assert heard[-1].deviation == pytest.approx(worst)
        assert [one.incomplete_before for one in heard] == [0] * SLOTS
    else:
        assert [one.incomplete_before for one in heard] == [0, 0, 2, 2, 2, 2]
    marked = "all 3 agents" if hides == "reading" else "agents missing in 2 earlier slots"
    lines = [mean_line(one, session) for one in heard]
    assert lines[0].endswith(f"noise {up(heard[0].deviation)}, 1 of 3 agents missing")
    assert lines[-1].endswith(f"noise {up(heard[-1].deviation)}, {marked}")


def test_a_series_of_all_agents_has_the_promised_deviation_and_no_mark():
    session, harness = ran("step:2", late=0)
    heard = means(harness, 0)
    assert heard[-1].deviation == pytest.approx(explain_series(session).deviation)
    assert all(mean_line(one, session).endswith("all 3 agents") for one in heard)
    assert not absences(3, 3, 0)


def test_status_and_studio_show_both(tmp_path):
    session, harness = ran("step:2")
    status = Status(session, 0)
    for place, notice in enumerate(means(harness, 0)):
        status.notice(notice)
        found = status.document()
        rows = {row.name: row.value for row in StatusReport(found).summary().sections[""]}
        facts = {row.name: row.value for row in card_of("9464", found, now=0.0).facts}
        missing = absences(2, 3, 0) if place < LATE else "agents missing in 2 earlier slots"
        assert rows["noise in it"] == facts["noise in it"] == up(notice.deviation)
        assert rows["missing from it"] == facts["missing from it"] == missing


def test_results_and_verdicts_say_what_the_deviation_covers(tmp_path):
    for late in (LATE, 0):
        session, harness = ran("step:2", late)
        last = means(harness, 0)[-1]
        agent = harness.machines[0]
        mine = SeriesResult(
            "a", True, SLOTS, len(agent.private.digests), last.mean, last.deviation, last.count, session.n,
            agent.incomplete, 1.0, 1e-6, 1.0, 2.0, {},
        )  # fmt: skip
        used = tuple(("a",) * one.count for one in means(harness, 0))
        public = CoordinatorResult(
            True,
            SLOTS,
            last.mean,
            used,
            {},
            session,
            last.deviation,
            harness.machines[COORDINATOR].incomplete,
        )
        path = tmp_path / f"{late}.jsonl"
        with TranscriptWriter(path, session, durable=False) as writer:
            writer.take(harness.ledgers[COORDINATOR].records())
        verdict = verify(path, session=session)
        assert verdict.sound
        assert verdict.series.incomplete == mine.incomplete == public.incomplete == late
        assert verdict.series.deviations[-1] == last.deviation == mine.as_dict()["deviation"]
        for one in (mine, public, verdict):
            assert (NOT_COVERED in one.summary().notes) == (late > 0)
            rows = {row.name: row.value for part in one.summary().sections.values() for row in part}
            assert rows["incomplete"] == str(late)
        rows = {row.name: row.value for row in verdict.summary().sections["Accuracy"]}
        assert rows["of all agents"] == ("0" if late else str(SLOTS))
