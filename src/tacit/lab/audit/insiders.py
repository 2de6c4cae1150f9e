"""What colluding agents believe about another agent.

They never know more than an eavesdropper.

Around a server an insider receives the feedback, not the messages. Together the insiders can subtract their
own messages from N·y(t), which leaves the sum of the m honest messages,

    S(t) = Θ(t) + E(t),    Θ(t+1) = (1 − σ)Θ(t) + σ·m·y(t),

where Θ is the sum of the honest states and E the sum of their noises. So they learn only about Θ(0), the
sum of the honest starts, through the law of a sum of m Laplace variables; the start of one agent is
hidden among the others'. If all others are insiders (m = 1), they know the message itself.

With keepers everyone hears only the feedback, and E is the sum of the keepers' draws. So an eavesdropper
knows as much as insiders who have nothing to subtract.

The density of a sum of m standard Laplace variables is e^{−|s|}·p_{m−1}(|s|)/(2^m (m−1)!), with the reverse
Bessel polynomials p_n = (2n − 1)p_{n−1} + s²·p_{n−2}, p_0 = 1, p_1 = 1 + s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.interpolate import CubicSpline

from tacit.base.arrays import FloatArray
from tacit.base.errors import StateError
from tacit.core.history import History
from tacit.core.law import Law
from tacit.core.mechanism import ClientServer, Distributed
from tacit.lab.audit.reconstruction import Prior

_DEVIATIONS = 8  # standard deviations of the sum of the other starts that are computed
_NODES, _FAR = 3000, 1e9  # where the law is tabulated, and up to how many scales


def hear_everything(transcripts: History, agent: int, insiders: Sequence[int]) -> bool:
    """Whether the insiders know all that depends on an agent's start.

    That is its messages and the feedback it received.
    """
    mechanism = transcripts.mechanism
    if isinstance(mechanism, Distributed):
        heard = set(insiders).union(*(mechanism.graph.neighbours(i).tolist() for i in insiders))
        return {agent, *mechanism.graph.neighbours(agent).tolist()} <= heard
    return len(set(insiders)) == mechanism.n - 1


def insider_density(
    transcripts: History, run: int, insiders: Sequence[int], prior: Prior, cells: int
) -> FloatArray:
    """Return the density of one honest agent's start, round by round.

    There is one row after each of 0, 1, …, T rounds, with one number per cell. The honest agents' starts
    are independent beforehand, all with the same prior. They must share their parameters, and everybody
    must have spoken in every round.
    """
    mechanism, y = transcripts.mechanism, transcripts.y[run]
    share, honest = _shared(transcripts, insiders), mechanism.n - len(insiders)
    told = _told(transcripts, run, insiders)
    said = mechanism.n * y - told.sum(axis=1)
    motion, scales = share.motion, share.scales(len(y))
    width = (prior.edges[-1] - prior.edges[0]) / cells
    starts = np.asarray(prior.edges[0] + (np.arange(cells) + 0.5) * width, dtype=np.float64)
    mass = prior.density(starts)
    others, first = _sum_of_starts(mass, starts, honest - 1, width)
    total = first + starts[0] + np.arange(len(others) + cells - 1) * width  # all values of Θ(0)
    law = _log_law(mechanism.keepers or honest)
    log, path, rows = np.zeros(len(total)), 0.0, [mass]
    for t, (sum_t, y_t) in enumerate(zip(said, y, strict=True)):
        if scales[t] > 0:
            log += law((sum_t - path - motion.influence(t) * total) / scales[t])
        path = motion.move(path, honest * y_t)
        # Σ_z P(others = z)·likelihood(v + z): only positive terms, so small results keep their digits
        rows.append(mass * np.correlate(np.exp(log - log.max()), others, mode="valid"))
    density = np.array(rows)
    return np.asarray(density / (density.sum(axis=1, keepdims=True) * width))


def _told(transcripts: History, run: int, insiders: Sequence[int]) -> FloatArray:
    """Return the messages that the insiders have sent.

    With keepers these are the numbers under the masks.
    """
    if not transcripts.mechanism.keepers:
        return np.asarray(transcripts.x[run][:, sorted(insiders)])
    if not insiders:
        return np.zeros((transcripts.rounds, 0))
    sent = None if transcripts.private is None else transcripts.private.sent
    if sent is None:
        raise StateError(
            "the numbers of compromised agents are under masks and not in this history: use a simulated one."
        )
    return np.asarray(sent[run][:, sorted(insiders)])


def _shared(transcripts: History, insiders: Sequence[int]) -> Law:
    """Return the parameters that the honest agents share."""
    mechanism = transcripts.mechanism
    if not isinstance(mechanism, ClientServer):
        raise StateError(
            "on a graph the insiders must hear the agent and all its neighbours; otherwise their belief has "
            "no closed form. Compromise more agents, or choose the eavesdropper, who knows more."
        )
    own: dict[str, Any] = {}
    for name, value in mechanism.law.values().items():
        if isinstance(value, tuple):  # a table of scales is one for all
            own[name] = value
            continue
        honest = np.delete(np.broadcast_to(value, (mechanism.n,)), list(insiders))
        if np.ptp(honest) > 0:
            raise StateError(f"the honest agents must share their parameters, but their {name} differ.")
        own[name] = float(honest[0])
    if (
        transcripts.components is not None
        or not transcripts.used_or_all.all()
        or not (transcripts.mechanism.keepers or transcripts.said.all())
        or len(transcripts.rounds_of) != transcripts.rounds
    ):
        raise StateError(
            "the belief of insiders needs runs in which every agent sent one number in every round."
        )
    return type(mechanism.law)(**own)


def _sum_of_starts(
    mass: FloatArray, starts: FloatArray, count: int, width: float
) -> tuple[FloatArray, float]:
    """Return the law of the sum of `count` starts, and its lowest value.

    The law is on the same grid steps as that of one start.
    """
    p = mass / mass.sum()
    if count == 0:
        return np.ones(1), 0.0
    size = count * (len(p) - 1) + 1
    long = next_fast_len(size)
    law = np.maximum(irfft(rfft(p, long) ** count, long)[:size], 0.0)
    mean = p @ np.arange(len(p))
    spread = np.sqrt(count * (p @ (np.arange(len(p)) - mean) ** 2))
    low = max(0, int(count * mean - _DEVIATIONS * spread) - 1)
    high = min(size, int(count * mean + _DEVIATIONS * spread) + 2)
    return law[low:high], float(count * starts[0] + low * width)


def _log_law(m: int) -> Callable[[FloatArray], FloatArray]:
    """Return the log-density of a sum of m Laplace variables.

    The variables are standard; the log-density is up to a constant.
    """
    # Nodes are dense near 0 and sparse far out, as the curvature is. The polynomials overflow for large m, so
    # only the ratios p_n/p_{n−1} are followed, and their logarithms are added up.
    along = np.linspace(0, np.arcsinh(_FAR), _NODES)
    nodes, ratio, log = np.sinh(along), np.ones(_NODES), np.zeros(_NODES)
    for n in range(1, m):
        ratio = 2 * n - 1 + (nodes**2 / ratio if n > 1 else nodes)
        log += np.log(ratio)
    spline = CubicSpline(along, log)
    return lambda s: np.asarray(spline(np.arcsinh(np.minimum(np.abs(s), _FAR))) - np.abs(s))
