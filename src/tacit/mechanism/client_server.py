"""The client-server mechanism, section 3 of the paper (sec:pconsensus)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from tacit.arrays import FloatArray, IntArray
from tacit.errors import ParameterError
from tacit.mechanism.base import Mechanism

MOST_AGENTS = 2**53


@final
@dataclass(frozen=True, eq=False)
class ClientServer(Mechanism):
    """N agents and a server that answers all of them with one mean.

    Examples
    --------
    >>> from tacit import ClientServer, Fading
    >>> execution = ClientServer(Fading(0.5, 1, 0.9), agents=2).execute([0, 1], [[0.5, -0.5]])
    >>> execution.x, execution.y
    (array([[0.5, 0.5]]), array([0.5]))
    """

    agents: int
    kind: ClassVar[str] = "client-server"

    def __post_init__(self) -> None:
        given: object = self.agents
        if not isinstance(given, int | np.integer) or given < 1:
            raise ParameterError(f"agents must be a whole number of at least 1, got {self.agents!r}.")
        if self.agents > MOST_AGENTS:
            raise ParameterError(f"agents must be at most 2^53, which floats still count, got {self.agents}.")
        super().__post_init__()

    @property
    def n(self) -> int:
        """Number of agents N."""
        return int(self.agents)

    @property
    def closed_degrees(self) -> IntArray:
        """N for everyone: the server's mean is over all messages."""
        return np.broadcast_to(np.int64(self.n), (self.n,))

    def aggregate(self, x: FloatArray) -> FloatArray:
        """Phase (ii): y(t) = (1/N) Σ_i x_i(t), one value (or vector) for all."""
        return np.asarray(x.mean(axis=0))
