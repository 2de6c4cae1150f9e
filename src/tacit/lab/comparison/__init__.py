"""Other mechanisms for the same job, in one harness.

`compare` runs each method many times on the same graph and values. Where guarantees can be compared, all
methods have the same privacy. The result says what each method protects against. `METHODS` lists the methods
and their files.

Noise here is seedable and protects nobody. The names below load their module when first used.
"""

from typing import TYPE_CHECKING

from tacit.base.lazy import exports

if TYPE_CHECKING:
    from tacit.lab.comparison.case import Case
    from tacit.lab.comparison.comparison import Comparison, MethodResult
    from tacit.lab.comparison.harness import METHODS, ON_REQUEST, compare
    from tacit.lab.comparison.method import Guarantee, Method
    from tacit.lab.comparison.series import SeriesComparison, compare_series

__all__ = [
    "METHODS",
    "ON_REQUEST",
    "Case",
    "Comparison",
    "Guarantee",
    "Method",
    "MethodResult",
    "SeriesComparison",
    "compare",
    "compare_series",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = exports(
        __name__,
        {
            "case": ("Case",),
            "comparison": ("Comparison", "MethodResult"),
            "harness": ("METHODS", "ON_REQUEST", "compare"),
            "method": ("Guarantee", "Method"),
            "series": ("SeriesComparison", "compare_series"),
        },
    )
