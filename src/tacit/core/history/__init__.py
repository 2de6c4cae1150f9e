"""What happened: one value for every run, and one file for it.

Simulations, lattice runs and transcripts are all read as a `History`. The witness, the auditor, the accuracy
of finished runs and the plots read only this.
"""

from tacit.core.history.file import read_history, write_history
from tacit.core.history.value import AgentHistory, History, Observation, Private, Wholes

__all__ = ["AgentHistory", "History", "Observation", "Private", "Wholes", "read_history", "write_history"]
