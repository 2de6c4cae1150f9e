"""Keepers on trial: the true ones pass, every planted bug is caught. Seeds are fixed."""

import numpy as np
import pytest

from tacit import ClientServer, Fading, OneShot
from tacit.base.errors import ParameterError
from tacit.lab.audit import broken, conspiracy, examine
from tacit.lab.audit.conspiracy import (
    KEEPER_BUGS,
    WIDTH,
    MaskedSessions,
    examine_keepers,
)
from tacit.lab.audit.likelihood import log_likelihood_ratio
from tacit.lab.audit.masked_frames import mask_findings, opening_finding

FADING = ClientServer(Fading(sigma=0.8, c=10, q=0.6), agents=50, keepers=2)
ONCE = ClientServer(OneShot(sigma=0.5, c=2), agents=50, keepers=3)
CAUGHT_BY = {
    "two-sets": "one opening per update",
    "no-noise": "missing noise",
    "half-scale": "optimal distinguisher",
    "same-draw": "signs",
    "mask-without-update": "masks: reuse",
    "short-seed": "masks: few secrets",
    "biased-mask": "masks: bits of many secrets",
}


NEEDS_MANY = {"short-seed", "biased-mask"}
"""Bugs that only many secrets show; to look at 600,000 of them takes most of an audit."""


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(conspiracy, "_PAIRS", 3000)


@pytest.fixture
def many(monkeypatch):
    """Seeds are fixed, so a third of them is enough: 4.7 pairs of 32 bits are expected to be equal."""
    monkeypatch.setattr(conspiracy, "_PAIRS", 200_000)


def judged(mechanism, bug=None, transcripts=1000):
    return examine_keepers(
        mechanism, bug=bug, transcripts=transcripts, rounds=None if mechanism is ONCE else 6, seedable=True
    )


@pytest.mark.parametrize("mechanism", [FADING, ONCE], ids=["fading", "one-shot"])
def test_true_keepers_are_not_rejected(mechanism, request):
    request.getfixturevalue("few" if mechanism is ONCE else "many")
    report = judged(mechanism)
    assert report.passed, report.alarms
    assert 0 < report.measured <= report.promised
    assert "keepers" in report.declared


@pytest.mark.parametrize("bug", KEEPER_BUGS)
def test_every_planted_bug_is_caught(bug, request):
    request.getfixturevalue("many" if bug in NEEDS_MANY else "few")
    report = judged(FADING, bug)
    assert CAUGHT_BY[bug] in [finding.test for finding in report.alarms]


def test_real_noise_and_secrets_pass_too(few):
    assert examine_keepers(FADING, transcripts=400, rounds=4).passed


def test_examine_takes_a_mechanism_with_keepers(few):
    report = examine(FADING, transcripts=400, rounds=4)
    assert report.passed
    assert "one opening per update" in [finding.test for finding in report.findings]


def test_the_conspirators_view_is_worth_at_most_the_accounted_loss():
    subject = MaskedSessions(FADING, 0.0, 10.0, seedable=True)
    view = subject.view([3.0], 6, 500, 4)
    ratio = log_likelihood_ratio(view.history.of(0), 3.0, 8.0)
    epsilon = float(FADING.law.epsilons(6))
    assert np.all(np.abs(ratio) <= 5.0 * epsilon * (1 + 1e-9))
    assert np.abs(ratio).max() > 0.5 * 5.0 * epsilon


def test_masked_numbers_look_random_and_openings_do_not_help():
    view = MaskedSessions(FADING, 0.0, 10.0, seedable=True).view([3.0], 6, 500, 4)
    for numbers in (view.reports, view.openings, view.masks):
        assert not [f for f in mask_findings(numbers, WIDTH, 1e-6) if f.verdict == "alarm"]
    assert np.all((view.reports - view.masks) % (1 << 8 * WIDTH) == view.sent % (1 << 8 * WIDTH))


def test_low_bits_that_are_not_random_are_seen():
    rng = np.random.default_rng(1)
    masks = [[int.from_bytes(rng.bytes(WIDTH), "big") & ~1] for _ in range(200)]
    assert [f.test for f in mask_findings(masks, WIDTH, 1e-6) if f.verdict == "alarm"] == [
        "masks: bits", "masks: from one session to the next",
    ]  # fmt: skip


def test_an_opening_may_be_repeated_but_not_changed():
    assert opening_finding([(b"a", b"a"), (b"b",)]).verdict == "pass"
    assert opening_finding([(b"a", b"a"), (b"b", b"c")]).verdict == "alarm"


def test_refusals():
    with pytest.raises(ParameterError, match="no keeper"):
        MaskedSessions(ClientServer(Fading(0.8, 10, 0.6), agents=3), 0, 1)
    with pytest.raises(ParameterError, match="MaskedSessions"):
        broken("redraw", FADING)
    with pytest.raises(ParameterError, match="must be one of two-sets"):
        examine_keepers(FADING, bug="nonsense")
    with pytest.raises(ParameterError, match="later openings"):
        examine_keepers(ONCE, bug="same-draw")
