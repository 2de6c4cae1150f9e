"""Drawings show the numbers they were given, the same bytes every time, and touch nothing else."""

import os
import subprocess
import sys
from functools import cache
from io import BytesIO
from itertools import combinations, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.textpath import text_to_path

from tacit import ClientServer, Distributed, Fading, Graph, analyze, design
from tacit.base.errors import FileError, ParameterError, StateError
from tacit.lab.audit import AuditFinding, AuditReport, belief
from tacit.lab.audit.report import LossCurve
from tacit.lab.comparison import compare
from tacit.lab.plots import curves, runs, show, style
from tacit.lab.plots.audit import draw_audit
from tacit.lab.plots.belief import draw_belief
from tacit.lab.plots.bounds import draw_bounds, draw_tail
from tacit.lab.plots.chebyshev import draw_chebyshev
from tacit.lab.plots.compare import draw_compare
from tacit.lab.plots.convergence import draw_convergence
from tacit.lab.plots.fans import Fan, fan
from tacit.lab.plots.graph import draw_graph, layout
from tacit.lab.plots.loss import draw_loss
from tacit.lab.plots.radius import draw_radius
from tacit.lab.plots.series import draw_series
from tacit.lab.plots.smoothness import draw_smoothness
from tacit.lab.plots.tradeoff import draw_tradeoff
from tacit.lab.plots.trajectories import draw_trajectories
from tacit.lab.simulation import sweep

Q = np.array([0.3, 0.5, 0.9])
TRADEOFF = curves.Tradeoff(5, 0.8, 10.0, 0.5, Q, 1 / Q, 1 + Q, 3 + Q)
RADIUS = curves.RadiusCurves(
    sigma=0.8,
    failure_probability=0.05,
    agents=(10, 100),
    epsilon=np.array([0.1, 1.0]),
    radius=np.array([[2.0, 0.2], [1.0, 0.1]]),
    one_shot=np.array([[1.0, 0.1], [0.5, 0.05]]),
    chebyshev_radius=np.array([[9.0, 0.9], [4.0, 0.4]]),
)
SMOOTHNESS = curves.Smoothness((5,), 0.05, np.array([0.1, 0.5]), np.array([5.0, 2.0]), np.array([[4.9, 1.9]]))


def session(mechanism, values, rounds=3):
    noise = np.random.default_rng(1).laplace(size=(rounds, *np.shape(values)))
    return mechanism.execute(values, noise)


EXECUTION = session(ClientServer(Fading(0.5, 1.0, 0.8), agents=3), [1.0, 2.0, 6.0])
FAN = Fan((0.5, 0.05), np.array([[0.0, 1.0, 1.5, 1.6], [0.0, 2.0, 3.0, 3.1]]))

BOUNDS = curves.RadiusBounds(
    0.8,
    10.0,
    0.6,
    (5, 50),
    np.array([0.01, 0.5]),
    np.array([[3.0, 1.0], [2.0, 0.5]]),
    np.array([[9.0, 4.0], [6.0, 2.0]]),
)
CONVERGENCE = [
    runs.Convergence("ring:4", 0.9, np.array([4.0, 3.0, 2.7]), np.array([4.0, 3.1, 2.6]), 10),
    runs.Convergence("path:3", 0.5, np.array([4.0, 2.0, 1.0]), np.array([4.0, 2.1, 0.9]), 10),
]
LOSS = runs.LossCurves(
    0.5, 3, 100, 1e-6, np.array([2.0, 4.0]), np.array([1.0, 2.0]),
    {"as declared": np.array([0.5, 1.5]), "redraw": np.array([0.9, 2.5])},
)  # fmt: skip
BELIEF = belief(EXECUTION, 1, prior=(0, 8), points=9)
PATH = Distributed(Fading(0.5, 1.0, 0.8), Graph.from_edges([(0, 1), (1, 2)]))
ON_PATH = session(PATH, [0.0, 0.0, 7.0])

TAIL = curves.TailCurves(
    5, 0.3, 10, np.array([0.1, 1e-9]),
    {"constant": np.array([7.0, 3.0]), "fading": np.array([6.0, 3.1]), "one_shot": np.array([2.0, 1.2])},
)  # fmt: skip
SERIES = curves.SeriesCurves(
    9, 1, "step:2", 1.0, 1e-6, (1, 96), {"tree": np.array([1.0, 3.0]), "independent": np.array([1.0, 9.0])}
)


@cache
def comparison():
    return compare(
        "ring:4", range(4), epsilon=1.0, runs=5, rounds=9, methods=["plain", "server", "one-shot", "keepers"]
    )


REPORT = AuditReport(
    subject="a name", declared="3 agents", agent=0, distance=1.0, adjacency=1.0, rounds=2, transcripts=1000,
    failure_probability=1e-6, promised=0.12, measured=0.1,
    findings=(AuditFinding("scale", "pass", "fine"), AuditFinding("reuse", "alarm", "twice")),
    curve=LossCurve((1, 2), (0.1, 0.12), (0.05, 0.1)),
)  # fmt: skip

FIGURES = {
    "tradeoff": lambda **how: draw_tradeoff(TRADEOFF, **how),
    "radius": lambda **how: draw_radius(RADIUS, **how),
    "smoothness": lambda **how: draw_smoothness(SMOOTHNESS, **how),
    "trajectories": lambda **how: draw_trajectories(EXECUTION, FAN, "value (°C)", **how),
    "chebyshev": lambda **how: draw_chebyshev(BOUNDS, **how),
    "convergence": lambda **how: draw_convergence(CONVERGENCE, **how),
    "loss": lambda **how: draw_loss(LOSS, **how),
    "belief": lambda **how: draw_belief(BELIEF, 2.0, "temperature (°C)", **how),
    "graph": lambda **how: draw_graph(ON_PATH, **how),
    "bounds": lambda **how: draw_bounds(curves.closeness((0.1, 0.25, 0.5, 0.8)), **how),
    "tail": lambda **how: draw_tail(TAIL, **how),
    "series": lambda **how: draw_series(SERIES, **how),
    "compare": lambda **how: draw_compare(comparison(), **how),
    "audit": lambda **how: draw_audit(REPORT, **how),
}


@cache
def usual(name):
    """A figure that is only looked at: drawn once."""
    return FIGURES[name]()


def lines(axes):
    return [line.get_xydata() for line in axes.get_lines()]


def has_line(axes, x, y):
    return any(
        found.shape == (len(x), 2) and np.allclose(found, np.column_stack([x, y])) for found in lines(axes)
    )


@pytest.mark.parametrize("name", FIGURES)
def test_every_axis_says_what_it_is(name):
    figure = usual(name)
    assert isinstance(figure, Figure)
    bottom = figure.axes[-1]
    assert bottom.get_xlabel() or name == "audit"  # its axis has words
    for axes in figure.axes[: -1 if name == "graph" else None]:  # its last is the scale of colours
        assert axes.get_title(loc="left")
    if name in ("compare", "audit"):  # their rows have names
        assert all(tick.get_text() for tick in figure.axes[-1].get_yticklabels())
    elif name != "graph":
        assert figure.axes[0].get_ylabel()
        assert all(
            axes.get_ylabel() or axes.get_shared_y_axes().joined(axes, figure.axes[0]) for axes in figure.axes
        )


@pytest.mark.parametrize(("name", "suffix"), [("trajectories", "png"), ("radius", "svg")])
def test_the_same_numbers_are_the_same_bytes(name, suffix, tmp_path):
    for place in ("a", "b"):
        style.save(FIGURES[name](), tmp_path / f"{place}.{suffix}")
    first = (tmp_path / f"a.{suffix}").read_bytes()
    assert first == (tmp_path / f"b.{suffix}").read_bytes()
    assert len(first) > 5000
    assert mpl.__version__.encode() not in first


@pytest.mark.parametrize("name", FIGURES)
def test_users_can_change_what_a_figure_looks_like(name):
    """Their settings are used, and left as they were."""
    with mpl.rc_context({"font.size": 14, "text.color": "#123456", "figure.figsize": (7.5, 6.5)}):
        before = dict(mpl.rcParams)
        changed = FIGURES[name]()
        assert dict(mpl.rcParams) == before
    assert tuple(changed.get_size_inches()) == (7.5, 6.5)
    sizes = [max(text.get_fontsize() for text in figure.findobj(Text)) for figure in (usual(name), changed)]
    assert sizes[1] > sizes[0]
    assert mpl.rcParams["axes.spines.top"]  # the house style is not left behind


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_drawn_on_the_users_axes(name):
    panels = len([ax for ax in usual(name).axes if ax.get_label() != "<colorbar>"])
    mine = Figure(figsize=(4 * panels, 3))
    axes = list(np.atleast_1d(mine.subplots(1, panels)))
    size, before = tuple(mine.get_size_inches()), dict(mpl.rcParams)
    drawn = FIGURES[name](ax=axes[0] if panels == 1 else axes)
    assert drawn is mine
    assert dict(mpl.rcParams) == before
    assert tuple(mine.get_size_inches()) == size
    assert mine.get_suptitle() == ""  # what is not on the axes is the user's
    assert all(ax.has_data() or ax.texts for ax in axes)
    assert axes[0].spines["top"].get_visible() or not axes[0].axison  # in the user's style
    for wrong in (axes[0] if panels > 1 else axes * 2, "ax", [3] * panels):
        with pytest.raises(ParameterError, match="Axes"):
            FIGURES[name](ax=wrong)
    with pytest.raises(ParameterError, match="not both"):
        FIGURES[name](ax=axes if panels > 1 else axes[0], width="one-column")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.long] * (n != "graph")) for n in FIGURES]
)
def test_the_layout_of_a_saved_figure_is_settled(name):
    figure = FIGURES[name](width="one-column")
    style.save(figure, BytesIO(), ".svg")
    figure.draw_without_rendering()
    before = np.array([ax.get_position().bounds for ax in figure.axes])
    figure.draw_without_rendering()
    assert np.array([ax.get_position().bounds for ax in figure.axes]) == pytest.approx(before, abs=0.01)


@pytest.mark.parametrize("width", [1.0, 200.0, "wide", True, float("nan")])
def test_a_width_must_make_sense(width):
    with pytest.raises(ParameterError, match="width must be"):
        draw_radius(RADIUS, width=width)


def test_the_users_colours_are_used_for_curves():
    with mpl.rc_context({"axes.prop_cycle": mpl.cycler(color=["#010203", "#040506"])}):
        lines = draw_radius(RADIUS).axes[0].get_lines()
    assert {line.get_color() for line in lines} == {"#010203", "#040506"}


def test_the_tradeoff_shows_both_radii():
    above, below = usual("tradeoff").axes
    assert has_line(above, Q, TRADEOFF.epsilon)
    assert has_line(below, Q, TRADEOFF.radius)
    assert has_line(below, Q, TRADEOFF.chebyshev_radius)


def test_curves_in_one_picture_differ_without_colour():
    below = usual("tradeoff").axes[1]
    kinds = [line.get_linestyle() for line in below.get_lines() if len(line.get_xdata()) == len(Q)]
    assert len(kinds) == len(set(map(str, kinds))) == 2
    assert len({str(dash) for dash in style.DASHES}) == len(style.DASHES) >= len(style.CYCLE)


# What deuteranopes and protanopes see of linear red, green and blue (Machado, Oliveira, Fernandes 2009)
BLIND = {
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]
    ],
    "protanopia": [
        [0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]
    ],
}  # fmt: skip


def linear(colour):
    c = np.array(to_rgb(colour))
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(light):
    """CIE L*a*b* of linear red, green and blue; a distance of 10 is plain to see."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(np.clip(to_xyz @ light, 1e-9, None) / (to_xyz @ np.ones(3)))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("blind", BLIND)
def test_colours_differ_for_the_colour_blind(blind):
    seen = [lab(np.clip(np.array(BLIND[blind]) @ linear(colour), 0, 1)) for colour in style.CYCLE]
    for one, other in combinations(seen[:4], 2):
        assert np.linalg.norm(one - other) > 10


def test_every_colour_is_dark_enough_on_white():
    """A contrast of 3 to 1 or more, as accessible graphics need."""
    for colour in style.CYCLE:
        assert 1.05 / (np.array([0.2126, 0.7152, 0.0722]) @ linear(colour) + 0.05) >= 3


def test_states_are_told_by_brightness_alone():
    dots = usual("graph").axes[0].collections[1]
    light = [
        np.array([0.2126, 0.7152, 0.0722]) @ linear(dots.cmap(level)[:3]) for level in np.linspace(0, 1, 33)
    ]
    assert np.diff(light).min() > 0


def test_markers_and_dashes_are_as_many_as_colours():
    assert len(set(style.MARKERS)) == len(style.MARKERS) >= len(style.CYCLE)


def test_the_radius_is_drawn_for_every_number_of_agents():
    axes = usual("radius").axes[0]
    for row in (*RADIUS.radius, *RADIUS.one_shot):
        assert has_line(axes, RADIUS.epsilon, row)
    told = {text.get_text() for text in axes.texts}
    assert {"10 agents", "100 agents"} <= told
    assert axes.get_xscale() == axes.get_yscale() == "log"


def test_smoothness_names_its_values():
    axes = usual("smoothness").axes[0]
    assert has_line(axes, SMOOTHNESS.sigma, SMOOTHNESS.radius[0])
    assert {"5.00 at σ = 0.1", "2.00 at σ = 0.5"} <= {text.get_text() for text in axes.texts}


def test_trajectories_show_every_agent_the_average_and_the_fan():
    axes = usual("trajectories").axes[0]
    t = np.arange(4)
    for agent in range(3):
        assert has_line(axes, t, EXECUTION.theta[:, agent])
    assert has_line(axes, t, EXECUTION.theta.mean(axis=1))
    for row in FAN.radius:
        assert has_line(axes, t, 3.0 + row)
        assert has_line(axes, t, 3.0 - row)
    assert axes.get_ylabel() == "value (°C)"
    assert "true average" in {text.get_text() for text in axes.texts}


def test_on_a_graph_the_target_is_named_for_what_it_is():
    path = Distributed(Fading(0.5, 1.0, 0.8), Graph.from_edges([(0, 1), (1, 2)]))
    axes = draw_trajectories(session(path, [0.0, 0.0, 7.0]), fan(path, 3)).axes[0]
    assert "weighted average" in {text.get_text() for text in axes.texts}
    # γ = 2, 3, 2 on a path of three
    assert has_line(axes, np.arange(4), 2.0 + fan(path, 3).radius[0])


def test_many_agents_are_thinned_out():
    mechanism = ClientServer(Fading(0.5, 1.0, 0.8), agents=1000)
    figure = draw_trajectories(session(mechanism, np.arange(1000.0)), fan(mechanism, 3))
    assert len(figure.axes[0].get_lines()) < 250


def test_vectors_have_no_trajectories():
    execution = session(ClientServer(Fading(0.5, 1.0, 0.8), agents=2), [[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(StateError, match="not vectors"):
        draw_trajectories(execution, FAN)


@pytest.mark.parametrize("name", ["a.jpg", "a", "a.svg.txt"])
def test_other_formats_are_refused(name, tmp_path):
    with pytest.raises(FileError, match="written as"):
        style.save(FIGURES["radius"](), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_numbers_need_no_matplotlib_and_drawing_no_pyplot_nor_a_word_on_a_new_machine(tmp_path):
    script = """
import sys, threading
ordinary = threading.Timer
threading.Timer = lambda _, warn: ordinary(0, warn)  # every machine is slow: matplotlib warns at once
from tacit.lab.plots import curves, fans
curves.tradeoff(q=[0.5])
assert "matplotlib" not in sys.modules
from tacit.lab.plots.tradeoff import draw_tradeoff
draw_tradeoff(curves.tradeoff(q=[0.4, 0.5]))
assert "matplotlib.pyplot" not in sys.modules
"""
    new = {**os.environ, "MPLCONFIGDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], check=True, env=new, capture_output=True, text=True)
    assert done.stderr == ""
    assert list(tmp_path.iterdir())  # the list of fonts


def test_both_radii_are_drawn_for_every_number_of_agents():
    axes = usual("chebyshev").axes[0]
    for row in (*BOUNDS.radius, *BOUNDS.chebyshev_radius):
        assert has_line(axes, BOUNDS.failure_probability, row)
    told = [text.get_text() for text in axes.texts]
    assert sorted(words for words in told if "×" in words) == ["3.0 ×", "4.0 ×"]  # of the lowest curve
    assert "exact, 5 agents" in told
    assert not any(tick >= 1 for tick in axes.get_xticks())


def test_convergence_shows_what_is_exact_measured_and_in_the_long_run():
    axes = usual("convergence").axes[0]
    t = np.arange(3)
    for curve in CONVERGENCE:
        assert has_line(axes, t, curve.exact)
        assert has_line(axes, t, curve.measured)
        assert has_line(axes, t, curve.exact[-1] * curve.rate ** (t - 2.0))
    assert "ring:4\nrate 0.9000" in {text.get_text() for text in axes.texts}
    with pytest.raises(ParameterError, match="at least one"):
        draw_convergence([])


def test_a_loss_above_the_promise_is_drawn_as_such():
    axes = usual("loss").axes[0]
    assert has_line(axes, [0, 4], [0, 2])
    filled = [
        line for line in axes.get_lines() if line.get_markerfacecolor() == style.RED and len(line.get_xdata())
    ]
    points = [line.get_xydata().tolist() for line in filled if line.get_marker() != "None"]
    assert points == [[[4.0, 2.5]]]


def test_a_belief_is_drawn_with_its_interval_the_truth_and_the_promise():
    left, right = usual("belief").axes
    for row in (BELIEF.mean, BELIEF.low, BELIEF.high):
        assert has_line(left, BELIEF.rounds, row)
    for row in (BELIEF.density[-1], BELIEF.prior, BELIEF.most[-1], BELIEF.least[-1]):
        assert has_line(right, row, BELIEF.values)
    for axes in (left, right):
        assert has_line(axes, [0, 1], [2.0, 2.0])
    assert left.get_ylabel() == "start of agent 1: temperature (°C)"
    unknown = draw_belief(BELIEF)
    assert "truth" not in {text.get_text() for axes in unknown.axes for text in axes.texts}


def test_the_graph_is_coloured_by_state():
    *panels, scale = draw_graph(ON_PATH, [0, 3]).axes
    assert [panel.get_title(loc="left") for panel in panels] == ["before the first round", "after 3 rounds"]
    for panel, t in zip(panels, (0, 3), strict=True):
        lines, dots = panel.collections
        assert np.asarray(dots.get_array()) == pytest.approx(ON_PATH.theta[t])
        assert dots.get_clim() == (ON_PATH.theta.min(), ON_PATH.theta.max())
        assert len(lines.get_segments()) == 2
        assert f"farthest apart: {np.ptp(ON_PATH.theta[t]):.3g}" in {text.get_text() for text in panel.texts}
    assert scale.get_xlabel() == "state, in units of the values"


def test_by_default_the_graph_is_drawn_when_a_quarter_is_left():
    slow = Distributed(Fading(0.5, 1e-9, 0.8), Graph.from_name("ring:8"))
    execution = session(slow, np.arange(8.0) * 1e6, rounds=40)
    spread = np.ptp(execution.theta, axis=1)
    when = int(np.flatnonzero(spread <= spread[0] / 4)[0])
    titles = [axes.get_title(loc="left") for axes in draw_graph(execution).axes]
    assert titles[:3] == ["before the first round", f"after {when} rounds", "after 40 rounds"]


def test_neighbours_are_drawn_near_each_other():
    for name in ("ring:12", "ring:120"):
        graph = Graph.from_name(name)
        places = layout(graph)
        near = np.linalg.norm(places - np.roll(places, 1, axis=0), axis=1)
        far = np.linalg.norm(places - np.roll(places, graph.n // 2, axis=0), axis=1)
        assert near.mean() < far.mean() / 2
        assert np.array_equal(places, layout(graph))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: draw_graph(EXECUTION), StateError, "around a server"),
        (lambda: draw_graph(session(PATH, np.ones((3, 2)))), StateError, "not vectors"),
        (lambda: draw_graph(ON_PATH, [4]), StateError, "0 to 3"),
        (lambda: draw_graph(ON_PATH, []), StateError, "0 to 3"),
        (lambda: layout(Graph.from_name("ring:1001")), ParameterError, "at most 1000 agents, got 1001"),
    ],
)
def test_what_cannot_be_drawn_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize(
    ("values", "room"), [([3.0, 1.0, 1.1], 0.5), ([1.0, 1.0, 1.0, 1.0], 1.0), ([0.0, 5.0], 1.0), ([2.0], 1.0)]
)
def test_names_are_moved_apart_and_no_farther_than_needed(values, room):
    moved = style.spread_labels(values, room)
    assert np.argsort(moved, kind="stable").tolist() == np.argsort(values, kind="stable").tolist()
    assert np.diff(np.sort(moved)).min(initial=np.inf) >= room - 1e-12
    assert np.mean(moved) == pytest.approx(np.mean(values))
    if np.diff(np.sort(values)).min(initial=np.inf) >= room:
        assert moved == values


def words_of(figure):
    """Return every text that is seen, with its box; ticks beyond the ends of an axis are not seen."""
    FigureCanvasAgg(figure).draw()
    unseen = set()
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        slack = 1e-9 * (high - low)
        for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
            if not axis.axes.axison or not low - slack <= tick.get_loc() <= high + slack:
                unseen |= {tick.label1, tick.label2}
    found = [text for text in figure.findobj(Text) if text not in unseen and text.get_text().strip()]
    return [(text.get_text(), text.get_window_extent()) for text in found if text.get_visible()]


def check_words(figure):
    """Check that no word is cut off or on another."""
    boxes, page = words_of(figure), figure.bbox
    for words, box in boxes:
        assert page.x0 - 1 <= box.x0, words
        assert box.x1 <= page.x1 + 1, words
        assert page.y0 - 1 <= box.y0, words
        assert box.y1 <= page.y1 + 1, words
    for (one, first), (other, second) in combinations(boxes, 2):
        wide = min(first.x1, second.x1) - max(first.x0, second.x0)
        high = min(first.y1, second.y1) - max(first.y0, second.y0)
        assert wide < 2 or high < 2, (one, other)


@pytest.mark.parametrize("width", [pytest.param(None, marks=pytest.mark.long), "one-column"])
@pytest.mark.parametrize("name", FIGURES)
def test_no_word_is_cut_off_or_on_another(name, width):
    figure = FIGURES[name](width=width)
    assert width is None or figure.get_figwidth() == 3.5
    with style.styled():
        check_words(figure)


ON_GRAPH = analyze(Distributed(Fading(0.8, 1.0, 0.7), Graph.from_name("star:6")), rounds=6, spread=2.0)
FULL = {
    "tradeoff": curves.tradeoff,
    "radius": curves.radius_curves,
    "smoothness": lambda: curves.smoothness((5, 500)),
    "closeness": curves.closeness,
    "chebyshev": lambda: curves.bounds((5, 50, 500)),
    "tail": curves.tail_curves,
    "series": curves.series_curves,
    "compare": lambda: compare("ring:12", range(12), epsilon=1.0, runs=5, rounds=30),
    "sweep": lambda: made_sweep(mixing=[0.2, 0.5, 0.8], epsilon=[1.0]),
    "sweep of two": lambda: made_sweep(mixing=[0.2, 0.8], epsilon=[0.1, 1.0]),
    "design": lambda: design(agents=50, epsilon=1.0, mixing=0.8),
    "design on a graph": lambda: design(graph="star:6", epsilon=1.0, mixing=0.8, rounds=8, tolerance=9.0),
    "promise": lambda: ON_GRAPH,
}


def made_sweep(**grid):
    with TemporaryDirectory() as folder:
        asked = {"rounds": 5, "runs": 20, "method": "outcome", "path": Path(folder) / "a.jsonl"}
        return sweep({"agents": [10, 100, 1000], **grid}, **asked)


FEW = {"tradeoff", "compare", "sweep of two", "design on a graph"}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.long] * (n not in FEW)) for n in FULL])
def test_a_figure_of_real_numbers_fits_a_column(name):
    """With as many curves, rows and ticks as the defaults have."""
    figure = show(FULL[name](), width="one-column")
    assert figure.get_figwidth() == 3.5
    with style.styled():
        check_words(figure)


@pytest.mark.parametrize("name", ["tradeoff", "closeness", "smoothness", "radius"])
def test_no_word_is_on_a_curve(name):
    """Names beside the axes or in free places, at one-column width."""
    figure = show(FULL[name](), width="one-column")
    with style.styled():
        boxes = words_of(figure)
    for axes in figure.axes:
        for line in axes.get_lines():
            if len(line.get_xdata()) < 3:
                continue  # a rule, not a curve
            points = axes.transData.transform(np.column_stack([line.get_xdata(), line.get_ydata()]))
            along = np.concatenate([np.linspace(one, two, 20) for one, two in pairwise(points)])
            for words, box in boxes:
                inside = (along[:, 0] > box.x0 + 1) & (along[:, 0] < box.x1 - 1)
                inside &= (along[:, 1] > box.y0 + 1) & (along[:, 1] < box.y1 - 1)
                assert not inside.any(), words


def test_a_promise_about_agents_is_drawn_for_agents():
    """Not for their average, whose radius is smaller."""
    axes = show(ON_GRAPH).axes[0]
    drawn = axes.get_lines()[0].get_ydata()
    assert drawn[-1] == ON_GRAPH.radius > ON_GRAPH.average_radius
    assert drawn[0] >= 0.5 * ON_GRAPH.spread  # before the first round nobody knows the others' values
    assert "agent" in axes.get_title(loc="left")
    endless = show(analyze(ON_GRAPH.mechanism)).axes[0]
    assert "average" in endless.get_title(loc="left")


def test_long_names_have_as_much_room_in_the_layout_as_in_the_file():
    """Hinted at screen resolution, small text is narrower than it is drawn: it would be cut off."""
    name = "how far a run ends from the target, 30 rounds around a server"
    figure = style.canvas(6.0, 2.0)
    ax = figure.add_subplot()
    ax.set_yticks([0.5], [name], fontsize=7.5)
    font = ax.get_yticklabels()[0].get_fontproperties()
    needed, _, _ = text_to_path.get_text_width_height_descent(name, font, False)
    with style._settled(figure):
        assert needed < 72 * 6.0 * ax.get_position().x0
