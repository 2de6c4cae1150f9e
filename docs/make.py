"""Make what the docs show: pictures, command reference, and the real output of commands.

``python docs/make.py`` rewrites everything; ``--check`` changes nothing and exits with 1 when an output
in the README or docs is no longer what its command prints. A block that starts with ``$ tacit`` or
``$ python`` is run as it stands, in a scratch folder, in a terminal of 110 columns.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
REFERENCE = ROOT / "docs" / "reference" / "cli.md"

FIGURES = {
    "tradeoff.svg": "tacit figure tradeoff",
    "trajectories.svg": "tacit figure trajectories",
    "radius.svg": "tacit figure radius",
    "smoothness.svg": "tacit figure smoothness",
    "chebyshev.svg": "tacit figure chebyshev",
    "belief.svg": "tacit figure belief",
    "graph.svg": "tacit figure graph",
    "convergence.svg": "tacit figure convergence",
    "loss.svg": "tacit figure loss",
    "audit.svg": "tacit audit --agents 3 --mixing 0.8 --noise 10 --decay 0.6 --simulated",
}

BLOCK = re.compile(r"^```console\n\$ (?P<command>.+)\n(?P<output>(?:(?!```).*\n)*)```$", re.MULTILINE)
SHOWN_AS = {"make run": "tacit demo"}
"""Its noise is real, so no two runs print the same: refreshed here, not compared by the test."""


def pages() -> list[Path]:
    """Every page that may show the output of a command."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def run(command: str, folder: Path) -> str:
    """Run one command and return what it prints, in colourless text of 110 columns."""
    words = shlex.split(SHOWN_AS.get(command, command))
    words[0] = str(Path(sys.executable).with_name(words[0]))
    plain = {"COLUMNS": "110", "NO_COLOR": "1", "TERM": "dumb", "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        words, cwd=folder, env={**os.environ, **plain}, capture_output=True, text=True, check=False
    )
    text = done.stdout + done.stderr
    return "".join(line.rstrip() + "\n" for line in text.splitlines())


def runs_here(command: str) -> bool:
    """Whether a shown command is one that is run to check its output."""
    return command in SHOWN_AS or command.split(maxsplit=1)[0] in ("tacit", "python")


def shown(page: Path) -> Iterator[tuple[str, str]]:
    """Commands and outputs that a page shows."""
    for block in BLOCK.finditer(page.read_text()):
        if runs_here(block["command"]) and block["command"] not in SHOWN_AS:
            yield block["command"], block["output"]


def stale(page: Path) -> list[str]:
    """Return the commands of a page whose output is no longer what they print."""
    with tempfile.TemporaryDirectory() as folder:
        return [command for command, output in shown(page) if run(command, Path(folder)) != output]


def refresh(page: Path) -> None:
    """Rewrite the outputs that a page shows."""
    with tempfile.TemporaryDirectory() as folder:

        def fresh(block: re.Match[str]) -> str:
            if not runs_here(block["command"]):
                return block[0]
            return f"```console\n$ {block['command']}\n{run(block['command'], Path(folder))}```"

        text = page.read_text()
        updated = BLOCK.sub(fresh, text)
    if updated != text:
        page.write_text(updated)
        print(f"updated {page.relative_to(ROOT)}")


def main() -> int:
    """Make everything, or check the outputs that pages show."""
    if "--check" in sys.argv[1:]:
        found = [f"{page.relative_to(ROOT)}: $ {command}" for page in pages() for command in stale(page)]
        for line in found:
            print(f"stale {line}")
        return 1 if found else 0
    from tacit.cli.reference import markdown

    PICTURES.mkdir(exist_ok=True)
    for name, command in FIGURES.items():
        print(run(f"{command} --out {PICTURES / name} --force", ROOT), end="")
    REFERENCE.write_text(markdown())
    for page in pages():
        refresh(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
