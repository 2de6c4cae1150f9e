"""Sessions with keepers, real machines and real noise: accuracy, and what conspirators learn."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from tacit.noise.safe import SafeNoise
from tacit.protocol.codec import Codec
from tacit.protocol.masks import Party, agree, centred, mask, public_key, total
from tacit.protocol.messages import NOTHING_HEARD, Masked, Message, Opening
from tacit.protocol.records import Closed
from tacit.protocol.session import Deadlines
from tacit.testing import Harness, known_ephemeral, known_session

FALSE_ALARM = 1e-6
VICTIM = 1


class RealNoise:
    """Draws of the safe source for a harness; what the machines themselves are given in the runtime."""

    def __init__(self, session):
        self._agent, self._source = session.lattice_agent(0), SafeNoise(threads=1)

    def draw(self, _keeper, u):
        return self._source.draw(self._agent.draw_scale(u))


def played(session, values):
    harness = Harness(session, values, RealNoise(session))
    harness.start()
    assert harness.run(Harness.finished)
    return harness


# ---- accuracy -------------------------------------------------------------------------------------------


def radius(session, b):
    """Solve e^−t(1 + t/2) = b for two keepers and one-shot noise; the error is t·C/N."""
    low, high = 0.0, 100.0
    for _ in range(100):
        t = (low + high) / 2
        low, high = (t, high) if math.exp(-t) * (1 + t / 2) > b else (low, t)
    return high * float(session.noise) / session.n


def beyond(sessions, b=0.2):
    session = known_session(3, 1, keepers=2, noise_kind="one-shot", deadlines=Deadlines(5, 10, 1))
    values, most, codec = [0.0, 0.25, 1.0], radius(session, b), Codec(session)
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


# ---- a coordinator that conspires with one of two keepers -------------------------------------------------


class Conspirators:
    """The coordinator, every wire, all agents but one, and one of two keepers, after a session.

    They know the victim's masks with their own keeper, and the honest keeper's masks with everyone but the
    victim. What is left of the victim's message and of the honest opening is its rounded state minus noise.
    """

    def __init__(self, harness, keeper):
        self.session, self.codec = harness.session, Codec(harness.session)
        self.ours = self.session.n + keeper
        self.honest = self.session.n + 1 - keeper
        frames = {frame for _, _, frame in harness.network.tap}
        found = [self.codec.open(frame) for frame in frames]
        self.said = [message for message in found if isinstance(message, Message)]
        self.feedback = [
            self.codec.open(r.frame) for r in harness.ledgers[-1].records() if isinstance(r, Closed)
        ]

    def secret(self, i, j):
        """What agent i or keeper j can compute, whichever of them is theirs."""
        session = self.session
        assert i != VICTIM or j != self.honest
        own = i if i != VICTIM else j
        other = j if own == i else i
        agent, keeper = (
            Party(session.member_name(k), session.key(k), public_key(known_ephemeral(k))) for k in (i, j)
        )
        theirs = public_key(known_ephemeral(other))
        return agree(known_ephemeral(own), theirs, session=session.id, agent=agent, keeper=keeper)

    def seen(self, u):
        """The victim's rounded state minus the honest keeper's noise, in message steps."""
        session, width = self.session, self.session.mask_bytes
        report = next(
            m.body
            for m in self.said
            if isinstance(m.body, Masked) and (m.sender, m.body.update) == (VICTIM, u)
        )
        opening = next(
            m.body
            for m in self.said
            if isinstance(m.body, Opening) and (m.sender, m.body.round) == (self.honest, u)
        )
        heard = self.feedback[u - 1].digest if u else NOTHING_HEARD
        others = [i for i in range(session.n) if i != VICTIM]
        known = [mask(self.secret(i, self.honest), u, heard, width) for i in others]
        away = [opening.numbers, mask(self.secret(VICTIM, self.ours), u, heard, width)]
        return centred(total([report.numbers, *known], width, minus=away), width)[0]

    def likelihood_ratio(self, one, other):
        """log P(seen | the victim has `one`) − log P(seen | it has `other`), both updates together."""
        agent, lattice = self.session.lattice_agent(VICTIM), self.session.lattice
        states, ratio = [lattice.start(one), lattice.start(other)], 0.0
        for u in range(self.session.rounds):
            shift = agent.message_exponent(u) - lattice.state_exponent
            rounded = [(state + (1 << shift >> 1)) >> shift for state in states]
            seen, scale = self.seen(u), agent.draw_scale(u)
            ratio += (abs(seen - rounded[1]) - abs(seen - rounded[0])) / scale
            y = self.feedback[u].numbers[0]
            states = [agent.update(state, y) for state in states]
        return ratio


@pytest.mark.parametrize("keeper", [0, 1])
@pytest.mark.parametrize("sessions", [60, pytest.param(1000, marks=pytest.mark.long)])
def test_conspirators_learn_no_more_than_the_account_says(keeper, sessions):
    """From the bytes on the wires alone; each keeper in turn. And they do learn: the attack works."""
    session = known_session(3, 2, keepers=2, noise=1.5, deadlines=Deadlines(5, 10, 1))
    loss = session.account(VICTIM).total
    rng = np.random.default_rng(keeper)
    right = 0
    for _ in range(sessions):
        truth = float(rng.integers(2))
        harness = played(session, [0.5, truth, 0.5])
        ratio = Conspirators(harness, keeper).likelihood_ratio(1.0, 0.0)
        assert abs(ratio) <= loss * (1 + 1e-9)
        right += (ratio > 0) == (truth == 1.0)
    at_most = math.exp(loss) / (1 + math.exp(loss))
    assert right <= binom.ppf(1 - FALSE_ALARM, sessions, at_most)
    if sessions >= 1000:
        assert right >= binom.ppf(1 - FALSE_ALARM, sessions, 0.5)
