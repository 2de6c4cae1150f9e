"""What would happen, and what could be learned."""

from tacit.base.lazy import modules

__getattr__, __dir__ = modules(__name__, ("audit", "comparison", "plots", "simulation"))
