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
    """Bytes arrived. `hint` is the sender according to the network; only the signature is trusted."""

    frame: bytes = field(repr=False)
    hint: int | None = None


@final
@dataclass(frozen=True)
class Tick:
    """The time is `now`, in seconds of a monotonic clock. `wake` says when the next tick is due.

    `wall` is the time in seconds since 1970, which decides when slots of a series begin. It may be set back.
    """

    now: float
    wall: float = -math.inf


@final
@dataclass(frozen=True)
class Joined:
    """An agent (or the coordinator) is connected. Only a valid signature makes it present."""

    who: int


@final
@dataclass(frozen=True)
class Left:
    """The connection to this agent (or the coordinator) is lost. Deadlines decide if it is absent."""

    who: int


@final
@dataclass(frozen=True)
class NoiseReady:
    """The draw for update u, whole numbers of the message step: one, or one per component.

    Its scale must be `LatticeAgent.draw_scale(u)`. The machine says in `wants_noise` for which update
    it needs one. A second draw for the same update is refused.
    """

    update: int
    draw: Any = field(repr=False)


@final
@dataclass(frozen=True)
class ReadingReady:
    """The reading of a slot of a series, None if there was none, and 32 random bytes for its masks.

    The machine says in `wants_reading` for which slot it needs one. A second one for the same slot is
    refused.
    """

    slot: int
    reading: float | None = field(repr=False)
    salt: bytes = field(repr=False)


@final
@dataclass(frozen=True)
class Halt:
    """The owner wants to end the session for good (coordinator), or to leave it (agents)."""


@final
@dataclass(frozen=True)
class Expired:
    """The session's `expires` has passed, by the wall clock of this machine.

    The driver must check the clock before every other event, and at the start pass this event instead of
    `Start`, unless the machine has `ended`. A machine that has handled it never sends a message again, even
    if the clock is set back: that is recorded.
    """


Event: TypeAlias = Start | Heard | Tick | Joined | Left | NoiseReady | ReadingReady | Halt | Expired

# ---- messages -------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Send:
    """Bytes to send to an agent, to the `COORDINATOR`, or to all who listen (None)."""

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
    """The maximum loss of the session, the loss spent before, and the owner's cap."""

    planned: float
    spent: float
    cap: float


@final
@dataclass(frozen=True)
class OverCap:
    """The session would exceed the owner's cap: nothing was sent and nothing will be."""

    planned: float
    spent: float
    cap: float


@final
@dataclass(frozen=True)
class FellSilent:
    """Message `update` would exceed the cap: neither it nor any later one is sent. Listening continues."""

    update: int
    spent: float
    cap: float


@final
@dataclass(frozen=True)
class Spoken:
    """Message `update` is recorded and sent now; with the loss so far, including earlier sessions."""

    update: int
    spent: float


@final
@dataclass(frozen=True)
class Answered:
    """A keeper opened the sum of `count` messages of update `update`; recorded and sent now."""

    update: int
    count: int


@final
@dataclass(frozen=True)
class Nonsense:
    """The sum of round `round` is impossible with honest agents and keepers; the session stops."""

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
    """The mean of a slot of a series; None if the slot is lost. Public, and not clamped to the range.

    `count` messages of `members` agents are in it.
    """

    slot: int
    mean: float | None
    count: int
    members: int


@final
@dataclass(frozen=True)
class SlotMissed:
    """An agent of a series sends nothing for this slot, because it lacks a keeper's key."""

    slot: int


@final
@dataclass(frozen=True)
class RoundOpened:
    """The coordinator opened a round."""

    round: int
    present: int


@final
@dataclass(frozen=True)
class RoundClosed:
    """A round is over: whose messages were used, and who was missing but may still send."""

    round: int
    used: tuple[int, ...]
    missing: tuple[int, ...]


@final
@dataclass(frozen=True)
class Waiting:
    """Round `round` waits for these members, and needs at least `needed` of them.

    The notice is repeated while the round waits. If `needed` is 0, the round continues without them at its
    deadline.
    """

    round: int
    missing: tuple[int, ...]
    needed: int = 0


@final
@dataclass(frozen=True)
class Behind:
    """The member is at round `round` and catches up; the others are at round `open`."""

    round: int
    open: int


@final
@dataclass(frozen=True)
class LostHistory:
    """`who` made more updates than this coordinator has recorded: its ledger is not the newest."""

    who: int
    update: int


@final
@dataclass(frozen=True)
class Forgotten:
    """The coordinator lost its ledger: it asks for round `asked`, but `round` rounds are over."""

    round: int
    asked: int


@final
@dataclass(frozen=True)
class Weighed:
    """All rounds are over: the weight of this agent's value in the last feedback, and its fair share.

    Both follow from public facts: in how many rounds (`times`) its message was used, and in which.
    """

    weight: float
    share: float
    times: int
    rounds: int


@final
@dataclass(frozen=True)
class Equivocated:
    """`sender` signed two different messages for one round; both are recorded as evidence."""

    sender: int
    round: int


@final
@dataclass(frozen=True)
class DisputeFound:
    """The feedback of round `round` names a message that this agent did not make; the agent stops."""

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
    """What to do after an event: save the records, then send the messages, then show the notices."""

    records: tuple[Record, ...] = ()
    messages: tuple[Send, ...] = ()
    notices: tuple[Notice, ...] = ()
