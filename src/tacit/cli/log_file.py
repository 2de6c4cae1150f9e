"""A log file of JSON lines. A full disk costs lines, never a session."""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, final

from tacit.base.errors import InputError
from tacit.base.files import begins_as, open_own

_MARK = {"tacit_log": 1}
"""Begins the first line of a log."""


@final
class LogFile:
    """Appends lines to a log of tacit, or makes a new one.

    Any other file is refused and not changed. The first line of a new file begins with the mark and names the
    member. A line that cannot be written is lost: members spend their loss whether or not there is a log. The
    next line that can be written comes after one that says how many are missing.
    """

    def __init__(self, path: Path, whose: dict[str, Any]) -> None:
        self._path, self._whose = path, whose
        self.lost = 0
        """Lines that could not be written since the last one that could."""
        self._descriptor = self._opened()
        self._begin()

    def reopen(self) -> None:
        """Open the path again: another program has moved the file away.

        If that fails, the file that is open stays in use.
        """
        try:
            fresh = self._opened()
        except (InputError, OSError) as error:
            say(f"The log stays where it was: {error}")
            return
        self.close()
        self._descriptor = fresh
        self._begin()

    def _opened(self) -> int:
        descriptor = open_own(self._path)
        if not begins_as(descriptor, json.dumps(_MARK)[:-1].encode() + b", "):
            os.close(descriptor)
            raise InputError(f"{self._path} is not a log of tacit: choose another file.")
        return descriptor

    def _begin(self) -> None:
        if os.fstat(self._descriptor).st_size == 0:
            self.write(_MARK | {"time": round(time.time(), 3)} | self._whose | {"event": "log"})

    def write(self, told: dict[str, Any]) -> None:
        """Append a line."""
        lines = [told]
        if self.lost:
            text = f"{self.lost} lines are missing: the log could not be written"
            missing = {"time": told.get("time"), "event": "lines-lost", "lost": self.lost, "text": text}
            lines = [missing | self._whose, told]
        data = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in lines).encode(errors="replace")
        try:
            # The last line may have been cut off in the middle, so another begins first.
            self._append(b"\n" + data if self.lost else data)
        except OSError as error:
            self.lost += 1
            if self.lost == 1:
                why = error.strerror or type(error).__name__
                say(f"{self._path} cannot be written ({why}): what happens meanwhile is not logged.")
        else:
            self.lost = 0

    def _append(self, data: bytes) -> None:
        if os.write(self._descriptor, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        """End the file."""
        with suppress(OSError):
            os.close(self._descriptor)


def say(line: str) -> None:
    """Print a line to standard error, which may be closed or on a full disk."""
    with suppress(OSError, ValueError):
        print(line, file=sys.stderr, flush=True)
