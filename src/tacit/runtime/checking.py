"""Follows the lines of transcripts and finds what does not fit.

Memory: the numbers of one round at a time, and for each (agent, round) seen two digests of 32 bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple, final

from tacit.protocol.codec import Codec, as_array, as_numbers, combined
from tacit.protocol.effects import Refused
from tacit.protocol.messages import COORDINATOR, NOTHING_HEARD, Feedback, Kind, Message, Report, Stop
from tacit.protocol.session import Session
from tacit.runtime.findings import NOTES, WRONG, Finding, refusal_name
from tacit.runtime.reading import Content, Line, Reading, decoded, header, line_of, mean_line

_MOST_FINDINGS = 1000
_MOST_MISSING = 3  # neighbours that a mean may lack for it to be recognised without its agent's word
_MOST_GUESSED = 1 << 17  # digests that are put together to recognise one mean: a star has C(n, 3) guesses


class Slot(NamedTuple):
    """What there can be one message of: a kind of message of one sender in one round."""

    sender: int
    kind: Kind
    round: int


@final
class Checker:
    """Checks transcripts of one session, one after another, and keeps what they add up to."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.codec = Codec(session)
        self.findings: list[Finding] = []
        self.digests: dict[Slot, bytes] = {}
        self.more: Counter[Slot] = Counter()  # further different messages for the same slot
        self.heard: dict[tuple[int, int], bytes] = {}  # what report u of an agent commits to
        self.used: dict[int, tuple[int, ...]] = {}  # with a server, by round
        self.means: dict[tuple[int, int], tuple[int, ...]] = {}  # on a graph, by (round, agent)
        self.feedback: tuple[int, tuple[int, ...]] | None = None
        self.checked = 0
        self.proved: set[int] = set()  # rounds whose feedback was recomputed
        self.unchecked: set[int] = set()
        self.stopped = False
        self._evidence: list[tuple[Slot, bytes, bytes | None, Finding]] = []
        self._kept: Counter[bool] = Counter()  # findings, by whether they are wrong

    def found(self, name: str, file: _File | None = None, **where: Any) -> Finding:
        """Note what was found, and where."""
        said = WRONG.get(name) or NOTES.get(name) or where.pop("sentence", name)
        sender = where.pop("sender", None)
        name_of = None if sender is None else self.session.member_name(sender)
        made = Finding(name, said, file and file.name, file and file.line, where.get("round"), name_of)
        self._keep(made)
        return made

    def _keep(self, made: Finding) -> None:
        """Keep the first thousand of each sort: what is harmless must not crowd out what is wrong."""
        self._kept[made.wrong] += 1
        if self._kept[made.wrong] <= _MOST_FINDINGS:
            self.findings.append(made)

    def add(self, reading: Reading, name: str) -> None:
        """Check one transcript."""
        file = _File(self, reading, name)
        if reading.declared != header(self.session, reading.by):
            self.found("altered-header", file)
        for line in reading:
            file.take(line)
        if reading.torn:
            self.found("torn", file)

    def seen(self, message: Message, slot: Slot, file: _File) -> bool:
        """Remember a message; return whether it is the first, or the same as the first, for its slot."""
        first = self.digests.setdefault(slot, message.digest)
        if first == message.digest:
            return True
        self.more[slot] += 1
        self.found("equivocation", file, round=slot.round, sender=slot.sender)
        return False

    def evidence(self, message: Message, file: _File) -> None:
        """Keep what a frame that was kept as evidence would contradict; judged when all is read."""
        place = Finding("evidence-alone", NOTES["evidence-alone"], file.name, file.line)
        before = message.body.before if isinstance(message.body, Feedback) else None
        self._evidence.append((_slot(message), message.digest, before, place))

    def finish(self, *, running: bool) -> None:
        """Check what only all lines together can tell."""
        self._commitments()
        for slot, digest, before, place in self._evidence:
            self._judge(slot, digest, before, place)
        if self.unchecked - self.proved:
            self.found("means-unchecked", round=min(self.unchecked - self.proved))
        unproved = [t for t, i in self.means if (i, t + 1) not in self.heard]
        if unproved:
            self.found("means-unproved", round=min(unproved))
        if not (running or self.stopped) and self.rounds < self.session.rounds:
            self.found("unfinished", round=self.rounds)

    def _judge(self, slot: Slot, digest: bytes, before: bytes | None, place: Finding) -> None:
        """Say whether a frame kept as evidence cannot be honest beside the others.

        It is another message for one slot, or says that another feedback came before it than was signed.
        """
        another = self.digests.setdefault(slot, digest) != digest
        last = self.digests.get(Slot(COORDINATOR, Kind.FEEDBACK, slot.round - 1))
        if another:
            self.more[slot] += 1
        if another or (before is not None and last is not None and last != before):
            who = self.session.member_name(slot.sender)
            place = replace(
                place, name="equivocation", sentence=WRONG["equivocation"], round=slot.round, sender=who
            )
        self._keep(place)

    @property
    def rounds(self) -> int:
        """How many rounds are over, by what was seen."""
        return max([*self.used, *(t for t, _ in self.means)], default=-1) + 1

    def _commitments(self) -> None:
        """Each report commits to what its agent heard in the round before."""
        for (agent, u), heard in sorted(self.heard.items()):
            if u == 0:
                if heard != NOTHING_HEARD:
                    self.found("other-history", round=u, sender=agent)
            elif self.session.topology == "server":
                feedback = self.digests.get(Slot(COORDINATOR, Kind.FEEDBACK, u - 1))
                if feedback not in (None, heard):
                    self.found("other-history", round=u, sender=agent)
            else:
                self._mean_behind(agent, u, heard)

    def _mean_behind(self, agent: int, u: int, heard: bytes) -> None:
        """On a graph: what an agent says it used must be what its next report commits to."""
        claimed = self.means.get((u - 1, agent))
        if claimed is not None:
            if self._combined(u - 1, claimed) != heard:
                self.found("other-history", round=u, sender=agent)
            return
        room = _MOST_GUESSED
        for guess in self._guesses(agent, u - 1):
            if (room := room - len(guess)) < 0:
                return
            if self._combined(u - 1, guess) == heard:
                self.means[u - 1, agent] = guess
                return

    def _combined(self, t: int, agents: tuple[int, ...]) -> bytes | None:
        digests = [self.digests.get(Slot(j, Kind.REPORT, t)) for j in agents]
        return None if None in digests else combined(d for d in digests if d is not None)

    def _guesses(self, agent: int, t: int) -> Iterator[tuple[int, ...]]:
        closed = sorted((agent, *self.session.neighbours(agent)))
        known = [j for j in closed if Slot(j, Kind.REPORT, t) in self.digests]
        for missing in range(min(_MOST_MISSING, len(known) - 1) + 1):
            yield from combinations(known, len(known) - missing)


@final
class _File:
    """Where in one transcript the checking is."""

    def __init__(self, checker: Checker, reading: Reading, name: str) -> None:
        self.checker, self.session, self.name, self.by = checker, checker.session, name, reading.by
        self.line = 1
        self.round = 0
        self.ended = False
        self.before: bytes | None = NOTHING_HEARD
        self.reports: dict[int, Message] = {}

    def take(self, line: Line) -> None:
        """Check one line, after those before it."""
        self.line = line.number
        content, found = line.content, self.checker.found
        if content is None:
            found("unreadable-line", self)
        elif "frame" in content:
            self._frame(content)
        elif "used" in content and self.session.topology == "graph":
            self._mean(content)
        else:
            found("unreadable-line", self)

    def _frame(self, content: Content) -> None:
        found = self.checker.found
        frame = decoded(content["frame"])
        message = None if frame is None else self.checker.codec.open(frame)
        if message is None:
            found("unreadable-line", self)
            return
        if isinstance(message, Refused):
            name, sentence = refusal_name(message.reason), message.reason.value
            found(name, self, round=_round(content), sender=message.sender, sentence=sentence)
            return
        slot = _slot(message)
        if content.get("note") == "evidence":
            self._note(content, message)
        elif not isinstance(message.body, Report | Feedback | Stop):
            found("wrong-sender", self, sender=message.sender)
        elif content != line_of(message):
            found("altered-line", self, round=slot.round, sender=message.sender)
        elif self.ended:
            found("after-the-end", self, round=slot.round)
        elif isinstance(message.body, Stop):
            self._stop(message, message.body)
        else:
            self._in_place(message, message.body, self.checker.seen(message, slot, self))

    def _note(self, content: Content, message: Message) -> None:
        if set(content) != {"note", "frame"}:
            self.checker.found("altered-line", self)
        self.checker.evidence(message, self)

    def _stop(self, message: Message, body: Stop) -> None:
        if message.sender != COORDINATOR:
            return
        self.ended = self.checker.stopped = True
        if body.update != self.round:  # or rounds before it could be cut off with it
            wrong = "missing-round" if body.update > self.round else "out-of-order"
            self.checker.found(wrong, self, round=self.round)

    def _in_place(self, message: Message, body: Report | Feedback, first: bool) -> None:
        if isinstance(body, Report):
            self._report(message, body, first)
        elif first:
            self._feedback(message, body)
        else:  # judged already: go on from it
            self.round, self.reports, self.before = body.round + 1, {}, message.digest

    def _report(self, message: Message, body: Report, first: bool) -> None:
        if first:
            self.checker.heard[message.sender, body.update] = body.heard
        if body.update > self.round:
            self._next_round(body.update)
        if body.update != self.round:
            self.checker.found("out-of-order", self, round=body.update, sender=message.sender)
        else:
            self.reports[message.sender] = message

    def _next_round(self, t: int) -> None:
        over = self.session.topology == "graph"  # where no feedback says that a round is over
        if t > self.round + over:
            self.checker.found("missing-round", self, round=self.round)
        self.round, self.reports, self.before = t, {}, None

    def _feedback(self, message: Message, body: Feedback) -> None:
        checker, t = self.checker, body.round
        if t < self.round:
            checker.found("out-of-order", self, round=t)
            return
        if t > self.round:
            checker.found("missing-round", self, round=self.round)
        elif body.before != self.before and self.before is not None:
            checker.found("broken-chain", self, round=t)
        used = checker.codec.members(body.used)
        complete = all(i in self.reports for i in used)
        if complete:
            self._mean_of(used, message, body)
        elif self.by == COORDINATOR:
            checker.found("missing-report", self, round=t)
        else:
            checker.unchecked.add(t)
        if any(i not in used and i != self.by for i in self.reports):
            checker.found("unused-report", self, round=t)
        checker.used[t] = used
        if checker.feedback is None or checker.feedback[0] <= t:
            checker.feedback = t, message.numbers
        self.round, self.reports, self.before = t + 1, {}, message.digest

    def _mean_of(self, used: tuple[int, ...], message: Message, body: Feedback) -> None:
        checker = self.checker
        checker.proved.add(body.round)
        if combined(self.reports[i].digest for i in used) != body.reports:
            checker.found("wrong-reports", self, round=body.round)
        if self._recomputed(used) != message.numbers:
            checker.found("wrong-mean", self, round=body.round)
        else:
            checker.checked += 1

    def _recomputed(self, used: tuple[int, ...]) -> tuple[int, ...]:
        """Phase (ii), exactly as the coordinator must do it."""
        messages = []
        for i in used:
            body = self.reports[i].body
            assert isinstance(body, Report)
            messages.append((as_array(self.reports[i].numbers), body.exponent))
        return as_numbers(self.session.lattice.mean(messages))

    def _mean(self, content: Content) -> None:
        """A peer's own mean: its next report commits to what it was taken of."""
        checker, session = self.checker, self.session
        form = _mean_form(session, content)
        if form is None:
            checker.found("unreadable-line", self)
            return
        t, agent, named = form
        if t != self.round:
            checker.found("out-of-order", self, round=t, sender=agent)
        elif any(j not in self.reports for j in named):
            checker.found("missing-report", self, round=t, sender=agent)
        elif content != mean_line(session, agent, t, self._recomputed(named), named):
            checker.found("wrong-mean", self, round=t, sender=agent)
        else:
            checker.checked += 1
            if checker.means.setdefault((t, agent), named) != named:
                checker.found("other-history", self, round=t, sender=agent)


def _mean_form(session: Session, content: Content) -> tuple[int, int, tuple[int, ...]] | None:
    """Return round, agent and whose messages it used, where that could be."""
    t, agent, used = (content.get(key) for key in ("round", "agent", "used"))
    if type(t) is not int or type(agent) is not int or not isinstance(used, list):
        return None
    if not (0 <= t < session.rounds and 0 <= agent < session.n and used):
        return None
    allowed = {agent, *session.neighbours(agent)}
    if not all(type(j) is int and j in allowed for j in used) or used != sorted(set(used)):
        return None
    return t, agent, tuple(used)


def _slot(message: Message) -> Slot:
    body = message.body
    match body:
        case Report():
            return Slot(message.sender, Kind.REPORT, body.update)
        case Feedback():
            return Slot(message.sender, Kind.FEEDBACK, body.round)
        case _:  # may be said again at another time: the message itself is its slot
            return Slot(message.sender, Kind.STOP, int.from_bytes(message.digest, "big"))


def _round(content: Content) -> int | None:
    t = content.get("round")
    return t if type(t) is int else None
