"""Who hides an agent's numbers: itself with noise, or keepers with masks.

With its own noise a message may be read by anyone. With keepers it carries no noise, but one mask for each
keeper. Anyone who lacks one of these masks learns nothing from it. Then only the openings reveal something:
the sum of the agents' states, plus the noise of the keepers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, final

from tacit.errors import ParameterError
from tacit.mechanism.whole import Whole
from tacit.protocol.codec import Codec, Sign, as_numbers
from tacit.protocol.keyring import Keyring
from tacit.protocol.masks import mask, packed, total
from tacit.protocol.messages import Masked, Report
from tacit.protocol.records import Keyed


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
        """Whether a message could be made now."""
        return True

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

        It is made once per update, and `heard` is an input of the masks. So a rolled-back agent that is shown
        another history does not use one mask for two numbers, which would reveal their difference. In a
        series `heard` is a random salt, because messages do not depend on history there.
        """
        session = self._session
        assert session.mask_bytes is not None
        keepers, width, length = session.keeper_numbers, session.mask_bytes, session.masked_bytes
        masks = [mask(self._keyring.secret(j), u, heard, length) for j in keepers]
        numbers = total([packed(as_numbers(x), width), *masks], width)
        body = Masked(u, exponent, numbers, heard, self._keyring.named((self._number, *keepers)))
        return self._codec.seal(self._number, body, self._sign)
