"""The only package that uses the network, the disk and the clock.

- `agent`, `keeper`, `coordinator`: members of a session, each a `participant` that `node` drives.
- `transport`: frames between members. `status`, `transcript`: what a running member shows and records.
- `ledger`: the messages of an agent and their loss; durable before anything is sent.
- `identity`: keys, certificates, rosters. `session`: the public file that every member has.
- `verification`: judge a session from its transcripts.

The names below load their module when first used.
"""

from typing import TYPE_CHECKING

from tacit.base.lazy import exports

if TYPE_CHECKING:
    from tacit.live.identity.identity import Identity, provision
    from tacit.live.identity.roster import Roster, read_roster
    from tacit.live.ledger.budget import Balance, Reservation
    from tacit.live.ledger.ledger import Ledger
    from tacit.live.runtime.agent import Agent
    from tacit.live.runtime.coordinator import Coordinator
    from tacit.live.runtime.keeper import Keeper
    from tacit.live.runtime.participant import Participant
    from tacit.live.sessions.check import Explanation, explain
    from tacit.live.sessions.design import draft
    from tacit.live.sessions.file import read_session, write_session

__all__ = [
    "Agent",
    "Balance",
    "Coordinator",
    "Explanation",
    "Identity",
    "Keeper",
    "Ledger",
    "Participant",
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
        "runtime.agent": ("Agent",),
        "ledger.budget": ("Balance", "Reservation"),
        "runtime.coordinator": ("Coordinator",),
        "runtime.keeper": ("Keeper",),
        "runtime.participant": ("Participant",),
        "sessions.design": ("draft",),
        "identity.identity": ("Identity", "provision"),
        "ledger.ledger": ("Ledger",),
        "identity.roster": ("Roster", "read_roster"),
        "sessions.file": ("read_session", "write_session"),
        "sessions.check": ("Explanation", "explain"),
    },
)
