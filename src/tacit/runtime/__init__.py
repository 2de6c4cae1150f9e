"""The only place with network, disk and clock: what runs, and what it leaves behind.

What runs: `agent` and `coordinator` on `member`, `node`, `transport`; `status` and `transcript` watch them.

On disk:

- `ledger`: what an agent said, and what that cost; durable before anything is sent. `store` is its file,
  `schema` the rules in it, `mark` the guard beside it, `budget` the sums.
- `identity`: keys and certificates; `keys`, `certificates` and `files` are its parts.
- `session`: the public file that everyone has; `roster`, `drafting` (from a promise) and `soundness`
  (what it promises) belong to it.

The names below load their module when first used.
"""

from typing import TYPE_CHECKING

from tacit.lazy import exports

if TYPE_CHECKING:
    from tacit.runtime.agent import Agent, Peer
    from tacit.runtime.budget import Balance, Reservation
    from tacit.runtime.coordinator import Coordinator
    from tacit.runtime.drafting import draft
    from tacit.runtime.identity import Identity, provision
    from tacit.runtime.ledger import Ledger
    from tacit.runtime.roster import Roster, read_roster
    from tacit.runtime.session import read_session, write_session
    from tacit.runtime.soundness import Explanation, explain

__all__ = [
    "Agent",
    "Balance",
    "Coordinator",
    "Explanation",
    "Identity",
    "Ledger",
    "Peer",
    "Reservation",
    "Roster",
    "draft",
    "explain",
    "provision",
    "read_roster",
    "read_session",
    "write_session",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        "agent": ("Agent", "Peer"),
        "budget": ("Balance", "Reservation"),
        "coordinator": ("Coordinator",),
        "drafting": ("draft",),
        "identity": ("Identity", "provision"),
        "ledger": ("Ledger",),
        "roster": ("Roster", "read_roster"),
        "session": ("read_session", "write_session"),
        "soundness": ("Explanation", "explain"),
    },
)
