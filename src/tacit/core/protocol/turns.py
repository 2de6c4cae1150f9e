"""When an agent speaks, and what it asks for: by rounds, or by the clock.

`RoundTurns`: the coordinator opens a round, or the feedback of the one before does. An agent that was
disconnected requests the feedback that it missed, and catches up without sending.

`SlotTurns`: the clock of a series says when a reading is due, and the message follows the reading. Feedback
is only heard: no number that an agent of a series sends depends on it.

Either way an agent waits for its place (`places`) if it did not speak in the last round, or slot, and after a
restart: its ledger may be an old copy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias, final

from tacit.core.protocol.effects import Tick
from tacit.core.protocol.filter_state import FilterState
from tacit.core.protocol.machine import BATCH
from tacit.core.protocol.messages import (
    COORDINATOR,
    NOTHING_HEARD,
    Ask,
    Body,
    Message,
    Present,
    Reason,
    Stop,
)
from tacit.core.protocol.notices import Behind, MeanPublished, Notice, Updated, Waiting
from tacit.core.protocol.places import OwnPlace
from tacit.core.protocol.private_state import Cover, PrivateState
from tacit.core.protocol.series_clock import SlotTime
from tacit.core.protocol.session import Session
from tacit.core.protocol.tables import AgentPhase as P
from tacit.core.protocol.tables import On, Phase

Said: TypeAlias = bytes | Body
"""What is sent to the coordinator: recorded bytes, or something to sign."""


@final
@dataclass
class FeedbackChain:
    """The feedback that an agent has heard. The agent changes it.

    Attributes
    ----------
    applied : list of bytes
        The digests of the feedback of all rounds so far, in order.
    kept : dict
        Feedback of the next round and later ones; not applied yet.
    newest : bytes or None
        The frame of the feedback that was applied last.
    members : int
        How many agents had been used by then.
    place : OwnPlace
        Whether the newest feedback shows that this key has spoken elsewhere.
    disputed : int or None
        The round whose feedback shows it, once the agent has stopped because of it.
    """

    place: OwnPlace
    applied: list[bytes] = field(default_factory=list)
    kept: dict[int, Message] = field(default_factory=dict)
    newest: bytes | None = None
    members: int = 0
    disputed: int | None = None

    @property
    def heard(self) -> bytes:
        """The digest that commits to all feedback so far."""
        return self.applied[-1] if self.applied else NOTHING_HEARD

    def continues(self, before: bytes, count: int, members: int) -> bool:
        """Whether feedback follows what was applied last.

        Who was used once stays a member, and only those who are used now can be new ones.
        """
        return before == self.heard and 0 <= members - self.members <= count

    def known(self, t: int) -> tuple[bytes | None, bytes]:
        """Return the digest of the feedback of a round, and its frame if kept."""
        if t in self.kept:
            return self.kept[t].digest, self.kept[t].frame
        return (self.applied[t] if t < len(self.applied) else None), b""


class Turns(ABC):
    """When an agent speaks, and what it asks for.

    Attributes
    ----------
    restarts : bool
        Whether each request and update restarts the timer that repeats messages.
    """

    restarts: ClassVar[bool]

    def __init__(
        self, session: Session, number: int, private: PrivateState, chain: FeedbackChain, cover: Cover
    ) -> None:
        self._session, self._number = session, number
        self._private, self._chain, self._cover = private, chain, cover
        self._asked = -BATCH  # the round from which feedback was asked for last

    # ---- what is due --------------------------------------------------------------------------------

    @abstractmethod
    def turn(self) -> On | None:
        """Return what follows while the agent waits, and has no feedback to use."""

    @abstractmethod
    def is_left(self) -> bool:
        """Whether there may be another message to make."""

    @abstractmethod
    def keyless_from(self) -> int:
        """Return the update from which no key is needed, once none is."""

    def reading(self) -> int | None:
        """Return the slot a reading is needed for now, if any."""
        return None

    # ---- what is heard ------------------------------------------------------------------------------

    @abstractmethod
    def classify(self, t: int) -> On:
        """Classify the coordinator's request for round t."""

    @abstractmethod
    def opened(self, t: int) -> tuple[Ask | Behind, ...]:
        """Note that round t is open; return what to ask for and to tell."""

    @abstractmethod
    def kept(self, t: int) -> tuple[Ask | Behind, ...]:
        """Note that feedback of round t came; return what to ask for and to tell."""

    @abstractmethod
    def missed(self) -> tuple[Ask, ...]:
        """Return a request for missed feedback, if one is due.

        One answer brings up to `BATCH` rounds, so no second request is sent before these are used. If an
        answer is lost, the repeat timer asks again.
        """

    @abstractmethod
    def hear(self, count: int, members: int) -> None:
        """Note how many messages are in the feedback that was just applied."""

    @abstractmethod
    def updated(self, t: int) -> Notice:
        """Return what to tell of update t, which was just made."""

    # ---- what is said -------------------------------------------------------------------------------

    @abstractmethod
    def greeting(self) -> tuple[Said, ...]:
        """Return what is said at the start."""

    @abstractmethod
    def position(self) -> tuple[Said, ...]:
        """Return what tells the coordinator where this agent is."""

    @abstractmethod
    def repeated(self, phase: Phase) -> tuple[Said, ...]:
        """Return what is said again because no answer came."""

    # ---- time ---------------------------------------------------------------------------------------

    @abstractmethod
    def waiting(self) -> Waiting | None:
        """Return what the agent waits for, to tell its owner."""

    def tick(self, tick: Tick) -> None:  # noqa: B027
        """Take the time."""

    def wake(self) -> float | None:
        """When the clock makes something due."""
        return None

    # ---- what a series publishes ----------------------------------------------------------------------

    def published(self) -> MeanPublished | None:
        """Return the last slot of a series with its mean, if there is one."""
        return None

    def incomplete(self) -> int:
        """In how many slots of a series an agent was missing."""
        return 0


@final
class RoundTurns(Turns):
    """Rounds that feedback opens, or a request of the coordinator."""

    restarts = True

    def __init__(
        self, session: Session, number: int, private: PrivateState, chain: FeedbackChain, cover: Cover
    ) -> None:
        super().__init__(session, number, private, chain, cover)
        self._open = -1  # the newest round known to be open
        self._count = 0  # how many messages the last feedback has

    # ---- what is due --------------------------------------------------------------------------------

    def turn(self) -> On | None:
        """Speak when the own round is open."""
        private = self._private
        if private.silent:
            return On.CAPPED
        # After a restart the message of this update may exist already: the same bytes go out, not new noise.
        if private.said is not None:
            return On.SAID
        # Without a shadow the agent cannot make an update. So it is drawn even if the round is over.
        if self._open == private.update or (private.lacks_shadow and self._open > private.update):
            if not private.affords_next:
                return On.CAPPED
            # It waits for all keys: the coordinator answers its own key with theirs. And it waits until it is
            # known that this key has not spoken elsewhere: it would draw twice.
            vouched = self._chain.place.vouches(self._open, private.digests)
            return On.TURN if vouched and self._cover.ready else None
        return None

    def is_left(self) -> bool:
        """Whether a message was not made yet. Repetitions need bytes only."""
        left = self._session.exchanges - self._private.update
        return left > 1 or (left == 1 and self._private.said is None)

    def keyless_from(self) -> int:
        """Return the own round."""
        return min(self._private.update, self._session.exchanges)

    # ---- what is heard ------------------------------------------------------------------------------

    def classify(self, t: int) -> On:
        """Tell a request for the own round or later from one of the past."""
        return On.FORGOTTEN if t < self._private.update else On.ASKED

    def opened(self, t: int) -> tuple[Ask | Behind, ...]:
        """Note that the coordinator needs the message of round t."""
        if t == self._private.update:
            # Unlike `_learn` this may lower `_open`: the coordinator still needs the message of this round.
            self._open = t
            return ()
        return self._learn(t)

    def kept(self, t: int) -> tuple[Ask | Behind, ...]:
        """Note that the round after t is open."""
        return self._learn(t + 1)

    def _learn(self, t: int) -> tuple[Ask | Behind, ...]:
        """Note that round t is open; request the feedback missing up to it."""
        if t <= self._open:
            return ()
        self._open = t
        asks = self.missed()
        return (*asks, Behind(self._private.update, t)) if asks else ()

    def missed(self) -> tuple[Ask, ...]:
        """Request feedback from the own round on, if that is due."""
        u = self._private.update
        if not u < self._open or u in self._chain.kept or u < self._asked + BATCH:
            return ()
        self._asked = u
        return (Ask(u),)

    def hear(self, count: int, members: int) -> None:  # noqa: ARG002
        """Note how many messages the feedback has."""
        self._count = count

    def updated(self, t: int) -> Notice:
        """Return how many messages the feedback has."""
        return Updated(t, self._count)

    # ---- what is said -------------------------------------------------------------------------------

    def greeting(self) -> tuple[Said, ...]:
        """Return that the agent is present, and its key."""
        return (Present(self._private.update), *self._cover.keys)

    def position(self) -> tuple[Said, ...]:
        """Return the same bytes again; without any, the own position."""
        private = self._private
        if private.said is not None:
            return (private.said,)
        if private.update < self._open:
            return (Ask(private.update),)
        if private.silent:
            return (Stop(private.update, Reason.CAP),)
        return (Present(private.update),)

    def repeated(self, phase: Phase) -> tuple[Said, ...]:
        """Return key and position. While it draws, nothing is due from it."""
        if phase is P.DRAWING:
            return ()
        return (*(() if phase is P.SILENT else self._cover.keys), *self.position())

    def waiting(self) -> Waiting:
        """Return that it waits for the coordinator."""
        return Waiting(self._private.update, (COORDINATOR,), 1)


@final
class SlotTurns(Turns):
    """The slots of a series, which follow the clock."""

    restarts = False

    def __init__(
        self, session: Session, number: int, private: PrivateState, chain: FeedbackChain, cover: Cover
    ) -> None:
        super().__init__(session, number, private, chain, cover)
        assert session.series is not None
        assert isinstance(private, FilterState)
        self._series, self._filter = session.series, private
        self._clock = SlotTime(session.series)
        self._decoder = session.series.decoder(len(session.keepers), session.question)
        self._newest = -1  # the newest slot whose feedback was seen

    @property
    def _slot(self) -> int:
        """The current slot. After a restart it is not before the last reading."""
        return max(self._clock.slot, self._filter.next_slot - 1)

    # ---- what is due --------------------------------------------------------------------------------

    def turn(self) -> None:
        """Return None: an agent of a series speaks when it reads."""

    def is_left(self) -> bool:
        """Whether there is a slot left to send in."""
        return max(self._slot, self._filter.next_slot) < self._series.slots

    def keyless_from(self) -> int:
        """Return the slot after the last message."""
        return self._filter.said_slot + 1

    def reading(self) -> int | None:
        """Return the current slot, if it was not read yet."""
        wanted = self._filter.next_slot <= self._slot < self._series.slots and self._cover.holds_key
        # Without all keys nothing can be said in this slot, so it is read without a place.
        return self._slot if wanted and (self._vouched or not self._cover.ready) else None

    @property
    def _vouched(self) -> bool:
        """Whether it is known that this key has not spoken elsewhere.

        An agent that speaks in every slot needs nothing for that. One that missed a slot, or was restarted,
        waits for its place.
        """
        return self._chain.place.vouches(max(self._slot, 0), self._private.digests)

    # ---- what is heard ------------------------------------------------------------------------------

    def classify(self, t: int) -> On:  # noqa: ARG002
        """Return that bytes are wanted again: the clock opens slots."""
        return On.AGAIN

    def opened(self, t: int) -> tuple[Ask | Behind, ...]:  # noqa: ARG002
        """Return nothing: the clock opens slots."""
        return ()

    def kept(self, t: int) -> tuple[Ask | Behind, ...]:
        """Note that slot t is over."""
        following = self._private.update
        if t <= self._newest:
            return ()
        self._newest = t
        if t == following or following in self._chain.kept:
            return ()
        return (*self.missed(), Behind(following, t))

    def missed(self) -> tuple[Ask, ...]:
        """Request feedback from the next slot on, if that is due."""
        following = self._private.update
        if following > self._newest or following in self._chain.kept or following < self._asked + BATCH:
            return ()
        self._asked = following
        return (Ask(following),)

    def hear(self, count: int, members: int) -> None:
        """Take the sum of the slot.

        No mean is computed here: after a restart a year of slots must load quickly.
        """
        assert self._private.feedback is not None
        self._newest = max(self._newest, self._private.update - 1)
        self._decoder.add(self._private.feedback, count, members)

    def updated(self, t: int) -> Notice:  # noqa: ARG002
        """Return the mean of the slot."""
        return MeanPublished.of(self._decoder)

    # ---- what is said -------------------------------------------------------------------------------

    def greeting(self) -> tuple[Said, ...]:
        """Return the position."""
        return self.position()

    def position(self) -> tuple[Said, ...]:
        """Return key and message, and ask for missed feedback."""
        self._asked = self._private.update
        keys = self._cover.keys if self._cover.holds_key else ()
        # An `Ask` beyond the last slot would be refused.
        return (*keys, *self._current, Ask(min(self._asked, self._series.slots - 1)))

    def repeated(self, phase: Phase) -> tuple[Said, ...]:  # noqa: ARG002
        """Return the position if something is missing.

        The feedback of the previous slot may still be on its way, so an agent is behind only if it lacks an
        earlier one, or has seen a later one.
        """
        lacking = self._cover.holds_key and not self._cover.ready
        behind = self._private.update <= max(self._newest, self._slot - 2)
        over = self._slot >= self._series.slots
        return self.position() if lacking or behind or over or self._current or not self._vouched else ()

    @property
    def _current(self) -> tuple[bytes, ...]:
        """The message of the current slot, until its feedback has come."""
        found = self._filter
        current = found.said is not None and found.said_slot == self._slot >= found.update
        return (found.said,) if current and found.said is not None else ()

    # ---- time ---------------------------------------------------------------------------------------

    def waiting(self) -> Waiting | None:
        """Return that feedback is late, once it is two slots behind."""
        u = self._private.update
        return Waiting(u, (COORDINATOR,), 1) if u <= self._slot - 2 else None

    def tick(self, tick: Tick) -> None:
        """Take the time."""
        self._clock.tick(tick)

    def wake(self) -> float | None:
        """When the next slot begins."""
        if self._slot >= self._series.slots:
            return None
        return self._clock.wake(self._series.begin_of(self._slot + 1))

    # ---- what a series publishes ----------------------------------------------------------------------

    def published(self) -> MeanPublished | None:
        """Return the last slot with its mean; None if there is none yet."""
        return MeanPublished.of(self._decoder) if self._private.update else None

    def incomplete(self) -> int:
        """In how many slots so far an agent was missing."""
        return self._decoder.incomplete(self._session.n)
