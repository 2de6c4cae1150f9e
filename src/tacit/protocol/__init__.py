"""The protocol without its network: events in, records to save and messages to send out.

- `session`: what all agree on, and its id. `canonical`: the bytes the id is a hash of. `roster`: who.
- `messages`, `codec`: what is said, and the only way to read and write it.
- `effects`, `records`: what goes into a machine and what comes out.
- `agent`, `coordinator`, `peer`: the machines. `machine`: what they share. `private_state`: the one rule.
- `tables`, `table_agent`, …: their transitions as data. `diagrams`: what the docs show of them.

Nothing here touches a clock, entropy, a disk or a network: all of it is brought by events.
"""

from typing import TYPE_CHECKING

from tacit.lazy import exports

if TYPE_CHECKING:
    from tacit.protocol.agent import AgentMachine
    from tacit.protocol.codec import Codec
    from tacit.protocol.coordinator import CoordinatorMachine
    from tacit.protocol.effects import Step
    from tacit.protocol.messages import Refusal
    from tacit.protocol.peer import PeerMachine
    from tacit.protocol.private_state import Budget
    from tacit.protocol.roster import COORDINATOR, Member
    from tacit.protocol.session import Deadlines, Session, SessionPromise

__all__ = [
    "COORDINATOR",
    "AgentMachine",
    "Budget",
    "Codec",
    "CoordinatorMachine",
    "Deadlines",
    "Member",
    "PeerMachine",
    "Refusal",
    "Session",
    "SessionPromise",
    "Step",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        "agent": ("AgentMachine",),
        "codec": ("Codec",),
        "coordinator": ("CoordinatorMachine",),
        "effects": ("Step",),
        "messages": ("Refusal",),
        "peer": ("PeerMachine",),
        "roster": ("COORDINATOR", "Member"),
        "session": ("Deadlines", "Session", "SessionPromise"),
        "private_state": ("Budget",),
    },
)
