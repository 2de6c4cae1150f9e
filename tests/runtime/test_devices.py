"""Every source of the page about devices reads a real one: a broker, a database, a web server, a table."""

import asyncio
import json
import re
import shutil
import socket
import subprocess
import threading
import time
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from tests.doubles import postgres

from tacit.live.fleet.policy import read_policy
from tacit.live.fleet.sources import SourceFailed, Unreadable

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "read-devices.md").read_text()
PRIVATE = "437351948"


def needs(*programs):
    missing = [
        name for name in programs if shutil.which(name, path="/usr/local/bin:/usr/bin:/usr/sbin") is None
    ]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def table(heading):
    """Return the [value] table below a heading of the page."""
    found = re.search(rf"^## {heading}\n.*?```toml\n(.*?)```", PAGE, re.M | re.S)
    return found[1]


def opened(tmp_path, heading, old="", new=""):
    """Return the source that the page's table describes, and the question that it answers."""
    text = f"""format = 1
hub = "wss://localhost:7447"
authority = "{"0" * 64}"
keys = "alice"
ledger = "alice.ledger"
{table(heading).replace(old, new)}
[limits]
cap = 1
"""
    path = tmp_path / "alice.toml"
    path.write_text(text)
    policy = read_policy(path)
    (question,) = policy.questions
    return policy.source, question


def read(source, question):
    return asyncio.run(source.read(question))


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.fixture
def broker(tmp_path):
    """Start Mosquitto; return how to publish, and where it listens."""
    port = free_port()
    settings = tmp_path / "broker.conf"
    settings.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\nuser root\n")
    server = shutil.which("mosquitto", path="/usr/sbin:/usr/bin:/usr/local/sbin")
    process = subprocess.Popen([server, "-c", settings], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def publish(message):
        words = [
            "mosquitto_pub",
            "-h",
            "127.0.0.1",
            "-p",
            str(port),
            "-t",
            "house/power",
            "-r",
            "-m",
            message,
        ]
        for _ in range(200):
            if subprocess.run(words, capture_output=True, check=False).returncode == 0:
                return
            assert process.poll() is None, "the broker has ended"
            time.sleep(0.05)
        pytest.fail("the broker takes no connections")

    yield publish, f"127.0.0.1:{port}"
    process.terminate()
    process.wait()


@needs("mosquitto", "mosquitto_pub", "mosquitto_sub")
def test_a_meters_topic(tmp_path, broker):
    publish, where = broker
    publish('{"kw": 2.5, "meter": "m-17"}')
    source, question = opened(tmp_path, "A meter that publishes by MQTT", "localhost", where)
    assert read(source, question) == 2.5
    publish('{"kw": 3.5}')
    assert read(source, question) == 3.5
    publish(f'{{"volts": {PRIVATE}}}')
    with pytest.raises(Unreadable) as told:
        read(source, question)
    assert PRIVATE not in str(told.value)


@needs("mosquitto_sub")
def test_a_broker_that_is_off(tmp_path):
    where = f"127.0.0.1:{free_port()}"
    source, question = opened(tmp_path, "A meter that publishes by MQTT", "localhost", where)
    with pytest.raises(SourceFailed, match="mosquitto_sub ended with exit code") as told:
        read(source, question)
    assert not isinstance(told.value, Unreadable)


@needs("mosquitto", "mosquitto_pub", "mosquitto_sub")
def test_a_line_of_the_broker_counts_once(tmp_path, broker, monkeypatch):
    """The pipe of the page: each message is a reading of its own, and none is read twice as a new one."""
    publish, where = broker
    publish("2.5")
    host, port = where.split(":")
    words = re.search(r"^(mosquitto_sub .*?) \| tacit agent", PAGE, re.M)[1].split()
    words = [*(host if word == "localhost" else word for word in words), "-p", port]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as lines:
        monkeypatch.setattr("sys.stdin", lines.stdout)
        source, question = opened(tmp_path, "In a series")
        try:
            first, mark = asyncio.run(until(source, question, 2.5))
            assert asyncio.run(source.read_marked(question)) == (first, mark)
            publish("2.5")  # the same number again is a new reading
            assert asyncio.run(until(source, question, 2.5, but=mark))[1] != mark
        finally:
            lines.terminate()


async def until(source, question, value, but=None):
    """Read until this value comes with another mark."""
    for _ in range(600):
        try:
            found = await source.read_marked(question)
        except SourceFailed:  # no line yet
            continue
        if found[0] == value and found[1] != but:
            return found
        await asyncio.sleep(0.05)
    raise AssertionError("no line came")


@needs("sqlite3")
def test_a_query(tmp_path, monkeypatch):
    import sqlite3

    monkeypatch.chdir(tmp_path)
    with sqlite3.connect("house.db") as base:
        base.execute("create table readings (at integer, kw real)")
        now = "cast(strftime('%s') as integer)"
        base.execute(f"insert into readings values ({now} - 60, 1.5), ({now}, 4.25), ({now} - 5000, 9)")
    base.close()
    source, question = opened(tmp_path, "A query")
    assert read(source, question) == 4.25
    with sqlite3.connect("house.db") as base:
        base.execute("update readings set at = 0")
    base.close()
    with pytest.raises(Unreadable):  # nothing new: the stand-in counts
        read(source, question)
    Path("house.db").unlink()
    with pytest.raises(SourceFailed, match="sqlite3 ended with exit code") as told:
        read(source, question)
    assert not isinstance(told.value, Unreadable)


@needs("psql")
def test_a_query_on_postgresql(tmp_path):
    postgres.require_postgres()
    import psycopg

    where = postgres.server().new()
    with psycopg.connect(where, autocommit=True) as base:
        base.execute("create table readings (at timestamptz, kw real)")
        base.execute(
            "insert into readings values (now() - interval '1 minute', 1.5), (now(), 4.25), "
            "(now() - interval '1 hour', 9)"
        )
        address = "postgresql://reader@localhost/house"
        source, question = opened(tmp_path, "A query on PostgreSQL", address, where)
        assert read(source, question) == 4.25
        base.execute("update readings set at = at - interval '1 hour'")
        with pytest.raises(Unreadable):  # nothing new: the stand-in counts
            read(source, question)
        base.execute("drop table readings")
        with pytest.raises(SourceFailed, match="psql ended with exit code 1") as told:
            read(source, question)
    assert not isinstance(told.value, Unreadable)


class Meter(BaseHTTPRequestHandler):
    answer = (200, {"town": "north", "kw": 2.5})

    def do_GET(self):
        code, said = self.answer
        self.send_response(code if self.path == "/now" else 404)
        self.end_headers()
        self.wfile.write(json.dumps(said).encode())

    def log_message(self, *_):
        pass


@needs("curl")
def test_a_web_address(tmp_path, monkeypatch):
    with HTTPServer(("127.0.0.1", 0), Meter) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        where = f"127.0.0.1:{server.server_port}"
        source, question = opened(tmp_path, "A web address", "localhost", where)
        assert question.encode(read(source, question)) == question.encode(("north", 2.5))
        monkeypatch.setattr(Meter, "answer", (200, {"town": "north", "kw": PRIVATE + "x"}))
        with pytest.raises(Unreadable) as told:
            read(source, question)
        assert PRIVATE not in str(told.value)
        monkeypatch.setattr(Meter, "answer", (503, {"town": "north", "kw": 2.5}))
        with pytest.raises(SourceFailed, match="curl ended with exit code 22") as told:
            read(source, question)
        server.shutdown()
    assert not isinstance(told.value, Unreadable)


def test_a_column_of_a_table(tmp_path):
    path = tmp_path / "readings.csv"
    path.touch(mode=0o600)
    path.write_text("at,kw\n08:00,0.5\n08:15,6.5\n")
    source, question = opened(tmp_path, "A column of a table")
    assert read(source, question) == 6.5
    path.chmod(0o644)
    with pytest.raises(SourceFailed):
        read(source, question)


def test_every_table_of_the_page_is_read_here():
    headings = re.findall(r"^## (.*)$", PAGE, re.M)
    tests = Path(__file__).read_text()
    assert headings
    assert all(f'"{heading}"' in tests for heading in headings)
    assert all("value" in tomllib.loads(table(heading)) for heading in headings)
