"""The examples that pages open with, computed while the studio starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from tacit.studio.form import EXAMPLE, SERIES_EXAMPLE, Form
from tacit.studio.planning import plan
from tacit.studio.watched_run import Watching, scene

A = TypeVar("A")
WATCHED = Form(
    agents="60", keepers="2", high="10", unit="kW", radius="1.6", mixing="0.5", rounds="16", tolerance="0.5",
)  # fmt: skip
"""The session that Watch opens with.

Mixing 0.5 makes it slow enough to watch, and without keepers an eavesdropper learns far more.
"""


class Example(Generic[A]):
    """An answer that is computed once and kept."""

    def __init__(self, work: Callable[[], A]) -> None:
        self._work = work
        self.found: A | None = None

    def prepare(self) -> None:
        """Compute the answer."""
        self.found = self._work()


PLAN = Example(lambda: plan(EXAMPLE))
SERIES = Example(lambda: plan(SERIES_EXAMPLE))
WATCH = Example(lambda: scene(Watching(WATCHED)))


def prepare() -> None:
    """Compute all examples."""
    for example in (PLAN, SERIES, WATCH):
        example.prepare()
