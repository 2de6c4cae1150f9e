"""What a mechanism promises: privacy, accuracy and agreement together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.base.arguments import inside_unit, number, positive, whole
from tacit.base.arrays import ByValue
from tacit.base.errors import LawError, ParameterError
from tacit.base.extras import explains_extras
from tacit.base.report import Shown, Summary, dataframe, some_rounds
from tacit.base.rounding import product_up, shown_up
from tacit.core.mechanism import Mechanism
from tacit.core.mechanism.base import require_mechanism
from tacit.core.mechanism.lattice import Lattice
from tacit.core.mechanism.reach import reaching
from tacit.core.question import Mean, Question
from tacit.core.theory import accuracy, convergence, privacy
from tacit.core.theory.advice import keeper_warnings
from tacit.core.theory.endings import AGREEMENT_SHARE, ending, shares
from tacit.core.theory.laplace_sum import require_probability
from tacit.core.theory.liars import moved_by_liars
from tacit.core.theory.plan import Plan, Scope, scope
from tacit.core.theory.planned_answer import PlannedAnswer, planned, question_word, require_fitting
from tacit.core.theory.promise_rows import describe, promise_sections, target_notes

if TYPE_CHECKING:
    import pandas as pd


_MARGIN = 1 + 1e-15  # rounding of a quotient


@dataclass(frozen=True, eq=False)
class Promise(ByValue, Shown):
    """The guarantees of one mechanism, every number rounded to the safe side.

    Attributes
    ----------
    epsilon, loss : float
        ε per unit of adjacency, and ε·adjacency.
    delta : float or None
        Of Gaussian noise: the probability with which the loss is exceeded. None: never.
    radius : float
        After `horizon` rounds all agents together are within this distance of the target. In an endless run
        it is the distance of the value that all agree on. With probability at least 1 − failure_probability
        this holds together with `disagreement`, or with `rounds` in an endless run.
    average_radius, chebyshev_radius : float
        The radius of the weighted average of all states, by its exact law and by the paper's bound.
    disagreement : float
        Every two agents are within this of each other after `horizon` rounds; 0 for an endless run.
    rate : float or None
        Factor by which root-mean-square disagreement shrinks per round; None where the law of the noise
        has no such factor.
    rounds : int
        The given number of rounds, or the rounds until agents agree within `tolerance`.
    components, radius_all_components
        How many numbers a value has, and the radius that covers all of them at once. `radius` and the other
        bounds are for a single one of them.
    horizon : int or None
        Number of rounds that ε and the radii are for; None for an endless run.
    question : Question or None
        What is asked, if not a mean. Radii are those of vectors; `answer` has the intervals of its parts.
    liars : int
        Of how many dishonest agents it is said how far they can move the result.
    speaking : int or None
        The fewest agents in a mean, a session's quorum; None: all.
    lattice : Lattice or None
        The whole numbers of a session. Nobody can say more than its reach. None if the range is unknown.
    """

    mechanism: Mechanism
    adjacency: float
    failure_probability: float
    tolerance: float
    spread: float
    horizon: int | None
    epsilon: float
    loss: float
    radius: float
    average_radius: float
    chebyshev_radius: float
    disagreement: float
    variance: float
    rate: float | None
    rounds: int
    target: str
    components: int
    radius_all_components: float
    question: Question | None = None
    lattice: Lattice | None = None
    delta: float | None = None
    liars: int = 1
    speaking: int | None = None

    @cached_property
    def answer(self) -> PlannedAnswer | None:
        """How exact the answer to the question will be; None for a mean."""
        if self.question is None:
            return None
        return planned(self.mechanism, self.question, self.failure_probability, self.horizon, self.spread)

    def moved_by(self, liars: int = 1) -> float | None:
        """Return how far dishonest agents together can move the result.

        None where that is unknown: no range is given, or agents have their own dynamics. For a question it is
        in the unit of its answer, or if that has none in each component of the mean vector.
        """
        if self.lattice is None or not self.mechanism.law.mixes:
            return None
        unit = None if self.question is None else self.question.unit(self.mechanism.n)
        moved = moved_by_liars(self.mechanism, self.lattice, self.rounds, liars, speaking=self.speaking)
        return moved if unit is None else product_up(unit, moved)

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        law = self.mechanism.law
        return {
            "mechanism": self.mechanism.kind,
            "law": law.name,
            "agents": self.mechanism.n,
            "keepers": self.mechanism.keepers,
            "epsilon": self.epsilon,
            "adjacency": self.adjacency,
            "loss": self.loss,
            **({} if self.delta is None else {"delta": self.delta}),
            "failure_probability": self.failure_probability,
            "radius": self.radius,
            "components": self.components,
            "radius_all_components": self.radius_all_components,
            "average_radius": self.average_radius,
            "chebyshev_radius": self.chebyshev_radius,
            "variance": self.variance,
            "rate": self.rate,
            "disagreement": self.disagreement,
            "rounds": self.rounds,
            "horizon": self.horizon,
            "tolerance": self.tolerance,
            "spread": self.spread,
            "target": self.target,
            "one_liar": self.moved_by(1),
            **({} if self.liars == 1 else {"liars": self.liars, "moved_by_liars": self.moved_by(self.liars)}),
            "mixing": None,
            "noise": None,
            "decay": None,
            "motion": law.motion.name,
            "assumptions": list(law.motion.assumptions),
            **{word: _plain(value) for word, value in law.worded().items()},
            **self._asked(),
        }

    def _asked(self) -> dict[str, Any]:
        if self.question is None or self.answer is None:
            return {}
        return {"question": question_word(self.question), "answer": self.answer.as_dict()}

    def to_dataframe(self) -> pd.DataFrame:
        """Return the exact numbers as a pandas table of one row.

        `pandas.concat` puts several together.
        """
        return dataframe([self.as_dict()])

    def summary(self, unit: str = "") -> Summary:
        """Return every number for people, in the unit of the values."""
        asked = () if self.answer is None else self.answer.notes()
        kept = keeper_warnings(self.mechanism.keepers, self.mechanism.n)
        notes = (*asked, *target_notes(self), *kept, *self.mechanism.motion.assumptions)
        return Summary(describe(self.mechanism), promise_sections(self, unit), notes)

    def radius_meaning(self) -> str:
        """Say whose radius it is, and with which probability it is missed."""
        missed = f"missed with probability {shown_up(self.failure_probability)}"
        if self.horizon is None:
            return f"of the value agreed on: {missed}"
        return f"of every agent's state after {some_rounds(self.horizon)}: {missed}"


@explains_extras
def analyze(
    mechanism: Mechanism,
    *,
    adjacency: float | None = None,
    failure_probability: float = 0.05,
    rounds: int | None = None,
    tolerance: float | None = None,
    spread: float | None = None,
    components: int = 1,
    question: Question | str | None = None,
    low: float | None = None,
    high: float | None = None,
    delta: float | None = None,
    liars: int = 1,
) -> Promise:
    """Return what a mechanism promises.

    The promise covers an endless run, or `rounds` rounds.

    Parameters
    ----------
    adjacency : float, optional
        Two values of one agent that differ by at most this must be hard to tell apart; 1 unless given.
    spread : float, optional
        Largest minus smallest initial value; the adjacency unless given.
    tolerance : float, optional
        How close agents must be to agree; a thousandth of the spread unless given.
    components : int
        How many numbers a value has. `radius` is for a single one of them.
    question : Question, optional
        What is asked, if not a mean. It says adjacency, spread and components, and the promise has an
        `answer` with intervals.
    low, high : float, optional
        The range of values. The promise then says how far a dishonest agent can move the result
        (`Promise.moved_by`), and the adjacency is the whole range unless given. A question has its own.
    delta : float, optional
        Of Gaussian noise: the probability with which the loss may be exceeded.
    liars : int
        Also say how far so many dishonest agents together can move the result.

    Examples
    --------
    >>> from tacit import ClientServer, Fading
    >>> made = analyze(ClientServer(Fading(0.8, 10, 0.6), agents=500))
    >>> made.epsilon, made.rounds
    (0.15, 5)
    """
    require_mechanism(mechanism)
    asked, span = None, _span(low, high)
    if question is not None:
        asked, components = Plan(question=question).asked, Plan(question=question).asked.components
        adjacency = _of_question(asked, adjacency)
        spread = asked.box[1] - asked.box[0] if spread is None else spread
        span = asked.box
        require_fitting(mechanism, asked)
    adjacency = None if adjacency is None else positive("adjacency", adjacency)
    spread = None if spread is None else number("spread", spread, "be a number of at least 0", least=0.0)
    adjacency, spread, tolerance = scope(adjacency, spread, tolerance, span, components)
    tolerance = positive("tolerance", tolerance, "agents never agree exactly")
    failure_probability = require_probability(failure_probability)
    rounds = None if rounds is None else whole("rounds", rounds, 0)
    components = whole("components", components, 1)
    low_end = None if span is None else span[0]
    if mechanism.law.whole_domain and low_end is not None:
        one_hot = asked is not None and asked.one_hot
        mechanism.law.require_range(float(low_end), components, one_hot=one_hot)
    settled = rounds
    if not (mechanism.law.mixes and mechanism.law.pure):
        if components != 1 or asked is not None:
            raise mechanism.motion.undefined("components", "the radius of several outputs, or of a question")
        delta = None if delta is None else inside_unit("delta", delta)
        return _analyze_loop(
            mechanism, Scope(adjacency, spread, tolerance), failure_probability, rounds, delta
        )
    if settled is None:
        share = shares(mechanism, failure_probability).agreement
        settled = convergence.rounds_to_agreement(mechanism, tolerance, spread, share)
    epsilon = privacy.epsilon(mechanism.law, rounds)
    end = ending(mechanism, failure_probability, rounds, spread)
    every = end
    if components != 1:
        every = ending(mechanism, failure_probability, rounds, spread, components=components)
    return Promise(
        mechanism=mechanism,
        adjacency=adjacency,
        failure_probability=failure_probability,
        tolerance=tolerance,
        spread=spread,
        horizon=rounds,
        epsilon=epsilon,
        loss=privacy.loss(mechanism.law, adjacency, rounds, delta),
        radius=end.radius,
        average_radius=accuracy.radius(mechanism, failure_probability, rounds),
        disagreement=end.disagreement,
        chebyshev_radius=accuracy.chebyshev_radius(mechanism, failure_probability, rounds),
        variance=accuracy.variance(mechanism, rounds),
        rate=_rate(mechanism),
        rounds=settled,
        components=components,
        radius_all_components=every.radius,
        target="average" if accuracy.reaches_average(mechanism) else "weighted",
        question=None if isinstance(asked, Mean) else asked,
        lattice=None if span is None else _lattice(mechanism, settled, span, components),
        liars=whole("liars", liars, 1),
    )


def _analyze_loop(
    mechanism: Mechanism, of: Scope, b: float, rounds: int | None, delta: float | None
) -> Promise:
    """Return what agents in a loop, or with Gaussian noise, promise."""
    from tacit.core.theory.closed_loop import ClosedLoop

    adjacency, spread, tolerance = of
    loss = privacy.loss(mechanism.law, adjacency, rounds, delta)
    epsilon = privacy.epsilon(mechanism.law, rounds) if delta is None else loss / adjacency * _MARGIN
    moved = mechanism if not mechanism.law.mixes else replace(mechanism, law=mechanism.law.as_linear())
    loop = ClosedLoop(moved, rounds, tolerance / spread if spread else 1.0)
    settled = loop.rounds_to_agreement(tolerance, spread, b * AGREEMENT_SHARE) if rounds is None else rounds
    end = loop.ending(b, spread)
    return Promise(
        mechanism=mechanism,
        adjacency=adjacency,
        failure_probability=b,
        tolerance=tolerance,
        spread=spread,
        horizon=rounds,
        epsilon=epsilon,
        loss=loss,
        delta=delta,
        radius=end.radius,
        average_radius=accuracy.radius(mechanism, b, rounds),
        disagreement=end.disagreement,
        chebyshev_radius=accuracy.chebyshev_radius(mechanism, b, rounds),
        variance=accuracy.variance(mechanism, rounds),
        rate=loop.rate,
        rounds=settled,
        components=1,
        radius_all_components=end.radius,
        target="average" if loop.reaches_average else "weighted",
    )


def _span(low: float | None, high: float | None) -> tuple[float, float] | None:
    asked = Plan(low=low, high=high)
    return None if asked.low is None else asked.span


def _lattice(mechanism: Mechanism, rounds: int, span: tuple[float, float], components: int) -> Lattice | None:
    """Return the lattice of a session; None if no session can have it."""
    try:
        return reaching(mechanism, rounds, float(span[0]), float(span[1]), components=components)
    except ParameterError:  # noise that vanishes in the course of the rounds, say
        return None


def _of_question(asked: Question, adjacency: float | None) -> float:
    """Return the adjacency of a question; a mean may have a smaller one."""
    if adjacency is None or isinstance(asked, Mean):
        return asked.adjacency if adjacency is None else adjacency
    if adjacency != asked.adjacency:
        raise ParameterError(
            f"the adjacency of a {asked.kind} must be {asked.adjacency!r}, which hides any change of a "
            f"record, got {adjacency!r}. Leave it out.",
            "adjacency",
        )
    return adjacency


def _rate(mechanism: Mechanism) -> float | None:
    try:
        return convergence.rate(mechanism)
    except LawError:  # noise that does not fade by one factor per round
        return None


def _plain(value: float | np.ndarray) -> float | list[float]:
    return value.tolist() if isinstance(value, np.ndarray) else value
