"""The weight of one agent's start, followed forward, is what `tacit.theory.influence` finds backward."""

import numpy as np
import pytest
from tests.doubles import known_session

from tacit.protocol.codec import Codec
from tacit.protocol.influence import Influence
from tacit.theory import influence


@pytest.mark.parametrize("mixing", [0.5, (0.5, 0.6, 0.7, 0.8)], ids=["equal", "each"])
def test_forward_and_backward_agree(mixing):
    session = known_session(4, 12, mixing=mixing, decay=0.9)
    rng, codec = np.random.default_rng(3), Codec(session)
    used = [sorted(rng.choice(4, rng.integers(3, 5), replace=False).tolist()) for _ in range(12)]
    found = influence.server(session.mechanism, used).feedback().weights
    for i in range(4):
        own = Influence.of(session, i)
        for row in used:
            own.hear(codec.bitmap(row), len(row))
        assert own.weight == pytest.approx(found[i], abs=1e-12)
        assert own.used == sum(i in row for row in used)


def test_an_agent_that_joins_at_the_end_has_almost_no_weight():
    session = known_session(3, 12)
    influence, codec = Influence.of(session, 2), Codec(session)
    for _ in range(11):
        influence.hear(codec.bitmap((0, 1)), 2)
    influence.hear(codec.bitmap((0, 1, 2)), 3)
    assert 0 < influence.weight < 0.001
