"""A network in memory that loses, duplicates, delays, reorders and cuts, as it is told or by seed."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import final

from tacit.errors import ParameterError
from tacit.testing.clock import ManualClock


@final
@dataclass(frozen=True)
class Faults:
    """How often what goes wrong. Delays differ from packet to packet, so packets overtake each other.

    Parameters
    ----------
    loss, duplication : float
        Probabilities.
    delay : tuple of float
        The least and the longest time in seconds a packet takes.
    """

    loss: float = 0.0
    duplication: float = 0.0
    delay: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        low, high = self.delay
        if not (0 <= self.loss <= 1 and 0 <= self.duplication <= 1 and 0 <= low <= high):
            raise ParameterError("loss and duplication must be probabilities, delays from 0 on and in order.")


@final
@dataclass(frozen=True, order=True)
class Packet:
    """Bytes on their way."""

    at: float
    order: int
    source: int = field(compare=False)
    to: int = field(compare=False)
    frame: bytes = field(compare=False, repr=False)


@final
class FaultyNetwork:
    """Packets on their way, in the order they will arrive.

    Attributes
    ----------
    flying : list of Packet
        For tests that want to choose themselves: deliver, drop or duplicate any of them.
    tap : list of (source, to, frame)
        Everything that was ever sent, also what got lost.
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
        """Cut the network: nothing passes between groups. Who is in none is cut off from all."""
        self._groups = tuple(map(frozenset, groups))

    def heal(self) -> None:
        """Let everything pass again, without faults."""
        self._groups, self.faults = (), Faults()

    def reaches(self, source: int, to: int) -> bool:
        """Whether there is a way now."""
        return not self._groups or any(source in group and to in group for group in self._groups)

    def send(self, source: int, to: int, frame: bytes) -> None:
        """Put a packet on its way, or lose it."""
        self.tap.append((source, to, frame))
        if not self.reaches(source, to) or self._random.random() < self.faults.loss:
            return
        self._launch(source, to, frame)
        if self._random.random() < self.faults.duplication:
            self._launch(source, to, frame)

    def inject(self, to: int, frame: bytes, source: int = -2) -> None:
        """Put bytes of a stranger, or of a liar, on their way."""
        self._launch(source, to, frame)

    def _launch(self, source: int, to: int, frame: bytes) -> None:
        self._order += 1
        at = self.clock.now + self._random.uniform(*self.faults.delay)
        self.flying.append(Packet(at, self._order, source, to, frame))

    def take(self, index: int) -> Packet:
        """Take any packet out: to deliver it now, or never."""
        return self.flying.pop(index)

    def duplicate(self, index: int) -> None:
        """Let a packet arrive twice."""
        packet = self.flying[index]
        self._launch(packet.source, packet.to, packet.frame)

    def next(self) -> Packet | None:
        """Take the packet that has arrived first by now, if any has; lose those that meet a cut."""
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
