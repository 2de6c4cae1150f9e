"""What a running hub or member shows of itself, for people and programs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, final

from tacit.report import Row, Shown, Summary, near, up
from tacit.runtime.status.reader import kind_of

_NAMES = 5  # that are listed; of more only the number is shown


@final
@dataclass(frozen=True)
class StatusReport(Shown):
    """A status as `read_status` returned it. Nothing private is in it."""

    found: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """Return the status as it was served."""
        return self.found

    def summary(self) -> Summary:
        """Return the rows of a hub, its follower, or a session's member."""
        found, now = self.found, time.time()
        match kind_of(found):
            case "hub":
                return Summary(f"hub at {found['hub']}", {"": _hub_rows(found, now)})
            case "follower":
                title = f"{found['member']}, {found['role']} of the hub at {found['hub']}"
                return Summary(title, {"": _follower_rows(found, now)})
            case _:
                title = f"{found['member']} of session {found['session']}"
                return Summary(title, {"": _member_rows(found, now)})


def _hub_rows(found: dict[str, Any], now: float) -> list[Row]:
    roles = list(found["members"].values())
    outcomes = found.get("outcomes", {})
    rows = [
        Row("state", str(found["state"])),
        Row("connected", f"{roles.count('agent')} agents, {roles.count('keeper')} keepers"),
        Row("under way", _few(found["running"]) or "no session"),
        Row("sessions", _counts(outcomes) or "none yet", "as far as they are kept"),
    ]
    if found.get("rounds") is not None:
        rows.append(Row("rounds", f"{found['rounds']:,}", "of sessions that ended since the start"))
    if found.get("refusals"):
        rows.append(Row("refusals", _counts(found["refusals"]), "by reason, since the start"))
    rows.append(Row("invitations", str(found.get("open_invitations", 0)), "can still be used"))
    rows += _certificate(found, now)
    if found.get("trouble"):
        rows.append(Row("trouble", str(found["trouble"])))
    if last := next((one for one in reversed(found["sessions"]) if one.get("result")), None):
        mean = last["result"].get("mean")
        shown = (
            _few([near(y) for y in (mean if isinstance(mean, list) else [mean])])
            if mean is not None
            else "none"
        )
        rows.append(Row("last mean", shown, f"of {last['name']}, {last['state']}"))
    return rows


def _follower_rows(found: dict[str, Any], now: float) -> list[Row]:
    rows = [
        Row("connected", "yes" if found["connected"] else "no"),
        Row("under way", f"{found.get('sessions_running', 0)} sessions"),
        Row(
            "since the start", ", ".join(f"{found.get(k, 0)} {k}" for k in ("joined", "finished", "stopped"))
        ),
    ]
    if found.get("refused"):
        rows.append(Row("refused", _counts(found["refused"]), "sessions not joined, by reason"))
    if found.get("loss"):
        rows.append(Row("loss", up(found["loss"]["spent"]), f"of the cap of {near(found['loss']['cap'])}"))
    for window in found.get("windows", []):
        about = f"of the cap of {near(window['cap'])} for {near(window['seconds'])} s"
        rows.append(Row("in the window", up(window["spent"]), about))
    rows += _certificate(found, now)
    if found.get("trouble"):
        rows.append(Row("trouble", str(found["trouble"])))
    return rows


def _member_rows(found: dict[str, Any], now: float) -> list[Row]:
    rows = [Row("phase", str(found["phase"])), Row("round", f"{found['round']} of {found['rounds']}")]
    rows += _network(found, now)
    if found.get("present") is not None:
        rows.append(Row("present", f"{found['present']} of {found.get('agents')}"))
    if found.get("used") is not None:
        rows.append(Row("messages used", str(found["used"])))
    rows += [Row(name, _few(found[name])) for name in ("late", "quiet") if found.get(name)]
    if found.get("behind"):
        rows.append(Row("behind", f"{found['behind']} rounds"))
    if found.get("refused"):
        rows.append(Row("refused", _counts(found["refused"])))
    if found.get("equivocations"):
        rows.append(
            Row("equivocated", _few(sorted({str(one.get("sender")) for one in found["equivocations"]})))
        )
    if found.get("lost_history"):
        rows.append(Row("history", "others have more rounds than this ledger: it is not the newest"))
    if found.get("loss"):
        loss = found["loss"]
        parts = [f"{up(loss[name])} {name}" for name in ("spent", "planned", "cap") if name in loss]
        rows.append(Row("loss", ", ".join(parts)))
    if found.get("feedback") is not None:
        rows.append(Row("feedback", _few([near(y) for y in found["feedback"]]), found.get("absences") or ""))
    if found.get("deviation") is not None:
        rows.append(Row("deviation", up(found["deviation"]), "of the noise in it, for the agents used"))
    return rows


def _network(found: dict[str, Any], now: float) -> list[Row]:
    """Say how the member is connected, if its status does."""
    rows = []
    if found.get("connected") is not None:
        rows.append(Row("connected to", _few(found["connected"]) or "nobody"))
    if found.get("heard") is not None:
        rows.append(Row("last heard", f"{max(0.0, now - found['heard']):.0f} s ago"))
    rows += _certificate(found, now)
    if found.get("trouble"):
        rows.append(Row("trouble", str(found["trouble"])))
    return rows


def _certificate(found: dict[str, Any], now: float) -> list[Row]:
    if found.get("certificate_expires") is None:
        return []
    left = found["certificate_expires"] - now
    return [Row("certificate", f"valid for {left / 86400:.1f} more days" if left > 0 else "has expired")]


def _counts(found: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(found.items()))


def _few(names: list[str]) -> str:
    more = len(names) - _NAMES
    return ", ".join(map(str, names[:_NAMES])) + (f" and {more} more" if more > 0 else "")
