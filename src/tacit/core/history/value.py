"""A history: the public part of a run, and its private part.

Only the owner has the private part. Messages are in *slots*. Usually there is one slot per round. If an agent
was asked again in a round, there is one more slot with that round's number. `said` marks the messages that
exist. A missing message is 0 and is never used.

A history is of one run, or of many runs of one mechanism side by side. Then every array has a first axis for
the runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
import numpy.typing as npt

from tacit.base.arrays import BoolArray, FloatArray, IntArray, frozen, require_finite
from tacit.base.errors import StateError
from tacit.base.report import dataframe, html, latex
from tacit.core.law import Law
from tacit.core.mechanism import Distributed, Mechanism
from tacit.core.mechanism.lattice import Lattice
from tacit.core.mechanism.whole import WholeArray
from tacit.core.motion import Motion

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Observation:
    """What an adversary saw: the projection α↓ of a history.

    A part that was not seen is None. `theta` holds the internal states of the compromised
    `agents`, in their order.
    """

    x: FloatArray | None = None
    y: FloatArray | None = None
    agents: tuple[int, ...] = ()
    theta: FloatArray | None = field(default=None, repr=False)

    def matches(self, other: Observation, rtol: float = 1e-9, atol: float = 1e-12) -> bool:
        """Whether the two are equal, up to rounding."""

        def same(a: FloatArray | None, b: FloatArray | None) -> bool:
            if a is None or b is None:
                return a is b
            return a.shape == b.shape and bool(np.allclose(a, b, rtol=rtol, atol=atol))

        return (
            self.agents == other.agents
            and same(self.x, other.x)
            and same(self.y, other.y)
            and same(self.theta, other.theta)
        )


@final
@dataclass(frozen=True, eq=False, repr=False)
class Wholes:
    """The whole numbers that were sent on a lattice.

    Floats may not hold all their digits.

    Attributes
    ----------
    x : array of whole numbers, shaped like the messages
        In message steps; 0 where no message was sent.
    y : array of whole numbers, shaped like the feedback
        In state steps.
    """

    lattice: Lattice
    x: WholeArray
    y: WholeArray


@final
@dataclass(frozen=True, eq=False, repr=False)
class Private:
    """The private part of a history. Its repr does not show it.

    Attributes
    ----------
    theta : array, shape (rounds + 1, n) or (rounds + 1, n, k)
        Internal states.
    eta : array, shaped like the messages, or None
        Noise, if it was recorded. With keepers, one column per keeper.
    states, draws : arrays of whole numbers, or None
        The same on a lattice: in state steps, and in message steps.
    sent, whole_sent : arrays shaped like the messages, or None
        With keepers: what agents send under masks, which is as private as their states.
    """

    theta: FloatArray
    eta: FloatArray | None = None
    states: WholeArray | None = None
    draws: WholeArray | None = None
    sent: FloatArray | None = None
    whole_sent: WholeArray | None = None


@final
@dataclass(frozen=True, eq=False, repr=False)
class History:
    """The paper's α = θ(0), (η(0), x(0), y(0)), θ(1), … of a run.

    It may also be only its public part. `History.full` makes one in which every agent sent, was used and
    moved in every round.

    Attributes
    ----------
    mechanism : Mechanism
        The declared mechanism. It is not checked here; the auditor checks it.
    x : array, shape (slots, n) or (slots, n, k)
        Messages; 0 where none was sent.
    y : array, shape (rounds,) or (rounds, k); on a graph (rounds, n) or (rounds, n, k)
        Feedback; 0 where an agent made no mean.
    said : bool array, shape (slots, n)
        Which messages exist.
    rounds_of : int array, shape (slots,)
        The round that a slot belongs to; the same in all runs.
    update : int array, shape (slots, n)
        How many updates the agent had made. Runs that share it have (1, slots, n).
    exponent : int array like `update`, or None
        Messages are declared to be whole multiples of 2^exponent.
    wholes : Wholes or None
        Messages and feedback exactly, on a lattice.
    used : bool array or None
        Whose messages each feedback is the mean of: shape (rounds, n) with a server, (rounds, pairs) on a
        graph, in the order of `pairs`. None: all messages of its round.
    private : Private or None
        States and noise. Not part of any repr.
    """

    mechanism: Mechanism
    x: FloatArray
    y: FloatArray
    said: BoolArray
    rounds_of: IntArray
    update: IntArray
    exponent: IntArray | None = None
    wholes: Wholes | None = None
    used: BoolArray | None = None
    private: Private | None = None

    def __post_init__(self) -> None:
        _check(self)
        parts = [self, *(part for part in (self.wholes, self.private) if part is not None)]
        for array in (value for part in parts for value in vars(part).values()):
            if isinstance(array, np.ndarray):
                frozen(array)

    def __repr__(self) -> str:
        # States and noise are private: never show them.
        many = f"{self.runs:,} runs, " if self._axis else ""
        return f"<History {self.mechanism.kind}, {many}{self.mechanism.n} agents, {self.rounds} rounds>"

    def _repr_html_(self) -> str:
        from tacit.core.history.tables import overview

        return html(overview(self))

    def to_latex(self) -> str:
        """Return the public messages as a table for a paper.

        With more than 40 rows, or no message sent openly, it is a table of counts instead. States and noise
        are in neither. It needs no LaTeX package.
        """
        from tacit.core.history.tables import MOST_ROWS, messages, overview

        rows = int(self.said.sum()) * (self.components or 1)
        return latex(messages(self) if 0 < rows <= MOST_ROWS else overview(self))

    def to_dataframe(self) -> pd.DataFrame:
        """Return the public messages as a pandas table.

        There is one row per message and component. States and noise are never in it, nor what agents send
        under masks to keepers.
        """
        from tacit.core.history.tables import message_columns

        return dataframe(message_columns(self))

    @classmethod
    def full(
        cls,
        mechanism: Mechanism,
        x: FloatArray,
        y: FloatArray,
        *,
        runs: bool = False,
        exponent: IntArray | None = None,
        wholes: Wholes | None = None,
        private: Private | None = None,
    ) -> History:
        """Make a history in which nobody is ever missing.

        Every agent sent once, was used, and moved in every round. With `runs` the first axis of all arrays is
        that of runs.
        """
        slots, n = x.shape[int(runs) :][:2]
        said, used = np.ones(x.shape[: 2 + int(runs)], dtype=np.bool_), None
        if mechanism.keepers:  # messages are masked: nobody sees them, and all are in the mean
            private = private and replace(private, sent=x, whole_sent=None if wholes is None else wholes.x)
            wholes = wholes and replace(wholes, x=np.zeros_like(wholes.x))
            x, said, used = np.zeros_like(x), np.zeros_like(said), said
        update = np.repeat(np.arange(slots)[:, None], n, axis=1)
        return cls(
            mechanism,
            x,
            y,
            said,
            np.arange(slots),
            update[None] if runs else update,
            exponent,
            wholes,
            used,
            private,
        )

    # ---- its size -----------------------------------------------------------------------------------

    @property
    def runs(self) -> int:
        """Number of runs. A single run has no axis of runs."""
        return len(self.said) if self._axis else 1

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return int(self.y.shape[self._axis])

    @property
    def components(self) -> int | None:
        """Length of the messages; None for plain numbers."""
        return int(self.x.shape[-1]) if self.x.ndim > self.said.ndim else None

    @property
    def _axis(self) -> int:
        """The axis of rounds: 1 after that of runs, else 0."""
        return self.said.ndim - 2

    # ---- what is private ----------------------------------------------------------------------------

    @property
    def theta(self) -> FloatArray:
        """Internal states. Private.

        The shape is (rounds + 1, n) or (rounds + 1, n, k).
        """
        return self._own.theta

    @property
    def eta(self) -> FloatArray:
        """Noise, shaped like the messages. Private."""
        if self._own.eta is None:
            raise StateError("this needs the noise, but the history has only states.")
        return self._own.eta

    @property
    def _own(self) -> Private:
        if self.private is None:
            raise StateError(
                "this needs states and noise, but the history has only the public part: use a simulated one."
            )
        return self.private

    def public(self) -> History:
        """Return the history without its private part."""
        return replace(self, private=None)

    # ---- parts of it --------------------------------------------------------------------------------

    def __getitem__(self, which: int | slice | npt.NDArray[np.generic]) -> History:
        """Return one of many runs, or some of them."""
        if not self._axis:
            raise StateError("a history of one run has no runs to choose from.")
        if isinstance(which, int) and not 0 <= which < self.runs:
            raise StateError(f"run must be a number from 0 to {self.runs - 1}, got {which}.")

        def shared(array: Any) -> Any:
            if array is None:
                return None
            if isinstance(which, int):
                return array[which if len(array) > 1 else 0]
            return array if len(array) == 1 else array[which]

        parts = {name: shared(getattr(self, name)) for name in ("update", "exponent")}
        return self._cut(lambda array: array[which], parts)

    def prefix(self, rounds: int) -> History:
        """Return α_T, the history up to the state at the start of round `rounds`."""
        if not 0 <= rounds <= self.rounds:
            raise StateError(f"a prefix must have 0 to {self.rounds} rounds, got {rounds}.")
        slots = int(np.searchsorted(self.rounds_of, rounds))
        whole, own, cut = self.wholes, self.private, self._first
        return replace(
            self,
            x=cut(self.x, slots),
            y=cut(self.y, rounds),
            said=cut(self.said, slots),
            rounds_of=self.rounds_of[:slots],
            update=cut(self.update, slots),
            exponent=None if self.exponent is None else cut(self.exponent, slots),
            wholes=whole and replace(whole, x=cut(whole.x, slots), y=cut(whole.y, rounds)),
            used=None if self.used is None else cut(self.used, rounds),
            private=own
            and Private(
                **{
                    name: cut(array, rounds + 1 if name in ("theta", "states") else slots)
                    for name, array in vars(own).items()
                    if array is not None
                }
            ),
        )

    def _first(self, array: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
        return array[:, :count] if self._axis else array[:count]

    def _cut(self, part: Any, given: dict[str, Any]) -> History:
        """Take the same part of every array that has the axis of runs."""

        def of(value: Any) -> Any:
            return None if value is None else part(value)

        whole, own = self.wholes, self.private
        return replace(
            self,
            x=part(self.x),
            y=part(self.y),
            said=part(self.said),
            used=of(self.used),
            wholes=whole and replace(whole, x=part(whole.x), y=part(whole.y)),
            private=own and Private(**{name: of(array) for name, array in vars(own).items()}),
            **given,
        )

    @property
    def stacked(self) -> History:
        """The same with an axis of runs, also for one run."""
        if self._axis:
            return self
        parts = {
            name: None if getattr(self, name) is None else getattr(self, name)[None]
            for name in ("update", "exponent")
        }
        return self._cut(lambda array: array[None], parts)

    @classmethod
    def stack(cls, parts: Sequence[History]) -> History:
        """Put the public parts of runs of one mechanism side by side."""
        if not parts:
            raise StateError("there must be at least one history to put side by side.")
        several = [part.stacked for part in parts]
        first = several[0]
        shapes = {(p.x.shape[1:], p.y.shape[1:], p.wholes is None, p.exponent is None) for p in several}
        if len(shapes) != 1 or not all(np.array_equal(p.rounds_of, first.rounds_of) for p in several):
            raise StateError(
                "histories must have the same agents, rounds, retries and components to be judged "
                "together: keep sessions that differ in separate folders."
            )

        def joined(get: Any) -> Any:
            return None if get(first) is None else np.concatenate([get(p) for p in several])

        return cls(
            first.mechanism,
            joined(lambda p: p.x),
            joined(lambda p: p.y),
            joined(lambda p: p.said),
            first.rounds_of,
            _joined([p.update for p in several], several),
            None
            if first.exponent is None
            else _joined([p.exponent for p in several if p.exponent is not None], several),
            first.wholes
            and replace(first.wholes, x=joined(lambda p: p.wholes.x), y=joined(lambda p: p.wholes.y)),
            None
            if all(p.used is None for p in several)
            else np.concatenate([p.used_or_all for p in several]),
        )

    def of(self, agent: int) -> AgentHistory:
        """Return one agent's messages and the feedback it received.

        This is all that depends on its value.
        """
        if not 0 <= agent < self.mechanism.n:
            raise StateError(f"agent must be a number from 0 to {self.mechanism.n - 1}, got {agent}.")
        if self.mechanism.keepers:
            raise StateError(
                "where keepers add the noise, no message of one agent can be read, and nothing can be judged "
                "by it: look at what conspirators see instead."
            )
        runs, whole = self.stacked, self.stacked.wholes

        def own(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
            return array[:, :, agent]

        on_graph = isinstance(self.mechanism, Distributed)
        return AgentHistory(
            law=self.mechanism.law.of_agent(agent),
            x=own(runs.x),
            y=own(runs.y) if on_graph else runs.y,
            said=own(runs.said),
            rounds_of=self.rounds_of,
            update=own(runs.update),
            exponent=None if runs.exponent is None else own(runs.exponent),
            wholes=whole and replace(whole, x=own(whole.x), y=own(whole.y) if on_graph else whole.y),
        )

    # ---- who was used -------------------------------------------------------------------------------

    @property
    def pairs(self) -> IntArray:
        """Who can use whose message on a graph, as pairs (i, j).

        These are (i, i) for all agents, then neighbours.
        """
        return closed_pairs(self.mechanism)

    @property
    def used_or_all(self) -> BoolArray:
        """Whose messages each feedback is the mean of.

        If `used` is None, these are all messages sent.
        """
        if self.used is not None:
            return self.used
        heads = np.searchsorted(self.rounds_of, np.arange(self.rounds))
        spoke = np.logical_or.reduceat(self.said, heads, axis=self._axis) if self.rounds else self.said
        if not isinstance(self.mechanism, Distributed):
            return np.asarray(spoke)
        return np.asarray(spoke[..., self.pairs[:, 1]])

    # ---- what adversaries see -----------------------------------------------------------------------

    def channels(self) -> Observation:
        """Return what an eavesdropper sees: α↓(x, y).

        Masked messages are pseudo-random and reveal nothing.
        """
        return Observation(x=None if self.mechanism.keepers else self.x, y=self.y)

    def server(self) -> Observation:
        """Return only the server's state y.

        This is for an adversary who reads its memory but no messages.
        """
        return Observation(y=self.y)

    def compromised(self, agents: Iterable[int]) -> Observation:
        """All channels, and the internal states of a compromised set C of agents."""
        chosen = tuple(sorted({int(i) for i in agents}))
        if chosen and not (0 <= chosen[0] and chosen[-1] < self.mechanism.n):
            raise StateError(
                f"compromised agents must be numbers from 0 to {self.mechanism.n - 1}, got {list(chosen)}."
            )
        states = self.theta[:, :, list(chosen)] if self._axis else self.theta[:, list(chosen)]
        return replace(self.channels(), agents=chosen, theta=states)

    def conspirators(self, agent: int, keeper: int) -> Observation:
        """Return what conspirators learn about one agent.

        They are all other members and all keepers but one. They know all masks and noise except those between
        this agent and this keeper, so they know the sum of the agent's message and the keeper's draw
        (docs/proofs/keepers.md).
        """
        m, n, sent = self.mechanism.keepers, self.mechanism.n, self._own.sent
        if not (0 <= keeper < m and 0 <= agent < n) or sent is None:
            raise StateError(
                f"agent must be from 0 to {n - 1} and keeper from 0 to {m - 1}, got {agent} and {keeper}."
            )
        others = tuple(i for i in range(n) if i != agent)
        x = sent[:, [agent]] + self.eta[:, [keeper]]
        if self.mechanism.shadowed:  # one opening; nothing is sent after it
            x = x[:1]
        return Observation(x=x, y=self.y, agents=others, theta=self.theta[:, list(others)])


@final
@dataclass(frozen=True, eq=False, repr=False)
class AgentHistory:
    """One agent's part of a history: all that depends on its initial value.

    The fields are those of `History` without the axis of agents, always with that of runs, and the agent's
    own law.
    """

    law: Law
    x: FloatArray
    y: FloatArray
    said: BoolArray
    rounds_of: IntArray
    update: IntArray
    exponent: IntArray | None = None
    wholes: Wholes | None = None

    @property
    def scales(self) -> FloatArray:
        """Laplace scale of each slot's message.

        It is shaped like `update`, and 0 where nothing is drawn.
        """
        return self.law.upper_scales(self.update)

    @property
    def motion(self) -> Motion:
        """How the agent moves."""
        return self.law.motion


def closed_pairs(mechanism: Mechanism) -> IntArray:
    """Return who can use whose message on a graph.

    These are pairs (i, i) of all agents, then (i, j) of neighbours.
    """
    own = np.arange(mechanism.n)
    if not isinstance(mechanism, Distributed):
        raise StateError("pairs are for graphs: with a server everyone hears the same feedback.")
    rows = np.repeat(own, mechanism.graph.degrees)
    return np.vstack([np.column_stack([own, own]), np.column_stack([rows, mechanism.graph.indices])])


def _joined(arrays: Sequence[IntArray], parts: Sequence[History]) -> IntArray:
    """Join arrays that all runs may share, and keep them shared if they are."""
    if all(len(a) == 1 and np.array_equal(a, arrays[0]) for a in arrays):
        return arrays[0]
    rows = [np.broadcast_to(a, (len(p.said), *a.shape[1:])) for a, p in zip(arrays, parts, strict=True)]
    return np.concatenate(rows)


def _check(t: History) -> None:
    """Refuse shapes that do not fit together and impossible numbers."""
    n, lead = t.mechanism.n, t.said.shape[:-2]
    if t.said.ndim not in (2, 3) or t.said.shape[-1] != n or 0 in lead:
        raise StateError(f"said must have shape (slots, {n}), or one axis of runs more, got {t.said.shape}.")
    slots = t.said.shape[-2]
    tail = t.x.shape[t.said.ndim :]
    if t.x.shape[: t.said.ndim] != t.said.shape or len(tail) > 1 or 0 in tail:
        raise StateError(f"messages must have shape {t.said.shape} or one axis more, got {t.x.shape}.")
    rounds = t.y.shape[len(lead)] if t.y.ndim > len(lead) else 0
    heard = (n, *tail) if isinstance(t.mechanism, Distributed) else tail
    if t.y.shape != (*lead, rounds, *heard):
        raise StateError(
            f"feedback must have shape {(*lead, 'rounds', *heard)} to go with the messages, got {t.y.shape}."
        )
    order = np.diff(t.rounds_of, prepend=-1)
    last = t.rounds_of[-1] if slots else -1
    if t.rounds_of.shape != (slots,) or ((order < 0) | (order > 1)).any() or last != rounds - 1:
        raise StateError("slots must belong to rounds 0, 1, … in order, at least one slot per round.")
    for name in ("update", "exponent"):
        array = getattr(t, name)
        if array is not None and array.shape not in (t.said.shape, (*(1 for _ in lead), slots, n)):
            raise StateError(f"{name} must have shape {t.said.shape} of the messages, got {array.shape}.")
    steps = np.diff(t.update, axis=-2)
    if t.update[..., :1, :].any() or (steps < 0).any() or (steps > order[1:, None]).any():
        raise StateError("update counts must start at 0 and rise by 0 or 1 from round to round.")
    if t.wholes is not None and (t.wholes.x.shape != t.x.shape or t.wholes.y.shape != t.y.shape):
        raise StateError("whole numbers must have the shapes of the messages and the feedback.")
    width = n if not isinstance(t.mechanism, Distributed) else n + len(t.mechanism.graph.indices)
    if t.used is not None and t.used.shape != (*lead, rounds, width):
        raise StateError(f"used must have shape {(*lead, rounds, width)}, got {t.used.shape}.")
    own = t.private
    if own and (
        np.shape(t.mechanism.motion.say(own.theta)) != (*lead, rounds + 1, n, *tail)
        or (own.eta is not None and own.eta.shape != (*lead, slots, t.mechanism.sources, *tail))
    ):
        raise StateError("states and noise must have the shapes of the messages, and one more state.")
    require_finite(t.x, "messages")
    require_finite(t.y, "feedback")
