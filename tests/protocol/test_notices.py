"""A notice is described once: adding a class to one file is all that a new one needs."""

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Literal, get_type_hints

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tacit.cli.notice_log import NoticeLog
from tacit.core.protocol import notices
from tacit.core.protocol.notices import LostHistory, Notice, Who
from tacit.core.protocol.standing import Counted
from tacit.live.fleet import follower_notices, hub_notices
from tacit.live.runtime.process_notices import ProcessNotice
from tacit.live.runtime.telling import Teller, Throttled
from tacit.live.status.document import StatusDocument
from tacit.live.status.metrics import GAUGES, counters, exposition
from tacit.live.status.report import StatusReport
from tacit.live.status.status import Status


@dataclass(frozen=True)
class Throttle(Notice):
    """A sender sends too much: what a maintainer would add to `notices.py`."""

    who: Who
    rest: tuple[Who, ...]
    what: Literal["frames", "bytes"]
    dropped: int

    counted = (
        Counted("throttled", "senders that sent too much", "what"),
        Counted("dropped", "frames that were dropped", by="dropped"),
    )

    def sentence(self, session):
        return f"{session.member_name(self.who)} sends too much."

    def cause(self):
        return self.who


@pytest.fixture
def added(monkeypatch):
    monkeypatch.setattr(notices, "Throttle", Throttle, raising=False)
    return Throttle(1, (0, 2), "bytes", 3)


@pytest.fixture(scope="module")
def session(played):
    return played().session


def samples(page, name):
    found = (s for family in text_string_to_metric_families(page.decode()) for s in family.samples)
    return {s.labels.get("what"): s.value for s in found if s.name == name}


def test_a_new_notice_is_in_log_status_and_metrics(added, session, tmp_path):
    with NoticeLog(tmp_path / "log", {"member": "agent0"}, session) as log:
        tell = Throttled(log)
        for _ in range(300):
            tell(added)
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()][1:]
    assert len(lines) == 102  # others cause it
    del lines[0]["time"]
    assert lines[0] == {
        "member": "agent0",
        "event": "throttle",
        "who": "agent1",
        "rest": ["agent0", "agent2"],
        "what": "bytes",
        "dropped": 3,
        "count": 1,
        "text": "agent1 sends too much.",
    }
    assert lines[-1]["text"] == "agent1 sends too much. (256 times today)"
    status = Status(session, 0)
    status.notice(added)
    status.notice(added)
    shown = msgspec.json.decode(status.json(), type=StatusDocument)
    assert shown.counts == {"throttled": {"bytes": 2}, "dropped": {"": 6}}
    rows = {row.name: row for row in StatusReport(shown).summary().sections[""]}
    assert rows["throttled"].value == "bytes 2"
    assert rows["dropped"].meaning.startswith("frames that were dropped")
    assert samples(status.metrics(), "tacit_throttled_total") == {"bytes": 2.0, "frames": 0.0}
    assert samples(status.metrics(), "tacit_dropped_total") == {None: 6.0}


def test_one_round_is_one_round(session):
    assert "has 1 round, more" in LostHistory(1, 1).sentence(session)
    assert "has 2 rounds, more" in LostHistory(1, 2).sentence(session)


def test_a_new_notice_of_a_hub_too(monkeypatch):
    @dataclass(frozen=True)
    class Crowded(ProcessNotice):
        members: int
        counted = (Counted("hub_crowded", "times that there were too many members"),)
        said = "{members} members are too many"

    monkeypatch.setattr(hub_notices, "Crowded", Crowded, raising=False)
    told = []
    tell = Teller(lambda notice, count: told.append((notice.facts(), notice.sentence(), count)))
    tell(Crowded(7))
    assert told == [({"event": "crowded", "members": 7}, "7 members are too many", 0)]
    about = {"name": "hub", "role": "hub", "state": "serving", "ready": True}
    page = exposition(StatusDocument(kind="hub", **about, counts=tell.counts))
    assert samples(page, "tacit_hub_crowded_total") == {None: 1.0}


def test_a_label_must_be_bounded(added, monkeypatch, session):
    monkeypatch.setattr(Throttle, "counted", (Counted("throttled", "by name", "who"),))
    with pytest.raises(TypeError, match="must be an Enum or a Literal"):
        Status(session, 0).metrics()


@pytest.mark.parametrize("kind", GAUGES)
def test_each_metric_is_declared_once(kind):
    names = [one.name for one in (*GAUGES[kind], *counters(kind))]
    assert len(set(names)) == len(names)


def kinds():
    for module in (notices, hub_notices, follower_notices, sys.modules[ProcessNotice.__module__]):
        for what in vars(module).values():
            if isinstance(what, type) and issubclass(what, Notice) and what.__module__ == module.__name__:
                yield pytest.param(what, id=what.__name__)


@pytest.mark.parametrize("kind", list(kinds()))
def test_a_notice_names_fields_that_it_has(kind):
    hints = get_type_hints(kind)
    for counted in kind.counted:
        assert {counted.label, counted.by} - {""} <= set(hints)
    if issubclass(kind, ProcessNotice) and kind is not ProcessNotice:
        made = kind(**dict.fromkeys(kind.__dataclass_fields__))
        assert made.sentence() or not kind.logged


def test_those_who_tell_load_nothing_that_draws():
    """A notice declares; others render."""
    code = (
        "import sys, tacit.core.protocol.notices, tacit.live.fleet.hub_notices, tacit.live.fleet.follower;"
        "assert not {'rich', 'prometheus_client'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
