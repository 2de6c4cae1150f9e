"""Sources of noise, always passed as arguments: none is global.

`SafeNoise` protects: it is exact, cryptographic and not seedable. `SimulatedNoise` is seedable and does NOT
protect.
The names below load their module when first used.
"""

from typing import TYPE_CHECKING

from tacit.lazy import exports

if TYPE_CHECKING:
    from tacit.noise.accounting import Account, account, horizon
    from tacit.noise.ahead import DrawnAhead
    from tacit.noise.approximate import delta_for_epsilon, epsilon_delta
    from tacit.noise.gaussian import SafeGaussian
    from tacit.noise.safe import SafeNoise, WholeNoise
    from tacit.noise.simulated import SimulatedNoise

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

__getattr__, __dir__ = exports(
    __name__,
    {
        "accounting": ("Account", "account", "horizon"),
        "ahead": ("DrawnAhead",),
        "approximate": ("delta_for_epsilon", "epsilon_delta"),
        "gaussian": ("SafeGaussian",),
        "safe": ("SafeNoise", "WholeNoise"),
        "simulated": ("SimulatedNoise",),
    },
)
