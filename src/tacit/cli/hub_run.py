"""`tacit hub run`: a session of a hub, now or by schedule."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from tacit.cli import options, output, running
from tacit.cli.field_options import open_option, open_seconds, session_options, take_settings
from tacit.cli.series_design import delta_option, hides_option, refuse_series_options, series_option
from tacit.live.fleet.orders import USUAL_WORDS

if TYPE_CHECKING:
    from tacit.core.theory.plan import Plan
    from tacit.live.fleet.hub_report import SessionReport
    from tacit.live.fleet.orders import SessionOrder
    from tacit.live.fleet.store import HubStore

EPILOG = """\b
Examples:
  tacit hub run hub --loss 0.1 --range 0:50
  tacit hub run hub --loss 0.1 --range 0:50 --keepers north,south
  tacit hub run hub --loss 1 --ask histogram:0,1,2,5,10 --keepers north,south
  tacit hub run hub --loss 0.01 --range 0:50 --every 60s --name load
  tacit hub run hub --loss 0.1 --range 0:50 --keepers north,south --open 24h --quorum 500 --detach
  tacit hub run hub --series 35040 --every 15m --hides step:2 --loss 1 --range 0:10
    --keepers north,south --name year
\b
Exit codes: 0 finished, scheduled, or a series that has begun; 2 the input cannot be used; 5 the session
was not begun or ended early.
"""
_ASKED = (
    "question",
    "epsilon",
    "loss",
    "radius",
    "failure_probability",
    "mixing",
    "law",
    "low",
    "high",
    "components",
    "adjacency",
    "rounds",
    "tolerance",
)
_LOOK = 0.1


@click.command("run", epilog=EPILOG)
@click.argument("home", metavar="HUB", type=options.HUB)
@options.asked(
    *_ASKED,
    adjacency={
        "help": "Two values of one agent that differ by at most this must be hard to tell apart (δ).  "
        "[default: the whole range]"
    },
    rounds={"help": "Number of rounds (T).  [default: until agents agree]"},
)
@click.option(
    "--name", help="Its name; sessions of a schedule are NAME-1, NAME-2, …  [default: from the time]"
)
@click.option(
    "--every",
    metavar="TIME",
    help="Run a session every 60s, 5m, 2h or 1d, until --times or `tacit hub cancel`. For a series: the time "
    "from one slot to the next.",
)
@series_option
@hides_option
@delta_option
@click.option(
    "--begins",
    metavar="TIME|now",
    help="When slot 0 of a series begins: 2030-01-31T12:00:00Z, +10m from now, or now.  [default: one to "
    "two intervals from now, at a multiple of --every]",
)
@click.option("--times", type=options.Whole(), help="Number of sessions of a schedule.  [default: no limit]")
@click.option("--agents", default="*", show_default=True, help="Pattern of the names that take part.")
@click.option("--keepers", metavar="NAMES", help="Members that hold masks and add the noise, like a,b.")
@click.option(
    "--least",
    type=options.Whole(),
    default=2,
    show_default=True,
    help="Minimum number of agents to start with.",
)
@click.option(
    "--wait", type=options.NUMBER, default=60.0, show_default=True, help="Seconds to wait for enough members."
)
@session_options("hub", **USUAL_WORDS)
@open_option
@click.option(
    "--results",
    metavar="TIME",
    help="With --open: how long after it closes agents can fetch the result.  [default: as long as --open]",
)
@click.option("--detach", is_flag=True, help="Do not wait for the result.")
@options.anyway_option
@options.json_option
def command(
    *,
    home: Path,
    name: str | None,
    every: str | None,
    series: int | None,
    hides: str | None,
    delta: float,
    begins: str | None,
    times: int | None,
    agents: str,
    keepers: str | None,
    least: int,
    wait: float,
    open_for: str | None,
    results: str | None,
    detach: bool,
    anyway: bool,
    as_json: bool,
    **asked: Any,
) -> None:
    """Run a session with all connected agents, now or by schedule.

    The hub designs a session for the given promise and offers it to the agents; each owner's policy
    decides whether to join. Without --every the command waits for the mean and prints it. An agent that
    refused is left out of the next sessions of a schedule, for longer each time. A session whose mean
    would say nothing is refused, unless you give --anyway.

    Noise is drawn once and one round is enough, unless you give --mixing or --law.

    With --open 24h the session stays open for a day, for all agents that are enrolled: they come, send one
    message, leave with a receipt, and fetch the result later. Their policies must allow sessions as long
    (`longest`). Keepers keep their secrets for as long, and one that is lost loses the session.

    With --series it is one session with a mean in every slot, for the agents that are connected when it
    is made; --loss and --delta are for all means together. The command prints the promise, and ends when
    the series has begun.
    """
    import msgspec

    from tacit.base.errors import InputError
    from tacit.cli import hub_series
    from tacit.core.protocol.roster import require_name
    from tacit.live.fleet.hub_directory import is_served
    from tacit.live.fleet.invitation import require_pattern
    from tacit.live.fleet.orders import SessionOrder, require_useful_order
    from tacit.live.fleet.policy import seconds
    from tacit.live.fleet.store import HubStore

    question, settings = options.read_question(asked), take_settings("hub", asked)
    period = None if every is None else seconds(every, "--every")
    if period is not None and not period >= 0.1:
        raise InputError(f"--every must be at least 100ms, got {every}.")
    if times is not None and period is None:
        raise click.UsageError("--times goes with --every.")
    made_up = f"run-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{time.time_ns() % 1000:03d}"
    title = made_up if name is None else name
    require_name(title, "the name")
    require_pattern(agents)
    if not wait >= 0:
        raise InputError(f"--wait must be at least 0 seconds, got {wait:g}.")
    kept = _kept(keepers)
    least = max(least, settings["quorum"] or 0)
    rules = SessionOrder({}, agents, kept, least, wait, settings, anyway=anyway)
    rules = msgspec.structs.replace(rules, **_window(open_for, results, settings["quorum"], series))
    rules.fields(least)  # refuses what no session can have
    if series is None:
        refuse_series_options("hides", "begins", "delta")
        order = msgspec.structs.replace(rules, question=_asked_fields(question))
        _require_possible(question, least, len(kept))
    else:
        fields, made = hub_series.series_order(
            question, slots=series, hides=hides, every=period, begins=begins, delta=delta, times=times,
            keepers=kept,
        )  # fmt: skip
        order, period = msgspec.structs.replace(rules, question=fields, series=made), None
    store = HubStore(home)
    if period is None and not detach and not is_served(home):
        raise InputError(f"no hub serves {home}: start it (`tacit hub serve {home}`), or use --detach.")
    if not anyway and (count := _expected(store, order, at_once=period is None and not detach)):
        require_useful_order(order, count)
    store.add_task(title, msgspec.to_builtins(order), period, times)
    if period is not None or detach:
        _say_asked(title, period, as_json)
    elif series is not None:
        hub_series.tell_begun(store, title, as_json)
    else:
        _tell_result(_awaited(store, title), as_json)


def _expected(store: HubStore, order: SessionOrder, *, at_once: bool) -> int:
    """Return how many agents will take part; 0 if the hub does not know.

    The hub looks again at those who are there when a session begins.
    """
    if order.open is not None:
        return order.least  # no more are sure to come
    names = [row["name"] for row in store.members() if row["role"] == "agent" and order.wants(row["name"])]
    if at_once:
        connected = {row["name"] for row in store.members() if row["connected"]}
        names = [name for name in names if name in connected]
    return max(order.least, len(names)) if names else 0


def _kept(keepers: str | None) -> tuple[str, ...]:
    from tacit.base.errors import InputError
    from tacit.core.protocol.roster import require_name

    kept = () if keepers is None else tuple(one.strip() for one in keepers.split(","))
    for one in kept:
        require_name(one, "a keeper's name")
    if len(set(kept)) < len(kept):
        raise InputError(f"--keepers must be different members, got {keepers}.")
    return kept


def _window(
    open_for: str | None, results: str | None, quorum: int | None, series: int | None
) -> dict[str, Any]:
    """Return what an order has of a session that stays open."""
    from tacit.live.fleet.policy import seconds

    if open_for is None:
        if results is not None:
            raise click.UsageError("--results goes with --open.")
        return {}
    if series is not None:
        raise click.UsageError("--open is not for a series: its slots follow the clock.")
    served = None if results is None else seconds(results, "--results")
    return {"open": open_seconds(open_for, quorum), "results": served}


def _asked_fields(question: Plan) -> dict[str, Any]:
    """Return the given fields; refuse those that fix who takes part."""
    from tacit.base.errors import InputError
    from tacit.core.question import short_form

    fields = {word: getattr(question, word) for word in _ASKED}
    fields = {word: value for word, value in fields.items() if value is not None}
    if question.question is None:
        question.span  # noqa: B018 - refuses a mean without its range
    else:
        fields["question"] = short_form(question.asked)
    if not isinstance(fields.get("mixing", 0.0), float):
        raise InputError("--mixing must be one number for all agents: a hub cannot know who will take part.")
    if not any(word in fields for word in ("loss", "epsilon", "radius")):
        raise click.UsageError("Give --loss or --epsilon, or --radius.")
    return fields


def _require_possible(question: Plan, agents: int, keepers: int) -> None:
    """Refuse parameters that no design could have, before the hub is asked."""
    from tacit.base.errors import Infeasible
    from tacit.core.theory.answers import answer

    try:
        answer(replace(question, agents=agents, keepers=keepers))
    except Infeasible:
        if question.radius is None:
            raise  # with a radius, more agents than the least may make it possible


def _say_asked(title: str, period: float | None, as_json: bool) -> None:
    if as_json:
        output.print_json({"name": title, "every": period})
        return
    when = "as soon as the hub serves" if period is None else f"every {period:g} s while the hub serves"
    ends = f"tacit hub cancel HUB {title}"
    click.echo(f"{title} runs {when}. `tacit hub show HUB` has its means, `{ends}` ends it.")


def _awaited(store: HubStore, title: str) -> SessionReport:
    """Wait until a task's one session is over, or will never begin."""
    from tacit.live.fleet.hub_report import SessionReport
    from tacit.live.fleet.store import as_facts

    while True:
        task = store.task(title)
        assert task is not None
        found = store.sessions(title)
        if found and found[0]["state"] != "running":
            facts = as_facts(found)[0]
            return SessionReport(title, facts["state"], facts["result"] or {})
        if task["state"] in ("failed", "stopped") and not found:
            return SessionReport(title, task["state"], {"why": task["note"] or "cancelled"})
        time.sleep(_LOOK)


def _tell_result(found: SessionReport, as_json: bool) -> None:
    if as_json or found.ran:
        output.print_result(found, as_json)
    if found.state != "finished":
        leave_unfinished(f"{found.name} {found.state}", found.why)


def leave_unfinished(what: str, why: str) -> NoReturn:
    """Say why there is no result; exit with 2 if nothing was tried."""
    from tacit.core.theory.advice import ANYWAY

    code = running.UNUSABLE if why.endswith(ANYWAY) else running.UNFINISHED
    running.leave(f"{what}: {why}", code)
