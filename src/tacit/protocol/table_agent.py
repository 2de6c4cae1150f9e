"""An agent of the client-server mechanism: what it does when, as data."""

from __future__ import annotations

from tacit.protocol.tables import AgentPhase, On, Row, Table, table


def _agent() -> Table:
    P = AgentPhase
    starts = (On.START, On.OVER, On.ENDED)
    inner = (On.TURN, On.SAID, On.CAPPED, On.READY, On.MOVE, On.FORKED, On.MISNAMED, On.LAST)
    heard = (On.FEEDBACK, On.ASKED, On.STOP, On.NOISE, On.PAST, On.FORGOTTEN, On.CONTRADICTED)
    outer = (*starts, *heard, On.TICK, On.JOINED, On.LEFT, On.HALT, On.EXPIRED, On.REFUSED)

    def quiet(phase: AgentPhase) -> dict[tuple[On, ...], Row]:
        return {
            starts: Row("misplaced", phase),
            (On.LEFT,): Row("ignore", phase),
            (On.TICK,): Row("tick", phase),
            (On.REFUSED,): Row("refuse", phase),
        }

    def running(phase: AgentPhase) -> dict[tuple[On, ...], Row]:
        return quiet(phase) | {
            (On.STOP,): Row("end", P.STOPPED),
            (On.HALT,): Row("leave", P.STOPPED),
            (On.EXPIRED,): Row("expire", P.STOPPED),
            (On.NOISE,): Row("take_noise", phase),
            (On.JOINED,): Row("say_again", phase),
            (On.PAST,): Row("refuse", phase),
            (On.FORGOTTEN,): Row("remind", phase),
            (On.CONTRADICTED,): Row("accuse", phase),
        }

    return table(
        "agent",
        (*outer, *inner),
        {
            P.IDLE: {
                (On.START,): Row("enter", P.WAITING),
                (On.OVER,): Row("decline", P.DECLINED),
                (On.ENDED,): Row("ignore", P.STOPPED),
                (On.HALT,): Row("ignore", P.STOPPED),
                (On.EXPIRED,): Row("expire", P.STOPPED),
                (On.TICK, On.JOINED, On.LEFT): Row("ignore", P.IDLE),
                heard: Row("misplaced", P.IDLE),
                (On.REFUSED,): Row("refuse", P.IDLE),
                inner: Row("impossible", P.IDLE),
            },
            P.WAITING: running(P.WAITING)
            | {
                (On.FEEDBACK,): Row("keep", P.WAITING),
                (On.ASKED,): Row("opened", P.WAITING),
                (On.SAID,): Row("say_again", P.SPOKEN),
                (On.TURN,): Row("ignore", P.DRAWING),
                (On.CAPPED,): Row("fall_silent", P.SILENT),
                (On.MOVE,): Row("move", P.WAITING),
                (On.FORKED,): Row("drop", P.WAITING),
                (On.MISNAMED,): Row("dispute", P.STOPPED),
                (On.LAST,): Row("finish", P.FINISHED),
                (On.READY,): Row("impossible", P.WAITING),
            },
            P.DRAWING: running(P.DRAWING)
            | {
                # Back to waiting, to choose again: the round may be over by now.
                (On.FEEDBACK,): Row("keep", P.WAITING),
                (On.ASKED,): Row("opened", P.WAITING),
                (On.READY,): Row("speak", P.SPOKEN),
                tuple(e for e in inner if e is not On.READY): Row("impossible", P.DRAWING),
            },
            P.SPOKEN: running(P.SPOKEN)
            | {
                (On.FEEDBACK,): Row("keep", P.SPOKEN),
                (On.ASKED,): Row("repeat", P.SPOKEN),
                (On.MOVE,): Row("move", P.WAITING),
                (On.FORKED,): Row("drop", P.SPOKEN),
                (On.LAST, On.TURN, On.SAID, On.CAPPED, On.READY, On.MISNAMED): Row("impossible", P.SPOKEN),
            },
            P.SILENT: running(P.SILENT)
            | {
                (On.FEEDBACK,): Row("keep", P.SILENT),
                (On.ASKED,): Row("opened", P.SILENT),
                (On.MOVE,): Row("move", P.SILENT),
                (On.FORKED,): Row("drop", P.SILENT),
                (On.MISNAMED,): Row("dispute", P.STOPPED),
                (On.LAST,): Row("finish", P.FINISHED),
                (On.TURN, On.SAID, On.CAPPED, On.READY): Row("impossible", P.SILENT),
            },
            P.FINISHED: quiet(P.FINISHED)
            | {
                (On.PAST, On.JOINED): Row("say_done", P.FINISHED),
                (On.FORGOTTEN,): Row("remind", P.FINISHED),
                (On.CONTRADICTED,): Row("accuse", P.FINISHED),
                (On.STOP, On.HALT, On.EXPIRED): Row("ignore", P.FINISHED),
                (On.NOISE,): Row("misplaced", P.FINISHED),
                (On.FEEDBACK, On.ASKED, *inner): Row("impossible", P.FINISHED),
            },
            P.STOPPED: quiet(P.STOPPED)
            | {
                (On.FEEDBACK, On.ASKED, On.PAST, On.FORGOTTEN, On.JOINED): Row("say_stopped", P.STOPPED),
                (On.CONTRADICTED,): Row("accuse", P.STOPPED),
                (On.STOP, On.HALT, On.EXPIRED): Row("ignore", P.STOPPED),
                (On.NOISE,): Row("misplaced", P.STOPPED),
                inner: Row("impossible", P.STOPPED),
            },
            P.DECLINED: quiet(P.DECLINED)
            | {
                heard: Row("misplaced", P.DECLINED),
                (On.JOINED, On.HALT, On.EXPIRED): Row("ignore", P.DECLINED),
                inner: Row("impossible", P.DECLINED),
            },
        },
    )


AGENT = _agent()
