"""Make what the docs show: pictures, command reference, the real output of commands, notebooks, and the site.

``python docs/make.py`` makes everything; ``--help`` lists how to make less.

The code blocks of a page are one session, from the first to the last in one folder and one shell:

- ``console``: lines after ``$`` are run in a terminal of 110 columns; below is what they print;
- ``sh``: a script, which must succeed. ``python``: a program, which must succeed.

Where noise is real no two runs print the same numbers. ``<!-- real noise -->`` above a block says so: the
words must be the same, the numbers are those of the last ``make docs``.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PICTURES = DOCS / "pictures"
SITE = ROOT / "out" / "site"

FIGURES = {
    "tradeoff.svg": "tacit figure tradeoff",
    "trajectories.svg": "tacit figure trajectories",
    "radius.svg": "tacit figure radius",
    "smoothness.svg": "python -m docs.figures smoothness",
    "chebyshev.svg": "python -m docs.figures chebyshev",
    "belief.svg": "tacit figure belief",
    "graph.svg": "python -m docs.figures graph",
    "convergence.svg": "python -m docs.figures convergence",
    "loss.svg": "python -m docs.figures loss",
    "scale.svg": "python -m docs.figures scale",
    "series.svg": "python -m docs.figures series",
    "bounds.svg": "python -m docs.figures bounds",
    "tail.svg": "python -m docs.figures tail",
    "audit.svg": "tacit audit --agents 3 --mixing 0.8 --noise 10 --decay 0.6 --simulated",
    "compare.svg": "tacit compare --graph regular:100:4:seed=1 --epsilon 1 --rounds 50 --runs 1000 --seed 1",
    "example-platoon.svg": "python examples/platoon.py",
    "example-heating.svg": "python examples/heating.py",
    "example-sensor-fusion.svg": "python examples/sensor_fusion.py",
    "example-clock-synchronisation.svg": "python examples/clock_synchronisation.py",
    "example-load-balancing.svg": "python examples/load_balancing.py",
    "example-smart-meters.svg": "python examples/smart_meters.py",
    "example-hospitals.svg": "python examples/hospitals.py",
}

BLOCK = re.compile(
    r"^(?P<random><!-- real noise -->\n\n?)?(?P<fence>```+)(?P<kind>[^\n`]*)\n(?P<text>.*?)^(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n", re.MULTILINE)
NUMBER = re.compile(r"-?[0-9a-f]{8,}|-?\d+(?:[.,:]\d+)*(?:e[-+]?\d+)?")
PLAIN = {"COLUMNS": "110", "NO_COLOR": "1", "TERM": "dumb", "PYTHONHASHSEED": "0"}
DEMO = 'make() { test "$1" != run || tacit demo; }'
"""`make` would set up again what runs this: only the session of `make run` is wanted."""


@dataclass
class Piece:
    """A command, script or program of a page; what the page shows of its output, and what it printed."""

    kind: str
    code: str
    shown: str = ""
    random: bool = False
    printed: str = ""
    status: int | None = None

    @property
    def current(self) -> bool:
        """Whether it does what the page says: print what is shown, or succeed."""
        if self.kind != "console":
            return self.status == 0
        if self.code.startswith("make ") or self.printed == self.shown:
            return self.status is not None
        return self.random and _words(self.printed) == _words(self.shown)


def pages() -> list[Path]:
    """Every page that may show a command."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]


def pieces(text: str) -> list[Piece]:
    """Return what a page's text would have its reader run, in order."""
    found = []
    for block in BLOCK.finditer(text):
        if block["kind"] in ("sh", "python"):
            found.append(Piece(block["kind"], block["text"]))
        elif block["kind"] == "console":
            parts = COMMAND.split(block["text"])[1:]
            shown = zip(parts[::2], parts[1::2], strict=True)
            found += [Piece("console", code, output, block["random"] is not None) for code, output in shown]
    return found


def play(text: str, folder: Path, setting: str = "") -> list[Piece]:
    """Run a page's pieces in one shell, after the shell commands of ``setting``."""
    found = pieces(text)
    if "python examples/" in text and not (folder / "examples").exists():
        (folder / "examples").symlink_to(ROOT / "examples")
    with tempfile.TemporaryDirectory() as logs:
        script = "\n".join([setting, *(_shell(piece, Path(logs) / str(i)) for i, piece in enumerate(found))])
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.Popen(
            ["bash", "-uc", script],
            cwd=folder,
            env={**os.environ, **PLAIN, "PATH": path},
            start_new_session=True,
        )
        try:
            done.wait(timeout=600)
        except subprocess.TimeoutExpired:
            print("a page does not come to its end within ten minutes", file=sys.stderr)
        finally:
            _end(done.pid)
        for i, piece in enumerate(found):
            printed, status = Path(logs) / str(i), Path(logs) / f"{i}.status"
            if printed.exists():
                piece.printed = "".join(line.rstrip() + "\n" for line in printed.read_text().splitlines())
            if status.exists():
                piece.status = int(status.read_text())
    return found


def _shell(piece: Piece, log: Path) -> str:
    """Return the lines of shell that run a piece; after a script or program that fails nothing is run."""
    code = piece.code
    if piece.kind == "python":
        code = f"python -W error - <<'END OF PROGRAM'\n{code}\nEND OF PROGRAM"
    strict = "+e" if piece.kind == "console" else "-e"
    return f"set {strict}\n{{\n{code}\n}} > {log} 2>&1\necho $? > {log}.status"


def _end(group: int) -> None:
    """End what a page left running."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def _words(output: str) -> str:
    return " ".join(NUMBER.sub("#", output).split())


def show_output() -> list[Path]:
    """Pages that show what commands print."""
    return [page for page in pages() if "```console" in page.read_text()]


def stale(page: Path) -> list[str]:
    """Return what a page shows and is no longer so."""
    with tempfile.TemporaryDirectory() as folder:
        return [piece.code for piece in play(page.read_text(), Path(folder), DEMO) if not piece.current]


def refresh(page: Path) -> None:
    """Rewrite the outputs that a page shows."""
    text = page.read_text()
    with tempfile.TemporaryDirectory() as folder:
        done = play(text, Path(folder), DEMO)
    for piece in done:
        if piece.status is None or (piece.kind != "console" and piece.status):
            sys.exit(f"{page.relative_to(ROOT)} is left as it is: this fails\n{piece.code}\n{piece.printed}")
    played = iter(done)

    def fresh(block: re.Match[str]) -> str:
        if block["kind"] in ("sh", "python"):
            next(played)
        if block["kind"] != "console":
            return block[0]
        new = [next(played) for _ in COMMAND.findall(block["text"])]
        body = "".join(f"$ {piece.code}\n{piece.printed}" for piece in new)
        return f"{block['random'] or ''}```console\n{body}```"

    updated = BLOCK.sub(fresh, text)
    if updated != text:
        page.write_text(updated)
        print(f"updated {page.relative_to(ROOT)}")


def draw(names: Iterable[str] = FIGURES) -> None:
    """Draw these figures again."""
    PICTURES.mkdir(exist_ok=True)
    for name in names:
        command = FIGURES[name]
        force = "--force" if command.startswith("tacit") else ""
        (drawn,) = play(f"```sh\n{command} --out {PICTURES / name} {force}\n```", ROOT)
        print(drawn.printed, end="")
        if drawn.status:
            sys.exit(f"{name} is left as it is: this fails\n{command}")


def picture_the_studio() -> None:
    """Take the pictures of the studio again, if there is a browser."""
    if shutil.which("chromium"):
        subprocess.run([sys.executable, "-m", "docs.studio_pictures"], cwd=ROOT, check=True)
    else:
        print("the studio's pictures are left as they are: they need chromium")


def refer() -> None:
    """Rewrite the fields of sessions. The site's build makes the other references."""
    from tacit.cli.reference import renewed_fields

    wire = DOCS / "reference" / "wire.md"
    wire.write_text(renewed_fields(wire.read_text()))


def run_notebooks() -> None:
    """Run the notebooks and store what they print and draw."""
    subprocess.run([sys.executable, str(DOCS / "notebook_runs.py")], cwd=ROOT, check=True)


def site(out: Path = SITE, *, plain: bool = False) -> int:
    """Build the site, offline; a warning is an error. Return the exit code.

    A plain site has the same pages without colours and navigation, which take a third of the time.
    Every page is read anew (-E): Sphinx forgets the search words of pages from an earlier build. One process
    builds it: several take more CPU time (docs/decisions/results.md).
    """
    words = ["-m", "sphinx", "-W", "--keep-going", "-q", "-E", "-j", "1", "-d", f"{out}.doctrees"]
    words += ["-t", "plain"] if plain else []
    code = subprocess.call([sys.executable, *words, str(DOCS), str(out)])
    if code == 0:
        print(f"the site is {out / 'index.html'}")
    return code


def main(words: Sequence[str] | None = None) -> int:
    """Make everything, or the part that is asked for."""
    about = "Make what the docs show: pictures, references, real output, notebooks, and the site in out/site."
    parser = argparse.ArgumentParser(description=f"{about} Without an option, all of it.")
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--site", action="store_true", help="only build the site, from the pages as they are")
    part.add_argument(
        "--reference",
        action="store_true",
        help="only the fields of sessions in docs/reference/wire.md",
    )
    part.add_argument("--pictures", nargs="*", metavar="NAME", type=_figure, help=(
        f"only these figures, or all and the studio's: {', '.join(FIGURES)}"
    ))  # fmt: skip
    part.add_argument("--pages", nargs="*", metavar="PAGE", type=_page, help=(
        "only what these pages (README.md, docs/...) show of commands, or all pages"
    ))  # fmt: skip
    part.add_argument("--check", action="store_true", help=(
        "change nothing; exit with 1 if a page shows what its commands no longer print"
    ))  # fmt: skip
    asked = parser.parse_args(words)
    if asked.check:
        found = [f"{page.relative_to(ROOT)}: {code}" for page in show_output() for code in stale(page)]
        print("\n".join(f"stale {line}" for line in found) or "all outputs are current")
        return 1 if found else 0
    if asked.site:
        return site()
    everything = not asked.reference and asked.pictures is None and asked.pages is None
    if everything or asked.pictures is not None:
        draw(asked.pictures or FIGURES)
        if not asked.pictures:
            picture_the_studio()
    if everything or asked.reference:
        refer()
    if everything:
        run_notebooks()
    if everything or asked.pages is not None:
        for page in asked.pages or show_output():
            refresh(page)
    return site() if everything else 0


def _figure(word: str) -> str:
    if word not in FIGURES:
        raise argparse.ArgumentTypeError(f"{word} is not one of {', '.join(FIGURES)}")
    return word


def _page(word: str) -> Path:
    page = Path(word).resolve()
    if page not in show_output():
        raise argparse.ArgumentTypeError(f"{word} is not a page that shows what a command prints")
    return page


if __name__ == "__main__":
    sys.exit(main())
