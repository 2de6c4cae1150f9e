"""The plan of an audit: who, how far apart, how long, which loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacit.base.arrays import FloatArray
from tacit.base.errors import ParameterError
from tacit.base.report import counted
from tacit.base.rounding import product_up
from tacit.core.graph import Graph
from tacit.core.history import History
from tacit.core.law import Law
from tacit.core.mechanism import ClientServer, Distributed, Mechanism
from tacit.core.mechanism.lattice import LatticeAgent
from tacit.core.noise.accounting import account
from tacit.core.theory.privacy import epsilons
from tacit.lab.audit.distinguisher import loss_law
from tacit.lab.audit.report import AuditFinding, AuditReport, LossCurve
from tacit.lab.audit.testers import DECIMALS, loss_bound, rule_from_law

GROUP = 3
"""How many agents are run in place of a larger mechanism."""

_ALMOST_ALL = 0.9999  # of the loss of an endless run
_MOST_ROUNDS, _UNBOUNDED_ROUNDS, _ONE_SHOT_ROUNDS = 40, 20, 4
# Two starts whose distance is a multiple of the message step look alike modulo that step, so leaks through
# low bits would not show. √5 uses all 53 bits of a double, so its products with powers of two are on no
# coarser grid.
_OFF_GRID = math.sqrt(5) / 2
# Multiples of the golden ratio, modulo 1, are far from all fractions with a small denominator.
_GOLDEN = (math.sqrt(5) - 1) / 2
_LARGEST_LOSS = 7.0  # a larger loss cannot be proved from ten thousand sessions


@dataclass(frozen=True, eq=False)
class AuditPlan:
    """What is declared and what is varied; see `AuditReport` for the fields."""

    mechanism: Mechanism
    agent: int
    distance: float
    adjacency: float
    rounds: int
    transcripts: int
    failure_probability: float
    notes: tuple[str, ...] = ()

    def moved(self, values: FloatArray) -> FloatArray:
        """Return the values with the agent's start moved by the distance.

        For vectors only the first component moves.
        """
        others = values.copy()
        others[(self.agent, *(0,) * (values.ndim - 1))] += self.distance
        return others

    def report(self, subject: str, findings: Sequence[AuditFinding], *, curve: LossCurve) -> AuditReport:
        """Assemble the report."""
        return AuditReport(
            subject=subject,
            declared=describe(self.mechanism),
            agent=self.agent,
            distance=self.distance,
            adjacency=self.adjacency,
            rounds=self.rounds,
            transcripts=self.transcripts,
            failure_probability=self.failure_probability,
            promised=curve.promised[-1],
            measured=max(*curve.measured, *(f.loss for f in findings if f.loss is not None)),
            findings=tuple(findings),
            curve=curve,
            notes=self.notes,
        )


def own_epsilon(law: Law, messages: int | None, agent: int) -> float:
    """ε of one agent after a number of messages."""
    each = epsilons(law, messages)
    return float(each[agent] if each.ndim else each)


def weakest(mechanism: Mechanism) -> int:
    """Return the agent with the largest ε."""
    return int(np.argmax(epsilons(mechanism.law, default_rounds(mechanism.law, 0))))


def default_rounds(law: Law, agent: int) -> int:
    """Rounds that cover almost all the loss of an endless run, or a limit."""
    if law.shadowed:
        return _ONE_SHOT_ROUNDS
    try:
        aim = _ALMOST_ALL * own_epsilon(law, None, agent)
    except ParameterError:
        return min(_UNBOUNDED_ROUNDS, law.longest or _UNBOUNDED_ROUNDS)
    return next((t for t in range(1, _MOST_ROUNDS) if own_epsilon(law, t, agent) >= aim), _MOST_ROUNDS)


def best_distance(law: Law, rounds: int, agent: int, transcripts: int, failure_probability: float) -> float:
    """Return the distance at which the largest share of the loss shows.

    That is the share of the promised loss that the optimal tester is expected to prove. The result is
    √5/2 times a power of two: starts that far apart differ modulo every grid.
    """
    per_unit = own_epsilon(law, rounds, agent)
    lowest, highest = (math.frexp(loss / per_unit)[1] for loss in (0.25, _LARGEST_LOSS))
    # Small distances drown in chance, and at large ones nearly every guess is right: then the number of
    # sessions limits what is proved. So the share has a maximum in between; factors of two find it closely
    # enough.
    best, most = 0.0, 0.0
    for exponent in range(lowest - 1, highest):
        distance = math.ldexp(_OFF_GRID, exponent)
        losses = loss_law(law, rounds, distance, agent=agent, points=2**12)
        rule = rule_from_law(losses, transcripts, failure_probability)
        right, wrong = float(losses.tail(rule.high)[0]), float(losses.other_tail(rule.high)[1])
        proved = loss_bound(transcripts * right, transcripts * (right + wrong), failure_probability)
        share = proved / losses.most
        if round(share, DECIMALS) > round(most, DECIMALS):
            best, most = distance, share
    return best or math.ldexp(_OFF_GRID, math.frexp(1 / per_unit)[1])


def default_starts(n: int, distance: float) -> FloatArray:
    """Return starts between 0 and the distance that are on no grid.

    They are multiples of the golden ratio, without their whole part. A mechanism that forgets to round a
    start to its grid leaves a trace in the low bits of every message. Starts that are on the grid, such
    as 0 and powers of two, would hide it.
    """
    turns = np.arange(1, n + 1) * _GOLDEN
    return np.asarray(distance * (turns - np.floor(turns)))


def promises(transcripts: History, agent: int, distance: float) -> tuple[float, ...]:
    """Return the loss promised after each round at this distance.

    The distance is that between two starts of one agent. On a lattice it is the accounted loss,
    otherwise ε of the messages that the agent had sent.
    """
    spoken = messages(transcripts, agent)
    if transcripts.wholes is not None:
        view = transcripts.of(agent)
        own = LatticeAgent(transcripts.wholes.lattice, view.law)
        spent = account(own, spoken[-1], adjacency=distance, components=transcripts.components or 1).spent
        return tuple(float(spent[m - 1]) for m in spoken)
    law = transcripts.mechanism.law
    return tuple(product_up(own_epsilon(law, m, agent), distance) for m in spoken)


def messages(transcripts: History, agent: int) -> list[int]:
    """How many different messages the agent should have sent by each round."""
    ends = np.searchsorted(transcripts.rounds_of, np.arange(1, transcripts.rounds + 1))
    return [int(transcripts.update[:, :end, agent].max()) + 1 for end in ends.tolist()]


def stand_in(mechanism: Mechanism, agent: int, group: int = GROUP) -> tuple[Mechanism, list[int]]:
    """Return a mechanism with a few of the agents, and their numbers.

    The given agent comes first. The other agents affect only the feedback, and an agent's guarantee holds
    for every feedback (docs/proofs/privacy.md).
    """
    if mechanism.n <= group:
        return mechanism, list(range(mechanism.n))
    if isinstance(mechanism, Distributed):
        members = _nearest(mechanism.graph, agent, group)
        place = {member: i for i, member in enumerate(members)}
        edges = [
            (place[i], place[int(j)]) for i in members for j in mechanism.graph.neighbours(i) if j in place
        ]
        kept = Graph.from_edges([(i, j) for i, j in edges if i < j], n=group)
        return Distributed(mechanism.law.of_agents(members), kept), members
    members = [agent, *[i for i in range(group) if i != agent][: group - 1]]
    return ClientServer(mechanism.law.of_agents(members), agents=group), members


def group_note(members: list[int], mechanism: Mechanism) -> tuple[str, ...]:
    """Say which agents were run in place of a larger mechanism."""
    if len(members) == mechanism.n:
        return ()
    who = ", ".join(map(str, members))
    return (
        f"Only agents {who} of {mechanism.n:,} were run: an agent's guarantee does not depend on the others.",
    )


def _nearest(graph: Graph, agent: int, count: int) -> list[int]:
    """The agent and those nearest to it."""
    found = [agent]
    for member in found:
        found += [int(j) for j in graph.neighbours(member) if j not in found][: count - len(found)]
        if len(found) == count:
            break
    return found


def describe(mechanism: Mechanism) -> str:
    """Name a mechanism and its parameters in one line."""
    where = "around a server" if isinstance(mechanism, ClientServer) else "on a graph"
    if mechanism.keepers:
        where += f" with {counted(mechanism.keepers, 'keeper')}"
    law = mechanism.law
    values = [f"{word} {_range(value)}" for word, value in law.worded().items()]
    people = counted(mechanism.n, "agent")
    return f"{people} {where}, {law.name} noise: {', '.join(values)}"


def _range(value: float | FloatArray) -> str:
    low, high = f"{np.min(value):g}", f"{np.max(value):g}"
    return low if low == high else f"{low} to {high}"
