"""The transitions of an agent of the distributed mechanism, as data."""

from __future__ import annotations

from tacit.protocol.tables import On, PeerPhase, Table, Transition, table


def _peer() -> Table:
    P = PeerPhase
    starts = (On.START, On.OVER, On.ENDED)
    inner = (
        On.ENOUGH, On.TURN, On.SAID, On.SKIP, On.CAPPED, On.READY, On.MOVE, On.LAST, On.ALL_DONE,
    )  # fmt: skip
    heard = (On.REPORT, On.PRESENT, On.ASKED, On.DONE, On.QUIET, On.PAST)
    outer = (
        *starts, *heard, On.NOISE, On.TICK, On.JOINED, On.LEFT, On.HALT, On.EXPIRED, On.CONTRADICTED,
        On.REFUSED,
    )  # fmt: skip

    def without(*some: On) -> tuple[On, ...]:
        return tuple(event for event in inner if event not in some)

    def present(phase: PeerPhase) -> dict[tuple[On, ...], Transition]:
        return {
            starts: Transition("misplaced", phase),
            (On.TICK,): Transition("tick", phase),
            (On.LEFT,): Transition("ignore", phase),  # the deadline decides
            (On.JOINED,): Transition("greet", phase),
            (On.ASKED,): Transition("answer", phase),
            (On.PAST,): Transition("refuse", phase),
            (On.CONTRADICTED,): Transition("accuse", phase),
            (On.REFUSED,): Transition("refuse", phase),
        }

    def running(phase: PeerPhase) -> dict[tuple[On, ...], Transition]:
        return present(phase) | {
            (On.REPORT,): Transition("keep", phase),
            (On.PRESENT,): Transition("arrived", phase),
            (On.DONE,): Transition("note_done", phase),
            (On.QUIET,): Transition("note_quiet", phase),
            (On.NOISE,): Transition("take_noise", phase),
            (On.HALT,): Transition("leave", P.STOPPED),
            (On.EXPIRED,): Transition("expire", P.STOPPED),
        }

    def served(phase: PeerPhase) -> dict[tuple[On, ...], Transition]:
        return present(phase) | {
            (On.PRESENT,): Transition("arrived", phase),
            (On.DONE,): Transition("note_done", phase),
            (On.QUIET,): Transition("note_quiet", phase),
            (On.NOISE,): Transition("misplaced", phase),
            (On.HALT,): Transition("ignore", phase),
            (On.EXPIRED,): Transition("finish" if phase is P.SERVING else "ignore", P.FINISHED),
            (On.REPORT,): Transition("impossible", phase),
        }

    return table(
        "peer",
        (*outer, *inner),
        {
            P.IDLE: {
                (On.START,): Transition("enter", P.GATHERING),
                (On.OVER,): Transition("decline", P.DECLINED),
                (On.ENDED,): Transition("say_stopped", P.STOPPED),
                (On.HALT,): Transition("ignore", P.STOPPED),
                (On.EXPIRED,): Transition("expire", P.STOPPED),
                (On.TICK, On.JOINED, On.LEFT): Transition("ignore", P.IDLE),
                (*heard, On.NOISE, On.CONTRADICTED): Transition("misplaced", P.IDLE),
                (On.REFUSED,): Transition("refuse", P.IDLE),
                inner: Transition("impossible", P.IDLE),
            },
            P.GATHERING: running(P.GATHERING)
            | {
                (On.LEFT,): Transition("left", P.GATHERING),
                (On.ENOUGH,): Transition("ignore", P.CHOOSING),
                without(On.ENOUGH): Transition("impossible", P.GATHERING),
            },
            P.CHOOSING: {  # never rests here: one of these holds
                (On.TURN,): Transition("ignore", P.DRAWING),
                (On.SAID,): Transition("say_again", P.COLLECTING),
                (On.SKIP,): Transition("follow", P.FOLLOWING),
                (On.CAPPED,): Transition("fall_silent", P.FOLLOWING),
                (On.LAST,): Transition("serve", P.SERVING),
                (*outer, On.ENOUGH, On.READY, On.MOVE, On.ALL_DONE): Transition("impossible", P.CHOOSING),
            },
            P.DRAWING: running(P.DRAWING)
            | {
                (On.READY,): Transition("speak", P.COLLECTING),
                without(On.READY): Transition("impossible", P.DRAWING),
            },
            P.COLLECTING: running(P.COLLECTING)
            | {
                (On.MOVE,): Transition("move", P.CHOOSING),
                without(On.MOVE): Transition("impossible", P.COLLECTING),
            },
            P.FOLLOWING: running(P.FOLLOWING)
            | {
                (On.MOVE,): Transition("move", P.CHOOSING),
                without(On.MOVE): Transition("impossible", P.FOLLOWING),
            },
            P.SERVING: served(P.SERVING)
            | {
                (On.ALL_DONE,): Transition("finish", P.FINISHED),
                without(On.ALL_DONE): Transition("impossible", P.SERVING),
            },
            P.FINISHED: served(P.FINISHED) | {inner: Transition("impossible", P.FINISHED)},
            P.STOPPED: present(P.STOPPED)
            | {
                (On.REPORT, On.PRESENT, On.DONE, On.QUIET): Transition("say_stopped", P.STOPPED),
                (On.NOISE,): Transition("misplaced", P.STOPPED),
                (On.HALT, On.EXPIRED): Transition("ignore", P.STOPPED),
                inner: Transition("impossible", P.STOPPED),
            },
            P.DECLINED: {
                starts: Transition("misplaced", P.DECLINED),
                (*heard, On.NOISE, On.CONTRADICTED): Transition("misplaced", P.DECLINED),
                (On.REFUSED,): Transition("refuse", P.DECLINED),
                (On.TICK, On.JOINED, On.LEFT, On.HALT, On.EXPIRED): Transition("ignore", P.DECLINED),
                inner: Transition("impossible", P.DECLINED),
            },
        },
    )


PEER = _peer()
