"""The official vectors of Count and Sum (draft-irtf-cfrg-vdaf): the same answers, and bad reports fail.

The vectors' random numbers come from TurboSHAKE128. Count multiplies two wires where ours squares one, so its
proof is made here from the same field and weights.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from Crypto.Hash import TurboSHAKE128

from tacit.core.range_proof.field import FIELD64, power_of_two
from tacit.core.range_proof.proof import (
    Query,
    Rows,
    answers,
    as_bits,
    bit_weights,
    passed,
    prove,
    read_elements,
    total,
    write_elements,
)

VECTORS = Path(__file__).parent / "vectors"
FILES = sorted(path.stem for path in VECTORS.glob("*.json"))
P = FIELD64.modulus
VERSION = 18
SHARE, PROOF, PROVER, QUERY = 1, 2, 4, 5


def random(vector, kind, usage, seed, binder, count):  # noqa: PLR0917
    """Expand a seed as the draft does."""
    tag = bytes([VERSION, 0]) + kind.to_bytes(4, "big") + usage.to_bytes(2, "big")
    tag += bytes.fromhex(vector["ctx"])
    head = len(tag).to_bytes(2, "little") + tag + bytes([len(seed)]) + seed
    stream = TurboSHAKE128.new(domain=1)
    stream.update(head + binder)
    found = []
    while len(found) < count:
        x = int.from_bytes(stream.read(8), "little")
        found += [x] * (x < P)
    return found


class Sum:
    kind = 2

    def __init__(self, vector):
        self.most = vector["max_measurement"]
        self.rows = Rows(self.most.bit_length())
        self.bits, self.length, self.seeds = self.rows.bits, self.rows.proof_length, 1
        self.asked = self.bits + 1

    def row(self, measurement):
        return as_bits(measurement, self.most)

    def prove(self, row, seeds):
        return prove(self.rows, row, seeds[0])

    def answer(self, asked, share):
        query = Query(self.rows, asked[-1], tuple(asked[:-1]))
        fast = answers(query, np.array([share], dtype=np.uint64))[0]
        assert fast.tolist() == list(query.answer(share))
        return query.answer(share)

    def passed(self, asked, answer):
        return passed(Query(self.rows, asked[-1], tuple(asked[:-1])), answer)

    def out(self, row):
        return sum(weight * bit for weight, bit in zip(bit_weights(self.most), row, strict=True)) % P


class Count:
    """One bit, and a gadget that multiplies its two wires."""

    kind = 1
    bits, seeds, asked, order = 1, 2, 1, 2

    def __init__(self, _):
        self.length = 2 + 2 * self.order - 1

    def row(self, measurement):
        return [measurement]

    def prove(self, row, seeds):
        wires = [FIELD64.values(FIELD64.coefficients([seed, *row]), 2 * self.order) for seed in seeds]
        return [*seeds, *(a * b % P for a, b in zip(*wires, strict=True))][:-1]

    def answer(self, asked, share):
        bit, one, two, *gadget = share
        at = FIELD64.weights(asked[0], self.order)
        there = FIELD64.weights(asked[0], 2 * self.order, 2 * self.order - 1)
        ends = [(at[0] * seed + at[1] * bit) % P for seed in (one, two)]
        return [(gadget[2] - bit) % P, *ends, sum(map(lambda a, b: a * b, there, gadget)) % P]

    def passed(self, _, answer):
        zero, one, two, gadget = answer
        return zero == 0 and one * two % P == gadget

    def out(self, row):
        return row[0]


def circuit(name, vector):
    return (Sum if "Sum" in name else Count)(vector)


@pytest.mark.parametrize("name", FILES)
def test_an_official_vector(name):
    vector = json.loads((VECTORS / f"{name}.json").read_text())
    made = circuit(name, vector)
    good = all(step["success"] for step in vector["operations"])
    assert good is ("bad" not in name)
    key = bytes.fromhex(vector["verify_key"])
    outs = []
    for report in vector["reports"]:
        leader, *helpers = map(bytes.fromhex, report["input_shares"])
        shares = [read_elements(FIELD64, leader)]
        for number, seeds in enumerate(helpers, 1):
            one = bytes([number])
            shares.append(
                random(vector, made.kind, SHARE, seeds, one, made.bits)
                + random(vector, made.kind, PROOF, seeds, b"\1" + one, made.length)
            )
        if good:
            row = made.row(report["measurement"])
            seed = bytes.fromhex(report["rand"])[-32:]
            seeds = random(vector, made.kind, PROVER, seed, b"\1", made.seeds)
            whole = [*row, *made.prove(row, seeds)]
            assert total(FIELD64, shares) == whole
        nonce = bytes.fromhex(report["nonce"])
        asked = random(vector, made.kind, QUERY, key, b"\1" + nonce, made.asked)
        said = [made.answer(asked, share) for share in shares]
        (told,) = report["verifier_shares"]
        assert [write_elements(FIELD64, one).hex() for one in said] == told
        assert made.passed(asked, total(FIELD64, said)) is good
        if good:
            found = [write_elements(FIELD64, [made.out(share[: made.bits])]).hex() for share in shares]
            assert found == report["out_shares"]
            outs.append(sum(made.out(share[: made.bits]) for share in shares) % P)
    assert not good or sum(outs) % P == vector["agg_result"]


def test_the_vectors_are_all_there():
    assert len(FILES) == 10
    assert power_of_two(9) == 16
