"""Session files read back the same; every mistake gets one sentence."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.base.errors import FileError, Infeasible, InputError, Useless
from tacit.base.rounding import shown_up
from tacit.core.graph import Graph
from tacit.core.mechanism.lattice import Lattice
from tacit.core.protocol.roster import Member
from tacit.core.protocol.session import Deadlines, Session
from tacit.core.theory.advice import ONE_DRAW
from tacit.core.theory.plan import Plan
from tacit.live.identity.certificates import Authority, Request
from tacit.live.identity.identity import bundle, new_agent, provision
from tacit.live.identity.keys import key_text
from tacit.live.identity.roster import Roster, read_roster
from tacit.live.runtime.participant import number_of
from tacit.live.sessions import design as session_design
from tacit.live.sessions.check import explain
from tacit.live.sessions.design import worst_loss
from tacit.live.sessions.file import (
    parse_session,
    read_session,
    read_with_addresses,
    session_text,
    write_session,
)


def draft(name, roster, **asked):
    """Draft a session from the fields of a question and its own terms."""
    fields = {name: asked.pop(name) for name in Plan.names() if name in asked}
    return session_design.draft(name, roster, Plan(**fields), **{"anyway": True, **asked})


def test_a_session_that_would_say_nothing_is_made_only_on_request():
    asked = {"low": 0.0, "high": 60.0, "loss": 0.5}
    with pytest.raises(Useless, match=r"half the range of 60, and would have a radius of .*--anyway"):
        draft("s", roster(3), **asked, anyway=False)
    assert draft("s", roster(3), **asked).n == 3
    assert draft("s", roster(200), **asked, anyway=False).n == 200


def key(i):
    return bytes([i + 2, *range(1, 32)])


def roster(n, coordinator=True):
    return Roster(tuple(Member(f"agent-{i}", key(i)) for i in range(n)), key(200) if coordinator else None)


def session(n=4, **changes):
    made = {
        "name": "meters",
        "roster": roster(n).members,
        "coordinator": key(200),
        "mixing": 0.8,
        "noise": 10.0,
        "decay": 0.6,
        "rounds": 20,
        "lattice": Lattice(0.0, 50.0, -90),
        "adjacency": 50.0,
        "start": n,
        "expires": 1_893_456_000,
    }
    return Session(**(made | changes))


ON_A_GRAPH = {"coordinator": None, "edges": ((0, 1), (1, 2), (2, 3), (0, 3))}
KINDS = {
    "server": {},
    "graph": ON_A_GRAPH,
    "one-shot": {"law": "one-shot", "decay": None},
    "each its own": {**ON_A_GRAPH, "mixing": (0.1, 0.2, 0.3, 0.4), "noise": (10.0, 11.0, 12.0, 13.0)},
    "vectors": {"components": 3, "quorum": 2, "start": 3, "deadlines": Deadlines(1.5, 2.5, 0.25)},
    "wide": {"lattice": Lattice(-1e-3, 1e17, -20, 30, 90), "noise": 1e12},
}


# ---- there and back -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_reads_back_as_the_very_same_session(kind, tmp_path):
    made = session(**KINDS[kind])
    write_session(made, tmp_path / "s.toml")
    again = read_session(tmp_path / "s.toml")
    assert again == made
    assert again.id == made.id
    assert session_text(again) == session_text(made)
    assert (tmp_path / "s.toml").stat().st_mode & 0o777 == 0o644


positive = st.floats(1e-6, 1e6, allow_subnormal=False)
NUMBERS = {
    "mixing": st.floats(0.01, 0.99),
    "noise": positive,
    "decay": st.floats(0.3, 0.999),
    "low": st.floats(-1e6, 1e6),
    "width": positive,
    "adjacency": positive,
    "deadline": st.floats(1e-3, 1e6),
}


@settings(deadline=None)
@given(st.fixed_dictionaries(NUMBERS))
def test_every_number_survives_in_full(numbers):
    low, width, deadline = (numbers.pop(name) for name in ("low", "width", "deadline"))
    lattice = Lattice(low, low + width, -200, reach_exponent=60)
    made = session(**numbers, lattice=lattice, deadlines=Deadlines(deadline))
    assert parse_session(session_text(made), "text").id == made.id


def test_whole_numbers_will_do_where_real_ones_are_meant():
    text = session_text(session()).replace("noise = 10.0", "noise = 10").replace("high = 50.0", "high = 50")
    assert "noise = 10\n" in text
    assert parse_session(text, "text").id == session().id


def test_one_other_number_is_another_session():
    text = session_text(session())
    other = parse_session(text.replace("noise = 10.0", "noise = 10.000000000000002"), "text")
    assert other.id != session().id


def test_what_has_a_default_may_be_left_out():
    made = session(start=None)
    text = re.sub(r"\n\[(deadlines|quorum)\].*?(?=\n\[|\Z)", "\n", session_text(made), flags=re.S)
    assert "[deadlines]" not in text
    assert "[quorum]" not in text
    assert parse_session(text, "text").id == made.id


def test_addresses_are_beside_the_session_and_not_in_it(tmp_path):
    places = {"coordinator": "wss://192.0.2.1:7447", "agent-2": "wss://[2001:db8::1]:7447"}
    write_session(session(), tmp_path / "s.toml", addresses=places)
    assert read_with_addresses(tmp_path / "s.toml")[1] == places
    assert read_session(tmp_path / "s.toml").id == session().id
    write_session(session(), tmp_path / "none.toml")
    assert read_with_addresses(tmp_path / "none.toml")[1] == {}


def test_an_agent_takes_its_number_only_under_the_root():
    made = session()
    whose = SimpleNamespace(name="agent-1", public_key=key(1))
    assert number_of(made, whose) == 1
    with pytest.raises(InputError, match="must be in the roster"):
        number_of(made, SimpleNamespace(name="agent-9", public_key=key(9)))
    swapped = session()
    assert swapped.root == made.root  # it is known from here on
    object.__setattr__(swapped, "roster", swapped.roster[::-1])
    with pytest.raises(InputError, match="does not have this agent as number 2 of 4"):
        number_of(swapped, whose)


def test_an_existing_file_is_kept(tmp_path):
    write_session(session(), tmp_path / "s.toml")
    with pytest.raises(FileError, match="exists already"):
        write_session(session(rounds=21), tmp_path / "s.toml")
    write_session(session(rounds=21), tmp_path / "s.toml", force=True)
    assert read_session(tmp_path / "s.toml").rounds == 21


def test_what_is_about_privacy_comes_first():
    tables = re.findall(r"^\[(\w+)\]", session_text(session()), re.M)
    assert tables == ["mechanism", "values", "lattice", "deadlines", "quorum"]


def test_nothing_private_is_in_it():
    words = set(re.findall(r"^(\w+) =", session_text(session(**ON_A_GRAPH)), re.M))
    assert words == {
        *(
            "format",
            "expires",
            "name",
            "topology",
            "roster",
            "edges",
            "law",
            "mixing",
            "noise",
            "decay",
            "rounds",
        ),
        *("low", "high", "components", "adjacency", "state_exponent", "bits", "reach_exponent"),
        *("round", "start", "repeat"),
    }


# ---- mistakes -----------------------------------------------------------------------------------------

LATTICE = "\n[lattice]" + session_text(session()).partition("[lattice]")[2].partition("\n[")[0]
WRONG = [
    ("format = 7", "format = 2", "s.toml, format: must be 7, got 2: the session is from tacit 0.2 or older"),
    ("format = 7", "format = 8", "s.toml, format: must be 7, got 8: the session is from a newer tacit"),
    ("noise = 10.0", "noise = 9007199254740993", "s.toml, mechanism.noise: must be a number that a double"),
    ("components = 1", "", "s.toml, values.components: must be given"),
    (key_text(key(1)), key_text(key(77)), "s.toml, root: must be that of the roster in this file"),
    ('name = "agent-1"', 'name = "agent-x"', "s.toml, root: must be that of the roster in this file"),
    ("agents = 4", "agents = 5", "s.toml, agents: must be that of the roster in this file"),
    ("agents = 4", 'agents = "4"', "s.toml, agents: must be a whole number"),
    ('root = "', 'root = "x', "s.toml, root: it must be 43 characters"),
    ("expires = 2030", "expires = 1030", "s.toml: expires must be a whole number from 1"),
    ("00:00:00Z", "00:00:00.5Z", "s.toml, expires: must be a date and time in whole seconds with its zone"),
    ("00:00:00Z", "00:00:00", "s.toml, expires: must be a date and time in whole seconds with its zone"),
    ("expires = 2030-01-01T00:00:00Z", "expires = 1893456000", "s.toml, expires: must be a date and time"),
    ("expires = 2030-01-01T00:00:00Z", "", "s.toml, expires: must be given"),
    ("format = 7", "", "s.toml, format: must be given"),
    ("format = 7", 'format = "2"', "s.toml, format: must be a whole number"),
    ('name = "meters"', "name = 7", "s.toml, name: must be text in quotes"),
    ('name = "meters"', 'name = "a/b"', "s.toml: a session's name must be"),
    ('topology = "server"', 'topology = "star"', "s.toml, topology: must be 'server' or 'graph', got 'star'"),
    ('topology = "server"', 'topology = "graph"', "s.toml, coordinator: is not known here"),
    ("mixing = 0.8", "mixing = 1.5", "s.toml: mixing .* must be in"),
    ("mixing = 0.8", "mixing = true", "s.toml, mechanism.mixing: must be a finite number"),
    ("mixing = 0.8", "mixing = [0.1, 0.2]", "s.toml: mixing must be one number, or one for each of 4"),
    ("mixing = 0.8", 'mixing = [0.1, "x", 0.2, 0.3]', r"s.toml, mechanism.mixing\[1\]: must be a finite"),
    ("noise = 10.0", "noise = nan", "s.toml, mechanism.noise: must be a finite number"),
    ("noise = 10.0", "noise = inf", "s.toml, mechanism.noise: must be a finite number"),
    ("noise = 10.0", f"noise = 1{'0' * 400}", "s.toml, mechanism.noise: must be a finite number"),
    ("noise = 10.0", "noise = -1", "s.toml: noise .* must be a positive number"),
    ("decay = 0.6", "", "s.toml, mechanism.decay: must be given"),
    ("decay = 0.6", "decay = 0.6\ndelay = 3", "s.toml, mechanism.delay: is not known here"),
    ('law = "fading"', 'law = "one-shot"', "s.toml, mechanism.decay: is not known here"),
    ("rounds = 20", "rounds = 20.5", "s.toml, mechanism.rounds: must be a whole number"),
    ("rounds = 20", "rounds = 0", "s.toml: rounds must be a whole number from 1"),
    ("rounds = 20", "rounds = 2000", "s.toml: noise must stay at least as wide as the state step"),
    ("low = 0.0", "low = 99.0", "s.toml: the range must be finite with low < high"),
    ("high = 50.0", "high = 1e308", r"s.toml: the range must be within ±2\^1000, got 0.0 to 1e\+308"),
    ("low = 0.0", "", "s.toml, values.low: must be given"),
    ("components = 1", 'components = 1\noutside = "refuse"', "s.toml, values.outside: is not known here"),
    ("adjacency = 50.0", "adjacency = 0", "s.toml: adjacency must be"),
    ("components = 1", "components = 1.0", "s.toml, values.components: must be a whole number"),
    ("bits = 40", "bits = 99", "s.toml: bits must be from 8 to 51"),
    ("bits = 40", "bits = 40\nbats = 1", "s.toml, lattice.bats: is not known here"),
    ("state_exponent = -90", "", "s.toml, lattice.state_exponent: must be given"),
    ("[lattice]", "[latice]", "s.toml, latice: is not known here"),
    (LATTICE, "", "s.toml, lattice: must be given"),
    (f'coordinator = "{key_text(key(200))}"', "", "s.toml, coordinator: must be given"),
    ("repeat = 1.0", 'repeat = "soon"', "s.toml, deadlines.repeat: must be a finite number"),
    ("repeat = 1.0", "repeat = 0", "s.toml, deadlines: the repeat deadline must be"),
    ("repeat = 1.0", "repeat = 1.0\nlunch = 2", "s.toml, deadlines.lunch: is not known here"),
    ("start = 4", "start = 1", "s.toml: start must be at least the quorum"),
    ("start = 4", "start = 5", "s.toml: start must be a whole number from 1 to 4"),
    ("start = 4", "start = 4\nstop = 4", "s.toml, quorum.stop: is not known here"),
    ('name = "agent-1"', 'name = "agent-0"', "s.toml: names must differ"),
    ('name = "agent-1"', 'name = "all"', r"s.toml, roster\[1\]: an agent cannot be called 'all'"),
    ('name = "agent-1", ', "", r"s.toml, roster\[1\].name: must be given"),
    (key_text(key(1)), key_text(key(0)), "s.toml: each member must have its own key"),
    (key_text(key(1)), key_text(key(200)), "s.toml: each member must have its own key"),
    (key_text(key(1)), "short", r"s.toml, roster\[1\].key: it must be 43 characters"),
    (key_text(key(200)), "short", "s.toml, coordinator: it must be 43 characters"),
    (key_text(key(200)), key_text(bytes(32)), "s.toml, coordinator: it has small order"),
    ("roster = [", "roster = 3\nfoo = [", "s.toml, roster: must be a list"),
    ("roster = [", "roster = [ 3,", r"s.toml, roster\[0\]: must be a table"),
    ("format = 7", "format = 7\nsecret = 3", "s.toml, secret: is not known here"),
    ("format = 7", 'format = 7\n"a\\nb" = 3', r"s.toml, a\?b: is not known here"),
    (
        "format = 7",
        'format = 7\ncoordinator_address = "here"',
        "s.toml, coordinator_address: must be like wss://",
    ),
    ('{ name = "agent-1"', '{ address = "?", name = "agent-1"', r"s.toml, roster\[1\].address: must be like"),
    ("format = 7", "format = ", "s.toml must be TOML, and is not: Invalid value"),
    ("format = 7", "x = " + "[" * 5000, "s.toml must be TOML"),
]


@pytest.mark.parametrize(
    ("old", "new", "sentence"), WRONG, ids=[f"{new or old}"[:40] for old, new, _ in WRONG]
)
def test_mistakes(old, new, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = session_text(session())
    assert old in text
    (tmp_path / "s.toml").write_text(text.replace(old, new, 1))
    with pytest.raises(FileError, match=f"^{sentence}") as error:
        read_session("s.toml")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('["agent-0", "agent-1"]', '["agent-0", "agent-9"]', r"s.toml, edges\[0\]\[1\]: must name agents of"),
        ('["agent-0", "agent-1"]', '["agent-0"]', r"s.toml, edges\[0\]: must be a list of 2 entries"),
        ('["agent-0", "agent-1"]', "[0, 1]", r"s.toml, edges\[0\]\[0\]: must be text in quotes"),
        ('["agent-0", "agent-1"]', '["agent-0", "agent-0"]', "s.toml: an edge must join two agents"),
        ('["agent-0", "agent-1"]', '["agent-3", "agent-0"]', "s.toml: every edge must be given once"),
        ('  ["agent-1", "agent-2"],\n  ["agent-2", "agent-3"],\n', "", "s.toml: the graph must be connected"),
        (
            'topology = "graph"',
            f'topology = "graph"\ncoordinator = "{key_text(key(9))}"',
            "s.toml, coordinator: is",
        ),
        ('topology = "graph"', 'topology = "server"', "s.toml, edges: is not known here"),
        (
            'topology = "graph"',
            'topology = "grpah"',
            "s.toml, topology: must be 'server' or 'graph', got 'grpah'",
        ),
        ('topology = "graph"', "", "s.toml, topology: must be 'server' or 'graph'."),
        ("edges = [", "weights = 3\nedges = [", "s.toml, weights: must be text in quotes or a list"),
        (
            "edges = [",
            'weights = [["agent-0", "agent-0", 1.5]]\nedges = [',
            r"s.toml, weights\[0\]\[2\]: must be a whole",
        ),
        (
            "edges = [",
            'weights = [["agent-0", "x", 1]]\nedges = [',
            r"s.toml, weights\[0\]\[1\]: must name agents",
        ),
        ("edges = [", 'weights = "heavy"\nedges = [', "s.toml: .*heavy"),
    ],
)
def test_mistakes_on_graphs(old, new, sentence):
    text = session_text(session(**ON_A_GRAPH))
    assert old in text
    with pytest.raises(FileError, match=f"^{sentence}"):
        parse_session(text.replace(old, new, 1), "s.toml")


def test_files_that_are_no_text(tmp_path):
    for content in (b"\xff\xfe\x00", b"\x00" * 10):
        (tmp_path / "s").write_bytes(content)
        with pytest.raises(FileError, match="must be"):
            read_session(tmp_path / "s")
    with pytest.raises(FileError, match="No such file"):
        read_session(tmp_path / "nothing")
    with pytest.raises(FileError, match="Is a directory"):
        read_session(tmp_path)


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_no_mangled_file_escapes_as_another_error(data):
    """Damaged text is read as a session, or refused in one sentence."""
    text = session_text(session(**data.draw(st.sampled_from(list(KINDS.values())))))
    lines = text.splitlines()
    i = data.draw(st.integers(0, len(lines) - 1))
    spoiled = data.draw(
        st.sampled_from(
            ["", "x", "= 3", "[values]", 'name = "a"', lines[i] * 2, lines[i][: len(lines[i]) // 2]]
        )
    )
    text = "\n".join([*lines[:i], spoiled, *lines[i + 1 :]])
    said = "s.toml"
    try:
        parse_session(text, "s.toml")
    except FileError as error:
        said = str(error)
    assert said.startswith("s.toml")


# ---- rosters ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A directory of certificates for twelve agents and a coordinator."""
    folder = tmp_path_factory.mktemp("roster")
    made = provision(folder / "keys", ["coordinator", *(f"agent-{i}" for i in range(12))])
    home = folder / "certificates"
    home.mkdir()
    for name, one in made.items():
        (home / f"{name}.crt").write_bytes(one.certificate.pem() + one.authority.pem())
    (home / "authority.crt").write_bytes(made["agent-0"].authority.pem())
    (home / "notes.txt").write_text("not a certificate")
    return home, made


def test_a_roster_from_certificates(certificates):
    home, made = certificates
    found = read_roster(home)
    assert [member.name for member in found.members] == [f"agent-{i}" for i in range(12)]  # 2 before 10
    assert [member.key for member in found.members] == [made[f"agent-{i}"].public_key for i in range(12)]
    assert found.coordinator == made["coordinator"].public_key


def test_a_roster_from_requests(tmp_path):
    (tmp_path / "requests").mkdir()
    for name in ("bob", "alice"):
        request = new_agent(name, tmp_path / name)
        (tmp_path / "requests" / f"{name}.pem").write_bytes(request.read_bytes())
    assert [member.name for member in read_roster(tmp_path / "requests").members] == ["alice", "bob"]


def test_a_roster_from_lines(tmp_path):
    text = (
        f"# who\nbob {key_text(key(1))}\n\ncoordinator {key_text(key(2))}\nalice\t{key_text(key(3))} # her\n"
    )
    (tmp_path / "roster").write_text(text)
    assert read_roster(tmp_path / "roster") == Roster(
        (Member("bob", key(1)), Member("alice", key(3))), key(2)
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "must hold certificates, or lines"),
        ("bob\n", "line 1: must be a name and its public key"),
        (f"\nbob {key_text(key(1))} x\n", "line 2: must be a name and"),
        ("bob short\n", "line 1: a public key must be 43"),
        (f"all {key_text(key(1))}\n", "line 1: an agent cannot be called"),
        (f"bob {key_text(key(1))}\nbob {key_text(key(2))}\n", "line 2: there must be one key for bob"),
        (f"coordinator {key_text(key(1))}\n" * 2, "line 2: there must be one key for coordinator"),
    ],
)
def test_rosters_that_are_none(tmp_path, text, sentence):
    (tmp_path / "roster").write_text(text)
    with pytest.raises(FileError, match=sentence):
        read_roster(tmp_path / "roster")


def test_certificates_of_two_authorities_are_refused(certificates, tmp_path):
    home, made = certificates
    authority = Authority.make("another")
    request = Request.parse(new_agent("zoe", tmp_path / "zoe").read_bytes(), "request")
    both = tmp_path / "both"
    both.mkdir()
    (both / "a.crt").write_bytes((home / "agent-1.crt").read_bytes())
    (both / "b.crt").write_bytes(bundle(authority.sign(request), authority))
    with pytest.raises(FileError, match=r"b\.crt is signed by another authority"):
        read_roster(both)
    (both / "b.crt").write_bytes(made["agent-2"].certificate.pem() + authority.certificate.pem())
    with pytest.raises(FileError, match="must be what `tacit keys sign` gives back"):
        read_roster(both)


# ---- designs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graph", "one_shot"),
    [
        *((None, False), (None, True), ("ring:9", False), ("star:9", True)),
        *(pytest.param(*case, marks=pytest.mark.long) for case in (("ring:9", True), ("star:9", False))),
    ],
)
@pytest.mark.parametrize("asked", [{"loss": 1.0}, {"epsilon": 0.013}, {"radius": 30.0, "rounds": 300}])
def test_what_a_session_costs_is_what_was_asked(graph, one_shot, asked):
    """On whole numbers too: a cap of just that much is enough."""
    places = None if graph is None else Graph.from_name(graph)
    made = draft(
        "s",
        roster(9),
        low=0.0,
        high=50.0,
        graph=places,
        law="one-shot" if one_shot else None,
        mixing=0.7,
        **asked,
    )
    assert made.law == ("one-shot" if one_shot else "fading")
    assert made.topology == ("server" if graph is None else "graph")
    assert made.adjacency == 50.0
    allowed = asked.get("loss", asked.get("epsilon", 0.0) * 50.0) or made.promise().theory.loss * (1 + 1e-9)
    assert allowed * (1 - 1e-6) <= worst_loss(made) <= allowed
    assert worst_loss(made) == max(made.account(i).total for i in range(made.n))
    assert explain(made).sound
    assert parse_session(session_text(made), "text").id == made.id


def test_a_radius_that_was_asked_is_promised():
    for one_shot in (False, True):
        made = draft(
            "s", roster(50), low=0.0, high=1.0, radius=0.3, mixing=0.8, law="one-shot" if one_shot else None
        )
        assert 0.3 * (1 - 1e-6) <= made.promise().theory.radius <= 0.3 * (1 + 1e-9)


@pytest.mark.parametrize("one_shot", [False, True])
def test_a_lone_agent_needs_a_round_to_speak_in(one_shot):
    assert (
        draft("s", roster(1), low=0.0, high=1.0, loss=1.0, law="one-shot" if one_shot else None).rounds == 1
    )


def test_around_a_server_noise_is_drawn_once_and_one_round_is_enough():
    made = draft("s", roster(9), low=0.0, high=10.0, loss=1.0)
    assert (made.law, made.rounds) == ("one-shot", 1)
    assert worst_loss(made) <= 1.0
    assert ONE_DRAW in explain(made).notes
    fading = draft("s", roster(9), low=0.0, high=10.0, loss=1.0, mixing=0.99)
    assert (fading.law, fading.rounds) == ("fading", 2)
    assert made.promise().theory.radius < fading.promise().theory.radius


def test_more_keepers_than_agents_are_warned_of():
    names, asked = [f"agent-{i}" for i in range(3, 9)], Plan(low=0.0, high=10.0, loss=1.0)
    few = session_design.draft("s", roster(5), asked, keepers=names[:2], anyway=True)
    assert not [note for note in explain(few).notes if "Take fewer keepers" in note]
    many = session_design.draft("s", roster(9), asked, keepers=names, anyway=True)
    assert any("6 keepers for 3 agents make the result less accurate" in note for note in explain(many).notes)


def test_rounds_until_agents_agree_or_as_given():
    made = draft("s", roster(9), low=0.0, high=1.0, loss=1.0, mixing=0.5)
    assert 0.5**made.rounds <= 1e-3 < 0.5 ** (made.rounds - 1)
    assert draft("s", roster(9), low=0.0, high=1.0, loss=1.0, mixing=0.5, rounds=40).rounds == 40
    wide = draft("s", roster(9), low=0.0, high=1.0, loss=1.0, mixing=0.5, tolerance=0.1)
    assert wide.rounds < made.rounds
    with pytest.raises(InputError, match="at most 100,000"):
        draft("s", roster(9), low=0.0, high=1.0, loss=1.0, mixing=1e-5)


def test_metropolis_weights_reach_the_true_average():
    made = draft(
        "s", roster(6), low=0.0, high=1.0, loss=1.0, graph=Graph.from_name("star:6"), true_average=True
    )
    assert made.promise().theory.target == "average"
    assert made.weights == "metropolis"
    assert isinstance(made.mixing, float)
    assert Session.decode(made.encode()).id == made.id
    assert parse_session(session_text(made), "text").id == made.id


def test_vectors_are_covered_as_a_whole():
    made = draft("s", roster(5), low=0.0, high=2.0, loss=1.0, components=3, quorum=2, start=3)
    assert made.adjacency == 6.0
    assert worst_loss(made) <= 1.0
    assert (made.components, made.quorum, made.start) == (3, 2, 3)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"low": 1.0}, "low < high"),
        ({"high": float("inf")}, "high must be a finite"),
        ({"low": -1.7e308, "high": 1.7e308}, "low < high"),
        ({"graph": Graph.from_name("ring:5")}, "one agent for each of the roster's 9"),
        ({"loss": None}, "at least two of privacy"),
        ({"loss": -1.0}, "loss must be a positive"),
        ({"loss": -1.0, "law": "one-shot"}, "loss must be a positive"),
        ({"loss": None, "law": "one-shot"}, "at least two of privacy"),
        ({"epsilon": 1.0, "law": "one-shot"}, "not both"),
        ({"epsilon": 1.0}, "not both"),
        ({"mixing": 1e-5, "law": "one-shot"}, "at most 100,000"),
        ({"mixing": 2.0}, "mixing"),
        ({"quorum": 10}, "quorum must be"),
    ],
)
def test_designs_that_cannot_be(changes, sentence):
    asked = {"low": 0.0, "high": 1.0, "loss": 1.0} | changes
    with pytest.raises(InputError, match=sentence):
        draft("s", roster(9), **asked)


def test_a_server_needs_a_coordinator_and_agents():
    with pytest.raises(InputError, match="needs a coordinator"):
        draft("s", roster(3, coordinator=False), low=0.0, high=1.0, loss=1.0)
    draft("s", roster(3, coordinator=False), low=0.0, high=1.0, loss=1.0, graph=Graph.from_name("ring:3"))
    with pytest.raises(InputError, match="only a coordinator"):
        draft("s", roster(0), low=0.0, high=1.0, loss=1.0)


def test_what_cannot_be_had_says_what_has_to_give():
    asked = {"low": 0.0, "high": 1.0, "mixing": 0.8}
    for one_shot in (False, True):
        for more in ({"radius": 0.01}, {"rounds": 2}):
            with pytest.raises(Infeasible, match="would work") as error:
                draft("s", roster(3), **asked, **more, loss=1.0, law="one-shot" if one_shot else None)
            for way in set(error.value.gives) & {"radius", "rounds", "epsilon", "tolerance"}:
                terms = asked | more | {"loss": 1.0} | {way: error.value.gives[way]}
                if way == "epsilon":
                    del terms["loss"]
                draft("s", roster(3), **terms, law="one-shot" if one_shot else None)
        with pytest.raises(Infeasible, match="a radius of 0 is impossible"):
            draft("s", roster(3), **asked, loss=1.0, radius=0.0, law="one-shot" if one_shot else None)


# ---- promises -----------------------------------------------------------------------------------------


def test_the_explanation_is_never_too_small():
    made = session()
    found = explain(made)
    assert found.loss == max(made.account(i).total for i in range(made.n))
    assert found.loss >= found.promise.theory.loss
    assert found.factor >= np.exp(found.loss)
    assert found.first_loss == made.account(0).per_message[0] >= 50 / 10
    assert found.longest == 60 + 20 * 30


def test_a_lattice_too_coarse_for_its_rounds_is_a_fault():
    made = draft("s", roster(4), low=0.0, high=1.0, loss=1.0, mixing=0.3, rounds=40)
    assert explain(made).sound
    coarse = replace(made, lattice=replace(made.lattice, state_exponent=made.lattice.state_exponent + 45))
    found = explain(coarse)
    assert not found.sound
    assert "too coarse for 40 rounds" in found.faults[0]
    assert f"state_exponent of {made.lattice.state_exponent} " in found.faults[0]
    few = replace(made, lattice=replace(made.lattice, bits=8))
    assert not explain(few).sound


def test_notes_say_what_an_owner_may_not_expect():
    assert any(
        "weighted average" in note
        for note in explain(session(**ON_A_GRAPH, mixing=(0.1, 0.2, 0.3, 0.4))).notes
    )
    assert explain(session()).as_dict()["protection"] == "hardly any"
    small = explain(session(adjacency=1.0))
    (note,) = (note for note in small.notes if "differ by at most 1, but the range allows 50" in note)
    assert f"gives away at most {shown_up(50 * small.loss)} over the whole range (50 times" in note
    assert small.as_dict()["whole_range_loss"] == small.whole_range_loss >= 50 * small.loss
    whole = explain(session(noise=1000.0, quorum=4, lattice=Lattice(0.0, 50.0, -90)))
    gives_away, says_nothing = whole.notes
    assert gives_away.startswith("Whatever its value is, an agent gives away at most ")
    assert "so the result is useless" in says_nothing
    assert any("3 of 4 messages" in note for note in explain(session(quorum=3)).notes)


def test_an_explanation_for_programs_is_plain():
    found = explain(session(noise=1e3)).as_dict()
    again = json.loads(json.dumps(found, allow_nan=False))
    assert again["id"] == session(noise=1e3).id.hex()
    assert again["accounted_loss"] >= again["loss"] * (1 - 1e-15)
    assert again["sound"] is True


@pytest.mark.parametrize(
    "text", ["a." * 16_000 + "b = 1", "[" + "a . " * 16_000 + "b]\nc = 1", '"a".' * 16_000 + "b = 1"]
)
def test_a_key_of_very_many_parts_is_not_read(text, monkeypatch):
    """One that would take many seconds: tomllib never sees it."""
    monkeypatch.setattr("tacit.live.sessions.file.tomllib.loads", lambda _: pytest.fail("was read"))
    with pytest.raises(FileError, match="more than 64 parts"):
        parse_session(text, "session.toml")
