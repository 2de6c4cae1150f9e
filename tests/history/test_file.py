"""What is written is read back exactly.

What cannot be read is refused with its place.
"""

import contextlib
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import ClientServer, Distributed, Fading, Graph, OneShot
from tacit.base.errors import FileError, InputError
from tacit.core.history.file import Declared, read_history, write_history
from tacit.core.mechanism.lattice import Lattice
from tacit.core.mechanism.on_lattice import OnLattice
from tacit.lab.audit import Deployed, Simulated, read_folder, write_folder

PARAMETERS = Fading(0.8, 10, 0.6)
SERVER = ClientServer(PARAMETERS, agents=3)
PER_AGENT = Fading([0.8, 0.7, 0.6], [10.0, 5.0, 4.0], [0.6, 0.5, 0.7])
GRAPH = Distributed(PER_AGENT, Graph.from_edges([(0, 1), (1, 2)]))
SUBJECTS = {
    "plain": Simulated(SERVER, lattice=False),
    "missed and repeated": Simulated(SERVER, misses=True, retries="repeat"),
    "graph, redrawn": Simulated(GRAPH, misses=True, retries="redraw"),
    "one-shot": Simulated(ClientServer(OneShot(0.5, 3.0), agents=3)),
    "lattice": Deployed(SERVER, 0, 9),
    "lattice on a graph": Deployed(GRAPH, 0, 9),
}
HEADER = {
    "tacit_transcript": 2,
    "topology": "server",
    "agents": 2,
    "kind": "fading",
    "mixing": 0.8,
    "noise": 10,
    "decay": 0.6,
}
LINES = [
    {"round": 0, "agent": 0, "update": 0, "x": 3.25},
    {"round": 0, "agent": 1, "update": 0, "x": -1.5},
    {"round": 0, "y": 0.875},
    {"round": 1, "agent": 0, "update": 1, "x": 1},
    {"round": 1, "agent": 1, "update": 1, "x": 2.5},
    {"round": 1, "y": 1.75},
]


def write(path, header=HEADER, lines=LINES):
    path.write_text("".join(json.dumps(line) + "\n" for line in (header, *lines)), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", SUBJECTS)
@pytest.mark.parametrize("values", [np.arange(3.0), np.arange(6.0).reshape(3, 2)], ids=["numbers", "vectors"])
def test_a_folder_comes_back_exactly(name, values, tmp_path):
    seen = SUBJECTS[name](values, 6, 3, 5)
    write_folder(tmp_path, seen, values)
    again, known = read_folder(tmp_path)
    assert np.array_equal(known, values)
    assert np.array_equal(again.x, seen.x)
    assert np.array_equal(again.said, seen.said)
    assert np.array_equal(again.y, seen.y)
    assert np.array_equal(again.rounds_of, seen.rounds_of)
    assert np.array_equal(again.update, seen.update)
    assert (again.exponent is None) == (seen.exponent is None)
    assert vars(again.mechanism.law).keys() == vars(seen.mechanism.law).keys()
    for mine, theirs in zip(*(vars(t.mechanism.law).values() for t in (again, seen)), strict=True):
        assert np.array_equal(mine, theirs)
    if seen.wholes is not None:
        assert again.wholes.lattice == seen.wholes.lattice
        assert np.array_equal(again.wholes.x, seen.wholes.x)
        assert np.array_equal(again.wholes.y, seen.wholes.y)
        said = seen.said[0]
        assert np.array_equal(again.exponent[0][said], seen.exponent[0][said])


def test_the_documented_example_is_read(tmp_path):
    seen = read_history(write(tmp_path / "a.jsonl"))
    assert np.array_equal(seen.x, [[3.25, -1.5], [1, 2.5]])
    assert np.array_equal(seen.y, [0.875, 1.75])
    assert seen.exponent is None
    more = [{**line, "signature": "abc"} for line in LINES]
    assert np.array_equal(read_history(write(tmp_path / "b.jsonl", lines=more)).x, seen.x)


def test_which_feedback_a_silent_agent_used(tmp_path):
    three = [*LINES, {"round": 2, "agent": 0, "update": 2, "x": 1}, {"round": 2, "y": 1}]
    silent = [line for line in three if line.get("agent") != 1 or line["round"] == 0]
    back = {"round": 2, "agent": 1, "x": 9}
    for update, expected in ((0, [0, 0, 0]), (2, [0, 1, 2])):
        seen = read_history(write(tmp_path / "a.jsonl", lines=[*silent, {**back, "update": update}]))
        assert seen.update[:, 1].tolist() == expected
    unclear = [*silent, {**back, "update": 1}]
    with pytest.raises(FileError, match="heard"):
        read_history(write(tmp_path / "a.jsonl", lines=unclear))
    told = [*unclear, {"round": 0, "agent": 1, "heard": False}]
    assert read_history(write(tmp_path / "a.jsonl", lines=told)).update[:, 1].tolist() == [0, 0, 1]


def changed(place, **change):
    lines = [dict(HEADER), *(dict(line) for line in LINES)]
    for key, value in change.items():
        if value is ...:
            lines[place].pop(key)
        else:
            lines[place][key] = value
    return lines


@pytest.mark.parametrize(
    ("lines", "where"),
    [
        (changed(0, tacit_transcript=9), "format 2"),
        (changed(0, topology="star"), "line 1"),
        (changed(0, kind="gaussian"), "line 1"),
        (changed(0, decay=...), "line 1"),
        (changed(0, decay=1.5), "decay"),
        (changed(0, agents=0), "agents"),
        (changed(0, agents="two"), "line 1"),
        (changed(0, topology="graph"), "line 1"),
        (changed(0, lattice={"low": 1, "high": 0}), "line 1"),
        (changed(0, lattice=[]), "line 1"),
        (changed(1, x="3"), "line 2"),
        (changed(1, x=True), "line 2"),
        (changed(1, x=[]), "line 2"),
        (changed(1, x=[1, 2]), "line 3"),
        (changed(1, x=10**400), "line 2"),
        (changed(1, round=-1), "line 2"),
        (changed(1, round=1e9), "line 2"),
        (changed(1, agent=2), "line 2"),
        (changed(1, agent=...), "line 2"),
        (changed(1, update=1), "line 2"),
        (changed(3, y=...), "line 4"),
        (changed(3, y=None), "line 4"),
        (changed(4, update=0, round=0), "a.jsonl"),
        (changed(3, round=5), "feedback"),
        ([HEADER], "message"),
        ([HEADER, 7], "line 2"),
        ([[1]], "line 1"),
    ],
)
def test_what_is_no_transcript_is_refused_with_its_place(lines, where, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    if where == "a.jsonl":  # an agent that was asked twice in round 0 and is silent in round 1
        assert read_history(path).x.shape == (3, 2)
        return
    with pytest.raises(FileError, match=where):
        read_history(path)


@pytest.mark.parametrize("text", ["", "not json", '{"tacit_transcript": NaN}', "[" * 100_000, "\x00"])
def test_what_is_no_json_is_refused(text, tmp_path):
    (tmp_path / "a.jsonl").write_text(text)
    with pytest.raises(FileError):
        read_history(tmp_path / "a.jsonl")


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileError):
        read_history(tmp_path / "a.jsonl")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(-1e9, 1e9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)
KEYS = ["round", "agent", "update", "x", "y", "heard", "exponent", "mixing", "agents", "edges", "lattice"]
CHANGES = st.dictionaries(st.sampled_from(KEYS), JSON | st.integers(0, 3), min_size=1, max_size=3)


@pytest.mark.parametrize("examples", [50, pytest.param(2000, marks=pytest.mark.long)])
def test_any_change_is_read_or_refused_never_worse(examples, tmp_path):
    @settings(max_examples=examples, deadline=None)
    @given(place=st.integers(0, 6), change=CHANGES)
    def read(place, change):
        lines = changed(place, **change)
        path = tmp_path / "a.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        with contextlib.suppress(InputError):
            read_history(path)

    read()


def test_folders_that_cannot_be_judged_together_are_refused(tmp_path):
    with pytest.raises(FileError, match="transcript"):
        read_folder(tmp_path)
    write(tmp_path / "a.jsonl")
    write(tmp_path / "b.jsonl", header={**HEADER, "noise": 9})
    with pytest.raises(FileError, match="another mechanism"):
        read_folder(tmp_path)
    write(tmp_path / "b.jsonl")
    (tmp_path / "inputs.json").write_text('{"values": [1]}')
    with pytest.raises(FileError, match="values"):
        read_folder(tmp_path)


def test_one_session_at_a_time(tmp_path):
    seen = Simulated(SERVER)([1, 2, 3.0], 4, 3, 5)
    write_history(tmp_path / "one.jsonl", seen[2])
    assert np.array_equal(read_history(tmp_path / "one.jsonl").x, seen.x[2])


@pytest.mark.parametrize("cut", [1, 7, 20, 45])
def test_what_a_crash_left_of_a_transcript_is_read_without_its_torn_end(cut, tmp_path):
    """A torn last line, and the round it belonged to, are left out.

    `tacit verify` reads it in the same way.
    """
    path = write(tmp_path / "a.jsonl")
    whole = path.read_bytes().rstrip(b"\n")
    path.write_bytes(whole[:-cut])
    seen = read_history(path)
    assert seen.rounds == 1
    assert np.array_equal(seen.x, [[3.25, -1.5]])


def test_a_damaged_line_that_is_whole_is_refused(tmp_path):
    path = write(tmp_path / "a.jsonl")
    path.write_bytes(path.read_bytes()[:-4] + b"\n")
    with pytest.raises(FileError, match="every line must be one JSON object"):
        read_history(path)


def test_lines_say_whose_messages_were_used(tmp_path):
    """One message was not used, and a used one is not there."""
    told = [{**line, "unused": [1] if line["round"] else []} if "y" in line else line for line in LINES]
    seen = read_history(write(tmp_path / "a.jsonl", lines=[line for line in told if line.get("agent") != 1]))
    assert seen.said.tolist() == [[True, False]] * 2
    assert seen.used.tolist() == [[True, True], [True, False]]
    write_history(tmp_path / "b.jsonl", seen)
    assert read_history(tmp_path / "b.jsonl").used.tolist() == seen.used.tolist()
    assert read_history(write(tmp_path / "a.jsonl")).used is None
    for bad in ([2], [0, 0], 1, ["0"]):
        wrong = [{**line, "unused": bad} if "y" in line else line for line in LINES]
        with pytest.raises(FileError, match="line 4"):
            read_history(write(tmp_path / "a.jsonl", lines=wrong))
    with pytest.raises(FileError, match="or none"):
        read_history(write(tmp_path / "a.jsonl", lines=[*LINES[:2], {**LINES[2], "unused": []}, *LINES[3:]]))


def test_peers_say_whose_messages_they_used(tmp_path):
    run = GRAPH.execute(np.zeros(3), np.zeros((2, 3)))
    used = np.ones((2, len(run.pairs)), dtype=bool)
    used[1, [0, 4]] = False
    write_history(tmp_path / "a.jsonl", replace(run, used=used))
    assert read_history(tmp_path / "a.jsonl").used.tolist() == used.tolist()
    text = (tmp_path / "a.jsonl").read_text().replace('"used": [0, 1]', '"used": [0, 2]')
    (tmp_path / "a.jsonl").write_text(text)
    with pytest.raises(FileError, match="neighbours"):
        read_history(tmp_path / "a.jsonl")


def test_what_tacit_0_1_wrote_is_refused_by_name(tmp_path):
    with pytest.raises(FileError, match=r"tacit 0\.1"):
        read_history(write(tmp_path / "a.jsonl", header={**HEADER, "tacit_transcript": 1}))


KEPT = {**HEADER, "keepers": ["north", "south"]}
UNDER_MASKS = [
    {"round": 0, "agent": 0, "update": 0},
    {"round": 0, "closing": [0]},
    {"round": 0, "keeper": 2},
    {"round": 0, "keeper": 3},
    {"round": 0, "y": 0.5, "unused": [1]},
]


@pytest.mark.parametrize("lattice", [False, True])
@pytest.mark.parametrize("values", [np.arange(3.0), np.arange(6.0).reshape(3, 2)], ids=["numbers", "vectors"])
def test_a_run_with_keepers_comes_back(tmp_path, values, lattice):
    kept = ClientServer(PARAMETERS, agents=3, keepers=2)
    draws = np.ones((4, 2, *values.shape[1:]))
    if lattice:
        on = OnLattice(kept, Lattice.fitting(PARAMETERS, 4, 0.0, 6.0))
        run = on.run(on.start(values), draws.astype(np.int64))
    else:
        run = kept.execute(values, draws)
    write_history(tmp_path / "a.jsonl", run)
    assert '"x"' not in (tmp_path / "a.jsonl").read_text()
    read = read_history(tmp_path / "a.jsonl")
    assert read.mechanism.keepers == 2
    for name in ("x", "y", "said", "rounds_of", "update", "used"):
        assert np.array_equal(getattr(read, name), getattr(run, name)), name


def test_what_is_under_masks_is_read_without_numbers(tmp_path):
    read = read_history(write(tmp_path / "a.jsonl", KEPT, UNDER_MASKS))
    assert (read.mechanism.keepers, read.y.tolist()) == (2, [0.5])
    assert (read.said.any(), read.used.tolist()) == (False, [[True, False]])
    declared = Declared(tmp_path / "a.jsonl", KEPT)
    assert declared.same({**HEADER, "keepers": 2})
    assert not declared.same(HEADER)


@pytest.mark.parametrize(
    ("header", "lines", "where"),
    [
        ({"keepers": []}, {}, "line 1"),
        ({"keepers": [1]}, {}, "line 1"),
        ({"keepers": True}, {}, "line 1"),
        ({"keepers": -1}, {}, "line 1"),
        ({"keepers": 101}, {}, "line 1"),
        ({"topology": "graph", "edges": [[0, 1]]}, {}, "need a server"),
        ({}, {0: {"x": 1.0}}, "line 2"),
        ({}, {0: {"agent": 2}}, "line 2"),
        ({}, {1: {"closing": [0, 0]}}, "line 3"),
        ({}, {2: {"keeper": 4}}, "line 4"),
        ({}, {2: {"keeper": 1}}, "line 4"),
        ({}, {4: {"note": "nothing"}}, "feedback"),
        ({}, {1: {"note": "nothing"}, 4: {"unused": ...}}, "whose messages"),
    ],
)
def test_what_is_no_session_with_keepers_is_refused(tmp_path, header, lines, where):
    wrong = [
        {word: v for word, v in {**line, **lines.get(k, {})}.items() if v is not ...}
        for k, line in enumerate(UNDER_MASKS)
    ]
    with pytest.raises(FileError, match=where):
        read_history(write(tmp_path / "a.jsonl", {**KEPT, **header}, wrong))
