"""Watch: a simulated session, round by round, and what an adversary makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from nicegui import background_tasks, events, ui

from tacit.audit.beliefs import Adversary, Belief
from tacit.report import near
from tacit.rounding import shown_up
from tacit.studio import charts, charts_watch
from tacit.studio.form import Form
from tacit.studio.latest import Latest
from tacit.studio.panel import Panel
from tacit.studio.planning import PlanAnswer, TradeoffCurve
from tacit.studio.shell import Slider, card, chart, page, paragraph, redraw
from tacit.studio.watched_run import ADVERSARIES, NAMED, Scene, WatchedRun, Watching, scene
from tacit.studio.words import percent, with_unit

_PAUSE = 0.3  # seconds between two rounds
_START = Form(
    find="accuracy",
    agents="24",
    graph="geometric:40:0.3:seed=3",
    high="10",
    unit="kW",
    budget="4",
    mixing="0.3",
)
_SAID = {
    "eavesdropper": "It hears every message and all feedback.",
    "server": "It receives every message, and made the feedback.",
    "compromised": "They tell an eavesdropper all they know. Their own numbers say nothing about the value "
    "of another, so they learn no more than it.",
    "insiders": "They see only their own connections: the feedback, and their own messages.",
    "conspirators": "Everybody but this agent and one honest keeper puts all together. This is the most that "
    "anyone can learn, and what the loss is about.",
}
_MASKED = {
    "eavesdropper": "Messages are under masks, so it learns from the feedback alone.",
    "server": "Messages are under masks, so it learns from the feedback alone.",
    "compromised": "Messages are under masks. They know the feedback, and what they have sent themselves.",
    "insiders": "They know the feedback, and what they have sent themselves.",
}
"""The same where keepers add the noise."""


class WatchPage:
    """A session that plays, and a belief that follows it."""

    def __init__(self, form: Form, seed: str) -> None:
        self._scene, self._t = Scene(), 0
        self._latest: Latest[Watching, Scene] = Latest(scene, self._show)
        with ui.element("div").classes("columns"):
            with ui.element("div").classes("stack"):
                with ui.element("div").classes("card"):
                    self._adversary_form()
                with card(), ui.expansion("Setting of the session", value=False).props("dense"):
                    self._panel = Panel(form, self._planned, self._sketched)
            with ui.element("div").classes("stack"):
                with card():
                    self._controls(seed)
                    self._said = ui.label("Playing the session …").classes("hint").mark("said")
                self._pictures()
        self._timer = ui.timer(_PAUSE, self._step, active=False)
        ui.timer(0.01, self._panel.start, once=True)

    def _controls(self, seed: str) -> None:
        with ui.element("div").classes("controls"):
            self._play = (
                ui.button("Play", icon="play_arrow", on_click=self._toggle).props("unelevated").mark("play")
            )
            ui.button("Step", on_click=self._stepped).props("outline")
            ui.button("Back to the start", on_click=lambda: self._go(0)).props("flat")
            self._round = Slider(min=0, max=10, step=1, value=0).classes("grow").mark("round")
            self._round.props["aria-label"] = "round"
            self._round.on("update:model-value", self._slid, throttle=0.05)
            self._seed = ui.input("seed", value=seed, on_change=self._changed).props(
                "dense outlined stack-label hide-bottom-space inputmode=numeric"
            ).style("width: 92px").mark("seed")  # fmt: skip

    def _adversary_form(self) -> None:
        with ui.element("div").classes("form"):
            with ui.element("h2"):
                ui.label("What does an adversary learn?")
            fields = "dense outlined stack-label hide-bottom-space"
            self._who = ui.select(
                ADVERSARIES, value="eavesdropper", label="adversary", on_change=self._changed
            )
            self._who.props(fields).mark("adversary")
            self._told = ui.input("compromised agents", value="1-5", on_change=self._changed).props(fields)
            self._about = ui.input("about agent number", value="0", on_change=self._changed).props(fields)
            self._about.props("inputmode=numeric").mark("agent")
            self._told.mark("told").set_visibility(False)
            self._verdict = ui.label().mark("verdict")
            self._why = ui.label().classes("hint")

    def _pictures(self) -> None:
        with card("Agents come to agree"):
            self._paths = chart(charts.frame("round", "state"), "States of all agents, round by round")
        with ui.element("div").classes("halves"):
            with card("Belief after this round"):
                self._density = chart(charts.frame("value", "belief"), "What is believed now", "low")
            with card("Belief, round by round"):
                self._interval = chart(charts.frame("round", "value"), "Where the value is believed", "low")
        with ui.element("div").classes("halves"):
            with card("Who talks to whom"):
                self._network = chart({"series": []}, "The agents, coloured by their states")
                self._crowd = paragraph("There are too many agents to draw each of them.", "hint")
            with card("Privacy loss so far"):
                self._spent = chart(charts.frame("round", "loss so far"), "Loss after every round")

    def _sketched(self, curve: TradeoffCurve) -> None:
        """Nothing is drawn before the session was played."""

    async def _changed(self, _: object = None) -> None:
        adversary = cast(Adversary, self._who.value)
        self._told.set_visibility(adversary in NAMED)
        texts = (self._about.value or "", adversary, self._told.value or "")
        await self._latest.ask(Watching(self._panel.form, self._seed.value or "", *texts))

    def _planned(self, _: PlanAnswer) -> None:
        background_tasks.create(self._changed())

    def _show(self, made: Scene) -> None:
        another = made.session is not self._scene.session
        self._scene = made
        fields = {"seed": self._seed, "agent": self._about, "compromised": self._told, "adversary": self._who}
        for name, made_field in fields.items():
            made_field.error = made.wrong.get(name)
        self._said.classes(remove="wrong")
        if made.session is None:
            self._pause()
            self._said.classes("wrong").set_text(made.wrong.get("", ""))
            return
        self._round.props["max"] = made.session.rounds
        self._go(0 if another else self._t)

    def _toggle(self) -> None:
        if self._timer.active:
            self._pause()
            return
        if self._t >= self._rounds:
            self._go(0)
        self._timer.activate()
        self._play.set_text("Pause")
        self._play.props("icon=pause")

    def _pause(self) -> None:
        self._timer.deactivate()
        self._play.set_text("Play")
        self._play.props("icon=play_arrow")

    def _stepped(self) -> None:
        self._pause()
        self._step()

    def _slid(self, event: events.GenericEventArguments) -> None:
        self._pause()
        self._go(int(event.args))

    def _step(self) -> None:
        self._go(self._t + 1)
        if self._t >= self._rounds:
            self._pause()

    @property
    def _rounds(self) -> int:
        return self._scene.session.rounds if self._scene.session is not None else 0

    def _go(self, t: int) -> None:
        self._t = min(t, self._rounds)
        self._round.value = self._t
        if self._scene.session is not None:
            self._draw(self._scene.session, self._t)

    def _draw(self, session: WatchedRun, t: int) -> None:
        unit = session.plan.form.unit.strip()
        off = abs(float(session.average[t]) - session.target)
        self._said.set_text(
            f"Round {t} of {session.rounds}: the average is {with_unit(near(off, 3), unit)} off the target; "
            f"each agent has lost at most {shown_up(float(session.spent[t]), 4)}. Values and noise are made "
            "up from the seed: nothing here is private."
        )
        agent = self._scene.belief.agent if self._scene.belief is not None else 0
        redraw(self._paths, charts_watch.trajectories(session, t, agent))
        redraw(self._spent, charts_watch.spent(session, t))
        self._network.set_visibility(session.places is not None)
        self._crowd.set_visibility(session.places is None)
        if session.places is not None:
            redraw(self._network, charts_watch.network(session, t, agent))
        self._draw_belief(session, t, unit)

    def _draw_belief(self, session: WatchedRun, t: int, unit: str) -> None:
        found = self._scene.belief
        for picture in (self._density, self._interval):
            picture.set_visibility(found is not None)
        said = _SAID | _MASKED if session.history.mechanism.keepers else _SAID
        self._why.set_text("" if found is None else said[found.adversary])
        if found is None:
            self._verdict.set_text("")
            return
        redraw(self._density, charts_watch.density(found, session, t, self._scene.without))
        redraw(self._interval, charts_watch.interval(found, session, t))
        low, mean, high = (near(float(row[t]), 3) for row in (found.low, found.mean, found.high))
        truth = near(float(session.history.theta[0, found.agent]), 3)
        learned, most = (shown_up(float(row[t]), 3) for row in (found.learned, found.promised))
        self._verdict.set_text(
            f"After round {t} its best guess is {with_unit(mean, unit)}, and it is {percent(found.level)} "
            f"sure of {low} to {with_unit(high, unit)}. The truth is {with_unit(truth, unit)}. "
            f"Learned so far: {learned}, of at most {most}." + _without_keepers(self._scene.without, t, unit)
        )


def _without_keepers(other: Belief | None, t: int, unit: str) -> str:
    """Say what an eavesdropper would believe of the same value if agents added their own noise."""
    if other is None:
        return ""
    now = min(t, len(other.mean) - 1)
    low, high = (near(float(row[now]), 3) for row in (other.low, other.high))
    return (
        f" Without keepers an eavesdropper would be {percent(other.level)} sure of {low} to "
        f"{with_unit(high, unit)} by now, and could have learned up to "
        f"{shown_up(float(other.promised[now]), 3)}."
    )


def build(query: Mapping[str, str]) -> None:
    """Build the page."""
    known = {name: value for name, value in query.items() if name != "seed"}
    form = Form.from_query(known) if known else replace(_START)
    lead = "A simulated session, round by round: the agents, what they lose, and what an adversary learns."
    with page("Watch", lead):
        WatchPage(form, query.get("seed", "1"))
