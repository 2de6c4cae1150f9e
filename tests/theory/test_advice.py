"""One scale for losses, one for radii."""

import math
from pathlib import Path

import numpy as np
import pytest

from tacit.core.theory import advice
from tacit.core.theory.answers import design


@pytest.mark.parametrize(
    ("loss", "name"), [(0, "strong"), (0.1, "strong"), (0.11, "moderate"), (1, "moderate"), (2, "weak"),
                       (3, "weak"), (3.1, "hardly any"), (1e9, "hardly any"), (math.inf, "hardly any")],
)  # fmt: skip
def test_bands(loss, name):
    assert advice.strength(loss).name == name


def test_bands_say_what_the_guess_rate_says():
    """The words are about the share of right guesses at a band's end."""
    strong, moderate, weak, _ = (advice.right_share(band.most) for band in advice.STRENGTHS)
    assert strong < 0.53  # hardly better than tossing a coin
    assert moderate < 0.75  # three times in four
    assert 0.95 < weak < 0.955  # 19 times in 20
    assert [band.most for band in advice.STRENGTHS] == sorted(band.most for band in advice.STRENGTHS)


def test_the_page_has_the_same_scale():
    page = (Path(__file__).parents[2] / "docs/how-to/choose-privacy.md").read_text()
    for band, before in zip(advice.STRENGTHS, (None, *advice.STRENGTHS), strict=False):
        loss = f"up to {band.most:g}" if math.isfinite(band.most) else f"above {before.most:g}"
        assert f"| {loss} | {band.name} | {band.meaning} |" in page


def test_the_guess_rate_is_never_too_small():
    for loss in [*np.geomspace(1e-6, 40, 300), 745.0, 1e6, 0.0]:
        shown = float(advice.right_at_most(loss).rstrip("%")) / 100
        assert shown >= 1 / (1 + math.exp(-loss)) - 1e-15
        assert shown - 1 / (1 + math.exp(-loss)) < 0.0011
        assert advice.right_share(loss) >= 1 / (1 + math.exp(-loss))


def test_wide_radii_are_warned_about():
    assert advice.wide_radius(1.0, 10.0) is None
    rough, useless = advice.wide_radius(1.1, 10.0), advice.wide_radius(5.0, 10.0)
    assert "11% of the range 10: the result is rough" in rough
    assert "the result is useless" in useless
    assert "never further than 5 from the average" in useless


@pytest.mark.parametrize("keepers", [1, 2, 3, 4, 10])
def test_keepers_are_warned_of_where_they_do_not_help(keepers):
    """Ten keepers for three agents are worse than none."""
    alone = design(agents=3, epsilon=1.0)
    kept = design(agents=3, epsilon=1.0, keepers=keepers)
    warned = [note for note in kept.notes() if "Take fewer keepers" in note]
    assert bool(warned) == (kept.promise.radius >= alone.promise.radius * (1 - 1e-9))
    assert all(("less accurate" in note) == (keepers > 3) for note in warned)
    assert warned == [note for note in kept.promise.summary().notes if "Take fewer keepers" in note]
