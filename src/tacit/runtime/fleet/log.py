"""Log events of hubs and followers; nothing private is in them."""

from __future__ import annotations

from typing import Any, Protocol


class FleetLog(Protocol):
    """Takes events of a hub or a follower."""

    def __call__(self, event: str, text: str, **facts: Any) -> None:
        """Take one event: a word, a sentence, and facts."""
        ...


def say_nothing(event: str, text: str, **facts: Any) -> None:
    """Ignore all events."""
