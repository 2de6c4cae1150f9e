"""What must work where no extra is installed. A process of its own, started by tests/test_extras.py.

The packages of the extras cannot be imported here. Sessions run in memory: with a server, with keepers,
and on a graph whose weights differ by direction.
"""

import asyncio
import importlib.abc
import json
import sys
import time
from pathlib import Path

REFUSED = set(sys.argv[1].split(","))
FOLDER = Path(sys.argv[2])


class Refusing(importlib.abc.MetaPathFinder):
    """Refuses packages as if they were not installed."""

    def find_spec(self, fullname, path=None, target=None):  # noqa: ARG002
        if fullname.partition(".")[0] in REFUSED:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


sys.meta_path.insert(0, Refusing())

from click.testing import CliRunner  # noqa: E402

import tacit  # noqa: E402
from tacit.cli import main  # noqa: E402
from tacit.core.graph import Graph  # noqa: E402
from tacit.core.mechanism.lattice import Lattice  # noqa: E402
from tacit.core.protocol.roster import COORDINATOR, Member  # noqa: E402
from tacit.core.protocol.session import Deadlines, Session  # noqa: E402
from tacit.live.identity.identity import provision  # noqa: E402
from tacit.live.runtime.agent import Agent  # noqa: E402
from tacit.live.runtime.coordinator import Coordinator  # noqa: E402
from tacit.live.runtime.keeper import Keeper  # noqa: E402
from tacit.live.runtime.transcript import TranscriptWriter  # noqa: E402
from tacit.live.sessions.file import read_session, write_session  # noqa: E402
from tacit.live.transport.memory import MemoryNetwork  # noqa: E402

AGENTS, KEEPERS = ["a", "b", "c"], ["north", "south"]
LAW = tacit.Fading(0.8, 10, 0.6)
VALUES = dict(zip(AGENTS, [1.0, 4.0, 7.0], strict=True))


def tacit_cli(*words, code=0):
    """Run a command; return what it printed."""
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exit_code == code, (words, done.output)
    return done.output


def made_keys(name):
    """Make keys of its own for a session: two ledgers of one key would be refused."""
    return provision(FOLDER / name, ["coordinator", *AGENTS, *KEEPERS], listening=["coordinator"])


def sessions():
    """Return three sessions, each with the keys of its members."""
    every = {name: made_keys(name) for name in ("served", "kept", "directed")}
    for name, keys in every.items():
        yield made_session(name, keys), keys


def made_session(name, keys):
    about = {
        "name": name,
        "roster": tuple(Member(name, keys[name].public_key) for name in AGENTS),
        "mixing": 0.5,
        "noise": 2.0,
        "decay": 0.8,
        "rounds": 3,
        "lattice": Lattice(0, 10),
        "expires": int(time.time()) + 86_400,
        "deadlines": Deadlines(round=300.0, start=300.0, repeat=0.2),
    }
    if name == "directed":
        edges = tuple((int(i), int(j)) for i, j in Graph.from_name("ring:3").edges())
        # Agent 0 does not hear agent 1, which hears it.
        rows = ((0, 0, 1), (0, 2, 2), (1, 0, 1), (1, 1, 1), (1, 2, 1), (2, 0, 1), (2, 1, 1), (2, 2, 3))
        return Session(coordinator=None, edges=edges, weights=rows, **about)
    about |= {"coordinator": keys["coordinator"].public_key, "start": 3}
    if name == "kept":
        about["keepers"] = tuple(Member(name, keys[name].public_key) for name in KEEPERS)
    return Session(**about)


async def run(session, keys):
    """Run a session in memory and return every agent's result."""
    network, members = MemoryNetwork(session), []
    trust = {keeper.name: keeper.key for keeper in session.keepers}

    def about(name, number):
        ledger = FOLDER / f"{session.name}-{name}.ledger"
        return {"ledger": ledger, "identity": keys[name], "transport": network.transport(number)}

    if session.coordinator is not None:
        writer = TranscriptWriter(
            FOLDER / f"{session.name}.jsonl", session, COORDINATOR, sign=keys["coordinator"].sign
        )
        members.append(Coordinator(session, takers=[writer], **about("coordinator", COORDINATOR)))
    for j, name in enumerate(KEEPERS if session.keepers else []):
        members.append(Keeper(session, **about(name, session.n + j)))
    for i, name in enumerate(AGENTS):
        members.append(Agent(session, VALUES[name], cap=100.0, trust=trust, **about(name, i)))
    async with asyncio.timeout(300):
        for member in members:
            await member.__aenter__()
        results = await asyncio.gather(*(member.result() for member in members))
        for member in members:
            await member.__aexit__(None, None, None)
    assert all(result.finished for result in results), session.name
    return results


def verbs_that_need_an_extra():
    """Return commands that cannot run, with the extra that each must name."""
    law = ["--mixing", "0.8", "--noise", "10", "--decay", "0.6"]
    promise = ["--epsilon", "1", "--mixing", "0.5"]
    yield ["analyze", "--graph", "ring:5", *law], "theory"
    yield ["design", "--graph", "ring:5", *promise], "theory"
    yield ["graph", "ring:5"], "theory"
    yield ["simulate", "--agents", "5", *law], "simulation"
    yield ["audit", "--agents", "5", *law], "simulation"
    yield ["compare", "--graph", "ring:5", "--epsilon", "1"], "simulation"
    yield ["sweep", "--agents", "3", *promise, "--out", FOLDER / "sweep.nc"], "simulation"
    yield ["figure", "radius"], "plots"
    yield ["figure", "trajectories"], "plots"
    yield ["studio"], "studio"


def commands():
    """Run what an operator runs, as commands."""
    everyone = ["coordinator", *AGENTS]
    (FOLDER / "certificates").mkdir()
    tacit_cli("keys", "authority", "--out", FOLDER / "authority", "--name", "plant")
    for name in everyone:
        host = ["--host", "127.0.0.1"] if name == "coordinator" else []
        tacit_cli("keys", "new", name, "--out", FOLDER / name, *host)
        made = FOLDER / "certificates" / f"{name}.crt"
        listen = ["--listen"] if host else []
        request = FOLDER / name / "request.pem"
        tacit_cli("keys", "sign", request, "--authority", FOLDER / "authority", "--out", made, *listen)
        tacit_cli("keys", "install", made, "--keys", FOLDER / name)
    new = FOLDER / "new.toml"
    asked = ["--range", "0:50", "--adjacency", 1, "--loss", 1, "--mixing", 0.8]
    tacit_cli("session", "new", "--roster", FOLDER / "certificates", *asked, "--out", new)
    assert read_session(new).n == len(AGENTS)
    assert "radius" in tacit_cli("session", "check", new)
    assert "100" in tacit_cli("ledger", "show", FOLDER / "served-a.ledger")
    tacit_cli("status", "1", code=2)  # nobody answers there, and that is all


def main_test():
    """Run everything; a failure is an assertion."""
    every = list(sessions())

    async def run_all():
        await asyncio.gather(*(run(session, keys) for session, keys in every))

    asyncio.run(run_all())
    for session, _ in every:
        file = FOLDER / f"{session.name}.toml"
        write_session(session, file)
        assert read_session(file).id == session.id
        if session.coordinator is not None:
            words = ("verify", FOLDER / f"{session.name}.jsonl", "--session", file, "--json")
            assert json.loads(tacit_cli(*words))["verdict"] == "sound"
    commands()
    for words, extra in verbs_that_need_an_extra():
        said = tacit_cli(*words, code=2)
        assert f"tacit {words[0]} needs the extra {extra} here (" in said, said
        assert said.endswith(f"pip install '.[{extra}]'.\n"), said
        assert said.count("\n") == 1, said
    for call, extra in (
        (lambda: tacit.simulate(tacit.ClientServer(LAW, 3), [1.0, 2, 3], rounds=2), "simulation"),
        (lambda: tacit.compare, "simulation"),
        (lambda: tacit.examine, "simulation"),
        (lambda: tacit.design(graph="ring:5", epsilon=1.0, mixing=0.5), "theory"),
        (
            lambda: tacit.analyze(tacit.Distributed(LAW, Graph.from_name("ring:5"))),
            "theory",
        ),
    ):
        try:
            call()
        except ImportError as error:
            assert isinstance(error, tacit.TacitError), error  # noqa: PT017
            assert f"'.[{extra}]'" in str(error), error  # noqa: PT017
        else:
            raise AssertionError(extra)
    assert not REFUSED & {name.partition(".")[0] for name in sys.modules}


main_test()
