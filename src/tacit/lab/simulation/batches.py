"""Tiles: columns (run × component) that move together.

A tile owns its buffers and its current round. It advances on the calling thread, or, with a team, on all
of the team's threads, one round at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from tacit.base.arrays import FloatArray, IntArray
from tacit.core.law import Law
from tacit.core.mechanism import Distributed, Mechanism
from tacit.core.noise import SimulatedNoise
from tacit.core.noise._kernels import stream
from tacit.core.theory.rates import own_weights
from tacit.lab.simulation import _graph_kernels, _kernels, _server_kernels
from tacit.lab.simulation._layout import WIDEST
from tacit.lab.simulation.threads import ThreadTeam, even_shares, even_work

STEPS_PER_CALL = 4_000_000  # agent-rounds: about 10 ms, so that Ctrl-C is noticed soon
CACHE_LINE = 64


@dataclass(frozen=True, eq=False)
class Setup:
    """What all tiles of a simulation share."""

    mechanism: Mechanism
    values: FloatArray = field(repr=False)  # (n, components)
    seed: int
    rounds: int
    keeps_messages: bool = False
    averages: bool = True

    @property
    def components(self) -> int:
        """Length of the agents' vectors."""
        return int(self.values.shape[1])

    @cached_property
    def weights(self) -> tuple[FloatArray, float]:
        """γ_i = ω_i·τ_i (Lemma 8), as one number if all are equal, and their sum."""
        if not self.averages:
            return np.ones(1), 1.0
        gamma = self.mechanism.motion.weight(self.mechanism.stationary)
        if gamma.min() == gamma.max():
            return np.ones(1), float(self.mechanism.n)
        return gamma, _kernels.total(gamma)


class Scales:
    """Laplace scales round by round, without a table of rounds × agents."""

    def __init__(self, law: Law) -> None:
        self._rows, self._next = law.round_scales(), 0
        self._width = next(law.round_scales()).size
        self._longest = law.longest
        self.each = self._width > 1

    def rows(self, first: int, last: int) -> FloatArray:
        """Return the scales of rounds first ≤ t < last.

        Calls must follow each other without gaps.
        """
        assert first == self._next  # a law may compute a round's scale from that of the round before
        rows = np.empty((last - first, self._width))
        for t, row in enumerate(rows, first):
            # A graph's tile reads one round ahead, and never uses what is beyond the last.
            row[:] = 0.0 if self._longest is not None and t >= self._longest else next(self._rows)
        self._next = last
        return rows


class Tile(ABC):
    """Columns [first, first + width) of a simulation, from round 0 on.

    Columns are pairs (run, component), flattened.
    """

    def __init__(self, setup: Setup, first: int, width: int, team: ThreadTeam | None = None) -> None:
        law = setup.mechanism.law
        self.n, components = setup.values.shape
        self.width, self.t, self.y = width, 0, np.zeros(width)
        self.run, self.component = np.divmod(np.arange(first, first + width), components)
        self._keys = np.empty(width, dtype=np.uint64)
        runs, parts = self.run.astype(np.uint64), self.component.astype(np.uint64)
        _kernels.column_keys(np.uint64(setup.seed), runs, parts, self._keys)
        self._rounds, self._shadowed = setup.rounds, setup.mechanism.shadowed
        self._scales = Scales(law)
        self._sigma = np.atleast_1d(np.array(setup.mechanism.motion.pull))
        self._weights = setup.weights
        blocks = -(-self.n // _kernels.AGENTS)
        self._team, self._blocks, self._block_bounds = team, blocks, even_shares(blocks, team)

    @abstractmethod
    def advance(self, to: int, slots: IntArray, averages: FloatArray) -> None:
        """Advance towards round `to`, as far as one call allows.

        The average after round t goes into row ``slots[t]``, if that is not negative.
        """

    @abstractmethod
    def keep_states(self, out: FloatArray, slot: int, agents: IntArray) -> None:
        """Copy θ to out[run, slot, agent, component].

        Only of the given agents, or of all if there are none.
        """

    @abstractmethod
    def keep_said(self, out: FloatArray, slot: int) -> None:
        """Copy the last messages to out[run, slot, agent, component].

        These are the messages of the round just run.
        """

    @abstractmethod
    def average(self) -> FloatArray:
        """Σγ_iθ_i/Σγ_i now, one per column."""

    def _share(self, work: Callable[[int, int], object], bounds: IntArray) -> None:
        if self._team is None:
            work(int(bounds[0]), int(bounds[-1]))
        else:
            self._team.share(work, bounds)

    def _rounds_per_call(self) -> int:
        """How many rounds to run before returning to the interpreter."""
        numbers = self.n * (max(self.width, 16) if self._scales.each else self.width)
        return max(1, STEPS_PER_CALL // int(numbers))


class DistributedTile(Tile):
    """A tile of the distributed mechanism: a stack of sheets.

    Each sheet has at most 16 columns, and the columns of an agent lie side by side. A team works on a single
    sheet.
    """

    def __init__(self, setup: Setup, first: int, width: int, team: ThreadTeam | None = None) -> None:
        super().__init__(setup, first, width, team)
        assert isinstance(setup.mechanism, Distributed)
        self._graph = setup.mechanism.graph
        rows = own_weights(setup.mechanism)
        self._rows = np.empty(0), np.empty(0)
        if rows is not None:
            self._rows = np.array(rows.own), np.array(rows.heard)
        self._lanes = (0,) * min(width, WIDEST)
        assert width % len(self._lanes) == 0
        self._theta, self._x, self._x_next = (_aligned(self.n * width) for _ in range(3))
        self._bounds = even_work(self._graph.indptr, team)
        scale = self._scales.rows(0, 1)[0]
        for columns, theta, x in self._sheets(self._theta, self._x):
            work = partial(
                _graph_kernels.begin, setup.values, self.component[columns], scale, self._keys[columns],
                theta, x, self._lanes,
            )  # fmt: skip
            self._share(work, self._bounds)

    def _sheets(self, *stacks: FloatArray) -> Iterator[tuple[Any, ...]]:
        """The columns of each sheet, and its part of the stacks."""
        width = len(self._lanes)
        for column in range(0, self.width, width):
            sheet = slice(column * self.n, (column + width) * self.n)
            yield slice(column, column + width), *(stack[sheet] for stack in stacks)

    def advance(self, to: int, slots: IntArray, averages: FloatArray) -> None:
        """See `Tile.advance`."""
        if self._team is None:
            self._move_on(min(to, self.t + self._rounds_per_call()), slots, averages)
            return
        self._move()
        if slots[self.t - 1] >= 0:
            averages[slots[self.t - 1]] = self.average()

    def _move(self) -> None:
        """One round, all threads."""
        scale = self._scales.rows(self.t + 1, self.t + 2)[0]
        speaks = self.t + 1 < self._rounds
        work = partial(
            _graph_kernels.move, self._graph.indptr, self._graph.indices, *self._rows, self._sigma, scale,
            self._keys, self._theta, self._x, self._x_next, self.t, speaks, self._shadowed, self._lanes,
        )  # fmt: skip
        self._share(work, self._bounds)
        self._x, self._x_next, self.t = self._x_next, self._x, self.t + 1

    def _move_on(self, to: int, slots: IntArray, averages: FloatArray) -> None:
        """Several rounds, this thread."""
        t, scales = self.t, self._scales.rows(self.t + 1, to + 1)
        _graph_kernels.move_on(
            self._graph.indptr, self._graph.indices, *self._rows, self._sigma, scales, self._keys,
            self._theta, self._x, self._x_next, t, to, to < self._rounds, self._shadowed, *self._weights,
            slots[t:to], averages, self._lanes,
        )  # fmt: skip
        if (to - t) % 2:
            self._x, self._x_next = self._x_next, self._x
        self.t = to

    def keep_states(self, out: FloatArray, slot: int, agents: IntArray) -> None:
        """See `Tile.keep_states`."""
        self._take_out(self._theta, out, slot, agents)

    def keep_said(self, out: FloatArray, slot: int) -> None:
        """See `Tile.keep_said`.

        The messages are in the buffer that the next round overwrites.
        """
        self._take_out(self._x_next, out, slot, np.empty(0, dtype=np.int64))

    def _take_out(self, stack: FloatArray, out: FloatArray, slot: int, agents: IntArray) -> None:
        _, slots, count, components = out.shape
        places = (self.run * slots + slot) * count * components + self.component
        for columns, sheet in self._sheets(stack):
            work = partial(
                _graph_kernels.take_out, sheet, agents, out.reshape(-1), places[columns], components
            )
            self._share(work, even_shares(count, self._team))

    def average(self) -> FloatArray:
        """See `Tile.average`."""
        weights, weight_sum = self._weights
        average, parts = np.empty(self.width), np.empty(self._blocks * len(self._lanes))
        for columns, theta in self._sheets(self._theta):
            work = partial(_graph_kernels.block_sums, theta, weights, self.n, parts, self._lanes)
            self._share(work, self._block_bounds)
            _kernels.sum_of_blocks(parts, weight_sum, average[columns])
        return average


class ClientServerTile(Tile):
    """A tile of the client-server mechanism.

    It is one contiguous column after the other.
    """

    def __init__(self, setup: Setup, first: int, width: int, team: ThreadTeam | None = None) -> None:
        super().__init__(setup, first, width, team)
        self._theta = _aligned(self.n * width)
        np.take(setup.values.T, self.component, axis=0, out=self._theta.reshape(width, self.n))
        self._x = _aligned(self.n * width) if setup.keeps_messages or self._shadowed else np.empty(0)
        self._pending = False

    def advance(self, to: int, slots: IntArray, averages: FloatArray) -> None:
        """See `Tile.advance`."""
        if self._team is None:
            self._serve_on(min(to, self.t + self._rounds_per_call()), slots, averages)
            return
        self._serve()
        if slots[self.t - 1] >= 0:
            averages[slots[self.t - 1]] = self.average()

    def _serve_on(self, to: int, slots: IntArray, averages: FloatArray) -> None:
        """Several rounds, this thread."""
        t, scales = self.t, self._scales.rows(self.t, to)
        _server_kernels.serve_on(
            self.n, self._sigma, scales, self._keys, self._theta, self._x, self.y, t, to, self._shadowed,
            *self._weights, slots[t:to], averages,
        )  # fmt: skip
        self.t = to

    def _serve(self) -> None:
        """One round, all threads, one column after the other."""
        scale = self._scales.rows(self.t, self.t + 1)[0]
        noisy = self.t == 0 or not self._shadowed
        for c in range(self.width):
            start, gamma = map(np.uint64, stream(self._keys[c], np.uint64(self.t)))
            report = partial(
                _server_kernels.report, self._theta, self._x, self._sigma, scale, start, gamma,
                float(self.y[c]), self._pending, noisy, c * self.n, self.n,
            )  # fmt: skip
            self._sum_blocks(report, float(self.n), self.y[c : c + 1])
        self._pending, self.t = True, self.t + 1

    def _sum_blocks(
        self, fill: Callable[[FloatArray, int, int], object], over: float, out: FloatArray
    ) -> None:
        parts = np.empty(self._blocks)
        self._share(lambda lo, hi: fill(parts, lo, hi), self._block_bounds)
        _kernels.sum_of_blocks(parts, over, out)

    def _settle(self) -> None:
        """Apply feedback that is pending."""
        if self._pending:
            for c in range(self.width):
                follow = partial(
                    _server_kernels.settle, self._theta, self._sigma, float(self.y[c]), c * self.n, self.n
                )
                self._share(follow, self._block_bounds)
        self._pending = False

    def keep_states(self, out: FloatArray, slot: int, agents: IntArray) -> None:
        """See `Tile.keep_states`."""
        self._settle()
        rows = self._theta.reshape(self.width, self.n)
        out[self.run, slot, :, self.component] = rows[:, agents] if len(agents) else rows

    def keep_said(self, out: FloatArray, slot: int) -> None:
        """See `Tile.keep_said`."""
        out[self.run, slot, :, self.component] = self._x.reshape(self.width, self.n)

    def average(self) -> FloatArray:
        """See `Tile.average`."""
        self._settle()
        weights, weight_sum = self._weights
        average = np.empty(self.width)
        for c in range(self.width):
            sums = partial(_server_kernels.column_sums, self._theta, weights, c * self.n, self.n)
            self._sum_blocks(sums, weight_sum, average[c : c + 1])
        return average


class KeeperTile(ClientServerTile):
    """A tile of the client-server mechanism with keepers.

    Their noise is one number per round and column.
    """

    def __init__(self, setup: Setup, first: int, width: int, team: ThreadTeam | None = None) -> None:
        super().__init__(setup, first, width, team)
        if not setup.keeps_messages:
            self._x = np.empty(0)
        law, m, k = setup.mechanism.noise_law, setup.mechanism.keepers, setup.components
        noise = SimulatedNoise(setup.seed)
        sums = {r: noise.draw(law, setup.rounds, m, k, r).sum(axis=1) for r in set(self.run.tolist())}
        columns = [sums[r][:, i] for r, i in zip(self.run.tolist(), self.component.tolist(), strict=True)]
        self._drawn = np.ascontiguousarray(np.array(columns).reshape(width, -1).T / self.n)

    def _serve_on(self, to: int, slots: IntArray, averages: FloatArray) -> None:
        """Several rounds, this thread."""
        t = self.t
        _server_kernels.open_on(
            self.n, self._sigma, self._drawn[t:to], self._theta, self._x, self.y, t, to, self._shadowed,
            *self._weights, slots[t:to], averages,
        )  # fmt: skip
        self.t = to

    def _serve(self) -> None:
        """One round, all threads, one column after the other."""
        self._settle()
        opens = self.t == 0 or not self._shadowed
        if self._x.size:
            self._x[:] = self._theta if opens else np.repeat(self.y, self.n)
        for c in range(self.width) if opens else ():
            sums = partial(_server_kernels.column_sums, self._theta, np.ones(1), c * self.n, self.n)
            self._sum_blocks(sums, float(self.n), self.y[c : c + 1])
        if opens:
            self.y += self._drawn[self.t]
        self._pending, self.t = True, self.t + 1


def _aligned(size: int) -> FloatArray:
    """Memory aligned to cache lines of eight numbers."""
    raw = np.empty(size + CACHE_LINE // 8)
    skip = -raw.ctypes.data % CACHE_LINE // 8
    return raw[skip : skip + size]
