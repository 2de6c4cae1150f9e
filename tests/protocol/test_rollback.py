"""A disk that is put back at any step of a session: of each update, others read one message at most.

An agent or a keeper is killed after a step of a session, and started again from every copy of its ledger that
there was: after each record. What it had sent by then has arrived, or is lost with its connection. A frame
that is lost was read by nobody, so only what arrives counts.
"""

from functools import cache

import numpy as np
import pytest
from tests.doubles import Harness, ListLedger, ScriptedNoise, known_ephemeral, known_series, known_session

from tacit.base.errors import LedgerError
from tacit.core.protocol.codec import Codec
from tacit.core.protocol.effects import Heard
from tacit.core.protocol.messages import COORDINATOR, Opening, Report
from tacit.core.protocol.records import Disclosed
from tacit.core.protocol.session import Deadlines
from tacit.core.protocol.tables import AgentPhase

FAST = Deadlines(round=10.0, start=20.0, repeat=1.0)
AGENT, KEEPER = 0, 2
SESSIONS = {
    "fading": lambda: known_session(2, 3, quorum=1, deadlines=FAST),
    "one-shot": lambda: known_session(2, 3, quorum=1, law="one-shot", deadlines=FAST),
    "keepers": lambda: known_session(2, 3, quorum=1, keepers=2, deadlines=FAST),
    "series": lambda: known_series(2, 3, quorum=1, keepers=2),
    "open": lambda: known_session(2, 1, law="one-shot", quorum=1, closes=30, deadlines=FAST),
    "open, keepers": lambda: known_session(
        2, 1, law="one-shot", quorum=1, keepers=2, closes=30, deadlines=FAST
    ),
}


@cache
def session_of(kind):
    return SESSIONS[kind]()


class Run:
    """A session with a member that is put back, and which of its messages others have read, by update."""

    def __init__(self, kind, who):
        session = session_of(kind)
        draws = np.zeros((session.rounds, 2), dtype=object)
        values = [(lambda slot, i=i: float(i + slot)) if session.series else 0.25 for i in range(session.n)]
        self.harness = Harness(session, values, ScriptedNoise(draws, fresh=True))
        self.who, self.codec, self.read = who, Codec(session), {}
        self._process = self.harness.process
        self.harness.process = self.process
        self.harness.start()

    def process(self, number, event):
        if isinstance(event, Heard) and number != self.who and self.harness.machines[number] is not None:
            for update in self.said(event.frame):
                self.read.setdefault(update, set()).add(event.frame)
        self._process(number, event)

    def said(self, frame):
        """The update of a message of this member; nothing for other frames."""
        message = self.codec.read(frame, own=True)
        if message.sender == self.who and isinstance(message.body, Report | Opening):
            yield message.body.round if isinstance(message.body, Opening) else message.body.update

    def until(self, step):
        """Run for so many steps."""
        steps = iter(range(step))
        self.harness.run(lambda harness: next(steps, None) is None or harness.finished())

    def steps(self):
        """The steps after which something else follows from a rollback, and the number of records then."""
        found, before = [], None

        def look(harness):
            nonlocal before
            look.step += 1
            if (now := self.state()) != before:
                found.append((look.step, now[0]))
            before = now
            return harness.finished()

        look.step = -1
        self.harness.run(look)
        return found

    def state(self):
        """What decides about what follows from a rollback now."""
        flying = [p.frame for p in self.harness.network.flying if p.source == self.who]
        waiting = [frame for frame in flying if any(True for _ in self.said(frame))]
        return len(self.harness.ledgers[self.who]), waiting, {u: len(read) for u, read in self.read.items()}

    def put_back(self, keep, *, arrives):
        """Kill it, restore a copy of its ledger, and run on."""
        harness, who, network = self.harness, self.who, self.harness.network
        for packet in sorted(network.flying) if arrives else ():
            if packet.source == who:
                network.flying.remove(packet)
                harness.process(packet.to, Heard(packet.frame, who))
        harness.stop(who)
        network.flying = [p for p in network.flying if who not in (p.source, p.to)]
        harness.ledgers[who] = ListLedger(harness.ledgers[who].records()[:keep])
        if harness.session.keepers:
            harness.ephemeral[who] = known_ephemeral(who)
        try:
            harness.start(who)
            harness.run(lambda h: h.finished() or h.machine(who).phase is AgentPhase.STOPPED, most=400)
        except LedgerError:
            return "refuses"
        return harness.machine(who).phase.value


@pytest.mark.parametrize("every", [2, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("arrives", [True, False], ids=["arrives", "lost"])
@pytest.mark.parametrize(
    ("kind", "who"),
    [(kind, AGENT) for kind in SESSIONS]
    + [(kind, KEEPER) for kind in ("keepers", "series", "open, keepers")],
    ids=lambda given: {AGENT: "agent", KEEPER: "keeper"}.get(given, given),
)
def test_of_each_update_one_message_is_read(kind, who, arrives, every):
    """After each step, or after every second: what arrives and what is lost take turns."""
    ends = set()
    for step, records in Run(kind, who).steps()[every - 1 if arrives else 0 :: every]:
        for keep in range(1, records + 1):
            run = Run(kind, who)
            run.until(step)
            ends.add(run.put_back(keep, arrives=arrives))
            assert all(len(frames) == 1 for frames in run.read.values()), (step, keep)
    assert "finished" in ends  # the newest copy goes on
    assert not arrives or ends & {"refuses", "stopped"}


@pytest.mark.parametrize("kind", ["keepers", "series"])
def test_a_keeper_that_connects_is_shown_what_it_has_opened(kind):
    """Also where nobody would ask it to open that again: its ledger is an old copy, so it stops."""
    run = Run(kind, KEEPER)
    assert run.harness.run(lambda h: len(h.machine(COORDINATOR).course.feedback) == 2)
    records = run.harness.ledgers[KEEPER].records()
    keep = next(k for k, r in enumerate(records) if isinstance(r, Disclosed) and r.update == 1)
    assert run.put_back(keep, arrives=True) == "refuses"
