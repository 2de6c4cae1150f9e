"""From the fields of a design question to everything the page shows of its answer."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from tacit.arrays import FloatArray
from tacit.errors import GraphError, Infeasible, InputError, TacitError
from tacit.studio import same
from tacit.studio.form import Form, Refused, Wish, read
from tacit.studio.graphs import graph
from tacit.studio.words import guess_rate, near, percent, with_unit
from tacit.theory import accuracy
from tacit.theory.design import Design, design
from tacit.theory.question import Question
from tacit.theory.rounding import shown_up

_LIMITS = {"agents": (1, 10**15), "rounds": (1, 10**6), "mixing": (1e-6, 1)}
"""Within these an answer takes less than a second."""
_FIELDS = {
    "epsilon": "budget", "radius": "radius", "failure probability": "probability", "rounds": "rounds",
    "tolerance": "tolerance", "adjacency": "adjacency", "mixing": "mixing", "agents": "agents",
}  # fmt: skip
"""Where a sentence of the library belongs, by its first words."""


@dataclass(frozen=True)
class Quantity:
    """One line of an answer: its name, the number as printed, and what it means."""

    name: str
    value: str
    meaning: str


@dataclass(frozen=True)
class Way:
    """One thing that could give, in words, and the form that gives it."""

    words: str
    form: Form


@dataclass(frozen=True, eq=False)
class Curve:
    """Radius against loss for the size asked about: all three are proportional to 1/ε.

    Each is radius × loss: of the best fading noise, of one-shot noise, and by Chebyshev.
    """

    fading: float
    one_shot: float
    chebyshev: float
    unit: str
    point: tuple[float, float] | None = None  # loss and radius of the design
    asked: tuple[float | None, float | None] = (None, None)  # loss and radius

    def radii(self, loss: FloatArray) -> dict[str, FloatArray]:
        """Return the three radii at each loss."""
        return {
            "this design": self.fading / loss,
            "one-shot": self.one_shot / loss,
            "Chebyshev": self.chebyshev / loss,
        }


@dataclass(frozen=True, eq=False)
class Plan:
    """What a form leads to: an answer, or what has to give, or what is wrong with which field."""

    form: Form
    wish: Wish | None = None
    design: Design | None = None
    headline: str = ""
    plain: str = ""
    quantities: dict[str, tuple[Quantity, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    curve: Curve | None = None
    refusal: str = ""
    ways: tuple[Way, ...] = ()
    wrong: dict[str, str] = field(default_factory=dict)  # field → sentence; "" for none in particular
    command: str = ""
    python: str = ""


def plan(form: Form) -> Plan:
    """Answer the question of a form. Whatever goes wrong is part of the answer."""
    try:
        wish = _modest(read(form))
    except Refused as error:
        return Plan(form, wrong=error.fields)
    asked = Plan(form, wish, command=same.command(wish), python=same.python(wish))
    try:
        return _answered(asked, wish, _design(wish))
    except Infeasible as error:
        ways = tuple(_way(form, name, value) for name, value in error.gives.items())
        return replace(asked, refusal=str(error), ways=ways, curve=_refused_curve(wish))
    except TacitError as error:
        return replace(asked, wrong={_field(error): str(error)}, command="", python="")
    except MemoryError:
        return replace(asked, wrong={"": "this does not fit in memory: ask for fewer agents or rounds."})
    except (OverflowError, ZeroDivisionError, FloatingPointError):
        sentence = "these numbers lead out of the range of floating-point numbers: choose less extreme ones."
        return replace(asked, wrong={"": sentence})


def _modest(wish: Wish) -> Wish:
    """Refuse what a page would wait for too long, at its fields."""
    wrong = {}
    for name, (low, high) in _LIMITS.items():
        value = getattr(wish, name)
        if value is not None and (value > high >= 10 or 0 < value < low):
            wrong[name] = (
                f"the studio takes {name} from {low:g} to {high:g}, got {value:g}: try `tacit design`."
            )
    if wrong:
        raise Refused(wrong)
    return wish


def sketch(form: Form) -> Curve | None:
    """Return the curve alone, at once: for a slider that is being moved. None where it takes longer."""
    try:
        wish = _modest(read(form))
        return None if wish.radius == 0 else _curve(wish)
    except (TacitError, ArithmeticError, MemoryError):
        return None


@lru_cache(maxsize=256)
def _design(wish: Wish) -> Design:
    asked = wish.asked()
    if wish.graph is not None:
        asked["graph"] = graph(wish.graph)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        return design(**asked)


def _answered(asked: Plan, wish: Wish, found: Design) -> Plan:
    made, unit = found.promise, wish.unit
    target = "true mean" if made.target == "average" else "weighted mean"
    odds = percent(1 - made.failure_probability)
    headline = {
        "privacy": f"Privacy loss {shown_up(made.loss, 4)}",
        "accuracy": f"Within {with_unit(shown_up(made.radius, 4), unit)}",
        "size": f"{made.mechanism.n:,} agents",
        "all": "Possible",
    }[asked.form.find]
    agents = "The one agent ends" if made.mechanism.n == 1 else f"The {made.mechanism.n:,} agents agree"
    plain = (
        f"{agents} within {with_unit(shown_up(made.radius, 4), unit)} of their {target}, with probability "
        f"{odds}. Whoever sees everything that is said, and must tell apart two values "
        f"{with_unit(near(made.adjacency), unit)} apart, is right at most {guess_rate(made.loss)} of the "
        "time; a blind guess is right 50% of the time."
    )
    curve = _curve(wish) if wish.agents is not None or wish.graph is not None else None
    if curve is None:
        curve = _curve(replace(wish, agents=made.mechanism.n))
    return replace(
        asked,
        design=found,
        headline=headline,
        plain=plain,
        quantities=_quantities(found, wish),
        notes=tuple(found.notes()),
        curve=None if curve is None else replace(curve, point=(made.loss, made.radius)),
    )


def _quantities(found: Design, wish: Wish) -> dict[str, tuple[Quantity, ...]]:
    made, values, unit = found.promise, found.promise.as_dict(), wish.unit
    per = f"per {unit}" if unit else "per unit of adjacency"
    span = "an endless run" if made.horizon is None else f"{made.horizon:,} rounds"
    misses = f"exact; missed with probability {near(made.failure_probability)}"
    wider = f"the paper’s bound, {made.radius_chebyshev / made.radius:.2g} times as wide"
    once = f"noise drawn once: {found.advantage:.3g} times smaller"
    agree = f"until all agree within {with_unit(near(made.tolerance), unit)}"
    rows = {
        "Parameters": [
            ("mixing σ", _each(values["mixing"]), "how far an agent moves towards the feedback"),
            ("noise c", _each(values["noise"], up=True), "Laplace scale of round 0"),
            ("decay q", _each(values["decay"], up=True), "the scale of round t is c·q^t"),
        ],
        "Privacy": [
            ("loss", shown_up(made.loss), f"ε × adjacency {near(made.adjacency)}, over {span}"),
            ("epsilon", shown_up(made.epsilon), f"ε {per}"),
        ],
        "Accuracy": [
            ("radius", shown_up(made.radius), misses),
            ("Chebyshev", shown_up(made.radius_chebyshev), wider),
            ("one-shot", shown_up(found.baseline.radius), once),
        ],
        "Agreement": [
            ("rounds", f"{made.rounds:,}", agree if made.horizon is None else "as asked"),
            ("rate", f"{made.rate:.4g}", "of the disagreement is left after a round"),
        ],
    }
    return {section: tuple(Quantity(*row) for row in part) for section, part in rows.items()}


def _each(value: float | list[float], *, up: bool = False) -> str:
    show = shown_up if up else near
    if not isinstance(value, list):
        return show(value)
    low, high = show(min(value)), show(max(value))
    return low if low == high else f"{low} to {high}"


@lru_cache(maxsize=256)
def _unit_radii(size: Wish) -> tuple[float, float, float]:
    """Return the radius of fading and of one-shot noise, and Chebyshev's, at ε = 1."""
    question = Question(
        agents=size.agents,
        graph=None if size.graph is None else graph(size.graph),
        epsilon=1.0,
        radius=None,
        failure_probability=size.failure_probability,
        rounds=size.rounds,
        tolerance=1.0,
        spread=1.0,
        adjacency=1.0,
        mixing=size.mixing,
        true_average=size.true_average,
    )
    fading = question.fading(1.0)
    chebyshev = accuracy.chebyshev_radius(fading, question.b, question.rounds)
    return question.radius_of(fading), question.radius_of(question.one_shot(1.0)), chebyshev


def _curve(wish: Wish) -> Curve | None:
    if wish.agents is None and wish.graph is None:
        return None
    # All that the three radii depend on: while other fields change, nothing is computed again.
    size = replace(
        wish, low=0.0, high=1.0, unit="", radius=None, epsilon=None, loss=None, adjacency=1.0, spread=None,
        tolerance=None,
    )  # fmt: skip
    at_one = _unit_radii(size)
    fading, one_shot, chebyshev = (radius * wish.adjacency for radius in at_one)
    loss = wish.loss if wish.epsilon is None else wish.epsilon * wish.adjacency
    if loss is None:
        point = None if not wish.radius else (fading / wish.radius, wish.radius)
    else:
        point = (loss, fading / loss)
    return Curve(fading, one_shot, chebyshev, wish.unit, point, (loss, wish.radius))


def _refused_curve(wish: Wish) -> Curve | None:
    curve = _curve(wish) if wish.radius != 0 else None
    return None if curve is None else replace(curve, point=None)


def _way(form: Form, name: str, value: float) -> Way:
    """Return the change of the form that makes the question feasible, as the sentence shows it."""
    shown = str(value) if isinstance(value, int) else shown_up(value, 4)
    change = {"budget": shown, "privacy": "epsilon"} if name == "epsilon" else {name: shown}
    if name == "failure_probability":
        change = {"probability": near(100 * (1 - value) - 5e-5 * (1 - value), 6)}
    return Way(f"{name.replace('_', ' ')} {shown}", replace(form, **change))  # type: ignore[arg-type]


def _field(error: TacitError) -> str:
    if isinstance(error, GraphError):
        return "graph"
    said = str(error) if isinstance(error, InputError) else ""
    return next((where for word, where in _FIELDS.items() if said.startswith(word)), "")


def steps(curve: Curve, points: int = 60) -> FloatArray:
    """Return the losses to draw the curve at: from near 0 to well beyond what was asked or found."""
    losses = [value for value in (curve.point and curve.point[0], curve.asked[0]) if value]
    if curve.asked[1]:
        losses.append(curve.fading / curve.asked[1])
    top = 2.2 * max(losses, default=1.0)
    along = np.linspace(math.sqrt(0.08), 1, points)
    return np.asarray(top * along**2)
