"""Transcripts made to deceive their judge, or to wear it out."""

import json
from dataclasses import replace

from tacit.protocol.codec import combined, digest
from tacit.protocol.messages import COORDINATOR, NOTHING_HEARD, Feedback, Reason, Report, Stop
from tacit.protocol.records import Ended
from tacit.runtime.checking import Checker
from tacit.runtime.reading import Reading, header, line_of
from tacit.runtime.transcript import TranscriptWriter
from tacit.runtime.verify import verify


def write(path, game, by=COORDINATOR, records=None, **how):
    with TranscriptWriter(path, game.session, by, durable=False, **how) as writer:
        writer.take(game.kept[by] if records is None else records)
    return path


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def save(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def names(verdict):
    return {finding.name for finding in verdict.findings}


def lying_game(played, rounds):
    """A coordinator that leaves agent 1 out of every round, and in the last one says what it likes."""
    game = played(n=2, rounds=rounds)
    codec, before, lines = game.codec, NOTHING_HEARD, [header(game.session, COORDINATOR)]
    for t in range(rounds):
        frames = []
        for i in range(2):
            exponent = game.session.exponent(i, t)
            body = Report(t, exponent, codec.pack((i,)), before)
            frames.append(codec.seal(i, body, game.keys[i].sign))
        used, y = (0,), game.session.lattice.lifted(0, game.session.exponent(0, t))
        y += t == rounds - 1
        body = Feedback(t, codec.pack((y,)), codec.bitmap(used), 1, combined([digest(frames[0])]), before)
        frames.append(codec.seal(COORDINATOR, body, game.keys[2].sign))
        before = digest(frames[-1])
        lines += [line_of(codec.open(frame)) for frame in frames]
    return lines


def test_a_lie_cannot_hide_behind_harmless_findings(played, tmp_path, monkeypatch):
    monkeypatch.setattr("tacit.runtime.checking._MOST_FINDINGS", 5)  # of a thousand, for speed
    verdict = verify(save(tmp_path / "t.jsonl", lying_game(played, 8)))
    assert len(verdict.findings) == 6
    assert names(verdict) == {"unused-report", "wrong-mean"}
    assert not verdict.sound


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
    assert names(cut) == {"missing-round"}
    stop = line_of(game.codec.open(game.codec.seal(COORDINATOR, Stop(1, Reason.OPERATOR), sign)))
    assert names(verify(save(tmp_path / "c.jsonl", [*whole[:-1], stop]))) == {"out-of-order"}


def test_guessing_what_a_mean_was_taken_of_ends_soon(played, tmp_path):
    """A star whose hub commits to nothing that can be found: C(100, 3) guesses for each of its reports."""
    n = 100
    game = played(n=n, rounds=2, edges=tuple((0, j) for j in range(1, n)))
    checker = Checker(game.session)
    guesses = 0

    def counted(_t, agents):
        nonlocal guesses
        guesses += len(agents)

    checker._combined = counted
    lines = [header(game.session, 0)]
    lines += [line_of(game.codec.open(game.reports[0][i])) for i in range(n)]
    body = Report(1, game.session.exponent(0, 1), game.codec.pack((0,)), bytes(32))
    lines.append(line_of(game.codec.open(game.codec.seal(0, body, game.keys[0].sign))))
    path = save(tmp_path / "t.jsonl", lines)
    checker.add(Reading(path), "t")
    checker.finish(running=True)
    assert n < guesses < 1_000_000


def test_a_transcript_can_be_held_against_the_session_that_was_agreed_on(played, tmp_path):
    """Whoever makes up a transcript with keys of his own makes up a sound one: only the id gives it away."""
    game, agreed = played(rounds=4), played(rounds=4, seed=2)
    path = write(tmp_path / "t.jsonl", game)
    assert verify(path, session=game.session).sound
    other = replace(agreed.session, name="agreed")
    forged = verify(path, session=other)
    assert names(forged) == {"other-session"}
    assert not forged.sound
