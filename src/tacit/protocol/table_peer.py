"""An agent of the distributed mechanism: what it does when, as data."""

from __future__ import annotations

from tacit.protocol.tables import On, PeerPhase, Row, Table, table


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

    def present(phase: PeerPhase) -> dict[tuple[On, ...], Row]:
        return {
            starts: Row("misplaced", phase),
            (On.TICK,): Row("tick", phase),
            (On.LEFT,): Row("ignore", phase),  # the deadline decides
            (On.JOINED,): Row("greet", phase),
            (On.ASKED,): Row("answer", phase),
            (On.PAST,): Row("refuse", phase),
            (On.CONTRADICTED,): Row("accuse", phase),
            (On.REFUSED,): Row("refuse", phase),
        }

    def running(phase: PeerPhase) -> dict[tuple[On, ...], Row]:
        return present(phase) | {
            (On.REPORT,): Row("keep", phase),
            (On.PRESENT,): Row("arrived", phase),
            (On.DONE,): Row("note_done", phase),
            (On.QUIET,): Row("note_quiet", phase),
            (On.NOISE,): Row("take_noise", phase),
            (On.HALT,): Row("leave", P.STOPPED),
            (On.EXPIRED,): Row("expire", P.STOPPED),
        }

    def served(phase: PeerPhase) -> dict[tuple[On, ...], Row]:
        return present(phase) | {
            (On.PRESENT,): Row("arrived", phase),
            (On.DONE,): Row("note_done", phase),
            (On.QUIET,): Row("note_quiet", phase),
            (On.NOISE,): Row("misplaced", phase),
            (On.HALT,): Row("ignore", phase),
            (On.EXPIRED,): Row("finish" if phase is P.SERVING else "ignore", P.FINISHED),
            (On.REPORT,): Row("impossible", phase),
        }

    return table(
        "peer",
        (*outer, *inner),
        {
            P.IDLE: {
                (On.START,): Row("enter", P.GATHERING),
                (On.OVER,): Row("decline", P.DECLINED),
                (On.ENDED,): Row("say_stopped", P.STOPPED),
                (On.HALT,): Row("ignore", P.STOPPED),
                (On.EXPIRED,): Row("expire", P.STOPPED),
                (On.TICK, On.JOINED, On.LEFT): Row("ignore", P.IDLE),
                (*heard, On.NOISE, On.CONTRADICTED): Row("misplaced", P.IDLE),
                (On.REFUSED,): Row("refuse", P.IDLE),
                inner: Row("impossible", P.IDLE),
            },
            P.GATHERING: running(P.GATHERING)
            | {
                (On.LEFT,): Row("left", P.GATHERING),
                (On.ENOUGH,): Row("ignore", P.CHOOSING),
                without(On.ENOUGH): Row("impossible", P.GATHERING),
            },
            P.CHOOSING: {  # never rests here: one of these holds
                (On.TURN,): Row("ignore", P.DRAWING),
                (On.SAID,): Row("say_again", P.COLLECTING),
                (On.SKIP,): Row("follow", P.FOLLOWING),
                (On.CAPPED,): Row("fall_silent", P.FOLLOWING),
                (On.LAST,): Row("serve", P.SERVING),
                (*outer, On.ENOUGH, On.READY, On.MOVE, On.ALL_DONE): Row("impossible", P.CHOOSING),
            },
            P.DRAWING: running(P.DRAWING)
            | {
                (On.READY,): Row("speak", P.COLLECTING),
                without(On.READY): Row("impossible", P.DRAWING),
            },
            P.COLLECTING: running(P.COLLECTING)
            | {
                (On.MOVE,): Row("move", P.CHOOSING),
                without(On.MOVE): Row("impossible", P.COLLECTING),
            },
            P.FOLLOWING: running(P.FOLLOWING)
            | {
                (On.MOVE,): Row("move", P.CHOOSING),
                without(On.MOVE): Row("impossible", P.FOLLOWING),
            },
            P.SERVING: served(P.SERVING)
            | {
                (On.ALL_DONE,): Row("finish", P.FINISHED),
                without(On.ALL_DONE): Row("impossible", P.SERVING),
            },
            P.FINISHED: served(P.FINISHED) | {inner: Row("impossible", P.FINISHED)},
            P.STOPPED: present(P.STOPPED)
            | {
                (On.REPORT, On.PRESENT, On.DONE, On.QUIET): Row("say_stopped", P.STOPPED),
                (On.NOISE,): Row("misplaced", P.STOPPED),
                (On.HALT, On.EXPIRED): Row("ignore", P.STOPPED),
                inner: Row("impossible", P.STOPPED),
            },
            P.DECLINED: {
                starts: Row("misplaced", P.DECLINED),
                (*heard, On.NOISE, On.CONTRADICTED): Row("misplaced", P.DECLINED),
                (On.REFUSED,): Row("refuse", P.DECLINED),
                (On.TICK, On.JOINED, On.LEFT, On.HALT, On.EXPIRED): Row("ignore", P.DECLINED),
                inner: Row("impossible", P.DECLINED),
            },
        },
    )


PEER = _peer()
