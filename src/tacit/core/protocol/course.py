"""Where the session of a coordinator is: what was heard, decided and said.

The coordinator's machine changes it. Its parts (`pace`, `sums`) read it to decide.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import final

from tacit.core.protocol.codec import digest
from tacit.core.protocol.machine import REMEMBERED
from tacit.core.protocol.messages import NOTHING_HEARD, Message
from tacit.core.protocol.places import LastUsed
from tacit.core.protocol.records import Closed, Shut


@final
@dataclass
class Course:
    """The state that a coordinator shares with its parts.

    Attributes
    ----------
    round : int
        The round, or slot, that is open, or is opened next.
    reports : dict
        The messages of the open round, by agent.
    ahead : dict
        The messages of later slots, by slot and agent.
    past : deque
        The digests of the messages of recent rounds, by agent.
    feedback : list of bytes
        The frames of all rounds so far; `before` is the digest of the last.
    closing : Message, optional
        What keepers were asked to open, while the round waits for them.
    state : LastUsed
        The last used report of each agent.
    late : dict
        The last message of each agent that came too late.
    returned : dict
        The agents that came back, and whether they have sent a message since. They may have been restarted,
        so they get their place with each feedback until such a message is used.
    """

    state: LastUsed
    round: int = 0
    opened: bool = False
    connected: set[int] = field(default_factory=set)
    present: set[int] = field(default_factory=set)
    silent: set[int] = field(default_factory=set)
    done: set[int] = field(default_factory=set)
    reports: dict[int, Message] = field(default_factory=dict)
    ahead: dict[int, dict[int, Message]] = field(default_factory=dict)
    past: deque[Mapping[int, bytes]] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    feedback: list[bytes] = field(default_factory=list)
    before: bytes = NOTHING_HEARD
    late: dict[int, Message] = field(default_factory=dict)
    returned: dict[int, bool] = field(default_factory=dict)
    closing: Message | None = None
    openings: dict[int, Message] = field(default_factory=dict)  # of the round that is shut
    past_openings: dict[int, Message] = field(default_factory=dict)  # of the last round

    def take(self, u: int, message: Message) -> None:
        """Keep a message of the open round, or of a later slot."""
        who = message.sender
        (self.reports if u == self.round else self.ahead.setdefault(u, {}))[who] = message
        self.late.pop(who, None)
        if who in self.returned:
            self.returned[who] = True

    def said_by(self, who: int) -> list[Message]:
        """Return what a member has said that no place shows, as far as known."""
        kept = (self.late, self.reports, *self.ahead.values(), self.past_openings, self.openings)
        return [found[who] for found in kept if who in found]

    def report(self, u: int, who: int) -> Message | None:
        """Return an agent's message of the open round or a later slot."""
        return (self.reports if u == self.round else self.ahead.get(u, {})).get(who)

    def known(self, u: int, who: int) -> bytes | None:
        """Return the digest of an agent's message for a recent or later round."""
        if u >= self.round:
            found = self.report(u, who)
            return None if found is None else found.digest
        back = self.round - u
        return self.past[-back].get(who) if back <= len(self.past) else None

    def advance(self, feedback: bytes) -> None:
        """Store the feedback of the open round, and go on to the next."""
        self.past.append({i: report.digest for i, report in self.reports.items()})
        self.past_openings = self.openings
        self.closing, self.openings = None, {}
        self._keep(feedback)
        self.reports = self.ahead.pop(self.round, {})

    def replay(self, closed: Closed, openings: Iterable[Message]) -> None:
        """Go on to the next round as a ledger says; see `remember`."""
        self.past_openings = {opening.sender: opening for opening in openings}
        self._keep(closed.frame)

    def remember(self, recent: Iterable[Closed | Shut]) -> None:
        """Restore the digests of the last rounds, given in order.

        A message of a past round that differs from the recorded one is still a contradiction.
        """
        for record in recent:
            self.past.append(dict(zip(record.used, map(digest, record.reports), strict=True)))

    def welcome(self, used: Iterable[int]) -> None:
        """Forget that these agents were restarted, if they have spoken since."""
        for i in used:
            if self.returned.get(i):
                del self.returned[i]

    def _keep(self, feedback: bytes) -> None:
        self.feedback.append(feedback)
        self.before = digest(feedback)
        self.round += 1
