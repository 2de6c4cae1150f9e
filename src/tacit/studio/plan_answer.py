"""What the page shows for a question, whatever kind of question it is."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from tacit.base.arrays import FloatArray
from tacit.base.report import Summary
from tacit.core.series import SeriesDesign
from tacit.core.theory.answers import Design
from tacit.core.theory.plan import Plan
from tacit.lab.plots.curves import SeriesCurves
from tacit.studio.form import Form

Q = TypeVar("Q")


@dataclass(frozen=True)
class Way:
    """A change that makes the question feasible: its words and its form."""

    words: str
    form: Form


@dataclass(frozen=True)
class TrustAnswer:
    """The answer for one choice of keepers; `asked` if it is the form's own."""

    whom: str
    headline: str
    words: str
    asked: bool


@dataclass(frozen=True, eq=False)
class TradeoffCurve:
    """Radius against loss: `certain` plus a part proportional to 1/loss.

    `designed`, `one_shot` and `chebyshev` are that second part times the loss. `certain` is how far an agent
    can be from the average after the given number of rounds. It is 0 in an endless run.
    """

    designed: float
    one_shot: float
    chebyshev: float
    unit: str
    point: tuple[float, float] | None = None  # loss and radius of the design
    asked: tuple[float | None, float | None] = (None, None)  # loss and radius
    certain: float = 0.0
    of: str = "mean"  # what is within the radius

    def radii(self, loss: FloatArray) -> dict[str, FloatArray]:
        """Return the radii at each loss, and those of one-shot noise."""
        once = {} if self.one_shot == self.designed else {"one-shot": self.certain + self.one_shot / loss}
        return {
            "this design": self.certain + self.designed / loss,
            **once,
            "Chebyshev": self.chebyshev / loss,
        }


def steps(curve: TradeoffCurve, points: int = 60) -> FloatArray:
    """Return the losses to draw at, from near 0 to beyond the answer."""
    losses = [value for value in (curve.point and curve.point[0], curve.asked[0]) if value]
    if curve.asked[1]:
        losses.append(curve.designed / curve.asked[1])
    top = 2.2 * max(losses, default=1.0)
    along = np.linspace(math.sqrt(0.004), 1, points)
    return np.asarray(top * along**2)


@dataclass(frozen=True, eq=False)
class PlanAnswer:
    """The result of a form: a design, or possible changes, or errors.

    One time has `question`, `design`, `trust`, `liar` and `curve`, a series has `series` and `slots`.
    """

    form: Form
    keepers: int = 0
    headline: str = ""
    plain: str = ""
    summary: Summary | None = None
    refusal: str = ""
    ways: tuple[Way, ...] = ()
    wrong: dict[str, str] = field(default_factory=dict)  # field → sentence; "" for none in particular
    command: str = ""
    python: str = ""
    question: Plan | None = None
    design: Design | None = None
    trust: tuple[TrustAnswer, ...] = ()
    warning: str = ""
    liar: str = ""
    curve: TradeoffCurve | None = None
    series: SeriesDesign | None = None
    slots: SeriesCurves | None = None


@dataclass(frozen=True)
class PlanPart(Generic[Q]):
    """What differs between one time and a series.

    Each function may raise what the library raises; `plan` turns it into a part of the answer.
    """

    read: Callable[[Form], Q]
    """From the fields to a question; raises `FieldErrors`."""
    asked: Callable[[Form, Q], PlanAnswer]
    """What is known without a design: command, Python lines, and the number of keepers."""
    answered: Callable[[PlanAnswer, Q], PlanAnswer]
    """Adds the design and everything that follows from it."""
    drawn: Callable[[PlanAnswer, Q], PlanAnswer]
    """Adds what can be drawn where there is no design."""
