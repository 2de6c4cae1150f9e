"""Sessions of real processes over real sockets."""

import os
from types import SimpleNamespace

import pytest

from tacit.cli.crew import Crew, free_ports
from tacit.mechanism.lattice import Lattice
from tacit.protocol.roster import Member
from tacit.protocol.session import Deadlines, Session
from tacit.runtime.identity import provision
from tacit.runtime.session import write_session


def pytest_configure(config):
    config.addinivalue_line("markers", "long: takes minutes; runs only where TACIT_LONG is set")


def pytest_collection_modifyitems(items):
    if "TACIT_LONG" not in os.environ:
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason="takes minutes: set TACIT_LONG=1"))


@pytest.fixture
def crew(tmp_path):
    """Return a maker of crews; whatever happens, their processes end with the test."""
    made = []

    def make(agents=4, rounds=12, *, edges=None, pace=0.1, deadlines=None, cap=10.0, together=1):
        folder = tmp_path / f"crew{len(made)}"
        folder.mkdir(mode=0o700)
        names = [f"agent-{i}" for i in range(agents)]
        first = [] if edges else ["coordinator"]
        keys = provision(
            folder / "keys", [*first, *names, "tap"], listening=[*first, *(names if edges else [])]
        )
        session = Session(
            name="test",
            roster=tuple(Member(name, keys[name].public_key) for name in names),
            coordinator=None if edges else keys["coordinator"].public_key,
            edges=edges,
            mixing=0.5,
            noise=2.0,
            decay=0.8,
            rounds=rounds,
            lattice=Lattice(0, 10),
            deadlines=deadlines or Deadlines(round=20.0, start=20.0, repeat=0.3),
        )
        where = dict(zip(first or names, free_ports(len(first or names)), strict=True))
        addresses = {name: f"tls/127.0.0.1:{port}" for name, port in where.items()}
        write_session(session, folder / "session.toml", addresses=addresses)
        values = {name: float(i % 10) for i, name in enumerate(names)}
        one = Crew(folder, session, values, cap, together, pace)
        made.append(one)
        return SimpleNamespace(
            run=one, session=session, keys=keys, addresses=addresses, folder=folder, names=names
        )

    yield make
    for one in made:
        one.stop_all()
