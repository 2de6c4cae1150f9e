"""A second verifier of tacit's transcripts, made from docs/reference/wire.md alone; it uses nothing of tacit.

Example: ``python verify_independently.py hub.jsonl agent-3.jsonl``. Compare the id that it prints with that
of the session you agreed on: that session is taken to be valid. Exit codes: 0 sound, 1 unsound, 2 unreadable
(a series of means too), 7 not all could be checked. Numbers in comments are sections of the page.
"""

import argparse
import base64
import hashlib
import json
import math
import struct
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

CODES = {"sound": 0, "unsound": 1, "unreadable": 2, "unchecked": 7}
COORDINATOR, NOTHING, LAWS = -1, bytes(32), ("fading", "one-shot", "constant")
PRESENT, REPORT, FEEDBACK, ASK, DONE, STOP, KEY, MASKED, CLOSING, OPENING = range(1, 11)
FIELDS = {PRESENT: "i", REPORT: "iibd", FEEDBACK: "ibbidd", ASK: "i", DONE: "id", STOP: "ii"}
FIELDS |= {KEY: "d", MASKED: "iibdd", CLOSING: "ibiddd", OPENING: "ibdd"}
EXCHANGED = (REPORT, FEEDBACK, MASKED, CLOSING, OPENING)
U_ORDER_8 = (325606250916557431795983626356110631294008115727848805560023387167927233504,
             39382357235489614581723060781553021112529911719440698176882885853963445705823)  # fmt: skip
TYPES = {"i": int, "f": float, "s": str, "b": bytes, "d": bytes, "l": list}  # d: of 32 bytes
P, ORDER_8 = 2**255 - 19, 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
SMALL_ORDER = {0, 1, P - 1, P, P + 1, ORDER_8, P - ORDER_8}
NUMBERS = {0xCB + k: f">{form}" for k, form in enumerate("dBHIQbhiq")}
SIZED = {0xC4: (1, bytes, -1), 0xC5: (2, bytes, 255), 0xC6: (4, bytes, 65535), 0xD9: (1, str, 31)}
SIZED |= {0xDA: (2, str, 255), 0xDB: (4, str, 65535), 0xDC: (2, list, 15), 0xDD: (4, list, 65535)}
BAD = (ValueError, LookupError, TypeError, OverflowError, RecursionError, struct.error, InvalidSignature)


def require(*conditions: object) -> bool:
    if not all(conditions):
        raise ValueError
    return True


def typed(values: Any, types: str) -> Any:
    require(type(values) is list, len(values) == len(types))
    for value, letter in zip(values, types, strict=True):
        require(type(value) is TYPES[letter], letter != "d" or len(value) == 32)
    return values


def unpack(data: bytes) -> Any:  # ---- 1. MessagePack: every value in its shortest form ---------------
    value, end = unpack_at(data, 0)
    return value if require(end == len(data)) else None


def unpack_at(d: bytes, at: int) -> tuple[Any, int]:
    b, at = d[at], at + 1
    if b < 0x80 or b >= 0xE0 or b == 0xC0:
        return (None if b == 0xC0 else b if b < 0x80 else b - 256), at
    if b in NUMBERS:
        value, width = struct.unpack_from(NUMBERS[b], d, at)[0], struct.calcsize(NUMBERS[b])
        shorter = (-32, 127) if width == 1 else (-(256 ** (width // 2)) // 2, 256 ** (width // 2) - 1)
        require(b == 0xCB or (value > shorter[1] if b < 0xD0 else value < shorter[0]))
        return value, at + width
    width, kind, above = SIZED.get(b, (0, str if b >= 0xA0 else list, -1))
    require(width or 0x90 <= b < 0xC0, at + width <= len(d))
    size = int.from_bytes(d[at : at + width], "big") if width else b & (31 if kind is str else 15)
    at += width
    require(size > above, at + size <= len(d))
    if kind is not list:
        return (d[at : at + size].decode() if kind is str else d[at : at + size]), at + size
    items = []
    for _ in range(size):
        item, at = unpack_at(d, at)
        items.append(item)
    return items, at


class Session:  # ---- 2. the session, 3. the lattice ----------------------------------------------------
    def __init__(self, data: bytes) -> None:
        f = unpack(data)
        require(type(f) is list, f[:1] == ["tacit session"], (len(f), f[1]) in {(18, 2), (20, 3), (19, 4)})
        keepers, self.wide = f[18:] if len(f) == 20 else ([], 0)  # bytes of a masked number
        self.name, roster, coordinator, self.edges, self.kind, self.mixing, self.noise, self.decay = f[2:10]
        self.rounds, self.lattice, _, self.components, _, self.quorum = f[10:16]
        self.data, self.id = data, hashlib.sha256(b"tacit session id\0" + data).digest()
        self.names, keys = [typed(m, "sd")[0] for m in roster], [m[1] for m in roster]
        keys += [] if coordinator is None else typed([coordinator], "d")
        self.n, self.m, self.kept = len(roster), len(keepers), [typed(k, "sd")[0] for k in keepers]
        numbers = [*range(self.n), *([] if coordinator is None else [COORDINATOR])]
        numbers += range(self.n, self.n + self.m)
        keys += [k[1] for k in keepers]
        require(len(set(keys)) == len(keys), (coordinator is None) != (self.edges is None), self.kind in LAWS)
        require(*(int.from_bytes(key, "little") % 2**255 not in SMALL_ORDER for key in keys))
        require(not keepers or (coordinator is not None and type(self.noise) is float and self.wide > 0))
        self.near, self.keys = [set[int]() for _ in roster], dict(zip(numbers, keys, strict=True))
        self.exchanges = 1 if keepers and self.kind == "one-shot" else self.rounds
        for i, j in self.edges or []:
            self.near[i].add(j)
            self.near[j].add(i)
        self.weights = f[18] if f[1] == 4 else None
        require(f[1] != 4 or self.edges is not None)
        require(type(self.weights) is list or self.weights in {None, "metropolis"})
        self.counts = {(i, j): k for i, j, k in self.weights} if type(self.weights) is list else {}
        *_, self.state, self.bits, reach = typed(self.lattice, "ffiii")
        self.limit, self.width = 1 << reach - self.state, -(-(reach - self.state + 2) // 8)

    def exponent(self, i: int, u: int) -> int:
        if self.kind == "one-shot" and u > 0:
            return int(self.state)
        exact = self.scale(i, u)
        power = exact.numerator.bit_length() - exact.denominator.bit_length()
        return int(max(power - self.bits, self.state))

    def scale(self, i: int, u: int) -> Fraction:
        c, q = (v[i] if type(v) is list else v for v in (self.noise, self.decay or 1.0))
        exact = Fraction(c) * Fraction(q) ** u
        extra = max(exact.numerator.bit_length() - 53, 0)  # bits that a double has no room for: rounded up
        return Fraction(-(-exact.numerator >> extra) << extra, exact.denominator)

    def opened(self, t: int, parts: dict[int, "Frame"], used: list[int]) -> list[int]:  # with keepers
        w, found = self.wide, [0] * self.components
        for i, part in parts.items():
            sign = (i in used) - (i >= self.n)
            data = part.body[2 if i < self.n else 1] if sign else b""
            for c in range(len(data) // w):
                found[c] += sign * int.from_bytes(data[c * w : c * w + w])
        half, shift = 1 << 8 * w - 1, self.exponent(0, t) - self.state
        found = [(v + half) % (2 * half) - half for v in found]
        scale = math.ceil(Fraction(self.scale(0, t)) / Fraction(2) ** (shift + self.state))
        most = self.n * (self.limit >> shift) + self.m * 64 * scale
        if any(abs(v) > most for v in found):
            return []  # nonsense
        means = [((v << shift + 1) + len(used)) // (2 * len(used)) for v in found]
        return [max(-self.limit, min(self.limit, v)) for v in means]

    def share(self, i: int, j: int, there: set[int]) -> Fraction:
        """How much agent i counts the message of j, up to a factor, where these messages are there."""
        if self.weights != "metropolis":
            return Fraction(1 if self.weights is None else self.counts.get((i, j), 0))
        if i != j:
            return Fraction(1, 1 + max(len(self.near[i]), len(self.near[j])))
        return 1 - sum((self.share(i, k, there) for k in self.near[i] & there), Fraction(0))

    def mean(self, reports: list["Frame"], i: int = -1) -> list[int]:
        rows = [[x << r.exponent - self.state for x in r.numbers] for r in reports]
        shares = [self.share(i, r.sender, {r.sender for r in reports}) for r in reports]
        shares = shares if any(shares) else [Fraction(1)] * len(rows)
        columns = [
            sum(map(Fraction.__mul__, shares, map(Fraction, column))) for column in zip(*rows, strict=True)
        ]
        return [math.floor(total / sum(shares) + Fraction(1, 2)) for total in columns]


class Frame:  # ---- 4. frames ---------------------------------------------------------------------------
    def __init__(self, s: Session, frame: bytes) -> None:
        signed = frame[:-64]
        version, session, self.sender, self.kind, body = typed(unpack(signed), "ibiib")
        require(version == 1, session == s.id, self.sender in s.keys, self.kind in FIELDS)
        key = Ed25519PublicKey.from_public_bytes(s.keys[self.sender])
        key.verify(frame[-64:], b"tacit message v1\0" + signed)
        b = self.body = typed(unpack(body), FIELDS[self.kind])
        self.digest, self.round = hashlib.sha256(signed).digest(), b[0]
        if self.kind == KEY:
            u, self.round = int.from_bytes(b[0], "little"), 0
            require(u < P, u not in (0, 1, P - 1, *U_ORDER_8))
        self.slot = (self.sender, REPORT if self.kind == MASKED else self.kind, self.round)
        spoken = [FEEDBACK, ASK, STOP] if self.sender == COORDINATOR else [PRESENT, REPORT, ASK, DONE, STOP]
        if s.m:
            spoken = [KEY, MASKED, PRESENT, ASK, DONE, STOP] if self.sender >= 0 else [*spoken, CLOSING]
            spoken = [KEY, OPENING, ASK, STOP] if self.sender >= s.n else spoken
        require(self.kind in spoken, 0 <= self.round <= s.rounds - (self.kind == ASK))
        require(self.kind not in EXCHANGED or self.round < s.exchanges)
        require(self.kind != DONE or self.round == s.rounds, self.kind != STOP or 0 <= b[1] <= 4)
        said = self.kind in (REPORT, MASKED)
        self.exponent, self.numbers, self.used = (b[1] if said else s.state), [0], [0]
        require(not said or self.exponent == s.exponent(self.sender, self.round))
        masked = b[2] if self.kind == MASKED else b[1] if self.kind == OPENING else None
        require(masked is None or len(masked) == s.wide * s.components)
        if self.kind in (REPORT, FEEDBACK):
            data, w = b[2 if self.kind == REPORT else 1], s.width
            require(len(data) == w * s.components)
            self.numbers = [int.from_bytes(data[k : k + w], signed=True) for k in range(0, len(data), w)]
            require(*(abs(x) <= s.limit >> self.exponent - s.state for x in self.numbers))
        if self.kind in (FEEDBACK, CLOSING):
            bits, count = b[2:4] if self.kind == FEEDBACK else b[1:3]
            self.used = [i for i in range(8 * len(bits)) if bits[i // 8] >> i % 8 & 1]
            require(len(bits) == -(-s.n // 8), self.used[-1] < s.n, len(self.used) == count >= s.quorum)
            self.unused = sorted(set(range(s.n)) - set(self.used))

    def words(self) -> dict[str, Any]:
        t, x = self.round, self.numbers if len(self.numbers) > 1 else self.numbers[0]
        if self.kind in (REPORT, MASKED):
            words = {"round": t, "agent": self.sender, "update": t, "exponent": self.exponent}
            return words | ({"x": x} if self.kind == REPORT else {})
        if self.kind in (CLOSING, OPENING):
            return {"round": t} | (
                {"closing": self.used} if self.kind == CLOSING else {"keeper": self.sender}
            )
        notes = {DONE: "done", STOP: "stop", KEY: "key"}
        heard = {"round": t, "y": x, "unused": self.unused} if self.kind == FEEDBACK else {}
        return heard or {"note": notes[self.kind]}


def parsed(line: bytes) -> Any:  # ---- 5. transcripts -------------------------------------------------
    once: Any = {"object_pairs_hook": lambda pairs: require(len(dict(pairs)) == len(pairs)) and dict(pairs)}
    found = json.loads(line.decode(), parse_constant=lambda _: require(False), **once)
    return found if require(type(found) is dict) else None


def letters(text: str) -> bytes:
    data = base64.b64decode(text, validate=True)
    return data if require(base64.b64encode(data).decode() == text) else b""


def same(a: object, b: object) -> bool:
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def combined(digests: Any) -> bytes:
    return hashlib.sha256(b"tacit reports v1\0" + b"".join(digests)).digest()


def header(s: Session, by: object) -> dict[str, Any]:
    words = {"tacit_transcript": 2, "agents": s.n, "kind": s.kind, "mixing": s.mixing, "noise": s.noise}
    words |= {"topology": "server"} if s.edges is None else {"topology": "graph", "edges": s.edges}
    words |= {} if s.weights is None else {"weights": s.weights}
    words |= {} if s.decay is None else {"decay": s.decay}
    names = ("low", "high", "state_exponent", "bits", "reach_exponent")
    words |= {"lattice": dict(zip(names, s.lattice, strict=True)), "name": s.name}
    words |= {"keepers": s.kept} if s.kept else {}
    words |= {"by": by if by in [*s.names, *s.kept] else "coordinator"}
    return words | {"id": s.id.hex(), "session": base64.b64encode(s.data).decode()}


class Judge:  # ---- 6. the verdict ---------------------------------------------------------------------
    def __init__(self, s: Session) -> None:
        self.s, self.wrong, self.gap, self.graph = s, False, False, s.edges is not None
        self.digests: dict[tuple[int, int, int], bytes] = {}  # by sender, kind and round
        self.heard: dict[tuple[int, int], bytes] = {}  # what report u of an agent commits to
        self.feedback: dict[int, tuple[Frame, dict[int, Frame]]] = {}  # with its reports, by round
        self.means: dict[tuple[int, int], list[int]] = {}  # whose reports, on a graph, by round and agent
        self.lacking, self.stops, self.evidence = set[tuple[int, int]](), list[int](), list[Frame]()

    def add(self, lines: list[bytes]) -> None:
        self.round, self.before, self.ended, self.reports = 0, NOTHING, False, dict[int, Frame]()
        for line in lines:
            try:
                words = parsed(line)
                self.frame(words) if "frame" in words else self.mean(words)
            except BAD:
                self.wrong = True

    def frame(self, words: dict[str, Any]) -> None:
        m, first = Frame(self.s, letters(words["frame"])), True
        if words.get("note") == "evidence":
            self.evidence.append(m)
            require(set(words) == {"note", "frame"})
            return
        if words.get("note") == "said":
            require(set(words) == {"note", "frame"}, m.kind in (CLOSING, OPENING))
            self.wrong |= self.digests.setdefault(m.slot, m.digest) != m.digest
            return
        require(m.kind in (*EXCHANGED, DONE, STOP, KEY), not self.ended)
        require(same(words, m.words() | {"frame": words["frame"]}))
        if m.kind != STOP:
            first = self.digests.setdefault(m.slot, m.digest) == m.digest
            self.wrong |= not first
        elif m.sender == COORDINATOR:
            self.ended = True
            self.stops.append(m.round)
            self.wrong |= m.round != self.round
        if first and m.kind in (REPORT, MASKED, DONE):
            self.heard[m.sender, m.round] = m.body[3 if m.kind == MASKED else -1]
        if m.kind in EXCHANGED and m.kind != FEEDBACK:
            if m.round > self.round:
                self.wrong |= m.round > self.round + self.graph
                self.round, self.reports, self.before = m.round, {}, b""
            require(m.round == self.round)
            self.reports[m.sender] = m
        elif m.kind == FEEDBACK:
            require(m.round >= self.round or not first)
            if first:
                self.wrong |= m.round > self.round or self.before not in (b"", m.body[5])
                self.feedback.setdefault(m.round, (m, {}))[1].update(self.reports)
            self.round, self.reports, self.before = m.round + 1, {}, m.digest

    def mean(self, words: dict[str, Any]) -> None:
        t, i, used = typed([words["round"], words["agent"], words["used"]], "iil")
        require(self.graph, 0 <= i < self.s.n, t == self.round, typed(used, "i" * len(used)))
        require(set(used) <= self.s.near[i] | {i}, used == sorted(set(used)))
        if not set(used) <= set(self.reports):
            return self.lacking.add((t, i))
        y = self.s.mean([self.reports[j] for j in used], i)
        require(same(words, {"round": t, "agent": i, "y": y if len(y) > 1 else y[0], "used": used}))
        self.wrong |= len(used) < max(1, min(self.s.quorum, len(self.s.near[i]) + (i in used)))
        self.wrong |= self.means.setdefault((t, i), used) != used
        return None

    def finish(self, running: bool) -> dict[str, Any]:
        right = sum(map(self.peer, range(self.s.n), [running] * self.s.n)) if self.graph else self.server()
        for m in self.evidence:
            last = self.digests.get((COORDINATOR, FEEDBACK, m.round - 1))
            if m.kind in (*EXCHANGED, DONE, KEY):
                self.wrong |= self.digests.setdefault(m.slot, m.digest) != m.digest
            self.wrong |= m.kind == FEEDBACK and last not in (None, m.body[5])
        rounds = max([*self.feedback, *(t for t, _ in self.means)], default=-1) + 1
        self.wrong |= rounds > min(self.stops, default=rounds)
        self.gap |= rounds == 0 or bool(self.lacking - set(self.means))
        self.gap |= not (self.graph or running or rounds in self.stops) and rounds < self.s.exchanges
        word = "unsound" if self.wrong else "unchecked" if self.gap else "sound"
        y = self.feedback[max(self.feedback)][0].numbers if self.feedback else []
        said = [math.ldexp(float(v), self.s.state) for v in y] or None
        found = {"verdict": word, "id": self.s.id.hex(), "rounds": rounds, "means_recomputed": right}
        return found | {"result": said if word == "sound" else None, "last_feedback": said}

    def server(self) -> int:
        for (_, u), heard in self.heard.items():
            feedback = self.digests.get((COORDINATOR, FEEDBACK, u - 1)) if u else NOTHING
            self.wrong |= feedback not in (None, heard)
        right = 0
        for m, there in self.feedback.values():
            if self.s.m:
                right += self.kept(m, there)
                continue
            reports, full = [there[i] for i in m.used if i in there], set(m.used) <= set(there)
            good = full and combined(r.digest for r in reports) == m.body[4]
            good = good and self.s.mean(reports) == m.numbers
            self.gap, self.wrong, right = self.gap or not full, self.wrong or full > good, right + good
        return right

    def kept(self, m: Frame, there: dict[int, Frame]) -> bool:  # 9. with keepers
        keepers = range(self.s.n, self.s.n + self.s.m)
        if not {*m.used, *keepers, COORDINATOR} <= set(there):
            self.gap = True
            return False
        closing, openings, used = there[COORDINATOR], [there[j] for j in keepers], [there[i] for i in m.used]
        good = closing.used == m.used and closing.body[4] == m.body[5]
        good &= closing.body[3] == combined(r.digest for r in used)
        good &= all(o.body[2] == closing.digest for o in openings)
        good &= m.body[4] == combined([closing.digest, *(o.digest for o in openings)])
        good &= self.s.opened(m.round, there, m.used) == m.numbers
        keys = {i: self.digests.get((i, KEY, 0), b"") for i in (*m.used, *keepers)}
        if all(keys.values()):
            own = [keys[j] for j in keepers]
            fits = (
                closing.body[5] == combined(keys[i] for i in m.used) and [o.body[3] for o in openings] == own
            )
            fits &= all(r.body[4] == combined([keys[r.sender], *own]) for r in used)
            self.wrong |= not fits
        else:
            self.gap = True
        self.wrong |= not good
        return bool(good)

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
                self.gap |= not known
                self.wrong |= known not in (b"", said[u])
                known, signed = said[u], u
        self.gap |= not running and signed < self.s.rounds
        for u in [u for u in made if running and u > signed]:
            del self.means[u - 1, i]
        return sum(j == i for _, j in self.means)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--running", action="store_true", help="the session is not over yet")
    parser.add_argument("transcripts", nargs="+", metavar="TRANSCRIPT")
    options, judge, found = parser.parse_args(words), None, {"verdict": "unreadable"}
    try:
        for path in options.transcripts:
            lines = Path(path).read_bytes().split(b"\n")[:-1]  # a last line without its end does not count
            first = parsed(lines[0])
            require(type(first["tacit_transcript"]) is int, first["tacit_transcript"] == 2)
            session = Session(letters(first["session"]))
            require(first["id"] == session.id.hex())
            judge = judge or Judge(session)
            judge.wrong |= judge.s.id != session.id or not same(first, header(session, first.get("by")))
            judge.add(lines[1:] if judge.s.id == session.id else [])
        found = judge.finish(options.running) if judge else found
    except (*BAD, OSError) as error:
        print("unreadable:", error, file=sys.stderr)
    print(json.dumps(found))
    return CODES[found["verdict"]]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
