"""The parts of an agent: what is refused where they are built, and when its key goes."""

import pytest
from tests.doubles import known_ephemeral, known_feedback, known_key, known_series, known_session

from tacit.base.errors import LedgerError, ParameterError, StateError
from tacit.core.protocol.agent import AgentMachine, chosen_parts
from tacit.core.protocol.codec import Codec
from tacit.core.protocol.effects import Expired, Halt, Heard, NoiseReady, ReadingReady, Start, Tick
from tacit.core.protocol.filter_state import FilterState
from tacit.core.protocol.keeper import KeeperMachine
from tacit.core.protocol.keyring import Keyring
from tacit.core.protocol.messages import COORDINATOR, Ask, Reason, Stop
from tacit.core.protocol.places import LastUsed
from tacit.core.protocol.private_state import Budget, KeeperMasks, MixingState, OwnNoise
from tacit.core.protocol.records import Began, Erasing, Keyed, Opened
from tacit.core.protocol.turns import RoundTurns, SlotTurns

PLAIN, MASKED = known_session(3), known_session(3, keepers=2)
ONCE = known_session(3, 9, law="one-shot", keepers=2)
SERIES = known_series(3, 4, keepers=2)
SALT = bytes(range(32))


def made(session, budget=None, records=None, **more):
    """Return agent 0 of a session: new, or from its records."""
    keys = {} if not session.keepers or "private" in more else {"private": known_ephemeral(0)}
    rest = {"sign": known_key(0).sign, "budget": budget or Budget(1e9), **keys, **more}
    if records is not None:
        return AgentMachine.resume(session, 0, records, **rest)
    return AgentMachine(session, 0, *([] if session.series else [0.5]), **rest)


def signed(session, body):
    return Heard(Codec(session).seal(COORDINATOR, body, known_key(COORDINATOR).sign))


def told(session, t, uses=None):
    """Feedback, and the place of agent 0 in it."""
    state = LastUsed(session.n)
    state.take(uses or {})
    body = known_feedback(Codec(session), t, (0,) * session.components, state=state.root)
    return [signed(session, body), signed(session, state.place(t, 0))]


def entered(session, **more):
    """Return an agent that waits and knows the keys of all keepers, with its records."""
    agent = made(session, **more)
    records = [*agent.handle(Start()).records]
    for j in session.keeper_numbers:
        keeper = KeeperMachine(session, j, sign=known_key(j).sign, private=known_ephemeral(j))
        records += agent.handle(Heard(keeper.keyring.frames[j])).records
    return agent, records


def at(session, slot):
    when = session.series.begin_of(slot)
    return Tick(when, when)


# ---- what is chosen, and what cannot be built -----------------------------------------------------------


@pytest.mark.parametrize(
    ("session", "parts"),
    [
        (PLAIN, (OwnNoise, MixingState, RoundTurns)),
        (MASKED, (KeeperMasks, MixingState, RoundTurns)),
        (SERIES, (KeeperMasks, FilterState, SlotTurns)),
    ],
)
def test_parts_follow_from_the_session(session, parts):
    assert chosen_parts(session) == parts


def test_an_agent_that_would_add_neither_masks_nor_noise_is_not_made():
    """All of no keepers is true: a cover of no masks would send the plain state."""
    masked, plain, sign = Codec(MASKED), Codec(PLAIN), known_key(0).sign
    with pytest.raises(ParameterError, match="its agents are masked"):
        OwnNoise(masked, 0, sign, Keyring(masked, 0))
    with pytest.raises(ParameterError, match="its agents add their own noise"):
        KeeperMasks(plain, 0, sign, Keyring(plain, 0))
    with pytest.raises(LedgerError, match="ephemeral key"):
        made(MASKED, private=None)
    with pytest.raises(ParameterError, match="no such key"):
        made(PLAIN, private=known_ephemeral(0))


def test_a_value_or_readings_as_the_session_says():
    rest = {"sign": known_key(0).sign, "budget": Budget(1e9)}
    with pytest.raises(ParameterError, match="needs the value"):
        AgentMachine(PLAIN, 0, **rest)
    with pytest.raises(ParameterError, match="take readings, no value"):
        AgentMachine(SERIES, 0, 0.5, private=known_ephemeral(0), **rest)
    codec = Codec(PLAIN)
    with pytest.raises(ParameterError, match="not a series"):
        FilterState(codec, 0, Budget(1e9), OwnNoise(codec, 0, rest["sign"], Keyring(codec, 0)))


def test_records_of_others_are_refused():
    _, records = entered(PLAIN)
    with pytest.raises(StateError, match="not an agent's records"):
        made(PLAIN, records=[*records, Opened(PLAIN.id, (0, 1))])


@pytest.mark.parametrize("session", [PLAIN, MASKED, SERIES])
def test_how_it_began_is_the_first_thing_saved(session):
    agent = made(session)
    assert not agent.handle(Heard(b"")).records  # nothing is saved before it takes part
    step = agent.handle(Start())
    assert step.messages
    assert [type(r) for r in step.records] == [Began, Keyed][: 1 + bool(session.keepers)]


# ---- the end of the key -----------------------------------------------------------------------------------


def ends(session):
    """Return every way in which the key of an agent becomes useless: budget, and the last events."""
    plenty, late = Budget(1e9), at(SERIES, SERIES.series.slots)
    common = [
        (plenty, [signed(session, Stop(0, Reason.OPERATOR))]),
        (plenty, [Halt()]),
        (plenty, [Expired()]),
        (plenty, told(session, 0, {0: (0, SALT)})),  # has a message that was not made: a dispute
    ]
    if session is SERIES:
        read = [at(SERIES, 3), *told(SERIES, 2), ReadingReady(3, 1.0, SALT)]
        return [*common, (plenty, [late]), (plenty, read)]
    if session is ONCE:
        common.pop()  # with the only feedback it is done, and draws nothing more
    capped = (Budget(0.0, partial=True), [signed(session, Ask(0))])
    spoken = (plenty, [signed(session, Ask(0)), NoiseReady(0, SALT)])
    return [*common, capped, *([spoken] if session is ONCE else [])]


@pytest.mark.parametrize(
    ("session", "budget", "events"), [(s, *end) for s in (MASKED, ONCE, SERIES) for end in ends(s)]
)
def test_the_key_goes_in_the_step_that_makes_it_useless(session, budget, events):
    agent, records = entered(session, budget=budget)
    for event in events:
        assert not agent.keyring.erased
        step = agent.handle(event)
        records += step.records
    assert agent.keyring.erased
    assert [type(r) for r in records].count(Erasing) == 1
    assert isinstance(step.records[-1], Erasing)
    again = made(session, budget=budget, records=records, private=None)  # the driver has deleted it
    assert not any(isinstance(r, Erasing) for r in again.handle(Start()).records)


def test_a_key_of_a_session_that_never_began_is_not_recorded_as_erased():
    agent = made(SERIES)
    assert not agent.handle(Expired()).records
    assert not agent.handle(at(SERIES, SERIES.series.slots)).records
