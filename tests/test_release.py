"""What is released: one version everywhere, right metadata, and only the files that are meant."""

import email
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

import tacit

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build wheel and source distribution; nothing is fetched, and nothing is written into the repository."""
    folder = tmp_path_factory.mktemp("dist")
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    (source,) = SdistBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    return Path(wheel), Path(source)


def sources():
    """Return the files of the package."""
    files = [path.relative_to(ROOT / "src") for path in (ROOT / "src/tacit").rglob("*") if path.is_file()]
    return {path.as_posix() for path in files if "__pycache__" not in path.parts}


def test_the_wheel_has_the_package_and_the_licence_and_nothing_else(built):
    names = zipfile.ZipFile(built[0]).namelist()
    package = {name for name in names if name.startswith("tacit/")}
    rest = {name.partition("/")[2] for name in names if name not in package}
    assert sources() <= package
    assert {"tacit/py.typed", "tacit/__main__.py", "tacit/studio/studio.css"} <= package
    assert rest == {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
    assert not [name for name in package if Path(name).suffix not in (".py", ".typed", ".css", ".svg", ".js")]


def test_the_source_distribution_builds_the_same_package(built):
    with tarfile.open(built[1]) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    assert {f"src/{path}" for path in sources()} <= names
    assert {"README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml"} <= names
    assert not [name for name in names if name.startswith(("tests", "docs", "benchmarks", "examples"))]


def test_the_metadata(built):
    wheel = zipfile.ZipFile(built[0])
    (path,) = [name for name in wheel.namelist() if name.endswith("/METADATA")]
    told = email.message_from_bytes(wheel.read(path))
    assert (told["Name"], told["Version"]) == ("tacit", tacit.__version__)
    assert told["License-Expression"] == "Apache-2.0"
    assert told["Requires-Python"] == ">=3.11"
    assert set(told.get_all("Provides-Extra")) == set(PROJECT["optional-dependencies"])
    assert told["Description-Content-Type"] == "text/markdown"
    assert told.get_all("Project-URL") is None  # there is no host of our own to name
    assert "tacit = tacit.cli:main" in wheel.read(path.replace("METADATA", "entry_points.txt")).decode()


def test_classifiers_are_ones_that_an_index_takes():
    from trove_classifiers import classifiers

    assert set(PROJECT["classifiers"]) <= classifiers


def test_one_version_everywhere():
    told = tacit.__version__
    assert re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.M)[1] == told
    newest = re.search(r"^## (\S+) \((\d{4}-\d\d-\d\d)\)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert newest[1] == told
    assert f"version = {{{told}}}" in (ROOT / "docs/cite.md").read_text()
    assert re.search(r"^date-released: (.+)$", (ROOT / "CITATION.cff").read_text(), re.M)[1] == newest[2]


def test_the_package_runs_as_a_module():
    def run(*words):
        command = [sys.executable, "-m", "tacit", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert run("--version").stdout == f"tacit {tacit.__version__}\n"
    wrong = run("analyze", "--agents", "-1")
    assert wrong.returncode == 2
    assert "Traceback" not in wrong.stderr
