"""A lying coordinator with the real key, against real agents over mutual TLS.

It tells each agent another story, goes back and ahead, answers nonsense, and asks for the same round a
thousand times. What it learns is bounded all the same: the auditor's likelihood of every byte it heard.
"""

import asyncio
import base64
import json
import random
import struct
import subprocess
import sys
from collections import defaultdict
from contextlib import suppress

import msgspec
import numpy as np
import pytest
from tests.doubles import known_feedback

from tacit.core.history import AgentHistory, Wholes
from tacit.core.protocol.codec import Codec, digest
from tacit.core.protocol.messages import NOTHING_HEARD, Ask, Feedback, Message, Place, Present, Report
from tacit.core.protocol.places import LastUsed
from tacit.core.protocol.roster import COORDINATOR
from tacit.lab.audit.likelihood import log_likelihood_ratio
from tacit.live.transport.base import Frame
from tacit.live.transport.websocket import WebsocketTransport

ASKED = 1000  # times, for one and the same round
ROUNDS = 6


async def received(transport):
    """Wait until something arrives, and return all of it."""
    while not (arrivals := transport.take()):
        await asyncio.sleep(0.01)
    return arrivals


class Liar:
    """Holds the coordinator's key and certificate, and keeps every byte it hears."""

    def __init__(self, play, seed):
        self.play, self.session, self.chance = play, play.session, random.Random(seed)
        self.codec, self.sign = Codec(play.session), play.keys["coordinator"].sign
        self.heard = defaultdict(list)  # frames of reports by agent and update, as they came
        self.told = {i: [] for i in range(play.session.n)}  # each agent's own story
        self.transport = WebsocketTransport(
            play.session, COORDINATOR, play.keys["coordinator"].tls, listen=[play.addresses["coordinator"]]
        )

    async def run(self):
        """Lie until every agent has ended."""
        await self.transport.open()
        try:
            while self.play.run.running:
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.05):
                        for arrival in await received(self.transport):
                            if isinstance(arrival, Frame):
                                self.answer(self.codec.open(arrival.data))
        finally:
            await self.transport.close()

    def answer(self, message):
        assert isinstance(message, Message)
        who, body = message.sender, message.body
        if isinstance(body, Report):
            first = not self.heard[who, body.update]
            self.heard[who, body.update].append(message.frame)
            if first:
                self.deceive(who, body.update)
            elif len(self.heard[who, body.update]) == 3:  # it has repeated itself: let it go on
                self.feed(who, body.update)
        elif isinstance(body, Ask | Present):
            at = body.round if isinstance(body, Ask) else body.update
            for frame in self.told[who][at:]:
                self.transport.send(who, frame)
            if len(self.told[who]) == at < self.session.rounds:
                self.say(who, Ask(at))

    def say(self, who, body):
        frame = self.codec.seal(COORDINATOR, body, self.sign)
        self.transport.send(who, frame)
        return frame

    def feedback(self, t, numbers, before):
        body = known_feedback(self.codec, t, [0], before=before)
        return msgspec.structs.replace(body, numbers=numbers)

    def deceive(self, who, u):
        """Everything but the truth about update u; none of it may make the agent say anything new."""
        limit, width = self.session.lattice.limit, self.session.number_bytes
        before = digest(self.told[who][-1]) if self.told[who] else NOTHING_HEARD
        lies = [
            self.feedback(u, self.codec.pack([limit + 1]), before),  # absurd
            self.feedback(u, self.codec.pack([-(256**width) // 2]), before),
            self.feedback(u, struct.pack(">d", float("nan")), before),
            self.feedback(u, struct.pack(">d", float("inf")).ljust(width, b"\0"), before),
            self.feedback(min(u + 3, ROUNDS - 1), self.codec.pack([0]), bytes(32)),  # rounds skipped
            Ask(ROUNDS - 1),
        ]
        if u:
            lies += [self.feedback(u - 1, self.codec.pack([limit // 2]), before), Ask(u - 1)]  # another past
        self.chance.shuffle(lies)
        for body in lies:
            self.say(who, body)
        for frame in self.told[who]:  # replayed
            self.transport.send(who, frame)
        again = self.codec.seal(COORDINATOR, Ask(u), self.sign)
        for _ in range(ASKED if u == 1 else 30):
            self.transport.send(who, again)

    def feed(self, who, u):
        """One more step of this agent's own story, as far from the others' as can be."""
        if len(self.told[who]) > u:
            return
        limit = self.session.lattice.limit
        y = self.chance.choice([limit, -limit, self.chance.randrange(-limit, limit), who])
        before = digest(self.told[who][-1]) if self.told[who] else NOTHING_HEARD
        self.told[who].append(self.say(who, self.feedback(u, self.codec.pack([y]), before)))


def tapped(liar, who):
    """One agent's part of what the liar knows, as the auditor reads it: every distinct message is a slot."""
    session, codec = liar.session, liar.codec
    agent, slots, updates = session.lattice_agent(who), [], []
    for u in range(session.rounds):
        for frame in dict.fromkeys(liar.heard[who, u]):
            slots.append(codec.open(frame).numbers[0])
            updates.append(u)
    x, y = np.array([slots], dtype=object), [codec.open(f).numbers[0] for f in liar.told[who]]
    y = np.array([y], dtype=object)
    exponent = np.array([[agent.message_exponent(u) for u in updates]])
    return AgentHistory(
        law=session.mechanism.law.of_agent(who),
        x=np.asarray(session.lattice.value(x, exponent)),
        y=np.asarray(session.lattice.value(y)),
        said=np.ones(x.shape, dtype=bool),
        rounds_of=np.array(updates),
        update=np.array([updates]),
        exponent=exponent,
        wholes=Wholes(session.lattice, x, y),
    )


def worst(view, adjacency=1.0):
    """The largest log-likelihood ratio between adjacent starts, over the whole range."""
    starts = np.linspace(0, 10 - adjacency, 37)
    return max(abs(log_likelihood_ratio(view, s, s + adjacency)[0]) for s in starts)


def lied_to(crew, kind, seed):
    made = crew(agents=3, rounds=ROUNDS, pace=0.0, law=kind, decay=0.8 if kind == "fading" else None)
    for name in made.names:
        made.with_options(name, "--transcript", str(made.run.path(name, "transcript")))
        made.run.start(name)
    liar = Liar(made, seed)

    async def main():
        async with asyncio.timeout(made.wait):
            await liar.run()

    asyncio.run(main())
    made.ended()
    return made, liar


def check(made, liar):
    """What must hold of everything that the liar heard."""
    by_ledger = made.require_ledgers()
    for place, frames in liar.heard.items():
        assert len(set(frames)) == 1, "another message for the same update"
        assert by_ledger[place] == frames[0]
    assert all(len(liar.heard[i, u]) >= 3 for i in range(3) for u in range(ROUNDS))
    for i in range(3):
        promised = made.session.account(i).total
        assert worst(tapped(liar, i)) <= promised * (1 + 1e-9)


# tests/protocol/test_lies.py has both kinds without processes
@pytest.mark.parametrize("kind", ["fading", pytest.param("one-shot", marks=pytest.mark.long)])
def test_a_liar_learns_no_more_than_was_promised_and_is_found_out(crew, kind):
    made, liar = lied_to(crew, kind, seed=1)
    check(made, liar)
    for name in made.names:
        found = made.result(name)
        assert found["finished"]
        assert found["loss"] <= made.session.account(0).total
        refused = found["refused"]
        assert {"replay", "equivocation", "late"} <= refused.keys()
        assert refused["out_of_range"] == 3 * ROUNDS
        assert refused["wrong_length"] == ROUNDS
        assert refused["too_often"] > 0
    # Of a thousand questions some were answered, with the same bytes; the rest were counted.
    assert max(map(len, liar.heard.values())) < ASKED

    paths = [str(made.run.path(name, "transcript")) for name in made.names]
    command = [sys.executable, "-c", "from tacit.cli import main; main()", "verify", *paths]
    told = subprocess.run(command, capture_output=True, text=True, timeout=made.wait, check=False)
    assert told.returncode == 1, told.stderr
    words = " ".join(told.stdout.split())
    assert "UNSOUND: session test" in words
    assert "equivocation: one sender signed two different messages for one round" in words
    assert "equivocated coordinator" in words
    told = subprocess.run([*command, "--json"], capture_output=True, timeout=made.wait, check=False)
    assert json.loads(told.stdout)["equivocated"] == ["coordinator"]


class Namer(Liar):
    """Closes every round at once, with messages of agents that have not spoken."""

    def answer(self, message):
        assert isinstance(message, Message)
        who, body = message.sender, message.body
        if isinstance(body, Report):
            self.heard[who, body.update].append(message.frame)
        elif isinstance(body, Ask | Present) and not self.told[who]:
            state = LastUsed(self.session.n)
            state.use(0, dict.fromkeys(range(self.session.n), bytes(range(32))))
            self.told[who].append(self.say(who, known_feedback(self.codec, 0, [0], state=state.root)))
            self.say(who, state.place(0, who))


def test_an_agent_that_is_said_to_have_spoken_keeps_it_as_evidence_and_stops(crew):
    """Its own key or ledger is not blamed for what the coordinator signed."""
    made = crew(agents=2, rounds=ROUNDS, pace=0.0)
    for name in made.names:
        made.with_options(name, "--transcript", str(made.run.path(name, "transcript")))
    for attempt in range(2):  # the same command again: it stays stopped, without any coordinator
        for name in made.names:
            made.run.start(name)
        if attempt == 0:
            namer = Namer(made, 1)

            async def main(namer=namer):
                async with asyncio.timeout(made.wait):
                    await namer.run()

            asyncio.run(main())
        for name in made.names:
            assert made.run.processes[name].wait(made.wait) == 5
            told = made.said(name)
            assert told.count("feedback of round 0 has a message of") == attempt + 1
            assert told.count("The coordinator may lie.") == attempt + 1
    assert not namer.heard
    for name in made.names:
        assert not made.spoken(name)
        lines = map(json.loads, made.run.path(name, "transcript").read_text().splitlines())
        kept = [line for line in lines if line.get("note") == "evidence"]
        found = [namer.codec.open(base64.b64decode(line["frame"])) for line in kept]
        assert [type(message.body) for message in found] == [Feedback, Place]
        assert {(message.sender, message.body.round) for message in found} == {(COORDINATOR, 0)}


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 12))
def test_whatever_the_lies(crew, seed):
    check(*lied_to(crew, "fading", seed))


def test_an_agent_that_drew_twice_would_fail_the_bound(crew):
    """The ratio of a tap with one more draw passes the promise, so the check above can fail."""
    made = crew(agents=1, rounds=ROUNDS)
    liar = Liar(made, 0)
    agent, far = made.session.lattice_agent(0), 1 << 60

    def report(u, x):
        body = Report(u, agent.message_exponent(u), liar.codec.pack([x]), NOTHING_HEARD)
        return liar.codec.seal(0, body, made.keys["agent-0"].sign)

    liar.told[0] = [
        liar.codec.seal(COORDINATOR, liar.feedback(u, liar.codec.pack([0]), bytes(32)), liar.sign)
        for u in range(ROUNDS)
    ]
    for u in range(ROUNDS):
        liar.heard[0, u] = [report(u, far)]
    promised = made.session.account(0).total
    assert promised * (1 - 1e-6) < worst(tapped(liar, 0)) <= promised * (1 + 1e-9)
    liar.heard[0, 0].append(report(0, far + 1))
    assert worst(tapped(liar, 0)) > 1.2 * promised
