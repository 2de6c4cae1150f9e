"""What the auditor can show in a long run; its short form is in the tests.

Run from the repository: ``python -m benchmarks.audit [--quick] [--json FILE]``

1. Low bits: on sessions of the lattice mechanism with exact noise, at 0 against 1, the attacks of Mironov and
   of Haney et al. stay at chance; on NumPy's Laplace noise the same attacks decide without error.
2. Two million sessions: what the optimal tester proves of the true loss, for the paper's parameters.
3. Every broken mechanism is caught, and how long that takes; the true one passes one hundred seeds.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from tacit import ClientServer, Fading
from tacit.core.theory.privacy import epsilon
from tacit.lab.audit import BROKEN, Deployed, Simulated, broken, examine, measure_loss
from tacit.lab.audit.attacks import ATTACKS, decide
from tacit.lab.audit.subjects import Subject
from tacit.lab.audit.testers import coin, tally

PAPER = Fading(sigma=0.8, c=10.0, q=0.6)
PAIR, GROUP = ClientServer(PAPER, agents=2), ClientServer(PAPER, agents=3)
ROUNDS = 12


def low_bits(sessions: int, out: Console) -> dict[str, Any]:
    """Attack both mechanisms at θ = 0 against θ = 1."""
    subjects: dict[str, Subject] = {"lattice": Deployed(PAIR, 0, 1), "NumPy": broken("floating-point", PAIR)}
    found: dict[str, Any] = {}
    for name, subject in subjects.items():
        counts = coin(sessions, np.random.default_rng(11))  # the bound needs a fair coin, not halves
        seen = [subject([v, 1.0], ROUNDS, n, 11 + int(v)) for v, n in zip((0.0, 1.0), counts, strict=True)]
        for rounds in (1, ROUNDS):
            for attack, method in ATTACKS.items():
                first, second = (decide(method, t.prefix(rounds).of(0), 0.0, 1.0) for t in seen)
                bound = tally(first, second, 1e-6)
                wrong = bound.guesses - bound.correct
                key = f"{name}, {attack}, {rounds} rounds"
                found[key] = {"decided": bound.guesses / sessions, "wrong": wrong, "loss": bound.loss}
                out.print(
                    f"  {key}: decides {bound.guesses / sessions:.1%}, {wrong:,} of them wrongly "
                    f"({wrong / max(bound.guesses, 1):.1%}); loss at least {bound.loss:.3f}"
                )
    return found


def optimal(sessions: int, seeds: int, out: Console) -> list[dict[str, Any]]:
    """Prove what can be proved of the loss, near and far apart, at two failure probabilities."""
    found = []
    for distance, failure in ((1.0, 0.05), (1.0, 1e-6), (16.0, 1e-6)):
        truth = distance * epsilon(PAPER)
        shares = []
        for seed in range(seeds):
            bound = measure_loss(
                Simulated(PAIR),
                distance,
                rounds=ROUNDS,
                transcripts=sessions,
                failure_probability=failure,
                seed=seed,
            )
            shares.append(bound.loss / truth)
        found.append({"distance": distance, "failure_probability": failure, "shares": shares})
        out.print(
            f"  starts {distance:g} apart, failure probability {failure:g}: {np.min(shares):.1%} to "
            f"{np.max(shares):.1%} of the true loss {truth:.3g}, on average {np.mean(shares):.1%}"
        )
    return found


def bugs(sessions: int, out: Console) -> dict[str, Any]:
    """Catch every bug, and time it."""
    found: dict[str, Any] = {}
    for name in BROKEN:
        began = time.perf_counter()
        report = examine(broken(name, GROUP), transcripts=sessions)
        took = time.perf_counter() - began
        alarms = [f.test for f in report.alarms]
        found[name] = {"seconds": took, "alarms": alarms}
        out.print(f"  {name}: {'caught' if alarms else 'MISSED'} in {took:.1f} s by {', '.join(alarms)}")
    return found


def passes(seeds: int, sessions: int, out: Console) -> dict[str, Any]:
    """Audit what has no bug with one seed after another."""
    subjects: dict[str, Subject] = {
        "simulated": Simulated(GROUP),
        "simulated, rounds missed and messages repeated": Simulated(GROUP, misses=True, retries="repeat"),
        "lattice mechanism": Deployed(GROUP, 0, 64),
    }
    found: dict[str, Any] = {}
    for name, subject in subjects.items():
        passed = sum(examine(subject, transcripts=sessions, seed=seed).passed for seed in range(seeds))
        found[name] = {"passed": passed, "seeds": seeds}
        out.print(f"  {name}: {passed} of {seeds} pass")
    return found


def main() -> None:
    """Run all of it, or a quick part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    parser.add_argument("--json", type=Path, help="write the numbers to a file")
    asked = parser.parse_args()
    part, out = (10 if asked.quick else 1), Console()
    out.print("Low bits, 0 against 1")
    answer: dict[str, Any] = {"low_bits": low_bits(20_000 // part, out)}
    out.print("Optimal tester")
    answer["optimal"] = optimal(2_000_000 // part, 10 // min(part, 5), out)
    out.print("Bugs")
    answer["bugs"] = bugs(20_000 // part, out)
    out.print("No bugs")
    answer["passes"] = passes(100 // part, 2000, out)
    if asked.json:
        asked.json.write_text(json.dumps(answer, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
