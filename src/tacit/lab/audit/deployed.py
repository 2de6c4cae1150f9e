"""The mechanism as deployed: exact noise on whole numbers, in batches."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tacit.core.history import History
from tacit.core.mechanism import Mechanism
from tacit.core.mechanism.lattice import Lattice
from tacit.core.noise.safe import SafeNoise
from tacit.lab.simulation.lattice import SimulatedWholeNoise, simulate_on_lattice

_CHUNK = 200_000  # whole numbers held at once


@dataclass(frozen=True)
class Deployed:
    """A mechanism on its lattices with exact noise, as the runtime runs it.

    The noise cannot be seeded, except for tests.

    Parameters
    ----------
    mechanism : Mechanism
    low, high : float
        The declared range of values; the auditor's values must be in it.
    bits : int
        The message step is at most 2^−bits times the scale of the noise.
    seedable : bool
        Use noise that follows from the seed, for tests that must repeat. NOT private.
    """

    mechanism: Mechanism
    low: float
    high: float
    bits: int = 40
    seedable: bool = False
    name: str = field(default="lattice mechanism", init=False)
    low_bits: bool = field(default=True, init=False)

    def __call__(self, values: npt.ArrayLike, rounds: int, runs: int, seed: int) -> History:
        """Run `runs` sessions from the same values.

        The seed is used only if `seedable`.
        """
        lattice = Lattice.fitting(self.mechanism.law, rounds, self.low, self.high, bits=self.bits)
        most = max(1, _CHUNK // (rounds * int(np.size(values))))
        parts = []
        for start in range(0, runs, most):
            noise = SimulatedWholeNoise(_mixed(seed, start)) if self.seedable else SafeNoise()
            some = min(most, runs - start)
            done = simulate_on_lattice(
                self.mechanism, lattice, np.asarray(values), rounds, noise=noise, runs=some
            )
            parts.append(done)
        return History.stack(parts)


def _mixed(seed: int, start: int) -> int:
    return int(np.random.SeedSequence([seed, start]).generate_state(1, np.uint64)[0])
