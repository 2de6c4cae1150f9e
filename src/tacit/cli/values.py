"""Initial values for simulations: from a file, or from the seed.

Values in a file are private, so errors never contain them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tacit.base.errors import FileError, StateError

if TYPE_CHECKING:
    from tacit.base.arrays import FloatArray
    from tacit.core.question import Question

MADE_UP = "uniform:0:1"
_UNIFORM = re.compile(r"uniform:([^:]+):([^:]+)")
_SEPARATORS = re.compile(r"[,;\s]+")

values_option = click.option(
    "--values",
    "source",
    metavar="FILE|uniform:LO:HI",
    default=MADE_UP,
    show_default=True,
    help="Initial values (θ): a file, one agent per line (columns make a vector), or made up from the seed.",
)


def read_values(source: str, n: int | None, seed: int) -> FloatArray:
    """Return one value or vector for each of `n` agents.

    If `n` is None, the file decides how many there are. An error names the line of the file that is wrong,
    and never contains a value.
    """
    made_up = made_up_range(source)
    values = _from_file(Path(source)) if made_up is None else _made_up(*made_up, n or 1, seed)
    if n is not None and len(values) != n:
        raise StateError(
            f"there must be one value for each of the {n:,} agents, got {len(values):,} in {source}."
        )
    return values


def made_up_spread(source: str) -> float | None:
    """Return HI − LO of made-up values; None for a file, which is private."""
    bounds = made_up_range(source)
    return None if bounds is None else (bounds[1] - bounds[0]) or None


def made_up_range(source: str) -> tuple[float, float] | None:
    """Return LO and HI of made-up values; None for a file."""
    match = _UNIFORM.fullmatch(source)
    if match is None or Path(source).exists():
        return None
    try:
        low, high = map(float, match.groups())
    except ValueError:
        raise StateError(f"{source!r} must be uniform:LO:HI with two numbers, like uniform:0:1.") from None
    if not -1e300 < low <= high < 1e300:
        raise StateError(f"{source!r} must have finite numbers LO ≤ HI.")
    return low, high


def read_records(source: str, n: int, seed: int, question: Question) -> Any:
    """Return one record for each of `n` agents; a line of a file each.

    Fields of a record are separated by commas. Made-up records are numbers.
    """
    made_up = made_up_range(source)
    if made_up is not None:
        return _made_up(*made_up, n, seed)
    lines = list(enumerate(_lines(Path(source)), start=1))
    records = [(k, [_cell(cell) for cell in line.split(",")]) for k, line in lines if line.strip()]
    if records and not _fits(records[0][1], question):  # names of columns
        records = records[1:]
    for k, record in records:
        if not _fits(record, question):
            raise FileError(f"{source}, line {k}: this is no record of a {question.kind}.")
    if len(records) != n:
        raise StateError(
            f"there must be one record for each of the {n:,} agents, got {len(records):,} in {source}."
        )
    return [_as_record(record, question) for _, record in records]


def _as_record(cells: list[Any], question: Question) -> Any:
    import numpy as np

    from tacit.lab.simulation.asking import records_of

    if len(cells) == 1:
        return cells[0]
    table = np.array([cells], dtype=object)
    return next(record for _, record in records_of(table, question))


def _fits(cells: list[Any], question: Question) -> bool:
    try:
        question.encode(_as_record(cells, question))
    except StateError:
        return False
    return True


def _cell(text: str) -> Any:
    plain = text.strip().strip('"')
    number = _as_float(plain)
    return {"yes": True, "true": True, "no": False, "false": False}.get(
        plain.lower(), plain if number is None else number
    )


def _made_up(low: float, high: float, n: int, seed: int) -> FloatArray:
    import numpy as np

    # A separate stream, because the noise uses the same seed.
    return np.random.default_rng([seed, 0x7AC17]).uniform(low, high, n)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise FileError(f"{path} is not a text file: give one line of numbers for each agent.") from None
    except OSError as error:
        hint = " For made-up values write uniform:LO:HI." if error.errno == 2 else ""
        raise FileError(f"{path}: {error.strerror}.{hint}") from None


def _from_file(path: Path) -> FloatArray:
    import numpy as np

    lines = _lines(path)
    rows = [_row(numbered) for numbered in _content(lines)]
    if not rows:
        raise FileError(f"{path} has no values: give one line of numbers for each agent.")
    width = len(rows[0][1])
    for line, row in rows:
        if len(row) != width:
            raise FileError(f"{path}, line {line}: {len(row)} numbers, where line {rows[0][0]} has {width}.")
        if not np.isfinite(row).all():
            raise FileError(f"{path}, line {line}: every entry must be a finite number.")
    values = np.array([row for _, row in rows])
    return values[:, 0] if width == 1 else values


def _content(lines: list[str]) -> list[tuple[int, str]]:
    """Return numbered lines without comments, empty lines and a header."""
    kept = [(k, line.partition("#")[0].strip(" \t,;")) for k, line in enumerate(lines, start=1)]
    kept = [(k, line) for k, line in kept if line]
    if kept and all(_as_float(part) is None for part in _SEPARATORS.split(kept[0][1])):
        return kept[1:]  # names of columns
    return kept


def _row(numbered: tuple[int, str]) -> tuple[int, list[float]]:
    line, text = numbered
    numbers = [_as_float(part) for part in _SEPARATORS.split(text)]
    return line, [float("nan") if number is None else number for number in numbers]


def _as_float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
