"""How a session ends early: it is recorded first, then told to others."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from tacit.protocol.effects import Send, Stopped
from tacit.protocol.machine import Machine
from tacit.protocol.messages import COORDINATOR, Message, Reason, Stop
from tacit.protocol.records import Ended


class EndingCoordinator(Machine):
    """A coordinator that can stop its session.

    Attributes
    ----------
    round : int
        The round, or slot, that it is at.
    """

    round: int
    _stop: bytes | None  # what it has signed, once it has stopped

    def _halt(self, _: Any) -> None:
        self._stop_all(Reason.OPERATOR)

    def _expire(self, _: Any) -> None:
        self._stop_all(Reason.EXPIRED)

    def _stop_all(self, reason: Reason) -> None:
        self._stop = self._stop_frame(reason)
        self._rest()
        # Recorded before the stop is sent: a restarted coordinator must not open rounds that members left.
        if not self._ended:
            self._ended = True
            self._records.append(Ended(self.round, reason))
        self._notices.append(Stopped(self.round, reason))
        self._messages.append(Send(None, self._stop))

    def _stop_frame(self, reason: Reason) -> bytes:
        return self.codec.seal(COORDINATOR, Stop(self.round, reason), self._sign)

    def _say_stopped(self, about: Any) -> None:
        """Tell a member that asks that the session was stopped.

        `about` is its message, or its number when it connects. After a restart it is None, and all are told.
        """
        assert self._stop is not None
        who = about.sender if isinstance(about, Message) else about
        if who is None or self._may_answer(who):
            self._messages.append(Send(who, self._stop))


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
