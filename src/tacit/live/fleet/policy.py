"""An owner's policy: a TOML file that decides which sessions to join.

The decision never depends on the value. The loss of a session is not checked here: the ledger reserves it, or
refuses, before anything is sent.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import msgspec

from tacit.base.arguments import plain
from tacit.base.errors import FileError, InputError
from tacit.base.report import counted
from tacit.core.protocol.fields import converted
from tacit.core.question import Mean, Question, parse_question, short_form
from tacit.core.series import Hides
from tacit.core.theory.privacy import require_adjacency
from tacit.live.fleet.invitation import require_addresses
from tacit.live.fleet.messages import AGENT, KEEPER, Refusal
from tacit.live.fleet.sources import (
    CallableSource,
    CommandSource,
    EnvironmentSource,
    FileSource,
    LinesSource,
    ValueSource,
)
from tacit.live.identity.keys import key_bytes
from tacit.live.ledger.budget import Hidden, Window, require_amount, require_label, require_probability
from tacit.live.sessions.file import text_of, toml_of
from tacit.live.sessions.trust import require_trusted_keeper

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tacit.core.protocol.session import Session
    from tacit.live.ledger.ledger import Ledger

FORMAT = 1
MOST_ROUNDS, MOST_SESSIONS, MOST_COMPONENTS = 10_000, 64, 100_000
"""Default limits: rounds of a session, sessions at once, and components of a session that a keeper keeps."""
_KEPT = ("longest", "rounds", "sessions", "components")
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?")
_UNITS = {"ms": 0.001, "s": 1.0, None: 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")


def seconds(text: str | float, what: str) -> float:
    """Read a time: a number of seconds, or text like 30s, 5m, 2h, 1d."""
    found = _TIME.fullmatch(str(text).strip())
    number = math.nan if found is None else float(found[1]) * _UNITS[found[2]]
    if not math.isfinite(number):
        raise InputError(f"{what} must be a time such as 30s, 5m, 2h or 1d, got {text!r}.")
    return number


class ValuePolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The value: where it comes from, and what may be asked about it."""

    low: float | None = None
    high: float | None = None
    components: int = 1
    accept: tuple[str, ...] = ()
    label: str = "value"
    file: str | None = None
    command: tuple[str, ...] | None = None
    env: str | None = None
    stdin: bool = False
    timeout: str | float = "10s"


class WindowPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A cap on the loss of all sessions begun within some time."""

    time: str | float
    cap: float


class LimitPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits on loss, frequency and duration, and what series must hide."""

    cap: float | None = None
    adjacency: float | None = None
    hides: str | None = None
    delta: float | None = None
    windows: tuple[WindowPolicy, ...] = ()
    pause: str | float = 0.0
    longest: str | float = "1d"
    rounds: int = MOST_ROUNDS
    sessions: int = MOST_SESSIONS
    components: int | None = None


class _PolicyFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: int
    hub: str | tuple[str, ...]
    authority: str
    keys: str
    ledger: str
    role: str = AGENT
    witness: str | None = None
    value: ValuePolicy | None = None
    limits: LimitPolicy | None = None
    trust: dict[str, str] = {}


@final
@dataclass(frozen=True)
class PolicyRefusal:
    """Why a session is refused: a word for the hub, and one sentence."""

    why: Refusal
    sentence: str


@final
@dataclass(frozen=True)
class Policy:
    """What an owner allows.

    Attributes
    ----------
    hubs : tuple of str
        The addresses of the hub to follow, ``wss://host:port``. They are tried in turn.
    authority : str
        The fingerprint of the key of the authority that `keys` trusts.
    cap, adjacency : float
        The largest loss on the value over all sessions, for values that differ by at most `adjacency` (None:
        any two values).
    accepts : Hidden, optional
        Which change series must hide, and the failure probability of all of them together. Without it series
        are refused.
    windows : tuple of Window
        Caps on the loss of all sessions begun within some time.
    pause : float
        Minimum seconds between the starts of two sessions.
    longest : float
        A session that could last longer than this many seconds is refused.
    rounds, sessions : int
        A session with more rounds is refused, and one that comes while so many are under way. A series has
        slots instead of rounds: `longest` limits it.
    questions : dict
        Of an agent: the questions that it answers, each with the fields of its source that have the record.
        A session must ask one of these exactly: other edges or another range would tell other things.
    components : int
        Of a keeper: the most that a session may have.
    trust : dict
        Keepers that the owner trusts, with their keys.
    witness : path, optional
        A file on another disk or host that detects a ledger restored from a backup (`tacit ledger witness`).
        One is made together with a new ledger.
    """

    hubs: tuple[str, ...]
    authority: str
    keys: Path
    ledger: Path
    role: str
    questions: dict[Question, tuple[str, ...]] = field(default_factory=dict)
    components: int = 1
    label: str = "value"
    cap: float = 0.0
    adjacency: float | None = None
    accepts: Hidden | None = None
    windows: tuple[Window, ...] = ()
    pause: float = 0.0
    longest: float = 86_400.0
    rounds: int = MOST_ROUNDS
    sessions: int = MOST_SESSIONS
    trust: dict[str, bytes] | None = None
    source: ValueSource | None = None
    witness: Path | None = None

    def judge(  # noqa: PLR0911 - one return for each reason
        self, session: Session, me: tuple[str, bytes], ledger: Ledger, now: float
    ) -> PolicyRefusal | None:
        """Return why a session is refused, None if all but its cost is allowed."""
        where = f"session {session.name}"
        if session.topology != "server":
            return PolicyRefusal("topology", f"{where} has no coordinator")
        number = session.member_number(*me)
        if number is None or (number >= session.n) != (self.role == KEEPER):
            return PolicyRefusal("roster", f"{where} does not name {me[0]} with its key as {self.role}")
        if (refusal := self._judge_time(where, session, now)) is not None:
            return refusal
        if session.series is None and session.rounds > self.rounds:
            return PolicyRefusal(
                "rounds",
                f"{where} has {session.rounds:,} rounds, more than limits.rounds in the policy "
                f"({self.rounds:,})",
            )
        if self.role == KEEPER:
            return self._judge_kept(where, session)
        if session.motion is not None:
            return PolicyRefusal(
                "question",
                f"{where} is of agents with their own dynamics, which no policy allows: its owner joins "
                "it by hand (`tacit join`)",
            )
        if session.question not in self.questions:
            return self._judge_question(where, session.question)
        if (refusal := self.judge_series(session)) is not None:
            return refusal
        try:
            require_trusted_keeper(session, self.trust or {})
        except InputError as error:
            return PolicyRefusal("keepers", str(error))
        if now < (last := ledger.last_begun(self.label)):
            return PolicyRefusal(
                "clock",
                f"{where} comes while this machine's clock says {_utc(now)}, before the last session here "
                f"began ({_utc(last)}): the clock was set back, or was ahead then. Set it right",
            )
        if now - last < self.pause:
            return PolicyRefusal("pause", f"{where} comes less than {self.pause:g} s after the one before")
        return None

    def _judge_time(self, where: str, session: Session, now: float) -> PolicyRefusal | None:
        if now >= session.expires:
            return PolicyRefusal("expired", f"{where} expired on {session.expiry}")
        if session.closes is not None and now >= session.closes and self.role == AGENT:
            return PolicyRefusal("expired", f"{where} has closed: a message would be in no sum")
        if session.expires - now > self.longest:
            return PolicyRefusal(
                "long",
                f"{where} lasts until {session.expiry}, longer than limits.longest in the policy allows",
            )
        return None

    def _judge_question(self, where: str, asked: Question) -> PolicyRefusal:
        accepted = " or ".join(map(short_form, self.questions))
        word: Refusal = "question"
        if isinstance(asked, Mean) and all(isinstance(one, Mean) for one in self.questions):
            word = "range"  # the same question about other numbers
        return PolicyRefusal(
            word, f"{where} asks for {plain(short_form(asked))}, and the policy accepts only {accepted}"
        )

    def _judge_kept(self, where: str, session: Session) -> PolicyRefusal | None:
        if session.components > self.components:
            return PolicyRefusal(
                "components",
                f"{where} has {session.components:,} components, more than limits.components in the policy "
                f"({self.components:,})",
            )
        return None

    def judge_series(self, session: Session) -> PolicyRefusal | None:
        """Return why a series is refused, whatever it costs.

        The ledger adds up all series.
        """
        where, series = f"session {session.name}", session.series
        if series is None:
            return None
        hides, delta = session.hidden, f"{series.delta:g}"
        assert hides is not None
        if self.accepts is None:
            return PolicyRefusal(
                "series",
                f"{where} is a series. It hides {hides} and no other change of the readings, and fails to "
                f"with a probability of {delta}. If that is what you want hidden, write "
                f'hides = "{hides}" and delta = {delta} into [limits] of the policy',
            )
        if not hides.covers(self.accepts.hides):
            wanted = self.accepts.hides
            return PolicyRefusal("hides", f"{where} hides {hides}, and the policy wants {wanted} hidden")
        if series.delta > self.accepts.delta:
            return PolicyRefusal(
                "delta",
                f"{where} fails with a probability of {delta}, and the policy accepts "
                f"{self.accepts.delta:g} for all series together",
            )
        return None


def _utc(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M} UTC"


def read_policy(path: str | Path, value: Callable[[], Any] | None = None) -> Policy:
    """Read a policy; `value` takes the place of its source.

    Relative paths in it are relative to its directory.
    """
    place = Path(path)
    entries = toml_of(text_of(place), str(place))
    try:
        found = converted(entries, _PolicyFile, str(place))
    except FileError as error:
        hint = f" [value] takes {', '.join(ValuePolicy.__struct_fields__)}."
        raise FileError(f"{error}{hint if f'{place}, value.' in str(error) else ''}") from None
    try:
        return _policy(found, place.resolve().parent, value)
    except FileError:
        raise
    except InputError as error:
        raise FileError(f"{place}: {error}") from None


def _policy(found: _PolicyFile, beside: Path, function: Callable[[], Any] | None) -> Policy:
    if found.format != FORMAT:
        raise InputError(f"format must be {FORMAT}, got {found.format}.")
    hubs = (found.hub,) if isinstance(found.hub, str) else found.hub
    require_addresses(hubs)
    if not _FINGERPRINT.fullmatch(found.authority):
        raise InputError("authority must be a fingerprint of 64 characters, as `tacit keys show` prints it.")
    if found.role not in (AGENT, KEEPER):
        raise InputError(f"role must be {AGENT} or {KEEPER}, got {found.role!r}.")
    common: dict[str, Any] = {
        "hubs": hubs,
        "authority": found.authority,
        "keys": beside / found.keys,
        "ledger": beside / found.ledger,
        "role": found.role,
        "witness": None if found.witness is None else beside / found.witness,
    }
    if found.role == KEEPER:
        if found.value is not None or found.trust or function is not None:
            raise InputError("a keeper has no value and trusts nobody: remove [value] and [trust].")
        given = found.limits or LimitPolicy()
        _require_keeper_limits(given)
        most = MOST_COMPONENTS if given.components is None else given.components
        return Policy(**common, **_work(given), components=_count(most, "components"))
    value, limits = found.value, found.limits
    if value is None or limits is None or (cap := limits.cap) is None:
        raise InputError("an agent needs [value], and [limits] with a cap.")
    if limits.components is not None:
        raise InputError("limits.components is for keepers: an agent's sessions have value.components.")
    questions, source = _questions(value), _source(value, beside, function)
    source.names = questions
    return Policy(
        **common,
        questions=questions,
        label=require_label(value.label),
        cap=require_amount(cap, "limits.cap", endless=True),
        adjacency=None if limits.adjacency is None else require_adjacency(limits.adjacency),
        accepts=_accepted(limits),
        windows=tuple(Window(seconds(one.time, "a window's time"), one.cap) for one in limits.windows),
        pause=seconds(limits.pause, "limits.pause"),
        **_work(limits),
        trust={name: key_bytes(key, f"the key of {name}") for name, key in found.trust.items()},
        source=source,
    )


def accepted_question(text: str) -> tuple[Question, tuple[str, ...]]:
    """Read a question that an owner accepts, like `load=mean:0:10`.

    Before the equals sign are the fields of the source that have the record, if it has names for them.
    """
    before, equals, after = text.partition("=")
    if not equals or ":" in before:
        return parse_question(text), ()
    question, names = parse_question(after), tuple(name.strip() for name in before.split(","))
    if len(names) != len(question.fields) or not all(names):
        raise InputError(
            f"{short_form(question)} has records of {counted(len(question.fields), 'field')}, got the names "
            f"of {len(names)}: {before}."
        )
    return question, names


def _questions(value: ValuePolicy) -> dict[Question, tuple[str, ...]]:
    given = (value.low, value.high)
    if value.accept:
        if given != (None, None) or value.components != 1:
            raise InputError(
                "value.accept says all that is accepted: remove low, high and components, and write "
                "mean:LOW:HIGH there if you want it."
            )
        found = [accepted_question(text) for text in value.accept]
        if len({question for question, _ in found}) < len(found):
            raise InputError("each question of value.accept must be there once.")
        return dict(found)
    if value.low is None or value.high is None or not value.low < value.high:
        raise InputError("value.low must be below value.high, or value.accept must name questions.")
    return {Mean(value.low, value.high, value.components): ()}


def _work(limits: LimitPolicy) -> dict[str, Any]:
    """Return the limits on work, which agents and keepers have."""
    return {
        "longest": seconds(limits.longest, "limits.longest"),
        "rounds": _count(limits.rounds, "rounds"),
        "sessions": _count(limits.sessions, "sessions"),
    }


def _count(number: int, name: str) -> int:
    if number < 1:
        raise InputError(f"limits.{name} must be at least 1, got {number}.")
    return number


def _require_keeper_limits(limits: LimitPolicy) -> None:
    """Refuse limits that a keeper does not honour: those about a value."""
    unset = LimitPolicy()
    for name in limits.__struct_fields__:
        if name not in _KEPT and getattr(limits, name) != getattr(unset, name):
            raise InputError(
                f"limits.{name} is about a value, and a keeper has none: remove it. Of [limits] a keeper "
                f"honours only {', '.join(_KEPT)}."
            )


def _accepted(limits: LimitPolicy) -> Hidden | None:
    if (limits.hides is None) != (limits.delta is None):
        raise InputError("limits.hides and limits.delta go together: both say what you accept of series.")
    if limits.hides is None or limits.delta is None:
        return None
    hides = Hides.parse(limits.hides)
    if limits.adjacency is not None and limits.adjacency < hides.change:
        raise InputError(
            f"limits.adjacency must cover the change that series hide ({limits.hides}), got "
            f"{limits.adjacency:g}: leave it out, and the cap is for any two values."
        )
    return Hidden(hides, require_probability(limits.delta))


def _source(value: ValuePolicy, beside: Path, function: Callable[[], Any] | None) -> ValueSource:
    given = [name for name in ("file", "command", "env") if getattr(value, name) is not None]
    given += ["stdin"] if value.stdin else []
    if function is not None:
        if given:
            raise InputError(f"the value comes from a function: remove value.{given[0]}.")
        return CallableSource(function)
    if len(given) != 1:
        raise InputError(
            "the value must come from one place: give one of value.file, command, env and stdin."
        )
    if value.file is not None:
        return FileSource(beside / value.file)
    if value.command is not None:
        if not value.command:
            raise InputError("value.command must name a program.")
        return CommandSource(value.command, seconds(value.timeout, "value.timeout"))
    return LinesSource() if value.stdin else EnvironmentSource(str(value.env))


def policy_text(
    *, hub: str | Sequence[str], authority: str, keys: Path, ledger: Path, role: str = AGENT, **more: Any
) -> str:
    """Return a policy as the text of its file."""
    written = json.dumps
    lines = [
        "# What this agent may do: read by `tacit agent`. See docs/reference/files.md.",
        f"format = {FORMAT}",
        f"hub = {written(hub if isinstance(hub, str) or len(hub) > 1 else hub[0])}",
        f"authority = {written(authority)}",
        f"keys = {written(str(keys))}",
        f"ledger = {written(str(ledger))}",
        f"role = {written(role)}",
    ]
    for table in ("value", "limits", "trust"):
        if more.get(table):
            lines += ["", f"[{table}]"]
            lines += [
                f"{_key(key)} = {_toml(entry)}" for key, entry in more[table].items() if entry is not None
            ]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return name if name.replace("_", "").isalnum() else json.dumps(name)


def _toml(entry: Any) -> str:
    if isinstance(entry, dict):
        return "{ " + ", ".join(f"{_key(key)} = {_toml(value)}" for key, value in entry.items()) + " }"
    if isinstance(entry, list | tuple):
        return "[" + ", ".join(map(_toml, entry)) + "]"
    return json.dumps(entry)
