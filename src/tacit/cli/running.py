"""What long-running verbs share: options, signals, log, exit codes."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, final

import click

from tacit.base.errors import CapExceeded, Disputed, InputError, LedgerError, SessionOver, TacitError
from tacit.base.lazy import import_late
from tacit.cli import options
from tacit.cli.notice_log import NoticeLog
from tacit.cli.status_place import StatusPlace, status_options

if TYPE_CHECKING:
    from tacit.core.protocol.notices import Notice
    from tacit.core.protocol.session import Session
    from tacit.live.identity.identity import Identity
    from tacit.live.ledger.group_commit import Taker
    from tacit.live.runtime.participant import Participant
    from tacit.live.runtime.telling import Throttled
    from tacit.live.status.status import Status

FINISHED, UNUSABLE, REFUSED, DISK, UNFINISHED, STOPPED = 0, 2, 3, 4, 5, 130
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
_LONGEST = 86_400.0  # seconds per round


def common_options(command: F) -> F:
    """Add the options of every long-running verb."""
    existing = click.Path(exists=True, path_type=Path)
    for option in (
        options.json_option,
        click.option(
            "--timeout",
            type=options.NUMBER,
            help="Stop after this many seconds (exit code 5).  [default: when the session expires]",
        ),
        status_options,
        click.option(
            "--log",
            type=click.Path(dir_okay=False, path_type=Path),
            help="Write the log here, as JSON lines.",
        ),
        click.option(
            "--transcript",
            type=click.Path(dir_okay=False, path_type=Path),
            help="Record what an adversary could see in this file.",
        ),
        click.option(
            "--ledger",
            type=click.Path(dir_okay=False, path_type=Path),
            required=True,
            help="File in which every message is saved before it is sent. Never restore it from a backup.",
        ),
        click.option("--keys", type=existing, required=True, help="Directory of keys (tacit keys)."),
        click.argument("session_file", metavar="SESSION", type=existing),
    ):
        command = option(command)
    return command


def pace_option(command: F) -> F:
    """Add --pace, for members that begin rounds; keepers only answer."""
    option = click.option(
        "--pace", type=options.NUMBER, default=0.0, show_default=True, help="Minimum seconds per round."
    )
    return option(command)


def witness_option(command: F) -> F:
    """Add --witness, for members that must not go on from a restored ledger."""
    option = click.option(
        "--witness",
        type=click.Path(dir_okay=False, path_type=Path),
        help="A file on another disk or host that detects a ledger restored from a backup (tacit ledger "
        "witness).",
    )
    return option(command)


def spare_numpy() -> None:
    """Load numpy when it is used, and without a thread for every core.

    A member multiplies no matrices, and its whole numbers are Python's own. It needs numpy for vectors.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    import_late("numpy")


@dataclasses.dataclass(frozen=True)
class Options:
    """The common options as they were given."""

    ledger: Path
    transcript: Path | None
    log: Path | None
    place: StatusPlace
    timeout: float | None
    pace: float = 0.0

    @classmethod
    def taken(cls, given: dict[str, Any]) -> Options:
        """Take the common options out of a command's options."""
        place, own = StatusPlace.taken(given), [field.name for field in dataclasses.fields(cls)]
        taken = cls(place=place, **{name: given.pop(name) for name in own if name in given})
        if not 0 <= taken.pace <= _LONGEST:
            raise InputError(f"--pace must be from 0 to {_LONGEST:g} seconds, got {taken.pace:g}.")
        if taken.timeout is not None and not taken.timeout > 0:
            raise InputError(f"--timeout must be above 0 seconds, got {taken.timeout:g}.")
        return taken

    def require_apart(self) -> None:
        """Refuse one file for two purposes: a log would destroy the ledger."""
        ledger = self.ledger.resolve()
        kept = [ledger, *(ledger.with_name(ledger.name + rest) for rest in (".mark", "-wal"))]
        kept += [path.resolve() for path in (self.transcript, self.log) if path is not None]
        if len(set(kept)) < len(kept):
            raise InputError("the ledger, the transcript and the log must be different files: rename one.")


@contextmanager
def prepared(session: Session, who: int, given: Options, identity: Identity | None = None) -> Iterator[Run]:
    """Open the log, transcript and status of a member.

    An exception becomes a sentence and an exit code. `identity` signs the frames that only the member's own
    transcript has: see `TranscriptWriter`.
    """
    from tacit.live.runtime.limits import leave_no_core
    from tacit.live.runtime.telling import Throttled
    from tacit.live.status.status import Status

    leave_no_core()
    with exits(), ExitStack() as stack:
        given.require_apart()
        whose = {"session": session.name, "id": session.id.hex()[:16], "member": session.member_name(who)}
        log = stack.enter_context(NoticeLog(given.log, whose, session))
        takers: list[Taker] = []
        if given.transcript is not None:
            from tacit.live.runtime.transcript import TranscriptWriter

            # The transcript is not flushed: what a crash loses here is restored from the ledger at a restart.
            sign = None if identity is None else identity.sign
            writer = TranscriptWriter(given.transcript, session, who, durable=False, sign=sign)
            takers.append(stack.enter_context(writer))
        status = Status(session, who)
        if given.place.at is not None:
            takers.append(status)
        yield Run(given, identity, Throttled(log), status, takers)


@final
@dataclasses.dataclass
class Run:
    """What a member is made with (`about`); `drive` runs it."""

    given: Options
    identity: Identity | None
    tell: Throttled
    status: Status
    takers: list[Taker]

    @property
    def about(self) -> dict[str, Any]:
        """What a member of any role is made with."""
        return {
            "ledger": self.given.ledger,
            "identity": self.identity,
            "takers": self.takers,
            "watch": self.watch,
            "trouble": self.trouble,
        }

    def watch(self, notice: Notice) -> None:
        """Show and log a notice."""
        if self.given.place.at is not None:
            self.status.notice(notice)
        self.tell(notice)

    def trouble(self, why: str) -> None:
        """Show and log why there is no connection."""
        from tacit.live.runtime.process_notices import Trouble

        self.tell(Trouble(why))

    def drive(self, member: Participant) -> Any:
        """Run a member and return its result; `OutOfTime` after `--timeout`."""
        return run(lambda: self._driven(member))

    async def _driven(self, member: Any) -> Any:
        from tacit.live.runtime.process_notices import StatusServed

        async with AsyncExitStack() as stack:
            self.status.watch_network(member.network)
            if self.given.place.at is not None:
                # Imported early: once the process has run out of file descriptors, none can be opened.
                import prometheus_client.core
                import prometheus_client.registry  # noqa: F401

                server = await stack.enter_async_context(self.given.place.server(self.status))
                self.tell(StatusServed(server.url))
            await stack.enter_async_context(member)
            try:
                async with asyncio.timeout(self.given.timeout):
                    return await member.result()
            except TimeoutError:
                raise OutOfTime from None


@contextmanager
def exits(stopped: int = STOPPED) -> Iterator[None]:
    """Turn exceptions that end a run into a sentence and an exit code.

    `stopped` is the exit code after Ctrl-C or SIGHUP.
    """
    try:
        yield
    except CapExceeded as error:
        leave(f"Refused: {error}", REFUSED)
    except SessionOver:
        raise  # `failures` turns it into an exit code; the caller may have something to save first
    except LedgerError as error:
        leave(f"Error: {error}", DISK)
    except Disputed as error:
        leave(f"Stopped: {error}", UNFINISHED)
    except TacitError as error:
        leave(f"Error: {error}", UNUSABLE)
    except OutOfTime:
        leave("The session did not end in time; run the same command again to continue.", UNFINISHED)
    except StoppedBySignal as signalled:
        # SIGTERM is how a supervisor ends a service: nothing has failed.
        code = FINISHED if signalled.number == signal.SIGTERM else stopped
        leave("Stopped; run the same command again to resume.", code)


def leave(sentence: str, code: int) -> NoReturn:
    """Print one sentence and exit with a code."""
    click.echo(" ".join(sentence.split()), err=True)
    raise click.exceptions.Exit(code)


class OutOfTime(Exception):
    """The session did not end within `--timeout`."""


class StoppedBySignal(Exception):
    """SIGTERM, SIGINT or SIGHUP was received; `number` says which."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def run(main: Callable[[], Awaitable[T]], hangup: Callable[[], None] | None = None) -> T:
    """Run until done; a signal cancels the task, which then cleans up.

    `hangup` is called at SIGHUP instead, unless this is a terminal that was closed.
    """

    async def guarded() -> T:
        task = asyncio.ensure_future(main())
        loop, received = asyncio.get_running_loop(), list[int]()

        def stop(number: int) -> None:
            received.append(number)
            task.cancel()

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, stop, number)
        if hangup is not None and not sys.stderr.isatty():
            loop.add_signal_handler(signal.SIGHUP, hangup)
        try:
            return await task
        except asyncio.CancelledError:
            if received:
                raise StoppedBySignal(received[0]) from None
            raise

    return asyncio.run(guarded())
