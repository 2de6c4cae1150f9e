"""Sessions that are a series of means: made from a promise, and explained."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

from msgspec import structs

from tacit.base.errors import InputError
from tacit.base.report import Row, Shown, Summary, near, up
from tacit.core.protocol.fields import Time
from tacit.core.protocol.schema import Deadlines
from tacit.core.protocol.series import Series
from tacit.core.protocol.session import LAST_EXPIRY, Session
from tacit.core.question import Question, short_form
from tacit.core.series import Hides, design_series, epsilon_of, mu_of, pattern_costs, written
from tacit.core.theory.advice import require_useful
from tacit.live.identity.keys import key_text
from tacit.live.identity.roster import Roster
from tacit.live.sessions.check import keeper_notes
from tacit.live.sessions.design import apart

if TYPE_CHECKING:
    from tacit.core.theory.planned_answer import PlannedAnswer

_DAY = 86_400.0
_TRIES = 20
_MISSED = 0.05
"""Failure probability of the intervals that are shown."""
_HIDDEN = 2.0
"""A change that moves the messages more than this many times as far as the hidden one is not hidden."""


def draft_series(
    name: str,
    roster: Roster,
    *,
    slots: int,
    hides: Hides,
    interval: float,
    begins: int | None = None,
    low: float | None = None,
    high: float | None = None,
    question: Question | None = None,
    loss: float = 1.0,
    delta: float = 1e-6,
    keepers: Sequence[str] = (),
    expires: int | None = None,
    anyway: bool = False,
    **fields: Any,
) -> Session:
    """Make a series with the least noise for a loss.

    Its mechanism is square-root if it hides a step, and independent noise otherwise.

    Parameters
    ----------
    interval : float
        Seconds from one slot to the next.
    begins : int, optional
        When slot 0 begins, in seconds since 1970; the second next whole interval if not given.
    low, high : float
        The range of readings. A question has its own.
    question : Question, optional
        What is asked in every slot; the mean of numbers in the range unless given.
    loss, delta : float
        For the whole series.
    keepers : sequence of str
        Members of the roster that are not agents: at least one.
    expires : int, optional
        A day or two intervals after the last slot if not given, the later of both.
    anyway : bool
        Make it even if a mean would have a standard deviation of half the range or more; otherwise `Useless`
        is raised.
    fields
        Other fields of the `Session`, such as deadlines and quorum.
    """
    members, kept = apart(roster, keepers)
    if not kept:
        raise InputError(
            "a series needs at least one keeper, and two are better: name members of the roster who add the "
            "noise (--keepers a,b). Without keepers every agent would need noise of its own: that can be "
            "designed and simulated (`tacit design --series`), but not run."
        )
    if members.coordinator is None:
        raise InputError("a series needs a coordinator: put the certificate of one into the roster.")
    if not members.members:
        raise InputError("the roster must hold agents, and holds only keepers and a coordinator.")
    kind = hides.runs_with
    made = design_series(
        slots, hides, agents=len(members.members), low=low, high=high, keepers=len(kept), loss=loss,
        delta=delta, mechanism=kind, question=question,
    )  # fmt: skip
    if not anyway:
        require_useful(
            made.deviation, made.high - made.low, what=f"in each of {slots:,} means a standard deviation"
        )
    wait = fields.pop("deadlines", None) or Deadlines()
    start = usual_begin(interval, time.time()) if begins is None else begins
    series = Series(
        slots, interval, Time(start), made.hides, kind, made.steps, made.grid.exponent, made.low, made.high,
        delta, made.vectors.components, made.vectors.distance,
    )  # fmt: skip
    series = _within(series, loss)
    last = min(math.ceil(series.ends + max(_DAY, 2 * interval)), LAST_EXPIRY)
    return Session.of_series(
        series,
        asked=made.question,
        name=name,
        roster=members.members,
        coordinator=members.coordinator,
        keepers=kept,
        deadlines=structs.replace(wait, round=min(wait.round, interval / 2)),
        expires=last if expires is None else expires,
        **fields,
    )


def usual_begin(interval: float, now: float) -> int:
    """Return the second next whole interval, in seconds since 1970."""
    return math.ceil(math.ceil(now / interval + 1) * interval)


def _within(series: Series, loss: float) -> Series:
    """Widen the noise until the accounted loss is within bounds.

    The account is for the noise that is really drawn, so it can be slightly above the design.
    """
    for _ in range(_TRIES):
        if series.loss <= loss:
            return series
        series = structs.replace(series, steps=series.steps * (1 + 1e-9))
    raise InputError(f"no noise keeps the loss within {loss:g} on this grid: ask for a larger loss.")


@final
@dataclass(frozen=True, eq=False)
class SeriesExplanation(Shown):
    """What an agent should know about a series before it joins."""

    session: Session
    series: Series

    sound = True
    """A series that can be read is sound: its loss is the account of the noise that it declares."""

    @cached_property
    def costs(self) -> dict[str, float]:
        """How far other changes of the same height move the messages.

        As multiples of how far the hidden step moves them.
        """
        day = max(1, round(_DAY / self.series.interval))
        return pattern_costs(self.series.slots, day) if self.series.hides.kind == "step" else {}

    def loss_of(self, times: float) -> float:
        """Return the loss for a change that moves the messages this much further.

        `times` is relative to the hidden change.
        """
        series = self.series
        return epsilon_of(mu_of(series.loss, series.delta) * (1 + 1e-9) * times, series.delta)

    @property
    def deviation(self) -> float:
        """Standard deviation of the worst mean if all agents send; rounded up."""
        worst = float(self.series.code().variances().max()) * (1 + 2.0**-30)
        return self.series.noise * math.sqrt(len(self.session.keepers) * worst) / self.session.n * (1 + 1e-12)

    def summary(self, heading: str = "") -> Summary:
        """Return the series for people, with something in front of the title."""
        series, session = self.series, self.session
        begins = f"{datetime.fromtimestamp(series.begins, UTC):%Y-%m-%d %H:%M:%S} UTC"
        sections = {
            "Series": [
                Row("name", session.name, f"{series.slots:,} means, one every {series.interval:g} s"),
                Row("id", session.id.hex()[:16], "the same for everyone who has this very session"),
                Row("begins", begins, "by the clock of each machine"),
            ],
            "Promise": [
                *([] if session.asked is None else [Row("asks", short_form(session.asked), "in every slot")]),
                Row("hides", str(session.hidden), _hidden_in_words(session, series)),
                Row("loss", up(series.loss), "of the whole series, for that change; the cap must allow it"),
                Row(
                    "delta",
                    near(series.delta),
                    "with this probability more is lost; the owner must accept it",
                ),
                *self._range(),
            ],
            "Answer of each slot": [] if (planned := self._planned()) is None else planned.rows(_MISSED),
            "Each mean": [
                Row(
                    "deviation",
                    up(self.deviation),
                    "standard deviation of the worst mean, if nobody is missing",
                ),
                Row(
                    "noise", up(series.noise), f"standard deviation of each keeper's draw, {series.mechanism}"
                ),
            ],
            "Other changes": [
                Row(
                    name,
                    up(self.loss_of(cost)),
                    f"moves {up(cost)} × as far as the step" + (": NOT hidden" if cost > _HIDDEN else ""),
                )
                for name, cost in self.costs.items()
                if name != "step"
            ],
            "Rules": [
                Row(
                    "quorum",
                    f"{session.least_quorum:,}",
                    f"messages of {session.n:,} at least, or the slot is lost",
                ),
                Row("deadline", f"{session.deadlines.round:g} s", "after a slot begins it is closed"),
                Row(
                    "no reading",
                    "held" if series.holds else "silent",
                    "an agent sends its last reading again"
                    if series.holds
                    else "an agent sends nothing in that slot; everyone sees it",
                ),
                Row("expires", session.expiry, "nobody joins or speaks after that"),
                *(
                    Row("keeper", keeper.name, f"its key is {key_text(keeper.key)}")
                    for keeper in session.keepers
                ),
            ],
        }
        what = "means" if session.asked is None else "answers"
        title = f"{heading}{series.slots:,} {what} of {session.n:,} agents; hides {session.hidden}"
        return Summary(title, {name: rows for name, rows in sections.items() if rows}, tuple(self.notes))

    def _range(self) -> list[Row]:
        """Return the range of readings; a question has its own domain."""
        ends = f"{near(self.series.low)} to {near(self.series.high)}"
        return [] if self.session.asked else [Row("range", ends, "readings off it count as the nearest end")]

    def _planned(self) -> PlannedAnswer | None:
        """Return the intervals of the worst slot, if more than a mean is asked."""
        from tacit.core.theory.mean_noise import NormalNoise
        from tacit.core.theory.planned_answer import planned_with

        asked = self.session.asked
        if asked is None:
            return None
        return planned_with(NormalNoise(self.deviation), self.session.n, asked, _MISSED)

    def _answer_dict(self) -> dict[str, Any]:
        found = self._planned()
        return {} if found is None else {"question": short_form(found.question), "answer": found.as_dict()}

    @property
    def notes(self) -> list[str]:
        """What an owner may not expect."""
        notes = [
            f"A cap counts this series once, and only if its owner accepts what it hides: --hides "
            f"{self.session.hidden} --delta {self.series.delta:g}.",
            *keeper_notes(self.session),
        ]
        if self.session.expires <= time.time():
            notes.append(f"This series expired on {self.session.expiry}: nobody can join it. Make a new one.")
        return notes

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        series, session = self.series, self.session
        return {
            "sound": True,
            "faults": [],
            "notes": self.notes,
            "id": session.id.hex(),
            "name": session.name,
            "topology": session.topology,
            "agents": session.n,
            "keeper_keys": {keeper.name: key_text(keeper.key) for keeper in session.keepers},
            "series": {name: getattr(series, name) for name in series.__struct_fields__}
            | {"hides": written(series.hides)},
            **self._answer_dict(),
            "loss": series.loss,
            "delta": series.delta,
            "deviation": self.deviation,
            "noise_deviation": series.noise,
            "holds": series.holds,
            "costs": self.costs,
            "losses": {name: self.loss_of(times) for name, times in self.costs.items()},
            "quorum": session.least_quorum,
            "deadlines": structs.asdict(session.deadlines),
            "expires": session.expires,
            "expired": session.expires <= time.time(),
        }


def _hidden_in_words(session: Session, series: Series) -> str:
    match series.hides.kind:
        case "step" if session.asked is not None and not session.asked.moves:
            return "a change of an agent's record to any other one, from some slot on, for good"
        case "step":
            size = near(series.hides.size)
            return f"a change of an agent's readings by up to {size}, from some slot on, for good"
        case "window":
            return f"any {series.hides.size:.0f} readings of an agent in a row, whatever they were"
    return "any one reading of an agent, whatever it was"


def explain_series(session: Session) -> SeriesExplanation:
    """Say what a series promises, what it costs, and what it does not hide."""
    if session.series is None:
        raise InputError(f"session {session.name} is not a series.")
    return SeriesExplanation(session, session.series)
