"""What an agent says, and who hides it: one draw and message per update.

Message u is made from the state after u updates. Two adjacent states are then at most D_u steps apart
(`tacit.core.noise.accounting`), and the noise is that of update u, whatever the round, the schedule or the
feedback. So the loss of message u is known beforehand. An update without a message costs nothing, and later
messages cost the same.

An update must move towards something public: feedback, or messages that were sent. If it used anything else
of the agent, two adjacent states would not approach each other as fast as the accounting assumes, and the
loss would be larger than promised.

Agents of rounds and peers on graphs have a `MixingState`. Agents of a series have a filter instead
(`filter_state`).

A `Cover` makes the message of it. With its own noise a message may be read by anyone. With keepers it carries
no noise, but one mask for each keeper. Anyone who lacks one of these masks learns nothing from it. Then only
the openings reveal something: the sum of the agents' states, plus the noise of the keepers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, final

import numpy as np

from tacit.base.errors import LedgerError, ParameterError, StateError
from tacit.core.mechanism.whole import Whole, as_whole
from tacit.core.protocol.codec import Codec, Sign, as_array, as_numbers, digest
from tacit.core.protocol.exact_loss import exact, up, within
from tacit.core.protocol.keyring import Keyring
from tacit.core.protocol.masks import mask, packed, total
from tacit.core.protocol.messages import DIGEST_BYTES, Masked, Message, Reason, Report
from tacit.core.protocol.moving import (
    Moving,
    decode_moving,
    own_arithmetic,
    pack_state,
    require_same,
    unpack_state,
)
from tacit.core.protocol.notices import Cost, FellSilent, OverCap
from tacit.core.protocol.records import Began, Keyed, Moved, Record, Sampled, Silenced, Spoke, require_order
from tacit.core.question import Missing

DRAWS_AHEAD = 4
"""A draw is kept for at most this many updates ahead."""


@final
@dataclass(frozen=True)
class Budget:
    """What the owner allows.

    Parameters
    ----------
    cap : float
        The largest loss on this value, over all sessions together, for their adjacency.
    spent : float
        The loss of earlier sessions on it.
    partial : bool
        Whether to take part even if the whole session would exceed the cap, and stop sending in time.
        Otherwise such a session is refused before anything is sent.
    """

    cap: float
    spent: float = 0.0
    partial: bool = False

    def __post_init__(self) -> None:
        if not (self.cap >= 0 and 0 <= self.spent < math.inf):
            raise ParameterError(
                f"the cap and what was spent must be at least 0, got {self.cap} and {self.spent}."
            )


class Cover(ABC):
    """How the numbers of an agent become a message that may be sent.

    Attributes
    ----------
    draws : bool
        Whether the agent draws noise for its own messages.
    """

    draws: ClassVar[bool]

    def __init__(self, codec: Codec, number: int, sign: Sign, keyring: Keyring) -> None:
        self._codec, self._session, self._number, self._sign = codec, codec.session, number, sign
        self._keyring = keyring

    @abstractmethod
    def sealed(self, u: int, exponent: int, x: Whole, heard: bytes) -> bytes:
        """Return message u, signed: x in steps of 2^exponent."""

    @property
    def ready(self) -> bool:
        """Whether a message could be made now, but for its draw."""
        return True

    @property
    def salted(self) -> bool:
        """Whether the next message has its salt, if it needs one."""
        return True

    def take_salt(self, salt: bytes) -> None:  # noqa: ARG002
        """Take the salt of the next message."""
        raise ParameterError(f"session {self._session.name} has no keepers: its messages have no salt.")

    @property
    def holds_key(self) -> bool:
        """Whether it has a private key that must be erased some day."""
        return False

    @property
    def keys(self) -> tuple[bytes, ...]:
        """The frames that tell others its public key, if it has one."""
        return ()

    @abstractmethod
    def unlock(self, private: bytes | None) -> Keyed | None:
        """Take the private key; return the record of a new one."""


@final
class OwnNoise(Cover):
    """Numbers that carry noise already: they are sent as they are."""

    draws = True

    def __init__(self, codec: Codec, number: int, sign: Sign, keyring: Keyring) -> None:
        if codec.session.keepers:
            raise ParameterError(f"session {codec.session.name} has keepers: its agents are masked.")
        super().__init__(codec, number, sign, keyring)

    def sealed(self, u: int, exponent: int, x: Whole, heard: bytes) -> bytes:
        """Return message u, signed."""
        return self._codec.seal(self._number, Report(u, exponent, self._codec.pack(x), heard), self._sign)

    def unlock(self, private: bytes | None) -> None:
        """Refuse a key: nothing is masked."""
        if private is not None:
            raise ParameterError(f"session {self._session.name} has no keepers: its agents need no such key.")


@final
class KeeperMasks(Cover):
    """Numbers without noise, plus one mask for each keeper."""

    draws = False

    def __init__(self, codec: Codec, number: int, sign: Sign, keyring: Keyring) -> None:
        # Without a keeper there would be no mask, and the plain state would be sent.
        if not codec.session.keepers:
            raise ParameterError(
                f"session {codec.session.name} has no keepers: its agents add their own noise."
            )
        super().__init__(codec, number, sign, keyring)
        self._salt: bytes | None = None

    @property
    def salted(self) -> bool:
        """Whether there is a salt that no message has."""
        return self._salt is not None

    def take_salt(self, salt: bytes) -> None:
        """Take 32 random bytes for the next message."""
        if len(salt) != DIGEST_BYTES:
            raise StateError(f"the salt of a masked message must be {DIGEST_BYTES} random bytes.")
        self._salt = salt

    @property
    def ready(self) -> bool:
        """Whether the keys of all keepers are known.

        With the masks of some keepers, only these would protect the number.
        """
        return self._keyring.knows(self._session.keeper_numbers)

    @property
    def holds_key(self) -> bool:
        """Whether the private key is not erased yet."""
        return not self._keyring.erased

    @property
    def keys(self) -> tuple[bytes, ...]:
        """The frame of the own public key."""
        return (self._keyring.frames[self._number],)

    def unlock(self, private: bytes | None) -> Keyed | None:
        """Take the private key; return the record of a new one."""
        return self._keyring.unlock(private, self._sign)

    def sealed(self, u: int, exponent: int, x: Whole, heard: bytes) -> bytes:
        """X = x + Σ_j mask_j, for the keepers j.

        The salt is random and new, and is used once. So even an agent that was rolled back does not use one
        mask for two numbers, which would reveal their difference.
        """
        session, salt = self._session, self._salt
        if salt is None:
            raise StateError("a masked message needs a salt that no other message has.")
        self._salt = None
        assert session.mask_bytes is not None
        keepers, width, length = session.keeper_numbers, session.mask_bytes, session.masked_bytes
        masks = [mask(self._keyring.secret(j), u, salt, length) for j in keepers]
        numbers = total([packed(as_numbers(x), width), *masks], width)
        body = Masked(u, exponent, numbers, heard, self._keyring.named((self._number, *keepers)), salt)
        return self._codec.seal(self._number, body, self._sign)


class PrivateState(ABC):
    """What an agent says of its private value, and what that costs.

    Parameters
    ----------
    cover : Cover
        Hides the numbers of its messages.
    planned : int
        The loss if every message is sent, exactly: see `exact`.

    Attributes
    ----------
    update : int
        How many updates it has made.
    said : bytes or None
        The last message, as long as it may be repeated.
    digests : dict
        Digests of all messages made, by update.
    feedback : tuple of int or None
        The last feedback that it moved towards; public.
    draws : dict
        Draws for this update and later ones; each is used in one message.
    first : tuple of Began
        The record that must be saved before all others; none after a restart.
    clamped : bool
        Whether the value was outside the range; kept for the owner.
    """

    first: tuple[Began, ...] = ()
    clamped = False

    def __init__(self, codec: Codec, number: int, budget: Budget, cover: Cover, planned: int) -> None:
        self._codec, self._cover = codec, cover
        self.number, self.budget = number, budget
        self.update = 0
        self.said: bytes | None = None
        self.digests: dict[int, bytes] = {}
        self.feedback: tuple[int, ...] | None = None
        self.draws: dict[int, Whole] = {}
        self.silent = False
        self._planned = planned
        self._before, self._spent = exact(float(budget.spent)), 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of agent {self.number}, {self.update} updates>"

    # ---- what it costs ----------------------------------------------------------------------------

    @property
    def planned(self) -> float:
        """The loss of this session if every message is sent, rounded up."""
        return up(self._planned)

    @property
    def spent(self) -> float:
        """The loss on this value so far, including earlier sessions, rounded up."""
        return up(self._before + self._spent)

    @property
    def spent_here(self) -> float:
        """The loss of this session so far, rounded up."""
        return up(self._spent)

    @property
    def over_cap(self) -> bool:
        """Whether the whole session would exceed the cap."""
        return not within(self._before + self._planned, self.budget.cap)

    @property
    def is_declined(self) -> bool:
        """Whether a new session is refused: above the cap, and not in part."""
        return self.over_cap and not self.budget.partial

    def cost(self) -> Cost:
        """Return what the owner is told at the start."""
        return Cost(self.planned, self.spent, self.budget.cap)

    def beyond_cap(self) -> OverCap:
        """Return what the owner is told if the session is declined."""
        return OverCap(self.planned, self.spent, self.budget.cap)

    @abstractmethod
    def require_affordable(self) -> None:
        """Refuse a budget with which nothing may be sent."""

    # ---- noise ------------------------------------------------------------------------------------

    @property
    def has_draw(self) -> bool:
        """Whether message `update` could be made now."""
        return True

    @property
    def lacks_shadow(self) -> bool:
        """Whether one-shot noise must still be drawn before the agent moves."""
        return False

    def lacks_draw(self, u: int) -> bool:  # noqa: ARG002
        """Whether a draw for update u may be stored."""
        return False

    # ---- speaking and moving ------------------------------------------------------------------------

    @property
    @abstractmethod
    def affords_next(self) -> bool:
        """Whether the next message can be sent without exceeding the cap."""

    def read(self, slot: int, reading: Any) -> Sampled | None:  # noqa: ARG002
        """Take the reading of a slot; return its record, if it counts as one."""
        raise StateError("only an agent of a series takes readings.")

    @abstractmethod
    def speak(self, heard: bytes) -> Spoke:
        """Make the next message, once; `said` keeps its bytes."""

    @abstractmethod
    def move(self, y: tuple[int, ...], heard: Iterable[bytes], used: Iterable[int]) -> Moved:
        """Make an update towards y, which must be public."""

    def fall_silent(self) -> tuple[Silenced, FellSilent]:
        """Send nothing from here on; return its record and what to tell."""
        # Recorded, so that a restart with a larger cap does not speak again: others may have been told.
        self.silent = True
        self.draws.clear()
        told = FellSilent(self.update, self.spent, self.budget.cap)
        return Silenced(self.update, Reason.CAP), told

    def require_own(self, message: Message) -> None:
        """Stop if someone has a message of this agent that was not made here.

        Its ledger is old, or another process uses its key. Going on would draw noise a second time.
        """
        body = message.body
        if isinstance(body, Report) and self.digests.get(body.update) != message.digest:
            raise self.spoken_elsewhere(body.update)

    def spoken_elsewhere(self, update: int) -> LedgerError:
        """Return what to raise if this key has signed something else."""
        return LedgerError(
            f"{self._codec.session.member_name(self.number)} sent message {update}, but not from this "
            "ledger: another process uses the same key, or an old ledger was put back. A second message in "
            "its place could reveal the value, so nothing more is sent from here. Continue with the process "
            "or ledger that sent the message."
        )

    # ---- from a ledger and back ---------------------------------------------------------------------

    @abstractmethod
    def replay(self, record: Record) -> None:
        """Apply a record from a ledger."""


@final
class MixingState(PrivateState):
    """A state that moves towards public feedback, by its motion; private.

    Parameters
    ----------
    value : number or vector
        θ(0). It is clamped to the range.
    began : Began, optional
        How it began, if that is recorded; instead of a value.
    motion : Moving, optional
        How it moves, if that is its own affair. After a restart its records say so.
    """

    def __init__(
        self,
        codec: Codec,
        number: int,
        budget: Budget,
        cover: Cover,
        value: Any = None,
        *,
        began: Began | None = None,
        motion: Moving | None = None,
    ) -> None:
        session = codec.session
        super().__init__(codec, number, budget, cover, session.planned(number))
        if began is not None and began.motion:
            motion = require_same(motion, decode_moving(began.motion))
        self._agent, self._moving = own_arithmetic(session, number, motion)
        self._pack: Callable[[Any], bytes] = codec.pack if self._moving is None else pack_state
        self._losses = session.account(number).losses
        if began is None:
            if value is None:
                raise ParameterError(f"session {session.name} needs the value of its agent.")
            asked = session.question
            missing = isinstance(value, Missing)
            vector, self.clamped = (asked.stand_in, True) if missing else asked.encode(value)
            exponent = session.lattice.state_exponent
            if self._moving is not None:
                self._state: Whole = self._moving.begin(vector, exponent)
            else:  # to the nearest state step, ties up, as `Lattice.start` does (docs/proofs/lattice.md)
                step = Fraction(2) ** exponent
                whole = [math.floor(Fraction(number) / step + Fraction(1, 2)) for number in vector]
                self._state = whole[0] if len(whole) == 1 else np.array(whole, dtype=object)
        else:
            self._state, self.clamped = self._unpacked(began.state), began.clamped
        size = 1 if type(self._state) is int else np.size(self._state)
        if self._moving is None and size != session.components:
            raise StateError(f"a value must have {session.components} components in this session.")
        if began is None:
            packed, cap, own = self._pack(self._state), float(budget.cap), b""
            if self._moving is not None and self._moving is motion:
                own = motion.encode()
            began = Began(session.id, number, packed, self.planned, budget.spent, cap, self.clamped, own)
            self.first = (began,)
        # One-shot noise: the shadow is the first message, moved like the state. Later messages report it, so
        # the noise of the first one protects them too. With keepers there is one exchange, and no shadow.
        self._shadow: Whole | None = None
        self._shadowed = session.mechanism.shadowed and cover.draws

    def _unpacked(self, data: bytes) -> Whole:
        if self._moving is None:
            return as_array(self._codec.unpack(data))
        return unpack_state(data, len(self._moving.start))

    def require_affordable(self) -> None:
        """Leave it to the machine: every message is checked on its own."""

    @property
    def affords_next(self) -> bool:
        """Whether message `update` can be sent without exceeding the cap."""
        cost = self._before + self._spent + exact(self._losses[self.update])
        return within(cost, self.budget.cap)

    # ---- noise ------------------------------------------------------------------------------------

    @property
    def has_draw(self) -> bool:
        """Whether message `update` could be made now."""
        return self._cover.salted and (not self._draws_own(self.update) or self.update in self.draws)

    def _draws_own(self, u: int) -> bool:
        """Whether message u carries noise of its own."""
        return self._cover.draws and self._agent.speaks(u)

    def lacks_draw(self, u: int) -> bool:
        """Whether a draw for update u may be stored: only the first one may.

        Otherwise a driver that asks twice could pick one of two draws, and the noise would be biased. The
        draw of a message that was made is used up, even after a restart. With keepers the draw is a salt.
        """
        if not self._cover.draws:
            return u == self.update and self.said is None and not self.silent and not self._cover.salted
        near = self.update <= u < self.update + DRAWS_AHEAD and not self.silent
        taken = u in self.draws or (u == self.update and self.said is not None)
        return near and not taken and self._draws_own(u)

    # ---- the paper's phases (i) and (iv) ------------------------------------------------------------

    @property
    def lacks_shadow(self) -> bool:
        """Whether one-shot noise must still be drawn before the agent moves."""
        return self._shadowed and self._shadow is None and not self.silent

    def speak(self, heard: bytes) -> Spoke:
        """Make message `update`, once. `said` keeps its bytes for repetitions."""
        # Checked here and not only by callers: two messages of one update, with two draws, would reveal more
        # than the account says.
        if self.said is not None or self.silent or not self.affords_next:
            raise StateError("one message is made for each update, and none beyond the cap.")
        u = self.update
        # Removed from the store, so that no other message can carry the same noise.
        draw = self.draws.pop(u) if self._draws_own(u) else 0
        if self.lacks_shadow and self._moving is not None:
            self._shadow, draw = self._agent.shadow(self._state, draw), 0
        x = self._agent.report(self._state if self._shadow is None else self._shadow, u, draw)
        exponent = self._codec.session.exponent(self.number, u)
        self.said = self._cover.sealed(u, exponent, x, heard)
        self.digests[u] = digest(self.said)
        # Counted when the message is made. Whether anyone receives it cannot be known.
        loss = self._losses[u]
        self._spent += exact(loss)
        if self.lacks_shadow:
            self._shadow = self._agent.lattice.lifted(x, exponent)
        # A message of a state of several numbers does not say where its shadow began.
        begins = self._moving is not None and self._shadow is not None and u == 0
        return Spoke(u, self.said, loss, self._pack(self._shadow) if begins else b"")

    def move(self, y: tuple[int, ...], heard: Iterable[bytes], used: Iterable[int]) -> Moved:
        """Make an update towards y, which must be public; eq:upd and eq:upd_dis."""
        towards = self._agent.lattice.within(as_array(y), "feedback")
        move = self._agent.motion.move_whole
        self._state = move(self._state, towards)
        if self._shadow is not None:
            self._shadow = move(self._shadow, towards)
        shadow = b"" if self._shadow is None else self._pack(self._shadow)
        public, state = self._codec.pack(y), self._pack(self._state)
        moved = Moved(self.update, tuple(heard), tuple(used), public, state, shadow)
        # An update without a message leaves its draw unused. It has this update's scale, so it fits no other.
        self.draws.pop(self.update, None)
        self.update, self.said, self.feedback = self.update + 1, None, y
        return moved

    def value(self) -> Any:
        """Return the private state as the nearest float, or one per component."""
        return self._agent.lattice.value(self._state)

    def replay(self, record: Record) -> None:
        """Apply a record from a ledger."""
        match record:
            case Spoke():
                require_order(record.update == self.update and self.said is None)
                # With the signature checked: bytes of a damaged ledger must not be sent as this message.
                message = self._codec.open(record.frame)
                require_order(isinstance(message, Message) and message.sender == self.number)
                assert isinstance(message, Message)
                assert isinstance(message.body, Report)
                self.said, self.digests[record.update] = record.frame, digest(record.frame)
                # The recorded loss counts, even if this version would compute another one.
                self._spent += exact(record.loss)
                if record.basis:
                    self._shadow = self._unpacked(record.basis)
                elif self.lacks_shadow:
                    exponent = message.body.exponent
                    self._shadow = self._agent.lattice.lifted(as_array(message.numbers), exponent)
            case Moved():
                require_order(record.update == self.update)
                self._state = self._unpacked(record.state)
                self._shadow = self._unpacked(record.basis) if record.basis else None
                self.update, self.said = self.update + 1, None
                self.feedback = self._codec.unpack(record.y)
            case Silenced():
                self.silent = True


def as_draw(draw: Any) -> Whole:
    """Return noise as the lattice takes it; refuse what is not whole."""
    whole = as_whole(draw, "noise")
    return whole if isinstance(whole, int) else as_array(whole)


def require_began(codec: Codec, number: int, records: Iterable[Record]) -> tuple[Began, list[Record]]:
    """Return how an agent began, and its further records."""
    found = list(records)
    if not found or not isinstance(first := found[0], Began):
        raise StateError("an agent's records must start with how it began.")
    if first.session != codec.session.id or first.agent != number:
        raise StateError("these records belong to another session or another agent.")
    return first, found[1:]
