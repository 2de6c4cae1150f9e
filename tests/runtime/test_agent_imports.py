"""An agent's process loads only what it needs: no numpy, no tables for people, no metrics."""

import json
import subprocess
import sys

import pytest
from tests.doubles import small_session

from tacit.base.lazy import import_late
from tacit.live.identity.identity import provision

NAMES = ("alice", "bob", "carol")
UNUSED = ("numpy", "scipy", "rich", "prometheus_client", "pandas")

MEMBERS = """
import asyncio, json, sys
from pathlib import Path
from tacit.cli import agent, running
running.spare_numpy()
from tacit.core.protocol.session import Session
from tacit.live.fleet.fleet_status import AgentPages
from tacit.live.fleet.follower import FleetAgent
from tacit.live.runtime.agent import Agent
from tacit.live.runtime.coordinator import Coordinator
from tacit.live.status.status import Status
from tacit.live.transport.memory import MemoryNetwork

folder, session = Path(sys.argv[1]), Session.decode(bytes.fromhex(sys.argv[2]))
assert Session.decode(session.encode()) == session

async def main():
    network, results = MemoryNetwork(session), []
    def given(who, name):
        return {
            "ledger": folder / f"{name}.ledger",
            "identity": folder / "keys" / name,
            "transport": network.transport(who),
            "takers": [Status(session, who)],
        }
    async def agent(i, name):
        async with Agent(session, 5.0, cap=1000.0, **given(i, name)) as member:
            results.append(await member.result())
    async with Coordinator(session, **given(-1, "coordinator")) as coordinator:
        await asyncio.gather(*(agent(i, name) for i, name in enumerate(json.loads(sys.argv[3]))))
    return results

results = asyncio.run(asyncio.wait_for(main(), 300))
loaded = [name for name in json.loads(sys.argv[4]) if name in sys.modules]
loaded = [name for name in loaded if name != "numpy" or "numpy._core" in sys.modules]
print(json.dumps([[one.rounds for one in results], [one.feedback for one in results], loaded]))
"""


@pytest.mark.parametrize("law", ["fading", "one-shot", "constant"])
def test_a_session_of_plain_numbers_is_run_without_numpy(tmp_path, law):
    keys = provision(tmp_path / "keys", ["coordinator", *NAMES])
    more = {"law": law, "decay": None} if law != "fading" else {}
    session = small_session(keys, NAMES, noise=20.0, adjacency=10.0, rounds=3, **more)
    given = (tmp_path, session.encode().hex(), json.dumps(NAMES), json.dumps(UNUSED))
    done = subprocess.run(
        [sys.executable, "-c", MEMBERS, *map(str, given)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rounds, feedback, loaded = json.loads(done.stdout)
    assert rounds == [3] * len(NAMES)
    assert all(session.lattice.low <= each <= session.lattice.high for each in feedback)
    assert loaded == []


def test_a_late_module_is_loaded_whole_when_it_is_used_and_is_then_the_real_one():
    code = """
import sys
from tacit.base.lazy import import_late
import_late("colorsys")
import colorsys as early
assert not hasattr(type(early), "__file__") and "rgb_to_hsv" not in vars(early)
assert early.rgb_to_hsv(0.0, 0.0, 0.0) == (0.0, 0.0, 0.0)
import colorsys
assert colorsys is not early and colorsys.rgb_to_hsv is early.rgb_to_hsv
try:
    early.nonsense
except AttributeError as error:
    assert "'colorsys' has no attribute 'nonsense'" in str(error)
else:
    raise AssertionError
import_late("xml")
import xml.dom.minidom
assert xml.dom.minidom.parseString("<a/>")
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_loaded_already_stays():
    before = sys.modules["json"]
    import_late("json")
    assert sys.modules["json"] is before
