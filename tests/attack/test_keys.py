"""Certificates and answers made to mislead whoever reads what is shown of them."""

import json
from http.client import BadStatusLine

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import NameOID

from tacit.base.errors import FileError, InputError
from tacit.live.identity.certificates import Authority, Certificate, read_certificates
from tacit.live.identity.keys import tls_key
from tacit.live.status import reader
from tacit.live.status.reader import read_status
from tacit.live.transport.connection_diagnosis import require_endpoint


def authority(*names):
    plain, key = Authority.make("plain", 1), tls_key()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name) for name in names])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(plain.certificate.begins)
        .not_valid_after(plain.certificate.expires)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Certificate(made, None).pem()


@pytest.mark.parametrize(
    "names", [(), ("a", "b"), ("plant-7\n   fingerprint  00ff",), ("\x1b[2Kplant-7",), ("[bold]x",), ("ä",)]
)
def test_an_authority_s_name_cannot_pass_for_a_fingerprint(names):
    with pytest.raises(FileError, match="one plain name"):
        read_certificates(authority(*names), "it")
    assert read_certificates(authority("plant-7"), "it")[0].name == "plant-7"


@pytest.mark.parametrize(
    "endpoint",
    [
        "tcp/127.0.0.1:1",
        "wss://127.0.0.1:1#root_ca_certificate=/tmp/x",
        "wss://127.0.0.1:1?rel=0",
        "wss://a:1;wss://b:2",
        'wss://a":1',
        "wss://*:1",
        "wss://a:1\n",
        "wss://a:\u0661",
        "wss://[::1%eth0]:1",
    ],
)
def test_an_endpoint_cannot_carry_options_of_the_network(endpoint):
    with pytest.raises(InputError, match="wss://host:port"):
        require_endpoint(endpoint)


def test_a_status_cannot_write_to_the_terminal(monkeypatch):
    answer = {"kind": "member", "name": "m", "role": "agent", "ready": True, "sessions": [{"name": "s"}]}
    answer["state"] = "\x1b]0;gone\x07waiting"
    monkeypatch.setattr(reader, "_fetched", lambda *_: (200, json.dumps(answer).encode()))
    with pytest.raises(InputError, match="did not answer with a status"):
        read_status("http://127.0.0.1:1/status")
    answer["state"] = "waiting"
    assert read_status("http://127.0.0.1:1/status").state == "waiting"
    for wrong in (
        {"connected": {"eve\x1b": "agent"}},
        {"sessions": [{"name": "s", "late": ["eve\x1b"]}]},
        {"sessions": []},
        {"kind": "king"},
        {"counts": {"refused": {"late": "often"}}},
    ):
        right, answer = answer, answer | wrong
        with pytest.raises(InputError, match="did not answer with a status"):
            read_status("http://127.0.0.1:1/status")
        answer = right
    answer |= {"connected": {"eve": "agent"}, "of-a-later-version": 1}
    assert read_status("http://127.0.0.1:1/status").connected == {"eve": "agent"}


def test_whatever_listens_at_a_port_is_answered_with_a_sentence(monkeypatch):
    def answered(*_):
        raise BadStatusLine("SSH-2.0-OpenSSH")

    monkeypatch.setattr(reader, "_fetched", answered)
    with pytest.raises(InputError, match="did not answer with a status"):
        read_status("http://127.0.0.1:22/status")
