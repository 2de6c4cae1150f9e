"""The proof of Lemma 1 as a program.

The proof maps every execution α from θ(0) to an execution f(α) from an adjacent θ'(0). Both look the same to
the adversary: the noise of one agent is shifted by the difference of its two states, which fades round by
round. `find_witness` is f. Comparing the noise of α and f(α) gives the likelihood ratio that ε bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tacit.base.arrays import FloatArray
from tacit.base.errors import StateError
from tacit.core.history import History
from tacit.core.motion import Linear


@dataclass(frozen=True, eq=False)
class Witness:
    """An execution from an adjacent start that looks the same.

    An adversary cannot tell it from the given one.

    Attributes
    ----------
    history : History
        f(α): the same messages and feedback, another initial value.
    log_ratios : array, shape (rounds,)
        For every round log p(η(t)) − log p(η'(t)); the sum is the log-likelihood ratio of the
        transcript between the two starts, exactly.
    """

    history: History
    log_ratios: FloatArray = field(repr=False)

    @property
    def log_likelihood_ratio(self) -> float:
        """The log-likelihood ratio of the observation between the two starts."""
        return float(np.sum(self.log_ratios))


def find_witness(history: History, agent: int, shift: npt.ArrayLike) -> Witness:
    """Return the execution f(α) of the proof of Lemma 1 (lem:pri).

    It starts from θ'_agent(0) = θ_agent(0) − shift.

    Parameters
    ----------
    agent : int
        The agent k whose initial value differs. With keepers, the noise of one keeper is shifted.
    shift : number or array of shape (k,)
        δ, by which θ_k(0) exceeds θ'_k(0).
    """
    mechanism = history.mechanism
    if not 0 <= agent < mechanism.n:
        raise StateError(f"agent must be a number from 0 to {mechanism.n - 1}, got {agent}.")
    delta = np.asarray(shift, dtype=np.float64)
    motion = mechanism.motion.of_agent(agent)
    if mechanism.motion.dimension is not None:
        return _moving_witness(history, agent, delta)
    if delta.shape not in ((), history.theta.shape[2:]) or not np.isfinite(delta).all():
        raise StateError(
            f"shift must be a finite number or have the shape {history.theta.shape[2:]} of one state, "
            f"got shape {delta.shape}."
        )
    # With keepers the noise of an honest keeper is shifted; by symmetry it does not matter which one.
    drawn = 0 if mechanism.keepers else agent
    values = history.theta[0].copy()
    values[agent] -= delta
    eta = history.eta.copy()
    if mechanism.shadowed:
        eta[:1, drawn] += delta  # the shadow starts at the same place, and all messages follow from it
    else:
        # η'_k(t) = η_k(t) + δ·a_t, with the influence a_t = (1−σ)^t of mixing
        fading = motion.influence(np.arange(history.rounds))
        eta[:, drawn] += fading.reshape(-1, *(1,) * delta.ndim) * delta
    scales = mechanism.noise_law.scales(history.rounds)
    scale = scales if scales.ndim == 1 else scales[:, agent]
    return Witness(mechanism.execute(values, eta), _log_ratios(history.eta[:, drawn], eta[:, drawn], scale))


def _moving_witness(history: History, agent: int, shift: FloatArray) -> Witness:
    """The same for an agent whose state moves by A and says C.

    Two starts that differ by d have states that differ by A^t·d, so messages that differ by C·A^t·d.
    """
    mechanism, motion = history.mechanism, history.mechanism.motion.of_agent(agent)
    if not isinstance(motion, Linear):
        raise motion.undefined("a witness", "how two starts of several numbers stop to matter")
    private = [component for component, _ in motion.private]
    if shift.shape not in ((len(private),), ()) or not np.isfinite(shift).all():
        raise StateError(
            f"shift must be {len(private)} finite numbers, one for each private component of the start."
        )
    values, eta = history.theta[0].copy(), history.eta.copy()
    apart = np.zeros(motion.dimension)
    apart[private] = shift
    values[agent, : motion.dimension] -= apart
    drawn = 0 if mechanism.keepers else agent
    if mechanism.shadowed:
        eta[:1, drawn] += apart[private]
    else:
        for t in range(history.rounds):
            eta[t, drawn] += motion.say(apart)
            apart = motion.A @ apart
    scales = mechanism.noise_law.scales(history.rounds)
    scale = scales if scales.ndim == 1 else scales[:, agent]
    return Witness(mechanism.execute(values, eta), _log_ratios(history.eta[:, drawn], eta[:, drawn], scale))


def _log_ratios(eta: FloatArray, other: FloatArray, scale: FloatArray) -> FloatArray:
    """Return Σ (|η'| − |η|)/scale for each round.

    A round without noise must be the same in both.
    """
    gain = (np.abs(other) - np.abs(eta)).reshape(len(scale), -1).sum(axis=1)
    return np.asarray(np.divide(gain, scale, out=np.zeros_like(gain), where=scale > 0))
