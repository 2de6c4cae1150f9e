"""Whole nodes over WebSockets and mutual TLS, in one process: exact, and cut off at a certificate's end."""

import asyncio
import socket
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from tests.doubles import small_session
from tests.runtime.builders import Script

from tacit.core.mechanism.on_lattice import OnLattice
from tacit.core.protocol.agent import AgentMachine
from tacit.core.protocol.codec import Codec
from tacit.core.protocol.coordinator import CoordinatorMachine
from tacit.core.protocol.messages import Refusal
from tacit.core.protocol.peer import PeerMachine
from tacit.core.protocol.private_state import Budget
from tacit.core.protocol.records import Closed, Moved, Spoke
from tacit.core.protocol.roster import COORDINATOR, Member
from tacit.core.protocol.session import Deadlines
from tacit.live.identity.certificates import Request
from tacit.live.identity.identity import bundle, install, load_authority, provision
from tacit.live.ledger.ledger import Ledger
from tacit.live.runtime.node import Node
from tacit.live.runtime.noise import noise_ahead
from tacit.live.transport.base import Frame, Presence
from tacit.live.transport.websocket import WebsocketTransport

NAMES = ["a0", "a1", "a2"]
WAIT = 300


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys") / "all"
    return provision(folder, ["coordinator", *NAMES], listening=["coordinator", *NAMES])


@pytest.fixture
def server(keys):
    return small_session(keys, NAMES, rounds=5, deadlines=Deadlines(round=30.0, start=30.0, repeat=0.2))


def ends(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return [f"wss://127.0.0.1:{port}" for port in ports]


def transports(session, keys):
    """Everyone's own connections; on a graph the earlier agent connects to the later."""
    if session.topology == "server":
        [where] = ends(1)
        made = [
            WebsocketTransport(session, i, keys[name].tls, connect=[where]) for i, name in enumerate(NAMES)
        ]
        return [*made, WebsocketTransport(session, COORDINATOR, keys["coordinator"].tls, listen=[where])]
    where = ends(len(NAMES))
    made = []
    for i, name in enumerate(NAMES):
        near = [where[j] for j in session.neighbours(i) if j > i]
        made.append(WebsocketTransport(session, i, keys[name].tls, listen=[where[i]], connect=near))
    return made


async def received(transport):
    """Wait until something arrives, and return all of it."""
    while not (arrivals := transport.take()):
        await asyncio.sleep(0.01)
    return arrivals


@pytest.mark.parametrize("components", [1, 2])
@pytest.mark.parametrize("graph", [False, True], ids=["server", "path"])
def test_over_the_network_and_simulated_are_the_same_to_the_last_bit(
    server, keys, tmp_path, graph, components
):
    session = replace(server, components=components)
    if graph:
        session = replace(session, coordinator=None, edges=((0, 1), (1, 2)))
    rng, shape = np.random.default_rng(7), (components,) if components > 1 else ()
    values = rng.uniform(0, 10, (3, *shape))
    draws = rng.integers(-(2**40), 2**40, (session.rounds, 3, *shape))

    async def main():
        nodes = []
        ledgers = [Ledger(tmp_path / f"{name}.ledger") for name in [*NAMES, "c"]]
        links = transports(session, keys)
        for i, name in enumerate(NAMES):
            machine = (PeerMachine if graph else AgentMachine)(
                session, i, values[i], sign=keys[name].sign, budget=Budget(cap=100.0)
            )
            ledgers[i].reserve(session.id, "v", planned=50.0, adjacency=1.0, diameter=1.0, cap=100.0)
            noise = noise_ahead(session, i, Script(draws[:, i] if components > 1 else draws[:, i].tolist()))
            nodes.append(Node(session.id, machine, links[i], ledgers[i], noise=noise))
        if not graph:
            machine = CoordinatorMachine(session, sign=keys["coordinator"].sign)
            nodes.append(Node(session.id, machine, links[-1], ledgers[-1]))
        async with asyncio.timeout(WAIT):
            await asyncio.gather(*(node.run() for node in nodes))
        found = [ledger.records(session.id) for ledger in ledgers]
        for ledger in ledgers:
            ledger.close()
        return found

    records, codec = asyncio.run(main()), Codec(session)
    run = OnLattice(session.mechanism, session.lattice).execute(values, draws.astype(object))

    def rows(array):
        return [tuple(np.atleast_1d(row).tolist()) for row in array]

    for i in range(session.n):
        assert [codec.unpack(r.state) for r in records[i] if isinstance(r, Moved)] == rows(
            run.private.states[1:, i]
        )
        assert [codec.open(r.frame).numbers for r in records[i] if isinstance(r, Spoke)] == rows(
            run.wholes.x[:, i]
        )
    if not graph:
        answers = [codec.open(r.frame).numbers for r in records[-1] if isinstance(r, Closed)]
        assert answers == rows(run.wholes.y)


def test_who_is_connected_when_its_certificate_runs_out_is_cut_off_and_told_why(server, tmp_path):
    """For three seconds it counts; then the link is closed, and does not come back."""
    folder = tmp_path / "keys"
    keys = provision(folder, ["coordinator", *NAMES], listening=["coordinator"])
    authority, path = load_authority(folder / "authority"), folder / "a0" / "request.pem"
    request = Request.parse(path.read_bytes(), str(path))

    async def main(seconds):
        [where] = ends(1)
        roster = tuple(Member(name, keys[name].public_key) for name in NAMES)
        session = replace(server, coordinator=keys["coordinator"].public_key, roster=roster)
        hub = WebsocketTransport(session, COORDINATOR, keys["coordinator"].tls, listen=[where])
        await hub.open()
        signed = bundle(authority.sign(request, seconds / 86400), authority)
        short = install(signed, folder / "a0", durable=False)
        told, seen = [], []
        brief = WebsocketTransport(session, 0, short.tls, connect=[where], trouble=told.append)
        lasting = WebsocketTransport(session, 1, keys["a1"].tls, connect=[where])
        try:
            await asyncio.gather(brief.open(), lasting.open())
            while Presence(0, True) not in seen:
                if datetime.now(UTC) >= short.expires:
                    return False
                await asyncio.sleep(0.01)
                seen += hub.take()
            while not {Presence(0, False), Presence(1, True)} <= set(seen):
                seen += await received(hub)
            assert Presence(1, False) not in seen
            assert datetime.now(UTC) >= short.expires
            while not any("the certificate of a0 expired on" in sentence for sentence in told):
                await asyncio.sleep(0.05)
            return True
        finally:
            await asyncio.gather(*(one.close() for one in (brief, lasting, hub)))

    # On a busy machine it can expire before there is a connection: then it must last longer.
    assert any(asyncio.run(asyncio.wait_for(main(seconds), WAIT)) for seconds in (3, 12, 50))


def test_a_frame_that_is_too_long_for_any_session_costs_its_sender_the_connection(server, keys):
    async def main():
        [where] = ends(1)
        hub = WebsocketTransport(server, COORDINATOR, keys["coordinator"].tls, listen=[where])
        agent = WebsocketTransport(server, 0, keys["a0"].tls, connect=[where])
        other = WebsocketTransport(server, 1, keys["a1"].tls, connect=[where])
        codec, got = Codec(server), []
        try:
            await hub.open()
            await asyncio.gather(agent.open(), other.open())
            while not {Presence(0, True), Presence(1, True)} <= set(got):
                got += await received(hub)
            while not agent.network.connected:  # it may hear of it later than the server
                await asyncio.sleep(0.02)
            agent.send(COORDINATOR, bytes(codec.most_bytes + 1))  # the codec counts it
            agent.send(COORDINATOR, bytes(1 << 20))
            got = []
            while (
                Presence(0, True)
                not in got[got.index(Presence(0, False)) if Presence(0, False) in got else 0 :]
            ):
                got += await received(hub)  # it is cut off and comes back
            assert Presence(1, False) not in got
        finally:
            await asyncio.gather(agent.close(), other.close(), hub.close())
        return [codec.open(frame.data).reason for frame in got if isinstance(frame, Frame)]

    assert asyncio.run(asyncio.wait_for(main(), WAIT)) == [Refusal.TOO_LARGE]
