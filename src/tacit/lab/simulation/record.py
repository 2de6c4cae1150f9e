"""What to keep of a simulation, and whether it fits in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tacit.base.arguments import flag, shown, whole
from tacit.base.arrays import IntArray
from tacit.base.errors import ParameterError, RecordTooLarge
from tacit.base.memory import available_memory

SAFE_SHARE = 0.8
"""Share of the available memory that a simulation may use."""


@dataclass(frozen=True)
class Record:
    """What `simulate` keeps: by default only every agent's final state.

    Parameters
    ----------
    every : int, optional
        Keep rounds 0, every, 2·every, …, and the last. None keeps only the last.
    agents : iterable of int, optional
        Whose states to keep; None for all.
    states : bool
        Whether to keep states at all.
    average : bool
        Whether to keep Σγ_iθ_i/Σγ_i with γ_i = (|N(i)| + 1)/σ_i, the average that the mechanism
        preserves without noise (Lemma 8, lem:acc_dis); for equal σ_i and a server the plain average.
    everything : bool
        Keep θ, η, x and y of every round and agent, enough for `history_of`.

    Examples
    --------
    >>> Record(every=10, states=False, average=True).rounds(25).tolist()
    [0, 10, 20, 25]
    """

    every: int | None = None
    agents: tuple[int, ...] | None = None
    states: bool = True
    average: bool = False
    everything: bool = False

    def __post_init__(self) -> None:
        if self.every is not None:
            whole("every", self.every, 1)
        for name in ("states", "average", "everything"):
            flag(name, getattr(self, name))
        if self.agents is not None:
            object.__setattr__(self, "agents", _as_agents(self.agents))
        if not (self.states or self.average or self.everything):
            raise ParameterError("a record must keep something: states, the average, or everything.")
        if self.everything and (self.every not in (None, 1) or self.agents is not None or not self.states):
            raise ParameterError("a record of everything keeps every round, agent and state: give no others.")

    def rounds(self, last: int) -> IntArray:
        """Return the rounds whose states are kept, in rising order.

        The run has `last` rounds.
        """
        if self.everything:
            return np.arange(last + 1)
        if self.every is None:
            return np.array([last])
        return np.union1d(np.arange(0, last + 1, self.every), [last]).astype(np.int64)

    def chosen(self, n: int) -> IntArray:
        """The agents whose states are kept, out of `n`."""
        if self.agents is None:
            return np.arange(n)
        if self.agents[-1] >= n:
            raise ParameterError(f"recorded agents must be numbers from 0 to {n - 1}, got {self.agents[-1]}.")
        return np.array(self.agents)

    def size(self, *, n: int, components: int, rounds: int, runs: int, served: bool) -> int:
        """Return how many bytes the record takes.

        `served` says whether all agents get the same feedback.
        """
        kept = len(self.rounds(rounds))
        numbers = kept * len(self.chosen(n)) if self.states else 0
        numbers += kept if self.average else 0
        numbers += rounds * (2 * n + (1 if served else n)) if self.everything else 0
        return 8 * numbers * components * runs


def _as_agents(agents: object) -> tuple[int, ...]:
    if isinstance(agents, str) or not isinstance(agents, Iterable):
        raise ParameterError(f"recorded agents must be a sequence of agent numbers, got {shown(agents)}.")
    chosen = tuple(sorted({whole("a recorded agent", i, 0) for i in agents}))
    if not chosen:
        raise ParameterError("recorded agents must be at least one agent number, got none.")
    return chosen


def require_room(record: Record, record_bytes: int, working_bytes: int) -> None:
    """Refuse a simulation that would not fit in memory, before any work."""
    available = available_memory()
    needed = record_bytes + working_bytes
    if needed <= SAFE_SHARE * available:
        return
    raise RecordTooLarge(
        f"a simulation must fit in {SAFE_SHARE:.0%} of the {_readable(available)} of memory available, but "
        f"{_described(record)} takes {_readable(record_bytes)} and the work {_readable(working_bytes)}. "
        f"{_advice(record, record_bytes, working_bytes)}"
    )


def _described(record: Record) -> str:
    if record.everything:
        return "a record of everything"
    who = "all agents" if record.agents is None else f"{len(record.agents)} agents"
    when = "the last round" if record.every is None else f"every {record.every}. round"
    return f"a record of {who if record.states else 'the average'} in {when}"


def _advice(record: Record, record_bytes: int, working_bytes: int) -> str:
    if working_bytes > record_bytes:
        return "Simulate fewer agents, or a smaller batch of runs."
    if record.everything or record.every is not None:
        return "Record every 100th round, a few agents, the average alone, or fewer runs."
    return "Record a few agents, the average alone, or fewer runs."


def _readable(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} TiB"
