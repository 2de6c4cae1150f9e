"""How far dishonest agents move the result: the bound, and liars on it."""

from dataclasses import replace

import numpy as np
import pytest
from tests.doubles.sessions import known_session

import tacit
from tacit.base.errors import ParameterError
from tacit.core.mechanism import Mechanism
from tacit.core.mechanism.lattice import Lattice
from tacit.core.mechanism.on_lattice import OnLattice
from tacit.core.theory.liars import moved_by_liars

FADING, ONCE = tacit.Fading(0.5, c=10, q=0.8), tacit.OneShot(0.999999, c=10)

CASES = {  # mechanism, rounds, liars, how much of the bound the worst liar takes
    "one shot": (tacit.ClientServer(ONCE, agents=20), 1, 1, 0.9999),
    "one shot, five liars": (tacit.ClientServer(ONCE, agents=20), 1, 5, 0.9999),
    "fading": (tacit.ClientServer(FADING, agents=20), 12, 1, 0.94),
    "fading, three liars": (tacit.ClientServer(FADING, agents=20), 12, 3, 0.9),
    "constant": (tacit.ClientServer(tacit.Constant(0.5, c=10), agents=20), 5, 1, 0.95),
    "keepers": (tacit.ClientServer(ONCE, agents=20, keepers=2), 1, 1, 0.9999),
    "graph": (tacit.Distributed(FADING, "complete:20"), 12, 1, 0.94),
    "own mixing": (
        tacit.ClientServer(tacit.Fading(np.linspace(0.3, 0.6, 20), c=10, q=0.8), agents=20),
        12,
        1,
        0.75,
    ),
}


def moved(mechanism: Mechanism, lattice: Lattice, rounds: int, liars: int, sign: int) -> float:
    """Let the last agents say the largest number in every round, all others the truth."""
    values = [-10.0 * sign] * mechanism.n
    draws = np.zeros((rounds, mechanism.sources), dtype=object)
    lying = draws.copy()
    lying[:, -liars:] = sign * 2 * mechanism.n * lattice.limit  # clamped to the reach like any message
    honest, lied = (OnLattice(mechanism, lattice).execute(values, noise) for noise in (draws, lying))
    assert honest.private is not None
    assert lied.private is not None
    apart = abs(lied.private.theta[-1] - honest.private.theta[-1])
    return float(apart[: mechanism.n - liars].max())


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", CASES)
def test_no_liar_moves_anyone_by_more_than_the_bound_and_one_comes_close(name: str, sign: int) -> None:
    mechanism, rounds, liars, share = CASES[name]
    lattice = Lattice.fitting(mechanism.law, rounds, -10, 10)
    bound = moved_by_liars(mechanism, lattice, rounds, liars)
    assert share * bound <= moved(mechanism, lattice, rounds, liars, sign) <= bound


def test_a_promise_says_it_where_the_range_is_known() -> None:
    without = tacit.design(agents=1000, loss=1, low=0, high=10)
    assert without.promise.moved_by() == pytest.approx(0.522)
    assert without.promise.moved_by(3) == pytest.approx(3 * 0.522)
    assert without.as_dict()["one_liar"] == without.promise.moved_by()
    kept = tacit.design(agents=1000, loss=1, low=0, high=10, keepers=2).promise
    assert kept.moved_by() == kept.moved_by(1000) == pytest.approx(26)
    assert tacit.analyze(without.mechanism).as_dict()["one_liar"] is None
    counted = tacit.design(agents=1000, loss=1, question="count").promise
    assert counted.lattice is not None
    assert counted.moved_by() == pytest.approx(counted.lattice.reach + 1)  # in records, not in shares


def test_liars_are_counted_and_none_moves_nothing() -> None:
    mechanism = tacit.ClientServer(ONCE, agents=20)
    lattice = Lattice.fitting(ONCE, 1, 0, 10)
    assert moved_by_liars(mechanism, lattice, 1, liars=0) == 0
    assert moved_by_liars(mechanism, lattice, 1, liars=20) == moved_by_liars(mechanism, lattice, 1, liars=99)
    with pytest.raises(ParameterError):
        moved_by_liars(mechanism, lattice, 1, liars=-1)


@pytest.mark.parametrize(
    ("mechanism", "rounds"),
    [
        (tacit.ClientServer(ONCE, agents=9), 1),
        (tacit.ClientServer(FADING, agents=9), 6),
        (tacit.Distributed(FADING, "complete:9"), 6),
        (tacit.Distributed(FADING, "complete:9", weights="metropolis"), 6),
    ],
)
def test_the_bound_holds_if_some_agents_say_nothing(mechanism: Mechanism, rounds: int) -> None:
    """Only 4 agents are in every mean, the last of them a liar; the others stay away."""
    lattice, there = Lattice.fitting(mechanism.law, rounds, 0, 10), [0, 1, 2, 8]
    bound = moved_by_liars(mechanism, lattice, rounds, speaking=4)
    law = mechanism.law
    agents = [lattice.agent(law) for _ in there]

    def play(*, lying: bool) -> list[int]:
        states = [lattice.start(10.0)] * 4
        said: list[int] = []
        for u in range(rounds):
            if not (said and law.shadowed):
                said = [int(agent.report(state, u, 0)) for agent, state in zip(agents, states, strict=True)]
            exponent = agents[0].message_exponent(u)
            if lying:
                said[-1] = -(lattice.limit >> (exponent - lattice.state_exponent))
            pairs = [(x, exponent) for x in said]
            heard = []
            for i in range(4):
                counts = None
                if isinstance(mechanism, tacit.Distributed):
                    shares = mechanism.topology.shares(there[i])
                    other = shares.heard[0]
                    own = shares.own + (5 * other if mechanism.topology.keeps_missing else 0)
                    counts = [own if j == i else other for j in range(4)]
                heard.append(lattice.mean(pairs, counts))
            states = [agent.update(x, y) for agent, x, y in zip(agents, states, heard, strict=True)]
        return states[:3]

    apart = max(abs(a - b) for a, b in zip(play(lying=True), play(lying=False), strict=True))
    seen = lattice.value(apart)
    assert 0.9 * bound <= seen <= bound
    if not (isinstance(mechanism, tacit.Distributed) and mechanism.topology.keeps_missing):
        assert seen > moved_by_liars(mechanism, lattice, rounds)  # what it is if all speak would be wrong


def test_a_plan_tells_of_several_liars_and_a_session_of_its_quorum() -> None:
    made = tacit.design(agents=1000, loss=1, low=0, high=10, liars=7)
    assert made.as_dict()["moved_by_liars"] == made.promise.moved_by(7)
    assert made.summary().row("Accuracy", "7 liars").value == "3.65401"  # rounded up
    assert "moved_by_liars" not in tacit.design(agents=1000, loss=1, low=0, high=10).as_dict()
    session = known_session(10, 1, law="one-shot", quorum=6)
    promise = session.promise(0.05).theory
    assert promise.speaking == 6
    assert promise.moved_by() == pytest.approx(10 / 6 * replace(promise, speaking=None).moved_by())
