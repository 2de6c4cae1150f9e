"""The graph coloured by state: before, on the way, and in the end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure

from tacit.base.arrays import FloatArray
from tacit.base.errors import ParameterError, StateError
from tacit.base.report import counted
from tacit.core.graph import Graph
from tacit.core.history import History
from tacit.core.mechanism import Distributed
from tacit.lab.plots.sheets import Where, Width, panels
from tacit.lab.plots.style import GREY, INK, text_size

MOST_AGENTS = 1000
_SMALL = 100  # up to this many agents the better, slower layout is used
_COLOURS = "cividis"  # rises in brightness throughout, and looks the same to the colour-blind


def layout(graph: Graph) -> FloatArray:
    """Return a position for every agent, with neighbours near each other.

    The same graph always gives the same positions.
    """
    import networkx as nx

    if graph.n > MOST_AGENTS:
        raise ParameterError(
            f"a graph is drawn with at most {MOST_AGENTS} agents, got {graph.n}: choose a smaller one."
        )
    plain: nx.Graph[int] = nx.Graph()
    plain.add_nodes_from(range(graph.n))
    plain.add_edges_from(graph.edges().tolist())
    if graph.n <= _SMALL:
        places = nx.kamada_kawai_layout(plain)
    else:
        start = nx.spectral_layout(plain)
        places = nx.spring_layout(plain, pos=start, k=1.6 / np.sqrt(graph.n), iterations=100, seed=0)
    return np.array([places[i] for i in range(graph.n)])


def draw_graph(
    history: History,
    rounds: Sequence[int] | None = None,
    unit: str = "state, in units of the values",
    places: FloatArray | None = None,
    *,
    ax: Where = None,
    width: Width = None,
) -> Figure:
    """Draw the graph, with agents coloured by state, after some rounds.

    Parameters
    ----------
    history : History
        On a graph, with states that are numbers. The figure shows private values: use made-up ones.
    rounds : numbers of rounds, optional
        The rounds to draw; by default the start, the round when a quarter of the disagreement is left, and
        the end.
    places : array, shape (n, 2), optional
        Where the agents are; by default neighbours are near each other.
    ax : Axes, or one for each of `rounds`, optional
        To draw on; otherwise a new figure, of this `width`.
    """
    mechanism = history.mechanism
    if not isinstance(mechanism, Distributed):
        raise StateError("a graph is drawn for agents on a graph: around a server all would hear all.")
    if history.theta.ndim != 2:
        raise StateError("a graph is coloured by states that are numbers, not vectors.")
    shown = _chosen(history.theta) if rounds is None else sorted(set(rounds))
    if not shown or not (0 <= shown[0] and shown[-1] <= history.rounds):
        raise StateError(f"rounds must be numbers from 0 to {history.rounds}, got {list(rounds or ())}.")
    where = layout(mechanism.graph) if places is None else places
    low, high = float(history.theta.min()), float(history.theta.max())
    with panels(0.4 + 3.1 * len(shown), 3.7, len(shown), ax=ax, wanted=width) as sheet:
        for each, t in zip(sheet.axes, shown, strict=True):
            dots = _agents(each, mechanism.graph, where, history.theta[t], (low, high))
            spread = float(np.ptp(history.theta[t]))
            each.set_title(f"after {counted(t, 'round')}" if t else "before the first round")
            each.text(
                0.0, -0.02, f"farthest apart: {spread:.3g}", transform=each.transAxes, color=GREY,
                fontsize=text_size(8.5),
            )  # fmt: skip
        bar = sheet.figure.colorbar(dots, ax=sheet.axes, location="bottom", aspect=50, shrink=0.7, pad=0.04)
        bar.set_label(unit)
        bar.outline.set_visible(False)
    return sheet.figure


def draw_network(
    graph: Graph, places: FloatArray | None = None, *, ax: Where = None, width: Width = None
) -> Figure:
    """Draw the agents and who talks to whom, without states."""
    where = layout(graph) if places is None else places
    with panels(4.6, 4.2, ax=ax, wanted=width) as sheet:
        _agents(sheet.ax, graph, where, np.zeros(graph.n), (0.0, 2.0))
        sheet.ax.set_title(f"{counted(graph.n, 'agent')}, {counted(graph.n_edges, 'edge')}")
    return sheet.figure


def _chosen(theta: FloatArray) -> list[int]:
    """Choose three rounds: first, a quarter of the disagreement, last."""
    spread = np.ptp(theta, axis=1)
    return sorted({0, int(np.argmax(spread <= spread[0] / 4)), len(theta) - 1})


def _agents(
    ax: Axes, graph: Graph, where: FloatArray, state: FloatArray, span: tuple[float, float]
) -> PathCollection:
    ax.set_axis_off()
    ax.margins(0.08)
    lines = LineCollection(list(where[graph.edges()]), colors=GREY, linewidths=0.5, alpha=0.6, zorder=1)
    ax.add_collection(lines)
    size = float(np.clip(3000 / graph.n, 8, 70))
    return ax.scatter(
        where[:, 0], where[:, 1], s=size, c=state, cmap=_COLOURS, vmin=span[0], vmax=span[1],
        edgecolors=INK, linewidths=0.4, zorder=2,
    )  # fmt: skip
