"""Motion: how an agent's state moves, and how fast its start fades.

- `base`: what a motion must define, and what follows from it for every motion.
- `mixing`: the paper's motion, θ⁺ = (1 − σ)θ + σy.
- `linear`: z⁺ = Az + By, of which Cz is said. `various` has one of them per agent.
- `bounded`: only bounds on how fast starts fade; agents keep A, B and C to themselves.
- `contracting`: agents that are not linear, with a certificate that is proved.
- `prefiltered`: agents with a speed limit, behind a public filter. `plant`: measured states near a model.
- `certified`: what agents of which only a bound is known refuse. `odometer`: the bound as feedback comes in.
- `dyadic`: exact arithmetic.

All other packages ask a motion. None of them writes 1 − σ by itself (tests/motion/test_seam.py).
"""

from tacit.core.motion.base import Motion
from tacit.core.motion.bounded import Bounded
from tacit.core.motion.contracting import Contracting
from tacit.core.motion.linear import Linear
from tacit.core.motion.mixing import Mixing
from tacit.core.motion.odometer import Odometer
from tacit.core.motion.plant import Plant
from tacit.core.motion.prefiltered import Prefiltered
from tacit.core.motion.various import Various

__all__ = [
    "Bounded",
    "Contracting",
    "Linear",
    "Mixing",
    "Motion",
    "Odometer",
    "Plant",
    "Prefiltered",
    "Various",
]
