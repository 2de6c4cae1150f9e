"""Questions: what is asked of the agents' private records.

Every question is a mean of vectors. `base` says what a question must define: encode, diameter, decode. One
file per question: `mean`, `sum`, `count`, `histogram`, `quantile`, `variance`, `weighted_mean`, `group_by`,
`several`, `own`. Session files know some by name.
"""

from tacit.errors import ParameterError
from tacit.question.base import Answer, Encoded, MeanNoise, Part, Question
from tacit.question.count import Count
from tacit.question.group_by import GroupBy
from tacit.question.histogram import Histogram
from tacit.question.mean import Mean
from tacit.question.own import Own
from tacit.question.quantile import Quantile
from tacit.question.several import Several
from tacit.question.sum import Sum
from tacit.question.variance import Variance
from tacit.question.weighted_mean import WeightedMean

__all__ = [
    "Answer",
    "Count",
    "Encoded",
    "GroupBy",
    "Histogram",
    "Mean",
    "MeanNoise",
    "Own",
    "Part",
    "Quantile",
    "Question",
    "Several",
    "Sum",
    "Variance",
    "WeightedMean",
    "question_named",
]

_CARRIED: tuple[type[Question], ...] = (Mean, Sum, Count, Histogram, Quantile, Variance, WeightedMean)
_KINDS = {asked.kind: asked for asked in _CARRIED}


def question_named(kind: str) -> type[Question]:
    """Return the question that session files know by this name.

    Its fields are its parameters.
    """
    if kind not in _KINDS:
        raise ParameterError(f"the question must be one of {', '.join(_KINDS)}, got {kind!r}.")
    return _KINDS[kind]
