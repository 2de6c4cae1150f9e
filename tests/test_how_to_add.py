"""CONTRIBUTING's "how to add": one of each is added and used. Laws are in tests/law/test_own_law.py."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import click
import numpy as np
import pytest
from click.testing import CliRunner
from tests.doubles import known_key, known_series, known_session, small_session

import tacit.cli
import tacit.plots
from tacit import ClientServer, Fading, Graph
from tacit.audit import Simulated, attacks, examine
from tacit.comparison import compare, harness
from tacit.comparison.method import Error, Guarantee, Method, Said
from tacit.errors import ParameterError
from tacit.graph.build import from_keys, pack
from tacit.graph.families import FAMILIES, Family
from tacit.runtime.agent import Agent
from tacit.runtime.coordinator import Coordinator
from tacit.runtime.identity.identity import provision
from tacit.runtime.identity.keys import key_text
from tacit.runtime.session.file import read_with_addresses, write_session
from tacit.runtime.transport import schemes
from tacit.runtime.transport.base import Inbox, Network


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

    module = ModuleType("tacit.comparison.nothing")
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


class Pipes:
    """A transport of 25 lines: everyone writes straight into the others' inboxes."""

    ends = defaultdict(dict)  # noqa: RUF012

    def __init__(self, session, who, _tls, **_more):
        self.session, self.who, self.dropped = session, who, 0
        self.near = session.neighbours(who)

    @property
    def network(self):
        return Network(connected=tuple(one for one in self.near if one in self.ends[self.session.id]))

    async def open(self, arrived):
        self.inbox = Inbox(1 << 20, arrived=arrived)
        self.ends[self.session.id][self.who] = self
        for one in self.network.connected:
            self.inbox.seen(one, True)
            self.ends[self.session.id][one].inbox.seen(self.who, True)

    def send(self, to, frame):
        for one in self.near if to is None else (to,):
            if (end := self.ends[self.session.id].get(one)) is not None:
                end.inbox.put(frame, self.who)

    def take(self):
        return self.inbox.take()

    async def close(self):
        self.ends[self.session.id].pop(self.who, None)


def test_a_transport(tmp_path, monkeypatch):
    """A module with a class, and a row: then endpoints and session files with its scheme work."""
    monkeypatch.setitem(schemes.SCHEMES, "pipe", (__name__, "Pipes"))
    names = ["a0", "a1"]
    keys = provision(tmp_path / "keys", ["coordinator", *names])
    session, where = small_session(keys, names, rounds=3), "pipe://here:1"
    write_session(session, tmp_path / "session.toml", addresses={"coordinator": where})
    assert read_with_addresses(tmp_path / "session.toml")[1] == {"coordinator": where}

    async def run():
        def own(name):
            return {"ledger": tmp_path / f"{name}.ledger", "identity": keys[name]}

        members = [Coordinator(session, listen=where, **own("coordinator"))]
        members += [Agent(session, 5.0, cap=100.0, connect=where, **own(name)) for name in names]

        async def result(member):
            async with member:
                return await member.result()

        return await asyncio.gather(*map(result, members))

    assert all(result.finished for result in asyncio.run(run()))


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
    for name in tacit.plots._FIGURES:
        assert callable(getattr(tacit.plots, f"draw_{name}"))


# What CONTRIBUTING says about a field of a session: what is added where, and what follows.
FIELD = {
    "protocol/schema.py": [
        (
            "class AnySession(",
            "class AskedFor(FieldTable, frozen=True):\n"
            '    kind: Annotated[str, about("What is asked.")] = "mean"\n\n\n',
        ),
        (
            "    deadlines: Annotated[Deadlines",
            '    motion: Annotated[str, about("How", option="motion", verbs=("session", "hub"))] = "mixing"\n'
            # The file says `question`; the session has an attribute of this name already, which follows.
            '    asked: Annotated[AskedFor, about("What is asked.")] = msgspec.field('
            'name="question", default_factory=AskedFor)\n'
            '    scales: Annotated[tuple[Real, ...], about("Of each update.")] = ()\n',
        ),
    ],
    "protocol/session.py": [
        (
            "    name: str\n",
            '    motion: str = "mixing"\n    asked: AskedFor = field(default_factory=AskedFor)\n'
            "    scales: tuple[float, ...] = ()\n",
        ),
        ("from tacit.protocol.series", "from tacit.protocol.schema import AskedFor\n"),
    ],
}
USES_FIELD = """
import json, sys
from pathlib import Path
import click, tacit
from click.testing import CliRunner
from tacit.cli import main
from tacit.cli.reference import session_fields
from tacit.protocol.session import Session
from tacit.runtime.fleet.orders import SessionOrder, designed, instance
from tacit.runtime.session.file import read_session, session_text

assert Path(tacit.__file__).is_relative_to(Path.cwd()), tacit.__file__
for name, data in json.loads(sys.argv[1]).items():
    old = Session.decode(bytes.fromhex(data["bytes"]))
    assert old.id.hex() == data["id"], name
    assert (old.motion, old.asked.kind) == ("mixing", "mean")

def run(*words):
    done = CliRunner().invoke(main, [*words])
    assert done.exit_code == 0, done.output
    return done.output

made = ["session", "new", "--roster", "keys", "--loss", "1", "--low", "0", "--high", "10", "--anyway"]
run(*made, "--out", "plain.toml")
run(*made, "--motion", "linear", "--out", "linear.toml")
linear = read_session("linear.toml")
assert linear.motion == "linear" and read_session("plain.toml").motion == "mixing"
text = Path("linear.toml").read_text()
assert 'motion = "linear"' in text and "[question]" in text
text = text.replace('kind = "mean"', 'kind = "count"').replace("topology =", "scales = [2, 0.5]\\ntopology =")
Path("asked.toml").write_text(text)
asked = read_session("asked.toml")
assert asked.scales == (2.0, 0.5) and "scales = [2.0, 0.5]" in session_text(asked)
assert asked.own_words == ()
assert asked.asked.kind == "count" and asked.id != linear.id
assert Session.decode(asked.encode()) == asked
assert b"question" in asked.canonical
assert b"question" not in linear.canonical and b"motion" in linear.canonical
run("session", "check", "asked.toml")
assert "--motion" in run("hub", "run", "--help") and "| `question.kind` | all |" in session_fields()
order = SessionOrder({"loss": 1.0, "low": 0.0, "high": 10.0}, settings={"motion": "linear"})
hub = designed(order, linear.roster, (), linear.coordinator)
assert instance(order, hub, "one", linear.roster, (), now=0.0).motion == "linear"
"""


def test_a_field_of_a_session(tmp_path):
    """At most three files; file, bytes, options and reference page follow, and no id changes."""
    source = Path(tacit.__file__).parent
    shutil.copytree(source, tmp_path / "tacit", ignore=shutil.ignore_patterns("__pycache__"))
    for name, additions in FIELD.items():
        path = tmp_path / "tacit" / name
        text = path.read_text()
        for before, added in additions:
            assert before in text
            text = text.replace(before, added + before, 1)
        path.write_text(text)
    files = [path.relative_to(source) for path in source.rglob("*.py")]
    copy = tmp_path / "tacit"
    assert sum((source / file).read_bytes() != (copy / file).read_bytes() for file in files) <= 3
    keys = [f"{name} {key_text(known_key(i).public_key().public_bytes_raw())}\n"
            for i, name in enumerate(["coordinator", "ann", "bob", "cy"])]  # fmt: skip
    (tmp_path / "keys").write_text("".join(keys))
    sessions = {
        "server": known_session(3, mixing=(0.5, 0.6, 0.7)),
        "keepers": known_session(3, keepers=2),
        "graph": known_session(graph="path:3", weights="metropolis"),
        "series": known_series(),
    }
    old = {name: {"bytes": made.encode().hex(), "id": made.id.hex()} for name, made in sessions.items()}
    done = subprocess.run(
        [sys.executable, "-c", USES_FIELD, json.dumps(old)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
