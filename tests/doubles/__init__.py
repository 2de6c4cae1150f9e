"""What stands in for clock, network, noise and disk in tests.

Nothing here protects anyone: keys are known, noise is given.

- `clock`: `ManualClock`, moved by hand.
- `network`: `FaultyNetwork`, in memory: loses, duplicates, delays, reorders and cuts as told.
- `noise`: `ScriptedNoise`, the given draws.
- `ledger`: `ListLedger`, a list of records that can be told to fail.
- `harness`: `Harness`, machines, ledgers and network wired together, with crashes between any two acts.
- `feedback`: `known_feedback`, as a coordinator would sign it.
- `sessions`: `known_key`, `known_session`, `known_series`, `moving_session`: small sessions whose keys
  everyone knows; `small_session`: one of identities that a test has made.
- `processes`: `Processes`, the members of a session as processes that can be killed; `Tail` reads their logs.
- `many_agents`: a program that runs many agents in one process.
"""

from tests.doubles.clock import ManualClock
from tests.doubles.feedback import known_feedback
from tests.doubles.harness import Crashed, Harness, Point
from tests.doubles.ledger import ListLedger, SaveFailed
from tests.doubles.network import Faults, FaultyNetwork, Packet
from tests.doubles.noise import ScriptedNoise
from tests.doubles.sessions import (
    TRUCK,
    known_ephemeral,
    known_key,
    known_series,
    known_session,
    moving_session,
    small_session,
)

__all__ = [
    "TRUCK",
    "Crashed",
    "Faults",
    "FaultyNetwork",
    "Harness",
    "ListLedger",
    "ManualClock",
    "Packet",
    "Point",
    "SaveFailed",
    "ScriptedNoise",
    "known_ephemeral",
    "known_feedback",
    "known_key",
    "known_series",
    "known_session",
    "moving_session",
    "small_session",
]
