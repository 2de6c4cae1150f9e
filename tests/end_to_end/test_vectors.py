"""Values with several components, through the same commands."""

import numpy as np
import pytest

from tacit.cli.private_value import read_state
from tacit.live.identity.roster import COORDINATOR
from tacit.live.verification.verdict import verify

RING = ((0, 1), (1, 2), (0, 2))


@pytest.mark.parametrize(
    "edges", [pytest.param(None, id="server"), pytest.param(RING, id="ring", marks=pytest.mark.long)]
)
def test_vectors_with_a_server_and_on_a_graph(crew, edges):
    made = crew(agents=3, rounds=8, pace=0.0, edges=edges, components=3, noise=0.5, cap=30.0)
    values = np.array([[1.0, 5.0, 9.0], [2.0, 5.5, 0.0], [6.0, 3.0, 4.5]])
    for name, row in zip(made.names, values, strict=True):
        made.run.path(name, "value").write_text(", ".join(map(str, row)))
    made.run.start_all()
    made.ended()
    made.require_sound()
    found = np.array([read_state(made.run.path(name, "state"))["value"] for name in made.names])
    assert found.shape == (3, 3)
    # From the values, as far as 8 rounds bring them together; the rest is noise, of which one draw in e^32
    # would be so large.
    assert np.abs(found - values.mean(axis=0)).max() < 9 * 0.5**8 + 32 * 0.5
    paths = [made.run.path(unit, "transcript") for unit in made.run.units]
    verdict = verify([path for path in paths if path.exists()], failure_probability=1e-6)
    if edges is None:
        off = np.abs(np.array(verdict.result) - values.mean(axis=0)).max()
        told = made.result(COORDINATOR)
        assert told["feedback"] == list(verdict.result)
        assert told["feedback_in_range"] == made.run.session.clamp(verdict.result).tolist()
    else:
        off = np.abs(found.mean(axis=0) - values.mean(axis=0)).max()
    assert off <= verdict.accuracy.radius_all_components
