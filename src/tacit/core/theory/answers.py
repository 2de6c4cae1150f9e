"""Design, the inverse of analysis: find the side left open.

The sides are privacy (ε), accuracy (a radius and its failure probability), size (the number of
agents, or a graph) and rounds (to agree within a tolerance). The open side is computed for the noise
of least variance, and for the best mixing if none is given. If there is no answer, the error lists
alternatives that have one (`tacit.core.theory.alternatives`). Every answer is compared with one-shot noise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tacit.base.arrays import ByValue
from tacit.base.extras import explains_extras
from tacit.base.report import Row, Shown, Summary, dataframe, typed, up
from tacit.base.rounding import shown_up
from tacit.core.law import Fading, Gaussian
from tacit.core.law.gaussian import mu_of
from tacit.core.mechanism import Distributed, Mechanism
from tacit.core.theory import choosing
from tacit.core.theory.advice import ONE_DRAW, keeper_warnings, right_at_most, trusted, wide_radius
from tacit.core.theory.alternatives import refuse
from tacit.core.theory.plan import Plan, asks
from tacit.core.theory.promise import Promise, analyze
from tacit.core.theory.promise_rows import describe_size, promise_sections
from tacit.core.theory.trial import Trial, usual_laws
from tacit.core.theory.trust import Trust, price_of_trust

if TYPE_CHECKING:
    import pandas as pd

_MOST_LOOPED = 1_000_000  # agents whose loop is worked out to compare Gaussian noise

COMPARED = (
    "Noise is drawn once: for this question it was compared with noise that fades from round to round, which "
    "has no better answer. If states must move smoothly, give a mixing and the law one-shot."
)
"""The same for finitely many rounds and failure probabilities of 1/2 and more."""

OTHERS = (
    "One value of two (bits) or staircase noise may be more accurate, and bits bind a liar: the law best "
    "compares them."
)
"""Where a question allows laws of its whole domain."""


@dataclass(frozen=True, eq=False)
class Design(ByValue, Shown):
    """The answer to a design plan.

    Attributes
    ----------
    plan : Plan
        What was asked.
    promise, baseline : Promise
        The promise of the noise of least variance, and that of one-shot noise of the same ε.
    answered : str
        The side that was left open: privacy, accuracy, size or rounds.
    smoothest : float or None
        The least mixing found that also meets the plan, if no mixing was given.
    solved : Trial or None
        The plan with its answer filled in.
    tried : tuple of (str, float)
        With the law "best": every law that the question allows, and the side that was left open.
    """

    plan: Plan
    promise: Promise
    baseline: Promise
    answered: str
    smoothest: float | None = None
    solved: Trial | None = field(default=None, repr=False, compare=False)
    tried: tuple[tuple[str, float], ...] = ()

    @cached_property
    def trust(self) -> tuple[Trust, ...]:
        """With keepers: the results for other numbers of keepers."""
        if self.solved is None or not self.mechanism.keepers:
            return ()
        return tuple(price_of_trust(self.solved))

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism designed."""
        return self.promise.mechanism

    @property
    def advantage(self) -> float:
        """How many times smaller the radius would be with one-shot noise."""
        return self.promise.radius / self.baseline.radius

    @cached_property
    def gaussian(self) -> Promise | None:
        """What fresh Gaussian noise would promise at the same loss, with `delta`.

        None where noise is drawn once, agents differ, or the question is not a mean.
        """
        plan, promise, law = self.plan, self.promise, self.mechanism.law
        plain = not promise.mechanism.keepers and promise.question is None and promise.components == 1
        if self.drawn_once or not plain or law.agents is not None or isinstance(self.mechanism, Distributed):
            return None
        if self.mechanism.n > _MOST_LOOPED:
            return None
        mu = mu_of(promise.loss, plan.delta) / promise.adjacency
        other = Gaussian.best_for(law.sigma, mu, promise.horizon)
        asked = {"low", "high", "question"}
        given = {name: value for name, value in plan.promised().items() if name not in asked}
        given["failure_probability"] = promise.failure_probability  # it may be what was asked for
        return analyze(plan.place(other, self.mechanism.n), **given, delta=plan.delta)

    @property
    def compared(self) -> str:
        """Say how the radius of one-shot noise compares."""
        if f"{self.advantage:.3g}" == "1":  # with one round fading noise is drawn once, too
            return "about the same"
        if self.advantage >= 1:
            return f"{self.advantage:.3g} times smaller"
        return f"{1 / self.advantage:.3g} times larger"

    def notes(self) -> list[str]:
        """Return sentences that a user should read besides the numbers."""
        asked = self.promise.answer
        notes = [self.warning or "", self._about_law(), *([] if asked is None else asked.notes())]
        if self.promise.target == "weighted":
            notes.append(
                "The agents agree on a weighted average: those with more neighbours or less mixing count "
                "more. Ask for the true average to change that."
            )
        notes += keeper_warnings(self.mechanism.keepers, self.mechanism.n)
        other = self.gaussian
        if other is not None and other.radius < self.promise.radius:
            notes.append(
                f"Gaussian noise has radius {shown_up(other.radius)}, if the loss may be exceeded with "
                f"probability {self.plan.delta:g}. It is for theory and simulation: sessions draw Laplace "
                "noise."
            )
        if self.smoothest is not None:
            notes.append(f"Smoother motion is possible: mixing {self.smoothest:g} also meets the request.")
        return [note for note in notes if note]

    @property
    def drawn_once(self) -> bool:
        """Whether the design itself draws its noise once."""
        return self.mechanism.law.shadowed

    def _about_law(self) -> str:
        """Say why this law was chosen, or what one-shot noise would gain."""
        if self.tried:
            return self._about_tried()
        if self.plan.drawn_once:  # nothing else makes sense
            return ""
        by_default = self.plan.law is None and self.plan.mixing is None
        if self.drawn_once:
            if not by_default:
                return ""
            said = ONE_DRAW if len(usual_laws(self.plan)) == 1 else COMPARED
            return f"{said} {OTHERS}" if self.plan.whole_domain_laws() else said
        if self._unit is None:
            return ""
        said = (
            f"One-shot noise of the same epsilon has radius {shown_up(self._unit * self.baseline.radius)}, "
            f"{self.compared}"
        )
        return (
            f"{said}: the difference is the price of fresh noise in every round."
            if self.advantage > 1
            else f"{said}."
        )

    def _about_tried(self) -> str:
        side = "number of agents" if self.answered == "size" else self.answered
        side = {"accuracy": "radius", "rounds": "radius", "privacy": "epsilon"}.get(side, side)
        if self.plan.failure_probability is None:
            side = "failure probability"
        ranked = sorted(self.tried, key=lambda pair: pair[1])
        told = ", ".join(f"{name} {shown_up(cost, 5)}" for name, cost in ranked)
        return (
            f"Of the laws that this question allows, {ranked[0][0]} has the least {side}: {told}. Bits and "
            "staircase noise are for one number over its whole range, around a server without keepers (bits "
            "also for a histogram)."
        )

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        baseline = self.baseline.as_dict()
        shared = (
            "epsilon", "loss", "radius", "average_radius", "chebyshev_radius", "variance", "rate", "rounds",
            "noise",
        )  # fmt: skip
        return {
            "feasible": True,
            "answered": self.answered,
            **self.promise.as_dict(),
            "one_shot": {key: baseline[key] for key in shared},
            "advantage": self.advantage,
            "gaussian": None if self.gaussian is None else self.gaussian.as_dict(),
            "smoothest": self.smoothest,
            **({"tried": dict(self.tried)} if self.tried else {}),
            "price_of_trust": [row._asdict() for row in self.trust],
            "notes": self.notes(),
            "warning": self.warning,
        }

    def to_dataframe(self) -> pd.DataFrame:
        """Return the design and one-shot noise as a pandas table.

        It has two rows, one promise each.
        """
        return dataframe(
            [
                {"design": "designed"} | self.promise.as_dict(),
                {"design": "one-shot"} | self.baseline.as_dict(),
            ]
        )

    @property
    def warning(self) -> str | None:
        """A warning if the radius is a large part of the range.

        None if it is not, or if the range is unknown.
        """
        asked = self.plan
        if (asked.adjacency, asked.spread, asked.low, asked.question) == (None,) * 4:
            return None
        return wide_radius(self.promise.radius, self.promise.spread)

    @property
    def _unit(self) -> float | None:
        """How much of the answer one unit of a component is."""
        asked = self.promise.question
        return 1.0 if asked is None else asked.unit(self.mechanism.n)

    def summary(self, unit: str = "") -> Summary:
        """Return the answer for people, in the unit of the values."""
        sections = {
            "Parameters": self._parameters(),
            **promise_sections(self.promise, unit),
        }
        if not self.drawn_once:
            sections["One-shot"] = [
                Row("noise", typed(self.baseline.mechanism.law.c), "drawn once, at the same ε"),
                *(
                    []
                    if self._unit is None
                    else [Row("radius", up(self._unit * self.baseline.radius), self.compared, unit)]
                ),
            ]
        if self.trust:
            sections["Price of trust"] = [_price(row, self._unit) for row in self.trust]
        title = f"{describe_size(self.mechanism)}; answered: {self.answered}"
        return Summary(title, sections, tuple(self.notes()))

    def _parameters(self) -> list[Row]:
        law = self.mechanism.law
        chosen = "σ, chosen for the question" if self.plan.mixing is None else "σ, as given"
        if self.plan.mixing is None and isinstance(self.mechanism, Distributed):
            endless = self.promise.horizon is None
            chosen = "σ, chosen: more gains at most 7%" if endless else "σ, the best of those tried"
        best = "" if law.whole_domain else ", of least variance"
        further = [
            Row(word, typed(value), f"{letter}{best}: {law.meanings.get(letter, '')}")
            for (letter, value), word in zip(law.values().items(), law.words(), strict=True)
            if letter not in ("sigma", "c")
        ]
        when = ", drawn once" if self.drawn_once else " of round 0"
        noise = Row("noise", typed(law.c), f"c, {law.noise_meaning}{when}")
        return [Row("mixing", typed(law.sigma), chosen), noise, *further]


def _price(row: Trust, unit: float | None) -> Row:
    if row.loss is None:
        return Row(trusted(row.keepers), "none", "no loss is large enough")
    wide = ""
    if row.radius is not None and unit is not None:
        wide = f"; at the loss above the radius is {up(unit * row.radius)}"
    same = "radius" if unit is not None else "noise"
    said = f"loss for this {same}: two values are told apart {right_at_most(row.loss)} of the time{wide}"
    return Row(trusted(row.keepers), up(row.loss), said)


@explains_extras
@asks(Plan)
def design(plan: Plan) -> Design:
    """Find the best parameters, and the side that was left open.

    The best ones have the least variance. The keyword arguments are the fields of `tacit.Plan`. Give at
    least two of privacy (`epsilon`, or `loss` = ε·adjacency), accuracy (`radius`) and size (`agents` or
    `graph`).

    Parameters
    ----------
    failure_probability : float or None
        None asks for the failure probability; then give ε, a radius and a size.
    rounds : int, optional
        Run exactly this many rounds; agents must then agree within `tolerance`. Without it the
        guarantee covers an endless run, and the rounds to agreement are computed.
    mixing : float or one per agent, optional
        Give it if the agents' dynamics fix it; otherwise the best one is chosen.
    true_average : bool
        Make the plain average the target: one mixing for all (the largest given) and, on a graph,
        Metropolis weights. The noise needed is then the same as with a server.
    weights : str or matrix, optional
        On a graph, the weights of the messages: see `tacit.Distributed`.
    law : class or name of a noise law, optional
        Design noise of this law. Unless given, it is one-shot noise if there is a server and no mixing is
        given: then no fresh noise is more accurate. Otherwise it is fading noise.
    keepers : int
        How many keepers add the noise; 0 if every agent adds its own. Needs a server. Agents then have to
        trust one of the keepers (docs/proofs/keepers.md).
    motion : Linear, or another motion
        Agents with their own dynamics. Give privacy and a size: the answer compares the best noise of every
        law (`promises`), Gaussian noise with probability `delta` of exceeding the loss among them.

    Raises
    ------
    Infeasible
        If no parameters meet the request; lists changes of the plan that would work.

    Examples
    --------
    >>> answer = design(agents=500, epsilon=0.15, mixing=0.8)
    >>> round(answer.mechanism.law.q, 6)
    0.584804
    """
    return answer(plan)


def answer(plan: Plan) -> Design:
    """Answer a plan; `design` does the same from the plan's fields."""
    if plan.motion is not None:
        from tacit.core.theory.motion_design import answer_motion

        return answer_motion(plan)
    trials = [Trial.of(plan, law) for law in usual_laws(plan)]
    trial, answered = trials[0], _open_side(trials[0])
    if trial.radius == 0:
        refuse(trial)
    found = [solved for one in trials if (solved := choosing.solve(one)) is not None]
    if not found:
        refuse(trial)
    costs = [_cost(one, answered) for one in found]
    solved = found[costs.index(min(costs))]
    assert solved.epsilon is not None
    return Design(
        plan=plan,
        promise=solved.promise_of(solved.mechanism(solved.epsilon)),
        baseline=solved.promise_of(solved.one_shot(solved.epsilon)),
        answered=answered,
        smoothest=_smoothest(plan) if answered == "rounds" and not plan.drawn_once else None,
        solved=solved,
        tried=tuple(zip((one.law.name for one in found), costs, strict=True)) if plan.best_law else (),
    )


def _open_side(plan: Trial) -> str:
    if not plan.sized:
        return "size"
    if plan.epsilon is None:
        return "privacy"
    return "accuracy" if plan.radius is None or plan.failure_probability is None else "rounds"


def _smoothest(plan: Plan) -> float | None:
    """Return the least mixing found that also meets the plan.

    It is for the law that the plan has once this mixing is given.
    """
    return choosing.smoothest(Trial.of(plan, Fading if plan.law is None else None))


def _cost(solved: Trial, answered: str) -> float:
    """Return the side that a plan left open; less is better."""
    assert solved.epsilon is not None
    if answered == "size":
        return float(solved.agents or 0)
    if answered == "privacy":
        return solved.epsilon
    if solved.plan.failure_probability is None:
        return solved.b
    return solved.radius_of(solved.mechanism(solved.epsilon))
