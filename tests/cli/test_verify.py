"""`tacit verify` and `tacit status` as a user meets them."""

import asyncio
import json
import threading

import pytest
from click.testing import CliRunner

from tacit.cli import main
from tacit.core.protocol.standing import Loss, Standing
from tacit.live.runtime.transcript import TranscriptWriter
from tacit.live.status.document import StatusDocument
from tacit.live.status.server import StatusServer
from tacit.live.status.status import Status
from tacit.live.verification.verdict import verify

PATH = ((0, 1), (1, 2), (2, 3))


@pytest.fixture
def game(played, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = played(absent={1: [2], 2: [0, 1]})
    with TranscriptWriter(tmp_path / "t.jsonl", made.session) as writer:
        writer.take(made.kept[-1])
    return made


def run(*words, code=0, command="verify"):
    result = CliRunner().invoke(main, [command, *map(str, words)], catch_exceptions=True)
    assert result.exit_code == code, result.output
    return result.stdout


def test_a_sound_session_exits_with_0_and_is_explained(game):
    text = run("t.jsonl")
    assert text.startswith("SOUND: session played")
    assert "4 of 4" in text
    assert "radius" in text
    assert "recomputed, right to the last bit" in verify("t.jsonl")._repr_html_()
    answer = json.loads(run("t.jsonl", "--json", "--failure-probability", "0.1", "--agent", "agent1"))
    assert answer["sound"] is True
    assert answer["used"][1] == ["agent0", "agent1", "agent3"]
    assert answer["accuracy"]["of"] == "the state of agent1"
    assert sum(answer["accuracy"]["weights"].values()) == pytest.approx(1)
    assert answer["agents"]["agent2"]["messages"] == 3
    assert answer["agents"]["agent2"]["loss"] < answer["agents"]["agent2"]["loss_declared"]


def test_the_radius_says_what_it_assumes_and_is_beside_one_that_does_not(game):
    text = " ".join(run("t.jsonl").split())
    assert "assuming that who was used does not depend on the noise" in text
    assert "the radius without that assumption" in text
    told = json.loads(run("t.jsonl", "--json"))["accuracy"]
    assert told["assumption"] == "assuming that who was used does not depend on the noise"
    assert told["radius_any_selection"] > told["radius"] == told["radius_all_components"]
    assert "component" not in text


def test_vectors_have_a_radius_for_one_component_and_for_all(played, tmp_path):
    made = played(components=3)
    with TranscriptWriter(tmp_path / "t.jsonl", made.session) as writer:
        writer.take(made.kept[-1])
    text = " ".join(run(tmp_path / "t.jsonl").split())
    assert text.count("for any one component") == text.count("for all 3 components together") == 3
    told = json.loads(run(tmp_path / "t.jsonl", "--json"))["accuracy"]
    for name in ("radius", "radius_met", "radius_any_selection"):
        assert told[name] < told[f"{name}_all_components"]
    assert told["components"] == 3


def test_a_result_off_the_range_is_clamped_for_people(played, tmp_path):
    found = {}
    for seed in (1, 2, 3, 4, 5, 6):
        made = played(seed=seed)
        path = tmp_path / f"{seed}.jsonl"
        with TranscriptWriter(path, made.session) as writer:
            writer.take(made.kept[-1])
        told, text = json.loads(run(path, "--json")), " ".join(run(path).split())
        (raw,), (shown,) = told["result"], told["result_in_range"]
        assert shown == min(max(raw, 0.0), 1.0)
        assert f"result {shown:.6g} the last feedback" in text
        found[raw != shown] = found.get(raw != shown, 0) + 1
        assert ("clamped to the range" in text) == (raw != shown)
    assert set(found) == {True, False}


def test_a_wrong_one_exits_with_1_and_says_what(game, tmp_path):
    lines = (tmp_path / "t.jsonl").read_text().splitlines()
    (tmp_path / "twice.jsonl").write_text("\n".join([*lines, lines[-1]]) + "\n")
    text = run("twice.jsonl", code=1)
    assert text.startswith("UNSOUND: session played")
    assert "out-of-order" in text
    answer = json.loads(run("twice.jsonl", "--json", code=1))
    assert answer["verdict"] == "unsound"
    assert [f["name"] for f in answer["findings"] if f["wrong"]] == ["out-of-order"]
    assert answer["accuracy"] is answer["result"] is None


def test_what_could_not_be_checked_exits_with_7_and_says_what_is_missing(game, tmp_path):
    lines = (tmp_path / "t.jsonl").read_text().splitlines()
    (tmp_path / "less.jsonl").write_text("\n".join(lines[:2] + lines[3:]) + "\n")
    text = run("less.jsonl", code=7)
    assert text.startswith("UNCHECKED: session played")
    assert "missing-report" in text
    assert "there are 3 of 4" in " ".join(text.split())
    assert "radius" not in text
    answer = json.loads(run("less.jsonl", "--json", code=7))
    assert (answer["verdict"], answer["sound"]) == ("unchecked", False)
    assert [f["name"] for f in answer["findings"] if f["gap"]] == ["missing-report"]
    assert answer["accuracy"] is answer["result"] is None
    assert answer["last_feedback"] == json.loads(run("t.jsonl", "--json"))["result"]
    (tmp_path / "cut.jsonl").write_text("\n".join(lines[:6]) + "\n")
    assert "unfinished" in run("cut.jsonl", code=7)
    run("cut.jsonl", "--running")


def test_peers_are_merged(played, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    game = played(edges=PATH)
    for i in range(4):
        with TranscriptWriter(tmp_path / f"{i}.jsonl", game.session, i, sign=game.keys[i].sign) as writer:
            writer.take(game.kept[i])
    several = [f"{i}.jsonl" for i in range(4)]
    assert "Written: all.jsonl" in run(*several, "--merge", "all.jsonl")
    together, merged = (json.loads(run(*files, "--json")) for files in (several, ["all.jsonl"]))
    assert together["accuracy"] == merged["accuracy"]
    assert together["used"][0]["agent0"] == ["agent0", "agent1"]


@pytest.fixture
def served(game):
    """A status server in a thread; returns its port."""
    status, ready, done = Status(game.session, 1), threading.Event(), threading.Event()
    status.update(loss=Loss(spent=0.5, planned=1.0, cap=2.0), late=[f"agent{i}" for i in range(9)])
    port = []

    async def main():
        async with StatusServer(status) as server:
            port.append(server.port)
            ready.set()
            while not done.is_set():
                await asyncio.sleep(0.01)

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    ready.wait()
    yield port[0]
    done.set()
    thread.join()


def test_status_is_shown(served):
    for where in (served, f"127.0.0.1:{served}", f"http://127.0.0.1:{served}/status"):
        text = run(where, command="status")
        assert "agent1 of session played" in text
        assert "0.5 spent, 1 planned, 2 cap" in text
        assert "and 4 more" in text
    answer = json.loads(run(served, "--json", command="status"))
    assert answer["sessions"][0]["round"] == 0


def test_status_says_why_there_is_none(served):
    for where, says in (
        ("1", "does not answer"),
        (f"http://127.0.0.1:{served}/else", "404"),
        (f"http://127.0.0.1:{served}/metrics", "did not answer with a status"),
    ):
        result = CliRunner().invoke(main, ["status", where])
        assert result.exit_code == 2
        assert says in result.stderr
    for where in ("0", "70000", "ftp://x", "://"):
        assert CliRunner().invoke(main, ["status", where]).exit_code == 2


def test_a_status_of_few_words_has_its_title_in_one_line(capsys):
    from tacit.cli.output import print_result
    from tacit.live.status.report import StatusReport

    few = {"name": "coordinator", "role": "coordinator", "state": "waiting", "ready": True}
    found = StatusDocument(kind="member", **few, sessions=[Standing(name="feeder", rounds=5)])
    print_result(StatusReport(found), as_json=False)
    assert "coordinator of session feeder" in capsys.readouterr().out.splitlines()[0]
