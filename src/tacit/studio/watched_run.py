"""A simulated session, and what an adversary learns from it.

Values and noise follow from a seed, so nothing in it is private.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from tacit.base.arrays import FloatArray
from tacit.base.errors import InputError, StateError, TacitError
from tacit.base.rounding import product_up
from tacit.core.history import History
from tacit.core.noise import SimulatedNoise
from tacit.core.question import Answer, Question
from tacit.core.theory import accuracy, privacy
from tacit.core.theory.mean_noise import ComponentNoise
from tacit.lab.audit.asked import probes
from tacit.lab.audit.beliefs import Adversary, Belief, belief
from tacit.lab.plots.fans import Fan, fan
from tacit.lab.simulation.outcome import sample_outcome
from tacit.studio.form import Form, from_query, require_choice, whole
from tacit.studio.graphs import graph
from tacit.studio.plan_answer import PlanAnswer
from tacit.studio.planning import plan

MOST_AGENTS = 2000
"""The largest session that a page plays."""
MOST_DRAWN = 400
"""The largest session whose agents are drawn one by one."""
ADVERSARIES: dict[Adversary, str] = {
    "eavesdropper": "an eavesdropper",
    "server": "the curious server",
    "compromised": "compromised agents and an eavesdropper",
    "insiders": "compromised agents alone",
    "conspirators": "all others and all keepers but one",
}
NAMED: tuple[Adversary, ...] = ("compromised", "insiders")
"""Adversaries that are a set of agents."""


@dataclass(frozen=True, eq=False, repr=False)
class WatchedRun:
    """One simulated session, and what was promised for it."""

    plan: PlanAnswer
    seed: int
    history: History
    fan: Fan
    average: FloatArray  # of the states, weighted as in the target; one per round
    target: float
    spent: FloatArray  # loss after 0, 1, …, T rounds
    places: FloatArray | None  # where the agents are drawn; None for a crowd
    answers: tuple[Answer, Answer] | None = None  # to the question: with noise, and the truth

    @property
    def rounds(self) -> int:
        """How many rounds were played."""
        return self.history.rounds

    @property
    def agents(self) -> int:
        """How many agents took part."""
        return self.history.mechanism.n


@dataclass(frozen=True)
class Watching:
    """The fields of Watch as text: setting, seed, adversary, agent, round."""

    form: Form
    seed: str = "1"
    agent: str = "0"
    adversary: Adversary = "eavesdropper"
    compromised: str = "1-5"
    round: str = ""  # which is shown; the last one if it is empty

    def query(self) -> dict[str, str]:
        """Return the fields for the address of the page."""
        own = {"seed": self.seed, "agent": self.agent, "adversary": self.adversary, "round": self.round}
        if self.adversary in NAMED:
            own["compromised"] = self.compromised
        return self.form.query() | {name: text for name, text in own.items() if text}


def watching_from_query(query: Mapping[str, str], otherwise: Form) -> Watching:
    """Read the fields of Watch from an address.

    If the address names no field of the setting, the setting is `otherwise`.

    Raises
    ------
    InputError
        If a field cannot be used.
    """
    own = {
        name: query[name] for name in ("seed", "agent", "adversary", "compromised", "round") if name in query
    }
    rest = {name: text for name, text in query.items() if name not in own}
    require_choice("adversary", own.get("adversary", "eavesdropper"), {"adversary": ADVERSARIES})
    for name in ("seed", "agent", "round"):
        if own.get(name):
            try:
                whole(own[name], 0)
            except InputError as error:
                raise InputError(f"{name}: {error}") from None
    agents_named(own.get("compromised", ""))
    return Watching(from_query(rest) if rest else otherwise, **own)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False, repr=False)
class Scene:
    """A session and a belief, or errors by field ("" for no field).

    `without` is what an eavesdropper would believe in a session for the same question without keepers. It is
    None if the session has no keepers, or the question has no answer without them.
    """

    session: WatchedRun | None = None
    belief: Belief | None = None
    without: Belief | None = None
    wrong: dict[str, str] = field(default_factory=dict)


def scene(asked: Watching) -> Scene:
    """Play a session and compute the adversary's belief.

    It does not raise for bad input: errors are part of the scene.
    """
    found = plan(asked.form)
    if found.design is None:
        return Scene(wrong={"": found.refusal or " ".join(found.wrong.values())})
    try:
        session = perform(asked.form, whole(asked.seed, 0))
    except InputError as error:
        return Scene(wrong={"seed" if "whole number" in str(error) else "": str(error)})
    try:
        agent = whole(asked.agent, 0)
    except InputError as error:
        return Scene(session, wrong={"agent": str(error)})
    try:
        told = agents_named(asked.compromised) if asked.adversary in NAMED else ()
        seen = believe(session, agent, asked.adversary, told)
        return Scene(session, seen, _without_keepers(asked.form, session, agent))
    except TacitError as error:
        where = "compromised" if asked.adversary in NAMED else "adversary"
        where = "agent" if agent >= session.agents else where
        return Scene(session, wrong={where: str(error)})


def _without_keepers(form: Form, session: WatchedRun, agent: int) -> Belief | None:
    """Return what an eavesdropper would believe without keepers."""
    alone = replace(form, keepers="0")
    if not session.history.mechanism.keepers or plan(alone).design is None:
        return None
    other = perform(alone, session.seed)
    return believe(other, agent, "eavesdropper") if agent < other.agents else None


@lru_cache(maxsize=4)
def perform(form: Form, seed: int) -> WatchedRun:
    """Play the session of a form that has an answer."""
    return _played(plan(form), seed)


def _played(found: PlanAnswer, seed: int) -> WatchedRun:
    assert found.design is not None
    assert found.question is not None
    made, mechanism, question = found.design.promise, found.design.mechanism, found.question
    asked = question.question
    if asked is None and question.components > 1:
        raise StateError(
            f"the studio plays sessions of one number per agent, got {question.components:,} components: "
            "set numbers per value to 1."
        )
    if mechanism.n > MOST_AGENTS:
        raise StateError(
            f"the studio plays sessions of up to {MOST_AGENTS:,} agents, got {mechanism.n:,}: "
            "`tacit simulate` takes more."
        )
    rounds = question.rounds or min(max(10, math.ceil(1.3 * made.rounds)), 120)
    rounds = min(rounds, 400)
    # The stream of `tacit simulate`: the same seed makes up the same values there.
    made_up = np.random.default_rng([seed, 0x7AC17])
    if isinstance(asked, Question):
        vectors = _vectors(asked, mechanism.n, made_up)
        values = vectors[:, 0]
        if not asked.moves:  # the components of a vector have no unit
            found = replace(found, form=replace(found.form, unit=""))
    else:
        values = made_up.uniform(*question.span, mechanism.n)
    noise = SimulatedNoise(seed).draw(mechanism.noise_law, rounds, mechanism.sources)
    history = mechanism.execute(values, noise)
    weights = accuracy.weights(mechanism)
    average, answers = history.theta @ weights, None
    if isinstance(asked, Question):
        off = sample_outcome(mechanism, asked.components, rounds=rounds, seed=seed)
        off[0] = average[-1] - values.mean()
        b, law = made.failure_probability, ComponentNoise.of(mechanism, rounds)
        mean = vectors.mean(axis=0)
        noisy = asked.decode((mean + off).tolist(), mechanism.n, law, b)
        answers = noisy, asked.decode(mean.tolist(), mechanism.n)
    epsilons = [privacy.epsilon(mechanism.law, t) for t in range(rounds + 1)]
    return WatchedRun(
        plan=found,
        seed=seed,
        history=history,
        fan=fan(mechanism, rounds, (0.5, made.failure_probability)),
        average=average,
        target=float(weights @ values),
        spent=np.array([product_up(epsilon, question.scope.adjacency) for epsilon in epsilons]),
        places=places(None if question.graph is None else str(question.graph), mechanism.n),
        answers=answers,
    )


def _vectors(asked: Question, n: int, made_up: np.random.Generator) -> FloatArray:
    """Return the vectors of made-up records, all over the domain."""
    records = probes(asked)
    chosen = [records[i] for i in made_up.integers(len(records), size=n).tolist()]
    return np.array([[float(number) for number in asked.encode(record).vector] for record in chosen])


@lru_cache(maxsize=16)
def places(name: str | None, n: int) -> FloatArray | None:
    """Return where to draw the agents; None if there are too many.

    They stand in a circle around the server, or are laid out by their graph.
    """
    if n > MOST_DRAWN:
        return None
    if name is None:
        angle = 2 * np.pi * np.arange(n) / n
        return np.column_stack([np.sin(angle), -np.cos(angle)])
    known = graph(name)
    if known.positions is not None:
        return known.positions
    import networkx as nx

    made: nx.Graph[int] = nx.Graph(known.edges().tolist())
    made.add_nodes_from(range(n))
    lies: dict[Any, Any] = nx.kamada_kawai_layout(made) if n <= 80 else nx.spring_layout(made, seed=1)
    return np.array([lies[i] for i in range(n)])


def edges(session: WatchedRun) -> list[tuple[int, int]]:
    """Return the links between agents; the server has number `agents`."""
    question = session.plan.question
    if question is None or question.graph is None:
        return [(i, session.agents) for i in range(session.agents)]
    return [(int(i), int(j)) for i, j in graph(str(question.graph)).edges()]


def believe(session: WatchedRun, agent: int, adversary: Adversary, compromised: Sequence[int] = ()) -> Belief:
    """Return an adversary's belief about one agent's value.

    The prior is uniform over the range.
    """
    question = session.plan.question
    assert question is not None
    return belief(
        session.history,
        agent,
        prior=question.span,
        adversary=adversary,
        compromised=compromised,
        points=161,
    )


def agents_named(text: str) -> tuple[int, ...]:
    """Read numbers of agents, like "1, 2, 5-9"."""
    found: set[int] = set()
    for part in text.replace(",", " ").split():
        first, dash, last = part.partition("-")
        low, high = whole(first, 0), whole(last if dash else first, 0)
        if high - low > MOST_AGENTS:
            raise InputError(f"{part!r} names too many agents.")
        found.update(range(low, high + 1))
    return tuple(sorted(found))
