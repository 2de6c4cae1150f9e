"""Run every benchmark and keep what they print: ``python -m benchmarks`` (``make bench``)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
SCRIPTS = ("engine", "noise")

HEAD = """# Benchmarks

Written by `make bench`: contestants take turns in one run, ratios are taken within a turn, and the spread
is the middle half of the turns. What was measured, on what input and against whom is said in `benchmarks/`.
"""


def main() -> int:
    """Run the scripts one after another; the page is written when all of them are done."""
    sections = [HEAD]
    for script in SCRIPTS:
        print(f"== {script}", flush=True)
        command = [sys.executable, "-m", f"benchmarks.{script}", *sys.argv[1:]]
        lines = []
        plain = {**os.environ, "COLUMNS": "110", "PYTHONUNBUFFERED": "1"}
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=plain) as running:
            for line in running.stdout or ():
                print(line, end="", flush=True)
                lines.append(line.rstrip() + "\n")
        if running.returncode:
            print(f"benchmarks.{script} failed: docs/benchmarks.md is left as it was", file=sys.stderr)
            return 1
        sections.append(f"## {script.capitalize()}\n\n```\n{''.join(lines).strip()}\n```\n")
    PAGE.write_text("\n".join(sections))
    return 0


if __name__ == "__main__":
    sys.exit(main())
