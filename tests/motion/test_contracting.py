"""Certificates of contraction: what is proved, and what is refused."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import tacit
from tacit.base.errors import FileError, MotionError, ParameterError
from tacit.cli import main
from tacit.core.law import Fading, OneShot, Scheduled
from tacit.core.mechanism import ClientServer
from tacit.core.motion import Contracting, Linear
from tacit.core.motion.dyadic import is_positive
from tacit.core.theory.motion_file import parse_motion_file
from tacit.core.theory.privacy import epsilon

TRUCK_A = np.array([[1, 0.25], [-0.25, 0.5]])
SLOPES = [[[1, 0.25], [-0.125, 0.5]], [[1, 0.25], [-0.25, 0.5]]]  # an engine whose slope is in [½, 1]
METRIC, RATE = [[1, 0.8949832916], [0.8949832916, 2]], 0.9287796020507812
TRUCK = Linear(TRUCK_A, [0, 0.25], [1, 0], private={0: 1.0})


def bent(z, y):
    """The engine's response is ¾d + ¼·sin d of the wish d: slopes from ½ to 1."""
    wish = np.asarray(y) - z[..., 0]
    answer = 0.75 * wish + 0.25 * np.sin(wish)
    return np.stack([z[..., 0] + 0.25 * z[..., 1], 0.5 * z[..., 1] + 0.25 * answer], axis=-1)


def engine(**more):
    return Contracting(SLOPES, [1, 0], METRIC, RATE, {0: 1.0}, **more)


def size(motion):
    """S = κ^⅔/(1 − ρ^⅔)."""
    return motion.kappa ** (2 / 3) / (1 - motion.rate ** (2 / 3))


def test_reference_numbers():
    """Section 7, and 16: κ of the truck's tail at ρ = 4/5."""
    assert size(engine()) == pytest.approx(24.6754, abs=5e-5)
    tail = Contracting([TRUCK_A], [1, 0], [[1, 0.93], [0.93, 1]], 0.8, {0: 1.0})
    assert tail.kappa == pytest.approx(2.720647808954717, rel=1e-15)
    true = np.cbrt(TRUCK.influence(np.arange(60, 400)) ** 2).sum()
    assert true == pytest.approx(0.0004600247230297836, rel=1e-11)
    assert true <= tail.kappa ** (2 / 3) * 0.8**40 / (1 - 0.8 ** (2 / 3))
    off = [TRUCK_A + np.array([[0, 0], [a, b]]) for a in (-0.01, 0.01) for b in (-0.01, 0.01)]
    found = Contracting.searched(off, [1, 0], private={0: 1.0})
    assert found.rate == pytest.approx(0.8474655, abs=1e-5)
    assert size(found) == pytest.approx(13.3697, abs=2e-4)


def test_a_certificate_is_checked_exactly():
    with pytest.raises(ParameterError, match="does not prove the rate"):
        Contracting(SLOPES, [1, 0], METRIC, RATE - 1e-4, {0: 1.0})
    # A float check would pass what is wrong by less than rounding: here 1e-17 is missing.
    assert is_positive([[1.0, 1.0], [1.0, 1.0]])
    assert not is_positive([[1.0, 1.0 + 2**-52], [1.0 + 2**-52, 1.0]])
    assert not is_positive([[0.0, 1.0], [1.0, 5.0]])
    assert not is_positive([[1.0, 0.0], [1e-300, 1.0]])
    for wrong in ([[1, 2], [2, 1]], [[1, 0.5], [0.25, 1]], [[1, 1], [1, 1]]):
        with pytest.raises(ParameterError, match="positive definite"):
            Contracting(SLOPES, [1, 0], wrong, 0.99, {0: 1.0})


def test_no_liar_sees_more_than_the_proved_loss():
    """Lying feedback, two starts at distance 1: the difference stays below κρ^t."""
    motion, rng = engine(step=bent), np.random.default_rng(5)
    for _ in range(50):
        one, other = rng.normal(size=2), np.zeros(2)
        other[:] = one
        other[0] += 1.0
        for t in range(60):
            assert abs(motion.say(one) - motion.say(other)) <= float(motion.influence(t)) * (1 + 1e-12)
            y = rng.choice([-1, 1]) * 10 ** rng.uniform(-1, 3)
            one, other = motion.move(one, y), motion.move(other, y)


def test_laws_take_it():
    law = Fading.best(engine(), 1.0)
    assert 1 - 1e-9 < epsilon(law) <= 1
    t = np.arange(2000)
    assert float(np.sum(engine().influence(t) / (law.c * law.q**t))) == pytest.approx(1, rel=1e-9)
    assert epsilon(Scheduled.best(engine(), 1.0, 50), 50) <= 1
    with pytest.raises(ParameterError, match="above the proved rate"):
        epsilon(Fading(engine(), 1.0, 0.92))
    # A shadow needs no certificate for its loss; accuracy is not known, and said so.
    assert epsilon(OneShot(engine(), 2.0)) == 0.5
    with pytest.raises(MotionError, match="does not define the loop of all agents"):
        tacit.analyze(ClientServer(law, agents=5), rounds=10)
    runs = tacit.simulate(
        ClientServer(Fading(engine(step=bent), 0.01, 0.95), agents=4), np.eye(4)[:, :2], 300
    )
    assert np.ptp(runs.theta.values[0, -1, :, 0]) < 1e-4


@pytest.mark.parametrize(
    "jacobians",
    [
        [[[1.0]], [[0.5]]],  # a slew limit, or a dead zone: rate 1 where it does not respond
        [[[1.0, 0.25], [0.0, 1.0]]],  # two integrators
        [[[1.3]], [[0.7]]],  # a phase that liars push apart
    ],
)
def test_agents_that_do_not_contract_are_refused_with_the_repair(jacobians):
    with pytest.raises(MotionError, match="draw noise once"):
        Contracting.searched(jacobians, [1] + [0] * (len(jacobians[0]) - 1), private={0: 1.0})


def test_a_design_says_what_each_noise_costs():
    found = tacit.design(motion=TRUCK, loss=1, rounds=480, agents=40)
    spread = {name: made.variance**0.5 for name, made in found.promises.items()}
    assert spread["scheduled"] == pytest.approx(0.928850471, rel=1e-8)
    assert spread["fading"] == pytest.approx(0.9366, abs=5e-5)
    assert spread["one-shot"] == pytest.approx(0.223606798, rel=1e-8)
    assert spread["gaussian"] == pytest.approx(1 / (40**0.5 * 0.23670438066343497), rel=1e-9)
    assert found.promise is found.promises["one-shot"]
    assert found.price == pytest.approx(4.1539455862, rel=1e-9)
    assert "Never add it to a measured or rounded state" in str(found)
    assert found.to_dataframe().law.tolist() == list(spread)
    box = Linear(TRUCK_A, [0, 0.25], [1, 0], private={0: 1.0, 1: 0.5})
    two = tacit.design(motion=box, loss=1, rounds=60, graph="ring:4", law="fading")
    assert (two.price, sorted(two.promises)) == (None, ["fading", "gaussian", "scheduled"])
    assert json.dumps(two.as_dict())
    assert two.promise is two.promises["fading"]
    endless = tacit.design(motion=TRUCK, loss=1, agents=40)
    assert sorted(endless.promises) == ["fading", "one-shot"]


@pytest.mark.parametrize(
    "asked",
    [
        {"loss": 1},
        {"agents": 4},
        {"agents": 4, "loss": 1, "radius": 1},
        {"agents": 4, "loss": 1, "mixing": 0.5},
        {"agents": 4, "loss": 1, "keepers": 2},
        {"agents": 4, "loss": 1, "components": 2},
        {"agents": 4, "loss": 1, "law": "scheduled"},
        {"agents": 4, "loss": 1, "motion": "truck"},
    ],
)
def test_what_a_design_for_a_motion_does_not_answer_is_refused(asked):
    with pytest.raises(ParameterError):
        tacit.design(**{"motion": TRUCK, **asked})


FILE = """
agents = 40
rounds = 480
[motion]
A = [[1, 0.25], [-0.25, 0.5]]
B = [0, 0.25]
C = [1, 0]
names = ["speed", "acceleration"]
private = {speed = 1.0}
[noise]
law = "scheduled"
loss = 1
"""
PROVED = f"""
[motion]
jacobians = {SLOPES}
C = [1, 0]
private = {{z0 = 1.0}}
metric = {METRIC}
rate = {RATE}
[noise]
law = "fading"
noise = 60
decay = 0.975
"""


def analyzed(tmp_path, text, *options, verb="analyze"):
    (tmp_path / "motion.toml").write_text(text)
    return CliRunner().invoke(main, [verb, "--motion", str(tmp_path / "motion.toml"), *options])


def test_a_file_is_analyzed_exactly(tmp_path):
    told = json.loads(analyzed(tmp_path, FILE, "--json").stdout)
    assert told["radius"] == pytest.approx(1.820816017, rel=1e-8)
    assert 1 - 1e-12 < told["loss"] <= 1
    assert any("no physical coupling" in line for line in told["assumptions"])
    proved = json.loads(analyzed(tmp_path, PROVED, "--json").stdout)
    assert proved["loss"] == pytest.approx(float(epsilon(Fading(engine(), 60.0, 0.975))))
    assert "proved" in analyzed(tmp_path, PROVED).stdout
    held = FILE.replace("[noise]", "seconds = 0.5\n[noise]").replace(
        "[1, 0.25], [-0.25, 0.5]", "[0, 1], [-1, -2]"
    )
    assert analyzed(tmp_path, held.replace("B = [0, 0.25]", "B = [0, 1]")).exit_code == 0


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[noise]", "[noises]", "may have"),
        ("loss = 1", "loss = 1\ndecay = 0.5", "not both"),
        ("loss = 1", "", "must have scales"),
        ('"scheduled"\nloss = 1', '"fading"\nnoise = 1', "noise and decay"),
        ("A = [[1, 0.25], [-0.25, 0.5]]", "", "no A"),
        ("A = [[", "A = [", "must be TOML"),
        ("agents = 40", "agents = 0", "agents must be"),
        ("rounds = 480", "", "does not define best for an endless run"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_in_one_sentence(tmp_path, old, new, words):
    with pytest.raises((FileError, ParameterError)):
        parse_motion_file(FILE.replace(old, new))
    done = analyzed(tmp_path, FILE.replace(old, new))
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in " ".join(done.stderr.split())


def test_what_the_file_says_is_not_asked_again(tmp_path):
    done = analyzed(tmp_path, FILE, "--agents", "3")
    assert done.exit_code == 2
    assert "leave out --agents" in done.stderr


def test_a_file_is_designed_for(tmp_path):
    open_law = FILE.replace('law = "scheduled"\n', "")
    found = json.loads(analyzed(tmp_path, open_law, "--json", verb="design").stdout)
    assert (found["law"], found["radius"]) == ("one-shot", pytest.approx(0.439433219, rel=1e-8))
    assert sorted(found["laws"]) == ["fading", "gaussian", "one-shot", "scheduled"]
    told = analyzed(
        tmp_path, FILE, "--delta", "1e-9", "--rounds", "60", "--epsilon", "2", verb="design"
    ).stdout
    assert "probability 1e-09" in told
    assert "60 rounds" in told
    gaussian = FILE.replace('"scheduled"', '"gaussian"\ndelta = 1e-8')
    assert json.loads(analyzed(tmp_path, gaussian, "--json").stdout)["delta"] == 1e-8
    for wrong, words in [
        (FILE.replace("loss = 1", "scales = [1]"), "[noise] of a design may have"),
        (FILE.replace("loss = 1", ""), "give privacy"),
    ]:
        done = analyzed(tmp_path, wrong, verb="design")
        assert (done.exit_code, done.stdout) == (2, "")
        assert words in " ".join(done.stderr.split())
    assert analyzed(tmp_path, FILE, "--radius", "1", verb="design").exit_code == 2
    assert analyzed(tmp_path, FILE.replace("loss = 1", "loss = 1\ndelta = 0.1")).exit_code == 2
