"""Ask a question of records that are all here, with simulated noise.

Such an answer protects nobody. It shows how exact the answer of a session would be, before anyone spends
privacy on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from tacit.base.arguments import inside_unit, instance, positive, whole
from tacit.base.arrays import FloatArray, is_labelled
from tacit.base.errors import ParameterError, StateError
from tacit.base.report import Grid, Shown, counted, dataframe, down, near, up
from tacit.core.law import OneShot
from tacit.core.law.base import STEP
from tacit.core.mechanism import ClientServer, Distributed, Mechanism
from tacit.core.noise.simulated import as_seed
from tacit.core.question import Answer, Own, Part, Question
from tacit.core.theory.mean_noise import ComponentNoise
from tacit.lab.simulation.outcome import sample_outcome

if TYPE_CHECKING:
    import pandas as pd

_MIXING = 0.5  # of the mechanism; the mean of one-shot noise does not depend on it


@final
@dataclass(frozen=True)
class SimulatedAnswer(Shown):
    """What a question would find out, with simulated noise. NOT private.

    Attributes
    ----------
    question : Question
    each : Answer
        Every interval alone misses the truth with at most the failure probability.
    together : Answer
        Wider intervals: with at most the failure probability any of them misses.
    loss : float
        The privacy loss ε of every record, if this were a session.
    keepers : int
    failure_probability : float
    seed : int
    clamped, missing : int
        How many records were outside their domain, and how many were replaced by the stand-in. Both are
        private: they are for whoever holds the records.
    mechanism : Mechanism
        Whose noise it is.
    """

    question: Question
    each: Answer
    together: Answer
    loss: float
    keepers: int
    failure_probability: float
    seed: int
    clamped: int
    missing: int
    mechanism: Mechanism

    def to_dataframe(self, *, together: bool = False) -> pd.DataFrame:
        """Return one row per part: part, estimate, low, high, count.

        `count` is how many records were used. With `together` the intervals hold for all parts at once.
        """
        answer = self.together if together else self.each
        columns: dict[str, Any] = {"part": [part.name for part in answer.parts]}
        for name in ("estimate", "low", "high"):
            columns[name] = np.array([getattr(part, name) for part in answer.parts], dtype=np.float64)
        columns["count"] = np.full(len(answer.parts), answer.records)
        return dataframe(columns)

    def as_dict(self) -> dict[str, Any]:
        """Return the exact numbers for programs."""
        return {
            "question": self.question.kind,
            "records": self.each.records,
            "clamped": self.clamped,
            "missing": self.missing,
            "loss": self.loss,
            "keepers": self.keepers,
            "law": self.mechanism.law.name,
            "topology": "graph" if isinstance(self.mechanism, Distributed) else "server",
            "failure_probability": self.failure_probability,
            "seed": self.seed,
            "private": False,
            "parts": [part._asdict() for part in self.each.parts],
            "together": [part._asdict() for part in self.together.parts],
        }

    def summary(self) -> Grid:
        """Return a table with one row per part."""
        alone, joint = _by_name(self.each.parts), _by_name(self.together.parts)
        rows = []
        for key in dict.fromkeys([*alone, *joint]):
            one, all_of_them = alone.get(key), joint.get(key)
            estimate = near(one.estimate) if one else "-"
            rows.append((key[0], estimate, *_ends(one), *_ends(all_of_them)))
        return Grid(
            f"{self.question.kind.capitalize()} of {counted(self.each.records, 'record')}, loss "
            f"{near(self.loss)}, {counted(self.keepers, 'keeper')}: simulated",
            ("part", "estimate", "low", "high", "low, all parts", "high, all parts"),
            rows,
            tuple(self._notes()),
            right=(1, 2, 3, 4, 5),
        )

    def _notes(self) -> Iterator[str]:
        if not self.each.parts:
            yield (
                "There is no answer: the noise is so large that the weights could all be 0. Ask more agents, "
                "or take keepers or a larger loss."
            )
        b = near(self.failure_probability)
        yield (
            f"An interval misses the truth with probability at most {b}. That any of the wider ones does is "
            "as unlikely."
        )
        if isinstance(self.mechanism, Distributed):
            yield (
                "It is the mean vector that the agents of the graph agree on. After some rounds each is also "
                "off by what is left of the starts (`tacit.simulate`)."
            )
        if self.clamped:
            yield f"{counted(self.clamped, 'record')} outside the domain: clamped. Only you are told."
        if self.missing:
            yield f"{counted(self.missing, 'record')} missing: the stand-in was used. Only you are told."
        yield f"The noise is simulated (seed {self.seed}) and protects nobody: keep this answer to yourself."


def ask(
    records: Any,
    question: Question,
    *,
    loss: float,
    keepers: int = 0,
    failure_probability: float = 0.05,
    seed: int = 0,
    graph: Any = None,
    law: str = OneShot.name,
    mixing: float | None = None,
) -> SimulatedAnswer:
    """Simulate what a question would find out about private records.

    It plans one-shot noise for the loss around a server, and draws it from a seed. So the answer protects
    nobody. It shows how exact the answer of a session would be; on a graph, of what the agents agree on.

    Parameters
    ----------
    records : sequence, array, mapping, Series or DataFrame
        One record per agent. Rows of a table are records with several fields, in the order of the question:
        weight and number, label and record, or one record for each of several questions. A record outside
        its domain is clamped. A missing one (None, NaN) is replaced by the question's stand-in.
    question : Question
        Like ``Histogram([0, 1, 2, 5, 10])``.
    loss : float
        The privacy loss ε of one record, whatever it is changed to.
    keepers : int
        How many keepers add the noise; 0 if every agent adds its own.
    failure_probability : float
        With which an interval may miss the truth.
    seed : int
        The same seed gives the same noise.
    graph : Graph or what `Graph.of` takes, optional
        Who talks to whom, one agent per record in its order; a server unless given. The true average is aimed
        at, in which every record counts the same.
    law : str
        The noise, like "fading". Around a server fading noise is for means and sums only: other vectors are
        no quantities that must move smoothly.
    mixing : float, optional
        How fast states move. By default the one with the least noise.

    Examples
    --------
    >>> from tacit.core.question import Histogram
    >>> answer = ask([0.5, 1.5, 1.7, 9] * 100, Histogram([0, 1, 2, 5, 10]), loss=1, keepers=2)
    >>> [round(part.estimate) for part in answer.each.parts]
    [100, 200, 2, 101]
    """
    instance("question", question, Question, "a question", "Take one, like tacit.Mean(0, 10).")
    loss, keepers = positive("loss", loss), whole("keepers", keepers, 0)
    b, seed = inside_unit("failure_probability", failure_probability), as_seed(seed)
    vectors, clamped, missing = encoded(records, question)
    mean, many = vectors.mean(axis=0), len(vectors)
    if graph is None and law == OneShot.name and mixing is None:
        mechanism: Mechanism = ClientServer(
            _noise_for(loss, question.adjacency), agents=many, keepers=keepers
        )
    else:
        about = {"question": question, "loss": loss, "law": law, "mixing": mixing}
        mechanism = _planned(many, keepers, graph, **about)
    noise = ComponentNoise.of(mechanism)
    # The components have independent noise of one law, so that of each is one run.
    noisy = (mean + sample_outcome(mechanism, question.components, seed=seed)).tolist()
    each, together = (question.decode(noisy, many, noise, b, together=joint) for joint in (False, True))
    return SimulatedAnswer(question, each, together, loss, keepers, b, seed, clamped, missing, mechanism)


def _planned(many: int, keepers: int, graph: Any, **about: Any) -> Mechanism:
    """Return the best mechanism on a graph, or with another law."""
    from tacit.core.graph import Graph
    from tacit.core.theory.answers import answer
    from tacit.core.theory.plan import Plan

    if graph is None:
        return answer(Plan(agents=many, keepers=keepers, **about)).mechanism
    if keepers:
        raise ParameterError("keepers need a server: leave the graph or the keepers out.", "keepers")
    placed = Graph.of(graph)
    if placed.n != many:
        raise ParameterError(
            f"the graph must have one agent for each of {counted(many, 'record')}, and has {placed.n:,}.",
            "graph",
        )
    return answer(Plan(graph=placed, true_average=True, **about)).mechanism


def _noise_for(loss: float, adjacency: float) -> OneShot:
    """Return one-shot noise with at most this loss, in exact numbers."""
    c = adjacency / loss
    if not 1e-300 < c < 1e300:  # below, a step up would be no step
        raise ParameterError(f"loss must be a number that noise can have, got {loss}. Take one nearer to 1.")
    while sum((law := OneShot(_MIXING, c)).loss_parts(None, adjacency, 1)) > loss:
        c *= STEP
    return law


def encoded(records: Any, question: Question) -> tuple[FloatArray, int, int]:
    """Return one vector per record, and how many were clamped or missing."""
    vectors, counts = [], Counter[str]()
    for label, record in records_of(records, question):
        vector = question.stand_in
        if _is_missing(record):
            counts["missing"] += 1
        else:
            try:
                vector, changed = question.encode(record)
            except StateError as error:
                raise StateError(f"record {label!r} cannot be used: {error}") from None
            counts["clamped"] += changed
        vectors.append([float(number) for number in vector])
    if len(vectors) == counts["missing"]:
        raise StateError("there must be at least one record that is not missing, got none.")
    return np.array(vectors), counts["clamped"], counts["missing"]


def records_of(given: Any, question: Question) -> Iterator[tuple[Hashable, Any]]:
    """Yield each record with its label, or with its place if it has none."""
    if isinstance(given, Mapping):
        yield from given.items()
        return
    labelled = is_labelled(given)
    if not labelled and (isinstance(given, str | bytes) or not isinstance(given, Sequence | np.ndarray)):
        raise StateError(
            "records must be a list, an array, or a Series or table of pandas, with one record per agent, "
            f"got an object of type {type(given).__name__}."
        )
    labels = given.index.tolist() if labelled else range(len(given))
    twice = [label for label, times in Counter(labels).items() if times > 1]
    if twice:
        raise StateError(
            f"records must have one entry per agent, and have two for {twice[0]!r}. Remove one, or give each "
            "agent its own label, as with reset_index(drop=True)."
        )
    axes = np.ndim(given) if labelled or isinstance(given, np.ndarray) else 1
    if axes not in (1, 2):
        raise StateError(f"records must be one column or a table, got an array with {axes} axes.")
    if axes == 1:
        yield from zip(labels, given.tolist() if hasattr(given, "tolist") else given, strict=True)
        return
    free, wanted, width = isinstance(question, Own), len(question.fields), given.shape[1]
    if not free and wanted != width:
        raise StateError(
            f"a table for this {question.kind} must have {counted(wanted, 'column')}, got {width}. Choose "
            "them, in the order of the question."
        )
    rows = given.itertuples(index=False, name=None) if labelled else given.tolist()
    for label, row in zip(labels, rows, strict=True):
        yield label, tuple(row) if free else question.record(row)


def _is_missing(record: Any) -> bool:
    """Whether a record, or a field of it, is None, NaN or pandas' NA."""
    if isinstance(record, list | tuple):
        return any(map(_is_missing, record))
    if isinstance(record, np.ndarray):
        return _is_missing(record.tolist())
    try:
        return record is None or bool(record != record)  # noqa: PLR0124 - NaN differs from itself
    except TypeError:  # NA is neither
        return True


def _by_name(parts: Sequence[Part]) -> dict[tuple[str, int], Part]:
    """Return parts by name; buckets of nearly equal edges have the same."""
    seen, found = Counter[str](), {}
    for part in parts:
        found[part.name, seen[part.name]] = part
        seen[part.name] += 1
    return found


def _ends(part: Part | None) -> tuple[str, str]:
    if part is None or part.low is None or part.high is None:
        return "-", "-"
    return down(part.low), up(part.high)
