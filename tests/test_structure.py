"""The package as a reader finds it: one name for one thing, and a root that costs nothing to import."""

import ast
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.source import parsed

import tacit

SOURCE = Path(tacit.__file__).parent
PACKAGES = ["tacit", *(m.name for m in pkgutil.walk_packages(tacit.__path__, "tacit.") if m.ispkg)]


@cache
def trees():
    return {path: parsed(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}


def functions(tree):
    return {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_a_module_and_a_function_in_it_never_share_a_name():
    assert [str(path) for path, tree in trees().items() if path.stem in functions(tree)] == []


def test_a_package_and_a_function_under_it_never_share_a_name():
    for path, tree in trees().items():
        assert not functions(tree) & set(path.relative_to(SOURCE).parts[:-1]), path


@pytest.mark.parametrize("name", PACKAGES)
def test_a_public_name_of_a_package_is_no_module_of_it(name):
    """`import tacit.lab.audit.beliefs` would put the module in the place of a function of that name."""
    package = importlib.import_module(name)
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    assert not modules & set(getattr(package, "__all__", ()))


@pytest.mark.parametrize("name", PACKAGES)
def test_every_public_name_of_a_package_is_there(name):
    package = importlib.import_module(name)
    for public in getattr(package, "__all__", ()):
        assert getattr(package, public) is getattr(package, public)


@pytest.mark.parametrize("name", PACKAGES)
def test_dir_shows_what_is_public_and_nothing_else(name):
    """Tab completion is how a reader walks from the root to a function."""
    package = importlib.import_module(name)
    shown = {each for each in dir(package) if not each.startswith("_")}
    modules = {each.name for each in pkgutil.iter_modules(package.__path__)}
    public = set(getattr(package, "__all__", ())) - {"__version__"}
    assert shown
    assert public <= shown <= public | modules
    for each in shown & modules:
        assert getattr(package, each) is sys.modules[f"{name}.{each}"]


@pytest.mark.parametrize("name", PACKAGES)
def test_a_name_that_is_not_there_is_told(name):
    package = importlib.import_module(name)
    with pytest.raises(AttributeError, match=f"'{re.escape(name)}' has no attribute 'nonsense'"):
        _ = package.nonsense


def test_a_class_name_is_used_once():
    names = Counter(
        node.name for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    )
    assert [name for name, times in names.items() if times > 1] == []


@pytest.mark.parametrize("name", PACKAGES)
def test_a_public_class_is_called_the_same_everywhere(name):
    package = importlib.import_module(name)
    public = {each: getattr(package, each) for each in getattr(package, "__all__", ())}
    classes = {each: what for each, what in public.items() if inspect.isclass(what) and what is not Any}
    assert {each: what.__name__ for each, what in classes.items()} == {each: each for each in classes}


def test_no_module_has_a_name_that_says_nothing():
    """A reader looks for what a module is about; these names do not tell."""
    empty = {"common", "helpers", "manager", "misc", "stuff", "things", "tools", "util", "utils"}
    vague = {"crew", "crowd", "happened", "kept", "mark", "parts", "reading", "saving", "speaker", "voice"}
    assert [str(path) for path in trees() if path.stem.strip("_") in empty | vague] == []


def test_the_package_asks_its_root_only_for_the_version():
    """The layers would not see what went through the root."""
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module == "tacit" and node.level == 0:
                assert [alias.name for alias in node.names] == ["__version__"], path


def test_the_root_is_light():
    """Neither the import nor the list of names loads numpy, or any module of the package but `lazy`."""
    code = (
        "import sys, tacit; dir(tacit); loaded = {m for m in sys.modules if m.startswith('tacit.')};"
        "assert loaded == {'tacit.base', 'tacit.base.lazy'}, loaded;"
        "assert not {'numpy', 'scipy', 'click'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_verbs_and_nouns_of_the_root():
    verbs = {"analyze", "ask", "compare", "design", "examine", "simulate"}
    nouns = {
        "ClientServer",
        "Constant",
        "Count",
        "Design",
        "Distributed",
        "Fading",
        "FleetAgent",
        "Graph",
        "GroupBy",
        "Histogram",
        "Mean",
        "OneShot",
        "Own",
        "Plan",
        "Promise",
        "Quantile",
        "Several",
        "Sum",
        "Variance",
        "WeightedMean",
    }
    floors = {"base", "core", "lab", "live", "cli", "studio"}
    assert verbs | nouns <= set(tacit.__all__) == (set(dir(tacit)) | {"__version__"}) - floors
    made = tacit.design(agents=50, epsilon=1.0, mixing=0.5)
    assert tacit.analyze(made.mechanism).radius == made.promise.radius


def test_a_docstring_begins_with_one_short_line():
    """Lists of names and pop-ups of editors show only this line."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for path, tree in trees().items():
        for node in ast.walk(tree):
            first, *rest = ((isinstance(node, kinds) and ast.get_docstring(node)) or "").split("\n")
            assert len(first) <= 72, f"{path}: {first}"
            assert not rest or not rest[0], f"{path}: {first} (no blank line below)"


def test_the_files_of_each_role_are_there_and_are_shallow():
    """Whoever reads one role opens the files in the table, and no class is more than two levels deep."""
    page = (SOURCE.parents[1] / "docs" / "architecture.md").read_text()
    section = page.partition("## What to open to read one role")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")][1:]
    assert [row[0] for row in rows] == ["coordinator", "agent", "keeper", "peer"]
    for _, machine, parts, around in rows:
        names = [f"tacit.core.protocol.{name}" for name in re.findall(r"`(\w+)\.py`", machine + parts)]
        for module in map(importlib.import_module, [*names, f"tacit.live.runtime.{around.strip('`')[:-3]}"]):
            for what in vars(module).values():
                if inspect.isclass(what) and what.__module__ == module.__name__:
                    levels = [each for each in what.__mro__ if each.__module__.startswith("tacit.")]
                    assert len(levels) <= 2, f"{what.__name__}: {levels}"
