"""Where randomness comes from: an argument to everything, a global of nothing.

`SafeNoise` protects: exact, cryptographic, not seedable. `SimulatedNoise` is seedable and does NOT.
The names below load their module when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tacit.noise.accounting import Account, account, horizon
    from tacit.noise.ahead import DrawnAhead
    from tacit.noise.approximate import delta_for_epsilon, epsilon_delta
    from tacit.noise.base import NoiseSource
    from tacit.noise.safe import SafeNoise, WholeNoise
    from tacit.noise.simulated import SimulatedNoise

__all__ = [
    "Account",
    "DrawnAhead",
    "NoiseSource",
    "SafeNoise",
    "SimulatedNoise",
    "WholeNoise",
    "account",
    "delta_for_epsilon",
    "epsilon_delta",
    "horizon",
]

_HOMES = {
    "tacit.noise.accounting": ("Account", "account", "horizon"),
    "tacit.noise.ahead": ("DrawnAhead",),
    "tacit.noise.approximate": ("delta_for_epsilon", "epsilon_delta"),
    "tacit.noise.base": ("NoiseSource",),
    "tacit.noise.safe": ("SafeNoise", "WholeNoise"),
    "tacit.noise.simulated": ("SimulatedNoise",),
}


def __getattr__(name: str) -> object:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'tacit.noise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
