"""Do a number of rounds whenever told to on standard input, and say how much processor time was used."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable


def take_turns(turn: Callable[[int], object], used: Callable[[], float]) -> None:
    """Say that all is ready, then do a turn for every line, until there are no more."""
    answers = os.fdopen(os.dup(1), "w")  # whatever a library prints must not be taken for an answer
    os.dup2(2, 1)
    while True:
        print(json.dumps({"used": used()}), file=answers, flush=True)
        line = sys.stdin.readline()
        if not line:
            return
        turn(int(line))
