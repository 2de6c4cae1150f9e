"""Machines with drop-outs, crashes and a lossy network: their transcripts are sound and tell what happened.

Draws are zero here, so a result is the weighted average of the values and nothing else: the weights
that a verdict computes from public facts can be checked against the values, which it never sees.
"""

import random

import numpy as np
import pytest
from tests.doubles import Faults, Harness, ScriptedNoise, known_key, known_session

from tacit.core.protocol.messages import COORDINATOR
from tacit.core.protocol.session import Deadlines
from tacit.live.runtime.transcript import TranscriptWriter
from tacit.live.verification.verdict import verify

VALUES = [0.1, 0.9, 0.4, 0.75, 0.2, 0.6]


class Still:
    """Noise that is always zero."""

    def __init__(self, components=1):
        self.draws = 0 if components == 1 else [0] * components

    def draw(self, _number, _update):
        return self.draws


def broken_run(graph, law, seed):
    """Run a session in which nodes crash at random, and return the harness."""
    session = known_session(
        6,
        8,
        graph=graph,
        law=law,
        mixing=(0.3, 0.5, 0.4, 0.6, 0.5, 0.45),
        quorum=2,
        deadlines=Deadlines(round=5.0, start=5.0, repeat=1.0),
        start=2,
    )
    chance = random.Random(seed)
    harness = Harness(
        session,
        VALUES,
        Still(),
        faults=Faults(loss=0.1, duplication=0.1, delay=(0.0, 2.0)),
        seed=seed,
        crash=lambda number, _point: number != 0 and chance.random() < 0.01,
    )
    harness.start()
    for _ in range(400):
        if harness.run(most=100):
            break
        down = [n for n in harness.numbers if harness.machines[n] is None]
        for number in down:
            if chance.random() < 0.3:
                harness.start(number)
    harness.crash = lambda *_: False
    harness.network.heal()
    harness.start(*[n for n in harness.numbers if harness.machines[n] is None])
    assert harness.run()
    return harness


@pytest.mark.parametrize("law", ["fading", "one-shot"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
@pytest.mark.parametrize("graph", [None, "ring:6"])
def test_weights_are_those_of_what_happened(tmp_path, graph, law, seed):
    harness = broken_run(graph, law, seed)
    session = harness.session
    paths = []
    for number in harness.numbers:
        paths.append(tmp_path / f"{number}.jsonl")
        sign = known_key(number).sign
        with TranscriptWriter(paths[-1], session, number, durable=False, sign=sign) as writer:
            writer.take(harness.ledgers[number].records())
    verdict = verify(paths)
    assert verdict.sound, [str(finding) for finding in verdict.findings]
    assert verdict.rounds == 8
    for i in range(6):
        accuracy = verify(paths, agent=f"agent-{i}").accuracy
        state = float(np.asarray(harness.private_machine(i).private.value()))
        assert state == pytest.approx(float(accuracy.weights @ VALUES), abs=1e-9)
    if graph is None:
        assert verdict.result[0] == pytest.approx(float(verdict.accuracy.weights @ VALUES), abs=1e-9)
        assert any(len(row) < 6 for row in verdict.used)  # somebody was missing, or this shows nothing
        alone = verify(paths[harness.numbers.index(COORDINATOR)])
        assert alone.findings == ()
        assert alone.used == verdict.used


def test_the_same_result_as_declared_when_nobody_is_missing(tmp_path):
    session = known_session(6, 8)
    draws = np.random.default_rng(3).integers(-1000, 1000, size=(8, 6))
    harness = Harness(session, VALUES, ScriptedNoise(draws))
    harness.start()
    assert harness.run()
    with TranscriptWriter(tmp_path / "t", session, durable=False) as writer:
        writer.take(harness.ledgers[COORDINATOR].records())
    verdict = verify(tmp_path / "t")
    assert verdict.findings == ()
    assert verdict.accuracy.shift < 1e-15
    np.testing.assert_allclose(verdict.losses, session.promise().losses)
