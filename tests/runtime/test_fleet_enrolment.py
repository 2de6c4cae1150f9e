"""Invitations: used once, by whom they are for, in time; keys never travel."""

import asyncio
import time
from datetime import timedelta

import msgspec
import pytest
from tests.runtime.fleets import Fleet, following

from tacit.base.errors import FileError, InputError
from tacit.live.fleet import hub as hub_module
from tacit.live.fleet.database import Taken
from tacit.live.fleet.enrolment import Enrolment, enroll
from tacit.live.fleet.hub_directory import AUTHORITY
from tacit.live.fleet.invitation import Invitation, new_invitation, require_pattern
from tacit.live.fleet.messages import EnrolmentRequest
from tacit.live.fleet.store import HubStore
from tacit.live.identity import register as register_module
from tacit.live.identity.certificates import Request, read_certificates
from tacit.live.identity.identity import Identity, install, new_agent, renew_agent
from tacit.live.identity.register import REVOKED, Register, opened

SHORT = 0.002  # days, so that a certificate is due for renewal at once


@pytest.fixture
def fleet(tmp_path):
    return Fleet(tmp_path)


@pytest.fixture
def enrolment(fleet):
    store = HubStore(fleet.folder / "hub")
    yield Enrolment(fleet.folder / "hub" / AUTHORITY, store)
    store.close()


def asked(fleet, invitation, name, folder=None):
    home = fleet.folder / (folder or name)
    request = new_agent(name, home).read_bytes() if not home.exists() else (home / "request.pem").read_bytes()
    return EnrolmentRequest(invitation.number, invitation.secret, request)


def test_an_invitation_reads_back_and_a_part_of_it_is_refused():
    made = new_invitation("wss://hub.example.org:7447", "ab" * 32, "meter-*", 2_000_000_000)
    text = made.text()
    assert "\n" not in text
    assert Invitation.parse(f" {text}\n") == made
    assert made.secret.hex() not in repr(made)
    for broken in (text[:-1], text[:-1] + "A", text[5:], "", "x" * 200):
        if broken != text:
            with pytest.raises(InputError, match="copy all") as error:
                Invitation.parse(broken)
            assert broken == "" or broken not in str(error.value)


@pytest.mark.parametrize("pattern", ["coordinator", "all", "a b", "../x", "", "x" * 65, "a*/b"])
def test_nobody_can_be_invited_under_such_a_name(pattern):
    with pytest.raises(InputError):
        require_pattern(pattern)


def test_an_invitation_serves_one_key_once_and_for_ever(fleet, enrolment):
    invitation, now = fleet.invite("alice"), time.time()
    request = asked(fleet, invitation, "alice")
    made, bundle = enrolment.grant(request, now)
    assert made.name == "alice"
    assert install(bundle, fleet.folder / "alice").name == "alice"
    again, _ = enrolment.grant(request, now)  # the answer was lost: the same keys may ask again
    assert again.subject == made.subject
    with pytest.raises(InputError, match="was used"):
        enrolment.grant(asked(fleet, invitation, "alice", "another"), now)
    row = enrolment.store.invitation(invitation.number)
    assert (row["name"], row["key"]) == ("alice", made.subject.key)
    with pytest.raises(Taken):
        enrolment.store._do("UPDATE invitation SET used = NULL, name = NULL, key = NULL")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"secret": bytes(16)}, "does not know"),
        ({"number": "000000000000"}, "does not know"),
    ],
)
def test_a_guessed_invitation_is_unknown(fleet, enrolment, change, why):
    request = asked(fleet, fleet.invite("alice", **change), "alice")
    with pytest.raises(InputError, match=why):
        enrolment.grant(request, time.time())


def test_an_expired_invitation_and_another_name_are_refused(fleet, enrolment):
    invitation = fleet.invite("meter-*")
    request = asked(fleet, invitation, "meter-1")
    with pytest.raises(InputError, match="expired"):
        enrolment.grant(request, invitation.expires)
    with pytest.raises(InputError, match=r"meter-\*"):
        enrolment.grant(asked(fleet, invitation, "alice"), time.time())
    assert enrolment.grant(request, time.time())[0].name == "meter-1"


def test_a_name_that_has_a_key_is_not_given_to_another(fleet, enrolment):
    enrolment.grant(asked(fleet, fleet.invite("meter-*"), "meter-1"), time.time())
    second = fleet.invite("meter-*")
    with pytest.raises(InputError, match="another signing key"):
        enrolment.grant(asked(fleet, second, "meter-1", "thief"), time.time())
    assert enrolment.store.invitation(second.number)["used"] is None  # it may be used with another name
    assert enrolment.grant(asked(fleet, second, "meter-2"), time.time())[0].name == "meter-2"


def test_the_use_is_on_the_disk_before_the_certificate_leaves(fleet, enrolment, monkeypatch):
    invitation = fleet.invite("meter-*")
    request = asked(fleet, invitation, "meter-1")

    def power_cut(self):
        raise OSError("power cut")

    with monkeypatch.context() as patch:
        patch.setattr(Register, "save", power_cut)
        with pytest.raises(OSError, match="power cut"):
            enrolment.grant(request, time.time())
    other = HubStore(fleet.folder / "hub")
    assert other.invitation(invitation.number)["name"] == "meter-1"
    other.close()
    with pytest.raises(InputError, match="was used"):
        enrolment.grant(asked(fleet, invitation, "meter-2"), time.time())
    assert enrolment.grant(request, time.time())[0].name == "meter-1"


def test_the_store_holds_no_secret(fleet):
    invitation = fleet.invite("alice")
    held = b"".join(path.read_bytes() for path in (fleet.folder / "hub").glob("hub.sqlite*"))
    assert invitation.number.encode() in held
    assert invitation.secret not in held
    assert invitation.secret.hex().encode() not in held


def test_a_certificate_is_renewed_for_the_same_name_only(fleet, enrolment):
    _, bundle = enrolment.grant(asked(fleet, fleet.invite("alice", days=SHORT), "alice"), time.time())
    alice = install(bundle, fleet.folder / "alice")
    with pytest.raises(InputError, match="may not ask"):
        enrolment.renew(alice.certificate, new_agent("bob", fleet.folder / "bob").read_bytes())
    before = alice.certificate.serial
    renewed = enrolment.renew(alice.certificate, renew_agent(fleet.folder / "alice").read_bytes())
    assert install(renewed, fleet.folder / "alice").certificate.serial != before
    with opened(enrolment.authority, fleet.authority()) as register:
        assert [entry.name for entry in register.entries] == ["coordinator", "alice", "alice"]


def test_a_certificate_is_renewed_when_it_is_due_and_seldom(fleet, enrolment):
    _, bundle = enrolment.grant(asked(fleet, fleet.invite("bob"), "bob"), time.time())
    bob = install(bundle, fleet.folder / "bob")
    with pytest.raises(InputError, match="a third of its life"):
        enrolment.renew(bob.certificate, renew_agent(fleet.folder / "bob").read_bytes())
    invitation = fleet.invite("alice", days=SHORT)
    request = asked(fleet, invitation, "alice")
    alice = install(enrolment.grant(request, time.time())[1], fleet.folder / "alice")
    again = renew_agent(fleet.folder / "alice").read_bytes()
    for _ in range(3):
        enrolment.renew(alice.certificate, again)
    with pytest.raises(InputError, match="has had 4 certificates"):
        enrolment.renew(alice.certificate, again)
    with pytest.raises(InputError, match="has had 4 certificates"):
        enrolment.grant(request, time.time())  # nor by the invitation, which its owner may send again
    with opened(enrolment.authority, fleet.authority()) as register:
        assert [entry.name for entry in register.entries].count("alice") == 4


def test_a_key_is_revoked_by_one_entry_however_many_certificates_it_has(fleet):
    home, authority = fleet.folder / "hub" / AUTHORITY, fleet.authority()
    request = Request.parse(new_agent("alice", fleet.folder / "alice").read_bytes(), "it")
    with opened(home, authority) as register:
        made = [register.sign(request) for _ in range(50)]
        register.revoke("alice")
        register.save()
    with opened(home, authority) as register:
        assert len(register.revoked.entries) == 1
        assert all(register.revoked.entry(one) for one in made)
        with pytest.raises(InputError, match="was revoked"):
            register.sign(request)


def test_what_has_expired_leaves_the_list_and_is_not_forgotten(fleet, monkeypatch):
    home, authority = fleet.folder / "hub" / AUTHORITY, fleet.authority()
    requests = [
        Request.parse(new_agent(name, fleet.folder / name).read_bytes(), "it") for name in ("alice", "bob")
    ]
    with opened(home, authority) as register:
        for request in requests:
            register.sign(request, days=SHORT)
            register.sign(request, days=SHORT)
        register.revoke("alice")
        register.save()
    monkeypatch.setattr(register_module, "_KEPT", timedelta(hours=-1))  # as if it had expired
    with opened(home, authority) as register:
        assert [entry.name for entry in register.revoked.entries] == ["alice"]
        register.entries = [msgspec.structs.replace(e, expires=e.signed) for e in register.entries]
        with pytest.raises(InputError, match="was revoked"):
            register.sign(requests[0])
        register.save()
        assert [entry.name for entry in register.entries] == ["coordinator", "alice", "bob"]
        last = Request.parse(new_agent("carol", fleet.folder / "carol").read_bytes(), "it")
        register.sign(last)
        register.revoke("carol")
        register.save()
    with opened(home, authority) as register:
        assert [entry.name for entry in register.revoked.entries] == ["carol"]
        with pytest.raises(InputError, match="was revoked"):
            register.sign(requests[0])


def test_a_list_that_a_crash_left_out_is_written_by_the_next_save(fleet):
    home, authority = fleet.folder / "hub" / AUTHORITY, fleet.authority()
    request = Request.parse(new_agent("alice", fleet.folder / "alice").read_bytes(), "it")
    with opened(home, authority) as register:
        made = register.sign(request)
        register.revoke("alice")
        register.save()
    (home / REVOKED).unlink()
    with opened(home, authority) as register:
        assert register.revoked is None
        register.save()
    with opened(home, authority) as register:
        assert register.revoked.entry(made) is not None


def test_a_list_that_is_too_long_to_send_cuts_nobody_off(tmp_path, monkeypatch):
    monkeypatch.setattr(hub_module, "LIST_BYTES", 1000)

    async def main():
        fleet = Fleet(tmp_path)
        async with fleet.serving() as hub:
            for name in ("alice", "bob"):
                await fleet.enrol(name)
                fleet.policy(name)
            async with following(fleet, "alice", "bob") as (alice, _):
                with opened(tmp_path / "hub" / AUTHORITY, fleet.authority()) as register:
                    for number in range(20):
                        home = fleet.folder / f"gone-{number}"
                        register.sign(Request.parse(new_agent(home.name, home).read_bytes(), "it"))
                        register.revoke(home.name)
                    register.revoke("bob")
                    register.save()
                await fleet.until(lambda: "bob" not in hub.gateway.members)
                assert alice.connection.connected
                assert alice.identity.revocations is None
                await fleet.until(
                    lambda: sum("too many" in text for _, text, _ in fleet.told.events("trouble")) == 1
                )

    asyncio.run(main())


def test_enrolment_over_the_network_and_by_another_hub(tmp_path):
    async def main():
        fleet, other = Fleet(tmp_path / "a"), Fleet(tmp_path / "b")
        async with fleet.serving(), other.serving():
            invitation = fleet.invite("alice")
            made = await asyncio.to_thread(enroll, invitation, tmp_path / "alice")
            assert made.authority.key_fingerprint == fleet.fingerprint
            assert made.key in fleet.told.events("enrolled")[0][1]
            # A second use with other keys, and a name that was not invited.
            with pytest.raises(InputError, match="was used"):
                await asyncio.to_thread(enroll, invitation, tmp_path / "copy")
            with pytest.raises(FileError, match="has a certificate already"):
                await asyncio.to_thread(enroll, invitation, tmp_path / "alice")
            with pytest.raises(InputError, match="choose one"):
                await asyncio.to_thread(enroll, fleet.invite("m-*"), tmp_path / "m")
            # Someone in between has another authority: nothing is sent, not even the number.
            lured = fleet.invite("bob", address=other.address)
            with pytest.raises(InputError, match="Nothing was sent"):
                await asyncio.to_thread(enroll, lured, tmp_path / "bob")
            assert not other.told.events("enrolled", "enrolment-refused")
            assert not (tmp_path / "bob").exists()
            late = msgspec.structs.replace(fleet.invite("eve"), expires=1)
            with pytest.raises(InputError, match="expired"):
                await asyncio.to_thread(enroll, late, tmp_path / "eve")
        with pytest.raises(InputError, match="nobody listens"):
            await asyncio.to_thread(enroll, fleet.invite("eve"), tmp_path / "eve")

    asyncio.run(main())


def test_the_private_keys_stay(tmp_path, monkeypatch):
    """What the hub hears in an enrolment holds no private key."""
    heard = []
    real = Enrolment.grant
    monkeypatch.setattr(
        Enrolment, "grant", lambda self, asked, now: heard.append(asked) or real(self, asked, now)
    )

    async def main():
        fleet = Fleet(tmp_path)
        async with fleet.serving():
            await fleet.enrol("alice")

    asyncio.run(main())
    assert [Request.parse(one.request, "it").subject.name for one in heard] == ["alice"]
    assert b"PRIVATE" not in heard[0].request


def test_revoked_members_are_turned_out_and_certificates_renew_by_themselves(tmp_path):
    async def main():
        fleet = Fleet(tmp_path)
        async with fleet.serving():
            await fleet.enrol("alice", days=SHORT)
            await fleet.enrol("bob")
            fleet.policy("alice")
            fleet.policy("bob")
            before = Identity.load(tmp_path / "alice").certificate
            async with following(fleet, "alice", "bob"):
                await fleet.until(lambda: fleet.told.events("renewed"))
                await fleet.until(
                    lambda: Identity.load(tmp_path / "alice").certificate.serial != before.serial
                )
                await fleet.until(
                    lambda: (
                        "alice" in (members := fleet.hub.gateway.members)
                        and members["alice"].certificate.serial != before.serial
                    )
                )
                with opened(tmp_path / "hub" / AUTHORITY, fleet.authority()) as register:
                    register.revoke("bob")
                    register.save()
                await fleet.until(lambda: "bob" not in fleet.hub.gateway.members)
                await fleet.until(lambda: Identity.load(tmp_path / "alice").revocations is not None)
                assert any("revoked" in text for event, text, _ in fleet.told.events("trouble"))

    asyncio.run(main())


def test_the_hub_renews_its_own_certificates(tmp_path):
    async def main():
        fleet = Fleet(tmp_path)
        from tacit.live.identity.identity import renew_authority

        renew_authority(tmp_path / "hub" / AUTHORITY, days=0.01)
        before = fleet.authority().certificate
        async with fleet.serving():
            after = fleet.authority().certificate
            assert after.same_key(before)
            assert after.serial != before.serial
            await fleet.enrol("alice")  # the invitation pins the key, which stays
            assert (
                read_certificates((tmp_path / "alice" / "authority.crt").read_bytes(), "it")[0].serial
                == after.serial
            )

    asyncio.run(main())
