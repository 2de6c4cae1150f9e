"""What goes into a state machine and what comes out of it.

Events go in; one `Step` comes out of each. The driver of a machine must

1. save all `records` of a step durably, in order, all or none;
2. then, and only then, send its `messages`, in order;
3. then show its `notices`.

If saving fails the machine must be discarded: its state is ahead of what is durable. A new machine made with
`resume` from the saved records is in exactly the saved state, and repeats the same bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, final

from tacit.mechanism.series import SeriesDecoder
from tacit.protocol.messages import Reason, Refusal
from tacit.protocol.records import Record

# ---- events ---------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Start:
    """Begin, or continue after `resume`. The first event of every machine."""


@final
@dataclass(frozen=True)
class Heard:
    """Bytes arrived.

    `hint` is the sender according to the network. Only the signature is trusted.
    """

    frame: bytes = field(repr=False)
    hint: int | None = None


@final
@dataclass(frozen=True)
class Tick:
    """The time is `now`, in seconds of a monotonic clock.

    `Machine.wake` says when the next tick is due. `wall` is the time in seconds since 1970, which decides
    when slots of a series begin. It may be set back.
    """

    now: float
    wall: float = -math.inf


@final
@dataclass(frozen=True)
class Joined:
    """An agent (or the coordinator) is connected.

    Only a valid signature makes it present.
    """

    who: int


@final
@dataclass(frozen=True)
class Left:
    """The connection to this agent (or the coordinator) is lost.

    Deadlines decide whether it is absent.
    """

    who: int


@final
@dataclass(frozen=True)
class NoiseReady:
    """The noise of one update: a whole number, or one per component.

    It counts message steps. Its scale must be `LatticeAgent.draw_scale(u)`. The machine says in `wants_noise`
    for which update it needs one. A second draw for the same update is refused.
    """

    update: int
    draw: Any = field(repr=False)


@final
@dataclass(frozen=True)
class ReadingReady:
    """The reading of a slot of a series, and 32 random bytes for its masks.

    `reading` is None if there was none. The machine says in `wants_reading` for which slot it needs one. A
    second one for the same slot is refused.
    """

    slot: int
    reading: float | None = field(repr=False)
    salt: bytes = field(repr=False)


@final
@dataclass(frozen=True)
class Halt:
    """The owner ends the session for good (coordinator) or leaves it."""


@final
@dataclass(frozen=True)
class Expired:
    """The session's `expires` has passed, by the wall clock of this machine.

    The driver must check the clock before every other event, and at the start pass this event instead of
    `Start`, unless the machine has `ended`. A machine that has handled it never makes a report or an opening
    again, even if the clock is set back: that is recorded. It may still repeat recorded bytes, and tell
    others that it has stopped.
    """


Event: TypeAlias = Start | Heard | Tick | Joined | Left | NoiseReady | ReadingReady | Halt | Expired

# ---- messages -------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Send:
    """Bytes to send to one member, or to all who listen (None)."""

    to: int | None
    frame: bytes = field(repr=False)


# ---- notices: for people, logs and metrics; nothing private is in them ------------------------------


@final
@dataclass(frozen=True)
class Refused:
    """A frame was refused. `sender` is None if no signature says who sent it."""

    reason: Refusal
    sender: int | None = None


@final
@dataclass(frozen=True)
class Cost:
    """The session's maximum loss, the loss spent before, and the cap."""

    planned: float
    spent: float
    cap: float


@final
@dataclass(frozen=True)
class OverCap:
    """The session would exceed the owner's cap: nothing is ever sent."""

    planned: float
    spent: float
    cap: float


@final
@dataclass(frozen=True)
class FellSilent:
    """Message `update` would exceed the cap, so no more messages are sent.

    The agent still receives feedback and makes its updates.
    """

    update: int
    spent: float
    cap: float


@final
@dataclass(frozen=True)
class Spoken:
    """Message `update` is recorded and sent now.

    `spent` is the loss so far, including earlier sessions.
    """

    update: int
    spent: float


@final
@dataclass(frozen=True)
class Answered:
    """A keeper opened the sum of `count` messages of update `update`.

    The opening is recorded and sent now.
    """

    update: int
    count: int


@final
@dataclass(frozen=True)
class Nonsense:
    """The sum of round `round` is impossible with honest members.

    A session stops then. A series loses the slot and goes on.
    """

    round: int


@final
@dataclass(frozen=True)
class Updated:
    """An agent made its update of round `round`; `count` messages were used."""

    round: int
    count: int


@final
@dataclass(frozen=True)
class MeanPublished:
    """The mean of a slot of a series; None if the slot is lost.

    It is public, and not clamped to the range.

    Attributes
    ----------
    count, members : int
        How many messages are in it, and how many agents were used in any slot so far.
    deviation : float or None
        The standard deviation of the noise in it, for the messages that were used. What missing agents would
        have added is not in it.
    incomplete_before : int
        In how many earlier slots an agent was missing, if these slots still count in this mean.
    """

    slot: int
    mean: float | None
    count: int
    members: int
    deviation: float | None
    incomplete_before: int

    @classmethod
    def of(cls, decoder: SeriesDecoder) -> MeanPublished:
        """Return the last slot of a decoder."""
        mean, deviation, before = decoder.mean(), decoder.deviation(), decoder.incomplete_before
        return cls(decoder.slot - 1, mean, decoder.used, decoder.members, deviation, before)


@final
@dataclass(frozen=True)
class SlotMissed:
    """An agent of a series sends nothing in this slot.

    `unread` if it has no reading, and its series does not hold the last one. Otherwise a keeper's key is
    missing.
    """

    slot: int
    unread: bool = False


@final
@dataclass(frozen=True)
class RoundOpened:
    """The coordinator opened a round."""

    round: int
    present: int


@final
@dataclass(frozen=True)
class RoundClosed:
    """A round is over: whose messages were used, and who was missing.

    `missing` leaves out the members that announced that they send nothing more.
    """

    round: int
    used: tuple[int, ...]
    missing: tuple[int, ...]


@final
@dataclass(frozen=True)
class Waiting:
    """Round `round` waits for these members; it needs `needed` of them.

    The notice is repeated while the round waits. If `needed` is 0, the round continues without them at its
    deadline.
    """

    round: int
    missing: tuple[int, ...]
    needed: int = 0


@final
@dataclass(frozen=True)
class Behind:
    """The member is at round `round` and catches up to round `open`."""

    round: int
    open: int


@final
@dataclass(frozen=True)
class LostHistory:
    """`who` is further than this machine's records: the ledger is old."""

    who: int
    update: int


@final
@dataclass(frozen=True)
class Forgotten:
    """The coordinator lost its ledger: it asks for an old round.

    It asks for round `asked`, but `round` rounds are over.
    """

    round: int
    asked: int


@final
@dataclass(frozen=True)
class Weighed:
    """All rounds are over: the weight of this agent's value in the result.

    `weight` is its weight in the last feedback; `share` is its weight in the target. They follow from public
    facts: in how many rounds (`times`) its message was used, and in which.
    """

    weight: float
    share: float
    times: int
    rounds: int


@final
@dataclass(frozen=True)
class Equivocated:
    """`sender` signed two different messages for one round.

    Both are recorded as evidence.
    """

    sender: int
    round: int


@final
@dataclass(frozen=True)
class DisputeFound:
    """Feedback names a message that this agent did not make; it stops."""

    round: int


@final
@dataclass(frozen=True)
class Quiet:
    """An agent announced that it sends nothing more."""

    who: int
    update: int


@final
@dataclass(frozen=True)
class Finished:
    """All rounds are over."""

    rounds: int


@final
@dataclass(frozen=True)
class Stopped:
    """The session ended early."""

    round: int
    reason: Reason


Notice: TypeAlias = (
    Refused
    | Cost
    | OverCap
    | FellSilent
    | Spoken
    | Answered
    | Nonsense
    | Updated
    | MeanPublished
    | SlotMissed
    | RoundOpened
    | RoundClosed
    | Waiting
    | Behind
    | LostHistory
    | Forgotten
    | Weighed
    | Equivocated
    | DisputeFound
    | Quiet
    | Finished
    | Stopped
)


@final
class Step(NamedTuple):
    """What to do after an event: save records, send messages, show notices.

    In this order. If saving fails, nothing may be sent.
    """

    records: tuple[Record, ...] = ()
    messages: tuple[Send, ...] = ()
    notices: tuple[Notice, ...] = ()
