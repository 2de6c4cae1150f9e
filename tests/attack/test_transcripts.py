"""Transcripts made to deceive their judge, or to wear it out."""

from dataclasses import replace

import pytest
from tests.doubles import known_feedback
from tests.runtime.builders import lines_of, names, save

from tacit.core.law import Fading
from tacit.core.mechanism.lattice import Lattice
from tacit.core.protocol.codec import Codec, digest
from tacit.core.protocol.messages import COORDINATOR, NOTHING_HEARD, Reason, Report, Stop
from tacit.core.protocol.records import Ended
from tacit.core.protocol.session import MOST_ROUNDS, Session
from tacit.live.runtime.transcript import TranscriptWriter, header, line_of
from tacit.live.verification.transcript_checker import Checker
from tacit.live.verification.verdict import verify


def write(path, game, by=COORDINATOR, records=None, **how):
    with TranscriptWriter(path, game.session, by, durable=False, **how) as writer:
        writer.take(game.kept[by] if records is None else records)
    return path


def test_a_lie_cannot_hide_behind_harmless_findings(played, monkeypatch):
    """Both kinds have a limit of their own: of a thousand, here of five for speed."""
    monkeypatch.setattr("tacit.live.verification.transcript_checker._MOST_FINDINGS", 5)
    checker = Checker(played(n=2).session)
    for name in ["torn"] * 8 + ["wrong-mean"]:
        checker.found(name)
    assert [finding.name for finding in checker.findings] == ["torn"] * 5 + ["wrong-mean"]


def test_a_signed_end_cannot_be_moved_to_an_earlier_round(played, tmp_path):
    game = played(rounds=4)
    sign = game.keys[-1].sign
    kept = [*game.kept[COORDINATOR][:3], Ended(3, Reason.OPERATOR)]
    whole = lines_of(write(tmp_path / "whole.jsonl", game, records=kept, sign=sign))
    assert verify(save(tmp_path / "a.jsonl", whole)).sound
    assert whole[-1]["note"] == "stop"
    first = next(k for k, line in enumerate(whole) if line.get("round") == 1)
    cut = verify(save(tmp_path / "b.jsonl", [*whole[:first], whole[-1]]))
    assert cut.rounds == 1
    assert names(cut) == {"missing-round", "unfinished"}
    stop = game.codec.open(game.codec.seal(COORDINATOR, Stop(1, Reason.OPERATOR), sign))
    stop = line_of(stop)
    moved = verify(save(tmp_path / "c.jsonl", [*whole[:-1], stop]))
    assert names(moved) == {"out-of-order", "after-the-end", "unfinished"}


def test_a_transcript_can_be_held_against_the_session_that_was_agreed_on(played, tmp_path):
    """Whoever makes up a transcript with keys of his own makes up a sound one: only the id gives it away."""
    game, agreed = played(rounds=4), played(rounds=4, seed=2)
    path = write(tmp_path / "t.jsonl", game)
    assert verify(path, session=game.session).sound
    other = replace(agreed.session, name="agreed")
    forged = verify(path, session=other)
    assert names(forged) == {"other-session"}
    assert not forged.sound


# ---- fiction ---------------------------------------------------------------------------------------


def made_up(game, header_by=COORDINATOR):
    """What a coordinator can sign without any agent: feedback that names everybody, and no report."""
    codec, before, lines = game.codec, NOTHING_HEARD, [header(game.session, header_by)]
    for t in range(game.session.rounds):
        body = known_feedback(codec, t, [7], before=before)
        frame = codec.seal(COORDINATOR, body, game.keys[game.session.n].sign)
        before = digest(frame)
        lines.append(line_of(codec.open(frame)))
    return lines


@pytest.mark.parametrize("by", [COORDINATOR, 0])
@pytest.mark.parametrize("running", [False, True])
def test_a_coordinator_without_any_agent_is_not_believed(played, tmp_path, by, running):
    game = played(rounds=4)
    verdict = verify(save(tmp_path / "t.jsonl", made_up(game, by)), running=running)
    assert not verdict.sound
    assert verdict.word == "unchecked"
    assert verdict.accuracy is None
    assert verdict.result is None
    missing = [str(finding) for finding in verdict.findings if finding.name == "missing-report"]
    assert len(missing) == 1


def test_a_changed_writer_does_not_excuse_missing_reports(played, tmp_path):
    """Nobody signs the first line: without any key it can name another writer."""
    game = played(rounds=4)
    lines = lines_of(write(tmp_path / "t.jsonl", game))
    assert verify(tmp_path / "t.jsonl").word == "sound"
    for by in ("agent0", "agent2", "coordinator"):
        less = [{**lines[0], "by": by}, *(line for line in lines[1:] if line.get("agent") != 2)]
        verdict = verify(save(tmp_path / "less.jsonl", less))
        assert verdict.word == "unchecked", by
        assert names(verdict) == {"missing-report"}
        assert verdict.accuracy is None
        only = [{**lines[0], "by": by}, *lines[1:]]
        assert verify(save(tmp_path / "only.jsonl", only)).word == "sound"


def test_a_peer_that_averages_itself_is_found(played, tmp_path):
    """On a graph: one peer that uses its own message alone, where the session asks for two."""
    game = played(edges=((0, 1), (1, 2)), n=3, rounds=3, quorum=2, alone={0})
    files = [write(tmp_path / f"{i}.jsonl", game, by=i, sign=game.keys[i].sign) for i in range(3)]
    verdict = verify(files)
    assert verdict.word == "unsound"
    assert {finding.name for finding in verdict.findings if finding.wrong} == {"below-quorum"}
    assert {finding.sender for finding in verdict.findings if finding.wrong} == {"agent0"}
    assert verdict.accuracy is None
    assert verify(files[1]).word == "unchecked"  # what agent0 used is not in here


def test_the_last_means_of_a_graph_cannot_be_changed_without_a_key(played, tmp_path):
    """Nobody reports after the last round: that a peer has made all its updates says from what."""
    game = played(edges=((0, 1), (1, 2)), n=3, rounds=3)
    files = [write(tmp_path / f"{i}.jsonl", game, by=i, sign=game.keys[i].sign) for i in range(3)]
    assert verify(files).word == "sound"
    lines = lines_of(files[0])
    last = max(k for k, line in enumerate(lines) if "used" in line)
    assert lines[last]["used"] == [0, 1]
    y = game.session.lattice.mean([game.codec.lifted(game.codec.open(game.reports[2][0]))])
    lines[last] = {**lines[last], "used": [0], "y": int(y)}
    changed = verify([save(tmp_path / "c.jsonl", lines), *files[1:]])
    assert changed.word == "unsound"
    assert names(changed) == {"other-history"}
    unsigned = verify([save(tmp_path / "d.jsonl", [x for x in lines if x.get("note") != "done"]), *files[1:]])
    assert unsigned.word == "unchecked"
    assert names(unsigned) == {"unsigned-mean"}


def test_a_session_cannot_end_and_go_on(played, tmp_path):
    """The coordinator signs the end for some, and further rounds for others."""
    game = played(rounds=4)
    ended = [*game.kept[COORDINATOR][:2], Ended(2, Reason.OPERATOR)]
    short = write(tmp_path / "short.jsonl", game, records=ended, sign=game.keys[-1].sign)
    long = write(tmp_path / "long.jsonl", game)
    assert verify(short).word == verify(long).word == "sound"
    for several in ([short, long], [long, short]):
        assert names(verify(several)) == {"after-the-end"}


def test_an_end_in_another_file_does_not_let_others_choose_where_a_session_ended(played, tmp_path):
    """An end that is signed for another round excuses no missing rounds."""
    game = played(rounds=4)
    first, part = header(game.session, COORDINATOR), game.kept[COORDINATOR][:2]
    part = write(tmp_path / "part.jsonl", game, records=part)
    for t, found in ((0, {"unfinished", "after-the-end"}), (3, {"missing-round", "unfinished"})):
        stop = game.codec.seal(COORDINATOR, Stop(t, Reason.OPERATOR), game.keys[-1].sign)
        end = save(tmp_path / "end.jsonl", [first, line_of(game.codec.open(stop))])
        assert names(verify([part, end])) == found


def test_nothing_is_not_sound(played, tmp_path):
    game = played(rounds=4)
    first = [header(game.session, COORDINATOR)]
    stop = game.codec.seal(COORDINATOR, Stop(0, Reason.OPERATOR), game.keys[-1].sign)
    for lines in (first, [*first, line_of(game.codec.open(stop))]):
        verdict = verify(save(tmp_path / "t.jsonl", lines), running=True)
        assert (verdict.word, names(verdict)) == ("unchecked", {"no-rounds"})


def test_few_lines_that_ask_for_long_accounts_are_judged_without_them(played, tmp_path, monkeypatch):
    """One message of round 99,999 costs what an account of a hundred thousand says: 7 s for 1.3 KB."""
    from tacit.live.verification import verdict as judge

    game = played(rounds=4)
    mixing = 1 / 4096
    parameters = Fading(mixing, 1.0, 1 - mixing / 2)
    session = replace(
        game.session,
        mixing=mixing,
        decay=1 - mixing / 2,
        rounds=MOST_ROUNDS,
        lattice=Lattice.fitting(parameters, MOST_ROUNDS, 0, 1),
    )
    codec, t = Codec(session), MOST_ROUNDS - 1
    body = Report(t, session.exponent(0, t), codec.pack((0,)), bytes(32))
    late = line_of(codec.open(codec.seal(0, body, game.keys[0].sign)))
    counted = []
    monkeypatch.setattr(judge, "account", lambda _agent, most, **_: counted.append(most))
    monkeypatch.setattr(Session, "account", lambda *_: counted.append(MOST_ROUNDS))
    verdict = verify(save(tmp_path / "t.jsonl", [header(session, COORDINATOR), late]))
    assert counted == []
    assert verdict.losses is verdict.declared is None
    assert names(verdict) == {"missing-round", "no-rounds", "unfinished", "losses-uncounted"}
