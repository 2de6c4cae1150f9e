"""CONTRIBUTING's five walks: each change is made in a copy, used there, and its files are listed.

What is generated (the fields of a session in docs/reference/wire.md) is not listed.
"""

import filecmp
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.doubles import known_key, known_series, known_session

from tacit.live.identity.keys import key_text

ROOT = Path(__file__).parents[1]


def walked(where, changes, check, *words):
    """Make the changes in a copy of the source, run the check there, and return what is changed or new.

    A change is the text of a new file, or a list of (a text, what is written before it).
    """
    # With what Python has compiled: it belongs to files of this size and time. Others may be writing more.
    ignore = shutil.ignore_patterns("*.pyc.*", "*.nb*")
    shutil.copytree(ROOT / "src", where / "src", ignore=ignore)
    for name, change in changes.items():
        path = where / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(change, str):
            assert not (ROOT / name).exists()
            path.write_text(change)
            continue
        text = (ROOT / name).read_text()
        for before, added in change:
            assert text.count(before) == 1, f"{name} must have {before!r} once"
            text = text.replace(before, added + before)
        path.write_text(text)
    changed = sorted(
        path.relative_to(where).as_posix()
        for path in where.rglob("*")
        if path.suffix in (".py", ".md") and not same(path, ROOT / path.relative_to(where))
    )
    done = subprocess.run(
        [sys.executable, "-c", HEAD + check, *words],
        cwd=where,
        env={
            **os.environ,
            "PYTHONPATH": f"{where / 'src'}{os.pathsep}{ROOT}",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return changed


def same(one, other):
    return other.exists() and filecmp.cmp(one, other, shallow=False)


HEAD = """
import sys
from pathlib import Path
from runpy import run_path
import tacit

assert Path(tacit.__file__).is_relative_to(Path.cwd()), tacit.__file__

def cli(*words):
    from click.testing import CliRunner
    from tacit.cli import main
    done = CliRunner().invoke(main, [*words])
    assert done.exit_code == 0, done.output
    return done.output
"""


# ---- a question -------------------------------------------------------------------------------------

ABOVE = '''"""Which share of the records is above each of several limits."""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, final

from tacit.core.question.base import Answer, Encoded, Part, Question


@final
@dataclass(frozen=True)
class Above(Question):
    """Shares above limits, which increase."""

    limits: tuple[float, ...]

    kind: ClassVar[str] = "above"
    box: ClassVar[tuple[float, float]] = (0.0, 1.0)

    @property
    def components(self):
        return len(self.limits)

    @property
    def diameter(self):
        return Fraction(len(self.limits))

    @property
    def stand_in(self):
        return (0,) * len(self.limits)

    def encode(self, record):
        return Encoded(tuple(int(record > limit) for limit in self.limits), False)

    def decode(self, mean, records, noise=None, failure_probability=0.05, *, together=False):
        return Answer(tuple(Part(f"above {a:g}", x) for a, x in zip(self.limits, mean)), records)
'''
TEST_ABOVE = """
import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.doubles import small_session
from tests.runtime.builders import limited, result_of

from tacit.core.mechanism.lattice import Lattice
from tacit.core.protocol.roster import COORDINATOR
from tacit.core.question import Above
from tacit.live.runtime.agent import Agent
from tacit.live.runtime.coordinator import Coordinator
from tacit.live.identity.identity import provision
from tacit.live.sessions.file import read_session, write_session
from tacit.live.transport.memory import MemoryNetwork

ABOVE = Above((1.0, 2.0))


def test_the_diameter_is_the_largest_distance():
    found = [ABOVE.encode(x).vector for x in (0, 1, 1.5, 2, 3)]
    assert ABOVE.diameter == max(sum(abs(a - b) for a, b in zip(x, y)) for x in found for y in found)


def test_a_session_asks_for_it():
    with TemporaryDirectory() as folder:
        place, names, records = Path(folder), ["a0", "a1", "a2", "a3"], [0.5, 1.5, 1.75, 9.0]
        keys = provision(place / "keys", ["coordinator", *names])
        grid = Lattice(*ABOVE.box, state_exponent=-60)
        quiet = {"noise": 2.0**-12, "lattice": grid, "adjacency": ABOVE.adjacency, "components": 2}
        quiet |= {"law": "one-shot", "decay": None, "rounds": 1}
        write_session(small_session(keys, names, asked=ABOVE, **quiet), place / "s.toml")
        session = read_session(place / "s.toml")
        assert session.question == ABOVE

        async def run():
            wires = MemoryNetwork(session)
            seats = {"coordinator": COORDINATOR, **{name: i for i, name in enumerate(names)}}
            own = {
                name: {"transport": wires.transport(i), "ledger": place / name, "identity": keys[name]}
                for name, i in seats.items()
            }
            members = [Coordinator(session, **own["coordinator"])]
            members += [Agent(session, x, cap=1e9, **own[name]) for name, x in zip(names, records)]
            return await asyncio.gather(*map(result_of, members))

        for result in limited(run())[1:]:
            assert abs(result.feedback - [0.75, 0.25]).max() < 0.05
"""
QUESTION = {
    "src/tacit/core/question/above.py": ABOVE,
    "src/tacit/core/question/__init__.py": [
        ("from tacit.core.question.base import", "from tacit.core.question.above import Above\n"),
        ('    "Answer",\n', '    "Above",\n'),
        ("Mean, Sum, Count, Histogram, Quantile", "Above, "),
    ],
    "tests/question/test_above.py": TEST_ABOVE,
    "docs/reference/api/question.md": [
        ("Encoded Answer", "Above "),
        ("| `count` |", "| `above` | `limits`: array of k reals | 0 to 1 | k | k |\n"),
    ],
}
USES_QUESTION = """
import tacit.core.question
tests = run_path("tests/question/test_above.py")
tests["test_the_diameter_is_the_largest_distance"]()
tests["test_a_session_asks_for_it"]()
assert "Above" in tacit.core.question.__all__
assert "Above" in Path("docs/reference/api/question.md").read_text().split()
"""


def test_a_question(tmp_path):
    assert walked(tmp_path, QUESTION, USES_QUESTION) == sorted(QUESTION)
    assert len(QUESTION) == 4


# ---- an agent with its own dynamics -----------------------------------------------------------------

TRUCK = '''"""A truck with an engine lag: speed and acceleration, of which the speed is said."""

from fractions import Fraction
from typing import final

import numpy as np

from tacit.core.motion.base import Motion

A, B = np.array([[1, 0.25], [-0.25, 0.5]]), np.array([0, 0.25])


@final
class Truck(Motion):
    """z+ = Az + By; two numbers, of which the first is said."""

    name = "truck"
    lag = 8.0
    fineness = 1 / 12

    def move(self, state, y, axis=0):
        return state @ A.T + np.asarray(y)[..., None] * B

    def say(self, state):
        return state[..., 0]

    def of_agent(self, i):
        return self

    def influence(self, u):
        return (1 + u / 3) * 0.75**u

    def move_whole(self, state, y):
        return (np.array([4 * state[0] + state[1], -state[0] + 2 * state[1] + y]) + 2) >> 2

    def steps_apart(self, start, components):
        row, gain = (Fraction(1), Fraction(0)), Fraction(0)
        while True:
            yield -int(-(abs(row[0]) * start + gain) // 1)
            gain += abs(row[0]) + abs(row[1])
            row = row[0] - row[1] / 4, row[0] / 4 + row[1] / 2

    def distances(self, start, rounding):
        raise self.undefined("distances", "how far apart two states are")

    def reach(self, start, feedback):
        return 4 * max(start, feedback)
'''
LEVEL = '''"""Constant noise for trucks."""

from typing import final

from tacit.core.law.base import Law
from tacit.core.motion import Truck


@final
class TruckNoise(Law):
    """As much noise in every round; agents are trucks."""

    name = "truck-noise"
    motion = Truck()

    def scale(self, u):
        return self.c + 0.0 * u
'''
TEST_TRUCK = """
import numpy as np
from tests.doubles import known_session

import tacit
from tacit.base.errors import MotionError
from tacit.core.law import register
from tacit.core.law.truck_noise import TruckNoise
from tacit.core.mechanism import ClientServer
from tacit.core.mechanism.lattice import Lattice
from tacit.core.noise.accounting import account
from tacit.core.theory.privacy import epsilon

register(TruckNoise)
LAW = TruckNoise(0.5, 1.0)  # its mixing is not used
TRUCKS = ClientServer(LAW, agents=10)


def test_the_loss_is_known():
    assert abs(epsilon(LAW, 50) - 7.999957714649653) < 1e-13
    found = account(Lattice(0, 1, state_exponent=-40, bits=38).agent(LAW), 50).total
    assert epsilon(LAW, 50) <= found <= epsilon(LAW, 50) * (1 + 1e-9)


def test_trucks_agree():
    starts = np.random.default_rng(5).normal(size=(10, 2))
    run = TRUCKS.execute(starts, np.zeros((400, 10)))
    np.testing.assert_allclose(run.x[-1], np.mean(starts @ [1, 0.5]), rtol=1e-9)


def test_the_rest_is_refused():
    asked = {
        "analyze": lambda: tacit.analyze(TRUCKS, rounds=9),
        "simulate": lambda: tacit.simulate(TRUCKS, np.zeros(10), rounds=9),
        "design": lambda: tacit.design(agents=10, loss=1, rounds=20, law=TruckNoise),
        "a session": lambda: known_session(3, law="truck-noise", decay=None),
    }
    for what, ask in asked.items():
        try:
            ask()
        except MotionError:
            continue
        raise AssertionError(f"{what} works: move it to what works, here and in CONTRIBUTING")
"""
MOTION = {
    "src/tacit/core/motion/truck.py": TRUCK,
    "src/tacit/core/motion/__init__.py": [
        ("\n__all__ =", "from tacit.core.motion.truck import Truck\n"),
        ("\n]\n", '\n    "Truck",'),
    ],
    "src/tacit/core/law/truck_noise.py": LEVEL,
    "tests/motion/test_truck.py": TEST_TRUCK,
    "docs/reference/api/motion.md": [(" -->", " Truck")],
}
USES_MOTION = """
import tacit.core.motion
tests = run_path("tests/motion/test_truck.py")
for name in ("test_the_loss_is_known", "test_trucks_agree", "test_the_rest_is_refused"):
    tests[name]()
page = Path("docs/reference/api/motion.md").read_text().split()
assert set(tacit.core.motion.__all__) <= set(page)
"""


def test_own_dynamics(tmp_path):
    assert walked(tmp_path, MOTION, USES_MOTION) == sorted(MOTION)
    assert len(MOTION) <= 6


# ---- an option that reaches the session file --------------------------------------------------------

OPTION = {
    "src/tacit/core/protocol/schema.py": [
        (
            "class AnySession(",
            "class Shape(FieldTable, frozen=True):\n"
            '    kind: Annotated[str, about("Which one.")] = "plain"\n\n\n',
        ),
        (
            "    deadlines: Annotated[Deadlines",
            '    pattern: Annotated[\n        str, about("How", option="pattern", verbs=("session", "hub"))\n'
            '    ] = "usual"\n'
            '    figure: Annotated[Shape, about("Which.")] = msgspec.field('
            'name="shape", default_factory=Shape)\n'
            '    scales: Annotated[tuple[Real, ...], about("Of each update.")] = ()\n',
        ),
    ],
    "src/tacit/core/protocol/session.py": [
        (
            "    name: str\n",
            '    pattern: str = "usual"\n    figure: Shape = field(default_factory=Shape)\n'
            "    scales: tuple[float, ...] = ()\n",
        ),
        ("from tacit.core.protocol.series", "from tacit.core.protocol.schema import Shape\n"),
    ],
    "tests/protocol/test_schema.py": [
        ('    "question": None,\n', '    "pattern": "usual",\n'),
        ('    "weights": None,\n}', '    "scales": [],\n    "shape": {},\n    "shape.kind": "plain",\n'),
    ],
}
USES_OPTION = """
import json
from tacit.cli.reference import session_fields
from tacit.core.protocol.session import Session
from tacit.live.fleet.orders import SessionOrder, designed, instance
from tacit.live.sessions.file import read_session, session_text

for name, data in json.loads(sys.argv[1]).items():
    old = Session.decode(bytes.fromhex(data["bytes"]))
    assert old.id.hex() == data["id"], name
    assert (old.pattern, old.figure.kind) == ("usual", "plain")
run_path("tests/protocol/test_schema.py")["test_a_default_is_wire_format_for_ever"]()

made = ["session", "new", "--roster", "keys", "--loss", "1", "--range", "0:10", "--anyway"]
cli(*made, "--out", "plain.toml")
cli(*made, "--pattern", "waves", "--out", "waves.toml")
waves = read_session("waves.toml")
assert waves.pattern == "waves" and read_session("plain.toml").pattern == "usual"
text = Path("waves.toml").read_text()
assert 'pattern = "waves"' in text and "[shape]" in text
text = text.replace('kind = "plain"', 'kind = "round"')
text = text.replace("topology =", "scales = [2, 0.5]\\ntopology =")
Path("round.toml").write_text(text)
other = read_session("round.toml")
assert other.scales == (2.0, 0.5) and "scales = [2.0, 0.5]" in session_text(other)
assert other.own_words == ()
assert other.figure.kind == "round" and other.id != waves.id
assert Session.decode(other.encode()) == other
assert b"shape" in other.canonical
assert b"shape" not in waves.canonical and b"pattern" in waves.canonical
cli("session", "check", "round.toml")
assert "--pattern" in cli("hub", "run", "--help") and "| `shape.kind` | all |" in session_fields()
order = SessionOrder({"loss": 1.0, "low": 0.0, "high": 10.0}, settings={"pattern": "waves"})
hub = designed(order, waves.roster, (), waves.coordinator)
assert instance(order, hub, "one", waves.roster, (), now=0.0).pattern == "waves"
"""


def test_an_option_that_reaches_the_session_file(tmp_path):
    """File, bytes, options and reference page follow from the schema, and no id changes."""
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
    assert walked(tmp_path, OPTION, USES_OPTION, json.dumps(old)) == sorted(OPTION)
    assert len(OPTION) == 3


# ---- a transport ------------------------------------------------------------------------------------

PIPE = '''"""A transport of 25 lines: everyone writes straight into the others' inboxes."""

from collections import defaultdict

from tacit.live.transport.base import Inbox, Network


class Pipes:
    ends = defaultdict(dict)

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
'''
TRANSPORT = {
    "src/tacit/live/transport/pipe.py": PIPE,
    "src/tacit/live/transport/schemes.py": [('"wss": (', '"pipe": ("tacit.live.transport.pipe", "Pipes"), ')],
}
USES_TRANSPORT = """
import asyncio
from tacit.live.runtime.agent import Agent
from tacit.live.runtime.coordinator import Coordinator
from tacit.live.identity.identity import provision
from tacit.live.sessions.file import read_with_addresses, write_session
from tests.doubles import small_session
from tests.runtime.builders import limited, result_of

names, where = ["a0", "a1"], "pipe://here:1"
keys = provision("keys", ["coordinator", *names])
session = small_session(keys, names, rounds=3)
write_session(session, "s.toml", addresses={"coordinator": where})
assert read_with_addresses("s.toml")[1] == {"coordinator": where}

async def run():
    def own(name):
        return {"ledger": f"{name}.ledger", "identity": keys[name]}

    members = [Coordinator(session, listen=where, **own("coordinator"))]
    members += [Agent(session, 5.0, cap=100.0, connect=where, **own(name)) for name in names]
    return await asyncio.gather(*map(result_of, members))

assert all(result.finished for result in limited(run()))
"""


def test_a_transport(tmp_path):
    """Endpoints and session files with its scheme work."""
    assert walked(tmp_path, TRANSPORT, USES_TRANSPORT) == sorted(TRANSPORT)
    assert len(TRANSPORT) == 2


# ---- a law ------------------------------------------------------------------------------------------

QUADRATIC = '''"""Noise that fades like 1/(t+1)^2."""

from dataclasses import dataclass
from typing import final

from tacit.core.law.base import Law


@final
@dataclass(frozen=True, eq=False)
class Quadratic(Law):
    """Fresh noise every round that fades like c/(t+1)^2."""

    name = "quadratic"

    def scale(self, u):
        return self.c / ((u + 1) * (u + 1))
'''
LAW = {
    "src/tacit/core/law/quadratic.py": QUADRATIC,
    "src/tacit/core/law/registry.py": [
        ("\n_LAWS:", "from tacit.core.law.quadratic import Quadratic\n"),
        ("    Constant.name:", "    Quadratic.name: Quadratic,\n"),
    ],
}
USES_LAW = """
import json
from tacit.core.mechanism.lattice import Lattice
from tacit.live.sessions.file import parse_session, session_text
from tests.doubles import known_session

words = "analyze --agents 3 --mixing 0.6 --noise 4 --rounds 4 --law quadratic --json"
found = json.loads(cli(*words.split()))
exact = sum(0.4**t * (t + 1) ** 2 / 4 for t in range(4))
assert found["law"] == "quadratic" and exact <= found["epsilon"] <= exact * (1 + 1e-12)
made = known_session(3, law="quadratic", decay=None)
assert parse_session(session_text(made), "s").mechanism.law.name == "quadratic"
"""


def test_a_law(tmp_path):
    """It is known by name to commands and session files. More of it: tests/law/test_own_law.py."""
    assert walked(tmp_path, LAW, USES_LAW) == sorted(LAW)
    assert len(LAW) == 2
