"""Status: a running session, read from the status ports of its members, again and again."""

from __future__ import annotations

from collections.abc import Mapping

from nicegui import ui

from tacit.errors import InputError
from tacit.studio.charts import ACCENT, SECOND, THIRD, Options, frame, line
from tacit.studio.deployment import Deployment, MemberStatus, look, ports_named
from tacit.studio.latest import Latest
from tacit.studio.shell import card, chart, page, paragraph, redraw

_EVERY = 1.0  # seconds between two looks
_USUAL = "9464"
_START = (
    "tacit coordinate meters.toml --keys coordinator --listen wss://localhost:7447 "
    "--ledger coordinator.ledger --status 9464\n"
    "tacit join meters.toml --keys alice --connect wss://localhost:7447 --value-file alice.value --cap 1 "
    "--ledger alice.ledger --status 9465"
)


def feedback_chart(history: dict[str, dict[int, float]]) -> Options:
    """Draw the feedback that was seen since the page was opened, one line per member, three at most."""
    options = frame("rounds that are over", "feedback")
    for colour, (name, seen) in zip((ACCENT, SECOND, THIRD), history.items(), strict=False):
        points = [[float(t), y] for t, y in sorted(seen.items())]
        options["series"].append(line(name, points, colour) | {"symbol": "circle", "symbolSize": 6})
    options["xAxis"] |= {"minInterval": 1}
    options["yAxis"] |= {"scale": True}
    options["legend"]["data"] = [series["name"] for series in options["series"]]
    return options


class StatusPage:
    """Members at ports of this machine, in words, and the feedback they heard."""

    def __init__(self, ports: str) -> None:
        self._history: dict[str, dict[int, float]] = {}
        self._latest: Latest[tuple[int, ...], Deployment] = Latest(look, self._show)
        with ui.element("div").classes("stack"):
            with card(), ui.element("div").classes("controls"):
                self._ports = ui.input("status ports on this machine", value=ports, on_change=self._look)
                self._ports.props(
                    'dense outlined stack-label hide-bottom-space hint="Like 9464, or 9464-9470."'
                ).classes("grow").mark("ports")
            self._nobody = ui.element("section").classes("card")
            with self._nobody:
                self._absent()
            self._members = ui.element("div").classes("numbers members")
            with card("Feedback since this page was opened") as self._card:
                self._picture = chart(feedback_chart({}), "Feedback, round by round", "low")
        self._card.set_visibility(False)
        ui.timer(_EVERY, self._look)

    def _absent(self) -> None:
        ui.label("Nobody shows a status there").classes("figure").mark("nobody")
        paragraph("A member of a session shows itself when it is started with --status PORT:", "plain")
        with ui.element("div").classes("code").style("margin: 12px 0"), ui.element("pre"):
            ui.label(_START)
        self._why = ui.label().classes("hint").mark("why")

    async def _look(self) -> None:
        self._ports.error = None
        try:
            ports = ports_named(self._ports.value or "")
        except InputError as error:
            self._ports.error = str(error)
            return
        await self._latest.ask(ports)

    def _show(self, seen: Deployment) -> None:
        self._nobody.set_visibility(not seen.members)
        self._why.set_text(" ".join(seen.absent.values()))
        self._members.clear()
        with self._members:
            for one in seen.members:
                _member(one)
        for one in seen.members:
            if one.port in seen.feedback:
                over, y = seen.feedback[one.port]
                self._history.setdefault(f"{one.name} ({one.port})", {})[over] = y
        self._card.set_visibility(bool(self._history))
        redraw(self._picture, feedback_chart(self._history))


def _member(one: MemberStatus) -> None:
    with card(f"{one.name} of session {one.session}"):
        ui.label(f"Round {one.round} of {one.rounds}").classes("figure")
        ui.label(one.phase).classes("hint")
        with ui.element("div").classes("bar"):
            ui.element("div").style(f"width: {100 * one.round / max(one.rounds, 1):.0f}%")
        facts = {
            "present": one.here, "late": one.late, "quiet": one.quiet, "feedback": one.feedback,
            "privacy loss": one.loss, "nothing happened for": one.silent_for,
        }  # fmt: skip
        for name, value in facts.items():
            if value:
                with ui.element("div").classes("line"):
                    ui.label(name)
                    ui.label(value).classes("value")
        if one.share is not None:
            with ui.element("div").classes("bar"):
                ui.element("div").style(f"width: {100 * one.share:.0f}%").props('title="of the cap"')
        for alarm in one.alarms:
            ui.label(alarm).classes("wrong")


def build(query: Mapping[str, str]) -> None:
    """Build the page."""
    lead = "A session that runs on this machine: who takes part, who is late, and what it has cost so far."
    with page("Status", lead):
        StatusPage(query.get("ports", _USUAL))
