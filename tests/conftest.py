"""For all tests: their order and marks; and sessions played by hand, for transcripts and their judges."""

import functools
import gc
import os
import re
import signal
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import settings

from tacit.core.law import Fading, OneShot
from tacit.core.mechanism.lattice import Lattice

# Load must not fail a test, and what lands must not depend on luck; elsewhere examples are new each time.
settings.register_profile("any load", deadline=None, derandomize="CI" in os.environ, max_examples=50)
settings.load_profile("any load")

os.umask(0o022)  # tests look at who may read a file, whatever the user's own umask is

# A shell ignores Ctrl-C for its background jobs, and so would every process that a test starts and stops.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

HERE = Path(__file__).resolve().parent
KERNELS = "tests/simulation/test_engine.py"
"""Uses all kernels: compiled by one worker at the beginning, they are read by the others later."""

FIRST = (
    KERNELS,
    *(
        "tests/test_docs.py::test_the_site",
        "tests/studio/",
        "tests/plots/test_figures.py",
        "tests/simulation/",
    ),
    *("tests/test_docs.py", "tests/test_notebooks.py", "tests/audit/", "tests/cli/"),
)
"""Where most of the time goes: these begin first, so that no worker is left alone with one at the end."""

WAITS = ("tests/end_to_end/", "tests/runtime/")
"""Sessions and fleets mostly wait, so they run beside what computes: a few at any time."""

SHARES = re.compile(r'scope="(module|session)"|\b(browser|cluster)\b|^(@|plan = )cache\b', re.M)
"""A module with one of these shares something expensive between its tests."""

STARTS = re.compile(
    r"\b(asyncio|Popen|threading|threads|concurrent\.futures|fork|cluster|machines|crew|browser|base_install)\b"
    r"|def \w+\([^)]*\buser\b"  # the fixture that opens a page
)
"""A module with one of these words has things that run side by side; so have all in end_to_end.

Not `subprocess.run`: it waits for its process, so nothing runs beside it.
"""

LIVE = re.compile(
    r"\btacit (agent|coordinate|demo|hub serve|join|keep|peer|status|studio|sweep)\b|\bmake run\b"
)
"""A page with one of these commands runs a session, or workers."""


@functools.cache
def together(file):
    """Say with which other tests those of a module stay on one worker; None for each on its own."""
    if file.startswith("tests/examples/"):
        return "tests/examples"  # its fixtures are for all of them
    text = (HERE.parent / file).read_text()
    if "doubles.postgres" in text:
        return "tests/postgres"  # one server for all of them
    return file if file == KERNELS or SHARES.search(text) else None


def pytest_xdist_make_scheduler(config, log):
    """Share browsers, clusters and other fixtures of modules: on one worker they are made once.

    pytest-xdist has marks for this, which it ignores since pytest 9.2 (its issue 1386). It would also begin
    with the modules that have the most tests, whatever they take.
    """
    from xdist.scheduler import LoadGroupScheduling

    config.option.loadscopereorder = False

    class Scheduler(LoadGroupScheduling):
        def _split_scope(self, nodeid):
            return together(nodeid.partition("::")[0]) or nodeid

    return Scheduler(config, log)


@functools.cache
def runs_side_by_side(path):
    return path.parent.name == "end_to_end" or STARTS.search(path.read_text()) is not None


def is_concurrent(item):
    if item.path.name == "test_wrong_types.py":
        return False  # names options like `threads`, and starts nothing
    if item.path.name == "test_docs.py":
        page = item.callspec.params.get("page") if hasattr(item, "callspec") else None
        runs = item.originalname == "test_everything_on_a_page_runs"
        return runs and LIVE.search((HERE.parent / page).read_text()) is not None
    return runs_side_by_side(item.path)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect garbage seldom, and leave out what all tests have imported: it would be looked at again."""
    gc.disable()
    found = yield
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()
    return found


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark what runs side by side (for `make test-repeat`), and put long tests first."""
    for item in items:
        if is_concurrent(item):
            item.add_marker(pytest.mark.concurrent)
    items.sort(key=lambda item: [not item.nodeid.startswith(first) for first in FIRST])
    items[:] = spread([item for item in items if item.nodeid.startswith(WAITS)],
                      [item for item in items if not item.nodeid.startswith(WAITS)])  # fmt: skip


def spread(few, many):
    """Put a few items among many, evenly and none near the end."""
    step, rest, found = max(1, 3 * len(many) // (4 * len(few) or 1)), iter(few), []
    for place, item in enumerate(many):
        found += [*islice(rest, place % step == 0), item]
    return [*found, *rest]


def pytest_xdist_auto_num_workers():
    """Two more than there are cores: tests wait for half of their time. Each imports all, in 4 s."""
    return len(os.sched_getaffinity(0)) + 2 if hasattr(os, "sched_getaffinity") else None


def play(
    n=4,
    rounds=4,
    *,
    edges=None,
    weights=None,
    one_shot=False,
    law=None,
    components=1,
    absent=None,
    seed=1,
    quorum=1,
    alone=(),
    picks=False,
):
    """Play a session. Returns all that members would keep.

    `absent` says who says nothing in which round. On a graph those in `alone` average themselves only.
    A coordinator that `picks` uses no more messages than the quorum: those with the highest numbers.
    """
    from tacit.core.law import named
    from tacit.core.protocol.codec import Codec, as_array, as_numbers, combined, digest, history
    from tacit.core.protocol.messages import COORDINATOR, NOTHING_HEARD, Feedback, Report
    from tacit.core.protocol.places import LastUsed
    from tacit.core.protocol.records import Closed, Moved, Spoke
    from tacit.core.protocol.roster import Member
    from tacit.core.protocol.session import LAST_EXPIRY, Session

    keys = [Ed25519PrivateKey.from_private_bytes(bytes([i + 1]) * 32) for i in range(n + 1)]
    public = [key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw) for key in keys]
    parameters = OneShot(0.5, 1.0) if one_shot else Fading(0.5, 1.0, 0.8)
    if law is not None:  # for a whole domain
        parameters = named(law).best_of(0.5, loss=1.0, low=0.0, domain=1.0)
    shadowed = parameters.shadowed
    session = Session(
        name="played",
        roster=tuple(Member(f"agent{i}", key) for i, key in enumerate(public[:n])),
        coordinator=public[n] if edges is None else None,
        edges=edges,
        weights=weights,
        law=parameters.name,
        mixing=0.5,
        noise=float(parameters.c),
        decay=None if shadowed else 0.8,
        further=tuple((word, getattr(parameters, word)) for word in parameters.further()),
        rounds=rounds,
        lattice=Lattice.fitting(parameters, rounds, 0, 1),
        components=components,
        quorum=quorum,
        start=quorum,
        expires=LAST_EXPIRY,
    )
    codec, lattice = Codec(session), session.lattice
    rng, absent = np.random.default_rng(seed), absent or {}
    agents = [session.lattice_agent(i) for i in range(n)]
    values = rng.random((n, components))
    states = [lattice.start(list(v)) if components > 1 else lattice.start(float(v[0])) for v in values]
    shadows: list = [None] * n
    heard = [NOTHING_HEARD] * n
    kept: dict = {i: [] for i in range(-1, n)}
    before, reports_by_round, feedback, state = NOTHING_HEARD, [], [], LastUsed(n)
    for t in range(rounds):
        reports = {}
        for i in sorted(set(range(n)) - set(absent.get(t, ()))):
            agent = agents[i]
            width = agent.draw_scale(t) if agent.speaks(t) else 0
            draw = [int(v) for v in np.rint(rng.laplace(0, width, components))] if width else [0] * components
            draw = (
                [int(v) for v in rng.integers(0, int(width), components)] if parameters.two_valued else draw
            )
            basis = states[i] if shadows[i] is None else shadows[i]
            x = as_numbers(agent.report(basis, t, as_array(draw)))
            exponent = agent.message_exponent(t)
            if shadowed and shadows[i] is None:
                shadows[i] = lattice.lifted(as_array(x), exponent)
            body = Report(t, exponent, codec.pack(x), heard[i])
            reports[i] = codec.seal(i, body, keys[i].sign)
            kept[i].append(Spoke(t, reports[i], 0.1))
        reports_by_round.append(reports)

        def mean(used, reports=reports, by=None):
            opened = [codec.open(reports[i]) for i in used]
            counts = None if by is None else session.counts(by, used)
            return as_numbers(lattice.mean([codec.lifted(m) for m in opened], counts))

        if edges is None:
            said = {i: codec.open(reports[i]).numbers[0] for i in reports}
            used = tuple(sorted(sorted(said, key=lambda i: said[i])[-(quorum if picks else n) :]))
            y = mean(used)
            digests = combined(digest(reports[i]) for i in used)
            state.use(t, {i: digest(reports[i]) for i in used})
            told = len(used), state.members, state.root
            body = Feedback(t, codec.pack(y), *told, digests, before)
            frame = codec.seal(COORDINATOR, body, keys[n].sign)
            before = digest(frame)
            feedback.append(frame)
            kept[-1].append(Closed(t, frame, used, tuple(reports[i] for i in used)))
        for i in range(n):
            if edges is not None:
                used = tuple(j for j in sorted({i, *session.neighbours(i)}) if j in reports)
                used = (i,) if i in alone else used
                y = mean(used, by=i)
                heard[i] = history(heard[i], (digest(reports[j]) for j in used))
                frames = tuple(reports[j] for j in used)
            else:
                heard[i], frames = before, (frame,)
            states[i] = agents[i].update(states[i], as_array(y))
            if shadows[i] is not None:
                shadows[i] = agents[i].update(shadows[i], as_array(y))
            kept[i].append(Moved(t, frames, used if edges else (), codec.pack(y), b"", b""))
    return SimpleNamespace(
        session=session,
        codec=codec,
        keys=keys,
        values=values,
        states=states,
        kept=kept,
        reports=reports_by_round,
        feedback=feedback,
    )


@pytest.fixture(scope="session")
def warm():
    """Return a parent that forks processes of tacit."""
    from tests.warm import Parent

    made = Parent()
    yield made
    made.close()


@pytest.fixture
def forked(warm, monkeypatch):
    """Fork the members that `Processes` start: see tests/warm.py."""
    from tests.doubles import processes

    monkeypatch.setattr(processes, "subprocess", warm.subprocess)


@pytest.fixture
def forks(request, warm, monkeypatch):
    """Fork the programs that this test module runs by `subprocess`."""
    monkeypatch.setattr(request.module, "subprocess", warm.subprocess)


@pytest.fixture(scope="session")
def played():
    """Return `play`, remembering sessions by what was asked for."""
    memory: dict = {}

    def once(**asked):
        key = repr(sorted(asked.items()))
        if key not in memory:
            memory[key] = play(**asked)
        return memory[key]

    return once
