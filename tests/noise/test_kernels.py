"""Compiled kernels are used again, and compiled anew when a file changes that they are made from."""

import importlib.util
from pathlib import Path

import pytest

import tacit
from tacit.core.noise import _kernels

KERNEL = """
from tacit.core.noise._kernels import compiled

@compiled
def twice(number):
    return 2 * number
"""


@pytest.fixture
def misses(tmp_path):
    """Return a function that compiles a kernel in a new module and says whether that was necessary."""
    file = tmp_path / "kernel.py"
    file.write_text(KERNEL)

    def compile_it():
        spec = importlib.util.spec_from_file_location("kernel", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert module.twice(3) == 6
        return sum(module.twice.stats.cache_misses.values())

    return compile_it


def test_a_kernel_is_compiled_anew_when_any_file_of_kernels_changes(misses, monkeypatch):
    assert misses() == 1
    assert misses() == 0
    monkeypatch.setattr(_kernels, "SOURCES", "another text")
    assert misses() == 1


def test_every_file_with_kernels_is_compared():
    """A kernel in a file that is not compared would leave old code running in its callers."""
    package = Path(tacit.__file__).parent
    words = ("@compiled", "@inlined", "@intrinsic")
    with_kernels = [file for file in package.rglob("*.py") if any(word in file.read_text() for word in words)]
    assert with_kernels
    for file in with_kernels:
        assert file.parent.name in ("noise", "simulation"), file
        assert file.name.startswith("_"), file
