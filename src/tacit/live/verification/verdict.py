"""Judge a session from its transcripts alone, without any secret.

Anyone can check signatures, the session's id, the order of rounds, which messages are in each mean, each mean
to the last bit, quorums, the exponents that the noise schedule requires, the loss of each agent's messages,
and whether anybody signed two different messages for one round. A session is sound only if all of that was
checked for every round. If something is missing, the verdict is "unchecked" and says what is missing.

A transcript cannot show messages that were left out of it completely, nor whether the noise was drawn
correctly; `tacit audit` tests the noise. docs/reference/wire.md has every rule, for other implementations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, final

import numpy as np

from tacit.base.errors import FileError, InputError
from tacit.base.report import Shown, Summary
from tacit.base.rounding import fraction_up, product_up
from tacit.core.history import History, Wholes
from tacit.core.history.value import closed_pairs
from tacit.core.mechanism import Distributed
from tacit.core.mechanism.lattice import LatticeAgent
from tacit.core.noise.accounting import account
from tacit.core.protocol.answer import SessionAnswer, session_answer, slot_answer
from tacit.core.protocol.codec import as_array
from tacit.core.protocol.messages import Kind
from tacit.core.protocol.notices import MeanPublished
from tacit.core.protocol.session import Session
from tacit.core.theory import influence, selection
from tacit.core.theory.influence import RunInfluence, Value
from tacit.live.runtime.transcript import Reading
from tacit.live.verification.findings import Finding
from tacit.live.verification.transcript_checker import Checker
from tacit.live.verification.verdict_rows import verdict_dict, verdict_summary

_FREE, _PER_LINE = 1000, 4
"""Maximum number of messages whose loss is computed: this many, plus some per line of the file. Each takes
about 50 µs and needs those of all updates before it: a file of three lines could demand 100,000."""

_MOST_NUMBERS = 20_000_000
"""Maximum size of a history in numbers: a file of few lines could declare very many agents."""


@final
@dataclass(frozen=True, eq=False)
class Accuracy:
    """How far off a value is, given the messages that were really used.

    Attributes
    ----------
    what : str
        Which value: the last feedback, the average of all states, or one agent's state.
    components : int
        How many numbers a value has. Each radius is for any one of them; those named `…_all_components`
        cover all of them at once.
    radius : float
        Around the declared target, for all values within the session's range. It assumes that the choice of
        used messages does not depend on the noise.
    radius_met : float
        Around the actual target, Σ weights·values; with the same assumption.
    radius_any_selection : float
        Around the declared target, for any choice of the messages used and of when the session ended.
    shift : float
        How far the two targets can be apart.
    weights : array
        The weight of each agent's value in the actual target.
    """

    what: str
    failure_probability: float
    components: int
    radius: float
    radius_all_components: float
    radius_met: float
    radius_met_all_components: float
    radius_any_selection: float
    radius_any_selection_all_components: float
    shift: float
    weights: np.ndarray


@final
@dataclass(frozen=True)
class SeriesRun:
    """The published means of a series, recomputed from signed sums.

    Attributes
    ----------
    means : tuple
        Of every slot, not clamped to the range; None where a slot is lost.
    used, members : tuple of int
        Whose messages were used, and who had been used at least once by then.
    deviations : tuple
        The standard deviation of the noise in each mean, at most; None where a slot is lost. What missing
        agents would have added is not in it.
    agents : int
        How many are on the roster.
    answers : tuple of SessionAnswer or None
        What each mean says to the question of the series; nothing if that is the mean of a number.
    incomplete_before : tuple of int
        In how many earlier slots an agent was missing, where these slots still count in a mean.
    """

    means: tuple[float | tuple[float, ...] | None, ...]
    used: tuple[int, ...]
    members: tuple[int, ...]
    deviations: tuple[float | None, ...]
    incomplete_before: tuple[int, ...]
    agents: int
    answers: tuple[SessionAnswer | None, ...] = ()

    @property
    def incomplete(self) -> int:
        """In how many slots an agent was missing."""
        return sum(used < self.agents for used in self.used)

    @property
    def lost(self) -> int:
        """How many slots are lost."""
        return self.used.count(0)


@final
@dataclass(frozen=True, eq=False)
class Verdict(Shown):
    """What transcripts of one session prove.

    Attributes
    ----------
    findings : tuple of Finding
        What was found; `sound` if nothing is wrong and nothing is missing.
    rounds : int
        How many rounds are over.
    used : tuple of tuples
        With a server, whose messages each round used, by number; nobody where these transcripts do not have
        all messages of the round. On a graph who used whose, as pairs.
    means : int
        How many means were recomputed and are correct to the last bit.
    losses : tuple of float, or None
        The loss of each agent's messages in these transcripts, rounded up, for the session's adjacency.
    declared : tuple of float, or None
        The loss of each agent if it sends in every round. Both are None if computing them would take too long
        for transcripts of this size.
    claimed : tuple of float or None
        The last feedback as it was signed, one number per component; None on a graph.
    history : History or None
        What happened, from the signed frames only. None unless the session is sound, and if it would be too
        large.
    failure_probability : float
        Of the accuracy's radii.
    agent : int or None
        The agent whose state the accuracy is for. None means the last feedback, or on a graph the average of
        all states.
    series : SeriesRun or None
        Of a series: its published means, and how noisy they are.
    heard : tuple of float or None
        On a graph, with an agent: the last mean that it made.
    """

    session: Session
    findings: tuple[Finding, ...]
    rounds: int
    used: tuple[tuple[Any, ...], ...]
    means: int
    losses: tuple[float, ...] | None
    declared: tuple[float, ...] | None
    messages: tuple[int, ...]
    claimed: tuple[float, ...] | None
    history: History | None
    failure_probability: float
    agent: int | None
    series: SeriesRun | None = None
    heard: tuple[float, ...] | None = None

    @cached_property
    def accuracy(self) -> Accuracy | None:
        """How far off the result is, given the messages that were used.

        None unless the session is sound, and for agents with their own dynamics, whose promise holds if all
        took part. It is computed on first use, because exact radii take most of the time of a verdict.
        """
        if self.history is None or self.session.motion is not None:
            return None
        return _accuracy(self.session, self.history, self.failure_probability, self.agent)

    @cached_property
    def answer(self) -> SessionAnswer | None:
        """What the result says to the session's question, computed anew.

        None unless the session is sound, and if a mean is asked. On a graph every agent has a mean of its
        own: it is what the last one of the chosen agent says. None if a message was not used: the noise of
        such a mean is not computed.
        """
        if self.heard is not None and self.sound and self.complete:
            return session_answer(self.session, self.heard, self.session.n, self.failure_probability)
        if self.result is None or not self.used:
            return None
        if self.series is not None:
            return self.series.answers[-1] if self.series.answers else None
        return session_answer(self.session, self.result, len(self.used[-1]), self.failure_probability)

    @property
    def complete(self) -> bool:
        """Whether every agent used all messages in every round."""
        n, edges = self.session.n, self.session.edges
        whole = n if edges is None else n + 2 * len(edges)
        return all(len(row) == whole for row in self.used)

    @property
    def word(self) -> Literal["sound", "unchecked", "unsound"]:
        """The verdict in one word."""
        return _word(self.findings)

    @property
    def sound(self) -> bool:
        """Whether all means were recomputed, and nothing is wrong or missing."""
        return self.word == "sound"

    @property
    def result(self) -> tuple[float, ...] | None:
        """The last feedback if the session is sound; otherwise None."""
        return self.claimed if self.sound else None

    @property
    def equivocators(self) -> tuple[str, ...]:
        """Members that signed two different messages for one round."""
        names = {f.sender for f in self.findings if f.name == "equivocation" and f.sender is not None}
        return tuple(sorted(names))

    def as_dict(self) -> dict[str, Any]:
        """Return everything a program would read, ready for JSON."""
        return verdict_dict(self)

    def summary(self) -> Summary:
        """Return the verdict for people."""
        return verdict_summary(self)


def verify(
    paths: str | Path | Sequence[str | Path],
    *,
    running: bool = False,
    failure_probability: float = 0.05,
    agent: str | None = None,
    session: Session | None = None,
) -> Verdict:
    """Check transcripts of one session, and say what they prove.

    Parameters
    ----------
    paths : path, or several
        Several are judged together: what a coordinator told different agents is compared.
    running : bool
        Accept that rounds are missing at the end: the session may go on. What is there is judged as usual.
    failure_probability : float
        Of the accuracy radius, which is computed where the session is sound.
    agent : str, optional
        Report the accuracy of this agent's own state; by default of the last feedback, on a graph of the
        average of all states.
    session : Session, optional
        The session that was agreed on. Without it a transcript is judged by the session and keys that it
        declares itself. Then compare the session's id: an attacker could have made up everything, including
        the keys.

    Raises
    ------
    FileError
        If a file cannot be read, or is no transcript.
    """
    several = [paths] if isinstance(paths, str | Path) else list(paths)
    if not several:
        raise FileError("there must be a transcript to verify.")
    first = Reading(several[0])
    number = None if agent is None else first.session.index(agent)
    checker = Checker(first.session)
    # The keys that check the signatures come from the file itself. Only the caller's session ties them to
    # real members, so another id is wrong even if everything else fits.
    if session is not None and session.id != first.session.id:
        checker.found("other-session")
    for path in several:
        reading = first if path is several[0] else Reading(path)
        if reading.session.id != first.session.id:
            checker.found("other-session")
            continue
        checker.add(reading, Path(path).name)
    checker.finish(running=running)
    return _verdict(checker, failure_probability, number)


def _word(findings: Sequence[Finding]) -> Literal["sound", "unchecked", "unsound"]:
    if any(finding.wrong for finding in findings):
        return "unsound"
    return "unchecked" if any(finding.gap for finding in findings) else "sound"


def _verdict(checker: Checker, failure_probability: float, agent: int | None) -> Verdict:
    session = checker.session
    messages, losses = _messages(checker), _losses(checker)
    if losses is None:
        checker.found("losses-uncounted")
    claimed, series = None, _series(checker, failure_probability)
    if series is not None:
        last = series.means[-1] if series.means else None
        claimed = (last,) if isinstance(last, float) else last
    elif checker.feedback is not None:
        numbers = session.lattice.value(as_array(checker.feedback.numbers))
        claimed = tuple(np.atleast_1d(numbers).tolist())
    own = None if agent is None else checker.answers.get((session.rounds - 1, agent))
    heard = None
    if session.edges is not None and own is not None:
        heard = tuple(float(session.lattice.value(number)) for number in own)
    small = series is None and 0 < checker.rounds * session.n * session.components <= _MOST_NUMBERS
    seen = _history(checker) if small and _word(checker.findings) == "sound" else None
    return Verdict(
        session=session,
        findings=tuple(checker.findings),
        rounds=checker.rounds,
        used=_used(checker),
        means=len(checker.right) + len(checker.means),
        losses=losses,
        declared=_declared(checker),
        messages=messages,
        claimed=claimed,
        history=seen,
        failure_probability=failure_probability,
        agent=agent,
        series=series,
        heard=heard,
    )


def _series(checker: Checker, failure_probability: float) -> SeriesRun | None:
    """Decode the means of a series from its sums, and say how noisy they are."""
    series = checker.session.series
    if series is None:
        return None
    session, found = checker.session, list[MeanPublished]()
    decoder = series.decoder(len(session.keepers), session.question)
    for t in range(checker.rounds):
        if t not in checker.feedbacks:
            break  # nothing after a gap can be decoded
        body = checker.feedbacks[t]
        if found and body.members < found[-1].members:
            break  # a lie, which is found elsewhere
        decoder.add(checker.answers[t, 0], body.count, body.members)
        found.append(MeanPublished.of(decoder))
    return SeriesRun(
        means=tuple(one.mean for one in found),
        used=tuple(one.count for one in found),
        members=tuple(one.members for one in found),
        deviations=tuple(one.deviation for one in found),
        incomplete_before=tuple(one.incomplete_before for one in found),
        agents=session.n,
        answers=()
        if session.asked is None
        else tuple(slot_answer(session, one, failure_probability) for one in found),
    )


def _used(checker: Checker) -> tuple[tuple[Any, ...], ...]:
    if checker.session.topology == "server":
        return tuple(tuple(checker.used.get(t, ())) for t in range(checker.rounds))
    rows: list[list[tuple[int, int]]] = [[] for _ in range(checker.rounds)]
    for (t, i), named in sorted(checker.means.items()):
        rows[t] += [(i, j) for j in named]
    return tuple(map(tuple, rows))


def _messages(checker: Checker) -> tuple[int, ...]:
    counts = [0] * checker.session.n
    for slot in checker.digests:
        if slot.kind is Kind.REPORT:
            counts[slot.sender] += 1 + checker.more[slot]
    return tuple(counts)


def _losses(checker: Checker) -> tuple[float, ...] | None:
    """Add up the losses of each agent's messages.

    Two different messages for one update count twice: each has its own noise, so both together say more about
    the state. None if it would take too long for transcripts of this size.
    """
    session = checker.session
    if session.series is not None:  # one loss for all its messages
        times = [0] * session.n
        for slot in checker.digests:
            if slot.kind is Kind.REPORT:
                times[slot.sender] = max(times[slot.sender], 1) + checker.more[slot]
        return tuple(product_up(count, session.series.loss) for count in times)
    last: dict[LatticeAgent, int] = {}
    slots = [slot for slot in checker.digests if slot.kind is Kind.REPORT]
    for slot in slots:
        agent = session.lattice_agent(slot.sender)
        last[agent] = max(last.get(agent, 0), slot.round + 1)
    if sum(last.values()) > _FREE + _PER_LINE * checker.lines:
        return None
    # Agents with the same lattice parameters have the same costs: one account for each kind of agent.
    costs = {
        agent: account(agent, most, adjacency=session.adjacency, components=session.components).per_message
        for agent, most in last.items()
    }
    totals = [Fraction(0)] * session.n
    for slot in slots:
        cost = Fraction(float(costs[session.lattice_agent(slot.sender)][slot.round]))
        totals[slot.sender] += cost * (1 + checker.more[slot])
    return tuple(map(fraction_up, totals))


def _declared(checker: Checker) -> tuple[float, ...] | None:
    """Return the loss of each agent if it sends in every round."""
    session = checker.session
    if session.series is not None:
        return (session.series.loss,) * session.n
    agents = {session.lattice_agent(i) for i in range(session.n)}
    if len(agents) * session.rounds > _FREE + _PER_LINE * checker.lines:
        return None
    return tuple(session.account(i).total for i in range(session.n))


def _history(checker: Checker) -> History:
    """Return the history of the session, from signed messages."""
    session, rounds, mechanism = checker.session, checker.rounds, checker.session.mechanism
    n, tail = session.n, () if session.components == 1 else (session.components,)
    on_graph = isinstance(mechanism, Distributed)
    x = np.zeros((rounds, n, *tail), dtype=object)
    said, exponent = np.zeros((rounds, n), dtype=np.bool_), np.zeros((rounds, n), dtype=np.int64)
    for (t, i), (numbers, step) in checker.said.items():
        if t < rounds:
            x[t, i], said[t, i], exponent[t, i] = as_array(numbers), True, step
    y = np.zeros((rounds, *((n,) if on_graph else ()), *tail), dtype=object)
    update = np.repeat(np.arange(rounds)[:, None], n, axis=1)
    if isinstance(mechanism, Distributed):
        pairs = {pair: e for e, pair in enumerate(map(tuple, closed_pairs(mechanism).tolist()))}
        used = np.zeros((rounds, len(pairs)), dtype=np.bool_)
        made = np.zeros(n, dtype=np.int64)
        for (t, i), named in checker.means.items():
            y[t, i] = as_array(checker.answers[t, i])
            used[t, [pairs[i, j] for j in named]] = True
            made[i] = max(made[i], t + 1)
        update = np.minimum(update, made)
    else:
        used = np.zeros((rounds, n), dtype=np.bool_)
        for t, row in checker.used.items():
            y[t] = as_array(checker.answers[t, 0])
            used[t, list(row)] = True
    floats, value = np.zeros(x.shape), session.lattice.value
    floats[said] = value(x[said], exponent[said].reshape(-1, *(1 for _ in tail)))
    return History(
        mechanism,
        floats,
        np.asarray(value(y)),
        said,
        np.arange(rounds),
        update,
        exponent,
        Wholes(session.lattice, x, y),
        used,
    )


def _accuracy(
    session: Session, seen: History, failure_probability: float, agent: int | None
) -> Accuracy | None:
    """Return the radius for the messages that were used.

    docs/proofs/influence.md has the proof.
    """
    mechanism = session.mechanism
    try:
        run = influence.of(seen)
    except InputError:  # not enough of it was seen; no number follows from that
        return None
    if agent is not None:
        value, what = run.agent(agent), f"the state of {session.member_name(agent)}"
    elif isinstance(mechanism, Distributed):
        value, what = run.average(), "the average of all states"
    else:
        value, what = run.feedback(), "the last feedback"
    return _judged(run, value, what, session, failure_probability)


def _judged(run: RunInfluence, value: Value, what: str, session: Session, b: float) -> Accuracy:
    """Return all radii, for one component and for all."""
    spread = session.lattice.high - session.lattice.low
    least, rounds, rest = session.least_quorum, session.rounds, session.besides_clamps(b)

    def radii(k: int) -> tuple[float, float, float]:
        met = value.radius(rest, components=k)
        around = max(met, value.radius(rest, spread=spread, components=k))
        proof = selection.radius(run, value, rest, least=least, rounds=rounds, spread=spread, components=k)
        return around, met, max(around, proof)

    one = radii(1)
    every = one if session.components == 1 else radii(session.components)
    return Accuracy(
        what=what,
        failure_probability=b,
        components=session.components,
        radius=one[0],
        radius_all_components=every[0],
        radius_met=one[1],
        radius_met_all_components=every[1],
        radius_any_selection=one[2],
        radius_any_selection_all_components=every[2],
        shift=value.bias * spread,
        weights=value.weights,
    )
