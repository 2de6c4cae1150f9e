"""Linear agents on whole numbers: what two starts can say differently, by brute force."""

import math
from fractions import Fraction
from itertools import islice

import numpy as np
import pytest
from tests.motion.test_linear import LIVELY_A, TRUCK_A, lively, truck

from tacit.core.graph import Graph
from tacit.core.law import OneShot, Scheduled
from tacit.core.mechanism import ClientServer, Distributed
from tacit.core.mechanism.lattice import Lattice
from tacit.core.mechanism.on_lattice import OnLattice
from tacit.core.motion import Linear
from tacit.core.noise.accounting import account, sensitivities

ROUNDS = 60
HALF = Linear([[0.5, 0.0], [0.25, 0.5]], [0.5, 0.0], [1.5, 0.0], private={0: 1.0})
KINDS = {"truck": truck(), "lively": lively(), "both": lively(speed=1, acceleration=2), "C=3/2": HALF}
every = pytest.mark.parametrize("motion", KINDS.values(), ids=KINDS)


def moved(motion, states, y):
    """A·z + B·y to the nearest, for many states at once: whole numbers of 64 bits."""
    both = np.column_stack([motion.A, motion.B]) * 64
    assert np.array_equal(both, both.astype(np.int64))
    known = np.concatenate([states, np.broadcast_to(y, (*states.shape[:-1], 1))], axis=-1)
    return (known @ both.astype(np.int64).T + 32) >> 6


def said(motion, states, shift):
    """C·z in steps of 2^shift, to the nearest."""
    row = (motion.C * 64).astype(np.int64)
    return (states @ row + (1 << shift + 6 >> 1)) >> shift + 6


def farthest(motion, start, steps, runs=4000):
    """How far apart messages of adjacent starts were, per update: in state steps, and in message steps."""
    rng = np.random.default_rng(5)
    low = rng.integers(-1000, 1000, (runs, 2))
    widths = np.array([dict(motion.private).get(k, 0) for k in range(2)])
    high = low + np.ceil(widths * start).astype(np.int64)
    found = []
    for u in range(ROUNDS):
        apart = np.abs(said(motion, high, 0) - said(motion, low, 0)).max()
        found.append((apart, np.abs(said(motion, high, steps[u]) - said(motion, low, steps[u])).max()))
        y = rng.integers(-(2**20), 2**20, (runs, 1))
        low, high = moved(motion, low, y), moved(motion, high, y)
    return np.array(found)


@every
def test_messages_are_never_further_apart_than_the_account_says(motion):
    """4000 runs that hear the same; each is moved as the code moves it."""
    rng = np.random.default_rng(1)
    for z in rng.integers(-(2**20), 2**20, (50, 2)):
        y, shift = int(rng.integers(-(2**20), 2**20)), int(rng.integers(0, 9))
        assert motion.move_whole(z.astype(object), y).tolist() == moved(motion, z, np.array([y])).tolist()
        assert motion.say_whole(z.astype(object), shift) == said(motion, z, shift)
    for start in (1, 64):
        # scales for which a message step is 2^shift state steps
        shifts = [int(shift) for shift in rng.integers(0, 6, ROUNDS)]
        law = Scheduled.of(motion, [math.ldexp(1.0, shift) for shift in shifts])
        agent = Lattice(-1, 1, state_exponent=-8, bits=8, reach_exponent=30).agent(law)
        limits = list(islice(sensitivities(agent, start * 2.0**-8), ROUNDS))
        found = farthest(motion, start, shifts)
        assert np.all(found[:, 0] <= list(islice(motion.steps_apart(start, 1), ROUNDS)))
        assert np.all(found[:, 1] <= limits)
        # and it is no wild guess: rounding alone stays apart
        assert limits[-1] <= 16


@pytest.mark.parametrize("start", [0, 1, 1000])
def test_the_distances_are_those_of_fractions_rounded_up(start):
    quarter = Linear(LIVELY_A, [0, 1], [1.25, 0.1], private={0: 0.3, 1: 2.5})
    for motion in (
        *KINDS.values(),
        quarter,
        Linear(TRUCK_A, [0, 1], [1, 0.7], private={0: 0.1, 1: 2}, norm="l1"),
    ):
        G = [[Fraction(0)] * len(motion.private) for _ in range(2)]
        for j, (k, half) in enumerate(motion.private):
            G[k][j] = Fraction(half)
        row, gain = [Fraction(v) for v in motion.C], Fraction(0)
        for found in islice(motion.steps_apart(start, 1), 30):
            gain += sum(map(abs, row))
            sizes = [abs(sum(row[k] * G[k][j] for k in range(2))) for j in range(len(motion.private))]
            apart = max(sizes) if motion.norm == "l1" else sum(sizes)
            assert found == math.ceil(apart * start + gain)
            row = [sum(row[k] * Fraction(float(motion.A[k, j])) for k in range(2)) for j in range(2)]


@pytest.mark.parametrize(("A", "limit"), [(TRUCK_A, 13), (LIVELY_A, 9)])
def test_a_recursion_with_moduli_explodes(A, limit):
    """The bound that nobody should use: Δ ≤ |A|Δ + s has ρ(|A|) above 1."""
    apart = np.ones(2)
    for _ in range(59):
        apart = np.abs(A) @ apart + 1
    assert apart.max() > 300 * limit
    motion = truck() if A is TRUCK_A else lively()
    assert list(islice(motion.steps_apart(0, 1), ROUNDS))[-1] <= limit


def test_the_whole_number_below_is_too_small_for_a_fractional_row():
    """The bound is 3: a start a step apart jumps by 2, where "below 3/2" says 1."""
    low, high = np.array([0, 0], dtype=object), np.array([1, 0], dtype=object)
    assert HALF.say_whole(high, 0) - HALF.say_whole(low, 0) == 2
    assert next(HALF.steps_apart(1, 1)) == 3


def slow(law, lattice, starts, draws, rows):
    """The mechanism in fractions: what is said and heard, with rounding written out."""

    def nearest(value):
        return math.floor(value + Fraction(1, 2))

    A, B, C = (
        [[Fraction(v) for v in row] for row in np.atleast_2d(m)]
        for m in (law.motion.A, law.motion.B, law.motion.C)
    )
    s = Fraction(2) ** lattice.state_exponent
    states = [[nearest(Fraction(v) / s) for v in z] for z in starts]
    shadows, all_x, all_y = None, [], []
    for u, draw in enumerate(draws):
        scale = law.upper_scale(u) if u == 0 or not law.shadowed else None
        g = Fraction(2) ** (math.frexp(scale)[1] - 1 - lattice.bits) if scale else s
        if law.shadowed and u == 0:
            shadows = [[nearest(z[0] * s / g) * int(g / s) + d * int(g / s), *z[1:]]
                       for z, d in zip(states, draw, strict=True)]  # fmt: skip
        basis, g = (shadows, s) if law.shadowed else (states, g)
        noise = [0] * len(states) if law.shadowed else draw
        x = [nearest(sum(a * b for a, b in zip(C[0], z, strict=True)) * s / g) + d
             for z, d in zip(basis, noise, strict=True)]  # fmt: skip
        lifted = [v * int(g / s) for v in x]
        y = [nearest(Fraction(sum(lifted[j] for j in row), len(row))) for row in rows]

        def step(z, heard):
            return [nearest(sum(a * b for a, b in zip(A[k], z, strict=True)) + B[0][k] * heard)
                    for k in range(len(z))]  # fmt: skip

        states = [step(z, heard) for z, heard in zip(states, y, strict=True)]
        shadows = shadows and [step(z, heard) for z, heard in zip(shadows, y, strict=True)]
        all_x.append(x)
        all_y.append(y)
    return states, all_x, all_y


@pytest.mark.parametrize("law", [OneShot.best(truck(), 1.0), Scheduled.best(truck(), 1.0, 12)])
@pytest.mark.parametrize("on", ["server", "graph"])
def test_a_run_is_that_of_slow_fractions(law, on):
    rng, n = np.random.default_rng(2), 4
    graph = Graph.from_name("path:4")
    mechanism = ClientServer(law, n) if on == "server" else Distributed(law, graph)
    rows = [range(n)] * n if on == "server" else [sorted([i, *graph.neighbours(i)]) for i in range(n)]
    lattice = Lattice.fitting(law, 12, -10, 10)
    draws = rng.integers(-(2**40), 2**40, (12, n)).astype(object)
    draws[1 if law.shadowed else 12 :] = 0
    starts = np.column_stack([rng.uniform(-10, 10, n), rng.uniform(-1, 1, n)])
    run = OnLattice(mechanism, lattice).execute(starts, draws)
    states, x, y = slow(law, lattice, starts, draws.tolist(), rows)
    assert run.wholes.x.tolist() == x
    assert np.broadcast_to(run.wholes.y.reshape(12, -1), (12, n)).tolist() == y
    assert run.private.states[-1].tolist() == states


def test_messages_of_noise_once_follow_from_the_noisy_start():
    """Two starts and draws with the same sum say the same for ever, and the account is of that one number."""
    law = OneShot.best(truck(speed=2.0), 1.0)
    lattice = Lattice.fitting(law, 20, -10, 10)
    agent = lattice.agent(law)
    step = math.ldexp(1.0, agent.draw_exponent(0))
    on = OnLattice(ClientServer(law, 2), lattice)
    draws = np.zeros((20, 2), dtype=object)
    draws[0] = 5, 7
    one = on.execute([[3.0, 1.0], [0.0, 0.0]], draws)
    draws[0, 0] = 5 + int(1.0 / step)
    other = on.execute([[2.0, 1.0], [0.0, 0.0]], draws)
    assert one.wholes.x.tolist() == other.wholes.x.tolist()
    assert one.private.states.tolist() != other.private.states.tolist()
    found = account(agent, 20)
    assert found.total == pytest.approx(1.0, rel=1e-9)
    assert found.total >= 1.0
    assert not found.per_message[1:].any()


def test_a_state_beyond_the_reach_is_neither_clamped_nor_refused():
    """A liar drives a lively agent beyond the reach: what it does must not depend on where it is."""
    law = Scheduled.of(lively(), np.full(40, 1.0))
    agent = Lattice.fitting(law, 40, -1, 1).agent(law)
    z, most = np.array([0, 0], dtype=object), 0
    for u in range(40):
        z = agent.update(z, agent.lattice.limit if u % 8 < 4 else -agent.lattice.limit)
        most = max(most, *map(abs, z))
        assert abs(agent.report(z, u, 0)) <= agent.lattice.limit >> (
            agent.message_exponent(u) - agent.lattice.state_exponent
        )
    assert most > agent.lattice.limit
