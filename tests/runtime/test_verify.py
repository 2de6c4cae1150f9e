"""`tacit verify` finds each kind of lie, and names it."""

import base64
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.runtime.builders import lines_of, names, save

from tacit.base.errors import FileError, ParameterError
from tacit.core.history import read_history
from tacit.core.history.file import encoded
from tacit.core.noise.accounting import account
from tacit.core.protocol.codec import as_array, combined, digest
from tacit.core.protocol.messages import COORDINATOR, NOTHING_HEARD, Ask, Feedback, Reason, Report, Stop
from tacit.core.protocol.places import LastUsed
from tacit.core.protocol.records import Closed, Ended, Evidence
from tacit.core.theory import influence, selection
from tacit.live.runtime.transcript import Reading, TranscriptWriter, merge
from tacit.live.verification.findings import GAPS, NOTES, WRONG, Finding
from tacit.live.verification.verdict import verify

PATH = ((0, 1), (1, 2), (2, 3))
ABSENT = {1: [2], 2: [0, 1]}


def write(path, game, records=None, by=COORDINATOR, **how):
    if by != COORDINATOR:
        how.setdefault("sign", game.keys[by].sign)
    with TranscriptWriter(path, game.session, by, durable=False, **how) as writer:
        writer.take(game.kept[by] if records is None else records)
    return path


def assert_same(signed, words):
    """Check that frames and readable fields give the same history.

    Only the signed one has whose messages were used.
    """
    for name in ("x", "y", "said", "update", "exponent"):
        np.testing.assert_array_equal(getattr(signed, name), getattr(words, name))
    np.testing.assert_array_equal(signed.wholes.x, words.wholes.x)
    np.testing.assert_array_equal(signed.wholes.y, words.wholes.y)
    np.testing.assert_array_equal(signed.used, words.used_or_all)


@pytest.fixture(scope="module")
def game(played):
    return played(absent=ABSENT)


@pytest.fixture
def path(game, tmp_path):
    return write(tmp_path / "coordinator.jsonl", game)


# ---- honest sessions -------------------------------------------------------------------------------


@pytest.mark.parametrize("one_shot", [False, True])
@pytest.mark.parametrize("components", [1, 3])
def test_an_honest_session_is_sound(played, tmp_path, one_shot, components):
    game = played(one_shot=one_shot, components=components, absent=ABSENT)
    verdict = verify(write(tmp_path / "t.jsonl", game), failure_probability=0.1)
    assert verdict.findings == ()
    assert verdict.sound
    assert verdict.rounds == verdict.means == 4
    assert verdict.used == tuple(tuple(sorted(reports)) for reports in game.reports)
    last = game.codec.open(game.feedback[-1]).numbers
    np.testing.assert_array_equal(verdict.result, np.atleast_1d(game.session.lattice.value(as_array(last))))
    for i in range(4):
        spoke = [t for t, reports in enumerate(game.reports) if i in reports]
        each = account(game.session.lattice_agent(i), 4, components=components).per_message
        assert verdict.messages[i] == len(spoke)
        assert verdict.losses[i] == pytest.approx(each[spoke].sum(), rel=1e-12)
    assert_same(verdict.history, read_history(tmp_path / "t.jsonl"))
    run = influence.server(game.session.mechanism, verdict.used, lattice=game.session.lattice)
    value, found = run.feedback(), verdict.accuracy
    assert found.components == components
    for k, names_end in ((1, ""), (components, "_all_components")):
        assert getattr(found, f"radius{names_end}") == value.radius(0.1, spread=1.0, components=k)
        assert getattr(found, f"radius_met{names_end}") == value.radius(0.1, components=k)
        proof = selection.radius(run, value, 0.1, least=1, rounds=4, spread=1.0, components=k)
        assert getattr(found, f"radius_any_selection{names_end}") == proof
    assert verdict.accuracy.shift == pytest.approx(run.feedback().bias)


def test_what_was_met_is_within_its_radius(game, path):
    """The values are known here, so the weights can be checked."""
    accuracy = verify(path, failure_probability=1e-9).accuracy
    met = accuracy.weights @ game.values[:, 0]
    assert abs(verify(path).result[0] - met) < accuracy.radius_met


def test_a_coordinator_that_picks_the_highest_messages_is_covered(played, tmp_path):
    """Its transcript is sound; only the radius for any selection covers it."""
    for seed in range(1, 6):
        game = played(n=20, rounds=5, quorum=11, picks=True, seed=seed)
        verdict = verify(write(tmp_path / f"{seed}", game))
        assert verdict.sound
        assert {len(row) for row in verdict.used} == {11}
        met = float(verdict.accuracy.weights @ game.values[:, 0])
        assert abs(verdict.result[0] - met) > verdict.accuracy.radius_met
        off = abs(verdict.result[0] - game.values.mean())
        assert verdict.accuracy.radius < off < verdict.accuracy.radius_any_selection


def test_what_was_promised_is_what_is_verified(played, tmp_path):
    """If all take part in every round, the radius is the promised one."""
    game = played(components=3)
    promise, path = game.session.promise(0.1), write(tmp_path / "t", game)
    own = [verify(path, failure_probability=0.1, agent=f"agent{i}").accuracy for i in range(4)]
    assert max(a.radius for a in own) <= promise.theory.radius * (1 + 1e-6)
    assert promise.theory.radius < promise.theory.radius_all_components
    for each in own:
        assert each.radius_all_components / each.radius == pytest.approx(
            promise.theory.radius_all_components / promise.theory.radius, rel=0.1
        )


def test_members_are_judged_together(game, path, tmp_path):
    agents = [write(tmp_path / f"{i}.jsonl", game, by=i) for i in range(4)]
    assert verify([path, *agents]).findings == ()
    # All agents together have all messages, whoever comes first.
    for several in (agents, agents[::-1], [agents[0], path, *agents[1:]]):
        together = verify(several)
        assert together.word == "sound"
        assert together.means == 4
        assert together.accuracy.radius == verify(path).accuracy.radius
    assert verify(agents[1:]).word == "unchecked"
    alone = verify(agents[2])
    assert alone.word == "unchecked"
    assert names(alone) == {"missing-report"}
    assert "there are 1 of 4, and 4 rounds with too few" in str(alone.findings[0])
    assert alone.messages == (0, 0, 3, 0)
    assert alone.means == 0
    assert alone.accuracy is alone.result is alone.history is None
    assert alone.claimed == verify(path).result
    own = verify(path, agent="agent2").accuracy
    assert alone.used == ((),) * 4  # an agent's own transcript does not say who was used
    run = influence.server(game.session.mechanism, verify(path).used, lattice=game.session.lattice)
    assert own.radius == run.agent(2).radius(0.05, spread=1.0)
    with pytest.raises(ParameterError, match="no agent"):
        verify(path, agent="nobody")


@pytest.mark.parametrize("one_shot", [False, True])
def test_a_graph_is_judged_from_its_peers(played, tmp_path, one_shot):
    game = played(edges=PATH, one_shot=one_shot, absent={1: [2]})
    peers = [write(tmp_path / f"{i}.jsonl", game, by=i) for i in range(4)]
    together = verify(peers)
    assert together.findings == ()  # also agent2's mean of round 0, after which it said nothing
    assert together.sound
    assert together.means == 16
    assert together.result is None
    run = influence.graph(game.session.mechanism, together.used, lattice=game.session.lattice)
    assert together.accuracy.radius == run.average().radius(0.05, spread=1.0)
    merged = verify(merge(peers, tmp_path / "m.jsonl"))
    assert_same(merged.history, read_history(tmp_path / "m.jsonl"))
    assert merged.used == together.used
    assert merged.sound
    for some in (peers[1:2], peers[:3]):  # nobody knows what the others used
        fewer = verify(some)
        assert fewer.word == "unchecked"
        assert fewer.accuracy is None
        assert names(fewer) == {"missing-mean", "unfinished"}


def test_a_graph_is_judged_while_it_runs(played, tmp_path):
    """The newest means do not count yet: the next report signs them."""
    game = played(edges=PATH)
    peers = [write(tmp_path / f"{i}.jsonl", game, game.kept[i][:5], by=i) for i in range(4)]
    assert names(verify(peers)) == {"unfinished"}
    running = verify(peers, running=True)
    assert running.word == "sound"
    assert (running.rounds, running.means) == (2, 8)
    for i in range(4):  # and with two means more, for which nobody has signed
        write(tmp_path / f"{i}.jsonl", game, game.kept[i][:6], by=i)
    assert names(verify(peers)) == {"unfinished", "unsigned-mean"}
    assert verify(peers, running=True).used == running.used


def test_a_session_that_was_ended_says_so(game, tmp_path):
    records = game.kept[COORDINATOR][:2]
    unfinished = verify(write(tmp_path / "a", game, records))
    assert names(unfinished) == {"unfinished"}
    assert unfinished.word == "unchecked"
    assert verify(tmp_path / "a", running=True).sound
    sign = game.keys[-1].sign
    assert verify(write(tmp_path / "b", game, [*records, Ended(2, Reason.OPERATOR)], sign=sign)).sound
    # an agent's word does not end a session
    stop = game.codec.seal(1, Stop(2, Reason.OPERATOR), game.keys[1].sign)
    lines = [*lines_of(tmp_path / "a"), {"note": "stop", "frame": encoded(stop)}]
    assert names(verify(save(tmp_path / "c", lines))) == {"unfinished"}
    after = lines_of(tmp_path / "b") + lines_of(write(tmp_path / "d", game))[8:9]
    assert "after-the-end" in names(verify(save(tmp_path / "e", after)))


# ---- changed files ---------------------------------------------------------------------------------


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_changed_byte_of_a_frame_is_found(path, data):
    lines = lines_of(path)
    line = data.draw(st.integers(1, len(lines) - 1))
    frame = bytearray(base64.b64decode(lines[line]["frame"]))
    where, by = data.draw(st.integers(0, len(frame) - 1)), data.draw(st.integers(1, 255))
    frame[where] ^= by
    lines[line]["frame"] = encoded(bytes(frame))
    verdict = verify(save(path.with_name("changed.jsonl"), lines))
    assert not verdict.sound
    assert line + 1 in {finding.line for finding in verdict.findings}


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_changed_byte_of_the_file_is_found(path, data):
    """Also of the readable fields, which people and the auditor use."""
    whole = bytearray(path.read_bytes())
    where = data.draw(st.integers(0, len(whole) - 1))
    new = data.draw(st.integers(0x21, 0x7E).filter(lambda b: b != whole[where]))
    whole[where] = new
    changed = path.with_name("changed.jsonl")
    changed.write_bytes(whole)
    try:
        verdict = verify(changed)
    except FileError:
        return  # no transcript any more
    assert not verdict.sound or json.loads(whole.splitlines()[0]) == lines_of(path)[0]
    assert not verdict.sound or lines_of(changed) == lines_of(path)


def test_lines_left_out_are_found(game, path):
    lines = lines_of(path)
    for k in range(1, len(lines) - 1):
        verdict = verify(save(path.with_name("less.jsonl"), lines[:k] + lines[k + 1 :]))
        assert names(verdict) in ({"missing-report"}, {"missing-round"}), k
        assert not verdict.sound
    assert "unfinished" in names(verify(save(path.with_name("less.jsonl"), lines[:-1])))


def test_lines_in_another_order_are_found(path):
    lines = lines_of(path)
    first, last = 5, len(lines) - 1  # feedback of round 0, and of the last round
    swapped = list(lines)
    swapped[first], swapped[last] = swapped[last], swapped[first]
    assert not verify(save(path.with_name("o.jsonl"), swapped)).sound
    late = [*lines[:4], *lines[5:], lines[4]]
    assert "out-of-order" in names(verify(save(path.with_name("o.jsonl"), late)))
    twice = [*lines, lines[first]]
    assert names(verify(save(path.with_name("o.jsonl"), twice))) == {"out-of-order"}
    extra = [*lines[:9], lines[1], *lines[9:]]
    assert "out-of-order" in names(verify(save(path.with_name("o.jsonl"), extra)))


def test_a_torn_end_is_told_and_nothing_else(path):
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"round": 4, "agent"')
    verdict = verify(path)
    assert verdict.sound
    assert names(verdict) == {"torn"}
    path.write_bytes(whole[:-1])  # even where only its end is missing, a line does not count
    assert names(verify(path)) == {"torn", "unfinished"}


def test_unreadable_lines_are_told(path, tmp_path):
    lines = path.read_text().splitlines()
    for bad in ("", "{", "[]", "{}", '{"round": 0, "round": 1}', '{"frame": 3}', '{"frame": "!"}', "NaN"):
        path.write_text("\n".join([*lines[:3], bad, *lines[3:]]) + "\n")
        assert names(verify(path)) == {"unreadable-line"}, bad
    with pytest.raises(FileError):
        verify(tmp_path / "none")
    with pytest.raises(FileError):
        verify([])


def test_words_that_differ_from_their_frame_are_told(path):
    lines = lines_of(path)
    for change in ({"x": lines[1]["x"] + 1}, {"agent": 1}, {"update": 1}, {"more": 0}):
        changed = [lines[0], {**lines[1], **change}, *lines[2:]]
        assert names(verify(save(path.with_name("w.jsonl"), changed))) == {"altered-line", "missing-report"}
    text = path.read_text()
    path.write_text(
        text.replace('{"round": 0,', '{"round": 7, "round": 0,', 1)
    )  # readers differ in which counts
    assert names(verify(path)) == {"unreadable-line", "missing-report"}


def test_words_that_differ_from_the_session_are_told(path, played, tmp_path):
    lines = lines_of(path)
    for word, value in (("noise", 2.0), ("by", "agent1x"), ("agents", 4.0), ("more", 1)):
        changed = [{**lines[0], word: value}, *lines[1:]]
        assert names(verify(save(path.with_name("w.jsonl"), changed))) == {"altered-header"}, word
    for word, value in (("id", "00"), ("tacit_transcript", True)):
        with pytest.raises(FileError, match="must"):
            verify(save(path.with_name("w.jsonl"), [{**lines[0], word: value}, *lines[1:]]))
    other = write(tmp_path / "other.jsonl", played(rounds=2))
    assert "other-session" in names(verify([path, other]))
    frames = [lines[0], *lines_of(other)[1:]]
    assert "wrong-session" in names(verify(save(path.with_name("w.jsonl"), frames)))


# ---- lying members ---------------------------------------------------------------------------------


def closed(game, t, *, before=None, y=None, used=None, reports=None, quorum_of=None):
    """Round t as a coordinator that holds its key could sign it."""
    truth = game.kept[COORDINATOR][t]
    body = game.codec.open(truth.frame).body
    used = truth.used if used is None else used
    frames = tuple(game.reports[t][i] for i in used) if reports is None else reports
    state = LastUsed(game.session.n)
    for before_it in game.kept[COORDINATOR][:t]:
        state.use(before_it.round, {i: digest(frame) for i, frame in before_it.each()})
    state.use(t, {i: digest(frame) for i, frame in zip(used, frames, strict=True)})
    changed = Feedback(
        t,
        body.numbers if y is None else game.codec.pack(y),
        len(used),
        state.members,
        state.root,
        combined(map(digest, frames)) if quorum_of is None else quorum_of,
        body.before if before is None else before,
    )
    return Closed(t, game.codec.seal(COORDINATOR, changed, game.keys[-1].sign), tuple(used), frames)


def judged(tmp_path, game, records):
    return verify(write(tmp_path / "lie.jsonl", game, records), running=True)


def test_a_wrong_mean_is_found_to_the_last_bit(game, tmp_path):
    y = game.codec.open(game.feedback[0]).numbers
    for off in (1, -1, 10**6):
        verdict = judged(tmp_path, game, [closed(game, 0, y=(y[0] + off,))])
        assert names(verdict) == {"wrong-mean"}
        assert verdict.means == 0
        (tmp_path / "lie.jsonl").unlink()


@pytest.mark.parametrize("commits", ["to four", "to others"])
def test_messages_left_out_of_a_mean_are_found(game, tmp_path, commits):
    """It counts three agents and shows their messages, but commits to others.

    These could be messages that are not there. If all agents' are there, no three of them fit.
    """
    basis = game.codec.open(game.feedback[0]).body.basis if commits == "to four" else bytes(range(32))
    messages = [game.codec.lifted(game.codec.open(game.reports[0][i])) for i in (0, 1, 2)]
    y = (int(game.session.lattice.mean(messages)),)
    verdict = judged(tmp_path, game, [closed(game, 0, y=y, used=(0, 1, 2), quorum_of=basis)])
    assert (verdict.word, names(verdict)) == ("unchecked", {"missing-report"})
    lines, told = lines_of(write(tmp_path / "t", game)), lines_of(tmp_path / "lie.jsonl")
    whole = verify(save(tmp_path / "u", [*told[:4], lines[4], *told[4:]]), running=True)
    assert whole.word == "unsound"
    assert "wrong-reports" in names(whole)


def test_a_report_that_came_too_late_contradicts_nothing(game, tmp_path):
    """Anyone who has it can add it to a file. What was used is the choice that the feedback commits to."""
    messages = [game.codec.lifted(game.codec.open(game.reports[0][i])) for i in (0, 1, 2)]
    y = (int(game.session.lattice.mean(messages)),)
    lines = lines_of(write(tmp_path / "t", game))
    body = [closed(game, 0, y=y, used=(0, 1, 2))]
    short = lines_of(write(tmp_path / "s", game, body))
    mixed = [*short[:4], lines[4], *short[4:]]
    for paths in (
        save(tmp_path / "u", mixed),
        [tmp_path / "u", tmp_path / "s"],
        [tmp_path / "s", tmp_path / "u"],
    ):
        assert verify(paths, running=True).sound


def test_a_history_that_forks_is_found(game, tmp_path):
    records = [game.kept[COORDINATOR][0], closed(game, 1, before=bytes(range(32)))]
    assert names(judged(tmp_path, game, records)) == {"broken-chain"}


def test_an_agent_that_was_told_something_else_shows_it(game, tmp_path):
    """Its next report commits to other feedback than the transcript has."""
    y = game.codec.open(game.feedback[0]).numbers
    lie = closed(game, 0, y=(y[0] + 1,))
    second = closed(game, 1, before=digest(lie.frame))
    found = names(judged(tmp_path, game, [lie, second]))
    assert found == {"wrong-mean", "other-history"}


def test_two_stories_of_a_coordinator_are_equivocation(game, path, tmp_path):
    """An agent's evidence convicts the coordinator, in any order of files."""
    y = game.codec.open(game.feedback[1]).numbers
    lie = closed(game, 1, y=(y[0] + 1,))
    moved = game.kept[1]
    heard = [*moved[:3], type(moved[3])(1, (lie.frame,), (), b"", b"", b"")]
    agent = write(tmp_path / "agent1.jsonl", game, heard, by=1)
    for several in ([path, agent], [agent, path]):
        verdict = verify(several)
        assert not verdict.sound
        assert verdict.equivocators == ("coordinator",)
        (proof,) = (f for f in verdict.findings if f.name == "equivocation")
        assert (proof.round, proof.sender, proof.file) == (1, "coordinator", several[1].name)


def test_two_draws_for_one_update_are_equivocation_and_cost_twice(game, path, tmp_path):
    body = game.codec.open(game.reports[3][2]).body
    second = game.codec.seal(
        2, Report(3, body.exponent, game.codec.pack((7,)), body.heard), game.keys[2].sign
    )
    first = game.reports[3][2]
    for evidence in (
        Evidence(2, 3, digest(first), first, second),
        Evidence(2, 3, digest(first), b"", second),
    ):
        target = tmp_path / f"e{len(evidence.first)}.jsonl"
        verdict = verify(write(target, game, [*game.kept[COORDINATOR], evidence]))
        assert "equivocation" in names(verdict)
        assert verdict.equivocators == ("agent2",)
        each = game.session.account(2).per_message
        assert verdict.losses[2] == pytest.approx(each[0] + each[2] + 2 * each[3])
        assert verify(path).losses[2] == pytest.approx(each[0] + each[2] + each[3])


def test_evidence_of_a_forked_history_convicts(game, path, tmp_path):
    """Feedback that denies the feedback signed for the round before."""
    lie = closed(game, 2, before=bytes(32))
    kept = game.kept[1][:4]
    records = [*kept, Evidence(COORDINATOR, 2, digest(game.feedback[1]), b"", lie.frame)]
    verdict = verify(write(tmp_path / "a.jsonl", game, records, by=1), running=True)
    assert verdict.equivocators == ("coordinator",)
    assert verify([path, tmp_path / "a.jsonl"]).equivocators == ("coordinator",)


def test_evidence_that_proves_nothing_is_told(game, tmp_path):
    records = [*game.kept[COORDINATOR], Evidence(2, 3, bytes(32), b"", game.reports[3][2])]
    verdict = verify(write(tmp_path / "t", game, records))
    assert verdict.sound
    assert names(verdict) == {"evidence-alone"}


def test_nobody_speaks_for_another(game, path):
    """A frame of agent 1, signed by agent 2."""
    body = game.codec.open(game.reports[0][1]).body
    lines = lines_of(path)
    lines[2]["frame"] = encoded(game.codec.seal(1, body, game.keys[2].sign))
    assert {"bad-signature", "missing-report"} <= names(verify(save(path, lines)))
    lines[2]["frame"] = encoded(
        game.codec.seal(1, Report(0, body.exponent + 1, body.numbers, body.heard), game.keys[1].sign)
    )
    assert "off-lattice" in names(verify(save(path, lines)))
    ask = game.codec.seal(1, Ask(0), game.keys[1].sign)
    lines[2] = {"frame": encoded(ask)}
    assert "wrong-sender" in names(verify(save(path, lines)))


def test_a_false_start_is_found(game, tmp_path):
    body = game.codec.open(game.reports[0][1]).body
    first = game.codec.seal(1, Report(0, body.exponent, body.numbers, bytes(range(32))), game.keys[1].sign)
    reports = tuple(first if i == 1 else game.reports[0][i] for i in range(4))
    assert names(judged(tmp_path, game, [closed(game, 0, reports=reports)])) == {"other-history"}
    assert NOTHING_HEARD != bytes(range(32))


def test_a_peer_that_lies_about_its_mean_is_found(played, tmp_path):
    game = played(edges=PATH)
    peers = [write(tmp_path / f"{i}.jsonl", game, by=i) for i in range(4)]
    lines = lines_of(peers[1])
    place = next(k for k, line in enumerate(lines) if "used" in line)
    for change, finding in (
        ({"y": lines[place]["y"] + 1}, "wrong-mean"),
        ({"used": [1, 2]}, "wrong-mean"),
        ({"used": [2, 1, 0]}, "unreadable-line"),
        ({"used": [0, 1, 3]}, "unreadable-line"),
        ({"agent": 9}, "unreadable-line"),
        ({"round": 1}, "out-of-order"),
    ):
        changed = [*lines]
        changed[place] = {**lines[place], **change}
        assert finding in names(verify(save(tmp_path / "lie.jsonl", changed))), change
    # a mean of fewer messages, computed right: its next report commits to what it really used
    messages = [game.codec.lifted(game.codec.open(game.reports[0][i])) for i in (1, 2)]
    changed = [*lines]
    changed[place] = {**lines[place], "used": [1, 2], "y": int(game.session.lattice.mean(messages))}
    assert "other-history" in names(verify(save(tmp_path / "lie.jsonl", changed)))
    without = [line for line in lines if not (line.get("agent") == 2 and line["round"] == 0)]
    assert "missing-report" in names(verify(save(tmp_path / "lie.jsonl", without)))


def test_a_stated_mean_that_lacks_reports_is_no_gap_where_another_file_has_them(played, tmp_path):
    game = played(edges=PATH)
    peers = [write(tmp_path / f"{i}.jsonl", game, by=i) for i in range(4)]
    lines = [x for x in lines_of(peers[1]) if not (x.get("agent") == 2 and "x" in x)]
    assert verify([*peers, save(tmp_path / "less.jsonl", lines)]).word == "sound"
    assert verify([peers[0], tmp_path / "less.jsonl", *peers[2:]]).word == "unchecked"


def test_findings_have_names_and_sentences():
    assert len({**NOTES, **GAPS, **WRONG}) == len(NOTES) + len(GAPS) + len(WRONG)
    found = Finding("torn", NOTES["torn"], "a.jsonl", 7, 3, "agent1")
    assert str(found) == f"torn: {NOTES['torn']} (a.jsonl, line 7, round 3, agent1)"
    assert not found.wrong


def test_nothing_private_is_asked_for(path):
    reading = Reading(path)
    assert reading.by == COORDINATOR
    assert not any("theta" in json.dumps(line.content) for line in reading)
