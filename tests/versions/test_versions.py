"""What a released version sent is read by every later one, and what is newer is refused in one sentence."""

import asyncio
import json
import time
from typing import get_args

import msgspec
import pytest
from tests.doubles import known_key, known_session
from tests.runtime.fleets import Fleet, following, refusals
from tests.versions import HERE, SAID, fresh

import tacit
from tacit.base.errors import InputError
from tacit.core.protocol.canonical import session_id
from tacit.core.protocol.codec import Codec
from tacit.core.protocol.messages import Message
from tacit.core.protocol.session import Session
from tacit.live.fleet import enrolment, follower, messages
from tacit.live.fleet.messages import CONTROL, decode_control, encode_control, unreadable_session
from tacit.live.fleet.store import HubStore

NAMES = ("alice", "bob", "carol")
RELEASED = [json.loads(path.read_text()) for path in sorted(HERE.glob("*.json"))]
SESSIONS = [(told, name) for told in RELEASED for name in told["sessions"]]


def test_the_bytes_of_this_version_are_kept_and_have_not_changed():
    """Before a release: ``python -m tests.versions``. After it: this version is not what was released."""
    told = {one["version"]: one for one in RELEASED}
    assert told[tacit.__version__] == fresh()


def test_every_message_of_a_hub_is_among_them():
    assert {type(one) for one in SAID} == set(get_args(messages.AnyMessage))


@pytest.mark.parametrize("told", RELEASED, ids=lambda told: told["version"])
def test_messages_of_released_versions_are_read_and_written_as_then(told):
    for (name, data), said in zip(told["messages"], SAID, strict=False):
        found = decode_control(bytes.fromhex(data))
        assert (type(found).__name__, found) == (name, said)
        assert encode_control(found).hex() == data
    assert set(told["refusals"]) <= messages.REFUSALS


@pytest.mark.parametrize(("told", "name"), SESSIONS, ids=[f"{t['version']}-{n}" for t, n in SESSIONS])
def test_sessions_and_frames_of_released_versions_are_read(told, name):
    number, data = told["sessions"][name]
    session = Session.decode(bytes.fromhex(data))
    assert (session.id.hex(), session.encode().hex()) == (number, data)
    codec = Codec(session)
    for frame in told["frames"].get(name, ()):
        assert isinstance(codec.open(bytes.fromhex(frame)), Message)


def test_a_field_at_its_default_is_not_sent():
    """So a field that a later version adds reaches an older member only where it is used."""
    for said in SAID:
        sent = msgspec.msgpack.decode(encode_control(said)[1:])
        for field in msgspec.structs.fields(type(said)):
            value = getattr(said, field.name)
            assert (field.name in sent) == (field.required or value != field.default)


@pytest.mark.parametrize("here", ["hub", "member"])
@pytest.mark.parametrize("said", SAID, ids=lambda said: type(said).__name__)
def test_an_unknown_field_is_refused_by_its_name_with_whom_to_upgrade(said, here):
    told = msgspec.msgpack.decode(encode_control(said)[1:])
    with pytest.raises(InputError) as caught:
        decode_control(CONTROL + msgspec.msgpack.encode(told | {"newer": 1}), here)
    assert str(caught.value) == (
        f"tacit {tacit.__version__} here does not know 'newer' in a message {told['is']!r}: "
        f"the other side is newer, upgrade this {here}."
    )


def test_an_unknown_message_is_refused_by_its_name():
    with pytest.raises(InputError, match=r"does not know a message 'newer'.*upgrade this hub"):
        decode_control(CONTROL + msgspec.msgpack.encode({"is": "newer", "x": 1}), "hub")


def test_who_enrols_with_a_newer_version_is_told_to_upgrade_the_hub(tmp_path, monkeypatch):
    """The client's next field reaches a hub of this version."""

    def newer(said):
        return CONTROL + msgspec.msgpack.encode(
            msgspec.msgpack.decode(encode_control(said)[1:]) | {"newer": 1}
        )

    async def main():
        fleet = Fleet(tmp_path)
        monkeypatch.setattr(enrolment, "encode_control", newer)
        async with fleet.serving():
            with pytest.raises(InputError, match=r"'newer' in a message 'enrol'.*upgrade this hub"):
                await fleet.enrol("alice")

    asyncio.run(main())


def test_nonsense_is_not_called_newer():
    for data in (b"", b"\xc1", msgspec.msgpack.encode({"is": "hello"}), msgspec.msgpack.encode([1])):
        with pytest.raises(InputError, match="cannot be read"):
            decode_control(CONTROL + data)


def test_an_offer_of_a_newer_hub_is_named_by_its_id_if_the_hub_has_signed_it():
    """A session with a field of the future, as an agent and as a keeper get it."""
    fields = msgspec.msgpack.decode(known_session().canonical) | {"zzz": 1}
    canonical = msgspec.msgpack.encode(fields)
    number = session_id(canonical)
    key = known_key(-1)
    public, signature = key.public_key().public_bytes_raw(), key.sign(b"tacit session offer 1\0" + number)
    keepers = messages.SessionOffer(msgspec.msgpack.encode([canonical, []]), signature)
    for offer in (messages.SessionOffer(canonical, signature, b"leaf", b"path"), keepers):
        with pytest.raises(InputError, match="zzz: is not known here"):
            messages.offered_session(offer, public)
        assert unreadable_session(offer, public) == number
        assert unreadable_session(offer, bytes(32)) is None
        assert unreadable_session(msgspec.structs.replace(offer, session=b"\xc1"), public) is None


def test_a_hub_learns_at_once_that_a_member_is_too_old(tmp_path, monkeypatch):
    def newer(offer, hub_key):
        raise InputError("zzz: is not known here.")

    async def main():
        fleet = Fleet(tmp_path)
        async with fleet.serving() as hub:
            for name in NAMES:
                await fleet.enrol(name)
                fleet.policy(name)
            async with following(fleet, *NAMES):
                ((state, _),) = await fleet.run(least=3, anyway=True, start_deadline=0.3)
            assert state != "finished"
            assert refusals(hub) == {"version": 3}
        told = [text for _, text, _ in fleet.told.events("refused")]
        assert sum(text.endswith("if the hub is newer, upgrade this member.") for text in told) == 3

    monkeypatch.setattr(follower, "offered_session", newer)
    asyncio.run(main())


def test_a_hub_gives_up_a_session_that_it_cannot_read_and_goes_on(tmp_path):
    """One of tacit 0.2 was under way when its hub was upgraded."""

    async def main():
        fleet = Fleet(tmp_path)
        store = HubStore(fleet.home)
        store.add_task("old", {}, None, 1)
        expires = int(time.time()) + 10**6
        data = b"\x9a\xadtacit session\x02"
        store.start_session("old", bytes(32), "old", data, expires, next_run=0.0, last=True)
        store.close()
        async with fleet.serving() as hub:
            await fleet.enrol("alice")
            fleet.policy("alice")
            async with following(fleet, "alice") as alice:
                await fleet.until(lambda: fleet.told.events("failed"))
                alice.connection.send(messages.ChannelOpen(bytes(32)))
                ((_, sentence, _),) = fleet.told.events("failed")
                assert "tacit 0.2 or older" in sentence
                assert [row["state"] for row in hub.store.sessions("old")] == ["failed"]

    asyncio.run(main())
