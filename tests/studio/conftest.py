"""A real browser for the pages: Debian's chromium, installed when it is absent and may be."""

import fcntl
import os
import shutil
import subprocess
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


@pytest.fixture(scope="module")
def browser():
    """Start a browser. For one module at a time: while it runs, its event loop runs in this thread."""
    from playwright.sync_api import sync_playwright

    path = find_browser() or install_browser()
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield started
        started.close()
