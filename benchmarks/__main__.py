"""Run every benchmark: ``python -m benchmarks [--quick] [SCRIPT …]`` (``make bench``).

Prints one table of ratios, and keeps what was measured in docs/benchmarks.json, from which the page and
the pictures are written. With --quick nothing is kept. For some scripts only,
--keep replaces theirs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import report

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = (
    "engine",
    "outcome",
    "noise",
    "network",
    "coordinator",
    "keepers",
    "ledger",
    "studio",
    "startup",
    "growth",
)


def measure(script: str, quick: bool) -> dict[str, Any]:
    """Run one script in a process of its own; return what it measured."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "measured.json"
        command = [sys.executable, "-m", f"benchmarks.{script}", "--json", str(file), *["--quick"] * quick]
        subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "COLUMNS": "110"})
        measured: dict[str, Any] = json.loads(file.read_text())
        return measured


def main() -> int:
    """Run the scripts one after another; what is kept is kept when all of them are done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("scripts", nargs="*", metavar="SCRIPT", help=", ".join(SCRIPTS))
    parser.add_argument("--quick", action="store_true", help="smaller sizes and fewer repetitions")
    parser.add_argument("--keep", action="store_true", help="for some scripts only: keep what they measured")
    options = parser.parse_args()
    unknown = [script for script in options.scripts if script not in SCRIPTS]
    if unknown:
        parser.error(f"SCRIPT must be one of {', '.join(SCRIPTS)}, got {unknown[0]}")
    measured = {}
    for script in options.scripts or SCRIPTS:
        print(f"== {script}", flush=True)
        if script == "studio" and not shutil.which("chromium"):
            print("left out: it needs chromium")
            continue
        try:
            measured[script] = measure(script, options.quick)
        except subprocess.CalledProcessError as error:
            print(f"benchmarks.{script} ended with {error.returncode}: nothing is kept", file=sys.stderr)
            return 1
    report.print_table(measured, Console())
    if not options.quick and (options.keep or not options.scripts):
        report.keep(measured)
    return 0


if __name__ == "__main__":
    sys.exit(main())
