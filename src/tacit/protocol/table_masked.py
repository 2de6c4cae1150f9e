"""The extra transitions of a session with keepers, as data."""

from __future__ import annotations

from tacit.protocol.table_agent import AGENT
from tacit.protocol.table_coordinator import COORDINATOR
from tacit.protocol.tables import AgentPhase, CoordinatorPhase, On, OpeningPhase, Phase, Table, Transition


def _agent() -> Table:
    P = AgentPhase
    rows = dict(AGENT.rows)
    for phase in P:
        rows[phase, On.KEY] = Transition("ignore", phase)
    for phase in (P.WAITING, P.DRAWING, P.SPOKEN, P.SILENT):
        rows[phase, On.KEY] = Transition("take_key", phase)
    rows[P.IDLE, On.KEY] = Transition("misplaced", P.IDLE)
    return Table("masked_agent", (*AGENT.events, On.KEY), rows)


def _coordinator() -> Table:
    P, opening = CoordinatorPhase, OpeningPhase.OPENING
    rows = dict(COORDINATOR.rows)
    new = (On.KEY, On.OPENING, On.WITHOUT_KEEPER, On.SHUT, On.NONSENSE)
    # Waiting for keepers is like collecting, with the round's messages decided.
    for event in COORDINATOR.events:
        action, after = rows[P.COLLECTING, event]
        rows[opening, event] = Transition(action, opening if after is P.COLLECTING else after)
    every: tuple[Phase, ...] = (*P, opening)
    for phase in every:
        for event in new:
            rows[phase, event] = Transition("impossible", phase)
    for phase in (P.GATHERING, P.COLLECTING, opening):
        rows[phase, On.KEY] = Transition("take_key", phase)
        rows[phase, On.WITHOUT_KEEPER] = Transition("lose_keeper", P.STOPPED)
    for phase in (P.SERVING, P.FINISHED):
        rows[phase, On.KEY] = Transition("take_key", phase)
        rows[phase, On.WITHOUT_KEEPER] = Transition("ignore", phase)
    for event in (On.KEY, On.WITHOUT_KEEPER):
        rows[P.IDLE, event] = Transition("misplaced", P.IDLE)
        rows[P.STOPPED, event] = Transition("say_stopped", P.STOPPED)
    rows[P.COLLECTING, On.MOVE] = Transition("shut", opening)
    rows[P.COLLECTING, On.SHUT] = Transition("shut_again", opening)
    rows[P.COLLECTING, On.LAST] = Transition("impossible", P.COLLECTING)
    # The closing is out: a report that is added now would be in no keeper's sum.
    rows[opening, On.REPORT] = Transition("too_late", opening)
    rows[opening, On.OPENING] = Transition("take_opening", opening)
    rows[opening, On.MOVE] = Transition("unmask", P.COLLECTING)
    rows[opening, On.LAST] = Transition("unmask", P.SERVING)
    rows[opening, On.NONSENSE] = Transition("reject", P.STOPPED)
    return Table("masked_coordinator", (*COORDINATOR.events, *new), rows)


MASKED_AGENT = _agent()
MASKED_COORDINATOR = _coordinator()
