"""Black-box views of a method: noise that is told what to be, and the linear map from it to messages."""

import numpy as np
import pytest

from tacit.lab.comparison.harness import load


class ToldNoise:
    """Stands in for a generator; `next` is the noise of the coming round, in units of its scale."""

    def __init__(self, n, runs=1):
        self.next = np.zeros((n, runs))
        self._negative = False
        self.draws = 0

    def standard_exponential(self, shape):
        """Two draws make a Laplace variable: the positive part, then the negative one."""
        part = -self.next.clip(max=0) if self._negative else self.next.clip(min=0)
        self._negative = not self._negative
        self.draws += not self._negative
        return np.broadcast_to(part, shape)

    def standard_normal(self, shape):
        self.draws += 1
        return np.broadcast_to(self.next, shape)


class BlackBox:
    """Runs a method on chosen noise, one round at a time."""

    def __init__(self, method, theta):
        self.rng = ToldNoise(len(theta))
        self.states = np.array(theta, dtype=float)[:, None]
        self._run = method.run(self.states.copy(), self.rng)

    def say(self, eta):
        """Run a round on this noise; returns the messages and what is public, as vectors."""
        self.rng.next = np.asarray(eta, dtype=float).reshape(-1, 1)
        said = next(self._run)
        self.states = said.theta
        return said.x[:, 0].copy(), np.broadcast_to(said.y, said.x.shape)[:, 0].copy()


def messages(method, theta, noise):
    """All messages on the given noise (rounds, n)."""
    box = BlackBox(method, theta)
    return np.array([box.say(eta)[0] for eta in noise])


@pytest.fixture
def black_box():
    return BlackBox


@pytest.fixture
def linear():
    """Return the matrices that take θ(0) and all noise to all messages, found by trying units."""

    def find(method, n):
        T = method.rounds
        none = np.zeros((T, n))
        of_theta = np.stack([messages(method, unit, none).ravel() for unit in np.eye(n)], axis=1)
        columns = []
        for t in range(T):
            for i in range(n):
                noise = none.copy()
                noise[t, i] = 1.0
                columns.append(messages(method, np.zeros(n), noise).ravel())
        return of_theta, np.stack(columns, axis=1)

    return find


@pytest.fixture
def tuned():
    return lambda name, case: load(name).tuned(case)
