"""`tacit hub run --series` and `tacit hub show --means`: series of a hub."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tacit.cli import output, running
from tacit.cli.series_design import begin_time, require_only
from tacit.report import near, up

if TYPE_CHECKING:
    import sqlite3

    from tacit.runtime.fleet.orders import SeriesOrder
    from tacit.runtime.fleet.store import HubStore
    from tacit.theory.question import Question

_LOOK, _REPLIES = 0.1, 5.0  # seconds between two looks; seconds that members have to answer


def series_order(
    question: Question,
    *,
    slots: int,
    hides: str | None,
    every: float | None,
    begins: str | None,
    delta: float,
    times: int | None,
    keepers: tuple[str, ...],
) -> tuple[dict[str, Any], SeriesOrder]:
    """Return what a series promises and how it runs; refuse what cannot be one, before the hub is asked."""
    from tacit.protocol.session import LAST_EXPIRY
    from tacit.runtime.fleet.orders import SeriesOrder
    from tacit.theory.series import Hides

    if hides is None or every is None:
        raise click.UsageError("--series needs --hides (like step:2) and --every (like 15m).")
    if not keepers:
        raise click.UsageError("--series needs --keepers: at least one, and two are better.")
    if times is not None:
        raise click.UsageError("--times is not for a series: --series says how many slots there are.")
    require_only(question)
    Hides.parse(hides)
    at_once = begins == "now"
    start = None if at_once else begin_time(begins)
    if start is not None and start <= time.time():
        raise click.UsageError(f"--begins must be in the future, or now, got {begins}.")
    if (start or time.time()) + slots * every >= LAST_EXPIRY:
        raise click.UsageError("--series and --every make a series that ends after the year 9999.")
    low, high = question.span
    loss = 1.0 if question.loss is None else question.loss
    order = SeriesOrder(slots, every, hides, delta, start, at_once)
    return {"loss": loss, "low": low, "high": high}, order


def tell_begun(store: HubStore, title: str, as_json: bool) -> None:
    """Wait until a series has begun and its members have answered, and print what is promised."""
    from tacit.protocol.session import Session
    from tacit.runtime.fleet.store import as_facts
    from tacit.runtime.session.series import explain_series

    row = _begun(store, title)
    facts = as_facts([row])[0]
    result = facts["result"] or {}
    told = explain_series(Session.decode(row["data"]))
    if as_json:
        output.print_json({"name": title, "state": facts["state"], "promise": told.as_dict(), **result})
    else:
        output.print_summary(told.summary(f"{title}: "))
        joined, refused = result.get("joined", []), result.get("refused", {})
        rows: list[output.Line] = [
            ("begins", _when(told.series.begins), "the first slot"),
            ("ends", _when(told.series.ends), "the last slot"),
            (
                "joined",
                str(len(joined)),
                f"of {told.session.n} agents and {len(told.session.keepers)} keepers",
            ),
            *(("refused", name, why) for name, why in refused.items()),
        ]
        notes = [f"`tacit hub show --means {title}` has its means, `tacit hub cancel` ends it."]
        output.print_report(f"{title} is {facts['state']}", {"": rows}, notes)
    if facts["state"] != "running":
        running.leave(f"{title} {facts['state']}: too many refused, or it was cancelled.", running.UNFINISHED)


def _begun(store: HubStore, title: str) -> sqlite3.Row:
    """Return the session once all members have answered, or have had the time to."""
    patience = None
    while True:
        found, task = store.sessions(title), store.task(title)
        if found:
            patience = patience or time.monotonic() + _REPLIES
            state = _facts(found[0])
            answered = len(state.get("joined", ())) + len(state.get("refused", ()))
            members = state.get("agents", 0) + state.get("keepers", 0)
            if found[0]["state"] != "running" or 0 < members <= answered or time.monotonic() >= patience:
                return found[0]
        elif task is None or task["state"] in ("failed", "stopped"):
            why = "cancelled" if task is None or not task["note"] else task["note"]
            running.leave(f"{title} was not begun: {why}", running.UNFINISHED)
        time.sleep(_LOOK)


def _facts(row: sqlite3.Row) -> dict[str, Any]:
    """Return how a series stands, as the hub has written it."""
    from tacit.runtime.fleet.store import as_facts

    facts: dict[str, Any] = as_facts([row])[0]["result"] or {}
    return facts


def print_means(home: Path, store: HubStore, name: str, as_json: bool) -> None:
    """Print the mean of every slot of a series that is over."""
    from tacit.errors import InputError
    from tacit.runtime.fleet.store import as_facts

    found = [row for row in store.sessions() if row["name"] == name]
    facts = as_facts(found)[0] if found else {}
    if not (facts.get("result") or {}).get("series"):
        raise InputError(f"this hub has no series called {name}: see `tacit hub show {home}`.")
    result = facts["result"]
    about, rows = result["series"], store.means(found[0]["id"])
    begins = [about["begins"] + row["slot"] * about["interval"] for row in rows]
    if as_json:
        means = [{**dict(row), "begins": when} for row, when in zip(rows, begins, strict=True)]
        output.print_json({"name": name, "state": facts["state"], **result, "means": means})
        return
    table = [
        [
            str(row["slot"]),
            _when(when),
            "lost" if row["mean"] is None else near(row["mean"]),
            f"{row['used']} of {row['members']}",
        ]
        for row, when in zip(rows, begins, strict=True)
    ]
    output.print_table(["slot", "begins", "mean", "messages"], table)


def series_line(facts: dict[str, Any]) -> list[str]:
    """Return one row of `tacit hub show` for a series."""
    result = facts["result"]
    about, mean = result["series"], result["mean"]
    return [
        facts["name"],
        facts["state"],
        f"{result['over']:,} of {about['slots']:,}",
        str(result["lost"]),
        "" if mean is None else near(mean),
        up(about["deviation"]),
        f"{result['used'][0]} of {result['members']}",
        _when(about["ends"]),
    ]


def _when(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M:%S}"
