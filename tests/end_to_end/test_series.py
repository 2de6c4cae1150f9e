"""A series by real processes over TLS: half a second per slot, and one kill -9 of an agent, a keeper and the
coordinator. Slots may be lost, on a busy machine all of them: what is tested is that nothing is said twice,
that everybody tells the same story, and that verify finds it sound.
"""

import json
import math
import os
import signal
import socket
import sys
import time

import pytest

from tacit.core.protocol.records import Closed, Disclosed, Spoke
from tacit.core.protocol.roster import Member
from tacit.core.protocol.session import Deadlines
from tacit.core.series import Hides
from tacit.live.identity.identity import provision
from tacit.live.identity.keys import key_text
from tacit.live.identity.roster import Roster
from tacit.live.ledger.ledger import Ledger
from tacit.live.sessions.file import write_session
from tacit.live.sessions.series import draft_series
from tacit.live.verification.verdict import verify

TACIT = (sys.executable, "-c", "from tacit.cli import main; main()")
AGENTS, WAIT = ["a0", "a1"], 300


class Processes:
    """The members of a series, each a process of `tacit`, with their files in one folder."""

    def __init__(self, folder, warm, slots, interval, lead):
        self.folder, self.running, self._start = folder, {}, warm.start
        keys = provision(folder / "keys", ["coordinator", *AGENTS, "north"], listening=["coordinator"])
        with socket.create_server(("127.0.0.1", 0)) as made:
            end = f"wss://127.0.0.1:{made.getsockname()[1]}"
        members = tuple(Member(name, keys[name].public_key) for name in (*AGENTS, "north"))
        self.session = draft_series(
            "load", Roster(members, keys["coordinator"].public_key), slots=slots, interval=interval,
            hides=Hides.parse("step:2"), begins=math.ceil(time.time() + lead), low=0.0, high=10.0, loss=30.0,
            keepers=["north"], quorum=1, deadlines=Deadlines(round=interval / 2, start=15.0, repeat=0.2),
        )  # fmt: skip
        write_session(self.session, folder / "s.toml", addresses={"coordinator": end})
        (folder / "trust").write_text(f"north={key_text(keys['north'].public_key)}\n")
        for i, name in enumerate(AGENTS):
            value = folder / f"{name}.value"
            value.touch(mode=0o600)
            value.write_text(str(3.0 + i))

    def start(self, name):
        verb = {"coordinator": "coordinate", "north": "keep"}.get(name, "join")
        words = [
            verb,
            "s.toml",
            "--keys",
            f"keys/{name}",
            "--ledger",
            f"{name}.ledger",
            "--log",
            f"{name}.log",
        ]
        words += ["--timeout", str(WAIT), "--transcript", f"{name}.jsonl"]
        if verb == "join":
            words += ["--value-file", f"{name}.value", "--cap", "30", "--hides", "step:2", "--delta", "1e-6"]
            words += ["--trust", "@trust"]
        with (self.folder / f"{name}.out").open("a") as out:
            self.running[name] = self._start([*TACIT, *words], cwd=self.folder, stdout=out, stderr=out)

    def kill(self, name):
        self.running[name].send_signal(signal.SIGKILL)
        self.running[name].wait()

    def told(self, name, event):
        path = self.folder / f"{name}.log"
        lines = path.read_text().splitlines() if path.exists() else []
        return [found for line in lines if (found := _json(line)).get("event") == event]

    def wait_for(self, name, event, count):
        """Wait until a member has logged something so often."""
        end = time.monotonic() + WAIT
        while len(self.told(name, event)) < count:
            assert time.monotonic() < end, f"{name} does not say {event}"
            assert self.running[name].poll() in (None, 0), (self.folder / f"{name}.out").read_text()
            time.sleep(0.05)

    def records(self, name, kind):
        with Ledger(self.folder / f"{name}.ledger") as ledger:
            return [record for record in ledger.records(self.session.id) if isinstance(record, kind)]


def _json(line):
    try:
        return json.loads(line)
    except ValueError:
        return {}  # cut off by a kill


def play(folder, warm, slots, interval=0.5, lead=4.0):
    members = Processes(folder, warm, slots, interval, lead)
    for name in ("coordinator", "north", *AGENTS):
        members.start(name)
    third = slots // 4
    for k, name in enumerate(("a0", "north", "coordinator"), 1):
        members.wait_for("coordinator", "mean-published", k * third)
        members.kill(name)
        members.start(name)
    for name, process in members.running.items():
        assert process.wait(WAIT) == 0, (folder / f"{name}.out").read_text()
    return members


def judge(members, slots):
    folder = members.folder
    verdict = verify([folder / f"{name}.jsonl" for name in ("coordinator", *AGENTS)], session=members.session)
    assert verdict.sound, verdict.findings
    assert verdict.rounds == slots
    assert [record.round for record in members.records("coordinator", Closed)] == list(range(slots))
    for name in AGENTS:
        spoke = [record.update for record in members.records(name, Spoke)]
        assert spoke == sorted(set(spoke))
        means = {row["slot"]: row["mean"] for row in members.told(name, "mean-published")}
        assert all(verdict.series.means[slot] == mean for slot, mean in means.items())
        assert slots - 1 in means
    opened = [record.update for record in members.records("north", Disclosed)]
    assert opened == sorted(set(opened))
    assert sum(size > 0 for size in verdict.series.used) <= len(opened)
    assert not [name for name in os.listdir(folder) if name.endswith(".ephemeral")]
    return verdict


def test_a_short_series_with_one_kill_of_each(tmp_path, warm):
    judge(play(tmp_path, warm, 12), 12)


@pytest.mark.long
def test_two_hundred_slots_with_one_kill_of_each(tmp_path, warm):
    verdict = judge(play(tmp_path, warm, 200), 200)
    assert verdict.series.lost < 150
