"""Smart meters: a real grid, on the lattice of a deployment."""

import numpy as np
import pytest

pytest.importorskip("pandapower", reason="pandapower is in the extra `examples`")


@pytest.fixture(scope="module")
def metered(ran):
    return ran("smart_meters")


def test_the_means_are_within_their_radii(metered):
    for kind in ("server", "grid", "town", "keepers"):
        assert 0 < metered.found[kind]["error"] <= metered.found[kind]["radius"], kind
    assert metered.picture.exists()


def test_the_accounted_loss_is_no_less_than_the_theory_s(metered):
    from tacit.theory.answers import design
    from tacit.theory.privacy import loss

    meters = metered.module
    for kind, agents in (("server", 177), ("town", 1506)):
        answer = design(agents=agents, loss=meters.LOSS, adjacency=meters.ADJACENCY)
        real = loss(answer.mechanism.law, meters.ADJACENCY, rounds=int(metered.found[kind]["rounds"]))
        assert real <= metered.found[kind]["loss"] <= min(real * (1 + 1e-9), 1)
    assert metered.found["grid"]["loss"] == pytest.approx(1, abs=1e-5)
    assert metered.row("privacy loss") == ["inf", "0.998", "1", "0.998", "0.111"]


def test_keepers_buy_the_same_accuracy_for_a_loss_that_protects_people(metered):
    server, kept = metered.found["server"], metered.found["keepers"]
    assert kept["radius"] == pytest.approx(server["radius"], rel=1e-3)
    assert kept["loss"] < server["loss"] / 8
    assert kept["guessed"] > 1.05  # hardly better than knowing the mean alone
    assert "with keepers 52.8%" in metered.text
    assert "99.996%, with keepers 75.2%" in metered.text


def test_a_naive_meter_tells_its_load(metered):
    assert metered.found["naive"]["guessed"] == 0
    assert metered.found["naive"]["error"] < 1e-12
    assert min(metered.found[kind]["guessed"] for kind in ("server", "grid", "town", "keepers")) > 0.4


def test_a_crowd_buys_accuracy(metered):
    ratio = metered.found["server"]["radius"] / metered.found["town"]["radius"]
    assert ratio == pytest.approx((1506 / 177) ** 0.5, rel=0.02)


def test_the_power_flow_follows_the_mean(metered):
    truth, naive = metered.found["truth"], metered.found["naive"]
    assert naive["loading"] == pytest.approx(truth["loading"], rel=0.02)
    drawn = 100 * truth["mean"] * 177 / 400  # % of 400 kVA, before losses and reactive power
    assert drawn < truth["loading"] < 1.13 * drawn
    per_kw = naive["loading"] / naive["mean"]
    for kind in ("server", "grid"):
        found = metered.found[kind]
        assert found["loading"] == pytest.approx(per_kw * found["mean"], rel=0.02)
        assert 85 < found["voltage"] < 100


def test_meters_hear_each_other_along_cables(metered):
    import networkx as nx

    line = nx.path_graph(5)
    nx.set_edge_attributes(line, 0.2, "weight")
    heard = metered.module.hearing(line, [0, 2, 3])  # buses 1 and 4 are no homes
    assert heard.edges().tolist() == [[1, 2]]
    assert metered.module.town().load.bus.nunique() == 1506


def test_loads_are_within_what_a_household_can_draw(metered):
    draws = metered.module.EVENING.rvs(1000, random_state=0)
    assert draws.min() >= 0
    assert np.minimum(draws, metered.module.MOST).mean() == pytest.approx(1.6, rel=0.1)
