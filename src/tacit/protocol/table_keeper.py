"""The transitions of a keeper, as data."""

from __future__ import annotations

from tacit.protocol.tables import KeeperPhase, On, Table, Transition, table


def _keeper() -> Table:
    P = KeeperPhase
    starts = (On.START, On.COMPLETE, On.DONE, On.ENDED)
    inner = (On.READY, On.LAST, On.ALL_DONE)
    told = (On.KEY, On.CLOSING, On.LACKING, On.LOST, On.PAST, On.FEEDBACK, On.ASKED)
    heard = (On.CONTRADICTED, On.STOP, *told)
    outer = (*starts, *heard, On.NOISE, On.TICK, On.JOINED, On.LEFT, On.HALT, On.EXPIRED, On.REFUSED)

    def quiet(phase: KeeperPhase) -> dict[tuple[On, ...], Transition]:
        return {
            starts: Transition("misplaced", phase),
            (On.LEFT,): Transition("ignore", phase),
            (On.TICK,): Transition("tick", phase),
            (On.REFUSED,): Transition("refuse", phase),
            (On.CONTRADICTED,): Transition("accuse", phase),
        }

    def running(phase: KeeperPhase) -> dict[tuple[On, ...], Transition]:
        return quiet(phase) | {
            (On.KEY,): Transition("take_key", phase),
            (On.LACKING,): Transition("ask_for_keys", phase),
            (On.LOST,): Transition("lost", phase),
            (On.PAST,): Transition("repeat", phase),
            (On.ASKED,): Transition("ignore", phase),
            (On.STOP,): Transition("end", P.STOPPED),
            (On.HALT,): Transition("leave", P.STOPPED),
            (On.EXPIRED,): Transition("expire", P.STOPPED),
            (On.JOINED,): Transition("say_again", phase),
            (On.NOISE,): Transition("take_noise", phase),
        }

    def over(phase: KeeperPhase) -> dict[tuple[On, ...], Transition]:
        return quiet(phase) | {
            (On.KEY, On.ASKED): Transition("ignore", phase),
            (On.NOISE,): Transition("misplaced", phase),
        }

    return table(
        "keeper",
        (*outer, *inner),
        {
            P.IDLE: {
                (On.START,): Transition("enter", P.WAITING),
                (On.COMPLETE,): Transition("serve_again", P.SERVING),
                (On.DONE,): Transition("ignore", P.FINISHED),
                (On.ENDED,): Transition("ignore", P.STOPPED),
                (On.HALT,): Transition("ignore", P.STOPPED),
                (On.EXPIRED,): Transition("expire", P.STOPPED),
                (On.TICK, On.JOINED, On.LEFT): Transition("ignore", P.IDLE),
                (*heard, On.NOISE): Transition("misplaced", P.IDLE),
                (On.REFUSED,): Transition("refuse", P.IDLE),
                inner: Transition("impossible", P.IDLE),
            },
            P.WAITING: running(P.WAITING)
            | {
                (On.CLOSING,): Transition("take_closing", P.DRAWING),
                (On.LAST,): Transition("serve", P.SERVING),
                (On.FEEDBACK, On.READY, On.ALL_DONE): Transition("impossible", P.WAITING),
            },
            P.DRAWING: running(P.DRAWING)
            | {
                (On.CLOSING,): Transition("ignore", P.DRAWING),  # the very one that is answered now
                (On.READY,): Transition("disclose", P.WAITING),
                (On.FEEDBACK, On.LAST, On.ALL_DONE): Transition("impossible", P.DRAWING),
            },
            P.SERVING: over(P.SERVING)
            | {
                (On.LEFT,): Transition("wait_for_return", P.SERVING),
                (On.PAST,): Transition("repeat", P.SERVING),
                (On.CLOSING, On.LACKING, On.LOST): Transition("impossible", P.SERVING),
                (On.FEEDBACK,): Transition("finish", P.FINISHED),
                (On.STOP,): Transition("end", P.STOPPED),
                (On.HALT, On.EXPIRED): Transition("finish", P.FINISHED),  # nothing is left to be opened
                (On.JOINED,): Transition("serve_again", P.SERVING),
                (On.ALL_DONE,): Transition("finish", P.FINISHED),
                (On.READY, On.LAST): Transition("impossible", P.SERVING),
            },
            P.FINISHED: over(P.FINISHED)
            | {
                (On.PAST,): Transition("repeat", P.FINISHED),
                (On.CLOSING, On.LACKING, On.LOST): Transition("impossible", P.FINISHED),
                (On.FEEDBACK, On.STOP, On.HALT, On.EXPIRED, On.JOINED): Transition("ignore", P.FINISHED),
                inner: Transition("impossible", P.FINISHED),
            },
            P.STOPPED: over(P.STOPPED)
            | {
                (On.PAST, On.CLOSING, On.LACKING, On.LOST, On.JOINED): Transition("say_stopped", P.STOPPED),
                (On.FEEDBACK, On.STOP, On.HALT, On.EXPIRED): Transition("ignore", P.STOPPED),
                inner: Transition("impossible", P.STOPPED),
            },
        },
    )


KEEPER = _keeper()
