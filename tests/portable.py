"""Print settings that take away what this CPU has, for `env $(python tests/portable.py) pytest`.

Whatever is compared digit by digit must be the same on the plainest CPU of this kind. So the vector units of
NumPy and numba, the kernels of OpenBLAS and the fused operations of the C library are all switched off.
"""

import platform

from numpy._core import _multiarray_umath as built

PLAIN_BLAS = {"x86_64": "Prescott", "aarch64": "ARMV8"}
FUSED = "glibc.cpu.hwcaps=-AVX512F,-AVX2,-AVX,-FMA,-FMA4"


def settings() -> dict[str, str]:
    """Return the environment variables; NumPy only accepts names of what it would use here."""
    used = [name for name in built.__cpu_dispatch__ if built.__cpu_features__.get(name)]
    found = {"NUMBA_CPU_NAME": "generic", "LC_ALL": "C", "TZ": "Asia/Kathmandu"}
    if used:
        found["NPY_DISABLE_CPU_FEATURES"] = ",".join(used)
    if platform.machine() in PLAIN_BLAS:
        found["OPENBLAS_CORETYPE"] = PLAIN_BLAS[platform.machine()]
    if platform.machine() == "x86_64":
        found["GLIBC_TUNABLES"] = FUSED
    return found


if __name__ == "__main__":
    print(*(f"{name}={value}" for name, value in settings().items()))
