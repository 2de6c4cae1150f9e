"""Reading a status: from this address alone, and within a total time."""

import socket
import threading

import msgspec
import pytest

from tacit.base.errors import InputError
from tacit.core.protocol.standing import Standing
from tacit.live.status.document import StatusDocument
from tacit.live.status.reader import read_status

STATUS = StatusDocument(
    kind="member", name="m", role="agent", state="waiting", ready=True, sessions=[Standing(name="s")]
)


@pytest.fixture
def serve():
    """Answer one connection by a function of its socket; return the URL and what was asked."""
    opened = []

    def made(answer):
        listening, asked = socket.create_server(("127.0.0.1", 0)), []
        opened.append(listening)

        def run():
            try:
                while True:
                    one, _ = listening.accept()
                    with one:
                        asked.append(one.recv(4096))
                        answer(one)
            except OSError:
                pass

        threading.Thread(target=run, daemon=True).start()
        return f"http://127.0.0.1:{listening.getsockname()[1]}/status", asked

    yield made
    for one in opened:
        one.close()


def ok(one):
    data = msgspec.json.encode(STATUS)
    one.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(data), data))


def test_a_redirect_is_not_followed(serve):
    there, asked = serve(ok)
    url, _ = serve(lambda one: one.sendall(b"HTTP/1.1 302 Found\r\nLocation: %s\r\n\r\n" % there.encode()))
    with pytest.raises(InputError, match="answered 302"):
        read_status(url)
    assert not asked
    assert read_status(there) == STATUS


def test_no_proxy_is_asked(serve, monkeypatch):
    proxy, asked = serve(ok)
    url, _ = serve(ok)
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert read_status(url) == STATUS
    assert not asked


def test_a_server_that_never_ends_its_answer_is_left(serve):
    """Each byte comes in time, and the answer never does."""
    left = threading.Event()

    def drip(one):
        one.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        try:
            while not left.wait(0.02):
                one.sendall(b" ")
        except OSError:
            left.set()

    url, _ = serve(drip)
    try:
        with pytest.raises(InputError, match="no answer in time"):
            read_status(url, seconds=0.5)
        assert left.wait(60)  # the connection was closed, so the server could not go on
    finally:
        left.set()
