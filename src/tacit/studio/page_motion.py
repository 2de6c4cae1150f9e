"""Motion: trucks that agree on a speed, and how their noise moves them."""

from __future__ import annotations

from collections.abc import Awaitable

import numpy as np
from nicegui import background_tasks, ui

from tacit.base.errors import InputError
from tacit.base.report import near
from tacit.base.rounding import shown_up
from tacit.studio.address import Address, Query, say_instead
from tacit.studio.charts import INK, MUTED, Options, frame, legend, line
from tacit.studio.latest import Latest
from tacit.studio.moving_run import LAWS, RATE, ROUNDS, Drive, DrivenTrucks, drive_from_query, driven
from tacit.studio.shell import Numbers, PageNotice, card, chart, page, paragraph, redraw

_FIELDS = "dense outlined stack-label hide-bottom-space"
_MOST_LINES = 40


def paths(found: DrivenTrucks, which: str) -> Options:
    """Draw the speeds or accelerations of the trucks."""
    unit = "speed, m/s" if which == "speeds" else "acceleration, m/s²"
    options = frame("seconds", unit)
    drawn = getattr(found, which)
    if drawn is None:
        return options
    seconds = np.arange(len(drawn)) / RATE
    step = max(1, drawn.shape[1] // _MOST_LINES)
    for i in range(0, drawn.shape[1], step):
        points = [[float(t), float(f"{y:.5g}")] for t, y in zip(seconds, drawn[:, i], strict=True)]
        options["series"].append(line(f"truck {i}", points, MUTED, width=0.7, opacity=0.7))
    if which == "speeds":
        level = [[0.0, found.target], [float(seconds[-1]), found.target]]
        options["series"].append(line("mean speed at the start", level, INK, width=1.5))
    legend(options, ["mean speed at the start"] if which == "speeds" else [])
    options["xAxis"] |= {"min": 0, "max": ROUNDS / RATE}
    options["yAxis"] |= {"scale": True}
    return options


class MotionPage:
    """A few fields, two charts, and what is promised."""

    def __init__(self, address: Address) -> None:
        self._address, self._entry, self._filling = address, "", False
        self._latest: Latest[Drive, DrivenTrucks] = Latest(driven, self._show)
        asked, said = _asked(address.query)
        self._notice = PageNotice(said)
        with ui.element("div").classes("columns"):
            with ui.element("div").classes("card"), ui.element("div").classes("form"):
                with ui.element("h2"):
                    ui.label("Who drives")
                self._fields = {
                    "trucks": ui.input("number of trucks", value=asked.trucks),
                    "law": ui.select(LAWS, value=asked.law, label="noise is drawn"),
                    "loss": ui.input("privacy loss", value=asked.loss),
                    "seed": ui.input("seed", value=asked.seed),
                }
                for name, made in self._fields.items():
                    made.props(_FIELDS).mark(name)
                    made.on_value_change(lambda _, name=name: self._changed(name))
                paragraph("The loss is for speeds that are 1 m/s apart.", "hint")
            with ui.element("div").classes("stack"):
                with card():
                    self._said = ui.label("Simulating the drive …").classes("hint").mark("said")
                with card("Speeds come together"):
                    self._speeds = chart(frame("seconds", "speed, m/s"), "Speeds of the trucks over time")
                with card("What passengers feel"):
                    self._jolts = chart(
                        frame("seconds", "acceleration, m/s²"), "Accelerations of the trucks over time", "low"
                    )
                self._numbers = Numbers()
        address.follow(self._moved)
        ui.timer(0.01, self._ask, once=True)

    def _drive(self) -> Drive:
        return Drive(**{name: str(made.value or "") for name, made in self._fields.items()})

    def _changed(self, name: str) -> Awaitable[None] | None:
        if self._filling:
            return None
        self._entry = name
        return self._ask()

    async def _ask(self) -> None:
        await self._latest.ask(self._drive())

    def _moved(self, query: Query) -> None:
        asked, said = _asked(query)
        self._notice.say(said)
        self._filling, self._entry = True, ""
        for name, text in asked.query().items():
            self._fields[name].value = text
        self._filling = False
        background_tasks.create(self._ask())

    def _show(self, found: DrivenTrucks) -> None:
        wrong = found.wrong or {}
        for name, made in self._fields.items():
            if isinstance(made, ui.input):
                made.error = wrong.get(name)
        if wrong or found.speeds is None or found.promise is None or found.accelerations is None:
            return
        worst = float(np.abs(found.accelerations).max())
        spread = float(np.abs(found.speeds[-1] - found.target).max())
        self._said.set_text(
            f"After {ROUNDS // RATE} s the truck furthest off is {near(spread, 3)} m/s from the mean speed "
            f"at the start. The largest acceleration was {near(worst, 3)} m/s². A truck has lost at most "
            f"{shown_up(found.promise.loss, 4)}. Speeds and noise are made up from the seed."
        )
        redraw(self._speeds, paths(found, "speeds"))
        redraw(self._jolts, paths(found, "accelerations"))
        self._numbers.show(found.promise.summary())
        if self._entry:
            self._notice.say("")
            self._address.write(found.asked.query(), self._entry)


def _asked(query: Query) -> tuple[Drive, str]:
    """Return the drive of an address, or the example and the reason."""
    try:
        return drive_from_query(query), ""
    except InputError as error:
        return Drive(), say_instead(error)


def build(address: Address) -> None:
    """Build the page."""
    lead = "Trucks agree on a speed. Each follows the announced mean through its engine, and says its speed."
    with page("Watch trucks", lead):
        MotionPage(address)
