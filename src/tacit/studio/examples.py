"""What the pages show before anybody has asked anything, worked out while the studio starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from tacit.studio.form import EXAMPLE, Form
from tacit.studio.planning import plan
from tacit.studio.series_planning import SeriesForm, plan_series
from tacit.studio.watched_run import Watching, scene

A = TypeVar("A")
WATCHED = Form(
    agents="60", keepers="2", high="10", unit="kW", radius="1.6", mixing="0.5", rounds="16", tolerance="0.5",
)  # fmt: skip
"""The session that Watch shows first: slow enough to be watched, and far less private without keepers."""


class Example(Generic[A]):
    """An answer that is kept once it was worked out."""

    def __init__(self, work: Callable[[], A]) -> None:
        self._work = work
        self.found: A | None = None

    def prepare(self) -> None:
        """Work the answer out."""
        self.found = self._work()


PLAN = Example(lambda: plan(EXAMPLE))
SERIES = Example(lambda: plan_series(SeriesForm()))
WATCH = Example(lambda: scene(Watching(WATCHED)))


def prepare() -> None:
    """Work out all examples."""
    for example in (PLAN, SERIES, WATCH):
        example.prepare()
