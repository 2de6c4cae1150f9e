"""Sessions and frames of tacit, read as docs/reference/wire.md says; it uses nothing of tacit.

`verify_independently.py` judges transcripts with it. Numbers in comments are sections of the page.
"""

import hashlib
import math
import operator
import struct
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

COORDINATOR, NOTHING, ONCE = -1, bytes(32), ("one-shot", "bits", "staircase")
LAWS = {"fading": "mixing noise decay", "one-shot": "mixing noise", "constant": "mixing noise"}
LAWS |= {"scheduled": "mixing noise table"}
LAWS |= {"bits": "mixing noise middle domain", "staircase": "mixing noise domain inner"}
ANY = {"format": "i", "name": "s", "expires": "i", "topology": "s", "quorum": {"round": "i", "start": "i"}}
ANY |= {"deadlines?": {"round?": "f", "start?": "f", "repeat?": "f"}}  # ?: left out if it is the default
SERVER = {"agents": "i", "root": "d", "coordinator": "d", "keepers?": "l", "mask_bytes?": "i"}
GRAPH = {"roster": "l", "edges": "l", "weights?": "x"}
ROUNDS = {"values": {"low": "f", "high": "f", "components": "i", "adjacency": "f"}, "mechanism": "m"}
ROUNDS |= {
    "lattice": {"state_exponent": "i", "bits": "i", "reach_exponent": "i"},
    "question?": "m",
    "motion?": "m",
    "closes?": "i",
}
MOTIONS = {"linear": {"A": "l", "B": "l", "C": "l", "names": "l", "private": "l", "norm": "s", "start": "l"}}
MOTIONS |= {"envelope": {"influence": "l", "lag": "f"}}
MOTIONS |= {"geometric envelope": {"kappa": "f", "rho": "f", "lag": "f"}}
QUESTIONS = {"sum": "low high", "count": "", "histogram": "edges", "quantile": "edges shares"}
QUESTIONS |= {"variance": "low high stretch", "weighted mean": "low high most"}
QUESTIONS |= {"group by": "labels question", "several": "questions weights", "mean": "low high numbers"}
SERIES = {"slots": "i", "interval": "f", "begins": "i", "hides": {"kind": "s", "size": "f"}, "mechanism": "s"}
SERIES |= {"steps": "f", "exponent": "i", "low": "f", "high": "f", "delta": "f"}
SERIES |= {"components?": "i", "distance?": "f"}
DEFAULTS = {"round": 30.0, "start": 60.0, "repeat": 1.0}  # of deadlines; there are no keepers and weights
PRESENT, REPORT, FEEDBACK, ASK, DONE, STOP, KEY, MASKED, CLOSING, OPENING, PLACE, RECEIPT = range(1, 13)
FIELDS = {PRESENT: "i", REPORT: "iibd", FEEDBACK: "ibiiddd", ASK: "i", DONE: "id", STOP: "ii", KEY: "d"}
FIELDS |= {MASKED: "iibddd", CLOSING: "ibidddb", OPENING: "ibdd", PLACE: "iidb", RECEIPT: "id"}
PARTS = (REPORT, MASKED, CLOSING, OPENING)  # what a feedback is computed from
U_ORDER_8 = (325606250916557431795983626356110631294008115727848805560023387167927233504,
             39382357235489614581723060781553021112529911719440698176882885853963445705823)  # fmt: skip
TYPES = {"i": int, "f": float, "s": str, "b": bytes, "d": bytes, "l": list, "m": dict}  # d: of 32 bytes
P, ORDER_8 = 2**255 - 19, 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
SMALL_ORDER = {0, 1, P - 1, P, P + 1, ORDER_8, P - ORDER_8}
NUMBERS = {0xCB + k: f">{form}" for k, form in enumerate("dBHIQbhiq")}
SIZED = {0xC4: (1, bytes, -1), 0xC5: (2, bytes, 255), 0xC6: (4, bytes, 65535), 0xD9: (1, str, 31)}
SIZED |= {0xDA: (2, str, 255), 0xDB: (4, str, 65535), 0xDC: (2, list, 15), 0xDD: (4, list, 65535)}
SIZED |= {0xDE: (2, dict, 15), 0xDF: (4, dict, 65535)}
BAD = (ValueError, LookupError, TypeError, OverflowError, RecursionError, struct.error, InvalidSignature)


class Wrong(Exception):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def require(*conditions: object) -> bool:
    if not all(conditions):
        raise ValueError
    return True


def typed(values: Any, types: str) -> Any:
    require(type(values) is list, len(values) == len(types))
    for value, letter in zip(values, types, strict=True):
        require(letter == "x" or type(value) is TYPES[letter], letter != "d" or len(value) == 32)
        require(letter != "f" or (math.isfinite(value) and str(value) != "-0.0"))
    return values


def shaped(value: Any, form: Any) -> Any:
    """Refuse a map that does not have exactly these fields, of these types."""
    if type(form) is str:
        return typed([value], form)[0]
    least = {name for name in form if name[-1] != "?"}
    fields = {name.rstrip("?"): part for name, part in form.items()}
    require(type(value) is dict, value, least <= value.keys() <= fields.keys())
    return {name: shaped(value[name], fields[name]) for name in value}


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
    width, kind, above = SIZED.get(b, (0, str if b >= 0xA0 else list if b >= 0x90 else dict, -1))
    require(width or b < 0xC0, at + width <= len(d))
    size = int.from_bytes(d[at : at + width], "big") if width else b & (31 if kind is str else 15)
    at += width
    require(size > above, at + size <= len(d))
    if kind in (str, bytes):
        return (d[at : at + size].decode() if kind is str else d[at : at + size]), at + size
    items = []
    for _ in range(size if kind is list else 2 * size):
        item, at = unpack_at(d, at)
        items.append(item)
    if kind is list:
        return items, at
    keys = typed(items[::2], "s" * size)
    require(keys == sorted(set(keys)))
    return dict(zip(keys, items[1::2], strict=True)), at


def pack(value: Any) -> bytes:  # what the leaves of trees have
    if type(value) is int:
        if value < 0:
            return struct.pack("b", value)
        width = next(k for k in (0, 1, 2, 4) if value < (256**k if k else 128))
        return bytes([0xCC + width // 2] if width else []) + value.to_bytes(width or 1)
    if type(value) in (list, dict):
        parts = (
            value if type(value) is list else [part for key in sorted(value) for part in (key, value[key])]
        )
        return bytes([(0x90 if type(value) is list else 0x80) + len(value)]) + b"".join(map(pack, parts))
    if value is None or type(value) is float:
        return b"\xc0" if value is None else b"\xcb" + struct.pack(">d", value)
    data = value if type(value) is bytes else value.encode()
    if type(value) is str and len(data) < 32:
        return bytes([0xA0 + len(data)]) + data
    return bytes([0xC4 if type(value) is bytes else 0xD9, len(data)]) + data


def root(hashes: list[bytes]) -> bytes:  # of a Merkle tree
    if len(hashes) == 1:
        return hashes[0]
    k = 1 << (len(hashes) - 1).bit_length() - 1
    return hashlib.sha256(b"\1" + root(hashes[:k]) + root(hashes[k:])).digest()


def listed(member: Any) -> list[Any]:
    return [*map(shaped(member, {"name": "s", "key": "d"}).get, ("name", "key"))]


def committed(rows: list[Any], label: bytes = b"tacit roster v1\0") -> bytes:
    leaves = [b"\0" + label + pack([i, *row]) for i, row in enumerate(rows)]
    return root([hashlib.sha256(leaf).digest() for leaf in leaves])


def questioned(asked: Any, deep: int = 0) -> None:
    """Refuse a question that is not written as the table of kinds has it."""
    words = QUESTIONS[asked["kind"]].split()
    shaped(asked, {"kind": "s"} | dict.fromkeys(words, "x"))
    for word in words:
        inner = asked[word] if word == "questions" else [asked[word]] if word == "question" else []
        require(deep < 2 or not inner)
        for each in inner:
            questioned(each, deep + 1)
        parts = asked[word] if type(asked[word]) is list else [asked[word]]
        for value in [] if inner else parts:
            require(type(value) in (float, str) or word == "numbers", str(value) not in ("-0.0", "nan"))
            require(value not in (math.inf, -math.inf) or word == "edges")


def moving(told: Any) -> Any:
    """Refuse a motion that is not written as the table of motions has it."""
    shaped(told, {"kind": "s", "state": "s"} | MOTIONS[told["kind"]])
    require(told["state"] == "computed", told.get("norm", "box") in ("box", "l1"))
    lists = {name: told[name] for name in ("names", "B", "C", "start", "A") if name in told}
    n = len(lists.get("names", []))
    require(*(1 <= len(each) == n <= 16 for each in lists.values()))
    for row in [lists.get(name, []) for name in ("B", "C", "start")] + lists.get("A", []):
        typed(row, "f" * n)
    bounds, places = told.get("influence", [0.0]), [row[0] for row in told.get("private", [])]
    require(bounds, typed(bounds, "f" * len(bounds)), min(bounds) >= 0, told.get("lag", 1.0) > 0)
    require(told.get("kappa", 1.0) > 0, told.get("rho", 1.0) > 0, places == sorted(set(places)))
    for row in told.get("private", []):
        require(typed(row, "if"), 0 <= row[0] < n, row[1] >= 1)
    require(len({*typed(lists.get("names", []), "s" * n)}) == n)
    return told


class Session:  # ---- 2. the session, 3. the lattice ----------------------------------------------------
    motion = table = None

    def __init__(self, data: bytes) -> None:
        canonical, rows = unpack(data)
        f = unpack(canonical)
        self.data, self.id = data, hashlib.sha256(b"tacit session id\0" + canonical).digest()
        server, series = f["topology"] == "server", "series" in f
        require(f["format"] == 7, server or (f["topology"] == "graph" and rows is None and not series))
        often = {"series": SERIES, "question?": "m"}
        shaped(f, ANY | (SERVER if server else GRAPH) | (often if series else ROUNDS))
        require(*(value != DEFAULTS[name] for name, value in f.get("deadlines", {}).items()))
        require(*(f[name] for name in ("keepers", "weights") if name in f))
        self.name, self.edges, self.weights = f["name"], f.get("edges"), f.get("weights")
        self.series, self.kind, self.components = f.get("series", {}), "series", 1
        self.quorum, self.asked = f["quorum"]["round"], f.get("question")
        keepers, self.wide = f.get("keepers", []), f.get("mask_bytes", 0)  # bytes of a masked number
        require((self.wide > 0) == bool(keepers))
        require(not server or (f["agents"] == len(rows) and f["root"] == committed(rows)))
        self.motion = moving(f["motion"]) if "motion" in f else None
        require(not (self.motion and (keepers or "question" in f)))
        self.closes = f.get("closes")
        require(self.closes is None or (server and 0 < self.closes < f["expires"]))
        if not series:
            self.parameters(f["mechanism"], rows if server else [])
            self.lattice = [*map(f["values"].get, ("low", "high"))]
            self.lattice += map(f["lattice"].get, ("state_exponent", "bits", "reach_exponent"))
            self.components = f["values"]["components"]
            if "question" in f:
                require(self.kind in ONCE, not server or self.rounds == 1)
        if self.asked is not None:  # messages and means are those of any vector
            require(self.asked["kind"] != "mean")
            questioned(self.asked)
        roster = [row[:2] for row in rows] if server else [listed(member) for member in f["roster"]]
        keepers, coordinator = [listed(keeper) for keeper in keepers], f.get("coordinator")
        self.names, self.kept = ([typed(m, "sd")[0] for m in members] for members in (roster, keepers))
        self.n, self.m = len(roster), len(keepers)
        self.keepers = range(self.n, self.n + self.m)
        self.keys = {i: member[1] for i, member in enumerate([*roster, *keepers])}
        self.keys |= {} if coordinator is None else {COORDINATOR: typed([coordinator], "d")[0]}
        require(len({*self.keys.values()}) == len(self.keys))
        require(len({name.lower() for name in [*self.names, *self.kept]}) == self.n + self.m)
        require(*(int.from_bytes(key, "little") % 2**255 not in SMALL_ORDER for key in self.keys.values()))
        self.series_sizes() if self.series else self.sizes()
        require(self.closes is None or self.exchanges == 1)

    def parameters(self, told: Any, rows: list[Any]) -> None:
        """Read the law. A server's agents may have parameters of their own, in the roster."""
        self.kind, self.rounds, own = told["law"], told["rounds"], [row[2] or {} for row in rows]
        words = [word for word in LAWS[self.kind].split() if not (self.motion and word == "mixing")]
        shaped(told, {"law": "s", "rounds": "i"} | dict.fromkeys(words, "x"))
        names = [name for name, value in told.items() if value is None]
        require(self.kind not in ONCE[1:] or self.rounds == 1, *(each.keys() == set(names) for each in own))
        found = told | {name: [shaped(each[name], "f") for each in own] for name in names}
        self.mixing, self.noise, self.decay = map(found.get, ("mixing", "noise", "decay"))
        if (table := found.get("table")) is not None:
            typed(table, "f" * self.rounds)
        self.table = table
        self.further = {w: typed([found[w]], "f")[0] for w in ("middle", "domain", "inner") if w in found}

    def sizes(self) -> None:
        require(not self.m or (self.edges is None and type(self.noise) is float and self.wide > 0))
        self.near = [set[int]() for _ in range(self.n)]
        self.exchanges = 1 if self.m and self.kind in ONCE else self.rounds
        for i, j in self.edges or []:
            self.near[i].add(j)
            self.near[j].add(i)
        require(self.weights is None or self.edges is not None)
        require(type(self.weights) is list or self.weights in {None, "metropolis"})
        self.counts = {(i, j): k for i, j, k in self.weights} if type(self.weights) is list else {}
        *_, self.state, self.bits, reach = typed(self.lattice, "ffiii")
        self.limit, self.width = 1 << reach - self.state, -(-(reach - self.state + 2) // 8)

    def series_sizes(self) -> None:
        names = ("slots", "mechanism", "steps", "exponent", "low", "high")
        slots, self.mechanism, steps, self.state, low, high = map(self.series.get, names)
        hides, size = self.series["hides"]["kind"], self.series["hides"]["size"]
        require(self.m, hides in {"step", "window", "reading"})
        require(self.mechanism == ("square-root" if hides == "step" else "independent"))
        self.hides = {"step": f"step:{size!r}", "window": f"window:{size:.0f}"}.get(hides, hides)
        self.rounds = self.exchanges = slots
        self.components, far = self.series.get("components", 1), self.series.get("distance", 0.0)
        require(self.components > 0, far >= 0, far != high - low or self.components > 1)
        plain = {"kind": "mean", "low": low, "high": high, "numbers": self.components}
        size, _, self.origin = about(self.asked or plain)
        self.origin = self.origin if self.asked or size > 1 else [Fraction(low)]
        require(size == self.components)
        each = math.ceil(math.ldexp(high - low, -self.state)) + 1
        self.low, self.limit = low, self.n * each + 64 * self.m * math.ceil(steps)
        self.width = self.wide

    def exponent(self, i: int, u: int) -> int:
        if self.series or (self.kind in ONCE and (u > 0 or self.motion)):
            return int(self.state)
        exact = self.scale(i, u)
        power = exact.numerator.bit_length() - exact.denominator.bit_length()
        return int(max(power - self.bits, self.state))

    def two(self) -> tuple[int, int]:  # all that a message of bits can be
        step, c, domain = Fraction(2) ** self.exponent(0, 0), Fraction(self.noise), self.further["domain"]
        middle, more = Fraction(self.further["middle"]), math.ceil(c / Fraction(domain)) + 1
        return math.floor((middle - c) / step) - more, math.ceil((middle + c) / step) + more

    def scale(self, i: int, u: int) -> Fraction:
        c, q = (v[i] if type(v) is list else v for v in (self.noise, self.decay or 1.0))
        if self.table is not None:
            return Fraction(c * self.table[u])  # one product of float64
        exact = Fraction(c) * Fraction(q) ** u
        extra = max(exact.numerator.bit_length() - 53, 0)  # bits that a double has no room for: rounded up
        return Fraction(-(-exact.numerator >> extra) << extra, exact.denominator)

    def opened(self, t: int, masked: list["Frame"], openings: list["Frame"]) -> list[int]:  # with keepers
        w, half, found = self.wide, 1 << 8 * self.wide - 1, []
        for at in range(0, w * self.components, w):
            total = sum(int.from_bytes(m.body[2][at : at + w]) for m in masked)
            total -= sum(int.from_bytes(o.body[1][at : at + w]) for o in openings)
            found.append((total + half) % (2 * half) - half)
        if self.series:
            return found
        shift = self.exponent(0, t) - self.state
        scale = math.ceil(self.scale(0, t) / Fraction(2) ** (shift + self.state))
        most = self.n * (self.limit >> shift) + self.m * 64 * scale
        if any(abs(v) > most for v in found):
            return []  # nonsense
        means = [((v << shift + 1) + len(masked)) // (2 * len(masked)) for v in found]
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

    def slot_vectors(self, slots: list[tuple[list[int], int, int]]) -> list[Any]:
        """Mean vectors of slots, from the sums; one number where there is one component."""
        columns = [
            self.slot_means([(sums[j], used, members) for sums, used, members in slots], float(zero))
            for j, zero in enumerate(self.origin)
        ]
        if self.components == 1:
            return columns[0]
        return [None if None in row else list(row) for row in zip(*columns, strict=True)]

    def slot_noise(self, slots: list[tuple[list[int], int, int]]) -> list[float]:
        """The variance of the noise in each number of a slot's mean."""
        tau, f = math.ldexp(self.series["steps"], self.state), [1.0]
        share, held, found = list[float](), list[float](), list[float]()
        for t, (_, used, members) in enumerate(slots):
            f.append(f[-1] * ((2 * t + 1) / (2 * t + 2)))
            g = [f[t - 1 - r] - f[t - r] for r in range(t)]
            share.append(members / used if used else 0.0)
            held.append(0.0 if used or self.mechanism == "independent" else spread(g, share, held))
            w = [1.0 * (r == t) if self.mechanism == "independent" else f[t - r] for r in range(t + 1)]
            found.append(self.m * (tau * spread(w, share, held) / members) ** 2 if members else 0.0)
        return found

    def slot_means(
        self, slots: Iterable[tuple[int, int, int]], low: float
    ) -> list[float | None]:  # 9. of a series
        """Means of slots, from the sum, the number of agents used, and that of members, of each slot."""
        f, scaled, found, last = list[float](), list[float](), list[float | None](), 0.0
        for t, (total, used, members) in enumerate(slots):
            f.append(f[-1] * ((2 * t - 1) / (2 * t)) if t else 1.0)
            scaled.append(math.ldexp(float(total), self.state) * (members / used) if used else 0.0)
            if self.mechanism == "independent":
                last = scaled[t]
            elif used:
                last = math.fsum(map(operator.mul, reversed(f), scaled))
            else:
                scaled[t] = last - math.fsum(map(operator.mul, reversed(f), scaled))
                last = math.fsum(map(operator.mul, reversed(f), scaled))
            found.append(last / members + low if used else None)
        return found


def spread(weights: list[float], share: list[float], held: list[float]) -> float:
    """The deviation of a weighted sum of slots at most, per draw: lost slots count with what is held."""
    own = sum((w * a) ** 2 for w, a in zip(weights, share, strict=False))
    return math.sqrt(own) + sum(w * h for w, h in zip(weights, held, strict=False))


def cube_root(number: Fraction) -> int:
    whole = max((number.numerator << 180) // number.denominator, 1)
    root = 1 << -(-whole.bit_length() // 3)
    while root**3 > whole:
        root = (2 * root + whole // root**2) // 3
    return root


def scales(asked: Any) -> list[Fraction]:
    """How much the vectors of each of several questions are scaled: its share over its diameter."""
    parts = [about(each) for each in asked["questions"]]
    roots = [cube_root(p[0] * Fraction(w)) for p, w in zip(parts, asked["weights"], strict=True)]
    return [Fraction(r, sum(roots)) / p[1] for r, p in zip(roots, parts, strict=True)]


def about(asked: Any) -> tuple[int, Fraction, list[Fraction]]:
    """The components of a question, its diameter, and its stand-in."""
    kind, low, high = asked["kind"], Fraction(asked.get("low", 0)), Fraction(asked.get("high", 1))
    zero, one, a = Fraction(0), Fraction(1), Fraction(asked.get("stretch", 1))
    if kind in ("sum", "mean"):
        k = asked.get("numbers", 1)
        return k, k * (high - low), [(low + high) / 2] * k
    if kind in ("histogram", "quantile"):
        k = len(asked["edges"]) + (1 if type(asked["edges"][0]) is str else -1)
        return k, 2 * one, [one * (kind == "quantile" and j == k // 2) for j in range(k)]
    if kind == "count":
        return 1, one, [zero]
    if kind in ("variance", "weighted mean"):
        return 2, 2 * one if kind == "weighted mean" else (1 + 2 * a) ** 2 / (4 * a), [zero] * 2
    if kind == "group by":
        inner = asked["question"]
        k, far, _ = about({"kind": "weighted mean"} if inner["kind"] == "mean" else inner)
        norm = {"sum": max(abs(Fraction(inner.get("low", 0))), abs(Fraction(inner.get("high", 0))))}
        norm |= {"mean": 2 * one, "weighted mean": 2 * one, "variance": 2 + Fraction(inner.get("stretch", 1))}
        most, g = norm.get(inner["kind"], one), len(asked["labels"])
        k += inner["kind"] == "variance"
        return g * k, max(min(g, 2) * most, far), [zero] * (g * k)
    parts = [about(each) for each in asked["questions"]]
    vector = [c * x for c, p in zip(scales(asked), parts, strict=True) for x in p[2]]
    return sum(p[0] for p in parts), one, vector


def combined(digests: Any) -> bytes:
    return hashlib.sha256(b"tacit reports v1\0" + b"".join(digests)).digest()


class Frame:  # ---- 4. frames ---------------------------------------------------------------------------
    def __init__(self, s: Session, frame: bytes) -> None:
        signed = frame[:-64]
        version, session, self.sender, self.kind, body = typed(unpack(signed), "ibiib")
        require(version == 2, session == s.id, self.sender in s.keys, self.kind in FIELDS)
        key = Ed25519PublicKey.from_public_bytes(s.keys[self.sender])
        key.verify(frame[-64:], b"tacit message v1\0" + signed)
        b = self.body = typed(unpack(body), FIELDS[self.kind])
        self.digest, self.round = hashlib.sha256(signed).digest(), 0 if self.kind == KEY else b[0]
        self.slot = (self.sender, REPORT if self.kind == MASKED else self.kind, self.round)
        require(self.kind in self.spoken(s), 0 <= self.round <= s.rounds - (self.kind == ASK))
        require(self.kind not in (*PARTS, FEEDBACK, PLACE, RECEIPT) or self.round < s.exchanges)
        require(self.kind != DONE or self.round == s.rounds, self.kind != STOP or 0 <= b[1] <= 4)
        if self.kind == KEY:
            u = int.from_bytes(b[0], "little")
            require(u < P, u not in (0, 1, P - 1, *U_ORDER_8))
        said = self.kind in (REPORT, MASKED)
        self.exponent, self.numbers, self.used = (b[1] if said else s.state), [0], [0]
        require(not said or self.exponent == s.exponent(self.sender, self.round))
        masked = b[2] if self.kind == MASKED else b[1] if self.kind == OPENING else None
        require(masked is None or len(masked) == s.wide * s.components)
        require(not s.series or self.kind != MASKED or b[3] == NOTHING)
        if self.kind in (REPORT, FEEDBACK):
            data, w = b[2 if self.kind == REPORT else 1], s.width
            require(len(data) == w * s.components)
            self.numbers = [int.from_bytes(data[k : k + w], signed=True) for k in range(0, len(data), w)]
            require(*(abs(x) <= s.limit >> self.exponent - s.state for x in self.numbers))
            require(self.kind != REPORT or s.kind != "bits" or set(self.numbers) <= {*s.two()})
        if self.kind == FEEDBACK:
            self.count, self.members = b[2:4]
            self.lost = bool(s.series) and self.count == 0 and not any(self.numbers)
            require(self.lost or self.count >= s.quorum, 0 <= self.count <= self.members <= s.n)
            require(self.round > 0 or self.count == self.members)
        if self.kind == CLOSING:
            _, bits, count, *_, salts = b
            self.used = [i for i in range(8 * len(bits)) if bits[i // 8] >> i % 8 & 1]
            require(len(bits) == -(-s.n // 8), self.used[-1] < s.n, len(salts) == 32 * count)
            require(len(self.used) == count >= s.quorum)
        if self.kind == PLACE:
            require(-1 <= b[1] <= self.round, (b[1] < 0) == (b[2] == NOTHING))
            require(len(b[3]) % 32 == 0, len(b[3]) <= 32 * (s.n - 1).bit_length())

    def spoken(self, s: Session) -> set[int]:
        if self.sender >= s.n:
            return {KEY, OPENING, ASK, STOP}
        if self.sender == COORDINATOR:
            more = [*([CLOSING] if s.m else []), *([] if s.closes is None else [RECEIPT])]
            return {FEEDBACK, PLACE, ASK, STOP, *more}
        said = {KEY, MASKED} if s.m else {REPORT}
        return {ASK, DONE, STOP, *said, *([] if s.series else [PRESENT])}

    def words(self) -> dict[str, Any]:
        t, x = self.round, self.numbers if len(self.numbers) > 1 else self.numbers[0]
        notes = {DONE: "done", STOP: "stop", KEY: "key"}
        if self.kind in notes:
            return {"note": notes[self.kind]}
        if self.kind in (REPORT, MASKED):
            words = {"round": t, "agent": self.sender, "update": t, "exponent": self.exponent}
            return words | ({"x": x} if self.kind == REPORT else {})
        if self.kind == FEEDBACK:
            return {"round": t, "y": x, "count": self.count, "members": self.members}
        return {"round": t} | ({"keeper": self.sender} if self.kind == OPENING else {"closing": self.used})
