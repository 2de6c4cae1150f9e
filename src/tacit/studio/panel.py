"""The form of a design question, with sliders and errors at the fields."""

from __future__ import annotations

from collections.abc import Callable

from nicegui import ui

from tacit.base.errors import InputError
from tacit.core.theory import advice
from tacit.studio.fields import Fields
from tacit.studio.form import ASKS, FINDS, PLACES, PRIVACIES, TRUSTED, Form, number
from tacit.studio.latest import Latest
from tacit.studio.planning import PlanAnswer, TradeoffCurve, plan, sketch, unit_of
from tacit.studio.scales import Scale

GRAPHS = (
    "karate", "ring:50", "grid:8x8", "regular:100:6:seed=1", "smallworld:100:6:0.1:seed=1",
    "geometric:100:0.2:seed=1", "barabasi:100:3:seed=1", "complete:20", "star:20",
)  # fmt: skip
SCALES = {
    "agents": Scale(2, 1_000_000, whole=True, digits=2),
    "probability": Scale(50, 99.9, log=False),
    "budget": Scale(0.01, 20),
    "rounds": Scale(1, 201, log=False, whole=True),
    "mixing": Scale(0.05, 0.99, log=False),
}
_WIDEST = 1e300  # a range wider than this gets the slider of a range of 1
_HINTS = {
    "radius": "How far from the true mean the agents may end.",
    "probability": "How often the mean must be that close.",
    "budget": f"The most that one agent may lose. {advice.scale()}",
}


class Panel(Fields[Form, PlanAnswer]):
    """A form for one mean.

    Parameters
    ----------
    form : Form
        The first contents of the fields.
    show : callable
        Called with every answer.
    draw : callable
        Called with the curve at once, before the answer is ready.
    name : str
        Tells two forms on one page apart.
    """

    def __init__(
        self,
        form: Form,
        show: Callable[[PlanAnswer], None],
        draw: Callable[[TradeoffCurve], None],
        name: str = "",
    ) -> None:
        self._curves: Latest[Form, TradeoffCurve | None] = Latest(
            sketch, lambda curve: draw(curve) if curve is not None else None
        )
        super().__init__(form, plan, show, name)

    def _build(self) -> None:
        self._hints = _HINTS
        with ui.element("div").classes("group"):
            self._heading("What do you want to know?")
            self._choice("find", FINDS, "What do you want to know?")
        with ui.element("div").classes("group"):
            self._heading("Who takes part")
            self._place = self._choice("place", PLACES, "Who takes part", "dense inline")
            self._agents = self._number("agents", "number of agents", slider=True)
            with ui.element("div") as self._graph:
                field = self._text("graph", "graph, by its name").props(f'list="graphs{self._name}"')
                field.props('hint="Like ring:50, or regular:100:6:seed=1."')
                with ui.element("datalist").props(f'id="graphs{self._name}"'):
                    for known in GRAPHS:
                        ui.element("option").props(f'value="{known}"')
                self._choices["average"] = ui.switch(
                    "aim for the true mean", value=self.form.average, on_change=self._on("average")
                ).props("dense")
        with ui.element("div").classes("group") as self._trust:
            self._heading("Whom do your agents trust?")
            self._choice("keepers", TRUSTED, "Whom do your agents trust?")
        with ui.element("div").classes("group"):
            self._heading("What do you ask of their records?")
            self._select("ask", ASKS, "question")
            self._domain = self._text("domain", "edges of the buckets")
            with ui.element("div").classes("side") as self._values:
                self._number("low", "values from")
                self._number("high", "to")
                self._text("unit", "unit").props('placeholder="kW"')
        with ui.element("div").classes("group"):
            self._heading("Accuracy")
            self._radius = self._number("radius", "mean within ±", slider=True)
            self._number("probability", "with probability", slider=True).props('suffix="%"')
        with ui.element("div").classes("group") as self._budget:
            self._heading("Privacy")
            self._number("budget", "privacy loss of at most", slider=True)
            self._choice("privacy", PRIVACIES, "What the loss is about", "dense inline")
        with (
            ui.element("div").classes("group"),
            ui.expansion("More: rounds, mixing, …").props("dense") as more,
        ):
            self._more()
        more.set_value(
            self.form.components != "1"
            or any(getattr(self.form, name) for name in ("rounds", "mixing", "adjacency", "tolerance"))
        )

    def _more(self) -> None:
        with ui.element("div").classes("form").style("padding-top: 8px"):
            self._number("rounds", "rounds", slider=True).props(
                'placeholder="endless" hint="Empty: the promise covers an endless run."'
            )
            self._number("mixing", "mixing σ", slider=True).props(
                'placeholder="the best" hint="How far an agent moves in one round. Empty: the most accurate."'
            )
            self._number("adjacency", "hide differences up to").props(
                'placeholder="the whole range" hint="Adjacency δ: smaller protects less."'
            )
            self._number("components", "numbers per value").props(
                'hint="Components. Each has noise of its own. The accuracy asked for is that of any one."'
            )
            self._number("tolerance", "agents agree within").props(
                'placeholder="a thousandth of the range" hint="When they count as agreed."'
            )

    def _scale(self, name: str) -> Scale:
        if name != "radius":
            return SCALES[name]
        try:  # the slider of the radius is relative to the range of the values
            span = number(self.form.high) - number(self.form.low)
        except InputError:
            span = 1.0
        span = span if 0 < span < _WIDEST else 1.0
        return Scale(span / 10_000, span)

    async def _sketch(self, form: Form) -> None:
        await self._curves.ask(form)

    def _arrange(self) -> None:
        used = self.form.used()
        words = self.form.ask == "word"
        self._domain.label = "question in one word" if words else "edges of the buckets, or labels"
        self._domain.props["hint"] = (
            "Like weighted-mean:0:10, or group-by:north,south:mean:0:10."
            if words
            else "Public: 0, 1, 2, 5 are three buckets."
        )
        self._inputs["radius"].label = "mean within ±" if self.form.ask == "mean" else "answer within ±"
        for name in ("adjacency", "components"):
            self._inputs[name].set_visibility(name in used)
        for name, fields in {
            "domain": (self._domain,), "low": (self._values,),
            "place": (self._place,), "graph": (self._graph,), "keepers": (self._trust,),
            "budget": (self._budget,), "agents": (self._agents, self._sliders["agents"]),
            "radius": (self._radius, self._sliders["radius"]),
        }.items():  # fmt: skip
            for field in fields:
                field.set_visibility(name in used)
        for name in ("low", "high", "radius", "adjacency", "tolerance"):
            self._inputs[name].props["suffix"] = unit_of(self.form) if name == "radius" else self.form.unit
        self._place_sliders()
