"""Who hides an agent's numbers: itself with noise, or keepers with masks.

With its own noise a message may be read by anyone. With keepers it carries no noise, but one mask for each
keeper. Anyone who lacks one of these masks learns nothing from it. Then only the openings reveal something:
the sum of the agents' states, plus the noise of the keepers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, final

from tacit.base.errors import ParameterError, StateError
from tacit.core.mechanism.whole import Whole
from tacit.core.protocol.codec import Codec, Sign, as_numbers
from tacit.core.protocol.keyring import Keyring
from tacit.core.protocol.masks import mask, packed, total
from tacit.core.protocol.messages import DIGEST_BYTES, Masked, Report
from tacit.core.protocol.records import Keyed


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
