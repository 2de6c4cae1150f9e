"""`tacit hub`: a permanent coordinator that runs many sessions."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from tacit.base.report import counted
from tacit.cli import options, output, running
from tacit.cli.field_options import session_options, take_settings
from tacit.cli.notice_log import NoticeLog
from tacit.cli.series_design import delta_option, hides_option, refuse_series_options, series_option
from tacit.cli.status_place import StatusPlace, status_options
from tacit.live.fleet.orders import USUAL

if TYPE_CHECKING:
    from tacit.core.theory.plan import Plan
    from tacit.live.fleet.hub_report import SessionReport
    from tacit.live.fleet.orders import SessionOrder
    from tacit.live.fleet.store import HubStore

EPILOG = """\b
Examples:
  tacit hub new hub --address wss://hub.example.org:7447     once: an authority, keys, an empty store
  tacit hub serve hub                                        runs until it is stopped
  tacit hub run hub --loss 0.1 --range 0:50             one session, now, with all connected agents
  tacit hub run hub --loss 0.01 --range 0:50 --every 60s --keepers north,south --name load
  tacit hub show hub
"""
HUB = options.HUB
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


@click.group("hub", epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Run a hub: a permanent coordinator that runs many sessions.

    It enrols members, runs sessions on demand and by schedule, and continues after restarts. All its data
    is in the directory HUB (mode 700). Commands write there, and a running hub sees the change at once.
    Every command takes --json, except `serve`, whose log is JSON lines.
    """


NEW_EPILOG = """\b
Examples:
  tacit hub new hub --address wss://hub.example.org:7447
\b
On the machine that a hub's directory was copied to:
  tacit ledger adopt hub/hub.ledger
  tacit hub new hub --moved --address wss://new.example.org:7447
"""


@command.command(epilog=NEW_EPILOG)
@click.argument("home", metavar="HUB", type=click.Path(file_okay=False, path_type=Path))
@click.option("--address", required=True, help="Where members reach it, wss://host:port.")
@click.option(
    "--listen",
    help="Where it listens.  [default: the port of --address, at all addresses unless that is loopback]",
)
@click.option("--host", "hosts", multiple=True, help="A further name or address in its certificate.")
@click.option(
    "--days",
    type=options.NUMBER,
    default=365.0,
    show_default=True,
    help="How long its certificates are valid.",
)
@click.option("--moved", is_flag=True, help="Give the stopped hub in this directory another address.")
@click.option(
    "--new-store", is_flag=True, help="With --moved: make an empty store, because hub.sqlite was lost."
)
@options.json_option
def new(
    *,
    home: Path,
    address: str,
    listen: str | None,
    hosts: tuple[str, ...],
    days: float,
    moved: bool,
    new_store: bool,
    as_json: bool,
) -> None:
    """Make a hub's directory: its authority, its keys and an empty store.

    While the hub runs, it renews its certificates automatically, and members get theirs from it.

    With --moved, the hub in the directory gets a certificate for another address. Members keep their keys and
    certificates. If a member's policy has the old address, change `hub` in it. With --new-store, invitations,
    schedules, results and running sessions are lost: those sessions end when they expire, and members
    continue with later ones.
    """
    from tacit.live.fleet.hub_directory import move_hub, new_hub
    from tacit.live.fleet.hub_report import HubReport

    if moved:
        if options.given("days"):
            raise click.UsageError(
                "--days is for a new hub: one that has moved keeps the life of its certificates."
            )
        fingerprint = move_hub(home, address, listen=listen, hosts=hosts, new_store=new_store)
    elif new_store:
        raise click.UsageError("--new-store goes with --moved: a new hub has an empty store anyway.")
    else:
        fingerprint = new_hub(home, address, listen=listen, hosts=hosts, days=days)
    output.print_result(HubReport(home, address, fingerprint, moved=moved), as_json)


SERVE_EPILOG = """\b
Example:
  tacit hub serve hub --status 9464 --log hub.jsonl
\b
Exit codes: 0 drained, or stopped by SIGTERM or Ctrl-C; 2 the directory cannot be used; 4 the ledger
cannot be trusted. Started again, it continues with sessions that were not over. While its disk is
full, or its certificate is not valid, it runs and waits. SIGHUP makes it open its log anew.
"""


@command.command(epilog=SERVE_EPILOG)
@click.argument("home", metavar="HUB", type=HUB)
@click.option("--listen", help="Listen here instead of at the address that `tacit hub new` was given.")
@click.option(
    "--log", type=click.Path(dir_okay=False, path_type=Path), help="Write the log here, as JSON lines."
)
@status_options
@click.option(
    "--transcripts",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Write a transcript of each session into this directory, for `tacit verify`.",
)
def serve(
    *, home: Path, listen: str | None, log: Path | None, transcripts: Path | None, **given: Any
) -> None:
    """Run the hub: enrol members, offer sessions and coordinate them.

    It is one process that listens at one port.
    """
    running.use_one_thread()
    from tacit.live.runtime.limits import leave_no_core
    from tacit.live.transport.connection_diagnosis import require_endpoint

    if listen is not None:
        require_endpoint(listen)
    place = StatusPlace.taken(given)
    leave_no_core()
    with running.exits(stopped=0), NoticeLog(log, {"member": "hub"}) as told:
        running.run(lambda: _serve(home, listen, told, place, transcripts), told.reopen)


async def _serve(
    home: Path, listen: str | None, told: NoticeLog, place: StatusPlace, transcripts: Path | None
) -> None:
    from contextlib import AsyncExitStack

    from tacit.live.fleet.fleet_status import HubPages, LatePages, wait_and_run
    from tacit.live.fleet.hub import Hub
    from tacit.live.runtime.process_notices import ServiceWaits, StatusServed

    shown = LatePages("hub", "hub", "hub", str(home), told.trouble)

    async def run() -> None:
        hub = Hub(home, tell=told, transcripts=transcripts, listen=listen)
        shown.pages = HubPages(hub)
        try:
            await hub.run()
        finally:
            shown.pages = None

    def waits(why: str) -> None:
        if shown.why != why:
            told(ServiceWaits(why))
        shown.why = why

    async with AsyncExitStack() as stack:
        if place.at is not None:
            server = await stack.enter_async_context(place.server(shown))
            told(StatusServed(server.url))
        await wait_and_run(run, waits, home)


RUN_EPILOG = """\b
Examples:
  tacit hub run hub --loss 0.1 --range 0:50
  tacit hub run hub --loss 0.1 --range 0:50 --keepers north,south
  tacit hub run hub --loss 1 --ask histogram:0,1,2,5,10 --keepers north,south
  tacit hub run hub --loss 0.01 --range 0:50 --every 60s --name load
  tacit hub run hub --series 35040 --every 15m --hides step:2 --loss 1 --range 0:10
    --keepers north,south --name year
\b
Exit codes: 0 finished, scheduled, or a series that has begun; 2 the input cannot be used; 5 the session
was not begun or ended early.
"""


@command.command("run", epilog=RUN_EPILOG)
@click.argument("home", metavar="HUB", type=HUB)
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
@session_options("hub", deadlines=USUAL)
@click.option("--detach", is_flag=True, help="Do not wait for the result.")
@options.anyway_option
@options.json_option
def run_session(
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
    kept = () if keepers is None else tuple(one.strip() for one in keepers.split(","))
    for one in kept:
        require_name(one, "a keeper's name")
    if len(set(kept)) < len(kept):
        raise InputError(f"--keepers must be different members, got {keepers}.")
    rules = SessionOrder({}, agents, kept, least, wait, settings, anyway=anyway)
    rules.fields  # noqa: B018 - refuses what no session can have
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
    names = [row["name"] for row in store.members() if row["role"] == "agent" and order.wants(row["name"])]
    if at_once:
        connected = {row["name"] for row in store.members() if row["connected"]}
        names = [name for name in names if name in connected]
    return max(order.least, len(names)) if names else 0


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


@command.command(epilog="\b\nExamples:\n  tacit hub show hub --json\n  tacit hub show hub --means year\n")
@click.argument("home", metavar="HUB", type=HUB)
@click.option(
    "--last",
    type=options.Whole(),
    default=10,
    show_default=True,
    help="Maximum number of sessions and tasks to show.",
)
@click.option("--means", metavar="NAME", help="Show instead the mean of every slot of this series.")
@click.option("--member", metavar="PATTERN", help="List only members with such a name.")
@click.option(
    "--state",
    type=click.Choice(["connected", "away", "expired", "revoked"]),
    help="List only members in this state.",
)
@options.json_option
def show(
    *, home: Path, last: int, means: str | None, member: str | None, state: str | None, as_json: bool
) -> None:
    """Show members, scheduled tasks, and the last sessions with their means.

    More than 20 members are only counted, unless --member or --state chooses some.
    """
    from tacit.live.fleet.hub_report import HubOverview, SeriesMeans
    from tacit.live.fleet.store import HubStore

    store = HubStore(home)
    if means is not None:
        of_slots = SeriesMeans.read(home, store, means)
        if as_json:
            output.print_json(of_slots.as_dict())
        else:
            output.print_tables(of_slots.summary())
        return
    found = HubOverview.read(home, store, last)
    if member is not None or state is not None:
        found = found.only(member or "*", state)
    output.print_result(found, as_json)
    if not as_json:
        output.print_tables(*found.grids())


@command.command(
    epilog="\b\nExample:\n  tacit hub cancel hub load       ends the schedule and its sessions\n"
)
@click.argument("home", metavar="HUB", type=HUB)
@click.argument("name")
@options.json_option
def cancel(*, home: Path, name: str, as_json: bool) -> None:
    """End a schedule or a session permanently.

    Messages that were not sent cost an agent nothing.
    """
    from tacit.base.errors import InputError
    from tacit.core.protocol.session import Session
    from tacit.live.fleet.hub_directory import KEYS
    from tacit.live.fleet.store import HubStore
    from tacit.live.identity.identity import Identity
    from tacit.live.sessions.cancellation import cancel as sign_off

    store, identity = HubStore(home), Identity.load(home / KEYS)
    task = store.task(name)
    if task is not None:
        store.set_task(name, state="stopped", note="cancelled")
    found = store.find_sessions(name)
    if task is None and not found:
        raise InputError(f"this hub runs nothing called {name}: see `tacit hub show`.")
    for row in found:
        sign_off(Session.decode(row["data"]), identity)
    if as_json:
        output.print_json({"name": name, "sessions": [row["name"] for row in found]})
    else:
        click.echo(f"{name} is cancelled, with {counted(len(found), 'running session')}.")


@command.command(epilog="\b\nExamples:\n  tacit hub pause hub\n  tacit hub pause hub --stop\n")
@click.argument("home", metavar="HUB", type=HUB)
@click.option("--stop", is_flag=True, help="Stop the hub when running sessions are over.")
@options.json_option
def pause(*, home: Path, stop: bool, as_json: bool) -> None:
    """Start no sessions until `tacit hub resume`; running ones continue."""
    if stop:
        _set_state(home, "draining", "The hub stops when no session is running.", as_json)
    else:
        _set_state(home, "paused", "No session starts until `tacit hub resume`.", as_json)


@command.command(epilog="\b\nExample:\n  tacit hub resume hub\n")
@click.argument("home", metavar="HUB", type=HUB)
@options.json_option
def resume(*, home: Path, as_json: bool) -> None:
    """Start sessions again after `tacit hub pause`."""
    _set_state(home, "serving", "Sessions start again.", as_json)


def _set_state(home: Path, state: str, sentence: str, as_json: bool) -> None:
    from tacit.live.fleet.store import HubStore

    HubStore(home).set_setting("state", state)
    if as_json:
        output.print_json({"path": home, "state": state})
    else:
        click.echo(sentence)
