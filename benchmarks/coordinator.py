"""How many signed reports one coordinator process takes in a second, when agents are elsewhere.

Run from the repository: ``python -m benchmarks.coordinator [--quick] [--json FILE]``

A second process sends reports that were made before. The coordinator decrypts, checks and keeps each of them,
brings every round to the disk before its feedback leaves, and sends that to all.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from benchmarks.harness import Contestant, Goal, Question, pace, race, save, show
from benchmarks.network import make_plan
from benchmarks.network_turns import Troupe
from tacit.core.protocol.coordinator import CoordinatorMachine
from tacit.core.protocol.effects import Heard, Start
from tacit.core.protocol.messages import NOTHING_HEARD, Feedback, Message, Present, Report
from tacit.core.protocol.session import Session
from tacit.live.identity.identity import Identity

AGENTS, ROUNDS, TURNS = 100, 10, 30  # rounds in a turn, and at most so many turns
PATIENCE = 10.0  # seconds for all turns
GOAL = 5000
"""Reports in a second."""


def make_frames(folder: Path, session: Session) -> None:
    """Make all frames of a session beforehand: what agents say, and what the coordinator will answer.

    A signature of Ed25519 follows from key and message, so the coordinator that is measured says the same.
    """
    keys = [Identity.load(folder / "keys" / f"a{i}") for i in range(session.n)]
    coordinator = CoordinatorMachine(session, sign=Identity.load(folder / "keys" / "coordinator").sign)
    codec, before = coordinator.codec, NOTHING_HEARD
    coordinator.handle(Start())
    hello = [codec.seal(i, Present(0), key.sign) for i, key in enumerate(keys)]
    for frame in hello:
        coordinator.handle(Heard(frame))
    reports, feedback = [], []
    for t in range(1 + ROUNDS * TURNS):
        row, answers = [], list[bytes]()
        for i, key in enumerate(keys):
            body = Report(t, session.exponent(i, t), codec.pack([1000 + i]), before)
            row.append(codec.seal(i, body, key.sign))
            answers += [message.frame for message in coordinator.handle(Heard(row[-1])).messages]
        [answer] = answers
        said = codec.open(answer)
        assert isinstance(said, Message)
        assert isinstance(said.body, Feedback)
        before = said.digest
        reports.append([frame.hex() for frame in row])
        feedback.append(answer.hex())
    made = {"hello": [frame.hex() for frame in hello], "reports": reports, "feedback": feedback}
    (folder / "frames.json").write_text(json.dumps(made))


@contextmanager
def reports() -> Iterator[Question]:
    """Start a coordinator, and a process that sends it what was made before."""
    folder = Path(tempfile.mkdtemp(prefix="tacit-coordinator-"))
    try:
        plan = make_plan(folder, AGENTS, graph=False)
        make_frames(folder, Session.decode(bytes.fromhex(json.loads(plan.read_text())["session"])))
        server = ["benchmarks.network_tacit", str(plan), "-1", "0"]
        with Troupe([server, ["benchmarks.network_replay", str(plan)]]) as troupe:
            troupe.go(1)
            work = ROUNDS * AGENTS
            goal = f"{GOAL:,} a second, the goal"
            yield Question(
                f"reports of {AGENTS} agents elsewhere, one coordinator",
                "report",
                [
                    pace(goal, work / GOAL, work),
                    Contestant("tacit", lambda: troupe.go(ROUNDS), work, troupe.used),
                ],
                [Goal(goal, 1.0)],
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Ask, and write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer turns")
    parser.add_argument("--json", type=Path, help="write what was measured to this file")
    options = parser.parse_args()
    with reports() as question:
        answer = race(question, 3 if options.quick else 9, PATIENCE)
    show(answer, Console())
    if options.json:
        save([answer], options.json, agents=AGENTS)


if __name__ == "__main__":
    main()
