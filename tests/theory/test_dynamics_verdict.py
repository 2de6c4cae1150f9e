"""`tacit verify-dynamics`: exact losses and certificates again, and refusals in one sentence."""

import json
from fractions import Fraction

import numpy as np
import pytest
from click.testing import CliRunner

from tacit.base.errors import FileError, InputError, MotionError, ParameterError
from tacit.cli import main
from tacit.core.law import Scheduled
from tacit.core.motion import Linear
from tacit.core.theory.dynamics_verdict import verify_dynamics
from tacit.core.theory.motion_file import parse_motion_file, parse_motion_plan

TRUCK = """
agents = 40
rounds = 60
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
ENGINE = """
[motion]
jacobians = [[[1, 0.25], [-0.125, 0.5]], [[1, 0.25], [-0.25, 0.5]]]
C = [1, 0]
private = {z0 = 1.0}
metric = [[1, 0.8949832916], [0.8949832916, 2]]
rate = 0.9287796020507812
[noise]
law = "fading"
noise = 60
decay = 0.975
"""
SLEW = """
rounds = 40
[motion]
gain = 0.5
limit = 0.2
pace = 0.1
range = 2
private = {z = 1.0}
[noise]
loss = 1
"""
OFF = [[[1, 0.25], [-0.25 + a, 0.5 + b]] for a in (-0.01, 0.01) for b in (-0.01, 0.01)]
PLANT = TRUCK.replace("C = [1, 0]", f"C = [1, 0]\nmeasured = true\nmatrices = {OFF}").replace(
    '"scheduled"', '"hybrid"'
)


def verified(text, most=None):
    return verify_dynamics(parse_motion_file(text), most)


def test_the_loss_is_exact_at_every_corner():
    found = verified(TRUCK.replace("{speed = 1.0}", "{speed = 1.0, acceleration = 0.5}"), 1.0)
    motion = found.motion
    scales = found.found.law.scales(60)
    for corner in found.corners:
        z, total = [Fraction(1), Fraction(corner.change[1], 2)], Fraction(0)
        for scale in scales.tolist():
            total += abs(z[0]) / Fraction(scale)
            z = [z[0] + z[1] / 4, -z[0] / 4 + z[1] / 2]
        assert corner.loss == total
    assert [one.change for one in found.corners] == [(1, 1), (1, -1)]
    assert found.held
    assert found.loss == max(one.loss for one in found.corners)
    assert abs(float(found.loss) - float(motion.spent(scales))) < 1e-15
    assert "+speed, -acceleration" in str(found)
    assert found.assumed == "computed"


def test_the_two_ways_to_the_loss_agree():
    """The library's fast one is never below the exact one, and hardly above."""
    rng = np.random.default_rng(1)
    for norm in ("box", "l1"):
        A, c = rng.normal(size=(3, 3)) / 2, rng.normal(size=3)
        text = f"""
        rounds = 9
        [motion]
        A = {A.tolist()}
        B = [1, 0, 0]
        C = {c.tolist()}
        norm = "{norm}"
        private = {{z0 = 1.0, z1 = 0.3, z2 = 2.0}}
        [noise]
        scales = {rng.uniform(1, 2, 9).tolist()}
        """
        found = verified(text)
        fast = Fraction(float(found.motion.spent(found.found.law.scales(9))))
        assert found.loss <= fast <= found.loss * (1 + Fraction(1, 2**50))


def test_an_endless_run_needs_a_tail_that_is_proved():
    text = TRUCK.replace("rounds = 60\n", "").replace("scheduled", "fading")
    found = verified(text, 1.0)
    assert found.held
    assert float(found.loss) == pytest.approx(1, abs=1e-12)
    assert [row.name for row in found.proofs] == ["metric", "rate", "tail"]
    assert "decay must be above" in refusal(text.replace("loss = 1", "noise = 9\ndecay = 0.7"))
    constant = verified(text.replace('"fading"', '"constant"').replace("loss", "noise"))
    assert float(constant.loss) == pytest.approx(8, rel=1e-12)  # Σa_t is the lag


def test_certificates_are_checked_exactly():
    found = verified(ENGINE)
    assert found.bound
    law = found.found.law
    exact = law.motion.kappa / law.c / (1 - law.motion.rate / law.q)
    assert float(found.loss) == pytest.approx(exact, rel=1e-12)
    assert "does not prove the rate" in refusal(ENGINE.replace("0.9287796020507812", "0.9286"))
    slew = verified(SLEW, 1.0)
    assert slew.held
    assert float(slew.loss) == pytest.approx(1, abs=1e-12)
    plant = verified(PLANT, 1.0)
    assert (plant.assumed, plant.held) == ("measured", True)
    fresh = verified(PLANT.replace('"hybrid"', '"scheduled"'), 1.0)
    assert fresh.held
    assert float(fresh.found.law.c) > plant.found.law.c


def test_every_law_is_checked():
    once = verified(TRUCK.replace("scheduled", "one-shot"), 1.0)
    assert once.loss == 1
    assert "never of a state that is measured" in str(once)
    gauss = verified(TRUCK.replace("scheduled", "gaussian"), 1.0)
    assert gauss.held
    assert float(gauss.proofs[0].value) == pytest.approx(0.23670438066, rel=1e-9)
    disc = TRUCK.replace("{speed = 1.0}", '{speed = 1.0, acceleration = 1.0}\nnorm = "l2"')
    assert "disc" in verified(disc).bound


def test_coupled_agents_are_added_up_and_nothing_else_takes_them():
    """21: all messages lose 1.41 where the agent's own lose 1."""
    truck = Linear([[1, 0.25], [-0.25, 0.5]], [0, 0.25], [1, 0], private={0: 1.0})
    pair = f"""
    rounds = 200
    [motion]
    A = [[1, 0.25, 0, 0], [-0.25, 0.5, 0, 0], [0, 0, 1, 0.25], [0.1, 0, -0.35, 0.5]]
    B = [0, 0.25, 0, 0.25]
    C = [1, 0, 0, 0]
    others = [[0, 0, 1, 0]]
    private = {{z0 = 1.0}}
    [noise]
    scales = {Scheduled.best(truck, 1.0, 200).scales(200).tolist()}
    """
    found = verified(pair, 1.0)
    assert not found.held
    assert float(found.loss) == pytest.approx(1.4133837626640555, rel=1e-15)
    assert "not the agent's own" in str(found)
    for parse in (parse_motion_plan, lambda text: parse_motion_file(text).mechanism):
        with pytest.raises(FileError, match="physical coupling"):
            parse(pair.replace("scales", "loss = 1\n#") if parse is parse_motion_plan else pair)


def refusal(text):
    with pytest.raises((InputError, MotionError)) as caught:
        verified(text)
    said = str(caught.value)
    assert said.count(". ") <= 2, said
    return said


SLOPE = '[motion]\njacobians = {}\nC = [1]\nprivate = {{z0 = 1.0}}\n[noise]\nlaw = "fading"\nloss = 1'
BREAKS = {
    "a clamped state": (TRUCK.replace("[noise]", "clamp = 1\n[noise]"), "give it room"),
    "a saturation": (TRUCK.replace("[noise]", "saturation = 1\n[noise]"), "put a public filter before it"),
    "a slew limit that liars keep": (SLEW.replace("pace = 0.1", "pace = 0.2"), "Lower the pace"),
    "a limit without a filter": (SLEW.replace("pace = 0.1", ""), "must have pace"),
    "a dead zone": (TRUCK.replace("[noise]", "dead_zone = 1\n[noise]"), "give the zone a slope"),
    "Kuramoto": (SLOPE.format("[[[1.3]], [[0.7]]]"), "keep a public odometer"),
    "an integrator": (SLOPE.format("[[[1.0]]]"), "draw noise once"),
    "an integrator, endless": (
        TRUCK.replace("[-0.25, 0.5]", "[0, 1]").replace("rounds = 60", "").replace("scheduled", "fading"),
        "number of rounds",
    ),
    "physical coupling": (TRUCK.replace("[noise]", "coupling = 1\n[noise]"), "give the stacked A"),
    "private parameters": (TRUCK.replace("[noise]", "parameters = 1\n[noise]"), "keep it out of A"),
    "noise once, measured": (
        TRUCK.replace("[noise]", "measured = true\n[noise]").replace("scheduled", "one-shot"),
        "compute a reference",
    ),
    "noise once for two": (
        TRUCK.replace("{speed", "{acceleration = 1.0, speed").replace("scheduled", "one-shot"),
        "Take fresh noise",
    ),
    "hybrid, computed": (TRUCK.replace("scheduled", "hybrid"), "A computed state takes noise once"),
    "a plant beyond its certificate": (
        PLANT.replace("C = [1, 0]\n", "C = [1, 0]\nmetric = [[1, 0], [0, 1]]\nrate = 0.9\n", 1),
        "Give a larger rate",
    ),
    "nothing said": (TRUCK.replace("C = [1, 0]", "C = [0, 0]"), "no noise is needed"),
    "noise of scale 0": (
        TRUCK.replace("rounds = 60", "rounds = 2").replace("loss = 1", "scales = [1, 0]"),
        "Give it a scale",
    ),
    "too many corners": (
        f"rounds = 2\n[motion]\nA = {np.eye(9).tolist()}\nB = {[1] * 9}\nC = {[1] * 9}\n"
        f"private = {{{', '.join(f'z{k} = 1.0' for k in range(9))}}}\n[noise]\nscales = [1, 1]",
        'norm = "l1"',
    ),
    "too many rounds": (TRUCK.replace("rounds = 60", "rounds = 2001"), "at most 2,000"),
    "shapes": (TRUCK.replace("B = [0, 0.25]", "B = [0]"), "B must have 2 numbers"),
}


@pytest.mark.parametrize("what", BREAKS)
def test_what_breaks_the_guarantee_is_refused_with_its_repair(what, tmp_path):
    text, repair = BREAKS[what]
    assert repair in refusal(text)
    (tmp_path / "agents.toml").write_text(text)
    done = CliRunner().invoke(main, ["verify-dynamics", str(tmp_path / "agents.toml")])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


def test_the_verb_says_proved_or_exceeded(tmp_path):
    file = tmp_path / "truck.toml"
    file.write_text(TRUCK)

    def called(*more):
        return CliRunner().invoke(main, ["verify-dynamics", str(file), *more])

    assert "PROVED" in called("--loss", "1").stdout
    assert called("--loss", "0.5").exit_code == 1
    told = json.loads(called("--loss", "1", "--json").stdout)
    exact = Fraction(int(told["numerator"], 16), int(told["denominator"], 16))
    assert Fraction(told["loss"]) >= exact > 1 - Fraction(1, 10**9)
    assert (told["verdict"], told["state"], told["exact"]) == ("proved", "computed", True)
    file.write_text(PLANT)
    told = json.loads(called("--json").stdout)
    assert (told["state"], told["exact"]) == ("measured", False)
    analyzed = json.loads(CliRunner().invoke(main, ["analyze", "--motion", str(file), "--json"]).stdout)
    assert analyzed["price"] > 1
    odd = CliRunner().invoke(main, ["analyze", "--motion", str(file), "--rounds", "5"])
    assert "leave out --rounds" in odd.stderr


def test_a_verdict_depends_on_what_it_checks(monkeypatch):
    """Broken on purpose: a loss of another adjacency, or half the noise, is exceeded."""
    assert not verified(
        TRUCK.replace("agents = 40", "adjacency = 1").replace("loss = 1", "loss = 2"), 1.0
    ).held
    scales = (parse_motion_file(TRUCK).law.scales(60) / 2).tolist()
    half = TRUCK.replace('law = "scheduled"\nloss = 1', f"scales = {scales}")
    assert float(verified(half, 1.0).loss) == pytest.approx(2, rel=1e-12)
    with pytest.raises(ParameterError, match="decay must be above"):
        verified(
            TRUCK.replace("rounds = 60", "").replace(
                '"scheduled"\nloss = 1', '"fading"\nnoise = 9\ndecay = 0.7'
            )
        )
