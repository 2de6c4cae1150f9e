"""Linear agents, against slow and obvious code and the reference numbers of the theory."""

import math
from fractions import Fraction
from itertools import islice, product
from types import SimpleNamespace

import numpy as np
import pytest

import tacit
from tacit.base.errors import MotionError, ParameterError
from tacit.core.graph import Graph
from tacit.core.law import Constant, Fading, OneShot, Scheduled
from tacit.core.law.scheduled import best_schedule
from tacit.core.mechanism import ClientServer, Distributed
from tacit.core.mechanism.lattice import Lattice
from tacit.core.motion import Linear
from tacit.core.noise.accounting import account
from tacit.core.theory import accuracy
from tacit.core.theory.privacy import epsilon
from tacit.core.theory.targets import target, weights

C = [1, 0]
TRUCK_A = np.array([[1, 0.25], [-0.25, 0.5]])
LIVELY_A = np.array([[1, 0.25], [-1, 0.5]])
NAMES = ("speed", "acceleration")


def truck(**private):
    return Linear(TRUCK_A, [0, 0.25], C, private=private or {"speed": 1.0}, names=NAMES)


def lively(**private):
    return Linear(LIVELY_A, [0, 1], C, private=private or {"speed": 1.0}, names=NAMES)


def cube_sum(motion, rounds):
    """S = Σ a_t^⅔."""
    return float(np.cbrt(motion.influence(np.arange(rounds)) ** 2).sum())


def preferred(rounds):
    return float(np.cbrt(best_schedule(PREFERENCE.influence_table(rounds)).value))


def server(law, agents):
    return ClientServer(law, agents=agents)


def believed():
    """The schedule of someone who takes the spectral radius ¾ for the influence: promised 1."""
    q = 0.75 ** (1 / 3)
    return 1 / (1 - 0.75 ** (2 / 3)) * q ** np.arange(400)


BOX = best_schedule(truck(speed=1, acceleration=0.5).influence_table(200))
LIVELY_BOX = best_schedule(lively(speed=1, acceleration=2).influence_table(200))
# A preference that acts in every step, from a state that has it already: a_t = 1/3 + 2/3·.7^t.
PREFERENCE = Linear([[0.7, 0.1], [0, 1]], [0.2, 0], C, private={0: 1.0, 1: 1.0})

REFERENCE = [
    ("1: S of the truck", cube_sum(truck(), 400), 10.33634968905058571666496),
    ("2: its price of smoothness", cube_sum(truck(), 400) ** 1.5 / truck().lag, 4.1539455862199876965),
    ("3: lag", truck().lag, 8.0),
    ("3: lag of the lively one", lively().lag, 2.0),
    ("4: S of 10 messages", cube_sum(truck(), 10), 7.606872151196196),
    ("4: S of 40 messages", cube_sum(truck(), 40), 10.319482491375224),
    ("5: best value, S³", best_schedule(truck().influence_table(400)).value, 1104.336891729697),
    ("6: true loss of the .75^t schedule", float(truck().spent(believed())), 2.5766872644081587),
    ("7: box of two, its value", BOX.value, 1807.24242042932),
    ("7: box of two, first scale", BOX.scales[0], 12.1806969231854),
    ("9: S of the lively one", cube_sum(lively(), 300), 8.628047106155247),
    ("10: sum of 50 influences", float(truck().spent(np.ones(50))), 7.999957714649653),
    ("14: rounding gain", truck().rounding_gain, 12.0),
    ("14: rounding gain, lively", lively().rounding_gain, 8.35135135135135),
    ("17: a preference, S of 24", preferred(24), 13.407533141226),
    ("17: a preference, S of 96", preferred(96), 48.021932158338),
    ("17: a preference, S of 672", preferred(672), 324.933849657360),
    ("24: lively, private acceleration", lively(acceleration=1).spent(np.ones(100)), 2.4594579900843505),
    ("26: lively box, its value", LIVELY_BOX.value, 1876.52611001331),
    ("26: lively box, weight of a corner", LIVELY_BOX.corners.max(), 0.987229260781),
]  # fmt: skip


@pytest.mark.parametrize(("name", "found", "value"), REFERENCE, ids=[row[0] for row in REFERENCE])
def test_reference_numbers(name, found, value):
    """Where a value is least, its derivative is 0: the place is known to the root of the value's accuracy."""
    place = name.endswith(("first scale", "weight of a corner"))
    assert found == pytest.approx(value, rel=1e-8 if place else 2e-12)


def test_reference_numbers_of_a_group():
    """11 and 12: ten and forty trucks around a server, and the price of fresh noise."""
    ten = server(Scheduled.best(truck(), 1.0, 200), 10)
    assert accuracy.variance(ten, 200) == pytest.approx(3.451052786655301, rel=1e-12)
    assert accuracy.radius(ten, 0.05, 200) == pytest.approx(3.643447193259, rel=1e-11)
    forty = server(Scheduled.best(truck(), 1.0, 480), 40)
    assert accuracy.deviation(forty, 480).deviation == pytest.approx(0.928850471, rel=1e-8)
    assert accuracy.radius(forty, 0.05, 480) == pytest.approx(1.820816017, rel=1e-8)
    once = server(OneShot.best(truck(), 1.0), 40)
    assert accuracy.deviation(once).deviation == pytest.approx(0.223606798, rel=1e-8)
    assert accuracy.radius(once, 0.05) == pytest.approx(0.439433219, rel=1e-8)


def test_the_best_geometric_noise_takes_its_size_from_the_true_influence():
    """5. The root of the derivative in 40 digits is q = .93505002175860406534."""
    law = Fading.best(truck(), 1.0)
    assert law.q == pytest.approx(0.93505002175860406534, rel=1e-12)
    assert law.c == pytest.approx(11.879434256120409524, rel=1e-11)
    assert law.c**2 / (1 - law.q**2) == pytest.approx(1122.8462959312121, rel=1e-12)
    assert 1 - 1e-12 < float(law.epsilons(None)) <= 1
    # Where a_t overshoots (a_1 = a_0), c·q^t with the least c below a_0 would lose more than it promises.
    some = Fading.best(lively(), 1.0, 60)
    assert float(some.epsilons(60)) <= 1 < float(lively().spent(some.q ** np.arange(60)))


@pytest.mark.parametrize("norm", ["box", "l1"])
def test_the_loss_is_that_of_slow_code(norm):
    """Σ|C·A^t·d|/s_t over all signs, in fractions, for systems at random; p = 3."""
    rng = np.random.default_rng(7)
    for _ in range(4):
        A, b, c = rng.normal(size=(3, 3)) / 2, rng.normal(size=3), rng.normal(size=3)
        half, scales = rng.uniform(0.5, 2, 3), rng.uniform(1, 2, 6)
        motion = Linear(A, b, c, private=dict(enumerate(half)), norm=norm)
        changes = list(product((-1, 1), repeat=3)) if norm == "box" else np.eye(3, dtype=int).tolist()
        exact = [[Fraction(v) for v in row] for row in A.tolist()]
        largest = Fraction(0)
        for signs in changes:
            z = [Fraction(h) * int(s) for h, s in zip(half.tolist(), signs, strict=True)]
            total = Fraction(0)
            for scale in scales.tolist():
                total += abs(sum(Fraction(k) * v for k, v in zip(c.tolist(), z, strict=True))) / Fraction(
                    scale
                )
                z = [sum(a * v for a, v in zip(row, z, strict=True)) for row in exact]
            largest = max(largest, total)
        found = float(motion.spent(scales))
        assert found >= largest
        assert found == pytest.approx(float(largest), rel=1e-15)
        assert sum(motion.parts(scales, 2.0)) == pytest.approx(2 * found, rel=1e-14)


def test_a_box_of_sixteen_is_compared_by_floats_first():
    rng = np.random.default_rng(3)
    A, c = rng.normal(size=(16, 16)) / 8, rng.normal(size=16)
    motion = Linear(A, np.ones(16), c, private=dict.fromkeys(range(16), 1.0))
    rows = np.array([c @ np.linalg.matrix_power(A, t) for t in range(5)])
    found = float(motion.spent(np.ones(5)))
    assert found == pytest.approx(float(np.abs(rows @ motion.corners.T).sum(axis=0).max()), rel=1e-12)
    with pytest.raises(ParameterError, match="at most 16 private components"):
        Linear(np.eye(17) / 2, np.ones(17), np.ones(17), private=dict.fromkeys(range(17), 1.0))


def test_a_disc_is_swept_exactly():
    motion = Linear(LIVELY_A, [0, 1], C, private={0: 1.0, 1: 0.7}, norm="l2")
    scales = np.linspace(3, 1, 30)
    rows = np.array([[1, 0.7] * (np.array(C) @ np.linalg.matrix_power(LIVELY_A, t)) for t in range(30)])
    angle = np.linspace(0, np.pi, 200_001)
    grid = (np.abs(rows @ [np.cos(angle), np.sin(angle)]) / scales[:, None]).sum(axis=0).max()
    assert grid <= float(motion.spent(scales)) <= grid * (1 + 1e-9)
    # three components: a bound by the norms of rows, not by spectral norms
    three = Linear(np.zeros((3, 3)), np.ones(3), [1, 1, 1], private=dict.fromkeys(range(3), 1.0), norm="l2")
    assert float(three.spent(np.ones(1))) == pytest.approx(3**0.5, rel=1e-11)


@pytest.mark.parametrize("motion", [truck(), lively(), lively(acceleration=1.0)])
def test_no_liar_sees_more_than_the_loss_and_one_transcript_shows_it(motion):
    """T1: feedback is chosen after every message, to drive the agent on."""
    scales, rng = np.linspace(4, 2, 25), np.random.default_rng(11)
    loss, (component, _) = float(motion.spent(scales)), motion.private[0]
    ratios = []
    for attained in [True] + [False] * 200:
        one, other = np.zeros(2), np.zeros(2)
        other[component] = 1.0
        ratio = 0.0
        for scale in scales:
            noise = rng.laplace(0, scale)
            if attained:  # beyond both centres
                noise = -1000.0 * np.sign(motion.say(other) - motion.say(one))
            x = motion.say(one) + noise
            ratio += (abs(x - motion.say(other)) - abs(noise)) / scale
            y = 100 * np.sign(x) + x
            one, other = motion.move(one, y), motion.move(other, y)
        ratios.append(ratio)
    assert max(ratios) <= loss * (1 + 1e-9)
    assert ratios[0] == pytest.approx(loss, rel=1e-9)


def test_an_endless_loss_is_bounded_with_its_tail():
    for motion, q in [(truck(), 0.8), (truck(), 0.95), (lively(), 0.9)]:
        long = float(motion.spent(3 * q ** np.arange(1500)))
        endless = float(Fading(motion, 3.0, q).epsilons(None))
        assert long <= endless <= long * (1 + 1e-9)
        for first in (0, 7, 30):  # the bound holds from any message on, and is not far off
            rest = long - float(motion.spent(3 * q ** np.arange(first)))
            assert rest <= float(motion._left(3.0, q, first)) <= 30 * rest
    with pytest.raises(ParameterError, match="the slowest mode of A"):
        epsilon(Fading(truck(), 3.0, 0.74))
    with pytest.raises(MotionError, match="every mode of A to fade"):
        epsilon(Constant(PREFERENCE, 3.0))
    assert float(Constant(PREFERENCE, 3.0).epsilons(10)) > 0


def test_the_best_schedule_cannot_be_improved():
    """T2 and T2′: any other scales of the same loss have a larger sum of squares."""
    rng = np.random.default_rng(5)
    table, weights_ = rng.uniform(0, 1, (12, 3)), rng.uniform(0.5, 2, 12)
    best = best_schedule(table, weights_)
    assert best.least <= best.value <= best.least * (1 + 1e-9)
    assert (table / best.scales[:, None]).sum(axis=0).max() == pytest.approx(1)
    for _ in range(200):
        other = best.scales * np.exp(rng.normal(0, 0.05, 12))
        other *= (table / other[:, None]).sum(axis=0).max()
        assert weights_ @ other**2 >= best.least * (1 - 1e-12)
    law = Scheduled.weighted(lively(speed=1, acceleration=2), 0.5, np.ones(40))
    assert 0.5 * (1 - 1e-12) < epsilon(law, 40) <= 0.5


def test_an_influence_that_underflows_still_gets_noise():
    fast = Linear([[2.0**-50]], [1 - 2.0**-50], [1], private={0: 1.0})
    law = Scheduled.best(fast, 1.0, 40)
    assert (law.scales(40) > 0).all()
    assert epsilon(law, 40) <= 1


def test_a_message_that_says_nothing_needs_no_noise_and_others_do():
    law = Scheduled.best(lively(), 1.0, 40)
    assert law.scales(40)[4] == 0  # a_4 = 0 exactly
    assert epsilon(law, 40) <= 1
    with pytest.raises(ParameterError, match="message 4 depends on a private component"):
        lively(speed=1, acceleration=2).spent(law.scales(40))


def test_agents_agree_on_the_target_also_from_different_starts():
    rng = np.random.default_rng(2)
    for motion, share in [(truck(), [1, 0.5]), (lively(), [1, 0.5])]:
        mechanism = server(Constant(motion, 1.0), 6)
        starts = rng.normal(size=(6, 2))
        run = mechanism.execute(starts, np.zeros((300, 6)))
        np.testing.assert_allclose(run.x[-1], np.mean(starts @ share), rtol=1e-9)
        np.testing.assert_allclose(weights(mechanism), np.tile(share, (6, 1)) / 6)
        assert target(mechanism, starts) == pytest.approx(np.mean(starts @ share))


def test_noise_once_is_that_of_a_computed_shadow():
    """T3: messages depend on the noisy start only, and states come to their shadow."""
    mechanism = server(OneShot(truck(), 2.0), 5)
    rng = np.random.default_rng(8)
    starts, noise = rng.normal(size=(5, 2)), np.zeros((200, 5))
    noise[0] = rng.laplace(0, 2, 5)
    shifted, moved = starts.copy(), noise.copy()
    shifted[3, 0] -= 0.8
    moved[0, 3] += 0.8
    one, other = mechanism.execute(starts, noise), mechanism.execute(shifted, moved)
    np.testing.assert_allclose(one.x, other.x, rtol=0, atol=1e-12)
    # the deviation of the formula is that of the run: Σω·C(I−A)^−1·Gξ/Σωτ
    agreed = target(mechanism, starts) + np.mean(noise[0])
    np.testing.assert_allclose(mechanism.motion.say(one.theta[-1]), agreed, rtol=1e-9)
    early = mechanism.execute(starts, noise[:7])
    value = target(mechanism, early.theta[-1]) - target(mechanism, starts)
    assert value == pytest.approx(np.mean(noise[0]) * float(mechanism.motion.followed(7)), rel=1e-12)


def test_dominance_of_noise_once_over_fresh_noise():
    for motion in (truck(), lively()):
        for rounds in (1, 5, 100):
            fresh = accuracy.variance(server(Scheduled.best(motion, 1.0, rounds), 8), rounds)
            once = accuracy.variance(server(OneShot.best(motion, 1.0), 8), rounds)
            assert once <= fresh * (1 + 1e-12)


@pytest.mark.parametrize("motion", [truck(), lively(), lively(speed=1, acceleration=1)])
def test_whole_states_stay_within_the_bound_of_the_account(motion):
    """T9, whatever is heard; a recursion with |A| would explode instead."""
    start, bound = 2**10, motion.steps_apart(2**10, 1)
    low = np.array([0, 0], dtype=object)
    high = low + np.array([start if k in dict(motion.private) else 0 for k in range(2)], dtype=object)
    largest = 0
    for y in np.random.default_rng(3).integers(-(2**30), 2**30, 60).tolist():
        limit = next(bound)
        assert abs(high[0] - low[0]) <= limit
        largest = limit
        low, high = motion.move_whole(low, y), motion.move_whole(high, y)
    assert largest < 100
    exact = TRUCK_A @ [3, -5] + [0, 0.25 * 7]
    np.testing.assert_array_equal(truck().move_whole([3, -5], 7), np.floor(exact + 0.5))


def test_the_account_on_a_lattice():
    """15: messages of step g_u are ⌈(a_u + s·Σ_{k≤u} ‖C·A^k‖₁)/g_u⌉ steps apart, and cost as many g_u/s_u.

    The reference has 1.0000000472077 for s = 2^−40 and 1.000000000036097 for 2^−60, with g_u of 40 bits below
    the scale. It uses that C is whole, so that a difference is the whole number of state steps *below* the
    bound. The account counts up, which holds for every C: never less, and here 1.0000000513.
    """
    law = Scheduled.best(truck(), 1.0, 100)
    a, scales = truck().influence(np.arange(100)), law.scales(100)
    for exponent, reference in ((-40, 4.7207700e-8), (-60, 3.6097e-11)):
        s, gain, up, below = Fraction(2) ** exponent, Fraction(0), Fraction(0), Fraction(0)
        for u, row in enumerate(truck().rows(100)):
            gain += sum(abs(value) for value in row.fractions())
            step = Fraction(2) ** max(int(np.frexp(scales[u])[1]) - 1 - 40, exponent)
            bound = Fraction(a[u]) + s * gain
            up += math.ceil(bound / step) * step / Fraction(scales[u])
            below += math.ceil((math.ceil(bound / s) - 1) * s / step) * step / Fraction(scales[u])
        found = account(Lattice(0, 1, state_exponent=exponent, bits=40).agent(law), 100).total
        assert float(below - 1) == pytest.approx(reference, rel=2e-5)
        assert below < up <= found == pytest.approx(float(up), abs=1e-14)
        assert float(up - 1) < 1.09 * reference


def test_a_fractional_row_is_counted_up():
    """C = 3/2: a difference of one state step can be two message steps."""
    motion = Linear([[0.5]], [0.5], [1.5], private={0: 1.0})
    assert list(islice(motion.steps_apart(1, 1), 1)) == [3]  # 1.5 and the rounding of the start, 1.5


def test_reach_holds_every_state():
    motion, rng = lively(), np.random.default_rng(4)
    most = motion.reach(1.0, 1.0)
    row = [np.linalg.matrix_power(LIVELY_A, k) @ [0, 1] for k in range(60)]
    for component in range(2):
        z = np.array([1.0, 1.0])
        for k in reversed(range(60)):  # the worst feedback for this component
            z = motion.move(z, np.sign(row[k][component]) or rng.choice([-1, 1]))
        assert np.abs(z).max() <= most


def test_sampling_is_exact_and_systems_are_taken_as_they_are():
    Ac, Bc = np.array([[0.0, 1], [-2, -3]]), np.array([0.0, 2])
    motion = Linear.sampled(Ac, Bc, C, seconds=0.5, private={0: 1.0})
    z, y = np.array([1.0, -1.0]), 0.7
    step = z.copy()
    for _ in range(20_000):  # small steps of the differential equation, of second order
        half = step + 0.5 / 40_000 * (Ac @ step + Bc * y)
        step = step + 0.5 / 20_000 * (Ac @ half + Bc * y)
    np.testing.assert_allclose(motion.move(z, y), step, atol=1e-9)
    system = SimpleNamespace(A=Ac, B=Bc[:, None], C=np.array([C]), D=np.zeros((1, 1)), dt=0)
    assert Linear.of_system(system, seconds=0.5, private={0: 1.0}) == motion
    discrete = SimpleNamespace(A=motion.A, B=motion.B, C=[C], D=[[0]], dt=0.5, state_labels=["a", "b"])
    assert Linear.of_system(discrete, private={"a": 1.0}).names == ("a", "b")
    with pytest.raises(ParameterError, match="continuous time needs the seconds"):
        Linear.of_system(system, private={0: 1.0})
    system.D = [[0.5]]
    with pytest.raises(ParameterError, match="D must be 0"):
        Linear.of_system(system, seconds=0.5, private={0: 1.0})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"A": [[1, 2]]}, "A must be a square matrix"),
        ({"A": [[1, np.nan], [0, 1]]}, "A must be finite"),
        ({"A": "x"}, "A must be numbers"),
        ({"B": [1, 2, 3]}, "B must have 2 numbers"),
        ({"C": np.eye(2)}, "C must have 2 numbers.*one number is said"),
        ({"private": {}}, "private must name"),
        ({"private": {"height": 1.0}}, "among speed, acceleration"),
        ({"private": {"speed": -1.0}}, "width of a private component must be"),
        ({"names": ("one",)}, "names must be 2 different words"),
        ({"norm": "l3"}, "norm must be one of"),
        ({"A": np.eye(2) / 2, "private": {"acceleration": 1.0}}, "no noise is needed"),
    ],
)
def test_what_makes_no_sense_is_refused(change, words):
    given = {"A": TRUCK_A, "B": [0, 0.25], "C": C, "private": {"speed": 1.0}, "names": NAMES} | change
    with pytest.raises(ParameterError, match=words):
        Linear(**given)


def test_state_spaces_of_python_control_are_taken_as_they_are():
    control = pytest.importorskip("control")
    flow = control.ss([[0, 1], [-2, -3]], [[0], [2]], [[1, 0]], [[0]], states=["v", "a"])
    private = {"v": 1.0}
    motion = Linear.of_system(flow, seconds=0.5, private=private)
    held = flow.sample(0.5, method="zoh")
    np.testing.assert_allclose(motion.A, held.A, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(motion.B, np.ravel(held.B), rtol=1e-12, atol=1e-15)
    assert motion.names == ("v", "a")
    taken = Linear.of_system(held, private=private)
    assert (taken.A == held.A).all()
    assert (taken.C == held.C).all()
    assert taken.lag == pytest.approx(motion.lag)
    # a transfer function, and a loop that python-control closed
    engine = control.ss(control.tf([1], [0.5, 1]))
    loop = control.feedback(control.ss(control.tf([0.5], [1, 0])) * engine, 1)
    assert Linear.of_system(loop, seconds=0.25, private={0: 1.0}).gain == pytest.approx(1, abs=1e-12)
    with pytest.raises(ParameterError, match=r"has steps of 0\.5 seconds"):
        Linear.of_system(held, seconds=0.25, private=private)
    two = control.ss([[0.5]], [[1, 1]], [[1]], [[0, 0]], 0.5)
    with pytest.raises(ParameterError, match="B must have 1 numbers"):
        Linear.of_system(two, private={0: 1.0})


def test_noise_once_for_a_measured_state_is_refused():
    """Section 9. The messages of a measured state say what its plant does, so its noise must be fresh."""
    measured = Linear(TRUCK_A, [0, 0.25], C, private={0: 1.0}, measured=True)
    for make in (lambda: OneShot.best(measured, 1.0), lambda: epsilon(OneShot(measured, 2.0))):
        with pytest.raises(MotionError, match=r"this one is measured.*compute a reference.*fresh noise"):
            make()
    with pytest.raises(MotionError, match="this one is measured"):
        server(OneShot(measured, 2.0), 2).execute(np.zeros((2, 2)), np.zeros((3, 2)))
    found = tacit.design(motion=measured, loss=1, rounds=20, agents=4)
    assert "one-shot" not in found.promises
    assert found.price is None


def test_what_is_not_known_of_linear_agents_is_refused():
    law = Fading(truck(), 10.0, 0.9)
    with pytest.raises(MotionError, match="does not define mixing"):
        law.sigma  # noqa: B018
    with pytest.raises(MotionError, match="needs one private component, got 2"):
        OneShot.best(truck(speed=1, acceleration=1), 1.0)
    with pytest.raises(ParameterError, match="covers as many rounds"):
        Scheduled.best(truck(), 1.0, 5).scales(6)
    with pytest.raises(MotionError, match="never fades"):
        PREFERENCE.lag  # noqa: B018


def test_the_best_schedule_of_mixing_is_the_papers_everywhere():
    """Agents that mix as in the paper: the table is c·q^t, and all that takes a law takes it."""
    table, fading = Scheduled.best(0.5, 1.0, 6), Fading.best(0.5, 1.0, 6)
    np.testing.assert_allclose(table.scales(6), fading.scales(6), rtol=1e-12)
    ring = Graph.from_edges([(i, (i + 1) % 6) for i in range(6)])  # as many agents as scales
    for make in (lambda law: ClientServer(law, agents=6), lambda law: Distributed(law, ring)):
        one, other = make(table), make(fading)
        made, paper = tacit.analyze(one, rounds=6), tacit.analyze(other, rounds=6)
        assert made.radius == pytest.approx(paper.radius, rel=1e-9)
        assert made.loss == pytest.approx(paper.loss, rel=1e-12)
        runs, likewise = (tacit.simulate(m, np.arange(6.0), 6, runs=2, seed=1) for m in (one, other))
        np.testing.assert_allclose(runs.theta, likewise.theta, rtol=1e-9)
        with pytest.raises(ParameterError, match="covers as many rounds"):
            tacit.simulate(one, np.arange(6.0), 7)
    assert tacit.examine(ClientServer(table, agents=3), rounds=4, transcripts=400).passed
    assert (
        tacit.design(agents=6, loss=1, rounds=6, mixing=0.5, tolerance=0.1, law="scheduled").promise.loss <= 1
    )


@pytest.mark.parametrize("width", [1e-170, 1e-300])
@pytest.mark.parametrize("private", [2, 3])
def test_a_loss_of_the_norm_l2_never_vanishes_in_floats(private, width):
    """Squares of small numbers underflow, and a loss of 0 would be too small."""
    widths = dict.fromkeys(range(private), width)
    motion = Linear(np.eye(private) / 2, np.ones(private), np.ones(private), private=widths, norm="l2")
    for scale in (1.0, 1e20):
        loss = Fraction(float(motion.spent(np.array([scale]))))
        assert loss**2 >= private * (Fraction(width) / Fraction(scale)) ** 2
    assert Fraction(float(motion.influence(0))) ** 2 >= private * Fraction(width) ** 2


def test_a_loss_of_the_norm_l2_beyond_all_floats_is_infinite():
    growing = Linear(np.eye(2) * 1.5, [1, 0], [1, 1], private={0: 1.0, 1: 1.0}, norm="l2")
    assert growing.spent(np.ones(2000)) == np.inf


@pytest.mark.parametrize("norm", ["box", "l2"])
@pytest.mark.parametrize("wrong", [-1.0, np.nan, np.inf])
def test_a_scale_that_is_none_is_refused(norm, wrong):
    """A negative one would lower the loss, and NaN would leave its message out."""
    motion = Linear(np.eye(2) / 2, [1, 0], [1, 1], private={0: 1.0, 1: 1.0}, norm=norm)
    with pytest.raises(ParameterError, match="scales of noise must be finite numbers of at least 0"):
        motion.spent(np.array([1.0, wrong]))


def test_pairs_that_name_a_private_component_twice_are_refused():
    with pytest.raises(ParameterError, match="must be named once"):
        Linear([[0.5]], [1], [1], private=((0, 1.0), (0, 0.1)))
