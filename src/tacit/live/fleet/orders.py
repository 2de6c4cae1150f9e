"""Orders of an operator: what to promise, and which members take part."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, final

import msgspec

from tacit.core.mechanism import ClientServer
from tacit.core.mechanism.reach import reaching
from tacit.core.protocol.roster import Member
from tacit.core.protocol.schema import Deadlines, chosen
from tacit.core.protocol.session import LAST_EXPIRY, Session
from tacit.core.theory.liars import moved_by_liars

_LEAD = 2.0
"""Seconds before the first slot of a series that begins at once: members exchange their keys within them."""
USUAL = Deadlines(round=10.0, start=5.0, repeat=0.5)
"""The deadlines of a hub's sessions, of few agents: they are connected already."""
USUAL_WORDS = {"round_deadline": "10, and 0.005 per agent", "start_deadline": "5, and 0.01 per agent"}
"""What `--help` says of them."""
_LEAST_LIFE = 600.0
"""Least lifetime of a hub's session in seconds, so that members that were away can come back."""


def _usual(agents: int) -> Deadlines:
    """Return the deadlines of a session of so many agents.

    A hub takes about 1 ms for each to begin, and members share machines: nobody is left out because others
    take time. Requests are repeated less often where many wait.
    """
    return Deadlines(USUAL.round + 5e-3 * agents, USUAL.start + 1e-2 * agents, USUAL.repeat + 1e-3 * agents)


@final
class SeriesOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an order for a series has besides.

    Attributes
    ----------
    slots, interval : int, float
        How many means there are, and the seconds from one slot to the next.
    hides, delta : str, float
        Which change of an agent's readings is hidden, and the failure probability of the whole series.
    begins : int, optional
        When slot 0 begins, in seconds since 1970.
    at_once : bool
        Begin as soon as the members are there. Without this and `begins`: at the second next whole interval.
    """

    slots: int
    interval: float
    hides: str
    delta: float = 1e-6
    begins: int | None = None
    at_once: bool = False

    def beginning(self, now: float) -> int:
        """Return when slot 0 of a series begins that is made now."""
        from tacit.live.sessions.series import usual_begin

        if self.begins is not None:
            return self.begins
        return math.ceil(now + _LEAD) if self.at_once else usual_begin(self.interval, now)


@final
class SessionOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What every session of a task has in common.

    Attributes
    ----------
    question : dict
        Fields of `tacit.Plan`: what is promised. For a series `loss`, and `low` and `high` or `question`.
    agents : str
        A pattern: connected agents with a matching name take part.
    keepers : tuple of str
        The members that hold masks and add the noise.
    least : int
        Least number of agents that a session begins with.
    wait : float
        How many seconds a session that runs once waits for agents and keepers.
    settings : dict
        What options chose: fields of a session by the names of their options, such as round_deadline. See
        `tacit.core.protocol.schema.settings`.
    series : SeriesOrder, optional
        Makes it an order for a series.
    anyway : bool
        Run it even if the mean would say nothing: see `tacit.core.theory.advice.require_useful`.
    open : float, optional
        For so many seconds the session stays open, to all that are enrolled: they come, send one message, and
        leave with a receipt. It needs a quorum among the `settings`.
    results : float, optional
        How many seconds after it closes they can fetch the result; as long as it was open unless given.
    """

    question: dict[str, Any]
    agents: str = "*"
    keepers: tuple[str, ...] = ()
    least: int = 2
    wait: float = 60.0
    settings: dict[str, Any] = {}
    series: SeriesOrder | None = None
    anyway: bool = False
    open: float | None = None
    results: float | None = None

    def fields(self, agents: int) -> dict[str, Any]:
        """Return the fields of a session that do not follow from the question."""
        # The slots of a series follow the clock, whatever the number of agents.
        return chosen(self.settings, deadlines=_usual(agents) if self.series is None else USUAL)

    def wants(self, name: str) -> bool:
        """Whether an agent of this name is asked to take part."""
        return name not in self.keepers and fnmatchcase(name, self.agents)


def designed(
    order: SessionOrder, members: Sequence[Member], keepers: Sequence[Member], hub: bytes
) -> Session:
    """Return the best session for an order; slow, so call it on a worker."""
    from tacit.core.series import Hides
    from tacit.core.theory.plan import Plan
    from tacit.live.identity.roster import Roster
    from tacit.live.sessions.design import draft
    from tacit.live.sessions.series import draft_series

    roster, kept = Roster((*members, *keepers), hub), [keeper.name for keeper in keepers]
    if order.series is None:
        question = Plan(**order.question)
        # For other numbers of agents, too: the hub looks at the radius of each session.
        return draft("design", roster, question, keepers=kept, anyway=True, **order.fields(len(members)))
    asked = order.series
    return draft_series(
        "design",
        roster,
        slots=asked.slots,
        hides=Hides.parse(asked.hides),
        interval=asked.interval,
        delta=asked.delta,
        keepers=kept,
        anyway=order.anyway,
        **order.fields(len(members)),
        **_asked_often(order),
    )


def _asked_often(order: SessionOrder) -> dict[str, Any]:
    """Return loss, and question or range, as `design_series` takes them."""
    from tacit.core.question import parse_question

    given = dict(order.question)
    return given | {"question": parse_question(given["question"])} if "question" in given else given


def depends_on_size(order: SessionOrder) -> bool:
    """Whether a design is for one number of agents only.

    It is if the order asks for a radius. A series is refused if it has too few agents.
    """
    return order.series is not None or order.question.get("radius") is not None


def instance(
    order: SessionOrder,
    design: Session,
    name: str,
    members: Sequence[Member],
    keepers: Sequence[Member],
    *,
    now: float,
) -> Session:
    """Return a session of this design for these members, that begins now."""
    series, lattice, deadlines, closes = design.series, design.lattice, design.deadlines, None
    if series is None or order.series is None:
        deadlines = order.fields(len(members))["deadlines"]
        longest = deadlines.start + design.rounds * deadlines.round
        ends = now + max(_LEAST_LIFE, 2 * longest)
        placed = ClientServer(design.mechanism.law, agents=len(members), keepers=len(keepers))
        fitting = reaching(placed, design.rounds, lattice.low, lattice.high, components=design.components)
        lattice = replace(lattice, reach_exponent=fitting.reach_exponent)  # it depends on how many they are
        if order.open is not None:
            closes = math.ceil(now + order.open)
            ends = closes + max(_LEAST_LIFE, order.open if order.results is None else order.results)
    else:
        series = msgspec.structs.replace(series, begins=order.series.beginning(now))
        ends = series.ends + max(_LEAST_LIFE, 2 * series.interval)
    return replace(
        design,
        series=series,
        lattice=lattice,
        deadlines=deadlines,
        name=name,
        roster=tuple(members),
        keepers=tuple(keepers),
        quorum=order.settings.get("quorum"),
        start=None,
        mask_bytes=None,
        expires=min(math.ceil(ends), LAST_EXPIRY),
        closes=closes,
    )


def can_begin(session: Session, unwilling: Collection[str]) -> bool:
    """Whether enough agents and all keepers are left without the unwilling.

    The unwilling are members of the session. The hub asks this at every refusal.
    """
    left = session.n - len(unwilling)
    return left >= session.least_start and not any(keeper.name in unwilling for keeper in session.keepers)


def require_useful_order(order: SessionOrder, agents: int) -> None:
    """Refuse an order whose means would say nothing with so many agents."""
    from tacit.core.series import Hides, design_series
    from tacit.core.theory.advice import require_useful
    from tacit.core.theory.answers import answer
    from tacit.core.theory.plan import Plan

    asked, kept = order.question, len(order.keepers)
    if order.series is None:
        made = answer(Plan(**asked | {"agents": agents, "keepers": kept}))
        require_useful(made.promise.radius, made.promise.spread)
    else:
        of = order.series
        kind = Hides.parse(of.hides).runs_with
        found = design_series(
            of.slots, of.hides, agents=agents, keepers=kept, delta=of.delta, mechanism=kind,
            **_asked_often(order),
        )  # fmt: skip
        what = f"in each of {of.slots:,} means a standard deviation"
        require_useful(found.deviation, found.high - found.low, what=what)


def radius_for(session: Session, count: int, failure_probability: float = 0.05) -> float:
    """Return the radius if `count` agents take part in every round; slow."""
    return float(_of_size(session, count).promise(failure_probability).theory.radius)


def moved_by_one(session: Session, count: int) -> float | None:
    """Return how far one dishonest agent of `count` can move the result.

    None where it is unknown: agents with their own dynamics, and answers that have no unit.
    """
    unit = session.question.unit(count) if session.asked is not None else 1.0
    if not session.mechanism.law.mixes or unit is None:
        return None
    return (
        unit
        * (1 + 2.0**-50)
        * moved_by_liars(_of_size(session, count).mechanism, session.lattice, session.rounds)
    )


def _of_size(session: Session, count: int) -> Session:
    if count >= session.n:
        return session
    return replace(session, roster=session.roster[:count], quorum=count, start=None, mask_bytes=None)
