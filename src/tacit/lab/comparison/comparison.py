"""The result of a comparison: one frozen row per method."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tacit.base.errors import ParameterError
from tacit.base.report import Grid, dataframe, html, latex, near, up
from tacit.base.rounding import fraction_up, shown_up
from tacit.core.motion import Linear
from tacit.core.question import Question
from tacit.core.theory.advice import ALL_KEEPERS
from tacit.core.theory.planned_answer import question_word
from tacit.lab.comparison.case import Case
from tacit.lab.comparison.method import Guarantee

if TYPE_CHECKING:
    import pandas as pd


_PARTS = 6  # of an answer, in a table


@dataclass(frozen=True)
class MethodResult:
    """One method: what it promises, how far off it was, and what it cost.

    Attributes
    ----------
    error, error_quantile : float
        Error of the agents' average: its root mean square, and the size that is exceeded with the failure
        probability.
    error_closed_form, radius : float or None
        The same two in closed form; the radius is rounded up. None if neither is proved.
    least_error : float or None
        The least root mean square error of any unbiased method with the same guarantee; None if the
        guarantee is not pure differential privacy (docs/proofs/bounds.md).
    error_standard_error, agent_standard_error, attack_standard_error : float
        Standard errors of `error`, `agent_error` and `attack_error`, from the spread between runs.
    bias, bias_standard_error : float
        Mean of the error, and the standard error of that mean.
    agent_error : float
        Root mean square of the agents' own final states minus the true average.
    agreed_after : int or None
        Rounds after which, in 95% of the runs, all agents stay within the tolerance; None if never.
    disagreement : float
        Median over the runs of the largest difference between two agents at the end.
    attack_error : float
        Root mean square error of the most likely value of one agent, for an eavesdropper who sees
        everything and has no prior knowledge.
    answers : dict or None
        With a question, the root mean square error of each part of its answer.
    """

    name: str
    title: str
    source: str
    needs: str
    guarantee: Guarantee
    settings: dict[str, float]
    rounds: int
    error: float
    error_standard_error: float
    error_quantile: float
    error_closed_form: float | None
    least_error: float | None
    radius: float | None
    bias: float
    bias_standard_error: float
    agent_error: float
    agent_standard_error: float
    agreed_after: int | None
    disagreement: float
    messages: int
    bytes: int
    attack_error: float
    attack_standard_error: float
    answers: dict[str, float] | None = None

    @property
    def times_least_deviation(self) -> float | None:
        """The error over the least possible one; None if no bound is known."""
        if self.least_error is None or self.error_closed_form is None:
            return None
        return self.error_closed_form / self.least_error

    @property
    def privacy(self) -> str:
        """The guarantee in words, ε rounded up."""
        given = self.guarantee
        if given.epsilon is None:
            return "not differentially private"
        if given.kind in ("pure", "one honest keeper"):
            return f"ε = {shown_up(given.epsilon)}"
        worst = f"; ε = {shown_up(given.worst, 4)} at worst" if given.worst is not None else ""
        return f"ε = {shown_up(given.epsilon)} on average{worst}; δ = {given.delta:g}"

    def private(self) -> tuple[str, ...]:
        """Return the promise and what the attack found, for people."""
        attack = with_error(self.attack_error, self.attack_standard_error)
        return self.title, self.privacy.replace("; ", "\n"), self.guarantee.against, attack, self.needs

    def accurate(self) -> tuple[str, ...]:
        """Return the method's errors, and its rounds and messages, for people."""
        return (
            self.title,
            with_error(self.error, self.error_standard_error),
            "-" if self.error_closed_form is None else _small(self.error_closed_form),
            "" if self.times_least_deviation is None else f"{self.times_least_deviation:.3g}",
            _small(self.error_quantile),
            "-" if self.radius is None else up(self.radius, 4 if self.radius > 1e-3 else 3),
            with_error(self.agent_error, self.agent_standard_error),
            "never" if self.agreed_after is None else near(self.agreed_after),
            near(self.messages),
        )


@dataclass(frozen=True, eq=False)
class Comparison:
    """All methods on one graph, one set of values and one ε.

    It contains no value of an agent.
    """

    case: Case
    runs: int
    seed: int
    agent: int
    failure_probability: float
    rows: tuple[MethodResult, ...]
    question: Question | None = None
    motion: Linear | None = None

    @property
    def label(self) -> str | None:
        """The attacked agent's label; None if agents are only numbered."""
        graph = self.case.graph
        return None if graph.labels is None else str(graph.label(self.agent))

    def row(self, name: str) -> MethodResult:
        """Return the row of one method."""
        for row in self.rows:
            if row.name == name:
                return row
        have = ", ".join(row.name for row in self.rows)
        raise ParameterError(f"the method must be one of {have}, got {name!r}: only these were run.")

    def notes(self) -> list[str]:
        """Return sentences that a reader of the table should know."""
        rows, notes = {row.name: row for row in self.rows}, []
        fading, once = (
            rows[name].error_closed_form if name in rows else None for name in ("graph", "one-shot")
        )
        if fading and once:
            price = fading / once
            uneven = self.case.uneven
            notes.append(
                f"One-shot noise of the same epsilon is {price:.3g} times as accurate as the paper's fading "
                f"noise on this graph at mixing {self.case.mixing:g}: the price of fresh noise in every "
                f"round{', and of degrees that differ' * uneven}."
            )
        if self.motion is not None:
            notes += self.motion.assumptions
        if "zero-sum" in rows:
            notes.append(
                "Zero-sum noise leads to the exact average in the end. But anyone who hears an agent and all "
                f"its neighbours learns its value: with an error of {rows['zero-sum'].attack_error:.3g} "
                f"after {rows['zero-sum'].rounds} rounds, exactly in the end."
            )
        if "gossip" in rows:
            notes.append(_pairs(rows["gossip"].guarantee))
        if "keepers" in rows:
            notes.append(
                "Keepers: the same epsilon with less noise, but only while one of them is honest. "
                f"{ALL_KEEPERS}"
            )
        if "bits" in rows:
            moved = fraction_up(2 * Fraction(rows["bits"].settings["B"]) / self.case.graph.n)
            notes.append(
                f"Bits: one liar moves the average by at most {shown_up(moved, 4)}, because every message is "
                "one of two numbers. Their epsilon is for the whole range: closer values cost nearly as "
                "much. What is proved is for the worst values."
            )
        if "trimmed" in rows:
            notes.append(_trimmed(self.case))
        return notes

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        case = self.case
        rows = [
            asdict(row) | {"privacy": row.privacy, "times_least_deviation": row.times_least_deviation}
            for row in self.rows
        ]
        for row in rows:
            pairs = row["guarantee"].pop("by_distance")
            row["guarantee"]["by_distance"] = [{"distance": d, "epsilon": e} for d, e in pairs]
        return {
            "agents": case.graph.n,
            "edges": case.graph.n_edges,
            "epsilon": case.epsilon,
            "adjacency": case.adjacency,
            "loss": case.loss,
            "delta": case.delta,
            "mixing": case.mixing if self.motion is None else None,
            "motion": None if self.motion is None else self.motion.name,
            "weights": case.rows.name if self.motion is None else "metropolis",
            "rounds": case.rounds,
            "tolerance": case.within,
            "keepers": case.keepers,
            "runs": self.runs,
            "seed": self.seed,
            "attacked_agent": self.agent,
            "attacked_label": self.label,
            "failure_probability": self.failure_probability,
            "target": "average",
            "question": None if self.question is None else question_word(self.question),
            "rows": rows,
            "notes": self.notes(),
        }

    def grids(self) -> tuple[Grid, ...]:
        """Return the tables of privacy and of accuracy.

        The first has the title. With a question there is a table of the errors of its answer, too.
        """
        case = self.case
        title = (
            f"{case.graph.n:,} agents, {case.graph.n_edges:,} edges; epsilon {near(case.epsilon)} per unit "
            f"of adjacency, loss {near(case.loss)}; {self.runs:,} runs of at most {case.rounds:,} rounds"
        )
        quantile = f"{near(100 * (1 - self.failure_probability))}%"
        heads = ("Accuracy", "error", "proved", "× least", quantile, "radius", "own", "agreed", "messages")
        private = ("Privacy", "guarantee", "protects against", "attack", "needs")
        right = tuple(range(1, len(heads)))
        return (
            Grid(title, private, [row.private() for row in self.rows], right=(3,)),
            *([] if self.question is None else [self._answers(self.question)]),
            Grid("", heads, [row.accurate() for row in self.rows], self._told(quantile), right),
        )

    def _answers(self, question: Question) -> Grid:
        names = list(dict.fromkeys(name for row in self.rows for name in row.answers or ()))
        shown = names[:_PARTS]
        rows = [
            (
                row.title,
                *(
                    _small(row.answers[name]) if row.answers and name in row.answers else "-"
                    for name in shown
                ),
            )
            for row in self.rows
        ]
        more = (f"{len(names) - _PARTS:,} more parts are in --json.",) if len(names) > _PARTS else ()
        head = f"Error of the {question.kind}"
        return Grid("", (head, *shown), rows, more, right=tuple(range(1, 1 + len(shown))))

    def _told(self, quantile: str) -> tuple[str, ...]:
        legend = (
            f"attack: error of the most likely value of agent {self.label or self.agent}, for an "
            "eavesdropper on everything. error: of the agents' average. own: of an agent's own state. All "
            "errors are root mean squares at the end, ± their standard errors. proved: the error by theory. "
            "× least: that divided by the least error of any unbiased method with this guarantee. "
            f"{quantile}: the error that {quantile} of the runs do not exceed. radius: the same, proved. "
            f"agreed: rounds until all agents are within {near(self.case.within)}; "
            "messages are counted until then."
        )
        return legend, *self.notes()

    def to_dataframe(self) -> pd.DataFrame:
        """Return the exact numbers as a pandas table, one row per method.

        The columns `agent` and, where the graph has labels, `label` name the attacked agent.
        """
        attacked = {"agent": self.agent} | ({} if self.label is None else {"label": self.label})
        return dataframe([attacked | row for row in self.as_dict()["rows"]])

    def to_latex(self) -> str:
        """Return both tables for a paper; they need no LaTeX package."""
        return "\n\n".join(latex(grid).strip() for grid in self.grids())

    def _repr_latex_(self) -> str:
        return self.to_latex()

    def _repr_html_(self) -> str:
        return "".join(html(grid) for grid in self.grids())


def with_error(value: float, standard_error: float) -> str:
    """Write a measured value and its standard error, significant digits only."""
    if value < 1e-14:
        return "0"  # only rounding errors
    error = float(f"{standard_error:.1g}")
    if error <= 1e-4 * value:
        return f"{value:.4g}"  # the same in every run, up to rounding
    place = math.floor(math.log10(error))
    if place >= 0 or value < 1e-3:
        return f"{value:.3g} ±{error:.0g}"
    return f"{value:.{-place}f} ±{error:.{-place}f}"


def _small(value: float) -> str:
    """Three or four digits; rounding errors are shown as 0."""
    return "0" if value < 1e-14 else near(value, 4 if value > 1e-3 else 3)


def _trimmed(case: Case) -> str:
    """Say what of trimmed means is proved, and what is not."""
    from tacit.lab.comparison.trimmed import lying, surely_robust

    few = f"{2 * case.liars + 1}-robust"
    this = "as this one is" if surely_robust(case.graph, case.liars) else "which is not known of this one"
    return (
        "Trimmed means: the epsilon is that of the fading noise, whatever the feedback is. With at most "
        f"{lying(case.liars)} of every agent, all that it takes in is between messages of honest agents. "
        f"Without noise they then agree if the graph is {few}, {this}. How far their average is from the "
        "true one is measured, without liars, and not proved."
    )


def _pairs(given: Guarantee) -> str:
    """Explain what the average over pairs does not show."""
    note = (
        "Gossip: its epsilon is an average over pairs of agents, and holds against a single agent. Against "
        f"an eavesdropper on everything epsilon is {shown_up(given.worst or 0.0, 4)}."
    )
    if not given.by_distance:
        return note
    each = ", ".join(shown_up(epsilon, 4) for _, epsilon in given.by_distance)
    return f"{note} The largest epsilon found between agents 1 edge apart, 2 edges and so on: {each}."
