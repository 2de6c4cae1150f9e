"""A careless user: every mistake ends in one sentence and exit code 2, and changes no file."""

import os
import shutil
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tacit.cli import VERBS, main, options
from tacit.cli.design import Failure


def commands(command, words=()):
    """Yield every command that does something, with the words that call it."""
    if isinstance(command, click.Group):
        for name in command.list_commands(None):
            yield from commands(command.get_command(None, name), (*words, name))
    else:
        yield words, command


ALL = {" ".join(words): command for words, command in commands(main)}
NOT_READ = {
    options.Number: ("abc", "", "nan", "inf", "1e400", "1,2"),
    options.Whole: ("abc", "", "nan", "-1", "0.5", "1e400", "9" * 30),
    Failure: ("abc", "", "inf"),
    options.PerAgent: ("abc", "", "1,x", "1,,2", "@missing", "@folder", "@binary", "@empty"),
    options.ListOf: ("abc", "", ",", "1,x"),
    options.Parameter: ("abc", "=", "=1", "rate="),
    options.Span: ("abc", "", "1", ":", "1:x"),
    click.IntRange: ("abc", "", "-1", "1e9"),
    click.Choice: ("abc", ""),
}


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Some files that are never what a command wants; return a function that looks at all files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    (tmp_path / "empty").touch()
    return lambda: {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}


def refused(words, files, say=""):
    before = files()
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == 2, (words, result.output)
    said = [line for line in result.stderr.splitlines() if line and not line.startswith(("Usage:", "Try "))]
    assert len(said) == 1, (words, result.stderr)
    assert said[0].startswith("Error: ")
    assert "No such command" not in said[0]
    assert say in said[0]
    assert result.stdout == ""
    assert files() == before, words


def test_every_verb_is_here():
    assert {name.split()[0] for name in ALL} == set(VERBS)


@pytest.mark.parametrize("name", ALL)
def test_what_cannot_be_read_is_refused(name, files):
    for option in ALL[name].params:
        wrong = NOT_READ.get(type(option.type), ())
        for value in wrong if isinstance(option, click.Option) and option.nargs == 1 else ():
            refused([*name.split(), f"{option.opts[-1]}={value}"], files)


@pytest.mark.parametrize("name", ALL)
def test_help_has_an_example_and_json_is_there_for_programs(name):
    result = CliRunner().invoke(main, [*name.split(), "--help"])
    assert result.exit_code == 0
    assert f"  tacit {name}" in result.output.split("Example")[1]
    # `hub serve` runs until it is stopped, and its log is JSON lines. The demo is for people.
    assert ("--json" in result.output) == (name not in ("hub serve", "demo"))


@pytest.mark.parametrize("name", ["missing", "folder", "binary", "empty"])
@pytest.mark.parametrize(
    "words",
    [
        "analyze --agents 2 --noise 1 --decay 0.8 --mixing @{}",
        "analyze --mixing 0.5 --noise 1 --decay 0.8 --graph {}",
        "graph {}",
        "simulate --agents 2 --mixing 0.5 --noise 1 --decay 0.8 --values {}",
        "compare --graph {} --epsilon 1",
        "simulate --series 2 --hides step:1 --agents 2 --readings {}",
        "audit {}",
        "figure trajectories --graph {} --table",
        "keys sign {} --out new",
        "keys install {} --keys folder",
        "keys revoke alice --authority {} --out new",
        "keys authority --out {} --renew",
        "keys show {}",
        "session new --roster {} --loss 1 --range 0:1 --out new",
        "session check {}",
        "session cancel {} --keys folder",
        "hub new {} --moved --address wss://a:1",
        "hub serve {}",
        "hub show {}",
        "hub pause {} --stop",
        "hub run {} --loss 1 --range 0:1",
        "hub cancel {} x",
        "invite alice --hub {} --withdraw",
        "invite alice --hub {}",
        "enroll {}",
        "agent {}",
        "ledger show {}",
        "ledger cap {} value 1",
        "ledger adopt {}",
        "coordinate {} --keys folder --ledger new",
        "keep {} --keys folder --ledger new",
        "join {} --keys folder --ledger new",
        "verify {}",
    ],
)
def test_no_such_file_a_folder_and_other_files_are_refused(words, name, files):
    refused([word.format(name) for word in words.split()], files)


@pytest.mark.parametrize(
    ("words", "say"),
    [
        ("design --agents 9 --epsilon 1 --delta 1e-6", "--series"),
        ("design --agents 9 --epsilon 1 --hides step:2", "--series"),
        ("design --agents 9 --graph ring:9 --epsilon 1", "not both"),
        ("design --agents 9 --epsilon 1 --loss 1", "not both"),
        ("sweep --agents 9 --mixing 0.5 --epsilon 1 --parameter mixing=1", "mixing"),
        ("invite alice --hub hub --withdraw --count 2", "--count"),
        ("hub run hub --loss 1 --range 0:1 --detach --delta 1e-6", "--series"),
        ("hub run hub --loss 1 --range 0:1 --detach --law nonsense", "nonsense"),
        ("hub run hub --loss 1 --range 0:1 --detach --mixing 2", "mixing"),
        ("hub run hub --loss 1 --range 0:1 --detach --mixing -1", "mixing"),
        ("hub run hub --loss 1 --range 0:1 --detach --keepers a/b", "keeper"),
        ("hub run hub --loss 1 --range 0:1 --detach --keepers a,a", "--keepers"),
        ("hub run hub --loss 1 --range 0:1 --detach --agents a/b", "name"),
        ("hub run hub --loss 1 --range 0:1 --detach --wait -1", "--wait"),
        ("hub run hub --loss 1 --range 0:1 --detach --name=", "name"),
        ("hub serve hub --listen nowhere", "nowhere"),
        ("hub new hub --moved --address wss://a:1 --listen=", "wss://"),
        ("hub new hub --moved --address wss://a:1 --host=", "host"),
        ("hub new hub --moved --address wss://a:1 --days 3", "--days"),
        ("hub new hub --new-store --address wss://a:1", "--moved"),
        ("invite alice --hub hub --address=", "wss://"),
    ],
)
def test_what_contradicts_itself_or_cannot_be_is_refused(words, say, hub):
    refused(words.split(), hub, say)


def test_an_order_that_more_agents_could_meet_is_taken(hub):
    words = "hub run hub --loss 0.1 --radius 0.1 --range 0:1 --detach"
    assert CliRunner().invoke(main, words.split()).exit_code == 0


@pytest.mark.parametrize("words", ["--host=", "--days=0", "--days=-1", "--listen=x", "--listen="])
def test_half_a_hub_is_never_made(words, files):
    refused(["hub", "new", "hub", "--address", "wss://hub:7447", words], files)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A hub; an authority, and the keys of a coordinator and two agents in a session. Made once."""
    folder, here = tmp_path_factory.mktemp("made"), Path.cwd()
    os.chdir(folder)
    try:
        for words in ("authority", "new coordinator", "new alice", "new bob"):
            assert CliRunner().invoke(main, ["keys", *words.split()]).exit_code == 0
        Path("requests").mkdir()
        for name in ("coordinator", "alice", "bob"):
            Path("requests", f"{name}.pem").write_bytes(Path(name, "request.pem").read_bytes())
        for words in (
            "keys sign requests --listen --out certificates",
            "keys install certificates/coordinator.crt --keys coordinator",
            "session new --anyway --roster certificates --loss 1 --range 0:9",
            "hub new hub --address wss://hub:7447",
        ):
            result = CliRunner().invoke(main, words.split())
            assert result.exit_code == 0, result.output
    finally:
        os.chdir(here)
    return folder


@pytest.fixture
def hub(made, files):
    shutil.copytree(made / "hub", "hub")
    return files


@pytest.fixture
def signed(made, files):
    shutil.copytree(made, ".", dirs_exist_ok=True)
    return files


@pytest.mark.parametrize("out", ["binary", "session.toml", "folder", "missing/file"])
def test_a_session_is_not_cancelled_over_another_file(out, signed):
    refused(["session", "cancel", "session.toml", "--keys", "coordinator", "--out", out], signed)


def test_a_session_may_be_cancelled_twice(signed):
    for _ in range(2):
        words = ["session", "cancel", "session.toml", "--keys", "coordinator"]
        assert CliRunner().invoke(main, words).exit_code == 0


@pytest.mark.parametrize("out", ["binary", "session.toml", "folder", "missing/file"])
def test_nothing_is_revoked_if_its_list_has_no_place(out, signed):
    refused(["keys", "revoke", "alice", "--out", out], signed)


@pytest.mark.parametrize("words", ["--days=0", "--authority=folder", "--out=binary", "--out=missing/deep"])
def test_a_directory_is_signed_completely_or_not_at_all(words, signed):
    out = [] if words.startswith("--out") else ["--out=new"]
    refused(["keys", "sign", "requests", "--listen", words, *out], signed)
