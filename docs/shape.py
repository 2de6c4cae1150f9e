"""Count the tree at two commits, and write the table of docs/decisions/shape.md.

``python docs/shape.py`` counts version 0.2 as it was tried, and HEAD; ``python docs/shape.py BEFORE AFTER``
counts other commits. Run it where tacit's dependencies are installed: commands are counted by click.
"""

from __future__ import annotations

import ast
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "decisions" / "shape.md"
BEFORE = "79a167c"
COMMANDS = """
import click
from tacit.cli import main

def leaves(command, ctx):
    if not isinstance(command, click.Group):
        return [command]
    names = command.list_commands(ctx)
    below = [(command.get_command(ctx, name), name) for name in names]
    return sum((leaves(one, click.Context(one, info_name=name, parent=ctx)) for one, name in below), [])

found = leaves(main, click.Context(main, info_name="tacit"))
print(len(found), sum(len(one.params) for one in found))
"""


def counted(commit: str) -> dict[str, int]:
    """Return what is counted of a commit, by name."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        packed = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(tree, filter="data")
        source, tests = sorted(tree.glob("src/**/*.py")), sorted(tree.glob("tests/**/*.py"))
        pages = sorted(tree.glob("docs/**/*.md"))
        environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        told = subprocess.run(
            [sys.executable, "-c", COMMANDS],
            cwd=tree,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        commands, parameters = map(int, told.stdout.split())
        return {
            "files of code (`src`)": len(source),
            "lines of code": sum(map(_code, source)),
            "commands": commands,
            "their options and arguments": parameters,
            "pages of docs": len(pages),
            "words of docs": sum(map(_words, pages)),
            "words of the README": _words(tree / "README.md"),
            "files of tests": len(tests),
            "lines of tests": sum(map(_code, tests)),
            "test functions": sum(map(_tests, tests)),
        }


def _words(page: Path) -> int:
    """Count words as `wc -w` does."""
    return len(page.read_text().split())


def _code(path: Path) -> int:
    """Count lines that are neither blank nor comment nor docstring."""
    text = path.read_text()
    strings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            strings.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(
        bool(line.strip()) and not line.lstrip().startswith("#") and i not in strings for i, line in lines
    )


def _tests(path: Path) -> int:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds))
    return sum(node.name.startswith("test_") for node in found)


def _named(commit: str) -> str:
    words = ["git", "log", "-1", "--format=%h, %cs", commit]
    return subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def main(before: str = BEFORE, after: str = "HEAD") -> None:
    """Write the page."""
    then, now = counted(before), counted(after)
    rows = [f"| {name} | {then[name]:,} | {now[name]:,} |" for name in then]
    PAGE.write_text(
        "# The tree in numbers\n\n"
        "Made by `python docs/shape.py`. Lines are counted without blank ones, comments and docstrings, "
        "words as `wc -w` counts them, in `docs/**/*.md`.\n\n"
        f"| | version 0.2 ({_named(before)}) | {_named(after)} |\n|---|---|---|\n" + "\n".join(rows) + "\n"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
