"""Words are tested: what pages show is what commands print, and what they name exists."""

import importlib
import importlib.util
import os
import re
import socket
import subprocess
import sys
from functools import reduce
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
spec = importlib.util.spec_from_file_location("docs_make", ROOT / "docs" / "make.py")
make = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make)

PAGES = [
    path.relative_to(ROOT).as_posix()
    for path in (*make.pages(), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md")
]
SHOWN = [(page, command, output) for page in PAGES for command, output in make.shown(ROOT / page)]
PYTHON = [
    (page, block)
    for page in PAGES
    for block in re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), re.M | re.S)
]


@pytest.mark.parametrize(("page", "command", "output"), SHOWN, ids=[f"{p}: {c}" for p, c, _ in SHOWN])
def test_shown_output_is_what_the_command_prints(page, command, output, tmp_path):
    assert make.run(command, tmp_path) == output, "stale: run `make docs`"


@pytest.mark.parametrize(("page", "block"), PYTHON, ids=[page for page, _ in PYTHON])
def test_python_blocks_run(page, block, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", block],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_readme_session_runs(tmp_path):
    script = re.search(r"^```sh\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)[1]
    script = script.replace("21.5", "21.437351948")  # digits that nothing else prints by chance
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        script = script.replace("7447", str(free.getsockname()[1]))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", script], cwd=tmp_path, env={**os.environ, "PATH": path},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "SOUND" in done.stdout
    assert "437351948" not in done.stdout + done.stderr


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text()
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert ((ROOT / page).parent / target).exists(), f"{page} links to {target}"


def resolve(name):
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        return reduce(getattr, parts[cut:], module)
    raise AssertionError(f"{name} is no module")


def test_the_map_names_what_exists():
    text = (ROOT / "docs/paper/map.md").read_text()
    names, tests = re.findall(r"`(tacit\.[\w.]+)`", text), re.findall(r"`(tests/[\w/]+\.py)`", text)
    assert len(names) > 25
    for name in names:
        resolve(name)
    for test in tests:
        assert (ROOT / test).exists(), test


def test_the_errata_name_tests_that_exist():
    sources = "\n".join(path.read_text() for path in (ROOT / "tests/paper").glob("*.py"))
    named = re.findall(r"`(test_\w+)`", (ROOT / "docs/paper/errata.md").read_text())
    assert len(named) > 5
    for name in named:
        assert f"def {name}(" in sources, name


def test_every_public_name_is_documented():
    import tacit

    for name in tacit.__all__:
        if name != "__version__":
            assert getattr(tacit, name).__doc__, name


def test_doctests():
    import doctest
    import pkgutil

    import tacit

    failed, attempted = 0, 0
    for info in pkgutil.walk_packages(tacit.__path__, "tacit."):
        if ".cli" in info.name or "__main__" in info.name:
            continue
        result = doctest.testmod(importlib.import_module(info.name))
        failed, attempted = failed + result.failed, attempted + result.attempted
    assert attempted > 10
    assert failed == 0
