"""Transports: bounded, along the edges only, closed to strangers, and clear about what is wrong."""

import asyncio
import errno
import os
import socket
import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pytest
from tests.doubles import small_session
from tests.doubles.processes import free_ports

from tacit.base.errors import FileError, InputError
from tacit.core.protocol.roster import COORDINATOR, Member
from tacit.core.protocol.session import Deadlines, Session
from tacit.live.identity.certificates import Request
from tacit.live.identity.identity import (
    Identity,
    bundle,
    install,
    install_revocations,
    load_authority,
    provision,
    renew_agent,
)
from tacit.live.identity.revocation import Revoked, revoked_list
from tacit.live.runtime.agent import Agent
from tacit.live.runtime.coordinator import Coordinator
from tacit.live.transport.base import Frame, Inbox, NetworkError, Presence
from tacit.live.transport.connection_diagnosis import require_endpoint, why_not_reached
from tacit.live.transport.memory import MemoryNetwork
from tacit.live.transport.schemes import to_dial
from tacit.live.transport.websocket import WebsocketTransport

NAMES = ["a0", "a1", "a2"]
WAIT = 300


@dataclass
class Keys:
    server: Session
    path: Session
    of: dict[str, Identity]
    strange: dict[str, Identity]


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    of = provision(folder / "good", ["coordinator", *NAMES], listening=["coordinator", *NAMES])
    strange = provision(folder / "bad", ["coordinator", *NAMES], listening=["coordinator"])
    server, path = (small_session(of, NAMES, edges=edges) for edges in (None, ((0, 1), (1, 2))))
    return Keys(server, path, of, strange)


@pytest.fixture
def port():
    return free_ports(1)[0]


async def received(transport):
    """Wait until something arrives, and return all of it."""
    while not (arrivals := transport.take()):
        await asyncio.sleep(0.01)
    return arrivals


async def gathered(transport, until):
    """Receive until what arrived satisfies a condition."""
    arrived = []
    async with asyncio.timeout(WAIT):
        while not until(arrived):
            arrived += await received(transport)
    return arrived


def frames(arrived):
    return [a for a in arrived if isinstance(a, Frame)]


def test_the_inbox_bounds_length_and_number_and_keeps_the_last_word_on_presence():
    async def check():
        inbox = Inbox(4, frames=2, members={1, 2}.__contains__)
        for data in (b"12345", b"a", b"b", b"c"):
            inbox.put(data)
        inbox.seen(1, True)
        inbox.seen(1, False)
        inbox.seen(99, True)
        assert inbox.take() == [Presence(1, False), Frame(b"a"), Frame(b"b")]
        assert inbox.dropped == 2
        inbox.put(b"d")
        assert inbox.take() == [Frame(b"d")]

    asyncio.run(check())


def test_the_inbox_calls_for_everything_that_arrives_and_raises_its_error_last():
    calls = []
    inbox = Inbox(4, arrived=lambda: calls.append(None))
    inbox.put(b"a")
    inbox.seen(1, True)
    assert len(calls) == 2
    inbox.fail(OSError("gone"))
    assert len(calls) == 3
    assert inbox.take() == [Presence(1, True), Frame(b"a")]
    assert len(calls) == 4  # there is still the error to take
    with pytest.raises(OSError, match="gone"):
        inbox.take()


def test_memory_carries_along_edges_only(keys):
    async def check():
        network = MemoryNetwork(keys.path)
        ends = [network.transport(i) for i in range(3)]
        for end in ends:
            await end.open()
        ends[0].send(None, b"all")
        ends[0].send(2, b"no edge")
        ends[0].send(1, b"one")
        arrived = ends[1].take()
        assert arrived == [Presence(0, True), Presence(2, True), Frame(b"all", 0), Frame(b"one", 0)]
        assert ends[2].take() == [Presence(1, True)]
        await ends[1].close()
        assert Presence(1, False) in ends[2].take()

    asyncio.run(check())


def test_a_server_and_its_agents_over_tls(keys, port):
    async def check():
        where = f"wss://127.0.0.1:{port}"
        server = WebsocketTransport(keys.server, COORDINATOR, keys.of["coordinator"].tls, listen=[where])
        agents = [
            WebsocketTransport(keys.server, i, keys.of[NAMES[i]].tls, connect=[where]) for i in range(2)
        ]
        await server.open()
        for agent in agents:
            await agent.open()
        there = {Presence(0, True), Presence(1, True)}
        await gathered(server, lambda got: there <= set(got))
        await until(lambda: agents[1].network.connected)  # it may hear of it later than the server
        agents[1].send(COORDINATOR, b"hello")
        agents[1].send(None, b"to all")
        heard = await gathered(server, lambda got: len(frames(got)) >= 2)
        assert frames(heard) == [Frame(b"hello", 1), Frame(b"to all", 1)]
        server.send(None, b"to all")
        server.send(1, b"to one")
        assert frames(await gathered(agents[0], lambda got: len(frames(got)) == 1))[0].data == b"to all"
        got = frames(await gathered(agents[1], lambda got: len(frames(got)) == 2))
        assert [f.data for f in got] == [b"to all", b"to one"]
        await agents[0].close()
        await gathered(server, lambda got: Presence(0, False) in got)
        await server.close()
        await agents[1].close()

    asyncio.run(check())


def test_peers_hear_their_neighbours_only_and_find_each_other_again(keys):
    async def check():
        ends = [f"wss://127.0.0.1:{port}" for port in free_ports(3)]

        def peer(i):
            tls = keys.of[NAMES[i]].tls
            return WebsocketTransport(keys.path, i, tls, listen=[ends[i]], connect=ends[i + 1 : i + 2])

        peers = [peer(i) for i in range(3)]
        await asyncio.gather(*(p.open() for p in peers))
        await gathered(peers[1], lambda got: {Presence(0, True), Presence(2, True)} <= set(got))
        await gathered(peers[2], lambda got: Presence(1, True) in got)
        peers[0].send(None, b"from 0")
        assert frames(await gathered(peers[1], frames)) == [Frame(b"from 0", 0)]
        peers[1].send(None, b"from 1")
        assert frames(await gathered(peers[2], frames)) == [Frame(b"from 1", 1)]  # and nothing from 0
        await peers[1].close()
        await gathered(peers[2], lambda got: Presence(1, False) in got)
        peers[1] = peer(1)
        await peers[1].open()
        await gathered(peers[2], lambda got: Presence(1, True) in got)
        await asyncio.gather(*(p.close() for p in peers))

    asyncio.run(check())


def hub(keys, where, **more):
    tls = keys.of["coordinator"].tls
    return WebsocketTransport(keys.server, COORDINATOR, tls, listen=[where], **more)


async def until(condition):
    """Wait for something that must come."""
    async with asyncio.timeout(WAIT):
        while not (found := condition()):
            await asyncio.sleep(0.02)
    return found


@asynccontextmanager
async def opened(*transports):
    """Open transports, and close them whatever happens."""
    try:
        for one in transports:
            await one.open()
        yield
    finally:
        await asyncio.gather(*(one.close() for one in transports))


def test_a_stranger_is_refused_both_sides_say_why_and_nobody_is_disturbed(keys, port):
    async def check():
        where, told, heard = f"wss://127.0.0.1:{port}", [], []
        server = hub(keys, where, trouble=heard.append)
        stranger = WebsocketTransport(
            keys.server, 0, keys.strange["a0"].tls, connect=[where], trouble=told.append
        )
        agent = WebsocketTransport(keys.server, 1, keys.of["a1"].tls, connect=[where])
        async with opened(server, stranger):
            assert "authorit" in await until(lambda: " ".join(told))
            await until(lambda: heard)
            await agent.open()
            assert await gathered(server, lambda got: Presence(1, True) in got) == [Presence(1, True)]
            await agent.close()

    asyncio.run(check())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rounds": 6}, "their session files differ"),
        ({"name": "another"}, "asks for session another"),
    ],
)
def test_a_different_session_is_named_on_both_sides_with_both_fingerprints(keys, port, changes, words):
    async def check():
        where, told, heard = f"wss://127.0.0.1:{port}", [], []
        theirs = replace(keys.server, **changes)
        server = hub(keys, where, trouble=heard.append)
        agent = WebsocketTransport(theirs, 0, keys.of["a0"].tls, connect=[where], trouble=told.append)
        async with opened(server, agent):
            await until(lambda: told and heard)
            for sentence in (told[0], heard[0]):
                assert words in sentence
                assert keys.server.id.hex()[:16] in sentence
                assert theirs.id.hex()[:16] in sentence
            if "rounds" in changes:  # the same name and other contents: it will never fit
                with pytest.raises(NetworkError, match=words):
                    await gathered(agent, lambda _: False)
            assert not server.network.connected

    asyncio.run(check())


def test_a_certificate_outside_the_roster_takes_no_place(keys, tmp_path, port):
    async def check():
        where, heard = f"wss://127.0.0.1:{port}", []
        session = replace(keys.server, roster=keys.server.roster[:2], start=2)
        tls = keys.of["coordinator"].tls
        server = WebsocketTransport(session, COORDINATOR, tls, listen=[where], trouble=heard.append)
        many = [Stranger(session, keys.of["a2"], where) for _ in range(72)]
        agent = WebsocketTransport(session, 0, keys.of["a0"].tls, connect=[where])
        async with opened(server):
            answers = await asyncio.gather(*(one.ask() for one in many))
            assert all(b" 403 " in answer and b"a2 is not on the roster" in answer for answer in answers)
            async with opened(agent):
                assert await gathered(server, lambda got: Presence(0, True) in got) == [Presence(0, True)]
            assert any("a2 is not on the roster" in sentence for sentence in heard)
            assert len(heard) < 10  # told at the 1st, 2nd, 4th … time

    asyncio.run(check())


class Stranger:
    """One with a certificate that asks as a member would, and shows what it is answered."""

    def __init__(self, session, identity, where):
        self._path = f"/tacit/1/{session.name}/{session.id.hex()}/{identity.name}"
        self._where, self._context = require_endpoint(where), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.load_verify_locations(identity.tls.authority)
        self._context.load_cert_chain(identity.tls.certificate)

    async def ask(self):
        reader, writer = await asyncio.open_connection(*self._where, ssl=self._context)
        writer.write(
            f"GET {self._path} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        async with asyncio.timeout(WAIT):
            answer = await reader.read()
        writer.close()
        return answer


def test_a_second_connection_of_one_name_replaces_the_first_and_is_told(keys, port):
    async def check():
        where, heard, told = f"wss://127.0.0.1:{port}", [], []
        server = hub(keys, where, trouble=heard.append)
        first, second = (
            WebsocketTransport(keys.server, 0, keys.of["a0"].tls, connect=[where], trouble=told.append)
            for _ in range(2)
        )
        async with opened(server, first):
            await gathered(server, lambda got: Presence(0, True) in got)
            async with opened(second):
                await until(lambda: any("a0 has connected again" in sentence for sentence in heard))
                await until(lambda: any("another connection with the key of a0" in t for t in told))

    asyncio.run(check())


def test_idle_connections_are_dropped_oldest_first_and_members_come_in(keys, port):
    async def check():
        where = f"wss://127.0.0.1:{port}"
        server, agent = (
            hub(keys, where),
            WebsocketTransport(keys.server, 0, keys.of["a0"].tls, connect=[where]),
        )
        async with opened(server):
            idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(400)]
            async with asyncio.timeout(WAIT):
                assert await idle[0][0].read() == b""  # the oldest is dropped
            with pytest.raises(TimeoutError):  # and the newest is not
                await asyncio.wait_for(idle[-1][0].read(), 0.2)
            assert server._listener._count <= 131
            async with opened(agent):
                await gathered(server, lambda got: Presence(0, True) in got)
            for _, writer in idle:
                writer.close()

    asyncio.run(check())


class NoFiles:
    """A listening socket in a process that has no file left but the listener's spare one.

    A real limit would hold for everything else in this process, too: threads and garbage of other tests take
    and give back files at any moment. tests/end_to_end/test_strangers.py has a real one.
    """

    def __init__(self, listener):
        self.listener, (self.real,) = listener, listener._sockets

    def accept(self):
        if self.listener._spare >= 0:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return self.real.accept()


def test_without_files_the_listener_refuses_and_goes_on(keys, port):
    """Nothing is left to accept with: those who come are turned away, until there is room again."""

    async def check():
        where, loop = f"wss://127.0.0.1:{port}", asyncio.get_running_loop()
        server, agent = (
            hub(keys, where),
            WebsocketTransport(keys.server, 0, keys.of["a0"].tls, connect=[where]),
        )
        async with opened(server), asyncio.timeout(WAIT):
            listener, (real,) = server._listener, server._listener._sockets
            waits = await asyncio.open_connection("127.0.0.1", port)
            await until(lambda: listener._count == 1)
            loop.add_reader(real.fileno(), listener._accept, NoFiles(listener))
            come = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
            for reader, writer in (*come, waits):
                assert await reader.read() == b""
                assert listener._count == 0  # the one that has waited longest was the first to go
                writer.close()
            assert listener._spare >= 0
            loop.add_reader(real.fileno(), listener._accept, real)
            async with opened(agent):
                await gathered(server, lambda got: Presence(0, True) in got)

    asyncio.run(check())


def test_a_member_that_takes_nothing_is_cut_off_and_the_others_lose_nothing(keys, port):
    async def check():
        where, heard = f"wss://127.0.0.1:{port}", []
        server = hub(keys, where, trouble=heard.append)
        slow, quick = (
            WebsocketTransport(keys.server, i, keys.of[NAMES[i]].tls, connect=[where]) for i in range(2)
        )
        async with opened(server, slow, quick):
            await gathered(server, lambda got: {Presence(0, True), Presence(1, True)} <= set(got))
            await until(lambda: slow.network.connected)
            stuck = slow._links[COORDINATOR]
            stuck.hold()
            sent, last = 0, Frame(b"last", COORDINATOR)
            taking = asyncio.ensure_future(gathered(quick, lambda got: got[-1:] == [last]))
            while not any("a0 was ended: it takes less" in sentence for sentence in heard):
                server.send(None, b"%4d" % sent + bytes(4000))
                sent += 1
                await asyncio.sleep(0)
                assert sent < 100_000
            stuck.go_on()
            awake = asyncio.ensure_future(gathered(slow, lambda _: False))
            server.send(1, b"last")
            got = frames(await taking)[:-1]
            assert len(got) == sent
            assert [int(frame.data[:4]) for frame in got] == [k % 10_000 for k in range(sent)]
            await gathered(server, lambda got: Presence(0, True) in got)  # it has come back
            awake.cancel()

    asyncio.run(check())


def test_a_hung_member_is_found_by_its_silence(keys, port):
    """Its socket is open and its kernel answers; the process does not."""

    async def check():
        where, heard = f"wss://127.0.0.1:{port}", []
        session = replace(keys.server, deadlines=Deadlines(round=3.0, start=60.0, repeat=1.0))
        tls = keys.of["coordinator"].tls
        server = WebsocketTransport(session, COORDINATOR, tls, listen=[where], trouble=heard.append)
        agent = WebsocketTransport(session, 0, keys.of["a0"].tls, connect=[where])
        async with opened(server, agent):
            await gathered(server, lambda got: Presence(0, True) in got)
            await until(lambda: agent.network.connected)
            agent._links[COORDINATOR].hold()
            await gathered(server, lambda got: Presence(0, False) in got)
            assert any("a0 was ended: it has been silent" in sentence for sentence in heard)

    asyncio.run(check())


def test_revoked_members_are_turned_out_and_not_let_in(keys, port):
    async def check():
        where, gone, heard = f"wss://127.0.0.1:{port}", set(), []
        server = hub(keys, where, trouble=heard.append, revoked=lambda one: one.name in gone)
        agent = WebsocketTransport(keys.server, 0, keys.of["a0"].tls, connect=[where])
        async with opened(server, agent):
            await gathered(server, lambda got: Presence(0, True) in got)
            gone.add("a0")
            await gathered(server, lambda got: Presence(0, False) in got)
            await until(lambda: any(s.startswith("a0 was refused") and "is revoked" in s for s in heard))
            with pytest.raises(NetworkError, match="a0 is revoked"):
                await gathered(agent, lambda _: False)

    asyncio.run(check())


def test_a_new_list_of_the_authority_turns_a_member_out_without_a_restart(keys, tmp_path, port):
    """The list is put into the coordinator's directory while the session runs."""

    async def check():
        where, heard = f"wss://127.0.0.1:{port}", []
        made = provision(tmp_path / "keys", ["coordinator", "a0"], listening=["coordinator"])
        home, authority = made["coordinator"].directory, load_authority(tmp_path / "keys" / "authority")
        roster = (Member("a0", made["a0"].public_key),)
        session = replace(
            keys.server, coordinator=made["coordinator"].public_key, roster=roster, quorum=1, start=1
        )
        server = Coordinator(
            session, ledger=tmp_path / "l", identity=home, listen=where, trouble=heard.append
        )._transport
        agent = Agent(
            session, 0.5, ledger=tmp_path / "m", identity=made["a0"], cap=9.0, connect=where
        )._transport
        async with opened(server, agent):
            await gathered(server, lambda got: Presence(0, True) in got)
            gone = Revoked(made["a0"].certificate.serial, datetime.now(UTC), "a0", None)
            install_revocations(revoked_list(authority, [gone], 1).pem(), home)
            await gathered(server, lambda got: Presence(0, False) in got)
            with pytest.raises(NetworkError, match="a0 is revoked"):
                await gathered(agent, lambda _: False)
            assert any("certificate of a0 is revoked" in sentence for sentence in heard)

    asyncio.run(check())


def test_while_the_list_cannot_be_read_nobody_new_is_let_in(keys, port):
    async def check():
        where, heard, known = f"wss://127.0.0.1:{port}", [], [False]

        def revoked(_):
            if known:
                return False
            raise FileError("the list is broken.")

        server = hub(keys, where, trouble=heard.append, revoked=revoked)
        first, second = (
            WebsocketTransport(keys.server, i, keys.of[NAMES[i]].tls, connect=[where]) for i in range(2)
        )
        async with opened(server, first):
            await gathered(server, lambda got: Presence(0, True) in got)
            known.clear()
            async with opened(second):
                await until(lambda: any("cannot read its list" in sentence for sentence in heard))
                await until(lambda: "the list is broken." in heard)
                assert server.network.connected == (0,)
                known.append(False)
                await gathered(server, lambda got: Presence(1, True) in got)

    asyncio.run(check())


def test_a_renewed_certificate_is_used_without_a_restart(keys, tmp_path, port):
    async def check():
        where = f"wss://127.0.0.1:{port}"
        made = provision(tmp_path / "keys", ["coordinator", "a0"], listening=["coordinator"])
        session = replace(
            keys.server,
            coordinator=made["coordinator"].public_key,
            roster=(Member("a0", made["a0"].public_key),),
            quorum=1,
            start=1,
        )
        server = WebsocketTransport(session, COORDINATOR, made["coordinator"].tls, listen=[where])
        agent = WebsocketTransport(session, 0, made["a0"].tls, connect=[where])
        async with opened(server, agent):
            await gathered(server, lambda got: Presence(0, True) in got)
            first = server._links[0].certificate.fingerprint
            authority = load_authority(tmp_path / "keys" / "authority")
            request = renew_agent(tmp_path / "keys" / "a0")
            signed = authority.sign(Request.parse(request.read_bytes(), "request"), 1)
            install(bundle(signed, authority), tmp_path / "keys" / "a0", durable=False)
            server._links[0].close()
            await gathered(server, lambda got: Presence(0, True) in got)
            assert server._links[0].certificate.fingerprint == signed.fingerprint != first

    asyncio.run(check())


def test_the_sixth_version_of_the_internet_protocol_works(keys):
    if not has_ipv6():
        pytest.skip("this machine has no ::1")

    async def check():
        with socket.socket(socket.AF_INET6) as free:
            free.bind(("::1", 0))
            where = f"wss://[::1]:{free.getsockname()[1]}"
        server, agent = (
            hub(keys, where),
            WebsocketTransport(keys.server, 0, keys.of["a0"].tls, connect=[where]),
        )
        async with opened(server, agent):
            await gathered(server, lambda got: Presence(0, True) in got)

    asyncio.run(check())


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as one:
            one.bind(("::1", 0))
    except OSError:
        return False
    return True


def test_neighbours_that_connect_to_each_other_keep_one_connection(keys):
    async def check():
        ends = [f"wss://127.0.0.1:{port}" for port in free_ports(2)]
        peers = [
            WebsocketTransport(keys.path, i, keys.of[NAMES[i]].tls, listen=[ends[i]], connect=[ends[1 - i]])
            for i in range(2)
        ]
        async with opened(*peers):
            await until(
                lambda: (
                    peers[0].network.connected == (1,)
                    and peers[1].network.connected == (0,)
                    and peers[0]._links[1].dialled
                    and not peers[1]._links[0].dialled
                )
            )
            peers[0].send(1, b"over the one of the earlier")
            assert frames(await gathered(peers[1], frames)) == [Frame(b"over the one of the earlier", 0)]

    asyncio.run(check())


def test_of_two_neighbours_the_earlier_connects_unless_only_it_has_an_address(keys):
    everyone = {name: f"wss://127.0.0.1:{k}" for k, name in enumerate(NAMES, 1)}
    assert [to_dial(keys.path, i, everyone) for i in range(3)] == [
        (everyone["a1"],),
        (everyone["a2"],),
        (),
    ]
    one = {"a1": everyone["a1"]}
    assert [to_dial(keys.path, i, one) for i in range(3)] == [(one["a1"],), (), (one["a1"],)]
    assert to_dial(keys.server, 0, {"coordinator": "wss://127.0.0.1:9"}) == ("wss://127.0.0.1:9",)


def test_what_is_wrong_is_said_in_words(keys, port):
    tls = keys.of["a0"].tls
    assert "nobody listens" in why_not_reached(f"wss://127.0.0.1:{port}", ConnectionRefusedError())
    for bad in (
        "ws://127.0.0.1:1",
        "tls/127.0.0.1:1",
        "wss://host",
        "wss://host:99999",
        "host:1",
        "wss://h:1/p",
    ):
        with pytest.raises(InputError, match="wss://host:port"):
            require_endpoint(bad)
    assert require_endpoint("wss://[::1]:7447") == ("::1", 7447)
    with pytest.raises(NetworkError, match="must connect to a coordinator"):
        WebsocketTransport(keys.server, 0, tls)
    with pytest.raises(NetworkError, match="must listen somewhere"):
        WebsocketTransport(keys.server, COORDINATOR, tls)


def test_an_agent_does_not_take_another_member_for_the_coordinator(keys, port):
    async def check():
        where, told = f"wss://127.0.0.1:{port}", []
        posing = replace(
            keys.server, coordinator=keys.of["a2"].public_key, roster=keys.server.roster[:2], start=2
        )
        server = WebsocketTransport(posing, COORDINATOR, keys.of["a2"].tls, listen=[where])
        agent = WebsocketTransport(keys.server, 0, keys.of["a0"].tls, connect=[where], trouble=told.append)
        async with opened(server, agent):
            await until(lambda: told)
            assert "a2 answers, and is not the coordinator of session test" in told[0]

    asyncio.run(check())


def test_nonsense_instead_of_an_answer_is_tried_again(keys, port):
    """The coordinator's certificate, and behind it something that is no WebSocket: later it is one."""

    async def check():
        where, told = f"wss://127.0.0.1:{port}", []
        tls = keys.of["coordinator"].tls
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls.certificate)

        async def answer(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: nonsense\r\n\r\n")
            await writer.drain()
            writer.close()

        agent = WebsocketTransport(keys.server, 0, keys.of["a0"].tls, connect=[where], trouble=told.append)
        nonsense = await asyncio.start_server(answer, "127.0.0.1", port, ssl=context)
        async with opened(agent):
            await until(lambda: told)
            assert "the connection failed" in told[0]
            nonsense.close()
            async with opened(server := hub(keys, where)):
                await gathered(server, lambda got: Presence(0, True) in got)

    asyncio.run(check())


def test_a_bug_in_the_transport_is_raised_where_it_is_heard(keys, port):
    async def check():
        agent = WebsocketTransport(keys.server, 0, keys.of["a0"].tls, connect=[f"wss://127.0.0.1:{port}"])
        agent._connected = lambda _: 1 / 0
        async with opened(agent):
            with pytest.raises(ZeroDivisionError):
                await gathered(agent, lambda _: False)

    asyncio.run(check())


def test_a_port_in_use_is_named(keys, port):
    async def check():
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", port))
            taken.listen()
            with pytest.raises(NetworkError, match="in use"):
                await hub(keys, f"wss://127.0.0.1:{port}").open()

    asyncio.run(check())
