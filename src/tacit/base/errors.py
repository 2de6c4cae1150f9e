"""Every exception tacit raises on purpose.

::

    TacitError                  something tacit can explain in one sentence
    ├── InputError (ValueError) what was given cannot be used; the command line exits with 2
    │   ├── GraphError          the graph has a self-loop, a duplicate edge, two parts, …
    │   ├── ParameterError      mixing, noise, decay or a probability is out of its range
    │   │   ├── LawError        a noise law is not known, or does not define what was asked of it
    │   │   └── MotionError     a motion does not define what was asked of it
    │   ├── StateError          values have a wrong shape or are not finite
    │   ├── SessionOver         the session was already over; there is no new result
    │   ├── Useless             the result would say nothing; `anyway` asks for it all the same
    │   ├── RecordTooLarge      what should be recorded would not fit in memory
    │   └── FileError           a file cannot be read, or is not what it should be
    │       ├── NotCurrent      a certificate has expired, or is not valid yet
    │       └── LedgerError     a ledger cannot be trusted or written, so the agent must not send
    │           ├── LedgerInUse another process uses the ledger
    │           ├── StoreLost   a hub's database is away, or another host leads: read it again
    │           └── DiskFull    a disk takes no more data: make room, and go on
    ├── Disputed                a signed message contradicts the ledger, so the agent must not send
    ├── MissingExtra (ImportError) a package that only some users install is not there
    ├── CapExceeded             the owner's cap on the privacy loss does not allow it
    └── Infeasible              no parameters meet the request; lists changes that would help

A message says what must hold, what was given, and what to do. It never contains a private value.
"""

from __future__ import annotations

from typing import Any


class TacitError(Exception):
    """Something tacit can explain in one sentence."""


class InputError(TacitError, ValueError):
    """The input cannot be used."""


class GraphError(InputError):
    """The graph is not a simple, undirected (where needed: connected) graph."""


class ParameterError(InputError):
    """A parameter is outside the range in which the guarantee holds.

    ``field`` is its name among the fields of `tacit.Plan`, if it is one of them.
    """

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class LawError(ParameterError):
    """A noise law is unknown or unsound, or lacks what was asked."""


class MotionError(ParameterError):
    """A motion does not define what was asked of it."""


class StateError(InputError):
    """States or noise have a wrong shape or are not finite numbers."""


class SessionOver(InputError):
    """The agent had already finished this session when it was started again.

    ``result`` is the result of that time (an `AgentResult`), or None if the ledger has forgotten it.
    """

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


class Useless(InputError):
    """The result would say nothing, and everyone's loss would be spent on it.

    Nothing was spent. Whoever wants it all the same says so with ``anyway``.
    """


class RecordTooLarge(InputError):
    """The requested record would not fit in memory."""


class FileError(InputError):
    """A file cannot be read or written, or does not hold what it should."""


class NotCurrent(FileError):
    """A certificate has expired, or is not valid yet."""


class LedgerError(FileError):
    """A ledger cannot be trusted or written.

    The agent must not send anything.
    """


class LedgerInUse(LedgerError):
    """Another process uses the ledger."""


class StoreLost(LedgerError):
    """The database of a hub cannot be used, or another host leads.

    It may be unknown what was saved. Discard what was made from it, connect again, and read.
    """


class DiskFull(LedgerError):
    """A disk is full or read-only.

    Nothing that had to be saved was sent. The same work can go on once the disk takes data again.
    """


class Disputed(TacitError):
    """A signed message contradicts this agent's ledger.

    The agent sends nothing more in the session.
    """


def installing(extra: str) -> str:
    """Say how to install an extra.

    From a clone, not by name: the package index's `tacit` is not ours.
    """
    return f"in a clone of tacit: pip install '.[{extra}]'"


class MissingExtra(TacitError, ModuleNotFoundError):
    """A package that comes with an extra is not installed.

    ``extra`` is the name of the extra, ``name`` that of the package.
    """

    def __init__(self, who: str, extra: str, package: str) -> None:
        super().__init__(
            f"{who} needs the extra {extra} here ({package} is not installed); {installing(extra)}."
        )
        self.extra, self.name = extra, package


class CapExceeded(TacitError):
    """The request would exceed the owner's cap on the privacy loss.

    Nothing was sent.
    """


class Infeasible(TacitError):
    """No parameters meet the request.

    ``alternatives`` are changes that would make it feasible. Each maps one or several fields to new values,
    to be changed together; the other fields stay. ``gives`` has the changes of a single field.
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
