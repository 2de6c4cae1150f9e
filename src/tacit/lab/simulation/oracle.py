"""The mechanisms in plain loops, to compare the engine with.

The loops are over rounds, agents, neighbours and components. This code is slow and obvious. Tests compare
`tacit.lab.simulation.engine` with it. It deliberately shares no arithmetic with `tacit.core.mechanism`, so
that a bug there shows up as a difference.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tacit.base.arrays import FloatArray
from tacit.core.history import History, Private
from tacit.core.mechanism import ClientServer, Distributed, Mechanism
from tacit.core.motion.mixing import mixed

Rows = list[list[float]]


def reference(mechanism: Mechanism, values: npt.ArrayLike, noise: npt.ArrayLike) -> History:
    """Run the mechanism on the given noise, one number at a time.

    Parameters
    ----------
    mechanism : ClientServer or Distributed
    values : array_like, shape (n,) or (n, k)
        θ(0).
    noise : array_like, shape (rounds, sources) or (rounds, sources, k)
        η(t), as `SimulatedNoise.draw` returns it: one per agent, or one per keeper. Where the law
        draws once, zero after round 0.
    """
    start = mechanism.states(values)
    eta = mechanism._as_noise(noise, start.shape[1:])
    k = 1 if start.ndim == 1 else start.shape[1]
    sigma = np.broadcast_to(mechanism.law.sigma, (mechanism.n,)).tolist()
    theta: Rows = start.reshape(-1, k).tolist()
    basis = theta  # messages are made from the states, or from the shadows
    rows = _senders(mechanism)
    thetas, xs, ys = [theta], [], []
    for eta_t in eta.reshape(len(eta), mechanism.sources, k).tolist():
        if mechanism.keepers:
            x = basis
            heard = [_opened(x, eta_t)] * mechanism.n
        else:
            x = [[b + e for b, e in zip(*pair, strict=True)] for pair in zip(basis, eta_t, strict=True)]
            heard = [_mean(x, senders) for senders in rows]
        theta = _moved(theta, sigma, heard)
        basis = theta
        if mechanism.shadowed:
            basis = heard if mechanism.keepers else _moved(x, sigma, heard)
        thetas.append(theta)
        xs.append(x)
        ys.append(heard[0] if isinstance(mechanism, ClientServer) else heard)
    said = start.shape[1:] if isinstance(mechanism, ClientServer) else start.shape
    return History.full(
        mechanism,
        _array(xs, start.shape),
        _array(ys, said),
        private=Private(_array(thetas, start.shape), eta),
    )


def _senders(mechanism: Mechanism) -> list[list[tuple[int, int]]]:
    """The messages in each agent's feedback, with their weights.

    With a server those of all agents, on a graph those of the closed neighbourhood (eq:y_dis).
    """
    if not isinstance(mechanism, Distributed):
        return [[(j, 1) for j in range(mechanism.n)]] * mechanism.n
    rows = []
    for i in range(mechanism.n):
        own, heard = mechanism.topology.shares(i)
        rows.append([(i, own), *zip(mechanism.graph.neighbours(i).tolist(), heard, strict=True)])
    return rows


def _mean(x: Rows, senders: list[tuple[int, int]]) -> list[float]:
    counted = sum(count for _, count in senders)
    means = []
    for component in range(len(x[0])):
        total = 0.0
        for j, count in senders:
            total += x[j][component] * (count / counted)
        means.append(total)
    return means


def _opened(x: Rows, draws: Rows) -> list[float]:
    """Return the mean of the messages, each keeper's draw added to their sum."""
    means = []
    for component in range(len(x[0])):
        total = 0.0
        for row in [*x, *draws]:
            total += row[component]
        means.append(total / len(x))
    return means


def _moved(rows: Rows, sigma: list[float], heard: Rows) -> Rows:
    """Return (1 − σ_i) θ_i + σ_i y_i for every agent, eq:upd and eq:upd_dis."""
    return [
        [mixed(s, a, y) for a, y in zip(row, y_i, strict=True)]
        for row, s, y_i in zip(rows, sigma, heard, strict=True)
    ]


def _array(rounds: Sequence[object], shape: tuple[int, ...]) -> FloatArray:
    return np.array(rounds, dtype=np.float64).reshape(len(rounds), *shape)
