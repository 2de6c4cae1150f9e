"""Design, the inverse of analysis: from three sides of the question, the fourth.

The sides are privacy (ε), accuracy (a radius and its failure probability), size (the number of
agents, or a graph) and rounds (to agree within a tolerance). What is left open is answered, with the noise
of least variance, and with mixing chosen for the question where it is free. A question without
an answer is answered with alternatives that do have one (`tacit.theory.alternatives`). Every answer
is compared with one-shot noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tacit.arrays import PerAgent
from tacit.errors import ParameterError
from tacit.graph import Graph
from tacit.law import Law, OneShot
from tacit.mechanism import Mechanism
from tacit.rounding import shown_up
from tacit.theory import choosing
from tacit.theory.alternatives import refuse
from tacit.theory.promise import Promise
from tacit.theory.question import Question
from tacit.theory.tables import html_table


@dataclass(frozen=True, eq=False)
class Design:
    """The answer to a design question.

    Attributes
    ----------
    promise, baseline : Promise
        What the fading noise of least variance promises, and what one-shot noise of the same ε would.
    answered : str
        The side that was left open: privacy, accuracy, size or rounds.
    smoothest : float or None
        The least mixing found that meets everything asked too, where mixing was free.
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

    @property
    def compared(self) -> str:
        """Say how the radius of one-shot noise compares."""
        if self.advantage >= 1:
            return f"{self.advantage:.3g} times smaller"
        return f"{1 / self.advantage:.3g} times larger"

    def notes(self) -> list[str]:
        """Say in sentences what a user should know besides the numbers."""
        notes = [
            f"One-shot noise of the same epsilon has radius {shown_up(self.baseline.radius)}, "
            f"{self.compared}."
        ]
        if self.advantage > 1:
            notes[0] = notes[0][:-1] + ": the difference is the price of fresh noise in every round."
        if self.promise.target == "weighted":
            notes.append(
                "The agents agree on a weighted average, in which those with more neighbours or less mixing "
                "count more. Ask for the true average to change that."
            )
        if self.smoothest is not None:
            notes.append(
                f"Smoother motion would do, too: everything asked for is met with mixing {self.smoothest:g}."
            )
        return notes

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        baseline = self.baseline.as_dict()
        shared = (
            "epsilon", "loss", "radius", "average_radius", "radius_chebyshev", "variance", "rate", "rounds",
            "noise",
        )  # fmt: skip
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
    law: type[Law] | None = None,
    one_shot: bool = False,
) -> Design:
    """Find parameters of least variance for what is asked, and the side that was left open.

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
        Fixed by the agents' dynamics, if it is; otherwise chosen for the question.
    true_average : bool
        On a graph choose σ_i ∝ |N(i)|+1, at most `mixing`, so that the target is the plain average.
    law : class of a noise law, optional
        Design noise of this law; fading noise unless given.
    one_shot : bool
        The same as ``law=OneShot``.

    Raises
    ------
    Infeasible
        When no parameters meet what is asked; says which changes of the question would do.

    Examples
    --------
    >>> answer = design(agents=500, epsilon=0.15, mixing=0.8)
    >>> round(answer.mechanism.parameters.q, 6)
    0.584804
    """
    if epsilon is not None and loss is not None:
        raise ParameterError("give epsilon or loss (= epsilon × adjacency), not both.")
    if one_shot and law is not None:
        raise ParameterError("give law or one_shot, not both.")
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
        by_loss=loss is not None,
        law=OneShot if one_shot else law,
    )
    solved = None if question.radius == 0 else choosing.solve(question)
    if solved is None:
        refuse(question)
    assert solved.epsilon is not None
    answered = _open_side(question)
    return Design(
        promise=solved.promise_of(solved.mechanism(solved.epsilon)),
        baseline=solved.promise_of(solved.one_shot(solved.epsilon)),
        answered=answered,
        smoothest=choosing.smoothest(question) if answered == "rounds" else None,
    )


def _open_side(question: Question) -> str:
    if not question.sized:
        return "size"
    if question.epsilon is None:
        return "privacy"
    return "accuracy" if question.radius is None or question.failure_probability is None else "rounds"
