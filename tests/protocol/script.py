"""Plays a script of the protocol: commands in; records, messages and notices out, in words.

A script is text. A paragraph of commands, a line `----`, and what follows from them; paragraphs that begin
with `#` explain. The machines, ledgers and messages are the real ones, the clock and the network do as told:

    session agents=2 rounds=3     known keys; also quorum, keepers, graph, law, slots, and cap
    start agent-0 …               start or restart members; all without a name
    deliver                       deliver what is on its way, and what follows from that, to the end
    deliver agents -> coordinator the same, from these to those; `agents`, `keepers` or a name
    lose agent-0 -> coordinator   lose what is on its way
    wait 5                        let 5 seconds pass
    crash agent-0 [when saved]    at once, or as soon as it has saved something, before it sends that
    backup agent-0                copy its ledger; `restore agent-0` puts the copy back
    halt agent-0                  its owner stops it
    expire                        the session's time is over, by everybody's clock
    quietly …                     any of these, without what follows
"""

from __future__ import annotations

import math
import re

import msgspec
import numpy as np
from tests.doubles import Harness, ListLedger, Point, ScriptedNoise, known_series, known_session

from tacit.base.errors import TacitError
from tacit.core.protocol.codec import Codec
from tacit.core.protocol.effects import Expired, Halt, Heard, Tick
from tacit.core.protocol.messages import Ask, Closing, Feedback, Message, Opening, Report, Stop
from tacit.core.protocol.private_state import Budget
from tacit.core.protocol.roster import COORDINATOR
from tacit.core.protocol.session import Deadlines

UNTOLD = {"cost", "spoken", "answered", "updated", "round-opened", "refused"}
"""Notices that repeat what a record or a message says, and refusals, which are told with their reason."""
BODIES = {
    "Present": "I am present, after {update} updates",
    "Report": "message {update}",
    "Masked": "masked message {update}",
    "Feedback": "feedback of round {round}, of {count} messages",
    "Place": "your place in the feedback of round {round}: last used in round {last}",
    "Done": "I am done, after {update} updates",
    "Key": "my ephemeral key",
    "Closing": "closing of round {round}: open the sum of {count} messages",
    "Opening": "opening of round {round}",
}
RECORDS = {
    "Began": "that it has begun",
    "Spoke": "message {update}",
    "Moved": "update {update}",
    "Sampled": "the reading of slot {slot}",
    "Silenced": "that it sends nothing from update {update} on",
    "Keyed": "the key of {member}",
    "Erasing": "that its key is erased",
    "Disclosed": "opening {update}",
    "Shut": "closing of round {round}",
    "Unopened": "that round {round} cannot be opened",
    "Opened": "that the session is open",
    "Closed": "feedback of round {round}",
    "Evidence": "evidence against {sender} in round {round}",
    "Ended": "the end, at round {round}",
}


class Script:
    """The members of one script, and what happened since the last command."""

    def __init__(self):
        self.lines, self.copies, self.doomed = [], {}, set()
        self.first, self.sent, self.saved = {}, set(), False

    def do(self, command):
        quietly = command.startswith("quietly ")
        verb, *words = command.removeprefix("quietly ").split()
        self.lines = []
        getattr(self, f"_{verb}")(*words)
        return [] if quietly else self.lines or ["(nothing)"]

    # ---- commands ---------------------------------------------------------------------------------------

    def _session(self, *words):
        given = dict(word.split("=") for word in words)
        cap = float(given.pop("cap", "inf"))
        numbers = {name: int(text) for name, text in given.items() if text.isdecimal()}
        given |= numbers
        if "slots" in given:
            session = known_series(given.pop("agents"), given.pop("slots"), **given)
            values = [lambda _slot, i=i: float(i) for i in range(session.n)]
        else:
            given.setdefault("deadlines", Deadlines(round=10.0, start=20.0, repeat=1.0))
            session = known_session(**given)
            values = [i / session.n for i in range(session.n)]
        draws = ScriptedNoise(np.zeros((session.rounds, session.n), dtype=object))
        self.harness = Harness(
            session, values, draws, budgets=Budget(cap, partial=True) if cap < math.inf else None,
            liveliness=False, observe=self._observe, crash=self._crashes,
        )  # fmt: skip
        self.session, self.codec = session, Codec(session)
        self.names = {number: self._name(number) for number in self.harness.numbers}
        self.lines.append(f"members: {', '.join(self.names.values())}")

    def _start(self, *names):
        for number in map(self._number, names) if names else self.harness.numbers:
            self.lines.append(f"{self.names[number]} starts")
            self._safely(number, self.harness.start, number)

    def _deliver(self, *route):
        while (packet := self._packet(*route)) is not None:
            self._head(f"{self.names[packet.source]} -> {self.names[packet.to]}: {self._said(packet)}")
            if self.harness.machines[packet.to] is None:
                self._tell("nobody is there")
            self._safely(packet.to, self.harness.process, packet.to, Heard(packet.frame, packet.source))

    def _lose(self, *route):
        while (packet := self._packet(*route)) is not None:
            self._head(f"{self.names[packet.source]} -> {self.names[packet.to]}: {self._said(packet)}, lost")

    def _packet(self, source=None, _arrow="->", to=None):
        flying = self.harness.network.flying
        for place, packet in enumerate(flying):
            if self._is(packet.source, source) and self._is(packet.to, to):
                return flying.pop(place)
        return None

    def _is(self, number, asked):
        agents = 0 <= number < self.session.n
        group = "agents" if agents else "keepers"
        return asked in (None, self.names[number], group)

    def _wait(self, seconds):
        for passed in (0.0, float(seconds)):  # timers begin with the first tick after they are set
            self.harness.clock.advance(passed)
            now = self.harness.clock.now
            self.lines += [f"it is {now:g} s"] if passed else []
            for number in self.harness.numbers:
                self._safely(number, self.harness.process, number, Tick(now, now))

    def _crash(self, name, *when):
        if when:
            self.doomed.add(self._number(name))
            self.lines.append(f"{name} will crash when it has saved something")
        else:
            self.harness.stop(self._number(name))
            self.lines.append(f"{name} is gone; its ledger is left")

    def _crashes(self, number, point):
        saved = point is Point.SAVED and number in self.doomed and self.saved
        if saved:
            self.doomed.remove(number)
            del self.lines[self.before_sending :]
            self._tell(f"{self.names[number]} crashes")
            self.sent = self.sent_before
        return bool(saved)

    def _backup(self, name):
        self.copies[name] = self.harness.ledgers[self._number(name)].records()
        self.lines.append(f"a copy of the ledger of {name}")

    def _restore(self, name):
        self.harness.ledgers[self._number(name)] = ListLedger(self.copies[name])
        self.lines.append(f"{name} has an old ledger")

    def _halt(self, name):
        self.lines.append(f"{name} is stopped by its owner")
        self._safely(self._number(name), self.harness.process, self._number(name), Halt())

    def _expire(self):
        for number in self.harness.numbers:
            self.lines.append(f"{self.names[number]} sees that the session has expired")
            self._safely(number, self.harness.process, number, Expired())

    # ---- words ------------------------------------------------------------------------------------------

    def _head(self, line):
        self.lines.append(line)

    def _tell(self, line):
        self.lines.append(f"  {line}")

    def _safely(self, number, act, *arguments):
        """Let a member act; one that raises stops for good, with that sentence."""
        try:
            act(*arguments)
        except TacitError as error:
            self._tell(f"{self.names[number]} refuses to go on: {str(error).partition(':')[0]}")
            self.harness.machines[number] = None

    def _observe(self, number, step):
        name, self.saved = self.names[number], bool(step.records)
        for record in step.records:
            self._tell(f"{name} saves {self._recorded(record)}")
        for notice in step.notices:
            if notice.event == "refused":
                self._tell(f"{name} refuses it: {notice.reason.value}")
            elif notice.event not in UNTOLD:
                self._tell(f"{name} tells: {self._noticed(notice)}")
        self.before_sending, self.sent_before = len(self.lines), set(self.sent)
        for message in step.messages:
            to = "all" if message.to is None else self.names[message.to]
            said = self._worded(self._opened(message.frame), whose=number)
            self._tell(f"{name} sends {to}: {said}{self._again(message)}")

    def _again(self, send):
        """Say whether a message that exists once for its round was sent before."""
        body = self._opened(send.frame).body
        if not isinstance(body, Report | Feedback | Closing | Opening):
            return ""
        place = self._opened(send.frame).sender, type(body), msgspec.structs.astuple(body)[0]
        first = self.first.setdefault(place, send.frame)
        if (place, send.to) in self.sent:
            return ", the same bytes again" if first == send.frame else ", BUT OTHER BYTES"
        self.sent.add((place, send.to))
        return "" if first == send.frame else ", BUT OTHER BYTES"

    def _opened(self, frame):
        message = self.codec.read(frame, own=True)
        assert isinstance(message, Message)
        return message

    def _said(self, packet):
        return self._worded(self._opened(packet.frame), whose=packet.source)

    def _worded(self, message, whose=None):
        body, name = message.body, type(message.body).__name__
        if isinstance(body, Ask):
            ours = message.sender == COORDINATOR
            said = f"send message {body.round}" if ours else f"repeat from round {body.round} on"
        elif isinstance(body, Stop):
            said = f"I stop at {body.update} ({body.reason.name.lower()})"
        elif name in BODIES:
            said = BODIES[name].format(**msgspec.structs.asdict(body))
        else:
            said = name.lower()
        if whose not in (None, message.sender):
            said += f", as {self.names[message.sender]} signed it"
        return said

    def _recorded(self, record):
        facts = msgspec.structs.asdict(record)
        for field in ("member", "sender"):
            if field in facts:
                facts[field] = self.names[facts[field]]
        said = RECORDS.get(type(record).__name__, type(record).__name__.lower()).format(**facts)
        return said + (f" ({facts['reason'].name.lower()})" if facts.get("reason") is not None else "")

    def _noticed(self, notice):
        facts = notice.facts(self.session)
        words = [facts.pop("event").replace("-", " ")]
        for name, fact in facts.items():
            if not isinstance(fact, float):
                shown = ", ".join(fact) or "nobody" if isinstance(fact, list) else fact
                words.append(f"{name.replace('_', ' ')} {shown}")
        return "; ".join(words)

    def _name(self, number):
        return "coordinator" if number == COORDINATOR else self.session.member_name(number)

    def _number(self, name):
        return next(number for number, known in self.names.items() if known == name)


def played(text):
    """Return a script with what really follows from its commands."""
    script, found = Script(), []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        commands = paragraph.partition("\n----")[0].splitlines()
        if paragraph.startswith("#"):
            found.append(paragraph)
        else:
            lines = [line for command in commands for line in script.do(command)]
            found.append("\n".join([*commands, *(["----", *lines] if lines else [])]))
    return "\n\n".join(found) + "\n"
