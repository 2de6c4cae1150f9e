"""What linear agents agree on, against simulation and slow code."""

import numpy as np
import pytest

import tacit
from tacit.base.errors import MotionError, ParameterError, StateError
from tacit.core.graph import Graph
from tacit.core.law import Constant, Fading, OneShot, Scheduled
from tacit.core.mechanism import ClientServer, Distributed
from tacit.core.motion import Linear, Various
from tacit.core.theory import accuracy
from tacit.core.theory.closed_loop import ClosedLoop, settles_everywhere
from tacit.core.theory.targets import target
from tacit.core.theory.witness import find_witness
from tacit.lab.simulation.outcome import sample_outcome
from tacit.lab.simulation.record import Record

NAMES = ("speed", "acceleration")
TRUCK = Linear([[1, 0.25], [-0.25, 0.5]], [0, 0.25], [1, 0], private={"speed": 1.0}, names=NAMES)
LIVELY = Linear([[1, 0.25], [-1, 0.5]], [0, 1], [1, 0], private={"speed": 1.0}, names=NAMES)
SLOW = Linear([[0.75]], [0.25], [1], private={0: 1.0})
BARBELL = Graph.from_edges([(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 5), (3, 5)])
MIXED = Various([TRUCK, SLOW, TRUCK, LIVELY, SLOW, TRUCK])
GROUPS = {
    "server": lambda law: ClientServer(law(TRUCK), agents=6),
    "graph": lambda law: Distributed(law(TRUCK), BARBELL),
    "mixed": lambda law: Distributed(law(MIXED), BARBELL),
    "mixed around a server": lambda law: ClientServer(law(MIXED), agents=6),
}
FADING = {"fresh": lambda motion: Fading(motion, 3.0, 0.9), "once": lambda motion: OneShot(motion, 2.0)}
BOTH = pytest.mark.parametrize("law", FADING.values(), ids=FADING)
LONG = 1500
ALL = pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS)


def starts_of(mechanism, seed=3):
    found = np.random.default_rng(seed).normal(size=(mechanism.n, mechanism.motion.dimension))
    for i in range(mechanism.n):
        found[i, mechanism.motion.of_agent(i).dimension :] = 0
    return found


@BOTH
@ALL
def test_the_agreed_value_is_the_target_plus_the_weighted_noise(group, law):
    """T5: not by formulas again, but by running the group until it has agreed."""
    mechanism = group(law)
    starts, generator = starts_of(mechanism), np.random.default_rng(7)
    noise = np.zeros((LONG, 6))
    noise[: 1 if mechanism.shadowed else 40] = generator.laplace(size=(1 if mechanism.shadowed else 40, 6))
    run = mechanism.execute(starts, noise)
    agreed = mechanism.motion.say(run.theta[-1])
    np.testing.assert_allclose(agreed, agreed[0], rtol=1e-7)
    quiet = mechanism.motion.say(mechanism.execute(starts, np.zeros((LONG, 6))).theta[-1])
    np.testing.assert_allclose(quiet, target(mechanism, starts), rtol=1e-7)
    omega, motion = mechanism.stationary, mechanism.motion
    total = float(np.sum(motion.weight(omega)))
    share = np.array([motion.of_agent(i).settling[0] for i in range(6)]) if mechanism.shadowed else np.ones(6)
    expected = float(np.sum(omega * share * noise.sum(axis=0))) / total
    np.testing.assert_allclose(agreed[0] - quiet[0], expected, rtol=1e-6)


@BOTH
@ALL
def test_the_variance_is_that_of_runs(group, law):
    mechanism = group(law)
    dataset = tacit.simulate(
        mechanism, starts_of(mechanism), 120, runs=1500, seed=4, record=Record(average=True)
    )
    found = float(dataset.average[:, -1].var())
    # the variance of a variance of 1,500 draws with kurtosis 6: 5 deviations are 0.32
    assert found == pytest.approx(accuracy.variance(mechanism, 120), rel=0.32)
    sampled = sample_outcome(mechanism, 4000, rounds=120, seed=1).var()
    assert sampled == pytest.approx(accuracy.variance(mechanism, 120), rel=0.25)


@BOTH
@ALL
@pytest.mark.parametrize("rounds", [1, pytest.param(9, marks=pytest.mark.long), 60])
def test_every_agent_is_within_the_radius(group, law, rounds):
    """1,500 runs from the worst start: at most 5% outside, and 5 deviations of chance (0.028)."""
    mechanism = group(law)
    promise = tacit.analyze(mechanism, rounds=rounds, spread=2.0, tolerance=1.0)
    values = np.zeros((6, mechanism.motion.dimension))
    values[0, 0], values[1:, 0] = 1.0, -1.0
    runs = tacit.simulate(mechanism, values, rounds, runs=1500, seed=9)
    said = mechanism.motion.say(runs.theta.isel(round=-1).values)
    aim = float(target(mechanism, values))
    assert np.mean(np.abs(said - aim).max(axis=1) > promise.radius) <= 0.05 + 0.028
    apart = said.max(axis=1) - said.min(axis=1)
    assert np.mean(apart > promise.disagreement * (1 + 1e-9)) <= 0.05 + 0.028


def test_the_radius_is_exact_around_a_server():
    mechanism = ClientServer(Scheduled.best(TRUCK, 1.0, 200), agents=10)
    promise = tacit.analyze(mechanism, rounds=200)
    assert promise.radius == pytest.approx(3.643447193259, rel=1e-9)
    missed = np.mean(np.abs(sample_outcome(mechanism, 40_000, rounds=200, seed=2)) > promise.radius)
    assert missed == pytest.approx(0.05, abs=5 * (0.05 * 0.95 / 40_000) ** 0.5)


@BOTH
@ALL
def test_agents_have_agreed_after_the_rounds_told(group, law):
    mechanism = group(law)
    promise = tacit.analyze(mechanism, spread=2.0, tolerance=0.01)
    assert 0 < promise.rate < 1
    values = np.zeros((6, mechanism.motion.dimension))
    values[0, 0], values[1:, 0] = 1.0, -1.0
    said = mechanism.motion.say(
        tacit.simulate(mechanism, values, promise.rounds, runs=100, seed=5).theta.isel(round=-1).values
    )
    assert np.max(said.max(axis=1) - said.min(axis=1)) <= 0.01
    if isinstance(mechanism, ClientServer) and mechanism.motion is TRUCK:  # for certain, and not before
        early = mechanism.execute(values, np.zeros((promise.rounds - 1, 6))).theta[-1]
        assert np.ptp(TRUCK.say(early)) > 0.01


def test_simulations_equal_executions_on_the_same_noise():
    for group in GROUPS.values():
        for law in FADING.values():
            mechanism = group(law)
            starts = starts_of(mechanism)
            kept = tacit.simulate(mechanism, starts, 15, runs=3, seed=2, record=Record(everything=True))
            run = mechanism.execute(starts, kept.eta.values[2])
            np.testing.assert_allclose(kept.theta.values[2], run.theta, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(kept.x.values[2], run.x, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(kept.y.values[2], run.y, rtol=1e-12, atol=1e-12)
    with pytest.raises(StateError, match=r"must have shape \(6, 2\)"):
        tacit.simulate(GROUPS["server"](FADING["fresh"]), np.zeros(6), 5)


@BOTH
def test_a_witness_looks_the_same_and_costs_at_most_the_loss(law):
    mechanism = Distributed(law(MIXED), BARBELL)
    starts = starts_of(mechanism)
    noise = np.random.default_rng(1).laplace(size=(30, 6)) * mechanism.law.scales(30).reshape(30, -1)
    history = mechanism.execute(starts, noise)
    for agent in range(6):
        found = find_witness(history, agent, 0.7)
        np.testing.assert_allclose(found.history.x, history.x, atol=1e-9)
        loss = 0.7 * float(mechanism.law.of_agent(agent).epsilons(30))
        assert abs(found.log_likelihood_ratio) <= loss * (1 + 1e-9)
    with pytest.raises(StateError, match="one for each private component"):
        find_witness(history, 0, [1.0, 2.0])


def test_the_rate_of_mixed_agents_is_the_second_mode_of_their_loop():
    loop = ClosedLoop(Distributed(OneShot(MIXED, 1.0), BARBELL))
    values = np.sort(np.abs(np.linalg.eigvals(loop.matrix)))[::-1]
    assert values[0] == pytest.approx(1, abs=1e-12)
    assert loop.rate == pytest.approx(values[1], abs=1e-12)
    assert ClosedLoop(ClientServer(Fading(TRUCK, 1.0, 0.9), agents=5)).rate == pytest.approx(0.75, abs=1e-6)


def test_loops_that_do_not_settle_are_refused():
    def around(A, B):
        return ClientServer(Constant(Linear([[A]], [B], [1], private={0: 1.0}), 1.0), agents=4)

    for mechanism, words in [
        (around(0.5, -1.0), "gain.*must be 1, got -2"),
        (around(0.9, 0.2), "gain.*must be 1, got 2"),
        (around(1.0, 0.1), "never fades"),
        (around(-1.5, 2.5), "mode of modulus 1.5"),
    ]:
        with pytest.raises(MotionError, match=words):
            tacit.analyze(mechanism, rounds=50)
    # Strong feedback is stable around a server, and not on a ring with a mode of −1/3: 1.0328.
    strong = Linear([[1, 0.25], [-1.7, 0.5]], [0, 1.7], [1, 0], private={0: 1.0})
    stronger = Linear([[1, 0.25], [-1.8, 0.5]], [0, 1.8], [1, 0], private={0: 1.0})
    ring = Graph.from_edges([(i, (i + 1) % 4) for i in range(4)])
    assert tacit.analyze(ClientServer(Constant(strong, 1.0), agents=4), rounds=9).radius > 0
    named = r"mode of modulus 1\.0328 .*period of .* rounds, at the eigenvalue -0\.3333 of the weights"
    with pytest.raises(MotionError, match=named):
        tacit.analyze(Distributed(Constant(strong, 1.0), ring), rounds=9)
    with pytest.raises(MotionError, match="strongest in agents"):
        tacit.analyze(Distributed(Constant(Various([strong, stronger] * 2), 1.0), ring), rounds=9)
    assert not settles_everywhere(strong)


def test_agents_without_overshoot_settle_on_every_graph():
    """T5's sufficient condition, on directed weights at random, and a cycle that it must not admit."""
    assert settles_everywhere(TRUCK)
    assert settles_everywhere(Various([TRUCK, SLOW]))
    assert not settles_everywhere(LIVELY)
    rng = np.random.default_rng(5)
    for _ in range(40):
        W = (rng.random((5, 5)) < 0.4) * rng.random((5, 5)) + np.roll(np.eye(5), 1, axis=1)
        W /= W.sum(axis=1, keepdims=True)
        assert second_modulus([TRUCK, SLOW, TRUCK, SLOW, SLOW], W) < 1 - 1e-6

    def delayed(first):  # half of what is heard after `first` rounds, half three rounds later
        A = np.eye(first + 3, k=-1)
        C = np.zeros(first + 3)
        C[[first - 1, first + 2]] = 0.5
        return Linear(A, np.eye(first + 3)[0], C, private={0: 1.0})

    # a and b answer after 1 and 4 rounds, e after 2 and 5; a hears b and e, b hears d, d hears a, e hears a
    kinds = [delayed(1), delayed(1), delayed(1), delayed(2)]
    W = np.array([[0, 0.5, 0, 0.5], [0, 0, 1, 0], [1, 0, 0, 0], [1, 0, 0, 0]], dtype=float)
    assert second_modulus(kinds, W) == pytest.approx(1, abs=1e-9)  # it turns for ever, with period 3
    assert not settles_everywhere(Various(kinds))


def second_modulus(motions, W):
    """The second largest modulus of diag(A) + diag(B)·W·diag(C), by hand."""
    sizes = [one.dimension for one in motions]
    at = np.concatenate([[0], np.cumsum(sizes)])
    F = np.zeros((at[-1], at[-1]))
    for i, one in enumerate(motions):
        F[at[i] : at[i + 1], at[i] : at[i + 1]] += one.A
        for j, other in enumerate(motions):
            F[at[i] : at[i + 1], at[j] : at[j + 1]] += W[i, j] * np.outer(one.B, other.C)
    return np.sort(np.abs(np.linalg.eigvals(F)))[-2]


def test_agents_whose_lags_cancel_are_refused():
    """They would agree on a ramp."""
    late = Linear([[0.75]], [0.25], [1], private={0: 1.0})
    early = Linear([[0.5, 0.0], [0.0, 0.75]], [2.5, -1.0], [1, 1], private={0: 1.0})
    assert (late.lag, late.gain, early.lag, early.gain) == (4, 1, -6, 1)
    with pytest.raises(MotionError, match="a ramp"):
        tacit.analyze(ClientServer(Constant(Various([late] * 3 + [early] * 2), 1.0), agents=5), rounds=9)


def test_gain_within_the_tolerance_of_some_rounds_is_accepted():
    almost = Linear([[0.75]], [0.25 * (1 - 1e-5)], [1], private={0: 1.0})
    mechanism = ClientServer(Constant(almost, 1.0), agents=4)
    assert tacit.analyze(mechanism, rounds=50).radius > 0
    with pytest.raises(MotionError, match="drift by"):
        tacit.analyze(mechanism, rounds=1000)


def test_a_promise_says_what_it_assumes():
    promise = tacit.analyze(ClientServer(Scheduled.best(TRUCK, 1.0, 30), agents=8), rounds=30)
    said = str(promise)
    assert "computed by the agent itself" in said
    assert "no physical coupling" in said
    measured = Linear(TRUCK.A, TRUCK.B, TRUCK.C, private={0: 1.0}, measured=True)
    assert "is measured" in str(tacit.analyze(ClientServer(Fading(measured, 9.0, 0.95), agents=8)))
    with pytest.raises(ParameterError, match="components"):
        tacit.analyze(promise.mechanism, rounds=30, components=2)
