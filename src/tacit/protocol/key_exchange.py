"""How a coordinator passes ephemeral keys on: from agents to keepers, and from keepers to agents."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

from tacit.protocol.effects import Send
from tacit.protocol.keyring import Keyring
from tacit.protocol.machine import Machine
from tacit.protocol.messages import Message
from tacit.protocol.records import Evidence
from tacit.protocol.tables import On


class KeyExchange(Machine):
    """A coordinator that stores the first key of every member, and sends it to those who need it."""

    keyring: Keyring

    def _classify_key(self, message: Message) -> tuple[On, Any]:
        known = self.keyring.digest(message.sender)
        if known is not None and known != message.digest:
            first = self.keyring.frames[message.sender]
            return On.CONTRADICTED, Evidence(message.sender, 0, known, first, message.frame)
        return On.KEY, message

    def _take_key(self, message: Message) -> None:
        """Store a member's first key and forward it; if it is repeated, send keys it may lack."""
        who, keepers = message.sender, self.session.keeper_numbers
        new = self.keyring.digest(who) is None
        if new:
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
        if new or self._may_answer(who):
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
