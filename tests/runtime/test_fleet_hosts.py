"""A hub on several hosts: members try its addresses in turn, and go where one leads."""

import asyncio
import shutil
import time
from contextlib import asynccontextmanager
from types import SimpleNamespace

import msgspec
import pytest
from tests.doubles.postgres import require_postgres, server
from tests.doubles.processes import free_ports
from tests.runtime.fleets import ONE_SHOT, WAIT, Fleet, following, ordered

from tacit.base.errors import InputError, StoreLost
from tacit.live.fleet import lease as leases
from tacit.live.fleet.hosts import HubHost, Standby
from tacit.live.fleet.hub import Hub
from tacit.live.fleet.hub_directory import KEYS, is_served
from tacit.live.fleet.invitation import Invitation, new_invitation
from tacit.live.fleet.messages import STANDS_BY, ChannelClosed, referral, referred
from tacit.live.fleet.orders import SeriesOrder
from tacit.live.fleet.policy import policy_text, read_policy
from tacit.live.fleet.postgres import use
from tacit.live.identity.certificates import Request
from tacit.live.identity.identity import Identity, new_agent, new_authority
from tacit.live.identity.register import REVOKED, SIGNED, opened
from tacit.live.transport.link import ConnectionRefused


def test_members_try_all_addresses_of_a_hub(tmp_path):
    """Nobody listens at the first one: an agent enrols with the second, and follows the hub there."""

    async def scenario():
        fleet = Fleet(tmp_path)
        fleet.addresses = [f"wss://localhost:{free_ports(1)[0]}", fleet.address]
        async with fleet.serving():
            await fleet.enrol("alice")
            fleet.policy("alice")
            async with following(fleet, "alice") as alice:
                assert alice.connection.endpoint == fleet.address

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "addresses",
    [[], ["wss://h:1", "wss://h:1"], ["wss://h:1", "h:2"], [f"wss://h:{i}" for i in range(1, 18)]],
)
def test_addresses_that_no_hub_has_are_refused(addresses, tmp_path):
    with pytest.raises(InputError):
        new_invitation(" ".join(addresses), "ab" * 32, "alice", 2**31)
    path = tmp_path / "alice.toml"
    path.write_text(
        policy_text(hub=addresses or "", authority="ab" * 32, keys=path, ledger=path, role="keeper")
    )
    with pytest.raises(InputError):
        read_policy(path)


def test_one_address_is_written_as_before():
    """Older members read the invitation of a hub on one host, and its policy is a plain text."""
    text = policy_text(hub=["wss://h:1"], authority="ab" * 32, keys="k", ledger="l", role="keeper")
    assert 'hub = "wss://h:1"\n' in text
    made = new_invitation("wss://h:1 wss://i:2", "ab" * 32, "alice", 2**31)
    assert Invitation.parse(made.text()).addresses == ("wss://h:1", "wss://i:2")


@pytest.mark.parametrize(
    ("status", "said", "leader"),
    [
        (STANDS_BY, referral("wss://other.example:7447"), "wss://other.example:7447"),
        (STANDS_BY, referral(None), None),
        (STANDS_BY, referral("elsewhere"), None),
        (403, referral("wss://other.example:7447"), None),
    ],
)
def test_a_host_that_stands_by_names_the_leader(status, said, leader):
    assert referred(ConnectionRefused(status, said)) == leader


def test_a_host_that_stands_by_sends_members_to_the_leader(tmp_path):
    """The agent knows one address, of a host that takes no members."""

    async def scenario():
        fleet = Fleet(tmp_path)
        (port,) = free_ports(1)
        standby = Standby(Identity.load(fleet.home / KEYS), f"wss://127.0.0.1:{port}")
        async with fleet.serving():
            await fleet.enrol("alice")
            fleet.addresses = [f"wss://localhost:{port}"]
            fleet.policy("alice")
            await standby.open()
            with pytest.raises(InputError, match="stands by"):
                await fleet.enrol("bob")
            standby.leader = fleet.address
            async with following(fleet, "alice") as alice:
                assert alice.connection.endpoint == fleet.address
            standby.close()

    asyncio.run(scenario())


def test_a_hub_that_may_not_send_closes_its_connections(tmp_path):
    """A host whose lease is over, as when it was paused and wakes up."""

    async def scenario():
        fleet, lease = Fleet(tmp_path), [True]
        async with fleet.serving() as hub:
            hub.gateway._may_send = lambda: lease[0]
            await fleet.enrol("alice")
            fleet.policy("alice")
            async with following(fleet, "alice") as alice:
                link = hub.gateway.members["alice"].link
                lease[0] = False
                written = []
                link._transport = SimpleNamespace(write=written.append, abort=link._transport.abort)
                assert not hub.gateway.members["alice"].send(ChannelClosed(bytes(32)))
                assert (written, link.open) == ([], False)
                lease[0] = True
                await fleet.until(lambda: alice.connection.connected)

    asyncio.run(scenario())


def asked(question):
    return msgspec.to_builtins(ordered(question, least=2, anyway=True))


@asynccontextmanager
async def hosted(fleet):
    """Run a host of a hub whose store is in PostgreSQL."""
    require_postgres()
    use(fleet.home, server().new())

    def made(lease):
        fleet.hub = Hub(fleet.home, tell=fleet.told, lease=lease)
        return fleet.hub

    host = HubHost(fleet.home, made, tell=fleet.told)
    running = asyncio.ensure_future(host.run())
    await fleet.until(lambda: fleet.told.events("listening") or running.done())
    try:
        yield running
    finally:
        running.cancel()
        await asyncio.wait([running])


def test_a_hub_in_a_database_does_what_one_in_a_file_does(tmp_path):
    """Enrolment, sessions, renewed connections, a drained hub."""

    async def scenario():
        fleet = Fleet(tmp_path)
        async with hosted(fleet) as running:
            for name in ("alice", "bob"):
                await fleet.enrol(name)
                fleet.policy(name)
            async with following(fleet, "alice", "bob"):
                ((state, facts),) = await fleet.run(least=2, anyway=True)
                assert (state, facts["used"]) == ("finished", [2, 2])
                fleet.hub.store.add_task("long", asked({**ONE_SHOT, "rounds": 5000}), None, None)
                await fleet.until(fleet.hub.store.running_sessions)
                (row,) = fleet.hub.store.running_sessions()
                fleet.hub.store.cancel(row["id"])  # as a command on any host does
                ((state, _),) = await fleet.over("long")
                assert state == "stopped"
            assert is_served(fleet.home)
            assert {"signed.jsonl"} <= set(fleet.hub.store.register())
            fleet.hub.store.set_setting("state", "draining")
            async with asyncio.timeout(WAIT):
                await running
            assert not is_served(fleet.home)

    asyncio.run(scenario())


def test_a_host_with_a_wrong_clock_begins_no_series(tmp_path, monkeypatch):
    later = SimpleNamespace(**{**vars(time), "time": lambda: time.time() + 5.0})
    monkeypatch.setattr(leases, "time", later)

    async def scenario():
        fleet = Fleet(tmp_path)
        async with hosted(fleet):
            order = ordered(
                {"loss": 1.0, "low": 0.0, "high": 10.0},
                keepers=("north",),
                series=SeriesOrder(10, 60.0, "step:2", 1e-9),
                wait=1e6,
            )
            fleet.hub.store.add_task("year", msgspec.to_builtins(order), None, None)
            _, _, missing = fleet.hub._who("year", order)
            assert "clock is 5.0 s ahead" in missing
            assert "clock" not in fleet.hub._who("run", ordered({"loss": 1.0}))[2]
            series = SimpleNamespace(progress=object(), work=None, revived=False)
            fleet.hub._running[bytes(32)] = series
            with pytest.raises(StoreLost, match="clock"):
                fleet.hub._require_lead()
            del fleet.hub._running[bytes(32)]

    asyncio.run(scenario())


def test_registers_of_two_hosts_are_merged(tmp_path):
    """A certificate that either signed stays, and so does what either revoked."""
    authority = new_authority("house", tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    for home, name in (("a", "alice"), ("b", "bob")):
        request = new_agent(name, tmp_path / name).read_bytes()
        with opened(tmp_path / home, authority) as register:
            register.sign(Request.parse(request, name))
            register.save()
    with opened(tmp_path / "b", authority) as register:
        register.revoke("bob")
        register.save()
    signed, revoked = (tmp_path / "b" / SIGNED).read_bytes(), (tmp_path / "b" / REVOKED).read_bytes()
    with opened(tmp_path / "a", authority) as register:
        register.merge(signed, revoked)
        register.save()
    with opened(tmp_path / "a", authority) as register:
        assert {entry.name: entry.revoked is None for entry in register.entries} == {
            "alice": True,
            "bob": False,
        }
        assert register.revoked.number == 1
        register.revoke("alice")
        register.save()
    with opened(tmp_path / "b", authority) as register:  # the newer list, not the older one
        register.merge((tmp_path / "a" / SIGNED).read_bytes(), (tmp_path / "a" / REVOKED).read_bytes())
        assert register.revoked.number == 2
        assert all(entry.revoked for entry in register.entries)
