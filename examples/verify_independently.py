"""A second verifier of tacit's transcripts, made from docs/reference/wire.md alone; it uses nothing of tacit.

Example: ``python verify_independently.py hub.jsonl agent-3.jsonl``. Compare the id that it prints with that
of the session you agreed on: its numbers are taken to be valid. Exit codes: 0 sound, 1 unsound, 2 unreadable,
7 not all could be checked. The findings have the names of section 6 of the page. Numbers in comments are
sections of the page.
"""

import argparse
import base64
import itertools
import json
import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from wire_independently import (
    ASK,
    BAD,
    CLOSING,
    COORDINATOR,
    DONE,
    FEEDBACK,
    KEY,
    MASKED,
    NOTHING,
    OPENING,
    PARTS,
    PLACE,
    PRESENT,
    RECEIPT,
    REPORT,
    STOP,
    Frame,
    Session,
    Wrong,
    about,
    combined,
    committed,
    require,
    scales,
    typed,
)

CODES = {"sound": 0, "unsound": 1, "unreadable": 2, "unchecked": 7}
GAPS = {"missing-report", "missing-key", "missing-mean", "unsigned-mean", "unfinished", "no-rounds"}


def parsed(line: bytes) -> Any:  # ---- 5. transcripts -------------------------------------------------
    once: Any = {"object_pairs_hook": lambda pairs: require(len(dict(pairs)) == len(pairs)) and dict(pairs)}
    found = json.loads(line.decode(), parse_constant=lambda _: require(False), **once)
    return found if require(type(found) is dict) else None


def letters(text: str) -> bytes:
    data = base64.b64decode(text, validate=True)
    return data if require(base64.b64encode(data).decode() == text) else b""


def same(a: object, b: object) -> bool:
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def header(s: Session, by: object) -> dict[str, Any]:
    words: dict[str, Any] = {"tacit_transcript": 2, "agents": s.n, "kind": s.kind, "name": s.name}
    words |= {"topology": "server"} if s.edges is None else {"topology": "graph", "edges": s.edges}
    if s.series:
        words |= {"slots": s.rounds, "hides": s.hides, "mechanism": s.mechanism, "exponent": s.state}
    else:
        names = ("low", "high", "state_exponent", "bits", "reach_exponent")
        words |= {"lattice": dict(zip(names, s.lattice, strict=True)), "noise": s.noise}
        words |= {"motion": s.motion} if s.motion else {"mixing": s.mixing}
        words |= {} if s.table is None else {"table": s.table}
        words |= s.further
        words |= {} if s.decay is None else {"decay": s.decay}
    words |= {} if s.weights is None else {"weights": s.weights}
    words |= {"keepers": s.kept} if s.kept else {}
    words |= {"by": by if by in [*s.names, *s.kept] else "coordinator"}
    return words | {"id": s.id.hex(), "session": base64.b64encode(s.data).decode()}


class Judge:  # ---- 6. the verdict ---------------------------------------------------------------------
    def __init__(self, s: Session) -> None:
        self.s, self.findings, self.graph = s, set[str](), s.edges is not None
        self.digests: dict[tuple[int, int, int], bytes] = {}  # by sender, kind and round
        self.heard: dict[tuple[int, int], bytes] = {}  # what report u of an agent commits to
        self.feedback: dict[int, tuple[Frame, list[dict[int, Frame]]]] = {}  # with its parts in each file
        self.used: dict[int, dict[int, bytes]] = {}  # whose reports, with a server, by round
        self.means: dict[tuple[int, int], list[int]] = {}  # whose reports, on a graph, by round and agent
        self.lacking, self.stops, self.evidence = set[tuple[int, int]](), list[int](), list[Frame]()

    def check(self, right: object, name: str) -> bool:
        """Note a finding unless all is right."""
        self.findings |= set() if right else {name}
        return bool(right)

    def add(self, lines: list[bytes]) -> None:
        self.round, self.before, self.ended, self.parts = 0, NOTHING, False, dict[int, Frame]()
        for line in lines:
            try:
                words = parsed(line)
                self.frame(words) if "frame" in words else self.mean(words)
            except Wrong as wrong:
                self.findings.add(wrong.name)
            except BAD:
                self.findings.add("unreadable-line")

    def opened(self, text: str) -> Frame:
        data = letters(text)
        try:
            return Frame(self.s, data)
        except InvalidSignature:
            raise Wrong("bad-signature") from None
        except BAD:
            raise Wrong("bad-frame") from None

    def seen(self, m: Frame) -> bool:
        return self.check(self.digests.setdefault(m.slot, m.digest) == m.digest, "equivocation")

    def frame(self, words: dict[str, Any]) -> None:
        m, note = self.opened(words["frame"]), words.get("note")
        if note in ("evidence", "said"):
            self.check(set(words) == {"note", "frame"}, "altered-line")
            if note == "evidence":
                self.evidence.append(m)
            elif self.check(m.kind in (CLOSING, OPENING), "wrong-sender"):
                self.seen(m)
            return
        if m.kind in (PRESENT, ASK, PLACE, RECEIPT):
            raise Wrong("wrong-sender")
        if not same(words, m.words() | {"frame": words["frame"]}):
            raise Wrong("altered-line")
        if self.ended:
            raise Wrong("after-the-end")
        if m.kind == STOP:
            self.stop(m)
            return
        first = self.seen(m)
        if first and (m.kind in (REPORT, DONE) or (m.kind == MASKED and not self.s.series)):
            self.heard[m.sender, m.round] = m.body[3 if m.kind == MASKED else -1]
        if m.kind in PARTS:
            self.part(m)
        elif m.kind == FEEDBACK:
            self.close(m, first)

    def stop(self, m: Frame) -> None:
        if m.sender == COORDINATOR:
            self.ended = True
            self.stops.append(m.round)
            self.check(m.round <= self.round, "missing-round")
            self.check(m.round >= self.round, "out-of-order")

    def part(self, m: Frame) -> None:
        if m.round > self.round:
            self.check(m.round <= self.round + self.graph, "missing-round")
            self.round, self.parts, self.before = m.round, {}, b""
        if self.check(m.round == self.round, "out-of-order"):
            self.parts[m.sender] = m

    def close(self, m: Frame, first: bool) -> None:
        if first:
            if not self.check(m.round >= self.round, "out-of-order"):
                return
            self.check(m.round == self.round, "missing-round")
            self.check(m.round > self.round or self.before in (b"", m.body[6]), "broken-chain")
            self.feedback.setdefault(m.round, (m, []))[1].append(self.parts)
        self.round, self.parts, self.before = m.round + 1, {}, m.digest

    def mean(self, words: dict[str, Any]) -> None:
        t, i, used = typed([words["round"], words["agent"], words["used"]], "iil")
        require(self.graph, 0 <= i < self.s.n, used, typed(used, "i" * len(used)))
        require(0 <= t < self.s.rounds, set(used) <= self.s.near[i] | {i}, used == sorted(set(used)))
        if not self.check(t == self.round, "out-of-order"):
            return
        if not set(used) <= set(self.parts):
            self.lacking.add((t, i))
            return
        y = self.s.mean([self.parts[j] for j in used], i)
        right = {"round": t, "agent": i, "y": y if len(y) > 1 else y[0], "used": used}
        if self.check(same(words, right), "wrong-mean"):
            least = max(1, min(self.s.quorum, len(self.s.near[i]) + (i in used)))
            self.check(len(used) >= least, "below-quorum")
            self.check(self.means.setdefault((t, i), used) == used, "other-history")

    def finish(self, running: bool) -> dict[str, Any]:
        right = sum(map(self.peer, range(self.s.n), [running] * self.s.n)) if self.graph else self.server()
        for m in self.evidence:
            last = self.digests.get((COORDINATOR, FEEDBACK, m.round - 1))
            if m.kind in (*PARTS, FEEDBACK, DONE, KEY):
                self.seen(m)
            self.check(m.kind != FEEDBACK or last in (None, m.body[6]), "equivocation")
        rounds = max([*self.feedback, *(t for t, _ in self.means)], default=-1) + 1
        self.check(self.graph or rounds <= min(self.stops, default=rounds), "after-the-end")
        self.check(rounds > 0, "no-rounds")
        self.check(self.lacking <= set(self.means), "missing-report")
        ends = self.graph or running or rounds in self.stops or rounds >= self.s.exchanges
        self.check(ends, "unfinished")
        word = "unsound" if self.findings - GAPS else "unchecked" if self.findings else "sound"
        found: dict[str, Any] = {"verdict": word, "findings": sorted(self.findings), "id": self.s.id.hex()}
        found |= {"rounds": rounds, "means_recomputed": right}
        slots = self.slots() if self.s.series else {}
        y = self.feedback[max(self.feedback)][0].numbers if self.feedback else []
        said: list[float] | None = [math.ldexp(float(v), self.s.state) for v in y] or None
        if self.s.series:
            last = slots["means"][-1] if slots["means"] else None
            said = None if last is None else last if type(last) is list else [last]
        if word == "sound" and not self.graph and not self.s.series and self.s.asked:
            n = self.feedback[0][0].count
            found |= {"answer": estimates(self.s.asked, said or [], n, self.noise(n))}
        return found | {"result": said if word == "sound" else None, "last_feedback": said} | slots

    def slots(self) -> dict[str, list[Any]]:
        """Means of a series, with the numbers of agents in them, and of those ever used, to the first gap."""
        rows = list[tuple[list[int], int, int]]()
        while len(rows) in self.feedback:
            m = self.feedback[len(rows)][0]
            if rows and m.members < rows[-1][2]:
                break
            rows.append((m.numbers, m.count, m.members))
        means = self.s.slot_vectors(rows)
        found = {"means": means, "used": [r[1] for r in rows], "members": [r[2] for r in rows]}
        if self.s.asked:
            noise = self.s.slot_noise(rows)
            found["answers"] = [
                None if y is None else estimates(self.s.asked, y if type(y) is list else [y], r[2], v)
                for y, r, v in zip(means, rows, noise, strict=True)
            ]
        return found

    def noise(self, n: int) -> float:
        """The variance of the Laplace noise in each number of a mean of n messages."""
        most = max(self.s.noise) if type(self.s.noise) is list else self.s.noise
        return float(2 * most**2 * (self.s.m or n) / n**2)

    def server(self) -> int:
        for (_, u), heard in self.heard.items():
            feedback = self.digests.get((COORDINATOR, FEEDBACK, u - 1)) if u else NOTHING
            self.check(feedback in (None, heard), "other-history")
        right = sum(self.computed(m, files) for m, files in self.feedback.values())
        self.states()
        return right

    def states(self) -> None:
        """Check which report of each agent was used last, as far as all is known."""
        last, t = [(-1, NOTHING)] * self.s.n, 0
        while t in self.used:
            for i, digest in self.used[t].items():
                last[i] = t, digest
            m = self.feedback[t][0]
            members = sum(round_ >= 0 for round_, _ in last)
            state = committed(last, b"tacit state v1\0")
            if not self.check((m.members, m.body[4]) == (members, state), "wrong-state"):
                return
            t += 1

    def computed(self, m: Frame, files: list[dict[int, Frame]]) -> bool:
        """Whether a feedback follows from its parts: those of one file, or of all together."""
        if m.lost:
            self.used |= {m.round: {}} if m.body[5] == combined([]) else {}
            return self.check(m.body[5] == combined([]), "wrong-reports")
        whole = [(parts, used) for parts in files if (used := self.named(m, parts))]
        if not whole:
            union = {i: part for parts in files for i, part in parts.items()}
            whole = [(union, used)] if (used := self.named(m, union)) else []
            if not whole and not self.s.m and len(union) == self.s.n and math.comb(self.s.n, m.count) <= 1000:
                for used in map(list, itertools.combinations(sorted(union), m.count)):
                    whole += [(union, used)] if self.fits(m, union, used) else []
                return self.check(whole, "wrong-reports") and self.follows(m, *whole[0])
        self.check(whole, "missing-report")
        return sum(self.follows(m, parts, used) for parts, used in whole) > 0

    def named(self, m: Frame, parts: dict[int, Frame]) -> list[int]:
        """Whose reports it is of; nobody if not all are there."""
        if self.s.m:
            closing = parts.get(COORDINATOR)
            used = closing.used if closing else []
            return used if used and {*used, *self.s.keepers} <= set(parts) else []
        used = sorted(parts)
        return used if self.fits(m, parts, used) or len(used) == m.count == self.s.n else []

    def fits(self, m: Frame, parts: dict[int, Frame], used: list[int]) -> bool:
        return bool(m.body[5] == combined(parts[i].digest for i in used))

    def follows(self, m: Frame, parts: dict[int, Frame], used: list[int]) -> bool:
        said = [parts[i] for i in used]
        basis, numbers = self.kept(m, said, parts) if self.s.m else (said, self.s.mean(said))
        right = m.body[5] == combined(part.digest for part in basis) and len(said) == m.count
        right = self.check(right, "wrong-reports")
        self.used |= {m.round: {r.sender: r.digest for r in said}} if right else {}
        return self.check(m.numbers == numbers, "wrong-mean") and right

    def kept(self, m: Frame, said: list[Frame], there: dict[int, Frame]) -> tuple[list[Frame], list[int]]:
        """With keepers: what a feedback commits to, and its numbers."""
        closing, openings = there[COORDINATOR], [there[j] for j in self.s.keepers]
        used = [r.sender for r in said]
        right = closing.body[2] == m.count and closing.body[4] == m.body[6]
        right &= closing.body[3] == combined(r.digest for r in said)
        right &= closing.body[6] == b"".join(r.body[5] for r in said)
        self.check(right and all(o.body[2] == closing.digest for o in openings), "wrong-closing")
        keys = {i: self.digests.get((i, KEY, 0), b"") for i in (*used, *self.s.keepers)}
        if self.check(all(keys.values()), "missing-key"):
            own = [keys[j] for j in self.s.keepers]
            fits = closing.body[5] == combined(keys[i] for i in used)
            fits &= [o.body[3] for o in openings] == own
            fits &= all(r.body[4] == combined([keys[r.sender], *own]) for r in said)
            self.check(fits, "wrong-keys")
        return [closing, *openings], self.s.opened(m.round, said, openings)

    def peer(self, i: int, running: bool) -> int:
        said = {u: heard for (j, u), heard in self.heard.items() if j == i}
        made = {t + 1: used for (t, j), used in self.means.items() if j == i}
        known, signed, at = NOTHING, 0, 0
        for u in sorted({*said, *made}):
            if u:
                whose = [self.digests[j, REPORT, u - 1] for j in made.get(u, []) if known and at == u - 1]
                known = combined([known, *whose]) if whose else b""
            at = u
            if u in said:
                self.check(known, "missing-mean")
                self.check(known in (b"", said[u]), "other-history")
                known, signed = said[u], u
        later = [u for u in made if u > signed]
        self.check(running or not later, "unsigned-mean")
        self.check(running or max([signed, *made]) >= self.s.rounds, "unfinished")
        for u in later if running else []:
            del self.means[u - 1, i]
        return sum(j == i for _, j in self.means)


def estimates(asked: Any, mean: list[float], n: int, var: float) -> list[float]:
    """What a mean vector of n records says, whose numbers have noise of this variance.

    Whether the noise leaves an answer to a ratio at all, and intervals, need its exact law: not here.
    """
    kind, low, high = asked["kind"], asked.get("low", 0.0), asked.get("high", 1.0)
    half, middle = (high - low) / 2, (low + high) / 2
    if kind == "several":
        found, at = list[float](), 0
        for each, scale in zip(asked["questions"], scales(asked), strict=True):
            k = about(each)[0]
            own = [number / float(scale) for number in mean[at : at + k]]
            found, at = found + estimates(each, own, n, var / float(scale) ** 2), at + k
        return found
    if kind == "group by":
        k, inner, found = len(mean) // len(asked["labels"]), asked["question"], list[float]()
        if inner["kind"] == "sum":
            inner = inner | {"low": min(inner["low"], 0.0), "high": max(inner["high"], 0.0)}
        for i in range(0, len(mean), k):
            found += grouped(inner, mean[i : i + k], n, var)
        return found
    if kind == "quantile":
        return [quantile(asked["edges"], mean, q) for q in asked["shares"]]
    if kind == "variance":
        return varied(half, mean[1] / asked["stretch"] - mean[0] ** 2 + var)
    if kind == "weighted mean":
        return [middle + half * min(max(mean[1] / mean[0], -1.0), 1.0)] if mean[0] > 0 else []
    inside = [min(max(number, low), high) for number in mean]
    return inside if kind == "mean" else [n * x for x in inside] + (inside if kind == "count" else [])


def grouped(inner: Any, mean: list[float], n: int, var: float) -> list[float]:
    """What the block of one label says: of a mean or variance with the size of the group."""
    size = [n * min(max(mean[0], 0.0), 1.0)]
    if inner["kind"] == "mean":
        return size + estimates(inner | {"kind": "weighted mean"}, mean, n, var)
    if inner["kind"] != "variance":
        return estimates(inner, mean, n, var)
    s, v, u = mean[0], mean[1], mean[2] / inner["stretch"]
    half = (inner["high"] - inner["low"]) / 2
    return size + (varied(half, u / s - (v * v - var) / (s * s)) if s > 0 else [])


def varied(half: float, square: float) -> list[float]:
    found = half**2 * min(max(square, 0.0), 1.0)
    return [found, math.sqrt(found)]


def quantile(edges: list[float], mean: list[float], q: float) -> float:
    """Where the shares of records below first reach q, between edges."""
    k, sums = len(mean), [0.0, *itertools.accumulate(mean)]
    level = [*(s + j / k * (1 - sums[-1]) for j, s in enumerate(sums[:-1])), 1.0]
    j = max(next(j for j, share in enumerate(level) if share >= q), 1)
    low, high, gap = edges[j - 1], edges[j], level[j] - level[j - 1]
    if math.isinf(low) or math.isinf(high):
        return high if math.isinf(low) else low
    return low + min(max((q - level[j - 1]) / gap if gap > 0 else 1.0, 0.0), 1.0) * (high - low)


def judged(transcripts: Iterable[bytes], running: bool) -> dict[str, Any]:
    """Judge these transcripts together."""
    judge = None
    for transcript in transcripts:
        lines = transcript.split(b"\n")[:-1]  # a last line without its end does not count
        first = parsed(lines[0])
        require(type(first["tacit_transcript"]) is int, first["tacit_transcript"] == 2)
        session = Session(letters(first["session"]))
        require(first["id"] == session.id.hex())
        judge = judge or Judge(session)
        if judge.check(judge.s.id == session.id, "other-session"):
            judge.check(same(first, header(session, first.get("by"))), "altered-header")
            judge.add(lines[1:])
    return judge.finish(running) if judge else {"verdict": "unreadable"}


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--running", action="store_true", help="the session is not over yet")
    parser.add_argument("transcripts", nargs="+", metavar="TRANSCRIPT")
    options, found = parser.parse_args(words), {"verdict": "unreadable"}
    try:
        found = judged((Path(path).read_bytes() for path in options.transcripts), options.running)
    except (*BAD, OSError) as error:
        print(
            "unreadable:", str(error) or "not a transcript as section 5 of the page has it", file=sys.stderr
        )
    print(json.dumps(found))
    return CODES[found["verdict"]]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
