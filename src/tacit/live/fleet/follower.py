"""An agent or keeper that follows a hub.

::

    async with tacit.FleetAgent("alice.toml") as agent:
        async for mean in agent:
            ...

The command line uses it, and your own program can. Each session that the hub offers is judged by the owner's
policy. Its loss is reserved in the ledger first. Then the value is read, and the same `Agent` (or `Keeper`)
takes part as everywhere. Sessions that are not over are stored beside the ledger, so a member that was
stopped resumes them.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, final

import msgspec

from tacit.base.arguments import plain
from tacit.base.errors import CapExceeded, FileError, InputError, LedgerError, SessionOver, TacitError
from tacit.base.files import private_directory, read_private, write_whole
from tacit.core.protocol.answer import SessionAnswer, slot_answer
from tacit.core.protocol.canonical import UNREADABLE
from tacit.core.protocol.notices import MeanPublished, Notice, ReceiptTaken, SlotMissed, Spoken
from tacit.core.protocol.session import Session
from tacit.core.protocol.standing import Standing
from tacit.core.question import Missing
from tacit.core.series import written
from tacit.live.fleet.channel import SessionChannel
from tacit.live.fleet.follower_notices import (
    CertificateInstalled,
    HubLost,
    HubReached,
    MessageKept,
    OfferAccepted,
    OfferRefused,
    OfferUnsigned,
    ParticipationFailed,
    ParticipationOver,
    ReadingFailed,
    RecordUnreadable,
    SessionJoined,
    SlotCounted,
    SlotUnsent,
    State,
)
from tacit.live.fleet.hub_connection import CLOCKS_DIFFER, HubConnection
from tacit.live.fleet.messages import (
    AGENT,
    KEEPER,
    LIST_BYTES,
    AnyMessage,
    LedgerMark,
    OfferReply,
    Refusal,
    RenewalAnswer,
    RenewalRequest,
    RevocationNews,
    SessionOffer,
    offered_session,
    read_offer,
    unreadable_session,
)
from tacit.live.fleet.policy import Policy, PolicyRefusal, read_policy
from tacit.live.fleet.readiness import SOURCE, Readiness, WatchedSource
from tacit.live.fleet.sources import LinesSource, SourceFailed, Unreadable
from tacit.live.identity.identity import install, renew_agent
from tacit.live.ledger import key_guard
from tacit.live.ledger.ledger import Ledger
from tacit.live.ledger.rollback_guard import Position
from tacit.live.runtime.agent import Agent, set_aside
from tacit.live.runtime.agent_result import AgentResult, SeriesResult
from tacit.live.runtime.clock import Clock, SystemClock
from tacit.live.runtime.keeper import Keeper, keeper_number
from tacit.live.runtime.limits import leave_no_core
from tacit.live.runtime.participant import loaded, number_of
from tacit.live.runtime.process_notices import Trouble
from tacit.live.runtime.telling import Tell, Teller, say_nothing
from tacit.live.runtime.workers import in_worker, opened_ledger
from tacit.live.status.status import begun
from tacit.live.transport.connection_diagnosis import clock_difference
from tacit.live.transport.link import own_version

_MEANS = 1000
"""Maximum number of means kept for an iterator; the oldest are dropped first."""
_LOOK = 60.0  # seconds between checks of the certificate and of the ledger's size
_MOST_HEARD = 1000  # offers and lists that wait to be handled; a hub offers again when it is connected anew
_ENDING = ".session"
_LEAST_VISIT = 60.0  # seconds between two visits of an agent
_QUIET, _GIVEN_UP = 5, 60  # seconds in which nothing comes, until a visit is over: all is said, or not


@final
@dataclass(frozen=True)
class FleetMean:
    """The public mean of a session or of a slot, and this agent's loss.

    Attributes
    ----------
    value : float or list of float
        The mean that everyone received, clamped to the range.
    answer : SessionAnswer or None
        What it says to the session's question, if that is not the mean.
    rounds, agents : int
        How many rounds or slots are over, and how many agents are on the roster.
    loss, spent, cap : float
        What this session cost, what all have cost, and the owner's cap. A series costs the same for one slot
        as for all of them.
    slot : int or None
        Of a series: whose mean it is, counted from 0. Slots that are lost have none.
    used : int or None
        Of a series: how many messages it is the mean of.
    deviation : float or None
        Of a series: the standard deviation of the noise in it. What missing agents would have added is not
        in it.
    incomplete_before : int
        Of a series: in how many earlier slots an agent was missing that still count in this mean.
    """

    session: str
    value: float | list[float]
    rounds: int
    agents: int
    loss: float
    spent: float
    cap: float
    slot: int | None = None
    used: int | None = None
    deviation: float | None = None
    incomplete_before: int = 0
    answer: SessionAnswer | None = None


@final
class FleetAgent:
    """Follows a hub inside ``async with``; iterate over it for the means.

    Parameters
    ----------
    policy : Policy or path
        What the owner allows.
    value : callable, optional
        Returns the value when a session or a slot of a series begins, in place of a source in the policy's
        file. It may be a coroutine function; one that is not runs on a thread of its own.
    visit : float, optional
        Connect once in so many seconds only, at a random moment, and leave when there is nothing more to say
        or to hear. By default an agent stays connected; sessions that do not stay open need that.
    once : bool
        Connect once, at once, and end then.
    tell : callable, optional
        Called with each notice (`tacit.core.protocol.notices.Notice`), and with how often its like happened
        today, or 0. Nothing private is in a notice.
    """

    def __init__(
        self,
        policy: Policy | Path | str,
        *,
        value: Callable[[], Any] | None = None,
        visit: float | None = None,
        once: bool = False,
        tell: Tell = say_nothing,
        clock: Clock | None = None,
    ) -> None:
        if isinstance(policy, Policy) and value is not None:
            raise InputError("a value's function goes with the path of a policy: read_policy(path, value).")
        self.policy = policy if isinstance(policy, Policy) else read_policy(policy, value)
        if (visit is not None or once) and self.policy.role == KEEPER:
            raise InputError(
                "a keeper must stay connected: sessions wait for it. Leave --visit and --once out."
            )
        if visit is not None and not visit >= _LEAST_VISIT:
            raise InputError(f"the time between visits must be at least {_LEAST_VISIT:g} s, got {visit:g} s.")
        self._period, self._once = visit, once
        leave_no_core()
        self._clock = clock or SystemClock()
        self.tell = Teller(tell, self._clock.wall)
        """Takes the follower's notices, and has what they counted."""
        self.identity = loaded(self.policy.keys)
        if (found := self.identity.authority.key_fingerprint) != self.policy.authority:
            raise FileError(
                f"{self.policy.keys} trusts an authority whose key has the fingerprint {found}, and the "
                f"policy says {self.policy.authority}: find out why."
            )
        self.readiness = Readiness()
        source = self.policy.source
        self._source = None if source is None else WatchedSource(source, self.readiness)
        self.connection = HubConnection(
            self.policy.hubs,
            self.identity,
            self.policy.role,
            said=self._hear,
            here=self._here,
            trouble=self._trouble,
            position=lambda: None if self._ledger is None else self._ledger.position,
            now=self._clock.wall,
        )
        self._ledger: Ledger | None = None
        self._sessions: dict[bytes, asyncio.Future[None]] = {}
        self._agents: dict[bytes, Agent] = {}  # those that have begun
        self._considering = self._gone = (
            False  # whether an offer is judged now; whether the one visit is over
        )
        self._means: deque[FleetMean] = deque(maxlen=_MEANS)
        self._news = asyncio.Event()
        self._failed: Exception | None = None
        self._heard: deque[tuple[SessionOffer | RevocationNews, bytes]] = deque()
        self._hearing = asyncio.Event()
        self.standings: dict[bytes, Standing] = {}
        """How the sessions under way stand, by their ids."""
        self._asked = False
        """Whether a certificate was asked for and has not come yet."""
        self._tasks: list[asyncio.Future[None]] = []

    # ---- the life of a follower -----------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        policy = self.policy
        if policy.role == AGENT:
            key_guard.require_known(policy.keys, policy.ledger, None)
        self._ledger = await opened_ledger(policy.ledger)
        # All that can be refused is refused before the connection: a hub must not offer sessions to a member
        # whose ledger is an old copy, or whose cap the ledger would refuse each time.
        try:
            if policy.witness is not None:
                # A new ledger gets a new witness. Later one that is missing is refused.
                key_guard.take_witness(self._ledger, policy.witness, create=self._ledger.created)
            if policy.role == AGENT:
                key_guard.require_trusted(policy.keys, self._ledger, None)
                self._take_cap(self._ledger)
            if isinstance(policy.source, LinesSource):
                policy.source.start()
            private_directory(self._folder)
            self._resume()
        except BaseException:
            self._ledger.close()
            raise
        self._tasks = [
            asyncio.ensure_future(self.connection.run()),
            asyncio.ensure_future(self._look_after_certificate()),
            asyncio.ensure_future(self._keep_ledger_small()),
            asyncio.ensure_future(self._handle_heard()),
            asyncio.ensure_future(self._look_after_source()),
        ]
        for task in self._tasks:
            task.add_done_callback(self._ended)
        if self._once or self._period is not None:
            self.connection.rest()
            self._tasks.append(asyncio.ensure_future(self._visit()))
            self._tasks[-1].add_done_callback(self._ended)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        # The ledger is closed last: sessions that are being stopped may still wait for a save.
        work = [*self._sessions.values(), *self._tasks]
        for task in work:
            task.cancel()
        if work:
            await asyncio.wait(work)
        if self._ledger is not None:
            self._ledger.close()

    async def __aiter__(self) -> AsyncIterator[FleetMean]:
        while True:
            while self._means:
                yield self._means.popleft()
            if self._failed is not None:
                raise self._failed
            if self._gone:
                return
            self._news.clear()
            await self._news.wait()

    async def run(self) -> None:
        """Follow until cancelled, or raise what makes it impossible.

        For example a ledger on a full disk.
        """
        async for _ in self:
            pass

    @property
    def name(self) -> str:
        """The member's name."""
        return self.identity.name

    @property
    def ledger(self) -> Ledger:
        """The open ledger."""
        assert self._ledger is not None
        return self._ledger

    @property
    def sessions(self) -> int:
        """How many sessions are under way."""
        return len(self._sessions)

    def _take_cap(self, ledger: Ledger) -> None:
        """Store a lower cap, and refuse one that the ledger would refuse later."""
        policy = self.policy
        if policy.label not in ledger.values():
            return
        known = ledger.balance(policy.label)
        if policy.cap > known.cap:
            raise InputError(
                f"the cap of {policy.label!r} in {policy.ledger} is {known.cap:g}, and cannot become "
                f"{policy.cap:g} through the policy: raise it first with `tacit ledger cap`."
            )
        accepts = policy.accepts if known.hides else None
        if accepts is None:
            if policy.cap < known.cap:
                ledger.set_cap(policy.label, policy.cap)
            return
        if (hides := written(accepts.hides)) != known.hides or accepts.delta > known.delta_cap:
            raise InputError(
                f"series on {policy.label!r} must hide {known.hides} with a failure probability of at most "
                f"{known.delta_cap:g} in all, by {policy.ledger}, and that cannot become {hides} and "
                f"{accepts.delta:g} through the policy: change it first with `tacit ledger cap`."
            )
        if policy.cap < known.cap or accepts.delta < known.delta_cap:
            ledger.set_cap(policy.label, policy.cap, accepts=accepts)

    def _ended(self, task: asyncio.Future[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """Stop following: no further message may be sent."""
        self._failed = self._failed or error
        self._news.set()

    # ---- visits ---------------------------------------------------------------------------------------

    async def _visit(self) -> None:
        """Connect once in every period, at a random moment.

        So the agents of a session that stays open come spread over its time, and not all at its beginning.
        """
        while True:
            before = 0.0 if self._period is None else random.uniform(0.0, self._period)
            await self._clock.sleep(before)
            self.connection.wake()
            await self._all_said()
            self.connection.rest()
            if self._period is None:
                self._gone = True
                self._news.set()
                return
            await self._clock.sleep(self._period - before)

    async def _all_said(self) -> None:
        """Wait until all is heard and said, and every session can wait."""
        quiet, heard = 0, (-1, 0)
        while quiet < (_QUIET if self.connection.connected and self._rests else _GIVEN_UP):
            now = (self.connection.frames, len(self._sessions))
            quiet, heard = (0, now) if now != heard else (quiet + 1, heard)
            await self._clock.sleep(1.0)

    @property
    def _rests(self) -> bool:
        """Whether every session has its message, so that this agent may leave."""
        if self._heard or self._considering:
            return False
        return all((one := self._agents.get(id_)) is not None and one.rests for id_ in self._sessions)

    # ---- what the hub says ----------------------------------------------------------------------------

    def _here(self, here: bool) -> None:
        self.tell(HubReached(self.name) if here else HubLost(self.name))

    def _trouble(self, why: str) -> None:
        self.tell(Trouble(why, self.name))

    def _hear(self, message: AnyMessage) -> None:
        match message:
            case SessionOffer() | RevocationNews() if len(self._heard) < _MOST_HEARD:
                self._heard.append((message, self.connection.hub_key))
                self._hearing.set()
            case LedgerMark(mark=mark):
                self._compare(mark)
            case RenewalAnswer():
                self._install(message)
            case _:
                pass

    def _compare(self, mark: bytes) -> None:
        """Stop if the hub has seen a newer ledger of these keys than this one.

        A hub says it before anything else, so nothing of a session has left over this connection. It can lie;
        then nothing but this refusal follows.
        """
        try:
            self.ledger.require_not_behind(Position.heard(mark), "the hub")
        except LedgerError as error:
            self._fail(error)
            self.connection.leave()

    async def _handle_heard(self) -> None:
        """Handle offers and lists one after the other, as they came.

        What takes long runs on a worker: an offer of a few hundred bytes can take seconds to judge, and
        sessions under way must not wait for it.
        """
        while True:
            await self._hearing.wait()
            self._hearing.clear()
            while self._heard and self._failed is None:
                match self._heard.popleft():
                    case SessionOffer() as offer, hub_key:
                        self._considering = True
                        await self._consider(offer, hub_key)
                        self._considering = False
                    case RevocationNews(revoked=data), _ if len(data) <= LIST_BYTES:
                        with suppress(TacitError):  # an older list, or one that is known
                            await in_worker(partial(self.identity.install_revocations, data))

    async def _consider(self, offer: SessionOffer, hub_key: bytes) -> None:
        """Judge a session, reserve its loss, and take part; or say why not.

        The order is for crashes. After `_set_aside` the loss counts, though nothing was sent: when the hub
        offers the session again, the same reservation is found, and if it never does, the expiry releases it.
        After `write_whole` the next start resumes the session by itself (`_resume`).
        """
        try:
            session = await in_worker(lambda: offered_session(offer, hub_key))
        except InputError as error:
            self._refuse_unread(offer, hub_key, str(error))
            return
        if session.id in self._sessions:
            self._reply(session, "")  # offered again after a connection was lost
            return
        ledger, now = self.ledger, self._clock.wall()
        full = len(self._sessions) >= self.policy.sessions
        if ledger.is_over(session.id) or ledger.size(session.id):
            # It was here before, and is over: a second run would spend again. But a hub that was killed may
            # lack a keeper's last answer, which the keeper then repeats from its ledger.
            kept = self.policy.role == KEEPER and ledger.size(session.id)
            if kept and now < session.expires and not full:
                self._begin(session, fresh=False)
            return
        refusal = self._judge(session, now)
        if refusal is None and full:
            most = f"{self.policy.sessions} sessions are under way, as many as limits.sessions allows"
            refusal = PolicyRefusal("busy", most)
        if refusal is not None:
            self._refuse(session, refusal.why, refusal.sentence)
            return
        try:
            await in_worker(lambda: self._set_aside(session, offer, now))
        except CapExceeded as error:
            self._refuse(session, "cap", str(error))
        except LedgerError as error:
            self._fail(error)  # without its ledger a member cannot know what it has sent
        except TacitError as error:
            self._refuse(session, "unable", str(error))
        else:
            if self._failed is None:
                self._begin(session, fresh=True)

    def _judge(self, session: Session, now: float) -> PolicyRefusal | None:
        try:
            self.ledger.require_room(session)
        except LedgerError as error:  # an older ledger still does for other sessions
            return PolicyRefusal("ledger", str(error))
        return self.policy.judge(session, (self.name, self.identity.public_key), self.ledger, now)

    def _set_aside(self, session: Session, offer: SessionOffer, now: float) -> None:
        """Reserve the loss of a session, and keep the offer to resume from."""
        if self.policy.role == AGENT:
            self._reserve(session, now)
        write_whole(self._file(session), msgspec.msgpack.encode(offer), force=True)

    def _reserve(self, session: Session, now: float) -> None:
        policy = self.policy
        set_aside(
            self.ledger,
            session,
            number_of(session, self.identity),
            label=policy.label,
            cap=policy.cap,
            adjacency=policy.adjacency,
            accepts=policy.accepts,
            windows=policy.windows,
            now=now,
        )

    def _reply(self, session: Session, why: str) -> None:
        self.connection.send(OfferReply(session.id, not why, why))

    def _refuse(self, session: Session, why: Refusal, sentence: str) -> None:
        """Refuse a session: the hub gets one word, and the owner a sentence.

        The sentence may contain the cap and what was spent, which are the owner's.
        """
        ahead = self.connection.clock_ahead
        if why in ("clock", "expired", "long") and ahead is not None and abs(ahead) >= CLOCKS_DIFFER:
            sentence = f"{sentence}; {clock_difference(ahead)}"
        self.readiness.refused(why, sentence)
        self._reply(session, why)
        self.tell(OfferRefused(self.name, session.name, why, sentence))

    def _refuse_unread(self, offer: SessionOffer, hub_key: bytes, why: str) -> None:
        """Refuse an offer that is not signed or that is too new.

        The hub is told at once that this member is too old. Otherwise it would wait.
        """
        found = unreadable_session(offer, hub_key)
        if found is None:
            self.tell(OfferUnsigned(self.name, why))
            return
        sentence = (
            f"{why} tacit {own_version()} here cannot read it: if the hub is newer, upgrade this member."
        )
        self.connection.send(OfferReply(found, False, "version"))
        self.tell(OfferRefused(self.name, found.hex()[:8], "version", sentence))

    # ---- sessions -------------------------------------------------------------------------------------

    @property
    def _folder(self) -> Path:
        return self.policy.ledger.with_name(f"{self.policy.ledger.name}.sessions")

    def _file(self, session: Session) -> Path:
        return self._folder / f"{session.id.hex()}{_ENDING}"

    def _resume(self) -> None:
        """Resume the sessions that were under way when this member was stopped."""
        for path in sorted(self._folder.glob(f"*{_ENDING}")):
            try:
                offer = msgspec.msgpack.decode(read_private(path), type=SessionOffer)
                session = read_offer(offer)
            except (*UNREADABLE, InputError) as error:
                raise FileError(
                    f"{path} must hold a session under way, and does not: {plain(str(error))} Remove it to "
                    "go on without this session. What it may still cost stays reserved until it expires."
                ) from None
            self._begin(session, fresh=False)

    def _begin(self, session: Session, *, fresh: bool) -> None:
        self.standings[session.id] = begun(session)
        task = self._sessions[session.id] = asyncio.ensure_future(self._take_part(session, fresh))
        task.add_done_callback(self._ended)

    async def _take_part(self, session: Session, fresh: bool) -> None:
        over = False
        try:
            over = await (self._keep if self.policy.role == KEEPER else self._join)(session, fresh)
        except SessionOver:
            over = True
        except SourceFailed as error:
            self.ledger.settle(session.id)  # nothing was sent, so the reserved loss is released
            over = True
            self._refuse(session, "source", str(error))
        except LedgerError:
            raise  # nothing may be sent any more
        except TacitError as error:
            over = self.ledger.is_over(session.id) or self._clock.wall() >= session.expires
            self.tell(ParticipationFailed(self.name, session.name, str(error)))
        finally:
            self._sessions.pop(session.id, None)
            self._agents.pop(session.id, None)
            self.standings.pop(session.id, None)
            # The ledger has recorded the end by now. After a crash before this line the next start finds the
            # file, sees by the ledger that the session is over, and removes it then. A member that is being
            # stopped (cancelled) leaves the file, to resume from it.
            if over:
                self._file(session).unlink(missing_ok=True)

    def _never_begun(self, session: Session) -> bool:
        """Whether a session expired before this agent sent anything in it.

        Nothing is lost then, and its reservation is released.
        """
        now = self._clock.wall()
        if self.ledger.size(session.id) or now < session.expires:
            return False
        self.ledger.settle_expired(now)
        return True

    def _accept(self, session: Session) -> None:
        self.tell(OfferAccepted(session.name))
        self.readiness.worked()
        self._reply(session, "")

    async def _join(self, session: Session, fresh: bool) -> bool:
        if self._never_begun(session) or self._is_given_up(session):
            return True
        value: Any = self._source  # a series reads it in every slot
        if session.series is None:
            value = None
            if not self.ledger.size(session.id):
                assert self._source is not None
                value = await self._record(session)
        # Accepted only now: the source may fail, and the others would wait for an agent that never speaks.
        # The answer must not depend on the value itself, so one outside the range is accepted and clamped.
        if fresh:
            self._accept(session)
        policy, number = self.policy, number_of(session, self.identity)
        member: Agent = Agent(
            session,
            value,
            ledger=self.ledger,
            identity=self.identity,
            cap=policy.cap,  # it may be lower than when the session was accepted
            accepts=policy.accepts,
            label=policy.label,
            trust=policy.trust,
            transport=SessionChannel(session, number, self.connection),
            clock=self._clock,
            watch=lambda notice: self._note_slot(member, notice),
            unread=lambda _, why: self.tell(ReadingFailed(self.name, session.name, why)),
        )
        del value  # the member has the only copy
        async with member:
            self._agents[session.id] = member
            self.tell(SessionJoined(self.name, session.name, self.policy.role))
            result = await member.result()
        self._note(session, result)
        return True

    async def _record(self, session: Session) -> Any:
        """Return the record for a session; the stand-in if it cannot be read."""
        assert self._source is not None
        try:
            return await self._source.read(session.question)
        except Unreadable as error:
            # Whether an agent takes part must not depend on its record. Only its owner is told.
            self.tell(RecordUnreadable(self.name, session.name, str(error)))
            return Missing.MISSING

    def _is_given_up(self, session: Session) -> bool:
        """Whether the policy refuses a series now, before it has sent.

        The policy may have changed since the series was accepted; until it has sent, nothing is lost.
        """
        reserved = self.ledger.reservation(session.id)
        if session.series is None or reserved is None or reserved.said or reserved.settled:
            return False
        if (refusal := self.policy.judge_series(session)) is None:
            return False
        self.ledger.settle(session.id)
        self._refuse(session, refusal.why, refusal.sentence)
        return True

    async def _keep(self, session: Session, fresh: bool) -> bool:
        if fresh:
            self._accept(session)
        told = self.ledger.is_over(session.id)  # then it only repeats what it has answered
        channel = SessionChannel(session, keeper_number(session, self.identity), self.connection)
        async with Keeper(
            session,
            ledger=self.ledger,
            identity=self.identity,
            transport=channel,
            clock=self._clock,
            watch=partial(self._show, session),
        ) as member:
            if not told:
                self.tell(SessionJoined(self.name, session.name, self.policy.role))
            result = await member.result()
        if not told:
            self._over(session, result.finished, result.opened)
        return True

    def _note(self, session: Session, result: AgentResult | SeriesResult) -> None:
        """Queue the mean for an iterator; nothing of the agent's own state."""
        costs = {"loss": result.loss, "spent": result.spent, "cap": result.cap}
        if isinstance(result, SeriesResult):  # `_note_slot` has queued its means
            self._over(session, result.finished, result.slots, **costs)
            return
        if result.finished and result.feedback is not None:
            heard = result.feedback
            mean = heard if isinstance(heard, float) else [float(number) for number in heard]
            facts = (session.name, mean, result.rounds, session.n, result.loss, result.spent, result.cap)
            self._means.append(FleetMean(*facts, answer=result.answer))
            self._news.set()
        self._over(session, result.finished, result.rounds, **costs)

    def _note_slot(self, member: Agent, notice: Notice) -> None:
        """Count slots, queue their means for an iterator, and report trouble."""
        session = member.session
        self._show(session, notice)
        match notice:
            case ReceiptTaken():
                self.tell(MessageKept(self.name, session.name, session.expiry))
            case Spoken() if session.series is not None:
                self.tell(SlotCounted("sent"))
            case SlotMissed(slot=slot, unread=unread):
                self.tell(SlotCounted("unsent"))
                if not unread:  # `ReadingFailed` says why there is no reading
                    self.tell(SlotUnsent(self.name, session.name, slot))
            case MeanPublished(mean=None):
                self.tell(SlotCounted("lost"))
            case MeanPublished(slot=slot, mean=mean, count=used) if mean is not None:
                self.tell(SlotCounted("published"))
                balance, loss = self.ledger.balance(self.policy.label), member.machine.private.spent_here
                facts = (session.n, loss, balance.spent, balance.cap, slot, used)
                noise = (notice.deviation, notice.incomplete_before)
                value, answer = session.shown(mean), slot_answer(session, notice)
                self._means.append(FleetMean(session.name, value, slot + 1, *facts, *noise, answer))
                self._news.set()

    def _show(self, session: Session, notice: Notice) -> None:
        if (standing := self.standings.get(session.id)) is not None:
            notice.show(standing, session)

    def _over(self, session: Session, finished: bool, rounds: int, **costs: float) -> None:
        state: State = "finished" if finished else "stopped"
        self.tell(ParticipationOver(self.name, session.name, state, rounds, **costs))

    async def _keep_ledger_small(self) -> None:
        """Drop finished, expired sessions from the ledger, and keep their losses."""
        while True:
            if self.ledger.worth_compacting:
                busy, now = frozenset(self._sessions), self._clock.wall()
                # On another thread: it rewrites the whole file. Sessions under way are left as they are.
                await in_worker(lambda: key_guard.compact(self.policy.keys, self.ledger, now, busy))  # noqa: B023
            await self._clock.sleep(_LOOK)

    async def _look_after_source(self) -> None:
        """Check the source at the start, and again while it fails.

        So the owner hears of a missing file before a session is refused, and `/readyz` says it.
        """
        while self._source is not None:
            known = self.readiness.why_not
            try:
                for question in self.policy.questions:
                    await self._source.check(question)
            except SourceFailed as error:
                if known != str(error):
                    self._trouble(f"the value cannot be read: {error}")
            while True:
                await self._clock.sleep(_LOOK)
                if self.readiness.failing(SOURCE):
                    break

    # ---- the own certificate --------------------------------------------------------------------------

    async def _look_after_certificate(self) -> None:
        """Ask for the next certificate when a third of this one's life is left."""
        while True:
            if self.connection.connected and self.identity.certificate.renewal_due():
                self._ask_for_certificate()
            await self._clock.sleep(_LOOK if self.connection.connected else 1.0)

    def _ask_for_certificate(self) -> None:
        try:
            request = renew_agent(self.identity.directory)
            self._asked = self.connection.send(RenewalRequest(request.read_bytes()))
        except (TacitError, OSError) as error:
            self._trouble(f"no certificate can be asked for: {error}")

    def _install(self, answer: RenewalAnswer) -> None:
        if not self._asked:
            return  # each one is written to the disk and makes a new connection
        self._asked = False
        try:
            if not answer.bundle:
                raise InputError(f"the hub gives no new certificate: {answer.why}")
            self.identity = self.connection.identity = install(answer.bundle, self.identity.directory)
        except TacitError as error:
            self._trouble(str(error))
            return
        self.tell(CertificateInstalled(self.name, f"{self.identity.expires:%Y-%m-%d}"))
        self.connection.reconnect()
