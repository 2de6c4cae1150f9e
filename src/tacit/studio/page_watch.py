"""Watch: a simulated session, and what an adversary learns from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import cast

from nicegui import background_tasks, events, ui

from tacit.base.errors import InputError
from tacit.base.report import Row, Summary, near
from tacit.base.rounding import shown_up
from tacit.lab.audit.beliefs import Adversary, Belief
from tacit.studio import charts, charts_watch
from tacit.studio.address import Address, Query, say_instead
from tacit.studio.examples import WATCH, WATCHED
from tacit.studio.latest import Latest
from tacit.studio.panel import Panel
from tacit.studio.plan_answer import PlanAnswer
from tacit.studio.shell import Numbers, PageNotice, Slider, card, chart, page, paragraph, redraw
from tacit.studio.watched_run import (
    ADVERSARIES,
    NAMED,
    Scene,
    WatchedRun,
    Watching,
    scene,
    watching_from_query,
)
from tacit.studio.words import percent, with_unit

EXAMPLE = Watching(WATCHED)
_PARTS = 24  # of an answer
_OF_VECTORS = (
    "Records are made up, all over the domain. The pictures below show the first component of their vectors.",
)
_PAUSE = 0.3  # seconds between two rounds
_SAID = {
    "eavesdropper": "It sees every message and all feedback.",
    "server": "It receives every message and computes the feedback.",
    "compromised": "They share all they know with an eavesdropper. Their own values say nothing about the "
    "value of another agent, so together they learn no more than the eavesdropper alone.",
    "insiders": "They see only their own connections: the feedback, and their own messages.",
    "conspirators": "Everybody except this agent and one honest keeper shares all they know. Nobody can "
    "learn more. The loss is about this adversary.",
}
_MASKED = {
    "eavesdropper": "Messages are masked, so it learns from the feedback alone.",
    "server": "Messages are masked, so it learns from the feedback alone.",
    "compromised": "Messages are masked. They know the feedback, and what they have sent themselves.",
    "insiders": "They know the feedback, and what they have sent themselves.",
}
"""The same for sessions in which keepers add the noise."""


class WatchPage:
    """A session that can be played, and the adversary's belief."""

    def __init__(self, address: Address) -> None:
        self._address, self._entry = address, ""
        self._scene, self._t = Scene(), 0
        self._latest: Latest[Watching, Scene] = Latest(scene, self._show)
        watching, said = _asked(address.query)
        self._filling, self._first = False, watching.round
        self._notice = PageNotice(said)
        with ui.element("div").classes("columns"):
            with ui.element("div").classes("stack"):
                with ui.element("div").classes("card"):
                    self._adversary_form(watching)
                with card(), ui.expansion("Setting of the session", value=False).props("dense"):
                    self._panel = Panel(watching.form, self._planned, lambda _: None)
            with ui.element("div").classes("stack"):
                with card():
                    self._controls(watching.seed)
                    self._said = ui.label("Simulating the session …").classes("hint").mark("said")
                with ui.element("div").classes("stack") as self._charts:
                    self._answer = Numbers()
                    self._pictures()
        self._charts.set_visibility(False)
        self._timer = ui.timer(_PAUSE, self._step, active=False)
        address.follow(self._moved)
        if watching == EXAMPLE and WATCH.found is not None:
            self._show(WATCH.found)
        else:
            ui.timer(0.01, self._panel.start, once=True)

    def _controls(self, seed: str) -> None:
        with ui.element("div").classes("controls"):
            self._play = (
                ui.button("Play", icon="play_arrow", on_click=self._toggle).props("unelevated").mark("play")
            )
            ui.button("Step", on_click=self._stepped).props("outline")
            ui.button("Back to the start", on_click=self._restart).props("flat")
            self._round = Slider(min=0, max=10, step=1, value=0).classes("grow").mark("round")
            self._round.props["aria-label"] = "round"
            self._round.on("update:model-value", self._slid, throttle=0.05)
            self._seed = ui.input("seed", value=seed, on_change=self._on("seed")).props(
                "dense outlined stack-label hide-bottom-space inputmode=numeric"
            ).style("width: 92px").mark("seed")  # fmt: skip

    def _adversary_form(self, watching: Watching) -> None:
        with ui.element("div").classes("form"):
            with ui.element("h2"):
                ui.label("What does an adversary learn?")
            fields = "dense outlined stack-label hide-bottom-space"
            self._who = ui.select(
                ADVERSARIES, value=watching.adversary, label="adversary", on_change=self._on("adversary")
            )
            self._who.props(fields).mark("adversary")
            self._told = ui.input(
                "compromised agents", value=watching.compromised, on_change=self._on("compromised")
            ).props(fields)
            self._about = ui.input("about agent number", value=watching.agent, on_change=self._on("agent"))
            self._about.props(fields).props("inputmode=numeric").mark("agent")
            self._told.mark("told").set_visibility(watching.adversary in NAMED)
            self._verdict = ui.label().mark("verdict")
            self._other = ui.label().mark("without")
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
                self._key = _key()
                self._crowd = paragraph("There are too many agents to draw each of them.", "hint")
            with card("Privacy loss so far"):
                self._spent = chart(charts.frame("round", "loss so far"), "Loss after every round")

    @property
    def _watching(self) -> Watching:
        """The contents of the fields."""
        adversary = cast(Adversary, self._who.value)
        texts = (self._about.value or "", adversary, self._told.value or "")
        return Watching(self._panel.form, self._seed.value or "", *texts, str(self._t))

    def _on(self, name: str) -> Callable[[], Awaitable[None] | None]:
        def changed() -> Awaitable[None] | None:
            if self._filling:
                return None
            self._entry = name
            return self._ask()

        return changed

    async def _ask(self) -> None:
        self._told.set_visibility(self._who.value in NAMED)
        await self._latest.ask(self._watching)

    def _planned(self, _: PlanAnswer) -> None:
        self._entry = self._panel.changed
        background_tasks.create(self._ask())

    def _moved(self, query: Query) -> None:
        watching, said = _asked(query)
        self._notice.say(said)
        self._filling, self._entry, self._first = True, "", watching.round
        self._seed.value, self._about.value = watching.seed, watching.agent
        self._who.value, self._told.value = watching.adversary, watching.compromised
        self._filling = False
        background_tasks.create(self._panel.fill(watching.form))

    def _show(self, made: Scene) -> None:
        another = made.session is not self._scene.session
        fields = {"seed": self._seed, "agent": self._about, "compromised": self._told, "adversary": self._who}
        for name, made_field in fields.items():
            made_field.error = made.wrong.get(name)
        self._said.classes(remove="wrong")
        self._charts.classes(remove="old") if not made.wrong else self._charts.classes("old")
        if made.session is None:
            self._pause()
            old = "" if self._scene.session is None else " The charts show the last valid session."
            self._said.classes("wrong").set_text((made.wrong.get("") or "A field cannot be used.") + old)
            return
        self._scene = made
        self._charts.set_visibility(True)
        self._round.props["max"] = made.session.rounds
        if self._first:
            self._go(int(self._first))
            self._first = ""
        else:
            self._go(made.session.rounds if another else self._t)
        if self._entry and not made.wrong:
            self._notice.say("")
            self._write(self._entry)

    def _write(self, entry: str) -> None:
        self._address.write(self._watching.query(), entry)

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

    def _restart(self) -> None:
        self._pause()
        self._go(0)
        self._write("round")

    def _stepped(self) -> None:
        self._pause()
        self._step()
        self._write("round")

    def _slid(self, event: events.GenericEventArguments) -> None:
        self._pause()
        self._go(int(event.args))
        self._write("round")

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
        self._answer.show(_answered(session), _OF_VECTORS)
        agent = self._scene.belief.agent if self._scene.belief is not None else 0
        redraw(self._paths, charts_watch.trajectories(session, t, agent))
        redraw(self._spent, charts_watch.spent(session, t))
        self._network.set_visibility(session.places is not None)
        self._key.set_visibility(session.places is not None)
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
        self._other.set_text("" if found is None else _without_keepers(self._scene.without, t, unit))
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
            f"Learned so far: a loss of {learned}, of at most {most}."
        )


def _answered(session: WatchedRun) -> Summary | None:
    """Return the simulated answer beside the truth; None for a mean."""
    if session.answers is None:
        return None
    answer, exact = session.answers
    truth = {part.name: near(part.estimate) for part in exact.parts}
    rows = []
    for part in answer.parts[:_PARTS]:
        ends = "" if part.low is None or part.high is None else f"{near(part.low)} to {near(part.high)}; "
        said = f"{ends}the truth is {truth.get(part.name, 'none')}"
        rows.append(Row(part.name, near(part.estimate), said))
    if not rows:
        rows.append(Row("no answer", "", "the noise is so large that nobody may be in it"))
    return Summary("", {"The simulated answer": rows})


def _key() -> ui.element:
    """Build the legend of the graph's colours."""
    with ui.element("ul").classes("key") as made:
        for style, words in charts_watch.graph_key().items():
            with ui.element("li"):
                ui.element("span").classes("spot").style(style).props("aria-hidden=true")
                ui.label(words)
    return made


def _without_keepers(other: Belief | None, t: int, unit: str) -> str:
    """Say what an eavesdropper would believe without keepers."""
    if other is None:
        return ""
    now = min(t, len(other.mean) - 1)
    low, high = (near(float(row[now]), 3) for row in (other.low, other.high))
    return (
        "Without keepers, agents add noise of their own. For the same question an eavesdropper would then be "
        f"{percent(other.level)} sure of {low} to {with_unit(high, unit)}, and "
        f"could have learned a loss of up to {shown_up(float(other.promised[now]), 3)}."
    )


def _asked(query: Query) -> tuple[Watching, str]:
    """Return the session of an address, or the example and the reason."""
    if not query:
        return EXAMPLE, ""
    try:
        return watching_from_query(query, EXAMPLE.form), ""
    except InputError as error:
        return EXAMPLE, say_instead(error)


def build(address: Address) -> None:
    """Build the page."""
    lead = "A simulated session, round by round: the agents, their loss, and what an adversary learns."
    with page("Watch", lead):
        WatchPage(address)
        with card():
            ui.link("Watch agents that move: trucks", "/watch/motion")
