"""How fast networked rounds are, beside the bare transport that carries them.

Run from the repository: ``python -m benchmarks.network [--quick] [--json FILE]``

Contestants, on one machine, with mutual TLS on loopback and one connection per agent (or edge):

- websockets: the bare transport, messages of the same sizes, no logic;
- the honest limit, around a server: the same with one signature, one check and one flush (`network_limit`);
- Flower: the same average in its simulation engine, without privacy (`benchmarks.peers`), 100 clients;
- tacit: the same, signed, checked, with exact noise, and on the disk before it is sent.

Agents share two processes, the coordinator has its own. Around a server an agent sends one message and hears
one answer in a round; on a graph it sends one message, which four neighbours hear. Processes are started
once and take turns; starting, connecting and making ledgers is not counted.
"""

from __future__ import annotations

import argparse
import json
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import peers
from benchmarks.harness import Answer, Contestant, Goal, Question, race, save, show
from benchmarks.network_turns import Troupe
from tacit import Fading, Graph
from tacit.core.mechanism.lattice import Lattice
from tacit.core.protocol.codec import Codec
from tacit.core.protocol.messages import NOTHING_HEARD, Feedback, Report
from tacit.core.protocol.roster import COORDINATOR, Member
from tacit.core.protocol.schema import Deadlines
from tacit.core.protocol.session import LAST_EXPIRY, Session
from tacit.core.protocol.signatures import SIGNATURE_BYTES
from tacit.live.identity.identity import Identity, provision
from tacit.live.transport.schemes import to_dial

PROCESSES = 2
DEGREE = 4
TURNS = 40  # at most: then the session would be over
PATIENCE = 12.0  # seconds for one question
GOALS, FLOWER_GOAL = {100: 0.5, 1000: 0.55}, 15.0  # times the limit, and Flower at 100 agents
SIZES = {10: (400, 60), 100: (60, 20), 1000: (6, 3)}
"""Number of agents: how many rounds websockets and tacit do in one turn."""


def make_session(agents: int, keys: dict[str, Identity], *, graph: bool, keepers: int = 0) -> Session:
    """Return a session that is not over before the benchmark is."""
    parameters, rounds = Fading(sigma=0.5, c=10.0, q=0.999), TURNS * SIZES[agents][1]
    edges = Graph.from_name(f"regular:{agents}:{DEGREE}:seed=1").edges() if graph else None
    return Session(
        name="benchmark",
        roster=tuple(Member(f"a{i}", keys[f"a{i}"].public_key) for i in range(agents)),
        coordinator=None if graph else keys["coordinator"].public_key,
        keepers=tuple(Member(f"k{j}", keys[f"k{j}"].public_key) for j in range(keepers)),
        edges=None if edges is None else tuple((int(i), int(j)) for i, j in edges),
        mixing=0.5,
        noise=10.0,
        decay=0.999,
        rounds=rounds,
        start=agents,
        expires=LAST_EXPIRY,
        lattice=Lattice.fitting(parameters, rounds, 0.0, 1.0),
        deadlines=Deadlines(round=600.0, start=600.0, repeat=10.0),  # nobody repeats itself between turns
    )


def make_plan(folder: Path, agents: int, *, graph: bool, keepers: int = 0) -> Path:
    """Make keys, a session and addresses; write for each process what it needs. Keepers follow agents."""
    names = [f"a{i}" for i in range(agents)] + [f"k{j}" for j in range(keepers)]
    everyone = names if graph else ["coordinator", *names]
    keys = provision(folder / "keys", everyone, listening=names if graph else ["coordinator"])
    session = make_session(agents, keys, graph=graph, keepers=keepers)
    ends = dict(
        zip([*range(agents)] if graph else [COORDINATOR], free_ends(agents if graph else 1), strict=True)
    )

    def member(who: int, name: str) -> dict[str, Any]:
        near, files = session.neighbours(who), keys[name].tls
        return {
            "tls": str(files.private_key),
            "authority": str(files.authority),
            "near": near,
            "listen": [ends[who]] if who in ends else [],
            "connect": to_dial(session, who, {session.member_name(j): end for j, end in ends.items()}),
        }

    report, feedback = frame_bytes(session)
    plan = {
        "folder": str(folder),
        "session": session.encode().hex(),
        "coordinator": None if graph else member(COORDINATOR, "coordinator"),
        "agents": [member(i, name) for i, name in enumerate(names)],
        "report_bytes": report,
        "feedback_bytes": feedback,
    }
    path = folder / "plan.json"
    path.write_text(json.dumps(plan))
    return path


def free_ends(count: int) -> list[str]:
    """Return endpoints of this machine that nobody uses."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [f"wss://127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    finally:
        for one in sockets:
            one.close()


def frame_bytes(session: Session) -> tuple[int, int]:
    """Return how long a report and feedback are on the wire."""
    codec = Codec(session)
    numbers, n, nothing = codec.pack([0]), session.n, NOTHING_HEARD
    report = Report(session.rounds, session.exponent(0, 0), numbers, NOTHING_HEARD)
    feedback = Feedback(session.rounds, numbers, n, n, nothing, nothing, nothing)
    short, long = (len(codec.seal(0, body, lambda _: bytes(SIGNATURE_BYTES))) for body in (report, feedback))
    return short, long


def commands(module: str, plan: Path, agents: int, *, graph: bool) -> list[list[str]]:
    """Return what is started: the coordinator, if there is one, then agents in equal parts."""
    step = -(-agents // PROCESSES)
    spans = [] if graph else [(COORDINATOR, COORDINATOR + 1)]
    spans += [(first, min(first + step, agents)) for first in range(0, agents, step)]
    return [[f"benchmarks.{module}", str(plan), str(first), str(stop)] for first, stop in spans]


@contextmanager
def question(agents: int, *, graph: bool) -> Iterator[Question]:
    """Start both contestants for so many agents."""
    folder = Path(tempfile.mkdtemp(prefix="tacit-network-"))
    try:
        with ExitStack() as stack:
            troupes = []
            # One listens before the next looks for free ports.
            for module in ("network_bare", *(() if graph else ("network_limit",)), "network_tacit"):
                (folder / module).mkdir()
                plan = make_plan(folder / module, agents, graph=graph)
                started = Troupe(commands(module, plan, agents, graph=graph))
                troupes.append(stack.enter_context(started))
            bare, *limits, ours = troupes
            bare.go(0)  # all have met
            ours.go(1)
            bare_rounds, our_rounds = SIZES[agents]
            place = f"a graph of degree {DEGREE}" if graph else "a server"
            bottom = f"websockets {version('websockets')}, no logic"
            contestants = [Contestant(bottom, lambda: bare.go(bare_rounds), bare_rounds, bare.used)]
            goals = []
            if limits:
                [honest] = limits
                honest.go(1)
                name = "the same, signed, checked, flushed: the limit"
                contestants.append(Contestant(name, lambda: honest.go(our_rounds), our_rounds, honest.used))
                goals += [Goal(name, GOALS[agents])] if agents in GOALS else []
            if agents == 100 and not graph and peers.available():
                command = ["benchmarks.peers.flower_rounds", str(agents)]
                flower = stack.enter_context(Troupe([command], python=str(peers.PYTHON)))
                name = f"Flower {peers.version('flwr')}, simulation engine"
                contestants.append(Contestant(name, lambda: flower.go(2), 2, flower.used))
                goals.append(Goal(name, FLOWER_GOAL))
            contestants.append(Contestant("tacit", lambda: ours.go(our_rounds), our_rounds, ours.used))
            yield Question(f"{agents:,} agents, {place}, mutual TLS", "round", contestants, goals)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Ask for both topologies at every size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer turns, and no more than 100 agents")
    parser.add_argument("--agents", type=int, choices=tuple(SIZES), help="this size only")
    parser.add_argument("--topology", choices=("server", "graph"), help="this one only")
    parser.add_argument("--json", type=Path, help="write what was measured to this file")
    options = parser.parse_args()
    sizes = [n for n in SIZES if (n == options.agents if options.agents else n <= 100 or not options.quick)]
    console, answers = Console(), list[Answer]()
    for agents in sizes:
        for graph in (False, True):
            if options.topology in (None, "graph" if graph else "server"):
                with question(agents, graph=graph) as asked:
                    answers.append(race(asked, 3 if options.quick else 9, PATIENCE))
                show(answers[-1], console)
    if options.json:
        save(answers, options.json, websockets=version("websockets"), processes=PROCESSES)


if __name__ == "__main__":
    main()
