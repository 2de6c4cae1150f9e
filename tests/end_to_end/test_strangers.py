"""Strangers, impostors and noise at a live session: refused, counted by reason, and nobody is disturbed."""

import asyncio
import json
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import urllib.request
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.doubles import known_feedback

from tacit.core.protocol.codec import Codec
from tacit.core.protocol.messages import NOTHING_HEARD, Ask, Done, Reason, Report, Stop
from tacit.core.protocol.records import Spoke
from tacit.core.protocol.roster import COORDINATOR as SERVER
from tacit.core.protocol.session import Deadlines
from tacit.live.identity.certificates import Request
from tacit.live.identity.identity import bundle, install, load_authority, new_agent, provision
from tacit.live.identity.roster import COORDINATOR
from tacit.live.ledger.ledger import Ledger
from tacit.live.runtime.limits import require_files
from tacit.live.sessions.file import write_session
from tacit.live.transport.connection_diagnosis import require_endpoint

ALREADY_SAID = {4: "another process uses the same key", 5: "another process"}
"""What an agent says, by exit code, when its key has spoken elsewhere: shown its message, or only named."""
FRAMES = 3000  # over the network; a hundred thousand are in tests/protocol


def knock(address, context, data=b""):
    """Try a TLS handshake, or send plain bytes; whoever answers says why not."""
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


def expired(play, name):
    """A member's keys, or a new one's, with a certificate of the right authority that has run out."""
    home, authority = play.folder / "keys" / name, load_authority(play.folder / "keys" / "authority")
    path = home / "request.pem" if home.exists() else new_agent(name, home, durable=False)
    request = Request.parse(path.read_bytes(), str(path))
    then = datetime.now(UTC) - timedelta(minutes=30)
    signed = authority.sign(request, 0.001, now=then)
    return install(bundle(signed, authority), home, durable=False, now=then)


def page(play, unit, what):
    """Read a member's status over HTTP, at the address its log names."""
    text = play.until(lambda: [line["text"] for line in play.events(unit, "status")])[0]
    url = next(word for word in text.split() if word.endswith(f"/{what}"))
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


def test_without_the_right_certificate_nobody_gets_in(crew, tmp_path):
    made = crew(agents=3, rounds=14, pace=0.2)
    made.run.start_all()
    made.until(lambda: made.rounds() >= 1)
    where = made.addresses[COORDINATOR]
    other = provision(tmp_path / "other", ["coordinator", "agent-0"])["agent-0"].tls
    late, known = expired(made, "late").tls, made.keys["tap"].tls
    for tls, alert in ((None, "required"), (other, "unknown ca|decrypt error"), (late, "expired")):
        context = ssl.create_default_context(cafile=known.authority)
        if tls is not None:
            context.load_cert_chain(tls.certificate, tls.private_key)
        with pytest.raises(ssl.SSLError, match=rf"(?i)alert.*({alert})"):
            knock(where, context)
    told = made.until(
        lambda: len(made.events(COORDINATOR, "trouble")) >= 3 and made.events(COORDINATOR, "trouble")
    )
    for words in ("it showed no certificate", "another authority signed", "its certificate has expired"):
        assert any(words in event["text"] for event in told), words
    noise = random.Random(1)
    for _ in range(20):
        with suppress(OSError):
            knock(where, None, noise.randbytes(noise.randrange(1, 4096)))
    made.ended()
    made.require_sound()
    assert all(len(names) == 3 for names in made.result(COORDINATOR)["used"])


def test_one_whose_certificate_has_expired_is_told_to_renew_it(crew):
    made = crew(agents=2, rounds=4)
    expired(made, "agent-0")
    made.run.start("agent-0")
    assert made.run.processes["agent-0"].wait(made.wait) == 2
    assert re.search(r"certificate of agent-0 expired on .*: let its authority sign", made.said("agent-0"))
    assert not made.run.path("agent-0", "ledger").exists()


def broken(frame, chance):
    """A frame with a few bytes changed, cut, added or doubled."""
    data = bytearray(frame)
    for _ in range(chance.randint(1, 3)):
        place = chance.randrange(len(data) or 1)
        match chance.randrange(4):
            case 0 if data:
                data[place] ^= 1 << chance.randrange(8)
            case 1:
                del data[place : place + chance.randint(1, 9)]
            case 2:
                data[place:place] = chance.randbytes(chance.randint(1, 9))
            case 3:
                data += data[:place]
    return bytes(data)


def forged(play, codec):
    """Well-formed frames for everyone, signed by an agent that is not who it says."""
    sign, rounds, numbers = play.keys["agent-2"].sign, play.session.rounds, codec.pack([1 << 70])
    for t in range(rounds):
        for who in (0, 1):
            body = Report(t, play.session.exponent(who, t), numbers, NOTHING_HEARD)
            yield codec.seal(who, body, sign)
        yield codec.seal(SERVER, known_feedback(codec, t, [1 << 70]), sign)
        yield codec.seal(SERVER, Ask(t), sign)
    yield codec.seal(0, Done(rounds, NOTHING_HEARD), sign)
    yield codec.seal(0, Stop(0, Reason.OPERATOR), sign)
    yield codec.seal(SERVER, Stop(0, Reason.OPERATOR), sign)


def test_noise_and_forgeries_at_a_live_coordinator_and_a_live_agent(crew):
    """As an agent and as the coordinator: broken, replayed, forged, oversized frames, by the thousand."""
    made = crew(agents=3, rounds=12, pace=0.15, deadlines=Deadlines(round=300.0, start=60.0, repeat=0.3))
    for unit in (COORDINATOR, "agent-0"):
        made.with_options(unit, "--status", "0")
    tap = made.start_tapped()
    try:
        made.until(lambda: made.rounds() >= 2 and len(tap.frames) > 10)
        made.run.signal("agent-2", signal.SIGSTOP)  # the session stays until its status has been read
        chance, heard = random.Random(2), list(tap.frames)
        frames = [broken(chance.choice(heard), chance) for _ in range(FRAMES)]
        frames += [*forged(made, Codec(made.session)), *[chance.randbytes(4000)] * 5]
        # Up: to the coordinator as agent-1. Down: to agent-0 as the coordinator. Frames heard before go both
        # ways: which of them is a replay depends on who hears it.
        sent = [(frame, chance.random() < 0.5) for frame in frames]
        sent += [(frame, up) for frame in heard for up in (True, False)]
        chance.shuffle(sent)
        for frame, up in sent:
            tap.put("agent-1" if up else "agent-0", frame, up=up)

        def counted(unit):
            seen = json.loads(page(made, unit, "status"))["counts"].get("refused", {})
            return seen if {"bad_signature", "malformed", "replay"} <= seen.keys() else None

        for unit in (COORDINATOR, "agent-0"):
            made.until(lambda unit=unit: counted(unit))
            metric = f'tacit_refused_total{{member="{unit}",reason="bad_signature"'
            assert metric in page(made, unit, "metrics")
        made.run.signal("agent-2", signal.SIGCONT)
        made.ended()
    finally:
        tap.close()
    made.require_sound()
    result = made.result(COORDINATOR)
    assert all(len(names) == 3 for names in result["used"])
    assert sum(result["refused"].values()) > FRAMES / 3
    assert sum(made.result("agent-0")["refused"].values()) > FRAMES / 3


def second_process(play, name):
    """The command of an agent, with its keys copied to another place and a ledger of its own.

    Whoever copied them has removed what keys remember of ledgers.
    """
    shutil.copytree(play.folder / "keys" / name, play.folder / "copied", dirs_exist_ok=True)
    (play.folder / "copied").chmod(0o700)
    for memory in ("sessions", "ledgers"):
        shutil.rmtree(play.folder / "copied" / memory, ignore_errors=True)
    words = play.run.command(name)
    for option, value in (("--keys", "copied"), ("--ledger", "second.ledger"), ("--log", "second.log")):
        words[words.index(option) + 1] = str(play.folder / value)
    return words


def test_a_second_process_with_the_same_key_learns_of_the_first_and_never_speaks(crew):
    made = crew(agents=3, rounds=8, pace=0.2, deadlines=Deadlines(round=300.0, start=60.0, repeat=0.3))
    made.run.start_all()
    made.until(lambda: made.rounds() >= 3)
    made.run.signal("agent-1", signal.SIGSTOP)  # the session stays where it is
    command = second_process(made, "agent-2")
    done = subprocess.run(command, capture_output=True, text=True, timeout=made.wait, check=False)
    made.run.signal("agent-1", signal.SIGCONT)
    assert done.returncode in ALREADY_SAID
    assert ALREADY_SAID[done.returncode] in done.stderr
    with Ledger(made.folder / "second.ledger", create=False) as ledger:
        assert not any(isinstance(record, Spoke) for record in ledger.records(made.session.id))
    made.ended()
    made.require_sound()
    assert all(len(names) == 3 for names in made.result(COORDINATOR)["used"])


def test_of_two_that_begin_at_once_with_one_key_the_first_message_counts(crew):
    made = crew(agents=3, rounds=12, pace=0.2)
    made.run.start(COORDINATOR)
    second = subprocess.Popen(
        second_process(made, "agent-2"), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    try:
        made.run.start("agent-2")
        made.until(lambda: made.events("agent-2", "cost") and made.events("second", "cost"))
        for name in ("agent-0", "agent-1"):  # now all are there, and both are asked for message 0
            made.run.start(name)
        for unit in (COORDINATOR, "agent-0", "agent-1"):
            assert made.run.processes[unit].wait(made.wait) == 0
        _, told = second.communicate(timeout=made.wait)
    finally:
        second.kill()
    code = made.run.processes["agent-2"].wait(made.wait)
    ends = (second.returncode, told.decode()), (code, made.said("agent-2"))
    stopped = [(code, words) for code, words in ends if code != 0]
    assert stopped  # both, where each has a message that counts: tests/protocol/test_one_key.py
    assert all(ALREADY_SAID[code] in words for code, words in stopped)
    result, verdict = made.result(COORDINATOR), made.verdict()
    assert "agent-2" in result["used"][0]
    assert len(stopped) == 2 or all(len(names) == 3 for names in result["used"])
    # Each replaces the other's connection: both may have spoken, or one may have learned of it before.
    both_spoke = "equivocation" in result["refused"]
    assert verdict.equivocators == (("agent-2",) if both_spoke else ())
    assert {f.name for f in verdict.findings if f.wrong} == ({"equivocation"} if both_spoke else set())
    assert verdict.means == made.session.rounds


# ---- without a certificate, or with one of somebody else ------------------------------------------------


class Flood:
    """Opens so many plain connections a second to a port and leaves them open for a while."""

    def __init__(self, address, per_second):
        self.where, self.opened, self._held = require_endpoint(address), 0, []
        self._pause, self._over = 1 / per_second, threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        while not self._over.wait(self._pause):
            with suppress(OSError):  # it is not there yet, or any longer
                self._held.append(socket.create_connection(self.where, timeout=5))
                self.opened += 1
            for old in self._held[:-300]:
                old.close()
            del self._held[:-300]

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()
        for one in self._held:
            one.close()


@pytest.mark.long
def test_a_flood_of_plain_connections_keeps_nobody_out(crew):
    """A hundred a second, before and while 20 agents come, and until they have finished."""
    made = crew(agents=20, rounds=200, together=10, pace=0.2)
    with Flood(made.addresses[COORDINATOR], per_second=100) as flood:
        made.run.start(COORDINATOR)
        made.until(lambda: flood.opened > 50)
        for unit in made.agents:
            made.run.start(unit)
        made.ended()
        assert flood.opened > 100
    made.require_sound()
    assert all(len(names) == 20 for names in made.result(COORDINATOR)["used"])
    told = [event["text"] for event in made.events(COORDINATOR, "trouble")]
    assert 0 < len(told) < 40  # of hundreds, and it says what they were


def test_a_coordinator_that_waits_lives_through_idle_connections(crew):
    """1,200 of them, and it may have 1,024 files: it drops the oldest, and the agents come in."""
    made = crew(agents=3, rounds=4, pace=0.0)
    usual = made.run.command
    made.run.command = lambda unit: (
        ["sh", "-c", 'ulimit -n 1024 && exec "$@"', "sh", *usual(unit)]
        if unit == COORDINATOR
        else usual(unit)
    )
    made.run.start(COORDINATOR)
    where = require_endpoint(made.addresses[COORDINATOR])
    made.until(lambda: _listens(where))
    require_files(1300, "1,200 connections")
    idle = []
    try:
        idle += (socket.create_connection(where, timeout=10) for _ in range(1200))
        assert made.run.running == [COORDINATOR]
        for unit in made.agents:
            made.run.start(unit)
        made.ended()
    finally:
        for one in idle:
            one.close()
    made.require_sound()


def _listens(where):
    with suppress(OSError), socket.create_connection(where, timeout=5):
        return True
    return False


def test_a_certificate_outside_the_roster_takes_no_place_not_even_a_killed_agents(crew):
    """72 connections at once, again and again; meanwhile an agent is killed and comes back."""
    made = crew(agents=3, rounds=14, pace=0.1)
    made.run.start_all()
    made.until(lambda: made.rounds() >= 2)
    host, port = require_endpoint(made.addresses[COORDINATOR])
    tls = made.keys["tap"].tls
    context = ssl.create_default_context(cafile=tls.authority)
    context.load_cert_chain(tls.certificate)
    path = f"/tacit/1/{made.session.name}/{made.session.id.hex()}"

    async def ask(name):
        reader, writer = await asyncio.open_connection(host, port, ssl=context)
        writer.write(f"GET {path}/{name} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        return answer

    async def storm():
        names = ["tap", "agent-1"] * 36
        return await asyncio.gather(*map(ask, names))

    made.run.kill("agent-1")
    for answer in asyncio.run(storm()):
        assert b" 403 " in answer
        assert b"tap is not on the roster" in answer or b"is for tap, not for agent-1" in answer
    made.run.start("agent-1")
    made.ended()
    made.require_sound()
    assert "agent-1" in made.result(COORDINATOR)["used"][-1]


def test_a_session_file_with_other_contents_is_named_on_both_sides(crew):
    """The same name and another number of rounds: both ids are told, and the agent ends."""
    made = crew(agents=2, rounds=4)
    theirs = replace(made.session, rounds=5)
    write_session(theirs, made.folder / "other.toml", addresses=made.addresses)
    usual, file = made.run.command, str(made.folder / "session.toml")
    made.run.command = lambda unit: [
        str(made.folder / "other.toml") if word == file and unit == "agent-0" else word
        for word in usual(unit)
    ]
    made.run.start(COORDINATOR)
    made.run.start("agent-0")
    assert made.run.processes["agent-0"].wait(made.wait) == 2
    told = made.until(lambda: made.events(COORDINATOR, "trouble"))[-1]
    for text in (made.said("agent-0").splitlines()[-1], told["text"]):
        assert "session files differ" in text
        assert made.session.id.hex()[:16] in text
        assert theirs.id.hex()[:16] in text
    assert (told["session"], told["id"], told["member"]) == ("test", made.session.id.hex()[:16], COORDINATOR)


# ---- lost and found ---------------------------------------------------------------------------------


def test_a_lost_connection_is_not_leaving(crew):
    """The coordinator sees it go at once, and the round waits for it all the same."""
    made = crew(agents=3, rounds=8, pace=0.1, deadlines=Deadlines(round=60.0, start=60.0, repeat=0.3))
    made.with_options(COORDINATOR, "--status", "0")
    tap = made.start_tapped()
    try:
        made.until(lambda: made.rounds() >= 2)
        tap.cut("agent-1")

        def seen():
            found = json.loads(page(made, COORDINATOR, "status"))
            return found if len(found["connected"]) == 2 else None

        found = made.until(seen)
        assert found["connected"] == {"agent-0": "agent", "agent-2": "agent"}
        made.until(lambda: made.events("agent-1", "trouble"))
        tap.heal("agent-1")
        made.ended()
    finally:
        tap.close()
    made.require_sound()
    assert all(len(names) == 3 for names in made.result(COORDINATOR)["used"])
    assert [line["missing"] for line in made.events(COORDINATOR, "round-closed")] == [[]] * 8


def test_without_its_ledger_a_coordinator_ends_and_both_sides_say_so(crew):
    """First it knows by itself; then, with keys that do not know either, its agents prove it."""
    made = crew(agents=2, rounds=40, pace=0.1)
    made.with_options("agent-0", "--status", "0")
    made.run.start_all()
    made.until(lambda: made.rounds() >= 2)
    made.run.kill(COORDINATOR)

    def shown():
        found = json.loads(page(made, "agent-0", "status"))
        said = found["trouble"] or ""
        return found if found["state"] == "disconnected" and "nobody listens there" in said else None

    found = made.until(shown)  # not "running" any longer
    assert found["connected"] == {}
    assert found["certificate_expires"] > found["heard"]
    for path in made.folder.glob("coordinator.ledger*"):
        path.unlink()
    made.run.start(COORDINATOR)
    assert made.run.processes[COORDINATOR].wait(made.wait) == 4
    assert "have begun this session with another ledger" in made.said(COORDINATOR)
    shutil.rmtree(made.folder / "keys" / COORDINATOR / "sessions")
    for path in made.folder.glob("coordinator.ledger*"):
        path.unlink()
    made.run.start(COORDINATOR)
    assert made.run.processes[COORDINATOR].wait(made.wait) == 4
    assert "this ledger does not have it: it is not the newest" in made.said(COORDINATOR)
    made.until(lambda: any(made.events(name, "forgotten") for name in made.names))
