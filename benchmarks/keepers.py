"""What keepers cost: a round of 100 agents with two of them, and a keeper's own work for one agent.

Run from the repository: ``python -m benchmarks.keepers [--quick] [--json FILE]``
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console
from tests.doubles import known_ephemeral, known_key, known_session

from benchmarks.harness import Contestant, Goal, Question, pace, race, save, show
from benchmarks.network import commands, make_plan
from benchmarks.network_turns import Troupe
from tacit.core.protocol.codec import combined, digest
from tacit.core.protocol.effects import Heard, NoiseReady, Start
from tacit.core.protocol.keeper import KeeperMachine
from tacit.core.protocol.masks import public_key
from tacit.core.protocol.messages import COORDINATOR, NOTHING_HEARD, Closing, Key

AGENTS, KEEPERS, ROUNDS = 100, 2, 20  # rounds in a turn
PATIENCE = 12.0  # seconds for one question
SLOWER, WORK = 1.3, 20e-6
"""A round may take so many times as long as without keepers, and a keeper's work so many seconds."""


@contextmanager
def rounds() -> Iterator[Question]:
    """Start a session without keepers, and one with two, each of which has a process."""
    folder = Path(tempfile.mkdtemp(prefix="tacit-keepers-"))
    try:
        with ExitStack() as stack:
            troupes = []
            for keepers in (0, KEEPERS):
                (folder / str(keepers)).mkdir()
                plan = make_plan(folder / str(keepers), AGENTS, graph=False, keepers=keepers)
                started = commands("network_tacit", plan, AGENTS, graph=False)
                for j in range(AGENTS, AGENTS + keepers):
                    started.append(["benchmarks.network_tacit", str(plan), str(j), str(j + 1)])
                troupes.append(stack.enter_context(Troupe(started)))
                troupes[-1].go(1)
            alone, kept = troupes
            yield Question(
                f"{AGENTS} agents, a server, {KEEPERS} keepers, mutual TLS",
                "round",
                [
                    Contestant("without keepers", lambda: alone.go(ROUNDS), ROUNDS, alone.used),
                    Contestant("tacit", lambda: kept.go(ROUNDS), ROUNDS, kept.used),
                ],
                [Goal("without keepers", 1 / SLOWER)],
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def work() -> Question:
    """Let a keeper answer closings of a thousand agents: masks, their sum, noise and a signature."""
    agents = 1000
    session = known_session(agents, 20_000, decay=0.9999, keepers=KEEPERS)
    keeper = KeeperMachine(session, agents, sign=known_key(agents).sign, private=known_ephemeral(agents))
    codec, sign = keeper.codec, known_key(COORDINATOR).sign
    keeper.handle(Start())
    # One key for all: the secrets differ all the same, because names and identities do.
    keys = [codec.seal(i, Key(public_key(known_ephemeral(0))), known_key(i).sign) for i in range(agents)]
    for frame in keys:
        keeper.handle(Heard(frame))
    everyone, named = codec.bitmap(range(agents)), combined(map(digest, keys))

    def answer() -> None:
        u = keeper.update
        body = Closing(u, everyone, agents, NOTHING_HEARD, NOTHING_HEARD, named, bytes(32 * agents))
        keeper.handle(Heard(codec.seal(COORDINATOR, body, sign)))
        keeper.handle(NoiseReady(u, 12345))

    answer()  # agrees on all secrets, once for a session
    goal = f"{WORK * 1e6:g} µs, the goal"
    return Question(
        "a keeper's work for one agent and update",
        "agent",
        [pace(goal, agents * WORK, agents), Contestant("tacit", answer, agents)],
        [Goal(goal, 1.0)],
    )


def main() -> None:
    """Ask both questions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer turns")
    parser.add_argument("--json", type=Path, help="write what was measured to this file")
    options = parser.parse_args()
    turns, answers, console = 3 if options.quick else 12, [], Console()
    answers.append(race(work(), turns, PATIENCE))
    show(answers[-1], console)
    with rounds() as asked:
        answers.append(race(asked, turns, PATIENCE))
    show(answers[-1], console)
    if options.json is not None:
        save(answers, options.json)


if __name__ == "__main__":
    main()
