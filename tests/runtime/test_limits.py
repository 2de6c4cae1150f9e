"""Limits of the machine are said in one sentence, before anything is begun."""

import resource
import subprocess
import sys

import pytest

from tacit.base.errors import InputError
from tacit.live.runtime import limits
from tacit.live.runtime.limits import raise_files, require_files


@pytest.fixture
def allowed(monkeypatch):
    """A process that may have 500 open files, and 2,000 if it asks."""
    now = {"limit": (500, 2000)}
    monkeypatch.setattr(limits.resource, "getrlimit", lambda _: now["limit"])
    monkeypatch.setattr(limits.resource, "setrlimit", lambda _, limit: now.update(limit=limit))
    return now


def test_what_may_be_had_is_asked_for(allowed):
    require_files(100, "100 connections")
    assert allowed["limit"] == (500, 2000)
    require_files(1000, "1,000 connections")
    assert 1000 < allowed["limit"][0] <= 2000


def test_what_may_not_be_had_is_said(allowed):
    with pytest.raises(
        InputError, match=r"4,000 files need 4,128 open files, and .* may have 2,000: .*ulimit -n 4128"
    ):
        require_files(4000, "4,000 files")
    assert allowed["limit"] == (500, 2000)


def test_no_limit_is_enough(monkeypatch):
    endless = resource.RLIM_INFINITY
    monkeypatch.setattr(limits.resource, "getrlimit", lambda _: (endless, endless))
    monkeypatch.setattr(limits.resource, "setrlimit", None)
    require_files(10**9, "many")


def test_as_many_files_as_may_be_had(allowed):
    assert raise_files() == 2000
    assert allowed["limit"] == (2000, 2000)


# ---- pages of libraries ------------------------------------------------------------------------------

RELEASED = """
import sys
from tacit.core.noise.safe import SafeNoise
from tacit.live.runtime.limits import release_libraries

def resident():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssFile"))

noise = SafeNoise()
noise.draw(100.0, 16)
before = resident()
assert release_libraries() > 5e6
assert resident() < before - 5e6, (before, resident())
assert len(noise.draw(100.0, 16)) == 16  # and everything goes on
import hashlib, ssl, sqlite3
ssl.create_default_context()
assert hashlib.sha256(b"").hexdigest().startswith("e3b0c442")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the system releases pages by itself")
def test_pages_of_libraries_are_released_and_come_back():
    done = subprocess.run([sys.executable, "-c", RELEASED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


SMAPS = """\
1000-2000 r--p 00000000 08:01 7    /lib/a.so
Rss:                 4 kB
Anonymous:           0 kB
Swap:                0 kB
VmFlags: rd mr mw me sd
2000-3000 r--p 00001000 08:01 7    /lib/a.so
Rss:                 4 kB
Anonymous:           4 kB
Swap:                0 kB
3000-4000 r--p 00002000 08:01 7    /lib/a.so
Rss:                 0 kB
Anonymous:           0 kB
Swap:                4 kB
4000-5000 rw-p 00003000 08:01 7    /lib/a.so
Rss:                 4 kB
Anonymous:           0 kB
Swap:                0 kB
5000-6000 r-xp 00004000 08:01 7    /lib/with space.so (deleted)
Rss:                 8 kB
Anonymous:           0 kB
Swap:                0 kB
6000-7000 r--p 00000000 00:00 0    [vvar]
Rss:                 4 kB
Anonymous:           0 kB
Swap:                0 kB
7000-8000 r--p 00000000 00:00 0
Rss:                 4 kB
Anonymous:           0 kB
Swap:                0 kB
8000-9000 r--s 00000000 08:01 9    /shared
Rss:                 4 kB
Anonymous:           0 kB
Swap:                0 kB
9000-a000 r--p 00000000 08:01 9    /of/an/older/system
Rss:                 4 kB
"""


def test_only_pages_that_are_as_the_file_is_are_released():
    """A page that a relocation has changed would come back without it."""
    assert list(limits._unchanged_pages(SMAPS)) == [(0x1000, 0x2000, 4096), (0x5000, 0x6000, 8192)]
