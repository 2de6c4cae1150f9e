"""How fast safe noise is, and whether the time a message takes tells its noise.

Run from the repository: ``python -m benchmarks.noise [--quick] [--json FILE]``

Contestants:

- NumPy: ``rng.laplace`` in floating point, which protects nobody;
- OpenDP, plainly: its measurement called on a list, or on a number, as its manual shows;
- tacit: `tacit.core.noise.SafeNoise`.

The timing attack hears feedback, notes how long the agent takes to speak, and guesses from that
whether the noise in the message was large or small: its area under the curve is 0.5 by chance.
"""

from __future__ import annotations

import argparse
import gc
import time
from pathlib import Path
from typing import cast

import numpy as np
import opendp.prelude as dp
from rich.console import Console
from rich.table import Table
from scipy.stats import mannwhitneyu

from benchmarks.harness import Answer, Contestant, Goal, Question, race, save, show
from tacit import Fading
from tacit.base.arrays import FloatArray
from tacit.core.mechanism.lattice import Lattice
from tacit.core.noise import DrawnAhead, SafeNoise

SCALE = 1.3 * 2.0**40
LONG = 100_000
SECOND = 1.0


def vectors(size: int) -> Question:
    """One message of many components."""
    rng, noise = np.random.default_rng(0), SafeNoise()
    dp.enable_features("contrib")
    plain = dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"), scale=SCALE)
    return Question(
        f"a vector of {size:,} components",
        "message",
        [
            Contestant("NumPy (protects nobody)", lambda: rng.laplace(scale=SCALE, size=size)),
            Contestant("OpenDP, plainly", lambda: plain([0] * size)),
            Contestant("tacit", lambda: noise.draw(SCALE, size)),
        ],
        [Goal("OpenDP, plainly", 1.0)],
    )


def numbers(count: int) -> Question:
    """Messages of one number, one call each."""
    rng, noise = np.random.default_rng(0), SafeNoise()
    dp.enable_features("contrib")
    plain = dp.m.make_laplace(dp.atom_domain(T="i64"), dp.absolute_distance(T="i64"), scale=SCALE)
    return Question(
        f"{count:,} plain numbers, one call each",
        "number",
        [
            Contestant(
                "NumPy (protects nobody)", lambda: [rng.laplace(scale=SCALE) for _ in range(count)], count
            ),
            Contestant("OpenDP, plainly", lambda: [plain(0) for _ in range(count)], count),
            Contestant("tacit", lambda: [noise.draw(SCALE) for _ in range(count)], count),
        ],
    )


# ---------------------------------------------------------------- the timing attack


def between_hearing_and_speaking(trials: int) -> dict[str, tuple[FloatArray, FloatArray]]:
    """For both ways, seconds from hearing to speaking and |noise| in scales, trial by trial.

    The ways take turns, so that both meet the same state of the machine.
    """
    parameters = Fading(sigma=0.8, c=10.0, q=1 - 2.0**-40)  # noise that hardly fades: trials are alike
    agent = Lattice(0, 1).agent(parameters)
    source, scale = SafeNoise(), agent.draw_scale(0)
    pool = DrawnAhead(source, lambda _: scale, depth=2)
    state, y = agent.lattice.start(0.3), agent.lattice.start(0.5)
    took: dict[str, list[tuple[float, float]]] = {"drawn on hearing": [], "drawn ahead": []}
    gc.disable()
    for u in range(trials):
        begin = time.perf_counter()
        draw = source.draw(scale)
        agent.report(agent.update(state, y), 0, draw)
        took["drawn on hearing"].append((time.perf_counter() - begin, abs(draw) / scale))
        pool.refill()
        begin = time.perf_counter()
        ready = cast(int, pool.take(u))
        agent.report(agent.update(state, y), 0, ready)
        took["drawn ahead"].append((time.perf_counter() - begin, abs(ready) / scale))
    gc.enable()
    return {way: (np.array(rows)[:, 0], np.array(rows)[:, 1]) for way, rows in took.items()}


def attack(seconds: FloatArray, size: FloatArray) -> dict[str, float]:
    """How well the time tells the largest quarter of the noise from the smallest."""
    low, high = np.quantile(size, [0.25, 0.75])
    small, large = seconds[size <= low], seconds[size >= high]
    statistic, p_value = mannwhitneyu(large, small)
    auc = float(statistic) / (len(small) * len(large))
    every = np.sort(seconds)
    rates = [np.searchsorted(np.sort(part), every, side="right") / len(part) for part in (small, large)]
    return {
        "auc": auc,
        "auc_by_chance": float(np.sqrt((len(small) + len(large) + 1) / (12 * len(small) * len(large)))),
        "advantage": float(np.max(np.abs(rates[0] - rates[1]))),
        "p_value": float(p_value),
        "median_microseconds": 1e6 * float(np.median(seconds)),
    }


def show_attack(results: dict[str, dict[str, float]], trials: int, console: Console) -> None:
    """Print one row per way of drawing."""
    table = Table(title=f"telling large noise from small by time, {trials:,} messages", title_justify="left")
    for heading in ("noise is", "hearing to speaking", "area under curve", "advantage", "p-value"):
        table.add_column(heading, justify="left" if heading == "noise is" else "right")
    for way, found in results.items():
        table.add_row(
            way,
            f"{found['median_microseconds']:.1f} µs",
            f"{found['auc']:.3f}  (chance 0.5 ± {found['auc_by_chance']:.3f})",
            f"{found['advantage']:.3f}",
            f"{found['p_value']:.2g}",
        )
    console.print(table)


def judged(answer: Answer) -> str:
    """Say whether a long vector takes less than a second by the clock."""
    wall, core = (float(np.median(times["tacit"])) for times in (answer.seconds, answer.core_seconds))
    verdict = "met" if wall < SECOND else "MISSED"
    return (
        f"a message of {LONG:,} components: {wall:.2f} s by the clock, goal below 1 s: {verdict}\n"
        f"({core:.2f} s of processor time, {LONG / core:,.0f} numbers a second and core)"
    )


def main() -> None:
    """Ask all questions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", type=Path, help="write what was measured to this file")
    options = parser.parse_args()
    rounds, trials = (3, 2000) if options.quick else (9, 20_000)
    console = Console()
    answers = [race(vectors(LONG), rounds), race(numbers(1000), rounds)]
    for answer in answers:
        show(answer, console)
    console.print(judged(answers[0]) + "\n")
    measured = between_hearing_and_speaking(trials)
    results = {way: attack(*columns) for way, columns in measured.items()}
    show_attack(results, trials, console)
    if options.json:
        save(answers, options.json, timing=results, trials=trials)


if __name__ == "__main__":
    main()
