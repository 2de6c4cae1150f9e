"""A series with real ledgers, keys and TLS: caps, restarts, erased keys, and what verify finds."""

import asyncio
import base64
import json
import math
import queue
import socket
import time
from dataclasses import replace

import msgspec
import pytest
from tests.doubles import Harness, ScriptedNoise, known_key, known_series, known_session

from tacit.base.errors import CapExceeded, InputError, LedgerError
from tacit.core.protocol.codec import Codec
from tacit.core.protocol.messages import COORDINATOR, Feedback
from tacit.core.protocol.notices import Answered, MeanPublished, SlotMissed, Spoken
from tacit.core.protocol.records import Began, Closed, Disclosed, Ended, Keyed, Sampled, Spoke
from tacit.core.protocol.roster import Member
from tacit.core.protocol.session import Deadlines, Session
from tacit.core.question import Mean
from tacit.core.series import Hides, written
from tacit.live.fleet.sources import (
    CallableSource,
    EnvironmentSource,
    FileSource,
    LinesSource,
    SourceFailed,
)
from tacit.live.identity.identity import provision
from tacit.live.identity.roster import Roster
from tacit.live.ledger import key_guard, schema
from tacit.live.ledger.budget import Hidden, Window
from tacit.live.ledger.ledger import Ledger
from tacit.live.runtime.agent import Agent
from tacit.live.runtime.coordinator import Coordinator
from tacit.live.runtime.keeper import Keeper
from tacit.live.runtime.noise import noise_of_series
from tacit.live.runtime.readings import SlotReader
from tacit.live.runtime.transcript import TranscriptWriter, line_of
from tacit.live.sessions.file import parse_session, session_text
from tacit.live.sessions.series import draft_series, explain_series
from tacit.live.verification.verdict import verify

AGENTS, KEEPERS, WAIT = ["a0", "a1", "a2"], ["north", "south"], 120
ACCEPTS = Hidden(Hides.parse("step:2"), 1e-6)


@pytest.fixture
def keys(tmp_path):
    return provision(tmp_path / "keys", ["coordinator", *AGENTS, *KEEPERS], listening=["coordinator"])


def series_of(keys, slots=8, interval=0.3, lead=1.0, **more):
    roster = Roster(
        tuple(_member(keys, name) for name in (*AGENTS, *KEEPERS)), keys["coordinator"].public_key
    )
    given = {
        "slots": slots, "hides": Hides.parse("step:2"), "interval": interval, "low": 0.0, "high": 10.0,
        "begins": math.ceil(time.time() + lead), "keepers": KEEPERS, "quorum": 1, "loss": 30.0,
        "deadlines": Deadlines(round=interval / 2, start=5.0, repeat=0.2), **more,
    }  # fmt: skip
    return draft_series("load", roster, **given)


def _member(keys, name):
    return Member(name, keys[name].public_key)


def end():
    with socket.create_server(("127.0.0.1", 0)) as made:
        return f"wss://127.0.0.1:{made.getsockname()[1]}"


class Live:
    """All members of a series in one event loop, over TLS, each with a ledger in one folder."""

    def __init__(self, about, keys, folder):
        self.about, self.keys, self.folder, self.where = about, keys, folder, end()
        self.notices, self.reads = {}, dict.fromkeys(AGENTS, 0)
        self.writer = None

    def member(self, name):
        heard = self.notices.setdefault(name, [])
        common = {
            "ledger": self.folder / f"{name}.ledger",
            "identity": self.keys[name],
            "watch": heard.append,
        }
        if name == "coordinator":
            takers = [] if self.writer is None else [self.writer]
            return Coordinator(self.about, listen=self.where, takers=takers, **common)
        if name in KEEPERS:
            return Keeper(self.about, connect=self.where, **common)
        trust = {"north": self.keys["north"].public_key}
        source = CallableSource(lambda: self.read(name))
        return Agent(self.about, source, accepts=ACCEPTS, cap=30.0, connect=self.where, trust=trust, **common)

    def read(self, name):
        self.reads[name] += 1
        if self.reads[name] == 3:
            raise ValueError("the meter does not answer")
        return 2.0 + AGENTS.index(name)

    async def run(self, name):
        async with self.member(name) as member:
            return await member.result()

    async def killed_after(self, name, kind, times):
        """Run until it has told something so many times, stop it there, and start it again."""
        async with self.member(name) as member:
            async for notice in member:
                times -= isinstance(notice, kind)
                if times == 0:
                    break
            else:
                return await member.result()  # on a busy machine the series may be over before
        return await self.run(name)

    def records(self, name, kind):
        with Ledger(self.folder / f"{name}.ledger") as ledger:
            return [record for record in ledger.records(self.about.id) if isinstance(record, kind)]


def test_a_live_series_with_one_restart_of_each(keys, tmp_path):
    """Over TLS: the same bytes after a restart, one message and one opening for each slot, sound."""
    live = Live(series_of(keys), keys, tmp_path)

    async def everyone():
        async with asyncio.timeout(WAIT):
            return await asyncio.gather(
                live.killed_after("coordinator", MeanPublished, 4),
                live.run("a0"),
                live.killed_after("a1", Spoken, 2),
                live.run("a2"),
                live.killed_after("north", Answered, 3),
                live.run("south"),
            )

    with TranscriptWriter(tmp_path / "t.jsonl", live.about, durable=False) as live.writer:
        results = asyncio.run(everyone())
    assert all(result.finished for result in results)
    assert not list(tmp_path.glob("*.ephemeral"))
    for name in AGENTS:
        spoke = [record.update for record in live.records(name, Spoke)]
        assert spoke == sorted(set(spoke))
        with Ledger(tmp_path / f"{name}.ledger") as ledger:  # once, for all its messages
            assert ledger.spent("value") == (live.about.series.loss if spoke else 0.0)
            assert ledger.balance("value").delta == (1e-6 if spoke else 0.0)
    for name in KEEPERS:
        opened = [record.update for record in live.records(name, Disclosed)]
        assert opened == sorted(set(opened))
    closed = live.records("coordinator", Closed)
    assert [record.round for record in closed] == list(range(8))
    means = {n.slot: n.mean for n in live.notices["a0"] if isinstance(n, MeanPublished)}
    verdict = verify(tmp_path / "t.jsonl", session=live.about)
    assert verdict.sound, verdict.findings
    assert verdict.series.means == tuple(means[t] for t in range(8))
    assert verdict.series.used == tuple(len(record.used) for record in closed)
    assert set(verdict.losses) <= {live.about.series.loss, 0.0}
    # A failed reading holds: the constant value goes on.
    assert {record.reading for record in live.records("a2", Sampled)} <= {4.0}


def test_what_was_signed_wrong_is_found(tmp_path):
    """A sum that is off by one, feedback that commits to other messages, a lost slot that hides nothing."""
    session = known_series(3, 3)
    harness = Harness(session, [lambda _: 4.0] * 3, ScriptedNoise([[5, 6, 7]] * 3))
    harness.start()
    assert harness.run(Harness.finished)
    path = tmp_path / "t.jsonl"
    with TranscriptWriter(path, session, durable=False) as writer:
        writer.take(harness.ledgers[COORDINATOR].records())
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    verdict = verify(path)
    assert verdict.sound
    assert verdict.series.used == (3, 3, 3)
    codec, sign = Codec(session), known_key(COORDINATOR).sign
    place = next(k for k, line in enumerate(lines) if "y" in line)
    said = codec.open(base64.b64decode(lines[place]["frame"]))
    assert isinstance(said.body, Feedback)
    lost = {"numbers": codec.pack(0), "count": 0, "members": 0}
    for change, name in (
        ({"numbers": codec.pack(said.numbers[0] + 1)}, "wrong-mean"),
        ({"basis": bytes(32)}, "wrong-reports"),
        ({"state": bytes(32)}, "wrong-state"),
        (lost, "wrong-reports"),
    ):
        frame = codec.seal(COORDINATOR, msgspec.structs.replace(said.body, **change), sign)
        forged = line_of(codec.open(frame))
        path = tmp_path / "forged.jsonl"
        path.write_text("".join(json.dumps(x) + "\n" for x in [*lines[:place], forged]))
        assert name in {finding.name for finding in verify(path, running=True).findings}


def test_a_ledger_that_was_put_back_or_is_another_is_refused(keys, tmp_path):
    """A filter that lost its state never goes on within the series."""
    live = Live(series_of(keys, slots=3), keys, tmp_path)

    async def everyone():
        async with asyncio.timeout(WAIT):
            await asyncio.gather(*map(live.run, ("coordinator", *AGENTS, *KEEPERS)))

    asyncio.run(everyone())
    other = Live(live.about, keys, tmp_path / "other")
    other.folder.mkdir(mode=0o700)
    with pytest.raises(LedgerError, match="ledger"):
        asyncio.run(other.run("a0"))


# ---- caps -------------------------------------------------------------------------------------------------


SERIES = known_series(3, 8)


def reserve(ledger, session=SERIES, accepts=None, cap=1.0, **more):
    series = session.series
    return ledger.reserve(
        session.id,
        "meter",
        planned=series.loss,
        adjacency=session.adjacency,
        diameter=session.adjacency,
        expires=session.expires,
        now=50.0,
        cap=cap,
        hidden=Hidden(series.hides, series.delta),
        accepts=accepts,
        **more,
    )


def test_a_series_needs_an_owner_who_accepts_what_it_hides(path):
    with Ledger(path) as ledger:
        with pytest.raises(CapExceeded, match=r"no other change.*--hides step:2 --delta 1e-06"):
            reserve(ledger)
        for hides, delta, why in (
            ("step:3", 1e-6, "wants step:3 hidden"),
            ("reading", 1e-6, "wants reading hidden"),
            ("step:2", 1e-7, "fails with a probability"),
        ):
            with pytest.raises(CapExceeded, match=why):
                reserve(ledger, accepts=Hidden(Hides.parse(hides), delta))
        assert not ledger.values()  # nothing was written
        reserve(ledger, accepts=Hidden(Hides.parse("step:1.5"), 1e-6))  # a step of 2 covers smaller ones
        assert ledger.spent("meter") == SERIES.series.loss
        assert ledger.balance("meter").delta == 1e-6


@pytest.mark.parametrize("hides", ["step:2", "reading", "window:3"])
def test_a_cap_must_cover_the_change_that_series_hide(path, hides):
    """Otherwise sessions count for closer values than series do, and the sum says nothing about either."""
    accepts = Hidden(Hides.parse(hides), 1e-6)
    with Ledger(path) as ledger:
        with pytest.raises(InputError, match="apart"):
            reserve(ledger, accepts=accepts, cap_adjacency=0.5)
        with pytest.raises(InputError, match="apart"):
            ledger.set_cap("meter", 1.0, adjacency=0.5, accepts=accepts)
        ledger.set_cap("meter", 3.0, accepts=accepts)
        with pytest.raises(InputError, match="apart"):
            ledger.set_cap("meter", 3.0, adjacency=0.5)
        if hides == "step:2":
            ledger.set_cap("meter", 3.0, adjacency=2.0)
            reserve(ledger, cap=None)


def test_failure_probabilities_and_losses_add_up_over_series_and_sessions(path):
    with Ledger(path) as ledger:
        reserve(ledger, accepts=Hidden(Hides.parse("step:2"), 1.5e-6), cap=3.0)
        with pytest.raises(CapExceeded, match=r"1\.5e-06"):
            reserve(ledger, known_series(3, 9), cap=None)
        reserve(ledger, known_series(3, 9, delta=4e-7), cap=None)
        ordinary = known_session(2, 2)
        common = {"planned": 0.9, "adjacency": 1.0, "diameter": 1.0, "now": 50.0}
        ledger.reserve(ordinary.id, "meter", **common)
        with pytest.raises(CapExceeded, match="cap of 3"):
            ledger.reserve(known_session(3, 2).id, "meter", **{**common, "planned": 0.2})
        assert 2.8 < ledger.spent("meter") <= 3.0
    with Ledger(path) as ledger:  # all of it is in the file
        assert ledger.balance("meter").delta == pytest.approx(1.4e-6)
        assert ledger.balance("meter").hides == "step:2.0"
        with pytest.raises(InputError, match="joining a session"):
            reserve(ledger, known_series(3, 10), accepts=Hidden(Hides.parse("step:2"), 1e-3), cap=None)
        ledger.set_cap("meter", 9.0, accepts=Hidden(Hides.parse("step:2"), 1e-3))
        reserve(ledger, known_series(3, 10), cap=None)


def test_a_series_counts_in_every_window_while_it_runs(path):
    session = known_series(3, 8, expires=10_000)
    with Ledger(path) as ledger:
        reserve(ledger, session, accepts=ACCEPTS, cap=10.0)
        loss = session.series.loss
        ledger.append(session.id, [Began(session.id, 0, b"", loss, 0.0, 10.0), Spoke(0, b"frame", loss)])
        for now in (100.0, 9_000.0, 10_050.0):
            with pytest.raises(CapExceeded, match="for that time"):
                ledger.reserve(
                    known_session(2, 2).id, "meter", planned=0.5, adjacency=1.0, diameter=1.0, now=now,
                    windows=[Window(100.0, 1.2)],
                )  # fmt: skip


def test_a_series_that_was_never_spoken_in_costs_nothing_when_it_is_settled(path):
    with Ledger(path) as ledger:
        reserve(ledger, accepts=ACCEPTS)
        ledger.settle(SERIES.id)
        assert ledger.balance("meter").spent == ledger.balance("meter").delta == 0.0


def spoken(ledger, session=SERIES, **given):
    """Reserve a series, and send its first message."""
    reserve(ledger, session, **given)
    loss = session.series.loss
    ledger.append(session.id, [Began(session.id, 0, b"", loss, 0.0, 10.0), Spoke(0, b"frame", loss)])


def test_dropping_expired_sessions_does_not_drop_a_series(path, tmp_path):
    """Its failure probability must stay in the sum, and what it hides; the keys have bindings of all."""
    keys = tmp_path / "keys"
    keys.mkdir(mode=0o700)
    session, silent = known_series(3, 8, expires=1000), known_series(3, 9, expires=1001)
    with Ledger(path) as ledger:
        spoken(ledger, session, accepts=ACCEPTS, cap=9.0)
        key_guard.bind(keys, session.id, ledger, session.expires)
        ledger.append(session.id, [Ended(1, None)])
        before = ledger.balance("meter")
        assert before.delta == 1e-6
        assert key_guard.compact(keys, ledger, 1e9) == 0
        with pytest.raises(InputError, match="no series"):
            ledger.compact([session.id], 1000, 1e9)
        assert ledger.balance("meter") == before
        with pytest.raises(CapExceeded, match="fails with a probability"):
            reserve(ledger, known_series(3, 10, expires=2_000_000_000), cap=None)
        ledger.set_cap("meter", 9.0, accepts=Hidden(Hides.parse("step:2"), 2e-6))
        reserve(ledger, silent, cap=None)
        ledger.settle(silent.id)
        assert key_guard.compact(keys, ledger, 1e9) == 1  # it has sent nothing, so nothing is lost
    with Ledger(path) as ledger:
        assert (ledger.balance("meter").spent, ledger.balance("meter").delta) == (before.spent, before.delta)


# ---- caps that change -------------------------------------------------------------------------------------


def begun(ledger, **given):
    """Reserve a series and begin it, with a key, and send nothing."""
    reserve(ledger, accepts=ACCEPTS, **given)
    ledger.ephemeral_key(SERIES.id, 0, SERIES.expires)
    began = Began(SERIES.id, 0, b"", SERIES.series.loss, 0.0, 1.0)
    ledger.append(SERIES.id, [began, Keyed(0, b"frame")])


LOWER = {
    "cap": {"cap": 0.5},
    "delta": {"cap": None, "accepts": Hidden(Hides.parse("step:2"), 1e-12)},
}


@pytest.mark.parametrize("lower", LOWER)
def test_a_lower_cap_ends_a_series_that_has_sent_nothing(path, tmp_path, lower):
    with Ledger(path) as ledger:
        begun(ledger)
        assert list(tmp_path.glob("*.ephemeral"))
    with Ledger(path) as ledger:
        with pytest.raises(CapExceeded):
            reserve(ledger, **LOWER[lower])
        assert ledger.is_over(SERIES.id)
        assert not list(tmp_path.glob("*.ephemeral"))
        with pytest.raises(LedgerError, match="settled"):
            ledger.append(SERIES.id, [Spoke(0, b"frame", SERIES.series.loss)])
        assert ledger.balance("meter").spent == ledger.balance("meter").delta == 0.0


@pytest.mark.parametrize(
    ("cap", "accepts"),
    [(0.5, None), (1.0, Hidden(Hides.parse("reading"), 1e-6)), (1.0, Hidden(Hides.parse("step:2"), 1e-12))],
)
def test_a_cap_that_is_lowered_meanwhile_counts_before_the_first_message(path, cap, accepts):
    """At the next start, and in a process that goes on."""
    with Ledger(path) as ledger:
        begun(ledger)
        ledger.set_cap("meter", cap, accepts=accepts)
        with pytest.raises(CapExceeded):
            ledger.append(SERIES.id, [Spoke(0, b"frame", SERIES.series.loss)])
        assert ledger.said(SERIES.id, 0) is None
        with pytest.raises(CapExceeded):
            reserve(ledger, cap=None)
        assert ledger.is_over(SERIES.id)


def test_a_series_cannot_be_resumed_with_another_meaning(path):
    with Ledger(path) as ledger:
        begun(ledger)
        with pytest.raises(InputError, match="joining a session cannot change"):
            reserve(ledger, accepts=Hidden(Hides.parse("reading"), 1e-6), cap=None)


def test_a_series_that_has_sent_goes_on_under_a_lower_cap(path):
    """All of its loss is spent with its first message; further ones cost nothing."""
    with Ledger(path) as ledger:
        spoken(ledger, accepts=ACCEPTS)
        reserve(ledger, cap=0.1, accepts=Hidden(Hides.parse("step:2"), 1e-12))
        ledger.append(SERIES.id, [Spoke(1, b"frame", 0.0)])
        balance = ledger.balance("meter")
        assert (balance.cap, balance.spent, balance.remaining) == (0.1, SERIES.series.loss, 0.0)
        with pytest.raises(CapExceeded):
            reserve(ledger, known_series(3, 9), cap=None)
        reserve(ledger, cap=1.0, accepts=ACCEPTS)  # the same command as at first: it raises nothing
        assert ledger.balance("meter").cap == 0.1
        assert ledger.balance("meter").delta_cap == 1e-12


def test_a_live_series_that_has_sent_nothing_is_refused_under_a_lower_cap(keys, tmp_path):
    live = Live(series_of(keys, lead=3600.0), keys, tmp_path)

    async def start(cap, said):
        member = Agent(
            live.about, CallableSource(lambda: 1.0), cap=cap, connect=live.where, accepts=ACCEPTS,
            ledger=tmp_path / "a0.ledger", identity=keys["a0"], trust={"north": keys["north"].public_key},
        )  # fmt: skip
        async with asyncio.timeout(WAIT), member:
            while not member._ledger.records(live.about.id):
                await asyncio.sleep(0)
            said.append(True)

    asyncio.run(start(30.0, said := []))
    assert said
    assert list(tmp_path.glob("a0.ledger.*.ephemeral"))
    with pytest.raises(CapExceeded):
        asyncio.run(start(0.1, []))
    assert not list(tmp_path.glob("a0.ledger.*.ephemeral"))


def test_a_cap_for_a_wider_change_than_an_earlier_series_hides_is_refused(path):
    """What a series of step:2 has cost for step:5 or any reading, nothing bounds."""
    with Ledger(path) as ledger:
        spoken(ledger, accepts=ACCEPTS, cap=3.0)
        for wider in ("step:5", "reading", "window:3"):
            with pytest.raises(InputError, match=f"series {SERIES.id.hex()[:16]} .* hides step:2"):
                ledger.set_cap("meter", 1e9, accepts=Hidden(Hides.parse(wider), 1e-6))
        assert ledger.balance("meter").hides == "step:2.0"
        ledger.set_cap("meter", 3.0, accepts=Hidden(Hides.parse("step:1"), 1e-6))  # it is covered
        ledger.set_cap("meter", 3.0, accepts=ACCEPTS)
        ledger.append(SERIES.id, [Ended(1, None)])
        with pytest.raises(InputError, match="hides step:2"):  # over, and it has cost what it has cost
            ledger.set_cap("meter", 3.0, accepts=Hidden(Hides.parse("step:5"), 1e-6))
    with Ledger(path) as ledger, pytest.raises(InputError, match="hides step:2"):
        ledger.set_cap("meter", 3.0, accepts=Hidden(Hides.parse("step:5"), 1e-6))


def test_a_series_that_has_sent_nothing_does_not_stand_in_the_way_of_a_wider_cap(path):
    with Ledger(path) as ledger:
        begun(ledger)
        ledger.set_cap("meter", 1.0, accepts=Hidden(Hides.parse("step:5"), 1e-6))
        with pytest.raises(CapExceeded, match="wants step:5"):
            reserve(ledger, cap=None)


def test_a_ledger_from_before_there_were_series_is_refused(keys, tmp_path, monkeypatch):
    monkeypatch.setattr(schema, "TABLES", schema.TABLES.replace(", 'sampled'", ""))
    Ledger(tmp_path / "a0.ledger").close()
    monkeypatch.undo()
    live = Live(series_of(keys), keys, tmp_path)
    with pytest.raises(LedgerError, match="older version"):
        asyncio.run(live.run("a0"))


def test_nothing_is_sent_where_the_cap_refuses(keys, tmp_path):
    live = Live(series_of(keys), keys, tmp_path)
    trust = {"north": keys["north"].public_key}
    member = Agent(
        live.about, CallableSource(lambda: 1.0), cap=30.0, connect=live.where, trust=trust,
        ledger=tmp_path / "a0.ledger", identity=keys["a0"],
    )  # fmt: skip

    async def refused():
        async with member:
            pass

    with pytest.raises(CapExceeded, match="no other change"):
        asyncio.run(refused())
    with Ledger(tmp_path / "a0.ledger") as ledger:
        assert ledger.records(live.about.id) == []
    assert not list(tmp_path.glob("*.ephemeral"))


# ---- the file, and what it says ---------------------------------------------------------------------------


@pytest.mark.parametrize("hides", ["step:0.1", "reading", "window:3"])
def test_a_series_reads_back_from_its_file(keys, hides):
    about = series_of(keys, hides=Hides.parse(hides), loss=200.0)
    read = parse_session(session_text(about, {"coordinator": "wss://192.0.2.1:1"}), "it")
    assert read == about
    assert read.id == about.id
    assert about.series.loss <= 200.0
    assert Hides.parse(written(about.series.hides)) == about.series.hides


def test_what_a_series_promises_is_explained(keys):
    about = series_of(keys, slots=200, loss=30.0)
    found = explain_series(about)
    facts = found.as_dict()
    assert facts["loss"] == about.series.loss
    assert facts["delta"] == 1e-6
    assert facts["deviation"] == pytest.approx(
        about.series.noise * math.sqrt(2 * float(about.series.code().variances().max())) / 3
    )
    assert facts["losses"]["one reading"] < facts["loss"]
    assert any(note.startswith("KEEPERS") for note in found.notes)
    with pytest.raises(InputError, match="at least one keeper"):
        series_of(keys, keepers=[])
    with pytest.raises(InputError, match="not a series"):
        explain_series(known_session(2, 2))


def test_a_series_is_for_its_own_kind_of_member(keys, tmp_path):
    about = series_of(keys)
    common = {"ledger": tmp_path / "l", "identity": keys["a0"], "connect": end()}
    trust = {"north": keys["north"].public_key}
    with pytest.raises(InputError, match="is a series"):
        Agent(about, 1.0, cap=1.0, trust=trust, **common)
    with pytest.raises(InputError, match="not a series"):
        Agent(replace(known_session(2, 2)), CallableSource(lambda: 1.0), cap=1.0, **common)


def long_series(keys, hides):
    return series_of(keys, slots=2000, hides=Hides.parse(hides), loss=1000.0)


def member_of(keys, tmp_path, source, about):
    return Agent(
        about, source, accepts=Hidden(about.series.hides, 1e-6), cap=2000.0, connect=end(),
        ledger=tmp_path / "l", identity=keys["a0"], trust={"north": keys["north"].public_key},
    )  # fmt: skip


def reader_of(source, hides, *, told=lambda *_: None):
    return SlotReader(known_series(3, 8, hides=hides), source, unsure=False, unread=told)


def sources(tmp_path):
    """Each source with a way to give it a new reading: a file, and lines."""
    file, lines = tmp_path / "meter", queue.Queue()

    def write(value):
        new = file.with_name("new")
        new.write_text(str(value))
        new.chmod(0o600)
        new.replace(file)

    def line(value):
        lines.put(f"{value}\n")
        lines.join()  # until it was taken, and the one after it is waited for

    def followed():
        while True:
            yield lines.get()
            lines.task_done()

    yield FileSource(file), write
    yield LinesSource(followed()), line


@pytest.mark.parametrize("hides", ["reading", "window:3", "step:2"])
def test_a_reading_that_was_there_before_counts_once_unless_a_step_is_hidden(tmp_path, hides):
    """A file that nobody writes any more, or a line that stays the last one, is a held reading too."""
    for source, give in sources(tmp_path):
        if isinstance(source, LinesSource):
            source.start()
        told = []
        reader = reader_of(source, hides, told=lambda *what, told=told: told.append(what))
        give(3.0)
        first, second = (asyncio.run(reader.read()) for _ in range(2))
        assert first == 3.0
        assert second == (3.0 if hides == "step:2" else None)
        give(4.0)
        assert asyncio.run(reader.read()) == 4.0
        assert len(told) == (hides != "step:2")
        if told:
            assert told == [(1, told[0][1])]
            assert "nothing is sent in this slot" in told[0][1]
            assert "3" not in told[0][1]


def test_whether_an_agent_speaks_does_not_depend_on_its_readings(tmp_path, monkeypatch):
    """If only a changed value counted as new, silence would tell that a reading equals the one before."""
    (file, write), (_, _) = sources(tmp_path)
    for second in (3.0, 4.0):
        reader = reader_of(file, "reading")
        write(3.0)
        assert asyncio.run(reader.read()) == 3.0
        write(second)
        assert asyncio.run(reader.read()) == second
    for second in (3.0, 4.0):
        reader = reader_of(EnvironmentSource("TACIT_READING"), "reading")
        monkeypatch.setenv("TACIT_READING", "3.0")
        assert asyncio.run(reader.read()) == 3.0
        monkeypatch.setenv("TACIT_READING", str(second))
        assert asyncio.run(reader.read()) is None


def test_a_command_or_function_gives_a_new_reading_each_time():
    reader = reader_of(CallableSource(lambda: 3.0), "reading")
    assert [asyncio.run(reader.read()) for _ in range(2)] == [3.0, 3.0]


def test_a_restarted_agent_does_not_read_the_same_file_again(keys, tmp_path, monkeypatch):
    """It cannot know whether it has sent what the file says, so it waits until the file is written."""
    source, write = next(sources(tmp_path))
    about = long_series(keys, "reading")

    async def run(then):
        """Run an agent without keepers for some slots; where it should read, write the file before."""
        member, read = member_of(keys, tmp_path, source, about), []
        async with asyncio.timeout(WAIT), member:
            async for notice in member:
                if isinstance(notice, SlotMissed):
                    read.append(not notice.unread)
                    if len(read) == len(then):
                        return read
                    if then[len(read)]:
                        write(1.0 + len(read))
        return read

    write(1.0)
    assert asyncio.run(run([True, False])) == [True, False]
    assert asyncio.run(run([False, True])) == [False, True]


def test_keepers_draw_discrete_gaussian_noise_of_the_series():
    """One draw for each slot, of the deviation in the session, from the safe source."""
    pool = noise_of_series(SERIES)
    assert type(pool._source).__name__ == "SafeGaussian"
    assert pool._scale(0) == pool._scale(7) == SERIES.series.steps


def test_a_source_that_fails_says_nothing_of_what_it_read():
    async def read():
        return await CallableSource(lambda: 1 / 0).read(Mean(0, 1))

    with pytest.raises(SourceFailed, match="ZeroDivisionError"):
        asyncio.run(read())
    assert Session.decode(SERIES.encode()).id == SERIES.id
