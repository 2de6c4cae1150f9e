"""What tests of the runtime need again and again: ledgers, transcripts."""

import asyncio
import json

from tacit.core.protocol.records import Began, Moved
from tacit.live.ledger.ledger import Ledger

WAIT = 300
"""Seconds after which something hangs."""
ONE = b"s" * 32
"""The id of a session that is in a ledger only."""
SECRET = b"the-private-state"


def limited(main, seconds=WAIT):
    """Run a coroutine to its end, or fail when it hangs."""

    async def within():
        async with asyncio.timeout(seconds):
            return await main

    return asyncio.run(within())


async def result_of(member):
    """Run a member to its end."""
    async with member:
        return await member.result()


class Script:
    """Whole numbers prepared before, in the place of noise."""

    def __init__(self, draws):
        self._draws = list(draws)

    def draw(self, _scale, _size=None):
        return self._draws.pop(0)


# ---- ledgers -----------------------------------------------------------------------------------------


def began(session=ONE, planned=1.0):
    return Began(session, 3, SECRET, planned, 0.0, 10.0)


def moved(update):
    return Moved(update, (b"feedback %d" % update,), (0, 1), b"y", SECRET, b"")


def entered(path, session=ONE, planned=1.0, **options):
    """Return a ledger in which a session has begun."""
    ledger = Ledger(path)
    ledger.reserve(session, "meter", planned=planned, adjacency=1.0, diameter=1.0, cap=10.0, **options)
    ledger.append(session, [began(session, planned)])
    return ledger


# ---- transcripts -------------------------------------------------------------------------------------


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def save(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def names(verdict):
    return {finding.name for finding in verdict.findings}
