"""CONTRIBUTING's "how to add": one of each is added and used. Laws are in tests/law/test_own_law.py."""

import sys
from dataclasses import dataclass
from types import ModuleType

import click
import numpy as np
import pytest
from click.testing import CliRunner

import tacit.cli
import tacit.lab.plots
from tacit import ClientServer, Fading, Graph
from tacit.base.errors import ParameterError
from tacit.core.graph.build import from_keys, pack
from tacit.core.graph.families import FAMILIES, Family
from tacit.lab.audit import Simulated, attacks, examine
from tacit.lab.comparison import compare, harness
from tacit.lab.comparison.method import Error, Guarantee, Method, Said


def wheel(agents):
    """A ring with agent 0 in its middle."""
    rim = np.arange(1, agents)
    ahead = np.roll(rim, -1)
    return from_keys(np.sort(pack(np.concatenate([rim, 0 * rim]), np.concatenate([ahead, rim]))), agents)


def test_a_graph_family(monkeypatch):
    monkeypatch.setitem(FAMILIES, "wheel", Family(wheel, "wheel:AGENTS", "wheel:8", "a ring with a hub"))
    assert Graph.from_name("wheel:8").degrees.tolist() == [7] + [3] * 7
    done = CliRunner().invoke(tacit.cli.main, ["graph", "wheel:8", "--json"])
    assert done.exit_code == 0, done.output


@dataclass(frozen=True, eq=False)
class Nothing(Method):
    """Everyone says zero: perfectly private, and of no use."""

    rounds: int

    name = "nothing"
    title = "say nothing"
    source = "this test"
    needs = "nothing"
    settings = {}  # noqa: RUF012
    messages = 0
    guarantee = Guarantee("pure", "everyone", 0.0)

    @classmethod
    def tuned(cls, case):
        return cls(case.rounds)

    def run(self, theta, rng):  # noqa: ARG002
        for _ in range(self.rounds):
            yield Said(0 * theta, 0 * theta[:1], theta)

    def error(self, failure_probability):  # noqa: ARG002
        return Error(0.0, 0.0)

    def attack(self, agent, x, y):  # noqa: ARG002
        return np.zeros(x.shape[1])


def test_a_method_to_compare_with(monkeypatch):
    asked = {"epsilon": 1.0, "rounds": 3, "runs": 5}
    values = [1.0, 2.0, 3.0, 6.0]
    ring = Graph.from_name("ring:4")
    found = compare(ring, values, methods=[Nothing, "server"], **asked)
    assert [row.name for row in found.rows] == ["server", "nothing"]
    assert found.row("nothing").error == 0
    assert found.row("nothing").attack_error == values[0]
    alone = compare(ring, values, methods=["server"], **asked)
    assert alone.row("server") == found.row("server")
    with pytest.raises(ParameterError, match="used once"):
        compare(ring, values, methods=[Nothing, Nothing], **asked)

    module = ModuleType("tacit.lab.comparison.nothing")
    module.Nothing = Nothing
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(harness.METHODS, "nothing", ("nothing", "Nothing"))
    assert compare(ring, values, methods=["nothing"], **asked).row("nothing").error == 0


def same_fraction(x, state, scale):
    """Whether x − state is a whole number."""
    return np.abs(x - state - np.rint(x - state)) < 1e-9


def test_an_attack(monkeypatch):
    """Noise that is rounded to whole numbers leaves the fraction of the state in the message."""
    monkeypatch.setitem(attacks.ATTACKS, "same fraction", same_fraction)
    mechanism = ClientServer(Fading(0.5, 5.0, 0.8), agents=3)
    broken = Simulated(mechanism, lattice=False, say=lambda now: now.state + np.rint(now.noise))
    found = examine(broken, rounds=2, transcripts=400, failure_probability=1e-6)
    alarms = {each.test for each in found.findings if each.verdict == "alarm"}
    assert "low bits: same fraction" in alarms, found


def whole_noise(seen, agent, first, second):
    """Name the start from which the first message is a whole number away, if only one is."""
    said = seen.x[:, 0, agent]
    first, second = (np.abs(said - start - np.rint(said - start)) < 1e-9 for start in (first, second))
    return first.astype(int) - second


def test_an_attack_of_ones_own():
    """It sees all sessions at once, in random order and without the private part; guesses are counted."""
    mechanism = ClientServer(Fading(0.5, 5.0, 0.8), agents=3)
    broken = Simulated(mechanism, lattice=False, say=lambda now: now.state + np.rint(now.noise))
    seen = []

    def watched(history, agent, first, second):
        seen.append((history, agent, first, second))
        return np.ones(history.runs)

    own = {"whole noise": whole_noise, "always the first": watched}
    asked = {"rounds": 2, "transcripts": 400, "failure_probability": 1e-6}
    found = {each.test: each for each in examine(broken, attacks=own, **asked).findings}
    assert found["attack: whole noise"].verdict == "alarm"
    assert found["attack: whole noise"].detail == "400 of 400 guesses right"
    assert found["attack: always the first"].verdict == "pass"
    honest = examine(Simulated(mechanism), attacks=own, **asked)
    assert honest.passed, honest
    (history, agent, first, second) = seen[0]
    assert history.runs == 400
    assert history.private is None
    assert second != first
    half = whole_noise(history[:200], agent, first, second)
    assert {-1, 1} == set(half.tolist())  # both starts are mixed

    with pytest.raises(ParameterError, match=r"'short' must return \+1, -1 or 0 for each of 400"):
        examine(broken, attacks={"short": lambda *_: [1]}, **asked)
    with pytest.raises(ParameterError, match="'twos' must return"):
        examine(broken, attacks={"twos": lambda seen, *_: np.full(seen.runs, 2)}, **asked)
    with pytest.raises(ParameterError, match="mapping from names to functions"):
        examine(broken, attacks=[whole_noise], **asked)
    with pytest.raises(ParameterError, match=r"mapping from names to functions, got .* for 'x'"):
        examine(broken, attacks={"x": 1}, **asked)
    with pytest.raises(ParameterError, match="with keepers"):
        examine(ClientServer(Fading(0.5, 5.0, 0.8), agents=3, keepers=2), attacks=own, **asked)


def test_a_verb_and_the_row_of_each_figure(monkeypatch):
    """A verb is a module of cli with `command` and a row in VERBS."""
    module = ModuleType("tacit.cli.hello")

    @click.command()
    def command():
        click.echo("hello")

    module.command = command
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(tacit.cli.VERBS, "hello", "Say hello.")
    assert CliRunner().invoke(tacit.cli.main, ["hello"]).output == "hello\n"
    assert "Say hello." in CliRunner().invoke(tacit.cli.main, ["--help"]).output
    for name in tacit.lab.plots._FIGURES:
        assert callable(getattr(tacit.lab.plots, f"draw_{name}"))
