"""What runs for real: the only package with network, disk and clock.

In the order in which you need them:

- `Identity`, `provision`, `Roster`, `read_roster`: keys, and who takes part (room `identity`).
- `draft`, `write_session`, `read_session`, `explain`: the public file that every member has (`sessions`).
- `Agent`, `Keeper`, `Coordinator`: members of a session; each is a `Participant` (`runtime`).
- `Ledger`: what an agent sent and what it cost, durable before anything is sent (`ledger`).
- rooms without names here: `fleet` (a hub and its followers), `verification` (judge a session from its
  transcripts), `transport` (frames between members), `status` (what a running member shows).

All names load their module when first used.
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

if not TYPE_CHECKING:
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
        ("fleet", "identity", "ledger", "runtime", "sessions", "status", "transport", "verification"),
    )
