"""Design, the inverse of analysis: from three sides of the question, the fourth.

The sides are privacy (ε), accuracy (a radius and its failure probability), size (the number of
agents, or a graph) and rounds (to agree within a tolerance). What is left open is answered with
the best mixing, noise and decay; what cannot be had is answered with what has to give. Every
answer is compared with one-shot noise, which is never less accurate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from tacit.arrays import PerAgent
from tacit.errors import Infeasible, ParameterError
from tacit.graph import Graph
from tacit.mechanism import Mechanism
from tacit.theory import convergence
from tacit.theory.promise import Promise
from tacit.theory.question import Question
from tacit.theory.rounding import shown_up
from tacit.theory.tables import html_table


@dataclass(frozen=True, eq=False)
class Design:
    """The answer to a design question.

    Attributes
    ----------
    promise, baseline : Promise
        What the best fading noise promises, and what one-shot noise of the same ε would.
    answered : str
        The side that was left open: privacy, accuracy, size or rounds.
    smoothest : float or None
        The least mixing that would still meet everything asked, where mixing was free.
    """

    promise: Promise
    baseline: Promise
    answered: str
    smoothest: float | None = None

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism designed."""
        return self.promise.mechanism

    @property
    def advantage(self) -> float:
        """How many times smaller the radius would be with one-shot noise."""
        return self.promise.radius / self.baseline.radius

    def notes(self) -> list[str]:
        """Say in sentences what a user should know besides the numbers."""
        notes = [
            f"One-shot noise of the same epsilon has radius {shown_up(self.baseline.radius)}, "
            f"{self.advantage:.3g} times smaller: the difference is the price of fresh noise in every round."
        ]
        if self.promise.target == "weighted":
            notes.append(
                "The agents agree on a weighted average, in which those with more neighbours or less mixing "
                "count more. Ask for the true average to change that."
            )
        if self.smoothest is not None:
            notes.append(f"Everything asked for is met with any mixing from {self.smoothest:g} up.")
        return notes

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        baseline = self.baseline.as_dict()
        shared = ("epsilon", "loss", "radius", "radius_chebyshev", "variance", "rate", "rounds", "noise")
        return {
            "feasible": True,
            "answered": self.answered,
            **self.promise.as_dict(),
            "one_shot": {key: baseline[key] for key in shared},
            "advantage": self.advantage,
            "smoothest": self.smoothest,
            "notes": self.notes(),
        }

    def _repr_html_(self) -> str:
        title = f"{self.mechanism.n:,} agents, {self.mechanism.kind}; answered: {self.answered}"
        one_shot = ("one-shot", shown_up(self.baseline.radius), "radius of noise drawn once, at the same ε")
        return html_table(title, ("", "value", "meaning"), [*self.promise.rows(), one_shot], self.notes())


def design(
    *,
    agents: int | None = None,
    graph: Graph | None = None,
    epsilon: float | None = None,
    loss: float | None = None,
    adjacency: float = 1.0,
    radius: float | None = None,
    failure_probability: float | None = 0.05,
    rounds: int | None = None,
    tolerance: float | None = None,
    spread: float | None = None,
    mixing: PerAgent | None = None,
    true_average: bool = False,
) -> Design:
    """Find the best parameters for what is asked, and the side that was left open.

    Give at least two of privacy (`epsilon`, or `loss` = ε·adjacency), accuracy (`radius`) and
    size (`agents` or `graph`).

    Parameters
    ----------
    failure_probability : float or None
        None, with ε, a radius and a size given, asks for the failure probability.
    rounds : int, optional
        Run this many rounds and no more; agents must then agree within `tolerance`. Without it
        the guarantee covers an endless run, and the rounds to agreement are answered.
    tolerance, spread
        As in `tacit.theory.promise.promise`.
    mixing : float or one per agent, optional
        Fixed by the agents' dynamics, if it is.
    true_average : bool
        On a graph choose σ_i ∝ |N(i)|+1, at most `mixing`, so that the target is the plain average.

    Raises
    ------
    Infeasible
        When no parameters meet what is asked; says what has to give, and by how much.

    Examples
    --------
    >>> answer = design(agents=500, epsilon=0.15, mixing=0.8)
    >>> round(answer.mechanism.parameters.q, 6)
    0.584804
    """
    if epsilon is not None and loss is not None:
        raise ParameterError("give epsilon or loss (= epsilon × adjacency), not both.")
    spread = adjacency if spread is None else spread
    question = Question(
        agents=agents,
        graph=graph,
        epsilon=epsilon if loss is None else loss / adjacency,
        radius=radius,
        failure_probability=failure_probability,
        rounds=rounds,
        tolerance=spread / 1000 if tolerance is None else tolerance,
        spread=spread,
        adjacency=adjacency,
        mixing=mixing,
        true_average=true_average,
    )
    if question.radius == 0:
        _refuse_zero(question)
    if not question.sized:
        return _answer(replace(question, agents=question.least_agents()), "size")
    if question.epsilon is None:
        return _answer(replace(question, epsilon=question.least_epsilon()), "privacy")
    if question.radius is None:
        return _answer(question, "accuracy")
    mechanism = question.fading(question.epsilon)
    if question.failure_probability is None:
        return _answer(replace(question, failure_probability=question.failure_of(mechanism)), "accuracy")
    if question.radius_of(mechanism) > question.radius:
        _refuse_radius(question, mechanism)
    return _answer(question, "rounds")


def _answer(question: Question, answered: str) -> Design:
    """Return the design, now that privacy, accuracy and size fit together."""
    epsilon = question.epsilon or math.inf
    mechanism = question.fading(epsilon)
    if question.rounds is not None and question.disagreement_of(mechanism) > question.tolerance:
        _refuse_rounds(question, mechanism)
    free = answered == "rounds" and question.mixing is None
    return Design(
        promise=question.promise_of(mechanism),
        baseline=question.promise_of(question.one_shot(epsilon)),
        answered=answered,
        smoothest=question.least_mixing() if free else None,
    )


def _refuse_rounds(question: Question, mechanism: Mechanism) -> NoReturn:
    """Say how many rounds, or what tolerance or mixing, would do."""
    left = question.disagreement_of(mechanism)
    endless = replace(question, rounds=None).fading(question.epsilon or math.inf)
    gives: dict[str, float] = {
        "rounds": convergence.rounds_to_agreement(endless, question.tolerance, question.spread, question.b),
        "tolerance": left,
    }
    if question.graph is None and not isinstance(question.sigma, np.ndarray):
        gives["mixing"] = -math.expm1(math.log(question.tolerance / question.spread) / (question.rounds or 1))
    _refuse(
        f"after {question.rounds} rounds agents may still differ by {shown_up(left, 4)}, more than the "
        f"tolerance {question.tolerance:.4g}.",
        gives,
    )


def _refuse_radius(question: Question, mechanism: Mechanism) -> NoReturn:
    """Say by how much each side would have to give."""
    epsilon, radius = question.epsilon or math.inf, question.radius or 0.0
    least = question.radius_of(mechanism)
    gives: dict[str, float] = {
        "radius": least,
        "epsilon": epsilon * least / radius,
        "failure_probability": question.failure_of(mechanism),
    }
    if question.graph is None:
        gives["agents"] = question.least_agents()
    mixing = None if question.mixing is None else question.least_mixing()
    if mixing is not None:
        gives["mixing"] = mixing
    one_shot = question.radius_of(question.one_shot(epsilon))
    hint = f" So would one-shot noise, with radius {shown_up(one_shot, 4)}." if one_shot <= radius else ""
    _refuse(
        f"{mechanism.n} agents with epsilon {epsilon:.4g} cannot be kept within {radius:.4g} of the target "
        f"but for probability {question.b:.4g}.",
        gives,
        hint,
    )


def _refuse_zero(question: Question) -> NoReturn:
    """Say why the exact average cannot be had."""
    known = question.epsilon is not None and question.sized
    gives = {"radius": question.radius_of(question.fading(question.epsilon or 1.0))} if known else {}
    _refuse(
        "a radius of 0 cannot be had: no private mechanism of this kind reaches the exact average (Nozari, "
        "Tallapragada and Cortés, 2017), for whoever knows all other values could subtract them.",
        gives,
    )


def _refuse(why: str, gives: dict[str, float], hint: str = "") -> NoReturn:
    """Raise with the reason and with what would do, each enough on its own when asked again."""
    gives = {name: v if isinstance(v, int) else v * (1 + 1e-9) for name, v in gives.items()}
    shown = {name: str(v) if isinstance(v, int) else shown_up(v, 4) for name, v in gives.items()}
    ways = [f"{name.replace('_', ' ')} {value}" for name, value in shown.items()]
    remedy = f"{'Any one of these' if len(ways) > 1 else 'This'} would do: {', '.join(ways)}."
    raise Infeasible(f"{why} {remedy if ways else 'Ask for a positive radius.'}{hint}", gives)
