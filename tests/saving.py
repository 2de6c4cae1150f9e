"""Records for one ledger, to be saved with others."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass
class Saving:
    """What `save_all` takes, as a node is one."""

    ledger: Any
    session: bytes
    records: Sequence[Any]
    takers: Sequence[Any] = ()

    def save(self, *, flush):
        self.ledger.append(self.session, self.records, flush=flush)

    def tell(self):
        for taker in self.takers:
            taker.take(self.records)
