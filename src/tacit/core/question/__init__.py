"""Questions: what is asked of the agents' private records.

Every question is a mean of vectors. `base` says what a question must define: encode, diameter, decode. One
file per question: `mean`, `sum`, `count`, `histogram`, `quantile`, `variance`, `weighted_mean`, `group_by`,
`several`, `own`. Session files know all but `own` by name. `words` reads and writes a question in one word.
"""

from tacit.base.errors import ParameterError
from tacit.core.question.base import Answer, Encoded, MeanNoise, Missing, Part, Question
from tacit.core.question.count import Count
from tacit.core.question.group_by import GroupBy
from tacit.core.question.histogram import Histogram
from tacit.core.question.mean import Mean
from tacit.core.question.own import Own
from tacit.core.question.quantile import Quantile
from tacit.core.question.several import Several
from tacit.core.question.sum import Sum
from tacit.core.question.variance import Variance
from tacit.core.question.weighted_mean import WeightedMean
from tacit.core.question.words import read_short, short_form

__all__ = [
    "Answer",
    "Count",
    "Encoded",
    "GroupBy",
    "Histogram",
    "Mean",
    "MeanNoise",
    "Missing",
    "Own",
    "Part",
    "Quantile",
    "Question",
    "Several",
    "Sum",
    "Variance",
    "WeightedMean",
    "parse_question",
    "question_named",
    "short_form",
]

_CARRIED: tuple[type[Question], ...] = (
    Mean, Sum, Count, Histogram, Quantile, Variance, WeightedMean, GroupBy, Several,
)  # fmt: skip
_KINDS = {asked.kind: asked for asked in _CARRIED}


def __dir__() -> list[str]:
    return sorted(__all__)


def question_named(kind: str) -> type[Question]:
    """Return the question that session files know by this name.

    Its fields are its parameters.
    """
    if kind not in _KINDS:
        raise ParameterError(f"the question must be one of {', '.join(_KINDS)}, got {kind!r}.")
    return _KINDS[kind]


def parse_question(text: str) -> Question:
    """Read a question in one word, like `histogram:0,1,2,5,10`.

    `short_form` writes it.

    Examples
    --------
    >>> parse_question("group-by:north,south:mean:0:10")
    GroupBy(labels=('north', 'south'), question=Mean(low=0.0, high=10.0, numbers=1))
    """
    return read_short(text, _KINDS)
