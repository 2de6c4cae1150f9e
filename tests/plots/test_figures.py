"""Drawings show the numbers they were given, the same bytes every time, and touch nothing else."""

import subprocess
import sys
from itertools import combinations

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from tacit import ClientServer, Distributed, Fading, Graph
from tacit.errors import FileError, StateError
from tacit.plots import curves, style
from tacit.plots.fan import Fan, fan
from tacit.plots.radius import draw_radius
from tacit.plots.smoothness import draw_smoothness
from tacit.plots.tradeoff import draw_tradeoff
from tacit.plots.trajectories import draw_trajectories

Q = np.array([0.3, 0.5, 0.9])
TRADEOFF = curves.Tradeoff(5, 0.8, 10.0, 0.5, Q, 1 / Q, 1 + Q, 3 + Q)
RADIUS = curves.RadiusCurves(
    sigma=0.8,
    failure_probability=0.05,
    agents=(10, 100),
    epsilon=np.array([0.1, 1.0]),
    radius=np.array([[2.0, 0.2], [1.0, 0.1]]),
    one_shot=np.array([[1.0, 0.1], [0.5, 0.05]]),
    radius_chebyshev=np.array([[9.0, 0.9], [4.0, 0.4]]),
)
SMOOTHNESS = curves.Smoothness((5,), 0.05, np.array([0.1, 0.5]), np.array([5.0, 2.0]), np.array([[4.9, 1.9]]))


def session(mechanism, values, rounds=3):
    noise = np.random.default_rng(1).laplace(size=(rounds, *np.shape(values)))
    return mechanism.execute(values, noise)


EXECUTION = session(ClientServer(Fading(0.5, 1.0, 0.8), agents=3), [1.0, 2.0, 6.0])
FAN = Fan((0.5, 0.05), np.array([[0.0, 1.0, 1.5, 1.6], [0.0, 2.0, 3.0, 3.1]]))

FIGURES = {
    "tradeoff": lambda: draw_tradeoff(TRADEOFF),
    "radius": lambda: draw_radius(RADIUS),
    "smoothness": lambda: draw_smoothness(SMOOTHNESS),
    "trajectories": lambda: draw_trajectories(EXECUTION, FAN, "value (°C)"),
}


def lines(axes):
    return [line.get_xydata() for line in axes.get_lines()]


def has_line(axes, x, y):
    return any(
        found.shape == (len(x), 2) and np.allclose(found, np.column_stack([x, y])) for found in lines(axes)
    )


@pytest.mark.parametrize("name", FIGURES)
def test_every_axis_says_what_it_is(name):
    figure = FIGURES[name]()
    assert isinstance(figure, Figure)
    bottom = figure.axes[-1]
    assert bottom.get_xlabel()
    for axes in figure.axes:
        assert axes.get_ylabel()
        assert axes.get_title(loc="left")


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_the_same_numbers_are_the_same_bytes(name, suffix, tmp_path):
    for place in ("a", "b"):
        style.save(FIGURES[name](), tmp_path / f"{place}.{suffix}")
    first = (tmp_path / f"a.{suffix}").read_bytes()
    assert first == (tmp_path / f"b.{suffix}").read_bytes()
    assert len(first) > 5000
    assert mpl.__version__.encode() not in first


@pytest.mark.parametrize("name", FIGURES)
def test_the_users_settings_neither_show_nor_change(name, tmp_path):
    style.save(FIGURES[name](), tmp_path / "a.svg")
    with mpl.rc_context({"font.size": 30, "lines.linewidth": 9, "svg.fonttype": "none", "axes.grid": True}):
        before = dict(mpl.rcParams)
        style.save(FIGURES[name](), tmp_path / "b.svg")
        assert dict(mpl.rcParams) == before
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_the_tradeoff_shows_both_radii():
    above, below = FIGURES["tradeoff"]().axes
    assert has_line(above, Q, TRADEOFF.epsilon)
    assert has_line(below, Q, TRADEOFF.radius)
    assert has_line(below, Q, TRADEOFF.radius_chebyshev)


def test_curves_in_one_picture_differ_without_colour():
    below = FIGURES["tradeoff"]().axes[1]
    kinds = [line.get_linestyle() for line in below.get_lines() if len(line.get_xdata()) == len(Q)]
    assert len(kinds) == len(set(map(str, kinds))) == 2
    assert len({str(dash) for dash in style.DASHES}) == len(style.DASHES) >= len(style.CYCLE)


def test_colours_differ_in_brightness_or_hue_for_the_colour_blind():
    # Protanopes and deuteranopes see little red against green: compare what is left of it.
    def seen(colour):
        r, g, b = to_rgb(colour)
        return np.array([0.4 * r + 0.6 * g, b])

    for one, other in combinations(style.CYCLE[:3], 2):
        assert np.abs(seen(one) - seen(other)).max() > 0.1


def test_the_radius_is_drawn_for_every_number_of_agents():
    axes = FIGURES["radius"]().axes[0]
    for row in (*RADIUS.radius, *RADIUS.one_shot):
        assert has_line(axes, RADIUS.epsilon, row)
    told = {text.get_text() for text in axes.texts}
    assert {"10 agents", "100 agents"} <= told
    assert axes.get_xscale() == axes.get_yscale() == "log"


def test_smoothness_names_its_values():
    axes = FIGURES["smoothness"]().axes[0]
    assert has_line(axes, SMOOTHNESS.sigma, SMOOTHNESS.radius[0])
    assert {"5.00 at σ = 0.1", "2.00 at σ = 0.5"} <= {text.get_text() for text in axes.texts}


def test_trajectories_show_every_agent_the_average_and_the_fan():
    axes = FIGURES["trajectories"]().axes[0]
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


def test_numbers_need_no_matplotlib_and_drawing_no_pyplot():
    script = """
import sys
from tacit.plots import curves, fan
curves.tradeoff(q=[0.5])
assert "matplotlib" not in sys.modules
from tacit.plots.tradeoff import draw_tradeoff
draw_tradeoff(curves.tradeoff(q=[0.4, 0.5]))
assert "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], timeout=60, check=True)
