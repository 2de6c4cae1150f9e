"""The verbs that run a member share one way to do it, and read each file once."""

from collections import Counter
from dataclasses import replace

import pytest
from tests.doubles import small_session

from tacit.base.errors import InputError
from tacit.cli import running
from tacit.core.protocol.roster import Member
from tacit.live.identity.identity import Identity, provision
from tacit.live.sessions import file

NAMES = ["a0", "a1"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seats")
    keys = provision(folder / "keys", ["coordinator", "north", *NAMES])
    server = small_session(keys, NAMES)
    kept = replace(server, keepers=(Member("north", keys["north"].public_key),), mask_bytes=16)
    graph = replace(server, coordinator=None, edges=((0, 1),), quorum=2)
    where = {"coordinator": "wss://localhost:1", "a0": "wss://localhost:2", "a1": "wss://localhost:3"}
    for name, session in {"server": server, "kept": kept, "graph": graph}.items():
        file.write_session(session, folder / f"{name}.toml", addresses=where)
    return folder


def words(made, verb, session, who):
    return (verb, str(made / f"{session}.toml"), "--keys", str(made / "keys" / who))


@pytest.fixture
def driven(monkeypatch):
    """The members that the verbs have made and would run."""
    found = []

    def drive(_run, member):
        found.append(member)
        raise InputError("it is not run here")

    monkeypatch.setattr(running.Run, "drive", drive)
    return found


@pytest.fixture
def read(monkeypatch):
    """How often session files and keys are read."""
    read, text_of, load = Counter(), file.text_of, Identity.load

    def counted(path):
        read["session"] += 1
        return text_of(path)

    def loaded(path):
        read["keys"] += 1
        return load(path)

    monkeypatch.setattr(file, "text_of", counted)
    monkeypatch.setattr(Identity, "load", loaded)
    return read


@pytest.mark.parametrize(
    "seat",
    [
        ("join", "server", "a0"),
        ("join", "graph", "a0"),
        ("keep", "kept", "north"),
        ("coordinate", "server", "coordinator"),
    ],
    ids="-".join,
)
def test_each_file_is_read_once(made, run, tmp_path, read, driven, *, seat):
    verb, _, who = seat
    value = tmp_path / "value"
    value.write_text("1.0")
    value.chmod(0o600)
    own = ("--value-file", str(value), "--cap", "9") if verb == "join" else ()
    result = run(*words(made, *seat), "--ledger", str(tmp_path / "l"), *own, code=2)
    assert "it is not run here" in result.stderr
    assert read == {"session": 1, "keys": 1}
    assert [member.name for member in driven] == [who]


def test_only_a_member_of_a_graph_listens(made, run, tmp_path, driven):
    words_of = words(made, "join", "server", "a0")
    result = run(*words_of, "--ledger", str(tmp_path / "l"), "--listen", "wss://localhost:9", code=2)
    assert "--listen is for a graph" in result.stderr
    assert not driven
    assert not (tmp_path / "l").exists()
