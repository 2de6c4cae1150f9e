"""The base install is enough for whoever takes part in a session; the rest names the extra it needs."""

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tacit.base.errors import MissingExtra
from tacit.base.extras import EXTRAS, explains_extras, missing_extra

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NOT_FOR_USERS = {"all", "dev", "docs", "examples"}


def packages(requirements):
    """Return the packages of a list of requirements, as they are imported, and the extras in it."""
    names = [re.match(r"[\w.-]+", requirement)[0] for requirement in requirements]
    return {name.replace("-", "_").lower() for name in names if name != "tacit"}


def test_the_extras_are_those_of_the_project():
    given = PROJECT["optional-dependencies"]
    declared = {p: extra for extra in set(given) - NOT_FOR_USERS for p in packages(given[extra])}
    assert declared == EXTRAS
    assert not packages(PROJECT["dependencies"]) & set(EXTRAS)


def test_all_means_all():
    given, seen, waiting = PROJECT["optional-dependencies"], set(), {"all"}
    while waiting:
        extra = waiting.pop()
        seen.add(extra)
        inside = re.findall(r"tacit\[([\w,]+)\]", " ".join(given[extra]))
        waiting |= {name for names in inside for name in names.split(",")} - seen
    assert seen == set(given) - NOT_FOR_USERS | {"all"}


def test_no_package_of_an_extra_comes_with_the_base_install():
    """Or the base install would be large again without anyone noticing."""
    waiting, seen = packages(PROJECT["dependencies"]), set()
    while waiting:
        name = waiting.pop()
        seen.add(name)
        wanted = [Requirement(text) for text in importlib.metadata.requires(name) or []]
        usual = [r.name for r in wanted if r.marker is None or r.marker.evaluate({"extra": ""})]
        waiting |= packages(usual) - seen
    assert not seen & {*EXTRAS, "llvmlite", "pandas"}
    assert {"numpy", "cffi"} <= seen


def test_sessions_run_without_any_extra(tmp_path):
    """Agents, coordinator, keepers, peers and who verifies; all other commands name what they need."""
    refused = ",".join({*EXTRAS, "llvmlite", "pandas"})
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "base_install.py"), refused, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_what_no_extra_has_stays_as_it_is():
    error = ModuleNotFoundError("No module named 'of_the_user'", name="of_the_user")
    assert missing_extra(error, "tacit.simulate") is None

    @explains_extras
    def analyze():
        raise error

    with pytest.raises(ModuleNotFoundError) as caught:
        analyze()
    assert caught.value is error
    assert not isinstance(caught.value, MissingExtra)
