"""Noise that the test chooses in advance."""

from __future__ import annotations

from collections import Counter
from typing import Any, final

import numpy as np

from tacit.base.errors import StateError
from tacit.core.mechanism.whole import as_whole


@final
class ScriptedNoise:
    """The given draws, one for each update and agent. Protects nobody.

    Parameters
    ----------
    draws : array_like of whole numbers, shape (rounds, n) or (rounds, n, k)
        As `OnLattice.execute` takes them.
    fresh : bool
        Whether a draw that is requested again is a different one, as with real noise. An agent that draws
        twice for the same message then sends two different messages, which tests detect.

    Attributes
    ----------
    taken : Counter
        How often the draw of (agent, update) was taken.
    """

    def __init__(self, draws: Any, *, fresh: bool = True) -> None:
        self._draws = np.asarray(as_whole(draws, "draws"), dtype=object)
        self._fresh = fresh
        self.taken: Counter[tuple[int, int]] = Counter()

    def __repr__(self) -> str:
        return f"<ScriptedNoise for {len(self._draws)} updates>"

    def draw(self, agent: int, update: int) -> Any:
        """Return the draw of an agent for an update: one per component."""
        if not update < len(self._draws):
            raise StateError(f"there is no draw for update {update} in the script.")
        before = self.taken[agent, update]
        self.taken[agent, update] += 1
        return self._draws[update, agent] + (before * 1_000_003 if self._fresh else 0)
