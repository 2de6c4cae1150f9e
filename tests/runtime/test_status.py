"""What a running member shows: up to date, served to this machine only, nothing private."""

import asyncio
import dataclasses
import ipaddress
import json
import ssl
from datetime import UTC, datetime, timedelta

import click
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from prometheus_client.parser import text_string_to_metric_families

from tacit.base.errors import FileError, InputError, ParameterError
from tacit.cli.status_place import StatusAddress, StatusPlace
from tacit.core.protocol import notices
from tacit.core.protocol.messages import COORDINATOR, Reason, Refusal
from tacit.core.protocol.notices import Notice
from tacit.core.protocol.records import Began, Moved
from tacit.core.protocol.standing import Loss
from tacit.live.fleet.messages import REFUSALS
from tacit.live.status.report import REASONS, StatusReport
from tacit.live.status.server import StatusServer, tls_context
from tacit.live.status.status import Status
from tacit.live.transport.base import Network


@pytest.fixture(scope="module")
def game(played):
    return played()


@pytest.fixture
def status(game):
    return Status(game.session, clock=lambda: 12.0)


def test_every_word_of_a_refusal_has_its_meaning():
    assert REASONS.keys() == REFUSALS


def rows_of(status):
    """Return what `tacit status` prints, by name."""
    summary = StatusReport(status.document()).summary()
    return {row.name: row.value for rows in summary.sections.values() for row in rows}


def samples(status):
    families = text_string_to_metric_families(status.metrics().decode())
    return {(s.name, s.labels.get("reason")): s.value for family in families for s in family.samples}


def test_a_coordinator_shows_its_rounds(game, status):
    for notice in (
        notices.RoundOpened(0, 3),
        notices.Waiting(0, (2,)),
        notices.Refused(Refusal.REPLAY, 1),
        notices.Refused(Refusal.REPLAY, 1),
        notices.Refused(Refusal.BAD_SIGNATURE),
        notices.RoundClosed(0, (0, 1, 3), (2,)),
        notices.Equivocated(1, 0),
        notices.Quiet(3, 1),
    ):
        status.notice(notice)
    status.take(game.kept[COORDINATOR][:1])
    shown = json.loads(status.json())
    [found] = shown["sessions"]
    assert shown["state"] == found["phase"] == "running"
    assert (found["round"], found["rounds"], found["present"], found["used"]) == (1, 4, 3, 3)
    assert found["late"] == ["agent2"]
    assert found["quiet"] == ["agent3"]
    assert shown["counts"] == {"refused": {"replay": 2, "bad_signature": 1}, "equivocations": {"": 1}}
    assert found["equivocated"] == ["agent1"]
    heard = game.session.lattice.value(game.codec.open(game.feedback[0]).numbers[0])
    assert found["feedback"] == [game.session.clamp(heard)]
    assert found["loss"] is None
    assert (shown["updated"], shown["role"]) == (12.0, "coordinator")
    metrics = samples(status)
    assert metrics["tacit_round", None] == 1
    assert metrics["tacit_refused_total", "replay"] == 2
    assert metrics["tacit_equivocations_total", None] == 1
    assert metrics["tacit_late", None] == 1
    assert metrics["tacit_feedback", None] == found["feedback"][0]
    assert ("tacit_loss_cap", None) not in metrics
    status.notice(notices.Finished(4))
    assert status.standing.phase == "finished"
    assert status.standing.late == []
    assert samples(status)["tacit_finished", None] == 1


def test_an_agent_shows_its_loss_against_its_cap(game):
    status = Status(game.session, 1)
    status.notice(notices.Cost(planned=2.0, spent=0.5, cap=3.0))
    status.notice(notices.Spoken(0, 1.5))
    assert status.standing.loss == Loss(planned=2.0, spent=1.5, cap=3.0)
    status.notice(notices.Updated(0, 4))
    status.notice(notices.Behind(1, 3))
    assert (status.standing.round, status.standing.behind) == (1, 2)
    metrics = samples(status)
    assert (metrics["tacit_loss_spent", None], metrics["tacit_loss_cap", None]) == (1.5, 3.0)
    status.notice(notices.FellSilent(1, 1.5, 3.0))
    status.notice(notices.Stopped(1, Reason.OPERATOR))
    assert status.standing.phase == "stopped"
    refused = Status(game.session, 1)
    refused.notice(notices.OverCap(planned=2.0, spent=2.0, cap=3.0))
    assert refused.standing.phase == "refused"


def test_every_kind_of_notice_is_understood(game):
    """By the status, the log and the bar: what a notice says of itself fits its fields."""
    made = {"reason": Refusal.LATE, "missing": (1,), "used": (0, 1)}
    kinds = Notice.__subclasses__()
    assert len([kind for kind in kinds if kind.__module__ == notices.__name__]) == 23
    for kind in kinds:
        if dataclasses.is_dataclass(kind):
            notice = kind(**{f.name: made.get(f.name, 1) for f in dataclasses.fields(kind)})
            Status(game.session).notice(notice)
            notice.sentence(game.session)
            notice.progress(game.session)
            json.dumps(notice.facts(game.session))


def test_only_the_feedback_of_records_is_looked_at(game):
    """States are in the same records; none of their digits may come out."""
    status = Status(game.session, 1)
    secret = game.codec.pack((123456789,))
    status.take([Began(b"", 1, secret, 1.0, 0.0, 2.0)])
    assert status.standing.feedback is None
    status.take([Moved(0, (game.feedback[0],), (), b"", secret, secret)])
    with_secrets = status.json()
    clean = Status(game.session, 1)
    clean.take([Moved(0, (game.feedback[0],), (), b"", b"", b"")])
    shown, expected = json.loads(with_secrets), json.loads(clean.json())
    del shown["updated"], expected["updated"]
    assert shown == expected


def test_unknown_fields_are_a_mistake(status):
    with pytest.raises(AttributeError, match="theta"):
        status.update(theta=1)


async def ask(port, text, host="127.0.0.1"):
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(text.encode())
    answer = await reader.read()
    writer.close()
    return answer.decode()


def get(path, host="127.0.0.1"):
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"


def test_it_is_served_to_this_machine(status):
    async def main():
        async with StatusServer(status) as server:
            assert server.url == f"http://127.0.0.1:{server.port}"
            page = await ask(server.port, get("/status"))
            assert page.startswith("HTTP/1.1 200 OK")
            assert json.loads(page.partition("\r\n\r\n")[2])["sessions"][0]["name"] == "played"
            assert "tacit_rounds{" in await ask(server.port, get("/metrics", "localhost:1"))
            assert "404" in await ask(server.port, get("/else"))
            assert "405" in await ask(server.port, get("/status").replace("GET", "POST"))
            head = await ask(server.port, get("/status").replace("GET", "HEAD"))
            assert head.endswith("\r\n\r\n")
            # a page in a browser that made a name of its own lead here
            assert "403" in await ask(server.port, get("/status", "rebound.example"))
            assert "403" in await ask(server.port, "GET /status HTTP/1.1\r\n\r\n")
            assert not await ask(server.port, "x" * 20_000)  # too long: no answer, and it lives on
            assert "200 OK" in await ask(server.port, get("/"))
            with pytest.raises(ParameterError, match="another port"):
                async with StatusServer(status, server.port):
                    pass
        with pytest.raises(OSError, match=r".*"):
            await ask(server.port, get("/status"))

    asyncio.run(main())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_others_cannot_read_it_unless_that_is_meant(status, host):
    with pytest.raises(ParameterError, match="loopback"):
        StatusServer(status, host=host)
    StatusServer(status, host=host, anywhere=True)


def test_ports_are_ports(status):
    with pytest.raises(ParameterError, match="port"):
        StatusServer(status, 70_000)


def test_without_a_connection_nobody_is_running(game):
    """A dead coordinator, and one that never came: the status says so, and why."""
    status = Status(game.session, 1)
    status.notice(notices.Spoken(0, 0.5))
    there = Network(connected=(COORDINATOR,), heard=100.0)
    gone = Network(heard=100.0, trouble="wss://host:1: nobody listens there (yet).")
    status.watch_network(lambda: there)
    shown = status.document()
    assert (shown.state, shown.connected) == ("running", {"coordinator": "coordinator"})
    status.watch_network(lambda: gone)
    shown = json.loads(status.json())
    assert (shown["state"], shown["connected"], shown["heard"]) == ("disconnected", {}, 100.0)
    assert "nobody listens" in shown["trouble"]
    assert samples(status)["tacit_connected", None] == 0
    words = rows_of(status)
    assert (words["state"], words["connected"]) == ("disconnected", "nobody")
    assert "nobody listens" in words["trouble"]
    status.notice(notices.Finished(4))
    assert status.document().state == "finished"  # whoever is over needs nobody


def test_a_coordinator_that_waits_for_its_agents_is_not_disconnected(game):
    status = Status(game.session, COORDINATOR)
    status.watch_network(Network)
    assert status.document().state == "waiting"
    status.notice(notices.RoundOpened(0, 4))
    assert status.document().state == "disconnected"


def test_an_expired_certificate_is_shown_as_trouble(game):
    now = datetime(2030, 1, 1, tzinfo=UTC)
    status = Status(game.session, 1, clock=now.timestamp)
    status.watch_network(lambda: Network(connected=(COORDINATOR,), expires=now + timedelta(days=2)))
    assert status.document().trouble is None
    status.watch_network(lambda: Network(connected=(COORDINATOR,), expires=now))
    shown = status.document()
    assert shown.certificate_expires == now.timestamp()
    assert "expired on 2030-01-01 00:00 UTC: have it signed again" in shown.trouble
    assert rows_of(status)["trouble"] == shown.trouble


def test_healthy_is_who_answers_and_ready_is_who_can_work(game):
    now = datetime(2030, 1, 1, tzinfo=UTC)
    status = Status(game.session, 1, clock=now.timestamp)
    there = Network(connected=(COORDINATOR,), expires=now + timedelta(days=2))
    gone = Network(trouble="wss://host:1: nobody listens there (yet).")

    async def main():
        async with StatusServer(status) as server:

            async def asked(path):
                head, _, body = (await ask(server.port, get(path))).partition("\r\n\r\n")
                return int(head.split()[1]), body

            async def ready(network):
                status.watch_network(lambda: network)
                code, body = await asked("/readyz")
                assert samples(status)["tacit_ready", None] == (code == 200)
                assert await asked("/healthz") == (200, "ok\n")
                return code, body

            assert await ready(there) == (200, "ready\n")
            assert await ready(gone) == (503, f"no connection: {gone.trouble}\n")
            code, body = await ready(Network(connected=(COORDINATOR,), expires=now))
            assert (code, "expired on 2030-01-01" in body) == (503, True)
            status.update(lost_history=True)
            assert (await ready(there))[0] == 503
            status.update(lost_history=False, phase="refused")
            assert (await ready(there))[0] == 503
            status.update(phase="finished")
            assert (await ready(gone))[0] == 200

    asyncio.run(main())


def test_over_tls_others_may_read_it(status, tmp_path):
    certificate, key = written_certificate(tmp_path)

    async def main():
        async with StatusServer(status, tls=tls_context(certificate, key), anywhere=True) as server:
            assert server.url == f"https://127.0.0.1:{server.port}"
            trusting = ssl.create_default_context(cafile=certificate)
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=trusting)
            writer.write(get("/healthz", "status.example").encode())
            assert (await reader.read()).endswith(b"ok\n")
            writer.close()
            assert not await ask(server.port, get("/status"))  # without TLS nothing is answered

    asyncio.run(main())
    key.chmod(0o644)
    with pytest.raises(FileError, match=str(key)):
        tls_context(certificate, key)
    key.chmod(0o600)
    with pytest.raises(ParameterError, match="PEM"):
        tls_context(key, key)


def written_certificate(folder):
    """Write a certificate of this machine that signs itself, and its key."""
    key, name = (
        ec.generate_private_key(ec.SECP256R1()),
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")]),
    )
    start = datetime.now(UTC) - timedelta(days=1)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, start, start + timedelta(days=9))
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    signed = made.add_extension(here, critical=False).sign(key, hashes.SHA256())
    files = folder / "status.crt", folder / "status.key"
    files[0].write_bytes(signed.public_bytes(Encoding.PEM))
    files[1].touch(mode=0o600)
    files[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return files


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("9464", ("127.0.0.1", 9464, False)),
        ("http://9464", ("127.0.0.1", 9464, True)),
        ("http://0.0.0.0:80", ("0.0.0.0", 80, True)),
        ("[::1]:0", ("::1", 0, False)),
        ("node.example:9464", ("node.example", 9464, False)),
    ],
)
def test_where_the_status_is_is_a_port_or_an_address(text, found):
    assert StatusAddress().convert(text, None, None) == found


@pytest.mark.parametrize("text", ["", "x", "host:", "1:70000", "-1", "²", "http://", "https://h:1x"])
def test_anything_else_is_refused(text):
    with pytest.raises(click.BadParameter, match="port"):
        StatusAddress().convert(text, None, None)


def test_an_open_address_needs_tls_or_a_word(status, tmp_path):
    files = written_certificate(tmp_path)
    with pytest.raises(ParameterError, match="http://"):
        StatusPlace(("0.0.0.0", 0, False), None).server(status)
    assert StatusPlace(("0.0.0.0", 0, True), None).server(status).url.startswith("http:")
    assert StatusPlace(("0.0.0.0", 0, False), files).server(status).url.startswith("https:")
    for wrong in (
        {"status": None, "status_tls": files},
        {"status": ("127.0.0.1", 0, True), "status_tls": files},
    ):
        with pytest.raises(InputError, match="--status"):
            StatusPlace.taken(wrong)
