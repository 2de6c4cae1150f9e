"""`tacit audit` as a user runs it: verdicts, exit codes, JSON, pictures, and mistakes in one sentence."""

import json
import re

import pytest
from click.testing import CliRunner

from tacit import ClientServer, Fading
from tacit.cli import main
from tacit.cli.audit import BUGS, KEEPER_BUGS
from tacit.lab.audit import BROKEN, Simulated, broken, write_folder
from tacit.lab.audit.conspiracy import KEEPER_BUGS as KNOWN_KEEPER_BUGS

PAPER = ("--agents", 3, "--mixing", 0.8, "--noise", 10, "--decay", 0.6)
SERVER = ClientServer(Fading(0.8, 10, 0.6), agents=3)


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "110")

    def invoke(*words, code=0):
        result = CliRunner().invoke(main, ["audit", *map(str, words)])
        assert "Traceback" not in result.output
        assert "cannot explain" not in result.output
        assert result.exit_code == code, result.output
        return result

    return invoke


def test_names_of_bugs_are_those_of_the_library(run):
    assert tuple(BROKEN) == BUGS
    assert tuple(KNOWN_KEEPER_BUGS) == KEEPER_BUGS
    text = re.sub(r"-\n +", "-", run("--help").output)
    assert all(name in text for name in BUGS + KEEPER_BUGS)


def test_a_pass_says_what_it_does_not_prove(run):
    text = run(*PAPER, "--simulated", "--sessions", 500).stdout
    assert text.startswith("PASS: simulated (3 agents around a server")
    assert "A pass does not prove privacy" in text
    assert "promised" in text
    assert "measured" in text
    assert "ALARM" not in text


def test_the_deployed_mechanism_is_the_default(run):
    text = run("--agents", 500, *PAPER[2:], "--sessions", 300, "--rounds", 3).stdout
    assert text.startswith("PASS: lattice mechanism")
    assert "Only agents 0, 1, 2 of 500 were run" in text


def test_an_alarm_exits_with_1_and_names_the_test(run):
    text = run("--broken", "gaussian", "--sessions", 600, code=1).stdout
    assert text.startswith("ALARM: gaussian")
    assert "does not prove" not in text
    alarms = [line.split() for line in text.splitlines() if " ALARM " in line]
    assert {"shape", "tails"} <= {words[0] for words in alarms}


def test_json_has_everything_and_nothing_else(run):
    answer = json.loads(run(*PAPER, "--broken", "low-scale", "--sessions", 500, "--json", code=1).stdout)
    assert answer["verdict"] == "alarm"
    assert answer["transcripts"] == 500
    assert answer["promised"] == pytest.approx(0.15 * answer["distance"], rel=1e-3)
    assert {f["test"] for f in answer["findings"]} >= {"scale", "optimal distinguisher"}
    assert len(answer["curve"]["rounds"]) == answer["rounds"] == 9
    good = json.loads(run(*PAPER, "--simulated", "--sessions", 300, "--json").stdout)
    assert good["verdict"] == "pass"
    assert good["not_proved"]


def test_the_same_seed_prints_the_same(run):
    words = (*PAPER, "--simulated", "--sessions", 300, "--seed", 7)
    assert run(*words).stdout == run(*words).stdout


def test_pictures_are_written_whole_and_not_over_others(run, tmp_path):
    words = ("--broken", "redraw", "--sessions", 300)
    assert "Drawn: audit.svg" in run(*words, "--out", "audit.svg", code=1).stdout
    assert (tmp_path / "audit.svg").read_text().rstrip().endswith("</svg>")
    assert "exists already" in run(*words, "--out", "audit.svg", code=2).stderr
    run(*words, "--out", "audit.svg", "--force", code=1)
    assert "a figure is written as" in run(*words, "--out", "audit.txt", code=2).stderr


def test_graphs_one_shot_and_one_agent(run):
    run("--graph", "ring:12", "--mixing", 0.5, "--noise", 3, "--decay", 0.8, "--simulated", "--sessions", 300)
    run("--agents", 2, "--mixing", 0.5, "--noise", 3, "--law", "one-shot", "--simulated", "--sessions", 300)
    answer = json.loads(
        run(*PAPER, "--simulated", "--agent", 2, "--distance", 8, "--sessions", 300, "--json").stdout
    )
    assert (answer["agent"], answer["distance"]) == (2, 8.0)


@pytest.mark.long  # tests/audit/test_conspiracy.py shows it without the command
def test_keepers_are_examined_by_what_conspirators_see(run):
    kept = (*PAPER, "--keepers", 2, "--simulated", "--sessions", 300, "--rounds", 3)
    text = run(*kept).stdout
    assert text.startswith("PASS: keepers (3 agents around a server with 2 keepers")
    assert "all keepers but one" in text
    assert "no protection at all" in " ".join(text.split())
    answer = json.loads(run("--broken", "two-sets", *kept[-4:], "--simulated", "--json", code=1).stdout)
    assert "one opening per update" in {f["test"] for f in answer["findings"] if f["verdict"] == "alarm"}
    assert answer["declared"].startswith("3 agents around a server with 2 keepers")


def test_recorded_sessions(run, tmp_path):
    good, bad = Simulated(SERVER), broken("redraw", SERVER)
    write_folder(tmp_path / "good", good([1, 2, 3.0], 4, 20, 1))
    write_folder(tmp_path / "bad", bad([1, 2, 3.0], 4, 20, 1))
    text = run("good", "--out", "good.png").stdout
    assert text.startswith("PASS: good")
    assert "eavesdropper can locate" in text
    assert "one draw per update" in run("bad", code=1).stdout


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "noise needs mixing"),
        (("--agents", 3), "noise needs mixing"),
        (("--broken", "nothing"), "is not one of"),
        (("none"), "does not exist"),
        ((*PAPER, "--agent", 3, "--sessions", 300), "agent must be a number from 0 to 2"),
        ((*PAPER, "--agent", 3, "--simulated", "--sessions", 300), "agent must be a number from 0 to 2"),
        ((*PAPER, "--sessions", 10), "200"),
        ((*PAPER, "--failure-probability", 2), "failure probability"),
        ((*PAPER, "--distance", -1), "positive"),
        (("--broken", "reused-noise", "--agents", 1, *PAPER[2:]), "two agents"),
        (("--broken", "two-sets", *PAPER), "Without keepers --broken must be one of redraw"),
        (("--broken", "redraw", *PAPER, "--keepers", 2), "With keepers --broken must be one of two-sets"),
        ((*PAPER, "--keepers", 2, "--agent", 0), "leave --agent out"),
        ((*PAPER, "--weights", "closed"), "weights are for a graph"),
        (("--graph", "ring:5", *PAPER[2:], "--keepers", 2), "keepers need a server"),
        ((*PAPER, "--keepers", 2, "--sessions", 200, "--failure-probability", 2), "failure probability"),
    ],
)
def test_mistakes_are_one_sentence(run, words, sentence):
    result = run(*words, code=2)
    assert sentence in result.stderr


def test_transcripts_come_with_their_own_parameters(run, tmp_path):
    write_folder(tmp_path / "good", Simulated(SERVER)([1, 2, 3.0], 4, 5, 1))
    assert "leave --noise, --broken out" in run("good", "--noise", 3, "--broken", "redraw", code=2).stderr
    (tmp_path / "good" / "000003.jsonl").write_text("not json")
    assert "000003.jsonl, line 1" in run("good", code=2).stderr
