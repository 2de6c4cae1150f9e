"""The form of Plan, with sliders and errors at the fields."""

from __future__ import annotations

from collections.abc import Callable

from nicegui import ui

from tacit.base.errors import InputError
from tacit.core.theory import advice
from tacit.studio.fields import Fields
from tacit.studio.form import ASKS, FINDS, HIDES, PLACES, PRIVACIES, TRUSTED, WHENS, Form, number, unit_of
from tacit.studio.latest import Latest
from tacit.studio.plan_answer import PlanAnswer, TradeoffCurve
from tacit.studio.planned_once import sketch
from tacit.studio.planning import plan
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
    "slots": Scale(2, 1_000_000, whole=True, digits=2),
}
_WIDEST = 1e300  # a range wider than this gets the slider of a range of 1
_HINTS = {
    "radius": "How far from the true mean the agents may end.",
    "probability": "How often the mean must be that close.",
    "budget": f"The most that one agent may lose. {advice.scale()}",
    "slots": "35,040 is a year of quarter hours.",
    "delta": "How likely the loss may be exceeded (δ).",
}
_ALL_MEANS = f"For all means together. {advice.scale()}"
_SIZES = {"step": "a step of up to", "window": "readings in a row", "reading": ""}


class Panel(Fields):
    """A form that shows what its question uses.

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
    once : bool
        Whether the form is about one time only.
    """

    def __init__(
        self,
        form: Form,
        show: Callable[[PlanAnswer], None],
        draw: Callable[[TradeoffCurve], None],
        name: str = "",
        *,
        once: bool = True,
    ) -> None:
        self._once = once
        self._curves: Latest[Form, TradeoffCurve | None] = Latest(
            sketch, lambda curve: draw(curve) if curve is not None else None
        )
        super().__init__(form, plan, show, name)

    def _build(self) -> None:
        self._hints = _HINTS
        if not self._once:
            with self._group("How often?"):
                self._choice("when", WHENS, "How often?", "dense inline")
                self._number("slots", "number of means", slider=True)
                self._number("every", "one every").props('suffix="minutes"')
        with self._group("What do you want to know?"):
            self._choice("find", FINDS, "What do you want to know?")
        with self._group("What must stay hidden?"):
            self._choice("hides", HIDES, "What must stay hidden?")
            self._number("size", _SIZES["step"])
        with self._group("Who takes part"):
            self._choice("place", PLACES, "Who takes part", "dense inline")
            self._number("agents", "number of agents", slider=True)
            with self._group(classes=""):
                field = self._text("graph", "graph, by its name").props(f'list="graphs{self._name}"')
                field.props('hint="Like ring:50, or regular:100:6:seed=1."')
                with ui.element("datalist").props(f'id="graphs{self._name}"'):
                    for known in GRAPHS:
                        ui.element("option").props(f'value="{known}"')
                self._choices["average"] = ui.switch(
                    "aim for the true mean", value=self.form.average, on_change=self._on("average")
                ).props("dense")
        with self._group("Whom do your agents trust?"):
            self._choice("keepers", TRUSTED, "Whom do your agents trust?")
        with self._group("Their records"):
            self._select("ask", ASKS, "question")
            self._text("domain", "edges of the buckets")
            with self._group(classes="side"):
                self._number("low", "values from")
                self._number("high", "to")
                self._text("unit", "unit").props('placeholder="kW"')
        with self._group("Accuracy"):
            self._number("radius", "mean within ±", slider=True)
            self._number("probability", "with probability", slider=True).props('suffix="%"')
        with self._group("Privacy"):
            self._number("budget", "privacy loss of at most", slider=True)
            self._choice("privacy", PRIVACIES, "What the loss is about", "dense inline")
            self._number("delta", "failure probability")
        with self._group(), ui.expansion("More: rounds, mixing, …").props("dense") as more:
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
        form, unit = self.form, self.form.unit
        words, series = form.ask == "word", form.when == "series"
        domain = self._inputs["domain"]
        domain.label = "question in one word" if words else "edges of the buckets, or labels"
        domain.props["hint"] = (
            "Like weighted-mean:0:10, or group-by:north,south:mean:0:10."
            if words
            else "Public: 0, 1, 2, 5 are three buckets."
        )
        self._inputs["radius"].label = "mean within ±" if form.ask == "mean" else "answer within ±"
        self._inputs["budget"].props["hint"] = _ALL_MEANS if series else _HINTS["budget"]
        self._inputs["size"].label = _SIZES.get(form.hides, "")
        suffixes = dict.fromkeys(("low", "high", "adjacency", "tolerance"), unit)
        suffixes |= {"radius": unit_of(form), "size": unit if form.hides == "step" else ""}
        for name, suffix in suffixes.items():
            self._inputs[name].props["suffix"] = suffix
        super()._arrange()
