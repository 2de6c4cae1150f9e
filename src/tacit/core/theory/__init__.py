"""Guarantees of the mechanisms, computed in closed form, without sampling.

The modules with public names are listed by ``dir(tacit.core.theory)`` and loaded when first used.
"""

from typing import TYPE_CHECKING

from tacit.base.lazy import modules

if not TYPE_CHECKING:
    __getattr__, __dir__ = modules(
        __name__,
        (
            "accuracy",
            "advice",
            "agreement",
            "answers",
            "bounds",
            "convergence",
            "endings",
            "finite_precision",
            "graph_facts",
            "influence",
            "laplace_sum",
            "liars",
            "mean_noise",
            "moments",
            "optimum",
            "privacy",
            "promise",
            "plan",
            "rates",
            "selection",
            "targets",
            "trust",
            "witness",
        ),
    )
