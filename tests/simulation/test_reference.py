"""The reference engine: plain loops.

Checked by hand and against the mechanisms' own arithmetic.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import ClientServer, Distributed, Fading, Graph, OneShot
from tacit.base.errors import InputError
from tacit.lab.simulation import reference

PATH = Graph.from_edges([(0, 1), (1, 2)])


def test_one_round_with_a_server_by_hand():
    execution = reference(ClientServer(Fading(0.5, 1, 0.9), agents=2), [0.0, 4.0], [[1.0, -3.0]])
    assert execution.x.tolist() == [[1.0, 1.0]]
    assert execution.y.tolist() == [1.0]
    assert execution.theta.tolist() == [[0.0, 4.0], [0.5, 2.5]]


def test_one_round_on_a_path_by_hand():
    execution = reference(Distributed(Fading(0.5, 1, 0.9), PATH), [0.0, 3.0, 6.0], [[2.0, 0.0, 0.0]])
    assert execution.x.tolist() == [[2.0, 3.0, 6.0]]
    assert execution.y.tolist() == [[2.5, 11 / 3, 4.5]]
    assert execution.theta[1] == pytest.approx([1.25, 10 / 3, 5.25])


def test_the_shadow_moves_without_noise_by_hand():
    noise = [[1.0, -1.0], [0.0, 0.0]]
    execution = reference(ClientServer(OneShot([0.5, 0.25], 1), agents=2), [0.0, 4.0], noise)
    # shadows start at 1 and 3, hear 2, and move to 1.5 and 2.75; the states to 1 and 3.5
    assert execution.x.tolist() == [[1.0, 3.0], [1.5, 2.75]]
    assert execution.y.tolist() == [2.0, 2.125]
    assert execution.theta.tolist() == [[0.0, 4.0], [1.0, 3.5], [1.5625, 3.15625]]


numbers = st.floats(-100, 100)


@st.composite
def questions(draw):
    n = draw(st.integers(2, 6))
    ring = {tuple(sorted((i, (i + 1) % n))) for i in range(n)}
    chords = draw(st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=5))
    graph = Graph.from_edges(sorted(ring | {tuple(sorted(e)) for e in chords if e[0] != e[1]}), n)
    each = st.lists(st.floats(0.05, 0.95), min_size=n, max_size=n)
    sigma = draw(st.one_of(st.floats(0.05, 0.95), each))
    one_shot = draw(st.booleans())
    parameters = OneShot(sigma, 1) if one_shot else Fading(sigma, 1, draw(st.one_of(st.just(0.9), each)))
    mechanism = draw(st.sampled_from([ClientServer(parameters, n), Distributed(parameters, graph)]))
    shape = draw(st.sampled_from([(n,), (n, 1), (n, 3)]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    noise = rng.laplace(size=(draw(st.integers(0, 5)), *shape))
    if one_shot:
        noise[1:] = 0
    return mechanism, rng.normal(size=shape), noise


@settings(max_examples=150, deadline=None)
@given(questions())
def test_it_equals_the_mechanism(question):
    mechanism, values, noise = question
    ours, theirs = reference(mechanism, values, noise), mechanism.execute(values, noise)
    for name in ("theta", "eta", "x", "y"):
        got, expected = getattr(ours, name), getattr(theirs, name)
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


def test_what_cannot_be_run_is_refused():
    mechanism = ClientServer(OneShot(0.5, 1), agents=2)
    with pytest.raises(InputError, match="noise after round 0 must be zero"):
        reference(mechanism, [0.0, 1.0], [[1.0, 1.0], [1.0, 0.0]])
    with pytest.raises(InputError, match="one row per agent"):
        reference(mechanism, [0.0, 1.0, 2.0], [[1.0, 1.0]])
    with pytest.raises(InputError, match="noise must have shape"):
        reference(mechanism, [0.0, 1.0], [[1.0, 1.0, 1.0]])
