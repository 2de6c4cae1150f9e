"""The transitions of an agent of the client-server mechanism, as data."""

from __future__ import annotations

from tacit.protocol.tables import AgentPhase, On, Table, Transition, table


def _agent() -> Table:
    P = AgentPhase
    starts = (On.START, On.OVER, On.ENDED)
    inner = (On.TURN, On.SAID, On.CAPPED, On.READY, On.MOVE, On.FORKED, On.MISNAMED, On.LAST)
    heard = (On.FEEDBACK, On.ASKED, On.STOP, On.NOISE, On.PAST, On.FORGOTTEN, On.CONTRADICTED)
    outer = (*starts, *heard, On.TICK, On.JOINED, On.LEFT, On.HALT, On.EXPIRED, On.REFUSED)

    def quiet(phase: AgentPhase) -> dict[tuple[On, ...], Transition]:
        return {
            starts: Transition("misplaced", phase),
            (On.LEFT,): Transition("ignore", phase),
            (On.TICK,): Transition("tick", phase),
            (On.REFUSED,): Transition("refuse", phase),
        }

    def running(phase: AgentPhase) -> dict[tuple[On, ...], Transition]:
        return quiet(phase) | {
            (On.STOP,): Transition("end", P.STOPPED),
            (On.HALT,): Transition("leave", P.STOPPED),
            (On.EXPIRED,): Transition("expire", P.STOPPED),
            (On.NOISE,): Transition("take_noise", phase),
            (On.JOINED,): Transition("say_again", phase),
            (On.PAST,): Transition("refuse", phase),
            (On.FORGOTTEN,): Transition("remind", phase),
            (On.CONTRADICTED,): Transition("accuse", phase),
        }

    return table(
        "agent",
        (*outer, *inner),
        {
            P.IDLE: {
                (On.START,): Transition("enter", P.WAITING),
                (On.OVER,): Transition("decline", P.DECLINED),
                (On.ENDED,): Transition("ignore", P.STOPPED),
                (On.HALT,): Transition("ignore", P.STOPPED),
                (On.EXPIRED,): Transition("expire", P.STOPPED),
                (On.TICK, On.JOINED, On.LEFT): Transition("ignore", P.IDLE),
                heard: Transition("misplaced", P.IDLE),
                (On.REFUSED,): Transition("refuse", P.IDLE),
                inner: Transition("impossible", P.IDLE),
            },
            P.WAITING: running(P.WAITING)
            | {
                (On.FEEDBACK,): Transition("keep", P.WAITING),
                (On.ASKED,): Transition("opened", P.WAITING),
                (On.SAID,): Transition("say_again", P.SPOKEN),
                (On.TURN,): Transition("ignore", P.DRAWING),
                (On.CAPPED,): Transition("fall_silent", P.SILENT),
                (On.MOVE,): Transition("move", P.WAITING),
                (On.FORKED,): Transition("drop", P.WAITING),
                (On.MISNAMED,): Transition("dispute", P.STOPPED),
                (On.LAST,): Transition("finish", P.FINISHED),
                (On.READY,): Transition("impossible", P.WAITING),
            },
            P.DRAWING: running(P.DRAWING)
            | {
                # Back to waiting, to choose again: the round may be over by now.
                (On.FEEDBACK,): Transition("keep", P.WAITING),
                (On.ASKED,): Transition("opened", P.WAITING),
                (On.READY,): Transition("speak", P.SPOKEN),
                tuple(e for e in inner if e is not On.READY): Transition("impossible", P.DRAWING),
            },
            P.SPOKEN: running(P.SPOKEN)
            | {
                (On.FEEDBACK,): Transition("keep", P.SPOKEN),
                (On.ASKED,): Transition("repeat", P.SPOKEN),
                (On.MOVE,): Transition("move", P.WAITING),
                (On.FORKED,): Transition("drop", P.SPOKEN),
                (On.LAST, On.TURN, On.SAID, On.CAPPED, On.READY, On.MISNAMED): Transition(
                    "impossible", P.SPOKEN
                ),
            },
            P.SILENT: running(P.SILENT)
            | {
                (On.FEEDBACK,): Transition("keep", P.SILENT),
                (On.ASKED,): Transition("opened", P.SILENT),
                (On.MOVE,): Transition("move", P.SILENT),
                (On.FORKED,): Transition("drop", P.SILENT),
                (On.MISNAMED,): Transition("dispute", P.STOPPED),
                (On.LAST,): Transition("finish", P.FINISHED),
                (On.TURN, On.SAID, On.CAPPED, On.READY): Transition("impossible", P.SILENT),
            },
            P.FINISHED: quiet(P.FINISHED)
            | {
                (On.PAST, On.JOINED): Transition("say_done", P.FINISHED),
                (On.FORGOTTEN,): Transition("remind", P.FINISHED),
                (On.CONTRADICTED,): Transition("accuse", P.FINISHED),
                (On.STOP, On.HALT, On.EXPIRED): Transition("ignore", P.FINISHED),
                (On.NOISE,): Transition("misplaced", P.FINISHED),
                (On.FEEDBACK, On.ASKED, *inner): Transition("impossible", P.FINISHED),
            },
            P.STOPPED: quiet(P.STOPPED)
            | {
                (On.FEEDBACK, On.ASKED, On.PAST, On.FORGOTTEN, On.JOINED): Transition(
                    "say_stopped", P.STOPPED
                ),
                (On.CONTRADICTED,): Transition("accuse", P.STOPPED),
                (On.STOP, On.HALT, On.EXPIRED): Transition("ignore", P.STOPPED),
                (On.NOISE,): Transition("misplaced", P.STOPPED),
                inner: Transition("impossible", P.STOPPED),
            },
            P.DECLINED: quiet(P.DECLINED)
            | {
                heard: Transition("misplaced", P.DECLINED),
                (On.JOINED, On.HALT, On.EXPIRED): Transition("ignore", P.DECLINED),
                inner: Transition("impossible", P.DECLINED),
            },
        },
    )


AGENT = _agent()
