"""What an adversary could learn, and tests that try to break the promise.

Reads histories; does not depend on the runtime's network, disk or clock. The
names below load their module when first used.
"""

from typing import TYPE_CHECKING

from tacit.base.lazy import exports

if TYPE_CHECKING:
    from tacit.lab.audit.beliefs import ADVERSARIES, Adversary, Belief, belief
    from tacit.lab.audit.broken_mechanisms import BROKEN, Broken, broken
    from tacit.lab.audit.deployed import Deployed
    from tacit.lab.audit.distinguisher import LossLaw, loss_law
    from tacit.lab.audit.examination import examine
    from tacit.lab.audit.likelihood import log_likelihood, log_likelihood_ratio, residuals
    from tacit.lab.audit.measure import measure_black_box, measure_loss
    from tacit.lab.audit.reconstruction import Posterior, Prior, reconstruct
    from tacit.lab.audit.recorded import examine_files, examine_folder, read_folder, write_folder
    from tacit.lab.audit.report import NOT_PROVED, AuditFinding, AuditReport
    from tacit.lab.audit.subjects import Simulated, Subject

__all__ = [
    "ADVERSARIES",
    "BROKEN",
    "NOT_PROVED",
    "Adversary",
    "AuditFinding",
    "AuditReport",
    "Belief",
    "Broken",
    "Deployed",
    "LossLaw",
    "Posterior",
    "Prior",
    "Simulated",
    "Subject",
    "belief",
    "broken",
    "examine",
    "examine_files",
    "examine_folder",
    "log_likelihood",
    "log_likelihood_ratio",
    "loss_law",
    "measure_black_box",
    "measure_loss",
    "read_folder",
    "reconstruct",
    "residuals",
    "write_folder",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = exports(
        __name__,
        {
            "beliefs": ("ADVERSARIES", "Adversary", "Belief", "belief"),
            "broken_mechanisms": ("BROKEN", "Broken", "broken"),
            "deployed": ("Deployed",),
            "examination": ("examine",),
            "distinguisher": ("LossLaw", "loss_law"),
            "likelihood": ("log_likelihood", "log_likelihood_ratio", "residuals"),
            "reconstruction": ("Posterior", "Prior", "reconstruct"),
            "measure": ("measure_black_box", "measure_loss"),
            "recorded": ("examine_files", "examine_folder", "read_folder", "write_folder"),
            "report": ("NOT_PROVED", "AuditFinding", "AuditReport"),
            "subjects": ("Simulated", "Subject"),
        },
    )
