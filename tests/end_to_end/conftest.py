"""Sessions of real processes over real sockets, and what must hold of each at its end."""

import asyncio
import json
import ssl
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

import pytest
from tests.doubles import small_session
from tests.doubles.processes import COORDINATOR, Processes, Tail, free_ports
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from tacit.core.protocol.codec import Codec
from tacit.core.protocol.messages import Feedback, Message, Report
from tacit.core.protocol.records import Spoke
from tacit.core.protocol.session import Deadlines, Session
from tacit.live.identity.certificates import LOOPBACK
from tacit.live.identity.identity import provision
from tacit.live.ledger.ledger import Ledger
from tacit.live.sessions.file import write_session
from tacit.live.verification.verdict import verify

WAIT = 400.0  # generous: a busy machine is no failure


class Tap:
    """Sits between the agents and the coordinator with everyone's TLS keys, and hears every frame.

    TLS ends here and begins anew: agents are shown the coordinator's certificate, the coordinator theirs.
    Frames pass unchanged, and more can be put among them.
    """

    def __init__(self, play, port):
        self.frames, self._play, self._port = [], play, port
        self._up, self._down, self._cut = {}, {}, set()
        self._loop, self._ready, self._over = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))
        self._thread.start()
        assert self._ready.wait(WAIT)

    def _tls(self, side, name):
        tls, context = self._play.keys[name].tls, ssl.SSLContext(side)
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(tls.authority)
        context.load_cert_chain(tls.certificate)
        return context

    async def _serve(self):
        tls = self._tls(ssl.PROTOCOL_TLS_SERVER, COORDINATOR)
        quiet = {"compression": None, "ping_interval": None, "max_size": None}
        async with serve(
            self._pass_on, "127.0.0.1", self._port, ssl=tls, process_request=self._reach, **quiet
        ):
            self._ready.set()
            await self._over.wait()

    async def _reach(self, agent, request):
        """Connect to the coordinator as the agent that has just come."""
        agent.name = request.path.rpartition("/")[2]
        if agent.name in self._cut:
            return agent.respond(503, "the link is cut")
        quiet = {"compression": None, "ping_interval": None, "max_size": None, "proxy": None}
        try:
            agent.coordinator = await connect(
                self._play.addresses[COORDINATOR] + request.path,
                ssl=self._tls(ssl.PROTOCOL_TLS_CLIENT, agent.name),
                **quiet,
            )
        except (OSError, InvalidHandshake):
            return agent.respond(503, "the coordinator is down")

    async def _pass_on(self, agent):
        self._up[agent.name], self._down[agent.name] = agent.coordinator, agent

        async def carry(source, sink):
            with suppress(ConnectionClosed):
                async for frame in source:
                    self.frames.append(frame)
                    await sink.send(frame)
            await sink.close()

        await asyncio.gather(carry(agent, agent.coordinator), carry(agent.coordinator, agent))

    def cut(self, name):
        """Lose an agent's connection, and let it make no other."""
        self._cut.add(name)
        for end in (self._up.pop(name), self._down.pop(name)):
            self._loop.call_soon_threadsafe(end.transport.abort)

    def heal(self, name):
        """Let an agent connect again."""
        self._cut.discard(name)

    def put(self, name, frame, *, up):
        """Send a frame to the coordinator as an agent, or to the agent as the coordinator."""
        to = (self._up if up else self._down)[name]
        asyncio.run_coroutine_threadsafe(to.send(frame), self._loop).result(WAIT)

    def close(self):
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()
        self._loop.close()


@dataclass
class Play:
    """A session on this machine: its processes, its files, and what must hold of them."""

    run: Processes
    session: Session
    keys: dict
    addresses: dict
    wait: float = WAIT

    def __post_init__(self):
        self.folder, self.names = self.run.folder, [member.name for member in self.session.roster]
        self.agents = [unit for unit in self.run.units if unit != COORDINATOR]
        self._logs = {}

    def with_options(self, unit, *words):
        """Give a member's command more words, from its next start on."""
        usual, self.run.command = (
            self.run.command,
            lambda asked: [*usual(asked), *(words if asked == unit else ())],
        )

    # ---- waiting ----

    def until(self, condition, seconds=None):
        """Wait for something that must come; its absence, not its time, is the failure."""
        end = time.monotonic() + (seconds or self.wait)
        while not (found := condition()):
            assert time.monotonic() < end, "it did not come"
            time.sleep(0.02)
        return found

    def ended(self):
        """Wait for the end of all; one that failed is a failure."""
        self.until(lambda: self.run.require_healthy() or not self.run.running)
        self.run.require_healthy()

    def events(self, unit, event):
        """All lines of this kind in a member's log so far."""
        tail, lines = self._logs.setdefault(unit, (Tail(self.run.path(unit, "log")), []))
        lines += tail
        return [line for line in lines if line["event"] == event]

    def rounds(self):
        """How many rounds the coordinator has closed, by its log."""
        return len({line["round"] for line in self.events(COORDINATOR, "round-closed")})

    # ---- what was said ----

    def result(self, unit):
        printed = self.run.path(unit, "result").read_text()
        # Killed after the last round and started again, it says "Over" and only keeps its state.
        return json.loads(printed or self.run.path(unit, "state").read_text())

    def said(self, unit):
        """What a member told its operator."""
        return self.run.path(unit, "errors").read_text()

    def spoken(self, name):
        """The records of all messages an agent has made."""
        with Ledger(self.run.path(name, "ledger"), create=False) as ledger:
            return [r for r in ledger.records(self.session.id) if isinstance(r, Spoke)]

    def start_tapped(self):
        """Start all, with a tap between the agents and the coordinator."""
        [port] = free_ports(1)
        tap = Tap(self, port)
        for unit in self.agents:
            self.with_options(unit, "--connect", f"wss://127.0.0.1:{port}")
        self.run.start_all()
        return tap

    def require_one_message_each(self, frames):
        """No two different reports of one agent and update, nor two different feedbacks of one round."""
        codec, said = Codec(self.session), {}
        for frame in set(frames):
            message = codec.open(frame)
            if isinstance(message, Message) and isinstance(message.body, Report | Feedback):
                number = message.body.update if isinstance(message.body, Report) else message.body.round
                assert said.setdefault((message.sender, number), frame) == frame
        return said

    def require_ledgers(self, names=None):
        """No ledger has two messages for one update, and none passed its cap; all messages by place."""
        by_ledger = {}
        for i, name in enumerate(self.names):
            if names is None or name in names:
                records = self.spoken(name)
                assert len({r.update for r in records}) == len(records)
                by_ledger |= {(i, r.update): r.frame for r in records}
                spent, most = sum(r.loss for r in records), self.session.account(i).total
                assert spent <= most * (1 + 1e-12) <= self.run.cap
        return by_ledger

    def verdict(self):
        """What all transcripts together prove."""
        paths = [self.run.path(unit, "transcript") for unit in self.run.units]
        return verify([path for path in paths if path.exists()])

    def require_sound(self, names=None):
        """These (or all) made all rounds, ledgers keep the rule, and the transcript holds."""
        for name in names or self.names:
            found = self.result(name)
            assert found["finished"]
            assert found["rounds"] == self.session.rounds
        by_ledger, verdict = self.require_ledgers(), self.verdict()
        assert verdict.sound, verdict.findings
        assert verdict.rounds == self.session.rounds
        return by_ledger


@pytest.fixture
def crew(tmp_path, forked):
    """Return a maker of sessions; whatever happens, their processes end with the test."""
    made = []

    def make(
        agents=4, rounds=12, *, edges=None, pace=0.1, deadlines=None, cap=10.0, together=1,
        hosts=LOOPBACK, at=None, **more,
    ):  # fmt: skip
        folder = tmp_path / f"crew{len(made)}"
        folder.mkdir(mode=0o700)
        names = [f"agent-{i}" for i in range(agents)]
        first = [] if edges else [COORDINATOR]
        listening = [*first, *(names if edges else [])]
        keys = provision(folder / "keys", [*first, *names, "tap"], listening=listening, hosts=hosts)
        soon = Deadlines(round=20.0, start=20.0, repeat=0.3)
        session = small_session(keys, names, edges=edges, rounds=rounds, deadlines=deadlines or soon, **more)
        ports = dict(zip(listening, free_ports(len(listening)), strict=True))
        addresses = {
            name: f"wss://{(at or {}).get(name, '127.0.0.1')}:{port}" for name, port in ports.items()
        }
        write_session(session, folder / "session.toml", addresses=addresses)
        values = {name: float(i % 10) for i, name in enumerate(names)}
        one = Processes(folder, session, values, cap, together, pace)
        made.append(one)
        return Play(one, session, keys, addresses)

    yield make
    for one in made:
        one.stop_all()
