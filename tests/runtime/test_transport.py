"""Transports: bounded, along the edges only, closed to strangers, and clear about what is wrong."""

import asyncio
import socket
from dataclasses import dataclass

import pytest

from tacit.errors import InputError
from tacit.mechanism.lattice import Lattice
from tacit.protocol.roster import COORDINATOR, Member
from tacit.protocol.session import LAST_EXPIRY, Session
from tacit.runtime.identity import Identity, provision
from tacit.runtime.memory import MemoryNetwork
from tacit.runtime.probe import require_endpoint, why_not_connected
from tacit.runtime.transport import Frame, Inbox, NetworkError, Presence
from tacit.runtime.zenoh_transport import ZenohTransport

NAMES = ["a0", "a1", "a2"]
WAIT = 30


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
    same = {
        "name": "test",
        "roster": tuple(Member(name, of[name].public_key) for name in NAMES),
        "mixing": 0.5,
        "noise": 1.0,
        "decay": 0.8,
        "rounds": 5,
        "lattice": Lattice(0, 1),
        "expires": LAST_EXPIRY,
    }
    server = Session(coordinator=of["coordinator"].public_key, **same)
    return Keys(server, Session(edges=((0, 1), (1, 2)), **same), of, strange)


@pytest.fixture
def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


async def gathered(transport, until):
    """Receive until what arrived satisfies a condition."""
    arrived = []
    async with asyncio.timeout(WAIT):
        while not until(arrived):
            arrived += await transport.receive()
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
        assert await inbox.take() == [Presence(1, False), Frame(b"a"), Frame(b"b")]
        assert inbox.dropped == 2
        inbox.put(b"d")
        assert await inbox.take() == [Frame(b"d")]

    asyncio.run(check())


def test_a_burst_from_another_thread_is_taken_whole():
    async def check():
        inbox = Inbox(4)
        await asyncio.to_thread(lambda: [inbox.put(b"%d" % k) for k in range(1000)])
        assert [a.data for a in await inbox.take()] == [b"%d" % k for k in range(1000)]

    asyncio.run(check())


def test_a_burst_wakes_the_loop_once_for_all_inboxes_in_it(monkeypatch):
    async def check():
        loop, woken = asyncio.get_running_loop(), []
        wake = loop.call_soon_threadsafe
        inboxes = [Inbox(4) for _ in range(20)]
        monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *what: woken.append(wake(*what)))
        for inbox in inboxes:
            inbox.put(b"a")
        for inbox in inboxes:
            assert await inbox.take() == [Frame(b"a")]
        assert len(woken) == 1
        inboxes[3].put(b"b")
        assert await inboxes[3].take() == [Frame(b"b")]
        assert len(woken) == 2

    asyncio.run(check())


def test_whoever_stops_waiting_for_arrivals_loses_none():
    async def check():
        inbox = Inbox(4)
        waiting = asyncio.ensure_future(inbox.take())
        await asyncio.sleep(0)
        inbox.put(b"a")
        waiting.cancel()  # in the turn in which it would wake up
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await inbox.take() == [Frame(b"a")]

    asyncio.run(check())


def test_memory_carries_along_edges_only(keys):
    async def check():
        network = MemoryNetwork(keys.path)
        ends = [network.transport(i) for i in range(3)]
        for end in ends:
            await end.open()
        ends[0].send(None, b"all")
        ends[0].send(2, b"no edge")
        ends[0].send(1, b"one")
        arrived = await ends[1].receive()
        assert arrived == [Presence(0, True), Presence(2, True), Frame(b"all", 0), Frame(b"one", 0)]
        assert await ends[2].receive() == [Presence(1, True)]
        await ends[1].close()
        assert Presence(1, False) in await ends[2].receive()

    asyncio.run(check())


def test_a_server_and_its_agents_over_tls(keys, port):
    async def check():
        where = f"tls/127.0.0.1:{port}"
        server = ZenohTransport(keys.server, COORDINATOR, keys.of["coordinator"].tls, listen=[where])
        agents = [ZenohTransport(keys.server, i, keys.of[NAMES[i]].tls, connect=[where]) for i in range(2)]
        await server.open()
        for agent in agents:
            await agent.open()
        there = {Presence(0, True), Presence(1, True)}
        await gathered(server, lambda got: there <= set(got))
        agents[1].send(COORDINATOR, b"hello")
        agents[1].send(None, b"to nobody")
        agents[1].send(COORDINATOR, bytes(1 << 20))  # longer than any frame of this session
        agents[1].send(COORDINATOR, b"still here")
        heard = await gathered(server, lambda got: len(frames(got)) >= 1)
        assert frames(heard)[0] == Frame(b"hello", 1)
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
        ports = []
        for _ in range(3):
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                ports.append(free.getsockname()[1])
        ends = [f"tls/127.0.0.1:{p}" for p in ports]

        def peer(i):
            tls = keys.of[NAMES[i]].tls
            return ZenohTransport(keys.path, i, tls, listen=[ends[i]], connect=ends[i - 1 : i] if i else [])

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


def test_a_stranger_is_refused_told_why_and_disturbs_nobody(keys, port):
    async def check():
        where = f"tls/127.0.0.1:{port}"
        server = ZenohTransport(keys.server, COORDINATOR, keys.of["coordinator"].tls, listen=[where])
        await server.open()
        told = []
        stranger = ZenohTransport(
            keys.server, 0, keys.strange["a0"].tls, connect=[where], trouble=told.append
        )
        knocking = asyncio.ensure_future(stranger.open())
        async with asyncio.timeout(WAIT):
            while not told:
                await asyncio.sleep(0.05)
        assert "authorit" in told[0]
        assert not knocking.done()
        knocking.cancel()
        agent = ZenohTransport(keys.server, 1, keys.of["a1"].tls, connect=[where])
        await agent.open()
        assert await gathered(server, lambda got: Presence(1, True) in got) == [Presence(1, True)]
        await agent.close()
        await server.close()

    asyncio.run(check())


def test_what_is_wrong_is_said_in_words(keys, port):
    tls = keys.of["a0"].tls
    assert "nobody listens" in why_not_connected(f"tls/127.0.0.1:{port}", tls)
    for bad in ("tcp/127.0.0.1:1", "tls/host", "tls/host:99999", "host:1", "tls/ho st:1"):
        with pytest.raises(InputError, match="tls/host:port"):
            require_endpoint(bad)
    assert require_endpoint("tls/[::1]:7447") == ("::1", 7447)
    with pytest.raises(NetworkError, match="must connect to a coordinator"):
        ZenohTransport(keys.server, 0, tls)
    with pytest.raises(NetworkError, match="must listen somewhere"):
        ZenohTransport(keys.server, COORDINATOR, tls)


def test_a_port_in_use_is_named(keys, port):
    async def check():
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", port))
            taken.listen()
            server = ZenohTransport(
                keys.server, COORDINATOR, keys.of["coordinator"].tls, listen=[f"tls/127.0.0.1:{port}"]
            )
            with pytest.raises(NetworkError, match="in use"):
                await server.open()

    asyncio.run(check())
