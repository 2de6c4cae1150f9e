"""Log events of hubs and followers: an event, a sentence, and facts; nothing private."""

from __future__ import annotations

from typing import Any, Protocol


class FleetLog(Protocol):
    """Told what happens, with nothing private in it."""

    def __call__(self, event: str, text: str, **facts: Any) -> None:
        """Take one event: a word, a sentence, and facts."""
        ...


def say_nothing(event: str, text: str, **facts: Any) -> None:
    """Ignore all events."""
