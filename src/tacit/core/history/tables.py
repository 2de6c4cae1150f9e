"""The public part of a history as tables; nothing private is read here."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.base.report import Grid, Row, Summary, near
from tacit.core.history.value import History

MOST_ROWS = 40
"""A printed table of messages has at most this many rows; a longer one is for pandas."""


def overview(history: History) -> Summary:
    """Return counts for people; no message is shown."""
    rows = [
        Row("mechanism", history.mechanism.kind),
        Row("noise", history.mechanism.law.name),
        Row("runs", f"{history.runs:,}"),
        Row("agents", f"{history.mechanism.n:,}"),
        Row("rounds", f"{history.rounds:,}"),
        Row("messages", f"{int(history.said.sum()):,}", "sent openly, retries included"),
    ]
    return Summary("History", {"": rows})


def messages(history: History) -> Grid:
    """Return the columns of `message_columns` as a table for people."""
    columns = {name: values.tolist() for name, values in message_columns(history).items()}
    rows = [
        [value if isinstance(value, str) else near(value) for value in row]
        for row in zip(*columns.values(), strict=True)
    ]
    right = tuple(place for place, name in enumerate(columns) if name != "label")
    return Grid(f"Messages of {history.mechanism.n:,} agents", list(columns), rows, right=right)


def message_columns(history: History) -> dict[str, npt.NDArray[Any]]:
    """Return every public message, as columns.

    They are run, round, agent, number of updates, component if any, and message. Where the graph has names of
    agents, they are the column `label`.
    """
    whole = history.stacked
    run, slot, agent = np.nonzero(whole.said)
    update = np.broadcast_to(whole.update, whole.said.shape)[run, slot, agent]
    columns: dict[str, npt.NDArray[Any]] = {
        "run": run,
        "round": whole.rounds_of[slot],
        "agent": agent,
        "update": update,
    }
    graph = getattr(history.mechanism, "graph", None)
    if graph is not None and graph.labels is not None:
        columns["label"] = np.array([str(graph.label(i)) for i in range(graph.n)])[agent]
    if whole.components is not None:
        columns = {name: np.repeat(values, whole.components) for name, values in columns.items()}
        columns["component"] = np.tile(np.arange(whole.components), len(run))
    return columns | {"message": whole.x[run, slot, agent].reshape(-1)}
