"""The keepers that an owner trusts: their names and keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from tacit.base.errors import FileError, InputError
from tacit.base.files import read_public
from tacit.core.protocol.session import Session
from tacit.core.theory.advice import ALL_KEEPERS
from tacit.live.identity.keys import key_bytes, key_text


def parse_trust(given: Iterable[str]) -> dict[str, bytes]:
    """Read `NAME=KEY` pairs, with keys as `tacit keys show` prints them.

    `@FILE` is a file of such pairs, one per line; text after # is a comment.
    """
    found: dict[str, bytes] = {}
    for word in given:
        for name, key in _pairs_of(Path(word[1:])) if word.startswith("@") else (_pair(word),):
            if found.setdefault(name, key) != key:
                raise InputError(f"{name} is given with two keys: trust one.")
    return found


def _pair(text: str) -> tuple[str, bytes]:
    name, equals, key = text.partition("=")
    if not equals:
        raise InputError(f"a trusted keeper must be given as NAME=KEY, got {text!r}.")
    return name.strip(), key_bytes(key.strip(), f"the key of {name.strip()}")


def _pairs_of(path: Path) -> list[tuple[str, bytes]]:
    try:
        lines = read_public(path).decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise FileError(f"{path} must be a text file with lines of NAME=KEY, and is not.") from None
    try:
        return [_pair(line) for line in (line.partition("#")[0].strip() for line in lines) if line]
    except InputError as error:
        raise FileError(f"{path}: {error}") from None


def require_trusted_keeper(session: Session, trusted: Mapping[str, bytes]) -> None:
    """Refuse a session without a trusted keeper.

    Also one with a trusted name and another key: anyone could use the name of a keeper that is trusted.
    """
    if not session.keepers:
        return
    for keeper in session.keepers:
        if trusted.get(keeper.name, keeper.key) != keeper.key:
            raise InputError(
                f"keeper {keeper.name} of session {session.name} has another key than the one you trust: it "
                "is someone else, or has a new key. Ask its owner over another channel."
            )
    if not any(trusted.get(keeper.name) == keeper.key for keeper in session.keepers):
        listed = ", ".join(f"{keeper.name}={key_text(keeper.key)}" for keeper in session.keepers)
        raise InputError(
            f"session {session.name} has keepers, and you must trust one of them to keep its secrets: give "
            f"--trust NAME=KEY. Its keepers are {listed}. {ALL_KEEPERS}"
        )
