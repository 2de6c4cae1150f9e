"""How a member leaves a session: recorded first, then told to others."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from tacit.protocol.effects import Send
from tacit.protocol.machine import Machine
from tacit.protocol.messages import COORDINATOR, Reason, Stop


class LeavingMember(Machine):
    """An agent or keeper that can leave the session of a coordinator."""

    _parting: bytes | None = None  # what it has signed, once it has left

    @property
    @abstractmethod
    def _reached(self) -> int:
        """The update, or slot, that it is at."""

    @abstractmethod
    def _record_stop(self, reason: Reason) -> None:
        """Record that it sends nothing more."""

    def _end(self, stop: Stop) -> None:
        self._record_stop(stop.reason)

    def _leave(self, _: Any) -> None:
        # Recorded before it is told: a restarted member must not come back after the others go on without it.
        self._record_stop(Reason.OPERATOR)
        self._messages.append(Send(COORDINATOR, self._part()))

    def _part(self) -> bytes:
        self._parting = self.codec.seal(self.number, Stop(self._reached, Reason.OPERATOR), self._sign)
        return self._parting

    def _say_stopped(self, _: Any) -> None:
        if self._parting is not None and self._may_answer(COORDINATOR):
            self._messages.append(Send(COORDINATOR, self._parting))
