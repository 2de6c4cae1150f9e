"""Nonsense on a connection of a fleet: one sentence, seldom, and everyone else goes on."""

import asyncio
import base64
import re
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from tests.runtime.builders import limited
from tests.runtime.fleets import Fleet, following
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tacit.base.errors import FileError, InputError
from tacit.live.fleet.enrolment import enroll
from tacit.live.fleet.messages import (
    ENROL_PATH,
    EnrolmentAnswer,
    RenewalAnswer,
    RenewalRequest,
    RevocationNews,
    decode_control,
    encode_control,
)

NOT_TEXT = b"\x00\x81\xa2is\xa1\xff"
DEEP = b"\x00" + b"\x91" * 5000


@pytest.fixture
def uncaught():
    """What would be printed to stderr with a traceback, by the loop that calls `watch`."""

    class Uncaught(list):
        def watch(self):
            asyncio.get_running_loop().set_exception_handler(lambda _, what: self.append(what))

    return Uncaught()


def bare_tls():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def test_a_strangers_nonsense_ends_its_connection_and_leaves_no_traceback(tmp_path, uncaught):
    async def main():
        uncaught.watch()
        fleet = Fleet(tmp_path)
        async with fleet.serving():
            for nonsense in (NOT_TEXT, DEEP, b"", b"\xff" * 7):
                async with connect(fleet.address + ENROL_PATH, ssl=bare_tls(), proxy=None) as link:
                    await link.send(nonsense)
                    with pytest.raises(ConnectionClosed):
                        await link.recv()
                    assert link.close_code == 1003
            await fleet.enrol("alice")  # the hub goes on

    limited(main())
    assert uncaught == []


def test_nonsense_of_a_hub_is_told_seldom_and_the_agent_goes_on(tmp_path, uncaught):
    async def main():
        uncaught.watch()
        fleet = Fleet(tmp_path)
        async with fleet.serving():
            await fleet.enrol("alice")
            fleet.policy("alice")
            async with following(fleet, "alice") as alice:
                link = fleet.hub.gateway.members["alice"].link
                for _ in range(50):
                    link.send(NOT_TEXT)
                    link.send(DEEP)
                broken = b"-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n"
                link.send(encode_control(RevocationNews(broken.replace(b"CERTIFICATE", b"X509 CRL"))))
                alice._asked = True  # or an answer is ignored
                link.send(encode_control(RenewalAnswer(broken)))
                await fleet.until(lambda: any("certificate" in text for _, text, _ in troubles(fleet)))
                assert alice.connection.connected
                assert len(troubles(fleet)) < 12

    limited(main())
    assert uncaught == []


def test_a_renewal_of_nonsense_is_refused_in_words(tmp_path, uncaught):
    async def main():
        uncaught.watch()
        fleet = Fleet(tmp_path)
        async with fleet.serving():
            await fleet.enrol("alice")
            fleet.policy("alice")
            async with following(fleet, "alice") as alice:
                whole = (tmp_path / "alice" / "request.pem").read_bytes()
                for request in (b"\xff", whole[:100], with_an_x400_address(whole)):
                    alice.connection.send(RenewalRequest(request))
                await fleet.until(lambda: len(fleet.told.events("renewal-refused")) >= 3)
                assert alice.connection.connected

    limited(main())
    assert uncaught == []


def with_an_x400_address(request):
    """A request in which the name of the agent has a kind that no library knows."""
    asked = x509.load_pem_x509_csr(request).public_bytes(Encoding.DER)
    broken = re.sub(rb"\x86(.)tacit:agent", b"\xa3\\1tacit:agent", asked, flags=re.DOTALL)
    assert broken != asked
    head = b"CERTIFICATE REQUEST-----\n"
    return b"-----BEGIN " + head + base64.encodebytes(broken) + b"-----END " + head


def troubles(fleet):
    return fleet.told.events("trouble")


def test_a_bug_in_a_handler_ends_that_connection_with_one_sentence_and_no_secret(
    tmp_path, uncaught, monkeypatch
):
    async def main():
        uncaught.watch()
        fleet = Fleet(tmp_path)
        async with fleet.serving() as hub:
            await fleet.enrol("alice")
            fleet.policy("alice")
            async with following(fleet, "alice") as alice:

                def bug(member, message):
                    raise KeyError("the secret")

                first = hub.gateway.members["alice"].link
                with monkeypatch.context() as patch:
                    patch.setattr(hub, "said", bug)
                    alice.connection.send(RenewalRequest(b""))
                    await fleet.until(lambda: any("KeyError" in text for _, text, _ in troubles(fleet)))
                    await first.lost
                assert not any("secret" in text for _, text, _ in fleet.told)
                await fleet.until(
                    lambda: "alice" in hub.gateway.members and hub.gateway.members["alice"].link is not first
                )

    limited(main())
    assert uncaught == []


def test_texts_of_others_are_short_and_printable():
    escape = "\x1b[2J\x1b]0;x\x07 no\u202e " + "x" * 200_000
    for said in (RenewalAnswer(why=escape), EnrolmentAnswer(why=escape)):
        found = decode_control(encode_control(said)).why
        assert found.isprintable()
        assert "no" in found
        assert len(found) < 600


def test_what_a_hub_says_at_enrolment_cannot_control_a_terminal(tmp_path, monkeypatch):
    async def main():
        fleet = Fleet(tmp_path)
        async with fleet.serving() as hub:

            async def enrol(*_):
                return EnrolmentAnswer(why="\x1b[2J go away" + "x" * 20_000)

            monkeypatch.setattr(hub, "enrol", enrol)
            with pytest.raises(InputError, match="go away") as refused:
                await asyncio.to_thread(enroll, fleet.invite("alice"), tmp_path / "alice")
            assert str(refused.value).isprintable()
            assert len(str(refused.value)) < 600

    limited(main())


@pytest.mark.parametrize("data", [b"", NOT_TEXT, DEEP, b"\x93\xa1\xff", b"\x83\xa2is\xa5offer"])
def test_a_garbled_file_of_a_session_under_way_is_named(tmp_path, data):
    async def main():
        fleet = Fleet(tmp_path)
        async with fleet.serving():
            await fleet.enrol("alice")
            fleet.policy("alice")
            folder = tmp_path / "alice.ledger.sessions"
            folder.mkdir(mode=0o700)
            path = folder / f"{'ab' * 32}.session"
            path.write_bytes(data)
            path.chmod(0o600)
            with pytest.raises(FileError, match="must hold a session under way"):
                async with fleet.follow("alice"):
                    pass
            path.unlink()
            async with following(fleet, "alice"):
                pass

    limited(main())
