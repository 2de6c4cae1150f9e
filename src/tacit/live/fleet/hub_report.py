"""Results for the operator of a hub: the hub, its sessions, its series.

The facts come from the hub's store, as JSON has them (`tacit.live.fleet.store.as_facts`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from tacit.base.errors import InputError
from tacit.base.report import Grid, Row, Shown, Summary, counted, near, up
from tacit.core.protocol.answer import answer_rows, kept_answer
from tacit.core.protocol.session import Session
from tacit.core.theory.advice import absences, wide_radius
from tacit.live.fleet.hub_directory import AUTHORITY, is_served
from tacit.live.fleet.store import HubStore, as_facts
from tacit.live.identity.identity import load_authority
from tacit.live.identity.keys import key_text
from tacit.live.identity.register import REVOKED
from tacit.live.identity.revocation import read_revocations

if TYPE_CHECKING:
    from tacit.live.sessions.series import SeriesExplanation


STATES = ("connected", "away", "expired", "revoked")
"""Of a member: connected now or not, or its certificate is no longer valid."""
_LISTED = 20  # members that are listed unasked
_PARTS = 6  # of an answer, in the line of a slot


@final
@dataclass(frozen=True)
class HubReport(Shown):
    """A hub's directory that was just made, or moved to another address."""

    path: Path
    address: str
    authority: str
    moved: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        return {"path": self.path, "address": self.address, "authority": self.authority}

    def summary(self) -> Summary:
        """Return the address, the fingerprint, and how to start the hub."""
        start = f"Start it with `tacit hub serve {self.path}`."
        if self.moved:
            address = "for invitations, and for `hub` in members' policies"
            authority, note = "SHA-256 of its key; the same as before", start
        else:
            address, authority = "for invitations", "SHA-256 of its key; agents compare it when they enrol"
            note = f"{start} Anyone who can read {self.path} can let anyone connect: guard it."
        rows = [Row("address", self.address, address), Row("authority", self.authority, authority)]
        return Summary(f"Hub in {self.path}", {"": rows}, (note,))


@final
@dataclass(frozen=True)
class SessionReport(Shown):
    """How a session of a hub ended: its answer, or why it never began."""

    name: str
    state: str
    result: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        return {"name": self.name, "state": self.state, **self.result}

    @property
    def ran(self) -> bool:
        """Whether the session began; otherwise there are no rows."""
        return "rounds" in self.result

    @property
    def why(self) -> str:
        """Why it did not finish."""
        refused = self.result.get("refused", {})
        names = ", ".join(f"{name} ({why})" for name, why in sorted(refused.items()))
        early = f"it ended early, refused by {names}" if names else "it ended early"
        return str(self.result.get("why", early))

    def summary(self) -> Summary:
        """Return the mean, clamped to the range, and who took part.

        A radius that is a large part of the range is warned about.
        """
        rows, notes = list[Row](), tuple[str, ...]()
        answer = self.result.get("answer")
        if self.ran:
            used = f"{min(self.result['used'], default=0)} of {self.result['agents']}"
            mean = Row("mean", _mean(self.result["mean"]) or "none", "public, clamped to the range")
            rows = [*([] if answer else [mean]), Row("agents", used, "took part")]
        if "radius" in self.result:
            meaning = "promised with 95% probability for this many agents"
            rows.append(Row("radius", up(self.result["radius"]), meaning))
            if "low" in self.result:  # stores of earlier versions lack the range
                wide = wide_radius(self.result["radius"], self.result["high"] - self.result["low"])
                notes = () if wide is None else (wide,)
        if self.result.get("one_liar") is not None:  # stores of earlier versions lack it
            meaning = "one dishonest agent can move the result by at most this, before it is clamped"
            rows.append(Row("one liar", up(self.result["one_liar"]), meaning))
        asked = {} if answer is None else {"Answer": answer_rows(answer)}
        return Summary(f"{self.name} is over: {self.state}", {**asked, "Session": rows}, notes)


@final
@dataclass(frozen=True)
class SeriesReport(Shown):
    """A series that has begun: what it promises, and who joined."""

    name: str
    state: str
    promise: SeriesExplanation
    result: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        return {"name": self.name, "state": self.state, "promise": self.promise.as_dict(), **self.result}

    def summary(self) -> Summary:
        """Return when it runs and who joined; `promise` has rows of its own."""
        session, series = self.promise.session, self.promise.series
        joined, refused = self.result.get("joined", []), self.result.get("refused", {})
        everyone = f"of {session.n} agents and {len(session.keepers)} keepers"
        rows = [
            Row("begins", _when(series.begins), "the first slot"),
            Row("ends", _when(series.ends), "the last slot"),
            Row("joined", str(len(joined)), everyone),
            *(Row("refused", name, why) for name, why in refused.items()),
        ]
        show, cancel = f"tacit hub show HUB --means {self.name}", f"tacit hub cancel HUB {self.name}"
        notes = (f"`{show}` has its means, `{cancel}` ends it.",) if self.state == "running" else ()
        return Summary(f"{self.name} is {self.state}", {"": rows}, notes)


@final
@dataclass(frozen=True)
class SeriesMeans(Shown):
    """The mean of every slot of a series that is over."""

    name: str
    state: str
    result: dict[str, Any]
    means: Sequence[dict[str, Any]]

    @classmethod
    def read(cls, home: Path, store: HubStore, name: str) -> SeriesMeans:
        """Read the means of a series from the hub's store."""
        found = [row for row in store.sessions() if row["name"] == name]
        facts = as_facts(found)[0] if found else {}
        result = facts.get("result") or {}
        if not result.get("series"):
            raise InputError(f"this hub has no series called {name}: see `tacit hub show {home}`.")
        session = Session.decode(found[0]["data"])
        return cls(name, facts["state"], result, _slots(session, store.means(session.id)))

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        return {"name": self.name, "state": self.state, **self.result, "means": list(self.means)}

    def summary(self) -> Grid:
        """Return one row per slot, marked where agents are missing."""
        agents = self.result["agents"]
        rows = [
            [
                str(one["slot"]),
                _when(one["begins"]),
                _mean(one["mean"]) or _estimates(one.get("answer")) or "lost",
                "" if one["deviation"] is None else up(one["deviation"]),
                f"{one['used']} of {agents}",
                "" if not one["used"] else absences(one["used"], agents, one["incomplete_before"]),
            ]
            for one in self.means
        ]
        return _grid(["slot", "begins", "mean", "deviation", "messages", ""], rows)


def _slots(session: Session, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the slots of a series with the noise of each mean.

    The noise follows from how many messages and members each slot has, whatever the sums are.
    """
    assert session.series is not None
    decoder, found = session.series.decoder(len(session.keepers), session.question), []
    for row in rows:
        decoder.add([0] * session.components, row["used"], row["members"])
        noise = {"deviation": decoder.deviation(), "incomplete_before": decoder.incomplete_before}
        one = {**row, **noise, "begins": session.series.begin_of(row["slot"])}
        if session.asked is not None and row["mean"] is not None:
            answer = kept_answer(session, row["mean"], row["members"], noise["deviation"] or 0.0)
            one |= {"mean": None, "answer": answer.as_dict()}
        found.append(one)
    return found


@final
@dataclass(frozen=True)
class HubOverview(Shown):
    """A hub: its address, members, tasks, and last sessions."""

    path: Path
    about: dict[str, Any]
    members: list[dict[str, Any]]
    tasks: list[dict[str, Any]]
    sessions: list[dict[str, Any]]
    last: int
    """How many tasks are shown to people, at most."""
    listed: bool = False
    """Whether members are listed, however many there are."""

    @classmethod
    def read(cls, home: Path, store: HubStore, last: int) -> HubOverview:
        """Read the hub's store; of the sessions only the last ones."""
        from tacit.live.fleet.hub import SERVING  # loads all of the hub

        about = {
            "address": store.setting("address"),
            "authority": load_authority(home / AUTHORITY).certificate.key_fingerprint,
            "state": store.setting("state", SERVING) if is_served(home) else "not running",
            "open_invitations": store.open_invitations(time.time()),
        }
        tasks, served = as_facts(store.tasks()), is_served(home)
        revoked = _revoked_keys(home)
        members = [
            {**one, "state": _state(one, served, one["key"] in revoked)} for one in as_facts(store.members())
        ]
        return cls(home, about, members, tasks, as_facts(store.sessions(most=last)), last)

    def only(self, pattern: str, state: str | None) -> HubOverview:
        """Return it with these members only, who are then all listed."""
        found = [
            one for one in self.members if fnmatchcase(one["name"], pattern) and state in (None, one["state"])
        ]
        return replace(self, members=found, listed=True)

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        return {**self.about, "members": self.members, "tasks": self.tasks, "sessions": self.sessions}

    def summary(self) -> Summary:
        """Return the hub's address and state; `grids` has the rest."""
        rows = [Row(name.replace("_", " "), str(fact)) for name, fact in self.about.items()]
        states = Counter(one["state"] for one in self.members)
        shown = ", ".join(f"{states[state]:,} {state}" for state in STATES if states[state])
        rows.append(Row("members", f"{len(self.members):,}", shown))
        versions = Counter(one["version"] for one in self.members if one["version"])
        if len(versions) > 1:
            rows.append(Row("versions", ", ".join(f"{name}: {n:,}" for name, n in versions.most_common(5))))
        few = self.listed or len(self.members) <= _LISTED
        notes = () if few else ("`--member PATTERN` and `--state STATE` list members.",)
        return Summary(f"Hub in {self.path}", {"": rows}, notes)

    def grids(self) -> list[Grid]:
        """Return the tables of members, tasks, sessions and series."""
        series = [one for one in self.sessions if (one["result"] or {}).get("series")]
        others = [one for one in self.sessions if one not in series]
        listed = self.members if self.listed or len(self.members) <= _LISTED else []
        tables: list[tuple[list[str], Iterable[list[str]]]] = [
            (
                ["member", "role", "state", "last connected", "version", "refused", "key"],
                map(_member, listed),
            ),
            (["task", "every", "sessions", "state", ""], map(_task, self.tasks[-self.last :])),
            (["session", "begun", "state", "result", "radius", "agents"], map(_session, others)),
            (
                [
                    "series",
                    "state",
                    "slots",
                    "lost",
                    "incomplete",
                    "last mean",
                    "deviation",
                    "messages",
                    "ends",
                ],
                map(_series, series),
            ),
        ]
        made = [_grid(columns, list(rows)) for columns, rows in tables]
        return [grid for grid in made if grid.rows]


def _grid(columns: list[str], rows: list[list[str]]) -> Grid:
    return Grid("", columns, rows, right=tuple(range(len(columns))))


def _member(facts: dict[str, Any]) -> list[str]:
    words = [facts["name"], facts["role"], facts["state"], f"{_when(facts['seen'])[:16]}"]
    return [*words, facts["version"] or "", facts["refused"] or "", facts["key"]]


def _revoked_keys(home: Path) -> set[str]:
    found = read_revocations(home / AUTHORITY / REVOKED, load_authority(home / AUTHORITY).certificate)
    return set() if found is None else {key_text(one.key) for one in found.entries if one.key is not None}


def _state(facts: dict[str, Any], served: bool, revoked: bool) -> str:
    if revoked:
        return "revoked"
    if served and facts["connected"]:
        return "connected"
    return "expired" if facts["expires"] is not None and facts["expires"] <= time.time() else "away"


def _task(facts: dict[str, Any]) -> list[str]:
    every = "once" if facts["every"] is None else f"{facts['every']:g} s"
    return [facts["name"], every, str(facts["started"]), facts["state"], facts["note"] or ""]


def _session(facts: dict[str, Any]) -> list[str]:
    result = facts["result"] or {}
    radius = "" if result.get("radius") is None else up(result["radius"])
    used = f"{min(result['used'])} of {result['agents']}" if result.get("used") else ""
    begun = _when(facts["made"])
    found = _mean(result.get("mean")) or _parts(result.get("answer"))
    return [facts["name"], begun, facts["state"], found, radius, used]


def _series(facts: dict[str, Any]) -> list[str]:
    result = facts["result"]
    about = result["series"]
    over, used = f"{result['over']:,} of {about['slots']:,}", f"{result['used'][0]} of {result['agents']}"
    mean, noise = _mean(result["mean"]) or _parts(result.get("answer")), result.get("deviation")
    deviation = "" if noise is None else up(noise)
    return [
        facts["name"],
        facts["state"],
        over,
        str(result["lost"]),
        str(result.get("incomplete", "")),
        mean,
        deviation,
        used,
        _when(about["ends"]),
    ]


def _estimates(answer: dict[str, Any] | None) -> str:
    """Return the first parts of an answer as text: empty without one."""
    if answer is None:
        return ""
    parts = [f"{part['name']}: {near(part['estimate'])}" for part in answer["parts"]]
    return "; ".join(parts[:_PARTS]) + ("; …" if len(parts) > _PARTS else "") or "no answer"


def _mean(mean: float | list[float] | None) -> str:
    """Return a mean as text: empty without one; of a vector, its length."""
    if mean is None:
        return ""
    return f"{len(mean):,} numbers" if isinstance(mean, list) else near(mean)


def _parts(answer: dict[str, Any] | None) -> str:
    """Return the kind of a question and how many parts its answer has."""
    if answer is None:
        return ""
    kind = answer["question"].partition(":")[0]
    if len(answer["parts"]) == 1:
        return f"{kind} {near(answer['parts'][0]['estimate'])}"
    return f"{kind}: {counted(len(answer['parts']), 'part')}"


def _when(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M:%S}"
