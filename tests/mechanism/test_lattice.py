"""The mechanisms on whole numbers, against exact fractions.

Also against the bounds of docs/proofs/lattice.md.
"""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tacit import ClientServer, Constant, Distributed, Fading, Graph, Linear, OneShot
from tacit.base.errors import ParameterError, StateError
from tacit.core.law import Bits
from tacit.core.law.geometric import _power, fading_scale
from tacit.core.mechanism.lattice import Lattice
from tacit.core.mechanism.on_lattice import OnLattice
from tacit.core.mechanism.whole import as_whole

PAPER = Fading(sigma=0.8, c=10, q=0.6)
untimed = settings(deadline=None)  # a busy machine is no failure
inside = st.floats(0.01, 0.99)
mixings = st.floats(2**-20, 1, exclude_max=True)
lattices = st.builds(Lattice, st.just(-4), st.just(4), st.integers(-90, -2), st.just(40), st.just(12))


def floor_half(x: Fraction) -> int:
    return math.floor(x + Fraction(1, 2))


def exact_scale(c: float, q: float, u: int) -> Fraction:
    return Fraction(c) * Fraction(q) ** u


# the scale


@untimed
@given(st.floats(1e-6, 1e6), st.floats(1e-3, 1, exclude_max=True), st.integers(0, 60))
@example(1.0, 0.5, 40)  # exactly a power of two: must not be moved
@example(10.0, 1 - 2**-53, 60)
def test_the_scale_is_the_least_float_above_the_papers(c, q, u):
    scale, exact = fading_scale(c, q, u), exact_scale(c, q, u)
    assert Fraction(scale) >= exact > Fraction(math.nextafter(scale, 0))


@untimed
@given(st.integers(1, 2**53), st.integers(0, 40), st.integers(2, 64))
def test_powers_are_between_their_bounds(a, u, precision):
    low, high, exponent = _power(a, u, precision)
    assert low * 2**exponent <= a**u <= high * 2**exponent
    assert low == high or low.bit_length() == precision


def test_the_scale_of_a_late_update_takes_no_longer_to_find():
    assert fading_scale(10.0, 0.9999, 200_000) == pytest.approx(10 * 0.9999**200_000, rel=1e-9)
    assert fading_scale(10.0, 0.5, 5000) == 0  # below all that a lattice may have as its step


@untimed
@given(st.floats(1e-3, 1e3), st.floats(0.3, 0.99), st.integers(0, 60), st.integers(20, 51))
def test_the_message_step_follows_the_noise_and_never_passes_the_state_step(c, q, u, bits):
    agent = Lattice(0, 1, state_exponent=-60, bits=bits, reach_exponent=20).agent(Fading(0.5, c, q))
    assume(fading_scale(c, q, u) >= 2.0**-60)
    step, scale = Fraction(2) ** agent.message_exponent(u), Fraction(agent.scale(u))
    wanted = scale / 2**bits
    assert step == Fraction(1, 2**60) if wanted < Fraction(1, 2**60) else wanted / 2 < step <= wanted
    assert Fraction(agent.draw_scale(u)) * step == scale  # nothing is lost on the way to the sampler


def test_noise_narrower_than_the_state_step_is_refused():
    agent = Lattice(0, 1, state_exponent=-10).agent(Fading(0.5, 1.0, 0.5))
    assert agent.draw_scale(10) == 1.0
    with pytest.raises(ParameterError, match="at update 11 it is not"):
        agent.message_exponent(11)


# values


@untimed
@given(lattices, st.one_of(st.floats(-4, 4), st.fractions(-4, 4), st.integers(-4, 4), st.decimals(-4, 4)))
def test_a_value_starts_at_the_nearest_state_ties_up(lattice, value):
    state = lattice.start(value)
    assert type(state) is int
    assert state == floor_half(Fraction(value) / Fraction(lattice.state_step))


@untimed
@given(lattices, st.floats(-4, 4), st.floats(-4, 4))
def test_rounding_the_start_keeps_values_as_close_as_a_step(lattice, a, b):
    apart = abs(Fraction(a) - Fraction(b)) / Fraction(lattice.state_step)
    assert abs(lattice.start(a) - lattice.start(b)) <= math.ceil(apart)


def test_whole_numbers_that_no_float_holds_are_read_exactly():
    lattice = Lattice(-(2.0**70), 2.0**70, state_exponent=0)
    assert lattice.start(2**60 + 1) == 2**60 + 1
    assert lattice.start(np.int64(2**60 + 1)) == 2**60 + 1
    assert lattice.start([Decimal("0.5"), np.float32(1.5), 3]).tolist() == [1, 2, 3]
    assert Lattice(0, 100, state_exponent=2).start(10) == 3  # 2.5 steps


def test_values_off_the_range_count_as_the_nearest_end():
    """Refusing one would tell others about it: who does not take part is seen."""
    lattice = Lattice(0, 1, state_exponent=-4)
    assert lattice.start([1.3, -0.2, 0.5, 1e300]).tolist() == [16, 0, 8, 16]
    assert lattice.start([Fraction(1234567, 10**6), Decimal("-7")]).tolist() == [16, 0]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, Decimal("NaN"), np.float64("inf")])
def test_nan_and_infinities_are_refused(bad):
    with pytest.raises(StateError, match="finite"):
        Lattice(0, 1).start(bad)


@pytest.mark.parametrize("bad", ["1", None, 1j, [[1.0]], []])
def test_what_is_not_a_number_is_refused(bad):
    with pytest.raises(StateError, match="must be"):
        Lattice(0, 1).start(bad)


# messages and updates


@untimed
@given(lattices, inside, st.floats(-4, 4), st.integers(0, 8), st.integers(-(2**44), 2**44))
def test_a_message_is_the_rounded_state_and_the_draw(lattice, q, value, u, draw):
    agent = lattice.agent(Fading(0.5, 10.0, q))
    assume(fading_scale(10.0, q, u) >= lattice.state_step)
    state = lattice.start(value)
    step = Fraction(2) ** agent.message_exponent(u)
    rounded = floor_half(Fraction(state) * Fraction(lattice.state_step) / step)
    bound = Fraction(lattice.reach) / step
    assert agent.report(state, u, draw) == max(-bound, min(rounded + draw, bound))


@untimed
@given(lattices, mixings, st.integers(-(2**12), 2**12), st.integers(-(2**12), 2**12), st.data())
def test_an_update_is_the_nearest_state_and_between_state_and_feedback(lattice, sigma, theta, y, data):
    fine = st.integers(0, lattice.limit >> 13)
    theta, y = (lattice.limit >> 13) * theta + data.draw(fine), (lattice.limit >> 13) * y + data.draw(fine)
    updated = lattice.agent(Fading(sigma, 10.0, 0.9)).update(theta, y)
    assert updated == floor_half((1 - Fraction(sigma)) * theta + Fraction(sigma) * y)
    assert min(theta, y) <= updated <= max(theta, y)


@untimed
@given(lattices, mixings, st.floats(-4, 4), st.floats(-4, 4), st.lists(st.floats(-4000, 4000), max_size=12))
def test_two_states_come_closer_whatever_the_feedback(lattice, sigma, a, b, feedback):
    """|Δ_{u+1}| ≤ (1−σ)|Δ_u| + s.

    Less than a step more than that cannot be promised.
    """
    agent = lattice.agent(Fading(sigma, 10.0, 0.9))
    one, two = lattice.start(a), lattice.start(b)
    for y in feedback:
        heard = floor_half(Fraction(y) / Fraction(lattice.state_step))
        apart = abs(one - two)
        one, two = agent.update(one, heard), agent.update(two, heard)
        assert abs(one - two) <= math.ceil((1 - Fraction(sigma)) * apart)


def test_the_step_in_the_bound_is_needed():
    agent = Lattice(0, 1, state_exponent=-10).agent(Fading(0.25, 1.0, 0.9))
    # 0 and 1 with feedback 2: 0.5 goes up to 1, 1.25 to 1; with feedback 1: 0.25 to 0, 1 to 1
    assert [agent.update(state, 1) for state in (0, 1)] == [0, 1]  # apart by 1 > (1−σ)·1


@untimed
@given(lattices, inside, st.floats(-4, 4), st.floats(-4, 4), st.integers(0, 8))
def test_messages_of_two_states_are_apart_by_at_most_one_step_more(lattice, q, a, b, u):
    agent = lattice.agent(Fading(0.5, 10.0, q))
    assume(fading_scale(10.0, q, u) >= lattice.state_step)
    one, two = lattice.start(a), lattice.start(b)
    ratio = 2 ** (agent.message_exponent(u) - lattice.state_exponent)
    assert abs(agent.report(one, u, 0) - agent.report(two, u, 0)) <= math.ceil(
        Fraction(abs(one - two), ratio)
    )


def test_overflow_is_refused_before_noise_is_added():
    lattice = Lattice(-1, 1, state_exponent=-80, reach_exponent=12)
    agent = lattice.agent(PAPER)
    for far in (lattice.limit + 1, -lattice.limit - 1, 10**60):
        with pytest.raises(
            StateError, match="a state must be within the session's reach of ±4096"
        ) as refusal:
            agent.report(far, 0, 0)
        assert str(far) not in str(refusal.value)
        with pytest.raises(StateError, match="feedback must be within"):
            agent.update(0, far)
    quarter = lattice.agent(Fading(0.75, 10, 0.6))
    assert quarter.update(lattice.limit, -lattice.limit) == -lattice.limit // 2  # the ends are allowed
    assert lattice.limit.bit_length() < lattice.whole_bits


def test_a_message_is_cut_at_the_reach_after_its_noise():
    lattice = Lattice(-1, 1, state_exponent=-80, reach_exponent=12)
    agent = lattice.agent(PAPER)
    bound = 2 ** (12 - agent.message_exponent(0))
    assert agent.report(0, 0, 2**63) == bound
    assert agent.report(np.array([0, 0], dtype=object), 0, [-(2**62), 5]).tolist() == [-bound, 5]


def test_numpys_whole_numbers_cannot_overflow_here():
    agent = Lattice(-1, 1, state_exponent=-100, reach_exponent=60).agent(Fading(0.5, 2.0**-30, 0.5))
    said = agent.report(agent.lattice.start(1.0), 2, np.int64(2**63 - 1))
    assert type(said) is int
    assert said == 2 ** (-agent.message_exponent(2)) + 2**63 - 1
    whole = as_whole(np.array([2**63 - 1]), "numbers")
    assert (whole + whole).tolist() == [2**64 - 2]


@pytest.mark.parametrize("noise", [0.5, math.nan, True, "1", None, [0.5], np.array([1.0])])
def test_noise_that_is_not_whole_is_refused(noise):
    with pytest.raises(StateError, match="noise must be whole numbers"):
        Lattice(0, 1).agent(PAPER).report(0, 0, noise)


@untimed
@given(lattices, st.lists(st.tuples(st.integers(-1000, 1000), st.integers(0, 8)), min_size=1, max_size=9))
def test_feedback_is_the_mean_to_the_nearest_state_ties_up(lattice, said):
    messages = [(x, lattice.state_exponent + up) for x, up in said]
    assume(all(abs(x) << up <= lattice.limit for x, up in said))
    exact = sum(Fraction(x) * 2**up for x, up in said) / len(said)
    assert lattice.mean(messages) == floor_half(exact)
    vectors = [(np.array([x, -x], dtype=object), e) for x, e in messages]
    assert lattice.mean(vectors).tolist() == [floor_half(exact), floor_half(-exact)]


def test_messages_that_cannot_be_are_refused():
    lattice = Lattice(0, 1)
    for bad, sentence in [
        ([], "at least one message"),
        ([(1, -81)], "exponent must be from -80"),
        ([(1, 99)], "exponent must be from -80"),
        ([(2**200, -80)], "within the session's reach"),
        ([(0.5, -80)], "whole numbers"),
        ([(1, -80), ([1, 2], -80)], "same number of components"),
    ]:
        with pytest.raises(StateError, match=sentence):
            lattice.mean(bad)


# whole mechanisms


def slow(mechanism, lattice, values, draws):
    """Every agent on its own, with the functions that a networked agent has."""
    agents = [lattice.agent(mechanism.law, i) for i in range(mechanism.n)]
    theta = [lattice.start(v) for v in values]
    basis, x, y, states = list(theta), [], [], [list(theta)]
    for u, row in enumerate(draws):
        said = [agent.report(basis[i], u, row[i]) for i, agent in enumerate(agents)]
        wired = [(m, agent.message_exponent(u)) for m, agent in zip(said, agents, strict=True)]
        if isinstance(mechanism, ClientServer):
            heard = [lattice.mean(wired)] * mechanism.n
        else:
            near = [[i, *mechanism.graph.neighbours(i).tolist()] for i in range(mechanism.n)]
            heard = [lattice.mean([wired[j] for j in group]) for group in near]
        theta = [agent.update(theta[i], heard[i]) for i, agent in enumerate(agents)]
        shadow = [agent.update(lattice.lifted(*wired[i]), heard[i]) for i, agent in enumerate(agents)]
        basis = shadow if mechanism.shadowed else theta
        x.append(said)
        y.append(heard[0] if isinstance(mechanism, ClientServer) else heard)
        states.append(list(theta))
    return states, x, y


def listed(rows):
    return [listed(row) for row in rows] if isinstance(rows, list | np.ndarray) else rows


PATH = Graph.from_edges([(0, 1), (1, 2), (2, 3), (1, 3)])
MECHANISMS = [
    ClientServer(PAPER, agents=4),
    ClientServer(OneShot([0.3, 0.8, 0.5, 0.6], 10), agents=4),
    Distributed(Fading([0.3, 0.8, 0.5, 0.6], [10, 1, 2, 3], 0.7), PATH),
    Distributed(Fading(0.4, 3, 0.8), PATH),
    Distributed(OneShot(0.4, 3), PATH),
]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("vector", [(), (3,)])
def test_all_agents_at_once_equal_each_on_its_own(mechanism, vector):
    rng = np.random.default_rng(5)
    values = rng.uniform(-1, 1, (4, *vector))
    draws = rng.laplace(scale=2.0**40, size=(9, 4, *vector)).astype(np.int64)
    if mechanism.shadowed:
        draws[1:] = 0
    lattice = Lattice(-1, 1, state_exponent=-70)
    run = OnLattice(mechanism, lattice).execute(values, draws)
    states, x, y = slow(mechanism, lattice, values, draws)
    found = run.private.states, run.wholes.x, run.wholes.y
    assert list(map(listed, found)) == list(map(listed, (states, x, y)))
    flat = [v for array in found for v in array.reshape(-1).tolist()]
    assert {type(v) for v in flat} == {int}  # no numpy number that could overflow


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_as_floats_it_is_the_mechanism_of_the_paper(mechanism):
    rng = np.random.default_rng(6)
    values = rng.uniform(-1, 1, (4, 2))
    draws = rng.laplace(scale=2.0**40, size=(9, 4, 2)).astype(np.int64)
    if mechanism.shadowed:
        draws[1:] = 0
    execution = OnLattice(mechanism, Lattice(-1, 1)).execute(values, draws)
    paper = mechanism.execute(values, execution.eta)
    for ours, theirs in zip(
        (execution.theta, execution.x, execution.y), (paper.theta, paper.x, paper.y), strict=True
    ):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, atol=1e-10)


def test_a_run_without_rounds_and_with_one_agent():
    on = OnLattice(ClientServer(PAPER, agents=1), Lattice(0, 1))
    empty = on.execute([0.5], np.empty((0, 1), dtype=np.int64))
    assert empty.theta.tolist() == [[0.5]]
    assert empty.y.shape == (0,)
    alone = OnLattice(Distributed(PAPER, Graph.from_edges([], n=1)), Lattice(0, 1)).execute([0.5], [[2**37]])
    assert alone.y.tolist() == alone.x.tolist()


def test_one_shot_noise_is_drawn_once_and_the_shadow_speaks():
    mechanism = ClientServer(OneShot(0.5, 1.0), agents=2)
    on = OnLattice(mechanism, Lattice(0, 1))
    run = on.execute([0, 1], [[2**39, 0], [0, 0], [0, 0]])
    assert run.exponent[:, 0].tolist() == [-40, -80, -80]
    assert run.x.tolist() == [[0.5, 1.0], [0.625, 0.875], [0.6875, 0.8125]]
    with pytest.raises(ParameterError, match="drawn once"):
        on.execute([0, 1], [[0, 0], [1, 0]])


def test_nothing_private_in_what_is_printed():
    on = OnLattice(ClientServer(PAPER, agents=2), Lattice(0, 1))
    run = on.execute([0.25, 0.75], [[12345, 67890]])
    assert repr(run) == "<History client-server, 2 agents, 1 rounds>"
    state, _, _ = on.step(on.start([0.25, 0.75]), 0, np.array([12345, 67890], dtype=object))
    assert repr(state) == "WholeState()"
    with pytest.raises(ValueError, match="read-only"):
        run.theta[0, 0] = 0


def test_a_float_state_costs_privacy_that_a_lattice_state_does_not():
    """With σ=.1, q=.92, c=10 float states cost 5.21 where ε is 4.6.

    The numbers are those of theory.md.
    """
    sigma, c, q, rounds = 0.1, 10.0, 0.92, 406
    a, b, floats = 0.0, 1.0, 0.0
    lattice = Lattice.fitting(Fading(sigma, c, q), rounds, 0, 1)
    agent = lattice.agent(Fading(sigma, c, q))
    one, two, whole = lattice.start(0.0), lattice.start(1.0), 0.0
    y = lattice.start(0.5)
    for u in range(rounds):
        floats += abs(b - a) / (c * q**u)
        whole += abs(one - two) * lattice.state_step / agent.scale(u)
        a, b = (1 - sigma) * a + sigma * 0.5, (1 - sigma) * b + sigma * 0.5
        one, two = agent.update(one, y), agent.update(two, y)
    assert floats == pytest.approx(5.21, abs=0.05)
    assert whole < 4.6


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"low": 1, "high": 1}, "low < high"),
        ({"low": -math.inf, "high": 1}, "finite"),
        ({"state_exponent": -901}, "state_exponent must be"),
        ({"bits": 52}, "bits must be from 8 to 51"),
        ({"reach_exponent": 0}, "reach_exponent must be from 1"),
    ],
)
def test_bad_lattices_are_refused(options, sentence):
    with pytest.raises(ParameterError, match=sentence):
        Lattice(**{"low": 0, "high": 1, **options})


def test_agents_that_cannot_be_are_refused():
    moving = Constant(Linear([[0.5]], [[0.5]], [[1.0]], private={0: 1.0}), c=10.0)
    with pytest.raises(ParameterError, match="64 times the noise"):
        Lattice(0, 1, reach_exponent=5).agent(moving)
    with pytest.raises(ParameterError, match="both values"):
        Lattice(0, 10, reach_exponent=4).agent(Bits(0.5, 40.0, 5.0, 10.0))
    with pytest.raises(ParameterError, match="agent of number 2"):
        Lattice(0, 1).agent(Fading([0.5, 0.5], 1.0, 0.9), 2)
    with pytest.raises(ParameterError, match="counted from 0"):
        Lattice(0, 1).agent(PAPER).scale(-1)
    with pytest.raises(StateError, match="for each of the 2 agents"):
        OnLattice(ClientServer(PAPER, agents=2), Lattice(0, 1)).execute([0.5], [[0, 0]])
    with pytest.raises(StateError, match=r"shape \(rounds, 2\)"):
        OnLattice(ClientServer(PAPER, agents=2), Lattice(0, 1)).execute([0.5, 0.5], [[0]])
    with pytest.raises(ParameterError, match="must not vanish"):
        Lattice.fitting(PAPER, 10_000, 0, 1)


@untimed
@given(mixings, st.floats(0.1, 100), st.floats(0.3, 0.99), st.integers(1, 80))
def test_a_fitting_lattice_follows_the_noise_to_the_last_round(sigma, c, q, rounds):
    parameters = Fading(sigma, c, q)
    lattice = Lattice.fitting(parameters, rounds, -3, 2)
    agent = lattice.agent(parameters)
    assert 2.0**40 <= agent.draw_scale(rounds - 1) < 2.0**41
    assert lattice.state_step <= sigma * agent.scale(rounds - 1) * 2.0**-56
