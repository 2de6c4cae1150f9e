"""What one hidden change moves, for every pattern of failed readings, down-times and restarts.

The distance between two streams is computed exactly, from the numbers inside the real machine's messages.
With Gaussian noise the likelihood ratio of everything that is seen depends on the Euclidean norm of that
distance alone, so norm/τ gives the true loss (docs/proofs/series.md, section 3).
"""

import itertools
import math

import numpy as np
import pytest
from tests.doubles import known_ephemeral, known_key, known_series

from tacit.core.protocol.agent import AgentMachine
from tacit.core.protocol.codec import Codec
from tacit.core.protocol.effects import Heard, ReadingReady, Start, Tick
from tacit.core.protocol.keeper import KeeperMachine
from tacit.core.protocol.masks import mask, total
from tacit.core.protocol.notices import SlotMissed
from tacit.core.protocol.private_state import Budget
from tacit.core.protocol.records import Sampled, Spoke
from tacit.core.series import Independent, SeriesAgent, design_series, epsilon_of

READ, FAIL, DOWN, BACK = "read", "fails", "down", "back"
"""What happens in a slot. `BACK`: the agent was killed before the slot, is back, and reads."""
SALT = bytes(32)
HIGH = 10.0


def machine_of(session, records=None):
    rest = {"sign": known_key(0).sign, "budget": Budget(10.0), "private": known_ephemeral(0)}
    if records is not None:
        machine = AgentMachine.resume(session, 0, records, **rest)
        machine.handle(Start())
        return machine, records
    machine = AgentMachine(session, 0, **rest)
    records = list(machine.handle(Start()).records)
    for j in session.keeper_numbers:
        keeper = KeeperMachine(session, j, sign=known_key(j).sign, private=known_ephemeral(j))
        records += machine.handle(Heard(keeper.keyring.frames[j])).records
    return machine, records


def said(session, stream, pattern):
    """Return the numbers of all slots, in grid steps; NaN where the machine says nothing."""
    machine, records = machine_of(session)
    secrets = [machine.keyring.secret(j) for j in session.keeper_numbers]
    found = np.full(len(pattern), np.nan)
    for slot, kind in enumerate(pattern):
        if kind is DOWN:
            continue
        if kind is BACK:
            machine, records = machine_of(session, records)
        when = session.series.begin_of(slot)
        machine.handle(Tick(when, when))
        step = machine.handle(ReadingReady(slot, None if kind is FAIL else stream[slot], SALT))
        records += step.records
        for record in step.records:
            if isinstance(record, Spoke):
                body = Codec(session).open(record.frame).body
                masks = [mask(secret, slot, body.heard, session.masked_bytes) for secret in secrets]
                plain = total([body.numbers], session.mask_bytes, minus=masks)
                found[slot] = int.from_bytes(plain, "big", signed=True)
    return found


def moves(session, pattern):
    """Return what each generator of the hidden changes moves: one row of numbers per generator.

    These are steps, or changes of single readings by the whole range.
    """
    series = session.series
    size, slots = series.adjacency, np.arange(series.slots)
    first = said(session, np.zeros(series.slots), pattern)
    rows = []
    for s in slots:
        second = said(session, size * (slots >= s if series.hides.kind == "step" else slots == s), pattern)
        assert np.array_equal(np.isnan(first), np.isnan(second))  # when it speaks does not depend on readings
        rows.append(np.nan_to_num(second - first))
    return np.array(rows)


def farthest(hides, moved, order=2):
    """Return the largest norm of any hidden change. It is convex, so extreme points are enough."""
    if hides.kind == "step":  # a change of total variation δ is a mixture of steps of ±δ
        return max(float(np.linalg.norm(row, order)) for row in moved)
    read = moved[np.any(moved, axis=1)]  # a window is so many readings in a row, also across a gap
    width = min(int(hides.size), len(read))
    signs = np.array(list(itertools.product((-1, 1), repeat=width)))
    if not width:
        return 0.0
    sums = np.concatenate([signs @ read[first : first + width] for first in range(len(read) - width + 1)])
    return float(np.linalg.norm(sums, order, axis=1).max())


def true_loss(session, pattern):
    series = session.series
    found = farthest(series.hides, moves(session, pattern))
    return epsilon_of(found / series.steps, series.delta) if found else 0.0


def check(session, patterns):
    found = [true_loss(session, pattern) for pattern in patterns]
    assert max(found) <= session.series.loss
    assert max(found) > 0.99 * session.series.loss  # and the account is no larger than it must be


@pytest.mark.parametrize("hides", ["reading", "window:2", "window:3", "step:2"])
def test_no_pattern_of_failures_and_restarts_costs_more_than_the_account(hides):
    check(known_series(1, 3, hides=hides, keepers=1), itertools.product((READ, FAIL, DOWN, BACK), repeat=3))


@pytest.mark.parametrize("hides", ["reading", *(f"window:{k}" for k in range(1, 6)), "step:2"])
def test_no_pattern_of_failed_readings_costs_more_than_the_account(hides):
    check(known_series(1, 5, hides=hides, keepers=1), itertools.product((READ, FAIL), repeat=5))


@pytest.mark.parametrize(("hides", "true"), [("reading", 13.2), ("window:3", 6.8)])
def test_a_held_reading_costs_many_times_the_account(hides, true, monkeypatch):
    """The planted bug, which was real: a reading, then 95 failures, each sent again under fresh noise."""
    session, pattern = known_series(1, 96, hides=hides, keepers=1), (READ, *[FAIL] * 95)
    one, two = np.zeros(96), HIGH * (np.arange(96) == 0)

    def loss():
        moved = said(session, one, pattern) - said(session, two, pattern)
        norm = math.sqrt(float(np.nansum(moved**2)))
        return epsilon_of(norm / session.series.steps, session.series.delta)

    assert loss() <= session.series.loss
    monkeypatch.setattr(Independent, "holds", True)
    assert loss() == pytest.approx(true, abs=0.05)


@pytest.mark.parametrize("kind", ["square-root", "tree", "pure tree", "independent", "independent laplace"])
def test_every_code_with_every_pattern_of_failures_moves_no_further_than_its_noise_is_made_for(kind):
    """Also those that are designed and not run: in the norm of their noise, over 8 slots."""
    slots, pure = 8, kind in ("pure tree", "independent laplace")
    hidden = ["step:2"] * (kind != "independent laplace")
    hidden += ["reading", "window:3", "window:8"] * kind.startswith("independent")
    for hides in hidden:
        design = design_series(slots, hides, agents=10**6, low=0, high=HIGH, keepers=1, mechanism=kind)
        step, worst = design.hides.kind == "step", 0.0
        for fails in itertools.product((False, True), repeat=slots):
            t = np.arange(slots)
            size = design.hides.size if step else HIGH
            first = _numbers(design, np.zeros(slots), fails)
            rows = [_numbers(design, size * (t >= s if step else t == s), fails) - first for s in t]
            worst = max(worst, farthest(design.hides, np.array(rows), 1 if pure else 2))
        moved = worst / design.steps
        assert 0.9 < (moved if pure else epsilon_of(moved, design.delta)) <= design.loss


def _numbers(design, stream, fails):
    agent, code = SeriesAgent(design.code, design.grid), design.code
    found = []
    for x, none in zip(stream.tolist(), fails, strict=True):
        found += agent.read(None if none else x)
        assert code.holds or len(found) == agent.slot - sum(fails[: agent.slot])
    return np.array(found)


def test_only_what_hides_a_step_holds():
    for hides in ("reading", "window:1", "window:4", "step:2"):
        assert known_series(1, 4, hides=hides).series.code().holds == hides.startswith("step")
    for kind, holds in (("tree", True), ("pure tree", True), ("independent laplace", False)):
        hides = "step:2" if holds else "reading"
        design = design_series(4, hides, agents=10**6, low=0, high=HIGH, keepers=1, mechanism=kind)
        assert design.code.holds is holds


@pytest.mark.parametrize("hides", ["reading", "window:2"])
def test_a_slot_without_a_reading_is_silent_and_told(hides):
    session = known_series(1, 4, hides=hides, keepers=1)
    machine, _ = machine_of(session)
    machine.handle(Tick(100.0, session.series.begin_of(0)))
    step = machine.handle(ReadingReady(0, None, SALT))
    assert not step.messages
    assert not [r for r in step.records if isinstance(r, Sampled | Spoke)]
    assert [n for n in step.notices if isinstance(n, SlotMissed)] == [SlotMissed(0, unread=True)]
    assert machine.private.spent_here == 0  # nothing was sent, so nothing is spent
    assert machine.wants_reading is None  # and the slot is not read in a loop
