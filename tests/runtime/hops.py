"""Count what one private value passes between file and wire: ``python tests/runtime/hops.py``.

Some agents and a coordinator run a session in memory. The calls of one round are traced, from feedback on its
way to the agents to the first report that is sent, the thread that saves included. Functions of the
package are counted once each, however often they are called, and so are the classes whose methods run.
"""

import asyncio
import sys
import tempfile
import threading
from pathlib import Path

import tacit
from tacit.protocol.agent import AgentMachine
from tacit.protocol.coordinator import CoordinatorMachine
from tacit.protocol.private_state import Budget
from tacit.protocol.roster import COORDINATOR
from tacit.runtime.ledger.ledger import Ledger
from tacit.runtime.node import Node
from tacit.runtime.noise import NoiseAhead
from tacit.runtime.transport.memory import MemoryNetwork
from tacit.testing import known_key, known_session

PACKAGE = str(Path(tacit.__file__).parent)
ROUND = 1


class Count:
    """Traces every call of the package's functions while it is on."""

    def __init__(self) -> None:
        self.functions: set[str] = set()
        self.classes: set[str] = set()
        self.active = False

    def __call__(self, frame, event, _argument):
        code = frame.f_code
        if (
            self.active
            and event == "call"
            and code.co_filename.startswith(PACKAGE)
            and "<" not in code.co_name
        ):
            self.functions.add(f"{Path(code.co_filename).stem}.{code.co_qualname}")
            owner = frame.f_locals.get("self")
            if owner is not None:
                self.classes.add(type(owner).__name__)


def traced() -> Count:
    """Run a session, and trace one round."""
    count, session = Count(), known_session()
    folder = Path(tempfile.mkdtemp())

    async def main() -> None:
        network = MemoryNetwork(session)
        members = [*range(session.n), COORDINATOR]
        ledgers = {who: Ledger(folder / f"{who}.ledger") for who in members}
        agents = [
            AgentMachine(session, i, 0.5, sign=known_key(i).sign, budget=Budget(cap=1e9))
            for i in range(session.n)
        ]
        server = CoordinatorMachine(session, sign=known_key(COORDINATOR).sign)

        def tap(sender, _to, _frame) -> None:
            # From the feedback that the agent hears to the report that it sends.
            count.active = sender == COORDINATOR and agents[0].update == ROUND

        network.taps.append(tap)
        threading.setprofile(count)
        sys.setprofile(count)
        nodes = [Node(session.id, server, network.transport(COORDINATOR), ledgers[COORDINATOR])]
        for i, agent in enumerate(agents):
            ledgers[i].reserve(session.id, "v", planned=1e6, adjacency=1.0, diameter=1.0, cap=1e9)
            noise = NoiseAhead(session, i)
            nodes.append(Node(session.id, agent, network.transport(i), ledgers[i], noise=noise))
        await asyncio.gather(*(node.run() for node in nodes))
        sys.setprofile(None)
        for ledger in ledgers.values():
            ledger.close()

    asyncio.run(main())
    return count


if __name__ == "__main__":
    found = traced()
    for name in sorted(found.functions):
        print(name)
    print(f"{len(found.functions)} functions, {len(found.classes)} classes: {sorted(found.classes)}")
