"""What closes a round: how a coordinator adds up the messages of agents.

Without keepers it takes the mean of plain numbers. With keepers it first signs a closing, which says whose
messages are added up. Each keeper opens its share, and only then the sum is known. In a series the sum itself
is published, because its decoder needs sums.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol, final

from tacit.core.protocol.codec import Codec, as_numbers, combined
from tacit.core.protocol.course import Course
from tacit.core.protocol.keyring import Keyring
from tacit.core.protocol.masked_sum import is_nonsense, opened_mean, opened_sum
from tacit.core.protocol.messages import Closing, Masked, Message


class RoundSum(Protocol):
    """How the messages of a round become its feedback.

    The reports of a shut round are in rising order of agents, so that a verifier can recompute digests.
    """

    def admits(self, who: int) -> bool:
        """Whether this agent's messages can be added up."""

    def fits(self, report: Message) -> bool:
        """Whether this message can be added to those of the others."""

    def closing(self, course: Course) -> Closing | None:
        """Return what keepers are asked to open; None if there are none."""

    def result(self, course: Course) -> tuple[int, ...] | None:
        """Return the numbers of the feedback; None if they are nonsense."""

    def basis(self, course: Course) -> bytes:
        """Return the digest of what the result was computed from."""

    def recorded(self, course: Course) -> tuple[bytes, ...]:
        """Return the reports that are recorded with the feedback."""


def chosen_sum(codec: Codec, keyring: Keyring) -> RoundSum:
    """Return how a session's messages are added up."""
    if not codec.session.keepers:
        return PlainMean(codec)
    return (MaskedMean if codec.session.series is None else SlotSum)(codec, keyring)


@final
class PlainMean:
    """The mean of messages that anyone may read: agents add their own noise."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec

    def admits(self, _who: int) -> bool:
        """Return True: no key is needed."""
        return True

    def fits(self, _report: Message) -> bool:
        """Return True: the codec has checked the numbers."""
        return True

    def closing(self, _course: Course) -> None:
        """Return None: nobody has to open anything."""
        return

    def result(self, course: Course) -> tuple[int, ...]:
        """Return the mean."""
        lifted = [self._codec.lifted(report) for report in course.reports.values()]
        return as_numbers(self._codec.session.lattice.mean(lifted))

    def basis(self, course: Course) -> bytes:
        """Return the digest of the reports."""
        return combined(report.digest for report in course.reports.values())

    def recorded(self, course: Course) -> tuple[bytes, ...]:
        """Return all of them."""
        return tuple(report.frame for report in course.reports.values())


class _Masked(ABC):
    """Masked messages, whose sum needs an opening of every keeper."""

    def __init__(self, codec: Codec, keyring: Keyring) -> None:
        self._codec, self._session, self._keyring = codec, codec.session, keyring

    def admits(self, who: int) -> bool:
        """Whether an agent has sent its key. Without it, it can be in no sum."""
        return self._keyring.knows((who,))

    def fits(self, report: Message) -> bool:
        """Whether it was masked with the keys that its keepers know.

        With other keys its masks would not cancel, and the whole sum would be nonsense.
        """
        assert isinstance(report.body, Masked)
        members = (report.sender, *self._session.keeper_numbers)
        return self._keyring.knows(members) and self._keyring.named(members) == report.body.keys

    def closing(self, course: Course) -> Closing:
        """Return who is added up, with the salts of their masks.

        Keepers never see the messages, so the closing brings the salts.
        """
        used, reports = tuple(course.reports), course.reports.values()
        bodies = [report.body for report in reports]
        return Closing(
            round=course.round,
            used=self._codec.bitmap(used),
            count=len(used),
            reports=combined(report.digest for report in reports),
            heard=course.before,
            keys=self._keyring.named(used),
            salts=b"".join(body.salt for body in bodies if isinstance(body, Masked)),
        )

    def result(self, course: Course) -> tuple[int, ...] | None:
        """Return what the opened sum says; None if it is nonsense."""
        found = opened_sum(
            self._session,
            [report.body.numbers for report in course.reports.values()],  # type: ignore[union-attr]
            [opening.body.numbers for opening in course.openings.values()],  # type: ignore[union-attr]
        )
        if is_nonsense(self._session, course.round, found):
            return None
        return self._told(course, found)

    @abstractmethod
    def _told(self, course: Course, found: tuple[int, ...]) -> tuple[int, ...]: ...

    def basis(self, course: Course) -> bytes:
        """Return the digest of the closing and the openings."""
        assert course.closing is not None
        openings = (course.openings[j].digest for j in self._session.keeper_numbers)
        return combined((course.closing.digest, *openings))

    def recorded(self, _course: Course) -> tuple[bytes, ...]:
        """Return nothing: they were recorded with the closing, and are long."""
        return ()


@final
class MaskedMean(_Masked):
    """The mean of masked messages, for sessions with keepers."""

    def _told(self, course: Course, found: tuple[int, ...]) -> tuple[int, ...]:
        return opened_mean(self._session, course.round, found, len(course.reports))


@final
class SlotSum(_Masked):
    """The sum of masked messages, for a slot of a series."""

    def _told(self, _course: Course, found: tuple[int, ...]) -> tuple[int, ...]:
        return found
