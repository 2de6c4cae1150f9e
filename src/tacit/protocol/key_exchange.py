"""A coordinator's side of keepers: it passes keys on and takes openings."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

from tacit.errors import StateError
from tacit.protocol.effects import Refused, Send
from tacit.protocol.keyring import Keyring
from tacit.protocol.machine import Machine
from tacit.protocol.messages import Message, Opening, Refusal
from tacit.protocol.records import Evidence
from tacit.protocol.tables import On


class KeyExchange(Machine):
    """A coordinator that passes each member's first key on and takes openings.

    It cannot replace keys: each is signed by its member. It can only withhold them, and then no sum opens.
    """

    keyring: Keyring
    round: int
    _closing: Message | None
    _openings: dict[int, Message]  # of the round that is shut
    _past_openings: dict[int, Message]  # of the last round

    def _own(self, frame: bytes) -> Message:
        """Read a frame that is in the ledger, or was made here."""
        message = self.codec.read(frame, own=True)
        if not isinstance(message, Message):
            raise StateError("the ledger's records must be of this session, and these are not.")
        return message

    def _classify_opening(self, message: Message, body: Opening) -> tuple[On, Any]:
        t, who = body.round, message.sender
        known = {self.round: self._openings, self.round - 1: self._past_openings}.get(t, {}).get(who)
        if known is not None and known.digest != message.digest:
            return On.CONTRADICTED, Evidence(who, t, known.digest, known.frame, message.frame)
        wrong: Refusal | None = None
        if known is not None:
            wrong = Refusal.REPLAY
        elif t < self.round:
            wrong = Refusal.LATE
        # An opening of another set of agents would leave masks in the sum.
        elif self._closing is None or t > self.round or body.closing != self._closing.digest:
            wrong = Refusal.OTHER_HISTORY
        elif body.key != self.keyring.digest(who):
            wrong = Refusal.OTHER_KEY
        return (On.OPENING, message) if wrong is None else (On.REFUSED, Refused(wrong, who))

    def _classify_key(self, message: Message) -> tuple[On, Any]:
        kind, subject = self.keyring.classify(message)
        # A coordinator does not refuse a repeated key: it is a request for the keys of others.
        return (On.KEY, message) if kind is On.REFUSED else (kind, subject)

    def _take_key(self, message: Message) -> None:
        """Store a member's first key and pass it on.

        A member repeats its key while it lacks something, so a repetition is answered.
        """
        who, keepers = message.sender, self.session.keeper_numbers
        new = self.keyring.digest(who) is None
        if new:
            # Saved before it is passed on: a restarted coordinator must know whose key came first.
            self._records.append(self.keyring.take(message))
        if who in keepers:
            if new:
                self._pass_on(message.frame, (i for i in self.keyring.frames if i not in keepers))
                for i, frame in self.keyring.frames.items():
                    if i not in keepers:
                        self._messages.append(Send(who, frame))
            else:
                self._attend(who)
            return
        self._see(who)
        if new:
            self._pass_on(message.frame, (j for j in keepers if self.keyring.knows((j,))))
        if new or self._may_answer(who):  # a first key comes once, so it needs no limit
            self._give_keys(who)

    @abstractmethod
    def _see(self, who: int) -> None:
        """Note that an agent is present."""

    @abstractmethod
    def _attend(self, who: int) -> None:
        """Tell a keeper what it may have missed."""

    def _pass_on(self, frame: bytes, members: Iterable[int]) -> None:
        for i in members:
            self._messages.append(Send(i, frame))

    def _give_keys(self, who: int) -> None:
        for j in self.session.keeper_numbers:
            if j in self.keyring.frames:
                self._messages.append(Send(who, self.keyring.frames[j]))
