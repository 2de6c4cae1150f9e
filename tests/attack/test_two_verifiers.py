"""Two verifiers, made apart from one another, agree on good and on mangled transcripts.

One is `tacit verify`. The other is examples/verify_independently.py, which knows nothing of tacit but
docs/reference/wire.md. Each case is made from its number alone.
"""

import base64
import json
import random
import sys
from collections import Counter

import msgspec
import pytest
from tests.attack.judges import EXAMPLE, judged, judged_by_other, second_verifier, stage
from tests.runtime.builders import lines_of

from tacit.core.history.file import encoded
from tacit.core.protocol.codec import DOMAIN, combined
from tacit.core.protocol.messages import (
    COORDINATOR,
    Ask,
    Closing,
    Done,
    Feedback,
    Key,
    Masked,
    Message,
    Opening,
    Present,
    Reason,
    Report,
    Stop,
)
from tacit.live.runtime.transcript import TranscriptWriter, header, line_of, merge

PATH = ((0, 1), (1, 2), (2, 3))
GAMES = (
    {},
    {"absent": {1: [2], 2: [0, 1]}, "quorum": 2},
    {"components": 3, "rounds": 2},
    {"one_shot": True, "absent": {2: [3]}},
    {"law": "bits", "rounds": 1, "n": 6},
    {"law": "staircase", "rounds": 1, "absent": {0: [1]}, "quorum": 2},
    {"n": 9, "rounds": 2, "quorum": 5},
    {"edges": PATH, "quorum": 2},
    {"edges": PATH, "absent": {1: [2]}, "quorum": 2},
    {"edges": ((0, 1), (0, 2), (1, 2)), "n": 3, "one_shot": True},
    {"edges": PATH, "alone": (1,), "quorum": 2, "rounds": 3},
    {"edges": PATH, "weights": "metropolis", "absent": {1: [2]}, "quorum": 2},
    {"edges": ((0, 1), (1, 2)), "n": 3, "weights": ((0, 1, 2), (1, 0, 5), (1, 1, 1), (1, 2, 1), (2, 1, 3))},
)
STAGED = (
    {"keepers": 2, "quorum": 2},
    {"keepers": 1, "law": "one-shot", "components": 2},
    {"hides": "step:2", "quorum": 2},
    {"hides": "reading", "quorum": 2, "keepers": 1},
)
"""Sessions with keepers, and series: machines play them."""


@pytest.fixture(scope="module")
def other():
    return second_verifier()


@pytest.fixture(scope="module")
def staged():
    return [stage(**asked) for asked in STAGED]


class Case:
    """One set of transcripts: lines of files, and the members' keys, which liars among them have too."""

    def __init__(self, number, played, folder, staged=()):
        self.chance = random.Random(number)
        self.game = self.chance.choice(staged) if staged else played(**self.chance.choice(GAMES))
        self.session, self.codec, self.folder = self.game.session, self.game.codec, folder
        self.another = played(rounds=5)
        self.files = self._honest()

    def _honest(self):
        n, graph = self.session.n, self.session.edges is not None
        agents = list(range(n))
        if graph:
            who = agents if self.chance.random() < 0.8 else self.chance.sample(agents, n - 1)
        else:
            some = [agents, [-1, *agents], agents[1:], [0], [*agents, -1]]
            kept = self.session.keeper_numbers
            some += [[-1, *kept], [*kept], [*kept, *agents, -1]] if kept else []
            who = self.chance.choice([[-1]] * 6 + some)
        paths = []
        for by in who:
            paths.append(self.folder / f"{by}.jsonl")
            paths[-1].unlink(missing_ok=True)
            sign = self.game.keys[by].sign
            with TranscriptWriter(paths[-1], self.session, by, durable=False, sign=sign) as writer:
                writer.take(self.game.kept[by])
        if len(paths) > 1 and self.chance.random() < 0.4:
            (self.folder / "merged.jsonl").unlink(missing_ok=True)
            paths = [merge(paths, self.folder / "merged.jsonl")]
        return [lines_of(path) for path in paths]

    def _seal(self, sender, body):
        return self.codec.seal(sender, body, self.game.keys[sender].sign)

    def _some_file(self):
        return self.chance.choice(self.files)

    def _some_line(self, file, key=None):
        lines = enumerate(file[1:], start=1)
        places = [k for k, x in lines if isinstance(x, dict) and (key is None or key in x)]
        return self.chance.choice(places) if places else None

    def _body_at(self, file, k):
        try:
            message = self.codec.open(base64.b64decode(file[k]["frame"], validate=True))
        except (ValueError, TypeError):  # mangled before
            return None
        return message if isinstance(message, Message) else None

    # ---- what can be done to transcripts without a key --------------------------------------------------

    def drop(self):
        file = self._some_file()
        if (k := self._some_line(file)) is not None:
            del file[k : k + self.chance.choice([1, 1, 1, 3])]

    def double(self):
        file = self._some_file()
        if (k := self._some_line(file)) is not None:
            file.insert(self.chance.randrange(1, len(file) + 1), file[k])

    def swap(self):
        file = self._some_file()
        a, b = self._some_line(file), self._some_line(file)
        if a is not None:
            file[a], file[b] = file[b], file[a]

    def cut(self):
        file = self._some_file()
        del file[self.chance.randrange(1, len(file) + 1) :]

    def without_one_agent(self):
        gone = self.chance.randrange(self.session.n)
        for file in self.files:
            file[1:] = [x for x in file[1:] if not (isinstance(x, dict) and x.get("agent") == gone)]

    def relabel(self):
        names = [member.name for member in self.session.roster]
        self._some_file()[0]["by"] = self.chance.choice([*names, "coordinator", "nobody", 0, None])

    def reword_header(self):
        first = self._some_file()[0]
        key = self.chance.choice(sorted(first))
        first[key] = self.chance.choice([1, 1.0, True, 2, "x", None, [], first[key], 0.5, {"low": 0}])

    def drop_from_header(self):
        first = self._some_file()[0]
        first.pop(self.chance.choice(sorted(first)), None)

    def reword(self):
        file = self._some_file()
        if (k := self._some_line(file)) is not None:
            key = self.chance.choice(sorted(file[k]))
            value = file[k][key]
            new = [value + 1, float(value), bool(value)] if type(value) is int else ["", None, [0], value]
            file[k] = {**file[k], key: self.chance.choice(new)}

    def reword_mean(self):
        file = self._some_file()
        if (k := self._some_line(file, "used")) is not None:
            used = list(file[k]["used"])
            more = [*used, self.chance.randrange(5)]
            used = self.chance.choice([used[:-1], used[::-1], more])
            file[k] = {**file[k], "used": used}

    def flip(self):
        file = self._some_file()
        if (k := self._some_line(file, "frame")) is not None:
            letters = list(file[k]["frame"] or "A")
            letters[self.chance.randrange(len(letters))] = self.chance.choice("AQgw4/+=-")
            file[k] = {**file[k], "frame": "".join(letters)}

    def rubbish(self):
        line = self.chance.choice([{}, [], 3, "x", {"frame": 3}, {"note": "evidence"}, {"used": [0]}])
        file = self._some_file()
        file.insert(self.chance.randrange(1, len(file) + 1), line)

    def fewer_files(self):
        if len(self.files) > 1:
            self.files.remove(self._some_file())

    def other_session(self):
        self.files.append(json.loads(json.dumps([header(self.another.session, COORDINATOR)])))

    def as_evidence(self):
        file = self._some_file()
        if (k := self._some_line(file, "frame")) is not None:
            file.insert(k, {"note": "evidence", "frame": file[k]["frame"]})

    # ---- what members can do with their keys ------------------------------------------------------------

    def sign_another(self):
        """Replace a frame by another that the same member signs, its words with it."""
        file = self._some_file()
        k = self._some_line(file, "frame")
        message = None if k is None else self._body_at(file, k)
        if message is None:
            return
        frame = self._seal(message.sender, self._lie(message.body))
        said = self.codec.open(frame)
        file[k] = line_of(said) if isinstance(said, Message) else {**file[k], "frame": encoded(frame)}

    def _lie(self, body):
        chance, one = self.chance, self.chance.randbytes(32)
        match body:
            case Masked() | Closing() | Opening() | Key() | Feedback() if self.session.keepers:
                return self._lie_with_keepers(body)
            case Report():
                numbers = self.codec.pack([chance.choice([0, 7, -1])] * self.session.components)
                return chance.choice(
                    [
                        Report(body.update, body.exponent, numbers, body.heard),
                        Report(body.update, body.exponent, body.numbers, one),
                        Report(body.update, body.exponent + 1, body.numbers, body.heard),
                        Report(min(body.update + 1, self.session.rounds), body.exponent, numbers, one),
                        Report(body.update, body.exponent, body.numbers[1:], body.heard),
                        Report(body.update, body.exponent, b"\x7f" * len(body.numbers), body.heard),
                    ]
                )
            case Feedback():
                lies = {"numbers": b"\0" * len(body.numbers), "count": body.count - 1, "basis": one}
                lies |= {"members": body.members + chance.choice([-1, 1]), "state": one, "before": one}
                lies |= {"round": max(body.round - 1, 0)}
                name = chance.choice(sorted(lies))
                return msgspec.structs.replace(body, **{name: lies[name]})
            case Done():
                return Done(body.update, one)
        return Ask(0)

    def _lie_with_keepers(self, body):
        """Change one field, to something of the same kind or to nothing."""
        name = self.chance.choice(body.__struct_fields__)
        value = getattr(body, name)
        if isinstance(value, int):
            return msgspec.structs.replace(body, **{name: max(value + self.chance.choice([-1, 1]), 0)})
        at = self.chance.randrange(len(value))
        flipped = bytes([*value[:at], value[at] ^ 1 << self.chance.randrange(8), *value[at + 1 :]])
        if isinstance(body, Feedback) and name in ("numbers", "basis") and self.chance.random() < 0.5:
            return msgspec.structs.replace(body, numbers=bytes(len(body.numbers)), count=0)
        return msgspec.structs.replace(body, **{name: self.chance.choice([flipped, flipped, value[1:]])})

    def sign_a_note(self):
        """Add a stop, a done or another message that a member may sign."""
        t, rounds = self.chance.randrange(self.session.rounds + 1), self.session.rounds
        bodies = [Stop(t, Reason.OPERATOR), Stop(t, Reason.EXPIRED), Done(rounds, bytes(32)), Present(t)]
        members = [*self.game.kept, *([COORDINATOR] * 3 if self.session.coordinator else [])]
        members = members if self.session.coordinator else [i for i in members if i >= 0]
        body = self.chance.choice([*bodies, Stop(t, Reason.OPERATOR)])
        said = self.codec.open(self._seal(self.chance.choice(members), body))
        if isinstance(said, Message):
            note = isinstance(said.body, Stop | Done)
            line = line_of(said) if note else {"note": "stop", "frame": encoded(said.frame)}
            file = self._some_file()
            file.insert(self.chance.choice([len(file), self.chance.randrange(1, len(file) + 1)]), line)

    def end_early(self):
        """Let the coordinator end the session where the file is cut, as it should."""
        file = self._some_file()
        ends = [k + 1 for k in range(1, len(file)) if isinstance(file[k], dict) and "y" in file[k]]
        if self.session.coordinator and ends:
            k = self.chance.choice(ends)
            stop = Stop(sum(end <= k for end in ends), Reason.OPERATOR)
            file[k:] = [line_of(self.codec.open(self._seal(COORDINATOR, stop)))]

    def contradict(self):
        """Keep another message of somebody as evidence."""
        file = self._some_file()
        k = self._some_line(file, "frame")
        message = None if k is None else self._body_at(file, k)
        if message is not None:
            frame = self._seal(message.sender, self._lie(message.body))
            file.append({"note": "evidence", "frame": encoded(frame)})

    def sign_in_another_form(self):
        """Sign a frame whose numbers do not have their shortest form."""
        file = self._some_file()
        k = self._some_line(file, "frame")
        message = None if k is None else self._body_at(file, k)
        if message is None:
            return
        head = message.frame[:-64]
        form = self.chance.choice([b"\xcc\x01", b"\xd0\x01", b"\xcd\x00\x01"])
        head = head[:1] + form + head[2:] if self.chance.random() < 0.5 else b"\xdc\x00\x05" + head[1:]
        frame = head + self.game.keys[message.sender].sign(DOMAIN + head)
        file[k] = {**file[k], "frame": encoded(frame)}

    def leave_out_properly(self):
        """A coordinator that uses fewer messages in its last round, and says so."""
        file = self._some_file()
        ends = [k for k, x in enumerate(file) if isinstance(x, dict) and {"y", "frame"} <= x.keys()]
        message = self._body_at(file, ends[-1]) if ends else None
        if message is None or not isinstance(message.body, Feedback) or self.session.keepers:
            return
        t = message.body.round
        lines = {x["agent"]: k for k, x in enumerate(file) if self._is_report(x, t)}
        reports = {i: self._body_at(file, k) for i, k in lines.items()}
        used = sorted(reports)[1:]
        if not used or any(report is None for report in reports.values()):
            return
        mean = self.session.lattice.mean([self.codec.lifted(reports[i]) for i in used])
        y = [mean] if isinstance(mean, int) else [int(v) for v in mean]
        basis = combined(reports[i].digest for i in used)
        told = {"numbers": self.codec.pack(y), "count": len(used), "basis": basis}
        said = self.codec.open(self._seal(COORDINATOR, msgspec.structs.replace(message.body, **told)))
        if isinstance(said, Message):
            file[ends[-1]] = line_of(said)
            del file[lines[min(reports)]]

    @staticmethod
    def _is_report(line, t):
        return isinstance(line, dict) and {"x", "frame", "agent"} <= line.keys() and line.get("round") == t

    # ---- bytes --------------------------------------------------------------------------------------------

    def written(self):
        """Write the files; some are changed byte by byte after that."""
        paths = []
        for k, file in enumerate(self.files):
            data = "".join(json.dumps(line) + "\n" for line in file).encode()
            if self.chance.random() < 0.1:
                where = self.chance.randrange(len(data))
                data = data[:where] + bytes([self.chance.randrange(256)]) + data[where + 1 :]
            if self.chance.random() < 0.08:
                data = data[: self.chance.randrange(len(data) + 1)]
            paths.append(self.folder / f"case{k}.jsonl")
            paths[-1].write_bytes(data)
        return paths


MANGLES = [name for name in vars(Case) if not name.startswith("_") and name != "written"]


def agree(other, played, folder, numbers, staged=()):
    """Both judge these cases alike; returns how often each verdict was given."""
    verdicts = Counter()
    for number in numbers:
        case = Case(number, played, folder, staged)
        done = []
        for _ in range(case.chance.choice([0, 1, 1, 1, 1, 2, 3])):
            done.append(case.chance.choice(MANGLES))
            getattr(case, done[-1])()
        paths, running = case.written(), case.chance.random() < 0.3
        ours, theirs = judged(paths, running), judged_by_other(other, paths, running)
        assert ours == theirs, f"case {number}: {done}, running={running}"
        verdicts[ours["verdict"]] += 1
    return verdicts


def test_both_agree(other, played, tmp_path):
    verdicts = agree(other, played, tmp_path, range(80))
    assert all(verdicts[word] >= 3 for word in ("sound", "unchecked", "unsound", "unreadable")), verdicts


def test_both_agree_with_keepers_and_on_series(other, played, staged, tmp_path):
    verdicts = agree(other, played, tmp_path, range(80), staged)
    assert all(verdicts[word] >= 3 for word in ("sound", "unchecked", "unsound", "unreadable")), verdicts


@pytest.mark.long
def test_both_agree_on_a_thousand(other, played, tmp_path):
    verdicts = agree(other, played, tmp_path, range(1000, 2000))
    assert all(verdicts[word] > 40 for word in ("sound", "unchecked", "unsound", "unreadable")), verdicts


def test_the_other_knows_nothing_of_tacit():
    files = [EXAMPLE, EXAMPLE.with_name("wire_independently.py")]
    for lines in (file.read_text().splitlines() for file in files):
        assert len(lines) <= 500
        parts = {line.split()[1].partition(".")[0] for line in lines if line.startswith(("import ", "from "))}
        assert parts <= {"cryptography", "wire_independently", *sys.stdlib_module_names}
        assert "import_module" not in "".join(lines)


def test_the_second_verifier_says_how_it_is_used(other, capsys):
    with pytest.raises(SystemExit) as ended:
        other.main(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert "TRANSCRIPT" in shown
    assert "--running" in shown
    for words in ([], ["--runing", "some.jsonl"]):
        with pytest.raises(SystemExit) as ended:
            other.main(words)
        assert ended.value.code == 2


def test_the_second_verifier_says_why_it_reads_nothing(other, tmp_path, capsys):
    assert other.main([str(tmp_path / "absent.jsonl")]) == 2
    told = capsys.readouterr()
    assert json.loads(told.out) == {"verdict": "unreadable"}
    assert "absent.jsonl" in told.err
