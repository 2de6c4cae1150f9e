"""Explanations of numbers, for people.

They say how strong a loss is, and when a radius is too wide to be useful. The studio, the command line and
the docs use these texts, so that they agree.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Decimal
from typing import NamedTuple

from tacit.base.errors import Useless
from tacit.base.rounding import shown_up


class Strength(NamedTuple):
    """A band of losses, and how well an adversary can guess in it.

    `most` is its largest loss.
    """

    most: float
    name: str
    meaning: str


STRENGTHS = (
    Strength(0.1, "strong", "hardly better than tossing a coin"),
    Strength(1.0, "moderate", "right at most three times in four"),
    Strength(3.0, "weak", "right up to about 19 times in 20"),
    Strength(math.inf, "hardly any", "can be nearly certain"),
)
"""How much protection a loss gives, from strong to hardly any."""

WIDE = 0.1
"""A radius above this share of the range gets a warning."""

ALL_KEEPERS = (
    "If all keepers collude with anyone who has the messages (a published transcript is enough), there is no "
    "protection at all."
)
"""Shown wherever keepers are chosen."""
ONE_KEEPER = (
    "A single keeper can subtract its own noise from the published result; with the messages, it then knows "
    "every value. Use two or more, run by organisations that do not share their data."
)
"""Shown wherever there is only one keeper."""

ANYWAY = "To run it all the same, say so (--anyway)."
"""Ends every refusal of a session that would be useless."""
ONE_DRAW = (
    "Noise is drawn once: around a server, fresh noise in every round is never more accurate for one result. "
    "If states must move smoothly, give a mixing and the law one-shot: the noise then moves with the states."
)
"""Why a design takes one-shot noise unless it is asked for another law."""

SELECTION = "assuming that who was used does not depend on the noise"
"""The assumption behind the radius of a finished run; radii of `theory.selection` do not need it."""

NOT_COVERED = (
    "The deviation is that of the noise only. Readings of missing agents are in no mean: it is that of the "
    "agents used. If a step is hidden, slots in which agents were missing also move later means, less and "
    "less. Such means can be off by many deviations."
)
"""Shown with means of a series from which agents were missing."""


def absences(used: int, agents: int, before: int) -> str:
    """Say who is missing from a mean of a series; nothing if nobody is.

    `before` is in how many earlier slots agents were missing that still count.
    """
    now = f"{agents - used} of {agents} agents missing" if used < agents else ""
    earlier = f"agents missing in {before:,} earlier slot{'s' * (before != 1)}" if before else ""
    return "; ".join(filter(None, (now, earlier)))


def strength(loss: float) -> Strength:
    """Return the band that a loss is in."""
    return next(band for band in STRENGTHS if loss <= band.most)


def scale() -> str:
    """Name all bands in one sentence."""
    *bands, last = STRENGTHS
    parts = [f"{band.most:g} or less: {band.name}" for band in bands]
    return f"{'; '.join(parts)}; more: {last.name} protection."


def right_share(loss: float) -> float:
    """Return the largest possible share of right guesses, rounded up.

    An adversary guesses between two values. Both values are equally likely at first, and differ by the
    adjacency. Every observation is at most exp(loss) times as likely under one as under the other, so the
    share of right guesses is at most e^loss / (1 + e^loss). A blind guess is right half of the time.
    """
    return min(1 / (1 + math.exp(-loss)) * (1 + 2.0**-50), 1.0)


def right_at_most(loss: float) -> str:
    """Write `right_share` in percent, rounded up.

    Examples
    --------
    >>> right_at_most(1.0), right_at_most(4.66), right_at_most(50.0)
    ('73.2%', '99.1%', '100%')
    """
    rate = Decimal(repr(round(100 * right_share(loss), 12)))
    left = float(100 - rate)
    places = 1 if left <= 0 else max(1, -math.floor(math.log10(left)))
    shown = rate.quantize(Decimal((0, (1,), -min(places, 9))), rounding=ROUND_CEILING)
    return f"{shown:f}".rstrip("0").rstrip(".") + "%"


def keeper_warnings(keepers: int, agents: int | None = None) -> list[str]:
    """Warn what happens if keepers collude, and if there are too many."""
    if not keepers:
        return []
    found = [ONE_KEEPER, ALL_KEEPERS] if keepers == 1 else [ALL_KEEPERS]
    many = None if agents is None else many_keepers(keepers, agents)
    return found if many is None else [many, *found]


def many_keepers(keepers: int, agents: int) -> str | None:
    """Return a warning if keepers add as much noise as agents would.

    Otherwise None. m keepers add m draws in place of one from each of N agents, of the same scale for the
    same loss (docs/proofs/keepers.md).

    Examples
    --------
    >>> many_keepers(2, 100)
    """
    if keepers < max(agents, 2):  # one agent and one keeper: the keeper is trusted, and that is the point
        return None
    worse = "less" if keepers > agents else "no more"
    return (
        f"WARNING: {keepers} keepers for {agents} agent{'s' * (agents != 1)} make the result {worse} "
        "accurate than no keepers, and agents have to trust one of them. Take fewer keepers than agents, or "
        "none."
    )


def trusted(keepers: int) -> str:
    """Say whom agents trust."""
    return "nobody" if not keepers else "one keeper" if keepers == 1 else f"one of {keepers} keepers"


def require_useful(error: float, span: float, *, what: str = "a radius") -> None:
    """Refuse an error of half the range or more, before anything is spent.

    The middle of the range is that close to every average, and costs nobody anything.
    """
    if error >= span / 2:
        raise Useless(
            f"the result must be closer than half the range of {span:.6g}, and would have {what} of "
            f"{shown_up(error, 4)}: it would say nothing, and spend everyone's loss. Take more agents, allow "
            f"a larger loss, or hide smaller differences (adjacency). {ANYWAY}"
        )


def wide_radius(radius: float, span: float) -> str | None:
    """Return a warning if a radius is a large part of the range.

    Otherwise None. A radius of half the range or more is useless: the middle of the range is that close to
    every average.
    """
    part = radius / span
    if part <= WIDE:
        return None
    size = f"The radius {shown_up(radius, 4)} is {100 * part:.0f}% of the range {span:.6g}"
    more = "Take more agents, allow a larger loss, or hide smaller differences (adjacency)."
    if part >= 0.5:
        return (
            f"WARNING: {size}, so the result is useless: the middle of the range is never further than "
            f"{span / 2:.6g} from the average. {more}"
        )
    return f"WARNING: {size}: the result is rough. {more}"
