"""The laws that files and the command line know by name: one row each."""

from __future__ import annotations

from tacit.base.errors import LawError
from tacit.core.law.base import Law
from tacit.core.law.bits import Bits
from tacit.core.law.constant import Constant
from tacit.core.law.fading import Fading
from tacit.core.law.one_shot import OneShot
from tacit.core.law.scheduled import Scheduled
from tacit.core.law.staircase import Staircase

_LAWS: dict[str, type[Law]] = {
    Fading.name: Fading,
    OneShot.name: OneShot,
    Constant.name: Constant,
    Scheduled.name: Scheduled,
    Bits.name: Bits,
    Staircase.name: Staircase,
}

GROUP = "tacit.laws"
"""Entry points of this group are laws, each under its name."""

# Transcripts, session files, sweeps and datasets have something else under these names.
_TAKEN = {
    *(
        "tacit_transcript",
        "topology",
        "agents",
        "edges",
        "weights",
        "kind",
        "law",
        "lattice",
        "keepers",
    ),
    *("name", "by", "id", "session", "rounds", "graph", "epsilon", "theta", "average", "eta", "x", "y"),
    *("indptr", "indices", "run", "round", "agent", "said", "component", "row", "edge", "count", "own_count"),
}


def register(law: type[Law]) -> type[Law]:
    """Make a law known by its name.

    Session files, transcripts, sweeps and the command line then know it. Every member of a session with this
    law must register it, or install a package that has an entry point with the law's name in the group
    ``tacit.laws``. `register` returns the law, so it can be used as a decorator.
    """
    if not getattr(law, "name", ""):
        raise LawError(f"the law {law.__name__} does not define its name.")
    for word in law.words():
        if word in _TAKEN or not word.isascii():
            raise LawError(
                f"the parameter {word!r} of the law {law.name!r} must have another name, in ASCII: files "
                "have something else under this one."
            )
    if _LAWS.get(law.name, law) is not law:
        raise LawError(f"the name {law.name!r} belongs to another law: choose another one.")
    _LAWS[law.name] = law
    return law


def names() -> tuple[str, ...]:
    """Return the names of all laws that are known."""
    return tuple(_LAWS)


def named(name: str) -> type[Law]:
    """Return the law of this name.

    It is registered, or in an installed package.
    """
    if name not in _LAWS:
        _load(name)
    if name not in _LAWS:
        raise LawError(f"the noise law must be one of {', '.join(_LAWS)}, got {name!r}.")
    return _LAWS[name]


def _load(name: str) -> None:
    """Register the law that an installed package has under this name."""
    from importlib.metadata import entry_points  # has the parsers of mail and of archives

    for point in entry_points(group=GROUP, name=name):
        law = point.load()
        if not (isinstance(law, type) and issubclass(law, Law) and law.name == name):
            raise LawError(f"the entry point {name!r} of {GROUP} must be a law of this name, and is not.")
        register(law)
