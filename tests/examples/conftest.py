"""The worked examples, imported as a script imports its neighbours, and run once each."""

import contextlib
import importlib
import io
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples"


class Ran(NamedTuple):
    module: object
    found: dict
    text: str
    picture: Path

    def row(self, label):
        """The numbers of a row of the table, as printed."""
        (line,) = [line for line in self.text.splitlines() if line.strip().startswith(label)]
        cells = line.strip().removeprefix(label).split()
        return cells[: next((i for i, cell in enumerate(cells) if not _number(cell)), len(cells))]


def _number(cell):
    try:
        float(cell)
    except ValueError:
        return False
    return True


@pytest.fixture(scope="session")
def example():
    """Import an example, or the module they share, by its name."""
    sys.path.insert(0, str(FOLDER))
    yield importlib.import_module
    sys.path.remove(str(FOLDER))


@pytest.fixture(scope="session")
def ran(example, tmp_path_factory):
    """Run an example in this process, and keep what it printed and drew."""

    def run(name, *args, seed=1):
        picture = tmp_path_factory.mktemp(name) / "picture.svg"
        module, said = example(name), io.StringIO()
        with contextlib.redirect_stdout(said):
            found = module.main(["--seed", str(seed), "--out", str(picture)], *args)
        return Ran(module, found, said.getvalue(), picture)

    return run
