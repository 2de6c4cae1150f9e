"""Compare contestants in one run: interleaved, repeated, as ratios with their spread.

Ratios are taken within a round of all contestants, and the median over rounds is what counts. Rounds in
which other programs took more than a tenth of the processors are set aside where enough others remain:
they punish whoever uses all cores.
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
QUIET = 0.1  # share of the processors that others may take
ENOUGH = 3  # quiet rounds
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
    """What each round measured, by contestant: seconds and core-seconds per unit of work.

    `others` is the share of the processors that other programs took in each round.
    """

    title: str
    unit: str
    seconds: dict[str, list[float]]
    core_seconds: dict[str, list[float]]
    others: list[float] = field(default_factory=list)
    goals: list[dict[str, object]] = field(default_factory=list)

    @property
    def counted(self) -> list[int]:
        """The rounds that count: the quiet ones, or all if there are too few of them."""
        quiet = [i for i, share in enumerate(self.others) if share <= QUIET]
        return quiet if len(quiet) >= ENOUGH else list(range(len(self.others)))

    def ratios(self, name: str, against: str) -> list[float]:
        """How many times as fast `name` was as `against`, in every round that counts."""
        return [self.seconds[against][i] / self.seconds[name][i] for i in self.counted]


def race(question: Question, rounds: int, patience: float = PATIENCE) -> Answer:
    """Time all contestants in turn, after one call each to warm up.

    Goes on until `rounds` rounds were quiet, or until patience ends.
    """
    names = [contestant.name for contestant in question.contestants]
    answer = Answer(question.title, question.unit, {n: [] for n in names}, {n: [] for n in names})
    for contestant in () if question.long else question.contestants:
        contestant.call()
    end = time.perf_counter() + patience
    while sum(share <= QUIET for share in answer.others) < rounds:
        if len(answer.others) >= (2 if question.long else ENOUGH) and (
            question.long or time.perf_counter() > end
        ):
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
    """Print one table: times, and ours over theirs with the middle half of the rounds."""
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
            *(f"{_milliseconds(times[name], answer):.4g}" for times in (answer.seconds, answer.core_seconds)),
            "" if name == ours else f"{middle:.2f} ({low:.2f}…{high:.2f})",
            "" if goal is None else f"{goal['ratio']:.3g} {'met' if goal['met'] else 'MISSED'}",
        )
    console.print(table)
    counted = [answer.others[i] for i in answer.counted]
    console.print(f"{len(counted)} rounds; others took {np.median(counted):.0%} of {CORES} cores meanwhile\n")


def _milliseconds(times: list[float], answer: Answer) -> float:
    return 1e3 * float(np.median([times[i] for i in answer.counted]))


def ask(
    about: str | None,
    questions: Callable[[bool], Sequence[Question]],
    rounds: int,
    patience: float = PATIENCE,
) -> None:
    """Run a script of questions: ``--quick`` for fewer rounds, ``--json`` for a file of what was measured."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller sizes and fewer rounds")
    parser.add_argument("--json", type=Path, help="write what was measured to this file")
    options = parser.parse_args()
    console, answers = Console(), []
    for question in questions(options.quick):
        answers.append(race(question, ENOUGH if options.quick else rounds, patience))
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
