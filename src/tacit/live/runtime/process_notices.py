"""Notices of any running process, which need no session.

They are described as those of machines are (`tacit.core.protocol.notices`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

from tacit.core.protocol.notices import Notice


class ProcessNotice(Notice):
    """A notice that needs no session to be understood."""

    said: ClassVar[str] = ""
    """Its sentence, with its fields in braces."""

    def sentence(self, session: object = None) -> str | None:
        """Return what to say to a person."""
        return self.said.format_map(vars(self)) or None

    def facts(self, session: Any = None) -> dict[str, Any]:
        """Return it ready for JSON, without fields that are None."""
        return {name: value for name, value in super().facts(session).items() if value is not None}


@final
@dataclass(frozen=True)
class Trouble(ProcessNotice):
    """Something is wrong, and goes on or is tried again."""

    text: str
    member: str | None = None

    said = "{text}"


@final
@dataclass(frozen=True)
class StatusServed(ProcessNotice, event="status"):
    """The status is served."""

    url: str
    member: str | None = None

    said = "status at {url}/status and {url}/metrics"


@final
@dataclass(frozen=True)
class ServiceWaits(ProcessNotice, event="waiting"):
    """A process cannot start yet, and waits until it can."""

    why: str
    member: str | None = None

    said = "{why} It waits here until that is right."
