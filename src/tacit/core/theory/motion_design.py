"""Which noise suits agents with dynamics of their own: a design."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tacit.base.errors import LawError, MotionError, ParameterError
from tacit.base.report import Row, Summary, dataframe, up
from tacit.base.rounding import shown_up
from tacit.core.law import Fading, Gaussian, Law, OneShot, Scheduled
from tacit.core.law.gaussian import mu_of
from tacit.core.law.scheduled import Schedule, best_schedule
from tacit.core.motion import Motion
from tacit.core.motion.certified import Certified
from tacit.core.theory.answers import Design
from tacit.core.theory.promise import Promise, analyze
from tacit.core.theory.promise_rows import describe_size

if TYPE_CHECKING:
    import pandas as pd

    from tacit.core.theory.plan import Plan

SHADOW = (
    "Noise once is that of a computed shadow. Never add it to a measured or rounded state: two messages "
    "would then give the start away."
)


@dataclass(frozen=True, eq=False)
class MotionDesign(Design):
    """The best noise of each law for agents with their own dynamics.

    All have the same loss. `promise` is the law asked for, or else the most accurate one whose loss is never
    exceeded.

    Attributes
    ----------
    promises : dict
        By name of the law: scheduled (with a number of rounds), fading, one-shot (one private component,
        computed states) and gaussian (with a number of rounds).
    schedule : Schedule or None
        The optimum among schedules of fresh Laplace noise, with a proved lower bound.
    """

    promises: dict[str, Promise] = field(default_factory=dict)
    schedule: Schedule | None = None

    @property
    def price(self) -> float | None:
        """How many times more deviation the best fresh noise has than noise once.

        None if noise cannot be drawn once.
        """
        once = self.promises.get(OneShot.name)
        if once is None:
            return None
        fresh = self.promises.get(Scheduled.name, self.promises[Fading.name])
        return math.sqrt(fresh.variance / once.variance)

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        found = self.schedule
        return {
            "feasible": True,
            "answered": self.answered,
            **self.promise.as_dict(),
            "laws": {name: made.as_dict() for name, made in self.promises.items()},
            "price": self.price,
            "value": None if found is None else found.value,
            "least": None if found is None else found.least,
            "notes": self.notes(),
        }

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row per law."""
        return dataframe([made.as_dict() for made in self.promises.values()])

    def notes(self) -> list[str]:
        """Say what each noise costs, and what all numbers assume."""
        notes = []
        found = self.promises.get(Gaussian.name)
        if found is not None and found.delta is not None:
            notes.append(
                f"Gaussian noise exceeds its loss with probability {found.delta:g}, the others never. It is "
                "for theory and simulation: sessions draw Laplace noise."
            )
        if OneShot.name in self.promises:
            notes.append(SHADOW)
        return [*notes, *self.mechanism.motion.assumptions]

    def summary(self, unit: str = "") -> Summary:
        """Return a row for each law, and what fresh noise costs."""
        once, rows = self.promises.get(OneShot.name), []
        for name, made in self.promises.items():
            times = "" if once is None else f", {shown_up((made.variance / once.variance) ** 0.5, 3)} × once"
            said = f"radius; deviation {up(made.variance**0.5)}{times}; loss {up(made.loss)}"
            chosen = " (chosen)" if made is self.promise else ""
            rows.append(Row(name, up(made.radius), said + chosen, unit))
        if self.schedule is not None:
            gap = max(self.schedule.value / self.schedule.least - 1, 0.0)
            rows.append(Row("gap", f"{gap:.2g}", "by which a better schedule could have less variance"))
        if self.price is not None:
            rows.append(
                Row("price", up(self.price), "of smooth motion: fresh Laplace noise against noise once")
            )
        run = "an endless run" if self.promise.horizon is None else f"{self.promise.horizon:,} rounds"
        title = f"{describe_size(self.mechanism)}, {run}, {self.mechanism.motion}"
        return Summary(title, {"Noise": rows}, tuple(self.notes()))


def answer_motion(plan: Plan) -> MotionDesign:
    """Design the noise of agents with their own dynamics, law by law."""
    motion = plan.motion
    assert isinstance(motion, Motion)
    _require_open(plan)
    of = plan.scope
    epsilon = plan.epsilon if plan.epsilon is not None else (plan.loss or 1.0) / of.adjacency
    loss = epsilon * of.adjacency if plan.loss is None else plan.loss
    promised = {**plan.promised(), "spread": of.spread}

    def made(law: Law, **more: Any) -> Promise:
        return analyze(plan.place(law, plan.agents), **promised, **more)

    promises = {}
    if plan.rounds is not None:
        promises[Scheduled.name] = made(Scheduled.best(motion, epsilon, plan.rounds))
    promises[Fading.name] = made(Fading.best(motion, epsilon, plan.rounds))
    with suppress(MotionError):  # several private components, or measured states
        promises[OneShot.name] = made(OneShot.best(motion, epsilon))
    if plan.rounds is not None:
        with suppress(LawError):  # agents that differ
            mu = mu_of(loss, plan.delta) / of.adjacency
            promises[Gaussian.name] = made(Gaussian.best_for(motion, mu, plan.rounds), delta=plan.delta)
    chosen = _chosen(plan, promises)
    table = None if plan.rounds is None else best_schedule(motion.influence_table(plan.rounds))
    return MotionDesign(
        plan=plan,
        promise=chosen,
        baseline=promises.get(OneShot.name, chosen),
        answered="accuracy",
        promises=promises,
        schedule=table,
    )


def _require_open(plan: Plan) -> None:
    """Refuse what a design for a motion does not answer."""
    if isinstance(plan.motion, Certified):
        raise MotionError(
            "what agents of which only a bound is known agree on is unknown, so their noise cannot be "
            "compared by accuracy. `tacit analyze --motion` chooses noise for a loss; a measured plant has "
            "hybrid noise."
        )
    if plan.mixing is not None:
        raise ParameterError("give a motion or a mixing, not both: a motion says how agents move.", "mixing")
    if (plan.epsilon is None and plan.loss is None) or not plan.sized or plan.radius is not None:
        raise ParameterError(
            "a design for agents with their own dynamics says how accurate they are: give privacy (loss or "
            "epsilon) and a size (agents or graph), and no radius.",
            "motion",
        )
    if plan.question is not None or plan.components != 1 or plan.keepers:
        raise ParameterError(
            "agents with their own dynamics say one number each, with noise of their own: leave out "
            "question, components and keepers.",
            "motion",
        )


def _chosen(plan: Plan, promises: dict[str, Promise]) -> Promise:
    if plan.law is not None:
        name = plan.law if isinstance(plan.law, str) else plan.law.name
        if name not in promises:
            raise MotionError(
                f"noise for these agents is one of {', '.join(promises)}, got {name}: it needs a number of "
                "rounds, one private component, or a computed state.",
            )
        return promises[name]
    sure = [made for made in promises.values() if made.delta is None]
    return min(sure, key=lambda made: made.variance)
