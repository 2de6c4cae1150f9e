"""Questions: what is asked of the agents' private records.

Every question is a mean of vectors. `base` says what a question must define: encode, diameter, decode. One
file per question: `mean`, `sum`, `count`, `histogram`, `quantile`, `variance`, `weighted_mean`, `group_by`,
`several`, `own`. Sessions ask for a mean so far.
"""

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
]
