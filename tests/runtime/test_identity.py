"""Keys and certificates: who may connect; no private key is sent."""

import base64
import os
import socket
import ssl
import stat
import threading
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from tacit.base.errors import FileError, InputError
from tacit.live.identity import certificates
from tacit.live.identity import identity as identities
from tacit.live.identity.certificates import Authority, CertificateSubject, Request, read_certificates
from tacit.live.identity.identity import Identity, bundle, install, new_agent, new_authority, provision
from tacit.live.identity.keys import key_bytes, key_text, private_pem, tls_key

NAMES = ("coordinator", "alice", "bob")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Everybody's keys under one authority; nobody changes them."""
    return provision(tmp_path_factory.mktemp("world") / "keys", NAMES, listening=["coordinator"])


@pytest.fixture
def home(tmp_path):
    return tmp_path / "keys"


def signed(home, name="carol", *, authority=None, hosts=(), days=1.0, now=None):
    """Make an agent as the docs recommend, and return its identity."""
    authority = authority or Authority.make("authority")
    request = Request.parse(new_agent(name, home, hosts=hosts).read_bytes(), "request")
    return install(bundle(authority.sign(request, days, listen=True, now=now), authority), home, now=now)


# ---- handshakes ---------------------------------------------------------------------------------------


def handshake(server, client, name="localhost", *, server_trusts=None, client_trusts=None):
    """Return what both ends say after a handshake with certificates."""
    inside = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    inside.load_cert_chain(server.certificate, server.private_key)
    inside.load_verify_locations(server_trusts or server.authority)
    inside.verify_mode = ssl.CERT_REQUIRED
    outside = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    outside.load_verify_locations(client_trusts or server.authority)
    if client is not None:
        outside.load_cert_chain(client.certificate, client.private_key)
    a, b = socket.socketpair()
    said = {}

    def serve():
        try:
            with inside.wrap_socket(a, server_side=True) as end:
                said["server"] = end.getpeercert()
                end.sendall(b"welcome")
        except (ssl.SSLError, OSError) as error:
            said["server"] = str(error)
            a.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with outside.wrap_socket(b, server_hostname=name) as end:
            said["client"] = end.recv(100)  # with TLS 1.3 only reading tells that the server refused
    except (ssl.SSLError, OSError) as error:
        said["client"] = str(error)
        b.close()
    thread.join(10)
    return said


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_the_right_authority_is_accepted(world, host):
    said = handshake(world["coordinator"].tls, world["alice"].tls, host)
    assert said["client"] == b"welcome"
    assert (("commonName", "alice"),) in said["server"]["subject"]
    assert ("URI", f"tacit:agent:alice:{world['alice'].key}") in said["server"]["subjectAltName"]


def test_another_host_is_refused(world):
    said = handshake(world["coordinator"].tls, world["alice"].tls, "elsewhere.example")
    assert "Hostname mismatch" in said["client"]


def test_another_authority_is_refused(world, home):
    stranger = signed(home)
    said = handshake(world["coordinator"].tls, stranger.tls)
    assert "certificate verify failed" in said["server"]
    assert said["client"] != b"welcome"
    said = handshake(world["coordinator"].tls, world["alice"].tls, client_trusts=stranger.tls.authority)
    assert "certificate verify failed" in said["client"]


def test_an_authority_of_the_same_name_is_refused(world, home):
    impostor = signed(home, authority=Authority.make("demo-authority"))
    said = handshake(world["coordinator"].tls, impostor.tls)
    assert "certificate verify failed" in said["server"]


def test_no_certificate_is_refused(world):
    said = handshake(world["coordinator"].tls, None)
    assert "peer did not return a certificate" in said["server"]
    assert said["client"] != b"welcome"


def test_an_expired_certificate_is_refused(world, tmp_path):
    authority = Authority.make("old", days=30, now=datetime.now(UTC) - timedelta(days=20))
    then = datetime.now(UTC) - timedelta(days=10)
    expired = signed(tmp_path / "expired", authority=authority, days=1, now=then)
    server = signed(tmp_path / "server", "coordinator", authority=authority, hosts=["localhost"])
    said = handshake(server.tls, expired.tls)
    assert "certificate has expired" in said["server"]
    with pytest.raises(FileError, match=r"the certificate of carol expired on \d{4}-.*`tacit keys sign`"):
        expired.require_current()
    expired.require_current(then)
    with pytest.raises(FileError, match="not valid before"):
        expired.require_current(then - timedelta(days=2))


def test_an_agent_cannot_pose_as_a_server(world):
    """A certificate without a host does not allow to listen."""
    said = handshake(world["alice"].tls, world["bob"].tls, "alice")
    assert "unsuitable certificate purpose" in said["client"] or "mismatch" in said["client"]


def test_an_agent_cannot_sign_for_others(world, home):
    """A certificate of an agent is no authority, whatever it signs."""
    alice = world["alice"]
    key = identities.read_tls_key(alice.tls.private_key.read_bytes(), "key")
    false = Authority(key, alice.certificate)
    request = Request.parse(new_agent("carol", home).read_bytes(), "request")
    made = false.sign(request, 1)
    assert not made.issued_by(alice.certificate)
    with pytest.raises(FileError, match="must be a certificate and its own"):
        install(bundle(made, false), home)


def test_one_file_serves_key_and_certificate(world):
    tls = world["alice"].tls
    assert tls.private_key == tls.certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_cert_chain(tls.certificate)


# ---- signatures ---------------------------------------------------------------------------------------


def test_an_identity_signs(world):
    alice = world["alice"]
    signature = alice.sign(b"message")
    Ed25519PublicKey.from_public_bytes(alice.public_key).verify(signature, b"message")
    assert key_bytes(alice.key) == alice.public_key
    assert len({made.public_key for made in world.values()}) == len(NAMES)


@given(st.binary(min_size=32, max_size=32).filter(lambda raw: raw[5] not in (0, 255)))
def test_keys_in_letters_come_back(raw):
    assert key_bytes(key_text(raw)) == raw


@pytest.mark.parametrize("text", ["", "A" * 42, "A" * 44, "é" * 43, "A" * 42 + "B", "A" * 42 + "=", "+" * 43])
def test_letters_that_are_no_key(text):
    with pytest.raises(InputError, match="43 characters"):
        key_bytes(text)


def test_a_key_that_anyone_could_sign_for():
    with pytest.raises(InputError, match="small order"):
        key_bytes(key_text(bytes(32)))


# ---- files --------------------------------------------------------------------------------------------


def modes(folder):
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


def test_modes_whatever_the_umask(tmp_path):
    for mask in (0, 0o777):
        folder = tmp_path / f"{mask}"
        folder.mkdir()
        old = os.umask(mask)
        try:
            new_authority("authority", folder / "authority")
            signed(folder / "agent")
            identities.renew_agent(folder / "agent")
        finally:
            os.umask(old)
        assert stat.S_IMODE((folder / "agent").stat().st_mode) == 0o700
        assert stat.S_IMODE((folder / "authority").stat().st_mode) == 0o700
        assert modes(folder / "authority") == {"authority.key": 0o600, "authority.crt": 0o644}
        assert modes(folder / "agent") == {
            "signing.key": 0o600,
            "tls.pem": 0o600,
            "next.key": 0o600,
            "request.pem": 0o644,
            "authority.crt": 0o644,
        }


def test_private_files_are_private_and_public_ones_hold_nothing_private(world):
    for made in world.values():
        for path in made.directory.iterdir():
            private = b"PRIVATE KEY" in path.read_bytes()
            assert private == (stat.S_IMODE(path.stat().st_mode) == 0o600), path


@pytest.mark.parametrize("file", ["signing.key", "tls.pem"])
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_wide_permissions_are_refused(home, file, mode):
    signed(home)
    (home / file).chmod(mode)
    with pytest.raises(FileError, match=rf"{file} must be closed to others .*, but has mode {mode:o}"):
        Identity.load(home)


def test_an_open_directory_is_refused(tmp_path):
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)
    with pytest.raises(FileError, match="closed to others"):
        new_agent("carol", folder)
    assert list(folder.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="must be a directory"):
        new_agent("carol", tmp_path / "file")


def test_nothing_is_overwritten_by_accident(home, tmp_path):
    before = signed(home).public_key
    with pytest.raises(FileError, match="exists already"):
        new_agent("carol", home)
    assert Identity.load(home).public_key == before
    new_agent("carol", home, force=True)
    with pytest.raises(FileError, match="has no certificate yet"):
        Identity.load(home)
    new_authority("authority", tmp_path / "authority")
    with pytest.raises(FileError, match="exists already"):
        new_authority("authority", tmp_path / "authority")
    new_authority("authority", tmp_path / "authority", force=True)


def test_no_part_is_left_behind(home, monkeypatch):
    """A write that fails leaves the old file, and nothing else."""
    signed(home)
    before = {path.name: path.read_bytes() for path in home.iterdir()}

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(FileError, match="No space left"):
        identities.renew_agent(home)
    assert {path.name: path.read_bytes() for path in home.iterdir()} == before


def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    order = []
    real_sync, real_link = os.fsync, os.link

    def sync(descriptor):
        order.append("directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        real_sync(descriptor)

    def link(source, target):
        order.append("name")
        real_link(source, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "link", link)
    new_authority("authority", tmp_path / "authority")
    assert order == ["file", "name", "directory"] * 2


def test_files_that_are_not_keys(home):
    signed(home)
    good = (home / "signing.key").read_bytes()
    tls = private_pem(tls_key())
    for content in (b"", b"nonsense", good[:40], tls, b"\x00" * 100):
        (home / "signing.key").write_bytes(content)
        with pytest.raises(FileError, match=r"signing\.key"):
            Identity.load(home)
    (home / "signing.key").unlink()
    os.mkfifo(home / "signing.key", 0o600)
    with pytest.raises(FileError, match="plain file"):
        Identity.load(home)
    (home / "signing.key").unlink()
    with pytest.raises(FileError, match="No such file"):
        Identity.load(home)


def test_parts_that_do_not_belong_together(home, tmp_path):
    signed(home)
    signed(tmp_path / "other", "dave")
    for file, match in [
        ("signing.key", "must name the signing key"),
        ("authority.crt", "must be signed by the authority"),
    ]:
        mine = (home / file).read_bytes()
        (home / file).write_bytes((tmp_path / "other" / file).read_bytes())
        with pytest.raises(FileError, match=match):
            Identity.load(home)
        (home / file).write_bytes(mine)
    whole = (home / "tls.pem").read_bytes()
    cut = whole.index(b"-----BEGIN CERT")
    (home / "tls.pem").write_bytes(private_pem(tls_key()) + whole[cut:])
    with pytest.raises(FileError, match="for the TLS key of this directory"):
        Identity.load(home)
    (home / "tls.pem").write_bytes(whole[:cut])
    with pytest.raises(FileError, match="does not hold a certificate"):
        Identity.load(home)


def test_nothing_private_is_shown(world):
    alice = world["alice"]
    key = (alice.directory / "signing.key").read_text().splitlines()[1]
    shown = f"{alice!r} {alice.certificate!r} {alice.authority!r} {alice.tls!r} {vars(type(alice))}"
    assert "alice" in shown
    assert key not in shown
    authority = identities.load_authority(alice.directory.parent / "authority")
    assert "rivateKey" not in repr(authority)
    with pytest.raises(AttributeError):
        alice.__dict__  # noqa: B018 - nothing to print by mistake


# ---- requests -----------------------------------------------------------------------------------------


def test_the_recommended_flow_moves_only_public_files(tmp_path):
    """The authority sees the request alone, the agent its certificate alone."""
    request = new_agent("carol", tmp_path / "agent")
    assert b"PRIVATE" not in request.read_bytes()
    authority = new_authority("authority", tmp_path / "authority")
    came_back = bundle(authority.sign(Request.parse(request.read_bytes(), "request")), authority)
    assert b"PRIVATE" not in came_back
    with pytest.raises(FileError, match="has no certificate yet: let the authority sign"):
        Identity.load(tmp_path / "agent")
    made = install(came_back, tmp_path / "agent")
    assert Identity.load(tmp_path / "agent").public_key == made.public_key
    assert not (tmp_path / "agent" / "next.key").exists()
    assert install(came_back, tmp_path / "agent").public_key == made.public_key  # again does no harm


def test_a_request_proves_both_keys(home):
    mine, theirs = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    public = identities._public(theirs)
    stolen = Request.make(CertificateSubject("carol", public, ()), tls_key(), mine)  # not my key to ask for
    with pytest.raises(FileError, match="does not prove"):
        Request.parse(stolen, "request")
    good = Request.make(CertificateSubject("carol", public, ()), tls_key(), theirs)
    assert Request.parse(good, "request").subject == CertificateSubject("carol", public, ())
    for cut in (b"-----BEGIN TACIT", b"-----END TACIT"):
        with pytest.raises(FileError, match="does not prove"):
            Request.parse(good[: good.index(cut)], "request")
    other = Request.make(CertificateSubject("dave", public, ()), tls_key(), theirs)
    mixed = good[: good.index(b"-----BEGIN TACIT")] + other[other.index(b"-----BEGIN TACIT") :]
    with pytest.raises(FileError, match="does not prove"):
        Request.parse(mixed, "request")


def foreign_request(key, *, name="carol", uri=None, algorithm=None):
    names = [x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names))
    if uri is not None:
        said = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(text) for text in uri])
        builder = builder.add_extension(said, critical=False)
    return builder.sign(key, algorithm).public_bytes(Encoding.PEM)


def test_requests_that_are_none():
    p256, public = ec.generate_private_key(ec.SECP256R1()), key_text(bytes(range(32)))
    uri = f"tacit:agent:carol:{public}"
    sha = hashes.SHA256()
    wrong_keys = [
        foreign_request(Ed25519PrivateKey.generate(), uri=[uri]),
        foreign_request(rsa.generate_private_key(65537, 2048), uri=[uri], algorithm=sha),
        foreign_request(ec.generate_private_key(ec.SECP384R1()), uri=[uri], algorithm=sha),
    ]
    for request in wrong_keys:
        with pytest.raises(FileError, match="P-256"):
            Request.parse(request, "request")
    for wrong in (
        b"",
        b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n",
        foreign_request(p256, algorithm=sha),
        foreign_request(p256, uri=["tacit:agent:carol"], algorithm=sha),
        foreign_request(p256, uri=[uri, uri], algorithm=sha),
        foreign_request(p256, uri=[uri], name="dave", algorithm=sha),
        foreign_request(p256, uri=[uri], algorithm=sha),
    ):
        with pytest.raises(FileError, match=r"^request .*make it again with `tacit keys`\.$"):
            Request.parse(wrong, "request")


def test_a_request_has_one_name():
    """Under two names one would be checked and the other believed."""
    signing = Ed25519PrivateKey.generate()
    subject = CertificateSubject("carol", identities._public(signing), ())
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(CertificateSubject("dave", subject.public_key, ()).x509_name())
        .add_extension(subject.alternatives(), critical=False)
        .sign(tls_key(), hashes.SHA256())
    )
    proof = signing.sign(certificates._PROOF_OF + request.public_bytes(Encoding.DER))
    text = b"-----BEGIN TACIT PROOF-----\n" + base64.encodebytes(proof) + b"-----END TACIT PROOF-----\n"
    with pytest.raises(FileError, match="must name one agent"):
        Request.parse(request.public_bytes(Encoding.PEM) + text, "request")


def test_listening_must_be_allowed(home):
    request = Request.parse(new_agent("carol", home, hosts=["192.0.2.1"]).read_bytes(), "request")
    authority = Authority.make("authority")
    with pytest.raises(InputError, match=r"carol asks to listen at 192\.0\.2\.1: .*--listen"):
        authority.sign(request)
    assert authority.sign(request, listen=True).subject.hosts == ("192.0.2.1",)


@pytest.mark.parametrize("host", ["", "a b", "*.example", "-x", "x" * 64, "a..b", "wss://host"])
def test_hosts_that_are_none(home, host):
    with pytest.raises(InputError, match="host name or an IP address"):
        new_agent("carol", home, hosts=[host])
    assert not home.exists()


@pytest.mark.parametrize("name", ["", "a/b", "..", "a b", "é", "x" * 65, "-x", "a\n"])
def test_names_that_are_none(home, name):
    with pytest.raises(InputError, match="name must be"):
        new_agent(name, home)
    with pytest.raises(InputError, match="name must be"):
        new_authority(name, home)
    assert not home.exists()


def test_the_longest_name_and_hosts(home):
    made = signed(home, "x" * 64, hosts=["a.example", "2001:db8::1"])
    assert Identity.load(home).certificate.subject == made.certificate.subject
    assert made.certificate.subject.hosts == ("a.example", "2001:db8::1")


# ---- installing and renewing --------------------------------------------------------------------------


def test_a_certificate_for_other_keys_is_not_installed(tmp_path):
    authority = Authority.make("authority")
    mine = new_agent("carol", tmp_path / "mine")
    other = new_agent("carol", tmp_path / "other")
    signed_other = authority.sign(Request.parse(other.read_bytes(), "request"))
    with pytest.raises(FileError, match="must name the signing key"):
        install(bundle(signed_other, authority), tmp_path / "mine")
    old = authority.sign(Request.parse(mine.read_bytes(), "request"))
    identities.renew_agent(tmp_path / "mine")  # another TLS key waits now
    with pytest.raises(FileError, match="must be for the TLS key"):
        install(bundle(old, authority), tmp_path / "mine")
    for wrong in (b"", old.pem(), authority.certificate.pem(), old.pem() + old.pem()):
        with pytest.raises(FileError):
            install(wrong, tmp_path / "mine")


def test_another_authority_is_trusted_only_on_purpose(home):
    first, second = Authority.make("authority"), Authority.make("authority")
    signed(home, authority=first)
    request = Request.parse(identities.renew_agent(home).read_bytes(), "request")
    with pytest.raises(FileError, match="from another authority"):
        install(bundle(second.sign(request), second), home)
    assert Identity.load(home).authority.fingerprint == first.certificate.fingerprint
    install(bundle(second.sign(request), second), home, new_authority=True)
    assert Identity.load(home).authority.fingerprint == second.certificate.fingerprint


def test_renewal_keeps_the_signing_key_and_serves_meanwhile(home):
    authority = Authority.make("authority")
    before = signed(home, authority=authority, hosts=["localhost"], days=1)
    request = identities.renew_agent(home)
    assert Identity.load(home).certificate.fingerprint == before.certificate.fingerprint  # still serves
    again = identities.renew_agent(home)  # asked twice: the last request counts
    assert again == request
    parsed = Request.parse(request.read_bytes(), "request")
    after = install(bundle(authority.sign(parsed, 30, listen=True), authority), home)
    assert after.public_key == before.public_key
    assert after.certificate.subject == before.certificate.subject
    assert after.expires > before.expires + timedelta(days=20)
    assert not after.certificate.same_key(before.certificate)


def test_an_authority_renews_with_the_same_key(tmp_path):
    authority = new_authority("plant", tmp_path / "authority", days=2)
    made = signed(tmp_path / "agent", authority=authority)
    renewed = identities.renew_authority(tmp_path / "authority", days=100)
    assert renewed.certificate.expires > authority.certificate.expires
    assert made.certificate.issued_by(renewed.certificate)  # what was signed still counts
    request = Request.parse(identities.renew_agent(tmp_path / "agent").read_bytes(), "request")
    after = install(bundle(renewed.sign(request), renewed), tmp_path / "agent")  # no new trust is needed
    assert after.expires > made.expires


def test_a_certificate_ends_with_its_authority(home):
    authority = Authority.make("authority", days=2)
    made = signed(home, authority=authority, days=90)
    assert made.certificate.expires == authority.certificate.expires
    old = Authority.make("authority", days=1, now=datetime.now(UTC) - timedelta(days=5))
    with pytest.raises(FileError, match="the authority's certificate expired"):
        old.sign(Request(made.certificate.subject, made.certificate.document.public_key()))


@pytest.mark.parametrize("days", [0, -1, 1e9, float("nan")])
def test_times_that_are_none(days):
    with pytest.raises(InputError, match="days"):
        Authority.make("authority", days)


def test_an_authority_of_other_keys_is_refused(tmp_path):
    new_authority("one", tmp_path / "one")
    new_authority("two", tmp_path / "two")
    (tmp_path / "one" / "authority.crt").write_bytes((tmp_path / "two" / "authority.crt").read_bytes())
    with pytest.raises(FileError, match="must be for the TLS key"):
        identities.load_authority(tmp_path / "one")


# ---- in bulk ------------------------------------------------------------------------------------------


def test_provisioning(world, tmp_path):
    assert tuple(world) == NAMES
    for name, made in world.items():
        loaded = Identity.load(made.directory)
        assert loaded.name == name
        assert loaded.public_key == made.public_key
        loaded.require_current()
    assert world["alice"].certificate.subject.hosts == ()
    assert world["coordinator"].certificate.subject.hosts == ("localhost", "127.0.0.1", "::1")
    for names in (["a", "a"], ["authority"]):
        with pytest.raises(InputError, match="must differ"):
            provision(tmp_path / str(len(names)), names)


def test_serials_and_keys_are_never_twice_the_same(tmp_path):
    made = provision(tmp_path / "keys", [f"agent-{i}" for i in range(40)])
    documents = [one.certificate.document for one in made.values()]
    assert len({document.serial_number for document in documents}) == 40
    assert len({one.public_key for one in made.values()}) == 40


def test_certificates_that_are_none():
    for data in (b"", b"nonsense", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"):
        with pytest.raises(FileError, match="does not hold a certificate"):
            read_certificates(data, "file")


def test_a_foreign_certificate_says_nothing_of_an_agent():
    key = tls_key()
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "example")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    with pytest.raises(FileError, match="subject"):
        read_certificates(made.public_bytes(Encoding.PEM), "file")
