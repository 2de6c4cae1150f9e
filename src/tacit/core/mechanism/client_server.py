"""The client-server mechanism, without and with keepers.

This is section 3 of the paper (sec:pconsensus); keepers are not in it. Without keepers every agent adds its
own noise and trusts nobody. With m keepers agents send their states under masks, and each keeper adds one
draw to the sum. An agent then has to trust at least one of the keepers (docs/proofs/keepers.md). The law of
the noise does not depend on who adds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from tacit.base.arguments import whole
from tacit.base.arrays import FloatArray, IntArray
from tacit.base.errors import ParameterError
from tacit.core.mechanism.base import Mechanism

MOST_AGENTS = 2**53
MOST_KEEPERS = 100
"""Upper limit. Each further keeper adds noise, and beyond this number hardly any protection."""


@final
@dataclass(frozen=True, eq=False)
class ClientServer(Mechanism):
    """N agents and a server that answers all of them with one mean.

    Parameters
    ----------
    law : Law
        With keepers, noise and decay are one number for the whole session. Mixing may be one number per
        agent, unless noise is drawn once.
    agents : int
    keepers : int
        How many keepers add the noise; 0 if every agent adds its own.

    Examples
    --------
    >>> from tacit import ClientServer, Fading
    >>> execution = ClientServer(Fading(0.5, 1, 0.9), agents=2).execute([0, 1], [[0.5, -0.5]])
    >>> execution.x, execution.y
    (array([[0.5, 0.5]]), array([0.5]))
    """

    agents: int
    keepers: int = 0
    kind: ClassVar[str] = "client-server"

    def __post_init__(self) -> None:
        whole("agents", self.agents, 1)
        if self.agents > MOST_AGENTS:
            raise ParameterError(
                f"agents must be at most 2^53, the most that floats count exactly, got {self.agents}."
            )
        whole("keepers", self.keepers, 0, most=MOST_KEEPERS, bounds=f"from 0 to {MOST_KEEPERS}")
        super().__post_init__()
        if self.keepers:
            self._require_shared_noise()

    def _require_shared_noise(self) -> None:
        """Refuse per-agent noise with keepers: a keeper draws once for all agents."""
        law = self.law
        if law.shadowed and not law.mixes:
            raise law.motion.undefined(
                "noise once with keepers", "what agents do after keepers add noise once"
            )
        for word, (name, value) in zip(law.words(), law.values().items(), strict=True):
            if not isinstance(value, np.ndarray):
                continue
            if name == "sigma" and law.shadowed:
                raise ParameterError(
                    f"{word} must be one number if keepers add noise once, got one per agent: what agents "
                    "agree on is then worked out for equal agents only. Give one number, fading noise, or no "
                    "keepers."
                )
            if name != "sigma" or law.by_mixing:
                raise ParameterError(
                    f"{word} must be one number if keepers add the noise, got one per agent: a keeper "
                    "draws once for all of them. Give one number, or no keepers."
                )

    @property
    def n(self) -> int:
        """Number of agents N."""
        return int(self.agents)

    @property
    def closed_degrees(self) -> IntArray:
        """N for every agent: the server's mean is over all messages."""
        return np.broadcast_to(np.int64(self.n), (self.n,))

    @property
    def stationary(self) -> FloatArray:
        """N for every agent: all have the same weight."""
        return np.broadcast_to(np.float64(self.n), (self.n,))

    def aggregate(self, x: FloatArray) -> FloatArray:
        """Phase (ii): y(t) = (1/N) Σ_i x_i(t), one value (or vector) for all."""
        return np.asarray(x.mean(axis=0))
