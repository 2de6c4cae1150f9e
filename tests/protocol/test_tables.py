"""The tables are complete, and the page shows them."""

from pathlib import Path

import pytest
from tests.doubles import known_key, known_session

from tacit.base.errors import TacitError
from tacit.core.protocol import diagrams
from tacit.core.protocol.agent import AgentMachine
from tacit.core.protocol.coordinator import CoordinatorMachine
from tacit.core.protocol.effects import Start
from tacit.core.protocol.keeper import KeeperMachine
from tacit.core.protocol.peer import PeerMachine
from tacit.core.protocol.tables import (
    AgentPhase,
    CoordinatorPhase,
    KeeperPhase,
    On,
    PeerPhase,
    Transition,
    short,
    usual,
)

MACHINES = [
    (AgentMachine, AgentPhase),
    (CoordinatorMachine, CoordinatorPhase),
    (PeerMachine, PeerPhase),
    (KeeperMachine, KeeperPhase),
]
P = AgentPhase


@pytest.mark.parametrize(("machine", "phases"), MACHINES)
def test_every_event_has_an_answer_in_every_phase(machine, phases):
    expected = {(phase, event) for phase in phases for event in machine.table.events}
    assert set(machine.table.rows) == expected


@pytest.mark.parametrize(("machine", "phases"), MACHINES)
def test_every_action_exists(machine, phases):
    for row in machine.table.rows.values():
        assert row.action == "ignore" or callable(getattr(machine, f"_{row.action}"))
        assert row.phase in phases


@pytest.mark.parametrize(("machine", "phases"), MACHINES)
def test_every_phase_can_be_reached_and_nothing_impossible_moves(machine, phases):
    reached, new = set(), {machine.table.first}
    while new:
        reached |= new
        new = {row.phase for (phase, _), row in machine.table.rows.items() if phase in reached} - reached
    assert reached == set(phases)
    for (phase, _), row in machine.table.rows.items():
        if row.action in ("impossible", "refuse", "misplaced"):
            assert row.phase is phase


def test_every_kind_of_event_is_used():
    assert {event for machine, _ in MACHINES for event in machine.table.events} == set(On)


def test_what_is_refused_ends_in_the_same_phase_everywhere():
    for machine, phases in MACHINES:
        for phase in phases:
            if phase is not PeerPhase.CHOOSING:
                assert machine.table.rows[phase, On.REFUSED] == Transition("refuse", phase)


def test_no_row_changes_unseen():
    """A short table forgets a row silently, and a rule of defaults changes many: every row is kept here."""
    rows = "".join(diagrams.expanded(table) for table in diagrams.TABLES.values())
    assert rows == (Path(__file__).parent / "tables.txt").read_text()


def test_a_row_is_written_once():
    twice = {On.START: PeerMachine._enter, (On.START, On.TICK): None}
    with pytest.raises(ValueError, match="written twice"):
        short("x", {AgentPhase.IDLE: twice})


def test_a_short_table_says_only_what_is_unusual():
    made = short(
        "x",
        {
            P.IDLE: {On.START: (PeerMachine._enter, P.WAITING), On.NOISE: None, On.MOVE: P.WAITING},
            P.WAITING: {On.START: AgentMachine._keep, ...: PeerMachine._impossible},
        },
    )
    assert made.rows[P.IDLE, On.START] == Transition("enter", P.WAITING)
    assert made.rows[P.IDLE, On.NOISE] == Transition("ignore", P.IDLE)
    assert made.rows[P.IDLE, On.MOVE] == Transition("ignore", P.WAITING)
    assert made.rows[P.WAITING, On.START] == Transition("keep", P.WAITING)
    assert made.rows[P.WAITING, On.TICK] == Transition("impossible", P.WAITING)
    for event, does in [
        (On.TICK, "tick"), (On.REFUSED, "refuse"), (On.CONTRADICTED, "accuse"), (On.LEFT, "ignore"),
        (On.HALT, "misplaced"),
    ]:  # fmt: skip
        assert usual(event) == does
        assert made.rows[P.IDLE, event] == Transition(does, P.IDLE)


def test_what_follows_from_the_state_is_impossible_unless_a_table_expects_it():
    assert usual(On.ENOUGH) == usual(On.NONSENSE) == "impossible"
    assert usual(On.WITHOUT_KEEPER) == "misplaced"


def test_the_impossible_is_a_bug_and_says_so():
    machine = CoordinatorMachine(known_session(2), sign=known_key(-1).sign)
    machine._due = lambda: On.MOVE
    with pytest.raises(TacitError, match="bug"):
        machine.handle(Start())


def test_diagrams_show_every_phase_and_every_change():
    for machine, phases in MACHINES:
        drawn = diagrams.mermaid(machine.table)
        for phase in phases:
            assert f" {phase.value}" in drawn
        changes = {(p, r.phase) for (p, _), r in machine.table.rows.items() if r.phase is not p}
        assert drawn.count("-->") == len(changes) + 1
        assert ";" not in drawn  # would end a statement of mermaid
