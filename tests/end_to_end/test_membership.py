"""Late, hung and lost agents, and a coordinator that begins again: the result says what happened."""

import signal

import numpy as np
import pytest

from tacit.core.protocol.session import Deadlines
from tacit.live.identity.roster import COORDINATOR
from tacit.live.verification.verdict import verify


def happened(session, used):
    """The last feedback as a sum over values and draws, by the update itself."""
    n, mixing, rounds = session.n, session.mixing, len(used)
    theta = np.zeros((n, n + n * rounds))  # each agent's state: weights of values, then of draws
    theta[:, :n] = np.eye(n)
    for t, row in enumerate(used):
        x = theta.copy()
        x[np.arange(n), n + n * t + np.arange(n)] += 1
        y = x[list(row)].mean(axis=0)
        theta = (1 - mixing) * theta + mixing * y
    return y[:n], y[n:].reshape(rounds, n)


def test_the_result_says_whose_messages_were_used_and_how_far_off_that_is(crew):
    made = crew(
        agents=4, rounds=16, pace=0.3, start=3, quorum=3, noise=0.3,
        deadlines=Deadlines(round=1.0, start=1.0, repeat=0.2),
    )  # fmt: skip

    def last():
        return set(made.events(COORDINATOR, "round-closed")[-1]["used"])

    for unit in (COORDINATOR, "agent-0", "agent-1", "agent-2"):
        made.run.start(unit)
    made.until(lambda: made.rounds() >= 2)
    made.run.signal("agent-2", signal.SIGSTOP)  # hung: without the quorum all wait,
    made.run.start("agent-3")  # until a late one is there
    made.until(lambda: "agent-3" in last())
    made.run.signal("agent-2", signal.SIGCONT)
    made.until(lambda: {"agent-2", "agent-3"} <= last())
    made.run.kill("agent-1")  # for good
    made.until(lambda: "agent-1" not in last())
    made.run.kill(COORDINATOR)
    made.run.start(COORDINATOR)
    made.ended()
    made.require_sound(["agent-0", "agent-2", "agent-3"])

    result, verdict = made.result(COORDINATOR), made.verdict()
    numbers = [[made.names.index(name) for name in names] for names in result["used"]]
    assert [list(row) for row in verdict.used] == numbers
    assert len(numbers) == made.session.rounds
    assert 3 not in numbers[0]
    assert 1 in numbers[0]
    assert 3 in numbers[-1]
    assert 1 not in numbers[-1]

    weights, draws = happened(made.session, numbers)
    accuracy = verdict.accuracy
    assert accuracy.weights == pytest.approx(weights, abs=1e-12)
    assert accuracy.shift == pytest.approx(10 * np.abs(weights - 0.25).sum() / 2, rel=1e-9)
    assert accuracy.radius > accuracy.radius_met
    scales = made.session.noise * made.session.decay ** np.arange(len(draws))
    rng = np.random.default_rng(1)
    missed = np.einsum("ti,rti->r", draws * scales[:, None], rng.laplace(size=(40_000, *draws.shape)))
    assert np.mean(np.abs(missed) > accuracy.radius_met) == pytest.approx(0.05, abs=0.006)
    # The values are known here; a radius is passed once in a million sessions.
    sure = verify(made.run.path(COORDINATOR, "transcript"), failure_probability=1e-6).accuracy.radius_met
    assert abs(verdict.result[0] - weights @ [0.0, 1.0, 2.0, 3.0]) <= sure
