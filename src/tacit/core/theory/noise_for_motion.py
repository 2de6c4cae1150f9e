"""Which noise suits agents with dynamics of their own: a comparison."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tacit.base.arguments import positive
from tacit.base.arrays import ByValue
from tacit.base.errors import MotionError
from tacit.base.report import Row, Shown, Summary, up
from tacit.core.graph.core import GraphLike
from tacit.core.law import Fading, Law, OneShot, Scheduled
from tacit.core.law.scheduled import Schedule, best_schedule
from tacit.core.mechanism import ClientServer, Distributed, Mechanism
from tacit.core.motion import Motion
from tacit.core.theory.promise import Promise, analyze


@dataclass(frozen=True, eq=False)
class NoiseComparison(ByValue, Shown):
    """The best noise of each law, for the same loss.

    Attributes
    ----------
    promises : dict
        By name of the law: scheduled, fading and, for one private component, one-shot.
    schedule : Schedule
        The optimum among schedules of fresh noise, with a proved lower bound.
    """

    promises: dict[str, Promise]
    schedule: Schedule

    @property
    def price(self) -> float | None:
        """How many times more deviation fresh noise has than noise once.

        None if noise cannot be drawn once.
        """
        once = self.promises.get(OneShot.name)
        return None if once is None else (self.promises[Scheduled.name].variance / once.variance) ** 0.5

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        laws = {name: made.as_dict() for name, made in self.promises.items()}
        return {"laws": laws, "price": self.price, "value": self.schedule.value, "least": self.schedule.least}

    def summary(self, unit: str = "") -> Summary:
        """Return a row for each law, and what fresh noise costs."""
        first = self.promises[Scheduled.name]
        rows = []
        for name, made in self.promises.items():
            said = f"radius; deviation {up(made.variance**0.5)}, loss {up(made.loss)}"
            rows.append(Row(name, up(made.radius), said, unit))
        gap = self.schedule.value / self.schedule.least - 1
        rows.append(Row("gap", f"{max(gap, 0.0):.2g}", "by which a better schedule could have less variance"))
        if self.price is not None:
            rows.append(Row("price", up(self.price), "of smooth motion: fresh noise against noise once"))
        notes = first.mechanism.motion.assumptions
        if self.price is not None:
            notes += (
                "Noise once is that of a computed shadow. Never add it to a measured or rounded state: two "
                "messages would then give the start away.",
            )
        title = f"{first.mechanism.n:,} agents, {first.horizon} rounds, {first.mechanism.motion}"
        return Summary(title, {"Noise": rows}, notes)


def compare_noise(
    motion: Motion,
    *,
    loss: float,
    rounds: int,
    agents: int | None = None,
    graph: GraphLike | None = None,
    adjacency: float = 1.0,
    failure_probability: float = 0.05,
) -> NoiseComparison:
    """Compare the best noise of each law for the same loss.

    Scheduled noise has the least variance of all fresh noise, fading noise is the best c·q^t, and one-shot
    noise is drawn once.

    Examples
    --------
    >>> from tacit import Linear
    >>> truck = Linear([[1, 0.25], [-0.25, 0.5]], [0, 0.25], [1, 0], private={0: 1.0})
    >>> found = compare_noise(truck, loss=1, rounds=200, agents=10)
    >>> round(found.price, 4)
    4.1539
    """
    if (agents is None) == (graph is None):
        raise MotionError("give agents around a server or a graph, and not both.")
    epsilon = positive("loss", loss) / positive("adjacency", adjacency)

    def made(law: Law) -> Promise:
        place: Mechanism = ClientServer(law, agents=agents or 1)
        if graph is not None:
            place = Distributed(law, graph)
        return analyze(place, adjacency=adjacency, rounds=rounds, failure_probability=failure_probability)

    promises = {
        Scheduled.name: made(Scheduled.best(motion, epsilon, rounds)),
        Fading.name: made(Fading.best(motion, epsilon, rounds)),
    }
    with suppress(MotionError):  # several private components
        promises[OneShot.name] = made(OneShot.best(motion, epsilon))
    return NoiseComparison(promises, best_schedule(motion.influence_table(rounds)))
