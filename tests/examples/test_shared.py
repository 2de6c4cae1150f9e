"""What the examples share: the table and the eavesdropper."""

import numpy as np
import pytest

from tacit import ClientServer, Fading, OneShot
from tacit.core.noise import SimulatedNoise
from tacit.lab.audit import Prior


@pytest.mark.parametrize("parameters", [Fading(0.5, 2.0, 0.8), OneShot(0.5, 2.0)])
def test_the_eavesdropper_guesses_what_bayes_rule_says(example, parameters):
    mechanism = ClientServer(parameters, agents=3)
    run = mechanism.execute([1.0, 4.0, 9.0], SimulatedNoise(5).draw(parameters, 3, 3))
    guess = example("shared").eavesdrop(run, Prior.flat(0, 10))
    start = np.linspace(0, 10, 200_001)
    for i in range(3):
        state, logarithm = start, np.zeros_like(start)
        for t in range(1 if mechanism.shadowed else 3):
            logarithm -= np.abs(run.x[t, i] - state) / parameters.scales(3)[t]
            state = (1 - 0.5) * state + 0.5 * run.y[t]
        weight = np.exp(logarithm - logarithm.max())
        assert guess[i] == pytest.approx(np.average(start, weights=weight), abs=1e-3)


def test_each_agent_may_have_a_prior_of_its_own(example):
    run = ClientServer(OneShot(0.5, 2.0), agents=2).execute([1.0, 1.0], [[0.5, 0.5]])
    low, high = example("shared").eavesdrop(run, [Prior.flat(0, 1), Prior.flat(5, 6)])
    assert 0 < low < 1
    assert 5 < high < 6


def test_the_table_rounds_promises_up_and_leaves_gaps(example, capsys):
    rows = [("promise", "r", "up", "what"), ("error", "e", ".2f", "")]
    example("shared").tell("Title", {"a": {"r": 1.0001, "e": 0.125}, "bb": {"e": 2.0}}, rows)
    assert capsys.readouterr().out == (
        "Title\n\n              a    bb\n  promise  1.01        what\n  error    0.12  2.00\n\n"
    )


@pytest.mark.parametrize("bad", [["--seed", "-1"], ["--out", "picture.txt"], ["--out", "nowhere/p.svg"]])
def test_bad_options_are_refused_before_any_work(example, capsys, bad):
    with pytest.raises(SystemExit) as stopped:
        example("platoon").main(bad)
    assert stopped.value.code == 2
    assert f"{bad[0]} must be" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name",
    [
        "platoon",
        "heating",
        "sensor_fusion",
        "clock_synchronisation",
        "load_balancing",
        "smart_meters",
        "hospitals",
    ],
)
def test_help_says_what_it_is(example, capsys, name):
    module = example(name)
    with pytest.raises(SystemExit) as stopped:
        module.main(["--help"])
    assert stopped.value.code == 0
    assert module.__doc__.partition(";")[0].split()[0] in capsys.readouterr().out
