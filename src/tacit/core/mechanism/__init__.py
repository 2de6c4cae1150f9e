"""The mechanisms of sections 3 and 4 of the paper.

They are pure functions, without randomness and I/O.
"""

from tacit.core.mechanism.base import Mechanism, Round, State
from tacit.core.mechanism.client_server import ClientServer
from tacit.core.mechanism.distributed import Distributed

__all__ = [
    "ClientServer",
    "Distributed",
    "Mechanism",
    "Round",
    "State",
]
