"""The studio, running, and a browser to look at it: for the benchmark and for the pictures in the docs."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

FLAGS = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]


@contextmanager
def studio() -> Iterator[str]:
    """Run `tacit studio` for as long as the block lasts; yields where it is."""
    words = [str(Path(sys.executable).with_name("tacit")), "studio", "--port", "0", "--no-browser"]
    plain = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=plain
    ) as running:
        try:
            said = running.stdout.readline() if running.stdout else ""
            found = re.search(r"http://\S+", said)
            if found is None:
                raise SystemExit("the studio did not start: run `tacit studio` to see why.")
            yield found[0]
        finally:
            running.send_signal(signal.SIGINT)


@contextmanager
def browser() -> Iterator[Browser]:
    """Start chromium, which must be installed."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        raise SystemExit("this needs chromium: apt-get install chromium")
    flags = FLAGS + (["--no-sandbox"] if os.geteuid() == 0 else [])
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=flags)
        yield started
        started.close()
