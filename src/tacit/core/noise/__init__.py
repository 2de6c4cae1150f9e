"""Sources of noise, always passed as arguments: none is global.

`SafeNoise` protects: it is exact, cryptographic and not seedable. `SimulatedNoise` is seedable and does NOT
protect.
The names below load their module when first used.
"""

from typing import TYPE_CHECKING

from tacit.base.lazy import exports

if TYPE_CHECKING:
    from tacit.core.noise.accounting import Account, account, horizon
    from tacit.core.noise.ahead import DrawnAhead
    from tacit.core.noise.approximate import delta_for_epsilon, epsilon_delta
    from tacit.core.noise.safe import SafeGaussian, SafeNoise, WholeNoise
    from tacit.core.noise.simulated import SimulatedNoise

__all__ = [
    "Account",
    "DrawnAhead",
    "SafeGaussian",
    "SafeNoise",
    "SimulatedNoise",
    "WholeNoise",
    "account",
    "delta_for_epsilon",
    "epsilon_delta",
    "horizon",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = exports(
        __name__,
        {
            "accounting": ("Account", "account", "horizon"),
            "ahead": ("DrawnAhead",),
            "approximate": ("delta_for_epsilon", "epsilon_delta"),
            "safe": ("SafeGaussian", "SafeNoise", "WholeNoise"),
            "simulated": ("SimulatedNoise",),
        },
    )
