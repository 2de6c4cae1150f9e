"""A real PostgreSQL for tests, started from Debian's package where it is installed."""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

_SETTINGS = """
listen_addresses = ''
unix_socket_directories = '{folder}'
max_connections = 60
shared_buffers = 16MB
dynamic_shared_memory_type = posix
{more}
"""


def programs() -> Path | None:
    """Return the newest installed server's programs, if there is one."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[4]))
    return found[-1].parent if found else None


def require_postgres() -> None:
    """Skip where something is missing, and say what."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install tacit[postgres]")
    if programs() is None:
        pytest.skip("the programs of PostgreSQL are not installed: make programs")


class Server:
    """A server in a temporary folder, reached by its socket alone."""

    def __init__(self, more: str = "", *, of: Path | None = None) -> None:
        require_postgres()
        # A socket's path must be short, and the server's user must be able to enter every folder above.
        self.folder = Path(tempfile.mkdtemp(prefix="tacit-pg-", dir="/tmp"))
        self.data = self.folder / "data"
        # It refuses to run as root.
        self._user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        if self._user:
            shutil.chown(self.folder, "postgres")
        if of is None:
            self._run("initdb", "--no-sync", "--auth=trust", "--username=tacit", "--pgdata", str(self.data))
        else:
            subprocess.run([*self._user, "cp", "-a", str(of), str(self.data)], check=True)
        with (self.data / "postgresql.conf").open("a") as file:
            file.write(_SETTINGS.format(folder=self.folder, more=more))
        self.start()

    def _run(self, program: str, *words: str) -> None:
        where = programs()
        assert where is not None
        subprocess.run(
            [*self._user, str(where / program), *words],
            check=True, cwd="/", stdout=subprocess.DEVNULL,
        )  # fmt: skip

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._run("pg_ctl", "start", "--wait", "--pgdata", str(self.data), "--log", str(self.folder / "log"))

    def stop(self, mode: str = "immediate") -> None:
        """Stop it; `immediate` is as if the power failed."""
        self._run("pg_ctl", "stop", "--wait", "--mode", mode, "--pgdata", str(self.data))

    @property
    def main(self) -> int:
        """The process that all others of the server belong to."""
        return int((self.data / "postmaster.pid").read_text().split()[0])

    def processes(self) -> list[int]:
        """Return all processes of the server."""
        children = Path(f"/proc/{self.main}/task/{self.main}/children").read_text().split()
        return [self.main, *map(int, children)]

    def send(self, sign: int) -> None:
        """Send a signal to all processes of the server."""
        for process in self.processes():
            with suppress(ProcessLookupError):
                os.kill(process, sign)

    def backup(self) -> Path:
        """Return a copy of the data, as of now; it can be started."""
        where = self.folder / f"backup-{secrets.token_hex(4)}"
        self._run("pg_basebackup", "--dbname", self.address_by_port(), "--checkpoint=fast", "--no-sync",
                  "--pgdata", str(where))  # fmt: skip
        return where

    def address(self, database: str) -> str:
        """Return the address of a database of this server."""
        return f"postgresql://tacit@/{database}?host={self.folder}"

    def address_by_port(self) -> str:
        """Return the address of its first database, past all proxies."""
        port = (self.data / "postmaster.pid").read_text().split("\n")[3]
        return f"{self.address('postgres')}&port={port}"

    def new(self) -> str:
        """Make an empty database, and return its address."""
        import psycopg

        name = f"hub_{secrets.token_hex(6)}"
        with psycopg.connect(self.address("postgres"), autocommit=True) as made:
            made.execute(f"CREATE DATABASE {name}")
        return self.address(name)

    def drop(self) -> None:
        """Stop it, and remove its files."""
        with suppress(Exception):
            self.send(signal.SIGCONT)
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


@cache
def server() -> Server:
    """Return the server that the tests of this process share."""
    made = Server("fsync = on")
    atexit.register(made.drop)
    return made
