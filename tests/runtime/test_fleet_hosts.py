"""A hub on several hosts: members try its addresses in turn, and go where one leads."""

import asyncio

import pytest
from tests.doubles.processes import free_ports
from tests.runtime.fleets import Fleet, following

from tacit.base.errors import InputError
from tacit.live.fleet.invitation import Invitation, new_invitation
from tacit.live.fleet.messages import STANDS_BY, referral, referred
from tacit.live.fleet.policy import policy_text, read_policy
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
