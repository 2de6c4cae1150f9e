"""What happened: one value for every run, and one file for it.

Simulators, lattice runs and transcripts are all read as a `History`. The witness, the auditor, the accuracy
of what happened and the plots read nothing else.
"""

from tacit.history.file import read_history, write_history
from tacit.history.value import AgentHistory, History, Observation, Private, Wholes

__all__ = ["AgentHistory", "History", "Observation", "Private", "Wholes", "read_history", "write_history"]
