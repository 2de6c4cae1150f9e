"""A real browser for the pages: Debian's chromium, installed when it is absent and may be."""

import fcntl
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = [
    "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", *(["--no-sandbox"] if os.geteuid() == 0 else []),
]  # fmt: skip


def find_browser() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


def install_browser() -> str:
    """Install chromium, once for all workers; skip with the reason where that cannot be."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        pytest.skip("no chromium in the PATH, and it cannot be installed here (needs root and apt-get)")
    with (Path(tempfile.gettempdir()) / "tacit-chromium.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if find_browser() is None:
            quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            for words in (["update", "-q"], ["install", "-y", "-q", "--no-install-recommends", "chromium"]):
                done = subprocess.run(
                    ["apt-get", *words], env=quiet, capture_output=True, text=True, check=False, timeout=600
                )
                if done.returncode != 0 and words[0] == "install":
                    last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
                    pytest.skip(f"no chromium in the PATH, and apt-get could not install it: {last}")
    found = find_browser()
    if found is None:
        pytest.skip("apt-get installed chromium, but it is not in the PATH")
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
    path.write_text(f'#!/bin/sh\nexec {shlex.join([*apart, find_browser() or install_browser()])} "$@"\n')
    path.chmod(0o755)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield started
        started.close()
