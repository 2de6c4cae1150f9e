"""A law of a user's own runs everywhere its methods reach.

Elsewhere it is refused by name.
"""

import asyncio
import json
import re
from base64 import urlsafe_b64encode
from dataclasses import dataclass, replace
from typing import final

import msgspec
import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner
from tests.doubles import known_session, small_session

from tacit import ClientServer, Distributed, Fading, Graph
from tacit.base.errors import FileError, Infeasible, LawError, ParameterError
from tacit.cli import main
from tacit.core.history import History
from tacit.core.law import Law, named, register, registry
from tacit.core.mechanism.lattice import Lattice
from tacit.core.noise import SimulatedNoise
from tacit.core.noise.approximate import epsilon_delta
from tacit.core.protocol.roster import COORDINATOR
from tacit.core.protocol.session import Session
from tacit.core.theory import accuracy, convergence, moments, privacy
from tacit.core.theory.answers import design
from tacit.core.theory.plan import Plan
from tacit.core.theory.promise import analyze
from tacit.lab.audit import examine, read_folder, write_folder
from tacit.lab.simulation import sample_average, sample_outcome, sweep
from tacit.lab.simulation.engine import simulate
from tacit.lab.simulation.oracle import reference
from tacit.lab.simulation.record import Record
from tacit.live.identity.identity import provision
from tacit.live.runtime.agent import Agent
from tacit.live.runtime.coordinator import Coordinator
from tacit.live.runtime.transcript import TranscriptWriter
from tacit.live.sessions.file import parse_session, read_session, session_text, write_session
from tacit.live.transport.memory import MemoryNetwork
from tacit.live.verification.verdict import verify

WAIT = 300
SLACK = 0.025  # five standard deviations of a share of 0.1 in 4,000 runs


@register
@final
@dataclass(frozen=True, eq=False)
class Quadratic(Law):
    """Fresh noise every round that fades like c/(t+1)²."""

    name = "quadratic"

    def scale(self, u):
        """c/(u+1)²."""
        return self.c / ((u + 1) * (u + 1))


@register
@final
@dataclass(frozen=True, eq=False)
class Harmonic(Law):
    """Fresh noise every round that fades like c/(1 + rate·t)."""

    rate: float

    name = "harmonic"

    def scale(self, u):
        """c/(1 + rate·u)."""
        return self.c / (1 + self.rate * u)


LAW = Quadratic(0.6, 4.0)
SERVER = ClientServer(LAW, agents=4)
GRAPH = Distributed(Quadratic((0.5, 0.6, 0.7, 0.4), 4.0), Graph.from_name("path:4"))
VALUES = np.array([0.1, 0.9, 0.4, 0.75])


def test_its_loss_is_the_sum_over_messages():
    scales = 4.0 / np.arange(1, 8) ** 2
    exact = float(np.sum(0.4 ** np.arange(7) / scales))
    assert exact <= privacy.epsilon(LAW, 7) <= exact * (1 + 1e-12)
    assert privacy.epsilon(GRAPH.law, 7) == pytest.approx(np.sum(0.6 ** np.arange(7) / scales))
    assert privacy.rounds_within(LAW, exact * (1 + 1e-9)) == 7
    assert 0 < epsilon_delta(LAW, 7, 1.0, 1e-3) <= privacy.epsilon(LAW, 7)


@pytest.mark.parametrize("mechanism", [SERVER, GRAPH], ids=["server", "graph"])
def test_it_is_simulated_as_the_reference_does(mechanism):
    fast = simulate(mechanism, VALUES, 6, runs=2, seed=3, record=Record(everything=True))
    noise = SimulatedNoise(3).draw(mechanism.law, 6, 4, run=1)
    slow = reference(mechanism, VALUES, noise)
    np.testing.assert_allclose(fast["theta"].values[1], slow.theta, rtol=1e-12)
    assert fast.attrs["law"] == "quadratic"


@pytest.mark.parametrize("mechanism", [SERVER, GRAPH], ids=["server", "graph"])
def test_what_is_promised_holds_for_what_is_simulated(mechanism):
    """Fixed seed."""
    made = analyze(mechanism, rounds=6, spread=1.0, failure_probability=0.1)
    assert made.as_dict()["law"] == "quadratic"
    end = simulate(mechanism, VALUES, 6, runs=4000, seed=5)["theta"].values[:, -1]
    off = np.abs(end - accuracy.target(mechanism, VALUES)).max(axis=1)
    assert np.mean(off > made.radius) <= 0.1 + SLACK
    apart = np.ptp(end, axis=1)
    assert np.mean(apart > made.disagreement) <= 0.1 + SLACK
    variance = accuracy.variance(mechanism, 6)
    sampled = sample_outcome(mechanism, 4000, rounds=6, seed=1)
    path = sample_average(mechanism, 6, 4000, seed=2)[:, -1]
    weighted = end @ accuracy.weights(mechanism)
    for sample in (sampled, path, weighted):
        assert np.var(sample) == pytest.approx(variance, rel=0.25)
    assert np.var(end, axis=0) == pytest.approx(np.diag(moments.second_moments(mechanism, 6)), rel=0.25)


def test_the_auditor_examines_it_on_the_lattice():
    report = examine(SERVER, rounds=4, transcripts=600, failure_probability=1e-6)
    assert report.passed, report
    assert "quadratic noise" in report.declared


def test_transcript_folders_know_its_name(tmp_path):
    execution = SERVER.execute(VALUES, SimulatedNoise(1).draw(LAW, 3, 4))
    write_folder(tmp_path, History.stack([execution]))
    assert read_folder(tmp_path)[0].mechanism.law == LAW


def session_of(keys, kind="quadratic", further=(), law=LAW):
    agents = ["a0", "a1", "a2"]
    own = {"law": kind, "mixing": 0.6, "noise": 4.0, "decay": None, "further": further}
    return small_session(keys, agents, lattice=Lattice.fitting(law, 4, 0, 10), **own)


@pytest.mark.parametrize(
    ("law", "further"),
    [(LAW, ()), (Harmonic(0.6, 4.0, 0.5), (("rate", 0.5),))],
    ids=["quadratic", "harmonic"],
)
def test_a_networked_session_runs_from_its_file_and_is_sound(tmp_path, law, further):
    keys = provision(tmp_path / "keys", ["coordinator", "a0", "a1", "a2"])
    write_session(session_of(keys, law.name, further, law), tmp_path / "s.toml")
    session = read_session(tmp_path / "s.toml")
    assert Session.decode(session.encode()).mechanism.law == session.mechanism.law == law
    assert session.account(0).total == pytest.approx(privacy.epsilon(law, 4), rel=1e-6)

    async def play():
        network = MemoryNetwork(session)

        async def one(member):
            async with member:
                return await member.result()

        agents = [
            Agent(session, 5.0, transport=network.transport(i), ledger=tmp_path / f"{i}.ledger",
                  identity=keys[f"a{i}"], cap=100.0, adjacency=1.0)
            for i in range(3)
        ]  # fmt: skip
        with TranscriptWriter(
            tmp_path / "t.jsonl", session, COORDINATOR, sign=keys["coordinator"].sign
        ) as writer:
            server = Coordinator(
                session, transport=network.transport(COORDINATOR), ledger=tmp_path / "c.ledger",
                identity=keys["coordinator"], takers=[writer],
            )  # fmt: skip
            async with asyncio.timeout(WAIT):
                return await asyncio.gather(one(server), *map(one, agents))

    results = asyncio.run(play())
    assert {result.rounds for result in results[1:]} == {4}
    assert all(result.spent <= session.account(0).total for result in results[1:])
    verdict = verify([tmp_path / "t.jsonl"])
    assert verdict.sound, [str(finding) for finding in verdict.findings]


WITH_RATE = {"law": "harmonic", "decay": None, "further": (("rate", 0.5),)}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"keepers": 2},
        {"graph": "path:3", "weights": "metropolis"},
        {"mixing": (0.5, 0.6, 0.7), "further": (("rate", (0.1, 0.2, 0.3)),)},
    ],
    ids=["server", "keepers", "weights", "each"],
)
def test_parameters_of_its_own_are_in_every_kind_of_session(more):
    made = known_session(3, 3, **WITH_RATE | more)
    assert "rate" in msgspec.msgpack.decode(made.canonical)["mechanism"]
    assert Session.decode(made.encode()) == made
    assert parse_session(session_text(made), "s").id == made.id
    assert made.id != known_session(3, 3, **WITH_RATE | more | {"further": (("rate", 0.75),)}).id
    assert np.all(made.mechanism.law.rate == np.array(dict(made.further)["rate"]))


def test_parameters_of_its_own_are_asked_for_and_no_others(tmp_path):
    text = session_text(known_session(**WITH_RATE))
    with pytest.raises(FileError, match=r"mechanism\.rate: must be given"):
        parse_session(text.replace("rate = 0.5\n", ""), "s")
    with pytest.raises(FileError, match=r"mechanism\.rote: is not known"):
        parse_session(text.replace("rate = 0.5\n", "rate = 0.5\nrote = 1\n"), "s")
    for further in ((), (("rote", 0.5),), (("rate", 0.5), ("rote", 0.5))):
        with pytest.raises(ParameterError, match="further parameters must be rate"):
            replace(known_session(**WITH_RATE), further=further)
    with pytest.raises(ParameterError, match="must be left out"):
        known_session(further=(("rate", 0.5),))
    asked = {"agents": 3, "mixing": 0.5, "noise": 1.0, "law": "harmonic"}
    with pytest.raises(ParameterError, match="harmonic noise needs rate"):
        Plan(**asked).mechanism()
    with pytest.raises(ParameterError, match=r"rote: its own are rate"):
        Plan(**asked, parameters={"rate": 0.5, "rote": 1}).mechanism()
    with pytest.raises(ParameterError, match="decay has a field of its own"):
        Plan(**asked, parameters={"decay": 0.5}).mechanism()
    with pytest.raises(ParameterError, match=r"rate: it has none"):
        Plan(**asked | {"law": "constant"}, parameters={"rate": 0.5}).mechanism()
    for wrong in ("rate", 0.5, [0.5], {1: 0.5}, {"rate": "much"}, (("rate", 1), ("rate", 2))):
        with pytest.raises(ParameterError):
            Plan(**asked, parameters=wrong)
    assert Plan(**asked, parameters={"rate": 0.5}).mechanism().law == Harmonic(0.5, 1.0, 0.5)
    call = {"rounds": 2, "runs": 2, "path": tmp_path / "s"}
    grid = {"agents": 3, "mixing": 0.5, "noise": 1.0, "law": "harmonic"}
    with pytest.raises(ParameterError, match="needs rate"):
        sweep(grid, **call)
    assert sweep(grid | {"rate": [0.1, 0.2]}, **call)["average_radius"].shape == (1, 1, 1, 1, 2)
    taken = dataclass(frozen=True, eq=False)(
        type(
            "Taken", (Law,), {"name": "taken", "scale": Quadratic.scale, "__annotations__": {"agents": float}}
        )
    )
    with pytest.raises(LawError, match=r"'agents' .*must have another name"):
        register(taken)


def test_a_law_of_an_installed_package_is_found_by_its_name(tmp_path, monkeypatch):
    (tmp_path / "cubic_noise.py").write_text(CUBIC)
    about = tmp_path / "cubic_noise-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: cubic-noise\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[tacit.laws]\ncubic-of-a-package = cubic_noise:Cubic\nother = cubic_noise:Cubic\n"
    )
    monkeypatch.setattr(registry, "_LAWS", dict(registry._LAWS))
    with pytest.raises(LawError, match="must be one of"):
        named("cubic-of-a-package")
    monkeypatch.syspath_prepend(tmp_path)
    words = "analyze --agents 3 --mixing 0.5 --noise 2 --rounds 3 --json --law cubic-of-a-package"
    found = CliRunner().invoke(main, words.split())
    assert json.loads(found.output)["law"] == "cubic-of-a-package"
    with pytest.raises(LawError, match="must be a law of this name"):
        named("other")


CUBIC = """
from dataclasses import dataclass
from typing import final
from tacit.core.law import Law

@final
@dataclass(frozen=True, eq=False)
class Cubic(Law):
    name = "cubic-of-a-package"

    def scale(self, u):
        return self.c / ((u + 1) * (u + 1) * (u + 1))
"""


def test_a_design_finds_the_least_noise_for_it():
    """For a number of rounds; parameters of its own are given."""
    made = design(agents=10, epsilon=1.0, rounds=12, law=Harmonic, mixing=0.6, parameters={"rate": 0.5})
    law = made.mechanism.law
    assert (law.sigma, law.rate) == (0.6, 0.5)
    assert privacy.epsilon(law, 12) <= 1.0 < privacy.epsilon(replace(law, c=law.c * (1 - 1e-7)), 12)
    with pytest.raises(ParameterError, match="harmonic noise needs rate"):
        design(agents=10, epsilon=1.0, rounds=12, law=Harmonic)
    with pytest.raises(Infeasible, match="tolerance"):  # not: what the law does not define
        design(agents=10, epsilon=1.0, rounds=2, law=Harmonic, mixing=0.6, parameters={"rate": 0.5})

    @final
    @dataclass(frozen=True, eq=False)
    class Chosen(Law):
        rate: float
        name = "chosen"
        scale = Harmonic.scale

        @classmethod
        def best(cls, sigma, epsilon, rounds=None):  # noqa: ARG003
            return cls(sigma, 9 / epsilon, 0.25)

    assert design(agents=10, epsilon=1.0, rounds=12, law=Chosen).mechanism.law.rate == 0.25
    given = design(agents=10, epsilon=1.0, rounds=12, law=Chosen, parameters={"rate": 0.5})
    assert given.mechanism.law.rate == 0.5
    flat = type("Flat", (Law,), {"name": "flat", "scale": lambda self, u: np.where(u > 0, 1.0, self.c)})
    with pytest.raises(LawError, match="'flat' does not define best"):
        design(agents=10, epsilon=1.0, rounds=12, law=flat)


def run_cli(words, *more):
    return CliRunner().invoke(main, [*words.split(), *more])


SIZE = "--agents 3 --mixing 0.6 --law harmonic"


def test_the_command_line_takes_its_parameters(tmp_path):
    """Each verb gives what Python gives.

    The verbs are analyze, simulate, audit, design, sweep and session new.
    """
    given = f"{SIZE} --noise 4 --parameter rate=0.5"
    told = json.loads(run_cli(f"analyze {given} --rounds 4 --json").stdout)
    assert told["epsilon"] == privacy.epsilon(Harmonic(0.6, 4.0, 0.5), 4)
    assert (told["law"], told["rate"]) == ("harmonic", 0.5)
    each = run_cli(f"analyze {SIZE} --noise 4 --parameter rate=0.5,0.2,0.5 --rounds 4 --json")
    assert json.loads(each.stdout)["epsilon"] == told["epsilon"]
    ran = run_cli(f"simulate {given} --rounds 4 --runs 5 --out {tmp_path / 'r.nc'}")
    assert ran.exit_code == 0, ran.output
    assert xr.load_dataset(tmp_path / "r.nc")["rate"] == 0.5
    audited = run_cli(f"audit {given} --rounds 3 --sessions 300 --simulated --json")
    assert audited.exit_code == 0, audited.output
    assert "harmonic noise" in json.loads(audited.stdout)["declared"]
    made = json.loads(run_cli(f"design {SIZE} --epsilon 1 --rounds 12 --parameter rate=0.5 --json").stdout)
    assert made["rate"] == 0.5
    swept = run_cli(
        "sweep --agents 3 --mixing 0.6 --noise 4 --law harmonic --parameter rate=0.1,0.5",
        *("--rounds", "4", "--runs", "2", "--json", "--out", str(tmp_path / "s.jsonl")),
    )
    assert swept.exit_code == 0, swept.output
    assert "0.5" in (tmp_path / "s.jsonl").read_text()

    keys = provision(tmp_path / "keys", ["coordinator", "a0", "a1", "a2"])
    lines = [
        f"{name} {urlsafe_b64encode(key.public_key).decode().rstrip('=')}\n" for name, key in keys.items()
    ]
    (tmp_path / "roster").write_text("".join(lines))
    asked = "session new --anyway --range 0:10 --loss 1 --rounds 12 --mixing 0.6 --law harmonic --json"
    where = ["--roster", str(tmp_path / "roster"), "--out", str(tmp_path / "s.toml")]
    new = run_cli(asked, "--parameter", "rate=0.5", *where)
    assert new.exit_code == 0, new.output
    session = read_session(tmp_path / "s.toml")
    assert dict(session.further) == {"rate": 0.5}
    assert 0.99 < session.account(0).total <= 1
    without = run_cli(asked, *where, "--force")
    assert without.exit_code == 2
    assert "harmonic noise needs rate" in without.output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (f"analyze {SIZE} --noise 4 --rounds 4", "harmonic noise needs rate"),
        (f"analyze {SIZE} --noise 4 --rounds 4 --parameter rote=1", "got rote"),
        (f"analyze {SIZE} --noise 4 --rounds 4 --parameter rate", "like rate=0.5"),
        (f"analyze {SIZE} --noise 4 --rounds 4 --parameter rate=much", "is not a finite number"),
        (f"analyze {SIZE} --noise 4 --rounds 4 --parameter rate=-1", "rate .* must be a positive number"),
        (f"analyze {SIZE} --noise 4 --rounds 4 --parameter rate=1 --parameter rate=2", "got rate twice"),
        ("analyze --agents 3 --mixing 0.6 --noise 4 --decay 0.7 --parameter rate=1", "got rate"),
        (f"simulate {SIZE} --noise 4 --rounds 4 --parameter mixing=1", "mixing has a field of its own"),
        (f"design {SIZE} --epsilon 1 --parameter rate=0.5", "does not define best for an endless run"),
        ("sweep --agents 3 --mixing 0.6 --noise 4 --parameter decay=0.5", "option of its own"),
    ],
)
def test_the_command_line_refuses_wrong_parameters(words, told):
    done = run_cli(words)
    assert done.exit_code == 2
    assert re.search(told, " ".join(done.output.split())), done.output


def test_a_law_that_nobody_registered_is_refused_in_a_sentence(tmp_path):
    keys = provision(tmp_path / "keys", ["coordinator", "a0", "a1", "a2"])
    text = session_text(session_of(keys)).replace('"quadratic"', '"cubic"')
    with pytest.raises(FileError, match="cubic"):
        parse_session(text, "s")
    with pytest.raises(LawError, match=r"must be one of fading, one-shot, constant, .*got 'cubic'"):
        named("cubic")


@pytest.mark.parametrize(
    ("method", "use"),
    [
        ("epsilons for an endless run", lambda: privacy.epsilon(LAW)),
        ("loss_parts for an endless run|epsilons for", lambda: epsilon_delta(LAW, None, 1.0, 1e-3)),
        ("terms for an endless run", lambda: accuracy.radius(SERVER, 0.05)),
        ("significant_rounds for", lambda: sample_outcome(SERVER, 5)),
        ("envelope for an endless run", lambda: convergence.rounds_to_agreement(GRAPH, 0.1, 1.0)),
        ("ratio", lambda: convergence.rate(GRAPH)),
        ("best for an endless run", lambda: design(agents=10, epsilon=1.0, law=Quadratic)),
    ],
)
def test_what_it_does_not_define_is_refused_by_name(method, use):
    with pytest.raises(LawError, match=f"'quadratic' does not define ({method})"):
        use()


def test_laws_are_final_named_and_start_at_their_noise():
    with pytest.raises(LawError, match="subclass of Law itself"):
        type("Slower", (Fading,), {"name": "slower"})
    nameless = type("Nameless", (Law,), {"scale": lambda self, u: self.c + 0 * u})
    with pytest.raises(LawError, match="Nameless does not define its name"):
        nameless(0.5, 1.0)
    late = type("Late", (Law,), {"name": "late", "scale": lambda self, u: self.c * (u + 2)})
    with pytest.raises(LawError, match="scale of update 0 must be c"):
        late(0.5, 1.0)
    negative = type("Negative", (Law,), {"name": "negative", "scale": lambda self, u: self.c - 10 * u})
    with pytest.raises(LawError, match="finite numbers of at least 0"):
        privacy.epsilon(negative(0.5, 1.0), 3)
    with pytest.raises(LawError, match="belongs to another law"):
        register(type("Other", (Law,), {"name": "fading", "scale": lambda self, u: self.c + 0 * u}))
