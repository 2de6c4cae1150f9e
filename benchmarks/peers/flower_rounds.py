"""The average of one number per client in Flower's simulation engine: the same job, without privacy.

Run by `benchmarks.network`: ``python -m benchmarks.peers.flower_rounds CLIENTS``. In a round every client is
asked, answers with one number, and the server takes the mean.
"""

# ruff: noqa: E402 - libraries read their settings when they are loaded
from __future__ import annotations

import logging
import os
import sys
import time
import warnings
from typing import Any

for name in ("FLWR_TELEMETRY_ENABLED", "RAY_USAGE_STATS_ENABLED"):
    os.environ[name] = "0"
warnings.simplefilter("ignore")

import psutil  # type: ignore[import-untyped, unused-ignore]
from flwr.clientapp import ClientApp  # type: ignore[import-not-found, unused-ignore]
from flwr.common import Message, MetricRecord, RecordDict  # type: ignore[import-not-found, unused-ignore]
from flwr.serverapp import ServerApp  # type: ignore[import-not-found, unused-ignore]
from flwr.simulation import run_simulation  # type: ignore[import-not-found, unused-ignore]

from benchmarks.peers.turns import take_turns

CLIENTS = int(sys.argv[1])
client, server = ClientApp(), ServerApp()


@client.query()  # type: ignore[untyped-decorator, unused-ignore]
def answer(message: Any, _context: Any) -> Any:
    """Answer with a number."""
    return Message(RecordDict({"said": MetricRecord({"x": 1.0})}), reply_to=message)


@server.main()  # type: ignore[untyped-decorator, unused-ignore]
def average(grid: Any, _context: Any) -> None:
    """Ask everyone, again and again."""
    while len(list(grid.get_node_ids())) < CLIENTS:
        time.sleep(0.1)
    nodes = list(grid.get_node_ids())

    def turn(rounds: int) -> None:
        y = 0.0
        for _ in range(rounds):
            content = RecordDict({"heard": MetricRecord({"y": y})})
            asked = [Message(content=content, message_type="query", dst_node_id=node) for node in nodes]
            said = [float(reply.content["said"]["x"]) for reply in grid.send_and_receive(asked)]
            assert len(said) == CLIENTS
            y = sum(said) / CLIENTS

    take_turns(turn, used)


def used() -> float:
    """Processor-seconds of this process and of all that it started."""
    here = psutil.Process()
    times = [process.cpu_times() for process in [here, *here.children(recursive=True)]]
    return float(sum(each.user + each.system for each in times))


if __name__ == "__main__":
    logging.getLogger("flwr").setLevel(logging.ERROR)
    run_simulation(
        server_app=server,
        client_app=client,
        num_supernodes=CLIENTS,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
