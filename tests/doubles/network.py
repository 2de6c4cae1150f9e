"""A network in memory with faults, on command or at random by seed."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import final

from tests.doubles.clock import ManualClock

from tacit.base.errors import ParameterError


@final
@dataclass(frozen=True)
class Faults:
    """How often each fault occurs.

    Delays differ between packets, so packets overtake each other.

    Parameters
    ----------
    loss, duplication : float
        Probabilities.
    delay : tuple of float
        Shortest and longest time that a packet takes, in seconds.
    """

    loss: float = 0.0
    duplication: float = 0.0
    delay: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        low, high = self.delay
        if not (0 <= self.loss <= 1 and 0 <= self.duplication <= 1 and 0 <= low <= high):
            raise ParameterError(
                "loss and duplication must be from 0 to 1, and delay (shortest, longest) of at least 0."
            )


@final
@dataclass(frozen=True, order=True)
class Packet:
    """A frame in transit."""

    at: float
    order: int
    source: int = field(compare=False)
    to: int = field(compare=False)
    frame: bytes = field(compare=False, repr=False)


@final
class FaultyNetwork:
    """Packets in transit, in the order in which they will arrive.

    Attributes
    ----------
    flying : list of Packet
        A test may deliver, drop or duplicate any of them.
    tap : list of (source, to, frame)
        Everything that was ever sent, including what was lost.
    """

    def __init__(self, clock: ManualClock, faults: Faults | None = None, *, seed: int = 0) -> None:
        self.clock = clock
        self.faults = faults or Faults()
        self.flying: list[Packet] = []
        self.tap: list[tuple[int, int, bytes]] = []
        self._random = random.Random(seed)
        self._order = 0
        self._groups: tuple[frozenset[int], ...] = ()

    def __repr__(self) -> str:
        return f"<FaultyNetwork with {len(self.flying)} packets on their way>"

    def partition(self, *groups: Collection[int]) -> None:
        """Split the network: nothing passes between groups.

        A node in no group is cut off from all.
        """
        self._groups = tuple(map(frozenset, groups))

    def heal(self) -> None:
        """Let everything pass again, without faults."""
        self._groups, self.faults = (), Faults()

    def reaches(self, source: int, to: int) -> bool:
        """Whether two nodes can reach each other now."""
        return not self._groups or any(source in group and to in group for group in self._groups)

    def send(self, source: int, to: int, frame: bytes) -> None:
        """Send a packet, or lose it."""
        self.tap.append((source, to, frame))
        if not self.reaches(source, to) or self._random.random() < self.faults.loss:
            return
        self._launch(source, to, frame)
        if self._random.random() < self.faults.duplication:
            self._launch(source, to, frame)

    def inject(self, to: int, frame: bytes, source: int = -2) -> None:
        """Send bytes that no machine made, as an attacker would."""
        self._launch(source, to, frame)

    def _launch(self, source: int, to: int, frame: bytes) -> None:
        self._order += 1
        at = self.clock.now + self._random.uniform(*self.faults.delay)
        self.flying.append(Packet(at, self._order, source, to, frame))

    def take(self, index: int) -> Packet:
        """Remove a packet, to deliver it now or to drop it."""
        return self.flying.pop(index)

    def duplicate(self, index: int) -> None:
        """Let a packet arrive twice."""
        packet = self.flying[index]
        self._launch(packet.source, packet.to, packet.frame)

    def next(self) -> Packet | None:
        """Return the first packet that has arrived by now, or None.

        Drops packets that cannot pass a split.
        """
        while self.flying and (first := min(self.flying)).at <= self.clock.now:
            self.flying.remove(first)
            if first.source < -1 or self.reaches(first.source, first.to):
                return first
        return None

    @property
    def next_at(self) -> float | None:
        """When the next packet arrives."""
        return min((packet.at for packet in self.flying), default=None)

    def frames(self, source: int) -> Iterable[bytes]:
        """Everything one node ever sent."""
        return (frame for sender, _, frame in self.tap if sender == source)
