"""How long it takes until tacit is there: imported, and answering --help.

Run from the repository: ``python -m benchmarks.startup [--quick] [--json FILE]``
"""

from __future__ import annotations

import resource
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from benchmarks.harness import Contestant, Question, ask

TACIT = str(Path(sys.executable).with_name("tacit"))
HELLO = "import click\n@click.command()\ndef hello(): 'Say it.'\nhello(['--help'])"


def contestant(name: str, *command: str) -> Contestant:
    """Start a process, wait for its end, and count its processor time."""

    def used() -> float:
        done = resource.getrusage(resource.RUSAGE_CHILDREN)
        return done.ru_utime + done.ru_stime

    return Contestant(name, lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL), used=used)


def imported() -> Question:
    """Import the package, and what any numerical one needs."""
    return Question(
        "import, a new process each time",
        "process",
        [
            contestant("python -c pass", sys.executable, "-c", "pass"),
            contestant(f"import numpy (NumPy {version('numpy')})", sys.executable, "-c", "import numpy"),
            contestant(
                f"import scipy.sparse (SciPy {version('scipy')})", sys.executable, "-c", "import scipy.sparse"
            ),
            contestant("import tacit", sys.executable, "-c", "import tacit"),
        ],
    )


def helped() -> Question:
    """Ask for help."""
    return Question(
        "--help, a new process each time",
        "process",
        [
            contestant(f"one command in click {version('click')}", sys.executable, "-c", HELLO),
            contestant("tacit --help", TACIT, "--help"),
        ],
    )


if __name__ == "__main__":
    ask(__doc__, lambda _: [imported(), helped()], turns=9)
