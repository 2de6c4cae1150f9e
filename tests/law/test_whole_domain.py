"""Bits and staircase noise: reference numbers, slow checks of every claim, and refusals.

Reference numbers: range 10, b = .05, 1,000 agents.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from tests.doubles.sessions import known_session

import tacit
from tacit import ClientServer, Distributed, Graph
from tacit.base.errors import LawError, ParameterError
from tacit.core.law import Bits, Staircase
from tacit.core.mechanism.lattice import Lattice
from tacit.core.noise import exact
from tacit.core.noise.accounting import account, sensitivities
from tacit.core.noise.safe import SafeStaircase, SafeUniform, source_of
from tacit.core.theory import accuracy
from tacit.core.theory.liars import moved_by_liars
from tacit.core.theory.once_sums import BitsSum, StaircaseSum, _two_tails

FALSE_ALARM = 1e-6


def placed(law, loss, agents=1000, domain=10.0):
    return ClientServer(law.best_of(0.999999, loss=loss, low=0.0, domain=domain), agents=agents)


# ---- reference numbers ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "radius", "deviation", "liar"),
    [
        (0.5, 1.26573, 0.645577, 0.0408299),
        (1.0, 0.67083, 0.342151, 0.0216395),
        (2.0, 0.40704, 0.207609, 0.0131304),
        (3.0, 0.34249, 0.174683, 0.0110479),
    ],
)
def test_bits_have_the_numbers_of_the_table(loss, radius, deviation, liar):
    mechanism = placed(Bits, loss)
    assert accuracy.radius(mechanism, 0.05) == pytest.approx(radius, abs=6e-6)
    assert math.sqrt(accuracy.variance(mechanism)) == pytest.approx(deviation, abs=1e-6)
    lattice = Lattice.fitting(mechanism.law, 1, 0, 10)
    assert moved_by_liars(mechanism, lattice, 1) == pytest.approx(liar, abs=1e-7)
    assert moved_by_liars(mechanism, lattice, 1, 3) == pytest.approx(3 * liar, abs=3e-7)
    assert moved_by_liars(mechanism, lattice, 1, speaking=500) == pytest.approx(2 * liar, abs=2e-7)


def test_fewer_agents_have_the_radius_of_the_table():
    assert accuracy.radius(placed(Bits, 1.0, 100), 0.05) == pytest.approx(2.16395, abs=6e-6)
    assert accuracy.radius(placed(Bits, 1.0, 10), 0.05) == pytest.approx(7.57384, abs=6e-6)


@pytest.mark.parametrize(
    ("loss", "radius", "deviation"),
    [
        (1.0, 0.8584873, 0.4380),
        (2.0, 0.4030, 0.2056),
        (3.0, 0.2422, 0.1236),
        (4.0, 0.1580, 0.0806),
        (5.0, 0.1069, 0.0545),
    ],
)
def test_staircase_noise_has_the_numbers_of_the_table(loss, radius, deviation):
    mechanism = placed(Staircase, loss)
    assert accuracy.radius(mechanism, 0.05) == pytest.approx(radius, abs=6e-5)
    assert math.sqrt(accuracy.variance(mechanism)) == pytest.approx(deviation, abs=5e-5)
    laplace = tacit.OneShot(0.999999, 10 / loss)
    assert accuracy.variance(mechanism) < accuracy.variance(ClientServer(laplace, agents=1000))


def test_bits_have_less_variance_up_to_a_loss_of_1_9684():
    for loss, bits_first in ((1.968, True), (1.969, False)):
        found = [accuracy.variance(placed(law, loss)) for law in (Bits, Staircase)]
        assert (found[0] < found[1]) is bits_first


def test_a_histogram_of_bits_has_the_numbers_of_the_page():
    """Per agent: 1.919035 outside its bucket, 2.163953 inside; a liar moves every count by 2·coth(½)."""
    law = Bits.best_of(0.5, loss=1.0, low=0.0, domain=2.0)
    c = float(law.c)
    for x, deviation in ((0.0, 1.919035), (1.0, 2.163953)):
        p = 0.5 + (x - law.middle) / (2 * c)
        assert 2 * c * math.sqrt(p * (1 - p)) == pytest.approx(deviation, abs=1e-6)
    found = tacit.design(agents=1000, loss=1.0, question="histogram:0,1,2,5", law="bits")
    assert found.promise.moved_by(1) == pytest.approx(2 / math.tanh(0.5), abs=1e-5)


# ---- privacy: every message and every pair of values -------------------------------------------------


def agent_on(law, bits=8, low=0.0, high=10.0):
    lattice = Lattice.fitting(law, 1, low, high, bits=bits)
    return lattice.agent(law)


@pytest.mark.parametrize("loss", [0.1, 1.0, 4.0])
@pytest.mark.parametrize(("low", "high"), [(0.0, 10.0), (-0.3, 0.4)])
def test_no_message_of_bits_is_likelier_than_the_account_says(loss, low, high):
    agent = agent_on(Bits.best_of(0.5, loss=loss, low=low, domain=high - low), low=low, high=high)
    ends, below = agent.ends, int(agent.draw_scale(0))
    likely = []
    for value in np.linspace(low, high, 21):
        start = agent.lattice.start(float(value))
        said = [agent.report(start, 0, draw) for draw in range(below)]
        assert set(said) <= set(ends)
        likely.append(Fraction(said.count(ends.high), below))
    worst = max(max(p / q, (1 - p) / (1 - q)) for p, q in itertools.permutations(likely, 2))
    spent = account(agent, 1, adjacency=agent.law.domain).total
    assert 0.98 * spent <= math.log(worst) <= spent <= loss
    # unbiased on the grid, to the width of a step
    middle = agent.lattice.start((low + high) / 2)
    assert Fraction(agent.rounded(middle, 0) - ends.low, below) == Fraction(
        sum(agent.report(middle, 0, draw) == ends.high for draw in range(below)), below
    )


def test_values_rounded_towards_the_middle_would_cost_more_than_the_loss():
    """The planted bug "B rounded down": one step less, and the ratio is above e^loss."""
    law = Bits.best_of(0.5, loss=1.0, low=0.0, domain=10.0)
    agent = agent_on(law, bits=40)
    step, exponent = Fraction(2) ** agent.message_exponent(0), agent.message_exponent(0)
    low, high = (int(end / step) for end in (Fraction(0), Fraction(10)))
    inner = math.floor((5 + Fraction(float(law.c))) / step) - high
    down = Fraction(high + inner, inner)
    assert law.loss_between(low, high, exponent, 1) <= 1.0
    assert down > Fraction(float(5 + law.c)) / Fraction(float(law.c) - 5)
    assert math.log1p(float(down - 1)) > 1.0


def test_a_histogram_of_bits_costs_its_loss_for_any_two_records():
    law = Bits.best_of(0.5, loss=1.0, low=0.0, domain=2.0)
    lattice = Lattice.fitting(law, 1, 0.0, 1.0, bits=10)
    agent = lattice.agent(law)
    below, ends = int(agent.draw_scale(0)), agent.ends
    chance = {}
    for x in (0, 1):
        start = lattice.start(x)
        many = sum(agent.report(start, 0, draw) == ends.high for draw in range(below))
        chance[x] = Fraction(many, below)
    assert float(chance[1]) == pytest.approx(0.5, abs=2e-3)
    records = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]  # the first one is missing: the stand-in
    worst = Fraction(0)
    for one, other in itertools.permutations(records, 2):
        for bits in itertools.product((0, 1), repeat=3):
            p, q = (
                math.prod(chance[x] if bit else 1 - chance[x] for x, bit in zip(record, bits, strict=True))
                for record in (one, other)
            )
            worst = max(worst, p / q)
    spent = account(agent, 1, adjacency=2.0, components=3).total
    assert 0.98 * spent <= math.log(worst) <= spent <= 1.0


def staircase_law(width, first, loss):
    """Return the exact law of discrete staircase noise, up to far out."""
    far = math.ceil(60 / loss) * width
    weights = {
        k: math.exp(-loss * (0 if abs(k) < first else 1 + (abs(k) - first) // width))
        for k in range(-far, far + 1)
    }
    total = math.fsum(weights.values())
    return {k: weight / total for k, weight in weights.items()}


@pytest.mark.parametrize(("width", "first", "loss"), [(1, 1, 1.0), (5, 2, 0.5), (7, 7, 3.0)])
def test_staircase_noise_costs_the_loss_for_values_a_stair_apart(width, first, loss):
    law = staircase_law(width, first, loss)
    far = max(law) // 2
    for apart in range(1, width + 1):
        worst = max(law[k] / law[k + apart] for k in range(-far, far))
        assert worst <= math.exp(loss) * (1 + 1e-9)
    assert max(law[k] / law[k + width + 1] for k in range(-far, far)) > math.exp(loss) * (1 + 1e-9)


@pytest.mark.parametrize(("width", "first", "over", "under"), [(5, 2, 1, 2), (3, 3, 7, 2), (4, 1, 1, 1)])
def test_the_sampler_draws_a_staircase(width, first, over, under):
    """Chi-square with a false-alarm rate of 1e-6."""
    law = staircase_law(width, first, over / under)
    many = 20_000
    drawn = [exact.staircase(width, first, over, under) for _ in range(many)]
    shown = [k for k, p in law.items() if p * many > 20]
    seen = [drawn.count(k) for k in shown]
    rest = many - sum(seen)
    expected = [law[k] * many for k in shown]
    parts = (*seen, rest), (*expected, many - sum(expected))
    statistic = sum((a - b) ** 2 / b for a, b in zip(*parts, strict=True) if b > 5)
    assert stats.chi2.sf(statistic, len(shown)) > FALSE_ALARM


@pytest.mark.parametrize("bug", ["0 has a sign", "no rejection", "a stair too early"])
def test_the_test_of_the_sampler_sees_bugs(bug):
    law, many = staircase_law(5, 2, 1.0), 20_000
    rng = np.random.default_rng(8)

    def wrong():
        while True:
            u, negative = divmod(int(rng.integers(0, 10)), 2)
            if (
                bug != "no rejection"
                and u >= (1 if bug == "a stair too early" else 2)
                and rng.random() > math.exp(-1)
            ):
                continue
            while rng.random() < math.exp(-1):
                u += 5
            if u or not negative or bug == "0 has a sign":
                return -u if negative else u

    drawn = [wrong() for _ in range(many)]
    shown = [k for k, p in law.items() if p * many > 20]
    statistic = sum((drawn.count(k) - law[k] * many) ** 2 / (law[k] * many) for k in shown)
    assert stats.chi2.sf(statistic, len(shown)) < FALSE_ALARM


def test_the_safe_source_draws_what_the_account_assumes():
    """Stairs are as wide as two values can be apart; a bit is drawn below the distance of its numbers."""
    law = Staircase.best_of(0.5, loss=2.0, low=0.0, domain=10.0)
    agent = agent_on(law, bits=40)
    source = source_of(agent, 10.0)
    assert isinstance(source, SafeStaircase)
    assert source.stairs.width == next(sensitivities(agent, 10.0))
    assert Fraction(source.stairs.over, source.stairs.under) == 2
    assert account(agent, 1, adjacency=10.0).total == 2.0
    bits = agent_on(Bits.best_of(0.5, loss=2.0, low=0.0, domain=10.0), bits=40)
    assert isinstance(source_of(bits, 10.0), SafeUniform)
    assert bits.draw_scale(0) == bits.ends.high - bits.ends.low
    drawn = SafeUniform().draw(3.0, 9000)
    assert stats.chisquare(np.bincount(drawn, minlength=3)).pvalue > FALSE_ALARM
    for scale in (0.5, 2.5, 2.0**53):
        with pytest.raises(ParameterError):
            SafeUniform().draw(scale)


# ---- accuracy ---------------------------------------------------------------------------------------


def poisson_binomial(p):
    law = np.ones(1)
    for each in p:
        law = np.convolve(law, [1 - each, each])
    return law


def test_no_start_misses_the_radius_of_bits_more_often():
    """Random starts, and those of agents at both ends, against the bound for agents that are all alike."""
    rng = np.random.default_rng(9)
    n, c, h = 7, 9.0, 5.0
    least = (c - h) / (2 * c)
    law = BitsSum(n, 2 * c, least, 1 - least)
    starts = [rng.uniform(least, 1 - least, n) for _ in range(400)]
    starts += [np.where(np.arange(n) < k, least, 1 - least) for k in range(n + 1)]
    starts += [np.full(n, p) for p in np.linspace(least, 1 - least, 301)]
    for r in (3.0, 5.0, 7.5, 8.0, 11.0):
        d, seen = n * r / (2 * c), 0.0
        for p in starts:
            k = np.arange(n + 1)
            seen = max(seen, float(poisson_binomial(p)[abs(k - p.sum()) > d].sum()))
        bound = law.missed(r)
        assert seen <= bound
        if d >= 1:
            assert bound <= 1.1 * seen + 1e-3


def test_many_agents_have_a_bound_between_points():
    """It is above the tail at every start that is tried, and hardly wider than the exact one."""
    least = 0.268941
    for n in (5_000, 5_001):
        law = BitsSum(n, 21.64, least, 1 - least)
        r = law.quantile(0.05).high
        d, p = n * r / 21.64, np.linspace(least, 1 - least, 2001)
        assert _two_tails(n, p, np.floor(n * p + d) + 1, np.ceil(n * p - d) - 1) <= 0.05
        assert 1.95 < r / law.deviation < 2.01


@pytest.mark.parametrize("loss", [0.5, 2.0, 5.0])
@pytest.mark.parametrize("agents", [1, 2, 3, 30])
def test_the_tail_of_a_sum_of_staircases(agents, loss):
    """2·10⁵ means of each: too few misses, or more than chance allows, fail (rate 1e-6)."""
    law = Staircase.best_of(0.5, loss=loss, low=0.0, domain=10.0)
    found = StaircaseSum(agents, 10.0 / agents, law.inner, law.fall)
    many = 200_000 if agents < 30 else 50_000
    drawn = law.noise_of(np.random.default_rng(agents).laplace(size=(many, agents)), np.zeros((many, agents)))
    r = found.quantile(0.05).high
    missed = int((abs(drawn.mean(axis=1)) > r).sum())
    assert stats.binom.sf(missed - 1, many, 0.05) > FALSE_ALARM
    assert stats.binom.cdf(missed, many, 0.0499 if agents > 1 else 0.05) > FALSE_ALARM
    assert found.far(math.log(0.05)) >= r


def test_the_interval_of_a_count_holds_by_simulation():
    for law in ("bits", "staircase"):
        made = tacit.design(agents=60, question="count", loss=1.0, law=law)
        found = tacit.simulate(
            made.mechanism, [True] * 30 + [False] * 30, 1, runs=2000, seed=4, question=tacit.Count()
        )
        outside = float(((found["low"] > found["truth"]) | (found["high"] < found["truth"])).mean("run")[0])
        assert 0.01 < outside < 0.075


# ---- design -----------------------------------------------------------------------------------------


def test_design_takes_the_best_law_that_the_question_allows():
    asked = {"agents": 1000, "low": 0, "high": 10, "law": "best"}
    assert tacit.design(**asked, loss=1.0).mechanism.law.name == "bits"
    assert tacit.design(**asked, loss=2.5).mechanism.law.name == "staircase"
    assert tacit.design(**asked, loss=2.5, keepers=2).mechanism.law.name == "one-shot"
    assert tacit.design(**asked, loss=1.0, adjacency=1.0).mechanism.law.name == "one-shot"
    found = tacit.design(**asked, loss=1.0)
    notes = " ".join(found.notes())
    for name in ("bits", "staircase", "one-shot"):
        assert name in notes
    assert tacit.design(agents=1000, low=0, high=10, loss=1.0).mechanism.law.name == "one-shot"


def test_the_other_sides_are_computed_too():
    radius = tacit.design(agents=200, low=0, high=10, loss=1.0, law="bits").promise.radius
    least = tacit.design(agents=200, low=0, high=10, radius=radius * 1.001, law="bits").promise.loss
    assert least == pytest.approx(1.0, rel=5e-3)
    size = tacit.design(low=0, high=10, loss=1.0, radius=radius * 1.001, law="bits").mechanism.n
    assert abs(size - 200) <= 3


@pytest.mark.parametrize("law", ["bits", "staircase"])
@pytest.mark.parametrize(
    "asked",
    [
        {"graph": "ring:10", "low": 0, "high": 1},
        {"agents": 10, "keepers": 2, "low": 0, "high": 1},
        {"agents": 10, "low": 0, "high": 10, "adjacency": 1.0},
        {"agents": 10, "low": 0, "high": 10, "components": 2},
        {"agents": 3, "low": 0, "high": 1, "mixing": [0.5, 0.6, 0.7]},
        {"agents": 10},
        {"agents": 10, "question": "variance:0:10"},
    ],
)
def test_what_they_are_not_for_is_refused_in_one_sentence(law, asked):
    with pytest.raises(ParameterError) as refused:
        tacit.design(**asked, loss=1.0, law=law)
    assert str(refused.value).endswith(".")


def test_mechanisms_and_sessions_refuse_the_same():
    for law in (Bits.best_of(0.5, loss=1.0, low=0.0, domain=1.0), Staircase(0.5, 1.0, 1.0, 0.4)):
        with pytest.raises(ParameterError):
            ClientServer(law, agents=3, keepers=2)
        with pytest.raises(ParameterError):
            Distributed(law, Graph.of("ring:4"))
        with pytest.raises(ParameterError):
            tacit.analyze(ClientServer(law, agents=3), adjacency=0.5)
        with pytest.raises(ParameterError):
            tacit.analyze(ClientServer(law, agents=3), adjacency=1.0, low=0.0, high=1.0, components=2)
        with pytest.raises(LawError):
            accuracy.deviation(ClientServer(law, agents=3))
        with pytest.raises(LawError):
            tacit.core.noise.SimulatedNoise(1).draw(law, 1, 3)
        given = {"law": law.name, "noise": float(law.c)}
        given["further"] = tuple((word, getattr(law, word)) for word in law.further())
        known_session(3, 1, **given)
        for wrong in ({"rounds": 2}, {"adjacency": 0.5}, {"components": 2, "adjacency": 2.0}, {"keepers": 1}):
            with pytest.raises(ParameterError):
                known_session(
                    3, wrong.get("rounds", 1), **{k: v for k, v in wrong.items() if k != "rounds"}, **given
                )
    with pytest.raises(ParameterError):
        tacit.analyze(ClientServer(Bits(0.5, 3.0, 1.0, 1.0), agents=3), low=0.0, high=1.0)
    with pytest.raises(ParameterError):
        Bits(0.5, 5.0, 5.0, 10.0)
