"""A session: what all agents agree on before the first message.

It is public, frozen and checked. Its hash is the session's id and is in every signed message. So a member
with another roster, other parameters or another lattice is in another session. `canonical` says which bytes
are hashed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal, final, overload

import numpy as np

from tacit.base.arrays import FloatArray
from tacit.base.errors import ParameterError
from tacit.base.rounding import fraction_up
from tacit.core.graph import Graph
from tacit.core.law import Fading, Law, named
from tacit.core.mechanism import ClientServer, Distributed, Mechanism
from tacit.core.mechanism.lattice import Lattice, LatticeAgent
from tacit.core.mechanism.reach import clamp_probability
from tacit.core.mechanism.topology import Weights, read_weights, written_weights
from tacit.core.protocol.canonical import canonical_bytes, decode_session, encode_session, session_id
from tacit.core.protocol.exact_loss import exact
from tacit.core.protocol.merkle import MerkleTree
from tacit.core.protocol.moving import Moving, require_moving
from tacit.core.protocol.roster import (
    COORDINATOR,
    Member,
    OneOf,
    require_distinct,
    require_in_roster,
    require_key,
    require_name,
    roster_leaf,
)
from tacit.core.protocol.schema import Deadlines, PerMember, as_carried
from tacit.core.protocol.series import SERIES_KIND, Series
from tacit.core.question import Mean, Question
from tacit.core.series import Hides
from tacit.core.series.design import accepted_as
from tacit.core.series.vectors import Vectors
from tacit.core.theory.privacy import require_adjacency

if TYPE_CHECKING:
    import numpy.typing as npt

    from tacit.core.noise.accounting import Account
    from tacit.core.theory.promise import Promise

MOST_AGENTS = 100_000
MOST_ROUNDS = 100_000
MOST_KEEPERS = 16
MOST_COMPONENTS = 1_000_000
MOST_NUMBER_BYTES = 16 * 2**20
"""Maximum size of all numbers of one message together."""
LAST_EXPIRY = 253_402_300_799
"""The last second of the year 9999: no session expires later."""

_NOISE_ROOM = 64  # in scales of one keeper's draw
_MOST_CLAMPS = 1e-6  # probability that noise is clamped; more would be a fault of who made the session
_SPARE_BITS = 40


@final
@dataclass(frozen=True, kw_only=True)
class Session:
    """Everything public that agents must agree on.

    Parameters
    ----------
    name : str
        For people; sessions of one name may differ.
    roster : sequence of Member
        The agents, numbered in this order.
    coordinator : bytes, optional
        The coordinator's Ed25519 public key; with a server only.
    edges : sequence of pairs, optional
        Who talks to whom, by number; without a server only. Must connect all.
    weights : str or sequence of (i, j, count), optional
        How much each message counts, without a server only: the name of a rule like "metropolis", or how many
        times agent i counts the message of j, its own included, in rising order. By default every message of
        a closed neighbourhood counts the same. See `tacit.core.mechanism.topology.written_weights`.
    law : str
        The name of the noise law: "fading" (the paper's), "one-shot", "constant", or one that was registered
        with `tacit.core.law.register` by everybody who takes part.
    mixing, noise, decay : float or one per agent
        σ, c and q; decay is None where the law has none, and mixing where a motion is given.
    further : sequence of (name, float, one per agent or one per round), optional
        The law's other parameters, in the law's order.
    motion : Moving, optional
        How agents with their own dynamics move; by default they mix.
    rounds : int
        How many rounds there are.
    lattice : Lattice
        The grid of all numbers.
    adjacency : float
        Two values of one agent that differ by at most this (L1 norm) must be hard to tell apart.
    components : int
        How many numbers a value has.
    asked : Question, optional
        What is asked; the mean of the values unless given. Range, components and adjacency must be those of
        the question.
    quorum : int, optional
        The least number of messages with which a round may close; half the roster and one unless given. On a
        graph it counts the messages of an agent and its neighbours, and is 2 unless given; an agent with
        fewer neighbours needs all of them.
    keepers : sequence of Member, optional
        The members that hold masks and add the noise; with a server only. Agents then send masked numbers
        without noise, and `noise` and `decay` are those of the keepers. One honest keeper protects everyone.
    mask_bytes : int, optional
        How many bytes a masked number has; `least_mask_bytes` unless given.
    start : int, optional
        The least number of agents present before round 0, once the start deadline has passed; the quorum
        unless given. Before the deadline the start waits for all.
    expires : int
        When the session ends for everyone, in seconds since 1970-01-01 00:00 UTC. From then on no member
        joins or sends, by the clock of its own machine.
    closes : int, optional
        With a server and one exchange: until then (seconds since 1970) agents come, send their report, get a
        receipt, and leave; they come back for the result. By default a round waits for who is present.
    series : Series, optional
        Makes the session a series of means. The law, rounds, lattice and adjacency then follow from it: make
        it with `Session.of_series`.
    """

    name: str
    roster: Sequence[Member]
    coordinator: bytes | None = None
    edges: tuple[tuple[int, int], ...] | None = None
    law: str = Fading.name
    mixing: PerMember | None = None
    noise: PerMember
    decay: PerMember | None = None
    rounds: int
    lattice: Lattice
    adjacency: float = 1.0
    components: int = 1
    asked: Question | None = None
    deadlines: Deadlines = field(default_factory=Deadlines)
    quorum: int | None = None
    start: int | None = None
    expires: int
    keepers: tuple[Member, ...] = ()
    mask_bytes: int | None = None
    weights: str | tuple[tuple[int, int, int], ...] | None = None
    further: tuple[tuple[str, PerMember], ...] = ()
    series: Series | None = None
    motion: Moving | None = None
    closes: int | None = None

    def __post_init__(self) -> None:
        require_name(self.name, "a session's name")
        self._check_members()
        self._check_counts()
        if self.series is None:
            self._check_parameters()
        else:
            self._check_series(self.series)
        self._check_masks()
        self._check_window()

    @classmethod
    def of_series(cls, series: Series, **rest: Any) -> Session:
        """Return the session of a series.

        `rest` has the other fields: name, roster, coordinator, keepers, deadlines, quorum, start, expires.
        """
        return cls(series=series, **_of_series(series), **rest)

    def _check_members(self) -> None:
        if not isinstance(self.roster, OneOf):
            self._set("roster", tuple(self.roster))
        least = 1 if self.edges is None else 2
        if not least <= self.n <= MOST_AGENTS:
            raise ParameterError(f"a session must have {least} to {MOST_AGENTS} agents, got {self.n}.")
        if (self.coordinator is None) == (self.edges is None):
            raise ParameterError(
                "a session must have either a coordinator (with its key) or the edges of a graph, "
                f"got {'neither' if self.edges is None else 'both'}."
            )
        if self.coordinator is not None:
            require_key(self.coordinator, "the coordinator's key")
        self._set("keepers", tuple(self.keepers))
        if len(self.keepers) > MOST_KEEPERS:
            raise ParameterError(f"there must be at most {MOST_KEEPERS} keepers, got {len(self.keepers)}.")
        if self.keepers and self.edges is not None:
            raise ParameterError(
                "keepers need a coordinator: on a graph an agent is in as many sums as it has neighbours, "
                "and keepers would not make them more accurate at the same loss. Leave the keepers out."
            )
        known = (self.roster.member,) if isinstance(self.roster, OneOf) else self.roster
        require_distinct((*known, *self.keepers), self.coordinator)
        if self.edges is not None:
            self._set("edges", _edges(self.edges))
        if self.weights is not None:
            if self.edges is None:
                raise ParameterError("weights are for a graph: a server counts every message the same.")
            if not isinstance(self.weights, str):
                self._set("weights", tuple(map(tuple, self.weights)))
            self.graph.require_connected()

    def _check_counts(self) -> None:
        default = min(2, self.n) if self.edges is not None else self.n // 2 + 1
        self._set("quorum", default if self.quorum is None else self.quorum)
        self._set("start", self.quorum if self.start is None else self.start)
        for what, most in (
            ("rounds", MOST_ROUNDS),
            ("components", MOST_COMPONENTS),
            ("quorum", self.n),
            ("start", self.n),
            ("expires", LAST_EXPIRY),
        ):
            value = getattr(self, what)
            if type(value) is not int or not 1 <= value <= most:
                raise ParameterError(f"{what} must be a whole number from 1 to {most}, got {value!r}.")
        if self.least_start < self.least_quorum:
            raise ParameterError(
                f"start must be at least the quorum, {self.quorum}, got {self.start}: "
                "round 0 could never close."
            )

    def _check_parameters(self) -> None:
        if (self.decay is not None) != ("decay" in named(self.law).words()):
            must = "be left out" if self.decay is not None else "be given"
            raise ParameterError(f"decay must {must} with {self.law} noise.")
        self._check_moves()
        table = named(self.law).per_round
        self._set(
            "further",
            tuple(
                (name, _per_round(v, name, self.rounds) if name in table else _per_member(v, name, self.n))
                for name, v in self.further
            ),
        )
        others = named(self.law).further()
        if others != tuple(name for name, _ in self.further):
            must = f"be {', '.join(others)}, in this order" if others else "be left out"
            raise ParameterError(f"further parameters must {must} with {self.law} noise.")
        if not isinstance(self.lattice, Lattice):
            raise ParameterError(f"lattice must be a Lattice, got {type(self.lattice).__name__}.")
        for what in ("mixing", "noise", "decay"):
            if getattr(self, what) is not None:
                self._set(what, _per_member(getattr(self, what), what, self.n))
        self._set("adjacency", require_adjacency(_number(self.adjacency, "adjacency")))
        self._check_question()
        # Both refuse parameters out of range; and a law that brings a motion which the session does not have.
        if self.motion is None:
            self.mechanism.motion.pull  # noqa: B018
        else:
            require_moving(self, self.motion)
        if isinstance(self.roster, OneOf) and self.roster.own:
            self._check_own(self.roster)
        # Refused now, and not in the last round, when the loss of all others is spent.
        self._check_whole_domain(self.mechanism.law)
        for agent in set(self._agents):
            agent.scale(self.rounds - 1)  # refuses a lattice too coarse for the last noise
            for u in range(self.rounds if agent.law.per_round else 0):
                agent.scale(u)
        if self.clamp_probability > _MOST_CLAMPS:
            raise ParameterError(
                f"the session's reach must hold the range and its noise, but ±{self.lattice.reach:g} clamps "
                f"noise with a probability of {self.clamp_probability:.2g}. Raise reach_exponent, or use "
                "Lattice.fitting."
            )
        if self.number_bytes * self.components > MOST_NUMBER_BYTES:
            raise ParameterError(
                f"a message must fit in {MOST_NUMBER_BYTES} bytes, but {self.components} components of "
                f"{self.number_bytes} bytes do not. Use fewer components or a coarser lattice."
            )

    def _check_moves(self) -> None:
        """Refuse a session that says twice, or not, how its agents move."""
        if self.motion is not None and not isinstance(self.motion, Moving):
            raise ParameterError(f"motion must be a Moving, got {type(self.motion).__name__}.")
        if (self.mixing is None) != (self.motion is not None):
            must = "be left out" if self.motion is not None else "be given"
            other = "says" if self.motion is not None else "would say"
            raise ParameterError(f"mixing must {must}: the session's motion {other} how agents move.")

    def _check_whole_domain(self, law: Law) -> None:
        """Refuse what a law for a whole domain is not made for."""
        if not law.whole_domain:
            return
        if self.rounds != 1:
            raise ParameterError(
                f"a session with {law.name} noise must have one round, got {self.rounds}: it is for one "
                "question. Take one-shot or fading noise for more."
            )
        law.require_domain(self.diameter)
        law.require_domain(self.adjacency)
        law.require_range(self.lattice.low, self.components, one_hot=self.question.one_hot)

    def _check_question(self) -> None:
        low, high = self.lattice.low, self.lattice.high
        if self.asked is None or self.asked == Mean(low, high, self.components):
            self._set("asked", None)  # one encoding only
            return
        asked = as_carried(self.asked)
        self._set("asked", asked)
        # A smaller adjacency is meaningful for a mean only: it is about vectors, and records are not vectors.
        must = (*asked.box, asked.components, asked.adjacency)
        if (low, high, self.components, self.adjacency) != must:
            raise ParameterError(
                f"a session that asks for a {asked.kind} must have numbers from {must[0]:g} to {must[1]:g}, "
                f"{must[2]} components and adjacency {must[3]!r}, got {low:g} to {high:g}, {self.components} "
                f"components and adjacency {self.adjacency!r}."
            )
        self._check_course(asked)

    def _check_course(self, asked: Question) -> None:
        """Refuse what only a mean can be asked with.

        A state that fades towards others is a quantity that moves, such as a speed. A record in a bucket is
        none. Its answer needs one draw, and the number of records that were used.
        """
        what = f"a session that asks for a {asked.kind}"
        if not named(self.law).shadowed:
            raise ParameterError(
                f"{what} must draw its noise once: it is never more accurate with {self.law} noise. Take the "
                "law one-shot."
            )
        if self.edges is None and self.rounds != 1:
            raise ParameterError(
                f"{what} around a server must have one round, got {self.rounds}: more would not change the "
                "answer."
            )
        if self.edges is not None:
            from tacit.core.theory.accuracy import reaches_average

            if not reaches_average(self.mechanism):
                raise ParameterError(
                    f"{what} on a graph must aim at the true average, in which every record counts the same: "
                    "take one mixing for all, and Metropolis weights (--true-average)."
                )

    def _check_own(self, roster: OneOf) -> None:
        """Refuse own parameters of the one known agent that no session has."""
        if self.n == 1:
            raise ParameterError("an agent that is alone must not have parameters of its own.")
        # Keepers draw one noise for all. So the same is refused here as where the whole roster is known.
        given: dict[str, Any] = {
            word: np.full(self.n, value) if word in roster.own else _plain(value)
            for word, value in self.parameters.items()
        }
        if self.motion is not None:
            given["mixing"] = self.motion.motion
        ClientServer(named(self.law).from_words(given), agents=self.n, keepers=len(self.keepers))

    def _check_series(self, series: Series) -> None:
        for what, value in _of_series(series).items():
            if getattr(self, what) != value:
                raise ParameterError(f"{what} of a series follows from it, and must be {value!r}.")
        if self.coordinator is None or (self.decay, self.weights, self.further, self.motion) != (
            None,
            None,
            (),
            None,
        ):
            raise ParameterError("a series has a coordinator, and no other law.")
        self._check_asked_often(series)
        if not self.keepers:
            raise ParameterError(
                "a series needs at least one keeper: without keepers every agent would add noise of its own, "
                "and that is not supported. Name one or two members of the roster with --keepers."
            )
        if self.deadlines.round > series.interval:
            raise ParameterError(
                f"the deadline of a slot must be at most the {series.interval:g} s between slots, got "
                f"{self.deadlines.round:g} s."
            )
        if self.expires < series.ends + series.interval:
            raise ParameterError(
                "a series must not expire before one interval after its last slot: "
                f"{self.expiry} is too early."
            )

    def _check_asked_often(self, series: Series) -> None:
        """Refuse a question that is not the one its account was made for."""
        if self.asked is None or self.asked == Mean(series.low, series.high, self.components):
            self._set("asked", None)  # one encoding only
        else:
            self._set("asked", as_carried(self.asked))
        asked = self.question
        vectors = Vectors.of(asked)
        must = (*asked.box, vectors.components, vectors.distance)
        given = (series.low, series.high, series.components, series.vectors.distance)
        if given != must:
            raise ParameterError(
                f"a series that asks for a {asked.kind} must have numbers from {must[0]:g} to {must[1]:g}, "
                f"{must[2]} components and distance {must[3]!r}, got {given[0]:g} to {given[1]:g}, "
                f"{given[2]} components and distance {given[3]!r}."
            )
        series.hides.within(asked, series.low, series.high)  # refuses a step that the question has not

    def _check_masks(self) -> None:
        if not self.keepers:
            if self.mask_bytes is not None:
                raise ParameterError("mask_bytes must be left out of a session without keepers.")
            return
        least = self.least_mask_bytes
        self._set("mask_bytes", least if self.mask_bytes is None else self.mask_bytes)
        if type(self.mask_bytes) is not int or not least <= self.mask_bytes <= 4 * least:
            raise ParameterError(
                f"mask_bytes must be from {least} to {4 * least}, got {self.mask_bytes!r}: shorter masked "
                "numbers could wrap around, or hide nonsense."
            )
        if self.mask_bytes * self.components > MOST_NUMBER_BYTES:
            raise ParameterError(
                f"a message must fit in {MOST_NUMBER_BYTES} bytes, but {self.components} masked components "
                f"of {self.mask_bytes} bytes do not. Use fewer components or a coarser lattice."
            )

    def _check_window(self) -> None:
        if self.closes is None:
            return
        if self.edges is not None or self.series is not None or self.exchanges != 1:
            raise ParameterError(
                "a session that stays open must have a server, and agents that make one report: ask with one "
                "round, or with keepers and one-shot noise."
            )
        if type(self.closes) is not int or not 0 < self.closes < self.expires:
            raise ParameterError(
                f"closes must be a whole number of seconds before the session expires ({self.expires}), got "
                f"{self.closes!r}."
            )

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @property
    def n(self) -> int:
        """Number of agents N."""
        return len(self.roster)

    @property
    def exchanges(self) -> int:
        """How many rounds have messages: all, or 1 if keepers add noise once.

        In that case all agents move towards the feedback of round 0 without further messages. A series has
        one exchange per slot.
        """
        if self.series is not None:
            return self.series.slots
        return 1 if self.keepers and self.mechanism.shadowed else self.rounds

    @property
    def keeper_numbers(self) -> range:
        """The keepers' numbers: they follow the agents'."""
        return range(self.n, self.n + len(self.keepers))

    @cached_property
    def sum_limits(self) -> tuple[int, ...]:
        """The largest honest sum of each exchange, in its message steps.

        It includes noise. A larger sum is nonsense. Honest noise exceeds the limit less than once in e^60
        rounds. In a series it is the same in every slot.
        """
        if self.series is not None:
            tail = len(self.keepers) * _NOISE_ROOM * math.ceil(self.series.steps)
            return (self.series.largest_sum(self.n) + tail,)
        agent, found = self._agents[0], []
        for u in range(self.exchanges):
            reach = self.lattice.limit >> (agent.message_exponent(u) - self.lattice.state_exponent)
            tail = len(self.keepers) * _NOISE_ROOM * math.ceil(agent.draw_scale(u))
            found.append(self.n * reach + tail)
        return tuple(found)

    def sum_limit(self, u: int) -> int:
        """Return the largest honest sum of exchange u, in its message steps."""
        return self.sum_limits[0 if self.series is not None else u]

    @property
    def least_mask_bytes(self) -> int:
        """How many bytes hold every honest sum, with sign and spare bits.

        A sum with a wrong mask is random. The 40 spare bits let it pass as honest once in 2^40.
        """
        return -(-(max(self.sum_limits).bit_length() + 1 + _SPARE_BITS) // 8)

    @property
    def masked_bytes(self) -> int:
        """How many bytes all masked numbers of one message have."""
        assert self.mask_bytes is not None
        return self.mask_bytes * self.components

    @property
    def topology(self) -> Literal["server", "graph"]:
        """Whether a coordinator answers all, or agents talk to their neighbours."""
        return "server" if self.edges is None else "graph"

    @property
    def least_quorum(self) -> int:
        """The quorum, as a number."""
        return self.n if self.quorum is None else self.quorum

    @property
    def least_start(self) -> int:
        """How many must be present before round 0, as a number."""
        return self.least_quorum if self.start is None else self.start

    @property
    def expiry(self) -> str:
        """When the session expires, for people."""
        return f"{datetime.fromtimestamp(self.expires, UTC):%Y-%m-%d %H:%M:%S} UTC"

    @cached_property
    def graph(self) -> Graph:
        """Who talks to whom, without a server."""
        if self.edges is None:
            raise ParameterError("a session with a server has no graph.")
        return Graph.from_edges(self.edges, self.n)

    @property
    def parameters(self) -> dict[str, PerMember]:
        """The law's parameters by word, in its order."""
        given = {"mixing": self.mixing, "noise": self.noise, "decay": self.decay, **dict(self.further)}
        return {word: value for word in named(self.law).words() if (value := given[word]) is not None}

    @cached_property
    def mechanism(self) -> Mechanism:
        """The paper's mechanism, client-server or distributed."""
        if self.series is not None:
            raise ParameterError(
                f"session {self.name} is a series of means and has none of the paper's mechanisms: this "
                "works for other sessions only."
            )
        given: dict[str, Any] = {word: _plain(value) for word, value in self.parameters.items()}
        if self.motion is not None:
            given["mixing"] = self.motion.motion
        law = named(self.law).from_words(given)
        if self.edges is None:
            return ClientServer(law, agents=self.n, keepers=len(self.keepers))
        rows = read_weights(self.graph, self.weights)
        if written_weights(rows) != self.weights:
            raise ParameterError("weights must be in their canonical form: leave out what is the default.")
        return Distributed(law, self.graph, rows)

    @cached_property
    def _agents(self) -> tuple[LatticeAgent, ...]:
        law = self.mechanism.law
        return tuple(self.lattice.agent(law, i) for i in range(law.agents or 1))

    def lattice_agent(self, i: int) -> LatticeAgent:
        """Return the arithmetic of agent i; it holds nothing private."""
        self.require_agent(i)
        return self._agents[i if len(self._agents) > 1 else 0]

    def exponent(self, i: int, u: int) -> int:
        """Return the public exponent that message u of agent i must have."""
        if self.series is not None:
            return self.series.exponent
        return _exponent(self.lattice_agent(i), u)

    @property
    def number_bytes(self) -> int:
        """How many bytes hold any state, message or feedback, sign included."""
        return -(-self.lattice.whole_bits // 8)

    def neighbours(self, i: int) -> tuple[int, ...]:
        """Return the members that i exchanges messages with.

        On a graph these are N(i). With a server it is the coordinator, and for the coordinator all others.
        """
        if self.edges is None:
            if i == COORDINATOR:
                return tuple(range(self.n + len(self.keepers)))
            self.require_member(i)
            return (COORDINATOR,)
        return tuple(self.graph.neighbours(i).tolist())

    def counts(self, i: int, whose: Sequence[int]) -> list[int] | None:
        """Return how many times agent i counts the message of each of `whose`.

        None if all count the same.
        """
        if self.weights is None:
            return None
        row = self._counts(i)
        found = [row.get(j, 0) for j in whose]
        # Metropolis gives the share of a missing message to the own one. Other rules spread it over all.
        if self._weighted.keeps_missing and i in whose:
            found[whose.index(i)] += sum(row.values()) - sum(found)
        return found

    @property
    def _weighted(self) -> Weights:
        assert isinstance(self.mechanism, Distributed)
        return self.mechanism.topology

    def _counts(self, i: int) -> dict[int, int]:
        if i not in self._rows:
            shares = self._weighted.shares(i)
            self._rows[i] = {i: shares.own, **dict(zip(self.neighbours(i), shares.heard, strict=True))}
        return self._rows[i]

    @cached_property
    def _rows(self) -> dict[int, dict[int, int]]:
        return {}

    def key(self, i: int) -> bytes:
        """Return the public key of an agent, a keeper or the `COORDINATOR`."""
        if i == COORDINATOR and self.coordinator is not None:
            return self.coordinator
        return self.member(i).key

    def member(self, i: int) -> Member:
        """Return an agent or a keeper by its number."""
        self.require_member(i)
        return self.roster[i] if i < self.n else self.keepers[i - self.n]

    def member_name(self, i: int) -> str:
        """Return the name of agent or keeper i (or of the coordinator).

        An agent that is not known here has its number only.
        """
        if i == COORDINATOR:
            return "coordinator"
        return self.member(i).name if self.knows(i) else f"agent {i}"

    def knows(self, i: int) -> bool:
        """Whether the name and the key of member i are known here."""
        return not isinstance(self.roster, OneOf) or i >= self.n or i in (self.roster.number, COORDINATOR)

    def member_number(self, name: str, key: bytes) -> int | None:
        """Return the number of the agent or keeper with this name and key."""
        number = self.number_of_key(key)
        if number is None:
            number = next((j for j in self.keeper_numbers if self.member(j).key == key), None)
        return number if number is not None and self.member(number).name == name else None

    def index(self, name: str) -> int:
        """Return the number of the agent of this name."""
        if name not in self._numbers:
            raise ParameterError(f"there is no agent {name!r} in session {self.name}; see its roster.")
        return self._numbers[name]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {member.name: i for i, member in self._known}

    def number_of_key(self, key: bytes) -> int | None:
        """Return the number of the agent with this key; None if there is none."""
        return self._numbers_of_keys.get(key)

    @cached_property
    def _numbers_of_keys(self) -> dict[bytes, int]:
        return {member.key: i for i, member in self._known}

    @property
    def _known(self) -> Iterable[tuple[int, Member]]:
        roster = self.roster
        return [(roster.number, roster.member)] if isinstance(roster, OneOf) else enumerate(roster)

    # ---- the committed roster -------------------------------------------------------------------------

    @cached_property
    def own_words(self) -> tuple[str, ...]:
        """The words of the law's parameters that differ between agents."""
        if isinstance(self.roster, OneOf):
            return self.roster.own
        table = named(self.law).per_round if self.series is None else ()
        return tuple(
            word for word, value in self._parameters.items() if isinstance(value, tuple) and word not in table
        )

    def own(self, i: int) -> dict[str, float]:
        """Return the parameters that agent i has on its own."""
        if not self.own_words:
            return {}
        found = {word: self._parameters[word] for word in self.own_words}
        return {word: value[i] if isinstance(value, tuple) else value for word, value in found.items()}

    @cached_property
    def _parameters(self) -> dict[str, PerMember]:
        return self.parameters if self.series is None else {}

    @cached_property
    def roster_tree(self) -> MerkleTree:
        """The tree over the agents of a session with a server."""
        if self.edges is not None:
            raise ParameterError("a session on a graph has its whole roster, and no root of it.")
        return MerkleTree(roster_leaf(i, member, self.own(i)) for i, member in enumerate(self.roster))

    @property
    def root(self) -> bytes:
        """The root of the roster of a session with a server."""
        return self.roster.root if isinstance(self.roster, OneOf) else self.roster_tree.root

    def path(self, i: int) -> bytes:
        """Return the path of agent i in the tree of the roster."""
        return self.roster_tree.path(i)

    def require_listed(self, i: int) -> None:
        """Refuse if the root of the roster does not cover agent i.

        An agent of a session with a server calls it before it says anything.
        """
        if self.edges is None and not isinstance(self.roster, OneOf):  # it was checked when it was read
            leaf = roster_leaf(i, self.member(i), self.own(i))
            require_in_roster(self.root, self.n, i, leaf, self.path(i))

    @overload
    def clamp(self, values: float) -> float: ...

    @overload
    def clamp(self, values: npt.ArrayLike) -> FloatArray: ...

    def clamp(self, values: npt.ArrayLike) -> float | FloatArray:
        """Move results into the session's range, to show them to people.

        Noise can push a state or a feedback out of the range. The true average is inside, so the nearest
        number of the range is never further from it. Clamping what is public anyway costs no privacy.
        Messages, feedback and transcripts are never clamped: others compute with them.
        """
        low, high = self.question.box
        if isinstance(values, int | float):
            return float(min(high, max(low, values)))
        inside = np.clip(np.asarray(values, dtype=np.float64), low, high)
        return float(inside) if inside.ndim == 0 else inside

    def shown(self, mean: npt.ArrayLike) -> float | list[float]:
        """Return a mean for people, clamped to the range, as plain numbers."""
        inside: float | list[float] = np.asarray(self.clamp(mean)).tolist()
        return inside

    @cached_property
    def question(self) -> Question:
        """How a private record becomes numbers, and the mean vector an answer."""
        numbers = self.components if self.motion is None else self.motion.values
        return self.asked or Mean(self.lattice.low, self.lattice.high, numbers)

    @property
    def hidden(self) -> Hides | None:
        """What a series hides, as an owner accepts it; None if it is none."""
        return None if self.series is None else accepted_as(self.series.hides, self.asked)

    @cached_property
    def diameter(self) -> float:
        """The largest distance of two values of the range, rounded up.

        It is their L1 distance, or what the motion of the agents counts as one.
        """
        if self.motion is not None:
            return fraction_up(self.motion.diameter(self.lattice.low, self.lattice.high))
        return self.question.adjacency

    def require_agent(self, i: int) -> None:
        """Refuse a number that is not an agent's."""
        if not 0 <= i < self.n:
            raise ParameterError(f"agents are numbered 0 to {self.n - 1}, got {i}.")

    def require_member(self, i: int) -> None:
        """Refuse a number that is neither an agent's nor a keeper's."""
        if not 0 <= i < self.n + len(self.keepers):
            last = self.n + len(self.keepers) - 1
            raise ParameterError(f"members are numbered 0 to {last}, keepers after agents, got {i}.")

    @cached_property
    def id(self) -> bytes:
        """The session's 32-byte identity: a hash of everything above."""
        return session_id(self.canonical)

    @cached_property
    def canonical(self) -> bytes:
        """The bytes that are hashed, the same on every machine."""
        return canonical_bytes(self)

    def encode(self) -> bytes:
        """Return the canonical bytes with the whole roster beside them."""
        return encode_session(self)

    @classmethod
    def decode(cls, data: bytes) -> Session:
        """Read what `encode` wrote; refuses any other bytes."""
        return decode_session(data)

    def account(self, i: int) -> Account:
        """Return the losses of agent i if it sends in every round, rounded up."""
        return _account(self.lattice_agent(i), self.rounds, self.adjacency, self.components)

    def planned(self, i: int) -> int:
        """Return the loss of all messages of agent i, in the units of `exact`.

        For a series it is the loss at its δ.
        """
        if self.series is not None:
            return exact(self.series.loss)
        return _planned(self.lattice_agent(i), self.rounds, self.adjacency, self.components)

    @cached_property
    def clamp_probability(self) -> float:
        """At most this likely is it that noise exceeds the reach and is clamped.

        That costs accuracy, not privacy: it is part of the failure probability of a radius.
        """
        return clamp_probability(
            self.mechanism, self.lattice, self.rounds, components=self.components, quorum=self.least_quorum
        )

    def besides_clamps(self, failure_probability: float) -> float:
        """Return how likely noise within the reach may miss a radius."""
        if 0 < failure_probability <= self.clamp_probability:
            raise ParameterError(
                f"the failure probability must be above {self.clamp_probability:.2g}, with which noise is "
                f"clamped, got {failure_probability:g}."
            )
        return failure_probability - self.clamp_probability

    def promise(self, failure_probability: float = 0.05) -> SessionPromise:
        """Return what the session promises, and the loss of each agent."""
        from tacit.core.theory.promise import analyze

        made = analyze(
            self.mechanism,
            adjacency=self.adjacency,
            failure_probability=self.besides_clamps(failure_probability),
            rounds=self.rounds,
            spread=self.lattice.high - self.lattice.low,
            components=self.components,
            question=self.asked,
        )
        made = replace(made, failure_probability=failure_probability, lattice=self.lattice)
        made = replace(made, speaking=self.least_quorum)
        return SessionPromise(made, tuple(self.account(i).total for i in range(self.n)))


@final
@dataclass(frozen=True, eq=False)
class SessionPromise:
    """What a session promises.

    Attributes
    ----------
    theory : Promise
        Privacy, accuracy and agreement on real numbers, if everyone sends in every round. Its radius is for
        a single component.
    losses : tuple of float
        The largest loss of each agent's messages, on the lattice, for the session's adjacency.
    """

    theory: Promise
    losses: tuple[float, ...]

    @property
    def loss(self) -> float:
        """The largest loss of any agent."""
        return max(self.losses)


@lru_cache(maxsize=256)  # an account has a number for each round
def _account(agent: LatticeAgent, rounds: int, adjacency: float, components: int) -> Account:
    from tacit.core.noise.accounting import account

    return account(agent, rounds, adjacency=adjacency, components=components)


@lru_cache(maxsize=4096)
def _planned(agent: LatticeAgent, rounds: int, adjacency: float, components: int) -> int:
    return sum(map(exact, _account(agent, rounds, adjacency, components).losses))


@lru_cache(maxsize=65536)
def _exponent(agent: LatticeAgent, u: int) -> int:
    return agent.message_exponent(u)


def _of_series(series: Series) -> dict[str, Any]:
    """Return the fields of a session that follow from its series."""
    return {
        "law": SERIES_KIND,
        "mixing": 1.0,
        "noise": series.noise,
        "rounds": series.slots,
        "components": series.components,
        "lattice": series.lattice,
        "adjacency": series.adjacency,
    }


def _number(value: object, what: str) -> float:
    if isinstance(value, bool) or not (
        isinstance(value, int | float) or isinstance(value, np.integer | np.floating)  # noqa: SIM101 - no numpy
    ):
        raise ParameterError(f"{what} must be a number, got {value!r}.")
    if not math.isfinite(value):
        raise ParameterError(f"{what} must be finite, got {value}.")
    return float(value) + 0.0  # no negative zero: it would hash differently


def _per_member(value: object, what: str, n: int) -> PerMember:
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        each = tuple(_number(v, what) for v in value)
        if len(each) != n:
            raise ParameterError(
                f"{what} must be one number, or one for each of {n} agents, got {len(each)}."
            )
        # A session must have one encoding only, so equal numbers of all agents are written as one number.
        return each[0] if len(set(each)) == 1 else each
    return _number(value, what)


def _per_round(value: object, what: str, rounds: int) -> tuple[float, ...]:
    if not isinstance(value, Iterable) or isinstance(value, str | bytes):
        raise ParameterError(f"{what} must be one number for each of {rounds} rounds, got {value!r}.")
    each = tuple(_number(v, what) for v in value)
    if len(each) != rounds:
        raise ParameterError(f"{what} must be one number for each of {rounds} rounds, got {len(each)}.")
    return each


def _edges(edges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    pairs = []
    for pair in edges:
        i, j = (int(v) for v in pair)
        pairs.append((min(i, j), max(i, j)))
    return tuple(sorted(pairs))


def _plain(value: PerMember) -> float | np.ndarray:
    return value if isinstance(value, float) else np.array(value)
