"""`tacit hub run --series`: series of a hub."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from tacit.cli import hub_run, output, running
from tacit.cli.series_design import asked_often, begin_time, require_only

if TYPE_CHECKING:
    from tacit.core.theory.plan import Plan
    from tacit.live.fleet.database import StoreRow
    from tacit.live.fleet.orders import SeriesOrder
    from tacit.live.fleet.store import HubStore

_LOOK, _REPLIES = 0.1, 5.0  # seconds between polls of the store; seconds for members to answer


def series_order(
    question: Plan,
    *,
    slots: int,
    hides: str | None,
    every: float | None,
    begins: str | None,
    delta: float,
    times: int | None,
    keepers: tuple[str, ...],
) -> tuple[dict[str, Any], SeriesOrder]:
    """Return the promise and the timing of a series; refuse impossible ones."""
    from tacit.core.protocol.session import LAST_EXPIRY
    from tacit.core.question import short_form
    from tacit.core.series import Hides
    from tacit.live.fleet.orders import SeriesOrder

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
    asked = asked_often(question)
    if "question" in asked:
        asked["question"] = short_form(asked["question"])  # the hub's store has it as text
    return asked, SeriesOrder(slots, every, hides, delta, start, at_once)


def tell_begun(store: HubStore, title: str, as_json: bool) -> None:
    """Wait until a series has begun, and print its promise and members."""
    from tacit.core.protocol.session import Session
    from tacit.live.fleet.hub_report import SeriesReport
    from tacit.live.fleet.orders import can_begin
    from tacit.live.sessions.series import explain_series

    row = _begun(store, title)
    session, facts = Session.decode(row["data"]), _facts(row)
    # The hub ends a series that too many refuse, and may not have stored its end yet.
    ending = row["state"] == "running" and not can_begin(session, facts.get("refused", {}))
    promise = explain_series(session)
    found = SeriesReport(title, "stopped" if ending else row["state"], promise, facts)
    if not as_json:
        output.print_summary(promise.summary(f"{title}: "))
    output.print_result(found, as_json)
    if found.state != "running":
        running.leave(f"{title} {found.state}: too many refused, or it was cancelled.", running.UNFINISHED)


def _begun(store: HubStore, title: str) -> StoreRow:
    """Return the session once all members answered, or time is up."""
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
            hub_run.leave_unfinished(f"{title} was not begun", why)
        time.sleep(_LOOK)


def _facts(row: StoreRow) -> dict[str, Any]:
    """Return the progress of a series from the hub's store."""
    from tacit.live.fleet.store import as_facts

    facts: dict[str, Any] = as_facts([row])[0]["result"] or {}
    return facts
