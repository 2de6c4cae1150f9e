"""Sessions with keepers: the error of real machines with real noise is the promised one.

`Harness` drives the very machines of the runtime: `AgentMachine`, `KeeperMachine` and
`CoordinatorMachine`, over signed frames. What conspirators learn: tests/runtime/test_conspirators.py.
"""

import numpy as np
import pytest
from scipy.stats import binom
from tests.doubles import Harness, known_session

from tacit import analyze
from tacit.core.noise.safe import SafeNoise
from tacit.core.protocol.agent import AgentMachine
from tacit.core.protocol.codec import Codec
from tacit.core.protocol.coordinator import CoordinatorMachine
from tacit.core.protocol.keeper import KeeperMachine
from tacit.core.protocol.records import Closed
from tacit.core.protocol.session import Deadlines

FALSE_ALARM = 1e-6


class RealNoise:
    """Draws of the safe source for a harness; what the machines themselves are given in the runtime."""

    def __init__(self, session):
        self._agent, self._source = session.lattice_agent(0), SafeNoise()

    def draw(self, _keeper, u):
        return self._source.draw(self._agent.draw_scale(u))


def played(session, values):
    harness = Harness(session, values, RealNoise(session))
    harness.start()
    used = [type(harness.machine(number)) for number in harness.numbers]
    assert used == [CoordinatorMachine, *[AgentMachine] * 3, *[KeeperMachine] * 2]
    assert harness.run(Harness.finished)
    return harness


def beyond(sessions, b=0.2):
    session = known_session(3, 1, keepers=2, law="one-shot", deadlines=Deadlines(5, 10, 1))
    values, codec = [0.0, 0.25, 1.0], Codec(session)
    most = analyze(session.mechanism, failure_probability=b).radius
    count = 0
    for _ in range(sessions):
        harness = played(session, values)
        (closed,) = (r for r in harness.ledgers[-1].records() if isinstance(r, Closed))
        y = float(session.lattice.value(codec.open(closed.frame).numbers[0]))
        count += abs(y - np.mean(values)) > most
    return count


@pytest.mark.parametrize("sessions", [150, pytest.param(2000, marks=pytest.mark.long)])
def test_errors_match_the_promised_radius(sessions):
    """The radius is missed as often as it may be: not more often, and not less."""
    low, high = binom.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], sessions, 0.2)
    assert low <= beyond(sessions) <= high
