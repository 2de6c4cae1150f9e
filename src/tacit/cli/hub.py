"""`tacit hub`: a permanent coordinator that runs many sessions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tacit.base.report import counted
from tacit.cli import options, output, running
from tacit.cli.late import LateGroup
from tacit.cli.notice_log import NoticeLog
from tacit.cli.status_place import StatusPlace, status_options

if TYPE_CHECKING:
    from tacit.core.protocol.notices import Notice
    from tacit.live.fleet.hub import Hub
    from tacit.live.fleet.lease import Lease

EPILOG = """\b
Examples:
  tacit hub new hub --address wss://hub.example.org:7447     once: an authority, keys, an empty store
  tacit hub serve hub                                        runs until it is stopped
  tacit hub run hub --loss 0.1 --range 0:50             one session, now, with all connected agents
  tacit hub run hub --loss 0.01 --range 0:50 --every 60s --keepers north,south --name load
  tacit hub show hub
"""
HUB = options.HUB
LATE = {"run": "Run a session with all connected agents, now or by schedule."}


@click.group(
    "hub",
    cls=LateGroup,
    late=LATE,
    modules="hub_",
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
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
    "--store",
    metavar="ADDRESS",
    help="Its database, postgresql://USER@HOST/NAME, for a hub on several hosts. The password is in "
    "PGPASSFILE.",
)
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
    store: str | None,
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

    if store is not None:
        from tacit.live.fleet.postgres import require_usable, use

        require_usable(store)  # before anything is made
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
    if store is not None:
        use(home, store)
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
    "--store",
    metavar="ADDRESS",
    help="As of `tacit hub new`, for a hub that was made without; the directory keeps it.",
)
@click.option(
    "--synchronous",
    is_flag=True,
    help="The database's own standby has all that was ever saved, so sessions go on after a failover to it.",
)
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
    *,
    home: Path,
    listen: str | None,
    store: str | None,
    synchronous: bool,
    log: Path | None,
    transcripts: Path | None,
    **given: Any,
) -> None:
    """Run the hub: enrol members, offer sessions and coordinate them.

    It is one process that listens at one port. With --store it can run on several hosts: one leads, and the
    others stand by, name the leader, and take over when it is away.
    """
    running.spare_numpy()
    from tacit.live.fleet.database import address_of
    from tacit.live.runtime.limits import leave_no_core
    from tacit.live.transport.connection_diagnosis import require_endpoint

    if listen is not None:
        require_endpoint(listen)
    place = StatusPlace.taken(given)
    leave_no_core()
    if store is not None:
        from tacit.live.fleet.postgres import use

        use(home, store)
    if synchronous and address_of(home) is None:
        raise click.UsageError("--synchronous goes with --store.")
    with running.exits(stopped=0), NoticeLog(log, {"member": "hub"}) as told:
        running.run(
            lambda: _serve(home, listen, told, place, transcripts, synchronous=synchronous), told.reopen
        )


async def _serve(
    home: Path,
    listen: str | None,
    told: NoticeLog,
    place: StatusPlace,
    transcripts: Path | None,
    *,
    synchronous: bool,
) -> None:
    from contextlib import AsyncExitStack

    from tacit.live.fleet.database import address_of
    from tacit.live.fleet.fleet_status import HubPages, LatePages, wait_and_run
    from tacit.live.fleet.hub import Hub
    from tacit.live.runtime.process_notices import ServiceWaits, StatusServed

    shown = LatePages("hub", "hub", "hub", str(home), told.trouble)

    def made(lease: Lease | None = None) -> Hub:
        hub = Hub(home, tell=told, transcripts=transcripts, listen=listen, lease=lease)
        shown.pages = HubPages(hub)
        return hub

    def tell(notice: Notice, count: int = 0) -> None:
        shown.pages, shown.why = None, str(notice.sentence(None))  # it does not lead now
        told(notice, count)

    async def run() -> None:
        try:
            if address_of(home) is None:
                await made().run()
            else:
                from tacit.live.fleet.hosts import HubHost

                await HubHost(home, made, tell=tell, listen=listen, synchronous=synchronous).run()
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
        store.cancel(row["id"])
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
