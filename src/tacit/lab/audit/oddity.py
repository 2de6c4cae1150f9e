"""How odd one property of the noise is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Oddity:
    """How odd one tested property is.

    Attributes
    ----------
    test : str
        Which property of the noise.
    place : str
        Where.
    p_value : float
        Probability that declared noise is at least this odd there.
    seen : str
        What was seen, for people.
    """

    test: str
    place: str
    p_value: float
    seen: str
