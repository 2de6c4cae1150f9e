"""The ephemeral keys that one member knows: the first of each member.

A second key of the same member is refused: its masks would not cancel, so the member would drop out of the
sum. Privacy does not depend on this.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from tacit.base.errors import LedgerError, StateError
from tacit.core.protocol.codec import Codec, Sign, combined
from tacit.core.protocol.masks import Party, agree, public_key
from tacit.core.protocol.messages import Key, Message, Refusal
from tacit.core.protocol.notices import Refused
from tacit.core.protocol.records import Evidence, Keyed
from tacit.core.protocol.tables import On


@final
class Keyring:
    """Keys by member, and the secrets that follow from the own one.

    Attributes
    ----------
    frames : dict of bytes
        The signed frame of each member's first key.
    erased : bool
        Whether the own private key is no longer needed.
    """

    def __init__(self, codec: Codec, number: int) -> None:
        self._codec, self._number = codec, number
        self.frames: dict[int, bytes] = {}
        self.erased = False
        self._digests: dict[int, bytes] = {}
        self._public: dict[int, bytes] = {}
        self._private: bytes | None = None
        self._agreed: dict[int, bytes] = {}

    def __repr__(self) -> str:
        return f"<Keyring of {self._codec.session.member_name(self._number)}, {len(self.frames)} keys>"

    def knows(self, members: Iterable[int]) -> bool:
        """Whether the keys of all these members are known."""
        return all(i in self._digests for i in members)

    def digest(self, member: int) -> bytes | None:
        """Return the digest of a member's key, if it is known."""
        return self._digests.get(member)

    def named(self, members: Iterable[int]) -> bytes:
        """Return one digest for the keys of these members, in this order."""
        return combined(self._digests[i] for i in members)

    def take(self, message: Message) -> Keyed:
        """Store a member's first key; return its record."""
        member, body = message.sender, message.body
        if member in self._digests or not isinstance(body, Key):
            raise StateError("a member can have only one key in a session.")
        self.frames[member], self._digests[member] = message.frame, message.digest
        self._public[member] = body.public
        return Keyed(member, message.frame)

    def classify(self, message: Message) -> tuple[On, Message | Refused | Evidence]:
        """Classify a member's key: first, repeated, or a contradiction."""
        known = self.digest(message.sender)
        if known is None:
            return On.KEY, message
        if known == message.digest:
            return On.REFUSED, Refused(Refusal.REPLAY, message.sender)
        first = self.frames[message.sender]
        return On.CONTRADICTED, Evidence(message.sender, 0, known, first, message.frame)

    def replay(self, record: Keyed) -> None:
        """Restore a key from a ledger."""
        message = self._codec.own(record.frame)  # its signature was checked before it was recorded
        if message.sender != record.member:
            raise StateError("the ledger's keys must be of this session, and one is not.")
        self.take(message)

    # ---- the own key ----------------------------------------------------------------------------------

    def unlock(self, private: bytes | None, sign: Sign) -> Keyed | None:
        """Take the own private key; return a new member's record of its key.

        A missing key that is still needed is an error. A new key would not fit the masks of the others, and
        would hide that the old one was lost.
        """
        if self.erased:  # the ledger says so: no more masks are needed
            return None
        name = self._codec.session.member_name(self._number)
        if private is None:
            raise LedgerError(
                f"the private ephemeral key of {name} for session {self._codec.session.name} is gone, and "
                "the ledger does not say that it was erased. Masks cannot be made without it, and another "
                "key would not fit. Put the file back; without it the session is lost."
            )
        public = public_key(private)
        # A new member: the caller must save this record before the key is sent.
        if self._number not in self._public:
            self._private = private
            return self.take(self._codec.own(self._codec.seal(self._number, Key(public), sign)))
        if self._public[self._number] != public:
            raise LedgerError(
                f"the private ephemeral key of {name} does not fit the public one in the ledger: it is of "
                "another session or another ledger. Put the right file back."
            )
        self._private = private
        return None

    def secret(self, other: int) -> bytes:
        """Return the secret that this ring's owner shares with a member."""
        found = self._agreed.get(other)
        if found is None:
            if self._private is None:
                raise StateError("a mask needs the private ephemeral key, and it was erased.")
            # Both sides must name the agent first. Keepers are numbered after agents, so sorting does that.
            agent, keeper = map(self._party, sorted((self._number, other)))
            session = self._codec.session.id
            found = agree(self._private, self._public[other], session=session, agent=agent, keeper=keeper)
            self._agreed[other] = found
        return found

    def _party(self, i: int) -> Party:
        member = self._codec.session.member(i)
        return Party(member.name, member.key, self._public[i])

    def erase(self) -> None:
        """Erase the own private key and all secrets computed from it."""
        # Python may leave copies in memory. What counts is the file, which the driver deletes.
        self.erased, self._private = True, None
        self._agreed.clear()
