"""Agents that share a process share its disk and its noise, and nothing else."""

import os
import subprocess
import sys

import pytest
from tests.saving import Saving

from tacit.base.errors import LedgerError
from tacit.core.protocol.records import Opened
from tacit.live.ledger import flush
from tacit.live.ledger.group_commit import save_all
from tacit.live.ledger.ledger import Ledger

S = b"s" * 32


FORKED = """
import os
from tacit.base.errors import StateError
from tacit.core.noise.ahead import DrawnAhead, refill_together
from tacit.core.noise.safe import SafeNoise

source = SafeNoise()
pools = [DrawnAhead(source, lambda u: 2.0**40, depth=4) for _ in range(8)]
refill_together(pools)
if os.fork():
    os.wait()
    draws = [pool.take(0) for pool in pools]
else:
    for pool in pools:
        try:
            pool.take(0)
        except StateError:
            pass
        else:
            os._exit(1)
    pools = [DrawnAhead(source, lambda u: 2.0**40, depth=4) for _ in range(8)]
    refill_together(pools)
    draws = [pool.take(0) for pool in pools]
os.write(1, b"".join(b"%d\\n" % draw for draw in draws))
"""


def test_noise_that_is_drawn_together_is_not_shared_with_a_fork():
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, check=True)
    draws = done.stdout.split()
    assert len(draws) == 16
    assert len(set(draws)) == 16  # two equal by chance: once in 10^9 times


@pytest.mark.skipif(not flush.can_flush_file_system(), reason="this system flushes files one by one")
def test_a_ledger_closed_while_it_is_saved_holds_nobody_up(folder, monkeypatch):
    """Whoever waits for the disk is told that it failed: it must neither speak nor wait for ever."""
    ledgers = [Ledger(folder / str(i)) for i in range(2)]

    def closing(stores):
        ledgers[0].close()
        raise OSError(9, "Bad file descriptor")

    monkeypatch.setattr("tacit.live.ledger.group_commit.flush_together", closing)

    errors = save_all([Saving(ledger, S, [Opened(S, (0,))]) for ledger in ledgers])
    assert [type(error) for error in errors] == [OSError, OSError]
    with pytest.raises(LedgerError):
        ledgers[0].append(S, [])
    ledgers[1].close()


@pytest.mark.parametrize(
    ("release", "together"),
    [("5.8.0", False), ("5.16.20-x", False), ("5.17.0", True), ("6.1", True), ("x", False)],
)
def test_files_are_flushed_together_only_where_failures_are_told(monkeypatch, release, together):
    system = os.uname()
    if system.sysname != "Linux":
        pytest.skip("Linux only")
    found = os.uname_result(("Linux", "", release, "", ""))
    monkeypatch.setattr(os, "uname", lambda: found)
    flush._call.cache_clear()
    try:
        assert flush.can_flush_file_system() is together
    finally:
        flush._call.cache_clear()
