"""The only package that uses the network, the disk and the clock.

- `agent`, `keeper`, `coordinator`: members of a session, each a `participant` that `node` drives.
- `transport`: frames between members. `status`, `transcript`: what a running member shows and records.
- `ledger`: the messages of an agent and their loss; durable before anything is sent.
- `identity`: keys, certificates, rosters. `session`: the public file that every member has.
- `verification`: judge a session from its transcripts.

The names below load their module when first used.
"""

from typing import TYPE_CHECKING

from tacit.lazy import exports

if TYPE_CHECKING:
    from tacit.runtime.agent import Agent
    from tacit.runtime.coordinator import Coordinator
    from tacit.runtime.identity.identity import Identity, provision
    from tacit.runtime.identity.roster import Roster, read_roster
    from tacit.runtime.keeper import Keeper
    from tacit.runtime.ledger.budget import Balance, Reservation
    from tacit.runtime.ledger.ledger import Ledger
    from tacit.runtime.participant import Participant
    from tacit.runtime.session.check import Explanation, explain
    from tacit.runtime.session.design import draft
    from tacit.runtime.session.file import read_session, write_session

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
        "agent": ("Agent",),
        "ledger.budget": ("Balance", "Reservation"),
        "coordinator": ("Coordinator",),
        "keeper": ("Keeper",),
        "participant": ("Participant",),
        "session.design": ("draft",),
        "identity.identity": ("Identity", "provision"),
        "ledger.ledger": ("Ledger",),
        "identity.roster": ("Roster", "read_roster"),
        "session.file": ("read_session", "write_session"),
        "session.check": ("Explanation", "explain"),
    },
)
