"""`tacit session`: a file from a promise, and what a file promises."""

import math
import re
import shutil
import time
from pathlib import Path

import msgspec
import pytest

from tacit.base.rounding import shown_up
from tacit.core.question import parse_question
from tacit.live.identity.identity import provision
from tacit.live.ledger.ledger import Ledger
from tacit.live.sessions.file import read_session, read_with_addresses

ROOT = Path(__file__).parents[2]
ASKED = ("--roster", "certificates", "--loss", 1, "--range", "0:50", "--mixing", 0.8, "--anyway")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    everyone = provision(folder / "keys", ["coordinator", *(f"agent-{i}" for i in range(6))])
    (folder / "certificates").mkdir()
    for name, one in everyone.items():
        data = one.certificate.pem() + one.authority.pem()
        (folder / "certificates" / f"{name}.crt").write_bytes(data)
    return folder / "certificates"


@pytest.fixture(autouse=True)
def certificates(made, run, tmp_path):
    shutil.copytree(made, tmp_path / "certificates")


def test_new_writes_what_check_reads(answer, run):
    told = answer("session", "new", *ASKED)
    session = read_session("session.toml")
    assert told["id"] == session.id.hex()
    assert told["accounted_loss"] <= 1.0
    assert (told["agents"], told["topology"], told["adjacency"], told["sound"]) == (6, "server", 50.0, True)
    checked = answer("session", "check", "session.toml")
    assert checked == told
    text = run("session", "check", "session.toml").output
    assert session.id.hex()[:16] in text
    assert re.search(r"Promise\s+loss\s+1\s", text)
    assert re.search(r"factor\s+2\.71829", text)  # e, rounded up
    assert "the true average" in text


def test_what_is_shown_is_never_too_small(answer, run):
    told = answer(
        "session",
        "new",
        "--anyway",
        "--roster",
        "certificates",
        "--loss",
        0.123456789,
        "--range",
        "0:1",
    )
    text = run("session", "check", "session.toml").output
    shown = {name: float(value) for name, value in re.findall(r"(loss|first|factor|radius)\s+([\d.]+)", text)}
    assert shown["loss"] >= told["accounted_loss"]
    assert shown["first"] >= told["first_message_loss"]
    assert shown["factor"] >= told["likelihood_factor"]
    assert shown["radius"] >= told["radius"]


def test_every_option_reaches_the_file(run):
    run(
        *("session", "new", "--anyway", "--roster", "certificates", "--graph", "ring:6", "--epsilon", 0.1),
        *("--range", "-5:5", "--law", "one-shot", "--rounds", 200, "--components", 2),
        *("--adjacency", 3, "--quorum", 3, "--start", 4, "--round-deadline", 2, "--start-deadline", 3),
        *("--name", "pumps", "--out", "p.toml", "--mixing", 0.5),
        *("--address", "agent-2=wss://192.0.2.7:7447"),
    )
    session = read_session("p.toml")
    assert (session.name, session.topology, session.law, session.rounds) == (
        "pumps",
        "graph",
        "one-shot",
        200,
    )
    assert (session.lattice.low, session.lattice.high) == (-5.0, 5.0)
    assert (session.components, session.adjacency, session.mixing) == (2, 3.0, 0.5)
    assert (session.quorum, session.start) == (3, 4)
    assert msgspec.structs.asdict(session.deadlines) == {"round": 2.0, "start": 3.0, "repeat": 1.0}
    assert read_with_addresses("p.toml")[1] == {"agent-2": "wss://192.0.2.7:7447"}


@pytest.mark.parametrize("components", [1, 3, 10])
def test_a_radius_for_one_component_and_for_all(answer, run, components):
    asked = (*ASKED, "--adjacency", 1, "--components", components)
    told = answer("session", "new", *asked)
    text = " ".join(run("session", "check", "session.toml").output.split())
    session = read_session("session.toml")
    assert told["radius"] == session.promise(0.05).theory.radius
    each = 1 - 0.95 ** (1 / components)
    assert told["radius_all_components"] == pytest.approx(session.promise(each).theory.radius, rel=1e-9)
    if components == 1:
        assert "component" not in text
    else:
        assert told["radius"] < told["radius_all_components"]
        assert "for any one component" in text
        assert shown_up(told["radius_all_components"]) in text
        assert f"for all {components} components together" in text


def test_a_radius_that_says_little_is_warned_about(answer, run):
    """README's session used to promise a radius of more than twice the range, without a word."""
    told = answer("session", "new", *ASKED, "--rounds", 10)
    assert told["radius"] > 25
    (warning,) = [note for note in told["notes"] if note.startswith("WARNING")]
    assert "the result is useless" in warning
    assert "WARNING" in run("session", "check", "session.toml").output
    told = answer("session", "new", *ASKED, "--adjacency", 5, "--force")
    (warning,) = [note for note in told["notes"] if note.startswith("WARNING")]
    assert "rough" in warning
    told = answer("session", "new", *ASKED, "--adjacency", 1, "--force")
    assert told["radius"] < 5
    assert not any("WARNING" in note for note in told["notes"])


@pytest.mark.parametrize(
    ("loss", "protection", "right"),
    [(0.1, "strong", "52.5%"), (1, "moderate", "73.2%"), (3, "weak", "95.3%"), (3.01, "hardly any", "95.4%")],
)
def test_how_strong_a_loss_is(answer, run, loss, protection, right):
    told = answer(
        "session",
        "new",
        "--anyway",
        "--roster",
        "certificates",
        "--loss",
        loss,
        "--range",
        "0:1",
        "--mixing",
        0.8,
    )
    assert told["protection"] == protection
    assert told["right_at_most"] == pytest.approx(1 / (1 + math.exp(-loss)))
    text = " ".join(run("session", "check", "session.toml").output.split())
    assert f"protection {protection} who sees everything" in text
    assert f"is right at most {right} of the time" in text


def test_an_unsound_session_is_told_and_has_its_exit_code(run, answer, tmp_path):
    run("session", "new", *ASKED, "--rounds", 40, "--mixing", 0.3)
    path = tmp_path / "session.toml"
    fine = re.search(r"state_exponent = (-\d+)", path.read_text())
    path.write_text(path.read_text().replace(fine[0], f"state_exponent = {int(fine[1]) + 45}"))
    text = " ".join(run("session", "check", "session.toml", code=2).output.split())
    assert "NOT SOUND: The lattice is too coarse for 40 rounds" in text
    told = answer("session", "check", "session.toml", code=2)
    assert told["sound"] is False
    assert told["faults"]


def test_a_smaller_adjacency_is_pointed_out(run):
    text = " ".join(run("session", "new", *ASKED, "--adjacency", 1).output.split())
    assert "differ by at most 1, but the range allows 50" in text


def test_infeasible_says_what_has_to_give(answer, run):
    told = answer("session", "new", *ASKED, "--radius", 0.1, code=3)
    assert told["feasible"] is False
    assert told["gives"]["radius"] > 0.1
    assert not Path("session.toml").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("new", "--loss", 1, "--range", "0:1"), "Missing option '--roster'"),
        (("new", "--roster", "nowhere", "--loss", 1, "--range", "0:1"), "'nowhere' does not exist"),
        (("new", "--roster", "certificates", "--loss", 1), "the range of values is missing"),
        (("new", "--roster", "certificates", "--range", "0:1"), "at least two of privacy"),
        (("new", *ASKED, "--agents", 5), "--agents is 5, but certificates names 6 agents"),
        (("new", *ASKED, "--agents", 6, "--graph", "ring:6"), "not both"),
        (("new", *ASKED, "--graph", "ring:5"), "one agent for each of the roster's 6"),
        (("new", *ASKED, "--epsilon", 1), "give epsilon or loss"),
        (("new", *ASKED, "--range", "60:50"), "low < high"),
        (("new", *ASKED, "--quorum", 7), "quorum must be a whole number from 1 to 6"),
        (("new", *ASKED, "--quorum", 5, "--start", 4), "start must be at least the quorum"),
        (("new", *ASKED, "--round-deadline", 0), "the round deadline must be"),
        (("new", *ASKED, "--name", "a b"), "a session's name must be"),
        (("new", *ASKED, "--address", "nobody=wss://x:1"), "--address must be NAME=ENDPOINT"),
        (("new", *ASKED, "--address", "agent-1=x"), "must be like wss://192.0.2.1:7447, got 'x'"),
        (("new", *ASKED, "--out", "no/where.toml"), "there is no directory no"),
        (("check", "nothing.toml"), "nothing.toml: No such file"),
        (("check", "certificates"), "Is a directory"),
        (("check", "certificates/agent-1.crt"), "must be TOML"),
    ],
)
def test_mistakes(run, words, sentence):
    assert sentence in " ".join(run("session", *words, code=2).stderr.split())
    assert not Path("session.toml").exists()


QUESTION = ("new", "--roster", "certificates", "--loss", 9, "--anyway", "--ask")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("histogram:0,2,1",), "numbers that increase"),
        (("histogram:0,nan",), "numbers that increase"),
        (("histogram:red,red",), "must differ from each other"),
        (("quantile:0,1,2:1.5",), "a quantile must be in (0, 1), got 1.5"),
        (("weighted-mean:0:1:0",), "the largest weight must be a positive number, got 0.0"),
        (("mean:1:0",), "low < high"),
        (("own",), "a question must be written like"),
        (("count", "--range", "0:1"), "the question says what the records are"),
        (("count", "--adjacency", 0.5), "a smaller adjacency is for means only"),
        (("count", "--law", "fading"), "needs noise that is drawn once"),
        (("count", "--rounds", 3), "must have one round, got 3"),
        (("count", "--graph", "path:6", "--weights", "closed"), "the true average"),
        (
            ("histogram:0,1,2", "--series", 9, "--hides", "step:1", "--every", "1m"),
            "needs at least one keeper",
        ),
    ],
)
def test_a_question_that_makes_no_sense_is_refused_in_one_sentence(run, words, sentence):
    assert sentence in " ".join(run("session", *QUESTION, *words, code=2).stderr.split())
    assert not Path("session.toml").exists()


@pytest.mark.parametrize("where", [(), ("--graph", "ring:6")])
def test_a_session_asks_a_question(answer, run, where):
    word = "group-by:a,b:sum:0:9"
    told = answer("session", *QUESTION, word, *where)
    session = read_session("session.toml")
    assert session.question == parse_question(word)
    assert (told["asks"], session.law, session.adjacency) == (word, "one-shot", 18.0)
    assert told["accounted_loss"] <= 9
    assert f"asks for {word}" in " ".join(run("session", "check", "session.toml").stdout.split())


def test_a_file_is_kept_unless_forced(run):
    run("session", "new", *ASKED)
    before = Path("session.toml").read_text()
    assert "exists already" in run("session", "new", *ASKED, "--rounds", 9, code=2).stderr
    assert Path("session.toml").read_text() == before
    run("session", "new", *ASKED, "--rounds", 9, "--force")
    assert read_session("session.toml").rounds == 9


def test_help_has_examples(run):
    for words in ((), ("new",), ("check",)):
        text = run("session", *words, "--help").output
        assert "Example" in text
        assert "tacit session " in text


def test_a_session_expires_when_its_maker_says_and_check_shows_it(answer, run):
    before = time.time()
    told = answer("session", "new", *ASKED, "--days", 2)
    assert before + 2 * 86_400 <= told["expires"] <= time.time() + 2 * 86_400 + 1
    assert told["expired"] is False
    assert (told["quorum"], told["start"]) == (4, 4)
    shown = " ".join(run("session", "check", "session.toml").output.split())
    assert f"expires {read_session('session.toml').expiry} nobody joins or speaks after that" in shown
    assert "start 4 agents of 6 at least; all of them in the first 60 s" in shown
    default = answer("session", "new", *ASKED, "--out", "week.toml")["expires"]
    assert default >= before + 7 * 86_400
    sentence = " ".join(run("session", "new", *ASKED, "--days", 0, "--out", "x.toml", code=2).stderr.split())
    assert "--days must be above 0" in sentence
    text = re.sub("expires = .*", "expires = 2020-01-01T00:00:00Z", Path("session.toml").read_text())
    Path("session.toml").write_text(text)
    assert "This session expired on 2020-01-01 00:00:00 UTC" in " ".join(
        run("session", "check", "session.toml").output.split()
    )


def test_cancel_writes_what_an_agent_that_is_not_connected_can_use(answer, run, tmp_path, monkeypatch):
    everyone = provision(tmp_path / "keys", ["coordinator", "alice", "bob"])
    with (tmp_path / "keys.txt").open("w") as file:
        file.writelines(f"{name} {one.key}\n" for name, one in everyone.items())
    asked = ("--roster", "keys.txt", *ASKED[2:])
    for out in ("session.toml", "other.toml"):
        answer("session", "new", *asked, "--out", out, "--name", out.partition(".")[0])
    session = read_session("session.toml")
    with Ledger(tmp_path / "a.ledger") as ledger:
        ledger.reserve(session.id, "value", planned=1.0, adjacency=50.0, diameter=50.0, cap=1.0)
    settle = ("ledger", "settle", "a.ledger", "session.toml", "--cancellation", "session.cancelled")
    run(*settle, code=2)  # there is no such file
    run("session", "cancel", "session.toml", "--keys", "keys/alice", code=2)
    told = answer("session", "cancel", "session.toml", "--keys", "keys/coordinator")
    assert told["cancellation"] == "session.cancelled"
    wrong = run("ledger", "settle", "a.ledger", "other.toml", "--cancellation", "session.cancelled", code=2)
    assert "must be the cancellation of session other" in " ".join(wrong.stderr.split())
    assert answer("ledger", "show", "a.ledger")["values"][0]["remaining"] == 0.0
    assert answer(*settle)["values"][0]["remaining"] == 1.0
    assert "settled" in run("ledger", "show", "a.ledger").output


def test_join_refuses_a_session_that_has_expired_in_one_sentence(run, tmp_path, answer):
    everyone = provision(tmp_path / "keys", ["coordinator", "alice", "bob"])
    with (tmp_path / "keys.txt").open("w") as file:
        file.writelines(f"{name} {one.key}\n" for name, one in everyone.items())
    answer("session", "new", "--roster", "keys.txt", *ASKED[2:])
    text = Path("session.toml").read_text()
    Path("session.toml").write_text(re.sub("expires = .*", "expires = 2020-01-01T00:00:00Z", text))
    (tmp_path / "value").write_text("20")
    (tmp_path / "value").chmod(0o600)
    words = ("join", "session.toml", "--keys", "keys/alice", "--ledger", "a.ledger", "--cap", 1)
    found = run(*words, "--value-file", "value", "--connect", "wss://127.0.0.1:1", code=2)
    assert "session session expired on 2020-01-01 00:00:00 UTC" in " ".join(found.stderr.split())
