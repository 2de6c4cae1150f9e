"""Noise drawn ahead, so that a message's timing does not reveal it.

An exact sampler takes longer for some numbers than for others. If noise were drawn between receiving and
sending, that delay would leak it. Noise does not depend on feedback, so it can be drawn earlier:

- between receiving and sending, a draw is only taken from the pool, never made (`take`);
- the draw for message u is given out only if the draw for update u + 1 is complete, too. Update u + 1 needs
  feedback that comes after message u was sent, so its draw is always complete in time;
- draws are made after sending (`refill`), also on another thread, for many agents together
  (`refill_together`).

Each draw is used once. After a fork no draw is used, because parent and child would use the same noise.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from threading import Lock
from types import TracebackType
from typing import NoReturn, Self, final

from tacit.base.arrays import IntArray
from tacit.base.errors import ParameterError, StateError
from tacit.core.noise.safe import WholeNoise

_MANY = 32
"""From this many plain numbers on, one call for all of them is faster than one for each."""


@final
class DrawnAhead:
    """A bounded pool of one agent's draws for updates u, u + 1, ….

    Parameters
    ----------
    source : WholeNoise
        `SafeNoise`, unless this is a test.
    scale : callable
        The scale of update u's draw, `LatticeAgent.draw_scale`.
    size : int, optional
        Number of components; None for a plain number.
    depth : int
        Number of draws in the pool, at least 2.
    first : int
        The update to start with; after a restart, the first that has not been drawn for.
    messages : int, optional
        Total number of draws: 1 if the law draws once, otherwise the horizon of the account.

    Examples
    --------
    >>> from tacit.core.noise import SafeNoise
    >>> pool = DrawnAhead(SafeNoise(), lambda u: 2.0**40, depth=3)
    >>> pool.refill()
    >>> draw = pool.take(0)  # on hearing
    >>> pool.refill()  # after speaking
    """

    def __init__(
        self,
        source: WholeNoise,
        scale: Callable[[int], float],
        *,
        size: int | None = None,
        depth: int = 4,
        first: int = 0,
        messages: int | None = None,
    ) -> None:
        if depth < 2:
            raise ParameterError(
                f"depth must be at least 2, got {depth}: the draws of two updates must be ready."
            )
        if first < 0 or (size is not None and size < 1):
            raise ParameterError(f"first must be at least 0 and size at least 1, got {first} and {size}.")
        self._source, self._scale, self._size = source, scale, size
        self._depth, self._messages = depth, messages
        self._next = first  # the update whose draw is at the head of the pool
        self._pool: deque[int | IntArray] = deque()
        # Two locks: `_drawing` is held while noise is made, which may take long. `take` needs only
        # `_pooling`, which is held for a few instructions. With a single lock a message would wait for a
        # draw, and its delay would depend on the noise.
        self._drawing, self._pooling = Lock(), Lock()
        self._taken = 0  # draws taken since `low` last returned True
        self._process = os.getpid()

    def __repr__(self) -> str:
        return f"<DrawnAhead for updates {self._next} to {self._next + len(self._pool) - 1}>"

    def __reduce__(self) -> NoReturn:
        # A copy would use the same noise twice.
        raise TypeError("noise drawn ahead cannot be copied or pickled: it must be used once.")

    def ready(self, u: int) -> bool:
        """Whether the draw for message u can be taken now."""
        # Update u + 1 must be complete, too. Otherwise message u + 1 could be late because of its own draw.
        last = u + 1 if self._messages is None else min(u + 1, self._messages - 1)
        return self._next == u <= last < self._next + len(self._pool)

    def take(self, u: int) -> int | IntArray:
        """Return the draw of update u, once. Never draws, never waits."""
        self._require_same_process()
        with self._pooling:
            if u < self._next:
                raise StateError(
                    f"the noise of update {u} was already used, and a second draw would cost privacy again. "
                    "Repeat the same message instead."
                )
            if not self.ready(u):
                raise StateError(
                    f"the noise of updates {u} and {u + 1} must be complete before message {u}: "
                    "updates go one by one, and refill() comes before receiving."
                )
            self._next += 1
            self._taken += 1
            return self._pool.popleft()

    def refill(self) -> None:
        """Draw until the pool is full.

        Call it before the first message, and after each.
        """
        self._require_same_process()
        with self._drawing:  # one thread at a time, or draws could get into the wrong order
            # Taking a draw adds 1 to the head and removes 1 from the pool, so u stays right while others
            # take. Only `begin` changes it, and `begin` waits for this lock.
            while (u := self._next_to_draw()) is not None:
                scale = self._scale(u)
                draw = (
                    self._source.draw(scale) if self._size is None else self._source.draw(scale, self._size)
                )
                with self._pooling:
                    self._pool.append(draw)

    def low(self) -> bool:
        """Whether half of the pool is used since this last returned True."""
        low = 2 * self._taken >= self._depth
        if low:
            self._taken = 0
        return low

    def begin(self, u: int) -> None:
        """Discard all draws, and start again with update u."""
        with self._drawing, self._pooling:  # what is being drawn now is for other updates
            self._pool.clear()
            self._next, self._taken = u, 0

    def close(self) -> None:
        """Discard all draws."""
        self._pool.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def _missing(self) -> range:
        """Return the updates to draw for until the pool is full."""
        with self._pooling:
            first = self._next + len(self._pool)
            stop = self._next + self._depth
        return range(first, stop if self._messages is None else min(stop, self._messages))

    def _next_to_draw(self) -> int | None:
        with self._pooling:
            u = self._next + len(self._pool)
            full = len(self._pool) >= self._depth or (self._messages is not None and u >= self._messages)
            return None if full else u

    def _require_same_process(self) -> None:
        if self._process != os.getpid():
            self._pool.clear()
            raise StateError(
                "noise drawn before a fork must not be used after it, or two processes would add the same. "
                "Make a new DrawnAhead in each process."
            )


def refill_together(pools: Iterable[DrawnAhead]) -> None:
    """Fill several pools, with one call per source and scale.

    Many plain numbers of one scale are drawn together: alone, each takes up to ten times as long. Each number
    goes into exactly one pool, for one update; no other copy is kept.
    """
    pools = list(pools)
    with ExitStack() as stack:
        for pool in pools:
            pool._require_same_process()
            # Held for all pools at once: a `refill` of one of them would draw for the same updates again.
            stack.enter_context(pool._drawing)
        # Read once: draws may be taken meanwhile, and then more would be missing.
        missing = {pool: pool._missing() for pool in pools}
        wanted: dict[tuple[WholeNoise, float], list[tuple[DrawnAhead, int]]] = {}
        for pool in pools:
            for u in missing[pool]:
                wanted.setdefault((pool._source, pool._scale(u)), []).append((pool, u))
        drawn: dict[tuple[DrawnAhead, int], int | IntArray] = {}
        for (source, scale), places in wanted.items():
            # Vectors are drawn one by one: they are long enough to be fast alone.
            plain = [place for place in places if place[0]._size is None]
            if len(plain) >= _MANY:
                drawn.update(zip(plain, source.draw(scale, len(plain)).tolist(), strict=True))
            for pool, u in places:
                if (pool, u) not in drawn:
                    size = pool._size
                    drawn[pool, u] = source.draw(scale) if size is None else source.draw(scale, size)
        for pool in pools:
            numbers_of = [drawn[pool, u] for u in missing[pool]]
            with pool._pooling:
                pool._pool.extend(numbers_of)
