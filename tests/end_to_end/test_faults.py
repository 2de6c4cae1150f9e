"""Real processes, real sockets, real faults: kill -9, hung processes, strangers, stops and resumes."""

import asyncio
import json
import random
import signal
import socket
import ssl
import subprocess
import threading
import time
from contextlib import suppress

import pytest
import zenoh
from zenoh.handlers import Callback

from tacit.cli.crew import COORDINATOR, Tail
from tacit.protocol.codec import Codec
from tacit.protocol.messages import Feedback, Message, Report
from tacit.protocol.records import Spoke
from tacit.protocol.session import Deadlines
from tacit.runtime.identity import provision
from tacit.runtime.ledger import Ledger
from tacit.runtime.probe import require_endpoint
from tacit.runtime.verify import verify
from tacit.runtime.zenoh_transport import ZenohTransport

WAIT = 120.0  # generous: a busy machine is no failure


def until(condition, seconds=WAIT):
    """Wait for something that must come; its absence, not its time, is the failure."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)


def ended(crew, seconds=WAIT):
    until(lambda: crew.run.require_healthy() or not crew.run.running, seconds)
    crew.run.require_healthy()


class Rounds:
    """How many rounds the coordinator has closed, by its log."""

    def __init__(self, crew):
        self._tail, self._closed = Tail(crew.run.path(COORDINATOR, "log")), set()

    def __call__(self):
        self._closed |= {e["round"] for e in self._tail if e["event"] == "round-closed"}
        return len(self._closed)


def spoken(crew, name):
    with Ledger(crew.run.path(name, "ledger"), create=False) as ledger:
        return [r for r in ledger.records(crew.session.id) if isinstance(r, Spoke)]


class Tap:
    """Hears every frame on the wire, with a valid certificate and no place in the roster."""

    def __init__(self, crew):
        self.frames, self._lock = [], threading.Lock()
        transport = ZenohTransport(
            crew.session, 0, crew.keys["tap"].tls, connect=[crew.addresses["coordinator"]]
        )
        self._zenoh = zenoh.open(transport._config())  # waits for the coordinator, and finds it again
        self._heard = self._zenoh.declare_subscriber("tacit/**", Callback(self._hear, indirect=False))

    def _hear(self, sample):
        with self._lock:
            self.frames.append(sample.payload.to_bytes())

    def close(self):
        self._zenoh.close()


def start_tapped(crew):
    """Start all, the tap before anyone speaks."""
    crew.run.start(COORDINATOR)
    tap = Tap(crew)
    for unit in crew.run.units[1:]:
        crew.run.start(unit)
    return tap


def require_one_message_each(crew, frames):
    """No two different reports of one agent and update, nor two different feedbacks of one round."""
    codec, said = Codec(crew.session), {}
    for frame in set(frames):
        message = codec.open(frame)
        if isinstance(message, Message) and isinstance(message.body, Report | Feedback):
            number = message.body.update if isinstance(message.body, Report) else message.body.round
            assert said.setdefault((message.sender, number), frame) == frame
    return said


def require_sound(crew):
    """Everyone made all rounds, no ledger has two messages for one update, and the transcript holds."""
    session = crew.session
    results = crew.run.results()
    assert all(found["finished"] and found["rounds"] == session.rounds for found in results.values())
    by_ledger = {}
    for i, name in enumerate(crew.names):
        records = spoken(crew, name)
        assert len({r.update for r in records}) == len(records)
        by_ledger |= {(i, r.update): r.frame for r in records}
        assert sum(r.loss for r in records) <= session.account(i).total * (1 + 1e-12) <= crew.run.cap
    transcripts = [crew.run.path(unit, "transcript") for unit in crew.run.units]
    verdict = verify([path for path in transcripts if path.exists()])
    assert verdict.sound, verdict.findings
    assert verdict.rounds == session.rounds
    return by_ledger


def run_with_kills(crew, kills, seed):
    """Kill and restart members at random moments; returns what a tap on the wire heard."""
    chance, rounds = random.Random(seed), Rounds(crew)
    tap = start_tapped(crew)
    try:
        for k in range(kills):
            # Spread over the session, but with no regard for what a member is doing just then.
            at = crew.session.rounds * k // kills
            until(lambda at=at: rounds() >= at or not crew.run.running)
            time.sleep(chance.uniform(0, 0.2))
            unit = chance.choice(crew.run.units)
            crew.run.kill(unit)
            crew.run.start(unit)
        ended(crew)
    finally:
        tap.close()
    return tap.frames


@pytest.mark.parametrize("seed", [1])
def test_killed_at_random_everyone_finishes_and_nobody_says_two_things(crew, seed):
    made = crew(agents=3, rounds=14)
    frames = run_with_kills(made, kills=9, seed=seed)
    by_ledger = require_sound(made)
    on_wire = require_one_message_each(made, frames)
    for place, frame in by_ledger.items():
        assert on_wire.get(place, frame) == frame
    assert on_wire  # the tap goes through the coordinator, and is deaf while that is down


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_killed_hundreds_of_times(crew, seed):
    made = crew(agents=4, rounds=40)
    frames = run_with_kills(made, kills=40, seed=100 + seed)
    by_ledger = require_sound(made)
    on_wire = require_one_message_each(made, frames)
    for place, frame in by_ledger.items():
        assert on_wire.get(place, frame) == frame


def test_peers_killed_at_random_finish_too(crew):
    made = crew(agents=4, rounds=14, edges=((0, 1), (1, 2), (2, 3), (0, 3)), pace=0.15)
    made.run.start_all()
    chance = random.Random(3)
    logs = [Tail(made.run.path(name, "log")) for name in made.names]
    done = dict.fromkeys(made.names, 0)

    def least():
        for name, log in zip(made.names, logs, strict=True):
            done[name] = max([done[name], *(e["round"] + 1 for e in log if e["event"] == "updated")])
        return min(done.values())

    for at in (1, 4, 7):
        until(lambda at=at: least() >= at)
        name = chance.choice(made.names)
        made.run.kill(name)
        made.run.start(name)
    ended(made)
    require_sound(made)


def test_a_hung_agent_is_not_waited_for_and_comes_back(crew):
    made = crew(agents=3, rounds=12, deadlines=Deadlines(round=1.5, start=20.0, repeat=0.3))
    rounds = Rounds(made)
    made.run.start_all()
    until(lambda: rounds() >= 3)
    made.run.signal("agent-1", signal.SIGSTOP)
    at = rounds()
    until(lambda: rounds() >= at + 4)  # the others go on without it
    made.run.signal("agent-1", signal.SIGCONT)
    ended(made)
    require_sound(made)
    used = json.loads(made.run.path(COORDINATOR, "result").read_text())["used"]
    assert any("agent-1" not in names for names in used)
    assert "agent-1" in used[0]


def test_stopped_politely_and_resumed_by_the_same_command(crew):
    made = crew(agents=3, rounds=12)
    rounds = Rounds(made)
    made.run.start_all()
    until(lambda: rounds() >= 3)
    for unit in ("agent-0", COORDINATOR):
        made.run.signal(unit, signal.SIGTERM)
        assert made.run.processes[unit].wait(WAIT) == 130
        assert "run the same command again" in made.run.path(unit, "errors").read_text()
        made.run.start(unit)
    ended(made)
    require_sound(made)


def _knock(address, context, data=b""):
    host, port = require_endpoint(address)
    with socket.create_connection((host, port), timeout=10) as plain:
        if context is None:
            plain.sendall(data)
            plain.settimeout(2)
            plain.recv(100)
        else:
            with context.wrap_socket(plain, server_hostname=host) as secure:
                secure.settimeout(5)
                secure.recv(1)


def test_strangers_are_refused_and_disturb_nobody(crew, tmp_path):
    made = crew(agents=3, rounds=12)
    rounds, where = Rounds(made), made.addresses["coordinator"]
    made.run.start_all()
    until(lambda: rounds() >= 2)
    other = provision(tmp_path / "other", ["coordinator", "agent-0"])["agent-0"].tls
    nobody = ssl.create_default_context(cafile=made.keys["tap"].tls.authority)
    wrong = ssl.create_default_context(cafile=made.keys["tap"].tls.authority)
    wrong.load_cert_chain(other.certificate, other.private_key)
    for context in (nobody, wrong):
        with pytest.raises(ssl.SSLError, match=r"(?i)alert"):
            _knock(where, context)
    noise = random.Random(1)
    for _ in range(20):
        with suppress(OSError):
            _knock(where, None, noise.randbytes(noise.randrange(1, 4096)))
    ended(made)
    require_sound(made)
    used = json.loads(made.run.path(COORDINATOR, "result").read_text())["used"]
    assert all(len(names) == 3 for names in used)


def test_one_who_may_connect_but_speaks_for_others_changes_nothing(crew):
    """A valid certificate, no valid signature: fuzzed, replayed and forged frames for everyone."""
    made = crew(agents=3, rounds=12)
    rounds = Rounds(made)
    tap = start_tapped(made)
    try:
        until(lambda: rounds() >= 2 and len(tap.frames) > 10)
        root, chance = f"tacit/{made.session.id.hex()}", random.Random(2)
        for _ in range(300):
            frame = bytearray(chance.choice(tap.frames))
            for _ in range(chance.randrange(3)):
                frame[chance.randrange(len(frame))] = chance.randrange(256)
            key = chance.choice([f"{root}/to/c/0", f"{root}/from/c", f"{root}/to/0/c", f"{root}/to/c/99"])
            tap._zenoh.put(key, bytes(frame) if chance.random() < 0.9 else chance.randbytes(200_000))
        ended(made)
    finally:
        tap.close()
    require_sound(made)
    assert json.loads(made.run.path(COORDINATOR, "result").read_text())["refused"]


def test_a_second_session_on_the_same_value_is_refused_before_a_byte_leaves(crew):
    made = crew(agents=2, rounds=4, cap=1.5)
    made.run.start_all()
    ended(made)
    again = crew(agents=2, rounds=4, cap=1.5)
    listening = socket.create_server(("127.0.0.1", require_endpoint(again.addresses["coordinator"])[1]))
    listening.settimeout(0.2)
    with listening:
        made.run.path("agent-0", "ledger").rename(again.run.path("agent-0", "ledger"))
        made.run.path("agent-0", "ledger.mark").rename(again.run.path("agent-0", "ledger.mark"))
        again.run.start("agent-0")
        assert again.run.processes["agent-0"].wait(WAIT) == 3
        with pytest.raises(TimeoutError):
            listening.accept()
    assert "nothing was sent" in again.run.path("agent-0", "errors").read_text()


def test_a_disk_that_fails_ends_the_agent_with_its_own_code(crew):
    made = crew(agents=2, rounds=6)
    # A limit on file sizes stands for a full disk: the ledger cannot grow.
    command = ["bash", "-c", 'trap "" XFSZ; ulimit -f 8; exec "$@"', "agent", *made.run.command("agent-0")]
    done = subprocess.run(command, check=False, capture_output=True, timeout=WAIT)
    assert done.returncode == 4
    assert b"Traceback" not in done.stderr


def test_many_agents_in_one_process(crew):
    made = crew(agents=12, rounds=6, together=6, pace=0.0)
    made.run.start_all()
    ended(made)
    require_sound(made)


def test_a_frame_flood_does_not_block_the_loop():
    """The inbox drops what is too much; nothing else is lost."""
    from tacit.runtime.transport import Inbox

    async def main():
        inbox = Inbox(10, frames=100)
        for k in range(1000):
            inbox.put(b"%d" % k)
        return len(await inbox.take()), inbox.dropped

    assert asyncio.run(main()) == (100, 900)
