"""The same bits on every machine: nothing that the auditor prints depends on the CPU."""

import hashlib
import math
import os
import platform
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

from tacit import Fading, OneShot
from tacit.cli import main
from tacit.lab.audit import portable


def test_logarithms_are_those_of_the_c_library_or_the_next_number():
    rng = np.random.default_rng(1)
    x = np.concatenate(
        [rng.random(20_000), 2.0 ** rng.uniform(-1000, 1000, 20_000), 1 + rng.normal(0, 1e-9, 999)]
    )
    expected = np.array([math.log(v) for v in x.tolist()])
    off = np.abs(portable.log(x) - expected) / np.spacing(np.abs(expected))
    assert off.max() <= 1
    assert np.mean(off == 0) > 0.98
    assert portable.log(np.array([1.0]))[0] == 0


def test_noise_has_the_same_bits_everywhere():
    """Only sums, products and quotients of doubles: IEEE 754 fixes them. Made on one machine, pinned."""
    drawn = portable.laplace(np.random.default_rng(7), (50_000,))
    assert hashlib.sha256(drawn.tobytes()).hexdigest()[:16] == "fc462723065f679a"


def test_scales_and_powers_are_those_of_the_paper():
    updates = np.array([[0, 1, 1, 5]])
    fading = Fading(0.8, 10.0, 0.6).upper_scales(updates)[0]
    assert fading == pytest.approx([10, 6, 6, 10 * 0.6**5], rel=1e-15)
    assert OneShot(0.8, 10.0).upper_scales(updates)[0].tolist() == [10, 0, 0, 0]
    assert portable.powers(0.2, updates)[0] == pytest.approx([1, 0.2, 0.2, 0.2**5], rel=1e-15)


def _optional():
    """What this CPU has, and NumPy can do without."""
    return " ".join(name for name in __cpu_dispatch__ if __cpu_features__.get(name))


PLAIN = {
    "NPY_DISABLE_CPU_FEATURES": _optional(),
    "NUMBA_CPU_NAME": "generic",
    "OPENBLAS_CORETYPE": "Prescott",
}
LIBRARY = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4"}  # other code in the C library's log and exp


def printed(words, changed):
    """What the command prints in a process of its own, with parts of the CPU taken away."""
    result = subprocess.run(
        [sys.executable, "-c", "from tacit.cli import main; main()", "audit", *words],
        env={**os.environ, **changed, "COLUMNS": "110"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert "Traceback" not in result.stderr
    return result.returncode, result.stdout


needs_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="names of x86 CPU features")


@needs_x86
def test_an_audit_prints_the_same_without_what_this_cpu_has(monkeypatch):
    words = ("--broken", "floating-point", "--sessions", "1000", "--rounds", "5")
    monkeypatch.setenv("COLUMNS", "110")
    as_it_is = CliRunner().invoke(main, ["audit", *words])
    assert as_it_is.stdout.startswith("ALARM: floating-point")
    assert printed(words, {**PLAIN, **LIBRARY}) == (1, as_it_is.stdout)


@needs_x86
@pytest.mark.long
@pytest.mark.parametrize(
    "changed", [PLAIN, LIBRARY, {"OPENBLAS_CORETYPE": "Haswell"}, {"OPENBLAS_CORETYPE": "Nehalem"}], ids=str
)
@pytest.mark.parametrize(
    "words",
    [
        ("--broken", "floating-point", "--sessions", "2000"),
        ("--broken", "raw-state", "--sessions", "2000"),
        ("--broken", "follows-neighbour", "--sessions", "2000"),
        ("--agents", "3", "--mixing", ".8", "--noise", "10", "--decay", ".6", "--simulated"),
    ],
    ids=lambda words: words[1],
)
def test_audits_print_the_same_on_every_cpu(words, changed):
    assert printed(words, changed) == printed(words, {})
