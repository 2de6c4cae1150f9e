"""`tacit agent`: follow a hub, as an owner's policy allows."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tacit.cli import running
from tacit.cli.fleet_log import LineLog, line_log

if TYPE_CHECKING:
    from tacit.runtime.fleet.policy import Policy

EPILOG = """\b
Example:
  tacit agent alice.toml --log alice.jsonl --status 9465
\b
Exit codes: 0 stopped by SIGTERM or Ctrl-C, 2 the policy or the keys cannot be used, 4 the ledger or
its disk failed. Started again, it goes on with sessions that were not over.
"""


@click.command(epilog=EPILOG)
@click.argument("policy", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--log", type=click.Path(dir_okay=False, path_type=Path), help="Write JSON lines here.")
@click.option("--status", type=click.IntRange(0, 65535), help="Show /status and /metrics at this port.")
@click.option("--json", "as_json", is_flag=True, help="Print each mean as a JSON line.")
def command(*, policy: Path, log: Path | None, status: int | None, as_json: bool) -> None:
    """Follow a hub for as long as it runs: take part in the sessions that POLICY allows.

    Each session is judged before a byte leaves: the hub's signature, the range, trusted keepers, how often
    and how long, and what it costs against the caps for all time and per window, by the ledger. The
    value is read from its source then. A refusal says one word to the hub and the reason here. With
    `role = "keeper"` it is a keeper of the hub's sessions instead.
    """
    from tacit.runtime.fleet.policy import read_policy

    found = read_policy(policy)
    with running.exits(stopped=0), line_log(log) as told:
        running.run(lambda: _follow(found, told, status, as_json))


async def _follow(policy: Policy, told: LineLog, port: int | None, as_json: bool) -> None:
    from contextlib import AsyncExitStack

    from tacit.runtime.fleet.follower import FleetAgent

    async with AsyncExitStack() as stack:
        agent = await stack.enter_async_context(FleetAgent(policy, tell=told))
        if port is not None:
            from tacit.runtime.fleet.fleet_status import AgentPages
            from tacit.runtime.status.server import StatusServer

            server = await stack.enter_async_context(StatusServer(AgentPages(agent), port))
            told("status", f"status at {server.url}/status and {server.url}/metrics", member=agent.name)
        told("following", f"{agent.name} follows {policy.hub}", member=agent.name)
        async for mean in agent:
            if as_json:
                click.echo(json.dumps(dataclasses.asdict(mean)))
