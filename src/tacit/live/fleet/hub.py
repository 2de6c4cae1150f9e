"""The hub: a permanent coordinator that enrols members and runs sessions.

Each session is run by the same `Coordinator` as everywhere. The hub only designs and signs sessions, records
them, offers them to connected members, and starts a coordinator for each. It can be stopped and started at
any time: its ledger and its store have everything it needs to continue.

It holds nothing private. It also holds its authority, so it decides who may connect. Agents' own policies
decide which keepers they trust with their privacy.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, final

import msgspec

from tacit.base.arguments import plain
from tacit.base.errors import FileError, InputError, LedgerError, StoreLost, TacitError, Useless
from tacit.base.files import read_public, require_room
from tacit.core.protocol.notices import MeanPublished, Notice
from tacit.core.protocol.roster import COORDINATOR, Member
from tacit.core.protocol.session import Session
from tacit.core.protocol.standing import Standing
from tacit.core.theory.advice import require_useful
from tacit.live.fleet.channel import SessionChannel
from tacit.live.fleet.enrolment import Enrolment
from tacit.live.fleet.gateway import FleetMember, Gateway
from tacit.live.fleet.hub_directory import AUTHORITY, KEYS, LEDGER, certify, serving, share_register
from tacit.live.fleet.hub_notices import (
    CertificateRenewed,
    Drained,
    EnrolmentRefused,
    Listening,
    MemberConnected,
    MemberEnrolled,
    MemberLeft,
    OfferDeclined,
    OwnCertificateRenewed,
    RenewalRefused,
    RevocationsTaken,
    SessionBegun,
    SessionEnded,
    SessionFailed,
    SessionStarted,
    SlotOver,
    StoreTrouble,
    TaskFailed,
    Writable,
)
from tacit.live.fleet.lease import CLOCKS_DIFFER, clock_wrong
from tacit.live.fleet.marks import MarkStore
from tacit.live.fleet.messages import (
    AGENT,
    KEEPER,
    LIST_BYTES,
    AnyMessage,
    ChannelClosed,
    ChannelOpen,
    EnrolmentAnswer,
    EnrolmentRequest,
    OfferReply,
    Refusal,
    RenewalAnswer,
    RenewalRequest,
    RevocationNews,
    SignedOffers,
    refusal_word,
)
from tacit.live.fleet.orders import (
    SessionOrder,
    can_begin,
    depends_on_size,
    designed,
    instance,
    moved_by_one,
    radius_for,
)
from tacit.live.fleet.series_progress import SeriesProgress
from tacit.live.fleet.store import HubStore, SeenMember
from tacit.live.identity.identity import (
    TRUSTED,
    Identity,
    is_authority,
    load_authority,
    renew_agent,
    renew_authority,
)
from tacit.live.identity.keys import key_bytes
from tacit.live.identity.register import REVOKED, enrolled
from tacit.live.identity.roster import COORDINATOR as COORDINATOR_NAME
from tacit.live.ledger import key_guard
from tacit.live.ledger.ledger import Ledger
from tacit.live.ledger.log import Log
from tacit.live.runtime.clock import Clock, SystemClock
from tacit.live.runtime.coordinator import Coordinator, CoordinatorResult
from tacit.live.runtime.process_notices import Trouble
from tacit.live.runtime.telling import Tell, Teller, say_nothing
from tacit.live.runtime.workers import in_worker, opened_ledger
from tacit.live.status.status import begun

if TYPE_CHECKING:
    from tacit.live.fleet.database import StoreRow
    from tacit.live.fleet.lease import Lease


SERVING, DRAINING = "serving", "draining"
_LOOK = 0.1  # seconds between checks for new work
_HOUSEKEEPING = 30.0
_STORE_AGAIN = 1.0  # seconds until a result is written again that the disk did not take
_ENROLLED = 2.0  # seconds in which the list of all that are enrolled is used
_TEST_DISK = 10.0  # seconds between tests that the hub can write
_MOST_AT_ONCE, _MOST_REVIVED = 64, 32
_MOST_SKIPPED = 64
_OFFERS_AT_ONCE = 64
_FORGET, _MOST_SESSIONS = 30 * 86_400.0, 100_000  # maximum age in seconds and number of kept results
_MOST_ANSWERS = 8  # times that a member can change its answer to an offer
_REVIVAL_COST = 10.0  # messages that count as much: a coordinator reads a session from the ledger
_RENEWAL_COST = 250.0  # the register is read and written for it


@final
class _Running:
    """A session that has a coordinator now."""

    def __init__(self, session: Session, task: str, *, revived: bool) -> None:
        self.session, self.task, self.revived = session, task, revived
        self.offers: SignedOffers | None = None
        self.coordinator: Coordinator | None = None
        self.answers: dict[str, str] = {}
        """Each member's last answer: empty if it takes part, or the word that says why not."""
        self.unwilling: dict[str, str] = {}
        """Who refused, and the word that says why."""
        self.changes: Counter[str] = Counter()
        self.progress: SeriesProgress | None = None
        self.work: asyncio.Future[None] | None = None
        self.cancelled = False
        self.since = time.monotonic()
        self.standing = begun(session)

    def shown(self) -> Standing:
        """Return how the session stands. It runs until its result is stored."""
        if self.progress is not None:
            self.progress.show(self.standing)
        self.standing.phase = "running"
        return self.standing

    def answered(self, name: str, why: str) -> None:
        """Note a member's answer: empty if it takes part."""
        self.answers[name] = why
        self.unwilling.pop(name, None)
        if why:
            self.unwilling[name] = why


@final
class Hub:
    """Runs a hub's directory until it is drained or cancelled.

    Parameters
    ----------
    home : Path
        What `new_hub` made.
    tell : callable
        Called with each notice, and how often its like happened today.
    transcripts : Path, optional
        A directory where the coordinator's transcript of each session is kept, for `tacit verify`.
    listen : str, optional
        Where to listen, instead of where the hub was made for.
    lease : Lease, optional
        Of a hub on several hosts: the right of this one to lead. It ends with the lease.
    """

    def __init__(
        self,
        home: Path,
        *,
        tell: Tell = say_nothing,
        transcripts: Path | None = None,
        listen: str | None = None,
        clock: Clock | None = None,
        lease: Lease | None = None,
    ) -> None:
        self.home, self._transcripts, self._lease = home, transcripts, lease
        self._clock = clock or SystemClock()
        self.tell = Teller(tell, self._clock.wall)
        """Takes the hub's notices, and has what they counted."""
        self.store = HubStore(home)
        self._marks = MarkStore(home, None if lease is None else self.store.another())
        self._identity = Identity.load(home / KEYS)
        self._enrolment = Enrolment(home / AUTHORITY, self.store)
        self.gateway = Gateway(
            self._identity,
            self,
            listen=[listen or self.store.setting("listen")],
            authority=lambda: read_public(home / AUTHORITY / TRUSTED),
            marks=self._marks,
            trouble=lambda why: self.tell(Trouble(why)),
            may_send=None if lease is None else lease.holds,
        )
        self._ledger: Log | None = None
        self._running: dict[bytes, _Running] = {}
        self._designs: dict[tuple[str, int | None], Session] = {}
        self._radii: dict[tuple[str, int], float] = {}
        self._designing: set[str] = set()
        self._skips: dict[tuple[str, str], list[int]] = {}  # sessions that a refusing agent is not asked for
        self._seen: dict[str, SeenMember] = {}  # these are written at the next look
        self._unwilling: dict[str, str | None] = {}
        self.refusing = {row["name"]: str(row["refused"]) for row in self.store.members() if row["refused"]}
        """Members that refused the last session that they were offered, with the word that says why."""
        self._left: set[str] = set()
        self._enrolled: list[Member] = []
        self._enrolled_until = 0.0
        self._seen_list: tuple[int, int] | None = None
        self._news: RevocationNews | None = None
        self._compacting = False
        self._failed: LedgerError | None = None
        self.unwritable: str | None = None
        """Why the hub cannot write, so no session begins; None if it can."""
        self.queue, self.lag, self.bytes = 0, 0.0, 0
        """Sessions that are due and not begun; the loop's longest delay lately; bytes of store and ledger."""
        self.participation: float | None = None
        self.seconds: float | None = None
        """Of the last session that ended: the share of its agents that took part, and how long it took."""

    @property
    def state(self) -> str:
        """serving, paused or draining."""
        return self.store.setting("state", SERVING)

    def running(self) -> list[Session]:
        """Return the sessions under way."""
        return [one.session for one in self._running.values() if not one.revived]

    def standings(self) -> dict[str, Standing]:
        """Return how the sessions under way stand, by their ids."""
        return {id_.hex(): one.shown() for id_, one in self._running.items() if not one.revived}

    async def run(self) -> None:
        """Serve until drained."""
        try:
            if self._lease is None:
                if self.state == DRAINING:  # it was drained, and is started again on purpose
                    self.store.set_setting("state", SERVING)
                self._ledger = await opened_ledger(self.home / LEDGER)
            else:
                from tacit.live.fleet.postgres_log import PostgresLog

                self._ledger = PostgresLog(await in_worker(self.store.another), self._lease)
        except BaseException:
            self._marks.close()
            self.store.close()
            raise
        # Of several hosts each shows itself that it serves; see `HubHost`.
        with serving(self.home) if self._lease is None else nullcontext():
            await self._lead()

    async def _lead(self) -> None:
        """Serve with the ledger open."""
        watching: asyncio.Future[None] | None = None
        try:
            self._keep_house()  # also renews a certificate that expired while the hub was stopped
            self._identity.require_current()
            self.store.nobody_connected()  # those whom a hub that was killed had
            # Members may connect before their sessions are resumed below. `came` offers them what runs by
            # then, and `_coordinate` offers the rest to all who are connected.
            await self.gateway.open()
            self.tell(Listening(self.store.setting("address")))
            watching = asyncio.ensure_future(self._watch_disk())
            for row in self.store.running_sessions():
                self._resume(row)
            await self._serve()
        finally:
            if watching is not None:
                watching.cancel()
                await asyncio.wait([watching])
            await self._stop()

    def _resume(self, row: StoreRow) -> None:
        """Go on with a session; give up one that cannot be read here."""
        try:
            session = Session.decode(row["data"])
        except InputError as error:
            self.store.end_session(row["id"], "failed", {"why": str(error)})
            self.tell(SessionFailed(row["name"], str(error)))
        else:
            self._start(session, row["task"])

    async def _serve(self) -> None:
        house = self._clock.wall() + _HOUSEKEEPING
        while not (self.state == DRAINING and not self.running()):
            if self._failed is not None:
                raise self._failed
            self._require_lead()
            now = self._clock.wall()
            if now >= house:
                house = now + _HOUSEKEEPING
                self._keep_house()
            self._write_down()
            for identity in self.store.cancelled():
                one = self._running.get(identity)
                if one is not None and one.coordinator is not None and not one.cancelled:
                    one.cancelled = True
                    one.coordinator.halt()
            await self._spread_revocations()
            if self.state == SERVING and self.unwritable is None:
                for row in self.store.due_tasks():
                    if row["next"] <= now and row["name"] not in self._designing:
                        self._begin(row, now)
            self.queue = sum(row["next"] <= now for row in self.store.due_tasks())
            asleep = time.monotonic()
            await asyncio.sleep(_LOOK)
            # Fades within ten seconds or so: a scrape must not miss it.
            self.lag = max(time.monotonic() - asleep - _LOOK, 0.98 * self.lag)
        self.tell(Drained())

    def _require_lead(self) -> None:
        """Refuse to go on if another host may lead, or should."""
        if self._lease is not None:
            self._lease.require()
            if not (self.store.database.usable and self._marks.usable):
                raise StoreLost("a connection to the database is lost.")
            series = any(one.progress is not None for one in self._running.values())
            if series and abs(self._lease.clock_ahead) > CLOCKS_DIFFER:
                raise StoreLost(clock_wrong(self._lease.clock_ahead))

    async def _stop(self) -> None:
        # Cancelled sessions stay "running" in the store, so the next start resumes them. Order: coordinators
        # need the gateway and the ledger until they are over.
        work = [one.work for one in self._running.values() if one.work is not None]
        for task in work:
            task.cancel()
        if work:
            await asyncio.wait(work)
        if self._lease is not None and not self._lease.holds():
            self.gateway.abort()  # nothing more may leave, not even what waits in a queue
        await self.gateway.close()
        if self._ledger is not None:
            self._ledger.close()
        self._write_down()
        self.store.close()
        self._marks.close()

    def _write_down(self) -> None:
        """Write what members did since the last look, in one transaction."""
        found = self._running.values()
        series = [one for one in found if one.progress is not None and one.progress.changed]
        if not (self._seen or self._unwilling or self._left or series):
            return
        progress = {one.session.id: one.progress.taken() for one in series if one.progress is not None}
        left = self._left - self.gateway.members.keys()  # some are back already
        try:
            self.store.note(self._seen, self._unwilling, progress, left)
        except FileError as error:
            self.tell(StoreTrouble(str(error)))  # it is for people, so sessions go on
        self._seen, self._unwilling, self._left = {}, {}, set()

    # ---- beginning sessions ---------------------------------------------------------------------------

    def _begin(self, row: StoreRow, now: float) -> None:
        """Start a session of a task that is due, if enough members are connected."""
        name = row["name"]
        try:
            order = msgspec.json.decode(row["asked"], type=SessionOrder)
        except msgspec.DecodeError as error:
            note = f"give the order again (`tacit hub run`), it cannot be read: {error}"
            self.store.set_task(name, state="failed", note=note)
            return
        agents, keepers, missing = self._who(name, order)
        if missing is None and len(self.running()) >= _MOST_AT_ONCE:
            missing = f"waits: {_MOST_AT_ONCE} sessions are under way"
        if missing is not None:
            self._put_off(row, order, missing, now)
            return
        if order.series is not None and order.series.beginning(now) <= now:
            self._give_up(name, "waited for its members until after the time of its first slot")
            return
        size = len(agents) if depends_on_size(order) else None
        design = self._designs.get((name, size))
        if design is None:
            # A design takes seconds. It is made on another thread, and the task is looked at again then: who
            # is connected may have changed.
            self._designing.add(name)
            self.gateway.go_on(self._design(name, size, order, agents, keepers))
            return
        number = row["started"] + 1
        title = name if row["every"] is None else f"{name}-{number}"
        session = instance(order, design, title, agents, keepers, now=now)
        if not order.anyway and session.series is None:
            # Of a session that stays open only the quorum is sure to come.
            count = session.n if session.closes is None else session.least_quorum
            if (radius := self._radii.get((name, count))) is None:
                self._designing.add(name)
                self.gateway.go_on(self._foresee(name, session, count))
                return
            try:
                require_useful(radius, session.lattice.high - session.lattice.low)
            except Useless as error:  # for a schedule, more agents may come in time
                self._put_off(row, msgspec.structs.replace(order, wait=0.0), str(error), now)
                return
        self._count_skips(name)
        last = row["every"] is None or (row["times"] is not None and number >= row["times"])
        # Times that were missed, while the hub was stopped or paused, are skipped and not made up for.
        later = row["next"] + (row["every"] or 0.0)
        next_run = later if later > now else now + (row["every"] or 0.0)
        # It is on the disk before anyone is told of it. A hub that is killed after this line resumes the
        # session; killed before it, the hub begins another one, and nobody has seen the first.
        self.store.start_session(
            name, session.id, title, session.encode(), session.expires, next_run=next_run, last=last
        )
        self.tell(SessionStarted(title))
        self._start(session, name)

    def _who(self, task: str, order: SessionOrder) -> tuple[list[Member], list[Member], str | None]:
        """Return the members of a session that begins now, or what is missing."""
        members = self.gateway.members
        keepers = [
            members[name] for name in order.keepers if name in members and members[name].role == KEEPER
        ]
        agents = [
            _listed(member)
            for member in sorted(members.values(), key=lambda one: one.name)
            if member.role == AGENT and order.wants(member.name) and not self._skipped(task, member.name)
        ]
        if order.open is not None and len(keepers) == len(order.keepers):
            if (asked := time.monotonic()) >= self._enrolled_until:  # it reads a line for each of them
                self._enrolled, self._enrolled_until = self._read_enrolled(), asked + _ENROLLED
            agents = [one for one in self._enrolled if order.wants(one.name)]
        missing = None
        if away := [name for name in order.keepers if name not in {keeper.name for keeper in keepers}]:
            missing = f"waits for the keeper {', '.join(away)}"
        elif len(agents) < order.least:
            missing = f"waits for agents: {len(agents)} of at least {order.least} are there"
        ahead = 0.0 if self._lease is None else self._lease.clock_ahead
        if order.series is not None and abs(ahead) > CLOCKS_DIFFER:
            missing = clock_wrong(ahead)
        return agents, [_listed(one) for one in keepers], missing

    def _read_enrolled(self) -> list[Member]:
        """Return all that may be agents of an open session, connected or not.

        They are those of the register, and those that have connected here, if this host has no authority.
        """
        now, known = self._clock.wall(), self.store.members()
        keepers = {row["name"] for row in known if row["role"] == KEEPER}
        found = {row["name"]: row["key"] for row in known if row["expires"] and row["expires"] > now}
        found |= enrolled(self.home / AUTHORITY, datetime.fromtimestamp(now, UTC))
        agents = found.keys() - keepers - {COORDINATOR_NAME}
        return [Member(name, key_bytes(found[name], f"the key of {name}")) for name in sorted(agents)]

    def _put_off(self, row: StoreRow, order: SessionOrder, why: str, now: float) -> None:
        """Try again later: a schedule at its next time, others within `wait`."""
        self._count_skips(row["name"])
        if row["every"] is not None:
            self.store.set_task(row["name"], next=now + row["every"], note=why)
        elif now - row["next"] >= order.wait:
            self._give_up(row["name"], why)

    def _give_up(self, task: str, why: str) -> None:
        self.store.set_task(task, state="failed", note=why)
        self.tell(TaskFailed(task, why))

    async def _design(
        self, task: str, size: int | None, order: SessionOrder, agents: list[Member], keepers: list[Member]
    ) -> None:
        hub = self._identity.public_key
        try:
            self._designs[task, size] = await in_worker(lambda: designed(order, agents, keepers, hub))
        except TacitError as error:
            self.store.set_task(task, state="failed", note=str(error))
            self.tell(TaskFailed(task, str(error)))
        finally:
            self._designing.discard(task)

    async def _foresee(self, task: str, session: Session, count: int) -> None:
        """Compute the radius of a session before it is offered."""
        try:
            self._radii[task, count] = await in_worker(lambda: radius_for(session, count))
        finally:
            self._designing.discard(task)

    # ---- agents that refuse ---------------------------------------------------------------------------

    def _skipped(self, task: str, name: str) -> bool:
        found = self._skips.get((task, name))
        return found is not None and found[0] > 0

    def _count_skips(self, task: str) -> None:
        for (which, _), skip in self._skips.items():
            if which == task and skip[0] > 0:
                skip[0] -= 1

    def _refused(self, running: _Running, name: str, why: Refusal) -> None:
        """Leave an agent that refused out of the task's next sessions.

        In each of them the others would wait for it until a deadline. Each further refusal doubles the number
        of sessions that it is left out of. So an agent that cannot take part costs little, and one that can
        again is asked again.
        """
        skip = self._skips.setdefault((running.task, name), [0, 1])
        skip[0] = skip[1]
        skip[1] = min(2 * skip[1], _MOST_SKIPPED)
        session = running.session
        if running.coordinator is not None and not can_begin(session, running.unwilling):
            running.coordinator.halt()  # it could never begin, and its members would wait for the deadline
        self._unwilling[name] = why
        self.refusing[name] = why
        self.tell(OfferDeclined(session.name, name, why))

    # ---- conducting sessions --------------------------------------------------------------------------

    def _start(self, session: Session, task: str, *, revived: bool = False) -> None:
        running = self._running[session.id] = _Running(session, task, revived=revived)
        running.work = asyncio.ensure_future(self._conduct(running))
        running.work.add_done_callback(self._conducted)

    def _conducted(self, work: asyncio.Future[None]) -> None:
        """End the hub if a session could not be recorded: its disk failed."""
        error = None if work.cancelled() else work.exception()
        if isinstance(error, LedgerError):
            self._failed = self._failed or error

    async def _conduct(self, running: _Running) -> None:
        session = running.session
        try:
            result = await self._coordinate(running)
            if not running.revived:
                await self._record(running, result)
        except LedgerError:
            raise  # without ledger and store nothing can be coordinated: see `_conducted`
        except Exception as error:
            # Any error, or a bug would leave the session "running" for ever. A hub that is stopped
            # (cancelled) leaves it so, and resumes it.
            why = str(error) if isinstance(error, TacitError) else f"a bug here ({type(error).__name__})"
            if not running.revived:
                await self._store_end(session, "failed", {"why": why})
            self.tell(SessionFailed(session.name, why))
        finally:
            self._running.pop(session.id, None)

    async def _coordinate(self, running: _Running) -> CoordinatorResult:
        assert self._ledger is not None
        session, takers = running.session, list[Any]()
        writer = None if running.revived else self._transcript(session)
        if writer is not None:
            takers.append(writer)
        if session.series is not None and not running.revived:
            running.progress = SeriesProgress(session, self.store)
            takers.append(running.progress)
        try:
            async with Coordinator(
                session,
                ledger=self._ledger,
                identity=self._identity,
                transport=SessionChannel(session, COORDINATOR, self.gateway),
                takers=takers,
                clock=self._clock,
                watch=lambda notice: self._watch(running, notice),
            ) as made:
                # The coordinator is there before the offers leave. A member that answers at once finds its
                # session in `_running`; its channel is joined when the coordinator has opened its own.
                running.coordinator = made
                if not running.revived:
                    running.offers = SignedOffers(session, self._identity)
                    await self._offer_to_all(running)
                    self.tell(SessionBegun(session.name, session.n))
                return await made.result()
        finally:
            if writer is not None:
                writer.close()

    def _watch(self, running: _Running, notice: Notice) -> None:
        """Show how a session stands, and tell of the slots of a series."""
        session = running.session
        notice.show(running.standing, session)
        if isinstance(notice, MeanPublished):
            mean = None if notice.mean is None else session.shown(notice.mean)
            self.tell(SlotOver(session.name, notice.slot, mean, notice.count))

    def _transcript(self, session: Session) -> Any:
        if self._transcripts is None:
            return None
        from tacit.live.runtime.transcript import TranscriptWriter

        path = self._transcripts / f"{session.name}.jsonl"
        return TranscriptWriter(path, session, COORDINATOR, durable=False, sign=self._identity.sign)

    async def _record(self, running: _Running, result: CoordinatorResult) -> None:
        """Store the result of a session; all of it is public.

        A hub that is killed before this is over finds the session "running" in its store and over in its
        ledger. It resumes it, and stores the result then.
        """
        session = running.session
        self.seconds = time.monotonic() - running.since
        if result.used and running.progress is None:
            self.participation = min(map(len, result.used)) / session.n
        if running.progress is not None:
            await self._end(session, result, running.progress.facts())
            return
        used = [len(names) for names in result.used]
        mean = None if result.feedback is None else session.clamp(result.feedback)
        plain = mean if mean is None or isinstance(mean, float) else mean.tolist()
        facts: dict[str, Any] = {
            "mean": plain if session.asked is None else None,
            "rounds": result.rounds,
            "agents": session.n,
            "used": used,
            "missing": sorted({m.name for m in session.roster} - set(result.used[-1])) if used else [],
        }
        if running.unwilling:
            facts["refused"] = dict(running.unwilling)
        if used:
            facts["one_liar"] = moved_by_one(session, min(used))
        if session.asked is not None:  # on a worker: the exact law of the noise takes its time
            facts["answer"] = None if result.answer is None else await in_worker(result.answer.as_dict)
        elif used:
            facts["radius"] = await self._radius(running, min(used))
            facts["low"], facts["high"] = float(session.lattice.low), float(session.lattice.high)
        await self._end(session, result, facts)

    async def _end(self, session: Session, result: CoordinatorResult, facts: dict[str, Any]) -> None:
        state: Literal["finished", "stopped"] = "finished" if result.finished else "stopped"
        self._write_down()  # whoever sees the result sees the refusals, too
        await self._store_end(session, state, facts)
        self.tell(SessionEnded(session.name, state, result.rounds, facts))

    async def _store_end(self, session: Session, state: str, facts: dict[str, Any]) -> None:
        """Store how a session ended, as soon as the disk takes it.

        The members have spent their loss, so a full disk must not cost them the result.
        """
        while True:
            try:
                self.store.end_session(session.id, state, facts)
            except FileError as error:
                self.tell(StoreTrouble(str(error)))
                await asyncio.sleep(_STORE_AGAIN)
            else:
                return

    async def _radius(self, running: _Running, count: int) -> float:
        key = (running.task, count)
        if key not in self._radii:
            self._radii[key] = await in_worker(lambda: radius_for(running.session, count))
        return self._radii[key]

    async def _offer_to_all(self, running: _Running) -> None:
        """Offer a session to all who are connected, some at a time.

        Between them the loop answers those who have their offer, and other sessions go on. Whoever connects
        meanwhile gets the offer from `came`.
        """
        for count, member in enumerate(tuple(self.gateway.members.values()), 1):
            self._offer(member, running)
            if count % _OFFERS_AT_ONCE == 0:
                await asyncio.sleep(0)

    def _offer(self, member: FleetMember, running: _Running) -> None:
        number = running.session.member_number(member.name, member.public_key)
        if number is not None and running.offers is not None:
            member.send(running.offers.to(number))

    # ---- what the gateway tells -----------------------------------------------------------------------

    async def enrol(self, asked: EnrolmentRequest, address: str) -> EnrolmentAnswer:
        """Answer a client that sends an invitation."""
        try:  # on another thread: it signs, and waits for the disk and for the register's lock
            made, data = await in_worker(lambda: self._enrolment.grant(asked, self._clock.wall()))
        except InputError as error:
            self.tell(EnrolmentRefused(address, plain(asked.number[:12]), str(error)))
            # A stranger is not told about this machine's files.
            told = "the hub cannot write: try again later." if isinstance(error, FileError) else str(error)
            return EnrolmentAnswer(why=told)
        assert made.subject is not None
        self.tell(MemberEnrolled(made.name, made.subject.key))
        return EnrolmentAnswer(data)

    def came(self, member: FleetMember) -> None:
        """Send a new connection the revocation list and the sessions under way."""
        assert member.certificate.subject is not None
        name, role, expires = member.name, member.role, member.certificate.expires.timestamp()
        key = member.certificate.subject.key
        self._seen[name] = SeenMember(key, role, self._clock.wall(), expires, member.link.version)
        self.tell(MemberConnected(name, role))
        if self._news is not None:
            member.send(self._news)
        for running in self._running.values():
            self._offer(member, running)

    def left(self, member: FleetMember) -> None:
        """Note that a member is gone."""
        self._left.add(member.name)
        self.tell(MemberLeft(member.name))

    def said(self, member: FleetMember, message: AnyMessage) -> None:
        """Handle a message of a member."""
        match message:
            case OfferReply():
                self._hear_reply(member, message)
            case RenewalRequest(request=request):
                self.gateway.charge(member, _RENEWAL_COST)
                self.gateway.go_on(self._renew(member, request))
            case ChannelOpen(session=session) if session not in self._running:
                self._revive(member, session)
            case _:
                pass

    def _hear_reply(self, member: FleetMember, reply: OfferReply) -> None:
        running = self._running.get(reply.session)
        if running is None or running.session.member_number(member.name, member.public_key) is None:
            return
        # The word is the member's. It becomes a label of a metric and is shown to the operator.
        why: Refusal | Literal[""] = "" if reply.joins else refusal_word(reply.why)
        name = member.name
        if running.answers.get(name) == why or running.changes[name] >= _MOST_ANSWERS:
            return  # anything below may be logged and written, so no member can cause it without end
        running.changes[name] += 1
        running.answered(name, why)
        if running.progress is not None:
            running.progress.answered(name, why)
        if why:
            self._refused(running, name, why)
            return
        self._skips.pop((running.task, name), None)
        # It may have refused a session of another task, or before the hub was restarted.
        if self.refusing.pop(name, None) is not None:
            self._unwilling[name] = None

    def _revive(self, member: FleetMember, session: bytes) -> None:
        """Let a member that was away learn how a session ended.

        A coordinator resumes the session from the ledger, and repeats its last messages. The number of such
        sessions is limited: any member can ask for old ones.
        """
        self.gateway.charge(member, _REVIVAL_COST)
        row = self.store.session(session)
        revived = sum(one.revived for one in self._running.values())
        # Once it has expired, compaction may have dropped its records, and it would begin again from round 0.
        # Its members have ended it by themselves then.
        known = row is not None and row["data"] and row["expires"] > self._clock.wall()
        found: Session | None = None
        if row is not None and known and revived < _MOST_REVIVED:
            with suppress(InputError):  # of a format that this version cannot read
                found = Session.decode(row["data"])
            if found is not None and found.member_number(member.name, member.public_key) is not None:
                self._start(found, row["task"], revived=True)
                return
        member.send(ChannelClosed(session))

    async def _renew(self, member: FleetMember, request: bytes) -> None:
        try:
            data = await in_worker(lambda: self._enrolment.renew(member.certificate, request))
        except InputError as error:
            member.send(RenewalAnswer(why=str(error)))
            self.tell(RenewalRefused(member.name, str(error)))
        else:
            member.send(RenewalAnswer(data))
            self.tell(CertificateRenewed(member.name))

    # ---- keeping house --------------------------------------------------------------------------------

    def _keep_house(self) -> None:
        """Renew the hub's certificates in time, and forget old sessions."""
        if is_authority(self.home / AUTHORITY):
            self._renew_certificates()
        self.store.forget(self._clock.wall(), _FORGET, _MOST_SESSIONS)
        for name in {name for name, _ in self._designs} - {row["name"] for row in self.store.due_tasks()}:
            self._forget_task(name)
        if isinstance(self._ledger, Ledger) and self._ledger.worth_compacting and not self._compacting:
            self._compacting = True
            self.gateway.go_on(self._compact(self._ledger))

    def _renew_certificates(self) -> None:
        authority = load_authority(self.home / AUTHORITY)
        mine = self._identity.certificate
        if authority.certificate.renewal_due():
            life = (authority.certificate.expires - authority.certificate.begins).total_seconds() / 86_400
            authority = renew_authority(self.home / AUTHORITY, days=life)
            self.tell(OwnCertificateRenewed("authority"))
        if mine.renewal_due():
            certify(self.home, authority, renew_agent(self.home / KEYS), self.store)
            self._identity = self.gateway.identity = Identity.load(self.home / KEYS)
            self.tell(OwnCertificateRenewed("hub"))

    async def _watch_disk(self) -> None:
        """Test that the store can be written; members spend for nothing if not."""
        while True:
            before, self.unwritable = self.unwritable, await in_worker(self._why_unwritable)
            if self.unwritable != before:
                self.tell(Trouble(self.unwritable) if self.unwritable else Writable())
            await asyncio.sleep(_TEST_DISK)

    def _why_unwritable(self) -> str | None:
        # Both are needed: the store may find room in its own file where a new file finds none.
        sizes = (Path(f"{self.home / LEDGER}{rest}") for rest in ("", "-wal"))
        try:
            self.bytes = self.store.database.size() + sum(p.stat().st_size for p in sizes if p.exists())
            require_room(self.home)
            self.store.set_setting("tested", f"{self._clock.wall():.0f}")
        except FileError as error:
            return str(error)
        return None

    def _forget_task(self, name: str) -> None:
        """Forget designs, radii and refusals of a task that is over."""
        if all(one.task != name for one in self._running.values()):
            for known in cast(list[dict[tuple[str, Any], Any]], [self._designs, self._radii, self._skips]):
                for key in [key for key in known if key[0] == name]:
                    del known[key]

    async def _compact(self, ledger: Ledger) -> None:
        """Drop finished, expired sessions from the ledger."""
        busy, now = frozenset(self._running), self._clock.wall()
        try:
            await in_worker(lambda: key_guard.compact(self.home / KEYS, ledger, now, busy))
        finally:
            self._compacting = False

    async def _spread_revocations(self) -> None:
        """Take over the newest list of revoked certificates, and send it to all.

        One that is too long is not sent: a member could not read it. Members need it for the hub's key only.
        """
        path = self.home / AUTHORITY / REVOKED
        try:
            status = path.stat()
        except OSError:
            return
        # Taken before the file is read. If it changes during the reading, the next look sees another stamp.
        stamp = (status.st_mtime_ns, status.st_size)
        if stamp == self._seen_list:
            return
        self._seen_list = stamp
        try:
            if self._lease is not None:
                await in_worker(lambda: share_register(self.home, self.store))
            data = read_public(path)
            found = await in_worker(lambda: self._identity.install_revocations(data))
        except FileNotFoundError:
            return
        except TacitError as error:
            self.tell(Trouble(str(error)))
            return
        self.tell(RevocationsTaken(found.number))
        self._news = RevocationNews(data) if len(data) <= LIST_BYTES else None
        if self._news is None:
            self.tell(Trouble(f"list {found.number} has {len(data)} bytes, too many to send to members"))
            return
        for member in tuple(self.gateway.members.values()):
            member.send(self._news)


def _listed(member: FleetMember) -> Member:
    return Member(member.name, member.public_key)
