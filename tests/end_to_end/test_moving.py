"""Ten trucks with an engine lag, killed and resumed: what they said is SOUND, and once for each update."""

import numpy as np
import pytest
from tests.attack.judges import second_verifier
from tests.doubles import moving_session


def motion(law, rounds):
    """The fields of a session of trucks."""
    made = moving_session(2, rounds, law=law)
    names = ("law", "mixing", "noise", "decay", "further", "lattice", "motion", "adjacency")
    return {name: getattr(made, name) for name in names}


@pytest.mark.parametrize("law", ["scheduled", pytest.param("one-shot", marks=pytest.mark.long)])
def test_ten_linear_agents_are_killed_and_resumed(crew, law):
    made = crew(agents=10, rounds=12, together=5, pace=0.1, **motion(law, 12))
    made.run.start_all()
    for k, unit in enumerate(made.run.units):  # the coordinator, and all agents
        made.until(lambda at=3 * k + 1: made.rounds() >= at or not made.run.running)
        made.run.kill(unit)
        made.run.start(unit)
    made.ended()
    made.require_sound()
    paths = [made.run.path(unit, "transcript") for unit in made.run.units]
    files = [path.read_bytes() for path in paths if path.exists()]
    assert second_verifier().judged(files, running=False)["verdict"] == "sound"
    verdict = made.verdict()
    assert verdict.accuracy is None  # no radius that is not worked out
    # noise of up to 32 standard deviations: missed once in e^45
    target, off = 4.5 + made.session.motion.shift, made.session.promise().theory
    assert abs(verdict.result[0] - target) < off.disagreement + 32 * np.sqrt(off.variance)


@pytest.mark.long
def test_linear_peers_are_killed_and_resumed(crew):
    ring = ((0, 1), (1, 2), (2, 3), (0, 3))
    made = crew(agents=4, rounds=8, pace=0.1, edges=ring, **motion("scheduled", 8))
    made.run.start_all()
    for unit in made.run.units[:2]:
        made.until(lambda unit=unit: len(made.events(unit, "updated")) > 2)
        made.run.kill(unit)
        made.run.start(unit)
    made.ended()
    made.require_sound()
