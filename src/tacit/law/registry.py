"""The laws that files and the command line know by name: one row each."""

from __future__ import annotations

from tacit.errors import LawError
from tacit.law.base import WORDS, Law
from tacit.law.constant import Constant
from tacit.law.fading import Fading
from tacit.law.one_shot import OneShot

_LAWS: dict[str, type[Law]] = {
    Fading.name: Fading,
    OneShot.name: OneShot,
    Constant.name: Constant,
}


def register(law: type[Law]) -> type[Law]:
    """Make a law known by its name to session files, transcripts, sweeps and the command line.

    Everybody who takes part in a session of this law must have registered it. Its parameters must be among
    mixing, noise and decay (`sigma`, `c`, `q`), which is what a session carries. Returns the law, so that
    it can be used as a decorator.
    """
    if not getattr(law, "name", ""):
        raise LawError(f"the law {law.__name__} does not define its name.")
    others = [letter for letter in law.letters() if letter not in WORDS]
    if others:
        raise LawError(
            f"the law {law.name!r} must have no parameters but {', '.join(WORDS)} to be written to files, "
            f"got {others[0]}."
        )
    if _LAWS.get(law.name, law) is not law:
        raise LawError(f"the name {law.name!r} belongs to another law: choose another one.")
    _LAWS[law.name] = law
    return law


def names() -> tuple[str, ...]:
    """Return the names of all laws that are known."""
    return tuple(_LAWS)


def named(name: str) -> type[Law]:
    """Return the law of this name."""
    if name not in _LAWS:
        raise LawError(f"the noise law (noise_kind) must be one of {', '.join(_LAWS)}, got {name!r}.")
    return _LAWS[name]
