"""What a session says: each field once, with its type, default and words.

From these tables follow the session file (`tacit.live.sessions.file`), the canonical bytes (`canonical`),
the options of `tacit session new` and `tacit hub run`, and the table of fields in docs/reference/wire.md.
Others implement from that table: `rule` says which values are allowed.

A new field gets a default that means "exactly as before the field existed". The default is part of the wire
format for ever: no session without the field gets another id. A field that decides about privacy has no
default. What is computed, such as a quorum, is None until it is known, and written as a number.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, final, get_type_hints

import msgspec
from msgspec import structs
from msgspec.structs import FieldInfo, asdict, force_setattr

from tacit.base.errors import LawError, ParameterError
from tacit.core.law import named
from tacit.core.mechanism.lattice import Lattice
from tacit.core.protocol.fields import (
    AgentNumber,
    Digest,
    Endpoint,
    FieldTable,
    MemberKey,
    Real,
    Time,
    about,
    converted,
    declared,
    default_of,
    fields_of,
    kind_of,
    misplaced,
)
from tacit.core.protocol.moving import TABLES, moving_fields, moving_of
from tacit.core.protocol.roster import Member, OneOf
from tacit.core.protocol.series import Series
from tacit.core.question import Mean, Question, question_named

if TYPE_CHECKING:
    from tacit.core.protocol.session import Session

FORMAT: Final = 7
"""The format of session files and canonical bytes. A new field needs no new format."""
MOST_SECONDS: Final = 366 * 86_400.0
PerMember = float | tuple[float, ...]
"""One number for all agents, or one for each in the order of the roster."""
_G = TypeVar("_G", bound="Group")


# ---- tables -----------------------------------------------------------------------------------------


class Group(FieldTable, frozen=True):
    """A table whose fields are attributes of a `Session`."""


class Listed(FieldTable, frozen=True):
    """A member, as a file lists it."""

    name: Annotated[
        str,
        about(
            "1 to 64 letters, digits, dots, underscores or dashes (ASCII).",
            rule="begins with a letter or digit",
        ),
    ]
    key: Annotated[MemberKey, about("Its Ed25519 public key.")]
    address: Annotated[Endpoint | None, about("Where it listens. Not part of the session.")] = None

    def __post_init__(self) -> None:
        self.member()  # refuses a name that cannot be used, and msgspec says which one

    def member(self) -> Member:
        """Return the member without its address."""
        return Member(str(self.name), bytes(self.key))


class Values(Group, frozen=True):
    """What an agent's value is, and which change of it is hidden."""

    low: Annotated[Real, about("The least value. Smaller ones count as this.", rule="no negative zero")]
    high: Annotated[
        Real, about("The largest value. Larger ones count as this.", rule="above `low`; no negative zero")
    ]
    components: Annotated[int, about("How many numbers a value has (k).", rule="1 to 1,000,000")]
    adjacency: Annotated[
        Real,
        about("Two values of one agent that differ by at most this are hard to tell apart.", rule="positive"),
    ]


class NumberGrid(Group, frozen=True):
    """The grid of all numbers; see `tacit.core.mechanism.lattice.Lattice`."""

    state_exponent: Annotated[
        int, about("States are whole numbers of 2^state_exponent (s).", rule="−900 to 900")
    ]
    bits: Annotated[int, about("Messages are this many bits finer than their noise.", rule="8 to 51")]
    reach_exponent: Annotated[
        int, about("No number is beyond 2^reach_exponent (r).", rule="at most 1000; see section 3")
    ]


class Deadlines(FieldTable, frozen=True):
    """How long to wait, in seconds.

    Parameters
    ----------
    round : float
        A round that lasts longer closes without missing messages, if the quorum has sent.
    start : float
        The start waits this long for the whole roster; after that the minimum number is enough.
    repeat : float
        A message without an answer is sent again after this time, then with exponential backoff.
    """

    round: Annotated[
        Real,
        about(
            "Seconds until a round closes without agents that are late.",
            option="round_deadline",
            verbs=("session", "hub"),
            rule="above 0, to 31,622,400; in a series at most the interval",
        ),
    ] = 30.0
    start: Annotated[
        Real,
        about(
            "Seconds to wait for all agents. Then fewer are enough.",
            option="start_deadline",
            verbs=("session", "hub"),
            rule="above 0, to 31,622,400",
        ),
    ] = 60.0
    repeat: Annotated[
        Real,
        about(
            "Seconds until an unanswered message is sent again.",
            rule="above 0, to 31,622,400",
        ),
    ] = 1.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise ParameterError(f"the {name} deadline must be a finite number, got {value!r}.")
            if not 0 < value <= MOST_SECONDS:
                raise ParameterError(f"the {name} deadline must be from above 0 to a year, got {value} s.")
            force_setattr(self, name, float(value))


class Quorum(Group, frozen=True, rename={"quorum": "round"}):
    """How many must take part."""

    quorum: Annotated[
        int | None,
        about(
            "Minimum messages to close a round.",
            option="quorum",
            verbs=("session", "hub"),
            otherwise="over half; on a graph 2",
            rule="1 to N; always written",
        ),
    ] = None
    start: Annotated[
        int | None,
        about(
            "Minimum agents present to start, after the start deadline.",
            option="start",
            verbs=("session",),
            otherwise="the quorum",
            rule="`quorum.round` to N; always written",
        ),
    ] = None


_Mechanism = Annotated[
    dict[str, Any],
    about(
        "`law`, `rounds` and the law's parameters: `mixing`, `noise`, `decay` or its own.",
        rule="below",
    ),
]
_Values = Annotated[Values, about("What a value is.")]
_Question = Annotated[
    dict[str, Any] | None,
    about(
        "What is asked: its `kind`, and all parameters of that kind.",
        otherwise="the mean of the values",
        rule="below",
    ),
]
_Motion = Annotated[
    dict[str, Any] | None,
    about(
        "How agents with their own dynamics move: its `kind`, and all parameters of that kind.",
        otherwise="they mix",
        rule="below",
    ),
]
_Grid = Annotated[NumberGrid, about("The grid of all numbers.")]


_AGENTS: Final = "of a graph: 2 to 100,000; with a server never written, `root` stands for it"


class AnySession(Group, frozen=True, kw_only=True):
    """What all sessions have."""

    format: Annotated[int, about("The format of sessions.", rule=f"{FORMAT}")]
    name: Annotated[str, about("For people; written as a member's name.")]
    expires: Annotated[
        Time,
        about(
            "When the session ends for everyone.",
            remark="nobody joins or speaks from then on",
            rule="1 to 253,402,300,799; of a series not before the end of the last slot plus one interval",
        ),
    ]
    topology: Annotated[str, about("Who talks to whom.", rule="`server` or `graph`")]
    deadlines: Annotated[Deadlines, about("How long to wait.", remark="in seconds")] = msgspec.field(
        default_factory=Deadlines
    )
    quorum: Annotated[Quorum, about("How many must take part.")] = msgspec.field(default_factory=Quorum)


class AroundServer(AnySession, frozen=True, kw_only=True):
    """What sessions with a coordinator have."""

    coordinator: Annotated[MemberKey, about("The coordinator's Ed25519 public key.")]
    coordinator_address: Annotated[
        Endpoint | None, about("Where the coordinator listens. Not part of the session.")
    ] = None
    agents: Annotated[
        int | None,
        about(
            "How many agents there are (N).", otherwise="from the roster", rule="1 to 100,000; always written"
        ),
    ] = None
    root: Annotated[
        Digest | None,
        about("The Merkle root of the roster.", otherwise="from the roster", rule="below; always written"),
    ] = None
    roster: Annotated[
        tuple[Listed, ...],
        about("The agents, numbered in this order.", rule=_AGENTS),
    ] = ()
    keepers: Annotated[
        tuple[Listed, ...],
        about(
            "The members that hold masks and add the noise.",
            otherwise="none",
            rule="at most 16; then c and q are single reals",
        ),
    ] = ()
    mask_bytes: Annotated[
        int | None,
        about(
            "How many bytes a masked number has (w).",
            otherwise="as few as the sum needs",
            rule="at least what section 3 says, at most 4 times that; always written with keepers, never "
            "without",
        ),
    ] = None


class ServerSession(AroundServer, frozen=True, kw_only=True):
    """A session with a coordinator."""

    mechanism: _Mechanism
    motion: _Motion = None
    asked: _Question = msgspec.field(name="question", default=None)
    values: _Values
    lattice: _Grid
    closes: Annotated[
        Time | None,
        about(
            "Until then agents come, send one report, get a receipt, and leave.",
            otherwise="agents stay",
            rule="above 0, before `expires`; only where agents make one report",
        ),
    ] = None


class SeriesSession(AroundServer, frozen=True, kw_only=True):
    """A series of means, with a coordinator."""

    series: Annotated[Series, about("What makes the session a series of means.")]
    asked: _Question = msgspec.field(name="question", default=None)


class GraphSession(AnySession, frozen=True, kw_only=True):
    """A session without a coordinator."""

    roster: Annotated[tuple[Listed, ...], about("The agents, numbered in this order.", rule=_AGENTS)]
    edges: Annotated[
        tuple[tuple[AgentNumber, AgentNumber], ...],
        about(
            "Pairs of agents that talk.",
            rule="`[i, j]` with i < j, in rising order, each once, connecting all",
        ),
    ]
    weights: Annotated[
        str | tuple[tuple[AgentNumber, AgentNumber, int], ...] | None,
        about(
            "How much each message counts: the name of a rule, or how many times an agent counts the "
            "message of another, or its own.",
            otherwise="all count the same",
            rule="`metropolis`, or `[i, j, count]` in rising order, each pair once; j is i or a neighbour, "
            "count 1 to 2⁵³",
        ),
    ] = None
    mechanism: _Mechanism
    motion: _Motion = None
    asked: _Question = msgspec.field(name="question", default=None)
    values: _Values
    lattice: _Grid


KINDS: Final = (ServerSession, GraphSession, SeriesSession)
_ELSEWHERE: Final = ("format", "topology", "coordinator_address", "agents", "root", "roster", "mechanism")
"""What is not an attribute of a session of the same name, or is given beside the tables."""


class _SessionHead(msgspec.Struct):
    format: int
    topology: str | None = None
    series: Any = None


class _LawName(msgspec.Struct):
    law: str


# ---- options ----------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Setting:
    """A field of a session that an option of the command line chooses.

    Attributes
    ----------
    name : str
        The option's name, with underscores.
    table : str, optional
        The attribute of a session whose field it is, such as "deadlines"; None for an attribute itself.
    """

    name: str
    table: str | None
    field: FieldInfo
    meta: msgspec.Meta

    @property
    def default(self) -> Any:
        """What the field has unless it is given."""
        return default_of(self.field)


@lru_cache(maxsize=8)
def settings(verb: str | None = None) -> tuple[Setting, ...]:
    """Return the fields that a verb has options for: "session" or "hub"."""
    every = {setting.name: setting for kind in KINDS for setting in _settings(kind)}
    return tuple(s for s in every.values() if verb is None or verb in (s.meta.extra or {})["verbs"])


def _settings(table: type[msgspec.Struct], attribute: str | None = None) -> Iterator[Setting]:
    for field, meta in declared(table):
        kind = kind_of(field)
        if kind is not None and issubclass(kind, FieldTable):
            yield from _settings(kind, None if issubclass(kind, Group) else field.name)
        elif "option" in (meta.extra or {}):
            yield Setting(meta.extra["option"], attribute, field, meta)  # type: ignore[index]


def chosen(given: Mapping[str, Any], **usual: Any) -> dict[str, Any]:
    """Return attributes of a session: the usual ones, changed by options."""
    found = dict(usual)
    known = {setting.name: setting for setting in settings()}
    for name, value in given.items():
        if (setting := known.get(name)) is None:
            raise ParameterError(f"a session has no option {name!r}: leave it out, or install a newer tacit.")
        if setting.table is None:
            found[setting.field.name] = value
        elif value is not None:
            table = found.get(setting.table) or default_of(_field(setting.table))
            found[setting.table] = structs.replace(table, **{setting.field.name: value})
    return found


def _field(name: str) -> FieldInfo:
    return next(field for kind in KINDS for field in fields_of(kind) if field.name == name)


# ---- reading ----------------------------------------------------------------------------------------

for _table in (_SessionHead, *KINDS, _LawName):
    # msgspec collects what it must know of a class when it is first read. It crashes if two threads do so.
    msgspec.msgpack.Decoder(_table)


def read_tables(entries: Any, what: str, own_type: Callable[[type[Any], Any], Any]) -> AnySession:
    """Read the tables of a session, or name the first mistake and its place."""
    head = converted(entries, _SessionHead, what, own_type)
    if head.format != FORMAT:
        raise misplaced(what, "format", _other_format(head.format))
    if head.topology not in ("server", "graph"):
        given = "" if head.topology is None else f", got {head.topology!r}"
        raise misplaced(what, "topology", f"must be 'server' or 'graph'{given}")
    kind: type[AnySession] = ServerSession
    if head.series is not None:
        kind = SeriesSession
    elif head.topology == "graph":
        kind = GraphSession
    told = converted(entries, kind, what, own_type)
    if told.topology != ("graph" if kind is GraphSession else "server"):
        raise misplaced(what, "topology", f"must be 'server' or 'graph', got {told.topology!r}")
    if isinstance(told, ServerSession | GraphSession):
        law = converted(told.mechanism, _LawName, what, own_type, "mechanism").law
        try:
            table = _law_table(law, isinstance(told, ServerSession), told.motion is not None)
        except LawError as error:
            raise misplaced(what, "mechanism.law", str(error)) from None
        found = converted(told.mechanism, table, what, own_type, "mechanism")
        asked = None if told.asked is None else _read_question(told.asked, what, own_type)
        motion = None if told.motion is None else _read_motion(told.motion, what, own_type)
        return structs.replace(told, mechanism=asdict(found), asked=asked, motion=motion)
    if isinstance(told, SeriesSession) and told.asked is not None:
        return structs.replace(told, asked=_read_question(told.asked, what, own_type))
    return told


def _other_format(written: int) -> str:
    """Say what to do with a session of another format.

    It is refused: missing entries are never guessed.
    """
    if written < FORMAT:
        return (
            f"must be {FORMAT}, got {written}: the session is from tacit 0.2 or older. Make a new one "
            "(`tacit session new`) and give its file to everyone"
        )
    return f"must be {FORMAT}, got {written}: the session is from a newer tacit. Install that version"


@lru_cache(maxsize=64)
def _law_table(law: str, rooted: bool, moving: bool) -> type[msgspec.Struct]:
    """Return the table of a law's parameters; a motion is in place of mixing.

    A parameter is one number, or one for each agent; a few are one for each round. With the root of a roster
    it may be nil in canonical bytes: then each agent has its own in its leaf.
    """
    numbers: Any = Real | tuple[Real, ...]
    numbers = numbers | None if rooted else numbers
    table = named(law).per_round
    words = [word for word in named(law).words() if not (moving and word == "mixing")]
    own = [(word, tuple[Real, ...] if word in table else numbers) for word in words]
    fields: list[Any] = [("law", str), ("rounds", int), *own]
    return msgspec.defstruct(
        "_LawTable", fields, bases=(FieldTable,), frozen=True, forbid_unknown_fields=True
    )


class _QuestionKind(msgspec.Struct):
    kind: str


def _read_motion(entries: Any, what: str, own_type: Callable[[type[Any], Any], Any]) -> dict[str, Any]:
    """Read the table of a motion; one that is not known is refused by name."""
    kind = converted(entries, _QuestionKind, what, own_type, "motion").kind
    if kind not in TABLES:
        raise misplaced(
            what, "motion.kind", f"must be one of {', '.join(TABLES)}, got {kind!r}: install a newer tacit"
        )
    return asdict(converted(entries, TABLES[kind], what, own_type, "motion"))


def _read_question(
    entries: Any, what: str, own_type: Callable[[type[Any], Any], Any], place: str = "question"
) -> dict[str, Any] | None:
    """Read the table of a question; None if it is the mean of the values."""
    top = place == "question"
    kind = converted(entries, _QuestionKind, what, own_type, place).kind
    try:
        table = _question_table(kind, top)
    except ParameterError as error:
        raise misplaced(what, f"{place}.kind", str(error)) from None
    found = asdict(converted(entries, table, what, own_type, place))
    for word, value in found.items():
        if isinstance(value, dict):
            found[word] = _read_question(value, what, own_type, f"{place}.{word}")
        elif isinstance(value, tuple) and value and isinstance(value[0], dict):
            below = enumerate(value)
            found[word] = tuple(
                _read_question(one, what, own_type, f"{place}.{word}[{i}]") for i, one in below
            )
    return None if top and kind == Mean.kind else found


@lru_cache(maxsize=64)
def _question_table(kind: str, top: bool = True) -> type[msgspec.Struct]:
    """Return the table of a question's parameters; a session has all of them.

    Those of the mean are the session's `values`, unless it is a part of another question.
    """
    asked = question_named(kind)
    types: dict[str, Any] = get_type_hints(asked)
    own = [] if top and asked is Mean else dataclasses.fields(asked)  # type: ignore[arg-type]
    fields: list[Any] = [("kind", str), *((each.name, _carried(types[each.name])) for each in own)]
    return msgspec.defstruct(
        "_QuestionTable", fields, bases=(FieldTable,), frozen=True, forbid_unknown_fields=True
    )


def _carried(declared_type: Any) -> Any:
    """Return the type of a question's parameter in a session.

    A number is finite. One of a list may be infinite, as the outer edges of a histogram: the question says.
    """
    known: tuple[Any, ...] = (int, str, tuple[float, ...], tuple[str, ...])
    types: dict[Any, Any] = {each: each for each in known}
    types |= {float: Real, Question: dict[str, Any], tuple[Question, ...]: tuple[dict[str, Any], ...]}
    return types.get(declared_type, tuple[float | str, ...])


def question_fields(asked: Question, *, top: bool = True) -> dict[str, Any]:
    """Return the table of a question, as session files have it."""
    table = _question_table(asked.kind, top)
    given = {name: _as_written(getattr(asked, name)) for name in table.__struct_fields__}
    return asdict(msgspec.convert(given, table))


def _as_written(value: Any) -> Any:
    """Return numbers without a negative zero, which would hash differently."""
    if isinstance(value, tuple):
        return tuple(map(_as_written, value))
    if isinstance(value, Question):
        return question_fields(value, top=False)
    return value + 0.0 if isinstance(value, float) else value


def question_of(table: Mapping[str, Any]) -> Question:
    """Return the question that a table says; it refuses wrong parameters."""
    return question_named(table["kind"])(**{word: _as_read(table[word]) for word in table if word != "kind"})


def _as_read(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_as_read, value))
    if value != value:  # noqa: PLR0124 - NaN differs from itself
        raise ParameterError("a parameter of a question must be a number, got NaN.")
    return question_of(value) if isinstance(value, dict) else value


def as_carried(asked: Question) -> Question:
    """Return a question as everyone reads it from the session, or refuse it."""
    try:
        found = question_of(question_fields(asked))
    except msgspec.ValidationError:
        found = None
    if found is None or found != asked:
        raise ParameterError(
            f"the parameters of a {asked.kind} in a session must be text, or numbers that a double holds "
            "exactly."
        )
    return found


def session_of(
    told: AnySession, roster: Sequence[Member], parameters: Mapping[str, Any] | None = None
) -> Session:
    """Return the session that these tables say, checked as if it were new.

    Parameters
    ----------
    roster : sequence of Member
        The agents.
    parameters : dict, optional
        The parameters of the law that agents have on their own.
    """
    from tacit.core.protocol.session import Session  # it imports this module

    fields = _flat(told)
    keepers = tuple(entry.member() for entry in fields.pop("keepers", ()))
    if "coordinator" in fields:
        fields |= {"coordinator": bytes(fields["coordinator"]), "keepers": keepers}
    fields |= {"roster": roster, "expires": int(fields["expires"])}
    if fields.get("closes") is not None:
        fields["closes"] = int(fields["closes"])
    if isinstance(fields.get("weights"), tuple):
        fields["weights"] = tuple(sorted(tuple(map(int, row)) for row in fields["weights"]))
    assert isinstance(told, ServerSession | GraphSession | SeriesSession)
    fields["asked"] = None if told.asked is None else question_of(told.asked)
    if isinstance(told, SeriesSession):
        return Session.of_series(**fields)
    mechanism = told.mechanism | dict(parameters or {})
    further = [(word, mechanism.pop(word)) for word in named(mechanism["law"]).further()]
    fields["motion"] = None if told.motion is None else moving_of(told.motion)
    grid = Lattice(*(fields.pop(name) for name in ("low", "high", *NumberGrid.__struct_fields__)))
    return Session(**fields, **mechanism, further=tuple(further), lattice=grid)


def _flat(group: Group) -> dict[str, Any]:
    """Return the attributes of a session by name."""
    found: dict[str, Any] = {}
    for name in group.__struct_fields__:
        value = getattr(group, name)
        if isinstance(value, Group):
            found |= _flat(value)
        elif name not in _ELSEWHERE:
            found[name] = value
    return found


# ---- writing ----------------------------------------------------------------------------------------


def tables_of(session: Session, *, own: bool = False) -> AnySession:
    """Return the tables of a session, with everything that was computed.

    Parameters
    ----------
    own : bool
        Leave out the roster and what agents have on their own, if the session has the roster's root.
    """
    kind: type[AnySession] = ServerSession if session.edges is None else GraphSession
    if session.series is not None:
        kind = SeriesSession
    given: dict[str, Any] = {
        "format": FORMAT,
        "topology": session.topology,
        "coordinator_address": None,
        "keepers": _listed(session.keepers),
        "quorum": Quorum(session.least_quorum, session.least_start),
        "roster": () if own and session.edges is None else _listed(session.roster),
    }
    if session.edges is None:
        given |= {"agents": session.n, "root": session.root}
    given["asked"] = None if session.asked is None else question_fields(session.asked)
    if session.series is None:
        lattice = session.lattice
        parameters: dict[str, Any] = dict(session.parameters)
        if own and session.edges is None:
            parameters |= dict.fromkeys(session.own_words)
        given |= {
            "motion": None if session.motion is None else moving_fields(session.motion),
            "mechanism": {"law": session.law, **parameters, "rounds": session.rounds},
            "low": float(lattice.low) + 0.0,  # no negative zero: it would hash differently
            "high": float(lattice.high) + 0.0,
            "lattice": NumberGrid(*(getattr(lattice, name) for name in NumberGrid.__struct_fields__)),
        }
    return _filled(kind, session, given)


def _filled(group: type[_G], session: Session, given: dict[str, Any]) -> _G:
    fields = {}
    for field in fields_of(group):
        if field.name in given:
            fields[field.name] = given[field.name]
        elif (kind := kind_of(field)) is not None and issubclass(kind, Group):
            fields[field.name] = _filled(kind, session, given)
        else:
            fields[field.name] = getattr(session, field.name)
    return group(**fields)


def _listed(members: Sequence[Member]) -> tuple[Listed, ...]:
    if isinstance(members, OneOf):
        return ()
    return tuple(Listed(member.name, MemberKey(member.key)) for member in members)
