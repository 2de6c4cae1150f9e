"""The transitions of the machines of a series, as data."""

from __future__ import annotations

from tacit.protocol.table_keeper import KEEPER
from tacit.protocol.tables import AgentPhase, CoordinatorPhase, KeeperPhase, On, Table, Transition, table


def _agent() -> Table:
    P = AgentPhase
    starts, inner = (On.START, On.ENDED), (On.MOVE, On.FORKED, On.MISNAMED, On.LAST)
    heard = (On.FEEDBACK, On.ASKED, On.STOP, On.KEY, On.READING, On.PAST, On.CONTRADICTED)
    outer = (*starts, *heard, On.TICK, On.JOINED, On.LEFT, On.HALT, On.EXPIRED, On.REFUSED)

    def quiet(phase: AgentPhase) -> dict[tuple[On, ...], Transition]:
        return {
            starts: Transition("misplaced", phase),
            (On.LEFT,): Transition("ignore", phase),
            (On.TICK,): Transition("tick", phase),
            (On.REFUSED,): Transition("refuse", phase),
            (On.CONTRADICTED,): Transition("accuse", phase),
        }

    over = (On.STOP, On.HALT, On.EXPIRED, On.KEY, On.ASKED)
    return table(
        "series_agent",
        (*outer, *inner),
        {
            P.IDLE: {
                (On.START,): Transition("enter", P.WAITING),
                (On.ENDED,): Transition("ignore", P.STOPPED),
                (On.HALT,): Transition("ignore", P.STOPPED),
                (On.EXPIRED,): Transition("expire", P.STOPPED),
                (On.TICK, On.JOINED, On.LEFT): Transition("ignore", P.IDLE),
                heard: Transition("misplaced", P.IDLE),
                (On.REFUSED,): Transition("refuse", P.IDLE),
                inner: Transition("impossible", P.IDLE),
            },
            P.WAITING: quiet(P.WAITING)
            | {
                (On.READING,): Transition("take_reading", P.WAITING),
                (On.FEEDBACK,): Transition("keep", P.WAITING),
                (On.PAST,): Transition("refuse", P.WAITING),
                (On.ASKED,): Transition("repeat", P.WAITING),
                (On.KEY,): Transition("take_key", P.WAITING),
                (On.JOINED,): Transition("say_again", P.WAITING),
                (On.STOP,): Transition("end", P.STOPPED),
                (On.HALT,): Transition("leave", P.STOPPED),
                (On.EXPIRED,): Transition("expire", P.STOPPED),
                (On.MOVE,): Transition("move", P.WAITING),
                (On.FORKED,): Transition("drop", P.WAITING),
                (On.MISNAMED,): Transition("dispute", P.STOPPED),
                (On.LAST,): Transition("finish", P.FINISHED),
            },
            P.FINISHED: quiet(P.FINISHED)
            | {
                (On.PAST, On.JOINED): Transition("say_done", P.FINISHED),
                over: Transition("ignore", P.FINISHED),
                (On.READING,): Transition("misplaced", P.FINISHED),
                (On.FEEDBACK, *inner): Transition("impossible", P.FINISHED),
            },
            P.STOPPED: quiet(P.STOPPED)
            | {
                (On.FEEDBACK, On.PAST, On.JOINED): Transition("say_stopped", P.STOPPED),
                over: Transition("ignore", P.STOPPED),
                (On.READING,): Transition("misplaced", P.STOPPED),
                inner: Transition("impossible", P.STOPPED),
            },
        },
    )


def _coordinator() -> Table:
    P = CoordinatorPhase
    starts = (On.START, On.ENDED)
    inner = (On.ENOUGH, On.MOVE, On.SKIP, On.NONSENSE, On.LAST, On.ALL_DONE)
    heard = (On.REPORT, On.OPENING, On.KEY, On.ASKED, On.DONE, On.QUIET, On.WITHOUT_KEEPER)
    outer = (
        *starts, *heard, On.TICK, On.JOINED, On.LEFT, On.HALT, On.EXPIRED, On.CONTRADICTED, On.REFUSED,
    )  # fmt: skip

    def running(phase: CoordinatorPhase) -> dict[tuple[On, ...], Transition]:
        return {
            starts: Transition("misplaced", phase),
            (On.TICK,): Transition("tick", phase),
            (On.LEFT,): Transition("ignore", phase),
            (On.KEY,): Transition("take_key", phase),
            (On.ASKED,): Transition("answer", phase),
            (On.DONE,): Transition("note_done", phase),
            (On.QUIET,): Transition("note_quiet", phase),
            (On.JOINED,): Transition("nudge", phase),
            (On.CONTRADICTED,): Transition("accuse", phase),
            (On.REFUSED,): Transition("refuse", phase),
        }

    def over(phase: CoordinatorPhase) -> dict[tuple[On, ...], Transition]:
        return running(phase) | {
            (On.REPORT, On.OPENING): Transition("misplaced", phase),
            (On.WITHOUT_KEEPER, On.HALT): Transition("ignore", phase),
        }

    return table(
        "series_coordinator",
        (*outer, *inner),
        {
            P.IDLE: {
                (On.START,): Transition("enter", P.COLLECTING),
                (On.ENDED,): Transition("say_stopped", P.STOPPED),
                (On.HALT,): Transition("halt", P.STOPPED),
                (On.EXPIRED,): Transition("expire", P.STOPPED),
                (On.TICK, On.JOINED, On.LEFT): Transition("ignore", P.IDLE),
                (*heard, On.CONTRADICTED): Transition("misplaced", P.IDLE),
                (On.REFUSED,): Transition("refuse", P.IDLE),
                inner: Transition("impossible", P.IDLE),
            },
            P.COLLECTING: running(P.COLLECTING)
            | {
                (On.REPORT,): Transition("take_report", P.COLLECTING),
                (On.OPENING,): Transition("take_opening", P.COLLECTING),
                (On.WITHOUT_KEEPER,): Transition("lose_keeper", P.STOPPED),
                (On.HALT,): Transition("halt", P.STOPPED),
                (On.EXPIRED,): Transition("expire", P.STOPPED),
                (On.ENOUGH,): Transition("shut", P.COLLECTING),
                (On.MOVE,): Transition("unmask", P.COLLECTING),
                (On.SKIP,): Transition("lose", P.COLLECTING),
                (On.NONSENSE,): Transition("reject", P.COLLECTING),
                (On.LAST,): Transition("serve", P.SERVING),
                (On.ALL_DONE,): Transition("impossible", P.COLLECTING),
            },
            P.SERVING: over(P.SERVING)
            | {
                (On.EXPIRED, On.ALL_DONE): Transition("finish", P.FINISHED),
                tuple(e for e in inner if e is not On.ALL_DONE): Transition("impossible", P.SERVING),
            },
            P.FINISHED: over(P.FINISHED)
            | {
                (On.EXPIRED,): Transition("ignore", P.FINISHED),
                inner: Transition("impossible", P.FINISHED),
            },
            P.STOPPED: {
                starts: Transition("misplaced", P.STOPPED),
                (On.TICK,): Transition("tick", P.STOPPED),
                (*heard, On.JOINED): Transition("say_stopped", P.STOPPED),
                (On.LEFT, On.HALT, On.EXPIRED): Transition("ignore", P.STOPPED),
                (On.CONTRADICTED,): Transition("accuse", P.STOPPED),
                (On.REFUSED,): Transition("refuse", P.STOPPED),
                inner: Transition("impossible", P.STOPPED),
            },
        },
    )


def _keeper() -> Table:
    P, rows = KeeperPhase, dict(KEEPER.rows)
    for phase in (P.WAITING, P.DRAWING):  # the last slot is over, and may be lost
        rows[phase, On.FEEDBACK] = Transition("finish", P.FINISHED)
    rows[P.WAITING, On.ALL_DONE] = Transition("finish", P.FINISHED)  # by its clock
    # Slots can be skipped, so a closing of a slot before the last one may come at any time.
    for phase in (P.SERVING, P.FINISHED):
        for event in (On.CLOSING, On.LACKING, On.LOST):
            rows[phase, event] = Transition("misplaced", phase)
    return Table("series_keeper", KEEPER.events, rows)


SERIES_AGENT = _agent()
SERIES_COORDINATOR = _coordinator()
SERIES_KEEPER = _keeper()
