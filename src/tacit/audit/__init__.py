"""What an adversary could learn, and testers that try to break the promise.

Reads executions and transcripts; knows nothing of networks, disks or clocks of the runtime. The
names below load their module when first used.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tacit.audit.broken import BROKEN, Broken, broken
    from tacit.audit.deployed import Deployed
    from tacit.audit.examination import examine
    from tacit.audit.files import read_folder, read_transcript, write_folder, write_transcript
    from tacit.audit.law import LossLaw, loss_law
    from tacit.audit.likelihood import log_likelihood, log_likelihood_ratio, residuals
    from tacit.audit.measure import measure_black_box, measure_loss
    from tacit.audit.reconstruction import Posterior, Prior, reconstruct
    from tacit.audit.recorded import examine_folder
    from tacit.audit.report import NOT_PROVED, Finding, Report
    from tacit.audit.subjects import Simulated, Subject
    from tacit.audit.transcript import AgentTranscripts, Transcripts

_HOMES = {
    "tacit.audit.broken": ("BROKEN", "Broken", "broken"),
    "tacit.audit.deployed": ("Deployed",),
    "tacit.audit.examination": ("examine",),
    "tacit.audit.files": ("read_folder", "read_transcript", "write_folder", "write_transcript"),
    "tacit.audit.law": ("LossLaw", "loss_law"),
    "tacit.audit.likelihood": ("log_likelihood", "log_likelihood_ratio", "residuals"),
    "tacit.audit.reconstruction": ("Posterior", "Prior", "reconstruct"),
    "tacit.audit.measure": ("measure_black_box", "measure_loss"),
    "tacit.audit.recorded": ("examine_folder",),
    "tacit.audit.report": ("NOT_PROVED", "Finding", "Report"),
    "tacit.audit.subjects": ("Simulated", "Subject"),
    "tacit.audit.transcript": ("AgentTranscripts", "Transcripts"),
}

__all__ = [
    "BROKEN",
    "NOT_PROVED",
    "AgentTranscripts",
    "Broken",
    "Deployed",
    "Finding",
    "LossLaw",
    "Posterior",
    "Prior",
    "Report",
    "Simulated",
    "Subject",
    "Transcripts",
    "broken",
    "examine",
    "examine_folder",
    "log_likelihood",
    "log_likelihood_ratio",
    "loss_law",
    "measure_black_box",
    "measure_loss",
    "read_folder",
    "read_transcript",
    "reconstruct",
    "residuals",
    "write_folder",
    "write_transcript",
]


class _Package(ModuleType):
    """Keeps `broken` the function, also after the module of that name is imported."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in __all__ and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> object:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'tacit.audit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
