"""What the examples share: two options, one table, and an eavesdropper.

Noise is simulated here, so that the numbers can be repeated. A deployment runs the same mechanisms with
`tacit.core.noise.SafeNoise`, through `tacit session` and `tacit join`.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tacit import History
from tacit.base.arrays import FloatArray
from tacit.base.rounding import shown_up
from tacit.lab.audit import Prior, reconstruct
from tacit.lab.plots.style import FORMATS

FAILURE = 0.05
"""Radii are promised but for this probability."""

Found = dict[str, dict[str, float]]
"""Numbers by column and name."""


class Options(NamedTuple):
    """What every example can be told."""

    seed: int
    out: Path


def options(description: str | None, argv: Sequence[str] | None, picture: str) -> Options:
    """Read --seed and --out; `picture` is what the file is called unless told otherwise."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=2012, help="names the made-up values and the noise")
    parser.add_argument("--out", type=Path, default=Path(picture), help="picture: .svg, .png or .pdf")
    given = parser.parse_args(argv)
    if not 0 <= given.seed < 2**32:
        parser.error(f"--seed must be a whole number from 0 to 2^32 − 1, got {given.seed}.")
    if given.out.suffix.lower() not in FORMATS or not given.out.absolute().parent.is_dir():
        parser.error(f"--out must be a {', '.join(FORMATS)} file in a folder that exists, got {given.out}.")
    return Options(given.seed, given.out)


def tell(title: str, found: Mapping[str, Mapping[str, float]], rows: Sequence[tuple[str, ...]]) -> None:
    """Print a table with a column for each of `found`.

    A row is a label, the name of its numbers, how to write them ("up" rounds up, for promises), and
    what they mean. What a column does not have is left out.
    """

    def written(value: float | None, form: str) -> str:
        if value is None:
            return ""
        return shown_up(value, 3) if form == "up" else format(value, form)

    lines = [
        (label, *(written(column.get(name), form) for column in found.values()), meaning)
        for label, name, form, meaning in rows
    ]
    table = [("", *found, ""), *lines]
    widths = [max(len(line[i]) for line in table) for i in range(len(found) + 1)]
    print(title, end="\n\n")
    for label, *cells, meaning in table:
        numbers = "  ".join(cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        print(f"  {label.ljust(widths[0])}  {numbers}  {meaning}".rstrip())
    print()


def eavesdrop(execution: History, prior: Prior | Sequence[Prior]) -> FloatArray:
    """Return the best guess of every agent's value for whoever hears all messages.

    It is the posterior mean: under the prior, one for all or one each, no other guess has a smaller mean
    square error. With one-shot noise only the first message says anything.
    """
    said = execution.prefix(1) if execution.mechanism.shadowed else execution
    n = execution.mechanism.n
    known = [prior] * n if isinstance(prior, Prior) else prior
    return np.array([reconstruct(said.of(i), known[i]).mean[0] for i in range(n)])


def rms(error: FloatArray) -> float:
    """Root of the mean square."""
    return float(np.sqrt(np.mean(np.square(error))))


def joined(pairs: FloatArray) -> FloatArray:
    """Turn pairs of points, shape (edges, 2, 2), into one broken line to draw: x and y."""
    broken = np.concatenate([pairs, np.full((len(pairs), 1, 2), np.nan)], axis=1)
    return broken.reshape(-1, 2).T
