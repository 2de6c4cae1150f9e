"""A real browser for the pages. Nothing is installed for it: without one these tests are skipped."""

import os
import shlex
import shutil
import subprocess
import sys

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = [
    "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # nothing leaves this machine
    *(["--no-sandbox"] if os.geteuid() == 0 else []),
]  # fmt: skip


def find_browser() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


def need_browser() -> str:
    found = find_browser()
    if found is None:
        pytest.skip("no chromium in the PATH: install it, on Debian and Ubuntu with `make programs` as root")
    return found


LOOPBACK = """
import fcntl, socket, struct, sys
SET_FLAGS, UP, RUNNING = 0x8914, 0x1, 0x40
with socket.socket() as sock:
    fcntl.ioctl(sock, SET_FLAGS, struct.pack("16sh14x", b"lo", UP | RUNNING))
print("up", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="session")
def apart():
    """Yield words that put a command into a network of its own, which has a loopback and nothing else.

    When an interface of its network comes or goes, chromium drops all requests (ERR_NETWORK_CHANGED).
    Other tests, other test runs and the machine's owner do that at any time. Only root can be kept apart.
    """
    words = [*map(shutil.which, ("unshare", "nsenter"))]
    if os.geteuid() != 0 or None in words:
        yield []
        return
    command = [words[0], "--net", sys.executable, "-c", LOOPBACK]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as network:
        made = network.stdout.readline() == "up\n"
        yield [words[1], f"--net=/proc/{network.pid}/ns/net"] if made else []


@pytest.fixture(scope="module")
def browser(apart, tmp_path_factory):
    """Start a browser. For one module at a time: while it runs, its event loop runs in this thread."""
    from playwright.sync_api import sync_playwright

    path = tmp_path_factory.mktemp("browser") / "chromium"
    path.write_text(f'#!/bin/sh\nexec {shlex.join([*apart, need_browser()])} "$@"\n')
    path.chmod(0o755)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield started
        started.close()
