"""Every reason to refuse can occur, is counted once, is told, and changes nothing."""

import math

import msgspec
import pytest
from tests.doubles import known_ephemeral, known_feedback, known_key, known_session

from tacit.core.protocol.agent import AgentMachine
from tacit.core.protocol.codec import DOMAIN, Codec
from tacit.core.protocol.coordinator import CoordinatorMachine
from tacit.core.protocol.effects import Heard, NoiseReady, Start, Tick
from tacit.core.protocol.machine import ANSWERS_PER_TICK
from tacit.core.protocol.masks import public_key
from tacit.core.protocol.messages import (
    COORDINATOR,
    NOTHING_HEARD,
    VERSION,
    Ask,
    Key,
    Masked,
    Present,
    Refusal,
    Report,
)
from tacit.core.protocol.notices import Refused
from tacit.core.protocol.places import LastUsed
from tacit.core.protocol.private_state import Budget

SESSION = known_session(3, 6)
CODEC = Codec(SESSION)
ASK = b"\x91\x01"
ASKED = (VERSION, SESSION.id, COORDINATOR, 4)


def frame(sender, body):
    return CODEC.seal(sender, body, known_key(sender).sign)


def raw(*head, sender=COORDINATOR):
    data = msgspec.msgpack.encode(list(head))
    return data + known_key(sender).sign(DOMAIN + data)


def feedback(t=1, y=0, count=3, before=None, numbers=None):
    before = agent()[1] if before is None else before
    body = known_feedback(CODEC, t, [y], count=count, before=before)
    return frame(COORDINATOR, body if numbers is None else msgspec.structs.replace(body, numbers=numbers))


def report(sender=0, u=0, x=0, heard=NOTHING_HEARD, exponent=None):
    exponent = SESSION.exponent(sender, u) if exponent is None else exponent
    return frame(sender, Report(u, exponent, CODEC.pack([x]), heard))


KEPT = known_session(2, 2, keepers=1)


def kept_frame(sender, body):
    return Codec(KEPT).seal(sender, body, known_key(sender).sign)


def masked_coordinator():
    """A coordinator with keepers in round 0."""
    machine = CoordinatorMachine(KEPT, sign=known_key(COORDINATOR).sign)
    keys = [kept_frame(i, Key(public_key(known_ephemeral(i)))) for i in range(3)]
    for event in (Start(), Tick(0), *map(Heard, keys)):
        machine.handle(event)
    return machine, None


def masked_report():
    """A masked message made with keys that nobody has shown."""
    numbers = bytes(KEPT.masked_bytes)
    return kept_frame(0, Masked(0, KEPT.exponent(0, 0), numbers, NOTHING_HEARD, bytes(32), bytes(32)))


FIRST = frame(COORDINATOR, known_feedback(CODEC, 0, [5]))


def agent():
    """An agent that has spoken in round 0, moved, and spoken in round 1; and the feedback's digest."""
    machine = AgentMachine(SESSION, 0, 0.5, sign=known_key(0).sign, budget=Budget(math.inf))
    for event in (Start(), Tick(0), Heard(frame(COORDINATOR, Ask(0))), NoiseReady(0, 7), Heard(FIRST)):
        machine.handle(event)
    machine.handle(NoiseReady(1, 8))
    return machine, CODEC.open(FIRST).digest


def coordinator():
    """A coordinator that has closed round 0 without agent 2 and heard agent 0 in round 1."""
    session = known_session(3, 6)
    machine = CoordinatorMachine(session, sign=known_key(COORDINATOR).sign)
    machine.handle(Start())
    for i in range(3):
        machine.handle(Heard(frame(i, Present(0))))
    for i in range(2):
        machine.handle(Heard(report(i)))
    machine.handle(Tick(0.0))
    (closed,) = machine.handle(Tick(31.0)).records
    before = CODEC.open(closed.frame).digest
    machine.handle(Heard(report(0, 1, heard=before)))
    machine.handle(Tick(31.0))
    return machine, before


def agent_asked_often():
    machine, digest = agent()
    for _ in range(ANSWERS_PER_TICK):
        machine.handle(Heard(frame(COORDINATOR, Ask(1))))
    return machine, digest


LIMIT = SESSION.lattice.limit
OTHERS_PLACE = LastUsed(3).place(0, 1)
CASES = {
    Refusal.TOO_LARGE: (agent, lambda _: Heard(bytes(CODEC.most_bytes + 1))),
    Refusal.MALFORMED: (agent, lambda _: Heard(b"nonsense" * 20)),
    Refusal.UNKNOWN_VERSION: (agent, lambda _: Heard(raw(1, "whatever"))),
    Refusal.WRONG_SESSION: (agent, lambda _: Heard(raw(VERSION, bytes(32), COORDINATOR, 4, ASK))),
    Refusal.UNKNOWN_SENDER: (agent, lambda _: Heard(raw(VERSION, SESSION.id, 3, 4, ASK))),
    Refusal.UNKNOWN_KIND: (agent, lambda _: Heard(raw(VERSION, SESSION.id, COORDINATOR, 13, ASK))),
    Refusal.BAD_SIGNATURE: (
        agent,
        lambda _: Heard(raw(VERSION, SESSION.id, COORDINATOR, 4, ASK, sender=1)),
    ),
    Refusal.NOT_CANONICAL: (
        agent,
        lambda _: Heard(raw(*ASKED, b"\x91\xcc\x01")),
    ),
    Refusal.WRONG_LENGTH: (agent, lambda _: Heard(feedback(numbers=b"123"))),
    Refusal.OFF_LATTICE: (coordinator, lambda _: Heard(report(1, 1, exponent=0))),
    Refusal.OUT_OF_RANGE: (agent, lambda _: Heard(feedback(y=LIMIT + 1))),
    Refusal.WRONG_COUNT: (agent, lambda _: Heard(feedback(count=4))),
    Refusal.WRONG_ROLE: (agent, lambda _: Heard(frame(COORDINATOR, Present(0)))),
    Refusal.WRONG_ROUND: (agent, lambda _: Heard(frame(COORDINATOR, Ask(6)))),
    Refusal.NOT_FOR_ME: (agent, lambda _: Heard(frame(1, Present(0)))),
    Refusal.LATE: (agent, lambda _: Heard(frame(COORDINATOR, Ask(0)))),
    Refusal.AHEAD: (coordinator, lambda _: Heard(report(1, 2))),
    Refusal.REPLAY: (agent, lambda _: Heard(FIRST)),
    Refusal.EQUIVOCATION: (agent, lambda _: Heard(feedback(t=0, before=NOTHING_HEARD, y=6))),
    Refusal.OTHER_HISTORY: (coordinator, lambda _: Heard(report(1, 1, heard=bytes(range(32))))),
    Refusal.WRONG_PLACE: (agent, lambda _: Heard(frame(COORDINATOR, OTHERS_PLACE))),
    Refusal.OTHER_KEY: (masked_coordinator, lambda _: Heard(masked_report())),
    Refusal.TOO_OFTEN: (agent_asked_often, lambda _: Heard(frame(COORDINATOR, Ask(1)))),
    Refusal.SECOND_DRAW: (agent, lambda _: NoiseReady(1, 9)),
    Refusal.OUT_OF_PLACE: (agent, lambda _: Start()),
}


def test_every_reason_is_tried():
    assert set(CASES) == set(Refusal)


@pytest.mark.parametrize("reason", list(Refusal), ids=lambda r: r.name.lower())
def test_refused_counted_told_and_nothing_changes(reason, state_of):
    make, event = CASES[reason]
    machine, digest = make()
    before, counted = state_of(machine), machine.refused.copy()
    step = machine.handle(event(digest))
    assert machine.refused - counted == {reason: 1}
    assert [n.reason for n in step.notices if isinstance(n, Refused)] == [reason]
    after = state_of(machine)
    if reason in (Refusal.LATE, Refusal.AHEAD):  # one of the two has lost its history: it is told, not often
        assert len(step.messages) == 1
        assert sum(after.pop("_answered").values()) == sum(before.pop("_answered").values()) + 1
    else:
        assert step.messages == ()
    if reason is Refusal.TOO_OFTEN:  # it asks for the tick that allows answers again
        assert (before.pop("_owes_answers"), after.pop("_owes_answers")) == (False, True)
    if reason is Refusal.EQUIVOCATION:  # what is kept is the evidence, and nothing else
        assert len(step.records) == 1
        assert len(after.pop("_evidence")) == len(before.pop("_evidence")) + 1
    else:
        assert step.records == ()
    assert after == before


def test_reasons_are_sentences_for_people():
    texts = [reason.value for reason in Refusal]
    assert len(set(texts)) == len(texts)
    assert all(len(text) > 10 and not text.endswith(".") for text in texts)
