"""The coordinator: what it does when, as data."""

from __future__ import annotations

from tacit.protocol.tables import CoordinatorPhase, On, Row, Table, table


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

    def running(phase: CoordinatorPhase) -> dict[tuple[On, ...], Row]:
        return {
            starts: Row("misplaced", phase),
            (On.TICK,): Row("tick", phase),
            (On.LEFT,): Row("ignore", phase),  # the deadline decides
            (On.HALT,): Row("halt", P.STOPPED),
            (On.EXPIRED,): Row("expire", P.STOPPED),
            (On.QUIET,): Row("note_quiet", phase),
            (On.LOST,): Row("lost", phase),
            (On.CONTRADICTED,): Row("accuse", phase),
            (On.REFUSED,): Row("refuse", phase),
        }

    def serving(phase: CoordinatorPhase) -> dict[tuple[On, ...], Row]:
        return running(phase) | {
            (On.PRESENT,): Row("arrived", phase),
            (On.LATE,): Row("late", phase),
            (On.PAST,): Row("past_report", phase),
            (On.ASKED,): Row("answer", phase),
            (On.DONE,): Row("note_done", phase),
            (On.JOINED,): Row("nudge", phase),
            (On.HALT,): Row("ignore", phase),
            (On.EXPIRED,): Row("finish" if phase is P.SERVING else "ignore", P.FINISHED),
        }

    return table(
        "coordinator",
        (*outer, *inner),
        {
            P.IDLE: {
                (On.START,): Row("enter", P.GATHERING),
                (On.ENDED,): Row("say_stopped", P.STOPPED),
                (On.HALT,): Row("halt", P.STOPPED),
                (On.EXPIRED,): Row("expire", P.STOPPED),
                (On.COMPLETE,): Row("finish", P.FINISHED),  # and it has expired
                (On.TICK, On.JOINED, On.LEFT): Row("ignore", P.IDLE),
                (*heard, On.CONTRADICTED): Row("misplaced", P.IDLE),
                (On.REFUSED,): Row("refuse", P.IDLE),
                without(On.COMPLETE): Row("impossible", P.IDLE),
            },
            P.GATHERING: running(P.GATHERING)
            | {
                (On.PRESENT, On.ASKED): Row("arrived", P.GATHERING),
                (On.REPORT,): Row("early", P.GATHERING),
                (On.JOINED,): Row("ignore", P.GATHERING),
                (On.LEFT,): Row("left", P.GATHERING),
                (On.ENOUGH,): Row("open_first", P.COLLECTING),
                (On.RESUMED,): Row("reopen", P.COLLECTING),
                (On.COMPLETE,): Row("serve_again", P.SERVING),
                (On.LATE, On.DONE, On.PAST): Row("impossible", P.GATHERING),
                without(On.ENOUGH, On.RESUMED, On.COMPLETE): Row("impossible", P.GATHERING),
            },
            P.COLLECTING: running(P.COLLECTING)
            | {
                (On.PRESENT,): Row("arrived", P.COLLECTING),
                (On.REPORT,): Row("take_report", P.COLLECTING),
                (On.LATE,): Row("late", P.COLLECTING),
                (On.PAST,): Row("past_report", P.COLLECTING),
                (On.ASKED,): Row("answer", P.COLLECTING),
                (On.JOINED,): Row("nudge", P.COLLECTING),
                (On.MOVE,): Row("close", P.COLLECTING),
                (On.LAST,): Row("close", P.SERVING),
                (On.DONE,): Row("impossible", P.COLLECTING),
                without(On.MOVE, On.LAST): Row("impossible", P.COLLECTING),
            },
            P.SERVING: serving(P.SERVING)
            | {
                (On.ALL_DONE,): Row("finish", P.FINISHED),
                (On.REPORT,): Row("impossible", P.SERVING),
                without(On.ALL_DONE): Row("impossible", P.SERVING),
            },
            P.FINISHED: serving(P.FINISHED)
            | {
                (On.REPORT,): Row("impossible", P.FINISHED),
                inner: Row("impossible", P.FINISHED),
            },
            P.STOPPED: {
                starts: Row("misplaced", P.STOPPED),
                (On.TICK,): Row("tick", P.STOPPED),
                (*heard, On.JOINED): Row("say_stopped", P.STOPPED),
                (On.LEFT, On.HALT, On.EXPIRED): Row("ignore", P.STOPPED),
                (On.CONTRADICTED,): Row("accuse", P.STOPPED),
                (On.REFUSED,): Row("refuse", P.STOPPED),
                inner: Row("impossible", P.STOPPED),
            },
        },
    )


COORDINATOR = _coordinator()
