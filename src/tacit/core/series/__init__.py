"""Series: a mean in every time slot, with one promise about all of them.

`design` says what is hidden, which noise that needs and what it costs; `codes` what agents send and which
mean is published. `rows` and `alternatives` say it to people. The machines' own parts are in `protocol`.
"""

from tacit.core.series.codes import (
    MOST_SLOTS,
    BinaryTree,
    Independent,
    SeriesAgent,
    SeriesCode,
    SeriesDecoder,
    SeriesGrid,
    SquareRoot,
    decoding_filter,
    encoding_filter,
    energy,
    published,
)
from tacit.core.series.design import (
    Hides,
    SeriesDesign,
    candidates,
    delta_of,
    design_series,
    epsilon_of,
    loss_with,
    mu_of,
    noise_for,
    pattern_costs,
    written,
)

__all__ = [
    "MOST_SLOTS",
    "BinaryTree",
    "Hides",
    "Independent",
    "SeriesAgent",
    "SeriesCode",
    "SeriesDecoder",
    "SeriesDesign",
    "SeriesGrid",
    "SquareRoot",
    "candidates",
    "decoding_filter",
    "delta_of",
    "design_series",
    "encoding_filter",
    "energy",
    "epsilon_of",
    "loss_with",
    "mu_of",
    "noise_for",
    "pattern_costs",
    "published",
    "written",
]


def __dir__() -> list[str]:
    return sorted(__all__)
