"""Noise laws: how large the noise of each round is, and its loss.

Each law is one final class in its own file.

- `base`: what a law must define, and what is computed from it for every law.
- `fading`, `one_shot`, `constant`, `scheduled`: the laws. `geometric` has formulas that two share.
- `bits`, `staircase`: for one question over its whole domain. `once` has what they share.
- `gaussian`: Gaussian noise with its (ε, δ), for theory and simulation; no file knows it.
- `registry`: the laws that files and the command line know by name; one row each.

All other packages call the methods of a law. None of them tests which class it is (tests/law/test_seam.py).
"""

from tacit.core.law.base import Envelope, Law, Terms
from tacit.core.law.bits import Bits
from tacit.core.law.constant import Constant
from tacit.core.law.fading import Fading
from tacit.core.law.gaussian import Gaussian
from tacit.core.law.one_shot import OneShot
from tacit.core.law.registry import named, names, register
from tacit.core.law.scheduled import Scheduled
from tacit.core.law.staircase import Staircase

__all__ = [
    "Bits",
    "Constant",
    "Envelope",
    "Fading",
    "Gaussian",
    "Law",
    "OneShot",
    "Scheduled",
    "Staircase",
    "Terms",
    "named",
    "names",
    "register",
]
