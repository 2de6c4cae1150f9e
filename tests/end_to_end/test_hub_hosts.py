"""A hub on several hosts whose leader, standby and database are stopped, killed and cut off in the middle.

No session is lost, no second feedback leaves, and no agent pays twice. Agents are real, hosts are processes,
and so is PostgreSQL.
"""

import asyncio
import json
import shutil
import signal
import time
from pathlib import Path

import pytest
from tests.doubles.hub_hosts import Hosts
from tests.doubles.postgres import require_postgres
from tests.runtime.fleets import ordered

from tacit.live.runtime.limits import raise_files

QUESTION = {"loss": 1.0, "low": 0.0, "high": 10.0, "law": "one-shot", "mixing": 0.99}
MANY = 100
"""So many agents take so long for a round that a few are enough to be in the middle of them."""


async def watched(hosts, agents, faults, say=print, started=None):
    """Run one session for each fault, which comes after its third round; return how they ended."""
    hosts.start()
    await hosts.led()
    await hosts.enrol(agents)
    await hosts.follow(agents)
    found = {}
    for fault in faults:
        name = fault.__name__.replace("_", "-")
        rounds = 20 if agents > MANY else 60
        hosts.ask(name, ordered({**QUESTION, "rounds": rounds}, least=agents, anyway=True, wait=300.0))
        await hosts.heard_rounds(name, 3)
        began, leader = time.monotonic(), await hosts.led()
        epoch, heard = epoch_of(hosts), hosts.count(name)
        await fault(hosts, leader)
        ((state, facts),) = await hosts.over(name)
        found[name] = state
        assert heard < rounds  # it was in the middle
        used = facts.get("used") or [0]
        say(json.dumps({
            "fault": name, "after": heard, "state": state, "rounds": facts.get("rounds"),
            "why": facts.get("why"), "used": [min(used), max(used)],
            "seconds": round(time.monotonic() - began, 1), "leaders": epoch_of(hosts) - epoch,
        }), flush=True)  # fmt: skip
    return found


def epoch_of(hosts):
    store = hosts.store()
    try:
        return store.database.all("SELECT epoch FROM lease")[0]["epoch"]
    finally:
        store.close()


def run(tmp_path, agents, faults, **given):
    require_postgres()
    raise_files()

    async def scenario():
        hosts = Hosts(tmp_path, **given)
        try:
            found = await watched(hosts, agents, faults)
            hosts.require_one_voice()
            assert hosts.told == []
            assert max(hosts.spent()) <= len(faults) * QUESTION["loss"]
            return found, hosts.spent(), len(hosts.heard)
        finally:
            hosts.stop()
            await hosts.leave()

    return asyncio.run(scenario())


async def kill_leader(hosts, leader):
    hosts.kill(leader)
    assert await hosts.led(leader) != leader
    hosts.start(leader)


async def restart_leader(hosts, leader):
    """As for an upgrade: the other leads at once."""
    hosts.send(leader, signal.SIGTERM)
    await asyncio.to_thread(hosts.running.pop(leader).wait)
    await hosts.led(leader)
    hosts.start(leader)


async def stop_leader_and_wake_it(hosts, leader):
    hosts.send(leader, signal.SIGSTOP)
    await hosts.led(leader)
    await asyncio.sleep(1.0)
    hosts.send(leader, signal.SIGCONT)


async def standby(hosts, leader):
    return next(name for name in hosts.running if name != leader)


async def stop_standby_and_wake_it(hosts, leader):
    name = await standby(hosts, leader)
    hosts.send(name, signal.SIGSTOP)
    await asyncio.sleep(2 * hosts.lease)
    hosts.send(name, signal.SIGCONT)


async def kill_standby(hosts, leader):
    name = await standby(hosts, leader)
    hosts.kill(name)
    hosts.start(name)


async def cut_leader_off(hosts, leader):
    hosts.proxies[leader].set("cut")
    await hosts.led(leader)
    hosts.proxies[leader].set("pass")


async def let_leader_hang(hosts, leader):
    """Its packets to the database are lost, in both directions."""
    hosts.proxies[leader].set("hang")
    await hosts.led(leader)
    hosts.proxies[leader].set("pass")


async def cut_off_during_a_commit(hosts, leader):
    """It is saved, and the leader never learns."""
    hosts.proxies[leader].set("lose")
    await hosts.until(lambda: hosts.proxies[leader].lost)


async def stop_the_database_and_wake_it(hosts, leader):
    hosts.server.send(signal.SIGSTOP)
    await asyncio.sleep(1.5 * hosts.lease)
    hosts.server.send(signal.SIGCONT)


async def crash_the_database(hosts, leader):
    """As if its power failed."""
    await asyncio.to_thread(hosts.server.stop)
    await asyncio.to_thread(hosts.server.start)


async def kill_the_database(hosts, leader):
    """All its processes at once."""
    gone = hosts.server.processes()
    hosts.server.send(signal.SIGKILL)
    await hosts.until(lambda: not any(Path(f"/proc/{process}").exists() for process in gone))
    (hosts.server.data / "postmaster.pid").unlink(missing_ok=True)
    await asyncio.to_thread(hosts.server.start)


async def two_leaders_by_force(hosts, leader):
    """A standby takes the lease again and again from whoever has it."""
    name = await standby(hosts, leader)
    hosts.kill(name)
    hosts.start(name, force=True)
    await asyncio.sleep(3 * hosts.lease)
    hosts.kill(name)
    hosts.start(name)


def test_sessions_go_on_while_leader_and_database_fail(tmp_path):
    faults = (cut_off_during_a_commit, kill_leader, crash_the_database)
    found, spent, _ = run(tmp_path, 3, faults, names=("a", "b"))
    assert set(found.values()) == {"finished"}
    assert spent == {float(len(faults))}


@pytest.mark.long
@pytest.mark.parametrize("agents", [1000])
def test_sessions_go_on_whatever_fails(tmp_path, agents):
    faults = (
        restart_leader, kill_leader, stop_leader_and_wake_it, stop_standby_and_wake_it, kill_standby,
        cut_leader_off, let_leader_hang, cut_off_during_a_commit, stop_the_database_and_wake_it,
        crash_the_database, kill_the_database, two_leaders_by_force,
    )  # fmt: skip
    found, spent, heard = run(tmp_path, agents, faults, lease=8.0)
    print(json.dumps({"agents": agents, "spent": sorted(spent), "kinds heard": heard}))
    assert set(found.values()) == {"finished"}
    assert spent == {float(len(faults))}


@pytest.mark.long
def test_an_older_base_backup_gives_up_what_was_under_way(tmp_path):
    """Agents heard what the database does not know: the session does not go on, and the next one runs."""
    backups = []

    async def put_back(hosts, leader):
        backups.append(await asyncio.to_thread(hosts.server.backup))
        await hosts.heard_rounds("put-back", 9)
        await asyncio.to_thread(hosts.server.stop)
        shutil.move(hosts.server.data, hosts.server.folder / "lost")
        shutil.move(backups[0], hosts.server.data)
        await asyncio.to_thread(hosts.server.start)

    async def nothing(hosts, leader):
        """The agents are there again."""

    found, spent, _ = run(tmp_path, 5, (put_back, nothing))
    assert found == {"put-back": "failed", "nothing": "finished"}
    assert max(spent) <= 2.0
