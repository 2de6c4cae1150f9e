"""`tacit agent`: join a hub's sessions, as the owner's policy allows."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import click

from tacit.cli import running
from tacit.cli.notice_log import NoticeLog
from tacit.cli.status_place import StatusPlace, status_options

if TYPE_CHECKING:
    from tacit.core.protocol.notices import Notice
    from tacit.live.fleet.policy import Policy

_RELEASE_AFTER = (1, 10)
"""Release memory after this many sessions, too: later ones load nothing new."""

EPILOG = """\b
Examples:
  tacit agent alice.toml --log alice.jsonl --status 9465
  tacit agent alice.toml --visit 1h
\b
Exit codes: 0 stopped by SIGTERM or Ctrl-C, 2 the policy or the keys cannot be used, 4 the ledger
cannot be trusted. Started again, it continues with sessions that were not over. While its disk is
full, or its certificate is not valid, it runs and waits. SIGHUP makes it read the policy again, and
open its log anew.
"""


@click.command(epilog=EPILOG)
@click.argument("policy", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--log", type=click.Path(dir_okay=False, path_type=Path), help="Write the log here, as JSON lines."
)
@click.option(
    "--visit",
    metavar="TIME",
    help="Connect once in every 10m, 1h or 1d, at a random moment, and leave when nothing is to be said: for "
    "sessions that stay open.",
)
@click.option("--once", is_flag=True, help="Connect once, now, and end; run it again for the results.")
@status_options
@click.option("--json", "as_json", is_flag=True, help="Print each mean as a JSON line.")
def command(
    *, policy: Path, log: Path | None, visit: str | None, once: bool, as_json: bool, **given: Any
) -> None:
    """Join the sessions of a hub that the owner's POLICY file allows.

    It runs until it is stopped. Before it reads the value or sends anything, it checks each session
    against the policy, and its cost against the caps in the ledger. After a refusal the hub gets one
    word, and the log here has the reason. With `role = "keeper"` it is a keeper of the hub's sessions
    instead.

    A session that stays open takes one message from agents that come and go: with --visit or --once the
    agent leaves with the hub's receipt, and a later visit fetches the result.
    """
    running.spare_numpy()
    from tacit.live.fleet.policy import read_policy, seconds

    if once and visit is not None:
        raise click.UsageError("--once is one visit: leave --visit out.")
    visits: dict[str, Any] = {"visit": None if visit is None else seconds(visit, "--visit"), "once": once}
    found, place = read_policy(policy), StatusPlace.taken(given)
    again = asyncio.Event()
    with running.exits(stopped=0), NoticeLog(log, {}) as told:

        def hangup() -> None:
            told.reopen()
            again.set()

        read = partial(read_policy, policy)
        running.run(lambda: _follow(found, told, place, as_json, read=read, again=again, **visits), hangup)


@final
class _SmallLog:
    """Logs events, and releases memory once everything is loaded."""

    def __init__(self, told: NoticeLog) -> None:
        self._told, self._over, self._reached = told, 0, False

    def __call__(self, notice: Notice, count: int) -> None:
        from tacit.live.fleet.follower_notices import HubReached, ParticipationOver

        self._told(notice, count)
        self._over += isinstance(notice, ParticipationOver)
        first, self._reached = not self._reached, self._reached or isinstance(notice, HubReached)
        released = isinstance(notice, ParticipationOver) and self._over in _RELEASE_AFTER
        if released or (first and self._reached):
            from tacit.live.runtime.limits import release_libraries

            release_libraries()


async def _follow(
    policy: Policy,
    told: NoticeLog,
    place: StatusPlace,
    as_json: bool,
    *,
    read: Callable[[], Policy],
    again: asyncio.Event,
    **visits: Any,
) -> None:
    """Follow the hub; at `again`, begin anew with the policy as it is then."""
    from contextlib import AsyncExitStack

    from tacit.base.errors import DiskFull, NotCurrent, TacitError
    from tacit.live.fleet.fleet_status import AgentPages, LatePages, wait_and_run
    from tacit.live.fleet.follower import FleetAgent
    from tacit.live.fleet.follower_notices import Following
    from tacit.live.runtime.process_notices import ServiceWaits, StatusServed, Trouble

    name, used, tried = policy.keys.name, policy, policy
    shown = LatePages("follower", name, policy.role, policy.hubs[0], told.trouble)

    async def means(agent: FleetAgent) -> None:
        async for mean in agent:
            if as_json:
                click.echo(json.dumps(dataclasses.asdict(mean)))

    async def asked() -> Policy:
        while True:
            await again.wait()
            again.clear()
            try:
                return read()
            except TacitError as error:
                told(Trouble(f"the policy stays as it was: {error}", name))

    async def follow() -> None:
        nonlocal used, tried
        while True:
            try:
                async with FleetAgent(tried, tell=_SmallLog(told), **visits) as agent:
                    used, shown.pages = tried, AgentPages(agent)
                    told(Following(agent.name, ", ".join(used.hubs)))
                    try:
                        following = await _first(means(agent), asked())
                    finally:
                        shown.pages, shown.why = None, "it is starting"
                if following is None:
                    return
                tried = following
            except (DiskFull, NotCurrent):
                raise
            except TacitError as error:
                if tried is used:
                    raise
                told(Trouble(f"the policy stays as it was: {error}", name))
                tried = used

    def waits(why: str) -> None:
        if shown.why != why:
            told(ServiceWaits(why, name))
        shown.why = why

    async with AsyncExitStack() as stack:
        if place.at is not None:
            server = await stack.enter_async_context(place.server(shown))
            told(StatusServed(server.url, name))
        await wait_and_run(follow, waits, policy.ledger.parent)


async def _first(means: Coroutine[Any, Any, None], asked: Coroutine[Any, Any, Policy]) -> Policy | None:
    """Wait for another policy; raise what ends the means before.

    None if they have ended in order, after the one visit.
    """
    tasks = asyncio.ensure_future(means), asyncio.ensure_future(asked)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if tasks[0].done():
            tasks[0].result()
            return None
        return await tasks[1]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
