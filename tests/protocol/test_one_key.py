"""Two processes with one agent's key, in every order of events that matters.

They replace each other's connection, and the coordinator cannot tell them apart: of each update the first
message counts, whoever sent it. A process stops when it is shown, or named for, a message that it did not
make. So the one whose messages all count goes on. Where each has a message that counts, both stop.
"""

import math

import pytest
from tests.doubles import known_key, known_session

from tacit.base.errors import LedgerError
from tacit.core.protocol.agent import AgentMachine
from tacit.core.protocol.coordinator import CoordinatorMachine
from tacit.core.protocol.effects import Heard, Joined, NoiseReady, Start
from tacit.core.protocol.messages import COORDINATOR
from tacit.core.protocol.private_state import Budget
from tacit.core.protocol.tables import AgentPhase as P

ROUNDS = 3


class Process:
    """One machine; `handle` returns the frames that it sends, by receiver."""

    def __init__(self, machine, draw=0):
        self.machine, self._draw = machine, draw

    def handle(self, event):
        sent = list(self.machine.handle(event).messages)
        while (u := getattr(self.machine, "wants_noise", None)) is not None:
            sent += self.machine.handle(NoiseReady(u, self._draw)).messages
        return sent

    def hear(self, messages, to):
        return [said for m in messages if m.to in (None, to) for said in self.handle(Heard(m.frame))]


def agent(session, number, draw):
    sign, unlimited = known_key(number).sign, Budget(math.inf)
    return Process(AgentMachine(session, number, 0.5, sign=sign, budget=unlimited), draw)


@pytest.fixture
def begun():
    """A coordinator, agent 0, two processes of agent 1, and message 0 of each, not yet delivered."""
    session = known_session(2, ROUNDS)
    server = Process(CoordinatorMachine(session, sign=known_key(COORDINATOR).sign))
    server.handle(Start())
    members = [agent(session, 0, 1), agent(session, 1, 2), agent(session, 1, 3)]
    present = [said for member in members[:2] for said in member.handle(Start())]
    members[2].handle(Start())
    asks = server.hear(present, COORDINATOR)
    return server, *((member, member.hear(asks, min(i, 1))) for i, member in enumerate(members))


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_the_second_is_shown_the_first_message_and_the_first_goes_on(begun, order):
    server, (other, his), *two = begun
    (first, counts), (second, late) = (two[i - 1] for i in order)
    server.hear(counts, COORDINATOR)
    shown = server.hear(late, COORDINATOR)
    assert [m.frame for m in shown] == [m.frame for m in counts]
    with pytest.raises(LedgerError, match="another process uses the same key"):
        second.hear(shown, 1)
    for _ in range(ROUNDS):
        feedback = server.hear(his, COORDINATOR)
        his = other.hear(feedback, 0)
        server.hear(first.hear(feedback, 1), COORDINATOR)
    assert first.machine.phase is P.FINISHED


@pytest.mark.parametrize("speaks", [True, False])
def test_where_each_has_a_message_that_counts_both_stop(begun, speaks):
    """The second has the connection when round 0 closes, and its message 0 is still on the way."""
    server, (other, his), (first, counts), (second, late) = begun
    server.hear(counts, COORDINATOR)
    feedback = server.hear(his, COORDINATOR)
    his = other.hear(feedback, 0)
    more = second.hear(feedback, 1)  # it has spoken too, and cannot see that its message does not count
    shown = server.hear(late, COORDINATOR)
    server.hear(more, COORDINATOR)  # of update 1 its message is the first
    with pytest.raises(LedgerError, match="another process uses the same key"):
        second.hear(shown, 1)

    if speaks:  # the first is back before round 1 closes, and sends its message of update 1
        contradiction = first.hear(feedback, 1)
        with pytest.raises(LedgerError, match="another process uses the same key"):
            first.hear(server.hear(contradiction, COORDINATOR), 1)
    else:  # it is back later, and has sent none
        server.hear(his, COORDINATOR)
        place = server.handle(Joined(1))
        asked = first.hear(place, 1)
        first.hear(server.hear(asked, COORDINATOR), 1)
        assert first.machine.phase is P.STOPPED
        assert first.machine.disputed == 1
