"""A small session with real keys, real ledgers and a network in memory."""

import asyncio
import os
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.doubles import small_session

from tacit.core.protocol.roster import COORDINATOR
from tacit.core.protocol.session import Deadlines
from tacit.live.identity.identity import provision
from tacit.live.runtime.agent import Agent
from tacit.live.runtime.coordinator import Coordinator
from tacit.live.transport.memory import MemoryNetwork

NAMES = ["a0", "a1"]


@pytest.fixture
def folder():
    """A directory in memory where there is one: the disk is waited for at every append."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as made:
        yield Path(made)


@pytest.fixture
def world(folder):
    """Keys, a session of two agents, and how to make its members."""
    keys = provision(folder / "keys", ["coordinator", *NAMES], listening=["coordinator"])

    def session(**changes):
        soon = Deadlines(round=5.0, start=20.0, repeat=0.05)
        return small_session(keys, NAMES, **{"name": "attacked", "deadlines": soon} | changes)

    def agent(session, network, i, value=3.0, **more):
        given = {"ledger": folder / f"{NAMES[i]}.ledger", "identity": keys[NAMES[i]], "cap": 100.0, **more}
        return Agent(session, value, transport=network.transport(i), **given)

    async def result(member):
        async with member:
            return await member.result()

    async def run(session, agents, network, **more):
        ledger, transport = folder / "c.ledger", network.transport(COORDINATOR)
        server = Coordinator(
            session, ledger=ledger, identity=keys["coordinator"], transport=transport, **more
        )
        async with asyncio.timeout(300):
            return await asyncio.gather(result(server), *map(result, agents))

    return SimpleNamespace(
        folder=folder, keys=keys, session=session, agent=agent, run=run, network=MemoryNetwork, names=NAMES
    )
