"""`tacit keys`: the flow of the docs, and what is said when it is not followed."""

import json
import stat
from datetime import UTC, datetime, timedelta

import pytest

from tacit.live.identity.certificates import Authority
from tacit.live.identity.identity import Identity


@pytest.fixture
def ready(run):
    """Make an authority and one agent with a certificate, as the docs say."""
    run("keys", "authority")
    run("keys", "new", "alice")
    run("keys", "sign", "alice/request.pem")
    run("keys", "install", "alice.crt", "--keys", "alice")


def test_the_flow_of_the_docs(ready, run, tmp_path):
    made = Identity.load("alice")
    made.require_current()
    shown = run("keys", "show", "alice").output
    assert made.key in shown
    assert f"{made.expires:%Y-%m-%d}" in shown
    assert {path.name for path in tmp_path.iterdir()} == {"authority", "alice", "alice.crt"}


def test_every_command_answers_programs(answer):
    authority = answer("keys", "authority", "--name", "plant", "--days", 10)
    assert (authority["name"], authority["path"], authority["expired"]) == ("plant", "authority", False)
    new = answer("keys", "new", "bob", "--out", "home/bob", "--host", "192.0.2.1", "--host", "bob.example")
    assert new == {
        "path": "home/bob",
        "name": "bob",
        "key": new["key"],
        "hosts": ["192.0.2.1", "bob.example"],
        "request": "home/bob/request.pem",
    }
    signed = answer("keys", "sign", "home/bob/request.pem", "--listen", "--out", "b.crt", "--key", new["key"])
    assert signed["hosts"] == ["192.0.2.1", "bob.example"]
    installed = answer("keys", "install", "b.crt", "--keys", "home/bob")
    assert installed["authority"] == authority["fingerprint"]
    for path in ("home/bob", "b.crt"):
        shown = answer("keys", "show", path)
        assert (shown["key"], shown["fingerprint"]) == (new["key"], signed["fingerprint"])
    assert answer("keys", "show", "authority")["fingerprint"] == authority["fingerprint"]
    assert answer("keys", "show", "home/bob/request.pem")["key"] == new["key"]
    renewed = answer("keys", "authority", "--renew", "--days", 20)
    assert renewed["name"] == "plant"
    assert renewed["expires"] > authority["expires"]
    again = answer("keys", "sign", "home/bob/request.pem", "--listen", "--out", "c.crt", "--days", 15)
    assert answer("keys", "install", "c.crt", "--keys", "home/bob")["expires"] == again["expires"]


def test_renewing(ready, run):
    before = Identity.load("alice")
    run("keys", "sign", "alice/request.pem", "--out", "new.crt")
    run("keys", "install", "new.crt", "--keys", "alice")
    after = Identity.load("alice")
    assert after.public_key == before.public_key
    assert after.certificate.fingerprint != before.certificate.fingerprint


def test_a_coordinator_on_this_machine_may_listen_here(answer, run):
    run("keys", "authority")
    assert answer("keys", "new", "coordinator")["hosts"] == ["localhost", "127.0.0.1", "::1"]
    assert answer("keys", "new", "carol")["hosts"] == []
    sentence = run("keys", "sign", "coordinator/request.pem", code=2).stderr
    assert "asks to listen at localhost, 127.0.0.1, ::1" in sentence
    assert "--listen" in sentence
    run("keys", "sign", "coordinator/request.pem", "--listen")


def test_expiry_is_told_in_time(run, ready, tmp_path):
    assert "renew" not in run("keys", "show", "alice").output
    for days, sentence in [(100, None), (360, "expires in 4 days: renew it soon"), (400, "has expired")]:
        old = Authority.make("old", 365, now=datetime.now(UTC) - timedelta(days=days))
        (tmp_path / "old.crt").write_bytes(old.certificate.pem())
        output = run("keys", "show", "old.crt").output
        assert sentence in output if sentence else "renew" not in output


def test_nothing_private_is_printed(ready, run, tmp_path):
    secrets = [
        line
        for file in tmp_path.rglob("*")
        if file.is_file() and stat.S_IMODE(file.stat().st_mode) == 0o600
        for line in file.read_text().split("-----BEGIN CERT")[0].splitlines()
        if "-----" not in line
    ]
    assert len(secrets) >= 5
    printed = "".join(
        run(*words).output
        for words in (
            ("keys", "show", "alice"),
            ("keys", "show", "authority"),
            ("keys", "show", "alice", "--json"),
            ("keys", "authority", "--renew"),
        )
    )
    assert not any(secret in printed for secret in secrets)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("authority",), "authority/authority.key exists already"),
        (("new", "alice"), "alice/signing.key exists already"),
        (("new", "a/b", "--out", "x"), "an agent's name must be"),
        (("new", "bob", "--host", "a b"), "a host must be a host name or an IP address, got 'a b'"),
        (("sign", "alice/request.pem"), "alice.crt exists already"),
        (
            ("sign", "alice/request.pem", "--out", "x", "--key", "other"),
            "not for the one in --key",
        ),
        (("sign", "alice/request.pem", "--out", "x", "--days", 0), "days, got 0"),
        (("sign", "alice/request.pem", "--out", "x", "--authority", "nowhere"), "No such file"),
        (("sign", "alice.crt", "--out", "x"), "alice.crt is not a certificate request"),
        (("sign", "nothing"), "nothing: No such file"),
        (("install", "alice/request.pem", "--keys", "alice"), "does not hold a certificate"),
        (("install", "alice.crt", "--keys", "nowhere"), "No such file"),
        (("install", "alice.crt"), "Missing option '--keys'"),
        (("authority", "--out", "nowhere", "--renew"), "No such file"),
        (("authority", "--renew", "--name", "other"), "--renew keeps name and key"),
        (("show", "nowhere"), "No such file"),
        (("show", "."), "No such file"),
        (("authority", "--out", "x", "--days", "soon"), "'soon' is not a finite number"),
    ],
)
def test_mistakes(ready, run, words, sentence):
    assert sentence in " ".join(run("keys", *words, code=2).stderr.split())


def test_wide_permissions_are_told(ready, run, tmp_path):
    (tmp_path / "alice" / "signing.key").chmod(0o644)
    assert "has mode 644: others may have read it" in run("keys", "show", "alice", code=2).stderr


def test_help_has_examples(run):
    for words in ((), ("authority",), ("new",), ("sign",), ("install",), ("show",)):
        text = run("keys", *words, "--help").output
        assert "Example" in text
        assert "tacit keys " in text


def test_json_is_only_json(run, ready):
    assert json.loads(run("keys", "show", "alice", "--json").stdout)["name"] == "alice"
