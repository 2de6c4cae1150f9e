"""One key for one name, certificates that count, keys that no longer do, and keys that are replaced."""

import json
import shutil
import ssl
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tacit.base.errors import FileError, InputError
from tacit.live.identity.certificates import CertificateSubject, Request
from tacit.live.identity.identity import Identity, bundle, load_authority
from tacit.live.identity.keys import read_signing_key, tls_key
from tacit.live.identity.register import REVOKED, SIGNED, opened
from tacit.live.identity.revocation import Revocations, revoked_list
from tacit.live.identity.roster import read_roster
from tacit.live.runtime.participant import loaded


def said(result):
    return " ".join((result.stderr or result.output).split())


@pytest.fixture
def ready(run, tmp_path):
    """An authority, alice and bob with certificates, and the directory that a roster is made from."""
    run("keys", "authority")
    Path("certificates").mkdir()
    for name in ("alice", "bob"):
        run("keys", "new", name)
        run("keys", "sign", f"{name}/request.pem", "--out", f"certificates/{name}.crt")
        run("keys", "install", f"certificates/{name}.crt", "--keys", name)


def expired(name):
    """Return a certificate that has run out, as an authority gives it back."""
    then, authority = datetime.now(UTC) - timedelta(minutes=30), load_authority("authority")
    request = Request.parse(Path(name, "request.pem").read_bytes(), "request")
    return bundle(authority.sign(request, 0.001, now=then), authority)


# ---- expired ------------------------------------------------------------------------------------------


def test_an_expired_certificate_is_not_installed(ready, run):
    Path("old.crt").write_bytes(expired("alice"))
    before = Identity.load("alice").certificate.fingerprint
    result = run("keys", "install", "old.crt", "--keys", "alice", code=2)
    assert "the certificate of alice expired on" in said(result)
    assert "ready to join" not in result.output
    assert Identity.load("alice").certificate.fingerprint == before


def test_an_expired_certificate_is_not_taken_into_a_roster(ready, run):
    Path("certificates/alice.crt").write_bytes(expired("alice"))
    asked = ("--roster", "certificates", "--graph", "path:2", "--loss", 1, "--range", "0:1")
    assert "alice.crt: the certificate of alice expired on" in said(run("session", "new", *asked, code=2))
    assert not Path("session.toml").exists()


# ---- one name, one key --------------------------------------------------------------------------------


def test_a_name_has_one_key(ready, run, tmp_path):
    """The finding: the authority signed two keys for one name."""
    for name in ("alice", "Alice"):
        run("keys", "new", name, "--out", "second", "--force")
        result = run("keys", "sign", "second/request.pem", "--out", "second.crt", code=2)
        assert f"alice has another signing key, {Identity.load('alice').key}" in said(result)
        assert "tacit keys revoke alice" in said(result)
        assert not Path("second.crt").exists()
    # The same key once more is no second key.
    run("keys", "sign", "alice/request.pem", "--out", "again.crt")


def test_a_name_keeps_its_key_although_the_certificate_could_not_be_written(ready, run, monkeypatch):
    """The register is written before the certificate leaves."""

    def full(*_words, **_more):
        raise FileError("the disk is full.")

    run("keys", "new", "carol")
    with monkeypatch.context() as patched:
        patched.setattr("tacit.base.files.write_whole", full)
        run("keys", "sign", "carol/request.pem", code=2)
    names = [json.loads(line)["name"] for line in Path("authority", SIGNED).read_text().splitlines()]
    assert names == ["alice", "bob", "carol"]
    run("keys", "sign", "carol/request.pem")


def test_a_key_has_one_name(ready, run, tmp_path):
    signing = read_signing_key(Path("alice/signing.key").read_bytes(), "key")
    subject = CertificateSubject("mallory", signing.public_key().public_bytes_raw(), ())
    Path("m.pem").write_bytes(Request.make(subject, tls_key(), signing))
    assert "belongs to alice, and mallory asks for it" in said(run("keys", "sign", "m.pem", code=2))


def test_a_damaged_register_is_not_written_over(ready, run):
    Path("authority", SIGNED).write_text("{}\n")
    run("keys", "new", "carol")
    assert "is damaged" in said(run("keys", "sign", "carol/request.pem", code=2))
    assert Path("authority", SIGNED).read_text() == "{}\n"


def test_two_at_once_cannot_both_sign_a_name(ready, run):
    made = []
    for k in range(4):
        run("keys", "new", "dora", "--out", f"dora{k}")
        made.append(Request.parse(Path(f"dora{k}/request.pem").read_bytes(), "request"))
    authority, done, refused = load_authority("authority"), [], []

    def sign(request):
        with opened(Path("authority"), authority) as register:
            try:
                done.append(register.sign(request))
                register.save()
            except InputError as error:
                refused.append(str(error))

    threads = [threading.Thread(target=sign, args=(request,)) for request in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 1
    assert all("another signing key" in sentence for sentence in refused)


# ---- revoked ------------------------------------------------------------------------------------------


def test_who_is_revoked_can_neither_start_nor_stand_in_a_roster(ready, run, answer):
    told = answer("keys", "revoke", "alice")
    assert (told["number"], told["revoked"]) == (1, ["alice"])
    assert "alice itself is revoked" in said(run("keys", "install", "revoked.crl", "--keys", "alice"))
    run("keys", "install", "revoked.crl", "--keys", "bob")
    alice, bob = Identity.load("alice"), Identity.load("bob")
    with pytest.raises(FileError, match=r"the certificate of alice was revoked on .* by its authority"):
        loaded("alice")
    assert loaded("bob").revoked(alice.certificate)
    assert not bob.revoked(bob.certificate)
    assert "is revoked: it cannot join" in said(run("keys", "show", "alice"))
    read_roster("certificates")  # the list is not there yet
    shutil.copy("revoked.crl", "certificates")
    with pytest.raises(FileError, match="the certificate of alice was revoked on"):
        read_roster("certificates")
    Path("certificates/alice.crt").unlink()
    assert [member.name for member in read_roster("certificates").members] == ["bob"]


def test_a_renewed_certificate_of_a_revoked_key_does_not_count_either(ready, run):
    run("keys", "revoke", "alice")
    result = run("keys", "sign", "alice/request.pem", "--out", "x.crt", code=2)
    assert "the signing key of alice in this request was revoked" in said(result)
    run("keys", "new", "alice", "--force")  # a new key may have the name again
    run("keys", "sign", "alice/request.pem", "--out", "x.crt")
    run("keys", "install", "revoked.crl", "--keys", "bob")
    run("keys", "install", "x.crt", "--keys", "alice")
    assert not Identity.load("bob").revoked(Identity.load("alice").certificate)


def test_lists_only_become_newer_and_are_the_authority_s(ready, run, tmp_path):
    run("keys", "revoke", "alice", "--out", "1.crl")
    run("keys", "new", "carol")
    run("keys", "sign", "carol/request.pem")
    run("keys", "revoke", "carol", "--out", "2.crl")
    run("keys", "install", "2.crl", "--keys", "bob")
    run("keys", "install", "2.crl", "--keys", "bob")  # the same once more does no harm
    result = run("keys", "install", "1.crl", "--keys", "bob", code=2)
    assert "has number 1" in said(result)
    assert "list 2" in said(result)
    run("keys", "authority", "--out", "other")
    false = revoked_list(load_authority("other"), [], 9)
    Path("9.crl").write_bytes(false.pem())
    assert "must be signed by the authority of this directory" in said(
        run("keys", "install", "9.crl", "--keys", "bob", code=2)
    )
    for wrong in (b"", false.pem()[:100], Path("2.crl").read_bytes().replace(b"M", b"N", 3)):
        Path("9.crl").write_bytes(b"-----BEGIN X509 CRL-----\n" + wrong)
        run("keys", "install", "9.crl", "--keys", "bob", code=2)
    assert Identity.load("bob").revocations.number == 2


def test_a_running_process_heeds_a_list_that_comes_later_and_keeps_it(ready, run):
    bob, alice = Identity.load("bob"), Identity.load("alice").certificate
    assert not bob.revoked(alice)
    run("keys", "revoke", "alice")
    run("keys", "install", "revoked.crl", "--keys", "bob")
    assert bob.revoked(alice)
    Path("bob", REVOKED).write_text("torn")
    assert bob.revoked(alice)
    Path("bob", REVOKED).unlink()
    assert bob.revoked(alice)


def test_a_certificate_that_the_register_does_not_know_is_revoked_by_its_file(ready, run, answer):
    Path("authority", SIGNED).unlink()
    assert "nothing was signed for 'alice'" in said(run("keys", "revoke", "alice", code=2))
    assert answer("keys", "revoke", "certificates/alice.crt")["revoked"] == ["alice"]
    run("keys", "install", "revoked.crl", "--keys", "bob")
    assert Identity.load("bob").revoked(Identity.load("alice").certificate)
    run("keys", "authority", "--out", "other")
    strange = run("keys", "revoke", "certificates/bob.crt", "--authority", "other", code=2)
    assert "must be one that this authority signed" in said(strange)


@pytest.mark.parametrize("name", ["alice", "bob"])
def test_tls_libraries_can_heed_the_list(ready, run, name):
    """The list has the usual form: OpenSSL takes bob's certificate and refuses alice's."""
    run("keys", "revoke", "alice")
    inside = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    inside.load_cert_chain("bob/tls.pem")
    inside.load_verify_locations("authority/authority.crt")
    inside.load_verify_locations("revoked.crl")
    inside.verify_mode = ssl.CERT_REQUIRED
    inside.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    outside = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    outside.check_hostname, outside.verify_mode = False, ssl.CERT_NONE
    outside.load_cert_chain(f"{name}/tls.pem")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = outside.wrap_bio(to_client, to_server)
    server = inside.wrap_bio(to_server, to_client, server_side=True)

    def shake():
        for _ in range(3):
            for end in (client, server):
                with suppress(ssl.SSLWantReadError):
                    end.do_handshake()

    if name == "alice":
        with pytest.raises(ssl.SSLCertVerificationError, match="certificate revoked"):
            shake()
    else:
        shake()
        assert server.getpeercert()["subject"] == ((("commonName", "bob"),),)


def test_a_list_says_what_was_written_into_it(ready, run):
    run("keys", "revoke", "alice")
    run("keys", "revoke", "bob")
    authority = load_authority("authority").certificate
    found = Revocations.parse(Path("revoked.crl").read_bytes(), authority, "list")
    assert found.number == 2
    assert [(entry.name, entry.key) for entry in found.entries] == [
        (name, Identity.load(name).public_key) for name in ("alice", "bob")
    ]
    assert abs((found.made - datetime.now(UTC)).total_seconds()) < 600


# ---- replaced -----------------------------------------------------------------------------------------


def test_a_signing_key_is_replaced_by_revoking_it_and_the_account_stays(ready, run, answer):
    old = Identity.load("alice")
    account = Path("alice/sessions")
    account.mkdir(mode=0o700)
    (account / ("5f" * 32)).write_text("bound\n")
    run("keys", "revoke", "alice")
    run("keys", "new", "alice", "--force")
    run("keys", "sign", "alice/request.pem", "--out", "new.crt")
    run("keys", "install", "new.crt", "--keys", "alice")
    new = Identity.load("alice")
    assert new.public_key != old.public_key
    assert new.name == "alice"
    assert (account / ("5f" * 32)).read_text() == "bound\n"
    run("keys", "install", "authority/revoked.crl", "--keys", "bob")
    bob = Identity.load("bob")
    assert bob.revoked(old.certificate)
    assert not bob.revoked(new.certificate)
    assert answer("keys", "show", "authority")["revoked"] == ["alice"]


@pytest.mark.parametrize("after", ["authority.crt", "tls.pem"])
def test_installing_a_certificate_can_be_repeated_after_a_crash(ready, run, monkeypatch, after):
    import tacit.live.identity.identity as module

    run("keys", "sign", "alice/request.pem", "--out", "new.crt")
    write = module.write_whole

    def crash(path, *words, **more):
        write(path, *words, **more)
        if path.name == after:
            raise FileError("the power failed.")

    monkeypatch.setattr(module, "write_whole", crash)
    run("keys", "install", "new.crt", "--keys", "alice", code=2)
    monkeypatch.setattr(module, "write_whole", write)
    run("keys", "install", "new.crt", "--keys", "alice")
    assert Identity.load("alice").certificate.pem() in Path("new.crt").read_bytes()
