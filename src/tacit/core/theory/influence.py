"""Accuracy of a finished run, given which messages it used.

Agents may drop out or be late, and messages may be lost. A run records whose messages were used in each
feedback, and which agents moved by it. Given this record, every value is linear in the initial values and the
noise: Σ_i a_iθ_i(0) + Σ_{i,u} b_{i,u}η_i(u), where u is the number of an agent's update. The record is
public, so anyone can compute the coefficients by tracing the value back through the updates
(docs/proofs/influence.md). Memory and time are O(rounds × agents), on a graph O(rounds × (agents + edges)).

The radius assumes that the choice of messages does not depend on the noise. `tacit.core.theory.selection` has
a radius without this assumption.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from tacit.base.arrays import FloatArray, IntArray
from tacit.base.errors import ParameterError, RecordTooLarge, StateError
from tacit.core.history import History
from tacit.core.history.value import closed_pairs
from tacit.core.mechanism import Distributed, Mechanism
from tacit.core.mechanism.lattice import Lattice
from tacit.core.theory.laplace_sum import LaplaceSum, per_component
from tacit.core.theory.once_sums import OnceSum, once_sum
from tacit.core.theory.targets import weights

_MOST_TERMS = 20_000_000
_MANTISSA = 40  # bits kept of a scale, rounded up, so that nearly equal scales merge into one term
_EPS = float(np.finfo(np.float64).eps)


class Layer(NamedTuple):
    """The feedback of one round: means, and who moved by them.

    Entry e is a message of agent `said[e]` at its update `update[e]`, used in feedback `into[e]`.
    Then agent `moved[m]` made an update with feedback `by[m]`.
    """

    said: IntArray
    update: IntArray
    into: IntArray
    moved: IntArray
    by: IntArray


@final
@dataclass(frozen=True, eq=False)
class Value:
    """A value of a finished run: Σ a_iθ_i(0) plus noise of a known law.

    Attributes
    ----------
    weights : array, shape (n,)
        a_i: the actual weight of each initial value. They add up to 1.
    declared : array, shape (n,)
        w_i: the weights of the declared target.
    noise : LaplaceSum or OnceSum
        The law of Σ b_{i,u}η_i(u), its scales rounded up.
    rounding : float
        The most by which rounding to lattices can move the value.
    is_feedback : bool
        Whether it is a feedback, which consists of the messages of its round only; otherwise it is a state.
    """

    weights: FloatArray
    declared: FloatArray
    noise: LaplaceSum | OnceSum
    rounding: float = 0.0
    is_feedback: bool = False

    @property
    def bias(self) -> float:
        """½Σ|a_i − w_i|: how far the weights are from the declared ones.

        Times the spread, it is the largest possible distance between the two targets.
        """
        return 0.5 * float(np.sum(np.abs(self.weights - self.declared)))

    def radius(self, failure_probability: float, *, spread: float = 0.0, components: int = 1) -> float:
        """Return a radius around the declared target.

        P(|value − declared target| > r) is at most the failure probability. The choice of
        messages must not depend on the noise.

        Parameters
        ----------
        spread : float
            Largest minus smallest initial value. With 0 the radius is around the target that was actually
            met, Σ a_iθ_i(0).
        components : int
            With 1 the radius is for one component of the values. With k it covers all k at once.
        """
        b = per_component(failure_probability, components)
        reached = self.noise.quantile(b, offset=self.shift(spread)).high
        return math.nextafter(reached + self.rounding, math.inf)

    def shift(self, spread: float) -> float:
        """Return the largest distance between the two targets.

        It is rounded up.
        """
        if not (math.isfinite(spread) and spread >= 0):
            raise ParameterError(f"spread must be at least 0, got {spread}.")
        # each coefficient is a sum of n rounded products, with an error below n·ε
        return spread * (self.bias + 4 * self.weights.size * _EPS)


@final
@dataclass(frozen=True, eq=False)
class RunInfluence:
    """Which messages a run used.

    Make one with `of`, or with `server`, `graph` or `everyone`.

    Examples
    --------
    >>> from tacit import ClientServer, Fading
    >>> mechanism = ClientServer(Fading(0.5, 1, 0.9), agents=3)
    >>> server(mechanism, [[0, 1, 2], [0, 1]]).feedback().weights.round(4)
    array([0.4167, 0.4167, 0.1667])
    """

    mechanism: Mechanism
    layers: tuple[Layer, ...]
    lattice: Lattice | None = None

    def __post_init__(self) -> None:
        if self.terms > _MOST_TERMS:
            raise RecordTooLarge(
                f"updates must be at most {_MOST_TERMS:,} in all, got {self.terms:,}: look at fewer rounds."
            )

    @cached_property
    def updates(self) -> IntArray:
        """How many updates each agent has made."""
        made = np.zeros(self.mechanism.n, dtype=np.int64)
        for layer in self.layers:
            made[layer.moved] += 1
        return made

    def entry_weights(self, layer: Layer) -> FloatArray | None:
        """The weight of each entry of a layer in its mean; None if all are equal.

        The weight of a missing message goes to the agent's own message (`Weights.keeps_missing`), or is
        shared among the messages that arrived. If only messages of weight 0 arrived, they count equally.
        """
        if not isinstance(self.mechanism, Distributed):
            return None
        rows = self.mechanism.topology
        if rows.plain and not rows.keeps_missing:
            return None
        n, graph = self.mechanism.n, rows.graph
        # Edges as numbers in rising order, because rows and the neighbours in a row are in rising order. So
        # one binary search finds the weight of an entry.
        places = np.repeat(np.arange(n), graph.degrees) * n + graph.indices
        own = layer.into == layer.said
        weight = np.where(own, rows.own[layer.into], 0.0)
        weight[~own] = rows.heard[np.searchsorted(places, (layer.into * n + layer.said)[~own])]
        if rows.keeps_missing:
            weight[own] += 1 - np.bincount(layer.into, weight, minlength=n)[layer.into[own]]
        nothing = np.bincount(layer.into, weight, minlength=n)[layer.into] == 0
        weight[nothing] = 1.0
        return weight

    @property
    def opens_once(self) -> bool:
        """Whether keepers open a single sum.

        Then everyone moves towards its feedback in every round.
        """
        return bool(self.mechanism.keepers) and self.mechanism.shadowed

    @property
    def terms(self) -> int:
        """Number of pairs of agent and update; memory grows with it."""
        return int(self.updates.sum()) + self.mechanism.n

    def agent(self, i: int) -> Value:
        """Return agent i's state after its last update, as weights and noise."""
        if not 0 <= i < self.mechanism.n:
            raise ParameterError(f"agent must be a number from 0 to {self.mechanism.n - 1}, got {i}.")
        chosen = np.zeros(self.mechanism.n)
        chosen[i] = 1.0
        return self.combination(chosen)

    def average(self) -> Value:
        """Return the average of all states, with the declared target's weights."""
        return self.combination(weights(self.mechanism))

    def combination(self, shares: FloatArray) -> Value:
        """Return Σ shares_i·θ_i as weights and noise.

        Shares are at least 0 and add up to 1.
        """
        back = _Back(self, len(self.layers))
        # Plain += is safe here and in `undo`: every agent is named once.
        back.state[back.offset + back.level] += shares
        return back.value(len(self.layers))

    def feedback(self, round: int = -1, agent: int = 0) -> Value:  # noqa: A002 - the paper's word
        """Return the feedback of a round as weights and noise.

        By default it is the last one. On a graph it is that of one agent.
        """
        count = len(self.layers)
        k = round + count if round < 0 else round
        if not 0 <= k < count:
            raise ParameterError(f"round must be from 0 to {count - 1}, got {round}.")
        into = agent if isinstance(self.mechanism, Distributed) else 0
        if not np.any(self.layers[k].into == into):
            raise ParameterError(f"agent {agent} must have made a mean in round {k}, and has not.")
        back = _Back(self, k)
        given = np.zeros(self.mechanism.n)
        given[into] = 1.0
        back.mean(k, given)
        return back.value(k + 1)


class _Back:
    """Traces a value back: the weight of each state, shadow and draw in it."""

    def __init__(self, run: RunInfluence, before: int) -> None:
        self.run = run
        mechanism = run.mechanism
        self.level = np.zeros(mechanism.n, dtype=np.int64)
        for layer in run.layers[:before]:
            self.level[layer.moved] += 1
        # Agents have made different numbers of updates, so their states are stored one after the other, not
        # in a rectangle: a late agent would cost as much memory as the others.
        self.offset = np.concatenate([[0], np.cumsum(run.updates[:-1] + 1)]).astype(np.int64)
        motion = mechanism.motion
        self.sigma = np.broadcast_to(np.asarray(motion.pull, dtype=np.float64), mechanism.n)
        self.keep = np.broadcast_to(np.asarray(motion.keep, dtype=np.float64), mechanism.n)
        self.state = np.zeros(run.terms)  # θ_i(u) at offset_i + u
        self.said = np.zeros(run.terms)  # message u of agent i
        # The same array if messages are made from the states: what is added to one is added to both.
        self.shadow = self.state if not mechanism.shadowed else np.zeros(run.terms)
        self.given = np.zeros(len(run.layers))  # weight of the feedback of each round of a server
        self.before = before

    def mean(self, t: int, share: FloatArray) -> None:
        """Undo phase (ii): spread a mean's weight over its messages.

        In eq:y_dis all messages have the same weight.
        """
        t = 0 if self.run.opens_once else t
        layer = self.run.layers[t]
        weight = self.run.entry_weights(layer)
        total = np.bincount(layer.into, weight, minlength=self.run.mechanism.n)
        self.given[t] += share[0]
        part = (share / np.where(total > 0, total, 1))[layer.into]
        part = part if weight is None else part * weight
        place = self.offset[layer.said] + layer.update
        # add.at, because a message may be in several means. `self.said[place] += part` would count it once.
        np.add.at(self.said, place, part)
        np.add.at(self.shadow, place, part)

    def undo(self, t: int) -> None:
        """Undo phase (iv): spread a state's weight over its two parts.

        These are 1 − σ of the last state and σ of the feedback, eq:upd and eq:upd_dis.
        """
        layer = self.run.layers[t]
        place = self.offset[layer.moved] + self.level[layer.moved]
        sigma, keep = self.sigma[layer.moved], self.keep[layer.moved]
        taken = self.state[place].copy()
        self.state[place - 1] += keep * taken
        if self.shadow is not self.state:
            followed = self.shadow[place]
            self.shadow[place - 1] += keep * followed
            taken += followed
        self.level[layer.moved] -= 1
        share = np.zeros(self.run.mechanism.n)
        # Many agents move by the same feedback of a server.
        np.add.at(share, layer.by, sigma * taken)
        self.mean(t, share)

    def value(self, rounds: int) -> Value:
        """Trace back to the initial values and collect the weights."""
        for t in reversed(range(self.before)):
            self.undo(t)
        first, mechanism = self.offset, self.run.mechanism
        if mechanism.shadowed:
            # State and shadow start at the same value; only the shadow starts with noise on it.
            met, noise = self.state[first] + self.shadow[first], self.shadow[first]
            agents, update = np.arange(mechanism.n), np.zeros(mechanism.n, dtype=np.int64)
        else:
            met, noise = self.state[first], self.said
            agents = np.repeat(np.arange(mechanism.n), self.run.updates + 1)
            update = np.arange(self.run.terms) - first[agents]
        if mechanism.keepers:
            messages = self.given * mechanism.noise_law.scales(len(self.given))
            used = np.array([layer.said.size for layer in self.run.layers])
            scale = np.repeat(
                messages / used, mechanism.keepers
            )  # a keeper's draw enters the sum of all used messages
        else:
            messages = scale = noise * _scales(mechanism, agents, update)
        law: LaplaceSum | OnceSum = _merged(scale, self.run.terms)
        if mechanism.law.whole_domain and np.any(noise):
            alike = noise[noise > 0]
            if np.ptp(alike) > 1e-9 * alike.max():
                raise mechanism.law.undefined("unequal weights", "the radius of a run of several rounds")
            law = once_sum(mechanism.law, alike.size, alike.size * float(alike.max()))
        rounding = self._rounding(messages, rounds)
        return Value(met, weights(mechanism), law, rounding, is_feedback=rounds > self.before)

    def _rounding(self, scale: FloatArray, rounds: int) -> float:
        """The most by which rounding can move a value: docs/proofs/influence.md."""
        lattice = self.run.lattice
        if lattice is None:
            return 0.0
        steps = 1.5 * math.ldexp(float(np.sum(scale)), -lattice.bits)
        coarse = 1.5 * rounds  # a message step may be as coarse as the state step
        return (steps + (coarse + rounds + 1) * lattice.state_step) * (1 + 1e-9)


def of(history: History) -> RunInfluence:
    """Return which messages one run used, from its public history.

    No message shows who moved by the last feedback. Everyone who received it is assumed to have moved.
    """
    if history.said.ndim != 2:
        raise StateError("influence is computed for one run: choose one of these.")
    mechanism, used = history.mechanism, history.used_or_all
    lattice = None if history.wholes is None else history.wholes.lattice
    level = history.update[np.searchsorted(history.rounds_of, np.arange(history.rounds))]
    # An agent moved in a round if its next message declares one update more.
    rose = np.ones(level.shape, dtype=np.bool_)
    rose[:-1] = np.diff(level, axis=0) > 0
    if not isinstance(mechanism, Distributed):
        said = [np.flatnonzero(row) for row in used]
        updates = [row[agents] for row, agents in zip(level, said, strict=True)]
        return server(
            mechanism, said, moved=list(map(np.flatnonzero, rose)), updates=updates, lattice=lattice
        )
    pairs = history.pairs
    taken = [pairs[row & up[pairs[:, 0]]] for row, up in zip(used, rose, strict=True)]
    for t, (row, up) in enumerate(zip(taken[:-1], rose, strict=False)):
        if len(np.unique(row[:, 0])) < up.sum():
            raise StateError(f"every update in round {t} must be by at least one message.")
    updates = [row[agents[:, 1]] for row, agents in zip(level, taken, strict=True)]
    return graph(mechanism, taken, updates=updates, lattice=lattice)


def server(
    mechanism: Mechanism,
    used: Sequence[npt.ArrayLike],
    *,
    moved: Sequence[npt.ArrayLike] | None = None,
    updates: Sequence[npt.ArrayLike] | None = None,
    lattice: Lattice | None = None,
) -> RunInfluence:
    """Return a run with a server.

    Parameters
    ----------
    used : sequence of lists of agents
        For each round, the agents whose messages are in the feedback. If keepers open one sum only, the
        first list counts, and the others only give the number of rounds.
    moved : sequence of lists of agents, optional
        For each round, the agents that made an update with the feedback. By default everyone: late agents
        caught up.
    updates : like `used`, optional
        How many updates each of these agents had made before it sent the message; by default all of them.
    lattice : Lattice, optional
        The lattice of the session; then radii include rounding.
    """
    layers = []
    level = np.zeros(mechanism.n, dtype=np.int64)
    for t, listed in enumerate(used):
        said = _agents(listed, mechanism.n, f"used in round {t}")
        if not len(said):
            raise StateError(f"round {t} must have used at least one message.")
        movers = (
            np.arange(mechanism.n) if moved is None else _agents(moved[t], mechanism.n, f"moved in round {t}")
        )
        update = _updates(updates[t] if updates is not None else None, said, level, t)
        layers.append(Layer(said, update, np.zeros_like(said), movers, np.zeros_like(movers)))
        if mechanism.keepers and np.any(update != t):
            raise StateError(
                f"messages used in round {t} must all be of update {t}: keepers open one update at a time."
            )
        level[movers] += 1
    return RunInfluence(mechanism, tuple(layers), lattice)


def graph(
    mechanism: Distributed,
    used: Sequence[npt.ArrayLike],
    *,
    updates: Sequence[npt.ArrayLike] | None = None,
    lattice: Lattice | None = None,
) -> RunInfluence:
    """Return a run on a graph.

    Parameters
    ----------
    used : sequence of arrays, shape (m, 2)
        For each round, pairs (i, j): agent i used the message of j (a neighbour or itself) and moved.
        An agent without a pair made no update in that round.
    updates, lattice
        As for `server`.
    """
    layers = []
    level = np.zeros(mechanism.n, dtype=np.int64)
    for t, listed in enumerate(used):
        pairs = np.asarray(listed, dtype=np.int64).reshape(-1, 2)
        into, said = pairs.T
        if pairs.size and (pairs.min() < 0 or pairs.max() >= mechanism.n):
            raise StateError(f"agents used in round {t} must be numbers from 0 to {mechanism.n - 1}.")
        if len(np.unique(into * mechanism.n + said)) < len(said):
            raise StateError(f"agents used in round {t} must be named once for each mean.")
        if not _reaches(mechanism, into, said):
            raise StateError(f"in round {t} agents must have used neighbours' messages or their own.")
        update = _updates(updates[t] if updates is not None else None, said, level, t)
        movers = np.unique(into)
        layers.append(Layer(said, update, into, movers, movers))
        level[movers] += 1
    return RunInfluence(mechanism, tuple(layers), lattice)


def everyone(mechanism: Mechanism, rounds: int, lattice: Lattice | None = None) -> RunInfluence:
    """Return a run in which nobody was ever late or missing."""
    if not isinstance(mechanism, Distributed):
        return server(mechanism, [np.arange(mechanism.n)] * rounds, lattice=lattice)
    return graph(mechanism, [closed_pairs(mechanism)] * rounds, lattice=lattice)


def _agents(listed: npt.ArrayLike, n: int, what: str) -> IntArray:
    agents = np.asarray(listed, dtype=np.int64).reshape(-1)
    if agents.size and (agents.min() < 0 or agents.max() >= n or len(np.unique(agents)) < len(agents)):
        raise StateError(f"agents {what} must be numbers from 0 to {n - 1}, each at most once.")
    return agents


def _updates(given: npt.ArrayLike | None, said: IntArray, level: IntArray, t: int) -> IntArray:
    """Return the update of each message.

    Refuse one that is later than the updates made so far.
    """
    update = level[said] if given is None else np.asarray(given, dtype=np.int64).reshape(-1)
    if update.shape != said.shape or np.any((update < 0) | (update > level[said])):
        raise StateError(
            f"messages used in round {t} must have been made after at most as many updates as their "
            "agents had made by then."
        )
    return update


def _reaches(mechanism: Distributed, into: IntArray, said: IntArray) -> bool:
    """Whether every pair is an edge, or an agent with itself."""
    n, edges = mechanism.n, mechanism.graph
    rows = np.repeat(np.arange(n), edges.degrees) * n + edges.indices
    return bool(np.all((into == said) | np.isin(into * n + said, rows)))


def _scales(mechanism: Mechanism, agents: IntArray, update: IntArray) -> FloatArray:
    """Return the scale of each agent's update."""
    law = mechanism.law
    # One law with an entry per draw gives all scales in one call.
    own: dict[str, Any] = {
        name: v if isinstance(v, tuple) else np.broadcast_to(np.asarray(v), mechanism.n)[agents]
        for name, v in law.values().items()
    }
    return np.asarray(type(law)(**own).scale(update.astype(np.float64)))


def _merged(scale: FloatArray, terms: int) -> LaplaceSum:
    """Put terms of equal scale together, rounding scales up."""
    # Coefficients are sums of rounded products, so scales that are equal in theory differ in their last bits.
    # With 40 bits they are equal again, which saves most terms. Rounding up keeps the radius on the safe
    # side.
    mantissa, exponent = np.frexp(scale[scale > 0] * (1 + 8 * terms * _EPS))
    kept = np.ldexp(np.ceil(np.ldexp(mantissa, _MANTISSA)), exponent - _MANTISSA)
    kept, count = np.unique(kept, return_counts=True)
    return LaplaceSum(kept, np.zeros_like(kept), count.astype(np.float64), 1)
