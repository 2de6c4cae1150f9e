"""Checks the lines of transcripts, and finds contradictions and gaps.

docs/reference/wire.md says what is checked. A finding is wrong if a signed message contradicts the rules or
another signed message. It is a gap if a message that a mean needs is missing. The author of a file is not
signed, so no verdict depends on it.

Memory: for each (agent, round) seen its numbers and two digests of 32 bytes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple, final

from tacit.base.report.numbers import counted
from tacit.core.history.file import Content, Line, decoded, same
from tacit.core.protocol.codec import Codec, as_numbers, combined, history
from tacit.core.protocol.masked_sum import is_nonsense, opened_mean, opened_sum
from tacit.core.protocol.messages import (
    COORDINATOR,
    KINDS,
    NOTHING_HEARD,
    Body,
    Closing,
    Done,
    Feedback,
    Key,
    Kind,
    Message,
    Opening,
    Report,
    Stop,
)
from tacit.core.protocol.notices import Refused
from tacit.core.protocol.places import LastUsed
from tacit.core.protocol.session import Session
from tacit.live.runtime.transcript import Reading, header, line_of, mean_line
from tacit.live.verification.findings import GAPS, NOTES, WRONG, Finding, refusal_name

_MOST_FINDINGS = 1000
_MOST_NAMES = 5
_MOST_CHOICES = 1000  # of whom a feedback may be made, if it does not use all agents


class Slot(NamedTuple):
    """A place for at most one message: of one sender, kind and round."""

    sender: int
    kind: Kind
    round: int


@final
class Checker:
    """Checks transcripts of one session one by one, and collects findings.

    The result must not depend on the order of the files. So a message that one file lacks is a gap only if no
    other file has it, and contradictions between files are judged in `finish`.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.codec = Codec(session)
        self.findings: list[Finding] = []
        self.lines = 0
        self.digests: dict[Slot, bytes] = {}
        self.more: Counter[Slot] = Counter()  # further different messages for the same slot
        self.heard: dict[tuple[int, int], bytes] = {}  # what an agent's report u, or its end, commits to
        self.feedbacks: dict[int, Feedback] = {}  # with a server, by round
        self.used: dict[int, dict[int, bytes]] = {}  # the used agents, and their reports' digests
        self.means: dict[tuple[int, int], tuple[int, ...]] = {}  # on a graph, by (round, agent)
        self.said: dict[tuple[int, int], tuple[tuple[int, ...], int]] = {}  # numbers and exponent, likewise
        self.answers: dict[tuple[int, int], tuple[int, ...]] = {}  # means; a coordinator's as that of agent 0
        self.feedback: Message | None = None  # the newest
        self.right: set[int] = set()  # rounds whose feedback is the mean of its reports
        self._settled: set[int] = set()  # rounds that one file had all of
        self._open: dict[int, Message] = {}  # feedback whose reports were not all in its file
        self._reports: dict[int, dict[int, Message]] = {}  # of these rounds, from all files
        self._gaps: dict[int, str] = {}  # with a server, rounds whose reports are not all there
        self._lacking: dict[tuple[int, int], set[int]] = {}  # whose reports a mean lacks, by round and agent
        self._keys_of: list[tuple[int, tuple[int, ...], list[Body], Closing, list[Opening]]] = []
        self._stops: list[int] = []
        self._evidence: list[tuple[Slot, bytes, bytes | None, Finding]] = []
        self._kept: Counter[bool] = Counter()  # findings, by whether they are wrong

    def found(self, name: str, file: _File | None = None, **where: Any) -> None:
        """Add a finding and its place; `about` is added to its sentence."""
        said = WRONG.get(name) or GAPS.get(name) or NOTES.get(name) or where.pop("sentence", name)
        if about := where.get("about"):
            said += f": {about}"
        sender = where.get("sender")
        name_of = None if sender is None else self.session.member_name(sender)
        self._keep(Finding(name, said, file and file.name, file and file.line, where.get("round"), name_of))

    def _keep(self, made: Finding) -> None:
        """Keep the first thousand wrong findings, and a thousand others.

        With one limit for both, an attacker could fill a file with harmless findings. A wrong one after them
        would be dropped, and the verdict would not be "unsound".
        """
        self._kept[made.wrong] += 1
        if self._kept[made.wrong] <= _MOST_FINDINGS:
            self.findings.append(made)

    def add(self, reading: Reading, name: str) -> None:
        """Check one transcript."""
        file = _File(self, reading, name)
        # The id covers only the canonical bytes. People read the words beside them, so these must match.
        if not same(reading.declared, header(self.session, reading.by)):
            self.found("altered-header", file)
        for line in reading:
            self.lines += 1
            file.take(line)
        if reading.torn:
            self.found("torn", file)

    def seen(self, message: Message, slot: Slot, file: _File) -> bool:
        """Remember a message; return False if it contradicts the first one."""
        # Digests of all files are compared here. So a coordinator that told two agents different things is
        # found when their transcripts are checked together, although each is right by itself.
        first = self.digests.setdefault(slot, message.digest)
        if first == message.digest:
            return True
        self.more[slot] += 1
        self.found("equivocation", file, round=slot.round, sender=slot.sender)
        return False

    def evidence(self, message: Message, file: _File) -> None:
        """Store a frame kept as evidence; it is judged when all is read."""
        place = Finding("evidence-alone", NOTES["evidence-alone"], file.name, file.line)
        before = message.body.before if isinstance(message.body, Feedback) else None
        self._evidence.append((_slot(message), message.digest, before, place))

    def stop(self, update: int) -> None:
        """Note that the coordinator signed the end of the session."""
        self._stops.append(update)

    # ---- feedback -----------------------------------------------------------------------------------

    def close(self, message: Message, reports: Mapping[int, Message], file: _File) -> None:
        """Take a feedback and the reports of its round that are in the same file."""
        body = message.body
        assert isinstance(body, Feedback)
        t = body.round
        self.feedbacks[t], self.answers[t, 0] = body, message.numbers
        if self.feedback is None or self._round_of(self.feedback) <= t:
            self.feedback = message
        if self.session.series is not None and not body.count:
            self._lost(body, file)
        elif (used := self._named(body, reports)) is not None:
            self._recompute(message, used, reports, file)
        elif t not in self._settled:
            # An agent's file has only its own report. Another file may have the others: `finish` decides.
            self._open[t] = message
            self._reports.setdefault(t, {}).update(reports)

    def _named(self, body: Feedback, reports: Mapping[int, Message]) -> tuple[int, ...] | None:
        """Return the agents whose reports a feedback is made of.

        None if not all of them are there. With keepers the closing names them. Without, these are all reports
        of the round, if they have the digest that the feedback commits to. If they do not, that is no
        contradiction: a report may have come too late, and is still in the file of the agent that sent it.
        Only if all agents' reports are there, and all were used, no others can be meant.
        """
        if self.session.keepers:
            closing = reports.get(COORDINATOR)
            if closing is None or not isinstance(closing.body, Closing):
                return None
            used = self.codec.members(closing.body.used)
            return used if all(i in reports for i in (*used, *self.session.keeper_numbers)) else None
        used = tuple(sorted(reports))
        fits = body.basis == combined(reports[i].digest for i in used)
        return used if fits or len(used) == body.count == self.session.n else None

    def _chosen(self, body: Feedback, reports: Mapping[int, Message]) -> tuple[int, ...] | None:
        """Return whose reports a feedback is made of, if all agents' are there.

        Then it is made of `count` of them. Nobody if no choice fits; None if that cannot be decided.
        """
        n, count = self.session.n, body.count
        if self.session.keepers or len(reports) < n or math.comb(n, count) > _MOST_CHOICES:
            return None
        choices = combinations(sorted(reports), count)
        return next((c for c in choices if body.basis == combined(reports[i].digest for i in c)), ())

    def _lost(self, body: Feedback, file: _File) -> None:
        """Check the feedback of a lost slot: it commits to no messages."""
        if body.basis == combined(()):
            self.used[body.round] = {}
            self.right.add(body.round)
        else:
            self.found("wrong-reports", file, round=body.round)

    def _recompute(
        self, message: Message, used: tuple[int, ...], reports: Mapping[int, Message], file: _File | None
    ) -> None:
        """Check that a feedback commits to its reports and is their mean.

        This is phase (ii). Both are needed: the mean alone could be that of other messages of the same
        senders, and the commitment alone says nothing about the numbers.
        """
        body = message.body
        assert isinstance(body, Feedback)
        right = True
        basis, mean = self._computed(body, used, reports, file)
        if basis == body.basis and len(used) == body.count:
            self.used[body.round] = {i: reports[i].digest for i in used}
        else:
            right = False
            self.found("wrong-reports", file, round=body.round)
        if mean != message.numbers:
            right = False
            self.found("wrong-mean", file, round=body.round)
        if right:
            self.right.add(body.round)
        self._settled.add(body.round)
        self._open.pop(body.round, None)
        self._reports.pop(body.round, None)

    def _computed(
        self, body: Feedback, used: tuple[int, ...], parts: Mapping[int, Message], file: _File | None
    ) -> tuple[bytes, tuple[int, ...] | None]:
        """Return the digest and the mean that a feedback must have."""
        if not self.session.keepers:
            reports = [parts[i] for i in used]
            return combined(report.digest for report in reports), self.mean(reports)
        return self._opened(body, used, parts, file)

    def _opened(
        self, body: Feedback, used: tuple[int, ...], parts: Mapping[int, Message], file: _File | None
    ) -> tuple[bytes, tuple[int, ...] | None]:
        session, t, keepers = self.session, body.round, self.session.keeper_numbers
        closing, openings = parts[COORDINATOR], [parts[j] for j in keepers]
        asked = closing.body
        assert isinstance(asked, Closing)
        # Feedback, closing and openings must be about the same set of agents. Otherwise a coordinator could
        # let keepers open the sum of a few agents, and publish feedback that counts many.
        right = asked.count == body.count and asked.heard == body.before
        right &= asked.reports == combined(parts[i].digest for i in used)
        right &= asked.salts == b"".join(getattr(parts[i].body, "salt", b"") for i in used)
        answers = [opening.body for opening in openings if isinstance(opening.body, Opening)]
        right &= all(answer.closing == closing.digest for answer in answers)
        if not right:
            self.found("wrong-closing", file, round=t)
        self._keys_of.append((t, used, [parts[i].body for i in used], asked, answers))
        numbers = [getattr(parts[i].body, "numbers", b"") for i in used]
        found = opened_sum(session, numbers, [answer.numbers for answer in answers])
        basis = combined((closing.digest, *(opening.digest for opening in openings)))
        # A sum far outside of any possible one means that masks did not cancel. None equals no feedback, so
        # `_recompute` reports a wrong mean.
        if is_nonsense(session, t, found):
            return basis, None
        if session.series is not None:
            return basis, found
        return basis, opened_mean(session, t, found, len(used))

    def _check_keys(self) -> None:
        """Check that messages were made with the keys in the transcripts.

        Each message commits to the keys that it was made with. If a member had signed different keys for
        different others, these would not match. The keys may be in another file than the messages, so this
        is done when all is read.
        """
        missing: set[int] = set()
        for t, used, reports, asked, answers in self._keys_of:
            members = (*used, *self.session.keeper_numbers)
            keys = {i: self.digests.get(Slot(i, Kind.KEY, 0)) for i in members}
            lacking = {i for i, key in keys.items() if key is None}
            missing |= lacking
            if lacking:
                continue
            known = {i: key for i, key in keys.items() if key is not None}
            kept = [known[j] for j in self.session.keeper_numbers]
            right = asked.keys == combined(known[i] for i in used)
            right &= [answer.key for answer in answers] == kept
            named = zip(used, reports, strict=True)
            right &= all(getattr(body, "keys", b"") == combined((known[i], *kept)) for i, body in named)
            if not right:
                self.found("wrong-keys", round=t)
        if missing:
            self.found("missing-key", about=f"those of {self._names(missing)}")

    def mean(self, reports: Iterable[Message], counts: list[int] | None = None) -> tuple[int, ...]:
        """Return the exact mean of reports, as all members must compute it."""
        return as_numbers(self.session.lattice.mean([self.codec.lifted(m) for m in reports], counts))

    # ---- means of peers -----------------------------------------------------------------------------

    def claim(self, t: int, agent: int, named: tuple[int, ...], y: tuple[int, ...], file: _File) -> None:
        """Take a correct mean of a peer.

        The line itself is not signed, so anyone could have written it. It counts only if the peer's next
        report commits to the messages in it (`_follow`).
        """
        spoke = agent in named
        # A peer with few neighbours can never hear a whole quorum: then all that it can hear are required.
        if len(named) < max(1, min(self.session.least_quorum, len(self.session.neighbours(agent)) + spoke)):
            self.found("below-quorum", file, round=t, sender=agent)
        self.answers.setdefault((t, agent), y)
        if self.means.setdefault((t, agent), named) != named:
            self.found("other-history", file, round=t, sender=agent)

    def lacks(self, t: int, agent: int, whose: Iterable[int]) -> None:
        """Note that a mean names reports that are not in its file."""
        self._lacking.setdefault((t, agent), set()).update(whose)

    # ---- when all is read ---------------------------------------------------------------------------

    def finish(self, *, running: bool) -> None:
        """Make the checks that need all lines."""
        if self.session.topology == "server":
            self._finish_server(running=running)
        else:
            self._finish_graph(running=running)
        # Evidence comes after all lines: what it contradicts may be in a later file.
        for slot, digest, before, place in self._evidence:
            self._judge(slot, digest, before, place)
        lacking = {place: whose for place, whose in self._lacking.items() if place not in self.means}
        if lacking:
            names = self._names(i for whose in lacking.values() for i in whose)
            self.found("missing-report", round=min(lacking)[0], about=f"those of {names}")
        if self.rounds == 0:
            self.found("no-rounds")
        else:
            self._start()

    def _finish_server(self, *, running: bool) -> None:
        for (agent, u), heard in sorted(self.heard.items()):
            feedback = self.digests.get(Slot(COORDINATOR, Kind.FEEDBACK, u - 1)) if u else NOTHING_HEARD
            # An agent signs which feedback it heard. So a coordinator whose transcript shows other feedback
            # than it sent is found. Feedback that no file has contradicts nothing.
            if feedback not in (None, heard):
                self.found("other-history", round=u, sender=agent)
        for t, message in sorted(self._open.items()):
            reports = self._reports[t]
            assert isinstance(message.body, Feedback)
            used = self._named(message.body, reports)
            if used is None:
                used = self._chosen(message.body, reports)
            if used is None:
                there = sum(0 <= i < self.session.n for i in reports)
                self._gaps[t] = f"there are {there} of {message.body.count}"
            elif used:
                self._recompute(message, used, reports, None)
            else:
                self.found("wrong-reports", round=t)
        if self._gaps:
            first = min(self._gaps)
            more = f", and {counted(len(self._gaps), 'round')} with too few" if len(self._gaps) > 1 else ""
            self.found("missing-report", round=first, about=self._gaps[first] + more)
        self._check_states()
        # Any one stop ends the session, so the earliest counts. Without a stop, missing rounds at the end are
        # a gap: a coordinator could have cut off rounds whose result it did not like.
        end = min(self._stops, default=self.rounds)
        if self.rounds > end:
            self.found("after-the-end", round=end)
        if not (running or self.rounds in self._stops) and self.rounds < self.session.exchanges:
            self.found("unfinished", round=self.rounds)
        if self.session.keepers:
            self._check_keys()
            self.found("masks-unproved")

    def _check_states(self) -> None:
        """Check who was used last, round by round, as far as all is known."""
        last = LastUsed(self.session.n)
        for t in range(self.rounds):
            if t not in self.used or t not in self.feedbacks:
                return  # missing, or wrong, which is told already
            last.use(t, self.used[t])
            body = self.feedbacks[t]
            if (body.members, body.state) != (last.members, last.root):
                self.found("wrong-state", round=t)
                return  # what follows is built on it

    def _finish_graph(self, *, running: bool) -> None:
        said: list[dict[int, bytes]] = [{} for _ in range(self.session.n)]
        made: list[dict[int, tuple[int, ...]]] = [{} for _ in range(self.session.n)]
        for (agent, u), heard in self.heard.items():
            said[agent][u] = heard
        for (t, agent), named in self.means.items():
            made[agent][t] = named
        gaps: dict[str, set[int]] = {"missing-mean": set(), "unsigned-mean": set(), "unfinished": set()}
        for agent in range(self.session.n):
            signed, whole = self._follow(agent, said[agent], made[agent])
            if not whole:
                gaps["missing-mean"].add(agent)
            unsigned = [t for t in made[agent] if t >= signed]
            if running:  # not yet: it may sign them with its next report
                for t in unsigned:
                    del self.means[t, agent]
                continue
            if unsigned:
                gaps["unsigned-mean"].add(agent)
            if max([signed, *(t + 1 for t in made[agent])]) < self.session.rounds:
                gaps["unfinished"].add(agent)
        for name, agents in gaps.items():
            if agents:
                self.found(name, about=self._names(agents))

    def _follow(
        self, agent: int, said: Mapping[int, bytes], made: Mapping[int, tuple[int, ...]]
    ) -> tuple[int, bool]:
        """Follow a peer's means; return how many it signed, and if all are there.

        Each signature commits to all means before it (`history`). `known` is what the next signature must
        commit to; None after a gap, because then it cannot be computed.
        """
        at, signed, whole = 0, 0, True
        known: bytes | None = NOTHING_HEARD
        for u in sorted({*said, *(t + 1 for t in made)}):
            if u:
                named = made.get(u - 1) if at == u - 1 else None
                whose = None if named is None else self._digests(u - 1, named)
                known = None if known is None or whose is None else history(known, whose)
            at = u
            if u not in said:
                continue
            if known is None:
                whole = False
            elif known != said[u]:
                self.found("other-history", round=u, sender=agent)
            # Go on from what was signed, so that one gap does not hide contradictions after it.
            known, signed = said[u], u
        return signed, whole

    def _digests(self, t: int, agents: Iterable[int]) -> list[bytes]:
        return [self.digests[Slot(j, Kind.REPORT, t)] for j in agents]

    def _start(self) -> None:
        """Report if fewer agents sent in round 0 than had to be present.

        This is no contradiction: an agent may have been present and left.
        """
        session = self.session
        if session.series is not None:
            return  # it begins by the clock
        if session.topology == "server":
            few = 0 in self.feedbacks and self.feedbacks[0].count < session.least_start
        else:
            few = any(
                t == 0 and len(named) < min(session.least_start, len(session.neighbours(i)) + 1)
                for (t, i), named in self.means.items()
            )
        if few:
            self.found("start-unproved", round=0)

    def _judge(self, slot: Slot, digest: bytes, before: bytes | None, place: Finding) -> None:
        """Report a frame kept as evidence if it contradicts other signed frames.

        It contradicts them if it is a different message for the same slot, or if it names another previous
        feedback than the one that was signed.
        """
        # `setdefault`: two pieces of evidence can contradict each other, even if no line has that message.
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
        """How many rounds are over, by the messages in the transcripts."""
        return max([*self.feedbacks, *(t for t, _ in self.means)], default=-1) + 1

    def _names(self, agents: Iterable[int]) -> str:
        names = [self.session.member_name(i) for i in sorted(set(agents))]
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        return ", ".join(names[:_MOST_NAMES]) + more

    @staticmethod
    def _round_of(feedback: Message) -> int:
        assert isinstance(feedback.body, Feedback)
        return feedback.body.round


@final
class _File:
    """The state of the check of one transcript."""

    def __init__(self, checker: Checker, reading: Reading, name: str) -> None:
        self.checker, self.session, self.name = checker, checker.session, name
        self.by = reading.by  # a hint, for notes only: nobody has signed it
        self.line = 1
        self.round = 0  # the round whose lines come now
        self.ended = False
        self.before: bytes | None = NOTHING_HEARD  # digest of the last feedback; None if it is not known
        self.reports: dict[int, Message] = {}  # of this round, with keepers also closing and openings

    def take(self, line: Line) -> None:
        """Check the next line."""
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
        # Only the frame is signed. A line whose words differ from it is reported and not used further:
        # people and `tacit audit` read the words, and would be told something that nobody signed.
        if content.get("note") in ("evidence", "said"):
            self._note(content, message)
        elif not isinstance(message.body, Report | Feedback | Stop | Done | Key | Closing | Opening):
            found("wrong-sender", self, sender=message.sender)
        elif not same(content, line_of(message)):
            found("altered-line", self, round=slot.round, sender=message.sender)
        elif self.ended:
            found("after-the-end", self, round=slot.round)
        elif isinstance(message.body, Key):
            self.checker.seen(message, slot, self)
        elif isinstance(message.body, Stop):
            self._stop(message, message.body)
        elif isinstance(message.body, Done):
            if self.checker.seen(message, slot, self):
                self.checker.heard[message.sender, message.body.update] = message.body.heard
        else:
            self._in_place(message, message.body, self.checker.seen(message, slot, self))

    def _note(self, content: Content, message: Message) -> None:
        if set(content) != {"note", "frame"}:
            self.checker.found("altered-line", self)
        if content["note"] == "evidence":
            self.checker.evidence(message, self)
        elif isinstance(message.body, Closing | Opening):
            self.checker.seen(message, _slot(message), self)
        else:
            self.checker.found("wrong-sender", self, sender=message.sender)

    def _stop(self, message: Message, body: Stop) -> None:
        if message.sender != COORDINATOR:
            return  # an agent that leaves does not end the session
        self.ended = True
        self.checker.stop(body.update)
        # A stop that names another round than the last one in the file is wrong. Otherwise a coordinator
        # could leave out the rounds before its stop, and the transcript would look complete.
        if body.update != self.round:
            wrong = "missing-round" if body.update > self.round else "out-of-order"
            self.checker.found(wrong, self, round=self.round)

    def _in_place(self, message: Message, body: Report | Feedback | Closing | Opening, first: bool) -> None:
        if isinstance(body, Closing | Opening):
            self._part(message, body.round)
        elif isinstance(body, Report):
            self._report(message, body, first)
        elif first:
            self._feedback(message, body)
        else:
            # It contradicts other feedback and is reported already. The next lines of this file still follow
            # from it: do not report each of them again.
            self.round, self.reports, self.before = body.round + 1, {}, message.digest

    def _report(self, message: Message, body: Report, first: bool) -> None:
        if first and self.session.series is None:  # in a series it is a salt, and commits to nothing
            self.checker.heard[message.sender, body.update] = body.heard
            if not self.session.keepers:  # a masked message says nothing
                self.checker.said[body.update, message.sender] = message.numbers, body.exponent
        self._part(message, body.update)

    def _part(self, message: Message, t: int) -> None:
        """Store a message that is needed for the feedback of its round."""
        if t > self.round:
            self._next_round(t)
        if t != self.round:
            self.checker.found("out-of-order", self, round=t, sender=message.sender)
        else:
            # Also a message that contradicts another file's: this file's feedback may be the mean of it.
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
        checker.close(message, self.reports, self)
        used = checker.used.get(t)
        agents = [i for i in self.reports if 0 <= i < self.session.n]
        # An agent's own file has its report even if it came too late, so that is not worth a note.
        if used and any(i not in used and i != self.by for i in agents):
            checker.found("unused-report", self, round=t)
        self.round, self.reports, self.before = t + 1, {}, message.digest

    def _mean(self, content: Content) -> None:
        """Check a peer's own mean; its next report commits to the messages in it."""
        checker, session = self.checker, self.session
        form = _mean_form(session, content)
        if form is None:
            checker.found("unreadable-line", self)
            return
        t, agent, named = form
        if t != self.round:
            checker.found("out-of-order", self, round=t, sender=agent)
        elif absent := [j for j in named if j not in self.reports]:
            checker.lacks(t, agent, absent)
        else:
            counts = checker.session.counts(agent, named)
            y = checker.mean((self.reports[j] for j in named), counts)
            if same(content, mean_line(session, agent, t, y, named)):
                checker.claim(t, agent, named, y, self)
            else:
                checker.found("wrong-mean", self, round=t, sender=agent)


def _mean_form(session: Session, content: Content) -> tuple[int, int, tuple[int, ...]] | None:
    """Return round, agent and used agents of a mean; None if impossible."""
    t, agent, used = (content.get(key) for key in ("round", "agent", "used"))
    # Not isinstance: `true` in JSON is an int in Python, and would be read as agent 1.
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
        case Feedback() | Closing() | Opening():
            return Slot(message.sender, KINDS[type(body)], body.round)
        case Key():
            return Slot(message.sender, Kind.KEY, 0)
        case Done():
            return Slot(message.sender, Kind.DONE, body.update)
        case _:  # may be said again at another time: the message itself is its slot
            return Slot(message.sender, Kind.STOP, int.from_bytes(message.digest, "big"))


def _round(content: Content) -> int | None:
    t = content.get("round")
    return t if type(t) is int else None
