"""Broken frames, from strangers and from members: refused, and nothing changes."""

import math
import random

import msgspec
import pytest
from tests.doubles import known_feedback, known_key, known_session

from tacit.core.protocol.agent import AgentMachine
from tacit.core.protocol.codec import DOMAIN, Codec
from tacit.core.protocol.effects import Heard, Start
from tacit.core.protocol.messages import (
    COORDINATOR,
    KINDS,
    NOTHING_HEARD,
    Ask,
    Reason,
    Refusal,
    Report,
    Stop,
)
from tacit.core.protocol.notices import Refused
from tacit.core.protocol.places import LastUsed
from tacit.core.protocol.private_state import Budget

ODD = [
    b"\xa2\xff\xfe", b"\xd9\x02\xc3\x28", b"\xc0", b"\xc3", b"\xcb\x7f\xf8" + bytes(6), b"\xcf" + b"\xff" * 8,
    b"\xd3\x80" + bytes(7), b"\xc7\x01\x05x", b"\xd6\xff" + bytes(4), b"\xde\x00\x01",
    b"\xdd\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff", b"\x81\xa1a\x01",
    b"\x91" * 50, b"",
]  # fmt: skip


def broken(data, rng):
    data = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(data)) if data else 0
        match rng.randrange(4):
            case 0 if data:
                data[place] ^= 1 << rng.randrange(8)
            case 1:
                del data[place : place + rng.randint(1, 5)]
            case 2:
                data[place : place + rng.randint(0, 3)] = rng.choice(ODD)
            case 3:
                data[place:place] = rng.randbytes(rng.randint(1, 4))
    return bytes(data)


@pytest.mark.parametrize("frames", [20_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_broken_frames(state_of, frames):
    session, rng = known_session(3, 6), random.Random(20_121_015)
    codec = Codec(session)
    agent = AgentMachine(session, 0, 0.5, sign=known_key(0).sign, budget=Budget(math.inf))
    agent.handle(Start())
    y = codec.pack([5])
    bodies = [
        (COORDINATOR, known_feedback(codec, 0, [5])),
        (COORDINATOR, LastUsed(3).place(0, 0)),
        (COORDINATOR, Ask(0)),
        (COORDINATOR, Stop(0, Reason.OPERATOR)),
        (1, Report(0, session.exponent(1, 0), y, NOTHING_HEARD)),
    ]
    heads = [
        (s, codec.seal(s, body, known_key(s).sign)[:-64], msgspec.msgpack.encode(body)) for s, body in bodies
    ]
    signs = {s: known_key(s).sign for s, _ in bodies}
    before, refused = state_of(agent), 0
    for k in range(frames):
        which = rng.randrange(len(bodies))
        sender, head, body = heads[which]
        if k % 3 == 0:  # a stranger: the signature no longer fits
            frame = broken(head + bytes(64), rng)
        else:  # a member signs nonsense: in its head, or behind the signature
            if k % 3 == 1:
                head = broken(head, rng)
            else:
                kind = int(KINDS[type(bodies[which][1])])
                head = msgspec.msgpack.encode([1, session.id, sender, kind, broken(body, rng)])
            frame = head + (signs[sender](DOMAIN + head) if k % 5 else rng.randbytes(64))
        if isinstance(codec.open(frame), Refused):
            refused += 1
            step = agent.handle(Heard(frame))
            assert step.records == step.messages == ()
            assert len(step.notices) == 1
    assert refused > 0.9 * frames
    assert agent.refused.total() == refused
    assert state_of(agent) == before
    assert {Refusal.MALFORMED, Refusal.BAD_SIGNATURE, Refusal.WRONG_ROUND, Refusal.NOT_CANONICAL} <= set(
        agent.refused
    )
