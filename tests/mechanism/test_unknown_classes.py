"""A class that tacit does not know is refused, never taken for one that it knows."""

from dataclasses import dataclass

import numpy as np
import pytest

from tacit import ClientServer, Distributed, Fading, Graph, OneShot
from tacit.errors import ParameterError
from tacit.mechanism import Mechanism, Parameters
from tacit.mechanism.lattice import Lattice
from tacit.noise.approximate import epsilon_delta
from tacit.simulate import simulate_partitioned
from tacit.theory.finite_precision import lattice_loss
from tacit.theory.privacy import epsilon, epsilons, loss, rounds_within


@dataclass(frozen=True, eq=False)
class ConstantScales(Parameters):
    """All that the base class asks for: noise that does not fade."""

    def scales(self, rounds):
        return np.full(rounds, float(self.c))


class SlowerFading(Fading):
    """A known kind with another law."""

    def scales(self, rounds):
        return super().scales(rounds) ** 0.5


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

    def aggregate(self, x):
        return np.median(x, axis=0)


UNKNOWN = [ConstantScales(0.5, 1.0), SlowerFading(0.5, 1.0, 0.9)]


@pytest.mark.parametrize("parameters", UNKNOWN, ids=lambda p: type(p).__name__)
@pytest.mark.parametrize(
    "use",
    [
        lambda p: ClientServer(p, agents=10),
        lambda p: Distributed(p, Graph.from_name("ring:5")),
        epsilon,
        epsilons,
        lambda p: loss(p, 1.0, 5),
        lambda p: rounds_within(p, 1.0),
        lambda p: epsilon_delta(p, 5, 1.0, 1e-6),
        lambda p: lattice_loss(p, 5),
        lambda p: Lattice.fitting(p, 5, 0, 1),
        lambda p: Lattice(0, 1).agent(p),
        lambda p: simulate_partitioned(p, "ring:5", "zeros", 5, cluster="tcp://127.0.0.1:1"),
    ],
)
def test_unknown_parameters_are_refused(parameters, use):
    with pytest.raises(ParameterError, match=type(parameters).__name__):
        use(parameters)


def test_an_unknown_mechanism_is_refused():
    with pytest.raises(ParameterError, match="MedianOfAll"):
        MedianOfAll(Fading(0.5, 1.0, 0.9), 10)


def test_parameters_are_equal_by_value():
    assert Fading(0.5, 1, 0.9) == Fading(0.5, 1.0, 0.9)
    assert Fading([0.5, 0.6], 1, 0.9) == Fading([0.5, 0.6], 1, 0.9)
    assert hash(Fading([0.5, 0.6], 1, 0.9)) == hash(Fading([0.5, 0.6], 1, 0.9))
    assert len({Fading(0.5, 1, 0.9), Fading(0.5, 1, 0.9), OneShot(0.5, 1)}) == 2
    for other in (Fading(0.5, 1, 0.8), Fading([0.5, 0.5], 1, 0.9), OneShot(0.5, 1), "Fading"):
        assert Fading(0.5, 1, 0.9) != other
