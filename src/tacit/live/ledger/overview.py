"""A ledger as its owner reads it: values with caps, sessions with costs."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, final

from tacit.base.report import Row, Shown, Summary, near, up
from tacit.core.protocol.records import Began
from tacit.core.series import Hides
from tacit.live.ledger.ledger import Ledger


@final
@dataclass(frozen=True, eq=False)
class LedgerOverview(Shown):
    """The content of a ledger.

    It has nothing private in it, unless `overview_of` was called with `private`.
    """

    path: Path
    values: list[dict[str, Any]]
    sessions: list[dict[str, Any]]
    now: float

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        return {"file": self.path, "values": self.values, "sessions": self.sessions}

    def summary(self) -> Summary:
        """Return the ledger for people; what was spent is rounded up."""
        sections: dict[str, list[Row]] = {}
        for value in self.values:
            sections[value["value"]] = [
                Row("spent", up(value["spent"]), _scope(value["adjacency"])),
                Row("cap", near(value["cap"]), f"{near(value['remaining'])} remain"),
            ]
            if value["hides"]:
                failing = (
                    f"{up(value['delta'])} of a failure probability of {near(value['delta_cap'])} is used"
                )
                meaning = f"what a series must hide; its loss counts for that alone; {failing}"
                sections[value["value"]].append(Row("series", str(Hides.parse(value["hides"])), meaning))
        for session in self.sessions:
            sections[session["id"][:16]] = _rows(session, self.now)
        counts = f"{_count(self.values, 'value')}, {_count(self.sessions, 'session')}"
        return Summary(f"{self.path}: {counts}", sections)


def overview_of(
    ledger: Ledger, path: Path, *, private: bool = False, now: float | None = None
) -> LedgerOverview:
    """Read a ledger; with `private` also where the value was clamped."""
    return LedgerOverview(
        path,
        [vars(ledger.balance(value)) for value in ledger.values()],
        [_facts(ledger, session, private) for session in ledger.sessions()],
        time.time() if now is None else now,
    )


def _facts(ledger: Ledger, session: bytes, private: bool) -> dict[str, Any]:
    set_aside = ledger.reservation(session)
    facts: dict[str, Any] = {"records": ledger.size(session), "forgotten": ledger.forgotten(session)}
    if set_aside is not None:
        if private:
            records = [] if facts["forgotten"] else ledger.records(session)
            facts["clamped"] = records[0].clamped if records and isinstance(records[0], Began) else None
        facts |= {name: fact for name, fact in vars(set_aside).items() if name not in ("others", "cap")}
    return {"id": session.hex(), **facts}


def _rows(session: dict[str, Any], now: float) -> list[Row]:
    if "value" not in session:
        return [Row("records", f"{session['records']:,}", "as coordinator or keeper")]
    settled = "settled: nothing more will be sent"
    times = f", counted {session['steps']} times" if session["steps"] > 1 else ""
    held = "and messages; only what they cost is left" if session["forgotten"] else "until you forget them"
    rows = [
        Row("said", up(session["said"]), f"of {session['value']}{times}"),
        Row("planned", up(session["planned"]), settled if session["settled"] else _until(session, now)),
        Row("states", "forgotten" if session["forgotten"] else "kept", held),
    ]
    if "clamped" in session:
        word = {True: "yes", False: "no", None: "unknown"}[session["clamped"]]
        rows.append(Row("clamped", word, "whether your value was outside the range; private"))
    return rows


def _scope(adjacency: float) -> str:
    """Say which values the cap and the spent loss are for."""
    if math.isinf(adjacency):
        return "for any two values in a session's range"
    return f"for values up to {near(adjacency)} apart"


def _until(session: dict[str, Any], now: float) -> str:
    """Say how long a session may continue and reserve its planned loss."""
    if session["expires"] is None:
        return "may go on; `tacit ledger settle` gives it up"
    end = f"{datetime.fromtimestamp(session['expires'], UTC):%Y-%m-%d %H:%M} UTC"
    if session["expires"] <= now:
        return f"expired on {end}; settled when the next session begins"
    return f"may go on until {end}; `tacit ledger settle` gives it up"


def _count(things: list[Any], what: str) -> str:
    return f"{len(things)} {what}{'s' * (len(things) != 1)}"
