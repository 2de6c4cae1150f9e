"""A class that tacit does not know is refused.

It is never taken for one that tacit knows.
"""

from dataclasses import dataclass

import numpy as np
import pytest

from tacit import ClientServer, Fading, OneShot
from tacit.base.errors import ParameterError
from tacit.core.mechanism import Mechanism


@dataclass(frozen=True, eq=False)
class MedianOfAll(Mechanism):
    """All that the base class asks for, with an aggregate of its own."""

    agents: int
    kind = "median"

    @property
    def n(self):
        return self.agents

    @property
    def closed_degrees(self):
        return np.full(self.agents, self.agents)

    @property
    def stationary(self):
        return np.ones(self.agents)

    def aggregate(self, x):
        return np.median(x, axis=0)


def test_an_unknown_mechanism_is_refused():
    with pytest.raises(ParameterError, match="MedianOfAll"):
        MedianOfAll(Fading(0.5, 1.0, 0.9), 10)


def test_what_is_no_law_is_refused():
    with pytest.raises(ParameterError, match="must be a noise law, got an object of type dict"):
        ClientServer({"sigma": 0.5}, agents=3)


def test_parameters_are_equal_by_value():
    assert Fading(0.5, 1, 0.9) == Fading(0.5, 1.0, 0.9)
    assert Fading([0.5, 0.6], 1, 0.9) == Fading([0.5, 0.6], 1, 0.9)
    assert hash(Fading([0.5, 0.6], 1, 0.9)) == hash(Fading([0.5, 0.6], 1, 0.9))
    assert len({Fading(0.5, 1, 0.9), Fading(0.5, 1, 0.9), OneShot(0.5, 1)}) == 2
    for other in (Fading(0.5, 1, 0.8), Fading([0.5, 0.5], 1, 0.9), OneShot(0.5, 1), "Fading"):
        assert Fading(0.5, 1, 0.9) != other
