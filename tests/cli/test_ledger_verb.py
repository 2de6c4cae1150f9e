"""`tacit ledger`: what was lost, and what an owner may change."""

import json
import shutil
import subprocess
import sys

import pytest

from tacit.core.protocol.records import Began, Opened, Spoke
from tacit.live.ledger.ledger import Ledger

S, T = bytes([0x5F]) + b"s" * 31, bytes([0x5E]) + b"t" * 31


@pytest.fixture(autouse=True)
def kept(run, tmp_path):
    with Ledger(tmp_path / "a.ledger") as ledger:
        ledger.reserve(S, "meter-7", planned=0.5, adjacency=2.0, diameter=2.0, cap=1.0)
        ledger.append(S, [Began(S, 0, b"secret-state", 0.5, 0.0, 1.0), Spoke(0, b"frame", 0.2)])
        ledger.append(T, [Opened(T, (0, 1))])


def test_show(run, answer):
    told = answer("ledger", "show", "a.ledger")
    (value,) = told["values"]
    assert value == {
        "value": "meter-7",
        "adjacency": None,
        "cap": 1.0,
        "spent": 0.5,
        "remaining": 0.5,
        "sessions": 1,
        "hides": "",
        "delta": 0.0,
        "delta_cap": 0.0,
    }
    mine, coordinated = told["sessions"]
    assert (mine["id"], mine["said"], mine["planned"], mine["settled"]) == (S.hex(), 0.2, 0.5, False)
    assert coordinated == {"id": T.hex(), "records": 1, "forgotten": False}
    text = run("ledger", "show", "a.ledger").output
    assert "1 value, 2 sessions" in text
    assert S.hex()[:16] in text
    assert "secret" not in text


def test_a_cap_is_changed_on_purpose(answer):
    assert answer("ledger", "cap", "a.ledger", "meter-7", 3)["values"][0]["remaining"] == 2.5
    assert answer("ledger", "show", "a.ledger")["values"][0]["cap"] == 3.0
    told = answer("ledger", "cap", "a.ledger", "new", 1, "--adjacency", 4)
    assert [value["value"] for value in told["values"]] == ["meter-7", "new"]


def test_a_session_is_given_up(answer, run):
    told = answer("ledger", "settle", "a.ledger", "5f")
    assert told["values"][0]["spent"] == 0.2
    assert told["sessions"][0]["settled"] is True
    assert "nothing more will be sent" in run("ledger", "show", "a.ledger").output


def test_a_copy_is_adopted(run, tmp_path):
    for name in ("a.ledger", "a.ledger.mark"):
        shutil.copy(tmp_path / name, tmp_path / name.replace("a", "b", 1))
    sentence = " ".join(run("ledger", "show", "b.ledger", code=2).stderr.split())
    assert "it was copied" in sentence
    assert "`tacit ledger adopt` it" in sentence
    assert "b.ledger is adopted" in run("ledger", "adopt", "b.ledger").output
    run("ledger", "show", "b.ledger")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("show", "nothing.ledger"), "there is no ledger"),
        (("cap", "nothing.ledger", "x", 1), "there is no ledger"),
        (("adopt", "nothing.ledger"), "there is no ledger"),
        (("cap", "a.ledger", "meter-7", "--", -1), "a cap must be a number of at least 0"),
        (("cap", "a.ledger", "meter-7", "much"), "is not a finite number"),
        (("settle", "a.ledger", "5"), "2 sessions begin with '5'"),
        (("settle", "a.ledger", "00"), "No sessions begin with '00'"),
        (("settle", "a.ledger", "5e"), "nothing is reserved for this session"),
    ],
)
def test_mistakes(run, tmp_path, words, sentence):
    assert sentence in " ".join(run("ledger", *words, code=2).stderr.split())
    assert not list(tmp_path.glob("nothing*"))


def test_a_ledger_in_use_is_shown_and_not_changed(run, tmp_path):
    with Ledger(tmp_path / "a.ledger") as ledger:
        assert ledger.values()
        said = run("ledger", "cap", "a.ledger", "value", 1, code=2).stderr
        assert "is in use by process" in " ".join(said.split())
        # Another process: one that opens and closes the file would release the locks of its own.
        words = [sys.executable, "-m", "tacit", "ledger", "show", "a.ledger", "--json"]
        shown = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
        assert [one["value"] for one in shown["values"]] == list(ledger.values())
        assert shown["file"] == "a.ledger"


_SHOWS = """
import sys
made = []
words = {"os.mkdir", "tempfile.mkdtemp", "tempfile.mkstemp", "shutil.copyfile", "sqlite3.connect"}
sys.addaudithook(lambda event, given: made.append((event, str(given[0]))) if event in words else None)
from tacit.cli import main
try:
    main(["ledger", "show", "a.ledger", "--json"])
finally:
    print(made, file=sys.stderr)
"""


def test_the_copy_of_a_ledger_in_use_is_never_a_file(tmp_path):
    """It has the value's states. A command that is killed would leave it behind."""
    with Ledger(tmp_path / "a.ledger"):
        done = subprocess.run([sys.executable, "-c", _SHOWS], check=True, capture_output=True, text=True)
    assert "meter-7" in done.stdout
    assert done.stderr.strip() == "[('sqlite3.connect', ':memory:')]"


def test_states_are_forgotten_and_what_they_cost_is_not(answer, run, tmp_path):
    assert "only a session that is over" in " ".join(
        run("ledger", "forget", "a.ledger", "5f", code=2).stderr.split()
    )
    assert b"secret-state" in (tmp_path / "a.ledger").read_bytes()
    answer("ledger", "settle", "a.ledger", "5f")
    told = answer("ledger", "forget", "a.ledger", "--all")
    assert told["sessions"][0]["forgotten"] is True
    assert told["values"][0]["spent"] == 0.2
    assert b"secret-state" not in (tmp_path / "a.ledger").read_bytes()
    assert "forgotten" in run("ledger", "show", "a.ledger").output
    assert "--all" in run("ledger", "forget", "a.ledger", code=2).stderr


def test_whether_a_value_was_clamped_is_shown_on_request_only(answer, run):
    assert "clamped" not in answer("ledger", "show", "a.ledger")["sessions"][0]
    assert answer("ledger", "show", "a.ledger", "--private")["sessions"][0]["clamped"] is False
    assert "clamped" not in run("ledger", "show", "a.ledger").output
    assert "clamped" in run("ledger", "show", "a.ledger", "--private").output


def test_a_witness_is_made_once(answer, run, tmp_path):
    answer("ledger", "witness", "a.ledger", "far.witness")
    assert (tmp_path / "far.witness").stat().st_mode & 0o777 == 0o600
    assert "exists already" in run("ledger", "witness", "a.ledger", "far.witness", code=2).stderr


def test_help_has_examples(run):
    for words in ((), ("show",), ("cap",), ("settle",), ("adopt",), ("forget",), ("witness",)):
        assert "tacit ledger " in run("ledger", *words, "--help").output
