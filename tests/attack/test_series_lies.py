"""Lies about a series, and single bytes changed: both verifiers find them, and call them by the same name."""

import base64
import json
import random

import msgspec
import pytest
from tests.attack.judges import judged, judged_by_other, second_verifier, stage
from tests.runtime.builders import lines_of, save

from tacit.core.history.file import encoded
from tacit.core.protocol.codec import combined, digest
from tacit.core.protocol.messages import (
    COORDINATOR,
    Closing,
    Done,
    Feedback,
    Key,
    Masked,
    Opening,
    Reason,
    Stop,
)
from tacit.core.protocol.notices import MeanPublished
from tacit.core.protocol.places import LastUsed
from tacit.core.protocol.records import Shut
from tacit.core.series import SeriesDecoder
from tacit.live.runtime.transcript import TranscriptWriter, line_of, own_frame


@pytest.fixture(scope="module")
def other():
    return second_verifier()


@pytest.fixture(scope="module")
def games():
    kept = {"keepers": 2, "quorum": 2, "absent": 2}
    return {"series": stage(hides="step:2", quorum=2), "keepers": stage(**kept)}


@pytest.fixture(scope="module")
def game(games):
    return games["series"]


class File:
    """The coordinator's transcript, to be changed; `frames` has what it says, by kind, slot and sender."""

    def __init__(self, game, folder):
        self.game, self.codec, self.path = game, game.codec, folder / "t.jsonl"
        self.path.unlink(missing_ok=True)
        with TranscriptWriter(self.path, game.session, durable=False) as writer:
            writer.take(game.kept[COORDINATOR])
        self.lines = lines_of(self.path)

    def at(self, kind, slot, sender=COORDINATOR):
        """Return the line's number and the message there."""
        for k, line in enumerate(self.lines[1:], start=1):
            message = own_frame(self.codec, base64.b64decode(line["frame"]))
            if isinstance(message.body, kind) and message.sender == sender and line.get("round") == slot:
                return k, message
        raise AssertionError("there is no such line")

    def sealed(self, sender, body):
        """Return the line of a message that its sender signs."""
        frame = self.codec.seal(sender, body, self.sign(sender))
        return line_of(own_frame(self.codec, frame))

    def sign(self, sender):
        return self.game.keys[sender].sign

    def change(self, kind, slot, sender=COORDINATOR, **fields):
        """Let a sender sign other fields than it did; a function makes them from what it said."""
        k, message = self.at(kind, slot, sender)
        fields = {f: v(getattr(message.body, f)) if callable(v) else v for f, v in fields.items()}
        self.lines[k] = self.sealed(sender, msgspec.structs.replace(message.body, **fields))
        return own_frame(self.codec, base64.b64decode(self.lines[k]["frame"]))


def changed_sum(file):
    """The sum is one more than the messages and openings say."""
    numbers = file.at(Feedback, 1)[1].numbers
    file.change(Feedback, 1, numbers=file.codec.pack(numbers[0] + 1))


def named_as_used_but_dropped(file):
    """A message that feedback counts is not there."""
    k, _ = file.at(Masked, 1, 2)
    del file.lines[k]


def used_but_not_opened(file):
    """Keepers were asked for the sum of two agents. Feedback counts the third one, too."""
    closing = file.at(Closing, 1)[1].body
    two, salts = [file.at(Masked, 1, i)[1].digest for i in (0, 1)], closing.salts[:64]
    file.change(Closing, 1, used=file.codec.bitmap((0, 1)), count=2, salts=salts, reports=combined(two))


def opening_of_another_slot(file):
    """A keeper's opening of slot 0 stands in slot 1."""
    (a, _), (b, _) = file.at(Opening, 0, 3), file.at(Opening, 1, 3)
    file.lines[b] = file.lines[a]


def opening_signed_again(file):
    """A keeper signs the number that it opened in slot 0 for slot 1."""
    _, first = file.at(Opening, 0, 3)
    file.change(Opening, 1, 3, numbers=first.body.numbers)


def opening_of_another_closing(file):
    """A keeper's opening of slot 1 answers the closing of slot 0."""
    file.change(Opening, 1, 3, closing=file.at(Closing, 0)[1].digest)


def salts_of_another_slot(file):
    """Keepers were told other salts than those of the messages."""
    _, message = file.at(Closing, 3)
    file.change(Closing, 0, salts=message.body.salts)


def reordered(file):
    """Slot 1 stands before slot 0."""
    zero, one = file.at(Feedback, 0)[0], file.at(Feedback, 1)[0]
    first = file.at(Masked, 0, 0)[0]
    file.lines[first : one + 1] = file.lines[zero + 1 : one + 1] + file.lines[first : zero + 1]


def forged_signature(file):
    """An agent's message has another agent's signature."""
    k, message = file.at(Masked, 1, 0)
    head = message.frame[:-64]
    file.lines[k] = {**file.lines[k], "frame": encoded(head + file.sign(1)(b"tacit message v1\0" + head))}


def counted_twice(file):
    """Slot 1 stands in the place of slot 3 again, with a feedback that says so."""
    (start, _), (end, said) = file.at(Masked, 1, 0), file.at(Feedback, 1)
    lost, _ = file.at(Feedback, 2)
    third = file.at(Feedback, 3)[1].body
    again = msgspec.structs.replace(said.body, round=3, before=third.before)
    file.lines = [*file.lines[: lost + 1], *file.lines[start:end], file.sealed(COORDINATOR, again)]


def lost_but_not_lost(file):
    """A slot is said to be lost, and commits to its messages all the same."""
    file.change(Feedback, 3, numbers=file.codec.pack(0), count=0)


def key_left_out(file):
    """The key of agent 0 is not there."""
    del file.lines[file.at(Key, None, 0)[0]]


def other_key(file):
    """The key of agent 0 is that of agent 1, signed by agent 0."""
    file.lines[file.at(Key, None, 0)[0]] = file.sealed(0, file.at(Key, None, 1)[1].body)


def slot_left_out(file):
    """The lost slot is not there at all."""
    del file.lines[file.at(Feedback, 2)[0]]


def end_left_out(file):
    """The last slot is not there, and nobody signed an end before it."""
    file.lines = file.lines[: file.at(Feedback, 2)[0] + 1]


def ended_too_early(file):
    """The coordinator signs an end before the last slot."""
    file.lines.append(file.sealed(COORDINATOR, Stop(3, Reason.OPERATOR)))


def end_of_another_history(file):
    """An agent that is done has heard another last feedback."""
    file.lines.append(file.sealed(0, Done(4, file.at(Feedback, 1)[1].digest)))


LIES = {
    changed_sum: {"wrong-mean", "broken-chain"},
    named_as_used_but_dropped: {"missing-report"},
    used_but_not_opened: {"wrong-closing", "wrong-keys", "wrong-reports", "wrong-mean"},
    opening_of_another_slot: {"out-of-order", "missing-report"},
    opening_signed_again: {"wrong-reports", "wrong-mean"},
    opening_of_another_closing: {"wrong-closing", "wrong-reports"},
    salts_of_another_slot: {"wrong-closing", "wrong-reports"},
    reordered: {"missing-round", "out-of-order"},
    forged_signature: {"bad-frame", "missing-report"},
    counted_twice: {"out-of-order", "missing-report"},
    lost_but_not_lost: {"wrong-reports"},
    key_left_out: {"missing-key"},
    other_key: {"wrong-keys"},
    slot_left_out: {"missing-round"},
    end_left_out: {"unfinished"},
    ended_too_early: {"after-the-end", "out-of-order"},
    end_of_another_history: {"other-history"},
}
GAPS = {named_as_used_but_dropped, key_left_out, end_left_out}
"""These leave something out: nothing in the file contradicts it, so it cannot be checked."""


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
def test_lies_about_a_series_are_found_by_name(lie, other, game, tmp_path):
    file = File(game, tmp_path)
    assert judged_by_other(other, [file.path], False)["verdict"] == "sound"
    lie(file)
    path = save(tmp_path / "lie.jsonl", file.lines)
    found = judged_by_other(other, [path], False)
    assert found["findings"] == LIES[lie]
    assert found["verdict"] == ("unchecked" if lie in GAPS else "unsound")
    assert found == judged([path], False)


def test_a_forged_signature_has_its_own_name(other, game, tmp_path, capsys):
    file = File(game, tmp_path)
    forged_signature(file)
    other.main([str(save(tmp_path / "lie.jsonl", file.lines))])
    assert json.loads(capsys.readouterr().out)["findings"] == ["bad-signature", "missing-report"]


def conspire(file, masked=(), closing=(), opening=(), feedback=()):
    """Let all members sign the last round again with one lie, so that everything after it fits."""
    codec, session, last = file.codec, file.game.session, file.game.session.rounds - 1
    used = codec.members(file.at(Closing, last)[1].body.used)
    said = [file.change(Masked, last, i, **dict(masked if i == used[0] else ())) for i in used]
    fields = {"reports": combined(message.digest for message in said)}
    fields["salts"] = b"".join(message.body.salt for message in said)
    asked = file.change(Closing, last, **fields | dict(closing))
    told = [
        file.change(Opening, last, j, **{"closing": asked.digest} | dict(opening if k == 0 else ()))
        for k, j in enumerate(session.keeper_numbers)
    ]
    basis = combined([asked.digest, *(message.digest for message in told)])
    state = LastUsed(session.n)
    for shut in (record for record in file.game.kept[COORDINATOR] if isinstance(record, Shut)):
        state.use(shut.round, {i: digest(frame) for i, frame in shut.each()})
    state.use(last, {message.sender: message.digest for message in said})
    file.change(Feedback, last, **{"basis": basis, "state": state.root} | dict(feedback))


WRONG = bytes(range(32))
CONSPIRACIES = {
    "nothing": ({}, set()),
    "salts": ({"closing": {"salts": WRONG * 2}}, {"wrong-closing"}),
    "used": ({"closing": {"used": b"\6"}}, {"missing-report"}),
    "heard": ({"closing": {"heard": WRONG}}, {"wrong-closing"}),
    "reports": ({"closing": {"reports": WRONG}}, {"wrong-closing"}),
    "answer": ({"opening": {"closing": WRONG}}, {"wrong-closing"}),
    "keys of a message": ({"masked": {"keys": WRONG}}, {"wrong-keys"}),
    "keys of a closing": ({"closing": {"keys": WRONG}}, {"wrong-keys"}),
    "key of a keeper": ({"opening": {"key": WRONG}}, {"wrong-keys"}),
    "opened number": (
        {"opening": {"numbers": lambda said: said[:-1] + bytes([said[-1] ^ 64])}},
        {"wrong-mean"},
    ),
    "basis": ({"feedback": {"basis": WRONG}}, {"wrong-reports"}),
    "state": ({"feedback": {"state": WRONG}}, {"wrong-state"}),
    "members": ({"feedback": {"members": lambda members: 5 - members}}, {"wrong-state"}),
    "few": ({"feedback": {"count": 1}}, {"bad-frame", "unfinished"}),
    "lost with a sum": ({"feedback": {"count": 0}}, {"bad-frame", "unfinished"}),
    "count": ({"feedback": {"count": 4}}, {"bad-frame", "unfinished"}),
    "count of another closing": (
        {"feedback": {"count": 3, "members": 3}},
        {"wrong-closing", "wrong-reports"},
    ),
    "too many members": ({"feedback": {"members": 4}}, {"bad-frame", "unfinished"}),
    "too large a sum": (
        {"feedback": {"numbers": lambda said: b"\x7f" + said[1:]}},
        {"bad-frame", "unfinished"},
    ),
    "salts too short": ({"closing": {"salts": WRONG}}, {"bad-frame", "missing-report"}),
}


@pytest.mark.parametrize(
    ("kind", "lie"),
    [("series", lie) for lie in CONSPIRACIES]
    + [("keepers", lie) for lie in CONSPIRACIES if lie != "count of another closing"],
)
def test_a_single_lie_of_a_conspiracy_is_found_by_name(kind, lie, other, games, tmp_path):
    """Everything else fits, so each check is needed."""
    file, (changes, names) = File(games[kind], tmp_path), CONSPIRACIES[lie]
    conspire(file, **changes)
    path = save(tmp_path / "lie.jsonl", file.lines)
    found = judged_by_other(other, [path], False)
    assert found["findings"] == names
    assert found == judged([path], False)


@pytest.mark.parametrize(
    ("kind", "names"), [("series", "bad-frame missing-report"), ("keepers", "other-history")]
)
def test_a_masked_message_that_heard_something_else_is_found(kind, names, other, games, tmp_path):
    """In a series it commits to nothing, and must say so."""
    file = File(games[kind], tmp_path)
    conspire(file, masked={"heard": WRONG})
    path = save(tmp_path / "lie.jsonl", file.lines)
    found = judged_by_other(other, [path], False)
    assert found["findings"] == set(names.split())
    assert found == judged([path], False)


@pytest.mark.parametrize(
    ("lie", "names"),
    [
        ({"basis": WRONG}, "wrong-reports"),
        ({"count": 3}, "wrong-reports"),
        ({"state": WRONG}, "wrong-state"),
        ({"basis": WRONG, "count": 3}, "wrong-reports"),
    ],
    ids=["basis", "count", "state", "basis of others"],
)
def test_what_plain_feedback_commits_to_is_checked(lie, names, other, played, tmp_path):
    """With reports of all four agents there: where only three count, no three of them fit."""
    game = played(rounds=4)
    file = File(game, tmp_path)
    file.change(Feedback, 3, **lie)
    path = save(tmp_path / "lie.jsonl", file.lines)
    found = judged_by_other(other, [path], False)
    assert found["findings"] == set(names.split())
    assert found == judged([path], False)


@pytest.mark.parametrize("hides", ["step:2", "window:2", "reading"])
def test_means_are_those_that_members_published(other, hides, tmp_path):
    """To the last bit, with an agent that comes late and a lost slot before the last one."""
    game = stage(hides=hides, quorum=2)
    found = judged_by_other(other, [File(game, tmp_path).path], False)
    published = {n.slot: n.mean for n in game.harness.notices[0] if isinstance(n, MeanPublished)}
    assert found["means"] == [published.get(t) for t in range(4)]
    assert (found["used"], found["members"]) == ([2, 3, 0, 2], [2, 3, 3, 3])


@pytest.mark.parametrize("factor", ["filter", "members"])
def test_means_published_with_a_wrong_factor_are_others(other, factor, game, tmp_path):
    """A coordinator that filters with g in place of f, or does not make up for missing members."""
    file = File(game, tmp_path)
    found, series = judged_by_other(other, [file.path], False), game.session.series
    decoder, means = SeriesDecoder(series.code(), series.grid), []
    for t, (used, members) in enumerate(zip(found["used"], found["members"], strict=True)):
        total = file.at(Feedback, t)[1].numbers[0]
        if factor == "filter":
            decoder._f = series.code()._g
        elif used:
            total = total * used // members
        decoder.add(total, used, members)
        means.append(decoder.mean())
    wrong = [mean != right for mean, right in zip(means, found["means"], strict=True)]
    assert wrong == ([False, True, False, True] if factor == "filter" else [False, False, False, True])


def test_a_changed_byte_is_found_or_harmless(other, game, tmp_path, monkeypatch):
    """2,000 times, in the first slot. Harmless is a change that says the same in other letters."""
    file, chance, cache = File(game, tmp_path), random.Random(23), {}
    lines = file.lines[: file.at(Feedback, 0)[0] + 1]
    read, data = other.Frame, save(tmp_path / "first.jsonl", lines).read_bytes()
    monkeypatch.setattr(other, "Frame", lambda s, f: cache.get(f) or cache.setdefault(f, read(s, f)))
    sound, harmless = other.judged([data], True), 0
    assert sound["verdict"] == "sound"
    for _ in range(2000):
        where, byte = chance.randrange(len(data)), chance.randrange(256)
        changed = data[:where] + bytes([byte]) + data[where + 1 :]
        try:
            found = other.judged([changed], True)
        except other.BAD:
            continue
        if found["verdict"] == "sound":
            harmless += 1
            assert found == sound
            assert [json.loads(line) for line in changed.split(b"\n")[:-1]] == lines
    assert harmless < 40
