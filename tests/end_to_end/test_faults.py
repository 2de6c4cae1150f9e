"""Real processes, real sockets, real faults: kill -9, hung members, stops and resumes, a cap that holds."""

import random
import signal
import socket
import time

import pytest
from tests.doubles.processes import COORDINATOR, Tail

from tacit.core.protocol.session import Deadlines
from tacit.live.transport.connection_diagnosis import require_endpoint


def run_with_kills(crew, kills, seed):
    """Kill and restart members at random moments; returns what a tap on the wire heard."""
    chance = random.Random(seed)
    tap = crew.start_tapped()
    try:
        for k in range(kills):
            # Spread over the session, but with no regard for what a member is doing just then.
            at = crew.session.rounds * k // kills
            crew.until(lambda at=at: crew.rounds() >= at or not crew.run.running)
            time.sleep(chance.uniform(0, 0.2))
            unit = chance.choice(crew.run.units)
            crew.run.kill(unit)
            crew.run.start(unit)
        crew.ended()
    finally:
        tap.close()
    return tap.frames


def check_kills(crew, kills, seed):
    """Whoever is killed whenever: all rounds are made, and nobody ever says two things for one update."""
    frames = run_with_kills(crew, kills, seed)
    by_ledger, on_wire = crew.require_sound(), crew.require_one_message_each(frames)
    for place, frame in by_ledger.items():
        assert on_wire.get(place, frame) == frame
    assert on_wire
    again = len(frames) - len(set(frames))
    print(
        f"seed {seed}: {kills} kills, {len(by_ledger)} messages, {len(on_wire)} heard, {again} frames again"
    )
    return again


def test_killed_at_random_everyone_finishes_and_nobody_says_two_things(crew):
    check_kills(crew(agents=3, rounds=14), kills=6, seed=1)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 110))
def test_killed_hundreds_of_times(crew, seed):
    assert check_kills(crew(agents=4, rounds=40), kills=40, seed=seed) > 0


@pytest.mark.long
def test_peers_killed_at_random_finish_too(crew):
    made = crew(agents=4, rounds=14, edges=((0, 1), (1, 2), (2, 3), (0, 3)), pace=0.15)
    made.run.start_all()
    chance = random.Random(3)
    logs = [Tail(made.run.path(name, "log")) for name in made.names]
    done = dict.fromkeys(made.names, 0)

    def least():
        for name, log in zip(made.names, logs, strict=True):
            done[name] = max([done[name], *(e["round"] + 1 for e in log if e["event"] == "updated")])
        return min(done.values())

    for at in (1, 4, 7):
        made.until(lambda at=at: least() >= at)
        name = chance.choice(made.names)
        made.run.kill(name)
        made.run.start(name)
    made.ended()
    made.require_sound()


def test_a_hung_agent_is_not_waited_for_and_comes_back(crew):
    made = crew(agents=3, rounds=12, deadlines=Deadlines(round=1.5, start=20.0, repeat=0.3))
    made.run.start_all()
    made.until(lambda: made.rounds() >= 3)
    made.run.signal("agent-1", signal.SIGSTOP)
    at = made.rounds()
    made.until(lambda: made.rounds() >= at + 4)  # the others go on without it
    made.run.signal("agent-1", signal.SIGCONT)
    made.ended()
    made.require_sound()
    used = made.result(COORDINATOR)["used"]
    assert any("agent-1" not in names for names in used)
    assert "agent-1" in used[0]


def test_a_hung_coordinator_is_lost_and_found_again(crew):
    made = crew(agents=2, rounds=8, deadlines=Deadlines(round=6.0, start=20.0, repeat=0.3))
    made.run.start_all()
    made.until(lambda: made.rounds() >= 2)
    made.run.signal(COORDINATOR, signal.SIGSTOP)
    for name in made.names:  # all give it up, though its sockets are open
        made.until(
            lambda name=name: any("it has been silent" in e["text"] for e in made.events(name, "trouble"))
        )
    made.run.signal(COORDINATOR, signal.SIGCONT)
    made.ended()
    made.require_sound()


@pytest.mark.long
def test_stopped_politely_and_resumed_by_the_same_command(crew):
    made = crew(agents=3, rounds=12)
    made.run.start_all()
    made.until(lambda: made.rounds() >= 3)
    for unit in ("agent-0", COORDINATOR):
        made.run.signal(unit, signal.SIGTERM)
        assert made.run.processes[unit].wait(made.wait) == 0
        assert "run the same command again" in made.run.path(unit, "errors").read_text()
        made.run.start(unit)
    made.ended()
    made.require_sound()


def test_a_second_session_on_the_same_value_is_refused_before_a_byte_leaves(crew):
    made = crew(agents=2, rounds=4, cap=1.5)
    made.run.start_all()
    made.ended()
    again = crew(agents=2, rounds=4, cap=1.5)
    listening = socket.create_server(("127.0.0.1", require_endpoint(again.addresses["coordinator"])[1]))
    listening.settimeout(0.2)
    with listening:
        made.run.path("agent-0", "ledger").rename(again.run.path("agent-0", "ledger"))
        made.run.path("agent-0", "ledger.mark").rename(again.run.path("agent-0", "ledger.mark"))
        again.run.start("agent-0")
        assert again.run.processes["agent-0"].wait(made.wait) == 3
        with pytest.raises(TimeoutError):
            listening.accept()
    assert "nothing was sent" in again.run.path("agent-0", "errors").read_text()


def test_many_agents_in_one_process(crew):
    made = crew(agents=12, rounds=6, together=6, pace=0.0)
    made.run.start_all()
    made.ended()
    made.require_sound()


def test_a_frame_flood_does_not_block_the_loop():
    """The inbox drops what is too much; nothing else is lost."""
    from tacit.live.transport.base import Inbox

    inbox = Inbox(10, frames=100)
    for k in range(1000):
        inbox.put(b"%d" % k)
    assert (len(inbox.take()), inbox.dropped) == (100, 900)
