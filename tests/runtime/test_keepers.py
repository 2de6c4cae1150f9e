"""Keepers over WebSockets and mutual TLS: live sessions, kills, keys on the disk, and whom agents trust."""

import asyncio
import math
import socket
from dataclasses import replace

import pytest
from tests.doubles import small_session

from tacit.base.errors import InputError, LedgerError
from tacit.core.protocol.notices import Answered, RoundClosed
from tacit.core.protocol.records import Closed, Disclosed, Spoke
from tacit.core.protocol.roster import Member
from tacit.core.protocol.session import Deadlines
from tacit.lab.audit import examine_files
from tacit.live.identity.identity import provision
from tacit.live.identity.keys import key_text
from tacit.live.ledger import key_guard, schema
from tacit.live.ledger.ledger import Ledger
from tacit.live.runtime.agent import Agent
from tacit.live.runtime.coordinator import Coordinator
from tacit.live.runtime.keeper import Keeper
from tacit.live.runtime.transcript import TranscriptWriter
from tacit.live.sessions.check import explain
from tacit.live.sessions.file import parse_session, session_text
from tacit.live.sessions.trust import parse_trust, require_trusted_keeper

AGENTS, KEEPERS, WAIT = ["a0", "a1", "a2"], ["north", "south"], 120
VALUES = dict(zip(AGENTS, [1.0, 4.0, 7.0], strict=True))


@pytest.fixture
def keys(tmp_path):
    return provision(tmp_path / "keys", ["coordinator", *AGENTS, *KEEPERS], listening=["coordinator"])


@pytest.fixture
def about(keys):
    keepers = tuple(Member(name, keys[name].public_key) for name in KEEPERS)
    soon = Deadlines(round=30.0, start=30.0, repeat=0.2)
    return small_session(keys, AGENTS, keepers=keepers, deadlines=soon)


def end():
    with socket.create_server(("127.0.0.1", 0)) as made:
        return f"wss://127.0.0.1:{made.getsockname()[1]}"


class Live:
    """All members of a session in one event loop, each with a ledger in one folder."""

    def __init__(self, about, keys, folder, **values):
        self.about, self.keys, self.folder, self.where = about, keys, folder, end()
        self.values = {**VALUES, **values}
        self.notices, self.transcript = {}, None

    def member(self, name):
        heard = self.notices.setdefault(name, [])
        common = {"ledger": self.ledger(name), "identity": self.keys[name], "watch": heard.append}
        if name == "coordinator":
            takers = [] if self.transcript is None else [self.transcript]
            return Coordinator(self.about, listen=self.where, takers=takers, **common)
        if name in KEEPERS:
            return Keeper(self.about, connect=self.where, **common)
        trust = {"north": self.keys["north"].public_key}
        value = self.values[name]
        return Agent(self.about, value, cap=math.inf, connect=self.where, trust=trust, **common)

    def ledger(self, name):
        return self.folder / f"{name}.ledger"

    def records(self, name, kind):
        with Ledger(self.ledger(name)) as ledger:
            return [record for record in ledger.records(self.about.id) if isinstance(record, kind)]

    async def run(self, name):
        async with self.member(name) as member:
            return await member.result()

    async def all(self, names=("coordinator", *AGENTS, *KEEPERS)):
        async with asyncio.timeout(WAIT):
            return dict(zip(names, await asyncio.gather(*map(self.run, names)), strict=True))

    def keys_on_disk(self):
        return sorted(path.name.partition(".")[0] for path in self.folder.glob("*.ephemeral"))


@pytest.mark.parametrize("kind", ["fading", "one-shot"])
def test_a_live_session(about, keys, tmp_path, kind):
    if kind == "one-shot":
        about = replace(about, law=kind, decay=None, mask_bytes=None)
    live = Live(about, keys, tmp_path)
    results = asyncio.run(live.all())
    assert all(result.finished for result in results.values())
    assert results["coordinator"].rounds == about.exchanges
    assert [results[name].opened for name in KEEPERS] == [about.exchanges] * 2
    assert len({results[name].feedback for name in AGENTS}) == 1
    assert live.keys_on_disk() == []
    assert [r.update for r in live.records("north", Disclosed)] == list(range(about.exchanges))
    assert [r.update for r in live.records("a0", Spoke)] == list(range(about.exchanges))


def test_the_bytes_of_a_live_session_look_random(about, keys, tmp_path):
    """Uniform, also in the lowest bits, and no mask is used twice: as `tacit audit TRANSCRIPT` judges."""
    about = replace(about, components=16, mask_bytes=None)
    live = Live(about, keys, tmp_path, **{name: [VALUES[name]] * 16 for name in AGENTS})
    with TranscriptWriter(tmp_path / "t.jsonl", about, durable=False) as live.transcript:
        asyncio.run(live.all())
    report = examine_files([tmp_path / "t.jsonl"])
    assert report.passed, report.alarms
    verdicts = {finding.test: finding.verdict for finding in report.findings}
    for what in ("reports", "openings"):
        assert verdicts[f"{what}: reuse"] == verdicts[f"{what}: bits"] == "pass"
        assert verdicts[f"{what}: from one update to the next"] == "pass"


def test_a_keeper_is_killed_and_goes_on_where_it_was(about, keys, tmp_path):
    live = Live(about, keys, tmp_path)

    async def kill_and_resume():
        async with live.member("north") as keeper:
            async for notice in keeper:
                if isinstance(notice, Answered):
                    break
        # Leaving the block before the end stops it: the round waits for it.
        assert live.keys_on_disk().count("north") == 1
        return await live.run("north")

    async def everyone():
        rest = live.all(("coordinator", *AGENTS, "south"))
        async with asyncio.timeout(WAIT):
            return await asyncio.gather(rest, kill_and_resume())

    results, keeper = asyncio.run(everyone())
    assert keeper.finished
    assert all(result.finished for result in results.values())
    updates = [record.update for record in live.records("north", Disclosed)]
    assert updates == list(range(about.rounds))
    assert len(live.records("coordinator", Closed)) == about.rounds
    assert live.keys_on_disk() == []


def test_a_key_that_is_gone_is_refused(about, keys, tmp_path):
    live = Live(about, keys, tmp_path)

    async def begin():
        async with live.member("north") as keeper:
            while not live.keys_on_disk():
                await asyncio.sleep(0)
            assert not keeper.machine.keyring.erased
            await asyncio.sleep(0.2)

    asyncio.run(begin())
    (file,) = tmp_path.glob("north*.ephemeral")
    assert file.stat().st_mode & 0o777 == 0o600
    assert len(file.read_bytes()) == 32
    file.unlink()
    with pytest.raises(LedgerError, match="is gone"):
        asyncio.run(begin())


def test_a_keeper_speaks_from_one_ledger(about, keys, tmp_path):
    live = Live(about, keys, tmp_path)
    asyncio.run(live.all())
    other = Live(about, keys, tmp_path / "other")
    other.folder.mkdir()
    with pytest.raises(LedgerError, match="another ledger"):
        asyncio.run(other.run("north"))


def test_only_a_keeper_keeps(about, keys, tmp_path):
    with pytest.raises(InputError, match="must be a keeper's"):
        Keeper(about, ledger=tmp_path / "x.ledger", identity=keys["a0"])


# ---- whom agents trust ------------------------------------------------------------------------------------


def agent(about, keys, tmp_path, trust):
    return Agent(about, 1.0, cap=1.0, ledger=tmp_path / "l", identity=keys["a0"], trust=trust, connect=end())


def test_an_agent_needs_a_keeper_whom_its_owner_trusts(about, keys, tmp_path):
    for trust in (None, {}, {"somebody": keys["north"].public_key}):
        with pytest.raises(InputError, match="you must trust one of them"):
            agent(about, keys, tmp_path, trust)
    agent(about, keys, tmp_path, {"south": keys["south"].public_key})


def test_a_keeper_of_the_same_name_with_another_key_is_refused(about, keys, tmp_path):
    trust = {"north": keys["a1"].public_key, "south": keys["south"].public_key}
    with pytest.raises(InputError, match="has another key than the one you trust"):
        agent(about, keys, tmp_path, trust)


def test_trust_is_read_from_options_and_files(about, keys, tmp_path):
    text = key_text(keys["north"].public_key)
    assert parse_trust([f"north={text}"]) == {"north": keys["north"].public_key}
    file = tmp_path / "trust"
    file.write_text(f"# whom I know\nnorth = {text}  # met them\n\n")
    require_trusted_keeper(about, parse_trust([f"@{file}"]))
    assert parse_trust([f"north={text}", f"@{file}"]) == {"north": keys["north"].public_key}
    with pytest.raises(InputError, match="two keys"):
        parse_trust([f"north={key_text(keys['a0'].public_key)}", f"@{file}"])
    with pytest.raises(InputError, match="No such file"):
        parse_trust([f"@{tmp_path / 'nowhere'}"])
    for wrong in (["north"], ["north=abc"], [f"north={text}", f"north={key_text(keys['a0'].public_key)}"]):
        with pytest.raises(InputError):
            parse_trust(wrong)


# ---- the file ---------------------------------------------------------------------------------------------


def test_a_session_file_has_its_keepers(about):
    read = parse_session(session_text(about, {"north": "wss://192.0.2.1:1"}), "it")
    assert read == about
    assert read.id == about.id


def test_what_is_lost_is_said(about):
    (note,) = [note for note in explain(about).notes if note.startswith("KEEPERS")]
    assert "north, south" in note
    assert "no protection at all" in note
    alone = replace(about, keepers=about.keepers[:1], mask_bytes=None)
    assert any("A single keeper can" in note for note in explain(alone).notes)
    assert explain(about).as_dict()["keeper_keys"].keys() == {"north", "south"}


def test_rounds_are_told(about, keys, tmp_path):
    live = Live(about, keys, tmp_path)
    asyncio.run(live.all())
    closed = [n for n in live.notices["coordinator"] if isinstance(n, RoundClosed)]
    assert [notice.round for notice in closed] == list(range(about.rounds))


def test_a_keepers_ledger_that_was_put_back_is_refused(about, keys, tmp_path):
    """It would open updates a second time; the directory of keys knows better."""
    live = Live(about, keys, tmp_path)

    async def begin():
        async with live.member("north") as keeper:
            while len(keeper.machine.keyring.frames) < 1 or not live.ledger("north").exists():
                await asyncio.sleep(0)

    asyncio.run(begin())
    old = {path: path.read_bytes() for path in tmp_path.glob("north.ledger*")}
    asyncio.run(live.all())
    for path in tmp_path.glob("north.ledger*"):
        path.unlink()
    for path, data in old.items():
        path.touch(mode=0o600)
        path.write_bytes(data)
    with pytest.raises(LedgerError):
        asyncio.run(live.run("north"))


@pytest.mark.parametrize("name", ["coordinator", "a0", "north"])
def test_a_ledger_from_before_there_were_keepers_is_refused(about, keys, tmp_path, monkeypatch, name):
    """In one sentence, before anything is reserved, recorded or sent."""
    before = schema.TABLES
    for kind in ("keyed", "erasing", "disclosed", "shut", "unopened"):
        before = (
            before.replace(f", '{kind}'", "").replace(f"'{kind}', ", "").replace(f"'{kind}'", "'settled'")
        )
    monkeypatch.setattr(schema, "TABLES", before)
    live = Live(about, keys, tmp_path)
    Ledger(live.ledger(name)).close()
    monkeypatch.undo()
    with pytest.raises(LedgerError, match=r"older version.*--ledger"):
        asyncio.run(live.run(name))
    with Ledger(live.ledger(name)) as ledger:
        assert ledger.records(about.id) == []
        assert not ledger._store.rows("", ())
    assert live.keys_on_disk() == []


def test_a_witness_sees_a_keeper_that_was_put_back_with_its_keys(about, keys, tmp_path):
    """A full image: the ledger, its mark and the directory of keys. It would open again, with new noise."""
    live, far = Live(about, keys, tmp_path), tmp_path / "far"
    Ledger(live.ledger("north")).close()
    with Ledger(live.ledger("north")) as ledger:
        key_guard.take_witness(ledger, far, create=True)
    own = [keys["north"].directory / folder for folder in ("ledgers", "sessions")]
    image = {}

    def take_image(notice):
        if isinstance(notice, Answered) and notice.update == 1 and not image:
            files = [*tmp_path.glob("north.ledger*"), *(file for at in own for file in at.iterdir())]
            image.update((file, file.read_bytes()) for file in files)

    def kept():
        return Keeper(
            about, connect=live.where, ledger=live.ledger("north"), identity=keys["north"], witness=far,
            watch=take_image,
        )  # fmt: skip

    real = live.member
    live.member = lambda name: kept() if name == "north" else real(name)
    asyncio.run(live.all())
    assert image
    for file, content in image.items():
        file.touch(mode=0o600)
        file.write_bytes(content)

    with pytest.raises(LedgerError, match=r"the witness .* says that there were"):
        asyncio.run(live.run("north"))
