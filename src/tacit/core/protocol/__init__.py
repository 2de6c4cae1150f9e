"""The protocol without I/O: events in; records and messages out.

- `session`: what all agree on, and its id. `schema`: its fields, described once. `canonical`: the bytes that
  are hashed. `roster`: the members, and the root that commits to them.
- `messages`, `codec`: the kinds of message, and the only code that reads and writes them.
- `effects`, `records`: what goes into a machine and what comes out. `notices`: what it says to people, logs
  and metrics. `standing`: what notices add up to, for status pages.
- `agent`, `coordinator`, `keeper`, `peer`: the machines. `machine`: their base class.
- `turns`, `private_state`, `filter_state`: the parts of an agent. They say when it speaks, what it says, how
  that moves and who hides it, with one draw and one message per update. Peers have the second, too.
- `pace`, `sums`, `course`: the parts of a coordinator. They say when rounds open and close, how messages are
  added up, and where the session is.
- `opening_order`: the part of a keeper, which updates it opens. `masks`, `keyring`: masks and keys.
- `tables`: how transitions are written, at the end of each machine. `diagrams`: the diagrams of the docs.

Nothing here uses a clock, a random source, a disk or a network: events bring all of it.
"""

from typing import TYPE_CHECKING

from tacit.base.lazy import exports

if TYPE_CHECKING:
    from tacit.core.protocol.agent import AgentMachine
    from tacit.core.protocol.codec import Codec
    from tacit.core.protocol.coordinator import CoordinatorMachine
    from tacit.core.protocol.effects import Step
    from tacit.core.protocol.messages import Refusal
    from tacit.core.protocol.peer import PeerMachine
    from tacit.core.protocol.private_state import Budget
    from tacit.core.protocol.roster import COORDINATOR, Member
    from tacit.core.protocol.schema import Deadlines
    from tacit.core.protocol.session import Session, SessionPromise

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

if not TYPE_CHECKING:
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
            "schema": ("Deadlines",),
            "session": ("Session", "SessionPromise"),
            "private_state": ("Budget",),
        },
    )
