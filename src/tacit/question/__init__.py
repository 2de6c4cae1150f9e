"""Questions: what is asked of the agents' private records.

Every question is a mean of vectors. One file per question:

- `base`: what a question must define: encode, diameter, decode.
- `mean`: the mean of numbers in a range.
"""

from tacit.question.base import Answer, Encoded, Part, Question
from tacit.question.mean import Mean

__all__ = ["Answer", "Encoded", "Mean", "Part", "Question"]
