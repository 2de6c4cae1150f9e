"""Every exception tacit raises on purpose.

::

    TacitError                  something tacit can explain in one sentence
    ├── InputError (ValueError) what was given cannot be used; the command line exits with 2
    │   ├── GraphError          the graph has a self-loop, a duplicate edge, two parts, …
    │   ├── ParameterError      mixing, noise, decay or a probability is out of its range
    │   │   └── LawError        a noise law is not known, or does not define what was asked of it
    │   ├── StateError          values have a wrong shape or are not finite
    │   ├── SessionOver         the session was over before; what it led to is no new result
    │   ├── RecordTooLarge      what should be recorded would not fit in memory
    │   └── FileError           a file cannot be read, or is not what it should be
    │       └── LedgerError     a ledger cannot be trusted or written, so the agent must not speak
    ├── Disputed                someone signed what cannot be true here, so the agent must not speak
    ├── CapExceeded             the owner's cap on the privacy loss does not allow it
    └── Infeasible              the question is well posed but has no answer; says what has to give

A message says what must hold, what was given, and what to do. It never contains a private value.
"""

from __future__ import annotations

from typing import Any


class TacitError(Exception):
    """Something tacit can explain in one sentence."""


class InputError(TacitError, ValueError):
    """What was given cannot be used as it is."""


class GraphError(InputError):
    """The graph is not a simple, undirected (where needed: connected) graph."""


class ParameterError(InputError):
    """A parameter is outside the range in which the guarantee holds.

    ``field`` is its name among the fields of `tacit.Question`, where it is one of them.
    """

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class LawError(ParameterError):
    """A noise law is not known, is not a sound law, or does not define what was asked of it."""


class StateError(InputError):
    """States or noise have a wrong shape or are not finite numbers."""


class SessionOver(InputError):
    """The session was over for this agent before it was asked to take part again.

    ``result`` is what came of it then (an `AgentResult`), or None if the ledger has forgotten that.
    """

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


class RecordTooLarge(InputError):
    """The record asked for would not fit in memory."""


class FileError(InputError):
    """A file cannot be read or written, or does not hold what it should."""


class LedgerError(FileError):
    """A ledger cannot be trusted, or cannot be written: the agent must not speak."""


class Disputed(TacitError):
    """Someone signed what cannot be true by this agent's own ledger: it says nothing more in the session."""


class CapExceeded(TacitError):
    """What was asked would lose more privacy than the owner allows; nothing was sent."""


class Infeasible(TacitError):
    """No parameters meet the request.

    ``alternatives`` are changes that would make it feasible: each maps one or several sides to new values,
    to be changed together, the other sides kept as they are. ``gives`` has those of one side alone.
    """

    def __init__(
        self,
        message: str,
        gives: dict[str, float] | None = None,
        alternatives: list[dict[str, float]] | None = None,
    ) -> None:
        super().__init__(message)
        single = [{name: value} for name, value in (gives or {}).items()]
        self.alternatives = single + (alternatives or [])
        self.gives = {
            name: value for way in self.alternatives if len(way) == 1 for name, value in way.items()
        }
