"""How likely a transcript is for a given start, exactly.

Millions of transcripts are done at once.

Given the feedback that was observed, the states that follow from a hypothetical θ_k(0) are
determined (section 3.1 of the paper), so the noise that agent k must have drawn is
η_k(t) = x_k(t) − θ_k(t), and its density is known. Nothing else depends on θ_k(0): the others'
messages are the same under both hypotheses. Even an adversary who sees all channels, the server and
the states of other agents cannot do better than the ratio computed here (docs/proofs/audit.md).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tacit.base.arrays import FloatArray
from tacit.base.errors import StateError
from tacit.core.history import AgentHistory, Wholes
from tacit.core.law import Law
from tacit.core.mechanism.lattice import LatticeAgent
from tacit.core.mechanism.whole import WholeArray, cut, nearest_shift
from tacit.lab.audit.portable import powers

MOST_STEPS = 2**62
"""Draws of more steps are clamped to this."""

Mask = npt.NDArray[np.bool_]


def states(view: AgentHistory, theta: npt.ArrayLike) -> FloatArray:
    """Return the states that follow from a start and observed feedback.

    Parameters
    ----------
    view : AgentHistory
        One agent's part of what happened: ``history.of(agent)``.
    theta : number, or array of shape (k,), (runs,) or (runs, k)
        The hypothetical start, the same in all sessions or one per session.

    Returns
    -------
    array, shaped like ``view.x``
        θ_k at every slot, as the agent's motion has it (eq:upd).
    """
    state = np.array(np.broadcast_to(_as_start(view, theta), (len(view.x), *view.x.shape[2:])))
    path = np.empty(view.x.shape)
    moved = np.diff(view.update, axis=1) > 0
    for slot in range(view.x.shape[1]):
        path[:, slot] = state
        if slot + 1 < view.x.shape[1]:
            heard = moved[:, slot].reshape(-1, *(1,) * (state.ndim - 1))
            after = view.motion.move(state, view.y[:, view.rounds_of[slot]])
            state = after if heard.all() else np.where(heard, after, state)
    return path


def residuals(view: AgentHistory, theta: npt.ArrayLike) -> FloatArray:
    """Return the noise that a start θ_k(0) implies: x − state.

    Where no message was sent it has no meaning. On a lattice the whole numbers that were drawn, exactly,
    times the message step.
    """
    if view.wholes is None:
        return view.x - states(view, theta)
    draws, step = lattice_draws(view, view.wholes, theta)
    return np.ldexp(draws.astype(np.float64), step)


def lattice_draws(
    view: AgentHistory, wholes: Wholes, theta: npt.ArrayLike
) -> tuple[WholeArray, npt.NDArray[np.int64]]:
    """Return the drawn whole numbers, and the exponents of their steps.

    These are the draws that the start `theta` implies. Follows the hypothetical state on the state
    lattice, as the agent does.
    """
    agent = LatticeAgent(wholes.lattice, view.law)
    start = _as_start(view, theta)
    rows = start if start.shape == (len(view.x), *view.x.shape[2:]) else start[None]
    state = np.stack([np.asarray(wholes.lattice.start(row), dtype=object) for row in rows])
    state = np.array(np.broadcast_to(state, (len(view.x), *view.x.shape[2:])))
    draws, steps = np.empty(view.x.shape, dtype=object), np.empty(view.x.shape, dtype=np.int64)
    update = np.broadcast_to(view.update, view.x.shape[:2])
    for slot in range(view.x.shape[1]):
        for u in np.unique(update[:, slot]).tolist():
            now = update[:, slot] == u
            steps[now, slot] = step = agent.message_exponent(u)
            rounded = nearest_shift(state[now], step - wholes.lattice.state_exponent)
            draws[now, slot] = wholes.x[now, slot] - rounded
        if slot + 1 < view.x.shape[1]:
            heard = update[:, slot + 1] > update[:, slot]
            state[heard] = agent.update(state[heard], wholes.y[heard, view.rounds_of[slot]])
    return draws, steps


def fades(view: AgentHistory) -> FloatArray:
    """The factor by which a difference of starts has faded at each slot.

    It is the influence a_u after u updates, (1−σ)^u for mixing (eq:upd).
    """
    return powers(float(view.motion.keep), view.update)


def drawn_steps(view: AgentHistory, theta: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return the noise that a start implies, in steps of the lattice.

    It is 0 where nothing was drawn. The history must have a lattice.
    """
    assert view.exponent is not None
    tail = (1,) * (view.x.ndim - 2)
    # Without noise a message can be on a much finer lattice, and its steps would not fit 64 bits.
    drawn = (counted(view) & (view.scales > 0)).reshape(*view.x.shape[:2], *tail)
    if view.wholes is not None:
        whole = np.where(drawn, lattice_draws(view, view.wholes, theta)[0], 0)
        return np.asarray(cut(whole, MOST_STEPS)).astype(np.int64)
    eta = np.where(drawn, residuals(view, theta), 0.0)
    return nearest_steps(eta, view.exponent.reshape(*view.exponent.shape, *tail))


def sent_steps(view: AgentHistory) -> npt.NDArray[np.int64]:
    """Return the lowest 62 bits of messages, in steps of the lattice.

    The history must have a lattice.
    """
    assert view.exponent is not None
    if view.wholes is not None:
        return np.asarray(view.wholes.x & (MOST_STEPS - 1), dtype=np.int64)
    step = view.exponent.reshape(*view.exponent.shape, *(1,) * (view.x.ndim - 2))
    return np.fmod(np.ldexp(view.x, -step), MOST_STEPS).astype(np.int64)


def nearest_steps(eta: FloatArray, exponent: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return numbers in whole steps of 2^exponent, ties up.

    Rounding ties to even would make all draws even if a state is half a step off the lattice. Larger numbers
    than ±2^62 are clamped.
    """
    return np.clip(nearest_up(np.ldexp(eta, -exponent)), -MOST_STEPS, MOST_STEPS).astype(np.int64)


def nearest_up(steps: FloatArray) -> FloatArray:
    """Round to the nearest whole number, ties up.

    Adding ½ first would itself be rounded, to an even number, above 2^52.
    """
    whole = np.floor(steps)
    return np.asarray(whole + (steps - whole >= 0.5))


def require_laplace(law: Law) -> None:
    """Refuse messages whose likelihood is not that of Laplace noise."""
    if law.whole_domain:
        raise law.undefined("a Laplace likelihood", "the likelihood of its messages (`examine` audits it)")


def counted(view: AgentHistory) -> Mask:
    """Which messages carry new information, of shape (runs, slots).

    A repetition of the same message at the same update does not. A different message for the same update is
    one more draw, and costs as much: that is the price of drawing again.
    """
    require_laplace(view.law)
    said: Mask = view.said.copy()
    if view.law.shadowed:
        said &= view.update == 0  # the shadow moves without noise
    if (np.diff(view.update, axis=1) > 0).all():
        return said
    fresh = said.copy()
    exact = view.x if view.wholes is None else view.wholes.x  # floats may not hold all digits
    for slot in range(1, view.x.shape[1]):
        for before in range(slot - 1, -1, -1):
            same_update = view.update[:, before] == view.update[:, slot]
            if not same_update.any():
                break
            same = (exact[:, before] == exact[:, slot]).reshape(len(exact), -1).all(axis=1)
            fresh[:, slot] &= ~(same_update & same)
    return fresh


def log_likelihood(view: AgentHistory, theta: npt.ArrayLike) -> FloatArray:
    """Log-density of each transcript for the start θ_k(0).

    It is up to a constant that is the same for all starts. On a lattice: the logarithm of a probability,
    not of a density.
    """
    scale, components = view.scales, view.x[0, 0].size
    with np.errstate(divide="ignore", invalid="ignore"):
        if view.wholes is None or view.exponent is None:
            constant = -np.log(2 * scale)
        else:
            # P(k) = tanh(g/2b)·exp(−|k|g/b): the discrete Laplace distribution
            constant = np.log(np.tanh(np.ldexp(0.5, view.exponent) / scale))
        terms = components * constant - _absolute(residuals(view, theta)) / scale
    return np.asarray(np.sum(terms, axis=1, where=counted(view)))


def log_likelihood_ratios(view: AgentHistory, theta: npt.ArrayLike, other: npt.ArrayLike) -> FloatArray:
    """Return each message's log-likelihood ratio of `theta` to `other`.

    The sum over a row is the log-likelihood ratio of the transcript; partial sums are those of
    its prefixes. Messages without new information count 0.

    Returns
    -------
    array, shape (runs, slots)
    """
    gap = _as_start(view, other) - _as_start(view, theta)
    eta = residuals(view, theta)
    fade = fades(view)
    fade = fade.reshape(*fade.shape, *(1,) * (eta.ndim - 2))
    gap = gap if gap.ndim < eta.ndim - 1 or gap.ndim == 0 else gap[:, None]
    # Under the other start the states are gap·(1−σ)^u higher, so the noise is as much lower (Lemma 1,
    # lem:pri). On a lattice the states are rounded after every update, which this formula ignores: follow
    # both states.
    implied = eta - gap * fade if view.wholes is None else residuals(view, other)
    gain = _absolute(implied) - _absolute(eta)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(counted(view), gain / view.scales, 0.0)


def log_likelihood_ratio(view: AgentHistory, theta: npt.ArrayLike, other: npt.ArrayLike) -> FloatArray:
    """Log-likelihood ratio of each transcript between two starts of the agent.

    Its absolute value never exceeds ε_T·‖theta − other‖₁ if the agent does what it declares. By
    the lemma of Neyman and Pearson, no test tells the two starts apart better than a threshold
    on this number.

    Examples
    --------
    >>> from tacit import ClientServer, Fading
    >>> history = ClientServer(Fading(0.8, 10, 0.6), agents=1).execute([1.0], [[5.0], [3.0]])
    >>> log_likelihood_ratio(history.of(0), 1.0, 0.0).round(6)
    array([0.133333])
    """
    return np.asarray(log_likelihood_ratios(view, theta, other).sum(axis=1))


def _absolute(eta: FloatArray) -> FloatArray:
    """|η|, summed over components: shape (runs, slots)."""
    size = np.abs(eta)
    return size if size.ndim == 2 else np.asarray(size.sum(axis=2))


def _as_start(view: AgentHistory, theta: npt.ArrayLike) -> FloatArray:
    start = np.asarray(theta, dtype=np.float64)
    runs, tail = len(view.x), view.x.shape[2:]
    if start.shape not in ((), tail, (runs, *tail)) or not np.isfinite(start).all():
        raise StateError(
            f"a start must be a finite number, or have shape {tail} or {(runs, *tail)}, got {start.shape}."
        )
    return start
