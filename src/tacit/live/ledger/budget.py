"""The loss spent and reserved for one value: exact sums over all sessions.

A value has a label that its owner chooses. The ledger stores neither the value nor a hash of it, which would
reveal a value with few possibilities. An owner who uses one value under two labels, or in two ledgers, has
two caps; nobody else can detect that.

A cap covers any two values, because the session's adjacency δ' is the choice of its maker, not of the owner.
Values are clamped to the session's range, so two of them are at most its diameter D apart (all components
together). ⌈D/δ'⌉ steps of δ' lead from one to the other, so the session's loss counts that many times. An
owner may give the cap its own adjacency δ. Then the cap covers values up to δ apart, and the loss counts
⌈min(δ, D)/δ'⌉ times.

A series hides one change of a whole stream of readings, and no fixed number of such changes leads from any
stream to any other. So an owner must accept its meaning: which change it hides, and its failure probability.
Its loss then counts once, for all its slots, and the failure probabilities of all series add up
(docs/proofs/series.md, section 8).
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import NamedTuple, final

import msgspec

from tacit.base.errors import CapExceeded, InputError
from tacit.base.rounding import fraction_up, shown_up
from tacit.core.protocol.exact_loss import as_fraction, exact, up, within
from tacit.core.protocol.private_state import Budget
from tacit.core.protocol.roster import require_name
from tacit.core.series import Hides
from tacit.live.ledger.schema import Capped, Reserved, SpentSum, in_digits

_MOST_NAMED = 3
"""Maximum number of sessions named in a refusal."""


@final
@dataclass(frozen=True)
class Balance:
    """The loss of all sessions on a value, against the owner's cap.

    Attributes
    ----------
    adjacency : float
        `cap` and `spent` are for values that differ by at most this; infinite for any two values.
    spent : float
        The loss of all messages, and the largest further loss of open sessions; rounded up.
    remaining : float
        The largest loss of a further session; rounded down.
    hides : str
        Which change series on this value must hide; empty if the owner has accepted none.
    delta, delta_cap : float
        The sum of the failure probabilities of all series, and its cap.
    """

    value: str
    adjacency: float
    cap: float
    spent: float
    remaining: float
    sessions: int
    hides: str = ""
    delta: float = 0.0
    delta_cap: float = 0.0


class Hidden(NamedTuple):
    """The change that a series hides, and its failure probability.

    Also used for what an owner accepts.
    """

    hides: Hides
    delta: float


@final
@dataclass(frozen=True)
class Reservation:
    """The loss reserved for one session.

    Attributes
    ----------
    planned, adjacency : float
        The largest loss of this session's messages, for the session's own adjacency.
    steps : int
        How many times its loss counts against the cap.
    others : float
        What other sessions count against the cap; rounded up.
    said : float
        The loss of the messages sent so far, for the session's own adjacency; rounded up.
    settled : bool
        Whether no further message will be sent in it.
    expires : int or None
        When the session ends, in seconds since 1970 (UTC).
    """

    value: str
    adjacency: float
    planned: float
    steps: int
    others: float
    cap: float
    said: float
    settled: bool
    expires: int | None

    @property
    def budget(self) -> Budget:
        """The cap and the loss of others, in the session's own unit.

        That is divided by `steps`. The cap is rounded down and the loss up, so that the agent stops too early
        rather than too late.
        """
        cap = Fraction(self.cap) / self.steps if math.isfinite(self.cap) else None
        return Budget(
            cap=self.cap if cap is None else fraction_down(cap),
            spent=fraction_up(Fraction(self.others) / self.steps),
        )


@final
@dataclass(frozen=True)
class Window:
    """A cap on the loss of all sessions begun within any `seconds`.

    Its adjacency is that of the cap for all time.
    """

    seconds: float
    cap: float

    def __post_init__(self) -> None:
        require_amount(self.cap, "the cap of a window")
        if not (math.isfinite(self.seconds) and self.seconds > 0):
            raise InputError(f"a window must be a finite number of seconds above 0, got {self.seconds}.")


def require_amount(amount: float, what: str, *, endless: bool = False) -> float:
    """Return a number of at least 0."""
    if not amount >= 0 or (math.isinf(amount) and not endless):
        raise InputError(
            f"{what} must be a {'' if endless else 'finite '}number of at least 0, got {amount}."
        )
    return float(amount)


def require_probability(delta: float) -> float:
    """Return a failure probability."""
    if not 0 < delta < 1:
        raise InputError(f"a failure probability (--delta) must be above 0 and below 1, got {delta}.")
    return float(delta)


@final
class Purse:
    """The sums, rebuilt from the ledger's rows in their order.

    The losses of settled sessions are kept as one sum for each kind of session. So adding a session takes as
    long after a year as on the first day.
    """

    def __init__(self) -> None:
        self._caps: dict[str, Capped] = {}
        self._reserved: dict[bytes, Reserved] = {}
        self._said: dict[bytes, int] = {}  # loss of messages, in the units of `exact`
        self._settled: set[bytes] = set()
        self._open: dict[bytes, Reserved] = {}  # reserved and not settled
        self._closed: Counter[tuple[str, float, float]] = Counter()  # said in settled ones: `_kind`
        self._times: defaultdict[str, list[tuple[float, bytes]]] = defaultdict(list)  # sorted by `_begun`
        self._carried: dict[bytes, SpentSum] = {}  # in the place of sessions whose rows were dropped
        self._recapped: set[str] = set()  # their caps may have been lowered below what is reserved

    def capped(self, row: Capped) -> None:
        """Add a cap; the last one counts."""
        if row.value in self._caps:
            self._recapped.add(row.value)
        self._caps[row.value] = row

    # The next three must work in any order: `carry` adds a sum as a session that is settled before it is
    # reserved.

    def reserved(self, session: bytes, row: Reserved) -> None:
        """Add a reservation."""
        self._reserved[session] = row
        insort(self._times[row.value], (_begun(row), session))
        if session in self._settled:
            self._closed[_kind(row)] += self._said.get(session, 0)
        else:
            self._open[session] = row

    def said(self, session: bytes, loss: float) -> None:
        """Add the loss of one message."""
        units = exact(loss)
        self._said[session] = self._said.get(session, 0) + units
        if session in self._settled and session in self._reserved:
            self._closed[_kind(self._reserved[session])] += units

    def settled(self, session: bytes) -> None:
        """Settle a session: only the loss of sent messages counts now."""
        self._settled.add(session)
        if (row := self._open.pop(session, None)) is not None:
            self._closed[_kind(row)] += self._said.get(session, 0)

    def carry(self, sums: Iterable[SpentSum], over: Collection[bytes] = ()) -> None:
        """Replace these sessions and the earlier sums by new sums."""
        # The new sums contain the earlier ones (`sums`), so these go, too; otherwise they would count twice.
        # All of them are settled, so their loss is in `_closed`, exactly, and is added again below.
        for session in (*over, *self._carried):
            if (row := self._reserved.pop(session, None)) is not None:
                self._closed[_kind(row)] -= self._said.get(session, 0)
            self._said.pop(session, None)
            self._settled.discard(session)
        self._times = defaultdict(list)
        for session, row in self._reserved.items():
            self._times[row.value].append((_begun(row), session))
        for times in self._times.values():
            times.sort()
        self._carried = {b"carried %d" % i: one for i, one in enumerate(sums)}
        for place, one in self._carried.items():  # each counts as one session that is settled
            self._said[place] = one.units
            self._settled.add(place)
            self.reserved(place, Reserved(one.value, one.adjacency, one.diameter, 0.0, None, one.at))

    def sums(self, over: Collection[bytes]) -> list[SpentSum]:
        """Return the sums so far, and a sum for each of these settled sessions."""
        rows = ((session, self._reserved[session]) for session in over if session in self._reserved)
        fresh = (SpentSum(*_kind(row), _begun(row), 1, *in_digits(self._said.get(s, 0))) for s, row in rows)
        return [*self._carried.values(), *fresh]

    def summable(self, session: bytes) -> bool:
        """Whether a sum of losses can replace the rows of a session.

        An open session may still send. A series that has sent must stay: a sum does not contain what it
        hides, nor its failure probability.
        """
        row = self._reserved.get(session)
        return session not in self._open and not (row is not None and row.hides and self._said.get(session))

    def expiries(self, known: Mapping[bytes, int]) -> dict[bytes, int]:
        """Return when sessions expire: by their reservation, else as `known`."""
        rows = self._reserved.items()
        return {**known, **{session: row.expires for session, row in rows if row.expires is not None}}

    def is_settled(self, session: bytes) -> bool:
        """Whether no further message will be sent in a session."""
        return session in self._settled

    def cap(self, value: str) -> Capped | None:
        """Return the owner's cap for a value, if there is one."""
        return self._caps.get(value)

    def values(self) -> tuple[str, ...]:
        """Return the labels of all values, in the order of their first use."""
        return tuple(self._caps)

    def charge(self, session: bytes) -> Fraction:
        """What a session counts: its whole reservation, or its loss once settled."""
        return as_fraction(self._units(session))

    def _units(self, session: bytes) -> int:
        """What a session counts against the cap, in the units of `exact`."""
        row, said = self._reserved[session], self._said.get(session, 0)
        # `max`, in case the messages of an open session cost more than was reserved: never count less than
        # was said.
        amount = said if session in self._settled else max(exact(row.planned), said)
        return amount * _steps(self._caps[row.value], row)

    def spent(self, value: str) -> Fraction:
        """What all sessions on a value count against the cap."""
        units = sum(self._units(session) for session, row in self._open.items() if row.value == value)
        for (whose, adjacency, diameter), said in self._closed.items():
            if whose == value:
                units += said * steps(min(self._caps[value].adjacency, diameter), adjacency)
        return as_fraction(units)

    def spent_since(self, value: str, when: float) -> Fraction:
        """What sessions begun after `when` count against the cap.

        A session without a start time (of an older ledger, or a series) counts as begun at its expiry.
        A session whose start is in the future, because the clock was set back, counts, too.
        """
        times = self._times[value]
        first = bisect_right(times, when, key=lambda one: one[0])
        return as_fraction(sum(self._units(session) for _, session in times[first:]))

    def last_begun(self, value: str) -> float:
        """When the last session on a value began; minus infinity if none did."""
        latest = (
            when for when, session in reversed(self._times[value]) if self._reserved[session].at is not None
        )
        return next(latest, -math.inf)

    def require_window(self, row: Reserved, cap: Capped, window: Window, now: float) -> None:
        """Refuse a session that would exceed the owner's cap for a window of time."""
        cost = Fraction(row.planned) * _steps(cap, row)
        before = self.spent_since(row.value, now - window.seconds)
        if before + cost > window.cap:
            raise CapExceeded(
                f"this session may cost {shown_up(fraction_up(cost))}{_times(cap, row)}, and with the "
                f"{shown_up(fraction_up(before))} of sessions on {row.value!r} in the last "
                f"{window.seconds:,.0f} s that would exceed the cap of {window.cap:.6g} for that time: "
                "nothing was sent."
            )

    def balance(self, value: str) -> Balance:
        """Return the balance of a value."""
        row = self._caps.get(value)
        if row is None:
            raise InputError(f"nothing is known of a value {value!r}: no session has used it.")
        spent = self.spent(value)
        left = max(Fraction(row.cap) - spent, Fraction(0)) if math.isfinite(row.cap) else None
        more = sum(one.sessions - 1 for one in self._carried.values() if one.value == value)
        count = len(self._times[value]) + more
        rest = math.inf if left is None else fraction_down(left)
        delta = fraction_up(self.failing(value))
        return Balance(
            value, row.adjacency, row.cap, fraction_up(spent), rest, count, row.hides, delta, row.delta
        )

    def failing(self, value: str, but: bytes | None = None) -> Fraction:
        """The sum of the failure probabilities of all series on a value.

        A series that was settled before its first message cannot fail, so it does not count. The series `but`
        is left out.
        """
        rows = ((s, row) for s, row in self._reserved.items() if row.value == value and row.delta)
        return sum(
            (
                Fraction(row.delta)
                for s, row in rows
                if s != but and (s not in self._settled or self._said.get(s))
            ),
            Fraction(0),
        )

    def require_covered(self, cap: Capped) -> None:
        """Refuse a cap for a change that earlier series do not hide.

        No number is known that their loss could count with: a stream that changes by more than a series hides
        may be told apart with certainty.
        """
        for session, row in self._reserved.items():
            said = row.value == cap.value and row.hides and self._said.get(session)
            if said and not (hidden := Hides.parse(row.hides)).covers(wanted := Hides.parse(cap.hides)):
                raise InputError(
                    f"series {session.hex()[:16]} has sent messages about {cap.value!r} and hides "
                    f"{hidden} only: nothing bounds what it has cost for {wanted}, so this cap could "
                    "not be kept. Keep what it hides, or use another label for readings that were never in "
                    "that series."
                )

    def require_hidden(self, row: Reserved, cap: Capped, session: bytes) -> None:
        """Refuse a series that its owner has not accepted.

        The owner accepts what it hides, and a sum of failure probabilities.
        """
        if not row.hides:
            return
        hidden = Hides.parse(row.hides)
        how = f"--hides {hidden} --delta {row.delta:g}"
        about = "any two values" if cap.adjacency == math.inf else f"values up to {cap.adjacency:g} apart"
        if not cap.hides:
            raise CapExceeded(
                f"this series hides {hidden} and no other change of the readings, and fails with a "
                f"probability of {row.delta:g}. The cap of {row.value!r} is for {about}: nothing was sent. "
                f"If you want to hide that change, accept it ({how})."
            )
        if not hidden.covers(wanted := Hides.parse(cap.hides)):
            raise CapExceeded(
                f"this series hides {hidden}, and the owner of {row.value!r} wants {wanted} hidden: "
                "nothing was sent. Ask for a series that hides it, or change what you want hidden "
                f"(`tacit ledger cap {how}`)."
            )
        before = self.failing(row.value, session)
        if before + Fraction(row.delta) > Fraction(cap.delta):
            raise CapExceeded(
                f"this series fails with a probability of {row.delta:g}, and with the "
                f"{shown_up(fraction_up(before))} of other series on {row.value!r} that would exceed the "
                f"{cap.delta:g} that its owner accepts: nothing was sent. Ask for a series with a smaller "
                "delta, or accept more (`tacit ledger cap --delta`)."
            )

    def expired(self, now: float) -> tuple[bytes, ...]:
        """Return the sessions that are not settled although they have expired."""
        rows = self._open.items()
        return tuple(s for s, row in rows if row.expires is not None and row.expires <= now)

    def held(self, value: str) -> dict[bytes, Fraction]:
        """Return what open sessions reserve for unsent messages, largest first."""
        open_ones = [s for s, row in self._open.items() if row.value == value]
        held = {s: self.charge(s) - as_fraction(self._said.get(s, 0)) * self._count(s) for s in open_ones}
        return {s: held[s] for s in sorted(held, key=lambda s: -held[s]) if held[s] > 0}

    def _count(self, session: bytes) -> int:
        row = self._reserved[session]
        return _steps(self._caps[row.value], row)

    def _ways_out(self, value: str, ledger: str, but: bytes) -> str:
        """Name the sessions that reserve loss, and the command that releases it."""
        held = self.held(value)
        held.pop(but, None)
        ways = [
            f"Session {session.hex()[:16]} holds {shown_up(fraction_up(amount))} for messages not sent yet, "
            f"{_until(self._reserved[session])}: "
            f"`tacit ledger settle {ledger} {session.hex()[:16]}`."
            for session, amount in list(held.items())[:_MOST_NAMED]
        ]
        more = f"{len(held) - _MOST_NAMED} more sessions hold some." if len(held) > _MOST_NAMED else ""
        return " ".join([*ways, more]).strip()

    def others(self, value: str, session: bytes) -> Fraction:
        """What all sessions on a value but this one count against the cap."""
        return self.spent(value) - (self.charge(session) if session in self._reserved else 0)

    def room(self, row: Reserved, cap: Capped, session: bytes, *, partial: bool, ledger: str) -> Reserved:
        """Return the reservation that fits under the cap, or refuse the session."""
        count = _steps(cap, row)
        cost, before = Fraction(row.planned) * count, self.others(row.value, session)
        if before + cost <= cap.cap:
            return row
        left = max(Fraction(cap.cap) - before, Fraction(0))
        if partial and left > 0:
            # Rounded down: `count` times the float must still fit under the cap.
            return msgspec.structs.replace(row, planned=fraction_down(left / count))
        times = _times(cap, row)
        raise CapExceeded(
            f"this session may cost {shown_up(fraction_up(cost))}{times}, and with the "
            f"{shown_up(fraction_up(before))} of other sessions on {row.value!r} that would exceed the cap "
            f"of {cap.cap:.6g}: nothing was sent. {self._ways_out(row.value, ledger, session)} "
            "Ask for a session with more noise, or raise the cap (`tacit ledger cap`)."
        )

    def reservation(self, session: bytes) -> Reservation | None:
        """Return the reservation of a session, if there is one."""
        row = self._reserved.get(session)
        if row is None:
            return None
        cap = self._caps[row.value]
        return Reservation(
            value=row.value,
            adjacency=row.adjacency,
            planned=row.planned,
            steps=_steps(cap, row),
            others=fraction_up(self.others(row.value, session)),
            cap=cap.cap,
            said=up(self._said.get(session, 0)),
            settled=session in self._settled,
            expires=row.expires,
        )

    def require_begun_in_time(self, session: bytes, ledger: str) -> None:
        """Refuse a series whose first message the owner would refuse now.

        Its whole loss counts from that message on, so a cap that is lowered later has nothing left to save.
        """
        row = self._reserved[session]
        if row.hides and session in self._open and not self._said.get(session):
            cap = self._caps[row.value]
            self.require_hidden(row, cap, session)
            self.room(row, cap, session, partial=False, ledger=ledger)

    def require_reserved(self, session: bytes, losses: list[float], ledger: str) -> None:
        """Refuse messages whose loss would exceed the reservation, or the cap.

        The cap was checked when the loss was reserved, so only a cap that was changed is checked again.
        """
        row = self._reserved.get(session)
        total = self._said.get(session, 0) + sum(map(exact, losses))
        if row is not None and row.value in self._recapped:
            self.require_begun_in_time(session, ledger)
            cap, count = self._caps[row.value], _steps(self._caps[row.value], row)
            more = self.others(row.value, session) + as_fraction(total) * count > cap.cap
            if more and not row.hides:
                raise CapExceeded(
                    f"the cap of {row.value!r} was lowered to {cap.cap:.6g}, and the next message would "
                    "exceed it: the agent sends nothing more."
                )
        if row is not None and not within(total, row.planned):
            raise CapExceeded(
                f"the messages of this session would cost {shown_up(up(total))}, more than the "
                f"{shown_up(row.planned)} reserved for it: the agent sends nothing more."
            )


def steps(distance: float, adjacency: float) -> int:
    """⌈distance/adjacency⌉: how many adjacency steps a distance takes.

    Exact fractions, because a float quotient just below a whole number could round to one step too few.
    """
    return math.ceil(Fraction(distance) / Fraction(adjacency))


def _steps(cap: Capped, row: Reserved) -> int:
    """How many times a session's loss counts.

    Values in its range are at most `diameter` apart, so a wider cap needs no more steps than that.
    """
    return steps(min(cap.adjacency, row.diameter), row.adjacency)


def _kind(row: Reserved) -> tuple[str, float, float]:
    """Return the kind of a session, which decides how often its loss counts."""
    return row.value, row.adjacency, row.diameter


def _begun(row: Reserved) -> float:
    """Return when a session began; as late as it could, if that is unknown.

    Too late is safe: the session then stays in a window for longer.
    """
    if row.at is not None:
        return row.at
    return math.inf if row.expires is None else float(row.expires)


def _times(cap: Capped, row: Reserved) -> str:
    """Say how often a session counts, and why."""
    if (count := _steps(cap, row)) == 1:
        return ""
    apart = min(cap.adjacency, row.diameter)
    about = "the cap is for its whole range" if apart == row.diameter else "the cap is for more"
    return f", counted {count} times because {about} ({apart:g}) and its adjacency is {row.adjacency:g}"


def _until(row: Reserved) -> str:
    """Say until when a session keeps its reservation."""
    if row.expires is None:
        return "until you give it up"
    return (
        f"until it expires ({datetime.fromtimestamp(row.expires, UTC):%Y-%m-%d %H:%M} UTC) or you give it up"
    )


def require_label(value: str) -> str:
    """Refuse an invalid label."""
    require_name(value, "a value's label")
    return value


def fraction_down(value: Fraction) -> float:
    """Return the largest float that is at most an exact fraction."""
    return -fraction_up(-value)
