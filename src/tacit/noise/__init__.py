"""Where randomness comes from: an argument to everything, a global of nothing."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tacit.noise.base import NoiseSource
    from tacit.noise.simulated import SimulatedNoise

__all__ = ["NoiseSource", "SimulatedNoise"]


def __getattr__(name: str) -> object:
    if name == "NoiseSource":
        from tacit.noise.base import NoiseSource

        return NoiseSource
    if name == "SimulatedNoise":
        from tacit.noise.simulated import SimulatedNoise

        return SimulatedNoise
    raise AttributeError(f"module 'tacit.noise' has no attribute {name!r}")
