"""Compare contestants in one run: interleaved, repeated, as ratios with their spread.

Contestants take turns. Every turn counts, for milliseconds and for ratios alike: none is set aside. Ratios
are taken within a turn, so that a busy machine slows both sides, and their median is reported. Ratios of
processor time stand beside them, because other programs hardly touch those. How much of the machine other
programs took is measured and reported, and decides nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

CORES = len(os.sched_getaffinity(0))
LEAST = 3  # turns, however slow they are
PATIENCE = 90.0  # seconds for one question


@dataclass(frozen=True)
class Contestant:
    """Something to time; `work` is how much of the question one call does.

    `used` returns the processor-seconds used so far: of this process, unless others do the work.
    """

    name: str
    call: Callable[[], object]
    work: float = 1.0
    used: Callable[[], float] = time.process_time


def unseen() -> float:
    """Use this where the work is done by processes whose processor time is not known."""
    return 0.0


def pace(name: str, seconds: float, work: float = 1.0) -> Contestant:
    """Return a time to beat, as a contestant that only waits."""
    return Contestant(name, lambda: time.sleep(seconds), work, unseen)


@dataclass(frozen=True)
class Goal:
    """Ours must be at least `ratio` times as fast as `against`."""

    against: str
    ratio: float


@dataclass(frozen=True)
class Question:
    """Contestants that do the same; the last one is ours. Long ones get two turns, and none to warm up."""

    title: str
    unit: str
    contestants: Sequence[Contestant]
    goals: Sequence[Goal] = ()
    long: bool = False


@dataclass
class Answer:
    """What each turn measured, by contestant: seconds and core-seconds per unit of work.

    `others` is the share of the processors that other programs took in each turn.
    """

    title: str
    unit: str
    seconds: dict[str, list[float]]
    core_seconds: dict[str, list[float]]
    others: list[float] = field(default_factory=list)
    goals: list[dict[str, object]] = field(default_factory=list)

    @property
    def turns(self) -> int:
        """How many turns there were; all of them count."""
        return len(self.others)

    def ratios(self, name: str, against: str) -> list[float]:
        """How many times as fast `name` was as `against`, in every turn."""
        return [b / a for a, b in zip(self.seconds[name], self.seconds[against], strict=True)]

    def core_ratio(self, name: str, against: str) -> float | None:
        """How many times as much processor time `against` used; None where it was not measured."""
        mine, theirs = (float(np.median(self.core_seconds[each])) for each in (name, against))
        return theirs / mine if mine > 0 and theirs > 0 else None

    def milliseconds(self, name: str) -> float:
        """The median over all turns."""
        return 1e3 * float(np.median(self.seconds[name]))


def race(question: Question, turns: int, patience: float = PATIENCE) -> Answer:
    """Time all contestants in turn, after one call each to warm up.

    The number of turns is given. Fewer are taken only if patience ends, whatever they measured.
    """
    names = [contestant.name for contestant in question.contestants]
    answer = Answer(question.title, question.unit, {n: [] for n in names}, {n: [] for n in names})
    for contestant in () if question.long else question.contestants:
        contestant.call()
    end = time.perf_counter() + patience
    while answer.turns < (2 if question.long else turns):
        if answer.turns >= LEAST and time.perf_counter() > end:
            break
        begin, busy = time.perf_counter(), _busy()
        ours = sum(_time(contestant, answer) for contestant in question.contestants)
        elapsed = time.perf_counter() - begin
        answer.others.append(max(0.0, (_busy() - busy - ours) / (elapsed * CORES)))
    for goal in question.goals:
        reached = float(np.median(answer.ratios(names[-1], goal.against)))
        answer.goals.append({**asdict(goal), "reached": reached, "met": reached >= goal.ratio})
    return answer


def _time(contestant: Contestant, answer: Answer) -> float:
    """Time one call; return the processor-seconds it used."""
    begin, begin_core = time.perf_counter(), contestant.used()
    contestant.call()
    seconds, core = time.perf_counter() - begin, contestant.used() - begin_core
    answer.seconds[contestant.name].append(seconds / contestant.work)
    answer.core_seconds[contestant.name].append(core / contestant.work)
    return core


def _busy() -> float:
    """Processor-seconds that were used since the machine started; 0 where not known."""
    try:
        ticks = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    except (OSError, ValueError, IndexError):
        return 0.0
    idle = ticks[3] + ticks[4]
    return (sum(ticks) - idle) / os.sysconf("SC_CLK_TCK")


def show(answer: Answer, console: Console) -> None:
    """Print one table: times, and ours over theirs with the middle half of the turns."""
    ours = list(answer.seconds)[-1]
    table = Table(title=answer.title, title_justify="left")
    table.add_column("contestant", no_wrap=True)
    for heading in (f"ms per {answer.unit}", "core-ms", f"{ours} is … times as fast", "goal"):
        table.add_column(heading, justify="right")
    goals = {goal["against"]: goal for goal in answer.goals}
    for name in answer.seconds:
        low, middle, high = np.percentile(answer.ratios(ours, name), [25, 50, 75])
        goal = goals.get(name)
        table.add_row(
            name,
            f"{answer.milliseconds(name):.4g}",
            f"{1e3 * float(np.median(answer.core_seconds[name])):.4g}",
            "" if name == ours else f"{middle:.2f} ({low:.2f}…{high:.2f})",
            "" if goal is None else f"{goal['ratio']:.3g} {'met' if goal['met'] else 'MISSED'}",
        )
    console.print(table)
    others = float(np.median(answer.others))
    console.print(f"{answer.turns} turns; others took {others:.0%} of {CORES} cores meanwhile\n")


def ask(
    about: str | None,
    questions: Callable[[bool], Sequence[Question]],
    turns: int,
    patience: float = PATIENCE,
) -> None:
    """Run a script of questions: ``--quick`` for fewer turns, ``--json`` for a file of what was measured."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller sizes and fewer turns")
    parser.add_argument("--json", type=Path, help="write what was measured to this file")
    options = parser.parse_args()
    console, answers = Console(), []
    for question in questions(options.quick):
        answers.append(race(question, LEAST if options.quick else turns, patience))
        show(answers[-1], console)
    if options.json:
        save(answers, options.json)


def save(answers: Sequence[Answer], path: Path, **facts: object) -> None:
    """Write everything that was measured as JSON."""
    report = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": CORES,
        **facts,
        "answers": [asdict(answer) for answer in answers],
    }
    path.write_text(json.dumps(report, indent=1) + "\n")
