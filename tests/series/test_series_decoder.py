"""Means slot by slot: what `published` says, and lost slots."""

import numpy as np
import pytest

from tacit.base.errors import ParameterError, StateError
from tacit.core.series import (
    BinaryTree,
    Hides,
    Independent,
    SeriesAgent,
    SeriesDecoder,
    SeriesGrid,
    SquareRoot,
    decoding_filter,
    encoding_filter,
    published,
)

GRID = SeriesGrid(-20, 1.0, 11.0)


@pytest.mark.parametrize("code", [SquareRoot, Independent])
def test_means_are_those_of_the_whole_series(code):
    rng = np.random.default_rng(1)
    made, sums = code(40), rng.integers(-(2**30), 2**30, 40)
    members = np.sort(rng.integers(5, 9, 40))
    used = np.array([rng.integers(1, n + 1) for n in members])
    decoder, found = SeriesDecoder(made, GRID), []
    for t in range(40):
        decoder.add(int(sums[t]), int(used[t]), int(members[t]))
        found.append(decoder.mean())
    expected = published(made, GRID, sums * GRID.step, members, used)
    assert found == pytest.approx(expected, rel=1e-12)


def test_a_lost_slot_holds_the_mean_before_and_later_errors_are_those_of_the_proof():
    """The errors of docs/proofs/series.md, section 7.

    −f(t−s)·(X(s) − X(s−1) − Σ_r (f(s−1−r) − f(s−r))·z(r)).
    """
    rng, slots, s = np.random.default_rng(2), 30, 11
    x, z = np.cumsum(rng.normal(size=slots)) * 100, rng.normal(size=slots) * 5
    f, g = decoding_filter(slots), encoding_filter(slots)
    w = np.convolve(g, x)[:slots]
    decoder = SeriesDecoder(SquareRoot(slots), GRID)
    found = []
    for t in range(slots):
        decoder.add(0 if t == s else round((w[t] + z[t]) / GRID.step), 0 if t == s else 1, 1)
        found.append(decoder.mean())
    assert found[s] is None
    kept = np.where(np.arange(slots) == s, 0.0, z)
    share = sum((f[s - 1 - r] - f[s - r]) * z[r] for r in range(s))
    for t in range(s + 1, slots):
        noise = sum(f[t - r] * kept[r] for r in range(t + 1))
        error = -f[t - s] * (x[s] - x[s - 1] - share)
        assert found[t] - 1.0 == pytest.approx(x[t] + noise + error, abs=1e-4)
    drops = np.square(decoding_filter(100_000)[:-1] - decoding_filter(100_000)[1:])
    assert drops.sum() < 0.28


def test_slots_lost_before_the_first_member_count_as_nothing():
    decoder = SeriesDecoder(SquareRoot(4), GRID)
    for _ in range(2):
        decoder.add(0, 0, 0)
        assert decoder.mean() is None
    decoder.add(2**20, 1, 1)
    assert decoder.mean() == 2.0


def test_deviations_of_what_happened_bound_the_noise():
    rng, slots, runs = np.random.default_rng(3), 24, 600
    used = [3] * slots
    for t in (5, 6, 13):
        used[t] = 0
    used[9] = 2
    noise = 2.0
    bound = deviations(SquareRoot(slots), noise * np.sqrt(2), used, [3] * slots)
    assert np.isnan(bound[[5, 6, 13]]).all()
    errors = np.zeros((runs, slots))
    for run in range(runs):
        decoder = SeriesDecoder(SquareRoot(slots), GRID)
        for t in range(slots):
            draw = rng.normal(scale=noise * np.sqrt(2))
            decoder.add(round(draw / GRID.step) if used[t] else 0, used[t], 3)
            mean = decoder.mean()
            errors[run, t] = np.nan if mean is None else mean - 1.0
    there = np.array(used) > 0
    measured = errors[:, there].std(axis=0)
    assert (measured <= bound[there] * 1.12).all()
    assert measured[:5] == pytest.approx(bound[:5], rel=0.12)
    full = deviations(Independent(slots), noise, used, [3] * slots)
    assert full[9] == pytest.approx(noise * 1.5 / 3)
    assert full[10] == full[0] == pytest.approx(noise / 3)


def deviations(code, noise, used, members):
    decoder, found = SeriesDecoder(code, GRID, noise), []
    for u, n in zip(used, members, strict=True):
        decoder.add(0, u, n)
        found.append(np.nan if decoder.deviation() is None else decoder.deviation())
    return np.array(found)


def test_with_nobody_missing_the_deviation_is_the_promised_one():
    promised = np.sqrt(SquareRoot(50).variances()) * 2.0 / 7
    found = deviations(SquareRoot(50), 2.0, [7] * 50, [7] * 50)
    assert found == pytest.approx(promised, rel=1e-8)
    assert (found >= promised).all()


def test_slots_that_lacked_members_are_counted_while_they_matter():
    used, members = [2, 3, 2, 0, 3, 3], [2, 3, 3, 3, 3, 3]
    for code, before in ((SquareRoot(6), [0, 1, 1, 2, 3, 3]), (Independent(6), [0] * 6)):
        decoder = SeriesDecoder(code, GRID)
        found = []
        for u, n in zip(used, members, strict=True):
            decoder.add(0, u, n)
            found.append(decoder.incomplete_before)
        assert found == before
        assert (decoder.incomplete(3), decoder.incomplete(4)) == (3, 6)  # of 4, one was never there


def test_a_missing_member_moves_later_means_by_many_deviations():
    """Why such means are marked: the noise says nothing of a reading that is not there."""
    slots, agents = 12, 10
    readings = np.where(np.arange(agents) == 0, 10.0, 0.0)  # one of them is far from the others
    code, grid = SquareRoot(slots), SeriesGrid(-20, 0.0, 10.0)
    each = [SeriesAgent(code, grid) for _ in range(agents)]
    decoder, off = SeriesDecoder(code, grid, 1.0), []
    for t in range(slots):
        said = [agent.read(x)[0] for agent, x in zip(each, readings, strict=True)]
        here = said[1:] if t == 0 else said
        decoder.add(sum(here), len(here), agents if t else agents - 1)
        off.append(abs(decoder.mean() - readings.mean()) / decoder.deviation())
        assert decoder.incomplete_before == (t > 0)
    assert off[0] > 5
    assert min(off[1:]) > 1  # its first message is missed for a long time


def test_what_cannot_be_decoded_is_refused():
    with pytest.raises(ParameterError, match="BinaryTree"):
        SeriesDecoder(BinaryTree(4), GRID)
    decoder = SeriesDecoder(SquareRoot(4), GRID)
    with pytest.raises(ParameterError, match="members"):
        decoder.add(1, 3, 2)


def test_a_restored_agent_goes_on_like_the_first():
    one, two = (SeriesAgent(SquareRoot(9), GRID) for _ in range(2))
    for reading in (3.0, 50.0, None, 2.0):
        one.read(reading)
    for slot, last in ((0, 2.0), (1, 10.0), (3, 1.0)):  # clamped, from the low end; slot 2 was held
        two.restore(slot, last)
    assert one.read(4.0) == two.read(4.0)
    with pytest.raises(StateError, match="forward"):
        two.pass_until(2)


def test_which_changes_cover_others():
    parse = Hides.parse
    assert parse("step:2").covers(parse("step:1.5"))
    assert parse("window:96").covers(parse("window:4"))
    assert parse("window:4").covers(parse("reading"))
    for weaker, stronger in (("step:1", "step:2"), ("reading", "window:2"), ("step:9", "reading")):
        assert not parse(weaker).covers(parse(stronger))
    assert not parse("window:9").covers(parse("step:1"))
