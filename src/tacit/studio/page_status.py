"""Status: what runs, read every second from status ports."""

from __future__ import annotations

from collections.abc import Awaitable

from nicegui import background_tasks, ui

from tacit.base.errors import InputError
from tacit.base.report import Grid
from tacit.studio.address import Address, Query, say_instead
from tacit.studio.charts import ACCENT, SECOND, THIRD, Options, frame, legend, line
from tacit.studio.deployment import Deployment, StatusCard, look, places_named, ports_named
from tacit.studio.latest import Latest
from tacit.studio.shell import PageNotice, card, chart, page, paragraph, redraw, table

_EVERY = 1.0  # seconds between two requests
_USUAL = "9464"
_START = (
    "tacit hub serve hub --status 9464\n"
    "tacit agent alice.toml --status 9465\n"
    "tacit coordinate meters.toml --keys coordinator --listen wss://localhost:7447 "
    "--ledger coordinator.ledger --status 9466"
)


def feedback_chart(history: dict[str, dict[int, float]]) -> Options:
    """Draw the feedback seen since the page was opened.

    There is one line per member, for at most three members.
    """
    options = frame("rounds that are over", "feedback")
    for colour, (name, seen) in zip((ACCENT, SECOND, THIRD), history.items(), strict=False):
        points = [[float(t), y] for t, y in sorted(seen.items())]
        options["series"].append(line(name, points, colour) | {"symbol": "circle", "symbolSize": 6})
    options["xAxis"] |= {"minInterval": 1}
    options["yAxis"] |= {"scale": True}
    legend(options, [series["name"] for series in options["series"]])
    return options


class StatusPage:
    """Cards of hubs and members, and a chart of the feedback.

    `anywhere` allows addresses of other machines. They must be typed and are never taken from the page's own
    address: a link must not make this machine send requests to another one.
    """

    def __init__(self, address: Address, anywhere: bool) -> None:
        self._address, self._anywhere, self._filling = address, anywhere, False
        self._history: dict[str, dict[int, float]] = {}
        self._latest: Latest[tuple[str, ...], Deployment] = Latest(look, self._show)
        places, said = _asked(address.query)
        self._notice = PageNotice(said)
        with ui.element("div").classes("stack"):
            with card(), ui.element("div").classes("controls"):
                hint = "Like 9464, or 9464-9470" + (", or https://10.0.0.7:9464." if anywhere else ".")
                self._places = ui.input("status ports", value=places, on_change=self._changed)
                self._places.props(f'dense outlined stack-label hide-bottom-space hint="{hint}"')
                self._places.classes("grow").mark("ports")
            self._nobody = ui.element("section").classes("card")
            with self._nobody:
                self._absent()
            self._cards = ui.element("div").classes("numbers members")
            with card("Feedback since this page was opened") as self._card:
                self._picture = chart(feedback_chart({}), "Feedback, round by round", "low")
        self._nobody.set_visibility(False)
        self._card.set_visibility(False)
        address.follow(self._moved)
        ui.timer(_EVERY, self._look)

    def _absent(self) -> None:
        ui.label("No status found at these ports").classes("figure").mark("nobody")
        paragraph("Start a hub, agent, keeper or coordinator with --status PORT to see it here:", "plain")
        with ui.element("div").classes("code").style("margin: 12px 0"), ui.element("pre"):
            ui.label(_START)
        self._why = ui.label().classes("hint").mark("why")

    def _moved(self, query: Query) -> None:
        self._filling = True
        self._places.value, said = _asked(query)
        self._filling = False
        self._notice.say(said)
        background_tasks.create(self._look())

    def _changed(self) -> Awaitable[None] | None:
        if self._filling:
            return None
        try:
            ports = ports_named(self._places.value or "")
        except InputError:
            ports = ()
        if ports:
            self._notice.say("")
            self._address.write({"ports": (self._places.value or "").strip()}, "ports")
        return self._look()

    async def _look(self) -> None:
        self._places.error = None
        try:
            places = places_named(self._places.value or "", anywhere=self._anywhere)
        except InputError as error:
            self._places.error = str(error)
            self._cards.clear()  # the old cards belong to other places
            return
        await self._latest.ask(places)

    def _show(self, seen: Deployment) -> None:
        self._nobody.set_visibility(not seen.cards)
        self._why.set_text(" ".join(seen.absent.values()))
        self._cards.clear()
        with self._cards:
            for one in seen.cards:
                _card(one)
        for name, (over, y) in seen.feedback.items():
            self._history.setdefault(name, {})[over] = y
        self._card.set_visibility(bool(self._history))
        redraw(self._picture, feedback_chart(self._history))


def _card(one: StatusCard) -> None:
    with card(one.title, "wide" if one.sessions is not None else ""):
        ui.label(one.headline).classes("figure")
        ui.label(one.phase).classes("hint")
        if one.done is not None:
            _bar(one.done, "rounds that are over")
        for row in one.facts:
            with ui.element("div").classes("line"):
                ui.label(row.name)
                ui.label(row.shown).classes("value")
        if one.spent is not None:
            _bar(one.spent, "part of the cap that is spent")
        for alarm in one.alarms:
            ui.label(alarm).classes("wrong")
        if one.sessions is not None:
            _sessions(one.sessions)


def _bar(share: float, described: str) -> None:
    percent = f"{100 * min(max(share, 0.0), 1.0):.0f}"
    props = (
        f'role=progressbar aria-valuemin=0 aria-valuemax=100 aria-valuenow={percent} aria-label="{described}"'
    )
    with ui.element("div").classes("bar").props(props):
        ui.element("div").style(f"width: {percent}%")


def _sessions(grid: Grid) -> None:
    with ui.element("h3"):
        ui.label(grid.title)
    with ui.element("div").classes("scroll").props("tabindex=0 role=region aria-label='Last sessions'"):
        table(grid.columns, grid.rows)


def _asked(query: Query) -> tuple[str, str]:
    """Return the ports of an address, or the usual port and the reason."""
    try:
        for name in query:
            if name != "ports":
                raise InputError(f"this page has no field {name[:60]!r}.")
        ports = query.get("ports", _USUAL)
        ports_named(ports)
    except InputError as error:
        return _USUAL, say_instead(error)
    return ports, ""


def build(address: Address, anywhere: bool = True) -> None:
    """Build the page."""
    lead = "Running hubs with their agents and keepers, running sessions, late members, and the loss so far."
    with page("Status", lead):
        StatusPage(address, anywhere)
