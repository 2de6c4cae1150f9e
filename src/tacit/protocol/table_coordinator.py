"""The transitions of the coordinator, as data."""

from __future__ import annotations

from tacit.protocol.tables import CoordinatorPhase, On, Table, Transition, table


def _coordinator() -> Table:
    P = CoordinatorPhase
    starts = (On.START, On.ENDED)
    inner = (On.ENOUGH, On.RESUMED, On.COMPLETE, On.MOVE, On.LAST, On.ALL_DONE)
    heard = (On.PRESENT, On.REPORT, On.LATE, On.ASKED, On.DONE, On.QUIET, On.PAST, On.LOST)
    outer = (
        *starts, *heard, On.TICK, On.JOINED, On.LEFT, On.HALT, On.EXPIRED, On.CONTRADICTED, On.REFUSED,
    )  # fmt: skip

    def without(*some: On) -> tuple[On, ...]:
        return tuple(event for event in inner if event not in some)

    def running(phase: CoordinatorPhase) -> dict[tuple[On, ...], Transition]:
        return {
            starts: Transition("misplaced", phase),
            (On.TICK,): Transition("tick", phase),
            (On.LEFT,): Transition("ignore", phase),  # the deadline decides
            (On.HALT,): Transition("halt", P.STOPPED),
            (On.EXPIRED,): Transition("expire", P.STOPPED),
            (On.QUIET,): Transition("note_quiet", phase),
            (On.LOST,): Transition("lost", phase),
            (On.CONTRADICTED,): Transition("accuse", phase),
            (On.REFUSED,): Transition("refuse", phase),
        }

    def serving(phase: CoordinatorPhase) -> dict[tuple[On, ...], Transition]:
        return running(phase) | {
            (On.PRESENT,): Transition("arrived", phase),
            (On.LATE,): Transition("late", phase),
            (On.PAST,): Transition("past_report", phase),
            (On.ASKED,): Transition("answer", phase),
            (On.DONE,): Transition("note_done", phase),
            (On.JOINED,): Transition("nudge", phase),
            (On.HALT,): Transition("ignore", phase),
            (On.EXPIRED,): Transition("finish" if phase is P.SERVING else "ignore", P.FINISHED),
        }

    return table(
        "coordinator",
        (*outer, *inner),
        {
            P.IDLE: {
                (On.START,): Transition("enter", P.GATHERING),
                (On.ENDED,): Transition("say_stopped", P.STOPPED),
                (On.HALT,): Transition("halt", P.STOPPED),
                (On.EXPIRED,): Transition("expire", P.STOPPED),
                (On.COMPLETE,): Transition("finish", P.FINISHED),  # and it has expired
                (On.TICK, On.JOINED, On.LEFT): Transition("ignore", P.IDLE),
                (*heard, On.CONTRADICTED): Transition("misplaced", P.IDLE),
                (On.REFUSED,): Transition("refuse", P.IDLE),
                without(On.COMPLETE): Transition("impossible", P.IDLE),
            },
            P.GATHERING: running(P.GATHERING)
            | {
                (On.PRESENT, On.ASKED): Transition("arrived", P.GATHERING),
                (On.REPORT,): Transition("early", P.GATHERING),
                (On.JOINED,): Transition("ignore", P.GATHERING),
                (On.LEFT,): Transition("left", P.GATHERING),
                (On.ENOUGH,): Transition("open_first", P.COLLECTING),
                (On.RESUMED,): Transition("reopen", P.COLLECTING),
                (On.COMPLETE,): Transition("serve_again", P.SERVING),
                (On.LATE, On.DONE, On.PAST): Transition("impossible", P.GATHERING),
                without(On.ENOUGH, On.RESUMED, On.COMPLETE): Transition("impossible", P.GATHERING),
            },
            P.COLLECTING: running(P.COLLECTING)
            | {
                (On.PRESENT,): Transition("arrived", P.COLLECTING),
                (On.REPORT,): Transition("take_report", P.COLLECTING),
                (On.LATE,): Transition("late", P.COLLECTING),
                (On.PAST,): Transition("past_report", P.COLLECTING),
                (On.ASKED,): Transition("answer", P.COLLECTING),
                (On.JOINED,): Transition("nudge", P.COLLECTING),
                (On.MOVE,): Transition("close", P.COLLECTING),
                (On.LAST,): Transition("close", P.SERVING),
                (On.DONE,): Transition("impossible", P.COLLECTING),
                without(On.MOVE, On.LAST): Transition("impossible", P.COLLECTING),
            },
            P.SERVING: serving(P.SERVING)
            | {
                (On.ALL_DONE,): Transition("finish", P.FINISHED),
                (On.REPORT,): Transition("impossible", P.SERVING),
                without(On.ALL_DONE): Transition("impossible", P.SERVING),
            },
            P.FINISHED: serving(P.FINISHED)
            | {
                (On.REPORT,): Transition("impossible", P.FINISHED),
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


COORDINATOR = _coordinator()
