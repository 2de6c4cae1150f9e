"""Bytes per agent of a hub's session: only the paths of its leaves grow with the number of agents."""

import asyncio
import datetime
import itertools
from types import SimpleNamespace

import pytest
from tests.doubles import Harness, ScriptedNoise, known_key, known_session

from tacit.core.protocol.codec import Codec
from tacit.core.protocol.messages import COORDINATOR, Ask, Feedback, Message, Place, Refusal, Report
from tacit.core.protocol.notices import Refused
from tacit.core.protocol.records import Closed
from tacit.live.fleet.gateway import Gateway
from tacit.live.fleet.hub import Hub
from tacit.live.fleet.hub_connection import HubConnection
from tacit.live.fleet.messages import (
    ChannelClosed,
    ChannelOpen,
    OfferReply,
    SessionOffer,
    SignedOffers,
    encode_control,
    marked_frame,
    read_offer,
    session_frame,
)
from tacit.live.fleet.orders import SessionOrder
from tacit.live.ledger.rollback_guard import TOLD_BYTES

AROUND = 4 + 22  # bytes of WebSocket and of a TLS record around each frame
HASH = 32


class Signing:
    """The part of an identity that signs."""

    sign = staticmethod(known_key(COORDINATOR).sign)


def offers(session):
    return SignedOffers(session, Signing)


def carried(session, frame, *, up):
    """Return how many bytes a frame of a session has on the wire."""
    sent = session_frame(session.id, frame)
    return AROUND + len(marked_frame(sent, bytes(TOLD_BYTES)) if up else sent)


def counted(agents, keepers=0, who=0):
    """Return the bytes of one agent for beginning, for its rounds, and how many places are among them."""
    session = known_session(agents, 6, quorum=2, keepers=keepers, law="fading")
    harness = Harness(session, [0.5] * agents, ScriptedNoise([[1] * max(agents, keepers)] * 6))
    harness.start()
    ledger = harness.ledgers[COORDINATOR]
    assert harness.run(lambda _: sum(isinstance(r, Closed) for r in ledger.records()) >= 2)
    harness.stop(who)  # it misses a round, and then gets its place
    assert harness.run(lambda _: sum(isinstance(r, Closed) for r in ledger.records()) >= 3)
    harness.start(who)
    assert harness.run()
    ends = [OfferReply(session.id, True), *[ChannelOpen(session.id)] * 2, *[ChannelClosed(session.id)] * 2]
    begin = sum(AROUND + len(encode_control(one)) for one in (offers(session).to(who), *ends))
    mine = [(source == who, frame) for source, to, frame in harness.network.tap if who in (source, to)]
    read = [Codec(session).open(frame) for _, frame in mine]
    places = sum(isinstance(one.body, Place) for one in read if isinstance(one, Message))
    assert places >= 1
    return begin, sum(carried(session, frame, up=up) for up, frame in mine), places


@pytest.mark.parametrize("keepers", [0, 1])
def test_only_paths_grow_with_the_number_of_agents(keepers):
    few, many = counted(8, keepers), counted(64, keepers)
    longer = HASH * 3  # log2(64) − log2(8) hashes
    assert few[2] == many[2]
    assert many[0] - few[0] == longer
    assert many[1] - few[1] <= longer * few[2] + 8
    assert many[0] <= 2048 + HASH * 6


def test_a_round_takes_less_than_600_bytes_of_an_agent():
    session, rounds = known_session(8, 6), []
    harness = Harness(session, [0.5] * 8, ScriptedNoise([[1] * 8] * 6))
    harness.start()
    assert harness.run()
    for source, to, frame in harness.network.tap:
        if 5 in (source, to) and isinstance(Codec(session).open(frame).body, Report | Feedback):
            rounds.append(carried(session, frame, up=source == 5))
    assert len(rounds) == 12
    assert sum(rounds) <= 6 * 600


def test_an_agent_gets_its_leaf_and_a_keeper_the_whole_roster():
    session = known_session(9, keepers=2)
    for number in range(session.n + 2):
        offer = offers(session).to(number)
        told = read_offer(offer)
        assert told.id == session.id
        assert told.member_number(session.member(number).name, session.member(number).key) == number
        assert [told.knows(i) for i in range(9)] == [number >= 9 or i == number for i in range(9)]
        assert told.keepers == session.keepers
    assert told == session
    other = offers(session).to(3)
    wrong = SessionOffer(offer.session, offer.signature, other.leaf, offers(session).to(4).path)
    with pytest.raises(ValueError, match=r"not (a session|have this agent)"):
        read_offer(wrong)


def test_a_frame_of_an_agent_that_is_not_known_is_refused_by_one_and_read_by_another():
    """Both are in one process, which remembers what frames say."""
    session = known_session(3)
    codecs = [Codec(read_offer(offers(session).to(i))) for i in range(3)]
    frame = codecs[2].seal(2, Ask(1), known_key(2).sign)
    assert codecs[0].open(frame) == Refused(Refusal.UNKNOWN_SENDER)
    assert isinstance(codecs[2].open(frame), Message)
    assert codecs[0].session.member_name(2) == "agent 2"


def test_nobody_is_left_out_because_many_take_time():
    few, many = (SessionOrder({}).fields(n)["deadlines"] for n in (2, 10_000))
    assert few.start < 6
    assert many.start > 60
    assert many.round >= 60
    assert SessionOrder({}, settings={"start_deadline": 3.0}).fields(10_000)["deadlines"].start == 3.0


class Ticked:
    """A connection that notes how long it may be silent."""

    def tick(self, ping_after, end_after):
        self.asked, self.ended = ping_after, end_after


def silences(members):
    """How many seconds of silence a hub and a member of so large a fleet allow each other."""
    certificate = SimpleNamespace(expires=datetime.datetime.max.replace(tzinfo=datetime.UTC))
    here, there = Ticked(), Ticked()
    one = SimpleNamespace(link=here, certificate=certificate)
    Gateway._look(
        SimpleNamespace(
            members=dict.fromkeys(range(members), one), _allowances={}, _is_revoked=lambda _certificate: False
        )
    )
    HubConnection._look(SimpleNamespace(_link=there, _members=members))
    return here, there


def test_in_a_large_fleet_silence_may_last_longer_on_both_sides():
    """10,000 agents that are answered in one turn of a loop: seen to lose each other after 10 s."""
    for few, many in zip(silences(10), silences(10_000), strict=True):
        assert few.ended <= 30
        assert many.ended >= 90
        assert few.asked < few.ended
        assert many.asked < many.ended


def test_offers_leave_in_batches_and_others_have_turns_between():
    offered, turns = [], []

    async def elsewhere():
        while True:
            turns.append(len(offered))
            await asyncio.sleep(0)

    async def run():
        other = asyncio.ensure_future(elsewhere())
        gateway = SimpleNamespace(members={i: i for i in range(1000)})
        hub = SimpleNamespace(gateway=gateway, _offer=lambda member, _: offered.append(member))
        await Hub._offer_to_all(hub, None)
        other.cancel()

    asyncio.run(run())
    assert offered == list(range(1000))
    assert len(turns) > 10
    assert max(after - before for before, after in itertools.pairwise(turns)) <= 100
