r"""Places: which report of each agent was used last, under one root.

Feedback does not list the agents whose messages it uses: that would be N bits for each of N agents. Its
`state` is the root of a Merkle tree instead, with one leaf for each agent:

    "tacit state v1\0" | [i, the last round in which i was used or −1, the digest of that report]

A `Place` is the leaf and the path of one agent. So one agent can check what is said of it, and nothing else.
Whoever has the messages of all rounds can compute the root again: see `tacit.live.verification`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, final

import msgspec

from tacit.core.protocol.merkle import MerkleTree, is_in_tree
from tacit.core.protocol.messages import NOTHING_HEARD, Feedback, Message, Place, Refusal

_STATE = b"tacit state v1\0"
_NEVER = (-1, NOTHING_HEARD)
_ENCODE = msgspec.msgpack.Encoder().encode

Use: TypeAlias = tuple[int, bytes]
"""A round, and the digest of the report that was used in it."""


def state_leaf(i: int, last: int, digest: bytes) -> bytes:
    """Return the data of an agent's leaf."""
    return _STATE + _ENCODE((i, last, digest))


@final
@dataclass
class LastUsed:
    """The last used report of each agent, for coordinators and verifiers.

    Attributes
    ----------
    members : int
        How many agents were used so far.
    """

    n: int
    members: int = 0

    def __post_init__(self) -> None:
        self._last = [_NEVER] * self.n
        self._tree = MerkleTree(state_leaf(i, *_NEVER) for i in range(self.n))

    @property
    def root(self) -> bytes:
        """The `state` of a feedback after these uses."""
        return self._tree.root

    def use(self, t: int, digests: Mapping[int, bytes]) -> None:
        """Use these agents' reports in round t."""
        self.take({i: (t, digest) for i, digest in digests.items()})

    def take(self, latest: Mapping[int, Use]) -> None:
        """Replace the last uses of these agents."""
        for i, use in latest.items():
            self.members += self._last[i][0] < 0
            self._last[i] = use
        self._tree.update({i: state_leaf(i, *use) for i, use in latest.items()})

    def place(self, t: int, i: int) -> Place:
        """Return an agent's place in the feedback of round t, the newest."""
        return Place(t, *self._last[i], self._tree.path(i))


@final
@dataclass
class OwnPlace:
    """What one agent knows of its place: whether its key spoke elsewhere.

    Only the newest feedback counts. Its place has the last report of all rounds so far that was used, so it
    also covers the rounds before.

    Attributes
    ----------
    feedback : Message, optional
        The newest feedback that was heard, of round `heard`.
    proved : int
        The round of the newest place that names no message of another ledger; −1 if there is none. Only what
        this process has heard counts.
    found : int or None
        After a start from a ledger: the newest message in that ledger, or −1, until a place names a message
        that this process has made. None means that no other ledger can be newer than this one.
    """

    number: int
    n: int
    feedback: Message | None = None
    heard: int = -1
    proved: int = -1
    found: int | None = None

    def drop(self, feedback: Message) -> None:
        """Forget feedback that continues another history."""
        if feedback is self.feedback:
            self.feedback, self.proved = None, min(self.proved, self.heard - 1)
            self.heard = -1

    def wrong(self, place: Place) -> Refusal | None:
        """Return why this is not this agent's place in the newest feedback."""
        if place.round != self.heard:
            return Refusal.LATE if place.round < self.heard else Refusal.AHEAD
        assert self.feedback is not None
        assert isinstance(self.feedback.body, Feedback)
        leaf = state_leaf(self.number, place.last, place.digest)
        right = is_in_tree(self.feedback.body.state, leaf, self.number, self.n, place.path)
        return None if right else Refusal.WRONG_PLACE

    def note(self, place: Place) -> None:
        """Note a right place whose message is from this ledger, or none."""
        self.proved = max(self.proved, place.round)
        # Whoever made a message after the copy of this ledger had stopped by then.
        if self.found is not None and place.last > self.found:
            self.found = None

    def vouches(self, u: int, made: Mapping[int, bytes]) -> bool:
        """Whether message u may be drawn, by what is known of earlier rounds.

        Either a place says that no report was used that this ledger did not make. Or this process has made
        the message of the round before, and its ledger is known to be the newest. So a key whose message was
        used elsewhere is found out before it draws again.
        """
        return u == 0 or self.proved >= u - 1 or (self.found is None and u - 1 in made)
