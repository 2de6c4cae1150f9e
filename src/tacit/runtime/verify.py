"""Judge a finished session from its transcripts alone, without any secret.

Anyone can: signatures, the session's id, the order of rounds, whose messages each feedback names, its mean
to the last bit, the noise exponents that the schedule demands, what the messages cost each agent, and whether
anybody said two things at once. What a transcript cannot show: messages that were left out of
it altogether, and whether the noise was drawn as it must be; for that there is `tacit audit`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, final

import numpy as np

from tacit.errors import FileError, InputError
from tacit.mechanism import Distributed
from tacit.protocol.codec import as_array
from tacit.protocol.messages import Kind
from tacit.protocol.session import Session
from tacit.runtime.checking import Checker
from tacit.runtime.findings import Finding
from tacit.runtime.reading import Reading
from tacit.theory import happened
from tacit.theory.rounding import fraction_up


@final
@dataclass(frozen=True, eq=False)
class Accuracy:
    """How far off a value is, by what really happened.

    Attributes
    ----------
    what : str
        Whose value: the last feedback, the average of all states, or one agent's state.
    radius : float
        Around the declared target, whatever the values within the session's range were.
    radius_met : float
        Around the target that was really met, Σ weights·values.
    shift : float
        How far the two targets can be apart.
    weights : array
        Of each agent's value in what was really met.
    """

    what: str
    failure_probability: float
    radius: float
    radius_met: float
    shift: float
    weights: np.ndarray


@final
@dataclass(frozen=True, eq=False)
class Verdict:
    """What transcripts of one session prove.

    Attributes
    ----------
    findings : tuple of Finding
        What was found; `sound` if none of them is wrong.
    rounds : int
        How many rounds are over.
    used : tuple of tuples
        With a server, whose messages each round used, by number; on a graph who used whose, as pairs.
    means : int
        How many means were recomputed and are right to the last bit.
    losses : tuple of float
        What each agent's messages in these transcripts cost it, rounded up, for the session's adjacency.
    result : tuple of float or None
        The last feedback, one number per component; on a graph nobody says it.
    accuracy : Accuracy or None
        None where these transcripts do not tell whose messages were used.
    """

    session: Session
    findings: tuple[Finding, ...]
    rounds: int
    used: tuple[tuple[Any, ...], ...]
    means: int
    losses: tuple[float, ...]
    messages: tuple[int, ...]
    result: tuple[float, ...] | None
    accuracy: Accuracy | None

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not any(finding.wrong for finding in self.findings)

    @property
    def equivocators(self) -> tuple[str, ...]:
        """Who is proved to have said two things at once."""
        names = {f.sender for f in self.findings if f.name == "equivocation" and f.sender is not None}
        return tuple(sorted(names))


def verify(
    paths: str | Path | Sequence[str | Path],
    *,
    running: bool = False,
    failure_probability: float = 0.05,
    agent: str | None = None,
    session: Session | None = None,
) -> Verdict:
    """Check one session's transcripts, one or several members', and say what they prove.

    Parameters
    ----------
    paths : path, or several
        Several are judged together: what a coordinator told different agents is compared.
    running : bool
        Accept that rounds are missing at the end: the session may go on.
    failure_probability : float
        Of the accuracy radius.
    agent : str, optional
        Report the accuracy of this agent's own state; by default of the last feedback, on a graph of the
        average of all states.
    session : Session, optional
        What was agreed on. Without it a transcript is judged by the session and keys that it declares itself:
        then compare its id, or whoever made up everything else made up the keys too.

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


def _verdict(checker: Checker, failure_probability: float, agent: int | None) -> Verdict:
    session = checker.session
    losses, messages = _losses(checker)
    result = None
    if checker.feedback is not None:
        result = tuple(np.atleast_1d(session.lattice.value(as_array(checker.feedback[1]))).tolist())
    return Verdict(
        session=session,
        findings=tuple(checker.findings),
        rounds=checker.rounds,
        used=_used(checker),
        means=checker.checked,
        losses=losses,
        messages=messages,
        result=result,
        accuracy=_accuracy(checker, failure_probability, agent),
    )


def _used(checker: Checker) -> tuple[tuple[Any, ...], ...]:
    if checker.session.topology == "server":
        return tuple(checker.used.get(t, ()) for t in range(checker.rounds))
    rows: list[list[tuple[int, int]]] = [[] for _ in range(checker.rounds)]
    for (t, i), named in sorted(checker.means.items()):
        rows[t] += [(i, j) for j in named]
    return tuple(map(tuple, rows))


def _losses(checker: Checker) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Add up what each agent's messages cost: two different ones for one update cost twice."""
    session = checker.session
    totals, counts = [Fraction(0)] * session.n, [0] * session.n
    for slot in checker.digests:
        if slot.kind is Kind.REPORT:
            cost = Fraction(float(session.account(slot.sender).per_message[slot.round]))
            totals[slot.sender] += cost * (1 + checker.more[slot])
            counts[slot.sender] += 1 + checker.more[slot]
    return tuple(map(fraction_up, totals)), tuple(counts)


def _accuracy(checker: Checker, failure_probability: float, agent: int | None) -> Accuracy | None:
    """Return the radius for what really happened, docs/proofs/happened.md."""
    session, rounds = checker.session, checker.rounds
    used = _used(checker)
    if rounds == 0 or not all(used) or not _complete(checker):
        return None
    mechanism = session.mechanism
    try:
        if isinstance(mechanism, Distributed):
            run = happened.graph(mechanism, used, lattice=session.lattice)
        else:
            run = happened.server(mechanism, used, lattice=session.lattice)
    except InputError:  # what is wrong has been found before; no number follows from it
        return None
    if agent is not None:
        value, what = run.agent(agent), f"the state of {session.member_name(agent)}"
    elif isinstance(mechanism, Distributed):
        value, what = run.average(), "the average of all states"
    else:
        value, what = run.feedback(), "the last feedback"
    spread, k = session.lattice.high - session.lattice.low, session.components
    met = value.radius(failure_probability, components=k)
    return Accuracy(
        what,
        failure_probability,
        radius=max(met, value.radius(failure_probability, spread=spread, components=k)),
        radius_met=met,
        shift=value.bias * spread,
        weights=value.weights,
    )


def _complete(checker: Checker) -> bool:
    """On a graph: whether it is known for every agent's every update what it was made of.

    An agent that fell out for good has no updates from some round on; one in between leaves a gap.
    """
    if checker.session.topology == "server":
        return True
    known, needed = Counter(i for _, i in checker.means), Counter[int]()
    for t, i in checker.means:
        needed[i] = max(needed[i], t + 1)
    for slot in checker.digests:
        if slot.kind is Kind.REPORT:
            needed[slot.sender] = max(needed[slot.sender], slot.round)
    return all(known[i] == needed[i] for i in range(checker.session.n))
