"""What is planned: one class for all interfaces.

Python, the command line, the studio and sessions use it.

**To add a field**, add one entry to `Plan`. It says the field's default, how it is read and checked
(`kind`), which verbs take it, and its help. `tacit.design(...)` and the commands `analyze`, `audit`,
`design`, `simulate` and `session new` get the keyword or the option from that entry. Then let
`Plan.place` (server or graph) or `Plan.scope` (adjacency, spread, tolerance) use it. A field for the
studio also needs its text in `tacit.studio.form.Form`; `tests/theory/test_plan.py` fails without it.

This module imports neither numpy nor scipy, so that `tacit design --help` answers at once.
"""

# ruff: noqa: RUF009 - fields are made by a function of this module
from __future__ import annotations

import math
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import cached_property, wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar, final

from tacit.base.arguments import flag, inside_unit, number, shown, whole
from tacit.base.errors import ParameterError

if TYPE_CHECKING:
    from tacit.base.arrays import PerAgent
    from tacit.core.graph import Graph
    from tacit.core.graph.core import GraphLike
    from tacit.core.law import Law
    from tacit.core.mechanism import Mechanism
    from tacit.core.motion import Motion
    from tacit.core.question import Question

_LARGEST = sys.float_info.max
NO_KEEPERS = (
    "keepers need a server: on a graph an agent's message goes into the sum of every neighbour, so for the "
    "same loss keepers' noise would be as large as the agents' own. Give agents instead of a graph, or "
    "no keepers."
)
"""Why a mechanism without a server has no keepers."""

P = ParamSpec("P")
R = TypeVar("R")

BEST = "best"
"""In place of a law: the one with the best answer, of those that the question allows."""


@final
@dataclass(frozen=True)
class Asked:
    """How a field of a plan is read, and its help text.

    Attributes
    ----------
    kind : str
        A key of `KINDS`: how the value is checked, and how it is read from text.
    verbs : tuple of str
        Which commands take the field; "studio" is the page.
    help : str
        For the command line, with the paper's letter.
    """

    kind: str
    verbs: tuple[str, ...]
    help: str


class Scope(NamedTuple):
    """What promises are about, defaults filled in."""

    adjacency: float
    spread: float
    tolerance: float


def _asked(kind: str, verbs: str, text: str, default: Any = None) -> Any:
    return field(default=default, metadata={"asked": Asked(kind, tuple(verbs.split()), text)})


@final
@dataclass(frozen=True, kw_only=True)
class Plan:
    """A plan of private averaging: what is known of it, and what is open.

    A field that is None is open, or takes its default. Two kinds of plan share these fields. If `mixing`,
    `noise` and `decay` are given, it asks what they promise (`mechanism`). If at least two of privacy
    (`epsilon` or `loss`), accuracy (`radius`) and size (`agents` or `graph`) are given, it asks which
    parameters are best (`tacit.design`).

    Raises
    ------
    ParameterError
        If a field is out of range, or two fields exclude each other; its `field` is the field's name.

    Examples
    --------
    >>> Plan(agents=500, low=0, high=50, loss=1).scope
    Scope(adjacency=50.0, spread=50.0, tolerance=0.05)
    >>> Plan(agents=500, mixing=0.8, noise=10, decay=0.6).mechanism().n
    500
    """

    agents: int | None = _asked(
        "whole", "analyze audit design simulate session studio", "Number of agents around a server (N)."
    )
    graph: GraphLike | None = _asked(
        "graph",
        "analyze audit design simulate session studio",
        "No server: agents on a graph like ring:100, karate, or a file. See `tacit graph --help`.",
    )
    keepers: int = _asked(
        "count",
        "analyze audit design simulate studio",
        "Number of keepers that add the noise; agents trust one of them. 0: every agent adds its own noise.",
        0,
    )
    epsilon: float | None = _asked("positive", "design session studio", "Privacy per unit of adjacency (ε).")
    loss: float | None = _asked(
        "positive", "design session studio", "Privacy as epsilon × adjacency, instead of --epsilon."
    )
    radius: float | None = _asked(
        "at least 0",
        "design session studio",
        "How far from the target agents may end (r), in any one component.",
    )
    failure_probability: float | None = _asked(
        "probability",
        "analyze design simulate session studio",
        "Probability that the radius is missed, in (0, 1) (b).",
        0.05,
    )
    mixing: PerAgent | None = _asked(
        "per agent",
        "analyze audit design simulate session studio",
        "How far an agent moves towards the feedback per round, in (0, 1) (σ; not a standard deviation).",
    )
    noise: PerAgent | None = _asked(
        "per agent", "analyze audit simulate", "Scale of the Laplace noise of round 0 (c)."
    )
    decay: PerAgent | None = _asked(
        "per agent", "analyze audit simulate", "The noise of round t has scale c·q^t; above 1 - mixing (q)."
    )
    law: type[Law] | str | None = _asked(
        "law",
        "analyze audit design simulate session",
        "Noise law: fading, one-shot, constant, bits or staircase; in a design also best.  [default: "
        "one-shot in a design with a server and without --mixing, else fading]",
    )
    parameters: Any = _asked(
        "parameters",
        "analyze audit design simulate session",
        "A parameter that only the law of --law has, like rate=0.5; may be repeated.",
        (),
    )
    weights: Any = _asked(
        "weights",
        "analyze audit design simulate session",
        "On a graph: weights of the messages. closed (all neighbours and the agent alike), metropolis "
        "(the true average), edges (the graph's edge weights), or a file with lines of AGENT HEARD WEIGHT.  "
        "[default: edges if the graph has weights, else closed]",
    )
    true_average: bool = _asked(
        "flag",
        "design session studio",
        "Aim at the true average: one mixing for all, and on a graph Metropolis weights.",
        False,
    )
    low: float | None = _asked("number", "analyze design simulate session studio", "Smallest possible value.")
    high: float | None = _asked("number", "analyze design simulate session studio", "Largest possible value.")
    components: int = _asked("whole", "analyze design session studio", "How many numbers a value has.", 1)
    question: Question | str | None = _asked(
        "question",
        "analyze audit design simulate session studio",
        "Ask something else than a mean: count, sum:0:10, histogram:0,1,2,5, quantile:0,1,2,5:0.5, "
        "variance:0:10, … It has the range of its records, and hides any change of one.",
    )
    liars: int = _asked(
        "whole", "analyze design", "Also say how far so many dishonest agents can move the result.", 1
    )
    adjacency: float | None = _asked(
        "positive",
        "analyze design simulate session studio",
        "Two values of one agent that differ by at most this must be hard to tell apart (δ).  "
        "[default: 1, or the whole range if --range is given]",
    )
    spread: float | None = _asked(
        "at least 0",
        "",
        "Largest minus smallest initial value.  [default: high - low, or the adjacency]",
    )
    rounds: int | None = _asked(
        "whole",
        "analyze design simulate session studio",
        "Number of rounds (T); without it, guarantees cover an endless run.",
    )
    motion: Motion | None = _asked("motion", "", "How agents move, if not by a mixing.")
    delta: float = _asked(
        "probability", "", "Probability with which the loss of Gaussian noise may be exceeded.", 1e-6
    )
    tolerance: float | None = _asked(
        "positive",
        "analyze design simulate session studio",
        "How close agents must be to agree.  [default: spread / 1000]",
    )

    def __post_init__(self) -> None:
        for own in fields(self):
            value = getattr(self, own.name)
            if value is not None and asked(own.name).kind == "per agent":
                from tacit.base.arrays import by_label, is_labelled  # has numpy

                value = by_label(value, self._names(), own.name) if is_labelled(value) else value
            if value is not None:
                object.__setattr__(self, own.name, KINDS[asked(own.name).kind](own.name, value))
        self._exclude("agents", "graph", "a number of agents (around a server) or a graph (without one)")
        if self.weights is not None and self.graph is None and self.sized:
            raise ParameterError(
                "weights are for a graph: a server counts every message the same. Leave them out.", "weights"
            )
        if self.true_average and self.weights not in (None, "metropolis"):
            raise ParameterError(
                "give true_average (Metropolis weights) or other weights, not both.", "weights"
            )
        if self.keepers and self.graph is not None:
            raise ParameterError(NO_KEEPERS, "keepers")
        if self.question is not None:
            self._take_question()
        self._exclude("epsilon", "loss", "epsilon or loss (= epsilon × adjacency)")
        self._exclude("spread", "low", "spread or the range (low and high)")
        if (self.low is None) != (self.high is None):
            raise ParameterError("give low and high together: they are the range of values.", "high")
        low, high = self.low or 0.0, 1.0 if self.high is None else self.high
        if self.low is not None and not (low < high and math.isfinite(high - low)):
            raise ParameterError(f"the range must be finite with low < high, got {low} to {high}.", "high")

    def _take_question(self) -> None:
        """Refuse what the question says itself; the mean is the range alone."""
        from tacit.core.question import Mean

        for name in ("low", "high", "spread", "components"):
            if getattr(self, name) != Plan.__dataclass_fields__[name].default:
                what = "range" if name in ("low", "high") else _words(name)
                raise ParameterError(f"the question says what the records are: leave the {what} out.", name)
        if isinstance(self.question, Mean):
            asked, (low, high) = self.question, self.question.box
            means = {"low": float(low), "high": float(high), "components": asked.components, "question": None}
            for name, value in means.items():
                object.__setattr__(self, name, value)
        elif self.adjacency is not None:
            raise ParameterError(
                "a smaller adjacency is for means only: a question hides any change of a record. Leave it "
                "out.",
                "adjacency",
            )
        elif self.drawn_once and not self.chosen_law.shadowed:
            from tacit.core.theory.planned_answer import no_motion

            raise ParameterError(no_motion(self.asked), "law")

    def _names(self) -> Sequence[Hashable]:
        """What the agents are called, before anything is checked."""
        if self.graph is None:
            return range(self.agents or 0)
        from tacit.core.graph import Graph

        return Graph.of(self.graph).names

    def _exclude(self, one: str, other: str, what: str) -> None:
        if getattr(self, one) is not None and getattr(self, other) is not None:
            raise ParameterError(f"give {what}, not both.", other)

    @classmethod
    def names(cls, verb: str | None = None) -> tuple[str, ...]:
        """Return the names of the fields that a verb takes, or of all."""
        return tuple(f.name for f in fields(cls) if verb is None or verb in asked(f.name).verbs)

    def given(self) -> dict[str, Any]:
        """Return the fields that differ from their default."""
        said = {own.name: (getattr(self, own.name), own.default) for own in fields(self)}
        return {name: value for name, (value, usual) in said.items() if value is not usual and value != usual}

    @cached_property
    def scope(self) -> Scope:
        """Adjacency, spread and tolerance, with the defaults of the help."""
        if self.question is not None:
            return scope(self.asked.adjacency, None, self.tolerance, self.span)
        span = None if self.low is None else self.span
        return scope(self.adjacency, self.spread, self.tolerance, span, self.components)

    @property
    def asked(self) -> Question:
        """What is asked: the question, or the mean of the values."""
        from tacit.core.question import Mean, Question

        if self.question is None:
            return Mean(*self.span, self.components)
        assert isinstance(self.question, Question)
        return self.question

    @staticmethod
    def read_word(text: str | None) -> Question | None:
        """Read a question in one word; None if there is none."""
        return None if text is None else _question("question", text)

    @property
    def drawn_once(self) -> bool:
        """Whether fresh noise in every round makes no sense for the question."""
        return self.question is not None and self.graph is None and not self.asked.moves

    @property
    def best_law(self) -> bool:
        """Whether a design is to compare all laws that the question allows."""
        return self.law == BEST

    def whole_domain_laws(self) -> tuple[type[Law], ...]:
        """Return the laws for a whole domain that this plan allows."""
        from tacit.core.law import named, names

        found = []
        for law in [law for law in map(named, names()) if law.whole_domain]:
            try:
                self.require_whole_domain(law)
            except ParameterError:
                continue
            found.append(law)
        return tuple(found)

    def require_whole_domain(self, law: type[Law]) -> None:
        """Refuse a law for a whole domain that this plan does not allow."""
        what, asked = f"{law.name} noise", self.asked
        law.require_mechanism(served=self.graph is None, keepers=self.keepers)
        if isinstance(self.mixing, tuple):
            raise ParameterError(
                f"{what} needs one mixing for all agents: its radius is known for equal weights only. Give "
                "one number.",
                "mixing",
            )
        if self.scope.adjacency != asked.adjacency:
            raise ParameterError(
                f"the adjacency with {what} must be the whole domain, {asked.adjacency:g}, got "
                f"{self.scope.adjacency:g}: closer values cost nearly as much. Leave it out, or take "
                "one-shot noise.",
                "adjacency",
            )
        if asked.components > 1 and not (law.two_valued and asked.one_hot):
            only = "one number or a histogram" if law.two_valued else "one number"
            raise ParameterError(
                f"{what} is for {only}, got a {asked.kind} of {asked.components} components: take one-shot "
                "noise.",
                "law",
            )

    @cached_property
    def chosen_law(self) -> type[Law]:
        """The noise law asked about: fading noise unless another was named."""
        from tacit.core.law import Fading, OneShot, named

        if self.law is None or self.best_law:
            once = self.drawn_once or (self.best_law and self.graph is None and self.mixing is None)
            return OneShot if once else Fading
        return named(self.law) if isinstance(self.law, str) else self.law

    @cached_property
    def network(self) -> Graph | None:
        """The graph, read from its name or file where one was given."""
        from tacit.core.graph import Graph

        return None if self.graph is None else Graph.of(self.graph)

    @cached_property
    def rows(self) -> Any:
        """The weights on the graph, read from their file where one was given."""
        from tacit.core.mechanism.topology import rule_names

        if self.true_average or (self.question is not None and self.weights is None):
            return "metropolis"
        if not isinstance(self.weights, str) or self.weights in rule_names():
            return self.weights
        from tacit.core.graph.files import read_weight_matrix

        assert self.network is not None
        return read_weight_matrix(self.weights, self.network)

    @property
    def span(self) -> tuple[float, float]:
        """The range of values; an error if it was not given."""
        if self.question is not None:
            return self.asked.box
        if self.low is None or self.high is None:
            raise ParameterError("the range of values is missing: give low and high, or a question.", "low")
        return self.low, self.high

    @property
    def sized(self) -> bool:
        """Whether the number of agents is given."""
        return self.agents is not None or self.graph is not None

    def place(self, law: Law, agents: int | None = None) -> Mechanism:
        """Return the mechanism with this law.

        It is on the graph, or around a server for `agents` agents.
        """
        from tacit.core.mechanism import ClientServer, Distributed

        if self.network is not None:
            return Distributed(law, self.network, self.rows)
        return ClientServer(law, agents=1 if agents is None else agents, keepers=self.keepers)

    def mechanism(self) -> Mechanism:
        """Return the mechanism for mixing, noise and decay.

        Missing and superfluous parameters are refused.
        """
        if self.best_law:
            raise ParameterError("the law best is for designs: name the law whose noise is given.", "law")
        law = self.chosen_law
        own = self.own_parameters()
        if law.whole_domain and (self.low is not None or self.question is not None):
            self.require_whole_domain(law)
            if isinstance(self.noise, float):
                own = law.located(self.noise, self.span[0], self.scope.adjacency) | own
        given = {word: getattr(self, word) for word in ("mixing", "noise", "decay")} | own
        missing = [word for word in law.words() if word not in law.further() and given[word] is None]
        if missing:
            raise ParameterError(
                f"{law.name} noise needs {' and '.join(missing)}: `tacit design` finds the best.", missing[0]
            )
        for word in ("noise", "decay"):
            if given[word] is not None and word not in law.words():
                raise ParameterError(f"{law.name} noise has no {word}: leave it out.", word)
        law.require_further(own)
        if not self.sized:
            raise ParameterError("give a number of agents (around a server) or a graph.", "agents")
        return self.place(law.from_words(given), self.agents)

    def own_parameters(self) -> dict[str, PerAgent]:
        """Return the parameters that only the chosen law has.

        Parameters that it does not have are refused.
        """
        law = self.chosen_law
        for word, _ in self.parameters:
            if word not in law.further():
                has = f"its own are {', '.join(law.further())}" if law.further() else "it has none of its own"
                field = f"{word} has a field of its own" if word in ("mixing", "noise", "decay") else has
                raise ParameterError(
                    f"parameters must be those that only {law.name} noise has, got {word}: {field}.",
                    "parameters",
                )
        return dict(self.parameters)

    def promised(self) -> dict[str, Any]:
        """Return the keyword arguments of `tacit.analyze`, besides the mechanism."""
        return {
            **self.scope._asdict(),
            "failure_probability": self.failure_probability,
            "rounds": self.rounds,
            "components": self.components,
            "question": self.question,
            "low": self.low,
            "high": self.high,
            "liars": self.liars,
        }


def asked(name: str) -> Asked:
    """Return how a field of a plan is read, and its help text."""
    found: Asked = Plan.__dataclass_fields__[name].metadata["asked"]
    return found


def scope(
    adjacency: float | None,
    spread: float | None,
    tolerance: float | None,
    span: tuple[float, float] | None = None,
    components: int = 1,
) -> Scope:
    """Fill in the defaults of what was not given.

    They come from the range of values (`span`) if there is one.
    """
    if adjacency is None:
        adjacency = 1.0 if span is None else _whole_range(*span, components)
    if spread is None:
        spread = adjacency if span is None else span[1] - span[0]
    # Values that are all equal agree from the start, within any tolerance.
    return Scope(adjacency, spread, (spread or adjacency) / 1000 if tolerance is None else tolerance)


def _whole_range(low: float, high: float, components: int) -> float:
    from tacit.core.question import Mean  # has numpy

    return Mean(low, high, components).adjacency


def asks(plan: Callable[P, Plan]) -> Callable[[Callable[[Plan], R]], Callable[P, R]]:
    """Let a function of a plan take its fields as keywords.

    The keywords have the fields' types.
    """

    def decorate(answer: Callable[[Plan], R]) -> Callable[P, R]:
        @wraps(answer)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            _require_names(answer.__name__, args, kwargs)
            return answer(plan(*args, **kwargs))

        shape = signature(answer)
        call.__signature__ = signature(plan).replace(  # type: ignore[attr-defined]
            return_annotation=shape.return_annotation
        )
        return call

    return decorate


def _require_names(asked_of: str, args: tuple[Any, ...], names: Iterable[str]) -> None:
    """Refuse what is not a field of a plan, in the caller's words."""
    known = Plan.names()
    if args:
        raise TypeError(f"{asked_of}() takes parameters by name only, like {asked_of}({known[0]}=...).")
    for name in names:
        if name not in known:
            close = get_close_matches(name, known, 1)
            meant = f" Did you mean {close[0]!r}?" if close else ""
            raise TypeError(f"{asked_of}() has no parameter {name!r}.{meant} It has {', '.join(known)}.")


# ---- how fields are checked -------------------------------------------------------------------------


def _number(
    name: str, value: Any, must: str = "be a finite number", least: float = -sys.float_info.max
) -> float:
    return number(_words(name), value, must, least=least, field=name)


def _positive(name: str, value: Any) -> float:
    return _number(name, value, "be a positive number", least=math.ulp(0.0))


def _at_least_0(name: str, value: Any) -> float:
    return _number(name, value, "be a number of at least 0", least=0.0)


def _whole(name: str, value: Any) -> int:
    return whole(_words(name), value, 1, name)


def _count(name: str, value: Any) -> int:
    return whole(_words(name), value, 0, name)


def _probability(name: str, value: Any) -> float:
    why = "no bound on Laplace noise holds with certainty"
    return inside_unit(_words(name), value, why, name)


def _per_agent(name: str, value: Any) -> float | tuple[float, ...]:
    """Return one number, or a tuple of one per agent.

    The law checks their range.
    """
    value = value.tolist() if hasattr(value, "tolist") else value  # an array, or a number of numpy's
    if isinstance(value, Iterable) and not isinstance(value, str):
        return tuple(_number(name, each) for each in value)
    return _number(name, value)


def _flag(name: str, value: Any) -> bool:
    return flag(_words(name), value, name)


def _graph(name: str, value: Any) -> Graph | str:  # noqa: ARG001
    """Return a graph, or its name or file, which is read when it is needed."""
    if isinstance(value, str):
        return value
    from tacit.core.graph import Graph

    return Graph.of(value)


def _law(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return value
    from tacit.core.law import Law

    if isinstance(value, type) and issubclass(value, Law):
        return value
    given = f"a law, {value.name}, with its parameters" if isinstance(value, Law) else shown(value)
    raise ParameterError(
        f"{name} must be the name or the class of a noise law, got {given}. Give 'fading' or Fading, say.",
        name,
    )


def _parameters(name: str, value: Any) -> tuple[tuple[str, float | tuple[float, ...]], ...]:
    """Return (name, value) pairs, from pairs or a mapping."""
    pairs = value.items() if isinstance(value, Mapping) else value
    must = f"{name} must be a mapping from names to numbers, like {{'rate': 0.5}}"
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise ParameterError(f"{must}, got {shown(value)}.", name)
    found: dict[str, float | tuple[float, ...]] = {}
    for pair in pairs:
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)):
            raise ParameterError(f"{must}, got {shown(pair)} in it.", name)
        if pair[0] in found:
            raise ParameterError(f"each parameter must be given once, got {pair[0]} twice.", name)
        found[pair[0]] = _per_agent(pair[0], pair[1])
    return tuple(found.items())


def _question(name: str, value: Any) -> Question:
    from tacit.core.question import Question, parse_question

    if isinstance(value, Question):
        return value
    if not isinstance(value, str):
        raise ParameterError(
            f"{name} must be a question, like tacit.Histogram([0, 1, 2]), or its word, got {shown(value)}.",
            name,
        )
    try:
        return parse_question(value)
    except ParameterError as error:
        raise ParameterError(str(error), name) from None


def _motion(name: str, value: Any) -> Motion:
    from tacit.core.motion import Motion

    if isinstance(value, Motion):
        return value
    raise ParameterError(
        f"{name} must say how agents move, like tacit.Linear(A, B, C, private=…), got {shown(value)}.", name
    )


def _as_given(name: str, value: Any) -> Any:  # noqa: ARG001
    return value


def _words(name: str) -> str:
    return name.replace("_", " ")


KINDS: dict[str, Callable[[str, Any], Any]] = {
    "number": _number,
    "positive": _positive,
    "at least 0": _at_least_0,
    "whole": _whole,
    "count": _count,
    "probability": _probability,
    "per agent": _per_agent,
    "graph": _graph,
    "law": _law,
    "parameters": _parameters,
    "weights": _as_given,
    "motion": _motion,
    "flag": _flag,
    "question": _question,
}
"""How a field is checked, by its kind; each error names the field."""
