"""Who may open the studio, and how it starts and ends."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

from tacit.base.errors import InputError
from tacit.cli import main
from tacit.lab.plots import style
from tacit.studio import charts_watch, shell
from tacit.studio.guard import Guard
from tacit.studio.server import bind, is_loopback, url


def headers(host, origin=None):
    return [(b"host", host.encode())] + ([] if origin is None else [(b"origin", origin.encode())])


@pytest.mark.parametrize(
    ("host", "origin", "welcome"),
    [
        ("127.0.0.1:8080", None, True),
        ("localhost:8080", "http://localhost:8080", True),
        ("[::1]:8080", "http://[::1]:8080", True),
        ("192.0.2.7:8080", None, True),  # an address is nobody's to point elsewhere
        ("evil.example:8080", None, False),  # DNS rebinding
        ("127.0.0.1.evil.example", None, False),
        ("localhost:8080", "http://evil.example", False),  # another page's script
        ("localhost:8080", "http://localhost:9999", False),
        ("localhost:8080", "null", False),
        ("[::1", None, False),
        ("", None, False),
        ("box:8080", None, True),
        ("BOX:8080", None, True),
    ],
)
def test_only_our_own_pages_under_our_own_address(host, origin, welcome):
    assert Guard(None, ["box"]).welcome(headers(host, origin)) is welcome


def test_two_names_are_none():
    assert not Guard(None).welcome(headers("localhost") + headers("localhost"))
    assert not Guard(None).welcome([])


def test_an_address_that_cannot_be_had():
    with bind("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
        assert url("127.0.0.1", sock) == f"http://127.0.0.1:{port}"
        assert url("0.0.0.0", sock) == f"http://127.0.0.1:{port}"
        assert url("::1", sock) == f"http://[::1]:{port}"
        with pytest.raises(InputError, match=f"port {port}: Address already in use"):
            bind("127.0.0.1", port)
        done = CliRunner().invoke(main, ["studio", "--port", str(port)])
        assert done.exit_code == 2
        assert re.fullmatch(r"Error: .*already in use.*\n", done.output)
    with pytest.raises(InputError, match="address of this machine"):
        bind("no.such.host.invalid", 0)
    for odd in ("../x", "x" * 300):
        with pytest.raises(InputError, match="not a host name"):
            bind(odd, 0)
    assert is_loopback("localhost")
    assert is_loopback("127.3.2.1")
    assert not is_loopback("192.0.2.7")


def test_without_the_extra_there_is_one_sentence(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("tacit.studio.")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("nicegui", "fastapi", "uvicorn", "starlette"):
        monkeypatch.setitem(sys.modules, name, None)
    done = CliRunner().invoke(main, ["studio"])
    assert done.exit_code == 2
    assert done.output == (
        "Error: tacit studio needs the extra studio here (nicegui is not installed); "
        "in a clone of tacit: pip install '.[studio]'.\n"
    )


def test_the_colours_are_those_of_the_figures():
    css = Path(shell.__file__).with_name("studio.css").read_text()
    for colour in (style.BLUE, style.RED, style.GREEN, style.INK, style.SKY):
        assert colour in css
    assert shell.ACCENT == style.BLUE
    assert charts_watch._colour(-1) == style.BLUE
    assert charts_watch._colour(1) == style.RED


def test_it_opens_refuses_strangers_and_closes(tmp_path):
    tacit = Path(sys.executable).with_name("tacit")
    outside = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "NICEGUI"))}
    with subprocess.Popen(
        [tacit, "studio", "--port", "0", "--no-browser", "--json"],
        cwd=tmp_path, env={**outside, "PYTHONUNBUFFERED": "1"}, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as running:  # fmt: skip
        try:
            where = json.loads(running.stdout.readline())["url"]
            page = urllib.request.urlopen(where)
            assert b"tacit studio" in page.read()
            assert "connect-src 'self'" in page.headers["Content-Security-Policy"]
            with pytest.raises(urllib.error.HTTPError, match="404") as absent:
                urllib.request.urlopen(f"{where}/nowhere")
            assert b"/nowhere" in absent.value.read()
            for forged in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
                for path in ("/", "/_nicegui_ws/socket.io/?EIO=4&transport=polling"):
                    with pytest.raises(urllib.error.HTTPError, match="403"):
                        urllib.request.urlopen(urllib.request.Request(where + path, headers=forged))
            assert _upgrade(where, "http://evil.example").startswith(b"HTTP/1.1 403")
            assert _upgrade(where, where).startswith(b"HTTP/1.1 101")
        finally:
            running.send_signal(signal.SIGINT)
        _, said = running.communicate()
    assert running.returncode == 130
    assert said == f"{where}/nowhere not found\nThe studio is closed.\n"
    assert list(tmp_path.iterdir()) == []


def _upgrade(where, origin):
    """Ask for a websocket, and return how the answer begins."""
    host, port = where.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as sock:
        sock.sendall(
            f"GET /_nicegui_ws/socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: {host}:{port}\r\n"
            f"Origin: {origin}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
        )
        return sock.recv(64)
