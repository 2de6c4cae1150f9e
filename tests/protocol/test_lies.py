"""Whatever a liar with everyone else's keys does, what an agent loses is what it accounted for.

Two adjacent values lead to the same bytes with probabilities whose ratio is at most
exp(Σ m_u/b_u), m_u being how many message steps apart the two states are at message u, summed over the
components, and b_u the scale of its draw. Both are computed here from what was tapped and recorded.
"""

import math
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.doubles import known_feedback, known_key, known_session

from tacit.core.protocol.agent import AgentMachine
from tacit.core.protocol.codec import Codec, as_array, as_numbers, digest
from tacit.core.protocol.effects import Halt, Heard, Joined, NoiseReady, Start, Tick
from tacit.core.protocol.messages import COORDINATOR, NOTHING_HEARD, Ask, Message, Refusal, Report, Stop
from tacit.core.protocol.notices import Refused
from tacit.core.protocol.peer import PeerMachine
from tacit.core.protocol.places import LastUsed
from tacit.core.protocol.private_state import Budget
from tacit.core.protocol.records import Evidence, Moved, Spoke

ROUNDS = 8


LIES = ["feed"] * 4 + ["place"] * 3 + ["ask", "restart", "replay", "tick", "join", "stop"]


class Prey:
    """An agent or peer, all it sent, and all it saved; restarted at will."""

    def __init__(self, session, value, budget):
        self.session, self.budget = session, budget
        self.codec = Codec(session)
        self.kind = AgentMachine if session.edges is None else PeerMachine
        self.number = 0 if session.edges is None else 1
        self.sign = known_key(self.number).sign
        self.machine = self.kind(session, self.number, value, sign=self.sign, budget=budget)
        self.records, self.tap, self.draws = [], [], 0
        self(Start())

    def __call__(self, event):
        step = self.machine.handle(event)
        self.records += step.records
        self.tap += [m.frame for m in step.messages]
        while (u := self.machine.wants_noise) is not None:
            self.draws += 1
            step = self.machine.handle(NoiseReady(u, [self.draws * 12345] * self.session.components))
            self.records += step.records
            self.tap += [m.frame for m in step.messages]

    def hear(self, sender, body):
        self(Heard(self.codec.seal(sender, body, known_key(sender).sign)))

    def restart(self):
        if self.records:
            resume = self.kind.resume
            self.machine = resume(self.session, self.number, self.records, sign=self.sign, budget=self.budget)
            self(Start())

    def said(self):
        """The reports on the wire by update; fails if there were ever two for one."""
        found = {}
        for frame in self.tap:
            message = self.codec.open(frame)
            assert isinstance(message, Message)
            if isinstance(message.body, Report) and message.sender == self.number:
                assert found.setdefault(message.body.update, frame) == frame
        return found

    def ratio(self, other):
        """The largest log-likelihood ratio of all that was said, between the true value and another."""
        agent = self.session.lattice_agent(self.number)
        states = [as_array(self.codec.unpack(self.records[0].state)), other]
        moved = [self.codec.unpack(r.y) for r in self.records if isinstance(r, Moved)]
        total = Fraction(0)
        said = self.said()
        for u in range(max(said, default=-1) + 1):
            if u in said and agent.speaks(u):
                one, two = (agent.report(state, u, 0 * np.asarray(state, dtype=object)) for state in states)
                apart = sum(abs(a - b) for a, b in zip(as_numbers(one), as_numbers(two), strict=True))
                total += Fraction(apart) / Fraction(agent.draw_scale(u))
            if u < len(moved):
                states = [agent.update(state, as_array(moved[u])) for state in states]
        return total


def adjacent(session, value, share):
    """A value at most the adjacency away in the L1 norm, on the lattice's range."""
    k = session.components
    moved = [min(max(v + s * session.adjacency / k, 0.0), 1.0) for v, s in zip(value, share, strict=True)]
    return as_array(as_numbers(session.lattice.start(moved)))


def hold(prey, other):
    spent = prey.machine.private.spent_here
    assert prey.ratio(other) <= Fraction(spent)
    assert Fraction(prey.budget.spent) + sum(
        Fraction(r.loss) for r in prey.records if isinstance(r, Spoke)
    ) <= Fraction(prey.budget.cap if prey.budget.cap < math.inf else 10**9)
    recorded = {r.update: r.frame for r in prey.records if isinstance(r, Spoke)}
    said = prey.said()
    assert all(recorded[u] == frame for u, frame in said.items())


SERVER = {
    kind: known_session(3, ROUNDS, law=kind, components=2, mixing=0.3, decay=0.8, quorum=1)
    for kind in ("fading", "one-shot")
}
GRAPH = {
    kind: known_session(graph="path:3", rounds=ROUNDS, law=kind, components=2, mixing=0.3, decay=0.8)
    for kind in ("fading", "one-shot")
}
EDGE = st.sampled_from([0.0, 0.5, 1.0])
SHARE = st.sampled_from([-1.0, -0.3, 0.0, 1.0])


def a_number(session):
    limit = session.lattice.limit
    return st.one_of(
        st.sampled_from([0, 1, -1, limit, -limit, limit + 1, -limit - 1, limit // 3]),
        st.integers(-limit - 2, limit + 2),
    )


def budgets(session, number):
    spent = session.account(number).spent
    return st.sampled_from(
        [
            Budget(math.inf),
            Budget(spent[3], partial=True),
            Budget(spent[-1]),
            Budget(1.0 + spent[2], 1.0, True),
        ]
    )


@pytest.mark.parametrize("kind", ["fading", "one-shot"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_lying_coordinator_gets_no_more_than_the_account_says(kind, data):
    session = SERVER[kind]
    value = [data.draw(EDGE), data.draw(EDGE)]
    prey = Prey(session, value, data.draw(budgets(session, 0)))
    other = adjacent(session, value, [data.draw(SHARE), data.draw(SHARE)])
    heard, frames = [NOTHING_HEARD], []
    codec, sign = prey.codec, known_key(COORDINATOR).sign
    for _ in range(data.draw(st.integers(1, 30))):
        u = prey.machine.update
        match data.draw(st.sampled_from(LIES)):
            case "feed":
                t = min(max(u + data.draw(st.sampled_from([0, 0, 0, 0, 1, 2, -1, 5])), 0), ROUNDS - 1)
                y = [data.draw(a_number(session)) for _ in range(2)]
                before = heard[t] if t < len(heard) and data.draw(st.integers(0, 9)) else bytes(range(32))
                used = data.draw(st.sets(st.integers(0, 2), min_size=1))
                body = known_feedback(codec, t, y, count=len(used), before=before)
                frame = codec.seal(COORDINATOR, body, sign)
                frames.append(frame)
                prey(Heard(frame))
                if prey.machine.update == u + 1 == t + 1:
                    heard[t + 1 :] = [digest(frame)]
            case "place":  # it says that the key never spoke: true or not, the agent goes on
                prey.hear(COORDINATOR, LastUsed(session.n).place(data.draw(st.integers(0, ROUNDS - 1)), 0))
            case "ask":
                for _ in range(data.draw(st.integers(1, 20))):
                    prey.hear(COORDINATOR, Ask(data.draw(st.integers(0, ROUNDS - 1))))
            case "replay" if frames:
                prey(Heard(data.draw(st.sampled_from(frames))))
            case "restart":
                prey.restart()
            case "tick":
                prey(Tick(data.draw(st.floats(0, 1e6))))
            case "join":
                prey(Joined(COORDINATOR))
            case "stop" if not data.draw(st.integers(0, 9)):
                prey.hear(COORDINATOR, Stop(0, 0))
    if prey.records:
        hold(prey, other)


@pytest.mark.parametrize("kind", ["fading", "one-shot"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_lying_neighbours_get_no_more_than_the_account_says(kind, data):
    session = GRAPH[kind]
    value = [data.draw(EDGE), data.draw(EDGE)]
    prey = Prey(session, value, data.draw(budgets(session, 1)))
    other = adjacent(session, value, [data.draw(SHARE), data.draw(SHARE)])
    codec, now = prey.codec, 0.0
    for _ in range(data.draw(st.integers(1, 30))):
        u, liar = prey.machine.update, data.draw(st.sampled_from([0, 2]))
        match data.draw(st.sampled_from(["say"] * 6 + ["ask", "restart", "tick", "halt"])):
            case "say":
                t = min(max(u + data.draw(st.sampled_from([0, 0, 0, 0, 1, 3, -1])), 0), ROUNDS - 1)
                e = session.exponent(liar, t)
                bound = session.lattice.limit >> (e - session.lattice.state_exponent)
                x = st.sampled_from([0, 1, bound, -bound, bound + 1, bound // 3])
                numbers = codec.pack([data.draw(x) for _ in range(2)])
                prey.hear(liar, Report(t, e, numbers, bytes(32)))
            case "ask":
                prey.hear(liar, Ask(data.draw(st.integers(0, ROUNDS - 1))))
            case "restart":
                prey.restart()
            case "tick":
                now += data.draw(st.sampled_from([0.5, 5.0, 100.0]))
                prey(Tick(now))
                prey(Tick(now))
            case "halt" if not data.draw(st.integers(0, 9)):
                prey(Halt())
    if prey.records:
        hold(prey, other)


def test_the_bound_is_met_so_the_test_above_can_fail():
    """Values that differ by the whole adjacency, all messages said: the ratio is nearly the account's."""
    session = known_session(3, ROUNDS, mixing=0.3, decay=0.8, quorum=1)
    prey = Prey(session, 0.0, Budget(math.inf))
    heard = NOTHING_HEARD
    prey.hear(COORDINATOR, Ask(0))
    for t in range(ROUNDS):
        body = known_feedback(prey.codec, t, [0], count=1, before=heard)
        frame = prey.codec.seal(COORDINATOR, body, known_key(COORDINATOR).sign)
        heard = digest(frame)
        prey(Heard(frame))
    ratio = prey.ratio(session.lattice.start(1.0))
    assert sorted(prey.said()) == list(range(ROUNDS))
    assert 1 - 1e-6 < ratio / Fraction(prey.machine.private.spent_here) <= 1


def test_an_agent_that_drew_again_would_be_found_out():
    """The ratio counts one message per update; a second one for the same update fails the tap."""
    session = known_session(3, ROUNDS)
    prey = Prey(session, 0.5, Budget(math.inf))
    prey.hear(COORDINATOR, Ask(0))
    prey.records = prey.records[:1]  # as if the message had not been saved before it was sent
    prey.restart()
    prey.hear(COORDINATOR, Ask(0))
    with pytest.raises(AssertionError):
        prey.said()


def test_two_agents_told_different_things_sign_that_they_were():
    """Each follows its own history; what they sign next names it, so a reader of both sees the lie."""
    session = known_session(3, ROUNDS, quorum=1)
    codec, sign = Codec(session), known_key(COORDINATOR).sign
    reports = []
    for number, y in ((0, 5), (1, 6)):
        agent = AgentMachine(session, number, 0.5, sign=known_key(number).sign, budget=Budget(math.inf))
        agent.handle(Start())
        frame = codec.seal(COORDINATOR, known_feedback(codec, 0, [y], count=1), sign)
        place = codec.seal(COORDINATOR, LastUsed(3).place(0, number), sign)
        for each in (frame, place):
            agent.handle(Heard(each))
        step = agent.handle(NoiseReady(1, 3))
        report = codec.open(step.messages[-1].frame)
        assert report.body.heard == digest(frame)
        reports.append(report)
    assert reports[0].body.heard != reports[1].body.heard


def test_absurd_feedback_is_refused_whatever_it_says():
    session = SERVER["fading"]
    prey = Prey(session, [0.5, 0.5], Budget(math.inf))
    limit = session.lattice.limit
    for y in (limit + 1, -limit - 1, 256**session.number_bytes // 2 - 1, -(256**session.number_bytes) // 2):
        prey.hear(COORDINATOR, known_feedback(prey.codec, 0, [y, 0]))
    assert prey.machine.refused[Refusal.OUT_OF_RANGE] == 4
    assert prey.machine.update == 0
    nan = np.array([np.nan, np.nan]).tobytes()
    prey.hear(COORDINATOR, msgspec.structs.replace(known_feedback(prey.codec, 0, [0, 0]), numbers=nan))
    assert prey.machine.refused[Refusal.WRONG_LENGTH] == 1


def test_skipped_rounds_are_not_skipped():
    """Feedback of a later round makes the agent ask, not jump: updates go one by one."""
    prey = Prey(SERVER["fading"], [0.5, 0.5], Budget(math.inf))
    prey.hear(COORDINATOR, known_feedback(prey.codec, 5, [0, 0]))
    assert prey.machine.update == 0
    assert [prey.codec.open(f).body for f in prey.tap][-1] == Ask(0)
    assert not any(isinstance(r, Evidence | Spoke) for r in prey.records)


def test_a_stranger_or_another_agent_cannot_speak_for_the_coordinator():
    prey = Prey(SERVER["fading"], [0.5, 0.5], Budget(math.inf))
    body = known_feedback(prey.codec, 0, [0, 0])
    for key in (known_key(1), known_key(0), known_key(COORDINATOR, salt="other")):
        step = prey.machine.handle(Heard(prey.codec.seal(COORDINATOR, body, key.sign)))
        assert step.notices == (Refused(Refusal.BAD_SIGNATURE),)
        assert step.records == step.messages == ()
