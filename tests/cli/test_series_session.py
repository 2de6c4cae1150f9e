"""`tacit session new --series`, and what `join` and `ledger cap` say of a series before it runs."""

import shutil

import pytest

from tacit.live.identity.identity import provision
from tacit.live.identity.keys import key_text
from tacit.live.ledger.ledger import Ledger
from tacit.live.sessions.file import read_session

MEMBERS = ["coordinator", "a0", "a1", "north", "south"]
ASKED = ("--roster", "roster.txt", "--range", "0:10", "--loss", 30, "--every", "15m")
SERIES = (*ASKED, "--keepers", "north,south", "--series", 96, "--hides", "step:2")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    everyone = provision(folder / "keys", MEMBERS, listening=["coordinator"])
    lines = (f"{name} {key_text(one.public_key)}\n" for name, one in everyone.items())
    (folder / "roster.txt").write_text("".join(lines))
    return folder


@pytest.fixture(autouse=True)
def files(made, run, tmp_path):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    value = tmp_path / "value"
    value.touch(mode=0o600)
    value.write_text("3.5")


def test_new_writes_what_check_reads(answer, run):
    told = answer("session", "new", *SERIES, "--begins", "2030-01-31T12:00:00Z")
    session = read_session("session.toml")
    assert told["id"] == session.id.hex()
    assert answer("session", "check", "session.toml") == told
    assert told["loss"] == session.series.loss <= 30.0
    assert (session.series.slots, session.series.interval) == (96, 900.0)
    assert session.series.begins == 1_896_091_200
    assert session.series.mechanism == "square-root"
    text = run("session", "check", "session.toml").output
    for words in (
        "hides",
        "step:2",
        "Other changes",
        "KEEPERS",
        "no protection at all",
        "--hides step:2 --delta",
    ):
        assert words in text


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((*ASKED, "--series", 96, "--hides", "step:2"), "at least one keeper"),
        ((*ASKED, "--keepers", "north", "--series", 96), "needs --hides"),
        ((*SERIES, "--mixing", 0.5), "cannot use mixing"),
        ((*SERIES, "--start", 2), "begins by the clock"),
        ((*SERIES, "--begins", "noon"), "must be a time"),
        ((*SERIES, "--begins", "2030-01-31T12:00:00"), "with its zone"),
        ((*SERIES[:-1], "year"), "must be reading, window"),
        ((*SERIES[:-1], "step:99"), "at most the range"),
        ((*ASKED, "--keepers", "north"), "--series SLOTS"),
    ],
)
def test_mistakes_end_in_a_sentence_and_write_nothing(run, tmp_path, words, sentence):
    told = " ".join(run("session", "new", *words, code=2).output.split())
    assert sentence in told
    assert not (tmp_path / "session.toml").exists()


def test_what_no_noise_can_hide_is_refused(run, tmp_path):
    said = run("session", "new", *SERIES, "--loss", 0.001, code=2).output
    assert "half the range" in said
    assert "--anyway" in said
    assert not (tmp_path / "session.toml").exists()


def join(*more):
    keys = ("--keys", "keys/a0", "--ledger", "a0.ledger", "--connect", "wss://127.0.0.1:1")
    return ("join", "session.toml", *keys, *more)


def trust():
    return "--trust", f"north={key_text(read_session('session.toml').keepers[0].key)}"


def test_an_owner_who_has_not_accepted_what_is_hidden_is_refused(run, tmp_path):
    run("session", "new", *SERIES)
    value = ("--value-file", "value", "--cap", 30, *trust())
    for more, sentence in (
        ((), "no other change of the readings"),
        (("--hides", "step:3", "--delta", 1e-6), "wants step:3 hidden"),
        (("--hides", "step:2", "--delta", 1e-9), "fails with a probability"),
        (("--cap", 1, "--hides", "step:2", "--delta", 1e-6), "the cap of 1"),
    ):
        told = " ".join(run(*join(*value, *more), code=3).output.split())
        assert sentence in told
        assert "3.5" not in told
        assert "nothing was sent" in told
    with Ledger(tmp_path / "a0.ledger") as ledger:
        assert not ledger.sessions()


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (("--value-file", "value", "--hides", "step:2"), "Give --hides and --delta together"),
        ((), "needs one source of readings"),
        (("--value-file", "value", "--value-command", "true"), "needs one source of readings"),
        (("--value-file", "value", "--state-file", "s"), "not for a series"),
    ],
)
def test_options_of_join_that_cannot_be(run, more, sentence):
    run("session", "new", *SERIES)
    assert sentence in " ".join(run(*join("--cap", 30, *trust(), *more), code=2).output.split())


def test_options_for_a_series_are_refused_elsewhere(run):
    run("session", "new", "--roster", "roster.txt", "--range", "0:10", "--loss", 1, "--anyway")
    told = run(*join("--value-file", "value", "--cap", 1, "--hides", "step:2"), code=2).output
    assert "are for a series" in told


def test_what_is_accepted_is_changed_on_purpose(run, answer, tmp_path):
    with Ledger(tmp_path / "a0.ledger") as ledger:
        ledger.set_cap("value", 1.0)
    told = answer("ledger", "cap", "a0.ledger", "value", 2, "--hides", "step:2", "--delta", 1e-5)
    (row,) = told["values"]
    assert (row["hides"], row["delta_cap"], row["delta"]) == ("step:2.0", 1e-5, 0.0)
    assert "what a series must hide" in run("ledger", "show", "a0.ledger").output
    assert answer("ledger", "cap", "a0.ledger", "value", 3)["values"][0]["hides"] == "step:2.0"
    run("ledger", "cap", "a0.ledger", "value", 2, "--hides", "step:2", code=2)
    run("ledger", "cap", "a0.ledger", "value", 2, "--hides", "step:2", "--delta", 2, code=2)
