"""A leak in any single bit is found, and bits of right messages are fair coins."""

from dataclasses import replace

import numpy as np
import pytest

from tacit import ClientServer, Fading
from tacit.lab.audit import Deployed, Simulated, examine
from tacit.lab.audit.bits import bits_of, every_bit, fair_bits
from tacit.lab.audit.broken_mechanisms import planted
from tacit.lab.audit.residual import join, noise_of

SERVER = ClientServer(Fading(0.8, 10, 0.6), agents=3)
START, OTHER = np.array([1.1, 2.3, 4.7]), np.array([1.6, 2.3, 4.7])


def alarms(report):
    return {finding.test for finding in report.alarms}


@pytest.mark.parametrize("j", [0, 5, 11, 17, 20, 23, 30, 34, 35, 39])
def test_a_bit_of_the_start_is_found_in_any_bit_of_a_message(j):
    report = examine(Simulated(SERVER, say=planted(j)), transcripts=700, rounds=4)
    assert {"bits", "learned bits"} <= alarms(report)


@pytest.mark.long
@pytest.mark.parametrize("j", range(40))
def test_a_bit_of_the_start_is_found_in_every_bit_of_a_message(j):
    assert {"bits", "learned bits"} <= alarms(examine(Simulated(SERVER, say=planted(j))))


@pytest.mark.parametrize("j", [3, 20, 38])
def test_a_bit_that_is_the_same_for_both_starts_is_found(j):
    """It tells nothing about this pair of starts, but it is not as declared."""

    def say(now):
        return planted(j)(replace(now, start=np.zeros_like(now.start)))

    report = examine(Simulated(SERVER, say=say), transcripts=400, rounds=4)
    assert "bits" in alarms(report)


def whole_noise(change):
    """Noise of sessions on the deployed lattice, whose whole messages were changed."""
    parts = []
    for stream, values in enumerate((START, OTHER)):
        seen = Deployed(SERVER, 0, 20, seedable=True)(values, 3, 150, 5 + stream)
        x = change(seen.wholes.x, values, seen.wholes.lattice)
        changed = replace(
            seen, x=np.ldexp(x.astype(np.float64), seen.exponent), wholes=replace(seen.wholes, x=x)
        )
        parts.append(noise_of(changed, values, stream=stream))
    return join(parts)


def oddest(noise):
    return min(every_bit(noise), key=lambda oddity: oddity.p_value)


def test_messages_in_whole_numbers():
    assert oddest(whole_noise(lambda x, _values, _lattice: x)).p_value > 1e-5
    plant = oddest(whole_noise(lambda x, values, _lattice: x & ~(1 << 22) | ((values > 1.5) * 1 << 22)))
    assert plant.p_value < 1e-9
    assert "message bit 22" in plant.place


def test_a_bit_of_the_message_before_is_found():
    """It is balanced: only the comparison with the message before shows it."""

    def change(x, _values, _lattice):
        again = x.copy()
        again[:, 1:] = x[:, 1:] & ~(1 << 17) | (again[:, :-1] >> 30 & 1) << 17
        return again

    found = oddest(whole_noise(change))
    assert found.p_value < 1e-9
    assert "message bit 17 and bit 30 of the message before" in found.place


def test_a_bit_of_the_state_is_found():
    """The message has another bit of the state, which differs between sessions."""

    def say(now):
        state = np.rint(now.state / now.step).astype(np.int64)
        whole = np.rint((now.state + now.noise) / now.step).astype(np.int64)
        return (whole & ~(1 << 12) | (state >> 25 & 1) << 12) * now.step

    seen = Simulated(SERVER, say=say)(START, 6, 200, 1)
    found = oddest(noise_of(seen, START))
    assert found.p_value < 1e-9
    assert "message bit 12 and bit 25 of the state" in found.place


def expected_ones(chance, numbers, state, step, width):
    """The probability of a 1 in each fair bit, summed over all numbers and over the auditor's luck."""
    luck = (np.arange(2000) + 0.5) / 2000
    shape = (len(numbers), len(luck))
    coins = fair_bits(
        np.broadcast_to(numbers[:, None], shape), np.full(shape, state), np.full((1, 1), step),
        np.broadcast_to(luck, shape), width,
    )  # fmt: skip
    return chance @ coins.mean(axis=1)


@pytest.mark.parametrize("step", [0.2, pytest.param(0.02, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "state", [5, *(pytest.param(state, marks=pytest.mark.long) for state in (0, -3, 100))]
)
def test_fair_bits_are_fair(step, state):
    """For discrete noise, and for continuous noise that is rounded after it is added."""
    far = round(20 / step)  # beyond it the noise has a probability of e^−20
    k = np.arange(-far, far + 1)
    whole = np.tanh(step / 2) * np.exp(-step * np.abs(k))
    within = step / 2 + 1e-3
    assert np.abs(expected_ones(whole, state + k, state, step, 8) - 0.5).max() < within

    def below(v):
        return np.where(v < 0, 0.5 * np.exp(np.minimum(v, 0)), 1 - 0.5 * np.exp(-np.maximum(v, 0)))

    for off in (-0.5, -0.2, 0.4):
        cells = np.diff(below(step * (np.append(k, far + 1) - 0.5 - off)))
        assert np.abs(expected_ones(cells, state + k, state, step, 8) - 0.5).max() < within
    assert state != 100 or np.abs(whole @ bits_of(state + k, 8) - 0.5).max() > 2 * within  # not fair before


def test_bits_of_whole_numbers():
    assert bits_of(np.array([[5, -1], [2, 0]]), 3).tolist() == [
        [[1, 0, 1], [1, 1, 1]],
        [[0, 1, 0], [0, 0, 0]],
    ]
