"""Refuse mechanisms and noise that the auditor has no formulas for."""

from __future__ import annotations

from tacit.errors import ParameterError
from tacit.mechanism import ClientServer, Distributed, Fading, Mechanism, OneShot, Parameters


def require_known(mechanism: Mechanism) -> Mechanism:
    """Return a mechanism that the auditor knows, or refuse it.

    A subclass is refused too: it may do anything, and would be held to the promise of its base.
    """
    if type(mechanism) not in (ClientServer, Distributed):
        raise ParameterError(
            f"the auditor knows ClientServer and Distributed, got {type(mechanism).__name__}: what it would "
            "say of another mechanism is not true. Use tacit.audit.measure_black_box, which knows nothing."
        )
    require_known_parameters(mechanism.parameters)
    return mechanism


def require_known_parameters(parameters: Parameters) -> None:
    """Refuse parameters whose noise the auditor does not know."""
    if type(parameters) not in (Fading, OneShot):
        raise ParameterError(
            f"the auditor knows Fading and OneShot noise, got {type(parameters).__name__}: what it would say "
            "of another law is not true. Use tacit.audit.measure_black_box, which knows nothing."
        )
