"""What is promised, and why. Pure: no clock, disk or network."""

from tacit.base.lazy import modules

__getattr__, __dir__ = modules(
    __name__, ("graph", "history", "law", "mechanism", "motion", "noise", "protocol", "question", "theory")
)
